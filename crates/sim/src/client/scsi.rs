//! The workload's orders as SCSI commands, and what SCSI says in the workload's words.
//!
//! Never: judges an answer.

use crate::node_types::volume_id;
use crate::workload::{COPY_FAILED, Order, Reported, What};
use format::nvme::reservation::PTPL_SET;
use format::nvme::{Status, StatusCode};
use format::scsi::capacity::{LbaRange, build_unmap};
use format::scsi::copy::{CopyList, CopySegment, CopyTarget, ListIdUsage};
use format::scsi::designator::{Designator, naa6};
use format::scsi::reservation::{FullStatus, OutList, ReservationType, ReserveIn, ReserveOut, parse_full_status};
use format::scsi::{BlockRange, ByteCheck, CacheRange, Cdb, Command, PersistentReserveOut, ScsiStatus, SenseCode, SenseKey, WriteSame};
use initiator::io::Io;
use initiator::iscsi::session::Payload;
use initiator::iscsi::{Command as Task, ScsiFailure};
use initiator::reservation::Reservation;

/// Bytes that READ FULL STATUS asks for: room for some ten registrations.
const REPORT_BYTES: u16 = 2048;

/// The command of an order.
///
/// # Panics
/// When SCSI has none: the workload knows which those are.
pub(super) fn command(order: Order) -> Task {
    let Order { op, volume, ns, what } = order;
    let lba = u64::from(ns.lba_bytes);
    let range = |offset: u64, len: u64, fua| BlockRange { lba: offset / lba, blocks: (len / lba) as u32, fua, dpo: false };
    let (command, payload) = match what {
        What::Io(Io::Read { offset, len }) => (Command::Read(range(offset, len.into(), false)), Payload::In(vec![0; len as usize])),
        What::Io(Io::Write { offset, data, fua }) => (Command::Write(range(offset, data.len() as u64, fua)), Payload::Out(data)),
        What::Io(Io::Compare { offset, data }) => {
            let range = range(offset, data.len() as u64, false);
            (Command::Verify { range, check: ByteCheck::All }, Payload::Out(data))
        }
        What::Io(Io::Verify { offset, len }) => {
            (Command::Verify { range: range(offset, len, false), check: ByteCheck::Medium }, Payload::None)
        }
        What::Io(Io::WriteZeroes { offset, len, deallocate }) => {
            let BlockRange { lba: first, blocks, .. } = range(offset, len, false);
            let same = WriteSame { lba: first, blocks, unmap: deallocate, no_data: deallocate };
            // With the block of zeroes, or without one: both mean the same.
            (Command::WriteSame(same), if deallocate { Payload::None } else { Payload::Out(vec![0; lba as usize]) })
        }
        What::Io(Io::Deallocate(ranges)) => {
            let ranges: Vec<LbaRange> =
                ranges.iter().map(|(offset, len)| LbaRange { lba: offset / lba, blocks: (len / lba) as u32 }).collect();
            let list = build_unmap(&ranges);
            (Command::Unmap { list_length: list.len() as u16 }, Payload::Out(list))
        }
        What::Io(Io::Flush) => (Command::SynchronizeCache(CacheRange { lba: 0, blocks: 0, immediate: false }), Payload::None),
        What::Swap { offset, expected, data } => {
            let both = [expected, data].concat();
            (Command::CompareAndWrite(range(offset, both.len() as u64 / 2, false)), Payload::Out(both))
        }
        What::Io(Io::Copy { to, ranges }) => {
            let list = copy_list(volume, to, &ranges, ns.lba_bytes).to_bytes();
            (Command::ExtendedCopy { list_length: list.len() as u32 }, Payload::Out(list))
        }
        What::Reserve(reservation) => reserve(reservation),
        What::Unit { take: true } => (Command::Reserve, Payload::None),
        What::Unit { take: false } => (Command::Release, Payload::None),
        What::Report => {
            let command = Command::PersistentReserveIn { action: ReserveIn::ReadFullStatus, allocation: REPORT_BYTES };
            (command, Payload::In(vec![0; REPORT_BYTES.into()]))
        }
        What::Io(Io::WriteUncorrectable { .. }) => unreachable!("not given to a client over iSCSI"),
    };
    Task { tag: op, lun: ns.nsid.into(), cdb: command.to_cdb(), payload }
}

/// Ranges of bytes of a volume, to one place of it.
fn copy_list(volume: usize, to: u64, ranges: &[(u64, u64)], lba_bytes: u32) -> CopyList {
    let lba = u64::from(lba_bytes);
    let mut destination_lba = to / lba;
    let mut segment = |(offset, len): &(u64, u64)| {
        let blocks = (len / lba) as u16;
        let segment =
            CopySegment { source: 0, destination: 0, blocks, count_destination: false, source_lba: offset / lba, destination_lba };
        destination_lba += u64::from(blocks);
        segment
    };
    let target = CopyTarget { designator: Designator::Naa6(naa6(*volume_id(volume).as_bytes())), block_bytes: lba_bytes };
    CopyList { list_id: 0, usage: ListIdUsage::None, targets: vec![target], segments: ranges.iter().map(&mut segment).collect() }
}

/// PERSISTENT RESERVE OUT.
fn reserve(reservation: Reservation) -> (Command, Payload) {
    let (action, rtype, key, action_key, persist) = match reservation {
        Reservation::Register { key, cptpl } => (ReserveOut::Register, 0, 0, key, cptpl == PTPL_SET),
        Reservation::Unregister { key: Some(key) } => (ReserveOut::Register, 0, key, 0, false),
        Reservation::Unregister { key: None } => (ReserveOut::RegisterAndIgnore, 0, 0, 0, false),
        Reservation::Replace { old: Some(old), new } => (ReserveOut::Register, 0, old, new, false),
        Reservation::Replace { old: None, new } => (ReserveOut::RegisterAndIgnore, 0, 0, new, false),
        Reservation::Acquire { key, rtype } => (ReserveOut::Reserve, rtype, key, 0, false),
        Reservation::Preempt { key, other, rtype, abort: false } => (ReserveOut::Preempt, rtype, key, other, false),
        Reservation::Preempt { key, other, rtype, abort: true } => (ReserveOut::PreemptAndAbort, rtype, key, other, false),
        Reservation::Release { key, rtype } => (ReserveOut::Release, rtype, key, 0, false),
        Reservation::Clear { key } => (ReserveOut::Clear, 0, key, 0, false),
    };
    let list = OutList { key, action_key, persist, ..OutList::default() }.to_bytes();
    let kind = TYPES.iter().find(|(nvme, _)| *nvme == rtype).map_or(ReservationType::WriteExclusive, |(_, scsi)| *scsi);
    let out = PersistentReserveOut { action, kind: Some(kind), list_length: list.len() as u32 };
    (Command::PersistentReserveOut(out), Payload::Out(list))
}

/// Types of reservations: RTYPE of NVMe, TYPE of SCSI.
const TYPES: [(u8, ReservationType); 6] = [
    (1, ReservationType::WriteExclusive),
    (2, ReservationType::ExclusiveAccess),
    (3, ReservationType::WriteExclusiveRegistrantsOnly),
    (4, ReservationType::ExclusiveAccessRegistrantsOnly),
    (5, ReservationType::WriteExclusiveAllRegistrants),
    (6, ReservationType::ExclusiveAccessAllRegistrants),
];

/// READ FULL STATUS, if this command asked for it and it can be read. Hosts of NVMe/TCP have no identity there.
pub(super) fn reported(cdb: &Cdb, bytes: &[u8]) -> Option<Reported> {
    let asked = Command::parse(cdb).ok()?;
    if !matches!(asked, Command::PersistentReserveIn { action: ReserveIn::ReadFullStatus, .. }) {
        return None;
    }
    let (generation, list) = parse_full_status(bytes)?;
    let rtype = list.iter().find_map(|one| TYPES.iter().find(|(_, scsi)| one.holds == Some(*scsi))).map_or(0, |(nvme, _)| *nvme);
    let who = |one: &FullStatus| Some(iscsi::host_id_of(&one.transport_id.name, one.transport_id.isid?));
    let registrants = list.iter().map(|one| (who(one), one.key, one.holds.is_some())).collect();
    Some(Reported { generation, rtype, ptpl: None, registrants })
}

/// What a failure is called by the workload: the status that NVMe has for it.
pub(super) fn status_of(failure: &ScsiFailure) -> Status {
    // What may go well later, as over NVMe/TCP while a node comes or goes.
    let later = Status::retry(StatusCode::NAMESPACE_NOT_READY);
    let Some(sense) = failure.sense else {
        return match failure.status {
            ScsiStatus::ReservationConflict => Status::dnr(StatusCode::RESERVATION_CONFLICT),
            ScsiStatus::Busy | ScsiStatus::TaskSetFull => later,
            // More or less than was asked for, or a status that no target has a reason for: nothing makes it legal.
            _ => Status::dnr(StatusCode::INVALID_OPCODE),
        };
    };
    match (sense.key, sense.code) {
        (SenseKey::MediumError, SenseCode::UNRECOVERED_READ_ERROR) => Status::dnr(StatusCode::UNRECOVERED_READ_ERROR),
        (SenseKey::DataProtect, SenseCode::SPACE_ALLOCATION_FAILED) => Status::dnr(StatusCode::CAPACITY_EXCEEDED),
        (SenseKey::DataProtect, SenseCode::WRITE_PROTECTED) => Status::dnr(StatusCode::NAMESPACE_WRITE_PROTECTED),
        (SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY) => Status::dnr(StatusCode::COMPARE_FAILURE),
        (SenseKey::IllegalRequest, SenseCode::LBA_OUT_OF_RANGE) => Status::dnr(StatusCode::LBA_OUT_OF_RANGE),
        (SenseKey::IllegalRequest, SenseCode::LOGICAL_UNIT_NOT_SUPPORTED) => Status::dnr(StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (SenseKey::NotReady, SenseCode::BECOMING_READY) => Status::retry(StatusCode::FORMAT_IN_PROGRESS),
        (SenseKey::IllegalRequest, SenseCode::INVALID_FIELD_IN_PARAMETER_LIST | SenseCode::INVALID_RELEASE_OF_RESERVATION) => {
            Status::dnr(StatusCode::INVALID_FIELD)
        }
        (SenseKey::CopyAborted, SenseCode::COPY_TARGET_NOT_REACHABLE) => Status::dnr(StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (SenseKey::CopyAborted, SenseCode::NO_ADDITIONAL_SENSE) => Status::dnr(StatusCode::LBA_OUT_OF_RANGE),
        (SenseKey::CopyAborted, SenseCode::THIRD_PARTY_DEVICE_FAILURE) => Status::dnr(COPY_FAILED),
        (SenseKey::HardwareError | SenseKey::AbortedCommand, SenseCode::INTERNAL_TARGET_FAILURE) => later,
        (SenseKey::AbortedCommand, SenseCode::COMMUNICATION_FAILURE) => Status::retry(StatusCode::CONTROLLER_PATHING_ERROR),
        // Of a path that is out for a short time the one is said, later the other.
        (SenseKey::NotReady, SenseCode::PORT_UNAVAILABLE | SenseCode::PORT_IN_TRANSITION) => Status::retry(StatusCode::ANA_INACCESSIBLE),
        _ => Status::dnr(StatusCode::INVALID_OPCODE),
    }
}

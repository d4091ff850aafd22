//! The workload's orders as SCSI commands, and what SCSI says in the workload's words.
//!
//! Never: judges an answer.

use crate::workload::{Order, What};
use format::nvme::{Status, StatusCode};
use format::scsi::capacity::{LbaRange, build_unmap};
use format::scsi::{BlockRange, ByteCheck, CacheRange, Command, ScsiStatus, SenseCode, SenseKey, WriteSame};
use initiator::io::Io;
use initiator::iscsi::session::Payload;
use initiator::iscsi::{Command as Task, ScsiFailure};

/// The command of an order.
///
/// # Panics
/// When SCSI has none: the workload knows which those are.
pub(super) fn command(order: Order) -> Task {
    let Order { op, ns, what } = order;
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
        What::Io(Io::WriteUncorrectable { .. } | Io::Copy { .. }) | What::Reserve(_) | What::Report => {
            unreachable!("not given to a client over iSCSI")
        }
    };
    Task { tag: op, lun: ns.nsid.into(), cdb: command.to_cdb(), payload }
}

/// What a failure is called by the workload: the status that NVMe has for it.
pub(super) fn status_of(failure: &ScsiFailure) -> Status {
    // What may go well later, as over NVMe/TCP while a node comes or goes.
    let later = Status::retry(StatusCode::NAMESPACE_NOT_READY);
    let Some(sense) = failure.sense else {
        return match failure.status {
            ScsiStatus::ReservationConflict => Status::dnr(StatusCode::RESERVATION_CONFLICT),
            ScsiStatus::TaskAborted => Status::dnr(StatusCode::ABORTED_PREEMPT),
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
        (SenseKey::HardwareError, SenseCode::INTERNAL_TARGET_FAILURE) => later,
        (SenseKey::AbortedCommand, SenseCode::COMMUNICATION_FAILURE) => Status::retry(StatusCode::CONTROLLER_PATHING_ERROR),
        // Of a path that is out for a short time the one is said, later the other.
        (SenseKey::NotReady, SenseCode::PORT_UNAVAILABLE | SenseCode::PORT_IN_TRANSITION) => Status::retry(StatusCode::ANA_INACCESSIBLE),
        _ => Status::dnr(StatusCode::INVALID_OPCODE),
    }
}

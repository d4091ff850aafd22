//! What SCSI commands, their parameter data and lists say (`format::scsi`). The first byte of an input says which of them the rest is.
//!
//! Asserted everywhere: what is understood is built to bytes that are understood the same; what is refused names a place that is there; no
//! list is longer than its bytes or its limit.

use crate::input::mode;
use format::scsi::alua::{build_port_groups, parse_port_groups};
use format::scsi::capacity::{Capacity, build_lba_status, build_unmap, parse_lba_status, parse_unmap};
use format::scsi::copy::{CopyList, CopyStatus, build_failure, parse_failure};
use format::scsi::designator::{build_identification, parse_identification};
use format::scsi::inquiry::Inquiry;
use format::scsi::mode::{ModePages, ModeValues, parse_sensed};
use format::scsi::reservation::{
    Capabilities, MoveList, OutList, ReserveOut, TRANSPORT_IDS_MAX, build_full_status, build_keys, build_reservation, parse_full_status,
    parse_keys, parse_reservation,
};
use format::scsi::supported::{TaskManagement, build_opcodes, parse_opcode, parse_opcodes};
use format::scsi::vpd::{BlockLimits, CopyLimits, ExtendedInquiry, Provisioning, parse_page, parse_serial, parse_supported};
use format::scsi::{CDB_BYTES_MAX, Command, Invalid, LUN_BYTES, Lun, SENSE_BYTES_MAX, Sense, TransportId, build_luns, log, parse_luns};

/// Most ranges of an UNMAP here.
const RANGES_MAX: usize = 16;
const LIMITS: CopyLimits =
    CopyLimits { targets_max: 8, segments_max: 16, list_bytes_max: 4096, segment_bytes_max: 1 << 24, concurrent_max: 1 };

/// Any of them.
pub fn scsi(data: &[u8]) {
    let (which, b) = mode(data);
    match which % 8 {
        0 => command(b),
        1 => sense(b),
        2 => vital(b),
        3 => modes(b),
        4 => reservations(b),
        5 => ranges(b),
        6 => copies(b),
        _ => logs(b),
    }
}

/// What is understood, and built, is understood the same.
fn again<T: PartialEq + std::fmt::Debug>(of: Option<T>, build: impl Fn(&T) -> Vec<u8>, parse: impl Fn(&[u8]) -> Option<T>) {
    if let Some(value) = of {
        assert_eq!(parse(&build(&value)).as_ref(), Some(&value));
    }
}

/// A refusal has sense data, and points into what has `len` bytes.
fn refused(e: Invalid, len: usize) {
    let sense = e.sense();
    assert_eq!(Sense::parse(&sense.to_bytes(false)), Some(sense));
    assert_eq!(Sense::parse(&sense.to_bytes(true)), Some(sense));
    if let Invalid::Cdb { byte, bit } | Invalid::Parameter { byte, bit } = e {
        assert!(usize::from(byte) <= len && bit.is_none_or(|b| b < 8), "{e}");
    }
}

fn command(b: &[u8]) {
    match Command::parse(b) {
        Ok(command) => {
            assert_eq!(Command::parse(&command.to_cdb()), Ok(command));
            let _ = command.transfer();
            if let Command::ReportOpcodes { query, timeouts, .. } = command {
                match build_opcodes(query, timeouts, |entry| entry.opcode() != b[0]) {
                    Ok(data) => assert!(parse_opcodes(&data).len() <= data.len() / 8 && parse_opcode(&data).is_none_or(|u| u[0] != b[0])),
                    Err(e) => refused(e, CDB_BYTES_MAX),
                }
            }
        }
        Err(e) => refused(e, CDB_BYTES_MAX),
    }
}

fn sense(b: &[u8]) {
    again(Sense::parse(b), |s| s.to_bytes(true), Sense::parse);
    if let Some(sense) = Sense::parse(b) {
        assert!(sense.to_bytes(true).len() <= SENSE_BYTES_MAX && sense.to_bytes(false).len() <= SENSE_BYTES_MAX);
    }
    for lun in b.as_chunks::<LUN_BYTES>().0 {
        again(Lun::parse(lun), |l| l.to_bytes().to_vec(), |b| Lun::parse(b.first_chunk()?));
    }
    again(Some(parse_luns(b)), |l| build_luns(l.iter().copied()), |b| Some(parse_luns(b)));
    again(TaskManagement::parse(b), |t| t.to_bytes(false), TaskManagement::parse);
}

fn vital(b: &[u8]) {
    again(Inquiry::parse(b), |i| i.to_bytes().to_vec(), Inquiry::parse);
    again(parse_identification(b), |l| build_identification(0, l), parse_identification);
    again(BlockLimits::parse(b), |l| l.to_bytes(0), BlockLimits::parse);
    again(ExtendedInquiry::parse(b), |e| e.to_bytes(0), ExtendedInquiry::parse);
    again(Provisioning::parse(b), |p| p.to_bytes(0), Provisioning::parse);
    again(CopyLimits::parse_page(b), |l| l.to_page(0), CopyLimits::parse_page);
    let _ = (parse_page(b), parse_serial(b), parse_supported(b));
}

fn modes(b: &[u8]) {
    let (flags, b) = mode(b);
    let bit = |n: u8| flags >> n & 1 != 0;
    let changeable = ModeValues {
        write_cache: bit(1),
        descriptor_sense: bit(2),
        write_protect: bit(3),
        task_aborted_status: bit(4),
        no_exceptions: bit(5),
    };
    let current = ModeValues { write_cache: bit(6), ..ModeValues::NONE };
    let pages = ModePages { current, changeable, default: ModeValues::NONE, write_protected: bit(7), blocks: 1 << 20, block_bytes: 4096 };
    match pages.select(bit(0), b) {
        Ok(new) => {
            let fields = |v: &ModeValues| [v.write_cache, v.descriptor_sense, v.write_protect, v.task_aborted_status, v.no_exceptions];
            for ((new, old), may) in fields(&new).into_iter().zip(fields(&current)).zip(fields(&changeable)) {
                assert!(new == old || may, "what may not change stays");
            }
        }
        Err(e) => refused(e, b.len()),
    }
    let _ = parse_sensed(bit(0), b);
}

fn reservations(b: &[u8]) {
    again(parse_keys(b), |(g, keys)| build_keys(*g, keys.iter().copied()), parse_keys);
    again(parse_reservation(b), |(g, held)| build_reservation(*g, *held), parse_reservation);
    again(parse_full_status(b), |(g, list)| build_full_status(*g, list.iter()), parse_full_status);
    again(Capabilities::parse(b), |c| c.to_bytes().to_vec(), Capabilities::parse);
    again(TransportId::parse(b).map(|(id, _)| id), TransportId::to_bytes, |b| TransportId::parse(b).map(|(id, _)| id));
    for action in ReserveOut::ALL {
        match OutList::parse(*action, b) {
            Ok(list) => {
                assert!(list.nexuses.as_ref().is_none_or(|l| l.len() <= TRANSPORT_IDS_MAX));
                assert_eq!(OutList::parse(*action, &list.to_bytes()), Ok(list));
            }
            Err(e) => refused(e, b.len()),
        }
    }
    match MoveList::parse(b) {
        Ok(list) => assert_eq!(MoveList::parse(&list.to_bytes()), Ok(list)),
        Err(e) => refused(e, b.len()),
    }
}

fn ranges(b: &[u8]) {
    match parse_unmap(b, RANGES_MAX) {
        Ok(list) => {
            assert!(list.len() <= RANGES_MAX);
            assert_eq!(parse_unmap(&build_unmap(&list), RANGES_MAX), Ok(list));
        }
        Err(e) => refused(e, b.len()),
    }
    again(Some(parse_lba_status(b)), |l| build_lba_status(l.iter().copied()), |b| Some(parse_lba_status(b)));
    again(Some(parse_port_groups(b)), |l| build_port_groups(None, l), |b| Some(parse_port_groups(b)));
    again(Some(parse_port_groups(b)), |l| build_port_groups(Some(3), l), |b| Some(parse_port_groups(b)));
    again(Capacity::parse(b), |c| c.to_bytes().to_vec(), Capacity::parse);
    let _ = Capacity::parse_short(b);
}

fn copies(b: &[u8]) {
    match CopyList::parse(b, &LIMITS) {
        Ok(None) => assert!(b.is_empty()),
        Ok(Some(list)) => {
            assert!(list.targets.len() <= LIMITS.targets_max.into() && list.segments.len() <= LIMITS.segments_max.into());
            assert_eq!(CopyList::parse(&list.to_bytes(), &LIMITS), Ok(Some(list)));
        }
        Err(e) => refused(e, b.len()),
    }
    again(CopyStatus::parse(b), |s| s.to_bytes().to_vec(), CopyStatus::parse);
    let failure = |b: &[u8]| parse_failure(b).map(|(status, sense)| (status, sense.to_vec()));
    again(failure(b), |(status, sense)| build_failure(Some((*status, sense))), failure);
    let operating = CopyLimits::parse_operating_parameters;
    again(operating(b), |l| l.to_operating_parameters().to_vec(), operating);
}

fn logs(b: &[u8]) {
    assert!(parse_opcodes(b).len() <= b.len() / 8 && parse_opcode(b).is_none_or(|u| u.len() <= b.len()));
    let page = |b: &[u8]| log::parse_page(b).map(|(page, body)| (page, log::parse_parameters(body)));
    again(page(b), |((page, subpage), list)| log::build_page(*page, *subpage, list, 0), page);
}

//! `docs/scsi-support.md`: its table is written from that of commands, each row of it is tried, and each sequence is played.

use super::rig::{Rig, ended, illegal, key};
use crate::unit::is_served;
use format::scsi::{CDB_BYTES_MAX, SUPPORTED, ScsiStatus, SenseCode, SenseKey, Supported};
use std::fmt::Write;

/// What is to be said of commands, by the beginning of their names.
const NOTES: &[(&str, &str)] = &[
    ("READ CAPACITY", "physical blocks of 4096 bytes"),
    ("READ DEFECT DATA", "there are none"),
    ("READ (", "up to 1 MiB"),
    ("WRITE (", "up to 1 MiB; durable when it is answered, with and without FUA"),
    ("WRITE AND VERIFY", "the write, then a read of the medium"),
    ("WRITE SAME", "up to 65535 blocks, any block; 0: to the end"),
    ("WRITE ATOMIC", "up to 256 KiB, not across a multiple of 1 MiB; no boundary"),
    ("VERIFY", "the medium, or compared with what is sent"),
    ("COMPARE AND WRITE", "one block"),
    ("UNMAP", "256 ranges, 1 Mi blocks"),
    ("GET LBA STATUS", "says \"mapped\" of all"),
    ("PRE-FETCH", "does nothing"),
    ("START STOP UNIT", "does nothing"),
    ("PREVENT ALLOW", "does nothing: the medium is not removable"),
    ("SEND DIAGNOSTIC", "the default self-test, which passes"),
    ("LOG SENSE", "see below"),
    ("MODE SE", "see below"),
    ("PERSISTENT RESERVE", "for both protocols; kept over power loss with APTPL"),
    ("EXTENDED COPY", "LID1, blocks to blocks, between LUNs of the target"),
    ("RECEIVE COPY DATA", "no data of a copy is held"),
    ("RECEIVE COPY", "of the last 16 list identifiers of the session"),
    ("RESERVE (", "obsolete since SPC-3: use persistent reservations, which hold on all nodes"),
    ("RELEASE (", "obsolete since SPC-3"),
    ("REPORT TARGET PORT GROUPS", "the groups of all nodes"),
];

fn page() -> String {
    let mut rows = String::new();
    for entry in SUPPORTED {
        let action = if entry.has_action { format!("{:02X}h", entry.action()) } else { String::new() };
        let served = if is_served(entry) { "yes" } else { "no" };
        let note = NOTES.iter().find(|(name, _)| entry.name.starts_with(name)).map_or("", |(_, note)| note);
        let _ = writeln!(rows, "| {:02X}h | {action} | {} | {served} | {note} |", entry.opcode(), entry.name);
    }
    include_str!("support_page.md").replace("{COMMANDS}", &rows)
}

#[test]
fn the_support_page_is_what_the_table_of_commands_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scsi-support.md");
    let page = page();
    if std::env::var("ISCSI_WRITE").is_ok() {
        std::fs::write(path, &page).expect("the page is written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == page, "docs/scsi-support.md is not what the table says: ISCSI_WRITE=1 cargo test -p iscsi support");
    assert!(NOTES.iter().all(|(name, _)| SUPPORTED.iter().any(|e| e.name.starts_with(name))), "a note of nothing");
}

/// The shortest CDB of a command.
fn cdb(entry: &Supported) -> Vec<u8> {
    let mut cdb = vec![0; CDB_BYTES_MAX];
    (cdb[0], cdb[1]) = (entry.opcode(), entry.action());
    cdb
}

#[test]
fn each_command_of_the_support_page_is_served_or_refused_as_it_says() {
    let mut rig = Rig::with("");
    let mut listed = rig.read(0, &[0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0], 8192).2;
    listed.drain(..4);
    for entry in SUPPORTED {
        let (status, sense, _) = rig.read(0, &cdb(entry), 0);
        let code = key(sense).map(|(_, code)| code);
        let unknown = code == Some(SenseCode::INVALID_OPCODE) || entry.name == "RECEIVE COPY DATA (LID1)" && status != ScsiStatus::Good;
        assert_eq!(!unknown, is_served(entry), "{}: {status:?}, {code:?}", entry.name);
        let in_list = listed.chunks(8).any(|l| l[0] == entry.opcode() && l[3] == entry.action());
        assert_eq!(in_list, is_served(entry), "{} in the list of operation codes", entry.name);
    }
}

fn write16(opcode: u8, lba: u64, blocks: u32) -> Vec<u8> {
    [&[opcode, 0][..], &lba.to_be_bytes(), &blocks.to_be_bytes(), &[0, 0]].concat()
}

#[test]
fn what_esxi_asks_for_is_served() {
    let mut rig = Rig::with("");
    // ATS: a lock is taken once.
    let ats = [&[0x89, 0][..], &64u64.to_be_bytes(), &[0, 0, 0, 1, 0, 0]].concat();
    let (free, mine) = ([0; 512], [1; 512]);
    assert_eq!(rig.write(0, &ats, &[free, mine].concat()).0, ScsiStatus::Good);
    let lost = rig.write(0, &ats, &[free, [2; 512]].concat());
    assert_eq!((lost.0, key(lost.1)), (ScsiStatus::CheckCondition, Some((SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY))));
    assert_eq!(rig.read(0, &write16(0x88, 64, 1), 512).2, mine);
    // Block Zeroing.
    assert_eq!(rig.write(0, &write16(0x93, 0, 2048), &[0; 512]).0, ScsiStatus::Good);
    assert_eq!(rig.read(0, &write16(0x88, 64, 1), 512).2, free);
    // UNMAP of two ranges.
    assert_eq!(rig.write(0, &write16(0x8A, 0, 16), &[7; 8192]).0, ScsiStatus::Good);
    let ranges = [0u64, 8].map(|lba| [&lba.to_be_bytes()[..], &4u32.to_be_bytes(), &[0; 4]].concat()).concat();
    let list = [&[0, 38, 0, 32, 0, 0, 0, 0][..], &ranges].concat();
    assert_eq!(rig.write(0, &[0x42, 0, 0, 0, 0, 0, 0, 0, 40, 0], &list).0, ScsiStatus::Good);
    let now = rig.read(0, &write16(0x88, 0, 16), 8192).2;
    let zero = |n: usize| now[n * 512..][..512] == free;
    assert!((0..4).chain(8..12).all(zero) && !(4..8).chain(12..16).any(zero));
    // XCOPY, as the data mover sends it: no results are kept.
    use format::scsi::copy::{CopyList, CopySegment, CopyTarget, ListIdUsage};
    use format::scsi::designator::{Designator, naa6};
    let target = |n: u8| CopyTarget { designator: Designator::Naa6(naa6([n; 16])), block_bytes: 512 };
    let segment = CopySegment { source: 0, destination: 1, blocks: 4096, count_destination: false, source_lba: 0, destination_lba: 4096 };
    let copy = CopyList { list_id: 0, usage: ListIdUsage::None, targets: vec![target(1), target(4)], segments: vec![segment] };
    let list = copy.to_bytes();
    let mut xcopy = vec![0; 16];
    (xcopy[0], xcopy[13]) = (0x83, list.len() as u8);
    assert_eq!(rig.write(0, &xcopy, &list).0, ScsiStatus::Good);
    assert_eq!(rig.memory.disks[&3][2 << 20..][..8192], now[..]);
}

/// PERSISTENT RESERVE OUT: how it ends, carried out by the control plane.
fn reserve(rig: &mut Rig, action: u8, kind: u8, own: u64, other: u64) -> ScsiStatus {
    let list = [&own.to_be_bytes()[..], &other.to_be_bytes(), &[0; 8]].concat();
    let wire = rig.client.write(0, &[0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0], 24, &list, true);
    let came = rig.say(&wire);
    let Some(asked) = rig.asked.pop_front() else { return ended(&came).0 };
    rig.away = Some(asked.request);
    let frontend::ControlVerb::Reservation { command, .. } = asked.what else { panic!("{:?}", asked.what) };
    let volume = rig.view.volumes[0].as_mut().unwrap();
    let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
    let result = state.execute(base::HostId::from_bytes(asked.by.host_id), &command);
    state.name_ports(&asked.by.ports);
    volume.volume.reservation = Some(std::sync::Arc::new(state));
    assert!(rig.session.apply(&rig.view));
    let came = rig.answer(result.map(|_| frontend::Reply::Done).map_err(frontend::Refused::from));
    ended(&came).0
}

#[test]
fn what_clusters_ask_for_is_served() {
    use format::scsi::reservation::{ReservationType, parse_full_status, parse_keys, parse_reservation};
    const WRITE_EXCLUSIVE_REGISTRANTS: u8 = 5;
    let good = ScsiStatus::Good;
    let mut one = Rig::with("");
    assert_eq!((reserve(&mut one, 6, 0, 0, 0xA), reserve(&mut one, 1, WRITE_EXCLUSIVE_REGISTRANTS, 0xA, 0)), (good, good));
    // The second node: another host port, on what is served then.
    let mut two = Rig::new();
    two.view = one.view.clone();
    let mut login = two.client.login("");
    login[13] = 2;
    assert_eq!(two.say(&login).len(), 1);
    let write = super::rig::write10(0, 1);
    assert_eq!(two.write(0, &write, &[1; 512]).0, ScsiStatus::ReservationConflict);
    assert_eq!(reserve(&mut two, 1, WRITE_EXCLUSIVE_REGISTRANTS, 0xB, 0), ScsiStatus::ReservationConflict, "it is not registered");
    assert_eq!(reserve(&mut two, 6, 0, 0, 0xB), good);
    let report = |rig: &mut Rig, action: u8| rig.read(0, &[0x5E, action, 0, 0, 0, 0, 0, 4, 0, 0], 1024).2;
    let mut keys = parse_keys(&report(&mut two, 0)).unwrap().1;
    keys.sort_unstable();
    assert_eq!(keys, [0xA, 0xB]);
    assert_eq!(two.write(0, &write, &[1; 512]).0, good, "registrants write");
    // PREEMPT AND ABORT, as fence_mpath does it; PREEMPT is the same without aborting.
    assert_eq!(reserve(&mut two, 5, WRITE_EXCLUSIVE_REGISTRANTS, 0xB, 0xA), good);
    let held = Some((0xB, ReservationType::WriteExclusiveRegistrantsOnly));
    assert_eq!(parse_reservation(&report(&mut two, 1)).unwrap().1, held);
    let full = parse_full_status(&report(&mut two, 3)).unwrap().1;
    assert!(full.len() == 1 && full[0].key == 0xB && full[0].transport_id.isid == Some([0x80, 0, 0, 0, 0, 2]), "{full:?}");
    one.view = two.view.clone();
    assert!(one.session.apply(&one.view));
    let heard = one.read(0, &[0; 6], 0);
    assert_eq!(key(heard.1), Some((SenseKey::UnitAttention, SenseCode::REGISTRATIONS_PREEMPTED)));
    assert_eq!(one.write(0, &write, &[1; 512]).0, ScsiStatus::ReservationConflict);
    assert_eq!(reserve(&mut one, 3, 0, 0xA, 0), ScsiStatus::ReservationConflict, "it is no registrant any more");
    assert_ne!(key(one.read(0, &[0x5F, 0x1F, 0, 0, 0, 0, 0, 0, 0, 0], 0).1), illegal(SenseCode::INVALID_OPCODE));
}

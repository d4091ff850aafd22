//! `docs/scsi-support.md`: its table is written from that of commands, each row of it is tried, and its sequences are
//! those that were played.

use super::rig::{Rig, ended, key};
use crate::unit::is_served;
use format::scsi::{CDB_BYTES_MAX, SUPPORTED, ScsiStatus, SenseCode, Supported};
use frontend::Reply;
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
    ("RESERVE (", "obsolete since SPC-3; the whole unit, on all nodes, until the session ends or a reset"),
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
    include_str!("support_page.md").replace("{COMMANDS}", &rows).replace("{SEQUENCES}", &super::sequence_tests::rows())
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
        let wire = rig.client.read(0, &cdb(entry), 0);
        let mut came = rig.say(&wire);
        if let Some(asked) = rig.asked.pop_front() {
            rig.away = Some(asked.request);
            came = rig.answer(Ok(Reply::Done));
        }
        let (status, sense, _) = ended(&came);
        let code = key(sense).map(|(_, code)| code);
        let unknown = code == Some(SenseCode::INVALID_OPCODE) || entry.name == "RECEIVE COPY DATA (LID1)" && status != ScsiStatus::Good;
        assert_eq!(!unknown, is_served(entry), "{}: {status:?}, {code:?}", entry.name);
        let in_list = listed.chunks(8).any(|l| l[0] == entry.opcode() && l[3] == entry.action());
        assert_eq!(in_list, is_served(entry), "{} in the list of operation codes", entry.name);
    }
}

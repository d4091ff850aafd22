//! Commands that are refused, with the field that is to blame.

use super::{Cases, State};
use crate::tests::rig::{Rig, read10, write10};
use format::scsi::{CDB_BYTES_MAX, SUPPORTED};

/// Where a CDB's control byte is, by the group of its operation code (SPC-4 4.2.5.1).
fn control_byte(opcode: u8) -> usize {
    match opcode >> 5 {
        0 => 5,
        1 | 2 => 9,
        4 => 15,
        _ => 11,
    }
}

fn command(n: u64, cdb: Vec<u8>) -> impl Fn(&mut Rig) -> Vec<u8> {
    move |rig: &mut Rig| rig.client.read(n, &cdb, 0)
}

pub(super) fn cases(c: &mut Cases) {
    const NO_UNIT: &str = "5h 25h/00h";
    const NO_OPCODE: &str = "5h 20h/00h, CDB byte 0";
    for (name, cdb) in [("TEST UNIT READY", vec![0; 6]), ("READ (10)", read10(0, 1)), ("an operation code that is none", vec![0xFF; 16])] {
        c.add(format!("{name} of a LUN that there is not"), "SPC-4 5.14, SAM-5 4.7", State::Full, command(99, cdb), NO_UNIT);
    }
    for opcode in [0x04u8, 0x07, 0x48, 0x7F, 0x8B, 0xA4, 0xC0, 0xFF] {
        let mut cdb = vec![0; CDB_BYTES_MAX];
        cdb[0] = opcode;
        c.add(format!("operation code {opcode:02X}h"), "SPC-4 4.2.5", State::Full, command(0, cdb), NO_OPCODE);
    }
    for (name, opcode) in [("RESERVE (6)", 0x16u8), ("RELEASE (6)", 0x17), ("RESERVE (10)", 0x56), ("RELEASE (10)", 0x57)] {
        let name = format!("{name} of extents, or for a third party");
        c.add(
            name,
            "SPC-2 7.21, 7.17",
            State::Full,
            command(0, vec![opcode, 0x11, 0, 0, 0, 0, 0, 0, 0, 0]),
            "5h 24h/00h, CDB byte 1 bit 4",
        );
    }
    for (name, opcode, action) in [
        ("PERSISTENT RESERVE IN", 0x5Eu8, 4u8),
        ("PERSISTENT RESERVE OUT", 0x5F, 9),
        ("SERVICE ACTION IN (16)", 0x9E, 0),
        ("MAINTENANCE IN", 0xA3, 0x1F),
    ] {
        let mut cdb = vec![0; CDB_BYTES_MAX];
        (cdb[0], cdb[1]) = (opcode, action);
        c.add(
            format!("{name}, service action {action:02X}h"),
            "SPC-4 4.2.5.4",
            State::Full,
            command(0, cdb),
            "5h 24h/00h, CDB byte 1 bit 4",
        );
    }
    // NACA, which asks for auto contingent allegiance, and a reserved bit of each control byte (SAM-5 5.2).
    for entry in SUPPORTED {
        let at = control_byte(entry.opcode());
        for (name, bit) in [("NACA", 2), ("a reserved bit of the control byte", 3)] {
            let mut cdb = vec![0; CDB_BYTES_MAX];
            (cdb[0], cdb[1], cdb[at]) = (entry.opcode(), entry.action(), 1 << bit);
            let want = format!("5h 24h/00h, CDB byte {at} bit {bit}");
            c.add(format!("{} with {name}", entry.name), "SAM-5 5.2", State::Full, command(0, cdb), want);
        }
    }
    ranges(c);
    lists(c);
}

fn ranges(c: &mut Cases) {
    const OUT: &str = "5h 21h/00h";
    let read16 = |lba: u64, blocks: u32| [&[0x88, 0][..], &lba.to_be_bytes(), &blocks.to_be_bytes(), &[0, 0]].concat();
    let reads: [(&str, Vec<u8>, &str); 7] = [
        ("READ (10) of the block behind the last", read10(8192, 1), OUT),
        ("READ (10) across the end", read10(8191, 2), OUT),
        ("READ (10) of no block, behind the end", read10(8193, 0), OUT),
        ("READ (16) of the block FFFFFFFFFFFFFFFFh", read16(u64::MAX, 1), OUT),
        ("READ (16) whose end wraps", read16(u64::MAX - 1, 2), OUT),
        ("READ (16) of more than 1 MiB", read16(0, 2049), "5h 24h/00h"),
        ("GET LBA STATUS behind the end", vec![0x9E, 0x12, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 24, 0, 0], OUT),
    ];
    for (name, cdb, want) in reads {
        c.add(name, "SBC-3 4.2.3", State::Full, command(0, cdb), want);
    }
    c.add("WRITE (10) across the end", "SBC-3 4.2.3", State::Full, command(0, write10(8191, 2)), OUT);
    c.add("WRITE (10) of a unit that is protected", "SBC-3 4.12", State::Full, command(2, write10(0, 1)), "7h 27h/00h");
    c.add("UNMAP of a unit that is protected", "SBC-3 4.12", State::Full, command(2, vec![0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]), "7h 27h/00h");
    let cw = vec![0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0];
    c.add("COMPARE AND WRITE of two blocks", "SBC-3 5.2", State::Full, command(0, cw), "5h 24h/00h, CDB byte 13");
    let atomic = |lba: u8, boundary: u8, blocks: u16| {
        let [hi, lo] = blocks.to_be_bytes();
        vec![0x9C, 0, 0, 0, 0, 0, 0, 0, 0x07, lba, 0, boundary, hi, lo, 0, 0]
    };
    c.add("WRITE ATOMIC across 1 MiB", "SBC-4 4.29", State::Full, command(0, atomic(0xFF, 0, 2)), "5h 24h/00h, CDB byte 2");
    c.add("WRITE ATOMIC of 257 KiB", "SBC-4 4.29", State::Full, command(0, atomic(0, 0, 514)), "5h 24h/00h, CDB byte 12");
    c.add("WRITE ATOMIC with a boundary", "SBC-4 4.29", State::Full, command(0, atomic(0, 8, 8)), "5h 24h/00h, CDB byte 10");
    let pages: [(&str, Vec<u8>, &str, &'static str); 7] = [
        ("INQUIRY of a page that there is not", vec![0x12, 1, 0xC5, 0, 255, 0], "5h 24h/00h, CDB byte 2", "SPC-4 6.6"),
        ("INQUIRY of a page without EVPD", vec![0x12, 0, 0x83, 0, 255, 0], "5h 24h/00h, CDB byte 2", "SPC-4 6.6"),
        ("MODE SENSE of a page that there is not", vec![0x1A, 0, 0x2A, 0, 255, 0], "5h 24h/00h, CDB byte 2 bit 5", "SPC-4 6.11"),
        ("MODE SENSE of saved values", vec![0x1A, 0, 0xC8, 0, 255, 0], "5h 39h/00h", "SPC-4 6.11"),
        ("LOG SENSE of a page that there is not", vec![0x4D, 0, 0x42, 0, 0, 0, 0, 0, 255, 0], "5h 24h/00h, CDB byte 2 bit 5", "SPC-4 6.8"),
        ("LOG SENSE of thresholds", vec![0x4D, 0, 0x0D, 0, 0, 0, 0, 0, 255, 0], "5h 24h/00h, CDB byte 2 bit 7", "SPC-4 6.8"),
        ("LOG SENSE from a parameter that there is not", vec![0x4D, 0, 0x4D, 0, 0, 0, 9, 0, 255, 0], "5h 24h/00h, CDB byte 5", "SPC-4 6.8"),
    ];
    for (name, cdb, want, section) in pages {
        c.add(name, section, State::Full, command(0, cdb), want);
    }
}

fn lists(c: &mut Cases) {
    let with = |cdb: Vec<u8>, list: Vec<u8>| move |rig: &mut Rig| rig.client.write(0, &cdb, list.len() as u32, &list, true);
    const LENGTH: &str = "5h 1Ah/00h";
    let unmap = |list: Vec<u8>| with(vec![0x42, 0, 0, 0, 0, 0, 0, 0, list.len() as u8, 0], list);
    c.add("UNMAP with half a head", "SBC-3 5.28", State::Full, unmap(vec![0; 4]), LENGTH);
    c.add(
        "UNMAP whose descriptors are cut off",
        "SBC-3 5.28",
        State::Full,
        unmap([&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 8]].concat()),
        LENGTH,
    );
    let beyond = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &8192u64.to_be_bytes(), &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
    c.add("UNMAP behind the end", "SBC-3 5.28", State::Full, unmap(beyond), "5h 21h/00h");
    let many = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 8], &[0, 0x10, 0, 1, 0, 0, 0, 0]].concat();
    c.add("UNMAP of more blocks than the limit", "SBC-3 5.28", State::Full, unmap(many), "5h 26h/00h, list byte 8");
    let reserve = |action: u8, kind: u8, list: Vec<u8>| with(vec![0x5F, action, kind, 0, 0, 0, 0, 0, list.len() as u8, 0], list);
    c.add("PERSISTENT RESERVE OUT with a list of 23 bytes", "SPC-4 6.16.3", State::Full, reserve(0, 0, vec![0; 23]), LENGTH);
    c.add("RESERVE of a type that is none", "SPC-4 6.16", State::Full, reserve(1, 2, vec![0; 24]), "5h 24h/00h, CDB byte 2 bit 3");
    c.add("RESERVE of an element", "SPC-4 6.16", State::Full, reserve(1, 0x21, vec![0; 24]), "5h 24h/00h, CDB byte 2 bit 7");
    let mut spec = vec![0; 24];
    spec[20] = 8;
    c.add("REGISTER with SPEC_I_PT", "SPC-4 6.16.3", State::Full, reserve(0, 0, spec), LENGTH);
    c.add("REGISTER AND MOVE without a TransportID", "SPC-4 6.16.4", State::Full, reserve(7, 0, vec![0; 24]), "5h 26h/00h, list byte 24");
    let key = [&[0; 7][..], &[1], &[0; 16]].concat();
    c.add("REGISTER with a key that the host does not have", "SPC-4 5.12.7", State::Full, reserve(0, 0, key), "ReservationConflict");
    let select = |list: Vec<u8>| with(vec![0x15, 0x10, 0, 0, list.len() as u8, 0], list);
    c.add("MODE SELECT with half a head", "SPC-4 6.9", State::Full, select(vec![0; 3]), LENGTH);
    let page = |page: u8, bytes: u8| [&[0, 0, 0, 0, page, bytes][..], &vec![0; bytes.into()]].concat();
    c.add("MODE SELECT of a page that there is not", "SPC-4 6.9", State::Full, select(page(0x2A, 4)), "5h 26h/00h, list byte 4 bit 5");
    let compare = vec![0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    c.add("COMPARE AND WRITE with half of its data", "SBC-3 5.2", State::Full, with(compare.clone(), vec![0; 512]), "5h 24h/00h");
    c.add("COMPARE AND WRITE of other data than there is", "SBC-3 5.2", State::Full, with(compare, vec![1; 1024]), "Eh 1Dh/00h");
}

//! The common header of PDUs on queues that serve.

use super::{NOT_FROM_A_HOST, bare, with, with_plen};
use crate::pdu::case::{ADMIN, Answer, Case, CaseState, Echo, Fei, GREETED, IO, case, good, header_field, out_of_order};
use crate::pdu::run::{Run, Stop};
use format::nvme::fabrics::PropertyAccess;
use format::nvme::property::VS;
use format::nvme::{IoOpcode, Sgl, Sqe};
use format::nvme_tcp::{Fes, IcReq};

const HEADER: &str = "tcp 3.6.1";
const CAPSULE: &str = "tcp 3.6.2, CapsuleCmd";
const H2C: &str = "tcp 3.6.2, H2CData";
const TERM: &str = "tcp 3.6.2, H2CTermReq";

/// A capsule without data, changed.
fn capsule(r: &mut Run<'_>, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Result<(), Stop> {
    let bytes = r.conn.capsule(PropertyAccess::get_sqe(0, VS, false), &[]);
    r.conn.send(&change(bytes))
}
/// A write of a block in its capsule, changed.
fn write(r: &mut Run<'_>, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Result<(), Stop> {
    let n = r.bytes(1);
    let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Write, 1) };
    let bytes = r.conn.capsule(sqe, &vec![0x5A; n as usize]);
    r.conn.send(&change(bytes))
}
/// The H2CData that was asked for, changed.
fn h2c(r: &mut Run<'_>, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Result<(), Stop> {
    let n = r.bytes(1);
    let r2t = r.asked(1)?;
    let bytes = r.conn.h2c(&r2t, 0, &vec![0x5A; n as usize], true);
    r.conn.send(&change(bytes))
}

fn types() -> Vec<Case> {
    let mut all = Vec::new();
    for (state, on) in [(GREETED, "before Connect"), (ADMIN, "on an admin queue"), (IO, "on an I/O queue")] {
        for (kind, name, hlen) in NOT_FROM_A_HOST {
            let bytes = bare(kind, 0, hlen, 0, hlen.into());
            all.push(case(format!("{name} {on}"), HEADER, state, move |r| r.conn.send(&bytes), header_field(0)));
        }
    }
    for (state, on) in [(ADMIN, "an admin queue"), (IO, "an I/O queue"), (IO.with(true, true), "a queue with digests")] {
        let req = IcReq { hpda: 0, digests: format::nvme_tcp::Digests::default(), maxr2t: 0 };
        all.push(case(format!("ICReq on {on}"), "tcp 3.4", state, move |r| r.conn.send(&req.to_bytes()), out_of_order()));
    }
    all
}

fn capsules() -> Vec<Case> {
    let mut all = Vec::new();
    let mut bad = |name: String, section, state: CaseState, at: usize, value: u8, answer: Answer| {
        all.push(case(name, section, state, move |r| capsule(r, |b| with(b, at, value)), answer));
    };
    for flags in [0x01, 0x02, 0x04, 0x08, 0x10, 0x80] {
        bad(format!("CapsuleCmd with FLAGS {flags:02X}h, no digests agreed on"), HEADER, ADMIN, 1, flags, header_field(1));
    }
    for hlen in [0, 8, 71, 73, 128, 255] {
        bad(format!("CapsuleCmd with HLEN {hlen}"), HEADER, ADMIN, 2, hlen, header_field(2));
    }
    bad("CapsuleCmd on an I/O queue with HLEN 64".into(), HEADER, IO, 2, 64, header_field(2));
    bad("CapsuleCmd on an I/O queue with FLAGS 04h".into(), HEADER, IO, 1, 4, header_field(1));
    for plen in [0, 8, 71] {
        let name = format!("CapsuleCmd with PLEN {plen}");
        all.push(case(name, HEADER, ADMIN, move |r| capsule(r, |b| with_plen(b, plen)), header_field(4)));
    }
    for (plen, pdo) in [(73, 0), (100, 68), (100, 71), (100, 73), (100, 4)] {
        let name = format!("CapsuleCmd with PLEN {plen} and PDO {pdo}");
        all.push(case(name, CAPSULE, ADMIN, move |r| capsule(r, |b| with(with_plen(b, plen), 3, pdo)), header_field(3)));
    }
    for plen in [16 * 1024 + 76, i32::MAX as u32, u32::MAX] {
        let name = format!("CapsuleCmd with PDO 72 and PLEN {plen}, more than a capsule holds");
        all.push(case(name, CAPSULE, ADMIN, move |r| capsule(r, |b| with(with_plen(b, plen), 3, 72)), header_field(4)));
    }
    all.push(case(
        "CapsuleCmd without data, its PDO 72",
        "tcp 3.6.1, own",
        ADMIN,
        |r| capsule(r, |b| with(b, 3, 72)),
        crate::pdu::case::result(0x20000),
    ));
    all.push(case("write in a capsule with PDO 0", CAPSULE, IO, |r| write(r, |b| with(b, 3, 0)), header_field(3)));
    all.push(case("write in a capsule with PDO 70", CAPSULE, IO, |r| write(r, |b| with(b, 3, 70)), header_field(3)));
    all.push(case(
        "write in a capsule with 4 bytes of padding (PDO 76)",
        CAPSULE,
        IO,
        |r| {
            write(r, |b| {
                let plen = b.len() as u32 + 4;
                let padded = [&b[..72], &[0xEE; 4], &b[72..]].concat();
                with(with_plen(padded, plen), 3, 76)
            })
        },
        good(),
    ));
    all.push(case(
        "write in a capsule whose PLEN reaches one block beyond what a capsule holds",
        CAPSULE,
        IO,
        |r| {
            let plen = 72 + r.env.capsule_max + 4;
            write(r, |b| with_plen(b, plen))
        },
        header_field(4),
    ));
    all
}

fn h2c_data() -> Vec<Case> {
    let mut all = Vec::new();
    let mut bad = |name: String, at: usize, value: u8, answer: Answer| {
        all.push(case(name, H2C, IO, move |r| h2c(r, |b| with(b, at, value)), answer));
    };
    for flags in [0x05, 0x06, 0x0C, 0x14, 0x84] {
        bad(format!("H2CData with FLAGS {flags:02X}h, no digests agreed on"), 1, flags, header_field(1));
    }
    for hlen in [0, 23, 25, 72] {
        bad(format!("H2CData with HLEN {hlen}"), 2, hlen, header_field(2));
    }
    for pdo in [0, 8, 20, 25, 26] {
        bad(format!("H2CData with PDO {pdo}"), 3, pdo, header_field(3));
    }
    for plen in [0, 8, 23, 24] {
        all.push(case(format!("H2CData with PLEN {plen}"), H2C, IO, move |r| h2c(r, |b| with_plen(b, plen)), header_field(4)));
    }
    for plen in [i32::MAX as u32 + 64, u32::MAX] {
        all.push(case(format!("H2CData with PLEN {plen}"), H2C, IO, move |r| h2c(r, |b| with_plen(b, plen)), header_field(4)));
    }
    all
}

fn terminations() -> Vec<Case> {
    let mut all = Vec::new();
    let term = |fes: u8| with(bare(2, 0, 24, 0, 32), 8, fes);
    for (state, on) in [(GREETED, "before Connect"), (ADMIN, "on an admin queue"), (IO, "on an I/O queue")] {
        all.push(case(format!("H2CTermReq {on}"), TERM, state, move |r| r.conn.send(&term(1)), Answer::Closes));
    }
    all.push(case("H2CTermReq with a reserved FES", TERM, IO, move |r| r.conn.send(&term(0x77)), Answer::Closes));
    all.push(case("H2CTermReq on a queue with digests", TERM, IO.with(true, true), move |r| r.conn.send(&term(3)), Answer::Closes));
    all.push(case("H2CTermReq with 128 bytes of header", TERM, IO, |r| r.conn.send(&bare(2, 0, 24, 0, 152)), Answer::Closes));
    all.push(case(
        "H2CTermReq while a write waits for its data",
        TERM,
        IO,
        move |r| {
            r.asked(4)?;
            r.conn.send(&term(5))
        },
        Answer::Closes,
    ));
    all.push(case(
        "H2CTermReq, then a command",
        TERM,
        ADMIN,
        move |r| {
            let command = r.conn.capsule(PropertyAccess::get_sqe(0, VS, false), &[]);
            r.conn.send_together(&[term(1), command], 0)
        },
        Answer::Closes,
    ));
    let mut bad = |name: &str, bytes: Vec<u8>, at: u32| {
        all.push(case(name, TERM, ADMIN, move |r| r.conn.send(&bytes), header_field(at)));
    };
    bad("H2CTermReq with FLAGS 01h", with(term(1), 1, 1), 1);
    bad("H2CTermReq with HLEN 32", with(term(1), 2, 32), 2);
    bad("H2CTermReq with PDO 24", with(term(1), 3, 24), 3);
    bad("H2CTermReq with PLEN 24: no header in it", bare(2, 0, 24, 0, 24), 4);
    bad("H2CTermReq with PLEN 153", bare(2, 0, 24, 0, 153), 4);
    bad("H2CTermReq with PLEN FFFFFFFFh", with_plen(term(1), u32::MAX), 4);
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = types();
    all.extend(capsules());
    all.extend(h2c_data());
    all.extend(terminations());
    all.push(case(
        "bad CapsuleCmd while a write waits for its data",
        HEADER,
        IO,
        |r| {
            r.asked(4)?;
            capsule(r, |b| with(b, 2, 71))
        },
        Answer::Ends(Fes::InvalidHeaderField, Fei::Is(2), Echo::Common),
    ));
    all
}

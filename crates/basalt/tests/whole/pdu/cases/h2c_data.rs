//! Data that the host sends when it was asked for it, and when it was not.

use super::with;
use crate::pdu::case::{ADMIN, Answer, Case, GREETED, IO, case, ends, field, good};
use crate::pdu::run::{Conn, Run, Stop};
use format::nvme::{IoOpcode, Sqe};
use format::nvme_tcp::{DataPdu, Fes, R2t};

const R2T: &str = "tcp 3.6.2, H2CData and R2T";
const RANGE: &str = "tcp 3.6.2, FES 04h";
const LIMIT: &str = "tcp 3.6.2, FES 05h";
const AT_FLAGS: u32 = 1;
const AT_CCCID: u32 = 8;
const AT_TTAG: u32 = 10;
const AT_DATAL: u32 = 16;

/// H2CData with these fields, as many bytes as `bytes` says, or as `have`.
fn pdu(conn: &Conn, r2t: &R2t, offset: u32, bytes: u32, have: usize, last: bool) -> Vec<u8> {
    let pdu = DataPdu { cccid: r2t.cccid, ttag: r2t.ttag, offset, bytes, last, success: false };
    conn.h2c_pdu(pdu, &vec![0x3C; have])
}
/// A PDU of header and data where DATAL says `bytes` but PLEN fits `have`.
fn with_datal(mut pdu: Vec<u8>, bytes: u32) -> Vec<u8> {
    pdu[16..20].copy_from_slice(&bytes.to_le_bytes());
    pdu
}

fn tags() -> Vec<Case> {
    let mut all = Vec::new();
    for (state, on) in [(GREETED, "before Connect"), (ADMIN, "on an admin queue"), (IO, "on an I/O queue")] {
        all.push(case(
            format!("H2CData that nobody asked for, {on}"),
            R2T,
            state,
            |r| {
                let nothing = R2t { cccid: 1, ttag: 0, offset: 0, bytes: 4096 };
                let bytes = pdu(&r.conn, &nothing, 0, 4096, 4096, true);
                r.conn.send(&bytes)
            },
            field(AT_TTAG),
        ));
    }
    for (name, ttag) in [("one more", 1u16), ("FFFFh", 0)] {
        all.push(case(
            format!("H2CData with a transfer tag that was not given: {name}"),
            R2T,
            IO,
            move |r| {
                let (n, asked) = (r.bytes(1), r.asked(1)?);
                let wrong = R2t { ttag: if ttag == 0 { 0xFFFF } else { asked.ttag + ttag }, ..asked };
                let bytes = pdu(&r.conn, &wrong, 0, n, n as usize, true);
                r.conn.send(&bytes)
            },
            field(AT_TTAG),
        ));
    }
    all.push(case(
        "H2CData with the identifier of no command",
        R2T,
        IO,
        |r| {
            let (n, asked) = (r.bytes(1), r.asked(1)?);
            let bytes = pdu(&r.conn, &R2t { cccid: asked.cccid + 1, ..asked }, 0, n, n as usize, true);
            r.conn.send(&bytes)
        },
        field(AT_CCCID),
    ));
    all.push(case(
        "H2CData with the tag of one command and the identifier of another",
        R2T,
        IO,
        |r| {
            let (n, one, two) = (r.bytes(1), r.asked(1)?, r.asked(1)?);
            let bytes = pdu(&r.conn, &R2t { cccid: two.cccid, ..one }, 0, n, n as usize, true);
            r.conn.send(&bytes)
        },
        field(AT_CCCID),
    ));
    all.push(case(
        "the same H2CData twice",
        R2T,
        IO,
        |r| {
            let (n, asked) = (r.bytes(1), r.asked(1)?);
            let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
            r.conn.send(&bytes)?;
            r.conn.expect(&good())?;
            r.conn.send(&bytes)
        },
        field(AT_TTAG),
    ));
    all.push(case(
        "more H2CData after the last, in one segment",
        R2T,
        IO,
        |r| {
            let (n, asked) = (r.bytes(1), r.asked(1)?);
            let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
            r.conn.send_together(&[bytes.clone(), bytes], 1)
        },
        field(AT_TTAG),
    ));
    all.push(case(
        "H2CData for a read",
        R2T,
        IO,
        |r| {
            let sqe = r.io(IoOpcode::Read, 1);
            let n = r.bytes(1);
            r.conn.command(sqe, &[])?;
            r.conn.expect(&Answer::Data(n))?;
            let asked = R2t { cccid: r.conn.cid, ttag: 0, offset: 0, bytes: n };
            let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
            r.conn.send(&bytes)
        },
        field(AT_TTAG),
    ));
    all
}

fn ranges() -> Vec<Case> {
    let mut all = Vec::new();
    let mut bad =
        |name: &str, section, act: fn(&mut Run<'_>) -> Result<(), Stop>, answer: Answer| all.push(case(name, section, IO, act, answer));
    let out = || ends(Fes::DataOutOfRange);
    bad("H2CData that begins 4 bytes late", RANGE, |r| one(r, |a| (a.offset + 4, a.bytes - 4)), out());
    bad("H2CData that begins at the end", RANGE, |r| one(r, |a| (a.offset + a.bytes, a.bytes)), out());
    bad("H2CData at offset FFFFFFFCh, so that its end wraps", RANGE, |r| one(r, |a| (u32::MAX - 3, a.bytes)), out());
    bad("H2CData at offset 80000000h", RANGE, |r| one(r, |a| (1 << 31, a.bytes)), out());
    bad("H2CData 4 bytes longer than asked", RANGE, |r| one(r, |a| (0, a.bytes + 4)), out());
    bad("H2CData twice as long as asked", RANGE, |r| one(r, |a| (0, a.bytes * 2)), out());
    bad("second H2CData that overlaps the first", RANGE, |r| two(r, |n| [(0, 2 * n, false), (n, n, false)]), out());
    bad("second H2CData the same as the first", RANGE, |r| two(r, |n| [(0, n, false), (0, n, false)]), out());
    bad("second H2CData with a gap before it", RANGE, |r| two(r, |n| [(0, n, false), (2 * n, n, false)]), out());
    bad("second H2CData longer than what is left", RANGE, |r| two(r, |n| [(0, 3 * n, false), (3 * n, 2 * n, true)]), out());
    bad("H2CData in the wrong order", RANGE, |r| two(r, |n| [(2 * n, 2 * n, true), (0, 2 * n, false)]), out());
    bad(
        "H2CData with all of the data but not marked the last",
        R2T,
        |r| two(r, |n| [(0, 2 * n, false), (2 * n, 2 * n, false)]),
        field(AT_FLAGS),
    );
    bad("H2CData marked the last before the end", R2T, |r| two(r, |n| [(0, n, true), (n, 3 * n, true)]), field(AT_FLAGS));
    bad("H2CData whose DATAL is more than its PLEN", R2T, |r| lie(r, 4), field(AT_DATAL));
    bad("H2CData whose DATAL is less than its PLEN", R2T, |r| lie(r, -4), field(AT_DATAL));
    bad("H2CData whose DATAL is 0", R2T, |r| lie(r, i64::MIN), field(AT_DATAL));
    bad("H2CData whose DATAL is FFFFFFFFh", R2T, |r| lie(r, i64::MAX), field(AT_DATAL));
    bad(
        "H2CData 4 bytes longer than MAXH2CDATA",
        LIMIT,
        |r| {
            let max = r.conn.ic.map_or(0, |ic| ic.maxh2cdata);
            let blocks = (2 * max) >> r.env.shift;
            let asked = r.asked(blocks.min(r.env.transfer_max >> r.env.shift))?;
            let bytes = pdu(&r.conn, &asked, 0, max + 4, max as usize + 4, false);
            r.conn.send(&bytes)
        },
        ends(Fes::LimitExceeded),
    );
    all
}

/// One H2CData with another offset and length than asked for.
fn one(r: &mut Run<'_>, change: fn(&R2t) -> (u32, u32)) -> Result<(), Stop> {
    let asked = r.asked(2)?;
    let (offset, bytes) = change(&asked);
    let bytes = pdu(&r.conn, &asked, offset, bytes, bytes as usize, true);
    r.conn.send(&bytes)
}
/// Two H2CData (offset, bytes, last) of four blocks.
fn two(r: &mut Run<'_>, pieces: fn(u32) -> [(u32, u32, bool); 2]) -> Result<(), Stop> {
    let (n, asked) = (r.bytes(1), r.asked(4)?);
    let pdus: Vec<_> = pieces(n).iter().map(|(at, bytes, last)| pdu(&r.conn, &asked, *at, *bytes, *bytes as usize, *last)).collect();
    let first_is_wrong = pieces(n)[0].0 != 0 || pieces(n)[0].2;
    r.conn.send_together(&pdus, usize::from(!first_is_wrong))
}
/// One H2CData whose DATAL is not what its PLEN says.
fn lie(r: &mut Run<'_>, by: i64) -> Result<(), Stop> {
    let (n, asked) = (r.bytes(1), r.asked(1)?);
    let said = match by {
        i64::MIN => 0,
        i64::MAX => u32::MAX,
        by => (i64::from(n) + by) as u32,
    };
    let bytes = with_datal(pdu(&r.conn, &asked, 0, n, n as usize, true), said);
    r.conn.send(&bytes)
}

fn right_ways() -> Vec<Case> {
    vec![
        case(
            "H2CData of exactly MAXH2CDATA, twice",
            LIMIT,
            IO,
            |r| {
                let max = r.conn.ic.map_or(0, |ic| ic.maxh2cdata).min(r.env.transfer_max / 2);
                let asked = r.asked((2 * max) >> r.env.shift)?;
                let pdus = [pdu(&r.conn, &asked, 0, max, max as usize, false), pdu(&r.conn, &asked, max, max, max as usize, true)];
                r.conn.send_together(&pdus, 1)
            },
            good(),
        ),
        case(
            "H2CData of 4 bytes each",
            R2T,
            IO,
            |r| {
                let (n, asked) = (r.bytes(1), r.asked(1)?);
                let pdus: Vec<_> = (0..n / 4).map(|i| pdu(&r.conn, &asked, i * 4, 4, 4, i == n / 4 - 1)).collect();
                r.conn.send_together(&pdus, 0)
            },
            good(),
        ),
        case(
            "H2CData of two commands, one by one",
            R2T,
            IO,
            |r| {
                let (n, one) = (r.bytes(1), r.asked(2)?);
                r.area += 2;
                let two = r.asked(2)?;
                let half = |r2t: &R2t, at: u32| pdu(&r.conn, r2t, at, n, n as usize, at > 0);
                let pdus = [half(&one, 0), half(&two, 0), half(&two, n), half(&one, n)];
                r.conn.send_together(&pdus, 0)?;
                // Two writes of one queue may be answered in any order.
                r.conn.expect(
                    &Answer::Status { cid: None, code: format::nvme::StatusCode::SUCCESS, dnr: false, result: Some(0) }.of(two.cccid),
                )?;
                r.conn.expect(&good().of(one.cccid))
            },
            [],
        ),
        case(
            "H2CData whose reserved bytes are not zero",
            "base 1.4.1.4, own",
            IO,
            |r| {
                let (n, asked) = (r.bytes(1), r.asked(1)?);
                let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
                r.conn.send(&with(with(bytes, 20, 0xFF), 23, 0xFF))
            },
            good(),
        ),
        case(
            "H2CData with 4 bytes of padding (PDO 28)",
            R2T,
            IO,
            |r| {
                let (n, asked) = (r.bytes(1), r.asked(1)?);
                let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
                let padded = [&bytes[..24], &[0xEE; 4], &bytes[24..]].concat();
                r.conn.send(&with(super::with_plen(padded, 28 + n), 3, 28))
            },
            good(),
        ),
        case(
            "a write that waits for its data while others are served",
            R2T,
            IO,
            |r| {
                let (n, asked) = (r.bytes(1), r.asked(1)?);
                for _ in 0..3 {
                    r.area += 1;
                    let sqe = Sqe { ..r.io(IoOpcode::Read, 1) };
                    r.conn.command(sqe, &[])?;
                    r.conn.expect(&Answer::Data(n))?;
                }
                let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
                r.conn.cid = asked.cccid;
                r.conn.send(&bytes)
            },
            good(),
        ),
        case(
            "a stream that ends within an H2CData",
            "tcp 3.5",
            IO,
            |r| {
                let (n, asked) = (r.bytes(1), r.asked(1)?);
                let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
                r.conn.send(&bytes[..bytes.len() / 2])?;
                r.conn.half_close()
            },
            Answer::Closes,
        ),
        case(
            "half of an H2CData",
            R2T,
            IO,
            |r| {
                let (n, asked) = (r.bytes(1), r.asked(1)?);
                let bytes = pdu(&r.conn, &asked, 0, n, n as usize, true);
                r.conn.send(&bytes[..bytes.len() / 2])
            },
            Answer::Nothing,
        ),
    ]
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = tags();
    all.extend(ranges());
    all.extend(right_ways());
    all
}

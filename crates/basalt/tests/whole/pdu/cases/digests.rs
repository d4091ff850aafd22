//! Header and data digests: right, wrong, missing, and where there must be none.

use super::with;
use crate::pdu::case::{ADMIN, Answer, Case, CaseState, Echo, Fei, GREETED, IO, case, fails, good, header_field, result, retry};
use crate::pdu::run::{Conn, ENTRIES, Run, Stop, connect};
use format::nvme::fabrics::{CNTLID_DYNAMIC, PropertyAccess};
use format::nvme::io::{DatasetManagement, DsmRange};
use format::nvme::property::VS;
use format::nvme::{IoOpcode, Sgl, Sqe, StatusCode};
use format::nvme_tcp::{Digests, Fes, IcReq, digest};

const HDGST: &str = "tcp 3.3.1.1, HDGST";
const DDGST: &str = "tcp 3.3.1.2, DDGST";
const BOTH: CaseState = IO.with(true, true);

fn bad_digest() -> Answer {
    Answer::Ends(Fes::HeaderDigest, Fei::Digest, Echo::Header)
}
/// A data digest that is wrong ends its command only (tcp 3.3.1.2).
fn transient() -> Answer {
    retry(StatusCode::TRANSIENT_TRANSPORT_ERROR)
}
fn flip_last(mut bytes: Vec<u8>) -> Vec<u8> {
    *bytes.last_mut().expect("not empty") ^= 0x80;
    bytes
}
fn property_get(conn: &mut Conn) -> Vec<u8> {
    conn.capsule(PropertyAccess::get_sqe(0, VS, false), &[])
}
/// A write of `blocks` in its capsule, as bytes.
fn write(r: &mut Run<'_>, blocks: u32, fill: u8) -> Vec<u8> {
    let n = r.bytes(blocks);
    let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Write, blocks) };
    r.conn.capsule(sqe, &vec![fill; n as usize])
}
/// The data of a write of `blocks` that was asked for by R2T, as the bytes of one H2CData.
fn asked_for(r: &mut Run<'_>, blocks: u32, fill: u8) -> Result<Vec<u8>, Stop> {
    let (n, r2t) = (r.bytes(blocks), r.asked(blocks)?);
    Ok(r.conn.h2c(&r2t, 0, &vec![fill; n as usize], true))
}

fn header_digests() -> Vec<Case> {
    let on = |s: CaseState| s.with(true, false);
    let mut all = vec![
        case(
            "Connect with a wrong header digest",
            HDGST,
            on(GREETED),
            |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                let bytes = r.conn.capsule(connect(0, ENTRIES).sqe(0), &data);
                let flipped = bytes[72] ^ 1;
                r.conn.send(&with(bytes, 72, flipped))
            },
            bad_digest(),
        ),
        case(
            "an H2CData with a wrong header digest",
            HDGST,
            on(IO),
            |r| {
                let bytes = asked_for(r, 1, 1)?;
                let flipped = bytes[27] ^ 1;
                r.conn.send(&with(bytes, 27, flipped))
            },
            bad_digest(),
        ),
        case(
            "the first capsule with no header digest though agreed on",
            HDGST,
            on(GREETED),
            |r| {
                let bytes = connect(0, ENTRIES).sqe(0).to_bytes();
                r.conn.send(&[&super::bare(4, 0, 72, 72, 72 + 1024)[..8], &bytes[..]].concat())
            },
            header_field(1),
        ),
        case(
            "a capsule with FLAGS without HDGST though agreed on",
            HDGST,
            on(ADMIN),
            |r| {
                let bytes = property_get(&mut r.conn);
                r.conn.send(&with(bytes, 1, 0))
            },
            header_field(1),
        ),
        case(
            "a capsule whose PLEN leaves no room for its header digest",
            HDGST,
            on(ADMIN),
            |r| {
                let bytes = property_get(&mut r.conn);
                r.conn.send(&super::with_plen(bytes, 72))
            },
            header_field(4),
        ),
        case(
            "a capsule with data whose PDO leaves no room for its header digest",
            HDGST,
            on(IO),
            |r| {
                let bytes = write(r, 1, 1);
                r.conn.send(&with(bytes, 3, 72))
            },
            header_field(3),
        ),
        case(
            "an H2CData without HDGST though agreed on",
            HDGST,
            on(IO),
            |r| {
                let bytes = asked_for(r, 1, 1)?;
                r.conn.send(&with(bytes, 1, 4))
            },
            header_field(1),
        ),
    ];
    for (state, queue) in [(ADMIN, "admin"), (IO, "I/O")] {
        for (name, at) in [("the command", 8), ("the digest itself", 75)] {
            let name = format!("{queue} queue: a capsule with a bit of {name} flipped");
            all.push(case(
                name,
                HDGST,
                on(state),
                move |r| {
                    let bytes = property_get(&mut r.conn);
                    let flipped = bytes[at] ^ 0x10;
                    r.conn.send(&with(bytes, at, flipped))
                },
                bad_digest(),
            ));
        }
    }
    all.push(case(
        "a capsule with a header digest of zero",
        HDGST,
        on(ADMIN),
        |r| {
            let bytes = property_get(&mut r.conn);
            r.conn.send(&[&bytes[..72], &[0; 4]].concat())
        },
        bad_digest(),
    ));
    all.push(case(
        "a header digest over the wrong range",
        HDGST,
        on(ADMIN),
        |r| {
            let bytes = property_get(&mut r.conn);
            let sum = digest(&bytes[8..72]);
            r.conn.send(&[&bytes[..72], &sum].concat())
        },
        bad_digest(),
    ));
    all
}

fn data_digests() -> Vec<Case> {
    let on = |s: CaseState| s.with(false, true);
    let mut all = vec![
        case(
            "write in a capsule with a wrong data digest: nothing is written",
            DDGST,
            BOTH,
            |r| {
                let bytes = write(r, 1, 0x77);
                r.conn.send(&flip_last(bytes))?;
                r.conn.expect(&transient())?;
                r.reads(1, 0)?;
                let again = write(r, 1, 0x77);
                r.conn.send(&again)?;
                r.conn.expect(&good())?;
                r.reads(1, 0x77)
            },
            [],
        ),
        case(
            "write in a capsule with a wrong data digest",
            DDGST,
            on(IO),
            |r| {
                let bytes = write(r, 2, 0x77);
                r.conn.send(&flip_last(bytes))
            },
            transient(),
        ),
        case(
            "write in a capsule with a bit of its data flipped",
            DDGST,
            on(IO),
            |r| {
                let bytes = write(r, 1, 0x77);
                r.conn.send(&with(bytes, 500, 0x76))
            },
            transient(),
        ),
        case(
            "write in a capsule with FLAGS without DDGST though agreed on",
            DDGST,
            on(IO),
            |r| {
                let bytes = write(r, 1, 0x77);
                r.conn.send(&with(bytes, 1, 0))
            },
            header_field(1),
        ),
        case(
            "write in a capsule with FLAGS with DDGST though not agreed on",
            DDGST,
            IO,
            |r| {
                let bytes = write(r, 1, 0x77);
                r.conn.send(&with(bytes, 1, 2))
            },
            header_field(1),
        ),
        case(
            "a capsule without data, its FLAGS with DDGST as agreed on",
            "tcp 3.6.2, own",
            ADMIN.with(false, true),
            |r| {
                let bytes = property_get(&mut r.conn);
                r.conn.send(&with(bytes, 1, 2))
            },
            result(0x20000),
        ),
        case(
            "Connect with a wrong data digest",
            DDGST,
            on(GREETED),
            |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                let bytes = r.conn.capsule(connect(0, ENTRIES).sqe(0), &data);
                r.conn.send(&flip_last(bytes))
            },
            transient(),
        ),
        case(
            "Compare with a wrong data digest",
            DDGST,
            on(IO),
            |r| {
                let n = r.bytes(1);
                let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Compare, 1) };
                let bytes = r.conn.capsule(sqe, &vec![0; n as usize]);
                r.conn.send(&flip_last(bytes))
            },
            transient(),
        ),
        case(
            "Dataset Management with a wrong data digest: nothing is deallocated",
            DDGST,
            on(IO),
            |r| {
                let bytes = write(r, 1, 0x33);
                r.conn.send(&bytes)?;
                r.conn.expect(&good())?;
                let sqe = DatasetManagement { nr: 0, idr: false, idw: false, ad: true }.sqe(0, r.env.nsid);
                let range = DsmRange { attributes: 0, blocks: 1, slba: r.area }.to_bytes();
                let bytes = r.conn.capsule(Sqe { sgl: Sgl::in_capsule(0, 16), ..sqe }, &range);
                r.conn.send(&flip_last(bytes))?;
                r.conn.expect(&transient())?;
                r.reads(1, 0x33)
            },
            [],
        ),
        case(
            "an H2CData without DDGST though agreed on",
            DDGST,
            on(IO),
            |r| {
                let bytes = asked_for(r, 1, 1)?;
                r.conn.send(&with(bytes, 1, 4))
            },
            header_field(1),
        ),
        case(
            "an H2CData whose PLEN leaves no room for the data digest",
            DDGST,
            on(IO),
            |r| {
                let bytes = asked_for(r, 1, 1)?;
                let n = r.bytes(1);
                r.conn.send(&super::with_plen(bytes, 24 + n))
            },
            crate::pdu::case::field(16),
        ),
    ];
    for (name, wrong) in [("only", [true, false]), ("first", [true, false]), ("last", [false, true])] {
        let pieces: u32 = if name == "only" { 1 } else { 2 };
        all.push(case(
            format!("write by R2T, the data digest of the {name} H2CData wrong"),
            DDGST,
            BOTH,
            move |r| {
                let (n, r2t) = (r.bytes(1), r.asked(pieces)?);
                for i in 0..pieces {
                    let bytes = r.conn.h2c(&r2t, i * n, &vec![9; n as usize], i + 1 == pieces);
                    r.conn.send(&if wrong[i as usize] { flip_last(bytes) } else { bytes })?;
                }
                r.conn.expect(&transient())?;
                r.reads(pieces, 0)
            },
            [],
        ));
    }
    all.push(case(
        "write by R2T in pieces that are no whole blocks, a data digest wrong",
        DDGST,
        on(IO),
        |r| {
            let (n, r2t) = (r.bytes(1), r.asked(1)?);
            for (from, to, last) in [(0, 100, false), (100, 104, false), (104, n, true)] {
                let bytes = r.conn.h2c(&r2t, from, &vec![9; (to - from) as usize], last);
                r.conn.send(&if from == 100 { flip_last(bytes) } else { bytes })?;
            }
            Ok(())
        },
        transient(),
    ));
    all.push(case(
        "a command that is refused anyway, its data digest wrong",
        DDGST,
        on(IO),
        |r| {
            let n = r.bytes(1);
            let sqe = Sqe { sgl: Sgl::in_capsule(0, n), nsid: 0, ..r.io(IoOpcode::Write, 1) };
            let bytes = r.conn.capsule(sqe, &vec![0; n as usize]);
            r.conn.send(&flip_last(bytes))
        },
        fails(StatusCode::INVALID_NAMESPACE_OR_FORMAT),
    ));
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = header_digests();
    all.extend(data_digests());
    for (header, data, what) in [(true, false, "header"), (false, true, "data"), (true, true, "both")] {
        all.push(case(
            format!("write and read with {what} digests"),
            DDGST,
            IO.with(header, data),
            |r| {
                let bytes = asked_for(r, 8, 0xC3)?;
                r.conn.send(&bytes)?;
                r.conn.expect(&good())?;
                r.reads(8, 0xC3)
            },
            [],
        ));
    }
    all.push(case(
        "data aligned to 128 bytes with both digests (HPDA 31)",
        "tcp 3.6.2, ICReq",
        IO,
        |r| {
            let admin = r.admin.take();
            r.conn = r.another("conn")?;
            r.conn.greet(IcReq { hpda: 31, digests: Digests { header: true, data: true }, maxr2t: 0 })?;
            r.conn.join(connect(2, ENTRIES), &r.connect_data(r.cntlid))?;
            r.admin = admin;
            r.reads(3, 0)
        },
        [],
    ));
    all
}

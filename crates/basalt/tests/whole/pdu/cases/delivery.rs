//! How bytes arrive: one by one, all at once, cut anywhere; and what an end of one connection does to others.

use super::with;
use crate::pdu::case::{ADMIN, Answer, Case, CaseState, GREETED, IO, case, good, header_field, result};
use crate::pdu::run::{ENTRIES, Run, Stop, connect};
use format::nvme::fabrics::{CNTLID_DYNAMIC, PropertyAccess};
use format::nvme::io::flush_sqe;
use format::nvme::property::VS;
use format::nvme::{IoOpcode, Sgl, Sqe};
use initiator::rng::Rng;

const STREAM: &str = "tcp 3.1";
const END: &str = "tcp 3.5";
const ASSOCIATION: &str = "base 3.3.2.2";

fn version() -> Sqe {
    PropertyAccess::get_sqe(0, VS, false)
}
fn pieces(name: &str, state: CaseState, n: usize) -> Case {
    case(
        name,
        STREAM,
        state,
        move |r| {
            let r2t = r.asked(1)?;
            let data = vec![0x21; r.bytes(1) as usize];
            let bytes = r.conn.h2c(&r2t, 0, &data, true);
            r.conn.send_in_pieces(&bytes, n)
        },
        good(),
    )
}
/// A Flush cut in two at `at`, with a pause.
fn cut(r: &mut Run<'_>, bytes: &[u8], at: usize) -> Result<(), Stop> {
    r.conn.send(&bytes[..at])?;
    std::thread::sleep(std::time::Duration::from_millis(2));
    r.conn.send(&bytes[at..])
}

fn streams() -> Vec<Case> {
    let mut all = vec![
        case(
            "a capsule byte by byte",
            STREAM,
            ADMIN,
            |r| {
                let bytes = r.conn.capsule(version(), &[]);
                r.conn.send_in_pieces(&bytes, 1)
            },
            result(0x20000),
        ),
        case(
            "Connect byte by byte",
            STREAM,
            GREETED,
            |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                let bytes = r.conn.capsule(connect(0, ENTRIES).sqe(0), &data);
                r.conn.send_in_pieces(&bytes, 1)?;
                r.conn.expect(&crate::pdu::case::good_any())?;
                r.conn = r.greeted("conn")?;
                Ok(())
            },
            [],
        ),
        case(
            "a write in a capsule in pieces of 7 bytes",
            STREAM,
            IO.with(true, true),
            |r| {
                let n = r.bytes(1);
                let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Write, 1) };
                let bytes = r.conn.capsule(sqe, &vec![0x21; n as usize]);
                r.conn.send_in_pieces(&bytes, 7)
            },
            good(),
        ),
        pieces("H2CData in pieces of 3 bytes", IO, 3),
        pieces("H2CData with digests in pieces of 5 bytes", IO.with(true, true), 5),
        case(
            "32 commands in one segment",
            STREAM,
            ADMIN,
            |r| {
                let pdus: Vec<_> = (0..32).map(|_| (r.conn.capsule(version(), &[]), r.conn.cid)).collect();
                r.conn.send_together(&pdus.iter().map(|(b, _)| b.clone()).collect::<Vec<_>>(), 0)?;
                pdus.iter().try_for_each(|(_, cid)| r.conn.expect(&result(0x20000).of(*cid)))
            },
            [],
        ),
        case(
            "a bad PDU behind a good one in one segment: what was not answered by then is not",
            "tcp 3.5, own",
            ADMIN,
            |r| {
                let (one, two) = (r.conn.capsule(version(), &[]), r.conn.capsule(version(), &[]));
                r.conn.send_together(&[one, with(two, 2, 71)], 1)
            },
            header_field(2),
        ),
        case(
            "a good PDU behind a bad one: it is not looked at",
            END,
            ADMIN,
            |r| {
                let (one, two) = (r.conn.capsule(version(), &[]), r.conn.capsule(version(), &[]));
                r.conn.send_together(&[with(one, 2, 71), two], 0)
            },
            header_field(2),
        ),
        case(
            "two bad PDUs: one termination request",
            END,
            ADMIN,
            |r| {
                let (one, two) = (r.conn.capsule(version(), &[]), r.conn.capsule(version(), &[]));
                r.conn.send_together(&[with(one, 2, 71), with(two, 2, 73)], 0)
            },
            header_field(2),
        ),
        case(
            "a mebibyte behind a bad PDU: the termination request still comes",
            END,
            IO,
            |r| {
                let bad = r.conn.capsule(flush_sqe(0, 1), &[]);
                r.conn.send_together(&[with(bad, 2, 71), vec![0xA5; 1 << 20]], 0)
            },
            header_field(2),
        ),
        case(
            "a command cut in two with another before it",
            STREAM,
            ADMIN,
            |r| {
                let (one, two) = (r.conn.capsule(version(), &[]), r.conn.capsule(version(), &[]));
                let id = r.conn.cid - 1;
                cut(r, &[one, two].concat(), 100)?;
                r.conn.expect(&result(0x20000).of(id))
            },
            result(0x20000),
        ),
    ];
    for (state, name) in [(ADMIN, "a capsule"), (ADMIN.with(true, false), "a capsule with a header digest")] {
        all.push(case(
            format!("{name} cut at each byte"),
            STREAM,
            state,
            |r| {
                let len = r.conn.capsule(version(), &[]).len();
                for at in 1..len {
                    let bytes = r.conn.capsule(version(), &[]);
                    cut(r, &bytes, at)?;
                    r.conn.expect(&result(0x20000))?;
                }
                Ok(())
            },
            [],
        ));
    }
    for (state, name) in [(IO, "H2CData"), (IO.with(true, true), "H2CData with digests")] {
        all.push(case(
            format!("{name} cut at each byte of its header, and before its end"),
            STREAM,
            state,
            |r| {
                let n = r.bytes(1) as usize;
                for at in (1..40).chain([n, n + 20, n + 23]) {
                    let r2t = r.asked(1)?;
                    let bytes = r.conn.h2c(&r2t, 0, &vec![at as u8; n], true);
                    cut(r, &bytes, at)?;
                    r.conn.expect(&good())?;
                }
                Ok(())
            },
            [],
        ));
    }
    all.push(case(
        "a write in a capsule cut at each byte around the start of its data and its end",
        STREAM,
        IO.with(true, true),
        |r| {
            let n = r.bytes(1);
            for at in (60..90).chain(76 + n as usize - 8..76 + n as usize + 4) {
                let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Write, 1) };
                let bytes = r.conn.capsule(sqe, &vec![at as u8; n as usize]);
                cut(r, &bytes, at)?;
                r.conn.expect(&good())?;
            }
            Ok(())
        },
        [],
    ));
    all
}

fn ends() -> Vec<Case> {
    let mut all = vec![
        case("a stream that ends between commands", END, IO, |r| r.conn.half_close(), Answer::Closes),
        case(
            "a stream that ends within a capsule",
            END,
            ADMIN,
            |r| {
                let bytes = r.conn.capsule(version(), &[]);
                r.conn.send(&bytes[..30])?;
                r.conn.half_close()
            },
            Answer::Closes,
        ),
        case(
            "a stream that ends while a write waits for its data",
            END,
            IO,
            |r| {
                r.asked(4)?;
                r.conn.half_close()
            },
            Answer::Closes,
        ),
        case(
            "half a capsule",
            STREAM,
            ADMIN,
            |r| {
                let bytes = r.conn.capsule(version(), &[]);
                r.conn.send(&bytes[..36])
            },
            Answer::Nothing,
        ),
        case(
            "a termination of the admin queue ends the I/O queue",
            ASSOCIATION,
            IO,
            |r| r.admin().send(&super::bare(4, 0, 71, 0, 72)),
            Answer::Closes,
        ),
        case("the end of the admin connection ends the I/O queue", ASSOCIATION, IO, |r| r.admin().half_close(), Answer::Closes),
        case(
            "a termination of an I/O queue leaves the admin queue",
            ASSOCIATION,
            IO,
            |r| {
                r.conn.send(&super::bare(4, 0, 71, 0, 72))?;
                r.conn.expect(&header_field(2))?;
                r.swap();
                Ok(())
            },
            [],
        ),
        case(
            "a termination of an I/O queue leaves another",
            ASSOCIATION,
            IO,
            |r| {
                let mut second = r.greeted("second")?;
                second.join(connect(2, ENTRIES), &r.connect_data(r.cntlid))?;
                r.conn.send(&super::bare(4, 0, 71, 0, 72))?;
                r.conn.expect(&header_field(2))?;
                r.conn = second;
                Ok(())
            },
            [],
        ),
        case(
            "keep-alive expiry ends the queues",
            "base 3.9",
            GREETED,
            |r| {
                let mut owner = r.greeted("admin")?;
                let id =
                    owner.join(format::nvme::fabrics::Connect { kato_ms: 1000, ..connect(0, ENTRIES) }, &r.connect_data(CNTLID_DYNAMIC))?;
                owner.enable()?;
                r.admin = Some(owner);
                let data = r.connect_data(id);
                r.conn.join(connect(1, ENTRIES), &data)?;
                Ok(())
            },
            Answer::Closes,
        ),
    ];
    for (state, on) in [(GREETED, "before Connect"), (ADMIN, "on an admin queue"), (IO, "on an I/O queue")] {
        for seed in 0..3u64 {
            // The first byte is no type of a PDU, so that the answer is known.
            let garbage: Vec<u8> = {
                let mut rng = Rng::new(seed);
                let mut bytes: Vec<u8> = (0..4096).map(|_| rng.below(256) as u8).collect();
                bytes[0] |= 0x10;
                bytes
            };
            all.push(case(
                format!("4 KiB of garbage {on}, seed {seed}"),
                "tcp 3.6.1",
                state,
                move |r| r.conn.send(&garbage),
                header_field(0),
            ));
        }
    }
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = streams();
    all.extend(ends());
    all
}

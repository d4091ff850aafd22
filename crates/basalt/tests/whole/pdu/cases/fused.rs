//! Compare and Write as one: halves alone, wrong, in the wrong place, and what the other half is answered.

use crate::pdu::case::{Answer, Case, CaseState, IO, case, fails, good, retry};
use crate::pdu::run::{Run, Stop};
use crate::pdu::target::{INACTIVE_NSID, READ_ONLY_NSID};
use format::nvme::io::{BlockRange, flush_sqe};
use format::nvme::{Fuse, IoOpcode, Sgl, Sqe, StatusCode};

const FUSED: &str = "base 3.4.2";
const RANGES: &str = "base 3.4.2, nvm 2.2";
const FUSE: &str = "base 3.3.3.1, FUSE";
const UNIT: &str = "nvm 2.1.4, ACWU";
/// Identifiers of the commands that a case sends first, second and third: Connect had 1.
const FIRST: u16 = 2;
const SECOND: u16 = 3;
const THIRD: u16 = 4;

fn missing() -> Answer {
    retry(StatusCode::ABORTED_MISSING_FUSED)
}
fn failed() -> Answer {
    retry(StatusCode::ABORTED_FAILED_FUSED)
}
fn transient() -> Answer {
    retry(StatusCode::TRANSIENT_TRANSPORT_ERROR)
}

/// A command on the first block of our area with its data in the capsule.
fn half(r: &Run<'_>, op: IoOpcode, fuse: Fuse) -> Sqe {
    Sqe { fuse, sgl: Sgl::in_capsule(0, r.bytes(1)), ..r.io(op, 1) }
}
fn first(r: &Run<'_>) -> Sqe {
    half(r, IoOpcode::Compare, Fuse::First)
}
fn second(r: &Run<'_>) -> Sqe {
    half(r, IoOpcode::Write, Fuse::Second)
}
/// The capsule of a half, full of `fill`.
fn bytes(r: &mut Run<'_>, sqe: Sqe, fill: u8) -> Vec<u8> {
    let data = vec![fill; sqe.sgl.len() as usize];
    r.conn.capsule(sqe, &data)
}
fn send(r: &mut Run<'_>, sqe: Sqe, fill: u8) -> Result<(), Stop> {
    let capsule = bytes(r, sqe, fill);
    r.conn.send(&capsule)
}
/// A half without its data, which the controller has to ask for.
fn by_r2t(r: &Run<'_>, sqe: Sqe) -> Sqe {
    Sqe { sgl: Sgl::transport(r.bytes(1)), ..sqe }
}
/// An SGL descriptor of a type that there is not.
fn no_type(len: u32) -> Sgl {
    let mut bytes = [0xFF; 16];
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    Sgl(bytes)
}
/// Both halves, the first with what is there or not; `first` and `second` may change them.
fn pair(
    name: &str,
    section: &'static str,
    first_half: impl Fn(&Run<'_>) -> Sqe + Send + Sync + 'static,
    second_half: impl Fn(&Run<'_>) -> Sqe + Send + Sync + 'static,
    answers: [Answer; 2],
) -> Case {
    let [a, b] = answers;
    case(
        name,
        section,
        IO,
        move |r| {
            let sqe = first_half(r);
            send(r, sqe, 0)?;
            let sqe = second_half(r);
            send(r, sqe, 0x5C)
        },
        [a.of(FIRST), b.of(SECOND)],
    )
}

fn whole() -> Vec<Case> {
    let mut all = vec![
        pair("Compare and Write of what is there", FUSED, first, second, [good(), good()]),
        case(
            "Compare and Write in one segment, and what it leaves",
            FUSED,
            IO,
            |r| {
                let (a, b) = (first(r), second(r));
                let pdus = [bytes(r, a, 0), bytes(r, b, 0x5C)];
                r.conn.send_together(&pdus, 0)?;
                r.conn.expect(&good().of(FIRST))?;
                r.conn.expect(&good().of(SECOND))?;
                r.reads(1, 0x5C)
            },
            [],
        ),
        case(
            "Compare and Write of what is not there: nothing is written",
            FUSED,
            IO,
            |r| {
                let (a, b) = (first(r), second(r));
                send(r, a, 1)?;
                send(r, b, 0x5C)?;
                r.conn.expect(&fails(StatusCode::COMPARE_FAILURE).of(FIRST))?;
                r.conn.expect(&failed().of(SECOND))?;
                r.reads(1, 0)
            },
            [],
        ),
        case(
            "Compare and Write by R2T: asked for in order, the second half's data sent first",
            FUSED,
            IO,
            |r| {
                let (a, b) = (by_r2t(r, first(r)), by_r2t(r, second(r)));
                r.conn.command(a, &[])?;
                r.conn.command(b, &[])?;
                r.conn.cid = FIRST;
                let one = r.conn.r2t()?;
                r.conn.cid = SECOND;
                let two = r.conn.r2t()?;
                let n = r.bytes(1) as usize;
                let pdus = [r.conn.h2c(&two, 0, &vec![0x5C; n], true), r.conn.h2c(&one, 0, &vec![0; n], true)];
                r.conn.send_together(&pdus, 0)?;
                r.conn.cid = SECOND;
                Ok(())
            },
            [good().of(FIRST), good().of(SECOND)],
        ),
        case(
            "Compare by R2T as a first half alone: its data is not asked for",
            FUSED,
            IO,
            |r| {
                let sqe = by_r2t(r, first(r));
                r.conn.command(sqe, &[])
            },
            Answer::Nothing,
        ),
    ];
    // A data digest that is wrong is reported to its half, the other comes to nothing.
    let digests: CaseState = IO.with(true, true);
    for (name, wrong, a, b) in [
        ("first", [true, false], transient(), failed()),
        ("second", [false, true], failed(), transient()),
        ("each", [true, true], transient(), transient()),
    ] {
        all.push(case(
            format!("Compare and Write, a wrong data digest in the capsule of the {name} half"),
            "base 3.4.2, tcp 3.3.1.2",
            digests,
            move |r| {
                let (a, b) = (first(r), second(r));
                let mut pdus = [bytes(r, a, 0), bytes(r, b, 0x5C)];
                for (pdu, _) in pdus.iter_mut().zip(wrong).filter(|(_, wrong)| *wrong) {
                    *pdu.last_mut().expect("not empty") ^= 0x80;
                }
                r.conn.send_together(&pdus, 0)
            },
            [a.of(FIRST), b.of(SECOND)],
        ));
    }
    all
}

fn misplaced() -> Vec<Case> {
    vec![
        case(
            "a second half without a first",
            FUSED,
            IO,
            |r| {
                let sqe = second(r);
                send(r, sqe, 0x5C)
            },
            missing(),
        ),
        case(
            "a first half alone: it waits",
            FUSED,
            IO,
            |r| {
                let sqe = first(r);
                send(r, sqe, 0)
            },
            Answer::Nothing,
        ),
        case(
            "a first half, then a read",
            FUSED,
            IO,
            |r| {
                let (a, b) = (first(r), r.io(IoOpcode::Read, 1));
                send(r, a, 0)?;
                r.conn.command(b, &[])
            },
            [missing().of(FIRST), Answer::Data(4096)],
        ),
        case(
            "a first half, a Flush, then the second half: nothing is written",
            FUSED,
            IO,
            |r| {
                let (a, b) = (first(r), second(r));
                send(r, a, 0)?;
                r.conn.command(flush_sqe(0, r.env.nsid), &[])?;
                r.conn.expect(&missing().of(FIRST))?;
                r.conn.expect(&good().of(SECOND))?;
                send(r, b, 0x5C)?;
                r.conn.expect(&missing().of(THIRD))?;
                r.reads(1, 0)
            },
            [],
        ),
        case(
            "a first half, then a command that there is not",
            FUSED,
            IO,
            |r| {
                let sqe = first(r);
                send(r, sqe, 0)?;
                r.conn.command(Sqe { opcode: 0x7E, nsid: r.env.nsid, ..Sqe::default() }, &[])
            },
            [missing().of(FIRST), fails(StatusCode::INVALID_OPCODE).of(SECOND)],
        ),
        case(
            "two first halves and one second: the second of the latter",
            FUSED,
            IO,
            |r| {
                let (a, b) = (first(r), second(r));
                send(r, a, 0)?;
                send(r, a, 0)?;
                send(r, b, 0x5C)
            },
            [missing().of(FIRST), good().of(SECOND), good().of(THIRD)],
        ),
        case(
            "one first half and two second halves",
            FUSED,
            IO,
            |r| {
                let (a, b) = (first(r), second(r));
                send(r, a, 0)?;
                send(r, b, 0x5C)?;
                r.conn.expect(&good().of(FIRST))?;
                r.conn.expect(&good().of(SECOND))?;
                send(r, b, 0x5D)?;
                r.conn.expect(&missing().of(THIRD))?;
                r.reads(1, 0x5C)
            },
            [],
        ),
        case(
            "a first half and the end of the connection: nothing is written, the controller serves on",
            "base 3.4.2, tcp 3.5",
            IO,
            |r| {
                let (a, b) = (first(r), second(r));
                send(r, a, 0)?;
                let capsule = bytes(r, b, 0x5C);
                r.conn.send(&capsule[..capsule.len() - 1])?;
                r.conn.half_close()?;
                r.conn.expect(&Answer::Closes)?;
                r.swap();
                Ok(())
            },
            [],
        ),
    ]
}

fn wrong() -> Vec<Case> {
    let field = || fails(StatusCode::INVALID_FIELD);
    let mut all = vec![
        pair("a Write as first half, then its second", FUSE, |r| half(r, IoOpcode::Write, Fuse::First), second, [field(), failed()]),
        pair("a first half, then a Compare as second", FUSE, first, |r| half(r, IoOpcode::Compare, Fuse::Second), [failed(), field()]),
        pair(
            "a first half, then a second one of the next block",
            RANGES,
            first,
            |r| Sqe {
                sgl: Sgl::in_capsule(0, r.bytes(1)),
                fuse: Fuse::Second,
                ..BlockRange::new(r.area + 1, 0).sqe(IoOpcode::Write, 0, 1)
            },
            [field(), field()],
        ),
        pair(
            "a first half, then a second one of two blocks",
            RANGES,
            first,
            |r| Sqe { fuse: Fuse::Second, sgl: Sgl::in_capsule(0, r.bytes(2)), ..r.io(IoOpcode::Write, 2) },
            [field(), field()],
        ),
        pair(
            "a first half behind the end, then its second",
            RANGES,
            |r| Sqe { cdw10: r.env.blocks as u32, cdw11: (r.env.blocks >> 32) as u32, ..first(r) },
            second,
            [fails(StatusCode::LBA_OUT_OF_RANGE), failed()],
        ),
        pair(
            "a first half, then a second one behind the end",
            RANGES,
            first,
            |r| Sqe { cdw10: r.env.blocks as u32, cdw11: (r.env.blocks >> 32) as u32, ..second(r) },
            [failed(), fails(StatusCode::LBA_OUT_OF_RANGE)],
        ),
        pair(
            "a first half, then a second one without a namespace",
            FUSED,
            first,
            |r| Sqe { nsid: INACTIVE_NSID, ..second(r) },
            [failed(), field()],
        ),
        pair(
            "a first half, then a second one of a write protected namespace",
            FUSED,
            |r| Sqe { nsid: READ_ONLY_NSID, cdw10: 0, ..first(r) },
            |r| Sqe { nsid: READ_ONLY_NSID, cdw10: 0, ..second(r) },
            [failed(), fails(StatusCode::NAMESPACE_WRITE_PROTECTED)],
        ),
        pair(
            "a first half, then a second one with an SGL of no type",
            FUSED,
            first,
            |r| Sqe { sgl: no_type(r.bytes(1)), ..second(r) },
            [failed(), fails(StatusCode::SGL_TYPE_INVALID)],
        ),
        case(
            "Compare and Write of more than is atomic: nothing is asked for",
            UNIT,
            IO,
            |r| {
                let most = r.env.transfer_max >> r.env.shift;
                let (a, b) = (r.io(IoOpcode::Compare, most), r.io(IoOpcode::Write, most));
                r.conn.command(Sqe { fuse: Fuse::First, ..a }, &[])?;
                r.conn.command(Sqe { fuse: Fuse::Second, ..b }, &[])
            },
            [fails(StatusCode::ATOMIC_WRITE_UNIT_EXCEEDED).of(FIRST), failed().of(SECOND)],
        ),
    ];
    for (op, name) in [(IoOpcode::Read, "Read"), (IoOpcode::WriteZeroes, "Write Zeroes"), (IoOpcode::Verify, "Verify")] {
        for (fuse, which) in [(Fuse::First, "first"), (Fuse::Second, "second")] {
            all.push(case(
                format!("{name} as {which} half"),
                FUSE,
                IO,
                move |r| {
                    let sgl = if op == IoOpcode::Read { Sgl::transport(r.bytes(1)) } else { Sgl::default() };
                    let sqe = Sqe { fuse, sgl, ..r.io(op, 1) };
                    r.conn.command(sqe, &[])
                },
                fails(StatusCode::INVALID_FIELD),
            ));
        }
    }
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = whole();
    all.extend(misplaced());
    all.extend(wrong());
    all
}

//! Copy, Verify and Write Uncorrectable: lists, limits and ranges.

use crate::pdu::case::{Answer, Case, IO, case, fails, good, retry};
use crate::pdu::run::{Run, Stop};
use crate::pdu::target::{INACTIVE_NSID, READ_ONLY_NSID};
use format::nvme::io::{BlockRange, CopyCommand, CopyRange};
use format::nvme::{IoOpcode, NSID_ALL, Sgl, Sqe, StatusCode};

const COPY: &str = "nvm 3.2.2";
const LIMITS: &str = "nvm 3.2.2, 4.1.5.1: MSSRL, MCL, MSRC";
const VERIFY: &str = "nvm 3.2.6";
const UNCORRECTABLE: &str = "nvm 3.2.7";
/// Most blocks of a source range, of a command, and ranges of a command, as Identify Namespace says.
const RANGE_BLOCKS_MAX: u64 = 4096;
const RANGES_MAX: usize = 128;

/// Copies `ranges` (first block, blocks) to `to`, NR as `nr` says, the list cut or filled up to `bytes`.
fn copy_of(r: &mut Run<'_>, to: u64, nr: u8, ranges: &[(u64, u64)], bytes: usize, change: impl Fn(&mut CopyCommand)) -> Result<(), Stop> {
    let mut list: Vec<u8> =
        ranges.iter().flat_map(|(slba, blocks)| CopyRange { slba: *slba, nlb: (*blocks - 1) as u16 }.to_bytes()).collect();
    list.resize(bytes, 0);
    let mut command = CopyCommand { sdlba: to, nr, desfmt: 0, dtype: 0 };
    change(&mut command);
    let sqe = command.sqe(0, r.env.nsid);
    r.conn.command(Sqe { sgl: Sgl::in_capsule(0, bytes as u32), ..sqe }, &list)
}
/// The same with all as it should be.
fn copy(r: &mut Run<'_>, to: u64, ranges: &[(u64, u64)]) -> Result<(), Stop> {
    copy_of(r, to, (ranges.len() - 1) as u8, ranges, ranges.len() * CopyRange::LEN, |_| ())
}
fn fill(r: &mut Run<'_>, block: u64, byte: u8) -> Result<(), Stop> {
    let n = r.bytes(1);
    let sqe = BlockRange::new(block, 0).sqe(IoOpcode::Write, 0, r.env.nsid);
    r.conn.command(Sqe { sgl: Sgl::in_capsule(0, n), ..sqe }, &vec![byte; n as usize])?;
    r.conn.expect(&good())
}

fn copies() -> Vec<Case> {
    let mut all = Vec::new();
    let mut one =
        |name: &str, section, act: fn(&mut Run<'_>) -> Result<(), Stop>, answer: Answer| all.push(case(name, section, IO, act, answer));
    let out = || fails(StatusCode::LBA_OUT_OF_RANGE);
    let limit = || fails(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
    let length = || fails(StatusCode::DATA_SGL_LENGTH_INVALID);
    one("Copy of one block", COPY, |r| copy(r, r.area + 8, &[(r.area, 1)]), good());
    one(
        "Copy of 128 ranges",
        LIMITS,
        |r| {
            let ranges: Vec<_> = (0..RANGES_MAX as u64).map(|i| (r.area + i % 8, 1)).collect();
            copy(r, r.area + 256, &ranges)
        },
        good(),
    );
    one(
        "Copy of 129 ranges",
        LIMITS,
        |r| {
            let ranges: Vec<_> = (0..=RANGES_MAX as u64).map(|i| (r.area + i % 8, 1)).collect();
            copy(r, r.area + 256, &ranges)
        },
        limit(),
    );
    one("Copy with NR FFh and one range", LIMITS, |r| copy_of(r, r.area + 8, 255, &[(r.area, 1)], 32, |_| ()), limit());
    one("Copy, a range of more than MSSRL", LIMITS, |r| copy(r, r.area, &[(0, RANGE_BLOCKS_MAX + 1)]), limit());
    one(
        "Copy, ranges of more than MCL together",
        LIMITS,
        |r| {
            let ranges = [[(0, RANGE_BLOCKS_MAX); 4].as_slice(), &[(0, 1)]].concat();
            copy(r, r.area, &ranges)
        },
        limit(),
    );
    one("Copy, a range from behind the end", COPY, |r| copy(r, r.area, &[(r.env.blocks, 1)]), out());
    one("Copy, a range that ends behind the end", COPY, |r| copy(r, r.area, &[(r.env.blocks - 1, 2)]), out());
    one("Copy, a range whose end wraps to block 0", COPY, |r| copy(r, r.area, &[(u64::MAX, 1)]), out());
    one("Copy to behind the end", COPY, |r| copy(r, r.env.blocks, &[(r.area, 1)]), out());
    one("Copy to the last block and one more", COPY, |r| copy(r, r.env.blocks - 1, &[(r.area, 2)]), out());
    one("Copy to block 2^64 - 1", COPY, |r| copy(r, u64::MAX, &[(r.area, 1)]), out());
    one("Copy to block 2^52, which is a byte offset of 2^64", COPY, |r| copy(r, 1 << 52, &[(r.area, 1)]), out());
    one("Copy without data", COPY, |r| copy_of(r, r.area, 0, &[], 0, |_| ()), length());
    one("Copy, 31 bytes for one range", COPY, |r| copy_of(r, r.area, 0, &[(r.area, 1)], 31, |_| ()), length());
    one("Copy, 64 bytes for one range", "nvm 3.2.2, own", |r| copy_of(r, r.area, 0, &[(r.area, 1)], 64, |_| ()), length());
    one("Copy, 32 bytes for two ranges", COPY, |r| copy_of(r, r.area, 1, &[(r.area, 1)], 32, |_| ()), length());
    one(
        "Copy with a directive, of which there are none",
        "nvm 3.2.2, own",
        |r| copy_of(r, r.area + 8, 0, &[(r.area, 1)], 32, |c| c.dtype = 1),
        fails(StatusCode::INVALID_FIELD),
    );
    for format in [1, 2, 3, 4, 15] {
        all.push(case(
            format!("Copy with source ranges of format {format}"),
            "nvm 3.2.2, 4.1.5.2: OCFS",
            IO,
            move |r| copy_of(r, r.area + 8, 0, &[(r.area, 1)], 32, |c| c.desfmt = format),
            fails(StatusCode::INVALID_FIELD),
        ));
    }
    for (name, nsid, code) in [
        ("NSID 0", 0, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        ("NSID FFFFFFFFh", NSID_ALL, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        ("an NSID without a namespace", INACTIVE_NSID, StatusCode::INVALID_FIELD),
        ("the NSID of a write protected namespace", READ_ONLY_NSID, StatusCode::NAMESPACE_WRITE_PROTECTED),
    ] {
        all.push(case(
            format!("Copy with {name}"),
            COPY,
            IO,
            move |r| {
                let sqe = Sqe { nsid, sgl: Sgl::transport(32), ..CopyCommand { sdlba: 0, nr: 0, desfmt: 0, dtype: 0 }.sqe(0, 0) };
                r.conn.command(sqe, &[])
            },
            fails(code),
        ));
    }
    all.push(case(
        "Copy, a good range, then a bad one: nothing is copied",
        "nvm 3.2.2, own",
        IO,
        |r| {
            fill(r, r.area, 0x71)?;
            copy(r, r.area + 8, &[(r.area, 1), (r.env.blocks, 1)])?;
            r.conn.expect(&fails(StatusCode::LBA_OUT_OF_RANGE))?;
            r.reads_at(r.area + 8, 1, 0)
        },
        [],
    ));
    all.push(case(
        "Copy, a range that cannot be read behind a good one: dword 0 names it",
        "nvm 3.2.2, figure 32",
        IO,
        |r| {
            fill(r, r.area, 0x71)?;
            let lost = BlockRange::new(r.area + 1, 0).sqe(IoOpcode::WriteUncorrectable, 0, r.env.nsid);
            r.conn.must(lost, &[])?;
            copy(r, r.area + 8, &[(r.area, 1), (r.area + 1, 1), (r.area, 1)])?;
            let code = StatusCode::UNRECOVERED_READ_ERROR;
            r.conn.expect(&Answer::Status { cid: None, code, dnr: true, result: Some(1) })?;
            r.reads_at(r.area + 8, 1, 0x71)?;
            r.reads_at(r.area + 10, 1, 0)
        },
        [],
    ));
    all.push(case(
        "Copy with a wrong data digest: nothing is copied",
        "tcp 3.3.1.2, DDGST",
        IO.with(false, true),
        |r| {
            fill(r, r.area, 0x71)?;
            let sqe = CopyCommand { sdlba: r.area + 8, nr: 0, desfmt: 0, dtype: 0 }.sqe(0, r.env.nsid);
            let list = CopyRange { slba: r.area, nlb: 0 }.to_bytes();
            let mut bytes = r.conn.capsule(Sqe { sgl: Sgl::in_capsule(0, 32), ..sqe }, &list);
            *bytes.last_mut().expect("not empty") ^= 1;
            r.conn.send(&bytes)?;
            r.conn.expect(&retry(StatusCode::TRANSIENT_TRANSPORT_ERROR))?;
            r.reads_at(r.area + 8, 1, 0)
        },
        [],
    ));
    all
}

/// Verify and Write Uncorrectable: no data, one range.
fn ranged() -> Vec<Case> {
    let mut all = Vec::new();
    for (op, name, section) in [(IoOpcode::Verify, "Verify", VERIFY), (IoOpcode::WriteUncorrectable, "Write Uncorrectable", UNCORRECTABLE)]
    {
        let mut one = |what: &str, at: fn(&Run<'_>) -> (u32, u64, u16), answer: Answer| {
            all.push(case(
                format!("{name} {what}"),
                section,
                IO,
                move |r| {
                    let (nsid, slba, nlb) = at(r);
                    r.conn.command(BlockRange::new(slba, nlb).sqe(op, 0, nsid), &[])
                },
                answer,
            ));
        };
        let out = || fails(StatusCode::LBA_OUT_OF_RANGE);
        let namespace = || fails(StatusCode::INVALID_NAMESPACE_OR_FORMAT);
        one("of a block that was never written", |r| (r.env.nsid, r.area, 0), good());
        one("from the first block behind the end", |r| (r.env.nsid, r.env.blocks, 0), out());
        one("of the last block and one more", |r| (r.env.nsid, r.env.blocks - 1, 1), out());
        one("from block 2^64 - 1", |r| (r.env.nsid, u64::MAX, 0), out());
        one("whose end wraps to block 0", |r| (r.env.nsid, u64::MAX - 6, 6), out());
        one("with NSID 0", |_| (0, 0, 0), namespace());
        one("with NSID FFFFFFFFh", |_| (NSID_ALL, 0, 0), namespace());
        one("with an NSID beyond NN", |r| (r.env.nn + 1, 0, 0), namespace());
        one("with an NSID without a namespace", |_| (INACTIVE_NSID, 0, 0), fails(StatusCode::INVALID_FIELD));
    }
    all.push(case(
        "Verify of 65,536 blocks (NLB FFFFh)",
        "nvm 3.2.6, VSL",
        IO,
        |r| r.conn.command(BlockRange::new(r.env.blocks / 2, 0xFFFF).sqe(IoOpcode::Verify, 0, r.env.nsid), &[]),
        good(),
    ));
    all.push(case(
        "Verify of a write protected namespace",
        "base 8.12",
        IO,
        |r| r.conn.command(BlockRange::new(0, 0).sqe(IoOpcode::Verify, 0, READ_ONLY_NSID), &[]),
        good(),
    ));
    all.push(case(
        "Write Uncorrectable of a write protected namespace",
        "base 8.12",
        IO,
        |r| r.conn.command(BlockRange::new(0, 0).sqe(IoOpcode::WriteUncorrectable, 0, READ_ONLY_NSID), &[]),
        fails(StatusCode::NAMESPACE_WRITE_PROTECTED),
    ));
    for (op, name) in [(IoOpcode::Verify, "Verify"), (IoOpcode::Read, "Read")] {
        all.push(case(
            format!("Write Uncorrectable, then {name}; a Write makes it good"),
            UNCORRECTABLE,
            IO,
            move |r| {
                r.conn.must(BlockRange::new(r.area, 0).sqe(IoOpcode::WriteUncorrectable, 0, r.env.nsid), &[])?;
                let sqe = BlockRange::new(r.area, 0).sqe(op, 0, r.env.nsid);
                let sgl = if op == IoOpcode::Read { Sgl::transport(r.bytes(1)) } else { Sgl::default() };
                r.conn.command(Sqe { sgl, ..sqe }, &[])?;
                r.conn.expect(&fails(StatusCode::UNRECOVERED_READ_ERROR))?;
                fill(r, r.area, 0x33)?;
                r.reads_at(r.area, 1, 0x33)
            },
            [],
        ));
    }
    all.push(case(
        "Verify with data in its capsule",
        "base 4.1.2",
        IO,
        |r| {
            let sqe = BlockRange::new(r.area, 0).sqe(IoOpcode::Verify, 0, r.env.nsid);
            r.conn.command(Sqe { sgl: Sgl::in_capsule(0, 64), ..sqe }, &[1; 64])
        },
        fails(StatusCode::SGL_TYPE_INVALID),
    ));
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = copies();
    all.extend(ranged());
    all
}

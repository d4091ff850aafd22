//! I/O commands: opcodes, namespaces, ranges of blocks, and fields with values that there are not.

use crate::pdu::case::{Answer, Case, IO, case, fails, good};
use crate::pdu::run::{Run, Stop};
use crate::pdu::target::{INACTIVE_NSID, READ_ONLY_NSID};
use format::nvme::io::{BlockRange, DatasetManagement, DsmRange, flush_sqe};
use format::nvme::{IoOpcode, NSID_ALL, Sgl, Sqe, StatusCode};

const OPCODES: &str = "nvm 3, figure 21";
const NAMESPACES: &str = "base 3.2.1.2";
const RANGE: &str = "nvm 3.2, 80h";
const DSM: &str = "nvm 3.2.3";
const PROTECT: &str = "base 8.12";

/// A command on a range of the namespace.
fn range(r: &Run<'_>, op: IoOpcode, slba: u64, nlb: u16) -> Sqe {
    let data = if op == IoOpcode::WriteZeroes { 0 } else { (u32::from(nlb) + 1) << r.env.shift };
    Sqe { sgl: Sgl::transport(data), ..BlockRange::new(slba, nlb).sqe(op, 0, r.env.nsid) }
}
/// Dataset Management with these ranges in its capsule, NR as `nr` says.
fn dsm(r: &mut Run<'_>, nr: u8, ranges: &[(u64, u32)], bytes: usize, deallocate: bool) -> Result<(), Stop> {
    let mut data: Vec<u8> =
        ranges.iter().flat_map(|(slba, blocks)| DsmRange { attributes: 0, blocks: *blocks, slba: *slba }.to_bytes()).collect();
    data.resize(bytes, 0);
    let sqe = DatasetManagement { nr, idr: false, idw: false, ad: deallocate }.sqe(0, r.env.nsid);
    r.conn.command(Sqe { sgl: Sgl::in_capsule(0, bytes as u32), ..sqe }, &data)
}
fn write(r: &mut Run<'_>, blocks: u32, fill: u8) -> Result<(), Stop> {
    let n = r.bytes(blocks);
    let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Write, blocks) };
    r.conn.command(sqe, &vec![fill; n as usize])?;
    r.conn.expect(&good())
}

fn opcodes() -> Vec<Case> {
    let mut all = Vec::new();
    for opcode in [0x03, 0x06, 0x07, 0x0A, 0x0B, 0x0F, 0x10, 0x13, 0x18, 0x1F, 0x7E, 0x80, 0xC1, 0xFF] {
        all.push(case(
            format!("I/O opcode {opcode:02X}h"),
            OPCODES,
            IO,
            move |r| {
                let sqe = Sqe { opcode, nsid: r.env.nsid, ..Sqe::default() };
                r.conn.command(sqe, &[])
            },
            fails(StatusCode::INVALID_OPCODE),
        ));
    }
    for fctype in [0x02, 0x07, 0xFF] {
        all.push(case(
            format!("fabrics command of type {fctype:02X}h on an I/O queue"),
            "base 6, figure 390",
            IO,
            move |r| r.conn.command(Sqe { opcode: 0x7F, nsid: fctype, ..Sqe::default() }, &[]),
            fails(StatusCode::INVALID_OPCODE),
        ));
    }
    all
}

fn namespaces() -> Vec<Case> {
    let mut all = Vec::new();
    let ops = [IoOpcode::Read, IoOpcode::Write, IoOpcode::Compare, IoOpcode::WriteZeroes, IoOpcode::DatasetManagement, IoOpcode::Flush];
    for op in ops {
        let mut bad = |name: String, nsid: fn(&Run<'_>) -> u32, code| {
            all.push(case(
                name,
                NAMESPACES,
                IO,
                move |r| {
                    let sqe = match op {
                        IoOpcode::DatasetManagement => {
                            Sqe { sgl: Sgl::transport(16), ..DatasetManagement { nr: 0, idr: false, idw: false, ad: true }.sqe(0, 0) }
                        }
                        IoOpcode::Flush => flush_sqe(0, 0),
                        op => range(r, op, 0, 0),
                    };
                    let sqe = Sqe { nsid: nsid(r), ..sqe };
                    r.conn.command(sqe, &[])
                },
                fails(code),
            ));
        };
        bad(format!("{op:?} with NSID 0"), |_| 0, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
        bad(format!("{op:?} with an NSID beyond NN"), |r| r.env.nn + 1, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
        bad(format!("{op:?} with an NSID without a namespace"), |_| INACTIVE_NSID, StatusCode::INVALID_FIELD);
        if op != IoOpcode::Flush {
            bad(format!("{op:?} with NSID FFFFFFFFh"), |_| NSID_ALL, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
        }
    }
    all.push(case(
        "Flush with NSID FFFFFFFFh: all namespaces",
        "nvm 3.2, Flush; base 5.17.2.1, VWC",
        IO,
        |r| r.conn.command(flush_sqe(0, NSID_ALL), &[]),
        good(),
    ));
    all
}

fn ranges() -> Vec<Case> {
    let mut all = Vec::new();
    for op in [IoOpcode::Read, IoOpcode::Write, IoOpcode::Compare, IoOpcode::WriteZeroes] {
        let mut bad = |name: &str, at: fn(u64) -> (u64, u16)| {
            all.push(case(
                format!("{op:?} {name}"),
                RANGE,
                IO,
                move |r| {
                    let (slba, nlb) = at(r.env.blocks);
                    let sqe = range(r, op, slba, nlb);
                    r.conn.command(sqe, &[])
                },
                fails(StatusCode::LBA_OUT_OF_RANGE),
            ));
        };
        bad("from the first block behind the end", |n| (n, 0));
        bad("of the last block and one more", |n| (n - 1, 1));
        bad("from block 2^64 - 1", |_| (u64::MAX, 0));
        bad("whose end wraps to block 0", |_| (u64::MAX - 6, 6));
        bad("from block 2^63, which is a byte offset of 0", |_| (1 << 63, 0));
        bad("from block 2^52, which is a byte offset of 2^64", |_| (1 << 52, 0));
    }
    all.push(case(
        "Read of the last block",
        RANGE,
        IO,
        |r| {
            let (sqe, n) = (range(r, IoOpcode::Read, r.env.blocks - 1, 0), r.bytes(1));
            r.conn.command(sqe, &[])?;
            r.conn.expect(&Answer::Data(n))
        },
        [],
    ));
    all.push(case(
        "Write Zeroes of 65,536 blocks (NLB FFFFh)",
        "nvm 3.2.8",
        IO,
        |r| {
            let sqe = range(r, IoOpcode::WriteZeroes, r.env.blocks / 2, 0xFFFF);
            r.conn.command(sqe, &[])
        },
        good(),
    ));
    all
}

fn ranges_to_deallocate() -> Vec<Case> {
    let mut all = Vec::new();
    let mut one = |name: &str, act: fn(&mut Run<'_>) -> Result<(), Stop>, answer: Answer| all.push(case(name, DSM, IO, act, answer));
    let out = || fails(StatusCode::LBA_OUT_OF_RANGE);
    let length = || fails(StatusCode::DATA_SGL_LENGTH_INVALID);
    one("DSM, one range", |r| dsm(r, 0, &[(r.area, 8)], 16, true), good());
    one(
        "DSM, 256 ranges",
        |r| {
            let all: Vec<_> = (0..256).map(|i| (r.area + i % 64, 1)).collect();
            dsm(r, 255, &all, 4096, true)
        },
        good(),
    );
    one("DSM, one range in 4096 bytes, as Linux sends it", |r| dsm(r, 0, &[(r.area, 1)], 4096, true), good());
    one("DSM, a range of no blocks", |r| dsm(r, 0, &[(r.area, 0)], 16, true), good());
    one(
        "DSM, the bits of no operation",
        |r| {
            write(r, 1, 0x66)?;
            dsm(r, 0, &[(r.area, 1)], 16, false)?;
            r.conn.expect(&good())?;
            r.reads(1, 0x66)?;
            dsm(r, 0, &[(r.area, 1)], 16, false)
        },
        good(),
    );
    one("DSM, a range from behind the end", |r| dsm(r, 0, &[(r.env.blocks, 1)], 16, true), out());
    one("DSM, a range that ends behind the end", |r| dsm(r, 0, &[(r.env.blocks - 1, 2)], 16, true), out());
    one("DSM, a range whose end wraps", |r| dsm(r, 0, &[(u64::MAX, u32::MAX)], 16, true), out());
    one(
        "DSM, a good range, then a bad one: nothing is deallocated",
        |r| {
            write(r, 1, 0x66)?;
            dsm(r, 1, &[(r.area, 1), (r.env.blocks, 1)], 32, true)?;
            r.conn.expect(&fails(StatusCode::LBA_OUT_OF_RANGE))?;
            r.reads(1, 0x66)?;
            dsm(r, 1, &[(r.area, 1), (r.env.blocks, 1)], 32, true)
        },
        fails(StatusCode::LBA_OUT_OF_RANGE),
    );
    one("DSM, 8 bytes for one range", |r| dsm(r, 0, &[], 8, true), length());
    one("DSM, 16 bytes for two ranges", |r| dsm(r, 1, &[(r.area, 1)], 16, true), length());
    one("DSM, 4080 bytes for 256 ranges", |r| dsm(r, 255, &[(r.area, 1)], 4080, true), length());
    one("DSM, 4112 bytes", |r| dsm(r, 0, &[(r.area, 1)], 4112, true), length());
    one(
        "DSM without data",
        |r| {
            let sqe = DatasetManagement { nr: 0, idr: false, idw: false, ad: true }.sqe(0, r.env.nsid);
            r.conn.command(sqe, &[])
        },
        length(),
    );
    all
}

fn others() -> Vec<Case> {
    let mut all = vec![
        case(
            "Compare of what is not there",
            "nvm 3.2.1",
            IO,
            |r| {
                let sqe = Sqe { sgl: Sgl::in_capsule(0, r.bytes(1)), ..r.io(IoOpcode::Compare, 1) };
                r.conn.command(sqe, &vec![1; r.bytes(1) as usize])
            },
            fails(StatusCode::COMPARE_FAILURE),
        ),
        case(
            "Compare of what differs in its last byte",
            "nvm 3.2.1",
            IO,
            |r| {
                let n = r.bytes(2) as usize;
                let mut data = vec![0; n];
                data[n - 1] = 1;
                let sqe = Sqe { sgl: Sgl::in_capsule(0, n as u32), ..r.io(IoOpcode::Compare, 2) };
                r.conn.command(sqe, &data)
            },
            fails(StatusCode::COMPARE_FAILURE),
        ),
        case(
            "Compare of what is there",
            "nvm 3.2.1",
            IO,
            |r| {
                write(r, 2, 0x18)?;
                let n = r.bytes(2);
                let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Compare, 2) };
                r.conn.command(sqe, &vec![0x18; n as usize])
            },
            good(),
        ),
        case(
            "Flush with an SGL for data: there is none, it means nothing",
            "base 4.1.2, own",
            IO,
            |r| {
                let sqe = Sqe { sgl: Sgl::transport(4096), ..flush_sqe(0, r.env.nsid) };
                r.conn.command(sqe, &[])
            },
            good(),
        ),
        case(
            "read with FUA and Limited Retry",
            "nvm 3.2.4",
            IO,
            |r| {
                let sqe = Sqe {
                    sgl: Sgl::transport(r.bytes(1)),
                    ..BlockRange { lr: true, fua: true, ..BlockRange::new(r.area, 0) }.sqe(IoOpcode::Read, 0, r.env.nsid)
                };
                let n = r.bytes(1);
                r.conn.command(sqe, &[])?;
                r.conn.expect(&Answer::Data(n))
            },
            [],
        ),
        case(
            "read with PRINFO where there is no protection information",
            "nvm 3.2.4, own",
            IO,
            |r| {
                let sqe = Sqe {
                    sgl: Sgl::transport(r.bytes(1)),
                    ..BlockRange { prinfo: 7, ..BlockRange::new(r.area, 0) }.sqe(IoOpcode::Read, 0, r.env.nsid)
                };
                let n = r.bytes(1);
                r.conn.command(sqe, &[])?;
                r.conn.expect(&Answer::Data(n))
            },
            [],
        ),
    ];
    for op in [IoOpcode::Write, IoOpcode::WriteZeroes, IoOpcode::DatasetManagement] {
        all.push(case(
            format!("{op:?} to a write protected namespace"),
            PROTECT,
            IO,
            move |r| {
                let sqe = match op {
                    IoOpcode::DatasetManagement => {
                        Sqe { sgl: Sgl::transport(16), ..DatasetManagement { nr: 0, idr: false, idw: false, ad: true }.sqe(0, 0) }
                    }
                    op => range(r, op, 0, 0),
                };
                r.conn.command(Sqe { nsid: READ_ONLY_NSID, ..sqe }, &[])
            },
            fails(StatusCode::NAMESPACE_WRITE_PROTECTED),
        ));
    }
    all.push(case(
        "Read and Flush of a write protected namespace",
        PROTECT,
        IO,
        |r| {
            let (sqe, n) = (Sqe { nsid: READ_ONLY_NSID, ..range(r, IoOpcode::Read, 0, 0) }, r.bytes(1));
            r.conn.command(sqe, &[])?;
            r.conn.expect(&Answer::Data(n))?;
            r.conn.command(flush_sqe(0, READ_ONLY_NSID), &[])
        },
        good(),
    ));
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = opcodes();
    all.extend(namespaces());
    all.extend(ranges());
    all.extend(ranges_to_deallocate());
    all.extend(others());
    all
}

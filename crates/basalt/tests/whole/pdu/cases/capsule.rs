//! What command capsules say about their data, and how many there may be.

use crate::pdu::case::{ADMIN, Answer, Case, IO, case, ends, fails, good, retry};
use crate::pdu::run::{Run, Stop, connect};
use format::nvme::admin::{Identify, plain_sqe};
use format::nvme::fabrics::PropertyAccess;
use format::nvme::io::flush_sqe;
use format::nvme::property::VS;
use format::nvme::{AdminOpcode, Fuse, IoOpcode, Psdt, Sgl, SglKind, Sqe, StatusCode};
use format::nvme_tcp::Fes;

const SGL: &str = "base 4.1.2, tcp 3.3.2";
const LENGTH: &str = "base 3.3.3.2.1, 0Fh";
const IDS: &str = "base 3.3.3.1, CID";
const QUEUE: &str = "base 3.3.2.1, own";

/// An SGL descriptor by its last byte.
fn sgl(id: u8, len: u32) -> Sgl {
    let mut bytes = [0; 16];
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[15] = id;
    debug_assert!(matches!(Sgl(bytes).kind(), SglKind::Other { .. }));
    Sgl(bytes)
}
/// Sends a write of one block with an SGL and so many bytes in its capsule.
fn write(r: &mut Run<'_>, sgl: Sgl, in_capsule: u32) -> Result<(), Stop> {
    let sqe = Sqe { sgl, ..r.io(IoOpcode::Write, 1) };
    r.conn.command(sqe, &vec![0x11; in_capsule as usize])
}

fn descriptors() -> Vec<Case> {
    let mut all = Vec::new();
    let kinds = [
        (0x00, "Data Block with an address"),
        (0x0F, "Data Block of a reserved subtype"),
        (0x10, "Bit Bucket"),
        (0x20, "Segment"),
        (0x30, "Last Segment"),
        (0x40, "Keyed Data Block"),
        (0x50, "Transport Data Block with an address"),
        (0x5B, "Transport Data Block of another subtype"),
        (0x60, "type 6h"),
        (0xF0, "vendor specific"),
    ];
    for (id, name) in kinds {
        for (op, what) in [(IoOpcode::Write, "write"), (IoOpcode::Read, "read")] {
            all.push(case(
                format!("{what}, SGL descriptor {name} ({id:02X}h)"),
                SGL,
                IO,
                move |r| {
                    let sqe = Sqe { sgl: sgl(id, r.bytes(1)), ..r.io(op, 1) };
                    r.conn.command(sqe, &[])
                },
                fails(StatusCode::SGL_TYPE_INVALID),
            ));
        }
    }
    for (psdt, name) in [(Psdt::Prp, "00b: PRPs"), (Psdt::SglMetadata, "10b: metadata by SGL"), (Psdt::Reserved, "11b: reserved")] {
        for (op, what) in [(IoOpcode::Write, "write"), (IoOpcode::Read, "read")] {
            all.push(case(
                format!("{what} with PSDT {name}"),
                "base 3.3.3.1, PSDT",
                IO,
                move |r| {
                    let sqe = Sqe { psdt, ..r.io(op, 1) };
                    r.conn.command(sqe, &[])
                },
                fails(StatusCode::INVALID_FIELD),
            ));
        }
    }
    all.push(case(
        "Identify with PSDT 00b: PRPs",
        "base 3.3.3.1, PSDT",
        ADMIN,
        |r| {
            let sqe =
                Sqe { psdt: Psdt::Prp, sgl: Sgl::transport(4096), ..Identify { cns: 1, cntid: 0, nsid: 0, csi: 0, cnssid: 0 }.sqe(0) };
            r.conn.command(sqe, &[])
        },
        fails(StatusCode::INVALID_FIELD),
    ));
    for (state, on) in [(IO, "I/O"), (ADMIN, "admin")] {
        all.push(case(
            format!("{on} command with FUSE 11b: reserved"),
            "base 3.3.3.1, FUSE",
            state,
            move |r| {
                let sqe = if on == "I/O" { r.io(IoOpcode::Read, 1) } else { plain_sqe(AdminOpcode::KeepAlive, 0) };
                r.conn.command(Sqe { fuse: Fuse::Reserved, ..sqe }, &[])
            },
            fails(StatusCode::INVALID_FIELD),
        ));
    }
    all
}

fn in_capsule() -> Vec<Case> {
    let mut all = vec![
        case(
            "write of as much as a capsule holds",
            "base 5.17.2.1, IOCCSZ",
            IO,
            |r| {
                let n = r.env.capsule_max;
                let sqe = Sqe { sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Write, n >> r.env.shift) };
                r.conn.command(sqe, &vec![0x42; n as usize])
            },
            good(),
        ),
        case(
            "read with data in its capsule",
            SGL,
            IO,
            |r| {
                let sqe = Sqe { sgl: Sgl::in_capsule(0, r.bytes(1)), ..r.io(IoOpcode::Read, 1) };
                r.conn.command(sqe, &[1; 64])
            },
            fails(StatusCode::SGL_TYPE_INVALID),
        ),
        case(
            "read whose SGL says that its data is in the capsule",
            SGL,
            IO,
            |r| {
                let sqe = Sqe { sgl: Sgl::in_capsule(0, r.bytes(1)), ..r.io(IoOpcode::Read, 1) };
                r.conn.command(sqe, &[])
            },
            fails(StatusCode::SGL_TYPE_INVALID),
        ),
        case(
            "Identify whose SGL says that its data is in the capsule",
            SGL,
            ADMIN,
            |r| {
                let sqe = Sqe { sgl: Sgl::in_capsule(0, 4096), ..Identify { cns: 1, cntid: 0, nsid: 0, csi: 0, cnssid: 0 }.sqe(0) };
                r.conn.command(sqe, &[])
            },
            fails(StatusCode::SGL_TYPE_INVALID),
        ),
        case(
            "Flush with data in its capsule",
            SGL,
            IO,
            |r| {
                let sqe = flush_sqe(0, r.env.nsid);
                r.conn.command(sqe, &[1; 512])
            },
            fails(StatusCode::INVALID_FIELD),
        ),
        case(
            "Keep Alive with data in its capsule",
            SGL,
            ADMIN,
            |r| r.conn.command(plain_sqe(AdminOpcode::KeepAlive, 0), &[1; 512]),
            fails(StatusCode::INVALID_FIELD),
        ),
        case(
            "Property Get with data in its capsule",
            SGL,
            ADMIN,
            |r| r.conn.command(PropertyAccess::get_sqe(0, VS, false), &[1; 4]),
            fails(StatusCode::INVALID_FIELD),
        ),
    ];
    let mut bad =
        |name: &str, section, act: fn(&mut Run<'_>) -> Result<(), Stop>, code| all.push(case(name, section, IO, act, fails(code)));
    use StatusCode as Sc;
    bad(
        "write with a capsule offset of 4",
        SGL,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::in_capsule(4, n), n)
        },
        Sc::SGL_OFFSET_INVALID,
    );
    bad(
        "write with a capsule offset of 2^64 - 1",
        SGL,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::in_capsule(u64::MAX, n), n)
        },
        Sc::SGL_OFFSET_INVALID,
    );
    bad(
        "write whose SGL says less than its capsule holds",
        LENGTH,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::in_capsule(0, n - 4), n)
        },
        Sc::DATA_SGL_LENGTH_INVALID,
    );
    bad(
        "write whose SGL says more than its capsule holds",
        LENGTH,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::in_capsule(0, n), n - 4)
        },
        Sc::DATA_SGL_LENGTH_INVALID,
    );
    bad(
        "write whose SGL says FFFFFFFFh bytes are in its capsule",
        LENGTH,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::in_capsule(0, u32::MAX), n)
        },
        Sc::DATA_SGL_LENGTH_INVALID,
    );
    bad(
        "write whose SGL says that its capsule holds data, but there is none",
        LENGTH,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::in_capsule(0, n), 0)
        },
        Sc::DATA_SGL_LENGTH_INVALID,
    );
    bad(
        "write with data in its capsule and an SGL for data PDUs",
        SGL,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::transport(n), n)
        },
        Sc::INVALID_FIELD,
    );
    bad(
        "write with data in its capsule and an SGL of zeroes",
        SGL,
        |r| {
            let n = r.bytes(1);
            write(r, Sgl::default(), n)
        },
        Sc::INVALID_FIELD,
    );
    bad(
        "write with half of its block in its capsule, as its SGL says",
        LENGTH,
        |r| {
            let n = r.bytes(1) / 2;
            write(r, Sgl::in_capsule(0, n), n)
        },
        Sc::DATA_SGL_LENGTH_INVALID,
    );
    bad(
        "write with two blocks in its capsule, as its SGL says, NLB 0",
        LENGTH,
        |r| {
            let n = r.bytes(2);
            write(r, Sgl::in_capsule(0, n), n)
        },
        Sc::DATA_SGL_LENGTH_INVALID,
    );
    all
}

fn lengths() -> Vec<Case> {
    let mut all = Vec::new();
    for (op, what) in [(IoOpcode::Write, "write"), (IoOpcode::Read, "read"), (IoOpcode::Compare, "Compare")] {
        for (name, change) in [("4 bytes too few", -4i64), ("4 bytes too many", 4), ("no bytes", i64::MIN), ("FFFFFFFFh bytes", i64::MAX)] {
            all.push(case(
                format!("{what}, the SGL for {name}"),
                LENGTH,
                IO,
                move |r| {
                    let n = match change {
                        i64::MIN => 0,
                        i64::MAX => u32::MAX,
                        more => (i64::from(r.bytes(2)) + more) as u32,
                    };
                    let sqe = Sqe { sgl: Sgl::transport(n), ..r.io(op, 2) };
                    r.conn.command(sqe, &[])
                },
                fails(StatusCode::DATA_SGL_LENGTH_INVALID),
            ));
        }
        all.push(case(
            format!("{what} of one block more than MDTS"),
            "base 5.17.2.1, MDTS",
            IO,
            move |r| {
                let sqe = r.io(op, (r.env.transfer_max >> r.env.shift) + 1);
                r.conn.command(sqe, &[])
            },
            fails(StatusCode::INVALID_FIELD),
        ));
    }
    all.push(case(
        "read of as much as MDTS allows",
        "base 5.17.2.1, MDTS",
        IO,
        |r| {
            let n = r.env.transfer_max;
            let sqe = r.io(IoOpcode::Read, n >> r.env.shift);
            r.conn.command(sqe, &[])?;
            r.conn.expect(&Answer::Data(n))
        },
        [],
    ));
    all
}

fn identifiers() -> Vec<Case> {
    vec![
        case(
            "a command with the identifier of one that waits for its data",
            IDS,
            IO,
            |r| {
                let r2t = r.asked(1)?;
                let bytes = r.conn.capsule_as_is(Sqe { cid: r2t.cccid, ..flush_sqe(0, r.env.nsid) }, &[]);
                r.conn.send(&bytes)?;
                r.conn.expect(&fails(StatusCode::COMMAND_ID_CONFLICT))?;
                let n = r.bytes(1);
                let bytes = r.conn.h2c(&r2t, 0, &vec![1; n as usize], true);
                r.conn.send(&bytes)
            },
            good(),
        ),
        case(
            "two writes with one identifier, the second with data in its capsule",
            IDS,
            IO,
            |r| {
                let r2t = r.asked(1)?;
                let n = r.bytes(1);
                let sqe = Sqe { cid: r2t.cccid, sgl: Sgl::in_capsule(0, n), ..r.io(IoOpcode::Write, 1) };
                let bytes = r.conn.capsule_as_is(sqe, &vec![1; n as usize]);
                r.conn.send(&bytes)
            },
            fails(StatusCode::COMMAND_ID_CONFLICT),
        ),
        case(
            "an identifier again after its command was answered",
            IDS,
            IO,
            |r| {
                for _ in 0..3 {
                    let bytes = r.conn.capsule_as_is(Sqe { cid: 77, ..flush_sqe(0, r.env.nsid) }, &[]);
                    r.conn.send(&bytes)?;
                    r.conn.expect(&good())?;
                }
                Ok(())
            },
            [],
        ),
        case(
            "an identifier again after its command was refused",
            IDS,
            IO,
            |r| {
                let bytes = r.conn.capsule_as_is(Sqe { cid: 77, ..flush_sqe(0, 0) }, &[]);
                r.conn.send(&bytes)?;
                r.conn.expect(&fails(StatusCode::INVALID_NAMESPACE_OR_FORMAT))?;
                let bytes = r.conn.capsule_as_is(Sqe { cid: 77, ..flush_sqe(0, r.env.nsid) }, &[]);
                r.conn.send(&bytes)
            },
            good(),
        ),
        case(
            "the identifiers 0 and FFFFh",
            IDS,
            IO,
            |r| {
                for cid in [0, 0xFFFF] {
                    let bytes = r.conn.capsule_as_is(Sqe { cid, ..flush_sqe(0, r.env.nsid) }, &[]);
                    r.conn.send(&bytes)?;
                    r.conn.expect(&good())?;
                }
                Ok(())
            },
            [],
        ),
        case(
            "the identifier of an event request again: the request is given up",
            "base 3.3.3.2.1, 03h, own",
            ADMIN,
            |r| {
                r.conn.command(plain_sqe(AdminOpcode::AsyncEventRequest, 0), &[])?;
                r.conn.expect(&Answer::Nothing)?;
                let cid = r.conn.cid;
                let bytes = r.conn.capsule_as_is(plain_sqe(AdminOpcode::KeepAlive, cid), &[]);
                r.conn.send(&bytes)
            },
            good(),
        ),
        case(
            "one command more than the queue has entries",
            QUEUE,
            IO,
            |r| {
                let (id, mut admin) = (r.cntlid, r.admin.take());
                r.conn = r.greeted("conn")?;
                r.conn.join(connect(2, 4), &r.connect_data(id))?;
                std::mem::swap(&mut r.admin, &mut admin);
                for _ in 0..4 {
                    r.asked(1)?;
                }
                let sqe = r.io(IoOpcode::Write, 1);
                r.conn.command(sqe, &[])
            },
            ends(Fes::SequenceError),
        ),
        case(
            "an I/O command after the controller was shut down",
            "base 3.6.1",
            IO,
            |r| {
                let config = format::nvme::property::Config { shn: 1, ..crate::pdu::run::enabled() };
                let sqe = PropertyAccess::set_sqe(0, format::nvme::property::CC, false, config.bits().into());
                r.admin().must(sqe, &[])?;
                let sqe = flush_sqe(0, r.env.nsid);
                r.conn.command(sqe, &[])?;
                r.conn.expect(&retry(StatusCode::COMMAND_SEQUENCE_ERROR))?;
                r.swap();
                Ok(())
            },
            [],
        ),
    ]
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = descriptors();
    all.extend(in_capsule());
    all.extend(lengths());
    all.extend(identifiers());
    all
}

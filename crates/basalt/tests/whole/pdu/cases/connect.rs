//! The Connect command: who may become which queue, and what may come before.

use crate::pdu::case::{ADMIN, Answer, Case, DISABLED, GREETED, IO, case, connect_data, connect_sqe, ends, fails, good, good_any, retry};
use crate::pdu::run::{ENTRIES, Run, Stop, connect};
use crate::pdu::target::CLOSED_NQN;
use format::nvme::admin::{Identify, SetFeatures, plain_sqe};
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess, disconnect_sqe, fabrics_sqe};
use format::nvme::property::VS;
use format::nvme::{AdminOpcode, FabricsType, IoOpcode, Sgl, Sqe, StatusCode, feature};
use format::nvme_tcp::Fes;

const CONNECT: &str = "base 6.3";
const DATA: &str = "base 6.3, figure 382";
const NQNS: &str = "base 4.5";
const FIRST: &str = "base 6.3, 3.3.2.2";
const SUBNQN: u16 = 256;
const HOSTNQN: u16 = 512;

/// Connect of an admin queue, changed.
fn admin(r: &mut Run<'_>, change: impl Fn(&mut Connect, &mut ConnectData)) -> Result<(), Stop> {
    let (mut command, mut data) = (connect(0, ENTRIES), r.connect_data(CNTLID_DYNAMIC));
    change(&mut command, &mut data);
    r.conn.command(command.sqe(0), &data.to_bytes())
}
/// Connect of I/O queue 1 to a controller of ours that is ready, changed.
fn io(r: &mut Run<'_>, change: impl Fn(&mut Connect, &mut ConnectData)) -> Result<(), Stop> {
    let (owner, id) = r.ready("admin")?;
    r.admin = Some(owner);
    let (mut command, mut data) = (connect(1, ENTRIES), r.connect_data(id));
    change(&mut command, &mut data);
    r.conn.command(command.sqe(0), &data.to_bytes())
}
/// The Connect succeeds; another connection is then what the case is about.
fn accepted(r: &mut Run<'_>) -> Result<(), Stop> {
    r.conn.expect(&good_any())?;
    r.conn = r.greeted("conn")?;
    Ok(())
}
fn name(bytes: &[u8]) -> [u8; 256] {
    let mut field = [0; 256];
    field[..bytes.len()].copy_from_slice(bytes);
    field
}

fn commands() -> Vec<Case> {
    let mut all = Vec::new();
    for recfmt in [1, 0xFFFF] {
        all.push(case(
            format!("Connect with RECFMT {recfmt:X}h"),
            CONNECT,
            GREETED,
            move |r| admin(r, |c, _| c.recfmt = recfmt),
            fails(StatusCode::CONNECT_INCOMPATIBLE_FORMAT),
        ));
    }
    for size in [0, 1024, 0xFFFF] {
        all.push(case(
            format!("Connect of an admin queue with SQSIZE {size}"),
            CONNECT,
            GREETED,
            move |r| admin(r, |c, _| c.sqsize = size),
            connect_sqe(44),
        ));
        all.push(case(
            format!("Connect of an I/O queue with SQSIZE {size}"),
            CONNECT,
            GREETED,
            move |r| io(r, |c, _| c.sqsize = size),
            connect_sqe(44),
        ));
    }
    for qid in [129, 0xFFFF] {
        all.push(case(format!("Connect of I/O queue {qid}"), CONNECT, GREETED, move |r| io(r, |c, _| c.qid = qid), connect_sqe(42)));
    }
    all.push(case(
        "Connect of an I/O queue beyond those granted",
        "base 5.27.1.5, 6.3",
        GREETED,
        |r| {
            let (mut owner, id) = r.ready("admin")?;
            owner.must(SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(0, 0), nsid: 0 }.sqe(0), &[])?;
            r.admin = Some(owner);
            let data = r.connect_data(id).to_bytes();
            r.conn.command(connect(2, ENTRIES).sqe(0), &data)
        },
        connect_sqe(42),
    ));
    all.push(case(
        "Connect with a KATO of 25 days",
        "base 5.27.1.12, own",
        GREETED,
        |r| admin(r, |c, _| c.kato_ms = 25 * 24 * 3600 * 1000),
        connect_sqe(48),
    ));
    all.push(case(
        "Connect of an I/O queue with a KATO: it means nothing there",
        CONNECT,
        GREETED,
        |r| {
            io(r, |c, _| c.kato_ms = u32::MAX)?;
            accepted(r)
        },
        [],
    ));
    all.push(case(
        "Connect with reserved bits of CATTR",
        "base 1.4.1.4, own",
        GREETED,
        |r| {
            admin(r, |c, _| c.cattr = 0xF0)?;
            accepted(r)
        },
        [],
    ));
    all.push(case(
        "a queue without SQ flow control: SQHD is FFFFh",
        CONNECT,
        GREETED,
        |r| {
            let data = r.connect_data(CNTLID_DYNAMIC);
            r.conn.join(Connect { cattr: Connect::CATTR_NO_FLOW_CONTROL, ..connect(0, ENTRIES) }, &data)?;
            r.conn.command(PropertyAccess::get_sqe(0, VS, false), &[])
        },
        crate::pdu::case::result(0x20000),
    ));
    for n in [0, 512, 1020, 1028, 2048] {
        all.push(case(
            format!("Connect with {n} bytes of data"),
            DATA,
            GREETED,
            move |r| {
                let sqe = Sqe { sgl: if n == 0 { Sgl::default() } else { Sgl::in_capsule(0, n) }, ..connect(0, ENTRIES).sqe(0) };
                r.conn.command(sqe, &vec![0; n as usize])
            },
            fails(StatusCode::DATA_SGL_LENGTH_INVALID),
        ));
    }
    all
}

fn names() -> Vec<Case> {
    let mut all = Vec::new();
    let long = [b"nqn.2014-08.org.nvmexpress:".as_slice(), &[b'a'; 197]].concat();
    let bad: [(&str, [u8; 256]); 8] = [
        ("without an end", [b'n'; 256]),
        ("of 224 bytes", name(&long)),
        ("that is not UTF-8", name(b"nqn.2014-08.org.nvmexpress:\xFF\xFE")),
        ("that does not begin with nqn.", name(b"iqn.2014-08.org.nvmexpress:host")),
        ("without a date", name(b"nqn.nvmexpress")),
        ("with a date of letters", name(b"nqn.yyyy-mm.org.nvmexpress:host")),
        ("with a control character", name(b"nqn.2014-08.org.nvmexpress:a\nb")),
        ("that begins with a NUL", {
            let mut f = name(b"\0qn.2014-08.org.nvmexpress:host");
            f[0] = 0;
            f
        }),
    ];
    for (what, field) in bad {
        all.push(case(
            format!("Connect with a HOSTNQN {what}"),
            NQNS,
            GREETED,
            move |r| admin(r, |_, d| d.hostnqn = field),
            connect_data(HOSTNQN),
        ));
        all.push(case(
            format!("Connect with a SUBNQN {what}"),
            NQNS,
            GREETED,
            move |r| admin(r, |_, d| d.subnqn = field),
            connect_data(SUBNQN),
        ));
    }
    all.push(case("Connect with an empty SUBNQN", NQNS, GREETED, |r| admin(r, |_, d| d.subnqn = [0; 256]), connect_data(SUBNQN)));
    all.push(case(
        "Connect with an empty HOSTNQN, where every host may connect",
        "base 4.5, own",
        GREETED,
        |r| {
            admin(r, |_, d| d.hostnqn = [0; 256])?;
            accepted(r)
        },
        [],
    ));
    all.push(case(
        "Connect with an empty HOSTNQN to a subsystem with a list",
        CONNECT,
        GREETED,
        |r| {
            admin(r, |_, d| {
                d.hostnqn = [0; 256];
                d.subnqn = name(CLOSED_NQN.as_bytes());
            })
        },
        fails(StatusCode::CONNECT_INVALID_HOST),
    ));
    all.push(case(
        "Connect to a subsystem that there is not",
        CONNECT,
        GREETED,
        |r| admin(r, |_, d| d.subnqn = name(b"nqn.2026-11.io.basalt:nothing")),
        connect_data(SUBNQN),
    ));
    all.push(case(
        "Connect to a subsystem whose name is longer by one",
        CONNECT,
        GREETED,
        |r| {
            let longer = format!("{}x", r.env.nqn);
            admin(r, |_, d| d.subnqn = name(longer.as_bytes()))
        },
        connect_data(SUBNQN),
    ));
    all.push(case(
        "Connect by a host that is not on the list",
        CONNECT,
        GREETED,
        |r| admin(r, |_, d| d.subnqn = name(CLOSED_NQN.as_bytes())),
        fails(StatusCode::CONNECT_INVALID_HOST),
    ));
    for id in [0, 1, 0xFFF0, 0xFFFD] {
        all.push(case(
            format!("Connect of an admin queue with CNTLID {id:04X}h"),
            DATA,
            GREETED,
            move |r| admin(r, |_, d| d.cntlid = id),
            connect_data(16),
        ));
    }
    all
}

fn io_queues() -> Vec<Case> {
    let mut all = Vec::new();
    let mut bad =
        |name: &str, act: fn(&mut Run<'_>) -> Result<(), Stop>, answer: Answer| all.push(case(name, CONNECT, GREETED, act, answer));
    bad("I/O queue of a controller that there is not", |r| io(r, |_, d| d.cntlid = 0xF00D), connect_data(16));
    bad("I/O queue with CNTLID FFFFh", |r| io(r, |_, d| d.cntlid = 0xFFFF), connect_data(16));
    bad("I/O queue with CNTLID 0", |r| io(r, |_, d| d.cntlid = 0), connect_data(16));
    bad("I/O queue by another host NQN", |r| io(r, |_, d| d.hostnqn = name(b"nqn.2014-08.org.nvmexpress:other")), connect_data(HOSTNQN));
    bad("I/O queue by another host identifier", |r| io(r, |_, d| d.host_id[3] ^= 1), connect_data(0));
    bad("I/O queue of another subsystem", |r| io(r, |_, d| d.subnqn = name(b"nqn.2026-11.io.basalt:default")), connect_data(SUBNQN));
    bad(
        "I/O queue of a controller that was not enabled",
        |r| {
            let mut owner = r.greeted("admin")?;
            let id = owner.join(connect(0, ENTRIES), &r.connect_data(CNTLID_DYNAMIC))?;
            r.admin = Some(owner);
            let data = r.connect_data(id).to_bytes();
            r.conn.command(connect(1, ENTRIES).sqe(0), &data)
        },
        retry(StatusCode::COMMAND_SEQUENCE_ERROR),
    );
    bad(
        "I/O queue of a controller that was shut down",
        |r| {
            let (mut owner, id) = r.ready("admin")?;
            let config = format::nvme::property::Config { shn: 1, ..crate::pdu::run::enabled() };
            owner.must(PropertyAccess::set_sqe(0, format::nvme::property::CC, false, config.bits().into()), &[])?;
            r.admin = Some(owner);
            let data = r.connect_data(id).to_bytes();
            r.conn.command(connect(1, ENTRIES).sqe(0), &data)
        },
        retry(StatusCode::COMMAND_SEQUENCE_ERROR),
    );
    all.push(case(
        "I/O queue whose number is in use",
        CONNECT,
        IO,
        |r| {
            let (id, data) = (r.cntlid, r.connect_data(r.cntlid).to_bytes());
            let mut second = r.greeted("second")?;
            assert_ne!(id, 0);
            second.command(connect(1, ENTRIES).sqe(0), &data)?;
            second.expect(&retry(StatusCode::COMMAND_SEQUENCE_ERROR))
        },
        [],
    ));
    all.push(case(
        "I/O queue number again after its connection ended",
        CONNECT,
        IO,
        |r| {
            let data = r.connect_data(r.cntlid);
            r.conn.half_close()?;
            r.conn.expect(&Answer::Closes)?;
            for _ in 0..200 {
                r.conn = r.greeted("conn")?;
                if r.conn.join(connect(1, ENTRIES), &data).is_ok() {
                    return Ok(());
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(Stop::Differs("it stays in use".into()))
        },
        [],
    ));
    all
}

fn before() -> Vec<Case> {
    let mut all = Vec::new();
    let early: [(&str, Sqe); 8] = [
        ("Property Get", PropertyAccess::get_sqe(0, VS, false)),
        ("Property Set", PropertyAccess::set_sqe(0, 0x14, false, 1)),
        ("Disconnect", disconnect_sqe(0)),
        ("a fabrics command of an unknown type", Sqe { nsid: 0x77, ..fabrics_sqe(0, FabricsType::PropertyGet) }),
        ("Identify", Sqe { sgl: Sgl::transport(4096), ..Identify { cns: 1, cntid: 0, nsid: 0, csi: 0, cnssid: 0 }.sqe(0) }),
        ("Keep Alive", plain_sqe(AdminOpcode::KeepAlive, 0)),
        ("an event request", plain_sqe(AdminOpcode::AsyncEventRequest, 0)),
        ("an unknown command", Sqe { opcode: 0xFF, ..Sqe::default() }),
    ];
    for (name, sqe) in early {
        all.push(case(
            format!("{name} before Connect"),
            FIRST,
            GREETED,
            move |r| r.conn.command(sqe, &[]),
            fails(StatusCode::COMMAND_SEQUENCE_ERROR),
        ));
    }
    all.push(case(
        "write before Connect",
        FIRST,
        GREETED,
        |r| {
            let sqe = r.io(IoOpcode::Write, 1);
            r.conn.command(sqe, &[])
        },
        fails(StatusCode::COMMAND_SEQUENCE_ERROR),
    ));
    all.push(case(
        "write with data in its capsule before Connect",
        FIRST,
        GREETED,
        |r| {
            let sqe = Sqe { sgl: Sgl::in_capsule(0, r.bytes(1)), ..r.io(IoOpcode::Write, 1) };
            r.conn.command(sqe, &vec![1; r.bytes(1) as usize])
        },
        fails(StatusCode::COMMAND_SEQUENCE_ERROR),
    ));
    for (state, on) in [(DISABLED, "an admin queue that is not enabled"), (ADMIN, "an admin queue"), (IO, "an I/O queue")] {
        all.push(case(
            format!("Connect on {on}"),
            FIRST,
            state,
            |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                r.conn.command(connect(0, ENTRIES).sqe(0), &data)
            },
            fails(StatusCode::COMMAND_SEQUENCE_ERROR),
        ));
    }
    all.push(case(
        "Connect again and again after refusals",
        CONNECT,
        GREETED,
        |r| {
            for _ in 0..50 {
                admin(r, |c, _| c.recfmt = 1)?;
                r.conn.expect(&fails(StatusCode::CONNECT_INCOMPATIBLE_FORMAT))?;
            }
            Ok(())
        },
        [],
    ));
    all.push(case(
        "Connect with a command behind it in one segment",
        FIRST,
        GREETED,
        |r| {
            let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
            let first = r.conn.capsule(connect(0, ENTRIES).sqe(0), &data);
            let id = r.conn.cid;
            let second = r.conn.capsule(PropertyAccess::get_sqe(0, VS, false), &[]);
            r.conn.send_together(&[first, second], 0)?;
            r.conn.expect(&fails(StatusCode::COMMAND_SEQUENCE_ERROR))?;
            r.conn.expect(&good_any().of(id))?;
            r.conn = r.greeted("conn")?;
            Ok(())
        },
        [],
    ));
    all
}

fn by_r2t() -> Vec<Case> {
    let ask = |r: &mut Run<'_>| {
        let sqe = Sqe { sgl: Sgl::transport(1024), ..connect(0, ENTRIES).sqe(0) };
        r.conn.command(sqe, &[])?;
        r.conn.r2t()
    };
    vec![
        case(
            "Connect whose data comes by R2T",
            "tcp 3.3.2",
            GREETED,
            move |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                let r2t = ask(r)?;
                let bytes = r.conn.h2c(&r2t, 0, &data, true);
                r.conn.send(&bytes)?;
                r.conn.expect(&good_any())?;
                r.conn = r.greeted("conn")?;
                Ok(())
            },
            [],
        ),
        case(
            "two Connects under way at once: one queue comes of it",
            FIRST,
            GREETED,
            move |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                let (one, two) = (ask(r)?, ask(r)?);
                let pdus = [r.conn.h2c(&one, 0, &data, true), r.conn.h2c(&two, 0, &data, true)];
                r.conn.send(&pdus[0])?;
                r.conn.expect(&good_any().of(one.cccid))?;
                r.conn.send(&pdus[1])?;
                r.conn.expect(&fails(StatusCode::COMMAND_SEQUENCE_ERROR).of(two.cccid))?;
                r.conn = r.greeted("conn")?;
                Ok(())
            },
            [],
        ),
        case(
            "two Connects under way at once, their data in one segment",
            FIRST,
            GREETED,
            move |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                let (one, two) = (ask(r)?, ask(r)?);
                let pdus = [r.conn.h2c(&one, 0, &data, true), r.conn.h2c(&two, 0, &data, true)];
                r.conn.send_together(&pdus, 0)?;
                r.conn.expect(&fails(StatusCode::COMMAND_SEQUENCE_ERROR).of(two.cccid))?;
                r.conn.expect(&good_any().of(one.cccid))?;
                r.conn = r.greeted("conn")?;
                Ok(())
            },
            [],
        ),
        case(
            "a third command while two Connects wait for their data",
            "base 3.3.2.1, own",
            GREETED,
            move |r| {
                ask(r)?;
                ask(r)?;
                let sqe = Sqe { sgl: Sgl::transport(1024), ..connect(0, ENTRIES).sqe(0) };
                r.conn.command(sqe, &[])
            },
            ends(Fes::SequenceError),
        ),
        case(
            "Disconnect of an I/O queue",
            "base 6.4",
            IO,
            |r| {
                r.conn.command(disconnect_sqe(0), &[])?;
                r.conn.expect(&good())
            },
            Answer::Closes,
        ),
        case(
            "Disconnect with RECFMT 1",
            "base 6.4",
            IO,
            |r| r.conn.command(Sqe { cdw10: 1, ..disconnect_sqe(0) }, &[]),
            fails(StatusCode::CONNECT_INCOMPATIBLE_FORMAT),
        ),
        case(
            "Disconnect on an admin queue",
            "base 6.4",
            ADMIN,
            |r| r.conn.command(disconnect_sqe(0), &[]),
            fails(StatusCode::INVALID_QUEUE_TYPE),
        ),
    ]
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = commands();
    all.extend(names());
    all.extend(io_queues());
    all.extend(before());
    all.extend(by_r2t());
    all
}

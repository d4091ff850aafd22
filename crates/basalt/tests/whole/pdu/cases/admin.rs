//! Admin commands: opcodes, lengths, and fields with values that there are not.

use crate::pdu::case::{ADMIN, Answer, Case, DISABLED, IO, case, fails, good, result, retry};
use crate::pdu::run::{Run, Stop};
use crate::pdu::target::INACTIVE_NSID;
use format::nvme::admin::{Abort, GetFeatures, GetLogPage, Identify, SetFeatures, plain_sqe};
use format::nvme::fabrics::fabrics_sqe;
use format::nvme::feature::{self, Select};
use format::nvme::{AdminOpcode, FabricsType, Sgl, Sqe, StatusCode};

const OPCODES: &str = "base 5, figure 138";
const IDENTIFY: &str = "base 5.17";
const LOGS: &str = "base 5.16";
const FEATURES: &str = "base 5.15, 5.27";
const EVENTS: &str = "base 5.2";

fn identify(cns: u8, nsid: u32, csi: u8) -> Sqe {
    Sqe { sgl: Sgl::transport(4096), ..Identify { cns, cntid: 0, nsid, csi, cnssid: 0 }.sqe(0) }
}
fn log(lid: u8) -> GetLogPage {
    GetLogPage { lid, lsp: 0, rae: false, lsi: 0, numd: 15, offset: 0, index: false, csi: 0, nsid: u32::MAX }
}
fn get_log(log: GetLogPage) -> Sqe {
    Sqe { sgl: Sgl::transport(log.bytes() as u32), ..log.sqe(0) }
}
fn set(fid: u8, cdw11: u32) -> SetFeatures {
    SetFeatures { fid, save: false, cdw11, nsid: 0 }
}
fn one(name: impl Into<String>, section: &'static str, sqe: Sqe, answer: Answer) -> Case {
    case(name, section, ADMIN, move |r| r.conn.command(sqe, &[]), answer)
}

fn opcodes() -> Vec<Case> {
    let mut all = Vec::new();
    let unknown: [(u8, &str); 16] = [
        (0x00, "Delete I/O Submission Queue"),
        (0x01, "Create I/O Submission Queue"),
        (0x04, "Delete I/O Completion Queue"),
        (0x05, "Create I/O Completion Queue"),
        (0x03, "reserved"),
        (0x07, "reserved"),
        (0x0B, "reserved"),
        (0x10, "Firmware Commit"),
        (0x11, "Firmware Image Download"),
        (0x14, "Device Self-test"),
        (0x7C, "Doorbell Buffer Config"),
        (0x81, "Security Send"),
        (0x84, "Sanitize"),
        (0x86, "Get LBA Status"),
        (0xC1, "vendor specific"),
        (0xFF, "vendor specific"),
    ];
    for (opcode, name) in unknown {
        all.push(one(
            format!("admin opcode {opcode:02X}h: {name}"),
            OPCODES,
            Sqe { opcode, ..Sqe::default() },
            fails(StatusCode::INVALID_OPCODE),
        ));
    }
    for fctype in [0x02, 0x03, 0x07, 0x09, 0xC0, 0xFF] {
        let sqe = Sqe { nsid: fctype, ..fabrics_sqe(0, FabricsType::PropertyGet) };
        all.push(one(format!("fabrics command of type {fctype:02X}h"), "base 6, figure 390", sqe, fails(StatusCode::INVALID_OPCODE)));
    }
    all
}

fn identifies() -> Vec<Case> {
    let mut all = Vec::new();
    let field = || fails(StatusCode::INVALID_FIELD);
    let namespace = || fails(StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    for cns in [0x1F, 0x7F, 0xC0, 0xFF] {
        all.push(one(format!("Identify with CNS {cns:02X}h"), IDENTIFY, identify(cns, 0, 0), field()));
    }
    for n in [0, 512, 4092, 4100, 8192] {
        let sqe = Sqe { sgl: Sgl::transport(n), ..identify(1, 0, 0) };
        all.push(one(format!("Identify with an SGL of {n} bytes"), "base 3.3.3.2.1, 0Fh", sqe, fails(StatusCode::DATA_SGL_LENGTH_INVALID)));
    }
    all.push(one("Identify Namespace of NSID 0", IDENTIFY, identify(0, 0, 0), namespace()));
    all.push(case(
        "Identify Namespace of an NSID beyond NN",
        IDENTIFY,
        ADMIN,
        |r| {
            let sqe = identify(0, r.env.nn + 1, 0);
            r.conn.command(sqe, &[])
        },
        namespace(),
    ));
    all.push(case(
        "Identify Namespace of an NSID without a namespace: zeroes",
        IDENTIFY,
        ADMIN,
        |r| {
            r.conn.command(identify(0, INACTIVE_NSID, 0), &[])?;
            r.conn.expect(&Answer::Data(4096))?;
            if r.conn.data.iter().all(|b| *b == 0) { Ok(()) } else { Err(Stop::Differs("not all zero".into())) }
        },
        [],
    ));
    all.push(one("Identify, namespace list from NSID FFFFFFFEh", IDENTIFY, identify(2, 0xFFFF_FFFE, 0), namespace()));
    all.push(one("Identify, namespace list from NSID FFFFFFFFh", IDENTIFY, identify(2, u32::MAX, 0), namespace()));
    all.push(one("Identify, descriptors of NSID 0", IDENTIFY, identify(3, 0, 0), namespace()));
    all.push(one("Identify, descriptors of an NSID without a namespace", IDENTIFY, identify(3, INACTIVE_NSID, 0), field()));
    for (cns, name) in [(5, "Namespace"), (6, "Controller")] {
        for csi in [2, 0xFF] {
            let sqe = identify(cns, u32::from(cns == 5), csi);
            all.push(one(format!("Identify {name} of command set {csi:02X}h"), IDENTIFY, sqe, field()));
        }
    }
    all
}

fn logs() -> Vec<Case> {
    let mut all = Vec::new();
    let field = || fails(StatusCode::INVALID_FIELD);
    for lid in [0x7E, 0xBF, 0xC0, 0xFF] {
        all.push(one(format!("Get Log Page {lid:02X}h"), "base 5.16, 09h", get_log(log(lid)), fails(StatusCode::INVALID_LOG_PAGE)));
    }
    all.push(one("Get Log Page from beyond its end", LOGS, get_log(GetLogPage { offset: 1 << 20, ..log(2) }), field()));
    all.push(one("Get Log Page from offset 2^64 - 4", LOGS, get_log(GetLogPage { offset: u64::MAX - 3, ..log(2) }), field()));
    all.push(one("Get Log Page from an offset that is no dword", LOGS, get_log(GetLogPage { offset: 2, ..log(2) }), field()));
    all.push(one("Get Log Page with an index for an offset", LOGS, get_log(GetLogPage { index: true, ..log(2) }), field()));
    for (name, n) in [("shorter", 60), ("longer", 68), ("empty", 0)] {
        let sqe = Sqe { sgl: Sgl::transport(n), ..log(2).sqe(0) };
        all.push(one(
            format!("Get Log Page with an SGL that is {name}"),
            "base 3.3.3.2.1, 0Fh",
            sqe,
            fails(StatusCode::DATA_SGL_LENGTH_INVALID),
        ));
    }
    let sqe = Sqe { sgl: Sgl::transport(u32::MAX), ..GetLogPage { numd: u32::MAX, ..log(2) }.sqe(0) };
    all.push(one("Get Log Page of 2^32 dwords", "base 5.17.2.1, MDTS", sqe, field()));
    all.push(case(
        "Get Log Page of one dword more than MDTS",
        "base 5.17.2.1, MDTS",
        ADMIN,
        |r| {
            let sqe = get_log(GetLogPage { numd: r.env.transfer_max / 4, ..log(2) });
            r.conn.command(sqe, &[])
        },
        field(),
    ));
    all.push(case(
        "Get Log Page 02h of a namespace: it is the controller's",
        LOGS,
        ADMIN,
        |r| {
            let sqe = get_log(GetLogPage { nsid: r.env.nn + 1, ..log(2) });
            r.conn.command(sqe, &[])
        },
        field(),
    ));
    all
}

fn features() -> Vec<Case> {
    let mut all = Vec::new();
    let field = || fails(StatusCode::INVALID_FIELD);
    for fid in [0x00, 0x7F, 0xBF, 0xFF] {
        let get = GetFeatures { fid, select: Some(Select::Current), cdw11: 0, nsid: 0 }.sqe(0);
        all.push(one(format!("Get Features {fid:02X}h"), FEATURES, get, field()));
        all.push(one(format!("Set Features {fid:02X}h"), FEATURES, set(fid, 0).sqe(0), field()));
    }
    for sel in 4..8 {
        let get =
            Sqe { cdw10: u32::from(feature::FID_QUEUES) | sel << 8, ..GetFeatures { fid: 0, select: None, cdw11: 0, nsid: 0 }.sqe(0) };
        all.push(one(format!("Get Features with SEL {sel}"), FEATURES, get, field()));
    }
    for (name, fid) in [("Number of Queues", feature::FID_QUEUES), ("Asynchronous Event Configuration", feature::FID_ASYNC_EVENTS)] {
        let sqe = SetFeatures { save: true, ..set(fid, 0) }.sqe(0);
        all.push(one(format!("Set Features with SV: {name}"), FEATURES, sqe, fails(StatusCode::FEATURE_NOT_SAVEABLE)));
    }
    for value in [0xFFFF, 0xFFFF_0000, u32::MAX] {
        all.push(one(
            format!("Set Features, Number of Queues {value:08X}h"),
            "base 5.27.1.5",
            set(feature::FID_QUEUES, value).sqe(0),
            field(),
        ));
    }
    all.push(one(
        "Set Features, Number of Queues FFFEh: as many as there may be",
        "base 5.27.1.5",
        set(feature::FID_QUEUES, 0xFFFE_FFFE).sqe(0),
        result(0x007F_007F),
    ));
    all.push(case(
        "Set Features, Number of Queues when there is an I/O queue",
        "base 5.27.1.5",
        IO,
        |r| {
            r.swap();
            r.conn.command(set(feature::FID_QUEUES, 0).sqe(0), &[])
        },
        fails(StatusCode::COMMAND_SEQUENCE_ERROR),
    ));
    all.push(one(
        "Set Features, KATO of 49 days",
        "base 5.27.1.12, own",
        set(feature::FID_KEEP_ALIVE, u32::MAX).sqe(0),
        fails(StatusCode::KEEP_ALIVE_INVALID),
    ));
    all
}

fn request() -> Sqe {
    plain_sqe(AdminOpcode::AsyncEventRequest, 0)
}
fn requests(r: &mut Run<'_>, n: usize) -> Result<(), Stop> {
    (0..n).try_for_each(|_| r.conn.command(request(), &[]))
}

fn others() -> Vec<Case> {
    let mut all = vec![
        case(
            "event requests up to AERL: no answer",
            EVENTS,
            ADMIN,
            move |r| {
                requests(r, 4)?;
                r.conn.expect(&Answer::Nothing)
            },
            [],
        ),
        case("one event request more than AERL", EVENTS, ADMIN, move |r| requests(r, 5), fails(StatusCode::AER_LIMIT_EXCEEDED)),
        case(
            "64 event requests: those beyond AERL are refused, the queue serves on",
            EVENTS,
            ADMIN,
            move |r| {
                requests(r, 4)?;
                for _ in 0..60 {
                    requests(r, 1)?;
                    r.conn.expect(&fails(StatusCode::AER_LIMIT_EXCEEDED))?;
                }
                Ok(())
            },
            [],
        ),
        one("Keep Alive", "base 5.18", plain_sqe(AdminOpcode::KeepAlive, 0), good()),
        one("Abort of a command that there is not", "base 5.1", Abort { sqid: 0, cid: 0x1234 }.sqe(0), result(1)),
        one("Abort on a queue that there is not", "base 5.1", Abort { sqid: 99, cid: 1 }.sqe(0), result(1)),
    ];
    let early: [(&str, Sqe); 5] = [
        ("Identify", identify(1, 0, 0)),
        ("Get Log Page", get_log(log(2))),
        ("Get Features", GetFeatures { fid: feature::FID_QUEUES, select: Some(Select::Current), cdw11: 0, nsid: 0 }.sqe(0)),
        ("Set Features", set(feature::FID_QUEUES, 0).sqe(0)),
        ("an event request", request()),
    ];
    for (name, sqe) in early {
        all.push(case(
            format!("{name} before CC.EN"),
            "base 3.5.1",
            DISABLED,
            move |r| r.conn.command(sqe, &[]),
            retry(StatusCode::COMMAND_SEQUENCE_ERROR),
        ));
    }
    all.push(case(
        "Keep Alive before CC.EN",
        "base 3.5.1, own",
        DISABLED,
        |r| r.conn.command(plain_sqe(AdminOpcode::KeepAlive, 0), &[]),
        good(),
    ));
    all.push(case(
        "an admin command with 8 KiB of data in its capsule",
        "tcp 3.3.2",
        ADMIN,
        |r| {
            let sqe = Sqe { opcode: 0x81, sgl: Sgl::in_capsule(0, 8192), ..Sqe::default() };
            r.conn.command(sqe, &[0; 8192])
        },
        fails(StatusCode::INVALID_FIELD),
    ));
    all.push(case(
        "an unknown admin command with 4 KiB of data in its capsule",
        OPCODES,
        ADMIN,
        |r| {
            let sqe = Sqe { opcode: 0xC1, sgl: Sgl::in_capsule(0, 4096), ..Sqe::default() };
            r.conn.command(sqe, &[0; 4096])
        },
        fails(StatusCode::INVALID_OPCODE),
    ));
    all.push(case(
        "an unknown admin command whose data would come by R2T",
        OPCODES,
        ADMIN,
        |r| {
            let sqe = Sqe { opcode: 0xC1, sgl: Sgl::transport(1 << 30), ..Sqe::default() };
            r.conn.command(sqe, &[])
        },
        fails(StatusCode::INVALID_FIELD),
    ));
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = opcodes();
    all.extend(identifies());
    all.extend(logs());
    all.extend(features());
    all.extend(others());
    all
}

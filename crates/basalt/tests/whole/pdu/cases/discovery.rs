//! What a discovery controller does not do.

use crate::pdu::case::{Answer, Case, DISCOVERY, case, connect_data, connect_sqe, fails, good};
use crate::pdu::run::{ENTRIES, Run, Stop, connect};
use format::nvme::admin::{GetFeatures, GetLogPage, Identify, SetFeatures, plain_sqe};
use format::nvme::fabrics::{CNTLID_DYNAMIC, ConnectData, DISCOVERY_NQN};
use format::nvme::feature::{self, Select};
use format::nvme::log::LID_DISCOVERY;
use format::nvme::{AdminOpcode, Sgl, Sqe, StatusCode};
use format::nvme_tcp::{Digests, IcReq};

const COMMANDS: &str = "base 3.1.2.3, figure 22";
const LOG: &str = "base 5.16.1.23";

fn log(r: &mut Run<'_>, lid: u8, offset: u64, bytes: u32) -> Result<(), Stop> {
    let log = GetLogPage { lid, lsp: 0, rae: false, lsi: 0, numd: bytes / 4 - 1, offset, index: false, csi: 0, nsid: 0 };
    r.conn.command(Sqe { sgl: Sgl::transport(bytes), ..log.sqe(0) }, &[])
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut one = |name: String, sqe: Sqe, code| all.push(case(name, COMMANDS, DISCOVERY, move |r| r.conn.command(sqe, &[]), fails(code)));
    for (opcode, name) in [
        (AdminOpcode::Abort, "Abort"),
        (AdminOpcode::NamespaceManagement, "Namespace Management"),
        (AdminOpcode::NamespaceAttachment, "Namespace Attachment"),
        (AdminOpcode::FormatNvm, "Format NVM"),
        (AdminOpcode::CreateIoSq, "Create I/O Submission Queue"),
    ] {
        one(format!("{name} to a discovery controller"), plain_sqe(opcode, 0), StatusCode::INVALID_OPCODE);
    }
    one("an unknown command to a discovery controller".into(), Sqe { opcode: 0xFF, ..Sqe::default() }, StatusCode::INVALID_OPCODE);
    for cns in [0, 2, 3, 0x1C, 0xFF] {
        let sqe = Sqe { sgl: Sgl::transport(4096), ..Identify { cns, cntid: 0, nsid: 1, csi: 0, cnssid: 0 }.sqe(0) };
        one(format!("Identify with CNS {cns:02X}h to a discovery controller"), sqe, StatusCode::INVALID_FIELD);
    }
    for fid in [feature::FID_QUEUES, feature::FID_WRITE_PROTECT] {
        let get = GetFeatures { fid, select: Some(Select::Current), cdw11: 0, nsid: 1 }.sqe(0);
        one(format!("Get Features {fid:02X}h to a discovery controller"), get, StatusCode::INVALID_FIELD);
        let set = SetFeatures { fid, save: false, cdw11: 0, nsid: 1 }.sqe(0);
        one(format!("Set Features {fid:02X}h to a discovery controller"), set, StatusCode::INVALID_FIELD);
    }
    for lid in [0x02, 0x0C, 0xC0] {
        all.push(case(
            format!("Get Log Page {lid:02X}h to a discovery controller"),
            COMMANDS,
            DISCOVERY,
            move |r| log(r, lid, 0, 64),
            fails(StatusCode::INVALID_LOG_PAGE),
        ));
    }
    all.push(case(
        "the discovery log from beyond its end",
        LOG,
        DISCOVERY,
        |r| log(r, LID_DISCOVERY, 1 << 30, 1024),
        fails(StatusCode::INVALID_FIELD),
    ));
    all.push(case(
        "the discovery log from an offset that is no dword",
        LOG,
        DISCOVERY,
        |r| log(r, LID_DISCOVERY, 1, 1024),
        fails(StatusCode::INVALID_FIELD),
    ));
    all.push(case(
        "the header of the discovery log",
        LOG,
        DISCOVERY,
        |r| {
            log(r, LID_DISCOVERY, 0, 1024)?;
            r.conn.expect(&Answer::Data(1024))
        },
        [],
    ));
    all.push(case(
        "Keep Alive to a discovery controller",
        COMMANDS,
        DISCOVERY,
        |r| r.conn.command(plain_sqe(AdminOpcode::KeepAlive, 0), &[]),
        good(),
    ));
    all.push(case(
        "an I/O queue of a discovery controller",
        "base 3.1.2.3",
        DISCOVERY,
        |r| {
            let data = ConnectData::new(r.host.id, r.cntlid, DISCOVERY_NQN, &r.host.nqn).to_bytes();
            let mut io = r.at_discovery("io")?;
            io.greet(IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 })?;
            io.command(connect(1, ENTRIES).sqe(0), &data)?;
            io.expect(&connect_sqe(42))
        },
        [],
    ));
    all.push(case(
        "an NVM subsystem at the discovery port",
        "base 6.3",
        DISCOVERY,
        |r| {
            let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
            let mut io = r.at_discovery("io")?;
            io.greet(IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 })?;
            io.command(connect(0, ENTRIES).sqe(0), &data)?;
            io.expect(&connect_data(256))
        },
        [],
    ));
    all
}

//! Namespace Management and Attachment, Format NVM: not granted, and granted with fields and lists that are wrong.

use crate::pdu::case::{ADMIN, Answer, Case, MANAGED, case, fails};
use crate::pdu::run::{Run, Stop};
use crate::pdu::target::{INACTIVE_NSID, MANAGED_NSID};
use format::nvme::admin::{FormatNvm, NamespaceAction, NamespaceAttachment, NamespaceManagement};
use format::nvme::identify::IdentifyNamespace;
use format::nvme::{NSID_ALL, Sgl, Sqe, StatusCode};

const MANAGEMENT: &str = "base 5.23";
const ATTACHMENT: &str = "base 5.22";
const FORMAT: &str = "base 5.14";
const NAMESPACES: &str = "base 3.2.1";
const LENGTH: &str = "base 3.3.3.2.1, 0Fh";
const PAGE: usize = 4096;
/// A controller ID that nobody has.
const NOBODY: u16 = 0xFFE0;

fn send(r: &mut Run<'_>, sqe: Sqe, data: &[u8]) -> Result<(), Stop> {
    let sgl = if data.is_empty() { Sgl::default() } else { Sgl::in_capsule(0, data.len() as u32) };
    r.conn.command(Sqe { sgl, ..sqe }, data)
}
fn manage(action: Option<NamespaceAction>, nsid: u32, csi: u8) -> Sqe {
    NamespaceManagement { action, csi, nsid }.sqe(0)
}
fn attach(attach: Option<bool>, nsid: u32) -> Sqe {
    NamespaceAttachment { attach, nsid }.sqe(0)
}
/// What a host wants of a new namespace: 1 MiB in blocks of 4 KiB, and nothing else.
fn requested() -> IdentifyNamespace {
    IdentifyNamespace { nsze: 256, ncap: 256, flbas: lba_4k(), ..IdentifyNamespace::default() }
}
/// The index of the LBA format with blocks of 4 KiB.
fn lba_4k() -> u8 {
    1
}
/// A controller list.
fn list(ids: &[u16]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [ids.len() as u16].iter().chain(ids).flat_map(|id| id.to_le_bytes()).collect();
    bytes.resize(PAGE, 0);
    bytes
}

fn not_granted() -> Vec<Case> {
    let page = vec![0; PAGE];
    let commands: [(&str, Sqe, Vec<u8>); 4] = [
        ("Namespace Management, create,", manage(Some(NamespaceAction::Create), 0, 0), page.clone()),
        ("Namespace Management, delete,", manage(Some(NamespaceAction::Delete), 1, 0), Vec::new()),
        ("Namespace Attachment", attach(Some(true), 1), page),
        ("Format NVM", FormatNvm { lba_format: 1, protection: 0, secure_erase: 0, nsid: 1 }.sqe(0), Vec::new()),
    ];
    let one = |(name, sqe, data): (&str, Sqe, Vec<u8>)| {
        let name = format!("{name} where hosts may not manage namespaces");
        case(name, "base 5.17.2.1, OACS", ADMIN, move |r| send(r, sqe, &data), fails(StatusCode::INVALID_OPCODE))
    };
    commands.into_iter().map(one).collect()
}

fn management() -> Vec<Case> {
    let mut all = Vec::new();
    let field = || fails(StatusCode::INVALID_FIELD);
    for sel in [2, 0xF] {
        let sqe = Sqe { cdw10: sel, ..manage(None, 0, 0) };
        all.push(case(format!("Namespace Management with SEL {sel:X}h"), MANAGEMENT, MANAGED, move |r| send(r, sqe, &[0; PAGE]), field()));
        let sqe = Sqe { cdw10: sel, ..attach(None, MANAGED_NSID) };
        all.push(case(format!("Namespace Attachment with SEL {sel:X}h"), ATTACHMENT, MANAGED, move |r| send(r, sqe, &[0; PAGE]), field()));
    }
    for n in [0, 384, PAGE - 4] {
        let length = || fails(StatusCode::DATA_SGL_LENGTH_INVALID);
        let create = manage(Some(NamespaceAction::Create), 0, 0);
        all.push(case(
            format!("Namespace Management, create, with {n} bytes of data"),
            LENGTH,
            MANAGED,
            move |r| send(r, create, &vec![0; n]),
            length(),
        ));
        let attach = attach(Some(true), MANAGED_NSID);
        all.push(case(
            format!("Namespace Attachment with {n} bytes of data"),
            LENGTH,
            MANAGED,
            move |r| send(r, attach, &vec![0; n]),
            length(),
        ));
    }
    let mut create = |name: &str, section, nsid, csi, requested: IdentifyNamespace, answer: Answer| {
        let sqe = manage(Some(NamespaceAction::Create), nsid, csi);
        let name = format!("Namespace Management, create, {name}");
        all.push(case(name, section, MANAGED, move |r| send(r, sqe, &requested.to_bytes()), answer));
    };
    let format = || fails(StatusCode::INVALID_FORMAT);
    create("with an NSID", MANAGEMENT, 7, 0, requested(), field());
    create("of command set 02h", MANAGEMENT, 0, 2, requested(), fails(StatusCode::COMMAND_SET_NOT_SUPPORTED));
    create("of no blocks", MANAGEMENT, 0, 0, IdentifyNamespace { nsze: 0, ncap: 0, ..requested() }, field());
    create("of a capacity of 0", MANAGEMENT, 0, 0, IdentifyNamespace { ncap: 0, ..requested() }, field());
    create("of a capacity above its size", MANAGEMENT, 0, 0, IdentifyNamespace { ncap: 257, ..requested() }, field());
    let thin = fails(StatusCode::THIN_PROVISIONING_NOT_SUPPORTED);
    create("of a capacity below its size", "base 5.23, 1Bh", 0, 0, IdentifyNamespace { ncap: 255, ..requested() }, thin);
    create("with an LBA format that there is not", MANAGEMENT, 0, 0, IdentifyNamespace { flbas: 0xF, ..requested() }, format());
    create("with protection information", MANAGEMENT, 0, 0, IdentifyNamespace { dps: 1, ..requested() }, format());
    create("with reserved bits of NMIC", "base 5.23, own", 0, 0, IdentifyNamespace { nmic: 0xFE, ..requested() }, field());
    let group = fails(StatusCode::ANA_GROUP_ID_INVALID);
    create("in an ANA group of the host's choice", "base 5.23, 24h", 0, 0, IdentifyNamespace { anagrpid: 9, ..requested() }, group);
    create("in an NVM set", "base 5.23, own", 0, 0, IdentifyNamespace { nvmsetid: 1, ..requested() }, field());
    create("in an endurance group", "base 5.23, own", 0, 0, IdentifyNamespace { endgid: 1, ..requested() }, field());
    let room = || fails(StatusCode::INSUFFICIENT_CAPACITY);
    let of = |blocks| IdentifyNamespace { nsze: blocks, ncap: blocks, ..requested() };
    create("of more than was granted", "base 5.23, 15h", 0, 0, of(1 << 20), room());
    create("of 2^64 - 1 blocks", "base 5.23, 15h", 0, 0, of(u64::MAX), room());
    create("of 2^52 blocks, which are 2^64 bytes", "base 5.23, 15h", 0, 0, of(1 << 52), room());
    for (name, nsid, code) in [
        ("NSID 0", 0, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        ("an NSID beyond NN", 0x0010_0000, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        ("an NSID without a namespace", INACTIVE_NSID, StatusCode::INVALID_FIELD),
    ] {
        let delete = manage(Some(NamespaceAction::Delete), nsid, 0);
        all.push(case(
            format!("Namespace Management, delete, with {name}"),
            NAMESPACES,
            MANAGED,
            move |r| send(r, delete, &[]),
            fails(code),
        ));
        let attach = attach(Some(true), nsid);
        all.push(case(
            format!("Namespace Attachment with {name}"),
            NAMESPACES,
            MANAGED,
            move |r| send(r, attach, &list(&[r.cntlid])),
            fails(code),
        ));
    }
    all
}

fn attachment() -> Vec<Case> {
    let mut all = Vec::new();
    let mut one = |name: &str, to: bool, ids: fn(u16) -> Vec<u8>, code: StatusCode| {
        let sqe = attach(Some(to), MANAGED_NSID);
        let what = if to { "attach" } else { "detach" };
        all.push(case(
            format!("Namespace Attachment, {what}, {name}"),
            ATTACHMENT,
            MANAGED,
            move |r| send(r, sqe, &ids(r.cntlid)),
            fails(code),
        ));
    };
    let invalid = StatusCode::CONTROLLER_LIST_INVALID;
    one("of no controllers", true, |_| list(&[]), invalid);
    one("of a controller that there is not", true, |_| list(&[NOBODY]), invalid);
    one("of one controller twice", true, |id| list(&[id, id]), invalid);
    one("of controllers in descending order", true, |id| list(&[NOBODY, id]), invalid);
    one(
        "of 2,048 controllers, more than a list has room for",
        true,
        |_| vec![0, 8].into_iter().chain((0..PAGE - 2).map(|_| 1)).collect(),
        invalid,
    );
    one("of FFFFh controllers", true, |_| vec![0xFF; PAGE], invalid);
    one("of a controller that has it", true, |id| list(&[id]), StatusCode::NAMESPACE_ALREADY_ATTACHED);
    one("of a controller that there is not", false, |_| list(&[NOBODY]), invalid);
    all
}

fn formats() -> Vec<Case> {
    let good = FormatNvm { lba_format: lba_4k(), protection: 0, secure_erase: 0, nsid: MANAGED_NSID };
    let field = || fails(StatusCode::INVALID_FIELD);
    let namespace = || fails(StatusCode::INVALID_NAMESPACE_OR_FORMAT);
    let format = || fails(StatusCode::INVALID_FORMAT);
    let mut all = Vec::new();
    let mut one = |name: &str, section, command: FormatNvm, answer: Answer| {
        all.push(case(format!("Format NVM {name}"), section, MANAGED, move |r| send(r, command.sqe(0), &[]), answer));
    };
    one("with NSID 0", NAMESPACES, FormatNvm { nsid: 0, ..good }, namespace());
    one("with an NSID beyond NN", NAMESPACES, FormatNvm { nsid: 0x0010_0000, ..good }, namespace());
    one("with an NSID without a namespace", NAMESPACES, FormatNvm { nsid: INACTIVE_NSID, ..good }, field());
    one("with NSID FFFFFFFFh", "base 5.14, FNA bit 3", FormatNvm { nsid: NSID_ALL, ..good }, field());
    for index in [2, 15, 16, 63] {
        one(&format!("with LBA format {index}"), FORMAT, FormatNvm { lba_format: index, ..good }, format());
    }
    for pi in [1, 3, 7] {
        one(&format!("with protection information {pi}"), FORMAT, FormatNvm { protection: pi, ..good }, format());
    }
    one("with cryptographic erase", "base 5.14, FNA bit 2", FormatNvm { secure_erase: 2, ..good }, field());
    for ses in [3, 7] {
        one(&format!("with SES {ses}"), FORMAT, FormatNvm { secure_erase: ses, ..good }, field());
    }
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = not_granted();
    all.extend(management());
    all.extend(attachment());
    all.extend(formats());
    all
}

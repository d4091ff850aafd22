//! Admin and fabrics commands of a controller: what each is answered.
//!
//! Owns: the way in; `identify`, `logs`, `features` and `manage` hold what they are named after.
//! Invariant: a command is answered with a status, with data, is parked, or is asked of the control plane; never with a panic, whatever its
//! fields.
//! Never: touches a connection; the caller does.

mod features;
mod identify;
mod logs;
mod manage;

pub use features::{FEATURES, Feature};

use crate::control_request::ControlVerb;
use crate::controller::{Controller, Effect, State};
use crate::shared::TargetShared;
use crate::view::{Namespace, SubsystemView, View};
use base::Instant;
use format::nvme::fabrics::PropertyAccess;
use format::nvme::log::ErrorLocation;
use format::nvme::{AdminOpcode, FabricsType, Sqe, Status, StatusCode};
use rt::Buf;

/// The answer to a command.
pub enum Answer {
    /// A status and dwords 0 and 1.
    Status(Status, u64),
    /// A failure, and where in the command its cause is.
    Refuse(Status, ErrorLocation),
    /// Success with data.
    Data(Buf),
    /// Nothing yet: an event request.
    Park,
    /// Nothing yet: the control plane decides.
    ControlRequest(ControlVerb),
    /// Nothing yet: the queue, which may be on another core, is asked to abort a command.
    Abort {
        /// The queue.
        sqid: u16,
        /// The command.
        cid: u16,
    },
    /// Success; then all I/O queues end and event requests are forgotten.
    Reset,
    /// Success; then this queue ends.
    Disconnect,
}

/// What a command may look at.
pub struct AdminCx<'a> {
    /// The time.
    pub now: Instant,
    /// What is served.
    pub view: &'a View,
    /// Listeners, and the controllers of all cores.
    pub shared: &'a TargetShared,
}

/// Why a command fails: trying again cannot help.
struct Fail {
    code: StatusCode,
    at: ErrorLocation,
}

impl From<StatusCode> for Fail {
    fn from(code: StatusCode) -> Self {
        Self { code, at: ErrorLocation::NONE }
    }
}

/// Bytes of a command where its fields begin.
const AT_NSID: u8 = 4;
const AT_DWORD_10: u8 = 40;
const AT_DWORD_11: u8 = 44;
const AT_DWORD_12: u8 = 48;
const AT_DWORD_14: u8 = 56;

/// Invalid Field in Command, at a byte of the command.
fn invalid(byte: u8) -> Fail {
    Fail { code: StatusCode::INVALID_FIELD, at: ErrorLocation::at(byte, 0) }
}
/// Invalid Namespace or Format: the NSID.
fn invalid_namespace() -> Fail {
    Fail { code: StatusCode::INVALID_NAMESPACE_OR_FORMAT, at: ErrorLocation::at(AT_NSID, 0) }
}

type Outcome = Result<Answer, Fail>;
const OK: Answer = Answer::Status(Status::SUCCESS, 0);

/// Carries out a command of the admin queue. `data` is what came with it.
pub fn execute(c: &mut Controller, cx: &AdminCx<'_>, sqe: &Sqe, data: &[u8]) -> Answer {
    let outcome = match AdminOpcode::parse(sqe.opcode) {
        Some(AdminOpcode::Fabrics) => fabrics(c, sqe),
        Some(AdminOpcode::KeepAlive) => {
            c.keep_alive(cx.now);
            Ok(OK)
        }
        _ if c.state() != State::Ready => return Answer::Status(Status::retry(StatusCode::COMMAND_SEQUENCE_ERROR), 0),
        Some(AdminOpcode::Identify) => identify::identify(c, cx, sqe),
        Some(AdminOpcode::GetLogPage) => logs::get_log_page(c, cx, sqe),
        Some(AdminOpcode::GetFeatures) => features::get(c, cx, sqe),
        Some(AdminOpcode::SetFeatures) => features::set(c, cx, sqe, data),
        Some(AdminOpcode::AsyncEventRequest) => Ok(Answer::Park),
        _ if c.shared.discovery => Err(StatusCode::INVALID_OPCODE.into()),
        Some(AdminOpcode::Abort) => Ok(Answer::Abort { sqid: sqe.cdw10 as u16, cid: (sqe.cdw10 >> 16) as u16 }),
        Some(AdminOpcode::NamespaceManagement) => manage::management(c, cx, sqe, data),
        Some(AdminOpcode::NamespaceAttachment) => manage::attachment(c, cx, sqe, data),
        Some(AdminOpcode::FormatNvm) => manage::format(c, cx, sqe),
        _ => Err(StatusCode::INVALID_OPCODE.into()),
    };
    // A discovery controller has no Error Information log where there could be more.
    let more = |fail: &Fail| fail.at.is_known() && !c.shared.discovery;
    outcome.unwrap_or_else(|fail| Answer::Refuse(Status { more: more(&fail), ..Status::dnr(fail.code) }, fail.at))
}

/// Carries out a fabrics command of an I/O queue.
pub fn execute_on_io_queue(sqe: &Sqe) -> Answer {
    match FabricsType::parse(sqe.fctype()) {
        Some(FabricsType::Disconnect) => disconnect(sqe),
        Some(FabricsType::PropertyGet | FabricsType::PropertySet) => Answer::Status(Status::dnr(StatusCode::INVALID_FIELD), 0),
        _ => Answer::Status(Status::dnr(StatusCode::INVALID_OPCODE), 0),
    }
}

fn disconnect(sqe: &Sqe) -> Answer {
    if sqe.cdw10 as u16 != 0 {
        return Answer::Status(Status::dnr(StatusCode::CONNECT_INCOMPATIBLE_FORMAT), 0);
    }
    Answer::Disconnect
}

fn fabrics(c: &mut Controller, sqe: &Sqe) -> Outcome {
    let access = PropertyAccess::of(sqe);
    match FabricsType::parse(sqe.fctype()) {
        Some(FabricsType::PropertyGet) => {
            let bytes = access.bytes().ok_or(StatusCode::INVALID_FIELD)?;
            Ok(Answer::Status(Status::SUCCESS, c.property(access.offset, bytes)?))
        }
        Some(FabricsType::PropertySet) => {
            let bytes = access.bytes().ok_or(StatusCode::INVALID_FIELD)?;
            match c.set_property(access.offset, bytes, access.value)? {
                Effect::None => Ok(OK),
                Effect::Reset => Ok(Answer::Reset),
            }
        }
        Some(FabricsType::Disconnect) => Err(StatusCode::INVALID_QUEUE_TYPE.into()),
        _ => Err(StatusCode::INVALID_OPCODE.into()),
    }
}

fn subsystem_of<'a>(c: &Controller, view: &'a View) -> Option<&'a SubsystemView> {
    view.subsystem(&c.shared.subsystem)
}

/// The namespaces that are attached to a controller: those that its host sees.
fn attached(c: &Controller, view: &View) -> Vec<Namespace> {
    subsystem_of(c, view).map_or(Vec::new(), |s| view.namespaces(s, &c.shared.host_nqn))
}

/// The namespaces that exist, as far as the host may know: all, where hosts may manage them; otherwise those that it sees.
fn allocated(c: &Controller, view: &View) -> Vec<Namespace> {
    match subsystem_of(c, view) {
        Some(s) if s.manage_namespaces => view.allocated_namespaces(s),
        _ => attached(c, view),
    }
}

/// Whether hosts of the controller's subsystem may make, delete, attach, detach and format namespaces.
pub(crate) fn may_manage(c: &Controller, view: &View) -> bool {
    subsystem_of(c, view).is_some_and(|s| s.manage_namespaces)
}

/// What a valid NSID names in a list; invalid are 0, those above [`crate::limits::NAMESPACES_MAX`] and FFFFFFFFh (base 3.2.1).
fn named(list: &[Namespace], nsid: u32) -> Result<Option<Namespace>, Fail> {
    if nsid == 0 || nsid > crate::limits::NAMESPACES_MAX {
        return Err(invalid_namespace());
    }
    Ok(list.iter().find(|n| n.nsid == nsid).copied())
}

/// The namespace that an NSID names; one that is valid but not in the list is an invalid field (base 3.2.1.4).
fn existing(list: &[Namespace], nsid: u32) -> Result<Namespace, Fail> {
    named(list, nsid)?.ok_or_else(|| invalid(AT_NSID))
}

//! Admin and fabrics commands of a controller: what each is answered.
//!
//! Owns: the way in; `identify`, `logs`, `features` and `manage` hold what they are named after.
//! Invariant: a command is answered with a status, with data, is parked, or is asked of the control plane; never with a panic, whatever its
//! fields.
//! Never: touches a connection; the caller does.

mod answer;
mod features;
mod identify;
mod logs;
mod manage;

pub use crate::admin_context::AdminCx;
pub use crate::feature_table::{FEATURES, Feature};
pub use answer::Answer;

use crate::controller::{Controller, ControllerState, Effect};
use answer::{Fail, OK, Outcome};
use format::nvme::fabrics::PropertyAccess;
use format::nvme::{AdminOpcode, FabricsType, Sqe, Status, StatusCode};

/// Carries out a command of the admin queue. `data` is what came with it.
pub fn execute(c: &mut Controller, cx: &AdminCx<'_>, sqe: &Sqe, data: &[u8]) -> Answer {
    let outcome = match AdminOpcode::parse(sqe.opcode) {
        Some(AdminOpcode::Fabrics) => fabrics(c, sqe),
        Some(AdminOpcode::KeepAlive) => {
            c.keep_alive(cx.now);
            Ok(OK)
        }
        _ if c.state() != ControllerState::Ready => return Answer::Status(Status::retry(StatusCode::COMMAND_SEQUENCE_ERROR), 0),
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

//! Namespace Management and Attachment, Format NVM (base 5.22, 5.23, 5.14): judged here, done by the control plane.
//!
//! Invariant: the commands are there only where the administrator granted them to the subsystem, as Identify says (OACS). Nothing is asked of
//! the control plane that makes no sense by itself.
//! Never: changes what is served.

use super::answer::{AT_DWORD_10, AT_NSID, Answer, Fail, Outcome, existing, invalid};
use crate::admin_context::AdminCx;
use crate::controller::Controller;
use crate::limits::NAMESPACES_MAX;
use crate::pages::LBA_SHIFTS;
use crate::view::Namespace;
use base::HostId;
use format::nvme::admin::{FormatNvm, NamespaceAction, NamespaceAttachment, NamespaceManagement};
use format::nvme::identify::{IdentifyNamespace, checked_controller_list};
use format::nvme::log::ErrorLocation;
use format::nvme::{IDENTIFY_BYTES, NSID_ALL, Sqe, StatusCode};
use frontend::ControlVerb;

fn granted(c: &Controller, cx: &AdminCx<'_>) -> Result<(), Fail> {
    if cx.may_manage(c) { Ok(()) } else { Err(StatusCode::INVALID_OPCODE.into()) }
}

/// No reservation of others stands against the command: these are of the write group (base figure 529).
fn unreserved(c: &Controller, cx: &AdminCx<'_>, ns: &Namespace) -> Result<(), Fail> {
    let access = cx.view.access(ns.volume, HostId::from_bytes(c.shared.host_id));
    if access.write { Ok(()) } else { Err(StatusCode::RESERVATION_CONFLICT.into()) }
}

/// Bytes of a logical block of an LBA format.
fn lba_bytes(format: u8) -> Result<u32, Fail> {
    let shift = LBA_SHIFTS.get(usize::from(format)).ok_or(StatusCode::INVALID_FORMAT)?;
    Ok(1 << shift)
}

pub(super) fn management(c: &Controller, cx: &AdminCx<'_>, sqe: &Sqe, data: &[u8]) -> Outcome {
    granted(c, cx)?;
    let command = NamespaceManagement::of(sqe);
    match command.action.ok_or_else(|| invalid(AT_DWORD_10))? {
        NamespaceAction::Create => create(c, cx, &command, data),
        NamespaceAction::Delete => {
            let nsid = match command.nsid {
                NSID_ALL => {
                    cx.allocated(c).iter().try_for_each(|ns| unreserved(c, cx, ns))?;
                    None
                }
                nsid => {
                    let ns = existing(&cx.allocated(c), nsid)?;
                    unreserved(c, cx, &ns)?;
                    Some(ns.nsid)
                }
            };
            Ok(Answer::ControlRequest(ControlVerb::DeleteUnit { unit: nsid }))
        }
    }
}

fn create(c: &Controller, cx: &AdminCx<'_>, command: &NamespaceManagement, data: &[u8]) -> Outcome {
    if data.len() != IDENTIFY_BYTES {
        return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
    }
    if command.csi != 0 {
        return Err(StatusCode::COMMAND_SET_NOT_SUPPORTED.into());
    }
    if command.nsid != 0 {
        return Err(invalid(AT_NSID));
    }
    let connect = IdentifyNamespace::parse(data).ok_or(StatusCode::DATA_SGL_LENGTH_INVALID)?;
    // LBA format in bits 3:0 and 6:5; metadata is nowhere, so where it would be does not matter. No protection information.
    let lba_bytes = lba_bytes(connect.flbas & 0xF | (connect.flbas >> 5 & 3) << 4)?;
    if connect.dps != 0 {
        return Err(StatusCode::INVALID_FORMAT.into());
    }
    // ANACAP: the group is not the host's choice.
    if connect.anagrpid != 0 {
        return Err(StatusCode::ANA_GROUP_ID_INVALID.into());
    }
    if connect.nmic & !1 != 0
        || connect.nvmsetid != 0
        || connect.endgid != 0
        || connect.nsze == 0
        || connect.ncap == 0
        || connect.ncap > connect.nsze
    {
        return Err(StatusCode::INVALID_FIELD.into());
    }
    if connect.ncap < connect.nsze {
        return Err(StatusCode::THIN_PROVISIONING_NOT_SUPPORTED.into());
    }
    if connect.nsze.checked_mul(u64::from(lba_bytes)).is_none() {
        return Err(StatusCode::INSUFFICIENT_CAPACITY.into());
    }
    if cx.subsystem_of(c).is_some_and(|s| s.namespaces.len() >= NAMESPACES_MAX as usize) {
        return Err(StatusCode::NSID_UNAVAILABLE.into());
    }
    Ok(Answer::ControlRequest(ControlVerb::CreateUnit { blocks: connect.nsze, lba_bytes, shared: connect.nmic & 1 != 0 }))
}

pub(super) fn attachment(c: &Controller, cx: &AdminCx<'_>, sqe: &Sqe, data: &[u8]) -> Outcome {
    granted(c, cx)?;
    let command = NamespaceAttachment::of(sqe);
    let attach = command.attach.ok_or_else(|| invalid(AT_DWORD_10))?;
    if data.len() != IDENTIFY_BYTES {
        return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
    }
    let ns = existing(&cx.allocated(c), command.nsid)?;
    unreserved(c, cx, &ns)?;
    let nsid = ns.nsid;
    let list = checked_controller_list(data).ok_or(StatusCode::CONTROLLER_LIST_INVALID)?;
    let all = cx.shared.controllers_of(&c.shared.subsystem);
    // A namespace is attached to a host, with all the controllers that it has and will have.
    let host = |id: &u16| all.iter().find(|x| x.cntlid == *id).map(|x| x.host_nqn.clone());
    let hosts = list.iter().map(host).collect::<Option<std::collections::BTreeSet<String>>>().ok_or(StatusCode::CONTROLLER_LIST_INVALID)?;
    let hosts = hosts.into_iter().collect();
    Ok(Answer::ControlRequest(if attach {
        ControlVerb::AttachUnit { unit: nsid, hosts }
    } else {
        ControlVerb::DetachUnit { unit: nsid, hosts }
    }))
}

pub(super) fn format(c: &Controller, cx: &AdminCx<'_>, sqe: &Sqe) -> Outcome {
    granted(c, cx)?;
    let command = FormatNvm::of(sqe);
    // FNA: one namespace at a time.
    if command.nsid == NSID_ALL {
        return Err(invalid(AT_NSID));
    }
    let ns = existing(&cx.attached(c), command.nsid)?;
    let lba_bytes = lba_bytes(command.lba_format)?;
    if command.protection != 0 {
        return Err(Fail { code: StatusCode::INVALID_FORMAT, at: ErrorLocation::at(AT_DWORD_10, 5) });
    }
    // User data erase is what any format does here; there is no key to throw away.
    if command.secure_erase > 1 {
        return Err(Fail { code: StatusCode::INVALID_FIELD, at: ErrorLocation::at(AT_DWORD_10 + 1, 1) });
    }
    unreserved(c, cx, &ns)?;
    if ns.write_protect.is_on() {
        return Err(StatusCode::NAMESPACE_WRITE_PROTECTED.into());
    }
    if ns.formatting {
        return Err(StatusCode::FORMAT_IN_PROGRESS.into());
    }
    Ok(Answer::ControlRequest(ControlVerb::Format { unit: ns.nsid, lba_bytes }))
}

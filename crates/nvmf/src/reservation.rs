//! Reservation commands: what their bytes ask for, and the report (base 7.2 to 7.5, 8.19).
//!
//! Invariant: what the standard reserves is refused here; what depends on who is registered is decided by `cluster::reservation`, in the
//! control plane.
//! Never: changes a reservation; that is asked for.

use crate::admin::Answer;
use crate::limits::TRANSFER_MAX;
use crate::view::{Namespace, View};
use cluster::reservation::{Access, Command, ReservationType};
use format::nvme::reservation::{
    self as wire, Action, CNTLID_OF_DYNAMIC, Key, Keys, RegisteredExtended, Report, ReportHead, write_extended_report,
};
use format::nvme::{IoOpcode, Sqe, Status, StatusCode};
use frontend::ControlVerb;
use rt::Buf;

/// Most bytes of data that a reservation command may bring. Linux up to 6.1 brings 16 with Release, which needs 8.
const DATA_BYTES_MAX: u32 = 4096;

/// Whether a command of the I/O queue is one of these.
pub fn is_reservation(opcode: u8) -> bool {
    use IoOpcode as Op;
    let of = [Op::ReservationRegister, Op::ReservationReport, Op::ReservationAcquire, Op::ReservationRelease];
    of.iter().any(|op| op.byte() == opcode)
}

/// The bytes of data that a reservation command brings when its data pointer says `len`; `None` for other commands.
pub fn data_bytes(op: IoOpcode, len: u32) -> Option<u32> {
    let needs = match op {
        IoOpcode::ReservationRegister | IoOpcode::ReservationAcquire => Keys::LEN as u32,
        IoOpcode::ReservationRelease => Key::LEN as u32,
        IoOpcode::ReservationReport => return Some(0),
        _ => return None,
    };
    Some(if (needs..=DATA_BYTES_MAX).contains(&len) { len } else { needs })
}

/// Whether a reservation of others stands against a command (base figure 529; for Copy both its groups count).
pub fn conflicts(op: IoOpcode, access: Access) -> bool {
    use IoOpcode as Op;
    match op {
        Op::Read | Op::Compare | Op::Verify => !access.read,
        Op::Write | Op::WriteUncorrectable | Op::WriteZeroes | Op::DatasetManagement | Op::Flush => !access.write,
        Op::Copy => !access.read || !access.write,
        // Their own rules are part of the state machine; Report is always allowed.
        Op::ReservationRegister | Op::ReservationReport | Op::ReservationAcquire | Op::ReservationRelease | Op::Fabrics => false,
    }
}

/// Carries out a reservation command on a namespace that the host sees: answers a Report, asks for the rest.
pub fn execute(view: &View, ns: &Namespace, sqe: &Sqe, data: &[u8]) -> Answer {
    let outcome = match IoOpcode::parse(sqe.opcode) {
        Some(IoOpcode::ReservationReport) => report(view, ns, sqe).map(Answer::Data),
        _ => command(sqe, data).map(|command| Answer::ControlRequest(ControlVerb::Reservation { volume: ns.id, command })),
    };
    outcome.unwrap_or_else(|code| Answer::Status(Status::dnr(code), 0))
}

/// What a Register, Acquire or Release command asks for.
pub fn command(sqe: &Sqe, data: &[u8]) -> Result<Command, StatusCode> {
    let action = Action::of(sqe);
    let invalid = StatusCode::INVALID_FIELD;
    match IoOpcode::parse(sqe.opcode) {
        Some(IoOpcode::ReservationRegister) => {
            let keys = Keys::parse(data).ok_or(StatusCode::DATA_SGL_LENGTH_INVALID)?;
            let ptpl = match action.cptpl {
                wire::PTPL_KEEP => None,
                wire::PTPL_CLEAR => Some(false),
                wire::PTPL_SET => Some(true),
                _ => return Err(invalid),
            };
            let crkey = (!action.iekey).then_some(keys.crkey);
            match action.action {
                wire::REGISTER => Ok(Command::Register { nrkey: keys.other, ptpl }),
                wire::UNREGISTER => Ok(Command::Unregister { crkey, ptpl }),
                wire::REPLACE => Ok(Command::Replace { crkey, nrkey: keys.other, ptpl }),
                _ => Err(invalid),
            }
        }
        Some(IoOpcode::ReservationAcquire) => {
            let keys = Keys::parse(data).ok_or(StatusCode::DATA_SGL_LENGTH_INVALID)?;
            let rtype = ReservationType::parse(action.rtype).filter(|_| !action.iekey).ok_or(invalid)?;
            let preempt = |abort| Command::Preempt { crkey: keys.crkey, prkey: keys.other, rtype, abort };
            match action.action {
                wire::ACQUIRE => Ok(Command::Acquire { crkey: keys.crkey, rtype }),
                wire::PREEMPT => Ok(preempt(false)),
                wire::PREEMPT_AND_ABORT => Ok(preempt(true)),
                _ => Err(invalid),
            }
        }
        Some(IoOpcode::ReservationRelease) => {
            let crkey = Key::parse(data).ok_or(StatusCode::DATA_SGL_LENGTH_INVALID)?.crkey;
            if action.iekey {
                return Err(invalid);
            }
            match action.action {
                wire::RELEASE => Ok(Command::Release { crkey, rtype: ReservationType::parse(action.rtype) }),
                wire::CLEAR => Ok(Command::Clear { crkey }),
                _ => Err(invalid),
            }
        }
        _ => Err(StatusCode::INVALID_OPCODE),
    }
}

/// Reservation Report: one entry a registrant, whether it is connected or not.
fn report(view: &View, ns: &Namespace, sqe: &Sqe) -> Result<Buf, StatusCode> {
    let report = Report::of(sqe);
    if !report.eds {
        // Over fabrics hosts have 128-bit identifiers, which only the extended form can show (base 7.5).
        return Err(StatusCode::HOST_ID_INCONSISTENT);
    }
    if report.bytes() > TRANSFER_MAX.into() {
        return Err(StatusCode::INVALID_FIELD);
    }
    if u64::from(sqe.sgl.len()) != report.bytes() {
        return Err(StatusCode::DATA_SGL_LENGTH_INVALID);
    }
    let state = view.volume(ns.volume).and_then(|v| v.reservation.as_deref().cloned()).unwrap_or_default();
    let head = ReportHead {
        generation: state.generation(),
        rtype: state.rtype().map_or(0, ReservationType::byte),
        regctl: state.registrants().len() as u16,
        ptpls: state.ptpl().into(),
    };
    let entries = state.registrants().iter().map(|(host, rkey)| RegisteredExtended {
        cntlid: CNTLID_OF_DYNAMIC,
        rcsts: state.is_holder(*host).into(),
        rkey: *rkey,
        hostid: *host.as_bytes(),
    });
    let all = write_extended_report(&head, entries);
    let mut out = Buf::zeroed(report.bytes() as usize);
    let n = out.len().min(all.len());
    out[..n].copy_from_slice(&all[..n]);
    Ok(out)
}

/// A command in words, for the audit log.
pub fn describe(command: &Command) -> String {
    let key = |k: Option<u64>| k.map_or("any key".to_owned(), |k| format!("key {k:#x}"));
    match command {
        Command::Register { nrkey, .. } => format!("register key {nrkey:#x}"),
        Command::Unregister { crkey, .. } => format!("unregister {}", key(*crkey)),
        Command::Replace { crkey, nrkey, .. } => format!("replace {} by {nrkey:#x}", key(*crkey)),
        Command::Acquire { crkey, rtype } => format!("acquire {} with key {crkey:#x}", rtype.name()),
        Command::Preempt { crkey, prkey, rtype, abort } => {
            let how = if *abort { "preempt and abort" } else { "preempt" };
            format!("{how} key {prkey:#x} for {} with key {crkey:#x}", rtype.name())
        }
        Command::Release { crkey, .. } => format!("release with key {crkey:#x}"),
        Command::Clear { crkey } => format!("clear with key {crkey:#x}"),
        Command::Move { crkey, to, nrkey, unregister, .. } => {
            let gone = if *unregister { " and unregister" } else { "" };
            format!("move with key {crkey:#x} to host {to} with key {nrkey:#x}{gone}")
        }
        Command::TakeUnit(_) => "reserve the unit".into(),
        Command::GiveUnit(_) => "release the unit".into(),
        Command::ResetUnit => "the unit was reset: its reservation ends".into(),
        Command::Persist { ptpl } => format!("persist through power loss: {ptpl}"),
    }
}

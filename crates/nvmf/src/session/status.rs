//! The status that a host sees when a volume has failed a command, or the control plane has refused one.
//!
//! Invariant: "do not retry" only where trying again cannot help.

use crate::limits::{RETRY_IN_A_MOMENT, RETRY_LATER, RETRY_SOON};
use format::nvme::{Status, StatusCode};
use frontend::{CommandClass, Refused};
use object::IoError;

/// The status for an error of a command of this class. That space is used up lasts until somebody gives some back, and file systems and
/// hypervisors know what to do about it (Linux: ENOSPC).
pub(super) fn status_of(e: IoError, class: CommandClass) -> Status {
    let changes = matches!(class, CommandClass::Write | CommandClass::Deallocate);
    match e {
        IoError::NoSpace => Status::dnr(StatusCode::CAPACITY_EXCEEDED),
        IoError::Media { .. } if class == CommandClass::Write => Status::dnr(StatusCode::MEDIA_WRITE_FAULT),
        IoError::Media { .. } => Status::dnr(StatusCode::UNRECOVERED_READ_ERROR),
        IoError::Miscompare => Status::dnr(StatusCode::COMPARE_FAILURE),
        IoError::Unaligned => Status::dnr(StatusCode::INVALID_FIELD),
        IoError::OutOfRange => Status::dnr(StatusCode::LBA_OUT_OF_RANGE),
        IoError::NoVolume => Status::dnr(StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        IoError::ReadOnly => Status::dnr(StatusCode::NAMESPACE_WRITE_PROTECTED),
        // What was written must not be lost for a stall that passes. Reads that fail are of a group that is offline: a host that looks at all of
        // its namespaces reads each of them several times, and waits for one after the other.
        IoError::Failed if changes => Status::later(StatusCode::NAMESPACE_NOT_READY, RETRY_LATER),
        IoError::Failed => Status::later(StatusCode::NAMESPACE_NOT_READY, RETRY_SOON),
        // Only of a command that has its status already.
        IoError::Withdrawn => Status::retry(StatusCode::ABORT_REQUESTED),
        // The host sets this path aside until it has read the ANA log, and tries another one: with a pathing error, Linux tries this one again. Who
        // has no other one waits as for a node that ends.
        IoError::NotOwner => Status::later(StatusCode::ANA_TRANSITION, RETRY_IN_A_MOMENT),
        IoError::Closing => Status::later(StatusCode::NAMESPACE_NOT_READY, RETRY_IN_A_MOMENT),
        // The host tries another path.
        IoError::NoPath => Status::retry(StatusCode::CONTROLLER_PATHING_ERROR),
    }
}

/// The status for what the control plane refused.
pub(crate) fn status_of_refusal(refused: Refused) -> Status {
    let code = match refused {
        Refused::NotGranted => StatusCode::INVALID_OPCODE,
        Refused::NoUnit => StatusCode::INVALID_NAMESPACE_OR_FORMAT,
        Refused::Invalid => StatusCode::INVALID_FIELD,
        Refused::NoSpace => StatusCode::INSUFFICIENT_CAPACITY,
        Refused::NoNumber => StatusCode::NSID_UNAVAILABLE,
        Refused::AlreadyAttached => StatusCode::NAMESPACE_ALREADY_ATTACHED,
        Refused::Private => StatusCode::NAMESPACE_IS_PRIVATE,
        Refused::NotAttached => StatusCode::NAMESPACE_NOT_ATTACHED,
        Refused::WriteProtected => StatusCode::NAMESPACE_WRITE_PROTECTED,
        Refused::NotChangeable => StatusCode::FEATURE_NOT_CHANGEABLE,
        Refused::ReservationConflict => StatusCode::RESERVATION_CONFLICT,
        Refused::Busy => return Status::later(StatusCode::NAMESPACE_NOT_READY, RETRY_IN_A_MOMENT),
        Refused::Unserved => return Status::later(StatusCode::INTERNAL_ERROR, RETRY_IN_A_MOMENT),
        Refused::Failed => StatusCode::INTERNAL_ERROR,
    };
    Status::dnr(code)
}

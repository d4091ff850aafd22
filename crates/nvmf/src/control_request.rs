//! What a front end asks of the control plane: changes of what is served, which a host may ask for by an NVMe command.
//!
//! The command waits in its slot; the control plane decides, makes the change durable, has every core serve it, and answers.
//!
//! Invariants: an ask is answered at most once, and an answer to a command that is gone does nothing; there is at most one ask for each
//! command under way.
//! Never: is on the path of a read or a write.

use crate::limits::RETRY_IN_A_MOMENT;
use base::{HostId, VolumeId};
use cluster::reservation;
use format::nvme::{Status, StatusCode};
use std::collections::BTreeSet;

/// Names an ask; the answer brings it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlRequestId {
    /// The core whose front end asks.
    pub core: usize,
    /// Never given twice by one front end.
    pub serial: u64,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedBy {
    /// NQN of the host.
    pub host_nqn: String,
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// NQN of the subsystem.
    pub subsystem: String,
    /// The controller.
    pub cntlid: u16,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlRequest {
    /// For the answer.
    pub id: ControlRequestId,
    /// Who asks. That it may connect was checked; that it may have what it asks for is the control plane's to check.
    pub by: RequestedBy,
    /// What is asked for.
    pub what: ControlVerb,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlVerb {
    /// Namespace Management, create: a new volume, a namespace of the subsystem that no host sees yet. Answered with [`Reply::Value`], its ID.
    NamespaceCreate {
        /// Logical blocks.
        blocks: u64,
        /// Bytes of a logical block: 512 or 4096.
        lba_bytes: u32,
        /// It may be attached to the controllers of several hosts (NMIC).
        shared: bool,
    },
    /// Namespace Management, delete: the namespace, or all of the subsystem, and the volumes.
    NamespaceDelete {
        /// Its ID; `None`: all.
        nsid: Option<u32>,
    },
    /// Namespace Attachment, attach: these hosts see it.
    NamespaceAttach {
        /// Its ID.
        nsid: u32,
        /// NQNs of the hosts of the controllers that were named.
        hosts: Vec<String>,
    },
    /// Namespace Attachment, detach: these hosts see it no longer.
    NamespaceDetach {
        /// Its ID.
        nsid: u32,
        /// NQNs of the hosts of the controllers that were named.
        hosts: Vec<String>,
    },
    /// Format NVM: all content goes, and the size of a logical block may change.
    Format {
        /// Its ID.
        nsid: u32,
        /// Bytes of a logical block from now on: 512 or 4096.
        lba_bytes: u32,
    },
    /// Set Features, Namespace Write Protection Config.
    WriteProtect {
        /// The volume.
        volume: VolumeId,
        /// Its state from now on.
        state: base::WriteProtect,
    },
    /// A reservation command. Answered with [`Reply::Fenced`] when some host may do less than before.
    Reservation {
        /// The volume.
        volume: VolumeId,
        /// What it asks for.
        command: reservation::Command,
    },
    /// Set Features, Reservation Persistence.
    Persist {
        /// The volumes.
        volumes: Vec<VolumeId>,
        /// Persist Through Power Loss.
        ptpl: bool,
    },
}

/// An answer: it is done, and durable, and served on all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// Nothing more to tell.
    #[default]
    Done,
    /// Dword 0 of the completion.
    Value(u32),
    /// Data for the host; cut or filled with zeroes to the length that it asked for.
    Data(Vec<u8>),
    /// The command is answered when what other hosts have under way on the volume has ended.
    Fenced {
        /// The volume.
        volume: VolumeId,
        /// What these hosts have under way is aborted where it has not begun.
        abort: BTreeSet<HostId>,
    },
}

impl Reply {
    /// The answer to a reservation command that was carried out.
    pub fn reserved(volume: VolumeId, outcome: reservation::Outcome) -> Reply {
        let fences = outcome.fences();
        let abort = if outcome.abort { outcome.preempted } else { BTreeSet::new() };
        if fences { Reply::Fenced { volume, abort } } else { Reply::Done }
    }
}

/// Why it was not done. Nothing has changed, but for [`Refused::Unserved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The administrator has not granted this to the subsystem.
    #[error("not granted")]
    NotGranted,
    /// There is no such namespace.
    #[error("no such namespace")]
    NoNamespace,
    /// What is asked for makes no sense.
    #[error("invalid")]
    Invalid,
    /// There is not as much space.
    #[error("not enough capacity")]
    NoSpace,
    /// No namespace ID is free.
    #[error("no namespace id is free")]
    NoIdentifier,
    /// One of the hosts sees it already.
    #[error("already attached")]
    AlreadyAttached,
    /// It may be attached to one host only, and another has it.
    #[error("private to another host")]
    Private,
    /// One of the hosts does not see it.
    #[error("not attached")]
    NotAttached,
    /// The volume may not be changed.
    #[error("write protected")]
    WriteProtected,
    /// Its state can not be changed any more.
    #[error("cannot be changed")]
    NotChangeable,
    /// A reservation of others, or a key that is not the host's.
    #[error("reservation conflict")]
    ReservationConflict,
    /// It is durable, but not served yet. Trying again may help.
    #[error("durable, but not served yet")]
    Unserved,
    /// The control plane has too much to do, or the metadata cannot be written now. Trying again may help.
    #[error("not now")]
    Busy,
    /// It failed, and trying again will not help before an administrator has looked.
    #[error("failed")]
    Failed,
}

impl From<reservation::Refusal> for Refused {
    fn from(refusal: reservation::Refusal) -> Refused {
        match refusal {
            reservation::Refusal::Conflict => Refused::ReservationConflict,
            reservation::Refusal::InvalidField => Refused::Invalid,
            reservation::Refusal::TooManyRegistrants => Refused::Failed,
        }
    }
}

impl Refused {
    /// The status that the host gets.
    pub fn status(self) -> Status {
        let code = match self {
            Refused::NotGranted => StatusCode::INVALID_OPCODE,
            Refused::NoNamespace => StatusCode::INVALID_NAMESPACE_OR_FORMAT,
            Refused::Invalid => StatusCode::INVALID_FIELD,
            Refused::NoSpace => StatusCode::INSUFFICIENT_CAPACITY,
            Refused::NoIdentifier => StatusCode::NSID_UNAVAILABLE,
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
}

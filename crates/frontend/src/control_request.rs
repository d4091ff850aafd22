//! What a front end asks of the control plane: changes of what is served, which a host may ask for by a command.
//!
//! The command waits in its slot; the control plane decides, makes the change durable, has every core serve it, and answers.
//!
//! Invariants: an ask is answered at most once, and an answer to a command that is gone does nothing; there is at most one ask for each
//! command under way.
//! Never: is on the path of a read or a write.

use base::{HostId, VolumeId};
use cluster::reservation;
use std::collections::{BTreeMap, BTreeSet};

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
    /// The host's name.
    pub host: String,
    /// Its identity, to which reservations belong.
    pub host_id: [u8; 16],
    /// The name of the export (a subsystem, a target) that it is connected to.
    pub export: String,
    /// The number of its session (a controller).
    pub session: u16,
    /// What the identities of hosts in the request are called, where that is more than a name; kept with their registrations.
    pub ports: BTreeMap<HostId, reservation::HostPort>,
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
    /// A new volume, as a unit of the export that no host sees yet. Answered with [`Reply::Value`], the unit's number.
    CreateUnit {
        /// Logical blocks.
        blocks: u64,
        /// Bytes of a logical block: 512 or 4096.
        lba_bytes: u32,
        /// Several hosts may have it attached.
        shared: bool,
    },
    /// The unit, or all of the export, and the volumes are deleted.
    DeleteUnit {
        /// Its number; `None`: all.
        unit: Option<u32>,
    },
    /// These hosts see it.
    AttachUnit {
        /// Its number.
        unit: u32,
        /// The hosts' names.
        hosts: Vec<String>,
    },
    /// These hosts see it no longer.
    DetachUnit {
        /// Its number.
        unit: u32,
        /// The hosts' names.
        hosts: Vec<String>,
    },
    /// All content goes, and the size of a logical block may change.
    Format {
        /// The unit's number.
        unit: u32,
        /// Bytes of a logical block from now on: 512 or 4096.
        lba_bytes: u32,
    },
    /// The volume may no longer be changed, or may again.
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
    /// Reservations outlive a restart of the node, or no longer.
    Persist {
        /// The volumes.
        volumes: Vec<VolumeId>,
        /// They do (persist through power loss).
        ptpl: bool,
    },
}

/// An answer: it is done, and durable, and served on all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// Nothing more to tell.
    #[default]
    Done,
    /// A number, such as that of a new unit.
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
    /// The administrator has not granted this to the export.
    #[error("not granted")]
    NotGranted,
    /// There is no such unit.
    #[error("no such unit")]
    NoUnit,
    /// What is asked for makes no sense.
    #[error("invalid")]
    Invalid,
    /// There is not as much space.
    #[error("not enough capacity")]
    NoSpace,
    /// No number of a unit is free.
    #[error("no number of a unit is free")]
    NoNumber,
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
    /// It is durable and not served yet, or whether it is durable is not known. The host looks, or tries again.
    #[error("perhaps done, but not served yet")]
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

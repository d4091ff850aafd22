//! What of a core's front end waits for others: for a queue that goes, for work that is done elsewhere, for the control plane.

use crate::connect_request::ConnectRequest;
use crate::controller::QueueAt;
use crate::limits::WORKS_OUT_MAX;
use ::auth::Work;
use base::Instant;
use frontend::WorkId;
use frontend::{ControlRequest, ControlRequestId, ControlVerb, RequestedBy};
use std::collections::{BTreeMap, VecDeque};

/// A Connect that waits for the queue that has its ID to go.
pub(super) struct WaitingConnect {
    pub(super) connect: Box<ConnectRequest>,
    pub(super) at: QueueAt,
    pub(super) slot: u16,
    pub(super) until: Instant,
}

/// Work of authentications: what waits to be taken, at most [`WORKS_OUT_MAX`] pieces of it away.
#[derive(Default)]
pub(super) struct AuthenticationWorks {
    /// The connection and slot of the command.
    waiting: VecDeque<(u64, u16, Work)>,
    out: usize,
}

impl AuthenticationWorks {
    /// The command in this slot of a connection waits for it.
    pub(super) fn push(&mut self, token: u64, slot: u16, work: Work) {
        self.waiting.push_back((token, slot, work));
    }
    /// Whether none waits to be taken.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// The next piece, if there are not enough away already.
    pub(super) fn pop(&mut self, core: usize) -> Option<(WorkId, Work)> {
        if self.out >= WORKS_OUT_MAX {
            return None;
        }
        let (token, slot, work) = self.waiting.pop_front()?;
        self.out += 1;
        Some((WorkId { core, token, slot }, work))
    }
    /// A piece has come back.
    pub(super) fn came_back(&mut self) {
        self.out -= 1;
    }
    /// A connection is gone: what it has here vanishes.
    pub(super) fn forget(&mut self, token: u64) {
        self.waiting.retain(|(of, ..)| *of != token);
    }
}

/// What hosts' commands ask of the control plane.
#[derive(Default)]
pub(super) struct ControlRequests {
    serial: u64,
    /// Not answered: the connection and slot of the command.
    unanswered: BTreeMap<u64, (u64, u16)>,
    /// Not taken yet.
    waiting: VecDeque<ControlRequest>,
}

impl ControlRequests {
    /// The command in this slot of a connection waits for what the control plane says.
    pub(super) fn push(&mut self, core: usize, (token, slot): (u64, u16), by: RequestedBy, what: ControlVerb) {
        self.serial += 1;
        self.unanswered.insert(self.serial, (token, slot));
        self.waiting.push_back(ControlRequest { id: ControlRequestId { core, serial: self.serial }, by, what });
    }
    /// Whether none waits to be taken.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// The next one for the control plane.
    pub(super) fn pop(&mut self) -> Option<ControlRequest> {
        self.waiting.pop_front()
    }
    /// One was answered: the connection and slot of its command, unless that is gone.
    pub(super) fn answered(&mut self, id: ControlRequestId) -> Option<(u64, u16)> {
        self.unanswered.remove(&id.serial)
    }
    /// A connection is gone: answers to its commands do nothing.
    pub(super) fn forget(&mut self, token: u64) {
        self.unanswered.retain(|_, (of, _)| *of != token);
    }
}

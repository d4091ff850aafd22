//! What the data plane tells the control plane without being asked.
//!
//! Invariants: at most [`EVENTS_MAX`] wait; when there is no room an ask is answered "not now" and an audit event is counted as lost.
//! Never: makes a core wait.

use base::ObjectId;
use frontend::{AuditEvent, ControlRequest, LinkChange};
use object::owners::Change;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Events that wait for the control plane.
pub const EVENTS_MAX: usize = 4096;

/// Something for the control plane.
#[derive(Debug)]
pub enum DataPlaneEvent {
    /// A host asks for a change by a command. Answer with [`crate::CommandSender::answer`].
    ControlRequest(ControlRequest),
    /// Something for the audit log.
    Audit(AuditEvent),
    /// A link with another node has opened, or is closed. These are never lost while somebody listens.
    Link(LinkChange),
    /// Hosts are to use other paths to an object, though by its record it is this node's; or not any more.
    Away(ObjectId, bool),
    /// Who owns objects here asks the directory.
    Directory(DirectoryAsk),
}

/// What the host of owners asks the directory. Each is answered once.
#[derive(Debug)]
pub enum DirectoryAsk {
    /// Read these records, linearizably. Answer with [`crate::CommandSender::directory_read`].
    Read {
        /// The number of the question.
        request: u64,
        /// Which.
        objects: Vec<ObjectId>,
    },
    /// Make all of these changes in one transaction or none. Answer with [`crate::CommandSender::directory_changed`].
    Change {
        /// The number of the question.
        request: u64,
        /// Each of another object.
        changes: Vec<Change>,
    },
}

/// Where a core puts events.
#[derive(Clone)]
pub(crate) struct EventSender(SyncSender<DataPlaneEvent>);

impl EventSender {
    /// Hands an event over, or gives it back: no room, or nobody listens any more.
    pub(crate) fn send(&self, event: DataPlaneEvent) -> Result<(), Box<DataPlaneEvent>> {
        self.0.try_send(event).map_err(|e| match e {
            TrySendError::Full(event) | TrySendError::Disconnected(event) => Box::new(event),
        })
    }
}

/// The two ends.
pub(crate) fn channel() -> (EventSender, Receiver<DataPlaneEvent>) {
    let (sender, receiver) = sync_channel(EVENTS_MAX);
    (EventSender(sender), receiver)
}

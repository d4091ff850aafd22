//! Who came, who was turned away and who left: events for the audit log.
//!
//! Owns: the events that wait for the control plane, at most [`WAITING_MAX`].
//! Invariant: an event that finds no room is counted, never waited for.
//! Never: holds a secret.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// Events of one core that wait for the control plane.
pub const WAITING_MAX: usize = 1024;

/// Something that an auditor wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// What happened.
    pub kind: AuditKind,
    /// Where the host is; `None` when it was not a connection's doing.
    pub peer: Option<SocketAddr>,
    /// The host's name, as far as it was reported.
    pub host: String,
    /// The name of what it asked for or uses (a subsystem, a target), as far as it was reported.
    pub export: String,
    /// The number of its session (a controller), if there is one.
    pub session: Option<u16>,
    /// More, in words.
    pub detail: String,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditKind {
    /// A session began.
    Connected,
    /// A connection or a session was refused.
    Refused,
    /// A session ended: by the host, by silence, or because it lost its access.
    Disconnected,
    /// A host has proved who it is.
    Authenticated,
    /// A host could not prove who it is.
    AuthenticationFailed,
    /// A reservation has changed.
    Reservation,
    /// A host made, deleted, attached, detached, formatted or protected a unit.
    Unit,
}

impl AuditKind {
    /// Its name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            AuditKind::Connected => "connected",
            AuditKind::Refused => "refused",
            AuditKind::Disconnected => "disconnected",
            AuditKind::Authenticated => "authenticated",
            AuditKind::AuthenticationFailed => "authentication-failed",
            AuditKind::Reservation => "reservation",
            AuditKind::Unit => "namespace",
        }
    }
}

/// Events that wait.
#[derive(Debug, Default)]
pub struct AuditQueue {
    waiting: VecDeque<AuditEvent>,
    dropped: u64,
}

impl AuditQueue {
    /// Notes an event; counts it when there is no room.
    pub fn push(&mut self, event: AuditEvent) {
        if self.waiting.len() < WAITING_MAX { self.waiting.push_back(event) } else { self.dropped += 1 }
    }
    /// Whether there is no event.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// The oldest event.
    pub fn pop(&mut self) -> Option<AuditEvent> {
        self.waiting.pop_front()
    }
    /// An event that was taken found no room further on.
    pub fn lost(&mut self) {
        self.dropped += 1;
    }
    /// Events for which there was no room, since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut q = AuditQueue::default();
        let event = AuditEvent {
            kind: AuditKind::Refused,
            peer: None,
            host: String::new(),
            export: String::new(),
            session: None,
            detail: String::new(),
        };
        (0..WAITING_MAX + 3).for_each(|_| q.push(event.clone()));
        assert_eq!(q.dropped(), 3);
        assert_eq!(std::iter::from_fn(|| q.pop()).count(), WAITING_MAX);
    }
}

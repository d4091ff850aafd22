//! What of a core's front end waits for others: for a queue that goes, for work that is done elsewhere.

use crate::connect_request::ConnectRequest;
use crate::controller::QueueAt;
use base::Instant;

/// Names a piece of work; it comes back with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkId {
    /// The core to which it goes back.
    pub core: usize,
    pub(super) token: u64,
    pub(super) slot: u16,
}

/// A Connect that waits for the queue that has its ID to go.
pub(super) struct WaitingConnect {
    pub(super) connect: Box<ConnectRequest>,
    pub(super) at: QueueAt,
    pub(super) slot: u16,
    pub(super) until: Instant,
}

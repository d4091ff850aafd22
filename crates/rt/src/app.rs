//! What runs on a core.

use crate::Rt;

/// The program of one core. The reactor calls it in every turn of its loop.
pub trait App {
    /// Drains its queues and mailboxes, does what follows, batches what goes out. Must not block; must come to `Idle` when nothing new
    /// comes in.
    fn poll(&mut self, rt: &Rt) -> Progress;
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something was done: poll again soon.
    Busy,
    /// Nothing to do until a completion, a message or a task.
    Idle,
    /// Done for good: the core ends.
    Stop,
}

//! Grants: which node may answer reads of the objects that it owns, and which epochs a copy may accept. The rules are those of
//! `docs/replication.md`; `docs/grants.md` says how they are carried out.
//!
//! ```text
//!  owner's node: Counter ══ Heartbeat (claims, clock) ══► Granter: node with copies
//!                   │     ◄══ Grant (states, clock) ══════    ▲ accepted, blocked, released
//!                GrantCell                                    │ Fence: accept, wait or refuse
//!                   ▲ looked at by each core             copies of this node
//! ```
//!
//! Machines without I/O or clock of their own. Every time here is one of a clock that goes on while the machine is suspended
//! (`rt::Rt::boot_clock`).
//!
//! Invariants: while an owner counts a grant of an object, its granter lets no other owner's epoch be accepted; a heartbeat costs nothing for
//! objects of which nothing has changed; memory is bounded.
//! Never: makes an epoch durable, asks the directory.

mod cells;
mod counter;
mod fenced;
mod granter;
mod nodes;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world_tests;

pub use cells::GrantCell;
pub use counter::{Counter, WrongGrant};
pub use fenced::{FencedParts, WrongFenced, fenced_parts};
pub use granter::{Granter, TooManyClaims, Verdict};

use base::Duration;

/// How often a node asks for grants.
pub const HEARTBEAT_EVERY: Duration = Duration::from_millis(100);
/// How long a grant is given for, from when it is answered.
pub const GRANT: Duration = Duration::from_secs(1);
/// How long it counts, from when the heartbeat was sent.
pub const COUNTED: Duration = Duration::from_millis(800);
/// How long after its start a node accepts no other owner's epoch: what it gave in its last life has run out then.
pub const RESTART_WAIT: Duration = GRANT;
/// A node that is silent for so long is late.
pub const LATE: Duration = Duration::from_millis(700);
/// A node that is silent for so long is gone.
pub const GONE: Duration = Duration::from_millis(1200);
/// Heartbeats are so far apart at least, also when an object is claimed.
pub(crate) const HEARTBEAT_APART: Duration = Duration::from_millis(10);
/// Who has not looked for so long was paused: that time counts as nobody's silence.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(300);
/// Objects that a node claims at another at most.
pub const CLAIMS_MAX: usize = 16 << 10;
/// Objects that a granter knows at most, with copies here or claimed by others.
pub const OBJECTS_MAX: usize = 64 << 10;

/// Rates of clocks differ by a tenth at most.
const _: () = assert!(COUNTED.as_millis() * 11 < GRANT.as_millis() * 9);
const _: () = assert!(PAUSE_MIN.as_millis() >= 3 * HEARTBEAT_EVERY.as_millis() && LATE.as_millis() < GONE.as_millis());

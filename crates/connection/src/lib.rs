//! A connection of a front end on `rt`: what comes in, what goes out, TLS between or not, and how it closes. And those whom nobody knows yet: how
//! many there may be, and what the log says of those that were refused.
//!
//! ```text
//!  rt ── Received ──► Connection ── bytes, or TLS ──► the protocol's session
//!  rt ◄── sends ───── Connection ◄─ lists, or TLS ───┘
//! ```
//!
//! Every front end has a state machine of its own above it: which phases its connections go through, what ends them.
//!
//! Invariants: at most one receive is under way, and so many sends as the front end allows; what is asked of one that is closed does nothing; it is
//! over when its operations have come back; without TLS bytes and lists go through as they are.
//! Never: knows what the bytes mean, or a protocol.
#![forbid(unsafe_code)]

mod connection;
mod layer;
mod receiving;
mod refusal_log;
mod unauthenticated;

pub use connection::Connection;
pub use layer::{Accepts, Came, Layer, PLAIN_BYTES};
pub use refusal_log::{PERIOD, REPORTED_MAX, RefusalLog};
pub use unauthenticated::{Unauthenticated, network};

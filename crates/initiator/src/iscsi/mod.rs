//! The host side of iSCSI (RFC 7143): sessions of one connection, and logical units.
//!
//! ```text
//!  unit ─► connection ─► session ◄── login
//!  blocks   a socket     bytes only   names, CHAP, what is agreed
//! ```
//!
//! Owns: the host side of a login ([`login`]) and of a session ([`session`]) as machines without I/O; the driver over a socket
//! ([`connection`]); a logical unit with reads, writes and unmaps ([`unit`]).
//! Invariants: what is asked of a target lies within what was agreed; what a target sends against the standard ends the session.
//! Never: several connections a session, recovery within a session; retries anything but a unit attention.

pub mod connection;
pub mod error;
pub mod login;
pub mod session;
pub mod unit;

pub use error::{ScsiFailure, SessionError};
pub use login::{Chap, LoginOptions};
pub use session::{Command, Completed, Session};
pub use unit::{Unit, UnitDone, UnitInfo};

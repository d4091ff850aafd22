//! Load generators on several machines for one result: `basalt lab agent` on each of them, and what it speaks with the lab that measures.
//!
//! ```text
//! lab (engine::agents) ── Request ──► agent: opens its disks, prepares, runs        one TLS 1.3 connection, a key that both have
//!                      ◄── Answer ──  Ready; each second with its histogram; Measured
//! ```
//!
//! Owns: the key ([`key`]), the messages ([`message`]), the connection ([`link`]), the agent's side ([`serve`]). The other side is
//! [`crate::engine::agents`].
//! Invariants: who does not prove the key is heard in nothing; an agent works for one lab at a time; when the connection ends, so does the load.
//! Never: measures by itself: the engines do that.

pub mod key;
pub mod link;
pub mod message;
pub mod serve;

/// Agents of one system.
pub const AGENTS_MAX: usize = 64;
/// Version of the messages; both sides have the same.
pub const VERSION: u32 = 1;
/// Where an agent listens unless something else is said.
pub const LISTEN: &str = "0.0.0.0:4490";

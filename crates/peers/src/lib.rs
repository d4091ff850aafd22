//! The node among its peers: passes on what hosts ask of volumes that other nodes own, and carries out what other nodes pass on. It is the peer
//! link ([`object::link`]) on sockets (`docs/peer-link.md`).
//!
//! To its core it is a front end, whose hosts are the other nodes of the cluster.
//!
//! ```text
//!   host ──► nvmf ──► router ──Forward──► peers ══ link ══ peers ──► router ──► lanes      (owner)
//!                          ◄─ForwardDone─        ══════           ◄── IoDone
//! ```
//!
//! Each core that both nodes have is one end of a lane of its own; the requests of a core without one cross to a core that has one.
//!
//! Owns: the connections between nodes, what of this node's requests is with other nodes, and what of theirs is under way here.
//! Invariants: a request is answered to its router once; one that may have happened is answered only when it cannot happen any more; what another
//! node asks begins only if its link says so.
//! Never: decides who owns a volume, or what a host may do.
#![forbid(unsafe_code)]

mod conn;
mod control;
mod desired;
mod front_end;
mod keys;
mod limits;
mod member;
mod members;
mod no_link;
mod peers;
mod stamps;
mod stats;
mod witness;

#[cfg(test)]
mod tests;

pub use control::ControlLinks;
pub use desired::{LinkSecurity, OwnNode, PeerDesired, PeersDesired, PeersView};
pub use no_link::NoLink;
pub use peers::{Peers, PeersMsg};
pub use stats::PeersStats;
#[cfg(feature = "hooks")]
pub use witness::forget as forget_witnessed;

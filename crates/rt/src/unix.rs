//! Names and limits of Unix sockets and events.

/// Unix listeners of one core.
pub const UNIX_LISTENERS_MAX: usize = 256;
/// Unix connections of one core. What comes in beyond is closed.
pub const UNIX_CONNS_MAX: usize = 1024;
/// Events that one core has open.
pub const EVENTS_MAX: usize = 1 << 14;

/// A listener at a path, of this core. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixListenerId(pub(crate) u64);

/// A connection of a Unix socket, of this core. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixConnId(pub(crate) u64);

/// An event that this core has open. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub(crate) u64);

//! Counters of one core's front end.

use base::Instant;
use frontend::HostTable;
use std::net::SocketAddr;

base::counters! {
    /// All counters of a core since it started.
    #[derive(Clone, Debug, Default)]
    pub struct Stats {
        /// What each host did.
        pub hosts: HostTable,
        /// Connections accepted.
        pub connections: u64 = counter("connections"),
        /// Connections refused, for there were too many.
        pub connections_refused: u64 = counter("connections_refused"),
        /// Logins that succeeded.
        pub logins: u64 = counter("logins"),
        /// Logins that were refused.
        pub logins_refused: u64 = counter("logins_refused"),
        /// Sessions that this end ended.
        pub ended: u64 = counter("sessions_ended"),
        /// PDUs received.
        pub pdus_in: u64 = counter("pdus_received"),
        /// SCSI commands.
        pub commands: u64 = counter("commands"),
        /// Commands that ended with CHECK CONDITION.
        pub check_conditions: u64 = counter("check_conditions"),
        /// Commands that were aborted.
        pub aborted: u64 = counter("commands_aborted"),
        /// Bytes read.
        pub read_bytes: u64 = counter("read_bytes"),
        /// Connections that ended because time passed.
        pub timeouts: u64 = counter("timeouts"),
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Where the host is.
    pub peer: SocketAddr,
    /// The host's name.
    pub host: String,
    /// The target's name; empty for discovery.
    pub target: String,
    /// Its number.
    pub tsih: u16,
    /// Its connections.
    pub connections: usize,
    /// Commands under way.
    pub running: usize,
    /// When its first connection was accepted.
    pub since: Instant,
}

/// What a half has counted, and its sessions.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Counters.
    pub stats: Stats,
    /// Sessions.
    pub sessions: Vec<SessionInfo>,
}

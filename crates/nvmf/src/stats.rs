//! Counters of one core's front end.

use base::{Histogram, Instant};
use std::net::SocketAddr;

/// Classes of commands that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandClass {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Compare.
    Compare,
    /// Flush.
    Flush,
    /// Write Zeroes and Dataset Management.
    Deallocate,
    /// Admin and fabrics commands.
    Admin,
}

impl CommandClass {
    /// All of them; a class is its index.
    pub const ALL: [CommandClass; 6] = [
        CommandClass::Read,
        CommandClass::Write,
        CommandClass::Compare,
        CommandClass::Flush,
        CommandClass::Deallocate,
        CommandClass::Admin,
    ];
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            CommandClass::Read => "read",
            CommandClass::Write => "write",
            CommandClass::Compare => "compare",
            CommandClass::Flush => "flush",
            CommandClass::Deallocate => "deallocate",
            CommandClass::Admin => "admin",
        }
    }
}

/// One class.
#[derive(Clone, Debug, Default)]
pub struct ClassStats {
    /// Commands completed.
    pub commands: u64,
    /// Of those, with an error.
    pub errors: u64,
    /// Bytes of data of those without.
    pub bytes: u64,
    /// From the capsule to the response.
    pub latency: Histogram,
}

/// All counters of a core since it started.
#[derive(Clone, Debug, Default)]
pub struct TargetStats {
    /// By [`CommandClass`], as an index.
    pub classes: [ClassStats; 6],
    /// Audit events for which there was no room.
    pub audit_dropped: u64,
    /// PDUs received.
    pub pdus_in: u64,
    /// PDUs sent.
    pub pdus_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections taken.
    pub connections: u64,
    /// Connections refused because of a limit.
    pub connections_refused: u64,
    /// Connections open.
    pub connections_open: u64,
    /// Connect commands refused.
    pub connects_refused: u64,
    /// Controllers made.
    pub controllers: u64,
    /// Controllers ended because the host was silent.
    pub keep_alive_expired: u64,
    /// Queues whose host has proved who it is, again included.
    pub authentications: u64,
    /// Queues that ended because their host did not.
    pub authentication_failures: u64,
    /// Termination requests sent, by reason (FES; 0 is not used).
    pub terminations: [u64; 7],
    /// Termination requests received.
    pub terminations_received: u64,
    /// Connections closed because a handshake or half a PDU took too long.
    pub timeouts: u64,
    /// Connections closed before their Connect command to make room for others.
    pub evicted: u64,
    /// Connects that waited for a queue that goes.
    pub waited_for_queues: u64,
    /// Looks at the deadlines that came so late that everybody was given the time.
    pub late_ticks: u64,
    /// Data digests that did not match.
    pub data_digest_errors: u64,
    /// R2Ts sent.
    pub r2ts: u64,
    /// Commands that waited for buffers.
    pub waited_for_buffers: u64,
    /// TLS handshakes done.
    pub tls_handshakes: u64,
    /// TLS connections that failed, in the handshake or later.
    pub tls_failures: u64,
    /// Asynchronous events sent.
    pub events: u64,
}

impl TargetStats {
    pub(crate) fn class(&mut self, class: CommandClass) -> &mut ClassStats {
        &mut self.classes[class as usize]
    }
}

/// A controller whose admin queue is on this core.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Controller ID.
    pub cntlid: u16,
    /// NQN of the subsystem.
    pub subsystem: String,
    /// NQN of the host.
    pub host_nqn: String,
    /// Host identifier.
    pub host_id: [u8; 16],
    /// Where the host is.
    pub peer: SocketAddr,
    /// It is a discovery controller.
    pub discovery: bool,
    /// I/O queues connected.
    pub io_queues: u16,
    /// Keep Alive Timeout, milliseconds; 0 none.
    pub kato_ms: u32,
    /// Header digests on the admin queue.
    pub header_digest: bool,
    /// Data digests on the admin queue.
    pub data_digest: bool,
    /// Its admin queue is encrypted (TLS 1.3).
    pub encrypted: bool,
    /// Connected since.
    pub since: Instant,
}

/// What one core of this front end has counted.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Its counters.
    pub stats: TargetStats,
    /// Controllers whose admin queue is there.
    pub sessions: Vec<SessionInfo>,
}

//! Counters of one core's front end.

use base::Instant;
use frontend::{ClassStats, Classes, CommandClass, HostPlace, HostTable};
use std::net::SocketAddr;

base::counters! {
    /// All counters of a core since it started.
    #[derive(Clone, Debug, Default)]
    pub struct TargetStats {
        /// What each host did: commands of I/O queues are counted with their host, all others with the others.
        pub hosts: HostTable,
        /// All of that; in a snapshot only.
        pub classes: Classes = each(""),
        /// Audit events that were lost, for there was no room.
        pub audit_dropped: u64 = counter("audit_events_dropped"),
        /// PDUs received.
        pub pdus_in: u64 = counter("pdus_received"),
        /// PDUs sent.
        pub pdus_out: u64 = counter("pdus_sent"),
        /// Bytes received.
        pub bytes_in: u64 = counter("received_bytes"),
        /// Bytes sent.
        pub bytes_out: u64 = counter("sent_bytes"),
        /// Connections taken.
        pub connections: u64 = counter("connections"),
        /// Connections refused because of a limit.
        pub connections_refused: u64 = counter("connections_refused"),
        /// Connections open.
        pub connections_open: u64 = gauge("open_connections"),
        /// Connect commands refused.
        pub connects_refused: u64 = counter("connects_refused"),
        /// Controllers made.
        pub controllers: u64 = counter("controllers"),
        /// Controllers ended because the host was silent.
        pub keep_alive_expired: u64 = counter("keep_alive_expired"),
        /// Queues whose host has proved who it is, again included.
        pub authentications: u64 = counter("authentications"),
        /// Queues that ended because their host did not prove who it is.
        pub authentication_failures: u64 = counter("authentication_failures"),
        /// Termination requests sent, by reason (FES; 0 is not used).
        pub terminations: [u64; 7] = counter("terminations_sent", "Termination requests sent."),
        /// Termination requests received.
        pub terminations_received: u64 = counter("terminations_received"),
        /// Connections closed because a handshake or half a PDU took too long.
        pub timeouts: u64 = counter("timeouts"),
        /// Connections closed before their Connect command to make room for others.
        pub evicted: u64 = counter("handshakes_evicted"),
        /// Connects that waited for a queue that goes.
        pub waited_for_queues: u64 = counter("waits_for_queues"),
        /// Looks at the deadlines that came so late that every host was given more time.
        pub late_ticks: u64 = counter("late_ticks"),
        /// Data digests that did not match.
        pub data_digest_errors: u64 = counter("data_digest_errors"),
        /// R2Ts sent.
        pub r2ts: u64 = counter("r2ts"),
        /// Commands that waited for buffers.
        pub waited_for_buffers: u64 = counter("waits_for_buffers"),
        /// TLS handshakes done.
        pub tls_handshakes: u64 = counter("tls_handshakes"),
        /// TLS connections that failed, in the handshake or later.
        pub tls_failures: u64 = counter("tls_failures"),
        /// Asynchronous events sent.
        pub events: u64 = counter("events"),
    }
}

impl TargetStats {
    /// Where a command of a class is counted, of a queue with this place.
    #[inline]
    pub(crate) fn class(&mut self, host: HostPlace, class: CommandClass) -> &mut ClassStats {
        self.hosts.class(host, class)
    }
    /// The counters now, with what runs: the place of each I/O queue, and how many of its commands.
    pub(crate) fn snapshot(&self, running: impl Iterator<Item = (HostPlace, u64)>) -> Self {
        let mut now = self.clone();
        now.hosts.add_running(running);
        now.classes = now.hosts.sums();
        now
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

base::counters! {
    /// What one core of this front end has counted.
    #[derive(Clone, Debug, Default)]
    pub struct Figures {
        /// Its counters.
        pub stats: TargetStats = each(""),
        /// Controllers whose admin queue is there.
        pub sessions: Vec<SessionInfo> = gauge("open_controllers", "Controllers open."),
    }
}

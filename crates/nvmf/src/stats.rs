//! Counters of one core's front end.

use base::{Histogram, Instant};
use std::net::SocketAddr;

/// Hosts that are counted apart at once, on a core. Each takes 8 KiB.
pub const HOSTS_COUNTED_MAX: usize = 256;

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

base::counters! {
    /// One class.
    #[derive(Clone, Debug, Default)]
    pub struct ClassStats {
        /// Commands completed.
        pub commands: u64 = counter("commands"),
        /// Commands completed with an error.
        pub errors: u64 = counter("command_errors"),
        /// Bytes of data of the commands without an error.
        pub bytes: u64 = counter("data_bytes"),
        /// From the capsule to the response.
        pub latency: Histogram,
    }
}

impl ClassStats {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.commands += other.commands;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }
}

/// What the I/O queues of one host did on one core.
#[derive(Clone, Debug, Default)]
pub struct HostCounters {
    /// NQN of the host.
    pub nqn: String,
    /// Its I/O queues open.
    pub queues: u32,
    /// Commands under way; in a snapshot only.
    pub running: u64,
    /// By [`CommandClass`], as an index.
    pub classes: [ClassStats; CommandClass::ALL.len()],
}

/// Which of [`TargetStats::hosts`] a queue counts with; beyond them: with those that are not counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPlace(u16);

impl HostPlace {
    /// Not counted apart.
    pub const NONE: Self = Self(u16::MAX);
}

base::counters! {
    /// All counters of a core since it started.
    #[derive(Clone, Debug, Default)]
    pub struct TargetStats {
        /// Hosts that are counted apart, at most [`HOSTS_COUNTED_MAX`]: a command of theirs is counted here.
        pub hosts: Vec<HostCounters>,
        /// By [`CommandClass`], as an index: all that is not counted with its host. In a snapshot: all.
        pub classes: [ClassStats; CommandClass::ALL.len()] = each(""),
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
        match self.hosts.get_mut(usize::from(host.0)) {
            Some(host) => &mut host.classes[class as usize],
            None => &mut self.classes[class as usize],
        }
    }
    /// An I/O queue of a host begins. Its host gets a place: its own, a new one, or that of a host that has no queue any more.
    pub(crate) fn queue_begins(&mut self, nqn: &str) -> HostPlace {
        let mut at = self.hosts.iter().position(|host| host.nqn == nqn);
        if at.is_none() && self.hosts.len() < HOSTS_COUNTED_MAX {
            at = Some(self.hosts.len());
            self.hosts.push(HostCounters { nqn: nqn.to_owned(), ..HostCounters::default() });
        }
        let at = at.or_else(|| {
            let idle = self.hosts.iter().position(|host| host.queues == 0)?;
            let gone = std::mem::replace(&mut self.hosts[idle], HostCounters { nqn: nqn.to_owned(), ..HostCounters::default() });
            merge(&mut self.classes, &gone.classes);
            Some(idle)
        });
        let Some(at) = at else { return HostPlace::NONE };
        self.hosts[at].queues += 1;
        HostPlace(at as u16)
    }
    /// An I/O queue with this place is gone.
    pub(crate) fn queue_ends(&mut self, place: HostPlace) {
        if let Some(host) = self.hosts.get_mut(usize::from(place.0)) {
            host.queues -= 1;
        }
    }
    /// The counters now, with what runs: the place of each I/O queue, and how many of its commands.
    pub(crate) fn snapshot(&self, running: impl Iterator<Item = (HostPlace, u64)>) -> Self {
        let mut now = self.clone();
        for host in &self.hosts {
            merge(&mut now.classes, &host.classes);
        }
        for (place, commands) in running {
            if let Some(host) = now.hosts.get_mut(usize::from(place.0)) {
                host.running += commands;
            }
        }
        now
    }
}

fn merge(classes: &mut [ClassStats; CommandClass::ALL.len()], others: &[ClassStats; CommandClass::ALL.len()]) {
    classes.iter_mut().zip(others).for_each(|(class, other)| class.merge(other));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stats: &mut TargetStats, place: HostPlace, bytes: u64) {
        let class = stats.class(place, CommandClass::Read);
        class.commands += 1;
        class.bytes += bytes;
        class.latency.record(bytes);
    }

    #[test]
    fn a_host_is_counted_apart_and_within_the_sums() {
        let mut stats = TargetStats::default();
        let (a, b) = (stats.queue_begins("nqn.a"), stats.queue_begins("nqn.b"));
        assert_eq!(stats.queue_begins("nqn.a"), a, "a second queue of the same host");
        read(&mut stats, a, 4096);
        read(&mut stats, b, 512);
        read(&mut stats, HostPlace::NONE, 1);
        stats.queue_ends(b);
        let now = stats.snapshot([(a, 3), (a, 4), (HostPlace::NONE, 9)].into_iter());
        let of = |n: usize| (&*now.hosts[n].nqn, now.hosts[n].queues, now.hosts[n].running, now.hosts[n].classes[0].bytes);
        assert_eq!((of(0), of(1)), (("nqn.a", 2, 7, 4096), ("nqn.b", 0, 0, 512)));
        let all = &now.classes[CommandClass::Read as usize];
        assert_eq!((all.commands, all.bytes, all.latency.count()), (3, 4609, 3));
    }

    #[test]
    fn at_most_so_many_hosts_are_counted_apart_and_one_that_is_gone_makes_room() {
        let mut stats = TargetStats::default();
        let places: Vec<_> = (0..HOSTS_COUNTED_MAX).map(|n| stats.queue_begins(&format!("nqn.{n}"))).collect();
        assert_eq!(stats.queue_begins("nqn.late"), HostPlace::NONE);
        read(&mut stats, places[7], 100);
        stats.queue_ends(places[7]);
        assert_eq!(stats.queue_begins("nqn.later"), places[7]);
        let now = stats.snapshot([].into_iter());
        assert_eq!((now.hosts.len(), now.hosts[7].classes[0].bytes, now.classes[0].bytes), (HOSTS_COUNTED_MAX, 0, 100));
    }
}

//! What each host may take: connections, and memory for the data of its commands.
//!
//! Owns: the counts by host NQN, over all cores.
//! Invariants: what was taken is given back when its [`Place`] is dropped; the path of an I/O touches no count that cores share, as long as
//! the connection's lease covers it.
//! Never: waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory is leased to connections in steps of so many bytes.
pub const LEASE_BYTES: u64 = 1 << 20;

/// A host's share.
#[derive(Debug, Default)]
struct HostUse {
    connections: AtomicU32,
    memory: AtomicU64,
    memory_max: AtomicU64,
}

/// The counts of all hosts.
#[derive(Debug)]
pub struct Quotas {
    hosts: Mutex<BTreeMap<String, Arc<HostUse>>>,
    memory: AtomicU64,
    memory_max: u64,
}

/// The place of a connection in the quota of its host.
#[derive(Debug)]
pub struct Place {
    quotas: Arc<Quotas>,
    host_nqn: String,
    host: Arc<HostUse>,
    leased: u64,
}

impl Quotas {
    /// With so much memory for all hosts together.
    pub fn new(memory_max: u64) -> Self {
        Self { hosts: Mutex::default(), memory: AtomicU64::new(0), memory_max }
    }
    /// A place for a connection of a host; `None` when it has as many as it may.
    pub fn enter(self: &Arc<Self>, host_nqn: &str, connections_max: u32, memory_max: u64) -> Option<Place> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = match hosts.get(host_nqn) {
            Some(host) => Arc::clone(host),
            None => Arc::clone(hosts.entry(host_nqn.to_owned()).or_default()),
        };
        host.memory_max.store(memory_max, Ordering::Relaxed);
        if host.connections.load(Ordering::Relaxed) >= connections_max {
            if host.connections.load(Ordering::Relaxed) == 0 {
                hosts.remove(host_nqn);
            }
            return None;
        }
        host.connections.fetch_add(1, Ordering::Relaxed);
        Some(Place { quotas: Arc::clone(self), host_nqn: host_nqn.to_owned(), host, leased: 0 })
    }
    /// Connections and bytes of each host.
    pub fn hosts(&self) -> Vec<(String, u32, u64)> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let row =
            |(nqn, h): (&String, &Arc<HostUse>)| (nqn.clone(), h.connections.load(Ordering::Relaxed), h.memory.load(Ordering::Relaxed));
        hosts.iter().map(row).collect()
    }
    /// Bytes leased to all connections.
    pub fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }
}

fn take(count: &AtomicU64, bytes: u64, max: u64) -> bool {
    let fits = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= max);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
}

impl Place {
    /// Whether the connection may hold `bytes` in all; leases what is missing.
    pub fn covers(&mut self, bytes: u64) -> bool {
        if bytes <= self.leased {
            return true;
        }
        let more = (bytes - self.leased).next_multiple_of(LEASE_BYTES);
        if !take(&self.host.memory, more, self.host.memory_max.load(Ordering::Relaxed)) {
            return false;
        }
        if !take(&self.quotas.memory, more, self.quotas.memory_max) {
            self.host.memory.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.leased += more;
        true
    }
    /// Gives back what is leased beyond `bytes`.
    pub fn keep(&mut self, bytes: u64) {
        let kept = bytes.next_multiple_of(LEASE_BYTES).min(self.leased);
        let spare = self.leased - kept;
        if spare > 0 {
            self.host.memory.fetch_sub(spare, Ordering::Relaxed);
            self.quotas.memory.fetch_sub(spare, Ordering::Relaxed);
            self.leased = kept;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.keep(0);
        let mut hosts = self.quotas.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.host.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            hosts.remove(&self.host_nqn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_host_has_as_many_connections_as_it_may_and_others_do_not_notice() {
        let q = Arc::new(Quotas::new(100 * MIB));
        let places: Vec<_> = (0..3).map(|_| q.enter("a", 3, MIB).unwrap()).collect();
        assert!(q.enter("a", 3, MIB).is_none());
        assert!(q.enter("b", 3, MIB).is_some());
        assert_eq!(q.hosts(), [("a".to_owned(), 3, 0)], "a host that has gone is forgotten");
        drop(places);
        assert!(q.enter("c", 0, MIB).is_none());
        assert!(q.hosts().is_empty());
    }

    #[test]
    fn memory_is_bounded_by_host_and_in_all_and_comes_back() {
        let q = Arc::new(Quotas::new(6 * MIB));
        let mut a = q.enter("a", 9, 4 * MIB).unwrap();
        let mut a2 = q.enter("a", 9, 4 * MIB).unwrap();
        let mut b = q.enter("b", 9, 4 * MIB).unwrap();
        assert!(a.covers(MIB) && a.covers(3 * MIB + 1));
        assert!(!a2.covers(1), "the host has 4 MiB");
        assert!(b.covers(2 * MIB) && !b.covers(2 * MIB + 1), "all have 6 MiB");
        assert_eq!(q.memory(), 6 * MIB);
        a.keep(MIB);
        assert!(a2.covers(1) && a.covers(MIB));
        drop((a, a2, b));
        assert_eq!((q.memory(), q.hosts().len()), (0, 0));
    }
}

//! What each host may take: connections, and memory for the data of its commands.
//!
//! Owns: the counts by the host's name, over all cores of a front end.
//! Invariants: what was taken is given back when its [`Place`] or [`Reserve`] is dropped; a host never has more places, taken and reserved
//! together, than it may; the path of an I/O touches no count that cores share, as long as
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
    name: String,
    host: Arc<HostUse>,
    leased: u64,
}

/// Places that are kept for connections that a host was granted and has not made yet.
#[derive(Debug)]
pub struct Reserve {
    quotas: Arc<Quotas>,
    name: String,
    host: Arc<HostUse>,
    places: u32,
}

/// What a host may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Connections.
    pub connections: u32,
    /// Memory for the data of its commands, in bytes.
    pub memory: u64,
}

impl Quotas {
    /// With so much memory for all hosts together.
    pub fn new(memory_max: u64) -> Self {
        Self { hosts: Mutex::default(), memory: AtomicU64::new(0), memory_max }
    }
    /// A place for a connection of a host; `None` when it has as many as it may.
    pub fn enter(self: &Arc<Self>, name: &str, limits: HostLimits) -> Option<Place> {
        let (host, _) = self.take(name, limits, 1)?;
        Some(Place { quotas: Arc::clone(self), name: name.to_owned(), host, leased: 0 })
    }
    /// A place for the connection that controls a session, and one that is kept for the first that brings data: without it the session would be of
    /// no use.
    pub fn enter_session(self: &Arc<Self>, name: &str, limits: HostLimits) -> Option<(Place, Reserve)> {
        let place = self.enter(name, limits)?;
        let mut reserve = Reserve { quotas: Arc::clone(self), name: name.to_owned(), host: Arc::clone(&place.host), places: 0 };
        (reserve.keep(1, limits) == 1).then_some((place, reserve))
    }
    /// Takes up to `wanted` places; `None` when there is not one.
    fn take(&self, name: &str, limits: HostLimits, wanted: u32) -> Option<(Arc<HostUse>, u32)> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = match hosts.get(name) {
            Some(host) => Arc::clone(host),
            None => Arc::clone(hosts.entry(name.to_owned()).or_default()),
        };
        host.memory_max.store(limits.memory, Ordering::Relaxed);
        let now = host.connections.load(Ordering::Relaxed);
        let taken = wanted.min(limits.connections.saturating_sub(now));
        if taken == 0 {
            if now == 0 {
                hosts.remove(name);
            }
            return None;
        }
        host.connections.fetch_add(taken, Ordering::Relaxed);
        Some((host, taken))
    }
    /// Places come back.
    fn give_back(&self, name: &str, host: &HostUse, places: u32) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if places > 0 && host.connections.fetch_sub(places, Ordering::Relaxed) == places {
            hosts.remove(name);
        }
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
        self.quotas.give_back(&self.name, &self.host, 1);
    }
}

impl Reserve {
    /// Keeps `wanted` places, or as many as there are. How many it has now.
    pub fn keep(&mut self, wanted: u32, limits: HostLimits) -> u32 {
        if wanted < self.places {
            self.quotas.give_back(&self.name, &self.host, self.places - wanted);
            self.places = wanted;
        } else if let Some((host, more)) = self.quotas.take(&self.name, limits, wanted - self.places) {
            // It is another one when the host had gone in between.
            self.host = host;
            self.places += more;
        }
        self.places
    }
    /// Gives all of its places back.
    pub fn give_up(&mut self) {
        self.quotas.give_back(&self.name, &self.host, core::mem::take(&mut self.places));
    }
    /// One of its places, for a connection.
    pub fn take(&mut self) -> Option<Place> {
        self.places = self.places.checked_sub(1)?;
        let (quotas, host) = (Arc::clone(&self.quotas), Arc::clone(&self.host));
        Some(Place { quotas, name: self.name.clone(), host, leased: 0 })
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits(connections: u32, memory: u64) -> HostLimits {
        HostLimits { connections, memory }
    }

    #[test]
    fn a_host_has_as_many_connections_as_it_may_and_others_do_not_notice() {
        let q = Arc::new(Quotas::new(100 * MIB));
        let places: Vec<_> = (0..3).map(|_| q.enter("a", limits(3, MIB)).unwrap()).collect();
        assert!(q.enter("a", limits(3, MIB)).is_none());
        assert!(q.enter("b", limits(3, MIB)).is_some());
        assert_eq!(q.hosts(), [("a".to_owned(), 3, 0)], "a host that has gone is forgotten");
        drop(places);
        assert!(q.enter("c", limits(0, MIB)).is_none());
        assert!(q.hosts().is_empty());
    }

    #[test]
    fn places_that_are_kept_are_nobody_else_s_and_come_back() {
        let (q, four) = (Arc::new(Quotas::new(MIB)), limits(4, MIB));
        let (_admin, mut reserve) = q.enter_session("a", four).unwrap();
        assert!(q.enter_session("a", limits(3, MIB)).is_none(), "an admin queue alone is of no use");
        assert_eq!(q.hosts()[0].1, 2, "and leaves nothing behind");
        assert_eq!(reserve.keep(9, four), 3);
        assert!(q.enter("a", four).is_none());
        let first = reserve.take().unwrap();
        assert_eq!((reserve.keep(1, four), q.hosts()[0].1), (1, 3));
        let other = q.enter("a", four).unwrap();
        assert_eq!(reserve.keep(3, four), 1, "there are no more");
        assert!(reserve.take().is_some() && reserve.take().is_none());
        drop((first, other, reserve));
        assert_eq!(q.hosts()[0].1, 1);
    }

    #[test]
    fn memory_is_bounded_by_host_and_in_all_and_comes_back() {
        let q = Arc::new(Quotas::new(6 * MIB));
        let mut a = q.enter("a", limits(9, 4 * MIB)).unwrap();
        let mut a2 = q.enter("a", limits(9, 4 * MIB)).unwrap();
        let mut b = q.enter("b", limits(9, 4 * MIB)).unwrap();
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

//! What the cores' front ends share: quotas, portals, which session is whose, how many connections each core has.
//!
//! Invariant: nothing here is waited for on the path of an I/O: the locks guard what logins and discovery look at.

use crate::limits::{HOST_CONNECTIONS_MAX, HOST_MEMORY_BYTES_MAX, MEMORY_BYTES_MAX};
use crate::login::Who;
use base::HostId;
use frontend::{HostLimits, Quotas};
use rt::MESH_CORES_MAX;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which session of which host with which target: a host has one of each (RFC 7143 4.4.3).
type Nexus = (String, [u8; 6], String);

/// Shared by the [`crate::Target`]s of all cores.
pub struct Shared {
    quotas: Arc<Quotas>,
    host_limits: HostLimits,
    portals: Mutex<Vec<SocketAddr>>,
    nexuses: Mutex<BTreeMap<Nexus, (usize, u64)>>,
    tsih: AtomicU16,
    load: [AtomicU32; MESH_CORES_MAX],
}

impl Default for Shared {
    fn default() -> Self {
        let host_limits = HostLimits { connections: HOST_CONNECTIONS_MAX, memory: HOST_MEMORY_BYTES_MAX };
        Self::new(Arc::new(Quotas::new(MEMORY_BYTES_MAX)), host_limits)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// With the counts of what hosts take, of all front ends of a node together, and what each host may take that has no limits of its own.
    pub fn new(quotas: Arc<Quotas>, host_limits: HostLimits) -> Self {
        Self {
            quotas,
            host_limits,
            portals: Mutex::default(),
            nexuses: Mutex::default(),
            tsih: AtomicU16::new(0),
            load: [const { AtomicU32::new(0) }; MESH_CORES_MAX],
        }
    }
    /// What a host may take that has no limits of its own.
    pub(crate) fn host_limits(&self) -> HostLimits {
        self.host_limits
    }
    /// What each host takes.
    pub fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }
    /// A number for a session: not zero.
    pub(crate) fn next_tsih(&self) -> u16 {
        loop {
            let n = self.tsih.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if n != 0 {
                return n;
            }
        }
    }
    pub(crate) fn add_portal(&self, at: SocketAddr) {
        lock(&self.portals).push(at);
    }
    pub(crate) fn clear_portals(&self) {
        lock(&self.portals).clear();
    }
    /// Where a host that reached this node at `local` finds the targets.
    pub(crate) fn portals(&self, local: Option<IpAddr>) -> Vec<SocketAddr> {
        let reached = |at: &SocketAddr| {
            let mut at = *at;
            if let Some(ip) = local.filter(|_| at.ip().is_unspecified()) {
                at.set_ip(ip.to_canonical());
            }
            at
        };
        lock(&self.portals).iter().map(reached).filter(|at| !at.ip().is_unspecified()).collect()
    }
    /// A session of this core and token has begun. The one that it takes the place of.
    pub(crate) fn enter(&self, who: &Who, core: usize, token: u64) -> Option<(usize, u64)> {
        lock(&self.nexuses).insert(nexus(who), (core, token))
    }
    /// It is over.
    pub(crate) fn leave(&self, who: &Who, core: usize, token: u64) {
        let mut all = lock(&self.nexuses);
        if all.get(&nexus(who)) == Some(&(core, token)) {
            all.remove(&nexus(who));
        }
    }
    /// The core for a new connection: the one with the fewest.
    pub(crate) fn choose_core(&self, cores: usize) -> usize {
        let core = (0..cores).min_by_key(|c| self.load[*c].load(Ordering::Relaxed)).unwrap_or(0);
        self.load[core].fetch_add(1, Ordering::Relaxed);
        core
    }
    /// A connection of a core is gone.
    pub(crate) fn gone(&self, core: usize) {
        self.load[core].fetch_sub(1, Ordering::Relaxed);
    }
}

fn nexus(who: &Who) -> Nexus {
    (who.host.clone(), who.isid, who.target.clone())
}

pub(crate) fn host_id(who: &Who) -> HostId {
    host_id_of(&who.host, who.isid)
}

/// The identity of a host for reservations: of its name and its ISID, which make an iSCSI initiator port (RFC 7143 4.2.7.1). Half of a
/// SHA-256, so that two do not meet.
pub fn host_id_of(name: &str, isid: [u8; 6]) -> HostId {
    let port = [name.as_bytes(), b",i,", &isid].concat();
    let mut id = [0; 16];
    id.copy_from_slice(&openssl::sha::sha256(&port)[..16]);
    HostId::from_bytes(id)
}

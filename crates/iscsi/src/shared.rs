//! What the cores' front ends share: quotas, portals, which session is whose, how many connections each core has.
//!
//! Invariant: nothing here is waited for on the path of an I/O: the locks guard what logins and discovery look at.

use crate::limits::{HOST_CONNECTIONS_MAX, HOST_MEMORY_BYTES_MAX, MEMORY_BYTES_MAX};
use crate::login::{Refusal, Who, refuse, status};
use crate::params::Params;
use base::HostId;
use frontend::{HostLimits, Quotas};
use rt::MESH_CORES_MAX;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which session of which host with which target: a host has one of each (RFC 7143 4.4.3).
type Nexus = (String, [u8; 6], String);

/// A session of some core.
struct Known {
    core: usize,
    token: u64,
    nexus: Nexus,
    agreed: Params,
    /// The CIDs of its connections.
    cids: Vec<u16>,
}

/// The sessions with targets, of all cores.
#[derive(Default)]
struct Sessions {
    by_number: BTreeMap<u16, Known>,
    by_nexus: BTreeMap<Nexus, u16>,
    last: u16,
}

/// Shared by the [`crate::Target`]s of all cores.
pub struct Shared {
    quotas: Arc<Quotas>,
    host_limits: HostLimits,
    portals: Mutex<Vec<SocketAddr>>,
    sessions: Mutex<Sessions>,
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
            sessions: Mutex::default(),
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
    /// A number for a session: not zero, and of no other one with a target.
    pub(crate) fn next_tsih(&self) -> u16 {
        let mut all = lock(&self.sessions);
        let mut next = || {
            all.last = all.last.wrapping_add(1).max(1);
            (!all.by_number.contains_key(&all.last)).then_some(all.last)
        };
        // There are fewer sessions than numbers.
        (0..u16::MAX).find_map(|_| next()).unwrap_or(u16::MAX)
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
    /// A session with a target has begun, of this number, core and token. The core and token of the one that it takes the place of.
    pub fn enter(&self, who: &Who, tsih: u16, core: usize, token: u64, agreed: Params) -> Option<(usize, u64)> {
        let mut all = lock(&self.sessions);
        let known = Known { core, token, nexus: nexus(who), agreed, cids: vec![who.cid] };
        let before = all.by_nexus.insert(known.nexus.clone(), tsih);
        let before = before.and_then(|old| all.by_number.remove(&old));
        all.by_number.insert(tsih, known);
        before.map(|old| (old.core, old.token))
    }
    /// It is over.
    pub(crate) fn leave(&self, tsih: u16, core: usize, token: u64) {
        let mut all = lock(&self.sessions);
        if all.by_number.get(&tsih).is_some_and(|k| (k.core, k.token) == (core, token))
            && let Some(known) = all.by_number.remove(&tsih)
            && all.by_nexus.get(&known.nexus) == Some(&tsih)
        {
            all.by_nexus.remove(&known.nexus);
        }
    }
    /// Other connections of it have come or gone.
    pub fn note_cids(&self, tsih: u16, cids: Vec<u16>) {
        if let Some(known) = lock(&self.sessions).by_number.get_mut(&tsih) {
            known.cids = cids;
        }
    }
    /// Whether there is a session of this number, of the host port with this identity.
    pub(crate) fn is_of(&self, tsih: u16, host: HostId) -> bool {
        let all = lock(&self.sessions);
        all.by_number.get(&tsih).is_some_and(|k| host_id_of(&k.nexus.0, k.nexus.1) == host)
    }
    /// The core that a session is on, and its token there.
    pub(crate) fn place_of(&self, tsih: u16) -> Option<(usize, u64)> {
        lock(&self.sessions).by_number.get(&tsih).map(|k| (k.core, k.token))
    }
    /// What the session has agreed that a host's connection is to be one of.
    ///
    /// # Errors
    /// There is none of this number, or it is another's; it has as many connections as it may.
    pub(crate) fn agreed_of(&self, who: &Who) -> Result<Params, Refusal> {
        let all = lock(&self.sessions);
        let known = all.by_number.get(&who.tsih).filter(|k| k.nexus == nexus(who));
        let known = known.ok_or(refuse(status::NO_SESSION, "there is no such session"))?;
        // One with the same CID goes.
        let others = known.cids.iter().filter(|cid| **cid != who.cid).count();
        if others >= known.agreed.connections as usize {
            return Err(refuse(status::TOO_MANY_CONNECTIONS, "the session has as many connections as it may"));
        }
        Ok(known.agreed)
    }
    /// The core for a new connection: the one with the fewest.
    pub(crate) fn choose_core(&self, cores: usize) -> usize {
        let core = (0..cores).min_by_key(|c| self.load[*c].load(Ordering::Relaxed)).unwrap_or(0);
        self.load[core].fetch_add(1, Ordering::Relaxed);
        core
    }
    /// A connection has come to a core from another.
    pub(crate) fn came(&self, core: usize) {
        self.load[core].fetch_add(1, Ordering::Relaxed);
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

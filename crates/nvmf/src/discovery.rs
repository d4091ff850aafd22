//! The discovery log: where a host may connect.
//!
//! ```text
//!  this node's listeners ──► current discovery (3) ┐
//!  configuration, other nodes' records ─► referrals (1) ├─► the log of a host: the same NVM subsystem entries through every node
//!  subsystems x (own listeners, other nodes' portals) ──► NVM subsystems (2) ┘
//! ```
//!
//! Invariants: a host is informed of the subsystems it may use and of no other; addresses that nobody can connect to are not reported; a node of
//! the cluster is reported whether it is up or not, so that hosts do not give up one that restarts.
//! Never: keeps what was made, [`crate::published_logs`] does; is on the path of an I/O.

use crate::limits::PORTS_MAX;
use crate::published_logs::{Entries, Seen};
use crate::shared::{ControllerShared, TargetShared};
use crate::view::{ListenerKind, NodeView, View};
use base::{NodeSlot, Security};
use cluster::record::PortalRecord;
use format::nvme::fabrics::{CNTLID_DYNAMIC, DISCOVERY_NQN};
use format::nvme::log::{
    ADRFAM_IPV4, ADRFAM_IPV6, DiscoveryEntry, DiscoveryHeader, SECTYPE_TLS_1_3, SUBTYPE_CURRENT_DISCOVERY, SUBTYPE_NVM, SUBTYPE_REFERRAL,
    TREQ_NO_FLOW_CONTROL, TREQ_SECURE_REQUIRED, TRTYPE_TCP,
};
use format::nvme::text::{nqn_field, padded};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// EFLAGS, EPCSD: explicit persistent connections are taken (base 2.0, figure "Discovery Log Page Entry").
const PERSISTENT: u16 = 1 << 1;
/// EFLAGS, DUPRETINFO: every entry of this service gives the same information. Only of the current discovery subsystem (base 2.0, the same figure).
const DUPLICATE: u16 = 1;
/// Queue entries of an admin queue (ASQSZ).
const ADMIN_ENTRIES: u16 = 32;

/// A port of the cluster, as discovery reports it. In the order of address, security and ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    pub(crate) addr: SocketAddr,
    /// What its connections must at least have.
    pub(crate) security: Security,
    /// PORTID.
    pub(crate) id: u16,
}

/// PORTID of a listener of a node, by its place among the node's listeners. No two listeners of a cluster have the same; that of one is the same
/// through every node.
pub(crate) const fn port_id(slot: NodeSlot, listener: u16) -> u16 {
    let place = if listener < PORTS_MAX - 1 { listener + 1 } else { 0 };
    slot.number() as u16 * PORTS_MAX + place
}

/// Where a host that reached this node at `reached` finds what listeners of `kind` on another node serve.
fn ports_of(node: &NodeView, kind: ListenerKind, reached: Option<IpAddr>) -> Vec<Port> {
    let of_kind: Vec<&PortalRecord> = node.portals.iter().filter(|p| p.kind == kind).collect();
    let port = |p: &PortalRecord| Port { addr: p.addr, security: p.security, id: port_id(node.slot, p.listener) };
    let mut out: Vec<Port> = cluster::portals_near(&of_kind, reached).into_iter().map(port).collect();
    once_each(&mut out);
    out
}

/// Each address once, with the least that a listener there demands and the ID of the first of them.
pub(crate) fn once_each(ports: &mut Vec<Port>) {
    ports.sort();
    ports.dedup_by(|other, kept| {
        let same = other.addr == kept.addr;
        if same {
            // The least security came first.
            kept.id = kept.id.min(other.id);
        }
        same
    });
}

/// The same for discovery, which listeners for subsystems serve too.
fn discovery_ports_of(node: &NodeView, reached: Option<IpAddr>) -> Vec<Port> {
    let own = ports_of(node, ListenerKind::Discovery, reached);
    if own.is_empty() { ports_of(node, ListenerKind::Io, reached) } else { own }
}

/// The entries for the host of this discovery controller: this service, the ones it is referred to, and each subsystem that it may use, at
/// each address.
pub(crate) fn entries(to: &ControllerShared, view: &View, shared: &TargetShared) -> Arc<Entries> {
    let allowed = view.subsystems.iter().enumerate().filter(|(_, s)| s.allows(&to.host_nqn));
    let subsystems = allowed.map(|(at, _)| at as u32).collect();
    let seen = Seen::new(view.generation, shared.listeners_generation(), to.reached, subsystems);
    shared.published_logs().entries(seen, || make(to, view, shared))
}

fn make(to: &ControllerShared, view: &View, shared: &TargetShared) -> Vec<u8> {
    let mut io = shared.advertised(ListenerKind::Io, to.reached);
    let discovery = shared.advertised(ListenerKind::Discovery, to.reached);
    let mut out = Vec::new();
    let mut add = |subtype, nqn: &str, port, eflags| out.extend_from_slice(&entry(subtype, nqn, port, eflags).to_bytes());
    for port in if discovery.is_empty() { &io } else { &discovery } {
        add(SUBTYPE_CURRENT_DISCOVERY, DISCOVERY_NQN, *port, PERSISTENT | DUPLICATE);
    }
    let nodes: Vec<Port> = view.nodes.iter().flat_map(|node| discovery_ports_of(node, to.reached)).collect();
    for referral in shared.options().referrals.iter().filter(|r| nodes.iter().all(|p| p.addr != r.addr)) {
        // Nothing is known of its ports.
        let port = Port { addr: referral.addr, security: Security::Plain, id: referral.addr.port() };
        add(SUBTYPE_REFERRAL, referral.nqn.as_deref().unwrap_or(DISCOVERY_NQN), port, 0);
    }
    for port in nodes {
        add(SUBTYPE_REFERRAL, DISCOVERY_NQN, port, PERSISTENT);
    }
    io.extend(view.nodes.iter().flat_map(|node| ports_of(node, ListenerKind::Io, to.reached)));
    for s in view.subsystems.iter().filter(|s| s.allows(&to.host_nqn)) {
        for port in &io {
            add(SUBTYPE_NVM, &s.nqn, Port { security: s.security.max(port.security), ..*port }, 0);
        }
    }
    out
}

/// The log page: the header with the generation counter, and the entries.
pub(crate) fn discovery_log(to: &ControllerShared, view: &View, shared: &TargetShared) -> (Vec<u8>, Arc<Entries>) {
    let entries = entries(to, view, shared);
    let genctr = shared.generations().of((to.host_nqn.clone(), to.reached), &entries);
    let numrec = (entries.bytes.len() / DiscoveryEntry::LEN) as u64;
    (DiscoveryHeader { genctr, numrec, recfmt: 0 }.to_bytes().to_vec(), entries)
}

fn entry(subtype: u8, nqn: &str, port: Port, eflags: u16) -> DiscoveryEntry {
    // Where TLS may be used but need not, the secure channel is "not specified": at "not required" the nvme-cli of Debian 12 asks its kernel for
    // TLS, which that does not know.
    let encrypted = port.security == Security::Encrypted;
    let mut tsas = [0; 256];
    tsas[0] = if encrypted { SECTYPE_TLS_1_3 } else { 0 };
    DiscoveryEntry {
        trtype: TRTYPE_TCP,
        adrfam: if port.addr.is_ipv4() { ADRFAM_IPV4 } else { ADRFAM_IPV6 },
        subtype,
        treq: TREQ_NO_FLOW_CONTROL | if encrypted { TREQ_SECURE_REQUIRED } else { 0 },
        tsas,
        portid: port.id,
        cntlid: CNTLID_DYNAMIC,
        asqsz: ADMIN_ENTRIES,
        // There is no central discovery controller to ask instead (bit 2).
        eflags,
        trsvcid: padded(&port.addr.port().to_string()),
        subnqn: nqn_field(nqn),
        traddr: padded(&port.addr.ip().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_listeners_of_a_cluster_have_one_port_id() {
        let ids: BTreeSet<u16> = NodeSlot::all().flat_map(|slot| (0..PORTS_MAX).map(move |n| port_id(slot, n))).collect();
        assert_eq!(ids.len(), 64 * usize::from(PORTS_MAX));
        assert_eq!((port_id(NodeSlot::FIRST, 0), port_id(NodeSlot::new(1).unwrap(), 0)), (1, 1025));
    }
}

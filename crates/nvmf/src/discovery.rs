//! The discovery log: where a host may connect.
//!
//! Invariants: a host is informed of the subsystems it may use and of no other; addresses that nobody can connect to are not reported.
//! Never: keeps what was made, [`crate::published_logs`] does; is on the path of an I/O.

use crate::published_logs::{Entries, Seen};
use crate::shared::{ControllerShared, TargetShared};
use crate::view::{ListenerKind, View};
use base::Security;
use format::nvme::fabrics::{CNTLID_DYNAMIC, DISCOVERY_NQN};
use format::nvme::log::{
    ADRFAM_IPV4, ADRFAM_IPV6, DiscoveryEntry, DiscoveryHeader, SECTYPE_TLS_1_3, SUBTYPE_CURRENT_DISCOVERY, SUBTYPE_NVM, SUBTYPE_REFERRAL,
    TREQ_NO_FLOW_CONTROL, TREQ_SECURE_REQUIRED, TRTYPE_TCP,
};
use format::nvme::text::{nqn_field, padded};
use std::net::SocketAddr;
use std::sync::Arc;

/// EFLAGS: explicit persistent connections are taken (base 2.0, figure "Discovery Log Page Entry").
const PERSISTENT: u16 = 1 << 1;
/// EFLAGS: every entry of this service gives the same information.
const DUPLICATE: u16 = 1;

/// The entries for the host of this discovery controller: this service, the ones it is referred to, and each subsystem that it may use, at
/// each address.
pub(crate) fn entries(to: &ControllerShared, view: &View, shared: &TargetShared) -> Arc<Entries> {
    let allowed = view.subsystems.iter().enumerate().filter(|(_, s)| s.allows(&to.host_nqn));
    let subsystems = allowed.map(|(at, _)| at as u32).collect();
    let seen = Seen::new(view.generation, shared.listeners_generation(), to.reached, subsystems);
    shared.published_logs().entries(seen, || make(to, view, shared))
}

fn make(to: &ControllerShared, view: &View, shared: &TargetShared) -> Vec<u8> {
    let io = shared.advertised(ListenerKind::Io, to.reached);
    let discovery = shared.advertised(ListenerKind::Discovery, to.reached);
    let mut out = Vec::new();
    let mut add = |subtype, nqn: &str, addr, security| out.extend_from_slice(&entry(subtype, nqn, addr, security).to_bytes());
    for (addr, security) in if discovery.is_empty() { &io } else { &discovery } {
        add(SUBTYPE_CURRENT_DISCOVERY, DISCOVERY_NQN, *addr, *security);
    }
    for referral in &shared.options().referrals {
        add(SUBTYPE_REFERRAL, referral.nqn.as_deref().unwrap_or(DISCOVERY_NQN), referral.addr, Security::Plain);
    }
    for s in view.subsystems.iter().filter(|s| s.allows(&to.host_nqn)) {
        for (addr, security) in &io {
            add(SUBTYPE_NVM, &s.nqn, *addr, s.security.max(*security));
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

fn entry(subtype: u8, nqn: &str, addr: SocketAddr, security: Security) -> DiscoveryEntry {
    // Where TLS may be used but need not, the secure channel is "not specified": at "not required" the nvme-cli of Debian 12 asks its kernel for
    // TLS, which that does not know.
    let encrypted = security == Security::Encrypted;
    let mut tsas = [0; 256];
    tsas[0] = if encrypted { SECTYPE_TLS_1_3 } else { 0 };
    DiscoveryEntry {
        trtype: TRTYPE_TCP,
        adrfam: if addr.is_ipv4() { ADRFAM_IPV4 } else { ADRFAM_IPV6 },
        subtype,
        treq: TREQ_NO_FLOW_CONTROL | if encrypted { TREQ_SECURE_REQUIRED } else { 0 },
        tsas,
        portid: addr.port(),
        cntlid: CNTLID_DYNAMIC,
        asqsz: 32,
        // There is no central discovery controller to ask instead (bit 2).
        eflags: if subtype == SUBTYPE_CURRENT_DISCOVERY { PERSISTENT | DUPLICATE } else { 0 },
        trsvcid: padded(&addr.port().to_string()),
        subnqn: nqn_field(nqn),
        traddr: padded(&addr.ip().to_string()),
    }
}

//! The discovery log: where a host may connect.
//!
//! Owns: the entries that were reported last, so that a host that reads the log piece by piece, or again and again, costs no more than the bytes that
//! it gets. Hosts that may use the same subsystems get the same.
//! Invariants: a host is informed of the subsystems it may use and of no other; addresses that nobody can connect to are not reported; what is kept is
//! bounded.
//! Never: is on the path of an I/O.

use crate::limits::{DISCOVERY_KEPT_BYTES_MAX, DISCOVERY_KEPT_MAX};
use crate::shared::{ControllerShared, TargetShared};
use crate::view::{ListenerKind, View};
use base::Security;
use format::nvme::fabrics::{CNTLID_DYNAMIC, DISCOVERY_NQN};
use format::nvme::log::{
    ADRFAM_IPV4, ADRFAM_IPV6, DiscoveryEntry, DiscoveryHeader, SECTYPE_TLS_1_3, SUBTYPE_CURRENT_DISCOVERY, SUBTYPE_NVM, SUBTYPE_REFERRAL,
    TREQ_NO_FLOW_CONTROL, TREQ_SECURE_REQUIRED, TRTYPE_TCP,
};
use format::nvme::text::{nqn_field, padded};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// EFLAGS: explicit persistent connections are taken (base 2.0, figure "Discovery Log Page Entry").
const PERSISTENT: u16 = 1 << 1;
/// EFLAGS: every entry of this service gives the same information.
const DUPLICATE: u16 = 1;

/// The entries of a log, and their checksum.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sum: u32,
}

/// All that entries depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    view: u64,
    listeners: u64,
    reached: Option<IpAddr>,
    /// Places of the subsystems in the view.
    subsystems: Vec<u32>,
}

/// The entries that were reported last, the newest in front. Shared by the cores.
#[derive(Debug, Default)]
pub(crate) struct PublishedLogs(Mutex<VecDeque<(Seen, Arc<Entries>)>>);

impl PublishedLogs {
    fn entries(&self, seen: Seen, make: impl FnOnce() -> Vec<u8>) -> Arc<Entries> {
        let reported = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = reported.iter().position(|(s, _)| *s == seen) {
            reported.swap(0, at);
            return Arc::clone(&reported[0].1);
        }
        let bytes = make();
        let new = Arc::new(Entries { sum: base::crc32c(&bytes), bytes });
        reported.push_front((seen, Arc::clone(&new)));
        while reported.len() > DISCOVERY_KEPT_MAX
            || reported.len() > 1 && reported.iter().map(|(_, e)| e.bytes.len()).sum::<usize>() > DISCOVERY_KEPT_BYTES_MAX
        {
            reported.pop_back();
        }
        new
    }
}

/// The entries for the host of this discovery controller: this service, the ones it is referred to, and each subsystem that it may use, at
/// each address.
pub(crate) fn entries(to: &ControllerShared, view: &View, shared: &TargetShared) -> Arc<Entries> {
    let allowed = view.subsystems.iter().enumerate().filter(|(_, s)| s.allows(&to.host_nqn));
    let subsystems = allowed.map(|(at, _)| at as u32).collect();
    let seen = Seen { view: view.generation, listeners: shared.listeners_generation(), reached: to.reached, subsystems };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(view: u64, subsystems: &[u32]) -> Seen {
        Seen { view, listeners: 1, reached: None, subsystems: subsystems.to_vec() }
    }

    #[test]
    fn entries_are_made_once_for_all_who_see_the_same() {
        let reported = PublishedLogs::default();
        let first = reported.entries(seen(1, &[0]), || vec![1; 10]);
        assert!(Arc::ptr_eq(&first, &reported.entries(seen(1, &[0]), || panic!("made again"))));
        assert_eq!(reported.entries(seen(1, &[0, 2]), || vec![2; 10]).bytes[0], 2);
        assert_eq!(reported.entries(seen(2, &[0]), || vec![3; 10]).bytes[0], 3);
        assert!(Arc::ptr_eq(&first, &reported.entries(seen(1, &[0]), || panic!("made again"))));
    }

    #[test]
    fn what_is_kept_is_bounded_by_count_and_by_bytes() {
        let reported = PublishedLogs::default();
        (0..100).for_each(|view| drop(reported.entries(seen(view, &[]), || vec![0; 10])));
        assert_eq!(reported.0.lock().unwrap().len(), DISCOVERY_KEPT_MAX);
        reported.entries(seen(100, &[]), || vec![0; DISCOVERY_KEPT_BYTES_MAX + 1]);
        assert_eq!(reported.0.lock().unwrap().len(), 1, "the newest is kept whatever its size");
    }
}

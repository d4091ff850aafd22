//! Reservation notifications of one controller: which wait to be read, which the host does not want (base 8.19.1, log 80h, feature 82h).
//!
//! Owns: the queue of log pages and the masks.
//! Invariants: a controller is informed only of what came after it saw the namespace; at most [`WAITING_MAX`] pages wait, and the count of a
//! page shows when earlier ones found no room.
//! Never: changes a reservation.

use crate::view::{Namespace, View};
use base::{HostId, VolumeId};
use format::nvme::reservation::{NOTIFICATION_MASK_BITS, Notification};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Notifications of one controller that wait to be read.
pub const WAITING_MAX: usize = 64;

/// Reservation notifications of one controller.
#[derive(Debug, Default)]
pub struct Notices {
    waiting: VecDeque<Notification>,
    count: u64,
    masks: BTreeMap<u32, u32>,
    seen: BTreeMap<VolumeId, u64>,
}

impl Notices {
    /// Looks for notices of the namespaces that the controller has. True when some are new.
    pub fn look(&mut self, view: &View, namespaces: &[Namespace], host: HostId) -> bool {
        let known: BTreeSet<VolumeId> = namespaces.iter().map(|n| n.id).collect();
        self.seen.retain(|volume, _| known.contains(volume));
        let mut any = false;
        for ns in namespaces {
            let state = view.volume(ns.volume).and_then(|v| v.reservation.as_deref());
            let last = state.map_or(0, |s| s.last_notice());
            let seen = self.seen.insert(ns.id, last).unwrap_or(last);
            let mask = self.mask(ns.nsid);
            for notice in state.into_iter().flat_map(|s| s.notices_after(seen)) {
                if (notice.hosts.contains(&host) || base::hooks::seeded(base::hooks::SeededFault::NoticeToAll))
                    && mask & 1 << notice.kind as u8 == 0
                {
                    any |= self.push(ns.nsid, notice.kind as u8);
                }
            }
        }
        any
    }
    fn push(&mut self, nsid: u32, kind: u8) -> bool {
        // The count starts again at 1: zero means an empty page.
        self.count = self.count.checked_add(1).unwrap_or(1);
        let room = self.waiting.len() < if base::hooks::seeded(base::hooks::SeededFault::NoticeLost) { 0 } else { WAITING_MAX };
        if room {
            self.waiting.push_back(Notification { count: self.count, kind, available: 0, nsid });
        }
        room
    }
    /// The log page: the oldest notification, or an empty page.
    pub fn page(&self) -> Notification {
        let behind = self.waiting.len().saturating_sub(1).min(255) as u8;
        self.waiting.front().map_or(Notification::default(), |n| Notification { available: behind, ..*n })
    }
    /// The oldest was read. True when more wait.
    pub fn was_read(&mut self) -> bool {
        self.waiting.pop_front();
        !self.waiting.is_empty()
    }
    /// Kinds that the host does not want to hear of, for a namespace.
    pub fn mask(&self, nsid: u32) -> u32 {
        self.masks.get(&nsid).copied().unwrap_or(0)
    }
    /// Sets what the host does not want to hear of.
    pub fn set_mask(&mut self, nsid: u32, mask: u32) {
        self.masks.insert(nsid, mask & NOTIFICATION_MASK_BITS);
    }
    /// Back to defaults: a controller reset. What was seen stays seen.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.masks.clear();
        self.count = 0;
    }
}

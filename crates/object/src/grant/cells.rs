//! What every core looks at before it answers a read: one cell for the grants of all nodes, one for each object that this node owns.
//!
//! Owns: [`GrantCell`], which every core has of an object, and what all of them share.
//! Invariants: one core writes, by its [`Counter`](super::Counter); whoever sees a grant sees the objects as well for which it is none.
//! Never: reads a clock.

use super::COUNTED;
use super::nodes::bits;
use base::hooks::{self, SeededFault};
use base::{Duration, Instant, NODES_MAX};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Of each node, by number: the clock of this node's newest heartbeat that it has answered; 0: none.
#[derive(Debug)]
pub(super) struct GrantCells([AtomicU64; NODES_MAX as usize]);

/// An object that this node owns.
#[derive(Debug)]
pub struct GrantCell {
    nodes: Arc<GrantCells>,
    /// Grants count that were asked for after this; [`NOT_OWNED`]: nothing is answered.
    since: AtomicU64,
    /// Nodes whose grants a read needs.
    needs: AtomicU64,
    /// Nodes whose grants are none for this object.
    excluded: AtomicU64,
}

const NOT_OWNED: u64 = u64::MAX;

impl Default for GrantCells {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; NODES_MAX as usize])
    }
}

impl GrantCells {
    /// A heartbeat of this clock was answered.
    pub(super) fn granted(&self, node: u8, sent: Instant) {
        self.0[usize::from(node)].fetch_max(sent.0, Ordering::Release);
    }
    /// Nothing was granted by the node with this number.
    pub(super) fn forget(&self, node: u8) {
        self.0[usize::from(node)].store(0, Ordering::Release);
    }
}

impl GrantCell {
    pub(super) fn new(nodes: Arc<GrantCells>, since: Instant) -> Self {
        Self { nodes, since: AtomicU64::new(since.0), needs: AtomicU64::new(0), excluded: AtomicU64::new(0) }
    }
    /// Whether a read of the object may be answered. `now`: read afresh from the clock of heartbeats, after the data of the read was there.
    pub fn may_answer(&self, now: Instant) -> bool {
        let since = self.since.load(Ordering::Acquire);
        if since == NOT_OWNED {
            return false;
        }
        let needs = self.needs.load(Ordering::Acquire);
        let granted = |node: u8| {
            let sent = self.nodes.0[usize::from(node)].load(Ordering::Acquire);
            sent > since && now.since(Instant(sent)) < counted() && self.excluded.load(Ordering::Acquire) & 1 << node == 0
        };
        if hooks::seeded(SeededFault::GrantsOfAll) {
            return needs == 0 || bits(needs).any(granted);
        }
        bits(needs).all(granted)
    }
    /// Grants count that were asked for after this.
    pub(super) fn counts_since(&self, since: Instant) {
        self.since.store(since.0, Ordering::Release);
    }
    pub(super) fn needs(&self, nodes: u64) {
        self.needs.store(nodes, Ordering::Release);
    }
    #[cfg(test)]
    pub(super) fn needed(&self) -> u64 {
        self.needs.load(Ordering::Acquire)
    }
    pub(super) fn exclude(&self, node: u8, excluded: bool) {
        let before = self.excluded.load(Ordering::Relaxed);
        let bit = 1 << node;
        self.excluded.store(if excluded { before | bit } else { before & !bit }, Ordering::Release);
    }
    /// Nothing is answered any more.
    pub(super) fn ends(&self) {
        self.since.store(NOT_OWNED, Ordering::Release);
    }
}

fn counted() -> Duration {
    if hooks::seeded(SeededFault::GrantCountedShorter) { super::GRANT * 2 } else { COUNTED }
}

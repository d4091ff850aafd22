//! Paths: which node owns a volume, how another reaches it, which slot a node gets, and which nodes hosts hear of.
//!
//! ```text
//!                owner is this node ───────────────────────────► optimized
//!  volume ──►    owner is another, this one can forward to it ─► non-optimized
//!                owner is another, it cannot ──────────────────► inaccessible
//!                owner is this node, and does not serve it ────► inaccessible, in a group of its own
//! ```
//!
//! Owns: [`owner_of`], [`holder_of`], [`owner_elsewhere`], [`path_of`], [`can_forward`], [`OpenLinks`], [`free_slot`], [`other_nodes`],
//! [`shown_release`].
//! Invariants: two members never have one slot; all nodes that know of the same owner name one group for a volume, but an owner that does not serve
//! it; the volumes of a group have one state on a node; a node alone has one path, optimized, to everything.
//! Never: takes a node that is down for one that is gone.

use crate::record::{NodeRecord, NodeState, ObjectRecord};
use crate::{Observed, Records};
use base::hooks::{self, SeededFault};
use base::{CopyState, NODES_MAX, NodeId, NodeSlot};
use std::collections::{BTreeMap, BTreeSet};

/// How well a node can serve what another owns, as NVMe (ANA) and SCSI (ALUA) both know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// It is the owner.
    Optimized,
    /// It passes on what hosts ask; the owner itself is faster.
    NonOptimized,
    /// It cannot serve it. Another node may.
    Inaccessible,
}

/// The path to a volume through a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// What it has in common with all volumes of the same owner, on every node: the owner's slot and 1, so 1 to [`base::NODES_MAX`]; or [`Path::AWAY`].
    pub group: u32,
    /// How good it is.
    pub state: PathState,
}

impl Path {
    /// To what a node that is alone owns.
    pub const ALONE: Path = Path { group: group_of(NodeSlot::FIRST), state: PathState::Optimized };
    /// To what a node owns by the records and does not serve, through that node. What else it owns is served: that is another group.
    pub const AWAY: Path = Path { group: NODES_MAX as u32 + 1, state: PathState::Inaccessible };
}

/// The group of what the node with this slot owns.
pub const fn group_of(slot: NodeSlot) -> u32 {
    slot.number() as u32 + 1
}

/// The node that orders the changes of an object, by name: as the record says, else where its first component in sync is, else where its first
/// component is. `None`: it has no component, so anyone may say what there is of it.
pub fn owner_of(object: &ObjectRecord) -> Option<&str> {
    let in_sync = || object.used().find(|c| c.state == CopyState::Active);
    let holder = || in_sync().or_else(|| object.components().next()).map(|c| c.node.as_str());
    object.owner.as_deref().or_else(holder)
}

/// The node that has all components of an object: it carries out what is asked of them. `None`: there are none, or several nodes have some.
pub fn holder_of(object: &ObjectRecord) -> Option<&str> {
    let first = object.components().next()?.node.as_str();
    object.components().all(|c| c.node == first).then_some(first)
}

/// The node that owns an object, where that is another member than `node`: requests for it go there.
pub fn owner_elsewhere(object: &ObjectRecord, records: &Records, node: &str) -> Option<NodeId> {
    let owner = owner_of(object).filter(|owner| *owner != node)?;
    records.nodes.iter().find(|n| n.name == owner && n.is_member())?.id
}

/// The links of a node with others that are open.
#[derive(Clone, Debug, Default)]
pub struct OpenLinks(BTreeMap<NodeId, OpenLanes>);

/// Those with one node.
#[derive(Clone, Debug, Default)]
struct OpenLanes {
    open: BTreeSet<u8>,
    lanes: u8,
}

impl OpenLinks {
    /// One of the `lanes` with a node has opened, or is closed.
    pub fn note(&mut self, node: NodeId, lane: u8, lanes: u8, open: bool) {
        let known = self.0.entry(node).or_default();
        known.lanes = lanes;
        if open {
            known.open.insert(lane);
        } else {
            known.open.remove(&lane);
        }
    }
    /// The nodes, by name, with which all lanes are open: whichever core a request comes to, it gets there. What [`Observed::forwards`] is made of.
    pub fn open_to(&self, nodes: &[NodeRecord]) -> BTreeSet<String> {
        let is_open = |id: &NodeId| self.0.get(id).is_some_and(|known| (0..known.lanes).all(|lane| known.open.contains(&lane)));
        nodes.iter().filter(|n| n.id.as_ref().is_some_and(is_open)).map(|n| n.name.clone()).collect()
    }
}

/// Whether `observed.node` can pass on what hosts ask of volumes that `owner` owns. This is the one place that decides between a path that works
/// and one that does not.
pub fn can_forward(observed: &Observed, owner: &NodeRecord) -> bool {
    owner.is_member() && (observed.forwards.contains(&owner.name) || hooks::seeded(SeededFault::PathWithoutLinks))
}

/// The path to an object through `observed.node`.
pub fn path_of(object: &ObjectRecord, records: &Records, observed: &Observed) -> Path {
    let owner = owner_of(object).unwrap_or(&observed.node);
    let record = records.nodes.iter().find(|n| n.name == owner);
    let here = owner == observed.node;
    // Where no other node has a copy there is no other path to name.
    let has_begun = object.owner.is_none() || observed.terms.get(&object.id) == Some(&object.ownership.term);
    // Nobody serves what was restored before it is known which copies are right.
    if object.change.restored || here && (!has_begun || observed.away.contains(&object.id)) {
        return Path::AWAY;
    }
    let state = match record {
        _ if here => PathState::Optimized,
        Some(record) if can_forward(observed, record) => PathState::NonOptimized,
        _ => PathState::Inaccessible,
    };
    let slot = match record.and_then(|r| r.slot) {
        Some(slot) => slot,
        // A node that has no record, or has not started since there are slots: it is alone.
        None if here => NodeSlot::FIRST,
        // Nobody's group, so that it does not stand in the group of a node that has another state.
        None => free_slot(&records.nodes).map_or(NodeSlot::FIRST, |free| free.slot),
    };
    let slot = if hooks::seeded(SeededFault::PathGroupByNode) {
        let me = records.nodes.iter().find(|n| n.name == observed.node);
        me.and_then(|n| n.slot).unwrap_or(slot)
    } else {
        slot
    };
    Path { group: group_of(slot), state }
}

/// A slot for a node that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSlot<'a> {
    /// The slot.
    pub slot: NodeSlot,
    /// The node that had it and was removed; its record has to give it up.
    pub of: Option<&'a NodeRecord>,
}

/// The slot for a node that has none: the lowest that no record has; when there is none, that of the node that was removed longest ago, so that
/// hosts have forgotten it. `None`: there are as many nodes as there can be.
pub fn free_slot(nodes: &[NodeRecord]) -> Option<FreeSlot<'_>> {
    let taken: BTreeSet<NodeSlot> = nodes.iter().filter_map(|n| n.slot).collect();
    let removed = |n: &&NodeRecord| match (n.state, n.slot) {
        (NodeState::Removed { unix_s }, Some(slot)) => Some((unix_s, slot)),
        _ => None,
    };
    let new = NodeSlot::all().find(|slot| !taken.contains(slot)).map(|slot| FreeSlot { slot, of: None });
    let used = || {
        let longest_ago = nodes.iter().filter(|n| removed(n).is_some()).min_by_key(removed)?;
        Some(FreeSlot { slot: longest_ago.slot?, of: Some(longest_ago) })
    };
    new.or_else(used)
}

/// The other nodes of the cluster of which hosts hear from `node`, by ascending slot. One that is down is among them: it comes back, and hosts
/// that had forgotten it would not.
pub fn other_nodes<'a>(nodes: &'a [NodeRecord], node: &str) -> Vec<&'a NodeRecord> {
    let counts = |n: &&NodeRecord| n.is_member() || hooks::seeded(SeededFault::RemovedNodeAdvertised);
    let mut others: Vec<&NodeRecord> = nodes.iter().filter(|n| n.name != node && n.slot.is_some()).filter(counts).collect();
    others.sort_by_key(|n| n.slot);
    others
}

/// The release that hosts see of every node: the lowest of all members, so that it is the same through each of them while they are brought up to
/// date one after the other. `None`: none of them says.
pub fn shown_release(nodes: &[NodeRecord]) -> Option<&str> {
    let members = nodes.iter().filter(|n| n.is_member() && !n.release.is_empty());
    members.map(|n| n.release.as_str()).min_by_key(|release| order_of_release(release))
}

/// Numbers count as numbers, and what comes before a release (`1.0.0-rc1`) is lower; the text decides between equals.
fn order_of_release(release: &str) -> (Vec<Option<u64>>, bool, &str) {
    let (numbers, is_release) = release.split_once('-').map_or((release, true), |(numbers, _)| (numbers, false));
    (numbers.split('.').map(|part| part.parse().ok()).collect(), is_release, release)
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;

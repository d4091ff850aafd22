//! Where the pieces of each volume lie: the immutable picture that every core holds.
//!
//! Owns: volumes, their mirrors, and the copies of each: which of them serves, and on which core each lane of a mirror is.
//! Invariants: a [`VolumeRef`] names the same volume for as long as a daemon runs; the rules from piece to mirror and to lane never change for an
//! object (they are part of the format); what is read or changed is a copy that is in sync, and no other copy misses the change.
//! Never: decides the state of a copy.

use crate::{cores::LaneCores, io::VolumeRef, limit::Limits};
use base::hooks::{self, SeededFault};
use base::{ComponentId, CopyState, Epoch, Lane, NodeId, Ownership, VolumeId, mirror::mirror_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::ComponentNo;

/// The place of a disk group in this node's table of groups. Never reused while a daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSlot(pub u16);

/// A component of an object, as this node finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComponentAt {
    /// Its disk group.
    pub group: GroupSlot,
    /// Its number in the group.
    pub no: ComponentNo,
}

/// Where a copy is. `C`: how a component of this node is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPlace<C = ComponentAt> {
    /// On this node.
    Here(C),
    /// On another one.
    On {
        /// Which.
        node: NodeId,
        /// The component.
        component: ComponentId,
    },
}

/// A copy of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyAt<C = ComponentAt> {
    /// What the records say of it.
    pub state: CopyState,
    /// Where it is.
    pub place: CopyPlace<C>,
}

impl<C> CopyAt<C> {
    /// One that is in sync, on this node.
    pub const fn active_here(component: C) -> Self {
        Self { state: CopyState::Active, place: CopyPlace::Here(component) }
    }
    /// Its component, if it is on this node.
    pub const fn here(&self) -> Option<&C> {
        match &self.place {
            CopyPlace::Here(component) => Some(component),
            CopyPlace::On { .. } => None,
        }
    }
}

/// RAID-1: what is the same on all copies that are in sync. Each lane of a mirror is on one core, where its changes are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The copy that serves; found once, for it is asked for with each part.
    serving: Option<ComponentAt>,
    cores: LaneCores,
    copies: Vec<CopyAt>,
}

impl Mirror {
    /// Of its copies, at most one of them on this node. `cores`: of its lanes, for this term; `shards`: of the shards that hold the lanes of the copy
    /// on this node.
    pub fn new(copies: Vec<CopyAt>, cores: LaneCores, shards: Option<LaneCores>) -> Self {
        let here_only = hooks::seeded(SeededFault::OtherCopyMisses);
        let mut all = copies.iter().filter(|copy| !here_only || copy.here().is_some());
        let serving = match (all.next(), all.next()) {
            (Some(only), None) if only.state.is_in_sync() => only.here().copied().filter(|_| shards == Some(cores)),
            // To a copy on another node, or on another core, there is another way; also while the others are out: they come back while hosts write.
            _ => None,
        };
        Self { serving, cores, copies }
    }
    /// With one copy, here and in sync, on the cores of its lanes.
    pub fn of_one(at: ComponentAt, cores: LaneCores) -> Self {
        Self::new(vec![CopyAt::active_here(at)], cores, Some(cores))
    }
    /// Its copies.
    pub fn copies(&self) -> &[CopyAt] {
        &self.copies
    }
    /// The copy on this node that is read and gets all changes; `None`: there are others, and what is asked of it goes its own way ([`crate::copies`]).
    #[inline]
    pub const fn serving(&self) -> Option<ComponentAt> {
        self.serving
    }
    /// The copy on this node.
    pub fn here(&self) -> Option<ComponentAt> {
        self.copies.iter().find_map(|copy| copy.here().copied())
    }
    /// The copy on this node, if it is in sync.
    pub fn in_sync_here(&self) -> Option<ComponentAt> {
        self.copies.iter().find(|copy| copy.state.is_in_sync() && copy.here().is_some())?.here().copied()
    }
    /// Whether changes go to a copy at all.
    pub fn has_copies(&self) -> bool {
        self.copies.iter().any(|copy| copy.state.gets_changes())
    }
    /// The core of a lane, in this term of the owner.
    #[inline]
    pub const fn core_of(&self, lane: Lane) -> usize {
        self.cores.core_of(lane)
    }
}

/// One volume.
#[derive(Clone, Debug)]
pub struct VolumeLayout {
    /// Which volume.
    pub id: VolumeId,
    /// Under which place the lanes of its object are kept: of the volume that the object was first served as. Another one than its own after its data
    /// has gone to another place ([`crate::fill`]).
    pub lanes: VolumeRef,
    /// Its size.
    pub bytes: u64,
    /// Refuses all changes.
    pub read_only: bool,
    /// Whether blocks keep a checksum on capacity (policy).
    pub checksum: bool,
    /// Shared with the earlier pictures of the same volume while the limits stay the same.
    pub limits: Arc<Limits>,
    /// How its changes are ordered.
    pub ownership: Ownership,
    /// RAID-0: pieces are dealt to them in turn ([`mirror_of`]). Empty while the volume is offline: its requests fail; and where another node owns
    /// it.
    pub mirrors: Vec<Mirror>,
    /// Another node owns it: requests go there.
    pub owner: Option<NodeId>,
    /// Of the view of the volume: of what a host may do with it. The same on all nodes, and higher with each change.
    pub revision: u64,
}

impl VolumeLayout {
    /// The mirror that holds byte `offset`: which of `mirrors`.
    pub fn mirror(&self, offset: u64) -> usize {
        mirror_of(offset, self.mirrors.len())
    }
}

/// All volumes, by [`VolumeRef`].
#[derive(Debug, Default)]
pub struct LayoutView {
    /// `None` where a volume was deleted.
    pub volumes: Vec<Option<Arc<VolumeLayout>>>,
    /// What this node has of objects that other nodes own.
    pub held: BTreeMap<ComponentId, HeldCopy>,
    /// Of volumes whose lanes are kept under another place than theirs: the volume, by that place.
    pub moved: BTreeMap<VolumeRef, VolumeRef>,
}

/// A component of this node, of an object that another node owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldCopy {
    /// Where it is.
    pub at: ComponentAt,
    /// Who owns the object.
    pub owner: NodeId,
    /// In which epoch.
    pub epoch: Epoch,
}

impl LayoutView {
    /// The volume, if there is one.
    pub fn get(&self, volume: VolumeRef) -> Option<&Arc<VolumeLayout>> {
        self.volumes.get(volume.0 as usize)?.as_ref()
    }
    /// The volume whose lanes are kept under a place.
    pub fn of_lanes(&self, lanes: VolumeRef) -> Option<&Arc<VolumeLayout>> {
        let volume = self.moved.get(&lanes).copied().unwrap_or(lanes);
        self.get(volume).filter(|layout| layout.lanes == lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::GroupRoute;
    use base::ObjectId;

    const AT: ComponentAt = ComponentAt { group: GroupSlot(3), no: ComponentNo(7) };
    const HERE: CopyPlace = CopyPlace::Here(AT);
    const THERE: CopyPlace = CopyPlace::On { node: NodeId::from_bytes([1; 16]), component: ComponentId::from_bytes([2; 16]) };

    fn group(first_core: u8) -> LaneCores {
        LaneCores::of_group(GroupRoute { shards: 4, first_core }, 4)
    }
    /// What serves, of these copies.
    fn serving<const N: usize>(copies: [(CopyState, CopyPlace); N]) -> Option<ComponentAt> {
        let copies = copies.map(|(state, place)| CopyAt { state, place }).to_vec();
        Mirror::new(copies, group(0), Some(group(0))).serving()
    }

    fn what_serves_is_in_sync_and_the_only_copy() {
        use CopyState::*;
        for state in [Absent, Degraded, Stale, Resyncing] {
            assert_eq!(serving([(state, HERE)]), None, "{state:?}");
            assert_eq!(serving([(state, THERE), (Active, HERE)]), None, "{state:?} elsewhere");
        }
        assert_eq!(serving([(Active, HERE)]), Some(AT));
        assert_eq!(serving([(Active, HERE), (Active, THERE)]), None);
        assert_eq!(serving([(Active, THERE), (Stale, HERE)]), None);
        assert_eq!(serving([]), None);
        let elsewhere = Mirror::new(vec![CopyAt::active_here(AT)], group(0), Some(group(1)));
        assert_eq!(elsewhere.serving(), None, "its shards are not where the lanes are");
    }

    #[test]
    fn a_mirror_is_served_by_a_copy_here_that_is_its_only_one() {
        what_serves_is_in_sync_and_the_only_copy();
        let cores = LaneCores::dealt(ObjectId::from_bytes([5; 16]), 1, 3);
        let none_here = Mirror::new(vec![], cores, None);
        assert!((0..16).filter_map(Lane::new).all(|lane| none_here.core_of(lane) == cores.core_of(lane)), "its lanes have cores");
    }

    #[cfg(feature = "hooks")]
    #[test]
    fn seeded_faults_are_noticed() {
        hooks::notices(SeededFault::OtherCopyMisses, what_serves_is_in_sync_and_the_only_copy);
    }
}

//! Where the pieces of each volume lie: the immutable picture that every core holds.
//!
//! Invariant: a [`VolumeRef`] names the same volume for as long as a daemon runs; the rule from piece to component never changes
//! for an object (it is part of the format).

use crate::{io::VolumeRef, limit::Limits};
use base::{Ownership, VolumeId, unit::PIECE_BYTES};
use std::sync::Arc;
use store::ComponentNo;

/// The place of a disk group in this host's table of groups. Never reused while a daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSlot(pub u16);

/// A component of an object, as this host finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComponentAt {
    /// Its disk group.
    pub group: GroupSlot,
    /// Its number in the group.
    pub no: ComponentNo,
}

/// One volume.
#[derive(Debug)]
pub struct VolumeLayout {
    /// Which volume.
    pub id: VolumeId,
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
    /// RAID-0: piece `p` lies on `stripes[p % stripes.len()]`. Empty while the volume is offline: its requests fail.
    pub stripes: Vec<ComponentAt>,
}

impl VolumeLayout {
    /// The mirror that holds byte `offset`: which of `stripes`.
    pub fn mirror(&self, offset: u64) -> usize {
        ((offset / PIECE_BYTES) % self.stripes.len() as u64) as usize
    }
}

/// All volumes, by [`VolumeRef`].
#[derive(Debug, Default)]
pub struct LayoutView {
    /// `None` where a volume was deleted.
    pub volumes: Vec<Option<Arc<VolumeLayout>>>,
}

impl LayoutView {
    /// The volume, if there is one.
    pub fn get(&self, volume: VolumeRef) -> Option<&Arc<VolumeLayout>> {
        self.volumes.get(volume.0 as usize)?.as_ref()
    }
}

/// How the shards of a disk group are dealt to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRoute {
    /// A power of two, at most 16.
    pub shards: u8,
    /// The core of shard 0; the next shards follow, round and round.
    pub first_core: u8,
}

impl GroupRoute {
    /// The core that runs a shard, of `cores`.
    pub fn core(&self, shard: usize, cores: usize) -> usize {
        (usize::from(self.first_core) + shard) % cores
    }
}

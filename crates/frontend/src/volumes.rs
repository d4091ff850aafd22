//! The volumes that are served, as front ends see them.
//!
//! Invariant: a picture never changes; a new one has a higher generation. A [`VolumeRef`] never means another volume.

use base::unit::CHUNK_BYTES;
use base::{HostId, NodeId, VolumeId, WriteProtect};
use cluster::reservation::{self, Access};
use object::{ChunksUsed, VolumeRef};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Where a device has less than so much open to all, in percent, its thin volumes are near their end: an administrator is warned, and hosts hear of it
/// where their protocol says so.
pub const SPACE_LOW_PERCENT: u64 = 20;

/// All volumes that are served.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    /// Grows with each change.
    pub generation: u64,
    /// By [`VolumeRef`]; `None` for one that is gone.
    pub by_ref: Vec<Option<VolumeView>>,
    /// Where each is in `by_ref`.
    pub places: BTreeMap<VolumeId, VolumeRef>,
}

/// What hosts see of a volume: said once by the control plane, and passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedVolume {
    /// Its identity for life: names that hosts get come from it.
    pub id: VolumeId,
    /// Its name, as the user calls it.
    pub name: String,
    /// Its size in bytes, a multiple of `lba_bytes`.
    pub bytes: u64,
    /// Bytes of a logical block: 512 or 4096.
    pub lba_bytes: u32,
    /// Whether it may be changed.
    pub write_protect: WriteProtect,
    /// It is being formatted: hosts see it, its content goes, and no command reaches it.
    pub formatting: bool,
    /// Who is registered and who holds a reservation; `None`: nobody ever was.
    pub reservation: Option<Arc<reservation::State>>,
    /// It takes space as it is written; otherwise all of its space is set aside for it.
    pub thin: bool,
}

impl ServedVolume {
    /// A volume of 4096-byte blocks as most are: thin, free for everybody to write.
    pub fn plain(id: VolumeId, name: String, bytes: u64) -> Self {
        let (lba_bytes, write_protect) = (4096, WriteProtect::None);
        Self { id, name, bytes, lba_bytes, write_protect, formatting: false, reservation: None, thin: true }
    }
    /// What a host may do with it while there is a reservation.
    pub fn access(&self, host: HostId) -> Access {
        self.reservation.as_ref().map_or(Access::FULL, |r| r.access(host))
    }
}

/// A volume, as the front ends see it: a [`ServedVolume`], with what is known of it on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeView {
    /// What hosts see of it.
    pub volume: ServedVolume,
    /// What its components have of space now, at every moment. Empty when it is not thin, or its disk group is offline, or of another node.
    pub used: Vec<ChunksUsed>,
    /// It has limits: a front end waits for the turn of a request before it takes memory for its data (`IoOp::Turn`).
    pub limited: bool,
    /// The node that owns it, where that is another one.
    pub owner: Option<NodeId>,
    /// Of this view of it: the same on all nodes, and higher with each change of what hosts may do.
    pub revision: u64,
}

impl VolumeView {
    /// What is open to all of the device with the least space among those that it takes space on, in percent; `None`: it is not thin, or that is not
    /// known here.
    pub fn open_percent(&self) -> Option<u64> {
        self.used.iter().filter_map(ChunksUsed::open_percent).min()
    }
    /// Bytes of space that it has now; `None` when that is not known here.
    pub fn used_bytes(&self) -> Option<u64> {
        (!self.used.is_empty()).then(|| self.used.iter().map(|u| u.get() * CHUNK_BYTES).sum())
    }
}

impl Deref for VolumeView {
    type Target = ServedVolume;
    fn deref(&self) -> &ServedVolume {
        &self.volume
    }
}

impl DerefMut for VolumeView {
    fn deref_mut(&mut self) -> &mut ServedVolume {
        &mut self.volume
    }
}

/// What a front end was to serve names a volume that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{export}' exports volume {volume}, which does not exist")]
pub struct UnknownVolume {
    /// The export, as hosts call it.
    pub export: String,
    /// The volume.
    pub volume: VolumeId,
}

impl Volumes {
    /// The place of a volume of an export.
    pub fn place(&self, export: &str, volume: VolumeId) -> Result<VolumeRef, UnknownVolume> {
        self.places.get(&volume).copied().ok_or_else(|| UnknownVolume { export: export.to_owned(), volume })
    }
}

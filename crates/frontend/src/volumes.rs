//! The volumes that are served, as front ends see them.
//!
//! Invariant: a picture never changes; a new one has a higher generation. A [`VolumeRef`] never means another volume.

use base::{HostId, VolumeId, WriteProtect};
use cluster::reservation::{self, Access};
use object::{ChunksUsed, VolumeRef};
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// A volume, as the front ends see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeView {
    /// Its identity for life: names that hosts get come from it.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// Its size in bytes, a multiple of `lba_bytes`.
    pub bytes: u64,
    /// Bytes of a logical block: 512 or 4096.
    pub lba_bytes: u32,
    /// Whether it may be changed.
    pub write_protect: WriteProtect,
    /// It is being formatted: its content goes, and no command reaches it.
    pub formatting: bool,
    /// Who is registered and who holds a reservation; `None`: nobody ever was.
    pub reservation: Option<Arc<reservation::State>>,
    /// It takes space as it is written: what its components have now. `None`: all of its space is set aside for it.
    pub thin: Option<Vec<ChunksUsed>>,
}

impl VolumeView {
    /// What a host may do with it while there is a reservation.
    pub fn access(&self, host: HostId) -> Access {
        self.reservation.as_ref().map_or(Access::FULL, |r| r.access(host))
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

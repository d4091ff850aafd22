//! What a node is to serve: made by the control plane, applied as a whole.

use base::{ComponentId, GroupId, ObjectId, Ownership, VolumeId, WriteProtect};
use cluster::record::{ComponentRecord, ObjectRecord, VolumeRecord};
use cluster::{Policy, Usable};
use object::CopyAt;
use std::sync::Arc;
use store::ComponentNo;

/// Everything that is served. Applying it twice changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired<E> {
    /// Grows with each change.
    pub generation: u64,
    /// The volumes that exist on this node.
    pub volumes: Vec<VolumeDesired>,
    /// How the front end exports them.
    pub exports: E,
}

/// A volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeDesired {
    /// Its identity for life.
    pub id: VolumeId,
    /// As the user calls it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// 512 or 4096.
    pub lba_bytes: u32,
    /// Whether it may be changed.
    pub write_protect: WriteProtect,
    /// It is being formatted: hosts see it, no command reaches it, and all of its content lies behind its end ([`crate::DataPlaneHandle::free_behind`]).
    pub formatting: bool,
    /// Who is registered and who holds a reservation; `None`: nobody ever was.
    pub reservation: Option<Arc<cluster::reservation::State>>,
    /// It takes space as it is written; otherwise all of its space is set aside for it.
    pub thin: bool,
    /// Whether blocks keep a checksum on capacity.
    pub checksum: bool,
    /// Requests a second, in units of 32 KiB.
    pub iops_max: Option<u64>,
    /// Bytes a second.
    pub bytes_per_s_max: Option<u64>,
    /// Where it lies.
    pub object: ObjectLayout,
}

impl VolumeDesired {
    /// A volume of 4096-byte blocks as most are: with checksums, without limits, free for everybody to write.
    pub fn plain(id: VolumeId, name: String, bytes: u64, object: ObjectLayout) -> VolumeDesired {
        VolumeDesired {
            id,
            name,
            bytes,
            lba_bytes: 4096,
            write_protect: WriteProtect::None,
            formatting: false,
            reservation: None,
            thin: true,
            checksum: true,
            iops_max: None,
            bytes_per_s_max: None,
            object,
        }
    }

    /// A volume as its records say, without its reservation. `mirrors`: what serves it now; none: it is out of reach.
    pub fn from_records(volume: &VolumeRecord, object: &ObjectRecord, policy: &Policy, mirrors: Vec<MirrorDesired>) -> VolumeDesired {
        let reserved: u64 = object.mirrors.iter().flatten().map(ComponentRecord::reserved_bytes).sum();
        VolumeDesired {
            id: volume.id,
            name: volume.name.clone(),
            bytes: volume.bytes,
            lba_bytes: volume.lba_bytes,
            formatting: volume.format_to.is_some(),
            write_protect: volume.write_protect,
            reservation: None,
            thin: reserved < volume.bytes,
            checksum: policy.checksum,
            iops_max: policy.iops_limit,
            bytes_per_s_max: policy.bandwidth_limit,
            object: ObjectLayout { object: object.id, ownership: object.ownership, mirrors },
        }
    }
}

/// Where an object lies.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectLayout {
    /// The object.
    pub object: ObjectId,
    /// How its changes are ordered.
    pub ownership: Ownership,
    /// RAID-0: pieces are dealt to them in turn ([`base::mirror::mirror_of`]). Empty while the volume is offline: hosts see it, and its
    /// requests fail, to be tried again.
    pub mirrors: Vec<MirrorDesired>,
}

/// A mirror of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct MirrorDesired {
    /// RAID-1: the copies; exactly one, in sync, while there is one node.
    pub copies: Vec<CopyAt<ComponentRef>>,
}

impl MirrorDesired {
    /// With one copy, in sync.
    pub fn of_one(component: ComponentRef) -> MirrorDesired {
        MirrorDesired { copies: vec![CopyAt::active_here(component)] }
    }
    /// Of the components that serve it.
    pub fn of(usable: Vec<Usable>) -> MirrorDesired {
        let component = |u: Usable| ComponentRef { id: u.id, group: u.group, no: ComponentNo(u.no) };
        MirrorDesired { copies: usable.into_iter().map(component).map(CopyAt::active_here).collect() }
    }
    /// The components of this node.
    pub fn here(&self) -> impl Iterator<Item = &ComponentRef> {
        self.copies.iter().filter_map(CopyAt::here)
    }
}

/// A component of this node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComponentRef {
    /// Its identity.
    pub id: ComponentId,
    /// The disk group that holds it.
    pub group: GroupId,
    /// Its number in the group.
    pub no: ComponentNo,
}

//! What a node is to serve: made by the control plane, applied as a whole.

use base::{ComponentId, Epoch, GroupId, NodeId, ObjectId, Ownership, OwnershipRecord, ResyncPace, VolumeId};
use cluster::record::{ComponentRecord, ObjectRecord, VolumeRecord};
use cluster::{Policy, Usable, reservation};
use frontend::ServedVolume;
use object::owners::Balancing;
use object::{CopyAt, VolumeLimits};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use store::ComponentNo;

/// Everything that is served. Applying it twice changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired<E> {
    /// Grows with each change.
    pub generation: u64,
    /// The volumes that exist on this node.
    pub volumes: Vec<VolumeDesired>,
    /// What this node has of objects that other nodes own.
    pub held: Vec<HeldDesired>,
    /// Records of objects on several nodes that this node owns or has copies of.
    pub objects: Vec<ObjectDesired>,
    /// Whether those go to other nodes of themselves.
    pub balancing: Balancing,
    /// How the front end exports them.
    pub exports: E,
}

/// The record of an object: who owns it, and how its copies stand.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectDesired {
    /// Which object.
    pub object: ObjectId,
    /// The revision of the directory that wrote the record.
    pub revision: u64,
    /// The record.
    pub record: OwnershipRecord,
    /// The node that is to own it whenever it can.
    pub preferred: Option<NodeId>,
    /// A copy that takes much longer for changes than the others leaves.
    pub slow_copies_leave: bool,
    /// How fast copies that come back into sync get what they miss.
    pub resync: ResyncPace,
}

/// A component of this node, of an object that another node owns: that one sends its changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldDesired {
    /// The component.
    pub component: ComponentRef,
    /// Who owns the object.
    pub owner: NodeId,
    /// In which epoch.
    pub epoch: Epoch,
}

/// A volume: what hosts see of it, how it is kept, and where it lies.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeDesired {
    /// What hosts see of it. While it is being formatted, all of its content lies behind its end ([`crate::DataPlaneHandle::free_behind`]).
    pub volume: ServedVolume,
    /// Whether blocks keep a checksum on capacity.
    pub checksum: bool,
    /// How much hosts may ask of it.
    pub limits: VolumeLimits,
    /// Where it lies.
    pub object: ObjectLayout,
    /// Another node owns it, and its requests go there: then it has no mirrors here.
    pub owner: Option<NodeId>,
    /// Of the view of it: the same on all nodes, and higher with each change of what hosts may do with it.
    pub revision: u64,
}

impl Deref for VolumeDesired {
    type Target = ServedVolume;
    fn deref(&self) -> &ServedVolume {
        &self.volume
    }
}

impl DerefMut for VolumeDesired {
    fn deref_mut(&mut self) -> &mut ServedVolume {
        &mut self.volume
    }
}

impl VolumeDesired {
    /// A volume of 4096-byte blocks as most are: with checksums, without limits, free for everybody to write.
    pub fn plain(id: VolumeId, name: String, bytes: u64, object: ObjectLayout) -> VolumeDesired {
        VolumeDesired {
            volume: ServedVolume::plain(id, name, bytes),
            checksum: true,
            limits: VolumeLimits::default(),
            object,
            owner: None,
            revision: 0,
        }
    }

    /// A volume as its records say, with its reservation. `mirrors`: what serves it now; none: it is out of reach.
    pub fn from_records(
        volume: &VolumeRecord,
        object: &ObjectRecord,
        policy: &Policy,
        reservation: Option<Arc<reservation::State>>,
        mirrors: Vec<MirrorDesired>,
    ) -> VolumeDesired {
        let reserved: u64 = object.mirrors.iter().flatten().map(ComponentRecord::reserved_bytes).sum();
        VolumeDesired {
            volume: ServedVolume {
                id: volume.id,
                name: volume.name.clone(),
                bytes: volume.bytes,
                lba_bytes: volume.lba_bytes,
                write_protect: volume.write_protect,
                formatting: volume.format_to.is_some(),
                reservation,
                thin: reserved < volume.bytes,
            },
            checksum: policy.checksum,
            limits: VolumeLimits { iops_max: policy.iops_limit, bytes_per_s_max: policy.bandwidth_limit },
            object: ObjectLayout { object: object.id, ownership: object.ownership, mirrors },
            owner: None,
            revision: 0,
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
    /// It is, and was, on this node alone: no machine of its owner is asked.
    pub alone: bool,
}

impl MirrorDesired {
    /// With one copy, in sync.
    pub fn of_one(component: ComponentRef) -> MirrorDesired {
        MirrorDesired { copies: vec![CopyAt::active_here(component)], alone: true }
    }
    /// Of the components that serve it.
    pub fn of(usable: Vec<Usable>) -> MirrorDesired {
        MirrorDesired { copies: usable.iter().map(ComponentRef::of).map(CopyAt::active_here).collect(), alone: true }
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

impl ComponentRef {
    /// Of one that can be used.
    pub(crate) fn of(usable: &Usable) -> ComponentRef {
        ComponentRef { id: usable.id, group: usable.group, no: ComponentNo(usable.no) }
    }
}

//! From the directory's records to `cluster`'s facts, and to what the data plane is to serve.

use super::*;
use crate::plane::Desired;
use crate::plane::GroupFigures;
use cluster::{DeviceInventory, GroupInventory, Inventory, Layout, MirrorSlots, NodeInventory, NotServed, Observed, Slot};
use dataplane::{ComponentSpec, MirrorDesired, VolumeDesired};
use format::disk::{Descriptor, descriptor::DESCRIPTOR_NAME_BYTES_MAX};
use nvmf::HostView;
use nvmf::{NamespaceDesired, SubsystemDesired};

/// What hosts see as the model of a subsystem.
const MODEL: &str = "Basalt";

const _: () = assert!(cluster::NAME_BYTES_MAX <= DESCRIPTOR_NAME_BYTES_MAX, "a component can say how its volume is called");
const _: () = assert!(cluster::MIRRORS_MAX <= u16::MAX as usize, "and which mirror it is");

impl Control {
    /// What can be used now: online groups of all nodes, with what is neither allocated nor reserved.
    pub(super) fn inventory(&self) -> Result<Inventory, Problem> {
        let stats = self.stats()?;
        let live = self.live();
        let mut nodes = Vec::new();
        let groups = self.directory.all::<GroupRecord>()?;
        for node in self.directory.all::<NodeRecord>()? {
            let usable = groups.iter().filter(|g| g.node == node.name && g.stage == Stage::Ready);
            let usable = usable.filter(|g| live.groups.get(&g.id).is_some_and(GroupLive::is_online));
            let inventories = usable.filter_map(|g| stats.groups.iter().find(|f| f.group == g.id)).map(group_inventory).collect();
            nodes.push(NodeInventory { name: node.name.clone(), fault_domain: node.fault_domain.clone(), groups: inventories });
        }
        Ok(Inventory { nodes })
    }

    /// What is to be served now, and why some volumes are not.
    pub(super) fn desired(&self, generation: u64) -> Result<(Desired, BTreeMap<base::VolumeId, String>), DirectoryError> {
        let policies: BTreeMap<String, PolicyRecord> =
            self.directory.all::<PolicyRecord>()?.into_iter().map(|p| (p.value.id(), p.value)).collect();
        let objects: BTreeMap<base::ObjectId, ObjectRecord> =
            self.directory.all::<ObjectRecord>()?.into_iter().map(|o| (o.value.id, o.value)).collect();
        let group_names: BTreeMap<GroupId, String> =
            self.directory.all::<GroupRecord>()?.into_iter().map(|g| (g.value.id, g.value.name)).collect();
        let observed = self.observed();
        let mut reservations = self.reservations()?;
        let mut offline = BTreeMap::new();
        let mut volumes = Vec::new();
        for volume in self.directory.all::<VolumeRecord>()?.into_iter().filter(|v| v.stage == Stage::Ready) {
            let Some(object) = objects.get(&volume.object) else {
                offline.insert(volume.id, "its layout is missing in the directory".to_owned());
                continue;
            };
            // A volume that is offline stays in sight: a namespace that vanished would end what its hosts have mounted.
            let mirrors = desired_mirrors(object, &observed, &group_names).unwrap_or_else(|reason| {
                offline.insert(volume.id, reason);
                Vec::new()
            });
            let reservation = reservations.remove(&volume.id);
            let policy = policies.get(&volume.policy).map(|p| p.policy.clone()).unwrap_or_default();
            volumes.push(VolumeDesired::from_records(&volume, object, &policy, reservation, mirrors));
        }
        let served: std::collections::BTreeSet<_> = volumes.iter().map(|v| v.id).collect();
        let subsystem = |s: Versioned<SubsystemRecord>| SubsystemDesired {
            nqn: s.value.nqn,
            serial: s.value.serial,
            model: MODEL.into(),
            allow_any_host: s.value.allow_any_host,
            hosts: s.value.hosts.into_iter().collect(),
            namespaces: s.value.namespaces.into_iter().filter(|(_, n)| served.contains(&n.volume)).map(desired_namespace).collect(),
            security: s.value.security,
            manage_namespaces: s.value.namespace_grant.is_some(),
        };
        let subsystems = self.directory.all::<SubsystemRecord>()?.into_iter().map(subsystem).collect();
        let mut hosts: BTreeMap<String, HostView> = BTreeMap::new();
        for entry in self.directory.all::<HostEntryRecord>()? {
            let (credentials, tls_psks) = (self.credentials_or_none_fits(&entry), self.tls_psks(&entry));
            if credentials.is_some() || !tls_psks.is_empty() {
                hosts.insert(entry.value.nqn, HostView { credentials, tls_psks, ..HostView::default() });
            }
        }
        Ok((Desired { generation, volumes, exports: nvmf::Desired { subsystems, hosts } }, offline))
    }

    /// Has the data plane serve what the directory said at a revision, at least; nothing is to be done when somebody else has seen to that.
    pub(super) fn serve(&self, from: Revision) -> Result<(), Problem> {
        let serving = self.serving();
        if self.live().served >= from && !self.is_behind() { Ok(()) } else { self.apply_in_turn(&serving) }
    }

    /// Has the data plane serve what the directory says.
    pub(super) fn apply(&self) -> Result<(), Problem> {
        self.apply_in_turn(&self.serving())
    }

    fn apply_in_turn(&self, _serving: &MutexGuard<'_, ()>) -> Result<(), Problem> {
        let generation = {
            let mut live = self.live();
            live.generation += 1;
            live.stats = None;
            live.generation
        };
        let outcome = self.directory.revision().map_err(Problem::from).and_then(|revision| {
            let (desired, offline) = self.desired(generation)?;
            let applied = self.plane.apply(desired);
            let mut live = self.live();
            live.offline = offline;
            applied?;
            live.served = live.served.max(revision);
            Ok(())
        });
        self.live().apply_error = outcome.as_ref().err().map(|problem| problem.message.clone());
        outcome
    }
}

fn group_inventory(figures: &GroupFigures) -> GroupInventory {
    let at = |list: &[u64], n: usize| list.get(n).copied().unwrap_or(0);
    let devices = (0..figures.capacity_bytes.len())
        .map(|n| {
            let bytes = figures.capacity_bytes[n];
            let taken = at(&figures.capacity_used_bytes, n) + at(&figures.capacity_reserved_bytes, n);
            DeviceInventory { index: n as u8, bytes, free_bytes: bytes.saturating_sub(taken) }
        })
        .collect();
    GroupInventory { id: figures.group, read_cache: false, devices }
}

fn desired_namespace((nsid, n): (u32, NamespaceRecord)) -> (u32, NamespaceDesired) {
    (nsid, NamespaceDesired { volume: n.volume, hosts: n.hosts })
}

fn desired_mirrors(object: &ObjectRecord, observed: &Observed, names: &BTreeMap<GroupId, String>) -> Result<Vec<MirrorDesired>, String> {
    let name = |group: &GroupId| names.get(group).cloned().unwrap_or_else(|| group.to_string());
    let mirrors = cluster::serving(object, observed).map_err(|why| match why {
        NotServed::NotTaken => "this node has not taken it over since it started".into(),
        NotServed::NotMade => "it is not completely made yet".into(),
        NotServed::Component(id, group) => format!("its component {id} on disk group {} is missing or behind", name(&group)),
        NotServed::Group(group) => format!("disk group {} is offline", name(&group)),
    })?;
    Ok(mirrors.into_iter().map(MirrorDesired::of).collect())
}

/// A layout as `cluster` knows it.
pub(super) fn layout_of(object: &ObjectRecord) -> Layout {
    let slot = |c: &ComponentRecord| Slot {
        node: c.node.clone(),
        group: c.group,
        capacity_index: c.capacity_index,
        bytes: c.bytes,
        reserve_chunks: c.reserve_chunks,
    };
    Layout { mirrors: object.mirrors.iter().map(|s| MirrorSlots { copies: s.iter().map(slot).collect() }).collect() }
}

/// What a component says of its volume, for whoever finds it without its directory.
fn descriptor(volume: &VolumeRecord, mirror: usize, mirrors: usize, copy: usize) -> Descriptor {
    Descriptor {
        volume: volume.id,
        bytes: volume.bytes,
        lba_bytes: volume.lba_bytes,
        stripe: mirror as u16,
        stripes: mirrors as u16,
        copy: copy as u8,
        name: volume.name.clone(),
        policy: volume.policy.clone(),
    }
}

/// What the data plane needs to make a component.
pub(super) fn new_component(volume: &VolumeRecord, c: &ComponentRecord, mirror: usize, mirrors: usize, copy: usize) -> ComponentSpec {
    ComponentSpec {
        id: c.id,
        object: volume.object,
        capacity_index: c.capacity_index,
        bytes: c.bytes,
        reserve_chunks: c.reserve_chunks,
        descriptor: descriptor(volume, mirror, mirrors, copy).build(),
    }
}

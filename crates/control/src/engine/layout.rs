//! From the directory's records to `cluster`'s facts, and to what the data plane is to serve.

use super::*;
use crate::plane::Desired;
use crate::plane::GroupFigures;
use cluster::{DeviceInventory, GroupInventory, Inventory, NodeInventory, NotServed, PathState};
use nvmf::HostView;
use peers::PeersDesired;
use std::collections::BTreeSet;

/// Volumes that this node does not serve by itself.
pub(super) struct Unserved {
    /// It owns them: why it does not.
    offline: BTreeMap<base::VolumeId, String>,
    /// Others own them.
    elsewhere: BTreeSet<base::VolumeId>,
}

impl Control {
    /// What can be used now: online groups of all nodes that are up, with what is neither allocated nor reserved, and with what is promised. Of
    /// other nodes the former is what they have said last.
    pub(super) fn inventory(&self) -> Result<Inventory, Problem> {
        let stats = self.stats()?;
        let presences = self.presences()?;
        let live = self.live();
        let mut nodes = Vec::new();
        let groups = self.directory.all::<GroupRecord>()?;
        let promised = promised(&self.directory.all::<ObjectRecord>()?);
        for node in self.directory.all::<NodeRecord>()?.into_iter().filter(|n| n.is_member()) {
            let ready = groups.iter().filter(|g| g.node == node.name && g.stage == Stage::Ready);
            let mut inventories: Vec<GroupInventory> = if node.name == self.identity.node {
                let usable = ready.filter(|g| live.groups.get(&g.id).is_some_and(GroupLive::is_online));
                usable.filter_map(|g| stats.groups.iter().find(|f| f.group == g.id)).map(group_inventory).collect()
            } else {
                let said = presences.get(&node.name).map(|p| &p.groups[..]).unwrap_or_default();
                ready.filter_map(|g| said.iter().find(|r| r.id == g.id && r.offline.is_none())).map(reported_inventory).collect()
            };
            for group in &mut inventories {
                for device in &mut group.devices {
                    device.promised_bytes = promised.get(&(group.id, device.index)).copied().unwrap_or(0);
                }
            }
            nodes.push(NodeInventory { name: node.name.clone(), fault_domain: node.fault_domain.clone(), groups: inventories });
        }
        Ok(Inventory { nodes, leaving: leaving(&groups) })
    }

    /// What is to be served by the copy of the directory, as of which revision that is, and why some volumes are not.
    pub(super) fn desired(&self, generation: u64) -> Result<(Desired, Revision, Unserved), DirectoryError> {
        let followed = self.followed();
        let (records, at) = (directory::records(followed.view())?, followed.view().revision());
        let subsystems = followed.view().all::<SubsystemRecord>()?;
        let host_entries = followed.view().all::<HostEntryRecord>()?;
        drop(followed);
        let dataplane::Served { volumes, paths, out_of_reach, held, objects } = dataplane::served(&records, &self.observed(&records));
        let group_names: BTreeMap<GroupId, String> = records.groups.into_iter().map(|g| (g.id, g.name)).collect();
        let offline = out_of_reach.into_iter().map(|(volume, why)| (volume, reason(why, &group_names))).collect();
        let others = paths.iter().filter(|(_, path)| path.state != PathState::Optimized);
        let unserved = Unserved { offline, elsewhere: others.map(|(volume, _)| *volume).collect() };
        let exports = nvmf::Desired::of_records(subsystems.iter().map(|s| &s.value), &records.nodes, &self.identity.node, &paths);
        let targets = iscsi::Desired::of_records(subsystems.iter().map(|s| &s.value), &records.nodes, &self.identity.node, &paths);
        let mut hosts: BTreeMap<String, HostView> = BTreeMap::new();
        let mut iscsi_hosts = BTreeMap::new();
        for entry in host_entries {
            if let Some(credentials) = self.chap_or_none_fits(&entry) {
                iscsi_hosts.insert(entry.nqn.clone(), iscsi::HostView { credentials: Some(credentials), ..Default::default() });
            }
            let (credentials, tls_psks) = (self.credentials_or_none_fits(&entry), self.tls_psks(&entry));
            if credentials.is_some() || !tls_psks.is_empty() {
                hosts.insert(entry.value.nqn, HostView { credentials, tls_psks, ..HostView::default() });
            }
        }
        let peers = PeersDesired::of_records(self.directory.cluster(), &records.nodes, &self.identity.node)
            .with_security(self.link_security.clone());
        let for_hosts = (nvmf::Desired { hosts, ..exports }, iscsi::Desired { hosts: iscsi_hosts, ..targets });
        Ok((Desired { generation, volumes, held, objects, exports: (for_hosts, peers), ..Desired::default() }, at, unserved))
    }

    /// Has the data plane serve what the directory said at a revision, at least; nothing is to be done when somebody else has seen to that.
    pub(super) fn serve(&self, from: Revision) -> Result<(), Problem> {
        let is_served = || self.live().served >= from && !self.is_behind();
        if is_served() {
            return Ok(());
        }
        let looked = self.looked_for_request().map(drop);
        let serving = self.serving();
        if is_served() { Ok(()) } else { self.apply_in_turn(&serving, looked) }
    }

    /// Has the data plane serve what the directory says.
    pub(super) fn apply(&self) -> Result<(), Problem> {
        let looked = self.looked_for_request().map(drop);
        self.apply_in_turn(&self.serving(), looked)
    }

    /// `looked`: whether the copy of the directory could be brought up to date, which nobody waits for who serves what was last seen.
    fn apply_in_turn(&self, _serving: &MutexGuard<'_, ()>, looked: Result<(), DirectoryError>) -> Result<(), Problem> {
        let generation = {
            let mut live = self.live();
            live.generation += 1;
            live.stats = None;
            live.generation
        };
        let outcome = looked.and_then(|()| self.desired(generation)).map_err(Problem::from).and_then(|(desired, revision, unserved)| {
            let applied = self.plane.apply(desired);
            let mut live = self.live();
            (live.offline, live.elsewhere) = (unserved.offline, unserved.elsewhere);
            applied?;
            live.served = live.served.max(revision);
            Ok(())
        });
        // What was made of what may be old says nothing of what is newer.
        if request::age().is_none() || outcome.is_err() {
            self.live().apply_error = outcome.as_ref().err().map(|problem| problem.message.clone());
        }
        outcome
    }
}

/// Capacity devices that are to leave, or have.
pub(super) fn leaving(groups: &[Versioned<GroupRecord>]) -> BTreeSet<(GroupId, u8)> {
    let of = |g: &Versioned<GroupRecord>| {
        let id = g.id;
        let leave = |(number, change): (&u8, &DeviceChange)| (*change != DeviceChange::Joins).then_some((id, *number));
        g.changes.iter().filter_map(leave).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of).collect()
}

/// What the components on each device are to hold, in bytes.
fn promised(objects: &[Versioned<ObjectRecord>]) -> BTreeMap<(GroupId, u8), u64> {
    let mut promised = BTreeMap::new();
    for component in objects.iter().flat_map(|o| o.components()) {
        let bytes: &mut u64 = promised.entry((component.group, component.capacity_index)).or_default();
        *bytes = bytes.saturating_add(component.bytes);
    }
    promised
}

fn reported_inventory(report: &GroupReport) -> GroupInventory {
    let device = |d: &DeviceReport| DeviceInventory { index: d.index, bytes: d.bytes, free_bytes: d.free_bytes, promised_bytes: 0 };
    GroupInventory { id: report.id, read_cache: false, devices: report.devices.iter().map(device).collect() }
}

pub(super) fn group_inventory(figures: &GroupFigures) -> GroupInventory {
    let at = |list: &[u64], n: usize| list.get(n).copied().unwrap_or(0);
    // A number without a device holds nothing.
    let devices = (0..figures.capacity_bytes.len())
        .filter(|n| figures.capacity_bytes[*n] > 0)
        .map(|n| {
            let bytes = figures.capacity_bytes[n];
            let taken = at(&figures.capacity_used_bytes, n) + at(&figures.capacity_reserved_bytes, n);
            DeviceInventory { index: n as u8, bytes, free_bytes: bytes.saturating_sub(taken), promised_bytes: 0 }
        })
        .collect();
    GroupInventory { id: figures.group, read_cache: false, devices }
}

/// Why a volume is not served, in words.
pub(super) fn reason(why: NotServed, names: &BTreeMap<GroupId, String>) -> String {
    let name = |group: &GroupId| names.get(group).cloned().unwrap_or_else(|| group.to_string());
    match why {
        NotServed::NoLayout => "its layout is missing in the directory".into(),
        NotServed::Restored => "the directory was restored from a backup, and which copies of it are in sync is not known yet".into(),
        NotServed::NotTaken => "this node has not taken it over since it started".into(),
        NotServed::LetGo => "this node could not go on as its owner, and another one may own it by now".into(),
        NotServed::NotMade => "it is not completely made yet".into(),
        NotServed::Component(id, group) => format!("its component {id} on disk group {} is missing or behind", name(&group)),
        NotServed::Group(group) => format!("disk group {} is offline", name(&group)),
    }
}

//! Volumes: create, list, resize, change, delete.

use super::*;
use crate::{api::types as api, plane::Stats};
use base::hooks::{self, SeededFault};
use base::{
    ByteSize, ComponentId, ObjectId, Ownership, VolumeId,
    unit::{COMPONENT_BYTES_MAX, PIECE_BYTES, VOLUME_BYTES_MAX},
};
use cluster::{Finish, Inventory, Placement, Shortfall};
use dataplane::{ComponentNo, ComponentSpec, component_spec};
use std::collections::BTreeSet;

/// A new volume is laid out so that it can grow by this factor in place.
pub(super) const GROW_FACTOR: u64 = 4;
/// The most volumes of a cluster.
pub const VOLUMES_MAX: usize = 4096;

/// What a list or one volume needs to be shown.
struct Shown {
    inventory: Inventory,
    stats: Stats,
    groups: BTreeMap<GroupId, GroupRecord>,
    /// What nodes are called, by how records name them.
    nodes: BTreeMap<String, String>,
    policies: BTreeMap<String, PolicyRecord>,
    objects: BTreeMap<ObjectId, ObjectRecord>,
    subsystems: Vec<SubsystemRecord>,
    reservations: BTreeMap<VolumeId, Arc<cluster::reservation::State>>,
    /// What the nodes that are up say; `None`: there are no others.
    others: Option<BTreeMap<String, PresenceRecord>>,
}

impl Shown {
    /// Why a volume that lies on another node is not served, as far as that is known here.
    fn reason_elsewhere(&self, object: Option<&ObjectRecord>, here: &str) -> Option<String> {
        let (others, object) = (self.others.as_ref()?, object?);
        let owner = cluster::owner_of(object).filter(|owner| *owner != here)?;
        let Some(presence) = others.get(owner) else { return Some(format!("node {} is down", self.shown_name(owner))) };
        let offline = object.components().find(|c| presence.groups.iter().any(|g| g.id == c.group && g.offline.is_some()))?;
        let group = self.groups.get(&offline.group).map_or_else(|| offline.group.to_string(), |g| g.name.clone());
        Some(format!("disk group {group} is offline"))
    }
    /// How far a copy is that is brought back into sync, as its object's owner says.
    fn resync_percent(&self, c: &ComponentRecord) -> Option<u8> {
        let own = self.stats.resyncs.get(&c.id).map(|done| super::presence::percent_of(*done, c.bytes));
        let said = || self.others.as_ref()?.values().find_map(|p| p.resyncs.get(&c.id).copied());
        if c.state == base::CopyState::Resyncing { own.or_else(said) } else { None }
    }
    /// How far the new layout of a volume is, as the volume's owner says, and when it said so.
    fn said_of_move(&self, volume: VolumeId) -> Option<(&MoveReport, u64)> {
        self.others.as_ref()?.values().find_map(|p| Some((p.moves.get(&volume)?, p.reported_unix_s)))
    }
    /// Seconds until a copy is in sync, as its object's owner says.
    fn resync_seconds_left(&self, c: &ComponentRecord) -> Option<u64> {
        let (seconds, at) = self.others.as_ref()?.values().find_map(|p| Some((*p.resync_seconds.get(&c.id)?, p.reported_unix_s)))?;
        (c.state == base::CopyState::Resyncing).then(|| seconds.saturating_sub(now_unix_s().saturating_sub(at)))
    }
    /// Whether a copy takes much longer for changes than the others, as its object's owner says.
    fn is_slow(&self, c: &ComponentRecord) -> bool {
        let said = || self.others.as_ref().is_some_and(|o| o.values().any(|p| p.slow_copies.contains(&c.id)));
        c.state == base::CopyState::Active && (self.stats.slow_copies.contains(&c.id) || said())
    }
    /// Why a copy that its volume goes by is not in sync, as far as that is known.
    fn why_out(&self, c: &ComponentRecord, pace: base::ResyncPace) -> Option<String> {
        if matches!(c.state, base::CopyState::Active | base::CopyState::Resyncing) || !c.is_used() {
            return None;
        }
        let failed = || {
            self.stats.failed_copies.contains(&c.id) || self.others.iter().flat_map(|o| o.values()).any(|p| p.failed_copies.contains(&c.id))
        };
        let (node, group) = (self.shown_name(&c.node), self.groups.get(&c.group).map_or_else(|| c.group.to_string(), |g| g.name.clone()));
        match self.others.as_ref().map(|others| others.get(&c.node)) {
            Some(None) => Some(format!("node {node} is down")),
            Some(Some(presence)) if presence.groups.iter().all(|g| g.id != c.group || g.offline.is_some()) => {
                Some(format!("disk group {group} is not open on {node}"))
            }
            _ if failed() => Some(format!("it fails or is too slow, though {node} answers; the log there says more; it is tried again")),
            _ if pace == base::ResyncPace::Paused => Some("the resync of the volume is paused".into()),
            _ => Some("it waits for its turn to get what it missed".into()),
        }
    }
    /// Bytes of a copy that are not known to be complete, while it is brought back into sync.
    fn resync_bytes_left(&self, c: &ComponentRecord) -> Option<u64> {
        let percent = self.resync_percent(c)?;
        let done = self.stats.resyncs.get(&c.id).copied().unwrap_or_else(|| c.bytes / 100 * u64::from(percent));
        Some(c.bytes.saturating_sub(done))
    }
    /// What a node is called that records name so.
    fn shown_name(&self, node: &str) -> String {
        self.nodes.get(node).map_or(node, |name| name).to_owned()
    }
}

/// A volume that is to be made.
pub(super) struct Planned {
    pub(super) volume: VolumeRecord,
    pub(super) object: ObjectRecord,
    policy: Versioned<PolicyRecord>,
    groups: Vec<Versioned<GroupRecord>>,
}

impl Planned {
    /// What is written before it is made. Who changes or deletes its policy meanwhile, or removes a disk group that it lies on, has not seen it: it
    /// has to look again.
    pub(super) fn intent(&self) -> Transaction {
        let (volume, id) = (&self.volume, self.volume.id());
        let intent = Transaction::new().create(volume).create(&self.object).take_name(Kind::Volume, &volume.name, &id).hold(&self.policy);
        let held = self.groups.iter().filter(|_| !hooks::seeded(SeededFault::PlaceNotHeld));
        held.fold(intent, |intent, group| intent.hold(group))
    }
}

impl Control {
    /// All volumes, by name.
    pub fn volumes(&self) -> Result<Vec<api::Volume>, Problem> {
        let shown = self.shown()?;
        let mut volumes: Vec<api::Volume> =
            self.directory.all::<VolumeRecord>()?.iter().filter(|v| v.place_of.is_none()).map(|v| self.show_volume(v, &shown)).collect();
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// One volume, by name or id.
    pub fn volume(&self, name: &str) -> Result<api::Volume, Problem> {
        let record = self.volume_record(name)?;
        Ok(self.show_volume(&record, &self.shown()?))
    }

    /// Makes a volume and attaches it.
    pub fn create_volume(&self, new: &api::NewVolume) -> Result<api::Volume, Problem> {
        let _devices = self.devices();
        cluster::check_name(&new.name)?;
        let bytes = given_size(new.bytes)?;
        let lba_bytes = new.lba_bytes.unwrap_or(4096);
        if !matches!(lba_bytes, 512 | 4096) {
            return Err(Problem::invalid(format!("logical blocks cannot have {lba_bytes} bytes"), "use 512 or 4096"));
        }
        let (_, volume) = self.decided(|| {
            if let Some(id) = self.directory.named(Kind::Volume, &new.name)? {
                // names are the same whatever their case
                let there = self.directory.find::<VolumeRecord>(&id)?;
                return Err(Problem::exists("volume", there.as_ref().map_or(&new.name, |v| &v.name)));
            }
            let attach_to = self.subsystem_for(new)?;
            let planned = self.planned(new, bytes, lba_bytes, attach_to)?;
            Ok((planned.intent(), planned))
        })?;
        self.own(&volume.object);
        let volume = volume.volume;
        let made = self.volume_record(&volume.id())?;
        if let Err(problem) = self.carry_through(made, Finish::Create) {
            self.failed(&volume.id(), problem)?;
        }
        self.apply()?;
        tracing::info!(volume = %volume.name, id = %volume.id, bytes, policy = %volume.policy, "volume created");
        self.volume(&volume.name)
    }

    /// The records of a volume that is to be made, with a place for each of its components. Nothing is written yet.
    pub(super) fn planned(&self, new: &api::NewVolume, bytes: u64, lba_bytes: u32, attach_to: Option<String>) -> Result<Planned, Problem> {
        if self.directory.list(Kind::Volume)?.len() >= VOLUMES_MAX {
            return Err(Problem::refused(format!("there are {VOLUMES_MAX} volumes already"), "delete some that are not needed"));
        }
        let policy = self.policy_record(new.policy.as_deref().unwrap_or(DEFAULT_NAME))?;
        if let Some(most) = new.grow_bytes_max.filter(|most| *most < bytes) {
            return Err(Problem::invalid(
                format!("a volume of {} cannot be laid out to grow to {}, which is less", ByteSize(bytes), ByteSize(most)),
                "leave that out, or give at least its size",
            ));
        }
        let bytes_max = new.grow_bytes_max.unwrap_or(bytes.saturating_mul(GROW_FACTOR)).max(bytes);
        let groups = self.directory.all::<GroupRecord>()?;
        let mut inventory = self.inventory()?;
        if let Some(domain) = &new.fault_domain {
            inventory = inventory.within(domain);
            if inventory.nodes.is_empty() {
                return Err(Problem::not_found("fault domain", domain, "node list"));
            }
        }
        let named = self.groups_named(&new.groups)?;
        let placement = cluster::place(&inventory.on(&named), &policy.policy, bytes, bytes_max)?;
        let (volume, object) = new_records(new, bytes, lba_bytes, &policy, attach_to, &placement);
        let volume = VolumeRecord { groups: named, ..volume };
        let groups = groups.into_iter().filter(|g| object.components().any(|c| c.group == g.id)).collect();
        Ok(Planned { volume, object, policy, groups })
    }

    /// A volume that was written as one to be made: its first term is this node's, if its components are.
    pub(super) fn own(&self, object: &ObjectRecord) {
        if object.components().all(|c| c.node == self.identity.node) {
            self.live().terms.insert(object.id, Ownership::FIRST.term);
        }
    }

    fn subsystem_for(&self, new: &api::NewVolume) -> Result<Option<String>, Problem> {
        match (&new.subsystem, new.detached) {
            (Some(_), true) => Err(Problem::invalid("a volume cannot be attached and detached at once", "leave out one of the two")),
            (None, true) => Ok(None),
            (Some(name), false) => Ok(Some(self.subsystem_record(name)?.value.nqn)),
            // somebody may have deleted the default subsystem: then there is nothing to attach to unless a subsystem is named
            (None, false) => match self.subsystem_record(DEFAULT_NAME) {
                Ok(subsystem) => Ok(Some(subsystem.value.nqn)),
                Err(problem) if problem.code == crate::Code::NotFound => Ok(None),
                Err(problem) => Err(problem),
            },
        }
    }

    /// From records to components to a volume that is ready. Also what finishes a creation that a crash has cut.
    pub(super) fn finish_create(&self, volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        self.finishing(volume, |volume| self.create_once(volume))
    }

    fn create_once(&self, mut volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        let mut object = self.object_of(&volume)?;
        self.make_components(&volume, &mut object.value)?;
        if object.components().any(|c| c.no.is_none()) {
            // The others are made by their nodes; who is last goes on.
            self.commit(Transaction::new().update(&object))?;
            return Ok(());
        }
        volume.value.stage = Stage::Ready;
        let attach_to = volume.value.attach_to.take();
        let mut outcome = Transaction::new().update(&object).update(&volume);
        let subsystem = attach_to.map(|nqn| self.directory.find::<SubsystemRecord>(&nqn)).transpose()?.flatten();
        if let Some(mut subsystem) = subsystem
            && !subsystem.namespaces.values().any(|n| n.volume == volume.id)
        {
            let nsid = super::subsystems::free_nsid(&subsystem)?;
            subsystem.value.namespaces.insert(nsid, NamespaceRecord::for_all(volume.id));
            outcome = outcome.update(&subsystem);
        }
        self.commit(outcome)?;
        Ok(())
    }

    /// Deletes a volume and all its data.
    pub fn delete_volume(&self, name: &str, force: bool) -> Result<(), Problem> {
        let _devices = self.devices();
        let sessions = if force { Vec::new() } else { self.sessions_everywhere()? };
        let (_, volume) = self.decided(|| {
            let volume = self.volume_record(name)?;
            refuse_if_connected(&volume, &self.attached_to(volume.id)?, &sessions)?;
            Ok((self.deletion(volume.clone())?, volume.value))
        })?;
        self.delete_intended(&volume)
    }

    pub(super) fn attached_to(&self, volume: VolumeId) -> Result<Vec<Versioned<SubsystemRecord>>, Problem> {
        let all = self.directory.all::<SubsystemRecord>()?;
        Ok(all.into_iter().filter(|s| s.namespaces.values().any(|n| n.volume == volume)).collect())
    }

    /// What is written before a volume is deleted: no subsystem shows it any more.
    pub(super) fn deletion(&self, mut volume: Versioned<VolumeRecord>) -> Result<Transaction, Problem> {
        volume.value.stage = Stage::Deleting;
        let mut intent = Transaction::new().update(&volume);
        for mut subsystem in self.attached_to(volume.id)? {
            subsystem.value.namespaces.retain(|_, n| n.volume != volume.id);
            intent = intent.update(&subsystem);
        }
        Ok(intent)
    }

    /// Deletes a volume that is written as one to be deleted, with all its data.
    pub(super) fn delete_intended(&self, volume: &VolumeRecord) -> Result<(), Problem> {
        let name = &volume.name;
        self.apply()?;
        // The node that has it may have done it by now.
        if let Some(volume) = self.directory.find::<VolumeRecord>(&volume.id())? {
            self.carry_through_or_note(volume, Finish::Delete)?;
        }
        self.live().stats = None;
        tracing::info!(volume = %name, id = %volume.id, "volume deleted");
        Ok(())
    }

    /// Removes the components, then the records. Also what finishes a deletion that a crash has cut.
    pub(super) fn finish_delete(&self, volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        self.finishing(volume, |volume| self.delete_once(volume))
    }

    fn delete_once(&self, volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        let object = self.directory.find::<ObjectRecord>(&volume.object.to_string())?;
        if let Some(object) = &object
            && self.delete_components(&volume, object)?
        {
            // The others are deleted by their nodes; who is last goes on.
            return Ok(());
        }
        let mut gone = Transaction::new().remove(&volume);
        if volume.place_of.is_none() {
            gone = self.freeing(gone, Kind::Volume, &volume.name)?;
        }
        let gone = self.removing::<ReservationRecord>(gone, &volume.id())?;
        self.commit(object.iter().fold(gone, |gone, object| gone.remove(object)))?;
        self.live().terms.remove(&volume.object);
        Ok(())
    }

    /// Deletes the components that are here, and forgets them if other nodes have some: whether they have.
    fn delete_components(&self, volume: &VolumeRecord, object: &Versioned<ObjectRecord>) -> Result<bool, Problem> {
        let here = |c: &ComponentRecord| c.node == self.identity.node;
        for (mirror, copy) in object.places() {
            let c = &object.mirrors[mirror][copy];
            match c.no {
                _ if !here(c) => {}
                Some(no) => self.delete_component(c.group, no)?,
                None => self.delete_half_made(c.group, component_spec(volume, object, mirror, copy))?,
            }
        }
        if object.components().all(here) {
            return Ok(false);
        }
        let mut left = object.clone();
        left.value.mirrors.iter_mut().for_each(|copies| copies.retain(|c| !here(c)));
        self.commit(Transaction::new().update(&left))?;
        Ok(true)
    }

    /// Whether a component was made before the crash is not known: making is idempotent, so make it and delete it.
    pub(super) fn delete_half_made(&self, group: GroupId, spec: ComponentSpec) -> Result<(), Problem> {
        match self.create_component(group, ComponentSpec { reserve_chunks: 0, ..spec }) {
            Ok(no) => Ok(self.delete_component(group, no)?),
            // no room for it: then it was not made
            Err(PlaneError::NoSpace { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a volume another size.
    pub fn resize_volume(&self, name: &str, resize: &api::Resize) -> Result<api::Volume, Problem> {
        let _devices = self.devices();
        let bytes = given_size(resize.bytes)?;
        self.refuse_if_down(&*self.settled(name)?)?;
        let (_, (id, changed)) = self.decided(|| {
            let mut volume = self.quiet_volume(name)?;
            if bytes < volume.bytes && !resize.force {
                return Err(Problem::refused(
                    format!(
                        "volume {} has {}; making it {} would cut off what lies behind",
                        volume.name,
                        ByteSize(volume.bytes),
                        ByteSize(bytes)
                    ),
                    "shrink the file system on it first, then 'basalt volume shrink --force'",
                ));
            }
            if bytes == volume.bytes {
                return Ok((Transaction::new(), (volume.id(), false)));
            }
            let most = grow_bytes_max(&*self.object_of(&volume)?);
            if bytes > most {
                return Err(Problem::refused(
                    format!("volume {} can grow in place to {}, not to {}", volume.name, ByteSize(most), ByteSize(bytes)),
                    "make a new volume with --grow-max and copy the data",
                ));
            }
            volume.value.resize_to = Some(bytes);
            Ok((Transaction::new().update(&volume), (volume.id(), true)))
        })?;
        if changed {
            self.try_resize(self.volume_record(&id)?)?;
        }
        // Also when it has this size: the change may be durable and not served.
        self.apply()?;
        self.volume(&id)
    }

    /// Whether a volume has the size that it gets when so many bytes are asked for. One that is gone has not.
    pub(crate) fn has_size(&self, name: &str, bytes: u64) -> Result<bool, Problem> {
        let bytes = volume_size(bytes)?;
        match self.resolve::<VolumeRecord>(Kind::Volume, name, "volume", "volume list") {
            Ok(volume) => Ok(volume.bytes == bytes),
            Err(problem) if problem.code == crate::Code::NotFound => Ok(false),
            Err(problem) => Err(problem),
        }
    }

    /// A resize that fails is taken back, and with it another policy, so that it is not tried for ever.
    fn try_resize(&self, volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        let id = volume.id();
        self.carry_through(volume, Finish::Resize).or_else(|problem| self.failed(&id, problem))
    }

    /// Brings size and reservation of all components in line with the volume's size and policy. Growing: first the components, then
    /// the volume; shrinking: first the volume, so that no host reaches behind, then what lies behind is freed, so that growing again shows zeroes.
    pub(super) fn finish_resize(&self, volume: Versioned<VolumeRecord>) -> Result<bool, Problem> {
        self.finishing(volume, |volume| self.resize_once(volume))
    }

    fn resize_once(&self, mut volume: Versioned<VolumeRecord>) -> Result<bool, Problem> {
        let resizing = volume.resize_to.is_some();
        let bytes = volume.resize_to.unwrap_or(volume.bytes);
        let percent = self.policy_record(&volume.policy)?.policy.space_reservation_percent;
        let mut object = self.object_of(&volume)?;
        if cluster::owner_of(&object).is_none_or(|owner| owner == self.identity.node) {
            if bytes < volume.bytes {
                volume.value.bytes = bytes;
                self.commit(Transaction::new().update(&volume))?;
                volume = self.again::<VolumeRecord>(&volume.id())?;
            }
            if resizing {
                self.free_behind(&volume, &object)?;
            }
        }
        let sized = VolumeRecord { bytes, ..volume.value.clone() };
        let changed = self.update_components(&sized, &mut object.value, bytes, percent)?;
        let outcome = Transaction::new().update(&object);
        if object.components().all(|c| cluster::is_sized(c, &volume, &object, Some(percent))) {
            (volume.value.bytes, volume.value.resize_to, volume.value.policy_before) = (bytes, None, None);
            self.commit(outcome.update(&volume))?;
        } else {
            // The others are changed by their nodes; who is last goes on.
            self.commit(outcome)?;
        }
        Ok(changed)
    }

    /// Frees what the components hold behind the end of a volume as it is served. At a start nothing is served yet, so it is served before.
    pub(super) fn free_behind(&self, volume: &VolumeRecord, object: &ObjectRecord) -> Result<(), Problem> {
        self.apply()?;
        if let Some(reason) = self.live().out_of_reach(volume.id) {
            return Err(Problem::new(
                crate::Code::Unavailable,
                format!("nothing of volume {} can be freed: {reason}", volume.name),
                "'basalt status' says what holds it up",
            ));
        }
        let reached = object.components().map(|c| c.bytes).max().unwrap_or(0);
        Ok(self.plane.free_behind(volume.id, reached.saturating_mul(object.mirrors.len() as u64))?)
    }

    /// Gives the components that are here another size and reservation. Whether the size is another one.
    pub(super) fn update_components(
        &self,
        volume: &VolumeRecord,
        object: &mut ObjectRecord,
        bytes: u64,
        percent: u8,
    ) -> Result<bool, Problem> {
        let component_bytes = cluster::component_bytes(bytes, object.mirrors.len());
        let mut changed = false;
        for (mirror, copy) in object.places() {
            let c = &mut object.mirrors[mirror][copy];
            if c.node != self.identity.node {
                continue;
            }
            changed |= c.bytes != component_bytes;
            c.bytes = component_bytes;
            c.reserve_chunks = cluster::reserve_chunks(component_bytes, percent);
            let (group, Some(no)) = (c.group, c.no) else { continue };
            self.plane.update_component(group, ComponentNo(no), component_spec(volume, object, mirror, copy))?;
        }
        Ok(changed)
    }

    /// Changes name, policy or whether it is read-only.
    pub fn change_volume(&self, name: &str, change: &api::VolumeChange) -> Result<api::Volume, Problem> {
        // What a policy reserves is kept on the devices.
        let devices = change.policy.is_some().then(|| self.devices());
        let mut before = None;
        if let Some(policy) = &change.policy {
            // First: it may not fit, and then nothing is changed.
            let volume = self.settled(name)?;
            let id = volume.id();
            self.refuse_if_down(&volume)?;
            self.changed_volume(volume, change)?;
            // The request is decided when all of it is: until then it can be begun anew.
            before = request::undecided(|| self.follow(&id, policy))?.map(|policy| (id, policy));
        }
        let changed = self.decided(|| self.changed_volume(self.ready_volume(name)?, change));
        let (at, id) = match (changed, before) {
            (Ok(changed), _) => changed,
            // Somebody has taken the name meanwhile, say.
            (Err(problem), Some((id, policy))) => {
                request::undecided(|| self.follow(&id, &policy))?;
                self.apply()?;
                return Err(problem);
            }
            (Err(problem), None) => return Err(problem),
        };
        self.serve(at)?;
        drop(devices);
        if change.read_only.is_some() {
            self.confirm(self.ready_volume(&id)?.value.id)?;
        }
        self.volume(&id)
    }

    /// A volume with another name and protection, and its id.
    fn changed_volume(&self, mut volume: Versioned<VolumeRecord>, change: &api::VolumeChange) -> Result<(Transaction, String), Problem> {
        let (id, mut intent) = (volume.id(), Transaction::new());
        if let Some(new) = change.name.as_deref().filter(|n| *n != volume.name) {
            cluster::check_name(new)?;
            if new.eq_ignore_ascii_case(&volume.name) {
                let held = HeldName::find(&*self.directory, Kind::Volume, new)?;
                intent = held.map_or(Transaction::new(), |held| Transaction::new().retake_name(&held, &id));
            } else {
                if self.directory.named(Kind::Volume, new)?.is_some() {
                    return Err(Problem::exists("volume", new));
                }
                intent = self.freeing(intent, Kind::Volume, &volume.name)?.take_name(Kind::Volume, new, &id);
            }
            volume.value.name = new.to_owned();
        }
        if let Some(read_only) = change.read_only {
            if volume.write_protect == WriteProtect::Permanent && !read_only {
                return Err(Problem::refused(
                    format!("volume {} was write protected for good by one of its hosts", volume.name),
                    "make a new volume; this one can only be read, or deleted",
                ));
            }
            if read_only != volume.write_protect.is_on() {
                volume.value.write_protect = if read_only { WriteProtect::Protected } else { WriteProtect::None };
            }
        }
        if let Some(owner) = &change.preferred_owner {
            volume.value.preferred_owner = self.preferred_owner(&volume, owner)?;
        }
        if let Some(pace) = change.resync {
            volume.value.resync = pace.into();
        }
        if let Some(groups) = &change.groups {
            volume.value.groups = self.groups_named(groups)?;
            intent = self.can_lie_there(&volume, intent)?;
        }
        Ok((intent.update(&volume), id))
    }

    /// Disk groups by their names; none: whichever.
    fn groups_named(&self, names: &[String]) -> Result<BTreeSet<GroupId>, Problem> {
        if names == [api::ANY_GROUP] {
            return Ok(BTreeSet::new());
        }
        names.iter().map(|name| Ok(self.group_record(name)?.id)).collect()
    }
    /// A volume is to lie on its disk groups: there has to be room for it.
    fn can_lie_there(&self, volume: &VolumeRecord, intent: Transaction) -> Result<Transaction, Problem> {
        let (object, policy) = (self.object_of(volume)?, self.policy_record(&volume.policy)?);
        let lies = object.used().all(|c| volume.groups.is_empty() || volume.groups.contains(&c.group));
        if !lies && self.new_layout(&policy.policy, volume, &object)?.is_none() {
            return Err(Problem::refused(
                format!("volume {} cannot lie on these disk groups now", volume.name),
                "'basalt group list' shows which are online, and how much room they have",
            ));
        }
        // Whoever removes one of them has not seen this volume.
        let groups = self.directory.all::<GroupRecord>()?;
        Ok(groups.iter().filter(|g| volume.groups.contains(&g.id)).fold(intent, |intent, group| intent.hold(group)))
    }

    /// The node that is to own a volume, as records name it.
    fn preferred_owner(&self, volume: &VolumeRecord, name: &str) -> Result<Option<String>, Problem> {
        if name == api::ANY_OWNER {
            return Ok(None);
        }
        let node = self.node_called(name)?.value.name;
        if self.object_of(volume)?.used().all(|c| c.node != node) {
            return Err(Problem::refused(
                format!("node {name} has no copy of volume {}", volume.name),
                format!("'basalt volume show {}' says which nodes have one", volume.name),
            ));
        }
        Ok(Some(node))
    }

    /// Gives a volume a policy, and what that reserves; gives the policy that it had, if that was another one. A reservation that does not fit
    /// leaves it that.
    fn follow(&self, id: &str, policy: &str) -> Result<Option<String>, Problem> {
        let (_, before) = self.decided(|| {
            let (mut volume, policy) = (self.quiet_volume(id)?, self.policy_record(policy)?);
            self.refuse_other_layout(&volume, &policy)?;
            if policy.id() == volume.policy {
                return Ok((Transaction::new(), None));
            }
            let before = core::mem::replace(&mut volume.value.policy, policy.id());
            // finish_resize brings the reservation in line, also after a crash
            volume.value.resize_to = Some(volume.bytes);
            volume.value.policy_before = Some(before.clone());
            // Who changes or deletes the policy meanwhile has not seen this volume: it has to look again.
            Ok((Transaction::new().hold(&policy).update(&volume), Some(before)))
        })?;
        if before.is_some() {
            self.try_resize(self.volume_record(id)?)?;
        }
        // What cannot be decided now, the leader looks at again.
        if let Err(problem) = self.adapt_copies(id, &BTreeSet::new()) {
            tracing::info!(volume = id, error = %problem.message, "the volume gets the copies that its policy asks for later");
        }
        Ok(before)
    }

    /// A policy that asks for another layout cannot be given to a volume that lies already, unless it takes what is possible.
    pub(super) fn refuse_other_layout(&self, volume: &VolumeRecord, policy: &PolicyRecord) -> Result<(), Problem> {
        let object = self.object_of(volume)?;
        let mut missing = cluster::compliance(&policy.policy, &object.layout(), &self.inventory()?);
        missing.retain(|s| !matches!(s, Shortfall::Reservation { .. }));
        let more_copies = missing.iter().any(|s| matches!(s, Shortfall::FaultDomains { .. }));
        if more_copies && !policy.policy.force_provisioning {
            // There has to be a place for them.
            self.copies_change(volume, &object, &policy.policy, &BTreeSet::new()).map_err(|why| Problem {
                message: format!("volume {} cannot follow policy {}: {}", volume.name, policy.name, why.message),
                ..why
            })?;
            missing.retain(|s| !matches!(s, Shortfall::FaultDomains { .. }));
        }
        if missing.iter().any(|s| matches!(s, Shortfall::StripeWidth { .. })) && !policy.policy.force_provisioning {
            // There has to be a place for it.
            let layout = self.new_layout(&policy.policy, volume, &object).map_err(|why| Problem {
                message: format!("volume {} cannot follow policy {}: {}", volume.name, policy.name, why.message),
                ..why
            })?;
            missing.retain(|s| !matches!(s, Shortfall::StripeWidth { .. }) || layout.is_none());
        }
        if missing.is_empty() || policy.policy.force_provisioning {
            return Ok(());
        }
        let words: Vec<String> = missing.iter().map(ToString::to_string).collect();
        Err(Problem::new(
            crate::Code::PolicyNotPossible,
            format!("volume {} cannot follow policy {} where it lies: {}", volume.name, policy.name, words.join("; ")),
            "make a new volume with that policy and copy the data, or use a policy with force provisioning",
        ))
    }

    pub(super) fn volume_record(&self, name: &str) -> Result<Versioned<VolumeRecord>, Problem> {
        self.resolve(Kind::Volume, name, "volume", "volume list")
    }

    pub(super) fn ready_volume(&self, name: &str) -> Result<Versioned<VolumeRecord>, Problem> {
        let volume = self.volume_record(name)?;
        if volume.stage != Stage::Ready {
            let doing = if volume.stage == Stage::Creating { "made" } else { "deleted" };
            return Err(Problem::new(
                crate::Code::Unavailable,
                format!("volume {} is being {doing}", volume.name),
                "'basalt status' says what holds it up",
            ));
        }
        Ok(volume)
    }

    /// One with which nothing is under way.
    fn quiet_volume(&self, name: &str) -> Result<Versioned<VolumeRecord>, Problem> {
        let volume = self.ready_volume(name)?;
        if volume.is_under_way() {
            return Err(Problem::new(
                crate::Code::Unavailable,
                format!("volume {} is just being resized or formatted", volume.name),
                "try again when that is done",
            ));
        }
        Ok(volume)
    }

    pub(super) fn object_of(&self, volume: &VolumeRecord) -> Result<Versioned<ObjectRecord>, Problem> {
        self.directory.find(&volume.object.to_string())?.ok_or_else(|| {
            Problem::new(
                crate::Code::Internal,
                format!("the layout of volume {} is missing in the directory", volume.name),
                "put back a copy of the directory",
            )
        })
    }

    fn shown(&self) -> Result<Shown, Problem> {
        Ok(Shown {
            inventory: self.inventory()?,
            stats: self.stats()?,
            groups: self.directory.all::<GroupRecord>()?.into_iter().map(|g| (g.value.id, g.value)).collect(),
            nodes: self.directory.all::<NodeRecord>()?.iter().map(|n| (n.name.clone(), n.shown_name().to_owned())).collect(),
            policies: self.directory.all::<PolicyRecord>()?.into_iter().map(|p| (p.value.id(), p.value)).collect(),
            objects: self.directory.all::<ObjectRecord>()?.into_iter().map(|o| (o.value.id, o.value)).collect(),
            subsystems: self.directory.all::<SubsystemRecord>()?.into_iter().map(|s| s.value).collect(),
            reservations: self.reservations()?,
            others: if self.is_alone() { None } else { Some(self.presences()?) },
        })
    }

    fn show_volume(&self, volume: &VolumeRecord, shown: &Shown) -> api::Volume {
        let object = shown.objects.get(&volume.object);
        let components = object.map(|o| show_components(volume, o, shown)).unwrap_or_default();
        let policy = shown.policies.get(&volume.policy);
        let shortfalls: Vec<String> = match (policy, object) {
            (Some(p), Some(o)) => cluster::compliance(&p.policy, &o.layout(), &shown.inventory).iter().map(ToString::to_string).collect(),
            (None, _) => vec![format!("its policy {} is missing", volume.policy)],
            (_, None) => vec!["its layout is missing".into()],
        };
        let waits = object.filter(|o| o.change.restored).map(|_| super::layout::reason(cluster::NotServed::Restored, &BTreeMap::new()));
        let known = || self.live().offline.get(&volume.id).cloned();
        let reason = waits.or_else(known).or_else(|| shown.reason_elsewhere(object, &self.identity.node));
        let state = match (volume.stage, &reason) {
            (Stage::Creating, _) => api::VolumeState::Creating,
            (Stage::Deleting, _) => api::VolumeState::Deleting,
            (Stage::Ready, Some(_)) => api::VolumeState::Offline,
            (Stage::Ready, None) => api::VolumeState::Online,
        };
        let attachments = shown.subsystems.iter().flat_map(|s| {
            let here = s.namespaces.iter().filter(|(_, n)| n.volume == volume.id);
            here.map(|(nsid, _)| api::Attachment { nqn: s.nqn.clone(), subsystem: s.name.clone(), nsid: *nsid })
        });
        api::Volume {
            id: volume.id.to_string(),
            name: volume.name.clone(),
            bytes: volume.bytes,
            used_bytes: components.iter().map(|c| c.used_bytes).sum(),
            reserved_bytes: components.iter().map(|c| c.reserved_bytes).sum(),
            grow_bytes_max: object.map_or(volume.bytes, grow_bytes_max),
            lba_bytes: volume.lba_bytes,
            policy: policy.map_or(volume.policy.clone(), |p| p.name.clone()),
            compliant: shortfalls.is_empty(),
            shortfalls,
            copies: policy.map_or(1, |p| p.policy.copies() as u32),
            copies_in_sync: object.map_or(0, copies_in_sync),
            state,
            reason,
            read_only: volume.write_protect.is_on(),
            attachments: attachments.collect(),
            reservation: shown.reservations.get(&volume.id).and_then(|r| super::reservations::show(r)),
            object: volume.object.to_string(),
            epoch: object.map_or(0, |object| object.ownership.epoch.0),
            owner: object.and_then(cluster::owner_of).map(|owner| shown.shown_name(owner)),
            preferred_owner: volume.preferred_owner.as_deref().map(|owner| shown.shown_name(owner)),
            resync: volume.resync.into(),
            moving: self.show_move(volume, shown.said_of_move(volume.id)),
            groups: volume.groups.iter().map(|id| shown.groups.get(id).map_or_else(|| id.to_string(), |g| g.name.clone())).collect(),
            components,
            created_unix_s: volume.created_unix_s,
        }
    }
}

fn refuse_if_connected(volume: &VolumeRecord, attached: &[Versioned<SubsystemRecord>], sessions: &[api::Session]) -> Result<(), Problem> {
    for subsystem in attached {
        if let Some(session) = sessions.iter().find(|s| s.subsystem_nqn == subsystem.nqn) {
            return Err(Problem::refused(
                format!(
                    "volume {} is attached to subsystem {}, to which host {} is connected",
                    volume.name, subsystem.name, session.host_nqn
                ),
                format!("unmount it there, then 'basalt subsystem detach {} {}'; or delete it with --force", subsystem.name, volume.name),
            ));
        }
    }
    Ok(())
}

/// The records of a volume with this placement.
fn new_records(
    new: &api::NewVolume,
    bytes: u64,
    lba_bytes: u32,
    policy: &PolicyRecord,
    attach_to: Option<String>,
    placement: &Placement,
) -> (VolumeRecord, ObjectRecord) {
    let (id, object) = (VolumeId::from_random(random()), ObjectId::from_random(random()));
    let planned = VolumeRecord::planned(id, new.name.clone(), bytes, policy.id(), object, now_unix_s());
    let volume = VolumeRecord { lba_bytes, attach_to, stripe_width: Some(policy.policy.stripe_width), ..planned };
    let object = ObjectRecord::planned(object, id, &placement.layout, |_, _| ComponentId::from_random(random()));
    (volume, object)
}

fn show_components(volume: &VolumeRecord, object: &ObjectRecord, shown: &Shown) -> Vec<api::Component> {
    let mut components = Vec::new();
    for (m, mirror) in object.mirrors.iter().enumerate() {
        for (copy, c) in mirror.iter().enumerate() {
            let group = shown.groups.get(&c.group);
            let device = group.and_then(|g| g.capacity.get(c.capacity_index as usize));
            let figures = shown.stats.groups.iter().find(|f| f.group == c.group);
            components.push(api::Component {
                id: c.id.to_string(),
                stripe: m as u32,
                copy: copy as u32,
                resync_percent: shown.resync_percent(c),
                resync_seconds_left: shown.resync_seconds_left(c),
                resync_bytes_left: shown.resync_bytes_left(c),
                reason: shown.why_out(c, volume.resync),
                slow: shown.is_slow(c),
                state: state_of(c),
                node: shown.shown_name(&c.node),
                group: group.map_or_else(|| c.group.to_string(), |g| g.name.clone()),
                device: device.map_or("?", |d| d.path().unwrap_or("memory")).to_owned(),
                bytes: c.bytes,
                used_bytes: figures.zip(c.no).map(|(f, no)| f.components.get(&no).copied().unwrap_or(0)),
                reserved_bytes: c.reserved_bytes(),
            });
        }
    }
    components
}

/// Of the mirror that has the fewest: copies in sync.
fn copies_in_sync(object: &ObjectRecord) -> u32 {
    let in_sync =
        |mirror: &Vec<ComponentRecord>| mirror.iter().filter(|c| c.is_used() && c.state == base::CopyState::Active).count() as u32;
    object.mirrors.iter().map(in_sync).min().unwrap_or(0)
}

/// How a component is, in a word.
pub(super) fn state_of(c: &ComponentRecord) -> String {
    match c.is_used() {
        _ if c.leaving => "leaving".into(),
        false if c.state == base::CopyState::Absent => "planned".into(),
        _ => serde_json::to_value(c.state).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default(),
    }
}

/// How far a volume with this layout can grow: until its components are of the largest size.
fn grow_bytes_max(object: &ObjectRecord) -> u64 {
    (object.mirrors.len() as u64 * COMPONENT_BYTES_MAX).min(VOLUME_BYTES_MAX)
}

/// A size that an administrator has given, in whole pieces. One that is smaller than the smallest is a slip, not a request for the smallest.
pub(super) fn given_size(bytes: u64) -> Result<u64, Problem> {
    if bytes < PIECE_BYTES {
        return Err(Problem::invalid(
            format!("a volume cannot have {}; the smallest has {}", ByteSize(bytes), ByteSize(PIECE_BYTES)),
            format!("give a size between 1 MiB and {}", ByteSize(VOLUME_BYTES_MAX)),
        ));
    }
    volume_size(bytes)
}

/// A size in whole pieces, within the limits.
pub(super) fn volume_size(bytes: u64) -> Result<u64, Problem> {
    let rounded = bytes.checked_next_multiple_of(PIECE_BYTES).filter(|b| (PIECE_BYTES..=VOLUME_BYTES_MAX).contains(b));
    rounded.ok_or_else(|| {
        Problem::invalid(
            format!("a volume cannot have {}", ByteSize(bytes)),
            format!("give a size between 1 MiB and {}", ByteSize(VOLUME_BYTES_MAX)),
        )
    })
}

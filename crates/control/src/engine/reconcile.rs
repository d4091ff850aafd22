//! Carrying out what `cluster::reconcile` decides for this node: opening groups, noting what was found, finishing what a crash has left.
//!
//! Invariants: each action is idempotent, and a compare-and-swap that is tried again where it changes a record; an action is tried once a pass;
//! a component that no record names is reported and left alone.
//! Never: decides what is to be done.

use super::outcome::{task_id, word};
use super::*;
use base::{ComponentId, VolumeId};
use cluster::{Action, Finish, GroupSeen, Observed};
use dataplane::{ComponentInfo, ComponentNo, ComponentSpec, component_spec, format_spec};
use directory::carry_out::Outcome;
use format::disk::Descriptor;
use std::collections::BTreeSet;

/// Rounds of decisions in one pass: opening, noting, finishing, and what that makes necessary.
const ROUNDS_MAX: u32 = 16;

impl Control {
    /// Does everything that there is to do for this node, as far as it can be done now. Says whether anything was done.
    pub(super) fn work(&self) -> Result<bool, DirectoryError> {
        let (mut tried, mut worked) = (BTreeSet::new(), false);
        for _ in 0..ROUNDS_MAX {
            let (records, _) = self.records()?;
            let actions = cluster::reconcile(&records, &self.observed(&records));
            let new: Vec<Action> = actions.into_iter().filter(|a| tried.insert(a.clone())).collect();
            if new.is_empty() {
                break;
            }
            for action in &new {
                tracing::debug!(?action, "to be done");
                worked |= self.carry_out(action)?;
            }
        }
        Ok(worked)
    }

    /// What is known of this node.
    pub(super) fn observed(&self, records: &cluster::Records) -> Observed {
        let live = self.live();
        let seen = |state: &GroupLive| match state {
            GroupLive::Online(components) => GroupSeen::Open(components.clone()),
            GroupLive::Offline(_) => GroupSeen::Offline,
        };
        let groups: BTreeMap<GroupId, GroupSeen> = live.groups.iter().map(|(id, state)| (*id, seen(state))).collect();
        // Asked only where something is to be said: nothing of it changes meanwhile.
        let is_to_say = |o: &ObjectRecord| o.change.restored && !o.heard.nodes.contains(&self.identity.node);
        let open = groups.iter().filter(|(_, seen)| matches!(seen, GroupSeen::Open(_))).map(|(id, _)| *id);
        let open: Vec<GroupId> = if records.objects.iter().any(is_to_say) { open.collect() } else { Vec::new() };
        let copies = open.into_iter().filter_map(|id| Some((id, self.plane.copies_seen(id).ok()?))).collect();
        Observed {
            node: self.identity.node.clone(),
            restarted: live.restarted.clone(),
            terms: live.terms.clone(),
            groups,
            copies,
            forwards: live.links.open_to(&records.nodes),
            away: live.away.clone(),
        }
    }

    fn carry_out(&self, action: &Action) -> Result<bool, DirectoryError> {
        match directory::carry_out(&*self.directory, action, |t| self.commit(t))? {
            Outcome::Changed(changed) => {
                if let Action::EndReservation(volume) = action {
                    tracing::info!(%volume, "a reservation that does not persist through power loss is gone");
                }
                return Ok(changed);
            }
            Outcome::Begun(begun) => {
                let any = !begun.is_empty();
                self.live().terms.extend(begun);
                return Ok(any);
            }
            Outcome::NotHere => {}
        }
        match action {
            Action::OpenGroup(id) => self.with_group(*id, |group| self.open(&group)),
            Action::RemakeGroup(id) => self.with_group(*id, |group| self.remake(&group)),
            Action::ForgetGroup(id) => self.with_group(*id, |group| self.finish_forgetting(group)),
            Action::Finish(id, what) => self.finish(*id, *what),
            other => unreachable!("{other:?} changes records only"),
        }
    }

    fn with_group(
        &self,
        id: GroupId,
        then: impl FnOnce(Versioned<GroupRecord>) -> Result<bool, DirectoryError>,
    ) -> Result<bool, DirectoryError> {
        self.directory.find::<GroupRecord>(&id.to_string())?.map_or(Ok(false), then)
    }

    pub(super) fn open(&self, group: &GroupRecord) -> Result<bool, DirectoryError> {
        let state = match self.plane.open_group(self.directory.cluster(), group.id, &self.opened_devices(group)?) {
            Ok(found) => {
                tracing::info!(group = %group.name, components = found.len(), "disk group opened");
                self.note_orphans(group, &found)?;
                GroupLive::Online(found.iter().map(|f| (f.id, f.no.0)).collect())
            }
            Err(error) => {
                tracing::error!(group = %group.name, %error, "disk group cannot be opened");
                GroupLive::Offline(error.to_string())
            }
        };
        self.live().groups.insert(group.id, state);
        Ok(true)
    }

    /// A group in memory is empty after a restart: it is made anew.
    fn remake(&self, group: &GroupRecord) -> Result<bool, DirectoryError> {
        tracing::warn!(group = %group.name, "this disk group has devices in memory: what it held before the restart is gone");
        let state = match self.format(group, CacheFile::Sparse, true) {
            Ok(()) => GroupLive::Online(BTreeMap::new()),
            Err(error) => {
                tracing::error!(group = %group.name, %error, "disk group cannot be made anew");
                GroupLive::Offline(error.to_string())
            }
        };
        self.live().groups.insert(group.id, state);
        Ok(true)
    }

    fn note_orphans(&self, group: &GroupRecord, found: &[ComponentInfo]) -> Result<(), DirectoryError> {
        let objects = self.directory.all::<ObjectRecord>()?;
        let known: BTreeSet<ComponentId> = objects.iter().flat_map(|o| o.components()).map(|c| c.id).collect();
        let orphans = found.iter().filter(|f| !known.contains(&f.id)).map(|f| Orphan {
            group: group.name.clone(),
            component: f.id,
            bytes: f.bytes,
            of: Descriptor::parse(&f.descriptor),
        });
        let mut live = self.live();
        live.orphans.retain(|o| o.group != group.name);
        live.orphans.extend(orphans);
        Ok(())
    }

    /// Makes a group on its devices.
    pub(super) fn format(&self, group: &GroupRecord, file: CacheFile, force: bool) -> Result<(), PlaneError> {
        let spec = format_spec(self.directory.cluster(), group, force);
        self.plane.format_group(spec, &group.cache, file, &group.capacity)
    }

    /// A crash came while the group was made and it is not whole, or while it was removed: nothing that anybody knows of is on it.
    fn finish_forgetting(&self, group: Versioned<GroupRecord>) -> Result<bool, DirectoryError> {
        if group.stage == Stage::Creating {
            tracing::warn!(group = %group.name, "making this disk group was interrupted; make it again with 'basalt group create --force'");
        }
        let online = self.live().groups.get(&group.id).is_some_and(GroupLive::is_online);
        if online && let Err(error) = self.plane.close_group(group.id) {
            tracing::warn!(group = %group.name, %error, "disk group cannot be closed yet; it is forgotten when it can");
            return Ok(false);
        }
        self.forget_group(group)?;
        Ok(true)
    }

    pub(super) fn forget_group(&self, group: Versioned<GroupRecord>) -> Result<(), DirectoryError> {
        self.commit(self.freeing(Transaction::new().remove(&group), Kind::Group, &group.name)?)?;
        self.live().groups.remove(&group.id);
        Ok(())
    }

    /// Finishes a volume that is half made, half resized, half formatted or half deleted. Says whether that went well.
    fn finish(&self, id: VolumeId, what: Finish) -> Result<bool, DirectoryError> {
        let Some(volume) = self.directory.find::<VolumeRecord>(&id.to_string())? else { return Ok(false) };
        let name = volume.name.clone();
        let (word, tried) = (word(what), volume.revision);
        // What is deleted must not be served any more, also when another node has decided that.
        let shown = what == Finish::Delete && self.live().generation > 0;
        let served = if shown { self.serve(tried) } else { Ok(()) };
        if let Err(problem) = served.and_then(|()| self.finish_here(volume, what)) {
            self.note_task(task_id(id, what), format!("{word} volume {name}"), &problem, tried)?;
            return Ok(false);
        }
        tracing::info!(volume = %name, what = word, "unfinished work is finished");
        let tasks = match what {
            // Whatever could not be done with it before.
            Finish::Delete => cluster::TASK_WORDS.map(|word| format!("{word}-volume/{id}")).to_vec(),
            _ => vec![task_id(id, what)],
        };
        let decide = || {
            let gone = |t, task: &String| self.removing::<TaskRecord>(t, task);
            Ok((tasks.iter().try_fold(Transaction::new(), gone)?, true))
        };
        directory::change(decide, |t| self.commit(t)).map(|(_, done)| done)
    }

    /// Takes a step of a volume, and takes it again with what is there then when another writer was faster. Steps are idempotent.
    pub(super) fn finishing<T>(
        &self,
        mut volume: Versioned<VolumeRecord>,
        step: impl Fn(Versioned<VolumeRecord>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let id = volume.id();
        for _ in 1..CONFLICT_ATTEMPTS_MAX {
            match step(volume) {
                Err(problem) if problem.code == crate::Code::Conflict => volume = self.again(&id)?,
                result => return result,
            }
        }
        step(volume)
    }

    /// Remembers that something could not be finished.
    pub(super) fn note_task(&self, id: String, what: String, problem: &Problem, tried: Revision) -> Result<(), DirectoryError> {
        request::outside(|| self.note_task_here(id, what, problem, tried))
    }

    fn note_task_here(&self, id: String, what: String, problem: &Problem, tried: Revision) -> Result<(), DirectoryError> {
        tracing::warn!(what, error = %problem.message, "cannot be finished yet; will be tried again");
        let decide = || {
            let old = self.directory.find::<TaskRecord>(&id)?;
            let attempts = old.as_ref().map_or(0, |t| t.attempts) + 1;
            let (id, what, error, node) = (id.clone(), what.clone(), problem.message.clone(), self.identity.node.clone());
            let why = match problem.code {
                crate::Code::NoSpace | crate::Code::PolicyNotPossible => TaskError::NoSpace,
                crate::Code::Internal => TaskError::Failed,
                _ => TaskError::NotNow,
            };
            let task = TaskRecord { id, what, error, why, node, tried: tried.0, attempts, last_unix_s: now_unix_s() };
            let noted = match old {
                Some(old) => Transaction::new().update(&Versioned { revision: old.revision, value: task }),
                None => Transaction::new().create(&task),
            };
            Ok::<_, DirectoryError>((noted, ()))
        };
        directory::change(decide, |t| self.commit(t)).map(drop)
    }

    /// Makes a component, and knows of it.
    pub(super) fn create_component(&self, group: GroupId, spec: ComponentSpec) -> Result<u32, PlaneError> {
        let id = spec.id;
        let no = self.plane.create_component(group, spec)?;
        if let Some(GroupLive::Online(components)) = self.live().groups.get_mut(&group) {
            components.insert(id, no.0);
        }
        Ok(no.0)
    }

    /// Deletes a component, and knows that it is gone.
    pub(super) fn delete_component(&self, group: GroupId, no: u32) -> Result<(), PlaneError> {
        self.plane.delete_component(group, ComponentNo(no))?;
        if let Some(GroupLive::Online(components)) = self.live().groups.get_mut(&group) {
            components.retain(|_, there| *there != no);
        }
        Ok(())
    }

    /// Makes every component of this node that is not made yet; idempotent.
    pub(super) fn make_components(&self, volume: &VolumeRecord, object: &mut ObjectRecord) -> Result<(), Problem> {
        for (mirror, copy) in object.places() {
            let c = &object.mirrors[mirror][copy];
            if c.node == self.identity.node && c.no.is_none() {
                let spec = component_spec(volume, object, mirror, copy);
                let no = self.create_component(object.mirrors[mirror][copy].group, spec)?;
                object.mirrors[mirror][copy].no = Some(no);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;

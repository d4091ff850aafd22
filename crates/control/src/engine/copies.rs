//! Copies of volumes that hosts use: as many as their policies ask for, made and deleted by the nodes that have them.
//!
//! ```text
//!  the leader decides which (cluster::copies_change) ─► each node makes its own, deletes those that leave ─► their owner brings them into sync
//! ```
//!
//! Invariants: a component is deleted only when this node does not serve it any more; what cannot be decided now is looked at again.
//! Never: decides where copies go; moves data.

use super::*;
use crate::api::types as api;
use base::{ComponentId, CopyState, Epoch, ObjectId};
use cluster::CopiesChange;
use dataplane::component_spec;
use std::collections::BTreeSet;

impl Control {
    /// Has a volume get or lose copies, if its policy asks for that and it can be decided now; `lost` are not waited for any more. Says whether anything
    /// was decided.
    pub(super) fn adapt_copies(&self, id: &str, lost: &BTreeSet<ComponentId>) -> Result<bool, Problem> {
        let (_, decided) = self.decided(|| {
            let nothing = || Ok((Transaction::new(), false));
            let volume = self.directory.find::<VolumeRecord>(id)?;
            let Some(volume) = volume.filter(|v| v.stage == Stage::Ready && !v.is_under_way()) else { return nothing() };
            let (mut object, policy) = (self.object_of(&volume)?, self.policy_record(&volume.policy)?);
            // One may have come back just now.
            let lost = object.components().filter(|c| is_out(c) && lost.contains(&c.id)).map(|c| c.id).collect();
            let Some(change) = self.copies_change(&volume, &object, &policy.policy, &lost)? else { return nothing() };
            change.apply(&mut object.value, || ComponentId::from_random(random()));
            let places: BTreeSet<GroupId> = object.components().filter(|c| c.no.is_none()).map(|c| c.group).collect();
            // Who deletes the volume, or removes a disk group that a copy goes to, has not seen it.
            let groups = self.directory.all::<GroupRecord>()?;
            let held = Transaction::new().update(&object).hold(&volume).hold(&policy);
            let intent = groups.iter().filter(|g| places.contains(&g.id)).fold(held, |intent, group| intent.hold(group));
            Ok((intent, true))
        })?;
        if decided {
            self.apply()?;
            if let Some(volume) = self.directory.find::<VolumeRecord>(id)? {
                tracing::info!(volume = %volume.name, "the volume gets the copies that its policy asks for");
            }
        }
        Ok(decided)
    }
    /// What is to be changed of an object so that it has the copies that a policy asks for.
    pub(super) fn copies_change(
        &self,
        volume: &VolumeRecord,
        object: &ObjectRecord,
        policy: &cluster::Policy,
        lost: &BTreeSet<ComponentId>,
    ) -> Result<Option<CopiesChange>, Problem> {
        Ok(cluster::copies_change(&self.inventory()?.on(&volume.groups), policy, object, lost)?)
    }
    /// Volumes whose policies ask for other copies than they have: what could not be decided before may be possible by now. To be called every few
    /// seconds; only the one that leads does something.
    pub fn look_after_copies(&self) {
        let Some(leading) = self.leadership().filter(|_| !self.is_alone()) else { return };
        request::Request::new(None, leading).carry(|| self.confirm_restored());
        request::Request::new(None, leading).carry(|| match self.copies_due() {
            Ok((due, _)) if due.is_empty() => {}
            Ok((due, lost)) => {
                let _devices = self.devices();
                for id in &due {
                    if let Err(problem) = self.adapt_copies(id, &lost) {
                        tracing::debug!(volume = id, error = %problem.message, "the volume does not get the copies that its policy asks for yet");
                    }
                }
            }
            Err(problem) => tracing::warn!(error = %problem.message, "the copies of volumes could not be looked at"),
        });
    }
    /// Volumes that get or lose copies now, by id, and copies that are lost; by the copy of the directory.
    fn copies_due(&self) -> Result<(Vec<String>, BTreeSet<ComponentId>), Problem> {
        let (policies, objects, volumes, presences) = {
            let followed = self.followed();
            let view = followed.view();
            let presences: Vec<Versioned<PresenceRecord>> = view.all()?;
            (view.all::<PolicyRecord>()?, view.all::<ObjectRecord>()?, view.all::<VolumeRecord>()?, presences)
        };
        let policies: BTreeMap<String, cluster::Policy> = policies.into_iter().map(|p| (p.id(), p.value.policy)).collect();
        let objects: BTreeMap<ObjectId, ObjectRecord> = objects.into_iter().map(|o| (o.id, o.value)).collect();
        let presences = presences.into_iter().map(|p| (p.value.node.clone(), p.value)).collect();
        // Of what was restored nothing is changed before it is known which copies are right.
        let of = |v: &VolumeRecord| Some((policies.get(&v.policy)?, objects.get(&v.object).filter(|o| !o.change.restored)?));
        let lost = self.lost_copies(volumes.iter().filter_map(|v| of(v)), &presences);
        let differs = |(policy, object): (&cluster::Policy, &ObjectRecord)| {
            let has = object.mirrors.first().map(|copies| copies.iter().filter(|c| !c.leaving).count());
            has != Some(policy.copies()) || object.components().any(|c| lost.contains(&c.id))
        };
        let mut due: Vec<&Versioned<VolumeRecord>> = volumes.iter().filter(|v| of(v).is_some_and(differs)).collect();
        if !due.is_empty() {
            // With a node down that can be many, of which nothing may be possible.
            let inventory = self.inventory()?;
            let possible = |v: &VolumeRecord| {
                let change = of(v).map(|(policy, object)| cluster::copies_change(&inventory.clone().on(&v.groups), policy, object, &lost));
                matches!(change, Some(Ok(Some(_))))
            };
            due.retain(|v| possible(v));
        }
        Ok((due.into_iter().map(|v| v.id()).collect(), lost))
    }

    /// Copies that have been away, or have failed though their nodes answer, for longer than their policies wait. Who begins to lead begins to count.
    fn lost_copies<'a>(
        &self,
        of: impl Iterator<Item = (&'a cluster::Policy, &'a ObjectRecord)>,
        presences: &BTreeMap<String, PresenceRecord>,
    ) -> BTreeSet<ComponentId> {
        let now = self.now();
        let (mut away, mut lost) = (BTreeMap::new(), BTreeSet::new());
        let before = core::mem::take(&mut self.live().away_since);
        let failed: BTreeSet<ComponentId> = presences.values().flat_map(|p| &p.failed_copies).copied().collect();
        for (policy, object) in of {
            for c in object.components().filter(|c| self.is_away(c, presences) || failed.contains(&c.id)) {
                let since = before.get(&c.id).copied().unwrap_or(now);
                away.insert(c.id, since);
                if policy.repair_after_s.is_some_and(|wait| now.saturating_sub(since).as_secs() >= wait) {
                    lost.insert(c.id);
                }
            }
        }
        self.live().away_since = away;
        lost
    }

    /// Whether nothing comes of a copy before something is repaired: its node is down, or its disk group is not open there. One that is out and can be
    /// reached is brought back by its owner, in its turn.
    fn is_away(&self, c: &ComponentRecord, presences: &BTreeMap<String, PresenceRecord>) -> bool {
        let is_open = |p: &PresenceRecord| p.groups.iter().any(|g| g.id == c.group && g.offline.is_none());
        let can_be_reached = || presences.get(&c.node).is_some_and(is_open);
        is_out(c) && !can_be_reached()
    }

    /// Has copies of a volume that are away made anew elsewhere at once.
    pub fn repair_volume(&self, name: &str) -> Result<api::Volume, Problem> {
        let _devices = self.devices();
        let (volume, presences) = (self.ready_volume(name)?, self.presences()?);
        let object = self.object_of(&volume)?;
        // One that was in sync and is out all the same has a device that fails, say.
        let is_lost = |c: &&ComponentRecord| self.is_away(c, &presences) || is_out(c) && c.synced_to > Epoch(0);
        let away: BTreeSet<ComponentId> = object.components().filter(is_lost).map(|c| c.id).collect();
        if away.is_empty() {
            return Err(Problem::refused(
                format!("no copy of volume {} is away", volume.name),
                format!("'basalt volume show {}' says how each copy is", volume.name),
            ));
        }
        if !self.adapt_copies(&volume.id(), &away)? {
            return Err(Problem::new(
                crate::Code::Unavailable,
                format!(
                    "nothing can be done about the copies of volume {} now: a change of them is under way, or none is in sync",
                    volume.name
                ),
                format!("try again when 'basalt volume show {}' shows one in sync, and none that is to be made", volume.name),
            ));
        }
        self.volume(&volume.id())
    }

    /// Makes the copies of a volume that are to be here, deletes those that leave.
    pub(super) fn finish_copies(&self, volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        self.finishing(volume, |volume| self.change_copies(&volume))
    }
    fn change_copies(&self, volume: &VolumeRecord) -> Result<(), Problem> {
        let mut object = self.object_of(volume)?;
        let here = |c: &ComponentRecord| c.node == self.identity.node;
        if object.components().any(|c| here(c) && c.leaving) {
            self.serve(object.revision)?;
        }
        for (mirror, copy) in object.places() {
            let c = &object.mirrors[mirror][copy];
            if !here(c) || c.is_used() {
                continue;
            }
            let (group, no, leaving) = (c.group, c.no, c.leaving);
            match (leaving, no) {
                (true, Some(no)) => self.delete_component(group, no)?,
                (true, None) => self.delete_half_made(group, component_spec(volume, &object, mirror, copy))?,
                (false, _) => {
                    let no = self.create_component(group, component_spec(volume, &object, mirror, copy))?;
                    object.value.mirrors[mirror][copy].no = Some(no);
                }
            }
        }
        object.value.mirrors.iter_mut().for_each(|copies| copies.retain(|c| !(here(c) && c.leaving)));
        self.commit(Transaction::new().update(&object))?;
        Ok(())
    }
}

/// Whether a copy is neither in sync nor on its way there.
fn is_out(c: &ComponentRecord) -> bool {
    !c.leaving && matches!(c.state, CopyState::Absent | CopyState::Stale | CopyState::Degraded)
}

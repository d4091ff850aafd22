//! Copies of volumes that hosts use: as many as their policies ask for, made and deleted by the nodes that have them.
//!
//! ```text
//!  the leader decides which (cluster::copies_change) ─► each node makes its own, deletes those that leave ─► their owner brings them into sync
//! ```
//!
//! Invariants: a component is deleted only when this node does not serve it any more; what cannot be decided now is looked at again.
//! Never: decides where copies go; moves data.

use super::*;
use base::{ComponentId, ObjectId};
use cluster::CopiesChange;
use dataplane::component_spec;
use std::collections::BTreeSet;

impl Control {
    /// Has a volume get or lose copies, if its policy asks for that and it can be decided now. Says whether anything was decided.
    pub(super) fn adapt_copies(&self, id: &str) -> Result<bool, Problem> {
        let (_, decided) = self.decided(|| {
            let nothing = || Ok((Transaction::new(), false));
            let volume = self.directory.find::<VolumeRecord>(id)?;
            let Some(volume) = volume.filter(|v| v.stage == Stage::Ready && !v.is_under_way()) else { return nothing() };
            let (mut object, policy) = (self.object_of(&volume)?, self.policy_record(&volume.policy)?);
            let Some(change) = self.copies_change(&object, &policy.policy)? else { return nothing() };
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
    pub(super) fn copies_change(&self, object: &ObjectRecord, policy: &cluster::Policy) -> Result<Option<CopiesChange>, Problem> {
        let change = cluster::copies_change(&self.inventory()?, policy, object)?;
        Ok(change.filter(|change| self.plane.serves_copies() || !matches!(change, CopiesChange::Add(_))))
    }
    /// Volumes whose policies ask for other copies than they have: what could not be decided before may be possible by now.
    pub(super) fn adapt_all(&self) -> Result<(), Problem> {
        let policies = self.directory.all::<PolicyRecord>()?;
        let objects: BTreeMap<ObjectId, Versioned<ObjectRecord>> =
            self.directory.all::<ObjectRecord>()?.into_iter().map(|o| (o.id, o)).collect();
        for volume in self.directory.all::<VolumeRecord>()? {
            let copies = policies.iter().find(|p| p.id() == volume.policy).map(|p| p.policy.copies());
            let has = objects.get(&volume.object).and_then(|o| o.mirrors.first()).map(Vec::len);
            if copies != has
                && let Err(problem) = self.adapt_copies(&volume.id())
            {
                tracing::debug!(volume = %volume.name, error = %problem.message, "the volume does not get the copies that its policy asks for yet");
            }
        }
        Ok(())
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

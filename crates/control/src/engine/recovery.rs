//! A directory that came back from a backup, and volumes whose copies in sync are gone: what is right is found out, or an administrator says what to go on
//! with.
//!
//! Invariants: what was restored is marked before anything else is done at a start; what an administrator is shown is what is done, or nothing is.
//! Never: decides which copy is right (`cluster::restored`).

use super::*;
use crate::api::types as api;
use base::{CopyState, ObjectId};
use cluster::record::ComponentRecord;
use cluster::{CannotGoOn, Fate, GoneOn, Waits};

impl Control {
    /// At a start, before anything else.
    pub(super) fn note_restore(&self) -> Result<(), DirectoryError> {
        let marked = directory::note_store(&*self.directory, |t| self.commit(t))?;
        if marked > 0 {
            tracing::warn!(
                volumes = marked,
                "the directory was restored from a backup; volumes wait until all nodes have said which copies they have"
            );
        }
        Ok(())
    }

    /// Objects that were restored, and the nodes that have to say what they have of them; by the copy of the directory.
    fn restored(&self) -> Result<(Vec<ObjectRecord>, std::collections::BTreeSet<String>), DirectoryError> {
        let followed = self.followed();
        let objects = followed.view().all::<ObjectRecord>()?.into_iter().map(|o| o.value).filter(|o| o.change.restored);
        let objects: Vec<ObjectRecord> = objects.collect();
        let to_hear = match objects.is_empty() {
            true => Default::default(),
            false => cluster::nodes_to_hear(&directory::records(followed.view())?),
        };
        Ok((objects, to_hear))
    }

    /// Objects of which all was heard that was to be heard go on. For the leader.
    pub(super) fn confirm_restored(&self) {
        let confirmed = self.restored().map_err(Problem::from).and_then(|(objects, to_hear)| {
            let known = objects.iter().filter(|o| cluster::confirmed(o, &to_hear).is_ok());
            known.map(|o| self.confirm_object(o.id)).collect::<Result<Vec<()>, Problem>>()
        });
        match confirmed {
            Ok(all) if all.is_empty() => {}
            Ok(all) => {
                tracing::info!(volumes = all.len(), "which copies are in sync after the restore is known");
                if let Err(problem) = self.apply() {
                    tracing::error!(error = %problem.message, "not everything could be served");
                }
            }
            Err(problem) => tracing::warn!(error = %problem.message, "it cannot be said yet which copies are in sync after the restore"),
        }
    }
    fn confirm_object(&self, id: ObjectId) -> Result<(), Problem> {
        self.decided(|| {
            let to_hear = cluster::nodes_to_hear(&self.records()?.0);
            let object = self.directory.find::<ObjectRecord>(&id.to_string())?.filter(|o| o.change.restored);
            let Some(mut object) = object else { return Ok((Transaction::new(), ())) };
            let Ok(now) = cluster::confirmed(&object, &to_hear) else { return Ok((Transaction::new(), ())) };
            object.value = now;
            Ok((Transaction::new().update(&object), ()))
        })
        .map(drop)
    }

    /// What is to be done about volumes that wait since the directory was restored.
    pub(super) fn restored_checks(&self) -> Result<Vec<api::Check>, Problem> {
        let (objects, to_hear) = self.restored()?;
        let mut checks = Vec::new();
        for object in &objects {
            let Some(volume) = self.directory.find::<VolumeRecord>(&object.volume.to_string())? else { continue };
            let Err(waits) = cluster::confirmed(object, &to_hear) else { continue };
            checks.push(api::Check {
                id: "volume_restored".into(),
                health: api::Health::Error,
                subject: format!("volume {}", volume.name),
                message: format!("it waits since the directory was restored from a backup: {}", self.words_of(&waits)?),
                action: format!(
                    "start the nodes that are down, and put disk groups right that are offline; if something is lost for good, 'basalt volume recover {}' goes on without it, and says first what that may lose",
                    volume.name
                ),
            });
        }
        Ok(checks)
    }
    fn words_of(&self, waits: &Waits) -> Result<String, DirectoryError> {
        Ok(match waits {
            Waits::Nodes(nodes) => {
                let names = nodes.iter().map(|n| self.shown_name_of(n)).collect::<Result<Vec<_>, _>>()?;
                format!("{} has not said yet which copies it has", names.join(", "))
            }
            Waits::Unknown(copy) => {
                format!("node {} has a newer copy, which the backup does not know", self.shown_name_of(&copy.node)?)
            }
            Waits::NoneInSync(_) => "none of the copies that are left has all that was written".into(),
        })
    }

    /// What going on with a volume would do whose copies in sync are gone, or not known. `from`: with the copies of this node.
    pub fn recovery(&self, name: &str, from: Option<&str>) -> Result<api::Recovery, Problem> {
        let (plan, _) = self.recovery_of(name, from)?;
        Ok(plan)
    }

    /// Does it. `plan`: as it was shown; `None`: whatever it is.
    pub fn recover_volume(&self, name: &str, how: &api::Recover) -> Result<api::Volume, Problem> {
        let (_, lost) = self.decided(|| {
            let (plan, (mut object, gone)) = self.recovery_of(name, how.from.as_deref())?;
            if how.plan.as_ref().is_some_and(|shown| *shown != plan.plan) {
                return Err(Problem::new(
                    crate::Code::Conflict,
                    format!("volume {} has changed since you were shown what would be lost", plan.volume),
                    "look again: 'basalt volume recover'",
                ));
            }
            object.value = gone.object;
            Ok((Transaction::new().update(&object), plan.losses))
        })?;
        tracing::warn!(volume = name, lost = lost.join("; "), "an administrator goes on with what is left of a volume");
        self.apply()?;
        self.volume(name)
    }

    fn recovery_of(&self, name: &str, from: Option<&str>) -> Result<(api::Recovery, (Versioned<ObjectRecord>, GoneOn)), Problem> {
        let (volume, records) = (self.ready_volume(name)?, self.records()?.0);
        let (presences, object) = (self.presences()?, self.object_of(&volume)?);
        let from = from.map(|node| self.node_called(node)).transpose()?.map(|n| n.name.clone());
        let restored = object.change.restored;
        let by_itself = || {
            Problem::refused(
                format!("volume {} needs no recovery: a copy of all its data is in sync and can be reached", volume.name),
                format!("'basalt volume show {}' says how it is", volume.name),
            )
        };
        if restored && cluster::confirmed(&object, &cluster::nodes_to_hear(&records)).is_ok() {
            return Err(by_itself());
        }
        let is_open = |p: &PresenceRecord, c: &ComponentRecord| p.groups.iter().any(|g| g.id == c.group && g.offline.is_none());
        // Of itself this node knows; one that is alone says nothing of itself in the directory.
        let here: std::collections::BTreeSet<GroupId> =
            self.live().groups.iter().filter(|(_, state)| state.is_online()).map(|(group, _)| *group).collect();
        let there = |c: &ComponentRecord| match c.node == self.identity.node {
            true => here.contains(&c.group),
            false => presences.get(&c.node).is_some_and(|p| is_open(p, c)),
        };
        let gone = cluster::gone_on(&object, there, from.as_deref()).map_err(|why| match why {
            CannotGoOn::NotNeeded => by_itself(),
            CannotGoOn::NoCopy(_) => Problem::refused(
                format!("no copy of a part of volume {} can be reached{}", volume.name, if from.is_some() { " there" } else { "" }),
                format!("start a node that has one: 'basalt volume show {}' shows where they are", volume.name),
            ),
        })?;
        let mut copies = Vec::new();
        let mut losses = std::collections::BTreeSet::new();
        for (mirror, of) in object.mirrors.iter().enumerate() {
            for c in of {
                let node = self.shown_name_of(&c.node)?;
                let fate = gone.fates.get(&c.id).unwrap_or(&Fate::GivenUp);
                let becomes = match fate {
                    Fate::Kept(_) => api::RecoveredCopy::Kept,
                    Fate::Follows => api::RecoveredCopy::Follows,
                    Fate::GivenUp => api::RecoveredCopy::GivenUp,
                };
                if *fate == Fate::GivenUp && c.is_used() && !there(c) {
                    losses.insert(format!("the copy on node {node} is given up; it is deleted if that node comes back"));
                }
                if let Fate::Kept(epoch) = fate {
                    losses.extend(self.loss_of(&node, restored, c, *epoch, &object, gone.mixed.contains(&mirror)));
                }
                let state = if there(c) { super::volumes::state_of(c) } else { "not reached".into() };
                copies.push(api::RecoveryCopy { node, mirror: mirror as u32, state, becomes });
            }
        }
        if let Some(newer) = object.heard.copies.iter().find(|copy| object.components().all(|c| c.id != copy.component)) {
            losses.insert(format!("node {} has a copy that the backup does not know; it is not used", self.shown_name_of(&newer.node)?));
        }
        let losses: Vec<String> = losses.into_iter().collect();
        let plan = {
            let fates = copies.iter().map(|c| match c.becomes {
                api::RecoveredCopy::Kept => 'k',
                api::RecoveredCopy::Follows => 'f',
                api::RecoveredCopy::GivenUp => 'g',
            });
            format!("{}-{}", object.revision.0, fates.collect::<String>())
        };
        let recovery = api::Recovery { volume: volume.name.clone(), restored, copies, losses, plan };
        Ok((recovery, (object, gone)))
    }

    /// What may be lost with a copy that is kept.
    fn loss_of(
        &self,
        node: &str,
        restored: bool,
        c: &ComponentRecord,
        epoch: base::Epoch,
        object: &ObjectRecord,
        mixed: bool,
    ) -> Option<String> {
        if mixed {
            return Some(format!(
                "the copy on node {node} was being brought into sync: parts of it are older than others, so file systems and databases on it may be damaged"
            ));
        }
        if restored {
            return Some(format!("what only copies have that were not heard is lost; the one on node {node} may lack it"));
        }
        (c.state != CopyState::Active).then(|| {
            format!(
                "the copy on node {node} was last in sync in epoch {}, and the volume is in epoch {} now: all that was written since is lost",
                epoch.0, object.ownership.epoch.0
            )
        })
    }
}

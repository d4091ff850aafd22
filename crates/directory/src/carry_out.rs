//! Carrying out those of `cluster::reconcile`'s actions that change records only; whoever runs a node does the others.
//!
//! Owns: [`carry_out`]. Invariants: each is a compare-and-swap, decided anew when somebody else was faster; taken twice it changes nothing the
//! second time. Never: decides what is to be done.

use crate::record::{GroupRecord, ObjectRecord, ReservationRecord, Stage, VolumeRecord};
use crate::{Directory, DirectoryError, Record, Revision, Transaction, Typed, change};
use base::hooks::{self, SeededFault};
use base::{CopyState, Epoch, GroupId, ObjectId, VolumeId, WriteProtect};
use cluster::reservation::State;
use cluster::{Action, Without};

/// What has come of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is for the node's data plane.
    NotHere,
    /// Whether anything was changed.
    Changed(bool),
    /// Terms that the node has begun.
    Begun(Vec<(ObjectId, Epoch)>),
}

/// Carries out an action as far as it is a change of records. `commit` commits, and finds out what became of a lost answer ([`crate::commit_known`]).
pub fn carry_out(
    directory: &(impl Directory + ?Sized),
    action: &Action,
    mut commit: impl FnMut(Transaction) -> Result<Revision, DirectoryError>,
) -> Result<Outcome, DirectoryError> {
    let commit = &mut commit;
    let changed = match action {
        Action::EndProtection(id) => update(directory, &id.to_string(), commit, |volume: &mut VolumeRecord| {
            let until_restart = volume.write_protect == WriteProtect::UntilRestart;
            if until_restart {
                volume.write_protect = WriteProtect::None;
            }
            until_restart
        })?,
        Action::EndReservation(id) => end_reservation(directory, *id, commit)?,
        Action::BeginTerms(objects) => return begin_terms(directory, objects, commit).map(Outcome::Begun),
        Action::GroupIsReady(id) => update(directory, &id.to_string(), commit, |group: &mut GroupRecord| {
            group.stage = Stage::Ready;
            true
        })?,
        Action::LoseComponents(id, group) => lose_components(directory, *id, *group, commit)?,
        Action::SayCopies { object, node, copies } => update(directory, &object.to_string(), commit, |object: &mut ObjectRecord| {
            let news = object.change.restored && object.heard.nodes.insert(node.clone());
            if news {
                object.heard.copies.extend_from_slice(copies);
            }
            news
        })?,
        Action::SetStates(id, states) => update(directory, &id.to_string(), commit, |object: &mut ObjectRecord| {
            let mut touched = false;
            for c in object.components_mut() {
                if let Some((_, state)) = states.iter().find(|(of, _)| *of == c.id) {
                    touched |= std::mem::replace(&mut c.state, *state) != *state;
                }
            }
            touched
        })?,
        Action::OpenGroup(_) | Action::RemakeGroup(_) | Action::ForgetGroup(_) | Action::Finish(..) => return Ok(Outcome::NotHere),
    };
    Ok(Outcome::Changed(changed))
}

/// Changes a record as it is then. Says whether it was changed.
fn update<R: Record>(
    directory: &(impl Directory + ?Sized),
    id: &str,
    commit: impl FnMut(Transaction) -> Result<Revision, DirectoryError>,
    mut what: impl FnMut(&mut R) -> bool,
) -> Result<bool, DirectoryError> {
    let decide = || {
        let Some(mut record) = directory.find::<R>(id)? else { return Ok((Transaction::new(), false)) };
        let changed = what(&mut record.value);
        Ok((if changed { Transaction::new().update(&record) } else { Transaction::new() }, changed))
    };
    change(decide, commit).map(|(_, changed)| changed)
}

/// The node that serves a volume has started: as its hosts see it, power was lost. What does not persist goes.
fn end_reservation(
    directory: &(impl Directory + ?Sized),
    volume: VolumeId,
    commit: impl FnMut(Transaction) -> Result<Revision, DirectoryError>,
) -> Result<bool, DirectoryError> {
    let decide = || {
        let Some(mut found) = directory.find::<ReservationRecord>(&volume.to_string())? else { return Ok((Transaction::new(), false)) };
        let changed = found.value.state.power_lost();
        Ok(match changed {
            false => (Transaction::new(), false),
            true if found.state == State::default() => (Transaction::new().remove(&found), true),
            true => (Transaction::new().update(&found), true),
        })
    };
    change(decide, commit).map(|(_, ended)| ended)
}

/// Begins a term for each of these objects that still has the epoch that was seen.
fn begin_terms(
    directory: &(impl Directory + ?Sized),
    objects: &[(ObjectId, Epoch)],
    commit: impl FnMut(Transaction) -> Result<Revision, DirectoryError>,
) -> Result<Vec<(ObjectId, Epoch)>, DirectoryError> {
    let decide = || {
        let (mut transaction, mut begun) = (Transaction::new(), Vec::new());
        for (id, seen) in objects {
            let Some(mut object) = directory.find::<ObjectRecord>(&id.to_string())? else { continue };
            let next = object.value.ownership.next_term().filter(|_| object.value.ownership.epoch == *seen);
            let Some(next) = next else { continue };
            if !hooks::seeded(SeededFault::TermGoesOn) {
                object.value.ownership = next;
            }
            transaction = transaction.update(&object);
            begun.push((*id, object.value.ownership.term));
        }
        Ok((transaction, begun))
    };
    change(decide, commit).map(|(_, begun)| begun)
}

/// The components that a group in memory held are gone. A volume with other copies in sync goes on without them; any other one is made anew.
fn lose_components(
    directory: &(impl Directory + ?Sized),
    id: ObjectId,
    group: GroupId,
    commit: impl FnMut(Transaction) -> Result<Revision, DirectoryError>,
) -> Result<bool, DirectoryError> {
    let decide = || {
        let Some(mut object) = directory.find::<ObjectRecord>(&id.to_string())? else { return Ok((Transaction::new(), false)) };
        // Its owner cannot have served since: what it had is gone.
        if let Without::Kept(kept) | Without::Owned { kept, .. } = cluster::without(&object, |c| c.group == group) {
            object.value = kept;
            return Ok((Transaction::new().update(&object), true));
        }
        for mirror in &mut object.value.mirrors {
            let alone = mirror.len() == 1;
            let others = mirror.iter().any(|c| c.group != group && c.is_used() && c.state == CopyState::Active);
            for c in mirror.iter_mut() {
                match c.group == group {
                    true => {
                        (c.no, c.state) = (
                            None,
                            if others {
                                CopyState::Stale
                            } else if alone {
                                c.state
                            } else {
                                CopyState::Active
                            },
                        )
                    }
                    // It is behind a copy that is made anew: with whatever it holds.
                    false if !others => (c.state, c.synced_to) = (CopyState::Absent, Epoch(0)),
                    false => {}
                }
            }
        }
        let mut intent = Transaction::new().update(&object);
        if let Some(mut volume) = directory.find::<VolumeRecord>(&object.volume.to_string())?
            && volume.stage == Stage::Ready
        {
            volume.value.stage = Stage::Creating;
            intent = intent.update(&volume);
        }
        Ok((intent, true))
    };
    change(decide, commit).map(|(_, lost)| lost)
}

//! What the leader does about what is left of changes: it carries out what `cluster::lead` decides.
//!
//! Invariants: what is done is done as the leader, or not at all; who is at work on a change here is not disturbed: the lock `devices` is held.
//! Never: decides what is to be given up.

use super::*;
use cluster::{Finish, LeaderAction, Left};

impl Control {
    /// Sees to what is left of changes, if this node leads. To be called when it begins to lead, and now and then.
    pub(super) fn lead(&self) {
        let Some(leading) = self.leadership() else { return };
        request::Request::new(None, leading).carry(|| match self.left() {
            Ok(left) => {
                for action in cluster::lead(&left, now_unix_s()) {
                    tracing::debug!(?action, "to be done by the leader");
                    if let Err(problem) = self.carry_out_as_leader(&action) {
                        tracing::warn!(?action, error = %problem.message, "what is left of a change cannot be seen to yet");
                    }
                }
                self.live().led = leading;
            }
            Err(error) => tracing::warn!(%error, "what is left of changes could not be looked at"),
        });
    }

    /// Whether it has begun to lead, and has not yet seen to what was left.
    pub(super) fn is_new_leader(&self) -> bool {
        matches!(self.leadership(), Some(Some(since)) if self.live().led != Some(since))
    }

    fn left(&self) -> Result<Left, DirectoryError> {
        let volumes = self.directory.all::<VolumeRecord>()?;
        let changing = |o: &&Versioned<ObjectRecord>| o.components().any(|c| !c.is_used());
        let copying = self.directory.all::<ObjectRecord>()?.iter().filter(changing).map(|o| o.volume).collect();
        Ok(Left {
            copying,
            volumes: volumes.into_iter().map(|v| (v.revision.0, v.value)).collect(),
            policies: self.directory.all::<PolicyRecord>()?.into_iter().map(|r| r.value).collect(),
            tasks: self.directory.all::<TaskRecord>()?.into_iter().map(|r| r.value).collect(),
            requests: self.directory.all::<RequestRecord>()?.into_iter().map(|r| r.value).collect(),
        })
    }

    fn carry_out_as_leader(&self, action: &LeaderAction) -> Result<(), Problem> {
        match action {
            LeaderAction::GiveUp(id) => self.give_up(&id.to_string()).map(drop),
            LeaderAction::FinishPolicy(key) => self.finish_policy(key),
            LeaderAction::ForgetTask(id) => self.decided(|| Ok((self.removing::<TaskRecord>(Transaction::new(), id)?, ()))).map(drop),
            LeaderAction::ForgetRequests(nonces) => {
                let forget = || {
                    let gone = |t, nonce: &String| self.removing::<RequestRecord>(t, nonce);
                    Ok((nonces.iter().try_fold(Transaction::new(), gone)?, ()))
                };
                self.decided(forget).map(drop)
            }
        }
    }

    /// What was begun with a volume could not be carried through: it is given up, and the problem stays, unless it was done just then.
    pub(super) fn failed(&self, id: &str, problem: Problem) -> Result<(), Problem> {
        let given_up = self.give_up(id)?;
        let done = !given_up && self.directory.find::<VolumeRecord>(id)?.is_some_and(|v| !v.is_under_way());
        if done { Ok(()) } else { Err(problem) }
    }

    /// Gives up what is under way with a volume, and carries out what follows from that. Says whether there was anything to give up.
    fn give_up(&self, id: &str) -> Result<bool, Problem> {
        let (_, what) = self.decided(|| {
            let Some(mut volume) = self.directory.find::<VolumeRecord>(id)? else { return Ok((Transaction::new(), None)) };
            let creating = volume.stage == Stage::Creating;
            if creating {
                return Ok((self.deletion(volume)?, Some(Finish::Delete)));
            }
            let given_up = volume.value.give_up().then_some(Finish::Resize);
            Ok((if given_up.is_some() { Transaction::new().update(&volume) } else { Transaction::new() }, given_up))
        })?;
        let Some(what) = what else { return Ok(false) };
        if let Some(volume) = self.directory.find::<VolumeRecord>(id)? {
            self.carry_through_or_note(volume, what)?;
        }
        // What hosts see is as before, and yet of a newer revision: other nodes' requests are compared by that. It is tried again when it fails.
        if let Err(problem) = self.apply() {
            tracing::warn!(error = %problem.message, "what was given up is not served yet");
        }
        Ok(true)
    }
}

#[cfg(test)]
#[path = "leader_tests.rs"]
mod tests;

//! What the node that leads has to do about what is left of changes, so that each was done or was not.
//!
//! A change that acts on devices is carried out by the node that has them. When it cannot be done, who decided it gives it up. When who decided it
//! is gone, the leader does.
//!
//! Owns: [`lead`], how a change of a volume is given up.
//! Invariants: what can still succeed by itself is left alone; what is given up leads to a point where nothing is under way.
//! Never: gives a deletion up.

use crate::record::{PolicyRecord, RequestRecord, Stage, TaskError, TaskRecord, VolumeRecord};
use base::VolumeId;
use base::hooks::{self, SeededFault};
use std::collections::BTreeSet;

/// How long a request is remembered after it was decided, in seconds: a client that sends it again later is not recognised.
pub const REQUEST_SECONDS: u64 = 3600;
/// Requests that are forgotten at once, at most.
const FORGOTTEN_AT_ONCE: usize = 100;

/// What is left of changes.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Volumes, each with the revision that wrote it.
    pub volumes: Vec<(u64, VolumeRecord)>,
    /// Storage policies.
    pub policies: Vec<PolicyRecord>,
    /// What could not be finished.
    pub tasks: Vec<TaskRecord>,
    /// Requests that were decided.
    pub requests: Vec<RequestRecord>,
    /// Volumes that are just getting or losing copies.
    pub copying: BTreeSet<VolumeId>,
}

/// Something to be done by the leader. Each is a compare-and-swap, and idempotent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaderAction {
    /// A change of a volume cannot be done: it is as it was before.
    GiveUp(VolumeId),
    /// Volumes have to follow a policy that was changed.
    FinishPolicy(String),
    /// A task of something that is gone.
    ForgetTask(String),
    /// Requests that are so old that nobody sends them again.
    ForgetRequests(Vec<String>),
}

/// Everything that the leader has to do now.
pub fn lead(left: &Left, now_unix_s: u64) -> Vec<LeaderAction> {
    let failed = |revision: u64, volume: &VolumeRecord| {
        let of = |t: &&TaskRecord| is_task_of(&t.id, volume.id) && t.tried >= revision;
        left.tasks.iter().find(of).is_some_and(|t| t.why == TaskError::NoSpace)
    };
    let given_up = left.volumes.iter().filter(|(at, v)| failed(*at, v) && v.clone().give_up());
    let mut actions: Vec<LeaderAction> = given_up.map(|(_, v)| LeaderAction::GiveUp(v.id)).collect();
    actions.extend(left.policies.iter().filter(|p| p.before.is_some()).map(|p| LeaderAction::FinishPolicy(p.key())));
    let about_nothing = |t: &&TaskRecord| {
        let is_of_volume = TASK_WORDS.iter().any(|word| t.id.starts_with(&format!("{word}-volume/")));
        let under_way = |v: &VolumeRecord| v.is_under_way() || left.copying.contains(&v.id);
        is_of_volume && !left.volumes.iter().any(|(_, v)| under_way(v) && is_task_of(&t.id, v.id))
    };
    actions.extend(left.tasks.iter().filter(about_nothing).map(|t| LeaderAction::ForgetTask(t.id.clone())));
    let old = left.requests.iter().filter(|r| r.decided_unix_s.saturating_add(REQUEST_SECONDS) <= now_unix_s);
    let old: Vec<String> = old.take(FORGOTTEN_AT_ONCE).map(|r| r.nonce.clone()).collect();
    actions.extend((!old.is_empty()).then_some(LeaderAction::ForgetRequests(old)));
    actions.sort();
    actions
}

/// The words with which the ids of tasks of volumes begin.
pub const TASK_WORDS: [&str; 5] = ["create", "delete", "resize", "format", "copy"];

fn is_task_of(task: &str, volume: VolumeId) -> bool {
    let id = volume.to_string();
    task.split_once("-volume/").is_some_and(|(word, of)| TASK_WORDS.contains(&word) && of == id)
}

impl VolumeRecord {
    /// What is under way cannot be done: one that was being made is deleted, one that was being resized keeps its size, and its policy. Says whether
    /// there was anything to give up. What follows is still to be carried out.
    pub fn give_up(&mut self) -> bool {
        match self.stage {
            Stage::Creating => {
                self.stage = Stage::Deleting;
                true
            }
            Stage::Ready
                if self.resize_to.is_some_and(|to| to != self.bytes) || self.resize_to.is_some() && self.policy_before.is_some() =>
            {
                self.resize_to = Some(self.bytes);
                if !hooks::seeded(SeededFault::GivenUpKeepsPolicy) {
                    self.policy = self.policy_before.take().unwrap_or_else(|| self.policy.clone());
                }
                true
            }
            Stage::Ready | Stage::Deleting => false,
        }
    }
}

#[cfg(test)]
#[path = "lead_tests.rs"]
mod tests;

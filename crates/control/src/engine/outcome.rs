//! What is left to do for a volume, done by the nodes that have its components: here at once; there by that node's reconciler, which is waited for.
//!
//! ```text
//!  intent is durable ─► components here:   act on them ─► outcome, when they are the last
//!                    └► on another node:   its reconciler sees the intent ─► acts ─► commits the outcome, or notes why it cannot (a task)
//!                                          who decided it waits for either, for a bounded time
//! ```
//!
//! Owns: whose the work is, waiting for an outcome.
//! Invariants: who waits holds up nobody who acts on devices; an error counts only if it is one of what was asked for now.
//! Never: acts on components of another node; overwrites what another one has begun.

use super::*;
use base::VolumeId;
use base::hooks::{self, SeededFault};
use cluster::Finish;
use directory::Watch;
use std::collections::BTreeSet;

/// How long another node may take to carry out what it has to do, by default.
pub(super) const OUTCOME_WAIT: Duration = Duration::from_secs(30);
/// How long one look at a watch waits.
const WATCH_WAIT: Duration = Duration::from_millis(500);
/// Before a directory that could not be read is read again.
const READ_AGAIN: Duration = Duration::from_millis(100);

/// The word of what is left to do, and the id of its task.
pub(super) fn word(what: Finish) -> &'static str {
    match what {
        Finish::Create => "create",
        Finish::Delete => "delete",
        Finish::Resize => "resize",
        Finish::Format => "format",
        Finish::Copies => "copy",
    }
}

pub(super) fn task_id(id: VolumeId, what: Finish) -> String {
    format!("{}-volume/{id}", word(what))
}

impl Control {
    /// The other nodes that have components of a volume.
    pub(super) fn elsewhere(&self, volume: &VolumeRecord) -> Result<BTreeSet<String>, Problem> {
        let object = self.directory.find::<ObjectRecord>(&volume.object.to_string())?;
        let nodes = object.iter().flat_map(|o| o.components()).map(|c| &c.node);
        Ok(nodes.filter(|n| **n != self.identity.node).cloned().collect())
    }

    /// What there is to do for a volume here, now.
    fn share(&self, volume: &VolumeRecord) -> Result<Option<Finish>, Problem> {
        let object = self.directory.find::<ObjectRecord>(&volume.object.to_string())?;
        let policy = self.directory.find::<PolicyRecord>(&volume.policy)?;
        let percent = policy.map(|p| p.policy.space_reservation_percent);
        Ok(cluster::share_of(volume, object.as_deref(), percent, &self.identity.node))
    }

    /// Does what is left to do for a volume: here what is for this node; what is for others is waited for.
    pub(super) fn carry_through(&self, volume: Versioned<VolumeRecord>, what: Finish) -> Result<(), Problem> {
        let others = self.elsewhere(&volume)?;
        if self.share(&volume)? == Some(what) {
            request::outside(|| self.finish_here(volume.clone(), what))?;
        }
        if others.is_empty() {
            return Ok(());
        }
        self.devices.let_go_while(|| self.await_outcome(&volume, what, &others))
    }

    /// The same; what cannot be done now is done later, and said until then.
    pub(super) fn carry_through_or_note(&self, volume: Versioned<VolumeRecord>, what: Finish) -> Result<(), Problem> {
        let (id, name, at) = (volume.id, volume.name.clone(), volume.revision);
        let elsewhere = self.elsewhere(&volume)?;
        match (self.carry_through(volume, what), elsewhere) {
            (Ok(()), _) => Ok(()),
            (Err(problem), others) if others.is_empty() => {
                Ok(self.note_task(task_id(id, what), format!("{} volume {name}", word(what)), &problem, at)?)
            }
            (Err(problem), others) => {
                // The nodes that have it say so themselves.
                tracing::info!(nodes = list(&others), volume = %name, what = word(what), error = %problem.message, "is done later");
                Ok(())
            }
        }
    }

    pub(super) fn finish_here(&self, volume: Versioned<VolumeRecord>, what: Finish) -> Result<(), Problem> {
        match what {
            Finish::Create => self.finish_create(volume),
            Finish::Delete => self.finish_delete(volume),
            Finish::Resize => self.finish_resize(volume).map(drop),
            Finish::Format => self.finish_format(volume),
            Finish::Copies => self.finish_copies(volume),
        }
    }

    /// A node that is asked to change what it has must be up, else it would be waited for in vain.
    pub(super) fn refuse_if_down(&self, volume: &VolumeRecord) -> Result<(), Problem> {
        let object = self.directory.find::<ObjectRecord>(&volume.object.to_string())?;
        // What is to be deleted is not changed any more.
        let nodes: BTreeSet<&str> = object.iter().flat_map(|o| o.components()).filter(|c| !c.leaving).map(|c| c.node.as_str()).collect();
        for node in nodes {
            if !self.is_up(node)? {
                let node = self.shown_name_of(node)?;
                return Err(Problem::new(
                    crate::Code::Unavailable,
                    format!("volume {} lies on node {node}, which is down", volume.name),
                    "'basalt node list' shows which nodes are up; try again when it is",
                ));
            }
        }
        Ok(())
    }

    /// What was begun with a volume before is finished first: by this node, or by another one, which is waited for.
    pub(super) fn settled(&self, name: &str) -> Result<Versioned<VolumeRecord>, Problem> {
        let volume = self.ready_volume(name)?;
        let what = match (volume.resize_to, volume.format_to) {
            (None, None) => return Ok(volume),
            (Some(_), _) => Finish::Resize,
            (None, Some(_)) => Finish::Format,
        };
        let busy = |problem: Problem| {
            Problem::new(
                crate::Code::Unavailable,
                format!("what was begun with volume {} before ({}) is not finished yet: {}", volume.name, word(what), problem.message),
                "'basalt status' says what holds it up; try again when it is finished",
            )
        };
        self.refuse_if_down(&volume)?;
        self.carry_through(volume.clone(), what).map_err(busy)?;
        self.ready_volume(&volume.id())
    }

    /// Waits until other nodes have done it, or one says why it cannot.
    fn await_outcome(&self, asked: &Versioned<VolumeRecord>, what: Finish, nodes: &BTreeSet<String>) -> Result<(), Problem> {
        let until = Instant::now() + self.outcome_wait;
        // A deletion is finished when a node is back: it is not waited for.
        let down = |node: &String| self.is_up(node).map(|up| !up);
        let wait = what != Finish::Delete || !nodes.iter().map(down).collect::<Result<Vec<_>, _>>()?.contains(&true);
        let mut watch: Option<Box<dyn Watch>> = None;
        loop {
            let watched = match watch.as_mut() {
                None => self.directory.revision().and_then(|now| self.directory.watch(now)).map(|new| watch = Some(new)),
                Some(watch) => watch.wait(WATCH_WAIT).map(drop),
            };
            match watched.and_then(|()| self.outcome(asked, what)) {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(error) if error.ends_everything() => return Err(error.into()),
                Err(error) => {
                    tracing::debug!(%error, "the outcome cannot be looked at yet");
                    watch = None;
                    std::thread::sleep(READ_AGAIN);
                }
            }
            if !wait || Instant::now() >= until || self.ends.load(Relaxed) {
                return Err(Problem::new(
                    crate::Code::Unavailable,
                    format!("{} has not finished to {} volume {}", list(nodes), word(what), asked.name),
                    format!(
                        "look at that node ('basalt node list', and its log); see with 'basalt volume list' what became of volume {}",
                        asked.name
                    ),
                ));
            }
        }
    }

    /// What has become of what was asked of a volume. `None`: it is under way.
    fn outcome(&self, asked: &Versioned<VolumeRecord>, what: Finish) -> Result<Option<Result<(), Problem>>, DirectoryError> {
        let volume = self.directory.find::<VolumeRecord>(&asked.id())?;
        let gone = || Problem::not_found("volume", &asked.name, "volume list");
        let under_way = match (what, &volume) {
            (Finish::Delete, None) => return Ok(Some(Ok(()))),
            (_, None) => return Ok(Some(Err(gone()))),
            (Finish::Create | Finish::Resize | Finish::Format | Finish::Copies, Some(v)) if v.stage == Stage::Deleting => {
                return Ok(Some(Err(gone())));
            }
            (Finish::Create, Some(v)) => v.stage == Stage::Creating,
            (Finish::Delete, Some(v)) => v.stage == Stage::Deleting,
            (Finish::Resize, Some(v)) => v.resize_to.is_some(),
            (Finish::Format, Some(v)) => v.format_to.is_some(),
            (Finish::Copies, Some(v)) => {
                let object = self.directory.find::<ObjectRecord>(&v.object.to_string())?;
                object.is_some_and(|o| o.components().any(|c| !c.is_used()))
            }
        };
        if !under_way {
            return Ok(Some(Ok(())));
        }
        let task = self.directory.find::<TaskRecord>(&task_id(asked.id, what))?;
        let of_now = |t: &Versioned<TaskRecord>| t.tried >= asked.revision.0 || hooks::seeded(SeededFault::OldErrorTaken);
        Ok(task.filter(of_now).map(|t| Err(problem_of_task(&t))))
    }
}

/// Nodes, as people read them.
fn list(nodes: &BTreeSet<String>) -> String {
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    format!("node {}", names.join(" or "))
}

/// What another node could not do, as a problem.
fn problem_of_task(task: &TaskRecord) -> Problem {
    let (code, action) = match task.why {
        TaskError::NoSpace => (crate::Code::NoSpace, "use a policy that reserves less, delete volumes, or add a disk group"),
        TaskError::NotNow => (crate::Code::Unavailable, "'basalt status' says what is wrong there"),
        TaskError::Failed => (crate::Code::Internal, "see the log of the daemon there (journalctl -u basalt)"),
    };
    Problem::new(code, format!("node {}: {}", task.node, task.error), action)
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;

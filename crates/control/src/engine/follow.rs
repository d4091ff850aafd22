//! The records as the engine decides on them, and following what other nodes change.
//!
//! Invariants: what is decided on is at least as new as every change that this node has made; changes of other nodes are acted on when the
//! watch shows them.
//! Never: takes what it wrote for what is there: that comes back through the watch.

use super::*;
use cluster::Records;
use directory::{Changes, Watch};

/// A follower that has nothing to do wakes this often: a node at rest is to take no processor time.
const FOLLOW_WAIT: Duration = Duration::from_secs(5);
/// Before a directory that could not be followed is tried again.
const FOLLOW_AGAIN: Duration = Duration::from_millis(500);

impl Control {
    /// What is decided on: everything up to now; or, where what may be old will do, what was last seen. And as of which revision that is.
    pub(super) fn records(&self) -> Result<(Records, Revision), DirectoryError> {
        let followed = self.looked_for_request()?;
        Ok((directory::records(followed.view())?, followed.view().revision()))
    }

    /// The copy, as it is.
    pub(super) fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The copy, as the directory is now. That is asked before the copy is locked: who goes by what was last seen does not wait for it.
    pub(super) fn looked(&self) -> Result<MutexGuard<'_, Followed>, DirectoryError> {
        let now = Instant::now();
        let upto = self.directory.revision()?;
        let mut followed = self.followed();
        followed.reaches(&*self.directory, upto, now)?;
        Ok(followed)
    }
    /// The same; or, where what may be old will do and the directory does not answer, as it was last seen.
    pub(super) fn looked_for_request(&self) -> Result<MutexGuard<'_, Followed>, DirectoryError> {
        let error = match request::age() {
            Some(_) => DirectoryError::Unavailable,
            None => match self.looked() {
                Err(error) if request::may_be_old() => error,
                looked => return looked,
            },
        };
        last_seen::last_seen(&self.followed, error)
    }

    /// Brings the copy up to date.
    #[cfg(test)]
    pub(crate) fn records_for_test(&self) {
        self.records().expect("it can be read");
    }

    /// Carries out what the directory says whenever somebody has changed it, until the daemon ends. Runs on a thread of its own.
    pub fn follow_directory(&self) {
        let mut watch: Option<Box<dyn Watch>> = None;
        while !self.ends.load(Relaxed) {
            let next = match watch.as_mut() {
                Some(watch) => watch.wait(FOLLOW_WAIT),
                None => match self.directory.revision().and_then(|now| self.directory.watch(now)) {
                    Ok(new) => {
                        watch = Some(new);
                        // Whatever came before it. That it is served does not say that what is to be done for it is done.
                        if let Ok(now) = self.directory.revision() {
                            self.catch_up_with_others(now);
                        }
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match next {
                Ok(Some(changes)) if concerns(&changes) && self.is_of_others(changes.revision) => {
                    self.catch_up_with_others(changes.revision)
                }
                Ok(_) if self.is_new_leader() => self.retry(),
                Ok(_) => {}
                Err(error) if error.ends_everything() => return self.end_by(&error),
                Err(error) => {
                    tracing::warn!(%error, "the directory cannot be followed; it is read anew");
                    watch = None;
                    std::thread::sleep(FOLLOW_AGAIN);
                }
            }
        }
    }

    /// Whether a change is for the follower: who has made one here serves it, and finishes it, unless that failed. Others may be served already,
    /// by whoever needed what is newer.
    fn is_of_others(&self, at: Revision) -> bool {
        let live = self.live();
        !live.own.contains(&at) || live.apply_error.is_some()
    }

    /// What others have changed is served at once; what is to be done for it on devices waits for those who are at work there.
    fn catch_up_with_others(&self, at: Revision) {
        if let Err(problem) = self.serve(at) {
            tracing::error!(error = %problem.message, "not everything could be served");
        }
        let _devices = self.devices();
        self.work_and_serve();
    }
}

/// Tasks only say how work went: who acted on them would make the next one. Who is up, who leads, and what was asked changes nothing that is served.
fn concerns(changes: &Changes) -> bool {
    changes.events.iter().any(|e| !matches!(e.key.kind, Kind::Task | Kind::Presence | Kind::Leader | Kind::Request))
}

//! What the owners of objects on this node ask of the directory: records of objects on several nodes, and changes of them.
//!
//! ```text
//!  data plane ──► read ────────────────────► serve ─► records, as they are
//!             ──► change ─► if all are still so ─► serve ─► made
//! ```
//!
//! Invariants: changes of one question are made in one transaction or not at all; a change is called made when this node serves what it says, and
//! records are answered when it has tried to; what is not known, or not served, is called lost.
//! Never: decides who owns an object.

use super::*;
use base::ObjectId;
use dataplane::{Change, ChangeOutcome, DirectoryAsk, Found, RecordRevision};
use directory::OwnershipChanges;

impl Control {
    /// Answers a question of the host of owners. May wait for the directory.
    pub(super) fn answer_owners(&self, ask: DirectoryAsk) {
        match ask {
            DirectoryAsk::Read { request, objects } => {
                let read = self.read_objects(&objects);
                if let Err(error) = &read {
                    tracing::warn!(%error, "the records of objects cannot be read");
                }
                let read = read.ok().map(|(found, revision)| {
                    self.serves_owners(revision);
                    found
                });
                self.plane.directory_read(request, read);
            }
            DirectoryAsk::Change { request, changes } => {
                let outcome = self.change_objects(&changes).unwrap_or_else(|error| {
                    tracing::warn!(%error, "the records of objects cannot be changed");
                    ChangeOutcome::Lost
                });
                self.plane.directory_changed(request, outcome);
            }
        }
    }

    /// Whoever asks hears that it is not known.
    pub(super) fn owners_unheard(&self, ask: &DirectoryAsk) {
        match ask {
            DirectoryAsk::Read { request, .. } => self.plane.directory_read(*request, None),
            DirectoryAsk::Change { request, .. } => self.plane.directory_changed(*request, ChangeOutcome::Lost),
        }
    }

    /// Has this node serve what the directory says as of a revision. Whether it does.
    fn serves_owners(&self, revision: Revision) -> bool {
        let served = self.serve(revision);
        if let Err(problem) = &served {
            tracing::error!(error = %problem.message, "not everything could be served");
        }
        served.is_ok()
    }

    /// Records, and as of which revision they are so.
    fn read_objects(&self, objects: &[ObjectId]) -> Result<(Vec<(ObjectId, Found)>, Revision), DirectoryError> {
        let followed = self.looked()?;
        let found = directory::ownerships(followed.view(), objects)?;
        let found = found.into_iter().map(|(object, found)| (object, found.map(|(revision, record)| (RecordRevision(revision.0), record))));
        Ok((found.collect(), followed.view().revision()))
    }

    fn change_objects(&self, changes: &[Change]) -> Result<ChangeOutcome, DirectoryError> {
        let (transaction, begun) = match self.object_changes(changes)? {
            Ok(all) => all,
            Err(refused) => return Ok(ChangeOutcome::Refused(Some(refused))),
        };
        // Before it can be seen: a picture that is made meanwhile has them. One that is not made gives nobody this term.
        self.live().terms.extend(begun);
        match request::outside(|| self.commit(transaction)) {
            Ok(revision) => {
                // What is made and not served is not known to have been made: it is read, and served then.
                Ok(if self.serves_owners(revision) { ChangeOutcome::Made(RecordRevision(revision.0)) } else { ChangeOutcome::Lost })
            }
            Err(DirectoryError::Conflict { key }) => {
                let of = changes.iter().map(|c| c.object).find(|object| key == directory::Key::new(Kind::Object, object.to_string()));
                Ok(ChangeOutcome::Refused(of))
            }
            Err(error) => Err(error),
        }
    }

    /// The transaction, and the terms that this node begins with it; or an object whose record is another one by now.
    fn object_changes(&self, changes: &[Change]) -> Result<OwnershipChanges, DirectoryError> {
        let made = |followed: &Followed| {
            let changes = changes.iter().map(|c| (c.object, Revision(c.on.0), &*c.new));
            directory::ownership_changes(followed.view(), &self.identity.node, changes)
        };
        let first = made(&self.followed())?;
        match first {
            // What it goes by may be newer than what was seen here.
            Err(_) => made(&*self.looked()?),
            Ok(_) => Ok(first),
        }
    }
}

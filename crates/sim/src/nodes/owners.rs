//! What the host of owners of a node of a simulated cluster asks of the directory, as `control` answers it: records of objects with copies on several
//! nodes, and changes of them.
//!
//! Invariants: changes of one question are made in one transaction or not at all; a change is called made when this node serves what it says; what
//! is not known is called lost.
//! Never: decides who owns an object (`object` does).

use super::node::Node;
use base::ObjectId;
use dataplane::{Change, ChangeOutcome, DirectoryAsk, Found, RecordRevision};
use directory::{DirectoryError, Key, Kind, OwnershipChanges, Revision};
use std::rc::Rc;

impl Node {
    async fn next_ask(&self, changes: bool) -> DirectoryAsk {
        self.moment.until(|| !self.live.borrow().asks[usize::from(changes)].is_empty()).await;
        self.live.borrow_mut().asks[usize::from(changes)].pop_front().expect("looked at above")
    }
    /// What it wants to know, one after the other.
    pub(super) async fn owners_read(self: Rc<Self>) {
        loop {
            if let DirectoryAsk::Read { request, objects } = self.next_ask(false).await {
                let read = self.read_objects(&objects).ok();
                let revision = self.live.borrow().followed.view().revision();
                if read.is_some() {
                    let _ = self.serve(revision).await;
                }
                self.commands().directory_read(request, read);
            }
        }
    }
    /// What it wants to change, one after the other.
    pub(super) async fn owners_change(self: Rc<Self>) {
        loop {
            if let DirectoryAsk::Change { request, changes } = self.next_ask(true).await {
                let outcome = self.change_objects(&changes).await.unwrap_or(ChangeOutcome::Lost);
                self.commands().directory_changed(request, outcome);
            }
        }
    }

    fn read_objects(&self, objects: &[ObjectId]) -> Result<Vec<(ObjectId, Found)>, DirectoryError> {
        self.look()?;
        let found = directory::ownerships(self.live.borrow().followed.view(), objects)?;
        Ok(found
            .into_iter()
            .map(|(object, found)| (object, found.map(|(revision, record)| (RecordRevision(revision.0), record))))
            .collect())
    }

    async fn change_objects(&self, changes: &[Change]) -> Result<ChangeOutcome, DirectoryError> {
        let (transaction, begun) = match self.object_changes(changes)? {
            Ok(all) => all,
            Err(refused) => return Ok(ChangeOutcome::Refused(Some(refused))),
        };
        // Before it can be seen: a picture that is made meanwhile has them.
        self.live.borrow_mut().observed.terms.extend(begun);
        match self.commit_as(transaction, self.nonce()).await {
            Ok(revision) => {
                // What is made and not served is not known to have been made: it is read, and served then.
                self.serve(revision).await?;
                Ok(ChangeOutcome::Made(RecordRevision(revision.0)))
            }
            Err(DirectoryError::Conflict { key }) => {
                let of = changes.iter().map(|c| c.object).find(|object| key == Key::new(Kind::Object, object.to_string()));
                Ok(ChangeOutcome::Refused(of))
            }
            Err(error) => Err(error),
        }
    }
    fn object_changes(&self, changes: &[Change]) -> Result<OwnershipChanges, DirectoryError> {
        self.look()?;
        let changes = changes.iter().map(|c| (c.object, Revision(c.on.0), &*c.new));
        directory::ownership_changes(self.live.borrow().followed.view(), &self.name, changes)
    }
}

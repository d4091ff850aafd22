//! What the host of owners of a node of a simulated cluster asks of the directory, as `control` answers it: records of objects with copies on several
//! nodes, and changes of them.
//!
//! Invariants: changes of one question are made in one transaction or not at all; a change is called made when this node serves what it says; what
//! is not known is called lost.
//! Never: decides who owns an object (`object` does).

use super::node::Node;
use base::{Epoch, NodeId, ObjectId};
use cluster::record::{NodeRecord, ObjectRecord};
use dataplane::{Change, ChangeOutcome, DirectoryAsk, Found, RecordRevision};
use directory::{DirectoryError, Key, Kind, Transaction, Versioned};
use std::rc::Rc;

/// A transaction, and the terms that the node begins with it; or an object whose record is another one by now.
type Changes = Result<(Transaction, Vec<(ObjectId, Epoch)>), ObjectId>;

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
        let live = self.live.borrow();
        let nodes = live.followed.view().all::<NodeRecord>()?;
        let id_of = |name: &str| nodes.iter().find(|n| n.name == name)?.id;
        let found = |object: &ObjectId| {
            let record = live.followed.view().find::<ObjectRecord>(&object.to_string())?;
            let found = record.and_then(|r| Some((RecordRevision(r.revision.0), cluster::ownership_of(&r.value, id_of)?)));
            Ok((*object, found))
        };
        objects.iter().map(found).collect()
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
    fn object_changes(&self, changes: &[Change]) -> Result<Changes, DirectoryError> {
        self.look()?;
        let live = self.live.borrow();
        let nodes = live.followed.view().all::<NodeRecord>()?;
        let name_of = |id: NodeId| nodes.iter().find(|n| n.id == Some(id)).map(|n| n.name.clone());
        let (mut transaction, mut begun) = (Transaction::new(), Vec::new());
        for change in changes {
            let record = live.followed.view().find::<ObjectRecord>(&change.object.to_string())?;
            let record = record.filter(|r| r.revision.0 == change.on.0);
            let new = record.as_ref().and_then(|r| cluster::with_ownership(&r.value, &change.new, name_of));
            let (Some(Versioned { revision, .. }), Some(new)) = (record, new) else { return Ok(Err(change.object)) };
            if new.owner.as_deref() == Some(&self.name) {
                begun.push((change.object, new.ownership.term));
            }
            transaction = transaction.update(&Versioned { revision, value: new });
        }
        Ok(Ok((transaction, begun)))
    }
}

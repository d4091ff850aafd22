//! A directory of a simulated cluster that was made anew from a backup: as `control` does it, a node notices that at its start, says what it has, and the
//! leader confirms which copies are in sync. Where that cannot be known though all was said, the administrator goes on with the best that there is: nothing
//! is ever lost in these worlds, so that has everything.
//!
//! Invariant: nothing else is done at a start before what was restored is marked.
//! Never: decides which copies are in sync (`cluster::confirmed` and `cluster::gone_on` do).

use super::node::Node;
use base::{ComponentId, GroupId, ObjectId};
use cluster::record::ObjectRecord;
use cluster::{CopySeen, GroupSeen, Records, Waits};
use directory::{DirectoryError, Transaction, Typed, commit_known};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How often the leader looks whether all has been said.
const LOOK_NS: u64 = 300_000_000;

impl Node {
    /// At a start, before anything else.
    pub(super) async fn notes_restore(&self) -> Result<(), DirectoryError> {
        let marked = directory::note_store(&self.way, |t| commit_known(&self.way, t, self.nonce(), |_| {}))?;
        if marked > 0 {
            *self.workload.borrow_mut().counts.acts.entry("restored objects".into()).or_default() += marked as u64;
        }
        Ok(())
    }

    /// Which copies lie in its groups, where it has still to say that.
    pub(super) async fn sees_copies(&self, records: &Records) -> Result<(), DirectoryError> {
        self.live.borrow_mut().observed.copies.clear();
        if !records.objects.iter().any(|o| o.change.restored && !o.heard.nodes.contains(&self.name)) {
            return Ok(());
        }
        let is_open = |(id, seen): (&GroupId, &GroupSeen)| matches!(seen, GroupSeen::Open(_)).then_some(*id);
        let open: Vec<GroupId> = self.live.borrow().observed.groups.iter().filter_map(is_open).collect();
        for group in open {
            let accepted = self.answer(self.commands().accepted_epochs(group)).await.map_err(|_| DirectoryError::Unavailable)?;
            let seen = accepted.into_iter().map(CopySeen::from);
            self.live.borrow_mut().observed.copies.insert(group, seen.collect());
        }
        Ok(())
    }

    /// The leader confirms objects of which all was heard.
    pub(super) async fn confirms_restored(self: Rc<Self>) {
        self.moment.until(|| self.is_serving()).await;
        loop {
            self.moment.sleep(LOOK_NS).await;
            if self.live.borrow().leads.is_none_or(|(_, until)| until <= self.clock()) {
                continue;
            }
            let Ok(records) = self.look() else { continue };
            let to_hear = cluster::nodes_to_hear(&records);
            for object in records.objects.iter().filter(|o| o.change.restored && ends_waiting(o, &to_hear).is_some()) {
                let _ = self.change(|| self.confirmed(object.id, &to_hear)).await;
            }
        }
    }
    fn confirmed(&self, id: ObjectId, to_hear: &BTreeSet<String>) -> Result<Transaction, DirectoryError> {
        let object = self.way.find::<ObjectRecord>(&id.to_string())?.filter(|o| o.change.restored);
        let Some(mut object) = object else { return Ok(Transaction::new()) };
        let Some((now, by)) = ends_waiting(&object, to_hear) else { return Ok(Transaction::new()) };
        if by == EndedBy::Administrator {
            *self.workload.borrow_mut().counts.acts.entry("gone on with".into()).or_default() += 1;
        }
        object.value = now;
        Ok(Transaction::new().update(&object))
    }
}

/// Who says which copies of a restored object are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedBy {
    Leader,
    Administrator,
}

/// A restored object as it is from now on, and who says so; `None`: it waits.
fn ends_waiting(object: &ObjectRecord, to_hear: &BTreeSet<String>) -> Option<(ObjectRecord, EndedBy)> {
    match cluster::confirmed(object, to_hear) {
        Ok(now) => Some((now, EndedBy::Leader)),
        Err(Waits::NoneInSync(_)) => {
            let heard: BTreeSet<ComponentId> = object.heard.copies.iter().map(|copy| copy.component).collect();
            let gone = cluster::gone_on(object, |c| heard.contains(&c.id), None).ok()?;
            Some((gone.object, EndedBy::Administrator))
        }
        Err(Waits::Nodes(_) | Waits::Unknown(_)) => None,
    }
}

//! What the host of owners of a node asks of the directory: records of objects as the machine of their owner has them, and the transaction of changes.
//!
//! Invariant: changes that are asked for together are one transaction, and each is made of the record that it was judged by.
//! Never: decides who owns an object.

use crate::record::{NodeRecord, ObjectRecord};
use crate::{DirectoryError, Revision, Transaction, Versioned, View};
use base::{Epoch, NodeId, ObjectId, OwnershipRecord};

/// The record of an object, and by which revision; `None`: there is none.
pub type FoundOwnership = Option<(Revision, OwnershipRecord)>;

/// A transaction, and the terms that the node begins with it; or an object whose record is another one by now.
pub type OwnershipChanges = Result<(Transaction, Vec<(ObjectId, Epoch)>), ObjectId>;

/// The records of these objects.
pub fn ownerships(view: &View, objects: &[ObjectId]) -> Result<Vec<(ObjectId, FoundOwnership)>, DirectoryError> {
    let nodes = view.all::<NodeRecord>()?;
    let id_of = |name: &str| nodes.iter().find(|n| n.name == name)?.id;
    let found = |object: &ObjectId| {
        let record = view.find::<ObjectRecord>(&object.to_string())?;
        Ok((*object, record.and_then(|r| Some((r.revision, cluster::ownership_of(&r.value, id_of)?)))))
    };
    objects.iter().map(found).collect()
}

/// What changes these records: of which object, if it is still of this revision, to what. `node`: who asks.
pub fn ownership_changes<'a>(
    view: &View,
    node: &str,
    changes: impl IntoIterator<Item = (ObjectId, Revision, &'a OwnershipRecord)>,
) -> Result<OwnershipChanges, DirectoryError> {
    let nodes = view.all::<NodeRecord>()?;
    let name_of = |id: NodeId| nodes.iter().find(|n| n.id == Some(id)).map(|n| n.name.clone());
    let (mut transaction, mut begun) = (Transaction::new(), Vec::new());
    for (object, on, ownership) in changes {
        let record = view.find::<ObjectRecord>(&object.to_string())?.filter(|r| r.revision == on);
        let new = record.as_ref().and_then(|r| cluster::with_ownership(&r.value, ownership, name_of));
        let (Some(Versioned { revision, .. }), Some(new)) = (record, new) else { return Ok(Err(object)) };
        if new.owner.as_deref() == Some(node) {
            begun.push((object, new.ownership.term));
        }
        transaction = transaction.update(&Versioned { revision, value: new });
    }
    Ok(Ok((transaction, begun)))
}

#[cfg(test)]
#[path = "ownerships_tests.rs"]
mod tests;

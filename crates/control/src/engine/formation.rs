//! The engine and clusters: what forming one needs of it, and its nodes as an administrator changes them.
//!
//! Invariants: while changes are held, none is taken, and none is under way; a node is named in records by what never changes.
//! Never: forms a cluster; that is [`crate::formation`].

use super::*;
use crate::Code;
use crate::formation::Formation;
use std::sync::{RwLock, RwLockWriteGuard};

/// Whether changes of the directory are taken.
#[derive(Default)]
pub(super) struct Gate(RwLock<bool>);

impl Gate {
    /// Runs a change, if changes are taken.
    pub(super) fn pass<T>(&self, change: impl FnOnce() -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
        let held = self.0.read().unwrap_or_else(|e| e.into_inner());
        if *held { Err(DirectoryError::Unavailable) } else { change() }
    }
    fn held(&self) -> RwLockWriteGuard<'_, bool> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }
}

/// No change of the directory is taken as long as this lives, and no work on devices is half done.
pub(crate) struct Held<'a> {
    gate: &'a Gate,
    stays: bool,
    _devices: HeldDevices<'a>,
}

impl Held<'_> {
    /// No change is taken any more until the daemon ends.
    pub(crate) fn for_ever(mut self) {
        self.stays = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.gate.held() = self.stays;
    }
}

impl Control {
    /// What the daemon has to do with clusters.
    pub fn with_formation(self, formation: Arc<Formation>) -> Self {
        Self { formation: Some(formation), ..self }
    }
    /// The same, for requests.
    pub(crate) fn formation(&self) -> Result<&Arc<Formation>, Problem> {
        let none = || Problem::new(Code::Unavailable, "this daemon cannot form a cluster", "run it with 'basalt serve'");
        self.formation.as_ref().ok_or_else(none)
    }
    pub(super) fn is_in_cluster(&self) -> bool {
        self.formation.as_ref().is_some_and(|f| f.membership().is_some())
    }
    pub(crate) fn directory(&self) -> Arc<dyn Directory> {
        self.directory.clone()
    }
    pub(crate) fn vault_key(&self) -> &[u8] {
        self.vault.key()
    }
    /// See [`Held`].
    pub(crate) fn hold_changes(&self) -> Held<'_> {
        let devices = self.devices();
        *self.gate.held() = true;
        Held { gate: &self.gate, stays: false, _devices: devices }
    }
    /// A change of records that no device has to do with.
    pub(crate) fn change_records<T>(&self, decide: impl FnMut() -> Result<(Transaction, T), Problem>) -> Result<T, Problem> {
        self.decided(decide).map(|(_, value)| value)
    }
    pub(crate) fn record_of(&self, node: &str) -> Result<Versioned<NodeRecord>, Problem> {
        self.again(node)
    }
    /// This node's record.
    pub(crate) fn own_record(&self) -> Result<NodeRecord, Problem> {
        Ok(self.own_record_of_directory()?)
    }
    pub(crate) fn own_record_of_directory(&self) -> Result<NodeRecord, DirectoryError> {
        let key = directory::Key::new(NodeRecord::KIND, &*self.identity.node);
        self.directory.find(&self.identity.node)?.map(|r: Versioned<NodeRecord>| r.value).ok_or(DirectoryError::Conflict { key })
    }
    /// The member of the cluster with this identity; `None`: there is none, or it was removed.
    pub(crate) fn member_with_id(&self, id: base::NodeId) -> Result<Option<String>, Problem> {
        let nodes = self.directory.all::<NodeRecord>()?;
        Ok(nodes.into_iter().find(|n| n.id == Some(id) && n.is_member()).map(|n| n.value.name))
    }
    /// The node that is called so.
    pub(crate) fn find_node(&self, name: &str) -> Result<Versioned<NodeRecord>, Problem> {
        self.node_called(name)
    }
    /// Forgets the disk groups of a node that goes. With `force` also those with volumes, which are lost.
    pub(crate) fn abandon_groups(&self, node: &NodeRecord, force: bool) -> Result<(), Problem> {
        let _devices = self.devices();
        let groups: Vec<_> = self.directory.all::<GroupRecord>()?.into_iter().filter(|g| g.node == node.name).collect();
        let mut lost = Vec::new();
        for group in &groups {
            lost.extend(self.volumes_on(group.id)?);
        }
        if !groups.is_empty() && !force {
            let names = groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(Problem::refused(
                format!("node {} has the disk groups {names}, with data of {} volume(s)", node.shown_name(), lost.len()),
                "remove the groups first; or use --force: the node's groups are lost, and the volumes that have no copy in sync elsewhere",
            ));
        }
        for volume in lost {
            self.lose_components(&volume, |c| c.node == node.name)?;
        }
        for group in groups {
            let group = self.group_record(&group.id())?;
            self.forget_group(group)?;
        }
        Ok(())
    }
    /// Removes all disk groups of this node, with the volumes on them.
    pub(crate) fn destroy_all(&self) -> Result<(), Problem> {
        for group in self.directory.all::<GroupRecord>()?.into_iter().filter(|g| g.node == self.identity.node) {
            self.remove_group(&group.id.to_string(), true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "formation_tests.rs"]
mod tests;

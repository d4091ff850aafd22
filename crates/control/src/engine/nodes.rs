//! Nodes: the servers of the cluster, and what this one says of itself.
//!
//! Invariant: a node has a slot before it serves, and no other node has it; a node that was removed does not start again under its old record.
//! Never: calls a server a host; that is who connects.

use super::*;
use crate::api::types as api;
use crate::portals::{OwnAddress, iscsi_portals, portals};
use base::{NodeId, NodeRole, NodeSlot};
use cluster::{FreeSlot, free_slot};

/// Among the names of nodes: who has a slot. No node is called so, for a name has no space.
fn slot_name(slot: NodeSlot) -> String {
    format!("slot {slot}")
}

/// The slot that the node with this name has, or gets when it starts.
pub fn slot_of(directory: &dyn Directory, node: &str) -> Result<NodeSlot, StartError> {
    let nodes: Vec<NodeRecord> = directory.all()?.into_iter().map(|n: Versioned<NodeRecord>| n.value).collect();
    let has = nodes.iter().find(|n| n.name == node).and_then(|n| n.slot);
    has.or_else(|| free_slot(&nodes).map(|free| free.slot)).ok_or(StartError::NoSlot)
}

impl Control {
    /// This node's record as it is from this start on, in a transaction: its identity and slot, if it has none, and one start more.
    pub(super) fn starting(&self, mut t: Transaction) -> Result<Transaction, StartError> {
        let nodes = self.directory.all::<NodeRecord>()?;
        let records: Vec<NodeRecord> = nodes.iter().map(|n| n.value.clone()).collect();
        let there = nodes.iter().find(|n| n.name == self.identity.node);
        let new = || NodeRecord::new(self.identity.node.clone(), self.identity.fault_domain.clone(), now_unix_s());
        let mut node = there.map_or_else(new, |n| n.value.clone());
        if !node.is_member() {
            return Err(StartError::Removed { node: node.shown_name().to_owned() });
        }
        if there.is_none() && self.is_in_cluster() {
            return Err(StartError::NoMember { cluster: self.directory.cluster() });
        }
        if node.slot.is_none() {
            let FreeSlot { slot, of } = free_slot(&records).ok_or(StartError::NoSlot)?;
            node.slot = Some(slot);
            // Somebody who takes it meanwhile takes the same name.
            t = match HeldName::find(&*self.directory, Kind::Node, &slot_name(slot))? {
                Some(held) => t.retake_name(&held, &node.name),
                None => t.take_name(Kind::Node, &slot_name(slot), &node.name),
            };
            if let Some(had) = of.and_then(|of| nodes.iter().find(|n| n.name == of.name)) {
                let gives_up = NodeRecord { slot: None, ..had.value.clone() };
                t = t.update(&Versioned { revision: had.revision, value: gives_up });
            }
        }
        if let (Some(serves), Some(has)) = (self.slot, node.slot)
            && serves != has
        {
            return Err(StartError::OtherSlot { serves, has });
        }
        node.id = node.id.or_else(|| Some(NodeId::from_random(random())));
        node.begin_life(self.lives.as_ref().map_or(Ok(0), crate::formation::Home::life)?);
        node.release = self.identity.version.clone();
        Ok(match there {
            Some(there) => t.update(&Versioned { revision: there.revision, value: node }),
            None => t.create(&node),
        })
    }

    /// Writes down where hosts reach this node, for the other nodes to tell. To be called when it listens on all addresses; `own`: this machine's.
    pub fn publish_portals(&self, own: &[OwnAddress]) -> Result<(), Problem> {
        let (now, iscsi) = {
            let live = self.live();
            (portals(&live.listeners, own), iscsi_portals(&live.iscsi_listeners, own))
        };
        let decide = || {
            let mut node: Versioned<NodeRecord> = self.again(&self.identity.node)?;
            let changed = node.portals != now || node.iscsi_portals != iscsi;
            node.portals.clone_from(&now);
            node.iscsi_portals.clone_from(&iscsi);
            Ok((if changed { Transaction::new().update(&node) } else { Transaction::new() }, ()))
        };
        self.decided(decide).map(drop)
    }
    /// All nodes, by name.
    pub fn nodes(&self) -> Result<Vec<api::Node>, Problem> {
        let (groups, presences, leader) = (self.directory.all::<GroupRecord>()?, self.presences()?, self.leader()?);
        let show = |n: Versioned<NodeRecord>| self.show_node(&n, &groups, presences.get(&n.name), leader.as_deref());
        let members = self.directory.all::<NodeRecord>()?.into_iter().filter(|n| n.is_member());
        let mut nodes: Vec<api::Node> = members.map(show).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(nodes)
    }

    /// One node.
    pub fn node(&self, name: &str) -> Result<api::Node, Problem> {
        let (record, presences, leader) = (self.node_called(name)?, self.presences()?, self.leader()?);
        Ok(self.show_node(&record, &self.directory.all::<GroupRecord>()?, presences.get(&record.name), leader.as_deref()))
    }

    /// What the node is called that records name so.
    pub(super) fn shown_name_of(&self, node: &str) -> Result<String, DirectoryError> {
        let record = self.directory.find::<NodeRecord>(node)?;
        Ok(record.map_or_else(|| node.to_owned(), |n| n.shown_name().to_owned()))
    }

    /// The node that is called so, or that records name so; one that was removed has no name any more, and its id is good for it.
    pub(super) fn node_called(&self, name: &str) -> Result<Versioned<NodeRecord>, Problem> {
        let nodes = self.directory.all::<NodeRecord>()?;
        let called = |n: &Versioned<NodeRecord>| n.is_member() && n.shown_name().eq_ignore_ascii_case(name);
        let meant = |n: &Versioned<NodeRecord>| n.name == name || n.id.is_some_and(|id| id.to_string() == name);
        let at = nodes.iter().position(called).or_else(|| nodes.iter().position(meant));
        at.and_then(|at| nodes.into_iter().nth(at)).ok_or_else(|| Problem::not_found("node", name, "node list"))
    }

    /// Changes what a node is called, and with whom it fails together. Records go on naming it as they do.
    pub fn change_node(&self, name: &str, change: &api::NodeChange) -> Result<api::Node, Problem> {
        if let Some(new) = &change.name {
            cluster::check_name(new)?;
        }
        if let Some(domain) = &change.fault_domain {
            cluster::check_name(domain)?;
        }
        let decide = || {
            let mut node = self.node_called(name)?;
            if !node.is_member() {
                let message = format!("node {} was removed from the cluster", node.shown_name());
                return Err(Problem::refused(message, "'basalt node list' shows the nodes that there are"));
            }
            let mut t = Transaction::new();
            if let Some(new) = change.name.as_ref().filter(|new| *new != node.shown_name()) {
                t = self.renaming(t, &node, new)?;
                node.display_name = Some(new.clone());
            }
            if let Some(domain) = &change.fault_domain {
                node.fault_domain.clone_from(domain);
            }
            Ok((t.update(&node), node.name.clone()))
        };
        let (revision, key) = self.decided(decide)?;
        self.serve(revision)?;
        self.node(&key)
    }

    /// The names change with the record: the new one is nobody else's, the old one is free.
    fn renaming(&self, t: Transaction, node: &NodeRecord, new: &str) -> Result<Transaction, Problem> {
        let nodes = self.directory.all::<NodeRecord>()?;
        let other = |n: &&Versioned<NodeRecord>| n.name != node.name && n.is_member() && n.shown_name().eq_ignore_ascii_case(new);
        if nodes.iter().find(other).is_some() {
            return Err(Problem::exists("node", new));
        }
        let (old, held) =
            (HeldName::find(&*self.directory, Kind::Node, node.shown_name())?, HeldName::find(&*self.directory, Kind::Node, new)?);
        // Only upper and lower case differ: it is one name.
        let same = node.shown_name().eq_ignore_ascii_case(new);
        Ok(match (old, held) {
            (_, Some(held)) if same => t.retake_name(&held, &node.name),
            (_, Some(_)) => return Err(Problem::exists("node", new)),
            (Some(old), None) => t.free_name(&old).take_name(Kind::Node, new, &node.name),
            (None, None) => t.take_name(Kind::Node, new, &node.name),
        })
    }

    /// A node, with what it says of itself while it is up.
    fn show_node(
        &self,
        node: &NodeRecord,
        groups: &[Versioned<GroupRecord>],
        presence: Option<&PresenceRecord>,
        leader: Option<&str>,
    ) -> api::Node {
        let here = node.name == self.identity.node;
        let mut names: Vec<String> = groups.iter().filter(|g| g.node == node.name).map(|g| g.name.clone()).collect();
        names.sort();
        // a witness writes it down at its start, and does not say that it is up
        let recorded = || Some(node.release.clone()).filter(|release| node.role == NodeRole::Witness && !release.is_empty());
        api::Node {
            name: node.shown_name().to_owned(),
            id: node.id.map(|id| id.to_string()),
            role: node.role.word().to_owned(),
            address: node.address.map(|a| a.to_string()),
            removed: !node.is_member(),
            fault_domain: node.fault_domain.clone(),
            answers: here,
            up: here || presence.is_some(),
            leads: leader == Some(&node.name),
            version: if here { Some(self.identity.version.clone()) } else { presence.map_or_else(recorded, |p| Some(p.release.clone())) },
            cores: if here { Some(self.identity.cores as u32) } else { presence.map(|p| p.cores) },
            groups: names,
            etcd: self.formation.as_ref().and_then(|f| f.part_in_etcd(node)).map(str::to_owned),
            started_unix_s: if here { Some(self.started_unix_s) } else { presence.map(|p| p.started_unix_s) },
            created_unix_s: node.created_unix_s,
        }
    }
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;

//! What there is: nodes, their disk groups and capacity devices, with what is free.
//!
//! Invariant: facts only; whoever builds it leaves out what cannot be used now (offline groups, failed devices).

use base::GroupId;
use std::collections::{BTreeMap, BTreeSet};

/// All nodes of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// In any order; placement does not depend on it.
    pub nodes: Vec<NodeInventory>,
    /// Capacity devices that are to leave, by disk group and number: nothing is placed there, and what is there goes elsewhere.
    pub leaving: BTreeSet<(GroupId, u8)>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInventory {
    /// Its name.
    pub name: String,
    /// Nodes of one fault domain fail together. By default a node is its own.
    pub fault_domain: String,
    /// Its usable disk groups.
    pub groups: Vec<GroupInventory>,
}

/// One disk group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInventory {
    /// Its id.
    pub id: GroupId,
    /// Whether part of its cache device serves reads of data on slower capacity.
    pub read_cache: bool,
    /// Its usable capacity devices.
    pub devices: Vec<DeviceInventory>,
}

/// One capacity device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInventory {
    /// Its place among the group's capacity devices.
    pub index: u8,
    /// What it can hold, in bytes.
    pub bytes: u64,
    /// What is neither allocated nor reserved, in bytes.
    pub free_bytes: u64,
    /// The sizes of all components that lie on it, in bytes: what they are to hold, written or not.
    pub promised_bytes: u64,
}

impl DeviceInventory {
    /// What would be free if everything that is promised were written, in bytes: below zero where more is promised than there is.
    pub fn outlook_bytes(&self) -> i128 {
        (i128::from(self.bytes) - i128::from(self.promised_bytes)).min(i128::from(self.free_bytes))
    }
}

/// A device with where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub node: String,
    pub group: GroupId,
    pub index: u8,
    pub free_bytes: u64,
    pub outlook_bytes: i128,
}

/// What is compared where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// What would be free if everything that is promised were written.
    Outlook,
    /// What is free now: what a reservation can have.
    Free,
}

/// A fault domain and all its capacity devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    pub name: String,
    pub devices: Vec<Located>,
}

impl Domain {
    pub fn free_bytes(&self) -> u64 {
        self.devices.iter().fold(0u64, |sum, d| sum.saturating_add(d.free_bytes))
    }
    pub fn room(&self, room: Room) -> i128 {
        match room {
            Room::Outlook => self.devices.iter().map(|d| d.outlook_bytes).sum(),
            Room::Free => self.free_bytes().into(),
        }
    }
    /// The node of the domain that holds a copy: one with devices for every stripe, if there is one; of those with the most room; of those the
    /// first by name. A copy lies on one node: that one serves it.
    pub fn best_node(&self, width: usize, room: Room) -> Domain {
        let mut nodes: BTreeMap<&str, Vec<Located>> = BTreeMap::new();
        for device in &self.devices {
            nodes.entry(&device.node).or_default().push(device.clone());
        }
        let of_node = |devices| Domain { name: self.name.clone(), devices };
        let nodes = nodes.into_iter().map(|(name, devices)| (name, of_node(devices)));
        let best = nodes.min_by_key(|(name, d)| (d.devices.len() < width, core::cmp::Reverse(d.room(room)), *name));
        best.map_or_else(|| self.clone(), |(_, domain)| domain)
    }
}

impl Inventory {
    /// Without the nodes of other fault domains.
    pub fn within(mut self, fault_domain: &str) -> Self {
        self.nodes.retain(|n| n.fault_domain == fault_domain);
        self
    }

    /// With these disk groups only; none: with all.
    pub fn on(mut self, groups: &BTreeSet<GroupId>) -> Self {
        if !groups.is_empty() {
            self.nodes.iter_mut().for_each(|node| node.groups.retain(|group| groups.contains(&group.id)));
        }
        self
    }

    /// Fault domains that have at least one capacity device, by name.
    pub(crate) fn fault_domains(&self) -> Vec<Domain> {
        let mut domains: BTreeMap<&str, Vec<Located>> = BTreeMap::new();
        for node in &self.nodes {
            for group in &node.groups {
                for device in group.devices.iter().filter(|device| !self.leaving.contains(&(group.id, device.index))) {
                    domains.entry(&node.fault_domain).or_default().push(Located {
                        node: node.name.clone(),
                        group: group.id,
                        index: device.index,
                        free_bytes: device.free_bytes,
                        outlook_bytes: device.outlook_bytes(),
                    });
                }
            }
        }
        domains
            .into_iter()
            .map(|(name, mut devices)| {
                devices.sort_by(|a, b| (&a.node, a.group, a.index).cmp(&(&b.node, b.group, b.index)));
                Domain { name: name.to_owned(), devices }
            })
            .collect()
    }

    /// Whether every group keeps a read cache (and there is a group).
    pub(crate) fn has_read_cache(&self) -> bool {
        let mut groups = self.nodes.iter().flat_map(|h| &h.groups).peekable();
        groups.peek().is_some() && groups.all(|g| g.read_cache)
    }
}

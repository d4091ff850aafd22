//! The nodes that a granter or a counter knows, each with a number that fits into a mask.
//!
//! Invariant: a number names one node as long as that is there.

use base::{NODES_MAX, NodeId};
use std::collections::BTreeMap;

/// Other nodes at most. So the last bit of a mask is that of no node.
const OTHERS_MAX: u8 = NODES_MAX - 1;
/// The mask of a node that is none of those.
pub(super) const NOBODY: u64 = 1 << OTHERS_MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Nodes<T> {
    numbers: BTreeMap<NodeId, u8>,
    /// By number.
    nodes: Vec<Option<(NodeId, T)>>,
}

impl<T> Nodes<T> {
    pub fn new() -> Self {
        Self { numbers: BTreeMap::new(), nodes: Vec::new() }
    }
    /// The number of a node, which is added if it is not there; `None`: there are as many as there can be.
    pub fn place(&mut self, node: NodeId, new: impl FnOnce() -> T) -> Option<u8> {
        if let Some(number) = self.number(node) {
            return Some(number);
        }
        let free = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        if free >= usize::from(OTHERS_MAX) {
            return None;
        }
        if free == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[free] = Some((node, new()));
        self.numbers.insert(node, free as u8);
        Some(free as u8)
    }
    pub fn remove(&mut self, node: NodeId) -> Option<u8> {
        let number = self.numbers.remove(&node)?;
        self.nodes[usize::from(number)] = None;
        Some(number)
    }
    pub fn number(&self, node: NodeId) -> Option<u8> {
        self.numbers.get(&node).copied()
    }
    pub fn get(&self, node: NodeId) -> Option<&T> {
        self.at(self.number(node)?).map(|(_, t)| t)
    }
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut T> {
        let number = self.number(node)?;
        self.at_mut(number).map(|(_, t)| t)
    }
    pub fn at(&self, number: u8) -> Option<(NodeId, &T)> {
        self.nodes.get(usize::from(number))?.as_ref().map(|(node, t)| (*node, t))
    }
    pub fn at_mut(&mut self, number: u8) -> Option<(NodeId, &mut T)> {
        self.nodes.get_mut(usize::from(number))?.as_mut().map(|(node, t)| (*node, t))
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        self.nodes.iter().flatten().map(|(node, t)| (*node, t))
    }
    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut T)> {
        self.nodes.iter_mut().flatten().map(|(node, t)| (*node, t))
    }
}

/// The numbers in a mask.
pub(super) fn bits(mask: u64) -> impl Iterator<Item = u8> {
    core::iter::successors(Some(mask), |m| Some(m & m.wrapping_sub(1))).take_while(|m| *m != 0).map(|m| m.trailing_zeros() as u8)
}

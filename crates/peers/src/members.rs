//! All other nodes, as one core has them, and which of them its next turn has something to do for.
//!
//! ```text
//!   at rest ──touched, due──► looked at, once ──► what it says is sent ──► at rest, due at its deadline
//!                                 └───touched meanwhile: again in the next turn───┘
//! ```
//!
//! Invariants: who changes a member has touched it; one at rest has a deadline in `due` or none, so a turn costs what it has to do and not how many
//! nodes there are.
//! Never: does what is to be done.

use crate::member::Member;
use base::{Instant, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// What a turn knows of a member.
#[derive(Default)]
pub(crate) struct Turn {
    /// It is in `to_look_at`.
    looked_at: bool,
    /// It is in `to_send`.
    sends: bool,
    /// By which it is in `due`.
    due: Option<Instant>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Members {
    by_node: BTreeMap<NodeId, Member>,
    to_look_at: Vec<NodeId>,
    /// What was there when the turn began, the last first.
    looking_at: Vec<NodeId>,
    to_send: Vec<NodeId>,
    due: BTreeSet<(Instant, NodeId)>,
}

impl Members {
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }
    pub fn nodes(&self) -> Vec<NodeId> {
        self.by_node.keys().copied().collect()
    }
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_node.values()
    }
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.by_node.get(&node)
    }
    /// To change it: it is looked at, and what it says is sent.
    pub fn touch(&mut self, node: NodeId) -> Option<&mut Member> {
        let member = self.by_node.get_mut(&node)?;
        if !std::mem::replace(&mut member.turn.looked_at, true) {
            self.to_look_at.push(node);
        }
        if !std::mem::replace(&mut member.turn.sends, true) {
            self.to_send.push(node);
        }
        Some(member)
    }
    /// To change it where it was touched already in this turn.
    pub fn touched(&mut self, node: NodeId) -> Option<&mut Member> {
        let member = self.by_node.get_mut(&node);
        debug_assert!(member.as_ref().is_none_or(|m| m.turn.sends), "{node} is at rest");
        member
    }
    pub fn touch_all(&mut self) {
        for node in self.nodes() {
            self.touch(node);
        }
    }
    /// The member, made if it is new; touched.
    pub fn or_insert_with(&mut self, node: NodeId, new: impl FnOnce() -> Member) -> &mut Member {
        self.by_node.entry(node).or_insert_with(new);
        self.touch(node).expect("inserted above")
    }
    pub fn remove(&mut self, node: NodeId) -> Option<Member> {
        let member = self.by_node.remove(&node)?;
        self.to_look_at.retain(|other| *other != node);
        self.looking_at.retain(|other| *other != node);
        self.to_send.retain(|other| *other != node);
        if let Some(at) = member.turn.due {
            self.due.remove(&(at, node));
        }
        Some(member)
    }

    /// The turn looks at those that were touched or are due. Who is touched from now on is looked at in the next.
    pub fn begin_turn(&mut self, now: Instant) {
        while let Some((at, node)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, node));
            self.touch(node).expect("removed with the member").turn.due = None;
        }
        std::mem::swap(&mut self.looking_at, &mut self.to_look_at);
        self.looking_at.sort_unstable_by(|a, b| b.cmp(a));
        for node in &self.looking_at {
            let member = self.by_node.get_mut(node).expect("removed with the member");
            member.turn.looked_at = false;
            if !std::mem::replace(&mut member.turn.sends, true) {
                self.to_send.push(*node);
            }
        }
    }
    /// The next one that the turn looks at, in the order of their identities.
    pub fn next_to_look_at(&mut self) -> Option<NodeId> {
        self.looking_at.pop()
    }
    /// Does that with each that may have something to send.
    pub fn for_each_to_send(&mut self, mut with: impl FnMut(&mut Member)) {
        for node in &self.to_send {
            with(self.by_node.get_mut(node).expect("removed with the member"));
        }
    }
    /// What they said is sent. When the first of all has something to do.
    pub fn rest(&mut self) -> Option<Instant> {
        for node in self.to_send.drain(..) {
            let member = self.by_node.get_mut(&node).expect("removed with the member");
            member.turn.sends = false;
            let due = member.deadline();
            let before = std::mem::replace(&mut member.turn.due, due);
            if before != due {
                before.map(|at| self.due.remove(&(at, node)));
                due.map(|at| self.due.insert((at, node)));
            }
        }
        self.due.first().map(|(at, _)| *at)
    }
}

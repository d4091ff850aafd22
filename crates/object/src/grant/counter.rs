//! The node that asks for grants: which it counts, for which objects, and which nodes are silent.
//!
//! Owns: [`Counter`]; it writes the cells that all cores look at.
//! Invariants: a grant counts for the objects that were claimed before its heartbeat on the same link, and from when that was sent; of an
//! object that was given up nothing counts any more.
//! Never: knows what is read.

use super::cells::{GrantCell, GrantCells};
use super::nodes::{NOBODY, Nodes, bits};
use super::{CLAIMS_MAX, GONE, HEARTBEAT_APART, HEARTBEAT_EVERY, LATE, PAUSE_MIN};
use crate::owner::Reach;
use base::hooks::{self, SeededFault};
use base::{Epoch, Instant, NodeId, ObjectId};
use format::peer::{BEAT_ENTRIES_MAX, Grant, GrantState, Heartbeat};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A grant that answers no heartbeat of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a grant for a heartbeat that was not sent")]
pub struct WrongGrant;

/// Another node.
#[derive(Debug)]
struct Beat {
    /// There is a link.
    open: bool,
    /// The first and the last heartbeat of the link.
    first: Option<Instant>,
    sent: Instant,
    due: Instant,
    /// Objects to claim, or to give up.
    unsaid: BTreeSet<ObjectId>,
    /// When something came last, or since when it is a member.
    heard: Instant,
    /// Something came.
    spoke: bool,
    /// It has said that it is about to end.
    ends: bool,
    reach: Option<Reach>,
}

/// An object that this node owns.
#[derive(Debug)]
struct Owned {
    epoch: Epoch,
    /// Where it is claimed.
    claimed: u64,
    cell: Arc<GrantCell>,
}

/// See the module.
#[derive(Debug)]
pub struct Counter {
    cells: Arc<GrantCells>,
    nodes: Nodes<Beat>,
    objects: BTreeMap<ObjectId, Owned>,
    /// The last heartbeat to anybody.
    last_sent: Instant,
    looked: Option<Instant>,
}

impl Counter {
    /// Of a node that owns nothing.
    #[expect(clippy::new_without_default, reason = "as the granter")]
    pub fn new() -> Self {
        Self { cells: Arc::default(), nodes: Nodes::new(), objects: BTreeMap::new(), last_sent: Instant(0), looked: None }
    }

    // ---- nodes ------------------------------------------------------------------------------------------------------

    /// A node is a member: from now on it is silent or not.
    pub fn add(&mut self, node: NodeId, now: Instant) {
        self.place(node, now);
    }
    fn place(&mut self, node: NodeId, now: Instant) -> Option<u8> {
        let new = || Beat {
            open: false,
            first: None,
            sent: Instant(0),
            due: now,
            unsaid: BTreeSet::new(),
            heard: now,
            spoke: false,
            ends: false,
            reach: None,
        };
        self.nodes.place(node, new)
    }
    /// It is no member any more.
    pub fn remove(&mut self, node: NodeId) {
        let Some(number) = self.nodes.remove(node) else { return };
        self.cells.forget(number);
        // Reads that need its grants are not answered, until they need others.
        for owned in self.objects.values_mut() {
            owned.claimed &= !(1 << number);
            owned.cell.exclude(number, true);
        }
    }
    /// There is a link with it: what is owned is claimed on it anew.
    pub fn opened(&mut self, node: NodeId, now: Instant) {
        let Some(number) = self.place(node, now) else { return };
        let claimed = self.objects.iter().filter(|(_, owned)| owned.claimed & 1 << number != 0).map(|(object, _)| *object);
        let unsaid = claimed.collect();
        let (_, beat) = self.nodes.at_mut(number).expect("placed");
        (beat.open, beat.first, beat.due, beat.unsaid, beat.ends) = (true, None, now, unsaid, false);
    }
    /// There is none any more. What was granted on it goes on counting.
    pub fn closed(&mut self, node: NodeId) {
        if let Some(beat) = self.nodes.get_mut(node) {
            beat.open = false;
            beat.unsaid.clear();
        }
    }
    /// Something has come from it.
    pub fn heard(&mut self, node: NodeId, now: Instant) {
        if let Some(beat) = self.nodes.get_mut(node) {
            (beat.heard, beat.spoke) = (beat.heard.max(now), true);
        }
    }
    /// It is about to end: it is late as soon as its link closes, until there is a new one.
    pub fn ends(&mut self, node: NodeId) {
        if let Some(beat) = self.nodes.get_mut(node).filter(|_| !hooks::seeded(SeededFault::EndUnheard)) {
            beat.ends = true;
        }
    }
    /// What is to be known of a node, when it changes. Call it until it has nothing more to say.
    pub fn reach(&mut self, now: Instant) -> Option<(NodeId, Reach)> {
        let looked = self.looked.replace(now).unwrap_or(now);
        if now.since(looked) >= PAUSE_MIN {
            let pause = now.since(looked);
            // What was heard since counts as it is.
            self.nodes.iter_mut().for_each(|(_, beat)| beat.heard = (beat.heard + pause).min(now));
        }
        self.nodes.iter_mut().find_map(|(node, beat)| {
            let silent = now.since(beat.heard);
            let reach = match beat.reach {
                None if silent < GONE && !beat.spoke => return None,
                _ if silent >= GONE => Reach::Gone,
                _ if silent >= LATE || beat.ends && !beat.open => Reach::Late,
                _ => Reach::Up,
            };
            (beat.reach.replace(reach) != Some(reach)).then_some((node, reach))
        })
    }
    /// What was said of a node last.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(node).is_some_and(|beat| beat.reach == Some(Reach::Up))
    }

    // ---- objects ----------------------------------------------------------------------------------------------------

    /// This node owns an object from an epoch on, with copies on these nodes. What its cores look at; before they have it nothing is sent
    /// that makes the node the owner at a copy. `None`: it owns as many as it can.
    pub fn own(&mut self, object: ObjectId, epoch: Epoch, nodes: &[NodeId], now: Instant) -> Option<Arc<GrantCell>> {
        self.disown(object);
        if self.objects.len() >= CLAIMS_MAX {
            return None;
        }
        let cell = Arc::new(GrantCell::new(Arc::clone(&self.cells), self.last_sent));
        self.objects.insert(object, Owned { epoch, claimed: 0, cell: Arc::clone(&cell) });
        let needs = self.claim(object, nodes, now);
        cell.needs(needs);
        Some(cell)
    }
    /// The mask of nodes, at which the object is claimed from now on.
    fn claim(&mut self, object: ObjectId, nodes: &[NodeId], now: Instant) -> u64 {
        let mut mask = 0;
        for node in nodes {
            let Some(number) = self.place(*node, now) else {
                mask |= NOBODY;
                continue;
            };
            mask |= 1 << number;
            let owned = self.objects.get_mut(&object).expect("owned");
            if owned.claimed & 1 << number == 0 {
                owned.claimed |= 1 << number;
                owned.cell.counts_since(self.last_sent);
                owned.cell.exclude(number, false);
                let (_, beat) = self.nodes.at_mut(number).expect("placed");
                if beat.open {
                    beat.unsaid.insert(object);
                    beat.due = beat.due.min(now.max(beat.sent + HEARTBEAT_APART));
                }
            }
        }
        mask
    }
    /// Its epoch is a higher one now.
    pub fn raise(&mut self, object: ObjectId, epoch: Epoch) {
        if let Some(owned) = self.objects.get_mut(&object) {
            owned.epoch = epoch;
        }
    }
    /// Reads need the grants of these nodes. Before a change of the record is sent that makes another one active.
    pub fn needs(&mut self, object: ObjectId, nodes: &[NodeId], now: Instant) {
        if self.objects.contains_key(&object) {
            let mask = self.claim(object, nodes, now);
            self.objects[&object].cell.needs(mask);
        }
    }
    /// The nodes whose grants reads need.
    #[cfg(test)]
    pub(crate) fn needed(&self, object: ObjectId) -> Vec<NodeId> {
        let needs = self.objects.get(&object).map_or(0, |owned| owned.cell.needed());
        bits(needs).filter_map(|number| Some(self.nodes.at(number)?.0)).collect()
    }
    /// This node does not own it any more: nothing is answered.
    pub fn disown(&mut self, object: ObjectId) {
        let Some(owned) = self.objects.remove(&object) else { return };
        owned.cell.ends();
        for number in bits(owned.claimed) {
            if let Some((_, beat)) = self.nodes.at_mut(number).filter(|(_, beat)| beat.open) {
                beat.unsaid.insert(object);
            }
        }
    }
    /// This node owns nothing any more.
    pub fn end(&mut self) {
        self.objects.values().for_each(|owned| owned.cell.ends());
        self.objects.clear();
    }

    // ---- heartbeats -------------------------------------------------------------------------------------------------

    /// The next part of a heartbeat to a node, if one is due. The clock is read just before.
    pub fn heartbeat(&mut self, node: NodeId, now: Instant) -> Option<Heartbeat> {
        let beat = self.nodes.get_mut(node).filter(|beat| beat.open && beat.due <= now)?;
        let objects = &self.objects;
        let claims = core::iter::from_fn(|| beat.unsaid.pop_first()).take(BEAT_ENTRIES_MAX);
        let claims = claims.map(|object| (object, objects.contains_key(&object))).collect();
        if !beat.unsaid.is_empty() {
            return Some(Heartbeat { clock: None, claims });
        }
        beat.first.get_or_insert(now);
        (beat.sent, beat.due, self.last_sent) = (now, now + HEARTBEAT_EVERY, now.max(self.last_sent));
        Some(Heartbeat { clock: Some(now), claims })
    }
    /// A part of a grant has come. Objects that another node has accepted a higher epoch of go to `outranked`.
    pub fn granted(&mut self, node: NodeId, grant: &Grant, now: Instant, outranked: &mut Vec<(ObjectId, Epoch)>) -> Result<(), WrongGrant> {
        let Some(number) = self.nodes.number(node) else { return Ok(()) };
        for (object, state) in &grant.objects {
            let Some(owned) = self.objects.get(object) else { continue };
            let above = |epoch: &Epoch| *epoch > owned.epoch;
            let excluded = match state {
                GrantState::Given => false,
                GrantState::Waits(epoch) | GrantState::Accepted(epoch) => above(epoch),
            };
            owned.cell.exclude(number, excluded);
            if let GrantState::Accepted(epoch) = state
                && excluded
            {
                outranked.push((*object, *epoch));
            }
        }
        let Some(clock) = grant.clock else { return Ok(()) };
        let (_, beat) = self.nodes.at(number).expect("it has a number");
        if beat.first.is_none_or(|first| clock < first) || clock > beat.sent {
            return Err(WrongGrant);
        }
        self.cells.granted(number, if hooks::seeded(SeededFault::GrantFromSending) { now } else { clock });
        Ok(())
    }
    /// When a heartbeat is due to a node that `speaks`, or nodes are to be looked at, at the latest.
    pub fn deadline(&self, speaks: impl Fn(NodeId) -> bool) -> Option<Instant> {
        let beats = self.nodes.iter().filter(|(node, beat)| beat.open && speaks(*node)).map(|(_, beat)| beat.due);
        let silence = |beat: &Beat| match beat.reach {
            Some(Reach::Gone) => None,
            Some(Reach::Late) | None => Some(beat.heard + GONE),
            Some(Reach::Up) => Some(beat.heard + LATE),
        };
        let silent = self.nodes.iter().filter_map(|(_, beat)| silence(beat)).min();
        // Who looks too rarely is taken for paused.
        let looks = self.looked.map(|looked| looked + HEARTBEAT_EVERY);
        let silent = silent.map(|at| looks.map_or(at, |looks| at.min(looks)));
        beats.chain(silent).min()
    }
}

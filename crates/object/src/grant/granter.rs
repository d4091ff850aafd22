//! The node that gives grants: to whom, until when, for which objects, and which epochs its copies may accept.
//!
//! Owns: [`Granter`].
//! Invariants: a copy accepts the epoch of another owner than the last one only when no grant of its object to that one can count; a node
//! hears of each change of the state of an object that it claims before it is granted anything after that change.
//! Never: makes an epoch durable; knows whether a claim is right.

use super::nodes::{Nodes, bits};
use super::{CLAIMS_MAX, GRANT, OBJECTS_MAX, RESTART_WAIT};
use base::hooks::{self, SeededFault};
use base::{ComponentId, Epoch, Incarnation, Instant, NodeId, ObjectId, OwnerId};
use format::peer::{BEAT_ENTRIES_MAX, Grant, GrantState, Heartbeat};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// A node claims more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more objects are claimed than can be")]
pub struct TooManyClaims;

/// Whether a copy may accept an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Now: make it durable, and say [`Granter::accepted`].
    Accept,
    /// Not yet. Ask again then; `None`: when another epoch that it accepts is durable.
    Wait(Option<Instant>),
    /// It has accepted this one, or there is no such copy (0).
    Refused(Epoch),
}

/// Another node.
#[derive(Debug)]
struct Grantee {
    /// Its latest life that was seen.
    incarnation: Incarnation,
    /// The grants to that life run until then.
    until: Instant,
    /// There is a link.
    open: bool,
    claims: usize,
    /// Objects whose state it is to hear.
    unsaid: BTreeSet<ObjectId>,
    /// A heartbeat that was not answered.
    asks: Option<Instant>,
}

/// A copy on this node.
#[derive(Clone, Copy, Debug)]
struct Copy {
    component: ComponentId,
    /// The highest epoch that is durable here, and whose; `None`: there was none yet.
    accepted: Option<(Epoch, OwnerId)>,
    /// What is being made durable.
    accepting: Option<(Epoch, OwnerId)>,
    /// What waits to be accepted.
    waits: Option<(Epoch, OwnerId)>,
    /// While grants to the owner that was accepted last are none for this object: until when those run that it had before.
    until: Option<Instant>,
}

/// An object with copies here, or that is claimed.
#[derive(Debug, Default)]
struct Held {
    copies: SmallVec<[Copy; 1]>,
    /// Nodes that claim it.
    claims: u64,
    /// This node takes it over, or fences it.
    blocked: bool,
    /// Who has given it up last, up to which epoch.
    released: Option<(NodeId, Epoch)>,
}

/// See the module.
#[derive(Debug)]
pub struct Granter {
    me: NodeId,
    started: Instant,
    nodes: Nodes<Grantee>,
    objects: BTreeMap<ObjectId, Held>,
}

impl Held {
    /// What a node is granted.
    fn state(&self, node: NodeId) -> GrantState {
        let highest = |of: fn(&Copy) -> Option<(Epoch, OwnerId)>, its: bool| {
            let epochs = self.copies.iter().filter_map(of).filter(|(_, by)| (by.node == node) == its).map(|(epoch, _)| epoch);
            epochs.max().unwrap_or(Epoch(0))
        };
        let (own, other, waits) = (highest(|c| c.accepted, true), highest(|c| c.accepted, false), highest(|c| c.waits, false));
        if other > own {
            GrantState::Accepted(other)
        } else if self.blocked || self.copies.is_empty() {
            GrantState::Waits(Epoch(u32::MAX))
        } else if waits > own {
            GrantState::Waits(waits)
        } else {
            GrantState::Given
        }
    }
    fn copy(&mut self, component: ComponentId) -> Option<&mut Copy> {
        self.copies.iter_mut().find(|c| c.component == component)
    }
}

impl Granter {
    /// Of a node that starts now. Its copies are to be named by [`Granter::component`] before anybody is granted anything of their objects.
    pub fn new(me: NodeId, now: Instant) -> Self {
        Self { me, started: now, nodes: Nodes::new(), objects: BTreeMap::new() }
    }

    // ---- nodes ------------------------------------------------------------------------------------------------------

    /// A node is in this life, or was.
    pub fn seen(&mut self, node: NodeId, incarnation: Incarnation) {
        if node == self.me {
            return;
        }
        let new = || Grantee { incarnation, until: Instant(0), open: false, claims: 0, unsaid: BTreeSet::new(), asks: None };
        let Some(number) = self.nodes.place(node, new) else { return };
        let (_, grantee) = self.nodes.at_mut(number).expect("placed");
        if grantee.incarnation < incarnation {
            // What the earlier life counted ended with it.
            (grantee.incarnation, grantee.until) = (incarnation, Instant(0));
        }
    }
    /// There is a link with it: it claims nothing there yet.
    pub fn opened(&mut self, node: NodeId, incarnation: Incarnation) {
        self.seen(node, incarnation);
        self.closed(node);
        if let Some(grantee) = self.nodes.get_mut(node) {
            grantee.open = grantee.incarnation == incarnation;
        }
    }
    /// There is none any more. Its grants run on.
    pub fn closed(&mut self, node: NodeId) {
        let Some(number) = self.nodes.number(node) else { return };
        let (_, grantee) = self.nodes.at_mut(number).expect("it has a number");
        (grantee.open, grantee.asks) = (false, None);
        grantee.unsaid.clear();
        if core::mem::take(&mut grantee.claims) > 0 {
            self.objects.retain(|_, held| {
                held.claims &= !(1 << number);
                !held.copies.is_empty() || held.claims != 0 || held.blocked
            });
        }
    }
    /// A part of a heartbeat has come.
    pub fn heartbeat(&mut self, node: NodeId, heartbeat: &Heartbeat) -> Result<(), TooManyClaims> {
        let Some(number) = self.nodes.number(node) else { return Ok(()) };
        if self.nodes.at(number).is_none_or(|(_, grantee)| !grantee.open) {
            return Ok(());
        }
        for (object, owned) in &heartbeat.claims {
            if *owned { self.claim(number, *object)? } else { self.disclaim(number, *object) }
        }
        let (_, grantee) = self.nodes.at_mut(number).expect("it has a number");
        grantee.asks = heartbeat.clock.or(grantee.asks);
        Ok(())
    }
    fn claim(&mut self, number: u8, object: ObjectId) -> Result<(), TooManyClaims> {
        let (_, grantee) = self.nodes.at_mut(number).expect("it has a number");
        if self.objects.len() >= OBJECTS_MAX && !self.objects.contains_key(&object) {
            return Err(TooManyClaims);
        }
        let held = self.objects.entry(object).or_default();
        if held.claims & 1 << number == 0 {
            held.claims |= 1 << number;
            grantee.claims += 1;
        }
        grantee.unsaid.insert(object);
        if grantee.claims > CLAIMS_MAX { Err(TooManyClaims) } else { Ok(()) }
    }
    fn disclaim(&mut self, number: u8, object: ObjectId) {
        let (_, grantee) = self.nodes.at_mut(number).expect("it has a number");
        let Some(held) = self.objects.get_mut(&object) else { return };
        if held.claims & 1 << number != 0 {
            held.claims &= !(1 << number);
            grantee.claims -= 1;
        }
        grantee.unsaid.remove(&object);
        self.drop_if_unused(object);
    }
    fn drop_if_unused(&mut self, object: ObjectId) {
        if self.objects.get(&object).is_some_and(|held| held.copies.is_empty() && held.claims == 0 && !held.blocked) {
            self.objects.remove(&object);
        }
    }
    /// The next part of a grant to a node that has asked. The clock is read just before.
    pub fn grant(&mut self, node: NodeId, now: Instant) -> Option<Grant> {
        let grantee = self.nodes.get_mut(node).filter(|grantee| grantee.open)?;
        let clock = grantee.asks?;
        let objects = &self.objects;
        let unsaid = core::iter::from_fn(|| grantee.unsaid.pop_first()).take(BEAT_ENTRIES_MAX);
        let unnamed = hooks::seeded(SeededFault::GrantNamesEpoch);
        let state = |held: &Held| if unnamed { GrantState::Given } else { held.state(node) };
        let states = unsaid.filter_map(|object| Some((object, state(objects.get(&object)?)))).collect();
        if !grantee.unsaid.is_empty() {
            return Some(Grant { clock: None, objects: states });
        }
        grantee.asks = None;
        grantee.until = now + GRANT;
        Some(Grant { clock: Some(clock), objects: states })
    }

    // ---- objects ----------------------------------------------------------------------------------------------------

    /// A copy is on this node, and this is the highest epoch that it has accepted.
    pub fn component(&mut self, object: ObjectId, component: ComponentId, accepted: Option<(Epoch, OwnerId)>) {
        if let Some((_, by)) = accepted {
            self.seen(by.node, by.incarnation);
        }
        self.change(object, |held| match held.copy(component) {
            Some(copy) => (copy.accepted, copy.until) = (accepted, None),
            None => held.copies.push(Copy { component, accepted, accepting: None, waits: None, until: None }),
        });
    }
    /// It is not here any more.
    pub fn without(&mut self, object: ObjectId, component: ComponentId) {
        self.change(object, |held| held.copies.retain(|c| c.component != component));
        self.drop_if_unused(object);
    }
    /// This node takes the object over or fences it, or does not any more: meanwhile nobody is granted anything of it.
    pub fn block(&mut self, object: ObjectId, blocked: bool) {
        self.change(object, |held| held.blocked = blocked);
        self.drop_if_unused(object);
    }
    /// A node answers nothing more of an object in epochs up to this one.
    pub fn released(&mut self, node: NodeId, object: ObjectId, epoch: Epoch) {
        let epoch = if hooks::seeded(SeededFault::ReleaseNamesEpoch) { Epoch(u32::MAX) } else { epoch };
        if let Some(held) = self.objects.get_mut(&object).filter(|held| !held.copies.is_empty()) {
            held.released = Some((node, epoch));
        }
    }
    /// Whether a copy may accept an epoch. If it may, or has to wait, nobody else is granted anything of the object.
    pub fn fence(&mut self, object: ObjectId, component: ComponentId, epoch: Epoch, by: OwnerId, now: Instant) -> Verdict {
        let Some(copy) = self.objects.get_mut(&object).and_then(|held| held.copy(component)) else { return Verdict::Refused(Epoch(0)) };
        if copy.accepting.is_some() {
            return Verdict::Wait(None);
        }
        match copy.accepted {
            Some((accepted, last)) if epoch < accepted || epoch == accepted && by != last => return Verdict::Refused(accepted),
            Some((accepted, _)) if epoch == accepted => return Verdict::Accept,
            Some((_, last)) if last.node != by.node => {
                if copy.waits.is_none_or(|(waits, _)| waits < epoch) {
                    self.change(object, |held| held.copy(component).expect("seen above").waits = Some((epoch, by)));
                }
                if let Some(until) = self.runs_out(object, component, last, by).filter(|until| *until > now) {
                    return Verdict::Wait(Some(until));
                }
            }
            Some(_) | None => {}
        }
        let copy = self.objects.get_mut(&object).and_then(|held| held.copy(component)).expect("seen above");
        copy.accepting = Some((epoch, by));
        Verdict::Accept
    }
    /// Until when the copy waits before it accepts an epoch of an owner on another node than the last one's.
    fn runs_out(&self, object: ObjectId, component: ComponentId, last: OwnerId, by: OwnerId) -> Option<Instant> {
        let held = self.objects.get(&object)?;
        let copy = held.copies.iter().find(|c| c.component == component)?;
        let restart = (!hooks::seeded(SeededFault::WaitAfterRestart)).then_some(self.started + RESTART_WAIT);
        let later_life = self.nodes.get(last.node).is_some_and(|grantee| grantee.incarnation > last.incarnation);
        let released = held.released.zip(copy.accepted).is_some_and(|((node, up_to), (epoch, _))| node == last.node && up_to >= epoch);
        let own_early = by.node == self.me && hooks::seeded(SeededFault::OwnCopyWaitsToo);
        let early = own_early || hooks::seeded(SeededFault::AcceptAfterGrants);
        let grants = copy.until.filter(|_| !later_life && !released && !early);
        restart.into_iter().chain(grants).max()
    }
    /// A copy has an epoch durable. If another node's, this one has ended its service of the object before.
    pub fn accepted(&mut self, object: ObjectId, component: ComponentId, epoch: Epoch, by: OwnerId) {
        self.seen(by.node, by.incarnation);
        if !self.objects.contains_key(&object) {
            return;
        }
        self.change(object, |held| {
            let Some(copy) = held.copy(component) else { return };
            copy.accepting = copy.accepting.filter(|(accepting, _)| *accepting > epoch);
            copy.waits = copy.waits.filter(|(waits, _)| *waits > epoch);
            if copy.accepted.is_none_or(|(accepted, _)| accepted < epoch) {
                (copy.accepted, copy.until) = (Some((epoch, by)), None);
            }
        });
    }
    /// The epoch was not made durable: it can be asked for again.
    pub fn not_accepted(&mut self, object: ObjectId, component: ComponentId) {
        if let Some(copy) = self.objects.get_mut(&object).and_then(|held| held.copy(component)) {
            copy.accepting = None;
        }
    }
    /// What a copy has accepted.
    pub fn has_accepted(&self, object: ObjectId, component: ComponentId) -> Option<(Epoch, OwnerId)> {
        self.objects.get(&object)?.copies.iter().find(|c| c.component == component)?.accepted
    }

    /// Changes an object: who claims it hears of that, and of each copy it is known until when grants to its last owner run.
    fn change(&mut self, object: ObjectId, change: impl FnOnce(&mut Held)) {
        let held = self.objects.entry(object).or_default();
        let states = |held: &Held, nodes: &Nodes<Grantee>| -> SmallVec<[(u8, GrantState); 4]> {
            bits(held.claims).filter_map(|n| nodes.at(n).map(|(node, _)| (n, held.state(node)))).collect()
        };
        let before = states(held, &self.nodes);
        change(held);
        for ((number, state), (_, before)) in states(held, &self.nodes).into_iter().zip(before) {
            if state != before
                && let Some((_, grantee)) = self.nodes.at_mut(number).filter(|(_, grantee)| grantee.open)
            {
                grantee.unsaid.insert(object);
            }
        }
        for at in 0..held.copies.len() {
            let Some((_, last)) = held.copies[at].accepted else { continue };
            let none = held.state(last.node) != GrantState::Given;
            let runs = || self.nodes.get(last.node).filter(|g| g.incarnation == last.incarnation).map(|g| g.until);
            held.copies[at].until = held.copies[at].until.or_else(runs).filter(|_| none);
        }
    }
}

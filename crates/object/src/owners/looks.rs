//! What no event says: objects that are looked at again, one by one when their record changes, and all of them now and then.
//!
//! Invariant: what is asked for is bounded, and nothing is asked for that is under way.
//! Never: takes over what another node serves.

use super::limits::RESYNCS_MAX;
use super::*;
use std::collections::BTreeSet;

impl Owners {
    /// All objects: who is to take over, which copies are to come back.
    pub(super) fn look(&mut self, g: &mut Grants<'_>) {
        let objects: Vec<ObjectId> = self.objects.keys().copied().collect();
        for object in objects {
            self.look_at(g, object);
            self.hands_over(g, object, true);
        }
        self.bring_back(g);
    }
    /// One object that this node does not own: its owner is gone, or was this node.
    pub(super) fn look_at(&mut self, g: &mut Grants<'_>, object: ObjectId) {
        let Some(hosted) = self.objects.get(&object) else { return };
        let Some(record) = hosted.owner.record() else { return };
        if hosted.is_busy() || hosted.turn.is_some() || self.queue.reads(object) || record.restored {
            return;
        }
        let (owner, mine) = (record.owner, record.active().any(|c| c.node == self.me.node));
        if self.ends_with(owner.node) {
            return;
        }
        if owner.node == self.me.node && !mine && !hooks::seeded(SeededFault::KeptWithoutCopy) {
            return self.gives_away(object);
        }
        // With no other copy that is reached, there is nobody to leave it to.
        let others = record.active().any(|c| c.node != self.me.node && self.reach.get(&c.node) == Some(&Reach::Up));
        if hosted.rests > g.now && others {
            return;
        }
        if self.reach.get(&owner.node) == Some(&Reach::Gone) {
            return self.step(g, object, Event::Node { node: owner.node, reach: Reach::Gone });
        }
        // Who takes over evicts whom it does not reach: it waits until that is known of each.
        let known = |node: NodeId| node == self.me.node || matches!(self.reach.get(&node), Some(Reach::Up | Reach::Gone));
        if mine && record.active().all(|c| known(c.node)) && (owner.node == self.me.node || self.takes_turn_of(record)) {
            self.take_over(g, object);
        }
    }
    /// What has not drained in time stays, and is handed over later.
    pub(super) fn stay(&mut self, g: &mut Grants<'_>) {
        let late = |hosted: &Hosted| hosted.leaves.is_some_and(|since| since + limits::DRAINS <= g.now);
        let late: Vec<ObjectId> = self.objects.iter().filter(|(_, hosted)| late(hosted)).map(|(object, _)| *object).collect();
        for object in late {
            if let Some(hosted) = self.objects.get_mut(&object) {
                hosted.stays = g.now + limits::DRAINS_AGAIN;
            }
            self.step(g, object, Event::Stays);
        }
    }
    /// By the record this node is the owner; it does not serve, and cannot take over, because its copy has left: another node is to do it.
    fn gives_away(&mut self, object: ObjectId) {
        let Some(record) = self.objects.get(&object).and_then(|hosted| hosted.owner.record()) else { return };
        let nodes: BTreeSet<NodeId> = record.active().map(|c| c.node).collect();
        let Some(next) = nodes.iter().copied().find(|node| self.reach.get(node) == Some(&Reach::Up)) else { return };
        let release = Release { object, epoch: record.epoch(), next };
        self.actions.extend(nodes.into_iter().map(|to| Action::Release { to, release }));
    }
    /// The owner has restarted and cannot take over, having no copy in sync: the first of the others does.
    fn takes_turn_of(&self, record: &OwnershipRecord) -> bool {
        let owner = record.owner;
        let restarted = self.lives.get(&owner.node).is_some_and(|life| *life > owner.incarnation);
        let up = |node: NodeId| node == self.me.node || self.reach.get(&node) == Some(&Reach::Up);
        let first = record.active().map(|c| c.node).filter(|node| up(*node)).min();
        restarted && first == Some(self.me.node) && record.active().all(|c| c.node != owner.node)
    }
    /// Copies that are out come back, a few at a time. What was asked for before goes first, and is asked for again: it may have come to nothing.
    fn bring_back(&mut self, g: &mut Grants<'_>) {
        let late = |(object, hosted): (&ObjectId, &mut Hosted)| Some((*object, hosted.never_joined(g.now)?));
        for (object, copy) in self.objects.iter_mut().filter_map(late).collect::<Vec<_>>() {
            self.step(g, object, Event::CopyFails(copy));
        }
        let reach = &self.reach;
        let is_up = |node: NodeId| node == self.me.node || reach.get(&node) == Some(&Reach::Up);
        let room = RESYNCS_MAX.saturating_sub(self.objects.values().filter(|hosted| hosted.owner.resync().is_some()).count());
        let back = |hosted: &Hosted| hosted.comes_back(g.now, is_up);
        let candidates = self.objects.iter().filter_map(|(object, hosted)| Some((hosted.returning.is_none(), *object, back(hosted)?)));
        let mut candidates: Vec<_> = candidates.collect();
        candidates.sort_unstable();
        self.objects.values_mut().for_each(|hosted| hosted.returning = None);
        for (_, object, component) in candidates.into_iter().take(room) {
            if let Some(hosted) = self.objects.get_mut(&object) {
                hosted.returning = Some(component);
            }
            self.step(g, object, Event::BeginResync(component));
        }
    }
}

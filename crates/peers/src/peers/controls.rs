//! What comes and goes over control links.
//!
//! Invariant: a turn without anything of them costs a comparison.
//! Never: judges an epoch.

use super::*;
use crate::control::ControlLine;
use crate::desired::PeerDesired;
use base::OwnerId;
use format::peer::{Control, Incarnation, Load};
use object::link::LinkPlace;
use object::owner::Reach;
use object::owners::ControlEvent;

impl Peers {
    /// The control links and grants of this node, if it has other nodes and this is its first core.
    pub fn control(&mut self) -> Option<&mut ControlLinks> {
        self.control.as_deref_mut()
    }

    /// There is a control link with each other member.
    pub(super) fn apply_control(&mut self, rt: &Rt, own: &OwnNode) {
        if self.core != 0 {
            return;
        }
        let clock = rt.boot_clock();
        if self.control.as_ref().is_none_or(|control| control.own != *own) {
            if let Some(old) = self.control.take() {
                old.end();
            }
            self.control = Some(Box::new(ControlLinks::new(*own, clock)));
        }
        let (view, protection, leaving) = (Arc::clone(&self.view), self.view.desired.security.protection(), self.leaving);
        let wanted = |n: &&PeerDesired| !n.removed && n.node != own.node;
        let wanted: BTreeMap<NodeId, &PeerDesired> = view.desired.nodes.iter().filter(wanted).map(|n| (n.node, n)).collect();
        let gone: Vec<NodeId> = self.control.iter().flat_map(|c| c.lines.keys()).filter(|n| !wanted.contains_key(n)).copied().collect();
        for node in gone {
            self.forget_control(rt, node);
            self.control.iter_mut().for_each(|control| control.left(node));
        }
        let Some(control) = &mut self.control else { return };
        for (node, desired) in wanted {
            control.counter.add(node, clock);
            control.granter.seen(node, desired.incarnation);
            let new = || {
                let place = LinkPlace { class: LinkClass::Control, lane: 0 };
                let line = Line::new(own, *desired, place, lanes(self.cores, desired.cores), protection);
                ControlLine { line, open: None, fenced: Default::default() }
            };
            control.lines.entry(node).or_insert_with(new).line.apply(*desired, leaving);
        }
        control.stir();
    }

    /// The control link with a node ends.
    pub(super) fn forget_control(&mut self, rt: &Rt, node: NodeId) {
        let Some(control) = &mut self.control else { return };
        let Some(mut gone) = control.lines.remove(&node) else { return };
        if let Some(link) = gone.line.link() {
            link.close(CloseReason::Replaced);
        }
        control.closed(node);
        if let Some(at) = gone.line.conn {
            self.drop_conn(rt, at);
        }
    }

    /// Does what is due on control links. Whether there was anything.
    pub(super) fn poll_control(&mut self, rt: &Rt) -> bool {
        let now = rt.now();
        if !self.control.as_mut().is_some_and(|control| core::mem::take(&mut control.stirred) || control.due <= now) {
            return false;
        }
        let nodes: Vec<NodeId> = self.control.iter().flat_map(|control| control.lines.keys()).copied().collect();
        self.control.iter_mut().for_each(|control| control.sends = true);
        for node in &nodes {
            if let Some(line) = line(&mut self.members, &mut self.control, *node, LinkClass::Control) {
                line.peer.poll(now, || rt.random_u64() as u32);
            }
            if !self.draining {
                self.dial(rt, *node, LinkClass::Control);
            }
            self.take_control_events(rt, *node);
            let conn = self.control.as_ref().and_then(|control| control.lines.get(node)?.line.conn);
            if let Some(at) = conn.filter(|at| !self.conns[*at].socket.is_closed()) {
                self.read_on(rt, at);
            }
        }
        let Some(control) = &mut self.control else { return false };
        // Read after what came was taken: a grant is given after it was asked for.
        let clock = rt.boot_clock();
        while let Some((node, reach)) = control.counter.reach(clock) {
            if reach != Reach::Up {
                tracing::info!(%node, ?reach, "node is silent");
            }
            control.report([ControlEvent::Reach(node, reach)]);
        }
        nodes.iter().for_each(|node| control.speak(*node, clock));
        let speak: Vec<NodeId> = control.lines.iter_mut().filter_map(|(node, at)| at.line.link()?.may_say().then_some(*node)).collect();
        let beats = control.counter.deadline(|node| speak.contains(&node)).map(|at| now + at.since(clock));
        let lines = control.lines.values().filter_map(|c| c.line.peer.deadline());
        control.due = lines.chain(beats).min().unwrap_or(Instant(u64::MAX));
        control.stirred = false;
        true
    }

    fn take_control_events(&mut self, rt: &Rt, node: NodeId) {
        while let Some(control) = &mut self.control {
            if control.is_full() {
                return;
            }
            let Some(at) = control.lines.get_mut(&node) else { return };
            let Some(PlaceEvent { event, .. }) = at.line.peer.pop_event(rt.now()) else { return };
            match event {
                LinkEvent::Opened { incarnation, .. } => {
                    tracing::info!(%node, "control link open");
                    control.opened(node, incarnation, rt.boot_clock());
                }
                LinkEvent::Closed(reason) => {
                    tracing::info!(%node, ?reason, "control link closed");
                    control.closed(node);
                    self.explain(rt.now(), node, LinkClass::Control, reason);
                }
                LinkEvent::Control(message) => {
                    if let Err(why) = control.take(node, message, rt.boot_clock()) {
                        tracing::warn!(%node, why, "a node breaks the protocol of control links");
                        if let Some(link) = control.line(node).and_then(Line::link) {
                            link.close(CloseReason::Fault(object::link::LinkFault::Control));
                        }
                    }
                }
                LinkEvent::Greeted(..)
                | LinkEvent::Forwarded(_)
                | LinkEvent::Cancelled(_)
                | LinkEvent::Answered(_)
                | LinkEvent::CopyAsked(..)
                | LinkEvent::CopyAnswered(..) => unreachable!("a link of another class"),
            }
        }
    }
}

impl ControlLinks {
    /// This node is another one from now on: nothing of before is answered.
    fn end(mut self: Box<Self>) {
        self.counter.end();
    }
    fn opened(&mut self, node: NodeId, incarnation: Incarnation, clock: Instant) {
        let Some(at) = self.lines.get_mut(&node) else { return };
        (at.open, at.fenced) = (Some(incarnation), Default::default());
        self.counter.opened(node, clock);
        self.granter.opened(node, incarnation);
        self.report([ControlEvent::Opened(node, incarnation)]);
    }
    fn closed(&mut self, node: NodeId) {
        if let Some(at) = self.lines.get_mut(&node) {
            at.open = None;
        }
        self.counter.closed(node);
        self.granter.closed(node);
    }
    /// A node is no member any more.
    fn left(&mut self, node: NodeId) {
        self.counter.remove(node);
        self.report([ControlEvent::Left(node)]);
    }
    fn take(&mut self, node: NodeId, message: Control, clock: Instant) -> Result<(), &'static str> {
        let Some(ControlLine { open: Some(incarnation), fenced, .. }) = self.lines.get_mut(&node) else { return Ok(()) };
        self.counter.heard(node, clock);
        match message {
            Control::Heartbeat(heartbeat) => self.granter.heartbeat(node, &heartbeat).map_err(|_| "too many claims")?,
            Control::Grant(grant) => {
                let mut outranked = Vec::new();
                let granted = self.counter.granted(node, &grant, clock, &mut outranked);
                self.report(outranked.into_iter().map(|(object, epoch)| ControlEvent::Outranked(object, epoch)));
                granted.map_err(|_| "a grant that was not asked for")?;
            }
            Control::Release(release) => {
                self.granter.released(node, release.object, release.epoch);
                self.report([ControlEvent::Released(node, release.object, release.next)]);
            }
            Control::BadBlock(bad) => self.report([ControlEvent::BadBlock(node, bad)]),
            Control::Load(load) => {
                if load == Load::ENDS {
                    tracing::info!(%node, "node is about to end");
                    self.counter.ends(node);
                }
                self.report([ControlEvent::Load(node, load)]);
            }
            Control::CopyFails(fails) => self.report([ControlEvent::CopyFails(node, fails)]),
            Control::Fence(fence) => {
                let by = OwnerId { node, incarnation: *incarnation };
                self.report([ControlEvent::Fence(by, fence)]);
            }
            Control::Fenced(part) => {
                let fenced = fenced.add(&part).map_err(|_| "parts of an answer that do not go together")?;
                self.report(fenced.map(|fenced| ControlEvent::Fenced(node, fenced)));
            }
        }
        Ok(())
    }
    /// Heartbeats and grants that are due, as far as the link takes them.
    fn speak(&mut self, node: NodeId, clock: Instant) {
        let Some(link) = self.lines.get_mut(&node).and_then(|at| at.line.link()) else { return };
        while link.may_say() {
            let message = match self.counter.heartbeat(node, clock) {
                Some(heartbeat) => Control::Heartbeat(heartbeat),
                None => match self.granter.grant(node, clock) {
                    Some(grant) => Control::Grant(grant),
                    None => return,
                },
            };
            link.say(&message);
        }
    }
}

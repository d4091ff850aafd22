//! One core's half: connections, links, and requests both ways.
//!
//! Owns: see the crate. Invariants: the connection of a member is the one of its current link; a token names one request until it is answered.
//! Never: blocks.

use crate::conn::{Conn, Moving, Purpose};
use crate::control::ControlLinks;
use crate::desired::{OwnNode, PeersView};
use crate::limits::{EVENTS_A_TURN_MAX, GREETINGS_MAX, PAUSE_DISTRUST, PAUSE_MIN};
use crate::member::{Line, Member, lanes};
use crate::members::Members;
use crate::no_link::NoLink;
use crate::stamps::Pauses;
use crate::stats::PeersStats;
use crate::witness::Witness;
use base::hooks::{self, SeededFault};
use base::{HostId, Instant, NodeId, VolumeId};
use connection::{RefusalLog, Unauthenticated};
use copies::CopyLinks;
use format::peer::{Issuer, LinkClass, Revision};
use frontend::{LinkChange, ListenError};
use object::copies::{CopyAnswer, CopyCall};
use object::link::limits::STAMP_AGE_MAX;
use object::link::{Answered, CloseReason, ForwardError, ForwardOp, ForwardRequest, Forwarded, LinkEvent, PlaceEvent, ServedId};
use object::{Backend, DataVec, Forward, ForwardDone, ForwardOutcome, IoError, IoOp, IoRequest, VolumeRef};
use rt::{Buf, Completion, Event, ListenerId, NetError, Queue, Rt, TimerId};
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// What an operation is, in the lowest bits of its cookie.
const RECV: u64 = 0;
const SEND: u64 = 1;
const DIAL: u64 = 2;
const OTHER: u64 = 3;
const KIND_BITS: u32 = 2;

mod controls;
mod copies;
mod greetings;
mod sockets;

/// What halves say to each other.
pub enum PeersMsg {
    /// A connection of this lane, with what it has said so far.
    Accepted(Box<Moving>),
    /// A request for the core that has a lane with its owner.
    Forward(usize, Box<Forward>),
    /// What became of it.
    Forwarded(Box<ForwardDone>),
    /// A request of this core, by its id there, is not wanted any more by its host.
    Cancel(usize, u32),
    /// This core waits, by this number, until the half goes by a view.
    Settle(usize, u32, Settling),
    /// It does.
    Settled(u32),
    /// A request for a copy, of that core, for the core that has a lane with its node.
    CopyCall(usize, Box<CopyCall>),
    /// Its answer, by its token there.
    CopyAnswered(u64, Box<CopyAnswer>),
    /// The link for copies that the core uses has this number, or is closed.
    CopyLink(NodeId, Option<u64>),
}

/// A request of this node that is with another one.
struct Outgoing {
    node: NodeId,
    /// Whose router it is of.
    core: usize,
    id: u32,
    came: Instant,
}

/// A view of a volume, which a half is to go by, with nothing under way that was judged by an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Settling {
    volume: VolumeId,
    revision: u64,
}

/// Another node asks whether that is so on all cores.
struct Asked {
    node: NodeId,
    id: ServedId,
    volume: VolumeRef,
    /// Cores that have not said so.
    cores: usize,
}

/// A request of another node that has begun here.
struct Served {
    node: NodeId,
    id: ServedId,
    volume: VolumeRef,
    revision: Revision,
    stamp: Instant,
    reads: bool,
}

/// See the module.
pub struct Peers {
    core: usize,
    cores: usize,
    queue: Queue,
    view: Arc<PeersView>,
    own: Option<OwnNode>,
    members: Members,
    /// The control links, on the first core of a node with others.
    control: Option<Box<ControlLinks>>,
    conns: Slab<Conn>,
    /// Those of them that are not the connection of a link.
    unlinked: BTreeSet<usize>,
    /// Those that a turn sends on.
    sending: Vec<usize>,
    dials: Slab<(NodeId, LinkClass)>,
    listener: Option<ListenerId>,
    /// Who has not said who it is.
    unknown: Unauthenticated,
    greetings: u64,
    /// Receives of those that wait for their turn, at most one a connection.
    unheard: VecDeque<(usize, Result<usize, NetError>, Buf)>,
    refusals: RefusalLog,
    /// What was reported, for tests to look at.
    #[cfg(test)]
    pub(crate) reported: Vec<NoLink>,
    /// Where TLS decrypts a record.
    plain: Vec<u8>,
    outgoing: Slab<Outgoing>,
    served: Slab<Served>,
    asked: Slab<Asked>,
    /// Of these, what all cores go by.
    settled: Vec<u32>,
    /// Who waits for this half: core, its number there, and for what.
    settling: Vec<(usize, u32, Settling)>,
    /// Of mirrors with copies on several nodes.
    copies: Box<CopyLinks>,
    /// For this core's router.
    forwarded: VecDeque<ForwardDone>,
    msgs: VecDeque<(usize, PeersMsg)>,
    link_changes: VecDeque<LinkChange>,
    /// There is no other node, and nothing is left of any: a turn costs nothing.
    alone: bool,
    timer: Option<(TimerId, Instant)>,
    pauses: Pauses,
    draining: bool,
    /// Links end when nothing is under way on them.
    leaving: bool,
    stats: PeersStats,
    /// How many requests of other nodes were served since somebody has looked.
    served_for: BTreeMap<(VolumeId, NodeId), u64>,
}

impl Peers {
    /// Of a core without peers.
    pub fn new(rt: &Rt) -> Peers {
        Peers {
            core: rt.core(),
            cores: rt.cores(),
            queue: rt.queue(),
            view: Arc::default(),
            own: None,
            members: Members::default(),
            control: None,
            conns: Slab::new(),
            unlinked: BTreeSet::new(),
            sending: Vec::new(),
            dials: Slab::new(),
            listener: None,
            unknown: Unauthenticated::new(GREETINGS_MAX),
            greetings: 0,
            unheard: VecDeque::new(),
            refusals: RefusalLog::new("the counters of links have them all"),
            #[cfg(test)]
            reported: Vec::new(),
            plain: Vec::new(),
            outgoing: Slab::new(),
            served: Slab::new(),
            asked: Slab::new(),
            settled: Vec::new(),
            settling: Vec::new(),
            copies: Box::default(),
            link_changes: VecDeque::new(),
            alone: true,
            forwarded: VecDeque::new(),
            msgs: VecDeque::new(),
            timer: None,
            pauses: Pauses::default(),
            draining: false,
            leaving: false,
            stats: PeersStats::default(),
            served_for: BTreeMap::new(),
        }
    }

    /// Goes by this from now on. A node that is not a member any more has its links closed.
    pub fn apply(&mut self, rt: &Rt, view: Arc<PeersView>) {
        let same_security = self.view.desired.security == view.desired.security;
        let own = view.desired.own.filter(|_| view.desired.security.is_ready());
        let before = std::mem::replace(&mut self.own, own);
        self.view = view;
        self.alone = false;
        // Nobody may look: it is bounded by what there is.
        let (volumes, nodes) = (&self.view.volumes.places, &self.view.desired.nodes);
        self.served_for.retain(|(volume, node), _| volumes.contains_key(volume) && nodes.iter().any(|n| n.node == *node));
        if !same_security {
            self.end_all(rt);
        }
        if before != self.own {
            // Another identity, or none any more: what was agreed on as this one is over.
            self.members.nodes().into_iter().for_each(|node| self.forget(rt, node));
        }
        rt.wake(self.core);
        let Some(own) = self.own else { return };
        let wanted: BTreeMap<NodeId, _> =
            self.view.desired.nodes.iter().filter(|n| !n.removed && n.node != own.node).map(|n| (n.node, *n)).collect();
        let gone = self.members.nodes().into_iter().filter(|node| !wanted.contains_key(node));
        gone.for_each(|node| self.forget(rt, node));
        for (node, desired) in wanted {
            let lanes = lanes(self.cores, desired.cores);
            if self.core >= usize::from(lanes) {
                continue;
            }
            if self.members.get(node).is_some_and(|m| m.lanes != lanes) {
                self.forget(rt, node);
            }
            let (lane, protection) = (self.core as u8, self.view.desired.security.protection());
            let member = self.members.or_insert_with(node, || Member::new(&own, desired, lanes, lane, protection));
            member.line.apply(desired, self.leaving);
        }
        self.apply_control(rt, &own);
    }

    /// Takes links of other nodes there.
    pub fn listen(&mut self, rt: &Rt, at: SocketAddr) -> Result<SocketAddr, ListenError> {
        let listener = rt.listen(&self.queue, OTHER, at).map_err(|cause| ListenError { at: at.to_string(), cause })?;
        if let Some(old) = self.listener.replace(listener) {
            rt.close_listener(old);
        }
        self.alone = false;
        Ok(rt.local_addr(listener))
    }

    /// Does all there is to do.
    #[inline]
    pub fn poll<B: Backend>(&mut self, rt: &Rt, backend: &mut B) -> bool {
        if self.alone {
            let Some(forward) = backend.pop_forward() else { return false };
            backend.forwarded(rt, not_done(forward.id, forward.op));
            return true;
        }
        self.poll_with_others(rt, backend)
    }

    /// Inlined, so that the door to the volumes need not lie in memory for it: who is alone pays for that, too.
    #[inline(always)]
    fn poll_with_others<B: Backend>(&mut self, rt: &Rt, backend: &mut B) -> bool {
        let now = rt.now();
        self.pauses.look(now, self.members.iter().any(Member::is_open), PAUSE_MIN, PAUSE_DISTRUST);
        let mut busy = false;
        for _ in 0..EVENTS_A_TURN_MAX {
            let Some(Completion { cookie, event }) = self.queue.pop() else { break };
            busy = true;
            self.on_event(rt, cookie, event);
        }
        busy |= self.hear_greetings(rt);
        while let Some(done) = backend.pop() {
            busy = true;
            let served = self.served.remove(done.token as usize);
            self.answer(served, done.result, done.data);
        }
        while let Some(forward) = backend.pop_forward() {
            busy = true;
            self.forward(forward, self.core);
        }
        while let Some((owner, id)) = backend.pop_cancel() {
            busy = true;
            self.cancel(owner, self.core, id);
        }
        self.answer_settled(rt, backend);
        busy |= self.poll_members(rt, backend);
        busy |= self.poll_copies(rt, backend.copies());
        if self.control.is_some() {
            busy |= self.poll_control(rt);
        }
        self.settle(rt);
        while let Some(done) = self.forwarded.pop_front() {
            busy = true;
            backend.forwarded(rt, done);
        }
        self.flush(rt);
        self.arm(rt);
        self.alone = self.own.is_none() && self.has_nothing_left();
        busy
    }

    fn has_nothing_left(&self) -> bool {
        let idle = self.is_quiet()
            && self.copies.is_empty()
            && self.members.is_empty()
            && self.control.as_ref().is_none_or(|c| c.lines.is_empty())
            && self.asked.is_empty()
            && self.settling.is_empty()
            && self.unheard.is_empty();
        idle && self.conns.is_empty() && self.dials.is_empty() && self.listener.is_none() && self.timer.is_none() && self.msgs.is_empty()
    }

    /// Whether a request of another node, which a limit has held back, may begin.
    pub fn may_begin(&mut self, rt: &Rt, token: u64) -> bool {
        let Some(&Served { node, id, volume, revision, stamp, .. }) = self.served.get(token as usize) else { return false };
        let view = self.view.volumes.by_ref.get(volume.0 as usize).and_then(Option::as_ref);
        view.is_some_and(|v| v.owner.is_none() && v.revision == revision.0)
            && rt.clock().since(stamp) <= STAMP_AGE_MAX
            && self.members.touch(node).is_some_and(|m| m.line.peer.is_wanted(m.line.place, id))
    }

    /// Of another core's half.
    pub fn on_msg(&mut self, rt: &Rt, msg: PeersMsg) {
        match msg {
            PeersMsg::Accepted(moving) => self.take_over(rt, *moving),
            PeersMsg::Forward(core, forward) => self.forward(*forward, core),
            PeersMsg::Forwarded(done) => self.forwarded.push_back(*done),
            PeersMsg::Cancel(core, id) => self.cancel_here(core, id),
            PeersMsg::Settle(core, no, what) => self.settling.push((core, no, what)),
            PeersMsg::Settled(no) => self.one_more_settled(no),
            PeersMsg::CopyCall(core, call) => self.copy_call(*call, core),
            PeersMsg::CopyAnswered(token, answer) => self.on_copy_answered(token, *answer),
            PeersMsg::CopyLink(node, link) => self.on_copy_link(node, link),
        }
        self.alone = false;
        rt.wake(self.core);
    }
    /// The next link that has opened, or is closed for longer than requests wait for it.
    #[inline]
    pub fn link_change(&mut self) -> Option<LinkChange> {
        self.link_changes.pop_front()
    }
    #[inline]
    pub(crate) fn has_link_changes(&self) -> bool {
        !self.link_changes.is_empty()
    }
    /// Whether this half goes by this revision of a volume's view, or a later one, and no request that another node judged by an earlier one is
    /// under way here.
    pub fn is_settled(&self, volume: VolumeRef, revision: u64) -> bool {
        if hooks::seeded(SeededFault::ConfirmedTooEarly) {
            return true;
        }
        let view = self.view.volumes.by_ref.get(volume.0 as usize).and_then(Option::as_ref);
        let earlier = |s: &Served| s.volume == volume && s.revision.0 < revision && !hooks::seeded(SeededFault::ConfirmedUnderWay);
        view.is_none_or(|v| v.revision >= revision) && !self.served.iter().any(|(_, s)| earlier(s))
    }
    /// For another core's half.
    #[inline]
    pub fn pop_msg(&mut self) -> Option<(usize, PeersMsg)> {
        self.msgs.pop_front()
    }

    /// No new requests of others, and no new links. What hosts have under way here goes to copies on other nodes until [`Self::leave_nodes`].
    pub fn begin_shutdown(&mut self, rt: &Rt) {
        self.draining = true;
        if let Some(listener) = self.listener.take() {
            rt.close_listener(listener);
        }
    }
    /// Links end.
    pub fn leave_nodes(&mut self) {
        self.leaving = true;
        self.members.touch_all();
        self.members.for_each_to_send(|member| member.line.drain());
        if let Some(control) = &mut self.control {
            control.sends = true;
            control.lines().for_each(Line::drain);
        }
    }
    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.outgoing.is_empty() && self.served.is_empty() && self.forwarded.is_empty() && self.members.iter().all(Member::is_quiet)
    }
    /// What was counted.
    pub fn stats(&self) -> PeersStats {
        self.stats.clone()
    }

    // ---- requests of this node --------------------------------------------------------------------------------------

    fn forward(&mut self, forward: Forward, core: usize) {
        let came = self.pauses.came(forward.since);
        let Some(lane) = self.lane_with(forward.owner) else { return self.hand_back(core, not_done(forward.id, forward.op)) };
        if lane != self.core {
            return self.msgs.push_back((lane, PeersMsg::Forward(core, Box::new(forward))));
        }
        let Some(member) = self.members.touch(forward.owner).filter(|_| !self.draining) else {
            return self.hand_back(core, not_done(forward.id, forward.op));
        };
        let stamp = if member.is_open() { member.stamps.of(came) } else { None };
        let (Some(stamp), Some(link)) = (stamp, member.line.link()) else {
            return self.hand_back(core, not_done(forward.id, forward.op));
        };
        self.stats.forwarded += 1;
        let token = self.outgoing.insert(Outgoing { node: forward.owner, core, id: forward.id, came }) as u64;
        link.submit(ForwardRequest {
            token,
            volume: forward.volume,
            revision: Revision(forward.revision),
            stamp,
            issuer: Issuer { host: HostId::from_bytes([0; 16]), controller: 0 },
            op: ForwardOp::Io(forward.op),
        });
    }

    /// The host of a request has gone.
    fn cancel(&mut self, owner: NodeId, core: usize, id: u32) {
        let lane = self.lane_with(owner).unwrap_or(0);
        if lane == self.core { self.cancel_here(core, id) } else { self.msgs.push_back((lane, PeersMsg::Cancel(core, id))) }
    }
    fn cancel_here(&mut self, core: usize, id: u32) {
        let found = self.outgoing.iter().find(|(_, o)| o.core == core && o.id == id);
        let Some((token, node)) = found.map(|(token, o)| (token as u64, o.node)) else { return };
        if let Some(member) = self.members.touch(node)
            && let Some(link) = member.line.link()
        {
            self.stats.cancelled += 1;
            link.cancel(token);
        }
    }

    fn answered(&mut self, node: NodeId, Answered { request, result, data }: Answered) {
        let Outgoing { core, id, came, .. } = self.outgoing.remove(request.token as usize);
        let ForwardOp::Io(op) = request.op else { unreachable!("nothing else is passed on") };
        let outcome = match result {
            Ok(()) => ForwardOutcome::Answered(Ok(data)),
            Err(ForwardError::Io(IoError::Closing | IoError::Withdrawn)) => ForwardOutcome::NotDone(op),
            Err(ForwardError::Io(error)) => ForwardOutcome::Answered(Err(error)),
            Err(ForwardError::Miscompare { .. }) => ForwardOutcome::Answered(Err(IoError::Miscompare)),
            Err(ForwardError::LinkLost) if op.verb().changes() && !hooks::seeded(SeededFault::LostTakenForUndone) => {
                self.stats.lost += 1;
                let own = self.own.map_or(node, |own| own.node);
                let witness = Witness::of([own, node], request.volume, request.stamp.clock, &op);
                return match self.members.touched(node) {
                    Some(member) => member.lose(came, core, id, witness),
                    None => unreachable!("a node's requests are answered before it is forgotten"),
                };
            }
            Err(_) => ForwardOutcome::NotDone(op),
        };
        self.stats.returned += u64::from(matches!(outcome, ForwardOutcome::NotDone(_)));
        if hooks::seeded(SeededFault::ForwardAnsweredTwice) && matches!(outcome, ForwardOutcome::Answered(Ok(_))) {
            self.hand_back(core, ForwardDone { id, outcome: ForwardOutcome::Answered(Err(IoError::NoPath)) });
        }
        self.hand_back(core, ForwardDone { id, outcome });
    }

    fn hand_back(&mut self, core: usize, done: ForwardDone) {
        if core == self.core {
            self.forwarded.push_back(done);
        } else {
            self.msgs.push_back((core, PeersMsg::Forwarded(Box::new(done))));
        }
    }

    /// See [`FrontEnd::take_forwarded`](frontend::FrontEnd::take_forwarded).
    pub(crate) fn take_forwarded(&mut self) -> BTreeMap<(VolumeId, NodeId), u64> {
        core::mem::take(&mut self.served_for)
    }

    // ---- requests of other nodes ------------------------------------------------------------------------------------

    fn serve<B: Backend>(&mut self, rt: &Rt, backend: &mut B, node: NodeId, forwarded: Forwarded) {
        let Forwarded { id, volume, revision: judged_by, stamp, op, .. } = forwarded;
        let member = self.members.touched(node).expect("whose event it was");
        let place = self.view.volumes.places.get(&volume).copied();
        let view = place.and_then(|at| self.view.volumes.by_ref.get(at.0 as usize)?.as_ref());
        let (Some(at), Some(revision), ForwardOp::Io(op)) = (place, view.filter(|v| v.owner.is_none()).map(|v| Revision(v.revision)), op)
        else {
            self.stats.refused += 1;
            return member.line.peer.answer(member.line.place, id, Err(ForwardError::NotOwner), DataVec::new());
        };
        if self.draining {
            return member.line.peer.answer(member.line.place, id, Err(ForwardError::Draining), DataVec::new());
        }
        let asks = matches!(op, IoOp::Flush);
        let early = asks && hooks::seeded(SeededFault::ConfirmedTooEarly);
        let revision = if early { judged_by } else { revision };
        if member.line.peer.may_begin(member.line.place, id, rt.clock(), revision).is_err() {
            self.stats.refused += 1;
            return;
        }
        if asks {
            let cores = if hooks::seeded(SeededFault::ConfirmAsksOneCore) { 1 } else { self.cores };
            let no = self.asked.insert(Asked { node, id, volume: at, cores }) as u32;
            let settling = Settling { volume, revision: revision.0 };
            self.settling.push((self.core, no, settling));
            let others = (0..self.cores).filter(|core| *core != self.core && cores > 1);
            return self.msgs.extend(others.map(|core| (core, PeersMsg::Settle(self.core, no, settling))));
        }
        self.stats.served += 1;
        *self.served_for.entry((volume, node)).or_default() += 1;
        if let Some(own) = self.own {
            Witness::of([node, own.node], volume, stamp, &op).begins();
        }
        let reads = matches!(op, IoOp::Read { .. });
        let token = self.served.insert(Served { node, id, volume: at, revision, stamp, reads }) as u64;
        backend.submit(rt, IoRequest::new(token, at, op));
    }

    /// Says which of those who wait for this half need not any more.
    fn settle(&mut self, rt: &Rt) {
        if self.settling.is_empty() {
            return;
        }
        let places = &self.view.volumes.places;
        let is_settled = |s: &Settling| places.get(&s.volume).is_none_or(|at| self.is_settled(*at, s.revision));
        let (done, waiting): (Vec<_>, Vec<_>) = self.settling.iter().partition(|(.., s)| is_settled(s));
        self.settling = waiting;
        for (core, no, _) in done {
            if core == self.core {
                self.one_more_settled(no);
                rt.wake(self.core);
            } else {
                self.msgs.push_back((core, PeersMsg::Settled(no)));
            }
        }
    }
    /// One more core goes by what another node has asked about.
    fn one_more_settled(&mut self, no: u32) {
        let asked = &mut self.asked[no as usize];
        asked.cores -= 1;
        if asked.cores == 0 {
            self.settled.push(no);
        }
    }
    /// Answers what all cores go by, unless another node may own the volume by now: that one may serve a later view.
    fn answer_settled<B: Backend>(&mut self, rt: &Rt, backend: &B) {
        for no in core::mem::take(&mut self.settled) {
            let Asked { node, id, volume, .. } = self.asked.remove(no as usize);
            let owned = backend.may_answer(rt, volume) || hooks::seeded(SeededFault::ConfirmedWithoutGrants);
            if let Some(member) = self.members.touch(node) {
                let result = if owned { Ok(()) } else { Err(ForwardError::NotOwner) };
                member.line.peer.answer(member.line.place, id, result, DataVec::new());
            }
        }
    }

    fn answer(&mut self, Served { node, id, reads, .. }: Served, result: Result<(), IoError>, data: DataVec) {
        // A node that was removed meanwhile hears nothing.
        let Some(member) = self.members.touch(node) else { return };
        let data = if reads && result.is_ok() { data } else { DataVec::new() };
        member.line.peer.answer(member.line.place, id, result.map_err(ForwardError::Io), data);
    }

    /// The link of a class with a node is about to change: the turn looks at it.
    fn touch(&mut self, node: NodeId, class: LinkClass) {
        match class {
            LinkClass::Foreground => _ = self.members.touch(node),
            LinkClass::Control => self.control.iter_mut().for_each(|control| control.stir()),
            LinkClass::Background => {}
        }
    }
    /// The core that has the lane with a node which this one uses. `None`: it is no member.
    fn lane_with(&self, node: NodeId) -> Option<usize> {
        let here = self.members.get(node).map(|member| member.lanes);
        let desired = || self.view.desired.nodes.iter().find(|n| n.node == node && !n.removed).map(|n| lanes(self.cores, n.cores));
        here.or_else(desired).map(|lanes| self.core % usize::from(lanes))
    }

    // ---- links ------------------------------------------------------------------------------------------------------

    fn poll_members<B: Backend>(&mut self, rt: &Rt, backend: &mut B) -> bool {
        let now = rt.now();
        let mut busy = false;
        self.members.begin_turn(now);
        while let Some(node) = self.members.next_to_look_at() {
            let member = self.members.touched(node).expect("listed");
            member.line.peer.poll(now, || rt.random_u64() as u32);
            while let Some((core, done)) = member.pop_lost(now) {
                if core == self.core {
                    self.forwarded.push_back(done);
                } else {
                    self.msgs.push_back((core, PeersMsg::Forwarded(Box::new(done))));
                }
            }
            if !self.draining {
                self.dial(rt, node, LinkClass::Foreground);
            }
            busy |= self.take_events(rt, node, |this, rt, forwarded| this.serve(rt, backend, node, forwarded));
            let member = self.members.touched(node).expect("listed");
            self.link_changes.extend(member.change(now));
        }
        busy
    }

    fn dial(&mut self, rt: &Rt, node: NodeId, class: LinkClass) {
        let Some(line) = line(&mut self.members, &mut self.control, node, class) else { return };
        let Some(addr) = line.desired.addr else { return };
        if line.peer.due(rt.now()).is_some() {
            let at = self.dials.insert((node, class)) as u64;
            rt.connect(&self.queue, at << KIND_BITS | DIAL, addr);
        }
    }

    fn connected(&mut self, rt: &Rt, (node, class): (NodeId, LinkClass), result: Result<rt::ConnId, NetError>) {
        let (now, chance) = (rt.now(), rt.random_u64() as u32);
        self.touch(node, class);
        let Some(line) = line(&mut self.members, &mut self.control, node, class) else {
            if let Ok(id) = result {
                rt.close(id);
            }
            return;
        };
        let place = line.place;
        match result {
            Ok(id) => {
                let (Some(own), Some(addr)) = (self.own, line.desired.addr) else {
                    rt.close(id);
                    return line.peer.not_connected(place, now, chance);
                };
                match self.view.desired.security.dialed(&own, node) {
                    Ok(layer) => {
                        line.peer.connected(place, now);
                        let at = self.conns.insert(Conn::new(id, layer, addr, Purpose::Member(node, class), now));
                        self.take_conn(rt, node, class, at);
                    }
                    Err(fault) => {
                        rt.close(id);
                        line.peer.not_connected(place, now, chance);
                        self.report(now, &NoLink::dialing(node, addr, fault));
                    }
                }
            }
            Err(error) => {
                tracing::debug!(%node, addr = ?line.desired.addr, %error, "no connection to a node");
                line.peer.not_connected(place, now, chance);
            }
        }
    }

    /// The connection of a node's link is this one now.
    fn take_conn(&mut self, rt: &Rt, node: NodeId, class: LinkClass, at: usize) {
        self.touch(node, class);
        if class == LinkClass::Foreground
            && let Some(member) = self.members.touched(node)
        {
            member.stamps.clear();
        }
        let line = line(&mut self.members, &mut self.control, node, class).expect("a member");
        if let Some(old) = line.conn.replace(at) {
            self.drop_conn(rt, old);
        }
        self.read_on(rt, at);
    }

    /// A node is not a member any more, or in another way: its link ends, and its requests do not begin.
    fn forget(&mut self, rt: &Rt, node: NodeId) {
        self.forget_control(rt, node);
        let Some(member) = self.members.touch(node) else { return };
        if let Some(link) = member.line.link() {
            link.close(CloseReason::Replaced);
        }
        self.take_events(rt, node, |_, _, _| {});
        let Some(mut member) = self.members.remove(node) else { return };
        self.link_changes.extend(member.ended());
        while let Some((core, done)) = member.pop_lost(Instant(u64::MAX)) {
            self.hand_back(core, done);
        }
        if let Some(at) = member.line.conn {
            self.drop_conn(rt, at);
        }
    }

    fn take_events(&mut self, rt: &Rt, node: NodeId, mut serve: impl FnMut(&mut Self, &Rt, Forwarded)) -> bool {
        let mut any = false;
        while let Some(PlaceEvent { event, .. }) = self.members.touched(node).and_then(|m| m.line.peer.pop_event(rt.now())) {
            any = true;
            match event {
                LinkEvent::Greeted(..) => unreachable!("a member's link has greeted"),
                LinkEvent::Opened { version, .. } => {
                    self.copies_opened(node, version);
                    self.stats.links_opened += 1;
                    tracing::info!(%node, core = self.core, "link open");
                }
                LinkEvent::Forwarded(forwarded) => serve(self, rt, forwarded),
                LinkEvent::Cancelled(id) => {
                    let member = self.members.touched(node).expect("whose event it was");
                    member.line.peer.let_go(member.line.place, id);
                }
                LinkEvent::Answered(answered) => self.answered(node, answered),
                LinkEvent::CopyAsked(id, ask) => self.copy_asked(node, id, ask),
                LinkEvent::CopyAnswered(token, answer) => self.copy_answered(token, answer),
                LinkEvent::Control(_) => unreachable!("a link of another class"),
                LinkEvent::Closed(reason) => {
                    self.copies_closed(node);
                    self.stats.links_closed += 1;
                    tracing::info!(%node, core = self.core, ?reason, "link closed");
                    self.explain(rt.now(), node, LinkClass::Foreground, reason);
                    let member = self.members.touched(node).expect("whose event it was");
                    member.stamps.clear();
                }
            }
        }
        any
    }

    // ---- connections ------------------------------------------------------------------------------------------------

    fn on_event(&mut self, rt: &Rt, cookie: u64, event: Event) {
        let at = (cookie >> KIND_BITS) as usize;
        match event {
            Event::Accepted { conn, peer } => self.accepted(rt, conn, peer),
            Event::Connected { result } => {
                let whose = self.dials.remove(at);
                self.connected(rt, whose, result);
            }
            Event::Received { result, buf, .. } if self.conns[at].serial().is_some() => self.unheard.push_back((at, result, buf)),
            Event::Received { result, buf, .. } => self.on_received(rt, at, result, buf),
            Event::Sent { result, list, .. } => self.on_sent(rt, at, result, list),
            Event::Timer(_) => self.timer = None,
            other => unreachable!("{other:?}, which nobody asked for"),
        }
    }

    fn arm(&mut self, rt: &Rt) {
        let greetings = self.unlinked.iter().filter_map(|at| match &self.conns[*at].purpose {
            Purpose::Greeting(greeting) => greeting.link.deadline(),
            _ => None,
        });
        let control = self.control.as_ref().map(|control| control.due).filter(|due| *due != Instant(u64::MAX));
        let Some(at) = self.members.rest().into_iter().chain(greetings).chain(control).min() else { return };
        if self.timer.is_none_or(|(_, armed)| armed > at) {
            if let Some((id, _)) = self.timer.take() {
                rt.cancel_timer(id);
            }
            self.timer = Some((rt.timer(&self.queue, OTHER, at), at));
        }
    }
}

/// The link of a class that this core has with a node.
fn line<'a>(members: &'a mut Members, control: &'a mut Option<Box<ControlLinks>>, node: NodeId, class: LinkClass) -> Option<&'a mut Line> {
    match class {
        LinkClass::Control => control.as_mut()?.line(node),
        LinkClass::Foreground => members.touched(node).map(|member| &mut member.line),
        LinkClass::Background => None,
    }
}

fn not_done(id: u32, op: IoOp) -> ForwardDone {
    ForwardDone { id, outcome: ForwardOutcome::NotDone(op) }
}

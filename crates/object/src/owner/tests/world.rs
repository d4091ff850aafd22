//! Nodes with the machine, modelled copies, lanes, grants and a directory; messages that are late, doubled and dropped.

use super::copies::{ALL, BLOCKS, CHUNKS, Copy, What, lane, list, list_of_copy};
use super::fan::{Fan, OPS_MAX, Op, Read, Without};
use super::judge::{At, Broken, DIFFER, Judge, LOST, Mask, NOT_LINEAR, TWO_OWNERS, Value, bits};
use crate::owner::rules::{Rule, Rules};
use crate::owner::{Command, Event, Fenced, Listed, ObjectOwner, Outcome, OwnerState, RangeCopy, Revision};
use base::{
    BlockNo, ComponentId, CopyRecord, CopyState, Epoch, Incarnation, NodeId, Nonce, Order, OwnerId, Ownership, OwnershipRecord, Seq,
};
use std::collections::BTreeSet;

/// Messages under way; more are lost.
const MESSAGES_MAX: usize = 120;

#[derive(Clone, Debug)]
pub enum Message {
    Fence {
        epoch: Epoch,
        period_start: Epoch,
        resync: bool,
    },
    Fenced(Fenced),
    Change {
        chunk: usize,
        order: Order,
        resync: bool,
        mask: Mask,
        what: What,
        incarnation: Incarnation,
    },
    Ack {
        seq: Seq,
        at: At,
        copy: ComponentId,
        incarnation: Incarnation,
    },
    Release {
        epoch: Epoch,
    },
    /// To the source, which passes it on to the copy.
    List {
        copy: ComponentId,
        from: u64,
        epoch: Epoch,
    },
    ListOfCopy {
        listed: Listed,
        owner: usize,
    },
    Listed(Listed),
}

/// A message from a node, to a node or the copy of a mirror there.
#[derive(Clone, Debug)]
pub struct Sent {
    pub from: usize,
    pub to: usize,
    pub mirror: usize,
    pub message: Message,
}

#[derive(Clone, Debug)]
pub struct Cas {
    pub from: usize,
    pub incarnation: Incarnation,
    pub on: Revision,
    pub new: OwnershipRecord,
}

pub struct NodeAt {
    pub incarnation: Incarnation,
    pub machine: ObjectOwner,
    pub fan: Fan,
    pub cut: bool,
    pub released: Epoch,
    pub reads_record: bool,
}

pub struct World {
    pub mirrors: usize,
    pub nodes: Vec<NodeAt>,
    /// By mirror, then node.
    pub copies: Vec<Vec<Copy>>,
    pub record: OwnershipRecord,
    pub revision: Revision,
    pub history: Vec<(Revision, OwnershipRecord)>,
    pub cas: Vec<Cas>,
    /// Answers on their way.
    pub answers: Vec<(Cas, Outcome)>,
    pub messages: Vec<Sent>,
    /// Of granter and owner: it counts.
    pub grants: Vec<Vec<bool>>,
    pub judge: Judge,
    pub written: Value,
    pub takeovers: usize,
    pub resyncs: usize,
    pub answered: usize,
    /// Everything that happens is printed.
    pub trace: bool,
    without: Option<Rule>,
}

pub fn node_id(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}
fn node_no(id: NodeId) -> usize {
    usize::from(id.as_bytes()[0]) - 1
}
pub fn component(mirror: usize, node: usize) -> ComponentId {
    ComponentId::from_bytes([(mirror * 16 + node) as u8; 16])
}
fn place(component: ComponentId) -> (usize, usize) {
    let n = usize::from(component.as_bytes()[0]);
    (n / 16, n % 16)
}

impl World {
    pub fn new(nodes: usize, mirrors: usize, without: Option<Rule>) -> World {
        let copy = |mirror: usize, node: usize| CopyRecord {
            mirror: mirror as u16,
            node: node_id(node),
            component: component(mirror, node),
            state: CopyState::Active,
            synced_to: Epoch(0),
        };
        let copies = (0..mirrors).flat_map(|m| (0..nodes).map(move |n| copy(m, n))).collect();
        let owner = OwnerId { node: node_id(0), incarnation: Incarnation(0) };
        let record = OwnershipRecord { ownership: Ownership::FIRST, owner, nonce: Nonce::NONE, restored: false, copies };
        let mut world = World {
            mirrors,
            nodes: Vec::new(),
            copies: (0..mirrors).map(|_| (0..nodes).map(|_| Copy::new(0)).collect()).collect(),
            record: record.clone(),
            revision: Revision(1),
            history: vec![(Revision(1), record)],
            cas: Vec::new(),
            answers: Vec::new(),
            messages: Vec::new(),
            grants: vec![vec![false; nodes]; nodes],
            judge: Judge::default(),
            written: 0,
            takeovers: 0,
            resyncs: 0,
            answered: 0,
            trace: false,
            without,
        };
        for n in 0..nodes {
            let node = world.fresh(n, Incarnation(1));
            world.nodes.push(node);
        }
        world
    }
    fn fresh(&self, n: usize, incarnation: Incarnation) -> NodeAt {
        let nonce = Nonce((n as u128 + 1) << 96 | u128::from(incarnation.0) << 64);
        let mut machine = ObjectOwner::new(OwnerId { node: node_id(n), incarnation }, nonce);
        machine.rules = Rules { without: self.without };
        NodeAt { incarnation, machine, fan: Fan::default(), cut: false, released: Epoch(0), reads_record: false }
    }
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
    fn first(mirror: usize, chunk: usize) -> BlockNo {
        BlockNo((mirror * CHUNKS + chunk) as u64 * 16)
    }

    /// Something happens at a machine; its commands are carried out.
    pub fn event(&mut self, n: usize, event: Event) -> Result<(), Broken> {
        let mut out = Vec::new();
        if self.trace {
            println!("{n} {event:?}");
        }
        self.nodes[n].machine.handle(event, &mut out);
        if self.trace {
            out.iter().for_each(|command| println!("    -> {command:?}"));
        }
        for command in out {
            self.carry_out(n, command)?;
        }
        self.ends(n)
    }
    fn carry_out(&mut self, n: usize, command: Command) -> Result<(), Broken> {
        let incarnation = self.nodes[n].incarnation;
        match command {
            Command::ReadRecord => self.nodes[n].reads_record = true,
            Command::Change { on, new } => {
                if !self.cas.iter().any(|c| c.from == n && c.new == *new) {
                    self.cas.push(Cas { from: n, incarnation, on, new: *new });
                }
            }
            Command::Fence { to, epoch, period_start, resync } => {
                self.send(n, node_no(to.node), usize::from(to.mirror), Message::Fence { epoch, period_start, resync });
            }
            Command::Release { nodes, epoch, .. } => nodes.iter().for_each(|to| self.send(n, node_no(*to), 0, Message::Release { epoch })),
            Command::List { source, copy, from, epoch } => {
                let message = Message::List { copy: copy.component, from, epoch };
                self.send(n, node_no(source.node), usize::from(source.mirror), message);
            }
            Command::CopyRange(range) => self.nodes[n].fan.ranges.push(range),
            Command::Agree { mirror, lane: of, base_mark, source, ranges, .. } => {
                let at = (usize::from(mirror), of.index());
                let state = self.copies[at.0][node_no(source.node)].chunks[at.1];
                self.nodes[n].fan.base.insert(at, base_mark);
                let targets = self.nodes[n].fan.getting(at.0).into_iter().filter(|c| *c != source.component).collect::<BTreeSet<_>>();
                for range in ranges {
                    let bit = |b: u64| 1 << (b - Self::first(at.0, at.1).0);
                    let mask = (range.first.0..range.end().0).fold(0, |mask: Mask, b| mask | bit(b));
                    let what = What::Agree { content: state.content, free: state.there.is_none() };
                    self.begin(n, at, mask, what, targets.clone(), None, false);
                }
                let count = self.nodes[n].fan.ops.len();
                (0..count).for_each(|op| self.send_op(n, op));
            }
            command => self.carry_out_at_fan(n, command)?,
        }
        Ok(())
    }
    fn carry_out_at_fan(&mut self, n: usize, command: Command) -> Result<(), Broken> {
        let fan = &mut self.nodes[n].fan;
        match command {
            Command::MarkMoves { mirror, lane } => {
                fan.base.remove(&(usize::from(mirror), lane.index()));
            }
            Command::Targets(targets) => {
                fan.joined = fan.joined.filter(|j| targets.copies.iter().any(|(c, _)| c == j));
                let gets: BTreeSet<ComponentId> = targets.copies.iter().map(|(c, _)| c.component).collect();
                for op in &mut fan.ops {
                    for left in op.targets.difference(&gets) {
                        self.judge.misses(place(*left), op.at.1, op.mask);
                    }
                    op.targets.retain(|c| gets.contains(c));
                }
                fan.targets = Some(targets);
                let fan = &self.nodes[n].fan;
                let active = |c: ComponentId| fan.targets.iter().any(|t| t.copies.iter().any(|(x, s)| x.component == c && s.is_in_sync()));
                let gone: Vec<RangeCopy> =
                    fan.ranges.iter().copied().filter(|r| !active(r.source.component) || !gets.contains(&r.to.component)).collect();
                self.nodes[n].fan.ranges.retain(|r| !gone.contains(r));
                let count = self.nodes[n].fan.ops.len();
                (0..count).for_each(|op| self.send_op(n, op));
                for range in gone {
                    self.event(n, Event::NotCopied(range))?;
                }
            }
            Command::Answer { mirror, epoch } => {
                let answers = fan.answers.entry(mirror).or_default();
                *answers = epoch.max(*answers);
            }
            Command::GrantsOf(nodes) => fan.grants = nodes,
            Command::Serve => fan.serving = true,
            Command::Stop => *fan = Fan::default(),
            Command::Join { copy, invited } => {
                fan.joined = Some(copy);
                let under_way = fan.ops.iter().filter(|op| op.at.0 == usize::from(copy.mirror)).map(|op| (op.at, op.seq)).collect();
                fan.without = Some((copy.component, invited, under_way));
            }
            Command::Drain(number) => (fan.draining, fan.drained) = (Some(number), false),
            Command::Resume => fan.draining = None,
            _ => {} // whose turn it is comes at random
        }
        Ok(())
    }
    fn send(&mut self, from: usize, to: usize, mirror: usize, message: Message) {
        self.messages.push(Sent { from, to, mirror, message });
        if self.messages.len() > MESSAGES_MAX {
            self.messages.remove(0);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is one fact of the change")]
    fn begin(&mut self, n: usize, at: At, mask: Mask, what: What, targets: BTreeSet<ComponentId>, range: Option<RangeCopy>, send: bool) {
        let began = self.judge.begins();
        let fan = &mut self.nodes[n].fan;
        let seq = fan.number(at);
        fan.ops.push(Op { at, seq, mask, what, targets, acked: BTreeSet::new(), began, range });
        let op = self.nodes[n].fan.ops.len() - 1;
        if send {
            self.send_op(n, op);
        }
    }
    /// Sends a change to those that have not acknowledged it.
    pub fn send_op(&mut self, n: usize, op: usize) {
        let NodeAt { fan, incarnation, .. } = &self.nodes[n];
        let (op, incarnation) = (fan.ops[op].clone(), *incarnation);
        let Some(targets) = &fan.targets else { return };
        let Ownership { epoch, period_start, .. } = targets.ownership;
        let below = Seq { term: op.seq.term, counter: op.seq.counter - 1 };
        let order = Order { epoch, period_start, seq: op.seq, mark: fan.mark(op.at).min(below) };
        let joined = fan.joined.map(|j| j.component);
        for copy in op.targets.difference(&op.acked) {
            let (mirror, to) = place(*copy);
            let message =
                Message::Change { chunk: op.at.1, order, resync: joined == Some(*copy), mask: op.mask, what: op.what, incarnation };
            self.send(n, to, mirror, message);
        }
    }
    /// What has ended at an owner; and what else is due there.
    fn ends(&mut self, n: usize) -> Result<(), Broken> {
        let term = self.nodes[n].fan.term();
        for op in self.nodes[n].fan.take_ended() {
            match (op.what, op.range) {
                (What::Write(value) | What::Trim(value), _) => self.judge.ends(op.at, op.mask, value, op.began, LOST)?,
                (What::Agree { .. }, _) => {
                    let (mirror, lane) = (op.at.0 as u16, lane(op.at.1));
                    self.event(n, Event::Agreed { term, mirror, lane, ranges: 1 })?;
                }
                (What::Range { .. }, Some(range)) => self.event(n, Event::Copied(range))?,
                (What::Range { .. }, None) => unreachable!("a range has its name"),
            }
            self.answered += 1;
        }
        self.copies_ranges(n)?;
        let fan = &mut self.nodes[n].fan;
        let ops = &fan.ops;
        let has_ended = |(_, _, all): &mut Without| !all.iter().any(|(at, seq)| ops.iter().any(|op| (op.at, op.seq) == (*at, *seq)));
        if let Some((copy, invited, _)) = fan.without.take_if(has_ended) {
            self.event(n, Event::JoinDrained { copy, invited })?;
        }
        let fan = &mut self.nodes[n].fan;
        match fan.draining {
            Some(number) if fan.is_idle() && !core::mem::replace(&mut fan.drained, true) => self.event(n, Event::Drained(number)),
            _ => Ok(()),
        }
    }
    /// Ranges of the resync that have the range lock now.
    fn copies_ranges(&mut self, n: usize) -> Result<(), Broken> {
        let epoch = self.nodes[n].fan.targets.as_ref().map_or(Epoch(0), |t| t.ownership.epoch);
        loop {
            let fan = &self.nodes[n].fan;
            // A source that has accepted a higher epoch refuses: this is no owner any more.
            let reads = |r: &RangeCopy| self.copies[usize::from(r.source.mirror)][node_no(r.source.node)].accepted <= epoch;
            let free = |r: &RangeCopy| !fan.is_locked(Fan::chunk_of(r.chunk), r.mask & ALL) && reads(r);
            let Some(i) = fan.ranges.iter().position(free) else { return Ok(()) };
            let range = self.nodes[n].fan.ranges.remove(i);
            let at = Fan::chunk_of(range.chunk);
            let source = &self.copies[at.0][node_no(range.source.node)];
            if self.record.owner == (OwnerId { node: node_id(n), incarnation: self.nodes[n].incarnation }) {
                self.judge.copies(place(range.to.component), at.1, range.mask & ALL)?;
            }
            let what = What::Range { source: source.chunks[at.1], progress: range.progress };
            self.begin(n, at, range.mask & ALL, what, BTreeSet::from([range.to.component]), Some(range), true);
        }
    }

    /// Whether a message may come now: AcceptEpoch by its rule.
    pub fn can_come(&self, sent: &Sent) -> bool {
        if sent.from != sent.to && (self.nodes[sent.from].cut || self.nodes[sent.to].cut) {
            return false;
        }
        match &sent.message {
            Message::Fence { epoch, .. } | Message::List { epoch, .. } => self.may_accept(sent, *epoch),
            Message::Change { order, .. } => self.may_accept(sent, order.epoch),
            _ => true,
        }
    }
    fn may_accept(&self, sent: &Sent, epoch: Epoch) -> bool {
        let copy = &self.copies[sent.mirror][sent.to];
        let given = self.grants[sent.to].get(copy.by).is_some_and(|counts| *counts);
        epoch <= copy.accepted || sent.from == copy.by || !given || self.nodes[sent.to].released >= copy.accepted
    }
    /// AcceptEpoch. False: refused.
    fn accept(&mut self, sent: &Sent, epoch: Epoch, period_start: Epoch) -> Result<bool, Broken> {
        let copy = &mut self.copies[sent.mirror][sent.to];
        let rises = epoch > copy.accepted;
        let accepted = copy.accept(epoch, sent.from, period_start);
        if rises && sent.from != sent.to {
            let by = OwnerId { node: node_id(sent.from), incarnation: self.nodes[sent.from].incarnation };
            self.event(sent.to, Event::Accepted { epoch, by })?;
        }
        Ok(accepted)
    }
    pub fn comes(&mut self, sent: &Sent) -> Result<(), Broken> {
        let Sent { from, to, mirror, message } = sent.clone();
        if self.trace {
            println!("{from} to {to}: {message:?}");
        }
        match message {
            Message::Fence { epoch, period_start, resync } => {
                if self.accept(sent, epoch, period_start)? {
                    let (lanes, progress) = self.copies[mirror][to].fenced(|chunk| Self::first(mirror, chunk), resync);
                    let fenced = Fenced { from: component(mirror, to), epoch, lanes, resync: progress };
                    self.send(to, from, mirror, Message::Fenced(fenced));
                }
            }
            Message::Change { chunk, order, resync, mask, what, incarnation } => {
                if self.accept(sent, order.epoch, order.period_start)? {
                    let copy = &mut self.copies[mirror][to];
                    if !resync && copy.resyncing {
                        copy.is_in_sync();
                    }
                    copy.change(chunk, &order, mask, &what);
                    let ack = Message::Ack { seq: order.seq, at: (mirror, chunk), copy: component(mirror, to), incarnation };
                    self.send(to, from, mirror, ack);
                }
            }
            Message::Fenced(fenced) => return self.event(to, Event::Fenced(fenced)),
            Message::Ack { seq, at, copy, incarnation } => {
                let node = &mut self.nodes[to];
                if node.incarnation == incarnation {
                    node.fan.ops.iter_mut().filter(|op| (op.at, op.seq) == (at, seq)).for_each(|op| {
                        op.acked.insert(copy);
                    });
                    return self.ends(to);
                }
            }
            Message::Release { epoch } => self.nodes[to].released = epoch.max(self.nodes[to].released),
            Message::List { copy, from: chunk, epoch } => {
                if self.accept(sent, epoch, self.record.ownership.period_start)? {
                    let listed = list(&self.copies[mirror][to], chunk, (mirror * CHUNKS) as u64, epoch, 1 + u64::from(epoch.0) % 3);
                    self.send(to, place(copy).1, mirror, Message::ListOfCopy { listed, owner: from });
                }
            }
            Message::ListOfCopy { mut listed, owner } => {
                list_of_copy(&self.copies[mirror][to], (mirror * CHUNKS) as u64, &mut listed);
                self.send(to, owner, mirror, Message::Listed(listed));
            }
            Message::Listed(listed) => return self.event(to, Event::Listed(listed)),
        }
        Ok(())
    }

    /// The directory decides on a change. Returns whether it was made.
    pub fn decide(&mut self, cas: &Cas) -> bool {
        if self.trace {
            println!("decides {} {:?} {:?}", cas.from, cas.new.ownership, cas.on == self.revision);
        }
        if cas.on != self.revision {
            return false;
        }
        let (old, new) = (self.record.clone(), &cas.new);
        let was = |c: &CopyRecord, state| old.copy(c.component).is_some_and(|c| c.state == state);
        let left: Vec<_> = new.copies.iter().filter(|c| was(c, CopyState::Active) && c.state != CopyState::Active).collect();
        let dropped: Vec<_> = new.copies.iter().filter(|c| was(c, CopyState::Resyncing) && c.state == CopyState::Absent).collect();
        let others = old.copies.iter().filter(|c| c.state != CopyState::Active).count();
        self.judge.leave(left.len(), dropped.len(), others);
        for copy in left.iter().chain(&dropped) {
            self.misses_what_is_under_way(place(copy.component), &old);
        }
        for copy in new.copies.iter().filter(|c| c.state == CopyState::Active && !was(c, CopyState::Active)) {
            self.resyncs += 1;
            self.judge.returns(place(copy.component), new.is_whole());
        }
        self.takeovers += usize::from(new.owner != old.owner);
        self.revision = Revision(self.revision.0 + 1);
        self.record = cas.new.clone();
        self.history.push((self.revision, self.record.clone()));
        true
    }
    fn misses_what_is_under_way(&mut self, (mirror, node): (usize, usize), old: &OwnershipRecord) {
        let mut masks = [0; CHUNKS];
        for copy in old.active().filter(|c| usize::from(c.mirror) == mirror) {
            let copy = &self.copies[mirror][node_no(copy.node)];
            (0..CHUNKS).for_each(|chunk| masks[chunk] |= copy.doubt(chunk));
        }
        for op in self.nodes.iter().flat_map(|node| &node.fan.ops).filter(|op| op.at.0 == mirror) {
            masks[op.at.1] |= op.mask;
        }
        for sent in self.messages.iter().filter(|sent| sent.mirror == mirror) {
            if let Message::Change { chunk, mask, .. } = &sent.message {
                masks[*chunk] |= mask;
            }
        }
        (0..CHUNKS).for_each(|chunk| self.judge.misses((mirror, node), chunk, masks[chunk]));
    }
    /// The outcome of a change comes to who asked for it, if that life goes on.
    pub fn outcome(&mut self, cas: &Cas, outcome: Outcome) -> Result<(), Broken> {
        if self.nodes[cas.from].incarnation != cas.incarnation {
            return Ok(());
        }
        self.event(cas.from, Event::Changed { nonce: cas.new.nonce, outcome })
    }

    /// A host's change begins.
    pub fn write(&mut self, n: usize, at: At, mask: Mask, trim: bool) -> Result<(), Broken> {
        let fan = &self.nodes[n].fan;
        if !fan.serving || fan.draining.is_some() || fan.is_locked(at, mask) || fan.ops.len() >= OPS_MAX {
            return Ok(());
        }
        let targets = fan.getting(at.0);
        let mine = self.record.owner == (OwnerId { node: node_id(n), incarnation: self.nodes[n].incarnation });
        for copy in self.record.copies.iter().filter(|c| usize::from(c.mirror) == at.0) {
            // The list of a resync is read in pieces after the copy has joined, so it may have what the copy got since.
            let out = if mine { !targets.contains(&copy.component) || !copy.state.is_in_sync() } else { !copy.state.is_in_sync() };
            if out {
                self.judge.misses(place(copy.component), at.1, mask);
            }
        }
        self.written += 1;
        if self.trace {
            println!("{n} writes {} to {at:?} {mask}, {targets:?}", self.written);
        }
        let what = if trim { What::Trim(self.written) } else { What::Write(self.written) };
        self.begin(n, at, mask, what, targets, None, true);
        self.ends(n)
    }
    /// The data of a read is there.
    pub fn read(&mut self, n: usize, at: At, block: u8) {
        let fan = &self.nodes[n].fan;
        let Some(source) = fan.source(at.0).filter(|_| fan.serving && fan.draining.is_none()) else { return };
        let (epoch, from) = (fan.targets.as_ref().map_or(Epoch(0), |t| t.ownership.epoch), node_no(source.node));
        let copy = &self.copies[at.0][from];
        if fan.is_locked(at, 1 << block) || fan.reads.len() >= 3 || from != n && copy.accepted > epoch {
            return;
        }
        let (value, began) = (copy.chunks[at.1].content[usize::from(block)], self.judge.begins());
        self.nodes[n].fan.reads.push(Read { at, block, value, began });
    }
    /// Reads whose grants are valid are answered.
    pub fn answer_reads(&mut self, n: usize) -> Result<(), Broken> {
        let fan = &mut self.nodes[n].fan;
        if !fan.grants.iter().all(|g| self.grants[node_no(*g)][n]) {
            return Ok(());
        }
        let (reads, mine) = (core::mem::take(&mut fan.reads), fan.term());
        for read in &reads {
            self.answered += 1;
            self.judge.ends(read.at, 1 << read.block, read.value, read.began, NOT_LINEAR)?;
            if self.nodes.iter().any(|node| node.fan.serving && node.fan.term() > mine) {
                return Err(TWO_OWNERS);
            }
        }
        self.ends(n)
    }

    /// The memory of a node is lost, and what was on its way to it.
    pub fn crash(&mut self, n: usize) {
        if self.trace {
            println!("{n} restarts");
        }
        let (incarnation, cut) = (self.nodes[n].incarnation.0 + 1, self.nodes[n].cut);
        self.nodes[n] = NodeAt { cut, ..self.fresh(n, Incarnation(incarnation)) };
        self.messages.retain(|sent| sent.to != n);
        // Nobody counts what was granted to it. What it has granted it waits for.
        self.grants.iter_mut().for_each(|of| of[n] = false);
    }
    /// A granter answers a heartbeat.
    pub fn grant(&mut self, granter: usize, owner: usize) {
        let node = &self.nodes[owner];
        let accepted = self.copies.iter().map(|of| of[granter].accepted).max().unwrap_or_default();
        let epoch = node.fan.targets.as_ref().map_or(Epoch(0), |t| t.ownership.epoch);
        // It names the objects for which it is none.
        if granter != owner && node.fan.serving && self.nodes[granter].machine.may_grant() && accepted <= epoch {
            self.grants[granter][owner] = true;
        }
    }
    /// The directory is what it was once, and knows that.
    pub fn restore(&mut self, to: usize) {
        let (_, old) = self.history[to % self.history.len()].clone();
        self.revision = Revision(self.revision.0 + 1);
        self.record = OwnershipRecord { restored: true, ..old };
        self.judge.knows_nothing();
    }
    /// Every copy was fenced with an epoch above all others, and has said what it had accepted.
    pub fn confirm_restored(&mut self) {
        if !self.record.restored || !self.has(Rule::RestoredHearsAll) {
            return;
        }
        let mut new = OwnershipRecord { restored: false, nonce: Nonce(self.revision.0.into()), ..self.record.clone() };
        let top = self.copies.iter().flatten().map(|c| c.accepted).chain(self.history.iter().map(|(_, r)| r.epoch())).max();
        new.ownership.epoch = Epoch(top.unwrap_or_default().0 + 10);
        for mirror in 0..self.mirrors {
            // A copy under resync may have heard of an epoch before the active ones.
            let highest = self.copies[mirror].iter().filter(|c| !c.resyncing).map(|c| c.accepted).max();
            for record in new.copies.iter_mut().filter(|c| usize::from(c.mirror) == mirror) {
                let copy = &mut self.copies[mirror][node_no(record.node)];
                let in_sync = Some(copy.accepted) == highest && !copy.resyncing;
                record.synced_to = if copy.resyncing { record.synced_to } else { copy.accepted };
                record.state = if in_sync { CopyState::Active } else { CopyState::Absent };
                copy.accept(new.ownership.epoch, usize::MAX, new.ownership.period_start);
            }
        }
        self.revision = Revision(self.revision.0 + 1);
        self.record = new;
        self.history.push((self.revision, self.record.clone()));
    }

    /// What holds in every state.
    pub fn check(&self) -> Result<(), Broken> {
        if self.record.restored {
            return Ok(());
        }
        for copy in self.record.active() {
            let (mirror, node) = place(copy.component);
            for at in (0..CHUNKS).map(|chunk| (mirror, chunk)) {
                let content = &self.copies[mirror][node].chunks[at.1].content;
                if (0..BLOCKS).any(|b| self.judge.is_old(at, b as u8, content[b])) {
                    return Err(LOST);
                }
            }
        }
        self.check_equal()
    }
    fn check_equal(&self) -> Result<(), Broken> {
        let node = &self.nodes[node_no(self.record.owner.node)];
        let mine = node.machine.record().is_some_and(|record| *record == self.record) && node.machine.state() == OwnerState::Serving;
        if !mine || node.incarnation != self.record.owner.incarnation || !node.fan.serving {
            return Ok(());
        }
        for (mirror, chunk) in (0..self.mirrors).flat_map(|m| (0..CHUNKS).map(move |c| (m, c))) {
            let under_way = node.fan.ops.iter().filter(|op| op.at == (mirror, chunk)).fold(0, |mask, op| mask | op.mask);
            for b in bits(ALL & !under_way) {
                let value = |c: &CopyRecord| self.copies[mirror][node_no(c.node)].chunks[chunk].content[usize::from(b)];
                let mut values = self.record.active_of(mirror as u16).map(value);
                let first = values.next();
                if values.any(|v| Some(v) != first) {
                    return Err(DIFFER);
                }
            }
        }
        Ok(())
    }
    /// All copies are in sync, an owner serves, and nothing is under way.
    pub fn is_calm(&self) -> bool {
        let node = &self.nodes[node_no(self.record.owner.node)];
        let serves = node.incarnation == self.record.owner.incarnation && node.fan.serving && node.fan.is_idle();
        self.record.is_whole() && serves && node.machine.record().is_some_and(|record| *record == self.record)
    }
}

//! The replica protocol of one mirror and lane: ownership, grants, fan-out, mark, eviction, resync, takeover with agreement.
//!
//! `docs/replication.md` describes the protocol in words. The names of actions and messages are those of the code that carries it out.
//!
//! What is abstract: time is an order of events ([`grants`]); a message may come at any time, in any order, or never, so that cuts,
//! pauses, slow links and resets are all there; a node that is cut off from the directory is one whose compare-and-swap does not come. A
//! crash takes the memory of a node and what was on its way to it. Hosts are judged, not modelled: a change begins at any node that takes
//! itself for the owner.
//!
//! Owns: [`Replicas`], the model; [`Bounds`]; [`Action`].
//! Invariants: those in [`monitor`].
//! Never: makes a choice. What may happen is tried in every way.

pub mod bounds;
pub mod copy;
pub mod grants;
pub mod monitor;
pub mod owner;
pub mod resync;
pub mod rules;
pub mod state;
pub mod symmetry;
pub mod takeover;

use crate::explore::{Broken, Model, fingerprint};
use arrayvec::ArrayVec;
pub use rules::Rule;
use state::{Budget, Chunk, CopyState, Grant, Mask, Message, NODES, Node, NodeNo, Record, Replica, Role, Seq, Value, World};

/// The bits of a mask.
pub(crate) fn bits(mask: Mask) -> impl Iterator<Item = usize> {
    (0..8).filter(move |n| mask >> n & 1 == 1)
}

/// Who may take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeovers {
    /// Whoever has a copy in sync.
    Any,
    /// Only the node that was the owner, after a restart.
    OwnerOnly,
    /// The owner goes down, and another node takes over without it.
    OwnerDies,
}

/// How much happens, and which rule is left out.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub name: &'static str,
    pub nodes: usize,
    /// The last node has no copy, and is the first owner: as with a mirror of which all copies are elsewhere.
    pub apart: bool,
    pub blocks: usize,
    /// Blocks of a chunk.
    pub chunk: usize,
    /// The blocks of each change of a host, in their order.
    pub writes: &'static [Mask],
    /// Which of them free their chunks: bit n is the change that writes value n.
    pub trims: Mask,
    /// The highest epoch.
    pub epochs: u8,
    pub crashes: u8,
    /// Answers of the directory that are lost.
    pub lost_answers: u8,
    pub resends: u8,
    pub reads: u8,
    pub cuts: u8,
    pub handovers: u8,
    /// Grants given in all. 0: reads need none, and nobody waits for them to run out.
    pub grants: u8,
    pub restores: u8,
    pub evicts: bool,
    /// The owner's own copy may leave too, and the owner goes on without.
    pub own_leaves: bool,
    pub resyncs: bool,
    pub takeovers: Takeovers,
    /// The content that is agreed on is that of another copy than the new owner's.
    pub chooses_other: bool,
    /// Messages come at once, or never where a node is cut off; so do answers of the directory, unless some are lost. For stories of many
    /// steps.
    pub direct: bool,
    pub without: Option<Rule>,
}

impl Bounds {
    /// Two copies, one block, nothing that fails.
    pub const QUIET: Bounds = Bounds {
        name: "quiet",
        nodes: 2,
        apart: false,
        blocks: 1,
        chunk: 1,
        writes: &[1],
        trims: 0,
        epochs: 1,
        crashes: 0,
        lost_answers: 0,
        resends: 0,
        reads: 0,
        cuts: 0,
        handovers: 0,
        grants: 0,
        restores: 0,
        evicts: false,
        own_leaves: false,
        resyncs: false,
        takeovers: Takeovers::Any,
        chooses_other: false,
        direct: false,
        without: None,
    };
    /// The same, with a rule left out.
    pub fn without(self, rule: Rule) -> Self {
        Self { without: Some(rule), ..self }
    }
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
    /// How many nodes have a copy: the first ones.
    pub(crate) fn copies(&self) -> usize {
        self.nodes - usize::from(self.apart)
    }
    pub(crate) fn all_copies(&self) -> Mask {
        (1 << self.copies()) - 1
    }
    pub(crate) fn seq(&self, term: u8, counter: u8) -> Seq {
        Seq(if self.has(Rule::SeqIsPair) { term } else { 0 }, counter)
    }
    pub(crate) fn blocks_of_chunk(&self, block: usize) -> Mask {
        ((1 << self.chunk) - 1) << (block / self.chunk * self.chunk)
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A host's change gets its number and goes to every copy that gets changes.
    Fanout {
        owner: NodeNo,
        value: Value,
    },
    /// A message comes.
    Deliver(Message),
    /// What was not acknowledged is sent again, after a reset.
    Resend {
        owner: NodeNo,
        to: NodeNo,
        seq: Seq,
    },
    /// The data of a read is there.
    ReadData {
        owner: NodeNo,
        block: u8,
    },
    /// It is answered.
    AnswerRead {
        owner: NodeNo,
    },
    /// The owner asks the directory to take a copy out.
    Evict {
        owner: NodeNo,
        copy: NodeNo,
    },
    /// The owner asks the directory for a copy to come back.
    BeginResync {
        owner: NodeNo,
        copy: NodeNo,
    },
    /// A range that the copy misses goes to it.
    CopyRange {
        owner: NodeNo,
        blocks: Mask,
    },
    FinishResync {
        owner: NodeNo,
    },
    DropResync {
        owner: NodeNo,
    },
    /// The owner gives the object up, for another node to take over.
    HandOver {
        owner: NodeNo,
    },
    /// A node asks the directory to make it the owner, and to take copies out that it does not reach.
    TakeOver {
        node: NodeNo,
        without: Mask,
    },
    /// A node reads in the directory that it is not the owner.
    StepDown {
        node: NodeNo,
    },
    /// The directory decides on a change, and the answer comes.
    Decide {
        from: NodeNo,
        epoch: u8,
    },
    /// The directory decides on a change, and the answer is lost.
    DecideLost {
        from: NodeNo,
        epoch: u8,
    },
    /// The record is read after a lost answer.
    ReadAgain {
        node: NodeNo,
    },
    /// Only without [`Rule::UnknownIsNoFailure`].
    TakenForFailure {
        node: NodeNo,
    },
    /// Only without [`Rule::OwnerIsOneIncarnation`].
    Resume {
        node: NodeNo,
    },
    /// A node goes down and comes back. (One that stays away is one that does nothing any more.)
    Crash {
        node: NodeNo,
    },
    /// A granter answers a heartbeat.
    Grant {
        granter: NodeNo,
        owner: NodeNo,
    },
    /// The answer comes, and counts.
    Renew {
        granter: NodeNo,
        owner: NodeNo,
    },
    /// 0.8 s since the heartbeat was sent.
    StopCounting {
        granter: NodeNo,
        owner: NodeNo,
    },
    /// 1 s since it was answered.
    GrantRunsOut {
        granter: NodeNo,
        owner: NodeNo,
    },
    /// 1 s since the restart.
    WaitOver {
        granter: NodeNo,
    },
    /// The granter hears of a later incarnation of the owner's node.
    HearIncarnation {
        granter: NodeNo,
        owner: NodeNo,
    },
    /// A node is cut off from the others (with `direct` only).
    Cut {
        node: NodeNo,
    },
    Heal {
        node: NodeNo,
    },
    /// The directory is as it was at first, and knows that.
    RestoreDirectory,
    /// The node of a copy goes by the restored directory, and says there what the copy had accepted.
    HearRestored {
        copy: NodeNo,
    },
    /// Every copy was heard; the record says which are in sync, in an epoch above all that there were.
    ConfirmRestored,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Replicas(pub Bounds);

impl Model for Replicas {
    type State = World;
    type Action = Action;
    fn first(&self) -> World {
        World::first(&self.0)
    }
    fn actions(&self, world: &World, out: &mut Vec<Action>) {
        world.actions(&self.0, out);
    }
    fn apply(&self, world: &World, action: Action) -> Result<World, Broken> {
        let mut next = world.clone();
        next.happens(&self.0, action)?;
        if self.0.direct {
            next.run_on(&self.0)?;
        }
        next.settle(&self.0);
        next.check(&self.0)?;
        Ok(next)
    }
    fn fingerprint(&self, world: &World) -> u64 {
        let print = fingerprint(world);
        match (self.0.nodes, self.0.apart) {
            (3, false) => print.min(fingerprint(&world.swapped(1, 2))),
            (3, true) => print.min(fingerprint(&world.swapped(0, 1))),
            _ => print,
        }
    }
    /// All changes of hosts ended, all copies in sync, an owner that serves.
    fn is_goal(&self, world: &World) -> bool {
        let Role::Owner(owner) = &world.nodes[usize::from(world.record.owner)].role else { return false };
        let all = world.record.active() == self.0.all_copies();
        owner.serving
            && owner.record == world.record
            && owner.ops.is_empty()
            && all
            && usize::from(world.budget.writes) == self.0.writes.len()
    }
}

impl World {
    fn first(bounds: &Bounds) -> World {
        let record = World::first_record(bounds);
        let node = Node { inc: 1, role: Role::Holder, cas: None, read: None, waits: false, released: 0, cut: false };
        let all = |b: usize| if b * bounds.chunk < bounds.blocks { Chunk { epoch: 1, mask: 0 } } else { Chunk::default() };
        let replica = Replica {
            accepted: 1,
            by: record.owner,
            content: Default::default(),
            chunks: core::array::from_fn(all),
            records: ArrayVec::new(),
            mark: Seq::default(),
            highest: Seq::default(),
            resyncing: false,
            own_doubt: 0,
            progress: Default::default(),
        };
        let owner = state::Owner {
            record,
            term: 1,
            last: 0,
            base_mark: Seq::default(),
            serving: true,
            known: 1,
            fenced: 0,
            doubt: 0,
            ops: ArrayVec::new(),
            resync: None,
        };
        let mut world = World {
            record,
            cas: ArrayVec::new(),
            nodes: core::array::from_fn(|_| node.clone()),
            copies: core::array::from_fn(|_| replica.clone()),
            messages: ArrayVec::new(),
            grants: [[Grant::default(); NODES]; NODES],
            budget: Budget { crashes: 0, lost_answers: 0, resends: 0, reads: 0, cuts: 0, handovers: 0, grants: 0, restores: 0, writes: 0 },
            heard: [None; NODES],
            monitor: monitor::Monitor::default(),
        };
        world.nodes[usize::from(record.owner)].role = Role::Owner(owner);
        world
    }
    fn first_record(bounds: &Bounds) -> Record {
        Record {
            epoch: 1,
            owner: if bounds.apart { bounds.copies() as u8 } else { 0 },
            owner_inc: 1,
            copies: core::array::from_fn(|n| if n < bounds.copies() { CopyState::Active } else { CopyState::Absent }),
            synced_to: [1; NODES],
            period_start: 1,
            restored: false,
        }
    }

    /// A message sets out. A second one that says the same changes nothing.
    fn send(&mut self, message: Message) {
        if !self.messages.contains(&message) {
            self.messages.push(message);
        }
    }

    /// All that can happen.
    fn actions(&self, bounds: &Bounds, out: &mut Vec<Action>) {
        for &message in &self.messages {
            if self.can_come(bounds, message) {
                out.push(Action::Deliver(message));
            }
        }
        for cas in &self.cas {
            let (from, epoch) = (cas.from, cas.new.epoch);
            out.push(Action::Decide { from, epoch });
            if self.budget.lost_answers < bounds.lost_answers {
                out.push(Action::DecideLost { from, epoch });
            }
        }
        for n in 0..bounds.nodes {
            self.node_actions(bounds, n, out);
        }
        if bounds.grants > 0 {
            self.grant_actions(bounds, out);
        }
        if self.budget.restores < bounds.restores && self.record != World::first_record(bounds) {
            out.push(Action::RestoreDirectory);
        }
        if self.record.restored && bounds.has(Rule::RestoredHearsAll) {
            let unheard = (0..bounds.copies()).filter(|n| self.heard[*n].is_none());
            out.extend(unheard.map(|n| Action::HearRestored { copy: n as u8 }));
            if (0..bounds.copies()).all(|n| self.heard[n].is_some()) {
                out.push(Action::ConfirmRestored);
            }
        }
    }
    fn node_actions(&self, bounds: &Bounds, n: usize, out: &mut Vec<Action>) {
        let (node, me) = (&self.nodes[n], n as u8);
        if self.budget.crashes < bounds.crashes {
            out.push(Action::Crash { node: me });
        }
        if node.cut {
            out.push(Action::Heal { node: me });
        } else if self.budget.cuts < bounds.cuts {
            out.push(Action::Cut { node: me });
        }
        if node.cas.is_some_and(|new| self.cas.iter().all(|cas| cas.new != new)) {
            out.push(Action::ReadAgain { node: me });
            if !bounds.has(Rule::UnknownIsNoFailure) {
                out.push(Action::TakenForFailure { node: me });
            }
        }
        match &node.role {
            Role::Holder => self.holder_actions(bounds, n, out),
            Role::TakingOver => {}
            Role::Owner(owner) => {
                if (self.record.owner, self.record.owner_inc) != (me, node.inc) || self.record.restored {
                    out.push(Action::StepDown { node: me });
                }
                self.owner_actions(bounds, n, owner, out);
            }
        }
    }
    /// Whether a message may come now.
    fn can_come(&self, bounds: &Bounds, message: Message) -> bool {
        match message {
            Message::Fence { from, to, epoch, .. } | Message::Change { from, to, epoch, .. } => {
                let still = bounds.has(Rule::HeardCopyIsStill) && self.heard[usize::from(to)].is_some();
                !still && self.may_accept(bounds, usize::from(to), epoch, from)
            }
            _ => true,
        }
    }

    /// One transition for everything that happens.
    fn happens(&mut self, bounds: &Bounds, action: Action) -> Result<(), Broken> {
        let at = usize::from;
        match action {
            Action::Deliver(message) => return self.comes(bounds, message),
            Action::Fanout { owner, value } => self.fanout(bounds, at(owner), value),
            Action::Resend { owner, to, seq } => self.resend(bounds, at(owner), at(to), seq),
            Action::ReadData { owner, block } => self.read_data(bounds, at(owner), block),
            Action::AnswerRead { owner } => return self.answer_read(at(owner)),
            Action::Evict { owner, copy } => return self.evict(bounds, at(owner), at(copy)),
            Action::BeginResync { owner, copy } => self.begin_resync(at(owner), at(copy)),
            Action::CopyRange { owner, blocks } => return self.copy_range(bounds, at(owner), blocks),
            Action::FinishResync { owner } => self.finish_resync(at(owner)),
            Action::DropResync { owner } => return self.drop_resync(bounds, at(owner)),
            Action::HandOver { owner } => self.hand_over(bounds, at(owner)),
            Action::TakeOver { node, without } => {
                if bounds.takeovers == Takeovers::OwnerDies {
                    self.crash(bounds, self.record.owner);
                }
                let epoch = self.take_over(bounds, at(node), without);
                if bounds.lost_answers == 0 {
                    // Nothing else is in between that matters but a lost answer.
                    return self.happens(bounds, Action::Decide { from: node, epoch });
                }
            }
            Action::StepDown { node } => {
                let node = &mut self.nodes[at(node)];
                (node.role, node.cas, node.read) = (Role::Holder, None, None);
            }
            Action::Decide { from, epoch } => {
                let Some(&cas) = self.cas.iter().find(|c| (c.from, c.new.epoch) == (from, epoch)) else { return Ok(()) };
                let made = self.decide(bounds, cas);
                if self.nodes[at(from)].cas == Some(cas.new) {
                    return self.outcome(bounds, at(from), made);
                }
            }
            Action::DecideLost { from, epoch } => {
                let Some(&cas) = self.cas.iter().find(|c| (c.from, c.new.epoch) == (from, epoch)) else { return Ok(()) };
                self.budget.lost_answers += 1;
                self.decide(bounds, cas);
            }
            Action::ReadAgain { node } => return self.read_again(bounds, at(node)),
            Action::TakenForFailure { node } => self.nodes[at(node)].cas = None,
            Action::Resume { node } => self.resume(at(node)),
            Action::Crash { node } => self.crash(bounds, node),
            Action::Grant { granter, owner } => self.grant(at(granter), at(owner)),
            Action::Renew { granter, owner } => self.renew(bounds, at(granter), at(owner)),
            Action::StopCounting { granter, owner } => {
                let grant = &mut self.grants[at(granter)][at(owner)];
                (grant.counted, grant.answer) = (false, 0);
            }
            Action::GrantRunsOut { granter, owner } | Action::HearIncarnation { granter, owner } => {
                self.grants[at(granter)][at(owner)].given = 0;
            }
            Action::WaitOver { granter } => self.nodes[at(granter)].waits = false,
            Action::Cut { node } => {
                self.budget.cuts += 1;
                self.nodes[at(node)].cut = true;
            }
            Action::Heal { node } => self.nodes[at(node)].cut = false,
            Action::RestoreDirectory => {
                self.budget.restores += 1;
                self.record = Record { restored: true, ..World::first_record(bounds) };
            }
            Action::HearRestored { copy } => self.hear_restored(at(copy)),
            Action::ConfirmRestored => self.confirm_restored(bounds),
        }
        Ok(())
    }
    fn comes(&mut self, bounds: &Bounds, message: Message) -> Result<(), Broken> {
        self.messages.retain(|m| *m != message);
        match message {
            Message::Fence { .. } => return self.fence_comes(bounds, message),
            Message::Change { .. } => return self.change_comes(bounds, message),
            Message::Fenced { .. } => return self.fenced_comes(bounds, message),
            Message::Ack { from, to, inc, seq } => {
                if self.nodes[usize::from(to)].inc == inc {
                    return self.ack_comes(bounds, from, to, seq);
                }
            }
            Message::Release { to, epoch, .. } => {
                let accepted = self.copies[usize::from(to)].accepted;
                let upto = if bounds.has(Rule::ReleaseNamesEpoch) { epoch } else { accepted };
                let node = &mut self.nodes[usize::from(to)];
                node.released = node.released.max(upto);
            }
        }
        Ok(())
    }
    fn resend(&mut self, bounds: &Bounds, n: usize, to: usize, seq: Seq) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let Some(op) = owner.ops.iter().find(|op| op.seq == seq) else { return };
        let message = self.change(bounds, n, owner, op, to);
        self.budget.resends += 1;
        self.send(message);
    }
    /// The memory of a node is lost, and what was on its way to it.
    fn crash(&mut self, bounds: &Bounds, n: NodeNo) {
        let node = &mut self.nodes[usize::from(n)];
        *node = Node { inc: node.inc + 1, role: Role::Holder, cas: None, read: None, waits: false, released: 0, cut: node.cut };
        self.budget.crashes += 1;
        self.forget_grants(bounds, usize::from(n));
        self.messages.retain(|m| m.ends().1 != n);
        if !bounds.has(Rule::EpochDurable) {
            let replica = &mut self.copies[usize::from(n)];
            (replica.accepted, replica.by) = (0, 0);
        }
        let replica = &mut self.copies[usize::from(n)];
        if !bounds.has(Rule::DoubtDurable) {
            replica.records.clear();
        }
    }
    /// Messages come at once or never, and so do answers of the directory.
    fn run_on(&mut self, bounds: &Bounds) -> Result<(), Broken> {
        loop {
            let lost = |m: &Message| {
                let (from, to) = m.ends();
                let away = |n: NodeNo| self.nodes[usize::from(n)].cut;
                from != to && (away(from) || away(to))
            };
            let lost: ArrayVec<Message, 16> = self.messages.iter().copied().filter(lost).collect();
            self.messages.retain(|m| !lost.contains(m));
            if let Some(&message) = self.messages.iter().find(|m| self.can_come(bounds, **m)) {
                self.comes(bounds, message)?;
            } else if let Some(cas) = self.cas.first().filter(|_| bounds.lost_answers == 0) {
                self.happens(bounds, Action::Decide { from: cas.from, epoch: cas.new.epoch })?;
            } else {
                return Ok(());
            }
        }
    }
    /// Takes away what can have no effect any more, and puts the rest into one order.
    fn settle(&mut self, bounds: &Bounds) {
        let nodes = &self.nodes;
        let copies = &self.copies;
        let refuses = bounds.has(Rule::RefuseLowerEpoch) && bounds.has(Rule::EpochDurable) && bounds.has(Rule::RestampBeforeMark);
        self.messages.retain(|m| match *m {
            Message::Fence { to, epoch, .. } | Message::Change { to, epoch, .. } => !refuses || epoch >= copies[usize::from(to)].accepted,
            Message::Fenced { to, epoch, .. } => {
                let role = &nodes[usize::from(to)].role;
                let waits =
                    |owner: &state::Owner| !owner.serving || owner.known < epoch || owner.resync.is_some_and(|r| r.listed.is_none());
                matches!(role, Role::Owner(owner) if epoch >= owner.term && waits(owner))
            }
            Message::Ack { from, to, inc, seq } => {
                let node = &nodes[usize::from(to)];
                let waits = |op: &state::Op| op.seq == seq && op.acked >> from & 1 == 0;
                let pair = bounds.has(Rule::SeqIsPair);
                matches!(&node.role, Role::Owner(owner) if node.inc == inc && (!pair || owner.ops.iter().any(waits)))
            }
            Message::Release { to, epoch, .. } => nodes[usize::from(to)].released < epoch,
        });
        self.messages.sort_unstable();
        let epoch = self.record.epoch;
        self.cas.retain(|cas| cas.on.0 >= epoch || nodes[usize::from(cas.from)].cas == Some(cas.new));
        for n in 0..NODES {
            let copy = &self.copies[n];
            if bounds.grants == 0 || self.nodes[n].released < copy.accepted && bounds.has(Rule::ReleaseNamesEpoch) {
                self.nodes[n].released = 0;
            }
        }
    }
}

impl Message {
    /// From whom, to whom.
    fn ends(&self) -> (NodeNo, NodeNo) {
        match *self {
            Message::Fence { from, to, .. }
            | Message::Fenced { from, to, .. }
            | Message::Change { from, to, .. }
            | Message::Ack { from, to, .. }
            | Message::Release { from, to, .. } => (from, to),
        }
    }
}

#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod rules_tests;

//! The machine beside the executable model of the protocol (`models::replica`): the same events, the same outcome. The model has the
//! copies, the
//! messages and the directory; the machine hears what its node hears, and has to want what the model's node does.

use super::machine::{node, part};
use super::random::Random;
use crate::owner::serving::Service;
use crate::owner::term::Term;
use crate::owner::*;
use base::lane::Lane;
use base::{BlockNo, Incarnation, Ownership, Seq};
use models::explore::Model;
use models::replica::state::{CopyState as ModelState, Message, Node, Owner, Record, Role as ModelRole, What, World};
use models::replica::{Action, Bounds, Replicas, bounds};
use std::collections::BTreeMap;

/// Steps of one walk.
const STEPS_MAX: usize = 80;

struct Lockstep {
    bounds: Bounds,
    world: World,
    revision: u64,
    machines: Vec<ObjectOwner>,
    /// Every record that a machine asked for, by epoch, owner and incarnation: the model's have no nonce and no term.
    wanted: BTreeMap<(u8, u8, u8), OwnershipRecord>,
    /// Of each node: what it said last of who gets changes, and ranges of its agreement and of its resync that have not ended.
    targets: Vec<BTreeSet<ComponentId>>,
    agreeing: Vec<u32>,
    ranges: Vec<Vec<RangeCopy>>,
    /// Up to which epoch changes are answered, and whether the mark stands.
    answers: Vec<Epoch>,
    mark_stands: Vec<bool>,
    grants: Vec<Vec<NodeId>>,
    trace: Vec<Action>,
}

fn part_of(copy: usize) -> ComponentId {
    part(0, copy as u8 + 1)
}
fn node_of(n: usize) -> NodeId {
    node(n as u8 + 1)
}
fn state_of(state: ModelState) -> CopyState {
    match state {
        ModelState::Active => CopyState::Active,
        ModelState::Absent => CopyState::Absent,
        ModelState::Resyncing => CopyState::Resyncing,
    }
}
fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |n| mask >> n & 1 == 1)
}
/// Without what the model does not have.
fn plain(record: &OwnershipRecord) -> OwnershipRecord {
    let ownership = Ownership { term: Epoch(0), ..record.ownership };
    OwnershipRecord { ownership, nonce: Nonce::NONE, ..record.clone() }
}

impl Lockstep {
    fn new(bounds: Bounds) -> Lockstep {
        let world = Replicas(bounds).first();
        let n = bounds.nodes;
        let mut all = Lockstep {
            bounds,
            world,
            revision: 1,
            machines: Vec::new(),
            wanted: BTreeMap::new(),
            targets: vec![BTreeSet::new(); n],
            agreeing: vec![0; n],
            ranges: vec![Vec::new(); n],
            answers: vec![Epoch(1); n],
            mark_stands: vec![false; n],
            grants: vec![Vec::new(); n],
            trace: Vec::new(),
        };
        all.machines = (0..n).map(|n| all.fresh(n)).collect();
        // The model begins with an owner that serves.
        let owner = usize::from(all.world.record.owner);
        let mut term = Term::begin(Revision(1), all.record(&all.world.record));
        term.heard[0] = Epoch(1);
        all.targets[owner] = term.record.active().map(|c| c.component).collect();
        all.machines[owner].role = Role::Serving(term, Service::begin(BTreeMap::new(), (false, PACE)));
        all.event(owner, Event::PauseResync(true));
        all
    }
    fn fresh(&self, n: usize) -> ObjectOwner {
        let inc = self.world.nodes[n].inc;
        let me = OwnerId { node: node_of(n), incarnation: Incarnation(inc.into()) };
        let mut machine = ObjectOwner::new(me, Nonce((n as u128 + 1) << 96 | u128::from(inc) << 64));
        machine.reach = (0..self.bounds.nodes).filter(|o| *o != n).map(|o| (node_of(o), Reach::Up)).collect();
        machine
    }
    /// A record of the model. Its nonce is that of the machine that asked for it.
    fn record(&self, record: &Record) -> OwnershipRecord {
        let copies = self.bounds.nodes - usize::from(self.bounds.apart);
        let copy = |n: usize| CopyRecord {
            mirror: 0,
            node: node_of(n),
            component: part_of(n),
            state: state_of(record.copies[n]),
            synced_to: Epoch(record.synced_to[n].into()),
        };
        let wanted = self.wanted.get(&(record.epoch, record.owner, record.owner_inc));
        let (term, nonce) = wanted.map_or((Epoch(1), Nonce(1)), |w| (w.ownership.term, w.nonce));
        let ownership = Ownership { epoch: Epoch(record.epoch.into()), term, period_start: Epoch(record.period_start.into()) };
        let owner = OwnerId { node: node_of(record.owner.into()), incarnation: Incarnation(record.owner_inc.into()) };
        OwnershipRecord { ownership, owner, nonce, restored: record.restored, copies: (0..copies).map(copy).collect() }
    }
    fn event(&mut self, n: usize, event: Event) {
        let mut out = Vec::new();
        self.machines[n].handle(event, &mut out);
        for command in &out {
            match command {
                Command::Change { new, .. } => {
                    let key = (new.epoch().0 as u8, n as u8, new.owner.incarnation.0 as u8);
                    self.wanted.insert(key, (**new).clone());
                }
                Command::Targets(targets) => self.targets[n] = targets.copies.iter().map(|(c, _)| c.component).collect(),
                Command::Join { copy, .. } => {
                    self.targets[n].insert(copy.component);
                }
                Command::Agree { ranges, .. } => {
                    self.agreeing[n] += ranges.len() as u32;
                    self.mark_stands[n] = true;
                }
                Command::MarkMoves { .. } => self.mark_stands[n] = false,
                Command::Answer { epoch, .. } => self.answers[n] = *epoch,
                Command::CopyRange(range) => self.ranges[n].push(*range),
                Command::GrantsOf(nodes) => self.grants[n].clone_from(nodes),
                Command::Stop => {
                    (self.agreeing[n], self.ranges[n], self.mark_stands[n]) = (0, Vec::new(), false);
                }
                _ => {}
            }
        }
    }
    fn read(&mut self, n: usize, record: Record) {
        let record = self.record(&record);
        self.event(n, Event::Record { revision: Revision(self.revision), record, read: true });
    }
    /// The nonce of the change whose outcome a machine waits for.
    fn pending(&self, n: usize) -> Option<&OwnershipRecord> {
        match &self.machines[n].role {
            Role::TakingOver(pending) => Some(&pending.new),
            Role::Fencing(term, ..) | Role::Serving(term, _) => term.pending.as_ref().map(|p| &p.new),
            Role::Holder(_) => None,
        }
    }

    /// Something happens in the model; then its node's machine hears of it.
    fn step(&mut self, action: Action) {
        self.trace.push(action);
        let before = self.world.clone();
        self.world = Replicas(self.bounds).apply(&before, action).expect("the whole protocol");
        self.revision += u64::from(before.record != self.world.record);
        let at = usize::from;
        match action {
            Action::TakeOver { node, without } => self.takes_over(at(node), without, &before),
            Action::Evict { owner, copy } => self.fails(at(owner), at(copy)),
            Action::DropResync { owner } => {
                let copy = owner_of(&before.nodes[at(owner)]).and_then(|o| o.resync).expect("one under way").copy;
                self.fails(at(owner), at(copy));
            }
            Action::BeginResync { owner, copy } => {
                self.event(at(owner), Event::PauseResync(false));
                self.event(at(owner), Event::BeginResync(part_of(at(copy))));
                self.event(at(owner), Event::PauseResync(true));
            }
            Action::FinishResync { owner } => {
                self.event(at(owner), Event::PauseResync(false));
                self.event(at(owner), Event::PauseResync(true));
            }
            Action::HandOver { owner } => {
                let to = before.record.active() & !(1 << owner);
                self.event(at(owner), Event::HandOver(node_of(to.trailing_zeros() as usize)));
                self.event(at(owner), Event::Drained(1));
            }
            Action::StepDown { node } | Action::ReadAgain { node } => {
                self.read(at(node), before.record);
                self.own_copy_hears(at(node));
            }
            Action::Decide { from, epoch } => self.decided(at(from), epoch, &before, false),
            Action::DecideLost { from, epoch } => self.decided(at(from), epoch, &before, true),
            Action::Crash { node } => {
                self.machines[at(node)] = self.fresh(at(node));
                (self.agreeing[at(node)], self.ranges[at(node)], self.mark_stands[at(node)]) = (0, Vec::new(), false);
            }
            Action::Deliver(message) => self.comes(message, &before),
            Action::HearRestored { copy } => self.read(at(copy), before.record),
            Action::ConfirmRestored => {
                let by = OwnerId { node: node(99), incarnation: Incarnation(1) };
                for n in 0..self.bounds.nodes - usize::from(self.bounds.apart) {
                    self.event(n, Event::Accepted { epoch: Epoch(self.world.record.epoch.into()), by });
                }
            }
            _ => {}
        }
        self.changes_end();
        self.compare();
    }
    fn takes_over(&mut self, n: usize, without: u8, before: &World) {
        for other in bits(without) {
            self.event(n, Event::Node { node: node_of(other), reach: Reach::Gone });
        }
        self.event(n, Event::TakeOver);
        self.read_at(n, before.record, self.revision - u64::from(before.record != self.world.record));
        for other in bits(without) {
            self.event(n, Event::Node { node: node_of(other), reach: Reach::Up });
        }
        if self.bounds.lost_answers == 0 {
            // Decided in the same step, unless a change of the node's life before came first.
            match &self.world.nodes[n].role {
                ModelRole::TakingOver => {}
                role => self.answered(n, before.record.epoch + 1, matches!(role, ModelRole::Owner(_))),
            }
        }
    }
    fn read_at(&mut self, n: usize, record: Record, revision: u64) {
        let record = self.record(&record);
        self.event(n, Event::Record { revision: Revision(revision), record, read: true });
    }
    fn fails(&mut self, n: usize, copy: usize) {
        self.event(n, Event::CopyFails(part_of(copy)));
        self.event(n, Event::CopyWorks(part_of(copy)));
    }
    fn decided(&mut self, n: usize, epoch: u8, before: &World, lost: bool) {
        let cas = before.cas.iter().find(|c| (usize::from(c.from), c.new.epoch) == (n, epoch)).expect("on its way");
        if before.nodes[n].cas != Some(cas.new) {
            return;
        }
        if lost {
            let nonce = self.pending(n).expect("under way").nonce;
            return self.event(n, Event::Changed { nonce, outcome: Outcome::Lost });
        }
        let made = (before.record.epoch, before.record.restored) == cas.on;
        self.answered(n, epoch, made);
    }
    fn answered(&mut self, n: usize, epoch: u8, made: bool) {
        let pending = self.pending(n).unwrap_or_else(|| panic!("nothing is under way: {:?}", self.trace));
        assert_eq!(pending.epoch(), Epoch(epoch.into()));
        let nonce = pending.nonce;
        let outcome = if made { Outcome::Made(Revision(self.revision)) } else { Outcome::Refused };
        self.event(n, Event::Changed { nonce, outcome });
        if made { self.own_copy_hears(n) } else { self.read(n, self.world.record) }
    }
    /// In the model the own copy accepts its owner's next epoch in the same step.
    fn own_copy_hears(&mut self, n: usize) {
        let (copy, role) = (&self.world.copies[n], &self.machines[n].role);
        let (Role::Fencing(term, ..) | Role::Serving(term, _)) = role else { return };
        // A fence that it has not answered is still on its way.
        if matches!(role, Role::Fencing(_, fenced, _) if !fenced.contains(&part_of(n))) {
            return;
        }
        let epoch = term.record.epoch();
        let own = term.record.copy(part_of(n)).is_some_and(|c| c.state == CopyState::Active);
        let known = owner_of(&self.world.nodes[n]).is_some_and(|o| u32::from(o.known) >= epoch.0);
        if own && known && usize::from(copy.by) == n && u32::from(copy.accepted) == epoch.0 {
            self.event(n, Event::Fenced(Fenced { from: part_of(n), epoch, lanes: vec![], resync: None }));
        }
    }
    fn comes(&mut self, message: Message, before: &World) {
        match message {
            Message::Fence { from, to, epoch, .. } | Message::Change { from, to, epoch, .. } => {
                let copy = usize::from(to);
                if from != to && self.world.copies[copy].accepted > before.copies[copy].accepted {
                    let incarnation = Incarnation(before.nodes[usize::from(from)].inc.into());
                    let by = OwnerId { node: node_of(from.into()), incarnation };
                    self.event(copy, Event::Accepted { epoch: Epoch(epoch.into()), by });
                }
                if let (true, Message::Fence { .. }) = (from == to && epoch >= before.copies[copy].accepted, message) {
                    let replica = &self.world.copies[copy];
                    self.fenced(copy, copy, epoch, replica.mark, replica.doubt(), before);
                }
            }
            Message::Fenced { from, to, epoch, mark, doubt } => self.fenced(to.into(), from.into(), epoch, mark, doubt, before),
            Message::Ack { .. } | Message::Release { .. } => {}
        }
    }
    fn fenced(&mut self, n: usize, from: usize, epoch: u8, mark: models::replica::state::Seq, doubt: u8, before: &World) {
        let mark = Seq { term: Epoch(mark.0.into()), counter: mark.1.into() };
        let doubt = bits(doubt).map(|b| BlockRange { first: self.block(b), blocks: 1 }).collect();
        // The machine's progress is a cursor, where the model's has any chunks.
        let models::replica::state::Progress { done, to } = self.world.copies[from].progress;
        let progress = Progress { below: done.trailing_ones().into(), to: Epoch(to.into()) };
        let resyncing = self.world.copies[from].resyncing.then_some(progress);
        let lanes = vec![LaneDoubt { lane: lane(), mark, doubt }];
        let joined = |world: &World| owner_of(&world.nodes[n]).and_then(|o| o.resync).is_some_and(|r| r.listed.is_some());
        let joins = joined(&self.world) && !joined(before);
        self.event(n, Event::Fenced(Fenced { from: part_of(from), epoch: Epoch(epoch.into()), lanes, resync: resyncing }));
        if joins {
            self.lists(n, from);
        }
    }
    const fn block(&self, b: usize) -> BlockNo {
        BlockNo((b / self.bounds.chunk * 16 + b % self.bounds.chunk) as u64)
    }
    /// The copy has joined: the machine's list is the model's.
    fn lists(&mut self, n: usize, from: usize) {
        let owner = owner_of(&self.world.nodes[n]).expect("it was asked").clone();
        let resync = owner.resync.expect("under way");
        let (listed, epoch) = (resync.listed.expect("joined"), Epoch(owner.record.epoch.into()));
        let (source, target) = (&self.world.copies[owner.source(n)], &self.world.copies[from]);
        let under_way = owner.ops.iter().fold(0, |mask, op| mask | op.blocks);
        let size = self.bounds.chunk;
        let of_chunk = |mask: u8, chunk: usize| u16::from(mask >> (chunk * size) & ((1 << size) - 1) as u8);
        let entry = |chunk: usize| ListedChunk {
            chunk: chunk as u64,
            source: Some(source.chunks[chunk]).filter(|c| c.epoch != 0).map(|c| (Epoch(c.epoch.into()), of_chunk(c.mask, chunk))),
            there: target.chunks[chunk].epoch != 0,
            // What is under way without it ends before the machine looks; the model looks at once.
            own_doubt: of_chunk(target.own_doubt | under_way, chunk),
        };
        let chunks = (0..self.bounds.blocks / size).map(entry).collect();
        let (invited, copy) = (Epoch(resync.epoch.into()), part_of(from));
        self.event(n, Event::PaceResync(RANGES_MAX));
        self.event(n, Event::JoinDrained { copy, invited });
        self.event(n, Event::PauseResync(false));
        self.event(n, Event::PauseResync(true));
        self.event(n, Event::Listed(Listed { from: 0, epoch, chunks, next: None }));
        if listed != 0 {
            self.event(n, Event::PauseResync(false));
            self.event(n, Event::PauseResync(true));
        }
        let blocks = self.ranges[n].iter().fold(0, |mask, r| mask | self.blocks(r));
        let done = self.world.copies[from].progress.done;
        let exact = done == (1 << done.trailing_ones()) - 1;
        assert_eq!(blocks & listed, listed, "the machine's list has what the model's has: {:?}", self.trace);
        assert!(!exact || blocks == listed, "and no more, {blocks} and {listed}: {:?}", self.trace);
    }
    /// The model's blocks of a range.
    fn blocks(&self, range: &RangeCopy) -> u8 {
        let size = self.bounds.chunk;
        ((range.mask & ((1 << size) - 1)) << (range.chunk as usize * size)) as u8
    }
    /// Changes of agreement and resync that have ended in the model.
    fn changes_end(&mut self) {
        for n in 0..self.bounds.nodes {
            let Some(owner) = owner_of(&self.world.nodes[n]).filter(|o| o.serving).cloned() else { continue };
            let left = owner.ops.iter().filter(|op| matches!(op.what, What::Agree { .. })).count() as u32;
            if self.agreeing[n] > left {
                let (ranges, term) = (self.agreeing[n] - left, Epoch(owner.term.into()));
                self.agreeing[n] = left;
                self.event(n, Event::Agreed { term, mirror: 0, lane: lane(), ranges });
            }
            match owner.resync {
                None => self.ranges[n].clear(),
                Some(resync) => {
                    let (copied, left): (Vec<_>, Vec<_>) =
                        core::mem::take(&mut self.ranges[n]).into_iter().partition(|r| self.blocks(r) & !resync.copied == 0);
                    self.ranges[n] = left;
                    copied.into_iter().for_each(|range| self.event(n, Event::Copied(range)));
                }
            }
        }
    }

    /// Model and machine are in the same place.
    fn compare(&self) {
        for n in 0..self.bounds.nodes {
            let (node, machine) = (&self.world.nodes[n], &self.machines[n]);
            let trace = || format!("node {n}: {node:?}\n{machine:?}\n{:?}", self.trace);
            let state = match &node.role {
                ModelRole::Holder => OwnerState::Holder,
                ModelRole::TakingOver => OwnerState::TakingOver,
                ModelRole::Owner(owner) if owner.serving => OwnerState::Serving,
                ModelRole::Owner(_) => OwnerState::Fencing,
            };
            assert_eq!(machine.state(), state, "{}", trace());
            if state != OwnerState::Holder {
                let pending = self.pending(n).map(plain);
                assert_eq!(pending, node.cas.map(|new| plain(&self.record(&new))), "{}", trace());
            }
            if let ModelRole::Owner(owner) = &node.role {
                self.compare_owner(n, owner, &trace);
            }
        }
    }
    fn compare_owner(&self, n: usize, owner: &Owner, trace: &dyn Fn() -> String) {
        let machine = &self.machines[n];
        let (Role::Fencing(term, ..) | Role::Serving(term, _)) = &machine.role else { return };
        assert_eq!(plain(&term.record), plain(&self.record(&owner.record)), "{}", trace());
        assert_eq!(term.record.ownership.term, Epoch(owner.term.into()), "{}", trace());
        let joining = self.world.nodes[n].cas.map_or(0, |new| new.active());
        let grants: Vec<NodeId> = bits((owner.record.active() | joining) & !(1 << n)).map(node_of).collect();
        assert_eq!(self.grants[n], grants, "{}", trace());
        if owner.serving {
            let (answers, known) = (self.answers[n] >= term.record.epoch(), owner.known >= owner.record.epoch);
            assert_eq!(answers, known, "what is answered: {}", trace());
            let targets: BTreeSet<ComponentId> = bits(owner.getting(&self.bounds)).map(part_of).collect();
            assert_eq!(self.targets[n], targets, "who gets changes: {}", trace());
            let agreeing = owner.ops.iter().any(|op| matches!(op.what, What::Agree { .. }));
            assert_eq!((!machine.has_agreed(), self.mark_stands[n]), (agreeing, agreeing), "{}", trace());
            let resync = machine.resync().map(|(copy, _)| copy.component);
            assert_eq!(resync, owner.resync.map(|r| part_of(r.copy.into())), "{}", trace());
        }
    }
    /// What the machine leaves to others, or does in another way.
    fn is_left_out(&self, action: &Action) -> bool {
        match action {
            // A node that holds nothing in sync never takes over; the model lets it, with copies apart.
            Action::TakeOver { node, .. } => self.world.record.active() >> node & 1 == 0,
            // There is nobody to give it up to.
            Action::HandOver { owner } => self.world.record.active() & !(1 << owner) == 0,
            _ => false,
        }
    }
}

fn owner_of(node: &Node) -> Option<&Owner> {
    if let ModelRole::Owner(owner) = &node.role { Some(owner) } else { None }
}
fn lane() -> Lane {
    Lane::new(0).expect("the first")
}

#[test]
fn machine_and_model_go_the_same_way() {
    let walks = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(400u64);
    let all = bounds::WHOLE.iter().filter(|b| !b.direct);
    let mut tried = 0;
    for (bounds, seed) in all.flat_map(|b| (0..walks).map(move |seed| (b, seed))) {
        let mut random = Random(seed);
        let mut both = Lockstep::new(*bounds);
        let mut actions = Vec::new();
        for _ in 0..STEPS_MAX {
            actions.clear();
            Replicas(*bounds).actions(&both.world, &mut actions);
            actions.retain(|action| !both.is_left_out(action));
            if actions.is_empty() {
                break;
            }
            both.step(actions[random.below(actions.len())]);
            tried += 1;
        }
    }
    println!("{tried} steps");
    assert!(tried > walks * 100);
}

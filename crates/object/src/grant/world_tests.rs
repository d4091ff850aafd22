//! Nodes with copies of one object, in true time, with clocks of other rates: owners that take over, evict, take back and hand over; links that
//! are late, reset and cut; nodes that pause and restart. No read is answered once a later owner serves.

use super::*;
use base::{ComponentId, Epoch, Incarnation, Instant, NodeId, ObjectId, OwnerId};
use format::peer::{Grant, Heartbeat};
use std::collections::VecDeque;
use std::sync::Arc;

const NODES: usize = 3;
const MS: u64 = 1_000_000;

fn node(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}
fn number(node: NodeId) -> usize {
    usize::from(node.as_bytes()[0]) - 1
}
fn object() -> ObjectId {
    ObjectId::from_bytes([9; 16])
}
fn component(n: usize) -> ComponentId {
    ComponentId::from_bytes([n as u8 + 100; 16])
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 16
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Record {
    epoch: Epoch,
    term: Epoch,
    owner: OwnerId,
    active: u8,
}

enum Msg {
    Beat(Heartbeat),
    Grant(Grant),
    Release(Epoch),
    Fence(Epoch, OwnerId),
    Fenced(Epoch),
}

/// A change of the record: decided then, known to its node then.
struct Cas {
    new: Record,
    on: Epoch,
    decided: u64,
    known: u64,
    made: Option<bool>,
}

enum Role {
    Holder,
    TakingOver(Cas),
    /// Who has answered.
    Owner {
        record: Record,
        fenced: u8,
        serving: bool,
        cell: Arc<GrantCell>,
        cas: Option<Cas>,
    },
}

struct Node {
    life: Incarnation,
    per_mille: u64,
    granter: Granter,
    counter: Counter,
    accepted: (Epoch, OwnerId),
    fences: Vec<(Epoch, OwnerId)>,
    role: Role,
    paused: u64,
}

struct World {
    rng: Rng,
    now: u64,
    nodes: Vec<Node>,
    /// From and to.
    links: Vec<Vec<VecDeque<(u64, Msg)>>>,
    /// Of a pair, the lower first: when the link opens; 0: it is open.
    opens: Vec<Vec<u64>>,
    record: Record,
    /// The highest term that serves.
    serves: Epoch,
    answered: u64,
    terms: u64,
    quiet: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng(seed);
        let owner = OwnerId { node: node(0), incarnation: Incarnation(1) };
        let nodes = (0..NODES).map(|n| {
            let per_mille = [900, 1000, 1100][rng.below(3) as usize];
            let (granter, counter) = (Granter::new(node(n), Instant(0)), Counter::new());
            let mut node = Node {
                life: Incarnation(1),
                per_mille,
                granter,
                counter,
                accepted: (Epoch(1), owner),
                fences: vec![],
                role: Role::Holder,
                paused: 0,
            };
            node.granter.component(object(), component(n), Some(node.accepted));
            node
        });
        let nodes = nodes.collect();
        let links = (0..NODES).map(|_| (0..NODES).map(|_| VecDeque::new()).collect()).collect();
        let record = Record { epoch: Epoch(1), term: Epoch(1), owner, active: (1 << NODES) - 1 };
        let opens = vec![vec![1; NODES]; NODES];
        World { rng, now: MS, nodes, links, opens, record, serves: Epoch(0), answered: 0, terms: 0, quiet: false }
    }
    fn clock(&self, n: usize) -> Instant {
        Instant((n as u64 + 1) * 1_000_000 * MS + self.now / 1000 * self.nodes[n].per_mille)
    }
    fn me(&self, n: usize) -> OwnerId {
        OwnerId { node: node(n), incarnation: self.nodes[n].life }
    }
    fn others(n: usize) -> impl Iterator<Item = usize> {
        (0..NODES).filter(move |o| *o != n)
    }
    fn is_open(&self, a: usize, b: usize) -> bool {
        self.opens[a.min(b)][a.max(b)] == 0
    }
    fn send(&mut self, from: usize, to: usize, msg: Msg) {
        if self.is_open(from, to) {
            let late = if self.rng.one_in(40) && !self.quiet { self.rng.below(900) } else { self.rng.below(3) };
            let after = self.links[from][to].back().map_or(0, |(at, _)| *at);
            let at = after.max(self.now + late * MS);
            self.links[from][to].push_back((at, msg));
        }
    }
    fn close(&mut self, a: usize, b: usize, opens: u64) {
        self.opens[a.min(b)][a.max(b)] = opens.max(1);
        for (from, to) in [(a, b), (b, a)] {
            self.links[from][to].clear();
            self.nodes[from].counter.closed(node(to));
            self.nodes[from].granter.closed(node(to));
        }
    }
    fn open(&mut self) {
        for a in 0..NODES {
            for b in a + 1..NODES {
                let opens = self.opens[a][b];
                if opens != 0 && opens <= self.now {
                    self.opens[a][b] = 0;
                    for (from, to) in [(a, b), (b, a)] {
                        let (clock, life) = (self.clock(from), self.nodes[to].life);
                        self.nodes[from].counter.opened(node(to), clock);
                        self.nodes[from].granter.opened(node(to), life);
                        self.fence_others(from, Some(to));
                    }
                }
            }
        }
    }

    fn steps_down(&mut self, n: usize) {
        self.nodes[n].counter.disown(object());
        self.nodes[n].role = Role::Holder;
        self.nodes[n].granter.block(object(), false);
    }
    /// It asks for the ownership, without some of the others.
    fn take_over(&mut self, n: usize, without: u8) {
        let record = self.record;
        if !matches!(self.nodes[n].role, Role::Holder) || record.active >> n & 1 == 0 {
            return;
        }
        let epoch = Epoch(record.epoch.0 + 1);
        let new = Record { epoch, term: epoch, owner: self.me(n), active: record.active & !without | 1 << n };
        self.nodes[n].granter.block(object(), true);
        self.nodes[n].role = Role::TakingOver(self.cas(new));
    }
    fn cas(&mut self, new: Record) -> Cas {
        let decided = self.now + self.rng.below(20) * MS;
        Cas { new, on: Epoch(new.epoch.0 - 1), decided, known: decided + self.rng.below(60) * MS, made: None }
    }
    fn grants_of(n: usize, active: u8) -> Vec<NodeId> {
        Self::others(n).filter(|o| active >> o & 1 == 1).map(node).collect()
    }
    fn decide(&mut self, n: usize) {
        let cas = match &mut self.nodes[n].role {
            Role::TakingOver(cas) | Role::Owner { cas: Some(cas), .. } => cas,
            _ => return,
        };
        if cas.made.is_none() && cas.decided <= self.now {
            cas.made = Some(self.record.epoch == cas.on);
            if self.record.epoch == cas.on {
                self.record = cas.new;
            }
        }
        let (Some(made), true) = (cas.made, cas.known <= self.now) else { return };
        let (new, clock) = (cas.new, self.clock(n));
        if !made {
            return self.steps_down(n);
        }
        match &mut self.nodes[n].role {
            Role::TakingOver(_) => {
                let needs = Self::grants_of(n, new.active);
                let cell = self.nodes[n].counter.own(object(), new.epoch, &needs, clock).unwrap();
                self.nodes[n].role = Role::Owner { record: new, fenced: 0, serving: false, cell, cas: None };
                self.fence_others(n, None);
            }
            Role::Owner { record, cas, .. } => {
                (*record, *cas) = (new, None);
                self.nodes[n].counter.raise(object(), new.epoch);
                self.nodes[n].counter.needs(object(), &Self::grants_of(n, new.active), clock);
            }
            Role::Holder => {}
        }
        let me = self.me(n);
        self.nodes[n].fences.push((new.epoch, me));
    }
    /// Fence to all that stay, or one of them, or one that is to come back.
    fn fence_others(&mut self, n: usize, only: Option<usize>) {
        let Role::Owner { record, .. } = &self.nodes[n].role else { return };
        let (epoch, active) = (record.epoch, record.active);
        for to in Self::others(n).filter(|o| only.map_or(active >> o & 1 == 1, |only| only == *o)) {
            self.send(n, to, Msg::Fence(epoch, self.me(n)));
        }
    }
    fn fenced(&mut self, n: usize, from: usize, of: Epoch) {
        let Role::Owner { record, fenced, serving, .. } = &mut self.nodes[n].role else { return };
        if of < record.term {
            return;
        }
        *fenced |= 1 << from;
        if !*serving && record.active & !*fenced == 0 {
            (*serving, self.serves) = (true, self.serves.max(record.term));
            self.terms += 1;
            self.nodes[n].granter.block(object(), false);
        }
    }
    fn fences(&mut self, n: usize) {
        let clock = self.clock(n);
        for (epoch, by) in core::mem::take(&mut self.nodes[n].fences) {
            match self.nodes[n].granter.fence(object(), component(n), epoch, by, clock) {
                Verdict::Wait(_) => self.nodes[n].fences.push((epoch, by)),
                Verdict::Refused(_) => {}
                Verdict::Accept => {
                    if by.node != node(n) && !matches!(self.nodes[n].role, Role::Holder) {
                        self.steps_down(n);
                    }
                    self.nodes[n].accepted = (epoch, by);
                    self.nodes[n].granter.accepted(object(), component(n), epoch, by);
                    if by.node == node(n) { self.fenced(n, n, epoch) } else { self.send(n, number(by.node), Msg::Fenced(epoch)) }
                }
            }
        }
    }

    fn deliver(&mut self, n: usize) {
        for from in Self::others(n) {
            while self.links[from][n].front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, msg) = self.links[from][n].pop_front().unwrap();
                let (clock, id) = (self.clock(n), node(from));
                let at = &mut self.nodes[n];
                at.counter.heard(id, clock);
                match msg {
                    Msg::Beat(beat) => at.granter.heartbeat(id, &beat).unwrap(),
                    Msg::Grant(grant) => {
                        let mut outranked = Vec::new();
                        at.counter.granted(id, &grant, clock, &mut outranked).unwrap();
                        if !outranked.is_empty() {
                            self.steps_down(n);
                        }
                    }
                    Msg::Release(epoch) => at.granter.released(id, object(), epoch),
                    Msg::Fence(epoch, by) => at.fences.push((epoch, by)),
                    Msg::Fenced(epoch) => self.fenced(n, from, epoch),
                }
            }
        }
    }
    fn runs(&mut self, n: usize) {
        self.deliver(n);
        self.fences(n);
        self.decide(n);
        self.fences(n);
        for to in Self::others(n) {
            let clock = self.clock(n);
            while let Some(beat) = self.nodes[n].counter.heartbeat(node(to), clock) {
                self.send(n, to, Msg::Beat(beat));
            }
            while let Some(grant) = self.nodes[n].granter.grant(node(to), clock) {
                self.send(n, to, Msg::Grant(grant));
            }
        }
        let clock = self.clock(n);
        while self.nodes[n].counter.reach(clock).is_some() {}
    }
    /// It answers a read if it may. False: two owners.
    fn reads(&mut self, n: usize) -> bool {
        let Role::Owner { record, serving: true, cell, .. } = &self.nodes[n].role else { return true };
        if !cell.may_answer(self.clock(n)) {
            return true;
        }
        self.answered += 1;
        record.term >= self.serves
    }
    fn restarts(&mut self, n: usize) {
        for o in Self::others(n) {
            let opens = self.now + (1 + self.rng.below(1500)) * MS;
            self.close(n, o, opens);
        }
        let clock = self.clock(n);
        let at = &mut self.nodes[n];
        at.life = Incarnation(at.life.0 + 1);
        (at.granter, at.counter) = (Granter::new(node(n), clock), Counter::new());
        (at.fences, at.role) = (vec![], Role::Holder);
        let accepted = at.accepted;
        at.granter.component(object(), component(n), Some(accepted));
    }
    fn owner_changes(&mut self, n: usize) {
        let o = self.rng.below(NODES as u64) as usize;
        let hands_over = self.rng.one_in(3);
        let Role::Owner { record, serving: true, cas: None, fenced, .. } = &self.nodes[n].role else { return };
        let (record, fenced) = (*record, *fenced);
        if hands_over {
            self.steps_down(n);
            for to in Self::others(n) {
                self.send(n, to, Msg::Release(record.epoch));
            }
            let next = self.rng.below(NODES as u64) as usize;
            return self.take_over(next, 0);
        }
        if o == n {
            return;
        }
        let new = Record { epoch: Epoch(record.epoch.0 + 1), active: record.active ^ 1 << o, ..record };
        if record.active >> o & 1 == 0 && fenced >> o & 1 == 0 {
            return self.fence_others(n, Some(o));
        }
        let asks = Self::grants_of(n, record.active | new.active);
        let clock = self.clock(n);
        self.nodes[n].counter.needs(object(), &asks, clock);
        let cas = self.cas(new);
        let Role::Owner { cas: pending, .. } = &mut self.nodes[n].role else { unreachable!() };
        *pending = Some(cas);
    }
    fn chance(&mut self) {
        let n = self.rng.below(NODES as u64) as usize;
        let o = (n + 1 + self.rng.below(NODES as u64 - 1) as usize) % NODES;
        match self.rng.below(600) {
            0..4 => {
                let without = (self.rng.below(1 << NODES) as u8) & !(1 << n);
                self.take_over(n, without);
            }
            4..8 => self.owner_changes(n),
            8 => {
                let opens = self.now + self.rng.below(2500) * MS;
                self.close(n, o, opens);
            }
            9 => self.nodes[n].paused = self.now + self.rng.below(1500) * MS,
            10 if self.rng.one_in(2) => self.restarts(n),
            _ => {}
        }
    }
    fn step(&mut self) -> bool {
        self.now += (1 + self.rng.below(4)) * MS;
        self.open();
        if !self.quiet {
            self.chance();
        }
        (0..NODES).all(|n| {
            if self.nodes[n].paused > self.now {
                return true;
            }
            // It reads by a clock of now, whatever has come meanwhile.
            let before = self.reads(n);
            self.runs(n);
            before && self.reads(n)
        })
    }
    /// Whether there was never a second owner, and whether one serves in the end.
    fn plays(mut self, steps: usize) -> (bool, World) {
        let right = (0..steps).all(|_| self.step());
        (right, self)
    }
    fn comes_back(&mut self) -> bool {
        self.quiet = true;
        let until = self.now + 8_000 * MS;
        let answered = self.answered;
        while self.now < until {
            if !self.step() {
                return false;
            }
            let owner = number(self.record.owner.node);
            let lives = self.record.owner == self.me(owner) && !matches!(self.nodes[owner].role, Role::Holder);
            if !lives && self.nodes.iter().all(|n| !matches!(n.role, Role::TakingOver(_))) {
                let next = (0..NODES).find(|n| self.record.active >> n & 1 == 1).unwrap();
                self.take_over(next, 0);
            }
        }
        self.answered > answered
    }
}

fn seeds(seeds: core::ops::Range<u64>) {
    let (mut answered, mut terms) = (0, 0);
    for seed in seeds.clone() {
        let (right, mut world) = World::new(seed).plays(2500);
        assert!(right, "seed {seed}: a read is answered while a later owner serves");
        assert!(world.comes_back(), "seed {seed}: nobody serves in the end");
        (answered, terms) = (answered + world.answered, terms + world.terms);
    }
    let count = seeds.end - seeds.start;
    assert!(answered > 100 * count && terms > 3 * count, "{answered} reads of {terms} terms in {count} worlds");
}

#[test]
fn no_two_owners_answer_whatever_happens_between_them() {
    seeds(0..300);
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_of_grants_are_noticed() {
    use base::hooks::{SeededFault, notices};
    for fault in [
        SeededFault::GrantCountedShorter,
        SeededFault::GrantFromSending,
        SeededFault::AcceptAfterGrants,
        SeededFault::OwnCopyWaitsToo,
        SeededFault::WaitAfterRestart,
        SeededFault::GrantNamesEpoch,
        SeededFault::GrantsOfAll,
        SeededFault::ReleaseNamesEpoch,
    ] {
        notices(fault, || seeds(0..400));
    }
}

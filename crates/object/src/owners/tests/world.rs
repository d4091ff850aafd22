//! Nodes with hosts of owners in true time: clocks of other rates, links that are late, cut and opened again, copies that take their time, and
//! a directory whose answers are late or lost. No read is answered once a later owner serves.

use crate::grant::{Counter, GrantCell, Granter};
use crate::owner::{BlockRange, Command, CopyRef, Event, Fenced, LaneDoubt, Listed, ListedChunk, OwnerState, Progress, Revision};
use crate::owners::{Action, CHANGES_MAX, Change, ChangeOutcome, Found, Grants, NotAccepted, Owners, READS_MAX, Requests};
use base::{
    BlockNo, ComponentId, CopyRecord, CopyState, Epoch, Incarnation, Instant, Lane, NodeId, Nonce, ObjectId, OwnerId, Ownership,
    OwnershipRecord, Seq,
};
use format::peer::{BadBlock, CopyFails, Fence, Grant, Heartbeat, Load, Release};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub const MS: u64 = 1_000_000;
const CORES: u16 = 2;

pub fn node(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}
pub fn number(node: NodeId) -> usize {
    usize::from(node.as_bytes()[0]) - 1
}
pub fn object(k: usize) -> ObjectId {
    let mut bytes = [7; 16];
    bytes[..2].copy_from_slice(&(k as u16).to_be_bytes());
    ObjectId::from_bytes(bytes)
}
pub fn component(k: usize, n: usize) -> ComponentId {
    let mut bytes = [n as u8 + 100; 16];
    bytes[..2].copy_from_slice(&(k as u16).to_be_bytes());
    ComponentId::from_bytes(bytes)
}

pub struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 16
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }
}

enum Msg {
    Beat(Heartbeat),
    Grant(Grant),
    Release(Release),
    Bad(BadBlock),
    CopyFails(CopyFails),
    Load(Load),
    Fence(OwnerId, Fence),
    Fenced(Fenced),
}

/// What happens at a node later.
enum Later {
    Accepted(OwnerId, Fence),
    Plane(ObjectId, u16, Event),
    Record(ObjectId, Found),
    Read(u64, Option<Vec<(ObjectId, Found)>>),
    Changed(u64, ChangeOutcome),
    Counted,
}

/// What the directory was asked: it decides then.
struct Asked {
    at: u64,
    n: usize,
    life: Incarnation,
    request: u64,
    what: Result<Vec<Change>, Vec<ObjectId>>,
    /// The answer does not arrive.
    lost: bool,
}

#[derive(Default)]
pub struct Plane {
    pub cell: Option<Arc<GrantCell>>,
    pub serving: bool,
    /// Since when all that hosts ask waits for what is under way.
    pub drains: Option<u64>,
    /// What was to be written again from another copy.
    pub repairs: Vec<(ComponentId, BlockNo)>,
    term: Epoch,
}

pub struct Node {
    pub up: bool,
    pub life: Incarnation,
    pub per_mille: u64,
    pub granter: Granter,
    pub counter: Counter,
    pub owners: Owners,
    /// Durable.
    copies: BTreeMap<(ObjectId, ComponentId), Option<(Epoch, OwnerId)>>,
    pub planes: BTreeMap<ObjectId, Plane>,
    /// Objects that are its own by the record, and that hosts are to reach otherwise.
    pub away: BTreeSet<ObjectId>,
    later: Vec<(u64, Later)>,
    watched: u64,
    pub reaches_directory: bool,
    pub paused: u64,
    /// Its devices make no progress.
    pub hangs: bool,
}

pub struct World {
    pub rng: Rng,
    pub now: u64,
    pub nodes: Vec<Node>,
    links: Vec<Vec<VecDeque<(u64, Msg)>>>,
    /// Of a pair, the lower first: when the link opens; 0: it is open.
    opens: Vec<Vec<u64>>,
    pub records: BTreeMap<ObjectId, (Revision, OwnershipRecord)>,
    revision: u64,
    /// Whose each term was, as the directory says.
    terms: BTreeMap<(ObjectId, Epoch), OwnerId>,
    serves: BTreeMap<ObjectId, Epoch>,
    asked: Vec<Asked>,
    /// Transactions that were made, and how many records they changed.
    pub transactions: Vec<(u64, usize)>,
    pub reads: usize,
    pub answered: u64,
    /// One answer of the directory in so many is lost; 0: none.
    pub lost: u64,
    /// One message in so many is late.
    pub late: u64,
    /// How many ms each transaction takes the directory, which carries out one after the other; 0: as many as there are at once.
    pub directory_takes: u64,
    /// When it has carried out all that it was asked.
    directory_free: u64,
    /// How many ms longer than usual it takes until an object has drained.
    pub drain_takes: u64,
    /// What hosts ask of an object in a second, by node. Those of nodes that it does not name use paths to the owner.
    pub hosts: BTreeMap<ObjectId, BTreeMap<usize, u64>>,
    /// What went to another node of itself: when, which and where.
    pub went: Vec<(u64, ObjectId, usize)>,
}

impl World {
    /// Nodes whose clocks have these rates, and objects with copies on all of them: of each its owner.
    pub fn new(seed: u64, rates: &[u64], owners: &[usize]) -> World {
        let objects: Vec<_> = owners.iter().map(|owner| (*owner, (0..rates.len()).collect())).collect();
        World::placed(seed, rates, &objects)
    }
    /// The same, and of each object the nodes that have copies, too.
    pub fn placed(seed: u64, rates: &[u64], objects: &[(usize, Vec<usize>)]) -> World {
        let mut rng = Rng(seed);
        let count = rates.len();
        let new = |(n, rate): (usize, &u64)| Node::new(n, *rate, &mut rng);
        let nodes: Vec<Node> = rates.iter().enumerate().map(new).collect();
        let mut world = World {
            rng,
            now: MS,
            nodes,
            links: (0..count).map(|_| (0..count).map(|_| VecDeque::new()).collect()).collect(),
            opens: vec![vec![1; count]; count],
            records: BTreeMap::new(),
            revision: 0,
            terms: BTreeMap::new(),
            serves: BTreeMap::new(),
            asked: vec![],
            transactions: vec![],
            reads: 0,
            answered: 0,
            lost: 0,
            late: 0,
            directory_takes: 0,
            directory_free: 0,
            drain_takes: 0,
            hosts: BTreeMap::new(),
            went: vec![],
        };
        for (k, (owner, copies)) in objects.iter().enumerate() {
            world.create(k, *owner, copies);
        }
        (0..count).for_each(|n| world.starts(n));
        world
    }
    fn create(&mut self, k: usize, n: usize, copies: &[usize]) {
        let owner = OwnerId { node: node(n), incarnation: Incarnation(1) };
        let copy = |n| CopyRecord { mirror: 0, node: node(n), component: component(k, n), state: CopyState::Active, synced_to: Epoch(0) };
        let record = OwnershipRecord {
            ownership: Ownership::FIRST,
            owner,
            nonce: Nonce::NONE,
            restored: false,
            copies: copies.iter().copied().map(copy).collect(),
        };
        for n in copies {
            self.nodes[*n].copies.insert((object(k), component(k, *n)), Some((record.epoch(), owner)));
        }
        self.write(object(k), record);
    }
    pub fn clock(&self, n: usize) -> Instant {
        Instant((n as u64 + 1) * 1_000_000 * MS + self.now / 1000 * self.nodes[n].per_mille)
    }
    pub fn with<R>(&mut self, n: usize, what: impl FnOnce(&mut Owners, &mut Grants<'_>) -> R) -> R {
        let now = self.clock(n);
        let Node { owners, counter, granter, .. } = &mut self.nodes[n];
        what(owners, &mut Grants { counter, granter, now })
    }
    pub fn others(&self, n: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.nodes.len()).filter(move |o| *o != n)
    }
    fn later(&mut self, n: usize, ms: u64, what: Later) {
        self.nodes[n].later.push((self.now + ms * MS, what));
    }

    // ---- the directory ----------------------------------------------------------------------------------------------

    fn write(&mut self, object: ObjectId, record: OwnershipRecord) {
        self.revision += 1;
        self.put(object, record);
    }
    fn put(&mut self, object: ObjectId, record: OwnershipRecord) {
        self.terms.insert((object, record.ownership.term), record.owner);
        let new = (Revision(self.revision), record);
        self.records.insert(object, new.clone());
        self.watched(object, Some(new));
    }
    fn watched(&mut self, object: ObjectId, new: Found) {
        for n in 0..self.nodes.len() {
            let late = self.rng.below(40) * MS;
            let at = &mut self.nodes[n];
            if at.up && at.reaches_directory {
                at.watched = at.watched.max(self.now + late);
                at.later.push((at.watched, Later::Record(object, new.clone())));
            }
        }
    }
    /// A layout change of the control plane: the record is another one, with the same ownership.
    pub fn touch(&mut self, k: usize) {
        let record = self.records[&object(k)].1.clone();
        self.write(object(k), record);
    }
    /// An object is striped over two mirrors, each with one copy in sync: the one on its owner, the other on node `n`.
    pub fn stripe(&mut self, k: usize, n: usize) {
        let mut record = self.records[&object(k)].1.clone();
        let owner = record.owner.node;
        record.copies.retain(|c| c.node == owner || c.node == node(n));
        let second: Vec<CopyRecord> =
            record.copies.iter().map(|c| CopyRecord { mirror: 1, component: component(k + 1000, number(c.node)), ..*c }).collect();
        for (n, copy) in second.iter().map(|c| (number(c.node), c.component)) {
            self.nodes[n].copies.insert((object(k), copy), Some((record.epoch(), record.owner)));
        }
        record.copies.extend(second);
        for c in record.copies.iter_mut().filter(|c| (c.mirror == 0) != (c.node == owner)) {
            c.state = CopyState::Absent;
        }
        self.write(object(k), record);
    }
    /// The directory came back with a backup, as the record was; or which copies are right is known: those that it says.
    pub fn restored(&mut self, k: usize, restored: bool) {
        let mut record = self.records[&object(k)].1.clone();
        if restored {
            record.ownership.epoch.0 += 1 << 20;
        }
        (record.restored, record.nonce) = (restored, Nonce::NONE);
        self.write(object(k), record);
    }
    /// A layout change takes the copy of a node away.
    pub fn loses(&mut self, k: usize, n: usize) {
        let mut record = self.records[&object(k)].1.clone();
        record.copies.retain(|c| c.node != node(n));
        self.write(object(k), record);
    }
    /// The administrator says who is to own an object.
    pub fn prefers(&mut self, k: usize, to: NodeId) {
        for n in (0..self.nodes.len()).filter(|n| self.nodes[*n].up).collect::<Vec<_>>() {
            self.with(n, |o, g| o.prefers(g, object(k), Some(to)));
        }
    }
    pub fn remove(&mut self, k: usize) {
        self.records.remove(&object(k));
        self.watched(object(k), None);
        for n in 0..self.nodes.len() {
            self.nodes[n].copies.remove(&(object(k), component(k, n)));
            if self.nodes[n].up {
                self.with(n, |o, g| o.without(g, object(k), component(k, n)));
            }
        }
    }
    pub fn directory(&mut self, n: usize, reaches: bool) {
        if !core::mem::replace(&mut self.nodes[n].reaches_directory, reaches) && reaches {
            self.snapshot(n);
        }
    }
    fn snapshot(&mut self, n: usize) {
        let at = self.now + 20 * MS;
        self.nodes[n].watched = at;
        for (object, record) in self.records.clone() {
            self.nodes[n].later.push((at, Later::Record(object, Some(record))));
        }
    }
    fn ask(&mut self, n: usize, request: u64, what: Result<Vec<Change>, Vec<ObjectId>>) {
        let lost = !self.nodes[n].reaches_directory || self.rng.one_in(self.lost);
        let late = if lost { self.rng.below(600) } else { self.rng.below(15) };
        if lost {
            let answer = match what {
                Ok(_) => Later::Changed(request, ChangeOutcome::Lost),
                Err(_) => Later::Read(request, None),
            };
            let after = self.rng.below(400);
            self.later(n, after, answer);
        }
        if self.nodes[n].reaches_directory && !(lost && self.rng.one_in(2)) {
            let takes = if what.is_ok() { self.directory_takes * MS } else { 0 };
            let at = (self.now + late * MS).max(if takes > 0 { self.directory_free + takes } else { 0 });
            self.directory_free = self.directory_free.max(at);
            self.asked.push(Asked { at, n, life: self.nodes[n].life, request, what, lost });
        }
    }
    fn decide(&mut self) {
        let now = self.now;
        for Asked { n, life, request, what, lost, .. } in self.asked.extract_if(.., |asked| asked.at <= now).collect::<Vec<_>>() {
            let answer = match what {
                Err(objects) => {
                    self.reads += 1;
                    let records = objects.into_iter().map(|object| (object, self.records.get(&object).cloned())).collect();
                    Later::Read(request, Some(records))
                }
                Ok(changes) => Later::Changed(request, self.transact(changes)),
            };
            if !lost && self.nodes[n].up && self.nodes[n].life == life {
                let late = self.rng.below(10);
                self.later(n, late, answer);
            }
        }
    }
    fn transact(&mut self, changes: Vec<Change>) -> ChangeOutcome {
        let holds = |change: &&Change| self.records.get(&change.object).is_some_and(|(revision, _)| *revision == change.on);
        if let Some(wrong) = changes.iter().find(|change| !holds(change)) {
            return ChangeOutcome::Refused(Some(wrong.object));
        }
        self.revision += 1;
        self.transactions.push((self.now, changes.len()));
        for change in changes {
            self.put(change.object, *change.new);
        }
        ChangeOutcome::Made(Revision(self.revision))
    }

    // ---- nodes and links --------------------------------------------------------------------------------------------

    fn starts(&mut self, n: usize) {
        let clock = self.clock(n);
        for o in self.others(n) {
            self.nodes[n].counter.add(node(o), clock);
        }
        for ((object, component), accepted) in self.nodes[n].copies.clone() {
            self.with(n, |owners, g| owners.component(g, object, component, accepted));
        }
        self.nodes[n].watched = self.now;
        self.snapshot(n);
    }
    /// It is gone, with its memory.
    pub fn stops(&mut self, n: usize) {
        for o in self.others(n) {
            self.close(n, o, u64::MAX);
        }
        self.nodes[n].up = false;
    }
    pub fn restarts(&mut self, n: usize) {
        let (clock, life) = (self.clock(n), Incarnation(self.nodes[n].life.0 + 1));
        let at = &mut self.nodes[n];
        let mut new = Node::begins(n, at.per_mille, life, clock, self.rng.next());
        (new.copies, new.reaches_directory) = (core::mem::take(&mut at.copies), at.reaches_directory);
        *at = new;
        for o in self.others(n) {
            let opens = self.now + (1 + self.rng.below(300)) * MS;
            self.close(n, o, opens);
        }
        self.starts(n);
    }
    pub fn close(&mut self, a: usize, b: usize, opens: u64) {
        self.opens[a.min(b)][a.max(b)] = opens.max(1);
        for (from, to) in [(a, b), (b, a)] {
            self.links[from][to].clear();
            self.nodes[from].counter.closed(node(to));
            self.nodes[from].granter.closed(node(to));
        }
    }
    pub fn is_open(&self, a: usize, b: usize) -> bool {
        self.opens[a.min(b)][a.max(b)] == 0
    }
    fn open(&mut self) {
        for (a, b) in (0..self.nodes.len()).flat_map(|b| (0..b).map(move |a| (a, b))) {
            let both = self.nodes[a].up && self.nodes[b].up;
            if both && !self.is_open(a, b) && self.opens[a][b] <= self.now {
                self.opens[a][b] = 0;
                for (from, to) in [(a, b), (b, a)] {
                    let (clock, life) = (self.clock(from), self.nodes[to].life);
                    self.nodes[from].counter.opened(node(to), clock);
                    self.nodes[from].granter.opened(node(to), life);
                    self.with(from, |owners, g| owners.opened(g, node(to), life));
                    self.carry(from);
                }
            }
        }
    }
    fn send(&mut self, from: usize, to: usize, msg: Msg) {
        if self.is_open(from, to) {
            let late = if self.rng.one_in(self.late) { self.rng.below(900) } else { self.rng.below(3) };
            let after = self.links[from][to].back().map_or(0, |(at, _)| *at);
            let at = after.max(self.now + late * MS);
            self.links[from][to].push_back((at, msg));
        }
    }
    fn deliver(&mut self, n: usize) {
        for from in self.others(n) {
            while self.links[from][n].front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, msg) = self.links[from][n].pop_front().unwrap();
                let (clock, id) = (self.clock(n), node(from));
                self.nodes[n].counter.heard(id, clock);
                match msg {
                    Msg::Beat(beat) => self.nodes[n].granter.heartbeat(id, &beat).unwrap(),
                    Msg::Grant(grant) => {
                        let mut outranked = Vec::new();
                        self.nodes[n].counter.granted(id, &grant, clock, &mut outranked).unwrap();
                        for (object, epoch) in outranked {
                            self.with(n, |owners, g| owners.outranked(g, object, epoch));
                        }
                    }
                    Msg::Load(load) => {
                        if load == Load::ENDS {
                            self.nodes[n].counter.ends(id);
                        }
                        self.with(n, |owners, _| owners.loaded(id, load));
                    }
                    Msg::CopyFails(fails) => self.with(n, |owners, g| owners.copy_fails(g, id, fails)),
                    Msg::Bad(bad) => self.with(n, |owners, _| owners.bad_block(id, bad)),
                    Msg::Release(release) => {
                        self.nodes[n].granter.released(id, release.object, release.epoch);
                        self.with(n, |owners, g| owners.released(g, release.object, id, release.next));
                    }
                    Msg::Fence(by, fence) => self.with(n, |owners, g| owners.fence(g, by, fence)),
                    Msg::Fenced(fenced) => self.with(n, |owners, g| owners.fenced(g, id, fenced)),
                }
            }
        }
    }

    // ---- what a host wants done -------------------------------------------------------------------------------------

    pub fn carry(&mut self, n: usize) {
        while let Some(action) = {
            let now = self.clock(n);
            self.nodes[n].owners.pop(now)
        } {
            match action {
                Action::Read { request, objects } => {
                    assert!(objects.len() <= READS_MAX);
                    self.ask(n, request, Err(objects));
                }
                Action::Change { request, changes } => {
                    assert!(changes.len() <= CHANGES_MAX);
                    changes.iter().for_each(|change| self.needs_all(n, change));
                    self.ask(n, request, Ok(changes));
                }
                Action::Fence { to, fence } => {
                    assert!(self.plane(n, fence.object).cell.is_some(), "a copy is fenced before the cores have the cell");
                    let by = OwnerId { node: node(n), incarnation: self.nodes[n].life };
                    self.send(n, number(to), Msg::Fence(by, fence));
                }
                Action::Fenced { to, fenced } => self.send(n, number(to), Msg::Fenced(fenced)),
                Action::Load { to, load } => self.send(n, number(to), Msg::Load(load)),
                Action::Count => self.later(n, 3, Later::Counted),
                Action::Goes { object, to, .. } => self.went.push((self.now, object, number(to))),
                Action::CopyFails { to, fails } => self.send(n, number(to), Msg::CopyFails(fails)),
                Action::BadBlock { to, bad } => self.send(n, number(to), Msg::Bad(bad)),
                Action::Release { to, release } => {
                    assert!(self.plane(n, release.object).cell.is_none(), "released while cores may answer");
                    self.send(n, number(to), Msg::Release(release));
                }
                Action::Accept { by, fence } => {
                    let plane = self.plane(n, fence.object);
                    assert!(
                        by.node == node(n) || !plane.serving && plane.cell.is_none(),
                        "another's epoch is accepted while this node serves"
                    );
                    let ms = 1 + self.rng.below(8);
                    self.later(n, ms, Later::Accepted(by, fence));
                }
                Action::Away { object, away } => {
                    let node = &mut self.nodes[n];
                    assert!(if away { node.away.insert(object) } else { node.away.remove(&object) }, "it was said before");
                    assert!(!away || !self.plane(n, object).serving, "it is served");
                }
                Action::Cell { object, cell } => self.plane(n, object).cell = cell,
                Action::Plane { object, command } => self.command(n, object, command),
            }
        }
    }
    pub fn plane(&mut self, n: usize, object: ObjectId) -> &mut Plane {
        self.nodes[n].planes.entry(object).or_default()
    }
    /// Reads need the grants of all whom the change makes active.
    fn needs_all(&mut self, n: usize, change: &Change) {
        if self.plane(n, change.object).cell.is_some() {
            let needed = self.nodes[n].counter.needed(change.object);
            let needs = |c: &CopyRecord| c.node == node(n) || needed.contains(&c.node);
            assert!(change.new.active().all(needs), "a change is sent before reads need all grants");
        }
    }
    fn command(&mut self, n: usize, object: ObjectId, command: Command) {
        let ms = 1 + self.rng.below(5);
        match command {
            Command::Targets(targets) => {
                self.plane(n, object).term = targets.ownership.term;
            }
            Command::Serve => {
                let plane = self.plane(n, object);
                plane.serving = true;
                let term = plane.term;
                let by = OwnerId { node: node(n), incarnation: self.nodes[n].life };
                assert_eq!(self.terms.get(&(object, term)), Some(&by), "a term is served that the directory does not know");
                let serves = self.serves.entry(object).or_default();
                *serves = term.max(*serves);
            }
            Command::Stop => {
                let plane = self.plane(n, object);
                (plane.serving, plane.drains) = (false, None);
            }
            Command::Drain(number) => {
                self.plane(n, object).drains = Some(self.now);
                let ms = ms + self.drain_takes;
                (0..CORES).for_each(|core| self.later(n, ms, Later::Plane(object, core, Event::Drained(number))));
            }
            Command::Repair { copy, block } => self.plane(n, object).repairs.push((copy.component, block)),
            Command::Resume => self.plane(n, object).drains = None,
            Command::Join { copy: CopyRef { component: copy, .. }, invited } => {
                (0..CORES).for_each(|core| self.later(n, ms, Later::Plane(object, core, Event::JoinDrained { copy, invited })));
            }
            Command::Agree { term, mirror, lane, ranges, .. } => {
                let ranges = ranges.len() as u32;
                self.later(n, ms, Later::Plane(object, 0, Event::Agreed { term, mirror, lane, ranges }));
            }
            Command::List { from, epoch, .. } => {
                let chunk = |chunk| ListedChunk { chunk, source: Some((epoch, 3)), there: true, own_doubt: 0 };
                let listed = Listed { from, epoch, chunks: (from..from + 3).map(chunk).collect(), next: None };
                self.later(n, ms, Later::Plane(object, 0, Event::Listed(listed)));
            }
            Command::CopyRange(range) => self.later(n, ms, Later::Plane(object, 0, Event::Copied(range))),
            Command::MarkMoves { .. } | Command::Answer { .. } | Command::ResyncPace(_) => {}
            command => panic!("{command:?} is not for cores"),
        }
    }
    fn happens(&mut self, n: usize, what: Later) {
        match what {
            Later::Accepted(by, fence) => self.accepted(n, by, fence),
            Later::Plane(object, core, event) => self.with(n, |owners, g| owners.plane(g, object, core, event)),
            Later::Record(object, Some((revision, record))) => {
                assert!(self.with(n, |owners, g| owners.record(g, object, revision, record)));
            }
            Later::Record(object, None) => self.with(n, |owners, g| owners.removed(g, object)),
            Later::Read(request, records) => self.with(n, |owners, g| owners.read(g, request, records)),
            Later::Changed(request, outcome) => self.with(n, |owners, g| owners.changed(g, request, outcome)),
            Later::Counted => self.counted(n),
        }
    }
    /// What the cores of a node have counted: five seconds of what hosts ask by it, and of what they ask by others if it serves the object.
    fn counted(&mut self, n: usize) {
        let serves = |object: &ObjectId| self.nodes[n].planes.get(object).is_some_and(|plane| plane.serving);
        let of = |(object, by): (&ObjectId, &BTreeMap<usize, u64>)| {
            let here = |at: &usize| *at == n || serves(object);
            let by: BTreeMap<NodeId, u64> = by.iter().filter(|(at, _)| here(at)).map(|(at, rate)| (node(*at), rate * 5)).collect();
            (*object, Requests { units: by.values().sum(), by })
        };
        let asked = self.hosts.iter().map(of).collect();
        self.with(n, |owners, g| owners.counted(g, &asked));
    }
    fn accepted(&mut self, n: usize, by: OwnerId, fence: Fence) {
        let Fence { object, component, epoch, resync, .. } = fence;
        let fails = self.rng.one_in(self.lost * 2) || self.nodes[n].hangs;
        let said = self.nodes[n].copies.get_mut(&(object, component)).filter(|_| !fails).map(|accepted| {
            *accepted = Some((epoch, by));
            let range = |first| BlockRange { first: BlockNo(first), blocks: 2 };
            let lane = LaneDoubt { lane: Lane::new(1).unwrap(), mark: Seq::default(), doubt: vec![range(4), range(9 + n as u64)] };
            Fenced { from: component, epoch, lanes: vec![lane], resync: resync.then(Progress::default) }
        });
        let why = if self.nodes[n].hangs { NotAccepted::Fails } else { NotAccepted::NotNow };
        self.with(n, |owners, g| owners.accepted(g, object, component, said.ok_or(why)));
    }

    // ---- time -------------------------------------------------------------------------------------------------------

    fn runs(&mut self, n: usize) {
        self.deliver(n);
        let now = self.now;
        let due: Vec<(u64, Later)> = self.nodes[n].later.extract_if(.., |(at, _)| *at <= now).collect();
        due.into_iter().for_each(|(_, what)| self.happens(n, what));
        let clock = self.clock(n);
        while let Some((of, reach)) = self.nodes[n].counter.reach(clock) {
            self.with(n, |owners, g| owners.reach(g, of, reach));
        }
        if self.nodes[n].owners.deadline(clock) <= clock {
            self.with(n, |owners, g| owners.poll(g));
        }
        self.carry(n);
        for to in self.others(n) {
            while let Some(beat) = self.nodes[n].counter.heartbeat(node(to), clock) {
                self.send(n, to, Msg::Beat(beat));
            }
            while let Some(grant) = self.nodes[n].granter.grant(node(to), clock) {
                self.send(n, to, Msg::Grant(grant));
            }
        }
    }
    /// It answers the reads that it may.
    fn answers(&mut self, n: usize) {
        let clock = self.clock(n);
        let at = &self.nodes[n];
        for (object, plane) in at.planes.iter().filter(|(_, plane)| plane.serving) {
            if plane.cell.as_ref().is_some_and(|cell| cell.may_answer(clock)) {
                self.answered += 1;
                assert!(plane.term >= self.serves[object], "a read is answered while a later owner serves");
            }
        }
    }
    pub fn step(&mut self) {
        self.now += (1 + self.rng.below(4)) * MS;
        self.decide();
        self.open();
        for n in 0..self.nodes.len() {
            if self.nodes[n].up && self.nodes[n].paused <= self.now {
                // It reads by a clock of now, whatever has come meanwhile.
                self.answers(n);
                self.runs(n);
                self.answers(n);
            }
        }
    }
    pub fn plays(&mut self, ms: u64) {
        let until = self.now + ms * MS;
        while self.now < until {
            self.step();
        }
    }
    /// Plays until that holds: after how many ms it did.
    #[track_caller]
    pub fn until(&mut self, ms: u64, what: &str, holds: impl Fn(&World) -> bool) -> u64 {
        let began = self.now;
        while !holds(self) {
            assert!(self.now < began + ms * MS, "not within {ms} ms: {what}: {}", self.says());
            self.step();
        }
        (self.now - began) / MS
    }
    /// Of the first object that is not served on all copies: what each node says.
    fn says(&self) -> String {
        let waits = |k: &usize| self.serves(*k).is_none() || !self.records[&object(*k)].1.is_whole();
        let Some(k) = (0..self.records.len()).find(waits) else { return "all is whole".into() };
        let states: Vec<_> = self.nodes.iter().map(|n| (n.up, n.life, n.owners.state(object(k)))).collect();
        format!("object {k}: {states:?}, {:?}", self.records[&object(k)])
    }
    /// Who serves an object, by its record.
    pub fn serves(&self, k: usize) -> Option<usize> {
        let (_, record) = self.records.get(&object(k))?;
        let n = number(record.owner.node);
        let at = &self.nodes[n];
        let lives = at.up && at.life == record.owner.incarnation;
        (lives && at.owners.state(object(k)) == Some(OwnerState::Serving)).then_some(n)
    }
    pub fn all_served(&self) -> bool {
        (0..self.records.len()).all(|k| self.serves(k).is_some())
    }
    pub fn all_whole(&self) -> bool {
        self.all_served() && self.records.values().all(|(_, record)| record.is_whole())
    }
}

impl Node {
    fn new(n: usize, per_mille: u64, rng: &mut Rng) -> Node {
        Node::begins(n, per_mille, Incarnation(1), Instant((n as u64 + 1) * 1_000_000 * MS), rng.next())
    }
    fn begins(n: usize, per_mille: u64, life: Incarnation, clock: Instant, random: u64) -> Node {
        let me = OwnerId { node: node(n), incarnation: life };
        Node {
            up: true,
            life,
            per_mille,
            granter: Granter::new(node(n), clock),
            counter: Counter::new(),
            owners: Owners::new(me, CORES, Nonce(u128::from(random) << 64 | u128::from(random) << 8)),
            copies: BTreeMap::new(),
            planes: BTreeMap::new(),
            away: BTreeSet::new(),
            later: vec![],
            watched: 0,
            reaches_directory: true,
            paused: 0,
            hangs: false,
        }
    }
}

/// Nodes with copies of an object that are in sync, as its record says.
pub fn active(world: &World, k: usize) -> BTreeSet<usize> {
    world.records[&object(k)].1.active().map(|c| number(c.node)).collect()
}

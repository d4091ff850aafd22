//! Several nodes as their routers, over stand-ins for stores and links: an owner, and copies of a mirror. Answers come late, links are reset at
//! any time; what must hold is asserted as it happens.

use super::*;
use crate::cores::{GroupRoute, LaneCores};
use crate::grant::Counter;
use crate::io::{Backend, DataVec, Extent, IoDone, IoOp, IoRequest, extents};
use crate::lanes::Blocks;
use crate::layout::{ComponentAt, CopyAt, CopyPlace, GroupSlot, HeldCopy, LayoutView, Mirror, VolumeLayout};
use crate::owner::Command;
use crate::router::VolumeRouter;
use base::hooks;
use base::unit::{BLOCK_BYTES, BlockNo, PIECE_BLOCKS, SECTOR_BYTES};
use base::{Incarnation, Lane, ObjectId, OwnerId, Ownership, Seq, SourceContent, SourceRun, VolumeId, crc32c};
use format::peer::{Change, Grant};
use rt::Buf;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use store::{ComponentNo, Crcs, RangeContent, ReplicaView, ShardDone, ShardOp, StoreError};

mod reads;
mod service;
mod transfers;

/// A range as a copy got it: its first block, its source's chunk, and the progress.
type CameRange = (u64, Option<(Epoch, u16)>, base::ResyncProgress);

const VOLUME: VolumeRef = VolumeRef(0);
const VOLUME_BYTES: u64 = 2 << 20;
const ROUTE: GroupRoute = GroupRoute { shards: 1, first_core: 0 };
const AT: ComponentAt = ComponentAt { group: GroupSlot(0), no: ComponentNo(1) };

fn node(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}
fn component(n: usize) -> ComponentId {
    ComponentId::from_bytes([n as u8 + 0x41; 16])
}
fn copy(n: usize) -> CopyRef {
    CopyRef { mirror: 0, node: node(n), component: component(n) }
}
fn owner(n: usize) -> OwnerId {
    OwnerId { node: node(n), incarnation: Incarnation(1) }
}
fn owned(epoch: u32) -> Ownership {
    Ownership { epoch: Epoch(epoch), term: Epoch(1), period_start: Epoch(1) }
}
fn targets(epoch: u32, copies: &[usize]) -> Command {
    let copies: Vec<_> = copies.iter().map(|n| (copy(*n), CopyState::Active)).collect();
    let read = vec![copies[0].0];
    Command::Targets(Targets { ownership: owned(epoch), copies, read })
}

/// What all see.
#[derive(Default)]
struct Seen {
    chance: u64,
    /// Which changes each node has, by lane.
    has: BTreeSet<(usize, Lane, Seq)>,
    /// Changes go to all copies, and in their order: nothing is copied from one to another, and no epoch rises.
    plain: bool,
}

impl Seen {
    fn random(&mut self, below: usize) -> usize {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) as usize % below
    }
}

/// A store that answers late and in any order. What it has it knows by number, as one copy of several does.
struct Disk {
    node: usize,
    copies: Vec<usize>,
    seen: Rc<RefCell<Seen>>,
    blocks: BTreeMap<u64, Box<[u8]>>,
    /// Blocks that were declared uncorrectable.
    lost: BTreeSet<u64>,
    bad: BTreeSet<u64>,
    full: bool,
    /// The epoch that was accepted last and whose, and the one that is durable.
    accepted: (Epoch, OwnerId),
    durable: Epoch,
    taken: BTreeMap<Lane, Seq>,
    marks: BTreeMap<Lane, Seq>,
    /// What the source says of ranges, and what progress they bring.
    ranges: Vec<CameRange>,
    pending: Vec<ShardOp>,
    done: VecDeque<ShardDone>,
    carried_out: usize,
}

impl Disk {
    fn set(&mut self, block: u64, data: Option<&[u8]>) {
        self.bad.remove(&block);
        self.lost.remove(&block);
        match data {
            Some(data) => _ = self.blocks.insert(block, data.into()),
            None => _ = self.blocks.remove(&block),
        }
    }
    fn fill(&mut self, block: u64, value: u8) {
        self.set(block, Some(&[value; BLOCK_BYTES]));
    }
    fn run(&mut self, op: ShardOp) -> ShardDone {
        let blocks = op.block.0..op.block.0 + u64::from(op.blocks);
        let (mut buf, mut crcs, mut result) = (None, Crcs::new(), Ok(()));
        let changes = is_change(&op.kind);
        let kind = match op.kind {
            OpKind::Range(range) => {
                self.ranges.push((op.block.0, range.source, range.progress));
                match range.content {
                    RangeContent::Data { buf, crcs, checksum } => OpKind::Write { buf, crcs, checksum },
                    RangeContent::Nothing => OpKind::Trim,
                    RangeContent::Uncorrectable => OpKind::Uncorrectable,
                }
            }
            kind => kind,
        };
        match kind {
            OpKind::Read { buf: mut out } => {
                for (part, block) in out.chunks_exact_mut(BLOCK_BYTES).zip(blocks.clone()) {
                    match self.blocks.get(&block) {
                        Some(bytes) => part.copy_from_slice(bytes),
                        None => part.fill(0),
                    }
                    crcs.push(crc32c(part));
                }
                if let Some(block) = self.bad.range(blocks.clone()).next() {
                    result = Err(StoreError::Media { block: BlockNo(*block) });
                }
                if let Some(block) = self.lost.range(blocks).next() {
                    result = Err(StoreError::Uncorrectable { block: BlockNo(*block) });
                }
                buf = Some(out);
            }
            OpKind::Write { .. } if self.full => result = Err(StoreError::NoSpace),
            OpKind::Write { buf: data, crcs, .. } => {
                for ((part, crc), block) in data.chunks_exact(BLOCK_BYTES).zip(crcs).zip(blocks) {
                    assert_eq!(crc32c(part), crc, "each block has its checksum");
                    self.set(block, Some(part));
                }
            }
            OpKind::Flush | OpKind::Range(_) => unreachable!("not asked for"),
            OpKind::Accept { .. } => self.durable = self.durable.max(op.order.epoch),
            OpKind::Uncorrectable => self.lost.extend(blocks),
            OpKind::Trim | OpKind::Zero => blocks.for_each(|b| self.set(b, None)),
        }
        if changes {
            self.carried_out += 1;
            // Also without space: then nobody has it, and it is over.
            self.seen.borrow_mut().has.insert((self.node, Lane::of(op.block), op.order.seq));
        }
        ShardDone { cookie: op.cookie, result, buf, crcs }
    }
    /// As a store judges a change of a copy: how it is answered without being carried out.
    fn judge(&mut self, op: &ShardOp) -> Option<Result<(), StoreError>> {
        let (lane, Order { epoch, seq, mark, .. }) = (Lane::of(op.block), op.order);
        if epoch < self.accepted.0 {
            return Some(Err(StoreError::StaleEpoch));
        }
        if epoch > self.durable {
            return Some(Err(StoreError::EpochNotAccepted));
        }
        let marked = self.marks.entry(lane).or_default();
        *marked = mark.max(*marked);
        let seen = self.seen.borrow();
        if seq <= *marked || seen.has.contains(&(self.node, lane, seq)) {
            return Some(Ok(()));
        }
        let taken = self.taken.entry(lane).or_default();
        if seen.plain && !self.pending.iter().any(|other| Lane::of(other.block) == lane && other.order.seq == seq) {
            assert!(seq > *taken, "{seq:?} comes after {taken:?}");
            *taken = seq;
        }
        for counter in (1..=mark.counter).filter(|_| seen.plain) {
            let below = Seq { counter, ..mark };
            let all = self.copies.iter().all(|n| seen.has.contains(&(*n, lane, below)));
            assert!(all, "the mark {mark:?} names {below:?}, which not everybody has");
        }
        None
    }
}

fn is_change(kind: &OpKind) -> bool {
    !matches!(kind, OpKind::Read { .. } | OpKind::Accept { .. })
}

impl Blocks for Disk {
    fn submit(&mut self, _: &Rt, op: ShardOp) {
        if let OpKind::Accept { by, .. } = op.kind {
            assert!(op.order.epoch >= self.accepted.0, "nobody asks for less");
            self.accepted = (op.order.epoch, by);
        }
        if is_change(&op.kind)
            && let Some(result) = self.judge(&op)
        {
            return self.done.push_back(ShardDone { cookie: op.cookie, result, buf: None, crcs: Crcs::new() });
        }
        self.pending.push(op);
    }
    fn poll(&mut self, _: &Rt) -> bool {
        if self.pending.is_empty() || self.seen.borrow_mut().random(3) == 0 {
            return false;
        }
        let at = self.seen.borrow_mut().random(self.pending.len());
        let op = self.pending.swap_remove(at);
        // What came again while it was under way is answered when it is there.
        let same = |other: &ShardOp| is_change(&other.kind) && is_change(&op.kind) && other.order.seq == op.order.seq;
        let again = |other: &mut ShardOp| same(other) && Lane::of(other.block) == Lane::of(op.block);
        let again: Vec<u64> = self.pending.extract_if(.., again).map(|other| other.cookie).collect();
        let done = self.run(op);
        self.done.extend(again.into_iter().map(|cookie| ShardDone { cookie, result: done.result, buf: None, crcs: Crcs::new() }));
        self.done.push_back(done);
        true
    }
    fn pop_done(&mut self) -> Option<ShardDone> {
        self.done.pop_front()
    }
    fn pieces(&self, _: ComponentNo, _: u64, _: u64, _: u64, _: impl FnMut(u64)) -> bool {
        false
    }
    fn newest(&self, _: ComponentNo, _: Lane) -> Option<Seq> {
        Some(Seq::default())
    }
    fn replica(&self, _: ComponentNo) -> Option<ReplicaView> {
        let (accepted, by) = self.accepted;
        Some(ReplicaView { accepted, by, durable: self.durable, resync: None })
    }
    fn source_run(&self, _: ComponentNo, block: BlockNo, blocks: u32) -> SourceRun {
        let content = |at: u64| match () {
            () if self.lost.contains(&at) => SourceContent::Uncorrectable,
            () if self.blocks.contains_key(&at) => SourceContent::Data,
            () => SourceContent::Nothing,
        };
        let first = content(block.0);
        let same = (block.0..block.0 + u64::from(blocks)).take_while(|at| content(*at) == first).count() as u32;
        let of_chunk = block.chunk() * 16..block.chunk() * 16 + 16;
        let there = of_chunk.clone().any(|at| content(at) != SourceContent::Nothing);
        SourceRun { content: first, blocks: same, chunk: there.then_some((self.durable, of_chunk.start as u16 | 1)) }
    }
}

enum Wire {
    Ask(u64, CopyAsk),
    Answer(u64, CopyAnswer),
}

struct Rig {
    rt: Rt,
    nodes: Vec<VolumeRouter<Disk>>,
    /// From and to; in order.
    wires: BTreeMap<(usize, usize), VecDeque<Wire>>,
    /// The owner's link to each node.
    links: BTreeMap<usize, u64>,
    /// Nothing comes to these nodes.
    held_up: BTreeSet<usize>,
    /// Of requests at a node: whose, by the token there.
    served: BTreeMap<(usize, u64), u64>,
    tokens: u64,
    /// Numbers of changes that went to nodes.
    sent: Vec<(usize, Order)>,
    seen: Rc<RefCell<Seen>>,
    copies: Vec<usize>,
}

impl Rig {
    /// Node 0 owns a mirror whose copies are on these nodes, and serves it.
    fn new(rt: &Rt, seed: u64, copies: &[usize]) -> Rig {
        let mut rig = Rig::waiting(rt, seed, copies);
        rig.command(&targets(1, copies));
        rig.command(&Command::Serve);
        rig.grants(rt, true);
        rig
    }
    /// Reads need no grants from now on, or one that nobody gives.
    fn grants(&mut self, rt: &Rt, valid: bool) {
        let needs: &[NodeId] = if valid { &[] } else { &[node(1)] };
        let cell = Counter::new().own(ObjectId::from_bytes([7; 16]), Epoch(1), needs, rt.boot_clock());
        self.nodes[0].set_cell(rt, VOLUME, cell);
    }
    fn waiting(rt: &Rt, seed: u64, copies: &[usize]) -> Rig {
        let seen = Rc::new(RefCell::new(Seen { chance: seed * 77 + 1, plain: true, ..Seen::default() }));
        let most = copies.iter().max().expect("a copy") + 1;
        let nodes = (0..most).map(|n| {
            let mut router = VolumeRouter::new(rt);
            router.set_route(GroupSlot(0), Some(ROUTE));
            let disk = Disk {
                node: n,
                copies: copies.to_vec(),
                seen: Rc::clone(&seen),
                blocks: BTreeMap::new(),
                lost: BTreeSet::new(),
                bad: BTreeSet::new(),
                full: false,
                accepted: (Epoch(1), owner(0)),
                durable: Epoch(1),
                taken: BTreeMap::new(),
                marks: BTreeMap::new(),
                ranges: Vec::new(),
                pending: Vec::new(),
                done: VecDeque::new(),
                carried_out: 0,
            };
            router.lanes_mut().add_shard(GroupSlot(0), 0, disk);
            router
        });
        let mut rig = Rig {
            rt: rt.clone(),
            nodes: nodes.collect(),
            wires: BTreeMap::new(),
            links: BTreeMap::new(),
            held_up: BTreeSet::new(),
            served: BTreeMap::new(),
            tokens: 0,
            sent: Vec::new(),
            seen,
            copies: copies.to_vec(),
        };
        for n in 0..most {
            rig.serve(n, 0, 1);
        }
        for n in copies.iter().filter(|n| **n > 0) {
            rig.reset(*n);
        }
        rig
    }
    /// A node goes by a picture in which the volume has this owner.
    fn serve(&mut self, n: usize, owner: usize, epoch: u32) {
        let cores = LaneCores::dealt(ObjectId::from_bytes([9; 16]), 0, 1);
        let place = |c: usize| if c == n { CopyPlace::Here(AT) } else { CopyPlace::On { node: node(c), component: component(c) } };
        let copies: Vec<CopyAt> = self.copies.iter().map(|c| CopyAt { state: CopyState::Active, place: place(*c) }).collect();
        let shards = self.copies.contains(&n).then(|| LaneCores::of_group(ROUTE, 1));
        let layout = VolumeLayout {
            id: VolumeId::from_bytes([7; 16]),
            lanes: VOLUME,
            bytes: VOLUME_BYTES,
            read_only: false,
            checksum: true,
            limits: Arc::default(),
            ownership: owned(epoch),
            mirrors: if n == owner { vec![Mirror::new(copies, cores, shards)] } else { Vec::new() },
            owner: (n != owner).then(|| node(owner)),
            revision: 0,
        };
        let held = HeldCopy { at: AT, owner: node(owner), epoch: Epoch(epoch) };
        let held = (n != owner).then_some((component(n), held)).into_iter().collect();
        self.nodes[n].apply(
            &self.rt,
            Arc::new(LayoutView { volumes: vec![Some(Arc::new(layout))], held, ..LayoutView::default() }),
            |_| true,
        );
    }
    fn command(&mut self, command: &Command) {
        // The owner's own copy is fenced with each epoch; others hear of one with the first change in it.
        if let Command::Targets(targets) = command {
            self.fence(0, 0, targets.ownership.epoch.0);
        }
        assert!(self.nodes[0].copy_command(&self.rt, node(0), VOLUME, command));
    }
    /// The copy of a node has accepted this epoch of that owner.
    fn fence(&mut self, n: usize, by: usize, epoch: u32) {
        let disk = self.disk(n);
        (disk.accepted, disk.durable) = ((Epoch(epoch), owner(by)), Epoch(epoch));
    }
    /// The link with a node is another one.
    fn reset(&mut self, n: usize) {
        self.wires.remove(&(0, n));
        self.wires.remove(&(n, 0));
        self.served.retain(|(at, _), _| *at != n);
        let link = self.links.entry(n).or_default();
        *link += 1;
        let link = *link;
        self.nodes[0].closed(node(n));
        self.nodes[0].opened(&self.rt, node(n), link);
    }
    fn submit(&mut self, token: u64, op: IoOp) {
        self.nodes[0].submit(&self.rt, IoRequest::new(token, VOLUME, op));
    }
    /// Everybody moves on; an answer to a request, if there is one.
    fn turn(&mut self) -> Option<IoDone> {
        for n in 0..self.nodes.len() {
            let router = &mut self.nodes[n];
            router.poll(&self.rt, |_| true);
            if let Some(door) = Backend::copies(router) {
                door.poll_copies(&self.rt);
            }
            while let Some((_, msg)) = router.pop_msg() {
                router.on_msg(&self.rt, msg);
            }
            while let Some(CopyCall { node: to, link, token, ask }) = router.pop_call() {
                let to = (0..self.links.len() + 2).find(|n| node(*n) == to).expect("a node");
                assert_eq!(n, 0, "the owner asks");
                if link < self.links[&to] {
                    continue;
                }
                if let CopyAsk::Change { change, .. } = &ask {
                    self.sent.push((to, change.order));
                }
                self.wires.entry((n, to)).or_default().push_back(Wire::Ask(token, ask));
            }
            while let Some((token, answer)) = router.pop_answer() {
                if let Some(theirs) = self.served.remove(&(n, token)) {
                    self.wires.entry((n, 0)).or_default().push_back(Wire::Answer(theirs, answer));
                }
            }
        }
        let ready = |(from, to): &(usize, usize)| !self.held_up.contains(to) && !self.held_up.contains(from);
        let ways: Vec<(usize, usize)> =
            self.wires.iter().filter(|(way, wire)| !wire.is_empty() && ready(way)).map(|(way, _)| *way).collect();
        if !ways.is_empty() {
            let way = ways[self.seen.borrow_mut().random(ways.len())];
            match self.wires.get_mut(&way).and_then(VecDeque::pop_front).expect("it was there") {
                Wire::Ask(token, ask) => {
                    self.tokens += 1;
                    self.served.insert((way.1, self.tokens), token);
                    self.nodes[way.1].serve_ask(&self.rt, node(way.0), self.tokens, ask);
                }
                Wire::Answer(token, answer) => self.nodes[way.1].answered(&self.rt, token, answer),
            }
        }
        self.nodes[0].pop()
    }
    async fn turns(&mut self, turns: usize) -> Vec<IoDone> {
        let mut done = Vec::new();
        for _ in 0..turns {
            done.extend(self.turn());
            self.rt.sleep(Duration::from_micros(50)).await;
        }
        done
    }
    async fn answer(&mut self, op: IoOp) -> IoDone {
        self.submit(99, op);
        for _ in 0..50_000 {
            if let Some(done) = self.turn() {
                return done;
            }
            self.rt.sleep(Duration::from_micros(50)).await;
        }
        panic!("never answered");
    }
    fn disk(&mut self, n: usize) -> &mut Disk {
        self.nodes[n].lanes_mut().shard_mut(GroupSlot(0), 0).expect("its shard")
    }
    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.nodes[0].pop_copy_event()).map(|(_, event)| event).collect()
    }
    fn are_equal(&mut self) {
        let copies = self.copies.clone();
        let of = |disk: &Disk| -> (BTreeMap<u64, Box<[u8]>>, BTreeSet<u64>) {
            let filled = disk.blocks.iter().filter(|(at, bytes)| bytes.iter().any(|b| *b != 0) && !disk.lost.contains(at));
            (filled.map(|(at, bytes)| (*at, bytes.clone())).collect(), disk.lost.clone())
        };
        let first = of(self.disk(copies[0]));
        for n in &copies[1..] {
            let other = of(self.disk(*n));
            assert!(first == other, "copies 0 and {n} are equal");
        }
    }
}

impl VolumeRouter<Disk> {
    fn serve_ask(&mut self, rt: &Rt, from: NodeId, token: u64, ask: CopyAsk) {
        CopyDoor::serve(self, rt, from, token, ask);
    }
}

fn data(offset: u64, len: u32, value: u8) -> DataVec {
    let make = |extent: Extent| {
        let mut buf = Buf::alloc(extent.len as usize);
        buf.fill(value);
        let crcs = if extent.is_aligned() { buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
        Data { buf, crcs }
    };
    extents(offset, len).into_iter().map(make).collect()
}
fn write(block: u64, value: u8) -> IoOp {
    let offset = block * BLOCK_BYTES as u64;
    IoOp::Write { offset, data: data(offset, BLOCK_BYTES as u32, value) }
}
fn read(block: u64) -> IoOp {
    IoOp::Read { offset: block * BLOCK_BYTES as u64, len: BLOCK_BYTES as u32 }
}
fn in_world(test: impl AsyncFn(&Rt) + 'static) {
    rt::sim::block_on(5, async move |rt: Rt| test(&rt).await);
}

/// What each sector may hold.
#[derive(Default)]
struct Model {
    settled: BTreeMap<usize, (u64, u8)>,
    running: BTreeMap<u64, (std::ops::Range<usize>, u8)>,
    reads: BTreeMap<u64, (usize, Vec<Vec<u8>>)>,
}

impl Model {
    fn change(&mut self, token: u64, sectors: std::ops::Range<usize>, value: u8) {
        for (first, shown) in self.reads.values_mut() {
            shown.iter_mut().enumerate().filter(|(i, _)| sectors.contains(&(*first + i))).for_each(|(_, values)| values.push(value));
        }
        self.running.insert(token, (sectors, value));
    }
    fn read(&mut self, token: u64, sectors: std::ops::Range<usize>) {
        let may = |s: usize| {
            let running = self.running.values().filter(|(of, _)| of.contains(&s)).map(|(_, v)| *v);
            std::iter::once(self.settled.get(&s).map_or(0, |(_, v)| *v)).chain(running).collect()
        };
        self.reads.insert(token, (sectors.start, sectors.map(may).collect()));
    }
    fn done(&mut self, done: &IoDone) {
        done.result.expect("nothing fails here");
        if let Some((first, shown)) = self.reads.remove(&done.token) {
            let bytes: Vec<u8> = done.data.iter().flat_map(|d| d.buf.iter().copied()).collect();
            for (i, (sector, values)) in bytes.chunks_exact(SECTOR_BYTES).zip(&shown).enumerate() {
                assert!(sector.iter().all(|b| *b == sector[0]), "sector {} is torn", first + i);
                assert!(values.contains(&sector[0]), "sector {} shows {} but may show {values:?}", first + i, sector[0]);
            }
            return;
        }
        let (sectors, value) = self.running.remove(&done.token).expect("one answer a request");
        for s in sectors {
            let settled = self.settled.entry(s).or_default();
            *settled = (*settled).max((done.token, value));
        }
    }
}

fn random_op(rig: &Rig, model: &mut Model, token: u64) -> IoOp {
    let mut seen = rig.seen.borrow_mut();
    // Around the border of two pieces, so that requests meet.
    let aligned = seen.random(3) > 0;
    let unit = if aligned { BLOCK_BYTES / SECTOR_BYTES } else { 1 };
    let first = (2048 - 64 + seen.random(128)) / unit * unit;
    let sectors = (1 + seen.random(if aligned { 4 } else { 12 })) * unit;
    let (offset, len) = ((first * SECTOR_BYTES) as u64, (sectors * SECTOR_BYTES) as u32);
    let (sectors, value) = (first..first + sectors, (token % 251 + 1) as u8);
    match seen.random(8) {
        0..=2 => {
            model.read(token, sectors);
            IoOp::Read { offset, len }
        }
        3..=5 => {
            model.change(token, sectors, value);
            IoOp::Write { offset, data: data(offset, len, value) }
        }
        6 => {
            model.change(token, sectors, 0);
            IoOp::Zero { offset, len: len.into() }
        }
        _ => {
            model.change(token, sectors, 0);
            IoOp::Trim { offset, len: len.into() }
        }
    }
}

#[test]
fn any_mix_over_links_that_are_reset_reads_what_was_written_and_leaves_equal_copies() {
    for (seed, copies) in (0..24).zip([&[0, 1][..], &[0, 1, 2], &[1, 2], &[1]].into_iter().cycle()) {
        in_world(async move |rt| {
            let (mut rig, mut model, mut token, mut answered) = (Rig::new(rt, seed, copies), Model::default(), 0, 0);
            while answered < 600 {
                if token < 600 && model.running.len() + model.reads.len() < 16 {
                    token += 1;
                    let op = random_op(&rig, &mut model, token);
                    rig.submit(token, op);
                }
                if rig.seen.borrow_mut().random(60) == 0 {
                    let n = rig.copies[rig.seen.borrow_mut().random(copies.len())];
                    if n > 0 {
                        rig.reset(n);
                    }
                }
                if let Some(done) = rig.turn() {
                    answered += 1;
                    model.done(&done);
                }
                rt.sleep(Duration::from_micros(5)).await;
            }
            rig.turns(200).await;
            assert!(rig.nodes.iter().all(VolumeRouter::is_idle), "nothing is left");
            rig.are_equal();
            assert!(rig.nodes[0].copy_stats().resent > 0 && rig.events().is_empty());
        });
    }
}

fn a_change_is_answered_when_every_copy_has_it() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1, 2]);
        rig.held_up.insert(2);
        rig.submit(1, write(3, 7));
        assert!(rig.turns(100).await.is_empty(), "one copy has not got it");
        rig.held_up.clear();
        let done = rig.turns(100).await;
        assert_eq!((done.len(), done[0].result), (1, Ok(())));
        rig.are_equal();
    });
}

fn what_waited_for_a_copy_that_leaves_is_answered_when_the_epoch_is_heard() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        rig.answer(write(3, 7)).await;
        rig.held_up.insert(1);
        rig.submit(1, write(3, 8));
        assert!(rig.turns(100).await.is_empty());
        rig.command(&targets(2, &[0]));
        assert!(rig.turns(100).await.is_empty(), "no copy has accepted the epoch");
        rig.command(&Command::Answer { mirror: 0, epoch: Epoch(2) });
        assert_eq!(rig.turns(5).await.len(), 1);
    });
}

fn a_change_keeps_its_number_on_another_link_and_in_another_epoch() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1, 2]);
        rig.held_up.insert(1);
        rig.submit(1, write(3, 7));
        rig.turns(50).await;
        rig.reset(1);
        rig.turns(50).await;
        rig.seen.borrow_mut().plain = false;
        rig.command(&targets(2, &[0, 1]));
        rig.turns(50).await;
        let sent: Vec<_> = rig.sent.iter().filter(|(to, _)| *to == 1).map(|(_, order)| (order.epoch, order.seq)).collect();
        let seq = Seq { term: Epoch(1), counter: 1 };
        assert_eq!(sent, [(Epoch(1), seq), (Epoch(1), seq), (Epoch(2), seq)]);
        rig.held_up.clear();
        assert!(rig.turns(400).await.is_empty(), "both copies have it, and have acknowledged it in the epoch before");
        rig.command(&Command::Answer { mirror: 0, epoch: Epoch(2) });
        assert_eq!(rig.turns(5).await.len(), 1);
        assert_eq!((rig.disk(1).carried_out, rig.disk(1).durable), (1, Epoch(2)), "it came twice and was carried out once");
        rig.are_equal_of(&[0, 1]);
    });
}

fn no_mark_is_above_what_a_copy_has_not_acknowledged() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        rig.held_up.insert(1);
        for block in 0..2 {
            rig.submit(block, write(block, 7));
        }
        rig.turns(50).await;
        // The second one is answered, the first is not.
        let first = rig.wires.get_mut(&(0, 1)).and_then(VecDeque::pop_front).expect("the first change");
        rig.held_up.clear();
        rig.turns(100).await;
        rig.submit(4, write(4, 7));
        rig.turns(100).await;
        let mark = rig.sent.last().map(|(_, order)| order.mark);
        assert_eq!(mark.map(|mark| mark.counter), Some(0), "{:?}", rig.sent);
        drop(first);
    });
}

fn change(epoch: u32, counter: u64) -> CopyAsk {
    let order = Order { epoch: Epoch(epoch), period_start: Epoch(1), seq: Seq { term: Epoch(1), counter }, mark: Seq::default() };
    let request = format::peer::RequestId::new(1, 0);
    let (component, block, verb) = (component(1), BlockNo(0), ChangeVerb::Trim);
    let change = Change { request, component, order, resync: false, checksum: true, verb, block, blocks: 1, source: None };
    CopyAsk::Change { change: Box::new(change), data: None }
}

fn a_copy_takes_nothing_of_who_does_not_own_it_and_nothing_of_an_epoch_that_is_over() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        rig.seen.borrow_mut().plain = false;
        let asked = async |rig: &mut Rig, from: usize, ask: CopyAsk| {
            rig.nodes[1].serve_ask(&rig.rt.clone(), node(from), 1, ask);
            for _ in 0..100 {
                let rt = rig.rt.clone();
                rig.nodes[1].poll(&rt, |_| true);
                if let Some((_, answer)) = rig.nodes[1].pop_answer() {
                    rig.turns(20).await;
                    return answer.outcome;
                }
                rt.sleep(Duration::from_micros(5)).await;
            }
            panic!("never answered")
        };
        assert_eq!(asked(&mut rig, 0, change(3, 1)).await, CopyOutcome::Closing, "it accepts the epoch first");
        assert_eq!(asked(&mut rig, 0, change(3, 1)).await, CopyOutcome::Done);
        assert_eq!(asked(&mut rig, 0, change(3, 1)).await, CopyOutcome::Done, "it is there");
        assert_eq!(asked(&mut rig, 0, change(2, 2)).await, CopyOutcome::StaleEpoch(Epoch(3)));
        assert_eq!(asked(&mut rig, 2, change(4, 2)).await, CopyOutcome::NotOwner, "perhaps it does by now");
        rig.serve(1, 2, 4);
        assert_eq!(asked(&mut rig, 0, change(3, 2)).await, CopyOutcome::StaleEpoch(Epoch(4)));
        assert_eq!(asked(&mut rig, 2, change(4, 2)).await, CopyOutcome::Closing, "another owner fences first");
        rig.fence(1, 2, 4);
        assert_eq!(asked(&mut rig, 2, change(4, 2)).await, CopyOutcome::Done);
        assert_eq!((rig.disk(1).carried_out, rig.nodes[1].copy_stats().held_refused), (2, 3));
    });
}

#[test]
fn rules_of_changes_and_reads() {
    a_change_is_answered_when_every_copy_has_it();
    what_waited_for_a_copy_that_leaves_is_answered_when_the_epoch_is_heard();
    a_change_keeps_its_number_on_another_link_and_in_another_epoch();
    no_mark_is_above_what_a_copy_has_not_acknowledged();
    reads::an_answer_to_a_read_is_not_taken_for_one_to_the_change_that_follows();
    reads::a_read_shows_nothing_that_is_not_on_all_copies();
    reads::a_read_is_answered_while_the_other_nodes_grant_it();
    reads::a_flush_is_answered_as_a_read_is();
    reads::a_grant_is_looked_at_when_the_data_is_there_by_the_clock_of_then();
    a_copy_takes_nothing_of_who_does_not_own_it_and_nothing_of_an_epoch_that_is_over();
}

#[test]
fn no_space_on_all_copies_is_the_hosts_error_and_on_one_it_is_that_copys() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        rig.disk(0).full = true;
        rig.disk(1).full = true;
        assert_eq!(rig.answer(write(3, 7)).await.result, Err(IoError::NoSpace));
        assert!(rig.events().is_empty());
        rig.disk(0).full = false;
        rig.submit(1, write(3, 8));
        assert!(rig.turns(100).await.is_empty(), "one has it");
        assert!(matches!(rig.events()[..], [Event::CopyFails(c)] if c == component(1)));
        rig.command(&targets(2, &[0]));
        rig.command(&Command::Answer { mirror: 0, epoch: Epoch(2) });
        assert_eq!(rig.turns(5).await.len(), 1);
    });
}

#[test]
fn a_copy_that_its_node_does_not_have_fails_after_a_while() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        let rounds = (ELSEWHERE_MAX.as_millis() / AGAIN_AFTER.as_millis()) as u32;
        let wait = async |rig: &mut Rig, rounds: u32| {
            for _ in 0..rounds {
                rig.turns(3).await;
                rt.sleep(AGAIN_AFTER).await;
            }
        };
        rig.serve(1, 2, 1);
        rig.submit(1, write(3, 7));
        wait(&mut rig, rounds * 3 / 4).await;
        rig.serve(1, 0, 1);
        wait(&mut rig, 2).await;
        rig.serve(1, 2, 1);
        rig.submit(2, write(4, 7));
        wait(&mut rig, rounds * 3 / 4).await;
        assert!(rig.events().is_empty(), "it was there meanwhile");
        wait(&mut rig, rounds).await;
        assert!(matches!(rig.events()[..], [Event::CopyFails(c)] if c == component(1)));
    });
}

#[test]
fn what_a_copy_cannot_read_is_read_elsewhere_and_written_again() {
    for bad in [0, 1] {
        in_world(async move |rt| {
            let mut rig = Rig::new(rt, 1, if bad == 0 { &[0, 1] } else { &[1, 2] });
            rig.answer(write(3, 7)).await;
            rig.disk(bad).bad.insert(3);
            let done = rig.answer(read(3)).await;
            assert!(done.result == Ok(()) && done.data[0].buf.iter().all(|b| *b == 7));
            rig.turns(100).await;
            assert!(rig.disk(bad).bad.is_empty(), "it was repaired in place");
            let stats = rig.nodes[0].copy_stats();
            assert_eq!((stats.read_elsewhere, stats.repaired), (1, 1));
            let all = rig.copies.clone();
            all.iter().for_each(|n| _ = rig.disk(*n).bad.insert(3));
            let offset = 3 * BLOCK_BYTES as u64;
            assert_eq!(rig.answer(read(3)).await.result, Err(IoError::Media { offset }), "nobody can read it");
            assert!(rig.events().is_empty(), "no copy leaves for it");
        });
    }
}

#[test]
fn a_block_that_a_copy_has_lost_and_nobody_reads_is_written_again() {
    for bad in [0, 1] {
        in_world(async move |rt| {
            let mut rig = Rig::new(rt, 1, &[0, 1]);
            rig.answer(write(3, 7)).await;
            rig.disk(bad).bad.insert(3);
            rig.command(&Command::Repair { copy: copy(bad), block: BlockNo(3) });
            rig.turns(200).await;
            assert!(rig.disk(bad).bad.is_empty(), "it was repaired in place");
            assert_eq!(rig.nodes[0].copy_stats().repaired, 1);
            // What nobody has stays as it is.
            [0, 1].into_iter().for_each(|n| _ = rig.disk(n).bad.insert(3));
            rig.command(&Command::Repair { copy: copy(bad), block: BlockNo(3) });
            rig.turns(200).await;
            assert_eq!(rig.nodes[0].copy_stats().repaired, 1);
            assert!(rig.nodes[0].is_idle() && rig.events().is_empty());
        });
    }
}

#[test]
fn as_many_changes_of_a_lane_as_may_be_in_doubt_are_under_way() {
    in_world(async |rt| {
        let most = hooks::tiny(crate::order::IN_DOUBT_MAX, 8) as u64;
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        rig.held_up.insert(1);
        // Three requests a block, each of half a piece's blocks, so that a lane has more than may be.
        let (blocks, rounds) = (PIECE_BLOCKS, 6);
        for token in 0..blocks * rounds {
            rig.submit(token, write(token % blocks, token as u8));
        }
        rig.turns(20).await;
        assert!(rig.sent.len() as u64 <= most.min(blocks), "{}", rig.sent.len());
        rig.held_up.clear();
        let mut done = 0;
        for _ in 0..400 {
            done += rig.turns(100).await.len();
        }
        assert_eq!(done as u64, blocks * rounds);
        rig.are_equal();
    });
}

impl Rig {
    fn are_equal_of(&mut self, copies: &[usize]) {
        self.copies = copies.to_vec();
        self.are_equal();
    }
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::AnsweredWithOneMissing, a_change_is_answered_when_every_copy_has_it);
    notices(SeededFault::AnsweredBeforeEpochHeard, what_waited_for_a_copy_that_leaves_is_answered_when_the_epoch_is_heard);
    notices(SeededFault::ResentWithNewNumber, a_change_keeps_its_number_on_another_link_and_in_another_epoch);
    notices(SeededFault::MarkSkipsOpen, no_mark_is_above_what_a_copy_has_not_acknowledged);
    notices(SeededFault::StoppedTakenForUndone, service::requests_wait_for_the_owner_to_serve_and_end_when_it_stops);
    notices(SeededFault::UnplacedForgotten, transfers::what_is_in_doubt_is_agreed_on_also_when_its_place_is_known_late);
    notices(SeededFault::AnswerTakenForAnother, reads::an_answer_to_a_read_is_not_taken_for_one_to_the_change_that_follows);
    notices(SeededFault::ReadUnsettled, reads::a_read_shows_nothing_that_is_not_on_all_copies);
    notices(SeededFault::ReadWithoutGrants, reads::a_read_is_answered_while_the_other_nodes_grant_it);
    notices(SeededFault::FlushWithoutGrants, reads::a_flush_is_answered_as_a_read_is);
    notices(SeededFault::GrantsAfterData, reads::a_grant_is_looked_at_when_the_data_is_there_by_the_clock_of_then);
    notices(SeededFault::StaleOwnerCarriedOut, a_copy_takes_nothing_of_who_does_not_own_it_and_nothing_of_an_epoch_that_is_over);
}

//! Random changes, epochs and ranges of one copy, random deaths, and a model that goes along: `docs/replication.md`, "The copy".
//!
//! What was answered is there after a death; what was under way then is, or is not. Epochs and masks of chunks that were not on capacity may
//! say more after it, never less.

use super::copies::{lab, owner, range_op};
use super::harness::{Lab, Running, quick, read_op, values_of, write_op};
use crate::{ComponentNo, CopySync, OpKind, StoreError};
use base::{BlockNo, Duration, Epoch, Lane, Order, ResyncProgress, Seq};
use core::cell::RefCell;
use rt::Rt;
use rt::sim::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Pieces that are used, each of another lane, and chunks of each.
const PIECES: u64 = 3;
const CHUNKS: u64 = 3;
const LOST: u64 = u64::MAX;

#[derive(Clone, Debug, PartialEq)]
enum What {
    Write(Vec<u64>),
    Trim,
    Lost,
    /// The source's epoch and mask, and the data.
    Range(Option<(u32, u16)>, Vec<u64>, (u64, u32)),
    Accept(u8, CopySync),
}

#[derive(Clone, Debug)]
struct Op {
    order: Order,
    block: u64,
    blocks: u32,
    what: What,
}

#[derive(Clone, Debug, Default)]
struct LaneModel {
    mark: Seq,
    /// All changes; those above the mark are in doubt.
    records: BTreeMap<(u32, u64), (u64, u32)>,
}

#[derive(Clone, Debug)]
struct Model {
    accepted: Epoch,
    period_start: Epoch,
    by: u8,
    lanes: BTreeMap<usize, LaneModel>,
    resync: Option<ResyncProgress>,
    own_doubt: BTreeSet<u64>,
    content: BTreeMap<u64, u64>,
    /// Epoch and mask of each chunk.
    chunks: BTreeMap<u64, (Epoch, u16)>,
}

fn key(seq: Seq) -> (u32, u64) {
    (seq.term.0, seq.counter)
}

fn lane(block: u64) -> usize {
    Lane::of(BlockNo(block)).index()
}

impl Model {
    fn new() -> Self {
        let (lanes, own_doubt, content, chunks) = Default::default();
        Self { accepted: Epoch(0), period_start: Epoch(0), by: 0, lanes, resync: None, own_doubt, content, chunks }
    }
    fn take_mark(&mut self, block: u64, mark: Seq) {
        let lane = self.lanes.entry(lane(block)).or_default();
        lane.mark = lane.mark.max(mark);
    }
    /// A restart may forget marks that came with what needed no record. Then what they settled is in doubt again.
    fn restarted(&self, seen: &Model) -> Model {
        let mut model = self.clone();
        for (lane, at) in &mut model.lanes {
            at.mark = at.mark.min(seen.lanes.get(lane).map_or(Seq::default(), |lane| lane.mark));
        }
        model
    }
    fn touch(&mut self, block: u64, order: &Order, makes: bool) {
        let bit = 1u16 << (block % 16);
        match self.chunks.get_mut(&(block / 16)) {
            Some((epoch, mask)) => {
                if *epoch < order.period_start {
                    *mask = 0;
                }
                (*epoch, *mask) = ((*epoch).max(order.epoch), *mask | bit);
            }
            None if makes => {
                self.chunks.insert(block / 16, (order.epoch, u16::MAX));
            }
            None => {}
        }
    }
    fn settle(&mut self, block: u64) {
        let chunk = block / 16;
        if (chunk * 16..chunk * 16 + 16).all(|block| !self.content.contains_key(&block)) {
            self.chunks.remove(&chunk);
        }
    }
    /// What an operation does, and its answer.
    fn apply(&mut self, op: &Op) -> Result<(), StoreError> {
        if let What::Accept(by, sync) = op.what {
            if op.order.epoch < self.accepted || op.order.epoch == self.accepted && by != self.by {
                return Err(StoreError::StaleEpoch);
            }
            let higher = op.order.epoch > self.accepted;
            (self.accepted, self.by, self.period_start) = (op.order.epoch, by, op.order.period_start);
            let doubt: Vec<u64> = self.doubt().into_iter().flat_map(|(at, n)| at..at + u64::from(n)).collect();
            for block in doubt.iter().filter(|_| higher) {
                self.touch(*block, &op.order, false);
            }
            match sync {
                CopySync::InSync => (self.resync, self.own_doubt) = (None, BTreeSet::new()),
                CopySync::Join => {
                    if self.resync.is_none() {
                        self.own_doubt.clear();
                    }
                    self.resync = Some(self.resync.unwrap_or_default());
                    self.own_doubt.extend(doubt);
                }
                _ => {}
            }
            return Ok(());
        }
        if op.order.epoch < self.accepted {
            return Err(StoreError::StaleEpoch);
        }
        if op.order.epoch > self.accepted {
            return Err(StoreError::EpochNotAccepted);
        }
        self.take_mark(op.block, op.order.mark);
        let at = self.lanes.entry(lane(op.block)).or_default();
        if op.order.seq <= at.mark || at.records.contains_key(&key(op.order.seq)) {
            return Ok(());
        }
        at.records.insert(key(op.order.seq), (op.block, op.blocks));
        self.carry_out(op);
        Ok(())
    }
    fn carry_out(&mut self, op: &Op) {
        let blocks = op.block..op.block + u64::from(op.blocks);
        for (i, block) in blocks.clone().enumerate() {
            match &op.what {
                What::Write(values) | What::Range(Some(_), values, _) => self.content.insert(block, values[i]),
                What::Lost => self.content.insert(block, LOST),
                _ => self.content.remove(&block),
            };
        }
        if let What::Range(source, _, (below, to)) = &op.what {
            if let Some((epoch, mask)) = source {
                let (e, m) = self.chunks.get(&(op.block / 16)).copied().unwrap_or_default();
                let m = if e < op.order.period_start { 0 } else { m };
                self.chunks.insert(op.block / 16, (e.max(Epoch(*epoch)), m | mask));
            }
            blocks.clone().for_each(|block| _ = self.own_doubt.remove(&block));
            self.resync = self.resync.map(|_| ResyncProgress { below: *below, to: Epoch(*to) });
        } else {
            let makes = matches!(op.what, What::Write(_) | What::Lost);
            // The whole change makes its chunks, or none of them is there.
            blocks.clone().for_each(|block| self.touch(block, &op.order, makes));
        }
        blocks.for_each(|block| self.settle(block));
    }
    fn doubt(&self) -> Vec<(u64, u32)> {
        let above = |lane: &LaneModel| -> Vec<(u64, u32)> {
            lane.records.iter().filter(|(seq, _)| **seq > key(lane.mark)).map(|(_, range)| *range).collect()
        };
        let mut all: Vec<_> = self.lanes.values().flat_map(above).collect();
        all.sort_unstable();
        all
    }
}

/// The copy as it is.
#[derive(Clone, Debug)]
struct Seen(Model, Vec<(u64, u32)>);

async fn look(rt: &Rt, s: &Running, c: ComponentNo) -> Seen {
    let mut seen = Model::new();
    let mut doubt = Vec::new();
    {
        let shard = s.shard.borrow();
        let shard = shard.as_ref().expect("open");
        if let Some(view) = shard.replica(c) {
            assert_eq!(view.accepted, view.durable, "nothing is under way");
            (seen.accepted, seen.resync) = (view.accepted, view.resync);
            seen.by = view.by.incarnation.0 as u8;
        }
        for at in shard.in_doubt(c) {
            seen.lanes.insert(at.lane.index(), LaneModel { mark: at.mark, records: BTreeMap::new() });
            doubt.extend(at.doubt.iter().map(|range| (range.first.0, range.blocks)));
        }
        let (mut from, mut chunks) = (Some(0), Vec::new());
        while let Some(at) = from {
            let list = shard.list(c, at, 5);
            chunks.extend(list.chunks);
            from = list.next;
        }
        for at in chunks {
            at.there.map(|there| seen.chunks.insert(at.chunk, there));
            seen.own_doubt.extend((0..16).filter(|i| at.own_doubt >> i & 1 == 1).map(|i| at.chunk * 16 + i));
        }
    }
    for block in (0..PIECES).flat_map(|piece| piece * 256..piece * 256 + CHUNKS * 16) {
        let done = s.call(rt, c, block, 1, read_op(1)).await;
        let value = match done.result {
            Ok(()) => values_of(c, block, done.buf.as_ref().expect("a read has a buffer"))[0],
            Err(StoreError::Uncorrectable { .. }) => LOST,
            Err(error) => panic!("{error}"),
        };
        if value != 0 {
            seen.content.insert(block, value);
        }
    }
    doubt.sort_unstable();
    Seen(seen, doubt)
}

/// Whether the copy is as the model says. `exact`: chunks say no more, either.
fn agrees(model: &Model, Seen(seen, doubt): &Seen, exact: bool) -> Result<(), String> {
    let same = |what: &str, same: bool| if same { Ok(()) } else { Err(format!("{what}: {model:?}\n  and {seen:?}, in doubt {doubt:?}")) };
    same("accepted", (model.accepted, model.by) == (seen.accepted, seen.by))?;
    same("resync", model.resync == seen.resync)?;
    // Nor is replay wrong to keep what such a mark had settled when the copy joined.
    same("own doubt", if exact { model.own_doubt == seen.own_doubt } else { model.own_doubt.is_subset(&seen.own_doubt) })?;
    same("content", model.content == seen.content)?;
    let blocks = |ranges: &[(u64, u32)]| ranges.iter().flat_map(|(at, n)| *at..at + u64::from(*n)).collect::<BTreeSet<u64>>();
    same("doubt", blocks(&model.doubt()) == blocks(doubt))?;
    let marks = |model: &Model| -> Vec<(usize, Seq)> {
        model.lanes.iter().filter(|(_, at)| at.mark > Seq::default()).map(|(lane, at)| (*lane, at.mark)).collect()
    };
    same("marks", marks(model) == marks(seen))?;
    same("chunks", model.chunks.keys().eq(seen.chunks.keys()))?;
    for ((epoch, mask), (seen_epoch, seen_mask)) in model.chunks.values().zip(seen.chunks.values()) {
        let more = epoch <= seen_epoch && *seen_epoch <= model.accepted && mask & seen_mask == *mask;
        let what = format!("epoch {epoch}, mask {mask:#x}, but {seen_epoch} and {seen_mask:#x}");
        // A chunk that is trimmed while a block of it is destaged is not made anew by what comes next: then it names what was trimmed.
        let kept = *mask == u16::MAX && *seen_mask != 0 && epoch == seen_epoch || *seen_mask == u16::MAX && seen_epoch >= epoch;
        let alike = (epoch, mask) == (seen_epoch, seen_mask) || kept;
        // Replay may stamp what a mark had settled that came without a record: then it clears what is of an older period.
        let cleared = seen_epoch > epoch && *epoch < model.period_start;
        same(&what, if exact { alike } else { more || *mask == u16::MAX || cleared })?;
    }
    Ok(())
}

struct Owner {
    rng: Rng,
    epoch: u32,
    period_start: u32,
    term: u32,
    by: u8,
    counters: BTreeMap<usize, u64>,
    value: u64,
    past: Vec<Op>,
}

impl Owner {
    fn accept(&mut self) -> Op {
        let rng = &mut self.rng;
        self.epoch += 1 + rng.below(2) as u32;
        if rng.one_in(3) {
            self.period_start = self.epoch;
        }
        if rng.one_in(3) {
            (self.term, self.by) = (self.epoch, 1 + rng.below(3) as u8);
            self.counters.clear();
        }
        let sync = [CopySync::Keep, CopySync::InSync, CopySync::Join, CopySync::Join][rng.below(4) as usize];
        let order = Order { epoch: Epoch(self.epoch), period_start: Epoch(self.period_start), ..Order::default() };
        Op { order, block: 0, blocks: 0, what: What::Accept(self.by, sync) }
    }
    fn next(&mut self) -> Op {
        match self.rng.below(20) {
            0 | 1 => return self.accept(),
            2 | 3 if !self.past.is_empty() => {
                // Once more, with other content: in the present epoch, or in that of then.
                let mut op = self.past[self.rng.below(self.past.len() as u64) as usize].clone();
                if !matches!(op.what, What::Accept(..)) {
                    if self.rng.one_in(2) && op.order.seq.term.0 == self.term {
                        (op.order.epoch, op.order.period_start) = (Epoch(self.epoch), Epoch(self.period_start));
                    }
                    self.value += 1;
                    op.what = What::Write(vec![self.value; op.blocks as usize]);
                }
                return op;
            }
            _ => {}
        }
        let rng = &mut self.rng;
        let piece = rng.below(PIECES) * 256;
        let at = rng.below(CHUNKS * 16);
        let chunk_left = 16 - at % 16;
        let (block, longest) = (piece + at, CHUNKS * 16 - at);
        let most = if rng.one_in(4) { longest } else { longest.min(6) };
        let mut blocks = 1 + rng.below(most);
        let mut values = |n: u64| {
            (0..n).for_each(|_| self.value += 1);
            (self.value - n + 1..=self.value).collect::<Vec<u64>>()
        };
        let mut first = block;
        let what = match rng.below(10) {
            0 => What::Trim,
            1 => {
                (first, blocks) = (piece + rng.below(CHUNKS) * 16, 16);
                What::Trim
            }
            2 => What::Lost,
            3 => {
                (first, blocks) = (piece + rng.below(CHUNKS) * 16, 16);
                What::Range(None, Vec::new(), (rng.below(99), self.epoch))
            }
            4 | 5 => {
                blocks = blocks.min(chunk_left);
                let source = (1 + rng.below(u64::from(self.epoch)) as u32, rng.next_u64() as u16);
                What::Range(Some(source), values(blocks), (rng.below(99), self.epoch))
            }
            _ => What::Write(values(blocks)),
        };
        let counter = self.counters.entry(lane(first)).or_default();
        *counter += 1 + u64::from(rng.one_in(5));
        let seq = Seq { term: Epoch(self.term), counter: *counter };
        let mark = Seq { term: Epoch(self.term), counter: counter.saturating_sub(1 + rng.below(5)) };
        let order = Order { epoch: Epoch(self.epoch), period_start: Epoch(self.period_start), seq, mark };
        Op { order, block: first, blocks: blocks as u32, what }
    }
}

fn kind(c: ComponentNo, op: &Op) -> OpKind {
    match &op.what {
        What::Write(values) => write_op(c, op.block, values, true),
        What::Trim => OpKind::Trim,
        What::Lost => OpKind::Uncorrectable,
        What::Range(source, values, progress) => range_op(c, op.block, values, *source, *progress),
        What::Accept(by, sync) => OpKind::Accept { by: owner(*by), sync: *sync },
    }
}

/// What outlives the lives of the node.
struct Story {
    model: Model,
    owner: Owner,
    under_way: Option<Op>,
    over: bool,
    done: u64,
}

async fn life(rt: Rt, s: Running, devices: Vec<rt::Device>, (c, other): (ComponentNo, ComponentNo), story: Rc<RefCell<Story>>, ops: u64) {
    s.open(&rt, &devices, quick()).await.expect("a crash never makes a group unreadable");
    let mut seen = look(&rt, &s, c).await;
    {
        let mut story = story.borrow_mut();
        let mut model = story.model.restarted(&seen.0);
        if let Err(why) = agrees(&model, &seen, false) {
            let Some(op) = story.under_way.take() else { panic!("after a restart: {why}") };
            model = story.model.clone();
            model.apply(&op).expect("it could be carried out");
            model = model.restarted(&seen.0);
            agrees(&model, &seen, false).unwrap_or_else(|after| panic!("neither without: {why}\n nor with {op:?}: {after}"));
        }
        model.chunks = core::mem::take(&mut seen.0.chunks);
        model.own_doubt = core::mem::take(&mut seen.0.own_doubt);
        (story.model, story.under_way) = (model, None);
    }
    s.check();
    for _ in 0..ops {
        if story.borrow_mut().owner.rng.one_in(8) {
            let blocks = 1 + story.borrow_mut().owner.rng.below(128);
            s.write(&rt, other, 0, &vec![7; blocks as usize]).await.expect("there is room");
        }
        let begins = story.borrow().model.accepted == Epoch(0);
        let op = if begins { story.borrow_mut().owner.accept() } else { story.borrow_mut().owner.next() };
        let mut next = story.borrow().model.clone();
        let answer = next.apply(&op);
        story.borrow_mut().under_way = answer.is_ok().then(|| op.clone());
        let done = s.call_as(&rt, op.order, c, op.block, op.blocks, kind(c, &op)).await;
        assert_eq!(done.result, answer, "{op:?}");
        {
            let mut story = story.borrow_mut();
            (story.model, story.under_way) = (next, None);
            story.done += 1;
            if answer.is_ok() && !matches!(op.what, What::Accept(..)) {
                story.owner.past.push(op);
            }
        }
        if story.borrow_mut().owner.rng.one_in(15) {
            let seen = look(&rt, &s, c).await;
            agrees(&story.borrow().model, &seen, true).unwrap();
        }
        if story.borrow_mut().owner.rng.one_in(40) {
            rt.sleep(Duration::from_millis(30)).await;
        }
    }
    let seen = look(&rt, &s, c).await;
    agrees(&story.borrow().model, &seen, true).unwrap();
    s.check();
    story.borrow_mut().over = true;
}

fn history(seed: u64) -> u64 {
    let mut rng = Rng::new(seed ^ 0xC0B1);
    let mut lab: Lab = lab(seed);
    let owner = Owner {
        rng: Rng::new(rng.next_u64()),
        epoch: 1,
        period_start: 1,
        term: 1,
        by: 1,
        counters: BTreeMap::new(),
        value: 0,
        past: Vec::new(),
    };
    let story = Rc::new(RefCell::new(Story { model: Model::new(), owner, under_way: None, over: false, done: 0 }));
    let lives = 2 + rng.below(5);
    for n in 0..=lives {
        story.borrow_mut().over = false;
        let (running, devices, shared) = (lab.running(), lab.devices.clone(), Rc::clone(&story));
        let (components, ops) = ((lab.components[0], lab.components[1]), 30 + rng.below(300));
        lab.world.spawn(lab.host, 0, move |rt| life(rt, running, devices, components, shared, ops));
        let scale = [20_000, 400_000, 4_000_000][rng.below(3) as usize];
        let limit = if n == lives { 600_000_000 } else { 1 + rng.below(scale) };
        lab.world.run_until(Duration::from_micros(limit), || story.borrow().over);
        assert!(n < lives || story.borrow().over, "the last life came to no end");
        if rng.one_in(3) {
            lab.world.kill_process(lab.host)
        } else {
            lab.world.kill(lab.host)
        }
        lab.world.start(lab.host);
    }
    story.borrow().done
}

#[test]
fn a_copy_is_as_its_model_whatever_dies_when() {
    let text = std::env::var("STORE_SEEDS").unwrap_or_default();
    let mut parts = text.split("..").filter_map(|part| part.parse().ok());
    let seeds = parts.next().zip(parts.next()).map_or(0..60, |(first, last)| first..last);
    let mut done = 0;
    for seed in seeds {
        let result = std::panic::catch_unwind(|| history(seed));
        done += result.unwrap_or_else(|_| panic!("seed {seed} failed: STORE_SEEDS={seed}..{} shows it alone", seed + 1));
    }
    assert!(done > 3000, "the histories did nothing: {done}");
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault as F, notices};
    let some = || (0..120).for_each(|seed| _ = history(seed));
    for fault in [F::LanesNotNotedAnew, F::DoubtNotNoted, F::OwnDoubtForgotten, F::RangeKeepsMask, F::MaskOfOldPeriod, F::PeriodOfRangeKept]
    {
        notices(fault, some);
    }
}

//! The router over a stand-in for the store that answers late and in any order, against a model of each 512-byte sector.

use super::*;
use crate::cores::LaneCores;
use crate::io::CompareWrite;
use crate::layout::{ComponentAt, CopyAt, CopyPlace, Mirror};
use crate::limit::{Limits, VolumeLimits};
use base::crc32c;
use base::unit::{PIECE_BLOCKS, SECTOR_BYTES};
use base::{Lane, Ownership, Seq, VolumeId};
use store::{ComponentNo, OpKind, ShardDone, ShardOp, StoreError};

const VOLUME_BYTES: u64 = 3 << 20;
const SECTORS: usize = VOLUME_BYTES as usize / SECTOR_BYTES;

/// Answers late, in any order; fails the test when two overlapping changes meet or a checksum is wrong.
struct LateBlocks {
    blocks: BTreeMap<u64, Box<[u8]>>,
    lost: std::collections::BTreeSet<u64>,
    pending: Vec<ShardOp>,
    done: VecDeque<ShardDone>,
    chance: u64,
    fail_at: Option<u64>,
    /// Everything fails with this.
    fails: Option<StoreError>,
    writes: u64,
    trims: u64,
    /// Whether blocks keep a checksum, of each write.
    checksums: Vec<bool>,
    can_say: bool,
}

impl LateBlocks {
    fn new(seed: u64) -> Self {
        Self {
            blocks: BTreeMap::new(),
            lost: Default::default(),
            pending: vec![],
            done: VecDeque::new(),
            chance: seed | 1,
            fail_at: None,
            fails: None,
            writes: 0,
            trims: 0,
            checksums: vec![],
            can_say: true,
        }
    }
    fn random(&mut self, below: usize) -> usize {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) as usize % below
    }
    fn run(&mut self, op: ShardOp) -> ShardDone {
        let blocks = op.block.0..op.block.0 + u64::from(op.blocks);
        if let Some(bad) = self.fail_at
            && blocks.contains(&bad)
        {
            return ShardDone { cookie: op.cookie, result: Err(StoreError::Media { block: BlockNo(bad) }), buf: None, crcs: Crcs::new() };
        }
        let (mut buf, mut crcs) = (None, Crcs::new());
        if let Some(error) = self.fails {
            return ShardDone { cookie: op.cookie, result: Err(error), buf, crcs };
        }
        let lost = self.lost.range(blocks.clone()).next().copied();
        if let (OpKind::Read { .. }, Some(block)) = (&op.kind, lost) {
            let result = Err(StoreError::Uncorrectable { block: BlockNo(block) });
            return ShardDone { cookie: op.cookie, result, buf: None, crcs };
        }
        if !matches!(op.kind, OpKind::Read { .. } | OpKind::Flush) {
            self.lost.retain(|b| !blocks.contains(b));
        }
        match op.kind {
            OpKind::Read { buf: mut out } => {
                for (part, block) in out.chunks_exact_mut(BLOCK_BYTES).zip(blocks) {
                    match self.blocks.get(&block) {
                        Some(bytes) => part.copy_from_slice(bytes),
                        None => part.fill(0),
                    }
                    crcs.push(crc32c(part));
                }
                buf = Some(out);
            }
            OpKind::Write { buf: data, crcs, checksum } => {
                assert_eq!(crcs.len(), op.blocks as usize, "a checksum for each block");
                self.writes += 1;
                self.checksums.push(checksum);
                for ((part, crc), block) in data.chunks_exact(BLOCK_BYTES).zip(crcs).zip(blocks) {
                    assert_eq!(crc32c(part), crc);
                    self.blocks.insert(block, part.into());
                }
            }
            OpKind::Zero | OpKind::Trim => {
                self.trims += 1;
                blocks.for_each(|b| drop(self.blocks.remove(&b)));
            }
            OpKind::Uncorrectable => self.lost.extend(blocks),
            OpKind::Flush | OpKind::Accept { .. } | OpKind::Range(_) => {}
        }
        ShardDone { cookie: op.cookie, result: Ok(()), buf, crcs }
    }
}

impl Blocks for LateBlocks {
    fn submit(&mut self, _: &Rt, op: ShardOp) {
        let changes = |o: &ShardOp| !matches!(o.kind, OpKind::Read { .. } | OpKind::Flush);
        for other in &self.pending {
            let meets = op.block.0 < other.block.0 + u64::from(other.blocks) && other.block.0 < op.block.0 + u64::from(op.blocks);
            assert!(!(meets && changes(other)), "{op:?} meets the change {other:?}");
            let behind = changes(&op) && changes(other) && (other.component, Lane::of(other.block)) == (op.component, Lane::of(op.block));
            assert!(!behind || op.order.mark < other.order.seq && other.order.seq < op.order.seq, "{:?} after {:?}", op.order, other.order);
        }
        self.pending.push(op);
    }
    fn poll(&mut self, _: &Rt) -> bool {
        if self.pending.is_empty() || self.random(3) == 0 {
            return false;
        }
        let at = self.random(self.pending.len());
        let op = self.pending.swap_remove(at);
        let done = self.run(op);
        self.done.push_back(done);
        true
    }
    fn pop_done(&mut self) -> Option<ShardDone> {
        self.done.pop_front()
    }
    fn pieces(&self, _: ComponentNo, first: u64, step: u64, end: u64, mut found: impl FnMut(u64)) -> bool {
        let asked = (first..end).step_by(step as usize);
        let blocks = |piece: u64| piece * PIECE_BLOCKS..(piece + 1) * PIECE_BLOCKS;
        let under_way = |piece: u64| self.pending.iter().any(|op| blocks(piece).contains(&op.block.0));
        asked.filter(|p| self.blocks.range(blocks(*p)).next().is_some() || under_way(*p)).for_each(&mut found);
        self.can_say
    }
    fn newest(&self, _: ComponentNo, _: Lane) -> Option<Seq> {
        (self.fails != Some(StoreError::NoComponent)).then(Seq::default)
    }
}

const ROUTE: GroupRoute = GroupRoute { shards: 2, first_core: 0 };

/// So many mirrors with one copy each, all in the one group.
fn mirrors(cores: usize, count: u32) -> Vec<Mirror> {
    let cores = LaneCores::of_group(ROUTE, cores);
    (0..count).map(|i| Mirror::of_one(ComponentAt { group: GroupSlot(0), no: ComponentNo(i + 1) }, cores)).collect()
}

fn router(rt: &Rt, seed: u64, limits: Limits, read_only: bool) -> VolumeRouter<LateBlocks> {
    let mut router = VolumeRouter::new(rt);
    router.set_route(GroupSlot(0), Some(ROUTE));
    router.lanes_mut().add_shard(GroupSlot(0), 0, LateBlocks::new(seed));
    router.lanes_mut().add_shard(GroupSlot(0), 1, LateBlocks::new(seed ^ 77));
    let volume = VolumeLayout {
        id: VolumeId::from_bytes([7; 16]),
        lanes: VolumeRef(0),
        bytes: VOLUME_BYTES,
        read_only,
        checksum: true,
        limits: Arc::new(limits),
        ownership: Ownership::FIRST,
        mirrors: mirrors(router.cores, 1),
        owner: None,
        revision: 0,
    };
    serve(rt, &mut router, Some(volume));
    router
}

/// The only volume is this one from now on.
fn serve(rt: &Rt, router: &mut VolumeRouter<LateBlocks>, volume: Option<VolumeLayout>) {
    router.apply(rt, Arc::new(LayoutView { volumes: vec![volume.map(Arc::new)], ..LayoutView::default() }), |_| true);
}

fn drive(rt: &Rt, router: &mut VolumeRouter<LateBlocks>) -> Option<IoDone> {
    router.poll(rt, |_| true);
    while let Some((to, msg)) = router.pop_msg() {
        assert_eq!(to, 0);
        router.on_msg(rt, msg);
    }
    router.pop()
}

async fn answer(rt: &Rt, router: &mut VolumeRouter<LateBlocks>, op: IoOp) -> IoDone {
    router.submit(rt, IoRequest::new(9, VolumeRef(0), op));
    for _ in 0..1_000_000 {
        if let Some(done) = drive(rt, router) {
            assert_eq!(done.token, 9);
            return done;
        }
        rt.sleep(base::Duration::from_micros(1)).await;
    }
    panic!("never answered");
}

fn data(offset: u64, len: u32, mut fill: impl FnMut(usize) -> u8) -> DataVec {
    let mut sector = (offset / SECTOR_BYTES as u64) as usize;
    let mut make = |extent: Extent| {
        let mut buf = Buf::alloc(extent.len as usize);
        for part in buf.chunks_exact_mut(SECTOR_BYTES) {
            part.fill(fill(sector));
            sector += 1;
        }
        let crcs = if extent.is_aligned() { buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect() } else { Crcs::new() };
        Data { buf, crcs }
    };
    extents(offset, len).into_iter().map(&mut make).collect()
}

fn bytes_of(done: &IoDone) -> Vec<u8> {
    done.data.iter().flat_map(|d| d.buf.iter().copied()).collect()
}

/// What each sector may hold: the last value that was answered, and those under way.
struct Model {
    /// The newest request that was answered, and its value.
    settled: Vec<(u64, u8)>,
    /// token -> (first sector, sectors, value)
    running: BTreeMap<u64, (usize, usize, u8)>,
}

#[test]
fn any_mix_of_requests_reads_what_was_written() {
    for seed in 0..30u64 {
        rt::sim::block_on(seed, async move |rt: Rt| {
            let mut router = router(&rt, seed, Limits::default(), false);
            let mut model = Model { settled: vec![(0, 0); SECTORS], running: BTreeMap::new() };
            // token -> (first sector, the values that each sector may show)
            let mut reads: BTreeMap<u64, (usize, Vec<Vec<u8>>)> = BTreeMap::new();
            let mut chance = LateBlocks::new(seed * 31 + 5);
            let (mut token, mut answered) = (0u64, 0);
            while answered < 1500 {
                if token < 1500 && model.running.len() + reads.len() < 24 {
                    token += 1;
                    submit_random(&rt, &mut router, &mut model, &mut reads, &mut chance, token);
                }
                if let Some(done) = drive(&rt, &mut router) {
                    answered += 1;
                    check(&mut model, &mut reads, done);
                }
            }
            assert!(router.is_idle());
            assert!(router.stats().lanes.waited > 0 && router.stats().lanes.partial_blocks > 0, "the test must meet the rare ways");
        });
    }
}

fn submit_random(
    rt: &Rt,
    router: &mut VolumeRouter<LateBlocks>,
    model: &mut Model,
    reads: &mut BTreeMap<u64, (usize, Vec<Vec<u8>>)>,
    chance: &mut LateBlocks,
    token: u64,
) {
    // A small part of the volume around the border of two pieces, so that requests meet.
    let aligned = chance.random(2) == 0;
    let unit = if aligned { 8 } else { 1 };
    let first = (2048 - 64 + chance.random(128)) / unit * unit;
    let sectors = (1 + chance.random(if aligned { 6 } else { 20 })) * unit;
    let (offset, len) = ((first * SECTOR_BYTES) as u64, (sectors * SECTOR_BYTES) as u32);
    let value = (token % 251 + 1) as u8;
    let mut change = |value: u8| {
        // Whole-volume order of overlapping changes is the order of submission: a later change settles over an earlier one.
        for (read_first, shown) in reads.values_mut() {
            for (i, values) in shown.iter_mut().enumerate() {
                if (first..first + sectors).contains(&(*read_first + i)) {
                    values.push(value);
                }
            }
        }
        model.running.insert(token, (first, sectors, value));
    };
    let op = match chance.random(9) {
        0..=2 => {
            let shown = (first..first + sectors)
                .map(|s| {
                    let running = model.running.values().filter(|(f, n, _)| (*f..f + n).contains(&s)).map(|(_, _, v)| *v);
                    std::iter::once(model.settled[s].1).chain(running).collect()
                })
                .collect();
            reads.insert(token, (first, shown));
            IoOp::Read { offset, len }
        }
        3..=5 => {
            change(value);
            IoOp::Write { offset, data: data(offset, len, |_| value) }
        }
        6 => {
            change(0);
            IoOp::Zero { offset, len: u64::from(len) }
        }
        7 => {
            change(0);
            IoOp::Trim { offset, len: u64::from(len) }
        }
        _ => {
            model.running.insert(token, (0, 0, 0));
            IoOp::Flush
        }
    };
    router.submit(rt, IoRequest::new(token, VolumeRef(0), op));
}

fn check(model: &mut Model, reads: &mut BTreeMap<u64, (usize, Vec<Vec<u8>>)>, done: IoDone) {
    done.result.expect("nothing fails here");
    if let Some((first, shown)) = reads.remove(&done.token) {
        let bytes = bytes_of(&done);
        assert_eq!(bytes.len(), shown.len() * SECTOR_BYTES);
        for (i, (sector, values)) in bytes.chunks_exact(SECTOR_BYTES).zip(&shown).enumerate() {
            assert!(sector.iter().all(|b| *b == sector[0]), "sector {} is torn", first + i);
            assert!(values.contains(&sector[0]), "sector {} shows {} but may show {values:?}", first + i, sector[0]);
        }
        return;
    }
    let (first, sectors, value) = model.running.remove(&done.token).expect("one answer a request");
    for s in first..first + sectors {
        // Overlapping changes happen in the order of submission; an older request of two pieces may be answered after a newer one.
        model.settled[s] = model.settled[s].max((done.token, value));
    }
}

#[test]
fn a_read_only_volume_refuses_changes_and_a_range_beyond_the_end_is_refused() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut locked = router(&rt, 1, Limits::default(), true);
        let write = IoOp::Write { offset: 0, data: data(0, 4096, |_| 1) };
        assert_eq!(answer(&rt, &mut locked, write).await.result, Err(IoError::ReadOnly));
        let mut open = router(&rt, 1, Limits::default(), false);
        for (offset, len) in [(VOLUME_BYTES, 512), (VOLUME_BYTES - 512, 1024), (u64::MAX - 511, 1024)] {
            assert_eq!(answer(&rt, &mut open, IoOp::Read { offset, len }).await.result, Err(IoError::OutOfRange));
        }
        assert_eq!(answer(&rt, &mut open, IoOp::Zero { offset: 0, len: u64::MAX }).await.result, Err(IoError::OutOfRange));
    });
}

#[test]
fn a_bad_block_fails_only_its_request() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        for no in 0..2 {
            router.lanes_mut().shard_mut(GroupSlot(0), no).unwrap().fail_at = Some(3);
        }
        let done = answer(&rt, &mut router, IoOp::Read { offset: 0, len: 8 * 4096 }).await;
        assert_eq!(done.result, Err(IoError::Media { offset: 3 * 4096 }));
        assert!(done.data.is_empty());
        assert_eq!(answer(&rt, &mut router, IoOp::Read { offset: 4 * 4096, len: 4096 }).await.result, Ok(()));
        assert!(router.is_idle());
    });
}

/// Changes of a component are under way and come late when it is deleted: each is answered.
#[test]
fn what_comes_late_to_a_component_that_is_deleted_is_answered_and_so_is_what_was_under_way() {
    for seed in 0..20 {
        rt::sim::block_on(seed, async move |rt: Rt| {
            let mut router = router(&rt, seed, Limits::default(), false);
            let mut sent = 0;
            let mut send = |router: &mut VolumeRouter<LateBlocks>, offset: u64| {
                sent += 1;
                let write = IoOp::Write { offset, data: data(offset, 4096, |_| 1) };
                router.submit(&rt, IoRequest::new(sent, VolumeRef(0), write));
            };
            (0..20).for_each(|block| send(&mut router, block << 12));
            let mut done = 0;
            for _ in 0..seed {
                done += usize::from(drive(&rt, &mut router).is_some());
            }
            for no in 0..2 {
                router.lanes_mut().shard_mut(GroupSlot(0), no).unwrap().fails = Some(StoreError::NoComponent);
            }
            router.lanes_mut().forget(&rt, ComponentAt { group: GroupSlot(0), no: ComponentNo(1) });
            for piece in 1..3 {
                send(&mut router, piece << 20);
            }
            for _ in 0..1_000_000 {
                done += usize::from(drive(&rt, &mut router).is_some());
            }
            assert_eq!(done as u64, sent);
            assert!(router.is_idle());
        });
    }
}

#[test]
fn a_trim_and_a_zero_clear_their_edges_too() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        let write = |_: usize| IoOp::Write { offset: 0, data: data(0, 16384, |_| 9) };
        answer(&rt, &mut router, write(0)).await.result.unwrap();
        answer(&rt, &mut router, IoOp::Trim { offset: 512, len: 8192 }).await.result.unwrap();
        let got = bytes_of(&answer(&rt, &mut router, IoOp::Read { offset: 0, len: 16384 }).await);
        assert!(got[..512].iter().all(|b| *b == 9) && got[512..8704].iter().all(|b| *b == 0) && got[8704..].iter().all(|b| *b == 9));
        answer(&rt, &mut router, write(0)).await.result.unwrap();
        answer(&rt, &mut router, IoOp::Zero { offset: 512, len: 8192 }).await.result.unwrap();
        let got = bytes_of(&answer(&rt, &mut router, IoOp::Read { offset: 0, len: 16384 }).await);
        assert!(got[..512].iter().all(|b| *b == 9) && got[512..8704].iter().all(|b| *b == 0) && got[8704..].iter().all(|b| *b == 9));
    });
}

#[test]
fn a_limit_spaces_requests_and_shutdown_answers_those_held_back() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits { iops_max: Some(1000), bytes_per_s_max: None }), false);
        for token in 0..300 {
            router.submit(&rt, IoRequest::new(token, VolumeRef(0), IoOp::Read { offset: 0, len: 4096 }));
        }
        assert!((199..=200).contains(&router.stats().throttled), "all but the burst: {}", router.stats().throttled);
        let (started, mut answered) = (rt.now(), 0);
        while rt.now().since(started) < base::Duration::from_millis(100) {
            while drive(&rt, &mut router).is_some() {
                answered += 1;
            }
            rt.sleep(base::Duration::from_micros(200)).await;
        }
        assert!((195..=205).contains(&answered), "a burst of 100 and 100 ms at 1000 a second: {answered}");
        router.begin_shutdown();
        let (mut closing, mut late) = (0, 0);
        for _ in 0..1000 {
            match drive(&rt, &mut router) {
                Some(IoDone { result: Err(IoError::Closing), .. }) => closing += 1,
                Some(_) => late += 1,
                None => {}
            }
        }
        assert_eq!(answered + closing + late, 300);
        assert!(closing >= 90 && router.is_idle());
    });
}

/// The volume as it is served, to be served otherwise.
fn served(router: &VolumeRouter<LateBlocks>) -> VolumeLayout {
    VolumeLayout::clone(router.layout(VolumeRef(0)).expect("served"))
}

/// Of `requests` (by token) at ten a second: those of the burst, answered; the others are held back.
async fn hold_back(rt: &Rt, router: &mut VolumeRouter<LateBlocks>, requests: impl Iterator<Item = IoOp>) -> usize {
    let mut submitted = 0;
    for op in requests {
        router.submit(rt, IoRequest::new(submitted, VolumeRef(0), op));
        submitted += 1;
    }
    let mut begun = 0;
    for _ in 0..1000 {
        if let Some(done) = drive(rt, router) {
            assert_eq!(done.result, Ok(()));
            begun += 1;
        }
    }
    assert_eq!(router.stats().throttled, submitted - begun as u64);
    begun
}

#[test]
fn what_a_limit_holds_back_is_judged_by_what_is_served_when_it_begins() {
    let at = VOLUME_BYTES - 4096;
    let write = move |_| IoOp::Write { offset: at, data: data(at, 4096, |_| 9) };
    let read = move |_| IoOp::Read { offset: at, len: 4096 };
    // What becomes of the volume, the requests, and how those that were held back are answered.
    type Change = fn(VolumeLayout) -> Option<VolumeLayout>;
    let cases: [(&str, Change, bool, Result<(), IoError>); 6] = [
        ("shrunk", |v| Some(VolumeLayout { bytes: VOLUME_BYTES / 2, ..v }), true, Err(IoError::OutOfRange)),
        ("formatted", |v| Some(VolumeLayout { bytes: 0, ..v }), true, Err(IoError::OutOfRange)),
        ("read-only", |v| Some(VolumeLayout { read_only: true, ..v }), true, Err(IoError::ReadOnly)),
        ("read-only, reads", |v| Some(VolumeLayout { read_only: true, ..v }), false, Ok(())),
        ("offline", |v| Some(VolumeLayout { mirrors: vec![], ..v }), true, Err(IoError::Failed)),
        ("deleted", |_| None, false, Err(IoError::NoVolume)),
    ];
    for (name, change, writes, expected) in cases {
        rt::sim::block_on(1, async move |rt: Rt| {
            let mut router = router(&rt, 1, Limits::new(VolumeLimits { iops_max: Some(100), bytes_per_s_max: None }), false);
            let begun = if writes {
                hold_back(&rt, &mut router, (0..30).map(write)).await
            } else {
                hold_back(&rt, &mut router, (0..30).map(read)).await
            };
            assert!((1..20).contains(&begun), "{name}: {begun} of the burst");
            let before: Vec<_> = router.lanes().shards().map(|(_, _, s)| s.writes).collect();
            let changed = change(served(&router));
            serve(&rt, &mut router, changed);
            let mut answered = 0;
            for _ in 0..30_000 {
                rt.sleep(base::Duration::from_micros(100)).await;
                while let Some(done) = drive(&rt, &mut router) {
                    assert_eq!(done.result, expected, "{name}");
                    answered += 1;
                }
            }
            assert_eq!(begun + answered, 30, "{name}");
            let after: Vec<_> = router.lanes().shards().map(|(_, _, s)| s.writes).collect();
            assert_eq!(before, after, "{name}: no held write took effect");
            assert!(router.is_idle());
        });
    }
}

#[test]
fn a_front_end_is_asked_again_when_what_was_held_back_begins_and_when_what_is_served_changes() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits { iops_max: Some(100), bytes_per_s_max: None }), false);
        let write = |_| IoOp::Write { offset: 0, data: data(0, 4096, |_| 9) };
        let begun = hold_back(&rt, &mut router, (0..30).map(write)).await;
        // Nothing that is served has changed, but the front end says no to one when its time has come.
        let no = begun as u64;
        let mut results = BTreeMap::new();
        while results.len() < 2 {
            rt.sleep(base::Duration::from_micros(100)).await;
            router.poll(&rt, |request| request.token != no);
            while let Some(done) = router.pop() {
                results.insert(done.token, done.result);
            }
        }
        assert_eq!(results, BTreeMap::from([(no, Err(IoError::Withdrawn)), (no + 1, Ok(()))]));
        // What it forbids by a new picture is answered at once, not in its time.
        let same = LayoutView { volumes: vec![Some(Arc::new(served(&router)))], ..LayoutView::default() };
        router.apply(&rt, Arc::new(same), |request| !request.token.is_multiple_of(2));
        let refused: Vec<_> = std::iter::from_fn(|| router.pop()).collect();
        assert!(!refused.is_empty() && refused.iter().all(|d| d.token.is_multiple_of(2) && d.result == Err(IoError::Withdrawn)));
        assert_eq!(refused.len() + router.held.len(), 30 - begun - 2);
    });
}

#[test]
fn what_is_held_back_waits_by_the_limit_that_is_served() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits { iops_max: Some(1), bytes_per_s_max: None }), false);
        let begun = hold_back(&rt, &mut router, (0..300).map(|_| IoOp::Read { offset: 0, len: 4096 })).await;
        assert!(begun <= 2);
        // The same limit again changes nothing: 298 s are to wait for.
        let same = served(&router);
        serve(&rt, &mut router, Some(same));
        assert!(drive(&rt, &mut router).is_none());
        let faster =
            VolumeLayout { limits: Arc::new(Limits::new(VolumeLimits { iops_max: Some(1000), bytes_per_s_max: None })), ..served(&router) };
        serve(&rt, &mut router, Some(faster));
        let (started, mut answered) = (rt.now(), 0);
        while answered + begun < 300 {
            rt.sleep(base::Duration::from_micros(100)).await;
            answered += std::iter::from_fn(|| drive(&rt, &mut router)).count();
        }
        let took = rt.now().since(started).as_secs_f64();
        assert!((0.19..0.21).contains(&took), "a burst of 100 ms, the others at 1000 a second: {took} s");
        assert!(router.is_idle());
    });
}

#[test]
fn bytes_count_when_they_have_moved_and_time_from_the_submission() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits { iops_max: Some(10), bytes_per_s_max: None }), false);
        let read = |offset| IoOp::Read { offset, len: 8192 };
        assert_eq!(answer(&rt, &mut router, read(0)).await.result, Ok(()));
        assert_eq!(router.stats().read.bytes, 8192);
        for no in 0..2 {
            router.lanes_mut().shard_mut(GroupSlot(0), no).unwrap().fail_at = Some(3);
        }
        assert!(matches!(answer(&rt, &mut router, read(8192)).await.result, Err(IoError::Media { .. })));
        let stats = router.stats();
        assert_eq!((stats.read.requests, stats.read.errors, stats.read.bytes), (2, 1, 8192), "what failed moved nothing");
        router.submit(&rt, IoRequest::new(9, VolumeRef(0), read(0)));
        assert_eq!(router.stats().throttled, 1);
        assert_eq!(router.stats().read.bytes, 8192, "held back, not moved");
        while drive(&rt, &mut router).is_none() {
            rt.sleep(base::Duration::from_millis(1)).await;
        }
        let stats = router.stats();
        assert_eq!(stats.read.bytes, 16384);
        assert!(stats.read.latency.sum_ns() >= 50_000_000, "the wait is part of it: {} ns", stats.read.latency.sum_ns());
    });
}

fn compare_write(offset: u64, len: u32, old: u8, new: u8) -> IoOp {
    let one = |value: u8| data(offset, len, |_| value).remove(0);
    IoOp::CompareWrite { offset, both: Box::new(CompareWrite { compare: one(old), data: one(new) }) }
}

#[test]
fn a_compare_and_write_writes_only_what_was_expected() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        for (offset, len) in [(0, 4096), (512, 512), (8192 + 512, 8192), (PIECE_BYTES - 512, 512)] {
            assert_eq!(answer(&rt, &mut router, compare_write(offset, len, 0, 5)).await.result, Ok(()), "{offset}");
            assert_eq!(answer(&rt, &mut router, compare_write(offset, len, 0, 6)).await.result, Err(IoError::Miscompare), "{offset}");
            let got = bytes_of(&answer(&rt, &mut router, IoOp::Read { offset, len }).await);
            assert!(got.iter().all(|b| *b == 5), "{offset}");
            assert_eq!(answer(&rt, &mut router, compare_write(offset, len, 5, 0)).await.result, Ok(()), "{offset}");
        }
        // Not within one piece, or too long to be atomic.
        for (offset, len) in [(PIECE_BYTES - 512, 1024), (0, crate::io::ATOMIC_BYTES_MAX as u32 + 512)] {
            let one = || Data { buf: Buf::zeroed(len as usize), crcs: Crcs::new() };
            let op = IoOp::CompareWrite { offset, both: Box::new(CompareWrite { compare: one(), data: one() }) };
            assert_eq!(answer(&rt, &mut router, op).await.result, Err(IoError::Unaligned));
        }
        assert!(router.is_idle());
    });
}

/// Clients that each add one to a counter again and again, by reading it and then exchanging what they read. Two counters share a block.
#[test]
fn counters_that_many_exchange_at_once_never_lose_an_increment() {
    for seed in 0..20u64 {
        rt::sim::block_on(seed, async move |rt: Rt| {
            let mut router = router(&rt, seed, Limits::default(), false);
            let mut chance = LateBlocks::new(seed * 7 + 1);
            let (clients, rounds) = (12u64, 40u64);
            // token = client + clients * n; where a client stands: its rounds done and the value that it read, if it did
            let mut stands = vec![(0u64, None::<u8>); clients as usize];
            let (mut lost, mut busy) = (0, 0);
            let offset = |client: u64| if client.is_multiple_of(2) { 512 } else { 1024 };
            let read = |client: u64| IoRequest::new(client, VolumeRef(0), IoOp::Read { offset: offset(client), len: 512 });
            (0..clients).for_each(|c| router.submit(&rt, read(c)));
            busy += clients;
            while busy > 0 {
                let Some(done) = drive(&rt, &mut router) else { continue };
                let client = done.token;
                let stand = &mut stands[client as usize];
                match (stand.1.take(), done.result) {
                    (None, Ok(())) => {
                        let value = bytes_of(&done)[0];
                        stand.1 = Some(value);
                        let op = compare_write(offset(client), 512, value, value.wrapping_add(1));
                        router.submit(&rt, IoRequest::new(client, VolumeRef(0), op));
                        continue;
                    }
                    (Some(_), Ok(())) => stand.0 += 1,
                    (Some(_), Err(IoError::Miscompare)) => lost += 1,
                    other => panic!("{other:?}"),
                }
                if stand.0 < rounds {
                    router.submit(&rt, read(client))
                } else {
                    busy -= 1
                }
                if chance.random(8) == 0 {
                    rt.sleep(base::Duration::from_micros(1)).await;
                }
            }
            for offset in [512, 1024] {
                let got = bytes_of(&answer(&rt, &mut router, IoOp::Read { offset, len: 512 }).await);
                assert!(got.iter().all(|b| *b == (clients / 2 * rounds) as u8), "seed {seed}: {} of {}", got[0], clients / 2 * rounds);
            }
            assert!(lost > 100, "they must meet: {lost}");
            assert!(router.is_idle());
        });
    }
}

#[test]
fn a_verify_reads_and_an_uncorrectable_block_fails_it_until_it_is_changed() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        let verify = || IoOp::Verify { offset: 512, len: VOLUME_BYTES - 512 };
        let done = answer(&rt, &mut router, verify()).await;
        assert!(done.result.is_ok() && done.data.is_empty());
        let at = PIECE_BYTES - 4096;
        assert_eq!(answer(&rt, &mut router, IoOp::Uncorrectable { offset: at, len: 8192 }).await.result, Ok(()));
        assert_eq!(answer(&rt, &mut router, IoOp::Uncorrectable { offset: 512, len: 4096 }).await.result, Err(IoError::Unaligned));
        // Parts are answered in any order: the first bad one is reported.
        assert!(matches!(answer(&rt, &mut router, verify()).await.result, Err(IoError::Media { offset }) if offset >= at));
        for op in [IoOp::Read { offset: at, len: 512 }, compare_write(at, 512, 0, 1)] {
            assert_eq!(answer(&rt, &mut router, op).await.result, Err(IoError::Media { offset: at }));
        }
        // A write of a part of it cannot know the rest.
        let part = IoOp::Write { offset: at, data: data(at, 512, |_| 1) };
        assert_eq!(answer(&rt, &mut router, part).await.result, Err(IoError::Media { offset: at }));
        answer(&rt, &mut router, IoOp::Write { offset: at, data: data(at, 4096, |_| 1) }).await.result.unwrap();
        assert_eq!(answer(&rt, &mut router, verify()).await.result, Err(IoError::Media { offset: PIECE_BYTES }));
        answer(&rt, &mut router, IoOp::Trim { offset: PIECE_BYTES, len: 4096 }).await.result.unwrap();
        assert_eq!(answer(&rt, &mut router, verify()).await.result, Ok(()));
        assert!(router.is_idle());
    });
}

const GIB: u64 = 1 << 30;

/// The volume has this size and so many mirrors from now on.
fn reshape(rt: &Rt, router: &mut VolumeRouter<LateBlocks>, bytes: u64, count: u32) {
    let volume = VolumeLayout { bytes, mirrors: mirrors(router.cores, count), ..served(router) };
    serve(rt, router, Some(volume));
}

fn trims(router: &VolumeRouter<LateBlocks>) -> u64 {
    router.lanes().shards().map(|(_, _, shard)| shard.trims).sum()
}

#[test]
fn a_long_trim_sends_parts_only_where_something_is_and_clears_all_of_it() {
    for mirrors in [1, 3, 65] {
        rt::sim::block_on(1, async move |rt: Rt| {
            let mut router = router(&rt, 1, Limits::default(), false);
            reshape(&rt, &mut router, 600 * GIB, mirrors);
            // At both edges, at borders of windows, alone and side by side.
            let window = WINDOW_PIECES * PIECE_BYTES;
            let places = [512, 4096, 5 * PIECE_BYTES, 6 * PIECE_BYTES, window - 4096, window, 17 * window + 8192, 600 * GIB - 4096];
            for at in places {
                let op = IoOp::Write { offset: at, data: data(at, 4096.min(600 * GIB - at) as u32, |_| 9) };
                answer(&rt, &mut router, op).await.result.unwrap();
            }
            let trim = IoOp::Trim { offset: 512, len: 600 * GIB - 1024 };
            answer(&rt, &mut router, trim).await.result.unwrap();
            // Two of the writes share a piece, and of the first and the last what is not whole blocks is written, not trimmed.
            assert_eq!(trims(&router), 7, "of {} pieces", 600 * GIB / PIECE_BYTES);
            for at in places {
                let len = (600 * GIB - 512 - at).min(4096) as u32;
                let got = bytes_of(&answer(&rt, &mut router, IoOp::Read { offset: at, len }).await);
                assert!(got.iter().all(|b| *b == 0), "{mirrors} mirrors: {at} is not clear");
            }
            let got = bytes_of(&answer(&rt, &mut router, IoOp::Read { offset: 600 * GIB - 512, len: 512 }).await);
            assert!(got.iter().all(|b| *b == 9), "what is behind the range stays");
            let before = trims(&router);
            answer(&rt, &mut router, IoOp::Zero { offset: PIECE_BYTES, len: 500 * GIB }).await.result.unwrap();
            assert_eq!(trims(&router), before, "nothing is there any more");
            assert!(router.is_idle());
        });
    }
}

/// A range operation ends when its volume becomes read-only: what it has sent is done, nothing more is sent, and it says so.
#[test]
fn a_range_operation_ends_when_its_volume_becomes_read_only() {
    let all = |what| {
        move |len| match what {
            RangeVerb::Trim => IoOp::Trim { offset: 0, len },
            RangeVerb::Zero => IoOp::Zero { offset: 0, len },
            RangeVerb::Uncorrectable => IoOp::Uncorrectable { offset: 0, len },
            RangeVerb::Verify => IoOp::Verify { offset: 0, len },
        }
    };
    for what in [RangeVerb::Trim, RangeVerb::Zero, RangeVerb::Uncorrectable, RangeVerb::Verify] {
        rt::sim::block_on(1, async move |rt: Rt| {
            let mut router = router(&rt, 1, Limits::default(), false);
            let pieces = 4 * PARTS_MAX as u64;
            reshape(&rt, &mut router, pieces * PIECE_BYTES, 1);
            for at in (0..pieces).map(|piece| piece * PIECE_BYTES) {
                answer(&rt, &mut router, IoOp::Write { offset: at, data: data(at, 4096, |_| 9) }).await.result.unwrap();
            }
            let op = all(what)(pieces * PIECE_BYTES);
            router.submit(&rt, IoRequest::new(1, VolumeRef(0), op));
            let read_only = VolumeLayout { read_only: true, ..served(&router) };
            serve(&rt, &mut router, Some(read_only));
            let done = loop {
                if let Some(done) = drive(&rt, &mut router) {
                    break done;
                }
                rt.sleep(base::Duration::from_micros(1)).await;
            };
            let changes = what != RangeVerb::Verify;
            assert_eq!(done.result, if changes { Err(IoError::ReadOnly) } else { Ok(()) }, "{what:?}");
            for piece in 0..pieces {
                let read = IoOp::Read { offset: piece * PIECE_BYTES, len: 4096 };
                let found = answer(&rt, &mut router, read).await;
                let kept = found.result.is_ok() && bytes_of(&found).iter().all(|b| *b == 9);
                assert_eq!(kept, !changes || piece >= PARTS_MAX as u64, "{what:?}: piece {piece}");
            }
            assert!(router.is_idle());
        });
    }
}

#[cfg(feature = "hooks")]
#[test]
fn a_range_operation_that_goes_on_is_noticed() {
    hooks::notices(hooks::SeededFault::RangeGoesOn, a_range_operation_ends_when_its_volume_becomes_read_only);
}

#[test]
fn a_long_trim_sends_all_its_parts_where_nobody_can_say_what_is_there() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        router.lanes_mut().shard_mut(GroupSlot(0), 1).unwrap().can_say = false;
        answer(&rt, &mut router, IoOp::Trim { offset: 0, len: VOLUME_BYTES }).await.result.unwrap();
        assert_eq!(trims(&router), 3);
        // A group that is closed: its volumes fail, though nothing of them is found.
        router.set_route(GroupSlot(0), None);
        assert_eq!(answer(&rt, &mut router, IoOp::Trim { offset: 0, len: VOLUME_BYTES }).await.result, Err(IoError::Failed));
        assert!(router.is_idle());
    });
}

/// Two cores with a shard each; what crosses between them arrives in its order, late.
struct TwoCores {
    planes: [VolumeRouter<LateBlocks>; 2],
    ways: [VecDeque<RouterMsg>; 2],
    chance: LateBlocks,
}

impl TwoCores {
    fn new(rt: &Rt, seed: u64, bytes: u64, mirrors: u32) -> Self {
        let planes = [0, 1].map(|core| {
            let mut router = router(rt, seed, Limits::default(), false);
            (router.core, router.cores) = (core, 2);
            for shard in router.lanes_mut().remove_group(GroupSlot(0)) {
                drop(shard);
            }
            router.lanes_mut().add_shard(GroupSlot(0), core as u8, LateBlocks::new(seed ^ core as u64));
            reshape(rt, &mut router, bytes, mirrors);
            router
        });
        Self { planes, ways: Default::default(), chance: LateBlocks::new(seed * 3 + 1) }
    }
    fn step(&mut self, rt: &Rt, done: &mut Vec<IoDone>) {
        for core in 0..2 {
            self.planes[core].poll(rt, |_| true);
            while let Some((to, msg)) = self.planes[core].pop_msg() {
                if to == core { self.planes[core].on_msg(rt, msg) } else { self.ways[to].push_back(msg) }
            }
            for _ in 0..self.chance.random(3) {
                let Some(msg) = self.ways[core].pop_front() else { break };
                self.planes[core].on_msg(rt, msg);
            }
            done.extend(std::iter::from_fn(|| self.planes[core].pop()));
        }
    }
}

#[test]
fn writes_beside_a_long_trim_on_two_cores_are_there_whole_or_trimmed_and_what_was_there_before_is_trimmed() {
    const PIECES: usize = 24;
    for seed in 0..40u64 {
        rt::sim::block_on(seed, async move |rt: Rt| {
            let mut cores = TwoCores::new(&rt, seed, PIECES as u64 * PIECE_BYTES, 1 + seed as u32 % 3);
            // What block 0 of each piece holds.
            let mut holds = [0u8; PIECES];
            for round in 1..30u8 {
                let (first, pieces) = (cores.chance.random(PIECES), 1 + cores.chance.random(PIECES));
                let (trimmed, trim_at) = (first..(first + pieces).min(PIECES), cores.chance.random(6));
                // Of each change: the pieces, the value, and what was answered when it was submitted.
                let mut changes: Vec<(std::ops::Range<usize>, u8, Vec<u64>)> = vec![];
                let mut done = vec![];
                for n in 0..6u8 {
                    let answered = done.iter().map(|d: &IoDone| d.token).collect();
                    let op = if usize::from(n) == trim_at {
                        changes.push((trimmed.clone(), 0, answered));
                        IoOp::Trim { offset: first as u64 * PIECE_BYTES, len: trimmed.len() as u64 * PIECE_BYTES }
                    } else {
                        let piece = cores.chance.random(PIECES);
                        changes.push((piece..piece + 1, round * 8 + n, answered));
                        let offset = piece as u64 * PIECE_BYTES;
                        IoOp::Write { offset, data: data(offset, 4096, |_| round * 8 + n) }
                    };
                    let core = cores.chance.random(2);
                    cores.planes[core].submit(&rt, IoRequest::new(u64::from(n), VolumeRef(0), op));
                    for _ in 0..cores.chance.random(8) {
                        cores.step(&rt, &mut done);
                    }
                }
                for _ in 0..100_000 {
                    cores.step(&rt, &mut done);
                    if done.len() == changes.len() {
                        break;
                    }
                }
                assert!(done.iter().all(|d| d.result.is_ok()) && done.len() == changes.len(), "seed {seed}: all are answered");
                for (piece, holds) in holds.iter_mut().enumerate() {
                    let here: Vec<_> = changes.iter().enumerate().filter(|(_, c)| c.0.contains(&piece)).collect();
                    let over = |n: usize| here.iter().any(|(_, later)| later.2.contains(&(n as u64)));
                    let mut may: Vec<u8> = here.iter().filter(|(n, _)| !over(*n)).map(|(_, c)| c.1).collect();
                    if here.is_empty() {
                        may.push(*holds);
                    }
                    let reader = cores.chance.random(2);
                    let op = IoOp::Read { offset: piece as u64 * PIECE_BYTES, len: 4096 };
                    cores.planes[reader].submit(&rt, IoRequest::new(99, VolumeRef(0), op));
                    let mut done = vec![];
                    while done.is_empty() {
                        cores.step(&rt, &mut done);
                    }
                    *holds = bytes_of(&done[0])[0];
                    assert!(may.contains(holds), "seed {seed}, round {round}: piece {piece} holds {holds}, and may hold {may:?}");
                }
            }
            let asked = cores.planes.iter().map(|p| p.stats().crossed).sum::<u64>();
            assert!(asked > 100 && cores.planes.iter().all(VolumeRouter::is_idle));
        });
    }
}

#[test]
fn the_parts_of_many_long_requests_are_bounded_together_and_all_are_done() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        reshape(&rt, &mut router, 64 * PIECE_BYTES, 1);
        let requests = 600;
        for token in 0..requests {
            let op = IoOp::Uncorrectable { offset: 0, len: 64 * PIECE_BYTES };
            router.submit(&rt, IoRequest::new(token, VolumeRef(0), op));
        }
        let most = |router: &VolumeRouter<LateBlocks>| router.stats().lanes.running as usize <= RANGE_PARTS_MAX + requests as usize;
        assert!(router.range_parts >= RANGE_PARTS_MAX && most(&router));
        let mut answered = 0;
        while answered < requests {
            answered += std::iter::from_fn(|| drive(&rt, &mut router)).count() as u64;
            assert!(most(&router));
        }
        assert!(router.is_idle() && router.range_parts == 0);
    });
}

#[path = "router_fill_tests.rs"]
mod fills;
#[path = "router_outcome_tests.rs"]
mod outcomes;

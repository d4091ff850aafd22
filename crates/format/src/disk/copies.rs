//! Records of the log that say what a copy of several knows: an epoch that it accepts, what is in doubt, how far a resync has come.
//!
//! Owns: what the fields of [`Record`] mean in those kinds, one type for each.
//! Invariant: a record is sound when it is what its value builds: what a kind does not use is zero.
//! Never: changes a block; none of them brings data. (`docs/on-disk-format.md`, "Records of a copy".)

use super::DiskError;
use super::bytes::check;
use super::log::{BLOCK_NO_MAX, COMPONENT_NO_MAX, RECORD_BLOCKS_MAX, Record, RecordKind};
use base::lane::Lane;
use base::unit::{CHUNK_BLOCKS, PIECE_BLOCKS};
use base::{BlockNo, BlockRange, Epoch, Incarnation, NodeId, Order, OwnerId, ResyncProgress, Seq};

/// What an epoch says of the copy's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySync {
    /// Nothing: it stays as it was.
    Keep,
    /// The copy is in sync.
    InSync,
    /// It is out of sync, and is to join: what is in doubt now stays so until it was copied.
    Join,
    /// As noted: it is in sync, and nothing else changes.
    NotedInSync,
    /// As noted: it is out of sync, and nothing else changes.
    NotedOutOfSync,
}

const SYNCS: [CopySync; 5] = [CopySync::Keep, CopySync::InSync, CopySync::Join, CopySync::NotedInSync, CopySync::NotedOutOfSync];

/// A copy accepts an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The epoch.
    pub epoch: Epoch,
    /// Since when the object is not in sync on all copies; at most the epoch.
    pub period_start: Epoch,
    /// Whose epoch it is.
    pub by: OwnerId,
    /// And what it says of the copy.
    pub sync: CopySync,
}

/// A change that is in doubt, noted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Its blocks.
    pub range: BlockRange,
    /// Its number, the mark of its lane, and the epoch with which its chunks are stamped.
    pub order: Order,
}

/// What a lane keeps: its mark. Records of [`OwnDoubt`] that follow are all that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneNote {
    /// Which lane.
    pub lane: Lane,
    /// Its mark.
    pub mark: Seq,
}

/// Blocks that were in doubt when the copy got out of sync, and were not copied since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnDoubt {
    /// Which; within a piece.
    pub range: BlockRange,
}

/// The change in the next record of the batch is content of another copy, which is brought here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its blocks, within a chunk.
    pub range: BlockRange,
    /// Epoch and mask of the chunk there; `None`: it has no such chunk.
    pub source: Option<(Epoch, u16)>,
    /// What holds once it is durable.
    pub progress: ResyncProgress,
}

/// How far a resync has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progressed {
    /// That.
    pub progress: ResyncProgress,
}

/// A record of this kind, with nothing in it.
fn empty(kind: RecordKind, component: u32, lsn: u64) -> Record {
    Record { kind, unchecked: false, component, block: BlockNo(0), blocks: 1, lsn, order: Order::default(), data_at: 0 }
}

fn with_range(kind: RecordKind, component: u32, lsn: u64, range: BlockRange, order: Order) -> Record {
    Record { block: range.first, blocks: range.blocks, order, ..empty(kind, component, lsn) }
}

fn range_of(record: &Record) -> BlockRange {
    BlockRange { first: record.block, blocks: record.blocks }
}

impl Accept {
    /// As a record.
    pub fn record(&self, component: u32, lsn: u64) -> Record {
        let node = self.by.node.as_bytes();
        let half = |at: usize| u64::from_be_bytes(core::array::from_fn(|i| node[at + i]));
        let sync = SYNCS.iter().position(|sync| *sync == self.sync).unwrap_or_default();
        let seq = Seq { term: Epoch(sync as u32), counter: half(0) };
        let mark = Seq { term: Epoch(0), counter: half(8) };
        let order = Order { epoch: self.epoch, period_start: self.period_start, seq, mark };
        Record { block: BlockNo(self.by.incarnation.0), order, ..empty(RecordKind::Accept, component, lsn) }
    }
    /// From one.
    pub fn of(record: &Record) -> Result<Self, DiskError> {
        let Order { epoch, period_start, seq, mark } = record.order;
        check(epoch != Epoch(0) && period_start <= epoch, "record epoch")?;
        let (high, low, sync) = (seq.counter, mark.counter, seq.term.0 as usize);
        let mut node = [0; 16];
        node[..8].copy_from_slice(&high.to_be_bytes());
        node[8..].copy_from_slice(&low.to_be_bytes());
        let by = OwnerId { node: NodeId::from_bytes(node), incarnation: Incarnation(record.block.0) };
        let sync = *SYNCS.get(sync).ok_or(DiskError::Value { field: "record state" })?;
        Ok(Self { epoch, period_start, by, sync })
    }
}

impl Doubt {
    /// As a record.
    pub fn record(&self, component: u32, lsn: u64) -> Record {
        with_range(RecordKind::Doubt, component, lsn, self.range, self.order)
    }
    /// From one.
    pub fn of(record: &Record) -> Result<Self, DiskError> {
        let Order { epoch, period_start, seq, mark } = record.order;
        check(period_start <= epoch && seq.term <= epoch, "record epoch")?;
        check(mark < seq, "record mark")?;
        Ok(Self { range: range_of(record), order: record.order })
    }
}

impl LaneNote {
    /// As a record.
    pub fn record(&self, component: u32, lsn: u64) -> Record {
        let order = Order { mark: self.mark, ..Order::default() };
        Record { block: BlockNo(self.lane.index() as u64), order, ..empty(RecordKind::Lane, component, lsn) }
    }
    /// From one.
    pub fn of(record: &Record) -> Result<Self, DiskError> {
        let lane = u8::try_from(record.block.0).ok().and_then(Lane::new);
        Ok(Self { lane: lane.ok_or(DiskError::Value { field: "record lane" })?, mark: record.order.mark })
    }
}

impl OwnDoubt {
    /// As a record.
    pub fn record(&self, component: u32, lsn: u64) -> Record {
        with_range(RecordKind::OwnDoubt, component, lsn, self.range, Order::default())
    }
    /// From one.
    pub fn of(record: &Record) -> Result<Self, DiskError> {
        Ok(Self { range: range_of(record) })
    }
}

impl Range {
    /// As a record.
    pub fn record(&self, component: u32, lsn: u64) -> Record {
        let (epoch, mask) = self.source.unwrap_or_default();
        let seq = Seq { term: Epoch(0), counter: u64::from(mask) };
        let mark = Seq { term: self.progress.to, counter: self.progress.below };
        with_range(RecordKind::Range, component, lsn, self.range, Order { epoch, period_start: Epoch(0), seq, mark })
    }
    /// From one.
    pub fn of(record: &Record) -> Result<Self, DiskError> {
        let Order { epoch, seq, mark, .. } = record.order;
        let counter = seq.counter;
        let mask = u16::try_from(counter).map_err(|_| DiskError::Value { field: "record mask" })?;
        let first = record.block.in_chunk();
        check(u64::from(first) + u64::from(record.blocks) <= CHUNK_BLOCKS, "record blocks")?;
        let progress = ResyncProgress { below: mark.counter, to: mark.term };
        Ok(Self { range: range_of(record), source: (epoch != Epoch(0)).then_some((epoch, mask)), progress })
    }
}

impl Progressed {
    /// As a record.
    pub fn record(&self, component: u32, lsn: u64) -> Record {
        let order = Order { epoch: self.progress.to, ..Order::default() };
        Record { block: BlockNo(self.progress.below), order, ..empty(RecordKind::Progress, component, lsn) }
    }
    /// From one.
    pub fn of(record: &Record) -> Result<Self, DiskError> {
        Ok(Self { progress: ResyncProgress { below: record.block.0, to: record.order.epoch } })
    }
}

/// Whether a record of one of these kinds is sound.
pub(super) fn check_record(r: &Record) -> Result<(), DiskError> {
    check(r.component != 0 && r.component <= COMPONENT_NO_MAX, "record component")?;
    check(r.blocks != 0 && r.blocks <= RECORD_BLOCKS_MAX, "record blocks")?;
    if matches!(r.kind, RecordKind::Doubt | RecordKind::OwnDoubt | RecordKind::Range) {
        check(r.block.0 <= BLOCK_NO_MAX - u64::from(r.blocks), "record block")?;
        check(r.block.0 % PIECE_BLOCKS + u64::from(r.blocks) <= PIECE_BLOCKS, "record blocks")?;
    }
    let (component, lsn) = (r.component, r.lsn);
    let again = match r.kind {
        RecordKind::Accept => Accept::of(r)?.record(component, lsn),
        RecordKind::Doubt => Doubt::of(r)?.record(component, lsn),
        RecordKind::Lane => LaneNote::of(r)?.record(component, lsn),
        RecordKind::OwnDoubt => OwnDoubt::of(r)?.record(component, lsn),
        RecordKind::Range => Range::of(r)?.record(component, lsn),
        RecordKind::Progress => Progressed::of(r)?.record(component, lsn),
        RecordKind::Write | RecordKind::Trim | RecordKind::Zero | RecordKind::Uncorrectable => *r,
    };
    check(again == *r, "record fields")
}

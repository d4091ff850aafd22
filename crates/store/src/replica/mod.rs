//! What a component keeps as one copy of several, in one shard: `docs/store.md`, "Copies".
//!
//! Owns: [`Replica`], of a component: the epoch it has accepted and whose, the records in doubt of each lane, what it knows of being out of
//! sync; [`note`], the same as records of the log.
//! Invariants: the accepted epoch never goes back; a change that is above the mark of its lane is listed once, unless it is of an older term and later
//! ones change all of its blocks; at most [`LISTED_MAX`] are listed for a lane; what is known is what replay of the log from the oldest note on gives again.
//! Never: looks at blocks or chunks; exists for a component without other copies.

mod note;

use crate::shard::op::StoreError;
use base::hooks::{self, SeededFault};
use base::lane::{LANES, Lane};
use base::unit::{CHUNK_BLOCKS, PIECE_BLOCKS};
use base::{BlockNo, BlockRange, Epoch, Incarnation, LaneDoubt, NodeId, Order, OwnerId, ResyncProgress, Seq};
use format::disk::copies::{Accept, CopySync};
pub(crate) use note::NOTE_RECORDS_MAX;
use std::collections::{BTreeMap, VecDeque};

/// Changes of a lane in one term that are above its mark: the owner lets no more begin.
pub(crate) const IN_DOUBT_MAX: usize = 1024;
/// The same with those of older terms, until they were agreed on.
const LISTED_MAX: usize = 2 * IN_DOUBT_MAX;
/// While there are more than [`IN_DOUBT_MAX`], those that need not be listed are looked for so often.
const CONDENSE_EACH: usize = 64;
/// Ranges of a lane that were in doubt when the copy got out of sync.
const OWN_DOUBT_MAX: usize = 2 * IN_DOUBT_MAX;

/// Why a change is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It may not be.
    Error(StoreError),
    /// It was taken, and then there was no place for it.
    Taken(StoreError),
    /// The copy has it, durable.
    There,
    /// It is on its way into the log already.
    UnderWay,
}

/// A change above the mark.
#[derive(Clone, Copy, Debug)]
struct Entry {
    seq: Seq,
    range: BlockRange,
    durable: bool,
}

/// A lane of a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaLane {
    mark: Seq,
    /// Changes above the mark, as they came.
    log: VecDeque<Entry>,
    /// Those of them that are not durable.
    under_way: usize,
    /// No number above it has come.
    highest: Seq,
    /// Blocks of chunks that were in doubt when the copy got out of sync, and were not copied since.
    own_doubt: BTreeMap<u64, u16>,
    /// The segment from which on the log says all of this; `None`: there is nothing to say.
    noted: Option<u64>,
    /// The component was noted anew since, and the lane not yet.
    behind: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    accepted: Epoch,
    by: OwnerId,
    period_start: Epoch,
    /// The highest epoch whose record is durable.
    durable: Epoch,
    resyncing: bool,
    progress: ResyncProgress,
    /// Of this shard: every `step`th of all.
    lanes: Box<[ReplicaLane]>,
    step: u8,
    /// The segment from which on the log says what is here, lanes not counted; `None`: nothing of it is durable.
    noted: Option<u64>,
    /// The same once no lane is behind.
    noted_next: Option<u64>,
}

/// What a copy knows of its state: in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    /// The highest epoch that it has accepted: what is below is refused. It may not be durable yet.
    pub accepted: Epoch,
    /// Whose epoch that is; with incarnation 0: not known, because none was accepted as a copy.
    pub by: OwnerId,
    /// The highest epoch that is durable; 0: none.
    pub durable: Epoch,
    /// It heard that it is out of sync, and how far an earlier resync had come.
    pub resync: Option<ResyncProgress>,
}

impl Replica {
    /// Of a component of a group of so many shards that has accepted this epoch so far, but none as a copy.
    pub fn new(accepted: Epoch, shards: u8) -> Self {
        Self {
            accepted,
            by: OwnerId { node: NodeId::from_bytes([0; 16]), incarnation: Incarnation(0) },
            period_start: Epoch(0),
            durable: Epoch(0),
            resyncing: false,
            progress: ResyncProgress::default(),
            lanes: vec![ReplicaLane::default(); usize::from(LANES / shards)].into(),
            step: shards,
            noted: None,
            noted_next: None,
        }
    }
    fn lane(&mut self, lane: Lane) -> &mut ReplicaLane {
        &mut self.lanes[lane.index() / usize::from(self.step)]
    }
    pub fn view(&self) -> ReplicaView {
        let Self { accepted, by, durable, .. } = *self;
        ReplicaView { accepted, by, durable, resync: self.resyncing.then_some(self.progress) }
    }
    /// Of each lane of shard `shard` that has anything to say: its mark, and what is in doubt.
    pub fn in_doubt(&self, shard: u8) -> Vec<LaneDoubt> {
        let lanes = self.lanes.iter().enumerate().filter_map(|(i, at)| {
            let lane = Lane::new(i as u8 * self.step + shard)?;
            let said = LaneDoubt { lane, mark: at.mark, doubt: at.doubt() };
            (said.mark > Seq::default() || !said.doubt.is_empty()).then_some(said)
        });
        lanes.collect()
    }
    /// Of chunks from `from` on: blocks that were in doubt when the copy got out of sync, and were not copied since.
    pub fn own_doubt_from(&self, from: u64) -> BTreeMap<u64, u16> {
        self.lanes.iter().flat_map(|lane| lane.own_doubt.range(from..)).map(|(chunk, mask)| (*chunk, *mask)).collect()
    }
    /// Changes that are above a mark.
    pub fn open(&self) -> usize {
        self.lanes.iter().map(|lane| lane.log.len()).sum()
    }
    /// Those of them that are not durable.
    pub fn under_way(&self) -> usize {
        self.lanes.iter().map(|lane| lane.under_way).sum()
    }

    // ---- epochs -----------------------------------------------------------------------------------------------------

    /// Takes an epoch, which is durable once [`Replica::accepted`] says so. False: it is already, and nothing else is to be kept.
    pub fn begin_accept(&mut self, accept: &Accept) -> Result<bool, StoreError> {
        let known_by = self.by.incarnation != Incarnation(0) && accept.by != self.by;
        let lower = accept.epoch < self.accepted || accept.epoch == self.accepted && known_by;
        if lower && !hooks::seeded(SeededFault::ReplicaTakesLowerEpoch) {
            return Err(StoreError::StaleEpoch);
        }
        let known = accept.epoch == self.durable;
        (self.accepted, self.by) = (accept.epoch, accept.by);
        Ok(match accept.sync {
            CopySync::Keep => !known,
            CopySync::InSync => !known || self.resyncing,
            _ => true,
        })
    }
    /// The record of an epoch is durable, in this segment. What is in doubt is stamped by the caller, before: [`Replica::doubt`].
    pub fn accepted(&mut self, accept: &Accept, segment: u64) {
        if accept.epoch >= self.durable {
            (self.durable, self.period_start) = (accept.epoch, accept.period_start);
        }
        if accept.epoch >= self.accepted {
            (self.accepted, self.by) = (accept.epoch, accept.by);
        }
        match accept.sync {
            CopySync::Keep => {}
            CopySync::InSync | CopySync::NotedInSync => self.gets_in_sync(),
            CopySync::Join => self.joins(),
            CopySync::NotedOutOfSync => (self.resyncing, self.progress) = (true, ResyncProgress::default()),
        }
        self.noted.get_or_insert(segment);
    }
    fn gets_in_sync(&mut self) {
        (self.resyncing, self.progress) = (false, ResyncProgress::default());
        self.lanes.iter_mut().for_each(|lane| lane.own_doubt.clear());
    }
    /// It is out of sync: what is in doubt now stays so, whatever a mark says.
    fn joins(&mut self) {
        if !self.resyncing || hooks::seeded(SeededFault::OwnDoubtForgotten) {
            self.lanes.iter_mut().for_each(|lane| lane.own_doubt.clear());
        }
        if !self.resyncing {
            self.progress = ResyncProgress::default();
        }
        self.resyncing = true;
        for lane in &mut self.lanes {
            let ranges: Vec<BlockRange> = lane.durable().map(|entry| entry.range).collect();
            ranges.into_iter().for_each(|range| lane.add_own_doubt(range));
        }
    }
    /// Whether what was and is in doubt is little enough to be kept if it joined now.
    pub fn may_join(&self) -> bool {
        self.lanes.iter().all(|lane| lane.own_doubt_ranges().len() + lane.doubt().len() <= OWN_DOUBT_MAX)
    }
    /// What is in doubt and durable.
    pub fn doubt(&self) -> Vec<BlockRange> {
        self.lanes.iter().flat_map(|lane| lane.durable().map(|entry| entry.range)).collect()
    }

    // ---- changes ----------------------------------------------------------------------------------------------------

    /// Takes a change, or says why it is not carried out.
    pub fn judge(&mut self, order: &Order, block: BlockNo, blocks: u32, room: usize) -> Option<Refusal> {
        let sound = order.mark < order.seq && order.period_start <= order.epoch && order.seq.term <= order.epoch;
        if !sound || blocks == 0 || block.0 % PIECE_BLOCKS + u64::from(blocks) > PIECE_BLOCKS {
            return Some(Refusal::Error(StoreError::BadChange));
        }
        let (accepted, durable, lane) = (self.accepted, self.durable, Lane::of(block));
        if hooks::seeded(SeededFault::MarkBeforeRestamp) {
            self.lane(lane).take_mark(order.mark);
        }
        match order.epoch.cmp(&accepted) {
            core::cmp::Ordering::Less if !hooks::seeded(SeededFault::ReplicaTakesLowerEpoch) => {
                return Some(Refusal::Error(StoreError::StaleEpoch));
            }
            core::cmp::Ordering::Greater => return Some(Refusal::Error(StoreError::EpochNotAccepted)),
            // What is in doubt is stamped when the epoch is durable: a mark that counted before would have settled it.
            _ if durable < accepted && !hooks::seeded(SeededFault::ChangeBeforeRestamp) => {
                return Some(Refusal::Error(StoreError::EpochNotAccepted));
            }
            _ => {}
        }
        let lane = self.lane(lane);
        lane.take_mark(order.mark);
        if !hooks::seeded(SeededFault::RepeatedCarriedOut) {
            if order.seq <= lane.mark {
                return Some(Refusal::There);
            }
            let known = if order.seq > lane.highest { None } else { lane.log.iter().find(|entry| entry.seq == order.seq) };
            if let Some(entry) = known {
                return Some(if entry.durable { Refusal::There } else { Refusal::UnderWay });
            }
        }
        if lane.log.len() >= IN_DOUBT_MAX && lane.has_too_many(order.seq.term) || room == 0 {
            return Some(Refusal::Error(StoreError::TooManyInDoubt));
        }
        lane.log.push_back(Entry { seq: order.seq, range: BlockRange { first: block, blocks }, durable: false });
        lane.under_way += 1;
        lane.highest = lane.highest.max(order.seq);
        None
    }
    /// A change is durable, in this segment, or was found there.
    pub fn is_durable(&mut self, order: &Order, range: BlockRange, segment: u64) {
        let lane = self.lane(Lane::of(range.first));
        lane.take_mark(order.mark);
        lane.noted.get_or_insert(segment);
        let (place, settled) = (lane.log.iter().position(|entry| entry.seq == order.seq), order.seq <= lane.mark);
        match place {
            Some(at) => {
                lane.under_way -= usize::from(!lane.log[at].durable);
                lane.log[at].durable = true;
                if settled {
                    lane.log.remove(at);
                }
            }
            None if settled => {}
            None => lane.add(order.seq, range),
        }
    }
    /// A change has failed: it was never here.
    pub fn failed(&mut self, order: &Order, block: BlockNo) {
        let lane = self.lane(Lane::of(block));
        if let Some(at) = lane.log.iter().position(|entry| !entry.durable && entry.seq == order.seq) {
            lane.log.remove(at);
            lane.under_way -= 1;
        }
    }
    /// Content of another copy is durable here: what was in doubt of these blocks is not any more.
    pub fn copied(&mut self, range: BlockRange, progress: ResyncProgress) {
        let lane = self.lane(Lane::of(range.first));
        let chunk = range.first.chunk();
        let mask = mask_of(range);
        if let Some(left) = lane.own_doubt.get_mut(&chunk) {
            *left &= !mask;
            if *left == 0 {
                lane.own_doubt.remove(&chunk);
            }
        }
        if self.resyncing {
            self.progress = progress;
            if hooks::seeded(SeededFault::ProgressWithoutEpoch) {
                self.progress.to = Epoch(u32::MAX);
            }
        }
    }
}

impl ReplicaLane {
    fn durable(&self) -> impl Iterator<Item = &Entry> {
        self.log.iter().filter(|entry| entry.durable)
    }
    /// A change in doubt that was found in the log.
    fn add(&mut self, seq: Seq, range: BlockRange) {
        self.log.push_back(Entry { seq, range, durable: true });
        self.highest = self.highest.max(seq);
        if self.log.len() > LISTED_MAX {
            self.condense(self.highest.term);
        }
    }
    /// What is in doubt, in order: ranges that meet are one.
    fn doubt(&self) -> Vec<BlockRange> {
        merged(self.durable().map(|entry| entry.range))
    }
    /// Whether no more of this term may begin.
    #[cold]
    fn has_too_many(&mut self, term: Epoch) -> bool {
        let len = self.log.len();
        if len >= LISTED_MAX || len.is_multiple_of(CONDENSE_EACH) {
            self.condense(term);
        }
        let of_term = || self.log.iter().filter(|entry| entry.seq.term == term).count();
        self.log.len() >= LISTED_MAX || of_term() >= IN_DOUBT_MAX
    }
    /// Forgets what is of older terms where changes of this one are in doubt for all of its blocks: who sent it sends it no more, and the blocks
    /// stay in doubt.
    fn condense(&mut self, term: Epoch) {
        let later = merged(self.durable().filter(|entry| entry.seq.term == term).map(|entry| entry.range));
        let covered = |range: &BlockRange| {
            let before = later.partition_point(|other| other.first <= range.first);
            before.checked_sub(1).is_some_and(|n| later[n].end() >= range.end())
        };
        self.log.retain(|entry| !entry.durable || entry.seq.term >= term || !covered(&entry.range));
    }
    /// What is not durable here is not on all copies, whatever is said.
    fn take_mark(&mut self, mark: Seq) {
        if mark > self.mark {
            self.mark = mark;
            self.log.retain(|entry| entry.seq > mark || !entry.durable);
        }
    }
    fn add_own_doubt(&mut self, range: BlockRange) {
        let mut at = range.first;
        while at.0 < range.end().0 {
            let end = (at.chunk() + 1) * CHUNK_BLOCKS;
            let part = BlockRange { first: at, blocks: (end.min(range.end().0) - at.0) as u32 };
            *self.own_doubt.entry(at.chunk()).or_default() |= mask_of(part);
            at = part.end();
        }
    }
    /// The same as ranges, each within a piece.
    fn own_doubt_ranges(&self) -> Vec<BlockRange> {
        let mut ranges: Vec<BlockRange> = Vec::new();
        for (chunk, mask) in &self.own_doubt {
            for i in (0..CHUNK_BLOCKS).filter(|i| mask >> i & 1 == 1) {
                let block = BlockNo(chunk * CHUNK_BLOCKS + i);
                match ranges.last_mut() {
                    Some(last) if last.end() == block && !block.0.is_multiple_of(PIECE_BLOCKS) => last.blocks += 1,
                    _ => ranges.push(BlockRange { first: block, blocks: 1 }),
                }
            }
        }
        ranges
    }
}

/// Ranges of a lane in order, those that meet as one; each stays within its piece.
fn merged(ranges: impl Iterator<Item = BlockRange>) -> Vec<BlockRange> {
    let mut all: Vec<BlockRange> = ranges.collect();
    all.sort_unstable_by_key(|range| range.first);
    let mut merged: Vec<BlockRange> = Vec::new();
    for range in all {
        match merged.last_mut() {
            Some(last) if range.first <= last.end() && last.first.0 / PIECE_BLOCKS == range.first.0 / PIECE_BLOCKS => {
                last.blocks = (range.end().max(last.end()).0 - last.first.0) as u32;
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The bits of a range within its chunk.
pub(crate) fn mask_of(range: BlockRange) -> u16 {
    (((1u32 << range.blocks.min(CHUNK_BLOCKS as u32)) - 1) << range.first.in_chunk()) as u16
}

//! Opening a shard: loads the chunk tables, finds the log's tail and head, replays what lies between.
//!
//! Owns: what the bytes of a log mean after a crash (`read_log`), and the replay.
//! Invariants: batches are taken as a chain (number and checksum of the one before), so nothing stale is replayed and nothing that was
//! acknowledged can be missing without being noticed; records of unknown components are skipped (I5); chunks are allocated only after
//! the whole replay (I4); what is replayed is made durable first, and what is not is wiped, so what a read returns after this opening stays.
//! Never: writes to the log otherwise; appends to a segment of an earlier life (the head begins a new one).

mod chain;
mod copies;
mod epochs;
mod found;
mod scan;

use crate::buffer::log::{Log, Slice};
use crate::buffer::ring::RESERVE_SEGMENTS;
use crate::capacity::Phys;
use crate::destage::progress::Destage;
use crate::index::{Key, Located, LogPos, SLICE_BLOCKS_MAX};
use crate::join::join_all;
use crate::pace::{Pacer, Settings};
use crate::scrub::progress::Scrub;
use crate::shard::chunk_part::chunk_parts;
use crate::shard::copies::Copies;
use crate::shard::member::Members;
use crate::shard::ops::Operations;
use crate::shard::space::Space;
use crate::shard::state::{Phase, State};
use crate::stats::ShardStats;
use crate::{ComponentNo, Group, GroupError};
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use chain::Chain;
use epochs::NewestEpochs;
use format::disk::log::{RECORD_BYTES, Record, RecordKind, SEGMENT_HEADER_BLOCKS};
use found::FoundBlocks;
use rt::{Device, Rt};
use scan::{Content, LogReader};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Segments whose content is read at a time.
const SEGMENTS_AT_ONCE: usize = 32;
/// Sub-maps of the index that are given their chunks in one go.
const MAPS_AT_ONCE: usize = 64;

/// Opens shard `shard`. See the module.
pub(crate) async fn open(rt: &Rt, group: &Group, shard: u8, settings: Settings) -> Result<State, GroupError> {
    let began = rt.now();
    let info = group.info();
    let devices = group.capacity().to_vec();
    let cache = group.cache().clone();
    // What an earlier process wrote and never flushed is there now and must still be there after the next loss of power.
    if !hooks::seeded(SeededFault::RecoveryUnflushed) {
        flush_all(rt, core::iter::once(&cache).chain(&devices)).await?;
    }
    let components = group.components();
    let table = group.load_chunks(rt, shard).await?;
    let geometry = info.geometry.log;
    let segment_blocks = geometry.segment_blocks();
    let count = u64::from(geometry.segments_per_shard).min(SLICE_BLOCKS_MAX / u64::from(segment_blocks)) as u32;
    let slice_at = geometry.segment_offset(shard, 0);
    let reader = LogReader { rt, tag: info.tag, shard, cache: &cache, slice_at, count, segment_blocks };
    let found = reader.find().await?;
    let now = rt.now();
    let unusable = (RESERVE_SEGMENTS + 1) as f64 / f64::from(count);
    let destage = Destage::new(shard, found.tail, group.trouble().clone(), now);
    let slice = Slice::new(cache.clone(), slice_at);
    let mut state = State {
        shard,
        queue: rt.queue(),
        log: Log::new((info.tag, shard), slice, (count, segment_blocks), found.tail, destage.waker()),
        space: Space::new(table, devices),
        members: Members::new(info.shards, in_doubt_max(count, segment_blocks)),
        copies: Copies::default(),
        pacer: Pacer::new(&settings, unusable, now),
        ops: Operations::default(),
        destage,
        scrub: Scrub::new(settings.scrub_bytes_per_s),
        found_bad: VecDeque::new(),
        figures: ShardStats::default(),
        phase: Phase::Open,
    };
    for c in &components {
        // Without its reservation, until everything in the log has its place again: what was admitted once is never refused.
        let (no, mut plain) = (c.no, c.clone());
        plain.reserve_chunks = 0;
        state.add_component(no, &plain);
    }
    let mut gathered = replay_all(rt, &mut state, &reader, found).await?;
    // Also of a component whose device is gone, with the record that said so.
    if !hooks::seeded(SeededFault::NumbersOfLogForgotten) {
        group.number_was_given(gathered.highest);
    }
    // The end of the log, and where the next batch begins: in the next segment, or, if its first write fails, in the one after it.
    let ring = state.log.ring();
    let (head, next) = (ring.head(), ring.head() + 1);
    let end = if ring.in_use() > 0 { ring.get(head).used } else { u32::MAX };
    reader.wipe(&[(head, end), (next, SEGMENT_HEADER_BLOCKS), (next + 1, SEGMENT_HEADER_BLOCKS)]).await?;
    place_all(rt, &mut state, &cache, &mut gathered).await?;
    place_marks(&mut state, &cache, &gathered)?;
    for c in components.iter().filter(|_| !hooks::seeded(SeededFault::PromisesForgotten)) {
        state.add_component(c.no, c);
    }
    state.space.replay_ended();
    state.figures.recovered_blocks = state.log.index().len();
    state.figures.recovery_time = rt.now().since(began);
    Ok(state)
}

async fn flush_all(rt: &Rt, devices: impl Iterator<Item = &Device>) -> Result<(), GroupError> {
    let flushes = devices.map(|device| async move {
        let result = rt.flush_dev(device).await;
        result.map_err(|error| GroupError::Device { device: device.name().into(), error })
    });
    join_all(flushes.map(Box::pin)).await.into_iter().collect()
}

/// Blocks whose newest record says "uncorrectable": by component and chunk, which blocks of it, and the order of the newest such record.
/// They get their chunks after the replay (I4), like what is in the index.
type Marks = BTreeMap<(u32, u64), (u16, u64)>;

/// What the replay gathers, for the index and for chunks that get their place only after it.
struct Gathered {
    found: FoundBlocks,
    marks: Marks,
    epochs: NewestEpochs,
    /// What the next record is, if it is content of another copy.
    range: Option<format::disk::copies::Range>,
    /// The highest number of a component that a record names.
    highest: u32,
}

/// Changes of copies that may be in doubt: their notes take up a thirty-second of the log.
fn in_doubt_max(segments: u32, segment_blocks: u32) -> usize {
    segments as usize * segment_blocks as usize * BLOCK_BYTES / RECORD_BYTES / 32
}

async fn replay_all(rt: &Rt, state: &mut State, reader: &LogReader<'_>, found: scan::Found) -> Result<Gathered, GroupError> {
    let mut chain: Option<Chain> = None;
    let mut gathered =
        Gathered { found: FoundBlocks::new(&state.log), marks: Marks::new(), epochs: NewestEpochs::default(), range: None, highest: 0 };
    let seqs: Vec<u64> = (found.tail..found.head_seq()).collect();
    for group in seqs.chunks(hooks::tiny(SEGMENTS_AT_ONCE, 2)) {
        let contents = join_all(group.iter().map(|&seq| Box::pin(reader.content(&found, seq)))).await;
        let skip = usize::from(group[0] != found.tail && group.len() > 1 && hooks::seeded(SeededFault::ReplayWindowSkips));
        for (&seq, content) in group.iter().zip(contents).skip(skip) {
            replay_segment(state, reader, (&mut chain, &mut gathered), seq, content?)?;
            rt.yield_now().await;
        }
    }
    if let Some(head) = found.head {
        replay_segment(state, reader, (&mut chain, &mut gathered), head.seq, Some(head.content))?;
    }
    let mut chain = chain.unwrap_or(found.fresh);
    if hooks::seeded(SeededFault::NumberUsedTwice) {
        chain.lsn = chain.lsn.saturating_sub(1).max(1);
    }
    state.log.replayed(chain.lsn, chain.crc);
    Ok(gathered)
}

fn replay_segment(
    state: &mut State,
    reader: &LogReader<'_>,
    (chain, gathered): (&mut Option<Chain>, &mut Gathered),
    seq: u64,
    content: Option<Content>,
) -> Result<(), GroupError> {
    if !state.log.open_found(seq) {
        return Err(reader.damaged("it names more segments than there are"));
    }
    // A segment whose first write failed may have left nothing; the chain says whether anything is missing.
    let Some(content) = content else {
        hooks::reached(CoverageMark::SegmentWithoutTrace);
        return if chain.is_some() { Ok(()) } else { Err(reader.damaged("the oldest segment cannot be read")) };
    };
    let follows = |before: &Chain| content.first_lsn == before.lsn && content.previous_crc.is_none_or(|crc| crc == before.crc);
    if !chain.as_ref().is_none_or(follows) {
        return Err(reader.damaged("batches are missing from the middle"));
    }
    *chain = Some(Chain { lsn: content.last_lsn + 1, crc: content.last_crc });
    state.log.set_used(seq, content.used_blocks);
    let mut crcs = content.crcs.iter();
    for record in &content.records {
        let n = record.data_blocks() as usize;
        replay(state, gathered, seq, record, crcs.by_ref().take(n).copied());
    }
    state.figures.recovered_segments += 1;
    Ok(())
}

/// The effect of one record.
fn replay(state: &mut State, gathered: &mut Gathered, seq: u64, record: &Record, crcs: impl Iterator<Item = u32>) {
    gathered.highest = gathered.highest.max(record.component);
    if !record.kind.is_change() {
        return copies::replay(state, gathered, seq, record);
    }
    let Gathered { found, marks, epochs, range, .. } = gathered;
    let range = range.take();
    let (component, order) = (ComponentNo(record.component), &record.order);
    if !state.members.ended(component, record.block, order, true) {
        if !hooks::seeded(SeededFault::SumsNotPassed) {
            crcs.for_each(drop);
        }
        return;
    }
    copies::replay_change(state, record, seq);
    if !marks.is_empty() && !hooks::seeded(SeededFault::MarkOutlivesWrite) && record.kind != RecordKind::Uncorrectable {
        unmark(marks, record);
    }
    match record.kind {
        RecordKind::Write => {
            let key = Key::new(component, record.block);
            let first = state.log.add_record(seq, key, record.data_at, record.blocks);
            for (i, crc) in crcs.enumerate() {
                let pos = LogPos::new(first + i as u32, record.unchecked);
                found.add(&mut state.log, key.plus(i as u32), Located { pos, crc });
            }
        }
        RecordKind::Trim | RecordKind::Zero if hooks::seeded(SeededFault::ForgottenTrim) => {}
        RecordKind::Trim | RecordKind::Zero => {
            found.bring_of(&mut state.log, component, record);
            if range.is_none() {
                state.trim(component, record.block, record.blocks, record.lsn, order);
            }
        }
        RecordKind::Uncorrectable if hooks::seeded(SeededFault::ForgottenMark) => {}
        RecordKind::Uncorrectable => {
            hooks::reached(CoverageMark::UncorrectableReplayed);
            found.bring_of(&mut state.log, component, record);
            for part in chunk_parts(record.block, record.blocks) {
                state.log.remove_part(component, part);
                let (mask, seq) = marks.entry((component.0, part.chunk)).or_default();
                (*mask, *seq) = (*mask | part.mask(), record.lsn);
            }
        }
        _ => {}
    }
    if let Some(range) = range {
        copies::replay_range(state, record, &range);
    }
    let keeps = matches!(record.kind, RecordKind::Write | RecordKind::Uncorrectable);
    let known = epochs.is_first(component, order.epoch);
    if known && !keeps {
        return;
    }
    for part in chunk_parts(record.block, record.blocks) {
        // A trim has noted it itself.
        if keeps
            && range.is_none()
            && !hooks::seeded(SeededFault::MaskNotReplayed)
            && let Some(phys) = state.space.lookup(component, part.chunk)
        {
            state.space.note_change(phys, part, order);
        }
        // A chunk that is trimmed whole begins anew.
        if !known && (keeps || part.mask() != u16::MAX) {
            epochs.note(component, part.chunk, order.epoch);
        }
    }
}

/// Gives every block of the log a chunk to go to.
async fn place_all(rt: &Rt, state: &mut State, cache: &Device, Gathered { found, epochs, .. }: &mut Gathered) -> Result<(), GroupError> {
    let mut chunks: Vec<Key> = Vec::new();
    for map in 0..state.log.index().maps() {
        chunks.clear();
        found.bring(&mut state.log, map);
        chunks.extend(state.log.index().iter_map(map).map(|(key, _)| key.chunk_begin()));
        chunks.sort_unstable();
        chunks.dedup();
        for key in &chunks {
            place(state, cache, epochs, key.component(), key.block().chunk())?;
        }
        if map % hooks::tiny(MAPS_AT_ONCE, 2) == 0 {
            rt.yield_now().await;
        }
    }
    Ok(())
}

/// Gives every block that is uncorrectable a chunk that says so.
fn place_marks(state: &mut State, cache: &Device, Gathered { marks, epochs, .. }: &Gathered) -> Result<(), GroupError> {
    for (&(component, chunk), &(mask, seq)) in marks {
        let phys = place(state, cache, epochs, ComponentNo(component), chunk)?;
        state.space.set_uncorrectable(phys, mask, seq);
    }
    Ok(())
}

/// The place of a chunk. One that is made now has the epoch of its newest change. (All of its blocks count as changed, as in every new chunk.)
fn place(state: &mut State, cache: &Device, epochs: &NewestEpochs, component: ComponentNo, chunk: u64) -> Result<Phys, GroupError> {
    if let Some(phys) = state.space.lookup(component, chunk) {
        return Ok(phys);
    }
    let Ok(phys) = state.space.allocate(component, chunk) else {
        let what = "it holds more than capacity can take";
        return Err(GroupError::LogDamaged { device: cache.name().into(), shard: state.shard, what });
    };
    state.space.stamp(phys, epochs.newest(component, chunk));
    Ok(phys)
}

/// What is written, zeroed or trimmed is not uncorrectable any more.
fn unmark(marks: &mut Marks, record: &Record) {
    for part in chunk_parts(record.block, record.blocks) {
        if let Entry::Occupied(mut entry) = marks.entry((record.component, part.chunk)) {
            hooks::reached(CoverageMark::UncorrectableOverwritten);
            entry.get_mut().0 &= if hooks::seeded(SeededFault::UnmarksWholeChunk) { 0 } else { !part.mask() };
            if entry.get().0 == 0 {
                entry.remove();
            }
        }
    }
}

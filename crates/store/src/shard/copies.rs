//! A component that is one copy of several, as the shard serves it: epochs, ranges of other copies, and the notes that let the log go on.
//!
//! Owns: what a copy's operations do beyond those of any component. What it knows is a [`crate::replica::Replica`].
//! Invariants: an epoch takes effect when its record is durable, after everything that was before it in the log, and with Restamp; a range
//! and what it says of its chunk are one batch.
//! Never: runs for a component without other copies.

use super::chunk_part::{ChunkPart, chunk_parts};
use super::op::{Change, CopySync, Crcs, Logged, Op, Place, RangeContent, RangeOp, Stage, StoreError};
use super::state::State;
use crate::ComponentNo;
use crate::replica::{NOTE_RECORDS_MAX, Refusal};
use base::hooks::{self, SeededFault};
use base::unit::{CHUNK_BLOCKS, PIECE_BLOCKS};
use base::{BlockNo, BlockRange, Epoch, Incarnation, Order, OwnerId, SourceContent, SourceRun, crc32c};
use format::disk::copies::{Accept, Range};
use format::disk::log::{Record, RecordKind};
use rt::sync::Notify;
use rt::{BufVec, Rt};

/// Chunks of one answer to [`crate::Shard::list`], at most.
pub const LIST_CHUNKS_MAX: usize = 1024;
/// Pieces that are looked at in one go.
const LIST_PIECES: u64 = 512;

/// What of copies is under way in a shard.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Notes are wanted, so that the log before this segment may be given up.
    before: u64,
    /// In line, or on their way into the log.
    out: bool,
    /// The last ones found no room.
    full: bool,
    /// They are durable, or failed.
    written: Notify,
}

/// A chunk, as a copy has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyChunk {
    /// Which, counted in the object's address space.
    pub chunk: u64,
    /// Epoch of the last change, and mask; `None`: it is not there.
    pub there: Option<(Epoch, u16)>,
    /// Blocks that were in doubt when the copy heard that it is out of sync, and were not copied since.
    pub own_doubt: u16,
}

/// Chunks of a copy, in one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyList {
    /// In order, all from where it was asked and below `next`.
    pub chunks: Vec<CopyChunk>,
    /// Where the rest begins; `None`: there is no more.
    pub next: Option<u64>,
}

impl RangeOp {
    /// What its content is in the log.
    pub fn kind(&self) -> RecordKind {
        match self.content {
            RangeContent::Data { .. } => RecordKind::Write,
            RangeContent::Nothing => RecordKind::Trim,
            RangeContent::Uncorrectable => RecordKind::Uncorrectable,
        }
    }
    /// Takes its checksums, of so many blocks of data.
    pub fn take_crcs(&mut self, blocks: u32) -> Crcs {
        let RangeContent::Data { buf, crcs, .. } = &mut self.content else { return Crcs::new() };
        let given = core::mem::take(crcs);
        if given.len() == blocks as usize { given } else { buf.chunks_exact(base::BLOCK_BYTES).map(crc32c).collect() }
    }
    /// Whether a copy can have sent it.
    fn is_sound(&self, op: &Op) -> bool {
        let within = u64::from(op.block.in_chunk()) + u64::from(op.blocks) <= CHUNK_BLOCKS;
        let nothing = matches!(self.content, RangeContent::Nothing) && u64::from(op.blocks) == CHUNK_BLOCKS;
        let data = match &self.content {
            RangeContent::Data { buf, .. } => buf.len() == op.blocks as usize * base::BLOCK_BYTES,
            _ => true,
        };
        within && data && self.source.map_or(nothing, |(epoch, _)| epoch != Epoch(0))
    }
}

/// Whether what is logged so keeps its chunks.
pub(crate) fn takes_space(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Write | RecordKind::Uncorrectable)
}

impl State {
    // ---- epochs -----------------------------------------------------------------------------------------------------

    /// The component is a copy, and accepts an epoch.
    pub fn accept_epoch(&mut self, mut op: Op, order: &Order, by: OwnerId, sync: CopySync) {
        let accept = Accept { epoch: order.epoch, period_start: order.period_start, by, sync };
        let known = self.begin_accept(op.component, &accept);
        let logged = match known {
            Ok(logged) => logged && !hooks::seeded(SeededFault::EpochNotLogged),
            Err(error) => return self.refuse(op, Some(Refusal::Error(error)), None),
        };
        if !logged {
            if hooks::seeded(SeededFault::EpochNotLogged) {
                self.epoch_takes_effect(op.component, &accept);
            }
            let key = self.ops.add(op);
            return self.finish(key, Ok(()), None);
        }
        op.stage = Stage::Waiting(Change::Accept(Box::new(accept)));
        let key = self.ops.add(op);
        self.log.push_waiting(key, Order::default());
    }

    fn begin_accept(&mut self, component: ComponentNo, accept: &Accept) -> Result<bool, StoreError> {
        let sync = matches!(accept.sync, CopySync::Keep | CopySync::InSync | CopySync::Join);
        let epochs = (Epoch(1)..Epoch(u32::MAX)).contains(&accept.epoch) && accept.period_start <= accept.epoch;
        if !sync || !epochs || accept.by.incarnation == Incarnation(0) {
            return Err(StoreError::BadChange);
        }
        let begun = self.members.with_replica(component, |replica| {
            if accept.sync == CopySync::Join && !replica.may_join() {
                return Err(StoreError::TooManyInDoubt);
            }
            replica.begin_accept(accept)
        });
        begun.unwrap_or(Err(if self.members.has(component) { StoreError::BadChange } else { StoreError::NoComponent }))
    }

    /// The record of an epoch is durable.
    pub fn apply_accept(&mut self, component: ComponentNo, record: usize) {
        if let Ok(accept) = Accept::of(&self.log.batch()[record]) {
            self.epoch_takes_effect(component, &accept);
        }
    }

    fn epoch_takes_effect(&mut self, component: ComponentNo, accept: &Accept) {
        let segment = self.log.ring().head();
        let Some(replica) = self.members.replica(component) else { return };
        if accept.epoch > replica.view().durable && !hooks::seeded(SeededFault::DoubtNotRestamped) {
            for range in replica.doubt() {
                self.restamp(component, range, accept.epoch, accept.period_start);
            }
        }
        self.members.with_replica(component, |replica| replica.accepted(accept, segment));
    }

    /// Restamp: chunks of what is in doubt get the epoch, and the blocks count as changed. The chunks that are not there.
    pub fn restamp(&mut self, component: ComponentNo, range: BlockRange, epoch: Epoch, period_start: Epoch) -> Vec<u64> {
        let mut missing = Vec::new();
        let order = Order { epoch, period_start, ..Order::default() };
        for part in chunk_parts(range.first, range.blocks) {
            match self.space.lookup(component, part.chunk) {
                Some(phys) if hooks::seeded(SeededFault::RestampKeepsMask) => self.space.stamp(phys, epoch),
                Some(phys) => {
                    self.space.change_takes_effect(component, part, &order);
                    self.space.note_change(phys, part, &order);
                }
                None => missing.push(part.chunk),
            }
        }
        missing
    }

    // ---- changes ----------------------------------------------------------------------------------------------------

    /// A change that is not carried out: it cannot be, or it was already.
    pub fn refuse(&mut self, mut op: Op, refusal: Option<Refusal>, change: Option<(Order, Option<rt::Buf>)>) {
        let (order, buf) = change.map_or((Order::default(), None), |(order, buf)| (order, buf));
        let (component, range) = (op.component, BlockRange { first: op.block, blocks: op.blocks });
        let result = match refusal.expect("refused for a reason") {
            Refusal::Error(error) => Err(error),
            Refusal::Taken(error) => {
                self.members.of_copy_ended(component, &order, range, None);
                Err(error)
            }
            Refusal::There => Ok(()),
            Refusal::UnderWay if hooks::seeded(SeededFault::UnderWayAcknowledged) => Ok(()),
            Refusal::UnderWay => {
                // What is in line before it is durable then, or has failed like it.
                op.stage = Stage::Waiting(Change::Flush);
                let key = self.ops.add(op);
                return self.log.push_waiting(key, Order::default());
            }
        };
        let key = self.ops.add(op);
        self.finish(key, result, buf);
    }

    /// A range that was taken goes into line.
    pub fn submit_range(&mut self, mut op: Op, mut range: Box<RangeOp>, order: Order) {
        if !range.is_sound(&op) {
            let placed = takes_space(range.kind());
            let (component, blocks) = (op.component, BlockRange { first: op.block, blocks: op.blocks });
            let key = self.ops.add(op);
            if placed {
                self.unplace(key);
            }
            self.members.of_copy_ended(component, &order, blocks, None);
            return self.finish(key, Err(StoreError::BadChange), None);
        }
        op.crcs = range.take_crcs(op.blocks);
        op.stage = Stage::Waiting(Change::Range(range));
        let key = self.ops.add(op);
        self.log.push_waiting(key, order);
    }

    /// Puts the first in line, an epoch or a range, into the batch.
    pub fn enter_of_copy(&mut self, bufs: &mut BufVec) {
        let (key, order) = self.log.pop_waiting().expect("looked at before");
        let lsn = self.log.next_lsn();
        let op = &mut self.ops[key];
        let (component, block, blocks) = (op.component.0, op.block, op.blocks);
        match core::mem::replace(&mut op.stage, Stage::Logging(Logged::Accept)) {
            Stage::Waiting(Change::Accept(accept)) => self.log.add_to_batch(key, accept.record(component, lsn), &[]),
            Stage::Waiting(Change::Range(range)) => {
                let kind = range.kind();
                op.stage = Stage::Logging(Logged::Range(kind));
                let RangeOp { source, progress, content } = *range;
                let unchecked = matches!(content, RangeContent::Data { checksum: false, .. });
                let head = Range { range: BlockRange { first: block, blocks }, source, progress };
                self.log.add_note(head.record(component, lsn));
                let record = Record { kind, unchecked, component, block, blocks, lsn, order, data_at: 0 };
                self.log.add_to_batch(key, record, &self.ops[key].crcs);
                if let RangeContent::Data { buf, .. } = content {
                    bufs.push(buf);
                }
            }
            _ => unreachable!("only an epoch or a range enters so"),
        }
    }

    /// A range of the batch is durable: record `record`, with what it says of its chunk before it.
    pub fn apply_range(&mut self, key: u32, record: usize) {
        let op = &self.ops[key];
        let (component, kind) = (op.component, self.log.batch()[record].kind);
        if !self.members.has(component) {
            if takes_space(kind) {
                self.unplace(key);
            }
            return;
        }
        let (content, head) = (self.log.batch()[record], Range::of(&self.log.batch()[record - 1]));
        let Ok(head) = head else { unreachable!("built as such") };
        if kind == RecordKind::Write {
            self.log.apply_write(record, &op.crcs, content.unchecked);
        }
        for part in chunk_parts(content.block, content.blocks) {
            self.range_takes_effect(component, part, (kind, content.lsn), &head, &content.order);
        }
        if takes_space(kind) {
            self.unplace(key);
        }
        self.members.with_replica(component, |replica| replica.copied(head.range, head.progress));
    }

    /// What a range does to its chunk. The data of a write is in the log already.
    pub fn range_takes_effect(
        &mut self,
        component: ComponentNo,
        part: ChunkPart,
        (kind, lsn): (RecordKind, u64),
        head: &Range,
        order: &Order,
    ) {
        let frees = kind == RecordKind::Trim && !(head.source.is_none() && hooks::seeded(SeededFault::RangeFreesNothing));
        let found = self.space.lookup(component, part.chunk);
        if frees || kind == RecordKind::Uncorrectable {
            self.log.remove_part(component, part);
        }
        let Some(phys) = found else { return };
        if frees {
            self.space.clear_blocks(phys, part, lsn);
        }
        if kind == RecordKind::Uncorrectable {
            self.space.set_uncorrectable(phys, part.mask(), lsn);
        }
        if let Some(source) = head.source {
            self.space.note_range((component, part.chunk), phys, source, order);
        }
        if frees {
            self.free_if_empty(component, part.chunk);
        }
    }

    // ---- notes ------------------------------------------------------------------------------------------------------

    /// The oldest segment that is needed for what copies know.
    pub fn oldest_note(&self) -> u64 {
        self.members.replicas().iter().filter_map(|(_, replica)| replica.oldest_note()).min().unwrap_or(u64::MAX)
    }
    /// Has the next batch note it. What comes back is notified when it is durable, or cannot be; `None`: there is no room for it.
    pub fn want_notes(&mut self, rt: &Rt, before: u64) -> Option<Notify> {
        if !self.copies.out {
            (self.copies.before, self.copies.out) = (before, true);
            self.members.notes_set_out(true);
            let op = Op::notes(rt.now());
            let key = self.ops.add(op);
            self.log.push_first(key);
        }
        self.start_batch(rt);
        self.copies.out.then(|| self.copies.written.clone())
    }
    /// Whether the last notes that were wanted found no room.
    pub fn notes_found_no_room(&self) -> bool {
        self.copies.full
    }
    /// The notes are first in line: they are a batch of their own, and may take a reserve segment, because they are what frees others.
    pub fn enter_notes(&mut self, rt: &Rt) {
        let (key, _) = self.log.pop_waiting().expect("looked at before");
        self.ops.forget(key);
        let mut records = Vec::new();
        let place = (self.shard, self.log.next_lsn());
        for (component, replica) in self.members.replicas() {
            if !replica.notes(component.0, place, self.copies.before, &mut records) {
                break;
            }
        }
        debug_assert!(records.len() <= NOTE_RECORDS_MAX);
        self.copies.full = !records.is_empty() && !self.log.make_room_for_notes(rt, &self.queue, records.len(), &mut self.figures);
        if records.is_empty() || self.copies.full {
            return self.notes_ended(None);
        }
        records.into_iter().for_each(|record| self.log.add_note(record));
    }
    /// The notes of the batch are durable in this segment, or were not written.
    pub fn notes_ended(&mut self, segment: Option<u64>) {
        if let Some(segment) = segment {
            for i in 0..self.log.batch().len() {
                let record = self.log.batch()[i];
                self.members.with_replica(ComponentNo(record.component), |replica| replica.noted(&record, segment));
            }
        }
        if core::mem::take(&mut self.copies.out) {
            self.members.notes_set_out(false);
            self.copies.written.notify_all();
        }
    }

    /// The records of the batch are durable (`logged`), or have failed.
    #[cold]
    #[inline(never)]
    pub fn each_record_ended(&mut self, logged: bool) {
        let segment = logged.then(|| self.log.ring().head());
        for i in 0..self.log.batch().len() {
            let record = self.log.batch()[i];
            if record.kind.is_change() {
                let component = ComponentNo(record.component);
                self.members.ended(component, record.block, &record.order, logged);
                let range = BlockRange { first: record.block, blocks: record.blocks };
                self.members.of_copy_ended(component, &record.order, range, segment);
            }
        }
        if self.log.batch_ops().is_empty() && !self.log.batch().is_empty() {
            self.notes_ended(segment);
        }
    }

    // ---- what it has ------------------------------------------------------------------------------------------------

    /// What the first of these blocks hold, as many of them as are of one kind. Blocks of a chunk that was written only in part are nothing: written
    /// as zeroes elsewhere, they would keep a chunk there that is freed here.
    pub fn source_run(&self, component: ComponentNo, block: BlockNo, blocks: u32) -> SourceRun {
        let table = self.space.table();
        let chunk = table.lookup(component, block.chunk()).filter(|_| self.content(component, block.chunk()) != 0);
        let chunk = chunk.map(|phys| (table.get(phys).epoch, table.get(phys).changed));
        drop(table);
        let (mut run, mut last, mut there) = (SourceRun { content: SourceContent::Nothing, blocks: 0, chunk }, None, false);
        for part in chunk_parts(block, blocks) {
            let has = self.content(component, part.chunk);
            if run.blocks > 0 && (has != 0) != there {
                return run; // what is said of the chunk is true of the first one only
            }
            there = has != 0;
            for at in (part.first..part.first + part.blocks).map(u64::from) {
                let (place, _) = self.locate(component, BlockNo(part.chunk * CHUNK_BLOCKS + at), &mut last);
                let content = match place {
                    Place::Uncorrectable => SourceContent::Uncorrectable,
                    _ if has >> at & 1 == 1 => SourceContent::Data,
                    _ => SourceContent::Nothing,
                };
                if run.blocks > 0 && content != run.content {
                    return run;
                }
                (run.content, run.blocks) = (content, run.blocks + 1);
            }
        }
        run
    }

    /// Chunks of a component from `from` on, at most `most`.
    pub fn list(&self, component: ComponentNo, from: u64, most: usize) -> CopyList {
        let chunks_of_piece = PIECE_BLOCKS / CHUNK_BLOCKS;
        let replica = self.members.replica(component);
        let own = replica.map(|replica| replica.own_doubt_from(from)).unwrap_or_default();
        let table = self.space.table();
        let end = table.pieces_end(component).max(own.last_key_value().map_or(0, |(chunk, _)| chunk / chunks_of_piece + 1));
        let mut chunks = Vec::new();
        let mut piece = from / chunks_of_piece;
        while piece < end {
            let until = (piece + LIST_PIECES).min(end);
            let mut pieces: Vec<u64> = Vec::new();
            table.pieces(component, piece, 1, until, |found| pieces.push(found));
            pieces.extend(own.range(piece * chunks_of_piece..until * chunks_of_piece).map(|(chunk, _)| chunk / chunks_of_piece));
            pieces.sort_unstable();
            pieces.dedup();
            for chunk in pieces.into_iter().flat_map(|piece| piece * chunks_of_piece..(piece + 1) * chunks_of_piece) {
                let held = chunk >= from && self.content(component, chunk) != 0;
                let there = table.lookup(component, chunk).filter(|_| held).map(|phys| (table.get(phys).epoch, table.get(phys).changed));
                let own_doubt = own.get(&chunk).copied().unwrap_or(0);
                if there.is_none() && own_doubt == 0 {
                    continue;
                }
                if chunks.len() == most.min(LIST_CHUNKS_MAX) {
                    return CopyList { chunks, next: Some(chunk) };
                }
                chunks.push(CopyChunk { chunk, there, own_doubt });
            }
            piece = until;
        }
        CopyList { chunks, next: None }
    }
}

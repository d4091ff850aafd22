//! Messages for the copies of a mirror: Change and its Ack, CopyRead and its CopyData, List and its Listed (`docs/replication.md`).
//!
//! Invariant: what parses lies within one piece and within the largest volume, its number is above its mark, and a write brings a whole block
//! with its checksum for each block it says.
//! Never: knows who owns an object, or what a copy has.

use super::error::{PeerError, check, reserved};
use super::forward::RequestId;
use super::header::{DATA_BYTES_MAX, Envelope, HEADER_BYTES, Header, MessageKind};
use super::segment::{SEGMENTS_MAX, Segment, SegmentSums, Sums, put_sums};
use super::sizes::{ACK_BYTES, CHANGE_BYTES, COPY_DATA_BYTES, COPY_READ_BYTES, LIST_BYTES, LISTED_BYTES};
use crate::bytes::*;
use base::unit::{BLOCK_BYTES, CHUNK_BYTES, PIECE_BLOCKS, VOLUME_BYTES_MAX};
use base::{BlockNo, ComponentId, Epoch, Incarnation, Order, Seq, SourceContent, SourceRun};

layout!(change: 128 bytes {
    0: REQUEST[8], 8: COMPONENT[16], 24: EPOCH[4], 28: PERIOD_START[4], 32: TERM[4], 36: MARK_TERM[4], 40: COUNTER[8], 48: MARK_COUNTER[8],
    56: BLOCK[8], 64: BLOCKS[4], 68: SOURCE_EPOCH[4], 72: PROGRESS_BELOW[8], 80: PROGRESS_TO[4], 84: MASK[2], 86: WHAT[1], 87: FLAGS[1],
    88: BITS[1], 89: RESERVED[39],
});
layout!(ack: 48 bytes {
    0: REQUEST[8], 8: INCARNATION[8], 16: COUNTER[8], 24: TERM[4], 28: EPOCH[4], 32: BLOCK[8], 40: OUTCOME[1], 41: RESERVED[7],
});
layout!(read: 48 bytes { 0: REQUEST[8], 8: COMPONENT[16], 24: BLOCK[8], 32: BLOCKS[4], 36: EPOCH[4], 40: PERIOD_START[4], 44: RUN[1], 45: RESERVED[3] });
layout!(data: 32 bytes {
    0: REQUEST[8], 8: BLOCK[8], 16: EPOCH[4], 20: OUTCOME[1], 21: FLAGS[1], 22: CONTENT[1], 23: RESERVED[1], 24: RUN_BLOCKS[2], 26: MASK[2],
    28: CHUNK_EPOCH[4],
});
layout!(list: 48 bytes { 0: REQUEST[8], 8: COMPONENT[16], 24: FROM[8], 32: MOST[4], 36: EPOCH[4], 40: ACCEPTED[4], 44: RESERVED[4] });
layout!(listed: 40 bytes {
    0: REQUEST[8], 8: NEXT[8], 16: CHUNKS[4], 20: EPOCH[4], 24: OUTCOME[1], 25: FLAGS[1], 26: MORE[1], 27: RESERVED[13],
});
layout!(entry: 16 bytes { 0: CHUNK[8], 8: EPOCH[4], 12: MASK[2], 14: OWN_DOUBT[2] });

const _: () = assert!(change::BYTES == CHANGE_BYTES && ack::BYTES == ACK_BYTES);
const _: () = assert!(read::BYTES == COPY_READ_BYTES && data::BYTES == COPY_DATA_BYTES);
const _: () = assert!(list::BYTES == LIST_BYTES && listed::BYTES == LISTED_BYTES);
const _: () = assert!(LIST_ENTRIES_MAX * entry::BYTES <= DATA_BYTES_MAX);
const _: () = assert!(PIECE_BLOCKS as usize * BLOCK_BYTES <= DATA_BYTES_MAX, "what lies in a piece is one message");

/// Links of this version and later ones have these messages.
pub const COPIES_VERSION: u8 = 2;

/// Chunks of one Listed at most.
pub const LIST_ENTRIES_MAX: usize = 1024;
/// Bytes of each of them.
pub const LIST_ENTRY_BYTES: usize = entry::BYTES;
/// Chunks of the largest volume.
const CHUNKS_MAX: u64 = VOLUME_BYTES_MAX / CHUNK_BYTES;

/// Bits of a Change.
const RESYNC: u8 = 1;
const CHECKSUM: u8 = 2;
const OF_SOURCE: u8 = 4;

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ChangeVerb {
    /// New content.
    Write = 1,
    /// The blocks are not needed any more.
    Trim = 2,
    /// The blocks read as zeroes.
    Zero = 3,
    /// Reads of the blocks fail.
    Uncorrectable = 4,
}

impl ChangeVerb {
    /// All of them.
    pub const ALL: [ChangeVerb; 4] = [ChangeVerb::Write, ChangeVerb::Trim, ChangeVerb::Zero, ChangeVerb::Uncorrectable];
}

/// Of a change that copies what another copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeSource {
    /// Epoch of the last change of the chunk at the source.
    pub epoch: Epoch,
    /// Its mask.
    pub mask: u16,
    /// Once it is durable, chunks below this one are complete.
    pub progress_below: u64,
    /// Up to this epoch.
    pub progress_to: Epoch,
}

/// A change for a copy, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// For the answer.
    pub request: RequestId,
    /// The copy.
    pub component: ComponentId,
    /// Epoch, period start, number and mark.
    pub order: Order,
    /// The copy is out of sync.
    pub resync: bool,
    /// Blocks keep a checksum.
    pub checksum: bool,
    /// What to do.
    pub verb: ChangeVerb,
    /// First block, in the object's address space.
    pub block: BlockNo,
    /// How many.
    pub blocks: u32,
    /// It copies what another copy has.
    pub source: Option<ChangeSource>,
}

/// How it went at a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// It is done; a change is durable, or was there already.
    Done,
    /// The copy has accepted this later epoch.
    StaleEpoch(Epoch),
    /// No free chunk.
    NoSpace,
    /// A block cannot be read.
    Media(BlockNo),
    /// A block was declared uncorrectable.
    Uncorrectable(BlockNo),
    /// A device has failed.
    Failed,
    /// There is no such component.
    NoComponent,
    /// Not now: to be sent again.
    Closing,
    /// As far as the copy's node knows, the sender does not own the object, or the copy is not there: to be sent again, if it does and is.
    NotOwner,
    /// A device of the copy makes no progress. What was asked for may still become durable: to be sent again, unless others have it.
    Late,
}

/// The answer to a Change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Which request.
    pub request: RequestId,
    /// Of the owner.
    pub incarnation: Incarnation,
    /// The number of the change.
    pub seq: Seq,
    /// How it went.
    pub outcome: CopyOutcome,
}

/// Blocks of a copy are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRead {
    /// For the answer.
    pub request: RequestId,
    /// The copy.
    pub component: ComponentId,
    /// Of the owner.
    pub epoch: Epoch,
    /// Since when the object is not in sync on all copies.
    pub period_start: Epoch,
    /// First block, in the object's address space.
    pub block: BlockNo,
    /// How many.
    pub blocks: u32,
    /// To copy them: the answer says what the first of them hold, as many as are of one kind, and has those only.
    pub run: bool,
}

/// The answer to a CopyRead, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyData {
    /// Which request.
    pub request: RequestId,
    /// How it went.
    pub outcome: CopyOutcome,
    /// What the first blocks hold, if that was asked for and is done. There is data if they hold any.
    pub run: Option<SourceRun>,
}

/// Chunks of a copy are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// For the answer.
    pub request: RequestId,
    /// The copy.
    pub component: ComponentId,
    /// From which chunk on.
    pub from: u64,
    /// How many at most, up to [`LIST_ENTRIES_MAX`].
    pub most: u32,
    /// Of the owner.
    pub epoch: Epoch,
    /// The copy has to have accepted this one before it looks.
    pub accepted: Epoch,
}

/// The answer to a List, without the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which request.
    pub request: RequestId,
    /// How it went.
    pub outcome: CopyOutcome,
    /// So many chunks follow as data.
    pub chunks: u32,
    /// Where the rest begins; `None`: there is no more.
    pub next: Option<u64>,
}

/// A chunk of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Which, counted in the object's address space.
    pub chunk: u64,
    /// Epoch of the last change, above 0, and mask; `None`: it is not there.
    pub there: Option<(Epoch, u16)>,
    /// Blocks of it that were in doubt when the copy heard that it is out of sync, and were not copied since.
    pub own_doubt: u16,
}

/// Whether blocks lie in one piece of the largest volume.
fn check_blocks(block: BlockNo, blocks: u32) -> Result<(), PeerError> {
    let within = blocks > 0 && block.0 % PIECE_BLOCKS + u64::from(blocks) <= PIECE_BLOCKS;
    check(within && block.0 <= VOLUME_BYTES_MAX / BLOCK_BYTES as u64 - u64::from(blocks), "blocks")
}

/// A body's checksums: of one segment of whole blocks, or none.
fn block_sums<'a>(sums: &'a [u8], flags: u8, data_bytes: [u32; SEGMENTS_MAX], bytes: u32) -> Result<Sums<'a>, PeerError> {
    if data_bytes != [bytes, 0] {
        return Err(PeerError::Length);
    }
    let sums = Sums::parse(sums, flags, data_bytes)?;
    check(bytes == 0 || sums.is_by_block(0), "flags")?;
    Ok(sums)
}

/// The one segment of so many blocks; none for no checksums.
fn segments(crcs: &[u32]) -> Option<Segment<'_>> {
    (!crcs.is_empty()).then(|| Segment { bytes: (crcs.len() * BLOCK_BYTES) as u32, sums: SegmentSums::Blocks(crcs) })
}

impl CopyOutcome {
    /// Its number, and what goes with it: a block, an epoch.
    const fn parts(self) -> (u8, u64, u32) {
        match self {
            CopyOutcome::Done => (0, 0, 0),
            CopyOutcome::StaleEpoch(epoch) => (1, 0, epoch.0),
            CopyOutcome::NoSpace => (2, 0, 0),
            CopyOutcome::Media(block) => (3, block.0, 0),
            CopyOutcome::Uncorrectable(block) => (4, block.0, 0),
            CopyOutcome::Failed => (5, 0, 0),
            CopyOutcome::NoComponent => (6, 0, 0),
            CopyOutcome::Closing => (7, 0, 0),
            CopyOutcome::NotOwner => (8, 0, 0),
            CopyOutcome::Late => (9, 0, 0),
        }
    }
    fn parse(number: u8, block: u64, epoch: u32) -> Result<CopyOutcome, PeerError> {
        let outcome = match number {
            0 => CopyOutcome::Done,
            1 => CopyOutcome::StaleEpoch(Epoch(epoch)),
            2 => CopyOutcome::NoSpace,
            3 => CopyOutcome::Media(BlockNo(block)),
            4 => CopyOutcome::Uncorrectable(BlockNo(block)),
            5 => CopyOutcome::Failed,
            6 => CopyOutcome::NoComponent,
            7 => CopyOutcome::Closing,
            8 => CopyOutcome::NotOwner,
            9 => CopyOutcome::Late,
            _ => return Err(PeerError::Value { field: "outcome" }),
        };
        check(outcome.parts() == (number, block, epoch), "detail")?;
        Ok(outcome)
    }
}

impl Change {
    /// Reads a body that its header has checked, and its checksums. `data_bytes` are those of the header.
    pub fn parse(b: &[u8], data_bytes: [u32; SEGMENTS_MAX]) -> Result<(Change, Sums<'_>), PeerError> {
        use change::*;
        let (b, sums) = b.split_first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let bits = b[BITS];
        check(bits & !(RESYNC | CHECKSUM | OF_SOURCE) == 0, "bits")?;
        if bits & OF_SOURCE == 0 {
            reserved(b, SOURCE_EPOCH, WHAT)?;
        }
        let seq = |term, counter| Seq { term: Epoch(u32_at(b, term)), counter: u64_at(b, counter) };
        let order = Order {
            epoch: Epoch(u32_at(b, EPOCH)),
            period_start: Epoch(u32_at(b, PERIOD_START)),
            seq: seq(TERM, COUNTER),
            mark: seq(MARK_TERM, MARK_COUNTER),
        };
        let source = ChangeSource {
            epoch: Epoch(u32_at(b, SOURCE_EPOCH)),
            mask: u16_at(b, MASK),
            progress_below: u64_at(b, PROGRESS_BELOW),
            progress_to: Epoch(u32_at(b, PROGRESS_TO)),
        };
        let change = Change {
            request: RequestId(u64_at(b, REQUEST)),
            component: ComponentId::from_bytes(array_at(b, COMPONENT)),
            order,
            resync: bits & RESYNC != 0,
            checksum: bits & CHECKSUM != 0,
            verb: ChangeVerb::ALL.into_iter().find(|v| *v as u8 == b[WHAT]).ok_or(PeerError::Value { field: "what" })?,
            block: BlockNo(u64_at(b, BLOCK)),
            blocks: u32_at(b, BLOCKS),
            source: (bits & OF_SOURCE != 0).then_some(source),
        };
        change.check()?;
        Ok((change, block_sums(sums, b[FLAGS], data_bytes, change.data_bytes())?))
    }
    /// Header and body into `out`; their bytes. The data follows. `crcs`: of each block of a write; else none.
    pub fn write(&self, envelope: &Envelope, crcs: &[u32], out: &mut [u8]) -> usize {
        use change::*;
        let (b, sums) = out[HEADER_BYTES..].split_at_mut(BYTES);
        let (flags, data_bytes, sum_bytes) = put_sums(segments(crcs).as_slice(), sums);
        assert!(self.check().is_ok() && data_bytes == [self.data_bytes(), 0], "a change that can be read");
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put(b, COMPONENT, self.component.as_bytes());
        let Order { epoch, period_start, seq, mark } = self.order;
        put_u32(b, EPOCH, epoch.0);
        put_u32(b, PERIOD_START, period_start.0);
        put_u32(b, TERM, seq.term.0);
        put_u64(b, COUNTER, seq.counter);
        put_u32(b, MARK_TERM, mark.term.0);
        put_u64(b, MARK_COUNTER, mark.counter);
        put_u64(b, BLOCK, self.block.0);
        put_u32(b, BLOCKS, self.blocks);
        b[WHAT] = self.verb as u8;
        b[FLAGS] = flags;
        b[BITS] = if self.resync { RESYNC } else { 0 } | if self.checksum { CHECKSUM } else { 0 };
        if let Some(source) = &self.source {
            b[BITS] |= OF_SOURCE;
            put_u32(b, SOURCE_EPOCH, source.epoch.0);
            put_u16(b, MASK, source.mask);
            put_u64(b, PROGRESS_BELOW, source.progress_below);
            put_u32(b, PROGRESS_TO, source.progress_to.0);
        }
        Header::seal(MessageKind::Change, envelope, data_bytes, BYTES + sum_bytes, out)
    }
    /// Bytes of the data that it brings.
    pub const fn data_bytes(&self) -> u32 {
        if matches!(self.verb, ChangeVerb::Write) { self.blocks * BLOCK_BYTES as u32 } else { 0 }
    }
    fn check(&self) -> Result<(), PeerError> {
        check_blocks(self.block, self.blocks)?;
        check(self.request.serial() > 0, "request")?;
        let Order { epoch, period_start, seq, mark } = self.order;
        check(seq.counter > 0 && seq.term > Epoch(0) && seq.term <= epoch && period_start <= epoch, "number")?;
        check(mark < seq, "mark")
    }
}

impl Ack {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<Ack, PeerError> {
        use ack::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        Ok(Ack {
            request: RequestId(u64_at(b, REQUEST)),
            incarnation: Incarnation(u64_at(b, INCARNATION)),
            seq: Seq { term: Epoch(u32_at(b, TERM)), counter: u64_at(b, COUNTER) },
            outcome: CopyOutcome::parse(b[OUTCOME], u64_at(b, BLOCK), u32_at(b, EPOCH))?,
        })
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        use ack::*;
        let b = &mut out[HEADER_BYTES..HEADER_BYTES + BYTES];
        let (outcome, block, epoch) = self.outcome.parts();
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put_u64(b, INCARNATION, self.incarnation.0);
        put_u64(b, COUNTER, self.seq.counter);
        put_u32(b, TERM, self.seq.term.0);
        put_u32(b, EPOCH, epoch);
        put_u64(b, BLOCK, block);
        b[OUTCOME] = outcome;
        Header::seal(MessageKind::Ack, envelope, [0; 2], BYTES, out)
    }
}

impl CopyRead {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<CopyRead, PeerError> {
        use read::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let read = CopyRead {
            request: RequestId(u64_at(b, REQUEST)),
            component: ComponentId::from_bytes(array_at(b, COMPONENT)),
            epoch: Epoch(u32_at(b, EPOCH)),
            period_start: Epoch(u32_at(b, PERIOD_START)),
            block: BlockNo(u64_at(b, BLOCK)),
            blocks: u32_at(b, BLOCKS),
            run: b[RUN] != 0,
        };
        check(b[RUN] <= 1, "run")?;
        read.check()?;
        Ok(read)
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        use read::*;
        assert!(self.check().is_ok(), "a read that can be read");
        let b = &mut out[HEADER_BYTES..HEADER_BYTES + BYTES];
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put(b, COMPONENT, self.component.as_bytes());
        put_u32(b, EPOCH, self.epoch.0);
        put_u32(b, PERIOD_START, self.period_start.0);
        put_u64(b, BLOCK, self.block.0);
        put_u32(b, BLOCKS, self.blocks);
        b[RUN] = self.run.into();
        Header::seal(MessageKind::CopyRead, envelope, [0; 2], BYTES, out)
    }
    /// Bytes of the data of its answer, when it is done.
    pub const fn answer_bytes(&self) -> u32 {
        self.blocks * BLOCK_BYTES as u32
    }
    fn check(&self) -> Result<(), PeerError> {
        check_blocks(self.block, self.blocks)?;
        check(self.request.serial() > 0 && self.period_start <= self.epoch && self.epoch > Epoch(0), "epoch")
    }
}

impl CopyData {
    /// Reads a body that its header has checked, and its checksums. `data_bytes` are those of the header.
    pub fn parse(b: &[u8], data_bytes: [u32; SEGMENTS_MAX]) -> Result<(CopyData, Sums<'_>), PeerError> {
        use data::*;
        let (b, sums) = b.split_first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, RUN_BLOCKS)?;
        let outcome = CopyOutcome::parse(b[OUTCOME], u64_at(b, BLOCK), u32_at(b, EPOCH))?;
        let content = match b[CONTENT] {
            0 => None,
            1 => Some(SourceContent::Data),
            2 => Some(SourceContent::Nothing),
            3 => Some(SourceContent::Uncorrectable),
            _ => return Err(PeerError::Value { field: "content" }),
        };
        let (epoch, mask, blocks) = (Epoch(u32_at(b, CHUNK_EPOCH)), u16_at(b, MASK), u32::from(u16_at(b, RUN_BLOCKS)));
        if content.is_none() {
            reserved(b, RUN_BLOCKS, BYTES)?;
        }
        let run = content.map(|content| SourceRun { content, blocks, chunk: (epoch > Epoch(0)).then_some((epoch, mask)) });
        check(epoch > Epoch(0) || mask == 0, "mask")?;
        let answer = CopyData { request: RequestId(u64_at(b, REQUEST)), outcome, run };
        check(answer.has_data() == (data_bytes[0] > 0), "data")?;
        answer.check(data_bytes[0])?;
        Ok((answer, block_sums(sums, b[FLAGS], data_bytes, data_bytes[0])?))
    }
    /// Header and body into `out`; their bytes. The data follows. `crcs`: of each block of a read that is done; else none.
    pub fn write(&self, envelope: &Envelope, crcs: &[u32], out: &mut [u8]) -> usize {
        use data::*;
        assert!(self.has_data() != crcs.is_empty(), "what is done has data");
        let (b, sums) = out[HEADER_BYTES..].split_at_mut(BYTES);
        let (flags, data_bytes, sum_bytes) = put_sums(segments(crcs).as_slice(), sums);
        assert!(self.check(data_bytes[0]).is_ok(), "an answer that can be read");
        let (outcome, block, epoch) = self.outcome.parts();
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put_u64(b, BLOCK, block);
        put_u32(b, EPOCH, epoch);
        b[OUTCOME] = outcome;
        b[FLAGS] = flags;
        if let Some(SourceRun { content, blocks, chunk }) = self.run {
            b[CONTENT] = match content {
                SourceContent::Data => 1,
                SourceContent::Nothing => 2,
                SourceContent::Uncorrectable => 3,
            };
            put_u16(b, RUN_BLOCKS, blocks as u16);
            let (epoch, mask) = chunk.unwrap_or_default();
            put_u16(b, MASK, mask);
            put_u32(b, CHUNK_EPOCH, epoch.0);
        }
        Header::seal(MessageKind::CopyData, envelope, data_bytes, BYTES + sum_bytes, out)
    }
    /// Whether blocks follow.
    fn has_data(&self) -> bool {
        self.outcome == CopyOutcome::Done && self.run.is_none_or(|run| run.content == SourceContent::Data)
    }
    fn check(&self, bytes: u32) -> Result<(), PeerError> {
        let Some(run) = &self.run else { return Ok(()) };
        let right = bytes == 0 || bytes == run.blocks * BLOCK_BYTES as u32;
        check(self.outcome == CopyOutcome::Done && (1..=PIECE_BLOCKS as u32).contains(&run.blocks) && right, "run")
    }
}

impl List {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<List, PeerError> {
        use list::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let list = List {
            request: RequestId(u64_at(b, REQUEST)),
            component: ComponentId::from_bytes(array_at(b, COMPONENT)),
            from: u64_at(b, FROM),
            most: u32_at(b, MOST),
            epoch: Epoch(u32_at(b, EPOCH)),
            accepted: Epoch(u32_at(b, ACCEPTED)),
        };
        list.check()?;
        Ok(list)
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        use list::*;
        assert!(self.check().is_ok(), "a request that can be read");
        let b = &mut out[HEADER_BYTES..HEADER_BYTES + BYTES];
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put(b, COMPONENT, self.component.as_bytes());
        put_u64(b, FROM, self.from);
        put_u32(b, MOST, self.most);
        put_u32(b, EPOCH, self.epoch.0);
        put_u32(b, ACCEPTED, self.accepted.0);
        Header::seal(MessageKind::List, envelope, [0; 2], BYTES, out)
    }
    fn check(&self) -> Result<(), PeerError> {
        check(self.request.serial() > 0 && self.epoch > Epoch(0) && self.accepted <= self.epoch, "epoch")?;
        check(self.from < CHUNKS_MAX && (1..=LIST_ENTRIES_MAX as u32).contains(&self.most), "chunks")
    }
}

impl Listed {
    /// Reads a body that its header has checked, and the checksum of its chunks. `data_bytes` are those of the header.
    pub fn parse(b: &[u8], data_bytes: [u32; SEGMENTS_MAX]) -> Result<(Listed, Sums<'_>), PeerError> {
        use listed::*;
        let (b, sums) = b.split_first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        check(b[MORE] <= 1 && (b[MORE] == 1 || u64_at(b, NEXT) == 0), "next")?;
        let listed = Listed {
            request: RequestId(u64_at(b, REQUEST)),
            outcome: CopyOutcome::parse(b[OUTCOME], 0, u32_at(b, EPOCH))?,
            chunks: u32_at(b, CHUNKS),
            next: (b[MORE] == 1).then_some(u64_at(b, NEXT)),
        };
        listed.check()?;
        if data_bytes != [listed.chunks * LIST_ENTRY_BYTES as u32, 0] {
            return Err(PeerError::Length);
        }
        check(b[FLAGS] == 0, "flags")?;
        Ok((listed, Sums::parse(sums, 0, data_bytes)?))
    }
    /// Header and body into `out`; their bytes. The chunks follow ([`ListEntry::put`]). `crc`: their CRC-32C.
    pub fn write(&self, envelope: &Envelope, crc: u32, out: &mut [u8]) -> usize {
        use listed::*;
        assert!(self.check().is_ok(), "a list that can be read");
        let (b, sums) = out[HEADER_BYTES..].split_at_mut(BYTES);
        let bytes = self.chunks * LIST_ENTRY_BYTES as u32;
        let segment = (bytes > 0).then_some(Segment { bytes, sums: SegmentSums::Whole(crc) });
        let (_, data_bytes, sum_bytes) = put_sums(segment.as_slice(), sums);
        let (outcome, _, epoch) = self.outcome.parts();
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put_u64(b, NEXT, self.next.unwrap_or(0));
        put_u32(b, CHUNKS, self.chunks);
        put_u32(b, EPOCH, epoch);
        b[OUTCOME] = outcome;
        b[MORE] = self.next.is_some().into();
        Header::seal(MessageKind::Listed, envelope, data_bytes, BYTES + sum_bytes, out)
    }
    fn check(&self) -> Result<(), PeerError> {
        let nothing = self.chunks == 0 && self.next.is_none();
        check(self.chunks as usize <= LIST_ENTRIES_MAX && (self.outcome == CopyOutcome::Done || nothing), "chunks")
    }
}

impl ListEntry {
    /// Into the next [`LIST_ENTRY_BYTES`] of `out`.
    ///
    /// # Panics
    /// When there is no room.
    pub fn put(&self, out: &mut [u8]) {
        use entry::*;
        let (epoch, mask) = self.there.unwrap_or_default();
        put_u64(out, CHUNK, self.chunk);
        put_u32(out, EPOCH, epoch.0);
        put_u16(out, MASK, mask);
        put_u16(out, OWN_DOUBT, self.own_doubt);
    }
    /// Those of a Listed: in order, from `from` on and below where the rest begins.
    ///
    /// # Errors
    /// They are not that, or are not of a volume.
    pub fn parse_all(data: &[u8], from: u64, next: Option<u64>) -> Result<Vec<ListEntry>, PeerError> {
        use entry::*;
        let end = next.unwrap_or(CHUNKS_MAX);
        check(end <= CHUNKS_MAX && end > from && data.len().is_multiple_of(BYTES), "next")?;
        let (mut at, mut entries) = (from, Vec::with_capacity(data.len() / BYTES));
        for b in data.chunks_exact(BYTES) {
            let (chunk, epoch, mask) = (u64_at(b, CHUNK), Epoch(u32_at(b, EPOCH)), u16_at(b, MASK));
            check((at..end).contains(&chunk) && (epoch > Epoch(0) || mask == 0), "chunk")?;
            at = chunk + 1;
            entries.push(ListEntry { chunk, there: (epoch > Epoch(0)).then_some((epoch, mask)), own_doubt: u16_at(b, OWN_DOUBT) });
        }
        Ok(entries)
    }
}

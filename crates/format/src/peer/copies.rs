//! Messages for the copies of a mirror: Change and its Ack, CopyRead and its CopyData (`docs/replication.md`).
//!
//! Invariant: what parses lies within one piece and within the largest volume, its number is above its mark, and a write brings a whole block
//! with its checksum for each block it says.
//! Never: knows who owns an object, or what a copy has.

use super::error::{PeerError, check, reserved};
use super::forward::RequestId;
use super::header::{DATA_BYTES_MAX, Envelope, HEADER_BYTES, Header, MessageKind};
use super::segment::{SEGMENTS_MAX, Segment, SegmentSums, Sums, put_sums};
use super::sizes::{ACK_BYTES, CHANGE_BYTES, COPY_DATA_BYTES, COPY_READ_BYTES};
use crate::bytes::*;
use base::unit::{BLOCK_BYTES, PIECE_BLOCKS, VOLUME_BYTES_MAX};
use base::{BlockNo, ComponentId, Epoch, Incarnation, Order, Seq};

layout!(change: 128 bytes {
    0: REQUEST[8], 8: COMPONENT[16], 24: EPOCH[4], 28: PERIOD_START[4], 32: TERM[4], 36: MARK_TERM[4], 40: COUNTER[8], 48: MARK_COUNTER[8],
    56: BLOCK[8], 64: BLOCKS[4], 68: SOURCE_EPOCH[4], 72: PROGRESS_BELOW[8], 80: PROGRESS_TO[4], 84: MASK[2], 86: WHAT[1], 87: FLAGS[1],
    88: BITS[1], 89: RESERVED[39],
});
layout!(ack: 48 bytes {
    0: REQUEST[8], 8: INCARNATION[8], 16: COUNTER[8], 24: TERM[4], 28: EPOCH[4], 32: BLOCK[8], 40: OUTCOME[1], 41: RESERVED[7],
});
layout!(read: 48 bytes { 0: REQUEST[8], 8: COMPONENT[16], 24: BLOCK[8], 32: BLOCKS[4], 36: EPOCH[4], 40: PERIOD_START[4], 44: RESERVED[4] });
layout!(data: 32 bytes { 0: REQUEST[8], 8: BLOCK[8], 16: EPOCH[4], 20: OUTCOME[1], 21: FLAGS[1], 22: RESERVED[10] });

const _: () = assert!(change::BYTES == CHANGE_BYTES && ack::BYTES == ACK_BYTES);
const _: () = assert!(read::BYTES == COPY_READ_BYTES && data::BYTES == COPY_DATA_BYTES);
const _: () = assert!(PIECE_BLOCKS as usize * BLOCK_BYTES <= DATA_BYTES_MAX, "what lies in a piece is one message");

/// Links of this version and later ones have these messages.
pub const COPIES_VERSION: u8 = 2;

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
    /// As far as the copy's node knows, the sender does not own the object: to be sent again, if it does.
    NotOwner,
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
}

/// The answer to a CopyRead, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyData {
    /// Which request.
    pub request: RequestId,
    /// How it went.
    pub outcome: CopyOutcome,
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
        };
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
        reserved(b, RESERVED, BYTES)?;
        let outcome = CopyOutcome::parse(b[OUTCOME], u64_at(b, BLOCK), u32_at(b, EPOCH))?;
        check((outcome == CopyOutcome::Done) == (data_bytes[0] > 0), "data")?;
        Ok((CopyData { request: RequestId(u64_at(b, REQUEST)), outcome }, block_sums(sums, b[FLAGS], data_bytes, data_bytes[0])?))
    }
    /// Header and body into `out`; their bytes. The data follows. `crcs`: of each block of a read that is done; else none.
    pub fn write(&self, envelope: &Envelope, crcs: &[u32], out: &mut [u8]) -> usize {
        use data::*;
        assert!((self.outcome == CopyOutcome::Done) != crcs.is_empty(), "what is done has data");
        let (b, sums) = out[HEADER_BYTES..].split_at_mut(BYTES);
        let (flags, data_bytes, sum_bytes) = put_sums(segments(crcs).as_slice(), sums);
        let (outcome, block, epoch) = self.outcome.parts();
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put_u64(b, BLOCK, block);
        put_u32(b, EPOCH, epoch);
        b[OUTCOME] = outcome;
        b[FLAGS] = flags;
        Header::seal(MessageKind::CopyData, envelope, data_bytes, BYTES + sum_bytes, out)
    }
}

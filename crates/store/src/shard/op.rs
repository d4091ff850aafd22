//! What a shard is asked and what it answers, and the stages of an operation in between.
//!
//! Owns: the types. Invariant: a request is consumed by its completion; its buffer comes back with it.
//! Never: does anything.
//!
//! ```text
//!            ┌─ Write, Trim, Zero, Flush ─► Waiting ──turn──► Logging ──durable──► done
//!   submit ──┤   (Uncorrectable too)           (parts of a Split end in their parent)
//!            └─ Read ─────────────────────► Reading ──verified──► done
//!                                              └─ moved or failed: once more
//! ```

use crate::ComponentNo;
use crate::capacity::Phys;
use crate::index::LogPos;
use base::{BlockNo, Epoch, Instant, Order, OwnerId, ResyncProgress};
use format::disk::copies::Accept;
pub use format::disk::copies::CopySync;
use format::disk::log::RecordKind;
use rt::Buf;
use smallvec::SmallVec;

/// One CRC-32C a block, in order.
pub type Crcs = SmallVec<[u32; 2]>;

/// An operation on blocks of one component. It lies within one piece (1 MiB) of the object's address space.
#[derive(Debug)]
pub struct ShardOp {
    /// Comes back in [`ShardDone`].
    pub cookie: u64,
    /// The component.
    pub component: ComponentNo,
    /// First block, in the object's address space.
    pub block: BlockNo,
    /// How many blocks, 1..=256.
    pub blocks: u32,
    /// Of a change: what the owner of the object says with it. The changes of a component and lane come in the order of their numbers.
    pub order: Order,
    /// What to do.
    pub kind: OpKind,
}

/// What to do with the blocks.
#[derive(Debug)]
pub enum OpKind {
    /// Fill `buf` (of `blocks` blocks) with their content.
    Read {
        /// Comes back filled.
        buf: Buf,
    },
    /// New content, durable when done.
    Write {
        /// The content; comes back as it was.
        buf: Buf,
        /// CRC-32C of each block; when empty, the store computes them.
        crcs: Crcs,
        /// Verify these checksums when the blocks are read.
        checksum: bool,
    },
    /// The blocks are not needed any more: they read as zeroes and their space is freed.
    Trim,
    /// The blocks read as zeroes.
    Zero,
    /// Reads of the blocks fail with [`StoreError::Uncorrectable`], until they are written, zeroed or trimmed. Takes space like a write.
    Uncorrectable,
    /// Done when all that came before is durable.
    Flush,
    /// The component is one copy of several, and accepts the epoch of `order` (with its period start): done when that is durable in this shard,
    /// with Restamp. Has no blocks. Whether it may be accepted yet is the caller's question; that the component is a copy, the group's
    /// ([`crate::Group::make_copy`]).
    Accept {
        /// Whose epoch it is.
        by: OwnerId,
        /// What it says of the copy: [`CopySync::Keep`], [`CopySync::InSync`] or [`CopySync::Join`].
        sync: CopySync,
    },
    /// Content of another copy, within one chunk: a change of this copy only.
    Range(Box<RangeOp>),
}

/// Content of another copy.
#[derive(Debug)]
pub struct RangeOp {
    /// Epoch and mask of the chunk there. `None`: it has no such chunk, and `content` is [`RangeContent::Nothing`], of the whole chunk.
    pub source: Option<(Epoch, u16)>,
    /// What holds once it is durable.
    pub progress: ResyncProgress,
    /// What the blocks hold there.
    pub content: RangeContent,
}

/// What blocks of another copy hold.
#[derive(Debug)]
pub enum RangeContent {
    /// Data.
    Data {
        /// The content.
        buf: Buf,
        /// CRC-32C of each block; when empty, the store computes them.
        crcs: Crcs,
        /// Verify these checksums when the blocks are read.
        checksum: bool,
    },
    /// Nothing: zeroes.
    Nothing,
    /// Nothing that may be read.
    Uncorrectable,
}

/// An operation has ended.
#[derive(Debug)]
pub struct ShardDone {
    /// As submitted.
    pub cookie: u64,
    /// How.
    pub result: Result<(), StoreError>,
    /// The buffer of a read or write.
    pub buf: Option<Buf>,
    /// Of a read: the checksum of each block returned. Of a write: those it came with.
    pub crcs: Crcs,
}

/// Why an operation failed, and so what the caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No chunk is free for it. Fail the request; trims free space.
    #[error("no space is left in the disk group")]
    NoSpace,
    /// A block cannot be read, or its checksum is wrong, after a retry. Read it from another copy and write it again.
    #[error("block {block} cannot be read from its device")]
    Media {
        /// The first such block.
        block: BlockNo,
    },
    /// A block was declared uncorrectable. Fail the request; no copy has anything better.
    #[error("block {block} was declared uncorrectable")]
    Uncorrectable {
        /// The first such block.
        block: BlockNo,
    },
    /// The device does not take writes any more. Fail the copy.
    #[error("a device of the disk group has failed")]
    DeviceFailed,
    /// There is no such component here. A bug of the caller, or it was just deleted.
    #[error("no such component")]
    NoComponent,
    /// The change was made in an epoch before one that the component has accepted: somebody else owns the object. Nothing was changed.
    #[error("a later epoch was accepted")]
    StaleEpoch,
    /// Of a copy: the epoch of the change was not accepted. Accept it first ([`OpKind::Accept`]).
    #[error("the epoch was not accepted")]
    EpochNotAccepted,
    /// Of a copy: more would be in doubt than a lane or the shard may have. No owner begins so much.
    #[error("too much is in doubt")]
    TooManyInDoubt,
    /// Of a copy: no owner sends such a change.
    #[error("a change that cannot be")]
    BadChange,
    /// The shard is shutting down. Retry elsewhere or later.
    #[error("the disk group is being closed")]
    Closing,
}

/// `Op::parent` of an operation that is not a part.
pub(crate) const NO_PARENT: u32 = u32::MAX;

/// An operation within the shard.
#[derive(Debug)]
pub(crate) struct Op {
    pub cookie: u64,
    pub component: ComponentNo,
    pub block: BlockNo,
    pub blocks: u32,
    /// The key in the slab of the operation that this is a part of.
    pub parent: u32,
    pub crcs: Crcs,
    /// Where the chunk of a write lies, when all its blocks are in one.
    pub place: Option<Phys>,
    pub entered: Instant,
    pub stage: Stage,
}

impl Op {
    /// What copies know is to be noted: nobody's operation.
    pub fn notes(now: Instant) -> Op {
        let (component, block) = (ComponentNo(0), BlockNo(0));
        let stage = Stage::Waiting(Change::Notes);
        Op { cookie: 0, component, block, blocks: 0, parent: NO_PARENT, crcs: Crcs::new(), place: None, entered: now, stage }
    }
}

/// Where an operation is. See the module.
#[derive(Debug)]
pub(crate) enum Stage {
    /// In line for the log.
    Waiting(Change),
    /// In the batch in flight. The buffer of a write is with the device.
    Logging(Logged),
    /// Device reads are in flight.
    Reading(Reading),
    /// Cut into parts (only where a segment is smaller than two pieces).
    Split { buf: Buf, left: u32, result: Result<(), StoreError> },
}

/// What waits to enter the log.
#[derive(Debug)]
pub(crate) enum Change {
    Write {
        buf: Buf,
        unchecked: bool,
    },
    Trim,
    Zero,
    Uncorrectable,
    Flush,
    Accept(Box<Accept>),
    Range(Box<RangeOp>),
    /// What copies know is to be noted. It has no answer.
    Notes,
}

/// What is in the batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logged {
    Write {
        unchecked: bool,
    },
    Trim,
    Uncorrectable,
    Flush,
    Accept,
    /// Of content that is in the log as this.
    Range(RecordKind),
}

/// A read under way.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The caller's buffer, unless it is with the device.
    pub buf: Option<Buf>,
    /// Its parts that are not with a device, by their runs, while it is cut.
    pub parts: SmallVec<[Option<Buf>; 2]>,
    pub runs: Runs,
    /// Runs that have not come back.
    pub left: u32,
    /// Changes of the chunk table when the attempt began.
    pub began: u64,
    /// Set when something was not as it should be.
    pub attempts: Option<Box<Attempts>>,
}

/// What a read has met that was not as it should be.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// In this attempt: blocks (offsets within the operation) of runs that the device could not read, and those with a wrong checksum.
    pub bad: Vec<u16>,
    /// Attempts before it that failed, one after the other, at places that had not changed.
    pub tries: u8,
    /// Attempts before it that ended after a place they read had changed.
    pub moves: u16,
}

/// Blocks of a read that lie side by side on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First block, from the start of the operation.
    pub first: u16,
    pub blocks: u16,
    pub place: Place,
}

pub(crate) type Runs = SmallVec<[Run; 2]>;

/// Where content lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: zeroes.
    Zeroes,
    /// Nowhere, and may not be read.
    Uncorrectable,
    /// At this block of the slice.
    Log(LogPos),
    /// On that capacity device, at this byte.
    Capacity { device: u8, offset: u64, unchecked: bool },
}

//! The write buffer of a shard: group commit into a ring of segments.
//!
//! Owns: `log`, all of it as one part of a shard; within it `ring` (the segments) and `write` (the batch being written, the open segment and
//! its summary).
//! Invariants: at most one batch is in flight, so the batches that are durable are always a prefix of those written; a batch lies
//! within one segment; there is always room left for the summary of what the open segment holds; a batch names the oldest segment
//! still needed, and a segment is reused only after a batch that no longer needs it is durable.
//! Never: takes effect before the batch is durable (I3).

pub(crate) mod log;
pub(crate) mod ring;
mod write;

use base::Duration;
use base::hooks::{self, SeededFault};
use format::disk::log as disk;
use format::disk::log::Record;
use rt::TimerId;

/// The most blocks of data in a batch (a single operation may be as large).
const BATCH_BLOCKS_MAX: u32 = 256;
/// The most operations in a batch.
pub(crate) const BATCH_OPS_MAX: usize = 256;
/// Where limits are small, a segment with so many blocks takes no more: many segments come of few writes.
const FULL_SMALL: u32 = 24;
const _: () = assert!(disk::batch_header_blocks(BATCH_OPS_MAX, BATCH_BLOCKS_MAX as usize) <= disk::BATCH_HEADER_BLOCKS_MAX as usize);

/// The writing end of the log.
#[derive(Debug)]
struct LogWriter {
    /// Number of the next batch.
    next_lsn: u64,
    /// Header checksum of the last durable batch.
    last_crc: u32,
    /// The open segment, if any.
    open: Option<OpenSegment>,
    /// The oldest segment that the next batch says is needed.
    tail_next: u64,
    /// The oldest segment that a durable batch says is needed.
    tail_durable: u64,
    /// The batch being written.
    batch: Batch,
    /// Segments whose summary is being written, by their first block.
    summaries: Vec<u32>,
    /// Set while the device takes no batch.
    stopped: Option<Stopped>,
}

/// The device took a batch nowhere, not even in a fresh segment: nothing enters the log until a probe, an empty batch, is durable.
#[derive(Debug)]
struct Stopped {
    /// Failed attempts in a row.
    failures: u32,
    /// When the next probe is due; none while one is under way.
    timer: Option<TimerId>,
}

/// Pauses before the first probe of a log that stopped, and the longest one.
pub(crate) const PROBE_PAUSE_MIN: Duration = Duration::from_millis(50);
pub(crate) const PROBE_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The segment that batches go to.
#[derive(Debug, Default)]
pub(crate) struct OpenSegment {
    pub seq: u64,
    /// First batch that may be in it.
    pub first_lsn: u64,
    /// Header checksum of the last batch before it.
    pub previous_crc: u32,
    /// Where the next batch goes, in blocks from its start; 0 while its own header is not durable.
    pub at: u32,
    /// For the summary.
    pub records: Vec<Record>,
    pub crcs: Vec<u32>,
}

/// The batch in flight. Its lists are reused from batch to batch.
#[derive(Debug, Default)]
struct Batch {
    in_flight: bool,
    /// A first attempt failed; this is the one in a fresh segment.
    retried: bool,
    /// Keys of its operations, in order.
    ops: Vec<u32>,
    records: Vec<Record>,
    crcs: Vec<u32>,
    /// Data blocks.
    blocks: u32,
    /// Where its header lies in the segment.
    position: u32,
    header_blocks: u32,
    /// Its header checksum.
    crc: u32,
    /// The oldest segment that it says is needed.
    tail: u64,
}

impl LogWriter {
    fn new(next_lsn: u64, last_crc: u32, tail: u64) -> Self {
        Self {
            next_lsn,
            last_crc,
            open: None,
            tail_next: tail,
            tail_durable: tail,
            batch: Batch::default(),
            summaries: Vec::new(),
            stopped: None,
        }
    }

    /// Whether a batch of `records` and `blocks` more fits into the open segment, with its summary, of `segment_blocks`.
    fn fits(&self, records: usize, blocks: u32, segment_blocks: u32) -> bool {
        let Some(open) = &self.open else { return false };
        if open.at >= hooks::tiny(u32::MAX, FULL_SMALL) {
            return false;
        }
        let header = disk::batch_header_blocks(records, blocks as usize) as u32;
        let summary = disk::summary_blocks(open.records.len() + records, open.crcs.len() + blocks as usize) as u32;
        let summary = if hooks::seeded(SeededFault::SummaryRoomForgotten) { 0 } else { summary };
        summary <= disk::SUMMARY_BLOCKS_MAX && open.at.max(disk::SEGMENT_HEADER_BLOCKS) + header + blocks + summary <= segment_blocks
    }
}

/// A write of at most so many blocks is whole or absent after a loss of power, however small the segments are: it is in one batch.
pub const ATOMIC_BLOCKS: u32 = write_blocks_max(disk::SEGMENT_BLOCKS_MIN);

/// The largest write that fits into an empty segment of `segment_blocks`, in blocks; larger ones are cut.
pub(crate) const fn write_blocks_max(segment_blocks: u32) -> u32 {
    if segment_blocks >= 2 * BATCH_BLOCKS_MAX { BATCH_BLOCKS_MAX } else { segment_blocks / 2 }
}

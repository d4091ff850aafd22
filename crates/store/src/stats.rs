//! What a shard tells about itself.
//!
//! Owns: the types, and what the counters are called where they are published (`base::counters`). Never: computes anything that costs more than reading it.

use crate::{ComponentNo, capacity::DeviceSpace};
use base::{BlockNo, Duration};

/// Bad blocks that are listed; more are only counted.
pub const BAD_BLOCKS_LISTED_MAX: usize = 64;
/// Classes of [`ShardStats::batch_blocks`]: class i counts batches of 2^(i-1)+1 ..= 2^i data blocks; the first has 0 and 1.
pub const BATCH_CLASSES: usize = 10;

/// A block whose content is lost on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadBlock {
    /// The component.
    pub component: ComponentNo,
    /// The block, in the object's address space.
    pub block: BlockNo,
}

base::counters! {
    /// What a shard is doing and did. Counters start at its opening. What is published has its name behind it; there, the log is the write buffer.
    #[derive(Clone, Debug, Default)]
    pub struct ShardStats {
        /// Size of the shard's slice of the log, in bytes.
        pub log_bytes: u64,
        /// Bytes of segments in use.
        pub log_used_bytes: u64,
        /// Bytes of blocks whose newest version is only in the log.
        pub log_live_bytes: u64 = gauge("buffer_live_bytes"),
        /// Share of the log that is not yet on capacity, 0..=1: what the pace goes by.
        pub fill: f64,
        /// Operations that wait for their turn to enter the log.
        pub waiting: u32 = gauge("waiting_operations"),
        /// Operations in flight, those that wait included.
        pub in_flight: u32 = gauge("operations_in_flight"),
        /// Reads done.
        pub reads: u64 = counter("reads"),
        /// Blocks read.
        pub read_blocks: u64 = counter("read_blocks"),
        /// Blocks that were read from the log (of the others some lie on capacity, some nowhere).
        pub read_log_blocks: u64 = counter("read_buffer_blocks"),
        /// Writes done.
        pub writes: u64 = counter("writes"),
        /// Blocks written.
        pub written_blocks: u64 = counter("written_blocks"),
        /// Trims and zeroes done.
        pub trims: u64 = counter("trims"),
        /// Trims and zeroes answered without a record in the log: there was nothing.
        pub empty_trims: u64 = counter("empty_trims"),
        /// Batches written to the log.
        pub batches: u64 = counter("batches"),
        /// How large the batches were; see [`BATCH_CLASSES`].
        pub batch_blocks: [u64; BATCH_CLASSES],
        /// Bytes of headers and summaries written to the log.
        pub log_overhead_bytes: u64 = counter("buffer_overhead_bytes"),
        /// Bytes moved to capacity.
        pub destaged_bytes: u64 = counter("destaged_bytes"),
        /// Measured speed at which destaging could retire the log, in bytes/s.
        pub drain_bytes_per_s: u64 = gauge("drain_bytes_per_second"),
        /// Rate at which writes are let in now, in bytes/s; `None`: as they come.
        pub admission_bytes_per_s: Option<u64>,
        /// Writes that had to wait for admission.
        pub delayed_writes: u64 = counter("delayed_writes"),
        /// The longest time a write has waited to enter the log, ever.
        pub admission_wait_max: Duration,
        /// Checkpoints done.
        pub checkpoints: u64 = counter("checkpoints"),
        /// Segments released.
        pub segments_released: u64 = counter("segments_released"),
        /// Physical chunks of the shard, over its capacity devices.
        pub chunks_total: u64,
        /// Of those, in use.
        pub chunks_allocated: u64,
        /// The shard's chunks on each capacity device, in order.
        pub space: Vec<DeviceSpace>,
        /// Chunks that each component has allocated, by number.
        pub component_chunks: Vec<(ComponentNo, u64)>,
        /// Writes refused with [`crate::StoreError::NoSpace`].
        pub no_space: u64 = counter("no_space_errors", "Operations refused because no space is left."),
        /// Blocks whose checksum was wrong, wherever that was found, after a retry.
        pub checksum_errors: u64 = counter("checksum_errors"),
        /// Reads that a device failed.
        pub read_errors: u64 = counter("read_errors"),
        /// Writes to the log that a device failed.
        pub log_write_errors: u64 = counter("buffer_write_errors"),
        /// Writes to capacity that a device failed (they are tried again; the data stays in the log).
        pub capacity_write_errors: u64 = counter("capacity_write_errors"),
        /// Rounds of destaging or checkpoints that failed one after the other, now; above 0 a capacity device needs attention.
        pub capacity_failing: u32,
        /// The log cannot be written; every write fails with `DeviceFailed` until it can.
        pub failed: bool,
        /// Chunk-table pages of which no copy was readable at opening.
        pub damaged_pages: u64,
        /// How long the opening took.
        pub recovery_time: Duration = gauge_max("recovery_milliseconds", "How long the opening of the slowest shard took."),
        /// Batches and segments that recovery replayed.
        pub recovered_segments: u64,
        /// Blocks whose newest version it found in the log.
        pub recovered_blocks: u64,
        /// Scrub passes completed.
        pub scrub_passes: u64 = counter("scrub_passes"),
        /// Whether a scrub runs.
        pub scrubbing: bool = gauge("scrubbing_shards", "Shards that are being scrubbed."),
        /// Share of the scrub pass that is done, 0..=1.
        pub scrub_progress: f64,
        /// Blocks that a scrub has verified.
        pub scrubbed_blocks: u64 = counter("scrubbed_blocks"),
        /// Blocks found bad (by reads, destage or scrub), the first ones.
        pub bad_blocks: Vec<BadBlock>,
        /// Memory of the index and the segment records, in bytes.
        pub index_memory_bytes: u64 = gauge("index_memory_bytes"),
    }
}

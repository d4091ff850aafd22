//! What a load is: streams of operations on disks, and how fast they come.
//!
//! Owns: the model that every engine understands, its TOML form and its checks.
//! Invariants: what passes [`Workload::check`] can be generated without end and never leaves the working set.
//! Never: I/O; knows which engine runs it.

pub mod data;
pub mod generate;
pub mod profiles;

use crate::error::LabError;
use serde::{Deserialize, Serialize};

/// Streams of one workload; beyond that nobody can read a report.
pub const STREAMS_MAX: usize = 64;
/// Threads or outstanding operations on one disk.
pub const DEPTH_MAX: u32 = 1024;
/// The working set and every area begin and end at multiples of so many bytes.
pub const GRAIN_BYTES: u64 = 4096;
/// Bytes of one operation.
pub const TRANSFER_BYTES_MAX: u32 = 16 << 20;

/// A load. In TOML each field has the name that it has here; `docs/lab.md` lists them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name, as in tables.
    pub name: String,
    /// What it is, in a sentence.
    #[serde(default)]
    pub description: String,
    /// What is done: each operation belongs to a stream, drawn by [`Stream::share`].
    pub streams: Vec<Stream>,
    /// How fast operations come.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Threads a disk: closed loop, how many are outstanding; open loop, how many may be (what comes beyond waits, and its waiting counts).
    #[serde(default = "one")]
    pub depth: u32,
    /// The part of each disk that is used, from its start, 0 to 1.
    #[serde(default = "whole")]
    pub working_set: f64,
    /// Bytes of each disk that are used, from its start, instead of a part: a multiple of [`GRAIN_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// What is written.
    #[serde(default)]
    pub data: Data,
    /// Every block of 4 KiB that is read is checked against what this run wrote there.
    #[serde(default)]
    pub verify: bool,
}

/// Operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Name, for figures of its own.
    #[serde(default)]
    pub name: String,
    /// Weight among the streams; any scale.
    #[serde(default = "whole")]
    pub share: f64,
    /// Bytes of an operation: (bytes, weight).
    pub sizes: Vec<Size>,
    /// Share of reads, 0 to 1; the rest are writes, but for [`Stream::trims`].
    pub reads: f64,
    /// Share of trims, 0 to 1, of all operations of the stream.
    #[serde(default)]
    pub trims: f64,
    /// A thread flushes after so many of its writes, before its next operation (fio's fsync); 0: never. A flush counts by itself.
    #[serde(default, skip_serializing_if = "never")]
    pub flush_every: u32,
    /// Where operations go.
    pub access: Access,
    /// Offsets are multiples of so many bytes; 0: of the operation's own size.
    #[serde(default)]
    pub align_bytes: u32,
    /// The part of the working set it stays in: (from, to), each 0 to 1.
    #[serde(default = "all")]
    pub area: (f64, f64),
}

/// A transfer size and how often it comes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Bytes, a multiple of 512.
    pub bytes: u32,
    /// Weight among the sizes.
    #[serde(default = "whole")]
    pub weight: f64,
}

/// Where operations go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "pattern", deny_unknown_fields)]
pub enum Access {
    /// One after the other; every thread has a run of its own unless `shared`.
    Sequential {
        /// All threads of a disk share one run.
        #[serde(default)]
        shared: bool,
    },
    /// Anywhere.
    Random {
        /// Which places are liked better.
        #[serde(default)]
        skew: Skew,
    },
    /// Sequential, but with this share of operations going somewhere else, where the run goes on (vdbench's seekpct).
    Seek {
        /// 0 (sequential) to 1 (random).
        seeks: f64,
    },
    /// Each operation near the one before: up and down by at most so many operations' lengths, with a share that goes to a hot range (SPC-1-like).
    Walk {
        /// Largest step, in operations.
        steps: u32,
        /// Hot range of the area.
        #[serde(default)]
        hot: Option<Hot>,
    },
}

/// Which places are liked better.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Skew {
    /// None.
    #[default]
    Uniform,
    /// Zipf's law over scattered blocks.
    Zipf {
        /// Exponent, above 0 and below 1 (0.99: YCSB) or above 1.
        theta: f64,
    },
    /// Hot ranges; the rest of the operations go anywhere else.
    Hot {
        /// Which.
        ranges: Vec<Hot>,
    },
}

/// A range that takes more than its part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hot {
    /// Its part of the space, 0 to 1.
    pub space: f64,
    /// The share of operations that go there, 0 to 1.
    pub operations: f64,
}

/// How fast operations come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "loop", deny_unknown_fields)]
pub enum Arrivals {
    /// Closed loop: the next operation of a thread comes when its last one has ended.
    #[default]
    Closed,
    /// Closed loop, but never faster than this.
    Limited {
        /// Operations a second, over all disks.
        iops: f64,
    },
    /// Open loop: operations come at their times whatever the storage does; latency counts from then.
    Open {
        /// Operations a second, over all disks.
        iops: f64,
        /// How they come.
        #[serde(default)]
        spacing: Spacing,
    },
}

/// How operations of an open loop come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// With exponential gaps.
    #[default]
    Poisson,
    /// At equal distances.
    Fixed,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Share of each block that a compressor would take away, 0 to 1.
    #[serde(default)]
    pub compressible: f64,
    /// Share of blocks that are equal to another, 0 to 1.
    #[serde(default)]
    pub duplicates: f64,
}

impl Default for Data {
    fn default() -> Self {
        Data { compressible: 0.0, duplicates: 0.0 }
    }
}

fn one() -> u32 {
    1
}
fn never(every: &u32) -> bool {
    *every == 0
}
fn whole() -> f64 {
    1.0
}
fn all() -> (f64, f64) {
    (0.0, 1.0)
}

impl Workload {
    /// One stream of one size.
    pub fn simple(name: &str, bytes: u32, reads: f64, access: Access, depth: u32) -> Workload {
        let sizes = vec![Size { bytes, weight: 1.0 }];
        let stream =
            Stream { name: String::new(), share: 1.0, sizes, reads, trims: 0.0, flush_every: 0, access, align_bytes: 0, area: all() };
        Workload {
            name: name.into(),
            description: String::new(),
            streams: vec![stream],
            arrivals: Arrivals::Closed,
            depth,
            working_set: 1.0,
            working_set_bytes: None,
            data: Data::default(),
            verify: false,
        }
    }

    /// Whether anything is ever written or trimmed.
    pub fn changes_data(&self) -> bool {
        self.streams.iter().any(|s| s.reads < 1.0 || s.trims > 0.0)
    }

    /// Whether anything is flushed.
    pub fn flushes(&self) -> bool {
        self.streams.iter().any(|s| s.flush_every > 0)
    }

    /// Whether it makes sense; `place` names where it comes from.
    pub fn check(&self, place: &str) -> Result<(), LabError> {
        let wrong = |key: String, problem: &str| Err(LabError::Workload { place: format!("{place}: {key}"), problem: problem.into() });
        let share = |x: f64| (0.0..=1.0).contains(&x);
        if self.streams.is_empty() || self.streams.len() > STREAMS_MAX {
            return wrong("streams".into(), "a workload has 1 to 64 streams");
        }
        if self.depth == 0 || self.depth > DEPTH_MAX {
            return wrong("depth".into(), "a disk has 1 to 1024 threads");
        }
        if !(self.working_set > 0.0 && self.working_set <= 1.0) {
            return wrong("working_set".into(), "the working set is a part of the disk: above 0, at most 1");
        }
        if self.working_set_bytes.is_some_and(|bytes| bytes == 0 || bytes % GRAIN_BYTES != 0) {
            return wrong("working_set_bytes".into(), "the bytes that are used of each disk are above 0 and a multiple of 4096");
        }
        if self.working_set_bytes.is_some() && self.working_set != 1.0 {
            return wrong("working_set_bytes".into(), "the working set is given as a part and in bytes: leave one of them out");
        }
        if !share(self.data.compressible) || !share(self.data.duplicates) {
            return wrong("data".into(), "shares are from 0 to 1");
        }
        if let Arrivals::Limited { iops } | Arrivals::Open { iops, .. } = self.arrivals
            && !(iops.is_finite() && iops > 0.0 && iops <= 1e9)
        {
            return wrong("arrivals.iops".into(), "operations a second are above 0 and at most 1e9");
        }
        if self.verify && self.data != Data::default() {
            return wrong(
                "verify".into(),
                "data that are verified say in every sector what they are, so they can be neither compressible nor equal: leave `data` out, or `verify`",
            );
        }
        for (i, s) in self.streams.iter().enumerate() {
            let key = |field: &str| format!("streams[{i}].{field}");
            if !(s.share.is_finite() && s.share > 0.0) {
                return wrong(key("share"), "a weight is above 0");
            }
            if !share(s.reads) || !share(s.trims) || s.reads + s.trims > 1.0 + 1e-9 {
                return wrong(key("reads"), "reads and trims are shares from 0 to 1, together at most 1");
            }
            if s.flush_every > 0 && s.reads + s.trims >= 1.0 {
                return wrong(key("flush_every"), "nothing is written that could be flushed: leave it out, or take fewer reads");
            }
            if !(share(s.area.0) && share(s.area.1) && s.area.0 < s.area.1) {
                return wrong(key("area"), "an area is (from, to) with 0 <= from < to <= 1");
            }
            if s.sizes.is_empty() || s.sizes.iter().any(|z| !(z.weight.is_finite() && z.weight > 0.0)) {
                return wrong(key("sizes"), "at least one size, each with a weight above 0");
            }
            if let Some(z) = s.sizes.iter().find(|z| z.bytes == 0 || z.bytes % 512 != 0 || z.bytes > TRANSFER_BYTES_MAX) {
                return wrong(key("sizes"), &format!("{} bytes: a size is a multiple of 512, at most 16 MiB", z.bytes));
            }
            if s.align_bytes % 512 != 0 {
                return wrong(key("align_bytes"), "a multiple of 512, or 0 for the operation's own size");
            }
            let grain = GRAIN_BYTES as u32;
            if self.verify && s.sizes.iter().map(|z| z.bytes).chain([s.align_bytes]).any(|bytes| bytes % grain != 0) {
                return wrong(key("sizes"), "data are verified in blocks of 4096 bytes: sizes and align_bytes are multiples of that");
            }
            let hot = |h: &Hot| h.space > 0.0 && h.space < 1.0 && share(h.operations);
            let sound = match &s.access {
                Access::Sequential { .. } => true,
                Access::Seek { seeks } => share(*seeks),
                Access::Walk { steps, hot: range } => *steps > 0 && range.as_ref().is_none_or(hot),
                Access::Random { skew: Skew::Uniform } => true,
                Access::Random { skew: Skew::Zipf { theta } } => *theta > 0.0 && *theta < 10.0 && *theta != 1.0,
                Access::Random { skew: Skew::Hot { ranges } } => {
                    !ranges.is_empty()
                        && ranges.iter().all(hot)
                        && ranges.iter().map(|h| h.space).sum::<f64>() < 1.0
                        && ranges.iter().map(|h| h.operations).sum::<f64>() <= 1.0
                }
            };
            if !sound {
                return wrong(
                    key("access"),
                    "shares are from 0 to 1, hot ranges leave room for the rest, zipf's theta is above 0 and not 1",
                );
            }
        }
        Ok(())
    }
}

//! What is kept of a run: plain files in a folder of its own.
//!
//! ```text
//! RESULTS/2026-11-22T08-30-00-easy-run/
//!   run.json              a Record: what was asked, the machine, the verdict; rewritten after each case
//!   case-000.json         a Measured each, with histograms and seconds; written once, renamed into place
//! ```
//!
//! Invariants: a file is there whole or not at all; what was measured before an interruption can be read and gone on with.
//! Never: a figure that is not in these files.

pub mod folder;
pub mod machine;

use crate::measure::noise::Noise;
use crate::measure::{Figures, Second};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};

/// Version of the files.
pub const VERSION: u32 = 1;

/// One measured case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Which engine did it.
    pub engine: String,
    /// The load, as it was run.
    pub workload: Workload,
    /// What distinguishes it from the other cases of its run: ("load", "70 %"), ("layout", "1+4"), ("system", "A").
    #[serde(default)]
    pub labels: Vec<(String, String)>,
    /// Disks and their bytes.
    pub disks: Vec<(String, u64)>,
    /// When the measurement began, seconds since 1970.
    pub began_unix_s: u64,
    /// Seconds of warm-up.
    pub warm_up_s: f64,
    /// Seconds measured.
    pub measured_s: f64,
    /// It was ended before its time.
    #[serde(default)]
    pub cut_short: bool,
    /// Reads.
    pub reads: Figures,
    /// Writes.
    pub writes: Figures,
    /// Trims.
    pub trims: Figures,
    /// Flushes, beside the operations: they are in no rate.
    #[serde(default, skip_serializing_if = "no_operations")]
    pub flushes: Figures,
    /// Each stream by name, when there are several.
    #[serde(default)]
    pub streams: Vec<(String, Figures)>,
    /// Blocks whose content was checked, where the load asks for that.
    #[serde(default)]
    pub verified: Option<Verified>,
    /// Processor time of the client in the measured time, in seconds.
    pub client_cpu_s: f64,
    /// Processor time of the target, where it is known.
    #[serde(default)]
    pub target_cpu_s: Option<f64>,
    /// Each second, warm-up included.
    pub seconds: Vec<Second>,
    /// What a reader should know: a model's scale, a limit that was hit.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of an open loop: operations that should have come before the measurement and ended in it.
    #[serde(default)]
    pub carried: u64,
    /// Of an open loop: operations that should have come and had not been started when the time was up.
    #[serde(default)]
    pub waiting: u64,
    /// What else the machine of the client did meanwhile, warm-up included.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// What else the machine of the target did, where it is another and its daemon tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_noise: Option<Noise>,
    /// The machines that drove the load together, where there were several; `noise` and the processor time of each stand there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
}

fn no_operations(f: &Figures) -> bool {
    f.operations + f.errors == 0
}

/// What one of several machines did of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Its address.
    pub name: String,
    /// Disks that it drove.
    pub disks: u32,
    /// Seconds measured.
    pub measured_s: f64,
    /// Processor time of its part, in seconds.
    pub cpu_s: f64,
    /// All of its operations.
    pub figures: Figures,
    /// What else it did meanwhile.
    #[serde(default)]
    pub noise: Option<Noise>,
}

impl Measured {
    /// All operations together. Of flushes, only those that failed: they are errors.
    pub fn total(&self) -> Figures {
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        all.merge(&self.trims);
        all.errors += self.flushes.errors;
        all
    }
    /// Operations a second.
    pub fn iops(&self) -> f64 {
        (self.reads.operations + self.writes.operations + self.trims.operations) as f64 / self.measured_s.max(1e-9)
    }
    /// Operations a second that should have come in the measured time and ended in it: a backlog that was worked off is none of them.
    pub fn kept_iops(&self) -> f64 {
        let all = self.reads.operations + self.writes.operations + self.trims.operations;
        all.saturating_sub(self.carried) as f64 / self.measured_s.max(1e-9)
    }
    /// MiB a second, reads and writes.
    pub fn mib_s(&self) -> f64 {
        (self.reads.bytes + self.writes.bytes) as f64 / (1 << 20) as f64 / self.measured_s.max(1e-9)
    }
}

/// Blocks of 4 KiB that were read and looked at, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// What they may hold was known.
    pub checked: u64,
    /// Of those: they held something else.
    pub wrong: u64,
    /// Not written in this run, or left to the device by a trim: nobody knows what is right.
    pub unknown: u64,
}

impl Verified {
    /// Both together.
    pub fn merge(self, other: Verified) -> Verified {
        Verified { checked: self.checked + other.checked, wrong: self.wrong + other.wrong, unknown: self.unknown + other.unknown }
    }
}

/// What kind of run it was: it decides which charts a report has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// One workload or profile after another.
    Run,
    /// The maximum, then shares of it.
    Curve,
    /// Over parameters.
    Sweep,
    /// Two systems in alternation: cases have the label "system" "A" or "B" and the label "round".
    Compare,
    /// One sustained load.
    Soak,
    /// A published study.
    Study,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Cases are still to come (or its process died).
    Running,
    /// Ended by the user or by an error; it can go on.
    Interrupted,
    /// All is there.
    Complete,
}

/// The machine that it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor, as it names itself.
    pub processor: String,
    /// Logical processors.
    pub processors: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
}

/// A published figure to stand beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Which case of ours it stands beside: its labels.
    pub labels: Vec<(String, String)>,
    /// What it is: "IOPS", "MiB/s", "mean latency ms".
    pub figure: String,
    /// Its value.
    pub value: f64,
    /// What a reader should know of it.
    #[serde(default)]
    pub remark: String,
    /// It is of other hardware, such as twelve drives beside a model of one: ours is not divided by it.
    #[serde(default)]
    pub other_hardware: bool,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub version: u32,
    /// The part of what is read, 0 to 1, that was never written, where the user wanted that measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<f64>,
    /// What kind.
    pub kind: RunKind,
    /// Headline.
    pub title: String,
    /// How it stands.
    pub state: RunState,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// Version of Basalt.
    pub basalt: String,
    /// Where it ran.
    pub machine: Machine,
    /// The whole configuration, as TOML text.
    pub configuration: String,
    /// Sentences that answer what was asked, the most important first.
    pub verdict: Vec<String>,
    /// Figures of others, for studies.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Where they were published.
    #[serde(default)]
    pub source: String,
    /// How many cases are planned.
    pub cases: usize,
    /// What the machine did before the first case, and after the last.
    #[serde(default)]
    pub noise: Vec<Noise>,
    /// The same of the machine of the target, where it is another and its daemon tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_noise: Vec<Noise>,
}

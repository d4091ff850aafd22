//! What puts a load on storage. One model of a load, several engines.
//!
//! Invariants: an engine stays within the working set; what it reports to a [`Watch`] adds up to the [`Measured`] it returns; it ends soon after
//! [`Watch::stopped`] says so, with what it has.
//! Never: decides what is a good result.

pub mod agents;
pub mod fio;
pub mod guard;
pub mod iscsi;
pub mod iscsi_address;
pub mod load;
pub mod native;
pub mod nvme_address;
pub mod nvme_tcp;
pub mod open;
pub mod remote;
pub mod verify;
pub mod workers;

use crate::error::LabError;
use crate::measure::noise::TargetMachine;
use crate::measure::{Latency, Second, TargetSecond};
use crate::results::Measured;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// One measurement that is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The load.
    pub workload: Workload,
    /// Time before it counts.
    pub warm_up: Duration,
    /// Time that counts.
    pub measure: Duration,
    /// Seed of everything drawn at random.
    pub seed: u64,
}

/// Whom a long job reports to, and asks.
pub trait Watch {
    /// When the load begins: now, or later together with others. Asked once all is connected.
    fn begin(&mut self) -> Instant {
        Instant::now()
    }
    /// A second has passed.
    fn second(&mut self, second: &Second);
    /// Latencies of the second that is reported next, from engines that have them.
    fn latencies(&mut self, _: &Latency) {}
    /// Preparing: so many of so many bytes are done.
    fn progress(&mut self, what: &str, done: u64, all: u64);
    /// Whether the user wants it to end.
    fn stopped(&self) -> bool;
    /// What the target says of itself now, where it can be asked; called once a second.
    fn target(&mut self) -> Option<TargetSecond> {
        None
    }
    /// The process on this machine that is measured, where it is known.
    fn target_pid(&self) -> Option<u32> {
        None
    }
    /// The machine of the target now, where its daemon tells of it.
    fn target_machine(&mut self) -> Option<TargetMachine> {
        None
    }
    /// Processor time of the target until now, in seconds, where it is known.
    fn target_cpu_s(&mut self) -> Option<f64> {
        None
    }
}

/// How disks are made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// Zeroes over the whole working set.
    Zero,
    /// Random data (as the workload's data are) over the whole working set.
    Random,
}

/// Something that can put a load on disks it was made for.
pub trait Engine {
    /// Its name, as in reports: `native`, `nvme-tcp`, `iscsi`, `fio`, `agents`, or that of a model.
    fn name(&self) -> &'static str;
    /// The disks, as the user named them, with their sizes in bytes.
    fn disks(&self) -> Vec<(String, u64)>;
    /// Whether it can, and may, run this load (after preparing, if so): asked before anything begins.
    fn admit(&mut self, workload: &Workload, _prepare: bool) -> Result<(), LabError> {
        workload.check(&workload.name)
    }
    /// The part of the working set, 0 to 1, that holds zeroes only, from places looked at: nothing was written there as far as can be seen.
    /// `None`: it cannot be looked at.
    fn unwritten(&mut self, _: &Workload) -> Result<Option<f64>, LabError> {
        Ok(None)
    }
    /// Writes the whole working set of every disk.
    fn prepare(&mut self, workload: &Workload, fill: Fill, watch: &mut dyn Watch) -> Result<(), LabError>;
    /// Runs one job: warm-up, then measurement.
    fn run(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Measured, LabError>;
}

//! What several hosts did with one volume at the same time, and whether it could have happened one after another.
//!
//! Owns: the operations, the file that holds them, the judges: [`blocks`] for what was read and written, [`reservations`] for who may.
//! Invariants: an operation took effect at one moment between its beginning and its end; one without an end may have taken effect at any moment after
//! its beginning, or never.
//! Never: forgives; what it finds is a fault of the product, or of the hosts that wrote the history down.

pub mod blocks;
mod order;
pub mod reservations;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// One operation of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Who.
    pub host: u64,
    /// Microseconds since the history began: right before it was sent.
    pub begun: u64,
    /// The same, right after its answer had come; `None`: none came that says whether it took effect.
    pub ended: Option<u64>,
    #[serde(flatten)]
    pub what: What,
}

/// What was done, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A block was written. No value is written twice to a block, and none is 0.
    Write { block: u64, value: u64 },
    /// A block was read. 0: nothing was ever written there; [`TORN`]: no value at all.
    Read { block: u64, value: u64 },
    /// A reservation command. Its answer, if it has one.
    Reserve { asked: reservations::Asked, answer: Option<reservations::Answer> },
    /// What a reservation report said.
    Report { seen: reservations::Seen },
    /// A read or a write was let through, or was answered Reservation Conflict.
    Access { write: bool, allowed: bool },
}

/// A block that holds parts of several values, or of none.
pub const TORN: u64 = u64::MAX;

/// Hosts write down here what they do.
pub struct Recorder {
    began: Instant,
    ops: Mutex<Vec<Op>>,
}

impl Recorder {
    pub fn new() -> Self {
        Self { began: Instant::now(), ops: Mutex::default() }
    }
    /// Microseconds since it began. 0 is before everything.
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_micros().max(1) as u64
    }
    pub fn add(&self, ops: impl IntoIterator<Item = Op>) {
        self.ops.lock().unwrap_or_else(PoisonError::into_inner).extend(ops);
    }
    /// All of them, in the order of their beginnings.
    pub fn taken(&self) -> Vec<Op> {
        let mut ops = std::mem::take(&mut *self.ops.lock().unwrap_or_else(PoisonError::into_inner));
        ops.sort_by_key(|op| (op.begun, op.host));
        ops
    }
}

/// A line of JSON for each operation.
pub fn save(ops: &[Op], at: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(at)?);
    for op in ops {
        serde_json::to_writer(&mut file, op)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// What [`save`] has written.
pub fn load(at: &Path) -> io::Result<Vec<Op>> {
    let parsed = |line: io::Result<String>| Ok(serde_json::from_str(&line?)?);
    BufReader::new(File::open(at)?).lines().map(parsed).collect()
}

/// What is wrong with a history, in words; empty: nothing.
pub fn judge(ops: &[Op]) -> Vec<String> {
    let mut wrong = blocks::judge(ops);
    wrong.extend(reservations::judge(ops).err());
    wrong
}

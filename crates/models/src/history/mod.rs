//! What several hosts did with one volume at the same time, and whether it could have happened one after another.
//!
//! Owns: the operations, the judges: [`blocks`] for what was read and written, [`reservations`] for who may.
//! Invariants: an operation took effect at one moment between its beginning and its end; one without an end may have taken effect at any moment after
//! its beginning ([`HAPPENS_WITHIN_US`] for reservations), or never.
//! Never: forgives; what it finds is a fault of the product, or of the hosts that wrote the history down.

pub mod blocks;
mod order;
pub mod reservations;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// One operation of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Who: a number.
    pub host: u64,
    /// Microseconds since the history began: right before it was sent.
    pub begun: u64,
    /// The same, right after its answer had come; `None`: none came that says whether it took effect.
    pub ended: Option<u64>,
    /// What it did.
    #[serde(flatten)]
    pub what: What,
}

impl Op {
    /// Whether the same host has done the same, with the same outcome.
    fn is_like(&self, other: &Op) -> bool {
        self.host == other.host && self.what == other.what
    }
    /// When it has happened, at the latest.
    fn over(&self) -> u64 {
        self.ended.unwrap_or(self.begun + HAPPENS_WITHIN_US)
    }
    /// A state that it has seen is one of then, or later.
    fn seen_from(&self) -> u64 {
        let late = if matches!(self.what, What::Report { .. }) { LATE_US } else { 0 };
        self.begun.saturating_sub(late)
    }
    /// Whether it has changed nothing, whatever the state was.
    fn observes(&self) -> bool {
        match &self.what {
            What::Write { .. } => false,
            What::Reserve { answer, .. } => answer.is_some_and(|answer| answer != reservations::Answer::Done),
            What::Read { .. } | What::Report { .. } | What::Access { .. } => true,
        }
    }
}

/// What a judge says of a history that is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Reservation commands, reports, reads and writes that were not judged: what came before may have come about in too many ways.
    pub undecided: usize,
}

/// What was done, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A block was written. No value is written twice to a block, and none is 0.
    Write {
        /// Which.
        block: u64,
        /// With what.
        value: u64,
    },
    /// A block was read. 0: nothing was ever written there; [`TORN`]: no value at all.
    Read {
        /// Which.
        block: u64,
        /// What was there.
        value: u64,
    },
    /// A reservation command. Its answer, if it has one.
    Reserve {
        /// The command.
        asked: reservations::Asked,
        /// `None`: nobody knows.
        answer: Option<reservations::Answer>,
    },
    /// What a reservation report said.
    Report {
        /// What it said.
        seen: reservations::Seen,
    },
    /// A read or a write was let through, or was answered Reservation Conflict.
    Access {
        /// A write, else a read.
        write: bool,
        /// It was let through.
        allowed: bool,
    },
}

/// A reservation command without an answer happens within so many microseconds after it was sent, or never: a node that hangs or is cut off meanwhile has
/// gone on by then, and what it then asks the directory for is over.
const HAPPENS_WITHIN_US: u64 = 30_000_000;

/// A reservation report may show what was so many microseconds before: the node that answers it hears of changes through the directory, which it may be cut
/// off from.
const LATE_US: u64 = 15_000_000;

/// A block that holds parts of several values, or of none.
pub const TORN: u64 = u64::MAX;

/// Judges a history. The error: what is wrong with it, in words.
pub fn judge(ops: &[Op]) -> Result<Verdict, Vec<String>> {
    let (mut wrong, reservations) = (blocks::judge(ops), reservations::judge(ops));
    match reservations {
        Ok(undecided) if wrong.is_empty() => return Ok(Verdict { undecided }),
        Ok(_) => {}
        Err(what) => wrong.push(what),
    }
    Err(wrong)
}

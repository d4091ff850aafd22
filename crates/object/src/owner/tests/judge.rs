//! What must hold, seen from outside: the judge of the modelled world. It has no effect.
//!
//! A history of a block is linearizable exactly when no two values are each surely before the other. A value is surely before another when
//! a
//! request that wrote or returned it had ended before one began that wrote or returned the other. Values are written once.

use std::collections::BTreeMap;

pub type Value = u32;
/// Blocks of a chunk, as bits.
pub type Mask = u16;
/// A chunk: mirror and number.
pub type At = (usize, usize);
pub type Broken = &'static str;

pub const LOST: Broken = "an acknowledged write is lost";
pub const DIFFER: Broken = "copies in sync differ";
pub const NOT_LINEAR: Broken = "reads are not linearizable";
pub const TWO_OWNERS: Broken = "two owners answer";
pub const INEXACT: Broken = "resync copies what has not changed";

/// Requests of one value of one block.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// When the first ended.
    ended: u64,
    /// When the last began.
    began: u64,
}

#[derive(Debug, Default)]
pub struct Judge {
    now: u64,
    values: BTreeMap<(At, u8), BTreeMap<Value, Times>>,
    /// Blocks of each copy that may have changed since it left.
    missed: BTreeMap<(usize, usize), BTreeMap<usize, Mask>>,
    /// More than one copy was out at a time in this period, or one was out again before its resync had finished.
    overlap: bool,
}

pub fn bits(mask: Mask) -> impl Iterator<Item = u8> {
    (0..16).filter(move |b| mask >> b & 1 == 1)
}

impl Judge {
    /// Something begins now.
    pub fn begins(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
    /// A request that wrote, or returned, a value of blocks has ended.
    pub fn ends(&mut self, at: At, mask: Mask, value: Value, began: u64, what: Broken) -> Result<(), Broken> {
        self.now += 1;
        for b in bits(mask) {
            let values = self.values.entry((at, b)).or_default();
            values.entry(0).or_insert(Times { ended: 0, began: 0 });
            let times = values.entry(value).or_insert(Times { ended: self.now, began });
            times.began = times.began.max(began);
            let times = *times;
            let mutual = |(other, t): (&Value, &Times)| *other != value && t.ended < times.began && times.ended < t.began;
            if values.iter().any(mutual) {
                return Err(what);
            }
        }
        Ok(())
    }
    /// Whether a value is surely not the last any more. One of which no request has ended is before nothing yet.
    pub fn is_old(&self, at: At, block: u8, value: Value) -> bool {
        let Some(values) = self.values.get(&(at, block)) else { return false };
        let Some(times) = values.get(&value) else { return false };
        values.iter().any(|(other, t)| *other != value && times.ended < t.began)
    }
    /// A copy (mirror, node) may miss a change.
    pub fn misses(&mut self, copy: (usize, usize), chunk: usize, mask: Mask) {
        *self.missed.entry(copy).or_default().entry(chunk).or_default() |= mask;
    }
    /// Copies leave, or are dropped from their resync; `others_out`: how many were out before.
    pub fn leave(&mut self, left: usize, dropped: usize, others_out: usize) {
        self.overlap |= dropped > 0 || left > 1 || left > 0 && others_out > 0;
    }
    /// What is missing is not known.
    pub fn knows_nothing(&mut self) {
        self.overlap = true;
    }
    pub fn returns(&mut self, copy: (usize, usize), all: bool) {
        self.missed.remove(&copy);
        self.overlap &= !all;
    }
    /// Resync copies blocks.
    pub fn copies(&self, copy: (usize, usize), chunk: usize, mask: Mask) -> Result<(), Broken> {
        let missed = self.missed.get(&copy).and_then(|m| m.get(&chunk)).copied().unwrap_or(0);
        if !self.overlap && mask & !missed != 0 { Err(INEXACT) } else { Ok(()) }
    }
}

//! Verification of all data read: what each disk may legally hold, and checking every block that is read against it.
//!
//! ```text
//! begin(slot, operation) ─► fill(slot, ...)   what is written says which disk, place and version it is (`crate::verified::Pattern`)
//!        │                  read(slot, ...)   what was read is looked at
//!        └─► end(slot, ok) ─► Model: is that legal here, now?  ─► finding, in words
//! ```
//!
//! Owns: the ledgers of a run, one a disk, which outlive its engines; a worker's part of the checking ([`Checker`]).
//! Invariants: an operation is begun before it is sent and ended after it was answered, so that every order the storage may have chosen is legal and
//! no other is; what this run did not write is counted as not checked, never as right; tags are new with each ledger, so data of an
//! earlier run is known as such.
//! Never: keeps data; forgives a block that was found wrong.

use crate::error::LabError;
use crate::lock::lock;
use crate::results::Verified;
use crate::verified::{Before, Change, Found, Mismatch, Model, Outcome, Pattern, ReadToken, Span};
use crate::workload::GRAIN_BYTES;
use crate::workload::Workload;
use crate::workload::generate::{Operation, working_set_bytes};
use base::IoClass;
use initiator::rng::mix;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Blocks of 4 KiB that all disks of a load may have together: 1 TiB, for which the ledgers take 2 GiB of memory.
pub const UNITS_MAX: u64 = 1 << 28;
/// Wrong blocks that each worker reports in words; all are counted.
pub const FINDINGS_MAX: usize = 8;

/// What a disk holds after a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterTrim {
    /// Zeroes.
    Zeroes,
    /// Zeroes, or what was there: the trim is advice.
    ZeroesOrOld,
    /// The disk promises nothing.
    Anything,
}

/// What a disk promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// A block of 4 KiB is written, and read, as a whole.
    pub whole_blocks: bool,
    /// See there.
    pub after_trim: AfterTrim,
}

/// The ledgers of a run; a clone is another handle on the same.
#[derive(Clone, Default)]
pub struct Ledgers(Arc<Mutex<BTreeMap<String, Arc<Ledger>>>>);

/// What one disk may hold.
#[derive(Debug)]
struct Ledger {
    name: String,
    pattern: Pattern,
    after_trim: AfterTrim,
    model: Mutex<Model>,
}

/// Never the same twice.
fn fresh() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    mix(now ^ mix(u64::from(std::process::id()) << 32 | COUNT.fetch_add(1, Relaxed)))
}

impl Ledgers {
    /// What a load needs to be checked on these disks (name, bytes, promise); nothing, when it is not to be verified: if it writes all the same,
    /// what the disks held is not known any more.
    pub(crate) fn checking(
        &self,
        workload: &Workload,
        writes: bool,
        disks: impl IntoIterator<Item = (String, u64, Promise)>,
    ) -> Result<Option<Checking>, LabError> {
        let disks: Vec<_> = disks.into_iter().map(|(name, bytes, p)| (name, working_set_bytes(workload, bytes) / GRAIN_BYTES, p)).collect();
        let mut all = lock(&self.0);
        if !workload.verify {
            if writes {
                disks.iter().for_each(|(name, ..)| drop(all.remove(name)));
            }
            return Ok(None);
        }
        let units: u64 = disks.iter().map(|d| d.1).sum();
        if units > UNITS_MAX {
            let problem = format!(
                "{} GiB are to be verified, more than {} GiB: use a smaller --working-set",
                (units * GRAIN_BYTES) >> 30,
                (UNITS_MAX * GRAIN_BYTES) >> 30
            );
            return Err(LabError::Workload { place: format!("{}: verify", workload.name), problem });
        }
        let disks = disks.into_iter().map(|(name, units, promise)| {
            let ledger = all.entry(name).or_insert_with_key(|name| Arc::new(Ledger::new(name, promise)));
            lock(&ledger.model).grow(units);
            Arc::clone(ledger)
        });
        Ok(Some(Checking { disks: disks.collect() }))
    }
}

impl Ledger {
    fn new(name: &str, promise: Promise) -> Ledger {
        let model = Model::new(0, Before::Unknown);
        let model = if promise.whole_blocks { model } else { model.with_torn_units() };
        Ledger {
            name: name.into(),
            pattern: Pattern { tag: fresh(), seed: fresh() },
            after_trim: promise.after_trim,
            model: Mutex::new(model),
        }
    }
}

/// The ledgers of one load, by the number of the disk.
#[derive(Clone, Debug)]
pub struct Checking {
    disks: Vec<Arc<Ledger>>,
}

/// What is under way in a slot.
enum CheckedFlight {
    Nothing,
    Read(ReadToken),
    Change(u64),
}

struct CheckedSlot {
    disk: usize,
    offset: u64,
    span: Span,
    kind: IoClass,
    flight: CheckedFlight,
    found: Vec<Found>,
    looked_at: u64,
}

/// One worker's part.
pub struct Checker {
    disks: Vec<Arc<Ledger>>,
    slots: Vec<CheckedSlot>,
    /// What is written are zeroes.
    zeroes: bool,
    /// Blocks, counted.
    pub tally: Verified,
    /// The first wrong blocks, in words.
    pub findings: Vec<String>,
}

impl Checker {
    /// For a worker with so many slots, whose writes are zeroes or not.
    pub fn new(checking: &Checking, slots: usize, zeroes: bool) -> Checker {
        let slot = || CheckedSlot {
            disk: 0,
            offset: 0,
            span: Span { first: 0, count: 0 },
            kind: IoClass::Read,
            flight: CheckedFlight::Nothing,
            found: Vec::new(),
            looked_at: 0,
        };
        let slots = (0..slots).map(|_| slot()).collect();
        Checker { disks: checking.disks.clone(), slots, zeroes, tally: Verified::default(), findings: Vec::new() }
    }

    /// An operation is about to be sent.
    pub fn begin(&mut self, number: usize, disk: usize, op: &Operation) {
        let (slot, ledger) = (&mut self.slots[number], &self.disks[disk]);
        let span = Span { first: op.offset / GRAIN_BYTES, count: u64::from(op.bytes) / GRAIN_BYTES };
        (slot.disk, slot.offset, slot.span, slot.kind, slot.looked_at) = (disk, op.offset, span, op.kind, 0);
        let mut model = lock(&ledger.model);
        slot.flight = match (op.kind, ledger.after_trim) {
            (IoClass::Read, _) => CheckedFlight::Read(model.begin_read()),
            (IoClass::Write, _) if self.zeroes => CheckedFlight::Change(model.begin_change(span, Change::Zero)),
            (IoClass::Write, _) => CheckedFlight::Change(model.begin_change(span, Change::Data)),
            (IoClass::Discard, AfterTrim::Anything) => CheckedFlight::Change(model.begin_change(span, Change::Any)),
            (IoClass::Discard, _) => CheckedFlight::Change(model.begin_change(span, Change::Zero)),
        };
        if op.kind == IoClass::Read {
            slot.found.clear();
            slot.found.resize(span.count as usize, Found::Zero);
        }
    }

    /// What a part of a write, from byte `offset` of the disk on, is to hold.
    pub fn fill(&self, number: usize, offset: u64, out: &mut [u8]) {
        let slot = &self.slots[number];
        let CheckedFlight::Change(version) = slot.flight else { unreachable!("only a write that was begun is filled") };
        if self.zeroes {
            out.fill(0);
        } else {
            self.disks[slot.disk].pattern.fill(offset, version, out);
        }
    }

    /// What a part of a read, from byte `offset` of the disk on, held.
    pub fn read(&mut self, number: usize, offset: u64, data: &[u8]) {
        let slot = &mut self.slots[number];
        let (pattern, unit) = (self.disks[slot.disk].pattern, GRAIN_BYTES as usize);
        let first = ((offset - slot.offset) / GRAIN_BYTES) as usize;
        for (n, block) in data.chunks_exact(unit).enumerate() {
            slot.found[first + n] = pattern.inspect(offset + (n * unit) as u64, block);
            slot.looked_at += 1;
        }
    }

    /// The operation was answered; whether all it read was legal.
    pub fn end(&mut self, number: usize, good: bool) -> bool {
        let slot = &mut self.slots[number];
        let ledger = &self.disks[slot.disk];
        let mut model = lock(&ledger.model);
        let bad = match std::mem::replace(&mut slot.flight, CheckedFlight::Nothing) {
            CheckedFlight::Read(token) if good => {
                assert_eq!(slot.looked_at, slot.span.count, "an engine shows all that it read");
                let unknown = model.unjudged(token, slot.span);
                let bad = model.end_read(token, slot.span, &slot.found);
                self.tally.unknown += unknown;
                self.tally.checked += slot.span.count - unknown;
                bad
            }
            CheckedFlight::Read(token) => {
                model.abandon_read(token);
                Vec::new()
            }
            CheckedFlight::Change(version) => {
                let advice = slot.kind == IoClass::Discard && ledger.after_trim == AfterTrim::ZeroesOrOld;
                model.end_change(slot.span, version, if good && !advice { Outcome::Applied } else { Outcome::Unknown });
                Vec::new()
            }
            CheckedFlight::Nothing => unreachable!("an operation ends once"),
        };
        drop(model);
        self.tally.wrong += bad.len() as u64;
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        let words: Vec<String> = bad.iter().take(room).map(|m| self.words(number, m)).collect();
        self.findings.extend(words);
        bad.is_empty()
    }

    /// What was found wrong, as an administrator needs it.
    fn words(&self, number: usize, wrong: &Mismatch) -> String {
        let slot = &self.slots[number];
        let ledger = &self.disks[slot.disk];
        let at = wrong.unit * GRAIN_BYTES;
        let found = match &wrong.found {
            Found::Zero => "zeroes: what was written there is lost".into(),
            Found::Version(v) => format!("version {v}: stale data, which was written over since"),
            Found::Torn(versions) => format!("a mix of versions, sector by sector {versions:?} (0: zeroes): a torn write"),
            Found::Misplaced { tag, offset, version } => match self.disks.iter().find(|l| l.pattern.tag == *tag) {
                Some(l) if l.name == ledger.name => format!("version {version} of byte {offset} of the same disk: misdirected data"),
                Some(l) => format!("version {version} of byte {offset} of {}: misdirected data", l.name),
                None => format!("what another run, or another disk, had at byte {offset}: stale or misdirected data"),
            },
            Found::Corrupt { sector, version } => {
                format!("damaged bytes in sector {sector} of 512 bytes, which says it is version {version}: corrupted data")
            }
            Found::Foreign { sector, start } => {
                format!(
                    "bytes that were never written there, beginning with {start:02x?} in its sector {sector} of 512 bytes: corrupted or foreign data"
                )
            }
        };
        format!(
            "{}: wrong data in the 4 KiB block at byte {at} (read of {} bytes at {}): expected {}, found {found}",
            ledger.name,
            slot.span.count * GRAIN_BYTES,
            slot.offset,
            wrong.expected.join(" or "),
        )
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;

//! The model: for each unit of a volume the contents that are legal now.
//!
//! A change (write, zero, trim) of a unit is an **entry**: begun at one tick of the model's clock (its version), ended at
//! another (acknowledged, or given up when the connection died), certain once it was acknowledged or a read showed it.
//!
//! ```text
//! begin_change ──► in flight ──applied──► certain ──newer certain entry begun after it ended──► replaced ──no reader left──► gone
//!                      └──unknown──► maybe ──shown by a read──► certain
//!                                      └──a read begun after it ended shows another──► replaced
//! ```
//!
//! Invariants: an entry that may be what a read finds is never dropped (no false alarm); an entry is replaced as soon as
//! no order of the operations allows it any more (no lost write, stale read or step back in time goes unseen). This holds for any
//! overlap of reads and writes. It assumes that an operation that was given up does not take effect later; a
//! killed target guarantees that.
//! Never: keeps data; a version stands for it.

use super::pattern::Found;
use std::collections::{BTreeMap, VecDeque};

/// A run of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First unit, from the start of the working set.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Span {
    fn units(self) -> core::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

/// What a change leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pattern of its version.
    Data,
    /// Zeroes.
    Zero,
    /// Nobody knows: what a device does not promise for a trimmed unit.
    Any,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged.
    Applied,
    /// It failed, its connection died, or it is advice that need not be taken: it may have happened in each unit, or not.
    Unknown,
}

/// What a unit can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Data,
    Zero,
    /// From before the model: anything.
    Any,
}

/// One of the contents a unit may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The clock when it began; 0 for what was there at first.
    pub version: u64,
    pub kind: Content,
    pub ended: Option<u64>,
    pub certain: bool,
    pub replaced: Option<u64>,
}

impl Entry {
    fn settled(version: u64, kind: Content) -> Self {
        Self { version, kind, ended: Some(version), certain: true, replaced: None }
    }
    fn legal(&self, since: u64) -> bool {
        self.replaced.is_none_or(|at| at > since)
    }
    fn shows(&self, found: &Found) -> bool {
        match (self.kind, found) {
            (Content::Data, Found::Version(v)) => *v == self.version,
            (Content::Zero, Found::Zero) => true,
            _ => false,
        }
    }
}

/// A read in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadToken(u64);

/// A unit that held what it must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The unit, from the start of the working set.
    pub unit: u64,
    /// What it may hold, in words a person understands.
    pub expected: Vec<String>,
    /// What it held.
    pub found: Found,
}

/// What the units were before the model began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Zeroes: a new volume.
    Zero,
    /// Nobody knows: not judged until written.
    Unknown,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub(super) clock: u64,
    /// Units with one certain content: version and kind.
    pub(super) settled: Vec<Settled>,
    /// Units with more than that. Bounded by what is in flight and by the maybes of past outages.
    pub(super) open: BTreeMap<u64, Vec<Entry>>,
    readers: BTreeMap<u64, u64>,
    stale: VecDeque<(u64, u64)>,
    torn: bool,
}

/// A version and a kind in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled(pub u64);

impl Settled {
    fn new(version: u64, kind: Content) -> Self {
        Self(version << 2 | kind as u64)
    }
    fn entry(self) -> Entry {
        let kind = match self.0 & 3 {
            0 => Content::Data,
            1 => Content::Zero,
            _ => Content::Any,
        };
        Entry::settled(self.0 >> 2, kind)
    }
}

impl Model {
    /// A model of `units` units.
    pub fn new(units: u64, before: Before) -> Self {
        let kind = match before {
            Before::Zero => Content::Zero,
            Before::Unknown => Content::Any,
        };
        let units = usize::try_from(units).expect("a working set fits in memory");
        Self {
            clock: 0,
            settled: vec![Settled::new(0, kind); units],
            open: BTreeMap::new(),
            readers: BTreeMap::new(),
            stale: VecDeque::new(),
            torn: false,
        }
    }

    /// Of storage that does not promise whole units: where changes overlap each other or a read, a unit may be a mix of sectors, each of them legal.
    pub fn with_torn_units(self) -> Self {
        Self { torn: true, ..self }
    }

    /// Makes it larger; what is added is not judged until written.
    pub fn grow(&mut self, units: u64) {
        let units = usize::try_from(units).expect("a working set fits in memory").max(self.settled.len());
        self.settled.resize(units, Settled::new(0, Content::Any));
    }

    /// How many units of `span` are not judged by a read begun at `token`: anything may be in them.
    pub fn unjudged(&self, token: ReadToken, span: Span) -> u64 {
        let any = |unit: &u64| match self.open.get(unit) {
            None => self.settled[*unit as usize].entry().kind == Content::Any,
            Some(entries) => entries.iter().any(|e| e.kind == Content::Any && e.legal(token.0)),
        };
        span.units().filter(any).count() as u64
    }

    /// How many units it has.
    pub fn units(&self) -> u64 {
        self.settled.len() as u64
    }

    /// How many units have several legal contents now.
    pub fn open_units(&self) -> u64 {
        self.open.len() as u64
    }

    /// Its clock: the highest version given.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A change is about to be sent. Gives its version, for the pattern and for [`Self::end_change`].
    pub fn begin_change(&mut self, span: Span, change: Change) -> u64 {
        let version = self.tick();
        let kind = match change {
            Change::Data => Content::Data,
            Change::Zero => Content::Zero,
            Change::Any => Content::Any,
        };
        for unit in span.units() {
            let settled = self.settled[unit as usize];
            let entries = self.open.entry(unit).or_insert_with(|| vec![settled.entry()]);
            entries.push(Entry { version, kind, ended: None, certain: false, replaced: None });
        }
        version
    }

    /// A change ended.
    pub fn end_change(&mut self, span: Span, version: u64, outcome: Outcome) {
        let now = self.tick();
        for unit in span.units() {
            let entries = self.open.get_mut(&unit).expect("a unit with a change in flight is open");
            let entry = entries.iter_mut().find(|e| e.version == version).expect("a change in flight has its entry");
            assert!(entry.ended.is_none(), "a change ends once");
            entry.ended = Some(now);
            entry.certain |= outcome == Outcome::Applied;
            if entry.certain {
                replace(entries, now, unit, &mut self.stale, |e| e.version != version && e.ended.is_some_and(|at| at < version));
            }
            self.settle(unit);
        }
        self.sweep();
    }

    /// A read is about to be sent.
    pub fn begin_read(&mut self) -> ReadToken {
        let now = self.tick();
        self.readers.insert(now, now);
        ReadToken(now)
    }

    /// A read ended without data.
    pub fn abandon_read(&mut self, token: ReadToken) {
        self.readers.remove(&token.0).expect("a read ends once");
        self.sweep();
    }

    /// A read of `span` ended and found `found`, one for each unit. Gives the units that held what they must not.
    pub fn end_read(&mut self, token: ReadToken, span: Span, found: &[Found]) -> Vec<Mismatch> {
        assert_eq!(span.count, found.len() as u64, "one finding for each unit");
        let now = self.tick();
        let mut bad = Vec::new();
        for (unit, found) in span.units().zip(found) {
            if !self.observe(unit, token.0, now, found) {
                bad.push(Mismatch { unit, expected: self.expected(unit, token.0), found: found.clone() });
            }
        }
        self.readers.remove(&token.0).expect("a read ends once");
        self.sweep();
        bad
    }

    /// Whether `found` is legal for a read begun at `since`; draws the conclusions.
    fn observe(&mut self, unit: u64, since: u64, now: u64, found: &Found) -> bool {
        let Some(entries) = self.open.get_mut(&unit) else {
            let entry = self.settled[unit as usize].entry();
            return entry.kind == Content::Any || entry.shows(found);
        };
        let matching: Vec<u64> = entries.iter().filter(|e| e.legal(since) && e.shows(found)).map(|e| e.version).collect();
        if let (true, Found::Torn(versions)) = (self.torn, found) {
            // Nothing follows from a mix but that each of its parts is legal.
            let legal = |v: &u64| {
                let sector = if *v == 0 { Found::Zero } else { Found::Version(*v) };
                entries.iter().any(|e| e.legal(since) && (e.kind == Content::Any || e.shows(&sector)))
            };
            return versions.iter().all(legal);
        }
        if matching.is_empty() {
            return entries.iter().any(|e| e.legal(since) && e.kind == Content::Any);
        }
        // The read took place after all that had ended when it began: of those, only what it shows can still be there.
        replace(entries, now, unit, &mut self.stale, |e| !matching.contains(&e.version) && e.ended.is_some_and(|at| at < since));
        if let [version] = matching[..] {
            if let Some(shown) = entries.iter_mut().find(|e| e.version == version) {
                shown.certain = true;
            }
            replace(entries, now, unit, &mut self.stale, |e| e.version != version && e.ended.is_some_and(|at| at < version));
        }
        self.settle(unit);
        true
    }

    /// What a unit may hold, for a report.
    fn expected(&self, unit: u64, since: u64) -> Vec<String> {
        let settled = [self.settled[unit as usize].entry()];
        let entries = self.open.get(&unit).map_or(&settled[..], |e| &e[..]);
        let name = |e: &Entry| {
            let what = match (e.kind, e.version) {
                (Content::Data, v) => format!("version {v}"),
                (Content::Zero, 0) => "zeroes (never written)".to_owned(),
                (Content::Zero, v) => format!("zeroes of change {v}"),
                (Content::Any, _) => "anything".to_owned(),
            };
            match (e.ended, e.certain) {
                (None, _) => what + " (in flight)",
                (Some(_), false) => what + " (maybe)",
                (Some(_), true) => what,
            }
        };
        entries.iter().filter(|e| e.legal(since)).map(name).collect()
    }

    /// Drops entries that no read can find any more; closes the unit when one certain content is left.
    fn settle(&mut self, unit: u64) {
        let oldest = self.readers.keys().next().copied();
        let Some(entries) = self.open.get_mut(&unit) else { return };
        entries.retain(|e| e.ended.is_none() || e.replaced.is_none_or(|at| oldest.is_some_and(|reader| reader < at)));
        if let [e] = entries[..]
            && e.certain
            && e.ended.is_some()
            && e.replaced.is_none()
        {
            self.settled[unit as usize] = Settled::new(e.version, e.kind);
            self.open.remove(&unit);
        }
    }

    /// Settles the units whose replaced entries no reader can find any more.
    fn sweep(&mut self) {
        let oldest = self.readers.keys().next().copied();
        while let Some(&(at, unit)) = self.stale.front() {
            if oldest.is_some_and(|reader| reader < at) {
                return;
            }
            self.stale.pop_front();
            self.settle(unit);
        }
    }

    /// Every connection is gone and nothing is in flight any more: what had not ended is a maybe, reads are forgotten.
    pub fn give_up_all(&mut self) {
        let now = self.tick();
        for entry in self.open.values_mut().flatten() {
            entry.ended.get_or_insert(now);
        }
        self.readers.clear();
        self.stale.clear();
        for unit in self.open.keys().copied().collect::<Vec<_>>() {
            self.settle(unit);
        }
    }
}

/// Marks as replaced the entries that `which` says.
fn replace(entries: &mut [Entry], now: u64, unit: u64, stale: &mut VecDeque<(u64, u64)>, which: impl Fn(&Entry) -> bool) {
    for e in entries.iter_mut().filter(|e| e.replaced.is_none()) {
        if which(e) {
            e.replaced = Some(now);
            if stale.back() != Some(&(now, unit)) {
                stale.push_back((now, unit));
            }
        }
    }
}

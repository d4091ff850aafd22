//! The resync of one copy: what it misses, in pieces, and what goes to it next.
//!
//! ```text
//!  Invited ──Fenced──► Joining: gets changes ──what was under way without it has ended──► Copying: List, CopyRange, List, ... ──► finished
//! ```
//!
//! The chunk table of the source is read after everything has ended that was under way without the copy. So the table has all of that: the
//! source
//! has accepted the epoch of the resync, with Restamp, and what ended is there.
//!
//! Owns: [`Resync`].
//! Invariants: one piece of the list is held, and at most [`RANGES_MAX`] ranges are under way; progress never names a chunk that is not
//! complete.
//! Never: compares contents; changes the record.

use super::event::{Command, CopyRef, LIST_CHUNKS_MAX, Listed, ListedChunk, Progress, RANGES_MAX, RangeCopy};
use super::rules::{Rule, Rules};
use base::{ComponentId, Epoch, OwnershipRecord};
use std::collections::VecDeque;

/// Where the list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// The next piece begins there.
    Next(u64),
    /// It was asked for, in this epoch, of this source.
    Asked { from: u64, epoch: Epoch, source: CopyRef },
    /// All pieces came.
    End,
}

/// What is copied.
#[derive(Debug)]
struct Copying {
    /// Of an earlier attempt.
    earlier: Progress,
    list: List,
    /// What is left of the piece: chunks in order, and blocks of each.
    left: VecDeque<(u64, u16)>,
    under_way: Vec<RangeCopy>,
}

#[derive(Debug)]
enum Stage {
    /// It was asked to join.
    Invited,
    /// It gets changes. Something is under way without it.
    Joining(Progress),
    /// It gets what it misses.
    Copying(Copying),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Resync {
    /// The copy that comes back.
    pub copy: CopyRef,
    /// The epoch in which it was asked to join.
    pub invited: Epoch,
    stage: Stage,
    /// The source that was asked to accept an epoch, and which.
    fenced: Option<(ComponentId, Epoch)>,
}

/// What a step depends on.
pub(super) struct Now<'a> {
    pub record: &'a OwnershipRecord,
    /// The copy that is read.
    pub source: CopyRef,
    /// Ranges that may be under way.
    pub pace: usize,
    pub rules: Rules,
}

impl Resync {
    /// It is asked to join in this epoch.
    pub fn invite(copy: CopyRef, invited: Epoch) -> Self {
        Self { copy, invited, stage: Stage::Invited, fenced: None }
    }
    /// Whether it gets changes.
    pub const fn has_joined(&self) -> bool {
        !matches!(self.stage, Stage::Invited)
    }
    /// It has answered. From here on it gets changes.
    pub fn joins(&mut self, progress: Progress, rules: Rules) {
        assert!(!self.has_joined(), "it joins once");
        self.stage = Stage::Joining(progress);
        if !rules.has(Rule::ListHasUnderWay) || !rules.has(Rule::ResyncingGetsChanges) {
            self.drained();
        }
    }
    /// What was under way without it has ended.
    pub fn drained(&mut self) {
        if let Stage::Joining(earlier) = self.stage {
            let copying = Copying { earlier, list: List::Next(0), left: VecDeque::new(), under_way: Vec::new() };
            self.stage = Stage::Copying(copying);
        }
    }
    /// Nothing is missing any more.
    pub fn is_finished(&self) -> bool {
        matches!(&self.stage, Stage::Copying(c) if c.list == List::End && c.left.is_empty() && c.under_way.is_empty())
    }
    /// The first chunk that is not known to be complete: how far it has come.
    pub fn at(&self) -> Option<u64> {
        if let Stage::Copying(copying) = &self.stage { copying.complete_below() } else { Some(0) }
    }

    /// A piece of the list came.
    pub fn listed(&mut self, now: &Now<'_>, listed: &Listed) {
        let Stage::Copying(copying) = &mut self.stage else { return };
        let List::Asked { from, epoch, source } = copying.list else { return };
        if (from, epoch, source) != (listed.from, listed.epoch, now.source) {
            return; // of a source that is none any more, or twice
        }
        assert!(listed.chunks.len() <= LIST_CHUNKS_MAX, "a piece of the list is too long");
        let ends = listed.next.unwrap_or(u64::MAX);
        assert!(ends > from && listed.chunks.iter().all(|c| (from..ends).contains(&c.chunk)), "a piece of the list leaves its bounds");
        let synced_to = now.record.copy(self.copy.component).map_or(Epoch(0), |c| c.synced_to);
        for chunk in &listed.chunks {
            let mask = copying.missing(now, synced_to, chunk);
            if mask != 0 {
                copying.left.push_back((chunk.chunk, mask));
            }
        }
        copying.list = listed.next.map_or(List::End, List::Next);
    }
    /// A range is durable at the copy, or was not copied and comes again.
    pub fn ended(&mut self, range: &RangeCopy, copied: bool) {
        let Stage::Copying(copying) = &mut self.stage else { return };
        let Some(at) = copying.under_way.iter().position(|r| *r == *range) else { return };
        let range = copying.under_way.swap_remove(at);
        if !copied {
            let place = copying.left.partition_point(|(chunk, _)| *chunk < range.chunk);
            match copying.left.get_mut(place) {
                Some((chunk, mask)) if *chunk == range.chunk => *mask |= range.mask,
                _ => copying.left.insert(place, (range.chunk, range.mask)),
            }
        }
    }
    /// Asks for the next piece, or sends the next ranges.
    pub fn goes_on(&mut self, now: &Now<'_>, out: &mut Vec<Command>) {
        let Stage::Copying(copying) = &mut self.stage else { return };
        let from = match copying.list {
            List::Next(from) if copying.left.is_empty() => Some(from),
            // Of another source; and nobody lists any more in an epoch that is over.
            List::Asked { from, source, epoch } if source != now.source || epoch != now.record.epoch() => Some(from),
            _ => None,
        };
        if let Some(from) = from {
            self.ask(now, from, out);
        }
        let Stage::Copying(copying) = &mut self.stage else { return };
        while copying.under_way.len() < now.pace.min(RANGES_MAX) {
            let Some(range) = copying.next(now, self.copy, self.invited) else { return };
            copying.under_way.push(range);
            out.push(Command::CopyRange(range));
        }
    }
    /// A link is another one: asks again for the piece that was asked for.
    pub fn ask_again(&mut self, now: &Now<'_>, out: &mut Vec<Command>) {
        self.fenced = None;
        if let Stage::Copying(Copying { list: List::Asked { from, .. }, .. }) = self.stage {
            self.ask(now, from, out);
        }
    }
    fn ask(&mut self, now: &Now<'_>, from: u64, out: &mut Vec<Command>) {
        let Stage::Copying(copying) = &mut self.stage else { return };
        let epoch = now.record.epoch();
        // It says nothing before it has accepted the epoch. Of several copies elsewhere one that has is enough for everything else: what was sent
        // to this one may have been lost with its link.
        let fence = (now.source.component, epoch);
        if now.source.node != now.record.owner.node && self.fenced.replace(fence) != Some(fence) {
            let period_start = now.record.ownership.period_start;
            out.push(Command::Fence { to: now.source, epoch, period_start, resync: false });
        }
        copying.list = List::Asked { from, epoch, source: now.source };
        out.push(Command::List { source: now.source, copy: self.copy, from, epoch });
    }
}

impl Copying {
    /// The blocks of a chunk that the copy misses. It was in sync up to an epoch.
    fn missing(&self, now: &Now<'_>, synced_to: Epoch, chunk: &ListedChunk) -> u16 {
        let done = chunk.chunk < self.earlier.below;
        let upto = match synced_to {
            _ if done && !now.rules.has(Rule::ProgressHasEpoch) => Epoch(u32::MAX),
            upto if done => upto.max(self.earlier.to),
            upto => upto,
        };
        let own_doubt = if now.rules.has(Rule::ResyncOwnDoubt) { chunk.own_doubt } else { 0 };
        let Some((epoch, mask)) = chunk.source else {
            let frees = chunk.there && now.rules.has(Rule::ResyncFrees);
            return if frees || own_doubt != 0 { u16::MAX } else { 0 };
        };
        // The masks begin with the period. A copy that never was in sync misses more than they say.
        let changed = match epoch > upto {
            true if synced_to == Epoch(0) => u16::MAX,
            true => mask,
            false => 0,
        };
        changed | own_doubt
    }
    /// Every chunk below is complete. `None`: all are.
    fn complete_below(&self) -> Option<u64> {
        let listed = match self.list {
            List::Next(from) | List::Asked { from, .. } => Some(from),
            List::End => None,
        };
        let under_way = self.under_way.iter().map(|r| r.chunk);
        under_way.chain(self.left.front().map(|(chunk, _)| *chunk)).chain(listed).min()
    }
    /// The next range.
    fn next(&mut self, now: &Now<'_>, to: CopyRef, invited: Epoch) -> Option<RangeCopy> {
        let (chunk, mask) = self.left.front_mut()?;
        let run = lowest_run(*mask);
        let chunk = *chunk;
        *mask &= !run;
        if *mask == 0 {
            self.left.pop_front();
        }
        // What was complete up to an earlier epoch comes first; only when it is complete up to this one is more added.
        let below = self.complete_below().unwrap_or(u64::MAX);
        let progress = if below >= self.earlier.below { Progress { below, to: now.record.epoch() } } else { self.earlier };
        Some(RangeCopy { chunk, mask: run, to, invited, source: now.source, progress })
    }
}

/// The lowest bits of a mask that stand together.
const fn lowest_run(mask: u16) -> u16 {
    let low = mask.trailing_zeros();
    let bits = (mask >> low).trailing_ones();
    (((1u32 << bits) - 1) << low) as u16
}

//! The latest changes, kept for watches.
//!
//! Invariants: holds every change after `first`, in order, without a gap; a reader either gets the next one or an error that says it is gone.
//! Never: grows beyond its limits, waits for a reader.

use crate::{Changes, DirectoryError, Event, Revision};
use std::collections::VecDeque;

/// Transactions that are kept, at most.
pub(crate) const HISTORY_TRANSACTIONS_MAX: usize = 4096;
/// Bytes of their values that are kept, at most.
pub(crate) const HISTORY_BYTES_MAX: usize = 16 << 20;

/// The latest changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    first: Revision,
    last: Revision,
    kept: VecDeque<Changes>,
    bytes: usize,
}

impl History {
    /// From a revision on, with nothing known of before.
    pub fn new(at: Revision) -> Self {
        Self { first: at, last: at, kept: VecDeque::new(), bytes: 0 }
    }
    /// Adds what a transaction changed.
    pub fn push(&mut self, changes: Changes) {
        assert!(changes.revision > self.last, "revisions only grow");
        self.last = changes.revision;
        self.bytes += bytes(&changes);
        self.kept.push_back(changes);
        while self.kept.len() > HISTORY_TRANSACTIONS_MAX || self.bytes > HISTORY_BYTES_MAX {
            self.drop_oldest();
        }
    }
    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.bytes -= bytes(&oldest);
            self.first = oldest.revision;
        }
    }
    /// Forgets everything up to a revision.
    pub fn compact(&mut self, upto: Revision) {
        while self.kept.front().is_some_and(|c| c.revision <= upto) {
            self.drop_oldest();
        }
    }
    /// Whether a watch can begin behind `after`.
    pub fn check(&self, after: Revision) -> Result<(), DirectoryError> {
        if after > self.last {
            return Err(DirectoryError::Older { seen: after, found: self.last });
        }
        if after < self.first {
            return Err(DirectoryError::Compacted { after, first: self.first });
        }
        Ok(())
    }
    /// The revision of the latest change, or of where it began.
    pub fn last(&self) -> Revision {
        self.last
    }
    /// From where on it is known.
    pub fn first(&self) -> Revision {
        self.first
    }
    /// The first transaction behind `after`, which may be ahead of what is known here.
    pub fn next_known(&self, after: Revision) -> Result<Option<Changes>, DirectoryError> {
        if after > self.last { Ok(None) } else { self.next(after) }
    }
    /// The first transaction behind `after`.
    pub fn next(&self, after: Revision) -> Result<Option<Changes>, DirectoryError> {
        self.check(after)?;
        let at = self.kept.partition_point(|c| c.revision <= after);
        Ok(self.kept.get(at).cloned())
    }
}

fn bytes(changes: &Changes) -> usize {
    let one = |e: &Event| e.key.bytes() + e.value.as_ref().map_or(0, Vec::len);
    changes.events.iter().map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Kind};

    fn changes(revision: u64, bytes: usize) -> Changes {
        Changes { revision: Revision(revision), events: vec![Event { key: Key::new(Kind::Task, "t"), value: Some(vec![0; bytes]) }] }
    }
    /// From where on it is known, and how many are.
    fn known(history: &History, last: u64) -> (u64, usize) {
        let first = (0..=last).find(|at| history.check(Revision(*at)).is_ok()).unwrap();
        let mut at = Revision(first);
        let mut count = 0;
        while let Some(next) = history.next(at).unwrap() {
            assert_eq!(next.revision.0, at.0 + 1, "without a gap");
            (at, count) = (next.revision, count + 1);
        }
        assert_eq!(at.0, last);
        (first, count)
    }

    #[test]
    fn it_keeps_as_much_as_its_limits_allow_and_forgets_the_oldest() {
        let mib = 1 << 20;
        let mut history = History::new(Revision(0));
        (1..=100).for_each(|n| history.push(changes(n, mib)));
        let (first, count) = known(&history, 100);
        assert!((14..=16).contains(&count) && first == 100 - count as u64, "{count} of a MiB each");
        // When the large ones have gone there is room for all of the small ones.
        let most = HISTORY_TRANSACTIONS_MAX as u64;
        (101..=100 + most).for_each(|n| history.push(changes(n, 1)));
        assert_eq!(known(&history, 100 + most), (100, HISTORY_TRANSACTIONS_MAX));
        history.push(changes(101 + most, 1));
        assert_eq!(known(&history, 101 + most), (101, HISTORY_TRANSACTIONS_MAX));
        history.compact(Revision(1000));
        assert_eq!(known(&history, 101 + most).0, 1000);
        assert!(history.check(Revision(102 + most)).is_err());
    }
}

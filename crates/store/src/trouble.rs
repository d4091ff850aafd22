//! What the daemon's log is told when data cannot be moved to capacity: one line for all shards of a group, not one for each that tries again.
//!
//! Owns: which shards of a group are failing, and when that was told.
//! Invariants: a warning when the first of them begins to fail, and a word when the last has ended; not more often than every [`PAUSE`],
//! whatever comes and goes in between.
//! Never: decides anything; each shard knows for itself what it waits for.

use base::{Duration, Instant};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From one warning to the next.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Told {
    failing: BTreeSet<u8>,
    /// Failures since the first of them began to fail.
    failures: u64,
    /// It was told that they fail.
    warned: bool,
    /// It was told that writes fail.
    refusing: bool,
    warned_at: Option<Instant>,
    refused_at: Option<Instant>,
}

/// Of one group. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Trouble(Arc<(String, Mutex<Told>)>);

/// Whether something that happens now is told, and notes that it is.
fn is_due(told: &mut bool, at: &mut Option<Instant>, now: Instant) -> bool {
    let due = !*told && at.is_none_or(|at| now.since(at) >= PAUSE);
    if due {
        (*told, *at) = (true, Some(now));
    }
    due
}

impl Trouble {
    /// Of the group with this name: none yet.
    pub(crate) fn new(group: &str) -> Self {
        Self(Arc::new((group.to_owned(), Mutex::default())))
    }
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A shard could not move data to capacity. Whether that was told.
    pub(crate) fn failed(&self, shard: u8, error: &dyn core::fmt::Display, now: Instant) -> bool {
        let told = &mut *self.told();
        told.failing.insert(shard);
        told.failures += 1;
        let due = is_due(&mut told.warned, &mut told.warned_at, now);
        if due {
            tracing::warn!(group = self.0.0, %error, "data cannot be moved to capacity: it stays in the write buffer, and is tried again");
        }
        due
    }
    /// The log of a shard is full meanwhile, so its writes fail. Whether that was told.
    pub(crate) fn refuses(&self, now: Instant) -> bool {
        let told = &mut *self.told();
        let due = is_due(&mut told.refusing, &mut told.refused_at, now);
        if due {
            tracing::error!(group = self.0.0, "capacity takes no data and the write buffer is full: writes fail");
        }
        due
    }
    /// A shard moves data again. Whether that was told.
    pub(crate) fn ended(&self, shard: u8) -> bool {
        let told = &mut *self.told();
        told.failing.remove(&shard);
        if !told.failing.is_empty() {
            return false;
        }
        let (failures, warned) = (core::mem::take(&mut told.failures), core::mem::take(&mut told.warned));
        told.refusing = false;
        if warned {
            tracing::info!(group = self.0.0, failures, "data is moved to capacity again");
        }
        warned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shards_of_a_group_give_one_warning_and_one_end() {
        let t = Trouble::new("g");
        let at = |s: u64| Instant::default() + Duration::from_secs(s);
        let told =
            (0..8).flat_map(|shard| (0..100).map(move |n| (shard, n))).filter(|(shard, n)| t.failed(*shard, &"full", at(*n))).count();
        assert_eq!(told, 1);
        assert!(t.refuses(at(100)) && !t.refuses(at(200)));
        assert_eq!((0..8).filter(|shard| t.ended(*shard)).collect::<Vec<_>>(), [7], "when the last has ended");
        assert!(!t.ended(7));
    }

    #[test]
    fn what_comes_and_goes_is_told_once_a_minute() {
        let t = Trouble::new("g");
        let mut told = 0;
        for s in 0..300 {
            let now = Instant::default() + Duration::from_secs(s);
            told += u32::from(t.failed(1, &"full", now)) + u32::from(t.refuses(now)) + u32::from(t.ended(1));
        }
        assert_eq!(told, 3 * 5);
    }
}

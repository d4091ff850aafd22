//! What the daemon's log reports when data cannot be moved to capacity: one line for all shards of a group, not one for each that tries again.
//!
//! Owns: which shards of a group are failing, and when that was reported.
//! Invariants: a warning when the first of them begins to fail, and a word when the last has ended; not more often than every [`PAUSE`],
//! whatever comes and goes in between.
//! Never: decides anything; each shard knows for itself what it waits for.

use base::{Duration, Instant};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From one warning to the next.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Reported {
    failing: BTreeSet<u8>,
    /// Failures since the first of them began to fail.
    failures: u64,
    /// It was reported that they fail.
    warned: bool,
    /// It was reported that writes fail.
    refusing: bool,
    warned_at: Option<Instant>,
    refused_at: Option<Instant>,
}

/// Of one group. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Trouble(Arc<(String, Mutex<Reported>)>);

/// Whether something that happens now is to be reported, and notes that it is.
fn is_due(reported: &mut bool, at: &mut Option<Instant>, now: Instant) -> bool {
    let due = !*reported && at.is_none_or(|at| now.since(at) >= PAUSE);
    if due {
        (*reported, *at) = (true, Some(now));
    }
    due
}

impl Trouble {
    /// Of the group with this name: none yet.
    pub(crate) fn new(group: &str) -> Self {
        Self(Arc::new((group.to_owned(), Mutex::default())))
    }
    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A shard could not move data to capacity. Whether that was reported.
    pub(crate) fn failed(&self, shard: u8, error: &dyn core::fmt::Display, now: Instant) -> bool {
        let reported = &mut *self.reported();
        reported.failing.insert(shard);
        reported.failures += 1;
        let due = is_due(&mut reported.warned, &mut reported.warned_at, now);
        if due {
            tracing::warn!(group = self.0.0, %error, "data cannot be moved to capacity: it stays in the write buffer, and is tried again");
        }
        due
    }
    /// The log of a shard is full meanwhile, so its writes fail. Whether that was reported.
    pub(crate) fn refuses(&self, now: Instant) -> bool {
        let reported = &mut *self.reported();
        let due = is_due(&mut reported.refusing, &mut reported.refused_at, now);
        if due {
            tracing::error!(group = self.0.0, "capacity takes no data and the write buffer is full: writes fail");
        }
        due
    }
    /// A shard moves data again. Whether that was reported.
    pub(crate) fn ended(&self, shard: u8) -> bool {
        let reported = &mut *self.reported();
        reported.failing.remove(&shard);
        if !reported.failing.is_empty() {
            return false;
        }
        let (failures, warned) = (core::mem::take(&mut reported.failures), core::mem::take(&mut reported.warned));
        reported.refusing = false;
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
        let reported =
            (0..8).flat_map(|shard| (0..100).map(move |n| (shard, n))).filter(|(shard, n)| t.failed(*shard, &"full", at(*n))).count();
        assert_eq!(reported, 1);
        assert!(t.refuses(at(100)) && !t.refuses(at(200)));
        assert_eq!((0..8).filter(|shard| t.ended(*shard)).collect::<Vec<_>>(), [7], "when the last has ended");
        assert!(!t.ended(7));
    }

    #[test]
    fn what_comes_and_goes_is_reported_once_a_minute() {
        let t = Trouble::new("g");
        let mut reported = 0;
        for s in 0..300 {
            let now = Instant::default() + Duration::from_secs(s);
            reported += u32::from(t.failed(1, &"full", now)) + u32::from(t.refuses(now)) + u32::from(t.ended(1));
        }
        assert_eq!(reported, 3 * 5);
    }
}

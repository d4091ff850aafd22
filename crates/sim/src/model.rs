//! What each block of a volume may hold: linearizable registers with crashes.
//!
//! Each change of a block is a [`Candidate`] with the time it was sent and, once it is known, the time after which it cannot take effect any
//! more: its answer, or the end of the host that did not answer. A change that was answered with success has happened; one that was not
//! may have or may not have. A read that returns a value proves that it was current at some moment of the read.
//!
//! Owns: the candidates of every block.
//! Invariants: what is legal is never called wrong (a candidate goes only when something later is certain); what is certain is never
//! forgotten: an acknowledged change can be replaced only by one that was sent before it was answered, or later.
//! Never: knows about commands, hosts or devices. Times are nanoseconds of the world.

use crate::content::LOST;

/// A value that a block may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The value: 0 for zeroes, [`LOST`] for uncorrectable, else of one write.
    pub value: u64,
    /// The change that makes it.
    pub change: u64,
    /// When it was sent.
    pub sent: u64,
    /// From when on it cannot take effect any more; `u64::MAX` while it can.
    pub settled: u64,
    /// When it was certainly replaced at the latest; `u64::MAX` while it may be current.
    pub gone: u64,
}

/// A block.
#[derive(Clone, Debug)]
pub struct Cell(Vec<Candidate>);

impl Default for Cell {
    fn default() -> Self {
        Cell(vec![Candidate { value: 0, change: 0, sent: 0, settled: 0, gone: u64::MAX }])
    }
}

/// What a run found: a value that may not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What was seen, `None` when it was no content at all.
    pub seen: Option<u64>,
    /// What was legal.
    pub legal: Vec<u64>,
    /// The value was there once: an old version, not garbage.
    pub stale: bool,
}

impl Cell {
    /// What may be current at any moment from `since` on.
    pub fn legal(&self, since: u64) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().filter(move |c| c.gone >= since).map(|c| c.value)
    }
    /// The one value that it certainly has, if there is one and nothing is under way.
    pub fn certain(&self, now: u64) -> Option<u64> {
        let mut values = self.0.iter().filter(|c| c.gone >= now);
        let only = values.next()?;
        (values.next().is_none() && only.settled <= now).then_some(only.value)
    }
    /// A change is sent.
    pub fn sent(&mut self, change: u64, value: u64, now: u64) {
        self.0.push(Candidate { value, change, sent: now, settled: u64::MAX, gone: u64::MAX });
    }
    /// A copy brings what `source` has here. Where old values may return in `source`, they may come along: they count as having been here.
    pub fn adopted(&mut self, source: &Cell) {
        let past = source.0.iter().filter(|c| self.0.iter().all(|mine| mine.value != c.value));
        let past: Vec<_> = past.map(|c| Candidate { settled: 0, gone: 0, ..*c }).collect();
        self.0.splice(0..0, past);
    }
    /// A change was answered with success: it has taken effect between its sending and now.
    pub fn done(&mut self, change: u64, now: u64) {
        let Some(at) = self.0.iter().position(|c| c.change == change) else { return };
        let sent = self.0[at].sent;
        self.0.iter_mut().filter(|c| c.change == change).for_each(|c| c.settled = c.settled.min(now));
        for c in self.0.iter_mut().filter(|c| c.change != change && c.settled < sent) {
            c.gone = c.gone.min(now);
        }
    }
    /// A change was not answered, or with an error: it may have taken effect, or may until `until`.
    pub fn unsure(&mut self, change: u64, until: u64) {
        for c in self.0.iter_mut().filter(|c| c.change == change) {
            c.settled = c.settled.min(until);
        }
    }
    /// A change certainly did not take effect.
    pub fn refused(&mut self, change: u64) {
        self.0.retain(|c| c.change != change);
    }
    /// Everything that can still take effect can until `until` at the latest.
    pub fn cut_off(&mut self, until: u64) {
        for c in &mut self.0 {
            c.settled = c.settled.min(until);
        }
    }
    /// It was out of reach, and what it held is gone: it is zeroes, but for what may still come.
    pub fn erased(&mut self, change: u64, now: u64) {
        for c in self.0.iter_mut().filter(|c| c.settled <= now) {
            c.gone = c.gone.min(now);
        }
        self.0.push(Candidate { value: 0, change, sent: now, settled: now, gone: u64::MAX });
    }
    /// Changes that could still take effect cannot from `now` on, for the time being: these, as they were.
    pub fn withhold(&mut self, which: impl Fn(u64) -> bool, now: u64) -> Vec<Candidate> {
        let mut withheld = Vec::new();
        for c in self.0.iter_mut().filter(|c| c.settled > now && which(c.change)) {
            withheld.push(*c);
            c.settled = now;
        }
        withheld
    }
    /// A change that was withheld may take effect again, whatever was seen in between.
    pub fn release(&mut self, withheld: Candidate) {
        // A copy may bring one of two values.
        self.0.retain(|c| (c.change, c.value) != (withheld.change, withheld.value));
        self.0.push(withheld);
    }
    /// A read that was sent at `since` returned this value.
    pub fn seen(&mut self, value: Option<u64>, since: u64, now: u64) -> Result<(), Wrong> {
        let found = value.is_some_and(|v| self.legal(since).any(|l| l == v));
        let (true, Some(value)) = (found, value) else {
            let mut legal: Vec<u64> = self.legal(since).collect();
            legal.sort_unstable();
            legal.dedup();
            return Err(Wrong { seen: value, legal, stale: value.is_some_and(|v| self.0.iter().any(|c| c.value == v)) });
        };
        for c in self.0.iter_mut().filter(|c| c.value != value && c.settled < since) {
            c.gone = c.gone.min(now);
        }
        Ok(())
    }
    /// A comparison with `value` that was sent at `since` found a difference.
    pub fn differed(&self, value: u64, since: u64) -> bool {
        self.legal(since).any(|v| v != value)
    }
    /// Whether reading it may fail because it was declared uncorrectable.
    pub fn may_be_lost(&self, since: u64) -> bool {
        self.legal(since).any(|v| v == LOST)
    }
    /// Forgets what no request that was sent from `since` on can see; keeps `history` of the newest for the sake of messages.
    pub fn forget(&mut self, since: u64, history: usize) {
        let excess = self.0.iter().filter(|c| c.gone < since).count().saturating_sub(history);
        let mut left = excess;
        self.0.retain(|c| {
            let old = c.gone < since && left > 0;
            left -= usize::from(old);
            !old
        });
    }
    /// All candidates, for messages.
    pub fn candidates(&self) -> &[Candidate] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_change_replaces_what_was_settled_before_it_was_sent() {
        let mut c = Cell::default();
        c.sent(1, 11, 10);
        assert!(c.seen(Some(0), 12, 13).is_ok() && c.seen(Some(11), 14, 15).is_ok(), "under way: both may be read, in this order");
        assert!(c.seen(Some(0), 16, 17).is_err(), "and not back again");
        c.done(1, 20);
        assert_eq!(c.certain(21), Some(11));
        assert_eq!(c.seen(None, 22, 23).unwrap_err().legal, [11]);
    }

    #[test]
    fn changes_that_overlap_may_happen_in_either_order() {
        let mut c = Cell::default();
        c.sent(1, 11, 10);
        c.sent(2, 22, 11);
        c.done(2, 15);
        c.done(1, 16);
        assert_eq!(c.legal(20).collect::<Vec<_>>(), [11, 22]);
        assert!(c.seen(Some(22), 20, 21).is_ok());
        assert!(c.seen(Some(11), 22, 23).is_err());
    }

    #[test]
    fn a_read_that_began_earlier_may_still_return_what_another_read_saw_replaced() {
        let mut c = Cell::default();
        c.sent(1, 11, 10);
        assert!(c.seen(Some(11), 12, 20).is_ok());
        assert!(c.seen(Some(0), 11, 21).is_ok(), "it was sent before the other one ended");
        assert!(c.seen(Some(0), 21, 22).is_err());
    }

    #[test]
    fn an_unanswered_change_may_appear_until_it_is_cut_off_and_once_seen_stays() {
        let mut c = Cell::default();
        c.sent(1, 11, 10);
        c.unsure(1, u64::MAX);
        assert!(c.seen(Some(0), 30, 31).is_ok(), "not yet");
        assert!(c.seen(Some(11), 40, 41).is_ok(), "then it came");
        assert!(c.seen(Some(0), 50, 51).is_err());
        let mut c = Cell::default();
        c.sent(1, 11, 10);
        c.unsure(1, 20);
        assert!(c.seen(Some(0), 30, 31).is_ok());
        assert!(c.seen(Some(11), 40, 41).is_err(), "it could not come any more");
    }

    #[test]
    fn what_was_erased_is_gone_but_for_what_was_not_answered() {
        let mut c = Cell::default();
        c.sent(1, 11, 10);
        c.sent(2, 22, 12);
        c.done(1, 20);
        c.erased(3, 30);
        assert_eq!(c.legal(31).collect::<Vec<_>>(), [22, 0], "the second is still on its way");
        c.done(2, 40);
        assert!(c.clone().seen(Some(11), 50, 51).is_err() && c.clone().seen(Some(22), 50, 51).is_ok() && c.seen(Some(0), 50, 51).is_ok());
    }

    #[test]
    fn a_change_that_is_withheld_may_appear_only_before_and_after() {
        let mut c = Cell::default();
        c.sent(1, 11, 10);
        let withheld = c.withhold(|change| change == 1, 20);
        assert!(c.seen(Some(0), 30, 31).is_ok(), "it had not come");
        assert!(c.clone().seen(Some(11), 40, 41).is_err(), "so it may not now");
        assert!(c.withhold(|_| true, 45).is_empty(), "what is withheld is so already");
        c.release(withheld[0]);
        assert!(c.seen(Some(0), 50, 51).is_ok() && c.seen(Some(11), 60, 61).is_ok(), "afterwards it may come");
        assert!(c.seen(Some(0), 70, 71).is_err());
    }

    #[test]
    fn what_a_copy_brings_along_is_old_and_not_legal() {
        let (mut from, mut to) = (Cell::default(), Cell::default());
        from.sent(1, 11, 10);
        from.done(1, 20);
        from.sent(2, 22, 30);
        from.done(2, 40);
        to.adopted(&from);
        to.sent(3, 22, 50);
        to.done(3, 60);
        assert_eq!(to.seen(Some(11), 70, 71), Err(Wrong { seen: Some(11), legal: vec![22], stale: true }));
        assert!(!to.seen(Some(33), 70, 71).unwrap_err().stale);
        assert!(to.seen(Some(22), 70, 71).is_ok());
    }

    #[test]
    fn forgetting_keeps_what_may_be_current() {
        let mut c = Cell::default();
        for n in 1..50 {
            c.sent(n, n + 100, n * 10);
            c.done(n, n * 10 + 5);
            c.forget(n * 10, 2);
        }
        assert!(c.candidates().len() <= 4);
        assert_eq!(c.certain(1000), Some(149));
    }
}

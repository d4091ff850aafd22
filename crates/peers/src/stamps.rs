//! Which stamp a request gets that came at a time.
//!
//! Invariant: what is said of the owner's clock at a time is not later than it was.
//! Assumption: rates of clocks differ by a tenth at most.

use crate::limits::STAMPS_MAX;
use base::{Duration, Instant};
use object::link::Stamp;
use std::collections::VecDeque;

/// The stamps that were heard on a link, with the times when they were.
#[derive(Debug, Default)]
pub(crate) struct Stamps(VecDeque<(Instant, Stamp)>);

impl Stamps {
    /// Nothing of an ended link counts for the next.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// The newest, as it is heard now.
    pub fn hear(&mut self, now: Instant, stamp: Stamp) {
        if self.0.back().is_some_and(|(_, last)| *last == stamp) {
            return;
        }
        if self.0.len() == STAMPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, stamp));
    }
    /// That of a request that came then. `None`: nothing was heard of the owner yet.
    pub fn of(&self, came: Instant) -> Option<Stamp> {
        if let Some((_, stamp)) = self.0.iter().rev().find(|(heard, _)| *heard <= came) {
            return Some(*stamp);
        }
        // It came before: so much earlier it was at the owner, and a tenth more.
        let (heard, stamp) = self.0.front()?;
        let before = heard.since(came).as_nanos() as u64;
        Some(Stamp { clock: Instant(stamp.clock.0.saturating_sub(before + before / 10)), ..*stamp })
    }
}

/// Whether this core was paused: then what it reads may be old.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    looked: Option<Instant>,
    /// From and until when what is read counts as of before the pause.
    pause: Option<(Instant, Instant)>,
}

impl Pauses {
    /// The core looks. `awake`: it has deadlines that wake it.
    pub fn look(&mut self, now: Instant, awake: bool, min: Duration, distrust: Duration) {
        if let Some(looked) = self.looked
            && awake
            && now.since(looked) >= min
        {
            self.pause = Some((looked, now + distrust));
        }
        self.looked = Some(now);
    }
    /// When a request came that was read then.
    pub fn came(&self, read: Instant) -> Instant {
        match self.pause {
            Some((from, until)) if read >= from && read < until => from,
            _ => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::peer::Incarnation;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }
    fn stamp(ms: u64) -> Stamp {
        Stamp { incarnation: Incarnation(1), clock: at(ms) }
    }

    #[test]
    fn a_request_has_the_stamp_that_was_heard_before_it_came() {
        let mut stamps = Stamps::default();
        assert_eq!(stamps.of(at(5)), None);
        stamps.hear(at(100), stamp(7000));
        stamps.hear(at(150), stamp(7050));
        assert_eq!(stamps.of(at(120)), Some(stamp(7000)));
        assert_eq!(stamps.of(at(150)), Some(stamp(7050)));
        assert_eq!(stamps.of(at(900)), Some(stamp(7050)));
        assert_eq!(stamps.of(at(50)), Some(stamp(7000 - 55)), "before anything was heard: so much earlier, and a tenth");
        for n in 0..100 {
            stamps.hear(at(200 + n), stamp(8000 + n));
        }
        assert_eq!(stamps.0.len(), STAMPS_MAX);
    }

    #[test]
    fn what_is_read_after_a_pause_counts_as_of_before_it() {
        let (min, distrust) = (Duration::from_millis(200), Duration::from_millis(250));
        let mut pauses = Pauses::default();
        for ms in [0, 50, 100, 299] {
            pauses.look(at(ms), true, min, distrust);
            assert_eq!(pauses.came(at(ms)), at(ms));
        }
        pauses.look(at(5000), false, min, distrust);
        assert_eq!(pauses.came(at(5000)), at(5000), "it slept, with nothing to wake it");
        pauses.look(at(9000), true, min, distrust);
        assert_eq!((pauses.came(at(9000)), pauses.came(at(9249)), pauses.came(at(9250))), (at(5000), at(5000), at(9250)));
    }
}

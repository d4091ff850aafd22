//! Rates: over seconds a volume gives what its limits let through while there is demand, never more, and other limits count at once, also for
//! what waits.

use super::*;

/// The unit of the IOPS limit, in bytes.
const UNIT_BYTES: u64 = 32 << 10;
/// How far a volume that was quiet may run ahead, in seconds.
const BURST: f64 = 0.1;
/// What an answer may take beside its turn, in seconds: devices of some plans are late.
const SLACK: f64 = 0.3;
/// Most commands in a second that a limit lets through.
const COMMANDS_MAX: u64 = 45;
/// Commands in flight.
const DEPTH: usize = 6;

/// An answer: when, and what it counted.
type Given = (f64, u64);

impl Exam<'_> {
    pub(super) fn rates(&mut self) -> Held {
        let of = self.subject();
        let queues = 1 + self.rng.below(3) as u16;
        let port = self.port(queues, 0, 0)?;
        let lba = u64::from(of.ns.lba_bytes);
        // All but the last block, which is trimmed meanwhile, holds what is compared.
        let most = (of.ns.blocks - 1).min((128 << 10) / lba);
        let len = [lba, (UNIT_BYTES / lba).clamp(1, most) * lba, (UNIT_BYTES / lba + 1).min(most) * lba, most * lba];
        let len = len[self.rng.below(4) as usize];
        // A limit is what holds back here, and not a device.
        let len = if len * COMMANDS_MAX * 2 > self.slowest { lba } else { len };
        self.good(port.io[0], &of, Io::Write { offset: 0, data: vec![7; len as usize], fua: false })?;
        let by_bytes = self.rng.one_in(2);
        // What a command counts, and a rate at which some 20 of them pass a second.
        let one = if by_bytes { len } else { len.div_ceil(UNIT_BYTES) };
        let rate = one * (12 + self.rng.below(16));
        let limits = |rate: u64| if by_bytes { (None, Some(rate)) } else { (Some(rate), None) };
        let (iops, bytes) = limits(rate);
        self.limit(of.at, iops, bytes)?;
        self.pause(Duration::from_millis(300));
        let mut waiting = Vec::new();
        self.demand(&port, &of, len, one, rate, 2.2, &mut waiting)?;
        // A crawl: nothing more comes for seconds; what does not count against the limit does all the same.
        let (iops, bytes) = limits((one / 20).max(1));
        self.limit(of.at, iops, bytes)?;
        self.pause(Duration::from_millis(400));
        drop(self.answered(&mut waiting)?);
        self.fill(&port, &of, len, &mut waiting)?;
        // On a queue of their own: those that crawl may have all the buffers of theirs.
        let link = self.port(1, 0, 0)?.io[0];
        for free in [Io::Flush, Io::Deallocate(vec![((of.ns.blocks - 1) * lba, lba)])] {
            let began = self.now();
            self.good(link, &of, free)?;
            let took = (self.now() - began) as f64 / 1e9;
            self.must(took < SLACK, || format!("a command that no limit counts took {took} s"))?;
        }
        let live = self.lab.workload.borrow().all_live();
        if let Some(other) = live.into_iter().find(|at| *at != of.at) {
            let other = self.subject_at(other);
            let began = self.now();
            self.good(link, &other, Io::Read { offset: 0, len: other.ns.lba_bytes })?;
            let took = (self.now() - began) as f64 / 1e9;
            self.must(took < SLACK, || format!("a read of a volume beside one that crawls took {took} s"))?;
        }
        // Other limits count at once, also for those that wait.
        let rate = one * (15 + self.rng.below(30));
        let (iops, bytes) = limits(rate);
        self.limit(of.at, iops, bytes)?;
        self.demand(&port, &of, len, one, rate, 1.2, &mut waiting)?;
        // And none at all.
        let (iops, bytes) = limits((one / 20).max(1));
        self.limit(of.at, iops, bytes)?;
        self.fill(&port, &of, len, &mut waiting)?;
        self.pause(Duration::from_millis(200));
        self.limit(of.at, None, None)?;
        let began = self.now();
        for (link, tag) in core::mem::take(&mut waiting) {
            let (done, at) = self.answer(link, tag, "a command that waited when its limit was taken away")?;
            let took = at.saturating_sub(began) as f64 / 1e9;
            self.must(done.cqe.status.is_success() && took < SLACK, || {
                format!("a command that waited when its limit was taken away was answered {took} s later with {:?}", done.cqe.status)
            })?;
        }
        self.empty(link, &of)
    }

    /// Has as many commands in flight as it may.
    fn fill(&mut self, port: &Port, of: &Subject, len: u64, waiting: &mut Vec<(usize, u64)>) -> Held {
        while waiting.len() < DEPTH {
            let link = port.io[self.rng.below(port.io.len() as u64) as usize];
            let io = match self.rng.below(4) {
                0 => Io::Write { offset: 0, data: vec![7; len as usize], fua: false },
                1 => Io::Compare { offset: 0, data: vec![7; len as usize] },
                2 => Io::Verify { offset: 0, len },
                _ => Io::Read { offset: 0, len: len as u32 },
            };
            let tag = self.send(link, io.request(&of.ns, 0))?;
            waiting.push((link, tag));
        }
        Ok(())
    }

    /// Keeps commands in flight for so many seconds, and judges what came.
    #[allow(clippy::too_many_arguments)]
    fn demand(&mut self, port: &Port, of: &Subject, len: u64, one: u64, rate: u64, secs: f64, waiting: &mut Vec<(usize, u64)>) -> Held {
        let began = self.now();
        let time = |at: u64| at.saturating_sub(began) as f64 / 1e9;
        let mut given: Vec<Given> = Vec::new();
        while time(self.now()) < secs {
            self.fill(port, of, len, waiting)?;
            let left = Duration::from_nanos(((secs - time(self.now())) * 1e9) as u64 + 1);
            let (examiner, flying) = (Rc::clone(&self.examiner), waiting.clone());
            self.lab.run(left, |_, _| flying.iter().any(|(link, tag)| examiner.borrow().has(*link, *tag)));
            // What was answered under the limit before says nothing of this one.
            let answers = self.answered(waiting)?;
            given.extend(answers.into_iter().filter(|at| *at >= began).map(|at| (time(at), one)));
        }
        self.judge_rate(&given, one as f64, rate as f64, secs)
    }
    /// Takes out the commands that were answered. When each was.
    fn answered(&self, waiting: &mut Vec<(usize, u64)>) -> Result<Vec<u64>, Stop> {
        let mut answers = Vec::new();
        let mut still = Vec::new();
        for (link, tag) in core::mem::take(waiting) {
            let answer = self.examiner.borrow_mut().take(link, tag);
            match answer {
                Some((done, at)) => {
                    let status = done.cqe.status;
                    self.must(status.is_success(), || format!("a command within limits failed with {status:?}"))?;
                    answers.push(at);
                }
                None => still.push((link, tag)),
            }
        }
        *waiting = still;
        Ok(answers)
    }
    fn judge_rate(&self, given: &[Given], one: f64, rate: f64, secs: f64) -> Held {
        if let Some((sum, within)) = beyond(given, one, rate) {
            return self.must(false, || format!("{sum} came within {within} s at a rate of {rate}, in steps of {one}"));
        }
        let all: u64 = given.iter().map(|g| g.1).sum();
        let least = rate * (secs - SLACK) - 2.0 * one;
        self.must(all as f64 >= least, || {
            format!("{all} came within {secs} s at a rate of {rate}, in steps of {one}, with {DEPTH} in flight")
        })
    }
}

/// The first stretch of answers that counts more than a rate lets through: what it counts, and its seconds.
///
/// A limit holds back when commands begin, and what is seen is when they end. Where a device is late, those in flight at the first answer began
/// up to [`SLACK`] before it and may all be answered with the next.
fn beyond(given: &[Given], one: f64, rate: f64) -> Option<(f64, f64)> {
    let late = (rate * SLACK).min((DEPTH - 1) as f64 * one);
    given.iter().enumerate().find_map(|(at, (from, _))| {
        let mut sum = 0.0;
        given[at..].iter().find_map(|(until, n)| {
            sum += *n as f64;
            let within = until - from;
            (sum > rate * (within + BURST) + late + 2.0 * one).then_some((sum, within))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers at so many milliseconds, each of which counts two.
    fn at(ms: &[u32]) -> Vec<Given> {
        ms.iter().map(|ms| (f64::from(*ms) / 1e3, 2)).collect()
    }

    #[test]
    fn answers_that_a_late_device_gives_together_are_within_the_rate() {
        // Seed 26976: begun 26 ms from each other, the first four at once.
        let given = at(&[65, 67, 141, 141, 188, 188, 188, 188, 188, 188, 216, 217, 226, 285, 289, 294, 384, 384, 394, 400]);
        assert_eq!(beyond(&given, 2.0, 76.0), None);
    }

    #[test]
    fn a_rate_that_is_doubled_and_a_burst_that_is_too_long_are_beyond_it() {
        let doubled: Vec<u32> = (0..80).map(|n| n * 13).collect();
        assert!(beyond(&at(&doubled), 2.0, 76.0).is_some());
        let burst = [vec![0; 38], (0..30).map(|n| n * 26).collect()].concat();
        assert!(beyond(&at(&burst), 2.0, 76.0).is_some());
    }
}

//! Silence: a host that says nothing is given up after its keep-alive time, not before; one that says anything, on any queue, is not.

use super::*;

/// The keep-alive time, in milliseconds.
const KATO_MS: u32 = 1000;
/// How soon after its time a host is given up: traffic counts for the interval it was in, and clocks are looked at once a second.
const LATE_NS: u64 = 2_300_000_000;
/// Time between signs of life, in milliseconds.
const BEAT_MS: u64 = 800;
/// Signs of life.
const BEATS: u64 = 5;

impl Exam<'_> {
    pub(super) fn silence(&mut self) -> Held {
        let of = self.subject();
        let silent = self.port(1, KATO_MS, 0)?;
        let since_silent = self.now();
        let beating = self.port(1, KATO_MS, 0)?;
        let working = self.port(3, KATO_MS, 0)?;
        let endless = self.port(1, 0, 0)?;
        let shorter = self.port(1, 60_000, 0)?;
        self.set_kato(&shorter, KATO_MS)?;
        let since_shorter = self.now();
        let longer = self.port(1, KATO_MS, 0)?;
        self.set_kato(&longer, 30_000)?;
        let never = self.port(1, KATO_MS, 0)?;
        self.set_kato(&never, 0)?;
        let mut last = 0;
        for beat in 0..BEATS {
            self.pause(Duration::from_millis(BEAT_MS));
            self.keep_alive(&beating)?;
            let link = working.io[beat as usize % working.io.len()];
            self.good(link, &of, Io::Read { offset: 0, len: of.ns.lba_bytes })?;
            last = self.now();
        }
        for (port, what) in [(&beating, "keep-alives"), (&working, "I/O"), (&endless, "no keep-alive time")] {
            self.stays(port, what)?;
        }
        for (port, what) in [(&longer, "a keep-alive time that was made longer"), (&never, "a keep-alive time that was taken away")] {
            self.stays(port, what)?;
        }
        self.goes(&silent, since_silent, "silent")?;
        self.goes(&shorter, since_shorter, "silent with a keep-alive time that was made shorter")?;
        self.pause(Duration::from_nanos(u64::from(KATO_MS) * 1_000_000 + LATE_NS));
        self.goes(&beating, last, "silent since its last keep-alive")?;
        self.goes(&working, last, "silent since its last I/O")?;
        self.stays(&endless, "no keep-alive time")?;
        self.stays(&longer, "a keep-alive time that was made longer")?;
        self.stays(&never, "a keep-alive time that was taken away")
    }
    fn set_kato(&mut self, port: &Port, kato_ms: u32) -> Held {
        let sqe = SetFeatures { fid: feature::FID_KEEP_ALIVE, save: false, cdw11: kato_ms, nsid: 0 }.sqe(0);
        self.admin(port.admin, sqe, Payload::None).map(drop)
    }
    fn stays(&mut self, port: &Port, what: &str) -> Held {
        for link in port.io.iter().copied().chain([port.admin]) {
            let gone = self.examiner.borrow().gone(link);
            self.must(gone.is_none(), || format!("a host with {what} was given up"))?;
        }
        Ok(())
    }
    fn goes(&mut self, port: &Port, since: u64, what: &str) -> Held {
        for link in port.io.iter().copied().chain([port.admin]) {
            let gone = self.examiner.borrow().gone(link).map(|at| at.saturating_sub(since));
            let kato = u64::from(KATO_MS) * 1_000_000;
            self.must(gone.is_some_and(|ns| (kato - 100_000_000..kato + LATE_NS).contains(&ns)), || {
                format!("a host that was {what}, with {KATO_MS} ms, was given up after {:?} ms", gone.map(|ns| ns / 1_000_000))
            })?;
        }
        Ok(())
    }
}

//! How fast a modelled drive is: one media that reads and writes share, a buffer that hides it from writes, a link to each side.
//!
//! Owns: the model and its state. Pure: times come in, times go out. What the figures mean and where they come from: `docs/lab-models.md`.
//! Invariants: no work is lost or done twice: over any time the media does what it was given, at its speed; the same calls with the same
//! generator give the same times.
//! Never: holds data; knows about faults (`disk`).
//!
//! ```text
//!  read  ──► media (shared fairly with the writes that drain) ──► link ──► latency ──► done
//!  write ──► link ──► buffer, when it has room ──► latency ──► done
//!                        └──► media: bytes x write amplification
//! ```

use super::rng::Rng;

/// Share of the media that reads get while writes also wait for it, and the reverse.
const READ_WEIGHT: f64 = 0.5;
/// Time over which the mix of the media's work is averaged, in nanoseconds.
const MIX_NS: f64 = 20e6;
/// Bytes over which the share of random writes is averaged.
const PATTERN_BYTES: f64 = 16_777_216.0;
/// Ends of write streams that are remembered: a write that begins at one of them is sequential.
const STREAMS: usize = 256;
/// Backlogs below this are nothing, in nanoseconds of media time.
const NOTHING_NS: f64 = 1e-3;

/// What reads and writes reach together, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixedSpeed {
    /// Of reads.
    pub read_bytes_per_s: f64,
    /// Of writes, at the same time.
    pub write_bytes_per_s: f64,
}

/// A part of the media that is faster to write, as long as it is not full (SLC cache).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FastPart {
    /// Its size in bytes.
    pub bytes: f64,
    /// How fast it is written, in bytes a second.
    pub bytes_per_s: f64,
}

/// The figures of a drive. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveSpeed {
    /// A read besides media and link, (least, most).
    pub read_ns: (u64, u64),
    /// A write besides buffer and link, (least, most).
    pub write_ns: (u64, u64),
    /// A flush, (least, most).
    pub flush_ns: (u64, u64),
    /// Reads a second at most, whatever their size.
    pub read_iops: f64,
    /// Bytes read a second at most.
    pub read_bytes_per_s: f64,
    /// Writes a second at most, whatever their size.
    pub write_iops: f64,
    /// Bytes written a second, sustained, in order.
    pub write_bytes_per_s: f64,
    /// Bytes of flash beyond what the drive offers, as a share of that: what garbage collection has to work with. Infinite: there is none (no flash).
    pub spare: f64,
    /// The share of the drive that holds data, 0 to 1.
    pub used: f64,
    /// What reads and writes reach together; `None`: each takes the time that it would take alone.
    pub mixed: Option<MixedSpeed>,
    /// Writes that are answered before they are on the media, in bytes.
    pub buffer_bytes: f64,
    /// What a read waits for when it meets a write on its die, (least, most). It meets one with the probability that the media is writing.
    pub collision_ns: (u64, u64),
    /// A faster part of the media.
    pub fast: Option<FastPart>,
    /// Bytes a second of the link, each way.
    pub link_bytes_per_s: f64,
    /// One in so many operations takes [`DriveSpeed::tail_times`] its latency; 0: none.
    pub tail_one_in: u64,
    /// See [`DriveSpeed::tail_one_in`].
    pub tail_times: u64,
}

impl DriveSpeed {
    /// Bytes that the media writes for each byte that is written at random, all over what is used: `(1 + s) / 2s` with `s` the spare bytes over the used
    /// ones, never below 1 (greedy garbage collection, uniform writes).
    pub fn random_amplification(&self) -> f64 {
        if self.spare.is_infinite() {
            return 1.0;
        }
        let spare = ((1.0 + self.spare) / self.used.clamp(0.01, 1.0) - 1.0).max(1e-3);
        ((1.0 + spare) / (2.0 * spare)).max(1.0)
    }
    /// The spare share with which a full drive writes `random` bytes a second at random and `sequential` in order.
    pub fn spare_for(sequential: f64, random: f64) -> f64 {
        let amplification = (sequential / random).max(1.0);
        if amplification <= 1.0 { f64::INFINITY } else { 1.0 / (2.0 * amplification - 1.0) }
    }
    /// The same drive with one `n`th of its media: rates and buffers shrink, latencies and the link stay.
    pub fn slice(&self, n: f64) -> DriveSpeed {
        DriveSpeed {
            read_iops: self.read_iops / n,
            read_bytes_per_s: self.read_bytes_per_s / n,
            write_iops: self.write_iops / n,
            write_bytes_per_s: self.write_bytes_per_s / n,
            mixed: self.mixed.map(|m| MixedSpeed { read_bytes_per_s: m.read_bytes_per_s / n, write_bytes_per_s: m.write_bytes_per_s / n }),
            buffer_bytes: self.buffer_bytes / n,
            fast: self.fast.map(|f| FastPart { bytes: f.bytes / n, bytes_per_s: f.bytes_per_s / n }),
            ..*self
        }
    }
    /// At the published mix: share of reads in the media's work, and the media's speed then (1: reads and writes cost what they cost alone).
    fn published_mix(&self) -> Option<(f64, f64)> {
        let m = self.mixed?;
        let (r, w) = (m.read_bytes_per_s / self.read_bytes_per_s, m.write_bytes_per_s / self.write_bytes_per_s);
        (r > 0.0 && w > 0.0).then_some((r / (r + w), r + w))
    }
    /// The media's speed when reads are the share `x` of its work: 1 at both ends, through the published point between them.
    fn speed(&self, x: f64) -> f64 {
        let Some((at, speed)) = self.published_mix() else { return 1.0 };
        let slope = (speed - 1.0) / (at * (1.0 - at));
        (1.0 + slope * x * (1.0 - x)).clamp(0.05, 4.0)
    }
}

/// A drive at work.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    pub(crate) speed: DriveSpeed,
    now: u64,
    /// Work that waits for the media, in its nanoseconds.
    reads: f64,
    writes: f64,
    /// Averages: share of reads in the media's work, share of time that it writes, share of writes that are random.
    mix: f64,
    writing: f64,
    random: f64,
    fast_used: f64,
    link_in: u64,
    link_out: u64,
    ends: [u64; STREAMS],
    ends_at: usize,
}

impl Drive {
    pub(crate) fn new(speed: DriveSpeed) -> Drive {
        Drive {
            speed,
            now: 0,
            reads: 0.0,
            writes: 0.0,
            mix: 0.0,
            writing: 0.0,
            random: 0.0,
            fast_used: 0.0,
            link_in: 0,
            link_out: 0,
            ends: [u64::MAX; STREAMS],
            ends_at: 0,
        }
    }

    /// The media works until `now`.
    fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now) as f64;
        self.now = self.now.max(now);
        if passed <= 0.0 {
            return;
        }
        let mut left = passed * self.speed.speed(self.mix);
        let (mut read, mut written) = (0.0, 0.0);
        while left > NOTHING_NS && (self.reads > NOTHING_NS || self.writes > NOTHING_NS) {
            let weight = match (self.reads > NOTHING_NS, self.writes > NOTHING_NS) {
                (true, true) => READ_WEIGHT,
                (true, false) => 1.0,
                _ => 0.0,
            };
            let mut step = left;
            if weight > 0.0 {
                step = step.min(self.reads / weight);
            }
            if weight < 1.0 {
                step = step.min(self.writes / (1.0 - weight));
            }
            self.reads = (self.reads - step * weight).max(0.0);
            self.writes = (self.writes - step * (1.0 - weight)).max(0.0);
            read += step * weight;
            written += step * (1.0 - weight);
            left -= step;
        }
        let keep = (-passed / MIX_NS).exp();
        if read + written > 0.0 {
            // the mix of the work that was done, weighed by how much that was
            let keep = (-(read + written) / MIX_NS).exp();
            self.mix = self.mix * keep + read / (read + written) * (1.0 - keep);
        }
        self.writing = self.writing * keep + (written / passed).min(1.0) * (1.0 - keep);
        if left > 0.0 {
            // what is left of the time empties the fast part
            self.fast_used = (self.fast_used - left * self.speed.write_bytes_per_s / 1e9).max(0.0);
        }
    }

    /// How long it takes until `mine` of one kind's backlog is done, when `other` of the other kind waits too.
    fn wait(&self, mine: f64, other: f64, weight: f64) -> f64 {
        let speed = self.speed.speed(self.mix);
        if mine <= 0.0 {
            return 0.0;
        }
        let shared = if mine / weight <= other / (1.0 - weight) { mine / weight } else { mine + other };
        shared / speed
    }

    fn tail(&self, latency: u64, rng: &mut Rng) -> u64 {
        if self.speed.tail_one_in > 0 && rng.one_in(self.speed.tail_one_in) { latency * self.speed.tail_times } else { latency }
    }

    fn transfer(&self, bytes: u64) -> u64 {
        (bytes as f64 * 1e9 / self.speed.link_bytes_per_s) as u64
    }

    /// When a read that is submitted now ends.
    pub(crate) fn read(&mut self, now: u64, bytes: u64, rng: &mut Rng) -> u64 {
        self.advance(now);
        self.reads += (1e9 / self.speed.read_iops).max(bytes as f64 * 1e9 / self.speed.read_bytes_per_s);
        let media = now + self.wait(self.reads, self.writes, READ_WEIGHT) as u64;
        self.link_out = self.link_out.max(now) + self.transfer(bytes);
        let mut latency = rng.between(self.speed.read_ns);
        latency = self.tail(latency, rng);
        if self.speed.collision_ns.1 > 0 && (rng.below(1 << 20) as f64) < self.writing * f64::from(1 << 20) {
            latency += rng.between(self.speed.collision_ns);
        }
        media.max(self.link_out) + latency
    }

    /// When a write of `bytes` at `offset` of the drive that is submitted now ends. It survives a loss of power from then on.
    pub(crate) fn write(&mut self, now: u64, offset: u64, bytes: u64, rng: &mut Rng) -> u64 {
        self.advance(now);
        self.notice_pattern(offset, bytes);
        let work = self.write_work(bytes as f64);
        self.writes += work;
        let buffer = self.speed.buffer_bytes * 1e9 / self.speed.write_bytes_per_s;
        let media = now + self.wait(self.writes - buffer, self.reads, 1.0 - READ_WEIGHT) as u64;
        self.link_in = self.link_in.max(now) + self.transfer(bytes);
        let latency = rng.between(self.speed.write_ns);
        media.max(self.link_in) + self.tail(latency, rng)
    }

    /// When a flush that is submitted now ends.
    pub(crate) fn flush(&mut self, now: u64, rng: &mut Rng) -> u64 {
        self.advance(now);
        now + rng.between(self.speed.flush_ns)
    }

    fn notice_pattern(&mut self, offset: u64, bytes: u64) {
        let known = self.ends.iter().position(|end| *end == offset);
        let weight = 1.0 - (-(bytes as f64) / PATTERN_BYTES).exp();
        let random = f64::from(u8::from(known.is_none()));
        self.random += (random - self.random) * weight;
        let at = known.unwrap_or(self.ends_at);
        if known.is_none() {
            self.ends_at = (self.ends_at + 1) % STREAMS;
        }
        self.ends[at] = offset + bytes;
    }

    /// Bytes that the media writes for each byte, now.
    pub(crate) fn amplification(&self) -> f64 {
        1.0 + self.random * (self.speed.random_amplification() - 1.0)
    }

    fn write_work(&mut self, bytes: f64) -> f64 {
        let least = 1e9 / self.speed.write_iops;
        if let Some(fast) = self.speed.fast.filter(|f| self.fast_used + bytes <= f.bytes) {
            self.fast_used += bytes;
            return least.max(bytes * 1e9 / fast.bytes_per_s);
        }
        least.max(bytes * 1e9 / self.speed.write_bytes_per_s * self.amplification())
    }
}

#[cfg(test)]
#[path = "speed_tests.rs"]
mod tests;

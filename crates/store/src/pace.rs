//! The pace of a shard: how hard destaging works, and how fast writes are let into the log.
//!
//! Owns: the controller. Pure: time and fill come in, decisions go out, so it is tested with a small simulation.
//! Invariants: both answers are continuous in the fill, so there is no level at which a workload falls off a cliff; the
//! admission rate is never zero while the log has room.
//! Never: does I/O, reads a clock, knows about segments.
//!
//! With F the share of the log that is not yet on capacity, low/high the settings, `s` = smoothstep((F-low)/(high-low)):
//! * destage effort is `s` of [`DESTAGE_WORKERS`] (0 below low, all of them from high on);
//! * admission is free up to high; above, a token bucket of rate `drain * 64^((mid-F)/(mid-high))`, where `drain` is the
//!   measured speed at which destaging retires the log and `mid` lies half way from high to the ceiling (what is left
//!   when reserve segments and data that waits for its checkpoint are taken off). So a sustained overload settles
//!   near `F = mid` with intake = drain, and a burst may run up to 64 times the drain just above high.
//!
//! [`Rules::Stepped`] is another controller, to compare with: what a published design does. It has the steps that this one was made to avoid.

use base::{Duration, Instant};

/// Chunk jobs in flight at full effort.
pub(crate) const DESTAGE_WORKERS: usize = 4;
/// Effort of the drain of an idle shard, in workers.
const IDLE_EFFORT: f64 = 0.5;
/// Intake over drain at `high`; its inverse at the ceiling.
const GAIN: f64 = 64.0;
/// The token bucket holds this much time.
const BURST: Duration = Duration::from_millis(2);
/// Admission never falls below this, in bytes/s, so that a shard whose capacity fails still fills its log.
const RATE_MIN: f64 = 1_048_576.0;
/// What is assumed before the first measurement, in bytes/s.
const DRAIN_ASSUMED: f64 = 64.0 * 1_048_576.0;
/// A measurement spans at least this.
const WINDOW: Duration = Duration::from_millis(50);
/// Weight of the newest measurement.
const WEIGHT: f64 = 0.3;
/// Share of the log that may be destaged but wait for a checkpoint before one is due.
pub(crate) const CHECKPOINT_SHARE: f64 = 1.0 / 8.0;

/// How destaging and admission follow from the fill.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rules {
    /// As the module says.
    #[default]
    Smooth,
    /// Nothing below `fill_low`; from there to `fill_high` destaging with a limited rate; above, destaging without limit and admission
    /// at the speed of destaging. For comparisons only: fill swings about `fill_high`, and so does latency.
    Stepped {
        /// Bytes a second that a shard may destage at `fill_low`.
        low_bytes_per_s: f64,
        /// And at `fill_high`; between the two the rate grows by the same factor for each step of fill.
        high_bytes_per_s: f64,
    },
}

/// What an operator may set; takes effect at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Below this share of the log nothing is destaged (unless idle). 0..1.
    pub fill_low: f64,
    /// From this share on destaging has priority and writes are paced. `fill_low`..1.
    pub fill_high: f64,
    /// After this long without a write the log is drained gently.
    pub idle_drain: Duration,
    /// How fast scrubbing reads, in bytes/s.
    pub scrub_bytes_per_s: u64,
    /// How pace follows from the fill.
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fill_low: 0.30, fill_high: 0.70, idle_drain: Duration::from_secs(5), scrub_bytes_per_s: 32 << 20, rules: Rules::Smooth }
    }
}

/// How hard to destage now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Jobs that may be in flight.
    pub workers: usize,
    /// Share of the time that each of them works, 0..=1; it sleeps the rest.
    pub duty: f64,
}

impl Plan {
    const REST: Plan = Plan { workers: 0, duty: 0.0 };

    fn of_effort(effort: f64) -> Self {
        let workers = (effort.ceil() as usize).clamp(1, DESTAGE_WORKERS);
        Self { workers, duty: (effort / workers as f64).clamp(0.01, 1.0) }
    }
    /// 0..=1: of all that destaging could do.
    pub fn share(&self) -> f64 {
        self.workers as f64 * self.duty / DESTAGE_WORKERS as f64
    }
}

/// The controller. See the module.
#[derive(Debug)]
pub(crate) struct Pacer {
    low: f64,
    high: f64,
    mid: f64,
    idle_drain: Duration,
    ceiling: f64,
    drain: Option<f64>,
    window_start: Instant,
    window_bytes: u64,
    window_share: f64,
    tokens: f64,
    filled_at: Instant,
    last_write: Instant,
    active: bool,
    rules: Rules,
}

impl Pacer {
    /// `unusable`: the share of the log that writes can never use (reserve segments, partly filled head).
    pub fn new(settings: &Settings, unusable: f64, now: Instant) -> Self {
        let mut pacer = Self {
            low: 0.0,
            high: 0.0,
            mid: 0.0,
            idle_drain: Duration::ZERO,
            ceiling: (1.0 - unusable - CHECKPOINT_SHARE).clamp(0.2, 1.0),
            drain: None,
            window_start: now,
            window_bytes: 0,
            window_share: 0.0,
            tokens: 0.0,
            filled_at: now,
            last_write: now,
            active: false,
            rules: Rules::Smooth,
        };
        pacer.set(settings);
        pacer
    }

    /// Takes new settings. Marks that leave no room for the controller are lowered.
    pub fn set(&mut self, settings: &Settings) {
        self.high = settings.fill_high.clamp(0.02, self.ceiling * 0.85);
        self.low = settings.fill_low.clamp(0.0, self.high * 0.9);
        self.mid = (self.high + self.ceiling) / 2.0;
        self.idle_drain = settings.idle_drain;
        self.rules = settings.rules;
    }

    /// Effort for fill `fill` (0..=1, share of the log that is not on capacity).
    pub fn plan(&self, fill: f64, now: Instant) -> Plan {
        if fill <= 0.0 {
            return Plan::REST;
        }
        let idle = now.since(self.last_write) >= self.idle_drain;
        if fill <= self.low {
            return if idle { Plan::of_effort(IDLE_EFFORT) } else { Plan::REST };
        }
        let x = ((fill - self.low) / (self.high - self.low)).min(1.0);
        let share = match self.rules {
            Rules::Smooth => x * x * (3.0 - 2.0 * x),
            Rules::Stepped { .. } if x >= 1.0 => 1.0,
            Rules::Stepped { low_bytes_per_s, high_bytes_per_s } => {
                let limit = low_bytes_per_s * (high_bytes_per_s / low_bytes_per_s).powf(x);
                (limit / self.drain.unwrap_or(DRAIN_ASSUMED).max(1.0)).min(1.0)
            }
        };
        let effort = share * DESTAGE_WORKERS as f64;
        Plan::of_effort(if idle { effort.max(IDLE_EFFORT) } else { effort })
    }

    /// `bytes` of the log were retired (moved, or found dead) while working to `plan`.
    pub fn drained(&mut self, bytes: u64, plan: Plan, now: Instant) {
        if !self.active {
            self.active = true;
            self.window_start = now;
            self.window_bytes = 0;
            self.window_share = plan.share();
            return; // the time that this took is not known
        }
        self.window_bytes += bytes;
        self.window_share = self.window_share * 0.9 + plan.share() * 0.1;
        let span = now.since(self.window_start);
        if span < WINDOW {
            return;
        }
        let rate = self.window_bytes as f64 / span.as_secs_f64() / self.window_share.max(0.05);
        self.drain = Some(self.drain.map_or(rate, |old| old + (rate - old) * WEIGHT));
        self.window_start = now;
        self.window_bytes = 0;
    }

    /// Destaging rests: the time until the next [`Pacer::drained`] measures nothing.
    pub fn resting(&mut self) {
        self.active = false;
    }

    /// Measured speed at which destaging could retire the log, in bytes/s; 0 when not yet known.
    pub fn drain_bytes_per_s(&self) -> u64 {
        self.drain.unwrap_or(0.0) as u64
    }

    /// The rate at which writes are let in, in bytes/s; `None` when they are free.
    pub fn rate(&self, fill: f64) -> Option<f64> {
        if fill <= self.high {
            return None;
        }
        let drain = self.drain.unwrap_or(DRAIN_ASSUMED);
        if matches!(self.rules, Rules::Stepped { .. }) {
            return Some(drain.max(RATE_MIN));
        }
        let gain = GAIN.powf(((self.mid - fill) / (self.mid - self.high)).max(-2.0));
        Some((drain * gain).max(RATE_MIN))
    }

    /// May a write of `bytes` enter? If not, when to ask again. Ask in the order of arrival: then each write pays for
    /// those before it and none starves.
    #[inline(always)]
    pub fn admit(&mut self, bytes: u64, fill: f64, now: Instant) -> Result<(), Instant> {
        let Some(rate) = self.rate(fill) else {
            self.tokens = 0.0;
            self.filled_at = now;
            self.last_write = now;
            return Ok(());
        };
        self.tokens = (self.tokens + rate * now.since(self.filled_at).as_secs_f64()).min(rate * BURST.as_secs_f64());
        self.filled_at = now;
        if self.tokens < 0.0 {
            // At most a tenth of a second: by then the rate may be another.
            let wait = Duration::from_secs_f64((-self.tokens / rate).min(0.1)).max(Duration::from_micros(20));
            return Err(now + wait);
        }
        self.tokens -= bytes as f64;
        self.last_write = now;
        Ok(())
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;

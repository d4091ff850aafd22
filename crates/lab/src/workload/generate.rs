//! From a workload to operations: pure, seeded, the same each time.
//!
//! Owns: how streams are drawn, where operations go and when they come.
//! Invariants: an operation never leaves its stream's area; the same workload, disk size, seed and thread give the same operations; nothing is
//! allocated for an operation.
//! Never: I/O, a clock.

use super::{Access, Arrivals, GRAIN_BYTES, Hot, Skew, Spacing, Stream, Workload};
use crate::error::LabError;
use base::IoClass;
use initiator::rng::{Rng, mix};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does; a discard is a trim.
    pub kind: IoClass,
    /// Which stream it belongs to.
    pub stream: usize,
    /// Where, in bytes from the start of the disk.
    pub offset: u64,
    /// How much, in bytes.
    pub bytes: u32,
}

/// Bytes of a disk of `disk_bytes` that a workload uses, from its start.
pub fn working_set_bytes(workload: &Workload, disk_bytes: u64) -> u64 {
    if let Some(bytes) = workload.working_set_bytes {
        return bytes.min(disk_bytes) / GRAIN_BYTES * GRAIN_BYTES;
    }
    let part = if workload.working_set >= 1.0 { disk_bytes } else { (disk_bytes as f64 * workload.working_set) as u64 };
    part.min(disk_bytes) / GRAIN_BYTES * GRAIN_BYTES
}

/// A workload on one disk, worked out; all threads of the disk share it.
#[derive(Debug)]
pub struct AccessPlan {
    shares: Vec<f64>,
    streams: Vec<Laid>,
}

/// A stream on a disk.
#[derive(Debug)]
struct Laid {
    reads: f64,
    trims: f64,
    access: Access,
    from: u64,
    to: u64,
    weights: Vec<f64>,
    sizes: Vec<Placed>,
    /// What a run is rounded to, in bytes.
    run_unit: u64,
    /// The run that all threads share, when they do.
    run: Option<AtomicU64>,
}

/// The places of one size of operation.
#[derive(Debug)]
struct Placed {
    bytes: u32,
    unit: u64,
    first: u64,
    slots: u64,
    zipf: Option<Zipf>,
}

impl AccessPlan {
    /// Lays `workload` on a disk; an error says what does not fit. `disk` is its name, for errors.
    pub fn new(workload: &Workload, disk: &str, disk_bytes: u64) -> Result<Arc<AccessPlan>, LabError> {
        if let Some(bytes) = workload.working_set_bytes.filter(|bytes| *bytes > disk_bytes) {
            let problem = format!("has {disk_bytes} bytes, the working set {bytes}: take a larger disk or a smaller working set");
            return Err(LabError::Disk { disk: disk.into(), problem });
        }
        let space = working_set_bytes(workload, disk_bytes);
        let streams = workload.streams.iter().enumerate().map(|(i, s)| lay(s, i, space, disk, disk_bytes)).collect::<Result<_, _>>()?;
        Ok(Arc::new(AccessPlan { shares: cumulative(workload.streams.iter().map(|s| s.share)), streams }))
    }
}

fn lay(stream: &Stream, index: usize, space: u64, disk: &str, disk_bytes: u64) -> Result<Laid, LabError> {
    let grain = |part: f64| ((space as f64 * part) as u64).min(space);
    let from = grain(stream.area.0).next_multiple_of(GRAIN_BYTES);
    let to = grain(stream.area.1) / GRAIN_BYTES * GRAIN_BYTES;
    let sizes = stream.sizes.iter().map(|size| {
        let unit = u64::from(if stream.align_bytes == 0 { size.bytes } else { stream.align_bytes });
        let first = from.next_multiple_of(unit);
        if first + u64::from(size.bytes) > to {
            let have = to.saturating_sub(from);
            let problem = format!(
                "an operation of {} bytes does not fit into the area of stream {index} ({have} bytes of a disk of {disk_bytes}); use a larger disk, working set or area",
                size.bytes
            );
            return Err(LabError::Disk { disk: disk.into(), problem });
        }
        let slots = (to - first - u64::from(size.bytes)) / unit + 1;
        let zipf = match &stream.access {
            Access::Random { skew: Skew::Zipf { theta } } => Some(Zipf::new(slots, *theta)),
            _ => None,
        };
        Ok(Placed { bytes: size.bytes, unit, first, slots, zipf })
    });
    let sizes: Vec<Placed> = sizes.collect::<Result<_, _>>()?;
    let run_unit = if stream.align_bytes > 0 { u64::from(stream.align_bytes) } else { sizes.iter().fold(0, |a, s| gcd(a, s.bytes.into())) };
    let shared = matches!(stream.access, Access::Sequential { shared: true });
    let run = shared.then(|| AtomicU64::new(from.next_multiple_of(run_unit)));
    let weights = cumulative(stream.sizes.iter().map(|s| s.weight));
    Ok(Laid { reads: stream.reads, trims: stream.trims, access: stream.access.clone(), from, to, weights, sizes, run_unit, run })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Weights as running sums that end at 1.
fn cumulative(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums: Vec<f64> = weights
        .scan(0.0, |sum, w| {
            *sum += w;
            Some(*sum)
        })
        .collect();
    let all = sums.last().copied().unwrap_or(1.0);
    sums.iter_mut().for_each(|s| *s /= all);
    sums
}

/// A number from 0 up to, but not, 1.
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn pick(rng: &mut Rng, sums: &[f64]) -> usize {
    if sums.len() == 1 {
        return 0;
    }
    let x = unit(rng);
    sums.iter().position(|&s| x < s).unwrap_or(sums.len() - 1)
}

/// One thread of a disk, or the one source of its open loop: where the operations come from.
#[derive(Debug)]
pub struct Thread {
    plan: Arc<AccessPlan>,
    rng: Rng,
    /// Where the run or walk of each stream stands, in bytes.
    at: Vec<u64>,
}

impl Thread {
    /// Thread `thread` of `threads` on disk number `disk`.
    pub fn new(plan: &Arc<AccessPlan>, seed: u64, disk: u64, thread: u64, threads: u64) -> Thread {
        let mut rng = Rng::new(mix(seed ^ mix(disk ^ mix(thread ^ 0x1AB0))));
        let mut start = |laid: &Laid| match laid.access {
            Access::Walk { .. } => laid.from + rng.below(laid.to - laid.from),
            _ => laid.from + ((laid.to - laid.from) as u128 * thread as u128 / threads.max(1) as u128) as u64,
        };
        let at = plan.streams.iter().map(&mut start).collect();
        Thread { plan: Arc::clone(plan), rng, at }
    }

    /// The next operation.
    #[inline]
    pub fn next_operation(&mut self) -> Operation {
        let stream = pick(&mut self.rng, &self.plan.shares);
        let laid = &self.plan.streams[stream];
        let size = &laid.sizes[pick(&mut self.rng, &laid.weights)];
        let kind = match unit(&mut self.rng) {
            x if x < laid.reads => IoClass::Read,
            x if x < laid.reads + laid.trims => IoClass::Discard,
            _ => IoClass::Write,
        };
        let offset = laid.place(size, &mut self.rng, &mut self.at[stream]);
        Operation { kind, stream, offset, bytes: size.bytes }
    }
}

impl Laid {
    fn place(&self, size: &Placed, rng: &mut Rng, at: &mut u64) -> u64 {
        match &self.access {
            Access::Sequential { .. } => match &self.run {
                None => self.run_on(size, at),
                Some(shared) => {
                    let mut got = 0;
                    // The closure never refuses.
                    let _ = shared.fetch_update(Relaxed, Relaxed, |mut at| {
                        got = self.run_on(size, &mut at);
                        Some(at)
                    });
                    got
                }
            },
            Access::Seek { seeks } => {
                if unit(rng) < *seeks {
                    *at = size.slot(rng.below(size.slots));
                }
                self.run_on(size, at)
            }
            Access::Random { skew: Skew::Uniform } => size.slot(rng.below(size.slots)),
            Access::Random { skew: Skew::Zipf { .. } } => {
                let zipf = size.zipf.as_ref().expect("made with the plan");
                size.slot(zipf.draw(rng))
            }
            Access::Random { skew: Skew::Hot { ranges } } => size.slot(hot_slot(ranges, size.slots, rng)),
            Access::Walk { steps, hot } => self.walk(size, *steps, hot.as_ref(), rng, at),
        }
    }

    /// The next place of a run, which begins again at the area's start.
    fn run_on(&self, size: &Placed, at: &mut u64) -> u64 {
        let mut here = at.next_multiple_of(self.run_unit);
        if here + u64::from(size.bytes) > self.to {
            here = self.from.next_multiple_of(self.run_unit);
        }
        *at = here + u64::from(size.bytes);
        here
    }

    /// A step up or down from where the walk stands, within what the hot range leaves; or a place in the hot range.
    fn walk(&self, size: &Placed, steps: u32, hot: Option<&Hot>, rng: &mut Rng, at: &mut u64) -> u64 {
        let warm = hot.map_or(0, |h| ((size.slots as f64 * h.space) as u64).max(1).min(size.slots - 1));
        if let Some(h) = hot
            && warm > 0
            && unit(rng) < h.operations
        {
            return size.slot(rng.below(warm));
        }
        let room = size.slots - warm;
        let here = (at.saturating_sub(size.first) / size.unit).clamp(warm, size.slots - 1) - warm;
        let far = u64::from(steps).min(room.saturating_sub(1));
        // From `far` below to `far` above, without standing still where there is room; round the ends.
        let step = match far {
            0 => 0,
            far => 1 + rng.below(far),
        };
        let next = if rng.next_u64() & 1 == 0 { (here + step) % room } else { (here + room - step) % room };
        *at = size.slot(warm + next);
        *at
    }
}

impl Placed {
    fn slot(&self, n: u64) -> u64 {
        self.first + n * self.unit
    }
}

/// Ranges lie one after the other from the start; what is left is the rest's.
fn hot_slot(ranges: &[Hot], slots: u64, rng: &mut Rng) -> u64 {
    let x = unit(rng);
    let (mut from, mut sum) = (0.0, 0.0);
    let at = |part: f64| ((slots as f64 * part) as u64).min(slots - 1);
    for range in ranges {
        sum += range.operations;
        let to = from + range.space;
        if x < sum {
            let (first, end) = (at(from), at(to));
            return first + rng.below((end - first).max(1));
        }
        from = to;
    }
    let first = at(from);
    first + rng.below(slots - first)
}

/// Zipf's law over `slots` places by rejection from an integral (Hörmann and Derflinger 1996): no table, for any exponent but 1. The ranks are
/// scattered over the places, so that liked places are not neighbours.
#[derive(Debug)]
struct Zipf {
    slots: u64,
    theta: f64,
    low: f64,
    high: f64,
    squeeze: f64,
    scatter: u64,
}

impl Zipf {
    fn new(slots: u64, theta: f64) -> Zipf {
        let mut scatter = ((slots as f64 * 0.618_033_988_75) as u64).max(1);
        while gcd(scatter, slots) != 1 {
            scatter += 1;
        }
        let mut z = Zipf { slots, theta, low: 0.0, high: 0.0, squeeze: 0.0, scatter };
        z.low = z.integral(1.5) - 1.0;
        z.high = z.integral(slots as f64 + 0.5);
        z.squeeze = 2.0 - z.inverse(z.integral(2.5) - 2f64.powf(-theta));
        z
    }
    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.theta) - 1.0) / (1.0 - self.theta)
    }
    fn inverse(&self, x: f64) -> f64 {
        (1.0 + x * (1.0 - self.theta)).max(0.0).powf(1.0 / (1.0 - self.theta))
    }
    /// A rank, 0 the most liked.
    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.high + unit(rng) * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.slots as f64);
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - k.powf(-self.theta) {
                return k as u64 - 1;
            }
        }
    }
    fn draw(&self, rng: &mut Rng) -> u64 {
        (u128::from(self.rank(rng)) * u128::from(self.scatter) % u128::from(self.slots)) as u64
    }
}

/// When the operations of an open loop come, in nanoseconds from its beginning.
#[derive(Debug)]
pub struct Schedule {
    gap_ns: f64,
    spacing: Spacing,
    rng: Rng,
    at_ns: f64,
}

impl Schedule {
    /// A part (0 to 1) of the arrivals; `None` when the loop is closed. Sources of one run have different `source`.
    pub fn new(arrivals: &Arrivals, part: f64, seed: u64, source: u64) -> Option<Schedule> {
        let Arrivals::Open { iops, spacing } = *arrivals else { return None };
        let gap_ns = 1e9 / (iops * part);
        let mut rng = Rng::new(mix(seed ^ mix(source ^ 0xA221_7A15)));
        // Sources of equal distances start anywhere in the first, so that they do not come together.
        let first = unit(&mut rng) * gap_ns;
        let mut schedule = Schedule { gap_ns, spacing, rng, at_ns: first };
        if spacing == Spacing::Poisson {
            schedule.at_ns = 0.0;
            schedule.advance();
        }
        Some(schedule)
    }
    /// When the next one comes.
    #[inline]
    pub fn at_ns(&self) -> u64 {
        self.at_ns as u64
    }
    /// On to the one after.
    #[inline]
    pub fn advance(&mut self) {
        self.at_ns += match self.spacing {
            Spacing::Fixed => self.gap_ns,
            Spacing::Poisson => -(1.0 - unit(&mut self.rng)).ln() * self.gap_ns,
        };
    }
    /// How many came until `ns` and were not taken, counted up to `limit`; takes them.
    pub fn overdue(&mut self, ns: u64, limit: u64) -> u64 {
        let mut n = 0;
        while n < limit && self.at_ns() <= ns {
            self.advance();
            n += 1;
        }
        n
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;

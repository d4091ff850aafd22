//! Faults: which there are, which a class of plans may draw, and how each is brought about.
//!
//! Owns: the atlas of faults ([`Fault::draw`]).
//! Invariant: a plan draws only faults whose consequences its class allows.
//! Never: decides whether a consequence was right.

use crate::lab::Lab;
use crate::plan::{Class, Plan};
use base::Duration;
use rt::DeviceError;
use rt::sim::Rng;

/// Something that goes wrong. Devices by number (0 is the cache), clients by number, times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Everything on a device takes so many times longer, for ever.
    Slow { device: usize, factor: u32 },
    /// Nothing on a device ends for a while.
    Stall { device: usize, for_ns: u64 },
    /// All connections of a client are reset.
    Reset { client: usize },
    /// What a client sends is held up, or what it is sent, or both; then it goes on.
    Cut { client: usize, to_host: bool, to_client: bool, for_ns: u64 },
    /// Reads of a part of a device fail so many times.
    FailReads { device: usize, at: u64, times: u32 },
    /// Writes to a part of a device fail so many times.
    FailWrites { device: usize, at: u64, times: u32 },
    /// A bit of what so many reads return is flipped on the way.
    FlipReads { device: usize, times: u32 },
    /// Flushes of a device fail so many times.
    FailFlushes { device: usize, times: u32 },
    /// A device is pulled out until the next life.
    Gone { device: usize },
    /// A thin device has no room until the next life.
    Full { device: usize },
    /// Bits flip in so many sectors from a place on.
    Flip { device: usize, at: u64, sectors: u32 },
    /// Writes report success and do nothing.
    LoseWrites { device: usize, times: u32 },
    /// Writes report success and land somewhere else.
    Misdirect { device: usize, times: u32, by: u64 },
    /// Flushes and durable writes of a device only reach its volatile cache, from now on.
    LieAboutDurability { device: usize },
    /// At the next death a device comes back as it is now.
    ComeBackOld { device: usize },
}

/// A fault and when it comes, in nanoseconds from the start of the life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When.
    pub at_ns: u64,
    /// What.
    pub fault: Fault,
}

/// The part of a device that one fault of its operations covers, in bytes.
const PART_BYTES: u64 = 1 << 20;

impl Fault {
    /// One of those that the plan's class may have.
    pub fn draw(rng: &mut Rng, plan: &Plan) -> Fault {
        let device = rng.below(plan.devices() as u64) as usize;
        let client = rng.below(plan.clients.len() as u64) as usize;
        let bytes = if device == 0 { plan.cache.0 } else { plan.capacity[device - 1].0 } << 20;
        // The front of a device is used first.
        let part = if rng.one_in(2) { 4 } else { 1 };
        let at = rng.below(bytes / part);
        let harmless = rng.below(10) < if plan.class == Class::Crash { 10 } else { 3 };
        if harmless {
            return match rng.below(5) {
                0 => Fault::Slow { device, factor: [2, 10, 100][rng.below(3) as usize] },
                1 => Fault::Stall { device, for_ns: rng.below(80_000_000) },
                2 => Fault::Reset { client },
                _ => {
                    let ways = 1 + rng.below(3);
                    Fault::Cut { client, to_host: ways & 1 != 0, to_client: ways & 2 != 0, for_ns: rng.below(300_000_000) }
                }
            };
        }
        let times = 1 + rng.below(4) as u32;
        match plan.class {
            Class::Errors | Class::Crash => match rng.below(7) {
                6 => Fault::FlipReads { device, times },
                0 | 1 => Fault::FailReads { device, at, times },
                2 => Fault::FailWrites { device, at, times },
                3 => Fault::FailFlushes { device, times },
                4 => Fault::Gone { device },
                _ => Fault::Full { device },
            },
            Class::Damage => match rng.below(4) {
                // What lies on capacity is told by its checksum. The end of the log is not: see the class `Lies`.
                0 => Fault::LoseWrites { device: 1 + rng.below(plan.capacity.len() as u64) as usize, times },
                1 => {
                    let device = 1 + rng.below(plan.capacity.len() as u64) as usize;
                    Fault::Misdirect { device, times, by: (1 + rng.below(512)) << 12 }
                }
                _ => Fault::Flip { device, at, sectors: 1 << rng.below(8) },
            },
            Class::Lies => match rng.below(5) {
                0 => Fault::LoseWrites { device, times },
                1 => Fault::Misdirect { device, times, by: (1 + rng.below(512)) << 12 },
                2 => Fault::ComeBackOld { device },
                _ => Fault::LieAboutDurability { device },
            },
        }
    }

    /// Whether commands may fail because of it.
    pub fn may_fail_commands(&self) -> bool {
        !matches!(self, Fault::Slow { .. } | Fault::Stall { .. } | Fault::Reset { .. } | Fault::Cut { .. })
    }
    /// Whether acknowledged data may be lost without an error. Two places cannot tell damage from what a loss of power leaves: the end of the
    /// log, and the newer of a table page's two versions (see [`Lab::zone`]).
    pub fn may_lose_acknowledged(&self) -> bool {
        match *self {
            Fault::LoseWrites { device, .. } | Fault::Misdirect { device, .. } | Fault::Flip { device, .. } => device == 0,
            Fault::LieAboutDurability { .. } | Fault::ComeBackOld { .. } => true,
            _ => false,
        }
    }
    /// Its kind, for counting.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '{']).next().unwrap_or_default().to_owned()
    }

    /// Brings it about.
    pub fn strike(&self, lab: &mut Lab) {
        match *self {
            Fault::Slow { device, factor } => lab.disk(device).slow(factor),
            Fault::Stall { device, for_ns } => lab.disk(device).stall(Duration::from_nanos(for_ns)),
            Fault::Reset { client } => lab.reset_client(client),
            Fault::Cut { client, to_host, to_client, for_ns } => lab.cut_client(client, to_host, to_client, for_ns),
            Fault::FailReads { device, at, times } => lab.disk(device).fail_reads(at..at + PART_BYTES, Some(times)),
            Fault::FailWrites { device, at, times } => lab.disk(device).fail_writes(at..at + PART_BYTES, Some(times), DeviceError::Media),
            Fault::FlipReads { device, times } => lab.disk(device).flip_reads(times),
            Fault::FailFlushes { device, times } => lab.disk(device).fail_flushes(Some(times)),
            Fault::Gone { device } => lab.disk(device).set_gone(true),
            Fault::Full { device } => lab.disk(device).set_full(true),
            Fault::Flip { device, at, sectors } => {
                let zone = lab.zone(device);
                for sector in 0..u64::from(sectors) {
                    lab.disk(device).corrupt(zone.start + (at + sector * 512) % (zone.end - zone.start));
                }
            }
            Fault::LoseWrites { device, times } => lab.disk(device).lose_writes(times, lab.zone(device)),
            Fault::Misdirect { device, times, by } => lab.disk(device).misdirect_writes(times, by, lab.zone(device)),
            Fault::LieAboutDurability { device } => lab.disk(device).set_lying(true),
            Fault::ComeBackOld { device } => lab.remember_image(device),
        }
    }
}

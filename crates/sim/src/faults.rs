//! Faults: which there are, and which a class of plans may draw. How each is brought about stands in [`crate::lab`].
//!
//! Owns: the atlas of faults ([`Fault::draw`]).
//! Invariant: a plan draws only faults whose consequences its class allows.
//! Never: decides whether a consequence was right.

pub mod aimed;

use aimed::{Death, Target};
use rt::sim::Rng;

/// What must hold under the faults of a plan, from the least to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Deaths of the host, a slow and stalling device, a bad network: nothing acknowledged is lost, nothing fails for good.
    Crash,
    /// Devices fail operations, or vanish, for a while: commands may fail meanwhile, but nothing acknowledged is lost.
    Errors,
    /// Data on the media is damaged, lost or in the wrong place: commands may fail for good, wrong bytes are never returned.
    Damage,
    /// A device says that data is durable when it is not, or comes back as it was earlier: old values may return, garbage never. Scored, not judged.
    Lies,
}

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
    /// A write of a certain kind is hit, the `nth` from now on: so many writes fail from it on (`alike`: of its kind only; `full`: for
    /// want of room), and the host may die.
    Aim { device: usize, target: Target, nth: u32, fails: u32, alike: bool, full: bool, death: Option<Death> },
    /// A copy of the superblock of a device is damaged, while the host serves: so the other one is well.
    DamageSuperblock { device: usize, copy: usize },
}

/// A fault and when it comes, in nanoseconds from the start of the life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When.
    pub at_ns: u64,
    /// What.
    pub fault: Fault,
}

/// What a fault may hit.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// What must hold.
    pub class: Class,
    /// Bytes of each device; the first is the cache.
    pub device_bytes: Vec<u64>,
    /// Clients.
    pub clients: usize,
}

impl Fault {
    /// One of those that the class may have.
    pub fn draw(rng: &mut Rng, around: &Surroundings) -> Fault {
        let devices = around.device_bytes.len() as u64;
        let device = rng.below(devices) as usize;
        let client = rng.below(around.clients as u64) as usize;
        let bytes = around.device_bytes[device];
        // The front of a device is used first.
        let part = if rng.one_in(2) { 4 } else { 1 };
        let at = rng.below(bytes / part);
        let harmless = rng.below(10) < if around.class == Class::Crash { 10 } else { 3 };
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
        match around.class {
            Class::Errors | Class::Crash => match rng.below(7) {
                6 => Fault::FlipReads { device, times },
                0 | 1 => Fault::FailReads { device, at, times },
                2 => Fault::FailWrites { device, at, times },
                3 => Fault::FailFlushes { device, times },
                4 => Fault::Gone { device },
                _ => Fault::Full { device },
            },
            Class::Damage => match rng.below(4) {
                // What lies on capacity is recognised by its checksum. The end of the log is not: see the class `Lies`.
                0 => Fault::LoseWrites { device: 1 + rng.below(devices - 1) as usize, times },
                1 => {
                    let device = 1 + rng.below(devices - 1) as usize;
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

    /// A fault that waits for a write of a certain kind. Without `failing` the write passes, and only death follows.
    pub fn aim(rng: &mut Rng, around: &Surroundings, failing: bool) -> Fault {
        let device = if rng.one_in(3) { 1 + rng.below(around.device_bytes.len() as u64 - 1) as usize } else { 0 };
        let target = Target::draw(rng, device);
        let nth = if rng.one_in(2) { 1 } else { 1 + rng.below(6) as u32 };
        let fails = if failing { [0, 1, 1, 1, 2, 3, u32::MAX][rng.below(7) as usize] } else { 0 };
        // What follows a hit on capacity takes longer: a batch with the new tail, the release of segments.
        let most = [20_000, 120_000, if device == 0 { 500_000 } else { 5_000_000 }][rng.below(3) as usize];
        let after_ns = rng.below(most);
        let death = (fails == 0 || !rng.one_in(4)).then(|| Death { after_ns, power: !rng.one_in(3) });
        Fault::Aim { device, target, nth, fails, alike: rng.one_in(2), full: rng.one_in(4), death }
    }

    /// Whether commands may fail because of it.
    pub fn may_fail_commands(&self) -> bool {
        // What is aimed may only from its hit on: see `Lab::run`.
        let harmless = matches!(self, Fault::Slow { .. } | Fault::Stall { .. } | Fault::Reset { .. } | Fault::Cut { .. });
        !harmless && !matches!(self, Fault::Aim { .. } | Fault::DamageSuperblock { .. })
    }
    /// Whether acknowledged data may be lost without an error. Two places cannot tell damage from what a loss of power leaves: the end of the
    /// log, and the newer of a table page's two versions (see `Lab::zone`).
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
}

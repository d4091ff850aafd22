//! How long a device has ended nothing though it has operations: one that hangs fails nothing, and all that the shard has waits for it.
//!
//! Owns: [`Stillness`], what was seen of the devices of a shard.
//! Invariant: time in which nobody looked does not count beyond [`LOOK_MAX`]: a machine that stood still says nothing of its devices.
//! Never: says what is to be done about it.

use base::{Duration, Instant};
use rt::Device;
use std::sync::atomic::Ordering::Relaxed;

/// The longest that one look adds.
const LOOK_MAX: Duration = Duration::from_millis(400);

/// A device as it was seen last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    ended: u64,
    still: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Stillness {
    devices: Vec<Seen>,
    looked: Option<Instant>,
}

impl Stillness {
    /// Looks at the devices, always the same ones. How long the stillest of them has ended nothing while it had operations.
    pub fn look<'a>(&mut self, devices: impl Iterator<Item = &'a Device>, now: Instant) -> Duration {
        let passed = self.looked.map_or(Duration::ZERO, |looked| now.since(looked).min(LOOK_MAX));
        self.looked = Some(now);
        let mut longest = Duration::ZERO;
        for (n, device) in devices.enumerate() {
            let (counters, first) = (device.counters(), n == self.devices.len());
            let (ended, waits) = (counters.ended(), counters.in_flight.load(Relaxed) > 0);
            if first {
                self.devices.push(Seen { ended, still: Duration::ZERO });
            }
            let seen = &mut self.devices[n];
            seen.still = if first || !waits || ended != seen.ended { Duration::ZERO } else { seen.still + passed };
            seen.ended = ended;
            longest = longest.max(seen.still);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::sim::{SimDeviceOptions, block_on, device, disk};
    use rt::{Buf, Durability};

    #[test]
    fn a_device_is_still_while_it_has_operations_and_ends_none() {
        block_on(1, async |rt| {
            let devices = [device(&rt, 1 << 20, SimDeviceOptions::default())];
            let disk = disk(&rt, &devices[0]);
            let mut stillness = Stillness::default();
            let mut looks = async |times: u32, each: Duration| {
                let mut last = stillness.look(devices.iter(), rt.now());
                for _ in 0..times {
                    rt.sleep(each).await;
                    last = stillness.look(devices.iter(), rt.now());
                }
                last
            };
            let step = Duration::from_millis(200);
            let write = |offset| rt.write_at(&devices[0], offset, [Buf::alloc(4096)].into_iter().collect(), Durability::Durable);
            assert_eq!(looks(10, step).await, Duration::ZERO, "it has nothing to do");
            disk.stall(Duration::from_secs(60));
            let hangs = write(0);
            assert_eq!(looks(10, step).await, step * 10);
            assert_eq!(looks(1, Duration::from_secs(30)).await, step * 12, "time in which nobody looked says little");
            hangs.await.0.unwrap();
            assert_eq!(looks(1, step).await, Duration::ZERO);
            disk.heal();
            disk.slow(20_000);
            for n in 0..10 {
                let first = write(0);
                let second = write(4096);
                assert!(looks(1, step).await < step * 5, "it is slow, and goes on: {n}");
                first.await.0.unwrap();
                second.await.0.unwrap();
            }
        });
    }
}

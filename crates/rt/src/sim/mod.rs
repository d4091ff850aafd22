//! The simulator: the driver whose time, devices and network are made from one seed.
//!
//! A [`World`] holds hosts, each with some cores; on each core runs the same [`App`](crate::App) as in production. Everything happens in
//! one thread, in the order of one heap of events. A run is a function of the seed and of what the test does; [`World::trace_hash`] says
//! whether two runs were the same.
//!
//! ```
//! let bytes = rt::sim::block_on(7, async |rt| {
//!     let dev = rt::sim::device(&rt, 1 << 20, Default::default());
//!     let (result, _) = rt.write_at(&dev, 4096, [rt::Buf::zeroed(4096)].into_iter().collect(), rt::Durability::Durable).await;
//!     result.unwrap();
//!     dev.counters().write_bytes.load(std::sync::atomic::Ordering::Relaxed)
//! });
//! assert_eq!(bytes, 4096);
//! ```
//!
//! Owns: virtual time, the worlds' devices and network, and every fault in them.
//! Invariants: see `disk` (what a loss of power may do) and `net_io` (what connections promise).
//! Below the handles of this crate: `core`, `refs` and `wake`, which they hold.  Above them: `world` and `disk_handle`, which make them.
//! Never: reads a clock, starts a thread, iterates in an order that memory addresses decide.

mod contents;
pub(crate) mod core;
mod disk;
mod disk_handle;
mod disk_io;
mod disk_options;
mod net;
mod net_io;
mod place;
pub(crate) mod refs;
mod rng;
mod speed;
mod spread;
mod state;
mod step;
mod unix;
mod unix_io;
pub(crate) mod wake;
mod world;

pub use disk::SimWrite;
pub use disk_handle::{SimDisk, SimImage};
pub use disk_options::{SimDeviceOptions, SimDrive};
pub use net::{LinkWay, NetOptions};
pub use net_io::WINDOW_BYTES;
pub use rng::Rng;
pub use speed::{DriveSpeed, FastPart, MixedSpeed};
pub use state::CoreCost;
pub use world::{HostId, TasksOnly, World, charge, on_link};

use crate::{Device, Rt};

/// Runs a future to its end in a new world with one host of one core.
///
/// # Panics
/// When nothing is left to happen and the future is not at its end.
pub fn block_on<T: 'static>(seed: u64, f: impl AsyncFnOnce(Rt) -> T) -> T {
    let mut world = World::new(seed);
    let host = world.add_host(1, |_| Box::new(TasksOnly));
    world.block_on(host, f)
}

/// A new device of the world that `rt` belongs to: [`World::device`] from within.
pub fn device(rt: &Rt, bytes: u64, opts: SimDeviceOptions) -> Device {
    world::shared_of(rt).device(bytes, opts)
}

/// A handle to a device of the world that `rt` belongs to: [`World::disk`] from within.
pub fn disk(rt: &Rt, dev: &Device) -> SimDisk {
    SimDisk::new(&world::shared_of(rt), dev)
}

#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod net_tests;
#[cfg(test)]
mod unix_tests;
#[cfg(test)]
mod world_tests;

//! The store as a whole, in the simulator.
//!
//! `harness`: a shard on simulated devices with a client; `model`: random operations and crashes against a model of every block;
//! `faults`: broken devices; `behaviour`: space, components, pace, shutdown.

mod behaviour;
mod faults;
mod harness;
mod model;

/// A test must fail when the bug is seeded (`cargo test -p store --features hooks`).
#[cfg(feature = "hooks")]
pub(crate) fn notices(bug: base::hooks::SeededFault, test: fn()) {
    base::hooks::seed_fault(Some(bug));
    let result = std::panic::catch_unwind(test);
    base::hooks::seed_fault(None);
    assert!(result.is_err(), "{bug:?} is seeded, and its test does not notice");
}

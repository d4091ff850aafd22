//! The store as a whole, in the simulator.
//!
//! `harness`: a shard on simulated devices with a client; `model`: random operations and crashes against a model of every block;
//! `faults`: broken devices; `behaviour`: space, components, pace, shutdown; `order`: epochs, and what has changed since when.

mod behaviour;
mod faults;
mod harness;
mod model;
mod order;

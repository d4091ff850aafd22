//! The store as a whole, in the simulator.
//!
//! `harness`: a shard on simulated devices with a client; `model`: random operations and crashes against a model of every block;
//! `faults`: broken devices; `lost`: blocks that cannot be read; `membership`: devices that come and go; `opening`: damaged logs; `scrubs`: the scrub; `figures`: what is
//! reported; `behaviour`: space, components, pace, shutdown; `order`: epochs, and what has changed since when; `copies`: one copy
//! of several, rule by rule; `copy_model`: the same at random, against a model.

mod behaviour;
mod copies;
mod copy_model;
mod faults;
mod figures;
mod harness;
mod lost;
mod membership;
mod model;
mod opening;
mod order;
mod scrubs;

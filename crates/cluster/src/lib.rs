//! Decisions about a cluster, made from facts alone: what a policy may say, where an object's components go, whether an
//! object is what its policy promises, which names are allowed, what reservations permit.
//!
//! Owns: [`Policy`], [`Inventory`], [`place`], [`compliance`], the rules for names, [`reservation`].
//! Invariant: every function is pure; the same facts give the same answer on every host.
//! Never: does I/O, reads a clock, draws a random number.
#![forbid(unsafe_code)]

mod inventory;
mod name;
mod place;
mod policy;
pub mod reservation;

pub use inventory::{DeviceInventory, GroupInventory, HostInventory, Inventory};
pub use name::{NAME_BYTES_MAX, NQN_BYTES_MAX, NameError, check_name, check_nqn, default_nqn};
pub use place::{Layout, PlaceError, Placement, STRIPES_MAX, Slot, StripeSlots, compliance, place, reserve_chunks, stripe_bytes};
pub use policy::{IOPS_LIMIT_UNIT_BYTES, Policy, PolicyError, STRIPE_WIDTH_MAX, Shortfall};

#[cfg(test)]
mod reservation_tests;
#[cfg(test)]
mod tests;

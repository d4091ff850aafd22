//! DH-HMAC-CHAP (base 8.13.5): secrets, what is computed with them, and the machines of both sides.
//!
//! Owns: [`Secret`]s and the [`Credentials`] of a host, the arithmetic ([`Exponent`], [`response`]), the controller's machine
//! ([`ControllerAuth`]) and the host's ([`HostAuth`]).
//! Invariants: a secret is erased when it is dropped, and neither `Debug` nor an error shows it; digests are compared in constant time; a
//! machine that has failed never succeeds. What takes long (modular exponentiation, up to tens of milliseconds) is a [`Work`] that the owner of the
//! controller's machine carries out where it does no harm.
//! Never: does I/O, reads a clock, makes random numbers: they are handed in.
#![forbid(unsafe_code)]

mod compute;
mod controller;
mod dh;
mod host;
mod primes;
mod secret;

#[cfg(test)]
mod tests;

pub use compute::{Role, response};
pub use controller::{AuthCx, ControllerAuth, Outcome, Received, Sent, TRANSACTION_MAX, TimedOut};
pub use dh::{Exponent, Unusable, Work, WorkDone};
pub use format::nvme::auth::{DhGroup, FailureReason, HashId};
pub use host::{HostAuth, HostFailure};
pub use secret::{Credentials, Secret, SecretError};

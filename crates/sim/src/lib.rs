//! The simulator: a whole node in virtual time, with clients, faults and checkers, from one seed. See `docs/simulator.md`.
//!
//! Owns: what a seed means ([`plan`]), the world it is played in ([`lab`], [`client`], [`operator`]), what may be read ([`model`]),
//! and how many seeds are run and a failing one is made small ([`campaign`], [`minimise`]).
//! Invariants: a run is a function of seed, cuts and code; every command is answered or given up with its connection; only the
//! checkers decide what is wrong.
//! Never: part of production; the crates below run in it unchanged.
#![forbid(unsafe_code)]
// A campaign has threads and clocks of its own; no run uses them.
#![allow(clippy::disallowed_methods)]

pub mod acts;
pub mod campaign;
pub mod client;
pub mod content;
pub mod cut_ways;
pub mod exam;
pub mod faults;
pub mod history;
pub mod lab;
pub mod minimise;
pub mod model;
mod node_types;
pub mod nodes;
pub mod operator;
pub mod plan;
pub mod rights;
pub mod rules;
pub mod served;
#[cfg(feature = "hooks")]
pub mod shadow;
pub mod trace;
pub mod workload;

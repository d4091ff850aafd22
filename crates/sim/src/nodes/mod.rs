//! Several nodes in one world: each runs the real control decisions on one modelled directory, the real data plane, and real links with the others;
//! clients connect to any of them, and one model of every block judges what they read through all of them.
//!
//! Owns: what a seed means for them ([`plan`]), the directory at its beginning (`records`), the control plane of a node ([`node`]), the world
//! ([`world`]), the order of a run ([`run`](mod@run)).
//! Invariant: as for one node, a run is a function of seed and code.
//! Never: part of production.

pub mod node;
pub mod plan;
mod records;
pub mod run;
pub mod world;

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;

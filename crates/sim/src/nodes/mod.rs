//! Several nodes in one world: each runs the real control decisions on one modelled directory, the real data plane, and real links with the others;
//! clients connect to any of them, and one model of every block judges what they read through all of them.
//!
//! Owns: what a seed means for them ([`plan`], `draw`), the directory at its beginning (`records`), a node's way to it ([`way`]) and what it truly
//! says ([`truth`]), the control plane of a node ([`node`], `asked`, `owners`, `copies`, `moves`, `restored`) as tasks in virtual time ([`tasks`]), the world ([`world`]), the order of a
//! run ([`run`](mod@run)).
//! Invariant: as for one node, a run is a function of seed and code.
//! Never: part of production.

mod asked;
mod copies;
mod draw;
mod moves;
pub mod node;
mod owners;
pub mod plan;
mod records;
mod restored;
pub mod run;
pub mod tasks;
pub mod truth;
pub mod way;
pub mod world;

#[cfg(test)]
mod overload_tests;
#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;

//! Basalt in the lab without hardware: models of drives and clusters, the engine in virtual time, and the published studies.
//! See `docs/lab-models.md`.
//!
//! Owns: modelled hardware ([`model`]), the lab's engine that runs Basalt's data plane on it ([`simulated`]), and the published studies ([`study`]).
//! Invariants: what runs on a model is the code of the daemon; a result is a function of model, load and seed.
//! Never: part of the daemon's data plane; measures or reports by itself, which is the lab's.
#![forbid(unsafe_code)]
// A tool: threads, files and clocks of the standard library are what it is made of.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod exports;
pub mod model;
mod records;
pub mod simulated;
pub mod study;

use lab::LabError;
use lab::engine::Engine;
use lab::engine::open::Models;
use model::cluster::Cluster;
use simulated::Simulated;

/// The models of this crate, for [`lab::run::start`].
pub struct ModelledClusters;

impl Models for ModelledClusters {
    fn open(&self, name: &str, model: &toml::Table, seed: u64) -> Result<Box<dyn Engine>, LabError> {
        let cluster = Cluster::from_table(name, model)?;
        Ok(Box::new(Simulated::new(&cluster, seed)?))
    }
}

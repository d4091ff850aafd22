//! How a study is run.
//!
//! Never: changes what it asks.

use super::real::Real;
use lab::LabError;

/// How a study is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// On files of this machine instead of modelled hardware.
    pub real: Option<Real>,
    /// A model of so many nodes with mirrors, instead of the study's usual one.
    pub nodes: Option<usize>,
    /// Scale of rates: see `model::cluster::Scale`; `None`: the study's own.
    pub rate: Option<f64>,
    /// Scale of sizes.
    pub size: Option<f64>,
    /// Virtual seconds of a case, in parts of the study's own: 1 is the whole study.
    pub time: f64,
    /// Seed of everything drawn at random.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { real: None, nodes: None, rate: None, size: None, time: 1.0, seed: 1 }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), LabError> {
        let sound = |x: f64, least: f64| x.is_finite() && x >= least && x <= 1e6;
        let scales = [self.rate, self.size].into_iter().flatten().all(|x| sound(x, 1.0));
        if scales && sound(self.time, 0.01) {
            return Ok(());
        }
        Err(LabError::Workload {
            place: "study".into(),
            problem: "scales are from 1 to 1e6, the time is at least 0.01 of the study's".into(),
        })
    }
    pub(super) fn to_toml(&self, study: &str) -> String {
        if let Some(real) = &self.real {
            let dir = toml::Value::String(real.dir.display().to_string());
            return format!(
                "study = \"{study}\"\nseed = {}\ntime = {}\n[real]\ndir = {dir}\nbytes = {}\n",
                self.seed, self.time, real.bytes
            );
        }
        let scale = |x: Option<f64>| x.map_or("\"the study's own\"".into(), |x| x.to_string());
        let nodes = self.nodes.map_or(String::new(), |n| format!("nodes = {n}\n"));
        format!(
            "study = \"{study}\"\nseed = {}\ntime = {}\n{nodes}[scale]\nrate = {}\nsize = {}\n",
            self.seed,
            self.time,
            scale(self.rate),
            scale(self.size)
        )
    }
}

//! What a lab and an agent say to each other, as JSON.
//!
//! Invariants: every request but [`Request::Ping`], [`Request::Go`] and [`Request::Stop`] has one last answer ([`Answer::is_last`]).
//! Never: carries a secret: disks name their files, which lie with the agent.

use crate::engine::open::System;
use crate::engine::{Fill, Job};
use crate::error::LabError;
use crate::measure::{Latency, Second};
use crate::results::Measured;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};

/// What a lab asks an agent for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Open these disks; the first of a connection.
    Open {
        /// [`super::VERSION`].
        version: u32,
        /// The agent's disks and how they are driven.
        system: Box<System>,
        /// What the disks hold may be lost.
        destroy: bool,
        /// Seed of what is drawn.
        seed: u64,
    },
    /// See [`crate::engine::Engine::admit`].
    Admit {
        /// The load.
        workload: Box<Workload>,
        /// The disks will be prepared.
        prepare: bool,
    },
    /// See [`crate::engine::Engine::unwritten`].
    Unwritten(Box<Workload>),
    /// See [`crate::engine::Engine::prepare`].
    Prepare {
        /// The load.
        workload: Box<Workload>,
        /// With what.
        fill: Fill,
    },
    /// See [`crate::engine::Engine::run`]; it begins with [`Request::Go`].
    Run(Box<Job>),
    /// Answer at once.
    Ping,
    /// The load begins so many microseconds after this comes.
    Go {
        /// In so many microseconds.
        after_us: u64,
    },
    /// End what is under way.
    Stop,
}

/// What an agent says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The disks, with their sizes.
    Opened(Vec<(String, u64)>),
    /// It is done.
    Done,
    /// See [`crate::engine::Engine::unwritten`].
    Unwritten(Option<f64>),
    /// So many of so many bytes are written.
    Progress {
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        all: u64,
    },
    /// All is connected: the load can begin.
    Ready,
    /// To a ping.
    Pong,
    /// A second, with its latencies.
    Second {
        /// Its figures.
        second: Second,
        /// Its latencies.
        latency: Box<Latency>,
    },
    /// What was measured, without its seconds.
    Measured(Box<Measured>),
    /// It cannot be done.
    Failed(Problem),
}

impl Answer {
    /// Whether nothing more comes to the request.
    pub fn is_last(&self) -> bool {
        !matches!(self, Answer::Progress { .. } | Answer::Ready | Answer::Pong | Answer::Second { .. })
    }
}

/// An error of the lab on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Problem {
    /// See [`LabError::Workload`].
    Workload(String, String),
    /// See [`LabError::Disk`].
    Disk(String, String),
    /// It works for the lab at this address.
    Busy(String),
    /// Everything else.
    Engine(String),
    /// See [`LabError::Stopped`].
    Stopped,
}

impl From<LabError> for Problem {
    fn from(e: LabError) -> Problem {
        match e {
            LabError::Workload { place, problem } => Problem::Workload(place, problem),
            LabError::Disk { disk, problem } => Problem::Disk(disk, problem),
            LabError::Stopped => Problem::Stopped,
            LabError::Engine { engine, problem } => Problem::Engine(format!("{engine}: {problem}")),
            e => Problem::Engine(e.to_string()),
        }
    }
}

impl Problem {
    /// As an error here; `agent` is whose it was.
    pub fn of(self, agent: &str) -> LabError {
        match self {
            Problem::Workload(place, problem) => LabError::Workload { place: format!("agent {agent}: {place}"), problem },
            Problem::Disk(disk, problem) => LabError::Disk { disk: format!("agent {agent}: {disk}"), problem },
            Problem::Busy(other) => {
                let problem = format!("{agent}: is busy with the lab at {other}; wait until that run has ended");
                LabError::Engine { engine: "agents", problem }
            }
            Problem::Engine(problem) => LabError::Engine { engine: "agents", problem: format!("{agent}: {problem}") },
            Problem::Stopped => LabError::Stopped,
        }
    }
}

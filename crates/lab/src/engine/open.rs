//! From what a user names to an engine: disks by path or address, and which engine suits them.
//!
//! Invariant: disks of one system are all of one kind.
//! Never: writes; knows a model: what is modelled is opened by whoever brings the models ([`Models`]).

use super::Engine;
use super::agents::Agents;
use super::fio::Fio;
use super::iscsi::Iscsi;
use super::iscsi_address;
use super::native::{BATCH, Native, NativeOptions};
use super::nvme_address::SCHEME;
use super::nvme_tcp::NvmeTcp;
use super::remote::RemoteOptions;
use super::verify::Ledgers;
use crate::agent::AGENTS_MAX;
use crate::error::LabError;
use base::ByteSize;
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

/// Disks of one system.
pub const DISKS_MAX: usize = 256;
/// Operations handed to the kernel at once.
pub const BATCH_MAX: u32 = 1024;
/// Threads of the client.
pub const WORKERS_MAX: usize = 64;

/// Opens what is modelled. The lab knows no model: the program that has some hands them in.
pub trait Models {
    /// An engine on the cluster that `model` describes; `name` is that of the system, `seed` draws what is drawn at random.
    fn open(&self, name: &str, model: &toml::Table, seed: u64) -> Result<Box<dyn Engine>, LabError>;
}

/// Of a program without models.
pub struct NoModels;

impl Models for NoModels {
    fn open(&self, name: &str, _: &toml::Table, _: u64) -> Result<Box<dyn Engine>, LabError> {
        Err(LabError::Workload { place: format!("system {name}: simulate"), problem: "this program has no models: name disks".into() })
    }
}

/// What is measured, and through what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Name, as in tables.
    #[serde(default = "a")]
    pub name: String,
    /// Which engine.
    #[serde(default)]
    pub engine: EngineKind,
    /// Disks: paths, `PATH:SIZE` for a file that is made, or addresses.
    #[serde(default)]
    pub disks: Vec<String>,
    /// Threads of the client that drive the disks, at most.
    #[serde(default = "workers")]
    pub workers: usize,
    /// The threads of the client ask again and again instead of sleeping.
    #[serde(default)]
    pub spin: bool,
    /// Operations that the native engine hands to the kernel with one call, at most.
    #[serde(default = "batch")]
    pub batch: u32,
    /// Agents that drive the disks instead of this machine, as HOST:PORT; disks are dealt to them in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The file of the key that the agents have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_key: Option<PathBuf>,
    /// Instead of disks: a model, in virtual time, as whoever opens it describes it ([`Models`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulate: Option<toml::Table>,
}

/// Engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// By what the disks are.
    #[default]
    Auto,
    /// Block devices and files through io_uring.
    Native,
    /// NVMe/TCP through the house's own client.
    NvmeTcp,
    /// iSCSI through the house's own client.
    Iscsi,
    /// Block devices and files through fio.
    Fio,
}

fn a() -> String {
    "A".into()
}

fn batch() -> u32 {
    BATCH
}

/// As many threads as this machine has processors, at most 4: a client that takes them all slows a target beside it.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get()).min(4)
}

impl System {
    /// Through what suits the disks.
    pub fn of(disks: Vec<String>) -> System {
        System {
            name: a(),
            engine: EngineKind::Auto,
            disks,
            workers: workers(),
            spin: false,
            batch: BATCH,
            agents: Vec::new(),
            agent_key: None,
            simulate: None,
        }
    }

    /// Whether it makes sense.
    pub fn check(&self) -> Result<(), LabError> {
        let wrong = |key: &str, problem: &str| {
            Err(LabError::Workload { place: format!("system {}: {key}", self.name), problem: problem.to_owned() })
        };
        if self.simulate.is_some() {
            return match (self.disks.is_empty(), self.agents.is_empty()) {
                (true, true) => Ok(()),
                (true, false) => wrong("agents", "a modelled cluster runs on this machine: name no agents"),
                (false, _) => wrong("disks", "a modelled cluster has disks of its own: name none"),
            };
        }
        if self.disks.is_empty() || self.disks.len() > DISKS_MAX {
            return wrong(
                "disks",
                "a system has 1 to 256 disks: name at least one, such as /dev/nvme1n1, disk.img:10GiB, nvme-tcp://HOST:4420/NQN or iscsi://HOST:3260/IQN/LUN",
            );
        }
        if self.workers == 0 || self.workers > WORKERS_MAX {
            return wrong("workers", "1 to 64 threads");
        }
        if self.batch == 0 || self.batch > BATCH_MAX {
            return wrong("batch", "1 to 1024 operations handed over with one call");
        }
        self.check_agents()
    }

    fn check_agents(&self) -> Result<(), LabError> {
        let wrong = |problem: &str| Err(LabError::Workload { place: format!("system {}: agents", self.name), problem: problem.to_owned() });
        let mut names: Vec<&String> = self.agents.iter().collect();
        names.sort_unstable();
        names.dedup();
        match self.agents.len() {
            0 => Ok(()),
            n if n > AGENTS_MAX => wrong("a system has at most 64 agents"),
            n if names.len() < n => wrong("an agent is named twice: each works for one lab at a time, so name it once"),
            n if self.disks.len() < n => wrong(
                "there are more agents than disks, and each drives at least one: name a disk for each, the same one several times if all are to use it",
            ),
            _ if self.engine == EngineKind::Fio => wrong("fio does not begin together with others: use another engine"),
            _ if self.agent_key.is_none() => wrong("agents need their key: name its file with --agent-key"),
            _ => Ok(()),
        }
    }

    /// Opens it. `destroy`: the user said that what the disks hold may be lost. `seed` is for `models`. `ledgers`: what the disks of this run hold.
    pub fn open(&self, destroy: bool, seed: u64, ledgers: &Ledgers, models: &dyn Models) -> Result<Box<dyn Engine>, LabError> {
        self.check()?;
        if let Some(model) = &self.simulate {
            return models.open(&self.name, model, seed);
        }
        if !self.agents.is_empty() {
            return Ok(Box::new(Agents::connect(self, destroy, seed)?));
        }
        let [remote, units] = [SCHEME, iscsi_address::SCHEME].map(|s| self.disks.iter().filter(|d| d.starts_with(s)).count());
        let options = RemoteOptions { workers: self.workers, destroy, spin: self.spin };
        match self.engine {
            EngineKind::Auto if remote + units == 0 => self.native(destroy, ledgers),
            EngineKind::Auto | EngineKind::NvmeTcp if remote == self.disks.len() => {
                Ok(Box::new(NvmeTcp::connect(&self.disks, options)?.with_ledgers(ledgers.clone())))
            }
            EngineKind::Auto | EngineKind::Iscsi if units == self.disks.len() => {
                Ok(Box::new(Iscsi::connect(&self.disks, options)?.with_ledgers(ledgers.clone())))
            }
            EngineKind::Native if remote + units == 0 => self.native(destroy, ledgers),
            EngineKind::Fio if remote + units == 0 => Ok(Box::new(Fio::open(&self.local(), self.native_options(destroy))?)),
            _ => Err(LabError::Workload {
                place: format!("system {}: disks", self.name),
                problem: "the disks of one system are all addresses of one protocol (nvme-tcp://..., iscsi://...) or all paths, as its engine needs them".into(),
            }),
        }
    }

    fn native(&self, destroy: bool, ledgers: &Ledgers) -> Result<Box<dyn Engine>, LabError> {
        Ok(Box::new(Native::open(&self.local(), self.native_options(destroy))?.with_ledgers(ledgers.clone())))
    }

    fn local(&self) -> Vec<(PathBuf, Option<u64>)> {
        self.disks.iter().map(|d| path_and_size(d)).collect()
    }

    fn native_options(&self, destroy: bool) -> NativeOptions {
        NativeOptions { workers: self.workers, destroy, spin: self.spin, batch: self.batch }
    }
}

/// How addresses begin, of all protocols.
const SCHEMES: [&str; 2] = [SCHEME, iscsi_address::SCHEME];

/// Whether a disk is named by an address on the network.
pub fn is_remote(disk: &str) -> bool {
    SCHEMES.iter().any(|s| disk.starts_with(s))
}

/// Whether the target of a disk may be a process of this machine: an address here, or a block device that the kernel has from one.
pub fn is_here(disk: &str) -> bool {
    match SCHEMES.iter().find_map(|s| disk.strip_prefix(s)) {
        Some(place) => is_local(place.split(['/', '?']).next().unwrap_or(place)),
        None => portals(disk).iter().any(|portal| is_local(portal)),
    }
}

/// Whether a disk is on the network: an address, or a block device that the kernel has from there.
pub fn is_networked(disk: &str) -> bool {
    is_remote(disk) || !portals(disk).is_empty()
}

/// Where a block device of the kernel's own NVMe/TCP or iSCSI leads, address and port each; none: it is none of Basalt's.
fn portals(disk: &str) -> Vec<String> {
    let device =
        Path::new(disk).canonicalize().ok().filter(|p| p.starts_with("/dev")).and_then(|p| Some(p.file_name()?.to_str()?.to_owned()));
    let Some(device) = device else { return Vec::new() };
    let host = hostcheck::Host::read(Path::new("/"));
    host.map_or_else(|_| Vec::new(), |host| host.portals(&whole_device(&device)).into_iter().map(str::to_owned).collect())
}

/// The device that a partition is of; a whole one is itself.
fn whole_device(device: &str) -> String {
    let at = Path::new("/sys/class/block").join(device);
    let parent = || Some(at.canonicalize().ok()?.parent()?.file_name()?.to_str()?.to_owned());
    if at.join("partition").exists() { parent().unwrap_or_else(|| device.into()) } else { device.into() }
}

/// Whether `place`, ADDRESS, ADDRESS:PORT or the same with a name, is this machine.
fn is_local(place: &str) -> bool {
    let unbracketed = |t: &str| t.trim_start_matches('[').trim_end_matches(']').to_owned();
    let host = match place.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) => unbracketed(host),
        _ => unbracketed(place),
    };
    // Only an address of this machine can be taken.
    let is_mine = |a: SocketAddr| a.ip().is_loopback() || UdpSocket::bind((a.ip(), 0)).is_ok();
    (host.as_str(), 0).to_socket_addrs().is_ok_and(|mut all| all.any(is_mine))
}

/// `PATH` or `PATH:SIZE`; names below /dev/disk/by-path hold colons, and nothing is made there.
pub fn path_and_size(text: &str) -> (PathBuf, Option<u64>) {
    if let Some((path, size)) = text.rsplit_once(':')
        && !path.is_empty()
        && !text.starts_with("/dev/")
        && !Path::new(text).exists()
        && let Ok(size) = size.parse::<ByteSize>()
    {
        return (path.into(), Some(size.0));
    }
    (text.into(), None)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;

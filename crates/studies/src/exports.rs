//! What the nodes of a study serve to hosts: volumes under the same numbers, over NVMe/TCP and over iSCSI.

use base::{Security, Visibility, VolumeId};
use cluster::{Path, PathState};
use frontend::{FrontEnd, Pair};
use iscsi::{TargetDesired, UnitDesired};
use nvmf::{ListenerKind, ListenerSpec, NamespaceDesired, Options, SubsystemDesired, TargetShared};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;

/// What hosts reach a node by.
pub(crate) type Hosts = Pair<nvmf::Target, iscsi::Target>;

/// What a client reaches a volume by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// NVMe/TCP.
    NvmeTcp,
    /// iSCSI.
    Iscsi,
}

impl Transport {
    /// As in labels.
    pub fn name(self) -> &'static str {
        match self {
            Transport::NvmeTcp => "NVMe/TCP",
            Transport::Iscsi => "iSCSI",
        }
    }
}

/// What the cores' front ends for hosts share.
pub(crate) fn shared() -> <Hosts as FrontEnd>::Shared {
    let options = Options::default();
    let limits = options.host_limits();
    let nvme = Arc::new(TargetShared::new(options));
    let units = Arc::new(iscsi::Shared::new(Arc::clone(nvme.quotas()), limits));
    (nvme, units)
}

/// Where hosts find volumes over NVMe/TCP.
pub(crate) fn nvme_listener(addr: SocketAddr) -> ListenerSpec {
    ListenerSpec { addr, kind: ListenerKind::Io, advertise: None, security: Security::Plain }
}

/// The NQN of a subsystem of a study.
pub(crate) fn nqn(at: usize) -> String {
    format!("nqn.2026-11.io.basalt:study-{at}")
}
/// The iSCSI name of the same.
pub(crate) fn iqn(at: usize) -> String {
    format!("iqn.2026-11.io.basalt:study-{at}")
}

/// Volumes, to all hosts, with the numbers 1, 2 and so on.
pub(crate) fn exports(of: &[(usize, Vec<VolumeId>)]) -> <Hosts as FrontEnd>::Desired {
    let subsystem = |(at, volumes): &(usize, Vec<VolumeId>)| {
        let namespace = |volume: &VolumeId| NamespaceDesired { volume: *volume, hosts: Visibility::All, ana: nvmf::Ana::default() };
        SubsystemDesired {
            nqn: nqn(*at),
            serial: format!("study-{at}"),
            model: "Basalt study".into(),
            allow_any_host: true,
            hosts: Vec::new(),
            namespaces: (1..).zip(volumes.iter().map(namespace)).collect(),
            security: Security::Plain,
            manage_namespaces: false,
        }
    };
    let target = |(at, volumes): &(usize, Vec<VolumeId>)| {
        let path = Path { group: 1, state: PathState::Optimized };
        let unit = |volume: &VolumeId| UnitDesired { volume: *volume, hosts: Visibility::All, path };
        TargetDesired {
            name: iqn(*at),
            allow_any_host: true,
            hosts: Vec::new(),
            authenticated: false,
            units: (1..).zip(volumes.iter().map(unit)).collect(),
        }
    };
    let (subsystems, targets) = (of.iter().map(subsystem).collect(), of.iter().map(target).collect());
    (nvmf::Desired { subsystems, ..nvmf::Desired::default() }, iscsi::Desired { targets, ..iscsi::Desired::default() })
}

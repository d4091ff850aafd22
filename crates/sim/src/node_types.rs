//! The types of `dataplane` as the simulated node has them: its front ends are NVMe/TCP and iSCSI.

use base::VolumeId;
use frontend::{FrontEnd, Pair};
use std::net::SocketAddr;
use std::sync::Arc;

/// What hosts reach it by.
pub type Hosts = Pair<nvmf::Target, iscsi::Target>;
/// The door for commands.
pub type CommandSender = dataplane::CommandSender<Hosts>;
/// What a core is made from.
pub type CoreSeed = dataplane::CoreSeed<Hosts>;
/// What is to be served.
pub type Desired = dataplane::Desired<<Hosts as FrontEnd>::Desired>;
/// Where it listens.
pub type Listening = <Hosts as FrontEnd>::Listening;
/// Figures of one core.
pub type CoreSnapshot = dataplane::CoreSnapshot<<Hosts as FrontEnd>::Figures>;
/// Figures of the node.
pub type NodeStats = dataplane::NodeStats<<Hosts as FrontEnd>::Figures>;

/// The subsystem that is served.
pub const NQN: &str = "nqn.2026-11.io.basalt:simulated";
/// The name of the target that has the volumes of a simulated subsystem.
pub const IQN: &str = "iqn.2026-11.io.basalt:simulated";

/// The identifier of a volume: a single byte, many times.
pub fn volume_id(volume: usize) -> VolumeId {
    VolumeId::from_bytes([volume as u8 + 1; 16])
}

/// What the cores' front ends share.
pub fn shared(options: nvmf::Options) -> <Hosts as FrontEnd>::Shared {
    let limits = options.host_limits();
    let nvme = nvmf::TargetShared::new(options);
    let iscsi = iscsi::Shared::new(Arc::clone(nvme.quotas()), limits);
    (Arc::new(nvme), Arc::new(iscsi))
}

/// The same volumes under the same numbers, over iSCSI.
pub fn target(of: &nvmf::SubsystemDesired) -> iscsi::TargetDesired {
    let path = cluster::Path { group: 1, state: cluster::PathState::Optimized };
    let unit = |n: &nvmf::NamespaceDesired| iscsi::UnitDesired { volume: n.volume, hosts: n.hosts.clone(), path };
    iscsi::TargetDesired {
        name: IQN.into(),
        allow_any_host: true,
        hosts: Vec::new(),
        authenticated: false,
        units: of.namespaces.iter().map(|(nsid, n)| (*nsid, unit(n))).collect(),
    }
}

/// Where clients find a node that listens at these addresses: for NVMe/TCP, for iSCSI.
pub fn served_at([nvme, iscsi]: [SocketAddr; 2]) -> crate::client::Served {
    crate::client::Served { nvme: (nvme, NQN.into()), iscsi: (iscsi, IQN.into()) }
}

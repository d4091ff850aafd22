//! What this front end is to serve, as the control plane says it.

use crate::view::{Ana, HostView, NamespaceView, NodeView, SubsystemView, View};
use base::{Security, Visibility, VolumeId};
use cluster::Path;
use cluster::record::{NodeRecord, SubsystemRecord};
use frontend::{UnknownVolume, Volumes};
use std::collections::BTreeMap;

/// All subsystems, and what is known of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The subsystems that are served.
    pub subsystems: Vec<SubsystemDesired>,
    /// What is known of hosts, by NQN.
    pub hosts: BTreeMap<String, HostView>,
    /// The other nodes that serve the same subsystems.
    pub nodes: Vec<NodeView>,
    /// The firmware revision that hosts see: the same on every node of a cluster; empty: this release.
    pub firmware: String,
}

/// An NVMe subsystem.
#[derive(Clone, Debug, PartialEq)]
pub struct SubsystemDesired {
    /// Its NQN.
    pub nqn: String,
    /// Serial number: at most 20 printable ASCII characters.
    pub serial: String,
    /// Model number: at most 40 printable ASCII characters.
    pub model: String,
    /// Whether every host may connect.
    pub allow_any_host: bool,
    /// The NQNs of the hosts that may, otherwise.
    pub hosts: Vec<String>,
    /// By namespace ID, 1 and up.
    pub namespaces: BTreeMap<u32, NamespaceDesired>,
    /// What connections must at least have.
    pub security: Security,
    /// Its hosts may make, delete, attach, detach and format namespaces.
    pub manage_namespaces: bool,
}

/// A namespace of a subsystem.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceDesired {
    /// Its volume.
    pub volume: VolumeId,
    /// The hosts that see it.
    pub hosts: Visibility,
    /// Its path through this node.
    pub ana: Ana,
}

/// What hosts see as the model of a subsystem.
pub const MODEL: &str = "Basalt";

impl Desired {
    /// What the node `here` serves to hosts by the records, without what is known of hosts. `paths`: to the volumes that are seen; the namespaces
    /// of others are left out.
    pub fn of_records<'a>(
        subsystems: impl IntoIterator<Item = &'a SubsystemRecord>,
        nodes: &[NodeRecord],
        here: &str,
        paths: &BTreeMap<VolumeId, Path>,
    ) -> Desired {
        let node = |n: &NodeRecord| Some(NodeView { slot: n.slot?, portals: n.portals.clone() });
        Desired {
            subsystems: subsystems.into_iter().map(|s| SubsystemDesired::of_record(s, paths)).collect(),
            hosts: BTreeMap::new(),
            nodes: cluster::other_nodes(nodes, here).into_iter().filter_map(node).collect(),
            firmware: cluster::shown_release(nodes).unwrap_or_default().to_owned(),
        }
    }
    /// The same with volumes as places.
    pub(crate) fn resolve(&self, volumes: Volumes) -> Result<View, UnknownVolume> {
        let subsystems = self.subsystems.iter().map(|s| s.resolve(&volumes)).collect::<Result<_, _>>()?;
        Ok(View {
            generation: volumes.generation,
            subsystems,
            volumes: volumes.by_ref,
            hosts: self.hosts.clone(),
            nodes: self.nodes.clone(),
            firmware: self.firmware.clone(),
        })
    }
}

impl SubsystemDesired {
    /// As its record says, with the namespaces whose volumes have a path.
    fn of_record(s: &SubsystemRecord, paths: &BTreeMap<VolumeId, Path>) -> SubsystemDesired {
        let namespaces = s.namespaces.iter().filter_map(|(nsid, n)| {
            let ana = Ana::from(*paths.get(&n.volume)?);
            Some((*nsid, NamespaceDesired { volume: n.volume, hosts: n.hosts.clone(), ana }))
        });
        SubsystemDesired {
            nqn: s.nqn.clone(),
            serial: s.serial.clone(),
            model: MODEL.into(),
            allow_any_host: s.allow_any_host,
            hosts: s.hosts.iter().cloned().collect(),
            namespaces: namespaces.collect(),
            security: s.security,
            manage_namespaces: s.namespace_grant.is_some(),
        }
    }
    fn resolve(&self, volumes: &Volumes) -> Result<SubsystemView, UnknownVolume> {
        let namespace = |(nsid, n): (&u32, &NamespaceDesired)| {
            let volume = volumes.place(&self.nqn, n.volume)?;
            Ok((*nsid, NamespaceView { volume, hosts: n.hosts.clone(), ana: n.ana }))
        };
        Ok(SubsystemView {
            nqn: self.nqn.clone(),
            serial: self.serial.clone(),
            model: self.model.clone(),
            allow_any_host: self.allow_any_host,
            hosts: self.hosts.clone(),
            namespaces: self.namespaces.iter().map(namespace).collect::<Result<_, _>>()?,
            security: self.security,
            manage_namespaces: self.manage_namespaces,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::AnaState;
    use base::NodeSlot;
    use object::VolumeRef;

    #[test]
    fn what_subsystems_go_by_is_what_is_desired() {
        let id = |n: u8| VolumeId::from_bytes([n; 16]);
        let ana = |n: u8| Ana { group: n.into(), state: AnaState::NonOptimized };
        let namespace = |n, hosts: &Visibility| NamespaceDesired { volume: id(n), hosts: hosts.clone(), ana: ana(n) };
        let only = Visibility::Only(["h1".to_owned()].into());
        let subsystem = |n: u8| SubsystemDesired {
            nqn: format!("nqn.{n}"),
            serial: format!("serial {n}"),
            model: format!("model {n}"),
            allow_any_host: n == 1,
            hosts: vec![format!("host {n}")],
            namespaces: BTreeMap::from([(7, namespace(n, &only)), (9, namespace(3 - n, &Visibility::All))]),
            security: if n == 1 { Security::Encrypted } else { Security::Plain },
            manage_namespaces: n == 2,
        };
        let hosts = BTreeMap::from([("h1".to_owned(), HostView { connections_max: Some(3), ..HostView::default() })]);
        let nodes = vec![NodeView { slot: NodeSlot::new(5).unwrap(), portals: Vec::new() }];
        let desired = Desired { subsystems: vec![subsystem(1), subsystem(2)], hosts, nodes, firmware: "9.8.7".into() };
        let places = BTreeMap::from([(id(1), VolumeRef(5)), (id(2), VolumeRef(3))]);
        let view = desired.resolve(Volumes { generation: 77, by_ref: vec![None; 6], places: places.clone() }).unwrap();

        assert_eq!((view.generation, view.volumes.len(), &view.hosts), (77, 6, &desired.hosts));
        assert_eq!((&view.nodes, &view.firmware), (&desired.nodes, &desired.firmware));
        assert_eq!(view.subsystems.len(), 2);
        for (seen, wanted) in view.subsystems.iter().zip(&desired.subsystems) {
            assert_eq!((&seen.nqn, &seen.serial, &seen.model), (&wanted.nqn, &wanted.serial, &wanted.model));
            assert_eq!((seen.allow_any_host, &seen.hosts), (wanted.allow_any_host, &wanted.hosts));
            assert_eq!((seen.security, seen.manage_namespaces), (wanted.security, wanted.manage_namespaces));
            assert!(seen.namespaces.keys().eq(wanted.namespaces.keys()));
            for (seen, wanted) in seen.namespaces.values().zip(wanted.namespaces.values()) {
                assert_eq!((seen.volume, &seen.hosts, seen.ana), (places[&wanted.volume], &wanted.hosts, wanted.ana));
            }
        }
        let left = Volumes { places: BTreeMap::from([(id(1), VolumeRef(5))]), ..Volumes::default() };
        assert_eq!(desired.resolve(left).unwrap_err(), UnknownVolume { export: "nqn.1".into(), volume: id(2) });
    }
}

//! What this front end is to serve, as the control plane says it: subsystems that have an iSCSI name are targets, their namespace IDs LUNs.

use crate::view::{HostView, NodeView, TargetView, UnitView, View};
use base::{NodeSlot, Security, Visibility, VolumeId};
use cluster::Path;
use cluster::record::{NodeRecord, SubsystemRecord};
use frontend::{UnknownVolume, Volumes};
use std::collections::BTreeMap;

/// All targets, and what is known of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The slot of this node: its portals have the portal group of that.
    pub slot: NodeSlot,
    /// The targets that are served.
    pub targets: Vec<TargetDesired>,
    /// The other nodes that serve the same targets.
    pub nodes: Vec<NodeView>,
    /// What is known of hosts, by name.
    pub hosts: BTreeMap<String, HostView>,
}

/// A target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetDesired {
    /// Its iSCSI name.
    pub name: String,
    /// Whether every host may log in.
    pub allow_any_host: bool,
    /// The names of the hosts that may, otherwise.
    pub hosts: Vec<String>,
    /// Hosts have to prove who they are.
    pub authenticated: bool,
    /// By LUN.
    pub units: BTreeMap<u32, UnitDesired>,
}

/// A logical unit of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitDesired {
    /// Its volume.
    pub volume: VolumeId,
    /// The hosts that see it.
    pub hosts: Visibility,
    /// The path to it through this node.
    pub path: Path,
}

impl Desired {
    /// What the node `here` serves to hosts by the records, without what is known of hosts. `paths`: to the volumes that are seen; those of
    /// others are left out. A subsystem whose hosts have to use TLS is not served over iSCSI, which has none.
    pub fn of_records<'a>(
        subsystems: impl IntoIterator<Item = &'a SubsystemRecord>,
        nodes: &[NodeRecord],
        here: &str,
        paths: &BTreeMap<VolumeId, Path>,
    ) -> Desired {
        let slot = nodes.iter().find(|n| n.name == here).and_then(|n| n.slot);
        let node = |n: &NodeRecord| Some(NodeView { slot: n.slot?, portals: n.iscsi_portals.clone() });
        Desired {
            slot: slot.unwrap_or(NodeSlot::FIRST),
            targets: subsystems.into_iter().filter_map(|s| TargetDesired::of_record(s, paths)).collect(),
            nodes: cluster::other_nodes(nodes, here).into_iter().filter_map(node).collect(),
            hosts: BTreeMap::new(),
        }
    }
    /// The same with volumes as places.
    pub(crate) fn resolve(&self, volumes: Volumes) -> Result<View, UnknownVolume> {
        let targets = self.targets.iter().map(|t| t.resolve(&volumes)).collect::<Result<_, _>>()?;
        Ok(View {
            generation: volumes.generation,
            slot: self.slot,
            targets,
            nodes: self.nodes.clone(),
            volumes: volumes.by_ref,
            hosts: self.hosts.clone(),
        })
    }
}

impl TargetDesired {
    /// As its record says, with the units whose volumes have a path; `None`: it is not served over iSCSI.
    fn of_record(s: &SubsystemRecord, paths: &BTreeMap<VolumeId, Path>) -> Option<TargetDesired> {
        let seen = s.namespaces.iter().filter_map(|(nsid, n)| Some((nsid, n, *paths.get(&n.volume)?)));
        Some(TargetDesired {
            name: s.iqn.clone().filter(|_| s.security != Security::Encrypted)?,
            allow_any_host: s.allow_any_host,
            hosts: s.hosts.iter().cloned().collect(),
            authenticated: s.security == Security::Authenticated,
            units: seen.map(|(nsid, n, path)| (*nsid, UnitDesired { volume: n.volume, hosts: n.hosts.clone(), path })).collect(),
        })
    }
    fn resolve(&self, volumes: &Volumes) -> Result<TargetView, UnknownVolume> {
        let unit = |(lun, u): (&u32, &UnitDesired)| {
            Ok((*lun, UnitView { volume: volumes.place(&self.name, u.volume)?, hosts: u.hosts.clone(), path: u.path }))
        };
        let units = self.units.iter().map(unit).collect::<Result<_, _>>()?;
        let (name, hosts) = (self.name.clone(), self.hosts.clone());
        Ok(TargetView { name, allow_any_host: self.allow_any_host, hosts, authenticated: self.authenticated, units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::PathState;
    use cluster::record::NamespaceRecord;
    use std::collections::BTreeSet;

    #[test]
    fn subsystems_with_an_iscsi_name_are_targets_and_namespace_ids_their_luns() {
        let id = |n: u8| VolumeId::from_bytes([n; 16]);
        let subsystem = |name: &str, iqn: Option<&str>, security| SubsystemRecord {
            nqn: format!("nqn.{name}"),
            name: name.into(),
            serial: String::new(),
            iqn: iqn.map(str::to_owned),
            allow_any_host: false,
            hosts: BTreeSet::from(["iqn.h".to_owned()]),
            namespaces: BTreeMap::from([(3, NamespaceRecord::for_all(id(1))), (7, NamespaceRecord::for_all(id(2)))]),
            security,
            namespace_grant: None,
            created_unix_s: 0,
        };
        let all = [
            subsystem("a", Some("iqn.a"), Security::Authenticated),
            subsystem("b", None, Security::Plain),
            subsystem("c", Some("iqn.c"), Security::Encrypted),
        ];
        let slot = |n| NodeSlot::new(n).unwrap();
        let mut nodes = ["x", "y"].map(|name| NodeRecord::new(name.into(), name.into(), 0));
        (nodes[0].slot, nodes[1].slot) = (Some(slot(4)), Some(slot(9)));
        let path = Path { state: PathState::Optimized, group: 5 };
        let paths = BTreeMap::from([(id(1), path)]);
        let desired = Desired::of_records(&all, &nodes, "x", &paths);
        assert_eq!((desired.slot, desired.nodes.iter().map(|n| n.slot).collect::<Vec<_>>()), (slot(4), vec![slot(9)]));
        let [target] = &desired.targets[..] else { panic!("{:?}", desired.targets) };
        assert_eq!((target.name.as_str(), target.authenticated, &target.hosts[..]), ("iqn.a", true, &["iqn.h".to_owned()][..]));
        assert_eq!(
            target.units,
            [(3, UnitDesired { volume: id(1), hosts: Visibility::All, path })].into(),
            "what has no path here is left out"
        );
    }
}

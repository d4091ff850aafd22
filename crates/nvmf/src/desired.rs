//! What this front end is to serve, as the control plane says it.

use crate::view::{Ana, HostView, NamespaceView, SubsystemView, View};
use base::{Security, Visibility, VolumeId};
use frontend::{UnknownVolume, Volumes};
use std::collections::BTreeMap;

/// All subsystems, and what is known of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The subsystems that are served.
    pub subsystems: Vec<SubsystemDesired>,
    /// What is known of hosts, by NQN.
    pub hosts: BTreeMap<String, HostView>,
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
}

impl Desired {
    /// The same with volumes as places.
    pub(crate) fn resolve(&self, volumes: Volumes) -> Result<View, UnknownVolume> {
        let subsystems = self.subsystems.iter().map(|s| s.resolve(&volumes)).collect::<Result<_, _>>()?;
        Ok(View { generation: volumes.generation, subsystems, volumes: volumes.by_ref, hosts: self.hosts.clone() })
    }
}

impl SubsystemDesired {
    fn resolve(&self, volumes: &Volumes) -> Result<SubsystemView, UnknownVolume> {
        let namespace = |(nsid, n): (&u32, &NamespaceDesired)| {
            let volume = volumes.place(&self.nqn, n.volume)?;
            Ok((*nsid, NamespaceView { volume, hosts: n.hosts.clone(), ana: Ana::default() }))
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
    use object::VolumeRef;

    #[test]
    fn what_subsystems_go_by_is_what_is_desired() {
        let id = |n: u8| VolumeId::from_bytes([n; 16]);
        let namespace = |n, hosts: &Visibility| NamespaceDesired { volume: id(n), hosts: hosts.clone() };
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
        let desired = Desired { subsystems: vec![subsystem(1), subsystem(2)], hosts };
        let places = BTreeMap::from([(id(1), VolumeRef(5)), (id(2), VolumeRef(3))]);
        let view = desired.resolve(Volumes { generation: 77, by_ref: vec![None; 6], places: places.clone() }).unwrap();

        assert_eq!((view.generation, view.volumes.len(), &view.hosts), (77, 6, &desired.hosts));
        assert_eq!(view.subsystems.len(), 2);
        for (seen, wanted) in view.subsystems.iter().zip(&desired.subsystems) {
            assert_eq!((&seen.nqn, &seen.serial, &seen.model), (&wanted.nqn, &wanted.serial, &wanted.model));
            assert_eq!((seen.allow_any_host, &seen.hosts), (wanted.allow_any_host, &wanted.hosts));
            assert_eq!((seen.security, seen.manage_namespaces), (wanted.security, wanted.manage_namespaces));
            assert!(seen.namespaces.keys().eq(wanted.namespaces.keys()));
            for (seen, wanted) in seen.namespaces.values().zip(wanted.namespaces.values()) {
                assert_eq!((seen.volume, &seen.hosts), (places[&wanted.volume], &wanted.hosts));
            }
        }
        let left = Volumes { places: BTreeMap::from([(id(1), VolumeRef(5))]), ..Volumes::default() };
        assert_eq!(desired.resolve(left).unwrap_err(), UnknownVolume { export: "nqn.1".into(), volume: id(2) });
    }
}

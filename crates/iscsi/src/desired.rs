//! What this front end is to serve, as the control plane says it.

use crate::view::{HostView, TargetView, UnitView, View};
use base::{Visibility, VolumeId};
use frontend::{UnknownVolume, Volumes};
use std::collections::BTreeMap;

/// All targets, and what is known of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The targets that are served.
    pub targets: Vec<TargetDesired>,
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
}

impl Desired {
    /// The same with volumes as places.
    pub(crate) fn resolve(&self, volumes: Volumes) -> Result<View, UnknownVolume> {
        let targets = self.targets.iter().map(|t| t.resolve(&volumes)).collect::<Result<_, _>>()?;
        Ok(View { generation: volumes.generation, targets, volumes: volumes.by_ref, hosts: self.hosts.clone() })
    }
}

impl TargetDesired {
    fn resolve(&self, volumes: &Volumes) -> Result<TargetView, UnknownVolume> {
        let unit =
            |(lun, u): (&u32, &UnitDesired)| Ok((*lun, UnitView { volume: volumes.place(&self.name, u.volume)?, hosts: u.hosts.clone() }));
        let units = self.units.iter().map(unit).collect::<Result<_, _>>()?;
        Ok(TargetView { name: self.name.clone(), allow_any_host: self.allow_any_host, hosts: self.hosts.clone(), units })
    }
}

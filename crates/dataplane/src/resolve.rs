//! From what the control plane wants to what the layers go by: identities become places.
//!
//! Invariant: a volume keeps its place and, while they are the same, its limits; nothing changes when it fails.
//! Never: decides what is served.

use crate::{
    controller::CoreController,
    core_state::OpenGroup,
    desired::{Desired, Stripe, VolumeDesired},
    error::DataPlaneError,
};
use base::hooks::{self, SeededFault};
use base::{GroupId, VolumeId};
use frontend::{FrontEnd, VolumeView, Volumes};
use object::{ComponentAt, LayoutView, Limits, VolumeLayout, VolumeRef};
use std::collections::BTreeMap;
use std::sync::Arc;

impl<F: FrontEnd> CoreController<F> {
    /// Turns identities into places. Changes nothing when it fails.
    pub(crate) fn resolve(&self, desired: &Desired<F::Desired>) -> Result<(Arc<LayoutView>, Arc<F::View>), DataPlaneError> {
        let ledger = &mut self.core.borrow_mut().ledger;
        let mut layouts = BTreeMap::new();
        for volume in &desired.volumes {
            let stripes = volume_stripes(volume, &ledger.groups)?;
            let wanted = (volume.iops_max, volume.bytes_per_s_max);
            let limits = match ledger.limits.get(&volume.id) {
                Some((iops, bandwidth, limits))
                    if (*iops == wanted.0 && (*bandwidth == wanted.1 || hooks::seeded(SeededFault::BandwidthForgotten)))
                        && !hooks::seeded(SeededFault::LimitsBeginAnew) =>
                {
                    Arc::clone(limits)
                }
                _ => Arc::new(Limits::new(wanted.0, wanted.1)),
            };
            let layout = VolumeLayout {
                id: volume.id,
                bytes: if volume.formatting && !hooks::seeded(SeededFault::FormatLeavesBlocks) { 0 } else { volume.bytes },
                read_only: volume.write_protect.is_on(),
                checksum: volume.checksum,
                limits,
                ownership: volume.object.ownership,
                stripes,
            };
            layouts.insert(volume.id, (wanted, Arc::new(layout)));
        }
        let mut places = ledger.volumes.clone();
        for id in layouts.keys() {
            let next = VolumeRef(places.len() as u32);
            places.entry(*id).or_insert(next);
        }
        let view = F::resolve(&desired.exports, volumes(desired, &places, &ledger.groups))?;
        ledger.volumes = places;
        ledger.limits = layouts.iter().map(|(id, (wanted, l))| (*id, (wanted.0, wanted.1, Arc::clone(&l.limits)))).collect();
        let mut by_ref = vec![None; ledger.volumes.len()];
        for (id, (_, layout)) in layouts {
            by_ref[ledger.volumes[&id].0 as usize] = Some(layout);
        }
        Ok((Arc::new(LayoutView { volumes: by_ref }), Arc::new(view)))
    }
}

fn volume_stripes(volume: &VolumeDesired, groups: &BTreeMap<GroupId, OpenGroup>) -> Result<Vec<ComponentAt>, DataPlaneError> {
    let place = |stripe: &Stripe| match stripe.components.as_slice() {
        [only] => match groups.get(&only.group) {
            Some(open) => Ok(ComponentAt { group: open.slot, no: only.no }),
            None => Err(DataPlaneError::GroupOfVolume { volume: volume.name.clone(), group: only.group }),
        },
        _ => Err(DataPlaneError::Mirrored { volume: volume.name.clone() }),
    };
    volume.object.stripes.iter().map(place).collect()
}

fn volume_view(v: &VolumeDesired, groups: &BTreeMap<GroupId, OpenGroup>) -> VolumeView {
    let components = v.object.stripes.iter().flat_map(|s| &s.components);
    let used = || components.filter_map(|c| Some(groups.get(&c.group)?.group.used(c.no))).collect();
    VolumeView {
        id: v.id,
        name: v.name.clone(),
        bytes: v.bytes,
        lba_bytes: v.lba_bytes,
        write_protect: v.write_protect,
        formatting: v.formatting,
        reservation: v.reservation.clone(),
        thin: v.thin.then(used),
    }
}

fn volumes<E>(desired: &Desired<E>, places: &BTreeMap<VolumeId, VolumeRef>, groups: &BTreeMap<GroupId, OpenGroup>) -> Volumes {
    let mut by_ref = vec![None; places.len()];
    for volume in &desired.volumes {
        by_ref[places[&volume.id].0 as usize] = Some(volume_view(volume, groups));
    }
    let served = desired.volumes.iter().map(|v| (v.id, places[&v.id])).collect();
    Volumes { generation: desired.generation, by_ref, places: served }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;

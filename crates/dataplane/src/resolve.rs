//! From what the control plane wants to what the layers go by: identities become places.
//!
//! Invariants: a volume keeps its place and, while they are the same, its limits; a lane keeps its core for a term; nothing changes when it fails.
//! Never: decides what is served.

use crate::{
    controller::CoreController,
    core_state::{Ledger, OpenGroup},
    desired::{ComponentRef, Desired, MirrorDesired, VolumeDesired},
    error::DataPlaneError,
};
use base::hooks::{self, SeededFault};
use base::{ComponentId, GroupId, ObjectId, VolumeId};
use frontend::{FrontEnd, VolumeView, Volumes};
use object::{
    ComponentAt, CopyAt, CopyPlace, HeldCopy, LaneCores, LayoutView, Limits, Mirror, TermCores, VolumeLayout, VolumeLimits, VolumeRef,
};
use std::collections::BTreeMap;
use std::sync::Arc;

impl<F: FrontEnd> CoreController<F> {
    /// Turns identities into places. Changes nothing when it fails.
    pub(crate) fn resolve(&self, desired: &Desired<F::Desired>) -> Result<(Arc<LayoutView>, Arc<F::View>), DataPlaneError> {
        let ledger = &mut self.core.borrow_mut().ledger;
        let places = places(desired, ledger);
        let (mut layouts, mut cores) = (BTreeMap::new(), BTreeMap::new());
        for volume in &desired.volumes {
            let (mirrors, of_term) = volume_mirrors(volume, ledger, self.rt.cores())?;
            cores.insert(volume.object.object, of_term);
            let wanted = volume.limits;
            let limits = match ledger.limits.get(&volume.id) {
                Some((had, limits)) if keeps_limits(*had, wanted) => Arc::clone(limits),
                _ => Arc::new(Limits::new(wanted)),
            };
            let layout = VolumeLayout {
                id: volume.id,
                lanes: places.lanes[&volume.object.object],
                bytes: if volume.formatting && !hooks::seeded(SeededFault::FormatLeavesBlocks) { 0 } else { volume.bytes },
                read_only: volume.write_protect.is_on(),
                checksum: volume.checksum,
                limits,
                ownership: volume.object.ownership,
                mirrors,
                owner: volume.owner,
                revision: volume.revision,
            };
            layouts.insert(volume.id, (wanted, Arc::new(layout)));
        }
        let view = F::resolve(&desired.exports, volumes(desired, &places, &ledger.groups))?;
        (ledger.volumes, ledger.lanes, ledger.places_given) = (places.volumes, places.lanes, places.given);
        ledger.limits = layouts.iter().map(|(id, (wanted, l))| (*id, (*wanted, Arc::clone(&l.limits)))).collect();
        ledger.cores = cores;
        let here = desired.volumes.iter().flat_map(|v| &v.object.mirrors).flat_map(MirrorDesired::here);
        ledger.first_cores.extend(here.filter_map(|c| Some((c.group, ledger.groups.get(&c.group)?.route.first_core))));
        let (mut by_ref, mut moved) = (vec![None; ledger.places_given as usize], BTreeMap::new());
        for (id, (_, layout)) in layouts {
            let at = ledger.volumes[&id];
            if layout.lanes != at {
                moved.insert(layout.lanes, at);
            }
            by_ref[at.0 as usize] = Some(layout);
        }
        let held = held_copies(desired, &ledger.groups);
        Ok((Arc::new(LayoutView { volumes: by_ref, held, moved }), Arc::new(view)))
    }
}

/// The places of volumes, and of the lanes of their objects.
struct Places {
    volumes: BTreeMap<VolumeId, VolumeRef>,
    lanes: BTreeMap<ObjectId, VolumeRef>,
    given: u32,
}

/// Those that there were, and of what is new. The lanes of an object are where its volume is when it is first seen, unless those of another object of
/// that volume were there.
fn places<E>(desired: &Desired<E>, ledger: &Ledger) -> Places {
    let mut given = ledger.places_given;
    let mut next = || {
        given += 1;
        VolumeRef(given - 1)
    };
    let (mut volumes, mut lanes) = (ledger.volumes.clone(), ledger.lanes.clone());
    let mut sorted: Vec<&VolumeDesired> = desired.volumes.iter().collect();
    sorted.sort_by_key(|volume| volume.id);
    for volume in sorted {
        let is_new = !volumes.contains_key(&volume.id);
        let at = *volumes.entry(volume.id).or_insert_with(&mut next);
        lanes.entry(volume.object.object).or_insert_with(|| if is_new { at } else { next() });
    }
    Places { volumes, lanes, given }
}

/// What this node has of objects that other nodes own, as far as the groups are open.
fn held_copies<E>(desired: &Desired<E>, groups: &BTreeMap<GroupId, OpenGroup>) -> BTreeMap<ComponentId, HeldCopy> {
    let held = desired.held.iter().filter_map(|held| {
        let at = ComponentAt { group: groups.get(&held.component.group)?.slot, no: held.component.no };
        Some((held.component.id, HeldCopy { at, owner: held.owner, epoch: held.epoch }))
    });
    held.collect()
}

/// Whether a volume keeps the limits that it had, with what they have counted.
fn keeps_limits(had: VolumeLimits, wanted: VolumeLimits) -> bool {
    let same_bandwidth = had.bytes_per_s_max == wanted.bytes_per_s_max || hooks::seeded(SeededFault::BandwidthForgotten);
    had.iops_max == wanted.iops_max && same_bandwidth && !hooks::seeded(SeededFault::LimitsBeginAnew)
}

/// The mirrors of a volume with their copies at their places, and the cores of their lanes. `cores`: how many there are.
fn volume_mirrors(volume: &VolumeDesired, ledger: &Ledger, cores: usize) -> Result<(Vec<Mirror>, TermCores), DataPlaneError> {
    let object = &volume.object;
    let group = |c: &ComponentRef| {
        let not_open = || DataPlaneError::GroupOfVolume { volume: volume.name.clone(), group: c.group };
        ledger.groups.get(&c.group).ok_or_else(not_open)
    };
    let place = |copy: &CopyAt<ComponentRef>| -> Result<CopyAt, DataPlaneError> {
        let place = match copy.place {
            CopyPlace::Here(c) => CopyPlace::Here(ComponentAt { group: group(&c)?.slot, no: c.no }),
            CopyPlace::On { node, component } => CopyPlace::On { node, component },
        };
        Ok(CopyAt { state: copy.state, place })
    };
    let route = |mirror: &MirrorDesired| match mirror.here().collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(group(only)?.route)),
        _ => Err(DataPlaneError::CopiesOnNode { volume: volume.name.clone() }),
    };
    let routes = object.mirrors.iter().map(route).collect::<Result<Vec<_>, _>>()?;
    let before = ledger.cores.get(&object.object);
    let of_term = TermCores::of(object.object, object.ownership.term, routes.iter().copied(), cores, before);
    let mirror = |((no, mirror), route): ((usize, &MirrorDesired), Option<_>)| -> Result<Mirror, DataPlaneError> {
        let copies = mirror.copies.iter().map(place).collect::<Result<_, _>>()?;
        let shards = route.filter(|_| mirror.alone).map(|route| LaneCores::of_group(route, cores));
        Ok(Mirror::new(copies, of_term.of_mirror(no), shards))
    };
    let mirrors = object.mirrors.iter().enumerate().zip(routes).map(mirror).collect::<Result<_, _>>()?;
    Ok((mirrors, of_term))
}

fn volume_view(v: &VolumeDesired, groups: &BTreeMap<GroupId, OpenGroup>) -> VolumeView {
    let components = v.object.mirrors.iter().flat_map(MirrorDesired::here).filter(|_| v.thin);
    let used = components.filter_map(|c| Some(groups.get(&c.group)?.group.used(c.no))).collect();
    VolumeView { volume: v.volume.clone(), used, limited: !v.limits.is_none(), owner: v.owner, revision: v.revision }
}

fn volumes<E>(desired: &Desired<E>, places: &Places, groups: &BTreeMap<GroupId, OpenGroup>) -> Volumes {
    let mut by_ref = vec![None; places.given as usize];
    for volume in &desired.volumes {
        by_ref[places.volumes[&volume.id].0 as usize] = Some(volume_view(volume, groups));
    }
    let served = desired.volumes.iter().map(|v| (v.id, places.volumes[&v.id])).collect();
    Volumes { generation: desired.generation, by_ref, places: served }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;

//! Capacity devices of disk groups in use: they come, what lies on them goes elsewhere, they leave.
//!
//! ```text
//!   add      record: joins ─► the data plane adds it ─► record: in use
//!   remove   record: leaves ─► volumes that lie there are laid out anew (`moves`) ─► the data plane is rid of it ─► record: gone
//!   lost     record: lost ─► the group is opened without it ─► volumes go on with other copies, or are deleted ─► record: gone
//! ```
//!
//! Invariants: what the record says is settled by what the data plane says of the group's devices, whatever a crash has left; nothing is placed on a
//! device that is to leave; a device leaves when nothing lies on it.
//! Never: moves data.

use super::groups::{CAPACITY_DEVICES_MAX, check_room, will_be_created};
use super::*;
use crate::api::{path_below, types as api};
use crate::plane::OpenedDevices;
use cluster::{Inventory, PlaceError};
use dataplane::DataPlaneError;
use std::path::{Path, PathBuf};
use store::GroupError;

/// Volumes that are named when a device cannot be vacated.
const NAMED_MAX: usize = 5;

impl Control {
    /// Adds a capacity device to a disk group. The node that has the group does it.
    pub fn add_device(&self, group: &str, new: &api::AddedDevice) -> Result<api::Group, Problem> {
        let group = self.group_record(group)?;
        if group.node != self.identity.node {
            let body = serde_json::to_vec(new).expect("plain data");
            return self.at_node(&group.node, "POST", format!("/cluster/v1/groups/{}/devices", group.id()), Some(body));
        }
        self.add_device_here(&group.id(), new)
    }

    fn add_device_here(&self, group: &str, new: &api::AddedDevice) -> Result<api::Group, Problem> {
        let _devices = self.devices();
        let group = self.group_whose_devices_change(group)?;
        let asked = api::NewDevice { path: new.path.clone(), bytes: new.bytes };
        let created = will_be_created(&asked);
        // One that was tried before, with an outcome that is not known.
        let again = group.numbered().find(|(.., device, change)| is_at(device, &new.path) && *change == Some(DeviceChange::Joins));
        let again = again.map(|(number, device, _)| (number, device.clone()));
        let device = match &again {
            Some((_, device)) => device.clone(),
            None => self.check_device(&asked, new.force)?,
        };
        if matches!(device, DeviceRecord::Memory { .. }) {
            return Err(Problem::invalid("memory cannot be added to a disk group", "name a drive or a file"));
        }
        if again.is_none() {
            self.refuse_shared_devices(std::iter::once(&device))?;
            let alone = GroupRecord { capacity: vec![device.clone()], changes: BTreeMap::new(), ..group.value.clone() };
            check_room(&alone, created.as_slice())?;
        }
        let (_, number) = self.decided(|| {
            let mut group = self.group_record(&group.id())?;
            if let Some((number, _)) = &again {
                return Ok((Transaction::new(), *number));
            }
            if group.numbered().count() >= CAPACITY_DEVICES_MAX {
                return Err(Problem::refused(
                    format!("disk group {} has {CAPACITY_DEVICES_MAX} capacity devices, as many as it can have", group.name),
                    "make another group; or 'basalt group remove-device' first",
                ));
            }
            let number = group.value.joins(device.clone());
            Ok((Transaction::new().update(&group), number))
        })?;
        if let Err(error) = self.plane.add_capacity(group.id, number, &device, new.force || again.is_some()) {
            if is_undecided(&error) {
                let mut live = self.live();
                live.undecided.insert((group.id, number));
                live.devices_stay.insert((group.id, number), error.to_string());
                return Err(error.into());
            }
            self.note_device(group.id, number, Some(DeviceChange::Gone))?;
            created.iter().for_each(|path: &PathBuf| drop(std::fs::remove_file(path)));
            return Err(error.into());
        }
        self.live().undecided.remove(&(group.id, number));
        self.note_device(group.id, number, None)?;
        self.apply()?;
        tracing::info!(group = %group.name, device = %new.path, number, "a capacity device was added to the disk group");
        self.group(&group.id())
    }

    /// Has a capacity device leave a disk group, or stay after all.
    pub fn remove_device(&self, group: &str, device: &str, how: api::Removal) -> Result<api::Group, Problem> {
        let group = self.group_record(group)?;
        if group.node != self.identity.node {
            let path = path_below(&format!("/cluster/v1/groups/{}/devices", group.id()), device);
            let api::Removal { keep, lost, force } = how;
            return self.at_node(&group.node, "DELETE", format!("{path}?keep={keep}&lost={lost}&force={force}"), None);
        }
        let _devices = self.devices();
        if how.lost {
            self.lose_device_here(&group.id(), device, how.force)
        } else {
            self.remove_device_here(&group.id(), device, how.keep)
        }
    }

    /// The group is opened without a device that is gone for good. With `force` the volumes that have no other copy of what lay there are deleted.
    fn lose_device_here(&self, group: &str, device: &str, force: bool) -> Result<api::Group, Problem> {
        let group = self.group_record(group)?;
        if self.live().groups.get(&group.id).is_some_and(GroupLive::is_online) {
            return Err(Problem::refused(
                format!("disk group {} is online, with {device}", group.name),
                "leave out --lost: what lies there goes elsewhere; if it cannot be read any more, take it out and restart the daemon first",
            ));
        }
        let (number, path, _) = numbered_at(&group, device)?;
        let others = group.numbered().filter(|(other, _, change)| *other != number && !matches!(change, Some(DeviceChange::Lost)));
        if group.stage != Stage::Ready || group.is_volatile() || others.count() == 0 {
            return Err(Problem::refused(
                format!("without {path} nothing is left of disk group {}", group.name),
                format!("'basalt group remove {} --force': the volumes that have no copies elsewhere are lost", group.name),
            ));
        }
        let mut ends = Vec::new();
        for volume in self.volumes_on(group.id)? {
            let object = self.object_of(&volume)?;
            let goes = |c: &ComponentRecord| (c.group, c.capacity_index) == (group.id, number);
            if object.components().any(goes) && cluster::without(&object, goes) == cluster::Without::Lost && volume.place_of.is_none() {
                ends.push(volume.name.clone());
            }
        }
        if !ends.is_empty() && !force {
            ends.sort();
            return Err(Problem::refused(
                format!("{path} had data of {} volume(s) that have no other copy of it: {}", ends.len(), named(&ends)),
                "bring the device back; or use --force: these volumes are deleted",
            ));
        }
        tracing::warn!(group = %group.name, device = %path, number, volumes = ?ends, "a capacity device is given up for lost");
        self.note_device(group.id, number, Some(DeviceChange::Lost))?;
        let group = self.group_record(&group.id())?;
        self.open(&group)?;
        let why = match self.live().groups.get(&group.id) {
            Some(GroupLive::Offline(why)) => Some(why.clone()),
            _ => None,
        };
        if let Some(why) = why {
            return Err(Problem::new(
                crate::Code::Unavailable,
                format!("disk group {} cannot be opened without {path} either: {why}", group.name),
                "bring its other devices back, then restart the daemon (systemctl restart basalt)",
            ));
        }
        self.settle_devices(&group.id())?;
        self.work_and_serve();
        self.group(&group.id())
    }

    fn remove_device_here(&self, group: &str, device: &str, keep: bool) -> Result<api::Group, Problem> {
        let group = self.group_whose_devices_change(group)?;
        let (number, path, change) = numbered_at(&group, device)?;
        match (change, keep) {
            (Some(DeviceChange::Joins), _) => {
                return Err(Problem::refused(format!("{path} is just being added to disk group {}", group.name), "try again in a moment"));
            }
            (Some(_), false) | (None, true) | (Some(DeviceChange::Lost), true) => return self.group(&group.id()),
            (Some(_), true) if self.lies_on(group.id, number)? == 0 => {
                return Err(Problem::refused(
                    format!("nothing lies on {path} any more, and it leaves just now"),
                    format!("'basalt group add-device {} {path}' when it has", group.name),
                ));
            }
            (Some(_), true) => {}
            (None, false) => {
                if group.numbered().filter(|(.., change)| change.is_none()).count() == 1 {
                    return Err(Problem::refused(
                        format!("{path} is the last capacity device of disk group {}", group.name),
                        format!("'basalt group add-device {0} DEVICE' first; or 'basalt group remove {0}'", group.name),
                    ));
                }
                self.can_be_vacated(&group, number, &path)?;
            }
        }
        self.note_device(group.id, number, (!keep).then_some(DeviceChange::Leaves))?;
        // Who looks after volumes goes by the copy of the directory.
        self.apply()?;
        let what = if keep { "a capacity device stays in its disk group" } else { "a capacity device is to leave its disk group" };
        tracing::info!(group = %group.name, device = %path, number, "{what}");
        self.group(&group.id())
    }

    /// The devices that a group is opened with.
    pub(super) fn opened_devices(&self, group: &GroupRecord) -> Result<OpenedDevices, DirectoryError> {
        let mut opened = OpenedDevices { devices: vec![group.cache.clone()], ..OpenedDevices::default() };
        for (number, device, change) in group.numbered() {
            match change {
                None => opened.devices.push(device.clone()),
                Some(DeviceChange::Lost) => opened.lost.push(number),
                Some(_) => opened.maybe.push(device.clone()),
            }
        }
        if !opened.lost.is_empty() {
            let objects = self.directory.all::<ObjectRecord>()?;
            let numbers = objects.iter().flat_map(|o| o.components()).filter(|c| c.group == group.id).filter_map(|c| c.no);
            opened.numbers_from = numbers.max().map_or(0, |no| no + 1);
        }
        Ok(opened)
    }

    /// A group of this node that can get other devices.
    fn group_whose_devices_change(&self, group: &str) -> Result<Versioned<GroupRecord>, Problem> {
        let group = self.group_record(group)?;
        if group.is_volatile() {
            return Err(Problem::refused(
                format!("disk group {} has devices in memory, and is made anew at each start", group.name),
                "make another group",
            ));
        }
        let online = self.live().groups.get(&group.id).is_some_and(GroupLive::is_online);
        if group.stage == Stage::Ready && online {
            return Ok(group);
        }
        Err(Problem::new(
            crate::Code::Unavailable,
            format!("disk group {} is offline", group.name),
            "'basalt status' says what is wrong with it",
        ))
    }

    /// Every volume that lies on a device can go elsewhere, each by itself.
    fn can_be_vacated(&self, group: &GroupRecord, number: u8, path: &str) -> Result<(), Problem> {
        let mut inventory: Inventory = self.inventory()?;
        inventory.leaving.insert((group.id, number));
        let (mut stay, mut why) = (Vec::new(), None);
        for volume in self.volumes_on(group.id)? {
            let object = self.object_of(&volume)?;
            if !object.components().any(|c| (c.group, c.capacity_index) == (group.id, number)) {
                continue;
            }
            // The place that a volume goes to is made elsewhere anew.
            if volume.place_of.is_some() {
                continue;
            }
            let policy = self.policy_record(&volume.policy)?;
            let bytes_max = volume.bytes.saturating_mul(super::volumes::GROW_FACTOR);
            let reason = match cluster::new_layout(&inventory, &policy.policy, &volume, &object, bytes_max) {
                Ok(Some(_)) => continue,
                Ok(None) => "the other devices do not give what its policy asks for".to_owned(),
                Err(PlaceError::NotAtOwner { owner }) => PlaceError::NotAtOwner { owner: self.shown_name_of(&owner)? }.to_string(),
                Err(error) => error.to_string(),
            };
            why.get_or_insert(reason);
            stay.push(volume.name.clone());
        }
        let Some(why) = why else { return Ok(()) };
        stay.sort();
        Err(Problem::new(
            crate::Code::NoSpace,
            format!("{path} cannot leave disk group {}: {} cannot go elsewhere: {why}", group.name, named(&stay)),
            format!("'basalt group add-device {} DEVICE' first; or delete these volumes, or give them other disk groups", group.name),
        ))
    }

    /// Components that lie on a device, by the directory.
    fn lies_on(&self, group: GroupId, number: u8) -> Result<usize, DirectoryError> {
        let objects = self.directory.all::<ObjectRecord>()?;
        Ok(objects.iter().flat_map(|o| o.components()).filter(|c| (c.group, c.capacity_index) == (group, number)).count())
    }

    /// What becomes of a device is said in the record of its group.
    fn note_device(&self, group: GroupId, number: u8, change: Option<DeviceChange>) -> Result<(), Problem> {
        self.decided(|| {
            let Some(mut group) = self.directory.find::<GroupRecord>(&group.to_string())? else { return Ok((Transaction::new(), ())) };
            match change {
                Some(DeviceChange::Gone) => group.value.has_left(number),
                Some(change) => _ = group.value.changes.insert(number, change),
                None => _ = group.value.changes.remove(&number),
            }
            Ok((Transaction::new().update(&group), ()))
        })?;
        let mut live = self.live();
        live.devices_stay.remove(&(group, number));
        live.stats = None;
        Ok(())
    }

    /// Sees to devices of this node that were being added, or are leaving. To be called every few seconds.
    pub(super) fn look_after_devices(&self) {
        let groups = {
            let followed = self.followed();
            followed.view().all::<GroupRecord>()
        };
        let mine = |g: &Versioned<GroupRecord>| g.node == self.identity.node && g.changes.values().any(|c| *c != DeviceChange::Gone);
        for group in groups.unwrap_or_default().into_iter().filter(mine) {
            let _devices = self.devices();
            if let Err(problem) = request::outside(|| self.settle_devices(&group.id())) {
                tracing::warn!(group = %group.name, error = %problem.message, "the devices of the disk group cannot be seen to yet");
            }
        }
    }

    fn settle_devices(&self, group: &str) -> Result<(), Problem> {
        let Some(group) = self.directory.find::<GroupRecord>(group)? else { return Ok(()) };
        if group.stage != Stage::Ready || !self.live().groups.get(&group.id).is_some_and(GroupLive::is_online) {
            return Ok(());
        }
        let has = self.plane.capacity_numbers(group.id)?;
        for (number, device, change) in group.numbered() {
            let (Some(change), path) = (change, device.path().unwrap_or("memory")) else { continue };
            let at = (group.id, number);
            match (change, has.contains(&number)) {
                (DeviceChange::Joins, true) => self.note_device(group.id, number, None)?,
                (DeviceChange::Joins, false) if self.live().undecided.contains(&at) => {}
                (DeviceChange::Joins, false) => {
                    tracing::warn!(group = %group.name, device = path, "adding this device was interrupted; add it again with --force");
                    self.note_device(group.id, number, Some(DeviceChange::Gone))?;
                }
                (DeviceChange::Lost, _) => {
                    let goes = |c: &ComponentRecord| (c.group, c.capacity_index) == at;
                    for volume in self.volumes_on(group.id)? {
                        if self.object_of(&volume)?.components().any(goes) {
                            // The request is decided when the device goes: until then it can be begun anew.
                            request::undecided(|| self.lose_components(&volume, goes))?;
                        }
                    }
                    self.note_device(group.id, number, Some(DeviceChange::Gone))?;
                }
                (_, false) => self.note_device(group.id, number, Some(DeviceChange::Gone))?,
                (_, true) if self.lies_on(group.id, number)? > 0 => {
                    self.live().devices_stay.remove(&at);
                }
                (_, true) => match self.plane.remove_capacity(group.id, number) {
                    Ok(()) => {
                        self.note_device(group.id, number, Some(DeviceChange::Gone))?;
                        tracing::info!(group = %group.name, device = path, number, "a capacity device has left its disk group");
                    }
                    Err(error) => {
                        tracing::warn!(group = %group.name, device = path, %error, "a capacity device cannot leave its disk group yet");
                        self.live().devices_stay.insert(at, error.to_string());
                    }
                },
            }
        }
        Ok(())
    }
}

/// Whether the data plane does not know what has become of the list of devices.
fn is_undecided(error: &PlaneError) -> bool {
    matches!(error, PlaneError::Device { cause: DataPlaneError::Group(GroupError::Undecided { .. }) })
}

/// The first of these names, and how many there are besides.
fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names[..names.len().min(NAMED_MAX)].join(", "))
}

/// The number of the capacity device of this path, its path, and what becomes of it.
fn numbered_at(group: &GroupRecord, device: &str) -> Result<(u8, String, Option<DeviceChange>), Problem> {
    let found = group.numbered().find(|(_, record, _)| is_at(record, device));
    let none = || Problem::not_found("capacity device", device, &format!("group show {}", group.name));
    found.map(|(number, record, change)| (number, record.path().unwrap_or("memory").to_owned(), change)).ok_or_else(none)
}

/// Whether a device is the one of this path, by whatever name.
fn is_at(device: &DeviceRecord, path: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(Path::new(path)).unwrap_or_else(|_| path.into());
    device.path().is_some_and(|own| own == path || real(own) == real(path))
}

#[cfg(test)]
#[path = "group_devices_tests.rs"]
mod tests;

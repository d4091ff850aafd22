//! Capacity devices that come and go while the group is in use.
//!
//! ```text
//!   add      its tables and superblock, with the new list ─► the cache device's superblock ─► those of the others ─► shards know it ─► components
//!   remove   no component on it ─► the cache device's superblock ─► those of the others ─► shards forget it ─► its own is cleared
//! ```
//!
//! Invariants: a device is one of the group when the cache device's superblock names it, no sooner and no later; a component is made on a new device
//! only after that; a device leaves only when no component is on it, and what it knew of numbers that were given stays known.
//! Never: moves a component.

use super::open::{ours, takes_list};
use super::{Group, GroupError, Turn, device_error, given_twice, is_empty, random_uuid, write_heads};
use crate::geometry::CapacityGeometry;
use crate::superblock::{self, Found};
use base::hooks::{self, SeededFault};
use format::disk::page::Newest;
use format::disk::superblock::{CAPACITY_DEVICES_MAX, NO_DEVICE, Superblock, VERSION_MAJOR};
use rt::{Device, Rt};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A capacity device that a group has got, as its shards need it.
#[derive(Clone)]
pub struct NewCapacity {
    /// Its number.
    pub index: u8,
    /// The device.
    pub device: Device,
    /// Where its regions lie.
    pub geometry: CapacityGeometry,
    /// Of the heads of its tables.
    pub(crate) generation: u64,
}

/// A device that is durably one of the group, and that nobody knows yet: each shard has to be informed ([`crate::Shard::add_capacity`]), then
/// [`Adding::done`]. Nothing else changes the group meanwhile.
pub struct Adding {
    group: Group,
    _turn: Turn,
    list: Superblock,
    new: NewCapacity,
}

/// A device that is durably no more one of the group: each shard has to be informed when it is vacant ([`crate::Shard::remove_capacity`]), then
/// [`Removing::done`]. Nothing else changes the group meanwhile.
pub struct Removing {
    group: Group,
    _turn: Turn,
    list: Superblock,
    index: u8,
    device: Device,
}

impl Group {
    /// Makes `device` capacity device `index`, a number that has none: the next one, or one of a device that has left. It must hold nothing, except with
    /// `force`. Durable when this returns; after a crash on the way it is one of the group, or not.
    ///
    /// # Errors
    /// The device does not do, or the number has one: nothing has changed. [`GroupError::Undecided`]: whether it is one of the group is known
    /// when the group is opened again, or when one is added at this number.
    pub async fn add_capacity(&self, rt: &Rt, index: u8, device: &Device, force: bool) -> Result<Adding, GroupError> {
        let turn = self.turn(rt).await;
        let info = self.info();
        let at = usize::from(index);
        if info.numbers().any(|number| number == index) {
            return Err(GroupError::NumberTaken { index });
        }
        if info.numbers().count() >= CAPACITY_DEVICES_MAX || at > info.capacity.len() || at >= CAPACITY_DEVICES_MAX {
            return Err(GroupError::DeviceCount { count: info.numbers().count() + 1 });
        }
        let all = self.devices();
        given_twice(&all.iter().chain([device]).collect::<Vec<_>>())?;
        let geometry = CapacityGeometry::plan(device.bytes(), info.shards).map_err(|bytes_min| GroupError::TooSmall {
            device: device.name().into(),
            role: "capacity",
            shards: info.shards,
            bytes: device.bytes(),
            bytes_min,
        })?;
        if !force {
            is_empty(rt, device).await?;
        }
        let mut cache = self.cache_superblock(rt).await?;
        let mut list = next_list(&cache.superblock);
        // Of places that the cache device names and this life of the group does not: see `GroupError::Undecided`.
        list.capacity.clone_from(&info.capacity);
        list.capacity.resize(at.max(info.capacity.len() - 1) + 1, NO_DEVICE);
        let uuid = random_uuid(rt);
        list.capacity[at] = uuid;
        let generation = first_generation(list.membership);
        superblock::clear(rt, device).await.map_err(device_error(device))?;
        write_heads(rt, (info.tag, info.shards), (index, &geometry), generation, device).await?;
        let own = Superblock { generation: 2, device: uuid, device_bytes: device.bytes(), role: geometry.role(index), ..list.clone() };
        if hooks::seeded(SeededFault::NamedBeforeWritten) {
            self.commit_list(rt, &mut cache, &list).await?;
        }
        superblock::write_new(rt, device, &own).await.map_err(device_error(device))?;
        self.commit_list(rt, &mut cache, &list).await?;
        self.inform_others(rt, &all[1..], &list).await;
        let new = NewCapacity { index, device: device.clone(), geometry, generation };
        Ok(Adding { group: self.clone(), _turn: turn, list, new })
    }

    /// Capacity device `index` leaves the group. Durable when this returns; after a crash on the way it is one of the group, or not. No component is made
    /// on it from the first attempt on.
    ///
    /// # Errors
    /// There is no such device, it is the last one, or components lie on it. [`GroupError::Undecided`]: to be tried again.
    pub async fn remove_capacity(&self, rt: &Rt, index: u8) -> Result<Removing, GroupError> {
        let turn = self.turn(rt).await;
        let device = self.0.device(index)?;
        let info = self.info();
        if info.numbers().count() == 1 {
            return Err(GroupError::LastDevice { device: device.name().into() });
        }
        let numbers_from = {
            let mut control = self.0.control();
            let components = control.components.on_device(index);
            if components > 0 && !hooks::seeded(SeededFault::DeviceLeavesInUse) {
                return Err(GroupError::NotVacated { device: device.name().into(), components });
            }
            control.leaving |= 1 << index;
            control.components.number_next()
        };
        let mut cache = self.cache_superblock(rt).await?;
        let now = Superblock { capacity: info.capacity.clone(), ..cache.superblock.clone() };
        let list = without(&now, &[index], numbers_from);
        self.commit_list(rt, &mut cache, &list).await?;
        let stays = |number: &u8| *number != index;
        let capacity = self.capacity();
        let others: Vec<Device> = info.numbers().filter(stays).map(|number| capacity[usize::from(number)].clone()).collect();
        self.inform_others(rt, &others, &list).await;
        Ok(Removing { group: self.clone(), _turn: turn, list, index, device })
    }

    async fn cache_superblock(&self, rt: &Rt) -> Result<Found, GroupError> {
        let cache = self.cache();
        ours(cache, superblock::probe(rt, cache).await.map_err(device_error(cache))?)
    }

    /// From here on the group has these devices. Both copies say so: an older one must not count because the newer is damaged.
    async fn commit_list(&self, rt: &Rt, found: &mut Found, list: &Superblock) -> Result<(), GroupError> {
        let cache = self.cache();
        let undecided = |error| GroupError::Undecided { device: cache.name().into(), error };
        superblock::update(rt, cache, found, |s| takes_list(s, list)).await.map_err(undecided)?;
        self.0.copies.store(true, Relaxed);
        if let Err(error) = superblock::update(rt, cache, found, |_| ()).await {
            tracing::warn!(device = cache.name(), %error, "one copy of the superblock does not have the group's list of devices");
        }
        Ok(())
    }

    /// One that cannot be written now is when the group is opened.
    async fn inform_others(&self, rt: &Rt, others: &[Device], list: &Superblock) {
        for device in others {
            let informed = async {
                let mut found = ours(device, superblock::probe(rt, device).await.map_err(device_error(device))?)?;
                superblock::update(rt, device, &mut found, |s| takes_list(s, list)).await.map_err(device_error(device))
            };
            if let Err(error) = informed.await {
                tracing::warn!(%error, "a superblock does not have the group's list of devices; it gets that when the group is opened");
            }
        }
    }
}

/// What the cache device is to say, with another list of devices.
fn next_list(now: &Superblock) -> Superblock {
    Superblock { major: VERSION_MAJOR, membership: now.membership + 1, ..now.clone() }
}

/// The same without the devices of these numbers. `numbers_from`: every component number below it was given.
pub(super) fn without(now: &Superblock, numbers: &[u8], numbers_from: u32) -> Superblock {
    let mut list = next_list(now);
    for number in numbers {
        list.capacity[usize::from(*number)] = NO_DEVICE;
    }
    while list.capacity.last() == Some(&NO_DEVICE) {
        list.capacity.pop();
    }
    if !hooks::seeded(SeededFault::NumbersLeaveWithDevice) {
        list.numbers_from = list.numbers_from.max(numbers_from);
    }
    list
}

/// Of the heads of the tables of a device that is added. Whatever it holds of an earlier time in this group is older: the list of devices was changed
/// since, and nothing is written 2^32 times between two changes of it.
fn first_generation(membership: u32) -> u64 {
    if hooks::seeded(SeededFault::GenerationsBeginAnew) { 1 } else { (u64::from(membership) << 32) + 1 }
}

impl Adding {
    /// What the shards need to know.
    pub fn capacity(&self) -> &NewCapacity {
        &self.new
    }
    /// All shards know it: components may be made on it.
    pub fn done(self) {
        let NewCapacity { index, device, geometry, generation } = &self.new;
        let at = usize::from(*index);
        let mut control = self.group.0.control();
        let mut info = (*control.info).clone();
        if info.geometry.capacity.len() <= at {
            info.geometry.capacity.resize(at + 1, CapacityGeometry::NONE);
        }
        info.geometry.capacity[at] = *geometry;
        info.capacity.clone_from(&self.list.capacity);
        info.membership = self.list.membership;
        control.info = Arc::new(info);
        let mut capacity = control.capacity.to_vec();
        capacity.resize(capacity.len().max(at + 1), self.group.0.cache.clone());
        capacity[at] = device.clone();
        control.capacity = capacity.into();
        control.leaving &= !(1 << index);
        control.components.set_device(*index, geometry, Newest { slot: 0, generation: *generation, doubtful: false });
    }
}

impl Removing {
    /// No shard knows it any more: it can be used for something else.
    pub async fn done(self, rt: &Rt) {
        {
            let at = usize::from(self.index);
            let mut control = self.group.0.control();
            let mut info = (*control.info).clone();
            let mut capacity = control.capacity.to_vec();
            capacity[at] = self.group.0.cache.clone();
            info.geometry.capacity[at] = CapacityGeometry::NONE;
            info.capacity.clone_from(&self.list.capacity);
            info.membership = self.list.membership;
            // Of numbers behind the last that has one, nothing is known.
            info.geometry.capacity.truncate(info.capacity.len());
            capacity.truncate(info.capacity.len());
            control.info = Arc::new(info);
            control.capacity = capacity.into();
            control.leaving &= !(1 << self.index);
            control.components.set_device(self.index, &CapacityGeometry::NONE, Newest { slot: 0, generation: 1, doubtful: false });
        }
        self.group.0.usage.forget_room(self.index);
        if let Err(error) = superblock::clear(rt, &self.device).await {
            let device = self.device.name();
            tracing::warn!(device, %error, "the device still says that it belongs to the disk group; it can be used anew with force");
        }
    }
    /// The number that it had.
    pub fn index(&self) -> u8 {
        self.index
    }
}

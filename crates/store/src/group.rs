//! A disk group as a whole: format it, open it (`open`), its devices (`membership`), its components.
//!
//! Owns: the identity of the group and its devices; the component table (behind a lock that only control operations take).
//! Invariants: a group exists once the superblock of its cache device is durable, which is written last; a change of a
//! component is durable before anybody sees it; one change at a time.
//! Never: serves data, touches a device that is not empty without being forced to.

mod error;
mod membership;
mod open;

pub use error::GroupError;
pub use membership::{Adding, NewCapacity, Removing};
pub use open::{GroupDevices, open_group, open_group_with};

use crate::components::{Change, ComponentInfo, ComponentNo, ComponentSpec, ComponentTable, ComponentUpdate};
use crate::geometry::{CapacityGeometry, Geometry, LogGeometry};
use crate::join::join_all;
use crate::superblock::{self, Probe};
use crate::trouble::Trouble;
use crate::usage::{ChunksUsed, Usage};
use base::{BLOCK_BYTES, ClusterId, ComponentId, DeviceUuid, Duration, GroupId};
use format::disk::page::TableHead;
use format::disk::superblock::{
    CAPACITY_DEVICES_MAX, NAME_BYTES_MAX, NO_DEVICE, Role, SHARDS_MAX, Superblock, VERSION_COPIES, VERSION_MINOR, VERSION_PLAIN,
};
use format::disk::{DESCRIPTOR_BYTES_MAX, FormatTag, PageAddress, PageHeader, PageKind};
use rt::{Buf, BufVec, Device, DeviceError, Durability, Rt};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// How often a control operation looks whether the one before it has ended.
const BUSY_WAIT: Duration = Duration::from_millis(1);

fn device_error(device: &Device) -> impl Fn(DeviceError) -> GroupError + use<> {
    let device = device.name().to_string();
    move |error| GroupError::Device { device: device.clone(), error }
}

/// What a new group is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatSpec {
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// Its id.
    pub group: GroupId,
    /// Its name, for people; 1 to 64 bytes.
    pub name: String,
    /// Shards: a power of two, 1 to 16, fixed for ever.
    pub shards: u8,
    /// Now, in seconds since 1970 (UTC).
    pub created_unix_s: u64,
    /// Overwrite whatever the devices hold.
    pub force: bool,
}

/// What a group is: fixed, but for its capacity devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// Its id.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// Its shards.
    pub shards: u8,
    /// When it was formatted, in seconds since 1970 (UTC).
    pub created_unix_s: u64,
    /// The random number of this format, in everything that is written.
    pub tag: FormatTag,
    /// Where everything lies.
    pub geometry: Geometry,
    /// The cache device's identity.
    pub cache: DeviceUuid,
    /// The capacity devices' identities, each at its number; [`NO_DEVICE`]: there is none any more.
    pub capacity: Vec<DeviceUuid>,
    /// How often the list of its devices was changed, at least; 0: never.
    pub membership: u32,
}

impl GroupInfo {
    /// The numbers at which there is a capacity device.
    pub fn numbers(&self) -> impl Iterator<Item = u8> + '_ {
        self.capacity.iter().enumerate().filter(|(_, uuid)| **uuid != NO_DEVICE).map(|(index, _)| index as u8)
    }
    /// Bytes that all capacity devices can hold.
    pub fn capacity_bytes(&self) -> u64 {
        let chunks = |c: &CapacityGeometry| u64::from(c.chunks_per_shard) * u64::from(self.shards);
        self.geometry.capacity.iter().map(chunks).sum::<u64>() * base::unit::CHUNK_BYTES
    }
    /// Bytes of the log.
    pub fn log_bytes(&self) -> u64 {
        self.geometry.log.slice_bytes() * u64::from(self.shards)
    }
}

/// An open group. A clone is the same group.
#[derive(Clone)]
pub struct Group(Arc<Inner>);

struct Inner {
    cache: Device,
    control: Mutex<Control>,
    usage: Usage,
    trouble: Trouble,
    /// Its superblocks say that it may hold copies of several.
    copies: AtomicBool,
}

struct Control {
    info: Arc<GroupInfo>,
    /// Each at its number. Where there is none any more stands the cache device: such a number has no chunks, so nothing is read or written by it.
    capacity: Arc<[Device]>,
    /// Numbers of devices that are to leave: no component is made there any more, in this life of the group.
    leaving: u8,
    components: ComponentTable,
    busy: bool,
}

// ---- format ---------------------------------------------------------------------------------------------------------

/// Makes a group of a cache device and capacity devices. Nothing is changed unless all of them will do. Takes well below
/// a second whatever their size: only heads of tables are written. A crash on the way leaves no group, but devices that
/// need `force` the next time.
pub async fn format_group(rt: &Rt, spec: FormatSpec, cache: &Device, capacity: &[Device]) -> Result<GroupInfo, GroupError> {
    let geometry = plan(&spec, cache, capacity)?;
    if !spec.force {
        for device in core::iter::once(cache).chain(capacity) {
            is_empty(rt, device).await?;
        }
    }
    let uuid = || random_uuid(rt);
    let info = GroupInfo {
        cluster: spec.cluster,
        group: spec.group,
        name: spec.name,
        shards: spec.shards,
        created_unix_s: spec.created_unix_s,
        tag: FormatTag(rt.random_u64()),
        geometry,
        cache: uuid(),
        capacity: capacity.iter().map(|_| uuid()).collect(),
        membership: 0,
    };
    write_group(rt, &info, cache, capacity).await?;
    Ok(info)
}

/// Nothing that anybody knows of is on it.
async fn is_empty(rt: &Rt, device: &Device) -> Result<(), GroupError> {
    let what = match superblock::probe(rt, device).await.map_err(device_error(device))? {
        Probe::Empty => return Ok(()),
        Probe::Ours(found) => format!("a device of disk group '{}' ({})", found.superblock.name, found.superblock.group),
        Probe::Foreign { what } => what.to_string(),
        Probe::Newer { major } => format!("a device of a disk group of a newer Basalt (format version {major})"),
        Probe::Damaged { cause } => format!("a device of a disk group, with damaged superblocks ({cause})"),
    };
    Err(GroupError::NotEmpty { device: device.name().into(), what })
}

fn random_uuid(rt: &Rt) -> DeviceUuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&rt.random_u64().to_le_bytes());
    bytes[8..].copy_from_slice(&rt.random_u64().to_le_bytes());
    DeviceUuid::from_random(bytes)
}

fn plan(spec: &FormatSpec, cache: &Device, capacity: &[Device]) -> Result<Geometry, GroupError> {
    if !(1..=CAPACITY_DEVICES_MAX).contains(&capacity.len()) {
        return Err(GroupError::DeviceCount { count: capacity.len() });
    }
    if !spec.shards.is_power_of_two() || spec.shards > SHARDS_MAX {
        return Err(GroupError::Shards { shards: spec.shards });
    }
    if spec.name.is_empty() || spec.name.len() > NAME_BYTES_MAX {
        return Err(GroupError::Name { name: spec.name.clone() });
    }
    let all: Vec<&Device> = core::iter::once(cache).chain(capacity).collect();
    given_twice(&all)?;
    let too_small = |device: &Device, role, bytes_min| GroupError::TooSmall {
        device: device.name().into(),
        role,
        shards: spec.shards,
        bytes: device.bytes(),
        bytes_min,
    };
    Ok(Geometry {
        shards: spec.shards,
        log: LogGeometry::plan(cache.bytes(), spec.shards).map_err(|min| too_small(cache, "cache", min))?,
        capacity: capacity
            .iter()
            .map(|d| CapacityGeometry::plan(d.bytes(), spec.shards).map_err(|min| too_small(d, "capacity", min)))
            .collect::<Result<_, _>>()?,
    })
}

fn given_twice(all: &[&Device]) -> Result<(), GroupError> {
    for (i, a) in all.iter().enumerate() {
        if all[..i].iter().any(|b| b.id() == a.id() || b.name() == a.name()) {
            return Err(GroupError::GivenTwice { device: a.name().into() });
        }
    }
    Ok(())
}

/// First makes every device nobody's, then writes the heads of the tables, then the superblocks, that of the cache last.
async fn write_group(rt: &Rt, info: &GroupInfo, cache: &Device, capacity: &[Device]) -> Result<(), GroupError> {
    let all = || core::iter::once(cache).chain(capacity);
    let clears = all().map(|d| async move { superblock::clear(rt, d).await.map_err(device_error(d)) });
    join_all(clears.map(Box::pin)).await.into_iter().collect::<Result<(), _>>()?;
    let heads = capacity.iter().enumerate().map(|(i, d)| {
        let geometry = &info.geometry.capacity[i];
        write_heads(rt, (info.tag, info.shards), (i as u8, geometry), FIRST_GENERATION, d)
    });
    join_all(heads.map(Box::pin)).await.into_iter().collect::<Result<(), _>>()?;
    for (index, device) in capacity.iter().enumerate() {
        let superblock = superblock_of(info, info.capacity[index], device.bytes(), info.geometry.capacity[index].role(index as u8));
        superblock::write_new(rt, device, &superblock).await.map_err(device_error(device))?;
    }
    let log = &info.geometry.log;
    let role = Role::Cache { log_offset: log.offset, segment_bytes: log.segment_bytes, segments_per_shard: log.segments_per_shard };
    let superblock = superblock_of(info, info.cache, cache.bytes(), role);
    superblock::write_new(rt, cache, &superblock).await.map_err(device_error(cache))
}

fn superblock_of(info: &GroupInfo, device: DeviceUuid, device_bytes: u64, role: Role) -> Superblock {
    Superblock {
        major: VERSION_PLAIN,
        minor: VERSION_MINOR,
        generation: 2,
        tag: info.tag,
        cluster: info.cluster,
        group: info.group,
        device,
        device_bytes,
        created_unix_s: info.created_unix_s,
        role,
        shards: info.shards,
        name: info.name.clone(),
        cache: info.cache,
        capacity: info.capacity.clone(),
        membership: 0,
        numbers_from: 0,
    }
}

/// Of the heads of the tables of a group that is formatted.
const FIRST_GENERATION: u64 = 1;

/// Heads of empty tables. Only these need to be there: pages past the mark are not read. Pages that come later have higher generations than the
/// heads have now.
async fn write_heads(
    rt: &Rt,
    (tag, shards): (FormatTag, u8),
    (index, geometry): (u8, &CapacityGeometry),
    generation: u64,
    device: &Device,
) -> Result<(), GroupError> {
    let head = |address: PageAddress| {
        let mut buf = Buf::zeroed(BLOCK_BYTES);
        TableHead { pages_used: 1 }.build(&mut buf);
        PageHeader { tag, address, generation }.seal(&mut buf);
        buf
    };
    let mut writes = vec![(geometry.component_page_offset(0, 0), head(ComponentTable::address(index, 0)))];
    for shard in 0..shards {
        let address = PageAddress { kind: PageKind::ChunkHead, device: index, shard, index: 0 };
        writes.push((geometry.chunk_page_offset(shard, 0, 0), head(address)));
    }
    let writes = writes.into_iter().map(|(offset, buf)| async move { write_page(rt, device, offset, buf).await });
    join_all(writes.map(Box::pin)).await.into_iter().collect::<Result<(), _>>().map_err(device_error(device))
}

async fn write_page(rt: &Rt, device: &Device, offset: u64, page: Buf) -> Result<(), DeviceError> {
    let bufs: BufVec = core::iter::once(page).collect();
    rt.write_at(device, offset, bufs, Durability::Durable).await.0
}

// ---- an open group --------------------------------------------------------------------------------------------------

/// The right to change components; one at a time. Given back when dropped, also if the task is cancelled.
struct Turn(Arc<Inner>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.control().busy = false;
    }
}

impl Inner {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    fn info(&self) -> Arc<GroupInfo> {
        Arc::clone(&self.control().info)
    }
    /// A capacity device. Where none is any more: none.
    fn device(&self, index: u8) -> Result<Device, GroupError> {
        let control = self.control();
        let there = control.info.capacity.get(usize::from(index)).is_some_and(|uuid| *uuid != NO_DEVICE);
        let none = || GroupError::NoDevice { index, count: control.info.numbers().count() };
        control.capacity.get(usize::from(index)).filter(|_| there).cloned().ok_or_else(none)
    }

    /// Makes a change durable, then visible.
    async fn carry_out(&self, rt: &Rt, change: Change) -> Result<(), GroupError> {
        let device = self.device(change.device())?;
        let mut page = Buf::alloc(BLOCK_BYTES);
        let offset = self.control().components.encode_page(&change, &mut page);
        write_page(rt, &device, offset, page).await.map_err(device_error(&device))?;
        if change.grows {
            let mut head = Buf::alloc(BLOCK_BYTES);
            let offset = self.control().components.encode_head(&change, &mut head);
            write_page(rt, &device, offset, head).await.map_err(device_error(&device))?;
        }
        self.control().components.apply(change);
        Ok(())
    }

    fn check_reservation(&self, device: u8, reserve_chunks: u64, but: Option<ComponentNo>) -> Result<(), GroupError> {
        let info = self.info();
        let shards = u64::from(info.shards);
        let promised = self.control().components.promised_per_shard(device, info.shards, but);
        let total = u64::from(info.geometry.capacity[usize::from(device)].chunks_per_shard);
        if promised.saturating_add(reserve_chunks.div_ceil(shards)) <= total || reserve_chunks == 0 {
            return Ok(());
        }
        let bytes = |per_shard: u64| per_shard.saturating_mul(shards * base::unit::CHUNK_BYTES);
        Err(GroupError::CannotReserve {
            device: self.device(device)?.name().into(),
            wanted: reserve_chunks.saturating_mul(base::unit::CHUNK_BYTES),
            promised: bytes(promised),
            total: bytes(total),
        })
    }
}

fn check_descriptor(descriptor: &[u8]) -> Result<(), GroupError> {
    if descriptor.len() <= DESCRIPTOR_BYTES_MAX { Ok(()) } else { Err(GroupError::DescriptorTooLong { bytes: descriptor.len() }) }
}

impl Group {
    /// What it is now.
    pub fn info(&self) -> Arc<GroupInfo> {
        self.0.info()
    }
    /// Its cache device.
    pub fn cache(&self) -> &Device {
        &self.0.cache
    }
    /// Its capacity devices, each at its number; in the place of one that has left stands the cache device.
    pub fn capacity(&self) -> Arc<[Device]> {
        Arc::clone(&self.0.control().capacity)
    }
    /// All its devices, cache first.
    pub fn devices(&self) -> Vec<Device> {
        let control = self.0.control();
        core::iter::once(&self.0.cache).chain(control.info.numbers().map(|n| &control.capacity[usize::from(n)])).cloned().collect()
    }
    /// The right to change the group, when who has it gives it back.
    async fn turn(&self, rt: &Rt) -> Turn {
        loop {
            {
                let mut control = self.0.control();
                if !control.busy {
                    control.busy = true;
                    return Turn(Arc::clone(&self.0));
                }
            }
            rt.sleep(BUSY_WAIT).await;
        }
    }
    /// All components that are not deleted, by number.
    pub fn components(&self) -> Vec<ComponentInfo> {
        self.0.control().components.all()
    }
    /// One component, by its name in the cluster.
    pub fn find(&self, id: ComponentId) -> Option<ComponentInfo> {
        self.0.control().components.by_id(id)
    }
    /// One component.
    pub fn component(&self, no: ComponentNo) -> Option<ComponentInfo> {
        self.0.control().components.info(no)
    }

    /// A record of the log names this component: its number was given.
    pub(crate) fn number_was_given(&self, no: u32) {
        self.0.control().components.numbers_from(no + 1);
    }
    /// What its shards report to the daemon's log of capacity that fails.
    pub(crate) fn trouble(&self) -> &Trouble {
        &self.0.trouble
    }
    /// The chunks that a component has, while the shards of the group are open.
    pub fn used(&self, no: ComponentNo) -> ChunksUsed {
        let device = self.component(no).map_or(0, |c| c.capacity_index);
        self.0.usage.of(no, device)
    }

    /// Adds a component, durably. One with the same id, object and device is there already: its number. Each shard must be
    /// informed afterwards (`Shard::add_component`).
    pub async fn create_component(&self, rt: &Rt, spec: ComponentSpec) -> Result<ComponentNo, GroupError> {
        let inner = &*self.0;
        check_descriptor(&spec.descriptor)?;
        let _turn = self.turn(rt).await;
        let device = inner.device(spec.capacity_index)?;
        let existing = inner.control().components.by_id(spec.id);
        if let Some(c) = existing {
            let same = c.object == spec.object && c.capacity_index == spec.capacity_index;
            return if same { Ok(c.no) } else { Err(GroupError::ComponentExists(c.no)) };
        }
        if inner.control().leaving >> spec.capacity_index & 1 == 1 {
            return Err(GroupError::Leaving { device: device.name().into() });
        }
        inner.check_reservation(spec.capacity_index, spec.reserve_chunks, None)?;
        // In a statement of its own: what is said of a full table locks again.
        let begun = inner.control().components.begin_create(&spec);
        let change = begun.map_err(|_| GroupError::ComponentsFull {
            device: device.name().into(),
            components_max: inner.info().geometry.capacity[usize::from(spec.capacity_index)].components_max(),
        })?;
        let no = change.number();
        inner.carry_out(rt, change).await?;
        Ok(no)
    }

    /// Changes a component, durably. Each shard must be informed afterwards.
    pub async fn update_component(&self, rt: &Rt, no: ComponentNo, update: ComponentUpdate) -> Result<ComponentInfo, GroupError> {
        let inner = &*self.0;
        if let Some(descriptor) = &update.descriptor {
            check_descriptor(descriptor)?;
        }
        let _turn = self.turn(rt).await;
        let device = self.component(no).ok_or(GroupError::NoComponent(no))?.capacity_index;
        if let Some(reserve_chunks) = update.reserve_chunks {
            inner.check_reservation(device, reserve_chunks, Some(no))?;
        }
        let change = inner.control().components.begin_update(no, &update).ok_or(GroupError::NoComponent(no))?;
        inner.carry_out(rt, change).await?;
        self.component(no).ok_or(GroupError::NoComponent(no))
    }

    /// Deletes a component, durably. Each shard must be informed afterwards (`Shard::drop_component`). One that is not there:
    /// nothing to do.
    pub async fn delete_component(&self, rt: &Rt, no: ComponentNo) -> Result<(), GroupError> {
        let inner = &*self.0;
        let _turn = self.turn(rt).await;
        let change = inner.control().components.begin_delete(no);
        match change {
            Some(change) => {
                inner.carry_out(rt, change).await?;
                inner.usage.forget(no);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The component is one copy of several from now on, for good, durably. Each shard must be informed afterwards (`Shard::add_component`), and it
    /// has accepted no epoch as such. The first one of a group has its superblocks say that there are copies: so programs that do not know what a copy
    /// keeps in the log refuse the group.
    pub async fn make_copy(&self, rt: &Rt, no: ComponentNo) -> Result<ComponentInfo, GroupError> {
        let inner = &*self.0;
        let _turn = self.turn(rt).await;
        let info = self.component(no).ok_or(GroupError::NoComponent(no))?;
        if info.copy {
            return Ok(info);
        }
        if !inner.copies.load(Relaxed) {
            for device in &self.devices() {
                let mut found = open::ours(device, superblock::probe(rt, device).await.map_err(device_error(device))?)?;
                let update = superblock::update(rt, device, &mut found, |s| s.major = s.major.max(VERSION_COPIES));
                update.await.map_err(device_error(device))?;
            }
            inner.copies.store(true, Relaxed);
        }
        let change = inner.control().components.begin_make_copy(no).ok_or(GroupError::NoComponent(no))?;
        inner.carry_out(rt, change).await?;
        self.component(no).ok_or(GroupError::NoComponent(no))
    }

    /// Loads the chunk table of a shard.
    pub async fn load_chunks(&self, rt: &Rt, shard: u8) -> Result<crate::capacity::ChunkTable, GroupError> {
        let info = self.info();
        let components = self.components();
        let counted = (&components[..], &self.0.usage);
        let of = (shard, info.shards);
        crate::capacity::ChunkTable::load(rt, info.tag, of, &info.geometry.capacity, &self.capacity(), counted).await
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;

//! A disk group as a whole: format it, open it, its components.
//!
//! Owns: the identity of the group and its devices; the component table (behind a lock that only control operations take).
//! Invariants: a group exists once the superblock of its cache device is durable, which is written last; a change of a
//! component is durable before anybody sees it; one change at a time.
//! Never: serves data, touches a device that is not empty without being forced to.

use crate::components::{Change, ComponentInfo, ComponentNo, ComponentSpec, ComponentTable, ComponentUpdate};
use crate::geometry::{CapacityGeometry, Geometry, LogGeometry};
use crate::join::join_all;
use crate::slots;
use crate::superblock::{self, Found, Probe};
use crate::trouble::Trouble;
use crate::usage::{ChunksUsed, Usage};
use base::{BLOCK_BYTES, ByteSize, ClusterId, ComponentId, DeviceUuid, Duration, GroupId, hooks};
use format::disk::page::{self, PAGE_SLOTS_BYTES, TableHead};
use format::disk::superblock::{
    CAPACITY_DEVICES_MAX, NAME_BYTES_MAX, Role, SHARDS_MAX, Superblock, VERSION_MAJOR, VERSION_MINOR, VERSION_PLAIN,
};
use format::disk::{DESCRIPTOR_BYTES_MAX, DiskError, FormatTag, PageAddress, PageHeader, PageKind};
use rt::{Buf, BufVec, Device, DeviceError, Durability, Rt};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// How often a control operation looks whether the one before it has ended.
const BUSY_WAIT: Duration = Duration::from_millis(1);

/// Why a group could not be formatted, opened or changed. The message says what and which device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// A device operation failed.
    #[error("{device}: {error}")]
    Device {
        /// Its name.
        device: String,
        /// What it said.
        error: DeviceError,
    },
    /// No devices, or too many.
    #[error("a disk group has 1 to {CAPACITY_DEVICES_MAX} capacity devices, not {count}")]
    DeviceCount {
        /// How many were given.
        count: usize,
    },
    /// Not a power of two up to 16.
    #[error("a disk group has 1, 2, 4, 8 or 16 shards, not {shards}")]
    Shards {
        /// What was asked for.
        shards: u8,
    },
    /// Empty or too long.
    #[error("the name of a disk group has 1 to {NAME_BYTES_MAX} bytes, '{name}' has {}", name.len())]
    Name {
        /// What was asked for.
        name: String,
    },
    /// One device for two roles.
    #[error("{device} is given twice; each device can be in a group once")]
    GivenTwice {
        /// Its name.
        device: String,
    },
    /// Does not hold even the smallest group.
    #[error("{device} has {}, but a {role} device of a group with {shards} shard(s) needs at least {}", ByteSize(*bytes), ByteSize(*bytes_min))]
    TooSmall {
        /// Its name.
        device: String,
        /// What it was to be.
        role: &'static str,
        /// Shards of the group.
        shards: u8,
        /// What it has.
        bytes: u64,
        /// What is needed.
        bytes_min: u64,
    },
    /// Format: there is something on it.
    #[error("{device} holds {what}; nothing was changed. If you are sure that it is not needed, format again with force")]
    NotEmpty {
        /// Its name.
        device: String,
        /// What is there.
        what: String,
    },
    /// Open: there is nothing of ours on it.
    #[error("{device} is not part of a disk group: it holds {what}")]
    NotOurs {
        /// Its name.
        device: String,
        /// What is there.
        what: &'static str,
    },
    /// Open: written by a newer version.
    #[error(
        "{device} was formatted by a newer Basalt (format version {major}, this one knows up to {VERSION_MAJOR}); update this host first"
    )]
    Newer {
        /// Its name.
        device: String,
        /// The version found.
        major: u16,
    },
    /// Open: written by an older version whose data this one does not read.
    #[error(
        "{device} was formatted by an older Basalt (format version {major}, this one reads {VERSION_PLAIN} to {VERSION_MAJOR}); nothing was changed: copy its volumes elsewhere with the version that wrote it, then make the disk group anew with --force"
    )]
    Older {
        /// Its name.
        device: String,
        /// The version found.
        major: u16,
    },
    /// Open: no valid superblock.
    #[error("{device}: both copies of the superblock are damaged ({cause}); its data cannot be found without them")]
    Damaged {
        /// Its name.
        device: String,
        /// What is wrong with it.
        cause: DiskError,
    },
    /// Open: the device has shrunk.
    #[error("{device} has {}, but had {} when it was formatted; give the whole device", ByteSize(*bytes), ByteSize(*formatted))]
    Truncated {
        /// Its name.
        device: String,
        /// What it has now.
        bytes: u64,
        /// What it had.
        formatted: u64,
    },
    /// Open: devices of different groups.
    #[error("{a} belongs to disk group '{group_a}' and {b} to '{group_b}'; give the devices of one group")]
    Mixed {
        /// One device.
        a: String,
        /// Its group.
        group_a: String,
        /// Another one.
        b: String,
        /// Its group.
        group_b: String,
    },
    /// Open: one device was left over from an earlier format of the same group.
    #[error(
        "{a} and {b} are of disk group '{group}', but were not formatted together: one is from an earlier format, or a format was cut short"
    )]
    MixedFormats {
        /// One device.
        a: String,
        /// Another one.
        b: String,
        /// The group.
        group: String,
    },
    /// Open: two devices with one identity.
    #[error("{a} and {b} carry the same identity ({uuid}): one is a copy of the other; give only the right one")]
    Duplicate {
        /// One device.
        a: String,
        /// Another one.
        b: String,
        /// What both say they are.
        uuid: DeviceUuid,
    },
    /// Open: not all devices are there.
    #[error("disk group '{group}' is incomplete: missing {}", missing.join(", "))]
    Incomplete {
        /// The group.
        group: String,
        /// What is missing: role and identity of each.
        missing: Vec<String>,
    },
    /// Open: another cluster's.
    #[error("disk group '{group}' belongs to cluster {found}, not to this one ({expected})")]
    OtherCluster {
        /// The group.
        group: String,
        /// What the devices say.
        found: ClusterId,
        /// What was asked for.
        expected: ClusterId,
    },
    /// A page of a table has no valid version.
    #[error("{device}: page {page} of the {table} table (shard {shard}) is damaged: {cause}")]
    TableDamaged {
        /// Its name.
        device: String,
        /// Which table.
        table: &'static str,
        /// The shard (0 for components).
        shard: u8,
        /// The page.
        page: u32,
        /// What is wrong with it.
        cause: DiskError,
    },
    /// The cache device's log cannot be understood.
    #[error("{device}: the log of shard {shard} is damaged: {what}")]
    LogDamaged {
        /// Its name.
        device: String,
        /// The shard.
        shard: u8,
        /// What is wrong.
        what: &'static str,
    },
    /// No such capacity device.
    #[error("the disk group has {count} capacity device(s), there is no number {index}")]
    NoDevice {
        /// What was asked for.
        index: u8,
        /// How many there are.
        count: usize,
    },
    /// No such component.
    #[error("the disk group has no component {0}")]
    NoComponent(ComponentNo),
    /// A component with this id exists and is another one.
    #[error("component {0} exists already, with another object or device")]
    ComponentExists(ComponentNo),
    /// The descriptor is too long.
    #[error("a component's descriptor has at most {DESCRIPTOR_BYTES_MAX} bytes, not {bytes}")]
    DescriptorTooLong {
        /// What it has.
        bytes: usize,
    },
    /// No room for another component.
    #[error("{device} has no room for another component (at most {components_max})")]
    ComponentsFull {
        /// Name of the device.
        device: String,
        /// How many it holds.
        components_max: u32,
    },
    /// More is reserved than there is.
    #[error("{device} cannot promise {} to one component: it has {}, of which others were promised {}", ByteSize(*wanted), ByteSize(*total), ByteSize(*promised))]
    CannotReserve {
        /// Name of the device.
        device: String,
        /// What was asked for, in bytes.
        wanted: u64,
        /// What others have, in bytes.
        promised: u64,
        /// What there is, in bytes.
        total: u64,
    },
}

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

/// What is fixed about a group.
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
    /// The capacity devices' identities, in order.
    pub capacity: Vec<DeviceUuid>,
}

impl GroupInfo {
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
    info: GroupInfo,
    cache: Device,
    capacity: Vec<Device>,
    control: Mutex<Control>,
    usage: Usage,
    trouble: Trouble,
    /// It holds copies of several: its superblocks say so.
    copies: AtomicBool,
}

struct Control {
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
            let what = match superblock::probe(rt, device).await.map_err(device_error(device))? {
                Probe::Empty => continue,
                Probe::Ours(found) => format!("a device of disk group '{}' ({})", found.superblock.name, found.superblock.group),
                Probe::Foreign { what } => what.to_string(),
                Probe::Newer { major } => format!("a device of a disk group of a newer Basalt (format version {major})"),
                Probe::Damaged { cause } => format!("a device of a disk group, with damaged superblocks ({cause})"),
            };
            return Err(GroupError::NotEmpty { device: device.name().into(), what });
        }
    }
    let uuid = || DeviceUuid::from_random(random_bytes(rt));
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
    };
    write_group(rt, &info, cache, capacity).await?;
    Ok(info)
}

fn random_bytes(rt: &Rt) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&rt.random_u64().to_le_bytes());
    bytes[8..].copy_from_slice(&rt.random_u64().to_le_bytes());
    bytes
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
    let heads = capacity.iter().enumerate().map(|(i, d)| write_heads(rt, info, i as u8, d));
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
    }
}

/// Heads of empty tables. Only these need to be there: pages past the mark are not read.
async fn write_heads(rt: &Rt, info: &GroupInfo, index: u8, device: &Device) -> Result<(), GroupError> {
    let geometry = &info.geometry.capacity[usize::from(index)];
    let head = |address: PageAddress| {
        let mut buf = Buf::zeroed(BLOCK_BYTES);
        TableHead { pages_used: 1 }.build(&mut buf);
        PageHeader { tag: info.tag, address, generation: 1 }.seal(&mut buf);
        buf
    };
    let mut writes = vec![(geometry.component_page_offset(0, 0), head(ComponentTable::address(index, 0)))];
    for shard in 0..info.shards {
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

// ---- open -----------------------------------------------------------------------------------------------------------

struct Member<'a> {
    device: &'a Device,
    found: Found,
}

impl Member<'_> {
    fn name(&self) -> String {
        self.device.name().into()
    }
    fn superblock(&self) -> &Superblock {
        &self.found.superblock
    }
}

/// Opens the group that `devices` (in any order) are. With `cluster`: only if it belongs to that one. Brings a damaged copy
/// of a superblock back from the other one, and writes that of an older format anew: from then on older programs refuse the group.
pub async fn open_group(rt: &Rt, cluster: Option<ClusterId>, devices: &[Device]) -> Result<Group, GroupError> {
    if devices.is_empty() {
        return Err(GroupError::DeviceCount { count: 0 });
    }
    given_twice(&devices.iter().collect::<Vec<_>>())?;
    let probes = join_all(devices.iter().map(|d| Box::pin(async move { superblock::probe(rt, d).await.map_err(device_error(d)) }))).await;
    let mut members = Vec::with_capacity(devices.len());
    for (device, probe) in devices.iter().zip(probes) {
        members.push(Member { device, found: ours(device, probe?)? });
    }
    same_group(&members)?;
    complete(&members)?;
    let info = info_of(&members, cluster)?;
    let find = |uuid: &DeviceUuid| members.iter().find(|m| m.superblock().device == *uuid).map(|m| m.device.clone());
    let cache = find(&info.cache).expect("the set is complete");
    let capacity: Vec<Device> = info.capacity.iter().map(|uuid| find(uuid).expect("the set is complete")).collect();
    let components = load_components(rt, &info, &capacity).await?;
    for m in members.iter_mut().filter(|m| !m.found.both_valid && !hooks::seeded(hooks::SeededFault::DamagedCopyKept)) {
        tracing::warn!(device = m.device.name(), "one copy of the superblock was damaged; it is written anew from the other");
        superblock::update(rt, m.device, &mut m.found, |_| ()).await.map_err(device_error(m.device))?;
    }
    let trouble = Trouble::new(&info.name);
    let copies = members.iter().all(|m| m.superblock().major > VERSION_PLAIN);
    Ok(Group(Arc::new(Inner {
        info,
        cache,
        capacity,
        control: Mutex::new(Control { components, busy: false }),
        usage: Usage::default(),
        trouble,
        copies: AtomicBool::new(copies),
    })))
}

fn ours(device: &Device, probe: Probe) -> Result<Found, GroupError> {
    let name = || device.name().to_string();
    let found = match probe {
        Probe::Ours(found) => *found,
        Probe::Empty => return Err(GroupError::NotOurs { device: name(), what: "nothing" }),
        Probe::Foreign { what } => return Err(GroupError::NotOurs { device: name(), what }),
        Probe::Newer { major } => return Err(GroupError::Newer { device: name(), major }),
        Probe::Damaged { cause } => return Err(GroupError::Damaged { device: name(), cause }),
    };
    let major = found.superblock.major;
    if major < VERSION_PLAIN {
        return Err(GroupError::Older { device: name(), major });
    }
    let formatted = found.superblock.device_bytes;
    if device.bytes() < formatted {
        return Err(GroupError::Truncated { device: name(), bytes: device.bytes(), formatted });
    }
    Ok(found)
}

fn same_group(members: &[Member<'_>]) -> Result<(), GroupError> {
    let (first, rest) = members.split_first().expect("there is a device");
    let a = first.superblock();
    for m in rest {
        let b = m.superblock();
        if a.group != b.group {
            let (group_a, group_b) = (format!("{} ({})", a.name, a.group), format!("{} ({})", b.name, b.group));
            return Err(GroupError::Mixed { a: first.name(), group_a, b: m.name(), group_b });
        }
    }
    for (i, m) in members.iter().enumerate() {
        if let Some(twin) = members[..i].iter().find(|t| t.superblock().device == m.superblock().device) {
            return Err(GroupError::Duplicate { a: twin.name(), b: m.name(), uuid: m.superblock().device });
        }
    }
    for m in rest {
        let b = m.superblock();
        if a.tag != b.tag || a.cache != b.cache || a.capacity != b.capacity || a.shards != b.shards || a.cluster != b.cluster {
            return Err(GroupError::MixedFormats { a: first.name(), b: m.name(), group: a.name.clone() });
        }
    }
    Ok(())
}

fn complete(members: &[Member<'_>]) -> Result<(), GroupError> {
    let s = members[0].superblock();
    let has = |uuid: &DeviceUuid| members.iter().any(|m| m.superblock().device == *uuid);
    let mut missing = Vec::new();
    if !has(&s.cache) {
        missing.push(format!("the cache device ({})", s.cache));
    }
    for (i, uuid) in s.capacity.iter().enumerate().filter(|(_, uuid)| !has(uuid)) {
        missing.push(format!("capacity device {i} ({uuid})"));
    }
    if missing.is_empty() { Ok(()) } else { Err(GroupError::Incomplete { group: s.name.clone(), missing }) }
}

fn info_of(members: &[Member<'_>], cluster: Option<ClusterId>) -> Result<GroupInfo, GroupError> {
    let s = members[0].superblock();
    if let Some(expected) = cluster.filter(|c| *c != s.cluster) {
        return Err(GroupError::OtherCluster { group: s.name.clone(), found: s.cluster, expected });
    }
    let role = |uuid: &DeviceUuid| members.iter().find(|m| m.superblock().device == *uuid).map(|m| m.superblock().role);
    let wrong = || GroupError::MixedFormats { a: members[0].name(), b: members[0].name(), group: s.name.clone() };
    let Some(Role::Cache { log_offset, segment_bytes, segments_per_shard }) = role(&s.cache) else { return Err(wrong()) };
    let capacity = s.capacity.iter().map(|uuid| role(uuid).as_ref().and_then(CapacityGeometry::of).ok_or_else(wrong));
    let geometry = Geometry {
        shards: s.shards,
        log: LogGeometry { offset: log_offset, segment_bytes, segments_per_shard },
        capacity: capacity.collect::<Result<_, _>>()?,
    };
    Ok(GroupInfo {
        cluster: s.cluster,
        group: s.group,
        name: s.name.clone(),
        shards: s.shards,
        created_unix_s: s.created_unix_s,
        tag: s.tag,
        geometry,
        cache: s.cache,
        capacity: s.capacity.clone(),
    })
}

async fn load_components(rt: &Rt, info: &GroupInfo, capacity: &[Device]) -> Result<ComponentTable, GroupError> {
    let mut table = ComponentTable::new(info.tag, &info.geometry.capacity);
    for (index, device) in capacity.iter().enumerate() {
        let geometry = &info.geometry.capacity[index];
        let damaged = |page, cause| GroupError::TableDamaged { device: device.name().into(), table: "component", shard: 0, page, cause };
        let read = |first: u32, count: u32| async move {
            let buf = Buf::alloc(count as usize * PAGE_SLOTS_BYTES as usize);
            let (result, buf) = rt.read_at(device, geometry.component_page_offset(first, 0), buf).await;
            result.map(|()| buf).map_err(device_error(device))
        };
        let newest = async |page: u32, slots: &mut [u8]| {
            let address = ComponentTable::address(index as u8, page);
            let newest = slots::newest(rt, device, geometry.component_page_offset(page, 0), slots, info.tag, address).await;
            newest.map_err(|e| damaged(page, e))
        };
        let mut head = read(0, 1).await?;
        let newest_head = newest(0, &mut head).await?;
        let used = TableHead::parse(page::slot_bytes(&head, newest_head.slot)).map_err(|e| damaged(0, e))?.pages_used;
        if used > u64::from(geometry.component_pages) {
            return Err(damaged(0, DiskError::Value { field: "pages used" }));
        }
        table.set_head(index as u8, newest_head);
        let per_read = hooks::tiny((rt::BUF_BYTES_MAX as u64 / PAGE_SLOTS_BYTES) as u32, 1);
        let mut first = 1;
        while first < used as u32 {
            let count = per_read.min(used as u32 - first);
            for (i, slots) in read(first, count).await?.chunks_exact_mut(2 * BLOCK_BYTES).enumerate() {
                let page = first + i as u32;
                let newest = newest(page, slots).await?;
                table.take_page(index as u8, newest, page::slot_bytes(slots, newest.slot)).map_err(|e| damaged(page, e))?;
            }
            first += count;
        }
    }
    Ok(table)
}

// ---- an open group --------------------------------------------------------------------------------------------------

/// The right to change components; one at a time. Given back when dropped, also if the task is cancelled.
struct Turn<'a>(&'a Inner);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.control().busy = false;
    }
}

impl Inner {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    async fn turn(&self, rt: &Rt) -> Turn<'_> {
        loop {
            {
                let mut control = self.control();
                if !control.busy {
                    control.busy = true;
                    return Turn(self);
                }
            }
            rt.sleep(BUSY_WAIT).await;
        }
    }
    fn device(&self, index: u8) -> Result<&Device, GroupError> {
        self.capacity.get(usize::from(index)).ok_or(GroupError::NoDevice { index, count: self.capacity.len() })
    }

    /// Makes a change durable, then visible.
    async fn carry_out(&self, rt: &Rt, change: Change) -> Result<(), GroupError> {
        let device = self.device(change.device())?;
        let mut page = Buf::alloc(BLOCK_BYTES);
        let offset = self.control().components.encode_page(&change, &mut page);
        write_page(rt, device, offset, page).await.map_err(device_error(device))?;
        if change.grows {
            let mut head = Buf::alloc(BLOCK_BYTES);
            let offset = self.control().components.encode_head(&change, &mut head);
            write_page(rt, device, offset, head).await.map_err(device_error(device))?;
        }
        self.control().components.apply(change);
        Ok(())
    }

    fn check_reservation(&self, device: u8, reserve_chunks: u64, but: Option<ComponentNo>) -> Result<(), GroupError> {
        let shards = u64::from(self.info.shards);
        let promised = self.control().components.promised_per_shard(device, self.info.shards, but);
        let total = u64::from(self.info.geometry.capacity[usize::from(device)].chunks_per_shard);
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
    /// What is fixed about it.
    pub fn info(&self) -> &GroupInfo {
        &self.0.info
    }
    /// Its cache device.
    pub fn cache(&self) -> &Device {
        &self.0.cache
    }
    /// Its capacity devices, in order.
    pub fn capacity(&self) -> &[Device] {
        &self.0.capacity
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
        let device = inner.device(spec.capacity_index)?;
        check_descriptor(&spec.descriptor)?;
        let _turn = inner.turn(rt).await;
        let existing = inner.control().components.by_id(spec.id);
        if let Some(c) = existing {
            let same = c.object == spec.object && c.capacity_index == spec.capacity_index;
            return if same { Ok(c.no) } else { Err(GroupError::ComponentExists(c.no)) };
        }
        inner.check_reservation(spec.capacity_index, spec.reserve_chunks, None)?;
        let change = inner.control().components.begin_create(&spec).map_err(|_| GroupError::ComponentsFull {
            device: device.name().into(),
            components_max: inner.info.geometry.capacity[usize::from(spec.capacity_index)].components_max(),
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
        let _turn = inner.turn(rt).await;
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
        let _turn = inner.turn(rt).await;
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
        let _turn = inner.turn(rt).await;
        let info = self.component(no).ok_or(GroupError::NoComponent(no))?;
        if info.copy {
            return Ok(info);
        }
        if !inner.copies.load(Relaxed) {
            for device in core::iter::once(&inner.cache).chain(&inner.capacity) {
                let mut found = ours(device, superblock::probe(rt, device).await.map_err(device_error(device))?)?;
                superblock::update(rt, device, &mut found, |s| s.major = VERSION_MAJOR).await.map_err(device_error(device))?;
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
        crate::capacity::ChunkTable::load(rt, info.tag, (shard, info.shards), &info.geometry.capacity, self.capacity(), counted).await
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;

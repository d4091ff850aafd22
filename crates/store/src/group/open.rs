//! Opening a group: which devices it has, what they say of themselves, its table of components.
//!
//! Invariants: the cache device's superblock says which devices the group has; those of the others may be behind, and are brought up to date; none of
//! the group's devices is left out.
//! Never: takes a device for one of the group that the cache device does not name.

use super::{Control, Group, GroupError, GroupInfo, Inner, device_error, given_twice};
use crate::components::ComponentTable;
use crate::geometry::{CapacityGeometry, Geometry, LogGeometry};
use crate::join::join_all;
use crate::slots;
use crate::superblock::{self, Found, Probe};
use crate::trouble::Trouble;
use crate::usage::Usage;
use base::{BLOCK_BYTES, ClusterId, DeviceUuid, hooks};
use format::disk::DiskError;
use format::disk::page::{self, PAGE_SLOTS_BYTES, TableHead};
use format::disk::superblock::{NO_DEVICE, Role, Superblock, VERSION_PLAIN};
use rt::{Buf, Device, Rt};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

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
    fn is_cache(&self) -> bool {
        matches!(self.superblock().role, Role::Cache { .. })
    }
}

/// The devices of a group that is opened.
#[derive(Clone, Default)]
pub struct GroupDevices {
    /// Those that it has, in any order.
    pub devices: Vec<Device>,
    /// Of which it is not known whether they were added, or have left: those that the group has are opened with it, others are let alone.
    pub maybe: Vec<Device>,
    /// The numbers of capacity devices that are gone for good: the group is rid of them, durably, and of the components that lay there.
    pub lost: Vec<u8>,
    /// Every component number below this one was given, as far as anybody remembers.
    pub numbers_from: u32,
}

/// Opens the group that `devices` (in any order) are. With `cluster`: only if it belongs to that one. Brings a damaged copy
/// of a superblock back from the other one, and those up to date that do not know all of the group's devices.
pub async fn open_group(rt: &Rt, cluster: Option<ClusterId>, devices: &[Device]) -> Result<Group, GroupError> {
    open_group_with(rt, cluster, &GroupDevices { devices: devices.to_vec(), ..GroupDevices::default() }).await
}

/// The same, where devices came or went.
pub async fn open_group_with(rt: &Rt, cluster: Option<ClusterId>, given: &GroupDevices) -> Result<Group, GroupError> {
    let GroupDevices { devices, maybe, lost, numbers_from } = given;
    if devices.is_empty() {
        return Err(GroupError::DeviceCount { count: 0 });
    }
    given_twice(&devices.iter().chain(maybe).collect::<Vec<_>>())?;
    let probe = |d: &Device| {
        let (rt, d) = (rt.clone(), d.clone());
        Box::pin(async move { superblock::probe(&rt, &d).await.map_err(device_error(&d)) })
    };
    let probes = join_all(devices.iter().map(probe)).await;
    let mut members = Vec::with_capacity(devices.len() + maybe.len());
    for (device, probe) in devices.iter().zip(probes) {
        members.push(Member { device, found: ours(device, probe?)? });
    }
    let mut list = list_of(&members).clone();
    for (device, probe) in maybe.iter().zip(join_all(maybe.iter().map(probe)).await) {
        let found = probe.and_then(|probe| ours(device, probe));
        let of_list = |s: &Superblock| (s.group, s.tag) == (list.group, list.tag) && list.capacity.contains(&s.device);
        match found {
            Ok(found) if of_list(&found.superblock) => members.push(Member { device, found }),
            _ => tracing::info!(device = device.name(), group = list.name, "it is not a device of the disk group"),
        }
    }
    same_group(&members, &list)?;
    let is_rid = |number: &&u8| list.capacity.get(usize::from(**number)).is_some_and(|uuid| *uuid != NO_DEVICE);
    let rid: Vec<u8> = lost.iter().filter(is_rid).copied().collect();
    if !rid.is_empty() {
        list = super::membership::without(&list, &rid, *numbers_from);
        if list.capacity.is_empty() {
            return Err(GroupError::Incomplete { group: list.name, missing: vec!["every capacity device".into()] });
        }
        members.retain(|m| m.is_cache() || list.capacity.contains(&m.superblock().device));
    }
    complete(&members, &list)?;
    let info = info_of(&members, cluster, &list)?;
    let find = |uuid: &DeviceUuid| members.iter().find(|m| m.superblock().device == *uuid).map(|m| m.device.clone());
    let cache = find(&info.cache).expect("the set is complete");
    let capacity: Vec<Device> = info.capacity.iter().map(|uuid| find(uuid).unwrap_or_else(|| cache.clone())).collect();
    if let Some(m) = members.iter_mut().find(|m| m.is_cache()).filter(|_| !rid.is_empty()) {
        tracing::warn!(group = list.name, numbers = ?rid, "the disk group is opened without capacity devices that are gone");
        for _ in 0..2 {
            superblock::update(rt, m.device, &mut m.found, |s| takes_list(s, &list)).await.map_err(device_error(m.device))?;
        }
    }
    let mut components = load_components(rt, &info, &capacity).await?;
    components.numbers_from(list.numbers_from);
    let behind = members.iter().any(|m| m.superblock().membership < list.membership);
    for m in &mut members {
        if !m.found.both_valid && !hooks::seeded(hooks::SeededFault::DamagedCopyKept) {
            tracing::warn!(device = m.device.name(), "one copy of the superblock was damaged; it is written anew from the other");
            superblock::update(rt, m.device, &mut m.found, |_| ()).await.map_err(device_error(m.device))?;
        }
        if behind && m.is_cache() {
            // The change was cut short: its older copy may not have the list.
            superblock::update(rt, m.device, &mut m.found, |_| ()).await.map_err(device_error(m.device))?;
        }
        if m.superblock().membership < list.membership {
            tracing::info!(device = m.device.name(), group = list.name, "its superblock gets the group's list of devices");
            superblock::update(rt, m.device, &mut m.found, |s| takes_list(s, &list)).await.map_err(device_error(m.device))?;
        }
    }
    let trouble = Trouble::new(&info.name);
    let copies = members.iter().all(|m| m.superblock().major > VERSION_PLAIN);
    let info = Arc::new(info);
    Ok(Group(Arc::new(Inner {
        cache,
        control: Mutex::new(Control { info, capacity: capacity.into(), leaving: 0, components, busy: false }),
        usage: Usage::default(),
        trouble,
        copies: AtomicBool::new(copies),
    })))
}

/// A superblock says of the group's devices what that of the cache device says.
pub(super) fn takes_list(s: &mut Superblock, list: &Superblock) {
    s.capacity.clone_from(&list.capacity);
    (s.major, s.membership, s.numbers_from) = (s.major.max(list.major), list.membership, list.numbers_from);
}

pub(super) fn ours(device: &Device, probe: Probe) -> Result<Found, GroupError> {
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

/// Who says which devices the group has: the cache device; while that is missing, who was informed last.
fn list_of<'a>(members: &'a [Member<'_>]) -> &'a Superblock {
    let knows = |m: &&Member<'_>| (m.is_cache(), m.superblock().membership);
    // Of those that know the same, the first.
    members.iter().rev().max_by_key(knows).expect("there is a device").superblock()
}

fn same_group(members: &[Member<'_>], list: &Superblock) -> Result<(), GroupError> {
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
        let together = (a.tag, a.cache, a.shards, a.cluster) == (b.tag, b.cache, b.shards, b.cluster);
        // Without a change since the format, all say the same of the devices.
        let as_formatted = a.membership == 0 && b.membership == 0;
        if !together || as_formatted && a.capacity != b.capacity {
            return Err(GroupError::MixedFormats { a: first.name(), b: m.name(), group: a.name.clone() });
        }
    }
    for m in members {
        let s = m.superblock();
        let Role::Capacity { index, .. } = s.role else { continue };
        match list.capacity.iter().position(|uuid| *uuid == s.device) {
            None => return Err(GroupError::Left { device: m.name(), group: s.name.clone() }),
            // It knows of a change that the cache device has forgotten.
            Some(_) if s.membership > list.membership => {
                let cache = members.iter().find(|m| m.is_cache()).map_or_else(|| list.cache.to_string(), Member::name);
                return Err(GroupError::OlderCache { cache, device: m.name(), group: s.name.clone() });
            }
            Some(at) if at != usize::from(index) || s.membership == list.membership && s.capacity != list.capacity => {
                return Err(GroupError::MixedFormats { a: first.name(), b: m.name(), group: s.name.clone() });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn complete(members: &[Member<'_>], list: &Superblock) -> Result<(), GroupError> {
    let has = |uuid: &DeviceUuid| members.iter().any(|m| m.superblock().device == *uuid);
    let mut missing = Vec::new();
    if !has(&list.cache) {
        missing.push(format!("the cache device ({})", list.cache));
    }
    for (i, uuid) in list.capacity.iter().enumerate().filter(|(_, uuid)| **uuid != NO_DEVICE && !has(uuid)) {
        missing.push(format!("capacity device {i} ({uuid})"));
    }
    if missing.is_empty() { Ok(()) } else { Err(GroupError::Incomplete { group: list.name.clone(), missing }) }
}

fn info_of(members: &[Member<'_>], cluster: Option<ClusterId>, s: &Superblock) -> Result<GroupInfo, GroupError> {
    if let Some(expected) = cluster.filter(|c| *c != s.cluster) {
        return Err(GroupError::OtherCluster { group: s.name.clone(), found: s.cluster, expected });
    }
    let role = |uuid: &DeviceUuid| members.iter().find(|m| m.superblock().device == *uuid).map(|m| m.superblock().role);
    let wrong = || GroupError::MixedFormats { a: members[0].name(), b: members[0].name(), group: s.name.clone() };
    let Some(Role::Cache { log_offset, segment_bytes, segments_per_shard }) = role(&s.cache) else { return Err(wrong()) };
    let capacity = s.capacity.iter().map(|uuid| match *uuid {
        NO_DEVICE => Ok(CapacityGeometry::NONE),
        _ => role(uuid).as_ref().and_then(CapacityGeometry::of).ok_or_else(wrong),
    });
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
        membership: s.membership,
    })
}

async fn load_components(rt: &Rt, info: &GroupInfo, capacity: &[Device]) -> Result<ComponentTable, GroupError> {
    let mut table = ComponentTable::new(info.tag, &info.geometry.capacity);
    for (index, device) in capacity.iter().enumerate() {
        let geometry = &info.geometry.capacity[index];
        if geometry.is_none() {
            continue;
        }
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

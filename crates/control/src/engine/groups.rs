//! Disk groups: create, list, remove, scrub.

use super::*;
use crate::{
    api::types as api,
    cluster_client::NodeRequest,
    plane::{DeviceFigures, GroupFigures},
};
use base::{ByteSize, unit::BLOCK_BYTES};
use std::{
    collections::BTreeSet,
    io::Write,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Capacity devices of one group.
pub const CAPACITY_DEVICES_MAX: usize = 7;
/// The smallest device, in bytes: room for the structures of each shard, and some use.
pub const DEVICE_BYTES_MIN: u64 = 256 << 20;
/// The largest device, in bytes: twice the largest drive that there is, and what its tables take fits into the memory of a server.
pub const DEVICE_BYTES_MAX: u64 = 256 << 40;
const SHARDS_DEFAULT: u8 = 16;
/// Superblocks lie within this much of the beginning of a device.
const SUPERBLOCK_AREA_BYTES: usize = 128 << 10;
/// How long another node may take to make or remove a group: it may have to write whole files.
const DEVICES_WAIT: Duration = Duration::from_secs(120);

impl Control {
    /// All disk groups, by name.
    pub fn groups(&self) -> Result<Vec<api::Group>, Problem> {
        let (stats, presences, objects) = (self.stats()?, self.presences()?, self.directory.all::<ObjectRecord>()?);
        let records = self.directory.all::<GroupRecord>()?;
        let mut groups: Vec<api::Group> = records.iter().map(|g| self.show_group(g, &stats, &presences, &objects)).collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(groups)
    }

    /// One disk group, by name or id.
    pub fn group(&self, name: &str) -> Result<api::Group, Problem> {
        let record = self.group_record(name)?;
        Ok(self.show_group(&record, &self.stats()?, &self.presences()?, &self.directory.all::<ObjectRecord>()?))
    }

    /// Makes a disk group. The node that has the devices decides whether they can be taken, and writes the records.
    pub fn create_group(&self, new: &api::NewGroup) -> Result<api::Group, Problem> {
        let Some(node) = &new.node else { return self.create_group_here(new) };
        let record = Some(self.node_called(node)?.value).filter(NodeRecord::is_member);
        let node = record.ok_or_else(|| Problem::not_found("node", node, "node list"))?.name;
        if node == self.identity.node {
            return self.create_group_here(new);
        }
        self.at_node(&node, "POST", "/cluster/v1/groups".into(), Some(serde_json::to_vec(new).expect("plain data")))
    }

    /// What acts on devices that only another node has is done by that node.
    pub(super) fn at_node<T: serde::de::DeserializeOwned>(
        &self,
        node: &str,
        method: &str,
        path: String,
        body: Option<Vec<u8>>,
    ) -> Result<T, Problem> {
        if !self.is_up(node)? {
            return Err(Problem::new(
                crate::Code::Unavailable,
                format!("node {}, which has the devices, is down", self.shown_name_of(node)?),
                "'basalt node list' shows which nodes are up; try again when it is",
            ));
        }
        let request = NodeRequest { method: method.into(), path, body, administrator: None, nonce: request::nonce(), wait: DEVICES_WAIT };
        self.ask_within(node, request)
    }

    /// Makes a disk group of devices of this node.
    pub(crate) fn create_group_here(&self, new: &api::NewGroup) -> Result<api::Group, Problem> {
        let _devices = self.devices();
        cluster::check_name(&new.name)?;
        if self.directory.named(Kind::Group, &new.name)?.is_some() {
            return Err(Problem::exists("disk group", &new.name));
        }
        let shards = new.shards.unwrap_or(SHARDS_DEFAULT);
        if !shards.is_power_of_two() || shards > SHARDS_DEFAULT {
            return Err(Problem::invalid(format!("a disk group cannot have {shards} shards"), "use 1, 2, 4, 8 or 16"));
        }
        if new.capacity.is_empty() || new.capacity.len() > CAPACITY_DEVICES_MAX {
            return Err(Problem::invalid(
                format!("a disk group has one to {CAPACITY_DEVICES_MAX} capacity devices, not {}", new.capacity.len()),
                "name them with --capacity, once each; make several groups for more",
            ));
        }
        let created: Vec<PathBuf> = std::iter::once(&new.cache).chain(&new.capacity).filter_map(will_be_created).collect();
        let cache = self.check_device(&new.cache, new.force)?;
        let capacity = new.capacity.iter().map(|d| self.check_device(d, new.force)).collect::<Result<Vec<_>, _>>()?;
        let record = GroupRecord {
            id: GroupId::from_random(random()),
            name: new.name.clone(),
            node: self.identity.node.clone(),
            stage: Stage::Creating,
            cache,
            capacity,
            changes: BTreeMap::new(),
            shards,
            created_unix_s: now_unix_s(),
        };
        self.refuse_shared_devices(record.devices())?;
        if !new.sparse {
            check_room(&record, &created)?;
        }
        self.decided(|| match self.directory.named(Kind::Group, &record.name)? {
            Some(_) => Err(Problem::exists("disk group", &record.name)),
            None => Ok((Transaction::new().create(&record).take_name(Kind::Group, &record.name, &record.id()), ())),
        })?;
        let mut made = self.again::<GroupRecord>(&record.id())?;
        let file = if new.sparse { CacheFile::Sparse } else { CacheFile::Reserved };
        if let Err(error) = self.format(&record, file, new.force) {
            self.forget_group(made)?;
            created.iter().for_each(|path| drop(std::fs::remove_file(path)));
            return Err(error.into());
        }
        made.value.stage = Stage::Ready;
        self.commit(Transaction::new().update(&made))?;
        let mut live = self.live();
        live.groups.insert(record.id, GroupLive::Online(BTreeMap::new()));
        live.stats = None;
        drop(live);
        tracing::info!(group = %record.name, id = %record.id, "disk group created");
        self.group(&record.name)
    }

    /// Removes a disk group. With `force` the volumes that have components on it go with it, or lose a copy.
    pub fn remove_group(&self, name: &str, force: bool) -> Result<(), Problem> {
        let group = self.group_record(name)?;
        if group.node == self.identity.node {
            return self.remove_group_here(&group.id(), force);
        }
        self.at_node(&group.node, "DELETE", format!("/cluster/v1/groups/{}?force={force}", group.id()), None)
    }

    /// Removes a disk group of this node.
    pub(crate) fn remove_group_here(&self, name: &str, force: bool) -> Result<(), Problem> {
        let _devices = self.devices();
        let group = self.group_record(name)?;
        for _ in 0..CONFLICT_ATTEMPTS_MAX {
            self.empty_group(&group, force)?;
            // Another node may have placed a volume on it meanwhile.
            let (_, empty) = self.decided(|| {
                let mut group = self.group_record(&group.id())?;
                if !self.volumes_on(group.id)?.is_empty() {
                    return Ok((Transaction::new(), false));
                }
                group.value.stage = Stage::Deleting;
                Ok((Transaction::new().update(&group), true))
            })?;
            if empty {
                return self.remove_intended(&group);
            }
        }
        Err(Problem::new(crate::Code::Conflict, format!("others go on to put volumes on disk group {}", group.name), "try again"))
    }

    /// No volume has components on a group any more.
    fn empty_group(&self, group: &GroupRecord, force: bool) -> Result<(), Problem> {
        let mut users = self.volumes_on(group.id)?;
        users.sort_by(|a, b| a.name.cmp(&b.name));
        if !users.is_empty() && !force {
            let names: Vec<&str> = users.iter().take(5).map(|v| v.name.as_str()).collect();
            let more = users.len().saturating_sub(5);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(Problem::refused(
                format!("disk group {} holds data of {} volume(s): {}{more}", group.name, users.len(), names.join(", ")),
                "delete these volumes first; or use --force: those without copies in sync elsewhere are deleted with the group",
            ));
        }
        for volume in users {
            // The request is decided when the group goes: until then it can be begun anew.
            request::undecided(|| self.lose_components(&volume, |c| c.group == group.id))?;
        }
        self.apply()
    }

    /// Removes a group that is written as one to be removed.
    fn remove_intended(&self, group: &GroupRecord) -> Result<(), Problem> {
        let online = self.live().groups.get(&group.id).is_some_and(GroupLive::is_online);
        if online {
            self.plane.close_group(group.id)?;
            for path in group.devices().filter_map(DeviceRecord::path) {
                if let Err(error) = wipe(Path::new(path)) {
                    tracing::warn!(path, %error, "the device still says that it belongs to the removed disk group; reuse it with --force");
                }
            }
        }
        let group = self.group_record(&group.id())?;
        let name = group.name.clone();
        self.forget_group(group)?;
        let mut live = self.live();
        live.orphans.retain(|o| o.group != name);
        live.stats = None;
        tracing::info!(group = %name, "disk group removed");
        Ok(())
    }

    /// Begins to read everything on a group and to compare checksums.
    pub fn scrub_group(&self, name: &str) -> Result<(), Problem> {
        let group = self.group_record(name)?;
        if group.node != self.identity.node {
            return self.at_node(&group.node, "POST", format!("/cluster/v1/groups/{}/scrub", group.id()), None);
        }
        Ok(self.plane.scrub_group(group.id)?)
    }

    /// The volumes that have components on a group.
    pub(super) fn volumes_on(&self, group: GroupId) -> Result<Vec<Versioned<VolumeRecord>>, Problem> {
        let objects: BTreeSet<base::ObjectId> =
            self.directory.all::<ObjectRecord>()?.into_iter().filter(|o| o.components().any(|c| c.group == group)).map(|o| o.id).collect();
        Ok(self.directory.all::<VolumeRecord>()?.into_iter().filter(|v| objects.contains(&v.object)).collect())
    }

    /// What becomes of a volume with components on what goes: it goes on with its other copies, or is deleted.
    pub(super) fn lose_components(&self, volume: &VolumeRecord, goes: impl Fn(&ComponentRecord) -> bool) -> Result<(), Problem> {
        let (_, kept) = self.decided(|| {
            let Some(mut object) = self.directory.find::<ObjectRecord>(&volume.object.to_string())? else {
                return Ok((Transaction::new(), false));
            };
            match cluster::without(&object, &goes) {
                cluster::Without::Lost => return Ok((Transaction::new(), false)),
                cluster::Without::Kept(kept) => object.value = kept,
                cluster::Without::Owned { owner, .. } => {
                    let owner = self.shown_name_of(&owner)?;
                    return Err(Problem::refused(
                        format!("volume {} has other copies, and node {owner} owns it", volume.name),
                        format!(
                            "'basalt volume set {} --owner NODE' first; when that node is down, another one owns it in seconds",
                            volume.name
                        ),
                    ));
                }
            }
            Ok((Transaction::new().update(&object), true))
        })?;
        if !kept {
            return self.drop_volume(volume, goes);
        }
        tracing::warn!(volume = %volume.name, "the volume goes on with fewer copies");
        self.apply()
    }

    /// Deletes a volume with components on what goes: other components are deleted in order, those that `goes` names go with it.
    fn drop_volume(&self, volume: &VolumeRecord, goes: impl Fn(&ComponentRecord) -> bool) -> Result<(), Problem> {
        let (_, there) = self.decided(|| {
            let Some(volume) = self.directory.find::<VolumeRecord>(&volume.id())? else { return Ok((Transaction::new(), false)) };
            let object = self.directory.find::<ObjectRecord>(&volume.object.to_string())?;
            let mut intent = self.deletion(volume)?;
            if let Some(mut object) = object {
                object.value.mirrors.iter_mut().for_each(|s| s.retain(|c| !goes(c)));
                intent = intent.update(&object);
            }
            Ok((intent, true))
        })?;
        if there { self.delete_intended(volume) } else { Ok(()) }
    }

    pub(super) fn group_record(&self, name: &str) -> Result<Versioned<GroupRecord>, Problem> {
        self.resolve(Kind::Group, name, "disk group", "group list")
    }

    /// What a path means, and whether it may be used.
    pub(super) fn check_device(&self, device: &api::NewDevice, force: bool) -> Result<DeviceRecord, Problem> {
        let text = device.path.as_str();
        if let Some(size) = text.strip_prefix("memory:") {
            let (size, populated) = size.strip_suffix(":populated").map_or((size, false), |size| (size, true));
            let bytes = size.parse::<ByteSize>().map_err(|e| Problem::invalid(e.to_string(), "write memory:1GiB, for example"))?.0;
            return fair_size(text, bytes).map(|bytes| DeviceRecord::Memory { bytes, populated });
        }
        let path = Path::new(text);
        if !path.is_absolute() {
            return Err(Problem::invalid(
                format!("'{text}' is not an absolute path"),
                "write the whole path, beginning with /, or memory:SIZE",
            ));
        }
        let file_type = match std::fs::metadata(path) {
            Ok(meta) if meta.is_file() => {
                let bytes = meta.len();
                if device.bytes.is_some_and(|asked| asked.checked_next_multiple_of(BLOCK_BYTES as u64) != Some(bytes)) {
                    return Err(Problem::refused(
                        format!("{text} is there already, with {}", ByteSize(bytes)),
                        "leave out the size to use it as it is, or remove it first",
                    ));
                }
                return fair_size(text, bytes).map(|bytes| DeviceRecord::File { path: text.into(), bytes });
            }
            Ok(meta) => meta.file_type(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return new_file(text, device.bytes),
            Err(e) => return Err(Problem::refused(format!("{text} cannot be looked at: {e}"), "give the daemon access to it")),
        };
        if file_type.is_block_device() {
            return self.check_block_device(text, force);
        }
        Err(Problem::invalid(format!("{text} is neither a block device nor a file"), "'basalt drive list' shows the drives of this node"))
    }

    fn check_block_device(&self, path: &str, force: bool) -> Result<DeviceRecord, Problem> {
        let find = self.drives.find(Path::new(path)).map_err(|e| Problem::new(crate::Code::Internal, e.to_string(), "mount /sys"))?;
        let Some(drive) = find else {
            // a partition, loop device or logical volume: its size comes from the kernel, its users from the data plane's exclusive open
            let bytes = block_device_bytes(path)?;
            return fair_size(path, bytes).map(|bytes| DeviceRecord::Block { path: path.into(), bytes });
        };
        let words = |uses: Vec<&drive::Use>| uses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let live: Vec<_> = drive.uses.iter().filter(|u| u.is_live()).collect();
        if !live.is_empty() {
            return Err(Problem::refused(format!("{path} is in use: {}", words(live)), "free it first; --force does not help here"));
        }
        if !drive.uses.is_empty() && !force {
            return Err(Problem::refused(
                format!("{path} is not empty: {}", words(drive.uses.iter().collect())),
                "use another drive; or --force, which destroys what is on it",
            ));
        }
        // a name that stays the same when drives are added
        let path = drive.stable_path.as_ref().map_or(path.to_owned(), |p| p.display().to_string());
        fair_size(&path, drive.bytes).map(|bytes| DeviceRecord::Block { path, bytes })
    }

    /// No device twice, neither among these nor in a group of this node.
    pub(super) fn refuse_shared_devices<'a>(&self, new: impl Iterator<Item = &'a DeviceRecord>) -> Result<(), Problem> {
        let real = |d: &DeviceRecord| d.path().map(|p| std::fs::canonicalize(p).unwrap_or_else(|_| p.into()));
        let mut seen = BTreeSet::new();
        for path in new.filter_map(real) {
            if !seen.insert(path.clone()) {
                return Err(Problem::invalid(format!("{} is named twice", path.display()), "name each device once"));
            }
        }
        for group in self.directory.all::<GroupRecord>()?.into_iter().filter(|g| g.node == self.identity.node) {
            if let Some(path) = group.devices().filter_map(real).find(|p| seen.contains(p)) {
                return Err(Problem::refused(
                    format!("{} belongs to disk group {}", path.display(), group.name),
                    "use another device, or remove that group first",
                ));
            }
        }
        Ok(())
    }

    pub(super) fn show_group(
        &self,
        group: &GroupRecord,
        stats: &Stats,
        presences: &BTreeMap<String, PresenceRecord>,
        objects: &[Versioned<ObjectRecord>],
    ) -> api::Group {
        let figures = stats.groups.iter().find(|f| f.group == group.id);
        let node = self.shown_name_of(&group.node).unwrap_or_else(|_| group.node.clone());
        let presence = presences.get(&group.node).filter(|_| group.node != self.identity.node);
        let report = presence.and_then(|p| p.groups.iter().find(|r| r.id == group.id));
        let (state, reason) = match (group.stage, self.live().groups.get(&group.id)) {
            (Stage::Creating, _) => (api::GroupState::Creating, None),
            (Stage::Deleting, _) => (api::GroupState::Deleting, None),
            (Stage::Ready, Some(GroupLive::Online(_))) => (api::GroupState::Online, None),
            (Stage::Ready, Some(GroupLive::Offline(why))) => (api::GroupState::Offline, Some(why.clone())),
            (Stage::Ready, None) => match (presence, report) {
                (Some(_), Some(GroupReport { offline: None, .. })) => (api::GroupState::Online, None),
                (Some(_), Some(GroupReport { offline: Some(why), .. })) => (api::GroupState::Offline, Some(why.clone())),
                (Some(_), None) => (api::GroupState::Offline, Some(format!("node {node} has not opened it yet"))),
                (None, _) => (api::GroupState::Offline, Some(format!("node {node} is down"))),
            },
        };
        let sum = |pick: fn(&GroupFigures) -> &Vec<u64>| figures.map_or(0, |f| pick(f).iter().sum());
        let of = |n: usize, pick: fn(&GroupFigures) -> &Vec<u64>| figures.and_then(|f| pick(f).get(n).copied());
        let said = |n: usize| report.and_then(|r| r.devices.iter().find(|d| usize::from(d.index) == n));
        let reserved = |d: &DeviceReport| d.bytes.saturating_sub(d.used_bytes).saturating_sub(d.free_bytes);
        let on = || objects.iter().flat_map(|o| o.components()).filter(|c| c.group == group.id);
        let stays = self.live().devices_stay.clone();
        let capacity = group.numbered().map(|(number, d, change)| {
            let n = usize::from(number);
            api::Device {
                usable_bytes: of(n, |f| &f.capacity_bytes).or_else(|| said(n).map(|d| d.bytes)),
                used_bytes: of(n, |f| &f.capacity_used_bytes).or_else(|| said(n).map(|d| d.used_bytes)),
                reserved_bytes: of(n, |f| &f.capacity_reserved_bytes).or_else(|| said(n).map(reserved)),
                number: Some(number),
                state: device_state(change),
                components: on().filter(|c| c.capacity_index == number).count() as u32,
                reason: stays.get(&(group.id, number)).cloned(),
                ..show_device(d)
            }
        });
        let all = |pick: &dyn Fn(&DeviceReport) -> u64| report.map_or(0, |r| r.devices.iter().map(pick).sum::<u64>());
        let components = on().count();
        let cache = api::Device {
            usable_bytes: figures.map(|f| f.buffer_bytes),
            used_bytes: figures.map(|f| f.buffer_used_bytes),
            ..show_device(&group.cache)
        };
        api::Group {
            id: group.id.to_string(),
            name: group.name.clone(),
            node,
            state,
            reason,
            cache,
            capacity: capacity.collect(),
            shards: group.shards,
            capacity_bytes: sum(|f| &f.capacity_bytes) + all(&|d| d.bytes),
            used_bytes: sum(|f| &f.capacity_used_bytes) + all(&|d| d.used_bytes),
            reserved_bytes: sum(|f| &f.capacity_reserved_bytes) + all(&reserved),
            buffer_bytes: figures.map(|f| f.buffer_bytes).or(report.map(|r| r.buffer_bytes)).unwrap_or(0),
            buffer_used_bytes: figures.map(|f| f.buffer_used_bytes).or(report.map(|r| r.buffer_used_bytes)).unwrap_or(0),
            figures_age_s: report.and(presence).map(|p| now_unix_s().saturating_sub(p.reported_unix_s)),
            components: components as u32,
            scrub_percent: figures.and_then(|f| f.scrub_percent),
            volatile: group.is_volatile(),
            created_unix_s: group.created_unix_s,
        }
    }
}

/// Errors of a group's devices so far.
pub(super) fn device_errors(figures: &GroupFigures) -> impl Iterator<Item = &DeviceFigures> {
    figures.devices.iter().filter(|d| d.errors > 0)
}

fn show_device(device: &DeviceRecord) -> api::Device {
    let kind = match device {
        DeviceRecord::File { .. } => api::DeviceKind::File,
        DeviceRecord::Block { .. } => api::DeviceKind::Block,
        DeviceRecord::Memory { .. } => api::DeviceKind::Memory,
    };
    let path = device.path().unwrap_or("memory").to_owned();
    api::Device {
        kind,
        path,
        bytes: device.bytes(),
        usable_bytes: None,
        used_bytes: None,
        reserved_bytes: None,
        number: None,
        state: api::DeviceState::InUse,
        components: 0,
        reason: None,
    }
}

fn device_state(change: Option<DeviceChange>) -> api::DeviceState {
    match change {
        None => api::DeviceState::InUse,
        Some(DeviceChange::Joins) => api::DeviceState::Joining,
        Some(DeviceChange::Lost) => api::DeviceState::Lost,
        Some(DeviceChange::Leaves | DeviceChange::Gone) => api::DeviceState::Leaving,
    }
}

/// A size that a device of a disk group may have.
fn fair_size(path: &str, bytes: u64) -> Result<u64, Problem> {
    if bytes < DEVICE_BYTES_MIN {
        return Err(Problem::invalid(
            format!("{path} has {}; a device of a disk group needs at least {}", ByteSize(bytes), ByteSize(DEVICE_BYTES_MIN)),
            "use a larger one",
        ));
    }
    if bytes > DEVICE_BYTES_MAX {
        return Err(Problem::invalid(
            format!("{path} has {}; a device of a disk group can have at most {}", ByteSize(bytes), ByteSize(DEVICE_BYTES_MAX)),
            "use a smaller one; a group can have up to seven capacity devices",
        ));
    }
    Ok(bytes)
}

/// The files that are made need room on their file systems: the cache's at once, and none may be larger than what is below it.
pub(super) fn check_room(group: &GroupRecord, created: &[PathBuf]) -> Result<(), Problem> {
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for device in group.devices() {
        let Some(path) = device.path().map(Path::new).filter(|p| created.iter().any(|c| c == p)) else { continue };
        let dir = path.parent().unwrap_or(path);
        let looked = std::fs::metadata(dir).and_then(|meta| Ok((meta.dev(), rustix::fs::statvfs(dir)?)));
        let (file_system, room) =
            looked.map_err(|e| Problem::refused(format!("{} cannot be looked at: {e}", dir.display()), "give the daemon access to it"))?;
        let (size, free) = (room.f_blocks.saturating_mul(room.f_frsize), room.f_bavail.saturating_mul(room.f_frsize));
        let wanted = wanted.entry(file_system).or_default();
        *wanted = wanted.saturating_add(device.bytes());
        let (needed, there, which) =
            if std::ptr::eq(device, &group.cache) { (device.bytes(), free, "free") } else { (*wanted, size, "in all") };
        if needed > there {
            return Err(Problem::new(
                crate::Code::NoSpace,
                format!(
                    "the file system of {} is too small: it has {} {which}, and {} are needed",
                    path.display(),
                    ByteSize(there),
                    ByteSize(needed)
                ),
                "use smaller files or another file system; or --sparse: files take space as they are written, and writes fail when there is none",
            ));
        }
    }
    Ok(())
}

fn new_file(path: &str, bytes: Option<u64>) -> Result<DeviceRecord, Problem> {
    let Some(bytes) = bytes else {
        return Err(Problem::new(
            crate::Code::NotFound,
            format!("{path} is not there"),
            "give a size to have it made as a file (--capacity PATH:SIZE); 'basalt drive list' shows drives",
        ));
    };
    if path.starts_with("/dev/") {
        return Err(Problem::invalid(
            format!("{path} is not there, and files are not made below /dev"),
            "'basalt drive list' shows drives",
        ));
    }
    let dir = Path::new(path).parent().unwrap_or(Path::new("/"));
    if !dir.is_dir() {
        return Err(Problem::invalid(format!("the directory {} is not there", dir.display()), "make it first"));
    }
    fair_size(path, bytes).map(|bytes| DeviceRecord::File { path: path.into(), bytes: bytes.next_multiple_of(BLOCK_BYTES as u64) })
}

pub(super) fn will_be_created(device: &api::NewDevice) -> Option<PathBuf> {
    let path = PathBuf::from(&device.path);
    (path.is_absolute() && !path.exists()).then_some(path)
}

fn block_device_bytes(path: &str) -> Result<u64, Problem> {
    use std::io::Seek;
    let end = std::fs::File::open(path).and_then(|mut f| f.seek(std::io::SeekFrom::End(0)));
    end.map_err(|e| Problem::refused(format!("{path} cannot be opened: {e}"), "give the daemon access to it"))
}

/// Overwrites the superblocks, so that the device is free for other use.
fn wipe(path: &Path) -> std::io::Result<()> {
    let mut device = std::fs::OpenOptions::new().write(true).open(path)?;
    device.write_all(&[0; SUPERBLOCK_AREA_BYTES])?;
    device.sync_all()
}

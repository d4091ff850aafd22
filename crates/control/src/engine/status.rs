//! How the node is: counts, and checks that say what is wrong and what to do.

use super::*;
use crate::api::types as api;
use crate::config::Serves;
use api::Health;
use base::{ByteSize, NodeRole};
use format::disk::{Descriptor, DiskError};
use nvmf::{ListenerKind, ListenerSpec};

/// Capacity used (with reservations) from which a warning is given, and an error, in percent. Hosts of iSCSI hear of the first.
const CAPACITY_WARNING_PERCENT: u64 = 100 - frontend::SPACE_LOW_PERCENT;
const CAPACITY_ERROR_PERCENT: u64 = 95;
/// Critical warning of NVMe: volatile memory backup has failed.
const WARNING_BACKUP: u8 = 1 << 4;
/// Bytes of a data unit in the health log: 1000 x 512.
const DATA_UNIT_BYTES: u128 = 512_000;
/// As drives count it, in whole kelvin.
const KELVIN_AT_0_CELSIUS: i32 = 273;
/// How a copy is that its node deletes.
const LEAVING: &str = "leaving";
/// How one is that is in sync.
const ACTIVE: &str = "active";
/// Fill of the write buffer from which a warning is given, in percent.
const BUFFER_WARNING_PERCENT: u64 = 90;

impl Control {
    /// How the cluster is, as this node knows it.
    pub fn status(&self) -> Result<api::Status, Problem> {
        let (reported, sessions) = (self.reported_checks()?, self.sessions()?.len());
        self.status_with(true, reported, sessions)
    }

    /// How this node is, for who asks every node: what is not well with the cluster is said by the one that leads, so that it is said once.
    pub(crate) fn own_status(&self) -> Result<api::Status, Problem> {
        self.status_with(self.leadership().is_some(), Vec::new(), self.sessions_here()?.len())
    }

    fn status_with(&self, of_cluster: bool, reported: Vec<api::Check>, sessions: usize) -> Result<api::Status, Problem> {
        let groups = self.groups()?;
        let volumes = self.volumes()?;
        let stats = self.stats()?;
        let mut checks = self.own_checks(&stats)?;
        checks.extend(reported);
        if of_cluster {
            checks.extend(self.cluster_checks(&groups, &volumes)?);
        }
        checks.sort_by(|a, b| b.health.cmp(&a.health).then_with(|| a.subject.cmp(&b.subject)));
        let live = self.live();
        let listener = |l: &ListenerSpec| api::ListenerStatus {
            kind: l.kind.word().into(),
            address: l.addr.to_string(),
            advertise: l.advertise.map(|a| a.to_string()),
        };
        let iscsi_listener = |l: &iscsi::ListenerSpec| api::ListenerStatus {
            kind: Serves::Iscsi.word().into(),
            address: l.addr.to_string(),
            advertise: l.advertise.map(|a| a.to_string()),
        };
        let sum = |pick: fn(&api::Group) -> u64| groups.iter().map(pick).sum();
        Ok(api::Status {
            health: checks.iter().map(|c| c.health).max().unwrap_or(Health::Ok),
            checks,
            version: self.identity.version.clone(),
            cluster: self.directory.cluster().to_string(),
            node: self.shown_name_of(&self.identity.node)?,
            started_unix_s: self.started_unix_s,
            listeners: live.listeners.iter().map(listener).chain(live.iscsi_listeners.iter().map(iscsi_listener)).collect(),
            cores: self.identity.cores as u32,
            groups: groups.len() as u32,
            volumes: volumes.len() as u32,
            subsystems: self.directory.list(Kind::Subsystem)?.len() as u32,
            sessions: sessions as u32,
            capacity_bytes: sum(|g| g.capacity_bytes),
            used_bytes: sum(|g| g.used_bytes),
            reserved_bytes: sum(|g| g.reserved_bytes),
            provisioned_bytes: volumes.iter().map(|v| v.bytes).sum(),
        })
    }

    /// What could not be finished yet.
    pub fn tasks(&self) -> Result<Vec<api::Task>, Problem> {
        let task = |t: Versioned<TaskRecord>| api::Task {
            id: t.value.id,
            what: t.value.what,
            error: t.value.error,
            attempts: t.value.attempts,
            last_unix_s: t.value.last_unix_s,
        };
        Ok(self.directory.all::<TaskRecord>()?.into_iter().map(task).collect())
    }

    /// The drives of a node.
    pub(crate) fn drives_of(&self, node: Option<&str>) -> Result<Vec<api::Drive>, Problem> {
        let node = node.map(|node| self.node_called(node)).transpose()?.filter(|n| n.name != self.identity.node);
        match node {
            None => self.drives(),
            Some(node) => self.ask(&node.name, "GET", "/cluster/v1/drives".into(), None),
        }
    }

    /// The drives of this node.
    pub fn drives(&self) -> Result<Vec<api::Drive>, Problem> {
        let problem = |e: drive::DriveError| Problem::new(crate::Code::Internal, e.to_string(), "mount /sys");
        let mut ours: BTreeMap<std::path::PathBuf, String> = BTreeMap::new();
        for group in self.directory.all::<GroupRecord>()?.into_iter().filter(|g| g.node == self.identity.node) {
            for path in group.devices().filter_map(DeviceRecord::path) {
                let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
                ours.insert(real, group.name.clone());
            }
        }
        Ok(self.drives.drives().map_err(problem)?.into_iter().map(|d| show_drive(d, &ours)).collect())
    }

    /// A drive of a node, with its health.
    pub(crate) fn drive_of(&self, node: Option<&str>, drive: &str) -> Result<api::DriveHealth, Problem> {
        let node = node.map(|node| self.node_called(node)).transpose()?.filter(|n| n.name != self.identity.node);
        match node {
            None => self.drive(drive),
            Some(node) => self.ask(&node.name, "GET", crate::api::path_below("/cluster/v1/drives", drive), None),
        }
    }

    /// A drive of this node, by its path, by the last part of that, or by the name that stays.
    pub(crate) fn drive(&self, name: &str) -> Result<api::DriveHealth, Problem> {
        let is = |d: &api::Drive| d.path == name || d.path.strip_prefix("/dev/") == Some(name) || d.stable_path.as_deref() == Some(name);
        let drive = self.drives()?.into_iter().find(is).ok_or_else(|| Problem::not_found("drive", name, "drive list"))?;
        let unreadable = |e: drive::DriveError| Problem::new(crate::Code::Internal, e.to_string(), "mount /sys");
        let found = self.drives.find(std::path::Path::new(&drive.path)).map_err(unreadable)?;
        let asked = found.map(|found| self.drives.health(&found).map_err(|e| e.to_string()));
        let (smart, unknown) = match asked {
            Some(Ok(health)) => (Some(show_health(&health)), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, Some("it is gone".into())),
        };
        Ok(api::DriveHealth { drive, smart, unknown })
    }

    fn media_checks(&self, stats: &Stats) -> Result<Vec<api::Check>, Problem> {
        let mut checks = Vec::new();
        for group in self.directory.all::<GroupRecord>()? {
            let Some(figures) = stats.groups.iter().find(|f| f.group == group.id) else { continue };
            let subject = format!("group {}", group.name);
            for device in super::groups::device_errors(figures) {
                checks.push(check(
                    "device_errors",
                    Health::Warning,
                    &subject,
                    format!("device {} has failed {} operation(s) since the start", device.name, device.errors),
                    "look at its SMART log (nvme smart-log, smartctl) and at the kernel's log; replace it if it goes on".into(),
                ));
            }
            if figures.failed_shards > 0 {
                checks.push(check(
                    "cache_failed",
                    Health::Error,
                    &subject,
                    format!(
                        "the write buffer on {} cannot be written: {} shard(s) refuse writes",
                        group.cache.path().unwrap_or("memory"),
                        figures.failed_shards
                    ),
                    "replace the cache device, or bring it back and restart the daemon (systemctl restart basalt)".into(),
                ));
            }
            if figures.failing_shards > 0 {
                checks.push(check(
                    "capacity_failing",
                    Health::Error,
                    &subject,
                    "data cannot be moved from the write buffer to a capacity device: writes will stop when the buffer is full".into(),
                    "look at the capacity devices (kernel's log, SMART), and at the file system below them if they are files".into(),
                ));
            }
            if figures.media_errors > 0 {
                checks.push(check(
                    "media_errors",
                    Health::Error,
                    &subject,
                    format!("{} block(s) could not be read or had a wrong checksum", figures.media_errors),
                    format!(
                        "run 'basalt group scrub {}': it writes anew what another copy has; restore the other files concerned from a backup, and replace the \
                         device",
                        group.name
                    ),
                ));
            }
        }
        Ok(checks)
    }

    /// What this node is called in what is said of it: alone, just that.
    fn subject(&self) -> String {
        if self.is_alone() { "node".into() } else { format!("node {}", self.identity.node) }
    }

    /// What is not well with what only this node has. The others hear of it with its presence.
    pub(super) fn own_checks(&self, stats: &Stats) -> Result<Vec<api::Check>, Problem> {
        let none = BTreeMap::new();
        let own = self.directory.all::<GroupRecord>()?.into_iter().filter(|g| g.node == self.identity.node);
        let mut checks: Vec<api::Check> = own.flat_map(|g| group_checks(&self.show_group(&g, stats, &none, &[]))).collect();
        checks.extend(self.media_checks(stats)?);
        let any_volumes = self.followed().view().entries(Kind::Volume).next().is_some();
        let live = self.live();
        for orphan in &live.orphans {
            checks.push(check(
                "orphan_component",
                Health::Warning,
                &format!("group {}", orphan.group),
                format!(
                    "component {} ({}) belongs to no volume that is known; {}",
                    orphan.component,
                    ByteSize(orphan.bytes),
                    what_it_was(&orphan.of)
                ),
                "it is kept: if the directory was lost or is an old copy, put back a newer one".into(),
            ));
        }
        if let Some(error) = &live.apply_error {
            let action = "see the daemon's log (journalctl -u basalt)".into();
            checks.push(check(
                "apply_failed",
                Health::Error,
                &self.subject(),
                format!("the last change could not be served: {error}"),
                action,
            ));
        }
        if live.iscsi_listeners.is_empty() {
            let on_iscsi = self.directory.all::<SubsystemRecord>()?.into_iter().filter(|s| s.iqn.is_some() && !s.namespaces.is_empty());
            checks.extend(on_iscsi.map(|s| {
                let action = "add a listener of kind 'iscsi' to the configuration, or 'basalt subsystem set NAME --no-iscsi'".into();
                let message = "it is to be served over iSCSI, and no address is listened on for that".into();
                check("no_iscsi_listener", Health::Warning, &format!("{}, subsystem {}", self.subject(), s.name), message, action)
            }));
        }
        let none_for_nvme = live.listeners.iter().all(|l| l.kind != ListenerKind::Io);
        if none_for_nvme && live.iscsi_listeners.is_empty() && any_volumes {
            let action = "add a listener of kind 'io' or 'iscsi' to the configuration".into();
            let message = "no address is listened on, so no host can connect".into();
            checks.push(check("no_listener", Health::Warning, &self.subject(), message, action));
        }
        Ok(checks)
    }

    /// What the other nodes say is not well there.
    fn reported_checks(&self) -> Result<Vec<api::Check>, Problem> {
        let others = self.presences()?.into_values().filter(|p| p.node != self.identity.node);
        Ok(others.flat_map(|p| p.checks).map(api::Check::reported).collect())
    }

    /// What is not well with the cluster, each thing once, whichever node is asked.
    fn cluster_checks(&self, groups: &[api::Group], volumes: &[api::Volume]) -> Result<Vec<api::Check>, Problem> {
        let presences = self.presences()?;
        let mut checks = self.directory_checks();
        // A witness does not say that it is up: all that it is for is its member of etcd, which is watched.
        let says = |n: &NodeRecord| n.is_member() && n.role == NodeRole::Data && n.name != self.identity.node;
        let members = self.directory.all::<NodeRecord>()?.into_iter().filter(|n| says(n));
        let down: Vec<Versioned<NodeRecord>> = members.filter(|n| !self.is_alone() && !presences.contains_key(&n.name)).collect();
        let is_down = |node: &str| down.iter().any(|n| n.shown_name() == node);
        checks.extend(down.iter().map(|n| node_down(n, groups, volumes, is_down)));
        // Those on nodes that are down are in that one's alarm.
        let up = |v: &&api::Volume| v.components.iter().all(|c| !is_down(&c.node));
        let restored = self.restored_checks()?;
        let is_said = |v: &&api::Volume| restored.iter().any(|check| check.subject == subject_of(v));
        checks.extend(volumes.iter().filter(up).filter(|v| !is_said(v)).flat_map(volume_checks));
        checks.extend(copies_missing(volumes));
        checks.extend(restored);
        if groups.is_empty() {
            checks.push(check(
                "no_groups",
                Health::Warning,
                "node",
                "there is no disk group, so no volume can be made".into(),
                "make one: 'basalt drive list' shows the drives, 'basalt group create --help' shows how".into(),
            ));
        }
        for task in self.tasks()? {
            checks.push(check(
                "unfinished_task",
                Health::Warning,
                "node",
                format!("'{}' could not be finished ({} attempts): {}", task.what, task.attempts, task.error),
                "put right what the error says; it is tried again every minute".into(),
            ));
        }
        Ok(checks)
    }

    /// How the directory is, as this node sees it; and what those who look after it say.
    fn directory_checks(&self) -> Vec<api::Check> {
        let (error, slow, full, ended) = {
            let live = self.live();
            (live.directory_error.clone(), live.directory_slow, live.directory_full, live.ended_by.clone())
        };
        let subject = "directory";
        let mut checks = self.directory_health.as_ref().map(|look| look()).unwrap_or_default();
        if let Some(why) = ended {
            let action = "restart this node's daemon (systemctl restart basalt)".into();
            checks.push(check(
                "directory_lost",
                Health::Error,
                &self.subject(),
                format!("it changes nothing any more, I/O goes on: {why}"),
                action,
            ));
        }
        if let Some((since, error)) = error {
            let ago = now_unix_s().saturating_sub(since);
            checks.push(check(
                "directory_unavailable",
                Health::Error,
                subject,
                format!("it has not answered for {ago} s: {error}; I/O goes on, and nothing can be changed"),
                "look at etcd's members: most of them have to be up, and this node has to reach one of them".into(),
            ));
        }
        if let Some(took) = slow {
            checks.push(check(
                "directory_slow",
                Health::Warning,
                subject,
                format!("it takes {} ms to answer", took.as_millis()),
                "look at the disks and the network of etcd's members".into(),
            ));
        }
        if full {
            checks.push(check(
                "directory_full",
                Health::Error,
                subject,
                "its store has reached its quota: nothing can be changed".into(),
                "make room in etcd (docs/etcd.md)".into(),
            ));
        }
        checks
    }
}

/// One alarm for a node, not one for each thing that it has.
fn node_down(node: &NodeRecord, groups: &[api::Group], volumes: &[api::Volume], is_down: impl Fn(&str) -> bool) -> api::Check {
    let is_here = |c: &&api::Component| c.node == node.shown_name() && c.state != LEAVING;
    let groups = groups.iter().filter(|g| g.node == node.shown_name()).count();
    let elsewhere = |v: &&api::Volume| v.components.iter().any(|c| c.state == ACTIVE && !is_down(&c.node));
    let (others, alone): (Vec<_>, Vec<_>) = volumes.iter().filter(|v| v.components.iter().any(|c| is_here(&c))).partition(elsewhere);
    check(
        "node_down",
        Health::Error,
        &format!("node {}", node.shown_name()),
        format!(
            "it does not say that it is up; {groups} disk group(s) lie on it, {} volume(s) that nobody else has, copies of {} that others serve",
            alone.len(),
            others.len()
        ),
        "start it, or look at its network; what nobody else has is served when it is back".into(),
    )
}

/// One alarm for all volumes of which a copy is out.
fn copies_missing(volumes: &[api::Volume]) -> Option<api::Check> {
    let is_short = |v: &&api::Volume| v.state != api::VolumeState::Deleting && v.copies > 1 && v.copies_in_sync < v.copies;
    let short: Vec<&api::Volume> = volumes.iter().filter(is_short).collect();
    let first = short.iter().min_by_key(|v| (v.copies_in_sync, &v.name))?;
    Some(check(
        "copies_missing",
        Health::Warning,
        "volumes",
        format!(
            "{} volume(s) have fewer copies in sync than their policies ask for, {} has {} of {}",
            short.len(),
            first.name,
            first.copies_in_sync,
            first.copies
        ),
        "'basalt volume show' says how each copy is; one that is away is made anew on another node after the policy's time, or with 'basalt volume repair'"
            .into(),
    ))
}

/// What a component that nobody knows says of its volume. Sizes and names are those of when it was written.
fn what_it_was(of: &Result<Descriptor, DiskError>) -> String {
    match of {
        Ok(d) => format!(
            "it was of volume '{}' ({}, {}, policy {}): copy {} of stripe {} of {}",
            d.name,
            d.volume,
            ByteSize(d.bytes),
            d.policy,
            d.copy,
            d.stripe,
            d.stripes
        ),
        Err(why) => format!("what it says of its volume cannot be read ({why})"),
    }
}

fn check(id: &str, health: Health, subject: &str, message: String, action: String) -> api::Check {
    api::Check { id: id.into(), health, subject: subject.into(), message, action }
}

fn group_checks(group: &api::Group) -> Vec<api::Check> {
    let subject = format!("group {}", group.name);
    let mut checks = Vec::new();
    if group.state == api::GroupState::Offline {
        checks.push(check(
            "group_offline",
            Health::Error,
            &subject,
            format!("the disk group is offline: {}", group.reason.as_deref().unwrap_or("unknown reason")),
            "bring its devices back, then restart the daemon (systemctl restart basalt)".into(),
        ));
    }
    if group.volatile {
        checks.push(check(
            "group_volatile",
            Health::Warning,
            &subject,
            "it has devices in memory: everything on it is lost when the daemon stops".into(),
            "use it for tests only".into(),
        ));
    }
    for device in &group.capacity {
        if let Some(reason) = &device.reason {
            let message = format!("{} cannot leave it yet, or not come to it: {reason}", device.path);
            checks.push(check("device_stays", Health::Warning, &subject, message, "it is tried again; see the daemon's log".into()));
        }
    }
    let taken = group.used_bytes + group.reserved_bytes;
    let percent = (taken * 100).checked_div(group.capacity_bytes).unwrap_or(0);
    if percent >= CAPACITY_WARNING_PERCENT {
        let health = if percent >= CAPACITY_ERROR_PERCENT { Health::Error } else { Health::Warning };
        checks.push(check(
            "capacity",
            health,
            &subject,
            format!("{percent} % of its capacity is used or reserved ({} of {})", ByteSize(taken), ByteSize(group.capacity_bytes)),
            "delete volumes, trim file systems (fstrim -a on the hosts), or add a device (basalt group add-device)".into(),
        ));
    }
    if group.buffer_bytes > 0 && group.buffer_used_bytes * 100 / group.buffer_bytes >= BUFFER_WARNING_PERCENT {
        checks.push(check(
            "buffer_full",
            Health::Warning,
            &subject,
            "its write buffer is nearly full: writes run at the speed of the capacity devices".into(),
            "nothing, if it passes; otherwise use a larger cache device or faster capacity devices".into(),
        ));
    }
    checks
}

fn subject_of(volume: &api::Volume) -> String {
    format!("volume {}", volume.name)
}

fn volume_checks(volume: &api::Volume) -> Vec<api::Check> {
    let subject = subject_of(volume);
    let mut checks = Vec::new();
    if volume.state == api::VolumeState::Offline {
        let reason = volume.reason.as_deref().unwrap_or("unknown reason");
        let action = "put right what is said of its disk group, then restart the daemon".into();
        checks.push(check("volume_offline", Health::Error, &subject, format!("it is not served: {reason}"), action));
    }
    if !volume.compliant {
        checks.push(check(
            "volume_non_compliant",
            Health::Warning,
            &subject,
            format!("it is not what policy {} asks: {}", volume.policy, volume.shortfalls.join("; ")),
            "add what is missing, or give it another policy with 'basalt volume set'".into(),
        ));
    }
    checks
}

fn show_drive(drive: drive::Drive, ours: &BTreeMap<std::path::PathBuf, String>) -> api::Drive {
    let group = ours.get(&drive.path);
    let mut used_by: Vec<String> = drive.uses.iter().map(ToString::to_string).collect();
    if let Some(group) = group {
        used_by = vec![format!("disk group {group}")];
    }
    let use_state = match (group, drive.uses.is_empty()) {
        (Some(_), _) => "basalt",
        (None, true) => "free",
        (None, false) => "used",
    };
    let kind = serde_json::to_value(drive.kind).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    api::Drive {
        path: drive.path.display().to_string(),
        stable_path: drive.stable_path.map(|p| p.display().to_string()),
        kind,
        bytes: drive.bytes,
        model: drive.model,
        serial: drive.serial,
        firmware: drive.firmware,
        controller: drive.nvme.as_ref().map(|n| n.controller.clone()),
        nsid: drive.nvme.as_ref().map(|n| n.nsid),
        lba_bytes: drive.lba_bytes,
        use_state: use_state.into(),
        used_by,
    }
}

/// What a drive says of its health, in the API's units.
fn show_health(h: &drive::Health) -> api::Smart {
    use format::nvme::log::{WARNING_READ_ONLY, WARNING_RELIABILITY, WARNING_SPARE, WARNING_TEMPERATURE};
    let warnings = [
        (WARNING_SPARE, "little spare capacity is left"),
        (WARNING_TEMPERATURE, "it is too hot or too cold"),
        (WARNING_RELIABILITY, "it is not reliable any more"),
        (WARNING_READ_ONLY, "it can only be read"),
        (WARNING_BACKUP, "what keeps its memory through a loss of power has failed"),
    ];
    let number = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    let bytes = |units: u128| number(units.saturating_mul(DATA_UNIT_BYTES));
    api::Smart {
        warnings: warnings.iter().filter(|(bit, _)| h.critical_warning & bit != 0).map(|(_, words)| (*words).to_owned()).collect(),
        temperature_celsius: i32::from(h.temperature) - KELVIN_AT_0_CELSIUS,
        spare_percent: h.spare,
        spare_threshold_percent: h.spare_threshold,
        used_percent: h.used,
        read_bytes: bytes(h.units_read),
        written_bytes: bytes(h.units_written),
        media_errors: number(h.media_errors),
        error_log_entries: number(h.error_entries),
        power_on_hours: number(h.power_on_hours),
        power_cycles: number(h.power_cycles),
        unsafe_shutdowns: number(h.unsafe_shutdowns),
        warning_temperature_minutes: h.warning_minutes,
        critical_temperature_minutes: h.critical_minutes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_drive_says_of_its_health_is_shown_in_bytes_degrees_and_words() {
        let mut log = [0; 512];
        log[..6].copy_from_slice(&[0b101, 0x39, 0x01, 9, 10, 104]); // 139h kelvin
        log[48..64].copy_from_slice(&2_000_u128.to_le_bytes());
        log[160..176].copy_from_slice(&7_u128.to_le_bytes());
        let smart = show_health(&drive::Health::parse(&log).expect("a whole log"));
        assert_eq!(smart.warnings, ["little spare capacity is left", "it is not reliable any more"]);
        assert_eq!((smart.temperature_celsius, smart.spare_percent, smart.spare_threshold_percent, smart.used_percent), (40, 9, 10, 104));
        assert_eq!((smart.written_bytes, smart.media_errors), (1_024_000_000, 7));
    }
}

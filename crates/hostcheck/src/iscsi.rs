//! iSCSI: what open-iscsi and dm-multipath show in /sys of sessions with Basalt, and what is to be changed of them.
//!
//! The attributes are those of Linux: `drivers/scsi/scsi_transport_iscsi.c` (sessions, connections), `scsi_sysfs.c` (disks), `drivers/md/dm-sysfs.c`
//! (the UUID of a multipath device).
//!
//! Invariants: an attribute that is not there is `None`; what /sys does not show, such as `no_path_retry`, is not judged.
//! Never: reads a file of settings.

use crate::read::{attribute, entries};
use serde::Serialize;
use std::path::Path as FilePath;

/// T10 vendor identification of a volume, as hosts see it.
pub const VENDOR: &str = "BASALT";
/// A host notices a dead path after so many seconds at most: `noop_out_interval` and `noop_out_timeout` together.
pub const NOTICED_S: u32 = 5;
/// With multipath, what is under way goes to another path after so many seconds at most (`replacement_timeout`).
pub const REPLACEMENT_S: u32 = 5;
/// Without multipath, commands wait at least so long for the node.
pub const REPLACEMENT_ALONE_S: u32 = 60;

/// A disk of a session: a path to a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Its name, such as `sda`.
    pub name: String,
    /// The volume's identity.
    pub wwid: Option<String>,
    /// ALUA state: `active/optimized`, `active/non-optimized`, `transitioning`, `unavailable`.
    pub access_state: Option<String>,
    /// The hardware handler: `alua`, or `detached`.
    pub handler: Option<String>,
    /// The multipath device that it is a path of.
    pub map: Option<String>,
}

/// A session with a target of Basalt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Its name, such as `session3`.
    pub name: String,
    /// The target.
    pub target: String,
    /// Where it leads: address and port.
    pub portal: String,
    /// `LOGGED_IN`, `FAILED`, `FREE`.
    pub state: String,
    /// `replacement_timeout`, seconds.
    pub replacement_timeout_s: Option<u32>,
    /// `noop_out_interval`, seconds; 0: never.
    pub noop_interval_s: Option<u32>,
    /// `noop_out_timeout`, seconds.
    pub noop_timeout_s: Option<u32>,
    /// Its disks.
    pub disks: Vec<Disk>,
}

impl Session {
    fn is_up(&self) -> bool {
        self.state == "LOGGED_IN"
    }
    /// One of its disks is a path of a multipath device.
    fn has_multipath(&self) -> bool {
        self.disks.iter().any(|d| d.map.is_some())
    }
}

/// What is wrong with a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFault {
    /// It is not logged in, but so.
    State(String),
    /// The host does not ask whether the target is there.
    NoNoop,
    /// A dead path is noticed after so many seconds.
    Noop(u32),
    /// With multipath: what is under way waits so many seconds before it goes to another path.
    ReplacementLong(u32),
    /// Without multipath: commands fail when the node is away for so many seconds.
    ReplacementShort(u32),
}

/// What is wrong with a volume, by its disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeFault {
    /// It has several disks and no multipath device.
    NoMultipath,
    /// A disk of a multipath device has no ALUA handler.
    NoHandler,
    /// No path of it works.
    NoPath,
    /// No path of it is optimized.
    NoneOptimized,
}

/// A volume over iSCSI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume<'a> {
    /// Its disks, with their sessions.
    pub disks: Vec<(&'a Session, &'a Disk)>,
}

impl Volume<'_> {
    /// How it is called: by its multipath device, or its disks.
    pub fn name(&self) -> String {
        match self.disks.iter().find_map(|(_, d)| d.map.clone()) {
            Some(map) => map,
            None => self.disks.iter().map(|(_, d)| d.name.as_str()).collect::<Vec<_>>().join(", "),
        }
    }
}

/// The sessions with targets of Basalt.
pub(crate) fn read(root: &FilePath) -> Vec<Session> {
    let class = root.join("sys/class/iscsi_session");
    let all = entries(&class).into_iter().filter_map(|name| session(root, &class.join(&name), name));
    all.filter(|s| !s.disks.is_empty() || s.target.starts_with("iqn.2026-11.io.basalt:")).collect()
}

fn session(root: &FilePath, at: &FilePath, name: String) -> Option<Session> {
    let number = name.strip_prefix("session")?;
    let connections = root.join("sys/class/iscsi_connection");
    let connection = connections.join(format!("connection{number}:0"));
    let of_connection = |attr| attribute(&connection, attr);
    let seconds = |text: Option<String>| text.and_then(|t| t.parse().ok());
    let (address, port) = (of_connection("persistent_address"), of_connection("persistent_port"));
    let portal = match (address, port) {
        (Some(ip), Some(port)) if ip.contains(':') => format!("[{ip}]:{port}"),
        (Some(ip), Some(port)) => format!("{ip}:{port}"),
        _ => String::new(),
    };
    let device = at.join("device");
    let targets = entries(&device).into_iter().filter(|e| e.starts_with("target")).map(|e| device.join(e));
    let units = targets.flat_map(|t| entries(&t).into_iter().map(move |e| t.join(e)));
    Some(Session {
        target: attribute(at, "targetname").unwrap_or_default(),
        portal,
        state: attribute(at, "state").unwrap_or_default(),
        replacement_timeout_s: seconds(attribute(at, "recovery_tmo")),
        noop_interval_s: seconds(of_connection("recv_tmo")),
        noop_timeout_s: seconds(of_connection("ping_tmo")),
        disks: units.filter_map(|unit| disk(root, &unit)).collect(),
        name,
    })
}

/// A disk of Basalt; `None`: it is something else.
fn disk(root: &FilePath, unit: &FilePath) -> Option<Disk> {
    if attribute(unit, "vendor").as_deref() != Some(VENDOR) {
        return None;
    }
    let name = entries(&unit.join("block")).into_iter().next()?;
    let holders = entries(&unit.join("block").join(&name).join("holders"));
    let is_multipath =
        |dm: &String| attribute(&root.join("sys/class/block").join(dm).join("dm"), "uuid").is_some_and(|uuid| uuid.starts_with("mpath-"));
    Some(Disk {
        name,
        wwid: attribute(unit, "wwid"),
        access_state: attribute(unit, "access_state"),
        handler: attribute(unit, "dh_state"),
        map: holders.into_iter().find(is_multipath),
    })
}

/// The volumes of these sessions, by identity; a disk without one is a volume of its own.
pub(crate) fn volumes(sessions: &[Session]) -> Vec<Volume<'_>> {
    let mut all: Vec<Volume<'_>> = Vec::new();
    for s in sessions {
        for d in &s.disks {
            let same = |v: &&mut Volume<'_>| d.wwid.is_some() && v.disks[0].1.wwid == d.wwid;
            match all.iter_mut().find(same) {
                Some(volume) => volume.disks.push((s, d)),
                None => all.push(Volume { disks: vec![(s, d)] }),
            }
        }
    }
    all
}

/// What is wrong with a session.
pub(crate) fn session_faults(s: &Session) -> Vec<SessionFault> {
    let mut all = Vec::new();
    if !s.is_up() {
        all.push(SessionFault::State(s.state.clone()));
    }
    match (s.noop_interval_s, s.noop_timeout_s) {
        (Some(0), _) => all.push(SessionFault::NoNoop),
        (Some(interval), Some(timeout)) if interval + timeout > NOTICED_S => all.push(SessionFault::Noop(interval + timeout)),
        _ => {}
    }
    match s.replacement_timeout_s {
        Some(t) if s.has_multipath() && t > REPLACEMENT_S => all.push(SessionFault::ReplacementLong(t)),
        // Disks that wait to become paths are left alone.
        Some(t) if !s.has_multipath() && !s.disks.is_empty() && t < REPLACEMENT_ALONE_S => all.push(SessionFault::ReplacementShort(t)),
        _ => {}
    }
    all
}

/// What is wrong with a volume.
pub(crate) fn volume_faults(v: &Volume<'_>) -> Vec<VolumeFault> {
    let mut all = Vec::new();
    let mapped = v.disks.iter().any(|(_, d)| d.map.is_some());
    if v.disks.len() > 1 && !mapped {
        all.push(VolumeFault::NoMultipath);
    }
    if mapped && v.disks.iter().any(|(_, d)| d.map.is_some() && d.handler.as_deref().is_some_and(|h| h != "alua")) {
        all.push(VolumeFault::NoHandler);
    }
    // A kernel that does not say takes every path for an optimized one.
    let state = |s: &Session, d: &Disk| if s.is_up() { d.access_state.clone().unwrap_or("active/optimized".into()) } else { "away".into() };
    let states: Vec<String> = v.disks.iter().map(|(s, d)| state(s, d)).collect();
    let any = |wanted: &str| states.iter().any(|s| s == wanted);
    match (any("active/optimized"), any("active/non-optimized")) {
        (true, _) => {}
        (false, true) => all.push(VolumeFault::NoneOptimized),
        (false, false) => all.push(VolumeFault::NoPath),
    }
    all
}

impl SessionFault {
    pub(crate) fn what(&self) -> String {
        match self {
            SessionFault::State(state) if state.is_empty() => "the state of the session is not known".to_owned(),
            SessionFault::State(state) => format!("the session is {state}"),
            SessionFault::NoNoop => "noop_out_interval is 0: a dead path is not noticed while nothing is sent".to_owned(),
            SessionFault::Noop(s) => {
                format!("noop_out_interval and noop_out_timeout are {s} s together: a dead path is noticed after that")
            }
            SessionFault::ReplacementLong(s) => {
                format!("replacement_timeout is {s} s: what is under way on a dead path waits for that before it goes to another")
            }
            SessionFault::ReplacementShort(s) => {
                format!("replacement_timeout is {s} s, and there is no multipath: commands fail when the node is away for that long")
            }
        }
    }
    pub(crate) fn advice(&self, s: &Session) -> String {
        let set = |name: &str, value: u32| format!("iscsiadm -m node -T {} -p {} -o update -n {name} -v {value}", s.target, s.portal);
        match self {
            SessionFault::State(_) => "look at the node behind the portal, and at the network to it; 'dmesg' says why".to_owned(),
            SessionFault::NoNoop | SessionFault::Noop(_) => format!(
                "{}, the same with noop_out_timeout and 3, then log out and in; put packaging/host/iscsid.conf into /etc/iscsi/iscsid.conf",
                set("node.conn[0].timeo.noop_out_interval", 2)
            ),
            SessionFault::ReplacementLong(_) => {
                "put 'fast_io_fail_tmo 1' into the device section of /etc/multipath.conf, as packaging/host/multipath.conf has it"
                    .to_owned()
            }
            SessionFault::ReplacementShort(_) => format!(
                "install dm-multipath with packaging/host/multipath.conf, or {}",
                set("node.session.timeo.replacement_timeout", 2 * REPLACEMENT_ALONE_S)
            ),
        }
    }
}

impl VolumeFault {
    pub(crate) fn what(&self) -> &'static str {
        match self {
            VolumeFault::NoMultipath => {
                "the volume has a disk for each path and no multipath device: an I/O error when the path in use dies"
            }
            VolumeFault::NoHandler => "a path has no ALUA handler: commands go to nodes that have to pass them on, or cannot",
            VolumeFault::NoPath => "no path serves it: commands wait, or fail",
            VolumeFault::NoneOptimized => "no path to it is optimized: each command takes one hop more",
        }
    }
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            VolumeFault::NoMultipath => "install multipath-tools with packaging/host/multipath.conf, and use the device that it makes",
            VolumeFault::NoHandler => "put 'hardware_handler \"1 alua\"' into the device section of /etc/multipath.conf, then multipath -r",
            VolumeFault::NoPath => "look at 'basalt status' on a node: the node that owns the volume is away, or cannot be reached",
            VolumeFault::NoneOptimized => "log in to the node that owns the volume, or wait until its path is back",
        }
    }
}

#[cfg(test)]
#[path = "iscsi_tests.rs"]
mod tests;

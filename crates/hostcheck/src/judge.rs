//! What is to be changed of a host: findings, and what to do for each.
//!
//! Owns: the settings that Basalt wants.
//! Invariant: the same host gives the same findings, in an order by what they are about.
//! Never: reads anything.

use crate::iscsi::{Session, SessionFault, Volume, VolumeFault, session_faults, volume_faults, volumes};
use crate::kernel::{KEEP_ALIVE_TWICE, KERNEL_ISSUES, KernelIssue, KernelVersion, QUEUE_DEPTH_SINCE};
use crate::read::{Controller, Host, Multipath, Subsystem, Timeout};
use serde::Serialize;
use std::collections::BTreeMap;

/// Keep Alive Timeout: a host notices a dead path after one and a half times that at most. Seconds.
pub const KEEP_ALIVE_TMO_S: u32 = 2;
/// A host never gives up a node that is away.
pub const CTRL_LOSS_TMO: Timeout = Timeout::Off;
/// How long a host waits before it tries to connect again, seconds.
pub const RECONNECT_DELAY_S: u32 = 2;
/// I/O policies that use all the best paths.
pub const IO_POLICIES: [&str; 2] = ["round-robin", "queue-depth"];

/// What a finding asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Something is to be changed, or looked at.
    Change,
    /// Good to know.
    Note,
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// The connection is not live, but so.
    State(String),
    /// It has been without keep-alive.
    NoKeepAlive {
        /// The longest that it should have, in seconds.
        most: u32,
    },
    /// Its Keep Alive Timeout is too long.
    KeepAlive {
        /// It is this, in seconds.
        seconds: u32,
        /// The longest that it should be.
        most: u32,
        /// The kernel leaves a path only when a second keep-alive is late.
        twice: bool,
    },
    /// It is given up after so many seconds without a connection.
    CtrlLoss(u32),
    /// It is tried again only after that.
    ReconnectDelay(Timeout),
    /// Commands fail after so many seconds without a connection.
    FastIoFail(u32),
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding<'a> {
    /// Nothing of Basalt is connected.
    NothingConnected,
    /// The kernel's own multipathing is off.
    MultipathOff,
    /// The kernel has none.
    MultipathMissing,
    /// The kernel does something badly.
    Kernel(KernelIssue),
    /// No connection to discovery stays, so that nodes that join are not noticed.
    NoDiscovery,
    /// A subsystem uses one path of several.
    IoPolicy(&'a Subsystem, &'a str),
    /// A subsystem has one path.
    OnePath(&'a Subsystem),
    /// No path of a namespace works.
    NoPath(&'a Subsystem, String),
    /// No path of a namespace is optimized.
    NoneOptimized(&'a Subsystem, String),
    /// Something about one connection.
    Path(&'a Controller, PathFault),
    /// Something about one iSCSI session.
    Session(&'a Session, SessionFault),
    /// Something about a volume over iSCSI.
    Volume(Volume<'a>, VolumeFault),
}

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What it asks for.
    pub level: Level,
    /// What it is about: a subsystem, a connection, a namespace, the kernel.
    pub about: String,
    /// What is the case.
    pub what: String,
    /// What to do.
    pub advice: String,
}

/// What is to be said of a host.
pub fn judge(host: &Host) -> Vec<Finding<'_>> {
    let mut all = Vec::new();
    match host.multipath {
        Multipath::On | Multipath::NotLoaded => {}
        Multipath::Off => all.push(Finding::MultipathOff),
        Multipath::Missing => all.push(Finding::MultipathMissing),
    }
    let issues = KERNEL_ISSUES.iter().filter(|issue| host.kernel_version.is_some_and(|version| version < issue.fixed));
    all.extend(issues.map(|issue| Finding::Kernel(*issue)));
    match (host.subsystems.is_empty(), host.sessions.is_empty()) {
        (true, true) => all.push(Finding::NothingConnected),
        (false, _) if host.discovery.is_empty() => all.push(Finding::NoDiscovery),
        _ => {}
    }
    host.subsystems.iter().for_each(|s| of_subsystem(s, host.kernel_version, &mut all));
    host.sessions.iter().for_each(|s| all.extend(session_faults(s).into_iter().map(|fault| Finding::Session(s, fault))));
    for v in volumes(&host.sessions) {
        all.extend(volume_faults(&v).into_iter().map(|fault| Finding::Volume(v.clone(), fault)));
    }
    all
}

fn of_subsystem<'a>(s: &'a Subsystem, kernel: Option<KernelVersion>, all: &mut Vec<Finding<'a>>) {
    if let Some(policy) = s.iopolicy.as_deref().filter(|p| !IO_POLICIES.contains(p)) {
        all.push(Finding::IoPolicy(s, policy));
    }
    if s.controllers.len() < 2 {
        all.push(Finding::OnePath(s));
    }
    let mut states: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for c in &s.controllers {
        for path in &c.paths {
            // A kernel that does not say takes every path for an optimized one.
            let state = path.ana_state.as_deref().unwrap_or("optimized");
            states.entry(&path.namespace).or_default().push(if c.state == "live" { state } else { "away" });
        }
    }
    for (namespace, states) in states {
        match (states.contains(&"optimized"), states.contains(&"non-optimized")) {
            (true, _) => {}
            (false, true) => all.push(Finding::NoneOptimized(s, namespace.to_owned())),
            (false, false) => all.push(Finding::NoPath(s, namespace.to_owned())),
        }
    }
    for c in &s.controllers {
        all.extend(faults(c, kernel).into_iter().map(|fault| Finding::Path(c, fault)));
    }
}

/// The longest keep-alive timeout with which this kernel leaves a dead path in time, in seconds; and whether it waits for it twice.
fn keep_alive(kernel: Option<KernelVersion>) -> (u32, bool) {
    if kernel == Some(KEEP_ALIVE_TWICE) { (KEEP_ALIVE_TMO_S / 2, true) } else { (KEEP_ALIVE_TMO_S, false) }
}

fn faults(c: &Controller, kernel: Option<KernelVersion>) -> Vec<PathFault> {
    let (most, twice) = keep_alive(kernel);
    let mut all = Vec::new();
    if c.state != "live" {
        all.push(PathFault::State(c.state.clone()));
    }
    match c.keep_alive_tmo_s {
        Some(0) => all.push(PathFault::NoKeepAlive { most }),
        Some(seconds) if seconds > most => all.push(PathFault::KeepAlive { seconds, most, twice }),
        _ => {}
    }
    if let Some(Timeout::Seconds(s)) = c.ctrl_loss_tmo {
        all.push(PathFault::CtrlLoss(s));
    }
    match c.reconnect_delay {
        Some(Timeout::Seconds(s)) if s <= RECONNECT_DELAY_S => {}
        Some(delay) => all.push(PathFault::ReconnectDelay(delay)),
        None => {}
    }
    if let Some(Timeout::Seconds(s)) = c.fast_io_fail_tmo {
        all.push(PathFault::FastIoFail(s));
    }
    all
}

impl Finding<'_> {
    /// What it asks for.
    pub fn level(&self) -> Level {
        match self {
            Finding::NothingConnected
            | Finding::NoDiscovery
            | Finding::OnePath(_)
            | Finding::NoneOptimized(..)
            | Finding::Volume(_, VolumeFault::NoneOptimized)
            | Finding::Kernel(_) => Level::Note,
            Finding::MultipathOff
            | Finding::MultipathMissing
            | Finding::IoPolicy(..)
            | Finding::NoPath(..)
            | Finding::Path(..)
            | Finding::Session(..)
            | Finding::Volume(..) => Level::Change,
        }
    }

    /// In words, for a host.
    pub fn words(&self, host: &Host) -> Advice {
        let (about, what, advice) = match self {
            Finding::NothingConnected => (
                "connections".to_owned(),
                "no subsystem and no target of Basalt is connected".to_owned(),
                "connect: nvme connect-all -t tcp -a ADDRESS -s 8009 --keep-alive-tmo=2 --ctrl-loss-tmo=-1 --reconnect-delay=2".to_owned(),
            ),
            Finding::MultipathOff => (
                "nvme_core".to_owned(),
                "native multipathing is off: a volume has a device for each path, and an I/O error when its path dies".to_owned(),
                "put 'options nvme_core multipath=Y' below /etc/modprobe.d, make the initramfs anew, restart the machine".to_owned(),
            ),
            Finding::MultipathMissing => (
                "nvme_core".to_owned(),
                "this kernel has no native multipathing (CONFIG_NVME_MULTIPATH)".to_owned(),
                "use a kernel that has; those of the distributions do".to_owned(),
            ),
            Finding::Kernel(issue) => (
                format!("kernel {}", host.kernel),
                issue.what.to_owned(),
                format!("use Linux {}.{} or later, unless your distribution has taken the change over", issue.fixed.0, issue.fixed.1),
            ),
            Finding::NoDiscovery => (
                "discovery".to_owned(),
                "no connection to discovery stays: nodes that join or get other addresses are not noticed".to_owned(),
                "use --persistent in /etc/nvme/discovery.conf, or nvme-stas".to_owned(),
            ),
            Finding::IoPolicy(s, policy) => (
                s.name.clone(),
                format!("the I/O policy {policy} uses one path only"),
                format!("echo {} > /sys/class/nvme-subsystem/{}/iopolicy, and install the udev rule", wanted_policy(host), s.name),
            ),
            Finding::OnePath(s) => (
                s.name.clone(),
                format!("{} has one path", s.nqn),
                "where the cluster has several nodes, connect to all of them: nvme connect-all".to_owned(),
            ),
            Finding::NoPath(s, namespace) => (
                namespace.clone(),
                format!("no path of {} serves it: commands wait", s.nqn),
                "look at 'basalt status' on a node: the node that owns the volume is away, or cannot be reached".to_owned(),
            ),
            Finding::NoneOptimized(s, namespace) => (
                namespace.clone(),
                format!("no path of {} to it is optimized: each command takes one hop more", s.nqn),
                "connect to the node that owns the volume, or wait until its path is back".to_owned(),
            ),
            Finding::Path(c, fault) => (format!("{} ({})", c.name, c.address), fault.what(), fault.advice(&c.name)),
            Finding::Session(s, fault) => (format!("{} ({})", s.name, s.portal), fault.what(), fault.advice(s)),
            Finding::Volume(v, fault) => (v.name(), fault.what().to_owned(), fault.advice().to_owned()),
        };
        Advice { level: self.level(), about, what, advice }
    }
}

/// The best I/O policy that the kernel has.
fn wanted_policy(host: &Host) -> &'static str {
    if host.kernel_version.is_some_and(|version| version >= QUEUE_DEPTH_SINCE) { "queue-depth" } else { "round-robin" }
}

impl PathFault {
    fn what(&self) -> String {
        match self {
            PathFault::State(state) if state.is_empty() => "the state of the connection is not known".to_owned(),
            PathFault::State(state) => format!("the connection is {state}"),
            PathFault::NoKeepAlive { .. } => "it has no keep-alive: a dead path is never noticed while nothing is sent".to_owned(),
            PathFault::KeepAlive { seconds: s, twice: false, .. } => {
                format!("keep_alive_tmo is {s} s: a dead path is noticed after up to {} s", s + s / 2)
            }
            PathFault::KeepAlive { seconds: s, twice: true, .. } => {
                format!("keep_alive_tmo is {s} s, and this kernel waits for it twice: a dead path is left after up to {} s", 3 * s + 1)
            }
            PathFault::CtrlLoss(s) => format!("ctrl_loss_tmo is {s} s: a node that is away for longer does not come back by itself"),
            PathFault::ReconnectDelay(delay) => format!("reconnect_delay is {delay}: a node that is back is used late"),
            PathFault::FastIoFail(s) => format!("fast_io_fail_tmo is {s} s: commands fail when all paths are away for that long"),
        }
    }
    fn advice(&self, controller: &str) -> String {
        let at = format!("/sys/class/nvme/{controller}");
        match self {
            PathFault::State(_) => "look at the node behind the address, and at the network to it; 'dmesg' says why".to_owned(),
            PathFault::NoKeepAlive { most } | PathFault::KeepAlive { most, .. } => {
                format!("nvme disconnect -d {controller}, then connect again with --keep-alive-tmo={most} (it cannot be changed later)")
            }
            PathFault::CtrlLoss(_) => format!("echo -1 > {at}/ctrl_loss_tmo, and connect with --ctrl-loss-tmo=-1 or install the udev rule"),
            PathFault::ReconnectDelay(_) => format!(
                "echo {RECONNECT_DELAY_S} > {at}/reconnect_delay, and connect with --reconnect-delay={RECONNECT_DELAY_S} or install the udev rule"
            ),
            PathFault::FastIoFail(_) => format!("echo -1 > {at}/fast_io_fail_tmo, and connect without --fast_io_fail_tmo"),
        }
    }
}

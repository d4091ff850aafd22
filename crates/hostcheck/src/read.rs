//! Reading /sys and /proc, or a tree like them.
//!
//! The attributes are those of Linux: `drivers/nvme/host/sysfs.c` (controllers), `multipath.c` (`ana_state`, `iopolicy`), `fabrics.c` (options).
//!
//! Invariants: an attribute that is not there is `None`; what is read is bounded.
//! Never: judges.

use crate::iscsi;
use crate::kernel::KernelVersion;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};

/// The model of a subsystem of Basalt, as hosts see it.
pub const MODEL: &str = "Basalt";
/// The model of its discovery service.
const MODEL_DISCOVERY: &str = "Basalt discovery";
/// The most bytes of an attribute that are read; the kernel gives a page.
const ATTRIBUTE_BYTES_MAX: u64 = 4096;
/// The most entries of a folder that are looked at.
const ENTRIES_MAX: usize = 16_384;

/// Why nothing can be said.
#[derive(Debug)]
pub struct ReadError {
    /// What cannot be read.
    pub path: PathBuf,
    /// Why.
    pub cause: std::io::Error,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cannot be read: {}; this command is for the Linux machine that connects", self.path.display(), self.cause)
    }
}

impl std::error::Error for ReadError {}

/// A time-out of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// It never comes.
    Off,
    /// After so many seconds.
    Seconds(u32),
}

impl Timeout {
    fn parse(text: &str) -> Option<Timeout> {
        match text {
            "off" => Some(Timeout::Off),
            seconds => seconds.parse().ok().map(Timeout::Seconds),
        }
    }
}

impl std::fmt::Display for Timeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Timeout::Off => f.write_str("off"),
            Timeout::Seconds(s) => write!(f, "{s} s"),
        }
    }
}

/// The kernel's own multipathing (`nvme_core.multipath`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Multipath {
    /// On.
    On,
    /// Off.
    Off,
    /// The kernel was built without.
    Missing,
    /// The module is not loaded, so nothing is known.
    NotLoaded,
}

/// A namespace through one controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// The block device that is made of all its paths.
    pub namespace: String,
    /// ANA state: `optimized`, `non-optimized`, `inaccessible`, `persistent-loss`, `change`.
    pub ana_state: Option<String>,
    /// ANA group.
    pub ana_group: Option<u32>,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Controller {
    /// Its name, such as `nvme3`.
    pub name: String,
    /// Where it leads: address and port.
    pub address: String,
    /// `live`, `connecting`, ...
    pub state: String,
    /// Its controller ID.
    pub cntlid: Option<u32>,
    /// Keep Alive Timeout, seconds.
    pub keep_alive_tmo_s: Option<u32>,
    /// How long it tries to connect again.
    pub ctrl_loss_tmo: Option<Timeout>,
    /// How long it waits between tries.
    pub reconnect_delay: Option<Timeout>,
    /// After which time without a connection commands fail.
    pub fast_io_fail_tmo: Option<Timeout>,
    /// Its namespaces.
    pub paths: Vec<Path>,
}

/// A subsystem of Basalt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subsystem {
    /// Its name, such as `nvme-subsys0`.
    pub name: String,
    /// Its NQN.
    pub nqn: String,
    /// How commands are spread over paths.
    pub iopolicy: Option<String>,
    /// Its connections over TCP.
    pub controllers: Vec<Controller>,
}

/// What the host says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Host {
    /// The release of its kernel.
    pub kernel: String,
    /// The same, as a version.
    pub kernel_version: Option<KernelVersion>,
    /// The kernel's own multipathing.
    pub multipath: Multipath,
    /// Connections to discovery that stay.
    pub discovery: Vec<String>,
    /// Subsystems of Basalt to which it is connected.
    pub subsystems: Vec<Subsystem>,
    /// iSCSI sessions with targets of Basalt.
    pub sessions: Vec<iscsi::Session>,
}

impl Host {
    /// Reads what is below `root`, usually `/`.
    pub fn read(root: &FilePath) -> Result<Host, ReadError> {
        let at = root.join("proc/sys/kernel/osrelease");
        let kernel = std::fs::read_to_string(&at).map_err(|cause| ReadError { path: at, cause })?.trim().to_owned();
        let class = root.join("sys/class/nvme");
        let all: Vec<(String, PathBuf)> = entries(&class).into_iter().map(|name| (name.clone(), class.join(name))).collect();
        let model = |at: &FilePath| attribute(at, "model").unwrap_or_default();
        let tcp = |at: &FilePath| attribute(at, "transport").as_deref() == Some("tcp");
        let discovery = all.iter().filter(|(_, at)| tcp(at) && model(at) == MODEL_DISCOVERY).map(|(_, at)| address(at)).collect();
        let mut by_nqn: BTreeMap<String, Vec<Controller>> = BTreeMap::new();
        for (name, at) in all.iter().filter(|(_, at)| tcp(at) && model(at) == MODEL) {
            by_nqn.entry(attribute(at, "subsysnqn").unwrap_or_default()).or_default().push(controller(name, at));
        }
        let subsystems = by_nqn.into_iter().map(|(nqn, controllers)| subsystem(root, nqn, controllers)).collect();
        let kernel_version = KernelVersion::parse(&kernel);
        Ok(Host { kernel, kernel_version, multipath: multipath(root), discovery, subsystems, sessions: iscsi::read(root) })
    }

    /// Where the paths of a block device lead, address and port each; `device` is its name below /sys/class/block. None: it is no volume of Basalt.
    pub fn portals(&self, device: &str) -> Vec<&str> {
        let controllers = self.subsystems.iter().flat_map(|s| &s.controllers);
        let nvme = controllers.filter(|c| c.paths.iter().any(|p| p.namespace == device)).map(|c| c.address.as_str());
        let is_path = |d: &iscsi::Disk| d.name == device || d.map.as_deref() == Some(device);
        nvme.chain(self.sessions.iter().filter(|s| s.disks.iter().any(is_path)).map(|s| s.portal.as_str())).collect()
    }
}

fn multipath(root: &FilePath) -> Multipath {
    let module = root.join("sys/module/nvme_core");
    match attribute(&module.join("parameters"), "multipath").as_deref() {
        Some("Y" | "1") => Multipath::On,
        Some(_) => Multipath::Off,
        None if module.exists() => Multipath::Missing,
        None => Multipath::NotLoaded,
    }
}

fn subsystem(root: &FilePath, nqn: String, controllers: Vec<Controller>) -> Subsystem {
    let class = root.join("sys/class/nvme-subsystem");
    let name = entries(&class).into_iter().find(|name| attribute(&class.join(name), "subsysnqn").as_ref() == Some(&nqn));
    let iopolicy = name.as_ref().and_then(|name| attribute(&class.join(name), "iopolicy"));
    Subsystem { name: name.unwrap_or_default(), nqn, iopolicy, controllers }
}

fn controller(name: &str, at: &FilePath) -> Controller {
    let timeout = |attr| attribute(at, attr).and_then(|text| Timeout::parse(&text));
    let number = |attr| attribute(at, attr).and_then(|text| text.parse().ok());
    let paths = entries(at).into_iter().filter_map(|entry| {
        let namespace = namespace_of(&entry)?;
        let path = at.join(&entry);
        let ana_group = attribute(&path, "ana_grpid").and_then(|text| text.parse().ok());
        Some(Path { namespace, ana_state: attribute(&path, "ana_state"), ana_group })
    });
    Controller {
        name: name.to_owned(),
        address: address(at),
        state: attribute(at, "state").unwrap_or_default(),
        cntlid: number("cntlid"),
        keep_alive_tmo_s: number("kato"),
        ctrl_loss_tmo: timeout("ctrl_loss_tmo"),
        reconnect_delay: timeout("reconnect_delay"),
        fast_io_fail_tmo: timeout("fast_io_fail_tmo"),
        paths: paths.collect(),
    }
}

/// `nvme0c3n1`, a path, is of the namespace `nvme0n1`; without multipathing `nvme3n1` is of itself. `None`: it is something else.
fn namespace_of(entry: &str) -> Option<String> {
    let (instance, rest) = digits(entry.strip_prefix("nvme")?)?;
    let rest = match rest.strip_prefix('c') {
        Some(rest) => digits(rest)?.1,
        None => rest,
    };
    let (namespace, rest) = digits(rest.strip_prefix('n')?)?;
    rest.is_empty().then(|| format!("nvme{instance}n{namespace}"))
}

fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// `traddr=192.0.2.1,trsvcid=4420,src_addr=192.0.2.9` as `192.0.2.1:4420`.
fn address(at: &FilePath) -> String {
    let text = attribute(at, "address").unwrap_or_default();
    let part = |key: &str| text.split(',').find_map(|p| p.trim().strip_prefix(key)?.strip_prefix('='));
    match (part("traddr"), part("trsvcid")) {
        (Some(ip), Some(port)) if ip.contains(':') => format!("[{ip}]:{port}"),
        (Some(ip), Some(port)) => format!("{ip}:{port}"),
        _ => text,
    }
}

/// An attribute without the spaces around it; `None`: it is not there, or empty.
pub(crate) fn attribute(at: &FilePath, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(at.join(name)).ok()?.take(ATTRIBUTE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The names in a folder, in order; none when it is not there.
pub(crate) fn entries(at: &FilePath) -> Vec<String> {
    let list = std::fs::read_dir(at).into_iter().flatten().take(ENTRIES_MAX);
    let mut names: Vec<String> = list.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

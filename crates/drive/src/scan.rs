//! Discovery: block devices from /sys, NVMe controllers and namespaces with what they say of themselves.
//!
//! Invariant: everything is read below one root, so that tests can bring their own.

use crate::{
    DriveError, Health, HealthError,
    signature::{SIGNATURE_PROBE_BYTES, signature},
    smart,
    uses::{Busy, Use},
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const SECTOR_BYTES: u64 = 512;
/// Block devices that are no drives: by the beginning of their names.
const NOT_DRIVES: [&str; 9] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "zd"];

/// What a drive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveKind {
    /// An NVMe namespace.
    Nvme,
    /// Another drive that does not rotate.
    Ssd,
    /// A drive that rotates.
    Hdd,
    /// A drive that a hypervisor makes.
    Virtual,
}

/// What only NVMe namespaces have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmeNamespace {
    /// The controller, such as `nvme0`.
    pub controller: String,
    /// The namespace id.
    pub nsid: u32,
    /// Its UUID or NGUID or EUI-64, as the kernel names it.
    pub wwid: Option<String>,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: Option<String>,
}

/// One block device that could be a device of a disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// The kernel's name, such as `nvme0n1`.
    pub name: String,
    /// The device node.
    pub path: PathBuf,
    /// A name below /dev/disk/by-id that stays the same over restarts.
    pub stable_path: Option<PathBuf>,
    /// What it is.
    pub kind: DriveKind,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// Its model.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its firmware.
    pub firmware: Option<String>,
    /// NVMe only.
    pub nvme: Option<NvmeNamespace>,
    /// Who uses it. Empty: free.
    pub uses: Vec<Use>,
}

/// Looks for drives below a root.
#[derive(Clone, Debug)]
pub struct Scanner {
    root: PathBuf,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new("/")
    }
}

impl Scanner {
    /// A scanner that takes `root` for `/`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// All drives, by name.
    pub fn drives(&self) -> Result<Vec<Drive>, DriveError> {
        let sys = self.root.join("sys/block");
        let entries = fs::read_dir(&sys).map_err(|cause| DriveError::Sysfs { path: sys.display().to_string(), cause })?;
        let busy = Busy::read(&self.root);
        let mut drives: Vec<Drive> = entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .filter(|name| !NOT_DRIVES.iter().any(|p| name.starts_with(p)) && !is_path_of_multipath(name))
            .filter_map(|name| self.drive(&name, &busy))
            .collect();
        drives.sort_by_key(|d| natural(&d.name));
        Ok(drives)
    }

    /// The drive with this device node (or a link to it), looked at now.
    pub fn find(&self, path: &Path) -> Result<Option<Drive>, DriveError> {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        Ok(self.drives()?.into_iter().find(|d| d.path == real || d.path == path))
    }

    /// What a drive says of its health.
    pub fn health(&self, drive: &Drive) -> Result<Health, HealthError> {
        if drive.nvme.is_none() {
            return Err(HealthError::NotNvme);
        }
        smart::health(&self.root.join("dev").join(&drive.name))
    }

    fn drive(&self, name: &str, busy: &Busy) -> Option<Drive> {
        let dir = self.root.join("sys/block").join(name);
        let bytes = read(&dir, "size")?.parse::<u64>().ok()? * SECTOR_BYTES;
        if bytes == 0 {
            return None; // an empty card reader
        }
        let device = dir.join("device");
        let nvme = namespace(name, &dir);
        let rotational = read(&dir, "queue/rotational").as_deref() == Some("1");
        let kind = match () {
            _ if nvme.is_some() => DriveKind::Nvme,
            _ if name.starts_with("vd") || name.starts_with("xvd") => DriveKind::Virtual,
            _ if rotational => DriveKind::Hdd,
            _ => DriveKind::Ssd,
        };
        let model = match (read(&device, "vendor").filter(|v| !v.starts_with("0x") && nvme.is_none() && v != "ATA"), read(&device, "model"))
        {
            (Some(vendor), Some(model)) => Some(format!("{vendor} {model}")),
            (_, model) => model,
        };
        let mut uses = busy.of(name);
        uses.extend(partitions(&dir, name, busy));
        uses.extend(holders(&dir));
        if !uses.iter().any(Use::is_live) {
            uses.extend(self.look_inside(name));
        }
        Some(Drive {
            path: PathBuf::from("/dev").join(name),
            stable_path: self.stable_path(name),
            kind,
            bytes,
            lba_bytes: read(&dir, "queue/logical_block_size").and_then(|s| s.parse().ok()).unwrap_or(512),
            model,
            serial: read(&device, "serial").or_else(|| read(&dir, "serial")),
            firmware: read(&device, "firmware_rev").or_else(|| read(&device, "rev")),
            nvme,
            uses,
            name: name.to_owned(),
        })
    }

    /// Opens the device for reading, exclusively, so that a user which the kernel does not show is found too.
    fn look_inside(&self, name: &str) -> Vec<Use> {
        let node = self.root.join("dev").join(name);
        let unreadable = |why: &std::io::Error| vec![Use::Unreadable { why: plain(why) }];
        let mut file = match fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK).open(&node) {
            Ok(file) => file,
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return vec![Use::Exclusive],
            Err(e) => return unreadable(&e),
        };
        let mut head = vec![0; SIGNATURE_PROBE_BYTES];
        let mut len = 0;
        while len < head.len() {
            match file.read(&mut head[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) => return unreadable(&e),
            }
        }
        // The end of the device is not looked at here, so how large it is does not matter.
        signature(&head[..len], u64::MAX).map(|what| Use::Signature { what: what.to_owned() }).into_iter().collect()
    }

    fn stable_path(&self, name: &str) -> Option<PathBuf> {
        let dir = self.root.join("dev/disk/by-id");
        let mut names: Vec<String> = fs::read_dir(dir)
            .ok()?
            .filter_map(Result::ok)
            .filter(|e| fs::read_link(e.path()).is_ok_and(|target| target.file_name().is_some_and(|t| t == name)))
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        // names with the model and serial read better than bare numbers
        names.sort_by_key(|n| (n.starts_with("wwn-") || n.starts_with("nvme-eui.") || n.starts_with("nvme-nvme."), n.len(), n.clone()));
        names.into_iter().next().map(|n| Path::new("/dev/disk/by-id").join(n))
    }
}

fn namespace(name: &str, dir: &Path) -> Option<NvmeNamespace> {
    let rest = name.strip_prefix("nvme")?;
    let (controller, _) = rest.split_once('n')?;
    let nsid = read(dir, "nsid").and_then(|s| s.parse().ok())?;
    Some(NvmeNamespace {
        controller: format!("nvme{controller}"),
        nsid,
        wwid: read(dir, "wwid"),
        transport: read(&dir.join("device"), "transport"),
    })
}

fn partitions(dir: &Path, name: &str, busy: &Busy) -> Vec<Use> {
    let parts: Vec<PathBuf> = fs::read_dir(dir)
        .map(|entries| {
            entries
                .filter_map(Result::ok)
                .filter(|e| e.file_name().to_string_lossy().starts_with(name) && e.path().join("partition").exists())
                .map(|e| e.path())
                .collect()
        })
        .unwrap_or_default();
    let mut uses = Vec::new();
    if !parts.is_empty() {
        uses.push(Use::Partitions { count: parts.len() });
    }
    let mut parts = parts;
    parts.sort();
    for part in &parts {
        uses.extend(part.file_name().map(|n| busy.of(&n.to_string_lossy())).unwrap_or_default());
        uses.extend(holders(part));
    }
    uses
}

fn holders(dir: &Path) -> Vec<Use> {
    let mut names: Vec<String> = fs::read_dir(dir.join("holders"))
        .map(|entries| entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.sort();
    names
        .into_iter()
        .map(|holder| {
            let nice = read(&dir.join("holders").join(&holder), "dm/name");
            Use::Holder { name: nice.map_or(holder.clone(), |nice| format!("{nice} ({holder})")) }
        })
        .collect()
}

/// With native NVMe multipath, `nvme0c1n1` is one path of `nvme0n1`; only the latter is a drive.
fn is_path_of_multipath(name: &str) -> bool {
    name.strip_prefix("nvme").and_then(|r| r.split_once('c')).is_some_and(|(digits, _)| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn read(dir: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join(name)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "permission denied (run as root to look inside)".into(),
        std::io::ErrorKind::NotFound => "its device node is missing".into(),
        _ => error.to_string(),
    }
}

/// Splits digits from the rest, so that nvme2n1 comes before nvme10n1.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(word);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        parts.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = tail;
    }
    parts
}

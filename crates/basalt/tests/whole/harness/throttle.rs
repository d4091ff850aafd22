//! A disk that is slower for a process: its writes past the page cache go at a rate, by a control group of the kernel.
//!
//! Invariants: nobody else is slower; the group is gone when it is dropped, also by a failing test.
//! Never: changes a group that was there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of the first version, and of the second where groups may limit I/O.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/blkio", "/sys/fs/cgroup"];

/// See the module.
pub struct Throttle {
    group: PathBuf,
    process: u32,
}

impl Throttle {
    /// So many bytes a second are written to the disk below a folder, by a process. `None` where that is not possible, which is printed.
    pub fn of(folder: &Path, process: u32, bytes_per_s: u64) -> Option<Self> {
        let disk = disk_below(folder)?;
        let name = format!("basalt-test-{}-{process}", std::process::id());
        let limit = |at: &&str| {
            let group = Path::new(at).join(&name);
            fs::create_dir(&group).ok()?;
            let throttle = Self { group, process };
            let (file, text) = if at.ends_with("blkio") {
                ("blkio.throttle.write_bps_device", format!("{disk} {bytes_per_s}"))
            } else {
                ("io.max", format!("{disk} wbps={bytes_per_s}"))
            };
            let set = throttle.group.join(file);
            (set.exists() && fs::write(set, text).is_ok() && throttle.moves(&throttle.group)).then_some(throttle)
        };
        let throttle = GROUPS.iter().find_map(limit);
        if throttle.is_none() {
            println!("no control groups here that slow a disk: it needs root");
        }
        throttle
    }
    fn moves(&self, to: &Path) -> bool {
        fs::write(to.join("cgroup.procs"), self.process.to_string()).is_ok()
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Unless it has ended.
        let parent = self.group.parent().expect("it is below another one");
        let _ = self.moves(parent);
        let _ = fs::remove_dir(&self.group);
    }
}

/// The disk that a folder's file system lies on, `major:minor`.
fn disk_below(folder: &Path) -> Option<String> {
    let device = fs::metadata(folder).expect("the folder is there").dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let at = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = if at.join("partition").exists() { at.parent()?.to_path_buf() } else { at };
    fs::read_to_string(disk.join("dev")).ok().map(|text| text.trim().to_owned())
}

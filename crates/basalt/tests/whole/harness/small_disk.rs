//! A file system in memory with little room, in a folder that outlives the daemon: a disk that can be full.
//!
//! Invariant: it is unmounted when it is dropped, also by a failing test.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// What takes the rest of the room.
const FILLER: &str = "filler";

/// See the module.
pub struct SmallDisk {
    at: PathBuf,
    bytes: u64,
    // Removed after it is unmounted.
    _dir: TempDir,
}

impl SmallDisk {
    /// With room for so many bytes. `None` where this user may not mount.
    pub fn new(bytes: u64) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let at = dir.path().join("small");
        fs::create_dir(&at).expect("a folder");
        let disk = Self { at, bytes, _dir: dir };
        if !disk.mount(&format!("size={bytes}")) {
            eprintln!("no small disk: mount is not permitted here (it needs root)");
            return None;
        }
        Some(disk)
    }
    fn mount(&self, options: &str) -> bool {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "basalt-test"]).arg(&self.at).output();
        mounted.is_ok_and(|out| out.status.success())
    }
    /// There is room again.
    pub fn grow(&self) {
        assert!(self.mount("remount,size=1G"), "it can be made larger");
    }
    /// Nothing more can be written to where nothing is yet.
    pub fn fill(&self) {
        let filler = File::create(self.at.join(FILLER)).expect("a file");
        // Step by step: there is less left than it has room for, and nobody knows how much.
        let (mut step, mut taken) = (self.bytes / 2, 0);
        while step >= 4096 {
            match rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), taken, step) {
                Ok(()) => taken += step,
                Err(_) => step /= 2,
            }
        }
    }
    /// The room that [`Self::fill`] has taken is there again.
    pub fn clear(&self) {
        fs::remove_file(self.at.join(FILLER)).expect("it was filled");
    }
    pub fn file(&self, name: &str) -> String {
        self.at.join(name).display().to_string()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the daemon that a failing test leaves behind for a moment may still have files open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).output();
    }
}

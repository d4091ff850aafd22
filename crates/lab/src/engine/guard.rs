//! What a disk holds, before anything is written to it.
//!
//! Owns: the rule that nothing is destroyed by default, and the mark of files that the lab has made.
//! Invariants: a disk in use is refused whatever the user says; one that holds something is refused unless the user said `destroy`; what
//! cannot be looked at counts as holding something.
//! Never: writes to a disk.

use crate::error::LabError;
use crate::workload::GRAIN_BYTES;
use drive::{SIGNATURE_PROBE_BYTES, Scanner, signature};
use std::cell::Cell;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What stands behind the name of a file that the lab has made: a small file beside it that says so.
const MARK: &str = ".basalt-lab";

fn refused(path: &Path, problem: String) -> LabError {
    LabError::Disk { disk: path.display().to_string(), problem }
}

fn mark_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(MARK);
    name.into()
}

/// Says that the lab has made this file.
pub fn mark(path: &Path) -> Result<(), LabError> {
    let inode = fs::metadata(path).map_err(|e| refused(path, format!("cannot be looked at: {e}")))?.ino();
    let text = format!("The file beside this one was made by the Basalt lab, which may overwrite it.\ninode {inode}\n");
    fs::write(mark_of(path), text).map_err(|e| refused(path, format!("its mark {} cannot be written: {e}", mark_of(path).display())))
}

/// Whether the lab has made this file, and not another one that took its place.
pub fn is_marked(path: &Path) -> bool {
    let (Ok(meta), Ok(text)) = (fs::metadata(path), fs::read_to_string(mark_of(path))) else { return false };
    text.lines().any(|l| l == format!("inode {}", meta.ino()))
}

/// What would be lost if `path` were written, in words; `None`: nothing. An error when it is in use.
pub fn would_be_lost(path: &Path) -> Result<Option<String>, LabError> {
    let meta = fs::metadata(path).map_err(|e| refused(path, format!("cannot be looked at: {e}; check the name")))?;
    if meta.file_type().is_block_device() {
        return block_device(path);
    }
    if !meta.is_file() {
        return Err(refused(path, "neither a block device nor a file".into()));
    }
    // A file with no block of its own holds nothing but its size.
    if meta.len() == 0 || meta.blocks() == 0 {
        return Ok(None);
    }
    let bytes = meta.len();
    match head(path).ok().and_then(|h| signature(&h, bytes)) {
        // Whoever made the file: somebody uses it for something since.
        Some(what) => Ok(Some(format!("a file with {bytes} bytes, which looks like {what}"))),
        None if is_marked(path) => Ok(None),
        None => Ok(Some(format!("a file with {bytes} bytes, not made by the lab"))),
    }
}

fn block_device(path: &Path) -> Result<Option<String>, LabError> {
    let found = Scanner::default().find(path).map_err(|e| refused(path, e.to_string()))?;
    if let Some(drive) = found {
        if let Some(live) = drive.uses.iter().find(|u| u.is_live()) {
            return Err(refused(path, format!("is in use: {live}; the lab never writes to it, also not with --destroy")));
        }
        let uses: Vec<String> = drive.uses.iter().map(ToString::to_string).collect();
        if !uses.is_empty() {
            return Ok(Some(uses.join(", ")));
        }
    }
    // Partitions and made-up devices are not listed as drives; and a drive without a signature may hold data all the same.
    match head(path) {
        Err(e) => Ok(Some(format!("nobody knows what, as it cannot be read ({e})"))),
        Ok(head) => match signature(&head, u64::MAX) {
            Some(what) => Ok(Some(what.to_owned())),
            None if head.iter().any(|&b| b != 0) => Ok(Some("data of an unknown kind".into())),
            None => Ok(None),
        },
    }
}

fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    fs::File::open(path)?.take(SIGNATURE_PROBE_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Places of a working set, evenly spread, that are looked at for [`unwritten`].
pub const PLACES: u64 = 256;

/// Where to look: [`PLACES`] blocks of 4 KiB, or all there are, in the first `bytes` of a disk.
pub fn places(bytes: u64) -> impl Iterator<Item = u64> {
    let blocks = bytes / GRAIN_BYTES;
    let all = blocks.min(PLACES);
    (0..all).map(move |n| n * blocks / all * GRAIN_BYTES)
}

/// The part of the first bytes of disks, (path, bytes) each, that holds zeroes only; `None`: a disk cannot be read.
pub fn unwritten<'a>(disks: impl Iterator<Item = (&'a Path, u64)>) -> Result<Option<f64>, LabError> {
    let (mut seen, mut empty) = (0u32, 0u32);
    for (path, bytes) in disks {
        let Ok(file) = fs::File::open(path) else { return Ok(None) };
        let mut block = [0; GRAIN_BYTES as usize];
        for at in places(bytes) {
            if std::os::unix::fs::FileExt::read_exact_at(&file, &mut block, at).is_err() {
                return Ok(None);
            }
            seen += 1;
            empty += u32::from(block.iter().all(|&b| b == 0));
        }
    }
    Ok((seen > 0).then(|| f64::from(empty) / f64::from(seen)))
}

/// Refuses to go on when something would be lost and the user did not say `destroy`.
pub fn check(disk: &str, lost: Option<String>, destroy: bool) -> Result<(), LabError> {
    match lost {
        Some(what) if !destroy => Err(LabError::Disk {
            disk: disk.into(),
            problem: format!("holds {what}. Writing to it destroys that: name another disk, or say --destroy"),
        }),
        _ => Ok(()),
    }
}

/// The right to write to the disks of an engine. It is asked for before the first write and holds from then on: what the run itself has written
/// is no reason to refuse its next case.
pub struct Claim {
    destroy: bool,
    granted: Cell<bool>,
}

impl Claim {
    /// `destroy`: the user said that what the disks hold may be lost.
    pub fn new(destroy: bool) -> Claim {
        Claim { destroy, granted: Cell::new(false) }
    }
    /// Refuses when something would be lost.
    pub fn take<'a>(&self, mut disks: impl Iterator<Item = &'a Path>) -> Result<(), LabError> {
        if self.destroy || self.granted.get() {
            return Ok(());
        }
        disks.try_for_each(|path| check(&path.display().to_string(), would_be_lost(path)?, false))?;
        self.granted.set(true);
        Ok(())
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;

//! Memory that another program can change at any time, mapped into this one.
//!
//! Owns: one mapping.
//! Invariants: its bytes are touched only through raw pointers, by volatile or atomic accesses within its length: what another program writes
//! meanwhile is seen or not, torn or not, but nothing more can come of it; no page of it can vanish, because the file behind it is sealed
//! against being made shorter and its pages are ordinary ones.
//! Never: makes a reference to its bytes, trusts what it reads.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::foreign_error::{FOREIGN_BYTES_MAX, ForeignError};

/// Memory shared with another program.
pub(crate) struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value and stays where it is until it is dropped; its bytes are shared by design, see the module.
unsafe impl Send for Mapping {}
// SAFETY: as above; all accesses are volatile or atomic and go through raw pointers.
unsafe impl Sync for Mapping {}

fn last_error() -> ForeignError {
    ForeignError::Os { errno: std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}

fn check(r: libc::c_int) -> Result<libc::c_int, ForeignError> {
    if r < 0 { Err(last_error()) } else { Ok(r) }
}

impl Mapping {
    /// Maps `bytes` of a memory file from `offset` on.
    pub(crate) fn of(fd: &OwnedFd, offset: u64, bytes: u64) -> Result<Mapping, ForeignError> {
        if bytes == 0 || bytes > FOREIGN_BYTES_MAX {
            return Err(ForeignError::Length { bytes });
        }
        // In this order: once it is sealed its length can only grow, so what holds of it below holds for good.
        // SAFETY: plain system call.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(ForeignError::NotSealed);
        }
        // SAFETY: all-zero bytes are a valid `statfs`, and the kernel writes one through the pointer.
        let kind = unsafe {
            let mut found: libc::statfs = std::mem::zeroed();
            check(libc::fstatfs(fd.as_raw_fd(), &raw mut found))?;
            found.f_type
        };
        if kind != libc::TMPFS_MAGIC {
            return Err(ForeignError::HugePages);
        }
        // SAFETY: all-zero bytes are a valid `stat`, and the kernel writes one through the pointer.
        let size = unsafe {
            let mut found: libc::stat = std::mem::zeroed();
            check(libc::fstat(fd.as_raw_fd(), &raw mut found))?;
            found.st_size as u64
        };
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(ForeignError::BeyondEnd { offset, bytes, size });
        }
        Self::map(bytes as usize, libc::MAP_SHARED, fd.as_raw_fd(), offset as libc::off_t)
    }

    /// Memory of this program alone, for the simulator, whose programs are one program.
    pub(crate) fn anonymous(bytes: u64) -> Result<Mapping, ForeignError> {
        if bytes == 0 || bytes > FOREIGN_BYTES_MAX {
            return Err(ForeignError::Length { bytes });
        }
        Self::map(bytes as usize, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
    }

    fn map(bytes: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> Result<Mapping, ForeignError> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(last_error());
        }
        // What is in there is not ours to write into a core dump. A hint, like the other: failures are of no consequence.
        // SAFETY: the range is the mapping that was just made.
        unsafe {
            libc::madvise(base, bytes, libc::MADV_DONTDUMP);
            libc::madvise(base, bytes, libc::MADV_DONTFORK);
        }
        Ok(Mapping { base: base.cast(), bytes })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where `len` bytes from `at` on lie.
    fn place(&self, at: usize, len: usize) -> Result<*mut u8, ForeignError> {
        if at.checked_add(len).is_none_or(|end| end > self.bytes) {
            return Err(ForeignError::OutOfRange);
        }
        Ok(self.base.wrapping_add(at))
    }

    /// Copies from `at` on into `to`.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> Result<(), ForeignError> {
        let from = self.place(at, to.len())?;
        let lead = from.align_offset(size_of::<u64>()).min(to.len());
        let (first, rest) = to.split_at_mut(lead);
        let (words, last) = rest.as_chunks_mut::<8>();
        for (i, byte) in first.iter_mut().enumerate() {
            // SAFETY: within the mapping (checked by `place`); any byte is valid, and a volatile read bears that others write.
            *byte = unsafe { from.add(i).read_volatile() };
        }
        let aligned = from.wrapping_add(lead).cast::<u64>();
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: as above, and `lead` bytes on it is aligned for a u64.
            *word = unsafe { aligned.add(i).read_volatile() }.to_ne_bytes();
        }
        let tail = from.wrapping_add(lead + words.len() * 8);
        for (i, byte) in last.iter_mut().enumerate() {
            // SAFETY: as for the first bytes.
            *byte = unsafe { tail.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies `from` to `at` and on.
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> Result<(), ForeignError> {
        let to = self.place(at, from.len())?;
        let lead = to.align_offset(size_of::<u64>()).min(from.len());
        let (first, rest) = from.split_at(lead);
        let (words, last) = rest.as_chunks::<8>();
        for (i, byte) in first.iter().enumerate() {
            // SAFETY: within the mapping (checked by `place`), which may be written; a volatile write bears that others look.
            unsafe { to.add(i).write_volatile(*byte) };
        }
        let aligned = to.wrapping_add(lead).cast::<u64>();
        for (i, word) in words.iter().enumerate() {
            // SAFETY: as above, and `lead` bytes on it is aligned for a u64.
            unsafe { aligned.add(i).write_volatile(u64::from_ne_bytes(*word)) };
        }
        let tail = to.wrapping_add(lead + words.len() * 8);
        for (i, byte) in last.iter().enumerate() {
            // SAFETY: as for the first bytes.
            unsafe { tail.add(i).write_volatile(*byte) };
        }
        Ok(())
    }

    fn atomic_u16(&self, at: usize) -> Result<&AtomicU16, ForeignError> {
        let place = self.place(at, size_of::<u16>())?.cast::<u16>();
        if !place.is_aligned() {
            return Err(ForeignError::OutOfRange);
        }
        // SAFETY: within the mapping, for as long as it lives, and aligned; other programs access it by whole instructions or tear what is theirs.
        Ok(unsafe { AtomicU16::from_ptr(place) })
    }

    pub(crate) fn load_u16(&self, at: usize) -> Result<u16, ForeignError> {
        Ok(self.atomic_u16(at)?.load(Ordering::Acquire))
    }

    pub(crate) fn store_u16(&self, at: usize, value: u16) -> Result<(), ForeignError> {
        self.atomic_u16(at)?.store(value, Ordering::Release);
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nobody can use it after this.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

/// A new memory file of `bytes` zeroes, whose length is sealed.
pub(crate) fn memory_file(bytes: u64) -> Result<OwnedFd, ForeignError> {
    if bytes == 0 || bytes > FOREIGN_BYTES_MAX {
        return Err(ForeignError::Length { bytes });
    }
    // SAFETY: plain system calls; the name is a constant that ends with a zero, and the new descriptor belongs to nobody else.
    unsafe {
        let fd = check(libc::memfd_create(c"basalt".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING))?;
        let fd = OwnedFd::from_raw_fd(fd);
        check(libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t))?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        check(libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
        Ok(fd)
    }
}

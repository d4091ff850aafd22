//! A device in RAM: for measuring everything but the drive, and for tests.
//!
//! Owns: one anonymous mapping, backed by pages only where something was written, or from the start (`populated`).
//! Invariants: every access to the bytes of a stripe happens under that stripe's lock, so cores may use the device at once; a read
//! sees each 64 KiB stripe either before or after a concurrent write, never torn. Callers check ranges; they are asserted here.
//! Never: keeps anything once dropped, does I/O.

use std::io;
use std::sync::Mutex;

use super::limits::Promise;

/// Bytes under one lock at a time. A power of two and a multiple of the block.
const STRIPE_BYTES: usize = 64 << 10;
/// Locks; stripes share them round robin. More than the cores of any machine, so that they seldom meet.
const LOCKS: usize = 256;

/// A lock alone on its cache lines, so that neighbours do not slow each other down.
#[repr(align(128))]
struct StripeLock(Mutex<()>);

/// Memory that is taken with one call: some large pages, some milliseconds.
const POPULATED_AT_ONCE: usize = 16 << 20;

/// A device in RAM.
pub(crate) struct MemoryDevice {
    base: *mut u8,
    bytes: usize,
    mapped: usize,
    populated: bool,
    locks: Box<[StripeLock]>,
    _promise: Promise,
}

// SAFETY: `base` points to a mapping owned by this value alone; its bytes are only touched under the stripe locks.
unsafe impl Send for MemoryDevice {}
// SAFETY: as above; shared access goes through the locks.
unsafe impl Sync for MemoryDevice {}

impl MemoryDevice {
    /// A device of `bytes` zeroes; memory is taken when it is first written. Fails where it could not all be taken: by then it is too late.
    pub(crate) fn new(bytes: u64) -> io::Result<MemoryDevice> {
        Self::map(bytes)
    }

    /// A device of `bytes` zeroes whose memory is taken now, in large pages where the kernel has them, and kept: no access waits for a page.
    pub(crate) fn populated(bytes: u64) -> io::Result<MemoryDevice> {
        let mut device = Self::map(bytes)?;
        device.populated = true;
        // SAFETY: the range is our own mapping. Large pages are a hint; the call may fail.
        unsafe { libc::madvise(device.base.cast(), device.mapped, libc::MADV_HUGEPAGE) };
        // In steps: nothing else of the process can map or unmap memory during one, so none may take long.
        for at in (0..device.mapped).step_by(POPULATED_AT_ONCE) {
            let (step, bytes) = (device.base.wrapping_add(at), POPULATED_AT_ONCE.min(device.mapped - at));
            // SAFETY: as above; the pages are made as a write would make them, and keep their zeroes.
            if unsafe { libc::madvise(step.cast(), bytes, libc::MADV_POPULATE_WRITE) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(device)
    }

    fn map(bytes: u64) -> io::Result<MemoryDevice> {
        let promise = Promise::of(bytes)?;
        // An empty mapping is not allowed; an empty device is.
        let mapped = usize::try_from(bytes.max(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let locks = (0..LOCKS).map(|_| StripeLock(Mutex::new(()))).collect();
        Ok(MemoryDevice { base: base.cast(), bytes: bytes as usize, mapped, populated: false, locks, _promise: promise })
    }

    /// Copies from the device into `to`.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) {
        self.each_stripe(offset, to.len(), |at, done, n| {
            // SAFETY: `at..at + n` lies in the mapping (asserted by each_stripe), whose stripe is locked; `to` is a distinct
            // allocation of at least `done + n` bytes.
            unsafe { std::ptr::copy_nonoverlapping(self.base.add(at), to.as_mut_ptr().add(done), n) };
        });
    }

    /// Copies `from` onto the device.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        self.each_stripe(offset, from.len(), |at, done, n| {
            // SAFETY: as in `read`, with the roles swapped.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().add(done), self.base.add(at), n) };
        });
    }

    /// Gives the memory of whole pages back; they read as zeroes afterwards. A populated device keeps its memory and what is in it.
    pub(crate) fn discard(&self, offset: u64, len: u64) {
        if self.populated {
            return;
        }
        let mut left = len;
        let mut offset = offset;
        while left > 0 {
            // In bounded steps: `each_stripe` counts in usize and holds each lock briefly.
            let n = left.min(1 << 30);
            self.each_stripe(offset, n as usize, |at, _, n| {
                // SAFETY: the range lies in our own private anonymous mapping, and its stripe is locked. Both ends are multiples of
                // 4096 as devices are addressed in blocks; with larger pages the call fails and the old bytes stay, which is allowed.
                unsafe { libc::madvise(self.base.add(at).cast(), n, libc::MADV_DONTNEED) };
            });
            offset += n;
            left -= n;
        }
    }

    /// Calls `f(position on the device, bytes done before, length)` for each stripe of the range, holding its lock.
    fn each_stripe(&self, offset: u64, len: usize, mut f: impl FnMut(usize, usize, usize)) {
        let start = usize::try_from(offset).expect("offset beyond the address space");
        assert!(start.checked_add(len).is_some_and(|end| end <= self.bytes), "access beyond the end of the device");
        let mut done = 0;
        while done < len {
            let at = start + done;
            let n = (STRIPE_BYTES - at % STRIPE_BYTES).min(len - done);
            let lock = &self.locks[at / STRIPE_BYTES % LOCKS];
            // A holder cannot panic between lock and unlock in a way that leaves bytes invalid: any bytes are valid.
            let _held = lock.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            f(at, done, n);
            done += n;
        }
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and nobody can use it after this.
        unsafe { libc::munmap(self.base.cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_written_across_stripes_and_zeroes_elsewhere() {
        let d = MemoryDevice::new(1 << 20).unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        d.write(40_960, &data);
        let mut got = vec![1u8; 200_000 + 8192];
        d.read(40_960 - 4096, &mut got);
        assert!(got[..4096].iter().all(|&b| b == 0));
        assert_eq!(&got[4096..4096 + 200_000], &data[..]);
        assert!(got[4096 + 200_000..].iter().all(|&b| b == 0));
    }

    #[test]
    fn discarded_ranges_read_as_zeroes_and_neighbours_stay() {
        let d = MemoryDevice::new(1 << 20).unwrap();
        d.write(0, &[7u8; 1 << 20]);
        d.discard(65_536 - 4096, 12_288);
        let mut got = vec![0u8; 1 << 20];
        d.read(0, &mut got);
        assert!(got[61_440..73_728].iter().all(|&b| b == 0));
        assert!(got[..61_440].iter().chain(&got[73_728..]).all(|&b| b == 7));
    }

    #[test]
    fn a_populated_device_has_its_memory_from_the_start_and_keeps_it() {
        let d = MemoryDevice::populated(4 << 20).unwrap();
        let pages = d.mapped / 4096;
        let mut there = vec![0u8; pages];
        // SAFETY: the mapping is `mapped` bytes long, and the vector has a byte for each of its pages.
        assert_eq!(unsafe { libc::mincore(d.base.cast(), d.mapped, there.as_mut_ptr()) }, 0);
        assert!(there.iter().all(|&page| page & 1 == 1));
        d.write(8192, &[7; 4096]);
        d.discard(0, 1 << 20);
        let mut got = [0u8; 4096];
        d.read(8192, &mut got);
        assert_eq!(got, [7; 4096]);
    }

    #[test]
    fn threads_never_see_a_torn_block() {
        let d = MemoryDevice::new(1 << 20).unwrap();
        std::thread::scope(|s| {
            for fill in [1u8, 2] {
                let d = &d;
                s.spawn(move || (0..2000).for_each(|_| d.write(8192, &[fill; 4096])));
            }
            let mut got = [0u8; 4096];
            for _ in 0..2000 {
                d.read(8192, &mut got);
                assert!(got.iter().all(|&b| b == got[0]), "torn block");
            }
        });
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn an_access_beyond_the_end_is_a_bug_of_the_caller() {
        MemoryDevice::new(8192).unwrap().read(8192, &mut [0]);
    }
}

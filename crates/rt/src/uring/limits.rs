//! What the process may use of the system, checked and raised at start so that it does not fail later under load.
//!
//! Owns: nothing; acts on the limits of the whole process.
//! Never: lowers a limit.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may have to be locked for each core's ring on kernels that account rings as locked memory.
pub const MEMLOCK_BYTES_PER_CORE: u64 = 1 << 20;

/// The limits in force after [`raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Descriptors the process may hold open.
    pub open_files: u64,
    /// Bytes the process may lock in memory.
    pub memlock_bytes: u64,
}

/// Of the memory that the process may have, what devices in memory may take together, in percent: the rest is for all else.
pub const MEMORY_DEVICES_PERCENT_MAX: u64 = 75;

/// Memory that the process may have, in bytes. What is not known counts as endless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In all, also what it has already: of the machine, within its control groups and RLIMIT_AS.
    pub total: u64,
    /// What is left now.
    pub available: u64,
}

/// Looks at the machine and at what bounds the process.
pub fn memory() -> Memory {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let bound = group_bound(&groups).min(get("RLIMIT_AS", libc::RLIMIT_AS).map_or(u64::MAX, |limit| limit.rlim_cur));
    let of_machine = |name| meminfo_bytes(&meminfo, name).unwrap_or(u64::MAX);
    Memory { total: of_machine("MemTotal:").min(bound), available: of_machine("MemAvailable:").min(bound) }
}

fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest limit of the process's control groups (version 2), from what `/proc/self/cgroup` says.
fn group_bound(groups: &str) -> u64 {
    let path = groups.lines().find_map(|l| l.strip_prefix("0::/")).unwrap_or_default();
    let dir = std::path::Path::new("/sys/fs/cgroup").join(path);
    let limits = dir.ancestors().take_while(|d| d.starts_with("/sys/fs/cgroup")).filter_map(|d| {
        let text = std::fs::read_to_string(d.join("memory.max")).ok()?;
        text.trim().parse::<u64>().ok() // or "max"
    });
    limits.min().unwrap_or(u64::MAX)
}

/// What all devices in memory of this process may grow to.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// Memory that a device may grow to, taken from what all of them may have together; given back when dropped.
#[derive(Debug)]
pub(super) struct Promise(u64);

impl Promise {
    /// Fails when so much could not be kept: then hosts that write would have the process ended.
    pub(super) fn of(bytes: u64) -> io::Result<Promise> {
        let memory = memory();
        let taken = PROMISED.fetch_update(Ordering::AcqRel, Ordering::Acquire, |promised| {
            let sum = promised.checked_add(bytes)?;
            (sum <= promised_max(memory) && bytes <= memory.available).then_some(sum)
        });
        match taken {
            Ok(_) => Ok(Promise(bytes)),
            Err(promised) => {
                let left = promised_max(memory).saturating_sub(promised).min(memory.available);
                Err(io::Error::new(io::ErrorKind::OutOfMemory, format!("at most {} MiB are left for devices in memory", left >> 20)))
            }
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.0, Ordering::AcqRel);
    }
}

fn promised_max(memory: Memory) -> u64 {
    memory.total / 100 * MEMORY_DEVICES_PERCENT_MAX
}

/// A limit of the process is too low for what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// RLIMIT_NOFILE.
    #[error(
        "the process may open {limit} files but needs {needed}: raise the hard limit (LimitNOFILE= in the systemd unit, or `ulimit -Hn`)"
    )]
    TooFewOpenFiles { limit: u64, needed: u64 },
    /// RLIMIT_MEMLOCK.
    #[error(
        "the process may lock {limit} bytes of memory but needs {needed}: raise the hard limit (LimitMEMLOCK= in the systemd unit, or `ulimit -Hl`)"
    )]
    TooLittleLockedMemory { limit: u64, needed: u64 },
    /// The system call itself failed.
    #[error("cannot read or set the process limit {name}: {source}")]
    System { name: &'static str, source: io::Error },
}

/// Raises the soft limits to the hard ones, then checks that at least `open_files` descriptors and `memlock_bytes` of locked memory
/// are allowed.
pub fn raise(open_files: u64, memlock_bytes: u64) -> Result<Limits, LimitError> {
    let got = Limits {
        open_files: raise_one("RLIMIT_NOFILE", libc::RLIMIT_NOFILE)?,
        memlock_bytes: raise_one("RLIMIT_MEMLOCK", libc::RLIMIT_MEMLOCK)?,
    };
    if got.open_files < open_files {
        return Err(LimitError::TooFewOpenFiles { limit: got.open_files, needed: open_files });
    }
    // A privileged process (CAP_IPC_LOCK) is not bound by the limit; whether it is shows when a ring is made, with its own error.
    // SAFETY: plain system call without arguments.
    if got.memlock_bytes < memlock_bytes && unsafe { libc::geteuid() } != 0 {
        return Err(LimitError::TooLittleLockedMemory { limit: got.memlock_bytes, needed: memlock_bytes });
    }
    Ok(got)
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Descriptors that the process may hold open now.
pub(super) fn open_files() -> u64 {
    // Unknown: then accept(2) says when there are no more.
    get("RLIMIT_NOFILE", libc::RLIMIT_NOFILE).map_or(u64::MAX, |limit| limit.rlim_cur)
}

fn get(name: &'static str, resource: Resource) -> Result<libc::rlimit64, LimitError> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the write of one `rlimit64`.
    if unsafe { libc::getrlimit64(resource, &mut limit) } != 0 {
        return Err(LimitError::System { name, source: io::Error::last_os_error() });
    }
    Ok(limit)
}

fn raise_one(name: &'static str, resource: Resource) -> Result<u64, LimitError> {
    let mut limit = get(name, resource)?;
    if limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit64 { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
        // SAFETY: `raised` is valid for the read of one `rlimit64`. Failing to raise is no error: the check of the caller decides.
        if unsafe { libc::setrlimit64(resource, &raised) } == 0 {
            limit.rlim_cur = limit.rlim_max;
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limits_are_raised_to_the_hard_ones() {
        let got = raise(16, 0).unwrap();
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid for the write of one `rlimit64`.
        assert_eq!(unsafe { libc::getrlimit64(libc::RLIMIT_NOFILE, &mut limit) }, 0);
        assert_eq!((limit.rlim_cur, got.open_files), (limit.rlim_max, limit.rlim_max));
    }

    #[test]
    fn memory_is_that_of_the_machine_within_its_bounds() {
        let text = "MemTotal:       16384 kB\nMemFree:  4 kB\nMemAvailable:    8192 kB\n";
        assert_eq!((meminfo_bytes(text, "MemTotal:"), meminfo_bytes(text, "MemAvailable:")), (Some(16 << 20), Some(8 << 20)));
        assert_eq!(meminfo_bytes("MemTotal: 99999999999999999999 kB", "MemTotal:"), None);
        assert_eq!(group_bound("1:name=systemd:/x\n0::/there/is/no/such/group\n"), group_bound("0::/"));
        let now = memory();
        assert!(now.available > 0 && now.available <= now.total && now.total < u64::MAX, "{now:?}");
    }

    #[test]
    fn what_is_promised_stays_within_the_memory_that_there_is() {
        let most = promised_max(memory());
        for bytes in [most + 1, u64::MAX] {
            assert_eq!(Promise::of(bytes).unwrap_err().kind(), io::ErrorKind::OutOfMemory, "{bytes}");
        }
        // Of two that do not fit together the second is refused, and is not once the first has gone.
        let first = Promise::of(1 << 20).unwrap();
        assert!(Promise::of(most - (1 << 19)).is_err());
        let before = PROMISED.load(Ordering::Acquire);
        drop(first);
        assert!(before >= 1 << 20);
    }

    #[test]
    fn too_few_files_is_a_clear_error() {
        let e = raise(u64::MAX, 0).unwrap_err();
        assert!(matches!(e, LimitError::TooFewOpenFiles { needed: u64::MAX, .. }));
        assert!(e.to_string().contains("LimitNOFILE"));
    }
}

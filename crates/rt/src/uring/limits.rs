//! What the process may use of the system, checked and raised at start so that it does not fail later under load.
//!
//! Owns: nothing; acts on the limits of the whole process.
//! Never: lowers a limit.

use std::io;

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
    fn too_few_files_is_a_clear_error() {
        let e = raise(u64::MAX, 0).unwrap_err();
        assert!(matches!(e, LimitError::TooFewOpenFiles { needed: u64::MAX, .. }));
        assert!(e.to_string().contains("LimitNOFILE"));
    }
}

//! Why cores do not run, and what to do about it.
//!
//! Never: decides whether they do.

use std::io;

/// Cores of one process.
pub const CORES_MAX: usize = 64;

/// Why the cores do not run (any more).
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A number of cores that is not possible.
    #[error("{cores} cores were asked for; choose 1 to {}", CORES_MAX)]
    Cores { cores: usize },
    /// Fewer processors named than cores.
    #[error("{cores} cores were asked for, but there are only {processors} processors to run them on; ask for fewer, or do not bind them")]
    TooFewProcessors { cores: usize, processors: usize },
    /// A core cannot run on the processor named.
    #[error("core {core} cannot run on processor {processor}: {source}; choose one of those that this process may use (see `taskset -p`)")]
    Pin { core: usize, processor: usize, source: io::Error },
    /// io_uring is switched off.
    #[error(
        "the system forbids io_uring: set `sysctl kernel.io_uring_disabled=0`; in a container, allow the io_uring system calls in its seccomp profile"
    )]
    RingForbidden,
    /// io_uring is missing or too old.
    #[error("this kernel's io_uring is missing or too old: Linux 5.11 or newer is needed")]
    RingTooOld,
    /// Not enough lockable memory.
    #[error(
        "not enough memory for an io_uring: raise the limit of locked memory (LimitMEMLOCK= in the systemd unit) or ask for fewer ring entries"
    )]
    RingMemory,
    /// Out of descriptors.
    #[error("too many open files: raise the limit (LimitNOFILE= in the systemd unit)")]
    TooManyFiles,
    /// Anything else.
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
    /// The program of a core panicked; the process should end, as the other cores depend on it.
    #[error("core {core} panicked: {message}")]
    Panicked { core: usize, message: String },
}

impl LaunchError {
    pub(super) fn from_errno(what: &'static str, errno: i32) -> LaunchError {
        match errno {
            libc::EMFILE | libc::ENFILE => LaunchError::TooManyFiles,
            errno => LaunchError::System { what, source: io::Error::from_raw_os_error(errno) },
        }
    }
}

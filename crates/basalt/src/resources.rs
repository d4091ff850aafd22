//! What the daemon needs of the machine before it begins: descriptors and memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that the daemon needs at least: devices, rings and listeners, and hosts with some queues each.
const DESCRIPTORS_MIN: u64 = 1024;
/// What is asked for, if the system allows it.
const DESCRIPTORS_WANTED: u64 = 65_536;
/// Memory that each core needs for buffers and queues, in MiB.
const CORE_MIB: u64 = 64;
/// Memory for all else, in MiB.
const BASE_MIB: u64 = 128;

/// Why the daemon cannot begin.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// Too few descriptors.
    #[error(
        "only {0} file descriptors are allowed, {DESCRIPTORS_MIN} are needed; raise the limit (ulimit -n 65536, or LimitNOFILE= in the systemd unit)"
    )]
    Descriptors(u64),
    /// Too little memory.
    #[error(
        "{available} MiB of memory are available, but {needed} MiB are needed for {cores} cores; free memory or raise the limit (ulimit -v), or set a lower cores.count"
    )]
    Memory {
        /// MiB that are there.
        available: u64,
        /// MiB that are needed.
        needed: u64,
        /// For how many cores.
        cores: usize,
    },
}

/// Raises the limit of descriptors as far as allowed and useful, and checks it and the memory.
pub fn check(cores: usize) -> Result<(), ResourceError> {
    let now = getrlimit(Resource::Nofile);
    let hard = now.maximum.unwrap_or(u64::MAX);
    let wanted = DESCRIPTORS_WANTED.min(hard);
    if now.current.is_some_and(|soft| soft < wanted) {
        // refused: then the check says so
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum });
    }
    let soft = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let available = control::memory().available >> 20;
    judge(soft, available, cores)
}

fn judge(descriptors: u64, available: u64, cores: usize) -> Result<(), ResourceError> {
    if descriptors < DESCRIPTORS_MIN {
        return Err(ResourceError::Descriptors(descriptors));
    }
    let needed = BASE_MIB + CORE_MIB * cores as u64;
    if available < needed { Err(ResourceError::Memory { available, needed, cores }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_and_too_little_memory_are_reported() {
        assert_eq!(judge(65_536, 4096, 2), Ok(()));
        assert_eq!(judge(256, 4096, 2), Err(ResourceError::Descriptors(256)));
        assert_eq!(judge(4096, 100, 2), Err(ResourceError::Memory { available: 100, needed: 256, cores: 2 }));
    }
}

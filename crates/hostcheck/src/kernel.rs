//! Versions of Linux, and what older ones do badly with several paths.
//!
//! Never: knows what a distribution has taken over from a later kernel; it says so where it matters.

use serde::Serialize;

/// Major and minor number of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KernelVersion(pub u16, pub u16);

impl KernelVersion {
    /// From what the kernel calls its release, such as `6.12.48+deb13-amd64`.
    pub fn parse(release: &str) -> Option<KernelVersion> {
        let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
        Some(KernelVersion(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// Something that kernels below a version do badly or cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernelIssue {
    /// The first version without it.
    pub fixed: KernelVersion,
    /// What it is.
    pub what: &'static str,
}

/// What is known, the oldest first.
pub const KERNEL_ISSUES: [KernelIssue; 4] = [
    KernelIssue { fixed: KernelVersion(5, 0), what: "it has no NVMe/TCP" },
    KernelIssue { fixed: KernelVersion(5, 1), what: "it has no I/O policy but numa, which uses one path" },
    KernelIssue {
        fixed: KernelVersion(5, 9),
        what: "it does not show ctrl_loss_tmo and reconnect_delay of its connections, so they can be neither checked nor set by udev",
    },
    KernelIssue {
        fixed: KernelVersion(5, 13),
        what: "it does not show keep_alive_tmo (kato) and fast_io_fail_tmo of its connections, so they cannot be checked",
    },
];

/// Of this version kernels stay with a dead path until a keep-alive has been late twice, one after the other: Debian 12's, measured with 6.1.0-57.
pub const KEEP_ALIVE_TWICE: KernelVersion = KernelVersion(6, 1);

/// The first kernel with the I/O policy queue-depth.
pub const QUEUE_DEPTH_SINCE: KernelVersion = KernelVersion(6, 11);

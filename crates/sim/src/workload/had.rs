//! What clients have had of a volume within its limits, and of the host.
//!
//! Never: judges it (that is `figures`).

use dataplane::VolumeLimits;

/// What a volume was allowed, and what clients had of it since.
#[derive(Clone, Debug, Default)]
pub(super) struct Had {
    /// Since when its limits are served by every core.
    pub(super) since: u64,
    /// Requests and bytes a second.
    pub(super) limits: VolumeLimits,
    pub(super) units: u64,
    pub(super) bytes: u64,
    /// The largest request.
    pub(super) largest: (u64, u64),
    /// How long the last of all that was under way at once had to wait for its turn within these limits, at the most, in nanoseconds.
    pub(super) turn_max_ns: u64,
    /// Until when the share of what was refused after it had waited may last: those behind it do not begin earlier.
    pub(super) share_until_ns: u64,
}

/// Bytes that clients have sent commands for, and that were answered well, since the host started: of reads and of writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) sent: [u64; 2],
    pub(super) answered: [u64; 2],
    /// Commands that were answered well.
    pub(super) requests: [u64; 2],
}

impl Had {
    /// Nothing yet, within these limits.
    pub(super) fn new(limits: VolumeLimits) -> Had {
        Had { limits, ..Had::default() }
    }
    /// What comes behind so many requests and bytes waits so long for its turn.
    pub(super) fn turn_ns(&self, ahead: (u64, u64)) -> u64 {
        let at = |rate: Option<u64>, ahead: u64| rate.map_or(0, |rate| (u128::from(ahead) * 1_000_000_000 / u128::from(rate)) as u64);
        at(self.limits.iops_max, ahead.0).max(at(self.limits.bytes_per_s_max, ahead.1))
    }
}

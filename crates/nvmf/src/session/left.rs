//! What sessions that have ended leave behind: commands whose requests to volumes have not all come back.

use object::VolumeRef;

/// A command of a session that has ended, whose requests have not all come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The requests' token.
    pub token: u64,
    /// Their volume.
    pub volume: VolumeRef,
    /// How many have not come back.
    pub parts: u16,
}

/// One request of this token came back. True when it was the last of its command.
pub fn settle(left: &mut Vec<Left>, token: u64) -> bool {
    let Some(at) = left.iter().position(|l| l.token == token) else { return false };
    left[at].parts -= 1;
    let last = left[at].parts == 0;
    if last {
        left.swap_remove(at);
    }
    last
}

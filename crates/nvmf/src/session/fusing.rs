//! What a fused operation is made of: which command may be which half, and how far the queue is in one. `fused` carries it out.

use super::slot::CommandPlan;
use base::unit::PIECE_BYTES;
use format::nvme::{Fuse, IoOpcode, Status, StatusCode};
use object::{ATOMIC_BYTES_MAX, VolumeRef};

/// What the last command of the queue was to a fused operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fusing {
    /// Nothing: a second half now has no first.
    No,
    /// A first half, in this slot. The next command must be its second.
    First(u16),
    /// A first half that has failed. If the next command is its second, that is aborted.
    Failed,
}

/// Whether the command may stand in that place of a fused operation. Compare and Write is the only one there is.
pub(super) fn check(op: IoOpcode, fuse: Fuse) -> Result<(), Status> {
    match (fuse, op) {
        (Fuse::First, IoOpcode::Compare) | (Fuse::Second, IoOpcode::Write) => Ok(()),
        _ => Err(StatusCode::INVALID_FIELD.into()),
    }
}

/// What half of Compare and Write this is. The range must be within what the volume does in one go.
pub(super) fn plan(op: IoOpcode, volume: VolumeRef, offset: u64, len: u32) -> Result<CommandPlan, Status> {
    if u64::from(len) > ATOMIC_BYTES_MAX || offset % PIECE_BYTES + u64::from(len) > PIECE_BYTES {
        return Err(StatusCode::ATOMIC_WRITE_UNIT_EXCEEDED.into());
    }
    Ok(match op {
        IoOpcode::Compare => CommandPlan::FusedCompare { volume, offset, len },
        _ => CommandPlan::FusedWrite { volume, offset, len },
    })
}

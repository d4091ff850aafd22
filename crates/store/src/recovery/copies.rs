//! What copies kept in the log: the same steps as when it was written, in the same order.
//!
//! Owns: the replay of records that are no changes, and of what a change is for a copy.
//! Invariant: a chunk that is made after the replay has an epoch not below the one that it was stamped with.
//! Never: runs for a component without other copies.

use super::Gathered;
use crate::ComponentNo;
use crate::shard::chunk_part::chunk_parts;
use crate::shard::state::State;
use base::hooks::{self, SeededFault};
use base::{BlockRange, Epoch};
use format::disk::copies::{Accept, Doubt, Range};
use format::disk::log::{Record, RecordKind};

/// A record that is no change, in this segment.
#[cold]
pub(super) fn replay(state: &mut State, gathered: &mut Gathered, segment: u64, record: &Record) {
    let component = ComponentNo(record.component);
    match record.kind {
        RecordKind::Range => gathered.range = Range::of(record).ok(),
        RecordKind::Accept => {
            let Ok(accept) = Accept::of(record) else { return };
            let Some(replica) = state.members.replica(component).filter(|_| !hooks::seeded(SeededFault::EpochNotReplayed)) else { return };
            let doubt = if accept.epoch > replica.view().durable { replica.doubt() } else { Vec::new() };
            for range in doubt {
                restamp(state, gathered, component, range, accept.epoch, accept.period_start);
            }
            state.members.with_replica(component, |replica| replica.accepted(&accept, segment));
        }
        _ => {
            if let Ok(Doubt { range, order }) = Doubt::of(record)
                && record.kind == RecordKind::Doubt
                && state.members.replica(component).is_some()
            {
                restamp(state, gathered, component, range, order.epoch, order.period_start);
            }
            state.members.with_replica(component, |replica| replica.replay_note(record, segment));
        }
    }
}

/// Chunks that are made after the replay get their epochs from what was gathered.
fn restamp(state: &mut State, gathered: &mut Gathered, component: ComponentNo, range: BlockRange, epoch: Epoch, period_start: Epoch) {
    if hooks::seeded(SeededFault::DoubtNotRestamped) {
        return;
    }
    for chunk in state.restamp(component, range, epoch, period_start) {
        if !gathered.epochs.is_first(component, epoch) {
            gathered.epochs.note(component, chunk, epoch);
        }
    }
}

/// A change, if it is one of a copy.
#[inline]
pub(super) fn replay_change(state: &mut State, record: &Record, segment: u64) {
    if state.members.has_replicas() && !hooks::seeded(SeededFault::DoubtNotReplayed) {
        let range = BlockRange { first: record.block, blocks: record.blocks };
        state.members.of_copy_ended(ComponentNo(record.component), &record.order, range, Some(segment));
    }
}

/// The content of another copy, beyond where its data lies.
pub(super) fn replay_range(state: &mut State, record: &Record, range: &Range) {
    let component = ComponentNo(record.component);
    for part in chunk_parts(record.block, record.blocks) {
        // Blocks that are uncorrectable get their place after the replay.
        let kind = if record.kind == RecordKind::Uncorrectable { RecordKind::Write } else { record.kind };
        state.range_takes_effect(component, part, (kind, record.lsn), range, &record.order);
    }
    state.members.with_replica(component, |replica| replica.copied(range.range, range.progress));
}

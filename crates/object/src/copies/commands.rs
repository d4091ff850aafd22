//! What the owner's machine wants done with a volume's copies, on one core.
//!
//! Invariant: what waits for a copy goes on when a command has taken that away, and not before.
//! Never: carries out what is not of a lane: the record, fences and lists are somebody else's.

use super::{AGAIN_AFTER, COPIED, Copied, CopiedStage, CopiedVolume, Service};
use crate::grant::GrantCell;
use crate::io::{IoError, VolumeRef};
use crate::lanes::{Blocks, Lanes};
use crate::order::{MirrorLane, NOWHERE};
use crate::owner::{Command, CopyRef, Event, Targets};
use base::NodeId;
use base::hooks::{self, SeededFault};
use rt::Rt;
use std::sync::Arc;

impl<S: Blocks> Lanes<S> {
    /// Does what of a command is to be done on this core. `here`: this node. False: it is not for lanes.
    #[cold]
    #[inline(never)]
    pub(crate) fn command(&mut self, rt: &Rt, here: NodeId, volume: VolumeRef, command: &Command) -> bool {
        match command {
            Command::Targets(targets) => self.targets(rt, here, volume, targets),
            Command::Answer { mirror, epoch } => self.heard(rt, volume, *mirror, *epoch),
            Command::Serve => self.serve(rt, volume),
            Command::Stop => self.stop(rt, volume, IoError::NotOwner),
            Command::Drain(number) => {
                let copies = self.copies(rt);
                if let Some(v) = copies.volumes.get_mut(&volume) {
                    v.drains = true;
                    copies.draining.retain(|(of, _)| *of != volume);
                    copies.draining.push((volume, *number));
                }
                self.end_ranges(rt, volume);
                self.drained(rt);
            }
            Command::MarkMoves { mirror, lane } => {
                self.mark_moves(rt, &MirrorLane { volume, mirror: *mirror, at: NOWHERE, lane: *lane });
            }
            Command::ResyncPace(pace) => {
                self.copies(rt).volumes.entry(volume).or_insert_with(CopiedVolume::unknown).resync_pace = *pace;
            }
            Command::Join { copy, invited } => self.join(rt, volume, *copy, *invited),
            Command::Resume => {
                let copies = self.copies(rt);
                copies.draining.retain(|(of, _)| *of != volume);
                let serves = |v: &mut CopiedVolume| {
                    v.drains = false;
                    v.service == Service::Serving
                };
                // One that serves later begins them then, after the agreement.
                if copies.volumes.get_mut(&volume).is_some_and(serves) {
                    self.begin_waiting(rt, volume);
                }
            }
            _ => return false,
        }
        rt.wake(rt.core());
        true
    }

    /// Reads of a volume are answered by this from now on.
    #[cold]
    #[inline(never)]
    pub(crate) fn set_cell(&mut self, rt: &Rt, volume: VolumeRef, cell: Option<Arc<GrantCell>>) {
        let copies = self.copies(rt);
        if hooks::seeded(SeededFault::GrantsAfterData) {
            copies.early = rt.boot_clock();
        }
        copies.volumes.entry(volume).or_insert_with(CopiedVolume::unknown).cell = cell;
    }
    fn targets(&mut self, rt: &Rt, here: NodeId, volume: VolumeRef, targets: &Targets) {
        let copies = self.copies(rt);
        let v = copies.volumes.entry(volume).or_insert_with(CopiedVolume::unknown);
        let rises = targets.ownership.epoch > v.targets.ownership.epoch;
        (v.here, v.targets) = (here, targets.clone());
        if v.service == Service::Stopped {
            v.service = Service::Waiting;
        }
        let gets = |copy: &CopyRef| targets.copies.iter().any(|(of, _)| of.component == copy.component);
        v.paces.keep(|component| targets.copies.iter().any(|(of, state)| of.component == component && state.is_in_sync()));
        copies.joining.retain(|join| join.volume != volume || gets(&join.copy));
        for id in copies.parts_of(volume) {
            self.new_targets(rt, id, targets, rises);
        }
    }
    /// A part goes by other targets.
    fn new_targets(&mut self, rt: &Rt, id: u32, targets: &Targets, rises: bool) {
        let Some(Copied { stage, .. }) = self.copies(rt).get(id) else { return };
        match stage {
            CopiedStage::Changing(change) => {
                change.waits.retain(|wait| {
                    let state = targets.copies.iter().find(|(copy, _)| copy.component == wait.copy.component).map(|(_, state)| state);
                    wait.resync = state.is_some_and(|state| !state.is_in_sync());
                    state.is_some_and(|state| state.gets_changes())
                });
                if rises {
                    // Also to the own copy: that may have accepted this epoch before the change came to its shard. What it has already it knows by its number.
                    change.waits.iter_mut().for_each(|w| w.sent = targets.ownership.epoch);
                    change.order.period_start = targets.ownership.period_start;
                    self.ask_again(rt, id, |_| true);
                }
                self.settle(rt, id);
            }
            CopiedStage::Reading(from) => match from {
                Some(from) if is_active(targets, from) && rises => self.ask_again(rt, id, |_| true),
                Some(from) if is_active(targets, from) => {}
                _ => self.read_anew(rt, id),
            },
            CopiedStage::Fetching(Some(from)) if is_active(targets, from) && rises => self.ask_again(rt, id, |_| true),
            CopiedStage::Fetching(Some(from)) if is_active(targets, from) => {}
            CopiedStage::Fetching(_) => self.fetch(rt, id),
            CopiedStage::Alone => self.settle_alone(rt, id),
            _ => {}
        }
    }
    fn serve(&mut self, rt: &Rt, volume: VolumeRef) {
        if let Some(v) = self.copies(rt).volumes.get_mut(&volume) {
            v.service = Service::Serving;
        }
        self.begin_waiting(rt, volume);
    }
    fn begin_waiting(&mut self, rt: &Rt, volume: VolumeRef) {
        let waiting = self.copies(rt).volumes.get_mut(&volume).map(|v| std::mem::take(&mut v.waiting));
        for id in waiting.unwrap_or_default() {
            if self.has_copies().part(id).ranged {
                self.begin_copied(rt, id);
            } else {
                self.range_copied(rt, id);
            }
        }
    }
    /// Nothing of a volume is answered any more but with this error.
    pub(crate) fn stop(&mut self, rt: &Rt, volume: VolumeRef, error: IoError) {
        let copies = self.copies(rt);
        let Some(v) = copies.volumes.get_mut(&volume) else { return };
        // Whoever drains before it stops is not to drain when it serves again.
        (v.service, v.drains, v.paces) = (Service::Stopped, false, Default::default());
        copies.draining.retain(|(of, _)| *of != volume);
        copies.joining.retain(|join| join.volume != volume);
        copies.unplaced.retain(|(of, _)| *of != volume);
        copies.agreements.retain(|(of, ..), _| *of != volume);
        let mut ending: Vec<u32> = v.waiting.drain(..).collect();
        let begun = copies.parts.iter().filter(|(_, c)| c.part.volume == volume && !matches!(c.stage, CopiedStage::Waiting));
        ending.extend(begun.map(|(id, _)| id as u32 | COPIED));
        for id in ending {
            // What has a number may be on a copy: a next owner agrees on it. It is not to be carried out once more by whoever passed it on.
            let begun = self.has_copies().part(id).seq().counter > 0 && !hooks::seeded(SeededFault::StoppedTakenForUndone);
            self.finish_copied(rt, id, Err(if begun { IoError::NoPath } else { error }), None);
        }
        self.numbers.let_go_all(volume);
    }
    /// Says of each volume that is to be drained when nothing of it is under way any more: once. Whether it has said so of one.
    #[cold]
    #[inline(never)]
    pub(super) fn drained(&mut self, rt: &Rt) -> bool {
        let Some(copies) = self.copies.as_mut() else { return false };
        let draining = std::mem::take(&mut copies.draining);
        let before = draining.len();
        for (volume, number) in draining {
            let begun = self.has_begun(volume);
            let copies = self.has_copies();
            let is_at_work = |c: &Copied| c.part.volume == volume && !matches!(c.stage, CopiedStage::Waiting);
            if begun || copies.parts.iter().any(|(_, copied)| is_at_work(copied)) {
                copies.draining.push((volume, number));
            } else {
                copies.says(volume, Event::Drained(number));
            }
        }
        let copies = self.has_copies();
        if !copies.draining.is_empty() {
            copies.wake_at(rt, rt.now() + AGAIN_AFTER);
        }
        copies.draining.len() < before
    }
}

fn is_active(targets: &Targets, of: &CopyRef) -> bool {
    targets.copies.iter().any(|(copy, state)| copy.component == of.component && state.is_in_sync())
}

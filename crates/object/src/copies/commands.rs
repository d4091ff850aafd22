//! What the owner's machine wants done with a volume's copies, on one core.
//!
//! Invariant: what waits for a copy goes on when a command has taken that away, and not before.
//! Never: carries out what is not of a lane: the record, fences and lists are somebody else's.

use super::{COPIED, Copied, CopiedStage, CopiedVolume, Service};
use crate::io::{IoError, VolumeRef};
use crate::lanes::{Blocks, Lanes};
use crate::owner::{Command, Event, Targets};
use base::NodeId;
use rt::Rt;
use std::collections::{BTreeMap, VecDeque};

impl<S: Blocks> Lanes<S> {
    /// Does what of a command is to be done on this core. `here`: this node. False: it is not for lanes.
    #[cold]
    #[inline(never)]
    pub(crate) fn command(&mut self, rt: &Rt, here: NodeId, volume: VolumeRef, command: &Command) -> bool {
        match command {
            Command::Targets(targets) => self.targets(rt, here, volume, targets),
            Command::Answer { mirror, epoch } => self.heard(rt, volume, *mirror, *epoch),
            Command::GrantsOf(nodes) => {
                if let Some(v) = self.copies(rt).volumes.get_mut(&volume) {
                    v.grants.clone_from(nodes);
                }
            }
            Command::Serve => self.serve(rt, volume),
            Command::Stop => self.stop(rt, volume, IoError::Closing),
            Command::Drain(number) => {
                if let Some(v) = self.copies(rt).volumes.get_mut(&volume) {
                    v.draining = Some(*number);
                }
                self.drained(volume);
            }
            Command::Resume => {
                if let Some(v) = self.copies(rt).volumes.get_mut(&volume) {
                    v.draining = None;
                }
                self.begin_waiting(rt, volume);
            }
            _ => return false,
        }
        rt.wake(rt.core());
        true
    }

    fn targets(&mut self, rt: &Rt, here: NodeId, volume: VolumeRef, targets: &Targets) {
        let copies = self.copies(rt);
        let new = CopiedVolume {
            here,
            targets: targets.clone(),
            known: BTreeMap::new(),
            grants: Vec::new(),
            service: Service::Waiting,
            draining: None,
            waiting: VecDeque::new(),
        };
        let v = copies.volumes.entry(volume).or_insert(new);
        let rises = targets.ownership.epoch > v.targets.ownership.epoch;
        v.targets = targets.clone();
        // Until somebody says whose grants count: those of all other nodes with an active copy.
        let others = targets.copies.iter().filter(|(copy, state)| state.is_in_sync() && copy.node != here);
        v.grants = others.map(|(copy, _)| copy.node).collect();
        if v.service == Service::Stopped {
            v.service = Service::Waiting;
        }
        for id in copies.parts_of(volume) {
            self.new_targets(rt, here, id, targets, rises);
        }
    }
    /// A part goes by other targets.
    fn new_targets(&mut self, rt: &Rt, here: NodeId, id: u32, targets: &Targets, rises: bool) {
        let Some(Copied { stage, .. }) = self.copies(rt).get(id) else { return };
        match stage {
            CopiedStage::Changing(change) => {
                change.waits.retain(|wait| {
                    let state = targets.copies.iter().find(|(copy, _)| copy.component == wait.copy.component).map(|(_, state)| state);
                    wait.resync = state.is_some_and(|state| !state.is_in_sync());
                    state.is_some_and(|state| state.gets_changes())
                });
                if rises {
                    // The own copy has it already, or is at it: what it has accepted it has stamped.
                    change.waits.iter_mut().filter(|w| w.copy.node != here).for_each(|w| w.sent = targets.ownership.epoch);
                    change.order.period_start = targets.ownership.period_start;
                    self.ask_again(rt, id, |copy| copy.node != here);
                }
                self.settle(rt, id);
            }
            CopiedStage::Reading(from) => {
                let active = |component| targets.copies.iter().any(|(copy, state)| copy.component == component && state.is_in_sync());
                match from {
                    Some(from) if active(from.component) && rises => self.ask_again(rt, id, |_| true),
                    Some(from) if active(from.component) => {}
                    _ => self.read_anew(rt, id),
                }
            }
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
            self.begin_copied(rt, id);
        }
    }
    /// Nothing of a volume is answered any more but with this error.
    pub(crate) fn stop(&mut self, rt: &Rt, volume: VolumeRef, error: IoError) {
        let copies = self.copies(rt);
        let Some(v) = copies.volumes.get_mut(&volume) else { return };
        v.service = Service::Stopped;
        let mut ending: Vec<u32> = v.waiting.drain(..).collect();
        let begun = copies.parts.iter().filter(|(_, c)| c.part.volume == volume && !matches!(c.stage, CopiedStage::Waiting));
        ending.extend(begun.map(|(id, _)| id as u32 | COPIED));
        for id in ending {
            self.finish_copied(rt, id, Err(error), None);
        }
    }
    /// Says when nothing of a volume that is to be drained is under way any more.
    pub(super) fn drained(&mut self, volume: VolumeRef) {
        let begun = self.has_begun(volume);
        let Some(copies) = self.copies.as_mut() else { return };
        let Some(v) = copies.volumes.get(&volume) else { return };
        let Some(number) = v.draining.filter(|_| !begun) else { return };
        let under_way = copies.parts.iter().any(|(_, c)| c.part.volume == volume && !matches!(c.stage, CopiedStage::Waiting));
        let said = copies.events.iter().any(|(of, event)| *of == volume && matches!(event, Event::Drained(n) if *n == number));
        if !under_way && !said {
            copies.says(volume, Event::Drained(number));
        }
    }
}

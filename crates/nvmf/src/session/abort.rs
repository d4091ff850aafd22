//! Aborting a command of this queue (base 5.1): whatever has not begun ends with Command Abort Requested.
//!
//! A command whose data was asked for is answered at once too; its slot stays until that data has come, to be thrown away, because the host
//! may be sending it. Such slots do not count as entries of the queue.
//!
//! Never: touches what a volume or the controller works on; that ends as it ends.

use super::fusing::Fusing;
use super::slot::{CommandStage, Identifier, NO_MATE};
use super::{Aborted, Cx, Session};
use base::hooks::{self, CoverageMark, SeededFault};
use format::nvme::{Status, StatusCode};

const REQUESTED: Status = Status::retry(StatusCode::ABORT_REQUESTED);

impl Session {
    /// Aborts the command with this identifier if it has not begun.
    pub fn abort(&mut self, cx: &mut Cx<'_>, cid: u16) -> Aborted {
        let found = self.slots.iter().find(|(_, s)| s.sqe.cid == cid && s.identifier == Identifier::Mine);
        let Some((at, stage, paired)) = found.map(|(at, s)| (at, s.stage, s.mate != NO_MATE)) else { return Aborted::No };
        match (stage, paired) {
            (CommandStage::Running, _) => {
                hooks::reached(CoverageMark::AbortTooLate);
                return Aborted::No;
            }
            (CommandStage::Filling, _) | (CommandStage::Asked | CommandStage::Paired, true) => {
                hooks::reached(CoverageMark::AbortOfHalf);
                self.mark_aborted(at);
            }
            (CommandStage::Waiting, _) => {
                hooks::reached(CoverageMark::AbortOfWaiting);
                self.slots.stop_waiting(at);
                self.mark_aborted(at);
                self.run(cx, at);
                self.wake_waiting(cx);
            }
            (CommandStage::Paired, false) => {
                if !hooks::seeded(SeededFault::AbortedHalfAwaited) {
                    self.slots.set_fusing(Fusing::Failed);
                }
                self.finish(cx, at, REQUESTED, 0);
            }
            (CommandStage::Asked, false) if self.slots.aborted() >= self.entries() => return Aborted::No,
            (CommandStage::Asked, false) => {
                hooks::reached(CoverageMark::AbortOfAsked);
                self.answer_early(cx, at);
            }
            (CommandStage::Parked, _) => {
                self.finish(cx, at, REQUESTED, 0);
                return Aborted::Event(at);
            }
        }
        Aborted::Yes
    }

    /// It ends so as soon as nothing of it is on its way.
    fn mark_aborted(&mut self, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        if slot.status.is_success() {
            slot.status = REQUESTED;
        }
    }

    /// Answers a command whose data is still to come.
    fn answer_early(&mut self, cx: &mut Cx<'_>, at: u16) {
        self.mark_aborted(at);
        let slot = &mut self.slots[usize::from(at)];
        if !hooks::seeded(SeededFault::AbortedAnsweredTwice) {
            slot.identifier = Identifier::Aborted;
        }
        slot.data.clear();
        slot.sums = [false; 2];
        let (held, cid) = (core::mem::take(&mut slot.held), slot.sqe.cid);
        self.memory.release(held, 0, 0);
        self.slots.answered_early();
        self.free_cid(cid);
        self.respond(cx, cid, REQUESTED, 0);
        self.wake_waiting(cx);
    }
}

//! Waiting for the turn within the limits of a volume, before there are buffers.
//!
//! ```text
//! capsule whole ─► no limit: buffers ──────────────────────────────────► R2T, data ─► request
//!               └► limit: asks the volume for its turn ─► it comes: buffers ─► R2T, data ─► request that is counted already
//! ```
//!
//! What a limit holds back keeps nothing that commands on other volumes wait for: of the queue's memory it has what came in its capsule, and that does not
//! count against them (`memory`). A command whose data has come in its capsule whole asks for nothing: its request itself waits for its turn. A pair waits once,
//! and a Copy once a step.
//!
//! Invariant: a command that waits for its turn has no buffers but those of its capsule.
//! Never: knows what the limits are; the volume does.

use super::slot::{CommandPlan, CommandStage, NO_MATE, Turn};
use super::status::status_of;
use super::{Cx, Session};
use crate::view::View;
use base::hooks::{self, CoverageMark, SeededFault};
use format::nvme::Status;
use object::{IoDone, IoError, IoOp, IoRequest, VolumeRef};

/// Whether the limits of its volume count a command.
#[cold]
#[inline(never)]
pub(super) fn of(view: &View, plan: &CommandPlan) -> Turn {
    let counted = match plan {
        CommandPlan::Copy(copy) => Some(copy.volume()),
        plan => plan.transfer().map(|(volume, ..)| volume),
    };
    match counted {
        Some(volume) if view.is_limited(volume) && !is_forgotten(plan) => Turn::Due,
        _ => Turn::Free,
    }
}

/// Whether a fault is seeded that forgets the turn of a command.
fn is_forgotten(plan: &CommandPlan) -> bool {
    let uncounted = match plan {
        CommandPlan::Verify { .. } => hooks::seeded(SeededFault::VerifyUncounted),
        CommandPlan::FusedCompare { .. } | CommandPlan::FusedWrite { .. } => hooks::seeded(SeededFault::CompareWriteUncounted),
        _ => false,
    };
    uncounted || hooks::seeded(SeededFault::MemoryBeforeTurn)
}

/// Whether the next request of a command is counted already.
pub(super) fn is_counted(turn: Turn) -> bool {
    turn == Turn::Come && !hooks::seeded(SeededFault::TurnNotKept)
}

impl Session {
    /// A command that is to get buffers: whether it waits for its turn first.
    #[cold]
    #[inline(never)]
    pub(super) fn waits_for_turn(&mut self, cx: &mut Cx<'_>, at: u16) -> bool {
        let slot = &self.slots[usize::from(at)];
        let transfer = slot.plan.transfer();
        let (Turn::Due, Some((volume, offset, len))) = (slot.turn, transfer) else { return false };
        match self.slots.get(usize::from(slot.mate)).filter(|_| slot.mate != NO_MATE).map(|mate| mate.turn) {
            // The turn of the first half is that of the pair.
            Some(Turn::Come) => return false,
            Some(Turn::Awaited) => {
                let slot = &mut self.slots[usize::from(at)];
                (slot.stage, slot.turn) = (CommandStage::Running, Turn::Awaited);
                self.slots.begin_running(1);
                self.slots.pause(1);
            }
            Some(Turn::Free | Turn::Due | Turn::Requested) | None => {
                self.slots[usize::from(at)].stage = CommandStage::Running;
                self.slots.begin_running(1);
                self.ask_for_turn(cx, at, volume, IoOp::Turn { offset, len, requests: 1 });
            }
        }
        true
    }

    /// A command that runs waits for this turn.
    pub(super) fn ask_for_turn(&mut self, cx: &mut Cx<'_>, at: u16, volume: VolumeRef, turn: IoOp) {
        hooks::reached(CoverageMark::WaitsForTurn);
        let slot = &mut self.slots[usize::from(at)];
        (slot.turn, slot.parts) = (Turn::Awaited, 1);
        self.slots.pause(1);
        cx.ios.push(IoRequest::new(self.token_base | u64::from(at), volume, turn));
    }

    /// The request of so many commands begins: whether it is counted already.
    #[cold]
    #[inline(never)]
    pub(super) fn begins_within_limits(&mut self, at: u16, commands: u32) -> bool {
        let slot = &mut self.slots[usize::from(at)];
        if slot.turn == Turn::Due && slot.asked() == 0 {
            slot.turn = Turn::Requested;
            self.slots.pause(commands);
        }
        is_counted(self.slots[usize::from(at)].turn)
    }

    /// The request of a command that had no buffers because of a limit was answered.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_ends(&mut self, cx: &mut Cx<'_>, at: u16, done: IoDone) {
        let slot = &mut self.slots[usize::from(at)];
        if slot.turn == Turn::Awaited {
            return self.turn_came(cx, at, done.result);
        }
        debug_assert!(slot.turn == Turn::Requested, "there is no other");
        slot.turn = Turn::Due;
        slot.parts += 1;
        let commands = if slot.mate == NO_MATE { 1 } else { 2 };
        self.slots.resume(commands);
        self.on_io_done(cx, done);
    }

    /// The turn of a command has come, or never will.
    fn turn_came(&mut self, cx: &mut Cx<'_>, at: u16, result: Result<(), IoError>) {
        self.slots[usize::from(at)].turn = Turn::Come;
        self.slots.resume(1);
        if matches!(self.slots[usize::from(at)].plan, CommandPlan::Copy(_)) {
            return self.copy_turn_came(cx, at, result);
        }
        self.slots.end_running(1);
        let slot = &mut self.slots[usize::from(at)];
        if let (Err(e), true) = (result, slot.status.is_success()) {
            slot.status = status_of(e, slot.plan.class());
        }
        let (mate, goes_on) = (slot.mate, slot.status.is_success());
        self.go_on(cx, at, goes_on);
        // The other half has waited with it. It may have brought an end to both before.
        if let Some(slot) = self.slots.get_mut(usize::from(mate)).filter(|slot| slot.turn == Turn::Awaited && slot.mate == at) {
            slot.turn = Turn::Come;
            self.slots.resume(1);
            self.slots.end_running(1);
            let goes_on = goes_on && self.slots[usize::from(mate)].status.is_success();
            self.go_on(cx, mate, goes_on);
        }
        if self.slots.anybody_waits() {
            self.wake_waiting(cx); // It may have been the last that ran.
        }
    }

    /// Gets buffers, unless it comes to nothing.
    fn go_on(&mut self, cx: &mut Cx<'_>, at: u16, goes_on: bool) {
        if !goes_on {
            return self.run(cx, at);
        }
        let needs = self.slots[usize::from(at)].needs();
        self.get_buffers(cx, at, needs);
    }

    /// Nothing of a command is left for a limit to hold back.
    #[cold]
    #[inline(never)]
    pub(super) fn end_turn(&mut self, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        if core::mem::replace(&mut slot.turn, Turn::Free) != Turn::Free {
            self.memory.set_limited(slot.capsule, false);
        }
    }

    /// Commands that wait for their turn end so when it comes: the queue is left. Halves that do not wait are answered apart.
    pub(super) fn end_at_turn(&mut self, status: Status) {
        for at in self.slots.all(|s| s.turn == Turn::Awaited) {
            let mate = self.slots[usize::from(at)].mate;
            let waits_too = self.slots.get(usize::from(mate)).is_some_and(|s| s.turn == Turn::Awaited);
            let slot = &mut self.slots[usize::from(at)];
            if !waits_too {
                slot.mate = NO_MATE;
            }
            if slot.status.is_success() {
                slot.status = status;
            }
        }
    }

    /// Looks whether the volume of a command that has not begun has limits by now, or none any more.
    #[cold]
    #[inline(never)]
    pub(super) fn refresh_turn(&mut self, cx: &Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        let now = of(cx.view, &slot.plan);
        if matches!(slot.turn, Turn::Free | Turn::Due) && slot.turn != now {
            slot.turn = now;
            self.memory.set_limited(slot.capsule, now == Turn::Due);
        }
    }
}

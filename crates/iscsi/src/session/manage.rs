//! Task management (RFC 7143 11.5).
//!
//! Invariant: a function is answered when nothing is under way any more of what it aborts.

use super::task::{Phase, Task};
use super::{Cx, Session, SessionEvent};
use base::hooks::{self, SeededFault};
use format::iscsi::{ManagementRequest, ManagementResponse, management, management_response};
use format::scsi::{Lun, SenseCode};

/// Functions of a session that wait at once.
const MANAGEMENTS_MAX: usize = 16;

/// A function that waits for tasks to end.
pub(super) struct Management {
    /// The connection that it came on.
    wire: usize,
    tag: u32,
    /// The tags of the tasks, of those that have not ended.
    tasks: Vec<u32>,
}

impl Task {
    /// Whether a request of it is with its volume.
    pub(super) fn is_with_volume(&self) -> bool {
        matches!(self.phase, Phase::Turn | Phase::Io)
    }
    /// Whether something of it is away, and will be answered.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_with_volume() || self.phase == Phase::Control
    }
}

impl Session {
    pub(super) fn on_management(&mut self, cx: &mut Cx<'_>, wire: usize, m: &ManagementRequest) {
        use management_response as response;
        if self.managements.len() + self.resets.len() >= MANAGEMENTS_MAX {
            return self.manage_response(wire, m.tag, response::REJECTED);
        }
        match m.function {
            management::ABORT_TASK => {
                if !self.by_tag.contains_key(&m.referenced_tag) {
                    // One that did not come will not: commands come in their order.
                    let ahead = m.ref_cmd_sn.wrapping_sub(self.exp_cmd_sn) as i32;
                    let known = ahead < 0;
                    return self.manage_response(wire, m.tag, if known { response::NO_TASK } else { response::COMPLETE });
                }
                let tag = m.referenced_tag;
                self.abort(cx, wire, m.tag, &|t| t.tag == tag);
            }
            management::ABORT_TASK_SET => {
                let lun = m.lun;
                if self.lun(&lun).is_none() {
                    return self.manage_response(wire, m.tag, response::NO_LUN);
                }
                self.abort(cx, wire, m.tag, &|t| t.lun == lun);
            }
            management::CLEAR_TASK_SET => self.ask_reset(cx, wire, m, Some(m.lun), SenseCode::COMMANDS_CLEARED_BY_ANOTHER),
            management::LOGICAL_UNIT_RESET => self.ask_reset(cx, wire, m, Some(m.lun), SenseCode::LOGICAL_UNIT_RESET),
            management::TARGET_WARM_RESET => self.ask_reset(cx, wire, m, None, SenseCode::POWER_ON_OR_RESET),
            management::TASK_REASSIGN => self.manage_response(wire, m.tag, response::NO_REASSIGN),
            _ => self.manage_response(wire, m.tag, response::NOT_SUPPORTED),
        }
    }

    /// Commands of other sessions are concerned too: the core sees to it.
    fn ask_reset(&mut self, cx: &mut Cx<'_>, wire: usize, m: &ManagementRequest, lun: Option<[u8; 8]>, attention: SenseCode) {
        if lun.is_some_and(|lun| self.lun(&lun).is_none()) {
            return self.manage_response(wire, m.tag, management_response::NO_LUN);
        }
        self.resets.push((wire, m.tag));
        cx.events.push((self.token, SessionEvent::Reset { tag: m.tag, lun, attention }));
    }
    /// The unit that a LUN names, of those that the host sees.
    fn lun(&self, lun: &[u8; 8]) -> Option<u32> {
        let Some(Lun::Unit(n)) = Lun::parse(lun) else { return None };
        u32::try_from(n).ok().filter(|n| self.units.contains_key(n))
    }
    /// Aborts commands for a function of some session with the target, on a unit or on all. The tags of those that have not ended yet. `own`: it is a
    /// function of this session.
    pub fn reset(&mut self, cx: &mut Cx<'_>, lun: Option<[u8; 8]>, attention: SenseCode, own: bool) -> Vec<u32> {
        let unit = lun.map(|lun| self.lun(&lun));
        let luns: Vec<u32> = self.units.keys().copied().filter(|n| unit.is_none_or(|u| u == Some(*n))).collect();
        // Who clears a task set knows; a reset is to be heard by all (SAM-5 5.14).
        if !(own && attention == SenseCode::COMMANDS_CLEARED_BY_ANOTHER) {
            luns.iter().for_each(|n| self.add_attention(*n, attention));
        }
        let hit: Vec<u16> = self
            .tasks
            .iter()
            .filter(|(_, t)| unit.is_none() || t.unit.is_some_and(|u| luns.contains(&u.lun)))
            .map(|(slot, _)| slot as u16)
            .collect();
        self.abort_slots(cx, &hit)
    }
    /// Whether a command with this tag has not ended.
    pub fn has_tag(&self, tag: u32) -> bool {
        self.by_tag.contains_key(&tag)
    }
    /// A reset that this session asked for is done, or cannot be.
    pub fn on_reset_done(&mut self, tag: u32, done: bool) {
        let Some(at) = self.resets.iter().position(|(_, t)| *t == tag) else { return };
        let (wire, _) = self.resets.remove(at);
        self.manage_response(wire, tag, if done { management_response::COMPLETE } else { management_response::REJECTED });
    }
    /// Functions that came on a connection that has left are not answered.
    pub(super) fn forget_managements(&mut self, wire: usize) {
        self.managements.retain(|m| m.wire != wire);
        self.resets.retain(|(w, _)| *w != wire);
    }

    /// Aborts tasks, and answers when they have ended.
    fn abort(&mut self, cx: &mut Cx<'_>, wire: usize, tag: u32, which: &dyn Fn(&Task) -> bool) {
        let hit: Vec<u16> = self.tasks.iter().filter(|(_, t)| which(t)).map(|(slot, _)| slot as u16).collect();
        let tasks = self.abort_slots(cx, &hit);
        self.managements.push(Management { wire, tag, tasks });
        self.answer_managements();
    }

    /// Aborts these tasks. The tags of those that something is away of.
    pub(super) fn abort_slots(&mut self, cx: &mut Cx<'_>, slots: &[u16]) -> Vec<u32> {
        let mut left = Vec::new();
        for slot in slots {
            let Some(task) = self.tasks.get_mut((*slot).into()) else { continue };
            cx.stats.aborted += 1;
            task.aborted = true;
            // Data that is under way from the host for one that is gone is thrown away.
            match task.is_under_way() {
                true if hooks::seeded(SeededFault::AbortUnawaited) => {}
                true => left.push(task.tag),
                false => self.drop_task(cx, *slot),
            }
        }
        left
    }

    /// Answers the functions that have nothing to wait for.
    pub(super) fn answer_managements(&mut self) {
        let Session { managements, by_tag, .. } = self;
        let mut done = Vec::new();
        managements.retain_mut(|m| {
            m.tasks.retain(|tag| by_tag.contains_key(tag));
            if m.tasks.is_empty() {
                done.push((m.wire, m.tag));
            }
            !m.tasks.is_empty()
        });
        for (wire, tag) in done {
            self.manage_response(wire, tag, management_response::COMPLETE);
        }
    }

    fn manage_response(&mut self, wire: usize, tag: u32, response: u8) {
        let Some(w) = self.wires.get_mut(wire) else { return };
        let answer = ManagementResponse { response, tag, stat_sn: w.out.take_stat_sn(), ..ManagementResponse::default() };
        w.out.push(answer.to_header(0));
    }
}

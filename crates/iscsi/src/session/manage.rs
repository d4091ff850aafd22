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
    pub(super) fn on_management(&mut self, cx: &mut Cx<'_>, m: &ManagementRequest) {
        use management_response as response;
        if self.managements.len() >= MANAGEMENTS_MAX {
            return self.respond(m.tag, response::REJECTED);
        }
        match m.function {
            management::ABORT_TASK => {
                if !self.by_tag.contains_key(&m.referenced_tag) {
                    // One that did not come will not: commands come in their order.
                    let ahead = m.ref_cmd_sn.wrapping_sub(self.exp_cmd_sn) as i32;
                    let known = ahead < 0;
                    return self.respond(m.tag, if known { response::NO_TASK } else { response::COMPLETE });
                }
                let tag = m.referenced_tag;
                self.abort(cx, m.tag, &|t| t.tag == tag);
            }
            management::ABORT_TASK_SET => {
                let lun = m.lun;
                if self.lun(&lun).is_none() {
                    return self.respond(m.tag, response::NO_LUN);
                }
                self.abort(cx, m.tag, &|t| t.lun == lun);
            }
            management::CLEAR_TASK_SET => self.ask_reset(cx, m, Some(m.lun), SenseCode::COMMANDS_CLEARED_BY_ANOTHER),
            management::LOGICAL_UNIT_RESET => self.ask_reset(cx, m, Some(m.lun), SenseCode::LOGICAL_UNIT_RESET),
            management::TARGET_WARM_RESET => self.ask_reset(cx, m, None, SenseCode::POWER_ON_OR_RESET),
            management::TASK_REASSIGN => self.respond(m.tag, response::NO_REASSIGN),
            _ => self.respond(m.tag, response::NOT_SUPPORTED),
        }
    }

    /// Commands of other sessions are concerned too: the core sees to it.
    fn ask_reset(&mut self, cx: &mut Cx<'_>, m: &ManagementRequest, lun: Option<[u8; 8]>, attention: SenseCode) {
        if lun.is_some_and(|lun| self.lun(&lun).is_none()) {
            return self.respond(m.tag, management_response::NO_LUN);
        }
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
        if !self.is_over() {
            self.respond(tag, if done { management_response::COMPLETE } else { management_response::REJECTED });
        }
    }

    /// Aborts tasks, and answers when they have ended.
    fn abort(&mut self, cx: &mut Cx<'_>, tag: u32, which: &dyn Fn(&Task) -> bool) {
        let hit: Vec<u16> = self.tasks.iter().filter(|(_, t)| which(t)).map(|(slot, _)| slot as u16).collect();
        let tasks = self.abort_slots(cx, &hit);
        self.managements.push(Management { tag, tasks });
        self.answer_managements();
    }

    /// Aborts these tasks. The tags of those that something is away of.
    fn abort_slots(&mut self, cx: &mut Cx<'_>, slots: &[u16]) -> Vec<u32> {
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
                done.push(m.tag);
            }
            !m.tasks.is_empty()
        });
        for tag in done {
            self.respond(tag, management_response::COMPLETE);
        }
    }

    fn respond(&mut self, tag: u32, response: u8) {
        let answer = ManagementResponse { response, tag, stat_sn: self.out.take_stat_sn(), ..ManagementResponse::default() };
        self.out.push(answer.to_header(0));
    }
}

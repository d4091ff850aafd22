//! Task management that concerns all sessions with a target: on this core and on the others.
//!
//! ```text
//!  session ─► begin_reset ─► Reset to each core ─► its sessions abort ─► all have ended ─► ResetDone ─► answered
//!                       └──► the control plane: no unit of it is taken whole any more (`taken`) ──────┘
//! ```
//!
//! Invariant: a function is answered when no command that it aborts is with its volume, on any core, unless the session of that command is gone.

use super::{Msg, Target, TargetMsg};
use crate::session::Cx;
use format::scsi::SenseCode;
use rt::Rt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Functions of the sessions of one core that are under way.
const RESETS_MAX: usize = 64;

/// What each core is to do.
#[derive(Clone)]
pub(super) struct Reset {
    id: u64,
    home: usize,
    /// Who asked, at home.
    token: u64,
    target: Arc<str>,
    lun: Option<[u8; 8]>,
    attention: SenseCode,
}

/// Those of a core.
#[derive(Default)]
pub(super) struct Resets {
    serial: u64,
    /// Of sessions here, by ID.
    asked: BTreeMap<u64, AskedHere>,
    /// What aborts commands here.
    here: Vec<Here>,
}

/// A function that a session here asked for.
struct AskedHere {
    session: u64,
    tag: u32,
    /// Answers of cores and of the control plane that have not come.
    left: usize,
    /// One of them was a refusal.
    refused: bool,
}

/// A function that has aborted commands of this core.
struct Here {
    home: usize,
    /// Its ID there.
    id: u64,
    /// Session and tag of each command that has not ended.
    waits: Vec<(u64, u32)>,
}

impl Target {
    /// A session asks for it.
    pub(super) fn begin_reset(&mut self, rt: &Rt, seat: usize, (tag, lun, attention): (u32, Option<[u8; 8]>, SenseCode)) {
        let s = &mut self.seats[seat];
        if self.resets.asked.len() >= RESETS_MAX {
            return s.session.on_reset_done(tag, false);
        }
        self.resets.serial += 1;
        let (id, token, target) = (self.resets.serial, s.token, s.session.who().target.as_str().into());
        // Who clears a task set leaves reservations as they are (SAM-5 7.3).
        let units = if attention == SenseCode::COMMANDS_CLEARED_BY_ANOTHER { 0 } else { self.reset_units(seat, lun, id) };
        self.resets.asked.insert(id, AskedHere { session: token, tag, left: self.cores + units, refused: false });
        let reset = Reset { id, home: self.core, token, target, lun, attention };
        for core in (0..self.cores).filter(|c| *c != self.core) {
            self.msgs.push_back((core, TargetMsg(Msg::Reset(reset.clone()))));
        }
        self.on_reset(rt, reset);
    }

    /// The sessions of this core do it.
    pub(super) fn on_reset(&mut self, rt: &Rt, reset: Reset) {
        let of_target = |who: &crate::login::Who| *who.target == *reset.target;
        let seats: Vec<usize> = self.seats.iter().filter(|(_, s)| s.entered && of_target(s.session.who())).map(|(seat, _)| seat).collect();
        let mut waits = Vec::new();
        for seat in seats {
            let s = &mut self.seats[seat];
            let (token, own) = (s.token, reset.home == self.core && s.token == reset.token);
            let tags = s.session.reset(cx!(self, rt), reset.lun, reset.attention, own);
            waits.extend(tags.into_iter().map(|tag| (token, tag)));
            self.mark_all(seat);
        }
        self.resets.here.push(Here { home: reset.home, id: reset.id, waits });
        self.look_at_resets(rt);
    }

    /// Says of those that have nothing to wait for any more that they are done.
    pub(super) fn look_at_resets(&mut self, _: &Rt) {
        if self.resets.here.is_empty() {
            return;
        }
        let mut here = core::mem::take(&mut self.resets.here);
        here.retain_mut(|Here { home, id, waits }| {
            waits.retain(|(token, tag)| self.seat(*token).is_some_and(|seat| self.seats[seat].session.has_tag(*tag)));
            if !waits.is_empty() {
                return true;
            }
            if *home == self.core {
                self.on_reset_done(*id, true);
            } else {
                self.msgs.push_back((*home, TargetMsg(Msg::ResetDone { id: *id })));
            }
            false
        });
        self.resets.here = here;
    }

    /// A core has done it, or the control plane its part of it.
    pub(super) fn on_reset_done(&mut self, id: u64, done: bool) {
        let Some(asked) = self.resets.asked.get_mut(&id) else { return };
        asked.left -= 1;
        asked.refused |= !done;
        if asked.left > 0 {
            return;
        }
        let AskedHere { session, tag, refused, .. } = *asked;
        self.resets.asked.remove(&id);
        if let Some(seat) = self.seat(session) {
            self.seats[seat].session.on_reset_done(tag, !refused);
            self.mark_all(seat);
        }
    }
}

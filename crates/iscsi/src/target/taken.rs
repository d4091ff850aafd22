//! Units that sessions have taken whole by RESERVE (SPC-2 5.5.1): they are given back when the session ends, and by a reset.
//!
//! ```text
//!  host logs out ─► GiveUnit ───────────────────────┐                    ┌► the logout is answered
//!  session ends, or is found to be over ─► GiveUnit ┼─► control plane ───┼► not now: asked again at the next tick
//!  reset of a unit or of the target ─► ResetUnit ───┘                    └► the reset is answered
//! ```
//!
//! Owns: what this core has asked for, and not for a command.
//! Invariant: no unit stays taken by a session of this node that is over, once the control plane can be asked.

use super::{Away, Target};
use crate::session::Cx;
use crate::shared::{Shared, host_id};
use crate::view::{View, portal_group};
use base::VolumeId;
use base::hooks::{self, SeededFault};
use cluster::reservation::{Command, State, TakenBy};
use format::scsi::Lun;
use frontend::{ControlVerb, Refused, RequestedBy};
use rt::Rt;
use std::collections::{BTreeSet, VecDeque};

/// Why a unit is to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// The session that has it is over.
    Session(VolumeId),
    /// The reset with this ID.
    Reset(u64),
}

/// See the module.
#[derive(Default)]
pub(super) struct TakenUnits {
    asks: VecDeque<(Ends, RequestedBy, ControlVerb)>,
    /// Volumes that are being given back.
    giving: BTreeSet<VolumeId>,
    /// Sessions whose hosts log out, and which of these volumes each waits for.
    leaving: Vec<(u64, BTreeSet<VolumeId>)>,
    /// The control plane could not do it: it is asked again.
    again: bool,
}

impl TakenUnits {
    pub(super) fn has_asks(&self) -> bool {
        !self.asks.is_empty()
    }
    /// Whether the next tick has something to do.
    pub(super) fn is_due(&self) -> bool {
        self.again
    }
}

/// A unit is to be given back, in the name of who has taken it whole.
fn give(state: &State, volume: VolumeId) -> Option<(RequestedBy, ControlVerb)> {
    let (host, session) = state.taken()?;
    let by = RequestedBy {
        ports: Default::default(),
        host: state.port(host).map(|p| p.name.clone()).unwrap_or_default(),
        host_id: *host.as_bytes(),
        export: String::new(),
        session: session.session,
    };
    Some((by, ControlVerb::Reservation { volume, command: Command::GiveUnit(session) }))
}

/// Volumes that sessions of this node have taken that are over, with the reservation of each.
fn left_behind<'a>(view: &'a View, shared: &'a Shared) -> impl Iterator<Item = (VolumeId, &'a State)> {
    let own = portal_group(view.slot);
    view.volumes.iter().flatten().filter_map(move |v| {
        let state = v.reservation.as_deref()?;
        let (by, session) = state.taken()?;
        let goes_on = shared.is_of(session.session, by) && !hooks::seeded(SeededFault::TakenUnitGiven);
        (session.port == own && !goes_on).then_some((v.id, state))
    })
}

impl Target {
    /// Gives units back that sessions of this node have taken that are over.
    pub(super) fn give_units(&mut self, rt: &Rt) {
        self.taken.again = false;
        for (volume, state) in left_behind(&self.view, &self.shared) {
            if self.taken.giving.insert(volume)
                && let Some((by, what)) = give(state, volume)
            {
                self.taken.asks.push_back((Ends::Session(volume), by, what));
            }
        }
        if self.taken.has_asks() {
            rt.wake(self.core);
        }
    }

    /// The host of a session logs out: its units are given back first.
    pub(super) fn give_units_of(&mut self, rt: &Rt, seat: usize) {
        let (token, own) = (self.seats[seat].token, self.seats[seat].session.tsih());
        let mut waits = BTreeSet::new();
        for v in self.view.volumes.iter().flatten() {
            let Some(state) = v.reservation.as_deref() else { continue };
            let is_own = |(by, of): (base::HostId, TakenBy)| {
                of == TakenBy { port: portal_group(self.view.slot), session: own } && self.shared.is_of(own, by)
            };
            if state.taken().is_some_and(is_own)
                && let Some((by, what)) = give(state, v.id)
            {
                waits.insert(v.id);
                if self.taken.giving.insert(v.id) {
                    self.taken.asks.push_back((Ends::Session(v.id), by, what));
                }
            }
        }
        self.taken.leaving.push((token, waits));
        self.look_at_leaving(rt);
        rt.wake(self.core);
    }
    /// Sessions that wait for nothing more may end.
    fn look_at_leaving(&mut self, rt: &Rt) {
        let done: Vec<u64> = self.taken.leaving.extract_if(.., |(_, waits)| waits.is_empty()).map(|(token, _)| token).collect();
        for seat in done.into_iter().filter_map(|token| self.seat(token)).collect::<Vec<_>>() {
            self.seats[seat].session.on_units_given(cx!(self, rt));
            self.mark_all(seat);
        }
    }

    /// A session resets a unit of its target, or all: they are taken by nobody then. How many answers are to come.
    pub(super) fn reset_units(&mut self, seat: usize, lun: Option<[u8; 8]>, id: u64) -> usize {
        let session = &self.seats[seat].session;
        let who = session.who();
        let by = RequestedBy {
            ports: Default::default(),
            host: who.host.clone(),
            host_id: *host_id(who).as_bytes(),
            export: who.target.clone(),
            session: session.tsih(),
        };
        let only = lun.and_then(|lun| Lun::parse(&lun));
        let is_meant = |n: u32| lun.is_none() || only == Some(Lun::Unit(n.into()));
        let units = self.view.target(&who.target).into_iter().flat_map(|t| &t.units);
        let volumes = units.filter(|(n, u)| is_meant(**n) && u.hosts.shows(&who.host)).map(|(_, u)| u.volume.0 as usize);
        let before = self.taken.asks.len();
        for v in volumes.filter_map(|n| self.view.volumes.get(n)?.as_ref()) {
            if v.reservation.as_deref().is_some_and(|state| state.taken().is_some()) {
                let what = ControlVerb::Reservation { volume: v.id, command: Command::ResetUnit };
                self.taken.asks.push_back((Ends::Reset(id), by.clone(), what));
            }
        }
        self.taken.asks.len() - before
    }

    /// The next of these for the control plane.
    pub(super) fn pop_unit_ask(&mut self) -> Option<(Away, RequestedBy, ControlVerb)> {
        let (ends, by, what) = self.taken.asks.pop_front()?;
        Some((Away::Unit(ends), by, what))
    }

    /// The control plane's answer.
    pub(super) fn on_unit_answer(&mut self, rt: &Rt, ends: Ends, result: Result<(), Refused>) {
        match ends {
            Ends::Session(volume) => {
                self.taken.giving.remove(&volume);
                self.taken.leaving.iter_mut().for_each(|(_, waits)| {
                    waits.remove(&volume);
                });
                self.look_at_leaving(rt);
                self.on_events(rt);
                if matches!(result, Err(Refused::Busy | Refused::Unserved)) {
                    self.taken.again = true;
                    self.arm_tick(rt);
                }
            }
            Ends::Reset(id) => {
                // A volume that is gone is taken by nobody.
                self.on_reset_done(id, matches!(result, Ok(()) | Err(Refused::NoUnit)));
                rt.wake(self.core);
            }
        }
    }
}

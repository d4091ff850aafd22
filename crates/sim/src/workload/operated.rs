//! What the operator does to volumes while they are used, as the workload knows it.
//!
//! Invariants: what was wiped out by a shrink or a format may come back only by a command that was not answered when the place could be
//! reached again; while a volume is read-only on every core nothing of it changes.
//! Never: decides anything; the operator does.

use super::kept::{Flight, Volume, Workload};
use crate::acts::Act;
use crate::faults::Class;
use crate::plan::OpKind;
use crate::plan::VolumePlan;
use crate::rights::Need;
use crate::served::{State, Wants};
use crate::trace::Place;
use format::nvme::{Status, StatusCode};

impl Workload {
    /// What a command needs of its volume.
    fn wants(&self, flight: &Flight) -> Wants {
        let v = &self.volumes[flight.place.volume];
        let ends = core::iter::once(&flight.place).chain(&flight.more).map(|p| p.block + p.blocks);
        let ranged = !matches!(flight.kind, OpKind::Flush | OpKind::Reserve | OpKind::Report);
        let end = if ranged { v.first_block + ends.max().unwrap_or(0) } else { 0 };
        Wants { nsid: flight.nsid, end, changes: flight.need() == Some(Need::Write) && flight.kind != OpKind::Flush }
    }
    /// Whether a command may have been carried out, as the volume was served since it was sent.
    pub(super) fn may_be_served(&self, flight: &Flight, now: u64) -> bool {
        let decided_elsewhere = matches!(flight.kind, OpKind::Reserve | OpKind::Report);
        decided_elsewhere || self.volumes[flight.place.volume].served.may_pass(self.wants(flight), flight.sent, now)
    }
    /// Whether a command may have been refused for how the volume was served.
    pub(super) fn may_be_unserved(&self, flight: &Flight, status: Status, now: u64) -> bool {
        self.volumes[flight.place.volume].served.may_refuse(self.wants(flight), status, flight.sent, now)
    }
    /// What was refused for how the volume is served has not taken effect; parts of a command with several may have.
    pub(super) fn unserved(&mut self, op: u64, flight: &Flight, status: Status, now: u64) {
        self.may_waste_share(flight, now);
        let in_parts = matches!(flight.kind, OpKind::Trim | OpKind::Zero | OpKind::Lose | OpKind::Copy);
        let whole = !in_parts && status.code != StatusCode::NAMESPACE_NOT_READY;
        let changes = flight.need() == Some(Need::Write);
        self.each_change(op, flight, |cell| match (changes, whole) {
            (false, _) => {}
            (true, true) => cell.refused(op),
            (true, false) => cell.unsure(op, now),
        });
    }

    /// The operator begins something.
    pub fn acting(&mut self, now: u64, to: &str, act: Act) {
        self.note(now, format!("{to}: {act:?}"));
        *self.counts.acts.entry(act.name()).or_default() += 1;
    }
    /// A capacity device has come, or has left.
    pub fn changed_devices(&mut self, now: u64, number: u8, came: bool) {
        let what = if came { "DeviceAdded" } else { "DeviceRemoved" };
        self.note(now, format!("capacity device {number}: {what}"));
        *self.counts.acts.entry(what.into()).or_default() += 1;
    }
    /// A change of the group's devices was refused, which only devices with errors may cause.
    pub fn devices_stay(&mut self, now: u64, number: u8, error: &str) {
        self.note(now, format!("capacity device {number}: {error}"));
        if self.plan.class == Class::Crash {
            self.fail(format!("a change of the group's devices was refused, capacity device {number}: {error}"), None);
        }
    }
    /// The host starts, and serves the volumes so.
    pub fn node_started(&mut self, states: impl Iterator<Item = State>, now: u64) {
        for (at, state) in (0..self.volumes.len()).zip(states) {
            if state != self.volumes[at].served.newest() {
                self.change_served(at, state, now);
            }
            self.volumes[at].served.restarted(state, now);
            self.limits_are(at, state.limits, true, now);
        }
        self.counts_begin();
        self.in_force(now);
    }
    /// All is served.
    pub fn served_since(&mut self, now: u64) {
        self.undisturbed_since = self.undisturbed.then_some(now);
    }
    /// The operator has decided how a volume is to be served; every core will do so soon.
    pub fn decided(&mut self, volume: usize, state: State, now: u64) {
        self.change_served(volume, state, now);
        self.volumes[volume].served.decided(state, now);
    }

    fn change_served(&mut self, volume: usize, state: State, now: u64) {
        let before = self.volumes[volume].served.newest();
        let op = self.next_op;
        self.next_op += 1;
        let v = &mut self.volumes[volume];
        if before.nsid.is_some() && state.nsid.is_none() || before.nsid != state.nsid {
            v.namespace.nsid = state.nsid.unwrap_or(v.namespace.nsid);
        }
        // What could not be reached can be again, and is zeroes: all of it, or what lies behind the old end.
        let (old, new) = (v.used_of(before.blocks), v.used_of(state.blocks));
        let range = if before.formatting && !state.formatting { 0..new } else { old.min(new)..new };
        if !range.is_empty() {
            v.cells[range.start as usize..range.end as usize].iter_mut().for_each(|cell| cell.erased(op, now));
            self.copies_may_bring_zeroes(volume, now);
            self.verify_later(volume, range);
        }
        let v = &mut self.volumes[volume];
        if new < old {
            v.end = new;
        }
        if before.read_only && !state.read_only {
            v.operated.frozen = false;
            for (block, c) in core::mem::take(&mut v.operated.withheld) {
                let flying = self.flights.contains_key(&c.change);
                if flying || self.indeterminate.get(&c.change).is_some_and(|(_, until)| *until > now) {
                    v.cells[block as usize].release(c);
                }
            }
        }
    }

    /// Every core serves what was decided last.
    pub fn in_force(&mut self, now: u64) {
        for at in 0..self.volumes.len() {
            let v = &mut self.volumes[at];
            v.served.in_force(now);
            let state = v.served.newest();
            v.end = v.used_of(state.blocks);
            self.limits_are(at, state.limits, false, now);
            self.freeze(at, now);
        }
    }
    /// A volume that is read-only by now stays as it is while it is.
    pub(super) fn freeze(&mut self, at: usize, now: u64) {
        let v = &mut self.volumes[at];
        if v.served.newest().read_only && !v.operated.frozen {
            v.operated.frozen = true;
            for (block, cell) in v.cells.iter_mut().enumerate() {
                let withheld = cell.withhold(|_| true, now);
                v.operated.withheld.extend(withheld.into_iter().map(|c| (block as u64, c)));
            }
            self.look_at_changes_of(at);
        }
    }
    /// What was on its way when a volume became read-only has come by now, or does not while it is: its places are read now, and when
    /// they are answered.
    fn look_at_changes_of(&mut self, volume: usize) {
        let places = self.flights.values().filter(|f| f.place.volume == volume && f.need() == Some(Need::Write)).map(|f| f.place);
        let places: Vec<Place> = places.filter(|p| p.blocks > 0).collect();
        self.to_verify.extend(places);
    }
    /// A command was answered: if it was on its way when its volume became read-only, what it did is looked at.
    pub(super) fn answered_while_frozen(&mut self, op: u64, flight: &Flight) {
        let withheld = &mut self.volumes[flight.place.volume].operated.withheld;
        let before = withheld.len();
        withheld.retain(|(_, c)| c.change != op);
        if withheld.len() < before {
            self.to_verify.push_back(flight.place);
        }
    }
    /// A connection is gone: its commands are over some time.
    pub(super) fn frozen_given_up(&mut self, op: u64, flight: &Flight, until: u64) {
        let v = &mut self.volumes[flight.place.volume];
        for (_, c) in v.operated.withheld.iter_mut().filter(|(_, c)| c.change == op) {
            c.settled = c.settled.min(until);
        }
        if flight.kind == OpKind::Copy && self.operated {
            // Its source may be wiped out before it comes to it.
            self.each_change(op, flight, |cell| {
                cell.sent(op, 0, flight.sent);
                cell.unsure(op, until);
            });
        }
    }

    /// The operator frees what lies behind the end of a volume, or all of one that is being formatted.
    pub fn freeing(&mut self, volume: usize, now: u64) {
        let op = self.next_op;
        self.next_op += 1;
        let v = &mut self.volumes[volume];
        let state = v.served.newest();
        let from = if state.formatting { 0 } else { v.used_of(state.blocks) };
        let range = from..v.cells.len() as u64;
        v.cells[from as usize..].iter_mut().for_each(|cell| cell.sent(op, 0, now));
        v.operated.freeing = Some((range, op));
        self.copies_may_bring_zeroes(volume, now);
    }
    /// It is done.
    pub fn freed(&mut self, volume: usize, now: u64) {
        let v = &mut self.volumes[volume];
        let Some((range, op)) = v.operated.freeing.take() else { return };
        v.cells[range.start as usize..range.end as usize].iter_mut().for_each(|cell| cell.done(op, now));
    }
    /// A Copy under way may read zeroes now.
    fn copies_may_bring_zeroes(&mut self, volume: usize, now: u64) {
        let copies = self.flights.iter().filter(|(_, f)| f.kind == OpKind::Copy && f.place.volume == volume);
        for (op, place, sent) in copies.map(|(op, f)| (*op, f.place, f.sent.min(now))).collect::<Vec<_>>() {
            let cells = &mut self.volumes[volume].cells[place.block as usize..][..place.blocks as usize];
            cells.iter_mut().for_each(|cell| cell.sent(op, 0, sent));
        }
    }
    /// What can be reached again is read.
    fn verify_later(&mut self, volume: usize, range: core::ops::Range<u64>) {
        let step = (64 << 10) / u64::from(self.volumes[volume].namespace.lba_bytes);
        for block in range.clone().step_by(step as usize) {
            self.to_verify.push_back(Place { volume, block, blocks: step.min(range.end - block) });
        }
    }

    /// Another volume is there.
    pub fn made(&mut self, plan: &VolumePlan, state: State, now: u64) {
        let away = State { nsid: None, ..state };
        let mut volume = Volume::new(plan, away, &self.hosts);
        volume.namespace.nsid = state.nsid.unwrap_or(0);
        volume.served.decided(state, now);
        self.volumes.push(volume);
    }
    /// Any volume that there is now.
    pub(super) fn draw_volume(&mut self) -> usize {
        let drawn = self.rng.below(self.volumes.len() as u64) as usize;
        let is_there = |at: &usize| !self.volumes[*at].operated.gone;
        (drawn..self.volumes.len()).chain(0..drawn).find(is_there).unwrap_or(drawn)
    }
    /// The volumes that there are now.
    pub fn all_live(&self) -> Vec<usize> {
        (0..self.volumes.len()).filter(|at| !self.volumes[*at].operated.gone).collect()
    }
    /// A volume was deleted.
    pub fn deleted(&mut self, volume: usize) {
        self.volumes[volume].operated.gone = true;
    }
    /// How a volume is served.
    pub fn state_of(&self, volume: usize) -> State {
        self.volumes[volume].served.newest()
    }
    /// The clients do nothing more.
    pub fn close(&mut self) {
        self.closed = true;
    }
    /// The first volume that is attached, from this one on, and its namespace.
    pub fn attached_from(&self, volume: usize) -> Option<(usize, u32)> {
        (volume..self.volumes.len()).find_map(|at| Some((at, self.volumes[at].served.newest().nsid?)))
    }
}

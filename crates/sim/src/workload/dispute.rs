//! Reservations: what clients ask for, what the operator has decided, and what an answer to a reservation command proves.
//!
//! Invariant: what a fenced host has sent is withheld from the answer that fenced it until that host has its rights again.
//! Never: decides a command; the operator does.

use super::kept::{Flight, Workload};
use super::order::{Order, Reported, What};
use crate::plan::OpKind;
use crate::rights::Need;
use crate::trace::{Event, Place};
use base::HostId;
use cluster::reservation::{Command, Outcome, Refusal, ReservationType, State};
use format::nvme::reservation::{PTPL_CLEAR, PTPL_KEEP, PTPL_SET};
use format::nvme::{Status, StatusCode};
use initiator::reservation::Reservation;
use std::collections::BTreeSet;

/// A reservation command that was sent and not heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    op: u64,
    client: usize,
    over_iscsi: bool,
    volume: usize,
    wanted: Wanted,
}

/// What a client wants of a reservation.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Reservation(Reservation),
    /// RESERVE, or RELEASE, of the whole unit.
    Unit {
        take: bool,
    },
}

impl Asked {
    /// How the command of a host that is not registered ends over iSCSI without being asked for (SPC-4 table 57): there is nothing to give up, or no
    /// key to name.
    fn ends_at_once(&self) -> Option<StatusCode> {
        let Wanted::Reservation(reservation) = self.wanted else { return None };
        match reservation {
            _ if !self.over_iscsi => None,
            Reservation::Unregister { key: None } => Some(StatusCode::SUCCESS),
            Reservation::Unregister { key: Some(_) } | Reservation::Replace { old: Some(_), .. } => Some(StatusCode::RESERVATION_CONFLICT),
            _ => None,
        }
    }
    /// Whether a node may ask for this when it gets the command.
    fn may_mean(&self, command: &Command) -> bool {
        let reservation = match self.wanted {
            Wanted::Reservation(reservation) => reservation,
            Wanted::Unit { take } => return matches!((take, command), (true, Command::TakeUnit(_)) | (false, Command::GiveUnit(_))),
        };
        match (reservation, *command) {
            (Reservation::Register { key, cptpl }, Command::Register { nrkey, ptpl }) => {
                // SCSI has no word for "as it is".
                let kept = cptpl == PTPL_KEEP && !self.over_iscsi;
                (nrkey, ptpl) == (key, (!kept).then_some(cptpl == PTPL_SET))
            }
            // REGISTER of SCSI without a key, of a host that has one already: that is for its owner to refuse.
            (Reservation::Register { key, .. }, Command::Replace { crkey, nrkey, .. }) if self.over_iscsi => {
                (crkey, nrkey) == (Some(0), key)
            }
            (Reservation::Unregister { key }, Command::Unregister { crkey, .. }) => crkey == key,
            (Reservation::Replace { old, new }, Command::Replace { crkey, nrkey, .. }) => (crkey, nrkey) == (old, new),
            (Reservation::Acquire { key, rtype }, Command::Acquire { crkey, rtype: kind }) => (crkey, kind.byte()) == (key, rtype),
            (Reservation::Preempt { key, other, rtype, abort }, Command::Preempt { crkey, prkey, rtype: kind, abort: aborts }) => {
                (crkey, prkey, kind.byte(), aborts) == (key, other, rtype, abort)
            }
            (Reservation::Release { key, rtype }, Command::Release { crkey, rtype: kind }) => {
                crkey == key && kind.is_some_and(|kind| kind.byte() == rtype)
            }
            (Reservation::Clear { key }, Command::Clear { crkey }) => crkey == key,
            _ => false,
        }
    }
}

impl Workload {
    /// A Register, Acquire or Release that makes some sense, or a Report.
    pub(super) fn begin_reservation(&mut self, client: usize, kind: OpKind, now: u64) -> Option<Order> {
        // One at a time of each client, so that it can be known which one was decided.
        if self.calm || kind == OpKind::Reserve && self.flights.values().any(|f| f.client == client && f.kind == OpKind::Reserve) {
            return None;
        }
        let volume = self.draw_volume();
        // Who was fenced with changes on the way stays so for a while: they have to come to nothing.
        if kind == OpKind::Reserve && !self.volumes[volume].withheld.is_empty() && !self.rng.one_in(16) {
            return None;
        }
        let ns = self.volumes[volume].namespace;
        let nsid = ns.nsid;
        let over_iscsi = self.is_over_iscsi(client);
        let (what, wanted) = match kind {
            OpKind::Reserve => match self.draw_unit(client, volume, over_iscsi) {
                Some(take) => (What::Unit { take }, Some(Wanted::Unit { take })),
                None => {
                    let reservation = self.draw_reservation(client, volume);
                    (What::Reserve(reservation), Some(Wanted::Reservation(reservation)))
                }
            },
            _ => (What::Report, None),
        };
        if let Some(wanted) = wanted {
            self.asked.push(Asked { op: self.next_op, client, over_iscsi, volume, wanted });
        }
        let (op, place) = (self.next_op, Place { volume, block: 0, blocks: 0 });
        self.next_op += 1;
        self.trace.push(now, Event::Sent { op, client, kind, place, value: 0 });
        let (values, more, expected) = (Vec::new(), Vec::new(), Vec::new());
        let statuses = [None; 2];
        let flight = Flight { client, nsid, kind, place, sent: now, values, more, expected, open: 1, statuses, aborted: false };
        self.flights.insert(op, flight);
        *self.counts.ops.entry(kind).or_default() += 1;
        Some(Order { op, volume, ns, what })
    }

    /// Whether a client takes the unit whole now, or gives it back; mostly neither.
    fn draw_unit(&mut self, client: usize, volume: usize, over_iscsi: bool) -> Option<bool> {
        if !over_iscsi {
            return None;
        }
        let taken = self.volumes[volume].rights.newest().taken().map(|(by, _)| by == self.hosts[client]);
        match taken {
            // Who has it gives it back soon, so that others get on.
            Some(true) if !self.rng.one_in(4) => Some(false),
            Some(_) if self.rng.one_in(4) => Some(self.rng.one_in(2)),
            None if self.rng.one_in(6) => Some(!self.rng.one_in(6)),
            _ => None,
        }
    }

    fn draw_reservation(&mut self, client: usize, volume: usize) -> Reservation {
        let (rng, own, state) = (&mut self.rng, self.hosts[client], self.volumes[volume].rights.newest());
        let rtype = ReservationType::ALL[rng.below(6) as usize].byte();
        // A key of its own for each client, or now and then one that is not its own.
        let key = if rng.one_in(12) { 99 } else { state.registrants().get(&own).copied().unwrap_or(client as u64 + 1) };
        if !state.registrants().contains_key(&own) && !rng.one_in(12) {
            let cptpl = [PTPL_KEEP, PTPL_CLEAR, PTPL_SET][rng.below(3) as usize];
            return Reservation::Register { key, cptpl };
        }
        let others: Vec<u64> = state.registrants().iter().filter(|(h, _)| **h != own).map(|(_, key)| *key).collect();
        let held = state.rtype().map_or(rtype, ReservationType::byte);
        match rng.below(16) {
            0..4 => Reservation::Acquire { key, rtype },
            4..7 if !others.is_empty() => {
                Reservation::Preempt { key, other: others[rng.below(others.len() as u64) as usize], rtype, abort: rng.one_in(2) }
            }
            4..11 => Reservation::Release { key, rtype: if rng.one_in(12) { rtype } else { held } },
            11 | 12 => Reservation::Clear { key },
            13 | 14 => Reservation::Unregister { key: (!rng.one_in(3)).then_some(key) },
            _ => Reservation::Replace { old: (!rng.one_in(3)).then_some(key), new: 10 + rng.below(80) },
        }
    }

    /// The node has asked for this in the name of a host: it must be what the host has sent.
    fn check_asked(&mut self, volume: usize, by: HostId, command: &Command, now: u64) -> Option<usize> {
        // Examinations have hosts of their own.
        let client = self.volumes[volume].rights.client_of(by)?;
        if matches!(command, Command::GiveUnit(_)) && self.ends_with_session(client, volume, now) {
            return Some(client);
        }
        if !self.asked.iter().any(|a| (a.client, a.volume) == (client, volume) && a.may_mean(command)) {
            self.fail(format!("{command:?} on volume {volume} is not what client {client} has sent: {:?}", self.asked), None);
        }
        Some(client)
    }

    /// A unit is given back that its client has not released: what it took may end with its session, which goes on only in the eyes of the client.
    fn ends_with_session(&mut self, client: usize, volume: usize, now: u64) -> bool {
        if self.asked.iter().any(|a| (a.client, a.volume) == (client, volume) && matches!(a.wanted, Wanted::Unit { take: false })) {
            return false;
        }
        self.units_given.push((client, now));
        true
    }
    /// A client has a session from now on, and none of those before.
    pub fn session_began(&mut self, client: usize) {
        self.units_given.retain(|(of, _)| *of != client);
    }
    /// A command of a client that was sent at `sent` has succeeded in its session: no unit was given back for the end of it before.
    pub(super) fn session_goes_on(&mut self, client: usize, sent: u64) {
        // With several nodes it may be the end of an earlier session, which a node hears of late.
        if self.several.is_none() && self.units_given.iter().any(|(of, at)| *of == client && *at < sent) {
            self.fail(format!("what client {client} has taken whole was given back, and its session goes on"), None);
        }
    }

    /// The operator has carried out a reservation command; every core will serve it soon.
    pub fn reserved(&mut self, volume: usize, by: HostId, state: State, command: &Command, outcome: &Outcome, now: u64) {
        let Some(client) = self.check_asked(volume, by, command, now) else { return };
        self.note(now, format!("client {client} has changed the reservation of volume {volume}: {command:?}"));
        let v = &mut self.volumes[volume];
        if !v.rights.decided(state, client, command, outcome, now) {
            let text = format!("client {client}: {command:?} on volume {volume} came to {:?} and {outcome:?}", v.rights.newest());
            return self.fail(format!("{text}, which is not what the standard says"), None);
        }
        self.release_withheld(volume, now);
    }
    /// Who may write again by the newest state: what was withheld may come.
    pub(super) fn release_withheld(&mut self, volume: usize, now: u64) {
        let v = &mut self.volumes[volume];
        let (flights, indeterminate) = (&self.flights, &self.indeterminate);
        for (client, block, c) in core::mem::take(&mut v.withheld) {
            if !v.rights.may_pass(client, Need::Write, now, now) {
                v.withheld.push((client, block, c));
            } else if flights.contains_key(&c.change) || indeterminate.get(&c.change).is_some_and(|(_, until)| *until > now) {
                v.cells[block as usize].release(c);
            }
        }
    }
    /// The operator has refused a reservation command.
    pub fn reservation_refused(&mut self, volume: usize, by: HostId, command: &Command, why: Refusal, now: u64) {
        if !self.volumes[volume].rights.is_rightly_refused(by, command, why) {
            return self
                .fail(format!("{command:?} on volume {volume} was refused with {why:?}, which is not what the standard says"), None);
        }
        if let Some(client) = self.check_asked(volume, by, command, now) {
            self.volumes[volume].rights.refused(client, why, now);
        }
    }

    pub(super) fn reserve_done(&mut self, op: u64, flight: &Flight, status: Status, now: u64) {
        let at_once = self.asked.iter().find(|a| a.op == op).and_then(Asked::ends_at_once) == Some(status.code);
        // What was aborted, or is to be tried again, may be with the operator all the same.
        if status.is_success() || matches!(status.code, StatusCode::RESERVATION_CONFLICT | StatusCode::INVALID_FIELD) {
            self.asked.retain(|a| a.op != op);
        }
        if self.may_be_unserved(flight, status, now) {
            return;
        }
        let may_be_later = self.may_be_later(flight, status, now);
        let v = &mut self.volumes[flight.place.volume];
        let refused = |why| v.rights.was_refused(flight.client, why, flight.sent);
        let at_once = at_once && v.rights.may_be_unregistered(flight.client, flight.sent, now);
        let taken = v.rights.may_be_taken_from(flight.client, flight.sent, now);
        let legal = match status.code {
            _ if at_once => true,
            StatusCode::RESERVATION_CONFLICT if taken => true,
            _ if status.is_success() => v.rights.was_decided(flight.client, flight.sent),
            StatusCode::RESERVATION_CONFLICT => refused(Refusal::Conflict),
            StatusCode::INVALID_FIELD => refused(Refusal::InvalidField),
            StatusCode::ABORT_REQUESTED => flight.aborted,
            _ => may_be_later,
        };
        if !legal {
            return self.fail(format!("#{op} of client {} was answered with {status:?}, which nobody decided", flight.client), None);
        }
        if !status.is_success() {
            return;
        }
        // What the fenced hosts have under way has ended; what of theirs comes now is refused.
        let fenced = v.rights.fenced(flight.client, flight.sent, self.plan.clients.len());
        for client in fenced {
            let flights = self.flights.iter().filter(|(_, f)| f.client == client).map(|(op, _)| *op);
            let indeterminate = self.indeterminate.iter().filter(|(_, (c, _))| *c == client).map(|(op, _)| *op);
            let ops: BTreeSet<u64> = flights.chain(indeterminate).collect();
            for (block, cell) in v.cells.iter_mut().enumerate() {
                let withheld = cell.withhold(|change| ops.contains(&change), now);
                if !withheld.is_empty() {
                    self.to_probe.push_back((flight.client, Place { volume: flight.place.volume, block: block as u64, blocks: 1 }));
                }
                v.withheld.extend(withheld.into_iter().map(|c| (client, block as u64, c)));
            }
        }
    }

    pub(super) fn report_done(&mut self, op: u64, flight: &Flight, status: Status, reported: Option<&Reported>, now: u64) {
        if !status.is_success() {
            let taken = self.volumes[flight.place.volume].rights.may_be_taken_from(flight.client, flight.sent, now);
            let legal = status.code == StatusCode::ABORT_REQUESTED && flight.aborted
                || status.code == StatusCode::RESERVATION_CONFLICT && taken && self.is_over_iscsi(flight.client)
                || self.may_be_later(flight, status, now)
                || self.may_be_unserved(flight, status, now);
            if !legal {
                self.fail(format!("#{op} Report failed with {status:?}"), None);
            }
            return;
        }
        let same = |state: &State| reported.is_some_and(|reported| reported.is(state));
        if !self.volumes[flight.place.volume].rights.may_be_reported(flight.sent, now, same) {
            self.fail(format!("#{op} reported {reported:?}, which was the case at no time since it was sent"), None);
        }
    }
}

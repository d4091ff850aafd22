//! Reservations: persistent ones (SPC-4 5.9, 6.15, 6.16) and those of the whole unit (SPC-2 5.5.1): what a command asks of the control plane, what
//! it answers, and the reports.
//!
//! Invariants: a command is answered when the change is durable, served on all cores, and what it forbids has ended; what a registration is
//! decided by is the host port (name and ISID), whatever portal it came by.
//! Never: decides what a reservation command means: that is `cluster::reservation`, for all protocols.

use super::outcome::Outcome;
use super::task::{Job, Phase};
use super::{Cx, Session};
use crate::limits::MOVE_LIST_BYTES_MAX;
use crate::login::Who;
use crate::shared::host_id;
use crate::unit::illegal;
use crate::view::{Unit, portal_group};
use base::HostId;
use base::hooks::{self, SeededFault};
use cluster::reservation::{self as engine, HostPort, State, TakenBy};
use format::scsi::reservation::{
    Capabilities, FullStatus, MoveList, OUT_LIST_BYTES, OutList, ReservationType, ReserveIn, ReserveOut, build_full_status, build_keys,
    build_reservation,
};
use format::scsi::{Invalid, PersistentReserveOut, ScsiStatus, Sense, SenseCode, SenseKey, TransportId};
use frontend::{ControlVerb, Refused, Reply, RequestedBy};
use object::VolumeRef;
use std::collections::BTreeMap;

/// A control request of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The session, and the slot of its command in the 16 low bits.
    pub request: u64,
    /// Who asks.
    pub by: RequestedBy,
    /// What for.
    pub what: ControlVerb,
}

const TYPES: [(ReservationType, engine::ReservationType); 6] = [
    (ReservationType::WriteExclusive, engine::ReservationType::WriteExclusive),
    (ReservationType::ExclusiveAccess, engine::ReservationType::ExclusiveAccess),
    (ReservationType::WriteExclusiveRegistrantsOnly, engine::ReservationType::WriteExclusiveRegistrantsOnly),
    (ReservationType::ExclusiveAccessRegistrantsOnly, engine::ReservationType::ExclusiveAccessRegistrantsOnly),
    (ReservationType::WriteExclusiveAllRegistrants, engine::ReservationType::WriteExclusiveAllRegistrants),
    (ReservationType::ExclusiveAccessAllRegistrants, engine::ReservationType::ExclusiveAccessAllRegistrants),
];

fn engine_type(kind: Option<ReservationType>) -> Result<engine::ReservationType, Invalid> {
    TYPES.into_iter().find(|(scsi, _)| Some(*scsi) == kind).map(|(_, of)| of).ok_or(PersistentReserveOut::BAD_TYPE)
}
fn scsi_type(kind: engine::ReservationType) -> ReservationType {
    TYPES.into_iter().find(|(_, of)| *of == kind).map_or(ReservationType::WriteExclusive, |(scsi, _)| scsi)
}

/// PERSISTENT RESERVE OUT as it may be carried out; what is optional and not served is refused.
pub(super) fn job(p: &PersistentReserveOut) -> Result<Job, Outcome> {
    match p.action {
        ReserveOut::RegisterAndMove => {
            let fits = (OUT_LIST_BYTES..=MOVE_LIST_BYTES_MAX).contains(&(p.list_length as usize));
            return if fits { Ok(Job::Reserve(*p)) } else { Err(Invalid::LIST_LENGTH.into()) };
        }
        ReserveOut::Reserve | ReserveOut::Release | ReserveOut::Preempt | ReserveOut::PreemptAndAbort => {
            engine_type(p.kind)?;
        }
        ReserveOut::Register | ReserveOut::RegisterAndIgnore | ReserveOut::Clear => {}
    }
    // With SPEC_I_PT it would be longer.
    if p.list_length as usize != OUT_LIST_BYTES { Err(Invalid::LIST_LENGTH.into()) } else { Ok(Job::Reserve(*p)) }
}

/// PERSISTENT RESERVE IN.
pub(super) fn report(state: &State, action: ReserveIn) -> Result<Vec<u8>, Sense> {
    Ok(match action {
        ReserveIn::ReadKeys => build_keys(state.generation(), state.registrants().values().copied()),
        ReserveIn::ReadReservation => {
            let holder = state.registrants().iter().find(|(host, _)| state.is_holder(**host)).map_or(0, |(_, key)| *key);
            let held = state.rtype().map(|kind| (if kind.is_all_registrants() { 0 } else { holder }, scsi_type(kind)));
            build_reservation(state.generation(), held)
        }
        ReserveIn::ReportCapabilities => {
            let (persist_capable, persist_active) = (true, state.ptpl());
            Capabilities { persist_capable, persist_active, all_target_ports: true, ..Capabilities::default() }.to_bytes().to_vec()
        }
        ReserveIn::ReadFullStatus => {
            let list: Vec<FullStatus> = state.registrants().iter().map(|(host, key)| full_status(state, *host, *key)).collect();
            build_full_status(state.generation(), list.iter())
        }
    })
}

/// A registration. It holds for the ports of all nodes.
fn full_status(state: &State, host: HostId, key: u64) -> FullStatus {
    let holds = state.rtype().filter(|_| state.is_holder(host)).map(scsi_type);
    let transport_id = match state.port(host) {
        Some(port) => TransportId { name: port.name.clone(), isid: Some(port.number) },
        // A host of NVMe/TCP, which has no name in iSCSI.
        None => TransportId { name: cluster::default_iqn(&format!("host:{host}")), isid: None },
    };
    FullStatus { key, all_target_ports: true, holds, port: 0, transport_id }
}

/// What is to be done for a list; `Err`: how the command ends at once.
fn command(p: &PersistentReserveOut, list: &OutList, registered: bool) -> Result<engine::Command, Outcome> {
    use engine::Command as Do;
    let conflict = Outcome::Status(ScsiStatus::ReservationConflict);
    let (crkey, nrkey, ptpl) = (list.key, list.action_key, Some(list.persist));
    Ok(match (p.action, registered) {
        // Who is not registered has no key (SPC-4 table 57).
        (ReserveOut::Register, false) if crkey != 0 => return Err(conflict),
        (ReserveOut::Register | ReserveOut::RegisterAndIgnore, false) if nrkey == 0 => return Err(Outcome::GOOD),
        (ReserveOut::Register, false) => Do::Register { nrkey, ptpl },
        (ReserveOut::Register, true) if nrkey == 0 => Do::Unregister { crkey: Some(crkey), ptpl },
        (ReserveOut::Register, true) => {
            Do::Replace { crkey: Some(crkey).filter(|_| !hooks::seeded(SeededFault::KeyNotAsked)), nrkey, ptpl }
        }
        (ReserveOut::RegisterAndIgnore, true) if nrkey == 0 => Do::Unregister { crkey: None, ptpl },
        (ReserveOut::RegisterAndIgnore, _) => Do::Replace { crkey: None, nrkey, ptpl },
        (ReserveOut::Reserve, _) => Do::Acquire { crkey, rtype: engine_type(p.kind)? },
        (ReserveOut::Release, _) => Do::Release { crkey, rtype: Some(engine_type(p.kind)?) },
        (ReserveOut::Clear, _) => Do::Clear { crkey },
        (ReserveOut::Preempt | ReserveOut::PreemptAndAbort, _) => {
            let abort = p.action == ReserveOut::PreemptAndAbort;
            Do::Preempt { crkey, prkey: nrkey, rtype: engine_type(p.kind)?, abort }
        }
        // It has another list: see `passing_on`.
        (ReserveOut::RegisterAndMove, _) => return Err(Invalid::cdb_bit(1, 4).into()),
    })
}

/// REGISTER AND MOVE: what is to be done, and what the new holder is called.
fn passing_on(cx: &Cx<'_>, who: &Who, list: &[u8]) -> Result<(engine::Command, (HostId, HostPort)), Outcome> {
    let MoveList { key: crkey, action_key: nrkey, unregister, persist: ptpl, port, to } = MoveList::parse(list)?;
    let Some(isid) = to.isid else { return Err(Invalid::parameter(OUT_LIST_BYTES).into()) };
    if nrkey == 0 {
        return Err(Invalid::parameter(8).into());
    }
    let ports = core::iter::once(cx.view.slot).chain(cx.view.nodes.iter().map(|n| n.slot)).map(portal_group);
    if !ports.into_iter().any(|known| known == port) {
        return Err(Invalid::parameter(18).into());
    }
    let new = Who { host: to.name.clone(), isid, ..Who::default() };
    let may_come = cx.view.target(&who.target).is_some_and(|t| t.allows(&to.name));
    if !may_come || (new.host == who.host && isid == who.isid) {
        return Err(Invalid::parameter(OUT_LIST_BYTES).into());
    }
    let id = host_id(&new);
    let command = engine::Command::Move { crkey, to: id, nrkey, unregister, ptpl };
    Ok((command, (id, HostPort { name: to.name, number: isid })))
}

/// How a command ends that was refused.
fn of_refusal(action: Option<ReserveOut>, refused: Refused) -> Outcome {
    match refused {
        Refused::ReservationConflict => Outcome::Status(ScsiStatus::ReservationConflict),
        Refused::Invalid if action == Some(ReserveOut::Release) => illegal(SenseCode::INVALID_RELEASE_OF_RESERVATION).into(),
        // There is no reservation (SPC-4 5.12.8).
        Refused::Invalid if action == Some(ReserveOut::RegisterAndMove) => Invalid::cdb_bit(1, 4).into(),
        Refused::Invalid => Invalid::parameter(8).into(),
        Refused::NoUnit => illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED).into(),
        Refused::Busy => Outcome::Status(ScsiStatus::Busy),
        // Of these the engine of reservations knows only one: there are as many registrants as there can be.
        Refused::Failed => illegal(SenseCode::INSUFFICIENT_REGISTRATION_RESOURCES).into(),
        _ => Sense::new(SenseKey::AbortedCommand, SenseCode::INTERNAL_TARGET_FAILURE).into(),
    }
}

impl Session {
    /// The list of a command has come: asks the control plane.
    pub(super) fn reserve(&mut self, cx: &mut Cx<'_>, slot: u16, p: &PersistentReserveOut) {
        let Some(task) = self.tasks.get_mut(slot.into()) else { return };
        let Some(unit) = task.unit else { return };
        let list = task.gathered();
        let registered = reservation(cx, unit.volume).is_some_and(|r| r.registrants().contains_key(&self.host_id));
        let own = self.own_port();
        let asked = if p.action == ReserveOut::RegisterAndMove {
            passing_on(cx, &self.who, &list).map(|(command, to)| (command, [own, to].into()))
        } else {
            let list = OutList::parse(p.action, &list).map_err(Outcome::from);
            list.and_then(|list| command(p, &list, registered)).map(|command| (command, [own].into()))
        };
        match asked {
            Ok((command, ports)) => self.ask_reservation(cx, slot, command, ports),
            Err(outcome) => self.finish(cx, slot, outcome),
        }
    }
    /// RESERVE or RELEASE: asks the control plane.
    pub(super) fn take_unit(&mut self, cx: &mut Cx<'_>, slot: u16, take: bool) {
        let by = TakenBy { port: portal_group(cx.view.slot), session: self.tsih };
        let command = if take { engine::Command::TakeUnit(by) } else { engine::Command::GiveUnit(by) };
        self.ask_reservation(cx, slot, command, [self.own_port()].into());
    }
    /// Whether it has taken a unit whole, as far as is known here.
    pub(super) fn has_taken_units(&self, cx: &Cx<'_>) -> bool {
        let own = (self.host_id, TakenBy { port: portal_group(cx.view.slot), session: self.tsih });
        self.units.values().any(|seen| reservation(cx, seen.volume).is_some_and(|r| r.taken() == Some(own)))
    }
    fn own_port(&self) -> (HostId, HostPort) {
        (self.host_id, HostPort { name: self.who.host.clone(), number: self.who.isid })
    }
    fn ask_reservation(&mut self, cx: &mut Cx<'_>, slot: u16, command: engine::Command, ports: BTreeMap<HostId, HostPort>) {
        let Some(task) = self.tasks.get_mut(slot.into()) else { return };
        let Some(unit) = task.unit else { return };
        task.phase = Phase::Control;
        let by = RequestedBy {
            ports,
            host: self.who.host.clone(),
            host_id: *self.host_id.as_bytes(),
            export: self.who.target.clone(),
            session: self.tsih,
        };
        let what = ControlVerb::Reservation { volume: unit.id, command };
        cx.asked.push_back(Asked { request: self.token | u64::from(slot), by, what });
    }

    /// The control plane's answer for the command in a slot.
    pub fn on_answer(&mut self, cx: &mut Cx<'_>, slot: u16, result: Result<Reply, Refused>) {
        let over = self.is_over();
        let Some(task) = self.tasks.get(slot.into()).filter(|t| t.phase == Phase::Control) else { return };
        let action = match &task.job {
            Job::Reserve(p) => Some(p.action),
            Job::Unit { .. } => None,
            _ => return,
        };
        if task.aborted || over {
            return self.drop_task(cx, slot);
        }
        // What the change forbids has ended by now (`is_settled`), a fence among it.
        let outcome = result.map_or_else(|refused| of_refusal(action, refused), |_| Outcome::GOOD);
        self.finish(cx, slot, outcome);
    }

    /// What other hosts' reservation commands have done to this one: unit attentions (SPC-4 5.9.10 and 5.9.11).
    pub(super) fn note_reservations(&mut self, view: &crate::view::View) {
        for (lun, super::Seen { volume, .. }) in self.units.clone() {
            let Some(state) = view.volumes.get(volume.0 as usize).and_then(|v| v.as_ref()?.reservation.as_deref()) else { continue };
            let seen = self.notices_seen.insert(lun, (volume, state.last_notice()));
            // Of another volume, or one that had no reservation: what is there is not news, unless it came while the session saw the unit.
            let seen = seen.filter(|(of, _)| *of == volume).map_or(0, |(_, seen)| seen);
            let news: Vec<_> = state.notices_after(seen).filter(|n| n.hosts.contains(&self.host_id)).map(|n| n.kind).collect();
            for kind in news {
                self.add_attention(
                    lun,
                    match kind {
                        engine::NoticeKind::RegistrationPreempted => SenseCode::REGISTRATIONS_PREEMPTED,
                        engine::NoticeKind::ReservationReleased => SenseCode::RESERVATIONS_RELEASED,
                        engine::NoticeKind::ReservationPreempted => SenseCode::RESERVATIONS_PREEMPTED,
                    },
                );
            }
        }
    }
    /// What was before the session is no news.
    pub(super) fn skip_reservations(&mut self, view: &crate::view::View) {
        for (lun, super::Seen { volume, .. }) in &self.units {
            let last = view.volumes.get(volume.0 as usize).and_then(|v| Some(v.as_ref()?.reservation.as_deref()?.last_notice()));
            self.notices_seen.insert(*lun, (*volume, last.unwrap_or(0)));
        }
    }
}

/// The reservation of a volume, and its registrants.
pub(super) fn reservation<'a>(cx: &Cx<'a>, volume: VolumeRef) -> Option<&'a State> {
    cx.view.volumes.get(volume.0 as usize)?.as_ref()?.reservation.as_deref()
}

/// PERSISTENT RESERVE IN on a unit.
pub(super) fn report_of(cx: &Cx<'_>, unit: &Unit, action: ReserveIn) -> Result<Vec<u8>, Sense> {
    report(reservation(cx, unit.volume).unwrap_or(&State::default()), action)
}

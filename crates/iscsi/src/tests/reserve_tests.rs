//! Persistent reservations.

use super::rig::{Rig, ended, illegal, key, read10, write10};
use crate::session::Asked;
use base::HostId;
use cluster::reservation::{Command, ReservationType as EngineType};
use format::iscsi::{HostPdu, ManagementRequest, TargetPdu, management, management_response};
use format::scsi::reservation::{
    Capabilities, FullStatus, MoveList, OutList, ReservationType, parse_full_status, parse_keys, parse_reservation,
};
use format::scsi::{ScsiStatus, SenseCode, SenseKey, TransportId};
use frontend::{ControlVerb, Refused, Reply};

type Ended = (ScsiStatus, Option<(SenseKey, SenseCode)>);

/// PERSISTENT RESERVE OUT with a list: what is asked of the control plane, or how it ended at once.
fn ask(rig: &mut Rig, action: u8, kind: u8, list: &[u8]) -> Result<Asked, Ended> {
    let cdb = [0x5F, action, kind, 0, 0, 0, 0, 0, list.len() as u8, 0];
    let wire = rig.client.write(0, &cdb, list.len() as u32, list, true);
    let came = rig.say(&wire);
    match rig.asked.pop_front() {
        Some(asked) => {
            assert!(came.is_empty(), "it waits for the control plane");
            rig.away = Some(asked.request);
            Ok(asked)
        }
        None => {
            let (status, sense, _) = ended(&came);
            Err((status, key(sense)))
        }
    }
}
fn command(asked: &Asked) -> Command {
    let ControlVerb::Reservation { command, .. } = asked.what else { panic!("{asked:?}") };
    command
}
fn reserve(rig: &mut Rig, action: u8, kind: u8, own: u64, action_key: u64) -> Result<Command, Ended> {
    let list = OutList { key: own, action_key, ..Default::default() }.to_bytes();
    ask(rig, action, kind, &list).map(|asked| command(&asked))
}

/// The control plane carries out what it was asked for, and has it served.
fn carry_out(rig: &mut Rig, asked: &Asked) -> Result<(), Ended> {
    let volume = rig.view.volumes[0].as_mut().unwrap();
    let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
    let host = crate::shared::host_id(rig.session.who());
    assert_eq!(asked.by.host_id, *host.as_bytes());
    let result = state.execute(host, &command(asked)).map(|_| Reply::Done).map_err(Refused::from);
    state.name_ports(&asked.by.ports);
    volume.volume.reservation = Some(std::sync::Arc::new(state));
    assert!(rig.session.apply(&rig.view));
    let came = rig.answer(result);
    let (status, sense, _) = ended(&came);
    if status == ScsiStatus::Good { Ok(()) } else { Err((status, key(sense))) }
}
fn reserved(rig: &mut Rig, action: u8, kind: u8, own: u64, action_key: u64) -> Result<(), Ended> {
    let list = OutList { key: own, action_key, ..Default::default() }.to_bytes();
    let asked = ask(rig, action, kind, &list)?;
    carry_out(rig, &asked)
}

#[test]
fn reservations_are_asked_for_as_the_standard_says_and_reported() {
    let conflict = Err((ScsiStatus::ReservationConflict, None));
    let mut rig = Rig::with("");
    assert_eq!(reserve(&mut rig, 0, 0, 5, 6), Err((ScsiStatus::ReservationConflict, None)), "who is not registered has no key");
    assert_eq!(reserve(&mut rig, 0, 0, 0, 0).unwrap_err().0, ScsiStatus::Good, "nothing to do");
    assert_eq!(reserved(&mut rig, 0, 0, 0, 0xA1), Ok(()));
    assert_eq!(reserved(&mut rig, 0, 0, 0, 0xA2), conflict, "it has a key");
    assert_eq!(reserved(&mut rig, 0, 0, 0xA1, 0xA2), Ok(()), "another key");
    assert_eq!(reserved(&mut rig, 6, 0, 0x99, 0xA3), Ok(()), "whatever the key was");
    assert_eq!(reserved(&mut rig, 1, 1, 0xA2, 0), conflict, "not its key");
    assert_eq!(reserved(&mut rig, 1, 5, 0xA3, 0), Ok(()));
    let read = |rig: &mut Rig, action: u8| rig.read(0, &[0x5E, action, 0, 0, 0, 0, 0, 0, 64, 0], 64).2;
    assert_eq!(parse_keys(&read(&mut rig, 0)).unwrap().1, [0xA3]);
    assert_eq!(parse_reservation(&read(&mut rig, 1)).unwrap().1, Some((0xA3, ReservationType::WriteExclusiveRegistrantsOnly)));
    let can = Capabilities::parse(&read(&mut rig, 2)).unwrap();
    assert!(can.persist_capable && can.all_target_ports && !can.persist_active && !can.spec_i_pt);
    let wrong = Err((ScsiStatus::CheckCondition, illegal(SenseCode::INVALID_RELEASE_OF_RESERVATION)));
    assert_eq!(reserved(&mut rig, 2, 1, 0xA3, 0), wrong, "of another type");
    assert_eq!(reserved(&mut rig, 4, 5, 0xA3, 0x77), conflict, "a key that nobody has");
    assert_eq!(reserved(&mut rig, 4, 5, 0xA3, 0), Err((ScsiStatus::CheckCondition, illegal(SenseCode::INVALID_FIELD_IN_PARAMETER_LIST))));
    assert_eq!(reserved(&mut rig, 2, 5, 0xA3, 0), Ok(()));
    assert_eq!(reserved(&mut rig, 3, 0, 0xA3, 0), Ok(()), "clear");
    assert_eq!(parse_keys(&read(&mut rig, 0)).unwrap().1, []);
    assert_eq!(reserve(&mut rig, 1, 2, 1, 1).unwrap_err().1, illegal(SenseCode::INVALID_FIELD_IN_CDB), "a type that is none");
    let wire = rig.client.write(0, &[0x5F, 0, 0, 0, 0, 0, 0, 0, 25, 0], 25, &[0; 25], true);
    let came = rig.say(&wire);
    assert_eq!(key(ended(&came).1), illegal(SenseCode::PARAMETER_LIST_LENGTH_ERROR));
}

#[test]
fn full_status_names_each_registrant_and_a_reservation_can_be_passed_on_to_another_port() {
    let mut rig = Rig::with("");
    let full = |rig: &mut Rig| {
        let data = rig.read(0, &[0x5E, 3, 0, 0, 0, 0, 0, 4, 0, 0], 1024).2;
        parse_full_status(&data).unwrap().1
    };
    assert_eq!(full(&mut rig), []);
    reserved(&mut rig, 0, 0, 0, 0xA1).unwrap();
    reserved(&mut rig, 1, 1, 0xA1, 0).unwrap();
    let nvme = HostId::from_bytes([0xEE; 16]);
    let volume = rig.view.volumes[0].as_mut().unwrap();
    let mut state = volume.reservation.as_deref().cloned().unwrap();
    state.execute(nvme, &Command::Register { nrkey: 0xE1, ptpl: None }).unwrap();
    volume.volume.reservation = Some(std::sync::Arc::new(state));
    let mut seen = full(&mut rig);
    seen.sort_by_key(|one| one.key);
    let own = TransportId { name: super::HOST.into(), isid: Some([0x80, 0, 0, 0, 0, 1]) };
    let of = |key, holds, transport_id| FullStatus { key, all_target_ports: true, holds, port: 0, transport_id };
    let kind = Some(ReservationType::WriteExclusive);
    let unnamed = TransportId { name: cluster::default_iqn(&format!("host:{nvme}")), isid: None };
    assert_eq!(seen, [of(0xA1, kind, own.clone()), of(0xE1, None, unnamed)]);

    // Another port of the same host.
    let to = TransportId { isid: Some([0x80, 0, 0, 0, 0, 2]), ..own.clone() };
    let list = MoveList { key: 0xA1, action_key: 0xA2, unregister: true, persist: false, port: 1, to: to.clone() };
    let refused = |rig: &mut Rig, list: MoveList| ask(rig, 7, 0, &list.to_bytes()).unwrap_err();
    let parameter = (ScsiStatus::CheckCondition, illegal(SenseCode::INVALID_FIELD_IN_PARAMETER_LIST));
    assert_eq!(refused(&mut rig, MoveList { to: own, ..list.clone() }), parameter, "to itself");
    assert_eq!(refused(&mut rig, MoveList { port: 2, ..list.clone() }), parameter, "a port that there is not");
    assert_eq!(refused(&mut rig, MoveList { action_key: 0, ..list.clone() }), parameter, "without a key");
    assert_eq!(refused(&mut rig, MoveList { to: TransportId { isid: None, ..to.clone() }, ..list.clone() }), parameter, "to no port");
    let other = TransportId { name: "iqn.other".into(), ..to.clone() };
    assert_eq!(refused(&mut rig, MoveList { to: other, ..list.clone() }), parameter, "to one that may not come");
    let cut = &list.to_bytes()[..24];
    assert_eq!(ask(&mut rig, 7, 0, cut).unwrap_err(), (ScsiStatus::CheckCondition, illegal(SenseCode::PARAMETER_LIST_LENGTH_ERROR)));
    let asked = ask(&mut rig, 7, 0, &MoveList { key: 1, ..list.clone() }.to_bytes()).unwrap();
    assert_eq!(carry_out(&mut rig, &asked), Err((ScsiStatus::ReservationConflict, None)), "not its key");
    let asked = ask(&mut rig, 7, 0, &list.to_bytes()).unwrap();
    assert_eq!(carry_out(&mut rig, &asked), Ok(()));
    let seen = full(&mut rig);
    assert!(seen.contains(&of(0xA2, kind, to)) && seen.len() == 2, "{seen:?}");
    let mine = rig.write(0, &write10(0, 1), &[0; 512]);
    assert_eq!(mine.0, ScsiStatus::ReservationConflict, "it has it no more");
}

#[test]
fn there_is_nothing_to_pass_on_without_a_reservation() {
    let mut rig = Rig::with("");
    reserved(&mut rig, 0, 0, 0, 0xA1).unwrap();
    let to = TransportId { name: super::HOST.into(), isid: Some([1; 6]) };
    let list = MoveList { key: 0xA1, action_key: 2, unregister: false, persist: false, port: 1, to };
    let asked = ask(&mut rig, 7, 0, &list.to_bytes()).unwrap();
    assert_eq!(carry_out(&mut rig, &asked), Err((ScsiStatus::CheckCondition, illegal(SenseCode::INVALID_FIELD_IN_CDB))));
}

#[test]
fn who_loses_a_reservation_to_another_host_hears_of_it_and_of_no_earlier_one() {
    let mut rig = Rig::with("");
    reserved(&mut rig, 0, 0, 0, 0xA1).unwrap();
    reserved(&mut rig, 1, 3, 0xA1, 0).unwrap();
    let other = base::HostId::from_bytes([9; 16]);
    let by_other = |rig: &mut Rig, command: Command| {
        let volume = rig.view.volumes[0].as_mut().unwrap();
        let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
        state.execute(other, &command).unwrap();
        volume.volume.reservation = Some(std::sync::Arc::new(state));
        assert!(rig.session.apply(&rig.view));
    };
    by_other(&mut rig, Command::Register { nrkey: 0xB1, ptpl: None });
    assert_eq!(rig.read(0, &[0; 6], 0).0, ScsiStatus::Good);
    by_other(&mut rig, Command::Preempt { crkey: 0xB1, prkey: 0xA1, rtype: EngineType::ExclusiveAccess, abort: false });
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), Some((SenseKey::UnitAttention, SenseCode::REGISTRATIONS_PREEMPTED)));
    assert_eq!(rig.read(0, &[0; 6], 0).0, ScsiStatus::Good, "once");
    assert_eq!(rig.read(0, &read10(0, 1), 512).0, ScsiStatus::ReservationConflict);
    assert_eq!(reserve(&mut rig, 1, 3, 0xA1, 0).map(|_| ()), Ok(()), "it is the control plane that refuses it");
    rig.answer(Err(Refused::ReservationConflict));
    // A session that begins now hears nothing of what was.
    let mut later = Rig { view: rig.view, ..Rig::new() };
    let login = later.client.login("");
    later.say(&login);
    assert!(later.session.apply(&later.view));
    assert_eq!(later.read(0, &[0; 6], 0).0, ScsiStatus::Good);
}

#[test]
fn a_reservation_command_that_is_aborted_is_not_answered_and_its_answer_does_nothing() {
    let mut rig = Rig::with("");
    reserve(&mut rig, 0, 0, 0, 0xA1).unwrap();
    let tag = rig.client.tag - 1;
    let abort = ManagementRequest { function: management::ABORT_TASK, tag: 99, referenced_tag: tag, ..Default::default() };
    let wire = rig.client.wire(HostPdu::Management(abort), true, &[]);
    assert!(rig.say(&wire).is_empty(), "it waits for the end of the command");
    let came = rig.answer(Ok(Reply::Done));
    assert!(matches!(came[..], [(TargetPdu::Management(m), _)] if m.tag == 99 && m.response == management_response::COMPLETE), "{came:?}");
    assert_eq!(rig.session.running(), 0);
}

/// Another host holds the unit from now on.
fn reserved_by_another(rig: &mut Rig, rtype: EngineType) {
    let (other, mut state) = (HostId::from_bytes([9; 16]), cluster::reservation::State::default());
    for command in [Command::Register { nrkey: 0xB1, ptpl: None }, Command::Acquire { crkey: 0xB1, rtype }] {
        state.execute(other, &command).unwrap();
    }
    rig.view.volumes[0].as_mut().unwrap().volume.reservation = Some(std::sync::Arc::new(state));
    assert!(rig.session.apply(&rig.view));
}

#[test]
fn what_was_carried_out_before_a_reservation_came_is_answered_so() {
    let cdbs: [(Vec<u8>, usize); 5] = [
        (write10(0, 1), 512),
        // WRITE AND VERIFY (10), WRITE SAME (10), VERIFY (10) with BYTCHK, COMPARE AND WRITE.
        (vec![0x2E, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512),
        (vec![0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512),
        (vec![0x2F, 2, 0, 0, 0, 0, 0, 0, 1, 0], 512),
        (vec![0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], 1024),
    ];
    for (cdb, bytes) in cdbs {
        let mut rig = Rig::with("");
        rig.memory.hold = true;
        let data = vec![0; bytes];
        let wire = rig.client.write(0, &cdb, bytes as u32, &data, true);
        assert!(rig.say(&wire).is_empty());
        let request = rig.memory.kept.pop().expect("it is with the volume");
        let done = rig.memory.answer(request);
        reserved_by_another(&mut rig, EngineType::ExclusiveAccess);
        let mut came = rig.done(done);
        // What was written is verified.
        if let Some(request) = rig.memory.kept.pop() {
            let done = rig.memory.answer(request);
            came = rig.done(done);
        }
        assert_eq!(ended(&came).0, ScsiStatus::Good, "{cdb:02X?}");
        rig.memory.hold = false;
        assert_eq!(rig.write(0, &cdb, &data).0, ScsiStatus::ReservationConflict, "what comes now, {cdb:02X?}");
    }
}

#[test]
fn who_may_not_write_may_not_flush_either() {
    // SBC-3, the table of its reservations: SYNCHRONIZE CACHE conflicts where writes do.
    let flush = [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut rig = Rig::with("");
    assert_eq!(rig.read(2, &flush, 0).0, ScsiStatus::Good, "a unit that is write protected");
    reserved_by_another(&mut rig, EngineType::WriteExclusive);
    assert_eq!(rig.read(0, &read10(0, 1), 512).0, ScsiStatus::Good);
    assert_eq!(rig.read(0, &flush, 0).0, ScsiStatus::ReservationConflict);
}

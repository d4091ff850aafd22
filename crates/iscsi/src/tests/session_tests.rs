//! One session under bytes.

use super::HOST;
use super::client::Came;
use super::rig::{Rig, bytes, ended, illegal, key, read10, write10};
use crate::limits::{COMMANDS_MAX, DATA_HELD_MAX, DATA_NEAR_MAX};
use crate::login::status;
use crate::session::{Session, SessionEvent};
use base::Duration;
use format::iscsi::{
    HostPdu, LogoutRequest, ManagementRequest, NO_TAG, NopOut, ReadyToTransfer, ScsiResponse, TargetPdu, TextRequest, management,
    management_response, reject,
};
use format::scsi::{ScsiStatus, SenseCode, SenseKey};
use object::{IoError, IoOp};
use proptest::prelude::*;

#[test]
fn what_is_written_with_each_kind_of_data_is_read_again() {
    for keys in ["", "HeaderDigest=CRC32C\0DataDigest=CRC32C\0", "MaxRecvDataSegmentLength=513\0MaxBurstLength=2048\0"] {
        let mut rig = Rig::with(&format!("InitialR2T=No\0{keys}"));
        let data = bytes(40 * 512);
        // Immediate, then unsolicited, then asked for.
        let (immediate, early) = (512, 4096);
        let tag = rig.client.tag;
        let wire = rig.client.write(0, &write10(2030, 40), data.len() as u32, &data[..immediate], false);
        assert!(rig.say(&wire).is_empty());
        let wire = rig.client.unsolicited(tag, immediate as u32, 0, &data[immediate..early], true);
        let mut came = rig.say(&wire);
        let mut r2ts = 0;
        while let [(TargetPdu::ReadyToTransfer(r2t), _)] = came[..] {
            assert_eq!((r2t.r2t_sn, r2t.tag), (r2ts, tag));
            r2ts += 1;
            let wire = rig.client.answer(&r2t, &data, 1024);
            came = rig.say(&wire);
        }
        assert_eq!(ended(&came), (ScsiStatus::Good, None, vec![]), "{keys:?}");
        assert_eq!(r2ts, if keys.contains("Burst") { 8 } else { 1 }, "{keys:?}");
        assert_eq!(rig.memory.disks[&0][2030 * 512..][..data.len()], data[..], "over the border of a piece too");
        assert_eq!(rig.read(0, &read10(2030, 40), data.len() as u32), (ScsiStatus::Good, None, data));
    }
}

#[test]
fn as_much_is_asked_for_at_once_as_was_agreed_and_comes_in_order() {
    let data = bytes(10 * 1024);
    let asked = |came: &[Came]| -> Vec<ReadyToTransfer> {
        came.iter().map(|(pdu, _)| if let TargetPdu::ReadyToTransfer(r) = *pdu { r } else { panic!("{pdu:?}") }).collect()
    };
    let begin = || {
        let mut rig = Rig::with("MaxOutstandingR2T=3\0MaxBurstLength=2048\0");
        let wire = rig.client.write(0, &write10(0, 20), data.len() as u32, &[], true);
        let came = rig.say(&wire);
        (rig, asked(&came))
    };
    let (mut rig, r2ts) = begin();
    assert_eq!(r2ts.iter().map(|r| (r.r2t_sn, r.offset, r.bytes)).collect::<Vec<_>>(), [(0, 0, 2048), (1, 2048, 2048), (2, 4096, 2048)]);
    let wire = rig.client.answer(&r2ts[0], &data, 512);
    let more = asked(&rig.say(&wire));
    assert_eq!(more.iter().map(|r| (r.r2t_sn, r.offset, r.bytes)).collect::<Vec<_>>(), [(3, 6144, 2048)], "the next one when one has come");
    let wire: Vec<u8> = [r2ts[1], r2ts[2]].iter().flat_map(|r| rig.client.answer(r, &data, 2048)).collect();
    let last = asked(&rig.say(&wire));
    assert_eq!(last.iter().map(|r| (r.r2t_sn, r.offset, r.bytes)).collect::<Vec<_>>(), [(4, 8192, 2048)]);
    let wire: Vec<u8> = [more[0], last[0]].iter().flat_map(|r| rig.client.answer(r, &data, 1000)).collect();
    assert_eq!(ended(&rig.say(&wire)), (ScsiStatus::Good, None, vec![]));
    assert_eq!(rig.memory.disks[&0][..data.len()], data[..]);
    // Out of their order.
    let (mut rig, r2ts) = begin();
    let wire = rig.client.answer(&r2ts[1], &data, 2048);
    rig.say(&wire);
    assert_eq!(rig.events.last().map(|e| &e.1), Some(&SessionEvent::Over("data that nobody asked for")));
    // A PDU is lost: nothing more is asked for, and it ends when what was asked for has come.
    let (mut rig, r2ts) = begin();
    let wire = rig.client.answer(&r2ts[0], &data, 1024).split_off(48 + 1024);
    assert!(rig.say(&wire).is_empty());
    let wire = rig.client.answer(&r2ts[1], &data, 1024);
    assert!(rig.say(&wire).is_empty());
    let wire = rig.client.answer(&r2ts[2], &data, 1024);
    assert_eq!(key(ended(&rig.say(&wire)).1), Some((SenseKey::AbortedCommand, SenseCode::PROTOCOL_CRC_ERROR)));
    assert_eq!(rig.read(0, &read10(0, 1), 512).2, [0; 512]);
}

#[test]
fn residual_counts_say_what_was_not_moved() {
    let mut rig = Rig::with("");
    let wire = rig.client.read(0, &read10(0, 1), 1024);
    let came = rig.say(&wire);
    assert!(matches!(came[..], [(TargetPdu::DataIn(d), _)] if d.underflow && !d.overflow && d.residual == 512), "{came:?}");
    let wire = rig.client.read(0, &read10(0, 2), 512);
    let came = rig.say(&wire);
    assert!(matches!(&came[..], [(TargetPdu::DataIn(d), b)] if d.overflow && d.residual == 512 && b.len() == 512), "{came:?}");
    let wire = rig.client.write(0, &write10(0, 1), 1024, &bytes(1024), true);
    let came = rig.say(&wire);
    assert!(matches!(came[..], [(TargetPdu::Response(ScsiResponse { underflow: true, residual: 512, status: 0, .. }), _)]), "{came:?}");
    let wire = rig.client.write(0, &write10(8, 2), 512, &bytes(512), true);
    let came = rig.say(&wire);
    assert!(matches!(came[..], [(TargetPdu::Response(ScsiResponse { overflow: true, residual: 512, status: 0, .. }), _)]), "{came:?}");
    assert_eq!(rig.memory.disks[&0][8 * 512..][..1024], [&bytes(512)[..], &[0; 512]].concat());
}

#[test]
fn a_unit_says_what_it_is_and_refuses_what_it_does_not_have() {
    let mut rig = Rig::with("");
    let (_, _, data) = rig.read(0, &[0x12, 0, 0, 0, 96, 0], 96);
    assert_eq!((data[0], &data[8..16]), (0, &b"BASALT  "[..]));
    let (_, _, data) = rig.read(9, &[0x12, 0, 0, 0, 96, 0], 96);
    assert_eq!(data[0], 0x7F, "no such unit");
    let (_, _, data) = rig.read(1, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8);
    assert_eq!(data, [0, 0, 3, 0xFF, 0, 0, 0x10, 0]);
    let (_, _, data) = rig.read(0, &[0xA0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256);
    assert_eq!((data.len(), data[3]), (8 + 4 * 8, 32));
    let refusals: [(u64, Vec<u8>, _); 5] = [
        (9, vec![0, 0, 0, 0, 0, 0], illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED)),
        (0, vec![0xFF, 0, 0, 0, 0, 0], illegal(SenseCode::INVALID_OPCODE)),
        (0, read10(8191, 2), illegal(SenseCode::LBA_OUT_OF_RANGE)),
        (0, read10(0, 4096), illegal(SenseCode::INVALID_FIELD_IN_CDB)),
        (0, vec![0x12, 1, 0x77, 0, 96, 0], illegal(SenseCode::INVALID_FIELD_IN_CDB)),
    ];
    for (lun, cdb, want) in refusals {
        let (status, sense, _) = rig.read(lun, &cdb, 4096);
        assert_eq!((status, key(sense)), (ScsiStatus::CheckCondition, want), "{cdb:02X?}");
    }
    let (_, sense, _) = rig.write(2, &write10(0, 1), &bytes(512));
    assert_eq!(key(sense), Some((SenseKey::DataProtect, SenseCode::WRITE_PROTECTED)));
}

#[test]
fn other_changes_do_what_they_say() {
    let mut rig = Rig::with("");
    let same = |unmap: u8, blocks: u8| [0x93, unmap, 0, 0, 0, 0, 0, 0, 7, 0xFF, 0, 0, 0, blocks, 0, 0];
    assert_eq!(rig.write(0, &same(0, 9), &[5; 512]).0, ScsiStatus::Good);
    assert_eq!(rig.memory.disks[&0][2047 * 512..][..10 * 512], [vec![5; 9 * 512], vec![0; 512]].concat(), "in two pieces");
    assert_eq!(rig.write(0, &same(8, 1), &[0; 512]).0, ScsiStatus::Good);
    assert_eq!(rig.memory.disks[&0][2047 * 512..][..1024], [[0; 512], [5; 512]].concat());
    let mut cas = [0x89, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0, 0];
    assert_eq!(rig.write(0, &cas, &[[5; 512], [6; 512]].concat()).0, ScsiStatus::Good);
    let (_, sense, _) = rig.write(0, &cas, &[[5; 512], [7; 512]].concat());
    assert_eq!(key(sense), Some((SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY)));
    assert_eq!(rig.memory.disks[&0][2048 * 512], 6);
    cas[13] = 2;
    assert_eq!(key(rig.write(0, &cas, &[0; 2048]).1), illegal(SenseCode::INVALID_FIELD_IN_CDB), "one block at a time");
    let verify = [0x2F, 2, 0, 0, 8, 0, 0, 0, 1, 0];
    assert_eq!(rig.write(0, &verify, &[6; 512]).0, ScsiStatus::Good);
    let (_, sense, _) = rig.write(0, &verify, &[vec![6; 100], vec![0; 412]].concat());
    assert_eq!(sense.unwrap().information, Some(100));
    let unmap = format::scsi::capacity::build_unmap(&[format::scsi::capacity::LbaRange { lba: 2048, blocks: 2 }]);
    assert_eq!(rig.write(0, &[0x42, 0, 0, 0, 0, 0, 0, 0, unmap.len() as u8, 0], &unmap).0, ScsiStatus::Good);
    assert_eq!(rig.memory.disks[&0][2048 * 512..][..1536], [[0; 512], [0; 512], [5; 512]].concat());
    assert_eq!(rig.read(0, &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0).0, ScsiStatus::Good);
}

#[test]
fn an_error_of_the_volume_has_its_sense_data() {
    let mut rig = Rig::with("");
    rig.memory.fail = Some(IoError::Media { offset: 1024 });
    let (status, sense, data) = rig.read(0, &read10(0, 8), 4096);
    assert_eq!((status, data.len()), (ScsiStatus::CheckCondition, 0));
    let sense = sense.unwrap();
    assert_eq!((sense.key, sense.information), (SenseKey::MediumError, Some(2)));
    rig.memory.fail = Some(IoError::NoSpace);
    let (_, sense, _) = rig.write(0, &write10(0, 1), &bytes(512));
    assert_eq!(key(sense), Some((SenseKey::DataProtect, SenseCode::SPACE_ALLOCATION_FAILED)));
}

#[test]
fn a_write_on_a_volume_with_limits_waits_for_its_turn_before_its_data_is_asked_for() {
    let mut rig = Rig::with("");
    rig.memory.hold = true;
    let wire = rig.client.write(3, &write10(0, 2), 1024, &[], true);
    assert!(rig.say(&wire).is_empty());
    assert!(matches!(rig.memory.kept[..], [object::IoRequest { op: IoOp::Turn { len: 1024, .. }, counted: false, .. }]));
    rig.memory.hold = false;
    let came = rig.step(None);
    let [(TargetPdu::ReadyToTransfer(r2t), _)] = came[..] else { panic!("{came:?}") };
    rig.memory.hold = true;
    let wire = rig.client.answer(&r2t, &bytes(1024), 1024);
    rig.say(&wire);
    assert!(rig.memory.kept[0].counted);
    rig.memory.hold = false;
    assert_eq!(ended(&rig.step(None)).0, ScsiStatus::Good);
}

#[test]
fn commands_wait_for_memory_in_their_order_and_all_are_answered() {
    let mut rig = Rig::with("");
    rig.memory.hold = true;
    let count = (2 * DATA_HELD_MAX) >> 20;
    let wire: Vec<u8> = (0..count).flat_map(|_| rig.client.read(0, &read10(0, 2048), 1 << 20)).collect();
    assert!(rig.say(&wire).is_empty());
    assert_eq!(rig.memory.kept.len() as u64, DATA_NEAR_MAX >> 20);
    // Its volume is not fast: the longer it takes, the more it gets.
    for (millis, under_way) in [(1, 1), (2, 2), (3, 5), (4, DATA_HELD_MAX >> 20), (9, DATA_HELD_MAX >> 20)] {
        rig.now += Duration::from_millis(millis);
        rig.tick();
        assert_eq!(rig.memory.kept.len() as u64, under_way, "{millis}");
    }
    rig.memory.hold = false;
    let came = rig.step(None);
    let ends = came.iter().filter(|(p, _)| matches!(p, TargetPdu::DataIn(d) if d.has_status)).count();
    assert_eq!((ends as u64, rig.session.running()), (count, 0));
}

#[test]
fn commands_beyond_the_window_are_ignored_and_a_gap_ends_the_session() {
    let mut rig = Rig::with("");
    rig.memory.hold = true;
    let wire: Vec<u8> = (0..COMMANDS_MAX + 5).flat_map(|_| rig.client.read(0, &read10(0, 1), 512)).collect();
    rig.say(&wire);
    assert_eq!(rig.session.running(), COMMANDS_MAX as usize);
    rig.memory.hold = false;
    let came = rig.step(None);
    assert_eq!(came.len(), COMMANDS_MAX as usize);
    rig.client.cmd_sn = COMMANDS_MAX + 1;
    let wire = rig.client.read(0, &read10(0, 1), 512);
    assert!(rig.say(&wire).is_empty());
    assert_eq!(rig.events.last().map(|e| &e.1), Some(&SessionEvent::Over("a command is missing")));
}

#[test]
fn an_aborted_command_is_not_answered_and_the_abort_waits_for_its_end() {
    let mut rig = Rig::with("");
    rig.memory.hold = true;
    let wire = rig.client.read(0, &read10(0, 1), 512);
    rig.say(&wire);
    let abort = |tag, referenced_tag| ManagementRequest { function: management::ABORT_TASK, tag, referenced_tag, ..Default::default() };
    let wire = rig.client.wire(HostPdu::Management(abort(77, 0)), true, &[]);
    assert!(rig.say(&wire).is_empty(), "the volume has not answered");
    rig.memory.hold = false;
    let came = rig.step(None);
    assert!(matches!(came[..], [(TargetPdu::Management(m), _)] if m.response == management_response::COMPLETE && m.tag == 77), "{came:?}");
    let came = rig.say(&wire);
    assert!(matches!(came[..], [(TargetPdu::Management(m), _)] if m.response == management_response::NO_TASK), "{came:?}");
    // One that waits for data: what the host sends still is thrown away.
    let tag = rig.client.tag;
    let wire = rig.client.write(0, &write10(0, 1), 512, &[], true);
    let came = rig.say(&wire);
    let [(TargetPdu::ReadyToTransfer(r2t), _)] = came[..] else { panic!("{came:?}") };
    let wire = rig.client.wire(HostPdu::Management(abort(78, tag)), true, &[]);
    assert!(matches!(rig.say(&wire)[..], [(TargetPdu::Management(_), _)]));
    let wire = rig.client.answer(&r2t, &bytes(512), 512);
    assert!(rig.say(&wire).is_empty() && !rig.session.is_over());
}

#[test]
fn pings_text_and_logout_are_answered() {
    let mut rig = Rig::with("");
    let nop = NopOut { tag: 5, transfer_tag: NO_TAG, ..Default::default() };
    let wire = rig.client.wire(HostPdu::NopOut(nop), true, b"abc");
    let came = rig.say(&wire);
    assert!(matches!(&came[..], [(TargetPdu::NopIn(n), d)] if n.tag == 5 && d == b"abc"));
    let text = TextRequest { last: true, tag: 6, transfer_tag: NO_TAG, ..Default::default() };
    let wire = rig.client.wire(HostPdu::Text(text), true, b"SendTargets=\0");
    let came = rig.say(&wire);
    assert!(matches!(&came[..], [(TargetPdu::Text(t), d)] if t.last && d == format!("TargetName={}\0", super::TARGET).as_bytes()));
    rig.session.ping(0);
    assert!(matches!(rig.step(None)[..], [(TargetPdu::NopIn(n), _)] if n.tag == NO_TAG && n.transfer_tag != NO_TAG));
    let wire = rig.client.wire(HostPdu::Logout(LogoutRequest { tag: 7, ..Default::default() }), true, &[]);
    assert!(matches!(rig.say(&wire)[..], [(TargetPdu::Logout(l), _)] if l.response == 0));
    assert!(rig.session.is_over());
}

#[test]
fn a_host_that_is_not_on_the_list_or_a_target_that_is_none_is_refused() {
    let refused = |host: &str, target: &str| {
        let mut rig = Rig::new();
        let wire = rig.client.login_as(host, &format!("TargetName={target}\0"));
        let came = rig.say(&wire);
        assert!(rig.session.is_over());
        let [(TargetPdu::Login(l), _)] = came[..] else { panic!("{came:?}") };
        l.status
    };
    assert_eq!(refused("iqn.2026-11.example:other", super::TARGET), status::FORBIDDEN);
    assert_eq!(refused(HOST, "iqn.2026-11.io.basalt:none"), status::NOT_FOUND);
}

#[test]
fn discovery_tells_the_portals_of_all_nodes_each_in_its_group() {
    let portal = |addr: &str, network_bits| cluster::record::PortalRecord {
        addr: addr.parse().unwrap(),
        kind: Default::default(),
        security: Default::default(),
        listener: 0,
        network_bits,
    };
    let portals = vec![portal("10.0.0.2:3260", Some(24)), portal("192.168.0.2:3260", Some(24))];
    let mut rig = Rig::new();
    rig.session = Session::new(1 << 16, 0, Some("10.0.0.1".parse().unwrap()));
    rig.view.nodes.push(crate::view::NodeView { slot: base::NodeSlot::new(4).unwrap(), portals });
    rig.shared.add_portal("0.0.0.0:3260".parse().unwrap());
    let login = rig.client.login_as(HOST, "SessionType=Discovery\0");
    rig.say(&login);
    let text = TextRequest { last: true, tag: 6, transfer_tag: NO_TAG, ..Default::default() };
    let wire = rig.client.wire(HostPdu::Text(text), true, b"SendTargets=All\0");
    let came = rig.say(&wire);
    let wanted = format!("TargetName={}\0TargetAddress=10.0.0.1:3260,1\0TargetAddress=10.0.0.2:3260,5\0", super::TARGET);
    assert!(matches!(&came[..], [(TargetPdu::Text(_), text)] if *text == wanted.as_bytes()), "{came:?}");
}

#[test]
fn a_target_that_wants_proof_refuses_hosts_without_a_secret_and_ends_their_sessions() {
    let mut rig = Rig::with("");
    rig.view.targets[0].authenticated = true;
    assert!(!rig.session.apply(&rig.view));
    let mut rig = Rig { view: rig.view, ..Rig::new() };
    let login = rig.client.login("");
    let came = rig.say(&login);
    assert!(matches!(came[..], [(TargetPdu::Login(l), _)] if l.status == status::AUTHENTICATION_FAILED), "{came:?}");
    assert!(matches!(rig.events[..], [(_, SessionEvent::Refused { unproved: true, .. })]));
}

#[test]
fn a_host_with_as_many_connections_as_it_may_is_refused_and_its_places_come_back() {
    let mut rig = Rig::new();
    let none = crate::view::HostView { connections_max: Some(0), ..Default::default() };
    rig.view.hosts.insert(HOST.into(), none);
    let wire = rig.client.login("");
    let came = rig.say(&wire);
    assert!(matches!(came[..], [(TargetPdu::Login(l), _)] if l.status == status::NO_RESOURCES && l.tsih == 0 && !l.transit), "{came:?}");
    let rig = Rig::with("");
    assert_eq!(rig.shared.quotas().hosts()[0].1, 1);
    let Rig { session, shared, .. } = rig;
    drop(session);
    assert!(shared.quotas().hosts().is_empty());
}

#[test]
fn changes_of_what_is_served_are_said_once_and_rights_that_end_hold_at_once() {
    let mut rig = Rig::with("");
    rig.view.volumes[0].as_mut().unwrap().bytes = 2 << 20;
    assert!(rig.session.apply(&rig.view));
    let ready = [0, 0, 0, 0, 0, 0];
    assert_eq!(key(rig.read(0, &ready, 0).1), Some((SenseKey::UnitAttention, SenseCode::CAPACITY_CHANGED)));
    assert_eq!(rig.read(0, &ready, 0).0, ScsiStatus::Good);
    rig.view.targets[0].units.remove(&2);
    assert!(rig.session.apply(&rig.view));
    assert_eq!(key(rig.read(1, &ready, 0).1), Some((SenseKey::UnitAttention, SenseCode::REPORTED_LUNS_CHANGED)));
    assert_eq!(key(rig.read(2, &ready, 0).1), illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED));
    // A write that waits for its data when its volume becomes read-only.
    rig.read(0, &ready, 0);
    let wire = rig.client.write(0, &write10(0, 1), 512, &[], true);
    let came = rig.say(&wire);
    let [(TargetPdu::ReadyToTransfer(r2t), _)] = came[..] else { panic!("{came:?}") };
    rig.view.volumes[0].as_mut().unwrap().write_protect = base::WriteProtect::Protected;
    let wire = rig.client.answer(&r2t, &bytes(512), 512);
    let came = rig.say(&wire);
    assert_eq!(key(ended(&came).1), Some((SenseKey::DataProtect, SenseCode::WRITE_PROTECTED)));
    rig.view.targets.clear();
    assert!(!rig.session.apply(&rig.view));
}

#[test]
fn what_is_against_the_standard_ends_the_session_and_nothing_else() {
    let over = |rig: &mut Rig, wire: &[u8], why: &'static str| {
        rig.say(wire);
        assert_eq!(rig.events.last().map(|e| &e.1), Some(&SessionEvent::Over(why)));
        assert!(rig.session.is_over());
    };
    let mut rig = Rig::new();
    let wire = rig.client.wire(HostPdu::NopOut(NopOut::default()), true, &[]);
    over(&mut rig, &wire, "something else than a login");
    let mut rig = Rig::with("ImmediateData=No\0");
    let wire = rig.client.write(0, &write10(0, 1), 512, &bytes(512), true);
    over(&mut rig, &wire, "data that nobody asked for");
    let mut rig = Rig::with("");
    let wire = rig.client.write(0, &write10(0, 1), 512, &[], false);
    over(&mut rig, &wire, "data that nobody asked for");
    let mut rig = Rig::with("");
    let mut wire = rig.client.read(0, &read10(0, 1), 512);
    wire[5] = 0xFF;
    over(&mut rig, &wire, "a PDU that is too long");
    let mut rig = Rig::with("HeaderDigest=CRC32C\0");
    let mut wire = rig.client.read(0, &read10(0, 1), 512);
    wire[20] ^= 1;
    over(&mut rig, &wire, "a header with a wrong digest");
    for change in 0..3 {
        let mut rig = Rig::with("");
        let wire = rig.client.write(0, &write10(0, 2), 1024, &[], true);
        let came = rig.say(&wire);
        let [(TargetPdu::ReadyToTransfer(r2t), _)] = came[..] else { panic!("{came:?}") };
        let wrong = match change {
            0 => ReadyToTransfer { bytes: 512, ..r2t },
            1 => ReadyToTransfer { offset: 512, bytes: 512, ..r2t },
            _ => r2t,
        };
        let mut wire = rig.client.answer(&wrong, &bytes(1024), 1024);
        wire[23] ^= u8::from(change == 2);
        rig.say(&wire);
        assert!(rig.session.is_over(), "{change}");
    }
}

#[test]
fn what_is_not_served_is_rejected_with_its_header() {
    let mut rig = Rig::with("");
    rig.memory.hold = true;
    let wire = rig.client.read(0, &read10(0, 1), 512);
    rig.say(&wire);
    rig.client.tag = 0;
    let wire = rig.client.read(0, &read10(0, 1), 512);
    let came = rig.say(&wire);
    assert!(matches!(&came[..], [(TargetPdu::Reject(r), d)] if r.reason == reject::PROTOCOL && d.len() == 48), "its tag is in use");
}

fn any_pdu() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let opcode = prop::sample::select(vec![0x00u8, 0x40, 0x01, 0x41, 0x02, 0x42, 0x43, 0x04, 0x44, 0x05, 0x06, 0x10, 0x25]);
    let cdb = prop::sample::select(vec![0x00u8, 0x12, 0x28, 0x2A, 0x42, 0x89, 0x93, 0x8A, 0x2F, 0x55, 0xA0, 0xA3, 0x9E]);
    let small = prop::collection::vec(0u8..4, 48);
    (opcode, any::<u8>(), small, cdb, prop::collection::vec(any::<u8>(), 0..600)).prop_map(|(opcode, flags, mut h, cdb, data)| {
        (h[0], h[1], h[4], h[5], h[32]) = (opcode, flags, 0, 0, cdb);
        h[6..8].copy_from_slice(&(data.len() as u16).to_be_bytes());
        for zeroes in [8..19, 20..23, 24..27, 36..40] {
            h[zeroes].fill(0);
        }
        (h, data)
    })
}

proptest! {
    #[test]
    fn whatever_comes_memory_is_bounded_and_nothing_panics(
        pdus in prop::collection::vec(any_pdu(), 1..30), login in any::<bool>(), hold in any::<bool>(), cut in 1usize..700,
    ) {
        let mut rig = if login { Rig::with("InitialR2T=No\0") } else { Rig::new() };
        rig.memory.hold = hold;
        let mut wire = Vec::new();
        for (n, (mut header, data)) in pdus.into_iter().enumerate() {
            header[27] = n as u8;
            wire.extend_from_slice(&header);
            wire.extend_from_slice(&data);
            wire.resize(wire.len().next_multiple_of(4), 0);
        }
        for part in wire.chunks(cut) {
            rig.say(part);
            prop_assert!(rig.session.running() <= COMMANDS_MAX as usize + crate::limits::IMMEDIATE_MAX);
        }
        rig.memory.hold = false;
        rig.step(None);
        rig.session.close();
        rig.step(None);
        prop_assert_eq!(rig.session.running(), 0, "all that was with a volume has ended");
    }
}

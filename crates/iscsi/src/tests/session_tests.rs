//! One session under bytes.

use super::client::{Came, Client};
use super::memory::Memory;
use super::{HOST, view};
use crate::limits::{COMMANDS_MAX, DATA_HELD_MAX};
use crate::login::status;
use crate::session::{Asked, Cx, Session, SessionEvent};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::view::View;
use base::Instant;
use cluster::reservation::{Command, ReservationType as EngineType};
use format::iscsi::{
    HostPdu, LogoutRequest, ManagementRequest, NO_TAG, NopOut, ReadyToTransfer, ScsiResponse, TargetPdu, TextRequest, management,
    management_response, reject,
};
use format::scsi::reservation::{Capabilities, OutList, ReservationType, parse_keys, parse_reservation};
use format::scsi::{ScsiStatus, Sense, SenseCode, SenseKey};
use frontend::{ControlVerb, Refused, Reply};
use object::{IoError, IoOp};
use proptest::prelude::*;

struct Rig {
    session: Session,
    client: Client,
    view: View,
    shared: Shared,
    memory: Memory,
    stats: Stats,
    events: Vec<(u64, SessionEvent)>,
    asked: std::collections::VecDeque<Asked>,
    away: Option<u64>,
}

impl Rig {
    fn new() -> Rig {
        Rig {
            session: Session::new(1 << 16, None),
            client: Client::default(),
            view: view(),
            shared: Shared::default(),
            memory: Memory::default(),
            stats: Stats::default(),
            events: Vec::new(),
            asked: Default::default(),
            away: None,
        }
    }
    /// Logged in, with these keys.
    fn with(keys: &str) -> Rig {
        let mut rig = Rig::new();
        let login = rig.client.login(keys);
        let came = rig.say(&login);
        assert!(matches!(&came[..], [(TargetPdu::Login(l), _)] if l.status == status::SUCCESS && l.tsih != 0), "{came:?}");
        rig.client.digests = rig.session.params().header_digest;
        rig
    }
    /// Gives bytes to the session, and what it asks to the volumes, until nothing happens any more. What it sends.
    fn say(&mut self, bytes: &[u8]) -> Vec<Came> {
        self.step(Some(bytes))
    }
    fn step(&mut self, bytes: Option<&[u8]>) -> Vec<Came> {
        let mut ios = Vec::new();
        let Rig { session, client, view, shared, memory, stats, events, asked, .. } = self;
        let mut cx =
            Cx { now: Instant::default(), view, shared, draining: false, random: &mut |_| {}, ios: &mut ios, asked, stats, events };
        if let Some(bytes) = bytes {
            session.receive(&mut cx, bytes);
        }
        let mut came = Vec::new();
        loop {
            memory.kept.append(cx.ios);
            if !memory.hold
                && let Some(request) = memory.kept.pop()
            {
                let done = memory.answer(request);
                session.on_io_done(&mut cx, done);
                continue;
            }
            let Some(list) = session.take_send() else { break };
            let sent: Vec<u8> = list.slices(0).flatten().copied().collect();
            came.extend(client.take(&sent));
            session.sent(&mut cx, list);
        }
        came
    }
    /// The control plane answers what was asked of it last: what the session sends.
    fn answer(&mut self, result: Result<Reply, Refused>) -> Vec<Came> {
        let slot = (self.away.take().expect("something was asked") & 0xFFFF) as u16;
        let (mut ios, Rig { session, view, shared, stats, events, asked, .. }) = (Vec::new(), &mut *self);
        let mut cx =
            Cx { now: Instant::default(), view, shared, draining: false, random: &mut |_| {}, ios: &mut ios, asked, stats, events };
        session.on_answer(&mut cx, slot, result);
        self.step(None)
    }
    /// A command without data or that reads: its status, sense data and data.
    fn read(&mut self, lun: u64, cdb: &[u8], bytes: u32) -> (ScsiStatus, Option<Sense>, Vec<u8>) {
        let wire = self.client.read(lun, cdb, bytes);
        let came = self.say(&wire);
        ended(&came)
    }
    fn write(&mut self, lun: u64, cdb: &[u8], data: &[u8]) -> (ScsiStatus, Option<Sense>, Vec<u8>) {
        let wire = self.client.write(lun, cdb, data.len() as u32, data, true);
        let came = self.say(&wire);
        ended(&came)
    }
}

/// How the one command ended that these PDUs answer.
fn ended(came: &[Came]) -> (ScsiStatus, Option<Sense>, Vec<u8>) {
    let mut data = Vec::new();
    for (pdu, bytes) in came {
        match pdu {
            TargetPdu::DataIn(d) => {
                assert_eq!(d.offset as usize, data.len(), "in order");
                data.extend_from_slice(bytes);
                if d.has_status {
                    return (ScsiStatus::parse(d.status).unwrap(), None, data);
                }
            }
            TargetPdu::Response(r) => {
                return (ScsiStatus::parse(r.status).unwrap(), bytes.get(2..).and_then(Sense::parse), data);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("no status in {came:?}");
}

fn read10(lba: u32, blocks: u16) -> Vec<u8> {
    [&[0x28, 0][..], &lba.to_be_bytes(), &[0], &blocks.to_be_bytes(), &[0]].concat()
}
fn write10(lba: u32, blocks: u16) -> Vec<u8> {
    [&[0x2A, 0][..], &lba.to_be_bytes(), &[0], &blocks.to_be_bytes(), &[0]].concat()
}
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n / 7 + n / 512) as u8).collect()
}
fn illegal(code: SenseCode) -> Option<(SenseKey, SenseCode)> {
    Some((SenseKey::IllegalRequest, code))
}
fn key(sense: Option<Sense>) -> Option<(SenseKey, SenseCode)> {
    sense.map(|s| (s.key, s.code))
}

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
    let refusals: [(u64, Vec<u8>, _); 6] = [
        (9, vec![0, 0, 0, 0, 0, 0], illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED)),
        (0, vec![0xFF, 0, 0, 0, 0, 0], illegal(SenseCode::INVALID_OPCODE)),
        (0, vec![0x16, 0, 0, 0, 0, 0], illegal(SenseCode::INVALID_OPCODE)),
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
    assert_eq!(rig.memory.kept.len() as u64, DATA_HELD_MAX >> 20);
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
    rig.session.ping();
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
    rig.session = Session::new(1 << 16, Some("10.0.0.1".parse().unwrap()));
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

/// PERSISTENT RESERVE OUT with its list: what is asked of the control plane, or how it ended at once.
fn reserve(rig: &mut Rig, action: u8, kind: u8, own: u64, action_key: u64) -> Result<Command, (ScsiStatus, Option<(SenseKey, SenseCode)>)> {
    let list = OutList { key: own, action_key, ..Default::default() }.to_bytes();
    let cdb = [0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0];
    let wire = rig.client.write(0, &cdb, 24, &list, true);
    let came = rig.say(&wire);
    match rig.asked.pop_front() {
        Some(asked) => {
            assert!(came.is_empty(), "it waits for the control plane");
            let ControlVerb::Reservation { command, .. } = asked.what else { panic!("{asked:?}") };
            rig.away = Some(asked.request);
            Ok(command)
        }
        None => {
            let (status, sense, _) = ended(&came);
            Err((status, key(sense)))
        }
    }
}

/// The same, which the control plane carries out and has served.
fn reserved(rig: &mut Rig, action: u8, kind: u8, own: u64, action_key: u64) -> Result<(), (ScsiStatus, Option<(SenseKey, SenseCode)>)> {
    let command = reserve(rig, action, kind, own, action_key)?;
    let volume = rig.view.volumes[0].as_mut().unwrap();
    let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
    let host = crate::shared::host_id(rig.session.who());
    let result = state.execute(host, &command).map(|_| Reply::Done).map_err(Refused::from);
    volume.volume.reservation = Some(std::sync::Arc::new(state));
    assert!(rig.session.apply(&rig.view));
    let came = rig.answer(result);
    let (status, sense, _) = ended(&came);
    if status == ScsiStatus::Good { Ok(()) } else { Err((status, key(sense))) }
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
    assert_eq!(key(rig.read(0, &[0x5E, 3, 0, 0, 0, 0, 0, 0, 64, 0], 64).1), illegal(SenseCode::INVALID_FIELD_IN_CDB));
    let wrong = Err((ScsiStatus::CheckCondition, illegal(SenseCode::INVALID_RELEASE_OF_RESERVATION)));
    assert_eq!(reserved(&mut rig, 2, 1, 0xA3, 0), wrong, "of another type");
    assert_eq!(reserved(&mut rig, 4, 5, 0xA3, 0x77), conflict, "a key that nobody has");
    assert_eq!(reserved(&mut rig, 4, 5, 0xA3, 0), Err((ScsiStatus::CheckCondition, illegal(SenseCode::INVALID_FIELD_IN_PARAMETER_LIST))));
    assert_eq!(reserved(&mut rig, 2, 5, 0xA3, 0), Ok(()));
    assert_eq!(reserved(&mut rig, 3, 0, 0xA3, 0), Ok(()), "clear");
    assert_eq!(parse_keys(&read(&mut rig, 0)).unwrap().1, []);
    assert_eq!(reserve(&mut rig, 7, 0, 1, 1).unwrap_err().1, illegal(SenseCode::INVALID_FIELD_IN_CDB), "REGISTER AND MOVE");
    assert_eq!(reserve(&mut rig, 1, 2, 1, 1).unwrap_err().1, illegal(SenseCode::INVALID_FIELD_IN_CDB), "a type that is none");
    let wire = rig.client.write(0, &[0x5F, 0, 0, 0, 0, 0, 0, 0, 25, 0], 25, &[0; 25], true);
    let came = rig.say(&wire);
    assert_eq!(key(ended(&came).1), illegal(SenseCode::PARAMETER_LIST_LENGTH_ERROR));
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
    for change in 0..4 {
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
        wire[39] ^= u8::from(change == 2);
        wire[23] ^= u8::from(change == 3);
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

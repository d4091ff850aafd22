//! Sessions of several connections, on two cores, over a network that cuts bytes anywhere.

use super::client::Client;
use super::rig::{read10, write10};
use super::world_tests::Rig;
use super::{HOST, TARGET};
use crate::limits::PDU_TIME_MAX;
use crate::login::status;
use base::Duration;
use format::iscsi::{HostPdu, LoginRequest, LogoutRequest, ManagementRequest, NopOut, TargetPdu, management};
use proptest::prelude::*;

/// A login of the connection `cid` of a session; 0: of a new one.
fn login(c: &mut Client, tsih: u16, cid: u16, keys: &str) -> Vec<u8> {
    let request = LoginRequest { transit: true, stage: 1, next: 3, isid: [0x80, 0, 0, 0, 0, 1], tsih, cid, ..Default::default() };
    c.wire(HostPdu::Login(request), true, format!("InitiatorName={HOST}\0TargetName={TARGET}\0{keys}").as_bytes())
}
fn log_in(rig: &mut Rig, tsih: u16, cid: u16, keys: &str) -> (usize, u16, u16) {
    let at = rig.connect();
    rig.send(at, |c| login(c, tsih, cid, keys));
    let (TargetPdu::Login(l), _) = rig.next(at) else { panic!("a login response") };
    if keys.contains("CRC32C") {
        rig.send(at, |c| {
            c.digests = true;
            vec![]
        });
    }
    (at, l.status, l.tsih)
}
/// A session with so many connections.
fn session(rig: &mut Rig, connections: u16) -> (Vec<usize>, u16) {
    let (first, status, tsih) = log_in(rig, 0, 0, "MaxConnections=4\0InitialR2T=No\0");
    assert_eq!(status, status::SUCCESS);
    let mut all = vec![first];
    for cid in 1..connections {
        // Each agrees on digests for itself, and on nothing else.
        let (at, status, same) =
            log_in(rig, tsih, cid, if cid % 2 == 1 { "HeaderDigest=CRC32C\0DataDigest=CRC32C\0" } else { "InitialR2T=Yes\0" });
        assert_eq!((status, same), (status::SUCCESS, tsih));
        all.push(at);
    }
    (all, tsih)
}
/// A command with a CmdSN, which is its tag too.
fn at_turn(c: &mut Client, sn: u32, make: impl FnOnce(&mut Client) -> Vec<u8>) -> Vec<u8> {
    (c.cmd_sn, c.tag) = (sn, sn);
    make(c)
}
fn pause(rig: &mut Rig) {
    rig.world.run_for(Duration::from_millis(50));
}

#[test]
fn commands_are_carried_out_in_their_order_over_all_connections_and_answered_where_they_came() {
    for seed in 0..8 {
        let mut rig = Rig::new(seed);
        rig.in_order();
        let (at, _) = session(&mut rig, 3);
        assert_eq!(rig.sessions(), [(3, 0)]);
        let data = |n: u8| [n; 1024];
        // Number 2, with unsolicited data behind it, then 1: both wait for 0.
        rig.send(at[2], |c| {
            let command = at_turn(c, 2, |c| c.write(0, &write10(0, 2), 1024, &data(2)[..512], false));
            [command, c.unsolicited(2, 512, 0, &data(2)[512..], true)].concat()
        });
        rig.send(at[1], |c| at_turn(c, 1, |c| c.write(0, &write10(0, 2), 1024, &data(1), true)));
        pause(&mut rig);
        assert!((0..3).all(|n| rig.peer.wires.borrow()[at[n]].came.is_empty()), "nothing before its turn");
        rig.send(at[0], |c| at_turn(c, 0, |c| c.write(0, &write10(0, 2), 1024, &data(0), true)));
        for (n, at) in at.iter().enumerate() {
            let (TargetPdu::Response(r), _) = rig.next(*at) else { panic!("a response") };
            assert_eq!((r.tag as usize, r.status), (n, 0));
        }
        rig.send(at[1], |c| at_turn(c, 3, |c| c.read(0, &read10(0, 2), 1024)));
        let (TargetPdu::DataIn(_), bytes) = rig.next(at[1]) else { panic!("data") };
        assert!(bytes == data(2), "the last one was the last");
    }
}

#[test]
fn a_function_waits_for_the_commands_before_it_on_other_connections() {
    let mut rig = Rig::new(1);
    let (at, _) = session(&mut rig, 2);
    rig.hold(true);
    let abort = ManagementRequest { function: management::ABORT_TASK_SET, tag: 9, cmd_sn: 1, ..Default::default() };
    rig.send(at[1], |c| c.wire(HostPdu::Management(abort), true, &[]));
    pause(&mut rig);
    assert!(rig.peer.wires.borrow()[at[1]].came.is_empty());
    rig.send(at[0], |c| at_turn(c, 0, |c| c.read(0, &read10(0, 1), 512)));
    pause(&mut rig);
    rig.hold(false);
    assert!(matches!(rig.next(at[1]), (TargetPdu::Management(m), _) if m.response == 0 && m.tag == 9));
    pause(&mut rig);
    assert!(rig.peer.wires.borrow()[at[0]].came.is_empty(), "it was aborted");
}

#[test]
fn one_connection_can_log_out_and_the_session_goes_on() {
    let mut rig = Rig::new(2);
    let (at, tsih) = session(&mut rig, 3);
    rig.hold(true);
    rig.send(at[0], |c| at_turn(c, 0, |c| c.read(0, &read10(0, 1), 512)));
    pause(&mut rig);
    // The first one, on another: what it has under way is not answered.
    let logout = LogoutRequest { reason: 1, cid: 0, tag: 7, cmd_sn: 1, ..Default::default() };
    rig.send(at[1], |c| c.wire(HostPdu::Logout(logout), true, &[]));
    assert!(matches!(rig.next(at[1]), (TargetPdu::Logout(l), _) if l.response == 0));
    assert!(rig.closes_within(at[0], Duration::from_secs(1)));
    rig.hold(false);
    assert!(rig.peer.wires.borrow()[at[0]].came.is_empty());
    assert_eq!(rig.sessions(), [(2, 0)]);
    // Itself.
    let logout = LogoutRequest { reason: 1, cid: 1, tag: 8, cmd_sn: 1, ..Default::default() };
    rig.send(at[1], |c| c.wire(HostPdu::Logout(logout), true, &[]));
    assert!(matches!(rig.next(at[1]), (TargetPdu::Logout(l), _) if l.response == 0));
    assert!(rig.closes_within(at[1], Duration::from_secs(1)));
    rig.send(at[2], |c| at_turn(c, 1, |c| c.read(0, &read10(0, 1), 512)));
    assert!(matches!(rig.next(at[2]), (TargetPdu::DataIn(d), _) if d.has_status));
    // One that is not there, and one that comes back.
    let logout = LogoutRequest { reason: 1, cid: 1, tag: 9, cmd_sn: 2, ..Default::default() };
    rig.send(at[2], |c| c.wire(HostPdu::Logout(logout), true, &[]));
    assert!(matches!(rig.next(at[2]), (TargetPdu::Logout(l), _) if l.response == 1));
    let (again, status, _) = log_in(&mut rig, tsih, 1, "");
    assert_eq!((status, rig.sessions()), (status::SUCCESS, vec![(2, 0)]));
    // The session: all of them close, and nothing is left.
    rig.send(again, |c| c.wire(HostPdu::Logout(LogoutRequest { tag: 10, cmd_sn: 2, ..Default::default() }), true, &[]));
    assert!(matches!(rig.next(again), (TargetPdu::Logout(l), _) if l.response == 0));
    assert!(rig.closes_within(again, Duration::from_secs(1)) && rig.closes_within(at[2], Duration::from_secs(1)));
    pause(&mut rig);
    assert!(rig.is_quiet());
}

#[test]
fn a_connection_that_is_lost_ends_its_session() {
    let mut rig = Rig::new(3);
    let (at, tsih) = session(&mut rig, 3);
    let lost = rig.peer.wires.borrow()[at[1]].conn.expect("it is connected");
    rig.peer.rt.close(lost);
    assert!(rig.closes_within(at[0], Duration::from_secs(1)) && rig.closes_within(at[2], Duration::from_secs(1)));
    pause(&mut rig);
    assert!(rig.is_quiet());
    assert_eq!(log_in(&mut rig, tsih, 1, "").1, status::NO_SESSION);
}

#[test]
fn a_login_with_the_cid_of_a_connection_takes_its_place() {
    let mut rig = Rig::new(4);
    let (first, _, tsih) = log_in(&mut rig, 0, 0, "");
    let (again, status, _) = log_in(&mut rig, tsih, 0, "");
    assert_eq!(status, status::SUCCESS, "also where there is to be one connection");
    assert!(rig.closes_within(first, Duration::from_secs(1)));
    rig.send(again, |c| at_turn(c, 0, |c| c.read(0, &read10(0, 1), 512)));
    assert!(matches!(rig.next(again), (TargetPdu::DataIn(d), _) if d.has_status));
    assert_eq!(rig.sessions(), [(1, 0)]);
}

#[test]
fn a_session_is_joined_by_its_own_host_and_port_only_and_by_as_many_as_were_agreed() {
    let mut rig = Rig::new(5);
    let (_, tsih) = session(&mut rig, 4);
    assert_eq!(log_in(&mut rig, tsih, 9, "").1, status::TOO_MANY_CONNECTIONS);
    assert_eq!(log_in(&mut rig, tsih + 1, 1, "").1, status::NO_SESSION);
    let at = rig.connect();
    rig.send(at, |c| {
        let mut bytes = login(c, tsih, 1, "");
        bytes[13] = 9;
        bytes
    });
    assert!(matches!(rig.next(at), (TargetPdu::Login(l), _) if l.status == status::NO_SESSION), "another port of the host");
    let at = rig.connect();
    rig.send(at, |c| {
        let request = LoginRequest { transit: true, stage: 1, next: 3, isid: [0x80, 0, 0, 0, 0, 1], tsih, cid: 1, ..Default::default() };
        c.wire(HostPdu::Login(request), true, format!("InitiatorName={HOST}\0SessionType=Discovery\0").as_bytes())
    });
    assert!(matches!(rig.next(at), (TargetPdu::Login(l), _) if l.status == status::NO_SESSION), "not for discovery");
    assert_eq!(rig.sessions(), [(4, 0)]);
}

#[test]
fn a_command_that_never_comes_ends_the_session() {
    let mut rig = Rig::new(6);
    let (at, _) = session(&mut rig, 2);
    rig.send(at[1], |c| at_turn(c, 1, |c| c.read(0, &read10(0, 1), 512)));
    let ping = NopOut { tag: 5, ..Default::default() };
    let second = Duration::from_secs(1);
    for _ in 0..4 {
        rig.world.run_for(PDU_TIME_MAX / 4 - second);
        rig.send(at[0], |c| c.wire(HostPdu::NopOut(ping), true, &[]));
        assert!(!rig.peer.wires.borrow()[at[1]].closed);
    }
    assert!(rig.closes_within(at[0], second * 6) && rig.closes_within(at[1], second));
    let mut rig = Rig::new(7);
    let (at, _) = session(&mut rig, 2);
    rig.send(at[1], |c| at_turn(c, 1, |c| c.read(0, &read10(0, 1), 512)));
    pause(&mut rig);
    let logout = LogoutRequest { reason: 1, cid: 0, tag: 7, ..Default::default() };
    rig.send(at[0], |c| c.wire(HostPdu::Logout(logout), true, &[]));
    assert!(rig.closes_within(at[1], second), "nobody is left who could send it");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Commands that are dealt to connections at random: what is there at the end is what the last of them wrote.
    #[test]
    fn however_commands_are_dealt_their_order_holds(seed in any::<u64>(), dealt in proptest::collection::vec((0usize..4, 0u64..4), 1..80)) {
        let mut rig = Rig::new(seed);
        rig.in_order();
        let (at, _) = session(&mut rig, 4);
        for (sn, (to, millis)) in dealt.iter().enumerate() {
            rig.send(at[*to], |c| at_turn(c, sn as u32, |c| c.write(0, &write10(0, 1), 512, &[sn as u8; 512], true)));
            rig.world.run_for(Duration::from_millis(*millis));
        }
        let last = dealt.len() as u32;
        rig.send(at[0], |c| at_turn(c, last, |c| c.read(0, &read10(0, 1), 512)));
        for (n, at) in at.iter().enumerate() {
            let mine = dealt.iter().enumerate().filter(|(_, (to, _))| *to == n).map(|(sn, _)| sn as u32);
            let got: Vec<u32> = mine.clone().map(|_| match rig.next(*at).0 {
                TargetPdu::Response(r) if r.status == 0 => r.tag,
                other => panic!("{other:?}"),
            }).collect();
            prop_assert_eq!(got, mine.collect::<Vec<_>>());
        }
        let (_, bytes) = rig.next(at[0]);
        prop_assert!(bytes == [(last - 1) as u8; 512], "the last one was the last");
        prop_assert_eq!(rig.sessions(), vec![(4, 0)]);
    }
}

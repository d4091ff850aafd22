//! RESERVE and RELEASE of the whole unit (SPC-2), and what ends them: by whole targets of two cores, with a control plane beside them.

use super::client::Client;
use super::rig::{read10, write10};
use super::view;
use super::world_tests::Rig;
use crate::limits::TICK;
use crate::view::View;
use base::Duration;
use format::iscsi::{HostPdu, LogoutRequest, ManagementRequest, TargetPdu, management};
use format::scsi::{ScsiStatus, Sense, SenseCode};
use frontend::Refused;

const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
const GOOD: (ScsiStatus, Option<SenseCode>) = (ScsiStatus::Good, None);
const CONFLICT: (ScsiStatus, Option<SenseCode>) = (ScsiStatus::ReservationConflict, None);

struct Hosts {
    rig: Rig,
    view: View,
}

impl Hosts {
    fn new(seed: u64) -> Hosts {
        Hosts { rig: Rig::new(seed), view: view() }
    }
    /// A session of the host's port with this number; ports are dealt to the cores in turn.
    fn log_in(&mut self, port: u8) -> usize {
        let at = self.rig.connect();
        self.rig.send(at, |c| {
            let mut login = c.login("");
            login[13] = port;
            login
        });
        let (TargetPdu::Login(l), _) = self.rig.next(at) else { panic!("a login response") };
        assert_eq!(l.status, 0);
        at
    }
    fn ask(&mut self, at: usize, make: impl FnOnce(&mut Client) -> Vec<u8>) -> (ScsiStatus, Option<SenseCode>) {
        self.ask_refused(at, None, make)
    }
    fn ask_refused(
        &mut self,
        at: usize,
        refused: Option<Refused>,
        make: impl FnOnce(&mut Client) -> Vec<u8>,
    ) -> (ScsiStatus, Option<SenseCode>) {
        self.rig.send(at, make);
        self.rig.control(&mut self.view, refused);
        loop {
            match self.rig.next(at) {
                (TargetPdu::DataIn(d), _) if d.has_status => return (ScsiStatus::parse(d.status).unwrap(), None),
                (TargetPdu::DataIn(_), _) => {}
                (TargetPdu::Response(r), data) => {
                    let code = data.get(2..).and_then(Sense::parse).map(|s| s.code);
                    return (ScsiStatus::parse(r.status).unwrap(), code);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    fn log_out(&mut self, at: usize) {
        self.rig.send(at, |c| {
            let logout = LogoutRequest { tag: 77, cmd_sn: c.cmd_sn, ..Default::default() };
            c.wire(HostPdu::Logout(logout), true, &[])
        });
    }
    fn reserve(&mut self, at: usize) -> (ScsiStatus, Option<SenseCode>) {
        self.ask(at, |c| c.read(0, &RESERVE, 0))
    }
    fn is_taken(&self) -> bool {
        self.view.volumes[0].as_ref().unwrap().reservation.as_ref().is_some_and(|r| r.taken().is_some())
    }
}

#[test]
fn a_unit_that_is_taken_whole_is_its_holders_alone_on_all_cores_until_it_releases_it() {
    let mut hosts = Hosts::new(1);
    let (mine, other) = (hosts.log_in(1), hosts.log_in(2));
    assert_eq!(hosts.reserve(mine), GOOD);
    assert_eq!(hosts.reserve(mine), GOOD, "once more");
    assert_eq!(hosts.reserve(other), CONFLICT);
    assert_eq!(hosts.ask(mine, |c| c.write(0, &write10(0, 1), 512, &[1; 512], true)), GOOD);
    let mode_sense = [0x1A, 0, 0x3F, 0, 0xFF, 0];
    let read_keys = [0x5E, 0, 0, 0, 0, 0, 0, 0, 64, 0];
    for cdb in [&[0; 6][..], &mode_sense, &read10(0, 1), &read_keys] {
        assert_eq!(hosts.ask(other, |c| c.read(0, cdb, 512)), CONFLICT, "{cdb:x?}");
    }
    assert_eq!(hosts.ask(other, |c| c.write(0, &write10(0, 1), 512, &[2; 512], true)), CONFLICT);
    let register = [0x5F, 6, 0, 0, 0, 0, 0, 0, 24, 0];
    assert_eq!(hosts.ask(other, |c| c.write(0, &register, 24, &[1; 24], true)), CONFLICT);
    assert_eq!(hosts.ask(mine, |c| c.write(0, &register, 24, &[1; 24], true)), CONFLICT, "nor does its holder mix the two ways");
    // What says only what the unit is: INQUIRY, READ CAPACITY (10).
    for cdb in [&[0x12, 0, 0, 0, 36, 0][..], &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(hosts.ask(other, |c| c.read(0, cdb, 36)), GOOD, "{cdb:x?}");
    }
    assert_eq!(hosts.ask(other, |c| c.read(1, &read10(0, 1), 4096)), GOOD, "another unit");
    assert_eq!(hosts.ask(other, |c| c.read(0, &RELEASE, 0)), GOOD, "which does nothing");
    assert_eq!(hosts.reserve(other), CONFLICT);
    assert_eq!(hosts.ask(mine, |c| c.read(0, &RELEASE, 0)), GOOD);
    assert_eq!(hosts.reserve(other), GOOD);
    assert_eq!(hosts.ask(mine, |c| c.read(0, &read10(0, 1), 512)), CONFLICT);
}

#[test]
fn who_is_registered_keeps_reserve_and_release_out() {
    let mut hosts = Hosts::new(2);
    let mine = hosts.log_in(1);
    let list = format::scsi::reservation::OutList { action_key: 7, ..Default::default() }.to_bytes();
    assert_eq!(hosts.ask(mine, |c| c.write(0, &[0x5F, 0, 0, 0, 0, 0, 0, 0, 24, 0], 24, &list, true)), GOOD);
    assert_eq!(hosts.reserve(mine), CONFLICT);
    assert_eq!(hosts.ask(mine, |c| c.read(0, &RELEASE, 0)), CONFLICT);
}

#[test]
fn the_end_of_its_session_gives_a_unit_back_also_when_the_control_plane_has_no_time_at_first() {
    for seed in 10..20 {
        let mut hosts = Hosts::new(seed);
        // Three, so that the session that ends is on either core.
        let sessions = [1, 2, 3].map(|port| hosts.log_in(port));
        let (gone, other) = (sessions[seed as usize % 3], sessions[(seed as usize + 1) % 3]);
        assert_eq!(hosts.reserve(gone), GOOD);
        match seed % 4 {
            0 | 1 => {
                hosts.log_out(gone);
                hosts.rig.world.run_for(Duration::from_millis(50));
                assert!(!hosts.rig.has_come(gone), "it is answered when the unit is given back");
            }
            // The connection is lost.
            2 => hosts.rig.hang_up(gone),
            // The host begins its session anew.
            _ => {
                hosts.log_in(seed as u8 % 3 + 1);
            }
        }
        if seed % 2 == 0 {
            // A logout is answered then, and the end of the session asks once more.
            let asks = if seed % 4 < 2 { 2 } else { 1 };
            assert_eq!(hosts.rig.control(&mut hosts.view, Some(Refused::Busy)), asks);
            assert!(hosts.is_taken());
            hosts.rig.world.run_for(TICK + TICK);
        }
        assert_eq!(hosts.rig.control(&mut hosts.view, None), 1, "seed {seed}");
        assert!(!hosts.is_taken());
        if seed % 4 < 2 {
            assert!(matches!(hosts.rig.next(gone), (TargetPdu::Logout(l), _) if (l.tag, l.response) == (77, 0)));
            assert!(hosts.rig.closes_within(gone, Duration::from_secs(3)));
        }
        assert_eq!(hosts.reserve(other), GOOD);
        hosts.rig.world.run_for(Duration::from_secs(3));
        assert_eq!(hosts.rig.control(&mut hosts.view, None), 0, "nothing is asked twice");
        assert!(hosts.is_taken(), "by the other one, whose session goes on");
    }
}

#[test]
fn what_a_session_before_the_daemon_began_has_taken_is_given_back() {
    let mut hosts = Hosts::new(3);
    let mine = hosts.log_in(1);
    assert_eq!(hosts.reserve(mine), GOOD);
    let mut later = Hosts { view: hosts.view, ..Hosts::new(4) };
    later.rig.serve(&later.view);
    assert_eq!(later.rig.control(&mut later.view, None), 1);
    assert!(!later.is_taken());
}

#[test]
fn what_a_session_with_another_node_has_taken_stays() {
    let mut hosts = Hosts::new(5);
    let mine = hosts.log_in(1);
    assert_eq!(hosts.reserve(mine), GOOD);
    let mut other = Hosts { view: View { slot: base::NodeSlot::new(1).unwrap(), ..hosts.view }, ..Hosts::new(6) };
    other.rig.serve(&other.view);
    let at = other.log_in(2);
    assert_eq!(other.rig.control(&mut other.view, None), 0);
    assert_eq!(other.reserve(at), CONFLICT);
}

#[test]
fn a_reset_by_anyone_gives_a_unit_back_before_it_is_answered() {
    for (function, lun) in [(management::LOGICAL_UNIT_RESET, 0), (management::TARGET_WARM_RESET, 9)] {
        for refused in [None, Some(Refused::Busy)] {
            let mut hosts = Hosts::new(7);
            let (mine, other) = (hosts.log_in(1), hosts.log_in(2));
            assert_eq!(hosts.reserve(mine), GOOD);
            let reset = ManagementRequest { function, lun: format::scsi::Lun::Unit(lun).to_bytes(), tag: 9, ..Default::default() };
            hosts.rig.send(other, |c| c.wire(HostPdu::Management(reset), true, &[]));
            assert_eq!(hosts.rig.control(&mut hosts.view, refused), 1);
            assert_eq!(hosts.rig.asked_by(), Some((super::HOST.to_owned(), crate::shared::host_id_of(super::HOST, [0x80, 0, 0, 0, 0, 2]))));
            let (TargetPdu::Management(m), _) = hosts.rig.next(other) else { panic!("an answer") };
            let done = refused.is_none();
            assert_eq!((m.tag, m.response == 0, hosts.is_taken()), (9, done, !done));
            let heard = (ScsiStatus::CheckCondition, if lun == 0 { SenseCode::LOGICAL_UNIT_RESET } else { SenseCode::POWER_ON_OR_RESET });
            let next = hosts.ask(mine, |c| c.read(0, &[0; 6], 0));
            assert_eq!(next, (heard.0, Some(heard.1)));
        }
    }
}

#[test]
fn who_clears_a_task_set_or_resets_another_unit_leaves_it() {
    for (function, lun) in [(management::CLEAR_TASK_SET, 0), (management::LOGICAL_UNIT_RESET, 1)] {
        let mut hosts = Hosts::new(8);
        let mine = hosts.log_in(1);
        assert_eq!(hosts.reserve(mine), GOOD);
        let reset = ManagementRequest { function, lun: format::scsi::Lun::Unit(lun).to_bytes(), tag: 9, ..Default::default() };
        hosts.rig.send(mine, |c| c.wire(HostPdu::Management(reset), true, &[]));
        assert_eq!(hosts.rig.control(&mut hosts.view, None), 0);
        assert!(matches!(hosts.rig.next(mine), (TargetPdu::Management(m), _) if m.response == 0));
        assert!(hosts.is_taken());
    }
}

#[test]
fn a_control_plane_that_has_no_time_is_said_to_the_host() {
    let mut hosts = Hosts::new(9);
    let mine = hosts.log_in(1);
    assert_eq!(hosts.ask_refused(mine, Some(Refused::Busy), |c| c.read(0, &RESERVE, 0)), (ScsiStatus::Busy, None));
}

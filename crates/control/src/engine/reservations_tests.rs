use super::*;
use crate::engine::control_requests::tests::{Bench, HOST, bench};
use cluster::reservation::Access;
use frontend::ControlVerb;
use frontend::{ControlRequest, ControlRequestId};

const READ_ONLY: Access = Access { read: true, write: false };

impl Bench {
    fn reserve(&self, host: u8, command: Command) -> Result<Reply, Refused> {
        let subsystem = cluster::default_nqn(DEFAULT_NAME);
        let by = RequestedBy { host: HOST.into(), host_id: [host; 16], export: subsystem, session: 7, ports: Default::default() };
        let volume = self.plane.desired().volumes[0].id;
        self.control.decide(&ControlRequest {
            id: ControlRequestId { core: 0, serial: 1 },
            by,
            what: ControlVerb::Reservation { volume, command },
        })
    }
    /// What every core serves as the rights of hosts 1 and 2 and of one that is not registered, and by which generation of what is served.
    fn served(&self) -> ([Access; 3], u64) {
        let desired = self.plane.desired();
        let state = desired.volumes[0].reservation.clone().unwrap_or_default();
        let on_record = self.control.reservations().unwrap().remove(&desired.volumes[0].id).unwrap_or_default();
        assert_eq!(state, on_record, "what is served is what the directory has");
        ([1, 2, 3].map(|n| state.access(HostId::from_bytes([n; 16]))), desired.generation)
    }
}

#[test]
fn each_command_that_changes_a_reservation_changes_what_is_served_before_it_is_answered() {
    let b = bench();
    let we = ReservationType::WriteExclusive;
    let ea = ReservationType::ExclusiveAccessRegistrantsOnly;
    let none = Access { read: false, write: false };
    let steps = [
        (1, Command::Register { nrkey: 10, ptpl: None }, [Access::FULL; 3]),
        (2, Command::Register { nrkey: 20, ptpl: None }, [Access::FULL; 3]),
        (1, Command::Acquire { crkey: 10, rtype: we }, [Access::FULL, READ_ONLY, READ_ONLY]),
        (2, Command::Preempt { crkey: 20, prkey: 10, rtype: ea, abort: false }, [none, Access::FULL, none]),
        (1, Command::Register { nrkey: 11, ptpl: None }, [Access::FULL, Access::FULL, none]),
        (2, Command::Release { crkey: 20, rtype: Some(ea) }, [Access::FULL; 3]),
        (1, Command::Acquire { crkey: 11, rtype: we }, [Access::FULL, READ_ONLY, READ_ONLY]),
        (1, Command::Unregister { crkey: None, ptpl: None }, [Access::FULL; 3]),
        (2, Command::Acquire { crkey: 20, rtype: we }, [READ_ONLY, Access::FULL, READ_ONLY]),
        (2, Command::Clear { crkey: 20 }, [Access::FULL; 3]),
    ];
    for (host, command, may) in steps {
        let before = b.served().1;
        assert!(b.reserve(host, command).is_ok(), "{command:?}");
        let (served, generation) = b.served();
        assert_eq!(served, may, "after {command:?} of host {host}");
        assert!(generation > before, "{command:?} is served anew");
    }
}

#[test]
fn a_command_that_is_refused_changes_nothing_of_what_is_served() {
    let b = bench();
    let rtype = ReservationType::ExclusiveAccess;
    b.reserve(1, Command::Register { nrkey: 10, ptpl: None }).unwrap();
    b.reserve(1, Command::Acquire { crkey: 10, rtype }).unwrap();
    b.reserve(2, Command::Register { nrkey: 20, ptpl: None }).unwrap();
    let before = b.served();
    for (host, command) in [
        (2, Command::Acquire { crkey: 20, rtype }),
        (1, Command::Release { crkey: 99, rtype: Some(rtype) }),
        (3, Command::Clear { crkey: 10 }),
        (2, Command::Preempt { crkey: 20, prkey: 77, rtype, abort: true }),
    ] {
        assert_eq!(b.reserve(host, command), Err(Refused::ReservationConflict), "{command:?}");
        assert_eq!(b.served(), before, "{command:?}");
    }
}

#[test]
fn persistence_is_set_for_each_volume_and_shown_with_and_without_registrants() {
    let b = bench();
    b.control.create_volume(&serde_json::from_value(serde_json::json!({"name": "v2", "bytes": 1 << 30})).unwrap()).unwrap();
    let volumes: Vec<VolumeId> = b.plane.desired().volumes.iter().map(|v| v.id).collect();
    let persistent = || ["v1", "v2"].map(|v| b.control.volume(v).unwrap().reservation.map(|r| r.persistent));
    assert_eq!(persistent(), [None, None]);
    b.ask(ControlVerb::Persist { volumes: volumes.clone(), ptpl: true }).unwrap();
    assert_eq!(persistent(), [Some(true), Some(true)]);
    assert!(b.plane.desired().volumes.iter().all(|v| v.reservation.as_ref().is_some_and(|r| r.ptpl())), "and served");
    b.ask(ControlVerb::Persist { volumes, ptpl: false }).unwrap();
    assert_eq!(persistent(), [None, None], "nothing is left to be shown");
}

#[test]
fn an_administrator_clears_a_reservation_for_every_host_at_once() {
    let b = bench();
    b.control.clear_reservation("v1").unwrap();
    b.reserve(1, Command::Register { nrkey: 10, ptpl: Some(true) }).unwrap();
    b.reserve(1, Command::Acquire { crkey: 10, rtype: ReservationType::ExclusiveAccess }).unwrap();
    assert_eq!(b.served().0[2], Access { read: false, write: false });
    let generation = b.control.volume("v1").unwrap().reservation.unwrap().generation;
    b.control.clear_reservation("v1").unwrap();
    let shown = b.control.volume("v1").unwrap().reservation.expect("persistence stays");
    assert!(shown.registrants.is_empty() && shown.kind.is_none() && shown.generation > generation);
    assert_eq!(b.served().0, [Access::FULL; 3], "no core serves what was cleared");
    let entry = b.control.audit_entries(10).unwrap().pop().unwrap();
    assert!(entry.detail.contains("by an administrator"), "{}", entry.detail);
}

#[test]
fn a_volume_that_goes_takes_its_reservation_with_it_and_one_that_is_not_ready_gets_none() {
    let b = bench();
    b.reserve(1, Command::Register { nrkey: 10, ptpl: Some(true) }).unwrap();
    let volume = b.plane.desired().volumes[0].id;
    b.fail("delete_component");
    b.control.delete_volume("v1", true).unwrap();
    let late = ControlVerb::Reservation { volume, command: Command::Register { nrkey: 11, ptpl: None } };
    assert_eq!(b.ask(late), Err(Refused::NoUnit));
    b.control.retry();
    assert_eq!(b.control.directory.all::<ReservationRecord>().unwrap().len(), 0);
    assert_eq!(b.control.directory.all::<ObjectRecord>().unwrap().len(), 0);
    assert!(b.control.directory.list(Kind::Name).unwrap().iter().all(|n| !n.key.id.contains("v1")));
}

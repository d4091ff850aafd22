use super::super::control_requests::tests::{Bench, bench};
use super::*;
use base::{HostId, Ownership};
use cluster::reservation::{Command, ReservationType, State};

impl Bench {
    fn directory(&self) -> &dyn Directory {
        &*self.control.directory
    }
}

#[test]
fn a_component_that_was_away_does_not_become_active_by_being_found() {
    for (before, after) in [
        (ComponentState::Absent, ComponentState::Stale),
        (ComponentState::Stale, ComponentState::Stale),
        (ComponentState::Degraded, ComponentState::Degraded),
    ] {
        let b = bench();
        let mut object = b.directory().all::<ObjectRecord>().unwrap().remove(0);
        object.value.stripes[0][0].state = before;
        b.directory().commit(&Transaction::new().update(&object)).unwrap();
        let (plane, control) = b.restart();
        assert_eq!(control.directory.all::<ObjectRecord>().unwrap()[0].stripes[0][0].state, after, "{before:?}");
        assert!(plane.desired().volumes[0].object.stripes.is_empty(), "{before:?}: nobody reads it");
        let shown = control.volume("v1").unwrap();
        assert!(shown.reason.is_some_and(|r| r.contains("behind")), "{before:?}");
    }
}

#[test]
fn a_step_is_taken_again_with_what_another_writer_has_left_and_not_for_ever() {
    let b = bench();
    let volume = || b.directory().all::<VolumeRecord>().unwrap().remove(0);
    let tried = std::cell::Cell::new(0);
    let rename = |mut mine: Versioned<VolumeRecord>, rivals: u32| {
        if tried.replace(tried.get() + 1) < rivals {
            let mut other = volume();
            other.value.created_unix_s += 1;
            b.control.commit(Transaction::new().update(&other)).unwrap();
        }
        mine.value.format_to = None;
        mine.value.lba_bytes = 512;
        b.control.commit(Transaction::new().update(&mine)).map_err(Problem::from)
    };
    let before = volume().created_unix_s;
    b.control.finishing(volume(), |v| rename(v, 3)).unwrap();
    assert_eq!((volume().created_unix_s, volume().lba_bytes, tried.get()), (before + 3, 512, 4), "nobody's change is lost");
    tried.set(0);
    let refused = b.control.finishing(volume(), |v| rename(v, u32::MAX)).unwrap_err();
    assert_eq!((refused.code, tried.get()), (crate::Code::Conflict, CONFLICT_ATTEMPTS_MAX));
}

/// A volume of another node, which a host has protected until a restart and reserved.
fn of_another_node(b: &Bench) -> VolumeRecord {
    let here = b.directory().all::<ObjectRecord>().unwrap().remove(0).value;
    let mut volume = b.directory().all::<VolumeRecord>().unwrap().remove(0).value;
    (volume.id, volume.object, volume.name) = (VolumeId::from_bytes([8; 16]), ObjectId::from_bytes([8; 16]), "other".into());
    volume.write_protect = WriteProtect::UntilRestart;
    let mut stripes = here.stripes;
    for c in stripes.iter_mut().flatten() {
        (c.id, c.node, c.group) = (ComponentId::from_bytes([8; 16]), "h2".into(), GroupId::from_bytes([8; 16]));
    }
    let object = ObjectRecord { id: volume.object, volume: volume.id, ownership: Ownership::FIRST, stripes };
    let reservation = ReservationRecord { volume: volume.id, state: reserved() };
    b.directory().commit(&Transaction::new().create(&volume).create(&object).create(&reservation)).unwrap();
    volume
}

fn reserved() -> State {
    let (mut state, host) = (State::default(), HostId::from_bytes([1; 16]));
    state.execute(host, &Command::Register { nrkey: 1, ptpl: None }).unwrap();
    state.execute(host, &Command::Acquire { crkey: 1, rtype: ReservationType::WriteExclusive }).unwrap();
    state
}

#[test]
fn a_restart_ends_reservations_and_protection_of_the_volumes_of_its_node_only() {
    let b = bench();
    let mut mine = b.directory().all::<VolumeRecord>().unwrap().remove(0);
    mine.value.write_protect = WriteProtect::UntilRestart;
    let reservation = ReservationRecord { volume: mine.id, state: reserved() };
    b.directory().commit(&Transaction::new().update(&mine).create(&reservation)).unwrap();
    let other = of_another_node(&b);
    let (_plane, control) = b.restart();
    let protection = |id: VolumeId| control.directory.find::<VolumeRecord>(&id.to_string()).unwrap().unwrap().write_protect;
    let is_reserved = |id: VolumeId| control.directory.find::<ReservationRecord>(&id.to_string()).unwrap().is_some();
    assert_eq!((protection(mine.id), is_reserved(mine.id)), (WriteProtect::None, false));
    assert_eq!((protection(other.id), is_reserved(other.id)), (WriteProtect::UntilRestart, true), "its node has not restarted");
}

#[test]
fn what_another_writer_changes_in_the_directory_is_carried_out_and_served() {
    let b = bench();
    let follower = {
        let control = Arc::clone(&b.control);
        std::thread::spawn(move || control.follow_directory())
    };
    // Another node, or whoever has the directory: a volume is to be formatted, and is write protected.
    let mut volume = b.directory().all::<VolumeRecord>().unwrap().remove(0);
    (volume.value.format_to, volume.value.write_protect) = (Some(512), WriteProtect::Protected);
    b.directory().commit(&Transaction::new().update(&volume)).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let is_served = || {
        let served = b.plane.desired().volumes[0].clone();
        served.lba_bytes == 512 && !served.formatting && served.write_protect == WriteProtect::Protected
    };
    while !is_served() {
        assert!(Instant::now() < until, "nobody carried it out");
        std::thread::sleep(Duration::from_millis(10));
    }
    b.control.shutdown().unwrap();
    follower.join().unwrap();
}

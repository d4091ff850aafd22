use super::super::control_requests::tests::{Bench, bench};
use super::*;
use crate::fake;
use base::{CopyState, HostId, ObjectId};
use cluster::reservation::{Command, ReservationType, State};

impl Bench {
    fn directory(&self) -> &dyn Directory {
        &*self.control.directory
    }
}

#[test]
fn a_component_that_was_away_does_not_become_active_by_being_found() {
    for (before, after) in
        [(CopyState::Absent, CopyState::Stale), (CopyState::Stale, CopyState::Stale), (CopyState::Degraded, CopyState::Degraded)]
    {
        let b = bench();
        let mut object = b.directory().all::<ObjectRecord>().unwrap().remove(0);
        object.value.mirrors[0][0].state = before;
        b.directory().commit(&Transaction::new().update(&object)).unwrap();
        let (plane, control) = b.restart();
        assert_eq!(control.directory.all::<ObjectRecord>().unwrap()[0].mirrors[0][0].state, after, "{before:?}");
        assert!(plane.desired().volumes[0].object.mirrors.is_empty(), "{before:?}: nobody reads it");
        let shown = control.volume("v1").unwrap();
        assert!(shown.reason.is_some_and(|r| r.contains("behind")), "{before:?}");
    }
}

#[test]
fn a_group_that_is_lost_takes_its_own_components_and_no_others() {
    let b = bench();
    let mut object = b.directory().all::<ObjectRecord>().unwrap().remove(0);
    let here = object.value.mirrors[0][0].clone();
    let lost = GroupId::from_bytes([8; 16]);
    let of_lost = |n: u8| ComponentRecord { id: ComponentId::from_bytes([n; 16]), group: lost, ..here.clone() };
    object.value.mirrors = vec![vec![here.clone()], vec![of_lost(1)], vec![here.clone(), of_lost(2)]];
    b.directory().commit(&Transaction::new().update(&object)).unwrap();
    assert!(b.control.carry_out(&Action::LoseComponents(object.value.id, lost)).unwrap());
    let mirrors = b.directory().all::<ObjectRecord>().unwrap().remove(0).value.mirrors;
    let seen: Vec<Vec<_>> = mirrors.iter().map(|s| s.iter().map(|c| (c.no.is_some(), c.state)).collect()).collect();
    let (kept, alone, behind) = ((true, here.state), (false, here.state), (false, CopyState::Stale));
    assert_eq!(seen, [vec![kept], vec![alone], vec![kept, behind]]);
}

/// Two volumes are unfinished, and one of them stays so: something was done, whichever came first.
#[test]
fn what_was_done_counts_though_something_else_could_not_be_done_after_it() {
    for first in [0, 1] {
        let b = bench();
        b.control.create_volume(&serde_json::from_value(serde_json::json!({"name": "v2", "bytes": 1 << 30})).unwrap()).unwrap();
        let mut volumes = b.directory().all::<VolumeRecord>().unwrap();
        volumes.sort_by_key(|v| v.id);
        let (mut good, mut bad) = (volumes.remove(first), volumes.remove(0));
        good.value.format_to = Some(512);
        bad.value.stage = Stage::Creating;
        let mut object = b.directory().all::<ObjectRecord>().unwrap().into_iter().find(|o| o.id == bad.object).unwrap();
        object.value.mirrors[0][0].no = None;
        b.directory().commit(&Transaction::new().update(&good).update(&bad).update(&object)).unwrap();
        b.fail("create_component");
        assert!(b.control.work().unwrap());
        let unfinished = |v: &Versioned<VolumeRecord>| v.stage != Stage::Ready || v.format_to.is_some();
        let left: Vec<_> = b.directory().all::<VolumeRecord>().unwrap().into_iter().filter(unfinished).map(|v| v.id).collect();
        assert_eq!(left, [bad.id]);
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
    let mut mirrors = here.mirrors;
    for c in mirrors.iter_mut().flatten() {
        (c.id, c.node, c.group) = (ComponentId::from_bytes([8; 16]), "h2".into(), GroupId::from_bytes([8; 16]));
    }
    let object = ObjectRecord::new(volume.object, volume.id, mirrors);
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
    // An owner whose record is read serves what is new, and does nothing of what is to be done for it.
    for served_already in [false, true] {
        let b = bench();
        // Another node, or whoever has the directory: a volume is to be formatted, and is write protected.
        let change = || {
            let mut volume = b.directory().all::<VolumeRecord>().unwrap().remove(0);
            (volume.value.format_to, volume.value.write_protect) = (Some(512), WriteProtect::Protected);
            b.directory().commit(&Transaction::new().update(&volume)).unwrap()
        };
        if served_already {
            b.control.serve(change()).unwrap();
        }
        let follower = {
            let control = Arc::clone(&b.control);
            std::thread::spawn(move || control.follow_directory())
        };
        if !served_already {
            change();
        }
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
}

/// What is open and what was found of components is known at any time: looking for work finds none, whatever was made and deleted.
#[test]
fn there_is_nothing_to_do_after_a_change_that_went_well() {
    let b = bench();
    let at_rest = |what: &str| assert!(!b.control.work().unwrap(), "after {what} there is something to do");
    at_rest("the start");
    for name in ["v2", "v3"] {
        b.control.create_volume(&serde_json::from_value(serde_json::json!({"name": name, "bytes": 1 << 30})).unwrap()).unwrap();
        at_rest("a creation");
    }
    b.control.delete_volume("v2", true).unwrap();
    at_rest("a deletion");
    let resize = |bytes| serde_json::from_value(serde_json::json!({"bytes": bytes, "force": true})).unwrap();
    for bytes in [2u64 << 30, 1 << 30] {
        b.control.resize_volume("v3", &resize(bytes)).unwrap();
        at_rest("a resize");
    }
    let states = b.directory().all::<ObjectRecord>().unwrap();
    assert!(states.iter().flat_map(|o| o.components()).all(|c| c.state == CopyState::Active));
    b.control.remove_group("g1", true).unwrap();
    at_rest("a removal of the group");
    assert!(b.control.live().groups.is_empty());
}

#[test]
fn a_group_in_memory_loses_its_own_components_only() {
    let b = bench();
    let memory =
        serde_json::json!({"name": "m", "cache": {"path": "memory:1GiB"}, "capacity": [{"path": "memory:1GiB"}, {"path": "memory:1GiB"}]});
    b.control.create_group(&serde_json::from_value(memory).unwrap()).unwrap();
    b.control.create_policy(&serde_json::from_value(serde_json::json!({"name": "wide", "stripe_width": 3})).unwrap()).unwrap();
    let wide = serde_json::json!({"name": "w", "bytes": 1 << 30, "policy": "wide"});
    b.control.create_volume(&serde_json::from_value(wide).unwrap()).unwrap();
    let held = |directory: &dyn Directory| {
        let groups = directory.all::<GroupRecord>().unwrap();
        let name = |id| groups.iter().find(|g| g.id == id).map(|g| g.name.clone()).unwrap();
        let objects = directory.all::<ObjectRecord>().unwrap();
        let all = objects.iter().flat_map(|o| o.components()).map(|c| (c.id, (name(c.group), c.no)));
        all.collect::<BTreeMap<_, _>>()
    };
    let before = held(b.directory());
    assert_eq!(before.values().filter(|(g, _)| g == "m").count(), 2);
    let (plane, control) = b.restart();
    for (id, (group, no)) in held(&*control.directory) {
        assert!(group == "m" || before[&id].1 == no, "what was kept stays where it is");
    }
    assert_eq!(plane.components().len(), before.len());
    assert!(control.volumes().unwrap().iter().all(|v| v.state == crate::api::types::VolumeState::Online));
}

#[test]
fn a_volume_that_was_half_made_is_attached_once_and_one_that_was_half_made_and_deleted_is_gone() {
    let b = bench();
    let change = |set: &dyn Fn(&mut VolumeRecord)| {
        let mut volume = b.directory().all::<VolumeRecord>().unwrap().remove(0);
        set(&mut volume.value);
        b.control.commit(Transaction::new().update(&volume)).unwrap();
    };
    let nqn = cluster::default_nqn(DEFAULT_NAME);
    change(&|v| (v.stage, v.attach_to) = (Stage::Creating, Some(nqn.clone())));
    b.control.retry();
    assert_eq!(b.plane.desired().exports.0.0.subsystems[0].namespaces.len(), 1, "it was attached already");
    // Whether its component was made is not known, and there is no room to make it now.
    let mut object = b.directory().all::<ObjectRecord>().unwrap().remove(0);
    object.value.mirrors[0][0].no = None;
    b.control.commit(Transaction::new().update(&object)).unwrap();
    change(&|v| v.stage = Stage::Deleting);
    b.plane.fail_next("create_component", fake::full());
    b.control.retry();
    assert_eq!((b.directory().all::<VolumeRecord>().unwrap().len(), b.control.tasks().unwrap().len()), (0, 0));
}

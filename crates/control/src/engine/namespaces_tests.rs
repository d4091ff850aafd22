use super::super::between::Between;
use super::super::control_requests::tests::{Bench, HOST, OTHER, bench, bench_on, open_directory};
use super::*;
use crate::fake;
use directory::Embedded;
use frontend::ControlVerb;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn create(b: &Bench, mib: u64, shared: bool) -> Result<Reply, Refused> {
    b.ask(ControlVerb::CreateUnit { blocks: mib << 8, lba_bytes: 4096, shared })
}
fn volume(b: &Bench, name: &str) -> api::Volume {
    b.control.volume(name).unwrap()
}

#[test]
fn a_host_makes_attaches_and_deletes_a_namespace() {
    let b = bench();
    assert_eq!(create(&b, 64, true), Err(Refused::NotGranted));
    b.grant();
    assert_eq!(create(&b, 64, true), Ok(Reply::Value(2)));
    let v = volume(&b, "default-ns2");
    assert_eq!((v.bytes, v.lba_bytes, v.policy.as_str()), (64 << 20, 4096, "default"));
    let served = b.plane.desired().exports.0.0.subsystems[0].namespaces[&2].clone();
    assert_eq!(served.hosts, Visibility::Only(Default::default()), "attached to nobody");
    let attach = |host: &str| b.ask(ControlVerb::AttachUnit { unit: 2, hosts: vec![host.into()] });
    assert_eq!((attach(HOST), attach(OTHER)), (Ok(Reply::Done), Ok(Reply::Done)));
    assert_eq!(attach(OTHER), Err(Refused::AlreadyAttached));
    assert_eq!(b.ask(ControlVerb::DeleteUnit { unit: Some(2) }), Ok(Reply::Done));
    assert!(b.control.volume("default-ns2").is_err() && !b.plane.desired().exports.0.0.subsystems[0].namespaces.contains_key(&2));
    assert_eq!(b.ask(ControlVerb::DeleteUnit { unit: Some(2) }), Err(Refused::NoUnit));
    assert_eq!(b.control.audit_entries(10).unwrap().len(), 4);
}

#[test]
fn a_private_namespace_is_one_host_s_at_a_time() {
    let b = bench();
    b.grant();
    assert_eq!(create(&b, 1, false), Ok(Reply::Value(2)));
    let attach = |hosts: &[&str]| b.ask(ControlVerb::AttachUnit { unit: 2, hosts: hosts.iter().map(ToString::to_string).collect() });
    assert_eq!(attach(&[HOST, OTHER]), Err(Refused::Private));
    assert_eq!(attach(&[HOST]), Ok(Reply::Done));
    assert_eq!(attach(&[OTHER]), Err(Refused::Private));
    b.ask(ControlVerb::DetachUnit { unit: 2, hosts: vec![HOST.into()] }).unwrap();
    assert_eq!(attach(&[OTHER]), Ok(Reply::Done));
}

/// Another writer takes each volume name just before it can be taken here, so many times.
#[test]
fn a_name_that_another_writer_takes_first_is_not_asked_for_again() {
    let left = Arc::new(AtomicU32::new(0));
    let rival = Arc::clone(&left);
    let take = move |directory: &Embedded, transaction: &Transaction| {
        let wanted = transaction.changes.iter().find(|c| c.key.kind == Kind::Name && c.key.id.contains("-ns"));
        if let Some(name) = wanted.and_then(|c| c.key.id.split('/').next_back())
            && rival.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok()
        {
            directory.commit(&Transaction::new().take_name(Kind::Volume, name, "another")).unwrap();
        }
    };
    let b = bench_on(|dir| Between::new(open_directory(dir), take));
    b.grant();
    left.store(2, Relaxed);
    assert_eq!(create(&b, 1, true), Ok(Reply::Value(2)));
    assert!(b.control.volume("default-ns2-3").is_ok(), "the first two names were taken by the other");
    left.store(u32::MAX, Relaxed);
    assert_eq!(create(&b, 1, true), Err(Refused::Busy), "it is not tried for ever");
    assert_eq!(b.control.subsystem("default").unwrap().namespaces.len(), 2);
}

#[test]
fn a_grant_s_limits_hold() {
    let b = bench();
    b.grant(); // 8 namespaces, 4 GiB; 1 and 1 GiB are used
    assert_eq!(create(&b, 3 << 10, true), Ok(Reply::Value(2)));
    assert_eq!(create(&b, 1, true), Err(Refused::NoSpace), "the grant's bytes");
    b.ask(ControlVerb::DeleteUnit { unit: Some(2) }).unwrap();
    for nsid in 2..=8 {
        assert_eq!(create(&b, 1, true), Ok(Reply::Value(nsid)));
    }
    assert_eq!(create(&b, 1, true), Err(Refused::NoNumber), "the grant's namespaces");
    assert_eq!(b.ask(ControlVerb::DeleteUnit { unit: None }), Ok(Reply::Done));
    assert!(b.control.volumes().unwrap().is_empty());
    assert_eq!(b.ask(ControlVerb::CreateUnit { blocks: u64::MAX, lba_bytes: 4096, shared: true }), Err(Refused::NoSpace));
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let b = bench();
    b.grant();
    b.plane.fail_next("create_component", fake::full());
    assert_eq!(create(&b, 1, true), Err(Refused::NoSpace));
    assert!(b.control.volume("default-ns2").is_err());
    assert_eq!(b.control.subsystem("default").unwrap().namespaces.len(), 1);
    assert_eq!(create(&b, 1, true), Ok(Reply::Value(2)), "neither name nor id is lost");
}

#[test]
fn what_is_protected_or_shown_elsewhere_is_neither_deleted_nor_formatted() {
    let b = bench();
    b.grant();
    let both = |b: &Bench| (b.ask(ControlVerb::DeleteUnit { unit: Some(1) }), b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }));
    let elsewhere = api::NewSubsystem { name: "other".into(), allow_any_host: true, ..Default::default() };
    b.control.create_subsystem(&elsewhere).unwrap();
    b.control.attach_volume("other", "v1", &api::Attach::default()).unwrap();
    assert_eq!(both(&b), (Err(Refused::Invalid), Err(Refused::Invalid)));
    b.control.detach_volume("other", "v1").unwrap();
    let protect = |on| b.control.change_volume("v1", &api::VolumeChange { read_only: Some(on), ..Default::default() }).unwrap();
    protect(true);
    assert_eq!(both(&b), (Err(Refused::WriteProtected), Err(Refused::WriteProtected)));
    assert_eq!(b.ask(ControlVerb::DeleteUnit { unit: None }), Err(Refused::WriteProtected));
    protect(false);
    assert_eq!(b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }), Ok(Reply::Done));
}

#[test]
fn a_format_frees_everything_and_changes_the_block_size() {
    let b = bench();
    assert_eq!(b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }), Err(Refused::NotGranted));
    b.grant();
    let id = b.plane.desired().volumes[0].id;
    assert_eq!(b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }), Ok(Reply::Done));
    assert_eq!(b.plane.freed(), [(id, 1 << 30)]);
    assert_eq!(b.plane.formatting(), [id], "no command reached it meanwhile");
    let served = b.plane.desired().volumes[0].clone();
    assert_eq!((served.lba_bytes, served.bytes, served.formatting), (512, 1 << 30, false));
    assert_eq!(volume(&b, "v1").lba_bytes, 512);
}

#[test]
fn a_format_that_was_cut_is_finished_later_and_serves_nothing_meanwhile() {
    let b = bench();
    b.grant();
    b.plane.fail_next("free_behind", fake::stopped());
    assert_eq!(b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }), Err(Refused::Failed));
    assert!(b.plane.desired().volumes[0].formatting);
    assert_eq!(b.ask(ControlVerb::Format { unit: 1, lba_bytes: 4096 }), Err(Refused::Busy));
    let (plane, control) = b.restart();
    let served = plane.desired().volumes[0].clone();
    assert_eq!((served.lba_bytes, served.formatting, plane.freed().len()), (512, false, 1));
    assert_eq!(control.volume("v1").unwrap().lba_bytes, 512);
}

#[test]
fn a_namespace_whose_volume_is_being_changed_or_is_offline_is_tried_again_later() {
    let b = bench();
    b.grant();
    assert_eq!(create(&b, 1, true), Ok(Reply::Value(2)));
    let both = |b: &Bench| (b.ask(ControlVerb::DeleteUnit { unit: Some(1) }), b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }));
    let record = || b.control.directory.all::<VolumeRecord>().unwrap().into_iter().find(|v| v.name == "v1").unwrap();
    type Change = fn(&mut VolumeRecord);
    let changes: [Change; 3] = [|v| v.resize_to = Some(v.bytes), |v| v.format_to = Some(512), |v| v.stage = Stage::Creating];
    for change in changes {
        let (before, mut changed) = (record(), record());
        change(&mut changed.value);
        b.control.commit(Transaction::new().update(&changed)).unwrap();
        assert_eq!(both(&b), (Err(Refused::Busy), Err(Refused::Busy)));
        b.control.commit(Transaction::new().update(&Versioned { revision: record().revision, value: before.value })).unwrap();
    }
    let mut object = b.control.directory.all::<ObjectRecord>().unwrap().into_iter().find(|o| o.volume == record().id).unwrap();
    object.value.mirrors[0][0].state = base::CopyState::Stale;
    b.control.commit(Transaction::new().update(&object)).unwrap();
    b.control.apply().unwrap();
    assert_eq!(b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }), Err(Refused::Busy), "nothing of it could be freed");
    assert_eq!(record().format_to, None, "refused, it changes nothing");
    assert_eq!(b.ask(ControlVerb::Format { unit: 2, lba_bytes: 512 }), Ok(Reply::Done), "another is not concerned");
}

#[test]
fn a_format_keeps_size_and_reservation_and_says_the_new_block_size_everywhere() {
    let b = bench();
    b.grant();
    let thick = serde_json::json!({"name": "thick", "space_reservation_percent": 50});
    b.control.create_policy(&serde_json::from_value(thick).unwrap()).unwrap();
    b.control.change_volume("v1", &api::VolumeChange { policy: Some("thick".into()), ..Default::default() }).unwrap();
    let before = b.plane.components().remove(0);
    b.fail("free_behind");
    assert_eq!(b.ask(ControlVerb::Format { unit: 1, lba_bytes: 512 }), Err(Refused::Failed));
    assert_eq!(b.control.tasks().unwrap().len(), 1, "an administrator sees what is left to do");
    b.control.retry();
    assert_eq!(b.control.tasks().unwrap().len(), 0);
    let after = b.plane.components().remove(0);
    assert_eq!((after.bytes, after.reserve_chunks), (before.bytes, before.reserve_chunks));
    let block_bytes = |d: &[u8]| u32::from_le_bytes(d[25..29].try_into().unwrap());
    assert_eq!((block_bytes(&before.descriptor), block_bytes(&after.descriptor)), (4096, 512));
}

#[test]
fn a_grant_counts_the_bytes_of_all_volumes_of_its_subsystem() {
    let b = bench();
    b.grant(); // 4 GiB, of which v1 has one
    for nsid in 2..=4 {
        assert_eq!(create(&b, 1 << 10, true), Ok(Reply::Value(nsid)));
    }
    assert_eq!(create(&b, 1, true), Err(Refused::NoSpace));
    let impossible = serde_json::json!({"name": "mirror", "failures_to_tolerate": 1});
    b.control.create_policy(&serde_json::from_value(impossible).unwrap()).unwrap();
    let grant = api::NamespaceGrant { policy: "mirror".into(), namespaces_max: 8, bytes_max: 5 << 30 };
    b.control.change_subsystem("default", &api::SubsystemChange { namespace_grant: Some(grant), ..Default::default() }).unwrap();
    assert_eq!(create(&b, 1, true), Err(Refused::NoSpace), "its policy cannot be followed here");
    assert_eq!(b.control.volumes().unwrap().len(), 4);
}

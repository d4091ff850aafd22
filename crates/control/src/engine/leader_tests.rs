use super::super::between::Between;
use super::super::control_requests::tests::{bench, bench_on, open_directory};
use super::*;
use crate::api::types as api;
use crate::fake;
use request::Request;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a request")
}

fn volumes(control: &Control) -> Vec<VolumeRecord> {
    control.directory.all::<VolumeRecord>().unwrap().into_iter().map(|v| v.value).collect()
}

/// Who has decided it is gone before anything was done.
fn planned(control: &Control, name: &str) -> VolumeRecord {
    let new: api::NewVolume = from(json!({"name": name, "bytes": 1u64 << 30}));
    let planned = control.planned(&new, 1 << 30, 4096, None).unwrap();
    control.commit(planned.intent()).unwrap();
    planned.volume
}

#[test]
fn what_a_leader_that_is_gone_has_begun_is_carried_on_or_given_up() {
    let b = bench();
    let c = &b.control;
    planned(c, "v2");
    c.retry();
    let names: Vec<_> = volumes(c).into_iter().map(|v| (v.name, v.stage)).collect();
    assert!(names.contains(&("v2".into(), Stage::Ready)), "carried on: {names:?}");

    let v3 = planned(c, "v3");
    b.plane.fail_next("create_component", fake::full());
    c.retry();
    assert!(volumes(c).iter().all(|v| v.id != v3.id), "there is no room for it: given up");
    c.retry();
    assert_eq!(c.tasks().unwrap(), [], "and nothing is left of it");
    assert_eq!(b.plane.components().len(), 2);

    let v4 = planned(c, "v4");
    b.plane.fail_next("create_component", fake::stopped());
    c.retry();
    assert!(volumes(c).iter().any(|v| v.id == v4.id && v.stage == Stage::Creating), "it may still be made");
    c.retry();
    assert!(volumes(c).iter().any(|v| v.id == v4.id && v.stage == Stage::Ready));
    assert_eq!(c.tasks().unwrap(), []);
}

#[test]
fn the_volumes_of_a_policy_follow_or_all_go_back_though_who_changed_it_is_gone() {
    for fits in [true, false] {
        let b = bench();
        let c = &b.control;
        let mut policy = c.policy_record(DEFAULT_NAME).unwrap();
        let before = policy.policy.clone();
        policy.value.policy.space_reservation_percent = 50;
        policy.value.before = Some(before.clone());
        c.commit(Transaction::new().update(&policy)).unwrap();
        if !fits {
            b.plane.fail_next("update_component", fake::full());
        }
        let busy = c.change_policy(DEFAULT_NAME, &from(json!({"space_reservation_percent": 10}))).unwrap_err();
        assert_eq!(busy.code, crate::Code::Unavailable, "{busy:?}");
        c.retry();
        let policy = c.policy_record(DEFAULT_NAME).unwrap();
        assert_eq!(
            (policy.before.clone(), policy.policy.space_reservation_percent),
            (None, if fits { 50 } else { before.space_reservation_percent })
        );
        let reserved = b.plane.components()[0].reserve_chunks;
        assert_eq!(reserved > 0, fits, "{reserved}");
        assert!(!volumes(c)[0].is_under_way());
    }
}

#[test]
fn who_does_not_lead_any_more_decides_nothing_more() {
    let b = bench();
    let c = &b.control;
    let leads = |node: &str| LeaderRecord { node: node.into(), incarnation: 1 };
    let since = c.commit(Transaction::new().create(&leads("h1"))).unwrap();
    let add = |name: &str| {
        let new: api::NewHost = from(json!({"name": name, "nqn": format!("nqn.2014-08.org.example:{name}")}));
        Request::new(None, Some(since)).carry(|| c.add_host(&new))
    };
    add("kvm1").unwrap();
    let mut record = c.directory.find::<LeaderRecord>(LeaderRecord::ID).unwrap().unwrap();
    record.value = leads("h2");
    c.commit(Transaction::new().update(&record)).unwrap();
    assert_eq!(add("kvm2").unwrap_err().code, crate::Code::NotLeader);
    assert_eq!(c.directory.list(Kind::HostEntry).unwrap().len(), 1);
    // What its devices do is written all the same.
    let v2 = planned(c, "v2");
    let made = c.directory.find::<VolumeRecord>(&v2.id()).unwrap().unwrap();
    Request::new(None, Some(since)).carry(|| c.carry_through(made, Finish::Create)).unwrap();
    assert!(volumes(c).iter().all(|v| v.stage == Stage::Ready));
}

#[test]
fn a_request_is_decided_once_whoever_has_it() {
    let b = bench();
    let c = &b.control;
    let nonce = Nonce([5; 16]);
    let limit = |most: u64| {
        let change = from(json!({"iops_limit": most}));
        Request::new(Some(nonce), None).carry(|| c.change_policy(DEFAULT_NAME, &change))
    };
    assert!(!c.is_decided(nonce).unwrap());
    limit(1000).unwrap();
    let again = limit(2000).expect_err("it is decided");
    assert_eq!(again.code, crate::Code::NotLeader);
    assert!(c.is_decided(nonce).unwrap());
    assert_eq!(c.policy_record(DEFAULT_NAME).unwrap().policy.iops_limit, Some(1000));
    // One that was refused was not decided: it may be tried again.
    let other = Nonce([6; 16]);
    let delete = || Request::new(Some(other), None).carry(|| c.delete_policy("gold"));
    assert_eq!(delete().unwrap_err().code, crate::Code::NotFound);
    c.create_policy(&from(json!({"name": "gold"}))).unwrap();
    delete().unwrap();
}

#[test]
fn a_volume_is_not_put_on_a_group_that_goes_meanwhile() {
    let removed = std::sync::atomic::AtomicBool::new(false);
    let b = bench_on(|dir| {
        Between::new(open_directory(dir), move |d, t: &Transaction| {
            let makes_w = t.changes.iter().any(|c| c.key.kind == Kind::Name && c.key.id.ends_with("/w"));
            if makes_w && !removed.swap(true, Relaxed) {
                let mut group = d.all::<GroupRecord>().unwrap().remove(0);
                group.value.stage = Stage::Deleting;
                d.commit(&Transaction::new().update(&group)).unwrap();
            }
        })
    });
    let problem = b.control.create_volume(&from(json!({"name": "w", "bytes": 1u64 << 30}))).expect_err("its group goes");
    assert_eq!(problem.code, crate::Code::Unavailable, "{problem:?}");
    assert!(volumes(&b.control).iter().all(|v| v.name != "w"));
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::LeaderUnfenced, who_does_not_lead_any_more_decides_nothing_more);
    notices(SeededFault::RequestDecidedAgain, a_request_is_decided_once_whoever_has_it);
    notices(SeededFault::PlaceNotHeld, a_volume_is_not_put_on_a_group_that_goes_meanwhile);
}

use super::*;
use base::ObjectId;

fn volume(n: u8, change: impl FnOnce(&mut VolumeRecord)) -> (u64, VolumeRecord) {
    let id = VolumeId::from_bytes([n; 16]);
    let mut volume = VolumeRecord::planned(id, format!("v{n}"), 1 << 30, "gold".into(), ObjectId::from_bytes([n; 16]), 0);
    volume.stage = Stage::Ready;
    change(&mut volume);
    (10, volume)
}

fn task(word: &str, n: u8, why: TaskError, tried: u64) -> TaskRecord {
    let id = format!("{word}-volume/{}", VolumeId::from_bytes([n; 16]));
    TaskRecord { id, what: String::new(), error: String::new(), why, node: "h1".into(), tried, attempts: 1, last_unix_s: 0 }
}

fn of(volumes: Vec<(u64, VolumeRecord)>, tasks: Vec<TaskRecord>) -> Vec<LeaderAction> {
    lead(&Left { volumes, tasks, ..Left::default() }, 0)
}

#[test]
fn what_has_no_room_is_given_up_and_what_may_still_be_done_is_not() {
    let creating = || volume(1, |v| v.stage = Stage::Creating);
    let give_up = vec![LeaderAction::GiveUp(creating().1.id)];
    assert_eq!(of(vec![creating()], vec![task("create", 1, TaskError::NoSpace, 10)]), give_up);
    assert_eq!(of(vec![creating()], vec![]), vec![], "nobody has tried it yet");
    assert_eq!(of(vec![creating()], vec![task("create", 1, TaskError::NoSpace, 9)]), vec![], "it was tried before it was asked for");
    for why in [TaskError::NotNow, TaskError::Failed] {
        assert_eq!(of(vec![creating()], vec![task("create", 1, why, 10)]), vec![], "{why:?}");
    }
    let growing = || volume(1, |v| v.resize_to = Some(2 << 30));
    assert_eq!(of(vec![growing()], vec![task("resize", 1, TaskError::NoSpace, 11)]), give_up);
    let deleting = volume(1, |v| v.stage = Stage::Deleting);
    assert_eq!(of(vec![deleting], vec![task("delete", 1, TaskError::NoSpace, 10)]), vec![], "a deletion goes on");
}

#[test]
fn a_resize_that_is_given_up_leaves_size_and_policy_as_they_were_and_is_given_up_once() {
    let (_, mut v) = volume(1, |v| (v.resize_to, v.policy_before) = (Some(2 << 30), Some("thin".into())));
    assert!(v.give_up());
    assert_eq!((v.resize_to, v.bytes, v.policy.as_str(), v.policy_before.as_deref()), (Some(1 << 30), 1 << 30, "thin", None));
    assert!(!v.give_up(), "what is left is to bring the components in line");
    let (_, mut v) = volume(1, |_| {});
    assert!(!v.give_up() && !v.is_under_way());
}

#[test]
fn tasks_about_nothing_old_requests_and_unfinished_policies_are_seen_to() {
    let request = |n: u64| RequestRecord { nonce: format!("{n:03}"), node: "h1".into(), decided_unix_s: n };
    let mut gold = PolicyRecord::new("Gold".into(), Default::default(), 0);
    gold.before = Some(Default::default());
    let other = TaskRecord { id: "something else".into(), ..task("create", 3, TaskError::Failed, 1) };
    let left = Left {
        copying: [VolumeId::from_bytes([9; 16])].into(),
        volumes: vec![volume(1, |_| {}), volume(2, |v| v.stage = Stage::Deleting)],
        policies: vec![gold, PolicyRecord::new("thin".into(), Default::default(), 0)],
        tasks: vec![
            task("resize", 1, TaskError::Failed, 5),
            task("delete", 2, TaskError::NotNow, 5),
            task("create", 9, TaskError::NoSpace, 5),
            other,
        ],
        requests: (0..200).map(request).collect(),
    };
    let actions = lead(&left, REQUEST_SECONDS + 149);
    let mut forgotten = vec![LeaderAction::FinishPolicy("gold".into())];
    let mut gone = [left.tasks[0].id.clone(), left.tasks[2].id.clone()];
    gone.sort();
    forgotten.extend(gone.map(LeaderAction::ForgetTask));
    forgotten.push(LeaderAction::ForgetRequests((0..100).map(|n| format!("{n:03}")).collect()));
    assert_eq!(actions, forgotten);
    assert!(lead(&Left::default(), u64::MAX).is_empty());
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    base::hooks::notices(
        SeededFault::GivenUpKeepsPolicy,
        a_resize_that_is_given_up_leaves_size_and_policy_as_they_were_and_is_given_up_once,
    );
}

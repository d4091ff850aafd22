use super::*;

fn serving() -> Serving {
    Serving {
        leads: false,
        has_leader: true,
        version: "3.4.23".into(),
        store_bytes: 20 << 20,
        used_bytes: 19 << 20,
        quota_bytes: 2 << 30,
        fsync_p99: Some(Duration::from_millis(4)),
        leader_changes: Some(1),
    }
}
fn member(id: u64, state: Result<Serving, ConnectError>) -> MemberHealth {
    MemberHealth { id, name: format!("n{id}"), learner: false, state }
}
fn three(third: Result<Serving, ConnectError>) -> Vec<MemberHealth> {
    vec![member(1, Ok(Serving { leads: true, ..serving() })), member(2, Ok(serving())), member(3, third)]
}

#[test]
fn three_members_in_order_have_no_problem() {
    let health = judge(three(Ok(serving())), &[]);
    assert!(health.quorum);
    assert_eq!(health.problems, []);
}

#[test]
fn each_problem_is_seen_and_says_what_to_do() {
    let down = || Err(ConnectError::TimedOut);
    let of = |members: Vec<MemberHealth>, alarms: &[(u64, AlarmType)]| {
        let health = judge(members, alarms);
        for problem in &health.problems {
            assert!(!problem.what().is_empty() && !problem.what_to_do().is_empty());
            assert!(!health.quorum || !matches!(problem, Problem::NoQuorum { .. }));
        }
        health.problems
    };
    let why = ConnectError::TimedOut.to_string();
    assert_eq!(of(three(down()), &[]), [Problem::Down { member: "n3".into(), why }]);
    let mut lost = three(down());
    lost[1].state = down();
    assert_eq!(of(lost, &[])[0], Problem::NoQuorum { up: 1, all: 3 });
    assert_eq!(of(three(Ok(serving())), &[(3, AlarmType::NoSpace)]), [Problem::Full { member: "n3".into() }]);
    assert_eq!(of(three(Ok(serving())), &[(2, AlarmType::Corrupt)]), [Problem::Corrupt { member: "n2".into() }]);
    let mut elects = three(Ok(serving()));
    elects.iter_mut().for_each(|m| m.state.as_mut().unwrap().has_leader = false);
    assert_eq!(of(elects, &[]), [Problem::NoQuorum { up: 3, all: 3 }]);
    let nearly = Serving { store_bytes: 17 << 27, used_bytes: 16 << 27, ..serving() };
    assert_eq!(of(three(Ok(nearly)), &[]), [Problem::NearlyFull { member: "n3".into(), percent: 106 }]);
    let slow = Serving { fsync_p99: Some(Duration::from_millis(128)), ..serving() };
    assert_eq!(of(three(Ok(slow)), &[]), [Problem::SlowDisk { member: "n3".into(), fsync_p99: Duration::from_millis(128) }]);
    let free = Serving { store_bytes: 1 << 30, used_bytes: 1 << 20, ..serving() };
    assert!(matches!(of(three(Ok(free)), &[])[..], [Problem::Free { .. }]));
    let newer = Serving { version: "3.5.16".into(), ..serving() };
    assert_eq!(of(three(Ok(newer)), &[]), [Problem::Versions]);
    let two = three(Ok(serving()))[..2].to_vec();
    assert_eq!(of(two, &[]), [Problem::NoSpare { all: 2 }]);
    let mut joins = three(Ok(serving()));
    joins.push(MemberHealth { learner: true, ..member(4, Ok(serving())) });
    assert_eq!(of(joins, &[]), [Problem::Learner { member: "n4".into() }], "a learner does not count for the quorum");
}

#[test]
fn what_stops_changes_comes_first() {
    let mut members = three(Err(ConnectError::TimedOut));
    members[0].state = Err(ConnectError::TimedOut);
    let problems = judge(members, &[(2, AlarmType::NoSpace)]).problems;
    let stops: Vec<bool> = problems.iter().map(Problem::stops_changes).collect();
    assert_eq!(stops, [true, true, false, false]);
}

use super::*;
use crate::Options;
use crate::fixture::{Members, own_address};

fn serving() -> Serving {
    Serving {
        leads: false,
        has_leader: true,
        version: "3.4.23".into(),
        store_bytes: 20 << 20,
        used_bytes: 19 << 20,
        quota_bytes: 2 << 30,
        fsync_p99: None,
        leader_changes: None,
    }
}
fn seen(n: u16, state: Result<Serving, ConnectError>) -> EndpointHealth {
    let endpoint = Endpoint { tls: true, host: "etcd".into(), port: n };
    EndpointHealth { endpoint, member: u64::from(n), votes: true, state }
}

#[test]
fn each_problem_is_seen_and_says_what_who_runs_etcd_has_to_do() {
    let of = |states: Vec<Result<Serving, ConnectError>>, alarms: &[AlarmType]| {
        let health = judge((1..).zip(states).map(|(n, s)| seen(n, s)).collect(), alarms);
        assert!(health.problems.iter().all(|p| !p.what().is_empty() && !p.what_to_do().is_empty()));
        assert_eq!(health.quorum, !health.problems.iter().any(|p| matches!(p, Problem::NoQuorum { .. })));
        health.problems
    };
    let good = || Ok(serving());
    assert_eq!(of(vec![good(), good()], &[]), []);
    assert_eq!(of(vec![good()], &[]), [Problem::OneEndpoint]);
    let down = || Problem::Down { endpoint: "https://etcd:2".into(), why: ConnectError::TimedOut.to_string() };
    assert_eq!(of(vec![good(), Err(ConnectError::TimedOut)], &[]), [down()]);
    let lost = vec![Ok(Serving { has_leader: false, ..serving() }), Err(ConnectError::TimedOut)];
    assert_eq!(of(lost, &[]), [Problem::NoQuorum { up: 1, all: 2 }, down()]);
    let nearly = Ok(Serving { store_bytes: 9 << 28, quota_bytes: 10 << 28, ..serving() });
    let percent = 90;
    assert_eq!(of(vec![nearly.clone(), good()], &[]), [Problem::NearlyFull { endpoint: "https://etcd:1".into(), percent }]);
    assert_eq!(of(vec![nearly, good()], &[AlarmType::NoSpace]), [Problem::Full]);
    assert_eq!(of(vec![good(), good()], &[AlarmType::Corrupt]), [Problem::Corrupt]);
    let fsync_p99 = Duration::from_millis(128);
    let slow = Ok(Serving { fsync_p99: Some(fsync_p99), ..serving() });
    assert_eq!(of(vec![good(), slow], &[]), [Problem::SlowDisk { endpoint: "https://etcd:2".into(), fsync_p99 }]);
}

#[test]
fn endpoints_that_are_down_of_another_authority_or_of_two_etcds_are_not_used() {
    let (one, other) = (Members::start(1, &[]), Members::start(1, &[]));
    let client = |members: &Members, endpoints: Vec<Endpoint>| Client::new(Options { endpoints, ..members.options() }).unwrap();
    let at = |members: &Members| members.all[0].endpoint.clone();
    let checked = |client: &Client| one.block(check(client));
    checked(&client(&one, vec![at(&one)])).unwrap();
    let nobody = Endpoint { host: own_address().to_string(), ..at(&one) };
    let refused = checked(&client(&one, vec![at(&one), nobody.clone()])).unwrap_err();
    assert!(matches!(&refused, Unusable::Endpoint { endpoint, why: ConnectError::Tcp(_) } if *endpoint == nobody), "{refused}");
    let refused = checked(&client(&one, vec![at(&other)])).unwrap_err();
    assert!(matches!(refused, Unusable::Endpoint { why: ConnectError::Certificate(_), .. }), "{refused}");
}

#[test]
fn two_etcds_of_one_authority_are_distinguished_and_a_new_identity_is_taken_for_the_next_connection() {
    let mut two = Members::prepare(2, &[]);
    // Each alone: two clusters.
    two.start_alone(0);
    two.start_alone(1);
    let client = Client::new(two.options()).unwrap();
    let refused = two.block(check(&client)).unwrap_err();
    assert!(matches!(refused, Unusable::Differ { .. }), "{refused}");
    // The other way about: a client whose certificate nobody accepts, until it gets another.
    let foreign = Members::prepare(1, &[]);
    let mixed = authority::Identity { authority: two.identity().authority, ..foreign.identity() };
    let client = Client::new(Options { endpoints: vec![two.all[0].endpoint.clone()], identity: Some(mixed) }).unwrap();
    assert!(two.block(check(&client)).is_err());
    client.set_identity(&two.identity()).unwrap();
    two.block(check(&client)).unwrap();
    let health = two.block(Looker::default().look(&client));
    assert!(health.quorum && health.problems == [Problem::OneEndpoint], "{health:?}");
    two.kill(0);
    let health = two.block(Looker::default().look(&client));
    assert!(!health.quorum && matches!(health.problems[..], [Problem::NoQuorum { up: 0, all: 1 }, Problem::Down { .. }, _]), "{health:?}");
}

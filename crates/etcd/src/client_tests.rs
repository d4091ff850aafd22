//! Against members of the real server.

use super::*;
use crate::fixture::{Members, now};
use crate::{CertificateFault, WatchStream, prefix_end};
use authority::{Authority, NODE_VALID, Subject, UnixSeconds};
use std::{net::IpAddr, time::Duration};

const DAY_S: i64 = 24 * 3600;

fn until() -> Instant {
    Instant::now() + Duration::from_secs(5)
}
fn put(key: &str, value: &[u8], lease: i64) -> RequestOp {
    Request::Put(PutRequest { key: key.into(), value: value.to_vec(), lease }).into()
}
fn txn(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { success, ..TxnRequest::default() }
}
fn addresses(members: &Members) -> Vec<IpAddr> {
    vec!["127.0.0.1".parse().unwrap(), members.all[0].endpoint.host.parse().unwrap()]
}
/// Why the only endpoint cannot be used.
fn refused(members: &Members, options: Options) -> ConnectError {
    let client = Client::new(options).unwrap();
    match members.block(client.member_list(Instant::now() + Duration::from_millis(700))) {
        Err(error @ EtcdError::Unreachable(_)) => {
            assert!(error.did_not_happen());
            let EtcdError::Unreachable(Unreachable(mut tried)) = error else { unreachable!("it was just looked at") };
            tried.pop().unwrap().1
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn certificates_of_another_authority_out_of_their_time_or_for_another_name_are_refused_by_both_sides() {
    let members = Members::start(1, &[]);
    let ours = &members.authority;
    let client = |identity| Options { identity: Some(identity), ..members.options() };
    members.block(Client::new(members.options()).unwrap().member_list(until())).unwrap();
    // The server's, which it reads again for each connection.
    let serve = |subject: &Subject, at: UnixSeconds| ours.issue(subject, at).unwrap().save(&members.all[0].data_dir).unwrap();
    let fault = || match refused(&members, members.options()) {
        ConnectError::Certificate(fault) => fault,
        other => panic!("{other}"),
    };
    let right = Subject::new("m0", addresses(&members));
    let expired = UnixSeconds(now().0 - NODE_VALID.as_secs() as i64 - DAY_S);
    let ahead = UnixSeconds(now().0 + 3 * DAY_S);
    serve(&right, expired);
    assert_eq!(fault(), CertificateFault::Expired);
    serve(&right, ahead);
    assert_eq!(fault(), CertificateFault::NotYetValid);
    serve(&Subject::new("m0", ["127.0.0.9".parse().unwrap()]), now());
    assert_eq!(fault(), CertificateFault::Name);
    serve(&right, now());
    let foreign = Authority::create("test", now()).unwrap();
    let theirs = foreign.issue(&right, now()).unwrap();
    // We do not know the server's authority.
    let unknown = authority::Identity { authority: theirs.authority.clone(), ..members.identity() };
    assert_eq!(refused(&members, client(unknown)), ConnectError::Certificate(CertificateFault::Authority));
    // The server does not know ours, or our time is over.
    let known = members.identity().authority;
    for ours in
        [authority::Identity { authority: known, ..theirs }, ours.issue(&right, expired).unwrap(), ours.issue(&right, ahead).unwrap()]
    {
        let error = refused(&members, client(ours));
        assert!(matches!(error, ConnectError::OwnCertificate(_) | ConnectError::Http(_)), "{error:?}");
        assert!(error.to_string().contains("this node's certificate"), "{error}");
    }
    members.block(Client::new(members.options()).unwrap().member_list(until())).unwrap();
}

#[test]
fn without_a_certificate_nothing_is_dialled_with_tls_and_plain_connections_are_refused() {
    let members = Members::start(1, &[]);
    let none = Options { identity: None, ..members.options() };
    assert!(matches!(Client::new(none), Err(EtcdError::Own(_))));
    let plain = vec![Endpoint { tls: false, ..members.all[0].endpoint.clone() }];
    let error = refused(&members, Options { endpoints: plain, identity: None });
    assert!(matches!(error, ConnectError::Http(_)), "{error:?}");
}

#[test]
fn an_endpoint_that_is_not_there_or_hangs_costs_nothing_but_time_when_another_answers() {
    let mut members = Members::start(3, &[]);
    let nowhere: Endpoint = "https://127.0.0.1:1".parse().unwrap();
    let endpoints = [vec![nowhere], members.options().endpoints].concat();
    let client = Client::new(Options { endpoints, ..members.options() }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let write = |n: u8| runtime.block_on(client.txn(&txn(vec![put("a", &[n], 0)]), until()));
    write(0).unwrap();
    // Whichever member it is connected to: killed, it is certain or not what became of a change, and then another does it.
    for n in 0..3 {
        members.kill(n);
        let mut attempts = 0;
        while let Err(error) = write(n as u8 + 1) {
            assert!(matches!(error, EtcdError::Unknown(_) | EtcdError::Unreachable(_)), "{error}");
            attempts += 1;
            assert!(attempts < 10);
        }
        members.start_again(n);
        members.wait_for(n);
    }
    // A member that hangs takes connections, and is not used: no change is lost in it.
    let hangs = members.leader().map_or(0, |leader| (leader + 1) % 3);
    members.pause(hangs);
    let first = vec![members.all[hangs].endpoint.clone(), members.all[(hangs + 1) % 3].endpoint.clone()];
    let fresh = Client::new(Options { endpoints: first, ..members.options() }).unwrap();
    members.block(fresh.txn(&txn(vec![put("a", b"x", 0)]), until())).unwrap();
    // Nobody answers: it is said in time, and that nothing happened.
    let alone = Client::new(Options { endpoints: vec![members.all[hangs].endpoint.clone()], ..members.options() }).unwrap();
    let began = Instant::now();
    let error = members.block(alone.txn(&txn(vec![put("a", b"y", 0)]), Instant::now() + Duration::from_secs(3))).unwrap_err();
    assert!(error.did_not_happen() && began.elapsed() < Duration::from_secs(4), "{error} after {:?}", began.elapsed());
}

#[test]
fn a_change_that_may_have_happened_is_not_sent_again() {
    let mut members = Members::start(1, &[]);
    let client = Client::new(members.options()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let write = || runtime.block_on(client.txn(&txn(vec![put("a", b"x", 0)]), until()));
    write().unwrap();
    members.pause(0);
    let began = Instant::now();
    assert_eq!(write(), Err(EtcdError::Unknown(Lost::TimedOut)));
    assert!(began.elapsed() < ATTEMPT_MAX + Duration::from_secs(1), "it is said at once");
    members.go_on(0);
    write().unwrap();
    let read = RangeRequest { key: b"a".to_vec(), ..RangeRequest::default() };
    let version = runtime.block_on(client.range(&read, until())).unwrap().kvs[0].version;
    assert!((2..=3).contains(&version), "once, if at all: {version}");
}

#[test]
fn the_keys_of_a_lease_go_in_one_revision() {
    let members = Members::start(1, &[]);
    let client = Client::new(members.options()).unwrap();
    members.block(async {
        let lease = client.lease_grant(&LeaseGrantRequest { ttl_s: 2, id: 0 }, until()).await.unwrap().id;
        let bind = (0..100).map(|n| put(&format!("lease/{n:03}"), b"x", lease)).collect();
        let at = client.txn(&txn(bind), until()).await.unwrap().header.unwrap().revision;
        client.lease_keep_alive(lease, until()).await.unwrap();
        let (mut watch, _) = WatchStream::open(&client, b"lease/", &prefix_end(b"lease/"), at + 1).await.unwrap();
        // It runs out by itself.
        let gone = tokio::time::timeout(Duration::from_secs(10), watch.next()).await.unwrap().unwrap();
        assert_eq!(gone.events.len(), 100);
        assert!(gone.events.iter().all(|e| e.r#type == i32::from(EventType::Delete) && e.kv.as_ref().unwrap().mod_revision == at + 1));
        let ended = client.lease_keep_alive(lease, until()).await;
        assert_eq!(ended, Err(EtcdError::Refused(Refusal::LeaseNotFound)));
        let ended = client.lease_time_to_live(&LeaseTimeToLiveRequest { id: lease, keys: true }, until()).await;
        assert_eq!(ended, Err(EtcdError::Refused(Refusal::LeaseNotFound)));
        client.lease_revoke(lease, until()).await.unwrap();
    });
}

#[test]
fn a_watch_puts_large_bursts_together_says_that_it_lives_and_that_its_beginning_is_gone() {
    let members = Members::start(1, &[]);
    let client = Client::new(members.options()).unwrap();
    members.block(async {
        let mut last = 0;
        // 12 MB behind the watch's beginning: several fragments.
        for n in 0..12u8 {
            let one = |part: &str| put(&format!("w/{part}"), &vec![n; 500_000], 0);
            last = client.txn(&txn(vec![one("a"), one("b")]), until()).await.unwrap().header.unwrap().revision;
        }
        let (mut watch, created) = WatchStream::open(&client, b"w/", &prefix_end(b"w/"), last - 11).await.unwrap();
        assert_eq!(created.revision, last);
        let mut seen = Vec::new();
        while seen.len() < 24 {
            let batch = watch.next().await.unwrap();
            let revisions: Vec<i64> = batch.events.iter().map(|e| e.kv.as_ref().unwrap().mod_revision).collect();
            assert!(revisions.iter().all(|r| revisions.iter().filter(|o| *o == r).count() == 2), "whole revisions");
            seen.extend(revisions);
        }
        assert!(seen.is_sorted());
        watch.request_progress().await.unwrap();
        assert_eq!(watch.next().await.unwrap().events, []);
        client.compact(&CompactionRequest { revision: last, physical: true }, until()).await.unwrap();
        let (mut gone, _) = WatchStream::open(&client, b"w/", &prefix_end(b"w/"), last - 5).await.unwrap();
        assert_eq!(gone.next().await, Err(EtcdError::Refused(Refusal::Compacted)));
        let past = RangeRequest { key: b"w/a".to_vec(), revision: last - 5, ..RangeRequest::default() };
        assert_eq!(client.range(&past, until()).await, Err(EtcdError::Refused(Refusal::Compacted)));
        let future = RangeRequest { revision: last + 50, ..past };
        assert_eq!(client.range(&future, until()).await, Err(EtcdError::Refused(Refusal::FutureRevision)));
    });
}

#[test]
fn requests_beyond_the_servers_limits_are_refused_and_did_not_happen() {
    let members = Members::start(1, &[]);
    let client = Client::new(members.options()).unwrap();
    let refused = |request: TxnRequest| match members.block(client.txn(&request, until())) {
        Err(EtcdError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let many = |n: usize| txn((0..n).map(|n| put(&format!("l{n}"), b"", 0)).collect());
    assert_eq!(refused(many(crate::TXN_OPERATIONS_MAX + 1)), Refusal::TooManyOperations);
    assert_eq!(refused(txn(vec![put("l", &vec![0; crate::REQUEST_BYTES_MAX], 0)])), Refusal::TooLarge);
    assert_eq!(refused(txn(vec![put("l", &vec![0; 3 * crate::REQUEST_BYTES_MAX], 0)])), Refusal::TooLarge);
    members.block(client.txn(&many(crate::TXN_OPERATIONS_MAX), until())).unwrap();
}

/// The leader hangs, and the client is connected to it: a change is made as soon as the others have a leader.
#[test]
fn a_leader_that_hangs_costs_an_election() {
    let mut members = Members::start(3, &[]);
    let leader = members.leader().unwrap();
    let all: Vec<Endpoint> = (0..3).map(|n| members.all[(leader + n) % 3].endpoint.clone()).collect();
    let client = Client::new(Options { endpoints: all, ..members.options() }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let change = || {
        let compare = Compare { result: 0, target: CompareTarget::Version.into(), key: b"b".to_vec(), with: Some(Target::Version(0)) };
        TxnRequest { compare: vec![compare], success: vec![put("a", b"x", 0)], failure: vec![] }
    };
    runtime.block_on(client.txn(&change(), until())).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    members.pause(leader);
    std::thread::sleep(Duration::from_millis(700));
    let began = Instant::now();
    let took = runtime.block_on(async {
        // Another call hangs at all of them meanwhile: a change, which those without a leader lose.
        let lost = change();
        let other = client.read(&lost, until());
        let one = async {
            sleep(Duration::from_millis(50)).await;
            client.txn(&change(), until()).await.unwrap();
            began.elapsed()
        };
        let mut other = pin!(other);
        tokio::select! { took = one => took, _ = async { _ = (&mut other).await; std::future::pending::<()>().await } => unreachable!() }
    });
    members.go_on(leader);
    // An election begins 1 to 2 s after the last sign of life. Who waited for the one that hangs waited 2 s from here.
    assert!(took < Duration::from_millis(1900), "{took:?}");
}

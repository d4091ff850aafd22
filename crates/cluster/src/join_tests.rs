use super::*;

const NOW: u64 = 1_800_000_000;

fn id(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}
fn cluster() -> Membership {
    let node = |n: u8, removed| KnownNode {
        id: Some(id(n)),
        name: format!("node-{n}"),
        address: Some(SocketAddr::from(([192, 0, 2, n], 4460))),
        removed,
    };
    Membership {
        cluster: ClusterId::from_bytes([7; 16]),
        release: "0.4.2".into(),
        nodes: vec![node(1, false), node(2, false), node(9, true)],
    }
}
fn invite() -> InviteRecord {
    InviteRecord { secret_sha256: "00".into(), role: NodeRole::Data, expires_unix_s: NOW + 60, used_by: None, created_unix_s: NOW - 60 }
}
fn request() -> JoinRequest {
    JoinRequest {
        cluster: ClusterId::from_bytes([7; 16]),
        role: NodeRole::Data,
        node: id(3),
        name: "node-3".into(),
        fault_domain: None,
        address: "192.0.2.3:4460".parse().unwrap(),
        release: "0.5.0".into(),
        clock_unix_s: NOW - 299,
    }
}
fn judged(change: impl FnOnce(&mut Membership, &mut InviteRecord, &mut JoinRequest)) -> Result<(), JoinRefused> {
    let (mut cluster, mut invite, mut request) = (cluster(), invite(), request());
    change(&mut cluster, &mut invite, &mut request);
    judge_join(&cluster, Some(&invite), &request, NOW)
}

#[test]
fn a_server_with_a_good_token_joins_and_may_ask_again() {
    assert_eq!(judged(|_, _, _| {}), Ok(()));
    assert_eq!(judged(|_, invite, _| invite.used_by = Some(id(3))), Ok(()), "it did not hear the answer");
    let joined = |c: &mut Membership, i: &mut InviteRecord, r: &mut JoinRequest| {
        i.used_by = Some(id(3));
        c.nodes.push(KnownNode { id: Some(id(3)), name: "node-3".into(), address: Some(r.address), removed: false });
    };
    assert_eq!(judged(joined), Ok(()), "and it has joined");
}

#[test]
fn tokens_that_are_expired_used_foreign_or_forged_let_nobody_in() {
    assert_eq!(judge_join(&cluster(), None, &request(), NOW), Err(JoinRefused::Unknown));
    assert_eq!(judged(|_, i, _| i.expires_unix_s = NOW - 5), Err(JoinRefused::Expired { seconds: 5 }));
    assert_eq!(judged(|_, i, _| i.expires_unix_s = NOW), Ok(()), "its last second");
    assert_eq!(judged(|_, i, _| i.used_by = Some(id(2))), Err(JoinRefused::Used { by: "node-2".into() }));
    assert_eq!(judged(|_, i, _| i.used_by = Some(id(8))), Err(JoinRefused::Used { by: id(8).to_string() }));
    let other = ClusterId::from_bytes([8; 16]);
    assert_eq!(judged(|_, _, r| r.cluster = other), Err(JoinRefused::OtherCluster { token: other, cluster: cluster().cluster }));
    let refused = JoinRefused::Role { token: NodeRole::Data, wanted: NodeRole::Witness };
    assert_eq!(judged(|_, _, r| r.role = NodeRole::Witness), Err(refused));
}

#[test]
fn a_server_that_does_not_fit_is_turned_away_with_the_reason() {
    assert_eq!(judged(|_, _, r| r.clock_unix_s = NOW + 3600), Err(JoinRefused::Clock { seconds: 3600, ahead: true }));
    assert_eq!(judged(|_, _, r| r.clock_unix_s = 0), Err(JoinRefused::Clock { seconds: NOW, ahead: false }));
    for release in ["0.6.0", "1.4.2", "0.2.9", "", "x.y", "0"] {
        let refused = JoinRefused::Release { ours: "0.4.2".into(), theirs: release.into() };
        assert_eq!(judged(|_, _, r| r.release = release.into()), Err(refused));
    }
    for release in ["0.3.0", "0.4.9", "0.5.1"] {
        assert_eq!(judged(|_, _, r| r.release = release.into()), Ok(()), "{release}");
    }
    assert_eq!(judged(|_, _, r| r.name = "NODE-1".into()), Err(JoinRefused::Name { name: "NODE-1".into() }));
    assert_eq!(judged(|_, _, r| r.name = "node-9".into()), Ok(()), "the name of one that was removed is free");
    assert!(matches!(judged(|_, _, r| r.name = "no name".into()), Err(JoinRefused::NoName(_))));
    let taken: SocketAddr = "192.0.2.1:4460".parse().unwrap();
    assert_eq!(judged(|_, _, r| r.address = taken), Err(JoinRefused::Address { address: taken, by: "node-1".into() }));
    for none in ["0.0.0.0:4460", "[::]:4460", "224.0.0.1:4460", "192.0.2.3:0"] {
        let none: SocketAddr = none.parse().unwrap();
        assert_eq!(judged(|_, _, r| r.address = none), Err(JoinRefused::NoAddress(none)));
    }
}

#[test]
fn a_member_does_not_join_twice_and_one_that_was_removed_never_again() {
    assert_eq!(judged(|_, _, r| r.node = id(1)), Err(JoinRefused::Member { name: "node-1".into() }));
    assert_eq!(judged(|_, _, r| r.node = id(9)), Err(JoinRefused::Removed { name: "node-9".into() }));
    let again = |_: &mut Membership, i: &mut InviteRecord, r: &mut JoinRequest| {
        r.node = id(9);
        i.used_by = Some(id(9));
    };
    assert_eq!(judged(again), Err(JoinRefused::Removed { name: "node-9".into() }), "not with the token that it used then either");
}

#[test]
fn there_is_a_limit() {
    let fill = |c: &mut Membership, _: &mut InviteRecord, _: &mut JoinRequest| {
        let more =
            (0..usize::from(NODES_MAX) - 2).map(|n| KnownNode { id: None, name: format!("more-{n}"), address: None, removed: false });
        c.nodes.extend(more);
    };
    assert_eq!(judged(fill), Err(JoinRefused::Full));
    let one_less = |c: &mut Membership, i: &mut InviteRecord, r: &mut JoinRequest| {
        fill(c, i, r);
        c.nodes.pop();
    };
    assert_eq!(judged(one_less), Ok(()), "one that was removed does not count");
}

use super::*;

fn said(free: u64) -> PresenceRecord {
    let device = DeviceReport { index: 0, bytes: 1000, free_bytes: free, used_bytes: 1000 - free };
    let group =
        GroupReport { id: GroupId::from_bytes([1; 16]), offline: None, devices: vec![device], buffer_bytes: 9, buffer_used_bytes: free };
    PresenceRecord {
        node: "h1".into(),
        incarnation: 1,
        release: "1".into(),
        cores: 2,
        started_unix_s: 0,
        groups: vec![group],
        checks: Vec::new(),
        resyncs: Default::default(),
        resync_seconds: Default::default(),
        slow_copies: Default::default(),
        failed_copies: Default::default(),
        moves: Default::default(),
        reported_unix_s: free,
    }
}

#[test]
fn a_node_says_anew_what_others_act_on_and_not_every_byte() {
    let old = said(500);
    assert!(!is_worth_saying(&old, &old) && !is_worth_saying(&old, &said(505)));
    assert!(is_worth_saying(&old, &said(480)), "placement looks at it");
    let changed: [fn(&mut PresenceRecord); 5] = [
        |p| p.groups[0].offline = Some("gone".into()),
        |p| p.groups.clear(),
        |p| p.incarnation = 2,
        |p| p.groups[0].devices.clear(),
        |p| {
            let check = CheckReport {
                id: "x".into(),
                health: ReportHealth::Error,
                subject: "y".into(),
                message: String::new(),
                action: String::new(),
            };
            p.checks.push(check);
        },
    ];
    for (n, change) in changed.into_iter().enumerate() {
        let mut new = old.clone();
        change(&mut new);
        assert!(is_worth_saying(&old, &new), "{n}");
    }
}

#[test]
fn a_resync_takes_as_long_as_it_did_so_far() {
    let s = Duration::from_secs;
    let began = ResyncBegan { at: s(100), done: 200 };
    assert_eq!(began.seconds_left(s(110), 400, 1000), Some(30), "200 in 10 s, 600 to go");
    assert_eq!(began.seconds_left(s(101), 400, 1000), None, "too early to say");
    assert_eq!(began.seconds_left(s(110), 200, 1000), None, "nothing was done");
    assert_eq!(began.seconds_left(s(110), u64::MAX, 1000), Some(0));
}

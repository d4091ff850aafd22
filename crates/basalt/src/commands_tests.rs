use super::*;

fn subsystem(security: Security, iqn: Option<&str>) -> Subsystem {
    Subsystem {
        nqn: "nqn.x".into(),
        iqn: iqn.map(str::to_owned),
        name: "s".into(),
        serial: String::new(),
        allow_any_host: true,
        hosts: vec![],
        namespaces: vec![],
        sessions: 0,
        created_unix_s: 0,
        security,
        namespace_grant: None,
    }
}

/// A person is asked when hosts are cut off, and only then.
#[test]
fn a_change_of_a_subsystem_is_asked_about_when_it_disconnects_hosts() {
    let with = |security| SubsystemChange { security: Some(security), ..SubsystemChange::default() };
    let asked = |now: &Subsystem, change: &SubsystemChange| cuts_off(now, change);
    let plain = subsystem(Security::Plain, None);
    assert!(asked(&plain, &with(Security::Authenticated)).is_some_and(|q| q.contains("proved who they are")));
    assert!(asked(&plain, &with(Security::Encrypted)).is_some_and(|q| q.contains("not encrypted")));
    assert_eq!(asked(&plain, &with(Security::Plain)), None);
    assert_eq!(asked(&subsystem(Security::Encrypted, None), &with(Security::Authenticated)), None);
    let iscsi = |on, iqn: Option<&str>| SubsystemChange { iscsi: on, iqn: iqn.map(str::to_owned), ..SubsystemChange::default() };
    let served = subsystem(Security::Plain, Some("iqn.a"));
    assert!(asked(&served, &iscsi(Some(false), None)).is_some_and(|q| q.contains("over iSCSI")));
    assert!(asked(&served, &iscsi(None, Some("iqn.b"))).is_some_and(|q| q.contains("iqn.a")));
    for (now, change) in [(&served, iscsi(None, Some("iqn.a"))), (&plain, iscsi(None, Some("iqn.b"))), (&plain, iscsi(Some(false), None))] {
        assert_eq!(asked(now, &change), None);
    }
    let both = SubsystemChange { security: Some(Security::Authenticated), ..iscsi(Some(false), None) };
    assert_eq!(asked(&served, &both).unwrap().matches('?').count(), 2);
}

#[test]
fn a_query_has_what_is_given_with_nothing_in_it_that_means_something_else() {
    assert_eq!(query_of(&[None, of_node(None)]), "");
    assert_eq!(query_of(&[Some(("limit", "5".into())), None, of_node(Some("a&limit=1".into()))]), "?limit=5&node=a%26limit%3D1");
}

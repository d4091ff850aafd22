use super::*;

fn settings() -> Settings {
    let peer: SocketAddr = "10.0.0.1:2380".parse().unwrap();
    let members = BTreeMap::from([("a".to_owned(), peer), ("b".to_owned(), "[fd00::2]:2380".parse().unwrap())]);
    Settings {
        name: "a".into(),
        program: "/usr/bin/etcd".into(),
        dir: "/var/lib/basalt/etcd".into(),
        certificates: "/var/lib/basalt/certificates".into(),
        client: "10.0.0.1:2379".parse().unwrap(),
        peer,
        members,
        membership: Membership::New { token: "t".into() },
        quota_bytes: QUOTA_BYTES,
    }
}

#[test]
fn both_sides_need_certificates_and_members_are_named_as_etcd_reads_them() {
    let configuration = settings().configuration();
    for security in ["client-transport-security", "peer-transport-security"] {
        assert_eq!(configuration[security]["client-cert-auth"], true, "{security}");
        assert_eq!(configuration[security]["trusted-ca-file"], "/var/lib/basalt/certificates/authority.crt");
    }
    assert_eq!(configuration["initial-cluster"], "a=https://10.0.0.1:2380,b=https://[fd00::2]:2380");
    assert_eq!((configuration["initial-cluster-state"].as_str(), configuration["pre-vote"].as_bool()), (Some("new"), Some(true)));
    assert_eq!(Settings { membership: Membership::Joins, ..settings() }.configuration()["initial-cluster-state"], "existing");
    assert_eq!(settings().endpoint().to_string(), "https://10.0.0.1:2379");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    settings().check().unwrap();
    let named = |name: &str| Settings { name: name.into(), members: BTreeMap::from([(name.to_owned(), settings().peer)]), ..settings() };
    for name in ["", "a,b", "a=b", "a b"] {
        assert!(matches!(named(name).check(), Err(BadSetting::Name(_))), "{name}");
    }
    assert!(matches!(Settings { name: "c".into(), ..settings() }.check(), Err(BadSetting::Members { .. })));
    assert!(matches!(Settings { peer: settings().client, ..settings() }.check(), Err(BadSetting::Members { .. })));
    assert_eq!(Settings { quota_bytes: 5, ..settings() }.check(), Err(BadSetting::Quota(5)));
    let mut many = settings();
    (0..MEMBERS_MAX).for_each(|n| assert!(many.members.insert(format!("m{n}"), settings().peer).is_none()));
    assert!(matches!(many.check(), Err(BadSetting::Members { .. })));
}

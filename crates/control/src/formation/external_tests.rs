use super::*;
use authority::{Authority, Subject};

fn given() -> api::EtcdSettings {
    let authority = Authority::create("etcd", now()).unwrap();
    let identity = authority.issue(&Subject::new("basalt", []), now()).unwrap();
    let text = |pem: &[u8]| String::from_utf8(pem.to_vec()).unwrap();
    api::EtcdSettings {
        endpoints: Some(vec!["https://a:2379".into(), " https://b:2379".into(), "https://a:2379/".into()]),
        authority: Some(text(&identity.authority)),
        certificate: Some(text(&identity.certificate)),
        key: Some(api::SecretText::new(text(&identity.key))),
    }
}
fn refused(change: impl FnOnce(&mut api::EtcdSettings)) -> String {
    let mut given = given();
    change(&mut given);
    let problem = External::given(&given, None).unwrap_err();
    assert_eq!(problem.code, Code::Invalid, "{problem:?}");
    format!("{}: {}", problem.message, problem.action)
}

#[test]
fn what_is_given_for_an_external_etcd_is_whole_and_fits_together() {
    assert_eq!(External::given(&given(), None).unwrap().texts(), ["https://a:2379", "https://b:2379"]);
    assert!(refused(|g| g.endpoints = None).contains("--etcd-endpoints"));
    assert!(refused(|g| g.endpoints = Some(vec![String::new()])).contains("no endpoint"));
    assert!(refused(|g| g.endpoints = Some(vec!["a:2379".into()])).contains("https://"));
    assert!(refused(|g| g.endpoints = Some(vec!["http://a:2379".into()])).contains("without TLS"));
    assert!(refused(|g| g.endpoints = Some((0..20).map(|n| format!("https://a:{}", n + 1)).collect())).contains("too many"));
    assert!(refused(|g| g.authority = None).contains("--etcd-ca"));
    assert!(refused(|g| g.key = None).contains("give both"));
    assert!(refused(|g| (g.certificate, g.key) = (None, None)).contains("missing"));
    assert!(refused(|g| g.authority = Some("nothing".into())).contains("no certificate of an authority"));
    assert!(refused(|g| g.key = super::tests::given().key).contains("not that of the certificate"));
}

#[test]
fn a_change_leaves_what_it_does_not_name_and_a_record_gives_back_what_was_put_in() {
    let before = External::given(&given(), None).unwrap();
    let endpoints = api::EtcdSettings { endpoints: Some(vec!["https://c:1".into()]), ..Default::default() };
    let changed = External::given(&endpoints, Some(&before)).unwrap();
    assert_eq!((changed.texts(), &changed.identity), (vec!["https://c:1".to_owned()], &before.identity));
    assert!(touched(&api::EtcdSettings::default()).is_err());
    assert_eq!((touched(&endpoints).unwrap(), touched(&given()).unwrap()), ((true, false), (true, true)));

    let vault = Vault::ephemeral();
    let record = changed.to_record(&vault, ExternalFile { endpoints_serial: 2, credentials_serial: 1 }).unwrap();
    let key = String::from_utf8(before.identity.key.to_vec()).unwrap();
    assert!(!serde_json::to_string(&record).unwrap().contains(key.lines().nth(1).unwrap()), "the key is sealed");
    assert_eq!(External::of_record(&record, &vault).unwrap(), changed);
    assert!(matches!(External::of_record(&record, &Vault::ephemeral()), Err(UnusableRecord::Vault(_))));
}

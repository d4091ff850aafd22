use super::*;
use openssl::x509::{X509, X509PurposeId};
use std::os::unix::fs::PermissionsExt;

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn later(by: Duration) -> UnixSeconds {
    UnixSeconds(NOW.0 + by.as_secs() as i64)
}
fn subject() -> Subject {
    Subject::new("n1", ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()])
}
fn refusal(result: Result<(), AuthorityError>) -> Refusal {
    match result {
        Err(AuthorityError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_certificate_of_the_authority_is_taken_and_one_of_another_with_the_same_name_is_not() {
    let ours = Authority::create("c1", NOW).unwrap();
    let other = Authority::create("c1", NOW).unwrap();
    let identity = ours.issue(&subject(), NOW).unwrap();
    identity.check(NOW).unwrap();
    let foreign = Identity { authority: other.certificate_pem().unwrap(), ..identity.clone() };
    assert_eq!(refusal(foreign.check(NOW)), Refusal::Authority);
    let mixed = Identity { key: ours.issue(&subject(), NOW).unwrap().key, ..identity };
    assert_eq!(refusal(mixed.check(NOW)), Refusal::Key);
    assert_ne!(ours.fingerprint().unwrap(), other.fingerprint().unwrap());
}

#[test]
fn a_certificate_is_valid_in_its_time_with_room_for_a_clock_that_is_behind() {
    let identity = Authority::create("c1", NOW).unwrap().issue(&subject(), NOW).unwrap();
    let behind = |by: i64| identity.check(UnixSeconds(NOW.0 - CLOCK_TOLERANCE.as_secs() as i64 - by));
    behind(0).unwrap();
    assert_eq!(refusal(behind(7)), Refusal::NotYet { seconds: 7 });
    identity.check(later(NODE_VALID - Duration::from_secs(1))).unwrap();
    assert_eq!(refusal(identity.check(later(NODE_VALID + Duration::from_secs(9)))), Refusal::Expired { seconds: 9 });
    let validity = identity.validity().unwrap();
    assert!(!validity.renewal_is_due(later(NODE_VALID / 3)) && validity.renewal_is_due(later(NODE_VALID / 2)));
}

#[test]
fn a_certificate_names_its_node_and_its_addresses_and_no_others() {
    let certificate = Authority::create("c1", NOW).unwrap().issue(&subject(), NOW).unwrap().certificate;
    for there in ["127.0.0.1", "::1"] {
        check::names_address(&certificate, there.parse().unwrap()).unwrap();
    }
    let other = "127.0.0.2".parse().unwrap();
    assert_eq!(refusal(check::names_address(&certificate, other)), Refusal::Name("127.0.0.2".into()));
}

#[test]
fn a_node_asks_with_its_own_key_and_gets_the_names_that_the_authority_decides_on() {
    let authority = Authority::create("c1", NOW).unwrap();
    let key = NodeKey::new().unwrap();
    let request = key.request().unwrap();
    let certificate = authority.sign(&request, &subject(), NOW).unwrap();
    let identity = Identity { authority: authority.certificate_pem().unwrap(), certificate, key: key.to_pem().unwrap() };
    identity.check(NOW).unwrap();
    // A request that was changed on its way: another key in it, with the old signature.
    let mut der = openssl::x509::X509Req::from_pem(&request).unwrap().to_der().unwrap();
    let last = der.len() - 1;
    der[last] ^= 1;
    let changed = openssl::x509::X509Req::from_der(&der).unwrap().to_pem().unwrap();
    assert!(authority.sign(&changed, &subject(), NOW).is_err());
}

#[test]
fn a_node_cannot_sign_for_others() {
    let authority = Authority::create("c1", NOW).unwrap();
    let identity = authority.issue(&subject(), NOW).unwrap();
    let pretender = Authority::from_pem(&identity.certificate, &identity.key).unwrap();
    let forged = pretender.issue(&Subject::new("n2", []), NOW).unwrap();
    // As TLS looks at it: the node's certificate between the authority and the forged one.
    let mut store = openssl::x509::store::X509StoreBuilder::new().unwrap();
    store.add_cert(X509::from_pem(&identity.authority).unwrap()).unwrap();
    let mut parameters = openssl::x509::verify::X509VerifyParam::new().unwrap();
    parameters.set_time(NOW.0);
    parameters.set_purpose(X509PurposeId::SSL_SERVER).unwrap();
    store.set_param(&parameters).unwrap();
    let store = store.build();
    let verify = |certificate: &[u8], between: Option<&[u8]>| {
        let mut chain = openssl::stack::Stack::new().unwrap();
        between.into_iter().for_each(|pem| chain.push(X509::from_pem(pem).unwrap()).unwrap());
        let mut context = openssl::x509::X509StoreContext::new().unwrap();
        context.init(&store, &X509::from_pem(certificate).unwrap(), &chain, |c| c.verify_cert()).unwrap()
    };
    assert!(verify(&identity.certificate, None), "the way of looking is right");
    assert!(!verify(&forged.certificate, Some(&identity.certificate)));
}

#[test]
fn names_that_a_certificate_cannot_hold_are_refused() {
    let authority = Authority::create("c1", NOW).unwrap();
    for (name, why) in [("", BadName::Length), ("a b", BadName::Letters), ("n1,DNS:n2", BadName::Letters), ("x\0y", BadName::Letters)] {
        let refused = authority.issue(&Subject::new(name, []), NOW).unwrap_err();
        assert!(matches!(refused, AuthorityError::Name { why: found, .. } if found == why), "{refused}");
    }
    let many = Subject { names: vec!["x".into(); NODE_NAMES_MAX], ..subject() };
    assert!(matches!(authority.issue(&many, NOW), Err(AuthorityError::Name { why: BadName::Many, .. })));
}

#[test]
fn private_keys_are_for_their_owner_only_and_what_was_saved_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create("c1", NOW).unwrap();
    authority.save(dir.path()).unwrap();
    let identity = authority.issue(&subject(), NOW).unwrap();
    identity.save(dir.path()).unwrap();
    identity.save(dir.path()).unwrap();
    assert_eq!(Identity::load(dir.path()).unwrap(), identity);
    assert_eq!(Authority::load(dir.path()).unwrap().fingerprint().unwrap(), authority.fingerprint().unwrap());
    for file in [KEY_FILE, AUTHORITY_KEY_FILE] {
        let path = dir.path().join(file);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    assert!(matches!(Identity::load(dir.path()), Err(AuthorityError::Readable { mode: 0o640, .. })));
    assert!(matches!(Authority::load(dir.path()), Err(AuthorityError::Readable { .. })));
}

#[test]
fn a_fingerprint_is_read_as_it_was_written() {
    let print = Authority::create("c1", NOW).unwrap().fingerprint().unwrap();
    assert_eq!(print.to_string().parse(), Ok(print));
    for bad in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
        assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
    }
}

#[test]
fn a_renewed_certificate_has_the_same_key_and_addresses_and_begins_anew() {
    let authority = Authority::create("c1", NOW).unwrap();
    let old = authority.issue(&subject(), NOW).unwrap();
    let at = later(NODE_VALID - Duration::from_secs(60));
    let more = "10.0.0.9".parse().unwrap();
    let new = authority.renew(&old, "n1", vec![more], at).unwrap();
    new.check(later(NODE_VALID + Duration::from_secs(60))).unwrap();
    assert_eq!((&new.key, new.addresses().unwrap().len()), (&old.key, 3));
    assert!(old.validity().unwrap().renewal_is_due(at) && !new.validity().unwrap().renewal_is_due(at));
    let dir = tempfile::tempdir().unwrap();
    old.save(dir.path()).unwrap();
    new.save_certificate(dir.path()).unwrap();
    assert_eq!(Identity::load(dir.path()).unwrap(), new);
}

#[test]
fn the_end_of_a_certificate_is_near_in_its_last_month_or_in_the_last_quarter_of_a_short_one() {
    let of = |seconds| Validity { from: NOW, until: UnixSeconds(NOW.0 + seconds) };
    let (month, year) = (30 * 86_400, 365 * 86_400);
    let left = |validity: Validity, seconds| validity.nears_its_end(UnixSeconds(validity.until.0 - seconds));
    assert!(!left(of(year), month) && left(of(year), month - 1) && left(of(year), -5));
    assert!(!left(of(4000), 1000) && left(of(4000), 999));
}

#[test]
fn an_identity_of_others_may_have_two_authorities_and_needs_its_own_key() {
    let (servers, clients) = (Authority::create("s", NOW).unwrap(), Authority::create("c", NOW).unwrap());
    let own = clients.issue(&subject(), NOW).unwrap();
    let both = [servers.certificate_pem().unwrap(), clients.certificate_pem().unwrap()].concat();
    let identity = Identity { authority: both, ..own };
    identity.check_foreign(NOW).unwrap();
    assert_eq!(refusal(identity.check_foreign(later(NODE_VALID))), Refusal::Expired { seconds: 0 });
    let other_key = Identity { key: clients.issue(&subject(), NOW).unwrap().key, ..identity.clone() };
    assert_eq!(refusal(other_key.check_foreign(NOW)), Refusal::Key);
    assert!(matches!(Identity { authority: b"nothing".to_vec(), ..identity.clone() }.check_foreign(NOW), Err(AuthorityError::Empty)));
    let mut context = openssl::ssl::SslConnector::builder(openssl::ssl::SslMethod::tls_client()).unwrap();
    identity.configure(&mut context).unwrap();
    let sealed = openssl::pkey::PKey::private_key_from_pem(&identity.key).unwrap();
    let sealed = sealed.private_key_to_pem_pkcs8_passphrase(openssl::symm::Cipher::aes_256_cbc(), b"secret").unwrap();
    let asks = Identity { key: zeroize::Zeroizing::new(sealed), ..identity };
    assert!(matches!(asks.check_foreign(NOW), Err(AuthorityError::OpenSsl { doing: Doing::ReadKey, .. })));
}

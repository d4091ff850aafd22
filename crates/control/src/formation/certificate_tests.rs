use super::*;
use authority::NODE_VALID;

const START: UnixSeconds = UnixSeconds(1_800_000_000);

fn later(days: i64) -> UnixSeconds {
    UnixSeconds(START.0 + days * DAY_S)
}
/// A node's folders, with an authority and a certificate that was made at the start.
fn node(role: NodeRole) -> (tempfile::TempDir, Home, MembershipFile, Identity) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    std::fs::create_dir(home.folder()).unwrap();
    let id = NodeId::from_random([7; 16]);
    let mut file = MembershipFile::new(base::ClusterId::from_random([1; 16]), id, "n".into(), "10.0.0.1:7420".parse().unwrap());
    file.role = role;
    let authority = Authority::create("c", START).unwrap();
    let identity = authority.issue(&Subject::new(id.to_string(), ["10.0.0.9".parse().unwrap()]), START).unwrap();
    identity.save(&home.folder()).unwrap();
    if role == NodeRole::Data {
        authority.save(&home.folder()).unwrap();
    }
    (dir, home, file, identity)
}

#[test]
fn a_node_with_data_renews_its_certificate_at_its_start_when_half_of_its_time_is_over() {
    let (_dir, home, file, identity) = node(NodeRole::Data);
    assert_eq!(at_start(&home, &file, identity.clone(), later(300)).unwrap(), identity);
    let renewed = at_start(&home, &file, identity.clone(), later(400)).unwrap();
    assert_eq!(Identity::load(&home.folder()).unwrap(), renewed);
    assert_eq!(renewed.key, identity.key);
    let mut addresses = renewed.addresses().unwrap();
    addresses.sort();
    assert_eq!(addresses, ["10.0.0.1", "10.0.0.9"].map(|a| a.parse::<IpAddr>().unwrap()), "those of before, and where others reach it");
    renewed.check(later(400 + 700)).unwrap();
}

#[test]
fn a_certificate_that_has_ended_is_renewed_by_a_node_with_data_and_refused_by_a_witness() {
    let ended = later(1 + NODE_VALID.as_secs() as i64 / DAY_S);
    let (_dir, home, file, identity) = node(NodeRole::Data);
    at_start(&home, &file, identity, ended).unwrap().check(ended).unwrap();
    let (_dir, home, file, identity) = node(NodeRole::Witness);
    let refused = at_start(&home, &file, identity.clone(), ended).unwrap_err();
    assert!(refused.to_string().contains("was not renewed"), "{refused}");
    assert_eq!(at_start(&home, &file, identity.clone(), later(400)).unwrap(), identity, "it asks others when it runs");
}

#[test]
fn an_authority_of_another_cluster_signs_nothing_that_is_used() {
    let (_dir, home, file, identity) = node(NodeRole::Data);
    Authority::create("other", START).unwrap().save(&home.folder()).unwrap();
    assert!(sign_own(&home, &file, &identity, later(400)).is_err());
    identity.save(&home.folder()).unwrap();
    assert!(sign_own(&home, &file, &identity, later(400)).is_err(), "its key is another's still");
    assert_eq!(at_start(&home, &file, identity.clone(), later(400)).unwrap(), identity);
}

#[test]
fn health_says_that_a_certificate_nears_its_end_and_why_it_was_not_renewed() {
    let year = Validity { from: START, until: later(365) };
    let own = |failed, days| check_own(year, failed, later(days)).map(|c| (c.health, c.message));
    assert_eq!(own(None, 300), None);
    let (health, message) = own(Some("no authority"), 300).unwrap();
    assert!(health == api::Health::Warning && message.contains("no authority"), "{message}");
    let (health, message) = own(None, 340).unwrap();
    assert!(health == api::Health::Warning && message.contains("ends in 25 days"), "{message}");
    assert_eq!(own(None, 363).unwrap().0, api::Health::Error);
    let external = |days| check_external(year, later(days)).map(|c| (c.health, c.message, c.action));
    assert_eq!(external(300), None);
    let (health, message, action) = external(366).unwrap();
    assert!(health == api::Health::Error && message.contains("ended 24 h ago") && action.contains("--etcd-cert"), "{message}");
}

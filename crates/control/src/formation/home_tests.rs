use super::*;
use std::os::unix::fs::PermissionsExt;

fn file() -> MembershipFile {
    let address = "127.0.0.2:7420".parse().unwrap();
    MembershipFile::new(ClusterId::from_bytes([1; 16]), NodeId::from_bytes([2; 16]), "a".into(), address)
}

#[test]
fn a_membership_is_read_as_it_was_written_and_one_of_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    assert!(matches!(home.membership(), Ok(None)));
    home.save_membership(&file()).unwrap();
    assert_eq!(home.membership().unwrap(), Some(file()));
    let mode = fs::metadata(dir.path().join(MEMBERSHIP_FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    home.save_membership(&MembershipFile { version: 2, ..file() }).unwrap();
    assert!(matches!(home.membership(), Err(FormationError::Membership { .. })));
    fs::write(dir.path().join(MEMBERSHIP_FILE), "{").unwrap();
    assert!(matches!(home.membership(), Err(FormationError::Membership { .. })));
}

#[test]
fn what_a_formation_has_left_goes_before_the_next_and_what_belongs_to_a_membership_stays() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    home.prepare().unwrap();
    fs::create_dir(home.etcd_folder()).unwrap();
    home.save_peers_secret(&[7; 32]).unwrap();
    home.prepare().unwrap();
    assert!(home.folder().exists() && !home.etcd_folder().exists());
    assert!(home.peers_secret().is_err());
    home.save_peers_secret(&[7; 32]).unwrap();
    home.save_membership(&file()).unwrap();
    home.clear().unwrap();
    assert!(home.peers_secret().unwrap().is(&[7; 32]));
}

#[test]
fn what_an_external_etcd_is_used_with_is_one_file_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    home.prepare().unwrap();
    let pem = |text: &str| text.as_bytes().to_vec();
    let identity = Identity { authority: pem("a"), certificate: pem("c"), key: zeroize::Zeroizing::new(pem("k")) };
    home.save_external(&identity).unwrap();
    assert_eq!(home.external().unwrap(), identity);
    let path = home.folder().join(EXTERNAL_FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(home.external(), Err(FormationError::Authority(AuthorityError::Readable { mode: 0o644, .. }))));
}

#[test]
fn an_attempt_to_make_a_cluster_is_the_same_one_until_it_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    let attempt = home.creating().unwrap();
    home.prepare().unwrap();
    assert_eq!((home.creating().unwrap(), home.begun().unwrap()), (attempt, Some(attempt)));
    home.created().unwrap();
    assert_eq!(home.begun().unwrap(), None);
    assert_ne!(home.creating().unwrap(), attempt);
}

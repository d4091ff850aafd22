use super::*;
use std::io::Write;

#[test]
fn a_file_with_data_is_refused_unless_its_loss_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("photos");
    fs::write(&path, vec![7; 100_000]).unwrap();
    let lost = would_be_lost(&path).unwrap();
    let said = check("photos", lost.clone(), false).unwrap_err().to_string();
    assert!(said.contains("photos") && said.contains("100000 bytes") && said.contains("--destroy"), "{said}");
    check("photos", lost, true).unwrap();
}

#[test]
fn a_sparse_or_empty_file_and_one_of_ours_may_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let file = fs::File::create(&path).unwrap();
    assert_eq!(would_be_lost(&path).unwrap(), None);
    file.set_len(1 << 20).unwrap();
    assert_eq!(would_be_lost(&path).unwrap(), None);
    mark(&path).unwrap();
    (&file).write_all(&[1; 8192]).unwrap();
    file.sync_all().unwrap();
    assert_eq!(would_be_lost(&path).unwrap(), None);
    // Another file that takes its place is not ours. (Kept open, so that its inode is not given again.)
    fs::remove_file(&path).unwrap();
    fs::write(&path, vec![7; 8192]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    assert!(would_be_lost(&path).unwrap().is_some());
}

#[test]
fn a_file_system_is_called_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let mut image = vec![0; 128 << 10];
    image[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xEF]);
    fs::write(&path, image).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let lost = would_be_lost(&path).unwrap().unwrap();
    assert!(lost.contains("ext"), "{lost}");
    // Also in a file that the lab has made: somebody uses it since.
    mark(&path).unwrap();
    assert_eq!(would_be_lost(&path).unwrap(), Some(lost));
}

#[test]
fn what_is_no_disk_is_refused() {
    assert!(would_be_lost(Path::new("/no/such/disk")).unwrap_err().to_string().contains("/no/such/disk"));
    assert!(would_be_lost(Path::new("/dev/null")).is_err());
}

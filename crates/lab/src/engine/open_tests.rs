use super::*;

#[test]
fn a_size_behind_a_path_makes_a_file() {
    assert_eq!(path_and_size("disk.img:10GiB"), ("disk.img".into(), Some(10 << 30)));
    assert_eq!(path_and_size("/dev/disk/by-path/pci-0000:00:04.0"), ("/dev/disk/by-path/pci-0000:00:04.0".into(), None));
    assert_eq!(path_and_size("/dev/nvme0n1"), ("/dev/nvme0n1".into(), None));
}

#[test]
fn a_system_without_disks_is_refused() {
    let e = System::of(Vec::new()).open(false, 1, &Ledgers::default()).err().unwrap().to_string();
    assert!(e.contains("1 to 256 disks"), "{e}");
    let e = System { workers: 0, ..System::of(vec!["x".into()]) }.open(false, 1, &Ledgers::default()).err().unwrap().to_string();
    assert!(e.contains("workers"), "{e}");
}

use super::*;
use std::{fs, os::unix::fs::symlink, path::Path};

struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        for dir in ["sys/block", "dev/disk/by-id", "proc"] {
            fs::create_dir_all(fake.0.path().join(dir)).unwrap();
        }
        fake
    }
    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    /// A block device of one GiB with these first bytes.
    fn device(&self, name: &str, head: &[(usize, &[u8])]) {
        self.put(&format!("sys/block/{name}/size"), "2097152\n");
        self.put(&format!("sys/block/{name}/queue/rotational"), "0\n");
        self.put(&format!("sys/block/{name}/queue/logical_block_size"), "4096\n");
        let mut bytes = vec![0u8; SIGNATURE_PROBE_BYTES];
        for (offset, mark) in head {
            bytes[*offset..offset + mark.len()].copy_from_slice(mark);
        }
        fs::write(self.0.path().join("dev").join(name), bytes).unwrap();
    }
    fn nvme(&self, name: &str) {
        self.device(name, &[]);
        self.put(&format!("sys/block/{name}/nsid"), "1\n");
        self.put(&format!("sys/block/{name}/device/model"), "INTEL SSDPE21K375GA                     \n");
        self.put(&format!("sys/block/{name}/device/serial"), "PHKE1234\n");
        self.put(&format!("sys/block/{name}/device/firmware_rev"), "E2010325\n");
        self.put(&format!("sys/block/{name}/device/transport"), "pcie\n");
    }
    fn drives(&self) -> Vec<Drive> {
        Scanner::new(self.0.path()).drives().unwrap()
    }
    fn uses(&self, name: &str) -> Vec<String> {
        self.drives().into_iter().find(|d| d.name == name).unwrap().uses.iter().map(ToString::to_string).collect()
    }
}

#[test]
fn an_nvme_namespace_says_what_it_is() {
    let fake = Fake::new();
    fake.nvme("nvme0n1");
    symlink("../../nvme0n1", fake.0.path().join("dev/disk/by-id/nvme-eui.0123456789abcdef")).unwrap();
    symlink("../../nvme0n1", fake.0.path().join("dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE1234")).unwrap();
    let drives = fake.drives();
    let drive = &drives[0];
    assert_eq!((drive.kind, drive.bytes, drive.lba_bytes), (DriveKind::Nvme, 1 << 30, 4096));
    assert_eq!((drive.model.as_deref(), drive.serial.as_deref()), (Some("INTEL SSDPE21K375GA"), Some("PHKE1234")));
    assert_eq!(drive.stable_path.as_deref(), Some(Path::new("/dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE1234")));
    let nvme = drive.nvme.as_ref().unwrap();
    assert_eq!((nvme.controller.as_str(), nvme.nsid, nvme.transport.as_deref()), ("nvme0", 1, Some("pcie")));
    assert_eq!(drive.uses, []);
}

#[test]
fn drives_are_in_the_order_of_their_numbers_and_no_loop_or_path_is_among_them() {
    let fake = Fake::new();
    for name in ["nvme10n1", "nvme2n1", "sda", "loop0", "zram0", "dm-0", "nvme0c0n1"] {
        fake.device(name, &[]);
    }
    fake.put("sys/block/sdb/size", "0\n");
    let names: Vec<String> = fake.drives().into_iter().map(|d| d.name).collect();
    assert_eq!(names, ["nvme2n1", "nvme10n1", "sda"]);
}

#[test]
fn whoever_uses_a_drive_is_named() {
    let fake = Fake::new();
    for name in ["sda", "sdb", "sdc", "sdd", "sde"] {
        fake.device(name, &[]);
    }
    fake.put("proc/mounts", "/dev/sda2 / ext4 rw 0 0\n/dev/sdb /mnt/my\\040disk xfs rw 0 0\n");
    fake.put("proc/swaps", "Filename Type Size Used Priority\n/dev/sdc partition 1 0 -2\n");
    fake.put("sys/block/sda/sda1/partition", "1\n");
    fake.put("sys/block/sda/sda2/partition", "2\n");
    fake.put("sys/block/sdd/holders/dm-3/dm/name", "vg0-data\n");
    assert_eq!(fake.uses("sda"), ["2 partitions", "mounted at /"]);
    assert_eq!(fake.uses("sdb"), ["mounted at /mnt/my disk"]);
    assert_eq!(fake.uses("sdc"), ["swap in use"]);
    assert_eq!(fake.uses("sdd"), ["part of vg0-data (dm-3)"]);
    assert_eq!(fake.uses("sde"), Vec::<String>::new());
}

#[test]
fn what_a_device_holds_is_recognised() {
    for (mark, what) in [
        (&[(0x438usize, &[0x53u8, 0xEF][..])][..], "an ext2, ext3 or ext4 file system"),
        (&[(0, b"XFSB")], "an XFS file system"),
        (&[(512, b"EFI PART"), (510, &[0x55, 0xAA])], "a partition table (GPT)"),
        (&[(510, &[0x55, 0xAA])], "a partition table (MBR) or boot sector"),
        (&[(65 * 1024, &0x00BA_B10Cu64.to_le_bytes())], "a member of a ZFS pool"),
    ] {
        let fake = Fake::new();
        fake.device("sda", mark);
        assert_eq!(fake.uses("sda"), [what]);
    }
}

#[test]
fn a_drive_that_cannot_be_looked_at_is_not_said_to_be_free() {
    let fake = Fake::new();
    fake.device("sda", &[]);
    fs::remove_file(fake.0.path().join("dev/sda")).unwrap();
    assert_eq!(fake.uses("sda"), ["unreadable: its device node is missing"]);
}

#[test]
fn a_machine_without_sysfs_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let reported = Scanner::new(dir.path()).drives().unwrap_err().to_string();
    assert!(reported.contains("is /sys mounted?"), "{reported}");
}

#[test]
fn the_health_of_a_drive_is_asked_for_and_what_cannot_be_asked_says_why() {
    let fake = Fake::new();
    fake.nvme("nvme0n1");
    fake.device("sda", &[]);
    let scanner = Scanner::new(fake.0.path());
    let why = |name: &str| {
        let drive = fake.drives().into_iter().find(|d| d.name == name).unwrap();
        scanner.health(&drive).unwrap_err()
    };
    assert!(matches!(why("sda"), HealthError::NotNvme));
    // A file in the place of the device: the kernel has nobody to ask.
    assert!(matches!(why("nvme0n1"), HealthError::Kernel(e) if e.raw_os_error() == Some(libc::ENOTTY)));
    fs::remove_file(fake.0.path().join("dev/nvme0n1")).unwrap();
    assert!(matches!(why("nvme0n1"), HealthError::Open(_)));
}

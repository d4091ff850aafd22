//! Recognises what others left on a device, so that it is not overwritten by mistake.
//!
//! Owns: the places and values of their signatures (util-linux's libblkid collects them).
//! Never: decides what to do about it.

fn at(bytes: &[u8], offset: usize, value: &[u8]) -> bool {
    bytes.get(offset..offset + value.len()) == Some(value)
}

/// Signatures at the start of a device: offset, value, name. The order matters where several may be there at once.
pub const FRONT: &[(usize, &[u8], &str)] = &[
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (1080, &[0x53, 0xEF], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x1_0040, b"_BHRfS_M", "a Btrfs file system"),
    (1024, &[0x10, 0x20, 0xF5, 0xF2], "an F2FS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (82, b"FAT32   ", "a FAT file system"),
    (54, b"FAT16   ", "a FAT file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0, b"LABELONE", "an LVM physical volume"),
    (512, b"LABELONE", "an LVM physical volume"),
    (1024, b"LABELONE", "an LVM physical volume"),
    (1536, b"LABELONE", "an LVM physical volume"),
    (0, b"LUKS\xBA\xBE", "a LUKS encrypted volume"),
    (0x4000, b"SKUL\xBA\xBE", "a LUKS encrypted volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4086, b"SWAP-SPACE", "swap space"),
    (0, &[0xFC, 0x4E, 0x2B, 0xA9], "a member of a Linux software RAID (md)"),
    (4096, &[0xFC, 0x4E, 0x2B, 0xA9], "a member of a Linux software RAID (md)"),
    (
        4120,
        &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA, 0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA, 0x6D, 0x81],
        "a bcache or bcachefs device",
    ),
    (0, b"bluestore block device", "a Ceph BlueStore device"),
];

/// What the first MiB and the last bytes of a device of `device_bytes` look like; `None` when nothing known is there.
pub fn recognise(front: &[u8], tail: &[u8], device_bytes: u64) -> Option<&'static str> {
    if let Some((_, _, what)) = FRONT.iter().find(|(offset, value, _)| at(front, *offset, value)) {
        return Some(what);
    }
    if zfs(front) || zfs(tail) {
        return Some("a member of a ZFS pool");
    }
    let tail_start = device_bytes - tail.len() as u64;
    let in_tail = |offset: u64, value: &[u8]| offset.checked_sub(tail_start).is_some_and(|o| at(tail, o as usize, value));
    let md = [0xFC, 0x4E, 0x2B, 0xA9];
    // md 0.90: in the last whole 64 KiB but one; md 1.0: 8 KiB from the end, aligned to 4 KiB
    if in_tail((device_bytes & !0xFFFF).saturating_sub(0x1_0000), &md) || in_tail((device_bytes & !0xFFF).saturating_sub(0x2000), &md) {
        return Some("a member of a Linux software RAID (md)");
    }
    if in_tail(device_bytes.saturating_sub(512), b"EFI PART") || in_tail(device_bytes.saturating_sub(4096), b"EFI PART") {
        return Some("the backup of a partition table (GPT)");
    }
    at(front, 510, &[0x55, 0xAA]).then_some("a partition table (MBR) or boot sector")
}

/// ZFS keeps a ring of uberblocks in the second half of each 256 KiB label, one at least every KiB.
fn zfs(label_area: &[u8]) -> bool {
    const MAGIC: u64 = 0x00BA_B10C;
    label_area.chunks_exact(1024).any(|b| at(b, 0, &MAGIC.to_le_bytes()) || at(b, 0, &MAGIC.to_be_bytes()))
}

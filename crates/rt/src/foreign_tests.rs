#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // threads and files are what this is about

use super::*;
use crate::mapping::{Mapping, memory_file};
use proptest::prelude::*;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;

/// A memory file as another program makes it.
fn memfd(bytes: u64, seals: i32) -> File {
    // SAFETY: plain system calls; the new descriptor belongs to nobody else.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)) };
    file.set_len(bytes).unwrap();
    if seals != 0 {
        // SAFETY: plain system call.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    }
    file
}

fn descriptor(file: &File) -> Descriptor {
    OwnedFd::from(file.try_clone().unwrap()).into()
}

#[test]
fn what_one_side_writes_the_other_reads_even_when_the_descriptor_is_closed() {
    let file = memfd(4 * PAGE, libc::F_SEAL_SHRINK);
    let passed = descriptor(&file);
    let memory = ForeignMemory::map(&passed, PAGE, 2 * PAGE).unwrap();
    drop(passed);
    file.write_all_at(b"hello", PAGE + 3).unwrap();
    let mut got = [0; 5];
    memory.read(3, &mut got).unwrap();
    assert_eq!((&got, memory.len()), (b"hello", 2 * PAGE as usize));
    assert_eq!(memory.read_buf(3, 5).unwrap()[..], *b"hello");
    memory.write(101, b"back").unwrap();
    memory.store_u16(200, 0x1234).unwrap();
    let mut got = [0; 4];
    file.read_exact_at(&mut got, PAGE + 101).unwrap();
    assert_eq!(&got, b"back");
    file.write_all_at(&[7; 2], PAGE + 202).unwrap();
    assert_eq!((memory.load_u16(200), memory.load_u16(202)), (Ok(0x1234), Ok(0x0707)));
}

#[test]
fn memory_that_could_vanish_is_not_mapped() {
    let unsealed = memfd(PAGE, 0);
    assert_eq!(ForeignMemory::map(&descriptor(&unsealed), 0, PAGE).unwrap_err(), ForeignError::NotSealed);
    let grows = memfd(PAGE, libc::F_SEAL_GROW);
    assert_eq!(ForeignMemory::map(&descriptor(&grows), 0, PAGE).unwrap_err(), ForeignError::NotSealed);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[0; PAGE as usize]).unwrap();
    assert_eq!(ForeignMemory::map(&descriptor(&file), 0, PAGE).unwrap_err(), ForeignError::NotSealed);
    let (pipe, _end) = std::io::pipe().unwrap();
    assert_eq!(ForeignMemory::map(&OwnedFd::from(pipe).into(), 0, PAGE).unwrap_err(), ForeignError::NotSealed);
    // Sealed, it cannot be made shorter behind our back, and what is punched out of it reads as zeroes.
    let sealed = memfd(2 * PAGE, libc::F_SEAL_SHRINK);
    let memory = ForeignMemory::map(&descriptor(&sealed), 0, 2 * PAGE).unwrap();
    assert!(sealed.set_len(PAGE).is_err());
    memory.write(0, &[1; 2 * PAGE as usize]).unwrap();
    // SAFETY: plain system call.
    let punched =
        unsafe { libc::fallocate(sealed.as_raw_fd(), libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 0, PAGE as libc::off_t) };
    assert_eq!((punched, memory.load_u16(0), memory.load_u16(PAGE as usize)), (0, Ok(0), Ok(0x0101)));
}

#[test]
fn memory_of_huge_pages_is_not_mapped() {
    // SAFETY: plain system call.
    let made = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_HUGETLB) };
    if made < 0 {
        return; // a kernel without huge pages
    }
    // SAFETY: the descriptor is new and belongs to nobody else. No huge page is taken: the file is only given its length.
    let huge = unsafe { File::from_raw_fd(made) };
    huge.set_len(1 << 30).unwrap();
    // SAFETY: plain system call.
    assert_eq!(unsafe { libc::fcntl(huge.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) }, 0);
    assert_eq!(ForeignMemory::map(&descriptor(&huge), 0, 2 << 20).unwrap_err(), ForeignError::HugePages);
}

#[test]
fn a_piece_that_is_not_within_the_file_is_not_mapped() {
    let file = memfd(2 * PAGE, libc::F_SEAL_SHRINK);
    let map = |offset, bytes| ForeignMemory::map(&descriptor(&file), offset, bytes).unwrap_err();
    for (offset, bytes) in [(0, 2 * PAGE + 1), (PAGE, 2 * PAGE), (2 * PAGE, 1), (u64::MAX, 1), (u64::MAX - PAGE + 1, PAGE)] {
        assert_eq!(map(offset, bytes), ForeignError::BeyondEnd { offset, bytes, size: 2 * PAGE });
    }
    assert_eq!(map(0, 0), ForeignError::Length { bytes: 0 });
    assert_eq!(map(0, u64::MAX), ForeignError::Length { bytes: u64::MAX });
    assert_eq!(map(1, PAGE), ForeignError::Os { errno: libc::EINVAL });
    // What may not be written cannot be shared with a program that answers in it.
    let read_only = memfd(PAGE, libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE);
    assert_eq!(ForeignMemory::map(&descriptor(&read_only), 0, PAGE).unwrap_err(), ForeignError::Os { errno: libc::EPERM });
}

#[test]
fn accesses_beyond_the_piece_are_refused() {
    let memory = ForeignMemory::map(&memory_file(2 * PAGE).unwrap().into(), 0, PAGE + 10).unwrap();
    let end = memory.len();
    for at in [end - 3, end, end + 1, usize::MAX, usize::MAX - 2] {
        assert_eq!(memory.read(at, &mut [0; 4]), Err(ForeignError::OutOfRange));
        assert_eq!(memory.write(at, &[0; 4]), Err(ForeignError::OutOfRange));
        assert!(memory.read_buf(at, 4).is_err());
    }
    assert!(memory.read(end - 4, &mut [0; 4]).is_ok() && memory.read(end, &mut []).is_ok());
    for at in [1, end - 1, end, usize::MAX] {
        assert_eq!((memory.load_u16(at), memory.store_u16(at, 1)), (Err(ForeignError::OutOfRange), Err(ForeignError::OutOfRange)));
    }
    assert_eq!(memory.read_buf(0, usize::MAX).unwrap_err(), ForeignError::OutOfRange);
}

#[test]
fn memory_and_events_of_a_world_are_not_taken_for_each_other() {
    crate::sim::block_on(1, async |rt| {
        let passed = rt.new_memory(3 * PAGE).unwrap();
        let (a, b) = (ForeignMemory::map(&passed, 0, 3 * PAGE).unwrap(), ForeignMemory::map(&passed, PAGE, PAGE).unwrap());
        a.write(PAGE as usize + 5, b"seen").unwrap();
        assert_eq!(b.read_buf(5, 4).unwrap()[..], *b"seen");
        assert_eq!(b.read(PAGE as usize - 3, &mut [0; 4]), Err(ForeignError::OutOfRange), "not what lies behind its piece");
        assert_eq!(
            ForeignMemory::map(&passed, 2 * PAGE, PAGE + 1).unwrap_err(),
            ForeignError::BeyondEnd { offset: 2 * PAGE, bytes: PAGE + 1, size: 3 * PAGE }
        );
        assert_eq!(rt.open_event(passed), Err(crate::NetError::WrongDescriptor));
        assert_eq!(ForeignMemory::map(&rt.new_event().unwrap(), 0, 1).unwrap_err(), ForeignError::WrongDescriptor);
    });
}

#[test]
fn bytes_that_change_while_they_are_copied_come_old_or_new() {
    let file = memory_file(PAGE).unwrap();
    let passed = Descriptor::from(file);
    let (ours, theirs) = (ForeignMemory::map(&passed, 0, PAGE).unwrap(), ForeignMemory::map(&passed, 0, PAGE).unwrap());
    let other = std::thread::spawn(move || (0..2000u32).for_each(|i| theirs.write(1, &[(i % 2) as u8; 4000]).unwrap()));
    while !other.is_finished() {
        let got = ours.read_buf(1, 4000).unwrap();
        assert!(got.iter().all(|b| *b < 2));
    }
    other.join().unwrap();
}

proptest! {
    #[test]
    fn copies_of_any_place_and_length_are_exact(at in 0..64usize, len in 0..100usize, fill in any::<u8>()) {
        let mapping = Mapping::anonymous(PAGE).unwrap();
        let data: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i as u8)).collect();
        mapping.write(at, &data).unwrap();
        let mut got = vec![0xEE; 200];
        mapping.read(0, &mut got).unwrap();
        prop_assert_eq!(&got[at..at + len], &data[..]);
        prop_assert!(got[..at].iter().chain(&got[at + len..]).all(|b| *b == 0));
        let mut again = vec![0; len];
        mapping.read(at, &mut again).unwrap();
        prop_assert_eq!(again, data);
    }
}

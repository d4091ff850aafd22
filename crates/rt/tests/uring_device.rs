//! Files, block devices and memory as devices of the Linux driver.
// Outside of the cores: real clocks and threads are what this is about.
#![allow(clippy::disallowed_methods)]

mod uring_common;

use rt::{Buf, BufVec, Device, DeviceError, Durability, Event, OpenError, OpenOptions, Rt, UringOptions};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use uring_common::{next, on_core, on_core_with};

const MIB: u64 = 1 << 20;

fn file(dir: &Path, bytes: u64) -> Device {
    Device::open(&dir.join("device"), &OpenOptions { create_bytes: Some(bytes), ..OpenOptions::default() }).unwrap()
}

fn filled(len: usize, seed: u64) -> Buf {
    let mut buf = Buf::alloc(len);
    for (i, word) in buf.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(seed << 32 | i as u64).to_le_bytes());
    }
    buf
}

async fn read(rt: &Rt, dev: &Device, offset: u64, len: usize) -> Result<Buf, DeviceError> {
    let (result, buf) = rt.read_at(dev, offset, Buf::alloc(len)).await;
    result.map(|()| buf)
}

async fn write(rt: &Rt, dev: &Device, offset: u64, buf: Buf, d: Durability) -> Result<(), DeviceError> {
    rt.write_at(dev, offset, BufVec::from_iter([buf]), d).await.0
}

async fn reads_back_what_it_wrote(rt: Rt, dev: Device) {
    write(&rt, &dev, 0, filled(4096, 1), Durability::Durable).await.unwrap();
    write(&rt, &dev, dev.bytes() - 8192, filled(8192, 2), Durability::Volatile).await.unwrap();
    // More buffers than fit inline, of different sizes.
    let many: BufVec = [4096, 65_536, 8192, 4096, 16_384, 1 << 20].into_iter().enumerate().map(|(i, n)| filled(n, 10 + i as u64)).collect();
    let total: usize = many.iter().map(|b| b.len()).sum();
    let (result, many) = rt.write_at(&dev, MIB, many, Durability::Durable).await;
    result.unwrap();
    assert_eq!(many.len(), 6, "the buffers come back");
    rt.flush_dev(&dev).await.unwrap();
    assert_eq!(*read(&rt, &dev, 0, 4096).await.unwrap(), *filled(4096, 1));
    assert_eq!(*read(&rt, &dev, dev.bytes() - 8192, 8192).await.unwrap(), *filled(8192, 2));
    let mut at = MIB;
    for buf in &many {
        assert_eq!(*read(&rt, &dev, at, buf.len()).await.unwrap(), **buf);
        at += buf.len() as u64;
    }
    assert_eq!(at, MIB + total as u64);
    rt.discard_at(&dev, MIB, MIB).await.unwrap();
    let after = read(&rt, &dev, MIB + total as u64 - 4096, 4096).await.unwrap();
    assert_eq!(*after, many[5][(1 << 20) - 4096..], "what lies after the discarded range stays");
    let c = dev.counters();
    let get = |a: &core::sync::atomic::AtomicU64| a.load(core::sync::atomic::Ordering::Relaxed);
    assert_eq!((get(&c.writes), get(&c.flushes), get(&c.discards), get(&c.errors)), (3, 1, 1, 0));
    assert_eq!(get(&c.write_bytes), 4096 + 8192 + total as u64);
    assert_eq!(c.read_latency.snapshot().iter().sum::<u64>(), get(&c.reads));
}

#[test]
fn a_file_reads_back_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let dev = file(dir.path(), 8 * MIB);
    assert_eq!((dev.info().bytes, dev.info().volatile_cache), (8 * MIB, true));
    on_core(|rt| reads_back_what_it_wrote(rt, dev));
}

#[test]
fn memory_reads_back_what_was_written() {
    on_core(|rt| reads_back_what_it_wrote(rt, Device::memory(8 * MIB).unwrap()));
}

#[test]
fn a_discarded_range_of_a_file_gives_its_space_back_and_reads_as_zeroes() {
    let dir = tempfile::tempdir().unwrap();
    let dev = file(dir.path(), 4 * MIB);
    let path = dir.path().join("device");
    assert!(fs::metadata(&path).unwrap().blocks() < 64, "a new file is sparse");
    on_core(move |rt| async move {
        write(&rt, &dev, MIB, filled(1 << 20, 3), Durability::Durable).await.unwrap();
        let full = fs::metadata(&path).unwrap().blocks();
        rt.discard_at(&dev, MIB, MIB).await.unwrap();
        rt.flush_dev(&dev).await.unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() < full);
        assert!(read(&rt, &dev, MIB, 1 << 20).await.unwrap().iter().all(|&b| b == 0));
    });
}

#[test]
fn what_lies_outside_or_is_not_aligned_is_refused_and_the_buffers_come_back() {
    let dir = tempfile::tempdir().unwrap();
    for dev in [file(dir.path(), MIB), Device::memory(MIB).unwrap()] {
        on_core(|rt| async move {
            for (offset, len) in [(MIB, 4096), (MIB - 4096, 8192), (512, 4096), (0, 512), (u64::MAX - 4095, 4096)] {
                let (result, buf) = rt.read_at(&dev, offset, Buf::alloc(len)).await;
                assert_eq!((result, buf.len()), (Err(DeviceError::OutOfRange), len));
                let (result, bufs) = rt.write_at(&dev, offset, BufVec::from_iter([Buf::alloc(len)]), Durability::Durable).await;
                assert_eq!((result, bufs.len()), (Err(DeviceError::OutOfRange), 1));
                assert_eq!(rt.discard_at(&dev, offset, len as u64).await, Err(DeviceError::OutOfRange));
            }
            let odd = BufVec::from_iter([Buf::alloc(512), Buf::alloc(3584)]);
            assert_eq!(rt.write_at(&dev, 0, odd, Durability::Volatile).await.0, Err(DeviceError::OutOfRange));
            assert_eq!(dev.counters().errors.load(core::sync::atomic::Ordering::Relaxed), 16);
        });
    }
}

#[test]
fn more_operations_than_the_ring_holds_all_complete() {
    let dir = tempfile::tempdir().unwrap();
    let dev = file(dir.path(), 8 * MIB);
    let opts = UringOptions { ring_entries: 8, ..UringOptions::default() };
    on_core_with(opts, move |rt| async move {
        let q = rt.queue();
        for i in 0..500u64 {
            rt.write(&q, i, &dev, i * 4096, BufVec::from_iter([filled(4096, i)]), Durability::Volatile);
        }
        assert!(q.is_empty(), "nothing completes within the call");
        for _ in 0..500 {
            let c = next(&rt, &q).await;
            assert!(matches!(c.event, Event::Write { result: Ok(()), .. }));
        }
        for i in 0..500u64 {
            rt.read(&q, i, &dev, i * 4096, Buf::alloc(4096));
        }
        for _ in 0..500 {
            let c = next(&rt, &q).await;
            let Event::Read { result: Ok(()), buf } = c.event else { panic!("{c:?}") };
            assert_eq!(*buf, *filled(4096, c.cookie));
        }
    });
}

#[test]
fn a_file_that_was_cut_short_gives_a_media_error() {
    let dir = tempfile::tempdir().unwrap();
    let dev = file(dir.path(), 2 * MIB);
    fs::OpenOptions::new().write(true).open(dir.path().join("device")).unwrap().set_len(MIB + 4096).unwrap();
    on_core(|rt| async move {
        assert_eq!(read(&rt, &dev, MIB, 8192).await.err(), Some(DeviceError::Media));
        assert!(read(&rt, &dev, MIB, 4096).await.is_ok());
    });
}

#[test]
fn operations_under_way_when_the_core_stops_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let dev = file(dir.path(), 64 * MIB);
    let handle = dev.clone();
    on_core(move |rt| async move {
        let q = rt.queue();
        for i in 0..64 {
            rt.write(&q, i, &handle, i * MIB, BufVec::from_iter([filled(1 << 20, i)]), Durability::Volatile);
        }
    });
    assert_eq!(dev.counters().writes.load(core::sync::atomic::Ordering::Relaxed), 64);
}

#[test]
fn a_device_is_opened_once() {
    let dir = tempfile::tempdir().unwrap();
    let dev = file(dir.path(), MIB);
    let path = dir.path().join("device");
    let second = Device::open(&path, &OpenOptions::default());
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
    drop(dev);
    // Another test of this process may be starting a program: between fork and exec that has a copy of every descriptor, and so of the lock.
    let again = (0..200).find_map(|_| {
        let opened = Device::open(&path, &OpenOptions::default()).ok();
        opened.or_else(|| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            None
        })
    });
    assert!(again.is_some(), "the lock goes with the device");
}

#[test]
fn what_cannot_be_a_device_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, opts: &OpenOptions| Device::open(&dir.path().join(name), opts).unwrap_err();
    let plain = OpenOptions::default();
    assert!(matches!(open("missing", &plain), OpenError::Missing { .. }));
    assert!(matches!(open("no/such/dir", &OpenOptions { create_bytes: Some(MIB), ..plain.clone() }), OpenError::Missing { .. }));
    assert!(matches!(Device::open(dir.path(), &plain), Err(OpenError::NotADevice { what: "a directory", .. })));
    assert!(matches!(Device::open(Path::new("/dev/null"), &plain), Err(OpenError::NotADevice { .. })));
    fs::write(dir.path().join("small"), [0; 4096]).unwrap();
    assert!(matches!(open("small", &plain), OpenError::TooSmall { bytes: 4096, .. }));
    fs::write(dir.path().join("odd"), vec![0; MIB as usize + 512]).unwrap();
    assert!(matches!(open("odd", &plain), OpenError::Unaligned { .. }));
    fs::write(dir.path().join("fair"), vec![0; MIB as usize]).unwrap();
    let wanted = OpenOptions { bytes_min: 2 * MIB, ..plain.clone() };
    assert!(matches!(open("fair", &wanted), OpenError::TooSmall { bytes_min, .. } if bytes_min == 2 * MIB));
    let huge = OpenOptions { create_bytes: Some(1 << 63), ..plain };
    assert!(matches!(open("huge", &huge), OpenError::Io { .. }));
    assert!(!dir.path().join("huge").exists(), "a file that could not be made is taken away");
}

#[test]
fn a_file_is_made_with_its_space_or_without_and_not_at_all_when_there_is_too_little() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let made = |name: &str, reserve| {
        let options = OpenOptions { create_bytes: Some(8 * MIB), reserve, ..OpenOptions::default() };
        drop(Device::open(&dir.path().join(name), &options).unwrap());
        let meta = fs::metadata(dir.path().join(name)).unwrap();
        (meta.len(), meta.blocks() * 512)
    };
    assert_eq!(made("thin", false), (8 * MIB, 0));
    let (bytes, taken) = made("thick", true);
    assert!(bytes == 8 * MIB && taken >= 8 * MIB, "{taken}");
    for bytes in [1 << 43, 1 << 50] {
        let options = OpenOptions { create_bytes: Some(bytes), reserve: true, ..OpenOptions::default() };
        assert!(Device::open(&dir.path().join("huge"), &options).is_err());
        assert!(!dir.path().join("huge").exists(), "a file that could not be made is taken away");
    }
}

#[test]
fn a_device_in_memory_that_no_machine_has_is_refused() {
    for bytes in [999 << 40, 1 << 63, u64::MAX] {
        for made in [Device::memory(bytes), Device::populated_memory(bytes)] {
            assert!(matches!(made, Err(OpenError::Memory { .. })), "{made:?}");
        }
    }
}

/// A loop device over a file; needs root.
struct Loop(String);

impl Loop {
    fn over(path: &Path) -> Option<Loop> {
        let out = std::process::Command::new("losetup").args(["--find", "--show"]).arg(path).output().ok()?;
        out.status.success().then(|| Loop(String::from_utf8(out.stdout).unwrap().trim().to_string()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A mounted file system; unmounted when dropped.
struct Mount(std::path::PathBuf);

impl Mount {
    fn of(device: &str, at: &Path) -> Mount {
        let done = std::process::Command::new("mount").arg(device).arg(at).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Mount(at.into())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_mounted_block_device_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (backing, at) = (dir.path().join("backing"), dir.path().join("mounted"));
    fs::File::create(&backing).unwrap().set_len(16 * MIB).unwrap();
    fs::create_dir(&at).unwrap();
    let Some(block) = Loop::over(&backing) else {
        eprintln!("skipped: losetup is not permitted here (it needs root and loop devices)");
        return;
    };
    let made = std::process::Command::new("mkfs.ext4").args(["-q", &block.0]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mount = Mount::of(&block.0, &at);
    fs::write(at.join("file"), "kept").unwrap();
    match Device::open(Path::new(&block.0), &OpenOptions::default()) {
        Err(OpenError::Mounted { at: reported, path }) => assert_eq!((reported, path.as_path()), (at.clone(), Path::new(&block.0))),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "kept");
    drop(mount);
    Device::open(Path::new(&block.0), &OpenOptions::default()).expect("unmounted, it is free");
}

#[test]
fn a_block_device_works_and_is_claimed() {
    let dir = tempfile::tempdir().unwrap();
    let backing = dir.path().join("backing");
    fs::File::create(&backing).unwrap().set_len(8 * MIB + 512).unwrap();
    let Some(block) = Loop::over(&backing) else {
        eprintln!("skipped: losetup is not permitted here (it needs root and loop devices)");
        return;
    };
    let dev = Device::open(Path::new(&block.0), &OpenOptions::default()).unwrap();
    assert_eq!(dev.bytes(), 8 * MIB, "whole blocks only");
    assert!(dev.info().direct);
    let second = Device::open(Path::new(&block.0), &OpenOptions::default());
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
    on_core(|rt| async move {
        reads_back_what_it_wrote(rt.clone(), dev.clone()).await;
        if dev.info().discard {
            assert!(read(&rt, &dev, MIB, 1 << 20).await.unwrap().iter().all(|&b| b == 0), "a loop device punches holes");
        }
    });
}

#[test]
fn shared_bytes_are_written_beside_own_ones_and_to_several_devices_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let devices = [file(dir.path(), 4 * MIB), Device::memory(4 * MIB).unwrap()];
    on_core(async move |rt| {
        let mut shared = filled(8192, 1);
        let writes = devices.each_ref().map(|dev| {
            let bufs = BufVec::from_iter([filled(4096, 2), shared.share(), filled(4096, 3)]);
            rt.write_at(dev, MIB, bufs, Durability::Durable)
        });
        for (dev, write) in devices.iter().zip(writes) {
            let (result, mut bufs) = write.await;
            result.unwrap();
            let back = bufs.remove(1);
            assert!(back.is_shared() && *back == *filled(8192, 1));
            let got = read(&rt, dev, MIB, 16_384).await.unwrap();
            assert_eq!(*got, [&*filled(4096, 2), &*filled(8192, 1), &*filled(4096, 3)].concat());
        }
        // All others are gone: it can be read into again, as the whole that it was.
        let own = shared.reclaim().expect("the last owner");
        let (result, own) = rt.read_at(&devices[0], MIB, own).await;
        result.unwrap();
        assert_eq!(*own, *[&*filled(4096, 2), &filled(8192, 1)[..4096]].concat());
    });
}

#[test]
#[should_panic(expected = "a read into shared bytes")]
fn a_read_into_shared_bytes_is_refused() {
    rt::sim::block_on(1, async |rt| {
        let dev = Device::memory(MIB).unwrap();
        let mut buf = Buf::alloc(4096);
        let _other = buf.share();
        drop(rt.read_at(&dev, 0, buf));
    });
}

//! Out of descriptors: a test of its own process, as the limit holds for all of it.
// Outside of the cores: real clocks and threads are what this is about.
#![allow(clippy::disallowed_methods)]

mod uring_common;

use rt::{Event, Progress, Rt};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, atomic::AtomicU64, atomic::Ordering};
use std::time::Duration;
use uring_common::{PATIENCE, launch_fn};

fn set_limit(files: u64) {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are valid for one `rlimit64`.
    unsafe {
        assert_eq!(libc::getrlimit64(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = files.min(limit.rlim_max);
        assert_eq!(libc::setrlimit64(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

fn socket() -> OwnedFd {
    // SAFETY: a new descriptor that nobody else owns.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        OwnedFd::from_raw_fd(fd)
    }
}

fn connect(fd: &OwnedFd, addr: SocketAddr) {
    let SocketAddr::V4(addr) = addr else { panic!("IPv4 only") };
    let raw = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: addr.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: the pointer is valid for the length given.
    assert_eq!(unsafe { libc::connect(fd.as_raw_fd(), (&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t) }, 0);
}

#[test]
fn a_listener_without_descriptors_rests_and_goes_on_when_there_are_some() {
    let (tx, rx) = mpsc::channel();
    let tx = Mutex::new(tx);
    let accepted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&accepted);
    let cores = launch_fn(1, move |rt| {
        let q = rt.queue();
        let l = rt.listen(&q, 0, "127.0.0.1:0".parse().unwrap()).unwrap();
        tx.lock().unwrap().send(rt.local_addr(l)).unwrap();
        let count = Arc::clone(&count);
        move |_: &Rt| {
            while let Some(c) = q.pop() {
                assert!(matches!(c.event, Event::Accepted { .. }));
                count.fetch_add(1, Ordering::Relaxed);
            }
            if count.load(Ordering::Relaxed) == 4 { Progress::Stop } else { Progress::Idle }
        }
    });
    let addr = rx.recv_timeout(PATIENCE).unwrap();
    let stats = cores.stats().remove(0);
    // The clients have their descriptors before the last one is taken.
    let clients: Vec<OwnedFd> = (0..4).map(|_| socket()).collect();
    let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    set_limit(used + 64);
    let mut filler = Vec::new();
    while let Ok(f) = std::fs::File::open("/dev/null") {
        filler.push(f);
    }
    clients.iter().for_each(|c| connect(c, addr));
    std::thread::sleep(Duration::from_millis(450));
    let (errors, loops) = (stats.accept_errors.get(), stats.loops.get());
    assert!((2..=8).contains(&errors), "{errors} attempts in 450 ms, one each 100 ms is right");
    assert!(loops < 20_000, "{loops} turns: it must not spin");
    assert_eq!(accepted.load(Ordering::Relaxed), 0);
    drop(filler);
    cores.join().unwrap();
    assert_eq!(accepted.load(Ordering::Relaxed), 4);
    drop(clients);
}

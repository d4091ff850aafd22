use super::*;

const MS: u64 = 1_000_000;

/// A ring, and the epoll descriptor that it watches.
fn ring() -> (Ring, std::os::fd::OwnedFd) {
    let epoll = sys::epoll().unwrap();
    (Ring::new(8, 4, epoll.as_raw_fd(), Arc::default()).unwrap(), epoll)
}

fn set(ring: &Ring) -> usize {
    ring.alarms.iter().flatten().count()
}

/// Sleeps as a core does: again when it was woken for nothing.
fn sleep_until(ring: &mut Ring, at_ns: u64) {
    while sys::now_ns() < at_ns {
        ring.sleep(Some(at_ns));
        ring.reap(0);
    }
}

#[test]
fn a_sleep_ends_at_its_time_and_not_before() {
    let (mut ring, _epoll) = ring();
    for ms in [1, 5, 2, 20] {
        let at = sys::now_ns() + ms * MS;
        sleep_until(&mut ring, at);
        let late = sys::now_ns() - at;
        assert!(late < 2_000 * MS, "{late} ns late");
    }
    assert_eq!(set(&ring), 0, "alarms that rang are gone");
}

#[test]
fn an_alarm_serves_all_sleeps_that_end_later() {
    let (mut ring, _epoll) = ring();
    let first = sys::now_ns() + 30 * MS;
    assert!(ring.set_alarm(first));
    assert!(ring.set_alarm(first) && ring.set_alarm(first + 500 * MS));
    assert_eq!(set(&ring), 1);
    sleep_until(&mut ring, first + 40 * MS);
    assert!(sys::now_ns() >= first + 40 * MS);
}

#[test]
fn with_too_many_alarms_a_sleep_has_a_time_of_its_own() {
    let (mut ring, _epoll) = ring();
    let far = sys::now_ns() + 3_600_000 * MS;
    for n in 0..ALARMS as u64 {
        assert!(ring.set_alarm(far - n * MS));
    }
    assert!(!ring.set_alarm(sys::now_ns() + 10 * MS));
    let at = sys::now_ns() + 10 * MS;
    sleep_until(&mut ring, at);
    assert!(sys::now_ns() - at < 2_000 * MS);
    assert_eq!(set(&ring), ALARMS);
}

#[test]
fn what_epoll_has_ends_a_sleep() {
    let (mut ring, epoll) = ring();
    let bell = sys::eventfd().unwrap();
    sys::epoll_add(&epoll, bell.as_raw_fd(), libc::EPOLLIN as u32, 1).unwrap();
    let began = sys::now_ns();
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            sys::eventfd_ring(&bell);
        });
        while ring.watches_epoll() || sys::now_ns() < began + 10 * MS {
            ring.sleep(Some(began + 60_000 * MS));
            ring.reap(0);
        }
    });
    assert!(sys::now_ns() - began < 30_000 * MS);
}

#[test]
fn operations_go_to_the_kernel_a_few_at_a_time_before_the_turn_ends() {
    let (mut ring, _epoll) = ring();
    let folder = tempfile::tempdir().unwrap();
    let options = crate::OpenOptions { create_bytes: Some(1 << 20), ..crate::OpenOptions::default() };
    let dev = Device::open(&folder.path().join("device"), &options).unwrap();
    let q = Queue::new();
    let mut waiting = Vec::new();
    for n in 0..6 {
        ring.read(&q, n, &dev, n * 4096, Buf::alloc(4096), 0);
        waiting.push(ring.uring.submission().len());
    }
    assert_eq!(waiting, [1, 2, 3, 0, 1, 2]);
    assert!(ring.submit());
    while q.len() < 6 {
        ring.sleep(Some(sys::now_ns() + MS));
        ring.reap(0);
    }
    while let Some(done) = q.pop() {
        assert!(matches!(done.event, crate::Event::Read { result: Ok(()), .. }), "{done:?}");
    }
}

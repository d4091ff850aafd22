//! Time, timers, cores, tasks, kills, and that a run is a function of its seed.

use super::*;
use crate::{App, Buf, BufVec, Completion, Durability, Event, MeshEnd, Progress, Queue, Rt, buffers_outstanding, inbox, mesh};
use base::{Duration, Instant};
use proptest::prelude::*;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

#[test]
fn sleeping_takes_exactly_as_long_as_asked_and_no_real_time() {
    block_on(1, async |rt| {
        let t = rt.now();
        rt.sleep(Duration::from_secs(86_400)).await;
        assert_eq!(rt.now().since(t), Duration::from_secs(86_400));
    });
}

#[test]
fn timers_fire_in_order_and_cancelled_ones_never() {
    block_on(2, async |rt| {
        let q = rt.queue();
        let now = rt.now();
        let ids: Vec<_> =
            [30, 10, 20, 10, 5].iter().enumerate().map(|(i, ms)| rt.timer(&q, i as u64, now + Duration::from_millis(*ms))).collect();
        let past = rt.timer(&q, 9, Instant(0));
        rt.cancel_timer(ids[2]);
        rt.sleep(Duration::from_millis(40)).await;
        let fired: Vec<u64> = std::iter::from_fn(|| q.pop())
            .map(|c| {
                assert!(matches!(c.event, Event::Timer(id) if ids.contains(&id) || id == past));
                c.cookie
            })
            .collect();
        assert_eq!(fired, [9, 4, 1, 3, 0]);
        rt.cancel_timer(ids[0]); // gone: ignored
    });
}

#[test]
fn a_cancelled_sleep_leaves_nothing_behind() {
    block_on(2, async |rt| {
        for _ in 0..100 {
            let rt2 = rt.clone();
            let id = rt.spawn(async move { rt2.sleep(Duration::from_secs(1000)).await });
            rt.sleep(Duration::from_micros(1)).await;
            rt.cancel(id);
        }
        assert_eq!(rt.tasks(), 0);
        let t = rt.now();
        rt.sleep(Duration::from_secs(2000)).await;
        assert_eq!(rt.now().since(t), Duration::from_secs(2000));
    });
}

#[test]
fn a_cancelled_read_keeps_its_buffer_until_the_device_is_done() {
    let before = buffers_outstanding();
    block_on(2, async |rt| {
        let dev = device(&rt, 1 << 20, Default::default());
        let (rt2, d) = (rt.clone(), dev.clone());
        let id = rt.spawn(async move {
            rt2.read_at(&d, 0, Buf::alloc(4096)).await.0.unwrap();
            unreachable!("cancelled");
        });
        rt.sleep(Duration::from_micros(5)).await;
        rt.cancel(id);
        assert_eq!(buffers_outstanding(), before + 1);
        rt.sleep(Duration::from_millis(50)).await;
        assert_eq!(buffers_outstanding(), before);
    });
}

#[test]
fn tasks_take_turns_when_they_yield_and_a_yielding_waiter_lets_time_pass() {
    block_on(2, async |rt| {
        let log = Rc::new(RefCell::new(String::new()));
        for name in ['a', 'b'] {
            let (rt2, log) = (rt.clone(), Rc::clone(&log));
            rt.spawn(async move {
                for _ in 0..3 {
                    log.borrow_mut().push(name);
                    rt2.yield_now().await;
                }
            });
        }
        let end = rt.now() + Duration::from_millis(1);
        while rt.now() < end {
            rt.yield_now().await;
        }
        assert_eq!(*log.borrow(), "ababab");
    });
}

#[test]
#[should_panic(expected = "nothing is left to happen")]
fn waiting_for_nothing_is_found_out() {
    block_on(2, async |_| crate::sync::Notify::new().notified().await);
}

struct AlwaysBusy;
impl App for AlwaysBusy {
    fn poll(&mut self, _rt: &Rt) -> Progress {
        Progress::Busy
    }
}

#[test]
#[should_panic(expected = "does not come to rest")]
fn an_app_that_is_always_busy_is_found_out() {
    let mut w = World::new(1);
    w.add_host(1, |_| Box::new(AlwaysBusy));
    w.run_for(Duration::from_secs(10));
}

/// Passes a counter round the cores, and reads the device at each step.
struct Relay {
    end: MeshEnd<u64>,
    q: Queue,
    dev: crate::Device,
    log: Rc<RefCell<Vec<(u64, usize, u64)>>>,
}

impl App for Relay {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut progress = Progress::Idle;
        while let Some(n) = self.end.recv() {
            self.log.borrow_mut().push((rt.now().0, rt.core(), n));
            rt.read(&self.q, n, &self.dev, n % 16 * 4096, Buf::alloc(4096));
            progress = Progress::Busy;
        }
        while let Some(Completion { cookie, event: Event::Read { result, .. } }) = self.q.pop() {
            result.unwrap();
            if cookie < 200 {
                self.end.send(rt, (cookie as usize * 7 + 1) % rt.cores(), cookie + 1 + rt.random_u64() % 2).unwrap();
            }
            progress = Progress::Busy;
        }
        self.end.flush_wakes(rt);
        progress
    }
}

type Log = Vec<(u64, usize, u64)>;

fn relay(seed: u64) -> (u64, Log) {
    let mut w = World::new(seed);
    let dev = w.device(1 << 20, Default::default());
    let log = Rc::new(RefCell::new(Vec::new()));
    let ends: RefCell<Vec<Option<MeshEnd<u64>>>> = RefCell::new(mesh(4, 8).into_iter().map(Some).collect());
    let l = Rc::clone(&log);
    w.add_host(4, move |rt| {
        let end = ends.borrow_mut()[rt.core()].take().unwrap();
        if rt.core() == 0 {
            end.send(&rt, 2, 1).unwrap();
        }
        Box::new(Relay { end, q: rt.queue(), dev: dev.clone(), log: Rc::clone(&l) })
    });
    w.run_for(Duration::from_secs(1));
    let hash = w.trace_hash();
    drop(w);
    (hash, log.take())
}

#[test]
fn one_seed_is_one_run_and_another_seed_another() {
    let before = buffers_outstanding();
    let (a, b, c) = (relay(1), relay(1), relay(2));
    assert!(a.1.len() > 100);
    assert_eq!(a, b);
    assert_ne!(a.0, c.0);
    assert_ne!(a.1, c.1);
    assert_eq!(buffers_outstanding(), before);
}

#[test]
fn an_inlet_wakes_its_core_from_outside() {
    struct Sum(crate::Inbox<u64>, Rc<Cell<u64>>);
    impl App for Sum {
        fn poll(&mut self, _rt: &Rt) -> Progress {
            while let Some(n) = self.0.try_recv() {
                self.1.set(self.1.get() + n);
            }
            if self.1.get() == 42 { Progress::Stop } else { Progress::Idle }
        }
    }
    let mut w = World::new(3);
    let (inlet, inbox) = inbox();
    let sum = Rc::new(Cell::new(0));
    let (slot, s) = (RefCell::new(Some(inbox)), Rc::clone(&sum));
    let host = w.add_host(1, move |rt| {
        let inbox = slot.take().unwrap();
        inbox.bind(&rt);
        Box::new(Sum(inbox, Rc::clone(&s)))
    });
    w.run_for(Duration::from_millis(1));
    inlet.send(40).unwrap();
    w.run_for(Duration::from_millis(1));
    assert_eq!(sum.get(), 40);
    assert!(!w.has_stopped(host));
    inlet.send(2).unwrap();
    w.run_for(Duration::from_millis(1));
    assert!(w.has_stopped(host));
    assert!(inlet.send(1).is_err(), "the core has ended");
}

#[test]
fn a_kill_drops_programs_tasks_and_what_was_under_way() {
    struct Held(#[allow(dead_code)] Rc<()>);
    impl App for Held {
        fn poll(&mut self, _rt: &Rt) -> Progress {
            Progress::Idle
        }
    }
    let before = buffers_outstanding();
    let held = Rc::new(());
    let mut w = World::new(3);
    let dev = w.device(1 << 20, Default::default());
    let (h, d) = (Rc::clone(&held), dev.clone());
    let host = w.add_host(2, move |rt| {
        let (rt2, mine, d) = (rt.clone(), Rc::clone(&h), d.clone());
        rt.spawn(async move {
            let _mine = mine;
            loop {
                let bufs = BufVec::from_iter([Buf::zeroed(8192)]);
                let _ = rt2.write_at(&d, 0, bufs, Durability::Volatile).await;
                rt2.sleep(Duration::from_micros(1)).await;
            }
        });
        Box::new(Held(Rc::clone(&h)))
    });
    w.run_for(Duration::from_millis(3));
    assert_eq!(Rc::strong_count(&held), 1 + 1 + 2 * 2);
    w.kill(host);
    assert_eq!(Rc::strong_count(&held), 2);
    assert_eq!(buffers_outstanding(), before);
    w.run_for(Duration::from_millis(3));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn any_seed_runs_twice_the_same(seed: u64) {
        prop_assert_eq!(relay(seed).0, relay(seed).0);
    }
}

#[test]
fn a_clock_of_its_own_rate_shows_when_its_timers_fire_and_nothing_goes_back() {
    for permille in [-100, -47, 0, 47, 100] {
        let mut world = World::new(7);
        let host = world.add_host(1, |_| Box::new(TasksOnly));
        world.run_for(Duration::from_millis(3));
        let (before, began) = (world.clock(host), world.now());
        world.clock_rate(host, permille);
        assert_eq!(world.clock(host), before, "what it shows stays");
        let slept = world.block_on(host, async |rt| {
            let since = rt.now();
            rt.sleep(Duration::from_secs(10)).await;
            assert_eq!([rt.clock(), rt.boot_clock()], [rt.now(); 2]);
            rt.now().since(since)
        });
        let passed = world.now().since(began);
        assert!((10_000_000_000..10_000_000_002).contains(&slept.as_nanos()), "by its own clock it slept {slept:?}");
        let wanted = 10_000 * 1000 / (1000 + i64::from(permille)) as u128;
        assert!(passed.as_millis().abs_diff(wanted) <= 1, "{permille}: {passed:?} passed");
        world.kill(host);
        world.start(host);
        assert_eq!(world.rt(host, 0).now(), world.clock(host), "it is the machine's");
    }
}

#[test]
fn a_core_that_is_paused_does_nothing_and_then_what_has_come_meanwhile() {
    let mut world = World::new(8);
    let host = world.add_host(2, |_| Box::new(TasksOnly));
    let woken: Rc<RefCell<Vec<(usize, u64)>>> = Rc::default();
    let began = world.now();
    for core in 0..2 {
        let (seen, rt) = (Rc::clone(&woken), world.rt(host, core));
        world.spawn(host, core, move |_| async move {
            for _ in 0..2 {
                rt.sleep(Duration::from_millis(10)).await;
                seen.borrow_mut().push((core, rt.now().since(began).as_millis() as u64));
            }
        });
    }
    world.run_for(Duration::from_millis(1));
    world.pause(host, Some(0), Duration::from_millis(300));
    world.run_for(Duration::from_millis(400));
    assert_eq!(*woken.borrow(), [(1, 10), (1, 20), (0, 301), (0, 311)]);
    world.pause(host, None, Duration::from_millis(50));
    world.kill(host);
    world.start(host);
    let at = world.now();
    world.block_on(host, async |rt| rt.sleep(Duration::from_millis(1)).await);
    assert!(world.now().since(at).as_millis() < 3, "a pause ends with the life");
}

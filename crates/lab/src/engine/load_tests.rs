//! Loads on fake storage in virtual time: a server that takes a fixed time an operation, or stalls.

use super::*;
use crate::workload::{Access, Skew, Spacing};
use std::collections::BinaryHeap;

const S: u64 = 1_000_000_000;

fn random_reads(depth: u32, arrivals: Arrivals) -> Workload {
    let mut w = Workload::simple("t", 4096, 1.0, Access::Random { skew: Skew::Uniform }, depth);
    w.arrivals = arrivals;
    w
}

/// Runs a load on one server with a queue; `service` gives the time of an operation that starts at a time.
fn run(w: &Workload, seconds: u64, service: impl Fn(u64) -> u64) -> Load {
    run_after(w, 0, seconds, service)
}

/// The same with a warm-up, in seconds; `seconds` is the end of the measurement.
fn run_after(w: &Workload, warm_up: u64, seconds: u64, service: impl Fn(u64) -> u64) -> Load {
    let window = Window { from_ns: warm_up * S, to_ns: seconds * S };
    let plans = [AccessPlan::new(w, "fake", 1 << 30).unwrap()];
    let mut load = Load::new(w, &plans, &[LanePart { disk: 0, first: 0, count: w.depth }], 3, window);
    let mut ends: BinaryHeap<std::cmp::Reverse<(u64, usize)>> = BinaryHeap::new();
    let (mut now, mut free_at) = (0, 0);
    loop {
        while load.recorder.roll(now).is_some() {}
        while let Some(issue) = load.next(now) {
            let start = now.max(free_at);
            free_at = start + service(start);
            ends.push(std::cmp::Reverse((free_at, issue.slot)));
        }
        let wake = load.wake_at_ns().filter(|_| !load.over(now));
        let end = ends.peek().map(|e| e.0.0);
        let Some(next) = [wake, end].into_iter().flatten().min() else { break };
        now = now.max(next);
        while load.recorder.roll(now).is_some() {}
        while ends.peek().is_some_and(|e| e.0.0 <= now) {
            let slot = ends.pop().unwrap().0.1;
            load.done(slot, now, true);
        }
        if load.over(now) && ends.is_empty() {
            break;
        }
    }
    load
}

#[test]
fn a_closed_loop_keeps_its_depth_and_no_more() {
    // One server, 100 µs each, 4 threads: 10,000 a second, 400 µs each (Little's law).
    let load = run(&random_reads(4, Arrivals::Closed), 2, |_| 100_000);
    let f = &load.recorder.kinds[0];
    assert!(f.operations.abs_diff(20_000) <= 4, "{}", f.operations);
    assert_eq!(f.latency.percentile_ns(50.0) / 1000, 400);
    assert_eq!(load.in_flight(), 0);
}

#[test]
fn an_open_loop_waits_as_queueing_theory_says() {
    // M/D/1: mean wait = rho / (2 (1 - rho)) services.
    for rho in [0.3, 0.6, 0.8] {
        let w = random_reads(1024, Arrivals::Open { iops: rho * 10_000.0, spacing: Spacing::Poisson });
        let load = run(&w, 200, |_| 100_000);
        let mean = load.recorder.kinds[0].latency.mean_ns();
        let want = 100_000.0 * (1.0 + rho / (2.0 * (1.0 - rho)));
        assert!((mean / want - 1.0).abs() < 0.02, "rho {rho}: {mean} instead of {want}");
    }
}

#[test]
fn few_slots_do_not_hide_waiting() {
    // The same M/D/1 with one slot: operations wait for it, and the wait counts.
    let w = random_reads(1, Arrivals::Open { iops: 6000.0, spacing: Spacing::Poisson });
    let load = run(&w, 100, |_| 100_000);
    let (mean, want) = (load.recorder.kinds[0].latency.mean_ns(), 100_000.0 * (1.0 + 0.6 / 0.8));
    assert!((mean / want - 1.0).abs() < 0.03, "{mean} instead of {want}");
}

#[test]
fn a_stall_is_seen_by_everything_that_should_have_come_meanwhile() {
    let stall = |at: u64| if (5 * S..6 * S).contains(&at) { 6 * S - at } else { 10_000 };
    let open = run(&random_reads(4, Arrivals::Open { iops: 1000.0, spacing: Spacing::Fixed }), 10, stall);
    let latency = &open.recorder.kinds[0].latency;
    // A thousand of ten thousand came in the stall, at equal distances: latencies spread evenly up to a second.
    let slow = latency.buckets().filter(|b| b.0 > 20_000_000).map(|b| b.1).sum::<u64>();
    assert!(slow.abs_diff(985) < 20, "{slow}");
    assert!(latency.percentile_ns(95.0).abs_diff(500_000_000) < 20_000_000, "{}", latency.percentile_ns(95.0));
    // A closed loop sees it once a thread.
    let closed = run(&random_reads(4, Arrivals::Closed), 10, stall);
    let slow = closed.recorder.kinds[0].latency.buckets().filter(|b| b.0 > 20_000_000).map(|b| b.1).sum::<u64>();
    assert!(slow <= 4, "{slow}");
}

#[test]
fn a_limited_loop_keeps_its_rate_and_does_not_make_up_for_a_stall() {
    let w = random_reads(8, Arrivals::Limited { iops: 1000.0 });
    assert!(run(&w, 10, |_| 100_000).recorder.kinds[0].operations.abs_diff(10_000) <= 2);
    let stall = |at: u64| if (5 * S..7 * S).contains(&at) { 7 * S - at } else { 100_000 };
    let n = run(&w, 10, stall).recorder.kinds[0].operations;
    assert!((8000..8200).contains(&n), "{n}");
}

#[test]
fn too_much_load_is_reported_by_what_was_left_waiting() {
    let w = random_reads(4, Arrivals::Open { iops: 20_000.0, spacing: Spacing::Fixed });
    let mut load = run(&w, 5, |_| 100_000);
    assert!(load.left_waiting().abs_diff(50_000) < 20);
    let mut load = run(&random_reads(4, Arrivals::Closed), 1, |_| 100_000);
    assert_eq!(load.left_waiting(), 0);
}

#[test]
fn a_backlog_from_the_warm_up_is_counted_apart() {
    // 5,000 a second come; the server stands still in the first two seconds and does 10,000 a second from then on.
    let w = random_reads(4, Arrivals::Open { iops: 5000.0, spacing: Spacing::Fixed });
    let stall = |at: u64| if at < 2 * S { 2 * S - at } else { 100_000 };
    let load = run_after(&w, 2, 3, stall);
    let done = load.recorder.kinds[0].operations;
    assert!(done.abs_diff(10_000) < 20 && load.carried().abs_diff(10_000) < 20, "{done}, {} of them from before", load.carried());
    let load = run_after(&w, 2, 3, |_| 100_000);
    assert!(load.carried() <= 4, "what is under way is no backlog: {}", load.carried());
    assert_eq!(run_after(&random_reads(4, Arrivals::Closed), 2, 3, |_| 100_000).carried(), 0);
}

#[test]
fn threads_are_dealt_without_loss() {
    for (disks, depth, workers) in [(1, 1, 4), (1, 32, 2), (3, 5, 2), (2, 3, 8), (8, 4, 3), (3, 1, 2)] {
        let dealt = deal(disks, depth, workers);
        assert!(dealt.len() <= workers && dealt.iter().all(|l| !l.is_empty()));
        let mut seen = vec![vec![0; depth as usize]; disks];
        dealt.iter().flatten().for_each(|l| (l.first..l.first + l.count).for_each(|t| seen[l.disk][t as usize] += 1));
        assert!(seen.iter().flatten().all(|&n| n == 1), "{disks} {depth} {workers}: {dealt:?}");
    }
}

#[test]
fn filling_writes_every_byte_once() {
    let mut load = Load::fill(&[(0, 5 << 20), (3, (40 << 20) + 4096)]);
    let mut written = std::collections::HashMap::new();
    let mut under_way = Vec::new();
    while !load.over(0) || load.in_flight() > 0 {
        while let Some(i) = load.next(0) {
            under_way.push(i);
        }
        let i = under_way.swap_remove(under_way.len() / 2);
        load.done(i.slot, 1, true);
        assert!(written.insert((i.disk, i.op.offset), u64::from(i.op.bytes)).is_none());
    }
    let bytes = |disk| written.iter().filter(|((d, _), _)| *d == disk).map(|(_, b)| b).sum::<u64>();
    assert_eq!((bytes(0), bytes(3), load.recorder.kinds[1].bytes), (5 << 20, (40 << 20) + 4096, (45 << 20) + 4096));
}

#[test]
fn an_open_loop_on_one_server_has_the_response_times_of_queueing_theory() {
    // M/M/1: arrivals at random, exponential service of 100 µs in the mean, 60 % busy. Response times are exponential, mean 100 / (1 - 0.6) = 250 µs.
    let rng = std::cell::RefCell::new(initiator::rng::Rng::new(5));
    let service = |_| {
        let unit = ((rng.borrow_mut().next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-unit.ln() * 100_000.0) as u64
    };
    let load = run(&random_reads(1024, Arrivals::Open { iops: 6000.0, spacing: Spacing::Poisson }), 200, service);
    let latency = &load.recorder.kinds[0].latency;
    assert!((latency.count() as f64 / 1_200_000.0 - 1.0).abs() < 0.01, "{}", latency.count());
    assert!((latency.mean_ns() / 250_000.0 - 1.0).abs() < 0.03, "{}", latency.mean_ns());
    // Neighbours wait together, so the error is larger than of independent samples: most in the tail.
    for (p, within) in [(50.0, 0.03), (90.0, 0.03), (99.0, 0.05), (99.9, 0.1), (99.99, 0.2)] {
        let theory = -(1.0 - p / 100.0f64).ln() * 250_000.0;
        let got = latency.percentile_ns(p) as f64;
        assert!((got / theory - 1.0).abs() < within, "p{p}: {got}, theory says {theory}");
    }
}

#[test]
fn an_open_loop_with_one_slot_counts_the_wait_for_it() {
    // M/D/1 with depth 1: what finds the slot taken waits in the schedule. Mean = S + rho S / (2 (1 - rho)) = 100 + 0.5 * 100 / (2 * 0.5) = 150 µs.
    let load = run(&random_reads(1, Arrivals::Open { iops: 5000.0, spacing: Spacing::Poisson }), 200, |_| 100_000);
    let mean = load.recorder.kinds[0].latency.mean_ns();
    assert!((mean / 150_000.0 - 1.0).abs() < 0.02, "{mean}");
}

#[test]
fn a_flush_follows_its_write_in_the_same_slot_and_is_in_no_rate() {
    let mut w = Workload { arrivals: Arrivals::Closed, ..random_reads(3, Arrivals::Closed) };
    (w.streams[0].reads, w.streams[0].flush_every) = (0.5, 2);
    let plans = [AccessPlan::new(&w, "fake", 1 << 30).unwrap()];
    let window = Window { from_ns: 0, to_ns: S };
    let mut load = Load::new(&w, &plans, &[LanePart { disk: 0, first: 0, count: 3 }], 3, window);
    let (mut writes, mut reads, mut flushes) = ([0u64; 3], 0u64, 0u64);
    for ns in 0..3000 {
        while let Some(issue) = load.next(ns) {
            let unflushed = writes[issue.slot];
            assert_eq!(issue.flush, unflushed == 2, "after every second write of a thread, and never else");
            match (issue.flush, issue.op.kind) {
                (true, _) => (writes[issue.slot], flushes) = (0, flushes + 1),
                (false, IoClass::Write) => writes[issue.slot] += 1,
                _ => reads += 1,
            }
        }
        load.done((ns % 3) as usize, ns, true);
    }
    let r = &load.recorder;
    assert!(flushes > 300 && r.flushes.operations.abs_diff(flushes) <= 3, "{flushes}");
    assert!(r.kinds[0].operations.abs_diff(reads) <= 3 && r.kinds[1].operations.abs_diff(2 * flushes) <= 9);
    assert_eq!(r.flushes.latency.count(), r.flushes.operations);
}

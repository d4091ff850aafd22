//! The controller alone, then in a small simulation: clients in closed loop, a log, a capacity of fixed speed.

use super::*;
use std::collections::VecDeque;

const MS: Duration = Duration::from_millis(1);

fn pacer() -> Pacer {
    Pacer::new(&Settings::default(), 0.01, Instant(0))
}

#[test]
fn nothing_moves_below_low_until_idle() {
    let mut p = pacer();
    p.admit(4096, 0.1, Instant(1_000_000_000)).unwrap();
    assert_eq!(p.plan(0.29, Instant(1_100_000_000)).workers, 0);
    assert_eq!(p.plan(0.29, Instant(7_000_000_000)).workers, 1);
    assert_eq!(p.plan(0.0, Instant(7_000_000_000)).workers, 0);
}

#[test]
fn effort_rises_smoothly_from_low_to_high() {
    let mut p = pacer();
    p.admit(4096, 0.1, Instant(1)).unwrap();
    let mut last = 0.0;
    for i in 300..=700 {
        let share = p.plan(i as f64 / 1000.0, Instant(2)).share();
        assert!(share >= last && share - last < 0.02, "at {i}: {last} -> {share}");
        last = share;
    }
    assert_eq!(last, 1.0);
    assert_eq!(p.plan(0.99, Instant(2)), Plan { workers: DESTAGE_WORKERS, duty: 1.0 });
}

#[test]
fn admission_is_free_up_to_high_and_falls_smoothly_above() {
    let mut p = pacer();
    p.drain = Some(100e6);
    assert_eq!(p.rate(0.70), None);
    let mut last = p.rate(0.7001).unwrap();
    assert!(last > 60.0 * 100e6);
    for i in 7001..9999 {
        let rate = p.rate(i as f64 / 10_000.0).unwrap();
        assert!(rate <= last && rate > last * 0.98, "at {i}: {last} -> {rate}");
        last = rate;
    }
    let mid = p.rate(p.mid).unwrap();
    assert!((mid / 100e6 - 1.0).abs() < 0.01);
    assert!(last >= RATE_MIN);
}

#[test]
fn a_small_write_behind_a_large_one_waits_only_for_its_turn() {
    let mut p = pacer();
    p.drain = Some(100e6);
    let fill = p.mid; // rate = 100 MB/s
    let mut now = Instant(1_000_000_000);
    p.admit(1 << 20, fill, now).unwrap();
    let mut waits = 0;
    while let Err(at) = p.admit(4096, fill, now) {
        assert!(at > now);
        now = at;
        waits += 1;
    }
    assert!(now.since(Instant(1_000_000_000)) < Duration::from_millis(15), "{now:?}");
    assert!(waits < 10);
}

#[test]
fn settings_that_leave_no_room_are_lowered() {
    let p = Pacer::new(&Settings { fill_low: 0.99, fill_high: 1.0, ..Settings::default() }, 0.3, Instant(0));
    assert!(p.low < p.high && p.high < p.mid && p.mid < p.ceiling, "{p:?}");
}

#[test]
fn stepped_rules_rest_then_limit_then_do_all_they_can_and_let_in_what_they_retire() {
    let rules = Rules::Stepped { low_bytes_per_s: 1e6, high_bytes_per_s: 64e6 };
    let mut p = Pacer::new(&Settings { rules, ..Settings::default() }, 0.01, Instant(0));
    p.admit(4096, 0.1, Instant(1)).unwrap();
    p.drain = Some(100e6);
    assert_eq!(p.plan(0.29, Instant(2)).share(), 0.0);
    let destaged = |fill| p.plan(fill, Instant(2)).share() * 100e6;
    assert!((destaged(0.31) / 1.1e6 - 1.0).abs() < 0.2, "{}", destaged(0.31));
    assert!((destaged(0.5) / 8e6 - 1.0).abs() < 0.05, "{}", destaged(0.5));
    assert!((destaged(0.699) / 64e6 - 1.0).abs() < 0.05, "{}", destaged(0.699));
    assert_eq!(p.plan(0.71, Instant(2)).share(), 1.0);
    assert_eq!((p.rate(0.69), p.rate(0.71), p.rate(0.9)), (None, Some(100e6), Some(100e6)));
}

#[test]
fn settings_that_come_later_count_like_those_from_the_start() {
    let later = Settings {
        fill_low: 0.1,
        fill_high: 0.3,
        idle_drain: MS,
        rules: Rules::Stepped { low_bytes_per_s: 1.0, high_bytes_per_s: 2.0 },
        ..Settings::default()
    };
    let (mut p, new) = (pacer(), Pacer::new(&later, 0.01, Instant(0)));
    p.set(&later);
    assert_eq!((p.low, p.high, p.mid, p.idle_drain, p.rules), (new.low, new.high, new.mid, new.idle_drain, new.rules));
}

#[test]
fn a_write_that_was_held_back_is_a_write_and_an_idle_shard_drains_at_any_fill() {
    let (mut p, at) = (pacer(), Instant(100_000_000_000));
    p.admit(4096, 0.9, at).unwrap();
    assert_eq!(p.plan(0.2, at + MS), Plan::REST);
    assert!(p.plan(0.31, at + MS).share() < IDLE_EFFORT / DESTAGE_WORKERS as f64 / 2.0);
    for fill in [0.01, 0.2, 0.31] {
        let share = p.plan(fill, at + Duration::from_secs(6)).share();
        assert!((share * DESTAGE_WORKERS as f64 - IDLE_EFFORT).abs() < 1e-9, "{fill}: {share}");
    }
}

#[test]
fn the_speed_is_measured_from_the_end_of_the_first_job_and_for_all_that_destaging_could_do() {
    for share in [1.0, 0.5] {
        let plan = Plan { workers: DESTAGE_WORKERS, duty: share };
        let (mut p, mut now) = (pacer(), Instant(1_000_000_000));
        for _ in 0..2 {
            // How long the first one took is not known, nor what was before a rest.
            p.drained(1 << 40, plan, now);
            now += 100 * MS;
            p.drained(1_000_000, plan, now);
            assert_eq!(p.drain_bytes_per_s(), (10e6 / share) as u64);
            p.resting();
            now += Duration::from_secs(100);
        }
    }
}

#[test]
fn a_debt_ends_with_the_shortage_and_is_asked_about_again_soon() {
    let (mut p, now) = (pacer(), Instant(1_000_000_000));
    p.drain = Some(100e6);
    let fill = p.mid;
    p.admit(1 << 30, fill, now).unwrap();
    let again = p.admit(4096, fill, now).unwrap_err();
    assert!(again.since(now) <= 100 * MS, "by then the rate may be another: {again:?}");
    p.admit(4096, 0.5, now).unwrap();
    p.admit(4096, fill, now).unwrap();
}

struct Outcome {
    latencies: Vec<Duration>,
    fill_max: f64,
    bytes_per_s: f64,
}

/// `clients` writers of 4 KiB, each with one write outstanding, on a log of `log_bytes` that takes `log_rate` and drains
/// at `drain(t)` bytes/s. What is measured starts once the fill has passed `high` for the first time.
fn simulate(clients: usize, log_bytes: f64, log_rate: f64, drain: impl Fn(f64) -> f64, seconds: u64) -> Outcome {
    let mut p = pacer();
    let (mut filled, mut budget) = (0.0, 0.0);
    let mut waiting: VecDeque<Instant> = (0..clients).map(|_| Instant(0)).collect();
    let mut out = Outcome { latencies: Vec::new(), fill_max: 0.0, bytes_per_s: 0.0 };
    let (mut hot, mut carry) = (None, 0.0);
    let step = Duration::from_micros(100);
    let mut now = Instant(1);
    for _ in 0..seconds * 10_000 {
        now += step;
        let fill: f64 = filled / log_bytes;
        let plan = p.plan(fill, now);
        if plan.workers > 0 {
            carry += drain(now.0 as f64 / 1e9) * plan.share() * step.as_secs_f64();
            while carry >= 65536.0 {
                carry -= 65536.0;
                filled -= 65536.0;
                p.drained(65536, plan, now);
            }
        }
        if fill > 0.7 && hot.is_none() {
            hot = Some(now);
        }
        out.fill_max = out.fill_max.max(fill);
        budget = (budget + log_rate * step.as_secs_f64()).min(log_rate * step.as_secs_f64());
        for _ in 0..waiting.len() {
            if budget < 4096.0 || p.admit(4096, filled / log_bytes, now).is_err() {
                break;
            }
            budget -= 4096.0;
            filled += 4096.0;
            let since = waiting.pop_front().unwrap();
            waiting.push_back(now);
            if hot.is_some_and(|h| now > h + 500 * MS) {
                out.latencies.push(now.since(since));
                out.bytes_per_s += 4096.0;
            }
        }
    }
    out.bytes_per_s /= now.since(hot.expect("the load was meant to be too much") + 500 * MS).as_secs_f64();
    out.latencies.sort();
    out
}

#[test]
fn a_sustained_overload_runs_at_the_speed_of_capacity_with_steady_latency() {
    let out = simulate(32, (256u64 << 20) as f64, 1e9, |_| 100e6, 20);
    let median = out.latencies[out.latencies.len() / 2];
    let worst = *out.latencies.last().unwrap();
    assert!(out.bytes_per_s > 90e6 && out.bytes_per_s < 115e6, "{}", out.bytes_per_s);
    assert!(worst < median * 6, "median {median:?} worst {worst:?}");
    assert!(out.fill_max < 0.85, "{}", out.fill_max);
}

#[test]
fn a_capacity_that_changes_its_speed_is_followed_without_a_full_log() {
    let out = simulate(32, (256u64 << 20) as f64, 1e9, |t| if t as u64 % 8 < 4 { 200e6 } else { 40e6 }, 32);
    let median = out.latencies[out.latencies.len() / 2];
    let worst = *out.latencies.last().unwrap();
    assert!(out.fill_max < 0.9, "{}", out.fill_max);
    assert!(out.bytes_per_s > 100e6, "{}", out.bytes_per_s);
    assert!(worst < median * 30, "median {median:?} worst {worst:?}");
}

use super::*;
use crate::workload::{Size, profiles};
use initiator::rng::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;

const GIB: u64 = 1 << 30;

fn operations(w: &Workload, disk: u64, n: usize) -> Vec<Operation> {
    w.check("test").unwrap();
    let plan = AccessPlan::new(w, "disk", disk).unwrap();
    let mut t = Thread::new(&plan, 7, 0, 0, 1);
    (0..n).map(|_| t.next_operation()).collect()
}

fn random(skew: Skew) -> Workload {
    Workload::simple("t", 4096, 1.0, Access::Random { skew }, 1)
}

fn near(got: f64, want: f64, within: f64) {
    assert!((got - want).abs() <= within, "{got} is not within {within} of {want}");
}

#[test]
fn a_working_set_in_bytes_is_never_left_and_has_to_fit() {
    let w = Workload { working_set_bytes: Some(40_960), ..random(Skew::Uniform) };
    let places = operations(&w, GIB, 500).iter().map(|o| o.offset / 4096).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(places.into_iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let e = AccessPlan::new(&w, "disk", 36_864).unwrap_err().to_string();
    assert!(e.contains("disk: has 36864 bytes, the working set 40960"), "{e}");
    AccessPlan::new(&w, "disk", 40_960).unwrap();
    for (wrong, says) in [
        (Workload { working_set_bytes: Some(0), ..w.clone() }, "multiple of 4096"),
        (Workload { working_set_bytes: Some(5000), ..w.clone() }, "multiple of 4096"),
        (Workload { working_set: 0.5, ..w.clone() }, "leave one of them out"),
    ] {
        let e = wrong.check("t").unwrap_err().to_string();
        assert!(e.contains("working_set_bytes") && e.contains(says), "{e}");
    }
}

#[test]
fn sequential_runs_have_no_gaps_and_begin_again() {
    let w = Workload::simple("t", 65536, 1.0, Access::Sequential { shared: false }, 1);
    let ops = operations(&w, 10 * 65536 + 4096, 25);
    let want: Vec<u64> = (0..25).map(|n| n % 10 * 65536).collect();
    assert_eq!(ops.iter().map(|o| o.offset).collect::<Vec<_>>(), want);
}

#[test]
fn threads_have_runs_of_their_own_or_share_one() {
    for (shared, want) in [(false, [0, 512 << 20, 4096, (512 << 20) + 4096]), (true, [0, 4096, 8192, 12288])] {
        let w = Workload::simple("t", 4096, 1.0, Access::Sequential { shared }, 2);
        let plan = AccessPlan::new(&w, "disk", GIB).unwrap();
        let (mut a, mut b) = (Thread::new(&plan, 1, 0, 0, 2), Thread::new(&plan, 1, 0, 1, 2));
        let got = [a.next_operation(), b.next_operation(), a.next_operation(), b.next_operation()].map(|o| o.offset);
        assert_eq!(got, want, "shared {shared}");
    }
}

#[test]
fn uniform_places_fill_the_disk_evenly() {
    let ops = operations(&random(Skew::Uniform), 1000 * 4096, 200_000);
    let mut counts = [0u32; 10];
    ops.iter().for_each(|o| counts[(o.offset / 4096 / 100) as usize] += 1);
    counts.iter().for_each(|&c| near(f64::from(c), 20_000.0, 600.0));
}

#[test]
fn zipf_gives_each_rank_its_share() {
    for theta in [0.5, 0.99, 1.2] {
        let slots = 1000;
        let z = Zipf::new(slots, theta);
        let mut rng = Rng::new(3);
        let n = 400_000;
        let mut counts = vec![0u32; slots as usize];
        (0..n).for_each(|_| counts[z.rank(&mut rng) as usize] += 1);
        let norm: f64 = (1..=slots).map(|k| (k as f64).powf(-theta)).sum();
        for rank in [1, 2, 3, 10, 100] {
            let want = (rank as f64).powf(-theta) / norm;
            let got = f64::from(counts[rank - 1]) / f64::from(n);
            near(got, want, 5.0 * (want / f64::from(n)).sqrt() + 1e-6);
        }
    }
}

#[test]
fn zipf_scatters_over_all_places() {
    let z = Zipf::new(5000, 0.9);
    let mut places: Vec<u64> = (0..5000u64).map(|r| (u128::from(r) * u128::from(z.scatter) % 5000) as u64).collect();
    assert!(places[0].abs_diff(places[1]) > 500);
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 5000);
}

#[test]
fn hot_ranges_take_their_share_and_the_rest_goes_elsewhere() {
    let ranges = vec![Hot { space: 0.05, operations: 0.5 }, Hot { space: 0.15, operations: 0.3 }];
    let ops = operations(&random(Skew::Hot { ranges }), 10_000 * 4096, 100_000);
    let part = |from: u64, to: u64| ops.iter().filter(|o| (from..to).contains(&(o.offset / 4096))).count() as f64 / 1e5;
    near(part(0, 500), 0.5, 0.01);
    near(part(500, 2000), 0.3, 0.01);
    near(part(2000, 10_000), 0.2, 0.01);
}

#[test]
fn seeks_are_as_frequent_as_asked() {
    let w = Workload::simple("t", 4096, 1.0, Access::Seek { seeks: 0.25 }, 1);
    let ops = operations(&w, GIB, 40_000);
    let on = ops.windows(2).filter(|p| p[1].offset == p[0].offset + 4096).count() as f64 / 39_999.0;
    near(on, 0.75, 0.01);
}

#[test]
fn a_walk_stays_near_but_for_its_hot_range() {
    let hot = Some(Hot { space: 0.05, operations: 0.15 });
    let w = Workload::simple("t", 4096, 1.0, Access::Walk { steps: 16, hot }, 1);
    let ops = operations(&w, 100_000 * 4096, 50_000);
    let slots: Vec<u64> = ops.iter().map(|o| o.offset / 4096).collect();
    near(slots.iter().filter(|&&s| s < 5000).count() as f64 / 5e4, 0.15, 0.01);
    let walk: Vec<u64> = slots.into_iter().filter(|&s| s >= 5000).collect();
    let far = walk.windows(2).filter(|p| p[0].abs_diff(p[1]) > 16).count();
    assert!(far <= 2, "only a step round the end is far, and {far} were");
}

#[test]
fn sizes_reads_and_trims_have_their_shares() {
    let mut w = random(Skew::Uniform);
    w.streams[0].sizes = vec![Size { bytes: 4096, weight: 3.0 }, Size { bytes: 65536, weight: 1.0 }];
    (w.streams[0].reads, w.streams[0].trims) = (0.6, 0.1);
    let ops = operations(&w, GIB, 100_000);
    let share = |f: &dyn Fn(&Operation) -> bool| ops.iter().filter(|o| f(o)).count() as f64 / 1e5;
    near(share(&|o| o.bytes == 4096), 0.75, 0.01);
    near(share(&|o| o.kind == IoClass::Read), 0.6, 0.01);
    near(share(&|o| o.kind == IoClass::Discard), 0.1, 0.01);
}

#[test]
fn the_spc1_like_mix_has_its_shares_sizes_and_reads() {
    let profile = profiles::find("spc1-like").unwrap();
    let w = &profile.workloads[0];
    let n = 400_000;
    let disk = 64 * GIB;
    let ops = operations(w, disk, n);
    let share = |f: &dyn Fn(&Operation) -> bool| ops.iter().filter(|o| f(o)).count() as f64 / n as f64;
    let reads = share(&|o| o.kind == IoClass::Read);
    assert!((0.39..=0.40).contains(&reads), "read share {reads}");
    let want =
        [("1-1", 0.035), ("1-2", 0.281), ("1-3", 0.07), ("1-4", 0.21), ("2-1", 0.018), ("2-2", 0.07), ("2-3", 0.035), ("3-1", 0.281)];
    for (i, (name, part)) in want.iter().enumerate() {
        assert_eq!(w.streams[i].name, *name);
        near(share(&|o| o.stream == i), *part, 0.003);
    }
    // Streams of one size have 4 KiB; the others the mix.
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    let mixed = [2, 6, 7];
    for o in &ops {
        if mixed.contains(&o.stream) {
            *sizes.entry(o.bytes).or_default() += 1;
        } else {
            assert_eq!(o.bytes, 4096);
        }
    }
    let all: usize = sizes.values().sum();
    for (bytes, part) in [(4096, 0.40), (8192, 0.24), (16384, 0.20), (32768, 0.08), (65536, 0.08)] {
        near(sizes[&bytes] as f64 / all as f64, part, 0.005);
    }
    // Areas of 45, 45 and 10 %, each entered by its own streams only.
    let area = |stream: usize| [(0.0, 0.45), (0.45, 0.9), (0.9, 1.0)][[0, 0, 0, 0, 1, 1, 1, 2][stream]];
    for o in &ops {
        let (from, to) = area(o.stream);
        let (first, end) = (o.offset as f64 / disk as f64, (o.offset + u64::from(o.bytes)) as f64 / disk as f64);
        assert!(first >= from - 1e-6 && end <= to + 1e-6, "{o:?}");
    }
    // Hot 5 % take 15 and 70 % of the walks, 47 % of stream 2-2.
    for (stream, base, part) in [(1, 0.0, 0.15), (3, 0.0, 0.70), (5, 0.45, 0.47)] {
        let mine = ops.iter().filter(|o| o.stream == stream).count() as f64;
        let hot = ops.iter().filter(|o| o.stream == stream && (o.offset as f64 / disk as f64) < base + 0.45 * 0.05).count() as f64;
        near(hot / mine, part, 0.01);
    }
}

#[test]
fn arrivals_come_at_their_rate() {
    for spacing in [Spacing::Poisson, Spacing::Fixed] {
        let mut s = Schedule::new(&Arrivals::Open { iops: 1000.0, spacing }, 0.5, 1, 0).unwrap();
        let mut gaps = Vec::new();
        let mut last = s.at_ns();
        while s.at_ns() < 100_000_000_000 {
            s.advance();
            gaps.push((s.at_ns() - last) as f64);
            last = s.at_ns();
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        near(mean, 2e6, 3e4);
        let sd = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        // The standard deviation of exponential gaps is their mean; equal gaps have none.
        near(sd, if spacing == Spacing::Poisson { mean } else { 0.0 }, 5e4);
    }
    assert!(Schedule::new(&Arrivals::Closed, 1.0, 1, 0).is_none());
}

#[test]
fn what_does_not_fit_on_the_disk_is_said() {
    let w = Workload::simple("t", 1 << 20, 1.0, Access::Sequential { shared: false }, 1);
    let e = AccessPlan::new(&w, "/dev/small", 512 << 10).unwrap_err().to_string();
    assert!(e.contains("/dev/small") && e.contains("1048576 bytes does not fit"), "{e}");
}

fn access() -> impl Strategy<Value = Access> {
    let hot = (0.01f64..0.4, 0.0f64..0.5).prop_map(|(space, operations)| Hot { space, operations });
    prop_oneof![
        any::<bool>().prop_map(|shared| Access::Sequential { shared }),
        (0.0f64..=1.0).prop_map(|seeks| Access::Seek { seeks }),
        Just(Access::Random { skew: Skew::Uniform }),
        (0.1f64..3.0).prop_filter("not 1", |t| *t != 1.0).prop_map(|theta| Access::Random { skew: Skew::Zipf { theta } }),
        proptest::collection::vec(hot.clone(), 1..3).prop_map(|ranges| Access::Random { skew: Skew::Hot { ranges } }),
        (1u32..100, proptest::option::of(hot)).prop_map(|(steps, hot)| Access::Walk { steps, hot }),
    ]
}

proptest! {
    #[test]
    fn no_operation_leaves_its_area_and_a_seed_repeats(
        access in access(), sizes in proptest::collection::vec(1u32..64, 1..4), align in prop_oneof![Just(0u32), Just(512), Just(4096), Just(65536)],
        area in (0.0f64..0.4, 0.6f64..=1.0), working_set in 0.3f64..=1.0, disk in 4u64..64, seed: u64,
    ) {
        let mut w = Workload::simple("t", 4096, 0.5, access, 1);
        w.working_set = working_set;
        w.streams[0].sizes = sizes.iter().map(|n| Size { bytes: n * 512, weight: f64::from(*n) }).collect();
        (w.streams[0].align_bytes, w.streams[0].area) = (align, area);
        w.check("test").unwrap();
        let bytes = disk << 20;
        let plan = AccessPlan::new(&w, "disk", bytes).unwrap();
        let again = AccessPlan::new(&w, "disk", bytes).unwrap();
        let space = bytes as f64 * working_set;
        let (mut a, mut b) = (Thread::new(&plan, seed, 1, 2, 3), Thread::new(&again, seed, 1, 2, 3));
        for _ in 0..300 {
            let o = a.next_operation();
            prop_assert_eq!(o, b.next_operation());
            prop_assert!(o.offset as f64 >= space * area.0 - 4096.0 && (o.offset + u64::from(o.bytes)) as f64 <= space * area.1 + 1.0, "{:?}", o);
            prop_assert!(o.offset.is_multiple_of(512));
            if align > 0 {
                prop_assert!(o.offset.is_multiple_of(align.into()), "{:?}", o);
            }
        }
    }
}

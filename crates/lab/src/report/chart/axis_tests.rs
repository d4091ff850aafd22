use super::*;
use crate::report::text::LatencyUnit;
use proptest::prelude::*;

fn texts(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|t| t.1.as_str()).collect()
}

#[test]
fn iops_are_labelled_in_thousands_from_zero() {
    let a = Axis::new(&Measure::Iops(""), Scale::FromZero, [12_000.0, 231_000.0], 6);
    assert_eq!(a.title, "thousand IOPS");
    assert_eq!(texts(&a), ["0", "50", "100", "150", "200", "250"]);
    assert_eq!((a.lo, a.hi), (0.0, 250_000.0));
}

#[test]
fn latencies_over_decades_have_round_ticks() {
    let a = Axis::new(&Measure::Latency("", LatencyUnit::Ms), Scale::Log, [80.0, 15_500.0], 8);
    assert_eq!(a.title, "latency, ms");
    assert_eq!(texts(&a), ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
}

#[test]
fn percentiles_read_as_percentiles() {
    let a = Axis::new(&Measure::Percentile, Scale::Log, [1.0, 10_000.0], 8);
    assert_eq!(texts(&a), ["0", "50", "90", "99", "99.9", "99.99"]);
}

#[test]
fn long_times_are_labelled_in_minutes() {
    let a = Axis::new(&Measure::Time, Scale::Linear, [-300.0, 3600.0], 9);
    assert_eq!(a.title, "time, min");
    assert_eq!(texts(&a), ["0", "10", "20", "30", "40", "50", "60"]);
}

#[test]
fn depths_are_powers_of_two() {
    let a = Axis::new(&Measure::Plain("threads a disk".into()), Scale::Log, [1.0, 32.0], 8);
    assert_eq!(texts(&a), ["1", "2", "4", "8", "16", "32"]);
    let a = Axis::new(&Measure::Bytes("transfer size".into()), Scale::Log, [4096.0, 262_144.0], 8);
    assert_eq!(texts(&a), ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "128 KiB", "256 KiB"]);
}

#[test]
fn texts_without_room_give_way_and_their_lines_stay() {
    let a = Axis::new(&Measure::Percentile, Scale::Log, [1.0, 10_000.0], 8).without_overlaps(60.0, 330.0, 360.0, 10.0);
    assert_eq!(texts(&a), ["0", "", "90", "99", "99.9", "99.99"]);
    let a = Axis::new(&Measure::Percentile, Scale::Log, [1.0, 10_000.0], 8).without_overlaps(60.0, 330.0, 331.0, 10.0);
    assert_eq!(texts(&a), ["0", "", "90", "99", "99.9", ""]);
}

proptest! {
    #[test]
    fn whatever_the_data_the_axis_holds_it_and_has_few_ascending_ticks(
        values in proptest::collection::vec(prop_oneof![Just(0.0), 1e-6..1e12f64, Just(f64::NAN), Just(f64::INFINITY)], 0..20),
        max in 2usize..10,
        scale in prop_oneof![Just(Scale::FromZero), Just(Scale::Linear), Just(Scale::Log)],
        measure in prop_oneof![Just(Measure::Iops("")), Just(Measure::Latency("", LatencyUnit::Ms)), Just(Measure::Time), Just(Measure::MibS), Just(Measure::Plain("n".into())), Just(Measure::Bytes("b".into()))],
    ) {
        let axis = Axis::new(&measure, scale, values.iter().copied(), max);
        prop_assert!(axis.lo.is_finite() && axis.hi.is_finite() && axis.lo < axis.hi, "{axis:?}");
        prop_assert!(axis.ticks.len() <= 2 * max + 2, "{axis:?}");
        prop_assert!(axis.ticks.windows(2).all(|w| w[0].0 < w[1].0), "{axis:?}");
        for v in values.into_iter().filter(|v| v.is_finite() && (*v > 0.0 || scale != Scale::Log)) {
            prop_assert!(v >= axis.lo * (1.0 - 1e-9) && v <= axis.hi * (1.0 + 1e-9), "{v} {axis:?}");
        }
        for (v, _) in &axis.ticks {
            prop_assert!(*v >= axis.lo - axis.lo.abs() * 1e-6 - 1e-9 && *v <= axis.hi * 1.000_01 + 1e-9, "{axis:?}");
        }
    }
}

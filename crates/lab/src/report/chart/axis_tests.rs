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
    assert_eq!((a.lo, a.hi, a.shown(231_000.0)), (0.0, 250.0, Some(231.0)));
}

#[test]
fn latencies_over_decades_have_round_ticks() {
    let a = Axis::new(&Measure::Latency("", LatencyUnit::Ms), Scale::Log, [80.0, 15_500.0], 8);
    assert_eq!(a.title, "latency, ms");
    assert_eq!(texts(&a), ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
    assert_eq!((a.shown(80.0), a.shown(0.0), a.shown(f64::NAN)), (Some(0.08), None, None));
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
    let a = Axis::new(&Measure::Time, Scale::Linear, [0.0, 86_400.0], 9);
    assert_eq!((a.title.as_str(), texts(&a)), ("time, h", vec!["0", "3", "6", "9", "12", "15", "18", "21", "24"]));
}

#[test]
fn parameters_are_called_by_their_names() {
    let names = vec![(4096.0, "4 KiB".to_owned()), (65_536.0, "64 KiB".to_owned())];
    let a = Axis::new(&Measure::Plain("transfer size".into()), Scale::Log, names.iter().map(|n| n.0), 8).with_names(names.clone());
    assert_eq!((a.ticks, a.named), (names, true));
}

proptest! {
    #[test]
    fn whatever_the_data_the_axis_holds_it_and_has_few_ascending_ticks(
        values in proptest::collection::vec(prop_oneof![Just(0.0), 1e-6..1e12f64, Just(f64::NAN), Just(f64::INFINITY)], 0..20),
        max in 2usize..10,
        scale in prop_oneof![Just(Scale::FromZero), Just(Scale::Linear), Just(Scale::Log)],
        measure in prop_oneof![Just(Measure::Iops("")), Just(Measure::Latency("", LatencyUnit::Ms)), Just(Measure::Time), Just(Measure::MibS), Just(Measure::Plain("n".into()))],
    ) {
        let axis = Axis::new(&measure, scale, values.iter().copied(), max);
        prop_assert!(axis.lo.is_finite() && axis.hi.is_finite() && axis.lo < axis.hi, "{axis:?}");
        prop_assert!(axis.ticks.len() <= 2 * max + 2, "{axis:?}");
        prop_assert!(axis.ticks.windows(2).all(|w| w[0].0 < w[1].0), "{axis:?}");
        for v in values {
            prop_assert_eq!(axis.shown(v).is_some(), v.is_finite() && (v > 0.0 || scale != Scale::Log));
            if let Some(shown) = axis.shown(v) {
                prop_assert!((shown - v / axis.by).abs() <= (v / axis.by).abs() * 1e-6 + axis.hi.abs() * 1e-9, "{v} became {shown}: {axis:?}");
            }
        }
        for (v, _) in &axis.ticks {
            prop_assert!(*v >= axis.lo - axis.lo.abs() * 1e-6 - 1e-9 && *v <= axis.hi * 1.000_01 + 1e-9, "{axis:?}");
        }
    }
}

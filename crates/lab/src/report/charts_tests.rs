//! What is handed to the charts: which series, with which points and units.

use super::*;
use crate::report::chart::WIDE;
use crate::report::example;
use crate::results::Record;
use serde_json::Value as Json;

fn overview_of((record, cases): (Record, Vec<Measured>)) -> (Vec<Picture>, Analysis) {
    let run = Loaded { record, cases: cases.into_iter().enumerate().collect() };
    let a = Analysis::new(&run);
    (overview(&run, &a), a)
}

/// The data of the chart with this title.
fn data(pictures: &[Picture], title: &str) -> (Json, String) {
    let chart = pictures.iter().find_map(|p| match p {
        Picture::Chart(c) if c.title == title => Some(c),
        _ => None,
    });
    let chart = chart.unwrap_or_else(|| panic!("no {title}"));
    (serde_json::from_str(&chart.data()).unwrap(), chart.note.clone())
}

fn names(chart: &Json) -> Vec<String> {
    chart["panels"][0]["series"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_curve_after_nine_windows_of_a_maximum_still_shows_its_points() {
    let (record, mut cases) = example::curve();
    let window = cases[0].clone();
    (0..8).for_each(|_| cases.insert(0, window.clone()));
    let (pictures, a) = overview_of((record, cases));
    let (chart, note) = data(&pictures, "Latency percentiles of all cases");
    let shown = names(&chart);
    assert_eq!(shown.len(), 8);
    assert_eq!(shown.iter().filter(|n| n.contains("maximum")).count(), 1, "{shown:?}");
    // What the verdict speaks of is there; what is not there is named.
    assert!(a.verdict[0].contains("(70 %)") && shown.iter().any(|n| n.ends_with("load 70 %")), "{shown:?}");
    assert!(shown.iter().any(|n| n.ends_with("load 80 %")) && note.contains("Left out, for room: "), "{shown:?}: {note}");
    let (curve, _) = data(&pictures, "Latency against throughput");
    assert!(curve["panels"][0]["series"].as_array().unwrap().iter().all(|s| s["points"].as_array().unwrap().len() == 10), "{curve}");
}

#[test]
fn the_requested_rate_makes_no_series_of_its_own() {
    let (pictures, a) = overview_of(example::tiers());
    assert_eq!(a.curves.len(), 8);
    let (chart, _) = data(&pictures, "Latency against throughput");
    let series = chart["panels"][0]["series"].as_array().unwrap();
    assert_eq!(series.len(), 8);
    for s in series {
        assert!(!s["name"].as_str().unwrap().contains("requested"), "{s}");
        assert_eq!(s["points"].as_array().unwrap().len(), 10, "{s}");
    }
    for (cache, rules) in [("NAND", "published"), ("NAND", "smooth"), ("Optane", "published"), ("Optane", "smooth")] {
        let is = |n: &String| n.contains(cache) && n.contains(rules);
        assert_eq!(names(&chart).iter().filter(|n| is(n)).count(), 2, "{cache}, {rules}");
    }
    assert!(!pictures.iter().any(|p| matches!(p, Picture::Chart(c) if c.title.contains("requested IOPS"))));
    // Of eighty cases, those that the verdict speaks of.
    let (chart, note) = data(&pictures, "Latency percentiles of all cases");
    assert!(names(&chart).iter().all(|n| n.contains("Optane") && n.contains("smooth")), "{:?}", names(&chart));
    assert!(note.contains("and 68 more"), "{note}");
}

#[test]
fn data_stand_beside_operations_where_sizes_differ() {
    let titles = |run| -> Vec<String> {
        let bars = overview_of(run).0;
        bars.iter().filter_map(|p| if let Picture::Bars(b) = p { Some(b.title.clone()) } else { None }).collect()
    };
    assert_eq!(titles(example::run()), ["Operations a second", "Data a second"]);
    let (record, mut cases) = example::run();
    cases.truncate(3);
    assert_eq!(titles((record, cases)), ["Operations a second"]);
}

#[test]
fn all_latencies_of_a_report_are_in_one_unit() {
    for (name, (record, cases)) in example::all() {
        let run = Loaded { record, cases: cases.into_iter().enumerate().collect() };
        let a = Analysis::new(&run);
        let mut all = overview(&run, &a);
        all.extend(run.cases.iter().flat_map(|c| case(&c.1, a.unit)));
        let mut units = std::collections::BTreeSet::new();
        for p in &all {
            let Picture::Chart(c) = p else { continue };
            let chart: Json = serde_json::from_str(&c.data()).unwrap();
            let axes = chart["panels"].as_array().unwrap().iter().map(|p| &p["y"]).chain([&chart["x"]]);
            units.extend(axes.filter_map(|a| Some(a["label"].as_str()?.split_once("latency, ")?.1.to_owned())));
        }
        units.insert(a.unit.name().to_owned());
        assert_eq!(units.len(), 1, "{name}: {units:?}");
        let other = if a.unit == LatencyUnit::Ms { " µs" } else { " ms" };
        assert!(a.verdict.iter().all(|v| !v.contains(other)), "{name}: {:?}", a.verdict);
    }
}

#[test]
fn the_last_text_of_an_axis_is_there() {
    let bars = rates(&overview_of(example::run()).1);
    let svg = bars[1].svg(WIDE);
    assert!(svg.contains(">1,200<"), "{svg}");
}

#[test]
fn a_system_that_is_called_by_its_letter_is_not_called_twice() {
    let (record, mut cases) = example::compare();
    for m in &mut cases {
        let letter = m.labels[0].1.clone();
        m.labels[1].1 = letter;
    }
    let (_, a) = overview_of((record, cases));
    assert_eq!(a.comparisons[0].names, ("A".to_owned(), "B".to_owned()));
    assert!(a.verdict.iter().all(|v| !v.contains("(A)") && !v.contains("(B)")), "{:?}", a.verdict);
}

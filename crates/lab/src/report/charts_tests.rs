//! What is handed to the charts: which series, with which points and units.

use super::*;
use crate::report::chart::still::WIDE;
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
    let picture = pictures.iter().find(|p| p.title() == title).unwrap_or_else(|| panic!("no {title}"));
    (serde_json::from_str(&picture.drawing().data()).unwrap(), picture.note().to_owned())
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
            let chart: Json = serde_json::from_str(&p.drawing().data()).unwrap();
            let axes = chart["panels"].as_array().into_iter().flatten().map(|p| &p["y"]).chain([&chart["x"]]);
            units.extend(axes.filter_map(|a| Some(a["title"].as_str()?.split_once("latency, ")?.1.to_owned())));
        }
        units.insert(a.unit.name().to_owned());
        assert_eq!(units.len(), 1, "{name}: {units:?}");
        let other = if a.unit == LatencyUnit::Ms { " µs" } else { " ms" };
        assert!(a.verdict.iter().all(|v| !v.contains(other)), "{name}: {:?}", a.verdict);
    }
}

#[test]
fn the_last_text_of_an_axis_is_there() {
    let bars = Picture::Bars(rates(&overview_of(example::run()).1).swap_remove(1));
    let svg = bars.drawing().svg(WIDE, "");
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

#[test]
fn parameters_have_their_names_on_the_axis_and_no_other_ticks() {
    let (pictures, a) = overview_of(example::sweep());
    let p = a.parameters.iter().find(|p| p.numeric).expect("a parameter");
    let (chart, _) = data(&pictures, &format!("Scaling with {}", p.key));
    let names: Vec<&str> = chart["x"]["ticks"].as_array().unwrap().iter().map(|t| t[1].as_str().unwrap()).collect();
    assert_eq!(names, p.values, "{chart}");
    assert_eq!(chart["x"]["named"], true);
}

#[test]
fn ratios_are_series_by_figure_and_a_figure_that_is_missing_leaves_its_place() {
    let (pictures, a) = overview_of(example::compare());
    let title = format!("{} divided by {}", a.comparisons[0].names.1, a.comparisons[0].names.0);
    let (chart, _) = data(&pictures, &title);
    let series = chart["series"].as_array().unwrap();
    assert_eq!(series.iter().map(|s| s["name"].as_str().unwrap()).collect::<Vec<_>>(), ["IOPS", "mean latency", "p99 latency"]);
    assert!(series.iter().all(|s| s["look"].as_u64().unwrap() > 1), "colours of the systems: {chart}");
    let mut list = a.comparisons.clone();
    list[0].ratios.retain(|r| r.figure != "p99 latency");
    let Some(bars) = compare(&Analysis { comparisons: list, ..a }).nth(1) else { panic!("no ratios") };
    assert!(bars.series.last().unwrap().values[0].is_none());
    assert!(bars.series.iter().all(|s| s.values.len() == bars.names.len()));
}

use super::example;
use super::*;
use crate::results::{Measured, Record};
use std::collections::BTreeSet;

fn report_of((record, cases): (Record, Vec<Measured>)) -> (tempfile::TempDir, Report) {
    let dir = tempfile::tempdir().unwrap();
    example::write(dir.path(), &record, &cases);
    let r = Report::new(dir.path(), None).unwrap();
    (dir, r)
}

/// Elements that have no end.
const VOID: [&str; 4] = ["meta", "br", "hr", "link"];

/// Checks that elements are nested rightly and attributes are quoted; gives back (element, attributes) of each start.
fn elements(html: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut list = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = html.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>') || open.last().is_some_and(|e| e == "style"), "a bare > in {:?}", &rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("an end of the tag");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "wrongly nested");
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |t| (t, true));
        let name = tag.split(' ').next().unwrap().to_string();
        let mut attributes = Vec::new();
        let mut text = tag[name.len()..].trim();
        while !text.is_empty() {
            let stop = text.find(['=', ' ']).unwrap_or(text.len());
            let key = text[..stop].to_string();
            text = &text[stop..];
            let mut value = String::new();
            if let Some(t) = text.strip_prefix("=\"") {
                let close = t.find('"').expect("a quoted value");
                value = t[..close].to_string();
                text = &t[close + 1..];
            } else {
                assert!(!text.starts_with('='), "an unquoted value in <{tag}>");
            }
            assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || "-:".contains(c)), "attribute {key:?} in <{tag}>");
            attributes.push((key, value));
            text = text.trim_start();
        }
        if !closed && !VOID.contains(&name.as_str()) {
            open.push(name.clone());
        }
        if name == "script" {
            // Raw text up to its end.
            rest = &rest[rest.find("</script>").expect("an end of the script")..];
        }
        list.push((name, attributes));
    }
    assert!(open.is_empty(), "not ended: {open:?}");
    list
}

/// What must hold of every page.
fn check_page(html: &str, cases: usize) {
    let found = elements(html);
    let mut ids = BTreeSet::new();
    for (name, attributes) in &found {
        if name == "script" {
            assert!(attributes.is_empty() || attributes == &[("type".to_owned(), "application/json".to_owned())], "{attributes:?}");
        }
        assert!(!["img", "iframe", "object", "embed", "base", "form", "link"].contains(&name.as_str()), "<{name}>");
        for (key, value) in attributes {
            assert!(!key.starts_with("on"), "a handler: {key}");
            assert!(key != "src" && key != "srcset" && key != "action" && key != "style", "{key}");
            if key == "href" {
                assert!(value.starts_with('#'), "a link to outside: {value}");
            }
            if key == "id" {
                assert!(ids.insert(value.clone()), "the id {value} twice");
            }
        }
    }
    for (_, attributes) in found.iter().filter(|(n, _)| n == "a") {
        assert!(attributes.iter().any(|(k, v)| k == "href" && ids.contains(&v[1..])), "a link to nowhere: {attributes:?}");
    }
    let ours = [html::library(), chart::live::GLUE.to_owned()];
    let scripts: Vec<&str> = html.split("<script>").skip(1).map(|s| s.split("</script>").next().unwrap()).collect();
    assert_eq!(scripts, ours, "no script but the two");
    data(html);
    let html: String = html.split("<script>").next().unwrap().into();
    assert!(!html.contains("url(") && !html.contains("@import"), "the style sheet loads something");
    let rows: BTreeSet<&str> =
        found.iter().filter(|(n, _)| n == "tr").flat_map(|(_, a)| a).filter(|(k, _)| k == "data-case").map(|(_, v)| v.as_str()).collect();
    assert_eq!(rows.len(), cases, "every case has a row");
    charts(&html).iter().for_each(|s| check_svg(s));
}

/// The data that a page hands to the library, chart by chart; what must hold of all of them is checked.
fn data(html: &str) -> Vec<serde_json::Value> {
    let blocks = html.split("<script type=\"application/json\">").skip(1);
    let all: Vec<serde_json::Value> = blocks.map(|b| serde_json::from_str(b.split("</script>").next().unwrap()).unwrap()).collect();
    for c in &all {
        let within = |a: &serde_json::Value, v: &serde_json::Value| {
            let (v, lo, hi) = (v.as_f64().unwrap(), a["lo"].as_f64().unwrap(), a["hi"].as_f64().unwrap());
            assert!(v >= lo - lo.abs() * 1e-9 && v <= hi + hi.abs() * 1e-9, "{v} is not on the axis {a}");
        };
        for p in c["panels"].as_array().into_iter().flatten() {
            let series = p["series"].as_array().unwrap();
            assert!(series.len() <= usize::from(chart::SERIES_MAX), "{c}");
            for s in series {
                assert!(!s["name"].as_str().unwrap().is_empty() && !s["points"].as_array().unwrap().is_empty(), "{s}");
                s["points"].as_array().unwrap().iter().for_each(|q| {
                    within(&c["x"], &q[0]);
                    within(&p["y"], &q[1]);
                });
            }
        }
        for s in c["names"].as_array().into_iter().flat_map(|_| c["series"].as_array().unwrap()) {
            assert_eq!(s["values"].as_array().unwrap().len(), c["names"].as_array().unwrap().len(), "{c}");
            for v in s["values"].as_array().unwrap().iter().filter(|v| !v.is_null()) {
                within(&c["x"], &v["at"]);
                v["interval"].as_array().into_iter().flatten().for_each(|end| within(&c["x"], end));
            }
        }
    }
    all
}

/// The charts of a page.
fn charts(html: &str) -> Vec<String> {
    html.split("<svg xmlns").skip(1).map(|s| format!("<svg xmlns{}</svg>", s.split("</svg>").next().unwrap())).collect()
}

/// Well-formed, readable by screen readers, and all of it inside of its view box.
fn check_svg(text: &str) {
    let document = roxmltree::Document::parse(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    assert!(root.children().any(|c| c.has_tag_name(("http://www.w3.org/2000/svg", "title")) && c.text().is_some_and(|t| !t.is_empty())));
    let size: Vec<f64> = root.attribute("viewBox").unwrap().split(' ').map(|v| v.parse().unwrap()).collect();
    let (width, height) = (size[2], size[3]);
    let inside = |x: f64, y: f64| {
        assert!(x >= -0.05 && x <= width + 0.05 && y >= -0.05 && y <= height + 0.05, "({x}, {y}) outside of {width} x {height}: {text}")
    };
    let mut boxes: Vec<([f64; 4], String)> = Vec::new();
    for n in root.descendants() {
        let number = |key: &str| n.attribute(key).map_or(0.0, |v| v.parse::<f64>().unwrap_or_else(|_| panic!("{key} of {n:?}")));
        match n.tag_name().name() {
            "text" => {
                let size = number("font-size");
                let length = n.text().unwrap_or_default().chars().count() as f64 * size * 0.62;
                let (x, y) = (number("x"), number("y"));
                let (from, to) = match n.attribute("text-anchor") {
                    Some("middle") => (-length / 2.0, length / 2.0),
                    Some("end") => (-length, 0.0),
                    _ => (0.0, length),
                };
                if n.attribute("transform").is_some() {
                    inside(x, y + from);
                    inside(x, y + to);
                } else {
                    inside(x + from, y);
                    inside(x + to, y - size * 0.74);
                    boxes.push(([x + from, x + to, y - size * 0.74, y], n.text().unwrap_or_default().into()));
                }
            }
            "rect" => {
                inside(number("x"), number("y"));
                inside(number("x") + number("width"), number("y") + number("height"));
            }
            "circle" => inside(number("cx"), number("cy")),
            "path" => {
                let numbers: Vec<f64> =
                    n.attribute("d").unwrap().split(['M', 'L', 'Z', ' ']).filter(|t| !t.is_empty()).map(|t| t.parse().unwrap()).collect();
                numbers.chunks(2).for_each(|p| inside(p[0], p[1]));
            }
            _ => {}
        }
    }
    for (i, (a, text)) in boxes.iter().enumerate() {
        for (b, other) in &boxes[i + 1..] {
            let apart = a[1] <= b[0] || b[1] <= a[0] || a[3] <= b[2] || b[3] <= a[2];
            assert!(apart, "{text:?} lies on {other:?} in {}", root.descendants().find_map(|n| n.text()).unwrap_or_default());
        }
    }
}

#[test]
fn every_kind_of_run_becomes_a_sound_page() {
    // With this variable the pages can be looked at in a browser.
    let keep = std::env::var_os("BASALT_LAB_EXAMPLES").map(PathBuf::from);
    for (name, (record, cases)) in example::all() {
        let count = cases.len();
        let (dir, r) = report_of((record, cases));
        let html = r.html();
        check_page(&html, count);
        assert!(charts(&html).len() >= 4, "{name}");
        assert!(!r.analysis.verdict.is_empty(), "{name}");
        let files = write_all(dir.path()).unwrap();
        assert_eq!(files.len(), 5);
        assert!(files.iter().all(|f| std::fs::metadata(f).unwrap().len() > 100));
        if let Some(keep) = &keep {
            std::fs::create_dir_all(keep.join(name)).unwrap();
            for f in files {
                std::fs::copy(&f, keep.join(name).join(f.file_name().unwrap())).unwrap();
            }
        }
    }
}

#[test]
fn charts_stand_before_a_long_table_and_behind_a_short_one() {
    let charts_first = |run| {
        let html = report_of(run).1.html();
        let results = html.split("id=\"results\"").nth(1).unwrap().to_owned();
        results.find("<figure").unwrap() < results.find("data-case").unwrap()
    };
    assert!(charts_first(example::tiers()) && charts_first(example::compare()));
    assert!(!charts_first(example::run()) && !charts_first(example::curve()));
}

#[test]
fn no_column_says_what_another_says_already() {
    let columns = |run| -> Vec<String> { table::cases(&report_of(run).1.analysis).columns.into_iter().map(|c| c.name).collect() };
    let tiers = columns(example::tiers());
    assert_eq!(tiers.iter().filter(|c| c.contains("requested")).count(), 1, "{tiers:?}");
    let (record, mut cases) = example::study();
    for m in &mut cases {
        m.labels.push(("load".into(), m.workload.name.clone()));
    }
    let name = crate::report::figures::Case::new(0, &cases[0]).name;
    assert_eq!(name, "4 KiB random read, namespaces none");
    let study = columns((record, cases));
    assert!(study.iter().any(|c| c == "workload") && !study.iter().any(|c| c == "load"), "{study:?}");
}

#[test]
fn the_verdict_of_a_search_has_one_unit_for_all_latencies() {
    let (_dir, r) = report_of(example::search());
    let (unit, text) = (r.analysis.unit, r.analysis.verdict.join("\n"));
    let found = r.analysis.verdict.iter().find(|v| v.contains(" units of ")).expect("what was found");
    assert_eq!(unit, text::LatencyUnit::Ms, "the ceiling is in ms: {text}");
    assert!(found.contains("keep a mean response time of 2.00 ms and a p99 of 5.00 ms (they had a mean of "), "{found}");
    assert!(!text.contains("µs"), "{text}");
}

const HOSTILE: &str = "</title></style><script>alert(1)</script>\"'><img src=x onerror=alert(2)> & ]]> | `x` \u{202e}\u{1b}[31m\0";

#[test]
fn hostile_texts_stay_texts() {
    for (_, (mut record, mut cases)) in example::all() {
        for t in [&mut record.title, &mut record.basalt, &mut record.source, &mut record.configuration, &mut record.machine.processor] {
            *t = HOSTILE.into();
        }
        record.command.push(HOSTILE.into());
        record.verdict = vec![HOSTILE.into()];
        record.published.iter_mut().for_each(|p| p.remark = HOSTILE.into());
        for m in &mut cases {
            m.workload.name.push_str(HOSTILE);
            m.workload.description = HOSTILE.into();
            m.engine = HOSTILE.into();
            m.labels.push((HOSTILE.into(), HOSTILE.into()));
            m.notes.push(HOSTILE.into());
            let processes = vec![(HOSTILE.to_owned(), 1.5)];
            m.noise = Some(crate::measure::noise::Noise { seconds: 9.0, processors: 2, others: 1.5, processes, ..Default::default() });
            m.target_noise = m.noise.clone();
            m.disks.push((HOSTILE.into(), 1));
            m.streams = vec![(HOSTILE.into(), m.reads.clone())];
        }
        let count = cases.len();
        let (_dir, r) = report_of((record, cases));
        check_page(&r.html(), count);
        assert!(!r.html().contains("<script>alert") && !r.html().contains("<img"));
        let markdown = r.markdown();
        let outside: String = markdown.split("\n```").step_by(2).collect();
        assert!(!outside.contains("<script") && !outside.contains("<img"), "{outside}");
        for (what, text) in [("html", r.html()), ("markdown", markdown), ("cases", r.cases_csv()), ("seconds", r.seconds_csv())] {
            assert!(!text.contains(['\u{202e}', '\u{1b}', '\0']), "{what}");
        }
        let json: serde_json::Value = serde_json::from_str(&r.json()).unwrap();
        assert!(json["title"].as_str().unwrap().contains("<script>"), "JSON keeps it as data");
    }
}

#[test]
fn a_run_without_cases_is_a_page_that_says_so() {
    let mut record = example::record(RunKind::Curve, "Nothing yet", 11);
    record.state = RunState::Running;
    let (dir, r) = report_of((record, Vec::new()));
    let html = r.html();
    check_page(&html, 0);
    assert!(html.contains("No case has been measured") && html.contains("0 of 11 cases") && html.contains("Nothing was measured"));
    assert_eq!(write_all(dir.path()).unwrap().len(), 5);
}

#[test]
fn an_interrupted_run_shows_what_it_has() {
    let (mut record, mut cases) = example::curve();
    record.state = RunState::Interrupted;
    cases.truncate(5);
    cases[4].cut_short = true;
    cases[4].seconds.truncate(3);
    let (_dir, r) = report_of((record, cases));
    check_page(&r.html(), 5);
    assert!(r.html().contains("4 of 11 cases are there; the run was interrupted"));
}

#[test]
fn a_case_that_was_cut_short_is_shown_as_far_as_it_went() {
    let (mut record, cases) = example::run();
    record.state = RunState::Interrupted;
    let dir = tempfile::tempdir().unwrap();
    example::write(dir.path(), &record, &cases[..2]);
    std::fs::write(dir.path().join("partial-002.json"), serde_json::to_vec(&cases[2]).unwrap()).unwrap();
    let r = Report::new(dir.path(), None).unwrap();
    check_page(&r.html(), 3);
    assert!(r.analysis.cases[2].cut_short);
    assert!(
        r.html().contains("2 of 4 cases are there; the run was interrupted") && r.html().contains("1 case ended before its time"),
        "{:?}",
        r.analysis.warnings
    );
}

#[test]
fn cases_without_seconds_operations_or_time_are_shown() {
    let (record, mut cases) = example::run();
    cases[0].seconds.clear();
    cases[1].reads = crate::measure::Figures::default();
    cases[1].writes = crate::measure::Figures::default();
    cases[2].measured_s = 0.0;
    for s in &mut cases[3].seconds {
        *s = crate::measure::Second { at_s: s.at_s, ..Default::default() };
    }
    let (_dir, r) = report_of((record, cases));
    check_page(&r.html(), 4);
}

#[test]
fn one_operation_in_one_second_is_a_page() {
    let mut m = example::case(&example::random("one", 512, 1.0), &[], 1.0, 100.0, 1);
    m.seconds.truncate(1);
    let (_dir, r) = report_of((example::record(RunKind::Run, "One", 1), vec![m]));
    check_page(&r.html(), 1);
}

#[test]
fn two_hundred_cases_make_a_bounded_page_that_names_all() {
    let w = example::random("w", 4096, 0.5);
    let cases: Vec<Measured> = (0..200)
        .map(|i| {
            example::case(
                &w,
                &[("disks", &(i % 20 + 1).to_string()), ("threads a disk", &(i / 20 + 1).to_string())],
                1000.0 + f64::from(i),
                200.0,
                5,
            )
        })
        .collect();
    let (_dir, r) = report_of((example::record(RunKind::Sweep, "Many", 200), cases));
    let html = r.html();
    check_page(&html, 200);
    assert!(html.len() < 4 << 20, "{} bytes", html.len());
    assert!(html.contains("The first 40 of 200 cases"));
}

#[test]
fn the_same_files_make_the_same_report() {
    let (dir, r) = report_of(example::compare());
    let again = Report::new(dir.path(), None).unwrap();
    assert_eq!((r.html(), r.markdown(), r.json()), (again.html(), again.markdown(), again.json()));
}

#[test]
fn an_earlier_run_stands_beside() {
    let (dir, _) = report_of(example::run());
    let (record, mut cases) = example::run();
    cases.remove(0);
    cases[0].reads.operations *= 2;
    let old = tempfile::tempdir().unwrap();
    example::write(old.path(), &record, &cases);
    let r = Report::new(dir.path(), Some(old.path())).unwrap();
    let earlier = r.earlier.as_ref().unwrap();
    let iops: Vec<_> = earlier.beside.iter().filter(|b| b.figure == "IOPS").collect();
    assert_eq!(iops.len(), 3, "only cases that both have");
    assert!((iops[0].ratio.unwrap() - 0.5).abs() < 1e-9);
    check_page(&r.html(), 4);
    assert!(r.html().contains("Beside an earlier run"));
    assert!(write_beside(dir.path(), Some(&dir.path().join("nowhere"))).unwrap_err().to_string().contains("there is no such folder"));
}

#[test]
fn a_folder_that_is_not_ours_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |dir: &Path| Report::new(dir, None).unwrap_err().to_string();
    assert!(wrong(dir.path()).contains("it has no run.json"));
    std::fs::write(dir.path().join("run.json"), "{\"a\":1}").unwrap();
    assert!(wrong(dir.path()).contains("run.json: is no file of the lab"));
    let (mut record, cases) = example::run();
    record.version = 99;
    example::write(dir.path(), &record, &cases);
    assert!(wrong(dir.path()).contains("version 99"));
    record.version = crate::results::VERSION;
    example::write(dir.path(), &record, &cases);
    std::fs::write(dir.path().join("case-002.json"), "{").unwrap();
    assert!(wrong(dir.path()).contains("case-002.json: is no file of the lab"));
    assert!(!dir.path().join("report.html").exists());
}

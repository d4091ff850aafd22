use super::*;
use crate::report::chart::axis::{Measure, Scale};
use crate::report::chart::{BarSeries, Bars, Chart, Panel, Picture, Series, Shape, Value};
use crate::report::html::{SCRIPTS, library};
use base64::Engine as _;

fn chart(name: &str) -> Picture {
    let points = vec![(3.0, 50.0), (1.0, 5.0), (2.0, 0.0), (4.0, f64::NAN)];
    Picture::Chart(Chart {
        title: "t".into(),
        note: String::new(),
        measure: Measure::Iops(""),
        scale: Scale::FromZero,
        names: Vec::new(),
        bands: vec![(0.0, 1.0)],
        marks: vec![2.0],
        panels: vec![Panel {
            measure: Measure::Plain("y".into()),
            scale: Scale::Log,
            series: vec![Series::new(name, 2, Shape::Dots, points)],
            rules: vec![5.0],
        }],
    })
}

#[test]
fn the_data_are_the_points_in_their_order_with_axes_and_marks() {
    let json: serde_json::Value = serde_json::from_str(&chart("s").drawing().data()).unwrap();
    let series = &json["panels"][0]["series"][0];
    assert_eq!(series["points"], serde_json::json!([[3.0, 50.0], [1.0, 5.0]]), "a curve may bend back; what no axis can hold is left out");
    assert_eq!((series["shape"].as_str(), series["look"].as_u64()), (Some("dots"), Some(2)));
    assert_eq!(
        (json["marks"][0].as_f64(), json["bands"][0][1].as_f64(), json["panels"][0]["rules"][0].as_f64()),
        (Some(2.0), Some(1.0), Some(5.0))
    );
    assert!(json["x"]["ticks"].as_array().unwrap().len() >= 2 && json["panels"][0]["y"]["log"] == true, "{json}");
}

#[test]
fn bars_are_in_the_unit_of_their_axis_with_the_texts_that_stand_behind_them() {
    let value = |at: f64| Some(Value { at, text: format!("{at}"), interval: Some((at - 1e3, at + 1e3)) });
    let series = |name: &str, look, values| BarSeries { name: name.into(), look, values };
    let bars = Picture::Bars(Bars {
        title: "t".into(),
        note: String::new(),
        measure: Measure::Iops(""),
        from: 0.0,
        names: vec!["one".into(), "two".into()],
        series: vec![series("a", 0, vec![value(30_000.0), None]), series("b", 1, vec![value(60_000.0), value(90_000.0)])],
    });
    let json: serde_json::Value = serde_json::from_str(&bars.drawing().data()).unwrap();
    assert_eq!((json["x"]["title"].as_str(), json["x"]["hi"].as_f64()), (Some("thousand IOPS"), Some(100.0)));
    assert_eq!(json["series"][0]["values"], serde_json::json!([{"at": 30.0, "text": "30000", "interval": [29.0, 31.0]}, null]));
    assert_eq!(json["pitch"].as_u64().unwrap(), json["name"].as_u64().unwrap() + 2 * json["bar"].as_u64().unwrap() + 12);
}

#[test]
fn no_text_ends_the_element() {
    let data = chart("</script><script>alert(1)</script>&<!--").drawing().data();
    assert!(!data.contains(['<', '>', '&']), "{data}");
    let json: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(json["panels"][0]["series"][0]["name"], "</script><script>alert(1)</script>&<!--");
}

#[test]
fn the_page_allows_just_its_two_scripts() {
    for (text, hash) in [(library(), SCRIPTS[0]), (GLUE.to_owned(), SCRIPTS[1])] {
        let of = openssl::sha::sha256(text.as_bytes());
        assert_eq!(format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(of)), hash, "put this hash into html.rs");
        assert!(!text.contains("</script") && !text.contains("<!--"));
    }
    let library: String = openssl::sha::sha256(LIBRARY.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(library, "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f", "uPlot 1.6.32 is pinned");
}

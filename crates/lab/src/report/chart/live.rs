//! The data of a chart for the library that draws it in a browser (uPlot), and that library with what hands the data over.
//!
//! Owns: `live.js`, the pinned files in `uplot/`, the JSON between them.
//! Invariants: what is handed over is what the static picture shows, with the same axes; no text of it can end its element; the scripts are constant,
//! so a page can allow just these by their hash.
//! Never: loads anything.

use super::axis::{Axis, Measure};
use super::{Chart, Panel, Shape, WIDE};
use serde::Serialize;

/// uPlot 1.6.32, as its package has it (`docs/dependencies.md`).
pub const LIBRARY: &str = include_str!("../uplot/uPlot.iife.min.js");
/// Its style sheet.
pub const STYLE: &str = include_str!("../uplot/uPlot.min.css");
/// Its licence, which goes with each copy.
pub const LICENCE: &str = include_str!("../uplot/LICENSE");
/// What hands the data to it.
pub const GLUE: &str = include_str!("live.js");

#[derive(Serialize)]
struct LiveAxis {
    label: String,
    lo: f64,
    hi: f64,
    log: bool,
    /// A value is divided by this before it is shown.
    by: f64,
    kind: &'static str,
    ticks: Vec<(f64, String)>,
}

#[derive(Serialize)]
struct LiveSeries<'a> {
    name: &'a str,
    look: u8,
    shape: &'static str,
    points: Vec<(f64, f64)>,
}

#[derive(Serialize)]
struct LivePanel<'a> {
    y: LiveAxis,
    rules: &'a [f64],
    series: Vec<LiveSeries<'a>>,
}

#[derive(Serialize)]
struct LiveChart<'a> {
    x: LiveAxis,
    bands: &'a [(f64, f64)],
    marks: &'a [f64],
    panels: Vec<LivePanel<'a>>,
}

impl LiveAxis {
    fn of(measure: &Measure, axis: Axis) -> LiveAxis {
        let kind = match measure {
            Measure::Percentile => "percentile",
            Measure::Bytes(_) => "bytes",
            _ => "number",
        };
        let ticks = axis.ticks.into_iter().filter(|t| !t.1.is_empty()).collect();
        LiveAxis { label: axis.title, lo: axis.lo, hi: axis.hi, log: axis.log, by: axis.by, kind, ticks }
    }
}

impl Panel {
    fn live<'a>(&'a self, x: &Axis, y: Axis) -> LivePanel<'a> {
        let shown = |v: f64, a: &Axis| v.is_finite() && (!a.log || v > 0.0);
        let series = self.series.iter().map(|s| LiveSeries {
            name: &s.name,
            look: s.look,
            shape: match s.shape {
                Shape::Line => "line",
                Shape::Dots => "dots",
                Shape::Marks => "marks",
                Shape::Area => "area",
            },
            points: s.points.iter().copied().filter(|p| shown(p.0, x) && shown(p.1, &y)).collect(),
        });
        LivePanel { rules: &self.rules, series: series.filter(|s| !s.points.is_empty()).collect(), y: LiveAxis::of(&self.measure, y) }
    }
}

impl Chart {
    /// The JSON that `live.js` reads; safe within a `<script>` element.
    pub fn data(&self) -> String {
        let x = self.x_axis(WIDE);
        let panels = self.panels.iter().map(|p| p.live(&x, self.y_axis(p))).collect();
        let chart = LiveChart { bands: &self.bands, marks: &self.marks, panels, x: LiveAxis::of(&self.measure, x) };
        let json = serde_json::to_string(&chart).expect("plain structures become JSON");
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;

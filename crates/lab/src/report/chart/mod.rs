//! Charts: what is to be shown, and the [`Drawing`] of it, in which everything is decided that can be seen: ranges, ticks, units, texts, places of
//! bars. uPlot draws it in a browser ([`live`]); for paper, and where scripts are off, [`still`] does.
//!
//! Owns: series and what is drawn of them.
//! Invariants: panels of one chart share their x axis; a series looks the same in all panels; nothing lies off its axes.
//! Never: knows what a run is.

pub mod axis;
pub mod live;
pub mod still;

use axis::{Axis, Measure, Scale};
use serde::Serialize;

/// Points of one series in one chart; more are thinned out by whoever makes them.
pub const POINTS_MAX: usize = 400;
/// Series that have a colour and line of their own.
pub const SERIES_MAX: u8 = 8;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A line.
    Line,
    /// A line with a dot at each point.
    Dots,
    /// A filled area down to the axis.
    Area,
}

/// One series of points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// Its colour and dashes, 0 to [`SERIES_MAX`] - 1.
    pub look: u8,
    /// How it is drawn.
    pub shape: Shape,
    /// (x, y), in the order of the line.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series.
    pub fn new(name: impl Into<String>, look: u8, shape: Shape, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), look: look % SERIES_MAX, shape, points }
    }
}

/// One plot of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What its y axis measures.
    pub measure: Measure,
    /// How.
    pub scale: Scale,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Values of y that are marked by a line.
    pub rules: Vec<f64>,
}

/// A chart of one panel or several above each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Headline.
    pub title: String,
    /// What can be seen, and how it was made; also for screen readers.
    pub note: String,
    /// What the shared x axis measures.
    pub measure: Measure,
    /// How.
    pub scale: Scale,
    /// The values of x with names of their own, for parameters.
    pub names: Vec<(f64, String)>,
    /// Shaded parts of x: the warm-up.
    pub bands: Vec<(f64, f64)>,
    /// Values of x that are marked.
    pub marks: Vec<f64>,
    /// The plots.
    pub panels: Vec<Panel>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Value {
    /// Where it ends.
    pub at: f64,
    /// What stands behind it.
    pub text: String,
    /// The ends of its uncertainty.
    pub interval: Option<(f64, f64)>,
}

/// The bars of one look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarSeries {
    /// As in the legend.
    pub name: String,
    /// Its colour.
    pub look: u8,
    /// One for each name; none where there is no figure.
    pub values: Vec<Option<Value>>,
}

/// Bars lying on their side: a name above those that belong to it, a value at the end of each. Fits any width.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Headline.
    pub title: String,
    /// For readers, also of screens.
    pub note: String,
    /// What the axis measures.
    pub measure: Measure,
    /// Bars begin here: 0, or 1 for ratios.
    pub from: f64,
    /// What each group of bars is about.
    pub names: Vec<String>,
    /// The bars, those of a group from above.
    pub series: Vec<BarSeries>,
}

/// A chart of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Picture {
    /// Over an axis.
    Chart(Chart),
    /// Bars.
    Bars(Bars),
}

/// What is drawn. All values are in the units that their axes show, all sizes in CSS pixels.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Drawing<'a> {
    /// Of a [`Chart`].
    Lines(Lines<'a>),
    /// Of [`Bars`].
    Bars(BarPlot<'a>),
}

/// Plots above each other, over one x axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lines<'a> {
    /// Headline.
    pub title: &'a str,
    /// The x axis of all.
    pub x: Axis,
    /// Shaded parts of x.
    pub bands: Vec<(f64, f64)>,
    /// Values of x that are marked.
    pub marks: Vec<f64>,
    /// The plots, from above.
    pub panels: Vec<Plot>,
}

/// One plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// Its y axis.
    pub y: Axis,
    /// Values of y that are marked.
    pub rules: Vec<f64>,
    /// Its series, all with points.
    pub series: Vec<Series>,
}

/// Bars, and where they lie.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarPlot<'a> {
    /// Headline.
    pub title: &'a str,
    /// The axis of the values.
    pub x: Axis,
    /// Where bars begin.
    pub from: f64,
    /// Height of one bar, with its gap.
    pub bar: u32,
    /// Height of a name.
    pub name: u32,
    /// From one name to the next.
    pub pitch: u32,
    /// Room for the texts behind the bars.
    pub room: u32,
    /// The names, from above.
    pub names: &'a [String],
    /// The bars.
    pub series: Vec<BarSeries>,
}

/// Most ticks of an axis.
const TICKS_X: usize = 10;
const TICKS_Y: usize = 7;
const TICKS_STACKED: usize = 5;
const TICKS_BARS: usize = 7;

const BAR: u32 = 14;
const BAR_NAME: u32 = 20;
const BAR_GAP: u32 = 12;
/// Width of a letter or figure at the size of charts, on average.
const LETTER: f64 = 7.44;

impl Picture {
    /// Its headline.
    pub fn title(&self) -> &str {
        match self {
            Picture::Chart(c) => &c.title,
            Picture::Bars(b) => &b.title,
        }
    }

    /// What there is to know of it.
    pub fn note(&self) -> &str {
        match self {
            Picture::Chart(c) => &c.note,
            Picture::Bars(b) => &b.note,
        }
    }

    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        match self {
            Picture::Chart(c) => c.panels.iter().all(|p| p.series.iter().all(|s| s.points.is_empty())),
            Picture::Bars(b) => b.names.is_empty(),
        }
    }

    /// All that is decided of how it looks.
    pub fn drawing(&self) -> Drawing<'_> {
        match self {
            Picture::Chart(c) => Drawing::Lines(c.drawing()),
            Picture::Bars(b) => Drawing::Bars(b.drawing()),
        }
    }
}

impl Drawing<'_> {
    /// What a legend lists: (name, look, filled), each once, in order. A single series needs none.
    pub fn legend(&self) -> Vec<(&str, u8, bool)> {
        let mut list: Vec<(&str, u8, bool)> = Vec::new();
        let all: Vec<_> = match self {
            Drawing::Lines(l) => {
                l.panels.iter().flat_map(|p| &p.series).map(|s| (s.name.as_str(), s.look, s.shape == Shape::Area)).collect()
            }
            Drawing::Bars(b) => b.series.iter().map(|s| (s.name.as_str(), s.look, true)).collect(),
        };
        for one in all {
            if !list.contains(&one) {
                list.push(one);
            }
        }
        if list.len() > 1 { list } else { Vec::new() }
    }
}

impl Chart {
    fn drawing(&self) -> Lines<'_> {
        let series = || self.panels.iter().flat_map(|p| &p.series);
        let values = series().flat_map(|s| s.points.iter().map(|q| q.0)).chain(self.bands.iter().flat_map(|b| [b.0, b.1]));
        let x = Axis::new(&self.measure, self.scale, values, TICKS_X);
        let x = if self.names.is_empty() { x } else { x.with_names(self.names.clone()) };
        let most = if self.panels.len() == 1 { TICKS_Y } else { TICKS_STACKED };
        Lines {
            title: &self.title,
            bands: self.bands.iter().filter_map(|b| x.shown(b.0).zip(x.shown(b.1))).collect(),
            marks: self.marks.iter().filter_map(|v| x.shown(*v)).collect(),
            panels: self.panels.iter().map(|p| p.drawing(&x, most)).collect(),
            x,
        }
    }
}

impl Panel {
    fn drawing(&self, x: &Axis, most: usize) -> Plot {
        let values = self.series.iter().flat_map(|s| s.points.iter().map(|p| p.1)).chain(self.rules.iter().copied());
        let y = Axis::new(&self.measure, self.scale, values, most);
        let series = self
            .series
            .iter()
            .map(|s| Series { points: s.points.iter().filter_map(|p| x.shown(p.0).zip(y.shown(p.1))).collect(), ..s.clone() });
        let series = series.filter(|s| !s.points.is_empty()).collect();
        Plot { rules: self.rules.iter().filter_map(|v| y.shown(*v)).collect(), series, y }
    }
}

impl Bars {
    fn drawing(&self) -> BarPlot<'_> {
        let values = || self.series.iter().flat_map(|s| s.values.iter().flatten());
        let ends = values().flat_map(|v| [v.at, v.interval.map_or(v.at, |w| w.0), v.interval.map_or(v.at, |w| w.1)]).chain([self.from]);
        let scale = if self.from == 0.0 { Scale::FromZero } else { Scale::Linear };
        let x = Axis::new(&self.measure, scale, ends, TICKS_BARS);
        let letters = values().map(|v| v.text.chars().count() + 1).max().unwrap_or(0) as f64;
        let shown = |v: &Value| {
            Some(Value { at: x.shown(v.at)?, text: v.text.clone(), interval: v.interval.and_then(|w| x.shown(w.0).zip(x.shown(w.1))) })
        };
        let series = |s: &BarSeries| BarSeries { values: s.values.iter().map(|v| v.as_ref().and_then(shown)).collect(), ..s.clone() };
        BarPlot {
            title: &self.title,
            from: x.shown(self.from).unwrap_or(x.lo),
            bar: BAR,
            name: BAR_NAME,
            pitch: BAR_NAME + BAR * self.series.len() as u32 + BAR_GAP,
            room: (letters * LETTER).ceil() as u32,
            names: &self.names,
            series: self.series.iter().map(series).collect(),
            x,
        }
    }
}

//! Charts: what is to be drawn; the data of it for the browser ([`live`]), and a static picture at two widths, for paper and where scripts are off.
//!
//! Owns: panels, series, legends; the layout inside of an SVG.
//! Invariants: everything lies inside of the view box; panels of one chart share their x axis; a series looks the same in all panels.
//! Never: knows what a run is.

pub mod axis;
pub mod live;
pub mod svg;

use axis::{Axis, Measure, Scale};
use plotters::chart::MeshStyle;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use svg::{FINE, Role, SERIES_MAX, Svg};

/// Points of one series in one chart; more are thinned out by whoever makes them.
pub const POINTS_MAX: usize = 400;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A line.
    Line,
    /// A line with a dot at each point.
    Dots,
    /// Dots alone.
    Marks,
    /// A filled area down to the axis.
    Area,
}

/// One series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// Its colour and dashes, 0 to [`SERIES_MAX`] - 1.
    pub look: u8,
    /// How it is drawn.
    pub shape: Shape,
    /// (x, y), ascending in x for lines.
    pub points: Vec<(f64, f64)>,
    /// (x, low, high): bars of uncertainty.
    pub whiskers: Vec<(f64, f64, f64)>,
}

impl Series {
    /// A series without uncertainty.
    pub fn new(name: impl Into<String>, look: u8, shape: Shape, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), look: look % SERIES_MAX, shape, points, whiskers: Vec::new() }
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
    /// Ticks of x at just these values.
    pub ticks: Vec<(f64, String)>,
    /// Shaded parts of x: the warm-up.
    pub bands: Vec<(f64, f64)>,
    /// Values of x that are marked.
    pub marks: Vec<f64>,
    /// The plots.
    pub panels: Vec<Panel>,
}

/// Sizes of one rendering, in units of the view box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Class of the element.
    pub class: &'static str,
    /// Width of the whole.
    pub width: u32,
    /// Height of one panel alone.
    pub single: u32,
    /// Height of one panel of several.
    pub stacked: u32,
    /// Size of letters.
    pub font: u32,
    /// Most ticks of x.
    pub x_ticks: usize,
}

/// For large screens and paper.
pub const WIDE: Layout = Layout { class: "wide", width: 900, single: 340, stacked: 170, font: 12, x_ticks: 10 };
/// For phones.
pub const NARROW: Layout = Layout { class: "narrow", width: 350, single: 270, stacked: 150, font: 12, x_ticks: 5 };

impl Layout {
    /// Width of a letter or figure, on average.
    pub fn letter(self) -> f64 {
        f64::from(self.font) * 0.62
    }
}

const LEFT: u32 = 62;
/// Half of the longest text of a tick, which ends where the axis does.
const RIGHT: u32 = 28;
const TOP: u32 = 12;
const X_LABELS: u32 = 20;
const X_TITLE: u32 = 20;

impl Chart {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        self.panels.iter().all(|p| p.series.iter().all(|s| s.points.is_empty()))
    }

    /// What a legend lists: (name, look), each once, in order. A single series needs none.
    pub fn legend(&self) -> Vec<(String, u8, Shape)> {
        let mut list: Vec<(String, u8, Shape)> = Vec::new();
        for s in self.panels.iter().flat_map(|p| &p.series).filter(|s| !s.points.is_empty()) {
            if !list.iter().any(|l| l.0 == s.name && l.1 == s.look) {
                list.push((s.name.clone(), s.look, s.shape));
            }
        }
        list
    }

    fn y_axis(&self, panel: &Panel) -> Axis {
        let values = panel.series.iter().flat_map(|s| s.points.iter().map(|p| p.1).chain(s.whiskers.iter().flat_map(|w| [w.1, w.2])));
        let most = if self.panels.len() == 1 { 7 } else { 5 };
        Axis::new(&panel.measure, panel.scale, values.chain(panel.rules.iter().copied()), most)
    }

    fn x_axis(&self, layout: Layout) -> Axis {
        let data = self.panels.iter().flat_map(|p| &p.series).flat_map(|s| s.points.iter().map(|q| q.0));
        let bands = self.bands.iter().flat_map(|b| [b.0, b.1]);
        let axis = Axis::new(&self.measure, self.scale, data.chain(bands), layout.x_ticks);
        let axis = if self.ticks.is_empty() || self.ticks.len() > layout.x_ticks { axis } else { axis.with_ticks(self.ticks.clone()) };
        axis.without_overlaps(f64::from(LEFT), f64::from(layout.width - RIGHT), f64::from(layout.width), layout.letter())
    }

    /// One SVG element.
    pub fn svg(&self, layout: Layout) -> String {
        let x = self.x_axis(layout);
        let panel = if self.panels.len() == 1 { layout.single } else { layout.stacked };
        let height = panel * self.panels.len() as u32 + X_TITLE;
        let mut body = String::new();
        {
            let root = Svg::new(layout.width, height, &mut body).into_drawing_area();
            let rows = root.split_by_breakpoints(
                [0i32; 0],
                (1..self.panels.len() as u32).map(|i| (i * panel * FINE as u32) as i32).collect::<Vec<_>>(),
            );
            for (i, (area, panel)) in rows.iter().zip(&self.panels).enumerate() {
                let last = i + 1 == self.panels.len();
                // Infallible: the backend writes to memory.
                let _ = self.draw(area, panel, &x, layout, last);
            }
        }
        svg::document(layout.class, layout.width, height, &self.title, &self.note, &body)
    }

    fn draw<'a>(
        &self,
        area: &DrawingArea<Svg<'a>, plotters::coord::Shift>,
        panel: &Panel,
        x: &Axis,
        layout: Layout,
        last: bool,
    ) -> Result<(), DrawingAreaErrorKind<std::convert::Infallible>> {
        let f = FINE as u32;
        let y = self.y_axis(panel);
        let color = Role::Text.color();
        let text = |size: u32| TextStyle::from(("sans-serif", f64::from(size * f))).color(&color);
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP * f)
            .margin_right(RIGHT * f)
            .margin_bottom(if last { 0 } else { 8 * f })
            .y_label_area_size(LEFT * f)
            .x_label_area_size(if last { (X_LABELS + X_TITLE) * f } else { X_LABELS * f })
            .build_cartesian_2d(x.clone(), y.clone())?;
        for (from, to) in &self.bands {
            chart.draw_series([Rectangle::new([(*from, y.lo), (*to, y.hi)], Role::Band.color().filled())])?;
        }
        let x_title = if last { &x.title } else { "" };
        plain(&mut chart.configure_mesh(), text(layout.font), (x.ticks.len(), x_title))
            .y_labels(y.ticks.len())
            .y_desc(y.title.clone())
            .draw()?;
        self.rules(&mut chart, panel, x, &y)?;
        for s in &panel.series {
            draw_series(&mut chart, s, x, &y)?;
        }
        Ok(())
    }

    fn rules<'a>(
        &self,
        chart: &mut Context<'_, 'a>,
        panel: &Panel,
        x: &Axis,
        y: &Axis,
    ) -> Result<(), DrawingAreaErrorKind<std::convert::Infallible>> {
        let rule = ShapeStyle { color: Role::Rule.color().into(), filled: false, stroke_width: FINE as u32 };
        for v in &panel.rules {
            chart.draw_series([PathElement::new(vec![(x.lo, *v), (x.hi, *v)], rule)])?;
        }
        for v in self.marks.iter().filter(|v| **v >= x.lo && **v <= x.hi) {
            chart.draw_series([PathElement::new(vec![(*v, y.lo), (*v, y.hi)], rule)])?;
        }
        Ok(())
    }
}

type Context<'c, 'a> = ChartContext<'c, Svg<'a>, Cartesian2d<Axis, Axis>>;

/// How grid, axes and their words look in every chart; `x`: labels of the horizontal axis, and its title.
fn plain<'m, 'a, 'b, 's>(
    mesh: &'m mut MeshStyle<'a, 'b, Axis, Axis, Svg<'s>>,
    text: TextStyle<'b>,
    x: (usize, &str),
) -> &'m mut MeshStyle<'a, 'b, Axis, Axis, Svg<'s>> {
    let line = |role: Role| ShapeStyle { color: role.color().into(), filled: false, stroke_width: FINE as u32 };
    mesh.bold_line_style(line(Role::Grid))
        .light_line_style(TRANSPARENT)
        .axis_style(line(Role::Axis))
        .set_all_tick_mark_size(4 * FINE as u32)
        .x_labels(x.0)
        .label_style(text.clone())
        .axis_desc_style(text)
        .x_desc(x.1)
}

fn draw_series(chart: &mut Context<'_, '_>, s: &Series, x: &Axis, y: &Axis) -> Result<(), DrawingAreaErrorKind<std::convert::Infallible>> {
    let color = Role::Series(s.look).color();
    let line = ShapeStyle { color: color.into(), filled: false, stroke_width: 2 * FINE as u32 };
    let shown = |v: f64, a: &Axis| v.is_finite() && (!a.log || v > 0.0);
    let points: Vec<(f64, f64)> = s.points.iter().copied().filter(|p| shown(p.0, x) && shown(p.1, y)).collect();
    if s.shape == Shape::Area && !points.is_empty() {
        chart.draw_series(AreaSeries::new(points.clone(), y.lo, color.mix(0.25)))?;
    }
    if s.shape != Shape::Marks && points.len() > 1 {
        chart.draw_series(LineSeries::new(points.clone(), line))?;
    }
    for (at, low, high) in s.whiskers.iter().filter(|w| shown(w.0, x) && shown(w.1, y) && shown(w.2, y)) {
        chart.draw_series([PathElement::new(vec![(*at, *low), (*at, *high)], line)])?;
    }
    if matches!(s.shape, Shape::Dots | Shape::Marks) || points.len() == 1 {
        chart.draw_series(points.iter().map(|p| Circle::new(*p, 4 * FINE, color.filled())))?;
    }
    Ok(())
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Where it ends.
    pub at: f64,
    /// What stands behind it.
    pub text: String,
    /// Its colour.
    pub look: u8,
    /// The ends of its uncertainty.
    pub interval: Option<(f64, f64)>,
}

/// Bars under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Above the bar.
    pub name: String,
    /// The bars, from above.
    pub values: Vec<Value>,
}

/// Bars lying on their side: name above, value at the end. Fits any width.
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
    /// The bars.
    pub bars: Vec<Bar>,
    /// (name, look) of the legend; empty: none.
    pub legend: Vec<(String, u8)>,
}

const BAR: i32 = 14;
const BAR_NAME: i32 = 20;
const BAR_GAP: i32 = 12;

impl Bars {
    /// One SVG element.
    pub fn svg(&self, layout: Layout) -> String {
        let rows: i32 = self.bars.iter().map(|b| BAR_NAME + BAR_GAP + BAR * b.values.len() as i32).sum();
        let height = rows as u32 + TOP + X_LABELS + X_TITLE;
        let mut body = String::new();
        // Infallible: the backend writes to memory.
        let _ = self.draw(layout, rows, Svg::new(layout.width, height, &mut body).into_drawing_area());
        svg::document(layout.class, layout.width, height, &self.title, &self.note, &body)
    }

    fn draw(
        &self,
        layout: Layout,
        rows: i32,
        root: DrawingArea<Svg<'_>, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::convert::Infallible>> {
        let f = FINE as u32;
        let letter = layout.letter();
        let wide = f64::from(layout.width - 2 * RIGHT);
        let values = || self.bars.iter().flat_map(|b| &b.values);
        let ends = || values().flat_map(|v| [v.at, v.interval.map_or(v.at, |w| w.0), v.interval.map_or(v.at, |w| w.1)]).chain([self.from]);
        // Room for the values' texts behind the longest bar.
        let (low, high) = ends().fold((f64::INFINITY, f64::NEG_INFINITY), |a, v| (a.0.min(v), a.1.max(v)));
        let letters = values().map(|v| v.text.chars().count() + 3).max().unwrap_or(0) as f64;
        let ends = ends().chain([low + (high - low) / (1.0 - letters * letter / wide).max(0.3)]);
        let scale = if self.from == 0.0 { Scale::FromZero } else { Scale::Linear };
        let x = Axis::new(&self.measure, scale, ends, layout.x_ticks.min(7));
        let edge = f64::from(RIGHT);
        let x = x.without_overlaps(edge, edge + wide, f64::from(layout.width), letter);
        let y = Axis { title: String::new(), lo: 0.0, hi: f64::from(rows), log: false, by: 1.0, ticks: Vec::new() };
        let color = Role::Text.color();
        let text = |v: VPos| TextStyle::from(("sans-serif", f64::from(layout.font * f))).color(&color).pos(Pos::new(HPos::Left, v));
        let mut chart = ChartBuilder::on(&root)
            .margin_top(TOP * f)
            .margin_right(RIGHT * f)
            .margin_left(RIGHT * f)
            .x_label_area_size((X_LABELS + X_TITLE) * f)
            .build_cartesian_2d(x.clone(), y)?;
        plain(&mut chart.configure_mesh(), text(VPos::Top), (x.ticks.len(), &x.title)).disable_y_mesh().y_labels(0).draw()?;
        let plot = chart.plotting_area();
        let mut top = rows;
        for bar in &self.bars {
            let room = (wide / letter) as usize;
            plot.draw(&Text::new(crate::report::text::short(&bar.name, room), (x.lo, f64::from(top)), text(VPos::Top)))?;
            top -= BAR_NAME;
            for Value { at: value, text: label, look, interval: whisker } in &bar.values {
                let color = Role::Series(*look).color();
                let (high, low) = (f64::from(top - 1), f64::from(top - BAR + 1));
                plot.draw(&Rectangle::new([(self.from, low), (*value, high)], color.filled()))?;
                let middle = f64::from(top) - f64::from(BAR) / 2.0;
                let mut end = value.max(self.from);
                if let Some((from, to)) = whisker {
                    let line = ShapeStyle { color: Role::Text.color().into(), filled: false, stroke_width: 15 };
                    plot.draw(&PathElement::new(vec![(*from, middle), (*to, middle)], line))?;
                    for at in [*from, *to] {
                        plot.draw(&PathElement::new(vec![(at, low + 2.0), (at, high - 2.0)], line))?;
                    }
                    end = end.max(*to);
                }
                let at = EmptyElement::at((end, middle));
                plot.draw(&(at + Text::new(label.clone(), (4 * FINE, 0), text(VPos::Center))))?;
                top -= BAR;
            }
            top -= BAR_GAP;
        }
        Ok(())
    }
}

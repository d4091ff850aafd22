//! The static picture of a chart, for paper and where scripts are off: SVG at two widths, whose colours are names of classes, so that one style sheet
//! paints it for light, dark and print.
//!
//! Owns: the layout inside of one `<svg>` element.
//! Invariants: it is well-formed whatever the texts are; everything lies inside of its view box.
//! Never: decides what is shown, or how it is called; a colour, a script, a reference to anything outside.

use super::axis::Axis;
use super::{BarPlot, Drawing, LETTER, Lines, Plot, Series, Shape};
use crate::report::text;
use std::fmt::Write as _;

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
}

/// For large screens and paper.
pub const WIDE: Layout = Layout { class: "wide", width: 900, single: 340, stacked: 170 };
/// For phones.
pub const NARROW: Layout = Layout { class: "narrow", width: 350, single: 270, stacked: 150 };

const LEFT: f64 = 62.0;
/// Half of the longest text of a tick, which ends where the axis does.
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const LABELS: f64 = 24.0;
const TITLE: f64 = 20.0;
const FONT: f64 = 12.0;
/// From a base line down to the middle of a figure, negative.
const MIDDLE: f64 = 0.36 * FONT;

/// Where the data of a plot lie.
struct Frame<'a> {
    x: &'a Axis,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame<'_> {
    fn right(&self) -> f64 {
        self.left + self.width
    }
    fn bottom(&self) -> f64 {
        self.top + self.height
    }
    fn across(&self, v: f64) -> f64 {
        self.left + self.x.place(v) * self.width
    }
    fn up(&self, y: &Axis, v: f64) -> f64 {
        self.bottom() - y.place(v) * self.height
    }
}

impl Drawing<'_> {
    /// One SVG element; `note` is for screen readers.
    pub fn svg(&self, layout: Layout, note: &str) -> String {
        let mut pen = Pen::default();
        let (title, height) = match self {
            Drawing::Lines(l) => (l.title, lines(&mut pen, l, layout)),
            Drawing::Bars(b) => (b.title, bars(&mut pen, b, layout)),
        };
        let Layout { class, width, .. } = layout;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" viewBox=\"0 0 {width} {height}\"><title>{}</title><desc>{}</desc>{}</svg>",
            escape(title),
            escape(note),
            pen.0
        )
    }
}

fn lines(pen: &mut Pen, l: &Lines, layout: Layout) -> f64 {
    let panel = f64::from(if l.panels.len() == 1 { layout.single } else { layout.stacked });
    let mut top = 0.0;
    for (n, plot) in l.panels.iter().enumerate() {
        let width = f64::from(layout.width) - LEFT - RIGHT;
        let frame = Frame { x: &l.x, left: LEFT, top: top + TOP, width, height: panel - TOP - LABELS };
        for (from, to) in &l.bands {
            pen.rect("f b", frame.across(*from), frame.top, frame.across(*to), frame.bottom());
        }
        y_axis(pen, &frame, &plot.y);
        x_axis(pen, &frame, f64::from(layout.width), n + 1 == l.panels.len());
        series(pen, &frame, plot);
        for v in &plot.rules {
            pen.path("l r", "", [(frame.left, frame.up(&plot.y, *v)), (frame.right(), frame.up(&plot.y, *v))]);
        }
        for v in &l.marks {
            pen.path("l r", "", [(frame.across(*v), frame.top), (frame.across(*v), frame.bottom())]);
        }
        top += panel;
    }
    top + TITLE
}

fn y_axis(pen: &mut Pen, frame: &Frame, y: &Axis) {
    for (v, name) in &y.ticks {
        let at = frame.up(y, *v);
        pen.path("l g", "", [(frame.left, at), (frame.right(), at)]);
        pen.text(frame.left - 6.0, at + MIDDLE, "end", name);
    }
    pen.path("l a", "", [(frame.left, frame.top), (frame.left, frame.bottom())]);
    pen.turned(FONT, frame.top + frame.height / 2.0, &y.title);
}

/// The horizontal axis of a picture so wide. A text without room gives way; its line stays.
fn x_axis(pen: &mut Pen, frame: &Frame, wide: f64, title: bool) {
    let mut free = 0.0;
    for (v, name) in &frame.x.ticks {
        let (at, half) = (frame.across(*v), name.chars().count() as f64 * LETTER / 2.0);
        pen.path("l g", "", [(at, frame.top), (at, frame.bottom() + 4.0)]);
        if at - half >= free && at + half <= wide {
            pen.text(at, frame.bottom() + 6.0 + FONT, "middle", name);
            free = at + half + LETTER;
        }
    }
    pen.path("l a", "", [(frame.left, frame.bottom()), (frame.right(), frame.bottom())]);
    if title {
        pen.text(frame.left + frame.width / 2.0, frame.bottom() + LABELS + FONT, "middle", &frame.x.title);
    }
}

fn series(pen: &mut Pen, frame: &Frame, plot: &Plot) {
    for Series { look, shape, points, .. } in &plot.series {
        let places: Vec<(f64, f64)> = points.iter().map(|p| (frame.across(p.0), frame.up(&plot.y, p.1))).collect();
        if let (Shape::Area, Some(first), Some(last)) = (shape, places.first(), places.last()) {
            let ground = [(last.0, frame.bottom()), (first.0, frame.bottom())];
            pen.path(&format!("f s{look}"), " opacity=\"0.25\"", places.iter().copied().chain(ground));
        }
        pen.path(&format!("l s{look}"), "", places.iter().copied());
        if *shape == Shape::Dots || places.len() == 1 {
            places.iter().for_each(|p| pen.circle(&format!("f s{look}"), *p));
        }
    }
}

fn bars(pen: &mut Pen, b: &BarPlot, layout: Layout) -> f64 {
    let rows = f64::from(b.pitch) * b.names.len() as f64;
    let wide = f64::from(layout.width);
    let frame = Frame { x: &b.x, left: RIGHT, top: TOP, width: wide - RIGHT - RIGHT.max(f64::from(b.room)), height: rows };
    x_axis(pen, &frame, wide, true);
    for (n, name) in b.names.iter().enumerate() {
        let top = frame.top + f64::from(b.pitch) * n as f64;
        pen.text(frame.left, top + FONT, "start", &text::short(name, ((wide - 2.0 * RIGHT) / LETTER) as usize));
        for (k, s) in b.series.iter().enumerate() {
            let Some(value) = &s.values[n] else { continue };
            let top = top + f64::from(b.name) + f64::from(b.bar) * k as f64;
            let (from, to, middle) = (frame.across(b.from), frame.across(value.at), top + f64::from(b.bar) / 2.0);
            pen.rect(&format!("f s{}", s.look), from.min(to), top + 1.0, from.max(to), top + f64::from(b.bar) - 1.0);
            let mut end = from.max(to);
            if let Some((low, high)) = value.interval.map(|(low, high)| (frame.across(low), frame.across(high))) {
                pen.path("l t", "", [(low, middle), (high, middle)]);
                for at in [low, high] {
                    pen.path("l t", "", [(at, middle - 4.0), (at, middle + 4.0)]);
                }
                end = end.max(high);
            }
            pen.text(end + 4.0, middle + MIDDLE, "start", &value.text);
        }
    }
    frame.bottom() + LABELS + TITLE
}

/// What has been drawn.
#[derive(Default)]
struct Pen(String);

impl Pen {
    fn path(&mut self, class: &str, more: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let mut d = String::new();
        for (x, y) in points {
            let _ = write!(d, "{}{} {}", if d.is_empty() { 'M' } else { 'L' }, fine(x), fine(y));
        }
        let _ = write!(self.0, "<path d=\"{d}\" class=\"{class}\"{more}/>");
    }
    fn rect(&mut self, class: &str, left: f64, top: f64, right: f64, bottom: f64) {
        let (x, y, width, height) = (fine(left), fine(top), fine(right - left), fine(bottom - top));
        let _ = write!(self.0, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\"/>");
    }
    fn circle(&mut self, class: &str, (x, y): (f64, f64)) {
        let _ = write!(self.0, "<circle cx=\"{}\" cy=\"{}\" r=\"4\" class=\"{class}\"/>", fine(x), fine(y));
    }
    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let (x, y, text) = (fine(x), fine(y), escape(text));
        let _ = write!(self.0, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{FONT}\">{text}</text>");
    }
    /// A text from below to above.
    fn turned(&mut self, x: f64, y: f64, text: &str) {
        let (x, y, text) = (fine(x), fine(y), escape(text));
        let turn = format!("transform=\"rotate(270 {x} {y})\"");
        let _ = write!(self.0, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"{FONT}\" {turn}>{text}</text>");
    }
}

/// A position, without needless digits.
fn fine(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// A text for XML: no markup, nothing that XML has no place for.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if text::drawable(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

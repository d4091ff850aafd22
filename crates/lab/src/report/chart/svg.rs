//! Where `plotters` draws: SVG whose colours are names of classes, so that one style sheet paints it for light, dark and print.
//!
//! Owns: the text of one `<svg>` element.
//! Invariants: what it writes is well-formed whatever the texts are; positions are tenths of a unit of the view box, so that lines are smooth
//! though `plotters` counts in whole numbers.
//! Never: a colour, a script, a reference to anything outside.

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform};
use std::convert::Infallible;
use std::fmt::Write as _;

/// Drawing units in one unit of the view box.
pub const FINE: i32 = 10;

/// What a thing in a chart is; decides its colour by the class of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Texts that name something.
    Text,
    /// Lines of the grid.
    Grid,
    /// Lines of the axes.
    Axis,
    /// A shaded part, such as the warm-up.
    Band,
    /// A line that marks a value.
    Rule,
    /// Data, by number of its series.
    Series(u8),
}

/// Series that have a colour and line of their own.
pub const SERIES_MAX: u8 = 8;

impl Role {
    /// As the colour that `plotters` hands through.
    pub fn color(self) -> plotters::style::RGBColor {
        let code = match self {
            Role::Text => 1,
            Role::Grid => 2,
            Role::Axis => 3,
            Role::Band => 4,
            Role::Rule => 5,
            Role::Series(n) => 16 + n % SERIES_MAX,
        };
        plotters::style::RGBColor(0, 0, code)
    }
    fn class(color: BackendColor) -> String {
        match color.rgb.2 {
            2 => "g".into(),
            3 => "a".into(),
            4 => "b".into(),
            5 => "r".into(),
            n @ 16.. => format!("s{}", n - 16),
            _ => "t".into(),
        }
    }
}

/// One SVG in the making.
pub struct Svg<'a> {
    width: u32,
    height: u32,
    body: &'a mut String,
}

impl<'a> Svg<'a> {
    /// `width` and `height` in units of the view box; what is drawn is added to `body`.
    pub fn new(width: u32, height: u32, body: &'a mut String) -> Svg<'a> {
        Svg { width, height, body }
    }

    fn shape(&mut self, element: &str, style: &impl BackendStyle, filled: bool) {
        let color = style.color();
        let kind = if filled { "f" } else { "l" };
        let _ = write!(self.body, "{element} class=\"{kind} {}\"", Role::class(color));
        if color.alpha < 0.999 {
            let _ = write!(self.body, " opacity=\"{:.2}\"", color.alpha);
        }
        if !filled && style.stroke_width() != FINE as u32 {
            let _ = write!(self.body, " stroke-width=\"{}\"", fine(style.stroke_width() as i32));
        }
        self.body.push_str("/>");
    }
}

/// The whole element, with what screen readers read out.
pub fn document(class: &str, width: u32, height: u32, title: &str, description: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" viewBox=\"0 0 {width} {height}\"><title>{}</title><desc>{}</desc>{body}</svg>",
        escape(title),
        escape(description)
    )
}

/// A text for XML: no markup, nothing that XML has no place for.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if super::super::text::drawable(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

/// A position in units of the view box, without needless digits.
fn fine(v: i32) -> String {
    if v % FINE == 0 { (v / FINE).to_string() } else { format!("{:.1}", f64::from(v) / f64::from(FINE)) }
}

fn path(points: impl IntoIterator<Item = BackendCoord>) -> String {
    let mut d = String::new();
    let mut last = None;
    for (x, y) in points {
        if last == Some((x, y)) {
            continue;
        }
        d.push_str(if last.is_none() { "M" } else { "L" });
        let _ = write!(d, "{} {}", fine(x), fine(y));
        last = Some((x, y));
    }
    d
}

impl DrawingBackend for Svg<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.width * FINE as u32, self.height * FINE as u32)
    }
    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }
    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }
    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Result<(), DrawingErrorKind<Infallible>> {
        self.draw_rect(point, (point.0 + FINE, point.1 + FINE), &color, true)
    }
    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Result<(), DrawingErrorKind<Infallible>> {
        self.draw_path([from, to], style)
    }
    fn draw_rect<S: BackendStyle>(
        &mut self,
        a: BackendCoord,
        b: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        if style.color().alpha > 0.0 {
            let (x, y) = (a.0.min(b.0), a.1.min(b.1));
            let element = format!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
                fine(x),
                fine(y),
                fine(a.0.max(b.0) - x),
                fine(a.1.max(b.1) - y)
            );
            self.shape(&element, style, fill);
        }
        Ok(())
    }
    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        if style.color().alpha > 0.0 {
            let d = path(points);
            if !d.is_empty() {
                self.shape(&format!("<path d=\"{d}\""), style, false);
            }
        }
        Ok(())
    }
    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        if style.color().alpha > 0.0 {
            let element = format!("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"", fine(center.0), fine(center.1), fine(radius as i32));
            self.shape(&element, style, fill);
        }
        Ok(())
    }
    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        if style.color().alpha > 0.0 {
            let d = path(points);
            if !d.is_empty() {
                self.shape(&format!("<path d=\"{d}Z\""), style, true);
            }
        }
        Ok(())
    }
    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, pos: BackendCoord) -> Result<(), DrawingErrorKind<Infallible>> {
        if style.color().alpha <= 0.0 || text.is_empty() {
            return Ok(());
        }
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        let size = style.size() / f64::from(FINE);
        // Half of the height of a figure lies about 0.36 of the size above the base line.
        let down = match style.anchor().v_pos {
            VPos::Top => 0.74,
            VPos::Center => 0.36,
            VPos::Bottom => -0.2,
        } * style.size();
        let (x, y) = pos;
        match style.transform() {
            FontTransform::None => {
                let _ = write!(
                    self.body,
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{size}\">",
                    fine(x),
                    fine(y + down.round() as i32)
                );
            }
            turned => {
                let (angle, dx) = match turned {
                    FontTransform::Rotate90 => (90, -down),
                    FontTransform::Rotate180 => (180, 0.0),
                    _ => (270, down),
                };
                let (x, y) = (fine(x + dx.round() as i32), fine(y));
                let _ = write!(
                    self.body,
                    "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\" transform=\"rotate({angle} {x} {y})\">"
                );
            }
        }
        self.body.push_str(&escape(text));
        self.body.push_str("</text>");
        Ok(())
    }
    fn estimate_text_size<T: BackendTextStyle>(&self, text: &str, style: &T) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        // No fonts here: the mean width of figures and letters of usual sans-serif faces.
        let width = text.chars().count() as f64 * style.size() * 0.58;
        Ok((width.ceil() as u32, style.size().ceil() as u32))
    }
}

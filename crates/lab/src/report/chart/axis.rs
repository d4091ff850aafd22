//! Axes: from what data there is to a range with ticks at round numbers.
//!
//! Invariants: all data of a finite range lie on the axis; ticks are round, ascending, and no more than there is room for.
//! Never: a tick without its unit being named in the axis's title.

use crate::report::text::{self, LatencyUnit};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// What an axis measures; decides unit, title and ticks.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// Operations a second; which, when that is not plain.
    Iops(&'static str),
    /// MiB a second.
    MibS,
    /// Latency, data in microseconds; which, when that is not plain, and the report's unit.
    Latency(&'static str, LatencyUnit),
    /// Time, data in seconds.
    Time,
    /// Shares 0 to 1, shown as percent.
    Percent(&'static str),
    /// Slowness rank: data are 1 / (1 - percentile), so 100 is the 99th percentile.
    Percentile,
    /// A number with a title of its own; data in this unit.
    Plain(String),
    /// Bytes: ticks in KiB, MiB and so on.
    Bytes(String),
}

/// How values are laid on the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0.
    FromZero,
    /// From the smallest value.
    Linear,
    /// Logarithmic; values at or below 0 are left out.
    Log,
}

/// An axis ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// With the unit.
    pub title: String,
    /// Smallest value.
    pub lo: f64,
    /// Largest value.
    pub hi: f64,
    /// Logarithmic.
    pub log: bool,
    /// A value is divided by this before it is shown.
    pub by: f64,
    /// (value, its text), ascending.
    pub ticks: Vec<(f64, String)>,
}

/// Round steps: 1, 2, 5 and their decimal multiples; the smallest of them that needs at most `max` ticks over `span`.
fn round_step(span: f64, max: usize) -> f64 {
    let raw = span / max.max(1) as f64;
    let ten = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * ten).find(|s| *s >= raw * 0.999_999).unwrap_or(ten * 10.0)
}

/// Round steps of time in seconds, so that minutes and hours come out whole.
fn time_step(span: f64, max: usize) -> f64 {
    const STEPS: [f64; 19] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0,
        172_800.0,
    ];
    let raw = span / max.max(1) as f64;
    if raw <= 0.5 {
        round_step(span, max)
    } else {
        STEPS.iter().copied().find(|s| *s >= raw * 0.999_999).unwrap_or_else(|| round_step(span, max))
    }
}

fn multiples(lo: f64, hi: f64, step: f64) -> Vec<f64> {
    let (first, last) = ((lo / step - 1e-9).ceil() as i64, (hi / step + 1e-9).floor() as i64);
    (first..=last).take(64).map(|i| i as f64 * step).collect()
}

/// Ticks of a logarithmic axis: 1, 2 and 5 of each decade, or whole decades, or some of them.
fn log_ticks(lo: f64, hi: f64, max: usize) -> Vec<f64> {
    let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
    let within = |v: &f64| *v >= lo * 0.999_999 && *v <= hi * 1.000_001;
    for multiples in [&[1.0, 2.0, 3.0, 5.0, 7.0][..], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]] {
        let ticks: Vec<f64> = (first..=last).flat_map(|e| multiples.iter().map(move |m| m * 10f64.powi(e))).filter(within).collect();
        if ticks.len() <= max {
            return ticks;
        }
    }
    let every = ((last - first) as usize).div_ceil(max.max(1)).max(1);
    (first..=last).step_by(every).map(|e| 10f64.powi(e)).filter(within).collect()
}

/// How a measure is shown when its largest value is `hi`: divisor and title.
fn unit(measure: &Measure, hi: f64) -> (f64, String) {
    match measure {
        Measure::Iops(which) => {
            let (divisor, title) = if hi >= 2e6 {
                (1e6, "million IOPS")
            } else if hi >= 2e4 {
                (1e3, "thousand IOPS")
            } else {
                (1.0, "IOPS")
            };
            (divisor, if which.is_empty() { title.into() } else { format!("{which}, {title}") })
        }
        Measure::MibS if hi >= 20_480.0 => (1024.0, "GiB/s".into()),
        Measure::MibS => (1.0, "MiB/s".into()),
        Measure::Latency(which, unit) => {
            let space = if which.is_empty() { "" } else { " " };
            (unit.us(), format!("{which}{space}latency, {}", unit.name()))
        }
        Measure::Time if hi >= 4.0 * 3600.0 => (3600.0, "time, h".into()),
        Measure::Time if hi >= 600.0 => (60.0, "time, min".into()),
        Measure::Time => (1.0, "time, s".into()),
        Measure::Percent(title) => (0.01, format!("{title}, %")),
        Measure::Percentile => (1.0, "percentile of operations, %".into()),
        Measure::Plain(title) | Measure::Bytes(title) => (1.0, text::line(title)),
    }
}

fn tick_text(measure: &Measure, v: f64, divisor: f64) -> String {
    match measure {
        Measure::Percentile if v <= 1.0 => "0".into(),
        Measure::Percentile => {
            let digits = ((v.log10() - 2.0).round().max(0.0)) as usize;
            format!("{:.digits$}", 100.0 - 100.0 / v)
        }
        Measure::Bytes(_) => text::bytes(v),
        _ => plain(v / divisor),
    }
}

/// A round number without needless digits.
fn plain(v: f64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    let digits = (2 - v.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let mut t = format!("{v:.digits$}");
    if t.contains('.') {
        t.truncate(t.trim_end_matches('0').trim_end_matches('.').len());
    }
    let (int, frac) = t.split_once('.').map_or((t.as_str(), None), |(i, f)| (i, Some(f)));
    match (int.parse::<i64>(), frac) {
        (Ok(n), None) if n.abs() >= 1000 => {
            let sign = if n < 0 { "-" } else { "" };
            format!("{sign}{}", text::whole(n.unsigned_abs()))
        }
        _ => t,
    }
}

impl Axis {
    /// The axis for `values`, with at most `max` ticks.
    pub fn new(measure: &Measure, scale: Scale, values: impl IntoIterator<Item = f64>, max: usize) -> Axis {
        let log = scale == Scale::Log;
        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.into_iter().filter(|v| v.is_finite() && (!log || *v > 0.0)) {
            (lo, hi) = (lo.min(v), hi.max(v));
        }
        if lo > hi {
            (lo, hi) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if log { Axis::log(measure, lo, hi, max) } else { Axis::linear(measure, scale, lo, hi, max) }
    }

    fn linear(measure: &Measure, scale: Scale, lo: f64, hi: f64, max: usize) -> Axis {
        let lo = if scale == Scale::FromZero { lo.min(0.0) } else { lo };
        let hi = if hi > lo { hi } else { lo + if lo == 0.0 { 1.0 } else { lo.abs() } };
        let (divisor, title) = unit(measure, hi);
        let (step, tight) = match measure {
            Measure::Time => (time_step(hi - lo, max), true),
            Measure::Bytes(_) => (round_step(hi - lo, max), true),
            _ => (divisor * round_step((hi - lo) / divisor, max), false),
        };
        // A value axis ends on ticks; a time axis ends where the data ends.
        let (lo, hi) = if tight { (lo, hi) } else { ((lo / step + 1e-9).floor() * step, (hi / step - 1e-9).ceil() * step) };
        let ticks = multiples(lo, hi, step).into_iter().map(|v| (v, tick_text(measure, v, divisor))).collect();
        Axis { title, lo, hi, log: false, by: divisor, ticks }
    }

    fn log(measure: &Measure, lo: f64, hi: f64, max: usize) -> Axis {
        let (divisor, title) = unit(measure, hi);
        let (lo, hi) = match measure {
            Measure::Percentile => (lo, hi.max(lo * 10.0)),
            Measure::Plain(_) | Measure::Bytes(_) => (lo / 1.1, (hi * 1.1).max(lo * 1.3)),
            _ => (lo * 0.9, (hi * 1.1).max(lo * 2.0)),
        };
        let mut ticks = match measure {
            Measure::Percentile => {
                let all = [1.0, 2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
                all.into_iter().filter(|v| *v >= lo && *v <= hi * 1.000_001).collect()
            }
            Measure::Bytes(_) => powers_of_two(lo, hi, max),
            Measure::Plain(_) => {
                let twos = powers_of_two(lo, hi, max);
                if twos.len() >= 2 { twos } else { log_ticks(lo, hi, max) }
            }
            _ => log_ticks(lo / divisor, hi / divisor, max).into_iter().map(|v| v * divisor).collect(),
        };
        if ticks.len() < 2 {
            ticks = multiples(lo, hi, round_step(hi - lo, max));
        }
        let ticks = ticks.into_iter().map(|v| (v, tick_text(measure, v, divisor))).collect();
        Axis { title, lo, hi, log: true, by: divisor, ticks }
    }

    /// Puts ticks at these values, for few and distinct parameters.
    #[must_use]
    pub fn with_ticks(mut self, ticks: Vec<(f64, String)>) -> Axis {
        self.ticks = ticks.into_iter().filter(|t| t.0 >= self.lo && t.0 <= self.hi).collect();
        self
    }

    /// Keeps the texts that have room on a horizontal axis from `from` to `to` of a picture so `wide`, each character taking `letter`; the lines
    /// of the others stay.
    #[must_use]
    pub fn without_overlaps(mut self, from: f64, to: f64, wide: f64, letter: f64) -> Axis {
        let mut free = 0.0;
        let places: Vec<f64> = self.ticks.iter().map(|t| from + self.place(t.0) * (to - from)).collect();
        for ((_, text), at) in self.ticks.iter_mut().zip(places) {
            let half = text.chars().count() as f64 * letter / 2.0;
            if at - half < free || at + half > wide {
                text.clear();
            } else {
                free = at + half + letter;
            }
        }
        self
    }

    /// Its text for a value that is one of its ticks.
    pub fn tick(&self, v: f64) -> String {
        self.ticks.iter().find(|t| t.0 == v).map_or_else(String::new, |t| t.1.clone())
    }

    /// Where a value lies, 0 to 1; kept on the axis.
    pub fn place(&self, v: f64) -> f64 {
        let t = if self.log { (v.max(self.lo) / self.lo).ln() / (self.hi / self.lo).ln() } else { (v - self.lo) / (self.hi - self.lo) };
        if t.is_finite() { t.clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn powers_of_two(lo: f64, hi: f64, max: usize) -> Vec<f64> {
    let (first, last) = (lo.log2().ceil() as i32, hi.log2().floor() as i32);
    if first > last {
        return Vec::new();
    }
    let every = ((last - first + 1) as usize).div_ceil(max.max(1)).max(1);
    (first..=last).step_by(every).map(|e| 2f64.powi(e)).collect()
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.place(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }
    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.ticks.iter().map(|t| t.0).collect()
    }
    fn range(&self) -> Range<f64> {
        self.lo..self.hi
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.tick(*value)
    }
}

#[cfg(test)]
#[path = "axis_tests.rs"]
mod tests;

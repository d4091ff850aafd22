//! Axes: from what data there is to a range with ticks at round numbers, in the unit that is shown.
//!
//! Invariants: all data of a finite range lie on the axis; ticks are round, ascending, and no more than there is room for.
//! Never: a tick without its unit being named in the axis's title.

use crate::report::text::{self, LatencyUnit};
use serde::Serialize;

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

/// An axis ready to be drawn. All but `by` is in the unit that is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// With the unit.
    pub title: String,
    /// Smallest value.
    pub lo: f64,
    /// Largest value.
    pub hi: f64,
    /// Logarithmic.
    pub log: bool,
    /// Its values are those of [`Measure::Percentile`].
    pub percentile: bool,
    /// (value, its text), ascending.
    pub ticks: Vec<(f64, String)>,
    /// Its ticks are all the values that there are, with names of their own.
    pub named: bool,
    /// Data are divided by this to be in the unit that is shown.
    #[serde(skip)]
    pub by: f64,
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
        Measure::Plain(title) => (1.0, text::line(title)),
    }
}

fn tick_text(measure: &Measure, v: f64) -> String {
    match measure {
        Measure::Percentile if v <= 1.0 => "0".into(),
        Measure::Percentile => {
            let digits = ((v.log10() - 2.0).round().max(0.0)) as usize;
            format!("{:.digits$}", 100.0 - 100.0 / v)
        }
        _ => plain(v),
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
        let (by, title) = unit(measure, hi);
        let (lo, hi) = (lo / by, hi / by);
        let (lo, hi, ticks) = if log { Axis::log(measure, lo, hi, max) } else { Axis::linear(measure, scale, by, lo, hi, max) };
        let ticks = ticks.into_iter().map(|v| (v, tick_text(measure, v))).collect();
        Axis { title, lo, hi, log, percentile: *measure == Measure::Percentile, ticks, named: false, by }
    }

    fn linear(measure: &Measure, scale: Scale, by: f64, lo: f64, hi: f64, max: usize) -> (f64, f64, Vec<f64>) {
        let lo = if scale == Scale::FromZero { lo.min(0.0) } else { lo };
        let hi = if hi > lo { hi } else { lo + if lo == 0.0 { 1.0 } else { lo.abs() } };
        if *measure == Measure::Time {
            // A time axis ends where the data ends.
            return (lo, hi, multiples(lo, hi, time_step((hi - lo) * by, max) / by));
        }
        let step = round_step(hi - lo, max);
        let (lo, hi) = ((lo / step + 1e-9).floor() * step, (hi / step - 1e-9).ceil() * step);
        (lo, hi, multiples(lo, hi, step))
    }

    fn log(measure: &Measure, lo: f64, hi: f64, max: usize) -> (f64, f64, Vec<f64>) {
        let (lo, hi) = match measure {
            Measure::Percentile => (lo, hi.max(lo * 10.0)),
            Measure::Plain(_) => (lo / 1.1, (hi * 1.1).max(lo * 1.3)),
            _ => (lo * 0.9, (hi * 1.1).max(lo * 2.0)),
        };
        let ticks = match measure {
            Measure::Percentile => {
                [1.0, 2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6].into_iter().filter(|v| *v >= lo && *v <= hi * 1.000_001).collect()
            }
            _ => log_ticks(lo, hi, max),
        };
        let ticks = if ticks.len() < 2 { multiples(lo, hi, round_step(hi - lo, max)) } else { ticks };
        (lo, hi, ticks)
    }

    /// Puts ticks at these values, each with its name: parameters, of which there are few.
    #[must_use]
    pub fn with_names(mut self, ticks: Vec<(f64, String)>) -> Axis {
        self.ticks = ticks.into_iter().filter(|t| t.0 >= self.lo && t.0 <= self.hi).collect();
        self.named = true;
        self
    }

    /// A value of the data in the unit that is shown, to the digits that anybody can see; none, where the axis has no place for it.
    pub fn shown(&self, v: f64) -> Option<f64> {
        (v.is_finite() && (!self.log || v > 0.0)).then(|| {
            let short = format!("{:.6e}", v / self.by).parse().unwrap_or(0.0);
            // The outermost values lie on the ends of some axes.
            f64::clamp(short, self.lo, self.hi)
        })
    }

    /// Where a shown value lies, 0 to 1; kept on the axis.
    pub fn place(&self, v: f64) -> f64 {
        let t = if self.log { (v.max(self.lo) / self.lo).ln() / (self.hi / self.lo).ln() } else { (v - self.lo) / (self.hi - self.lo) };
        if t.is_finite() { t.clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
#[path = "axis_tests.rs"]
mod tests;

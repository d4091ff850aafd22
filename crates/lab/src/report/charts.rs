//! Which charts a run has, and what is drawn in them.
//!
//! Invariants: a chart shows no more series than have looks of their own: those that the verdict speaks of; it says what it leaves out; long times are thinned out so that a
//! stall stays visible (largest p99, longest operation).
//! Never: draws.

use crate::measure::{BEYOND, Latency, Second};
use crate::report::analysis::{Analysis, Beside, LOAD_LABELS, REQUESTED};
use crate::report::caveats::P99_OPERATIONS;
use crate::report::chart::axis::{Measure, Scale};
use crate::report::chart::{BarSeries, Bars, Chart, POINTS_MAX, Panel, Picture, SERIES_MAX, Series, Shape, Value};
use crate::report::compare::Comparison;
use crate::report::load::Loaded;
use crate::report::text::{self, LatencyUnit, number};
use crate::results::{Measured, RunKind};

/// Bars of one chart.
const BARS_MAX: usize = 24;
/// Series that are named as left out.
const LEFT_OUT_NAMED: usize = 4;
/// Sizes of operations that differ by more are not compared in operations alone.
const SIZES_ALIKE: f64 = 2.5;
/// Charts of one kind, when a run has many parameters or curves.
const CHARTS_MAX: usize = 6;

fn panel(measure: Measure, scale: Scale, series: Vec<Series>) -> Panel {
    Panel { measure, scale, series, rules: Vec::new() }
}

fn chart(title: impl Into<String>, note: impl Into<String>, measure: Measure, scale: Scale, panels: Vec<Panel>) -> Chart {
    Chart { title: title.into(), note: note.into(), measure, scale, names: Vec::new(), bands: Vec::new(), marks: Vec::new(), panels }
}

fn bars(name: impl Into<String>, look: u8, values: impl Iterator<Item = f64>) -> BarSeries {
    BarSeries { name: name.into(), look, values: values.map(|v| Some(Value { at: v, text: number(v), interval: None })).collect() }
}

/// The charts that stand before the single cases.
pub fn overview(run: &Loaded, a: &Analysis) -> Vec<Picture> {
    let mut list = Vec::new();
    if run.record.kind == RunKind::Compare {
        list.extend(compare(a).map(Picture::Bars));
    }
    list.extend(curves(a).into_iter().map(Picture::Chart));
    if run.record.kind != RunKind::Compare {
        let scaling = a.parameters.iter().filter(|p| p.numeric && p.key != "load" && p.values.len() > 1);
        list.extend(scaling.take(CHARTS_MAX).map(|p| Picture::Chart(scaling_chart(a, &p.key))));
    }
    if !list.iter().any(|p| matches!(p, Picture::Chart(_))) && run.record.kind != RunKind::Compare && a.cases.len() > 1 {
        list.extend(rates(a).into_iter().map(Picture::Bars));
    }
    if a.cases.len() > 1 {
        let (all, left_out) = shown(latencies(run, a), &a.verdict, |l| &l.0.values);
        let all = all.into_iter().map(|(c, latency)| (c.name, latency));
        list.push(Picture::Chart(percentiles("Latency percentiles of all cases", all, &left_out, a.unit)));
    }
    list.retain(|p| !p.is_empty());
    list
}

/// What a series is called, and the words by which a verdict speaks of it.
struct Called {
    name: String,
    values: Vec<String>,
}

impl Called {
    /// A case, or a group of cases, but for some labels.
    fn of(c: &crate::report::figures::Case, without: &[&str]) -> Called {
        let labels = c.labels.iter().filter(|l| !without.contains(&l.0.as_str()));
        let values = std::iter::once(c.workload.clone()).chain(labels.map(|l| l.1.clone())).collect();
        Called { name: c.group(without), values }
    }
}

/// The latencies of each case; of a comparison, those of all rounds of a system merged; of several cases of one name (windows of a maximum), the last.
fn latencies(run: &Loaded, a: &Analysis) -> Vec<(Called, Latency)> {
    let mut list: Vec<(Called, Latency)> = Vec::new();
    let compare = run.record.kind == RunKind::Compare;
    for ((_, m), c) in run.cases.iter().zip(&a.cases) {
        let called = Called::of(c, if compare { &["round"] } else { &[REQUESTED] });
        let latency = m.total().latency;
        match list.iter_mut().find(|l| l.0.name == called.name) {
            Some(l) if compare => l.1.merge(&latency),
            Some(l) => l.1 = latency,
            None => list.push((called, latency)),
        }
    }
    list
}

/// Of more series than there are looks for: those that the verdict speaks of, then others, evenly. And what to say of the rest.
fn shown<T>(all: Vec<T>, verdict: &[String], values: impl Fn(&T) -> &Vec<String>) -> (Vec<T>, String) {
    let most = usize::from(SERIES_MAX);
    if all.len() <= most {
        return (all, String::new());
    }
    let spoken_of = |t: &T| verdict.iter().map(|v| values(t).iter().filter(|x| v.contains(x.as_str())).count()).max().unwrap_or(0);
    let mut ranks: Vec<(usize, usize)> = all.iter().enumerate().map(|(i, t)| (spoken_of(t), i)).collect();
    ranks.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    // Those of the rank that has not room for all of its own are taken evenly.
    let last = ranks[most - 1].0;
    let (sure, even): (Vec<_>, Vec<_>) = ranks.into_iter().filter(|r| r.0 >= last).partition(|r| r.0 > last);
    let room = most - sure.len();
    let mut taken: Vec<usize> = sure.iter().map(|r| r.1).chain((0..room).map(|n| even[n * even.len() / room].1)).collect();
    taken.sort_unstable();
    let left: Vec<String> = all.iter().enumerate().filter(|(i, _)| !taken.contains(i)).map(|(_, t)| values(t).join(", ")).collect();
    let more = left.len().saturating_sub(LEFT_OUT_NAMED);
    let names = left.iter().take(LEFT_OUT_NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let note = format!(" Left out, for room: {names}{more}. The tables have all.");
    (all.into_iter().enumerate().filter(|(i, _)| taken.contains(i)).map(|(_, t)| t).collect(), note)
}

/// The charts of one case.
pub fn case(m: &Measured, unit: LatencyUnit) -> Vec<Picture> {
    let kinds = [("reads", &m.reads), ("writes", &m.writes), ("trims", &m.trims), ("flushes", &m.flushes)];
    let latencies: Vec<(String, Latency)> =
        kinds.iter().filter(|(_, f)| f.latency.count() > 0).map(|(n, f)| ((*n).to_string(), f.latency.clone())).collect();
    let mut list: Vec<Chart> = time(m, unit).into_iter().collect();
    list.push(percentiles("Latency percentiles", latencies.iter().cloned(), "", unit));
    list.push(histogram(&latencies, unit));
    list.into_iter().map(Picture::Chart).filter(|p| !p.is_empty()).collect()
}

/// Latency against throughput.
fn curves(a: &Analysis) -> Vec<Chart> {
    let curves = a.curves.iter().filter(|c| !c.points.is_empty());
    let curves: Vec<_> = curves.map(|c| (c, Called::of(&a.cases[c.points[0]], &LOAD_LABELS).values)).collect();
    if curves.is_empty() {
        return Vec::new();
    }
    let (curves, left_out) = shown(curves, &a.verdict, |c| &c.1);
    let curves: Vec<_> = curves.into_iter().map(|c| c.0).collect();
    let one = curves.len() == 1;
    let mut series = Vec::new();
    for (n, c) in curves.iter().enumerate() {
        let n = n as u8;
        let points = |f: &dyn Fn(&crate::report::figures::Case) -> Option<f64>| -> Vec<(f64, f64)> {
            c.points.iter().filter_map(|i| f(&a.cases[*i]).map(|y| (a.cases[*i].all.iops, y))).collect()
        };
        let p99 = points(&|c| c.all.p99_us());
        if one {
            series.push(Series::new("p50", 0, Shape::Dots, points(&|c| c.all.percentiles_us[0])));
            series.push(Series::new("mean", 2, Shape::Dots, points(&|c| c.all.mean_us)));
            series.push(Series::new("p99", 1, Shape::Dots, p99));
            series.push(Series::new("p99.9", 3, Shape::Dots, points(&|c| c.all.percentiles_us[3])));
        } else {
            series.push(Series::new(format!("{}: p99", c.group), n, Shape::Dots, p99));
        }
    }
    let knees = curves.iter().filter_map(|c| c.knee.as_ref().map(|(i, _)| a.cases[c.points[*i]].all.iops)).collect();
    let note = format!(
        "Each point is one requested rate, from the lowest to the highest; to the right is more work done, lower is quicker. \
         A vertical line marks the first rate that was not held (under 95 % delivered, or p99 more than doubled).{left_out}"
    );
    let mut first = chart(
        "Latency against throughput",
        note,
        Measure::Iops(""),
        Scale::FromZero,
        vec![panel(Measure::Latency("", a.unit), Scale::Log, series)],
    );
    first.marks = knees;
    let delivered: Vec<Series> = curves
        .iter()
        .enumerate()
        .map(|(n, c)| {
            let points = c.points.iter().filter_map(|i| a.cases[*i].requested_iops.zip(a.cases[*i].delivered()));
            Series::new(c.group.clone(), n as u8, Shape::Dots, points.collect())
        })
        .collect();
    let mut second = chart(
        "Delivered share of the requested rate",
        "At 100 % everything that was asked for was done. The line at 95 % is where a rate counts as held.",
        Measure::Iops("requested"),
        Scale::FromZero,
        vec![panel(Measure::Percent("delivered"), Scale::FromZero, delivered)],
    );
    second.panels[0].rules = vec![0.95];
    vec![first, second]
}

/// A figure over a numeric parameter.
fn scaling_chart(a: &Analysis, key: &str) -> Chart {
    let groups: Vec<_> = a.series_over(key).into_iter().filter(|g| g.1.len() > 1).collect();
    let called = |g: &(String, Vec<(f64, usize)>)| Called::of(&a.cases[g.1[0].1], &[key]).values;
    let groups: Vec<_> = groups.into_iter().map(|g| (called(&g), g)).collect();
    let (groups, left_out) = shown(groups, &a.verdict, |g| &g.0);
    let groups: Vec<_> = groups.into_iter().map(|g| g.1).collect();
    let of = |f: &dyn Fn(&crate::report::figures::Case) -> Option<f64>| -> Vec<Series> {
        groups
            .iter()
            .enumerate()
            .map(|(n, (name, points))| {
                Series::new(
                    name.clone(),
                    n as u8,
                    Shape::Dots,
                    points.iter().filter_map(|(v, i)| f(&a.cases[*i]).map(|y| (*v, y))).collect(),
                )
            })
            .collect()
    };
    let mut values: Vec<(f64, String)> =
        groups.iter().flat_map(|g| &g.1).map(|(v, i)| (*v, a.cases[*i].label(key).unwrap_or_default().to_string())).collect();
    values.sort_by(|x, y| x.0.total_cmp(&y.0));
    values.dedup_by(|x, y| x.0 == y.0);
    let (low, high) = (values.first().map_or(0.0, |v| v.0), values.last().map_or(0.0, |v| v.0));
    let scale = if low > 0.0 && high / low >= 8.0 { Scale::Log } else { Scale::FromZero };
    let panels = vec![
        panel(Measure::Iops(""), Scale::FromZero, of(&|c| Some(c.all.iops))),
        panel(Measure::MibS, Scale::FromZero, of(&|c| Some(c.all.mib_s))),
        panel(Measure::Latency("p99", a.unit), Scale::Log, of(&|c| c.all.p99_us())),
    ];
    let note = format!("Each line joins cases that differ only in {key}: operations, data, and p99 of the latency.{left_out}");
    let mut chart = chart(format!("Scaling with {key}"), note, Measure::Plain(key.into()), scale, panels);
    chart.names = values;
    chart
}

/// Operations of all cases as bars; and data, where sizes differ so that operations do not compare.
fn rates(a: &Analysis) -> Vec<Bars> {
    let more = a.cases.len().saturating_sub(BARS_MAX);
    let note = if more > 0 { format!("The first {BARS_MAX} cases; the tables have all.") } else { String::new() };
    let names: Vec<String> = a.cases.iter().take(BARS_MAX).map(|c| c.name.clone()).collect();
    let chart = |title: &str, measure, look, unit, f: &dyn Fn(&crate::report::figures::Case) -> f64| Bars {
        title: title.into(),
        note: note.clone(),
        measure,
        from: 0.0,
        names: names.clone(),
        series: vec![bars(unit, look, a.cases.iter().take(BARS_MAX).map(f))],
    };
    let sizes = a.cases.iter().filter(|c| c.all.operations > 0).map(|c| c.all.bytes as f64 / c.all.operations as f64);
    let (least, most) = sizes.fold((f64::INFINITY, 0.0f64), |(l, m), b| (l.min(b), m.max(b)));
    let mut list = vec![chart("Operations a second", Measure::Iops(""), 0, "IOPS", &|c| c.all.iops)];
    if most > least * SIZES_ALIKE {
        list.push(chart("Data a second", Measure::MibS, 2, "MiB/s", &|c| c.all.mib_s));
    }
    list
}

/// B against A with intervals: rates, then ratios.
fn compare(a: &Analysis) -> impl Iterator<Item = Bars> + use<> {
    let list = &a.comparisons;
    let Some(first) = list.first() else { return Vec::new().into_iter() };
    let shown = || list.iter().take(BARS_MAX / 2);
    let names: Vec<String> = shown().map(|c| c.group.clone()).collect();
    let rates = |i: usize, name: &str| {
        let one = |c: &Comparison| {
            let (mean, half) = c.iops[i];
            let text = half.map_or_else(|| number(mean), |h| format!("{} ± {}", number(mean), number(h)));
            Some(Value { at: mean, text, interval: half.map(|h| (mean - h, mean + h)) })
        };
        BarSeries { name: name.into(), look: i as u8, values: shown().map(one).collect() }
    };
    let mut figures: Vec<&str> = Vec::new();
    for r in shown().flat_map(|c| &c.ratios) {
        if !figures.contains(&r.figure) {
            figures.push(r.figure);
        }
    }
    let ratios = |(n, figure): (usize, &&str)| {
        let one = |c: &Comparison| {
            let r = c.ratios.iter().find(|r| r.figure == *figure)?;
            Some(Value { at: r.ratio, text: text::change(r.ratio - 1.0), interval: r.interval })
        };
        // Other colours than those of the systems.
        BarSeries { name: (*figure).into(), look: n as u8 + 2, values: shown().map(one).collect() }
    };
    vec![
        Bars {
            title: "Operations a second of both systems".into(),
            note: "Bars are means over the rounds; the thin lines are 95 % confidence intervals of the means.".into(),
            measure: Measure::Iops(""),
            from: 0.0,
            names: names.clone(),
            series: vec![rates(0, &first.names.0), rates(1, &first.names.1)],
        },
        Bars {
            title: format!("{} divided by {}", first.names.1, first.names.0),
            note: "1 is no difference. A thin line, the 95 % confidence interval, that crosses 1 means that no difference is shown. \
                   More IOPS is better, more latency is worse."
                .into(),
            measure: Measure::Plain("ratio".into()),
            from: 1.0,
            names,
            series: figures.iter().enumerate().map(ratios).collect(),
        },
    ]
    .into_iter()
}

/// Ours beside others', a chart for each figure.
pub fn beside(list: &[Beside], ours: &str, theirs: &str) -> Vec<Bars> {
    let mut figures: Vec<&str> = Vec::new();
    for b in list.iter().filter(|b| b.ratio.is_some()) {
        if !figures.contains(&b.figure.as_str()) {
            figures.push(&b.figure);
        }
    }
    figures
        .into_iter()
        .take(CHARTS_MAX)
        .map(|figure| {
            let both = || list.iter().filter(|b| b.figure == figure).filter_map(|b| b.ours.map(|o| (b, o))).take(BARS_MAX / 2);
            let measure = match figure {
                "IOPS" => Measure::Iops(""),
                "MiB/s" => Measure::MibS,
                other => Measure::Plain(other.into()),
            };
            Bars {
                title: format!("{figure}: {ours} beside {theirs}"),
                note: String::new(),
                measure,
                from: 0.0,
                names: both().map(|(b, _)| b.case.clone()).collect(),
                series: vec![bars(ours, 0, both().map(|b| b.1)), bars(theirs, 1, both().map(|b| b.0.theirs))],
            }
        })
        .collect()
}

/// Percentile curves.
fn percentiles(title: &str, latencies: impl Iterator<Item = (String, Latency)>, left_out: &str, unit: LatencyUnit) -> Chart {
    let mut series = Vec::new();
    for (name, l) in latencies.filter(|l| l.1.count() > 0) {
        if series.len() < usize::from(SERIES_MAX) {
            // As far as ten operations lie beyond; beyond one in a million nobody reads a line.
            let count = (l.count() as f64 / BEYOND).clamp(1.0, 1e6);
            // 24 points a decade of slowness.
            let steps = (count.log10() * 24.0).ceil() as i32;
            let mut points: Vec<(f64, f64)> = (0..=steps)
                .map(|i| 10f64.powf(f64::from(i) / 24.0).min(count))
                .map(|x| (x, l.percentile_ns(100.0 - 100.0 / x) as f64 / 1e3))
                .collect();
            points.dedup_by(|a, b| a.0 == b.0);
            series.push(Series::new(name, series.len() as u8, Shape::Line, points));
        }
    }
    let note = format!(
        "How long the slowest operations took: at 99 % one operation in a hundred took longer. Both axes are logarithmic. \
         A line ends where fewer than ten operations took longer.{left_out}"
    );
    chart(title, note, Measure::Percentile, Scale::Log, vec![panel(Measure::Latency("", unit), Scale::Log, series)])
}

/// Shares of operations by latency.
fn histogram(latencies: &[(String, Latency)], unit: LatencyUnit) -> Chart {
    const BINS_A_DECADE: f64 = 20.0;
    let series = latencies
        .iter()
        .enumerate()
        .map(|(n, (name, l))| {
            let mut bins = std::collections::BTreeMap::<i64, u64>::new();
            for (ns, count) in l.buckets() {
                *bins.entry(((ns.max(1) as f64 / 1e3).log10() * BINS_A_DECADE).floor() as i64).or_default() += count;
            }
            let edge = |i: i64| 10f64.powf(i as f64 / BINS_A_DECADE);
            let mut points = Vec::new();
            if let (Some(first), Some(last)) = (bins.keys().next().copied(), bins.keys().last().copied()) {
                points.push((edge(first), 0.0));
                for i in first..=last {
                    let share = bins.get(&i).copied().unwrap_or(0) as f64 / l.count() as f64;
                    points.extend([(edge(i), share), (edge(i + 1), share)]);
                }
                points.push((edge(last + 1), 0.0));
            }
            Series::new(name.clone(), n as u8, Shape::Area, points)
        })
        .collect();
    chart(
        "Latency histogram",
        "Share of the operations of each kind by latency, twenty steps a decade.",
        Measure::Latency("", unit),
        Scale::Log,
        vec![panel(Measure::Percent("operations"), Scale::FromZero, series)],
    )
}

/// Several seconds as one point.
struct TimeSpan<'a>(&'a [Second]);

impl TimeSpan<'_> {
    fn at(&self) -> f64 {
        self.0[0].at_s
    }
    fn mean(&self, f: impl Fn(&Second) -> f64) -> f64 {
        self.0.iter().map(f).sum::<f64>() / self.0.len() as f64
    }
    fn middle(&self, f: impl Fn(&Second) -> f64) -> f64 {
        let mut v: Vec<f64> = self.0.iter().map(f).collect();
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    }
    fn largest(&self, f: impl Fn(&Second) -> f64) -> f64 {
        self.0.iter().map(f).fold(0.0, f64::max)
    }
    /// Whether each of its seconds has so many operations.
    fn known(&self, operations: u64) -> bool {
        self.0.iter().all(|s| s.reads + s.writes >= operations)
    }
    fn target(&self, f: impl Fn(&crate::measure::TargetSecond) -> f64) -> Option<f64> {
        let v: Vec<f64> = self.0.iter().filter_map(|s| s.target.as_ref()).map(f).collect();
        (!v.is_empty()).then(|| v.iter().sum::<f64>() / v.len() as f64)
    }
}

/// What happened when: rates, data, latency and, where the target reported it, its buffer.
fn time(m: &Measured, unit: LatencyUnit) -> Option<Chart> {
    if m.seconds.len() < 2 {
        return None;
    }
    let width = m.seconds.len().div_ceil(POINTS_MAX);
    let slots: Vec<TimeSpan> = m.seconds.chunks(width).map(TimeSpan).collect();
    let line = |name: &str, look: u8, f: &dyn Fn(&TimeSpan) -> f64| {
        Series::new(name, look, Shape::Line, slots.iter().map(|s| (s.at(), f(s))).collect())
    };
    let some = |name: &str, look: u8, f: &dyn Fn(&TimeSpan) -> Option<f64>| {
        Series::new(name, look, Shape::Line, slots.iter().filter_map(|s| f(s).map(|y| (s.at(), y))).collect())
    };
    const MIB: f64 = 1_048_576.0;
    let mut panels = vec![
        panel(
            Measure::Iops(""),
            Scale::FromZero,
            vec![line("reads", 0, &|s| s.mean(|x| x.reads as f64)), line("writes", 1, &|s| s.mean(|x| x.writes as f64))],
        ),
        panel(
            Measure::MibS,
            Scale::FromZero,
            vec![
                line("reads", 0, &|s| s.mean(|x| x.read_bytes as f64 / MIB)),
                line("writes", 1, &|s| s.mean(|x| x.written_bytes as f64 / MIB)),
                some("destaged by the target", 3, &|s| s.target(|t| t.destaged_bytes / MIB)),
            ],
        ),
        panel(
            Measure::Latency("", unit),
            Scale::Log,
            vec![
                line("p50", 2, &|s| s.middle(|x| x.p50_us)),
                some("p99", 4, &|s| s.known(P99_OPERATIONS).then(|| s.largest(|x| x.p99_us))),
                line("longest", 5, &|s| s.largest(|x| x.max_us)),
            ],
        ),
    ];
    if m.seconds.iter().any(|s| s.target.is_some()) {
        let mut fill = panel(
            Measure::Percent("write buffer"),
            Scale::FromZero,
            vec![some("buffer fill of the target", 6, &|s| s.target(|t| t.buffer_fill))],
        );
        // The whole range, so that charts can be compared.
        fill.rules = vec![1.0];
        panels.push(fill);
    }
    // A kind that never occurs needs no line.
    for p in &mut panels {
        if p.series.iter().any(|s| s.points.iter().any(|q| q.1 > 0.0)) {
            p.series.retain(|s| s.points.iter().any(|q| q.1 > 0.0));
        }
    }
    let how = if width > 1 {
        format!("Each point stands for {width} seconds: rates are their mean, p50 the middle one, p99 and longest the largest.")
    } else {
        "One point a second.".into()
    };
    let warm = m.seconds.iter().any(|s| s.at_s < 0.0);
    let note = if warm { format!("{how} The shaded part is the warm-up, which does not count.") } else { how };
    let mut c = chart("What happened when", note, Measure::Time, Scale::Linear, panels);
    if warm {
        c.bands = vec![(m.seconds[0].at_s, 0.0)];
    }
    Some(c)
}

#[cfg(test)]
#[path = "charts_tests.rs"]
mod tests;

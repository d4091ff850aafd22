//! What the figures of a run say: curves and their knees, parameters and how a load scales over them, figures beside those of others, and all of it
//! in sentences.
//!
//! Invariants: a sentence says only what a figure beside it shows; what went wrong is said first.
//! Never: formats a page.

use crate::report::caveats::caveats;
use crate::report::compare::{Comparison, comparisons};
use crate::report::figures::Case;
use crate::report::load::Loaded;
use crate::report::text::{LatencyUnit, number, parameter, percent};
use crate::results::{Measured, RunKind};
use serde::Serialize;

/// Below this share of what was asked for, a rate was not held.
pub const DELIVERED_MIN: f64 = 0.95;
/// From one point of a curve to the next, p99 may grow by this; more is its knee.
pub const KNEE_GROWTH: f64 = 2.0;
/// Sentences of one kind in a verdict that nobody wrote.
const SENTENCES_MAX: usize = 8;

/// A label that says the requested rate in figures: it follows from the load and makes no series of its own.
pub const REQUESTED: &str = "requested IOPS";
/// Labels that differ from point to point of one curve.
pub const LOAD_LABELS: [&str; 2] = ["load", REQUESTED];

/// A curve: rising load on one system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Workload and labels but for the load.
    pub group: String,
    /// Index of the cases with a requested rate, in order of that rate.
    pub points: Vec<usize>,
    /// Index of the case without one: the maximum.
    pub maximum: Option<usize>,
    /// Where it breaks: position in `points`, and why.
    pub knee: Option<(usize, String)>,
}

/// A label that differs between cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its key.
    pub key: String,
    /// Its values, in order of appearance.
    pub values: Vec<String>,
    /// All of them are numbers.
    pub numeric: bool,
}

/// A figure of ours beside one of somebody else, or of an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// The case, as tables call it.
    pub case: String,
    /// Which figure.
    pub figure: String,
    /// Ours; none when the case is missing.
    pub ours: Option<f64>,
    /// Theirs.
    pub theirs: f64,
    /// Ours divided by theirs.
    pub ratio: Option<f64>,
    /// What a reader should know.
    pub remark: String,
}

/// Everything that is computed from a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// What went wrong; said before anything else.
    pub warnings: Vec<String>,
    /// Sentences that answer what was asked.
    pub verdict: Vec<String>,
    /// The unit of all latencies.
    pub unit: LatencyUnit,
    /// The cases.
    pub cases: Vec<Case>,
    /// Curves.
    pub curves: Vec<Curve>,
    /// What differs between cases.
    pub parameters: Vec<Parameter>,
    /// Comparisons of A and B.
    pub comparisons: Vec<Comparison>,
    /// Beside published figures.
    pub published: Vec<Beside>,
}

impl Analysis {
    /// Computes all of it.
    pub fn new(run: &Loaded) -> Analysis {
        let cases: Vec<Case> = run.cases.iter().map(|(n, m)| Case::new(*n, m)).collect();
        let unit = LatencyUnit::of(cases.iter().filter_map(|c| c.all.p99_us().or(c.all.mean_us)));
        let curves = curves(&cases, unit);
        let parameters = parameters(&cases);
        let comparisons = comparisons(&cases);
        let mut a = Analysis {
            warnings: Vec::new(),
            verdict: run.record.verdict.clone(),
            unit,
            curves,
            parameters,
            comparisons,
            published: Vec::new(),
            cases,
        };
        a.published = a.published(run);
        a.warnings = caveats(run, &a.cases);
        // A run's own verdict begins with them, too; another version may have called the cases in brackets otherwise.
        let same = |w: &str, v: &str| w == v || w.split_once(" (").is_some_and(|(what, _)| v.split_once(" (").is_some_and(|v| v.0 == what));
        a.verdict.retain(|v| !a.warnings.iter().any(|w| same(w, v)));
        if a.verdict.is_empty() {
            a.verdict = a.sentences(run);
        }
        a
    }

    /// The verdict, when nobody wrote one.
    fn sentences(&self, run: &Loaded) -> Vec<String> {
        if self.cases.is_empty() {
            return vec!["Nothing was measured.".into()];
        }
        let mut list = match run.record.kind {
            RunKind::Compare => self.comparisons.iter().flat_map(compare_sentences).collect(),
            RunKind::Curve => self.curves.iter().filter_map(|c| self.curve_sentence(c)).collect(),
            RunKind::Sweep | RunKind::Study => self.scaling_sentences(),
            RunKind::Soak => run.cases.iter().zip(&self.cases).filter_map(|(m, c)| soak_sentence(&m.1, c)).collect(),
            RunKind::Run => Vec::new(),
        };
        if list.is_empty() || matches!(run.record.kind, RunKind::Run | RunKind::Sweep | RunKind::Study) {
            list.extend(self.best_sentences());
        }
        if list.len() > SENTENCES_MAX {
            let more = list.len() - SENTENCES_MAX;
            list.truncate(SENTENCES_MAX);
            list.push(format!("{more} more can be read in the tables."));
        }
        list
    }

    /// A case in words: its name, rate and latencies.
    fn words(&self, c: &Case) -> String {
        let mut words = format!("{}: {} IOPS", c.name, number(c.all.iops));
        if c.all.bytes > 0 && c.all.operations > 0 && c.all.bytes / c.all.operations >= 65_536 {
            words = format!("{}: {} MiB/s", c.name, number(c.all.mib_s));
        }
        if let Some(mean) = c.all.mean_us {
            words.push_str(&format!(", {} mean", self.unit.text(mean)));
        }
        if let Some(p99) = c.all.p99_us() {
            words.push_str(&format!(", {} at p99", self.unit.text(p99)));
        }
        words
    }

    fn best_sentences(&self) -> Vec<String> {
        let mut list = Vec::new();
        let (first, rest) = (&self.cases[0], &self.cases[1..]);
        if rest.is_empty() || self.cases.len() <= 4 && self.parameters.is_empty() {
            return self.cases.iter().map(|c| format!("{}.", self.words(c))).collect();
        }
        let most = |f: fn(&Case) -> f64| rest.iter().fold(first, |best, c| if f(c) > f(best) { c } else { best });
        let (iops, mib) = (most(|c| c.all.iops), most(|c| c.all.mib_s));
        list.push(format!("Most operations: {}.", self.words(iops)));
        if mib.number != iops.number {
            list.push(format!("Most data: {}, {} MiB/s.", self.words(mib), number(mib.all.mib_s)));
        }
        let quick = self.cases.iter().filter(|c| c.all.p99_us().is_some());
        if let Some(c) = quick.min_by(|a, b| a.all.p99_us().unwrap_or(0.0).total_cmp(&b.all.p99_us().unwrap_or(0.0)))
            && c.number != iops.number
        {
            list.push(format!("Shortest p99: {}.", self.words(c)));
        }
        list
    }

    fn curve_sentence(&self, curve: &Curve) -> Option<String> {
        let at = |i: usize| {
            let c = &self.cases[curve.points[i]];
            let p99 = c.all.p99_us().map_or(String::new(), |p| format!(" with p99 at {}", self.unit.text(p)));
            format!("{} IOPS{p99}", number(c.all.iops))
        };
        let share = |i: usize| self.cases[curve.points[i]].label("load").map_or(String::new(), |l| format!(" ({l})"));
        let Some(last) = curve.points.len().checked_sub(1) else {
            // Of its windows the largest is not the maximum, so none is named here.
            return curve.maximum.map(|_| format!("{}: no share of the maximum was measured.", curve.group));
        };
        Some(match &curve.knee {
            None => format!("{}: held at every rate up to {}{}, without a knee.", curve.group, at(last), share(last)),
            Some((0, why)) => format!("{}: not held even at the lowest rate: {why}.", curve.group),
            Some((i, why)) => {
                format!("{}: held up to {}{}. At the next point{} {why}.", curve.group, at(i - 1), share(i - 1), share(*i))
            }
        })
    }

    fn scaling_sentences(&self) -> Vec<String> {
        let mut list = Vec::new();
        for p in self.parameters.iter().filter(|p| p.numeric) {
            for (group, points) in self.series_over(&p.key).into_iter().take(3) {
                let (Some(&(low, a)), Some(&(high, b))) = (points.first(), points.last()) else { continue };
                if low == high || self.cases[a].all.iops <= 0.0 {
                    continue;
                }
                let label = |i: usize| self.cases[i].label(&p.key).unwrap_or_default().to_string();
                let factor = self.cases[b].all.iops / self.cases[a].all.iops;
                list.push(format!(
                    "{group}: {} IOPS at {} {}, {} IOPS at {}: {} times as many.",
                    number(self.cases[a].all.iops),
                    p.key,
                    label(a),
                    number(self.cases[b].all.iops),
                    label(b),
                    number(factor)
                ));
            }
        }
        list
    }

    /// For a numeric label: each group of cases that differ only in it, as (value, index of the case), ascending.
    pub fn series_over(&self, key: &str) -> Vec<(String, Vec<(f64, usize)>)> {
        let mut groups: Vec<(String, Vec<(f64, usize)>)> = Vec::new();
        for (i, c) in self.cases.iter().enumerate() {
            let Some(v) = c.label(key).and_then(parameter) else { continue };
            let g = c.group(&[key]);
            match groups.iter_mut().find(|x| x.0 == g) {
                Some(x) => x.1.push((v, i)),
                None => groups.push((g, vec![(v, i)])),
            }
        }
        for g in &mut groups {
            g.1.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        groups
    }

    fn published(&self, run: &Loaded) -> Vec<Beside> {
        let of = |labels: &[(String, String)]| {
            self.cases.iter().find(|c| labels.iter().all(|l| c.labels.contains(l) || (l.0 == "workload" && l.1 == c.workload)))
        };
        run.record
            .published
            .iter()
            .map(|p| {
                let case = of(&p.labels);
                let ours = case.and_then(|c| c.figure(&p.figure));
                let labels = || p.labels.iter().map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", ");
                let words = case.map_or_else(labels, |c| c.name.clone());
                Beside {
                    case: words,
                    figure: p.figure.clone(),
                    ours,
                    theirs: p.value,
                    ratio: ratio(ours, p.value).filter(|_| !p.other_hardware),
                    remark: p.remark.clone(),
                }
            })
            .collect()
    }

    /// Beside an earlier run: cases of the same name.
    pub fn beside(&self, earlier: &Analysis) -> Vec<Beside> {
        let mut list = Vec::new();
        for c in &self.cases {
            let Some(e) = earlier.cases.iter().find(|e| e.name == c.name) else { continue };
            for figure in ["IOPS", "MiB/s", "mean latency ms", "p99 latency ms"] {
                if let Some(theirs) = e.figure(figure) {
                    let ours = c.figure(figure);
                    list.push(Beside {
                        case: c.name.clone(),
                        figure: figure.into(),
                        ours,
                        theirs,
                        ratio: ratio(ours, theirs),
                        remark: String::new(),
                    });
                }
            }
        }
        list
    }
}

fn ratio(ours: Option<f64>, theirs: f64) -> Option<f64> {
    ours.filter(|_| theirs > 0.0).map(|o| o / theirs)
}

fn compare_sentences(c: &Comparison) -> Vec<String> {
    let (a, b) = &c.names;
    let Some(r) = c.ratios.first() else { return vec![format!("{}: {a} or {b} did nothing.", c.group)] };
    let size = |r: f64| if r >= 1.0 { format!("{} more", percent(r - 1.0)) } else { format!("{} fewer", percent(1.0 - r)) };
    let Some((low, high)) = r.interval else {
        return vec![format!(
            "{}: {b} did {} IOPS than {a} in the one round measured; one round can't tell whether that is real.",
            c.group,
            size(r.ratio)
        )];
    };
    let interval = format!("95 % confidence: {} to {} times as many, {} rounds", number(low), number(high), r.rounds);
    vec![if r.significant() {
        format!("{}: {b} does {} IOPS than {a}, and the difference is real ({interval}).", c.group, size(r.ratio))
    } else {
        format!("{}: no difference between {a} and {b} is shown ({interval}).", c.group)
    }]
}

/// How steady it was: its last tenth against its first, and its worst second.
fn soak_sentence(m: &Measured, c: &Case) -> Option<String> {
    let rates: Vec<f64> = m.seconds.iter().filter(|s| s.at_s >= 0.0).map(|s| (s.reads + s.writes) as f64).collect();
    if rates.len() < 10 {
        return None;
    }
    let tenth = rates.len() / 10;
    let mean = |r: &[f64]| r.iter().sum::<f64>() / r.len() as f64;
    let (first, last) = (mean(&rates[..tenth]), mean(&rates[rates.len() - tenth..]));
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let all = mean(&rates);
    (first > 0.0 && all > 0.0).then(|| {
        format!(
            "{}: {} IOPS over {}; the last tenth of the time at {} of the first, the worst second at {} of the mean.",
            c.name,
            number(c.all.iops),
            crate::report::text::duration(c.measured_s),
            percent(last / first),
            percent(least / all)
        )
    })
}

fn curves(cases: &[Case], unit: LatencyUnit) -> Vec<Curve> {
    let mut list: Vec<Curve> = Vec::new();
    for (i, c) in cases.iter().enumerate().filter(|(_, c)| c.label("load").is_some()) {
        let group = c.group(&LOAD_LABELS);
        let at = list.iter().position(|x| x.group == group).unwrap_or_else(|| {
            list.push(Curve { group, points: Vec::new(), maximum: None, knee: None });
            list.len() - 1
        });
        if c.requested_iops.is_some() {
            list[at].points.push(i);
        } else {
            list[at].maximum = Some(i);
        }
    }
    for curve in &mut list {
        let rate = |i: usize| cases[i].requested_iops.unwrap_or(0.0);
        curve.points.sort_by(|a, b| rate(*a).total_cmp(&rate(*b)));
        curve.knee = knee(&curve.points.iter().map(|i| &cases[*i]).collect::<Vec<_>>(), unit);
    }
    list
}

fn knee(points: &[&Case], unit: LatencyUnit) -> Option<(usize, String)> {
    for (i, c) in points.iter().enumerate() {
        let requested = c.requested_iops.unwrap_or(0.0);
        if let Some(share) = c.delivered().filter(|share| *share < DELIVERED_MIN) {
            return Some((i, format!("only {} of the requested {} IOPS were delivered", percent(share), number(requested))));
        }
        if i > 0
            && let (Some(before), Some(now)) = (points[i - 1].all.p99_us(), c.all.p99_us())
            && now > KNEE_GROWTH * before
        {
            return Some((i, format!("p99 rises from {} to {}", unit.text(before), unit.text(now))));
        }
    }
    None
}

/// Labels with more than one value, rounds of a comparison aside.
fn parameters(cases: &[Case]) -> Vec<Parameter> {
    let mut list: Vec<Parameter> = Vec::new();
    for (key, value) in cases.iter().flat_map(|c| &c.labels) {
        match list.iter_mut().find(|p| p.key == *key) {
            Some(p) if !p.values.contains(value) => p.values.push(value.clone()),
            Some(_) => {}
            None => list.push(Parameter { key: key.clone(), values: vec![value.clone()], numeric: false }),
        }
    }
    list.retain(|p| p.values.len() > 1 && p.key != "round" && p.key != REQUESTED);
    for p in &mut list {
        p.numeric = p.values.iter().all(|v| parameter(v).is_some());
    }
    list
}

#[cfg(test)]
#[path = "analysis_tests.rs"]
mod tests;

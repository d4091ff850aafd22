//! Two systems measured in alternation: is there a difference, and how sure is that?
//!
//! Owns: pairs of rounds, mean ratios with their 95 % confidence intervals.
//! Invariants: a round of A is set against the same round of B only, so that what changed from round to round (temperature, other load) falls out;
//! no interval from fewer than two pairs.
//!
//! How sound the intervals are: they are Student's, of the logarithms of the ratios. When A and B behave alike, a pair's logarithm is symmetric about
//! 0 whatever the noise of each is, skewed or with rare stalls, and a difference is called real in at most about one comparison in twenty. When only
//! one of them has skewed noise, the interval is too narrow: with five rounds it holds the true mean about 88 times in 100 for exponential noise, and far less often when that one
//! stalls in a few rounds only (no interval of few rounds knows of stalls that it has not seen). The tests hold both.
//! Never: calls a difference real when its interval holds 1.

use crate::report::figures::Case;
use serde::Serialize;

/// A figure of B divided by that of A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Which figure: "IOPS", "mean latency", "p99 latency".
    pub figure: &'static str,
    /// Geometric mean over the rounds.
    pub ratio: f64,
    /// Ends of the 95 % confidence interval; none from one round.
    pub interval: Option<(f64, f64)>,
    /// Rounds in which both were measured.
    pub rounds: usize,
}

impl Ratio {
    /// Whether the interval leaves out 1.
    pub fn significant(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

/// Two systems under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Workload and labels that both share.
    pub group: String,
    /// What A and B are called; a label "name" of the case, or "A" and "B".
    pub names: (String, String),
    /// Means over rounds, with the half width of the 95 % confidence interval: IOPS of A and of B.
    pub iops: [(f64, Option<f64>); 2],
    /// Mean over the rounds of the mean latency, in microseconds.
    pub mean_us: [f64; 2],
    /// B / A.
    pub ratios: Vec<Ratio>,
}

/// Quantile 0.975 of Student's t with `freedom` degrees of freedom.
pub fn t975(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
        2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => f64::INFINITY,
        n if n <= TABLE.len() => TABLE[n - 1],
        // Cornish-Fisher from the normal quantile: right to three digits from 30 on.
        n => {
            let (z, n) = (1.959_964_f64, n as f64);
            z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

/// Mean and half width of its 95 % confidence interval.
pub fn mean_and_half(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n.max(1) as f64;
    if n < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    (mean, Some(t975(n - 1) * (variance / n as f64).sqrt()))
}

/// The ratio of pairs (a, b), by logarithms: twice as fast and half as fast are equally far from 1.
pub fn ratio(figure: &'static str, pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (b / a).ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let (mean, half) = mean_and_half(&logs);
    Some(Ratio { figure, ratio: mean.exp(), interval: half.map(|h| ((mean - h).exp(), (mean + h).exp())), rounds: logs.len() })
}

/// All comparisons that the cases hold, in order of appearance.
pub fn comparisons(cases: &[Case]) -> Vec<Comparison> {
    let mut groups: Vec<String> = Vec::new();
    let key = |c: &Case| c.group(&["system", "round", "name"]);
    for c in cases.iter().filter(|c| matches!(c.label("system"), Some("A" | "B"))) {
        let k = key(c);
        if !groups.contains(&k) {
            groups.push(k);
        }
    }
    groups.into_iter().filter_map(|g| comparison(&g, &cases.iter().filter(|c| key(c) == g).collect::<Vec<_>>())).collect()
}

fn comparison(group: &str, cases: &[&Case]) -> Option<Comparison> {
    let of = |system: &str| cases.iter().filter(|c| c.label("system") == Some(system)).copied().collect::<Vec<_>>();
    let (a, b) = (of("A"), of("B"));
    let name = |list: &[&Case], letter: &str| {
        list.first().and_then(|c| c.label("name")).filter(|n| *n != letter).map_or(letter.to_string(), |n| format!("{letter} ({n})"))
    };
    let pairs: Vec<(&Case, &Case)> =
        a.iter().filter_map(|x| b.iter().find(|y| y.label("round") == x.label("round")).map(|y| (*x, *y))).collect();
    if pairs.is_empty() {
        return None;
    }
    let of_pairs = |f: &dyn Fn(&Case) -> f64| pairs.iter().map(|(x, y)| (f(x), f(y))).collect::<Vec<_>>();
    let ratios = [
        ratio("IOPS", &of_pairs(&|c| c.all.iops)),
        ratio("mean latency", &of_pairs(&|c| c.all.mean_us.unwrap_or(0.0))),
        ratio("p99 latency", &of_pairs(&|c| c.all.p99_us().unwrap_or(0.0))),
    ];
    let iops = |list: &[&Case]| mean_and_half(&list.iter().map(|c| c.all.iops).collect::<Vec<_>>());
    let mean = |list: &[&Case]| mean_and_half(&list.iter().filter_map(|c| c.all.mean_us).collect::<Vec<_>>()).0;
    Some(Comparison {
        group: group.into(),
        names: (name(&a, "A"), name(&b, "B")),
        iops: [iops(&a), iops(&b)],
        mean_us: [mean(&a), mean(&b)],
        ratios: ratios.into_iter().flatten().collect(),
    })
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;

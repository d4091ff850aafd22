//! What makes the figures of a run doubtful. It stands before everything else that is said of them.
//!
//! Invariants: each sentence names the figure it follows from; the worst comes first; cases are named up to a few.
//! Never: says that a result is good.

use crate::measure::noise::Noise;
use crate::report::analysis::DELIVERED_MIN;
use crate::report::figures::Case;
use crate::report::load::Loaded;
use crate::report::text::{duration, number, percent, whole};
use crate::results::{Measured, RunKind, RunState};
use crate::workload::Arrivals;

/// Words of the sentence on wrong data.
pub const NOT_WHAT_WAS_WRITTEN: &str = "did not hold what was written there";
/// Cases that a sentence names.
const NAMED_MAX: usize = 3;
/// A measurement that is shorter says nothing of what storage keeps up, in seconds.
pub const SHORT_S: f64 = 10.0;
/// Operations that have to lie beyond a percentile: see `figures`. Fewer operations than this give no p99.
pub const P99_OPERATIONS: u64 = 1000;
/// A rate that falls below this part of what it was within a case has collapsed.
const COLLAPSE: f64 = 0.5;
/// Whole seconds that a collapse is looked for in, at least.
const COLLAPSE_SECONDS: usize = 4;
/// A write buffer whose fill grew by this much within a case had not come to its level, 0 to 1.
const FILLING: f64 = 0.1;
/// Operations carried from before, or left over, that are worth a word: this part of those that were measured.
const BACKLOG: f64 = 0.01;

/// All of them, the worst first.
pub fn caveats(run: &Loaded, cases: &[Case]) -> Vec<String> {
    let mut list = Vec::new();
    list.extend(wrong_data(cases));
    list.extend(failed(run, cases));
    list.extend(missing(run, cases));
    list.extend(unwritten(run));
    list.extend(noise(run, cases));
    list.extend(target_noise(run, cases));
    list.extend(slow(run, cases));
    list.extend(short(run, cases));
    list.extend(collapsed(run, cases));
    list.extend(backlog(run, cases));
    list.extend(filling(run, cases));
    list.extend(few(cases));
    list
}

/// "a, b, c and 4 more".
fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let shown = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if more > 0 { format!("{shown}; and {more} more") } else { shown }
}

fn wrong_data(cases: &[Case]) -> Option<String> {
    let wrong: u64 = cases.iter().filter_map(|c| c.verified).map(|v| v.wrong).sum();
    (wrong > 0).then(|| format!("{} blocks that were read {NOT_WHAT_WAS_WRITTEN}. This storage lost or changed data.", whole(wrong)))
}

fn failed(run: &Loaded, cases: &[Case]) -> Option<String> {
    let errors: u64 = cases.iter().map(|c| c.all.errors).sum();
    if errors == 0 {
        return None;
    }
    let done: u64 = cases.iter().map(|c| c.all.operations).sum();
    let names: Vec<String> = cases.iter().filter(|c| c.all.errors > 0).map(|c| format!("{}: {}", c.name, whole(c.all.errors))).collect();
    let said = run.cases.iter().flat_map(|c| &c.1.notes).find(|n| n.contains("operation that failed"));
    let why = said.map_or(String::new(), |n| format!(" {n}"));
    Some(format!(
        "{} operations failed ({} ended well; {}); rates and latencies are of those that ended well.{why}",
        whole(errors),
        whole(done),
        named(&names)
    ))
}

fn unwritten(run: &Loaded) -> Option<String> {
    let share = run.record.unwritten?;
    Some(format!(
        "{} of what could be read was never written when the run began. Storage answers such reads without its drives: figures of reads are not those of data.",
        percent(share)
    ))
}

fn missing(run: &Loaded, cases: &[Case]) -> Vec<String> {
    let mut list = Vec::new();
    // A case that was cut short is measured again when the run goes on.
    let here = cases.len() - usize::from(run.record.state != RunState::Complete && cases.last().is_some_and(|c| c.cut_short));
    if here < run.record.cases {
        let why = match run.record.state {
            RunState::Interrupted => "the run was interrupted",
            RunState::Running => "the run is still going, or its process died",
            RunState::Complete => "files are missing though the run is said to be complete",
        };
        list.push(format!("Not everything was measured: {here} of {} cases are there; {why}.", run.record.cases));
    }
    let short = cases.iter().filter(|c| c.cut_short).count();
    if short > 0 {
        let (cases, their) = if short == 1 { ("case", "its") } else { ("cases", "their") };
        list.push(format!("{short} {cases} ended before {their} time."));
    }
    list
}

/// What was said of several clients, each by its name.
fn of_clients(m: &Measured, says: fn(&Noise) -> Option<String>) -> Option<String> {
    let each = m.clients.iter().filter_map(|c| Some(format!("on {}, {}", c.name, says(c.noise.as_ref()?)?)));
    let all = each.collect::<Vec<_>>().join("; ");
    (!all.is_empty()).then_some(all)
}

/// What `says` finds in cases: the first of it, and where it is. `around`: what was found before the first case and after the last.
fn found(run: &Loaded, cases: &[Case], around: Option<String>, says: impl Fn(&Measured) -> Option<String>) -> Option<(String, String)> {
    let during: Vec<(usize, String)> = run.cases.iter().enumerate().filter_map(|(i, c)| Some((i, says(&c.1)?))).collect();
    match (during.as_slice(), around) {
        ([], None) => None,
        ([], Some(problem)) => Some(("before or after the cases".into(), problem)),
        (list @ [(_, problem), ..], _) if list.len() == cases.len() => Some(("in every case".into(), problem.clone())),
        (list @ [(_, problem), ..], _) => {
            let names: Vec<String> = list.iter().map(|(i, _)| cases[*i].name.clone()).collect();
            Some((format!("in {} of {} cases ({})", names.len(), cases.len(), named(&names)), problem.clone()))
        }
    }
}

fn noise(run: &Loaded, cases: &[Case]) -> Option<String> {
    let around = run.record.noise.iter().find_map(Noise::problem);
    let busy = |m: &Measured| m.noise.as_ref().and_then(Noise::problem).or_else(|| of_clients(m, Noise::problem));
    let (place, problem) = found(run, cases, around, busy)?;
    Some(format!(
        "The machine was busy with other things {place}: {problem}. Figures are those of a loaded machine; repeat the run on a quiet one."
    ))
}

fn target_noise(run: &Loaded, cases: &[Case]) -> Option<String> {
    let around = run.record.target_noise.iter().find_map(Noise::problem);
    let (place, problem) = found(run, cases, around, |m| m.target_noise.as_ref()?.problem())?;
    Some(format!(
        "The machine of the target was busy with other things {place}: {problem}. Figures are those of a loaded target; repeat the run when it is quiet."
    ))
}

fn slow(run: &Loaded, cases: &[Case]) -> Vec<String> {
    let of_client = |m: &Measured| m.noise.as_ref().and_then(Noise::slow).or_else(|| of_clients(m, Noise::slow));
    let words = |whose: &str, (place, problem): (String, String)| {
        format!(
            "The processors {whose} were slow {place}: {problem}. Latencies are those of slow processors: see whether they are set to save power, or throttled."
        )
    };
    let client = found(run, cases, None, of_client).map(|found| words("of the client", found));
    let target = found(run, cases, None, |m| m.target_noise.as_ref()?.slow()).map(|found| words("of the target", found));
    client.into_iter().chain(target).collect()
}

fn short(run: &Loaded, cases: &[Case]) -> Option<String> {
    // A study on models has a time of its own, and says itself when it was made shorter.
    if run.record.kind == RunKind::Study || run.cases.iter().any(|c| c.1.engine == "simulated") {
        return None;
    }
    let least = cases.iter().filter(|c| !c.cut_short).map(|c| c.measured_s).fold(f64::INFINITY, f64::min);
    let rounds = if run.record.kind == RunKind::Compare { " (of each round)" } else { "" };
    (least < SHORT_S).then(|| {
        format!(
            "Short: {} measured{rounds}. Less than {SHORT_S} s shows what caches and buffers take, not what the storage keeps up.",
            duration(least)
        )
    })
}

/// Operations of each whole second that was measured.
fn rates(m: &Measured) -> Vec<f64> {
    let whole = m.seconds.iter().filter(|s| s.at_s >= 0.0 && s.at_s + 1.0 <= m.measured_s + 1e-6);
    whole.map(|s| (s.reads + s.writes) as f64).collect()
}

/// The highest and the lowest rate that a case had over a tenth of its time; the lowest after the highest.
pub fn fall(m: &Measured) -> Option<(f64, f64)> {
    let rates = rates(m);
    if rates.len() < COLLAPSE_SECONDS {
        return None;
    }
    let span = (rates.len() / 10).max(1);
    let means: Vec<f64> = rates.windows(span).map(|w| w.iter().sum::<f64>() / span as f64).collect();
    let (at, high) = means.iter().copied().enumerate().fold((0, 0.0), |best, (i, v)| if v > best.1 { (i, v) } else { best });
    // A stall that is over again is a latency; a collapse holds to the end.
    let last = &rates[rates.len() - (rates.len() / 4).max(1)..];
    let end = last.iter().sum::<f64>() / last.len() as f64;
    (at < means.len() - 1 && end < COLLAPSE * high).then_some((high, end))
}

fn collapsed(run: &Loaded, cases: &[Case]) -> Option<String> {
    let falls = run.cases.iter().zip(cases).filter_map(|((_, m), c)| {
        let (from, to) = fall(m)?;
        Some(format!("{}: from {} to {} IOPS", c.name, number(from), number(to)))
    });
    let names: Vec<String> = falls.collect();
    (!names.is_empty()).then(|| {
        format!(
            "The rate collapsed within the time that was measured ({}). A mean over both stands for neither: measure longer.",
            named(&names)
        )
    })
}

fn backlog(run: &Loaded, cases: &[Case]) -> Option<String> {
    let worth = |n: u64, m: &Measured| {
        let slots = u64::from(m.workload.depth) * m.disks.len().max(1) as u64;
        n > slots && n as f64 > BACKLOG * m.total().operations as f64
    };
    let list = run.cases.iter().zip(cases).filter_map(|((_, m), c)| {
        let Arrivals::Open { iops, .. } = m.workload.arrivals else { return None };
        let mut words = Vec::new();
        if worth(m.carried, m) {
            words.push(format!("{} operations had been waiting when it began", whole(m.carried)));
        }
        if worth(m.waiting, m) {
            words.push(format!("{} were waiting when it ended", whole(m.waiting)));
        }
        let kept = m.kept_iops() / iops.max(1e-9);
        (!words.is_empty()).then(|| {
            let held = if kept < DELIVERED_MIN { "not held" } else { "held" };
            format!("{}: {}, {} of what was due in it ended in it: {held}", c.name, words.join(", "), percent(kept))
        })
    });
    let names: Vec<String> = list.collect();
    (!names.is_empty()).then(|| format!("More came than the storage did ({}).", named(&names)))
}

fn filling(run: &Loaded, cases: &[Case]) -> Option<String> {
    let grown = |m: &Measured| {
        let fills: Vec<f64> = m.seconds.iter().filter(|s| s.at_s >= 0.0).filter_map(|s| Some(s.target.as_ref()?.buffer_fill)).collect();
        let (first, last) = (*fills.first()?, *fills.last()?);
        // One that rises and falls again has found its level.
        let most = fills.iter().copied().fold(0.0, f64::max);
        (last > first + FILLING && last >= most - 0.01).then_some((first, last))
    };
    let list = run.cases.iter().zip(cases).filter_map(|((_, m), c)| {
        let (first, last) = grown(m)?;
        Some(format!("{}: from {} to {}", c.name, percent(first), percent(last)))
    });
    let names: Vec<String> = list.collect();
    (!names.is_empty() && run.record.kind != RunKind::Study)
        .then(|| format!("The write buffer was still filling ({}): such a rate is kept only until it is full.", named(&names)))
}

fn few(cases: &[Case]) -> Option<String> {
    let few = cases.iter().filter(|c| c.all.operations > 0 && c.all.operations < P99_OPERATIONS);
    let names: Vec<String> = few.map(|c| format!("{}: {}", c.name, whole(c.all.operations))).collect();
    (!names.is_empty())
        .then(|| format!("Few operations ({}): percentiles with fewer than ten operations beyond them are left out.", named(&names)))
}

#[cfg(test)]
#[path = "caveats_tests.rs"]
mod tests;

//! `basalt iostat` and `basalt top`: what each volume, host or device does, from the difference of two answers of the API.
//!
//! Invariants: a line has the same columns whatever it is about; what began between two answers counts from nothing; a daemon that was started anew
//! counts from nothing, too.
//! Never: measures: what it shows the daemon has counted.

use crate::{
    cli::IostatArgs,
    client::{Failure, part},
    commands::{Done, Session},
    output::Page,
    table::Rows,
};
use base::ByteSize;
use control::{
    Problem,
    api::types::{OperationStatistics, Statistics},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    thread::sleep,
    time::Duration,
};

/// Lines that `top` shows where the terminal does not say how many it has room for.
const TOP_LINES: usize = 20;
/// Lines around the table of `top`.
const TOP_HEAD: usize = 3;

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Volume,
    Host,
    Device,
}

impl Subject {
    fn named(text: &str) -> Option<Self> {
        match text {
            "volume" | "volumes" => Some(Self::Volume),
            "host" | "hosts" => Some(Self::Host),
            "device" | "devices" => Some(Self::Device),
            _ => None,
        }
    }
    const fn plural(self) -> &'static str {
        match self {
            Self::Volume => "volumes",
            Self::Host => "hosts",
            Self::Device => "devices",
        }
    }
}

/// What is shown, how often and how many times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    pub subject: Subject,
    /// Seconds between two reports; `None`: one, since the start of the daemon.
    pub every: Option<Duration>,
    /// Reports; `None`: until it is ended.
    pub count: Option<u64>,
}

impl Plan {
    fn of(args: &IostatArgs) -> Result<Self, Failure> {
        let wrong = |why| Failure::Problem(Problem::invalid(why, "see 'basalt iostat --help'"));
        Self::read(&args.what).map_err(wrong)
    }
    /// From `[volume|device|host] [SECONDS] [COUNT]`.
    pub fn read(words: &[String]) -> Result<Self, String> {
        let (subject, numbers) = match words {
            [first, rest @ ..] if first.parse::<f64>().is_err() => {
                let subject =
                    Subject::named(first).ok_or_else(|| format!("'{first}' is no volume, device or host; write one of these words"))?;
                (subject, rest)
            }
            all => (Subject::Volume, all),
        };
        let seconds = |text: &String| match text.parse::<f64>() {
            Ok(s) if (0.1..=86_400.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
            _ => Err(format!("'{text}' is no number of seconds; write 0.1 to 86400")),
        };
        let count = |text: &String| match text.parse::<u64>() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(format!("'{text}' is no number of reports; write 1 or more")),
        };
        match numbers {
            [] => Ok(Self { subject, every: None, count: Some(1) }),
            [every] => Ok(Self { subject, every: Some(seconds(every)?), count: None }),
            [every, n] => Ok(Self { subject, every: Some(seconds(every)?), count: Some(count(n)?) }),
            [_, _, more, ..] => Err(format!("'{more}' is too much; write [volume|device|host] [SECONDS] [COUNT]")),
        }
    }
}

/// What one volume, host or device did so far.
#[derive(Clone, Debug, Default)]
struct Counted {
    name: String,
    queue_depth: Option<u64>,
    throttled: u64,
    errors: u64,
    operations: BTreeMap<String, OperationStatistics>,
}

/// What it did in a time, a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Name of the volume or host, path of the device.
    pub name: String,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    /// Discards, and what else hosts may ask for.
    pub others_per_s: f64,
    pub read_bytes_per_s: f64,
    pub write_bytes_per_s: f64,
    /// Of reads; none: there were none.
    pub read_p50_us: Option<f64>,
    pub read_p99_us: Option<f64>,
    pub write_p50_us: Option<f64>,
    pub write_p99_us: Option<f64>,
    /// Operations under way, the mean over the time.
    pub queue_depth: f64,
    pub throttled_per_s: f64,
    pub errors_per_s: f64,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// At its end, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How long it covers.
    pub seconds: f64,
    pub lines: Vec<Line>,
}

fn counted(subject: Subject, all: &Statistics) -> BTreeMap<String, Counted> {
    let by_kind = |all: &[OperationStatistics]| all.iter().map(|one| (one.operation.clone(), one.clone())).collect::<BTreeMap<_, _>>();
    let errors = |all: &[OperationStatistics]| all.iter().map(|one| one.errors).sum::<u64>();
    match subject {
        Subject::Volume => (all.volumes.iter())
            .map(|v| {
                let name = v.volume.clone().unwrap_or_else(|| "(others)".into());
                let (errors, operations) = (errors(&v.operations), by_kind(&v.operations));
                let counted = Counted { name, queue_depth: Some(v.queue_depth), throttled: v.throttled, errors, operations };
                (v.id.clone().unwrap_or_default(), counted)
            })
            .collect(),
        Subject::Host => (all.hosts.iter())
            .map(|h| {
                let name = h.name.clone().unwrap_or_else(|| h.nqn.clone());
                let (errors, operations) = (errors(&h.operations), by_kind(&h.operations));
                (h.nqn.clone(), Counted { name, queue_depth: Some(h.queue_depth), throttled: 0, errors, operations })
            })
            .collect(),
        Subject::Device => (all.devices.iter())
            .map(|d| {
                let counted =
                    Counted { name: d.device.clone(), errors: d.errors, operations: by_kind(&d.operations), ..Counted::default() };
                (format!("{} {} {}", d.group, d.role, d.device), counted)
            })
            .collect(),
    }
}

/// What operations of one kind did between two answers.
#[derive(Default)]
struct Difference {
    operations: f64,
    bytes: f64,
    sum_ns: f64,
    buckets: Vec<(u64, u64)>,
}

fn between(now: Option<&OperationStatistics>, before: Option<&OperationStatistics>) -> Difference {
    let Some(now) = now else { return Difference::default() };
    let less =
        |now: u64, before: fn(&OperationStatistics) -> u64, of: Option<&OperationStatistics>| now.saturating_sub(of.map_or(0, before));
    let was: BTreeMap<u64, u64> = before.iter().flat_map(|b| &b.latency).map(|b| (b.up_to_ns, b.count)).collect();
    let left = |up_to_ns: u64, count: u64| count.saturating_sub(was.get(&up_to_ns).copied().unwrap_or(0));
    Difference {
        operations: less(now.operations, |b| b.operations, before) as f64,
        bytes: less(now.bytes, |b| b.bytes, before) as f64,
        sum_ns: less(now.latency_sum_ns, |b| b.latency_sum_ns, before) as f64,
        buckets: now.latency.iter().map(|b| (b.up_to_ns, left(b.up_to_ns, b.count))).collect(),
    }
}

/// The quantile of what is in buckets, in µs.
fn quantile_us(buckets: &[(u64, u64)], q: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|(_, n)| n).sum();
    let rank = ((q * all as f64).ceil() as u64).max(1);
    let mut seen = 0;
    let found = buckets.iter().find(|(_, n)| {
        seen += n;
        seen >= rank
    });
    found.filter(|_| all > 0).map(|(up_to_ns, _)| *up_to_ns as f64 / 1e3)
}

/// What was done between two answers. Without the first: since the daemon started.
pub fn report(subject: Subject, before: Option<&Statistics>, now: &Statistics) -> Report {
    let before = before.filter(|b| b.started_unix_s == now.started_unix_s);
    let began = before.map_or(now.started_unix_s * 1000, |b| b.unix_ms);
    let seconds = (now.unix_ms.saturating_sub(began) as f64 / 1e3).max(1e-3);
    let was = before.map(|b| counted(subject, b)).unwrap_or_default();
    let line = |(key, one): (String, Counted)| {
        let was = was.get(&key);
        let of = |kind: &str| between(one.operations.get(kind), was.and_then(|w| w.operations.get(kind)));
        let (read, write) = (of("read"), of("write"));
        let others: Vec<Difference> = one.operations.keys().filter(|k| !matches!(k.as_str(), "read" | "write")).map(|k| of(k)).collect();
        let sum_ns = read.sum_ns + write.sum_ns + others.iter().map(|o| o.sum_ns).sum::<f64>();
        Line {
            name: one.name.clone(),
            reads_per_s: read.operations / seconds,
            writes_per_s: write.operations / seconds,
            others_per_s: others.iter().map(|o| o.operations).sum::<f64>() / seconds,
            read_bytes_per_s: read.bytes / seconds,
            write_bytes_per_s: write.bytes / seconds,
            read_p50_us: quantile_us(&read.buckets, 0.5),
            read_p99_us: quantile_us(&read.buckets, 0.99),
            write_p50_us: quantile_us(&write.buckets, 0.5),
            write_p99_us: quantile_us(&write.buckets, 0.99),
            // Little's law: what ended has waited so much in all. What has not ended yet is seen by how many there are.
            queue_depth: (sum_ns / 1e9 / seconds).max(if sum_ns == 0.0 { one.queue_depth.unwrap_or(0) as f64 } else { 0.0 }),
            throttled_per_s: one.throttled.saturating_sub(was.map_or(0, |w| w.throttled)) as f64 / seconds,
            errors_per_s: one.errors.saturating_sub(was.map_or(0, |w| w.errors)) as f64 / seconds,
        }
    };
    Report { unix_ms: now.unix_ms, seconds, lines: counted(subject, now).into_iter().map(line).collect() }
}

/// A number of things a second.
fn number(n: f64) -> String {
    if n == 0.0 {
        "0".into()
    } else if n < 10.0 {
        format!("{n:.1}")
    } else {
        format!("{n:.0}")
    }
}

fn latency(us: Option<f64>) -> String {
    match us {
        None => "-".into(),
        Some(us) if us < 1e3 => format!("{us:.0} µs"),
        Some(us) if us < 1e6 => format!("{:.1} ms", us / 1e3),
        Some(us) => format!("{:.1} s", us / 1e6),
    }
}

fn rows(subject: Subject, lines: &[Line]) -> Rows<'_, Line> {
    let name = match subject {
        Subject::Volume => "volume",
        Subject::Host => "host",
        Subject::Device => "device",
    };
    Rows::of(lines, format!("No {} did anything yet.", subject.plural()))
        .left(name, |l| l.name.clone())
        .right("reads/s", |l| number(l.reads_per_s))
        .right("writes/s", |l| number(l.writes_per_s))
        .right("others/s", |l| number(l.others_per_s))
        .right("read", |l| format!("{}/s", ByteSize(l.read_bytes_per_s as u64)))
        .right("written", |l| format!("{}/s", ByteSize(l.write_bytes_per_s as u64)))
        .right("read p50", |l| latency(l.read_p50_us))
        .right("p99", |l| latency(l.read_p99_us))
        .right("write p50", |l| latency(l.write_p50_us))
        .right("p99", |l| latency(l.write_p99_us))
        .right("queue", |l| number(l.queue_depth))
        .right("throttled/s", |l| number(l.throttled_per_s))
        .right("errors/s", |l| number(l.errors_per_s))
}

fn ask(session: &Session, subject: Subject, node: Option<&str>) -> Result<Statistics, Failure> {
    let node = node.map(|node| format!("&node={}", part(node))).unwrap_or_default();
    session.client.get(&format!("/statistics?of={}{node}", subject.plural()))
}

/// Prints report after report.
pub fn iostat(session: &Session, args: &IostatArgs) -> Done {
    let Plan { subject, every, count } = Plan::of(args)?;
    let node = args.node.as_deref();
    let mut before = every.map(|_| ask(session, subject, node)).transpose()?;
    let mut done = 0;
    while count.is_none_or(|count| done < count) {
        if let Some(every) = every {
            sleep(every);
        }
        let now = ask(session, subject, node)?;
        let report = report(subject, before.as_ref(), &now);
        if done > 0 {
            session.out.done("");
        }
        // One after the other: they come for as long as it runs.
        session.out.print_next(&report, |report| rows(subject, &report.lines).into());
        let _ = std::io::stdout().flush();
        (before, done) = (Some(now), done + 1);
    }
    Ok(())
}

/// The busiest, again and again, in place.
pub fn top(session: &Session, args: &IostatArgs) -> Done {
    let Plan { subject, every, count } = Plan::of(args)?;
    let (every, node) = (every.unwrap_or(Duration::from_secs(1)), args.node.as_deref());
    let in_place = std::io::stdout().is_terminal();
    // Elsewhere than on a terminal one report is all that anybody can use.
    let count = if in_place && args.what.len() < 3 { None } else { Some(count.unwrap_or(1)) };
    let mut before = ask(session, subject, node)?;
    let mut done = 0;
    while count.is_none_or(|count| done < count) {
        sleep(every);
        let now = ask(session, subject, node)?;
        let mut report = report(subject, Some(&before), &now);
        let busy = |l: &Line| l.reads_per_s + l.writes_per_s + l.others_per_s;
        report.lines.sort_by(|a, b| busy(b).total_cmp(&busy(a)).then_with(|| a.name.cmp(&b.name)));
        let room =
            ratatui::crossterm::terminal::size().map_or(TOP_LINES, |(_, lines)| usize::from(lines).saturating_sub(TOP_HEAD + 1).max(1));
        let all = report.lines.len();
        report.lines.truncate(if in_place { room } else { TOP_LINES });
        if in_place && !session.out.is_data() {
            print!("\x1b[H\x1b[2J");
        }
        let busiest = report.lines.len();
        session.out.print_next(&report, |report| {
            let head = format!("{} on {}, the busiest {busiest} of {all}; Ctrl-C ends it", subject.plural(), now.node);
            Page::new().line(head).rows(rows(subject, &report.lines))
        });
        let _ = std::io::stdout().flush();
        (before, done) = (now, done + 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::api::types::{LatencyBucket, VolumeStatistics};

    fn plan(line: &str) -> Result<Plan, String> {
        Plan::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_say_what_how_often_and_how_many_times() {
        let plan_of = |subject, every: Option<f64>, count| Ok(Plan { subject, every: every.map(Duration::from_secs_f64), count });
        assert_eq!(plan(""), plan_of(Subject::Volume, None, Some(1)));
        assert_eq!(plan("device"), plan_of(Subject::Device, None, Some(1)));
        assert_eq!(plan("host 2"), plan_of(Subject::Host, Some(2.0), None));
        assert_eq!(plan("0.5 3"), plan_of(Subject::Volume, Some(0.5), Some(3)));
        for wrong in ["disk", "volume 0", "volume fast", "1 0", "1 2 3", "volume 1 -1"] {
            assert!(plan(wrong).is_err(), "{wrong}");
        }
    }

    fn statistics(unix_ms: u64, reads: u64, slow: u64) -> Statistics {
        let buckets = [(100_000, reads - slow), (8_000_000, slow)];
        let read = OperationStatistics {
            operation: "read".into(),
            operations: reads,
            bytes: reads * 4096,
            errors: 0,
            latency_sum_ns: reads * 90_000,
            latency: buckets.map(|(up_to_ns, count)| LatencyBucket { up_to_ns, count }).into(),
        };
        let volume = VolumeStatistics {
            volume: Some("db".into()),
            id: Some("1".into()),
            queue_depth: 3,
            held: 0,
            throttled: reads / 10,
            operations: vec![read],
        };
        Statistics {
            node: "n".into(),
            unix_ms,
            started_unix_s: 10,
            volumes: vec![volume],
            hosts: vec![],
            devices: vec![],
            groups: vec![],
            machine: None,
        }
    }

    #[test]
    fn a_report_is_the_difference_of_two_answers() {
        let (before, now) = (statistics(20_000, 1000, 0), statistics(22_000, 3000, 40));
        let Report { seconds, lines, .. } = report(Subject::Volume, Some(&before), &now);
        let line = &lines[0];
        assert_eq!((seconds, line.reads_per_s, line.read_bytes_per_s, line.throttled_per_s), (2.0, 1000.0, 4_096_000.0, 100.0));
        assert_eq!((line.read_p50_us, line.read_p99_us, line.write_p50_us), (Some(100.0), Some(8000.0), None));
        assert!((line.queue_depth - 0.09).abs() < 1e-9, "2,000 of 90 µs in 2 s");
    }

    #[test]
    fn without_an_earlier_answer_of_the_same_daemon_it_counts_from_its_start() {
        let now = statistics(20_000, 1000, 0);
        let other = Statistics { started_unix_s: 9, ..statistics(19_000, 500, 0) };
        for before in [None, Some(&other)] {
            let Report { seconds, lines, .. } = report(Subject::Volume, before, &now);
            assert_eq!((seconds, lines[0].reads_per_s), (10.0, 100.0));
        }
    }

    #[test]
    fn a_volume_that_does_nothing_but_wait_shows_its_queue() {
        let before = statistics(20_000, 1000, 0);
        let now = Statistics { unix_ms: 21_000, ..before.clone() };
        assert_eq!(report(Subject::Volume, Some(&before), &now).lines[0].queue_depth, 3.0);
    }
}

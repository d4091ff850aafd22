//! Runs of every kind for tests, with figures like those of real storage: latencies with a long tail, a buffer that fills and is destaged.
//!
//! Invariants: the same call makes the same run.
//! Never: part of the program.

use crate::measure::noise::Noise;
use crate::measure::{Figures, Second, TargetSecond};
use crate::results::{Client, Machine, Measured, Published, Record, RunKind, RunState, VERSION};
use crate::run::{plan, verdict};
use crate::workload::profiles::Search;
use crate::workload::{Access, Arrivals, Skew, Spacing, Workload};
use std::path::Path;

/// Numbers that look random and are always the same.
pub struct Dice(pub u64);

impl Dice {
    /// From 0 to 1.
    pub fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    /// About normal.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.roll()).sum::<f64>() - 6.0
    }
}

/// `count` operations of `bytes`, around `us` microseconds, with a tail.
pub fn figures(dice: &mut Dice, count: u64, bytes: u64, us: f64) -> Figures {
    let mut f = Figures { operations: count, bytes: count * bytes, ..Figures::default() };
    // A sample of the latencies stands for all of them.
    let samples = count.min(4_000);
    for i in 0..samples {
        let tail = if dice.roll() < 0.004 { 4.0 + 12.0 * dice.roll() } else { 1.0 };
        let ns = us * 1000.0 * (0.28 * dice.normal()).exp() * tail;
        let n = count / samples + u64::from(i < count % samples);
        f.latency.record_n(ns as u64, n);
    }
    f
}

/// One case: `iops` operations a second of `workload`'s first size for `seconds`, around `us` microseconds.
pub fn case(workload: &Workload, labels: &[(&str, &str)], iops: f64, us: f64, seconds: u64) -> Measured {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (iops as u64) ^ ((us * 10.0) as u64) << 20);
    let stream = &workload.streams[0];
    let bytes = u64::from(stream.sizes[0].bytes);
    let count = (iops * seconds as f64) as u64;
    let reads = (count as f64 * stream.reads) as u64;
    Measured {
        engine: "native".into(),
        workload: workload.clone(),
        labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        disks: vec![("/dev/nvme1n1".into(), 1_600_000_000_000), ("/dev/nvme2n1".into(), 1_600_000_000_000)],
        began_unix_s: 1_795_335_780,
        warm_up_s: 10.0,
        measured_s: seconds as f64,
        cut_short: false,
        reads: figures(&mut dice, reads, bytes, us),
        writes: figures(&mut dice, count - reads, bytes, us * 1.6),
        trims: Figures::default(),
        streams: Vec::new(),
        verified: None,
        client_cpu_s: seconds as f64 * 0.8,
        target_cpu_s: Some(seconds as f64 * 1.7),
        seconds: series(&mut dice, stream.reads, bytes, iops, us, seconds),
        notes: Vec::new(),
        carried: 0,
        waiting: 0,
        noise: None,
        target_noise: None,
        clients: Vec::new(),
        flushes: Figures::default(),
    }
}

fn series(dice: &mut Dice, reads: f64, bytes: u64, iops: f64, us: f64, seconds: u64) -> Vec<Second> {
    let mut fill: f64 = 0.18;
    (-10..seconds as i64)
        .map(|at| {
            let warm = if at < 0 { 0.7 + 0.03 * (at + 10) as f64 } else { 1.0 };
            let stall = if at % 97 == 60 { 0.6 } else { 1.0 };
            let n = iops * warm * stall * (1.0 + 0.02 * dice.normal());
            let (r, w) = ((n * reads) as u64, (n * (1.0 - reads)) as u64);
            let destage = if fill > 0.3 { (w * bytes) as f64 * (fill - 0.3) * 3.0 } else { 0.0 };
            fill = (fill + ((w * bytes) as f64 - destage) / 60e9).clamp(0.0, 1.0);
            let slow = 1.0 / stall * (1.0 + 0.05 * dice.roll());
            Second {
                at_s: at as f64,
                reads: r,
                writes: w,
                read_bytes: r * bytes,
                written_bytes: w * bytes,
                errors: 0,
                p50_us: us * slow,
                p99_us: us * 2.4 * slow,
                max_us: us * (8.0 + 6.0 * dice.roll()) / stall,
                target: (reads < 1.0).then(|| TargetSecond {
                    buffer_fill: fill,
                    destaged_bytes: destage,
                    device_read_bytes: (r * bytes) as f64,
                    device_written_bytes: (w * bytes) as f64 * 1.05 + destage,
                    cores: 1.7,
                }),
            }
        })
        .collect()
}

/// Random access of one size.
pub fn random(name: &str, bytes: u32, reads: f64) -> Workload {
    Workload::simple(name, bytes, reads, Access::Random { skew: Skew::Uniform }, 4)
}

/// A run without cases yet.
pub fn record(kind: RunKind, title: &str, cases: usize) -> Record {
    Record {
        version: VERSION,
        kind,
        title: title.into(),
        state: RunState::Complete,
        command: ["basalt", "lab", "run", "easy-run", "--disk", "/dev/nvme1n1", "--title", "it's a test"].map(String::from).to_vec(),
        basalt: "0.1.0".into(),
        machine: Machine {
            processor: "AMD EPYC 7552 48-Core Processor".into(),
            processors: 96,
            memory_bytes: 256 << 30,
            kernel: "6.12.9".into(),
        },
        configuration: "[run]\nwarm_up_s = 10\nmeasure_s = 60\nseed = 1\n\n[[disk]]\npath = \"/dev/nvme1n1\"\n".into(),
        verdict: Vec::new(),
        published: Vec::new(),
        source: String::new(),
        cases,
        noise: Vec::new(),
        target_noise: Vec::new(),
        unwritten: None,
    }
}

/// The four cases of an easy run.
pub fn run() -> (Record, Vec<Measured>) {
    let sequential = Workload::simple("256 KiB sequential write", 262_144, 0.0, Access::Sequential { shared: false }, 4);
    let cases = vec![
        case(&random("4 KiB random 70/30", 4096, 0.7), &[], 121_000.0, 240.0, 60),
        case(&random("4 KiB random read", 4096, 1.0), &[], 232_000.0, 131.0, 60),
        case(&random("8 KiB random 50/50", 8192, 0.5), &[], 84_000.0, 350.0, 60),
        case(&sequential, &[], 4_100.0, 5_800.0, 60),
    ];
    (record(RunKind::Run, "Easy run on two NVMe drives", 4), cases)
}

/// A curve that breaks at 80 %.
pub fn curve() -> (Record, Vec<Measured>) {
    let base = random("70/30 32 KiB random", 32_768, 0.7);
    let mut cases = vec![case(&base, &[("load", "maximum")], 98_000.0, 2_600.0, 120)];
    for percent in 1..=10 {
        let asked = 9_800.0 * f64::from(percent);
        let mut w = base.clone();
        w.arrivals = Arrivals::Open { iops: asked, spacing: Spacing::Poisson };
        let share = f64::from(percent) / 10.0;
        let us = 210.0 / (1.04 - 0.9 * share) * if percent >= 8 { 4.0 } else { 1.0 };
        let delivered = asked * if percent >= 9 { 0.91 } else { 1.0 };
        cases.push(case(&w, &[("load", &format!("{} %", percent * 10))], delivered, us, 120));
    }
    (record(RunKind::Curve, "70/30 32 KiB curve", 11), cases)
}

/// A search whose latencies lie on both sides of a millisecond.
pub fn search() -> (Record, Vec<Measured>) {
    let mut config = crate::run::tests::example(RunKind::Run, "random-8k");
    config.workloads.truncate(1);
    config.search = Some(Search { iops_unit: 1000.0, mean_ms_max: Some(2.0), p99_ms_max: Some(5.0) });
    let (most, mut cases) = (90_000.0, Vec::new());
    while let Some(next) = plan::next(&config, &cases) {
        let asked = match next.workload.arrivals {
            Arrivals::Open { iops, .. } => iops,
            _ => most,
        };
        let iops = f64::min(asked, most);
        let us = 180.0 / (1.03 - iops / most);
        let labels: Vec<(&str, &str)> = next.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        cases.push(case(&next.workload, &labels, iops, us, 60));
    }
    let mut record = record(RunKind::Run, "The highest load within 5 ms", cases.len());
    record.verdict = verdict::of(&config, &record, &cases);
    (record, cases)
}

/// Depths and sizes.
pub fn sweep() -> (Record, Vec<Measured>) {
    let mut cases = Vec::new();
    for (size, text) in [(4096, "4 KiB"), (16_384, "16 KiB"), (65_536, "64 KiB")] {
        for depth in [1u32, 2, 4, 8, 16, 32] {
            let us = 90.0 + f64::from(size) / 200.0 + f64::from(depth * size) / 900.0;
            let labels = [("size", text), ("threads a disk", &depth.to_string())];
            cases.push(case(&random("random read", size, 1.0), &labels, f64::from(depth) * 1e6 / us, us, 10));
        }
    }
    (record(RunKind::Sweep, "Random read over size and depth", cases.len()), cases)
}

/// Two systems, five rounds, two loads; the second load shows no real difference.
pub fn compare() -> (Record, Vec<Measured>) {
    let mut cases = Vec::new();
    for (load, faster) in [("4 KiB random read", 1.12), ("4 KiB random write", 1.003)] {
        let w = random(load, 4096, if load.ends_with("read") { 1.0 } else { 0.0 });
        for round in 1..=5u32 {
            let drift = 1.0 + 0.015 * f64::from(round % 3);
            for (system, name, factor) in [("A", "fio", 1.0), ("B", "native", faster)] {
                let noise = 1.0 + 0.006 * (f64::from((round * 7 + u32::from(system == "B") * 3) % 5) - 2.0);
                let labels = [("system", system), ("name", name), ("round", &round.to_string())];
                cases.push(case(&w, &labels, 190_000.0 * drift * factor * noise, 160.0 / factor, 10));
            }
        }
    }
    (record(RunKind::Compare, "fio beside the native engine", cases.len()), cases)
}

/// Half an hour.
pub fn soak() -> (Record, Vec<Measured>) {
    let mut m = case(&random("8 KiB random 50/50", 8192, 0.5), &[], 61_000.0, 410.0, 1800);
    m.verified = Some(crate::results::Verified { checked: 30_000_000, wrong: 0, unknown: 0 });
    (record(RunKind::Soak, "Half an hour of 8 KiB", 1), vec![m])
}

/// A study beside published figures.
pub fn study() -> (Record, Vec<Measured>) {
    let mut r = record(RunKind::Study, "Namespaces under one drive", 8);
    r.source = "KIOXIA, namespaces under a virtual SAN, four disk groups".into();
    let mut cases = Vec::new();
    for (load, bytes, reads, published) in [
        ("4 KiB random read", 4096, 1.0, [232_483.0, 697_100.0, 693_480.5, 896_555.8]),
        ("8 KiB random 50/50", 8192, 0.5, [35_209.9, 236_972.6, 277_119.2, 421_026.9]),
    ] {
        for (layout, theirs) in ["none", "2", "5", "8"].into_iter().zip(published) {
            let ours: f64 = if reads == 1.0 { 880_000.0 } else { 410_000.0 };
            let mut m = case(&random(load, bytes, reads), &[("namespaces", layout)], ours * (1.0 + theirs / 5e7), 900.0, 20);
            m.engine = "simulated".into();
            m.notes = vec!["Modelled CM6 drives, scale 1 : 64.".into()];
            let labels = vec![("workload".into(), load.into()), ("namespaces".into(), layout.into())];
            let remark = if layout == "none" { "half the outstanding I/O of the others" } else { "" };
            r.published.push(Published { labels, figure: "IOPS".into(), value: theirs, remark: remark.into(), other_hardware: false });
            cases.push(m);
        }
    }
    (r, cases)
}

/// A run on three clients, one of them busy.
pub fn clients() -> (Record, Vec<Measured>) {
    let (mut record, mut cases) = run();
    record.title = "Easy run from three clients".into();
    for m in &mut cases {
        let third =
            |f: &Figures| figures(&mut Dice(f.operations | 1), f.operations / 3, f.bytes / f.operations.max(1), f.latency.mean_ns() / 1e3);
        for n in 1..=3 {
            let others = if n == 2 { 3.5 } else { 0.1 };
            let noise = Noise { seconds: 60.0, processors: 16, others, processes: vec![("backup".into(), others)], ..Noise::default() };
            m.clients.push(Client {
                name: format!("client{n}:4490"),
                disks: 2,
                measured_s: m.measured_s,
                cpu_s: m.client_cpu_s / 3.0,
                figures: third(&m.total()),
                noise: Some(noise),
            });
        }
        m.noise = None;
        m.target_noise = Some(Noise { seconds: 60.0, processors: 32, others: 0.3, load: Some(9.5), ..Noise::default() });
        m.notes.push("3 agents began together, within 0.2 ms.".into());
    }
    (record, cases)
}

/// Cases as the cache-tier study has them: two drives, two rules, two bases, ten loads.
pub fn tiers() -> (Record, Vec<Measured>) {
    let mut cases = Vec::new();
    for (cache, most) in [("NAND", 300e3), ("Optane", 450e3)] {
        for (rules, base) in
            [("published", "empty buffer"), ("published", "sustained"), ("smooth", "empty buffer"), ("smooth", "sustained")]
        {
            for percent in 1..=10 {
                let iops = most * f64::from(percent) / 10.0 + f64::from(cache.len() as u32 + rules.len() as u32 + base.len() as u32);
                let mut w = random("70/30 32 KiB random", 32_768, 0.7);
                w.arrivals = Arrivals::Open { iops, spacing: Spacing::Poisson };
                let (load, asked) = (format!("{} %", percent * 10), format!("{iops:.0}"));
                let labels = [("cache", cache), ("rules", rules), ("base", base), ("load", &*load), ("requested IOPS", &*asked)];
                cases.push(case(&w, &labels, iops, 900.0, 2));
            }
        }
    }
    let mut record = record(RunKind::Study, "tiers", cases.len());
    record.verdict = vec!["Optane, smooth rules hold.".into()];
    (record, cases)
}

/// Every kind of run, with a name for its folder.
pub fn all() -> Vec<(&'static str, (Record, Vec<Measured>))> {
    vec![
        ("run", run()),
        ("curve", curve()),
        ("search", search()),
        ("sweep", sweep()),
        ("compare", compare()),
        ("soak", soak()),
        ("study", study()),
        ("tiers", tiers()),
        ("clients", clients()),
    ]
}

/// Writes a run as the lab does.
pub fn write(folder: &Path, record: &Record, cases: &[Measured]) {
    std::fs::create_dir_all(folder).expect("a folder for the test");
    std::fs::write(folder.join("run.json"), serde_json::to_vec(record).expect("a record is JSON")).expect("run.json");
    for (i, c) in cases.iter().enumerate() {
        std::fs::write(folder.join(format!("case-{i:03}.json")), serde_json::to_vec(c).expect("a case is JSON")).expect("a case");
    }
}

//! fio job files.
//!
//! ```text
//! lines ──► sections ([global] fills in) ──► each job: a workload; equal jobs on several files: one workload on several disks
//! ```
//!
//! Invariants: an option is understood, or remarked on with its line.
//! Never: expands variables of the environment.

use super::imported::{Imported, ImportedPlan};
use super::units;
use crate::error::LabError;
use crate::workload::{Access, Arrivals, DEPTH_MAX, Data, GRAIN_BYTES, Hot, Size, Skew, Spacing, Stream, TRANSFER_BYTES_MAX, Workload};
use std::collections::BTreeMap;

/// Sections and options of one file.
const OPTIONS_MAX: usize = 10_000;
/// Seconds of a job that says nothing of its time.
const RUNTIME_S: f64 = 60.0;

/// Options that change nothing of a load here, or that the lab does anyway.
const WITHOUT_MEANING: [&str; 34] = [
    "group_reporting",
    "thread",
    "time_based",
    "name",
    "invalidate",
    "randrepeat",
    "norandommap",
    "random_generator",
    "refill_buffers",
    "scramble_buffers",
    "gtod_reduce",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "lat_percentiles",
    "clat_percentiles",
    "percentile_list",
    "log_avg_msec",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "hipri",
    "registerfiles",
    "fixedbufs",
    "sqthread_poll",
    "iodepth_batch",
    "iodepth_batch_submit",
    "iodepth_batch_complete",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "exitall",
    "create_on_open",
    "per_job_logs",
    "allrandrepeat",
];

/// Engines that keep one operation outstanding whatever iodepth says.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// Other names of options.
fn canonical(name: &str) -> String {
    match name.trim().to_ascii_lowercase().as_str() {
        "readwrite" => "rw".into(),
        "blocksize" => "bs".into(),
        "blocksize_range" => "bsrange".into(),
        "blockalign" => "ba".into(),
        "wait_for_previous" => "stonewall".into(),
        other => other.into(),
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Given {
    line: usize,
    text: String,
    value: String,
}

#[derive(Clone, Debug)]
struct Job {
    line: usize,
    name: String,
    options: BTreeMap<String, Given>,
}

struct Importer<'a> {
    place: &'a str,
    out: Imported,
}

/// Takes over the text of a job file.
pub fn import(text: &str, place: &str) -> Result<Imported, LabError> {
    let mut importer = Importer { place, out: Imported::new() };
    let jobs = importer.parse(text)?;
    let mut last: Option<(Workload, usize)> = None;
    for (i, job) in jobs.iter().enumerate() {
        let workload = importer.workload(job)?;
        importer.disks(job);
        let waits = job.options.contains_key("stonewall");
        let mut same = workload.clone();
        same.name.clear();
        same.description.clear();
        // Jobs that differ only in their file are one load on several disks.
        if let Some((before, plan)) = &last
            && !waits
            && *before == same
        {
            let name = importer.out.plans[*plan].name.clone();
            importer.out.remark(
                job.line,
                &format!("[{}]", job.name),
                format!("the same load as [{name}]: taken over as another disk of it"),
            );
            continue;
        }
        if i > 0 && !waits {
            importer.out.remark(
                job.line,
                &format!("[{}]", job.name),
                "fio runs it at the same time as the job before; here it runs after it",
            );
        }
        let plan = importer.plan(job)?;
        let name = importer.out.workload(workload, place, job.line)?;
        importer.out.plans.push(ImportedPlan { workloads: vec![name], ..plan });
        last = Some((same, importer.out.plans.len() - 1));
    }
    Ok(importer.out)
}

impl Importer<'_> {
    fn wrong<T>(&self, line: usize, problem: impl Into<String>) -> Result<T, LabError> {
        Err(LabError::Workload { place: format!("{}:{line}", self.place), problem: problem.into() })
    }

    fn parse(&mut self, text: &str) -> Result<Vec<Job>, LabError> {
        let mut jobs: Vec<Job> = Vec::new();
        let mut global: BTreeMap<String, Given> = BTreeMap::new();
        let mut section: Option<bool> = None;
        let mut options = 0;
        for (i, raw) in text.lines().enumerate() {
            let line = i + 1;
            let raw = raw.trim();
            if raw.is_empty() || raw.starts_with([';', '#']) {
                continue;
            }
            options += 1;
            if options > OPTIONS_MAX {
                return self.wrong(line, format!("the file has more than {OPTIONS_MAX} options"));
            }
            if let Some(rest) = raw.strip_prefix('[') {
                let Some(end) = rest.find(']') else { return self.wrong(line, format!("'{}' is no section; it lacks a ']'", short(raw))) };
                let name = rest[..end].trim();
                section = Some(name == "global");
                if name != "global" {
                    jobs.push(Job { line, name: name.into(), options: global.clone() });
                }
                continue;
            }
            let Some(is_global) = section else { return self.wrong(line, format!("'{}' stands before any [section]", short(raw))) };
            if raw.starts_with("include ") {
                self.out.remark(line, raw, "not followed: put the file's text in its place");
                continue;
            }
            let (key, value) = raw.split_once('=').map_or((raw, ""), |(k, v)| (k, v.trim()));
            let key = canonical(key);
            let given = Given { line, text: raw.into(), value: value.trim_matches('"').into() };
            if is_global {
                global.insert(key, given);
            } else if let Some(job) = jobs.last_mut() {
                job.options.insert(key, given);
            }
        }
        Ok(jobs)
    }

    fn disks(&mut self, job: &Job) {
        let Some(names) = job.options.get("filename") else { return };
        let size = job.options.get("size").and_then(|s| units::bytes(&s.value));
        for name in names.value.split(':').filter(|n| !n.is_empty()) {
            let disk = if name.starts_with("/dev/") { name.to_string() } else { size.map_or(name.to_string(), |s| format!("{name}:{s}")) };
            self.out.disk(&disk);
        }
    }

    fn plan(&self, job: &Job) -> Result<ImportedPlan, LabError> {
        let seconds = |key: &str, default: f64| match job.options.get(key) {
            None => Ok(default),
            Some(g) => match units::seconds(&g.value) {
                Some(v) => Ok(v),
                None => self.wrong(g.line, format!("'{}' is no time; write seconds, or 5m, or 1h", short(&g.text))),
            },
        };
        let (warm_up_s, measure_s) = (seconds("ramp_time", 0.0)?, seconds("runtime", RUNTIME_S)?);
        Ok(ImportedPlan { name: job.name.clone(), workloads: Vec::new(), warm_up_s, measure_s, curve: Vec::new() })
    }

    /// A number of an option, or its default.
    fn number<T: std::str::FromStr + PartialOrd>(
        &self,
        job: &Job,
        key: &str,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, LabError> {
        match job.options.get(key) {
            None => Ok(default),
            Some(g) => match g.value.parse() {
                Ok(v) if range.contains(&v) => Ok(v),
                _ => self.wrong(g.line, format!("'{}': this number is not understood or out of range", short(&g.text))),
            },
        }
    }

    fn workload(&mut self, job: &Job) -> Result<Workload, LabError> {
        self.unknown(job);
        let kind = self.kind(job)?;
        let jobs: u32 = self.number(job, "numjobs", 1, 1..=DEPTH_MAX)?;
        let depth = self.depth(job, jobs)?;
        let percent = |key: &str| job.options.get(key).map(|g| (g, units::share(&g.value)));
        let share = |o: Option<(&Given, Option<f64>)>| match o {
            None => Ok(0.0),
            Some((_, Some(v))) => Ok(v),
            Some((g, None)) => self.wrong(g.line, format!("'{}': a percentage from 0 to 100", short(&g.text))),
        };
        let mut data =
            Data { compressible: share(percent("buffer_compress_percentage"))?, duplicates: share(percent("dedupe_percentage"))? };
        if job.options.get("zero_buffers").is_some_and(|g| g.value != "0") {
            data.compressible = 1.0;
        }
        let asked = job.options.get("verify").cloned();
        let verify = job.options.get("verify").is_some_and(|g| !matches!(g.value.as_str(), "0" | "null" | "none"));
        if verify && let Some(g) = &asked {
            self.out.remark(g.line, &g.text, "taken over as our own way of verifying all data read, not this one");
        }
        let (working_set, working_set_bytes) = self.working_set(job);
        let streams = self.streams(job, kind)?;
        let mut w = Workload {
            name: job.name.clone(),
            description: job.options.get("description").map_or_else(|| format!("fio [{}]", job.name), |g| g.value.clone()),
            streams,
            arrivals: self.arrivals(job, jobs)?,
            depth,
            working_set,
            working_set_bytes,
            data,
            verify,
        };
        if let Some(g) = &asked {
            self.out.settle_verification(&mut w, g.line, &g.text);
        }
        Ok(w)
    }

    /// Remarks on what is not understood, and on what is not the same here.
    fn unknown(&mut self, job: &Job) {
        const KNOWN: [&str; 28] = [
            "rw",
            "rwmixread",
            "rwmixwrite",
            "bs",
            "bssplit",
            "bsrange",
            "ba",
            "iodepth",
            "numjobs",
            "size",
            "offset",
            "filename",
            "directory",
            "runtime",
            "ramp_time",
            "rate_iops",
            "rate_process",
            "random_distribution",
            "percentage_random",
            "verify",
            "buffer_compress_percentage",
            "dedupe_percentage",
            "zero_buffers",
            "ioengine",
            "direct",
            "stonewall",
            "description",
            "buffered",
        ];
        for (key, g) in &job.options {
            let why = match key.as_str() {
                k if WITHOUT_MEANING.contains(&k) => continue,
                "direct" if g.value == "0" => "the lab always goes round the page cache (direct=1)",
                "buffered" if g.value != "0" => "the lab always goes round the page cache (direct=1)",
                "directory" => "not taken over: name the disks on the command line",
                "bsrange" => "taken over as sizes from the smallest to the largest, each twice the one before",
                k if KNOWN.contains(&k) => continue,
                "loops" => "not taken over: a run goes for its time, over the disk again and again",
                "rate" => "not taken over: a rate is in operations a second here; divide by the block size",
                "thinktime" | "thinktime_blocks" => "not taken over: threads do not pause; a rate limit does the same for the storage",
                "fsync" | "fdatasync" if g.value.parse::<u32>().is_ok() => continue,
                "fsync" | "fdatasync" => "not taken over: a number of writes is expected",
                "sync" | "end_fsync" => "not taken over: the lab flushes after a number of writes (fsync=N) only",
                "io_size" | "number_ios" => "not taken over: a run ends after its time",
                "startdelay" => "not taken over: all begins at once, after the warm-up",
                _ => "not taken over: the lab does not know this option",
            };
            self.out.remark(g.line, &g.text, why);
        }
    }

    fn kind(&mut self, job: &Job) -> Result<AccessKind, LabError> {
        let Some(g) = job.options.get("rw") else { return Ok(AccessKind { random: false, reads: 1.0, trims: 0.0 }) };
        let (name, more) = g.value.split_once(':').map_or((g.value.as_str(), None), |(n, m)| (n, Some(m)));
        if more.is_some() {
            self.out.remark(g.line, &g.text, "the number behind the colon is not taken over: the pattern is");
        }
        let mix = match (job.options.get("rwmixread"), job.options.get("rwmixwrite")) {
            (Some(g), _) => units::share(&g.value).ok_or(g),
            (None, Some(g)) => units::share(&g.value).map(|w| 1.0 - w).ok_or(g),
            (None, None) => Ok(0.5),
        };
        let mix = match mix {
            Ok(mix) => mix,
            Err(g) => return self.wrong(g.line, format!("'{}': a percentage from 0 to 100", short(&g.text))),
        };
        Ok(match name.to_ascii_lowercase().as_str() {
            "read" => AccessKind { random: false, reads: 1.0, trims: 0.0 },
            "write" => AccessKind { random: false, reads: 0.0, trims: 0.0 },
            "trim" => AccessKind { random: false, reads: 0.0, trims: 1.0 },
            "randread" => AccessKind { random: true, reads: 1.0, trims: 0.0 },
            "randwrite" => AccessKind { random: true, reads: 0.0, trims: 0.0 },
            "randtrim" => AccessKind { random: true, reads: 0.0, trims: 1.0 },
            "rw" | "readwrite" => AccessKind { random: false, reads: mix, trims: 0.0 },
            "randrw" => AccessKind { random: true, reads: mix, trims: 0.0 },
            other => return self.wrong(g.line, format!("rw={other}: the lab knows read, write, trim, rw and the same with rand")),
        })
    }

    fn depth(&mut self, job: &Job, jobs: u32) -> Result<u32, LabError> {
        let mut depth: u32 = self.number(job, "iodepth", 1, 1..=DEPTH_MAX)?;
        let engine = job.options.get("ioengine").map_or("psync", |g| g.value.as_str());
        if depth > 1 && SYNCHRONOUS.contains(&engine) {
            if let Some(g) = job.options.get("iodepth") {
                self.out.remark(g.line, &g.text, format!("ioengine={engine} keeps one operation outstanding, so depth 1 is taken over"));
            }
            depth = 1;
        }
        match depth.checked_mul(jobs).filter(|d| *d <= DEPTH_MAX) {
            Some(all) => {
                if jobs > 1
                    && let Some(g) = job.options.get("numjobs")
                {
                    self.out.remark(
                        g.line,
                        &g.text,
                        format!("taken over as {all} threads a disk; in fio each job has a file of its own unless filename= is given"),
                    );
                }
                Ok(all)
            }
            None => self.wrong(job.line, format!("[{}]: iodepth times numjobs is more than {DEPTH_MAX} threads a disk", short(&job.name))),
        }
    }

    /// As a part of the disk, and in bytes of it.
    fn working_set(&mut self, job: &Job) -> (f64, Option<u64>) {
        let Some(g) = job.options.get("size") else { return (1.0, None) };
        if g.value.ends_with('%') {
            if let Some(share) = units::share(&g.value).filter(|s| *s > 0.0) {
                return (share, None);
            }
        } else if job.options.get("filename").is_some_and(|f| !f.value.starts_with("/dev/")) {
            self.out.remark(g.line, &g.text, "taken over as the size of the file");
            return (1.0, None);
        } else if let Some(bytes) = units::bytes(&g.value).filter(|b| *b >= GRAIN_BYTES) {
            let whole = bytes / GRAIN_BYTES * GRAIN_BYTES;
            if whole != bytes {
                self.out.remark(g.line, &g.text, format!("taken over as {whole} bytes: a working set is a multiple of {GRAIN_BYTES}"));
            }
            return (1.0, Some(whole));
        }
        self.out.remark(g.line, &g.text, "not taken over: give the working set in percent or bytes (--working-set)");
        (1.0, None)
    }

    fn arrivals(&mut self, job: &Job, jobs: u32) -> Result<Arrivals, LabError> {
        let Some(g) = job.options.get("rate_iops") else { return Ok(Arrivals::Closed) };
        let parts: Vec<&str> = g.value.split(',').filter(|p| !p.trim().is_empty()).collect();
        let sum: Option<f64> = parts.iter().map(|p| units::number(p)).sum();
        let Some(iops) = sum.filter(|v| *v > 0.0) else {
            return self.wrong(g.line, format!("'{}': a rate is a number above 0", short(&g.text)));
        };
        if parts.len() > 1 {
            self.out.remark(g.line, &g.text, "the rates of reads and writes are added; their shares come from rwmixread");
        }
        let iops = iops * f64::from(jobs);
        Ok(if job.options.get("rate_process").is_some_and(|p| p.value == "poisson") {
            Arrivals::Open { iops, spacing: Spacing::Poisson }
        } else {
            Arrivals::Limited { iops }
        })
    }

    /// One stream, or one for reads and one for writes where they differ in size or place.
    fn streams(&mut self, job: &Job, kind: AccessKind) -> Result<Vec<Stream>, LabError> {
        let sizes = self.sizes(job)?;
        let accesses = self.access(job, kind)?;
        let align_bytes = match job.options.get("ba") {
            None => 0,
            Some(g) => match units::transfer(g.value.split(',').next().unwrap_or("")).filter(|b| b % 512 == 0) {
                Some(b) => b,
                None => return self.wrong(g.line, format!("'{}': a multiple of 512 bytes", short(&g.text))),
            },
        };
        let area = self.area(job);
        let flush_every = self.flush_every(job);
        let stream = |name: &str, share: f64, sizes: &[Size], reads: f64, access: &Access| Stream {
            name: name.into(),
            share,
            sizes: sizes.to_vec(),
            reads,
            trims: kind.trims,
            flush_every: if reads + kind.trims < 1.0 { flush_every } else { 0 },
            access: access.clone(),
            align_bytes,
            area,
        };
        let both = kind.reads > 0.0 && kind.reads < 1.0;
        let other = if kind.reads > 0.0 { 0 } else { 1 };
        Ok(if both && (sizes[0] != sizes[1] || accesses[0] != accesses[1]) {
            vec![
                stream("reads", kind.reads, &sizes[0], 1.0, &accesses[0]),
                stream("writes", 1.0 - kind.reads, &sizes[1], 0.0, &accesses[1]),
            ]
        } else {
            vec![stream("", 1.0, &sizes[other], kind.reads, &accesses[other])]
        })
    }

    /// Writes of a thread between two flushes; 0: it never flushes. The lab's flush is what fio's fdatasync is.
    fn flush_every(&self, job: &Job) -> u32 {
        let every = ["fsync", "fdatasync"].iter().find_map(|k| job.options.get(*k)?.value.parse().ok());
        every.unwrap_or(0)
    }

    /// Sizes of reads and of writes.
    fn sizes(&mut self, job: &Job) -> Result<[Vec<Size>; 2], LabError> {
        let (key, g) = match ["bssplit", "bsrange", "bs"].iter().find_map(|k| job.options.get(*k).map(|g| (*k, g))) {
            Some(found) => found,
            None => return Ok([vec![Size { bytes: 4096, weight: 1.0 }], vec![Size { bytes: 4096, weight: 1.0 }]]),
        };
        let wrong = |what: &str| self.wrong(g.line, format!("'{}': {what}", short(&g.text)));
        let read = |text: &str| match key {
            "bssplit" => split_sizes(text),
            "bsrange" => text.split_once('-').and_then(|(a, b)| Some((units::transfer(a)?, units::transfer(b)?))).and_then(|(a, b)| {
                let list: Vec<Size> = std::iter::successors(Some(a), |s| s.checked_mul(2))
                    .take_while(|s| *s <= b && *s > 0)
                    .take(24)
                    .map(|bytes| Size { bytes, weight: 1.0 })
                    .collect();
                (!list.is_empty()).then_some(list)
            }),
            _ => units::transfer(text).map(|bytes| vec![Size { bytes, weight: 1.0 }]),
        };
        let mut parts = g.value.split(',');
        let Some(reads) = read(parts.next().unwrap_or("")) else {
            return wrong("sizes are written as 4k (bs), 4k-64k (bsrange) or 4k/30:64k/70 (bssplit)");
        };
        let writes = match parts.next().map(str::trim).filter(|p| !p.is_empty()) {
            None => reads.clone(),
            Some(text) => match read(text) {
                Some(sizes) => sizes,
                None => return wrong("the sizes of writes are not understood"),
            },
        };
        if reads.iter().chain(&writes).any(|s| s.bytes == 0 || s.bytes % 512 != 0 || s.bytes > TRANSFER_BYTES_MAX) {
            return wrong("sizes are multiples of 512 bytes, at most 16 MiB");
        }
        Ok([reads, writes])
    }

    /// Where reads and writes go.
    fn access(&mut self, job: &Job, kind: AccessKind) -> Result<[Access; 2], LabError> {
        let same = |a: Access| [a.clone(), a];
        if !kind.random {
            return Ok(same(Access::Sequential { shared: false }));
        }
        if let Some(g) = job.options.get("percentage_random") {
            let first = g.value.split(',').next().unwrap_or("");
            let Some(seeks) = units::share(first) else {
                return self.wrong(g.line, format!("'{}': a percentage from 0 to 100", short(&g.text)));
            };
            if first.len() != g.value.len() {
                self.out.remark(g.line, &g.text, "the first value is taken over for all operations");
            }
            if seeks < 1.0 {
                if let Some(d) = job.options.get("random_distribution").filter(|d| d.value != "random") {
                    self.out.remark(d.line, &d.text, "not taken over: a skew and percentage_random do not go together here");
                }
                return Ok(same(Access::Seek { seeks }));
            }
        }
        let Some(g) = job.options.get("random_distribution") else { return Ok(same(Access::Random { skew: Skew::Uniform })) };
        let (name, rest) = g.value.split_once(':').unwrap_or((&g.value, ""));
        let uniform = Access::Random { skew: Skew::Uniform };
        Ok(match name {
            "random" => same(uniform),
            "zipf" => match rest.split(':').next().unwrap_or("").parse::<f64>() {
                Ok(theta) if theta > 0.0 && theta < 10.0 && theta != 1.0 => same(Access::Random { skew: Skew::Zipf { theta } }),
                _ => return self.wrong(g.line, format!("'{}': zipf's theta is above 0, below 10 and not 1", short(&g.text))),
            },
            "zoned" => {
                let mut sides = rest.split(',');
                let Some(reads) = zones(sides.next().unwrap_or("")) else {
                    return self.wrong(
                        g.line,
                        format!("'{}': zones are written as operations/space in percent, as 50/5:30/15:20/80", short(&g.text)),
                    );
                };
                let writes = sides.next().and_then(zones).unwrap_or_else(|| reads.clone());
                [Access::Random { skew: reads }, Access::Random { skew: writes }]
            }
            other => {
                self.out.remark(
                    g.line,
                    &g.text,
                    format!("{other} has no counterpart: uniform is taken over; zipf or hot ranges come near it"),
                );
                same(uniform)
            }
        })
    }

    /// offset= in percent: the part of the disk from there on.
    fn area(&mut self, job: &Job) -> (f64, f64) {
        match job.options.get("offset") {
            Some(g) if g.value.ends_with('%') => match units::share(&g.value) {
                Some(from) if from < 1.0 => (from, 1.0),
                _ => (0.0, 1.0),
            },
            Some(g) if g.value != "0" => {
                self.out.remark(g.line, &g.text, "not taken over: give the offset in percent, or the area of the stream in the TOML");
                (0.0, 1.0)
            }
            _ => (0.0, 1.0),
        }
    }
}

/// What rw= says.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AccessKind {
    random: bool,
    reads: f64,
    trims: f64,
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// `4k/30:64k/30:32k/40`; what has no share divides the rest.
fn split_sizes(text: &str) -> Option<Vec<Size>> {
    let mut list: Vec<(u32, Option<f64>)> = Vec::new();
    for part in text.split(':').take(64) {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let share = if share.trim().is_empty() { None } else { Some(units::share(share)?) };
        list.push((units::transfer(size)?, share));
    }
    let rest = (1.0 - list.iter().filter_map(|l| l.1).sum::<f64>()).max(0.0);
    let open = list.iter().filter(|l| l.1.is_none()).count().max(1) as f64;
    let sizes: Vec<Size> =
        list.into_iter().map(|(bytes, share)| Size { bytes, weight: share.unwrap_or(rest / open) }).filter(|s| s.weight > 0.0).collect();
    (!sizes.is_empty()).then_some(sizes)
}

/// `50/5:30/15:20/80`: share of operations and of space; the last zone is what is left.
fn zones(text: &str) -> Option<Skew> {
    let mut ranges = Vec::new();
    let (mut operations, mut space) = (0.0, 0.0);
    let parts: Vec<&str> = text.split(':').filter(|p| !p.trim().is_empty()).take(64).collect();
    for (i, part) in parts.iter().enumerate() {
        let (o, s) = part.split_once('/')?;
        let o = if o.trim().is_empty() { 1.0 - operations } else { units::share(o)? };
        let s = if s.trim().is_empty() { 1.0 - space } else { units::share(s)? };
        operations += o;
        space += s;
        if space > 1.0 + 1e-9 || operations > 1.0 + 1e-9 {
            return None;
        }
        // The rest of the space is where the rest of the operations go.
        if i + 1 < parts.len() || space < 1.0 - 1e-9 {
            ranges.push(Hot { space: s, operations: o });
        }
    }
    let sound = ranges.iter().all(|h| h.space > 0.0 && h.space < 1.0) && ranges.iter().map(|h| h.space).sum::<f64>() < 1.0 - 1e-9;
    match (ranges.is_empty(), sound) {
        (true, _) => (!parts.is_empty()).then_some(Skew::Uniform),
        (false, true) => Some(Skew::Hot { ranges }),
        (false, false) => None,
    }
}

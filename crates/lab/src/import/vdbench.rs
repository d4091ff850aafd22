//! vdbench parameter files for raw devices: SD, WD and RD.
//!
//! ```text
//! lines ──► definitions (hd, sd, wd, rd; `default` fills in) ──► each rd: loops × its wds ──► workloads
//! ```
//!
//! Invariants: a parameter is understood, or remarked on with its line.
//! Never: file system loads (fsd, fwd); they are no block loads.

use super::imported::{Imported, ImportedPlan};
use super::units;
use crate::error::LabError;
use crate::workload::{Access, Arrivals, Data, Hot, Size, Skew, Spacing, Stream, Workload};
use std::collections::BTreeMap;

/// Definitions and values of one file.
const DEFINITIONS_MAX: usize = 10_000;
/// Sizes that a range of sizes becomes.
const RANGE_SIZES_MAX: u64 = 64;

/// Parameters that change nothing of a load here.
const WITHOUT_MEANING: [&str; 19] = [
    "host",
    "interval",
    "openflags",
    "lun",
    "size",
    "count",
    "shell",
    "user",
    "system",
    "vdbench",
    "jvms",
    "clients",
    "pause",
    "messagescan",
    "data_errors",
    "journal",
    "report",
    "histogram",
    "concatenate",
];

/// What is understood of an sd, a wd, an rd and of everything else.
const OF_SD: [&str; 3] = ["threads", "hitarea", "range"];
const OF_WD: [&str; 10] = ["sd", "xfersize", "rdpct", "seekpct", "skew", "range", "rhpct", "whpct", "hitarea", "threads"];
const OF_RD: [&str; 15] = [
    "wd",
    "fwd",
    "iorate",
    "elapsed",
    "warmup",
    "curve",
    "distribution",
    "threads",
    "xfersize",
    "rdpct",
    "seekpct",
    "forthreads",
    "forxfersize",
    "forrdpct",
    "forseekpct",
];
const GENERAL: [&str; 3] = ["compratio", "dedupratio", "validate"];
/// What begins a definition.
const KINDS: [&str; 6] = ["hd", "sd", "wd", "rd", "fsd", "include"];

/// Every name that can be abbreviated.
fn names() -> impl Iterator<Item = &'static str> {
    let lists: [&[&'static str]; 6] = [&OF_SD, &OF_WD, &OF_RD, &GENERAL, &KINDS, &WITHOUT_MEANING];
    lists.into_iter().flatten().copied()
}

/// A parameter: its values and where they stand.
#[derive(Clone, Debug, PartialEq)]
struct Given {
    line: usize,
    text: String,
    values: Vec<String>,
}

impl Given {
    fn first(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }
}

/// One definition: `wd=name,...`.
#[derive(Clone, Debug, PartialEq)]
struct Definition {
    line: usize,
    name: String,
    parameters: BTreeMap<String, Given>,
}

/// A whole file.
#[derive(Debug, Default)]
struct Parsed {
    sds: Vec<Definition>,
    wds: Vec<Definition>,
    rds: Vec<Definition>,
    general: BTreeMap<String, Given>,
}

struct Importer<'a> {
    place: &'a str,
    out: Imported,
}

/// Takes over the text of a parameter file.
pub fn import(text: &str, place: &str) -> Result<Imported, LabError> {
    let mut importer = Importer { place, out: Imported::new() };
    let parsed = importer.parse(text)?;
    importer.disks(&parsed);
    for rd in &parsed.rds {
        importer.run(rd, &parsed)?;
    }
    Ok(importer.out)
}

/// Lines that belong together, with the number of the first: a comma at the end goes on; after a blank follows a comment.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut list: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['*', '#', '/']) {
            continue;
        }
        if !open && line.to_ascii_lowercase().starts_with("eof") {
            break;
        }
        let words = line.split_whitespace().next().unwrap_or_default();
        match list.last_mut() {
            Some(last) if open => last.1.push_str(words),
            _ => list.push((i + 1, words.into())),
        }
        open = words.ends_with(',');
    }
    list
}

/// Parts between commas that stand outside of parentheses and quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut quoted, mut from) = (Vec::new(), 0usize, false, 0);
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            ',' if depth == 0 && !quoted => {
                parts.push(&text[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).filter(|p| !p.is_empty()).collect()
}

impl Importer<'_> {
    fn wrong<T>(&self, line: usize, problem: impl Into<String>) -> Result<T, LabError> {
        Err(LabError::Workload { place: format!("{}:{line}", self.place), problem: problem.into() })
    }

    /// The whole name of a parameter: abbreviations are allowed where they are unique.
    fn key(name: &str) -> String {
        let name = name.trim().to_ascii_lowercase();
        if name.len() < 2 || names().any(|n| n == name) {
            return name;
        }
        let mut fits: Vec<&str> = names().filter(|n| n.starts_with(&name)).collect();
        fits.sort_unstable();
        fits.dedup();
        if let [one] = fits[..] { one.into() } else { name }
    }

    fn parse(&mut self, text: &str) -> Result<Parsed, LabError> {
        let mut parsed = Parsed::default();
        let mut defaults: BTreeMap<String, BTreeMap<String, Given>> = BTreeMap::new();
        let mut all = 0;
        for (line, text) in logical_lines(text) {
            let mut parameters = BTreeMap::new();
            let mut first = None;
            for part in split(&text) {
                let Some((key, value)) = part.split_once('=') else {
                    return self.wrong(line, format!("'{}' is no parameter=value", part.chars().take(80).collect::<String>()));
                };
                let key = Self::key(key);
                let value = value.trim();
                let inner = value.strip_prefix('(').map(|v| v.strip_suffix(')').unwrap_or(v)).unwrap_or(value);
                let values: Vec<String> = split(inner).into_iter().map(|v| v.trim_matches('"').to_string()).collect();
                all += values.len().max(1);
                if all > DEFINITIONS_MAX {
                    return self.wrong(line, format!("the file has more than {DEFINITIONS_MAX} values"));
                }
                if first.is_none() {
                    first = Some(key.clone());
                }
                parameters.insert(key, Given { line, text: part.into(), values });
            }
            let Some(kind) = first else { continue };
            self.definition(line, &kind, parameters, &mut parsed, &mut defaults);
        }
        Ok(parsed)
    }

    fn definition(
        &mut self,
        line: usize,
        kind: &str,
        mut parameters: BTreeMap<String, Given>,
        parsed: &mut Parsed,
        defaults: &mut BTreeMap<String, BTreeMap<String, Given>>,
    ) {
        let text = parameters.get(kind).map_or(String::new(), |g| g.text.clone());
        match kind {
            "sd" | "wd" | "rd" => {}
            "hd" => {
                let name = parameters.get("hd").map_or("", Given::first).to_string();
                if name != "localhost" && name != "default" {
                    self.out.remark(line, &text, "other hosts are not taken over: the lab loads from the machine that it runs on");
                }
                return;
            }
            "fsd" | "fwd" => {
                self.out.remark(line, &text, "loads on files and directories are not taken over: the lab loads block devices");
                return;
            }
            "include" => {
                self.out.remark(line, &text, "not followed: put the file's text in its place");
                return;
            }
            _ => {
                for (key, given) in parameters {
                    if !GENERAL.contains(&key.as_str()) && !WITHOUT_MEANING.contains(&key.as_str()) {
                        self.out.remark(given.line, &given.text, "not taken over: this general parameter has no counterpart here");
                    }
                    parsed.general.insert(key, given);
                }
                return;
            }
        }
        let name = parameters.remove(kind).map_or_else(String::new, |g| g.first().to_string());
        if name == "default" {
            defaults.entry(kind.into()).or_default().append(&mut parameters);
            return;
        }
        for (key, given) in defaults.get(kind).into_iter().flatten() {
            parameters.entry(key.clone()).or_insert_with(|| given.clone());
        }
        let known: &[&str] = match kind {
            "sd" => &OF_SD,
            "wd" => &OF_WD,
            _ => &OF_RD,
        };
        for (key, given) in &parameters {
            if !known.contains(&key.as_str()) && !WITHOUT_MEANING.contains(&key.as_str()) {
                let why = match key.as_str() {
                    "iorate" | "priority" => "not taken over: a rate belongs to a whole workload here, its streams have shares of it",
                    "sd" => "not taken over: every stream goes to all disks of the run",
                    "hotband" => "a band that favours low addresses has no counterpart; write hot ranges in the TOML instead",
                    "stride" | "streams" => "not taken over: runs are one for each thread here, without gaps",
                    "maxdata" | "stopcurve" => "not taken over: a run ends after its time",
                    _ => "not taken over: the lab does not know this parameter",
                };
                self.out.remark(given.line, &given.text, why);
            }
        }
        let definition = Definition { line, name, parameters };
        match kind {
            "sd" => parsed.sds.push(definition),
            "wd" => parsed.wds.push(definition),
            _ => parsed.rds.push(definition),
        }
    }

    fn disks(&mut self, parsed: &Parsed) {
        for sd in &parsed.sds {
            if let Some(lun) = sd.parameters.get("lun") {
                let size = sd.parameters.get("size").and_then(|s| units::bytes(s.first()));
                let lun = lun.first();
                let disk = if lun.starts_with("/dev/") { lun.to_string() } else { size.map_or(lun.to_string(), |s| format!("{lun}:{s}")) };
                self.out.disk(&disk);
            }
        }
    }

    fn run(&mut self, rd: &Definition, parsed: &Parsed) -> Result<(), LabError> {
        let p = &rd.parameters;
        if p.contains_key("fwd") {
            self.out.remark(rd.line, &format!("rd={}", rd.name), "runs of file system loads are not taken over");
            return Ok(());
        }
        let wds = self.chosen(rd, parsed)?;
        let seconds = |key: &str, default: f64| match p.get(key) {
            None => Ok(default),
            Some(g) => match units::seconds(g.first()) {
                Some(v) => Ok(v),
                None => self.wrong(g.line, format!("'{}' is no time; write seconds, or 5m, or 1h", g.text)),
            },
        };
        let (elapsed, warm_up) = (seconds("elapsed", 30.0)?, seconds("warmup", 0.0)?);
        let (rates, curve) = self.rates(rd)?;
        let mut plan = ImportedPlan { name: rd.name.clone(), workloads: Vec::new(), warm_up_s: warm_up, measure_s: elapsed, curve };
        let none = vec![String::new()];
        let list = |key: &str, other: &str| p.get(key).or_else(|| p.get(other)).map_or_else(|| none.clone(), |g| g.values.clone());
        // A size in parentheses of forxfersize is one value of the loop; xfersize of an RD may be a mix.
        let sizes = p.get("forxfersize").map_or_else(|| none.clone(), |g| g.values.clone());
        for size in &sizes {
            for reads in &list("forrdpct", "rdpct") {
                for seeks in &list("forseekpct", "seekpct") {
                    for threads in &list("forthreads", "threads") {
                        for rate in &rates {
                            let turn = Turn { size, reads, seeks, threads, rate: *rate };
                            let w = self.workload(rd, &wds, parsed, &turn)?;
                            let name = self.out.workload(w, self.place, rd.line)?;
                            plan.workloads.push(name);
                        }
                    }
                }
            }
        }
        self.out.plans.push(plan);
        Ok(())
    }

    /// The WDs that an RD names, or all.
    fn chosen<'p>(&self, rd: &Definition, parsed: &'p Parsed) -> Result<Vec<&'p Definition>, LabError> {
        let Some(given) = rd.parameters.get("wd") else { return Ok(parsed.wds.iter().collect()) };
        let mut list: Vec<&Definition> = Vec::new();
        for pattern in &given.values {
            let fits = |name: &str| pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start));
            let before = list.len();
            list.extend(parsed.wds.iter().filter(|w| fits(&w.name)));
            if list.len() == before {
                return self.wrong(given.line, format!("rd={}: there is no wd={pattern} before it", rd.name));
            }
        }
        if list.len() > crate::workload::STREAMS_MAX {
            return self.wrong(given.line, format!("rd={} mixes more than {} workloads", rd.name, crate::workload::STREAMS_MAX));
        }
        Ok(list)
    }

    /// The rates of an RD: None is as fast as it goes. And the points of its curve.
    fn rates(&mut self, rd: &Definition) -> Result<(Vec<Option<f64>>, Vec<f64>), LabError> {
        let mut rates = Vec::new();
        let mut curve = Vec::new();
        let given = rd.parameters.get("iorate");
        for value in given.map_or(&[][..], |g| &g.values) {
            match (value.to_ascii_lowercase().as_str(), units::number(value)) {
                ("max", _) => rates.push(None),
                ("curve", _) => {
                    rates.push(None);
                    curve = (1..=10).map(|i| f64::from(i) * 10.0).collect();
                }
                (_, Some(v)) if v > 0.0 => rates.push(Some(v)),
                _ => {
                    let g = given.map_or((rd.line, String::new()), |g| (g.line, g.text.clone()));
                    return self
                        .wrong(g.0, format!("'{}': a rate is a number above 0, max or curve; ranges with a step are not read", g.1));
                }
            }
        }
        if let (Some(points), false) = (rd.parameters.get("curve"), curve.is_empty()) {
            let read: Option<Vec<f64>> = points.values.iter().map(|v| units::number(v).filter(|v| *v > 0.0 && *v <= 100.0)).collect();
            match read {
                Some(list) if !list.is_empty() => curve = list,
                _ => return self.wrong(points.line, format!("'{}': points of a curve are percentages above 0, at most 100", points.text)),
            }
        }
        if rates.is_empty() {
            self.out.remark(rd.line, &format!("rd={}", rd.name), "no iorate= is given; taken as iorate=max");
            rates.push(None);
        }
        Ok((rates, curve))
    }

    fn workload(&mut self, rd: &Definition, wds: &[&Definition], parsed: &Parsed, turn: &Turn) -> Result<Workload, LabError> {
        let Some(first) = wds.first() else { return self.wrong(rd.line, format!("rd={} has no wd= before it", rd.name)) };
        let mut streams = Vec::new();
        let skews: Vec<Option<f64>> = wds.iter().map(|w| w.parameters.get("skew").and_then(|g| units::share(g.first()))).collect();
        let rest = (1.0 - skews.iter().flatten().sum::<f64>()).max(0.0);
        let open = skews.iter().filter(|s| s.is_none()).count();
        for (wd, skew) in wds.iter().zip(&skews) {
            let share = skew.unwrap_or(rest / open.max(1) as f64);
            if share <= 0.0 {
                self.out.remark(wd.line, &format!("wd={}", wd.name), "its share is 0, so it is left out");
                continue;
            }
            streams.push(self.stream(wd, rd, parsed, share, turn)?);
        }
        if streams.is_empty() {
            return self.wrong(rd.line, format!("rd={}: nothing is left to do", rd.name));
        }
        if wds.iter().any(|w| w.parameters.get("sd") != first.parameters.get("sd")) {
            self.out.remark(
                rd.line,
                &format!("rd={}", rd.name),
                "its wds use different sds; here every stream goes to all disks of the run",
            );
        }
        let mut w = Workload {
            name: turn.name(&rd.name),
            description: format!("vdbench {}", wds.iter().map(|w| format!("wd={}", w.name)).collect::<Vec<_>>().join(", ")),
            streams,
            arrivals: self.arrivals(rd, turn)?,
            depth: self.depth(rd, wds, parsed, turn)?,
            working_set: 1.0,
            working_set_bytes: None,
            data: self.data(parsed)?,
            verify: parsed.general.get("validate").is_some_and(|g| g.first().starts_with('y')),
        };
        if let Some(g) = parsed.general.get("validate") {
            self.out.settle_verification(&mut w, g.line, &g.text);
        }
        Ok(w)
    }

    fn arrivals(&mut self, rd: &Definition, turn: &Turn) -> Result<Arrivals, LabError> {
        let Some(iops) = turn.rate else { return Ok(Arrivals::Closed) };
        let mut spacing = Spacing::Poisson;
        if let Some(g) = rd.parameters.get("distribution") {
            match g.first().chars().next() {
                Some('e') => {}
                Some('d') => spacing = Spacing::Fixed,
                Some('u') => self.out.remark(g.line, &g.text, "uniform gaps have no counterpart; exponential ones are taken"),
                _ => return self.wrong(g.line, format!("'{}': a distribution is exponential, uniform or deterministic", g.text)),
            }
        }
        Ok(Arrivals::Open { iops, spacing })
    }

    /// Threads a disk: of the loop, the RD, the WD or the SD; vdbench's default is 8.
    fn depth(&self, rd: &Definition, wds: &[&Definition], parsed: &Parsed, turn: &Turn) -> Result<u32, LabError> {
        let of = |d: &Definition| d.parameters.get("threads").map(|g| (g.line, g.first().to_string()));
        let given = if turn.threads.is_empty() {
            wds.iter().find_map(|w| of(w)).or_else(|| parsed.sds.iter().find_map(of))
        } else {
            Some((rd.line, turn.threads.to_string()))
        };
        match given {
            None => Ok(8),
            Some((line, text)) => match text.parse::<u32>() {
                Ok(n) if (1..=crate::workload::DEPTH_MAX).contains(&n) => Ok(n),
                _ => self.wrong(line, format!("threads={text}: a disk has 1 to {} threads", crate::workload::DEPTH_MAX)),
            },
        }
    }

    fn data(&self, parsed: &Parsed) -> Result<Data, LabError> {
        let ratio = |key: &str| match parsed.general.get(key) {
            None => Ok(0.0),
            Some(g) => match units::number(g.first()) {
                Some(v) if v >= 1.0 => Ok(1.0 - 1.0 / v),
                _ => self.wrong(g.line, format!("'{}': a ratio is at least 1", g.text)),
            },
        };
        Ok(Data { compressible: ratio("compratio")?, duplicates: ratio("dedupratio")? })
    }

    fn stream(&mut self, wd: &Definition, rd: &Definition, parsed: &Parsed, share: f64, turn: &Turn) -> Result<Stream, LabError> {
        let p = &wd.parameters;
        let sizes = if !turn.size.is_empty() {
            self.sizes(rd.line, std::slice::from_ref(&turn.size.to_string()))?
        } else if let Some(g) = rd.parameters.get("xfersize").or_else(|| p.get("xfersize")) {
            self.sizes(g.line, &g.values)?
        } else {
            vec![Size { bytes: 4096, weight: 1.0 }]
        };
        let reads = if turn.reads.is_empty() { p.get("rdpct").map_or("100", Given::first) } else { turn.reads };
        let Some(reads) = units::share(reads) else { return self.wrong(wd.line, format!("rdpct={reads}: a percentage from 0 to 100")) };
        let seeks = if turn.seeks.is_empty() { p.get("seekpct").map_or("100", Given::first) } else { turn.seeks };
        let mut access = match seeks.to_ascii_lowercase().as_str() {
            "random" | "rand" => Access::Random { skew: Skew::Uniform },
            "seq" | "sequential" | "seqnz" => Access::Sequential { shared: false },
            "eof" => {
                self.out.remark(
                    wd.line,
                    "seekpct=eof",
                    "the run ends after its time, not at the end of the disk; sequential is taken over",
                );
                Access::Sequential { shared: false }
            }
            text => match units::share(text) {
                Some(1.0) => Access::Random { skew: Skew::Uniform },
                Some(0.0) => Access::Sequential { shared: false },
                Some(seeks) => Access::Seek { seeks },
                None => return self.wrong(wd.line, format!("seekpct={text}: a percentage, random, seq or eof")),
            },
        };
        self.hits(wd, parsed, &mut access);
        let area = self.area(wd, parsed);
        Ok(Stream { name: wd.name.clone(), share, sizes, reads, trims: 0.0, flush_every: 0, access, align_bytes: 0, area })
    }

    /// One size, a mix (size, percent, ...) or a range (smallest, largest, step).
    fn sizes(&mut self, line: usize, values: &[String]) -> Result<Vec<Size>, LabError> {
        let wrong = |what: &str| self.wrong(line, format!("xfersize={}: {what}", values.join(",")));
        let all: Option<Vec<u64>> = values.iter().map(|v| units::bytes(v)).collect();
        let size = |bytes: u64, weight: f64| u32::try_from(bytes).ok().map(|bytes| Size { bytes, weight });
        let sizes: Option<Vec<Size>> = match values {
            [one] => units::transfer(one).map(|bytes| vec![Size { bytes, weight: 1.0 }]),
            [_, _, _] => match all.as_deref() {
                Some(&[low, high, step]) if step > 0 && low > 0 && low <= high && (high - low) / step < RANGE_SIZES_MAX => {
                    (0..=(high - low) / step).map(|i| size(low + i * step, 1.0)).collect()
                }
                _ => return wrong("a range is (smallest,largest,step) with at most 64 steps"),
            },
            list if list.len() % 2 == 0 && !list.is_empty() => {
                let pairs = list.chunks(2).map(|p| units::transfer(&p[0]).zip(units::share(&p[1])).filter(|p| p.1 > 0.0));
                pairs.map(|p| p.map(|(bytes, weight)| Size { bytes, weight })).collect()
            }
            _ => None,
        };
        match sizes {
            Some(s) if s.iter().all(|s| s.bytes > 0 && s.bytes % 512 == 0 && s.bytes <= crate::workload::TRANSFER_BYTES_MAX) => Ok(s),
            Some(_) => wrong("sizes are multiples of 512 bytes, at most 16 MiB"),
            None => wrong("a size (4k), a mix (4k,30,8k,70) or a range (4k,64k,4k)"),
        }
    }

    /// rhpct and whpct: operations that go to a small area again and again.
    fn hits(&mut self, wd: &Definition, parsed: &Parsed, access: &mut Access) {
        let p = &wd.parameters;
        let share = |key: &str| p.get(key).and_then(|g| units::share(g.first())).filter(|s| *s > 0.0);
        let (reads, writes) = (share("rhpct"), share("whpct"));
        let Some(g) = p.get("rhpct").or_else(|| p.get("whpct")) else { return };
        if reads.is_none() && writes.is_none() {
            return;
        }
        let sd = |key: &str| parsed.sds.iter().find_map(|sd| sd.parameters.get(key)).and_then(|g| units::bytes(g.first()));
        let hit = p.get("hitarea").and_then(|g| units::bytes(g.first())).or_else(|| sd("hitarea")).unwrap_or(1 << 20);
        match (access, reads == writes, sd("size")) {
            (Access::Random { skew }, true, Some(size)) if hit > 0 && hit < size => {
                let hot = Hot { space: hit as f64 / size as f64, operations: reads.unwrap_or(0.0) };
                *skew = Skew::Hot { ranges: vec![hot] };
            }
            (_, false, _) => {
                self.out.remark(g.line, &g.text, "not taken over: hits that differ for reads and writes; write two streams in the TOML")
            }
            (_, _, None) => self.out.remark(g.line, &g.text, "not taken over: without size= of the sd the part of the disk is not known"),
            _ => self.out.remark(g.line, &g.text, "not taken over: hits go with random access only"),
        }
    }

    /// range= of the WD, or of the SD: the part of the disk.
    fn area(&mut self, wd: &Definition, parsed: &Parsed) -> (f64, f64) {
        let given = wd.parameters.get("range").or_else(|| parsed.sds.iter().find_map(|sd| sd.parameters.get("range")));
        let Some(g) = given else { return (0.0, 1.0) };
        let ends: Option<Vec<f64>> = g.values.iter().map(|v| v.parse().ok()).collect();
        match ends.as_deref() {
            Some(&[from, to]) if from >= 0.0 && from < to && to <= 100.0 => (from / 100.0, to / 100.0),
            _ => {
                self.out.remark(g.line, &g.text, "not taken over: a part of the disk is (from,to) in percent, without going round its end");
                (0.0, 1.0)
            }
        }
    }
}

/// One turn of an RD's loops; empty: not looped over.
struct Turn<'a> {
    size: &'a str,
    reads: &'a str,
    seeks: &'a str,
    threads: &'a str,
    rate: Option<f64>,
}

impl Turn<'_> {
    fn name(&self, rd: &str) -> String {
        let mut name = rd.to_string();
        for (key, value) in [("xfersize", self.size), ("rdpct", self.reads), ("seekpct", self.seeks), ("threads", self.threads)] {
            if !value.is_empty() {
                name.push_str(&format!(" {key}={value}"));
            }
        }
        if let Some(rate) = self.rate {
            name.push_str(&format!(" iorate={rate}"));
        }
        name
    }
}

//! fio as an outside engine: a cross-check, and what is at hand inside of VMs.
//!
//! Owns: from a workload to a job file, running fio on it, from its JSON to figures.
//! Invariants: latencies come from fio's whole histogram (json+), never from its percentiles; what fio cannot do is refused, with the key.
//! Never: installs fio; leaves a fio process behind.

use super::native::NativeOptions;
use super::{Engine, Fill, Job, Watch, guard};
use crate::error::LabError;
use crate::measure::Figures;
use crate::results::Measured;
use crate::workload::generate::{AccessPlan, working_set_bytes};
use crate::workload::{Access, Arrivals, Skew, Spacing, Workload};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NAME: &str = "fio";
/// How often it is looked whether fio has ended.
const POLL: Duration = Duration::from_millis(50);
/// Latencies in one histogram of fio are at most so many.
const BINS_MAX: usize = 100_000;

/// See the module.
pub struct Fio {
    options: NativeOptions,
    claim: guard::Claim,
    disks: Vec<(PathBuf, u64)>,
}

fn wrong(place: impl Into<String>, problem: impl Into<String>) -> LabError {
    LabError::Workload { place: place.into(), problem: problem.into() }
}

fn failed(problem: impl Into<String>) -> LabError {
    LabError::Engine { engine: NAME, problem: problem.into() }
}

impl Fio {
    /// On block devices and files, or `PATH:SIZE` for a new file.
    pub fn open(disks: &[(PathBuf, Option<u64>)], options: NativeOptions) -> Result<Fio, LabError> {
        match Command::new("fio").arg("--version").output() {
            Ok(out) if out.status.success() => {}
            _ => {
                return Err(failed(
                    "fio is not installed, or does not run: `apt install fio` or `dnf install fio`, or take another --engine",
                ));
            }
        }
        // Opened, created and marked as the native engine does; closed again, so that fio can have them.
        let native = super::native::Native::open(disks, options.clone())?;
        let sizes = native.disks();
        Ok(Fio {
            claim: guard::Claim::new(options.destroy),
            options,
            disks: disks.iter().zip(sizes).map(|((path, _), (_, bytes))| (path.clone(), bytes)).collect(),
        })
    }

    fn may_write(&self) -> Result<(), LabError> {
        self.claim.take(self.disks.iter().map(|(path, _)| path.as_path()))
    }

    fn execute(&self, text: &str, watch: &mut dyn Watch) -> Result<Value, LabError> {
        let dir = std::env::temp_dir().join(format!("basalt-lab-fio-{}", std::process::id()));
        let io = |e: std::io::Error| failed(format!("{}: {e}", dir.display()));
        std::fs::create_dir_all(&dir).map_err(io)?;
        let (job, out) = (dir.join("job.fio"), dir.join("out.json"));
        std::fs::write(&job, text).map_err(io)?;
        let mut command = Command::new("fio");
        command
            .args(["--output-format=json+", "--output"])
            .arg(&out)
            .arg(&job)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let ended = Running(command.spawn().map_err(|e| failed(format!("fio does not start: {e}")))?).wait(watch);
        let json = std::fs::read_to_string(&out).unwrap_or_default();
        let _ = std::fs::remove_dir_all(&dir);
        ended?;
        // fio may put warnings before its JSON.
        let begins = json.find('{').unwrap_or(0);
        serde_json::from_str(&json[begins..]).map_err(|e| failed(format!("fio's answer is not understood: {e}")))
    }
}

/// A fio that ends when this is dropped.
struct Running(Child);

impl Running {
    fn wait(mut self, watch: &mut dyn Watch) -> Result<(), LabError> {
        loop {
            if let Some(status) = self.0.try_wait().map_err(|e| failed(e.to_string()))? {
                let mut said = String::new();
                if let Some(mut err) = self.0.stderr.take() {
                    // What it said is for the error text only.
                    let _ = std::io::Read::read_to_string(&mut err, &mut said);
                }
                let last = said.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it says nothing").to_owned();
                return if status.success() { Ok(()) } else { Err(failed(format!("fio ended with {status}: {last}"))) };
            }
            if watch.stopped() {
                return Err(LabError::Stopped);
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Neither can fail in a way that matters: it has ended, or it is killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The job file for `job` on disks of these sizes.
pub fn job_file(job: &Job, disks: &[(PathBuf, u64)]) -> Result<String, LabError> {
    let w = &job.workload;
    let place = |key: &str| format!("{}: {key}", w.name);
    let [s] = &w.streams[..] else { return Err(wrong(place("streams"), "fio runs workloads of one stream")) };
    if s.trims > 0.0 {
        return Err(wrong(place("streams[0].trims"), "fio cannot mix trims with other operations"));
    }
    let sequential = matches!(s.access, Access::Sequential { .. } | Access::Seek { .. });
    let rw = match (s.reads >= 1.0, s.reads <= 0.0, sequential) {
        (true, _, true) => "read",
        (true, _, false) => "randread",
        (_, true, true) => "write",
        (_, true, false) => "randwrite",
        (_, _, true) => "rw",
        (_, _, false) => "randrw",
    };
    // With randrepeat fio goes the same way each time, whatever its seed, and a cache below serves it better than others.
    let mut t = String::from(
        "; Written by the Basalt lab.\n[global]\nioengine=io_uring\ndirect=1\ntime_based=1\ngroup_reporting=1\nrandrepeat=0\nnorandommap=1\n",
    );
    // Latencies from submission to completion, as one histogram.
    t.push_str("lat_percentiles=1\nclat_percentiles=0\n");
    let mut set = |key: &str, value: String| {
        t.push_str(&format!("{key}={value}\n"));
    };
    set("rw", rw.into());
    if rw.ends_with("rw") {
        set("rwmixread", format!("{:.0}", s.reads * 100.0));
    }
    match &s.sizes[..] {
        [one] => set("bs", one.bytes.to_string()),
        many => {
            let all: f64 = many.iter().map(|z| z.weight).sum();
            let parts: Vec<String> = many.iter().map(|z| format!("{}/{:.0}", z.bytes, z.weight / all * 100.0)).collect();
            set("bssplit", parts.join(":"));
        }
    }
    match &s.access {
        Access::Sequential { .. } | Access::Random { skew: Skew::Uniform } => {}
        Access::Random { skew: Skew::Zipf { theta } } => set("random_distribution", format!("zipf:{theta}")),
        Access::Random { skew: Skew::Hot { ranges } } => {
            let zones = ranges.iter().map(|h| (h.operations, h.space));
            let rest = (1.0 - zones.clone().map(|z| z.0).sum::<f64>(), 1.0 - zones.clone().map(|z| z.1).sum::<f64>());
            let words: Vec<String> = zones.chain([rest]).map(|(o, s)| format!("{:.0}/{:.0}", o * 100.0, s * 100.0)).collect();
            set("random_distribution", format!("zoned:{}", words.join(":")));
        }
        Access::Seek { seeks } => set("percentage_random", format!("{:.0}", seeks * 100.0)),
        Access::Walk { .. } => return Err(wrong(place("streams[0].access"), "fio knows no walk")),
    }
    if s.align_bytes > 0 {
        set("blockalign", s.align_bytes.to_string());
    }
    if s.flush_every > 0 {
        set("fdatasync", s.flush_every.to_string());
    }
    set("iodepth", w.depth.to_string());
    let per_disk = |iops: f64| format!("{:.0}", (iops / disks.len() as f64).max(1.0));
    match w.arrivals {
        Arrivals::Closed => {}
        Arrivals::Limited { iops } => set("rate_iops", per_disk(iops)),
        Arrivals::Open { iops, spacing } => {
            set("rate_iops", per_disk(iops));
            set("rate_process", if spacing == Spacing::Poisson { "poisson" } else { "linear" }.into());
        }
    }
    set("ramp_time", format!("{}ms", job.warm_up.as_millis()));
    set("runtime", format!("{}ms", job.measure.as_millis()));
    set("randseed", job.seed.to_string());
    if w.data.compressible > 0.0 {
        set("buffer_compress_percentage", format!("{:.0}", w.data.compressible * 100.0));
    }
    if w.data.duplicates > 0.0 {
        set("dedupe_percentage", format!("{:.0}", w.data.duplicates * 100.0));
    }
    for (n, (path, bytes)) in disks.iter().enumerate() {
        let space = working_set_bytes(w, *bytes) as f64;
        let (from, to) = ((space * s.area.0) as u64 / 4096 * 4096, (space * s.area.1) as u64 / 4096 * 4096);
        let name = path.display().to_string().replace(':', "\\:");
        t += &format!("\n[disk{n}]\nfilename={name}\noffset={from}\nsize={}\n", to - from);
    }
    Ok(t)
}

/// What fio counted of reads (`read`) or writes (`write`).
fn figures(answer: &Value, kind: &str) -> Result<Figures, LabError> {
    let mut f = Figures::default();
    for job in answer["jobs"].as_array().map_or(&[][..], Vec::as_slice) {
        let side = &job[kind];
        let count = |key: &str| side[key].as_u64().ok_or_else(|| failed(format!("fio's answer has no {kind}.{key}")));
        f.operations += count("total_ios")?;
        f.bytes += count("io_bytes")?;
        let bins = ["lat_ns", "clat_ns"].iter().find_map(|k| side[*k]["bins"].as_object());
        for (ns, n) in bins.into_iter().flatten().take(BINS_MAX) {
            f.latency.record_n(ns.parse().unwrap_or(0), n.as_u64().unwrap_or(0));
        }
    }
    Ok(f)
}

/// What fio counted of flushes.
fn flushes(answer: &Value) -> Figures {
    let mut f = Figures::default();
    for sync in answer["jobs"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|job| &job["sync"]) {
        f.operations += sync["total_ios"].as_u64().unwrap_or(0);
        for (ns, n) in sync["lat_ns"]["bins"].as_object().into_iter().flatten().take(BINS_MAX) {
            f.latency.record_n(ns.parse().unwrap_or(0), n.as_u64().unwrap_or(0));
        }
    }
    f
}

impl Engine for Fio {
    fn name(&self) -> &'static str {
        NAME
    }

    fn disks(&self) -> Vec<(String, u64)> {
        self.disks.iter().map(|(p, b)| (p.display().to_string(), *b)).collect()
    }

    fn admit(&mut self, workload: &Workload, prepare: bool) -> Result<(), LabError> {
        workload.check(&workload.name)?;
        if workload.verify {
            return Err(wrong(format!("{}: verify", workload.name), "the fio engine does not check what it reads"));
        }
        self.disks.iter().try_for_each(|(p, b)| AccessPlan::new(workload, &p.display().to_string(), *b).map(drop))?;
        let job = Job { workload: workload.clone(), warm_up: Duration::ZERO, measure: Duration::from_secs(1), seed: 1 };
        job_file(&job, &self.disks)?;
        if prepare || workload.changes_data() { self.may_write() } else { Ok(()) }
    }

    fn unwritten(&mut self, workload: &Workload) -> Result<Option<f64>, LabError> {
        super::guard::unwritten(self.disks.iter().map(|(p, bytes)| (p.as_path(), working_set_bytes(workload, *bytes))))
    }

    fn prepare(&mut self, workload: &Workload, fill: Fill, watch: &mut dyn Watch) -> Result<(), LabError> {
        let disks: Vec<_> = self.disks.iter().map(|(p, _)| (p.clone(), None)).collect();
        super::native::Native::open(&disks, self.options.clone())?.prepare(workload, fill, watch)
    }

    fn run(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Measured, LabError> {
        self.admit(&job.workload, false)?;
        let began = SystemTime::now() + job.warm_up;
        let answer = self.execute(&job_file(job, &self.disks)?, watch)?;
        let (reads, writes) = (figures(&answer, "read")?, figures(&answer, "write")?);
        let flushes = if job.workload.flushes() { flushes(&answer) } else { Figures::default() };
        let jobs = answer["jobs"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(error) = jobs.iter().filter_map(|j| j["error"].as_i64()).find(|e| *e != 0) {
            return Err(failed(format!("fio gave up with error {error} ({})", std::io::Error::from_raw_os_error(error as i32))));
        }
        let ran = |j: &Value| ["read", "write"].iter().filter_map(|k| j[*k]["runtime"].as_f64()).fold(0.0, f64::max) / 1e3;
        let measured_s = jobs.iter().map(ran).fold(0.0, f64::max);
        if measured_s <= 0.0 {
            return Err(failed("fio measured nothing"));
        }
        let cpu =
            jobs.iter().map(|j| (j["usr_cpu"].as_f64().unwrap_or(0.0) + j["sys_cpu"].as_f64().unwrap_or(0.0)) / 100.0 * measured_s).sum();
        let mut notes =
            vec![format!("Measured by {}. It reports no figures for each second.", answer["fio version"].as_str().unwrap_or("fio"))];
        if matches!(job.workload.arrivals, Arrivals::Open { .. }) {
            notes.push("fio counts latency from when an operation was given to the kernel, not from when it should have come: waiting before that is not seen.".into());
        }
        Ok(Measured {
            engine: NAME.into(),
            workload: job.workload.clone(),
            labels: Vec::new(),
            disks: self.disks(),
            began_unix_s: began.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            warm_up_s: job.warm_up.as_secs_f64(),
            measured_s,
            cut_short: false,
            reads,
            writes,
            trims: Figures::default(),
            streams: Vec::new(),
            verified: None,
            client_cpu_s: cpu,
            target_cpu_s: None,
            seconds: Vec::new(),
            notes,
            carried: 0,
            waiting: 0,
            noise: None,
            target_noise: None,
            clients: Vec::new(),
            flushes,
        })
    }
}

#[cfg(test)]
#[path = "fio_tests.rs"]
mod tests;

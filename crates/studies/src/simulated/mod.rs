//! The engine in virtual time: Basalt's own data plane on modelled drives, cores and links (docs/lab-models.md).
//!
//! Owns: the clients (`front`), a node (`node`), the world of all (`world`), what is counted (`tally`).
//! Invariants: `dataplane`, `object` and `store` are the crates of the daemon; the world goes on from job to job, so a write buffer is as full as
//! the job before has left it; a result is a function of cluster, jobs and seed.
//! Never: looks at the real clock for anything but the date; scales a latency.

mod charged;
mod front;
mod hosts;
mod node;
mod tally;
mod world;

use crate::model::cluster::Cluster;
use front::{Disk, Play};
use lab::LabError;
use lab::engine::{Engine, Fill, Job, Watch};
use lab::measure::{Figures, Second, TargetSecond};
use lab::results::Measured;
use lab::workload::generate::{AccessPlan, Schedule, Thread, working_set_bytes};
use lab::workload::{Access, Arrivals, Workload};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tally::Tally;
use world::{Modelled, NAME};

const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of an operation at most: what the front end takes at once.
const TRANSFER_BYTES_MAX: u32 = base::unit::IO_BYTES_MAX as u32;
/// How long the last operations of a load may take after its end, in virtual seconds.
const DRAIN_MAX_S: u64 = 600;
/// Operations of the preparation.
const PREPARE_BYTES: u32 = 256 << 10;
/// Outstanding on a volume while it is prepared.
const PREPARE_DEPTH: u32 = 4;

/// See the module.
pub struct Simulated {
    cluster: Cluster,
    world: Modelled,
    /// Bytes of each volume, from its start, that preparations have written.
    prepared: u64,
}

/// What came of a job.
struct Played {
    seconds: Vec<Second>,
    /// Virtual seconds that were measured.
    measured_s: f64,
    /// Time of all cores in them.
    cores_s: f64,
    /// How the write buffers were written.
    log: Option<String>,
}

/// How full batches of the write buffers were, and what they cost beside the data; `None`: nothing was written.
fn log_note(first: &world::Figures, last: &world::Figures) -> Option<String> {
    let blocks = last.logged_blocks - first.logged_blocks;
    let batches = last.batches - first.batches;
    let overhead = (last.log_overhead - first.log_overhead) as f64;
    let data = blocks as f64 * base::unit::BLOCK_BYTES as f64;
    (blocks > 0 && batches > 0).then(|| {
        format!(
            "Write buffers: {:.1} blocks of data in a batch; headers and summaries are {:.0} % of what was written to them.",
            blocks as f64 / batches as f64,
            overhead / (overhead + data) * 100.0
        )
    })
}

impl Simulated {
    /// Builds the cluster: drives, groups, volumes. Nothing is written yet.
    pub fn new(cluster: &Cluster, seed: u64) -> Result<Simulated, LabError> {
        cluster.check(&cluster.name)?;
        let world = Modelled::new(cluster, seed)?;
        Ok(Simulated { cluster: cluster.clone(), world, prepared: 0 })
    }

    /// What it is made of.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
    /// A hash of all that happened: the same for the same cluster, jobs and seed.
    pub fn trace(&self) -> u64 {
        self.world.trace()
    }
    /// Lets time pass without a load: what is in the buffer may be destaged. Virtual seconds.
    pub fn rest(&mut self, seconds: u64) -> Result<(), LabError> {
        self.world.run_for(seconds * SECOND_NS)
    }
    /// How full the fullest write buffer is, 0 to 1.
    pub fn fill(&mut self) -> Result<f64, LabError> {
        Ok(self.world.figures()?.fill)
    }

    /// The volumes under this load. Rates are of the real thing: the model has its part of them.
    fn disks(&self, workload: &Workload, seed: u64) -> Result<Vec<Disk>, LabError> {
        let sizes = Engine::disks(self);
        let part = 1.0 / sizes.len() as f64 / self.cluster.scale.rate;
        let each = |(at, (name, bytes)): (usize, &(String, u64))| {
            let plan = AccessPlan::new(workload, name, *bytes)?;
            let depth = workload.depth as usize;
            let thread = |t: usize| Thread::new(&plan, seed, at as u64, t as u64, depth as u64);
            let open = Schedule::new(&workload.arrivals, part, seed, at as u64).map(|s| (s, thread(0)));
            let limit = match workload.arrivals {
                Arrivals::Limited { iops } => Some((1e9 / (iops * part), self.world.now() as f64)),
                _ => None,
            };
            let threads = (0..depth).map(thread).collect();
            Ok(Disk { threads, open, limit, called: None, idle: (0..depth).rev().collect(), waiting: Default::default() })
        };
        sizes.iter().enumerate().map(each).collect()
    }

    fn check(&self, workload: &Workload) -> Result<(), LabError> {
        let wrong =
            |key: &str, problem: &str| Err(LabError::Workload { place: format!("{}: {key}", workload.name), problem: problem.into() });
        workload.check(&workload.name)?;
        if workload.verify {
            return wrong("verify", "models do not verify contents (all blocks have one of 16); run without, or on a real target");
        }
        if self.cluster.clients.is_some() && workload.depth > hosts::DEPTH_MAX {
            return wrong("depth", "over a protocol at most 128 operations are outstanding on a volume of a model");
        }
        let too_long = |s: &lab::workload::Stream| s.sizes.iter().any(|z| z.bytes > TRANSFER_BYTES_MAX);
        if workload.streams.iter().any(too_long) {
            return wrong("sizes", "a modelled node takes operations of at most 1 MiB");
        }
        Ok(())
    }

    fn begin(&mut self, workload: &Workload, seed: u64) -> Result<(), LabError> {
        let disks = self.disks(workload, seed)?;
        let began = self.world.now();
        let ends = u64::MAX; // until it is ended
        let tally = Tally::new(workload.streams.len());
        self.world.play(Play { began, ends, tally, disks, under_way: 0 });
        Ok(())
    }

    /// Plays warm-up and measurement; gives what came of it. Asking the node for its figures takes time of the
    /// model, too, so boundaries are looked at first, and seconds have the length that they had.
    fn play(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Played, LabError> {
        let (warm, measure) = (job.warm_up.as_secs_f64(), job.measure.as_secs_f64());
        let began = self.world.now();
        let since = |now: u64| (now - began) as f64 / 1e9;
        let step_s = if measure < 2.0 { measure / 2.0 } else { 1.0 };
        let (mut seconds, mut cores_s, mut at) = (Vec::new(), 0.0, 0.0);
        let mut from: Option<f64> = None;
        let mut before = self.world.figures()?;
        let mut first = before;
        loop {
            if from.is_none() && at >= warm - 1e-9 {
                from = Some(at);
                first = before;
                self.world.with_play(|play| play.tally.measuring = true);
            }
            let mut until = at + step_s;
            until = if at < warm - 1e-9 { until.min(warm) } else { until.min(from.unwrap_or(at) + measure) };
            self.world.run_until(began + (until * 1e9) as u64)?;
            let now = since(self.world.now());
            let ends = from.is_some_and(|from| now >= from + measure - 1e-9) || watch.stopped();
            let mut second = self.world.with_play(|play| {
                play.tally.measuring &= !ends;
                play.tally.take_second(at - warm)
            });
            let figures = self.world.figures()?;
            let cores = (figures.busy_ns - before.busy_ns) as f64 / 1e9;
            cores_s += if from.is_some() { cores } else { 0.0 };
            second.target = Some(self.target_second(&before, &figures, now - at, cores));
            self.scale_second(&mut second);
            watch.second(&second);
            seconds.push(second);
            if ends {
                let measured_s = from.map_or(0.0, |from| now - from);
                return Ok(Played { seconds, measured_s, cores_s, log: log_note(&first, &figures) });
            }
            (before, at) = (figures, now);
        }
    }

    fn target_second(&self, before: &world::Figures, now: &world::Figures, span_s: f64, cores: f64) -> TargetSecond {
        let n = self.cluster.scale.rate / span_s;
        TargetSecond {
            buffer_fill: now.fill,
            destaged_bytes: (now.destaged - before.destaged) as f64 * n,
            device_read_bytes: (now.device_read - before.device_read) as f64 * n,
            device_written_bytes: (now.device_written - before.device_written) as f64 * n,
            cores: cores / span_s,
        }
    }

    /// Rates of the real thing.
    fn scale_second(&self, s: &mut Second) {
        let n = self.cluster.scale.rate;
        for count in [&mut s.reads, &mut s.writes, &mut s.read_bytes, &mut s.written_bytes, &mut s.errors] {
            *count = (*count as f64 * n).round() as u64;
        }
    }

    fn measured(&mut self, job: &Job, played: Played) -> Measured {
        let Played { seconds, measured_s, cores_s, log } = played;
        let n = self.cluster.scale.rate;
        let scaled = |f: &Figures| Figures {
            operations: (f.operations as f64 * n).round() as u64,
            bytes: (f.bytes as f64 * n).round() as u64,
            errors: (f.errors as f64 * n).round() as u64,
            latency: f.latency.clone(),
        };
        let (kinds, streams) = self.world.with_play(|p| (p.tally.kinds.clone(), p.tally.streams.clone()));
        let [reads, writes, trims] = kinds.each_ref().map(scaled);
        let planned = job.measure.as_secs_f64();
        let name = |at: usize| match job.workload.streams[at].name.as_str() {
            "" => format!("stream {}", at + 1),
            name => name.to_owned(),
        };
        let mut notes = self.notes();
        notes.extend(log);
        if let Some(wrong) = self.world.take_wrong() {
            notes.push(format!("The first operation that failed: {wrong}"));
        }
        Measured {
            engine: NAME.into(),
            workload: job.workload.clone(),
            labels: Vec::new(),
            disks: Engine::disks(self),
            began_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            warm_up_s: job.warm_up.as_secs_f64(),
            measured_s,
            cut_short: measured_s + 1e-6 < planned,
            reads,
            writes,
            trims,
            streams: streams.iter().enumerate().map(|(at, f)| (name(at), scaled(f))).collect(),
            verified: None,
            client_cpu_s: 0.0,
            // A core has one `rate`-th of its speed, and does as much of the work: it is as busy as the real one.
            target_cpu_s: Some(cores_s),
            seconds,
            notes,
            carried: 0,
            waiting: 0,
            noise: None,
            target_noise: None,
            clients: Vec::new(),
            flushes: Figures::default(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let scale = &self.cluster.scale;
        let own = match &self.cluster.clients {
            None => "data plane, object layer and store",
            Some(_) => "front end, data plane, object layer and store, and the clients' side of the protocol,",
        };
        let mut notes = vec![format!(
            "Modelled hardware ({}), virtual time: {own} are Basalt's own code; drives, cores and network are models.",
            self.cluster.name
        )];
        if scale.rate > 1.0 {
            notes.push(format!(
                "Rates are scaled by {}: each drive has one {0}th of its media and each core of its speed, the load is one {0}th (one operation outstanding stands for {0}), and the rates shown are multiplied again. Latencies are as simulated.",
                scale.rate
            ));
        }
        if scale.size > 1.0 {
            notes.push(format!(
                "Sizes are scaled by {} more: what depends on how full a buffer is happens {0} times sooner, a second here stands for {0} seconds.",
                scale.size
            ));
        }
        notes
    }

    /// Lets what is under way end.
    fn drain(&mut self) -> Result<(), LabError> {
        let limit = self.world.now() + DRAIN_MAX_S * SECOND_NS;
        while self.world.with_play(|p| p.under_way > 0 || p.disks.iter().any(|d| !d.waiting.is_empty())) {
            if self.world.now() > limit {
                let problem = format!("operations are still under way {DRAIN_MAX_S} virtual seconds after the end of the load");
                return Err(LabError::Engine { engine: NAME, problem });
            }
            self.world.run_for(SECOND_NS / 100)?;
        }
        self.world.stop_play();
        Ok(())
    }
}

impl Engine for Simulated {
    fn name(&self) -> &'static str {
        NAME
    }

    fn disks(&self) -> Vec<(String, u64)> {
        let bytes = self.cluster.bytes(self.cluster.volumes.gib);
        (1..=self.cluster.volumes.count).map(|n| (format!("volume-{n}"), bytes)).collect()
    }

    fn admit(&mut self, workload: &Workload, _prepare: bool) -> Result<(), LabError> {
        workload.check(&workload.name)?;
        if workload.flushes() {
            let problem = "a model does no flushes: what it has answered is durable; leave flush_every out".into();
            return Err(LabError::Workload { place: workload.name.clone(), problem });
        }
        Ok(())
    }

    /// A model reads what was never written as storage does: without its drives. Before the first case only a preparation has written.
    fn unwritten(&mut self, workload: &Workload) -> Result<Option<f64>, LabError> {
        let used = working_set_bytes(workload, self.cluster.bytes(self.cluster.volumes.gib));
        Ok((used > 0).then(|| 1.0 - self.prepared.min(used) as f64 / used as f64))
    }

    fn prepare(&mut self, workload: &Workload, _fill: Fill, watch: &mut dyn Watch) -> Result<(), LabError> {
        // Contents do not matter to a model; where there is data does.
        let mut fill = Workload::simple("prepare", PREPARE_BYTES, 0.0, Access::Sequential { shared: true }, PREPARE_DEPTH);
        (fill.working_set, fill.working_set_bytes) = (workload.working_set, workload.working_set_bytes);
        let bytes: u64 = Engine::disks(self).iter().map(|(_, b)| working_set_bytes(&fill, *b)).sum();
        self.begin(&fill, 0)?;
        self.world.with_play(|play| play.tally.measuring = true);
        loop {
            self.world.run_for(SECOND_NS / 20)?;
            let done = self.world.with_play(|play| play.tally.kinds[1].bytes);
            if let Some(wrong) = self.world.take_wrong() {
                return Err(LabError::Engine { engine: NAME, problem: wrong });
            }
            watch.progress("prepare", done.min(bytes), bytes);
            if done >= bytes {
                break;
            }
            if watch.stopped() {
                return Err(LabError::Stopped);
            }
        }
        let now = self.world.now();
        self.world.with_play(|play| play.ends = now);
        self.prepared = self.prepared.max(working_set_bytes(&fill, self.cluster.bytes(self.cluster.volumes.gib)));
        self.drain()
    }

    fn run(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Measured, LabError> {
        self.check(&job.workload)?;
        if job.measure < Duration::from_millis(10) {
            let problem = "a measurement has at least 10 ms".into();
            return Err(LabError::Workload { place: job.workload.name.clone(), problem });
        }
        self.begin(&job.workload, job.seed)?;
        let played = self.play(job, watch)?;
        let measured = self.measured(job, played);
        let now = self.world.now();
        self.world.with_play(|play| {
            play.ends = play.ends.min(now);
            for disk in &mut play.disks {
                disk.waiting.clear();
            }
        });
        self.drain()?;
        Ok(measured)
    }
}

#[cfg(test)]
#[path = "simulated_tests.rs"]
mod tests;

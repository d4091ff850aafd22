//! Disks that other machines drive: a load on several of them together, with one result.
//!
//! ```text
//! disks ── dealt in turn ──► agents, each with an engine of its own        run: all ready ─► ping ─► go ─► seconds and figures, merged
//! ```
//!
//! Invariants: a disk as named is driven by one agent; a rate is split by disks; all agents begin together, within half of the longest round
//! trip; percentiles come from the merged histograms of all; when one fails all stop, and what they measured is kept as cut short.
//! Never: opens a disk on this machine.

use super::open::System;
use super::{Engine, Fill, Job, Watch};
use crate::agent::VERSION;
use crate::agent::key::AgentKey;
use crate::agent::link::{self, Link};
use crate::agent::message::{Answer, Problem, Request};
use crate::error::LabError;
use crate::measure::recorder::{Merger, SecondPart};
use crate::measure::{Latency, Second};
use crate::results::{Client, Measured};
use crate::workload::{Arrivals, Workload};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Name of the engine.
const NAME: &str = "agents";
/// How often it is looked whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);
/// A load that was stopped ends within this, or its agent is given up.
const STOP: Duration = Duration::from_secs(30);
/// An agent that is busy may be free after this.
const FREE: Duration = Duration::from_secs(3);
/// The load begins so long after all agents are ready, beside the longest round trip.
const LEAD: Duration = Duration::from_millis(50);

/// An agent, with the disks that it drives.
struct Agent {
    name: String,
    link: Arc<Link>,
    /// Numbers of its disks among all.
    disks: Vec<usize>,
}

/// See the module.
pub struct Agents {
    agents: Vec<Agent>,
    disks: Vec<(String, u64)>,
    heard: Receiver<(usize, Result<Answer, String>)>,
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.agents.iter().for_each(|a| a.link.end());
    }
}

/// What came of a request to all agents.
struct Answered {
    /// The last answers, by agent.
    last: Vec<Option<Answer>>,
    /// The first that failed, and why.
    failed: Option<LabError>,
    /// Half of the longest round trip.
    apart: Duration,
}

/// An error of a connection, with what to do.
fn hinted(e: String, key: &std::path::Path) -> String {
    let hint =
        if e.contains("key") { format!("; give the agent and this lab the same key, here {}", key.display()) } else { String::new() };
    e + &hint
}

impl Agents {
    /// Connects to the agents of `system`, and has them open their disks.
    pub fn connect(system: &System, destroy: bool, seed: u64) -> Result<Agents, LabError> {
        let file = system.agent_key.clone().unwrap_or_default();
        let key = AgentKey::load(&file)?;
        let (sender, heard) = channel();
        let count = system.agents.len();
        let mut agents = Agents { agents: Vec::new(), disks: system.disks.iter().map(|d| (d.clone(), 0)).collect(), heard };
        for (n, name) in system.agents.iter().enumerate() {
            let lost = |problem: String| Problem::Engine(problem).of(name);
            let disks: Vec<usize> = (0..system.disks.len()).filter(|d| d % count == n).collect();
            let own = System {
                disks: disks.iter().map(|&d| system.disks[d].clone()).collect(),
                agents: Vec::new(),
                agent_key: None,
                ..system.clone()
            };
            let open = Request::Open { version: VERSION, system: Box::new(own), destroy, seed };
            let since = Instant::now();
            let (mut reader, answer) = loop {
                let mut reader = link::connect(name, &key).map_err(|e| lost(hinted(e, &file)))?;
                let answer = reader.link().send(&open).and_then(|()| reader.message::<Answer>()).map_err(lost)?;
                // The connection of the case before may not have ended on its side yet.
                match answer {
                    Some(Answer::Failed(Problem::Busy(_))) if since.elapsed() < FREE => std::thread::sleep(LOOK),
                    answer => break (reader, answer),
                }
            };
            let link = reader.link();
            match answer {
                Some(Answer::Opened(sizes)) if sizes.len() == disks.len() => {
                    disks.iter().zip(sizes).for_each(|(&d, (_, bytes))| agents.disks[d].1 = bytes);
                }
                Some(Answer::Failed(problem)) => return Err(problem.of(name)),
                _ => return Err(lost("the connection ended while its disks were opened".into())),
            }
            agents.agents.push(Agent { name: name.clone(), link, disks });
            let sender = sender.clone();
            std::thread::spawn(move || {
                loop {
                    let said = reader.message::<Answer>().and_then(|a| a.ok_or_else(|| "the agent has ended the connection".into()));
                    let over = said.is_err();
                    if sender.send((n, said)).is_err() || over {
                        break;
                    }
                }
            });
        }
        Ok(agents)
    }

    /// A request to each agent; `each` gets what comes before the last answers.
    fn all(
        &self,
        request: impl Fn(usize, &Agent) -> Request,
        watch: &mut dyn Watch,
        each: &mut dyn FnMut(usize, Answer, &mut dyn Watch),
    ) -> Answered {
        let mut round = Round {
            answered: Answered { last: vec![None; self.agents.len()], failed: None, apart: Duration::ZERO },
            over: vec![false; self.agents.len()],
            stopping: None,
        };
        for (n, agent) in self.agents.iter().enumerate() {
            if let Err(e) = agent.link.send(&request(n, agent)) {
                round.lost(n, Problem::Engine(e).of(&agent.name));
            }
        }
        let mut begin = Beginning::new(self.agents.len());
        while !round.over.iter().all(|o| *o) {
            if round.stopping.is_none() && (watch.stopped() || round.answered.failed.is_some()) {
                round.stopping = Some(Instant::now());
                self.agents.iter().for_each(|a| drop(a.link.send(&Request::Stop)));
            }
            if round.stopping.is_some_and(|since| since.elapsed() > STOP) {
                let silent = self
                    .agents
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| !round.over[*n])
                    .map(|(_, a)| a.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ");
                round.answered.failed.get_or_insert(Problem::Engine("does not end its load".into()).of(&silent));
                break;
            }
            match self.heard.recv_timeout(LOOK) {
                Ok((n, Ok(Answer::Ready))) => begin.ready[n] = true,
                Ok((n, Ok(Answer::Pong))) => begin.pongs[n] = begin.pinged.map(|at| at.elapsed()),
                Ok((n, Ok(answer))) if answer.is_last() => round.last(n, answer, &self.agents[n].name),
                Ok((n, Ok(answer))) => each(n, answer, watch),
                Ok((n, Err(e))) => round.lost(n, Problem::Engine(e).of(&self.agents[n].name)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    round.answered.failed.get_or_insert(Problem::Engine("all connections have ended".into()).of("all"));
                    break;
                }
            }
            if let Some(apart) = begin.step(&self.agents) {
                round.answered.apart = apart;
            }
        }
        round.answered
    }

    /// A request without figures, to each agent.
    fn simple(&self, request: impl Fn(usize, &Agent) -> Request, watch: &mut dyn Watch) -> Result<Vec<Answer>, LabError> {
        let Answered { last, failed, .. } = self.all(request, watch, &mut |_, _, _| {});
        failed.map_or_else(|| Ok(last.into_iter().flatten().collect()), Err)
    }

    /// The job of one agent: its part of the rate, and a seed of its own.
    fn job(&self, job: &Job, n: usize, agent: &Agent) -> Job {
        let mut own = job.clone();
        let part = agent.disks.len() as f64 / self.disks.len().max(1) as f64;
        if let Arrivals::Limited { iops } | Arrivals::Open { iops, .. } = &mut own.workload.arrivals {
            *iops *= part;
        }
        own.seed = job.seed.wrapping_add((n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        own
    }

    /// One result of those of all.
    fn merged(&self, job: &Job, answered: Answered, seconds: Vec<Second>) -> Result<Measured, LabError> {
        let Answered { last, failed, apart } = answered;
        let parts: Vec<(usize, Measured)> = last
            .into_iter()
            .enumerate()
            .filter_map(|(n, a)| match a {
                Some(Answer::Measured(m)) => Some((n, *m)),
                _ => None,
            })
            .collect();
        let problem = failed.as_ref().map(ToString::to_string);
        let Some((_, first)) = parts.first() else { return Err(failed.unwrap_or(LabError::Stopped)) };
        let mut all = Measured { workload: job.workload.clone(), disks: self.disks.clone(), seconds, ..first.clone() };
        (all.noise, all.notes, all.clients) = (None, Vec::new(), Vec::new());
        all.cut_short |= failed.is_some();
        for (i, (n, m)) in parts.into_iter().enumerate() {
            if i > 0 {
                add(&mut all, &m);
            }
            let name = &self.agents[n].name;
            all.notes.extend(m.notes.iter().map(|note| format!("{name}: {note}")));
            let total = m.total();
            let disks = self.agents[n].disks.len() as u32;
            all.clients.push(Client {
                name: name.clone(),
                disks,
                measured_s: m.measured_s,
                cpu_s: m.client_cpu_s,
                figures: total,
                noise: m.noise,
            });
        }
        // What went wrong is what is said first.
        problem.into_iter().for_each(|p| all.notes.insert(0, p));
        if !all.cut_short {
            let within = apart.as_secs_f64() * 1e3;
            all.notes.push(format!("{} agents began together, within {:.1} ms.", all.clients.len(), (within * 10.0).ceil() / 10.0));
        }
        Ok(all)
    }
}

/// Adds the figures of another agent.
fn add(all: &mut Measured, m: &Measured) {
    all.reads.merge(&m.reads);
    all.writes.merge(&m.writes);
    all.trims.merge(&m.trims);
    all.flushes.merge(&m.flushes);
    all.streams.iter_mut().zip(&m.streams).for_each(|(all, one)| all.1.merge(&one.1));
    all.verified = all.verified.into_iter().chain(m.verified).reduce(|a, b| a.merge(b));
    all.measured_s = all.measured_s.max(m.measured_s);
    all.cut_short |= m.cut_short;
    all.client_cpu_s += m.client_cpu_s;
    all.carried += m.carried;
    all.waiting += m.waiting;
}

/// Answers as they come.
struct Round {
    answered: Answered,
    over: Vec<bool>,
    stopping: Option<Instant>,
}

impl Round {
    fn last(&mut self, n: usize, answer: Answer, name: &str) {
        self.over[n] = true;
        match answer {
            // Who was stopped has not failed.
            Answer::Failed(Problem::Stopped) if self.stopping.is_some() => {}
            Answer::Failed(problem) => drop(self.answered.failed.get_or_insert(problem.of(name))),
            answer => self.answered.last[n] = Some(answer),
        }
    }

    fn lost(&mut self, n: usize, e: LabError) {
        self.over[n] = true;
        self.answered.failed.get_or_insert(e);
    }
}

/// How agents begin together: all are ready, all are pinged, then each hears when to begin.
struct Beginning {
    ready: Vec<bool>,
    pinged: Option<Instant>,
    pongs: Vec<Option<Duration>>,
    begun: bool,
}

impl Beginning {
    fn new(agents: usize) -> Beginning {
        Beginning { ready: vec![false; agents], pinged: None, pongs: vec![None; agents], begun: false }
    }

    /// The next step that is possible; once all have heard when to begin, how far apart they may be.
    fn step(&mut self, agents: &[Agent]) -> Option<Duration> {
        if self.begun || !self.ready.iter().all(|r| *r) {
            return None;
        }
        if self.pinged.is_none() {
            self.pinged = Some(Instant::now());
            // Who cannot be reached shows as a connection that has ended.
            agents.iter().for_each(|a| drop(a.link.send(&Request::Ping)));
            return None;
        }
        let trips: Vec<Duration> = self.pongs.iter().copied().collect::<Option<_>>()?;
        let longest = trips.iter().copied().max().unwrap_or_default();
        let at = Instant::now() + LEAD + longest;
        for (agent, trip) in agents.iter().zip(&trips) {
            let after = at.saturating_duration_since(Instant::now()).saturating_sub(*trip / 2);
            drop(agent.link.send(&Request::Go { after_us: after.as_micros() as u64 }));
        }
        self.begun = true;
        Some(longest / 2)
    }
}

/// A watch for requests that take no time.
struct Quiet;

impl Watch for Quiet {
    fn second(&mut self, _: &Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}

impl Engine for Agents {
    fn name(&self) -> &'static str {
        NAME
    }

    fn disks(&self) -> Vec<(String, u64)> {
        self.disks.clone()
    }

    fn admit(&mut self, workload: &Workload, prepare: bool) -> Result<(), LabError> {
        workload.check(&workload.name)?;
        let mut names: Vec<&str> = self.disks.iter().map(|d| d.0.as_str()).filter(|d| super::open::is_remote(d)).collect();
        names.sort_unstable();
        if workload.verify
            && let Some(twice) = names.windows(2).find(|w| w[0] == w[1])
        {
            let problem =
                "is named for several agents, which do not know what the others write: name it once, or leave --verify out".into();
            return Err(LabError::Disk { disk: twice[0].into(), problem });
        }
        self.simple(|_, _| Request::Admit { workload: Box::new(workload.clone()), prepare }, &mut Quiet).map(drop)
    }

    fn unwritten(&mut self, workload: &Workload) -> Result<Option<f64>, LabError> {
        let answers = self.simple(|_, _| Request::Unwritten(Box::new(workload.clone())), &mut Quiet)?;
        let (mut sum, mut disks) = (0.0, 0.0);
        for (answer, agent) in answers.iter().zip(&self.agents) {
            if let Answer::Unwritten(Some(share)) = answer {
                sum += share * agent.disks.len() as f64;
                disks += agent.disks.len() as f64;
            }
        }
        Ok((disks > 0.0).then(|| sum / disks))
    }

    fn prepare(&mut self, workload: &Workload, fill: Fill, watch: &mut dyn Watch) -> Result<(), LabError> {
        let mut parts = vec![(0, 0); self.agents.len()];
        let request = |_: usize, _: &Agent| Request::Prepare { workload: Box::new(workload.clone()), fill };
        let answered = self.all(request, watch, &mut |n, answer, watch| {
            if let Answer::Progress { done, all } = answer {
                parts[n] = (done, all);
                let (done, all) = parts.iter().fold((0, 0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
                watch.progress("writing the working set", done, all);
            }
        });
        match answered.failed {
            Some(e) => Err(e),
            None if watch.stopped() => Err(LabError::Stopped),
            None => Ok(()),
        }
    }

    fn run(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Measured, LabError> {
        let mut merger = Merger::new(self.agents.len());
        let mut seconds: Vec<Second> = Vec::new();
        let request = |n: usize, agent: &Agent| Request::Run(Box::new(self.job(job, n, agent)));
        let answered = self.all(request, watch, &mut |_, answer, watch| {
            if let Answer::Second { second, latency } = answer
                && let Some(mut second) = merger.take(part(&second, *latency))
            {
                second.target = watch.target();
                watch.latencies(&merger.latency);
                watch.second(&second);
                seconds.push(second);
            }
        });
        for (second, latency) in merger.rest() {
            watch.latencies(&latency);
            watch.second(&second);
            seconds.push(second);
        }
        self.merged(job, answered, seconds)
    }
}

/// A second of an agent, as those of threads are.
fn part(second: &Second, latency: Latency) -> SecondPart {
    SecondPart {
        index: second.at_s as i64,
        reads: second.reads,
        writes: second.writes,
        read_bytes: second.read_bytes,
        written_bytes: second.written_bytes,
        errors: second.errors,
        latency,
    }
}

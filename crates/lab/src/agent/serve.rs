//! The agent: works for a lab that proves the key, one at a time.
//!
//! ```text
//! accept ─► handshake (bounded) ─► session: reader ── Stop, Go, Ping at once; other requests in turn ──► engine
//! ```
//!
//! Invariants: one session at a time, the others hear of it; a session that ends stops its load; nobody without the key costs more than a
//! handshake.
//! Never: keeps anything of a session for the next.

use super::VERSION;
use super::key::AgentKey;
use super::link::{self, Link, Reader};
use super::message::{Answer, Problem, Request};
use crate::engine::open::{NoModels, System, is_here};
use crate::engine::verify::Ledgers;
use crate::engine::{Engine, Job, Watch};
use crate::error::LabError;
use crate::measure::noise::{Noise, is_middle, known_here};
use crate::measure::{Latency, Second};
use crate::results::Measured;
use machine::{Frequency, Snapshot};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections whose key is not proved yet.
const HANDSHAKES_MAX: usize = 16;
/// After a connection that could not be taken.
const ACCEPT_AGAIN: Duration = Duration::from_millis(500);
/// Progress is reported so often.
const PROGRESS: Duration = Duration::from_millis(200);
/// How often it is looked whether to stop, while the beginning is waited for.
const LOOK: Duration = Duration::from_millis(10);

/// Serves labs at `listener` until the process ends. `say` gets a line for each session.
pub fn serve(listener: &TcpListener, key: &AgentKey, say: impl Fn(&str) + Send + Sync + 'static) -> ! {
    let (say, busy, shaking) = (Arc::new(say), Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    loop {
        let (socket, peer) = match listener.accept() {
            Ok((socket, peer)) => (socket, peer.to_string()),
            // Out of descriptors, or a connection that ended before it was taken: the next may do.
            Err(e) => {
                say(&format!("a connection could not be taken: {e}"));
                std::thread::sleep(ACCEPT_AGAIN);
                continue;
            }
        };
        if shaking.fetch_add(1, SeqCst) >= HANDSHAKES_MAX {
            shaking.fetch_sub(1, SeqCst);
            continue;
        }
        let (key, say, busy, shaking) = (key.clone(), Arc::clone(&say), Arc::clone(&busy), Arc::clone(&shaking));
        std::thread::spawn(move || {
            let reader = link::accept(socket, &key);
            shaking.fetch_sub(1, SeqCst);
            match reader {
                Ok(reader) => say(&one_at_a_time(reader, &peer, &busy, &*say)),
                Err(e) => say(&format!("{peer}: refused: {e}")),
            }
        });
    }
}

/// A session, unless there is one already; what became of it.
fn one_at_a_time(mut reader: Reader, peer: &str, busy: &Mutex<Option<String>>, say: &(dyn Fn(&str) + Send + Sync)) -> String {
    let link = reader.link();
    let taken = {
        let mut now = busy.lock().unwrap_or_else(PoisonError::into_inner);
        match &*now {
            Some(other) => Some(other.clone()),
            None => now.replace(peer.to_owned()),
        }
    };
    if let Some(other) = taken {
        // What it asks for is taken first: a connection that is closed with bytes unread loses the answer.
        let _ = reader.message::<Request>();
        let _ = link.send(&Answer::Failed(Problem::Busy(other.clone())));
        link.end();
        return format!("{peer}: refused: busy with {other}");
    }
    say(&format!("{peer}: connected"));
    let ended = session(reader, &link);
    link.end();
    *busy.lock().unwrap_or_else(PoisonError::into_inner) = None;
    format!("{peer}: {}", ended.err().unwrap_or_else(|| "done".into()))
}

/// What the reader of a session sees to at once.
#[derive(Clone)]
struct Signals {
    stop: Arc<AtomicBool>,
    go: Sender<Instant>,
}

/// Reads what the lab says until the connection ends.
fn read(mut reader: Reader, signals: &Signals, requests: &Sender<Request>) -> Result<(), String> {
    let link = reader.link();
    let ended = loop {
        match reader.message::<Request>() {
            Ok(Some(Request::Ping)) => link.send(&Answer::Pong)?,
            Ok(Some(Request::Stop)) => signals.stop.store(true, SeqCst),
            // The session may be gone already; then the connection ends.
            Ok(Some(Request::Go { after_us })) => drop(signals.go.send(Instant::now() + Duration::from_micros(after_us))),
            Ok(Some(request)) => {
                // A stop was meant for what came before.
                signals.stop.store(false, SeqCst);
                if requests.send(request).is_err() {
                    break Ok(());
                }
            }
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    signals.stop.store(true, SeqCst);
    ended
}

/// A session: opens the disks, then does what is asked for, in turn.
fn session(reader: Reader, link: &Arc<Link>) -> Result<(), String> {
    let (requests, inbox) = channel();
    let (go, going) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let signals = Signals { stop: Arc::clone(&stop), go };
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || read(reader, &signals, &requests));
        let worked = work(link, &inbox, stop, going);
        // The reader ends with the connection.
        drop(inbox);
        link.end();
        let read = reading.join().unwrap_or_else(|_| Err("the reader died".into()));
        worked.and(read)
    })
}

fn work(link: &Arc<Link>, inbox: &Receiver<Request>, stop: Arc<AtomicBool>, going: Receiver<Instant>) -> Result<(), String> {
    let Ok(Request::Open { version, system, destroy, seed }) = inbox.recv() else { return Ok(()) };
    let mut engine = match open(version, &system, destroy, seed) {
        Ok(engine) => engine,
        Err(e) => return link.send(&Answer::Failed(e.into())),
    };
    let here = system.disks.iter().any(|d| is_here(d));
    link.send(&Answer::Opened(engine.disks()))?;
    let mut watch = AgentWatch {
        link: Arc::clone(link),
        stop,
        going,
        together: false,
        latency: None,
        reported: Instant::now(),
        look_s: None,
        seen: None,
    };
    while let Ok(request) = inbox.recv() {
        let engine = engine.as_mut();
        watch.together = matches!(request, Request::Run(_));
        let answer = match request {
            Request::Admit { workload, prepare } => engine.admit(&workload, prepare).map(|()| Answer::Done),
            Request::Unwritten(workload) => engine.unwritten(&workload).map(Answer::Unwritten),
            Request::Prepare { workload, fill } => engine.prepare(&workload, fill, &mut watch).map(|()| Answer::Done),
            Request::Run(job) => measured(engine, &job, here, &mut watch).map(|m| Answer::Measured(Box::new(m))),
            Request::Open { .. } | Request::Ping | Request::Go { .. } | Request::Stop => return Err("a message came out of turn".into()),
        };
        link.send(&answer.unwrap_or_else(|e| Answer::Failed(e.into())))?;
    }
    Ok(())
}

fn open(version: u32, system: &System, destroy: bool, seed: u64) -> Result<Box<dyn Engine>, LabError> {
    let wrong = |problem: String| Err(LabError::Workload { place: "agent".into(), problem });
    if version != VERSION {
        return wrong(format!("speaks version {VERSION}, and this lab {version}: run the same version of Basalt on both"));
    }
    if system.simulate.is_some() || !system.agents.is_empty() {
        return wrong("takes disks, no models and no agents of its own".into());
    }
    // The lab does not know how many processors there are here.
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let system = System { workers: system.workers.min(processors), ..system.clone() };
    system.open(destroy, seed, &Ledgers::default(), &NoModels)
}

/// Runs a job; the noise of this machine stands in the answer.
fn measured(engine: &mut dyn Engine, job: &Job, here: bool, watch: &mut AgentWatch) -> Result<Measured, LabError> {
    watch.going.try_iter().for_each(drop);
    (watch.look_s, watch.seen) = (Some(job.measure.as_secs_f64()), None);
    let before = Snapshot::now();
    let m = engine.run(job, watch)?;
    let seen = watch.seen.take();
    let noise = before
        .and_then(|b| Some(Noise { with_target: here, ..Noise::between(&b, &Snapshot::now()?, &known_here(None)).with_frequency(seen) }));
    Ok(Measured { seconds: Vec::new(), noise, ..m })
}

/// Passes on what happens.
struct AgentWatch {
    link: Arc<Link>,
    stop: Arc<AtomicBool>,
    going: Receiver<Instant>,
    /// The load begins with those of other agents.
    together: bool,
    latency: Option<Latency>,
    reported: Instant,
    /// Seconds that are measured, until frequencies have been looked at in the middle of them.
    look_s: Option<f64>,
    seen: Option<Frequency>,
}

impl AgentWatch {
    /// A lab that cannot be reached is not there any more.
    fn report(&self, answer: &Answer) {
        if self.link.send(answer).is_err() {
            self.stop.store(true, SeqCst);
        }
    }
}

impl Watch for AgentWatch {
    fn begin(&mut self) -> Instant {
        if self.together {
            self.report(&Answer::Ready);
            while !self.stopped() {
                match self.going.recv_timeout(LOOK) {
                    Ok(at) => return at,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        }
        Instant::now()
    }

    fn latencies(&mut self, latency: &Latency) {
        self.latency = Some(latency.clone());
    }

    fn second(&mut self, second: &Second) {
        if self.look_s.is_some_and(|all| is_middle(second.at_s, all)) {
            self.look_s = None;
            self.seen = machine::frequency();
        }
        let latency = Box::new(self.latency.take().unwrap_or_default());
        self.report(&Answer::Second { second: second.clone(), latency });
    }

    fn progress(&mut self, _: &str, done: u64, all: u64) {
        if self.reported.elapsed() >= PROGRESS || done >= all {
            self.reported = Instant::now();
            self.report(&Answer::Progress { done, all });
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;

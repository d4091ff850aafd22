//! Starting and ending the threads of the cores.
//!
//! Owns: the threads.
//! Invariants: either all cores run or none does; what a core's program holds is dropped on its own thread, and its ring is emptied before
//! buffers are freed.
//! Never: runs anything of the program itself on the calling thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::core::Core;
use super::launch_error::{CORES_MAX, LaunchError};
use super::reactor;
use super::spin::Spin;
use super::sys;
use super::waker::Waker;
use crate::handle::Driver;
use crate::{App, CoreStats, Rt};

/// How to run on Linux.
#[derive(Clone, Debug)]
pub struct UringOptions {
    /// How many cores: threads with a reactor each, 1 to [`CORES_MAX`].
    pub cores: usize,
    /// The processor of each core; `None` leaves it to the scheduler. At least as many as cores.
    pub pin: Option<Vec<usize>>,
    /// Device operations a core may have in the kernel (8 to 4096, rounded up to a power of two); more wait in the core.
    pub ring_entries: u32,
    /// Device operations that are handed to the kernel with one call, at most. Fewer calls cost less; the first of many waits for the last.
    pub submit_ops: u32,
    /// How long a core polls at most before it sleeps, while devices have operations of it. It learns when less will do. Longer than a disk takes: to be
    /// woken costs as much again.
    pub spin_devices: Duration,
    /// The same when it waits for anything else. Longer than another node takes that had to be woken: else nodes that wait for each other never learn
    /// that nobody need sleep. An idle core does not poll at all.
    pub spin: Duration,
    /// Threads are called this, a dash and the core's number (15 bytes at most are shown by the system).
    pub thread_name: String,
}

impl Default for UringOptions {
    fn default() -> Self {
        UringOptions {
            cores: 1,
            pin: None,
            ring_entries: 256,
            submit_ops: 4,
            spin_devices: Duration::from_micros(250),
            spin: Duration::from_micros(250),
            thread_name: "core".into(),
        }
    }
}

/// The running cores.
#[derive(Debug)]
pub struct Cores {
    stats: Vec<Arc<CoreStats>>,
    ended: mpsc::Receiver<(usize, Result<(), String>)>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Cores {
    /// Waits until all cores have stopped, or one has panicked: then at once, with the others still running.
    pub fn join(self) -> Result<(), LaunchError> {
        for _ in 0..self.threads.len() {
            if let Ok((core, Err(message))) = self.ended.recv() {
                return Err(LaunchError::Panicked { core, message });
            }
        }
        for t in self.threads {
            let _ = t.join(); // its end was reported above
        }
        Ok(())
    }

    /// What each core did.
    pub fn stats(&self) -> Vec<Arc<CoreStats>> {
        self.stats.clone()
    }
}

/// What a core's thread is given.
struct CorePlan {
    index: usize,
    processor: Option<usize>,
    wakers: Arc<[Waker]>,
    entries: u32,
    submit_ops: u32,
    spin: (Duration, Duration),
    stats: Arc<CoreStats>,
}

/// Starts a thread for each core and, once all are ready, `start` on each; its program then runs until it says `Stop`.
pub fn launch(opts: UringOptions, start: impl Fn(Rt) -> Box<dyn App> + Send + Sync + 'static) -> Result<Cores, LaunchError> {
    check(&opts)?;
    let wakers = (0..opts.cores).map(|_| Waker::new()).collect::<Result<Arc<[Waker]>, i32>>();
    let wakers = wakers.map_err(|e| LaunchError::from_errno("make an eventfd", e))?;
    let start = Arc::new(start);
    let (ready_tx, ready_rx) = mpsc::channel();
    let (ended_tx, ended) = mpsc::channel();
    let (mut threads, mut gates, mut stats) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..opts.cores {
        let (gate_tx, gate_rx) = mpsc::channel::<()>();
        let plan = CorePlan {
            index,
            processor: opts.pin.as_ref().map(|p| p[index]),
            wakers: Arc::clone(&wakers),
            entries: opts.ring_entries,
            submit_ops: opts.submit_ops,
            spin: (opts.spin_devices, opts.spin),
            stats: Arc::new(CoreStats::default()),
        };
        stats.push(Arc::clone(&plan.stats));
        gates.push(gate_tx);
        let (start, ready_tx, ended_tx) = (Arc::clone(&start), ready_tx.clone(), ended_tx.clone());
        let thread = thread::Builder::new().name(format!("{}-{index}", opts.thread_name)).spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| core_thread(plan, &*start, ready_tx, gate_rx))).map_err(message);
            let _ = ended_tx.send((index, ended));
        });
        // On failure the gates are dropped, so threads that were started end.
        threads.push(thread.map_err(|source| LaunchError::System { what: "start a thread", source })?);
    }
    drop(ready_tx);
    for _ in 0..opts.cores {
        match ready_rx.recv() {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(e),
            Err(_) => return Err(LaunchError::Panicked { core: 0, message: "a core ended while it was starting".into() }),
        }
    }
    for gate in gates {
        let _ = gate.send(());
    }
    Ok(Cores { stats, ended, threads })
}

fn check(opts: &UringOptions) -> Result<(), LaunchError> {
    if opts.cores == 0 || opts.cores > CORES_MAX {
        return Err(LaunchError::Cores { cores: opts.cores });
    }
    match &opts.pin {
        Some(p) if p.len() < opts.cores => Err(LaunchError::TooFewProcessors { cores: opts.cores, processors: p.len() }),
        _ => Ok(()),
    }
}

fn core_thread(
    plan: CorePlan,
    start: &(impl Fn(Rt) -> Box<dyn App> + ?Sized),
    ready: mpsc::Sender<Result<(), LaunchError>>,
    gate: mpsc::Receiver<()>,
) {
    let core = match prepare(&plan) {
        Ok(core) => Rc::new(core),
        Err(e) => {
            let _ = ready.send(Err(e));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    drop(ready);
    if gate.recv().is_err() {
        return; // another core could not start
    }
    let rt = Rt::new(Driver::Uring(Rc::clone(&core)));
    let mut app = start(rt.clone());
    reactor::run(&core, &rt, &mut *app, Spin::new(plan.spin.0, plan.spin.1));
    drop(app);
    rt.end();
    core.drain();
}

fn prepare(plan: &CorePlan) -> Result<Core, LaunchError> {
    sys::prepare_thread();
    if let Some(processor) = plan.processor {
        sys::pin(processor).map_err(|source| LaunchError::Pin { core: plan.index, processor, source })?;
    }
    Core::new(plan.index, Arc::clone(&plan.wakers), (plan.entries, plan.submit_ops), Arc::clone(&plan.stats))
}

fn message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or_else(|| "no message".into(), |text| (*text).into()),
    }
}

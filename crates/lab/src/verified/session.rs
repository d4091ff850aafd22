//! The controller that the threads of a load share: made once, made again by one of them when it is lost.
//!
//! Invariants: the generation grows with each new controller; a thread that finds another generation than its queue's gives its
//! queue up. Two losses are one outage when the second thread noticed the same controller's death.
//! Never: goes on after one reconnect failed for good; all threads then get the error.

use super::load_error::LoadError;
use crate::lock::lock;
use initiator::controller::{Backoff, Controller, ControllerOptions, reconnect};
use initiator::error::{Error, Unsupported};
use initiator::io::{IoQueue, Namespace};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How a thread's time with a controller ended.
pub(super) enum SessionEnd {
    /// The load is over.
    Done,
    /// There is a new controller.
    Replaced,
}

pub(super) struct Session {
    options: ControllerOptions,
    nsid: u32,
    queues: u16,
    reconnect_for: Duration,
    generation: AtomicU64,
    state: Mutex<SessionState>,
}

#[derive(Default)]
struct SessionState {
    controller: Option<(Controller, Namespace)>,
    lost_at: Option<Instant>,
    why: String,
    failed: Option<String>,
    losses: u64,
    outage_max: Duration,
}

impl Session {
    pub(super) fn new(options: ControllerOptions, nsid: u32, queues: u16, reconnect_for: Duration) -> Self {
        Self { options, nsid, queues, reconnect_for, generation: AtomicU64::new(0), state: Mutex::default() }
    }

    fn connect(&self) -> Result<(Controller, Namespace), Error> {
        let controller = Controller::connect(self.options.clone())?;
        if controller.set_queues(self.queues)? < self.queues {
            return Err(Error::Unsupported(Unsupported::FewerQueues));
        }
        let namespace = controller.namespace(self.nsid)?;
        Ok((controller, namespace))
    }

    /// The first connection. With a time to reconnect, a target that is still starting is waited for.
    pub(super) fn connect_first(&self) -> Result<Namespace, Error> {
        let made = reconnect(Instant::now() + self.reconnect_for, Backoff::default(), || self.connect())?;
        let namespace = made.1;
        lock(&self.state).controller = Some(made);
        Ok(namespace)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
    /// Losses and the longest outage.
    pub(super) fn losses(&self) -> (u64, Duration) {
        let state = lock(&self.state);
        (state.losses, state.outage_max)
    }

    /// The controller of `generation` is no more use, as a thread found.
    pub(super) fn lost(&self, generation: u64, why: &Error) -> Result<(), LoadError> {
        let mut state = lock(&self.state);
        if self.generation() != generation {
            return Ok(());
        }
        state.why = why.to_string();
        if self.reconnect_for.is_zero() {
            return Err(LoadError::NoReconnect(self.reconnect_for, state.why.clone()));
        }
        self.drop_controller(&mut state);
        Ok(())
    }

    /// An I/O queue of the controller in force; makes a new controller when there is none. The lock makes the others wait.
    pub(super) fn open_queue(&self, qid: u16, depth: u16, reconnects: &AtomicU64) -> Result<(IoQueue, u64), LoadError> {
        let mut state = lock(&self.state);
        if let Some(why) = &state.failed {
            return Err(LoadError::NoReconnect(self.reconnect_for, why.clone()));
        }
        let deadline = state.lost_at.unwrap_or_else(Instant::now) + self.reconnect_for;
        match reconnect(deadline, Backoff::default(), || self.try_open(&mut state, qid, depth)) {
            Ok(queue) => {
                if let Some(at) = state.lost_at.take() {
                    state.outage_max = state.outage_max.max(at.elapsed());
                    reconnects.fetch_add(1, Ordering::Relaxed);
                }
                Ok((queue, self.generation()))
            }
            Err(e) => {
                let why = format!("{e} (lost by: {})", state.why);
                state.failed = Some(why.clone());
                Err(LoadError::NoReconnect(self.reconnect_for, why))
            }
        }
    }

    fn try_open(&self, state: &mut SessionState, qid: u16, depth: u16) -> Result<IoQueue, Error> {
        if state.controller.as_ref().is_some_and(|(c, _)| c.failed()) {
            self.drop_controller(state);
        }
        if state.controller.is_none() {
            state.controller = Some(self.connect()?);
        }
        let (controller, namespace) = state.controller.as_ref().expect("it was made above");
        let opened = controller.open_queue(qid, depth, *namespace);
        if opened.is_err() {
            // A controller whose queues cannot be opened is given up with them.
            self.drop_controller(state);
        }
        opened
    }

    fn drop_controller(&self, state: &mut SessionState) {
        state.controller = None;
        state.lost_at.get_or_insert_with(Instant::now);
        state.losses += 1;
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the controller in an orderly way.
    pub(super) fn end(&self) {
        if let Some((controller, _)) = lock(&self.state).controller.take() {
            // The load's result stands whatever the target says to a shutdown.
            let _ = controller.shutdown();
        }
    }
}

//! The worker: a thread beside the cores for arithmetic that would hold up a core, which is the modular exponentiation of authentications.
//!
//! Invariants: a core has at most as many pieces as its front end gives away of work here at a time, which front ends bound; a piece comes back
//! to its core through core 0's inbox, or the host has stopped. After each piece the thread rests as long as that took: authentications of
//! unauthenticated peers never take more than half a processor from the cores.
//! Never: in a simulated world; there a core does the work itself, at once, so that runs repeat.
#![allow(clippy::disallowed_methods)] // A thread and a clock of its own, outside of the cores.

use crate::{controller::Command, door, message::CoreMsg};
use auth::Work;
use frontend::{FrontEnd, WorkId};
use rt::Inlet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Longest rest after a piece of work.
const REST_MAX: Duration = Duration::from_millis(50);

/// Where a core puts work. The thread ends when all of these are gone.
#[derive(Clone)]
pub(crate) struct Worker(Sender<(WorkId, Work)>);

impl Worker {
    /// Starts the thread. It gives back what is done through `inlet`.
    pub(crate) fn start<F: FrontEnd>(inlet: Inlet<Command<F>>) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        thread::Builder::new().name("basalt-worker".into()).spawn(move || serve(&receiver, &inlet))?;
        Ok(Self(sender))
    }
    /// Hands over a piece of work, or gives it back when the thread is gone.
    pub(crate) fn give(&self, id: WorkId, work: Work) -> Result<(), (WorkId, Work)> {
        self.0.send((id, work)).map_err(|e| e.0)
    }
}

fn serve<F: FrontEnd>(receiver: &Receiver<(WorkId, Work)>, inlet: &Inlet<Command<F>>) {
    while let Ok((id, work)) = receiver.recv() {
        let started = Instant::now();
        let done = Box::new(work.run());
        let took = started.elapsed();
        let command: Command<F> = Box::new(move |controller| {
            let rt = controller.rt.clone();
            let core = &mut *controller.core.borrow_mut();
            if id.core == rt.core() {
                core.front.on_work_done(&rt, id, *done);
            } else {
                core.send(id.core, CoreMsg::Worked(id, done));
                rt.wake(rt.core());
            }
        });
        // What is lost would be missed by its core, which counts what is away: so it waits for as long as there is a core.
        if door::send(inlet, command, Duration::MAX).is_err() {
            return;
        }
        thread::sleep(took.min(REST_MAX));
    }
}

//! Destaging: moving what is live in the log to capacity, and releasing the log behind it.
//!
//! Owns: the cursor through the log (`progress`), the workers (`job`), the checkpoint (`checkpoint`), the controller task, the end of a dropped
//! component (`drop`).
//! Invariants: I1 and I2 of docs/on-disk-format.md. A segment is clean when it is sealed and none of its blocks is live; segments
//! become clean in any order and are released from the tail on, after a checkpoint that began when they were clean.
//! Never: moves a block that was overwritten; holds up a read; gives up data because of an error.

pub(crate) mod checkpoint;
pub(crate) mod drop;
pub(crate) mod job;
pub(crate) mod progress;

use crate::buffer::ring::RESERVE_SEGMENTS;
use crate::pace::{CHECKPOINT_SHARE, DESTAGE_WORKERS, Plan};
use crate::shard::op::StoreError;
use crate::shard::state::{Phase, State};
use base::hooks::{self, CoverageMark};
use base::{Duration, Instant};
use core::cell::RefCell;
use core::future::Future;
use core::task::Poll;
use rt::{Rt, TaskId};
use std::rc::Rc;

/// How often the controller looks while there is something to do.
const TICK: Duration = Duration::from_millis(5);
/// And while data lies in the log but nothing has to be done yet.
const TICK_CALM: Duration = Duration::from_millis(250);
/// A checkpoint is due when anything has been waiting for one for so long.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// So many failures in a row, with a full log, and writes fail instead of waiting.
const FAILING_MAX: u32 = 8;

impl State {
    /// Finds how far the log is clean.
    pub fn advance_clean(&mut self) -> u64 {
        self.destage.clean = self.log.clean_from(self.destage.clean);
        self.destage.clean
    }

    /// Effort now.
    pub fn plan(&self, now: Instant) -> Plan {
        let rest = Plan { workers: 0, duty: 0.0 };
        if self.phase != Phase::Open || now < self.destage.resume_at { rest } else { self.pacer.plan(self.pace_fill(), now) }
    }

    /// Like `fill`, but what destaging has passed and had to leave counts.
    fn pace_fill(&self) -> f64 {
        // The cursor may be at the end while failed jobs left blocks behind.
        self.fill().max(if self.destage.failing > 0 { self.log.live_share() } else { 0.0 })
    }

    fn checkpoint_due(&mut self, now: Instant) -> bool {
        let clean = self.advance_clean();
        let ring = self.log.ring();
        let lag = clean - ring.tail();
        if lag == 0 || self.log.is_quiet() || self.log.is_stopped() || now < self.destage.resume_at {
            return false;
        }
        let unit = ((ring.count() as f64 * CHECKPOINT_SHARE) as u64).max(1);
        lag >= unit
            || self.phase != Phase::Open
            || ring.free() <= RESERVE_SEGMENTS + unit
            || now.since(self.destage.last_checkpoint) >= hooks::tiny(CHECKPOINT_INTERVAL, Duration::from_millis(40))
            || clean > ring.head()
    }

    /// An idle shard drains its log to the last block: the open segment is closed early.
    fn seal_when_idle(&mut self, rt: &Rt) {
        let only_open_left = self.log.open_at_rest().is_some_and(|open| self.destage.cursor.seq >= open);
        if only_open_left && self.plan(rt.now()).workers > 0 {
            hooks::reached(CoverageMark::IdleDrain);
            self.log.seal_open(rt, &self.queue, &mut self.figures);
        }
    }

    /// Capacity has failed for a while and the log is full: waiting any longer helps nobody.
    fn fail_when_stuck(&mut self, now: Instant) {
        if self.destage.failing >= hooks::tiny(FAILING_MAX, 3) && self.log.is_stuck() {
            self.destage.trouble.refuses(now);
            self.fail_waiting(if self.destage.full { StoreError::NoSpace } else { StoreError::DeviceFailed });
        }
    }
}

/// Starts the controller and the workers.
pub(crate) fn spawn(rt: &Rt, state: &Rc<RefCell<State>>) -> Vec<TaskId> {
    let mut tasks = vec![rt.spawn(control(rt.clone(), Rc::clone(state)))];
    tasks.extend((0..DESTAGE_WORKERS).map(|worker| rt.spawn(job::work(rt.clone(), Rc::clone(state), worker))));
    tasks
}

/// What the controller does next.
enum Step {
    Checkpoint,
    Wait(Option<Duration>),
    Quiet,
}

async fn control(rt: Rt, state: Rc<RefCell<State>>) {
    let wake = state.borrow().destage.wake.clone();
    loop {
        match next_step(&rt, &state) {
            Step::Checkpoint if checkpoint::run(&rt, &state).await => {}
            // What is in its way takes time to go: a summary that is being written, a reader.
            Step::Checkpoint => rt.sleep(TICK).await,
            Step::Wait(None) => wake.notified().await,
            Step::Wait(Some(time)) => first_of(wake.notified(), rt.sleep(time)).await,
            Step::Quiet => {
                state.borrow_mut().phase = Phase::Quiet;
                return;
            }
        }
    }
}

fn next_step(rt: &Rt, state: &Rc<RefCell<State>>) -> Step {
    let mut s = state.borrow_mut();
    let now = rt.now();
    if s.phase != Phase::Open {
        return closing_step(rt, &mut s, now);
    }
    s.seal_when_idle(rt);
    s.fail_when_stuck(now);
    if s.checkpoint_due(now) {
        return Step::Checkpoint;
    }
    let plan = s.plan(now);
    if plan.workers > 0 {
        s.destage.work.notify_all();
    } else {
        s.pacer.resting();
    }
    let empty = s.log.is_empty();
    s.destage.asleep = empty;
    let calm = plan.workers == 0 && s.log.waiting().is_empty() && s.destage.failing == 0 && s.destage.clean == s.log.ring().tail();
    match (empty, calm) {
        (true, _) => Step::Wait(None),
        (false, true) => Step::Wait(Some(TICK_CALM)),
        (false, false) => Step::Wait(Some(TICK)),
    }
}

/// Shutting down: once nothing is in flight, one checkpoint of what is clean, and that is all.
fn closing_step(rt: &Rt, s: &mut State, now: Instant) -> Step {
    let busy = !s.ops.have_ended() || s.log.is_writing() || s.destage.jobs > 0;
    if busy {
        return Step::Wait(Some(TICK));
    }
    if s.log.open_at_rest().is_some() {
        s.log.seal_open(rt, &s.queue, &mut s.figures); // with its summary, the next opening is quick
    }
    if s.destage.failing == 0 && s.checkpoint_due(now) { Step::Checkpoint } else { Step::Quiet }
}

/// Waits for the one that is ready first; drops the other.
async fn first_of(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let mut a = Box::pin(a);
    let mut b = Box::pin(b);
    core::future::poll_fn(
        |cx| {
            if a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { Poll::Pending }
        },
    )
    .await;
}

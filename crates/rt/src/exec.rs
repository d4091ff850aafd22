//! Tasks: background work (recovery, destage, checkpoint, scrub) as futures, on the core's own thread.
//!
//! Owns: the tasks of one core and the queue of those that are ready.
//! Invariants: ready tasks run in the order in which they were woken; a turn runs only those that were ready at its start, so a
//! task that yields lets the rest of the core go on; at most [`TASKS_MAX`].
//! Never: carries an I/O of a host (those are explicit state machines).

use crate::CoreWaker;
use core::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
};
use slab::Slab;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    task::Wake,
};

/// How many tasks a core may have.
pub const TASKS_MAX: usize = 1 << 16;

/// A task of this core. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    slot: u32,
    serial: u64,
}

type Job = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    serial: u64,
    /// Away while it is being polled.
    job: Option<Job>,
    wake: Arc<TaskWake>,
}

/// Tasks that were woken, in order. Wakers are `Send` by contract, so this is the one place of a core behind a lock; it is
/// taken once a wake-up of a background task, and contended only when another thread wakes one.
struct Ready {
    list: Mutex<VecDeque<TaskId>>,
    some: AtomicBool,
    core: CoreWaker,
}

struct TaskWake {
    id: TaskId,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(self.id);
            self.ready.core.wake();
        }
    }
}

impl Ready {
    fn push(&self, id: TaskId) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push_back(id);
        self.some.store(true, Ordering::Release);
    }
    fn pop(&self) -> Option<TaskId> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let id = list.pop_front();
        if list.is_empty() {
            self.some.store(false, Ordering::Release);
        }
        id
    }
    fn len(&self) -> usize {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

pub(crate) struct Executor {
    tasks: RefCell<Slab<Task>>,
    ready: Arc<Ready>,
    serial: Cell<u64>,
    ended: Cell<bool>,
}

impl Executor {
    pub(crate) fn new(core: CoreWaker) -> Executor {
        let ready = Ready { list: Mutex::new(VecDeque::new()), some: AtomicBool::new(false), core };
        Executor { tasks: RefCell::default(), ready: Arc::new(ready), serial: Cell::new(0), ended: Cell::new(false) }
    }

    /// Starts a task; it runs for the first time in the next turn.
    pub(crate) fn spawn(&self, job: Job) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        assert!(tasks.len() < TASKS_MAX, "more than {TASKS_MAX} tasks on a core");
        self.serial.set(self.serial.get() + 1);
        let entry = tasks.vacant_entry();
        let id = TaskId { slot: entry.key() as u32, serial: self.serial.get() };
        if self.ended.get() {
            drop(tasks);
            drop(job); // the core is ending: nothing starts any more
            return id;
        }
        let wake = Arc::new(TaskWake { id, queued: AtomicBool::new(false), ready: Arc::clone(&self.ready) });
        entry.insert(Task { serial: id.serial, job: Some(job), wake: Arc::clone(&wake) });
        drop(tasks);
        wake.wake();
        id
    }

    /// Drops a task, unless it has ended. A task that cancels itself ends at its next await.
    pub(crate) fn cancel(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        if tasks.get(id.slot as usize).is_some_and(|t| t.serial == id.serial) {
            let task = tasks.remove(id.slot as usize);
            drop(tasks); // what the task drops may come back here
            drop(task);
        }
    }

    /// Whether a task waits to run.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.some.load(Ordering::Acquire)
    }

    /// How many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Runs the tasks that are ready now, each once; how many.
    pub(crate) fn run(&self) -> usize {
        if !self.has_ready() {
            return 0;
        }
        let mut ran = 0;
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop() else { break };
            ran += usize::from(self.run_one(id));
        }
        ran
    }

    fn run_one(&self, id: TaskId) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get_mut(id.slot as usize).filter(|t| t.serial == id.serial) else { return false };
        let Some(mut job) = task.job.take() else { return false };
        let wake = Arc::clone(&task.wake);
        drop(tasks);
        wake.queued.store(false, Ordering::Release);
        let waker = Waker::from(wake);
        let polled = job.as_mut().poll(&mut Context::from_waker(&waker));
        let mut tasks = self.tasks.borrow_mut();
        match tasks.get_mut(id.slot as usize).filter(|t| t.serial == id.serial) {
            Some(task) if polled.is_pending() => task.job = Some(job),
            Some(_) => {
                let task = tasks.remove(id.slot as usize);
                drop(tasks);
                drop((task, job));
            }
            None => {
                drop(tasks); // cancelled while it ran
                drop(job);
            }
        }
        true
    }

    /// Drops all tasks; none starts after this.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        let tasks = core::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        while self.ready.pop().is_some() {}
    }
}

/// Pending once, ready the next time.
pub(crate) struct YieldNow(pub(crate) bool);

impl Future for YieldNow {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

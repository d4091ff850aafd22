//! What the tests of the Linux driver share.
#![allow(dead_code)]

use rt::{App, Completion, Cores, Progress, Queue, Rt, UringOptions, launch};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

/// What a test waits at most for something that should come at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Polls nothing itself; stops when its task has ended.
struct TaskApp(Rc<Cell<bool>>);

impl App for TaskApp {
    fn poll(&mut self, _: &Rt) -> Progress {
        if self.0.get() { Progress::Stop } else { Progress::Idle }
    }
}

/// Runs `f` as a task on one core and returns what it came to.
pub fn on_core<T: Send + 'static, F: Future<Output = T> + 'static>(f: impl FnOnce(Rt) -> F + Send + 'static) -> T {
    on_core_with(UringOptions::default(), f)
}

pub fn on_core_with<T: Send + 'static, F: Future<Output = T> + 'static>(opts: UringOptions, f: impl FnOnce(Rt) -> F + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    let parts = Mutex::new(Some((f, tx)));
    let cores = launch(opts, move |rt| {
        let (f, tx) = parts.lock().unwrap().take().expect("one core");
        let done = Rc::new(Cell::new(false));
        let (task, flag) = (f(rt.clone()), Rc::clone(&done));
        rt.spawn(async move {
            tx.send(task.await).unwrap();
            flag.set(true);
        });
        Box::new(TaskApp(done))
    })
    .unwrap();
    let got = rx.recv_timeout(Duration::from_secs(60));
    cores.join().unwrap();
    got.expect("the task ends in time")
}

/// The next completion of `q`; sleeps in between, so the core may sleep too.
pub async fn next(rt: &Rt, q: &Queue) -> Completion {
    loop {
        if let Some(c) = q.pop() {
            return c;
        }
        rt.sleep(Duration::from_micros(100)).await;
    }
}

/// An app from a closure.
pub struct FnApp<F>(pub F);

impl<F: FnMut(&Rt) -> Progress> App for FnApp<F> {
    fn poll(&mut self, rt: &Rt) -> Progress {
        (self.0)(rt)
    }
}

/// Launches with an app made from a closure on each core.
pub fn launch_fn<A: FnMut(&Rt) -> Progress + 'static>(cores: usize, make: impl Fn(Rt) -> A + Send + Sync + 'static) -> Cores {
    launch(UringOptions { cores, ..UringOptions::default() }, move |rt| Box::new(FnApp(make(rt)))).unwrap()
}

//! What an idle core costs: a listener, some connections, a few timers a second.
//!
//! `cargo run --release -p rt --example idle -- [seconds [timers a second]]`
// Outside of the cores: real clocks and threads are what this is about.
#![allow(clippy::disallowed_methods)]

use rt::{App, Progress, Queue, Rt, UringOptions, launch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

struct Idle {
    q: Queue,
    every: Duration,
    stop: Arc<AtomicBool>,
}

impl App for Idle {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut busy = false;
        while self.q.pop().is_some() {
            busy = true;
            rt.timer(&self.q, 0, rt.now() + self.every);
        }
        match busy {
            _ if self.stop.load(Relaxed) => Progress::Stop,
            true => Progress::Busy,
            false => Progress::Idle,
        }
    }
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    // SAFETY: all-zero bytes are a valid `rusage`, and the pointer is valid for one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn main() {
    let args: Vec<f64> = std::env::args().skip(1).map(|a| a.parse().expect("a number")).collect();
    let (seconds, rate) = (args.first().copied().unwrap_or(5.0), args.get(1).copied().unwrap_or(10.0));
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let cores = launch(UringOptions::default(), move |rt| {
        let q = rt.queue();
        rt.listen(&rt.queue(), 0, "127.0.0.1:0".parse().expect("an address")).expect("listens");
        rt.timer(&q, 0, rt.now());
        Box::new(Idle { q, every: Duration::from_secs_f64(1.0 / rate), stop: Arc::clone(&flag) })
    })
    .expect("starts");
    std::thread::sleep(Duration::from_millis(200));
    let stats = cores.stats().remove(0);
    let (before, loops, calls) = (cpu(), stats.loops.get(), stats.syscalls.get());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let used = cpu() - before;
    println!(
        "{rate} timers a second: {:.3} % of a processor, {:.1} turns and {:.1} system calls a second",
        used.as_secs_f64() / seconds * 100.0,
        (stats.loops.get() - loops) as f64 / seconds,
        (stats.syscalls.get() - calls) as f64 / seconds,
    );
    stop.store(true, Relaxed);
    cores.join().expect("no panic");
}

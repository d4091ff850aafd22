//! Messages a second over loopback between two cores, and system calls a message.
//!
//! `cargo run --release -p rt --example echo_bench -- [message bytes [seconds [pinned|free|shared [connections]]]]`
//!
//! A client core keeps a number of messages under way on each connection; a server core sends each back. `pinned` runs the server
//! on processor 0 and the client on 1, `free` leaves both to the scheduler, `shared` puts both on processor 0.
// Outside of the cores: real clocks and threads are what this is about.
#![allow(clippy::disallowed_methods)]

use rt::{App, Buf, ConnId, CoreStats, Event, Progress, Queue, Rt, SendList, UringOptions, launch};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const RECV_BYTES: usize = 128 << 10;

struct Shared {
    stop: AtomicBool,
    messages: AtomicU64,
}

struct Server {
    q: Queue,
    shared: Arc<Shared>,
}

impl App for Server {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut busy = false;
        while let Some(c) = self.q.pop() {
            busy = true;
            match c.event {
                Event::Accepted { conn, .. } => rt.recv(&self.q, 0, conn, Buf::alloc(RECV_BYTES)),
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    let mut list = SendList::new();
                    list.push_data(buf, 0..n);
                    rt.send(&self.q, 0, conn, list);
                    rt.recv(&self.q, 0, conn, Buf::alloc(RECV_BYTES));
                }
                Event::Received { conn, .. } => rt.close(conn),
                _ => {}
            }
        }
        progress(&self.shared, busy)
    }
}

struct Client {
    q: Queue,
    shared: Arc<Shared>,
    bytes: usize,
    depth: usize,
    conns: Vec<(ConnId, usize)>,
}

impl Client {
    fn send(&self, rt: &Rt, conn: ConnId, messages: usize) {
        let mut left = messages * self.bytes;
        while left > 0 {
            let n = left.min(64 << 10);
            let mut list = SendList::new();
            list.push_data(Buf::alloc(n), 0..n);
            rt.send(&self.q, 0, conn, list);
            left -= n;
        }
    }
}

impl App for Client {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut busy = false;
        while let Some(c) = self.q.pop() {
            busy = true;
            match c.event {
                Event::Connected { result } => {
                    let conn = result.expect("the server listens");
                    self.conns.push((conn, 0));
                    self.send(rt, conn, self.depth);
                    rt.recv(&self.q, 0, conn, Buf::alloc(RECV_BYTES));
                }
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    let part = &mut self.conns.iter_mut().find(|(c, _)| *c == conn).expect("ours").1;
                    *part += n;
                    let whole = *part / self.bytes;
                    *part %= self.bytes;
                    self.shared.messages.fetch_add(whole as u64, Relaxed);
                    self.send(rt, conn, whole);
                    rt.recv(&self.q, 0, conn, buf);
                }
                _ => {}
            }
        }
        progress(&self.shared, busy)
    }
}

fn progress(shared: &Shared, busy: bool) -> Progress {
    match busy {
        _ if shared.stop.load(Relaxed) => Progress::Stop,
        true => Progress::Busy,
        false => Progress::Idle,
    }
}

fn options(name: &str, pin: Option<usize>) -> UringOptions {
    UringOptions { pin: pin.map(|p| vec![p]), thread_name: name.into(), ..UringOptions::default() }
}

fn run(bytes: usize, depth: usize, seconds: f64, place: &str, conns: usize) {
    let (server_cpu, client_cpu) = match place {
        "pinned" => (Some(0), Some(1)),
        "shared" => (Some(0), Some(0)),
        _ => (None, None),
    };
    let shared = Arc::new(Shared { stop: AtomicBool::new(false), messages: AtomicU64::new(0) });
    let (tx, rx) = mpsc::channel::<SocketAddr>();
    let tx = Mutex::new(tx);
    let (wake_tx, wake_rx) = mpsc::channel();
    let (server_wake, client_wake) = (Mutex::new(wake_tx.clone()), Mutex::new(wake_tx));
    let s = Arc::clone(&shared);
    let server = launch(options("server", server_cpu), move |rt| {
        let q = rt.queue();
        server_wake.lock().expect("one user").send(rt.waker()).expect("main waits");
        let l = rt.listen(&q, 0, "127.0.0.1:0".parse().expect("an address")).expect("listens");
        tx.lock().expect("one user").send(rt.local_addr(l)).expect("main waits");
        Box::new(Server { q, shared: Arc::clone(&s) })
    })
    .expect("the server starts");
    let addr = rx.recv().expect("an address");
    let s = Arc::clone(&shared);
    let client = launch(options("client", client_cpu), move |rt| {
        let q = rt.queue();
        client_wake.lock().expect("one user").send(rt.waker()).expect("main waits");
        (0..conns).for_each(|_| rt.connect(&q, 0, addr));
        Box::new(Client { q, shared: Arc::clone(&s), bytes, depth, conns: Vec::new() })
    })
    .expect("the client starts");
    std::thread::sleep(Duration::from_millis(200));
    let (a, b) = (server.stats().remove(0), client.stats().remove(0));
    let look = |s: &CoreStats| [s.syscalls.get(), s.recv_calls.get(), s.send_calls.get(), s.loops.get(), s.sleep_ns.get()];
    let (m0, a0, b0) = (shared.messages.load(Relaxed), look(&a), look(&b));
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (m1, a1, b1) = (shared.messages.load(Relaxed), look(&a), look(&b));
    shared.stop.store(true, Relaxed);
    let n = (m1 - m0).max(1) as f64;
    let per = |i: usize, x: [u64; 5], y: [u64; 5]| (y[i] - x[i]) as f64 / n;
    println!(
        "{bytes} B depth {depth} x {conns} {place}: {:>8.0} messages/s, {:>6.2} us each; server a message: {:.2} syscalls ({:.2} recv, {:.2} send), {:.1} turns, asleep {:.0} %; client {:.2} syscalls, asleep {:.0} %",
        n / seconds,
        seconds * 1e6 / n * (depth * conns) as f64,
        per(0, a0, a1),
        per(1, a0, a1),
        per(2, a0, a1),
        per(3, a0, a1),
        (a1[4] - a0[4]) as f64 / seconds / 1e7,
        per(0, b0, b1),
        (b1[4] - b0[4]) as f64 / seconds / 1e7,
    );
    for waker in [wake_rx.recv(), wake_rx.recv()].into_iter().flatten() {
        waker.wake();
    }
    client.join().expect("no panic");
    server.join().expect("no panic");
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, d: f64| args.get(i).map_or(d, |a| a.parse().expect("a number"));
    let place = args.get(2).map_or("pinned", |s| s.as_str());
    for depth in [1, 32] {
        run(number(0, 64.0) as usize, depth, number(1, 2.0), place, number(3, 1.0) as usize);
    }
}

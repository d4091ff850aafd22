//! Two nodes on the sockets of this machine.
// Outside of the cores: real clocks and threads are what this is about.
#![allow(clippy::disallowed_methods)]

use super::rig::{BLOCK, Half, Said, Volume, cluster, data, node, tls, volume};
use crate::{LinkSecurity, Peers, PeersMsg};
use object::{Forward, ForwardOutcome, IoOp};
use rt::{App, MeshEnd, Progress, Rt, UringOptions, launch};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

const ROUNDS: u32 = 50;

/// Node 0 writes and reads blocks of node 1, one after the other; both end when it is done.
struct Node {
    half: Half,
    asks: bool,
    next: u32,
    ready: Arc<AtomicUsize>,
    done: mpsc::Sender<Result<(), String>>,
}

impl Node {
    fn ask(&mut self, rt: &Rt) {
        let (id, at) = (self.next, u64::from(self.next / 2) * BLOCK as u64);
        let op = match id % 2 {
            0 => IoOp::Write { offset: at, data: data(BLOCK, id as u8) },
            _ => IoOp::Read { offset: at, len: BLOCK as u32 },
        };
        let forward = Forward { id, owner: node(1), volume: volume(1), revision: 1, since: rt.now(), op };
        self.half.volume.forwards.push_back(forward);
        rt.wake(0);
    }
    fn heard(&mut self, rt: &Rt) {
        let Some(done) = self.half.volume.done.pop() else { return };
        match done.outcome {
            // The link is not open yet.
            ForwardOutcome::NotDone(_) => {}
            ForwardOutcome::Answered(Ok(back)) => {
                if done.id % 2 == 1 && back[0].buf[..] != data(BLOCK, done.id as u8 - 1)[0].buf[..] {
                    self.done.send(Err(format!("request {} read something else", done.id))).unwrap();
                }
                self.next += 1;
            }
            ForwardOutcome::Answered(Err(error)) => self.done.send(Err(format!("request {}: {error}", done.id))).unwrap(),
        }
        if self.next == 2 * ROUNDS {
            self.done.send(Ok(())).unwrap();
            self.ready.store(usize::MAX, Ordering::Release);
            return;
        }
        self.ask(rt);
    }
}

impl App for Node {
    fn poll(&mut self, rt: &Rt) -> Progress {
        if self.ready.load(Ordering::Acquire) == usize::MAX {
            return Progress::Stop;
        }
        let busy = self.half.turn(rt);
        if self.asks {
            self.heard(rt);
        }
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

fn run(security: &LinkSecurity) {
    let (tx, rx) = mpsc::channel();
    let (ready, met, addrs) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)), Arc::new(Mutex::new([None; 2])));
    let start = |n: usize| {
        let (tx, ready, met, addrs, security) = (tx.clone(), Arc::clone(&ready), Arc::clone(&met), Arc::clone(&addrs), security.clone());
        let mesh: Mutex<Vec<MeshEnd<PeersMsg>>> = Mutex::new(rt::mesh(1, 64));
        let options = UringOptions { cores: 1, ..UringOptions::default() };
        launch(options, move |rt| {
            let mut peers = Peers::new(&rt);
            let addr: SocketAddr = peers.listen(&rt, "127.0.0.1:0".parse().unwrap()).unwrap();
            addrs.lock().unwrap()[n] = Some(addr);
            met.wait();
            let all = addrs.lock().unwrap().map(|a| a.expect("both listen")).to_vec();
            let said = Said { cluster: cluster(), security: security.clone(), incarnation: 1, revision: 1, addrs: all, cores: vec![1, 1] };
            said.apply(n, &rt, &mut peers);
            let half = Half { peers, volume: Volume::default(), mesh: mesh.lock().unwrap().pop().expect("one core") };
            let mut node = Node { half, asks: n == 0, next: 0, ready: Arc::clone(&ready), done: tx.clone() };
            if n == 0 {
                node.ask(&rt);
            }
            Box::new(node)
        })
        .unwrap()
    };
    // Each waits for the other while it starts.
    let (first, second) = std::thread::scope(|s| {
        let first = s.spawn(|| start(0));
        (start(1), first.join().unwrap())
    });
    let got = rx.recv_timeout(Duration::from_secs(60));
    ready.store(usize::MAX, Ordering::Release);
    for (cores, _) in [(first, 1), (second, 0)] {
        cores.join().unwrap();
    }
    got.expect("it ends in time").unwrap();
}

#[test]
fn two_nodes_on_real_sockets_write_and_read_over_tls_and_plain() {
    for security in [tls(), LinkSecurity::Plain] {
        run(&security);
    }
}

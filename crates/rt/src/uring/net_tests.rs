use super::*;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};

struct Rig {
    net: Net,
    q: Queue,
    stats: Arc<CoreStats>,
    addr: SocketAddr,
    _wake: OwnedFd,
}

impl Rig {
    fn new() -> Rig {
        let (wake, stats) = (sys::eventfd().unwrap(), Arc::<CoreStats>::default());
        let mut net = Net::new(wake.as_raw_fd(), Rc::default(), Arc::clone(&stats)).unwrap();
        let q = Queue::new();
        let listener = net.listen(&q, 0, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let addr = net.local_addr(listener);
        Rig { net, q, stats, addr, _wake: wake }
    }
    /// Polls until something was reported; the kernel may take a moment.
    fn next(&mut self) -> Event {
        for _ in 0..1_000_000 {
            if let Some(done) = self.q.pop() {
                return done.event;
            }
            self.net.poll(0, Ask::Yes);
        }
        panic!("nothing came");
    }
    fn accepted(&mut self) -> (TcpStream, ConnId) {
        let peer = TcpStream::connect(self.addr).unwrap();
        match self.next() {
            Event::Accepted { conn, .. } => (peer, conn),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_connection_has_what_its_listener_was_given() {
    let mut rig = Rig::new();
    let (_peer, conn) = rig.accepted();
    let fd = rig.net.conns[slot(conn.0)].fd.as_raw_fd();
    for (level, name, value) in ACCEPTED_OPTIONS {
        assert_eq!(sys::option(fd, level, name), Ok(value), "option {level}, {name}");
    }
}

#[test]
fn who_says_nothing_costs_a_watch_and_then_nothing() {
    let mut rig = Rig::new();
    let (mut peer, conn) = rig.accepted();
    let before = rig.stats.syscalls.get();
    rig.net.recv(&rig.q.clone(), 1, conn, 0..4096, Buf::zeroed(4096));
    assert_eq!(rig.stats.syscalls.get() - before, 1, "the watch");
    for _ in 0..300 {
        assert_eq!(rig.net.poll(0, Ask::IfIdle), 0);
    }
    assert_eq!(rig.stats.syscalls.get() - before, 301, "nothing but a look at epoll a turn");
    assert_eq!(rig.stats.recv_calls.get(), 0);
    assert!(!rig.net.conns[slot(conn.0)].readable && rig.net.ready.is_empty(), "nobody asks it in vain");
    peer.write_all(b"hello").unwrap();
    assert!(matches!(rig.next(), Event::Received { result: Ok(5), .. }));
}

#[test]
fn a_busy_connection_is_asked_directly_and_a_new_one_is_not() {
    let mut rig = Rig::new();
    let (mut peer, conn) = rig.accepted();
    let mut buf = Some(Buf::zeroed(4096));
    for n in 1..=DIRECT_AFTER_RECEIVES + 1 {
        rig.net.recv(&rig.q.clone(), 1, conn, 0..4096, buf.take().unwrap());
        peer.write_all(&[n as u8]).unwrap();
        match rig.next() {
            Event::Received { result: Ok(1), buf: got, .. } => buf = Some(got),
            other => panic!("{other:?}"),
        }
        assert_eq!(rig.net.conns[slot(conn.0)].readable, n > DIRECT_AFTER_RECEIVES, "after {n}");
    }
}

#[test]
fn data_goes_before_new_connections_which_come_a_few_at_a_time() {
    let mut rig = Rig::new();
    let (mut peer, conn) = rig.accepted();
    rig.net.recv(&rig.q.clone(), 1, conn, 0..4096, Buf::zeroed(4096));
    let _crowd: Vec<TcpStream> = (0..ACCEPTS_PER_TURN * 2).map(|_| TcpStream::connect(rig.addr).unwrap()).collect();
    peer.write_all(b"x").unwrap();
    rig.net.poll(0, Ask::Yes);
    assert!(matches!(rig.q.pop().unwrap().event, Event::Received { .. }));
    assert_eq!(rig.q.len(), ACCEPTS_PER_TURN);
    rig.net.poll(0, Ask::Yes);
    assert_eq!(rig.q.len(), ACCEPTS_PER_TURN * 2, "the others are not forgotten");
}

//! TCP with plain non-blocking sockets.
//!
//! Owns: the listeners and connections of one core and the operations under way on them.
//! Invariants: completions are pushed from the loop only (`poll`, `flush`, the deferred list), never from within a call that submits; a
//! connection that waits for data is either in the `ready` list or will be reported by epoll (edge-triggered), so none is forgotten; sends of
//! a connection keep their order; a connection's descriptor is closed once, when it leaves the slab. New connections come after the data of
//! those that are there, a few a turn, and cost little until they have proved to be busy: who floods a listener must not be felt.
//! Never: waits, looks at bytes.
//!
//! Why not io_uring sockets: SPDK, which has both, is about a third slower with them on loopback than with plain calls on polled sockets. Not
//! measured with this code.
//!
//! ```text
//! recv ──► waiting ──(epoll says so, or it had data last time)──► ready ──► recvmsg ──► Received
//!             ▲────────────────── EAGAIN ───────────────────────────┘
//! send ──► queue ──► dirty ──► sendmsg at the end of the turn ──► Sent
//!             ▲── EAGAIN: wait for EPOLLOUT ──┘
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;

use super::deferred::Deferred;
use super::limits;
use super::sys;
use crate::{Buf, ConnId, CoreStats, Event, ListenerId, NetError, Queue, SendList};

/// Connections of one core.
pub(super) const CONNS_MAX: usize = 1 << 16;
/// Listeners of one core.
pub(super) const LISTENERS_MAX: usize = 256;
/// Connections that wait in the kernel to be accepted.
const BACKLOG: libc::c_int = 1024;
/// Connections accepted from one listener at a time; those that are there go first again before the next.
const ACCEPTS_PER_TURN: usize = 8;
/// Descriptors that connections from outside never take: without them nothing that matters later could be opened, like the connection by which
/// an administrator looks why nobody comes in any more.
const DESCRIPTORS_KEPT: u64 = 64;
/// How long a listener rests when there is no descriptor for a new connection.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// Events taken from epoll at once.
const EVENTS_MAX: usize = 128;
/// Pieces of memory in one `sendmsg` (the kernel takes up to 1024).
const IOVECS_MAX: usize = 512;
/// An accepted connection is probed after so long without a segment, so often, and is dead when so many probes found no answer; also when what
/// was sent is not acknowledged for as long as all that takes.
const PROBE_IDLE_S: libc::c_int = 30;
const PROBE_EVERY_S: libc::c_int = 10;
const PROBES: libc::c_int = 3;
const UNACKNOWLEDGED_MS_MAX: libc::c_int = (PROBE_IDLE_S + PROBE_EVERY_S * PROBES) * 1000;
/// SYNs sent again before a connect gives up: about 15 s in all.
const SYN_RETRIES: libc::c_int = 3;
/// What is read and thrown away of a connection that is closed, so that the peer gets what was sent last instead of a reset.
const CLOSE_DRAIN_BYTES: usize = 256 << 10;
/// At most so many busy connections are asked directly, turn by turn, rather than through epoll: it saves a system call a message.
const DIRECT_CONNS_MAX: usize = 2;
/// So many times in a row a connection is asked in vain before it is left to epoll.
const DIRECT_TRIES_MAX: u32 = 256;
/// Receives with data before a connection counts as busy: one that has only just come takes no turns from others.
const DIRECT_AFTER_RECEIVES: u32 = 64;
/// Turns between looks at epoll while connections are asked directly or bring data.
const EPOLL_EVERY_TURNS: u32 = 8;

/// An id is the slot below this bit and the serial number above, so that it is never reused.
const SLOT_BITS: u32 = 20;
/// Set in the tokens of listeners.
const LISTENER: u64 = 1 << 63;
/// The token of the core's own wake-up.
const WAKE: u64 = u64::MAX;
/// The token of what watches Unix sockets and events. (No listener has it: serial numbers stay far below.)
const LOCAL: u64 = u64::MAX - 1;

const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32;
const HANGUP: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
const EDGES_IN: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
const EDGES_IN_OUT: u32 = EDGES_IN | libc::EPOLLOUT as u32;

/// A connection on its way between cores.
pub(crate) struct OwnedSocket(OwnedFd);

/// What epoll tells of a connection. An accepted one is not reported before it is used: it may go to another core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Watch {
    Nothing,
    In,
    InOut,
}

/// Whether epoll is asked in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// No: the ring watches its descriptor and has seen nothing.
    No,
    /// When there is little else to do, and now and then.
    IfIdle,
    /// Yes: a sleep follows.
    Yes,
}

struct Conn {
    id: u64,
    fd: OwnedFd,
    connecting: Option<(Queue, u64)>,
    rx: Option<Rx>,
    /// Data may be there: a receive is worth trying.
    readable: bool,
    /// The peer has ended or an error waits: receives never block again.
    hangup: bool,
    in_ready: bool,
    /// Receives in a row that found nothing.
    tries: u32,
    /// Receives that brought data.
    receives: u32,
    tx: VecDeque<Tx>,
    /// Bytes of the first list that were sent already.
    tx_skip: usize,
    /// The socket took no more; epoll tells when it does.
    tx_blocked: bool,
    watch: Watch,
    in_dirty: bool,
    /// Why nothing works on this connection.
    broken: Option<NetError>,
}

struct Rx {
    q: Queue,
    cookie: u64,
    at: Range<usize>,
    buf: Buf,
}

struct Tx {
    q: Queue,
    cookie: u64,
    list: SendList,
}

struct Listener {
    id: u64,
    fd: OwnedFd,
    q: Queue,
    cookie: u64,
    addr: SocketAddr,
    /// Out of descriptors: not watched until then.
    paused_until_ns: Option<u64>,
}

/// The sockets of a core.
pub(super) struct Net {
    epoll: OwnedFd,
    conns: Slab<Conn>,
    listeners: Slab<Listener>,
    serial: u64,
    /// Connections with a receive that is worth trying.
    ready: Vec<u64>,
    /// Spare of `ready`, kept for its memory.
    ready_spare: Vec<u64>,
    /// Connections with something to send.
    dirty: Vec<u64>,
    iovecs: Vec<libc::iovec>,
    events: Box<[libc::epoll_event]>,
    turns_without_epoll: u32,
    paused: usize,
    /// Unix sockets or events want attention.
    local_ready: bool,
    /// An accepted connection with this descriptor, or one above, is one too many: the kernel gives the lowest that is free.
    descriptors_max: u64,
    deferred: Rc<Deferred>,
    stats: Arc<CoreStats>,
}

impl Net {
    /// The sockets of a core that `wake_fd` (an eventfd) wakes. `errno` on failure.
    pub(super) fn new(wake_fd: RawFd, deferred: Rc<Deferred>, stats: Arc<CoreStats>) -> Result<Net, i32> {
        let epoll = sys::epoll()?;
        // Edge-triggered: each ring is an event, and the counter need not be read.
        sys::epoll_add(&epoll, wake_fd, (libc::EPOLLIN | libc::EPOLLET) as u32, WAKE)?;
        let open_files = limits::open_files();
        Ok(Net {
            epoll,
            conns: Slab::new(),
            listeners: Slab::new(),
            serial: 0,
            ready: Vec::new(),
            ready_spare: Vec::new(),
            dirty: Vec::new(),
            iovecs: Vec::with_capacity(IOVECS_MAX),
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX].into(),
            turns_without_epoll: 0,
            paused: 0,
            local_ready: false,
            descriptors_max: open_files - DESCRIPTORS_KEPT.min(open_files / 8),
            deferred,
            stats,
        })
    }

    /// Readable when a socket or the wake-up wants attention.
    pub(super) fn epoll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Has this core's epoll tell when `fd`, which watches Unix sockets and events, is readable.
    pub(super) fn watch_local(&self, fd: RawFd) -> Result<(), i32> {
        sys::epoll_add(&self.epoll, fd, libc::EPOLLIN as u32, LOCAL)
    }

    /// Whether it was, since this was last asked.
    pub(super) fn take_local_ready(&mut self) -> bool {
        std::mem::take(&mut self.local_ready)
    }

    fn next_id(&mut self, slot: usize) -> u64 {
        self.serial += 1;
        (self.serial << SLOT_BITS | slot as u64) & !LISTENER
    }

    fn conn(&mut self, id: u64) -> Option<&mut Conn> {
        self.conns.get_mut(slot(id)).filter(|c| c.id == id)
    }

    // ---- listeners ----

    pub(super) fn listen(&mut self, q: &Queue, cookie: u64, addr: SocketAddr) -> Result<ListenerId, NetError> {
        if self.listeners.len() >= LISTENERS_MAX {
            return Err(NetError::Limit);
        }
        let fd = match bound(addr, false) {
            // An IPv4 listener has the port already: leave IPv4 to it.
            Err(libc::EADDRINUSE) if addr.is_ipv6() && addr.ip().is_unspecified() => bound(addr, true),
            other => other,
        }
        .map_err(NetError::from_errno)?;
        let local = sys::local_addr(fd.as_raw_fd()).map_err(NetError::from_errno)?;
        let slot = self.listeners.vacant_key();
        let id = self.next_id(slot) | LISTENER;
        sys::epoll_add(&self.epoll, fd.as_raw_fd(), libc::EPOLLIN as u32, id).map_err(NetError::from_errno)?;
        self.listeners.insert(Listener { id, fd, q: q.clone(), cookie, addr: local, paused_until_ns: None });
        Ok(ListenerId(id))
    }

    pub(super) fn local_addr(&self, l: ListenerId) -> SocketAddr {
        self.listeners.get(slot(l.0)).filter(|x| x.id == l.0).expect("a listener that is closed").addr
    }

    pub(super) fn local_ip(&self, conn: ConnId) -> Option<IpAddr> {
        let c = self.conns.get(slot(conn.0)).filter(|c| c.id == conn.0)?;
        sys::local_addr(c.fd.as_raw_fd()).ok().map(|a| a.ip().to_canonical())
    }

    pub(super) fn close_listener(&mut self, l: ListenerId) {
        if self.listeners.get(slot(l.0)).is_some_and(|x| x.id == l.0) {
            let closed = self.listeners.remove(slot(l.0));
            self.paused -= usize::from(closed.paused_until_ns.is_some());
        }
    }

    fn accept(&mut self, token: u64, now_ns: u64) -> usize {
        let mut accepted = 0;
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(l) = self.listeners.get(slot(token)).filter(|l| l.id == token) else { break };
            self.stats.syscalls.add(1);
            match sys::accept(l.fd.as_raw_fd()) {
                Ok((fd, peer)) => {
                    let (q, cookie) = (l.q.clone(), l.cookie);
                    if self.conns.len() >= CONNS_MAX || fd.as_raw_fd() as u64 >= self.descriptors_max {
                        self.stats.accept_errors.add(1);
                        continue; // dropped, which closes it
                    }
                    let conn = self.insert(fd, None);
                    q.push(cookie, Event::Accepted { conn, peer });
                    accepted += 1;
                }
                Err(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    self.stats.accept_errors.add(1);
                    self.pause_listener(token, now_ns);
                    break;
                }
                Err(libc::EAGAIN) => break,
                // The connection died in the queue, or the network did: the next may be better (accept(2), error handling).
                Err(_) => self.stats.accept_errors.add(1),
            }
        }
        accepted
    }

    /// Out of descriptors: waiting for the listener would spin, so it rests.
    fn pause_listener(&mut self, token: u64, now_ns: u64) {
        let l = &mut self.listeners[slot(token)];
        if sys::epoll_remove(&self.epoll, l.fd.as_raw_fd()).is_ok() {
            l.paused_until_ns = Some(now_ns + ACCEPT_PAUSE_NS);
            self.paused += 1;
        }
    }

    fn resume_listeners(&mut self, now_ns: u64) {
        for (_, l) in &mut self.listeners {
            if l.paused_until_ns.is_some_and(|at| at <= now_ns) {
                l.paused_until_ns = match sys::epoll_add(&self.epoll, l.fd.as_raw_fd(), libc::EPOLLIN as u32, l.id) {
                    Ok(()) => None,
                    Err(_) => Some(now_ns + ACCEPT_PAUSE_NS),
                };
                self.paused -= usize::from(l.paused_until_ns.is_none());
            }
        }
    }

    /// When this wants to be polled even if nothing happens.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        if self.paused == 0 {
            return None;
        }
        self.listeners.iter().filter_map(|(_, l)| l.paused_until_ns).min()
    }

    // ---- connections ----

    fn insert(&mut self, fd: OwnedFd, connecting: Option<(Queue, u64)>) -> ConnId {
        let slot = self.conns.vacant_key();
        assert!(slot < 1 << SLOT_BITS, "more connections than ids");
        let id = self.next_id(slot);
        let connects = connecting.is_some();
        let mut conn = Conn {
            id,
            fd,
            connecting,
            rx: None,
            readable: false,
            hangup: false,
            in_ready: false,
            tries: 0,
            receives: 0,
            tx: VecDeque::new(),
            tx_skip: 0,
            tx_blocked: false,
            watch: Watch::Nothing,
            in_dirty: false,
            broken: None,
        };
        if connects {
            conn.broken = conn.watch(Watch::InOut, &self.epoll, &self.stats).err();
        }
        self.conns.insert(conn);
        ConnId(id)
    }

    pub(super) fn connect(&mut self, q: &Queue, cookie: u64, addr: SocketAddr) {
        let started = if self.conns.len() >= CONNS_MAX { Err(libc::EMFILE) } else { start_connect(addr) };
        match started {
            Ok(fd) => {
                let id = self.insert(fd, Some((q.clone(), cookie)));
                if let Some(e) = self.conns[slot(id.0)].broken {
                    self.conns.remove(slot(id.0));
                    self.deferred.push(q, cookie, Event::Connected { result: Err(e) });
                }
            }
            Err(errno) => self.deferred.push(q, cookie, Event::Connected { result: Err(NetError::from_errno(errno)) }),
        }
    }

    fn connected(&mut self, id: u64) -> usize {
        let Some((q, cookie)) = self.conn(id).and_then(|c| c.connecting.take()) else { return 0 };
        let result = match sys::take_error(self.conns[slot(id)].fd.as_raw_fd()) {
            Ok(()) => Ok(ConnId(id)),
            Err(errno) => {
                self.conns.remove(slot(id));
                Err(NetError::from_errno(errno))
            }
        };
        q.push(cookie, Event::Connected { result });
        1
    }

    pub(super) fn recv(&mut self, q: &Queue, cookie: u64, conn: ConnId, at: Range<usize>, buf: Buf) {
        let deferred = Rc::clone(&self.deferred);
        let refuse = |e, buf| deferred.push(q, cookie, Event::Received { conn, result: Err(e), buf });
        let Some(c) = self.conns.get_mut(slot(conn.0)).filter(|c| c.id == conn.0) else { return refuse(NetError::Closed, buf) };
        // Data that is there already is reported at once.
        if c.broken.is_none() {
            c.broken = c.watch(Watch::In, &self.epoll, &self.stats).err();
        }
        if let Some(e) = c.broken {
            return refuse(e, buf);
        }
        assert!(c.rx.is_none(), "two receives at a time on a connection");
        assert!(at.start < at.end && at.end <= buf.room(), "a receive needs room that nobody else reads");
        c.rx = Some(Rx { q: q.clone(), cookie, at, buf });
        if c.readable && !c.in_ready {
            c.in_ready = true;
            self.ready.push(conn.0);
        }
    }

    pub(super) fn send(&mut self, q: &Queue, cookie: u64, conn: ConnId, list: SendList) {
        let deferred = Rc::clone(&self.deferred);
        let refuse = |e, list| deferred.push(q, cookie, Event::Sent { conn, result: Err(e), list });
        let Some(c) = self.conn(conn.0) else { return refuse(NetError::Closed, list) };
        if let Some(e) = c.broken {
            return refuse(e, list);
        }
        c.tx.push_back(Tx { q: q.clone(), cookie, list });
        if !c.tx_blocked && !c.in_dirty {
            c.in_dirty = true;
            self.dirty.push(conn.0);
        }
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        if self.conn(conn.0).is_none() {
            return;
        }
        let mut c = self.conns.remove(slot(conn.0));
        if let Some((q, cookie)) = c.connecting.take() {
            self.deferred.push(&q, cookie, Event::Connected { result: Err(NetError::Closed) });
        }
        if let Some(Rx { q, cookie, buf, .. }) = c.rx.take() {
            self.deferred.push(&q, cookie, Event::Received { conn, result: Err(NetError::Closed), buf });
        }
        for Tx { q, cookie, list } in c.tx.drain(..) {
            self.deferred.push(&q, cookie, Event::Sent { conn, result: Err(NetError::Closed), list });
        }
        // Unread bytes would turn the close into a reset, which may destroy what the peer has not read yet (our reason for closing).
        sys::shutdown_write(c.fd.as_raw_fd());
        let mut scratch = Buf::alloc(64 << 10);
        for _ in 0..CLOSE_DRAIN_BYTES / scratch.len() {
            if !sys::recv(c.fd.as_raw_fd(), &mut scratch).is_ok_and(|n| n > 0) {
                break;
            }
        }
    }

    pub(super) fn detach(&mut self, conn: ConnId) -> OwnedSocket {
        let c = self.conn(conn.0).expect("detach of a connection that is not this core's");
        assert!(c.rx.is_none() && c.tx.is_empty(), "detach with an operation under way");
        let c = self.conns.remove(slot(conn.0));
        if c.watch != Watch::Nothing {
            let _ = sys::epoll_remove(&self.epoll, c.fd.as_raw_fd());
        }
        OwnedSocket(c.fd)
    }

    pub(super) fn attach(&mut self, socket: OwnedSocket) -> ConnId {
        self.insert(socket.0, None)
    }

    // ---- the loop ----

    /// Receives, accepts and finishes connects; returns how many completions that gave.
    pub(super) fn poll(&mut self, now_ns: u64, ask: Ask) -> usize {
        if self.paused > 0 {
            self.resume_listeners(now_ns);
        }
        let mut pushed = self.receive_ready();
        self.turns_without_epoll += 1;
        let asks_directly = !self.ready.is_empty();
        let due = (pushed == 0 && !asks_directly) || self.turns_without_epoll >= EPOLL_EVERY_TURNS;
        if ask == Ask::Yes || due && ask == Ask::IfIdle {
            self.turns_without_epoll = 0;
            pushed += self.ask_epoll(now_ns);
        }
        pushed
    }

    fn receive_ready(&mut self) -> usize {
        if self.ready.is_empty() {
            return 0;
        }
        let mut list = std::mem::replace(&mut self.ready, std::mem::take(&mut self.ready_spare));
        let mut pushed = 0;
        for id in list.drain(..) {
            if let Some(c) = self.conn(id) {
                c.in_ready = false;
                pushed += self.receive(id);
            }
        }
        self.ready_spare = list;
        pushed
    }

    /// Tries the receive of a connection; returns completions.
    fn receive(&mut self, id: u64) -> usize {
        let room = self.ready.len() < DIRECT_CONNS_MAX;
        let Some(c) = self.conns.get_mut(slot(id)).filter(|c| c.id == id) else { return 0 };
        let direct = room && c.receives >= DIRECT_AFTER_RECEIVES;
        let Some(mut rx) = c.rx.take() else { return 0 };
        self.stats.syscalls.add(1);
        let result = match sys::recv(c.fd.as_raw_fd(), &mut rx.buf[rx.at.clone()]) {
            Err(libc::EAGAIN | libc::EINTR) => {
                c.tries += 1;
                c.readable = c.hangup || (direct && c.tries < DIRECT_TRIES_MAX);
                c.rx = Some(rx);
                if c.readable && !c.in_ready {
                    c.in_ready = true;
                    self.ready.push(id);
                }
                return 0;
            }
            Err(errno) => Err(NetError::from_errno(errno)),
            Ok(n) => {
                // A full buffer, or a busy connection: more may be there. Otherwise epoll tells (it reports data that came since).
                c.readable = n == rx.at.len() || direct || c.hangup;
                c.tries = 0;
                c.receives = c.receives.saturating_add(1);
                self.stats.recv_calls.add(1);
                self.stats.recv_bytes.add(n as u64);
                Ok(n)
            }
        };
        rx.q.push(rx.cookie, Event::Received { conn: ConnId(id), result, buf: rx.buf });
        1
    }

    fn ask_epoll(&mut self, now_ns: u64) -> usize {
        self.stats.syscalls.add(1);
        let n = sys::epoll_poll(&self.epoll, &mut self.events);
        let mut pushed = 0;
        for i in 0..n {
            let libc::epoll_event { events, u64: token } = self.events[i];
            if token & LISTENER == 0 {
                pushed += self.conn_event(token, events);
            }
        }
        for i in 0..n {
            let token = self.events[i].u64;
            if token == LOCAL {
                self.local_ready = true;
            } else if token & LISTENER != 0 && token != WAKE {
                pushed += self.accept(token, now_ns);
            }
        }
        pushed
    }

    fn conn_event(&mut self, id: u64, events: u32) -> usize {
        let Some(c) = self.conn(id) else { return 0 };
        if c.connecting.is_some() {
            return if events & WRITABLE != 0 { self.connected(id) } else { 0 };
        }
        c.hangup |= events & HANGUP != 0;
        if events & WRITABLE != 0 && c.tx_blocked {
            c.tx_blocked = false;
            if !c.in_dirty {
                c.in_dirty = true;
                self.dirty.push(id);
            }
        }
        if events & READABLE == 0 {
            return 0;
        }
        // Even if it is in `ready` and was tried in this turn: the edge is gone now, and the core may be about to sleep.
        self.conns[slot(id)].readable = true;
        self.receive(id)
    }

    /// Sends what was queued; returns how many completions that gave.
    pub(super) fn flush(&mut self) -> usize {
        let mut pushed = 0;
        while let Some(id) = self.dirty.pop() {
            if let Some(c) = self.conn(id) {
                c.in_dirty = false;
                pushed += self.transmit(id);
            }
        }
        pushed
    }

    /// Sends until nothing is left or the socket takes no more.
    fn transmit(&mut self, id: u64) -> usize {
        let mut pushed = 0;
        let c = &mut self.conns[slot(id)];
        while !c.tx.is_empty() {
            gather(c, &mut self.iovecs);
            let sent = if self.iovecs.is_empty() {
                Ok(0) // an empty list is sent at once
            } else {
                self.stats.syscalls.add(1);
                self.stats.send_calls.add(1);
                // SAFETY: the vectors describe memory of the lists in `c.tx`, which stay there, untouched, during the call.
                unsafe { sys::send(c.fd.as_raw_fd(), &self.iovecs) }
            };
            match sent {
                Ok(n) => {
                    self.stats.send_bytes.add(n as u64);
                    pushed += sent_bytes(c, n);
                }
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN | libc::ENOBUFS) => {
                    c.tx_blocked = true;
                    // Registering tells at once if the socket has become writable since.
                    if let Err(e) = c.watch(Watch::InOut, &self.epoll, &self.stats) {
                        c.end_sends(e, &mut pushed);
                    }
                    break;
                }
                Err(errno) => {
                    let e = NetError::from_errno(errno);
                    c.end_sends(e, &mut pushed);
                }
            }
        }
        self.iovecs.clear();
        pushed
    }
}

impl Conn {
    /// Has epoll tell at least so much of it.
    fn watch(&mut self, what: Watch, epoll: &OwnedFd, stats: &CoreStats) -> Result<(), NetError> {
        if self.watch >= what {
            return Ok(());
        }
        let edges = if what == Watch::InOut { EDGES_IN_OUT } else { EDGES_IN };
        let tell = if self.watch == Watch::Nothing { sys::epoll_add } else { sys::epoll_modify };
        stats.syscalls.add(1);
        tell(epoll, self.fd.as_raw_fd(), edges, self.id).map_err(NetError::from_errno)?;
        self.watch = what;
        Ok(())
    }

    /// Ends all sends with an error.
    fn end_sends(&mut self, e: NetError, pushed: &mut usize) {
        self.tx_skip = 0;
        for Tx { q, cookie, list } in self.tx.drain(..) {
            q.push(cookie, Event::Sent { conn: ConnId(self.id), result: Err(e), list });
            *pushed += 1;
        }
    }
}

/// The memory of the lists that wait, as far as one call takes it.
fn gather(c: &Conn, iovecs: &mut Vec<libc::iovec>) {
    iovecs.clear();
    let mut skip = c.tx_skip;
    for tx in &c.tx {
        for piece in tx.list.slices(skip) {
            if iovecs.len() == IOVECS_MAX {
                return;
            }
            iovecs.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
        }
        skip = 0;
    }
}

/// Takes `n` sent bytes off the lists that wait; returns completions.
fn sent_bytes(c: &mut Conn, n: usize) -> usize {
    c.tx_skip += n;
    let mut pushed = 0;
    while let Some(first) = c.tx.front() {
        let len = first.list.len_bytes();
        if c.tx_skip < len {
            break;
        }
        c.tx_skip -= len;
        let Tx { q, cookie, list } = c.tx.pop_front().expect("looked at above");
        q.push(cookie, Event::Sent { conn: ConnId(c.id), result: Ok(()), list });
        pushed += 1;
    }
    pushed
}

fn slot(id: u64) -> usize {
    (id & ((1 << SLOT_BITS) - 1)) as usize
}

/// What a listener gives to the connections that it accepts (tcp(7): they inherit it, so it costs nothing for each). Small messages go at once,
/// and a peer that vanished without a word is noticed: by probes when the connection is idle, by what it does not acknowledge when it is not.
/// A socket that takes none of this works all the same.
const ACCEPTED_OPTIONS: [(libc::c_int, libc::c_int, libc::c_int); 6] = [
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, PROBE_IDLE_S),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, PROBE_EVERY_S),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, PROBES),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS_MAX),
];

/// A socket that listens at `addr`.
fn bound(addr: SocketAddr, v6_only: bool) -> Result<OwnedFd, i32> {
    let fd = sys::tcp_socket(addr)?;
    let raw = fd.as_raw_fd();
    sys::set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if v6_only {
        sys::set_option(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    for (level, name, value) in ACCEPTED_OPTIONS {
        let _ = sys::set_option(raw, level, name, value);
    }
    sys::bind(raw, addr)?;
    sys::listen(raw, BACKLOG)?;
    Ok(fd)
}

fn start_connect(addr: SocketAddr) -> Result<OwnedFd, i32> {
    let fd = sys::tcp_socket(addr)?;
    let raw = fd.as_raw_fd();
    sys::set_option(raw, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    sys::set_option(raw, libc::IPPROTO_TCP, libc::TCP_SYNCNT, SYN_RETRIES)?;
    sys::connect(raw, addr)?;
    Ok(fd)
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;

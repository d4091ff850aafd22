//! Unix sockets with passed descriptors, and events: what a program on the same machine reaches this one by.
//!
//! Owns: the Unix listeners and connections and the events of one core, what is under way on them, and an epoll of their own.
//! Invariants: everything is tried at once when it is submitted, and then each time epoll tells (edge-triggered, armed before the first try), so
//! nothing is forgotten; completions are deferred, never pushed from within a call that submits; sends of a connection keep their order; a
//! descriptor that nobody takes is closed; a path is taken away only while it is this listener's.
//! Never: waits, looks at bytes, is quick about it: these carry control messages, and the kicks of queues that are idle.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;

use super::deferred::Deferred;
use super::sys;
use super::sys_unix;
use crate::descriptor::DescriptorInner;
use crate::{
    Buf, CoreStats, Descriptor, EVENTS_MAX, Event, EventId, NetError, Queue, SendList, UNIX_CONNS_MAX, UNIX_LISTENERS_MAX, UnixConnId,
    UnixListenerId,
};

/// Connections that wait in the kernel to be accepted.
const BACKLOG: libc::c_int = 64;
/// Connections accepted from one listener at a time.
const ACCEPTS_PER_TURN: usize = 8;
/// How long a listener rests when there is no descriptor for a new connection.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// What epoll tells at once.
const REPORTS_MAX: usize = 64;
/// Pieces of memory in one send.
const PIECES_MAX: usize = 64;
/// A receive that was interrupted so often fails.
const INTERRUPTIONS_MAX: usize = 8;

const EDGES: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// A token is the slot below this bit, what kind of thing it is in the two bits above, and the serial number above those.
const SLOT_BITS: u32 = 20;
const KIND_BITS: u32 = 2;
const LISTENER: u64 = 0;
const CONN: u64 = 1;
const EVENT: u64 = 2;

struct Listener {
    id: u64,
    fd: OwnedFd,
    q: Queue,
    cookie: u64,
    path: PathBuf,
    /// Device and number of the file at the path.
    file: (u64, u64),
    /// Out of descriptors: not watched until then.
    paused_until_ns: Option<u64>,
}

struct Conn {
    id: u64,
    fd: OwnedFd,
    rx: Option<Rx>,
    tx: VecDeque<Tx>,
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
    sent: usize,
    /// Until the first byte is sent.
    descriptors: Vec<OwnedFd>,
}

struct Opened {
    id: u64,
    fd: OwnedFd,
    wait: Option<(Queue, u64)>,
}

/// See the module.
pub(super) struct Local {
    epoll: OwnedFd,
    listeners: Slab<Listener>,
    conns: Slab<Conn>,
    events: Slab<Opened>,
    serial: u64,
    reports: Box<[libc::epoll_event]>,
    deferred: Rc<Deferred>,
    stats: Arc<CoreStats>,
}

impl Local {
    /// Nothing yet. `errno` on failure.
    pub(super) fn new(deferred: Rc<Deferred>, stats: Arc<CoreStats>) -> Result<Local, i32> {
        Ok(Local {
            epoll: sys::epoll()?,
            listeners: Slab::new(),
            conns: Slab::new(),
            events: Slab::new(),
            serial: 0,
            reports: vec![libc::epoll_event { events: 0, u64: 0 }; REPORTS_MAX].into(),
            deferred,
            stats,
        })
    }

    /// Readable when something wants attention.
    pub(super) fn epoll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    fn next_id(&mut self, kind: u64, slot: usize) -> u64 {
        self.serial += 1;
        (self.serial << KIND_BITS | kind) << SLOT_BITS | slot as u64
    }

    /// When this wants to be polled even if nothing happens.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.listeners.iter().filter_map(|(_, l)| l.paused_until_ns).min()
    }

    // ---- listeners ----

    pub(super) fn listen(&mut self, q: &Queue, cookie: u64, path: &Path, mode: u32) -> Result<UnixListenerId, NetError> {
        if self.listeners.len() >= UNIX_LISTENERS_MAX {
            return Err(NetError::Limit);
        }
        remove_stale(path)?;
        let fd = sys_unix::socket().map_err(error)?;
        sys_unix::set_mode(&fd, mode).map_err(error)?;
        sys_unix::bind(&fd, path).map_err(error)?;
        let listening = start(&fd, path, mode).and_then(|file| {
            let slot = self.listeners.vacant_key();
            let id = self.next_id(LISTENER, slot);
            sys::epoll_add(&self.epoll, fd.as_raw_fd(), libc::EPOLLIN as u32, id).map_err(error)?;
            Ok((id, file))
        });
        match listening {
            Ok((id, file)) => {
                let listener = Listener { id, fd, q: q.clone(), cookie, path: path.into(), file, paused_until_ns: None };
                self.listeners.insert(listener);
                Ok(UnixListenerId(id))
            }
            Err(e) => {
                let _ = fs::remove_file(path);
                Err(e)
            }
        }
    }

    pub(super) fn close_listener(&mut self, l: UnixListenerId) {
        if self.listeners.get(slot(l.0)).is_some_and(|x| x.id == l.0) {
            self.listeners.remove(slot(l.0));
        }
    }

    fn accept(&mut self, id: u64, now_ns: u64) -> usize {
        for n in 0..ACCEPTS_PER_TURN {
            let Some(l) = self.listeners.get_mut(slot(id)).filter(|l| l.id == id) else { return n };
            self.stats.syscalls.add(1);
            match sys::accept(l.fd.as_raw_fd()) {
                Ok((fd, _)) => {
                    let (q, cookie) = (l.q.clone(), l.cookie);
                    match self.insert(fd) {
                        Ok(conn) => self.deferred.push(&q, cookie, Event::UnixAccepted { conn }),
                        Err(_) => self.stats.accept_errors.add(1), // dropped, which closes it
                    }
                }
                Err(libc::EAGAIN) => return n,
                Err(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    self.stats.accept_errors.add(1);
                    if sys::epoll_remove(&self.epoll, l.fd.as_raw_fd()).is_ok() {
                        l.paused_until_ns = Some(now_ns + ACCEPT_PAUSE_NS);
                    }
                    return n;
                }
                Err(_) => self.stats.accept_errors.add(1),
            }
        }
        ACCEPTS_PER_TURN
    }

    fn resume_listeners(&mut self, now_ns: u64) {
        for (_, l) in &mut self.listeners {
            if l.paused_until_ns.is_some_and(|at| at <= now_ns) {
                let watched = sys::epoll_add(&self.epoll, l.fd.as_raw_fd(), libc::EPOLLIN as u32, l.id);
                l.paused_until_ns = if watched.is_ok() { None } else { Some(now_ns + ACCEPT_PAUSE_NS) };
            }
        }
    }

    // ---- connections ----

    fn insert(&mut self, fd: OwnedFd) -> Result<UnixConnId, NetError> {
        if self.conns.len() >= UNIX_CONNS_MAX {
            return Err(NetError::Limit);
        }
        let slot = self.conns.vacant_key();
        let id = self.next_id(CONN, slot);
        sys::epoll_add(&self.epoll, fd.as_raw_fd(), EDGES, id).map_err(error)?;
        self.conns.insert(Conn { id, fd, rx: None, tx: VecDeque::new() });
        Ok(UnixConnId(id))
    }

    pub(super) fn connect(&mut self, path: &Path) -> Result<UnixConnId, NetError> {
        let fd = sys_unix::socket().map_err(error)?;
        sys_unix::connect(&fd, path).map_err(|errno| match errno {
            libc::EAGAIN | libc::ENOENT => NetError::Refused, // nobody accepts there
            errno => error(errno),
        })?;
        self.insert(fd)
    }

    pub(super) fn recv(&mut self, q: &Queue, cookie: u64, conn: UnixConnId, at: Range<usize>, buf: Buf) {
        let Some(c) = self.conns.get_mut(slot(conn.0)).filter(|c| c.id == conn.0) else {
            let event = Event::UnixReceived { conn, result: Err(NetError::Closed), buf, descriptors: Vec::new() };
            return self.deferred.push(q, cookie, event);
        };
        assert!(c.rx.is_none(), "two receives at a time on a connection");
        c.rx = Some(Rx { q: q.clone(), cookie, at, buf });
        self.receive(conn.0);
    }

    /// Tries the receive of a connection; returns completions.
    fn receive(&mut self, id: u64) -> usize {
        let Some(c) = self.conns.get_mut(slot(id)).filter(|c| c.id == id) else { return 0 };
        let Some(mut rx) = c.rx.take() else { return 0 };
        let mut received = Err(libc::EINTR);
        for _ in 0..INTERRUPTIONS_MAX {
            self.stats.syscalls.add(1);
            received = sys_unix::receive(c.fd.as_raw_fd(), &mut rx.buf[rx.at.clone()]);
            if !matches!(received, Err(libc::EINTR)) {
                break;
            }
        }
        let (result, descriptors) = match received {
            Err(libc::EAGAIN) => {
                c.rx = Some(rx);
                return 0;
            }
            Err(errno) => (Err(error(errno)), Vec::new()),
            // What came of them is closed here: whoever sent too many is not served in part.
            Ok(r) if r.cut => (Err(NetError::DescriptorsLost), Vec::new()),
            Ok(r) => (Ok(r.bytes), r.descriptors.into_iter().map(Descriptor::from).collect()),
        };
        let event = Event::UnixReceived { conn: UnixConnId(id), result, buf: rx.buf, descriptors };
        self.deferred.push(&rx.q, rx.cookie, event);
        1
    }

    pub(super) fn send(&mut self, q: &Queue, cookie: u64, conn: UnixConnId, list: SendList, descriptors: Vec<Descriptor>) {
        let Some(c) = self.conns.get_mut(slot(conn.0)).filter(|c| c.id == conn.0) else {
            return self.deferred.push(q, cookie, Event::UnixSent { conn, result: Err(NetError::Closed), list });
        };
        let descriptors = descriptors.into_iter().map(|d| match d.0 {
            DescriptorInner::Os(fd) => fd,
            DescriptorInner::Sim(_) => panic!("a simulated descriptor on a real core"),
        });
        c.tx.push_back(Tx { q: q.clone(), cookie, list, sent: 0, descriptors: descriptors.collect() });
        if c.tx.len() == 1 {
            self.transmit(conn.0);
        }
    }

    /// Sends until nothing is left or the socket takes no more; returns completions.
    fn transmit(&mut self, id: u64) -> usize {
        let Some(c) = self.conns.get_mut(slot(id)).filter(|c| c.id == id) else { return 0 };
        let (mut ended, mut failed) = (0, None);
        while let Some(tx) = c.tx.front_mut() {
            if tx.sent < tx.list.len_bytes() && failed.is_none() {
                let pieces: Vec<IoSlice<'_>> = tx.list.slices(tx.sent).take(PIECES_MAX).map(IoSlice::new).collect();
                let descriptors: Vec<RawFd> = tx.descriptors.iter().map(AsRawFd::as_raw_fd).collect();
                self.stats.syscalls.add(1);
                match sys_unix::send(c.fd.as_raw_fd(), &pieces, &descriptors) {
                    Ok(n) => {
                        tx.sent += n;
                        tx.descriptors.clear();
                        continue;
                    }
                    Err(libc::EINTR) => continue,
                    Err(libc::EAGAIN) => return ended, // epoll tells when it takes more
                    Err(errno) => failed = Some(error(errno)),
                }
            }
            let tx = c.tx.pop_front().expect("looked at above");
            let result = failed.map_or(Ok(()), Err);
            self.deferred.push(&tx.q, tx.cookie, Event::UnixSent { conn: UnixConnId(id), result, list: tx.list });
            ended += 1;
        }
        ended
    }

    pub(super) fn close(&mut self, conn: UnixConnId) {
        if self.conns.get(slot(conn.0)).is_none_or(|c| c.id != conn.0) {
            return;
        }
        let Conn { rx, tx, fd, .. } = self.conns.remove(slot(conn.0));
        drop(fd); // with what was passed and nobody received
        if let Some(Rx { q, cookie, buf, .. }) = rx {
            let event = Event::UnixReceived { conn, result: Err(NetError::Closed), buf, descriptors: Vec::new() };
            self.deferred.push(&q, cookie, event);
        }
        for Tx { q, cookie, list, .. } in tx {
            self.deferred.push(&q, cookie, Event::UnixSent { conn, result: Err(NetError::Closed), list });
        }
    }

    // ---- events ----

    pub(super) fn open_event(&mut self, descriptor: Descriptor) -> Result<EventId, NetError> {
        let DescriptorInner::Os(fd) = descriptor.0 else { panic!("a simulated descriptor on a real core") };
        if self.events.len() >= EVENTS_MAX {
            return Err(NetError::Limit);
        }
        if !is_eventfd(&fd) {
            return Err(NetError::WrongDescriptor);
        }
        sys_unix::set_nonblocking(&fd).map_err(error)?;
        let slot = self.events.vacant_key();
        let id = self.next_id(EVENT, slot);
        sys::epoll_add(&self.epoll, fd.as_raw_fd(), (libc::EPOLLIN | libc::EPOLLET) as u32, id).map_err(error)?;
        self.events.insert(Opened { id, fd, wait: None });
        Ok(EventId(id))
    }

    pub(super) fn wait_event(&mut self, q: &Queue, cookie: u64, event: EventId) {
        let Some(e) = self.events.get_mut(slot(event.0)).filter(|e| e.id == event.0) else {
            return self.deferred.push(q, cookie, Event::Signalled { event, result: Err(NetError::Closed) });
        };
        assert!(e.wait.is_none(), "two waits at a time for an event");
        e.wait = Some((q.clone(), cookie));
        self.signalled(event.0);
    }

    /// Ends the wait for an event, if it was signalled; returns completions.
    fn signalled(&mut self, id: u64) -> usize {
        let Some(e) = self.events.get_mut(slot(id)).filter(|e| e.id == id) else { return 0 };
        let Some((q, cookie)) = e.wait.take() else { return 0 };
        self.stats.syscalls.add(1);
        let result = match sys_unix::take_count(&e.fd) {
            Err(libc::EAGAIN | libc::EINTR) => {
                e.wait = Some((q, cookie));
                return 0;
            }
            Err(errno) => Err(error(errno)),
            Ok(count) => Ok(count),
        };
        self.deferred.push(&q, cookie, Event::Signalled { event: EventId(id), result });
        1
    }

    pub(super) fn ring_event(&mut self, event: EventId) {
        if let Some(e) = self.events.get(slot(event.0)).filter(|e| e.id == event.0) {
            self.stats.syscalls.add(1);
            sys::eventfd_ring(&e.fd);
        }
    }

    pub(super) fn close_event(&mut self, event: EventId) {
        if self.events.get(slot(event.0)).is_none_or(|e| e.id != event.0) {
            return;
        }
        let Opened { fd, wait, .. } = self.events.remove(slot(event.0));
        // Others have the same eventfd: without this, epoll would go on to tell of it.
        let _ = sys::epoll_remove(&self.epoll, fd.as_raw_fd());
        if let Some((q, cookie)) = wait {
            self.deferred.push(&q, cookie, Event::Signalled { event, result: Err(NetError::Closed) });
        }
    }

    // ---- the loop ----

    /// Looks at what epoll tells; returns how many operations ended because of it.
    pub(super) fn poll(&mut self, now_ns: u64) -> usize {
        self.resume_listeners(now_ns);
        self.stats.syscalls.add(1);
        let n = sys::epoll_poll(&self.epoll, &mut self.reports);
        let mut ended = 0;
        for i in 0..n {
            let id = self.reports[i].u64;
            ended += match id >> SLOT_BITS & ((1 << KIND_BITS) - 1) {
                LISTENER => self.accept(id, now_ns),
                CONN => self.receive(id) + self.transmit(id),
                _ => self.signalled(id),
            };
        }
        ended
    }
}

impl Drop for Listener {
    /// Takes the path away, unless somebody else listens there now.
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives the path its mode, then lets peers in; which file it is.
fn start(fd: &OwnedFd, path: &Path, mode: u32) -> Result<(u64, u64), NetError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io_error)?;
    let meta = fs::symlink_metadata(path).map_err(io_error)?;
    sys::listen(fd.as_raw_fd(), BACKLOG).map_err(error)?;
    Ok((meta.dev(), meta.ino()))
}

/// Takes a socket away that nobody serves. (Two that start at the same moment at one path may both find it unserved; the second then takes the
/// path of the first. A daemon is kept from that by its lock on the devices.)
fn remove_stale(path: &Path) -> Result<(), NetError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io_error(e)),
    };
    if !found.file_type().is_socket() {
        return Err(NetError::NotASocket);
    }
    let probe = sys_unix::socket().map_err(error)?;
    match sys_unix::connect(&probe, path) {
        Err(libc::ECONNREFUSED) => {}
        Err(libc::ENOENT) => return Ok(()),
        Ok(()) | Err(libc::EAGAIN | libc::EPROTOTYPE) => return Err(NetError::AddrInUse),
        Err(errno) => return Err(error(errno)),
    }
    let same = fs::symlink_metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
    if same { fs::remove_file(path).map_err(io_error) } else { Err(NetError::AddrInUse) }
}

/// Whether it is an eventfd. A file cannot have this name: theirs begin with a slash.
fn is_eventfd(fd: &OwnedFd) -> bool {
    fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

fn io_error(e: io::Error) -> NetError {
    error(e.raw_os_error().unwrap_or(libc::EIO))
}

fn error(errno: i32) -> NetError {
    if errno == libc::ENAMETOOLONG { NetError::PathTooLong } else { NetError::from_errno(errno) }
}

fn slot(id: u64) -> usize {
    (id & ((1 << SLOT_BITS) - 1)) as usize
}

const _: () = assert!(EVENTS_MAX < 1 << SLOT_BITS && UNIX_CONNS_MAX < 1 << SLOT_BITS && UNIX_LISTENERS_MAX < 1 << SLOT_BITS);

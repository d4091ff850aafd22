//! One core's driver: devices, sockets and timers behind [`Drive`].
//!
//! Owns: the ring, the sockets and the timers of one core.
//! Invariants: an operation's completion is pushed in a later turn of the loop, or at the end of this one, never from within the call that
//! submits it; a core that is about to sleep says so first and looks once more, so a wake-up is never lost.
//! Never: leaves its thread, except for its [`Waker`].

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use base::Instant;

use super::deferred::Deferred;
use super::launch_error::LaunchError;
use super::local::Local;
use super::net::{Ask, Net};
use super::ring::Ring;
use super::spin::WaitsFor;
use super::sys;
use super::timers::Timers;
use super::waker::Waker;
use crate::device::Inner;
use crate::driver::Drive;
use crate::mapping;
use crate::owned_conn::OwnedConnInner;
use crate::waker::WakerInner;
use crate::{
    Buf, BufVec, ConnId, CoreStats, CoreWaker, Descriptor, Device, DeviceError, Durability, Event, EventId, ForeignError, ListenerId,
    NetError, OwnedConn, Queue, SendList, TimerId, UnixConnId, UnixListenerId,
};

/// The driver of one core.
pub(crate) struct Core {
    index: usize,
    wakers: Arc<[Waker]>,
    now_ns: Cell<u64>,
    random: Cell<u64>,
    ring: RefCell<Ring>,
    net: RefCell<Net>,
    /// Unix sockets and events, once there was one.
    local: RefCell<Option<Box<Local>>>,
    timers: RefCell<Timers>,
    deferred: Rc<Deferred>,
    stats: Arc<CoreStats>,
}

impl Core {
    /// Must be made on the thread that runs the core.
    pub(super) fn new(
        index: usize,
        wakers: Arc<[Waker]>,
        (entries, submit_ops): (u32, u32),
        stats: Arc<CoreStats>,
    ) -> Result<Core, LaunchError> {
        let deferred = Rc::new(Deferred::default());
        let wake_fd = wakers[index].raw_fd();
        let net = Net::new(wake_fd, Rc::clone(&deferred), Arc::clone(&stats)).map_err(|e| LaunchError::from_errno("make an epoll", e))?;
        let ring = Ring::new(entries, submit_ops, net.epoll_fd(), Arc::clone(&stats))?;
        Ok(Core {
            index,
            wakers,
            now_ns: Cell::new(sys::now_ns()),
            random: Cell::new(sys::random_seed()),
            ring: RefCell::new(ring),
            net: RefCell::new(net),
            local: RefCell::new(None),
            timers: RefCell::default(),
            deferred,
            stats,
        })
    }

    /// Reads the clock; the new time in nanoseconds.
    pub(super) fn tick(&self) -> u64 {
        let now = sys::now_ns();
        self.now_ns.set(now);
        now
    }

    /// Pushes what completed; returns how many completions that gave.
    pub(super) fn poll(&self, thorough: bool) -> usize {
        let now = self.now_ns.get();
        let mut pushed = self.deferred.deliver();
        let watched = {
            let mut ring = self.ring.borrow_mut();
            pushed += ring.reap(now);
            ring.watches_epoll()
        };
        pushed += self.timers.borrow_mut().fire(now);
        let ask = if watched {
            Ask::No
        } else if thorough {
            Ask::Yes
        } else {
            Ask::IfIdle
        };
        let mut net = self.net.borrow_mut();
        pushed += net.poll(now, ask);
        if net.take_local_ready()
            && let Some(local) = &mut *self.local.borrow_mut()
        {
            pushed += local.poll(now);
        }
        pushed
    }

    /// What has the Unix sockets and events, made for the first of them.
    fn local<R>(&self, f: impl FnOnce(&mut Local) -> R) -> Result<R, NetError> {
        let mut local = self.local.borrow_mut();
        if local.is_none() {
            let new = Local::new(Rc::clone(&self.deferred), Arc::clone(&self.stats)).map_err(NetError::from_errno)?;
            self.net.borrow().watch_local(new.epoll_fd()).map_err(NetError::from_errno)?;
            *local = Some(Box::new(new));
        }
        Ok(f(local.as_mut().expect("made above")))
    }

    /// Sends and submits what the turn has queued; whether the loop has reason to go on.
    pub(super) fn flush(&self) -> bool {
        let sent = self.net.borrow_mut().flush();
        let submitted = self.ring.borrow_mut().submit();
        sent > 0 || submitted || !self.deferred.is_empty()
    }

    pub(super) fn waits_for(&self) -> WaitsFor {
        if self.ring.borrow().outstanding() > 0 { WaitsFor::Devices } else { WaitsFor::Others }
    }

    pub(super) fn own_waker(&self) -> &Waker {
        &self.wakers[self.index]
    }

    /// Sleeps until something happens or a timer is due.
    pub(super) fn sleep(&self) {
        let local = self.local.borrow().as_ref().and_then(|local| local.deadline_ns());
        let due = [self.timers.borrow_mut().next_ns(), self.net.borrow().deadline_ns(), local].into_iter().flatten().min();
        self.ring.borrow_mut().sleep(due);
    }

    /// Waits for operations that the kernel still has.
    pub(super) fn drain(&self) {
        self.ring.borrow_mut().drain();
        self.deferred.deliver();
    }

    fn memory_done(&self, bytes: usize) {
        self.stats.device_ops.add(1);
        self.stats.device_bytes.add(bytes as u64);
    }
}

impl Drive for Core {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.now_ns.get())
    }

    fn clock(&self) -> Instant {
        Instant(sys::now_ns())
    }

    fn boot_clock(&self) -> Instant {
        Instant(sys::boot_ns())
    }

    fn core(&self) -> usize {
        self.index
    }

    fn cores(&self) -> usize {
        self.wakers.len()
    }

    /// SplitMix64 from a seed of the operating system: well spread, not for secrets.
    fn random_u64(&self) -> u64 {
        let s = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(s);
        let z = (s ^ (s >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn random_secret(&self, out: &mut [u8]) {
        sys::random_fill(out);
    }

    fn read(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, mut buf: Buf) {
        if let Err(e) = dev.check_range(offset, buf.len() as u64) {
            dev.counters().count_read(0, 0, false);
            return self.deferred.push(q, cookie, Event::Read { result: Err(e), buf });
        }
        match &dev.0.inner {
            Inner::File(_) => self.ring.borrow_mut().read(q, cookie, dev, offset, buf, self.now_ns.get()),
            Inner::Memory(memory) => {
                memory.read(offset, &mut buf);
                dev.counters().count_read(buf.len() as u64, 0, true);
                self.memory_done(buf.len());
                self.deferred.push(q, cookie, Event::Read { result: Ok(()), buf });
            }
            Inner::Sim(_) => self.deferred.push(q, cookie, Event::Read { result: Err(DeviceError::Gone), buf }),
        }
    }

    fn write(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, bufs: BufVec, d: Durability) {
        let len: usize = bufs.iter().map(|b| b.len()).sum();
        // Each buffer whole blocks: a partial transfer must be able to go on at a block.
        let aligned = bufs.iter().all(|b| b.len().is_multiple_of(base::BLOCK_BYTES));
        let checked = if aligned { dev.check_range(offset, len as u64) } else { Err(DeviceError::OutOfRange) };
        if let Err(e) = checked {
            dev.counters().count_write(0, 0, false);
            return self.deferred.push(q, cookie, Event::Write { result: Err(e), bufs });
        }
        match &dev.0.inner {
            Inner::File(_) => self.ring.borrow_mut().write(q, cookie, dev, offset, bufs, d, self.now_ns.get()),
            Inner::Memory(memory) => {
                let mut at = offset;
                for buf in &bufs {
                    memory.write(at, buf);
                    at += buf.len() as u64;
                }
                dev.counters().count_write(len as u64, 0, true);
                self.memory_done(len);
                self.deferred.push(q, cookie, Event::Write { result: Ok(()), bufs });
            }
            Inner::Sim(_) => self.deferred.push(q, cookie, Event::Write { result: Err(DeviceError::Gone), bufs }),
        }
    }

    fn flush(&self, q: &Queue, cookie: u64, dev: &Device) {
        match &dev.0.inner {
            Inner::File(_) if dev.info().volatile_cache => self.ring.borrow_mut().flush(q, cookie, dev, self.now_ns.get()),
            Inner::File(_) | Inner::Memory(_) => {
                dev.counters().count_flush(true);
                self.memory_done(0);
                self.deferred.push(q, cookie, Event::Flush { result: Ok(()) });
            }
            Inner::Sim(_) => self.deferred.push(q, cookie, Event::Flush { result: Err(DeviceError::Gone) }),
        }
    }

    fn discard(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, len: u64) {
        if let Err(e) = dev.check_range(offset, len) {
            dev.counters().count_discard(false);
            return self.deferred.push(q, cookie, Event::Discard { result: Err(e) });
        }
        match &dev.0.inner {
            Inner::File(file) if len > 0 && file.can_discard() => {
                self.ring.borrow_mut().discard(q, cookie, dev, offset, len, self.now_ns.get())
            }
            Inner::File(_) | Inner::Memory(_) => {
                if let Inner::Memory(memory) = &dev.0.inner {
                    memory.discard(offset, len);
                }
                dev.counters().count_discard(true);
                self.memory_done(0);
                self.deferred.push(q, cookie, Event::Discard { result: Ok(()) });
            }
            Inner::Sim(_) => self.deferred.push(q, cookie, Event::Discard { result: Err(DeviceError::Gone) }),
        }
    }

    fn timer(&self, q: &Queue, cookie: u64, at: Instant) -> TimerId {
        self.timers.borrow_mut().set(q, cookie, at.0)
    }

    fn cancel_timer(&self, id: TimerId) {
        self.timers.borrow_mut().cancel(id);
    }

    fn listen(&self, q: &Queue, cookie: u64, addr: SocketAddr) -> Result<ListenerId, NetError> {
        self.net.borrow_mut().listen(q, cookie, addr)
    }

    fn local_addr(&self, l: ListenerId) -> SocketAddr {
        self.net.borrow().local_addr(l)
    }

    fn local_ip(&self, conn: ConnId) -> Option<IpAddr> {
        self.net.borrow().local_ip(conn)
    }

    fn close_listener(&self, l: ListenerId) {
        self.net.borrow_mut().close_listener(l);
    }

    fn connect(&self, q: &Queue, cookie: u64, addr: SocketAddr) {
        self.net.borrow_mut().connect(q, cookie, addr);
    }

    #[inline]
    fn recv(&self, q: &Queue, cookie: u64, conn: ConnId, at: Range<usize>, buf: Buf) {
        self.net.borrow_mut().recv(q, cookie, conn, at, buf);
    }

    #[inline]
    fn send(&self, q: &Queue, cookie: u64, conn: ConnId, list: SendList) {
        self.net.borrow_mut().send(q, cookie, conn, list);
    }

    fn close(&self, conn: ConnId) {
        self.net.borrow_mut().close(conn);
    }

    fn detach(&self, conn: ConnId) -> OwnedConn {
        OwnedConn(OwnedConnInner::Uring(self.net.borrow_mut().detach(conn)))
    }

    fn attach(&self, conn: OwnedConn) -> ConnId {
        match conn.0 {
            OwnedConnInner::Uring(socket) => self.net.borrow_mut().attach(socket),
            OwnedConnInner::Sim(_) => panic!("a simulated connection on a real core"),
        }
    }

    fn listen_unix(&self, q: &Queue, cookie: u64, path: &Path, mode: u32) -> Result<UnixListenerId, NetError> {
        self.local(|local| local.listen(q, cookie, path, mode))?
    }

    fn close_unix_listener(&self, l: UnixListenerId) {
        let _ = self.local(|local| local.close_listener(l));
    }

    fn connect_unix(&self, q: &Queue, cookie: u64, path: &Path) {
        let result = self.local(|local| local.connect(path)).flatten();
        self.deferred.push(q, cookie, Event::UnixConnected { result });
    }

    fn recv_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, at: Range<usize>, buf: Buf) {
        match &mut *self.local.borrow_mut() {
            Some(local) => local.recv(q, cookie, conn, at, buf),
            None => {
                let event = Event::UnixReceived { conn, result: Err(NetError::Closed), buf, descriptors: Vec::new() };
                self.deferred.push(q, cookie, event);
            }
        }
    }

    fn send_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, list: SendList, descriptors: Vec<Descriptor>) {
        match &mut *self.local.borrow_mut() {
            Some(local) => local.send(q, cookie, conn, list, descriptors),
            None => self.deferred.push(q, cookie, Event::UnixSent { conn, result: Err(NetError::Closed), list }),
        }
    }

    fn close_unix(&self, conn: UnixConnId) {
        if let Some(local) = &mut *self.local.borrow_mut() {
            local.close(conn);
        }
    }

    fn new_memory(&self, bytes: u64) -> Result<Descriptor, ForeignError> {
        mapping::memory_file(bytes).map(Descriptor::from)
    }

    fn new_event(&self) -> Result<Descriptor, NetError> {
        sys::eventfd().map(Descriptor::from).map_err(NetError::from_errno)
    }

    fn open_event(&self, descriptor: Descriptor) -> Result<EventId, NetError> {
        self.local(|local| local.open_event(descriptor))?
    }

    fn wait_event(&self, q: &Queue, cookie: u64, event: EventId) {
        match &mut *self.local.borrow_mut() {
            Some(local) => local.wait_event(q, cookie, event),
            None => self.deferred.push(q, cookie, Event::Signalled { event, result: Err(NetError::Closed) }),
        }
    }

    fn ring_event(&self, event: EventId) {
        if let Some(local) = &mut *self.local.borrow_mut() {
            local.ring_event(event);
        }
    }

    fn close_event(&self, event: EventId) {
        if let Some(local) = &mut *self.local.borrow_mut() {
            local.close_event(event);
        }
    }

    #[inline]
    fn wake(&self, core: usize) {
        self.wakers[core].wake();
    }

    fn waker(&self) -> CoreWaker {
        CoreWaker(WakerInner::Uring(self.own_waker().clone()))
    }

    fn stats(&self) -> &Arc<CoreStats> {
        &self.stats
    }
}

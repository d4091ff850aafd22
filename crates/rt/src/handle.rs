//! The handle to a core's reactor: what every program calls, whichever driver is behind.
//!
//! Owns: the driver, the tasks and the tasks' operations of one core.
//! Invariant: a call is handed on to the driver (see `driver`) and nothing of the caller runs inside of it.
//! Never: leaves its core.

use crate::driver::Drive;
use crate::exec::{Executor, YieldNow};
use crate::ops::Ops;
use crate::sim::core::SimCore;
use crate::uring::Core as UringCore;
use crate::{
    Buf, BufVec, ConnId, CoreStats, CoreWaker, DESCRIPTORS_MAX, Descriptor, Device, DeviceError, Durability, Event, EventId, ForeignError,
    ListenerId, NetError, OwnedConn, Queue, SendList, TaskId, TimerId, UnixConnId, UnixListenerId,
};
use base::{Duration, Instant};
use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::Path,
    pin::Pin,
    rc::Rc,
    sync::Arc,
};

/// Handle to this core's reactor; a clone is the same reactor. It stays on its core.
#[derive(Clone)]
pub struct Rt(Rc<Core>);

struct Core {
    driver: Driver,
    tasks: Executor,
    ops: Ops,
}

/// What a reactor stands on.
pub(crate) enum Driver {
    Uring(Rc<UringCore>),
    Sim(Rc<SimCore>),
}

macro_rules! drive {
    ($self:ident, $d:ident => $call:expr) => {
        match &$self.0.driver {
            Driver::Uring($d) => $call,
            Driver::Sim($d) => $call,
        }
    };
}

impl Rt {
    pub(crate) fn new(driver: Driver) -> Rt {
        let waker = match &driver {
            Driver::Uring(d) => d.waker(),
            Driver::Sim(d) => d.waker(),
        };
        Rt(Rc::new(Core { driver, tasks: Executor::new(waker), ops: Ops::new() }))
    }

    /// For drivers: what it stands on.
    pub(crate) fn driver(&self) -> &Driver {
        &self.0.driver
    }

    /// The time: of the start of this turn of the loop, or virtual.
    #[inline]
    pub fn now(&self) -> Instant {
        drive!(self, d => d.now())
    }
    /// The time, read afresh: for what must not happen too late, whatever has held this turn up.
    pub fn clock(&self) -> Instant {
        drive!(self, d => d.clock())
    }
    /// A clock that goes on while the machine is suspended, read afresh. It has a start of its own: never compare it with the others.
    pub fn boot_clock(&self) -> Instant {
        drive!(self, d => d.boot_clock())
    }
    /// Which core this is, from 0.
    #[inline]
    pub fn core(&self) -> usize {
        drive!(self, d => d.core())
    }
    /// How many cores there are.
    #[inline]
    pub fn cores(&self) -> usize {
        drive!(self, d => d.cores())
    }
    /// A random number: the operating system's, or the world's. Not for secrets: whoever sees some of them can work out the rest.
    pub fn random_u64(&self) -> u64 {
        drive!(self, d => d.random_u64())
    }
    /// Random bytes that nobody can guess, for challenges and keys: each call asks the operating system's generator. In a simulated world
    /// they are the world's.
    pub fn random_secret(&self, out: &mut [u8]) {
        drive!(self, d => d.random_secret(out));
    }
    /// A new completion queue. Whoever holds it polls it.
    pub fn queue(&self) -> Queue {
        Queue::new()
    }

    /// Reads `buf.len()` bytes at `offset` (both multiples of 4096): [`Event::Read`].
    ///
    /// # Panics
    /// When others share the buffer.
    #[inline]
    pub fn read(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, buf: Buf) {
        assert!(buf.room() == buf.len(), "a read into shared bytes");
        drive!(self, d => d.read(q, cookie, dev, offset, buf));
    }
    /// Writes the buffers one after the other at `offset` (all multiples of 4096): [`Event::Write`].
    #[inline]
    pub fn write(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, bufs: BufVec, d: Durability) {
        drive!(self, x => x.write(q, cookie, dev, offset, bufs, d));
    }
    /// Makes all writes that completed before this call durable: [`Event::Flush`].
    #[inline]
    pub fn flush(&self, q: &Queue, cookie: u64, dev: &Device) {
        drive!(self, d => d.flush(q, cookie, dev));
    }
    /// Says that the range is not needed; it may read as old bytes or zeroes afterwards: [`Event::Discard`].
    pub fn discard(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, len: u64) {
        drive!(self, d => d.discard(q, cookie, dev, offset, len));
    }

    /// Gives [`Event::Timer`] at `at`, or in the next turn when that is past.
    pub fn timer(&self, q: &Queue, cookie: u64, at: Instant) -> TimerId {
        drive!(self, d => d.timer(q, cookie, at))
    }
    /// Forgets a timer. One whose event is in the queue already stays there; one that is gone is ignored.
    pub fn cancel_timer(&self, id: TimerId) {
        drive!(self, d => d.cancel_timer(id));
    }

    /// Listens at `addr` (port 0: any): each connection gives [`Event::Accepted`] with this cookie.
    pub fn listen(&self, q: &Queue, cookie: u64, addr: SocketAddr) -> Result<ListenerId, NetError> {
        drive!(self, d => d.listen(q, cookie, addr))
    }
    /// Where a listener listens.
    ///
    /// # Panics
    /// When it is closed.
    pub fn local_addr(&self, l: ListenerId) -> SocketAddr {
        drive!(self, d => d.local_addr(l))
    }
    /// The address of this side of a connection; `None` when it is closed or the system does not say.
    pub fn local_ip(&self, conn: ConnId) -> Option<IpAddr> {
        drive!(self, d => d.local_ip(conn))
    }
    /// Stops listening. Connections that were accepted stay.
    pub fn close_listener(&self, l: ListenerId) {
        drive!(self, d => d.close_listener(l));
    }
    /// Connects: [`Event::Connected`].
    pub fn connect(&self, q: &Queue, cookie: u64, addr: SocketAddr) {
        drive!(self, d => d.connect(q, cookie, addr));
    }
    /// Receives up to `buf.len()` bytes, at least one: [`Event::Received`]. One receive a connection at a time.
    #[inline]
    pub fn recv(&self, q: &Queue, cookie: u64, conn: ConnId, buf: Buf) {
        self.recv_at(q, cookie, conn, 0..buf.len(), buf);
    }
    /// [`Rt::recv`] into a part of the buffer, which has room for at least one byte.
    ///
    /// # Panics
    /// When it has no room, or others share the buffer.
    #[inline]
    pub fn recv_at(&self, q: &Queue, cookie: u64, conn: ConnId, at: Range<usize>, buf: Buf) {
        drive!(self, d => d.recv(q, cookie, conn, at, buf));
    }
    /// Sends the whole list: [`Event::Sent`]. Several sends of a connection keep their order.
    #[inline]
    pub fn send(&self, q: &Queue, cookie: u64, conn: ConnId, list: SendList) {
        drive!(self, d => d.send(q, cookie, conn, list));
    }
    /// Closes a connection: operations under way end with [`NetError::Closed`]. A connection that is gone is ignored.
    pub fn close(&self, conn: ConnId) {
        drive!(self, d => d.close(conn));
    }
    /// Takes a connection from this core.
    ///
    /// # Panics
    /// When an operation of it is under way, or it is not this core's.
    pub fn detach(&self, conn: ConnId) -> OwnedConn {
        drive!(self, d => d.detach(conn))
    }
    /// Gives a connection to this core.
    pub fn attach(&self, conn: OwnedConn) -> ConnId {
        drive!(self, d => d.attach(conn))
    }

    /// Listens at a path: each connection gives [`Event::UnixAccepted`] with this cookie. The socket has these permission bits before anybody can
    /// connect. A socket there that nobody serves is replaced; one that somebody serves is [`NetError::AddrInUse`]. Whoever can write to the folder
    /// can take the path away: it must be the operator's. In a simulated world the path is one of the host's, and the mode means nothing.
    pub fn listen_unix(&self, q: &Queue, cookie: u64, path: &Path, mode: u32) -> Result<UnixListenerId, NetError> {
        drive!(self, d => d.listen_unix(q, cookie, path, mode))
    }
    /// Stops listening and takes the path away, if it is this listener's still. Connections that were accepted stay.
    pub fn close_unix_listener(&self, l: UnixListenerId) {
        drive!(self, d => d.close_unix_listener(l));
    }
    /// Connects to a path: [`Event::UnixConnected`].
    pub fn connect_unix(&self, q: &Queue, cookie: u64, path: &Path) {
        drive!(self, d => d.connect_unix(q, cookie, path));
    }
    /// Receives up to `at.len()` bytes into that part of the buffer, at least one, and the descriptors that came with them:
    /// [`Event::UnixReceived`]. Descriptors come with the first byte that they were sent with, and a receive never goes beyond the bytes of one
    /// send with descriptors. One receive a connection at a time.
    ///
    /// # Panics
    /// When it has no room, or others share the buffer.
    pub fn recv_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, at: Range<usize>, buf: Buf) {
        assert!(at.start < at.end && at.end <= buf.room(), "a receive needs room that nobody else reads");
        drive!(self, d => d.recv_unix(q, cookie, conn, at, buf));
    }
    /// Sends the whole list, and descriptors with its first byte: [`Event::UnixSent`]. Several sends of a connection keep their order. (A back end of
    /// vhost-user passes the memory in which it notes the requests in flight; a front end passes nearly everything.)
    ///
    /// # Panics
    /// When there are more than [`DESCRIPTORS_MAX`], or descriptors and no byte.
    pub fn send_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, list: SendList, descriptors: Vec<Descriptor>) {
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "{} descriptors in one message", descriptors.len());
        assert!(descriptors.is_empty() || !list.is_empty(), "descriptors go with a byte");
        drive!(self, d => d.send_unix(q, cookie, conn, list, descriptors));
    }
    /// Closes a connection: operations under way end with [`NetError::Closed`], descriptors that nobody received are closed. A connection that is
    /// gone is ignored.
    pub fn close_unix(&self, conn: UnixConnId) {
        drive!(self, d => d.close_unix(conn));
    }

    /// New memory of `bytes` zeroes, to be passed, and mapped with [`ForeignMemory::map`](crate::ForeignMemory::map).
    pub fn new_memory(&self, bytes: u64) -> Result<Descriptor, ForeignError> {
        drive!(self, d => d.new_memory(bytes))
    }
    /// A new event, not signalled: to be passed, or opened.
    pub fn new_event(&self) -> Result<Descriptor, NetError> {
        drive!(self, d => d.new_event())
    }
    /// Opens an event, such as another program passed: [`NetError::WrongDescriptor`] when it is something else.
    pub fn open_event(&self, descriptor: Descriptor) -> Result<EventId, NetError> {
        drive!(self, d => d.open_event(descriptor))
    }
    /// Waits until the event is signalled: [`Event::Signalled`]. What was signalled before counts. One wait an event at a time.
    pub fn wait_event(&self, q: &Queue, cookie: u64, event: EventId) {
        drive!(self, d => d.wait_event(q, cookie, event));
    }
    /// Signals the event, now. One that is closed is ignored. It waits only if the other side has filled the counter and has made the descriptor
    /// blocking again just now.
    pub fn ring_event(&self, event: EventId) {
        drive!(self, d => d.ring_event(event));
    }
    /// Closes an event: a wait ends with [`NetError::Closed`]. One that is gone is ignored.
    pub fn close_event(&self, event: EventId) {
        drive!(self, d => d.close_event(event));
    }

    /// Starts a task on this core.
    ///
    /// # Panics
    /// Above [`TASKS_MAX`](crate::TASKS_MAX).
    pub fn spawn(&self, f: impl Future<Output = ()> + 'static) -> TaskId {
        self.0.tasks.spawn(Box::pin(f))
    }
    /// Drops a task, unless it has ended.
    pub fn cancel(&self, id: TaskId) {
        self.0.tasks.cancel(id);
    }
    /// How many tasks have not ended.
    pub fn tasks(&self) -> usize {
        self.0.tasks.len()
    }

    /// Waits for `d`.
    pub async fn sleep(&self, d: Duration) {
        let op = self.0.ops.begin().ends_when_dropped();
        let id = self.timer(self.0.ops.queue(), op.cookie(), self.now() + d);
        let mut guard = TimerGuard { rt: self, id: Some(id) };
        op.await;
        guard.id = None;
    }
    /// Lets everything else on this core go first.
    pub async fn yield_now(&self) {
        YieldNow(false).await;
    }
    /// [`Rt::read`] for tasks. It is under way as soon as this returns.
    pub fn read_at(&self, dev: &Device, offset: u64, buf: Buf) -> impl Future<Output = (Result<(), DeviceError>, Buf)> + Unpin + use<> {
        let mut op = self.0.ops.begin();
        self.read(self.0.ops.queue(), op.cookie(), dev, offset, buf);
        core::future::poll_fn(move |cx| {
            Pin::new(&mut op).poll(cx).map(|event| match event {
                Event::Read { result, buf } => (result, buf),
                other => unreachable!("a read ended as {other:?}"),
            })
        })
    }
    /// [`Rt::write`] for tasks. It is under way as soon as this returns.
    pub fn write_at(
        &self,
        dev: &Device,
        offset: u64,
        bufs: BufVec,
        d: Durability,
    ) -> impl Future<Output = (Result<(), DeviceError>, BufVec)> + Unpin + use<> {
        let mut op = self.0.ops.begin();
        self.write(self.0.ops.queue(), op.cookie(), dev, offset, bufs, d);
        core::future::poll_fn(move |cx| {
            Pin::new(&mut op).poll(cx).map(|event| match event {
                Event::Write { result, bufs } => (result, bufs),
                other => unreachable!("a write ended as {other:?}"),
            })
        })
    }
    /// [`Rt::flush`] for tasks.
    pub async fn flush_dev(&self, dev: &Device) -> Result<(), DeviceError> {
        let op = self.0.ops.begin();
        self.flush(self.0.ops.queue(), op.cookie(), dev);
        match op.await {
            Event::Flush { result } => result,
            other => unreachable!("a flush ended as {other:?}"),
        }
    }
    /// [`Rt::discard`] for tasks.
    pub async fn discard_at(&self, dev: &Device, offset: u64, len: u64) -> Result<(), DeviceError> {
        let op = self.0.ops.begin();
        self.discard(self.0.ops.queue(), op.cookie(), dev, offset, len);
        match op.await {
            Event::Discard { result } => result,
            other => unreachable!("a discard ended as {other:?}"),
        }
    }

    /// Makes `core` run its loop once more, soon: after something was put into its mailbox.
    #[inline]
    pub fn wake(&self, core: usize) {
        drive!(self, d => d.wake(core));
    }
    /// Wakes this core from any thread.
    pub fn waker(&self) -> CoreWaker {
        drive!(self, d => d.waker())
    }
    /// What this core did.
    pub fn stats(&self) -> Arc<CoreStats> {
        Arc::clone(drive!(self, d => d.stats()))
    }

    /// For drivers: hands completions to tasks and runs those that are ready, each once; whether any ran.
    pub(crate) fn run_tasks(&self) -> bool {
        self.0.ops.dispatch();
        let ran = self.0.tasks.run();
        if ran > 0 {
            drive!(self, d => d.stats()).task_polls.add(ran as u64);
        }
        ran > 0
    }
    /// For drivers: whether `run_tasks` would do something.
    #[inline]
    pub(crate) fn has_runnable_tasks(&self) -> bool {
        self.0.tasks.has_ready() || !self.0.ops.queue().is_empty()
    }
    /// For drivers: the core ends. Drops all tasks and what waits for them.
    pub(crate) fn end(&self) {
        self.0.tasks.end();
        self.0.ops.clear();
    }
}

/// Takes the timer of a sleep back when the task is cancelled.
struct TimerGuard<'a> {
    rt: &'a Rt,
    id: Option<TimerId>,
}

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.rt.cancel_timer(id);
        }
    }
}

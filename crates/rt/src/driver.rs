//! What a driver is: the methods that both have, and how the loop around them goes.
//!
//! [`Rt`](crate::Rt) is an `Rc` of `{ driver: Driver, tasks, ops }`; every method of `Rt` that touches the world is handed on to [`Drive`].
//!
//! For whoever writes a driver:
//! - one value that implements [`Drive`] a core, held as `Rc` in `enum Driver` (`Rc<uring::Core>`, `Rc<sim::SimCore>`);
//! - a completion is `queue.push(cookie, Event::..)` (crate-private), exactly one an operation, never from within the call
//!   that submits (the submitter may hold borrows), but later from the loop. Exception: none;
//! - the loop of a core, after the driver has pushed what completed:
//!   `let p = app.poll(&rt); let ran = rt.run_tasks();` then submit. The core may sleep only when `p` is `Idle`, `ran` is false,
//!   `rt.has_runnable_tasks()` is false, and no completion was pushed since. `Stop` ends it;
//! - when a core ends: drop the app, then `rt.end()` (drops all tasks; they hold `Rt`s, so without it the core leaks), then
//!   wait for operations in flight (their buffers belong to the kernel until then);
//! - [`CoreWaker`] wakes a core from any thread and from itself (a task woken on its own core calls it too, so waking a core that is awake
//!   must cost no more than an atomic load or two).

use crate::{
    Buf, BufVec, ConnId, CoreStats, CoreWaker, Descriptor, Device, Durability, EventId, ForeignError, ListenerId, NetError, OwnedConn,
    Queue, SendList, TimerId, UnixConnId, UnixListenerId,
};
use base::Instant;
use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::Path,
    sync::Arc,
};

/// See [`Rt`](crate::Rt) for what each method means.
pub(crate) trait Drive {
    fn now(&self) -> Instant;
    fn clock(&self) -> Instant;
    fn boot_clock(&self) -> Instant;
    fn core(&self) -> usize;
    fn cores(&self) -> usize;
    fn random_u64(&self) -> u64;
    fn random_secret(&self, out: &mut [u8]);

    fn read(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, buf: Buf);
    fn write(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, bufs: BufVec, d: Durability);
    fn flush(&self, q: &Queue, cookie: u64, dev: &Device);
    fn discard(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, len: u64);

    /// A time in the past fires in the next turn of the loop.
    fn timer(&self, q: &Queue, cookie: u64, at: Instant) -> TimerId;
    /// No completion is pushed after this; one that was pushed before stays. Unknown and fired timers are ignored.
    fn cancel_timer(&self, id: TimerId);

    fn listen(&self, q: &Queue, cookie: u64, addr: SocketAddr) -> Result<ListenerId, NetError>;
    fn local_addr(&self, l: ListenerId) -> SocketAddr;
    fn close_listener(&self, l: ListenerId);
    fn local_ip(&self, conn: ConnId) -> Option<IpAddr>;
    fn connect(&self, q: &Queue, cookie: u64, addr: SocketAddr);
    fn recv(&self, q: &Queue, cookie: u64, conn: ConnId, at: Range<usize>, buf: Buf);
    fn send(&self, q: &Queue, cookie: u64, conn: ConnId, list: SendList);
    fn close(&self, conn: ConnId);
    fn detach(&self, conn: ConnId) -> OwnedConn;
    fn attach(&self, conn: OwnedConn) -> ConnId;

    fn listen_unix(&self, q: &Queue, cookie: u64, path: &Path, mode: u32) -> Result<UnixListenerId, NetError>;
    fn close_unix_listener(&self, l: UnixListenerId);
    fn connect_unix(&self, q: &Queue, cookie: u64, path: &Path);
    fn recv_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, at: Range<usize>, buf: Buf);
    /// The caller has checked that there are at most [`DESCRIPTORS_MAX`](crate::DESCRIPTORS_MAX), and bytes to go with them.
    fn send_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, list: SendList, descriptors: Vec<Descriptor>);
    fn close_unix(&self, conn: UnixConnId);

    fn new_memory(&self, bytes: u64) -> Result<Descriptor, ForeignError>;
    fn new_event(&self) -> Result<Descriptor, NetError>;
    fn open_event(&self, descriptor: Descriptor) -> Result<EventId, NetError>;
    fn wait_event(&self, q: &Queue, cookie: u64, event: EventId);
    fn ring_event(&self, event: EventId);
    fn close_event(&self, event: EventId);

    fn wake(&self, core: usize);
    fn waker(&self) -> CoreWaker;
    fn stats(&self) -> &Arc<CoreStats>;
}

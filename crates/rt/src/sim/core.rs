//! The simulator's side of a reactor: hands every operation to the world.

use super::{place::Place, refs::SimSocket, state::Shared, wake::SimWake};
use crate::{
    Buf, BufVec, ConnId, CoreStats, CoreWaker, Descriptor, Device, Durability, EventId, ForeignError, ListenerId, NetError, OwnedConn,
    Queue, SendList, TimerId, UnixConnId, UnixListenerId, driver::Drive, owned_conn::OwnedConnInner, waker::WakerInner,
};
use base::Instant;
use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::Path,
    rc::Rc,
    sync::Arc,
};

/// One core of a simulated host, for one life of the host.
pub(crate) struct SimCore {
    pub(crate) shared: Rc<Shared>,
    pub(crate) place: Place,
    pub(crate) cores: usize,
    pub(crate) wake: Arc<SimWake>,
    pub(crate) stats: Arc<CoreStats>,
}

impl Drive for SimCore {
    fn now(&self) -> Instant {
        Instant(self.shared.state.borrow().clock_of(self.place.host))
    }
    fn clock(&self) -> Instant {
        self.now()
    }
    fn boot_clock(&self) -> Instant {
        self.now()
    }
    fn core(&self) -> usize {
        self.place.core
    }
    fn cores(&self) -> usize {
        self.cores
    }
    fn random_u64(&self) -> u64 {
        self.shared.state.borrow_mut().rng.next_u64()
    }
    fn random_secret(&self, out: &mut [u8]) {
        let rng = &mut self.shared.state.borrow_mut().rng;
        out.chunks_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]));
    }
    fn read(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, buf: Buf) {
        self.stats.device_ops.add(1);
        self.stats.device_bytes.add(buf.len() as u64);
        self.device_cost(buf.len());
        self.shared.read(self.place, q, cookie, dev, offset, buf);
    }
    fn write(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, bufs: BufVec, d: Durability) {
        self.stats.device_ops.add(1);
        let bytes: usize = bufs.iter().map(|b| b.len()).sum();
        self.stats.device_bytes.add(bytes as u64);
        self.device_cost(bytes);
        self.shared.write(self.place, q, cookie, dev, offset, bufs, d);
    }
    fn flush(&self, q: &Queue, cookie: u64, dev: &Device) {
        self.stats.device_ops.add(1);
        self.device_cost(0);
        self.shared.flush(self.place, q, cookie, dev);
    }
    fn discard(&self, q: &Queue, cookie: u64, dev: &Device, offset: u64, len: u64) {
        self.stats.device_ops.add(1);
        self.device_cost(0);
        self.shared.discard(self.place, q, cookie, dev, offset, len);
    }
    fn timer(&self, q: &Queue, cookie: u64, at: Instant) -> TimerId {
        self.shared.state.borrow_mut().timer(self.place, q.clone(), cookie, at.0)
    }
    fn cancel_timer(&self, id: TimerId) {
        self.shared.state.borrow_mut().cancel_timer(id);
    }
    fn listen(&self, q: &Queue, cookie: u64, addr: SocketAddr) -> Result<ListenerId, NetError> {
        self.shared.listen(self.place, q, cookie, addr)
    }
    fn local_addr(&self, l: ListenerId) -> SocketAddr {
        self.shared.local_addr(l)
    }
    fn local_ip(&self, conn: ConnId) -> Option<IpAddr> {
        self.shared.local_ip(self.place, conn)
    }
    fn close_listener(&self, l: ListenerId) {
        self.shared.close_listener(l);
    }
    fn connect(&self, q: &Queue, cookie: u64, addr: SocketAddr) {
        self.shared.connect(self.place, q, cookie, addr);
    }
    fn recv(&self, q: &Queue, cookie: u64, conn: ConnId, at: Range<usize>, buf: Buf) {
        self.stats.recv_calls.add(1);
        self.net_cost();
        self.shared.recv(self.place, q, cookie, conn, at, buf);
    }
    fn send(&self, q: &Queue, cookie: u64, conn: ConnId, list: SendList) {
        self.stats.send_calls.add(1);
        self.stats.send_bytes.add(list.len_bytes() as u64);
        let bytes = list.len_bytes() as f64;
        self.shared.state.borrow_mut().charge(self.place, |c| c.net_op_ns + c.net_byte_ns * bytes);
        self.shared.send(self.place, q, cookie, conn, list);
    }
    fn close(&self, conn: ConnId) {
        self.shared.close(conn, self.place);
    }
    fn detach(&self, conn: ConnId) -> OwnedConn {
        OwnedConn(OwnedConnInner::Sim(self.shared.detach(self.place, conn)))
    }
    fn attach(&self, conn: OwnedConn) -> ConnId {
        match conn.0 {
            OwnedConnInner::Sim(socket) => self.attach_sim(socket),
            OwnedConnInner::Uring(_) => panic!("a real connection cannot be attached to a simulated core"),
        }
    }
    fn listen_unix(&self, q: &Queue, cookie: u64, path: &Path, _mode: u32) -> Result<UnixListenerId, NetError> {
        self.shared.listen_unix(self.place, q, cookie, path)
    }
    fn close_unix_listener(&self, l: UnixListenerId) {
        self.shared.close_unix_listener(l);
    }
    fn connect_unix(&self, q: &Queue, cookie: u64, path: &Path) {
        self.shared.connect_unix(self.place, q, cookie, path);
    }
    fn recv_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, at: Range<usize>, buf: Buf) {
        self.net_cost();
        self.shared.recv_unix(self.place, q, cookie, conn, at, buf);
    }
    fn send_unix(&self, q: &Queue, cookie: u64, conn: UnixConnId, list: SendList, descriptors: Vec<Descriptor>) {
        self.net_cost();
        self.shared.send_unix(self.place, q, cookie, conn, list, descriptors);
    }
    fn close_unix(&self, conn: UnixConnId) {
        self.shared.close_unix(self.place, conn);
    }
    fn new_memory(&self, bytes: u64) -> Result<Descriptor, ForeignError> {
        self.shared.new_memory(bytes)
    }
    fn new_event(&self) -> Result<Descriptor, NetError> {
        Ok(self.shared.new_event())
    }
    fn open_event(&self, descriptor: Descriptor) -> Result<EventId, NetError> {
        self.shared.open_event(self.place, descriptor)
    }
    fn wait_event(&self, q: &Queue, cookie: u64, event: EventId) {
        self.net_cost();
        self.shared.wait_event(self.place, q, cookie, event);
    }
    fn ring_event(&self, event: EventId) {
        self.net_cost();
        self.shared.ring_event(self.place, event);
    }
    fn close_event(&self, event: EventId) {
        self.shared.close_event(self.place, event);
    }
    fn wake(&self, core: usize) {
        assert!(core < self.cores, "there is no core {core}");
        self.shared.state.borrow_mut().wake_core(Place { host: self.place.host, core });
    }
    fn waker(&self) -> CoreWaker {
        CoreWaker(WakerInner::Sim(Arc::clone(&self.wake)))
    }
    fn stats(&self) -> &Arc<CoreStats> {
        &self.stats
    }
}

impl SimCore {
    fn device_cost(&self, bytes: usize) {
        self.shared.state.borrow_mut().charge(self.place, |c| c.device_op_ns + c.byte_ns * bytes as f64);
    }
    fn net_cost(&self) {
        self.shared.state.borrow_mut().charge(self.place, |c| c.net_op_ns);
    }
    fn attach_sim(&self, socket: SimSocket) -> ConnId {
        self.shared.attach(self.place, socket)
    }
}

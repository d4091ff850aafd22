//! The simulated network: TCP connections between hosts, as byte streams in order.
//!
//! Owns: what is on the wire.
//! Invariants: the bytes of a connection arrive in order, once, cut into segments by chance; at most [`WINDOW_BYTES`] of a direction are
//! under way or unread; what meets a cut link waits there and goes on when it heals, as with TCP's retransmission; acknowledgements
//! travel the other way and wait likewise; data for an end that is gone is answered with a reset.
//! Never: loses a byte of a connection that lives.

use super::net::{End, LinkWay, Listener, NetEvent, PendingRecv, PendingSend, host_addr, host_of};
use super::place::Place;
use super::refs::SimSocket;
use super::state::{Shared, What, WorldState};
use crate::{Buf, ConnId, Event, ListenerId, NetError, Queue, SendList};
use std::{
    collections::VecDeque,
    io::Read,
    net::{IpAddr, SocketAddr},
    ops::Range,
    sync::Arc,
};

/// How many bytes of a direction may be sent and not read.
pub const WINDOW_BYTES: usize = 256 << 10;
/// How long a connect waits for an answer, in nanoseconds.
const CONNECT_TIMEOUT_NS: u64 = 3_000_000_000;
/// The first port that is given out when none was asked for.
const PORT_FIRST: u16 = 32_768;

impl Shared {
    pub(crate) fn listen(&self, place: Place, q: &Queue, cookie: u64, addr: SocketAddr) -> Result<ListenerId, NetError> {
        let mut s = self.state.borrow_mut();
        if host_of(addr.ip(), place.host) != Some(place.host) {
            return Err(NetError::AddrNotAvailable);
        }
        let mut addr = addr;
        if addr.port() == 0 {
            let free = (0..u16::MAX - PORT_FIRST).find_map(|i| {
                let port = PORT_FIRST + (s.net.port_next + i) % (u16::MAX - PORT_FIRST);
                let candidate = SocketAddr::new(addr.ip(), port);
                s.net.find_listener(place.host, candidate).is_none().then_some(candidate)
            });
            addr = free.ok_or(NetError::Limit)?;
            s.net.port_next = (addr.port() - PORT_FIRST + 1) % (u16::MAX - PORT_FIRST);
        } else if s.net.find_listener(place.host, addr).is_some() {
            return Err(NetError::AddrInUse);
        }
        let id = s.number();
        s.net.listeners.insert(id, Listener { place, q: q.clone(), cookie, addr });
        Ok(ListenerId(id))
    }

    pub(crate) fn local_addr(&self, l: ListenerId) -> SocketAddr {
        self.state.borrow().net.listeners.get(&l.0).expect("an open listener").addr
    }

    pub(crate) fn local_ip(&self, place: Place, conn: ConnId) -> Option<IpAddr> {
        let there = self.state.borrow().net.ends.get(&conn.0).is_some_and(|e| e.place == place);
        there.then(|| host_addr(place.host))
    }

    pub(crate) fn close_listener(&self, l: ListenerId) {
        let closed = self.state.borrow_mut().net.listeners.remove(&l.0);
        drop(closed);
    }

    pub(crate) fn connect(&self, place: Place, q: &Queue, cookie: u64, addr: SocketAddr) {
        let mut s = self.state.borrow_mut();
        let Some(host) = host_of(addr.ip(), place.host).filter(|h| *h < s.hosts.len()) else {
            let result = Err(NetError::Unreachable);
            return s.complete_soon(place, q.clone(), cookie, Event::Connected { result });
        };
        let there_and_back = !s.net.cut.contains(&(place.host, host)) && !s.net.cut.contains(&(host, place.host));
        if !s.hosts[host].up || !there_and_back {
            let at = s.now + CONNECT_TIMEOUT_NS;
            let event = Event::Connected { result: Err(NetError::TimedOut) };
            s.schedule(at, place, What::Complete { q: q.clone(), cookie, event });
            return;
        }
        let at = s.now + s.latency(place.host, host);
        let generation = s.net.generation(place.host);
        let syn = NetEvent::Syn { from: place, q: q.clone(), cookie, addr, generation };
        s.schedule(at, Place::NOWHERE, What::Net(syn));
    }

    pub(crate) fn recv(&self, place: Place, q: &Queue, cookie: u64, conn: ConnId, at: Range<usize>, buf: Buf) {
        assert!(at.start < at.end && at.end <= buf.room(), "a receive needs room that nobody else reads");
        let mut s = self.state.borrow_mut();
        let Some(end) = s.net.ends.get_mut(&conn.0).filter(|e| e.place == place && !e.detached) else {
            let event = Event::Received { conn, result: Err(NetError::Closed), buf };
            return s.complete_soon(place, q.clone(), cookie, event);
        };
        assert!(end.recv.is_none(), "two receives of one connection");
        end.ops += 1;
        end.recv = Some(PendingRecv { q: q.clone(), cookie, at, buf });
        s.try_receive(conn.0);
    }

    pub(crate) fn send(&self, place: Place, q: &Queue, cookie: u64, conn: ConnId, list: SendList) {
        let mut s = self.state.borrow_mut();
        let end = s.net.ends.get_mut(&conn.0).filter(|e| e.place == place && !e.detached);
        let failed = match &end {
            None => Some(NetError::Closed),
            Some(e) => e.ended.and_then(Result::err),
        };
        if let Some(end) = end {
            end.ops += 1;
            if failed.is_none() {
                end.sends.push_back(PendingSend { q: q.clone(), cookie, list, sent: 0 });
                return s.pump(conn.0);
            }
        }
        let result = failed.map_or(Ok(()), Err);
        s.complete_soon(place, q.clone(), cookie, Event::Sent { conn, result, list });
    }

    pub(crate) fn close(&self, conn: ConnId, place: Place) {
        let mut s = self.state.borrow_mut();
        if s.net.ends.get(&conn.0).is_some_and(|e| e.place == place && !e.detached) {
            s.close(conn.0);
        }
    }

    pub(crate) fn detach(&self, place: Place, conn: ConnId) -> SimSocket {
        let mut s = self.state.borrow_mut();
        let end = s.net.ends.get_mut(&conn.0).filter(|e| e.place == place && !e.detached).expect("an open connection of this core");
        assert_eq!(end.ops, 0, "detach with operations under way");
        end.detached = true;
        SimSocket { world: self.id, id: conn.0, dropped: Some(Arc::clone(&self.dropped)) }
    }

    pub(crate) fn attach(&self, place: Place, mut socket: SimSocket) -> ConnId {
        assert_eq!(socket.world, self.id, "a connection of another world");
        socket.dropped = None;
        let mut s = self.state.borrow_mut();
        if let Some(end) = s.net.ends.get_mut(&socket.id) {
            assert!(end.detached && end.place.host == place.host, "a connection stays on its host");
            end.detached = false;
            end.place = place;
        }
        ConnId(socket.id)
    }
}

impl WorldState {
    pub(super) fn latency(&mut self, from: usize, to: usize) -> u64 {
        let range = if from == to { self.net.opts.loopback_ns } else { self.net.opts.latency_ns };
        let usual = self.rng.between(range);
        usual + self.net.slow.get(&(from, to)).map_or(0, |longer| self.rng.between(*longer))
    }

    /// Puts something on the wire from the end `from`, behind all that it sent before.
    fn emit(&mut self, from: u64, event: NetEvent) {
        let Some(end) = self.net.ends.get(&from) else { return };
        let (a, b) = (end.place.host, end.peer_host);
        let mut at = self.now + self.latency(a, b);
        if let NetEvent::Data { bytes, .. } = &event
            && a != b
        {
            let sent = self.net.moves(a, LinkWay::Out, self.now, bytes.len());
            // The first byte arrives before the last one is sent.
            at += sent.start - self.now;
            at = self.net.moves(b, LinkWay::In, at, bytes.len()).end;
        }
        let end = self.net.ends.get_mut(&from).expect("looked up above");
        if self.net.cut.contains(&(a, b)) || !end.held.is_empty() {
            end.held.push_back(event);
            return;
        }
        end.last_arrival = end.last_arrival.max(at);
        let at = end.last_arrival;
        self.schedule(at, Place::NOWHERE, What::Net(event));
    }

    /// What was held at links that are whole again goes on.
    pub(crate) fn release_held(&mut self) {
        let ids: Vec<u64> = self.net.ends.keys().copied().collect();
        for id in ids {
            let end = &self.net.ends[&id];
            if !self.net.cut.contains(&(end.place.host, end.peer_host)) {
                let held = core::mem::take(&mut self.net.ends.get_mut(&id).expect("listed").held);
                for event in held {
                    self.emit(id, event);
                }
            }
        }
        for (from, to, held) in core::mem::take(&mut self.net.linger) {
            if self.net.cut.contains(&(from, to)) {
                self.net.linger.push((from, to, held));
                continue;
            }
            let at = self.now + self.latency(from, to);
            for event in held {
                self.schedule(at, Place::NOWHERE, What::Net(event)); // same time: the order of scheduling
            }
        }
    }

    /// Sends what the window allows.
    fn pump(&mut self, id: u64) {
        loop {
            let Some(end) = self.net.ends.get_mut(&id) else { return };
            let Some(front) = end.sends.front() else { return };
            let left = front.list.len_bytes() - front.sent;
            if left == 0 {
                let done = end.sends.pop_front().expect("looked at above");
                let place = end.place;
                let event = Event::Sent { conn: ConnId(id), result: Ok(()), list: done.list };
                self.complete_soon(place, done.q, done.cookie, event);
                continue;
            }
            let room = WINDOW_BYTES.saturating_sub(end.outstanding);
            if room == 0 {
                return;
            }
            let small = self.net.cuts() && self.rng.one_in(10);
            let (least, most) = self.net.opts.segment_bytes;
            let wanted = self.rng.between(if small { (1, 64.min(most)) } else { (least.max(1), most) }) as usize;
            let n = wanted.clamp(1, left.min(room));
            let end = self.net.ends.get_mut(&id).expect("looked up above");
            let front = end.sends.front_mut().expect("looked at above");
            let mut bytes = Vec::with_capacity(n);
            for slice in front.list.slices(front.sent) {
                let take = slice.len().min(n - bytes.len());
                bytes.extend_from_slice(&slice[..take]);
                if bytes.len() == n {
                    break;
                }
            }
            front.sent += n;
            end.outstanding += n;
            let to = end.peer;
            self.emit(id, NetEvent::Data { from: id, to, bytes });
        }
    }

    /// Ends a waiting receive, if there is something to say.
    fn try_receive(&mut self, id: u64) {
        let Some(end) = self.net.ends.get_mut(&id) else { return };
        if end.recv.is_none() || (end.unread.is_empty() && end.ended.is_none()) {
            return;
        }
        let mut recv = end.recv.take().expect("looked at above");
        let failed = end.ended.and_then(Result::err).filter(|_| end.unread.is_empty()); // as Linux: what came before a reset can be read
        let most = end.unread.len().min(recv.at.len());
        let result = match failed {
            Some(e) => Err(e),
            None if most == 0 => Ok(0),
            None => Ok(if self.net.cuts() && self.rng.one_in(4) { 1 + self.rng.below(most as u64) as usize } else { most }),
        };
        let end = self.net.ends.get_mut(&id).expect("looked up above");
        let (place, peer) = (end.place, end.peer);
        if let Ok(n) = result {
            end.unread.read_exact(&mut recv.buf[recv.at.start..][..n]).expect("no more than is there");
            if n > 0 {
                self.emit(id, NetEvent::Ack { to: peer, bytes: n });
            }
        }
        let event = Event::Received { conn: ConnId(id), result, buf: recv.buf };
        self.complete_soon(place, recv.q, recv.cookie, event);
    }

    /// Fails everything that waits at an end.
    fn fail_ops(&mut self, id: u64, error: NetError) {
        let Some(end) = self.net.ends.get_mut(&id) else { return };
        let (place, recv, sends) = (end.place, end.recv.take(), core::mem::take(&mut end.sends));
        let conn = ConnId(id);
        if let Some(r) = recv {
            self.complete_soon(place, r.q, r.cookie, Event::Received { conn, result: Err(error), buf: r.buf });
        }
        for p in sends {
            self.complete_soon(place, p.q, p.cookie, Event::Sent { conn, result: Err(error), list: p.list });
        }
    }

    /// Closes an end: the peer sees the end of the stream after what was sent, or a reset when something was left unread.
    fn close(&mut self, id: u64) {
        self.fail_ops(id, NetError::Closed);
        let Some(end) = self.net.ends.get(&id) else { return };
        let to = end.peer;
        let event = if end.unread.is_empty() { NetEvent::Fin { to } } else { NetEvent::Reset { to } };
        self.emit(id, event);
        let end = self.net.ends.remove(&id).expect("looked up above");
        // What is held at a cut link outlives the end: its peer learns when the link heals.
        if !end.held.is_empty() {
            self.net.linger.push((end.place.host, end.peer_host, end.held));
        }
    }

    fn syn(&mut self, from: Place, q: Queue, cookie: u64, addr: SocketAddr) -> Option<Place> {
        let host = host_of(addr.ip(), from.host).expect("checked at connect");
        let back = self.now + self.latency(host, from.host);
        let Some(listener) = self.net.find_listener(host, addr).filter(|_| self.hosts[host].up) else {
            let event = Event::Connected { result: Err(NetError::Refused) };
            self.schedule(back, from, What::Complete { q, cookie, event });
            return None;
        };
        let (place, listen_q, listen_cookie) = (listener.place, listener.q.clone(), listener.cookie);
        let (near, far) = (self.number(), self.number());
        let end = |place: Place, peer, peer_host, last_arrival| End {
            place,
            peer,
            peer_host,
            detached: false,
            ops: 0,
            unread: VecDeque::new(),
            ended: None,
            recv: None,
            sends: VecDeque::new(),
            outstanding: 0,
            last_arrival,
            held: VecDeque::new(),
        };
        self.net.ends.insert(near, end(from, far, host, self.now));
        self.net.ends.insert(far, end(place, near, from.host, back));
        let event = Event::Connected { result: Ok(ConnId(near)) };
        self.schedule(back, from, What::Complete { q, cookie, event });
        let port = PORT_FIRST + (near % u64::from(u16::MAX - PORT_FIRST)) as u16;
        let ip = if addr.ip().is_loopback() { addr.ip() } else { host_addr(from.host) };
        let peer = SocketAddr::new(ip, port);
        self.complete(&listen_q, listen_cookie, Event::Accepted { conn: ConnId(far), peer });
        Some(place)
    }

    /// Something arrives.
    pub(crate) fn net_event(&mut self, event: NetEvent) -> Option<Place> {
        match event {
            NetEvent::Syn { from, q, cookie, addr, generation } => {
                self.note(20);
                if generation != self.net.generation(from.host) || !self.hosts[from.host].up {
                    return None;
                }
                self.syn(from, q, cookie, addr)
            }
            NetEvent::Data { from, to, bytes } => {
                self.note(21);
                self.note(u64::from(base::crc32c(&bytes)) << 32 | bytes.len() as u64);
                let Some(end) = self.net.ends.get_mut(&to) else {
                    self.refuse_data(from);
                    return None;
                };
                if end.ended.is_none() {
                    end.unread.extend(&bytes);
                }
                self.try_receive(to);
                None
            }
            NetEvent::Ack { to, bytes } => {
                self.note(22);
                let end = self.net.ends.get_mut(&to)?;
                end.outstanding = end.outstanding.saturating_sub(bytes);
                self.pump(to);
                None
            }
            NetEvent::Fin { to } => {
                self.note(23);
                let end = self.net.ends.get_mut(&to)?;
                end.ended = end.ended.or(Some(Ok(())));
                self.try_receive(to);
                None
            }
            NetEvent::Reset { to } => {
                self.note(24);
                let end = self.net.ends.get_mut(&to)?;
                end.ended = Some(Err(NetError::Reset));
                self.fail_ops(to, NetError::Reset);
                None
            }
        }
    }

    /// Data of the end `from` came to an end that is gone: the kernel of a host that is up answers with a reset. At a cut link the answer
    /// waits, as the data would be sent again until then. (A host that is down answers when it is back: [`WorldState::net_host_back`].)
    fn refuse_data(&mut self, from: u64) {
        let Some(sender) = self.net.ends.get(&from) else { return };
        let (here, there) = (sender.peer_host, sender.place.host);
        if !self.hosts[here].up {
            return;
        }
        let reset = NetEvent::Reset { to: from };
        if self.net.cut.contains(&(here, there)) {
            self.net.linger.push((here, there, VecDeque::from([reset])));
            return;
        }
        let at = self.now + self.latency(here, there);
        self.schedule(at, Place::NOWHERE, What::Net(reset));
    }

    /// Connections that were dropped between two cores are closed.
    pub(crate) fn close_dropped(&mut self, ids: Vec<u64>) {
        for id in ids {
            self.close(id);
        }
    }

    /// Resets all connections between two hosts.
    pub(crate) fn reset_between(&mut self, a: usize, b: usize) {
        let between = |e: &End| (e.place.host, e.peer_host) == (a, b) || (e.place.host, e.peer_host) == (b, a);
        let ids: Vec<u64> = self.net.ends.iter().filter(|(_, e)| between(e)).map(|(id, _)| *id).collect();
        for id in ids {
            let at = self.now + self.latency(a, b);
            self.schedule(at, Place::NOWHERE, What::Net(NetEvent::Reset { to: id }));
        }
    }

    /// A host is gone. Its peers notice nothing, unless its kernel lives on (`resets`).
    pub(crate) fn net_forget_host(&mut self, host: usize, resets: bool) {
        *self.net.generations.entry(host).or_insert(0) += 1;
        self.net.listeners.retain(|_, l| l.place.host != host);
        let ids: Vec<u64> = self.net.ends.iter().filter(|(_, e)| e.place.host == host).map(|(id, _)| *id).collect();
        for id in ids {
            if resets && let Some(to) = self.net.ends.get(&id).map(|e| e.peer) {
                self.emit(id, NetEvent::Reset { to });
            }
            if let Some(end) = self.net.ends.remove(&id).filter(|e| resets && !e.held.is_empty()) {
                self.net.linger.push((host, end.peer_host, end.held));
            }
        }
    }

    /// A host is back: it resets what its peers believe to be connections to its former life.
    pub(crate) fn net_host_back(&mut self, host: usize) {
        let orphans: Vec<(u64, usize)> = self
            .net
            .ends
            .iter()
            .filter(|(_, e)| e.peer_host == host && !self.net.ends.contains_key(&e.peer))
            .map(|(id, e)| (*id, e.place.host))
            .collect();
        for (to, peer_host) in orphans {
            let at = self.now + self.latency(host, peer_host);
            self.schedule(at, Place::NOWHERE, What::Net(NetEvent::Reset { to }));
        }
    }
}

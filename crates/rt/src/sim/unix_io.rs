//! Simulated Unix sockets between the programs of one host, with descriptors of simulated things, and simulated events.
//!
//! Invariants: as with Linux: bytes arrive in order, once; descriptors come with the first byte that they were sent with, and a receive never goes
//! beyond the bytes of a send that had some; an event counts until somebody takes the count; a receive may bring less than there is. A process
//! that dies takes its ends with it.
//! Never: reaches another host, looks at a path of the machine.

use super::place::Place;
use super::refs::{SimDescriptor, SimPassed};
use super::state::{Shared, What, WorldState};
use super::unix::{Message, OpenEvent, UnixEnd, UnixEvent, UnixListener, UnixRecv};
use crate::descriptor::DescriptorInner;
use crate::mapping::Mapping;
use crate::{
    Buf, Descriptor, EVENTS_MAX, Event, EventId, ForeignError, NetError, Queue, SendList, UNIX_CONNS_MAX, UNIX_LISTENERS_MAX, UnixConnId,
    UnixListenerId,
};
use std::{collections::VecDeque, io::Read, ops::Range, path::Path, sync::Arc};

impl Shared {
    pub(crate) fn listen_unix(&self, place: Place, q: &Queue, cookie: u64, path: &Path) -> Result<UnixListenerId, NetError> {
        let mut s = self.state.borrow_mut();
        if s.unix.listeners.values().any(|l| l.place.host == place.host && l.path == path) {
            return Err(NetError::AddrInUse);
        }
        if s.unix.listeners.values().filter(|l| l.place == place).count() >= UNIX_LISTENERS_MAX {
            return Err(NetError::Limit);
        }
        let id = s.number();
        s.unix.listeners.insert(id, UnixListener { place, q: q.clone(), cookie, path: path.into() });
        Ok(UnixListenerId(id))
    }

    pub(crate) fn close_unix_listener(&self, l: UnixListenerId) {
        let closed = self.state.borrow_mut().unix.listeners.remove(&l.0);
        drop(closed);
    }

    pub(crate) fn connect_unix(&self, place: Place, q: &Queue, cookie: u64, path: &Path) {
        let mut s = self.state.borrow_mut();
        let at = s.now + s.latency(place.host, place.host);
        let event = UnixEvent::Connect { from: place, q: q.clone(), cookie, path: path.into() };
        s.schedule(at, place, What::Unix(event));
    }

    pub(crate) fn recv_unix(&self, place: Place, q: &Queue, cookie: u64, conn: UnixConnId, at: Range<usize>, buf: Buf) {
        let mut s = self.state.borrow_mut();
        let Some(end) = s.unix.ends.get_mut(&conn.0).filter(|e| e.place == place) else {
            let event = Event::UnixReceived { conn, result: Err(NetError::Closed), buf, descriptors: Vec::new() };
            return s.complete_soon(place, q.clone(), cookie, event);
        };
        assert!(end.recv.is_none(), "two receives of one connection");
        end.recv = Some(UnixRecv { q: q.clone(), cookie, at, buf });
        s.try_unix_receive(conn.0);
    }

    pub(crate) fn send_unix(&self, place: Place, q: &Queue, cookie: u64, conn: UnixConnId, list: SendList, descriptors: Vec<Descriptor>) {
        let mine = |d: &Descriptor| matches!(&d.0, DescriptorInner::Sim(d) if d.world == self.id);
        assert!(descriptors.iter().all(mine), "only descriptors of this world can be passed in it");
        let mut s = self.state.borrow_mut();
        let late = s.now + s.latency(place.host, place.host);
        let failed = match s.unix.ends.get_mut(&conn.0).filter(|e| e.place == place) {
            None => NetError::Closed,
            Some(end) if end.ended.is_some() => NetError::Reset,
            Some(end) => {
                end.last_arrival = end.last_arrival.max(late);
                let (at, to) = (end.last_arrival, end.peer);
                let event = UnixEvent::Data { from: conn.0, to, place, q: q.clone(), cookie, list, descriptors };
                s.schedule(at, place, What::Unix(event));
                return;
            }
        };
        s.complete_soon(place, q.clone(), cookie, Event::UnixSent { conn, result: Err(failed), list });
    }

    pub(crate) fn close_unix(&self, place: Place, conn: UnixConnId) {
        let mut s = self.state.borrow_mut();
        if s.unix.ends.get(&conn.0).is_some_and(|e| e.place == place) {
            s.close_unix(conn.0);
        }
    }

    pub(crate) fn new_event(&self) -> Descriptor {
        let mut s = self.state.borrow_mut();
        let event = s.number();
        s.unix.counts.insert(event, 0);
        Descriptor(DescriptorInner::Sim(SimDescriptor { world: self.id, what: SimPassed::Event(event) }))
    }

    pub(crate) fn new_memory(&self, bytes: u64) -> Result<Descriptor, ForeignError> {
        let memory = Arc::new(Mapping::anonymous(bytes)?);
        Ok(Descriptor(DescriptorInner::Sim(SimDescriptor { world: self.id, what: SimPassed::Memory(memory) })))
    }

    pub(crate) fn open_event(&self, place: Place, descriptor: Descriptor) -> Result<EventId, NetError> {
        let DescriptorInner::Sim(SimDescriptor { world, what }) = descriptor.0 else { panic!("a real descriptor on a simulated core") };
        assert_eq!(world, self.id, "a descriptor of another world");
        let SimPassed::Event(event) = what else { return Err(NetError::WrongDescriptor) };
        let mut s = self.state.borrow_mut();
        if s.unix.opened.values().filter(|e| e.place == place).count() >= EVENTS_MAX {
            return Err(NetError::Limit);
        }
        let id = s.number();
        s.unix.opened.insert(id, OpenEvent { place, event, wait: None });
        Ok(EventId(id))
    }

    pub(crate) fn wait_event(&self, place: Place, q: &Queue, cookie: u64, event: EventId) {
        let mut s = self.state.borrow_mut();
        let Some(opened) = s.unix.opened.get_mut(&event.0).filter(|e| e.place == place) else {
            let event = Event::Signalled { event, result: Err(NetError::Closed) };
            return s.complete_soon(place, q.clone(), cookie, event);
        };
        assert!(opened.wait.is_none(), "two waits at a time for an event");
        opened.wait = Some((q.clone(), cookie));
        let number = opened.event;
        s.report_event(number);
    }

    pub(crate) fn ring_event(&self, place: Place, event: EventId) {
        let mut s = self.state.borrow_mut();
        let Some(number) = s.unix.opened.get(&event.0).filter(|e| e.place == place).map(|e| e.event) else { return };
        let count = s.unix.counts.entry(number).or_default();
        *count = count.saturating_add(1);
        s.report_event(number);
    }

    pub(crate) fn close_event(&self, place: Place, event: EventId) {
        let mut s = self.state.borrow_mut();
        if s.unix.opened.get(&event.0).is_none_or(|e| e.place != place) {
            return;
        }
        let closed = s.unix.opened.remove(&event.0).expect("looked at above");
        if let Some((q, cookie)) = closed.wait {
            s.complete_soon(place, q, cookie, Event::Signalled { event, result: Err(NetError::Closed) });
        }
    }
}

impl WorldState {
    /// Tells one who waits for an event that it was signalled, if it was.
    fn report_event(&mut self, number: u64) {
        let count = self.unix.counts.get_mut(&number).filter(|count| **count > 0);
        let waiting = self.unix.opened.iter_mut().find(|(_, e)| e.event == number && e.wait.is_some());
        let (Some(count), Some((&id, opened))) = (count, waiting) else { return };
        let (taken, place) = (core::mem::take(count), opened.place);
        let (q, cookie) = opened.wait.take().expect("it waits");
        self.complete_soon(place, q, cookie, Event::Signalled { event: EventId(id), result: Ok(taken) });
    }

    /// Ends a waiting receive, if there is something to say.
    fn try_unix_receive(&mut self, id: u64) {
        let short = self.rng.one_in(4);
        let Some(end) = self.unix.ends.get_mut(&id) else { return };
        if end.recv.is_none() || end.unread.is_empty() && end.ended.is_none() {
            return;
        }
        let UnixRecv { q, cookie, at, mut buf } = end.recv.take().expect("looked at above");
        let (mut n, mut descriptors) = (0, Vec::new());
        let most = if short { at.len().div_ceil(2) } else { at.len() };
        while let Some(message) = end.unread.front_mut() {
            if n == most || n > 0 && !message.descriptors.is_empty() {
                break;
            }
            let with = !message.descriptors.is_empty();
            descriptors.append(&mut message.descriptors);
            let part = message.bytes.len().min(most - n);
            message.bytes.read_exact(&mut buf[at.start + n..][..part]).expect("no more than is there");
            n += part;
            if message.bytes.is_empty() {
                end.unread.pop_front();
            }
            if with {
                break;
            }
        }
        let result = match end.ended {
            Some(Err(e)) if n == 0 => Err(e),
            _ => Ok(n),
        };
        let place = end.place;
        self.complete_soon(place, q, cookie, Event::UnixReceived { conn: UnixConnId(id), result, buf, descriptors });
    }

    fn close_unix(&mut self, id: u64) {
        let Some(end) = self.unix.ends.remove(&id) else { return };
        if let Some(UnixRecv { q, cookie, buf, .. }) = end.recv {
            let event = Event::UnixReceived { conn: UnixConnId(id), result: Err(NetError::Closed), buf, descriptors: Vec::new() };
            self.complete_soon(end.place, q, cookie, event);
        }
        let at = end.last_arrival.max(self.now + self.latency(end.place.host, end.place.host));
        let event = UnixEvent::End { to: end.peer, lost: !end.unread.is_empty() };
        self.schedule(at, Place::NOWHERE, What::Unix(event));
    }

    /// Something arrives; which core is to run because of it.
    pub(crate) fn unix_event(&mut self, event: UnixEvent) -> Option<Place> {
        match event {
            UnixEvent::Connect { from, q, cookie, path } => {
                self.note(40);
                let listener = self.unix.listeners.values().find(|l| l.place.host == from.host && l.path == path);
                let Some((place, to)) = listener.map(|l| (l.place, (l.q.clone(), l.cookie))) else {
                    let result = Err(NetError::Refused);
                    self.complete(&q, cookie, Event::UnixConnected { result });
                    return Some(from);
                };
                let full = |s: &WorldState, place| s.unix.ends.values().filter(|e| e.place == place).count() >= UNIX_CONNS_MAX;
                if full(self, from) || full(self, place) {
                    let result = Err(NetError::Limit);
                    self.complete(&q, cookie, Event::UnixConnected { result });
                    return Some(from);
                }
                let (near, far) = (self.number(), self.number());
                let end = |place, peer| UnixEnd { place, peer, unread: VecDeque::new(), ended: None, recv: None, last_arrival: 0 };
                self.unix.ends.insert(near, end(from, far));
                self.unix.ends.insert(far, end(place, near));
                self.complete_soon(place, to.0, to.1, Event::UnixAccepted { conn: UnixConnId(far) });
                self.complete(&q, cookie, Event::UnixConnected { result: Ok(UnixConnId(near)) });
                Some(from)
            }
            UnixEvent::Data { from, to, place, q, cookie, list, descriptors } => {
                let bytes: VecDeque<u8> = list.slices(0).flatten().copied().collect();
                self.note(41);
                self.note(u64::from(base::crc32c(&Vec::from(bytes.clone()))) << 32 | bytes.len() as u64);
                let open = self.unix.ends.contains_key(&from);
                let result = match self.unix.ends.get_mut(&to) {
                    _ if !open => Err(NetError::Closed), // this side was closed while it was on its way; the peer has it all the same
                    None => Err(NetError::Reset),
                    Some(_) => Ok(()),
                };
                if let Some(peer) = self.unix.ends.get_mut(&to).filter(|_| !bytes.is_empty()) {
                    peer.unread.push_back(Message { bytes, descriptors });
                    self.try_unix_receive(to);
                }
                self.complete(&q, cookie, Event::UnixSent { conn: UnixConnId(from), result, list });
                Some(place)
            }
            UnixEvent::End { to, lost } => {
                self.note(42);
                let end = self.unix.ends.get_mut(&to)?;
                end.ended = Some(if lost { Err(NetError::Reset) } else { Ok(()) });
                self.try_unix_receive(to);
                None
            }
        }
    }

    /// A host is gone, and with it all ends: Unix sockets do not leave it.
    pub(crate) fn unix_forget_host(&mut self, host: usize) {
        self.unix.listeners.retain(|_, l| l.place.host != host);
        self.unix.ends.retain(|_, e| e.place.host != host);
        self.unix.opened.retain(|_, e| e.place.host != host);
    }
}

//! The connections of a core: what comes on them, what goes, and how they end.
//!
//! Invariants: see [`connection`]; on a connection whose TLS has failed nothing more is taken, and it is closed when the reason was sent.
//! Never: knows what a message does.

use super::*;
use crate::limits::{GREETING_RECEIVE_BYTES, RECEIVE_BYTES};
use connection::{Came, PLAIN_BYTES};
use object::link::Link;
use rt::SendList;
use tls::{Context, Fault, PairIdentity};

impl Peers {
    /// The link whose connection this is.
    fn link_of(&mut self, at: usize) -> Option<&mut Link> {
        match self.conns[at].purpose {
            Purpose::Member(node, class) => link_on(&mut self.members, &mut self.control, (node, class), at),
            _ => None,
        }
    }

    /// Something has happened on the connection of a link.
    fn touch_of(&mut self, at: usize) {
        if let Purpose::Member(node, class) = self.conns[at].purpose {
            self.touch(node, class);
        }
    }

    pub(super) fn on_received(&mut self, rt: &Rt, at: usize, result: Result<usize, NetError>, buf: Buf) {
        let now = rt.now();
        self.touch_of(at);
        let conn = &mut self.conns[at];
        let landed = conn.socket.received().is_some();
        let n = match result {
            Ok(n) if n > 0 && !conn.socket.is_closed() => n,
            _ => {
                self.cut(now, at);
                return self.drop_conn(rt, at);
            }
        };
        if landed {
            match self.link_of(at) {
                Some(link) => link.landed(now, buf, n),
                None => return self.drop_conn(rt, at),
            }
        } else {
            if conn.socket.is_plain() {
                self.feed(now, at, &buf[..n])
            } else {
                self.on_sealed(now, at, &buf[..n])
            }
            self.conns[at].socket.keep(buf);
        }
        let has_link = self.link_of(at).is_some();
        match &self.conns[at].purpose {
            Purpose::Greeting(_) => self.greet(rt, at),
            Purpose::Member(..) if has_link => self.read_on(rt, at),
            // What TLS has to say goes first.
            Purpose::Nothing if self.conns[at].socket.has_failed() => {}
            _ => self.drop_conn(rt, at),
        }
    }

    /// The other end is gone. Without a word it was starting or ending, or it is dead: that passes.
    fn cut(&mut self, now: Instant, at: usize) {
        let Conn { socket, addr, purpose } = &self.conns[at];
        if let Purpose::Member(node, _) = purpose
            && socket.is_beginning()
            && socket.has_heard_tls()
            && !socket.is_closed()
        {
            let why = NoLink::Unfinished { node: Some(*node), addr: *addr };
            self.report(now, &why);
        }
        if let Some(link) = self.link_of(at) {
            link.close(CloseReason::Lost);
        }
    }

    /// Bytes of the other node, as it wrote them.
    fn feed(&mut self, now: Instant, at: usize, bytes: &[u8]) {
        match &mut self.conns[at].purpose {
            Purpose::Greeting(greeting) => {
                greeting.link.receive(now, bytes);
                greeting.bytes.extend_from_slice(bytes);
            }
            Purpose::Member(..) => {
                if let Some(link) = self.link_of(at) {
                    link.receive(now, bytes);
                }
            }
            Purpose::Over(_) | Purpose::Nothing => {}
        }
    }

    /// Bytes of a connection that is not known to be plain.
    fn on_sealed(&mut self, now: Instant, at: usize, bytes: &[u8]) {
        let Peers { conns, view, own, stats, .. } = self;
        let Conn { socket, purpose, .. } = &mut conns[at];
        let mut offered = None;
        let keys = |identity: &PairIdentity| {
            offered = Some(*identity);
            own.map_or(Vec::new(), |own| view.desired.security.keys(&own, identity))
        };
        let came = socket.open(bytes, Context::shared, keys, now);
        if let Purpose::Greeting(greeting) = purpose {
            greeting.offered = offered.or(greeting.offered);
        }
        match came {
            Ok(Came::Plain) => return self.feed(now, at, bytes),
            Ok(Came::Sealed { shook }) => stats.tls_handshakes += u64::from(shook),
            Err(fault) => return self.tls_failed(now, at, fault),
        }
        let mut plain = core::mem::take(&mut self.plain);
        plain.resize(PLAIN_BYTES, 0);
        loop {
            match self.conns[at].socket.read(&mut plain) {
                Ok(Some(0)) => break,
                Ok(Some(n)) => self.feed(now, at, &plain[..n]),
                Ok(None) => {
                    self.cut(now, at);
                    break;
                }
                Err(fault) => {
                    self.tls_failed(now, at, fault);
                    break;
                }
            }
        }
        self.plain = plain;
    }

    /// It ends when the alert, if there is one, has been sent.
    fn tls_failed(&mut self, now: Instant, at: usize, fault: Fault) {
        let Conn { purpose, addr, .. } = &self.conns[at];
        let why = match (purpose, self.own) {
            (Purpose::Member(node, _), _) => NoLink::dialing(*node, *addr, fault),
            (Purpose::Greeting(greeting), Some(own)) => NoLink::accepting(own.node, own.cluster, greeting.offered, *addr, fault),
            _ => NoLink::Failed { node: None, addr: *addr, fault },
        };
        self.report(now, &why);
        match self.link_of(at) {
            Some(link) => link.close(CloseReason::Lost),
            None => drop(self.repurpose(at, Purpose::Nothing)),
        }
    }

    pub(super) fn on_sent(&mut self, rt: &Rt, at: usize, result: Result<(), NetError>, list: SendList) {
        self.touch_of(at);
        let Peers { conns, members, control, .. } = self;
        let Conn { socket, purpose, .. } = &mut conns[at];
        let list = socket.sent(list);
        match purpose {
            Purpose::Member(node, class) => {
                if let Some(link) = link_on(members, control, (*node, *class), at) {
                    if let Some(list) = list {
                        link.sent(list);
                    }
                    if result.is_err() {
                        link.close(CloseReason::Lost);
                    }
                }
            }
            Purpose::Over(link) => {
                if let Some(list) = list {
                    link.sent(list);
                }
            }
            Purpose::Greeting(greeting) => {
                if let Some(lane) = greeting.moves.filter(|_| result.is_ok()) {
                    return self.move_on(rt, at, lane);
                }
            }
            Purpose::Nothing => {}
        }
        if result.is_err() || self.conns[at].socket.is_closed() {
            self.drop_conn(rt, at);
        }
    }

    pub(super) fn read_on(&mut self, rt: &Rt, at: usize) {
        let Peers { conns, members, control, queue, .. } = self;
        let Conn { socket, purpose, .. } = &mut conns[at];
        let full = matches!(purpose, Purpose::Member(_, LinkClass::Control)) && control.as_ref().is_some_and(|c| c.is_full());
        if socket.is_receiving() || full {
            return;
        }
        let cookie = (at as u64) << KIND_BITS | RECV;
        let land = match purpose {
            Purpose::Member(node, class) if socket.is_plain() => link_on(members, control, (*node, *class), at).and_then(Link::land),
            _ => None,
        };
        match (land, purpose) {
            (Some((buf, room)), _) => socket.receive_at(rt, queue, cookie, room, buf),
            (None, Purpose::Greeting(_)) => socket.receive(rt, queue, cookie, GREETING_RECEIVE_BYTES),
            (None, _) => socket.receive(rt, queue, cookie, RECEIVE_BYTES),
        }
    }

    /// Closes a connection; it is forgotten when its operations have come back.
    pub(super) fn drop_conn(&mut self, rt: &Rt, at: usize) {
        if self.conns[at].serial().is_some() {
            self.repurpose(at, Purpose::Nothing);
        }
        // The link is looked at again; a control link only for what it had to send: its machines hear of the end when its operations come back.
        match (&self.conns[at].purpose, &mut self.control) {
            (Purpose::Member(node, LinkClass::Foreground), _) => _ = self.members.touch(*node),
            (Purpose::Member(_, LinkClass::Control), Some(control)) => control.sends = true,
            _ => {}
        }
        let conn = &mut self.conns[at];
        conn.socket.close(rt);
        if conn.is_gone() {
            let conn = self.conns.remove(at);
            self.unlinked.remove(&at);
            if let Purpose::Member(node, class) = conn.purpose
                && let Some(line) = line(&mut self.members, &mut self.control, node, class)
                && line.conn == Some(at)
            {
                line.conn = None;
            }
        }
    }

    /// Connections of whom nobody knows, and all but those of control links.
    #[cfg(test)]
    pub(crate) fn conns_open(&self) -> (usize, usize) {
        let control = |conn: &Conn| matches!(conn.purpose, Purpose::Member(_, LinkClass::Control));
        (self.unknown.len(), self.conns.iter().filter(|(_, conn)| !control(conn)).count())
    }

    /// Links that are open.
    #[cfg(test)]
    pub(crate) fn links_open(&mut self) -> usize {
        self.members.iter().filter(|m| m.is_open()).count()
    }

    /// All links end, and whoever comes: what protects them is another thing now.
    pub(super) fn end_all(&mut self, rt: &Rt) {
        self.members.nodes().into_iter().for_each(|node| self.forget(rt, node));
        let left: Vec<usize> = self.conns.iter().filter(|(_, c)| !c.socket.is_closed()).map(|(at, _)| at).collect();
        left.into_iter().for_each(|at| self.drop_conn(rt, at));
    }

    /// Sends what there is, and lets connections go that have nothing left to say.
    pub(super) fn flush(&mut self, rt: &Rt) {
        let now = rt.now();
        let mut sending = core::mem::take(&mut self.sending);
        sending.extend(&self.unlinked);
        let conns = &self.conns;
        let mut take = |line: &mut Line| {
            sending.extend(line.conn);
            let unheard = line.conn.is_none_or(|at| conns[at].socket.is_closed());
            let Some(link) = line.link().filter(|link| unheard && link.is_closed()) else { return };
            while let Some(list) = link.take_output() {
                link.sent(list);
            }
        };
        self.members.for_each_to_send(|member| {
            if let Some(stamp) = member.line.link().and_then(|link| link.stamp()) {
                member.stamps.hear(now, stamp);
            }
            take(&mut member.line);
        });
        if let Some(control) = self.control.as_mut().filter(|control| control.sends) {
            control.sends = false;
            control.lines().for_each(take);
        }
        sending.sort_unstable();
        let (mut over, mut unfinished) = (Vec::new(), Vec::new());
        for at in sending.drain(..) {
            let conn = &mut self.conns[at];
            let Conn { socket, purpose, addr } = conn;
            let cookie = (at as u64) << KIND_BITS | SEND;
            let is_over = match purpose {
                Purpose::Member(node, class) => match link_on(&mut self.members, &mut self.control, (*node, *class), at) {
                    Some(link) => {
                        if link.is_closed() && socket.is_beginning() {
                            // Nothing of it can be sent before the handshake is done, and nobody waits for that any more.
                            link.close(CloseReason::Lost);
                        }
                        while socket.send(rt, &self.queue, cookie, false, || link.take_output()) {}
                        link.is_done()
                    }
                    None => true,
                },
                Purpose::Over(link) => {
                    // That it has closed is known.
                    while link.pop_event().is_some() {}
                    while socket.send(rt, &self.queue, cookie, false, || link.take_output()) {}
                    link.is_done()
                }
                Purpose::Greeting(greeting) => {
                    while socket.send(rt, &self.queue, cookie, false, || None) {}
                    greeting.link.poll(now);
                    if greeting.link.is_closed() && socket.is_beginning() {
                        unfinished.push((greeting.offered, *addr));
                    }
                    greeting.link.is_closed()
                }
                Purpose::Nothing => {
                    while socket.send(rt, &self.queue, cookie, false, || None) {}
                    true
                }
            };
            let gives_up = matches!(conn.purpose, Purpose::Greeting(_));
            if is_over && (gives_up || conn.has_sent_all()) && !conn.socket.is_closed() {
                over.push(at);
            }
        }
        self.sending = sending;
        over.into_iter().for_each(|at| self.drop_conn(rt, at));
        for (offered, addr) in unfinished {
            let node = offered.zip(self.own).and_then(|(pair, own)| pair.peer_of(own.node));
            self.report(now, &NoLink::Unfinished { node, addr });
        }
    }
}

/// The link of a node and class, if this is its connection.
fn link_on<'a>(
    members: &'a mut Members,
    control: &'a mut Option<Box<ControlLinks>>,
    (node, class): (NodeId, LinkClass),
    at: usize,
) -> Option<&'a mut Link> {
    line(members, control, node, class).filter(|line| line.conn == Some(at)).and_then(Line::link)
}

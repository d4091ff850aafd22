//! Who comes: connections that were accepted, until it is known whose they are.
//!
//! Invariants: with TLS a link becomes a node's only if that node's key was proved on its connection; who proves nothing costs hashes; greetings are
//! bounded in number, bytes and time, and a few of them are heard in one turn.
//! Never: judges whether a node may come; its records say that.

use super::*;
use crate::conn::{Greeting, Said};
use crate::desired::LinkSecurity;
use crate::limits::{ADDRESS_GREETINGS_MAX, GREETING_BYTES_MAX, GREETING_RECEIVES_A_TURN};
use connection::Layer;
use format::peer::{Hello, LinkClass, Refusal, RefusalReason};
use object::link::{Link, Standing};
use rt::ConnId;
use tls::PairIdentity;

impl Peers {
    /// A connection came.
    pub(super) fn accepted(&mut self, rt: &Rt, id: ConnId, addr: SocketAddr) {
        if self.draining || self.own.is_none() {
            return rt.close(id);
        }
        let layer = self.view.desired.security.accepted();
        self.begin_greeting(rt, id, layer, addr, Vec::new());
    }

    /// A connection of a lane of this core, of which another has heard so much.
    pub(super) fn take_over(&mut self, rt: &Rt, moving: Moving) {
        let id = rt.attach(moving.conn);
        self.begin_greeting(rt, id, moving.layer, moving.addr, moving.bytes);
    }

    fn begin_greeting(&mut self, rt: &Rt, id: ConnId, layer: Layer<PairIdentity>, addr: SocketAddr, bytes: Vec<u8>) {
        let now = rt.now();
        let mut link = Link::accept(now, self.view.desired.security.protection());
        link.receive(now, &bytes);
        self.greetings += 1;
        let serial = self.greetings;
        let greeting = Box::new(Greeting { link, bytes, serial, offered: None, moves: None });
        let at = self.conns.insert(Conn::new(id, layer, addr, Purpose::Greeting(greeting), now));
        self.unlinked.insert(at);
        if let Some(out) = self.unknown.enter(serial, addr.ip(), ADDRESS_GREETINGS_MAX) {
            self.evict(rt, out);
        }
        self.greet(rt, at);
    }

    /// Somebody makes room.
    fn evict(&mut self, rt: &Rt, serial: u64) {
        self.stats.evicted_connections += 1;
        if let Some(at) = self.unlinked.iter().copied().find(|at| self.conns[*at].serial() == Some(serial)) {
            self.drop_conn(rt, at);
        }
    }

    /// A few receives of those whom nobody knows; the others wait for the next turns. Whether there were any.
    pub(super) fn hear_greetings(&mut self, rt: &Rt) -> bool {
        let any = !self.unheard.is_empty();
        for _ in 0..GREETING_RECEIVES_A_TURN {
            let Some((at, result, buf)) = self.unheard.pop_front() else { break };
            self.on_received(rt, at, result, buf);
        }
        any
    }

    /// What has come of a greeting.
    pub(super) fn greet(&mut self, rt: &Rt, at: usize) {
        let Conn { purpose: Purpose::Greeting(greeting), addr, .. } = &mut self.conns[at] else { return };
        match greeting.link.pop_event() {
            Some(LinkEvent::Greeted(hello, session)) => self.greeted(rt, at, (hello, session)),
            None if greeting.bytes.len() <= GREETING_BYTES_MAX => self.read_on(rt, at),
            Some(_) | None => {
                let addr = *addr;
                self.report(rt.now(), &NoLink::NoNode { addr });
                self.drop_conn(rt, at);
            }
        }
    }

    fn greeted(&mut self, rt: &Rt, at: usize, said: Said) {
        let hello = said.0;
        if let Err((reason, why)) = self.trust(at, &hello) {
            if let Some(why) = why {
                self.report(rt.now(), &why);
            }
            return self.refuse(at, reason);
        }
        // Control links are the first core's.
        let lane = if hello.class == LinkClass::Control { 0 } else { usize::from(hello.lane) % self.cores };
        if lane == self.core { self.welcome(rt, at, said) } else { self.move_on(rt, at, lane) }
    }

    /// Whether who says Hello has proved to be that; else what it hears, and what the log says.
    fn trust(&self, at: usize, hello: &Hello) -> Result<(), (RefusalReason, Option<NoLink>)> {
        let Conn { socket, addr, .. } = &self.conns[at];
        let (node, addr) = (hello.from, *addr);
        let proved = socket.identity().zip(self.own).and_then(|(pair, own)| pair.peer_of(own.node));
        match (&self.view.desired.security, proved) {
            (LinkSecurity::Plain, None) => Ok(()),
            (LinkSecurity::Tls(_), Some(proved)) if proved == node => Ok(()),
            (LinkSecurity::Tls(_), None) => Err((RefusalReason::TlsOnly, Some(NoLink::PlainFrom { node, addr }))),
            (LinkSecurity::Tls(_), Some(proved)) => Err((RefusalReason::UnknownNode, Some(NoLink::OtherName { proved, said: node, addr }))),
            // It came before links became plain.
            (LinkSecurity::Plain, Some(_)) => Err((RefusalReason::NotNow, None)),
        }
    }

    /// It is of a lane that another core has. It goes there when what was sent on it has come back.
    pub(super) fn move_on(&mut self, rt: &Rt, at: usize, lane: usize) {
        if let Conn { socket, purpose: Purpose::Greeting(greeting), .. } = &mut self.conns[at]
            && socket.is_sending()
        {
            greeting.moves = Some(lane);
            return;
        }
        let Purpose::Greeting(greeting) = self.repurpose(at, Purpose::Nothing) else { unreachable!("it has greeted") };
        let Conn { socket, addr, .. } = self.conns.remove(at);
        self.unlinked.remove(&at);
        let (conn, layer) = socket.detach(rt);
        self.msgs.push_back((lane, PeersMsg::Accepted(Box::new(Moving { conn, layer, addr, bytes: greeting.bytes }))));
    }

    fn welcome(&mut self, rt: &Rt, at: usize, (hello, session): Said) {
        let Purpose::Greeting(greeting) = self.repurpose(at, Purpose::Nothing) else { unreachable!("it has greeted") };
        let mut link = greeting.link;
        let removed = self.view.desired.nodes.iter().any(|n| n.node == hello.from && n.removed);
        self.touch(hello.from, hello.class);
        let admitted = match line(&mut self.members, &mut self.control, hello.from, hello.class).filter(|_| !self.draining) {
            Some(line) => line.peer.admit(link, &hello, session, Standing::Member, rt.now()).map(drop),
            None => {
                let reason = match (self.draining || self.own.is_none(), removed) {
                    (true, _) => RefusalReason::NotNow,
                    (false, true) => RefusalReason::RemovedNode,
                    (false, false) => RefusalReason::UnknownNode,
                };
                link.refuse(Refusal { reason, detail: 0 });
                Err(Box::new(link))
            }
        };
        match admitted {
            Ok(()) => {
                self.repurpose(at, Purpose::Member(hello.from, hello.class));
                self.take_conn(rt, hello.from, hello.class, at);
            }
            Err(link) => drop(self.repurpose(at, Purpose::Over(link))),
        }
    }

    fn refuse(&mut self, at: usize, reason: RefusalReason) {
        let Purpose::Greeting(mut greeting) = self.repurpose(at, Purpose::Nothing) else { unreachable!("it has greeted") };
        greeting.link.refuse(Refusal { reason, detail: 0 });
        self.repurpose(at, Purpose::Over(Box::new(greeting.link)));
    }

    /// What a connection is for from now on; what it was for.
    pub(super) fn repurpose(&mut self, at: usize, purpose: Purpose) -> Purpose {
        let conn = &mut self.conns[at];
        if let Some(serial) = conn.serial() {
            self.unknown.leave(serial);
        }
        match purpose {
            Purpose::Member(..) => self.unlinked.remove(&at),
            _ => self.unlinked.insert(at),
        };
        core::mem::replace(&mut conn.purpose, purpose)
    }

    /// A connection does not become a link, and somebody has to do something.
    pub(super) fn report(&mut self, now: Instant, why: &NoLink) {
        self.stats.refused_connections += 1;
        #[cfg(test)]
        self.reported.push(why.clone());
        if self.refusals.reports(now) {
            tracing::warn!("no link between nodes: {why}");
        }
    }

    /// A link has closed for this reason: says what is to be done about it, if it never came to be.
    pub(super) fn explain(&mut self, now: Instant, node: NodeId, class: LinkClass, reason: CloseReason) {
        let line = line(&mut self.members, &mut self.control, node, class);
        let Some(conn) = line.and_then(|line| line.conn).map(|at| &self.conns[at]) else { return };
        let addr = conn.addr;
        match reason {
            CloseReason::Refused(Refusal { reason: RefusalReason::TlsOnly, .. }) => self.report(now, &NoLink::TlsThere { node, addr }),
            CloseReason::NoGreeting if conn.socket.is_beginning() => {
                self.report(now, &NoLink::Unfinished { node: Some(node), addr });
            }
            _ => {}
        }
    }
}

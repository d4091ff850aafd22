//! How safe a connection has to be and is; connections over TLS: what comes in, what is refused, what is noted.
//!
//! Invariants: a queue that is less safe than its subsystem and its listener want runs nothing; whoever proves no key gets no further than a ClientHello; what a connection proved must fit what its Connect command says;
//! a failure ends the connection, with the alert that TLS wants where there is one.
//! Never: sees a key.

use super::*;
use crate::limits::AUDIT_REFUSALS_A_TICK;
use base::Security;
use connection::Came;
use frontend::AuditKind;
use tls::Fault;

/// What a queue of this subsystem that came through this listener must at least have. Discovery asks nobody: what a listener for TLS wants of
/// it, the layer below has seen to.
fn wanted(view: &View, door: Door, subsystem: &str) -> Security {
    if subsystem == DISCOVERY_NQN {
        return Security::Plain;
    }
    view.subsystem(subsystem).map_or(Security::Plain, |s| s.security).max(door.security)
}

/// What a connection has proved so far.
fn has(conn: &Conn) -> Security {
    match conn.admitting.auth() {
        _ if conn.socket.identity().is_some() => Security::Encrypted,
        Some(machine) if machine.is_authenticated() => Security::Authenticated,
        _ => Security::Plain,
    }
}

impl Target {
    /// Whether a connection may become the queue that it asks to be, as things stand now; and whether it must authenticate then.
    pub(super) fn judge(&self, place: usize, connect: &ConnectRequest) -> Result<bool, Refusal> {
        let conn = &self.conns[place];
        admission::admit(connect, &self.view, conn.admitting.door().kind, self.draining)?;
        let (wanted, proved) = (wanted(&self.view, conn.admitting.door(), &connect.subsystem), conn.socket.identity());
        admission::admit_secured(connect, wanted, proved)?;
        authenticate::must_authenticate(connect, &self.view, wanted, proved.is_some())
    }

    /// Bytes of a connection that is not known to be plain.
    pub(super) fn on_sealed(&mut self, rt: &Rt, place: usize, bytes: &[u8]) {
        let (view, shared) = (Arc::clone(&self.view), Arc::clone(&self.shared));
        let conn = &mut self.conns[place];
        match conn.socket.open(bytes, || shared.tls(), |identity| view.tls_keys(identity), rt.now()) {
            Ok(Came::Plain) => conn.session.receive(&mut cx!(self, rt), bytes),
            Ok(Came::Sealed { shook }) => {
                if shook {
                    self.note_handshake(place);
                }
                self.read_sealed(rt, place);
            }
            Err(fault) => self.tls_failed(rt, place, &fault),
        }
    }

    fn read_sealed(&mut self, rt: &Rt, place: usize) {
        let mut plain = core::mem::take(&mut self.plain);
        plain.resize(connection::PLAIN_BYTES, 0);
        loop {
            let conn = &mut self.conns[place];
            match conn.socket.read(&mut plain) {
                Ok(Some(0)) => break,
                Ok(Some(n)) => conn.session.receive(&mut cx!(self, rt), &plain[..n]),
                Ok(None) => {
                    conn.session.drain();
                    conn.enter(ConnStep::Finish);
                    break;
                }
                Err(fault) => {
                    self.tls_failed(rt, place, &fault);
                    break;
                }
            }
        }
        self.plain = plain;
    }

    /// It ends when the alert, if there is one, has been sent.
    fn tls_failed(&mut self, rt: &Rt, place: usize, fault: &Fault) {
        self.stats.tls_failures += 1;
        self.refusals += 1;
        let conn = &mut self.conns[place];
        if self.refusal_log.reports(rt.now()) {
            let (host, subsystem) = names(conn);
            tracing::warn!(peer = %conn.peer, host, subsystem, "TLS failed: {fault}");
        }
        let attached = conn.is_attached();
        conn.session.end();
        conn.enter(ConnStep::Linger { until: rt.now() + LINGER_MAX, when_sent: true });
        if self.refusals <= AUDIT_REFUSALS_A_TICK {
            let (host_nqn, subsystem) = names(conn);
            let (kind, peer) = (AuditKind::AuthenticationFailed, Some(conn.peer));
            self.audit.push(AuditEvent { kind, peer, host: host_nqn, export: subsystem, session: None, detail: fault.to_string() });
        }
        if attached {
            self.give_up_queue(rt, place, "TLS failed");
        }
    }

    fn note_handshake(&mut self, place: usize) {
        self.stats.tls_handshakes += 1;
        let conn = &self.conns[place];
        let (host_nqn, subsystem) = names(conn);
        tracing::debug!(peer = %conn.peer, host = %host_nqn, %subsystem, "TLS handshake done");
    }

    /// A new view may ask for more than a queue has: such queues end. One that is about to authenticate may go on where that is enough.
    pub(super) fn end_insecure(&mut self, rt: &Rt) {
        let short = |c: &Conn| {
            let of = c.session.controller().filter(|_| !c.is_closed())?;
            let wanted = wanted(&self.view, c.admitting.door(), &of.subsystem);
            let will_do = c.session.must_authenticate() && wanted == Security::Authenticated;
            (has(c) < wanted && !will_do).then_some(wanted)
        };
        let short: Vec<(usize, Security)> = self.conns.iter().filter_map(|(place, c)| Some((place, short(c)?))).collect();
        for (place, wanted) in short {
            if self.conns.contains(place) {
                let why = if wanted == Security::Encrypted { "TLS is asked for now" } else { "authentication is asked for now" };
                self.close(rt, place, why);
            }
        }
    }
}

/// NQNs of the host and the subsystem, as far as they are known.
fn names(conn: &Conn) -> (String, String) {
    match (conn.session.controller(), conn.socket.identity()) {
        (Some(c), _) => (c.host_nqn.clone(), c.subsystem.clone()),
        (None, Some(i)) => (i.host_nqn.clone(), i.subsystem_nqn.clone()),
        (None, None) => Default::default(),
    }
}

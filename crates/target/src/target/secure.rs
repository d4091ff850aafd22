//! Connections over TLS: what comes in, what is refused, what is noted.
//!
//! Invariants: whoever proves no key gets no further than a ClientHello; what a connection proved must fit what its Connect command says;
//! a failure ends the connection, with the alert that TLS wants where there is one.
//! Never: sees a key.

use super::*;
use crate::audit::AuditKind;
use crate::limits::AUDIT_REFUSALS_A_TICK;
use crate::secure::Came;
use base::Security;
use tls::Fault;

impl Target {
    /// Bytes of a connection that is not known to be plain.
    pub(super) fn on_sealed(&mut self, rt: &Rt, place: usize, bytes: &[u8]) {
        let (view, shared) = (Arc::clone(&self.view), Arc::clone(&self.shared));
        let conn = &mut self.conns[place];
        match conn.layer.receive(bytes, || shared.tls(), |identity| view.tls_keys(identity)) {
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
        plain.resize(crate::secure::PLAIN_BYTES, 0);
        loop {
            let conn = &mut self.conns[place];
            match conn.layer.read(&mut plain) {
                Ok(Some(0)) => break,
                Ok(Some(n)) => conn.session.receive(&mut cx!(self, rt), &plain[..n]),
                Ok(None) => {
                    conn.session.drain();
                    conn.close_when_sent = true;
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
        tracing::debug!(peer = %conn.peer, %fault, "TLS failed");
        conn.session.end();
        conn.close_when_sent = true;
        conn.close_at = Some(rt.now() + LINGER_MAX);
        if self.refusals <= AUDIT_REFUSALS_A_TICK {
            let (host_nqn, subsystem) = names(conn);
            let (kind, peer) = (AuditKind::AuthenticationFailed, Some(conn.peer));
            self.audit.push(AuditEvent { kind, peer, host_nqn, subsystem, cntlid: None, detail: fault.to_string() });
        }
        self.part(rt, place, "TLS failed");
    }

    fn note_handshake(&mut self, place: usize) {
        self.stats.tls_handshakes += 1;
        let conn = &self.conns[place];
        let (host_nqn, subsystem) = names(conn);
        tracing::debug!(peer = %conn.peer, host = %host_nqn, %subsystem, "TLS handshake done");
    }

    /// Ends the connections that a new view wants encrypted and that are not.
    pub(super) fn end_unencrypted(&mut self, rt: &Rt) {
        let short = |c: &Conn| {
            let of = c.session.controller().filter(|x| !x.discovery && !c.closed && c.layer.identity().is_none());
            of.and_then(|x| self.view.subsystem(&x.subsystem)).is_some_and(|s| s.security == Security::Encrypted)
        };
        let short: Vec<usize> = self.conns.iter().filter_map(|(place, c)| short(c).then_some(place)).collect();
        for place in short {
            if self.conns.contains(place) {
                self.close(rt, place, "the subsystem asks for TLS now");
            }
        }
    }
}

/// NQNs of the host and the subsystem, as far as they are known.
fn names(conn: &Conn) -> (String, String) {
    match (conn.session.controller(), conn.layer.identity()) {
        (Some(c), _) => (c.host_nqn.clone(), c.subsystem.clone()),
        (None, Some(i)) => (i.host_nqn.clone(), i.subsystem_nqn.clone()),
        (None, None) => Default::default(),
    }
}

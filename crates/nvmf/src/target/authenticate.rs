//! In-band authentication of queues: who has to, what comes in and goes out, and the work that is done elsewhere.
//!
//! A modular exponentiation takes up to tens of milliseconds, and on this core every other host would wait for it. So it leaves as a [`Work`]
//! ([`Target::pop_work`]) and comes back done ([`Target::on_work_done`]); the Authentication Send command waits in its slot meanwhile.
//!
//! Invariants: a queue that has to authenticate runs nothing else before it has; a failure ends the queue; a flood of unauthenticated peers makes
//! no heap of work ([`AuthenticationWorks`] bounds what is away, and what waits vanishes with its connection).
//! Never: logs, counts or tells anything of a secret.

use super::*;
use ::auth::{AuthCx, ControllerAuth, Outcome, Received, Sent, Work, WorkDone};
use format::nvme::auth::{AuthCommand, MESSAGE_BYTES_MAX};
use format::nvme::{FabricsType, Sqe};
use frontend::AuditKind;

/// Bytes of an answer to Authentication Receive, at most: what is beyond the message is zero.
const ANSWER_BYTES_MAX: usize = 4096;
const _: () = assert!(MESSAGE_BYTES_MAX <= ANSWER_BYTES_MAX);

/// Whether a queue has to authenticate before anything else. A host that has a secret always has to, except for discovery, which asks nobody;
/// where authentication is `wanted`, hosts that have none are refused.
pub(super) fn must_authenticate(connect: &ConnectRequest, view: &View, wanted: Security, encrypted: bool) -> Result<bool, Refusal> {
    if connect.subsystem == DISCOVERY_NQN {
        return Ok(false);
    }
    if view.hosts.get(&connect.host_nqn).is_some_and(|h| h.credentials.is_some()) {
        return Ok(true);
    }
    match wanted {
        // The key of the TLS connection has proved the host.
        Security::Authenticated if !encrypted => {
            Err(connect_request::not_allowed("authentication is asked for, and the host has no secret"))
        }
        _ => Ok(false),
    }
}

impl Target {
    /// A queue was connected, and its host `must` authenticate on it now or not. Until it has it remains unauthenticated: anybody can name its NQN.
    pub(super) fn begin_authentication(&mut self, rt: &Rt, connect: &ConnectRequest, place: usize, must: bool) {
        let conn = &mut self.conns[place];
        if connect.subsystem != DISCOVERY_NQN {
            conn.admitting.authenticate_with(ControllerAuth::new(&connect.host_nqn, &connect.subsystem, rt.now(), must));
            conn.session.set_unauthenticated(must);
        }
        if !must {
            self.unauthenticated.leave(conn.token);
        }
    }

    /// Carries out an Authentication Send or Receive.
    pub(super) fn on_authentication(&mut self, rt: &Rt, place: usize, slot: u16, sqe: &Sqe) {
        let command = AuthCommand::of(sqe);
        let conn = &mut self.conns[place];
        let code = match conn.admitting.auth() {
            None => StatusCode::INVALID_OPCODE, // A discovery controller.
            _ if !command.is_nvme() || command.bytes == 0 => StatusCode::INVALID_FIELD,
            _ if command.bytes != sqe.sgl.len() => StatusCode::DATA_SGL_LENGTH_INVALID,
            _ if sqe.fctype() == FabricsType::AuthenticationSend.byte() => return self.on_message(rt, place, slot),
            _ => return self.on_fetch(rt, place, slot, command.bytes as usize),
        };
        conn.session.complete(&mut cx!(self, rt), slot, Status::dnr(code), 0);
    }

    /// A message of the host.
    fn on_message(&mut self, rt: &Rt, place: usize, slot: u16) {
        let conn = &mut self.conns[place];
        let (Some(machine), Some(c)) = (conn.admitting.auth_mut(), conn.session.controller()) else { return };
        let credentials = self.view.hosts.get(&c.host_nqn).and_then(|h| h.credentials.as_deref());
        let mut random = |out: &mut [u8]| rt.random_secret(out);
        let sent = machine.send(&mut AuthCx { now: rt.now(), credentials, random: &mut random }, conn.session.data(slot));
        let outcome = match sent {
            Sent::Work(work) => {
                let token = conn.token;
                self.works.push(token, slot, work);
                return rt.wake(self.core);
            }
            Sent::Early => {
                conn.session.complete(&mut cx!(self, rt), slot, Status::dnr(StatusCode::COMMAND_SEQUENCE_ERROR), 0);
                return;
            }
            Sent::Accepted(outcome) => outcome,
        };
        conn.session.complete(&mut cx!(self, rt), slot, Status::SUCCESS, 0);
        self.on_outcome(rt, place, outcome);
    }

    /// The host asks for the next message.
    fn on_fetch(&mut self, rt: &Rt, place: usize, slot: u16, room: usize) {
        let conn = &mut self.conns[place];
        let Some(machine) = conn.admitting.auth_mut() else { return };
        match machine.receive(room) {
            Received::Message(message, outcome) => {
                let mut buf = Buf::zeroed(room.min(ANSWER_BYTES_MAX));
                buf[..message.len()].copy_from_slice(&message);
                conn.session.complete_with(&mut cx!(self, rt), slot, buf);
                self.on_outcome(rt, place, outcome);
            }
            Received::TooShort => conn.session.complete(&mut cx!(self, rt), slot, Status::dnr(StatusCode::INVALID_FIELD), 0),
            Received::Nothing => conn.session.complete(&mut cx!(self, rt), slot, Status::dnr(StatusCode::COMMAND_SEQUENCE_ERROR), 0),
        }
    }

    /// The next piece of work to be done elsewhere, if there are not enough away already.
    pub fn pop_work(&mut self) -> Option<(WorkId, Work)> {
        self.works.pop(self.core)
    }

    /// A piece of work is done. Nothing happens when its connection is gone.
    pub fn on_work_done(&mut self, rt: &Rt, id: WorkId, done: WorkDone) {
        self.works.came_back();
        if let Some(conn) = self.conns.by_token_mut(id.token).filter(|c| !c.is_closed())
            && let (Some(machine), Some(c)) = (conn.admitting.auth_mut(), conn.session.controller())
        {
            let credentials = self.view.hosts.get(&c.host_nqn).and_then(|h| h.credentials.as_deref());
            let mut random = |out: &mut [u8]| rt.random_secret(out);
            machine.done(&mut AuthCx { now: rt.now(), credentials, random: &mut random }, done);
            conn.session.complete(&mut cx!(self, rt), id.slot, Status::SUCCESS, 0);
            self.conns.mark(place_of(id.token));
        }
        rt.wake(self.core);
    }

    fn on_outcome(&mut self, rt: &Rt, place: usize, outcome: Option<Outcome>) {
        let conn = &mut self.conns[place];
        match outcome {
            None => {}
            Some(Outcome::Authenticated { hash, group, mutual }) => {
                self.stats.authentications += 1;
                if !conn.session.has_place() && !self.take_place(rt, place) {
                    return;
                }
                let conn = &mut self.conns[place];
                conn.session.set_unauthenticated(false);
                self.unauthenticated.leave(conn.token);
                // Each queue authenticates; the admin queue's is reported.
                if matches!(conn.session.kind(), Some(QueueKind::Admin(_))) {
                    let both = if mutual { ", both sides" } else { "" };
                    self.audit_authentication(rt, place, AuditKind::Authenticated, format!("{} {}{both}", hash.name(), group.name()));
                }
            }
            Some(Outcome::Failed(reason)) => self.give_up(rt, place, reason.text().to_owned()),
            Some(Outcome::Refused(code)) => self.give_up(rt, place, format!("the host refused the controller, code {code}")),
        }
    }

    /// Whom a queue is of is known now, so it counts among that host's; it ends when the host has as many as it may.
    fn take_place(&mut self, rt: &Rt, place: usize) -> bool {
        let conn = &mut self.conns[place];
        let Some(of) = conn.session.controller().cloned() else { return false };
        let (kept, is_admin) = (conn.admitting.take_kept(), matches!(conn.session.kind(), Some(QueueKind::Admin(_))));
        let quota = match (kept, is_admin) {
            (None, true) => self.count_controller(&of.host_nqn).map(|(quota, reserve)| {
                let limits = self.limits_of(&of.host_nqn);
                if let Some(c) = self.controllers.get_mut(&of.cntlid) {
                    c.set_reserve(reserve, limits, rt.now());
                }
                quota
            }),
            (None, false) => self.count_queue(&of.host_nqn),
            (kept, _) => kept,
        };
        let taken = quota.is_some();
        self.conns[place].session.set_place(quota);
        if !taken {
            self.stats.connections_refused += 1;
            self.end_queue(rt, place, AuditKind::Refused, connect_request::too_many_connections().why.into());
        }
        taken
    }

    /// Authentication failed.
    fn give_up(&mut self, rt: &Rt, place: usize, why: String) {
        self.stats.authentication_failures += 1;
        self.end_queue(rt, place, AuditKind::AuthenticationFailed, why);
    }

    /// A queue ends when what was answered has been sent, and runs nothing more.
    fn end_queue(&mut self, rt: &Rt, place: usize, kind: AuditKind, why: String) {
        let conn = &mut self.conns[place];
        conn.session.set_unauthenticated(true);
        conn.session.drain();
        conn.enter(ConnStep::Finish);
        self.audit_authentication(rt, place, kind, why);
    }

    fn audit_authentication(&mut self, rt: &Rt, place: usize, kind: AuditKind, detail: String) {
        let conn = &self.conns[place];
        let Some(c) = conn.session.controller() else { return };
        if kind == AuditKind::Authenticated {
            tracing::debug!(cntlid = c.cntlid, host = %c.host_nqn, peer = %conn.peer, %detail, "{}", kind.name());
        } else if self.refusal_log.reports(rt.now()) {
            tracing::warn!(peer = %conn.peer, host = %c.host_nqn, subsystem = %c.subsystem, "{}: {detail}", kind.name());
        }
        self.audit.push(AuditEvent {
            kind,
            peer: Some(conn.peer),
            host: c.host_nqn.clone(),
            export: c.subsystem.clone(),
            session: Some(c.cntlid),
            detail,
        });
    }

    /// Ends the queues whose authentication took too long.
    pub(super) fn authentication_deadlines(&mut self, rt: &Rt) {
        let now = rt.now();
        let late = |c: &mut Conn| !c.is_closed() && c.admitting.auth_mut().is_some_and(|m| m.on_time(now).is_err());
        let late: Vec<usize> = self.conns.iter_mut().filter_map(|(place, c)| late(c).then_some(place)).collect();
        for place in late {
            self.stats.timeouts += 1;
            self.stats.authentication_failures += 1;
            self.audit_authentication(rt, place, AuditKind::AuthenticationFailed, "it took too long".into());
            if self.conns.contains(place) {
                self.close(rt, place, "authentication took too long");
            }
        }
    }
}

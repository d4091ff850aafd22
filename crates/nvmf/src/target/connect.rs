//! Connect commands as they are carried out: refusals, new controllers, I/O queues that join one on another core.
//!
//! ```text
//!  Connect ─► read, admit, quota ─┬─ admin ─► an ID ─► Controller ───────────────► admitted
//!                                 └─ I/O ─► Connect to its home ─┬─ ok ─► Admitted ─► admitted
//!                                                                ├─ no ─► Admitted ─► refused
//!                                                                └─ ID in use ─► waits ─┬─ QueueGone ─► tried again
//!                                                                                       └─ too long ─► refused
//! ```
//!
//! Invariant: a Connect is answered once, or its connection is gone.
//! Never: judges a connect; [`crate::admission`] does.

use super::*;
use crate::admission::NotTaken;
use crate::limits::{ADDRESS_DISCOVERY_CONTROLLERS_MAX, AUDIT_REFUSALS_A_TICK, DISCOVERY_CONTROLLERS_MAX, QUEUE_WAIT_MAX, QUEUE_WAITS_MAX};
use connection::network;
use frontend::AuditKind;
use frontend::{HostLimits, Place, Reserve};

impl Target {
    pub(super) fn on_connect(&mut self, rt: &Rt, place: usize, slot: u16) {
        // It may have ended meanwhile: the host has sent a termination request behind the command.
        let Some(conn) = self.conns.get(place).filter(|c| c.session.is_connecting()) else { return };
        let token = conn.token;
        let Some(sqe) = conn.session.sqe(slot) else { return };
        let connect = match ConnectRequest::read(sqe, conn.session.data(slot)) {
            Ok(connect) => connect,
            Err(refusal) => return self.refuse(rt, place, slot, None, refusal),
        };
        let must = match self.judge(place, &connect) {
            Ok(must) => must,
            Err(refusal) => return self.refuse(rt, place, slot, Some(&connect), refusal),
        };
        if connect.connect.qid > 0 {
            let Some(home) = self.shared.home(connect.cntlid, self.cores) else {
                return self.refuse(rt, place, slot, Some(&connect), connect_request::wrong_cntlid());
            };
            let at = QueueAt { core: self.core, token };
            return self.post(rt, home, Msg::Connect { connect: Box::new(connect), at, slot });
        }
        match self.new_controller(rt, place, &connect, must) {
            Ok((shared, quota)) => self.admitted(rt, &connect, place, slot, QueueKind::Admin(shared), (quota, must)),
            Err(refusal) => self.refuse(rt, place, slot, Some(&connect), refusal),
        }
    }

    /// What a host may take.
    pub(super) fn limits_of(&self, host_nqn: &str) -> HostLimits {
        self.view.limits_of(host_nqn, self.shared.options())
    }

    /// Whether a queue counts among the connections of its host now. Whoever asks discovery, or has still to authenticate, may name any host.
    fn counts_at_connect(connect: &ConnectRequest, must: bool) -> bool {
        !must && connect.subsystem != DISCOVERY_NQN
    }

    /// Places in the quota of a host for an admin queue and the first I/O queue of its controller.
    pub(super) fn count_controller(&self, host_nqn: &str) -> Option<(Place, Reserve)> {
        self.shared.quotas().enter_session(host_nqn, self.limits_of(host_nqn))
    }

    /// A place in the quota of a host for an I/O queue for which none was kept.
    pub(super) fn count_queue(&self, host_nqn: &str) -> Option<Place> {
        self.shared.quotas().enter(host_nqn, self.limits_of(host_nqn))
    }

    fn room_for_discovery(&self, peer: SocketAddr) -> bool {
        let peers = || self.controllers.values().filter(|c| c.shared.discovery).map(|c| network(c.peer.ip()));
        let of = network(peer.ip());
        peers().count() < DISCOVERY_CONTROLLERS_MAX && peers().filter(|p| *p == of).count() < ADDRESS_DISCOVERY_CONTROLLERS_MAX
    }

    fn free_cntlid(&mut self, discovery: bool) -> Result<u16, Refusal> {
        let ids = self.shared.options().controller_ids;
        let (ids, last) = if discovery { (ids.for_discovery(), &mut self.last_discovery_cntlid) } else { (ids, &mut self.last_cntlid) };
        admission::free_cntlid(&self.controllers, &ids, last, self.core, self.cores)
    }

    /// The oldest controller whose host has still to authenticate makes room: anybody can make one. `None`: there is none.
    fn evict_claimed(&mut self, rt: &Rt) -> Option<()> {
        let has_one = |token: &u64| self.conns.by_token(*token).is_some_and(|c| matches!(c.session.kind(), Some(QueueKind::Admin(_))));
        let token = self.unauthenticated.tokens().find(has_one)?;
        self.evict(rt, Some(token));
        Some(())
    }

    fn new_controller(
        &mut self,
        rt: &Rt,
        place: usize,
        connect: &ConnectRequest,
        must: bool,
    ) -> Result<(Arc<ControllerShared>, Option<Place>), Refusal> {
        let (token, peer) = (self.conns[place].token, self.conns[place].peer);
        let discovery = connect.subsystem == DISCOVERY_NQN;
        if discovery && !self.room_for_discovery(peer) {
            return Err(connect_request::busy("there are as many discovery controllers as there may be"));
        }
        let counted = match Self::counts_at_connect(connect, must) {
            true => Some(self.count_controller(&connect.host_nqn).ok_or_else(connect_request::too_many_connections)?),
            false => None,
        };
        let cntlid = if connect.cntlid == CNTLID_DYNAMIC {
            self.free_cntlid(discovery).or_else(|busy| {
                self.evict_claimed(rt).ok_or(busy)?;
                self.free_cntlid(discovery)
            })?
        } else {
            self.shared.statics().take(connect, self.core)?
        };
        self.controller_serial += 1;
        let mut shared =
            ControllerShared::new(cntlid, self.controller_serial, &connect.subsystem, &connect.host_nqn, connect.host_id, discovery);
        shared.home = self.core;
        shared.reached = rt.local_ip(self.conns[place].socket.id());
        let shared = Arc::new(shared.with_figures(self.shared.figures_of(&connect.subsystem)));
        let known = self.view.subsystem(&connect.subsystem).map_or(Vec::new(), |s| self.view.namespaces(s, &connect.host_nqn));
        let mut c = Controller::new(Arc::clone(&shared), token, peer, rt.now(), connect.connect.kato_ms, known);
        if discovery {
            c.discovery_is(discovery::entries(&c.shared, &self.view, &self.shared).sum);
        }
        if !discovery {
            self.shared.register_controller(&shared);
        }
        c.reservations_are(&self.view);
        let quota = counted.map(|(place, reserve)| {
            c.set_reserve(reserve, self.limits_of(&connect.host_nqn), rt.now());
            place
        });
        self.controllers.insert(cntlid, c);
        self.stats.controllers += 1;
        self.conns[place].admitting.lighten();
        self.shared.lighten(self.core);
        tracing::debug!(cntlid, host = %connect.host_nqn, subsystem = %connect.subsystem, %peer, "controller connected");
        if !discovery {
            self.note(AuditKind::Connected, place, Some(connect), Some(cntlid), String::new());
        }
        Ok((shared, quota))
    }

    /// At the home of a controller: a connection wants to be one of its queues.
    pub(super) fn on_connect_request(&mut self, rt: &Rt, connect: Box<ConnectRequest>, at: QueueAt, slot: u16, until: Option<Instant>) {
        let result = match admission::add_io_queue(&mut self.controllers, &connect, at) {
            Ok(shared) => Ok((shared, self.controllers.get_mut(&connect.cntlid).and_then(|c| c.take_place(rt.now())))),
            Err(NotTaken::Refused(refusal)) => Err(refusal),
            Err(NotTaken::InUse) => {
                let now = rt.now();
                let until = until.unwrap_or(now + QUEUE_WAIT_MAX);
                if now < until && self.waiting_connects.len() < QUEUE_WAITS_MAX {
                    self.stats.waited_for_queues += 1;
                    return self.waiting_connects.push(WaitingConnect { connect, at, slot, until });
                }
                Err(connect_request::queue_in_use())
            }
        };
        self.post(rt, at.core, Msg::Admitted { connect, token: at.token, slot, result });
    }

    /// Something changed for those who wait: they are tried again, in their order; those who waited too long are answered.
    pub(super) fn retry_connects(&mut self, rt: &Rt) {
        for w in core::mem::take(&mut self.waiting_connects) {
            self.on_connect_request(rt, w.connect, w.at, w.slot, Some(w.until));
        }
    }

    pub(super) fn on_admitted(&mut self, rt: &Rt, connect: &ConnectRequest, token: u64, slot: u16, result: Admitted) {
        let place = place_of(token);
        let at = QueueAt { core: self.core, token };
        let there = self.conns.by_token(token).is_some_and(|c| !c.is_closed() && c.session.is_connecting());
        let (c, kept) = match result {
            Ok(joined) => joined,
            Err(refusal) if there => return self.refuse(rt, place, slot, Some(connect), refusal),
            Err(_) => return,
        };
        let (home, gone) = (c.home, Msg::QueueGone { cntlid: c.cntlid, serial: c.serial, qid: connect.connect.qid, at });
        if !there {
            return self.post(rt, home, gone);
        }
        // It was judged when it asked; what is served may have changed since.
        let taken = self.judge(place, connect).and_then(|must| {
            let quota = match kept {
                None if Self::counts_at_connect(connect, must) => {
                    Some(self.count_queue(&connect.host_nqn).ok_or_else(connect_request::too_many_connections)?)
                }
                kept => kept,
            };
            Ok((quota, must))
        });
        match taken {
            Ok(taken) => self.admitted(rt, connect, place, slot, QueueKind::io(c, connect.connect.qid), taken),
            Err(refusal) => {
                self.post(rt, home, gone);
                self.refuse(rt, place, slot, Some(connect), refusal);
            }
        }
    }

    fn admitted(
        &mut self,
        rt: &Rt,
        connect: &ConnectRequest,
        place: usize,
        slot: u16,
        mut kind: QueueKind,
        (quota, must): (Option<Place>, bool),
    ) {
        if connect.connect.qid != 0 {
            kind.count_with(self.stats.hosts.queue_begins(&connect.host_nqn));
        }
        let authreq = if must { AUTHREQ_ATR } else { 0 };
        let cntlid = kind.controller().cntlid;
        self.conns[place].session.admit(kind, connect.entries(), connect.flow_control());
        self.begin_authentication(rt, connect, place, must);
        let conn = &mut self.conns[place];
        // What a host that has still to prove who it is holds in memory does not count as the host's.
        if must {
            conn.admitting.keep(quota)
        } else {
            conn.session.set_place(quota)
        }
        conn.session.complete(&mut cx!(self, rt), slot, Status::SUCCESS, connect_result(cntlid, authreq));
        self.conns.mark(place);
    }

    fn refuse(&mut self, rt: &Rt, place: usize, slot: u16, connect: Option<&ConnectRequest>, refusal: Refusal) {
        let Refusal { status, result, why } = refusal;
        self.stats.connects_refused += 1;
        self.refusals += 1;
        let code = FabricsStatus(status.code);
        if self.refusals <= AUDIT_REFUSALS_A_TICK {
            let cntlid = connect.map(|w| w.cntlid).filter(|id| *id < CNTLID_STATIC);
            let detail = if result == 0 { format!("{code}: {why}") } else { format!("{code}, result {result:#x}: {why}") };
            self.note(AuditKind::Refused, place, connect, cntlid, detail);
        }
        if self.refusal_log.reports(rt.now()) {
            let (host, subsystem) = connect.map_or(("", ""), |w| (w.host_nqn.as_str(), w.subsystem.as_str()));
            let (peer, queue) = (self.conns[place].peer, connect.map_or(0, |w| w.connect.qid));
            tracing::warn!(%peer, host, subsystem, queue, status = %code, "a Connect command was refused: {why}");
        }
        let conn = &mut self.conns[place];
        conn.session.readmit();
        conn.session.complete(&mut cx!(self, rt), slot, status, result);
        self.conns.mark(place);
    }

    /// Notes an event for the audit log.
    fn note(&mut self, kind: AuditKind, place: usize, connect: Option<&ConnectRequest>, cntlid: Option<u16>, detail: String) {
        let peer = self.conns.get(place).map(|c| c.peer);
        let (host_nqn, subsystem) = connect.map_or_else(Default::default, |w| (w.host_nqn.clone(), w.subsystem.clone()));
        self.audit.push(AuditEvent { kind, peer, host: host_nqn, export: subsystem, session: cntlid, detail });
    }
}

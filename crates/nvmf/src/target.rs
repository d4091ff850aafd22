//! One core's front end: connections, controllers, messages between cores.
//!
//! Owns: the connections of this core and the controllers whose admin queue is here.
//! Invariants: a connection's place is not used again before all its operations have come back; the end of a controller ends its
//! queues on every core; what a closed session had under way comes to nothing, but what was submitted stays in its order.
//! Never: blocks; allocates on the path of an I/O that has room.

use crate::admin::{self, AdminCx, Answer};
use crate::admission;
use crate::connect_request::{self, ConnectRequest, Refusal};
use crate::controller::{Controller, QueueAt};
use crate::discovery;
use crate::limits::{
    CONNECTIONS_MAX, DISCOVERY_IDLE_MAX, HANDSHAKES_MAX, LINGER_MAX, RECV_ADMIN_BYTES, RECV_FRESH_BYTES, RECV_IO_BYTES, RECV_LANDING_BYTES,
    TICK, UNAUTHENTICATED_RECEIVES_A_TURN,
};
use crate::session::{Call, Cx, QueueKind, status_of_refusal};
use crate::shared::{ControllerShared, TargetShared};
use crate::stats::{SessionInfo, TargetStats};
use crate::view::{ListenerSpec, View};
use base::hooks::{self, CoverageMark, SeededFault};
use base::{Instant, Security, VolumeId};
use connection::{RefusalLog, Unauthenticated};
use format::nvme::auth::AuthCommand;
use format::nvme::fabrics::{AUTHREQ_ATR, CNTLID_DYNAMIC, CNTLID_STATIC, DISCOVERY_NQN, connect_result};
use format::nvme::{AdminOpcode, FabricsStatus, Status, StatusCode};
use frontend::{AuditEvent, AuditKind, AuditQueue, ControlRequest, ControlRequestId, ControlVerb, Refused, Reply, RequestedBy, WorkId};
use object::{Backend, IoRequest};
use rt::{Buf, ConnId, Event, ListenerId, NetError, Queue, Rt, SendList, TimerId};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// Events that one call of [`Target::poll`] takes.
const EVENTS_A_TURN_MAX: usize = 512;
const COOKIE_RECV: u64 = 0;
const COOKIE_SEND: u64 = 1;
const COOKIE_TICK: u64 = 2;
const COOKIE_LISTEN: u64 = 3;

/// One core's front end.
pub struct Target {
    shared: Arc<TargetShared>,
    core: usize,
    cores: usize,
    queue: Queue,
    view: Arc<View>,
    conns: Connections,
    controllers: BTreeMap<u16, Controller>,
    controller_serial: u64,
    last_cntlid: u16,
    last_discovery_cntlid: u16,
    listeners: Vec<(ListenerId, Door)>,
    listeners_generation: u64,
    msgs: VecDeque<(usize, TargetMsg)>,
    ios: Vec<IoRequest>,
    /// Of sessions, with the tokens of their connections: one may be left by what was done for another connection.
    calls: Vec<(u64, Call)>,
    under_way: u64,
    tick: Option<TimerId>,
    /// When the tick is due.
    tick_at: Instant,
    draining: bool,
    stats: TargetStats,
    /// Connections that have not got through their Connect command.
    unauthenticated: Unauthenticated,
    /// Receives of unauthenticated peers that wait for their turn, at most one a connection.
    unheard: VecDeque<(u64, Result<usize, NetError>, Buf)>,
    /// Where TLS decrypts a record.
    plain: Vec<u8>,
    /// Connects that wait for a queue that goes.
    waiting_connects: Vec<WaitingConnect>,
    /// Connects refused, and unauthenticated connections closed to make room, since the last tick.
    refusals: u32,
    evicted: u32,
    refusal_log: RefusalLog,
    control_requests: ControlRequests,
    audit: AuditQueue,
    works: AuthenticationWorks,
    fences: Fences,
}

macro_rules! cx {
    ($t:ident, $rt:ident) => {
        Cx { now: $rt.now(), view: &$t.view, ios: &mut $t.ios, calls: &mut $t.calls, stats: &mut $t.stats }
    };
}

mod abort;
mod admitting;
mod authenticate;
mod conn;
mod connect;
mod connections;
mod control_requests;
mod deadlines;
mod fence;
mod fences;
mod message;
mod secure;
mod waiting;

use conn::{Conn, ConnStep};
use connections::{Connections, SLOT_BITS, place_of, token_of_request};
use fences::Fences;
pub use message::TargetMsg;
use message::{Admitted, Door, FenceCommand, Msg};
use waiting::{AuthenticationWorks, ControlRequests, WaitingConnect};

const fn cookie(token: u64, kind: u64) -> u64 {
    token >> SLOT_BITS << 2 | kind
}
const fn token_of_cookie(cookie: u64) -> u64 {
    cookie >> 2 << SLOT_BITS
}

impl Target {
    /// The front end of the core that `rt` belongs to. It serves nothing yet.
    pub fn new(rt: &Rt, shared: Arc<TargetShared>) -> Target {
        shared.started(rt.now());
        Target {
            shared,
            core: rt.core(),
            cores: rt.cores(),
            queue: rt.queue(),
            view: Arc::default(),
            conns: Connections::default(),
            controllers: BTreeMap::new(),
            controller_serial: 0,
            last_cntlid: 0,
            last_discovery_cntlid: 0,
            listeners: Vec::new(),
            listeners_generation: 0,
            msgs: VecDeque::new(),
            ios: Vec::new(),
            calls: Vec::new(),
            under_way: 0,
            tick: None,
            tick_at: Instant::default(),
            draining: false,
            stats: TargetStats::default(),
            unauthenticated: Unauthenticated::new(HANDSHAKES_MAX),
            unheard: VecDeque::new(),
            plain: Vec::new(),
            waiting_connects: Vec::new(),
            refusals: 0,
            evicted: 0,
            refusal_log: RefusalLog::new("'basalt audit' shows them"),
            control_requests: ControlRequests::default(),
            audit: AuditQueue::default(),
            works: AuthenticationWorks::default(),
            fences: Fences::default(),
        }
    }

    /// Listens. Call it on core 0; connections are dealt to all cores.
    pub fn listen(&mut self, rt: &Rt, spec: ListenerSpec) -> Result<SocketAddr, NetError> {
        let at = self.listeners.len() as u64;
        let id = rt.listen(&self.queue, at << 2 | COOKIE_LISTEN, spec.addr)?;
        let addr = rt.local_addr(id);
        self.listeners.push((id, Door { kind: spec.kind, security: spec.security }));
        self.shared.add_listener(spec, addr);
        Ok(addr)
    }

    /// Serves a new picture: tells hosts what changed, ends controllers whose subsystem is gone or closed to them.
    pub fn apply(&mut self, rt: &Rt, view: Arc<View>) {
        self.view = view;
        self.shared.keep_figures(|nqn| self.view.subsystem(nqn).is_some());
        let mut ended = Vec::new();
        for (id, c) in &mut self.controllers {
            if c.shared.discovery {
                continue;
            }
            match self.view.subsystem(&c.shared.subsystem).filter(|s| s.allows(&c.shared.host_nqn)) {
                Some(_) if hooks::seeded(SeededFault::ChangesToldOnOneCore) && self.core > 0 => {}
                Some(s) => {
                    c.namespaces_are(self.view.namespaces(s, &c.shared.host_nqn));
                    c.reservations_are(&self.view);
                }
                None => ended.push(*id),
            }
        }
        for id in ended {
            self.end_controller(rt, id, "its access ended");
        }
        self.end_insecure(rt);
        self.discovery_check(rt);
        self.send_events(rt);
        self.note_forbidden(rt);
    }

    /// Looks whether what discovery tells changed for the hosts that listen.
    fn discovery_check(&mut self, rt: &Rt) {
        self.listeners_generation = self.shared.listeners_generation();
        for c in self.controllers.values_mut().filter(|c| c.shared.discovery) {
            c.discovery_is(discovery::entries(&c.shared, &self.view, &self.shared).sum);
        }
        self.send_events(rt);
    }

    fn send_events(&mut self, rt: &Rt) {
        for c in self.controllers.values_mut() {
            while let Some((slot, event)) = c.next_event() {
                if let Some(conn) = self.conns.by_token_mut(c.admin) {
                    self.stats.events += 1;
                    conn.session.complete_parked(&mut cx!(self, rt), slot, Status::SUCCESS, event.bits().into());
                    self.conns.mark(place_of(c.admin));
                }
            }
        }
    }

    /// Does all there is to do. True when something was done.
    pub fn poll(&mut self, rt: &Rt, backend: &mut impl Backend) -> bool {
        let mut busy = false;
        for _ in 0..EVENTS_A_TURN_MAX {
            let Some(done) = self.queue.pop() else { break };
            busy = true;
            self.on_event(rt, done.cookie, done.event);
        }
        busy |= self.receive_unauthenticated(rt);
        while let Some(token) = self.fences.pop_gone() {
            backend.cancel(token);
        }
        // A request may be answered at once, an answer may let another command go on.
        loop {
            for request in self.ios.drain(..) {
                self.under_way += 1;
                backend.submit(rt, request);
            }
            let mut answered = false;
            while let Some(done) = backend.pop() {
                answered = true;
                self.under_way -= 1;
                let request = done.token;
                if let Some(conn) = self.conns.by_token_mut(token_of_request(request)) {
                    conn.session.on_io_done(&mut cx!(self, rt), done);
                    self.conns.mark(place_of(request));
                    self.on_calls(rt);
                }
                if self.fences.are_waiting() {
                    self.fence_step(rt, request);
                }
            }
            busy |= answered;
            // Those of commands that went on for another reason: a fence, say.
            self.on_calls(rt);
            if self.flush(rt) {
                busy = true;
            }
            if self.ios.is_empty() {
                break;
            }
        }
        if self.draining {
            busy |= self.drain_step(rt);
        }
        busy || !self.msgs.is_empty()
    }

    /// Whether a request with this token, which a limit has held back, may begin: by what is served now, and while its connection is there.
    pub fn may_begin(&mut self, rt: &Rt, request: u64) -> bool {
        let Some(conn) = self.conns.by_token_mut(token_of_request(request)) else { return false };
        conn.session.may_begin(&cx!(self, rt), request)
    }

    /// Sends and receives on the connections where something happened.
    fn flush(&mut self, rt: &Rt) -> bool {
        let any = self.conns.any_marked();
        while let Some(place) = self.conns.pop_marked() {
            let conn = &mut self.conns[place];
            if conn.is_closed() {
                continue;
            }
            let last = conn.session.is_ended() || conn.closes_when_sent() && conn.session.running() == 0;
            while conn.send(rt, &self.queue, cookie(conn.token, COOKIE_SEND), last) {}
            if conn.socket.sends_are_full() && conn.session.has_send() {
                hooks::reached(CoverageMark::SendQueueFull);
            }
            if conn.is_attached() && conn.socket.has_failed() {
                conn.session.end();
            }
            if conn.is_attached() && conn.session.is_ended() {
                // With nothing to tell (the host has terminated) there is nothing to wait for.
                conn.enter(ConnStep::Linger { until: rt.now() + LINGER_MAX, when_sent: conn.has_sent_all() });
                self.give_up_queue(rt, place, "termination request");
            }
            self.rearm(rt, place);
            let conn = &self.conns[place];
            if conn.closes_when_sent() && conn.is_idle() {
                self.close(rt, place, "closed in order");
            }
        }
        any
    }

    fn rearm(&mut self, rt: &Rt, place: usize) {
        let conn = &mut self.conns[place];
        if conn.is_closed() || conn.socket.is_receiving() {
            return;
        }
        if !conn.session.wants_bytes() {
            hooks::reached(CoverageMark::ConnectionHeldBack);
            return conn.socket.hold_back(rt.now());
        }
        if let Some(time) = conn.socket.resume(rt.now()) {
            conn.give_time(time);
        }
        if conn.socket.is_plain()
            && let Some((buf, at)) = conn.session.land()
        {
            return conn.socket.receive_at(rt, &self.queue, cookie(conn.token, COOKIE_RECV), at, buf);
        }
        let bytes = match conn.session.kind() {
            None if conn.session.is_ended() => RECV_ADMIN_BYTES,
            None => RECV_FRESH_BYTES,
            Some(QueueKind::Admin(_)) => RECV_ADMIN_BYTES,
            Some(QueueKind::Io(_)) if conn.session.awaits_large() => RECV_LANDING_BYTES,
            Some(QueueKind::Io(_)) => RECV_IO_BYTES,
        };
        conn.socket.receive(rt, &self.queue, cookie(conn.token, COOKIE_RECV), bytes);
    }

    fn on_event(&mut self, rt: &Rt, cookie: u64, event: Event) {
        match event {
            Event::Accepted { conn, peer } => self.on_accepted(rt, (cookie >> 2) as usize, conn, peer),
            Event::Received { result, buf, .. } => {
                let token = token_of_cookie(cookie);
                if self.conns.by_token(token).is_some_and(|c| c.session.is_unauthenticated()) {
                    return self.unheard.push_back((token, result, buf));
                }
                self.on_received(rt, token, result, buf);
            }
            Event::Sent { result, list, .. } => self.on_sent(rt, token_of_cookie(cookie), result, list),
            Event::Timer(_) => self.on_tick(rt),
            other => debug_assert!(false, "nothing of this was asked for: {other:?}"),
        }
    }

    fn on_accepted(&mut self, rt: &Rt, listener: usize, conn: ConnId, peer: SocketAddr) {
        let Some((_, door)) = self.listeners.get(listener).copied() else { return rt.close(conn) };
        if self.draining {
            return rt.close(conn);
        }
        let core = self.shared.choose_core(self.cores);
        if core == self.core {
            return self.take(rt, conn, peer, door);
        }
        let conn = rt.detach(conn);
        self.msgs.push_back((core, TargetMsg(Msg::Take { conn, peer, door })));
    }

    fn take(&mut self, rt: &Rt, id: ConnId, peer: SocketAddr, door: Door) {
        if self.conns.len() >= CONNECTIONS_MAX {
            self.evict(rt, self.unauthenticated.oldest());
        }
        // A place comes free when the operations of who made room have come back, so for a moment there may be more.
        if self.conns.len() >= CONNECTIONS_MAX + HANDSHAKES_MAX
            || self.unauthenticated.is_empty() && self.conns.len() >= CONNECTIONS_MAX
            || self.draining
        {
            self.stats.connections_refused += 1;
            self.shared.gone(self.core, false);
            if !self.draining && self.refusal_log.reports(rt.now()) {
                tracing::warn!(%peer, "a connection was refused: there are {CONNECTIONS_MAX} on its core");
            }
            return rt.close(id);
        }
        self.stats.connections += 1;
        let token = self.conns.add(id, peer, door, rt.now());
        self.arm_tick(rt);
        let out = self.unauthenticated.enter(token, peer.ip(), self.shared.options().address_handshakes_max);
        self.evict(rt, out);
    }

    /// Closes a connection of an unauthenticated peer, to make room.
    fn evict(&mut self, rt: &Rt, token: Option<u64>) {
        let Some(token) = token else { return };
        self.stats.evicted += 1;
        self.evicted += 1;
        if self.conns.by_token(token).is_some() {
            self.close(rt, place_of(token), "made room");
        }
    }

    /// A few receives of those whom nobody knows yet; the others wait for the next turns. Whether there were any.
    fn receive_unauthenticated(&mut self, rt: &Rt) -> bool {
        let any = !self.unheard.is_empty();
        for _ in 0..UNAUTHENTICATED_RECEIVES_A_TURN {
            let Some((token, result, buf)) = self.unheard.pop_front() else { break };
            self.on_received(rt, token, result, buf);
        }
        any
    }

    fn on_received(&mut self, rt: &Rt, token: u64, result: Result<usize, NetError>, buf: Buf) {
        let place = place_of(token);
        let Some(conn) = self.conns.by_token_mut(token) else { return };
        let landing = conn.socket.received();
        match result {
            Ok(n) if n > 0 && !conn.is_closed() => {
                conn.socket.note_bytes(rt.now());
                if conn.is_overrun_by(n) {
                    return self.close(rt, place, "termination request");
                }
                match (conn.socket.is_plain(), landing) {
                    (_, Some(at)) => conn.session.landed(&mut cx!(self, rt), buf, at..at + n),
                    (true, None) => {
                        conn.session.receive(&mut cx!(self, rt), &buf[..n]);
                        conn.socket.keep(buf);
                    }
                    (false, None) => {
                        self.on_sealed(rt, place, &buf[..n]);
                        self.conns[place].socket.keep(buf);
                    }
                }
                self.conns.mark(place);
                self.on_calls(rt);
            }
            _ => {
                if hooks::seeded(SeededFault::BufferLeaked) {
                    core::mem::forget(buf);
                }
                self.close(rt, place, "connection closed");
            }
        }
    }

    fn on_sent(&mut self, rt: &Rt, token: u64, result: Result<(), NetError>, list: SendList) {
        let place = place_of(token);
        let Some(conn) = self.conns.by_token_mut(token) else { return };
        if let Some(list) = conn.socket.sent(list) {
            conn.session.sent(&mut cx!(self, rt), list);
        }
        if result.is_err() || conn.is_closed() {
            return self.close(rt, place, "connection closed");
        }
        self.conns.mark(place);
        self.on_calls(rt);
    }

    /// Closes a connection and gives up what it was; frees its place once its operations have come back.
    fn close(&mut self, rt: &Rt, place: usize, why: &'static str) {
        let conn = &mut self.conns[place];
        let (attached, closed) = (conn.is_attached(), conn.is_closed());
        conn.enter(ConnStep::Close);
        if attached {
            self.give_up_queue(rt, place, why);
        }
        let conn = &mut self.conns[place];
        if !closed {
            let token = conn.token;
            self.unauthenticated.leave(token);
            self.control_requests.forget(token);
            self.works.forget(token);
            conn.session.end();
            conn.socket.close(rt);
        }
        if !conn.socket.has_operations() {
            if !hooks::seeded(SeededFault::LeftNotAdopted) {
                self.adopt_left(place);
            }
            let conn = self.conns.remove(place);
            if let Some(place) = conn.session.kind().and_then(|queue| queue.counted_with()) {
                self.stats.hosts.queue_ends(place);
            }
            self.shared.gone(self.core, conn.admitting.is_light());
        }
    }

    /// The connection is no queue any more: its controller ends, or is informed.
    fn give_up_queue(&mut self, rt: &Rt, place: usize, why: &'static str) {
        let conn = &self.conns[place];
        debug_assert!(!conn.is_attached(), "it would be given up again");
        let at = QueueAt { core: self.core, token: conn.token };
        match conn.session.kind() {
            None => {}
            Some(QueueKind::Admin(c)) => {
                let id = c.cntlid;
                self.end_controller(rt, id, why);
            }
            Some(QueueKind::Io(queue)) => {
                let c = queue.controller();
                let (home, msg) = (c.home, Msg::QueueGone { cntlid: c.cntlid, serial: c.serial, qid: queue.qid(), at });
                self.post(rt, home, msg);
            }
        }
    }

    fn post(&mut self, rt: &Rt, core: usize, msg: Msg) {
        if core == self.core { self.on_msg(rt, TargetMsg(msg)) } else { self.msgs.push_back((core, TargetMsg(msg))) }
    }

    /// Ends a controller of this core: its queues on all cores and its admin queue.
    fn end_controller(&mut self, rt: &Rt, cntlid: u16, why: &'static str) {
        let Some(mut c) = self.controllers.remove(&cntlid) else { return };
        self.shared.discharge(&c.shared);
        c.shared.end();
        self.shared.statics().release(cntlid);
        if !c.shared.discovery {
            let (host_nqn, subsystem) = (c.shared.host_nqn.clone(), c.shared.subsystem.clone());
            let (kind, peer) = (AuditKind::Disconnected, Some(c.peer));
            self.audit.push(AuditEvent { kind, peer, host: host_nqn, export: subsystem, session: Some(cntlid), detail: why.into() });
        }
        for q in c.take_queues() {
            let token = q.token;
            self.post(rt, q.core, if self.draining { Msg::Drain { token } } else { Msg::Close { token } });
        }
        if self.conns.by_token(c.admin).is_some_and(Conn::is_attached) {
            self.close(rt, place_of(c.admin), why);
        }
        self.retry_connects(rt);
    }

    /// The next message for another core.
    pub fn pop_msg(&mut self) -> Option<(usize, TargetMsg)> {
        self.msgs.pop_front()
    }

    /// Takes a message from another core.
    pub fn on_msg(&mut self, rt: &Rt, msg: TargetMsg) {
        match msg.0 {
            Msg::Take { conn, peer, door } => {
                let id = rt.attach(conn);
                self.take(rt, id, peer, door);
            }
            Msg::Connect { connect, at, slot } => {
                self.on_connect_request(rt, connect, at, slot, None);
            }
            Msg::Admitted { connect, token, slot, result } => self.on_admitted(rt, &connect, token, slot, result),
            Msg::Close { token } => {
                if self.conns.by_token(token).is_some() {
                    self.close(rt, place_of(token), "its controller ended");
                }
            }
            Msg::Drain { token } => {
                if let Some(conn) = self.conns.by_token_mut(token) {
                    conn.session.drain();
                    conn.enter(ConnStep::Finish);
                    self.conns.mark(place_of(token));
                }
            }
            Msg::Abort { token, cid, admin, slot } => self.abort_here(rt, token, cid, (admin, slot)),
            Msg::Aborted { token, slot, aborted } => self.aborted(rt, token, slot, aborted),
            Msg::Fence(command) => self.on_fence(rt, command),
            Msg::Fenced { id } => self.on_fenced(rt, id),
            Msg::QueueGone { cntlid, serial, qid, at } => {
                if let Some(c) = self.controllers.get_mut(&cntlid).filter(|c| c.shared.serial == serial) {
                    c.remove_queue(qid, at);
                    self.retry_connects(rt);
                }
            }
        }
    }

    /// Carries out what sessions call the controller for: rarely anything.
    #[inline]
    fn on_calls(&mut self, rt: &Rt) {
        if !self.calls.is_empty() {
            self.carry_out_calls(rt);
        }
    }

    #[inline(never)]
    fn carry_out_calls(&mut self, rt: &Rt) {
        // An answer may let a command go on that waited for buffers, which is a call again.
        while !self.calls.is_empty() {
            for (token, call) in core::mem::take(&mut self.calls) {
                if self.conns.by_token(token).is_none_or(Conn::is_closed) {
                    continue;
                }
                let place = place_of(token);
                match call {
                    Call::Connect(slot) => self.on_connect(rt, place, slot),
                    Call::Admin(slot) => self.on_admin(rt, place, slot),
                }
            }
        }
    }

    fn on_admin(&mut self, rt: &Rt, place: usize, slot: u16) {
        let Some(conn) = self.conns.get_mut(place) else { return };
        let Some(sqe) = conn.session.sqe(slot).copied() else { return };
        if AuthCommand::is_named_by(&sqe) {
            self.on_authentication(rt, place, slot, &sqe);
            return self.conns.mark(place);
        }
        let answer = match conn.session.kind() {
            Some(QueueKind::Admin(shared)) => {
                let Some(c) = self.controllers.get_mut(&shared.cntlid) else { return };
                let cx = AdminCx { now: rt.now(), view: &self.view, shared: &self.shared };
                admin::execute(c, &cx, &sqe, conn.session.data(slot))
            }
            _ if crate::reservation::is_reservation(sqe.opcode) => {
                let ns = conn.session.namespace_of(&self.view, sqe.nsid);
                let run = |ns| crate::reservation::execute(&self.view, &ns, &sqe, conn.session.data(slot));
                ns.map_or_else(|status| Answer::Status(status, 0), run)
            }
            _ => admin::execute_on_io_queue(&sqe),
        };
        match answer {
            Answer::Status(status, result) => conn.session.complete(&mut cx!(self, rt), slot, status, result),
            Answer::Refuse(status, at) => {
                conn.session.blame(slot, at);
                conn.session.complete(&mut cx!(self, rt), slot, status, 0);
            }
            Answer::Data(buf) => conn.session.complete_with(&mut cx!(self, rt), slot, buf),
            Answer::Park => self.park(rt, place, slot),
            Answer::Abort { sqid, cid } => self.abort(rt, place, slot, (sqid, cid)),
            Answer::ControlRequest(what) => self.request_control(rt, place, slot, what),
            Answer::Reset => {
                conn.session.complete(&mut cx!(self, rt), slot, Status::SUCCESS, 0);
                conn.session.forget_parked();
                self.reset(rt, place);
            }
            Answer::Disconnect => {
                conn.session.disconnect(&mut cx!(self, rt), slot);
                conn.enter(ConnStep::Finish);
            }
        }
        self.conns.mark(place);
        // What they change decides about events.
        let of_events = [AdminOpcode::AsyncEventRequest, AdminOpcode::SetFeatures, AdminOpcode::GetLogPage];
        if of_events.iter().any(|op| op.byte() == sqe.opcode) {
            self.send_events(rt);
        }
    }

    fn park(&mut self, rt: &Rt, place: usize, slot: u16) {
        let conn = &mut self.conns[place];
        let Some(QueueKind::Admin(shared)) = conn.session.kind() else { return };
        let Some(c) = self.controllers.get_mut(&shared.cntlid) else { return };
        if c.add_request(slot) {
            conn.session.park(slot);
        } else {
            conn.session.complete(&mut cx!(self, rt), slot, StatusCode::AER_LIMIT_EXCEEDED.into(), 0);
        }
    }

    /// CC.EN went to 0: the I/O queues end.
    fn reset(&mut self, rt: &Rt, place: usize) {
        let Some(QueueKind::Admin(shared)) = self.conns.get(place).and_then(|c| c.session.kind()) else { return };
        let id = shared.cntlid;
        let queues = self.controllers.get_mut(&id).map_or(Vec::new(), |c| c.take_queues());
        for q in queues {
            self.post(rt, q.core, Msg::Close { token: q.token });
        }
        self.retry_connects(rt);
    }

    /// Takes no new connection and no new command; what runs is answered, then connections are closed.
    pub fn begin_shutdown(&mut self, rt: &Rt) {
        if core::mem::replace(&mut self.draining, true) {
            return;
        }
        for (id, _) in self.listeners.drain(..) {
            rt.close_listener(id);
        }
        if self.core == 0 {
            self.shared.clear_listeners();
        }
        let mut say_goodbye = Vec::new();
        for (place, c) in self.conns.iter_mut() {
            c.session.drain();
            if c.socket.owes_goodbye() {
                c.enter(ConnStep::Finish);
                say_goodbye.push(place);
            }
        }
        say_goodbye.into_iter().for_each(|place| self.conns.mark(place));
        rt.wake(self.core);
    }

    fn drain_step(&mut self, rt: &Rt) -> bool {
        let done = |c: &Conn| !c.is_closed() && c.is_idle() && !c.socket.owes_goodbye();
        let places: Vec<usize> = self.conns.iter().filter(|(_, c)| done(c)).map(|(place, _)| place).collect();
        for place in &places {
            if self.conns.contains(*place) {
                self.close(rt, *place, "the server ends");
            }
        }
        !places.is_empty()
    }

    /// Whether all connections are gone and no request is under way. Only after [`Target::begin_shutdown`] it stays so.
    pub fn is_quiet(&self) -> bool {
        self.conns.is_empty() && self.under_way == 0 && self.ios.is_empty() && self.msgs.is_empty()
    }

    /// The controllers whose admin queue is on this core.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let info = |c: &Controller| {
            let conn = self.conns.get(place_of(c.admin));
            let digests = conn.map(|x| x.session.digests()).unwrap_or_default();
            SessionInfo {
                cntlid: c.shared.cntlid,
                subsystem: c.shared.subsystem.clone(),
                host_nqn: c.shared.host_nqn.clone(),
                host_id: c.shared.host_id,
                peer: c.peer,
                discovery: c.shared.discovery,
                io_queues: c.queues().len() as u16,
                kato_ms: c.kato_ms(),
                header_digest: digests.header,
                data_digest: digests.data,
                encrypted: conn.is_some_and(|x| x.socket.identity().is_some()),
                since: c.since,
            }
        };
        self.controllers.values().map(info).collect()
    }

    /// Counters so far.
    pub fn stats(&self) -> TargetStats {
        let queues =
            self.conns.iter().filter_map(|(_, conn)| Some((conn.session.kind()?.counted_with()?, u64::from(conn.session.running()))));
        TargetStats { connections_open: self.conns.len() as u64, audit_dropped: self.audit.dropped(), ..self.stats.snapshot(queues) }
    }
}

//! One core's front end: connections, and messages between cores.
//!
//! Owns: the connections of this core, and their sessions.
//! Invariants: all connections of a session are on its core; a connection's place is not used again before all its operations have come back; what a closed session had under way comes to nothing.
//! Never: blocks.

use crate::limits::{
    ADDRESS_LOGINS_MAX, CONNECTIONS_MAX, DISCOVERIES_MAX, LINGER_MAX, LOGIN_TIME_MAX, LOGINS_MAX, PDU_TIME_MAX, PING_AFTER, RECV_BYTES,
    RECV_FRESH_BYTES, SENDS_MAX, SILENCE_MAX, TICK,
};
use crate::session::{Asked, Cx, Session, SessionEvent};
use crate::shared::Shared;
use crate::stats::{Figures, SessionInfo, Stats};
use crate::view::{ListenerSpec, View};
use base::Instant;
use connection::{Accepts, Came, Connection, Layer, RefusalLog, Unauthenticated};
use format::iscsi::{HEADER_BYTES, HostPdu};
use frontend::{AuditEvent, AuditKind, AuditQueue, ControlRequest, ControlRequestId, Refused, Reply};
use object::{Backend, IoRequest, VolumeRef};
use rt::{Buf, ConnId, Event, ListenerId, NetError, OwnedConn, Queue, Rt, SendList, TimerId};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use tls::HostIdentity;

/// Events that one call of [`Target::poll`] takes.
const EVENTS_A_TURN_MAX: usize = 512;
const COOKIE_RECV: u64 = 0;
const COOKIE_SEND: u64 = 1;
const COOKIE_TICK: u64 = 2;
const COOKIE_LISTEN: u64 = 3;
/// A token: 16 bits of slot, 16 of place, 24 of serial number. The upper eight bits are not ours.
const SLOT_BITS: u32 = 16;
const PLACE_BITS: u32 = 16;
const SERIAL_BITS: u32 = 24;

const _: () = assert!(CONNECTIONS_MAX + LOGINS_MAX < 1 << PLACE_BITS && SLOT_BITS + PLACE_BITS + SERIAL_BITS == 56);

const fn place_of(token: u64) -> usize {
    (token >> SLOT_BITS) as usize & ((1 << PLACE_BITS) - 1)
}
const fn token_of_request(request: u64) -> u64 {
    request >> SLOT_BITS << SLOT_BITS
}
const fn cookie(token: u64, kind: u64) -> u64 {
    token >> SLOT_BITS << 2 | kind
}
const fn token_of_cookie(cookie: u64) -> u64 {
    cookie >> 2 << SLOT_BITS
}

/// From one core's target to another's.
#[derive(Debug)]
pub struct TargetMsg(Msg);

enum Msg {
    /// A connection to take.
    Take { conn: OwnedConn, peer: SocketAddr },
    /// The same, of a session of that core, and what has come on it.
    TakeMember { conn: OwnedConn, layer: Box<Layer<HostIdentity>>, peer: SocketAddr, first: Vec<u8> },
    /// A session of the same host port with the same target has begun elsewhere: this one is over.
    Replaced { token: u64 },
    /// Commands of the sessions with a target are to be aborted.
    Reset(resets::Reset),
    /// Those of a core have ended.
    ResetDone { id: u64 },
}

impl core::fmt::Debug for Msg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Msg::Take { .. } => "Take",
            Msg::TakeMember { .. } => "TakeMember",
            Msg::Replaced { .. } => "Replaced",
            Msg::Reset(_) => "Reset",
            Msg::ResetDone { .. } => "ResetDone",
        })
    }
}

struct Conn {
    token: u64,
    peer: SocketAddr,
    /// The place of the session that it is one of.
    seat: usize,
    /// Its number in the session.
    wire: usize,
    socket: Connection<HostIdentity>,
    since: Instant,
    /// It is over: when it is closed at the latest.
    until: Option<Instant>,
    /// What has come, as long as it is too little to know which core it is for.
    first: Option<Vec<u8>>,
    dirty: bool,
}

/// What a control request that is away is for.
enum Away {
    /// A command: its session and slot.
    Command(u64),
    /// A unit that was taken whole.
    Unit(taken::Ends),
}

/// A session, which lives as long as one of its connections.
struct Seat {
    token: u64,
    session: Session,
    /// Where its first connection came from, and when.
    peer: SocketAddr,
    since: Instant,
    /// It is among the sessions of hosts and targets.
    entered: bool,
}

/// See the module.
pub struct Target {
    shared: Arc<Shared>,
    core: usize,
    cores: usize,
    queue: Queue,
    view: Arc<View>,
    conns: Slab<Conn>,
    seats: Slab<Seat>,
    serial: u64,
    dirty: Vec<usize>,
    listeners: Vec<ListenerId>,
    msgs: VecDeque<(usize, TargetMsg)>,
    ios: Vec<IoRequest>,
    asked: VecDeque<Asked>,
    /// Control requests that are away, by serial number.
    away: BTreeMap<u64, Away>,
    asks: u64,
    events: Vec<(u64, SessionEvent)>,
    under_way: u64,
    tick: Option<TimerId>,
    tick_at: Instant,
    draining: bool,
    stats: Stats,
    unknown: Unauthenticated,
    refusal_log: RefusalLog,
    audit: AuditQueue,
    resets: resets::Resets,
    taken: taken::TakenUnits,
    /// Requests that are with their volumes and may not be there any more by what is served now, or whose sessions are gone.
    fenced: BTreeMap<u64, VolumeRef>,
}

macro_rules! cx {
    ($t:ident, $rt:ident) => {
        &mut Cx {
            now: $rt.now(),
            view: &$t.view,
            shared: &$t.shared,
            draining: $t.draining,
            random: &mut |out| $rt.random_secret(out),
            ios: &mut $t.ios,
            asked: &mut $t.asked,
            stats: &mut $t.stats,
            events: &mut $t.events,
        }
    };
}

mod resets;
mod taken;

impl Target {
    /// The front end of the core that `rt` belongs to. It serves nothing yet.
    pub fn new(rt: &Rt, shared: Arc<Shared>) -> Target {
        Target {
            shared,
            core: rt.core(),
            cores: rt.cores(),
            queue: rt.queue(),
            view: Arc::default(),
            conns: Slab::new(),
            seats: Slab::new(),
            serial: 0,
            dirty: Vec::new(),
            listeners: Vec::new(),
            msgs: VecDeque::new(),
            ios: Vec::new(),
            asked: VecDeque::new(),
            away: BTreeMap::new(),
            asks: 0,
            events: Vec::new(),
            under_way: 0,
            tick: None,
            tick_at: Instant::default(),
            draining: false,
            stats: Stats::default(),
            unknown: Unauthenticated::new(LOGINS_MAX),
            refusal_log: RefusalLog::new("'basalt audit' shows them"),
            audit: AuditQueue::default(),
            resets: resets::Resets::default(),
            taken: taken::TakenUnits::default(),
            fenced: BTreeMap::new(),
        }
    }

    /// Listens. Call it on core 0; connections are dealt to all cores.
    pub fn listen(&mut self, rt: &Rt, at: ListenerSpec) -> Result<SocketAddr, NetError> {
        let id = rt.listen(&self.queue, COOKIE_LISTEN, at.addr)?;
        let addr = rt.local_addr(id);
        self.listeners.push(id);
        let mut shown = at.advertise.unwrap_or(addr);
        if shown.port() == 0 {
            shown.set_port(addr.port());
        }
        self.shared.add_portal(shown);
        Ok(addr)
    }

    /// Serves a new picture: ends sessions whose target is gone or closed to them.
    pub fn apply(&mut self, rt: &Rt, view: Arc<View>) {
        self.view = view;
        let seats: Vec<usize> = self.seats.iter().map(|(seat, _)| seat).collect();
        for seat in seats {
            let session = &mut self.seats[seat].session;
            let cx: &Cx<'_> = cx!(self, rt);
            self.fenced.extend(session.fenced(cx));
            if !session.apply(&self.view) {
                session.drop_all(cx!(self, rt), "its access ended");
                self.mark_all(seat);
            }
        }
        self.on_events(rt);
        // One core sees to those whose sessions ended before the daemon, or before they were served.
        if self.core == 0 {
            self.give_units(rt);
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
        // A request may be answered at once, an answer may let another command go on.
        loop {
            for request in self.ios.drain(..) {
                self.under_way += 1;
                backend.submit(rt, request);
            }
            while let Some(done) = backend.pop() {
                busy = true;
                self.under_way -= 1;
                if !self.fenced.is_empty() {
                    self.fenced.remove(&done.token);
                }
                if let Some(seat) = self.seat(token_of_request(done.token)) {
                    self.seats[seat].session.on_io_done(cx!(self, rt), done);
                    self.mark_all(seat);
                }
            }
            self.on_events(rt);
            self.look_at_resets(rt);
            busy |= self.flush(rt);
            if self.ios.is_empty() {
                break;
            }
        }
        if self.draining {
            busy |= self.drain(rt);
        }
        busy || !self.msgs.is_empty()
    }

    /// Whether a request with this token, which a limit has held back, may begin.
    pub fn may_begin(&mut self, rt: &Rt, request: u64) -> bool {
        let Some(seat) = self.seat(token_of_request(request)) else { return false };
        let cx = cx!(self, rt);
        self.seats[seat].session.may_begin(cx, request)
    }

    /// Whether it goes by this revision of a volume's view, or a later one, and has nothing with the volume that is forbidden since: no write of a
    /// host that has lost its rights takes effect afterwards.
    pub fn is_settled(&self, volume: VolumeRef, revision: u64) -> bool {
        let view = self.view.volumes.get(volume.0 as usize).and_then(Option::as_ref);
        view.is_none_or(|v| v.revision >= revision) && !self.fenced.values().any(|v| *v == volume)
    }

    fn place(&self, token: u64) -> Option<usize> {
        let place = place_of(token);
        self.conns.get(place).is_some_and(|c| c.token == token).then_some(place)
    }

    /// The place of a session.
    fn seat(&self, token: u64) -> Option<usize> {
        let seat = place_of(token);
        self.seats.get(seat).is_some_and(|s| s.token == token).then_some(seat)
    }

    fn mark(&mut self, place: usize) {
        let conn = &mut self.conns[place];
        if !core::mem::replace(&mut conn.dirty, true) {
            self.dirty.push(place);
        }
    }
    /// Marks all connections of a session.
    fn mark_all(&mut self, seat: usize) {
        for token in self.seats[seat].session.connections() {
            if let Some(conn) = self.conns.get_mut(place_of(token))
                && !core::mem::replace(&mut conn.dirty, true)
            {
                self.dirty.push(place_of(token));
            }
        }
    }
    /// The places of all connections of a session.
    fn conns_of(&self, seat: usize) -> Vec<usize> {
        self.seats[seat].session.connections().filter_map(|token| self.place(token)).collect()
    }

    /// Sends and receives on the connections where something happened.
    fn flush(&mut self, rt: &Rt) -> bool {
        let any = !self.dirty.is_empty();
        while let Some(place) = self.dirty.pop() {
            let Some(conn) = self.conns.get_mut(place) else { continue };
            conn.dirty = false;
            if conn.socket.is_closed() {
                continue;
            }
            let Conn { socket, token, seat, wire, .. } = conn;
            let (session, wire) = (&mut self.seats[*seat].session, *wire);
            while socket.send(rt, &self.queue, cookie(*token, COOKIE_SEND), false, || session.take_send(wire)) {}
            if session.is_wire_over(wire) {
                conn.until.get_or_insert(rt.now() + LINGER_MAX);
                if !socket.is_sending() && !session.has_send(wire) {
                    self.close(rt, place, "over");
                }
                continue;
            }
            if socket.is_receiving() {
                continue;
            }
            if !session.wants_bytes(wire) {
                socket.hold_back(rt.now());
                continue;
            }
            if let Some(time) = socket.resume(rt.now()) {
                session.give_time(wire, time);
                socket.give_idle_time(time);
            }
            let bytes = if session.is_logging_in() { RECV_FRESH_BYTES } else { RECV_BYTES };
            socket.receive(rt, &self.queue, cookie(*token, COOKIE_RECV), bytes);
        }
        any
    }

    fn on_event(&mut self, rt: &Rt, cookie: u64, event: Event) {
        match event {
            Event::Accepted { conn, peer } => self.on_accepted(rt, conn, peer),
            Event::Received { result, buf, .. } => self.on_received(rt, token_of_cookie(cookie), result, buf),
            Event::Sent { result, list, .. } => self.on_sent(rt, token_of_cookie(cookie), result, list),
            Event::Timer(_) => self.on_tick(rt),
            other => debug_assert!(false, "nothing of this was asked for: {other:?}"),
        }
    }

    fn on_accepted(&mut self, rt: &Rt, conn: ConnId, peer: SocketAddr) {
        if self.draining {
            return rt.close(conn);
        }
        let core = self.shared.choose_core(self.cores);
        if core == self.core {
            return self.take_new(rt, conn, peer);
        }
        let conn = rt.detach(conn);
        self.msgs.push_back((core, TargetMsg(Msg::Take { conn, peer })));
    }

    /// Takes a connection that was accepted.
    fn take_new(&mut self, rt: &Rt, id: ConnId, peer: SocketAddr) {
        let taken = self.take(rt, id, Layer::accepted(Accepts::Plain), peer);
        self.stats.connections += u64::from(taken.is_some());
    }

    /// The place of a connection; `None`: there are too many, and it is closed.
    fn take(&mut self, rt: &Rt, id: ConnId, layer: Layer<HostIdentity>, peer: SocketAddr) -> Option<usize> {
        // A place comes free when the operations of who made room have come back, so for a moment there may be more.
        if self.conns.len() >= CONNECTIONS_MAX {
            self.evict(rt, self.unknown.oldest());
        }
        let full = self.conns.len() >= CONNECTIONS_MAX + LOGINS_MAX;
        if full || self.unknown.is_empty() && self.conns.len() >= CONNECTIONS_MAX || self.draining {
            self.stats.connections_refused += 1;
            self.shared.gone(self.core);
            if !self.draining && self.refusal_log.reports(rt.now()) {
                tracing::warn!(%peer, "a connection was refused: there are {CONNECTIONS_MAX} on its core");
            }
            rt.close(id);
            return None;
        }
        self.serial = (self.serial + 1) & ((1 << SERIAL_BITS) - 1);
        let token_at = |place: usize| (self.serial << PLACE_BITS | place as u64) << SLOT_BITS;
        let entry = self.conns.vacant_entry();
        let place = entry.key();
        let token = token_at(place);
        let seats = self.seats.vacant_entry();
        let (seat, since) = (seats.key(), rt.now());
        let session = Session::new(token_at(seat), token, rt.local_ip(id));
        seats.insert(Seat { token: token_at(seat), session, peer, since, entered: false });
        entry.insert(Conn {
            token,
            peer,
            seat,
            wire: 0,
            socket: Connection::new(id, layer, SENDS_MAX, since),
            since,
            until: None,
            first: Some(Vec::new()),
            dirty: false,
        });
        self.mark(place);
        self.arm_tick(rt);
        let out = self.unknown.enter(token, peer.ip(), ADDRESS_LOGINS_MAX);
        self.evict(rt, out);
        Some(place)
    }

    /// Closes a connection of somebody who has not logged in, to make room.
    fn evict(&mut self, rt: &Rt, token: Option<u64>) {
        if let Some(place) = token.and_then(|t| self.place(t)) {
            self.close(rt, place, "made room");
        }
    }

    fn on_received(&mut self, rt: &Rt, token: u64, result: Result<usize, NetError>, buf: Buf) {
        let Some(place) = self.place(token) else { return };
        let conn = &mut self.conns[place];
        conn.socket.received();
        let n = match result {
            Ok(n) if n > 0 && !conn.socket.is_closed() => n,
            _ => return self.close(rt, place, "connection closed"),
        };
        conn.socket.note_bytes(rt.now());
        if !conn.socket.is_plain() && !matches!(conn.socket.open(&buf[..n], || None, |_| Vec::new(), rt.now()), Ok(Came::Plain)) {
            return self.close(rt, place, "TLS, which iSCSI does not have here");
        }
        self.take_bytes(rt, place, &buf[..n]);
        if let Some(place) = self.place(token) {
            self.conns[place].socket.keep(buf);
        }
    }

    /// Bytes of the protocol have come.
    fn take_bytes(&mut self, rt: &Rt, place: usize, bytes: &[u8]) {
        let conn = &mut self.conns[place];
        let (seat, wire) = (conn.seat, conn.wire);
        if let Some(mut first) = conn.first.take() {
            first.extend_from_slice(bytes);
            let Some(header) = first.first_chunk::<HEADER_BYTES>() else {
                conn.first = Some(first);
                return self.mark(place);
            };
            // A session has all of its connections on one core.
            let joins = match HostPdu::parse(header) {
                Ok(HostPdu::Login(login)) => self.shared.place_of(login.tsih).map(|(core, _)| core),
                _ => None,
            };
            if let Some(core) = joins.filter(|core| *core != self.core) {
                return self.send_away(rt, place, core, first);
            }
            self.seats[seat].session.receive(cx!(self, rt), wire, &first);
        } else {
            self.seats[seat].session.receive(cx!(self, rt), wire, bytes);
        }
        self.mark_all(seat);
        self.on_events(rt);
    }

    /// Gives a connection on which nothing was answered to another core.
    fn send_away(&mut self, rt: &Rt, place: usize, core: usize, first: Vec<u8>) {
        let conn = self.conns.remove(place);
        self.unknown.leave(conn.token);
        self.seats.remove(conn.seat);
        self.shared.gone(self.core);
        self.shared.came(core);
        let (owned, layer) = conn.socket.detach(rt);
        self.msgs.push_back((core, TargetMsg(Msg::TakeMember { conn: owned, layer: Box::new(layer), peer: conn.peer, first })));
    }

    fn on_sent(&mut self, rt: &Rt, token: u64, result: Result<(), NetError>, list: SendList) {
        let Some(place) = self.place(token) else { return };
        let conn = &mut self.conns[place];
        if let Some(list) = conn.socket.sent(list) {
            self.seats[conn.seat].session.sent(cx!(self, rt), conn.wire, list);
        }
        if result.is_err() || conn.socket.is_closed() {
            return self.close(rt, place, "connection closed");
        }
        let seat = conn.seat;
        self.mark_all(seat);
    }

    /// Closes a connection; frees its place once its operations have come back. A session that has lost one is over, as it recovers nothing (RFC 7143
    /// 7.1.4.4); one that has left before is not missed.
    fn close(&mut self, rt: &Rt, place: usize, why: &'static str) {
        let Conn { token, seat, wire, ref mut socket, .. } = self.conns[place];
        if !socket.is_closed() {
            self.unknown.leave(token);
            socket.close(rt);
            if !self.seats[seat].session.is_wire_over(wire) {
                self.seats[seat].session.close();
                self.mark_all(seat);
            }
            if self.seats[seat].session.is_over() {
                self.leave(rt, seat, why);
            }
        }
        if !self.conns[place].socket.has_operations() {
            self.conns.remove(place);
            self.shared.gone(self.core);
            if self.seats[seat].session.leave(wire) {
                // What it has with its volumes may still take effect.
                let gone = self.seats.remove(seat);
                self.fenced.extend(gone.session.with_volumes());
            }
        }
    }

    /// Closes all connections of a session.
    fn close_all(&mut self, rt: &Rt, seat: usize, why: &'static str) {
        for place in self.conns_of(seat) {
            self.close(rt, place, why);
        }
    }

    /// A session is over.
    fn leave(&mut self, rt: &Rt, seat: usize, why: &'static str) {
        let s = &mut self.seats[seat];
        if let Some(place) = s.session.count_with(None) {
            self.stats.hosts.queue_ends(place);
        }
        if core::mem::take(&mut s.entered) {
            self.shared.leave(s.session.tsih(), self.core, s.token);
            let event = event_of(s, AuditKind::Disconnected, why);
            self.audit.push(event);
            self.give_units(rt);
        }
    }

    /// Carries out what sessions ask for.
    fn on_events(&mut self, rt: &Rt) {
        for (token, event) in core::mem::take(&mut self.events) {
            let Some(seat) = self.seat(token) else { continue };
            match event {
                SessionEvent::LoggedIn { proved } => self.on_logged_in(rt, seat, proved),
                SessionEvent::Joins(tsih) => self.on_joins(rt, seat, tsih),
                SessionEvent::Left => {
                    let session = &self.seats[seat].session;
                    self.shared.note_cids(session.tsih(), session.cids());
                }
                SessionEvent::Refused { why, unproved } => {
                    self.stats.logins_refused += 1;
                    let s = &self.seats[seat];
                    if self.refusal_log.reports(rt.now()) {
                        let Seat { peer, session, .. } = s;
                        tracing::warn!(%peer, host = session.who().host, target = session.who().target, why, "a login was refused");
                    }
                    let kind = if unproved { AuditKind::AuthenticationFailed } else { AuditKind::Refused };
                    let event = event_of(s, kind, why);
                    self.audit.push(event);
                }
                SessionEvent::Reset { tag, lun, attention } => self.begin_reset(rt, seat, (tag, lun, attention)),
                SessionEvent::GivesUnits => self.give_units_of(rt, seat),
                SessionEvent::Over(why) => {
                    tracing::info!(peer = %self.seats[seat].peer, why, "a session has ended");
                    self.leave(rt, seat, why);
                }
            }
            if self.seats.contains(seat) {
                self.mark_all(seat);
            }
        }
    }

    fn on_logged_in(&mut self, rt: &Rt, seat: usize, proved: bool) {
        let discoveries = self.seats.iter().filter(|(_, s)| s.session.who().discovery && !s.session.is_logging_in()).count();
        let s = &mut self.seats[seat];
        s.session.connections().for_each(|token| self.unknown.leave(token));
        if s.session.who().discovery {
            if discoveries > DISCOVERIES_MAX {
                self.close_all(rt, seat, "too many discovery sessions");
            }
            return;
        }
        s.entered = true;
        s.session.count_with(Some(self.stats.hosts.queue_begins(&s.session.who().host)));
        if proved {
            let event = event_of(s, AuditKind::Authenticated, "CHAP");
            self.audit.push(event);
        }
        let s = &self.seats[seat];
        let event = event_of(s, AuditKind::Connected, "");
        self.audit.push(event);
        let session = &s.session;
        if let Some((core, old)) = self.shared.enter(session.who(), session.tsih(), self.core, s.token, session.params()) {
            let msg = TargetMsg(Msg::Replaced { token: old });
            if core == self.core { self.on_msg(rt, msg) } else { self.msgs.push_back((core, msg)) }
        }
    }

    /// A login has made a connection one of a session.
    fn on_joins(&mut self, rt: &Rt, seat: usize, tsih: u16) {
        let to = self.shared.place_of(tsih).filter(|(core, _)| *core == self.core).and_then(|(_, token)| self.seat(token));
        // The core has not done anything else since the login found it.
        let Some(to) = to.filter(|to| !self.seats[*to].session.is_over()) else { return self.close_all(rt, seat, "its session is gone") };
        let Some(wire) = self.seats[seat].session.give_wire() else { return };
        let place = place_of(wire.conn());
        let event = event_of(&self.seats[seat], AuditKind::Connected, "one more connection of its session");
        self.audit.push(event);
        self.seats.remove(seat);
        self.unknown.leave(wire.conn());
        let number = self.seats[to].session.join(cx!(self, rt), wire);
        (self.conns[place].seat, self.conns[place].wire) = (to, number);
        let session = &self.seats[to].session;
        self.shared.note_cids(tsih, session.cids());
        self.mark_all(to);
    }

    /// The next message for another core.
    pub fn pop_msg(&mut self) -> Option<(usize, TargetMsg)> {
        self.msgs.pop_front()
    }

    /// Takes a message from another core.
    pub fn on_msg(&mut self, rt: &Rt, msg: TargetMsg) {
        match msg.0 {
            Msg::Take { conn, peer } => {
                let id = rt.attach(conn);
                self.take_new(rt, id, peer);
            }
            Msg::TakeMember { conn, layer, peer, first } => {
                let id = rt.attach(conn);
                if let Some(place) = self.take(rt, id, *layer, peer) {
                    // It stays here, wherever its session is by now.
                    self.conns[place].first = None;
                    self.take_bytes(rt, place, &first);
                }
            }
            Msg::Replaced { token } => {
                if let Some(seat) = self.seat(token) {
                    self.close_all(rt, seat, "its host has begun the session anew");
                }
            }
            Msg::Reset(reset) => self.on_reset(rt, reset),
            Msg::ResetDone { id } => self.on_reset_done(id, true),
        }
    }

    /// Whether there is a question for the control plane, or an event for the audit log.
    #[inline]
    pub fn has_reports(&self) -> bool {
        !self.asked.is_empty() || !self.audit.is_empty() || self.taken.has_asks()
    }
    /// The next question for the control plane.
    pub fn pop_control_request(&mut self) -> Option<ControlRequest> {
        let (away, by, what) = self.pop_unit_ask().or_else(|| {
            let Asked { request, by, what } = self.asked.pop_front()?;
            Some((Away::Command(request), by, what))
        })?;
        self.asks += 1;
        self.away.insert(self.asks, away);
        Some(ControlRequest { id: ControlRequestId { core: self.core, serial: self.asks }, by, what })
    }
    /// The control plane's answer.
    pub fn on_answer(&mut self, rt: &Rt, id: ControlRequestId, result: Result<Reply, Refused>) {
        let request = match self.away.remove(&id.serial) {
            None => return,
            Some(Away::Unit(ends)) => return self.on_unit_answer(rt, ends, result.map(drop)),
            Some(Away::Command(request)) => request,
        };
        let Some(seat) = self.seat(token_of_request(request)) else { return };
        self.seats[seat].session.on_answer(cx!(self, rt), (request & 0xFFFF) as u16, result);
        self.mark_all(seat);
        rt.wake(self.core);
    }

    /// The next event for the audit log.
    pub fn pop_audit(&mut self) -> Option<AuditEvent> {
        self.audit.pop()
    }
    /// An event that was popped could not be handed on.
    pub fn audit_lost(&mut self) {
        self.audit.lost();
    }

    fn arm_tick(&mut self, rt: &Rt) {
        if self.tick.is_none() && (!self.conns.is_empty() || self.taken.is_due()) {
            self.tick_at = rt.now() + TICK;
            self.tick = Some(rt.timer(&self.queue, COOKIE_TICK, self.tick_at));
        }
    }

    /// Looks at the deadlines. A core that could not look for a while gives everybody that time.
    fn on_tick(&mut self, rt: &Rt) {
        self.tick = None;
        let now = rt.now();
        let late = now.since(self.tick_at);
        let mut over = Vec::new();
        for (place, c) in self.conns.iter_mut().filter(|(_, c)| !c.socket.is_closed()) {
            let (session, wire) = (&mut self.seats[c.seat].session, c.wire);
            if late > TICK {
                c.since += late;
                session.give_time(wire, late);
                c.socket.give_idle_time(late);
            }
            let silent = now.since(c.socket.last_bytes());
            let why = if let Some(until) = c.until {
                (now >= until).then_some("over")
            } else if session.is_logging_in() {
                (now.since(c.since) > LOGIN_TIME_MAX).then_some("the login took too long")
            } else if c.socket.is_receiving() && session.pdu_began(wire).is_some_and(|at| now.since(at) > PDU_TIME_MAX) {
                Some("half a PDU")
            } else if session.waits_since(wire).is_some_and(|at| now.since(at) > PDU_TIME_MAX) {
                Some("a command is missing")
            } else if c.socket.is_receiving() && silent > SILENCE_MAX {
                Some("the host was silent")
            } else {
                if silent > PING_AFTER {
                    session.ping(wire);
                }
                None
            };
            over.extend(why.map(|why| (place, why)));
        }
        for (place, why) in over {
            self.stats.timeouts += 1;
            self.close(rt, place, why);
        }
        let seats: Vec<usize> = self.seats.iter().map(|(seat, _)| seat).collect();
        for seat in seats {
            self.seats[seat].session.on_tick(cx!(self, rt));
            self.mark_all(seat);
        }
        self.refusal_log.report_the_rest(now);
        if self.taken.is_due() {
            self.give_units(rt);
        }
        self.arm_tick(rt);
    }

    /// No new hosts, no new commands; what runs is answered.
    pub fn begin_shutdown(&mut self, rt: &Rt) {
        self.draining = true;
        self.shared.clear_portals();
        self.listeners.drain(..).for_each(|l| rt.close_listener(l));
    }
    fn drain(&mut self, rt: &Rt) -> bool {
        let has_sent = |s: &Session, c: &Conn| !s.has_send(c.wire) && !c.socket.is_sending();
        let idle = |seat, s: &Session| {
            !s.is_over() && s.running() == 0 && self.conns_of(seat).iter().all(|place| has_sent(s, &self.conns[*place]))
        };
        let over: Vec<usize> = self.seats.iter().filter(|(seat, s)| idle(*seat, &s.session)).map(|(seat, _)| seat).collect();
        for seat in &over {
            self.seats[*seat].session.drop_all(cx!(self, rt), "the daemon ends");
            self.mark_all(*seat);
        }
        self.on_events(rt);
        !over.is_empty()
    }
    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.conns.is_empty() && self.under_way == 0 && self.msgs.is_empty()
    }
    /// What it has counted.
    pub fn figures(&self) -> Figures {
        let known = self.seats.iter().filter(|(_, s)| s.session.tsih() != 0);
        let info = |s: &Seat| SessionInfo {
            peer: s.peer,
            host: s.session.who().host.clone(),
            target: s.session.who().target.clone(),
            tsih: s.session.tsih(),
            connections: s.session.connections().count(),
            running: s.session.running(),
            since: s.since,
        };
        let running = self.seats.iter().filter_map(|(_, s)| Some((s.session.counted_with()?, s.session.running() as u64)));
        let mut stats = self.stats.clone();
        stats.hosts.add_running(running);
        Figures { stats, sessions: known.map(|(_, s)| info(s)).collect() }
    }
}

fn event_of(s: &Seat, kind: AuditKind, why: &str) -> AuditEvent {
    let who = s.session.who();
    let session = Some(s.session.tsih()).filter(|t| *t != 0);
    AuditEvent { kind, peer: Some(s.peer), host: who.host.clone(), export: who.target.clone(), session, detail: why.into() }
}

//! A session and its connections: a state machine without I/O.
//!
//! ```text
//!  bytes ─► framing ─► login ─► commands, data, text, task management, ping, logout ─► requests to volumes
//!  lists ◄─ outgoing ◄────────────── answers ◄─────────────────────────────────────── what volumes answer
//! ```
//!
//! Invariants: a command is answered exactly once, unless it was aborted or the session is over; memory is bounded by the limits; what a
//! host sends against the standard ends its own session at most.
//! Never: does I/O.

mod command;
mod copy;
mod judge;
mod manage;
mod out;
mod outcome;
mod reserve;
mod task;
mod wire;

use crate::framing::{Came, Fault};
use crate::limits::{COMMANDS_MAX, LOGIN_SEGMENT_BYTES_MAX, SEGMENT_BYTES_MAX, SPACE_ENOUGH_PERCENT, TEXT_BYTES_MAX, TICK, TRANSITION_MAX};
use crate::login::{Admitted, Door, Login, Step, Who, refuse, status};
use crate::params::Params;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::view::{View, portal_group};
use base::{HostId, Instant};
use cluster::{Path, PathState};
use format::iscsi::{
    AsyncMessage, Header, HostPdu, LoginRequest, LogoutRequest, LogoutResponse, NO_TAG, NopIn, NopOut, Parts, Reject, TextRequest,
    TextResponse, parse_pairs, push_pair, reject,
};
use format::scsi::SenseCode;
use frontend::{HostPlace, Place, SPACE_LOW_PERCENT};
use manage::Management;
use object::{IoRequest, VolumeRef};
pub use reserve::Asked;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use task::Task;
pub use wire::JoinedWire;
use wire::Wire;

/// What a session needs of its core.
pub struct Cx<'a> {
    /// Now.
    pub now: Instant,
    /// What is served.
    pub view: &'a View,
    /// What the cores share.
    pub shared: &'a Shared,
    /// No new sessions.
    pub draining: bool,
    /// Bytes that nobody can guess.
    pub random: &'a mut dyn FnMut(&mut [u8]),
    /// Requests to volumes.
    pub ios: &'a mut Vec<IoRequest>,
    /// Control requests.
    pub asked: &'a mut VecDeque<Asked>,
    /// What is counted.
    pub stats: &'a mut Stats,
    /// What the core is to do.
    pub events: &'a mut Vec<(u64, SessionEvent)>,
}

/// What a session asks of its core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A login has succeeded.
    LoggedIn {
        /// The host has proved who it is.
        proved: bool,
    },
    /// A login has succeeded that makes its connection one of the session with this number.
    Joins(u16),
    /// A connection has left, and is closed when all is sent.
    Left,
    /// A login was refused.
    Refused {
        /// Why, in words.
        why: &'static str,
        /// The host could not prove who it is.
        unproved: bool,
    },
    /// Its host logs out: the units that it has taken whole are to be given back before that is answered.
    GivesUnits,
    /// It is over, by this end.
    Over(&'static str),
    /// Commands of all sessions with its target are to be aborted, for the function with this tag.
    Reset {
        /// The tag of the function.
        tag: u32,
        /// The unit; `None`: all.
        lun: Option<[u8; 8]>,
        /// What the hosts are to hear then.
        attention: SenseCode,
    },
}

/// Asynchronous event: all connections of the session are dropped.
const EVENT_DROPS_ALL: u8 = 3;

/// PDUs that wait to be sent, beyond which no text is answered: an answer may be long.
const TEXTS_MAX: usize = 64;

/// [`TRANSITION_MAX`] in ticks.
const TRANSITION_TICKS: u32 = (TRANSITION_MAX.as_nanos() / TICK.as_nanos()) as u32;

/// How far it is.
enum Phase {
    Login(Box<Login>),
    /// Its connection goes to another session.
    Joins,
    Full,
    /// All that is to be sent goes out, then it is closed.
    Over,
}

/// Text that is sent in several PDUs.
#[derive(Default)]
pub(super) struct LongText {
    /// Of a request, that came.
    came: Vec<u8>,
    /// Of an answer, that is not sent.
    left: Vec<u8>,
}

/// What a host has seen of a unit, and hears of when it changes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    volume: VolumeRef,
    blocks: u64,
    path: Path,
}

/// See the module.
pub struct Session {
    token: u64,
    /// The address that the host reached.
    local: Option<IpAddr>,
    phase: Phase,
    wires: Slab<Wire>,
    who: Who,
    host_id: HostId,
    params: Params,
    tsih: u16,
    exp_cmd_sn: u32,
    started: bool,
    tasks: Slab<Task>,
    by_tag: BTreeMap<u32, u16>,
    /// Tasks that wait for memory.
    waiting: VecDeque<u16>,
    held: u64,
    r2ts: u32,
    place: Option<Place>,
    /// With which host its commands are counted, since it has begun.
    counted: Option<HostPlace>,
    attentions: BTreeMap<u32, VecDeque<SenseCode>>,
    managements: Vec<Management>,
    /// Functions that its core carries out, by the connections that they came on, and their tags.
    resets: Vec<(usize, u32)>,
    /// A logout that is answered when the units that the session has taken are given back: its connection and tag.
    leaving: Option<(usize, u32)>,
    /// Results of copies, the last one last.
    copies: VecDeque<copy::CopyResult>,
    /// The host has proved who it is.
    proved: bool,
    /// The units that it sees.
    units: BTreeMap<u32, Seen>,
    /// Units whose owner cannot be reached since not long ago, and the ticks that their paths are still said to change their state.
    moving: BTreeMap<u32, u32>,
    /// Units whose devices have little space left, as the host has heard.
    low: BTreeSet<u32>,
    /// The last notice of each unit's volume that it knows.
    notices_seen: BTreeMap<u32, (VolumeRef, u64)>,
}

impl Session {
    /// Of a connection that was accepted, `conn` at its core: number 0 of it. `token`: 16 low bits are free.
    pub fn new(token: u64, conn: u64, local: Option<IpAddr>) -> Self {
        let mut wires = Slab::new();
        wires.insert(Wire { conn, host_segment: Params::default().host_segment, ..Wire::default() });
        Session {
            token,
            local,
            phase: Phase::Login(Box::default()),
            wires,
            who: Who::default(),
            host_id: HostId::from_bytes([0; 16]),
            params: Params::default(),
            tsih: 0,
            exp_cmd_sn: 0,
            started: false,
            tasks: Slab::new(),
            by_tag: BTreeMap::new(),
            waiting: VecDeque::new(),
            held: 0,
            r2ts: 0,
            place: None,
            counted: None,
            attentions: BTreeMap::new(),
            managements: Vec::new(),
            resets: Vec::new(),
            leaving: None,
            copies: VecDeque::new(),
            proved: false,
            units: BTreeMap::new(),
            moving: BTreeMap::new(),
            low: BTreeSet::new(),
            notices_seen: BTreeMap::new(),
        }
    }

    // ---- what its core asks -----------------------------------------------------------------------------------------

    /// Who it is, as far as it is known.
    pub fn who(&self) -> &Who {
        match &self.phase {
            Phase::Login(login) => login.who(),
            _ => &self.who,
        }
    }
    /// Its number, once it has logged in.
    pub fn tsih(&self) -> u16 {
        self.tsih
    }
    /// What was agreed.
    pub fn params(&self) -> Params {
        self.params
    }
    /// Whether it has not logged in.
    pub fn is_logging_in(&self) -> bool {
        matches!(self.phase, Phase::Login(_))
    }
    /// Whether it is over: it is closed when all is sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }
    /// Requests and commands under way.
    pub fn running(&self) -> usize {
        self.tasks.len()
    }
    /// With which host its commands are counted; `None`: it has not begun, or is over.
    pub fn counted_with(&self) -> Option<HostPlace> {
        self.counted
    }
    /// From now on its commands are counted with this host, or with none any more. Gives the one before.
    pub fn count_with(&mut self, place: Option<HostPlace>) -> Option<HostPlace> {
        core::mem::replace(&mut self.counted, place)
    }
    /// Bytes of memory that its commands hold, but for unsolicited data.
    pub fn held_bytes(&self) -> u64 {
        self.held
    }
    /// The host is silent on a connection: it is asked whether it is there.
    pub fn ping(&mut self, wire: usize) {
        let Some(w) = self.wires.get_mut(wire).filter(|w| !w.over) else { return };
        if matches!(self.phase, Phase::Full) && !core::mem::replace(&mut w.pinged, true) {
            let nop = NopIn { tag: NO_TAG, transfer_tag: 1, stat_sn: w.out.stat_sn(), ..NopIn::default() };
            w.out.push(nop.to_header(0));
        }
    }
    /// Some time has passed: what other sessions held may be free.
    pub fn on_tick(&mut self, cx: &mut Cx<'_>) {
        self.grant_memory(cx);
        self.end_moves();
        self.note_space(cx.view, true);
        if let Some(place) = &mut self.place {
            place.keep(self.held);
        }
    }
    /// It is over: what runs comes to nothing.
    pub fn close(&mut self) {
        self.phase = Phase::Over;
        let idle: Vec<usize> = self.tasks.iter().filter(|(_, t)| !t.is_under_way()).map(|(slot, _)| slot).collect();
        for slot in idle {
            let task = self.tasks.remove(slot);
            self.held -= task.held;
        }
        self.tasks.iter_mut().for_each(|(_, t)| t.aborted = true);
        self.by_tag.clear();
        self.waiting.clear();
        self.managements.clear();
        self.resets.clear();
        for (_, w) in &mut self.wires {
            (w.ahead, w.rest) = (None, Vec::new());
        }
    }
    /// Something that the host is to hear about a unit.
    pub fn add_attention(&mut self, lun: u32, code: SenseCode) {
        let list = self.attentions.entry(lun).or_default();
        if !list.contains(&code) && list.len() < crate::limits::ATTENTIONS_MAX {
            list.push_back(code);
        }
    }
    /// Something else is served: its next commands say what has changed for the host. Whether it may stay.
    pub fn apply(&mut self, view: &View) -> bool {
        if !matches!(self.phase, Phase::Full) || self.who.discovery {
            return true;
        }
        if !view.target(&self.who.target).is_some_and(|t| t.allows(&self.who.host) && (self.proved || !t.authenticated)) {
            return false;
        }
        let now = self.units_of(view);
        let before = core::mem::replace(&mut self.units, now.clone());
        self.note_moves(&before);
        if !before.keys().eq(now.keys()) {
            now.keys().for_each(|lun| self.add_attention(*lun, SenseCode::REPORTED_LUNS_CHANGED));
        }
        for (lun, now) in now {
            let Some(before) = before.get(&lun) else { continue };
            if before.volume != now.volume {
                self.add_attention(lun, SenseCode::INQUIRY_DATA_CHANGED);
                continue;
            }
            if before.blocks != now.blocks {
                self.add_attention(lun, SenseCode::CAPACITY_CHANGED);
            }
            if before.path != now.path {
                self.add_attention(lun, SenseCode::ACCESS_STATE_CHANGED);
            }
        }
        self.note_reservations(view);
        true
    }
    /// Paths that cannot be used any more begin to change their state; those that can be have ended it. `before`: the units as they were.
    fn note_moves(&mut self, before: &BTreeMap<u32, Seen>) {
        let lost = |u: &Seen| u.path.state == PathState::Inaccessible;
        self.moving.retain(|lun, _| self.units.get(lun).is_some_and(lost));
        for (lun, unit) in &self.units {
            let as_before = before.get(lun).is_some_and(|b| b.volume == unit.volume && b.path == unit.path);
            if lost(unit) && !as_before {
                self.moving.insert(*lun, TRANSITION_TICKS);
            }
        }
    }
    /// Thin units whose devices have little space left by now, of which the host hears when `tells`. What was so when it came is not news.
    fn note_space(&mut self, view: &View, tells: bool) {
        let open = |unit: &Seen| view.volumes.get(unit.volume.0 as usize)?.as_ref().filter(|v| v.thin)?.open_percent();
        let known: Vec<(u32, Option<u64>)> = self.units.iter().map(|(lun, unit)| (*lun, open(unit))).collect();
        for (lun, open) in known {
            match open {
                Some(percent) if percent < SPACE_LOW_PERCENT => {
                    if self.low.insert(lun) && tells {
                        self.add_attention(lun, SenseCode::SOFT_THRESHOLD_REACHED);
                    }
                }
                Some(percent) if percent < SPACE_ENOUGH_PERCENT => {}
                _ => {
                    self.low.remove(&lun);
                }
            }
        }
    }
    /// Some time has passed: a path that has not come back is unavailable.
    fn end_moves(&mut self) {
        self.moving.values_mut().for_each(|left| *left -= 1);
        let ended: Vec<u32> = self.moving.iter().filter(|(_, left)| **left == 0).map(|(lun, _)| *lun).collect();
        for lun in ended {
            self.moving.remove(&lun);
            self.add_attention(lun, SenseCode::ACCESS_STATE_CHANGED);
        }
    }
    /// Whether the owner of a unit cannot be reached, and may be another one soon.
    fn is_moving(&self, lun: u32) -> bool {
        self.moving.contains_key(&lun)
    }
    fn units_of(&self, view: &View) -> BTreeMap<u32, Seen> {
        let luns = view.luns(&self.who.target, &self.who.host).into_iter();
        let unit = |lun| {
            let u = view.unit(&self.who.target, lun, &self.who.host, self.host_id)?;
            Some((lun, Seen { volume: u.volume, blocks: u.blocks, path: u.path }))
        };
        luns.filter_map(unit).collect()
    }
    fn pop_attention(&mut self, lun: u32) -> Option<SenseCode> {
        let list = self.attentions.get_mut(&lun)?;
        let code = list.pop_front();
        if list.is_empty() {
            self.attentions.remove(&lun);
        }
        code
    }
    fn forget_attention(&mut self, code: SenseCode) {
        self.attentions.values_mut().for_each(|l| l.retain(|c| *c != code));
    }

    // ---- what comes -------------------------------------------------------------------------------------------------

    /// Takes bytes of a connection.
    pub fn receive(&mut self, cx: &mut Cx<'_>, wire: usize, bytes: &[u8]) {
        self.take_bytes(cx, wire, bytes);
        self.take_those_ahead(cx);
    }

    fn take_bytes(&mut self, cx: &mut Cx<'_>, wire: usize, mut bytes: &[u8]) {
        let Some(w) = self.wires.get_mut(wire) else { return };
        w.pinged = false;
        let mut framing = core::mem::take(&mut w.framing);
        while !self.is_wire_over(wire) {
            if matches!(self.phase, Phase::Joins) || self.wires[wire].ahead.is_some() {
                self.wires[wire].rest.extend_from_slice(bytes);
                break;
            }
            let data_max = if self.is_logging_in() { LOGIN_SEGMENT_BYTES_MAX } else { SEGMENT_BYTES_MAX };
            match framing.take(&mut bytes, data_max, cx.now, |header| self.flows(wire, header)) {
                Ok(None) => break,
                Ok(Some(Came::Part(header, part))) => {
                    self.on_flowing(&header, part);
                    continue;
                }
                Ok(Some(Came::Whole(header, is_right, here))) => {
                    self.on_pdu(cx, wire, (&header, is_right), here.unwrap_or_else(|| framing.data()));
                }
                Ok(Some(Came::End(header, true))) => self.on_flowed(cx, &header),
                Ok(Some(Came::End(header, false))) => self.on_pdu(cx, wire, (&header, false), &[]),
                Err(Fault::TooLong) => self.end(cx, "a PDU that is too long"),
                Err(Fault::HeaderDigest) => self.end(cx, "a header with a wrong digest"),
            }
            cx.stats.pdus_in += 1;
            framing.clear();
            (framing.header_digest, framing.data_digest) = self.wires[wire].out.digests;
        }
        self.wires[wire].framing = framing;
    }

    /// A PDU: its header, whether its data is right, its data.
    fn on_pdu(&mut self, cx: &mut Cx<'_>, wire: usize, (header, is_right): (&Header, bool), data: &[u8]) {
        let immediate = Parts::parse(header).immediate;
        let pdu = HostPdu::parse(header);
        if self.is_logging_in() {
            return match pdu {
                Ok(HostPdu::Login(request)) => self.on_login(cx, wire, &request, data),
                // Nobody knows who it is: no answer (RFC 7143 6.3).
                _ => self.end(cx, "something else than a login"),
            };
        }
        let Ok(pdu) = pdu else {
            self.reject(wire, reject::NOT_SUPPORTED, header);
            return self.end(cx, "an operation code that is none");
        };
        if !is_right {
            // Without recovery within a session, it ends (RFC 7143 7.8): what was lost is not known to come again.
            self.reject(wire, reject::DATA_DIGEST, header);
            return self.end(cx, "data with a wrong digest");
        }
        let numbered = match &pdu {
            HostPdu::NopOut(n) => Some(n.cmd_sn),
            HostPdu::Command(c) => Some(c.cmd_sn),
            HostPdu::Management(m) => Some(m.cmd_sn),
            HostPdu::Text(t) => Some(t.cmd_sn),
            HostPdu::Logout(l) => Some(l.cmd_sn),
            HostPdu::Login(_) | HostPdu::DataOut(_) | HostPdu::Snack(_) => None,
        };
        if let Some(sn) = numbered.filter(|_| !immediate) {
            // Serial number arithmetic (RFC 1982).
            let ahead = sn.wrapping_sub(self.exp_cmd_sn) as i32;
            let last = self.max_cmd_sn().wrapping_sub(self.exp_cmd_sn) as i32;
            match ahead {
                0 if last >= 0 => self.exp_cmd_sn = sn.wrapping_add(1),
                // Those before it are to come on other connections.
                1.. if ahead <= last && self.has_others(wire) => return self.wait_ahead(cx, wire, header, data, sn),
                1.. if ahead <= last => return self.end(cx, "a command is missing"),
                _ => return,
            }
        }
        if let HostPdu::Management(m) = &pdu
            && immediate
            && m.cmd_sn.wrapping_sub(self.exp_cmd_sn) as i32 > 0
            && self.has_others(wire)
        {
            // What it is about may be on its way on another connection: first comes all that is before it (RFC 7143 4.2.3.3).
            return self.wait_ahead(cx, wire, header, data, m.cmd_sn);
        }
        match pdu {
            HostPdu::NopOut(n) => self.on_nop(wire, &n, data),
            HostPdu::Text(t) => self.on_text(cx, wire, &t, data, header),
            HostPdu::Logout(l) => self.on_logout(cx, wire, &l),
            _ if self.who.discovery => self.reject(wire, reject::PROTOCOL, header),
            HostPdu::Command(c) => self.on_command(cx, wire, &c, header, data),
            HostPdu::DataOut(d) => self.on_data_out(cx, wire, &d, data),
            HostPdu::Management(m) => self.on_management(cx, wire, &m),
            HostPdu::Snack(_) => self.reject(wire, reject::SNACK, header),
            HostPdu::Login(_) => {
                self.reject(wire, reject::PROTOCOL, header);
                self.end(cx, "a login after the login");
            }
        }
    }

    /// The highest CmdSN that it takes now. It never goes back: a command that comes moves both ends.
    fn max_cmd_sn(&self) -> u32 {
        let under_way = self.tasks.iter().filter(|(_, t)| !t.immediate).count() as u32;
        self.exp_cmd_sn.wrapping_add(COMMANDS_MAX.saturating_sub(under_way)).wrapping_sub(1)
    }

    /// Ends the session: what was queued is sent still.
    pub fn end(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        cx.stats.ended += 1;
        self.close();
        cx.events.push((self.token, SessionEvent::Over(why)));
    }

    /// Ends the session for a reason that is not the host's: it hears that all its connections are dropped, and may come again at once (RFC 7143
    /// 11.9.1, event 3).
    pub fn drop_all(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        if matches!(self.phase, Phase::Full) {
            for (_, w) in self.wires.iter_mut().filter(|(_, w)| !w.over) {
                let event = AsyncMessage { event: EVENT_DROPS_ALL, tag: NO_TAG, stat_sn: w.out.take_stat_sn(), ..AsyncMessage::default() };
                w.out.push(event.to_header(0));
            }
        }
        self.end(cx, why);
    }

    fn reject(&mut self, wire: usize, reason: u8, header: &Header) {
        let out = &mut self.wires[wire].out;
        let pdu = Reject { reason, tag: NO_TAG, stat_sn: out.take_stat_sn(), ..Reject::default() };
        out.push_bytes(pdu.to_header(header.len()), header);
    }

    fn on_login(&mut self, cx: &mut Cx<'_>, wire: usize, request: &LoginRequest, data: &[u8]) {
        let Phase::Login(login) = &mut self.phase else { return };
        if !core::mem::replace(&mut self.started, true) {
            self.exp_cmd_sn = request.cmd_sn;
        }
        let (view, shared, draining, random) = (cx.view, cx.shared, cx.draining, &mut *cx.random);
        let portal_group = portal_group(view.slot);
        let join = |who: &Who| shared.agreed_of(who);
        let mut door = Door { admit: &mut |who: &Who| admit(view, draining, who), join: &join, portal_group, random };
        let (mut response, mut text, mut step) = login.take(request, data, &mut door);
        if step == Step::Done
            && login.who().tsih != 0
            && let Err(refusal) = join(login.who())
        {
            // It has ended, or has become full, meanwhile.
            (response.status, response.transit, response.next) = (refusal.status, false, 0);
            (text, step) = (Vec::new(), Step::Refused(refusal.why));
        }
        if step == Step::Done {
            // Not before it has proved who it is: others must not take its places.
            let host = &login.who().host;
            self.place = shared.quotas().enter(host, view.limits_of(host, shared.host_limits()));
            if self.place.is_none() {
                (response.status, response.transit, response.next) = (status::NO_RESOURCES, false, 0);
                (text, step) = (Vec::new(), Step::Refused("the host has as many connections as it may"));
            }
        }
        let w = &mut self.wires[wire];
        response.stat_sn = w.out.take_stat_sn();
        if step == Step::Done {
            self.tsih = if login.who().tsih == 0 { cx.shared.next_tsih() } else { login.who().tsih };
            response.tsih = self.tsih;
        }
        w.out.push_bytes(response.to_header(text.len()), &text);
        match step {
            Step::GoesOn => {}
            Step::Refused(why) => {
                let unproved = response.status == status::AUTHENTICATION_FAILED;
                cx.events.push((self.token, SessionEvent::Refused { why, unproved }));
                self.who = login.who().clone();
                self.close();
            }
            Step::Done => {
                let proved = login.has_proved();
                self.proved = proved;
                (self.who, self.params) = (login.who().clone(), login.params());
                self.host_id = crate::shared::host_id(&self.who);
                w.out.digests = (self.params.header_digest, self.params.data_digest);
                (w.host_segment, w.cid) = (self.params.host_segment, self.who.cid);
                cx.stats.logins += 1;
                if self.who.tsih != 0 {
                    self.phase = Phase::Joins;
                    return cx.events.push((self.token, SessionEvent::Joins(self.tsih)));
                }
                self.phase = Phase::Full;
                self.units = self.units_of(cx.view);
                self.note_moves(&BTreeMap::new());
                self.note_space(cx.view, false);
                self.skip_reservations(cx.view);
                cx.events.push((self.token, SessionEvent::LoggedIn { proved }));
            }
        }
    }

    fn on_nop(&mut self, wire: usize, nop: &NopOut, data: &[u8]) {
        if nop.tag == NO_TAG {
            return;
        }
        let w = &mut self.wires[wire];
        let data = &data[..data.len().min(w.host_segment as usize)];
        let answer = NopIn { lun: nop.lun, tag: nop.tag, transfer_tag: NO_TAG, stat_sn: w.out.take_stat_sn(), ..NopIn::default() };
        w.out.push_bytes(answer.to_header(data.len()), data);
    }

    fn on_logout(&mut self, cx: &mut Cx<'_>, wire: usize, logout: &LogoutRequest) {
        let named = self.wires.iter().find(|(_, w)| w.cid == logout.cid && !w.over).map(|(n, _)| n);
        let response = match logout.reason {
            0 => 0,
            1 if named.is_some() => 0,
            1 => 1,
            _ => 2,
        };
        let others = self.wires.iter().any(|(n, w)| Some(n) != named && !w.over);
        let one_of_several = named.filter(|_| logout.reason == 1 && others);
        if response == 0 && one_of_several.is_none() && self.has_taken_units(cx) {
            if self.leaving.is_none() {
                self.leaving = Some((wire, logout.tag));
                cx.events.push((self.token, SessionEvent::GivesUnits));
            }
            return;
        }
        self.logout_response(wire, logout.tag, response);
        match one_of_several {
            _ if response != 0 => {}
            Some(named) => self.end_wire(cx, named),
            None => self.leave_target(cx),
        }
    }
    fn logout_response(&mut self, wire: usize, tag: u32, response: u8) {
        let Some(w) = self.wires.get_mut(wire) else { return };
        let answer = LogoutResponse { response, tag, stat_sn: w.out.take_stat_sn(), wait: 2, ..LogoutResponse::default() };
        w.out.push(answer.to_header(0));
    }
    fn leave_target(&mut self, cx: &mut Cx<'_>) {
        self.close();
        cx.events.push((self.token, SessionEvent::Over("logged out")));
    }
    /// The units that it has taken whole are given back, or cannot be now: see [`SessionEvent::GivesUnits`].
    pub fn on_units_given(&mut self, cx: &mut Cx<'_>) {
        let Some((wire, tag)) = self.leaving.take().filter(|_| !self.is_over()) else { return };
        self.logout_response(wire, tag, 0);
        self.leave_target(cx);
    }

    fn on_text(&mut self, cx: &mut Cx<'_>, wire: usize, request: &TextRequest, data: &[u8], header: &Header) {
        let w = &mut self.wires[wire];
        if w.out.len() > TEXTS_MAX {
            return self.end(cx, "it asks and does not read the answers");
        }
        if request.transfer_tag == NO_TAG {
            w.text = LongText::default();
        }
        if w.text.came.len() + data.len() > TEXT_BYTES_MAX || request.last && request.more {
            return self.reject(wire, reject::PROTOCOL, header);
        }
        if request.transfer_tag == NO_TAG || !data.is_empty() || request.more {
            w.text.came.extend_from_slice(data);
            if request.more {
                return self.send_text(wire, request, false);
            }
            let came = core::mem::take(&mut w.text.came);
            let Ok(pairs) = parse_pairs(&came) else { return self.reject(wire, reject::PROTOCOL, header) };
            let mut out = Vec::new();
            for (key, value) in pairs {
                match key {
                    // All targets are named in discovery sessions only (13.3).
                    "SendTargets" if value == "All" && !self.who.discovery => push_pair(&mut out, key, "Reject"),
                    "SendTargets" => self.send_targets(cx, value, &mut out),
                    "MaxRecvDataSegmentLength" => {
                        let mut params = Params { host_segment: self.wires[wire].host_segment, ..Params::default() };
                        params.take(key, value);
                        self.wires[wire].host_segment = params.host_segment;
                    }
                    _ => push_pair(&mut out, key, "NotUnderstood"),
                }
            }
            self.wires[wire].text.left = out;
        }
        self.send_text(wire, request, true);
    }

    /// Sends what is left of the text, as far as it fits one PDU. `whole`: the request has come whole.
    fn send_text(&mut self, wire: usize, request: &TextRequest, whole: bool) {
        let w = &mut self.wires[wire];
        let n = w.text.left.len().min(w.host_segment as usize);
        let rest = w.text.left.split_off(n);
        let part = core::mem::replace(&mut w.text.left, rest);
        let more = !w.text.left.is_empty();
        let answer = TextResponse {
            last: whole && !more,
            more,
            lun: request.lun,
            tag: request.tag,
            transfer_tag: if whole && !more { NO_TAG } else { 1 },
            stat_sn: w.out.take_stat_sn(),
            ..TextResponse::default()
        };
        w.out.push_bytes(answer.to_header(part.len()), &part);
    }

    /// The targets that the host may use: all, or the one named, or the session's own (RFC 7143 appendix C).
    fn send_targets(&self, cx: &Cx<'_>, which: &str, out: &mut Vec<u8>) {
        let wanted = |name: &str| match (which, self.who.discovery) {
            ("All", true) => true,
            ("", false) => name == self.who.target,
            (one, true) => name == one,
            (one, false) => name == one && name == self.who.target,
        };
        for target in cx.view.targets.iter().filter(|t| t.allows(&self.who.host) && wanted(&t.name)) {
            push_pair(out, "TargetName", &target.name);
            let mut add = |portal: SocketAddr, slot| push_pair(out, "TargetAddress", &format!("{portal},{}", portal_group(slot)));
            cx.shared.portals(self.local).into_iter().for_each(|portal| add(portal, cx.view.slot));
            for node in &cx.view.nodes {
                let all: Vec<_> = node.portals.iter().collect();
                let near = cluster::portals_near(&all, self.local.map(|ip| ip.to_canonical()));
                near.into_iter().for_each(|portal| add(portal.addr, node.slot));
            }
        }
    }
}

/// Whether a host may have what it asks for, and what it has to authenticate with.
fn admit(view: &View, draining: bool, who: &Who) -> Admitted {
    if draining || view.generation == 0 && view.targets.is_empty() {
        return Err(refuse(status::UNAVAILABLE, "nothing is served now"));
    }
    let credentials = view.hosts.get(&who.host).and_then(|h| h.credentials.clone());
    if !who.discovery {
        let target = view.target(&who.target).ok_or(refuse(status::NOT_FOUND, "there is no such target"))?;
        if !target.allows(&who.host) {
            return Err(refuse(status::FORBIDDEN, "the host is not on the target's list"));
        }
        if target.authenticated && credentials.is_none() {
            return Err(refuse(status::AUTHENTICATION_FAILED, "the target wants a secret, and the host has none here"));
        }
    }
    Ok(credentials)
}

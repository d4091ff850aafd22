//! The connections of a session (RFC 7143 4.2): what each has for itself, and how they come and go.
//!
//! ```text
//!  login with the session's number ─► join ─► commands, in the order of their CmdSN over all connections ─► logout of it ─► over ─► leave
//!                                                                                                      lost ─► the session is over
//! ```
//!
//! Invariants: a command is answered on the connection that it came on; a command whose turn has not come holds its connection up, and nothing else,
//! so no more is in memory than its PDU and one receive; with one connection left nothing is waited for that cannot come.

use super::out::Outgoing;
use super::{Cx, LongText, Phase, Session, SessionEvent};
use crate::framing::Framing;
use crate::limits::OUT_MAX;
use base::{Duration, Instant};
use format::iscsi::Header;
use frontend::Place;
use rt::SendList;

/// A connection of a session.
#[derive(Default)]
pub(super) struct Wire {
    /// Its token at its core.
    pub(super) conn: u64,
    pub(super) cid: u16,
    pub(super) framing: Framing,
    pub(super) out: Outgoing,
    pub(super) text: LongText,
    pub(super) pinged: bool,
    /// Bytes of data in one PDU that the host takes.
    pub(super) host_segment: u32,
    /// A command whose turn has not come.
    pub(super) ahead: Option<Ahead>,
    /// What came behind it, or behind the login.
    pub(super) rest: Vec<u8>,
    /// It is closed when all is sent.
    pub(super) over: bool,
    /// Its place among the connections of its host, but of one connection of a session: that place is the session's.
    pub(super) place: Option<Place>,
}

/// A command whose turn has not come.
pub(super) struct Ahead {
    pub(super) header: Header,
    pub(super) data: Vec<u8>,
    pub(super) sn: u32,
    pub(super) since: Instant,
}

impl Session {
    /// The tokens of its connections, of those that are not closed.
    pub fn connections(&self) -> impl Iterator<Item = u64> + '_ {
        self.wires.iter().map(|(_, w)| w.conn)
    }
    /// Whether a connection of it is over: it is closed when all is sent.
    pub fn is_wire_over(&self, wire: usize) -> bool {
        self.is_over() || self.wires.get(wire).is_none_or(|w| w.over)
    }
    /// When the PDU began of which a part has come.
    pub fn pdu_began(&self, wire: usize) -> Option<Instant> {
        self.wires.get(wire)?.framing.began()
    }
    /// Since when a command waits for those before it.
    pub fn waits_since(&self, wire: usize) -> Option<Instant> {
        Some(self.wires.get(wire)?.ahead.as_ref()?.since)
    }
    /// A connection was not read, or not looked at, for so long: what waits on it has that much longer.
    pub fn give_time(&mut self, wire: usize, time: Duration) {
        let Some(w) = self.wires.get_mut(wire) else { return };
        w.framing.give_time(time);
        if let Some(ahead) = &mut w.ahead {
            ahead.since += time;
        }
    }
    /// Whether a connection may be read.
    pub fn wants_bytes(&self, wire: usize) -> bool {
        self.wires.get(wire).is_some_and(|w| w.out.len() < OUT_MAX && w.ahead.is_none())
    }
    /// Whether there is something to send.
    pub fn has_send(&self, wire: usize) -> bool {
        self.wires.get(wire).is_some_and(|w| w.out.is_waiting())
    }
    /// What is to be sent next.
    pub fn take_send(&mut self, wire: usize) -> Option<SendList> {
        let (exp, max) = (self.exp_cmd_sn, self.max_cmd_sn());
        self.wires.get_mut(wire)?.out.take(exp, max)
    }
    /// A send has come back.
    pub fn sent(&mut self, cx: &mut Cx<'_>, wire: usize, list: SendList) {
        let Some(w) = self.wires.get_mut(wire) else { return };
        self.held -= w.out.sent(list);
        if let Some(place) = &mut self.place {
            place.keep(self.held);
        }
        self.grant_memory(cx);
    }

    /// Its only connection, which has logged in to be one of another session.
    pub fn give_wire(&mut self) -> Option<JoinedWire> {
        let key = self.wires.iter().next()?.0;
        let mut wire = self.wires.remove(key);
        wire.place = self.place.take();
        Some(JoinedWire(wire))
    }
    /// Takes a connection that has logged in: its number. One with the same CID is over (RFC 7143 6.3.4).
    pub fn join(&mut self, cx: &mut Cx<'_>, JoinedWire(mut wire): JoinedWire) -> usize {
        let same = self.wires.iter().find(|(_, w)| w.cid == wire.cid && !w.over).map(|(n, _)| n);
        let rest = core::mem::take(&mut wire.rest);
        let number = self.wires.insert(wire);
        if let Some(old) = same {
            self.end_wire(cx, old);
        }
        if !rest.is_empty() {
            self.receive(cx, number, &rest);
        }
        number
    }
    /// The CIDs of its connections.
    pub fn cids(&self) -> Vec<u16> {
        self.wires.iter().filter(|(_, w)| !w.over).map(|(_, w)| w.cid).collect()
    }
    /// A connection ends, and the session goes on: what came on it and is not answered comes to nothing.
    pub(super) fn end_wire(&mut self, cx: &mut Cx<'_>, wire: usize) {
        let w = &mut self.wires[wire];
        w.over = true;
        (w.ahead, w.rest) = (None, Vec::new());
        let hit: Vec<u16> = self.tasks.iter().filter(|(_, t)| t.wire == wire).map(|(slot, _)| slot as u16).collect();
        self.abort_slots(cx, &hit);
        self.forget_managements(wire);
        cx.events.push((self.token, SessionEvent::Left));
        self.end_if_stuck(cx);
    }
    /// A command that waits for others, and is on the last connection, waits for ever.
    fn end_if_stuck(&mut self, cx: &mut Cx<'_>) {
        let mut left = self.wires.iter().filter(|(_, w)| !w.over);
        if let (Some((_, w)), None) = (left.next(), left.next())
            && w.ahead.is_some()
        {
            self.end(cx, "a command is missing");
        }
    }
    /// A connection is closed, and nothing of it is under way. Whether it was the last one.
    pub fn leave(&mut self, wire: usize) -> bool {
        let Some(gone) = self.wires.try_remove(wire) else { return self.wires.is_empty() };
        // What it could not send is not held any more.
        self.held -= gone.out.held();
        if gone.place.is_none() {
            // The session keeps its place as long as it has a connection, for the memory: another one gives up its own.
            if let Some((_, w)) = self.wires.iter_mut().find(|(_, w)| w.place.is_some()) {
                w.place = None;
            }
        }
        self.wires.is_empty()
    }

    /// Whether another connection of it is there.
    pub(super) fn has_others(&self, wire: usize) -> bool {
        self.wires.iter().any(|(n, w)| n != wire && !w.over)
    }
    /// A PDU whose turn has not come.
    pub(super) fn wait_ahead(&mut self, cx: &Cx<'_>, wire: usize, header: &Header, data: &[u8], sn: u32) {
        self.wires[wire].ahead = Some(Ahead { header: *header, data: data.to_vec(), sn, since: cx.now });
    }
    /// Commands whose turn has come, of connections that they hold up.
    pub(super) fn take_those_ahead(&mut self, cx: &mut Cx<'_>) {
        while matches!(self.phase, Phase::Full) {
            let due = |w: &Wire| w.ahead.as_ref().is_some_and(|a| a.sn.wrapping_sub(self.exp_cmd_sn) as i32 <= 0);
            let Some((number, _)) = self.wires.iter().find(|(_, w)| due(w)) else { return };
            let Some(ahead) = self.wires[number].ahead.take() else { return };
            self.on_pdu(cx, number, (&ahead.header, true), &ahead.data);
            let rest = self.wires.get_mut(number).map(|w| core::mem::take(&mut w.rest)).unwrap_or_default();
            self.take_bytes(cx, number, &rest);
        }
    }
}

/// A connection on its way to its session.
pub struct JoinedWire(Wire);

impl JoinedWire {
    /// Its token at its core.
    pub fn conn(&self) -> u64 {
        self.0.conn
    }
}

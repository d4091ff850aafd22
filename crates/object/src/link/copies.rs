//! What the copies of mirrors need of a link: changes and reads for them, both ways. Beside the requests that are passed on, with bounds of its own:
//! a change that an owner waits for must never wait for requests that wait for owners.
//!
//! Owns: what this node has sent and is not answered, what waits for room, and what the other node has asked.
//! Invariants: at most [`COPY_OPS_MAX`] and [`COPY_BYTES_MAX`] are under way each way, those that one end answers counting until the other has heard;
//! requests go in the order in which they were given; an answer goes with what was asked. When the link ends nothing is said of what was under
//! way: whoever asked asks again on the next link.
//! Never: judges a change.

use super::credit::Held;
use super::fault::LinkFault;
use super::incoming::{Arrival, Arriving};
use super::limits::{COPY_BYTES_MAX, COPY_OPS_MAX};
use super::phase::{LinkPhase, Session};
use super::request::ServedId;
use super::{Link, LinkEvent, push};
use crate::copies::{CopyAnswer, CopyAsk};
use crate::io::{Data, DataVec};
use base::hooks;
use base::unit::BLOCK_BYTES;
use base::{Seq, SourceContent, SourceRun, crc32c};
use format::peer::{
    Ack, COPIES_VERSION, Change, CopyData, CopyOutcome, CopyRead, Header, LIST_ENTRY_BYTES, List, ListEntry, Listed, RequestId,
};
use rt::Buf;
use std::collections::{BTreeMap, VecDeque};
use store::{CopyChunk, CopyList};

/// What a request asked for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Change(Seq),
    /// So many blocks; `run`: as many of them as are of one kind.
    Read {
        blocks: u32,
        run: bool,
    },
    List {
        from: u64,
        most: u32,
    },
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    token: u64,
    asked: Asked,
    cost: u64,
}

impl UnderWay {
    fn of(token: u64, ask: &CopyAsk) -> Self {
        let asked = match ask {
            CopyAsk::Change { change, .. } => Asked::Change(change.order.seq),
            CopyAsk::Read(read) => Asked::Read { blocks: read.blocks, run: read.run },
            CopyAsk::List(list) => Asked::List { from: list.from, most: list.most },
        };
        Self { token, asked, cost: ask.cost() }
    }
    /// Whether an answer to a read, with so many bytes of data, is one to this.
    fn is_answered_by(&self, outcome: CopyOutcome, found: Option<SourceRun>, bytes: u32) -> bool {
        let Asked::Read { blocks, run } = self.asked else { return false };
        let all = blocks * BLOCK_BYTES as u32;
        match (outcome, found) {
            (CopyOutcome::Done, Some(found)) if run => {
                let data = if found.content == SourceContent::Data { found.blocks * BLOCK_BYTES as u32 } else { 0 };
                found.blocks <= blocks && bytes == data
            }
            (CopyOutcome::Done, None) => !run && bytes == all,
            (_, found) => found.is_none() && bytes == 0,
        }
    }
}

/// Requests of one direction that are under way.
#[derive(Debug, Default)]
struct Way {
    requests: BTreeMap<RequestId, UnderWay>,
    held: Held,
}

impl Way {
    fn has_room(&self, cost: u64) -> bool {
        (self.held.ops as usize) < hooks::tiny(COPY_OPS_MAX, 4) && self.held.bytes + cost <= COPY_BYTES_MAX
    }
    fn begin(&mut self, id: RequestId, request: UnderWay) {
        self.held = self.held.plus(Held::one(request.cost));
        self.requests.insert(id, request);
    }
    fn end(&mut self, id: RequestId) -> Option<UnderWay> {
        let request = self.requests.remove(&id)?;
        self.held = Held { ops: self.held.ops - 1, bytes: self.held.bytes - request.cost };
        Some(request)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CopyTraffic {
    waiting: VecDeque<(u64, CopyAsk)>,
    sent: Way,
    served: Way,
    /// Of the last request, each way.
    serial: u64,
    last_served: u64,
}

impl CopyTraffic {
    /// Nothing is under way or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent.requests.is_empty() && self.served.requests.is_empty()
    }
    /// A request comes in. Whether it may.
    fn arrive(&mut self, id: RequestId, request: UnderWay) -> Result<(), LinkFault> {
        if id.serial() <= self.last_served {
            return Err(LinkFault::Request);
        }
        if (self.served.held.ops as usize) >= COPY_OPS_MAX || self.served.held.bytes + request.cost > COPY_BYTES_MAX {
            return Err(LinkFault::Credits);
        }
        self.last_served = id.serial();
        self.served.begin(id, request);
        Ok(())
    }
}

impl Session {
    fn copies(&mut self) -> Result<&mut CopyTraffic, LinkFault> {
        if self.version >= COPIES_VERSION { Ok(&mut self.copies) } else { Err(LinkFault::Version) }
    }
}

impl Link {
    /// Whether the other node knows the messages for copies, while there is a session.
    pub fn knows_copies(&self) -> bool {
        self.phase.session().is_some_and(|session| session.version >= COPIES_VERSION)
    }
    /// Takes a request for a copy at the other node. It is answered by [`LinkEvent::CopyAnswered`], or the link ends. Without a session, or when the
    /// other node does not know such requests, it is dropped.
    pub fn ask_copy(&mut self, token: u64, ask: CopyAsk) {
        let Some(Ok(copies)) = self.phase.session_mut().map(Session::copies) else { return };
        copies.waiting.push_back((token, ask));
        self.pump_copies();
    }
    /// Sends what waits, as far as there is room.
    fn pump_copies(&mut self) {
        let Some(session) = self.phase.session_mut() else { return };
        while let Some((_, ask)) = session.copies.waiting.front() {
            if !session.copies.sent.has_room(ask.cost()) {
                return;
            }
            let (token, ask) = session.copies.waiting.pop_front().expect("seen above");
            session.copies.serial += 1;
            let id = RequestId::new(session.copies.serial, 0);
            session.copies.sent.begin(id, UnderWay::of(token, &ask));
            match ask {
                CopyAsk::Change { mut change, data } => {
                    change.request = id;
                    let crcs = data.as_ref().map_or(&[][..], |data| &data.crcs);
                    push(session, &mut self.outgoing, |envelope, out| change.write(envelope, crcs, out));
                    if let Some(data) = data {
                        self.outgoing.push_data(data.buf);
                    }
                }
                CopyAsk::Read(read) => {
                    let read = CopyRead { request: id, ..read };
                    push(session, &mut self.outgoing, |envelope, out| read.write(envelope, out));
                }
                CopyAsk::List(list) => {
                    let list = List { request: id, ..list };
                    push(session, &mut self.outgoing, |envelope, out| list.write(envelope, out));
                }
            }
        }
    }
    /// Answers a request for a copy. Nothing happens when its session is over.
    ///
    /// # Panics
    /// When the data is not what was asked for.
    pub fn answer_copy(&mut self, id: ServedId, answer: CopyAnswer) {
        let Some(session) = self.phase.session_mut().filter(|session| session.id == id.session) else { return };
        let Some(request) = session.copies.served.end(id.request) else { return };
        let CopyAnswer { outcome, data, run, list } = answer;
        match request.asked {
            Asked::Change(seq) => {
                let ack = Ack { request: id.request, incarnation: session.incarnation, seq, outcome };
                push(session, &mut self.outgoing, |envelope, out| ack.write(envelope, out));
            }
            Asked::Read { .. } => {
                let data = data.filter(|_| outcome == CopyOutcome::Done);
                let bytes = data.as_ref().map_or(0, |data| data.buf.len() as u32);
                assert!(request.is_answered_by(outcome, run, bytes), "a read has the data that was asked for");
                let crcs = data.as_ref().map_or(&[][..], |data| &data.crcs);
                let answer = CopyData { request: id.request, outcome, run };
                push(session, &mut self.outgoing, |envelope, out| answer.write(envelope, crcs, out));
                if let Some(data) = data {
                    self.outgoing.push_data(data.buf);
                }
            }
            Asked::List { .. } => self.answer_list(id.request, outcome, list),
        }
        self.settle();
    }

    #[cold]
    #[inline(never)]
    fn answer_list(&mut self, request: RequestId, outcome: CopyOutcome, list: Option<CopyList>) {
        let Some(session) = self.phase.session_mut() else { return };
        let list = list.filter(|_| outcome == CopyOutcome::Done);
        let CopyList { chunks, next } = list.unwrap_or(CopyList { chunks: Vec::new(), next: None });
        let mut data = Buf::alloc(chunks.len() * LIST_ENTRY_BYTES);
        for (out, chunk) in data.chunks_exact_mut(LIST_ENTRY_BYTES).zip(&chunks) {
            let CopyChunk { chunk, there, own_doubt } = *chunk;
            ListEntry { chunk, there, own_doubt }.put(out);
        }
        let (crc, answer) = (crc32c(&data), Listed { request, outcome, chunks: chunks.len() as u32, next });
        push(session, &mut self.outgoing, |envelope, out| answer.write(envelope, crc, out));
        if !chunks.is_empty() {
            self.outgoing.push_data(data);
        }
    }

    /// An answer to a change has come.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> Result<(), LinkFault> {
        let Some(session) = self.phase.session_mut() else { return Ok(()) };
        if ack.incarnation != session.own {
            return Err(LinkFault::Answer);
        }
        let is = |request: &UnderWay| matches!(request.asked, Asked::Change(seq) if seq == ack.seq);
        let request = session.copies()?.sent.end(ack.request).filter(is).ok_or(LinkFault::Answer)?;
        self.events.push_back(LinkEvent::CopyAnswered(request.token, ack.outcome.into()));
        self.pump_copies();
        self.settle();
        Ok(())
    }
    /// A change is there with all its data.
    pub(super) fn on_change(&mut self, change: Change, data: DataVec) {
        let ask = CopyAsk::Change { change: Box::new(change), data: data.into_iter().next() };
        self.copy_asked(change.request, ask);
    }
    /// A read or a list is asked for.
    pub(super) fn on_copy_ask(&mut self, request: RequestId, ask: CopyAsk) -> Result<(), LinkFault> {
        let Some(session) = self.phase.session_mut() else { return Ok(()) };
        session.copies()?.arrive(request, UnderWay::of(0, &ask))?;
        self.copy_asked(request, ask);
        Ok(())
    }
    fn copy_asked(&mut self, request: RequestId, ask: CopyAsk) {
        let Some(session) = self.phase.session() else { return };
        self.events.push_back(LinkEvent::CopyAsked(ServedId { session: session.id, request }, ask));
    }
    /// The answer to a read is there with all its data.
    pub(super) fn on_copy_data(&mut self, answer: &CopyData, data: DataVec) {
        let Some(session) = self.phase.session_mut() else { return };
        let request = session.copies.sent.end(answer.request).expect("it was there when the body came, and only an answer takes it");
        let data: Option<Data> = data.into_iter().next();
        let answer = CopyAnswer { outcome: answer.outcome, data, run: answer.run, list: None };
        self.events.push_back(LinkEvent::CopyAnswered(request.token, answer));
        self.pump_copies();
    }
    /// The answer to a list is there with all its chunks.
    #[cold]
    pub(super) fn on_listed(&mut self, listed: &Listed, data: DataVec) -> Result<(), LinkFault> {
        let Some(session) = self.phase.session_mut() else { return Ok(()) };
        let request = session.copies.sent.end(listed.request).expect("it was there when the body came, and only an answer takes it");
        let Asked::List { from, .. } = request.asked else { unreachable!("seen when the body came") };
        let mut answer = CopyAnswer::from(listed.outcome);
        if listed.outcome == CopyOutcome::Done {
            let entries = ListEntry::parse_all(data.first().map_or(&[][..], |data| &data.buf), from, listed.next)?;
            let chunk = |ListEntry { chunk, there, own_doubt }| CopyChunk { chunk, there, own_doubt };
            answer.list = Some(CopyList { chunks: entries.into_iter().map(chunk).collect(), next: listed.next });
        }
        self.events.push_back(LinkEvent::CopyAnswered(request.token, answer));
        self.pump_copies();
        Ok(())
    }
}

/// Before memory is taken for a change's data.
pub(super) fn arriving_change(phase: &mut LinkPhase, header: &Header, body: &[u8]) -> Result<Arrival, LinkFault> {
    let (change, sums) = Change::parse(body, header.data_bytes)?;
    if let Some(session) = phase.session_mut() {
        let request = UnderWay { token: 0, asked: Asked::Change(change.order.seq), cost: change.data_bytes().into() };
        session.copies()?.arrive(change.request, request)?;
    }
    Ok(Arrival::new(Arriving::Change(change), header, &sums))
}

/// Before memory is taken for the data of a read's answer.
pub(super) fn arriving_copy_data(phase: &LinkPhase, header: &Header, body: &[u8]) -> Result<Arrival, LinkFault> {
    let (answer, sums) = CopyData::parse(body, header.data_bytes)?;
    let sent = phase.session().and_then(|session| session.copies.sent.requests.get(&answer.request)).ok_or(LinkFault::Answer)?;
    let right = sent.is_answered_by(answer.outcome, answer.run, header.data_bytes[0]);
    if right { Ok(Arrival::new(Arriving::CopyData(answer), header, &sums)) } else { Err(LinkFault::Answer) }
}

/// Before memory is taken for the chunks of a list.
#[cold]
pub(super) fn arriving_listed(phase: &LinkPhase, header: &Header, body: &[u8]) -> Result<Arrival, LinkFault> {
    let (listed, sums) = Listed::parse(body, header.data_bytes)?;
    let sent = phase.session().and_then(|session| session.copies.sent.requests.get(&listed.request)).ok_or(LinkFault::Answer)?;
    let right = matches!(sent.asked, Asked::List { most, .. } if listed.chunks <= most);
    if right { Ok(Arrival::new(Arriving::Listed(listed), header, &sums)) } else { Err(LinkFault::Answer) }
}

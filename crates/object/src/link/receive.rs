//! Bytes from the other node: headers, bodies, data, and what each message does.

use super::copies::{CopyTraffic, arriving_change, arriving_copy_data, arriving_listed};
use super::credit::Spending;
use super::fault::{CloseReason, LinkFault};
use super::incoming::{Arrival, Arriving, Expected};
use super::limits::LAND_BYTES_MIN;
use super::pending::Pending;
use super::phase::{Goodbyes, Judging, LinkPhase, PhaseStep, Session};
use super::request::{Answered, Forwarded, ServedId, SessionId, result_of};
use super::served::Served;
use super::{ForwardError, Link, LinkEvent, Protection};
use crate::copies::CopyAsk;
use crate::io::DataVec;
use base::Instant;
use base::hooks::{self, SeededFault};
use format::peer::{
    Ack, Cancel, Control, CopyRead, Done, Forward, Goodbye, GoodbyeReason, HEADER_BYTES, Header, Hello, HelloAnswer, LinkClass, List,
    MessageKind, Outcome, Refusal, Tick,
};
use rt::Buf;
use std::ops::Range;

impl Link {
    /// Takes bytes as they came, in order; all of them. Look at the events after it.
    pub fn receive(&mut self, now: Instant, mut bytes: &[u8]) {
        if !bytes.is_empty() {
            self.heard_at = now;
        }
        while !bytes.is_empty() && !self.is_closed() {
            match self.step(now, bytes) {
                Ok(used) => bytes = &bytes[used..],
                Err(fault) => self.fault(fault),
            }
        }
    }
    /// Where the next bytes go, when they are much data of one request: a buffer, and the part of it. Whoever takes it receives into it and gives
    /// it to [`Link::landed`] before anything else.
    pub fn land(&mut self) -> Option<(Buf, Range<usize>)> {
        match self.incoming.expected() {
            Expected::Data(_, arrival) if arrival.rest() >= LAND_BYTES_MIN && !self.phase.is_closed() => Some(arrival.land()),
            _ => None,
        }
    }
    /// The buffer of [`Link::land`] is back, with `n` more bytes at the beginning of the part that was given with it.
    pub fn landed(&mut self, now: Instant, buf: Buf, n: usize) {
        if n > 0 {
            self.heard_at = now;
        }
        if let Expected::Data(_, arrival) = self.incoming.expected() {
            arrival.landed(buf, n);
            if let Err(fault) = self.data_came(now) {
                self.fault(fault);
            }
        }
    }

    /// Uses some of the bytes; how many.
    fn step(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, LinkFault> {
        match self.incoming.expected() {
            Expected::Head => {
                let used = self.incoming.gather(bytes, HEADER_BYTES);
                if self.incoming.whole(HEADER_BYTES) {
                    let head = self.incoming.gathered().first_chunk().expect("a header is no longer than a body");
                    let header = Header::parse(head)?;
                    self.check_header(&header)?;
                    self.incoming.expect(Expected::Body(header));
                }
                Ok(used)
            }
            Expected::Body(header) => {
                let header = *header;
                let want = header.body_bytes as usize;
                let used = self.incoming.gather(bytes, want);
                if self.incoming.whole(want) {
                    self.incoming.expect(Expected::Head);
                    self.body_came(now, &header)?;
                }
                Ok(used)
            }
            Expected::Data(_, arrival) => {
                let used = arrival.fill(bytes);
                self.data_came(now)?;
                Ok(used)
            }
        }
    }

    /// Whether such a message may come now.
    fn check_header(&self, header: &Header) -> Result<(), LinkFault> {
        let kind = header.kind;
        let in_order = match &self.phase {
            LinkPhase::Awaiting(_) => kind == MessageKind::Hello,
            LinkPhase::Greeting(_) => matches!(kind, MessageKind::HelloAnswer | MessageKind::Refusal),
            LinkPhase::Judging(_) | LinkPhase::Closed(_) => false,
            LinkPhase::Draining(_, Goodbyes::Both) => !kind.is_greeting() && kind != MessageKind::Forward,
            LinkPhase::Open(_) | LinkPhase::Draining(_, Goodbyes::Sent) => !kind.is_greeting(),
        };
        if !in_order {
            return Err(LinkFault::Order(kind));
        }
        if self.phase.session_id().is_some_and(|id| id.no != header.envelope.session) {
            return Err(LinkFault::Session);
        }
        let Some(session) = self.phase.session() else { return Ok(()) };
        let anywhere = matches!(kind, MessageKind::Tick | MessageKind::Goodbye);
        if !anywhere && kind.is_control() != (session.class == LinkClass::Control) {
            return Err(LinkFault::Order(kind));
        }
        if session.version == header.envelope.version { Ok(()) } else { Err(LinkFault::Version) }
    }

    /// A body is there.
    fn body_came(&mut self, now: Instant, header: &Header) -> Result<(), LinkFault> {
        let body = &self.incoming.gathered()[..header.body_bytes as usize];
        header.check_body(body)?;
        match header.kind {
            MessageKind::Hello => return self.on_hello(header, Hello::parse(body)?),
            MessageKind::HelloAnswer => return self.on_hello_answer(now, header, HelloAnswer::parse(body)?),
            MessageKind::Refusal => {
                self.close(CloseReason::Refused(Refusal::parse(body)?));
                return Ok(());
            }
            MessageKind::Tick => self.on_tick(Tick::parse(body)?)?,
            MessageKind::Goodbye => self.on_goodbye(Goodbye::parse(body)?)?,
            MessageKind::Cancel => self.on_cancel(Cancel::parse(body)?),
            MessageKind::Heartbeat
            | MessageKind::Grant
            | MessageKind::Release
            | MessageKind::Fence
            | MessageKind::Fenced
            | MessageKind::BadBlock
            | MessageKind::CopyFails
            | MessageKind::Load => {
                self.events.push_back(LinkEvent::Control(Control::parse(header.kind, body)?));
            }
            MessageKind::Forward => {
                let (forward, sums) = Forward::parse(body, header.data_bytes)?;
                check_forward(&mut self.phase, &forward)?;
                let arrival = Arrival::new(Arriving::Request(forward), header, &sums);
                return self.data_comes(now, header, arrival);
            }
            MessageKind::Ack => self.on_ack(&Ack::parse(body)?)?,
            MessageKind::CopyRead => {
                let read = CopyRead::parse(body)?;
                self.on_copy_ask(read.request, CopyAsk::Read(read))?;
            }
            MessageKind::List => {
                let list = List::parse(body)?;
                self.on_copy_ask(list.request, CopyAsk::List(list))?;
            }
            MessageKind::Change => {
                let arrival = arriving_change(&mut self.phase, header, body)?;
                return self.data_comes(now, header, arrival);
            }
            MessageKind::CopyData => {
                let arrival = arriving_copy_data(&self.phase, header, body)?;
                return self.data_comes(now, header, arrival);
            }
            MessageKind::Listed => {
                let arrival = arriving_listed(&self.phase, header, body)?;
                return self.data_comes(now, header, arrival);
            }
            MessageKind::Done => {
                let (done, sums) = Done::parse(body, header.data_bytes)?;
                check_done(&self.phase, header, &done)?;
                let arrival = Arrival::new(Arriving::Answer(done), header, &sums);
                return self.data_comes(now, header, arrival);
            }
        }
        self.hear(header)
    }
    /// The data of a message comes next, if it has any.
    fn data_comes(&mut self, now: Instant, header: &Header, arrival: Arrival) -> Result<(), LinkFault> {
        self.incoming.expect(Expected::Data(*header, arrival));
        self.data_came(now)
    }
    /// More data of a message is there, perhaps all.
    fn data_came(&mut self, now: Instant) -> Result<(), LinkFault> {
        if !matches!(self.incoming.expected(), Expected::Data(_, arrival) if arrival.is_whole()) {
            return Ok(());
        }
        let Expected::Data(header, arrival) = self.incoming.expect(Expected::Head) else { unreachable!("seen above") };
        let unprotected = self.protection == Protection::Plain && !hooks::seeded(SeededFault::LinkDataUnverified);
        if unprotected && !arrival.is_right() {
            return Err(LinkFault::Data);
        }
        let what = arrival.what;
        let data = arrival.into_data();
        match what {
            Arriving::Request(forward) => self.on_request(now, &forward, data),
            Arriving::Answer(done) => self.on_done(&done, data),
            Arriving::Change(change) => self.on_change(change, data),
            Arriving::CopyData(answer) => self.on_copy_data(&answer, data),
            Arriving::Listed(listed) => self.on_listed(&listed, data)?,
        }
        self.hear(&header)?;
        self.settle();
        Ok(())
    }
    /// What a message says of credits counts when all of it is there: then the other node has sent what it held.
    fn hear(&mut self, header: &Header) -> Result<(), LinkFault> {
        let Some(session) = self.phase.session_mut() else { return Ok(()) };
        if !session.spending.hear(header.envelope.totals) {
            return Err(LinkFault::Credits);
        }
        self.pump();
        Ok(())
    }

    fn on_hello(&mut self, header: &Header, hello: Hello) -> Result<(), LinkFault> {
        let LinkPhase::Awaiting(until) = self.phase else { unreachable!("a Hello in another phase is refused") };
        let session = SessionId { incarnation: hello.incarnation, no: header.envelope.session };
        let allowed = header.envelope.totals;
        self.phase.enter(PhaseStep::Judge(Judging { until, hello, session, allowed }));
        self.events.push_back(LinkEvent::Greeted(hello, session));
        Ok(())
    }
    fn on_hello_answer(&mut self, now: Instant, header: &Header, answer: HelloAnswer) -> Result<(), LinkFault> {
        let LinkPhase::Greeting(greeting) = &self.phase else { unreachable!("an answer in another phase is refused") };
        let HelloAnswer { from, incarnation, clock, version, window } = answer;
        if from != greeting.hello.to || incarnation < greeting.incarnation_min {
            self.close(CloseReason::OtherNode);
            return Ok(());
        }
        if !greeting.hello.versions.has(version) {
            return Err(LinkFault::Version);
        }
        let spending = Spending::new(window, header.envelope.totals).ok_or(LinkFault::Credits)?;
        let session = Session {
            id: greeting.session,
            class: greeting.hello.class,
            version,
            incarnation,
            own: greeting.hello.incarnation,
            clock,
            tick_sent: now,
            granting: greeting.granting,
            pending: Pending::new(window.ops),
            spending,
            served: Served::new(greeting.hello.window.ops),
            copies: CopyTraffic::default(),
        };
        self.phase.enter(PhaseStep::Open(Box::new(session)));
        self.events.push_back(LinkEvent::Opened { incarnation, version });
        Ok(())
    }
    fn on_tick(&mut self, tick: Tick) -> Result<(), LinkFault> {
        let Some(session) = self.phase.session_mut() else { return Ok(()) };
        if tick.clock < session.clock {
            return Err(LinkFault::Clock);
        }
        session.clock = tick.clock;
        Ok(())
    }
    fn on_goodbye(&mut self, goodbye: Goodbye) -> Result<(), LinkFault> {
        if goodbye.reason != GoodbyeReason::Drained {
            self.close(CloseReason::Ended(goodbye.reason));
            return Ok(());
        }
        if matches!(self.phase, LinkPhase::Draining(_, Goodbyes::Both)) {
            return Err(LinkFault::Order(MessageKind::Goodbye));
        }
        if self.is_open() {
            self.say_goodbye();
        }
        self.phase.enter(PhaseStep::Drain(Goodbyes::Both));
        self.settle();
        Ok(())
    }
    fn on_cancel(&mut self, cancel: Cancel) {
        let Some(session) = self.phase.session_mut() else { return };
        if session.served.cancel(cancel.request) {
            let id = ServedId { session: session.id, request: cancel.request };
            self.events.push_back(LinkEvent::Cancelled(id));
        }
    }

    /// A request is there with all its data.
    fn on_request(&mut self, now: Instant, forward: &Forward, data: DataVec) {
        let draining = matches!(self.phase, LinkPhase::Draining(..));
        let Some(session) = self.phase.session_mut() else { return };
        session.served.queue(forward.request, now);
        let forwarded = Forwarded::of(session.id, forward, data);
        if draining {
            return self.finish(forwarded.id, Some(Err(ForwardError::Draining)), DataVec::new());
        }
        self.events.push_back(LinkEvent::Forwarded(forwarded));
    }
    /// An answer is there with all its data.
    fn on_done(&mut self, done: &Done, data: DataVec) {
        let Some(session) = self.phase.session_mut() else { return };
        let sent = session.pending.take(done.request).expect("it was there when the body came, and only an answer takes it");
        self.events.push_back(LinkEvent::Answered(Answered { request: sent.request, result: result_of(done), data }));
    }
}

/// Before memory is taken for a request's data.
fn check_forward(phase: &mut LinkPhase, forward: &Forward) -> Result<(), LinkFault> {
    let Some(session) = phase.session_mut() else { return Ok(()) };
    if !session.granting.arrive(forward.cost()) {
        return Err(LinkFault::Credits);
    }
    if session.served.arrive(forward) { Ok(()) } else { Err(LinkFault::Request) }
}

/// Before memory is taken for an answer's data.
fn check_done(phase: &LinkPhase, header: &Header, done: &Done) -> Result<(), LinkFault> {
    let sent = phase.session().and_then(|session| session.pending.get(done.request)).ok_or(LinkFault::Answer)?;
    let right = done.outcome != Outcome::Done || header.data_bytes == sent.answer_bytes;
    if right { Ok(()) } else { Err(LinkFault::Answer) }
}

//! What goes through an open link: requests of this node, and answers to those of the other.

use super::credit::{self, Held};
use super::limits::{STAMP_AGE_MAX, WAITING_MAX};
use super::pending::Cancelling;
use super::phase::LinkPhase;
use super::request::{Answered, ForwardError, ForwardRequest, ServedId, segment};
use super::served::NotBegun;
use super::{Link, LinkEvent, push};
use crate::io::{Data, DataVec};
use arrayvec::ArrayVec;
use base::Instant;
use base::hooks::{self, SeededFault};
use format::peer::{Cancel, Done, Outcome, RequestId, Revision, SEGMENTS_MAX, Segment, Tick};

impl Link {
    /// Takes a request for the other node. It is answered exactly once, by [`LinkEvent::Answered`], possibly at once.
    pub fn submit(&mut self, request: ForwardRequest) {
        let LinkPhase::Open(session) = &mut self.phase else { return self.answer_locally(request, ForwardError::Unsent) };
        if session.pending.waiting().len() >= hooks::tiny(WAITING_MAX, 4) {
            return self.answer_locally(request, ForwardError::Busy);
        }
        session.pending.waiting().push_back(request);
        self.pump();
    }
    fn answer_locally(&mut self, request: ForwardRequest, why: ForwardError) {
        self.events.push_back(LinkEvent::Answered(Answered { request, result: Err(why), data: DataVec::new() }));
    }
    /// Sends what waits, as far as the credits go. What is too old already, by what the other node's clock is at least, is answered so.
    pub(super) fn pump(&mut self) {
        let LinkPhase::Open(session) = &mut self.phase else { return };
        while let Some(request) = session.pending.waiting().front() {
            let stamp = request.stamp;
            if stamp.incarnation != session.incarnation || session.clock.since(stamp.clock) > STAMP_AGE_MAX {
                let request = session.pending.waiting().pop_front().expect("seen above");
                self.events.push_back(LinkEvent::Answered(Answered { request, result: Err(ForwardError::TooOld), data: DataVec::new() }));
                continue;
            }
            let mut forward = request.to_wire(RequestId::default());
            if !session.spending.covers(forward.cost()) || !session.pending.has_slot() {
                return;
            }
            session.spending.spend(forward.cost());
            let mut request = session.pending.waiting().pop_front().expect("seen above");
            forward.request = session.pending.next_id();
            {
                let mut data = request.op.data_mut();
                let segments: ArrayVec<Segment<'_>, SEGMENTS_MAX> = data.iter().map(|d| segment(d)).collect();
                push(session, &mut self.outgoing, |envelope, out| forward.write(envelope, &segments, out));
                drop(segments);
                for Data { buf, .. } in data.iter_mut().map(|d| &mut **d) {
                    self.outgoing.push_data(buf.share());
                }
            }
            session.pending.sent(forward.request, request, forward.answer_bytes());
        }
    }
    /// A request of this node is no longer wanted. It is answered all the same: at once if it was not sent, else when the other node answers.
    pub fn cancel(&mut self, token: u64) {
        let Some(session) = self.phase.session_mut() else { return };
        match session.pending.cancel(token) {
            Cancelling::Nothing => {}
            Cancelling::Unsent(request) => self.answer_locally(*request, ForwardError::Cancelled),
            Cancelling::Sent(request) => push(session, &mut self.outgoing, |envelope, out| Cancel { request }.write(envelope, out)),
        }
    }

    /// Whether a request of the other node may begin, `now` by a clock read afresh, and with the `revision` of the volume's view in force. If so it
    /// has begun, and [`Link::answer`] ends it. If not it is over: its data can be dropped, and its requester is answered.
    ///
    /// # Panics
    /// When it has begun already.
    pub fn may_begin(&mut self, id: ServedId, now: Instant, revision: Revision) -> Result<(), NotBegun> {
        let closed = self.phase.is_closed() && !hooks::seeded(SeededFault::OldSessionBegins);
        let served = self.phase.served_mut(id.session).ok_or(NotBegun::LinkLost)?;
        let judged = if closed { Err(NotBegun::LinkLost) } else { served.begin(id.request, now, revision) };
        if let Err(why) = judged {
            self.finish(id, why.error().map(Err), DataVec::new());
        }
        judged
    }
    /// Whether somebody waits for the answer to a request of the other node: else what is left of it need not be done.
    pub fn is_wanted(&mut self, id: ServedId) -> bool {
        !self.phase.is_closed() && self.phase.served_mut(id.session).is_some_and(|served| served.is_wanted(id.request))
    }
    /// Answers a request of the other node. Data is that of a read that is done, as its extents. One that has not begun can only fail, with an
    /// error that says so. Nothing happens when its session is over.
    ///
    /// # Panics
    /// When data or error cannot be.
    pub fn answer(&mut self, id: ServedId, result: Result<(), ForwardError>, data: DataVec) {
        self.finish(id, Some(result), data);
    }
    /// Drops a request of the other node that was cancelled and has not begun.
    pub fn let_go(&mut self, id: ServedId) {
        self.finish(id, Some(Err(ForwardError::Cancelled)), DataVec::new());
    }
    /// A request of the other node is over.
    pub(super) fn finish(&mut self, id: ServedId, result: Option<Result<(), ForwardError>>, mut data: DataVec) {
        let Some((begun, held, answer_bytes)) = self.phase.served_mut(id.session).and_then(|served| served.end(id.request)) else { return };
        let Some(session) = self.phase.session_mut() else { return };
        session.granting.release(if begun { held } else { credit::returned(held) });
        let Some(result) = result else { return };
        assert!(begun || result.is_err_and(ForwardError::did_not_happen), "what has not begun has not happened");
        let (outcome, detail) = match result {
            Ok(()) => {
                let lens = data.iter().map(|d| d.buf.len() as u32);
                assert!(lens.eq(answer_bytes.into_iter().filter(|bytes| *bytes > 0)), "a read has the data that was asked for");
                (Outcome::Done, 0)
            }
            Err(error) => {
                data.clear();
                error.outcome().expect("only the requester's end says that a link was lost")
            }
        };
        let done = Done { request: id.request, outcome, detail };
        let segments: ArrayVec<Segment<'_>, SEGMENTS_MAX> = data.iter().map(segment).collect();
        push(session, &mut self.outgoing, |envelope, out| done.write(envelope, &segments, out));
        drop(segments);
        for Data { buf, .. } in data {
            self.outgoing.push_data(buf);
        }
        self.settle();
    }
    /// Requests of an earlier session of the place are over: what they held can be used again.
    pub(super) fn left_ended(&mut self, held: Held) {
        if let LinkPhase::Greeting(greeting) = &mut self.phase {
            return greeting.granting.release(held); // It is announced when the link is open.
        }
        let Some(session) = self.phase.session_mut() else { return };
        session.granting.release(held);
        if session.granting.is_due() {
            // Its clock as it was said last: this is for the credits.
            let clock = session.tick_sent;
            push(session, &mut self.outgoing, |envelope, out| Tick { clock }.write(envelope, out));
        }
    }
    /// What a closed link has left under way here.
    pub(super) fn left(&self) -> impl Iterator<Item = (ServedId, Held)> + '_ {
        let left = match &self.phase {
            LinkPhase::Closed(ended) => ended.left.as_ref(),
            _ => None,
        };
        left.into_iter().flat_map(|(session, served)| served.left().map(|(request, held)| (ServedId { session: *session, request }, held)))
    }
}

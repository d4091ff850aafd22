//! Two front ends on a core as one: how a node serves several protocols. A pair of pairs makes more of two.
//!
//! Owns: which of the two a request, a control request or a piece of work is from: the lowest bit of its token.
//! Invariant: each gets the answers to its own.

use crate::{
    AuditEvent, ControlRequest, ControlRequestId, FrontEnd, LinkChange, ListenError, Refused, Reply, UnknownVolume, Volumes, WorkId,
};
use auth::{Work, WorkDone};
use base::{NodeId, VolumeId};
use object::copies::CopyDoor;
use object::owners::ControlDoor;
use object::{Backend, Forward, ForwardDone, IoDone, IoRequest, VolumeRef};
use rt::Rt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// See the module.
pub struct Pair<A, B> {
    first: A,
    second: B,
    /// Answers to the second, which the first has found.
    of_second: VecDeque<IoDone>,
}

/// Something of one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of<A, B> {
    /// Of the first.
    First(A),
    /// Of the second.
    Second(B),
}

/// The door into volumes for the first: it takes all answers there are.
struct FirstDoor<'a, D> {
    door: &'a mut D,
    of_second: &'a mut VecDeque<IoDone>,
}

impl<D: Backend> Backend for FirstDoor<'_, D> {
    fn submit(&mut self, rt: &Rt, mut request: IoRequest) {
        request.token <<= 1;
        self.door.submit(rt, request);
    }
    #[inline]
    fn pop(&mut self) -> Option<IoDone> {
        loop {
            let mut done = self.door.pop()?;
            let second = done.token & 1 != 0;
            done.token >>= 1;
            if !second {
                return Some(done);
            }
            self.of_second.push_back(done);
        }
    }
    fn may_answer(&self, rt: &Rt, volume: VolumeRef) -> bool {
        self.door.may_answer(rt, volume)
    }
    fn pop_forward(&mut self) -> Option<Forward> {
        self.door.pop_forward()
    }
    fn forwarded(&mut self, rt: &Rt, done: ForwardDone) {
        self.door.forwarded(rt, done);
    }
    fn cancel(&mut self, token: u64) {
        self.door.cancel(token << 1);
    }
    fn pop_cancel(&mut self) -> Option<(NodeId, u32)> {
        self.door.pop_cancel()
    }
    #[inline]
    fn copies(&mut self) -> Option<&mut dyn CopyDoor> {
        self.door.copies()
    }
}

/// The door for the second.
struct SecondDoor<'a, D> {
    door: &'a mut D,
    done: &'a mut VecDeque<IoDone>,
}

impl<D: Backend> Backend for SecondDoor<'_, D> {
    fn submit(&mut self, rt: &Rt, mut request: IoRequest) {
        request.token = request.token << 1 | 1;
        self.door.submit(rt, request);
    }
    #[inline]
    fn pop(&mut self) -> Option<IoDone> {
        self.done.pop_front()
    }
    fn may_answer(&self, rt: &Rt, volume: VolumeRef) -> bool {
        self.door.may_answer(rt, volume)
    }
    fn pop_forward(&mut self) -> Option<Forward> {
        self.door.pop_forward()
    }
    fn forwarded(&mut self, rt: &Rt, done: ForwardDone) {
        self.door.forwarded(rt, done);
    }
    fn cancel(&mut self, token: u64) {
        self.door.cancel(token << 1 | 1);
    }
    fn pop_cancel(&mut self) -> Option<(NodeId, u32)> {
        self.door.pop_cancel()
    }
    #[inline]
    fn copies(&mut self) -> Option<&mut dyn CopyDoor> {
        self.door.copies()
    }
}

impl<A, B> Pair<A, B> {
    /// Of halves that were made already.
    pub fn new(first: A, second: B) -> Self {
        Self { first, second, of_second: VecDeque::new() }
    }
}

fn requested(request: ControlRequest, bit: u64) -> ControlRequest {
    let id = ControlRequestId { serial: request.id.serial << 1 | bit, ..request.id };
    ControlRequest { id, ..request }
}

impl<A: FrontEnd, B: FrontEnd> FrontEnd for Pair<A, B> {
    type Shared = (Arc<A::Shared>, Arc<B::Shared>);
    type Desired = (A::Desired, B::Desired);
    type View = (Arc<A::View>, Arc<B::View>);
    type Listener = Of<A::Listener, B::Listener>;
    type Listening = Of<A::Listening, B::Listening>;
    type Msg = Of<A::Msg, B::Msg>;
    type Figures = (A::Figures, B::Figures);

    fn start(rt: &Rt, shared: Arc<Self::Shared>) -> Self {
        Self::new(A::start(rt, Arc::clone(&shared.0)), B::start(rt, Arc::clone(&shared.1)))
    }
    fn resolve(desired: &Self::Desired, volumes: Volumes) -> Result<Self::View, UnknownVolume> {
        let first = A::resolve(&desired.0, volumes.clone())?;
        Ok((Arc::new(first), Arc::new(B::resolve(&desired.1, volumes)?)))
    }
    fn serve(&mut self, rt: &Rt, view: Arc<Self::View>) {
        self.first.serve(rt, Arc::clone(&view.0));
        self.second.serve(rt, Arc::clone(&view.1));
    }
    fn listen(&mut self, rt: &Rt, at: Self::Listener) -> Result<Self::Listening, ListenError> {
        match at {
            Of::First(at) => self.first.listen(rt, at).map(Of::First),
            Of::Second(at) => self.second.listen(rt, at).map(Of::Second),
        }
    }

    fn poll<D: Backend>(&mut self, rt: &Rt, door: &mut D) -> bool {
        let busy = self.first.poll(rt, &mut FirstDoor { door, of_second: &mut self.of_second });
        self.second.poll(rt, &mut SecondDoor { door, done: &mut self.of_second }) || busy
    }
    fn may_begin(&mut self, rt: &Rt, token: u64) -> bool {
        if token & 1 == 0 { self.first.may_begin(rt, token >> 1) } else { self.second.may_begin(rt, token >> 1) }
    }

    fn pop_control_request(&mut self) -> Option<ControlRequest> {
        let first = self.first.pop_control_request().map(|r| requested(r, 0));
        first.or_else(|| self.second.pop_control_request().map(|r| requested(r, 1)))
    }
    fn has_reports(&self) -> bool {
        self.first.has_reports() || self.second.has_reports()
    }
    fn on_answer(&mut self, rt: &Rt, id: ControlRequestId, result: Result<Reply, Refused>) {
        let of = ControlRequestId { serial: id.serial >> 1, ..id };
        if id.serial & 1 == 0 { self.first.on_answer(rt, of, result) } else { self.second.on_answer(rt, of, result) }
    }
    fn pop_audit(&mut self) -> Option<AuditEvent> {
        self.first.pop_audit().or_else(|| self.second.pop_audit())
    }
    fn audit_lost(&mut self) {
        // Which of the two it was from is not known any more; what is shown is their sum.
        self.first.audit_lost();
    }
    fn pop_work(&mut self) -> Option<(WorkId, Work)> {
        let of = |(id, work): (WorkId, Work), bit| (WorkId { token: id.token << 1 | bit, ..id }, work);
        let first = self.first.pop_work().map(|work| of(work, 0));
        first.or_else(|| self.second.pop_work().map(|work| of(work, 1)))
    }
    fn on_work_done(&mut self, rt: &Rt, id: WorkId, done: WorkDone) {
        let of = WorkId { token: id.token >> 1, ..id };
        if id.token & 1 == 0 { self.first.on_work_done(rt, of, done) } else { self.second.on_work_done(rt, of, done) }
    }
    fn link_change(&mut self) -> Option<LinkChange> {
        self.first.link_change().or_else(|| self.second.link_change())
    }
    fn control_links(&mut self) -> Option<&mut dyn ControlDoor> {
        self.first.control_links().or_else(|| self.second.control_links())
    }
    fn take_forwarded(&mut self) -> BTreeMap<(VolumeId, NodeId), u64> {
        let mut all = self.first.take_forwarded();
        all.append(&mut self.second.take_forwarded());
        all
    }
    fn is_settled(&self, volume: VolumeRef, revision: u64) -> bool {
        self.first.is_settled(volume, revision) && self.second.is_settled(volume, revision)
    }
    fn pop_msg(&mut self) -> Option<(usize, Self::Msg)> {
        let first = self.first.pop_msg().map(|(core, msg)| (core, Of::First(msg)));
        first.or_else(|| self.second.pop_msg().map(|(core, msg)| (core, Of::Second(msg))))
    }
    fn on_msg(&mut self, rt: &Rt, msg: Self::Msg) {
        match msg {
            Of::First(msg) => self.first.on_msg(rt, msg),
            Of::Second(msg) => self.second.on_msg(rt, msg),
        }
    }

    fn begin_shutdown(&mut self, rt: &Rt) {
        self.first.begin_shutdown(rt);
        self.second.begin_shutdown(rt);
    }
    fn leave_nodes(&mut self, rt: &Rt) {
        self.first.leave_nodes(rt);
        self.second.leave_nodes(rt);
    }
    fn is_quiet(&self) -> bool {
        self.first.is_quiet() && self.second.is_quiet()
    }
    fn figures(&self) -> Self::Figures {
        (self.first.figures(), self.second.figures())
    }
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;

//! A front end whose requests take time of the core: what its code and the kernel's below take for each, which the modelled network does not know.
//!
//! Invariant: changes nothing of what the front end does.

use auth::{Work, WorkDone};
use frontend::{
    AuditEvent, Backend, ControlRequest, ControlRequestId, FrontEnd, IoDone, IoRequest, LinkChange, ListenError, Refused, Reply,
    UnknownVolume, VolumeRef, Volumes, WorkId,
};
use rt::Rt;
use std::sync::Arc;

/// See the module.
pub struct Charged<F> {
    front: F,
    /// Nanoseconds of the core for a request, besides devices and the network.
    request_ns: f64,
}

impl<F> Charged<F> {
    /// So much for each request.
    pub fn new(front: F, request_ns: f64) -> Charged<F> {
        Charged { front, request_ns }
    }
}

struct ChargedDoor<'a, D> {
    door: &'a mut D,
    request_ns: f64,
}

impl<D: Backend> Backend for ChargedDoor<'_, D> {
    fn submit(&mut self, rt: &Rt, request: IoRequest) {
        rt::sim::charge(rt, self.request_ns);
        self.door.submit(rt, request);
    }
    fn pop(&mut self) -> Option<IoDone> {
        self.door.pop()
    }
}

impl<F: FrontEnd> FrontEnd for Charged<F> {
    type Shared = F::Shared;
    type Desired = F::Desired;
    type View = F::View;
    type Listener = F::Listener;
    type Listening = F::Listening;
    type Msg = F::Msg;
    type Figures = F::Figures;

    fn start(rt: &Rt, shared: Arc<Self::Shared>) -> Self {
        Charged::new(F::start(rt, shared), 0.0)
    }
    fn resolve(desired: &Self::Desired, volumes: Volumes) -> Result<Self::View, UnknownVolume> {
        F::resolve(desired, volumes)
    }
    fn serve(&mut self, rt: &Rt, view: Arc<Self::View>) {
        self.front.serve(rt, view);
    }
    fn listen(&mut self, rt: &Rt, at: Self::Listener) -> Result<Self::Listening, ListenError> {
        self.front.listen(rt, at)
    }
    fn poll<D: Backend>(&mut self, rt: &Rt, door: &mut D) -> bool {
        self.front.poll(rt, &mut ChargedDoor { door, request_ns: self.request_ns })
    }
    fn may_begin(&mut self, rt: &Rt, token: u64) -> bool {
        self.front.may_begin(rt, token)
    }
    fn pop_control_request(&mut self) -> Option<ControlRequest> {
        self.front.pop_control_request()
    }
    fn has_reports(&self) -> bool {
        self.front.has_reports()
    }
    fn on_answer(&mut self, rt: &Rt, id: ControlRequestId, result: Result<Reply, Refused>) {
        self.front.on_answer(rt, id, result);
    }
    fn pop_audit(&mut self) -> Option<AuditEvent> {
        self.front.pop_audit()
    }
    fn audit_lost(&mut self) {
        self.front.audit_lost();
    }
    fn pop_work(&mut self) -> Option<(WorkId, Work)> {
        self.front.pop_work()
    }
    fn on_work_done(&mut self, rt: &Rt, id: WorkId, done: WorkDone) {
        self.front.on_work_done(rt, id, done);
    }
    fn link_change(&mut self) -> Option<LinkChange> {
        self.front.link_change()
    }
    fn is_settled(&self, volume: VolumeRef, revision: u64) -> bool {
        self.front.is_settled(volume, revision)
    }
    fn pop_msg(&mut self) -> Option<(usize, Self::Msg)> {
        self.front.pop_msg()
    }
    fn on_msg(&mut self, rt: &Rt, msg: Self::Msg) {
        self.front.on_msg(rt, msg);
    }
    fn begin_shutdown(&mut self, rt: &Rt) {
        self.front.begin_shutdown(rt);
    }
    fn leave_nodes(&mut self, rt: &Rt) {
        self.front.leave_nodes(rt);
    }
    fn is_quiet(&self) -> bool {
        self.front.is_quiet()
    }
    fn figures(&self) -> Self::Figures {
        self.front.figures()
    }
}

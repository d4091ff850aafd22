//! A [`Target`] as the front end that it is.

use crate::desired::Desired;
use crate::shared::Shared;
use crate::stats::Figures;
use crate::target::{Target, TargetMsg};
use crate::view::{ListenerSpec, View};
use auth::{Work, WorkDone};
use frontend::{AuditEvent, ControlRequest, ControlRequestId, FrontEnd, ListenError, Refused, Reply, UnknownVolume, Volumes, WorkId};
use object::{Backend, VolumeRef};
use rt::Rt;
use std::net::SocketAddr;
use std::sync::Arc;

impl FrontEnd for Target {
    type Shared = Shared;
    type Desired = Desired;
    type View = View;
    type Listener = ListenerSpec;
    type Listening = SocketAddr;
    type Msg = TargetMsg;
    type Figures = Figures;

    fn start(rt: &Rt, shared: Arc<Shared>) -> Self {
        Target::new(rt, shared)
    }
    fn resolve(desired: &Desired, volumes: Volumes) -> Result<View, UnknownVolume> {
        desired.resolve(volumes)
    }
    fn serve(&mut self, rt: &Rt, view: Arc<View>) {
        self.apply(rt, view);
    }
    fn listen(&mut self, rt: &Rt, at: ListenerSpec) -> Result<SocketAddr, ListenError> {
        Target::listen(self, rt, at).map_err(|cause| ListenError { at: at.addr.to_string(), cause })
    }
    #[inline]
    fn poll<B: Backend>(&mut self, rt: &Rt, backend: &mut B) -> bool {
        Target::poll(self, rt, backend)
    }
    fn may_begin(&mut self, rt: &Rt, token: u64) -> bool {
        Target::may_begin(self, rt, token)
    }
    fn pop_control_request(&mut self) -> Option<ControlRequest> {
        Target::pop_control_request(self)
    }
    fn on_answer(&mut self, rt: &Rt, id: ControlRequestId, result: Result<Reply, Refused>) {
        Target::on_answer(self, rt, id, result);
    }
    #[inline]
    fn has_reports(&self) -> bool {
        Target::has_reports(self)
    }
    fn pop_audit(&mut self) -> Option<AuditEvent> {
        Target::pop_audit(self)
    }
    fn audit_lost(&mut self) {
        Target::audit_lost(self);
    }
    fn pop_work(&mut self) -> Option<(WorkId, Work)> {
        None
    }
    fn on_work_done(&mut self, _: &Rt, _: WorkId, _: WorkDone) {}
    fn is_settled(&self, volume: VolumeRef, revision: u64) -> bool {
        Target::is_settled(self, volume, revision)
    }
    fn pop_msg(&mut self) -> Option<(usize, TargetMsg)> {
        Target::pop_msg(self)
    }
    fn on_msg(&mut self, rt: &Rt, msg: TargetMsg) {
        Target::on_msg(self, rt, msg);
    }
    fn begin_shutdown(&mut self, rt: &Rt) {
        Target::begin_shutdown(self, rt);
    }
    fn is_quiet(&self) -> bool {
        Target::is_quiet(self)
    }
    fn figures(&self) -> Figures {
        Target::figures(self)
    }
}

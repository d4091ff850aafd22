//! A front end without hosts: a client within the process, which puts requests to volumes itself. The lab's modelled clusters have one.
//!
//! Invariant: it exports nothing, so it asks the control plane for nothing.

use crate::{AuditEvent, ControlRequest, ControlRequestId, FrontEnd, ListenError, Refused, Reply, UnknownVolume, Volumes, WorkId};
use auth::{Work, WorkDone};
use object::Backend;
use rt::Rt;
use std::convert::Infallible;
use std::sync::Arc;

/// A client within the process, on one core.
pub trait Client: 'static {
    /// Does all there is to do; whether something was done. It takes all answers there are.
    fn poll(&mut self, rt: &Rt, backend: &mut dyn Backend) -> bool;
}

/// The front end that a client is. `None` on cores without one.
pub struct InProcess<C>(pub Option<C>);

impl<C: Client> FrontEnd for InProcess<C> {
    type Shared = ();
    type Desired = ();
    type View = ();
    type Listener = Infallible;
    type Listening = Infallible;
    type Msg = Infallible;
    type Figures = ();

    fn start(_: &Rt, _: Arc<()>) -> Self {
        InProcess(None)
    }
    fn resolve(_: &(), _: Volumes) -> Result<(), UnknownVolume> {
        Ok(())
    }
    fn serve(&mut self, _: &Rt, _: Arc<()>) {}
    fn listen(&mut self, _: &Rt, at: Infallible) -> Result<Infallible, ListenError> {
        match at {}
    }
    fn poll<B: Backend>(&mut self, rt: &Rt, backend: &mut B) -> bool {
        let Some(client) = &mut self.0 else {
            let asked_for = backend.pop();
            debug_assert!(asked_for.is_none());
            return false;
        };
        client.poll(rt, backend)
    }
    fn may_begin(&mut self, _: &Rt, _: u64) -> bool {
        true
    }
    fn pop_control_request(&mut self) -> Option<ControlRequest> {
        None
    }
    fn has_reports(&self) -> bool {
        false
    }
    fn on_answer(&mut self, _: &Rt, _: ControlRequestId, _: Result<Reply, Refused>) {}
    fn pop_audit(&mut self) -> Option<AuditEvent> {
        None
    }
    fn audit_lost(&mut self) {}
    fn pop_work(&mut self) -> Option<(WorkId, Work)> {
        None
    }
    fn on_work_done(&mut self, _: &Rt, _: WorkId, _: WorkDone) {}
    fn pop_msg(&mut self) -> Option<(usize, Infallible)> {
        None
    }
    fn on_msg(&mut self, _: &Rt, msg: Infallible) {
        match msg {}
    }
    fn begin_shutdown(&mut self, _: &Rt) {}
    fn is_quiet(&self) -> bool {
        true
    }
    fn figures(&self) {}
}

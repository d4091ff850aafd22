//! [`Peers`] as the front end that it is to its core.

use crate::desired::{PeersDesired, PeersView};
use crate::peers::{Peers, PeersMsg};
use crate::stats::PeersStats;
use auth::{Work, WorkDone};
use base::{NodeId, VolumeId};
use frontend::{
    AuditEvent, ControlRequest, ControlRequestId, FrontEnd, LinkChange, ListenError, Refused, Reply, UnknownVolume, Volumes, WorkId,
};
use object::owners::ControlDoor;
use object::{Backend, VolumeRef};
use rt::Rt;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

impl FrontEnd for Peers {
    type Shared = ();
    type Desired = PeersDesired;
    type View = PeersView;
    type Listener = SocketAddr;
    type Listening = SocketAddr;
    type Msg = PeersMsg;
    type Figures = PeersStats;

    fn start(rt: &Rt, _: Arc<()>) -> Self {
        Peers::new(rt)
    }
    fn resolve(desired: &PeersDesired, volumes: Volumes) -> Result<PeersView, UnknownVolume> {
        desired.resolve(volumes)
    }
    fn serve(&mut self, rt: &Rt, view: Arc<PeersView>) {
        self.apply(rt, view);
    }
    fn listen(&mut self, rt: &Rt, at: SocketAddr) -> Result<SocketAddr, ListenError> {
        Peers::listen(self, rt, at)
    }
    #[inline]
    fn poll<B: Backend>(&mut self, rt: &Rt, backend: &mut B) -> bool {
        Peers::poll(self, rt, backend)
    }
    fn may_begin(&mut self, rt: &Rt, token: u64) -> bool {
        Peers::may_begin(self, rt, token)
    }
    /// Nodes ask the control plane on a way of its own.
    fn pop_control_request(&mut self) -> Option<ControlRequest> {
        None
    }
    #[inline]
    fn has_reports(&self) -> bool {
        self.has_link_changes()
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
    #[inline]
    fn link_change(&mut self) -> Option<LinkChange> {
        Peers::link_change(self)
    }
    fn control_links(&mut self) -> Option<&mut dyn ControlDoor> {
        self.control().map(|control| control as &mut dyn ControlDoor)
    }
    fn take_forwarded(&mut self) -> BTreeMap<(VolumeId, NodeId), u64> {
        Peers::take_forwarded(self)
    }
    fn is_settled(&self, volume: VolumeRef, revision: u64) -> bool {
        Peers::is_settled(self, volume, revision)
    }
    #[inline]
    fn pop_msg(&mut self) -> Option<(usize, PeersMsg)> {
        Peers::pop_msg(self)
    }
    fn on_msg(&mut self, rt: &Rt, msg: PeersMsg) {
        Peers::on_msg(self, rt, msg);
    }
    fn begin_shutdown(&mut self, rt: &Rt) {
        Peers::begin_shutdown(self, rt);
    }
    fn leave_nodes(&mut self, _: &Rt) {
        Peers::leave_nodes(self);
    }
    fn is_quiet(&self) -> bool {
        Peers::is_quiet(self)
    }
    fn figures(&self) -> PeersStats {
        self.stats()
    }
}

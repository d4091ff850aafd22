//! What a front end is to the data plane: one half on each core, driven by the core's loop.
//!
//! ```text
//!            volumes, desired ──► resolve ──► View ──► serve (each core)
//!  host ══►  poll ──► Backend::submit ... Backend::pop ──► host
//!            control requests, audit events ──► control plane ──► on_answer
//!            messages, work ──► other cores, the worker ──► on_msg, on_work_done
//! ```
//!
//! Invariants: a front end gets the answers to its own requests, control requests and work, each once; what it serves changes as a whole.
//! Never: knows where data lives; waits.

use crate::{AuditEvent, ControlRequest, ControlRequestId, Refused, Reply, UnknownVolume, Volumes};
use auth::{Work, WorkDone};
use base::{NodeId, VolumeId};
use object::owners::ControlDoor;
use object::{Backend, VolumeRef};
use rt::{NetError, Rt};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// Why a front end does not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {at}: {cause}")]
pub struct ListenError {
    /// The address or path.
    pub at: String,
    /// What the system said.
    pub cause: NetError,
}

/// Names a piece of work that is away; what is done brings it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkId {
    /// The core whose front end gave it away.
    pub core: usize,
    /// What waits for it there.
    pub token: u64,
    /// The slot of the command that waits for it.
    pub slot: u16,
}

/// A link with another node, on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The other node.
    pub node: NodeId,
    /// Which lane.
    pub lane: u8,
    /// How many there are with it.
    pub lanes: u8,
    /// Whether requests get there.
    pub open: bool,
}

/// A front end. A value of the type is its half on one core.
pub trait FrontEnd: Sized + 'static {
    /// What its halves share.
    type Shared: Send + Sync + 'static;
    /// What it is to serve, as the control plane says it.
    type Desired: Clone + Debug + Default + PartialEq + Send + 'static;
    /// The same as its halves go by it.
    type View: Send + Sync + 'static;
    /// Where it listens for hosts.
    type Listener: Send + 'static;
    /// Where it listens, when it does.
    type Listening: Send + 'static;
    /// What its halves say to each other.
    type Msg: Send + 'static;
    /// What a half has counted.
    type Figures: Clone + Debug + Send + 'static;

    /// The half of a core, which serves nothing yet.
    fn start(rt: &Rt, shared: Arc<Self::Shared>) -> Self;
    /// Turns what the control plane wants into what the halves go by. Once for all cores.
    fn resolve(desired: &Self::Desired, volumes: Volumes) -> Result<Self::View, UnknownVolume>;
    /// Serves this from now on.
    fn serve(&mut self, rt: &Rt, view: Arc<Self::View>);
    /// Listens for hosts, on core 0.
    fn listen(&mut self, rt: &Rt, at: Self::Listener) -> Result<Self::Listening, ListenError>;

    /// Does all there is to do, and takes all answers there are; whether something was done. Its requests are answered through [`Backend::pop`]
    /// of this or a later call. Of the 64 bits of a token the upper eight are not its own.
    fn poll<B: Backend>(&mut self, rt: &Rt, backend: &mut B) -> bool;
    /// Whether a request with this token, which a limit has held back, may begin: by what is served now, and while its host is there.
    fn may_begin(&mut self, rt: &Rt, token: u64) -> bool;

    /// The next question for the control plane.
    fn pop_control_request(&mut self) -> Option<ControlRequest>;
    /// Whether there may be a control request, an event for the audit log, work or a link that has changed: asked in each turn, before those.
    fn has_reports(&self) -> bool;
    /// The control plane's answer to a question of this half. Nothing happens when the command is gone.
    fn on_answer(&mut self, rt: &Rt, id: ControlRequestId, result: Result<Reply, Refused>);
    /// The next event for the audit log.
    fn pop_audit(&mut self) -> Option<AuditEvent>;
    /// An event that was popped could not be handed on.
    fn audit_lost(&mut self);
    /// The next piece of work that would hold up the core.
    fn pop_work(&mut self) -> Option<(WorkId, Work)>;
    /// A piece of this half's work is done.
    fn on_work_done(&mut self, rt: &Rt, id: WorkId, done: WorkDone);
    /// The next link with another node that has opened, or is closed, which the control plane is to know. It is given once.
    fn link_change(&mut self) -> Option<LinkChange> {
        None
    }
    /// The control links of this node, on its first core, if this half has them.
    fn control_links(&mut self) -> Option<&mut dyn ControlDoor> {
        None
    }
    /// Requests that other nodes have forwarded to this half since the last call, by volume and node. Each is given once.
    fn take_forwarded(&mut self) -> BTreeMap<(VolumeId, NodeId), u64> {
        BTreeMap::new()
    }
    /// Whether this half goes by this revision of a volume's view, or a later one, and has nothing under way for other nodes that was judged by
    /// an earlier one.
    fn is_settled(&self, _volume: VolumeRef, _revision: u64) -> bool {
        true
    }
    /// The next message for the half of another core.
    fn pop_msg(&mut self) -> Option<(usize, Self::Msg)>;
    /// A message of the half of another core.
    fn on_msg(&mut self, rt: &Rt, msg: Self::Msg);

    /// No new hosts, no new commands; what runs is answered.
    fn begin_shutdown(&mut self, rt: &Rt);
    /// Nothing of hosts is under way any more, on any core: what it has with other nodes may end.
    fn leave_nodes(&mut self, _: &Rt) {}
    /// Whether nothing is under way.
    fn is_quiet(&self) -> bool;
    /// What it has counted.
    fn figures(&self) -> Self::Figures;
}

//! What the front ends of the cores say to each other.

use crate::connect_request::{ConnectRequest, Refusal};
use crate::controller::QueueAt;
use crate::shared::ControllerShared;
use crate::view::ListenerKind;
use base::{HostId, Security};
use frontend::Place;
use object::VolumeRef;
use rt::OwnedConn;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// From one core's target to another's.
#[derive(Debug)]
pub struct TargetMsg(pub(super) Msg);

/// What it says.
pub(super) enum Msg {
    /// A connection to take.
    Take { conn: OwnedConn, peer: SocketAddr, door: Door },
    /// To a controller's home: may this connection be its queue?
    Connect { connect: Box<ConnectRequest>, at: QueueAt, slot: u16 },
    /// The answer.
    Admitted { connect: Box<ConnectRequest>, token: u64, slot: u16, result: Admitted },
    /// A controller ended: close its queue.
    Close { token: u64 },
    /// The daemon ends: answer what runs, then close the queue.
    Drain { token: u64 },
    /// To a queue: abort a command, for the Abort command in a slot of this admin queue.
    Abort { token: u64, cid: u16, admin: QueueAt, slot: u16 },
    /// The answer.
    Aborted { token: u64, slot: u16, aborted: bool },
    /// To a controller's home: a queue is gone.
    QueueGone { cntlid: u16, serial: u64, qid: u16, at: QueueAt },
    /// What other hosts have under way on a volume is to end.
    Fence(FenceCommand),
    /// It has.
    Fenced { id: u64 },
}

impl core::fmt::Debug for Msg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Msg::Take { .. } => "Take",
            Msg::Connect { .. } => "Connect",
            Msg::Admitted { .. } => "Admitted",
            Msg::Close { .. } => "Close",
            Msg::Drain { .. } => "Drain",
            Msg::Abort { .. } => "Abort",
            Msg::Aborted { .. } => "Aborted",
            Msg::QueueGone { .. } => "QueueGone",
            Msg::Fence(_) => "Fence",
            Msg::Fenced { .. } => "Fenced",
        })
    }
}

/// What of a listener its connections must know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    pub(super) kind: ListenerKind,
    pub(super) security: Security,
}

/// What the home of a controller says to a connection that wants to be one of its queues: its place in the quota of the host too, where one was
/// kept for it.
pub(super) type Admitted = Result<(Arc<ControllerShared>, Option<Place>), Refusal>;

/// What a core must do for a fence.
#[derive(Clone)]
pub(super) struct FenceCommand {
    pub(super) id: u64,
    pub(super) home: usize,
    pub(super) volume: VolumeRef,
    pub(super) by: HostId,
    pub(super) abort: Arc<BTreeSet<HostId>>,
}

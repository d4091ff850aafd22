//! What crosses between cores.

use crate::{
    copies::{CopiesSay, OfCopies},
    error::DataPlaneError,
    ownership::CopyOrder,
    requests::VolumeRequests,
    stats::CoreSnapshot,
};
use auth::WorkDone;
use base::{BlockNo, NodeId};
use frontend::{ControlRequestId, FrontEnd, Refused, Reply, WorkId};
use object::owner::Event;
use object::{ComponentAt, FillOrder, FillSays, GroupRoute, GroupSlot, LayoutView, RouterMsg, VolumeRef};
use std::ops::Range;
use std::sync::Arc;
use store::{ComponentInfo, ComponentNo, Group, NewCapacity, Settings};

/// Messages between two cores.
pub(crate) enum CoreMsg<F: FrontEnd> {
    Router(RouterMsg),
    Front(F::Msg),
    /// Authentication work is done.
    Worked(WorkId, Box<WorkDone>),
    /// What a core says of a volume with copies on several nodes, for core 0.
    CopyEvent {
        core: u16,
        volume: VolumeRef,
        event: Box<Event>,
    },
    /// A block of a copy on this node was found lost, for core 0.
    BadBlock(ComponentAt, BlockNo),
    /// Something to do for core 0.
    Call {
        id: u32,
        call: Call<Arc<F::View>>,
    },
    /// It is done.
    Answer {
        id: u32,
        answer: Box<Answer<F::Figures>>,
    },
}

/// What core 0 asks every core to do. `V`: the picture that front ends go by, shared.
#[derive(Clone)]
pub(crate) enum Call<V> {
    OpenShard {
        slot: GroupSlot,
        no: u8,
        group: Group,
        settings: Settings,
    },
    CloseShards {
        slot: GroupSlot,
    },
    Route {
        slot: GroupSlot,
        route: Option<GroupRoute>,
    },
    AddComponent {
        slot: GroupSlot,
        no: ComponentNo,
        info: Box<ComponentInfo>,
    },
    DropComponent {
        slot: GroupSlot,
        no: ComponentNo,
    },
    /// The shards of a group get one more capacity device.
    AddCapacity {
        slot: GroupSlot,
        new: NewCapacity,
    },
    /// They have one no more: when nothing of it is in use.
    RemoveCapacity {
        slot: GroupSlot,
        index: u8,
    },
    Apply {
        layout: Arc<LayoutView>,
        view: V,
    },
    /// Waits until nothing is under way that began when the volume reached beyond `end`.
    Settle {
        volume: VolumeRef,
        end: u64,
    },
    /// Waits until this revision of a volume's view is served, and nothing is under way for other nodes that was judged by an earlier one.
    Confirm {
        volume: VolumeRef,
        revision: u64,
    },
    /// To a command that waits for it.
    Answer {
        id: ControlRequestId,
        result: Result<Reply, Refused>,
    },
    Settings(Settings),
    /// What is to be done of volumes with copies on several nodes, in order.
    Copies {
        here: NodeId,
        orders: Arc<Vec<(VolumeRef, CopyOrder)>>,
    },
    /// Of the shards of a group: what they have as copies.
    OfCopies(Box<OfCopies>),
    /// What is to be done of a volume whose data goes to another place, by the place of its lanes.
    Fill {
        from: VolumeRef,
        order: FillOrder,
    },
    /// Which pieces of a window of a volume may hold something.
    Holding {
        volume: VolumeRef,
        window: Range<u64>,
    },
    /// No request of a host to a volume begins.
    Hold(VolumeRef),
    /// Waits until none is under way.
    Quiet(VolumeRef),
    /// They begin again.
    Release(VolumeRef),
    Scrub {
        slot: GroupSlot,
    },
    Stats,
    /// What was asked of volumes so far, and by which other nodes since the last time.
    Requests,
    /// Checks the invariants of every shard.
    Check,
    /// No new commands of hosts; answered when those under way are, or after a while.
    EndHosts,
    /// No new requests, and the node leaves the others; answered when nothing is under way.
    Drain,
    /// Ends the core.
    Stop,
}

/// What a core says.
pub(crate) enum Answer<S> {
    Done(Result<(), DataPlaneError>),
    Stats(Box<CoreSnapshot<S>>),
    OfCopies(CopiesSay),
    OfFill(FillSays),
    Requests(Vec<VolumeRequests>),
}

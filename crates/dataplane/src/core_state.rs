//! The state of one core: its front end, its router, and what core 0 keeps besides.
//!
//! Never: touched by another core.

use crate::fill::Filler;
use crate::message::{Answer, CoreMsg};
use crate::ownership::Ownership;
use base::{ComponentId, Epoch, GroupId, ObjectId, OwnerId, VolumeId};
use frontend::{FrontEnd, LinkChange};
use object::{DataVec, GroupRoute, GroupSlot, IoError, Limits, TermCores, VolumeLimits, VolumeRef, VolumeRouter};
use rt::Rt;
use rt::sync::OneSender;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{Group, Settings, Shard};

/// A disk group that is open; core 0 keeps the list.
pub(crate) struct OpenGroup {
    pub(crate) slot: GroupSlot,
    pub(crate) route: GroupRoute,
    pub(crate) group: Group,
}

/// What the limits of a volume were made from, and the limits with what they have counted.
pub(crate) type KnownLimits = (VolumeLimits, Arc<Limits>);

/// What only core 0 knows.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) groups: BTreeMap<GroupId, OpenGroup>,
    pub(crate) slots_given: u16,
    /// Where the first shard is of each group that ever had a copy of what is served.
    pub(crate) first_cores: BTreeMap<GroupId, u8>,
    pub(crate) volumes: BTreeMap<VolumeId, VolumeRef>,
    /// Under which place the lanes of each object are kept.
    pub(crate) lanes: BTreeMap<ObjectId, VolumeRef>,
    /// Places that were given.
    pub(crate) places_given: u32,
    pub(crate) limits: BTreeMap<VolumeId, KnownLimits>,
    /// Of each object, for the term in which it is served.
    pub(crate) cores: BTreeMap<ObjectId, TermCores>,
    /// What each copy of a group has accepted, as far as its group said when it was opened or a fence has since, and whose that is.
    pub(crate) accepted: BTreeMap<ComponentId, (Epoch, OwnerId)>,
    pub(crate) settings: Settings,
}

/// The state of one core.
pub(crate) struct Core<F: FrontEnd> {
    pub(crate) router: VolumeRouter<Shard>,
    pub(crate) front: F,
    pub(crate) ledger: Ledger,
    /// Who owns what is on several nodes; on core 0 of a node that has others.
    pub(crate) ownership: Option<Box<Ownership>>,
    pub(crate) groups: BTreeMap<GroupSlot, GroupId>,
    /// Of other cores, which have not answered.
    pub(crate) calls: Slab<OneSender<Answer<F::Figures>>>,
    /// Requests of the node's own.
    pub(crate) own: Slab<OneSender<Result<DataVec, IoError>>>,
    /// Volumes that are copied to another place, on core 0.
    pub(crate) fills: BTreeMap<VolumeId, Filler>,
    /// Volumes for which a task copies; one whose fill is over may have one for a while.
    pub(crate) copying: BTreeSet<VolumeId>,
    /// What goes to other cores with the next turn.
    pub(crate) out: VecDeque<(usize, CoreMsg<F>)>,
    /// What the control plane had no room to hear.
    pub(crate) link_change: Option<LinkChange>,
    pub(crate) stop: bool,
}

impl<F: FrontEnd> Core<F> {
    /// Of a core that serves nothing yet.
    pub(crate) fn new(rt: &Rt, front: F, settings: Settings) -> Self {
        Self {
            router: VolumeRouter::new(rt),
            front,
            ledger: Ledger { settings, ..Ledger::default() },
            ownership: None,
            groups: BTreeMap::new(),
            calls: Slab::new(),
            own: Slab::new(),
            fills: BTreeMap::new(),
            copying: BTreeSet::new(),
            out: VecDeque::new(),
            link_change: None,
            stop: false,
        }
    }
    /// Sends a message to another core with the next turn.
    pub(crate) fn send(&mut self, core: usize, msg: CoreMsg<F>) {
        self.out.push_back((core, msg));
    }
}

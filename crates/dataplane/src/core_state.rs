//! The state of one core: its front ends, its router, and what core 0 keeps besides.
//!
//! Invariant: each front end gets the answers to its own requests.
//! Never: touched by another core.

use crate::message::{Answer, CoreMsg};
use base::{GroupId, ObjectId, VolumeId};
use nvmf::{Target, TargetShared};
use object::{Backend, GroupRoute, GroupSlot, IoDone, IoError, IoRequest, Limits, TermCores, VolumeRef, VolumeRouter};
use rt::Rt;
use rt::sync::OneSender;
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::{Group, Settings, Shard};

/// A disk group that is open; core 0 keeps the list.
pub(crate) struct OpenGroup {
    pub(crate) slot: GroupSlot,
    pub(crate) route: GroupRoute,
    pub(crate) group: Group,
    pub(crate) devices: Vec<rt::Device>,
}

/// The limits that a volume has, and what they were made from: requests and bytes a second.
pub(crate) type KnownLimits = (Option<u64>, Option<u64>, Arc<Limits>);

/// What only core 0 knows.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) groups: BTreeMap<GroupId, OpenGroup>,
    pub(crate) slots_given: u16,
    /// Where the first shard is of each group that ever had a copy of what is served.
    pub(crate) first_cores: BTreeMap<GroupId, u8>,
    pub(crate) volumes: BTreeMap<VolumeId, VolumeRef>,
    pub(crate) limits: BTreeMap<VolumeId, KnownLimits>,
    /// Of each object, for the term in which it is served.
    pub(crate) cores: BTreeMap<ObjectId, TermCores>,
    pub(crate) settings: Settings,
}

/// The state of one core.
pub(crate) struct Core {
    pub(crate) router: VolumeRouter<Shard>,
    pub(crate) target: Target,
    pub(crate) ledger: Ledger,
    pub(crate) groups: BTreeMap<GroupSlot, GroupId>,
    /// Of other cores, which have not answered.
    pub(crate) calls: Slab<OneSender<Answer>>,
    front: Option<Box<dyn FrontEnd>>,
    front_done: VecDeque<IoDone>,
    pub(crate) freeing: Slab<OneSender<Result<(), IoError>>>,
    /// What goes to other cores with the next turn.
    pub(crate) out: VecDeque<(usize, CoreMsg)>,
    pub(crate) stop: bool,
}

/// A front end in this process, beside NVMe/TCP: what the lab's models drive the data plane with. At most one a core.
pub trait FrontEnd {
    /// Does all there is to do; whether something was done. A request is answered through [`Backend::pop`] of a later call; its token must be
    /// below 2^63.
    fn poll(&mut self, rt: &Rt, backend: &mut dyn Backend) -> bool;
}

/// Marks the tokens of a [`FrontEnd`]: those of the target are far smaller.
const FRONT: u64 = 1 << 63;

/// Whether a request that a limit has held back may begin: the front end that it is from judges it again.
pub(crate) fn may_begin(rt: &Rt, target: &mut Target, request: &IoRequest) -> bool {
    request.token & FRONT != 0 || target.may_begin(rt, request.token)
}

/// One door for two front ends: each gets its own answers.
struct FrontDoor<'a> {
    router: &'a mut VolumeRouter<Shard>,
    waiting: &'a mut VecDeque<IoDone>,
    front: bool,
}

impl Backend for FrontDoor<'_> {
    fn submit(&mut self, rt: &Rt, mut request: IoRequest) {
        if self.front {
            request.token |= FRONT;
        }
        self.router.submit(rt, request);
    }
    fn pop(&mut self) -> Option<IoDone> {
        loop {
            if self.front {
                // The target was asked first and has put them here.
                return self.waiting.pop_front();
            }
            let mut done = self.router.pop()?;
            if done.token & FRONT == 0 {
                return Some(done);
            }
            done.token &= !FRONT;
            self.waiting.push_back(done);
        }
    }
}

impl Core {
    /// Of a core that serves nothing yet.
    pub(crate) fn new(rt: &Rt, shared: Arc<TargetShared>, settings: Settings, front: Option<Box<dyn FrontEnd>>) -> Self {
        Self {
            router: VolumeRouter::new(rt),
            target: Target::new(rt, shared),
            ledger: Ledger { settings, ..Ledger::default() },
            groups: BTreeMap::new(),
            calls: Slab::new(),
            front,
            front_done: VecDeque::new(),
            freeing: Slab::new(),
            out: VecDeque::new(),
            stop: false,
        }
    }
    /// Lets the front ends do what there is to do.
    pub(crate) fn poll_fronts(&mut self, rt: &Rt) -> bool {
        let Some(front) = &mut self.front else { return self.target.poll(rt, &mut self.router) };
        let (router, waiting) = (&mut self.router, &mut self.front_done);
        let mut busy = self.target.poll(rt, &mut FrontDoor { router, waiting, front: false });
        busy |= front.poll(rt, &mut FrontDoor { router, waiting, front: true });
        busy
    }
    /// Sends a message to another core with the next turn.
    pub(crate) fn send(&mut self, core: usize, msg: CoreMsg) {
        self.out.push_back((core, msg));
    }
}

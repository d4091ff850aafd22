//! The host of owners ([`object::owners`]) at work, on core 0: what the control links, the cores, the copies of this node and the directory say
//! goes in; what it wants done goes to those.
//!
//! ```text
//!  records (apply), outcomes ──►┐             ┌──► Directory (control plane), by number
//!  control links, cores ───────►│ Ownership ──┼──► control links: Fence, Fenced, Release
//!  copies of this node ────────►┘             ├──► copies of this node: Accept
//!                                             └──► all cores: cells and commands, in one batch
//! ```
//!
//! Owns: [`Ownership`].
//! Invariants: what was wanted is done in its order: nothing goes out before all cores have done what comes before it; each question is answered
//! once; a node alone has none of this.
//! Never: decides who owns what; keeps a core from its work.

use crate::{
    command::CommandSender,
    controller::{CoreController, done},
    copies::{CopyRefused, FenceCopy, ListForResync, Wrong},
    core_state::Core,
    desired::{Desired, ObjectDesired},
    event::{DataPlaneEvent, DirectoryAsk, EventSender},
    message::{Call, CoreMsg},
    requests::{RequestCounts, VolumeRequests},
};
use base::{BlockNo, ComponentId, Duration, Epoch, Instant, NodeId, Nonce, ObjectId, OwnerId};
use format::peer::{BadBlock, Fence};
use frontend::FrontEnd;
use object::grant::GrantCell;
use object::owner::{Command, Event, Fenced, Listed, Revision};
use object::owners::{Action, ChangeOutcome, ControlDoor, ControlEvent, Found, NotAccepted, Owners, Why};
use object::{ComponentAt, VolumeRef};
use rt::sync::oneshot;
use rt::{Queue, Rt, TimerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::CopySync;

/// What goes to all cores together.
const ORDERS_MAX: usize = 4096;
/// Before copies are asked again for what they have.
const LIST_AGAIN: Duration = Duration::from_millis(20);

/// What a core is to do of a volume with copies on several nodes.
#[derive(Clone, Debug)]
pub(crate) enum CopyOrder {
    /// Reads are answered by this.
    Cell(Option<Arc<GrantCell>>),
    /// What the owner's machine wants.
    Command(Command),
}

/// What has happened, as it comes.
pub(crate) enum Happened {
    /// A core says something of a volume.
    Core(u16, VolumeRef, Event),
    /// A copy of this node has made an epoch durable, or has not.
    Accepted(ObjectId, ComponentId, Result<Fenced, NotAccepted>),
    /// The directory was read; `None`: it could not be.
    Read(u64, Option<Vec<(ObjectId, Found)>>),
    /// What came of a change.
    Changed(u64, ChangeOutcome),
    /// What source and copy of a resync have.
    Listed(ObjectId, Listed),
    /// A copy of this node has lost a block.
    Bad(BadBlock),
    /// What all cores have counted.
    Requests(Vec<VolumeRequests>),
}

/// See the module.
pub(crate) struct Ownership {
    me: OwnerId,
    owners: Owners,
    volumes: BTreeMap<ObjectId, VolumeRef>,
    objects: BTreeMap<VolumeRef, ObjectId>,
    requests: RequestCounts,
    /// Whose records were given.
    known: BTreeSet<ObjectId>,
    /// Copies of this node that the granter knows.
    copies: BTreeMap<ComponentId, ObjectId>,
    happened: VecDeque<Happened>,
    orders: Vec<(VolumeRef, CopyOrder)>,
    /// What waits until the cores have done what comes before it.
    held: Option<Action>,
    /// What the control plane has not heard yet: objects that hosts are to reach otherwise, or not any more.
    away: BTreeMap<ObjectId, bool>,
    /// A batch is with the cores.
    ordering: bool,
    /// The node ends: see [`Self::leave`].
    leaving: bool,
    queue: Queue,
    timer: Option<(TimerId, Instant)>,
    /// When there is something to do, by the clock of grants.
    due: Instant,
}

impl Ownership {
    fn new(rt: &Rt, me: OwnerId) -> Self {
        let nonce = u128::from(rt.random_u64()) << 64 | u128::from(rt.random_u64());
        Self {
            me,
            owners: Owners::new(me, rt.cores() as u16, Nonce(nonce)),
            volumes: BTreeMap::new(),
            objects: BTreeMap::new(),
            requests: RequestCounts::default(),
            known: BTreeSet::new(),
            copies: BTreeMap::new(),
            happened: VecDeque::new(),
            orders: Vec::new(),
            held: None,
            away: BTreeMap::new(),
            ordering: false,
            leaving: false,
            queue: rt.queue(),
            timer: None,
            due: Instant(0),
        }
    }

    /// The node is about to end: what others can have goes to them. Whether something is still on its way.
    pub(crate) fn hands_all_over(&mut self, links: &mut dyn ControlDoor, now: Instant) -> bool {
        self.due = Instant(0);
        self.owners.ends(&mut links.grants(now))
    }

    /// The node ends, and has nothing of hosts any more: from now on it changes no record.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// The copies that this node brings back into sync, and how far it has come.
    pub(crate) fn resyncing(&self) -> Vec<(ComponentId, Option<u64>)> {
        self.owners.resyncing().collect()
    }

    /// Copies that take much longer for changes than the others, of objects that this node serves.
    pub(crate) fn slow_copies(&self) -> Vec<ComponentId> {
        self.owners.slow_copies().collect()
    }

    /// Copies that are out because they fail or are slow, though their nodes answer, of objects that this node serves.
    pub(crate) fn failed_copies(&self) -> Vec<ComponentId> {
        self.owners.failed_copies().collect()
    }

    // ---- what comes -------------------------------------------------------------------------------------------------

    /// Something has happened.
    pub(crate) fn happens(&mut self, rt: &Rt, what: Happened) {
        self.happened.push_back(what);
        rt.wake(rt.core());
    }
    /// The records are these. `accepted`: of each copy of this node that is there, what it had accepted when its group was opened.
    fn serves(
        &mut self,
        links: &mut dyn ControlDoor,
        now: Instant,
        objects: &[ObjectDesired],
        accepted: &BTreeMap<ComponentId, Option<(Epoch, OwnerId)>>,
    ) {
        let mut g = links.grants(now);
        let gone: Vec<ComponentId> = self.copies.keys().filter(|c| !accepted.contains_key(c)).copied().collect();
        for component in gone {
            if let Some(object) = self.copies.remove(&component) {
                self.owners.without(&mut g, object, component);
            }
        }
        let is: BTreeSet<ObjectId> = objects.iter().map(|o| o.object).collect();
        for object in std::mem::replace(&mut self.known, is.clone()).difference(&is) {
            let copies: Vec<ComponentId> = self.copies.iter().filter(|(_, of)| *of == object).map(|(c, _)| *c).collect();
            for component in copies {
                self.copies.remove(&component);
                self.owners.without(&mut g, *object, component);
            }
            self.owners.removed(&mut g, *object);
        }
        for ObjectDesired { object, revision, record, preferred, slow_copies_leave, resync } in objects {
            for copy in record.copies.iter().filter(|c| c.node == self.me.node) {
                if let Some(accepted) = accepted.get(&copy.component)
                    && self.copies.insert(copy.component, *object).is_none()
                {
                    self.owners.component(&mut g, *object, copy.component, *accepted);
                }
            }
            if !self.owners.record(&mut g, *object, Revision(*revision), record.clone()) {
                tracing::error!(%object, "this node has copies of as many objects as it can");
            }
            self.owners.slow_copies_leave(*object, *slow_copies_leave);
            self.owners.resync_pace(&mut g, *object, *resync);
            self.owners.prefers(&mut g, *object, *preferred);
        }
        self.due = Instant(0);
    }
    fn takes(&mut self, links: &mut dyn ControlDoor, now: Instant, what: Happened) {
        let mut g = links.grants(now);
        match what {
            Happened::Core(core, volume, event) => {
                if let Some(object) = self.objects.get(&volume) {
                    self.owners.plane(&mut g, *object, core, event);
                }
            }
            Happened::Accepted(object, component, said) => self.owners.accepted(&mut g, object, component, said),
            Happened::Read(request, records) => self.owners.read(&mut g, request, records),
            Happened::Changed(request, outcome) => self.owners.changed(&mut g, request, outcome),
            Happened::Bad(bad) => self.owners.bad_block(self.me.node, bad),
            Happened::Listed(object, listed) => self.owners.plane(&mut g, object, 0, Event::Listed(listed)),
            Happened::Requests(counted) => {
                let requests = self.requests.since_last(self.me.node, counted);
                self.owners.counted(&mut g, &requests);
            }
        }
    }
    fn hears(&mut self, links: &mut dyn ControlDoor, now: Instant, event: ControlEvent) {
        let mut g = links.grants(now);
        match event {
            ControlEvent::Opened(node, incarnation) => self.owners.opened(&mut g, node, incarnation),
            ControlEvent::Reach(node, reach) => self.owners.reach(&mut g, node, reach),
            ControlEvent::Fence(by, fence) => self.owners.fence(&mut g, by, fence),
            ControlEvent::Fenced(from, fenced) => self.owners.fenced(&mut g, from, fenced),
            ControlEvent::Outranked(object, epoch) => self.owners.outranked(&mut g, object, epoch),
            ControlEvent::Released(from, object, next) => self.owners.released(&mut g, object, from, next),
            ControlEvent::BadBlock(node, bad) => self.owners.bad_block(node, bad),
            ControlEvent::CopyFails(node, fails) => self.owners.copy_fails(&mut g, node, fails),
            ControlEvent::Load(node, load) => self.owners.loaded(node, load),
            ControlEvent::Left(node) => self.owners.left(node),
        }
    }

    // ---- what is wanted ---------------------------------------------------------------------------------------------

    /// Does what is wanted, as far as nothing before it is under way. What is left is for whoever can do it.
    fn next(&mut self, links: &mut dyn ControlDoor, events: &EventSender, now: Instant) -> Option<Wanted> {
        while !self.ordering {
            let full = self.orders.len() >= ORDERS_MAX;
            let next = if full { None } else { self.held.take().or_else(|| self.owners.pop(now)) };
            match next {
                Some(Action::Cell { object, cell }) => self.order(object, CopyOrder::Cell(cell)),
                Some(Action::Plane { object, command: Command::List { source, copy, from, epoch } }) => {
                    return Some(Wanted::List(object, ListForResync { source, copy, from, epoch }));
                }
                Some(Action::Plane { object, command }) => self.order(object, CopyOrder::Command(command)),
                other if !self.orders.is_empty() => {
                    (self.held, self.ordering) = (other, true);
                    return Some(Wanted::Batch(std::mem::take(&mut self.orders)));
                }
                Some(Action::Accept { by, fence }) => return Some(Wanted::Accept(by, fence)),
                Some(Action::Fence { to, fence }) => links.fence(to, fence),
                Some(Action::Fenced { to, fenced }) => links.fenced(to, &fenced),
                Some(Action::Release { to, release }) => links.release(to, release),
                Some(Action::BadBlock { to, bad }) => links.bad_block(to, bad),
                Some(Action::CopyFails { to, fails }) => links.copy_fails(to, fails),
                Some(Action::Load { to, load }) => links.load(to, load),
                Some(Action::Count) => return Some(Wanted::Count),
                Some(Action::Goes { object, to, why }) => match why {
                    Why::Hosts => tracing::info!(%object, node = %to, "an object goes to the node that its hosts come by"),
                    Why::Load => tracing::info!(%object, node = %to, "an object goes to a node that has less to do"),
                },
                Some(Action::Read { request, objects }) => {
                    if events.send(DataPlaneEvent::Directory(DirectoryAsk::Read { request, objects })).is_err() {
                        self.happened.push_back(Happened::Read(request, None));
                    }
                }
                // Who leaves does not reach the others: that is no reason to take their copies away.
                Some(Action::Change { .. }) if self.leaving => {}
                Some(Action::Change { request, changes }) => {
                    if events.send(DataPlaneEvent::Directory(DirectoryAsk::Change { request, changes })).is_err() {
                        // Nobody has seen it.
                        self.happened.push_back(Happened::Changed(request, ChangeOutcome::Lost));
                    }
                }
                Some(Action::Away { object, away }) => drop(self.away.insert(object, away)),
                None => return None,
            }
        }
        None
    }
    /// What there was no room for is said by a later turn.
    fn says_away(&mut self, events: &EventSender) {
        while let Some((object, away)) = self.away.pop_first() {
            if events.send(DataPlaneEvent::Away(object, away)).is_err() {
                self.away.insert(object, away);
                break;
            }
        }
    }
    fn order(&mut self, object: ObjectId, order: CopyOrder) {
        // What is not served has no lanes.
        if let Some(volume) = self.volumes.get(&object) {
            self.orders.push((*volume, order));
        }
    }
    fn arm(&mut self, rt: &Rt, now: Instant) {
        self.due = self.owners.deadline(now);
        let at = rt.now() + self.due.since(now);
        if self.timer.is_none_or(|(_, armed)| armed > at) {
            if let Some((id, _)) = self.timer.take() {
                rt.cancel_timer(id);
            }
            self.timer = Some((rt.timer(&self.queue, 0, at), at));
        }
    }
}

/// What takes its time.
enum Wanted {
    Batch(Vec<(VolumeRef, CopyOrder)>),
    Accept(OwnerId, Fence),
    List(ObjectId, ListForResync),
    Count,
}

/// A turn of core 0: whether there was anything to do.
pub(crate) fn poll<F: FrontEnd>(rt: &Rt, core: &mut Core<F>, events: &EventSender, controller: impl Fn() -> CoreController<F>) -> bool {
    let (Some(own), Some(links)) = (&mut core.ownership, core.front.control_links()) else { return false };
    let mut busy = false;
    while own.queue.pop().is_some() {
        (own.timer, busy) = (None, true);
    }
    let now = rt.boot_clock();
    while let Some(event) = links.pop_event() {
        busy = true;
        own.hears(links, now, event);
    }
    while let Some(what) = own.happened.pop_front() {
        busy = true;
        own.takes(links, now, what);
    }
    if !busy && own.due > now {
        return false;
    }
    if own.due <= now {
        own.owners.poll(&mut links.grants(now));
    }
    while let Some(wanted) = own.next(links, events, now) {
        let this = controller();
        match wanted {
            Wanted::Batch(orders) => {
                let here = own.me.node;
                rt.spawn(async move {
                    this.order_all(here, orders).await;
                    if let Some(own) = this.core.borrow_mut().ownership.as_mut() {
                        own.ordering = false;
                        own.due = Instant(0);
                    }
                    this.rt.wake(this.rt.core());
                });
            }
            Wanted::List(object, ask) => {
                let here = own.me.node;
                rt.spawn(async move {
                    if let Some(listed) = this.listed(here, object, ask).await {
                        this.core.borrow_mut().happens(&this.rt, Happened::Listed(object, listed));
                    }
                });
            }
            Wanted::Count => {
                rt.spawn(async move {
                    let counted = this.requests().await;
                    this.core.borrow_mut().happens(&this.rt, Happened::Requests(counted));
                });
            }
            Wanted::Accept(by, fence) => {
                rt.spawn(async move {
                    let said = this.accept(by, &fence).await;
                    let what = Happened::Accepted(fence.object, fence.component, said);
                    this.core.borrow_mut().happens(&this.rt, what);
                });
            }
        }
    }
    own.says_away(events);
    own.arm(rt, now);
    true
}

impl<F: FrontEnd> Core<F> {
    /// Something has happened that the host of owners is to know, if there is one.
    pub(crate) fn happens(&mut self, rt: &Rt, what: Happened) {
        if let Some(own) = &mut self.ownership {
            own.happens(rt, what);
        }
    }
    /// On core 0: a block of a copy on this node was found lost.
    pub(crate) fn bad_block(&mut self, rt: &Rt, at: ComponentAt, block: BlockNo) {
        let group = self.groups.get(&at.group).and_then(|group| self.ledger.groups.get(group));
        if let Some(component) = group.and_then(|open| open.group.component(at.no)).map(|component| component.id) {
            self.happens(rt, Happened::Bad(BadBlock { component, block }));
        }
    }
    /// What the cores say of volumes with copies on several nodes goes to core 0.
    pub(crate) fn copy_events(&mut self, rt: &Rt) -> bool {
        let mut any = false;
        while let Some((volume, event)) = self.router.pop_copy_event() {
            any = true;
            match rt.core() {
                0 => self.happens(rt, Happened::Core(0, volume, event)),
                core => self.send(0, CoreMsg::CopyEvent { core: core as u16, volume, event: Box::new(event) }),
            }
        }
        while let Some((at, block)) = self.router.pop_bad() {
            any = true;
            match rt.core() {
                0 => self.bad_block(rt, at, block),
                _ => self.send(0, CoreMsg::BadBlock(at, block)),
            }
        }
        any
    }
}

impl<F: FrontEnd> CoreController<F> {
    /// The picture is served on all cores: the host of owners goes by the records that it was made from.
    pub(crate) fn owners_serve(&self, desired: &Desired<F::Desired>) {
        let core = &mut *self.core.borrow_mut();
        let Some(links) = core.front.control_links() else {
            core.ownership = None;
            return;
        };
        let me = links.own();
        if core.ownership.as_ref().is_none_or(|own| own.me != me) {
            core.ownership = Some(Box::new(Ownership::new(&self.rt, me)));
        }
        let own = core.ownership.as_mut().expect("just seen");
        let ledger = &core.ledger;
        let places = desired.volumes.iter().filter_map(|v| Some((v.object.object, *ledger.lanes.get(&v.object.object)?)));
        own.volumes = places.collect();
        own.objects = own.volumes.iter().map(|(object, volume)| (*volume, *object)).collect();
        own.requests.serves(desired.volumes.iter().map(|v| (v.id, v.object.object)));
        let here = desired.objects.iter().flat_map(|o| &o.record.copies).filter(|c| c.node == me.node);
        let is_open = |c: &ComponentId| ledger.groups.values().any(|open| open.group.find(*c).is_some());
        let there = here.map(|c| c.component).filter(is_open);
        let accepted = there.map(|c| (c, ledger.accepted.get(&c).copied())).collect();
        own.owners.balances(desired.balancing);
        own.serves(links, self.rt.boot_clock(), &desired.objects, &accepted);
        self.rt.wake(self.rt.core());
    }
    /// Has all cores do this, and returns when they have.
    pub(crate) async fn order_all(&self, here: NodeId, orders: Vec<(VolumeRef, CopyOrder)>) {
        let orders = Arc::new(orders);
        let mut receivers = Vec::new();
        for core in 0..self.rt.cores() {
            let (sender, receiver) = oneshot();
            let (this, call) = (self.clone(), Call::Copies { here, orders: Arc::clone(&orders) });
            self.rt.spawn(async move {
                let _ = sender.send(done(this.call(core, call).await));
            });
            receivers.push(receiver);
        }
        for receiver in receivers {
            // A core that has ended answers nothing.
            let _ = receiver.await;
        }
    }
    /// What source and copy of a resync have; asked again as long as there is this resync.
    async fn listed(&self, here: NodeId, object: ObjectId, ask: ListForResync) -> Option<Listed> {
        loop {
            match self.list_for_resync(here, ask).await {
                Ok(listed) => return Some(listed),
                Err(why) => tracing::debug!(%object, %why, "the chunks of copies cannot be listed yet"),
            }
            self.rt.sleep(LIST_AGAIN).await;
            let core = self.core.borrow();
            let own = core.ownership.as_ref()?;
            if own.owners.resyncs(object) != Some(ask.copy.component) || own.owners.record_of(object)?.epoch() != ask.epoch {
                return None;
            }
        }
    }
    /// Has a copy of this node make an epoch durable.
    async fn accept(&self, by: OwnerId, fence: &Fence) -> Result<Fenced, NotAccepted> {
        let sync = if fence.resync { CopySync::Join } else { CopySync::InSync };
        let ask = FenceCopy { component: fence.component, epoch: fence.epoch, period_start: fence.period_start, by, sync };
        match self.fence_copy(ask).await {
            Ok(fenced) => {
                // Whoever makes it known anew, to the machine of grants, goes by this.
                self.core.borrow_mut().ledger.accepted.insert(fence.component, (fence.epoch, by));
                Ok(fenced)
            }
            Err(why) => {
                tracing::debug!(component = %fence.component, epoch = fence.epoch.0, %why, "a copy does not accept an epoch yet");
                let fails = matches!(why, Wrong::Refused(CopyRefused::DeviceFailed | CopyRefused::TooManyInDoubt));
                Err(if fails { NotAccepted::Fails } else { NotAccepted::NotNow })
            }
        }
    }
}

impl<F: FrontEnd> CommandSender<F> {
    /// Answers [`DirectoryAsk::Read`]: the records and their revisions; `None`: they could not be read. Does not wait.
    pub fn directory_read(&self, request: u64, records: Option<Vec<(ObjectId, Found)>>) {
        self.happens(Happened::Read(request, records));
    }
    /// Answers [`DirectoryAsk::Change`]. Made: when what the change says is served. Does not wait.
    pub fn directory_changed(&self, request: u64, outcome: ChangeOutcome) {
        self.happens(Happened::Changed(request, outcome));
    }
    fn happens(&self, what: Happened) {
        drop(self.give(move |c| async move {
            c.core.borrow_mut().happens(&c.rt, what);
            Ok(())
        }));
    }
}

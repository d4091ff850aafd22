//! What is asked of the copies on this node: to accept an epoch, to say what is in doubt, which chunks they have, what they have accepted.
//!
//! Invariants: a fence is answered when every shard of the group has accepted the epoch, durably, and none a later one; one that a shard has to
//! refuse goes to no shard; what shards say is one answer, of all of them.
//! Never: decides whether an epoch may be accepted yet (that is the grants' question), nor what follows from it.

use crate::{
    command::{CommandSender, Completion},
    controller::CoreController,
    error::DataPlaneError,
    message::{Answer, Call},
};
use base::hooks::{self, SeededFault};
use base::{ComponentId, Epoch, GroupId, Incarnation, LaneDoubt, NodeId, ObjectId, Order, OwnerId, ResyncProgress};
use cluster::CopySeen;
use format::peer::{CopyOutcome, List, RequestId};
use frontend::FrontEnd;
use object::copies::{CopyAnswer, ListAsk};
use object::owner::{CopyRef, Fenced, Listed, ListedChunk};
use object::{ComponentAt, GroupSlot};
use rt::sync::oneshot;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{ComponentInfo, ComponentNo, CopyChunk, CopyList, CopySync, GroupError, LIST_CHUNKS_MAX, ReplicaView, StoreError};

/// Chunks that a copy is asked for at a time.
const LIST_MOST: u32 = LIST_CHUNKS_MAX as u32;
const _: () = assert!(LIST_CHUNKS_MAX == format::peer::LIST_ENTRIES_MAX && LIST_CHUNKS_MAX == object::owner::LIST_CHUNKS_MAX);

/// The owner of an epoch makes itself known to a copy on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceCopy {
    /// Which copy. If its component was none so far, it is one from now on.
    pub component: ComponentId,
    /// The epoch.
    pub epoch: Epoch,
    /// Since when the object is not in sync on all copies.
    pub period_start: Epoch,
    /// Whose epoch it is.
    pub by: OwnerId,
    /// What it says of the copy: [`CopySync::Keep`], [`CopySync::InSync`] or [`CopySync::Join`].
    pub sync: CopySync,
}

/// What source and copy of a resync are asked: [`object::owner::Command::List`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListForResync {
    /// The copy that is read.
    pub source: CopyRef,
    /// The copy that is out of sync.
    pub copy: CopyRef,
    /// From which chunk.
    pub from: u64,
    /// The epoch. The source has to have accepted it.
    pub epoch: Epoch,
}

/// Why a copy does not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyRefused {
    /// It has accepted this epoch: a later one, or the same one of another owner.
    #[error("the copy has accepted a later epoch, or this one of another owner")]
    StaleEpoch(Epoch),
    /// No open group has such a component.
    #[error("there is no such component on this node")]
    NoComponent,
    /// Its group is being closed, or too much is under way: to come again.
    #[error("not now")]
    Closing,
    /// A device of its group has failed.
    #[error("a device of the disk group has failed")]
    DeviceFailed,
    /// So much is in doubt that it cannot join: it has to be made anew.
    #[error("too much is in doubt in the copy for it to join")]
    TooManyInDoubt,
    /// No owner asks that.
    #[error("no owner of an object asks that")]
    Unsound,
}

/// What a component of a group has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedEpoch {
    /// Which component.
    pub component: ComponentId,
    /// Of which object.
    pub object: ObjectId,
    /// The highest epoch that a shard has accepted; 0: it never was one copy of several.
    pub epoch: Epoch,
    /// The same, or the highest that a change of it came with: whoever changes it next has to be at this or above.
    pub taken: Epoch,
    /// Whose that is; `None`: it has accepted none as a copy.
    pub by: Option<OwnerId>,
    /// The lowest that a shard has, durable. Below `epoch` the end of the node came in between, and the owner was not answered.
    pub lowest: Epoch,
    /// It has heard that it is out of sync, and not that it is in sync again.
    pub resyncing: bool,
}

impl From<AcceptedEpoch> for CopySeen {
    fn from(a: AcceptedEpoch) -> Self {
        Self { component: a.component, object: a.object, epoch: a.epoch, taken: a.taken, resyncing: a.resyncing }
    }
}

/// What core 0 asks the shards of a group on a core.
#[derive(Clone)]
pub(crate) enum OfCopies {
    Accept { at: ComponentAt, order: Order, by: OwnerId, sync: CopySync },
    Doubt(ComponentAt),
    List { at: ComponentAt, from: u64, most: usize },
    Views { slot: GroupSlot, components: Arc<Vec<ComponentNo>> },
    Epochs { slot: GroupSlot, components: Arc<Vec<ComponentNo>> },
}

/// What they say: one entry of each shard; of views and epochs, one of each shard and component.
pub(crate) enum CopiesSay {
    Accepted(Vec<Result<(), StoreError>>),
    Doubt(Vec<Vec<LaneDoubt>>),
    List(Vec<CopyList>),
    Views(Vec<(ComponentNo, Option<ReplicaView>)>),
    Epochs(Vec<(ComponentNo, Option<Epoch>)>),
}

impl<F: FrontEnd> CommandSender<F> {
    /// Has a copy accept an epoch on all shards of its group, and say what is in doubt. Whether it may be accepted yet was asked before. Refused or
    /// failed, some shards may have accepted it: it is to come again.
    pub fn fence_copy(&self, fence: FenceCopy) -> Completion<Result<Fenced, CopyRefused>> {
        self.give(move |c| async move { outer(c.fence_copy(fence).await) })
    }
    /// The chunks of a copy from `from` on, in order, at most `most` of them and [`LIST_CHUNKS_MAX`].
    pub fn list_copy(&self, component: ComponentId, from: u64, most: usize) -> Completion<Result<CopyList, CopyRefused>> {
        self.give(move |c| async move { outer(c.list_copy(component, from, most).await) })
    }
    /// What source and copy of a resync have, from a chunk on: the answer to [`object::owner::Command::List`]. `here`: this node, whose copies are
    /// asked here; others over the links. [`CopyRefused::Closing`]: to be asked again a little later, as when the source has not accepted the
    /// epoch yet.
    pub fn list_for_resync(&self, here: NodeId, ask: ListForResync) -> Completion<Result<Listed, CopyRefused>> {
        self.give(move |c| async move { outer(c.list_for_resync(here, ask).await) })
    }
    /// What each component of an open group has accepted so far.
    pub fn accepted_epochs(&self, group: GroupId) -> Completion<Vec<AcceptedEpoch>> {
        self.give(move |c| async move { c.accepted_epochs(group).await })
    }
}

/// What went wrong within a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error(transparent)]
    Refused(CopyRefused),
    #[error(transparent)]
    Failed(DataPlaneError),
}

impl From<CopyRefused> for Wrong {
    fn from(refused: CopyRefused) -> Self {
        Wrong::Refused(refused)
    }
}

impl From<DataPlaneError> for Wrong {
    fn from(error: DataPlaneError) -> Self {
        Wrong::Failed(error)
    }
}

fn outer<T>(result: Result<T, Wrong>) -> Result<Result<T, CopyRefused>, DataPlaneError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Wrong::Refused(refused)) => Ok(Err(refused)),
        Err(Wrong::Failed(error)) => Err(error),
    }
}

/// A copy, where it is.
struct Place {
    at: ComponentAt,
    shards: usize,
    group: store::Group,
    info: ComponentInfo,
}

impl<F: FrontEnd> CoreController<F> {
    fn place(&self, component: ComponentId) -> Result<Place, CopyRefused> {
        let core = self.core.borrow();
        let found = core.ledger.groups.values().find_map(|open| {
            let info = open.group.find(component)?;
            let at = ComponentAt { group: open.slot, no: info.no };
            Some(Place { at, shards: usize::from(open.route.shards), group: open.group.clone(), info })
        });
        found.ok_or(CopyRefused::NoComponent)
    }

    pub(crate) async fn fence_copy(&self, fence: FenceCopy) -> Result<Fenced, Wrong> {
        let FenceCopy { component, epoch, period_start, by, sync } = fence;
        let place = self.place(component)?;
        self.becomes_copy(&place).await?;
        let may = |view: &ReplicaView| {
            let others = view.by.incarnation != Incarnation(0) && view.by != by;
            epoch > view.accepted || epoch == view.accepted && !others
        };
        let views = self.views_of(&place).await?;
        if !hooks::seeded(SeededFault::FenceGoesToSomeShards) && !views.iter().all(may) {
            return Err(stale(&views).into());
        }
        let order = Order { epoch, period_start, ..Order::default() };
        let mut results = Vec::new();
        for said in self.ask_all(OfCopies::Accept { at: place.at, order, by, sync }).await? {
            if let CopiesSay::Accepted(of_core) = said {
                results.extend(of_core);
            }
        }
        complete(results.len(), &place)?;
        for result in results {
            match result {
                Ok(()) => {}
                // Another fence came in between.
                Err(StoreError::StaleEpoch) => return Err(stale(&self.views_of(&place).await?).into()),
                Err(error) => return Err(refused(error).into()),
            }
        }
        let mut lanes = Vec::new();
        for said in self.ask_all(OfCopies::Doubt(place.at)).await? {
            if let CopiesSay::Doubt(of_core) = said {
                lanes.extend(of_core.into_iter().flatten());
            }
        }
        lanes.sort_unstable_by_key(|said| said.lane);
        // It cannot say so much: it leaves, and comes back by resync.
        if lanes.iter().any(|said| said.doubt.len() > object::IN_DOUBT_MAX) {
            return Err(CopyRefused::TooManyInDoubt.into());
        }
        // Later than what is in doubt was said: then it was said in this epoch.
        let views = self.views_of(&place).await?;
        if views.iter().any(|view| (view.accepted, view.by) != (epoch, by)) {
            return Err(stale(&views).into());
        }
        // What each shard knows of it is true of the whole copy.
        let resync = views.iter().filter_map(|view| view.resync).max_by_key(|p: &ResyncProgress| (p.to, p.below));
        Ok(Fenced { from: component, epoch, lanes, resync })
    }

    /// Makes it a copy if it is none, on all shards.
    async fn becomes_copy(&self, place: &Place) -> Result<(), Wrong> {
        if !place.info.copy {
            place.group.make_copy(&self.rt, place.at.no).await.map_err(|error| match error {
                GroupError::NoComponent(_) => CopyRefused::NoComponent,
                _ => CopyRefused::DeviceFailed,
            })?;
        }
        // Another fence may be at this point: its shards need not know yet.
        let views = self.views(place.at.group, vec![place.at.no]).await?;
        if views.iter().any(|(_, view)| view.is_none()) {
            self.announce_component(place.at.group, &place.group, place.at.no).await?;
        }
        Ok(())
    }

    async fn list_copy(&self, component: ComponentId, from: u64, most: usize) -> Result<CopyList, Wrong> {
        let place = self.place(component)?;
        let most = most.clamp(1, LIST_CHUNKS_MAX);
        let mut lists = Vec::new();
        for said in self.ask_all(OfCopies::List { at: place.at, from, most }).await? {
            if let CopiesSay::List(of_core) = said {
                lists.extend(of_core);
            }
        }
        complete(lists.len(), &place)?;
        Ok(merged(lists, most))
    }

    /// What a copy here has, in an epoch of its owner. It looks when all of its shards have accepted `accepted`, with Restamp.
    async fn list_in_epoch(&self, list: &List) -> Result<CopyList, Wrong> {
        let &List { component, from, most, epoch, accepted, .. } = list;
        let views = self.views_of(&self.place(component)?).await?;
        if views.iter().any(|view| view.accepted > epoch) {
            return Err(stale(&views).into());
        }
        if views.iter().any(|view| view.durable < accepted) && !hooks::seeded(SeededFault::SourceNotStamped) {
            return Err(CopyRefused::Closing.into());
        }
        self.list_copy(component, from, most as usize).await
    }
    /// The same of a copy on any node.
    async fn list_at(&self, here: NodeId, node: NodeId, list: List) -> Result<CopyList, Wrong> {
        if node == here {
            return self.list_in_epoch(&list).await;
        }
        let answered = self.core.borrow_mut().router.ask_list(&self.rt, node, list);
        let CopyAnswer { outcome, list, .. } = answered.await.map_err(|_| CopyRefused::Closing)?;
        match (outcome, list) {
            (CopyOutcome::Done, Some(list)) => Ok(list),
            (CopyOutcome::StaleEpoch(epoch), _) => Err(CopyRefused::StaleEpoch(epoch).into()),
            (CopyOutcome::NoComponent, _) => Err(CopyRefused::NoComponent.into()),
            (CopyOutcome::Failed | CopyOutcome::Media(_) | CopyOutcome::NoSpace | CopyOutcome::Uncorrectable(_), _) => {
                Err(CopyRefused::DeviceFailed.into())
            }
            (CopyOutcome::Closing | CopyOutcome::NotOwner | CopyOutcome::Late | CopyOutcome::Done, _) => Err(CopyRefused::Closing.into()),
        }
    }
    pub(crate) async fn list_for_resync(&self, here: NodeId, ask: ListForResync) -> Result<Listed, Wrong> {
        let ListForResync { source, copy, from, epoch } = ask;
        let list = |component, accepted| List { request: RequestId::default(), component, from, most: LIST_MOST, epoch, accepted };
        let of_source = self.list_at(here, source.node, list(source.component, epoch)).await?;
        let of_copy = self.list_at(here, copy.node, list(copy.component, Epoch(0))).await?;
        Ok(listed(from, epoch, of_source, of_copy))
    }
    /// Another node asks what a copy here has.
    #[cold]
    pub(crate) async fn answer_list(self, ask: ListAsk) {
        let ListAsk { token, list } = ask;
        let mut answer = CopyAnswer::from(CopyOutcome::Done);
        match self.list_in_epoch(&list).await {
            Ok(list) => answer.list = Some(list),
            Err(Wrong::Refused(refused)) => answer.outcome = outcome(refused),
            // The data plane ends.
            Err(Wrong::Failed(_)) => answer.outcome = CopyOutcome::Closing,
        }
        self.core.borrow_mut().router.answer_list(&self.rt, token, answer);
    }

    /// What each component of a group has accepted, and the highest epoch that a change of it came with.
    async fn accepted_epochs(&self, group: GroupId) -> Result<Vec<AcceptedEpoch>, DataPlaneError> {
        let mut accepted = self.accepted_by_copies(group).await?;
        let (slot, group) = self.slot(group)?;
        let others: Vec<ComponentInfo> = group.components().into_iter().filter(|info| !info.copy).collect();
        let taken = self.highest_taken(slot, &others).await?;
        accepted.extend(others.iter().map(|info| {
            let (component, object) = (info.id, info.object);
            let taken = taken.get(&info.no).copied().unwrap_or_default();
            AcceptedEpoch { component, object, epoch: Epoch(0), taken, by: None, lowest: Epoch(0), resyncing: false }
        }));
        Ok(accepted)
    }
    /// The same, of those only that are one copy of several.
    pub(crate) async fn accepted_by_copies(&self, group: GroupId) -> Result<Vec<AcceptedEpoch>, DataPlaneError> {
        let (slot, group) = self.slot(group)?;
        let copies: Vec<ComponentInfo> = group.components().into_iter().filter(|info| info.copy).collect();
        let mut views: BTreeMap<ComponentNo, Vec<ReplicaView>> = BTreeMap::new();
        if !copies.is_empty() {
            for (no, view) in self.views(slot, copies.iter().map(|info| info.no).collect()).await? {
                views.entry(no).or_default().extend(view);
            }
        }
        let accepted = copies.iter().filter_map(|info| {
            let views = views.get(&info.no)?;
            let highest = views.iter().max_by_key(|view| (view.accepted, view.by.incarnation != Incarnation(0)))?;
            let by = Some(highest.by).filter(|by| by.incarnation != Incarnation(0));
            let lowest = views.iter().map(|view| view.durable).min()?;
            let resyncing = views.iter().any(|view| view.resync.is_some());
            let epoch = highest.accepted;
            Some(AcceptedEpoch { component: info.id, object: info.object, epoch, taken: epoch, by, lowest, resyncing })
        });
        Ok(accepted.collect())
    }
    /// The highest epoch that a change of each component came with.
    async fn highest_taken(&self, slot: GroupSlot, of: &[ComponentInfo]) -> Result<BTreeMap<ComponentNo, Epoch>, DataPlaneError> {
        let mut highest: BTreeMap<ComponentNo, Epoch> = BTreeMap::new();
        if of.is_empty() || hooks::seeded(SeededFault::EpochOfChangesUnsaid) {
            return Ok(highest);
        }
        let components = Arc::new(of.iter().map(|info| info.no).collect());
        for said in self.ask_all(OfCopies::Epochs { slot, components }).await? {
            let CopiesSay::Epochs(epochs) = said else { continue };
            for (no, epoch) in epochs {
                let highest = highest.entry(no).or_default();
                *highest = (*highest).max(epoch.unwrap_or_default());
            }
        }
        Ok(highest)
    }

    async fn views(
        &self,
        slot: GroupSlot,
        components: Vec<ComponentNo>,
    ) -> Result<Vec<(ComponentNo, Option<ReplicaView>)>, DataPlaneError> {
        let said = self.ask_all(OfCopies::Views { slot, components: Arc::new(components) }).await?;
        Ok(said.into_iter().flat_map(|said| if let CopiesSay::Views(views) = said { views } else { Vec::new() }).collect())
    }

    /// Of each shard.
    async fn views_of(&self, place: &Place) -> Result<Vec<ReplicaView>, Wrong> {
        let views = self.views(place.at.group, vec![place.at.no]).await?;
        complete(views.len(), place)?;
        let views: Option<Vec<ReplicaView>> = views.into_iter().map(|(_, view)| view).collect();
        // Deleted in the meantime by another command.
        Ok(views.ok_or(CopyRefused::NoComponent)?)
    }

    /// Asks all cores at once.
    async fn ask_all(&self, ask: OfCopies) -> Result<Vec<CopiesSay>, DataPlaneError> {
        let mut receivers = Vec::new();
        for core in 0..self.rt.cores() {
            let (sender, receiver) = oneshot();
            let (this, ask) = (self.clone(), ask.clone());
            self.rt.spawn(async move {
                let _ = sender.send(this.call(core, Call::OfCopies(Box::new(ask))).await);
            });
            receivers.push(receiver);
        }
        let mut all = Vec::new();
        for receiver in receivers {
            match receiver.await.map_err(|_| DataPlaneError::Stopped)? {
                Answer::OfCopies(said) => all.push(said),
                Answer::Done(result) => result?,
                Answer::Stats(_) | Answer::OfFill(_) | Answer::Requests(_) => {}
            }
        }
        Ok(all)
    }

    /// On its core.
    #[cold]
    pub(crate) async fn of_copies(&self, ask: OfCopies) -> CopiesSay {
        match ask {
            OfCopies::Accept { at, order, by, sync } => {
                let receivers = self.core.borrow_mut().router.lanes_mut().accept_epoch(&self.rt, at, order, by, sync);
                let mut results = Vec::new();
                for receiver in receivers {
                    results.push(match () {
                        () if hooks::seeded(SeededFault::FenceNotAwaited) && self.rt.core() > 0 => Ok(()),
                        () => receiver.await.unwrap_or(Err(StoreError::Closing)),
                    });
                }
                CopiesSay::Accepted(results)
            }
            OfCopies::Doubt(at) => {
                let core = self.core.borrow();
                let shards = core.router.lanes().shards().filter(|(slot, ..)| *slot == at.group);
                CopiesSay::Doubt(shards.map(|(_, _, shard)| shard.in_doubt(at.no)).collect())
            }
            OfCopies::List { at, from, most } => {
                let core = self.core.borrow();
                let shards = core.router.lanes().shards().filter(|(slot, ..)| *slot == at.group);
                CopiesSay::List(shards.map(|(_, _, shard)| shard.list(at.no, from, most)).collect())
            }
            OfCopies::Views { slot, components } => {
                let core = self.core.borrow();
                let shards = core.router.lanes().shards().filter(|(s, ..)| *s == slot);
                CopiesSay::Views(shards.flat_map(|(_, _, shard)| components.iter().map(move |no| (*no, shard.replica(*no)))).collect())
            }
            OfCopies::Epochs { slot, components } => {
                let core = self.core.borrow();
                let shards = core.router.lanes().shards().filter(|(s, ..)| *s == slot);
                CopiesSay::Epochs(shards.flat_map(|(_, _, shard)| components.iter().map(move |no| (*no, shard.accepted(*no)))).collect())
            }
        }
    }
}

/// Whether all shards have answered: some are gone when the group is being closed.
fn complete(answers: usize, place: &Place) -> Result<(), CopyRefused> {
    if answers == place.shards { Ok(()) } else { Err(CopyRefused::Closing) }
}

fn stale(views: &[ReplicaView]) -> CopyRefused {
    CopyRefused::StaleEpoch(views.iter().map(|view| view.accepted).max().unwrap_or_default())
}

fn refused(error: StoreError) -> CopyRefused {
    match error {
        StoreError::NoComponent => CopyRefused::NoComponent,
        StoreError::DeviceFailed | StoreError::NoSpace | StoreError::Media { .. } | StoreError::Uncorrectable { .. } => {
            CopyRefused::DeviceFailed
        }
        StoreError::TooManyInDoubt => CopyRefused::TooManyInDoubt,
        StoreError::BadChange => CopyRefused::Unsound,
        StoreError::Closing | StoreError::StaleEpoch | StoreError::EpochNotAccepted => CopyRefused::Closing,
    }
}

/// As another node hears it.
fn outcome(refused: CopyRefused) -> CopyOutcome {
    match refused {
        CopyRefused::StaleEpoch(epoch) => CopyOutcome::StaleEpoch(epoch),
        CopyRefused::NoComponent => CopyOutcome::NoComponent,
        CopyRefused::DeviceFailed => CopyOutcome::Failed,
        CopyRefused::Closing | CopyRefused::TooManyInDoubt | CopyRefused::Unsound => CopyOutcome::Closing,
    }
}

/// What source and copy have, as one list: as far as both say.
fn listed(from: u64, epoch: Epoch, source: CopyList, copy: CopyList) -> Listed {
    let mut next = [source.next, copy.next].into_iter().flatten().min();
    let mut chunks: BTreeMap<u64, ListedChunk> = BTreeMap::new();
    let empty = |chunk| ListedChunk { chunk, source: None, there: false, own_doubt: 0 };
    for CopyChunk { chunk, there, .. } in source.chunks.into_iter().filter(|c| c.there.is_some()) {
        chunks.entry(chunk).or_insert_with(|| empty(chunk)).source = there;
    }
    for CopyChunk { chunk, there, own_doubt } in copy.chunks {
        if !hooks::seeded(SeededFault::ListForgetsCopy) || chunks.contains_key(&chunk) {
            let listed = chunks.entry(chunk).or_insert_with(|| empty(chunk));
            (listed.there, listed.own_doubt) = (there.is_some(), own_doubt);
        }
    }
    if let Some((&first, _)) = chunks.iter().nth(LIST_CHUNKS_MAX) {
        next = Some(next.map_or(first, |next| next.min(first)));
    }
    let chunks = chunks.into_values().filter(|chunk| next.is_none_or(|next| chunk.chunk < next)).collect();
    Listed { from, epoch, chunks, next }
}

/// The lists of shards as one, of at most so many chunks.
fn merged(lists: Vec<CopyList>, most: usize) -> CopyList {
    let mut next = lists.iter().filter_map(|list| list.next).min();
    let mut chunks: Vec<_> = lists.into_iter().flat_map(|list| list.chunks).collect();
    chunks.retain(|chunk| next.is_none_or(|next| chunk.chunk < next));
    chunks.sort_unstable_by_key(|chunk| chunk.chunk);
    if let Some(first) = chunks.get(most) {
        next = Some(first.chunk + u64::from(hooks::seeded(SeededFault::ListGoesOnTooFar)));
        chunks.truncate(most);
    }
    CopyList { chunks, next }
}

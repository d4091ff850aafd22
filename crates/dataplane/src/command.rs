//! The commands: they go to core 0, which does them on all cores, one command after another where they touch the same thing.
//!
//! Invariant: a command is answered once; a caller that stops waiting does not stop the command.
//! Never: waits on a core.

use crate::{
    controller::{Command, CoreController, QUIET_POLL, done},
    core_state::{Core, OpenGroup},
    desired::Desired,
    door,
    error::DataPlaneError,
    message::{Answer, Call},
    ownership::CopyOrder,
    stats::{GroupSnapshot, NodeStats},
};
use base::hooks::{self, SeededFault};
use base::unit::{BLOCK_BYTES, PIECE_BYTES};
use base::{ClusterId, GroupId, NodeId, VolumeId};
use frontend::{ControlRequestId, FrontEnd, Refused, Reply};
use object::grant::GrantCell;
use object::owner::Command as OwnerCommand;
use object::{GroupRoute, GroupSlot};
use rt::{Device, Inlet, InletError};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use store::{ComponentInfo, ComponentNo, ComponentSpec, ComponentUpdate, FormatSpec, GroupDevices, GroupInfo, Probe, Settings};

/// How long the owner of a volume may take to serve it as this node does.
pub const CONFIRM_MAX: base::Duration = base::Duration::from_secs(5);
/// Before it is asked again.
const CONFIRM_AGAIN: base::Duration = base::Duration::from_millis(5);

/// The answer to a command, when it comes.
pub struct Completion<T>(mpsc::Receiver<Result<T, DataPlaneError>>);

impl<T> Completion<T> {
    /// Waits for the answer. Not for a core's thread.
    pub fn wait(self) -> Result<T, DataPlaneError> {
        self.0.recv().unwrap_or(Err(DataPlaneError::Stopped))
    }
    /// The answer, if it is there: for a simulated world, where waiting would stop the world.
    pub fn try_take(&self) -> Option<Result<T, DataPlaneError>> {
        match self.0.try_recv() {
            Ok(answer) => Some(answer),
            Err(mpsc::TryRecvError::Empty) => None,
            Err(mpsc::TryRecvError::Disconnected) => Some(Err(DataPlaneError::Stopped)),
        }
    }
}

/// The door for commands to one host. When core 0's inbox is full a command is answered [`DataPlaneError::Busy`]: at once, or for a
/// [`DataPlaneHandle`](crate::DataPlaneHandle) after it has waited for room.
pub struct CommandSender<F: FrontEnd> {
    inlet: Inlet<Command<F>>,
    /// How long it waits for room.
    patience: Duration,
}

impl<F: FrontEnd> Clone for CommandSender<F> {
    fn clone(&self) -> Self {
        Self { inlet: self.inlet.clone(), patience: self.patience }
    }
}

impl<F: FrontEnd> CommandSender<F> {
    pub(crate) fn new(inlet: Inlet<Command<F>>) -> Self {
        Self { inlet, patience: Duration::ZERO }
    }
    /// Waits for room as the control plane does.
    pub(crate) fn patient(self) -> Self {
        Self { patience: door::PATIENCE, ..self }
    }
    /// For who puts commands of its own there.
    pub(crate) fn inlet(&self) -> &Inlet<Command<F>> {
        &self.inlet
    }

    pub(crate) fn give<T, A>(&self, make: impl FnOnce(CoreController<F>) -> A + Send + 'static) -> Completion<T>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, DataPlaneError>> + 'static,
    {
        let (sender, receiver) = mpsc::channel();
        let answer = sender.clone();
        let command: Command<F> = Box::new(move |controller| {
            let rt = controller.rt.clone();
            rt.spawn(async move {
                // Nobody listens any more: the command was done all the same.
                let _ = answer.send(make(controller).await);
            });
        });
        // A closed inbox drops the command, which the completion reports as "stopped", as it does when the cores end before the command is done.
        if let Err(InletError::Full(_)) = door::send(&self.inlet, command, self.patience) {
            let _ = sender.send(Err(DataPlaneError::Busy));
        }
        Completion(receiver)
    }

    /// Says what a device holds.
    pub fn probe(&self, device: Device) -> Completion<Probe> {
        self.give(move |c| async move {
            let name = device.name().to_owned();
            store::probe(&c.rt, &device).await.map_err(|cause| DataPlaneError::Device { device: name, cause })
        })
    }
    /// Makes a disk group on devices. Refuses devices that hold something, except with `spec.force`.
    pub fn format_group(&self, spec: FormatSpec, cache: Device, capacity: Vec<Device>) -> Completion<GroupInfo> {
        self.give(move |c| async move { Ok(store::format_group(&c.rt, spec, &cache, &capacity).await?) })
    }
    /// Opens a disk group: recovers every shard, then serves.
    pub fn open_group(&self, cluster: Option<ClusterId>, devices: Vec<Device>) -> Completion<(GroupInfo, Vec<ComponentInfo>)> {
        self.open_group_with(cluster, GroupDevices { devices, ..GroupDevices::default() })
    }
    /// The same, where devices came or went.
    pub fn open_group_with(&self, cluster: Option<ClusterId>, devices: GroupDevices) -> Completion<(GroupInfo, Vec<ComponentInfo>)> {
        self.give(move |c| async move { c.open_group(cluster, devices).await })
    }
    /// Closes a disk group after a checkpoint. Volumes on it fail from now on.
    pub fn close_group(&self, group: GroupId) -> Completion<()> {
        self.give(move |c| async move {
            let slot = c.slot(group)?.0;
            c.call_all(Call::Route { slot, route: None }).await?;
            c.call_all(Call::CloseShards { slot }).await?;
            c.core.borrow_mut().ledger.groups.remove(&group);
            Ok(())
        })
    }
    /// Adds capacity device `index` to a disk group that is open; components may be made on it when this has ended. Refuses a device that holds
    /// something, except with `force`.
    pub fn add_capacity(&self, group: GroupId, index: u8, device: Device, force: bool) -> Completion<()> {
        self.give(move |c| async move {
            let (slot, group) = c.slot(group)?;
            let adding = group.add_capacity(&c.rt, index, &device, force).await?;
            c.call_all(Call::AddCapacity { slot, new: adding.capacity().clone() }).await?;
            adding.done();
            Ok(())
        })
    }
    /// Capacity device `index`, on which no component lies any more, leaves a disk group that is open.
    pub fn remove_capacity(&self, group: GroupId, index: u8) -> Completion<()> {
        self.give(move |c| async move {
            let (slot, group) = c.slot(group)?;
            let removing = group.remove_capacity(&c.rt, index).await?;
            c.call_all(Call::RemoveCapacity { slot, index }).await?;
            removing.done(&c.rt).await;
            Ok(())
        })
    }
    /// The numbers of the capacity devices of a disk group that is open.
    pub fn capacity_numbers(&self, group: GroupId) -> Completion<BTreeSet<u8>> {
        self.give(move |c| async move { Ok(c.slot(group)?.1.info().numbers().collect()) })
    }
    /// Makes a component, durably. Idempotent by `spec.id`.
    pub fn create_component(&self, group: GroupId, spec: ComponentSpec) -> Completion<ComponentNo> {
        self.give(move |c| async move {
            let (slot, group) = c.slot(group)?;
            let no = group.create_component(&c.rt, spec).await?;
            c.announce_component(slot, &group, no).await?;
            Ok(no)
        })
    }
    /// Changes size, reservation and descriptor of a component, durably.
    pub fn update_component(
        &self,
        group: GroupId,
        no: ComponentNo,
        bytes: u64,
        reserve_chunks: u64,
        descriptor: Vec<u8>,
    ) -> Completion<()> {
        self.give(move |c| async move {
            let (slot, group) = c.slot(group)?;
            let update = ComponentUpdate { bytes: Some(bytes), reserve_chunks: Some(reserve_chunks), descriptor: Some(descriptor) };
            group.update_component(&c.rt, no, update).await?;
            if hooks::seeded(SeededFault::UpdateNotReported) {
                return Ok(());
            }
            c.announce_component(slot, &group, no).await
        })
    }
    /// Deletes a component, durably, and frees its space.
    pub fn delete_component(&self, group: GroupId, no: ComponentNo) -> Completion<()> {
        self.give(move |c| async move {
            let (slot, group) = c.slot(group)?;
            group.delete_component(&c.rt, no).await?;
            c.call_all(Call::DropComponent { slot, no }).await
        })
    }
    /// Serves what the control plane wants, on every core. Nothing changes when it fails.
    pub fn apply(&self, desired: Desired<F::Desired>) -> Completion<()> {
        self.give(move |c| async move {
            let (layout, view) = c.resolve(&desired)?;
            c.call_all(Call::Apply { layout, view }).await?;
            c.owners_serve(&desired);
            Ok(())
        })
    }
    /// Frees what lies between the end of a volume that is served and `end`, in bytes: a volume that was made smaller and grows again must read as
    /// zeroes there. Idempotent.
    pub fn free_behind(&self, volume: base::VolumeId, end: u64) -> Completion<()> {
        self.give(move |c| async move { c.free_behind(volume, end).await })
    }
    /// Returns when a volume is served on all cores of its owner as it is served here by then, and nothing is under way any more that was judged by
    /// an earlier view: a change of what hosts may do with it must not be answered before. A volume that is not served needs nothing.
    pub fn confirm(&self, volume: base::VolumeId) -> Completion<()> {
        self.give(move |c| async move { c.confirm(volume).await })
    }
    /// Has the front end listen for hosts. Gives where it does: an address has the port that was chosen when 0 was asked.
    pub fn listen(&self, at: F::Listener) -> Completion<F::Listening> {
        self.give(move |c| async move { Ok(c.core.borrow_mut().front.listen(&c.rt, at)?) })
    }
    /// Does on all cores, in this order, what the machine of an object's owner wants of the lanes of its volume. `here`: this node. A volume that is
    /// not served needs nothing. Copies on other nodes are in what was applied before they are in these.
    pub fn copies(&self, here: NodeId, volume: VolumeId, commands: Vec<OwnerCommand>) -> Completion<()> {
        self.order(here, volume, commands.into_iter().map(CopyOrder::Command).collect())
    }
    /// Reads of a volume are answered by this on all cores. A volume that is not served needs nothing.
    pub fn set_cell(&self, volume: VolumeId, cell: Option<Arc<GrantCell>>) -> Completion<()> {
        self.order(NodeId::from_bytes([0; 16]), volume, vec![CopyOrder::Cell(cell)])
    }
    fn order(&self, here: NodeId, volume: VolumeId, orders: Vec<CopyOrder>) -> Completion<()> {
        self.give(move |c| async move {
            let lanes = |core: &Core<F>| {
                let at = core.ledger.volumes.get(&volume).copied()?;
                Some(core.router.layout(at).map_or(at, |layout| layout.lanes))
            };
            let lanes = lanes(&c.core.borrow());
            let Some(volume) = lanes else { return Ok(()) };
            c.order_all(here, orders.into_iter().map(|order| (volume, order)).collect()).await;
            Ok(())
        })
    }
    /// Changes the settings of every shard.
    pub fn set_settings(&self, settings: Settings) -> Completion<()> {
        self.give(move |c| async move {
            c.core.borrow_mut().ledger.settings = settings;
            c.call_all(Call::Settings(settings)).await
        })
    }
    /// Begins a scrub of a disk group.
    pub fn scrub(&self, group: GroupId) -> Completion<()> {
        self.give(move |c| async move { c.call_all(Call::Scrub { slot: c.slot(group)?.0 }).await })
    }
    /// Figures of every layer.
    pub fn stats(&self) -> Completion<NodeStats<F::Figures>> {
        self.give(move |c| async move {
            let mut cores = vec![];
            for core in 0..c.rt.cores() {
                let core = if hooks::seeded(SeededFault::FiguresOfOneCore) { 0 } else { core };
                match c.call(core, Call::Stats).await {
                    Answer::Stats(snapshot) => cores.push(*snapshot),
                    Answer::Done(result) => result?,
                    Answer::OfCopies(_) | Answer::OfFill(_) | Answer::Requests(_) => {}
                }
            }
            let core = c.core.borrow();
            let groups = core
                .ledger
                .groups
                .values()
                .map(|g| GroupSnapshot { info: (*g.group.info()).clone(), devices: g.group.devices() })
                .collect();
            let resyncs = core.ownership.as_ref().map(|own| own.resyncing()).unwrap_or_default();
            let slow_copies = core.ownership.as_ref().map(|own| own.slow_copies()).unwrap_or_default();
            let failed_copies = core.ownership.as_ref().map(|own| own.failed_copies()).unwrap_or_default();
            Ok(NodeStats { cores, groups, resyncs, slow_copies, failed_copies })
        })
    }
    /// Checks the invariants of every shard, one core after the other. Slow; for simulations and tests.
    ///
    /// # Panics
    /// A core does when one is broken.
    pub fn check(&self) -> Completion<()> {
        self.give(move |c| async move { c.call_all(Call::Check).await })
    }
    /// Answers what a host asked for. Nothing happens when the host has gone in the meantime.
    pub fn answer(&self, id: ControlRequestId, result: Result<Reply, Refused>) -> Completion<()> {
        self.give(move |c| async move {
            let core = id.core.min(c.rt.cores() - 1);
            done(c.call(core, Call::Answer { id, result }).await)
        })
    }
    /// Hands over what other nodes can have, answers what is under way, makes checkpoints, ends every core.
    pub fn shutdown(&self) -> Completion<()> {
        self.give(move |c| async move {
            c.hand_over().await;
            // All cores: a command on one may need the links of another.
            c.call_all(Call::EndHosts).await?;
            c.call_all(Call::Drain).await?;
            for core in (0..c.rt.cores()).rev() {
                done(c.call(core, Call::Stop).await)?;
            }
            Ok(())
        })
    }
}

impl<F: FrontEnd> CoreController<F> {
    pub(crate) fn slot(&self, group: GroupId) -> Result<(GroupSlot, store::Group), DataPlaneError> {
        let core = self.core.borrow();
        core.ledger.groups.get(&group).map(|g| (g.slot, g.group.clone())).ok_or(DataPlaneError::NoGroup(group))
    }

    async fn free_behind(&self, volume: base::VolumeId, end: u64) -> Result<(), DataPlaneError> {
        let here = |core: &Core<F>| {
            let at = core.ledger.volumes.get(&volume).copied()?;
            Some((at, core.router.layout(at).cloned().filter(|l| !l.mirrors.is_empty())?))
        };
        let Some((at, layout)) = here(&self.core.borrow()) else { return Ok(()) };
        // What began before the volume was made smaller may still be on its way behind the end; nothing follows it.
        self.call_all(Call::Settle { volume: at, end: layout.bytes }).await?;
        while self.core.borrow().own.len() >= object::router::OWN_REQUESTS_MAX {
            self.rt.sleep(QUIET_POLL).await;
        }
        let receiver = {
            let core = &mut *self.core.borrow_mut();
            let Some((at, layout)) = here(core) else { return Ok(()) };
            let (sender, receiver) = rt::sync::oneshot();
            let token = core.own.insert(sender) as u64;
            let range = behind(layout.bytes, end);
            core.router.free_range(&self.rt, token, at, layout, range);
            receiver
        };
        self.rt.wake(self.rt.core());
        if hooks::seeded(SeededFault::FreeNotAwaited) {
            return Ok(());
        }
        receiver.await.map_err(|_| DataPlaneError::Stopped)?.map(drop).map_err(|cause| DataPlaneError::Free { volume, cause })
    }

    async fn confirm(&self, volume: base::VolumeId) -> Result<(), DataPlaneError> {
        if hooks::seeded(SeededFault::ConfirmNotAwaited) {
            return Ok(());
        }
        let started = self.rt.now();
        loop {
            let receiver = {
                let core = &mut *self.core.borrow_mut();
                let Some(at) = core.ledger.volumes.get(&volume).copied() else { return Ok(()) };
                let Some(layout) = core.router.layout(at).cloned() else { return Ok(()) };
                match layout.owner {
                    None => Err((at, layout.revision)),
                    Some(_) if core.own.len() >= object::router::OWN_REQUESTS_MAX => Ok(None),
                    Some(_) => {
                        let (sender, receiver) = rt::sync::oneshot();
                        let token = core.own.insert(sender) as u64;
                        core.router.confirm(&self.rt, token, at, layout);
                        Ok(Some(receiver))
                    }
                }
            };
            let outcome = match receiver {
                Err((at, revision)) => return self.call_all(Call::Confirm { volume: at, revision }).await,
                Ok(None) => Err(object::IoError::NoPath),
                Ok(Some(receiver)) => {
                    self.rt.wake(self.rt.core());
                    receiver.await.map_err(|_| DataPlaneError::Stopped)?
                }
            };
            match outcome {
                Err(cause) if self.rt.now().since(started) >= CONFIRM_MAX => return Err(DataPlaneError::Unconfirmed { volume, cause }),
                // Its view is behind, or it does not answer just now.
                Err(_) => self.rt.sleep(CONFIRM_AGAIN).await,
                Ok(_) => return Ok(()),
            }
        }
    }

    pub(crate) async fn announce_component(&self, slot: GroupSlot, group: &store::Group, no: ComponentNo) -> Result<(), DataPlaneError> {
        match group.components().into_iter().find(|c| c.no == no) {
            Some(info) => self.call_all(Call::AddComponent { slot, no, info: Box::new(info) }).await,
            None => Ok(()), // Deleted in the meantime by another command.
        }
    }

    async fn open_group(
        &self,
        cluster: Option<ClusterId>,
        devices: GroupDevices,
    ) -> Result<(GroupInfo, Vec<ComponentInfo>), DataPlaneError> {
        let group = store::open_group_with(&self.rt, cluster, &devices).await?;
        let info = (*group.info()).clone();
        let cores = self.rt.cores();
        let (slot, first_core, settings) = {
            let ledger = &mut self.core.borrow_mut().ledger;
            if ledger.groups.contains_key(&info.group) {
                return Err(DataPlaneError::GroupOpen(info.group));
            }
            if usize::from(ledger.slots_given) >= object::router::GROUPS_MAX {
                return Err(DataPlaneError::TooManyGroups);
            }
            ledger.slots_given += 1;
            let slot = GroupSlot(ledger.slots_given - 1);
            // Closed and opened again it is on the same cores as soon as volumes lie on it: their lanes stay.
            let first_core = ledger
                .first_cores
                .get(&info.group)
                .filter(|_| !hooks::seeded(SeededFault::GroupMovesCores))
                .copied()
                .unwrap_or((usize::from(slot.0) % cores) as u8);
            (slot, first_core, ledger.settings)
        };
        let route = GroupRoute { shards: info.shards, first_core };
        let (sender, receiver) = rt::sync::oneshot();
        let left = std::rc::Rc::new(std::cell::RefCell::new((usize::from(info.shards), Ok(()), Some(sender))));
        for no in 0..info.shards {
            let call = Call::OpenShard { slot, no, group: group.clone(), settings };
            let (this, left) = (self.clone(), left.clone());
            self.rt.spawn(async move {
                let result = done(this.call(route.core(usize::from(no), cores), call).await);
                let mut left = left.borrow_mut();
                left.0 -= 1;
                if result.is_err() {
                    left.1 = result;
                }
                if left.0 == 0
                    && let Some(sender) = left.2.take()
                {
                    let _ = sender.send(());
                }
            });
        }
        receiver.await.map_err(|_| DataPlaneError::Stopped)?;
        let opened = std::mem::replace(&mut left.borrow_mut().1, Ok(()));
        if let Err(error) = opened {
            if !hooks::seeded(SeededFault::FailedOpenKept) {
                self.call_all(Call::CloseShards { slot }).await?;
            }
            return Err(error);
        }
        self.call_all(Call::Route { slot, route: Some(route) }).await?;
        let components = group.components();
        self.core.borrow_mut().ledger.groups.insert(info.group, OpenGroup { slot, route, group });
        // Before anybody is granted anything of what they are copies of.
        let accepted = self.accepted_by_copies(info.group).await?;
        let accepted = accepted.into_iter().filter_map(|copy| Some((copy.component, (copy.epoch, copy.by?))));
        self.core.borrow_mut().ledger.accepted.extend(accepted);
        Ok((info, components))
    }
}

/// What lies behind the end of a volume, up to where it may reach.
fn behind(bytes: u64, reached: u64) -> std::ops::Range<u64> {
    let block = BLOCK_BYTES as u64;
    let from = match () {
        () if hooks::seeded(SeededFault::ShrinkFreesLess) && bytes > 0 => bytes + block,
        () if hooks::seeded(SeededFault::ShrinkFreesMore) => bytes.saturating_sub(block),
        () if hooks::seeded(SeededFault::FormatKeepsFirst) && bytes == 0 => block,
        () => bytes,
    };
    let to = if hooks::seeded(SeededFault::FreeEndsEarly) { reached.saturating_sub(PIECE_BYTES) } else { reached };
    from..to.max(from)
}

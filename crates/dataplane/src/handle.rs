//! The control plane's handle: commands go to core 0, which does them on all cores, one command after another where they touch the same thing.
//!
//! Invariant: a command is answered once; a caller that stops waiting does not stop the command.
//! Never: runs on a core.

use crate::{
    core::{CoreController, OpenGroup, core_seeds, done},
    desired::{Desired, SubsystemDesired, VolumeDesired},
    door,
    error::DataPlaneError,
    event::DataPlaneEvent,
    message::{Answer, Call},
    stats::{GroupSnapshot, NodeStats},
    worker::Worker,
};
use base::hooks::{self, SeededFault};
use base::unit::{BLOCK_BYTES, PIECE_BYTES};
use base::{ClusterId, GroupId};
use nvmf::Options as TargetOptions;
use nvmf::{ControlRequestId, ListenerSpec, NamespaceView, Refused, Reply, SubsystemView, View, VolumeView};
use object::{ComponentAt, GroupRoute, GroupSlot, LayoutView, Limits, VolumeLayout, VolumeRef};
use rt::{Device, Inlet, InletError};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use store::{ComponentInfo, ComponentNo, ComponentSpec, ComponentUpdate, FormatSpec, GroupInfo, Probe, Settings};

/// A command: what core 0 runs.
pub type Command = Box<dyn FnOnce(CoreController) + Send>;

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

/// The door for commands to one host. When core 0's inbox is full a command is answered [`DataPlaneError::Busy`]: at once, or for a [`DataPlaneHandle`] after it
/// has waited for room.
#[derive(Clone)]
pub struct CommandSender {
    inlet: Inlet<Command>,
    patience: Duration,
}

impl CommandSender {
    pub(crate) fn new(inlet: Inlet<Command>) -> Self {
        Self { inlet, patience: Duration::ZERO }
    }

    fn give<T, F>(&self, make: impl FnOnce(CoreController) -> F + Send + 'static) -> Completion<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DataPlaneError>> + 'static,
    {
        let (sender, receiver) = mpsc::channel();
        let answer = sender.clone();
        let command: Command = Box::new(move |controller| {
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
    /// Makes a component, durably. Idempotent by `spec.id`.
    pub fn create_component(&self, group: GroupId, spec: ComponentSpec) -> Completion<ComponentNo> {
        self.give(move |c| async move {
            let (slot, group) = c.slot(group)?;
            let no = group.create_component(&c.rt, spec).await?;
            c.tell_component(slot, &group, no).await?;
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
            c.tell_component(slot, &group, no).await
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
    pub fn apply(&self, desired: Desired) -> Completion<()> {
        self.give(move |c| async move {
            let (layout, view) = c.resolve(&desired)?;
            c.call_all(Call::Apply { layout, view }).await
        })
    }
    /// Frees what lies between the end of a volume that is served and `end`, in bytes: a volume that was made smaller and grows again must read as
    /// zeroes there. Idempotent.
    pub fn free_behind(&self, volume: base::VolumeId, end: u64) -> Completion<()> {
        self.give(move |c| async move { c.free_behind(volume, end).await })
    }
    /// Listens for initiators. Gives the address, with the port that was chosen when 0 was asked.
    pub fn listen(&self, spec: ListenerSpec) -> Completion<SocketAddr> {
        self.give(move |c| async move {
            let addr = spec.addr;
            c.core.borrow_mut().target.listen(&c.rt, spec).map_err(|cause| DataPlaneError::Listen { addr, cause })
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
    pub fn stats(&self) -> Completion<NodeStats> {
        self.give(move |c| async move {
            let mut cores = vec![];
            for core in 0..c.rt.cores() {
                let core = if hooks::seeded(SeededFault::FiguresOfOneCore) { 0 } else { core };
                match c.call(core, Call::Stats).await {
                    Answer::Stats(snapshot) => cores.push(*snapshot),
                    Answer::Done(result) => result?,
                }
            }
            let ledger = &c.core.borrow().ledger;
            let groups =
                ledger.groups.values().map(|g| GroupSnapshot { info: g.group.info().clone(), devices: g.devices.clone() }).collect();
            Ok(NodeStats { cores, groups })
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
    /// Answers what is under way, makes checkpoints, ends every core.
    pub fn shutdown(&self) -> Completion<()> {
        self.give(move |c| async move {
            c.call_all(Call::Drain).await?;
            for core in (0..c.rt.cores()).rev() {
                done(c.call(core, Call::Stop).await)?;
            }
            Ok(())
        })
    }
}

impl CoreController {
    fn slot(&self, group: GroupId) -> Result<(GroupSlot, store::Group), DataPlaneError> {
        let core = self.core.borrow();
        core.ledger.groups.get(&group).map(|g| (g.slot, g.group.clone())).ok_or(DataPlaneError::NoGroup(group))
    }

    async fn free_behind(&self, volume: base::VolumeId, end: u64) -> Result<(), DataPlaneError> {
        let here = |core: &crate::core::Core| {
            let at = core.ledger.volumes.get(&volume).copied()?;
            Some((at, core.router.layout(at).cloned().filter(|l| !l.stripes.is_empty())?))
        };
        let Some((at, layout)) = here(&self.core.borrow()) else { return Ok(()) };
        // What began before the volume was made smaller may still be on its way behind the end; nothing follows it.
        self.call_all(Call::Settle { volume: at, end: layout.bytes }).await?;
        while self.core.borrow().freeing.len() >= object::router::OWN_REQUESTS_MAX {
            self.rt.sleep(crate::core::QUIET_POLL).await;
        }
        let receiver = {
            let core = &mut *self.core.borrow_mut();
            let Some((at, layout)) = here(core) else { return Ok(()) };
            let (sender, receiver) = rt::sync::oneshot();
            let token = core.freeing.insert(sender) as u64;
            let range = behind(layout.bytes, end);
            core.router.free_range(&self.rt, token, at, layout, range);
            receiver
        };
        self.rt.wake(self.rt.core());
        if base::hooks::seeded(base::hooks::SeededFault::FreeNotAwaited) {
            return Ok(());
        }
        receiver.await.map_err(|_| DataPlaneError::Stopped)?.map_err(|cause| DataPlaneError::Free { volume, cause })
    }

    async fn tell_component(&self, slot: GroupSlot, group: &store::Group, no: ComponentNo) -> Result<(), DataPlaneError> {
        match group.components().into_iter().find(|c| c.no == no) {
            Some(info) => self.call_all(Call::AddComponent { slot, no, info: Box::new(info) }).await,
            None => Ok(()), // Deleted in the meantime by another command.
        }
    }

    async fn open_group(
        &self,
        cluster: Option<ClusterId>,
        devices: Vec<Device>,
    ) -> Result<(GroupInfo, Vec<ComponentInfo>), DataPlaneError> {
        let group = store::open_group(&self.rt, cluster, &devices).await?;
        let info = group.info().clone();
        let (slot, settings) = {
            let ledger = &mut self.core.borrow_mut().ledger;
            if ledger.groups.contains_key(&info.group) {
                return Err(DataPlaneError::GroupOpen(info.group));
            }
            if usize::from(ledger.slots_given) >= object::router::GROUPS_MAX {
                return Err(DataPlaneError::TooManyGroups);
            }
            ledger.slots_given += 1;
            (GroupSlot(ledger.slots_given - 1), ledger.settings)
        };
        let cores = self.rt.cores();
        let route = GroupRoute { shards: info.shards, first_core: (usize::from(slot.0) % cores) as u8 };
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
        self.core.borrow_mut().ledger.groups.insert(info.group, OpenGroup { slot, group, devices });
        Ok((info, components))
    }

    /// Turns identities into places. Changes nothing when it fails.
    fn resolve(&self, desired: &Desired) -> Result<(Arc<LayoutView>, Arc<View>), DataPlaneError> {
        let ledger = &mut self.core.borrow_mut().ledger;
        let mut layouts = BTreeMap::new();
        for volume in &desired.volumes {
            let stripes = volume_stripes(volume, &ledger.groups)?;
            let wanted = (volume.iops_max, volume.bytes_per_s_max);
            let limits = match ledger.limits.get(&volume.id) {
                Some((iops, bandwidth, limits))
                    if (*iops == wanted.0 && (*bandwidth == wanted.1 || hooks::seeded(SeededFault::BandwidthForgotten)))
                        && !hooks::seeded(SeededFault::LimitsBeginAnew) =>
                {
                    Arc::clone(limits)
                }
                _ => Arc::new(Limits::new(wanted.0, wanted.1)),
            };
            let layout = VolumeLayout {
                id: volume.id,
                bytes: if volume.formatting && !hooks::seeded(SeededFault::FormatLeavesBlocks) { 0 } else { volume.bytes },
                read_only: volume.write_protect.is_on(),
                checksum: volume.checksum,
                limits,
                ownership: volume.object.ownership,
                stripes,
            };
            layouts.insert(volume.id, (wanted, Arc::new(layout)));
        }
        for subsystem in &desired.subsystems {
            if let Some(volume) = subsystem.namespaces.values().map(|n| &n.volume).find(|v| !layouts.contains_key(v)) {
                return Err(DataPlaneError::VolumeOfSubsystem { nqn: subsystem.nqn.clone(), volume: *volume });
            }
        }
        for id in layouts.keys() {
            let next = VolumeRef(ledger.volumes.len() as u32);
            ledger.volumes.entry(*id).or_insert(next);
        }
        ledger.limits = layouts.iter().map(|(id, (wanted, l))| (*id, (wanted.0, wanted.1, Arc::clone(&l.limits)))).collect();
        let mut volumes = vec![None; ledger.volumes.len()];
        for (id, (_, layout)) in layouts {
            volumes[ledger.volumes[&id].0 as usize] = Some(layout);
        }
        let view = make_view(desired, &ledger.volumes, &ledger.groups);
        Ok((Arc::new(LayoutView { volumes }), Arc::new(view)))
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

fn volume_stripes(volume: &VolumeDesired, groups: &BTreeMap<GroupId, OpenGroup>) -> Result<Vec<ComponentAt>, DataPlaneError> {
    let place = |stripe: &crate::Stripe| match stripe.components.as_slice() {
        [only] => match groups.get(&only.group) {
            Some(open) => Ok(ComponentAt { group: open.slot, no: only.no }),
            None => Err(DataPlaneError::GroupOfVolume { volume: volume.name.clone(), group: only.group }),
        },
        _ => Err(DataPlaneError::Mirrored(volume.name.clone())),
    };
    volume.object.stripes.iter().map(place).collect()
}

fn volume_view(v: &VolumeDesired, groups: &BTreeMap<GroupId, OpenGroup>) -> VolumeView {
    let components = v.object.stripes.iter().flat_map(|s| &s.components);
    let used = || components.filter_map(|c| Some(groups.get(&c.group)?.group.used(c.no))).collect();
    VolumeView {
        id: v.id,
        name: v.name.clone(),
        bytes: v.bytes,
        lba_bytes: v.lba_bytes,
        write_protect: v.write_protect,
        formatting: v.formatting,
        reservation: v.reservation.clone(),
        thin: v.thin.then(used),
    }
}

fn make_view(desired: &Desired, refs: &BTreeMap<base::VolumeId, VolumeRef>, groups: &BTreeMap<GroupId, OpenGroup>) -> View {
    let mut by_ref: Vec<Option<&VolumeDesired>> = vec![None; refs.len()];
    for volume in &desired.volumes {
        by_ref[refs[&volume.id].0 as usize] = Some(volume);
    }
    let volumes = by_ref.into_iter().map(|v| v.map(|v| volume_view(v, groups))).collect();
    let subsystem = |s: &SubsystemDesired| SubsystemView {
        nqn: s.nqn.clone(),
        serial: s.serial.clone(),
        model: s.model.clone(),
        allow_any_host: s.allow_any_host,
        hosts: s.hosts.clone(),
        namespaces: s
            .namespaces
            .iter()
            .map(|(nsid, n)| (*nsid, NamespaceView { volume: refs[&n.volume], hosts: n.hosts.clone(), ana: nvmf::Ana::default() }))
            .collect(),
        security: s.security,
        manage_namespaces: s.manage_namespaces,
    };
    View {
        generation: desired.generation,
        subsystems: desired.subsystems.iter().map(subsystem).collect(),
        volumes,
        hosts: desired.hosts.clone(),
    }
}

/// How a host is started.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Cores of the data plane: 1 to 64.
    pub cores: usize,
    /// Whether each is bound to a processor of its own.
    pub pin: bool,
    /// Of every shard.
    pub settings: Settings,
    /// Of the front end.
    pub target: TargetOptions,
}

/// A running data plane. Every call waits until the command is done; call from threads that may wait.
pub struct DataPlaneHandle {
    commands: CommandSender,
    events: Mutex<Option<mpsc::Receiver<DataPlaneEvent>>>,
    cores: Mutex<Option<rt::Cores>>,
}

impl DataPlaneHandle {
    /// Starts the cores. Nothing is open or served yet.
    pub fn start(config: HostConfig) -> Result<DataPlaneHandle, DataPlaneError> {
        let (commands, events, seeds) = core_seeds(config.cores, config.settings, config.target);
        let commands = CommandSender { patience: door::PATIENCE, ..commands };
        let worker = Worker::start(commands.inlet.clone()).map_err(DataPlaneError::Worker)?;
        let seeds = seeds.into_iter().map(|seed| seed.with_worker(&worker));
        let seeds = Mutex::new(seeds.map(Some).collect::<Vec<_>>());
        let options =
            rt::UringOptions { cores: config.cores, pin: config.pin.then(|| (0..config.cores).collect()), ..rt::UringOptions::default() };
        let cores = rt::launch(options, move |rt| {
            let seed = seeds.lock().unwrap_or_else(PoisonError::into_inner)[rt.core()].take();
            seed.expect("a core starts once").start(&rt)
        })?;
        Ok(DataPlaneHandle { commands, events: Mutex::new(Some(events)), cores: Mutex::new(Some(cores)) })
    }
    /// The door for commands.
    pub fn commands(&self) -> &CommandSender {
        &self.commands
    }
    /// What the data plane tells without being asked; `None` when somebody has taken it already.
    pub fn take_events(&self) -> Option<mpsc::Receiver<DataPlaneEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
    /// See [`CommandSender::answer`].
    pub fn answer(&self, id: ControlRequestId, result: Result<Reply, Refused>) -> Result<(), DataPlaneError> {
        self.commands.answer(id, result).wait()
    }
    /// See [`CommandSender::probe`].
    pub fn probe(&self, device: Device) -> Result<Probe, DataPlaneError> {
        self.commands.probe(device).wait()
    }
    /// See [`CommandSender::format_group`].
    pub fn format_group(&self, spec: FormatSpec, cache: Device, capacity: Vec<Device>) -> Result<GroupInfo, DataPlaneError> {
        self.commands.format_group(spec, cache, capacity).wait()
    }
    /// See [`CommandSender::open_group`].
    pub fn open_group(&self, cluster: Option<ClusterId>, devices: Vec<Device>) -> Result<(GroupInfo, Vec<ComponentInfo>), DataPlaneError> {
        self.commands.open_group(cluster, devices).wait()
    }
    /// See [`CommandSender::close_group`].
    pub fn close_group(&self, group: GroupId) -> Result<(), DataPlaneError> {
        self.commands.close_group(group).wait()
    }
    /// See [`CommandSender::create_component`].
    pub fn create_component(&self, group: GroupId, spec: ComponentSpec) -> Result<ComponentNo, DataPlaneError> {
        self.commands.create_component(group, spec).wait()
    }
    /// See [`CommandSender::update_component`].
    pub fn update_component(
        &self,
        group: GroupId,
        no: ComponentNo,
        bytes: u64,
        reserve_chunks: u64,
        descriptor: Vec<u8>,
    ) -> Result<(), DataPlaneError> {
        self.commands.update_component(group, no, bytes, reserve_chunks, descriptor).wait()
    }
    /// See [`CommandSender::delete_component`].
    pub fn delete_component(&self, group: GroupId, no: ComponentNo) -> Result<(), DataPlaneError> {
        self.commands.delete_component(group, no).wait()
    }
    /// See [`CommandSender::apply`].
    pub fn apply(&self, desired: Desired) -> Result<(), DataPlaneError> {
        self.commands.apply(desired).wait()
    }
    /// See [`CommandSender::free_behind`].
    pub fn free_behind(&self, volume: base::VolumeId, end: u64) -> Result<(), DataPlaneError> {
        self.commands.free_behind(volume, end).wait()
    }
    /// See [`CommandSender::listen`].
    pub fn listen(&self, spec: ListenerSpec) -> Result<SocketAddr, DataPlaneError> {
        self.commands.listen(spec).wait()
    }
    /// See [`CommandSender::set_settings`].
    pub fn set_settings(&self, settings: Settings) -> Result<(), DataPlaneError> {
        self.commands.set_settings(settings).wait()
    }
    /// See [`CommandSender::scrub`].
    pub fn scrub(&self, group: GroupId) -> Result<(), DataPlaneError> {
        self.commands.scrub(group).wait()
    }
    /// See [`CommandSender::stats`].
    pub fn stats(&self) -> Result<NodeStats, DataPlaneError> {
        self.commands.stats().wait()
    }
    /// Answers what is under way, makes checkpoints, ends the cores and waits for them. Does nothing once they have ended; after an error the
    /// cores run on, and it may be called again.
    pub fn shutdown(&self) -> Result<(), DataPlaneError> {
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        if cores.is_none() {
            return Ok(());
        }
        match self.commands.shutdown().wait() {
            Ok(()) | Err(DataPlaneError::Stopped) => {}
            Err(error) => return Err(error),
        }
        cores.take().map_or(Ok(()), |cores| Ok(cores.join()?))
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;

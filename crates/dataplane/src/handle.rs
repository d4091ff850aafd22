//! The control plane's handle on a running data plane.
//!
//! Owns: the cores' threads.
//! Invariant: a call that gives a command waits until it is done.
//! Never: runs on a core.

use crate::{
    command::CommandSender, core::core_seeds, desired::Desired, error::DataPlaneError, event::DataPlaneEvent, stats::NodeStats,
    worker::Worker,
};
use base::{ClusterId, GroupId};
use frontend::{ControlRequestId, FrontEnd, Refused, Reply};
use rt::Device;
use std::sync::{Mutex, PoisonError, mpsc};
use store::{ComponentInfo, ComponentNo, ComponentSpec, FormatSpec, GroupInfo, Probe, Settings};

/// How a node is started.
#[derive(Clone, Debug)]
pub struct NodeConfig<S> {
    /// Cores of the data plane: 1 to 64.
    pub cores: usize,
    /// Whether each is bound to a processor of its own.
    pub pin: bool,
    /// Of every shard.
    pub settings: Settings,
    /// What the halves of the front end share.
    pub shared: S,
}

/// A running data plane. Every call waits until the command is done; call from threads that may wait.
pub struct DataPlaneHandle<F: FrontEnd> {
    commands: CommandSender<F>,
    events: Mutex<Option<mpsc::Receiver<DataPlaneEvent>>>,
    cores: Mutex<Option<rt::Cores>>,
}

impl<F: FrontEnd> DataPlaneHandle<F> {
    /// Starts the cores. Nothing is open or served yet.
    pub fn start(config: NodeConfig<F::Shared>) -> Result<Self, DataPlaneError> {
        let (commands, events, seeds) = core_seeds(config.cores, config.settings, config.shared);
        let commands = commands.patient();
        let worker = Worker::start(commands.inlet().clone()).map_err(DataPlaneError::Worker)?;
        let seeds = seeds.into_iter().map(|seed| seed.with_worker(&worker));
        let seeds = Mutex::new(seeds.map(Some).collect::<Vec<_>>());
        let options = rt::UringOptions { cores: config.cores, pin: config.pin.then(rt::allowed_processors), ..rt::UringOptions::default() };
        let cores = rt::launch(options, move |rt| {
            let seed = seeds.lock().unwrap_or_else(PoisonError::into_inner)[rt.core()].take();
            seed.expect("a core starts once").start(&rt)
        })?;
        Ok(DataPlaneHandle { commands, events: Mutex::new(Some(events)), cores: Mutex::new(Some(cores)) })
    }
    /// The door for commands.
    pub fn commands(&self) -> &CommandSender<F> {
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
    pub fn apply(&self, desired: Desired<F::Desired>) -> Result<(), DataPlaneError> {
        self.commands.apply(desired).wait()
    }
    /// See [`CommandSender::free_behind`].
    pub fn free_behind(&self, volume: base::VolumeId, end: u64) -> Result<(), DataPlaneError> {
        self.commands.free_behind(volume, end).wait()
    }
    /// See [`CommandSender::listen`].
    pub fn listen(&self, at: F::Listener) -> Result<F::Listening, DataPlaneError> {
        self.commands.listen(at).wait()
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
    pub fn stats(&self) -> Result<NodeStats<F::Figures>, DataPlaneError> {
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

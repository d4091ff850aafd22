//! What stands in for the control plane: brings the node into service after each start, grows volumes, carries out reservation commands and
//! acts on volumes, shuts it down.
//!
//! ```text
//! Down ──started──► Opening ──► [SeeingDevices] ──► Applying ──► [Moving] ──► Listening ──► Serving ──► Growing, Reserving, Moving ──► Serving
//!                      └────────────────────────────────┴── an error ──► Refused              └──────► ShuttingDown ──► Stopped
//! ```
//!
//! Owns: what is wanted of each volume, the directory that says so (`control`), and the task that was begun; all survive every death of the node.
//! What a start has to do is decided by `cluster::reconcile`, from that directory.
//! Invariant: one command at a time; what is desired is changed before the node gets it; a task that a death has cut is finished before
//! anything is served again.
//! Never: waits: each turn looks whether an answer is there.

mod control;
mod devices;
mod ids;
mod task;

use crate::acts::Act;
use crate::node_types::{self, CommandSender, Desired, Listening, NQN};
use crate::plan::Plan;
use crate::workload::Workload;
use base::{HostId, Security, Visibility, VolumeId};
use cluster::record::Stage;
use cluster::{Action, Finish};
use control::{ModelledControl, group_record};
use dataplane::{
    Completion, ComponentInfo, ComponentNo, ComponentSpec, DataPlaneError, DataPlaneEvent, Device, FormatSpec, GroupInfo, Settings,
    VolumeLimits,
};
use devices::Devices;
use frontend::ControlVerb;
use frontend::{ControlRequest, ControlRequestId, Of, Refused, Reply};
use ids::{cluster, group};
use nvmf::{ListenerKind, ListenerSpec, NamespaceDesired, SubsystemDesired};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use task::{Change, Move, Record, Task};

type Opened = (GroupInfo, Vec<ComponentInfo>);

enum Step {
    Down,
    Opening(Completion<Opened>),
    /// The node is asked which devices its group has.
    SeeingDevices(Completion<BTreeSet<u8>>),
    Applying(Completion<()>),
    /// At the addresses from this one on.
    Listening(Completion<Listening>, usize),
    Serving,
    Growing(Completion<()>, usize, u64),
    Reserving(Completion<()>, usize, ControlRequestId, Reply),
    /// A step of the task.
    Moving(Moving),
    ShuttingDown(Completion<()>),
    Stopped,
    Refused(DataPlaneError),
}

/// A step of the task that the node was given.
enum Moving {
    Reported(Completion<()>),
    Making(Completion<ComponentNo>),
}

/// The door to the node's newest life: commands in, events out.
pub type Door = Rc<RefCell<Option<(CommandSender, Receiver<DataPlaneEvent>)>>>;

/// The operator.
pub struct Operator {
    door: Door,
    devices: Devices,
    /// Where the node listens: for NVMe/TCP, for iSCSI.
    addrs: [SocketAddr; 2],
    generation: u64,
    /// The volumes; deleted ones keep their place.
    records: Vec<Record>,
    control: ModelledControl,
    /// The highest namespace that was ever given.
    nsid_last: u32,
    /// What hosts have requested and what was not begun.
    requests: VecDeque<ControlRequest>,
    /// Acts that were not begun.
    acts: VecDeque<Act>,
    /// The act under way, and the making of another volume in the place of one that it deletes.
    task: Option<Task>,
    replace: Option<usize>,
    /// Nothing is served yet: then the task is finished first.
    starting: bool,
    step: Step,
}

/// What the group is formatted as.
pub fn format_spec(plan: &Plan) -> FormatSpec {
    dataplane::format_spec(cluster(), &group_record(plan.shards, plan.capacity.len()), false)
}
/// The settings of the shards.
pub fn settings(plan: &Plan) -> Settings {
    Settings {
        fill_low: plan.watermarks.0,
        fill_high: plan.watermarks.1,
        idle_drain: base::Duration::from_millis(plan.idle_drain_ms),
        scrub_bytes_per_s: 1 << 30,
        rules: dataplane::Rules::Smooth,
    }
}

/// The components of all volumes.
pub fn component_specs(plan: &Plan) -> Vec<(usize, ComponentSpec)> {
    let of = |(at, v): (usize, &crate::plan::VolumePlan)| {
        let record = Record::new(at, v, &[]);
        (0..v.stripes.len()).map(|mirror| (at, record.component(at, mirror))).collect::<Vec<_>>()
    };
    plan.volumes.iter().enumerate().flat_map(of).collect()
}

impl Operator {
    /// An operator of a node with these devices (the cache device, those of the group, spare ones), whose group was made; the components stand by volume and mirror, in order.
    pub fn new(plan: &Plan, door: Door, devices: Vec<Device>, addrs: [SocketAddr; 2], components: Vec<(usize, ComponentNo)>) -> Operator {
        let numbers = |at| components.iter().filter(|(volume, _)| *volume == at).map(|(_, no)| *no).collect::<Vec<_>>();
        let records: Vec<Record> = plan.volumes.iter().enumerate().map(|(at, v)| Record::new(at, v, &numbers(at))).collect();
        let mut control = ModelledControl::new(plan.seed, plan.shards, plan.capacity.len());
        records.iter().for_each(|record| control.write(record));
        Operator {
            door,
            devices: Devices::new(devices, plan.capacity.len()),
            addrs,
            generation: 1,
            nsid_last: records.len() as u32,
            records,
            control,
            requests: VecDeque::new(),
            acts: VecDeque::new(),
            task: None,
            replace: None,
            starting: true,
            step: Step::Down,
        }
    }

    /// A change of what is wanted of a volume is durable.
    fn keep(&mut self, at: usize) {
        self.control.write(&self.records[at]);
    }

    fn desired(&mut self) -> Desired {
        let namespaces: BTreeMap<u32, NamespaceDesired> = self
            .records
            .iter()
            .filter_map(|r| {
                Some((r.state().nsid?, NamespaceDesired { volume: r.desired.id, hosts: Visibility::All, ana: nvmf::Ana::default() }))
            })
            .collect();
        let subsystem = SubsystemDesired {
            nqn: NQN.into(),
            serial: "S1".into(),
            model: "Basalt".into(),
            allow_any_host: true,
            hosts: vec![],
            namespaces,
            security: Security::Plain,
            manage_namespaces: false,
        };
        let mut volumes = self.control.served();
        let offline: BTreeSet<VolumeId> = self.records.iter().filter(|r| r.offline).map(|r| r.desired.id).collect();
        volumes.iter_mut().filter(|v| offline.contains(&v.id)).for_each(|v| v.object.mirrors.clear());
        let targets = vec![node_types::target(&subsystem)];
        let exports = (
            nvmf::Desired { subsystems: vec![subsystem], ..nvmf::Desired::default() },
            iscsi::Desired { targets, ..iscsi::Desired::default() },
        );
        Desired { generation: self.generation, volumes, held: Vec::new(), objects: Vec::new(), exports, ..Desired::default() }
    }

    /// Where the node listens for NVMe/TCP.
    pub fn addr(&self) -> SocketAddr {
        self.addrs[0]
    }
    /// Has it listen.
    fn listen(&self, commands: &CommandSender, at: usize) -> Step {
        let addr = self.addrs[at];
        let nvme = ListenerSpec { addr, kind: ListenerKind::Io, advertise: None, security: Security::Plain };
        let listener = if at == 0 { Of::First(nvme) } else { Of::Second(iscsi::ListenerSpec::from(addr)) };
        Step::Listening(commands.listen(listener), at)
    }
    fn commands(&self) -> Option<CommandSender> {
        self.door.borrow().as_ref().map(|(commands, _)| commands.clone())
    }

    /// The node was started, which is a loss of power for what does not outlast one: it is brought into service.
    pub fn node_started(&mut self, workload: &RefCell<Workload>, now: u64) {
        self.step = Step::Down;
        self.starting = true;
        self.requests.clear();
        self.acts.clear();
        self.control.node_started();
        let actions = self.control.decide();
        let states = self.records.iter().map(Record::state);
        workload.borrow_mut().node_started(states, now);
        self.change_reservations(workload, now, false);
        for at in 0..self.records.len() {
            let Some(ownership) = self.control.ownership(self.records[at].desired.object.object) else { continue };
            self.records[at].begin_term(ownership);
            self.keep(at);
        }
        if let Some(commands) = self.commands()
            && actions.contains(&Action::OpenGroup(group()))
        {
            let devices = self.group_devices();
            self.step = Step::Opening(commands.open_group_with(Some(cluster()), devices));
        }
    }
    /// The node is gone.
    pub fn node_died(&mut self) {
        self.step = Step::Down;
        self.devices.node_died();
    }
    /// Nobody is registered any more.
    pub fn clear_reservations(&mut self, workload: &RefCell<Workload>, now: u64) {
        self.change_reservations(workload, now, true);
    }
    /// All reservations are taken away, or the power was lost.
    fn change_reservations(&mut self, workload: &RefCell<Workload>, now: u64, clear: bool) {
        let mut workload = workload.borrow_mut();
        self.generation += 1;
        for (at, record) in self.records.iter_mut().enumerate() {
            if !self.control.is_there(record) {
                continue; // deleted
            }
            let known = record.desired.reservation.is_some();
            // What a start leaves of it stands in the directory already.
            let mut state = self.control.reservation(record.desired.id);
            if clear && let Some(state) = &mut state {
                state.clear_all();
            }
            record.desired.reservation = state.clone().map(Arc::new);
            if clear && known {
                self.control.write(record);
            }
            let state = state.unwrap_or_default();
            // One that is being made is not in the workload yet.
            let Some(volume) = workload.volumes.get_mut(at) else { continue };
            if known && !volume.rights.is_left(&state, clear) {
                workload.fail(format!("volume {at}: {state:?} is left, which is not what the standard says"), None);
                return;
            }
            volume.rights.restarted(state, now);
        }
    }
    /// Every volume is served in full again once the node has started: as large as it ever was, writable, attached, without limits. Only
    /// while nothing is served yet.
    pub fn settle(&mut self, workload: &RefCell<Workload>, now: u64) {
        self.acts.clear();
        for (at, record) in self.records.iter_mut().filter(|r| !r.is_gone()).enumerate() {
            record.set(Change::ReadOnly(false));
            record.set(Change::Offline(false));
            record.set(Change::Namespace(Some(record.last_nsid)));
            record.set(Change::Limits(VolumeLimits { iops_max: record.plan.iops_max.filter(|n| *n >= 20_000), bytes_per_s_max: None }));
            if record.desired.bytes < record.most_bytes {
                self.acts.push_back(Act::Regrow { volume: at as u64 });
            }
            self.control.write(record);
        }
        let states = self.records.iter().map(Record::state);
        workload.borrow_mut().node_started(states, now);
    }
    /// Whether all is served.
    pub fn is_serving(&self) -> bool {
        matches!(self.step, Step::Serving)
    }
    /// Whether it has nothing more to do.
    pub fn is_idle(&self) -> bool {
        self.is_serving() && self.acts.is_empty() && self.requests.is_empty() && self.devices.is_idle()
    }
    /// Something is to be done as soon as all is served.
    pub fn act(&mut self, act: Act) {
        self.acts.push_back(act);
    }
    /// On which capacity device the first mirror of a volume lies, and whether space is promised to it.
    pub fn place_of(&self, volume: usize) -> (u8, bool) {
        let plan = &self.records[volume].plan;
        (plan.stripes[0], plan.reserve_chunks > 0)
    }
    /// Whether the node said that it has shut down.
    pub fn has_stopped(&self) -> bool {
        matches!(self.step, Step::Stopped)
    }
    /// Why the node could not be brought into service.
    pub fn refused(&self) -> Option<&DataPlaneError> {
        match &self.step {
            Step::Refused(error) => Some(error),
            _ => None,
        }
    }
    /// A volume grows by so many logical blocks; the workload may use them when every core serves them. Whether it could be asked now.
    pub fn grow(&mut self, workload: &RefCell<Workload>, volume: usize, blocks: u64, now: u64) -> bool {
        let (Step::Serving, Some(commands)) = (&self.step, self.commands()) else { return false };
        let r = &mut self.records[volume];
        if r.is_gone() || r.desired.bytes < r.most_bytes {
            return false;
        }
        r.desired.bytes += blocks * u64::from(r.desired.lba_bytes);
        r.most_bytes = r.desired.bytes;
        self.generation += 1;
        self.keep(volume);
        workload.borrow_mut().decided(volume, self.records[volume].state(), now);
        self.step = Step::Growing(commands.apply(self.desired()), volume, blocks);
        true
    }
    /// Begins a scrub, if all is served now.
    pub fn scrub(&self) {
        if let (Step::Serving, Some(commands)) = (&self.step, self.commands()) {
            drop(commands.scrub(group()));
        }
    }
    /// Shuts the node down in order.
    pub fn shut_down(&mut self) {
        if let Some(commands) = self.commands() {
            self.step = Step::ShuttingDown(commands.shutdown());
        }
    }
    /// A command from outside, when none of its own is under way.
    pub fn give<T>(&self, command: impl FnOnce(&CommandSender) -> Completion<T>) -> Option<Completion<T>> {
        self.commands().map(|c| command(&c))
    }

    /// Looks whether an answer has come, and goes on.
    pub fn turn(&mut self, workload: &RefCell<Workload>, now: u64) {
        self.take_control_requests();
        let Some(commands) = self.commands() else { return };
        self.look_at_devices(workload, now);
        let step = core::mem::replace(&mut self.step, Step::Down);
        self.step = match step {
            Step::Opening(completion) => match completion.try_take() {
                None => Step::Opening(completion),
                Some(Ok((_, components))) => {
                    self.group_opened(&components, workload);
                    self.asks_for_devices(&commands).unwrap_or_else(|| Step::Applying(commands.apply(self.desired())))
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::SeeingDevices(completion) => match completion.try_take() {
                None => Step::SeeingDevices(completion),
                Some(Ok(has)) => {
                    self.devices_are(&has);
                    Step::Applying(commands.apply(self.desired()))
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Applying(completion) => match completion.try_take() {
                None => Step::Applying(completion),
                Some(Ok(())) => self.go_on(&commands, workload, now),
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Moving(Moving::Reported(completion)) => match completion.try_take() {
                None => Step::Moving(Moving::Reported(completion)),
                Some(Ok(())) => {
                    self.moved(workload, now);
                    self.go_on(&commands, workload, now)
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Moving(Moving::Making(completion)) => match completion.try_take() {
                None => Step::Moving(Moving::Making(completion)),
                Some(Ok(no)) => {
                    let task = self.task.as_ref().expect("it was begun");
                    let Some(Move::Create(mirror)) = task.moves.front().copied() else { unreachable!("a component is being made") };
                    let volume = task.volume;
                    self.records[volume].made(volume, mirror, no);
                    self.keep(volume);
                    self.moved(workload, now);
                    self.go_on(&commands, workload, now)
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Listening(completion, at) => match completion.try_take() {
                None => Step::Listening(completion, at),
                Some(Ok(_)) if at + 1 < self.addrs.len() => self.listen(&commands, at + 1),
                Some(Ok(_)) => {
                    let mut workload = workload.borrow_mut();
                    workload.unsteady = false;
                    workload.served_since(now);
                    self.starting = false;
                    Step::Serving
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Growing(completion, volume, blocks) => match completion.try_take() {
                None => Step::Growing(completion, volume, blocks),
                Some(Ok(())) => {
                    let mut workload = workload.borrow_mut();
                    workload.grown(volume, blocks);
                    workload.in_force(now);
                    Step::Serving
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Reserving(completion, volume, request, reply) => match completion.try_take() {
                None => Step::Reserving(completion, volume, request, reply),
                Some(Ok(())) => {
                    workload.borrow_mut().volumes[volume].rights.in_force(now);
                    drop(commands.answer(request, Ok(reply)));
                    Step::Serving
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::ShuttingDown(completion) => match completion.try_take() {
                None => Step::ShuttingDown(completion),
                Some(Ok(())) => Step::Stopped,
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Serving => match self.requests.pop_front() {
                Some(request) => self.decide(&commands, &request, workload, now),
                None => self.begin(&commands, workload, now),
            },
            other => other,
        };
    }

    /// Begins the next act.
    fn begin(&mut self, commands: &CommandSender, workload: &RefCell<Workload>, now: u64) -> Step {
        while let Some(act) = self.acts.pop_front() {
            let begun = match act {
                Act::AddDevice { spare } => {
                    self.add_device(commands, spare, workload, now);
                    None
                }
                Act::RemoveDevice { device } => self.remove_device(commands, device, workload, now),
                act => task::task(act, &self.records, &mut self.nsid_last).map(|task| (task, act)),
            };
            let Some((task, act)) = begun else { continue };
            workload.borrow_mut().acting(now, &format!("volume {}", task.volume), act);
            self.replace = matches!(act, Act::Replace { .. }).then_some(task.volume);
            self.records[task.volume].resize_to = task.resize_to;
            self.keep(task.volume);
            self.task = Some(task);
            return self.go_on(commands, workload, now);
        }
        Step::Serving
    }

    /// The step under way is done.
    fn moved(&mut self, workload: &RefCell<Workload>, now: u64) {
        let task = self.task.as_mut().expect("it was begun");
        let (done, volume) = (task.moves.pop_front().expect("a step was under way"), task.volume);
        match done {
            Move::Apply => workload.borrow_mut().in_force(now),
            Move::Free => workload.borrow_mut().freed(volume, now),
            _ => {}
        }
    }

    /// An act on a volume is done.
    fn done(&mut self, at: usize) {
        self.records[at].resize_to = None;
        if self.records[at].stage == Stage::Deleting {
            self.control.remove(&self.records[at]);
        } else {
            self.keep(at);
        }
    }

    /// The group is open: what a death has left half done is to be finished, and nothing else.
    fn group_opened(&mut self, components: &[ComponentInfo], workload: &RefCell<Workload>) {
        self.control.group_opened(components);
        let decided = ModelledControl::to_finish(&self.control.decide());
        self.control.is_started();
        let half_done = self.records.iter().filter(|r| self.control.is_there(r)).filter_map(|r| Some((r.desired.id, r.unfinished()?)));
        let half_done: BTreeMap<VolumeId, Finish> = half_done.collect();
        if decided != half_done {
            workload.borrow_mut().fail(format!("half done are {half_done:?}, and to be finished {decided:?}"), None);
        }
    }

    /// Takes the next step of the task. When there is none: serves, or begins what is left to do before that.
    fn go_on(&mut self, commands: &CommandSender, workload: &RefCell<Workload>, now: u64) -> Step {
        loop {
            let Some(task) = &mut self.task else {
                if !self.starting {
                    return Step::Serving;
                }
                return match self.begin(commands, workload, now) {
                    Step::Serving => self.listen(commands, 0),
                    begun => begun,
                };
            };
            let at = task.volume;
            let Some(next) = task.moves.front().copied() else {
                self.done(at);
                let places = self.places();
                self.task = self.replace.take().map(|of| task::successor(of, &mut self.records, &mut self.nsid_last, &places));
                if let Some(task) = &self.task {
                    self.control.write(&self.records[task.volume]);
                }
                continue;
            };
            let record = &mut self.records[at];
            return Step::Moving(match next {
                Move::Set(change) => {
                    task.moves.pop_front();
                    record.set(change);
                    self.control.write(record);
                    self.generation += 1;
                    let mut workload = workload.borrow_mut();
                    match change {
                        Change::Made(_) => workload.made(&record.plan, record.state(), now),
                        _ => workload.decided(at, record.state(), now),
                    }
                    if change == Change::Gone {
                        workload.deleted(at);
                    }
                    continue;
                }
                Move::Apply => {
                    record.begin_epoch();
                    self.control.write(record);
                    Moving::Reported(commands.apply(self.desired()))
                }
                Move::Free => {
                    workload.borrow_mut().freeing(at, now);
                    Moving::Reported(commands.free_behind(record.desired.id, record.reached()))
                }
                Move::Update(mirror) => {
                    let spec = record.component(at, mirror);
                    let no = record.number(mirror);
                    Moving::Reported(commands.update_component(group(), no, spec.bytes, spec.reserve_chunks, spec.descriptor))
                }
                Move::Delete(mirror) => Moving::Reported(commands.delete_component(group(), record.number(mirror))),
                Move::Create(mirror) => Moving::Making(commands.create_component(group(), record.component(at, mirror))),
            });
        }
    }

    fn take_control_requests(&mut self) {
        let door = self.door.borrow();
        let Some((_, events)) = door.as_ref() else { return };
        while let Ok(event) = events.try_recv() {
            if let DataPlaneEvent::ControlRequest(request) = event {
                self.requests.push_back(request);
            }
        }
    }

    /// Reservation commands are carried out, as `control` does it; nothing else that hosts may request is granted here.
    fn decide(&mut self, commands: &CommandSender, request: &ControlRequest, workload: &RefCell<Workload>, now: u64) -> Step {
        let ControlVerb::Reservation { volume, command } = &request.what else {
            drop(commands.answer(request.id, Err(Refused::Invalid)));
            return Step::Serving;
        };
        let at = self.records.iter().position(|r| r.desired.id == *volume).expect("records stay");
        if self.records[at].is_gone() {
            drop(commands.answer(request.id, Err(Refused::NoUnit)));
            return Step::Serving;
        }
        let by = HostId::from_bytes(request.by.host_id);
        let mut state = self.records[at].desired.reservation.as_deref().cloned().unwrap_or_default();
        match state.execute(by, command) {
            Err(refusal) => {
                workload.borrow_mut().reservation_refused(at, by, command, refusal, now);
                drop(commands.answer(request.id, Err(refusal.into())));
                Step::Serving
            }
            Ok(outcome) => {
                self.records[at].desired.reservation = Some(Arc::new(state.clone()));
                self.keep(at);
                self.generation += 1;
                workload.borrow_mut().reserved(at, by, state, command, &outcome, now);
                Step::Reserving(commands.apply(self.desired()), at, request.id, Reply::reserved(*volume, outcome))
            }
        }
    }
}

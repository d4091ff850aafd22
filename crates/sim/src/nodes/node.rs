//! The control plane of a node in a world of several, without a thread: it brings the node into service after each start, serves what the directory
//! says as it sees it, with its own lag, and carries out what hosts and administrators ask for.
//!
//! ```text
//! Down ──started──► Opening ──► Applying ──► ListeningForNodes ──► Listening ──► Serving ◄─► Applying
//! ```
//!
//! Owns: the node's way to the directory, which outlasts its deaths, and what it knows of its links.
//! Invariants: one command at a time; what a host asked for is answered when the owner of the volume serves it.
//! Never: decides what a node has to do or how it reaches a volume (`cluster` does); waits.

use super::plan::NodesPlan;
use super::records::{cluster, group_of, name_of, subsystem, volume_id};
use crate::workload::Workload;
use base::{HostId, Security, VolumeId, WriteProtect};
use cluster::record::{ReservationRecord, SubsystemRecord, VolumeRecord};
use cluster::{Action, OpenLinks};
use dataplane::{Completion, ComponentInfo, DataPlaneError, DataPlaneEvent, Device, GroupInfo};
use directory::{DirectoryError, ModelledNode, Revision, Transaction};
use frontend::{ControlRequest, ControlRequestId, ControlVerb, Of, Pair, Refused, Reply};
use nvmf::{ListenerKind, ListenerSpec, Target};
use peers::{LinkSecurity, Peers, PeersDesired};
use rt::sim::Rng;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::Receiver;

/// The front ends of a node.
pub type FrontEnds = Pair<Target, Peers>;
/// The door for commands.
pub type CommandSender = dataplane::CommandSender<FrontEnds>;
/// The door to the node's newest life: commands in, events out.
pub type Door = Rc<RefCell<Option<(CommandSender, Receiver<DataPlaneEvent>)>>>;

type Opened = (GroupInfo, Vec<ComponentInfo>);
type Listening = Completion<Of<SocketAddr, SocketAddr>>;

/// A change that is durable and not in force yet.
struct Change {
    volume: usize,
    /// Which change of the volume this was, for the workload.
    number: usize,
    what: Changed,
}

enum Changed {
    /// A host waits for the answer.
    Reservation(ControlRequestId, Reply),
    Protection,
}

/// What follows when what is served was applied.
enum Then {
    Listen,
    Serve,
    Confirm(Change),
}

enum Step {
    Down,
    Opening(Completion<Opened>),
    Applying(Completion<()>, Revision, Then),
    ListeningForNodes(Listening),
    Listening(Listening),
    Serving,
    Refused(DataPlaneError),
}

/// See the module.
pub struct NodeControl {
    number: usize,
    door: Door,
    devices: Vec<Device>,
    /// Where it listens for hosts, and for nodes.
    addrs: [SocketAddr; 2],
    /// Its way to the directory.
    pub directory: ModelledNode,
    subsystem: SubsystemRecord,
    /// The volumes that it owns.
    owned: Vec<usize>,
    rng: Rng,
    lag_ns: (u64, u64),
    step: Step,
    generation: u64,
    /// Everything up to here is served.
    served: Revision,
    /// When it looks whether others have changed the directory.
    looks_at: u64,
    links: OpenLinks,
    links_changed: bool,
    /// A change that its owner is to confirm; what others change is served meanwhile.
    confirming: Option<(Completion<()>, Change)>,
    requests: VecDeque<ControlRequest>,
    protects: VecDeque<(usize, bool)>,
}

impl NodeControl {
    /// Of a node that has been started, and whose components are made.
    pub fn new(
        number: usize,
        plan: &NodesPlan,
        door: Door,
        devices: Vec<Device>,
        addrs: [SocketAddr; 2],
        directory: ModelledNode,
    ) -> NodeControl {
        let owned = (0..plan.owners.len()).filter(|volume| plan.owners[*volume] == number).collect();
        NodeControl {
            number,
            door,
            devices,
            addrs,
            directory,
            subsystem: subsystem(plan.owners.len()),
            owned,
            rng: Rng::new(plan.base.seed ^ 0x1A6 ^ (number as u64) << 32),
            lag_ns: plan.nodes[number].lag_ns,
            step: Step::Down,
            generation: 0,
            served: Revision(0),
            looks_at: 0,
            links: OpenLinks::default(),
            links_changed: false,
            confirming: None,
            requests: VecDeque::new(),
            protects: VecDeque::new(),
        }
    }
    fn commands(&self) -> Option<CommandSender> {
        self.door.borrow().as_ref().map(|(commands, _)| commands.clone())
    }
    /// Whether it serves everything that it knows of.
    pub fn is_serving(&self) -> bool {
        matches!(self.step, Step::Serving)
    }
    /// Whether it is served up to a revision, and has nothing to do.
    pub fn is_idle(&self, at: Revision) -> bool {
        let has_nothing = self.confirming.is_none() && !self.links_changed;
        self.is_serving() && self.served >= at && has_nothing && self.requests.is_empty() && self.protects.is_empty()
    }
    /// Why it cannot be brought into service.
    pub fn refused(&self) -> Option<&DataPlaneError> {
        if let Step::Refused(error) = &self.step { Some(error) } else { None }
    }
    /// To which nodes it can pass on requests.
    pub fn reaches(&self) -> usize {
        self.directory.observed().forwards.len()
    }
    /// An administrator asks for another write protection.
    pub fn protect(&mut self, volume: usize, on: bool) {
        self.protects.push_back((volume, on));
    }
    /// A command from outside.
    pub fn give<T>(&self, command: impl FnOnce(&CommandSender) -> Completion<T>) -> Option<Completion<T>> {
        self.commands().map(|c| command(&c))
    }

    /// It is down.
    pub fn died(&mut self) {
        self.step = Step::Down;
        self.confirming = None;
        self.requests.clear();
        self.protects.clear();
    }
    /// It was started, which is a loss of power for the volumes that it owns.
    pub fn started(&mut self, workload: &RefCell<Workload>, now: u64) {
        self.links = OpenLinks::default();
        self.links_changed = false;
        self.directory.begin_start();
        self.directory.begin_life();
        let actions = self.directory.decide();
        for volume in self.owned.clone() {
            let left = self.directory.find::<ReservationRecord>(volume_id(volume)).map(|r| r.value.state);
            workload.borrow_mut().owner_started(volume, left.unwrap_or_default(), now);
        }
        let opens = actions.contains(&Action::OpenGroup(group_of(self.number)));
        if let (Some(commands), true) = (self.commands(), opens) {
            self.step = Step::Opening(commands.open_group(Some(cluster()), self.devices.clone()));
        }
    }

    fn take_events(&mut self) {
        let door = self.door.borrow();
        let Some((_, events)) = door.as_ref() else { return };
        while let Ok(event) = events.try_recv() {
            match event {
                DataPlaneEvent::ControlRequest(request) => self.requests.push_back(request),
                DataPlaneEvent::Link(change) => {
                    self.links.note(change.node, change.lane, change.lanes, change.open);
                    self.links_changed = true;
                }
                DataPlaneEvent::Audit(_) => {}
            }
        }
    }

    /// Has the node serve what the directory says now.
    fn apply(&mut self, commands: &CommandSender, then: Then) -> Step {
        self.links_changed = false;
        self.generation += 1;
        let upto = self.directory.revision();
        let records = self.directory.records();
        self.directory.forwards_are(self.links.open_to(&records.nodes));
        let served = dataplane::served(&records, self.directory.observed());
        let hosts = nvmf::Desired::of_records([&self.subsystem], &records.nodes, &name_of(self.number), &served.paths);
        let nodes = PeersDesired::of_records(cluster(), &records.nodes, &name_of(self.number)).with_security(LinkSecurity::Plain);
        let desired =
            dataplane::Desired { generation: self.generation, volumes: served.volumes, held: served.held, exports: (hosts, nodes) };
        Step::Applying(commands.apply(desired), upto, then)
    }

    /// Looks whether an answer has come, and goes on.
    pub fn turn(&mut self, workload: &RefCell<Workload>, now: u64) {
        self.take_events();
        let Some(commands) = self.commands() else { return };
        if let Some((completion, _)) = &self.confirming
            && let Some(outcome) = completion.try_take()
            && let Some((_, change)) = self.confirming.take()
        {
            self.confirmed(&commands, change, outcome, workload, now);
        }
        let step = core::mem::replace(&mut self.step, Step::Down);
        self.step = match step {
            Step::Opening(completion) => match completion.try_take() {
                None => Step::Opening(completion),
                Some(Ok((info, components))) => {
                    self.directory.group_opened(info.group, components.iter().map(|c| (c.id, c.no.0)).collect());
                    let left = self.directory.decide();
                    assert!(left.is_empty(), "{left:?} is left to be done");
                    self.directory.end_start();
                    self.apply(&commands, Then::Listen)
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Applying(completion, upto, then) => match completion.try_take() {
                None => Step::Applying(completion, upto, then),
                Some(Ok(())) => {
                    self.served = upto;
                    match then {
                        Then::Listen => Step::ListeningForNodes(commands.listen(Of::Second(self.addrs[1]))),
                        Then::Serve => Step::Serving,
                        Then::Confirm(change) => {
                            self.confirming = Some((commands.confirm(volume_id(change.volume)), change));
                            Step::Serving
                        }
                    }
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::ListeningForNodes(completion) => match completion.try_take() {
                None => Step::ListeningForNodes(completion),
                Some(Ok(_)) => {
                    let spec = ListenerSpec { addr: self.addrs[0], kind: ListenerKind::Io, advertise: None, security: Security::Plain };
                    Step::Listening(commands.listen(Of::First(spec)))
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Listening(completion) => match completion.try_take() {
                None => Step::Listening(completion),
                Some(Ok(_)) => Step::Serving,
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Serving => self.next(&commands, workload, now),
            other => other,
        };
    }

    fn next(&mut self, commands: &CommandSender, workload: &RefCell<Workload>, now: u64) -> Step {
        if self.confirming.is_none() {
            if let Some(request) = self.requests.pop_front() {
                return self.decide(commands, &request, workload, now);
            }
            if let Some((volume, on)) = self.protects.pop_front() {
                return self.decide_protection(commands, volume, on, workload, now);
            }
        }
        if self.links_changed {
            return self.apply(commands, Then::Serve);
        }
        if now >= self.looks_at {
            self.looks_at = now + self.rng.between(self.lag_ns);
            if self.directory.revision() > self.served {
                return self.apply(commands, Then::Serve);
            }
        }
        Step::Serving
    }

    /// The owner of a volume serves a change, or does not say so.
    fn confirmed(
        &mut self,
        commands: &CommandSender,
        change: Change,
        outcome: Result<(), DataPlaneError>,
        workload: &RefCell<Workload>,
        now: u64,
    ) {
        let mut workload = workload.borrow_mut();
        if outcome.is_ok() {
            workload.confirmed(change.volume, change.number, matches!(change.what, Changed::Reservation(..)), now);
        }
        if let Changed::Reservation(id, reply) = change.what {
            drop(commands.answer(id, if outcome.is_ok() { Ok(reply) } else { Err(Refused::Unserved) }));
        }
    }

    /// Reservation commands are carried out; nothing else that hosts may request is granted here.
    fn decide(&mut self, commands: &CommandSender, request: &ControlRequest, workload: &RefCell<Workload>, now: u64) -> Step {
        let ControlVerb::Reservation { volume, command } = &request.what else {
            drop(commands.answer(request.id, Err(Refused::Invalid)));
            return Step::Serving;
        };
        let (at, by) = (place_of(*volume), HostId::from_bytes(request.by.host_id));
        loop {
            let old = self.directory.find::<ReservationRecord>(*volume);
            let mut state = old.as_ref().map(|r| r.value.state.clone()).unwrap_or_default();
            let outcome = match state.execute(by, command) {
                Ok(outcome) => outcome,
                Err(refusal) => {
                    workload.borrow_mut().reservation_refused(at, by, command, refusal, now);
                    drop(commands.answer(request.id, Err(refusal.into())));
                    return Step::Serving;
                }
            };
            let transaction = match old {
                Some(mut old) => {
                    old.value.state = state.clone();
                    Transaction::new().update(&old)
                }
                None => Transaction::new().create(&ReservationRecord { volume: *volume, state: state.clone() }),
            };
            match self.directory.commit(transaction) {
                Ok(_) => {}
                Err(DirectoryError::Conflict { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
            let number = workload.borrow_mut().reserved_by_node(at, by, state, command, &outcome, now);
            let what = Changed::Reservation(request.id, Reply::reserved(*volume, outcome));
            return self.apply(commands, Then::Confirm(Change { volume: at, number, what }));
        }
    }

    fn decide_protection(&mut self, commands: &CommandSender, volume: usize, on: bool, workload: &RefCell<Workload>, now: u64) -> Step {
        let id = volume_id(volume);
        loop {
            let mut record = self.directory.find::<VolumeRecord>(id).expect("volumes stay");
            if record.value.write_protect.is_on() == on {
                return Step::Serving;
            }
            record.value.write_protect = if on { WriteProtect::Protected } else { WriteProtect::None };
            match self.directory.commit(Transaction::new().update(&record)) {
                Ok(_) => {}
                Err(DirectoryError::Conflict { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
            let number = workload.borrow_mut().protected(volume, on, now);
            return self.apply(commands, Then::Confirm(Change { volume, number, what: Changed::Protection }));
        }
    }
}

fn place_of(volume: VolumeId) -> usize {
    usize::from(volume.as_bytes()[0]) - 1
}

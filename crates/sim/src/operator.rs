//! What stands in for the control plane: brings the host into service after each start, grows volumes, carries out reservation commands, shuts
//! it down.
//!
//! ```text
//! Down ──started──► Opening ──► Applying ──► Listening ──► Serving ──► Growing, Reserving ──► Serving
//!                      └────────────┴── an error ──► Refused            └──────► ShuttingDown ──► Stopped
//! ```
//!
//! Owns: what is desired; it survives every death of the host, as a directory does.
//! Invariant: one order at a time; what is desired is changed before the host is told.
//! Never: waits: each turn looks whether an answer is there.

use crate::plan::Plan;
use crate::workload::Game;
use base::{ClusterId, ComponentId, Epoch, GroupId, HostId, ObjectId, Security, Visibility, VolumeId};
use cluster::reservation::State;
use host::ask::What;
use host::{
    Ask, AskId, ComponentInfo, ComponentNo, ComponentRef, ComponentSpec, Desired, Device, FormatSpec, GroupInfo, HostError, HostEvent,
    ListenerKind, ListenerSpec, NamespaceDesired, ObjectLayout, Orders, Refused, Reply, Settings, Stripe, SubsystemDesired, Ticket,
    VolumeDesired,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The subsystem that is served.
pub const NQN: &str = "nqn.2026-11.io.basalt:simulated";

type Opened = (GroupInfo, Vec<ComponentInfo>);

enum Step {
    Down,
    Opening(Ticket<Opened>),
    Applying(Ticket<()>),
    Listening(Ticket<SocketAddr>),
    Serving,
    Growing(Ticket<()>, usize, u64),
    Reserving(Ticket<()>, usize, AskId, Reply),
    ShuttingDown(Ticket<()>),
    Stopped,
    Refused(HostError),
}

/// The door to the host's newest life: orders in, events out.
pub type Door = Rc<RefCell<Option<(Orders, Receiver<HostEvent>)>>>;

/// The operator.
pub struct Operator {
    door: Door,
    devices: Vec<Device>,
    addr: SocketAddr,
    desired: Desired,
    /// Components by volume and stripe, in order.
    components: Vec<(usize, ComponentNo)>,
    /// What hosts have asked for and what was not begun.
    asked: VecDeque<Ask>,
    step: Step,
}

fn cluster() -> ClusterId {
    ClusterId::from_bytes([1; 16])
}
fn group() -> GroupId {
    GroupId::from_bytes([2; 16])
}
/// What the group is formatted as.
pub fn format_spec(plan: &Plan) -> FormatSpec {
    FormatSpec { cluster: cluster(), group: group(), name: "g0".into(), shards: plan.shards, created_unix_s: 1, force: false }
}
/// The settings of the shards.
pub fn settings(plan: &Plan) -> Settings {
    Settings {
        fill_low: plan.watermarks.0,
        fill_high: plan.watermarks.1,
        idle_drain: base::Duration::from_millis(plan.idle_drain_ms),
        scrub_bytes_per_s: 1 << 30,
        rules: host::Rules::Smooth,
    }
}

fn component_id(volume: usize, stripe: usize) -> ComponentId {
    ComponentId::from_bytes([volume as u8 * 8 + stripe as u8 + 1; 16])
}

/// The components of all volumes.
pub fn component_specs(plan: &Plan) -> Vec<(usize, ComponentSpec)> {
    let mut all = Vec::new();
    for (at, v) in plan.volumes.iter().enumerate() {
        for (stripe, device) in v.stripes.iter().enumerate() {
            let object = ObjectId::from_bytes([at as u8 + 1; 16]);
            let spec = ComponentSpec {
                id: component_id(at, stripe),
                object,
                capacity_index: *device,
                bytes: 1 << 30,
                reserve_chunks: v.reserve_chunks,
                descriptor: vec![at as u8],
            };
            all.push((at, spec));
        }
    }
    all
}

impl Operator {
    /// An operator of a host whose group was made.
    pub fn new(plan: &Plan, door: Door, devices: Vec<Device>, addr: SocketAddr, components: Vec<(usize, ComponentNo)>) -> Operator {
        let (desired, asked) = (Desired::default(), VecDeque::new());
        let mut operator = Operator { door, devices, addr, desired, components, asked, step: Step::Down };
        operator.desired = operator.first(plan);
        operator
    }

    fn first(&self, plan: &Plan) -> Desired {
        let volumes: Vec<VolumeDesired> = plan
            .volumes
            .iter()
            .enumerate()
            .map(|(at, v)| {
                let numbers: Vec<ComponentNo> = self.components.iter().filter(|(volume, _)| *volume == at).map(|(_, no)| *no).collect();
                let stripe = |(stripe, no): (usize, &ComponentNo)| Stripe {
                    components: vec![ComponentRef { id: component_id(at, stripe), group: group(), no: *no }],
                };
                let used = (v.first_block + v.blocks) * u64::from(v.lba_bytes);
                let object = ObjectLayout {
                    object: ObjectId::from_bytes([at as u8 + 1; 16]),
                    epoch: Epoch(1),
                    stripes: numbers.iter().enumerate().map(stripe).collect(),
                };
                let id = VolumeId::from_bytes([at as u8 + 1; 16]);
                VolumeDesired {
                    lba_bytes: v.lba_bytes,
                    checksum: v.checksum,
                    iops_max: v.iops_max,
                    ..VolumeDesired::plain(id, format!("v{at}"), used.next_multiple_of(4096), object)
                }
            })
            .collect();
        let namespaces: BTreeMap<u32, NamespaceDesired> =
            volumes.iter().enumerate().map(|(at, v)| (at as u32 + 1, NamespaceDesired { volume: v.id, hosts: Visibility::All })).collect();
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
        Desired { generation: 1, volumes, subsystems: vec![subsystem], hosts: BTreeMap::new() }
    }

    fn orders(&self) -> Option<Orders> {
        self.door.borrow().as_ref().map(|(orders, _)| orders.clone())
    }

    /// The host was started, which is a loss of power for what does not outlast one: it is brought into service.
    pub fn host_started(&mut self, game: &RefCell<Game>, now: u64) {
        self.step = Step::Down;
        self.asked.clear();
        self.change_reservations(game, now, |state| {
            state.power_lost();
        });
        if let Some(orders) = self.orders() {
            self.step = Step::Opening(orders.open_group(Some(cluster()), self.devices.clone()));
        }
    }
    /// The host is gone.
    pub fn host_died(&mut self) {
        self.step = Step::Down;
    }
    /// Nobody is registered any more.
    pub fn clear_reservations(&mut self, game: &RefCell<Game>, now: u64) {
        self.change_reservations(game, now, State::clear_all);
    }
    fn change_reservations(&mut self, game: &RefCell<Game>, now: u64, change: impl Fn(&mut State)) {
        let mut game = game.borrow_mut();
        self.desired.generation += 1;
        for (at, volume) in self.desired.volumes.iter_mut().enumerate() {
            let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
            if volume.reservation.is_some() {
                change(&mut state);
                volume.reservation = Some(Arc::new(state.clone()));
            }
            game.volumes[at].rights.restarted(state, now);
        }
    }
    /// Whether all is served.
    pub fn is_serving(&self) -> bool {
        matches!(self.step, Step::Serving)
    }
    /// Whether the host said that it has shut down.
    pub fn has_stopped(&self) -> bool {
        matches!(self.step, Step::Stopped)
    }
    /// Why the host could not be brought into service.
    pub fn refused(&self) -> Option<&HostError> {
        match &self.step {
            Step::Refused(error) => Some(error),
            _ => None,
        }
    }
    /// A volume grows by so many logical blocks; the game may use them when every core serves them. Whether it could be asked now.
    pub fn grow(&mut self, volume: usize, blocks: u64) -> bool {
        let (Step::Serving, Some(orders)) = (&self.step, self.orders()) else { return false };
        let v = &mut self.desired.volumes[volume];
        v.bytes += blocks * u64::from(v.lba_bytes);
        self.desired.generation += 1;
        self.step = Step::Growing(orders.apply(self.desired.clone()), volume, blocks);
        true
    }
    /// Begins a scrub, if all is served now.
    pub fn scrub(&self) {
        if let (Step::Serving, Some(orders)) = (&self.step, self.orders()) {
            drop(orders.scrub(group()));
        }
    }
    /// Shuts the host down in order.
    pub fn shut_down(&mut self) {
        if let Some(orders) = self.orders() {
            self.step = Step::ShuttingDown(orders.shutdown());
        }
    }
    /// An order from outside, when none of its own is under way.
    pub fn give<T>(&self, order: impl FnOnce(&Orders) -> Ticket<T>) -> Option<Ticket<T>> {
        self.orders().map(|o| order(&o))
    }

    /// Looks whether an answer has come, and goes on.
    pub fn turn(&mut self, game: &RefCell<Game>, now: u64) {
        self.take_asks();
        let Some(orders) = self.orders() else { return };
        let step = core::mem::replace(&mut self.step, Step::Down);
        self.step = match step {
            Step::Opening(ticket) => match ticket.try_take() {
                None => Step::Opening(ticket),
                Some(Ok(_)) => Step::Applying(orders.apply(self.desired.clone())),
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Applying(ticket) => match ticket.try_take() {
                None => Step::Applying(ticket),
                Some(Ok(())) => {
                    let spec = ListenerSpec { addr: self.addr, kind: ListenerKind::Io, advertise: None, security: Security::Plain };
                    Step::Listening(orders.listen(spec))
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Listening(ticket) => match ticket.try_take() {
                None => Step::Listening(ticket),
                Some(Ok(_)) => {
                    game.borrow_mut().unsteady = false;
                    Step::Serving
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Growing(ticket, volume, blocks) => match ticket.try_take() {
                None => Step::Growing(ticket, volume, blocks),
                Some(Ok(())) => {
                    game.borrow_mut().grown(volume, blocks);
                    Step::Serving
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Reserving(ticket, volume, ask, reply) => match ticket.try_take() {
                None => Step::Reserving(ticket, volume, ask, reply),
                Some(Ok(())) => {
                    game.borrow_mut().volumes[volume].rights.in_force(now);
                    drop(orders.answer(ask, Ok(reply)));
                    Step::Serving
                }
                Some(Err(error)) => Step::Refused(error),
            },
            Step::ShuttingDown(ticket) => match ticket.try_take() {
                None => Step::ShuttingDown(ticket),
                Some(Ok(())) => Step::Stopped,
                Some(Err(error)) => Step::Refused(error),
            },
            Step::Serving => self.asked.pop_front().map_or(Step::Serving, |ask| self.decide(&orders, &ask, game, now)),
            other => other,
        };
    }

    fn take_asks(&mut self) {
        let door = self.door.borrow();
        let Some((_, events)) = door.as_ref() else { return };
        while let Ok(event) = events.try_recv() {
            if let HostEvent::Asked(ask) = event {
                self.asked.push_back(ask);
            }
        }
    }

    /// Reservation commands are carried out, as `control` does it; nothing else of what hosts may ask for is granted here.
    fn decide(&mut self, orders: &Orders, ask: &Ask, game: &RefCell<Game>, now: u64) -> Step {
        let What::Reservation { volume, command } = &ask.what else {
            drop(orders.answer(ask.id, Err(Refused::Invalid)));
            return Step::Serving;
        };
        let at = self.desired.volumes.iter().position(|v| v.id == *volume).expect("volumes stay");
        let by = HostId::from_bytes(ask.by.host_id);
        let mut state = self.desired.volumes[at].reservation.as_deref().cloned().unwrap_or_default();
        match state.execute(by, command) {
            Err(refusal) => {
                game.borrow_mut().reservation_refused(at, by, refusal, now);
                drop(orders.answer(ask.id, Err(refusal.into())));
                Step::Serving
            }
            Ok(outcome) => {
                self.desired.volumes[at].reservation = Some(Arc::new(state.clone()));
                self.desired.generation += 1;
                game.borrow_mut().reserved(at, by, state, command, &outcome, now);
                Step::Reserving(orders.apply(self.desired.clone()), at, ask.id, Reply::reserved(*volume, outcome))
            }
        }
    }
}

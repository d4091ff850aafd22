//! The control plane of a node in a world of several, as tasks in virtual time: it brings the node into service after each start, serves what the
//! directory says, with its own lag, says that the node is up, and carries out what hosts and administrators ask for.
//!
//! ```text
//!  life:      incarnation ─► what `cluster::reconcile` wants ─► serve ─► listen for nodes, then for hosts ─► serving
//!  follow:    what others have changed is served, and worked off            links:    paths follow the links, also on what was last seen
//!  requests:  a host's command: decide ─► durable ─► served ─► confirmed by the owner ─► answered                    (`asked`)
//!  owners:    what the host of owners asks of the directory: reads, and changes of the records of objects                  (`owners`)
//!  restored:  the directory was made anew from a backup: the leader confirms which copies are in sync                      (`restored`)
//!  moves:     volumes that are laid out anew are filled, and go by their other places                                       (`moves`)
//!  presence:  the session is kept alive; it leads when nobody does
//! ```
//!
//! Owns: the node's way to the directory, which outlasts its deaths, and what it knows of this life.
//! Invariants: what is served only gets newer; the outcome of a transaction is known before anything depends on it, or counts as unknown.
//! Never: decides what a node has to do or how it reaches a volume (`cluster` does).

use super::plan::NodesPlan;
use super::records::{cluster, name_of};
use super::tasks::{Moment, Tasks};
use super::truth::Truth;
use super::way::Way;
use crate::node_types::Hosts;
use crate::workload::Workload;
use base::{ResyncPace, Security, VolumeId};
use cluster::record::{LeaderRecord, NodeRecord, PresenceRecord, SubsystemRecord};
use cluster::{Action, Finish, GroupSeen, Inventory, Observed, OpenLinks, Records};
use dataplane::{Balancing, Completion, DataPlaneError, DataPlaneEvent, Device, DirectoryAsk};
use directory::carry_out::Outcome;
use directory::commit::CONFLICT_ATTEMPTS_MAX;
use directory::{Attempt, Directory, DirectoryError, Followed, Nonce, Presence, Revision, Transaction, Typed, commit_known};
use frontend::{ControlRequest, Of, Pair};
use nvmf::{ListenerKind, ListenerSpec};
use peers::{LinkSecurity, Peers, PeersDesired};
use rt::sim::Rng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The front ends of a node.
pub type FrontEnds = Pair<Hosts, Peers>;
/// The door for commands.
pub type CommandSender = dataplane::CommandSender<FrontEnds>;
/// Figures of a node.
pub type NodeFigures = dataplane::NodeStats<<FrontEnds as frontend::FrontEnd>::Figures>;
/// The door to the node's newest life: commands in, events out.
pub type Door = Rc<RefCell<Option<(CommandSender, Receiver<DataPlaneEvent>)>>>;

/// Before a transaction whose outcome is not known is looked for again; longer each time.
const UNKNOWN_PAUSE_NS: u64 = 50_000_000;
/// Before something is tried again that the directory did not take.
const AGAIN_NS: u64 = 200_000_000;
/// How often the node says that it is up, by its own clock.
const PRESENCE_EVERY_NS: u64 = 1_000_000_000;
/// Rounds of decisions in one pass.
const ROUNDS_MAX: u32 = 16;

/// What an administrator wants of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeChange {
    /// That it is write protected, or not any more.
    Protected(bool),
    /// That this node owns it, whenever it can; `None`: any.
    Owner(Option<usize>),
    /// That it has so many copies.
    Copies(usize),
    /// That copies come back into sync so fast.
    Resync(ResyncPace),
    /// That it lies on so many mirrors; `None`: that it stays as it lies.
    Layout(Option<usize>),
}

/// What it knows of this life.
#[derive(Default)]
pub(super) struct Live {
    pub(super) followed: Followed<u64>,
    pub(super) observed: Observed,
    links: OpenLinks,
    links_changed: bool,
    generation: u64,
    /// Everything up to here is served; `None`: nothing is.
    pub(super) served: Option<Revision>,
    /// A picture is on its way to the cores.
    applying: bool,
    serving: bool,
    incarnation: u64,
    /// As of when it has begun: what was there then is from before.
    before: Option<Revision>,
    presence: Presence,
    /// By which record it leads, and until when it can know, by its clock.
    pub(super) leads: Option<(Revision, Duration)>,
    /// Why the data plane did not do something that it has to.
    refused: Option<String>,
    pub(super) requests: VecDeque<ControlRequest>,
    /// What the host of owners asks: reads, changes.
    pub(super) asks: [VecDeque<DirectoryAsk>; 2],
    pub(super) volume_changes: VecDeque<(usize, VolumeChange)>,
    /// Volumes whose data goes to other places.
    pub(super) fills: BTreeSet<VolumeId>,
    /// Volumes whose other places find no room here.
    pub(super) no_room: BTreeSet<VolumeId>,
    /// It is at work on what a host, or an administrator, asked for.
    pub(super) at_work: [bool; 2],
}

/// What the tasks of a node share.
pub struct Node {
    pub(super) number: usize,
    pub(super) name: String,
    door: Door,
    devices: Vec<Device>,
    /// Where it listens for hosts over NVMe/TCP and iSCSI, and for nodes.
    addrs: [SocketAddr; 3],
    pub(super) way: Way,
    pub(super) moment: Rc<Moment>,
    pub(super) truth: Rc<RefCell<Truth>>,
    pub(super) workload: Rc<RefCell<Workload>>,
    nonces: Cell<u128>,
    /// The incarnation that it had last; it outlasts its deaths.
    lives: Cell<u64>,
    rng: RefCell<Rng>,
    lag_ns: (u64, u64),
    /// How much faster its clock is, in thousandths.
    clock_permille: i32,
    /// Objects go to other nodes of themselves.
    balancing: Balancing,
    pub(super) inventory: Inventory,
    pub(super) live: RefCell<Live>,
}

/// A node's control plane. See the module.
pub struct NodeControl {
    node: Rc<Node>,
    tasks: Tasks,
    /// It is paused until then.
    paused_until: u64,
}

/// What a node is made of.
pub struct Parts {
    /// Which it is.
    pub number: usize,
    /// Its data plane.
    pub door: Door,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Where it listens for hosts over NVMe/TCP and iSCSI, and for nodes.
    pub addrs: [SocketAddr; 3],
    /// Its way to the directory.
    pub way: Way,
}

impl NodeControl {
    /// Of a node whose components are made.
    pub fn new(plan: &NodesPlan, parts: Parts, truth: Rc<RefCell<Truth>>, workload: Rc<RefCell<Workload>>) -> NodeControl {
        let (tasks, Parts { number, door, devices, addrs, way }) = (Tasks::default(), parts);
        let node = Node {
            number,
            name: name_of(number),
            door,
            devices,
            addrs,
            way,
            moment: tasks.moment(),
            truth,
            workload,
            nonces: Cell::new((number as u128 + 1) << 64),
            lives: Cell::new(0),
            rng: RefCell::new(Rng::new(plan.base.seed ^ 0x1A6 ^ (number as u64) << 32)),
            lag_ns: plan.nodes[number].lag_ns,
            clock_permille: plan.nodes[number].clock_permille,
            balancing: plan.balancing,
            inventory: super::copies::inventory(plan),
            live: RefCell::default(),
        };
        NodeControl { node: Rc::new(node), tasks, paused_until: 0 }
    }
    /// Its way to the directory.
    pub fn way(&self) -> &Way {
        &self.node.way
    }
    /// Whether it serves everything that it knows of.
    pub fn is_serving(&self) -> bool {
        self.node.live.borrow().serving
    }
    /// Up to which revision it serves; `None`: it serves nothing.
    pub fn served(&self) -> Option<Revision> {
        self.node.live.borrow().served
    }
    /// Whether it is served up to a revision, and has nothing to do.
    pub fn is_idle(&self, at: Revision) -> bool {
        let live = self.node.live.borrow();
        let quiet = !live.links_changed && !live.applying && live.requests.is_empty() && live.volume_changes.is_empty();
        live.serving && quiet && live.at_work == [false; 2] && live.served.is_some_and(|served| served >= at)
    }
    /// Why it cannot be brought into service.
    pub fn refused(&self) -> Option<String> {
        self.node.live.borrow().refused.clone()
    }
    /// To how many nodes it can pass on requests.
    pub fn reaches(&self) -> usize {
        self.node.live.borrow().observed.forwards.len()
    }
    /// Whether the directory says that it is up, in this life, and who leads, in the life that it has.
    pub fn is_known(&self, nodes: &[(String, u64)]) -> bool {
        let truth = self.node.truth.borrow();
        let (presence, leader) =
            (truth.view().find::<PresenceRecord>(&self.node.name), truth.view().find::<LeaderRecord>(LeaderRecord::ID));
        let said = presence.ok().flatten().is_some_and(|p| p.incarnation == self.node.live.borrow().incarnation);
        said && leader.ok().flatten().is_some_and(|l| nodes.contains(&(l.value.node, l.value.incarnation)))
    }
    /// Its name, and which life of it this is.
    pub fn life(&self) -> (String, u64) {
        (self.node.name.clone(), self.node.live.borrow().incarnation)
    }
    /// Figures of its data plane.
    pub fn figures(&self) -> Completion<NodeFigures> {
        self.node.commands().stats()
    }
    /// What keeps it from its rest, for messages.
    pub fn state(&self) -> String {
        let live = self.node.live.borrow();
        let Live { served, applying, serving, requests, volume_changes, at_work, links_changed, .. } = &*live;
        let waiting = (requests.len(), volume_changes.len());
        format!(
            "served {served:?}, applying {applying}, serving {serving}, waiting {waiting:?}, at work {at_work:?}, links {links_changed}"
        )
    }
    /// An administrator asks for a change of a volume.
    pub fn change_volume(&mut self, volume: usize, what: VolumeChange) {
        self.node.live.borrow_mut().volume_changes.push_back((volume, what));
        self.node.moment.wake();
    }
    /// The daemon does nothing until then.
    pub fn paused(&mut self, until: u64) {
        self.paused_until = self.paused_until.max(until);
    }
    /// It is down.
    pub fn died(&mut self) {
        self.tasks.end_all();
        *self.node.live.borrow_mut() = Live::default();
        self.paused_until = 0;
    }
    /// It was started.
    pub fn started(&mut self) {
        self.died();
        let observed = Observed { node: self.node.name.clone(), ..Observed::default() };
        self.node.live.borrow_mut().observed = observed;
        self.tasks.begin(Rc::clone(&self.node).life());
        self.tasks.begin(Rc::clone(&self.node).follow());
        self.tasks.begin(Rc::clone(&self.node).follow_links());
        self.tasks.begin(Rc::clone(&self.node).requests());
        self.tasks.begin(Rc::clone(&self.node).administrators());
        self.tasks.begin(Rc::clone(&self.node).owners_read());
        self.tasks.begin(Rc::clone(&self.node).owners_change());
        self.tasks.begin(Rc::clone(&self.node).presence());
        self.tasks.begin(Rc::clone(&self.node).moves());
        self.tasks.begin(Rc::clone(&self.node).confirms_restored());
    }
    /// It is `now`.
    pub fn turn(&mut self, now: u64) {
        if now < self.paused_until {
            return;
        }
        self.node.take_events();
        self.tasks.poll(now);
    }
}

impl Node {
    pub(super) fn commands(&self) -> CommandSender {
        self.door.borrow().as_ref().expect("its tasks end when it dies").0.clone()
    }
    pub(super) async fn answer<T>(&self, completion: Completion<T>) -> Result<T, DataPlaneError> {
        self.moment.answer(completion).await
    }
    /// A number by which a transaction is recognised.
    pub(super) fn nonce(&self) -> Nonce {
        self.nonces.set(self.nonces.get() + 1);
        Nonce(self.nonces.get().to_le_bytes())
    }
    pub(super) fn clock(&self) -> Duration {
        let now = i128::from(self.moment.now());
        Duration::from_nanos((now * i128::from(1000 + self.clock_permille) / 1000) as u64)
    }
    pub(super) fn is_serving(&self) -> bool {
        self.live.borrow().serving
    }

    fn take_events(&self) {
        let door = self.door.borrow();
        let Some((_, events)) = door.as_ref() else { return };
        while let Ok(event) = events.try_recv() {
            let mut live = self.live.borrow_mut();
            self.moment.wake();
            match event {
                DataPlaneEvent::ControlRequest(request) => live.requests.push_back(request),
                DataPlaneEvent::Link(change) => {
                    live.links.note(change.node, change.lane, change.lanes, change.open);
                    live.links_changed = true;
                }
                DataPlaneEvent::Away(object, away) => {
                    live.observed.note_away(object, away);
                    live.links_changed = true;
                }
                DataPlaneEvent::Audit(_) => {}
                DataPlaneEvent::Directory(ask) => live.asks[usize::from(matches!(ask, DirectoryAsk::Change { .. }))].push_back(ask),
            }
        }
    }

    // ---- the directory ----------------------------------------------------------------------------------------------

    /// Makes changes durable; when the answer is lost, finds out first whether they happened.
    pub(super) async fn commit_as(&self, transaction: Transaction, nonce: Nonce) -> Result<Revision, DirectoryError> {
        if transaction.changes.is_empty() {
            return self.way.revision();
        }
        let mut attempt = Attempt::new(transaction, nonce);
        for tried in 1.. {
            if let Some(outcome) = attempt.step(&self.way) {
                return outcome;
            }
            self.moment.sleep(UNKNOWN_PAUSE_NS * tried).await;
        }
        unreachable!("an attempt ends")
    }
    /// Decides and commits, and does both again when somebody else was faster.
    pub(super) async fn change(&self, mut decide: impl FnMut() -> Result<Transaction, DirectoryError>) -> Result<Revision, DirectoryError> {
        let mut tried = 1;
        loop {
            match self.commit_as(decide()?, self.nonce()).await {
                Err(DirectoryError::Conflict { .. }) if tried < CONFLICT_ATTEMPTS_MAX => tried += 1,
                outcome => return outcome,
            }
        }
    }
    /// All that is decided on, as it is now.
    pub(super) fn look(&self) -> Result<Records, DirectoryError> {
        let mut live = self.live.borrow_mut();
        live.followed.look(&self.way, self.moment.now())?;
        directory::records(live.followed.view())
    }

    // ---- serving ----------------------------------------------------------------------------------------------------

    /// Has the node serve what the directory says. `or_seen`: what was last seen of it, when it does not answer.
    async fn apply(&self, or_seen: bool) -> Result<(), DirectoryError> {
        self.moment.until(|| !self.live.borrow().applying).await;
        let looked = self.look();
        let completion = {
            let live = &mut *self.live.borrow_mut();
            let records = match looked {
                Err(DirectoryError::Unavailable) if or_seen && live.followed.as_of().is_some() => directory::records(live.followed.view())?,
                looked => looked?,
            };
            live.links_changed = false;
            live.generation += 1;
            live.observed.forwards = live.links.open_to(&records.nodes);
            let served = dataplane::served(&records, &live.observed);
            let subsystems: Vec<SubsystemRecord> = live.followed.view().all()?.into_iter().map(|s| s.value).collect();
            let hosts = nvmf::Desired::of_records(&subsystems, &records.nodes, &self.name, &served.paths);
            let targets = iscsi::Desired::of_records(&subsystems, &records.nodes, &self.name, &served.paths);
            let nodes = PeersDesired::of_records(cluster(), &records.nodes, &self.name).with_security(LinkSecurity::Plain);
            live.applying = true;
            let reached = |to: usize| live.observed.forwards.contains(&name_of(to));
            self.workload.borrow_mut().paths().decided(self.number, reached, self.moment.now());
            let desired = dataplane::Desired {
                generation: live.generation,
                volumes: served.volumes,
                held: served.held,
                objects: served.objects,
                balancing: self.balancing,
                exports: ((hosts, targets), nodes),
            };
            (self.commands().apply(desired), live.followed.view().revision())
        };
        let applied = self.answer(completion.0).await;
        let live = &mut *self.live.borrow_mut();
        live.applying = false;
        match applied {
            Ok(()) => {
                live.served = live.served.max(Some(completion.1));
                self.workload.borrow_mut().paths().in_force(self.number, self.moment.now());
            }
            Err(error) => drop(live.refused.get_or_insert(error.to_string())),
        }
        Ok(())
    }
    /// Has it serve what the directory said at a revision, at least.
    pub(super) async fn serve(&self, from: Revision) -> Result<(), DirectoryError> {
        while self.live.borrow().served < Some(from) {
            self.apply(false).await?;
            if self.live.borrow().refused.is_some() {
                return Err(DirectoryError::Unavailable);
            }
        }
        Ok(())
    }

    /// Does everything that there is to do for this node, as far as it can be done now.
    pub(super) async fn work(&self) -> Result<(), DirectoryError> {
        let mut tried = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let records = self.look()?;
            self.begins(&records);
            self.sees_copies(&records).await?;
            let actions = cluster::reconcile(&records, &self.live.borrow().observed);
            let new: Vec<Action> = actions.into_iter().filter(|a| tried.insert(a.clone())).collect();
            if new.is_empty() {
                break;
            }
            for action in new {
                match directory::carry_out(&self.way, &action, |t| commit_known(&self.way, t, self.nonce(), |_| {}))? {
                    Outcome::Changed(_) => {}
                    Outcome::Begun(begun) => self.live.borrow_mut().observed.terms.extend(begun),
                    Outcome::NotHere => self.act(action).await?,
                }
            }
        }
        Ok(())
    }
    /// At its first look at the directory: what is there now is from before.
    fn begins(&self, records: &Records) {
        let live = &mut *self.live.borrow_mut();
        if live.before.is_none() {
            live.observed.restarted = cluster::only_on(records, &self.name);
            let (truth, workload) = (&mut *self.truth.borrow_mut(), &mut *self.workload.borrow_mut());
            truth.catch_up(workload, self.moment.now());
            live.before = Some(truth.starts(self.number));
        }
    }
    async fn act(&self, action: Action) -> Result<(), DirectoryError> {
        match action {
            Action::OpenGroup(group) => {
                let opened = self.answer(self.commands().open_group(Some(cluster()), self.devices.clone())).await;
                let live = &mut *self.live.borrow_mut();
                match opened {
                    Ok((_, found)) => {
                        let found = found.iter().map(|c| (c.id, c.no.0)).collect();
                        live.observed.groups.insert(group, GroupSeen::Open(found));
                    }
                    Err(error) => drop(live.refused.get_or_insert(error.to_string())),
                }
            }
            Action::Finish(volume, Finish::Copies) => self.finish_copies(volume).await?,
            Action::Finish(volume, Finish::Create) => self.finish_create(volume).await?,
            Action::Finish(volume, Finish::Delete) => self.finish_delete(volume).await?,
            other => unreachable!("{other:?} is of nothing that this world does"),
        }
        Ok(())
    }

    // ---- tasks ------------------------------------------------------------------------------------------------------

    /// Something that the directory has to take or say, until it does.
    pub(super) async fn again_until<T>(&self, mut what: impl AsyncFnMut() -> Result<T, DirectoryError>) -> T {
        loop {
            match what().await {
                Ok(done) => return done,
                Err(_) => self.moment.sleep(AGAIN_NS).await,
            }
        }
    }

    async fn life(self: Rc<Self>) {
        self.again_until(async || self.notes_restore().await).await;
        let incarnation = Cell::new(0);
        let begin = || {
            let mut node = self.way.find::<NodeRecord>(&self.name)?.expect("it is a member");
            node.begin_life(self.lives.get());
            incarnation.set(node.incarnation);
            Ok(Transaction::new().update(&node))
        };
        self.again_until(async || self.change(begin).await).await;
        self.lives.set(incarnation.get());
        self.live.borrow_mut().incarnation = incarnation.get();
        self.again_until(async || self.work().await).await;
        {
            let (truth, workload) = (&mut *self.truth.borrow_mut(), &mut *self.workload.borrow_mut());
            truth.catch_up(workload, self.moment.now());
            truth.has_started(self.number, self.live.borrow().before.expect("it has looked"), workload);
        }
        self.live.borrow_mut().observed.restarted.clear();
        self.again_until(async || self.apply(false).await).await;
        let [nvme, iscsi, links] = self.addrs;
        let nvme = ListenerSpec { addr: nvme, kind: ListenerKind::Io, advertise: None, security: Security::Plain };
        let iscsi = iscsi::ListenerSpec::from(iscsi);
        for at in [Of::Second(links), Of::First(Of::First(nvme)), Of::First(Of::Second(iscsi))] {
            if let Err(error) = self.answer(self.commands().listen(at)).await {
                self.live.borrow_mut().refused.get_or_insert(error.to_string());
                return;
            }
        }
        self.live.borrow_mut().serving = true;
        self.moment.wake();
    }

    /// What others have changed is served, and worked off.
    async fn follow(self: Rc<Self>) {
        self.moment.until(|| self.is_serving()).await;
        let mut done = None; // others serve, too, and leave what there is to do
        loop {
            let lag = self.rng.borrow_mut().between(self.lag_ns);
            self.moment.sleep(lag).await;
            let Ok(newest) = self.way.revision() else { continue };
            if self.live.borrow().served < Some(newest) || done < Some(newest) {
                let served = self.serve(newest).await.is_ok();
                if self.work().await.is_ok() && served {
                    done = Some(newest);
                }
            }
        }
    }

    /// Paths follow the links, whether the directory answers or not.
    async fn follow_links(self: Rc<Self>) {
        self.moment.until(|| self.is_serving()).await;
        loop {
            self.moment.until(|| self.live.borrow().links_changed).await;
            if self.apply(true).await.is_err() {
                self.moment.sleep(AGAIN_NS).await;
            }
        }
    }

    async fn presence(self: Rc<Self>) {
        self.moment.until(|| self.is_serving()).await;
        loop {
            let now = self.clock();
            let mine = PresenceRecord {
                node: self.name.clone(),
                incarnation: self.live.borrow().incarnation,
                release: String::new(),
                cores: 1,
                started_unix_s: 0,
                groups: Vec::new(),
                checks: Vec::new(),
                resyncs: Default::default(),
                resync_seconds: Default::default(),
                slow_copies: Default::default(),
                failed_copies: Default::default(),
                moves: Default::default(),
                reported_unix_s: 0,
            };
            {
                let live = &mut *self.live.borrow_mut();
                let _ = live.presence.tick(&self.way, now, &mine, || self.nonce());
                live.leads = live.presence.leadership(now);
            }
            let by_clock = PRESENCE_EVERY_NS * 1000 / (1000 + i64::from(self.clock_permille)) as u64;
            self.moment.sleep(by_clock).await;
        }
    }
}

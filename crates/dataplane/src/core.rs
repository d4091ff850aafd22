//! One core: its front end, its router, its messages, and what core 0 asks it to do.
//!
//! Invariant: `Core` is borrowed only between two awaits; a call is answered exactly once.

use crate::{
    error::DataPlaneError,
    event::{self, DataPlaneEvent, EventSender},
    handle::{Command, CommandSender},
    message::{Answer, Call, CoreMsg},
    stats::{CoreSnapshot, ShardSnapshot},
    worker::Worker,
};
use base::hooks::{self, CoverageMark, SeededFault};
use base::{Duration, GroupId, VolumeId};
use nvmf::{Options as TargetOptions, Refused, Target, TargetShared};
use object::{Backend, GroupSlot, IoDone, IoError, IoRequest, Limits, VolumeRef, VolumeRouter};
use rt::sync::{OneSender, oneshot};
use rt::{App, Inbox, MeshEnd, Progress, Rt};
use slab::Slab;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use store::{Group, Settings, Shard};

/// Commands taken in one turn of the loop.
const COMMANDS_MAX: usize = 16;
/// Messages taken in one turn of the loop.
const MESSAGES_MAX: usize = 1024;
/// How often a drain looks whether all is quiet.
pub(crate) const QUIET_POLL: Duration = Duration::from_millis(1);
/// How long a shutdown waits for requests under way.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long a shutdown waits for the checkpoints.
const CHECKPOINT_MAX: Duration = Duration::from_secs(30);
/// Messages on the way between two cores.
const MESH_DEPTH: usize = 4096;

/// A disk group that is open; core 0 keeps the list.
pub(crate) struct OpenGroup {
    pub(crate) slot: GroupSlot,
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
    pub(crate) volumes: BTreeMap<VolumeId, VolumeRef>,
    pub(crate) limits: BTreeMap<VolumeId, KnownLimits>,
    pub(crate) settings: Settings,
}

/// The state of one core.
pub(crate) struct Core {
    pub(crate) router: VolumeRouter<Shard>,
    pub(crate) target: Target,
    pub(crate) ledger: Ledger,
    groups: BTreeMap<GroupSlot, GroupId>,
    calls: Slab<OneSender<Answer>>,
    front: Option<Box<dyn FrontEnd>>,
    front_done: VecDeque<IoDone>,
    pub(crate) freeing: Slab<OneSender<Result<(), IoError>>>,
    out: VecDeque<(usize, CoreMsg)>,
    stop: bool,
}

struct CoreApp {
    core: Rc<RefCell<Core>>,
    mesh: MeshEnd<CoreMsg>,
    inbox: Option<Inbox<Command>>,
    events: EventSender,
    worker: Option<Worker>,
}

/// Core 0, as a command sees it.
#[derive(Clone)]
pub(crate) struct CoreController {
    pub(crate) core: Rc<RefCell<Core>>,
    pub(crate) rt: Rt,
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
fn may_begin(rt: &Rt, target: &mut Target, request: &IoRequest) -> bool {
    request.token & FRONT != 0 || target.may_begin(rt, request.token)
}

/// One door for two front ends: each gets its own answers.
struct Door<'a> {
    router: &'a mut VolumeRouter<Shard>,
    waiting: &'a mut VecDeque<IoDone>,
    front: bool,
}

impl Backend for Door<'_> {
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

/// What a core is made from; see [`core_seeds`].
pub struct CoreSeed {
    mesh: MeshEnd<CoreMsg>,
    inbox: Option<Inbox<Command>>,
    shared: Arc<TargetShared>,
    settings: Settings,
    events: EventSender,
    worker: Option<Worker>,
}

/// The seeds of all cores of a host, the door for commands, and what the data plane tells. Production starts them on threads ([`crate::DataPlaneHandle`]), tests in a simulated world.
pub fn core_seeds(cores: usize, settings: Settings, target: TargetOptions) -> (CommandSender, Receiver<DataPlaneEvent>, Vec<CoreSeed>) {
    let (inlet, inbox) = rt::inbox();
    let shared = Arc::new(TargetShared::new(target));
    let (sender, events) = event::channel();
    let mut inbox = Some(inbox);
    let seeds = rt::mesh(cores, MESH_DEPTH)
        .into_iter()
        .map(|mesh| CoreSeed { mesh, inbox: inbox.take(), shared: Arc::clone(&shared), settings, events: sender.clone(), worker: None })
        .collect();
    (CommandSender::new(inlet), events, seeds)
}

impl CoreSeed {
    /// Gives the core a thread for what would hold it up. Without one it does such work itself.
    pub(crate) fn with_worker(self, worker: &Worker) -> Self {
        Self { worker: Some(worker.clone()), ..self }
    }
    /// The program of this core, with a front end beside NVMe/TCP.
    pub fn start_with(self, rt: &Rt, front: Box<dyn FrontEnd>) -> Box<dyn App> {
        self.begin(rt, Some(front))
    }
    /// The program of this core.
    pub fn start(self, rt: &Rt) -> Box<dyn App> {
        self.begin(rt, None)
    }
    fn begin(self, rt: &Rt, front: Option<Box<dyn FrontEnd>>) -> Box<dyn App> {
        if let Some(inbox) = &self.inbox {
            inbox.bind(rt);
        }
        let core = Core {
            router: VolumeRouter::new(rt),
            target: Target::new(rt, self.shared),
            ledger: Ledger { settings: self.settings, ..Ledger::default() },
            groups: BTreeMap::new(),
            calls: Slab::new(),
            front,
            front_done: VecDeque::new(),
            freeing: Slab::new(),
            out: VecDeque::new(),
            stop: false,
        };
        Box::new(CoreApp {
            core: Rc::new(RefCell::new(core)),
            mesh: self.mesh,
            inbox: self.inbox,
            events: self.events,
            worker: self.worker,
        })
    }
}

impl App for CoreApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut busy = self.take_commands(rt);
        busy |= self.take_messages(rt);
        let core = &mut *self.core.borrow_mut();
        busy |= core.poll_fronts(rt);
        let target = &mut core.target;
        if core.router.poll(rt, |request| may_begin(rt, target, request)) {
            busy = true;
            core.poll_fronts(rt);
        }
        while let Some(done) = core.router.pop_own() {
            busy = true;
            let waiting = core.freeing.remove(done.token as usize);
            // Nobody waits any more when the command's task was ended by a shutdown.
            let _ = waiting.send(done.result);
        }
        busy |= self.tell(rt, core);
        let sent = self.mesh_out(rt, core);
        self.mesh.flush_wakes(rt);
        match (core.stop && core.out.is_empty(), busy || sent) {
            (true, _) => Progress::Stop,
            (false, true) => Progress::Busy,
            (false, false) => Progress::Idle,
        }
    }
}

impl Core {
    /// Lets the front ends do what there is to do.
    fn poll_fronts(&mut self, rt: &Rt) -> bool {
        let Some(front) = &mut self.front else { return self.target.poll(rt, &mut self.router) };
        let (router, waiting) = (&mut self.router, &mut self.front_done);
        let mut busy = self.target.poll(rt, &mut Door { router, waiting, front: false });
        busy |= front.poll(rt, &mut Door { router, waiting, front: true });
        busy
    }
    /// Sends a message to another core with the next turn.
    pub(crate) fn send(&mut self, core: usize, msg: CoreMsg) {
        self.out.push_back((core, msg));
    }
}

impl CoreApp {
    fn controller(&self, rt: &Rt) -> CoreController {
        CoreController { core: Rc::clone(&self.core), rt: rt.clone() }
    }

    fn take_commands(&mut self, rt: &Rt) -> bool {
        let Some(inbox) = &self.inbox else { return false };
        let mut taken = 0;
        while taken < COMMANDS_MAX {
            let Some(command) = inbox.try_recv() else { break };
            command(self.controller(rt));
            taken += 1;
        }
        taken > 0
    }

    fn take_messages(&mut self, rt: &Rt) -> bool {
        let mut taken = 0;
        while taken < MESSAGES_MAX {
            let Some(msg) = self.mesh.recv() else { break };
            taken += 1;
            self.on_msg(rt, msg);
        }
        taken > 0
    }

    /// Hands on what the control plane is to know.
    fn tell(&self, rt: &Rt, core: &mut Core) -> bool {
        let mut reported = false;
        while let Some(ask) = core.target.pop_control_request() {
            reported = true;
            let id = ask.id;
            if self.events.send(DataPlaneEvent::Asked(ask)).is_err() {
                core.target.on_answer(rt, id, Err(Refused::Busy));
            }
        }
        while let Some(event) = core.target.pop_audit() {
            reported = true;
            if self.events.send(DataPlaneEvent::Audit(event)).is_err() {
                core.target.audit_lost();
            }
        }
        while let Some((id, work)) = core.target.pop_work() {
            reported = true;
            let mine = match &self.worker {
                Some(worker) => worker.give(id, work).err(),
                None => Some((id, work)),
            };
            if let Some((id, work)) = mine {
                core.target.on_work_done(rt, id, work.run());
            }
        }
        reported
    }

    fn on_msg(&self, rt: &Rt, msg: CoreMsg) {
        match msg {
            CoreMsg::Router(msg) => self.core.borrow_mut().router.on_msg(rt, msg),
            CoreMsg::Target(msg) => self.core.borrow_mut().target.on_msg(rt, msg),
            CoreMsg::Worked(id, done) => self.core.borrow_mut().target.on_work_done(rt, id, *done),
            CoreMsg::Call { id, call } => {
                let this = self.controller(rt);
                rt.spawn(async move {
                    let answer = Box::new(this.perform(call).await);
                    this.core.borrow_mut().out.push_back((0, CoreMsg::Answer { id, answer }));
                    this.rt.wake(this.rt.core());
                });
            }
            CoreMsg::Answer { id, answer } => {
                let waiting = self.core.borrow_mut().calls.remove(id as usize);
                // Nobody waits any more when the command's task was ended by a shutdown.
                let _ = waiting.send(*answer);
            }
        }
    }

    /// Hands on what goes to other cores; what does not fit stays, in order.
    fn mesh_out(&self, rt: &Rt, core: &mut Core) -> bool {
        let mut moved = false;
        while let Some((to, msg)) = core.out.pop_front() {
            match self.mesh.send(rt, to, msg) {
                Ok(()) => moved = true,
                Err(msg) => {
                    core.out.push_front((to, msg));
                    break;
                }
            }
        }
        while let Some((to, msg)) = core.target.pop_msg() {
            moved = true;
            if let Err(msg) = self.mesh.send(rt, to, CoreMsg::Target(msg)) {
                core.out.push_back((to, msg));
                break;
            }
        }
        while let Some((to, msg)) = core.router.pop_msg() {
            moved = true;
            if to == rt.core() {
                core.router.on_msg(rt, msg);
                continue;
            }
            match self.mesh.send(rt, to, CoreMsg::Router(msg)) {
                Ok(()) => {}
                Err(CoreMsg::Router(msg)) => {
                    core.router.unpop_msg(to, msg);
                    break;
                }
                Err(_) => unreachable!("a full ring gives back what it was given"),
            }
        }
        moved
    }
}

impl CoreController {
    /// Asks a core to do something and waits for its answer.
    pub(crate) async fn call(&self, core: usize, call: Call) -> Answer {
        if core == self.rt.core() {
            return self.perform(call).await;
        }
        let (sender, receiver) = oneshot();
        {
            let mut mine = self.core.borrow_mut();
            let id = mine.calls.insert(sender) as u32;
            mine.out.push_back((core, CoreMsg::Call { id, call }));
        }
        self.rt.wake(self.rt.core());
        receiver.await.unwrap_or(Answer::Done(Err(DataPlaneError::Stopped)))
    }

    /// Asks every core, one after another; stops at the first that fails.
    pub(crate) async fn call_all(&self, call: Call) -> Result<(), DataPlaneError> {
        for core in 0..self.rt.cores() {
            done(self.call(core, call.clone()).await)?;
        }
        Ok(())
    }

    async fn perform(&self, call: Call) -> Answer {
        let result = match call {
            Call::OpenShard { slot, no, group, settings } => self.open_shard(slot, no, group, settings).await,
            Call::CloseShards { slot } => {
                self.quiesce_shards(Some(slot)).await;
                let mut core = self.core.borrow_mut();
                drop(core.router.lanes_mut().remove_group(slot));
                core.groups.remove(&slot);
                Ok(())
            }
            Call::Route { slot, route } => {
                self.core.borrow_mut().router.set_route(slot, route);
                Ok(())
            }
            Call::AddComponent { slot, no, info } => {
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().filter(|(s, ..)| *s == slot).for_each(|(_, _, shard)| shard.add_component(no, &info));
                Ok(())
            }
            Call::DropComponent { .. } if hooks::seeded(SeededFault::DroppedOnOneCore) && self.rt.core() > 0 => Ok(()),
            Call::DropComponent { slot, no } => {
                let mut core = self.core.borrow_mut();
                core.router
                    .lanes_mut()
                    .shards_mut()
                    .filter(|(s, ..)| *s == slot)
                    .for_each(|(_, _, shard)| shard.drop_component(&self.rt, no));
                core.router.lanes_mut().forget(object::ComponentAt { group: slot, no });
                Ok(())
            }
            Call::Apply { layout, view } => {
                let core = &mut *self.core.borrow_mut();
                if hooks::seeded(SeededFault::GrowthOnOneCore) && self.rt.core() > 0 && core.router.layout(VolumeRef(0)).is_some() {
                    return Answer::Done(Ok(()));
                }
                let protects = |v: &nvmf::VolumeView| v.write_protect.is_on();
                if hooks::seeded(SeededFault::ProtectedOnOneCore) && self.rt.core() > 0 && view.volumes.iter().flatten().any(protects) {
                    return Answer::Done(Ok(()));
                }
                core.target.apply(&self.rt, view);
                let target = &mut core.target;
                core.router.apply(&self.rt, layout, |request| may_begin(&self.rt, target, request));
                Ok(())
            }
            Call::Settle { volume, end } => {
                while self.core.borrow().router.reaches_behind(volume, end) {
                    self.rt.sleep(QUIET_POLL).await;
                }
                Ok(())
            }
            Call::Answer { id, result } => {
                self.core.borrow_mut().target.on_answer(&self.rt, id, result);
                Ok(())
            }
            Call::Settings(settings) => {
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().for_each(|(_, _, shard)| shard.set_settings(settings));
                Ok(())
            }
            Call::Scrub { slot } => {
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().filter(|(s, ..)| *s == slot).for_each(|(_, _, shard)| shard.start_scrub(&self.rt));
                Ok(())
            }
            Call::Stats => return Answer::Stats(Box::new(self.snapshot())),
            Call::Check => {
                self.core.borrow().router.lanes().shards().for_each(|(_, _, shard)| shard.check());
                Ok(())
            }
            Call::Drain => self.drain().await,
            Call::Stop => {
                self.core.borrow_mut().stop = true;
                Ok(())
            }
        };
        Answer::Done(result)
    }

    async fn open_shard(&self, slot: GroupSlot, no: u8, group: Group, settings: Settings) -> Result<(), DataPlaneError> {
        let shard = Shard::open(&self.rt, &group, no, settings).await?;
        let mut core = self.core.borrow_mut();
        core.router.lanes_mut().add_shard(slot, no, shard);
        core.groups.insert(slot, group.info().group);
        Ok(())
    }

    /// Front end first, then what is under way, then the shards with their checkpoints.
    async fn drain(&self) -> Result<(), DataPlaneError> {
        self.core.borrow_mut().target.begin_shutdown(&self.rt);
        let started = self.rt.now();
        loop {
            {
                let mut core = self.core.borrow_mut();
                let late = self.rt.now().since(started) > DRAIN_MAX;
                if late || core.target.is_quiet() && core.router.is_idle() {
                    core.router.begin_shutdown();
                    break;
                }
            }
            hooks::reached(CoverageMark::DrainWaits);
            self.rt.sleep(QUIET_POLL).await;
        }
        self.quiesce_shards(None).await;
        Ok(())
    }

    async fn quiesce_shards(&self, slot: Option<GroupSlot>) {
        let is_ours = |s: GroupSlot| slot.is_none_or(|slot| slot == s);
        let begin = |core: &mut Core| {
            core.router.lanes_mut().shards_mut().filter(|(s, ..)| is_ours(*s)).for_each(|(_, _, shard)| shard.begin_shutdown(&self.rt));
        };
        begin(&mut self.core.borrow_mut());
        let started = self.rt.now();
        loop {
            let quiet = self.core.borrow().router.lanes().shards().filter(|(s, ..)| is_ours(*s)).all(|(_, _, shard)| shard.is_quiet());
            if quiet || self.rt.now().since(started) > CHECKPOINT_MAX {
                return; // Not quiet in time: nothing is lost, the next start replays the log.
            }
            self.rt.sleep(QUIET_POLL).await;
        }
    }

    fn snapshot(&self) -> CoreSnapshot {
        let core = self.core.borrow();
        let shards = core.router.lanes().shards();
        let shards = shards
            .filter_map(|(slot, shard, s)| Some(ShardSnapshot { group: *core.groups.get(&slot)?, shard, stats: s.stats() }))
            .collect();
        CoreSnapshot {
            core: self.rt.core(),
            reactor: self.rt.stats(),
            router: core.router.stats(),
            shards,
            target: core.target.stats(),
            sessions: core.target.sessions(),
        }
    }
}

pub(crate) fn done(answer: Answer) -> Result<(), DataPlaneError> {
    match answer {
        Answer::Done(result) => result,
        Answer::Stats(_) => unreachable!("only Stats is answered with figures"),
    }
}

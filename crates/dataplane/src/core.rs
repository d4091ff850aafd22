//! The program of one core: what it does in a turn, and what it is made from.
//!
//! Owns: the core's messages and commands from being received until they are begun.
//! Invariants: `Core` is borrowed only between two awaits; what does not fit into a ring waits, in order.
//! Never: waits for a command.

use crate::{
    command::CommandSender,
    controller::{Command, CoreController},
    core_state::Core,
    event::{self, DataPlaneEvent, EventSender},
    message::CoreMsg,
    ownership::{self, Happened},
    worker::Worker,
};
use frontend::{FrontEnd, Refused};
use rt::{App, Inbox, MeshEnd, Progress, Rt};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use store::Settings;

/// Commands taken in one turn of the loop.
const COMMANDS_MAX: usize = 16;
/// Messages taken in one turn of the loop.
const MESSAGES_MAX: usize = 1024;
/// Messages on the way between two cores.
const MESH_DEPTH: usize = 4096;

struct CoreApp<F: FrontEnd> {
    core: Rc<RefCell<Core<F>>>,
    mesh: MeshEnd<CoreMsg<F>>,
    inbox: Option<Inbox<Command<F>>>,
    events: EventSender,
    worker: Option<Worker>,
}

/// What a core is made from; see [`core_seeds`].
pub struct CoreSeed<F: FrontEnd> {
    mesh: MeshEnd<CoreMsg<F>>,
    inbox: Option<Inbox<Command<F>>>,
    shared: Arc<F::Shared>,
    settings: Settings,
    events: EventSender,
    worker: Option<Worker>,
}

/// What [`core_seeds`] makes: the door for commands, what the data plane reports, and the seeds.
pub type Seeds<F> = (CommandSender<F>, Receiver<DataPlaneEvent>, Vec<CoreSeed<F>>);

/// The seeds of all cores of a node, the door for commands, and what the data plane reports. Production starts them on threads ([`crate::DataPlaneHandle`]), tests in a simulated world.
pub fn core_seeds<F: FrontEnd>(cores: usize, settings: Settings, shared: F::Shared) -> Seeds<F> {
    let (inlet, inbox) = rt::inbox();
    let shared = Arc::new(shared);
    let (sender, events) = event::channel();
    let mut inbox = Some(inbox);
    let seeds = rt::mesh(cores, MESH_DEPTH)
        .into_iter()
        .map(|mesh| CoreSeed { mesh, inbox: inbox.take(), shared: Arc::clone(&shared), settings, events: sender.clone(), worker: None })
        .collect();
    (CommandSender::new(inlet), events, seeds)
}

impl<F: FrontEnd> CoreSeed<F> {
    /// Gives the core a thread for what would hold it up. Without one it does such work itself.
    pub(crate) fn with_worker(self, worker: &Worker) -> Self {
        Self { worker: Some(worker.clone()), ..self }
    }
    /// The program of this core.
    pub fn start(self, rt: &Rt) -> Box<dyn App> {
        let front = F::start(rt, Arc::clone(&self.shared));
        self.start_with(rt, front)
    }
    /// The program of this core, with a half of the front end that was made already.
    pub fn start_with(self, rt: &Rt, front: F) -> Box<dyn App> {
        if let Some(inbox) = &self.inbox {
            inbox.bind(rt);
        }
        let core = Core::new(rt, front, self.settings);
        Box::new(CoreApp {
            core: Rc::new(RefCell::new(core)),
            mesh: self.mesh,
            inbox: self.inbox,
            events: self.events,
            worker: self.worker,
        })
    }
}

impl<F: FrontEnd> App for CoreApp<F> {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut busy = self.take_commands(rt);
        busy |= self.take_messages(rt);
        let core = &mut *self.core.borrow_mut();
        let (front, router) = (&mut core.front, &mut core.router);
        busy |= front.poll(rt, router);
        if router.poll(rt, |request| front.may_begin(rt, request.token)) {
            busy = true;
            front.poll(rt, router);
        }
        while let Some(done) = core.router.pop_own() {
            busy = true;
            let waiting = core.own.remove(done.token as usize);
            // Nobody waits any more when the command's task was ended by a shutdown.
            let _ = waiting.send(done.result.map(|()| done.data));
        }
        if core.router.has_copies() || core.ownership.is_some() {
            busy |= self.poll_copies(rt, core);
        }
        busy |= self.report(rt, core);
        let sent = self.mesh_out(rt, core);
        self.mesh.flush_wakes(rt);
        match (core.stop && core.out.is_empty(), busy || sent) {
            (true, _) => Progress::Stop,
            (false, true) => Progress::Busy,
            (false, false) => Progress::Idle,
        }
    }
}

impl<F: FrontEnd> CoreApp<F> {
    fn controller(&self, rt: &Rt) -> CoreController<F> {
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

    /// What there is of volumes with copies on several nodes.
    #[cold]
    #[inline(never)]
    fn poll_copies(&self, rt: &Rt, core: &mut Core<F>) -> bool {
        let mut busy = core.copy_events(rt) | ownership::poll(rt, core, &self.events, || self.controller(rt));
        while let Some(ask) = core.router.pop_list_ask() {
            busy = true;
            rt.spawn(self.controller(rt).answer_list(ask));
        }
        busy
    }

    /// Hands on what the control plane is to know.
    #[inline]
    fn report(&self, rt: &Rt, core: &mut Core<F>) -> bool {
        (core.front.has_reports() || core.link_change.is_some()) && self.report_all(rt, core)
    }
    #[cold]
    #[inline(never)]
    fn report_all(&self, rt: &Rt, core: &mut Core<F>) -> bool {
        let mut reported = false;
        while let Some(request) = core.front.pop_control_request() {
            reported = true;
            let id = request.id;
            if self.events.send(DataPlaneEvent::ControlRequest(request)).is_err() {
                core.front.on_answer(rt, id, Err(Refused::Busy));
            }
        }
        while let Some(event) = core.front.pop_audit() {
            reported = true;
            if self.events.send(DataPlaneEvent::Audit(event)).is_err() {
                core.front.audit_lost();
            }
        }
        while let Some(change) = core.link_change.take().or_else(|| core.front.link_change()) {
            if self.events.send(DataPlaneEvent::Link(change)).is_err() {
                core.link_change = Some(change);
                break;
            }
        }
        while let Some((id, work)) = core.front.pop_work() {
            reported = true;
            let mine = match &self.worker {
                Some(worker) => worker.give(id, work).err(),
                None => Some((id, work)),
            };
            if let Some((id, work)) = mine {
                core.front.on_work_done(rt, id, work.run());
            }
        }
        reported
    }

    fn on_msg(&self, rt: &Rt, msg: CoreMsg<F>) {
        match msg {
            CoreMsg::Router(msg) => self.core.borrow_mut().router.on_msg(rt, msg),
            CoreMsg::Front(msg) => self.core.borrow_mut().front.on_msg(rt, msg),
            CoreMsg::Worked(id, done) => self.core.borrow_mut().front.on_work_done(rt, id, *done),
            CoreMsg::CopyEvent { core, volume, event } => self.core.borrow_mut().happens(rt, Happened::Core(core, volume, *event)),
            CoreMsg::BadBlock(at, block) => self.core.borrow_mut().bad_block(rt, at, block),
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
    fn mesh_out(&self, rt: &Rt, core: &mut Core<F>) -> bool {
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
        while let Some((to, msg)) = core.front.pop_msg() {
            moved = true;
            if let Err(msg) = self.mesh.send(rt, to, CoreMsg::Front(msg)) {
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

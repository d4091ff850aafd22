//! The examination: when everything was right, what the workload cannot judge while clients meet each other is tried alone, step by step, with
//! exact answers: edges of ranges, events, rates over seconds, silence, space that is given back, commands in the middle of which the ground moves.
//!
//! Owns: which examinations a seed has, and the host that sends the commands.
//! Invariant: comes after all else of a run and draws from a stream of its own, so nothing else of what a seed means changes; it leaves every
//! volume empty and served in full.
//! Never: runs where devices have damaged anything.

mod again;
mod bounds;
mod events;
mod examiner;
mod freed;
mod orders;
mod pace;
mod silence;
mod trouble;
mod turns;

use crate::acts::Act;
use crate::lab::Lab;
use crate::node_types::NQN;
use crate::node_types::NodeStats;
use crate::plan::Plan;
use crate::rights::host_id;
use base::Duration;
use examiner::{Examiner, ExaminerApp, plain};
use format::nvme::admin::{SetFeatures, plain_sqe};
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess};
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, Sqe, Status, StatusCode, feature};
use initiator::io::{Io, Namespace};
use initiator::queue::{Completed, Payload, Request};
use rt::sim::{HostId, Rng};
use std::cell::RefCell;
use std::rc::Rc;

/// Within this a command is answered that nothing holds back, and an event comes.
const SOON: Duration = Duration::from_secs(2);
/// One seed in so many has one.
const SHARE: u64 = 3;
/// The number of the first host of the examiner; those of the clients are below.
const HOST_FIRST: usize = 100;

/// Why an examination is over before its end.
pub enum Stop {
    /// Something is wrong.
    Wrong(String),
    /// It cannot be held here: there is no room for its data, say.
    Cannot,
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Wrong(what)
    }
}

/// What an examination comes to.
type Held = Result<(), Stop>;

/// One of the examinations.
type Examination = fn(&mut Exam<'_>) -> Held;

/// Those that were first.
const FIRST: [(&str, Examination); 7] = [
    ("edges", |e| e.edges()),
    ("events", |e| e.events()),
    ("rates", |e| e.rates()),
    ("silence", |e| e.silence()),
    ("space", |e| e.space()),
    ("ground", |e| e.ground()),
    ("orders", |e| e.orders()),
];

/// Those that came later, in a stream of their own.
const SECOND: [(&str, Examination); 7] = [
    ("outage", |e| e.outage()),
    ("flips", |e| e.flips()),
    ("left", |e| e.left()),
    ("opening", |e| e.opening()),
    ("resets", |e| e.resets()),
    ("halves", |e| e.halves()),
    ("promises", |e| e.promises()),
];

/// A controller of the examiner: the admin queue and the others.
#[derive(Clone, Debug)]
struct Port {
    admin: usize,
    io: Vec<usize>,
}

/// A volume under examination.
#[derive(Clone, Copy, Debug)]
struct Subject {
    at: usize,
    ns: Namespace,
}

/// An examination under way.
pub struct Exam<'a> {
    lab: &'a mut Lab,
    examiner: Rc<RefCell<Examiner>>,
    host: HostId,
    rng: Rng,
    hosts: usize,
    next_value: u64,
    /// What its slowest device moves in a second, in bytes.
    slowest: u64,
}

/// Holds the examinations of a seed. All volumes are empty, and clients have nothing to do.
pub fn hold(lab: &mut Lab, plan: &Plan) -> Result<(), String> {
    let mut streams = [0x00E0_A817, 0x017A_B1E5].map(|salt| Rng::new(plan.seed ^ salt));
    let wanted = streams.each_mut().map(|rng| rng.one_in(SHARE));
    if wanted == [false; 2] {
        return Ok(());
    }
    let slot: Rc<RefCell<Option<Rc<RefCell<Examiner>>>>> = Rc::default();
    let (made, addr) = (Rc::clone(&slot), lab.operator.addr());
    let host = lab.world.add_host(1, move |rt| {
        let examiner = Rc::new(RefCell::new(Examiner::new(&rt, addr)));
        *made.borrow_mut() = Some(Rc::clone(&examiner));
        Box::new(ExaminerApp(examiner))
    });
    let examiner = slot.borrow_mut().take().expect("its core was started");
    // What the clients still have is nothing to them any more.
    lab.clients_leave();
    let [rng, later] = streams;
    let slowest = plan
        .capacity
        .iter()
        .chain(&plan.spares)
        .chain([&plan.cache])
        .map(|(_, options)| options.bytes_per_s)
        .min()
        .expect("it has devices");
    let mut exam = Exam { lab, examiner, host, rng, hosts: HOST_FIRST, next_value: 1 << 40, slowest };
    if wanted[0] {
        exam.hold_one(&FIRST)?;
    }
    if wanted[1] {
        exam.rng = later;
        exam.hold_one(&SECOND)?;
    }
    exam.lab.world.kill_process(host);
    Ok(())
}

impl Exam<'_> {
    /// Draws one of these and holds it.
    fn hold_one(&mut self, of: &[(&str, Examination); 7]) -> Result<(), String> {
        let (name, examination) = of[self.rng.below(of.len() as u64) as usize];
        let result = examination(self);
        let wrong = self.examiner.borrow_mut().wrong.take();
        match (result, wrong) {
            (Err(Stop::Wrong(what)), _) | (_, Some(what)) => Err(format!("examination of {name}: {what}")),
            _ => Ok(()),
        }
    }
    fn now(&self) -> u64 {
        self.lab.now()
    }
    fn pause(&mut self, time: Duration) {
        self.lab.run(time, |_, _| false);
    }
    fn wake(&self) {
        self.lab.world.rt(self.host, 0).wake(0);
    }
    /// Sends a command.
    fn send(&mut self, link: usize, request: Request) -> Result<u64, Stop> {
        let tag = self.examiner.borrow_mut().submit(link, request);
        self.wake();
        let gone = self.examiner.borrow().gone(link).is_some();
        if gone {
            return Err(Stop::Wrong(format!("link {link} was closed")));
        }
        tag.ok_or_else(|| Stop::Wrong(format!("link {link} takes no command")))
    }
    /// Waits for an answer; `None` when none comes in that time.
    fn wait(&mut self, link: usize, tag: u64, limit: Duration) -> Option<(Completed, u64)> {
        let examiner = Rc::clone(&self.examiner);
        self.lab.run(limit, |_, _| {
            let examiner = examiner.borrow();
            examiner.has(link, tag) || examiner.gone(link).is_some()
        });
        self.examiner.borrow_mut().take(link, tag)
    }
    /// An answer that must be there already, or come soon.
    fn answer(&mut self, link: usize, tag: u64, what: &str) -> Result<(Completed, u64), Stop> {
        self.wait(link, tag, SOON).ok_or_else(|| Stop::Wrong(format!("{what} was not answered within {SOON:?}")))
    }
    /// Sends a command and waits for its answer.
    fn call(&mut self, link: usize, request: Request, what: &str) -> Result<Completed, Stop> {
        let tag = self.send(link, request)?;
        Ok(self.answer(link, tag, what)?.0)
    }
    /// The same, of an I/O.
    fn io(&mut self, link: usize, of: &Subject, io: Io) -> Result<Completed, Stop> {
        let what = Self::words(&io);
        self.call(link, io.request(&of.ns, 0), &what)
    }
    fn words(io: &Io) -> String {
        match io {
            Io::Write { offset, data, .. } => format!("Write {{ offset: {offset}, len: {} }}", data.len()),
            Io::Compare { offset, data } => format!("Compare {{ offset: {offset}, len: {} }}", data.len()),
            other => format!("{other:?}"),
        }
    }
    /// The same, which must succeed.
    fn good(&mut self, link: usize, of: &Subject, io: Io) -> Result<Completed, Stop> {
        let what = Self::words(&io);
        let done = self.io(link, of, io)?;
        match done.cqe.status {
            status if status.is_success() => Ok(done),
            status if status.code == StatusCode::CAPACITY_EXCEEDED => Err(Stop::Cannot),
            status => Err(Stop::Wrong(format!("volume {}: {what} failed with {status:?}", of.at))),
        }
    }
    /// The same, which must be refused so.
    fn refused(&mut self, link: usize, of: &Subject, io: Io, code: StatusCode) -> Held {
        let what = Self::words(&io);
        let status = self.io(link, of, io)?.cqe.status;
        self.is(status, code, &format!("volume {}: {what}", of.at))
    }
    fn is(&self, status: Status, code: StatusCode, what: &str) -> Held {
        if status.code == code {
            return Ok(());
        }
        Err(Stop::Wrong(format!("{what} was answered with {status:?}, not with {:?}", code.name())))
    }
    /// Something that must be so.
    fn must(&self, good: bool, what: impl FnOnce() -> String) -> Held {
        if good { Ok(()) } else { Err(Stop::Wrong(what())) }
    }

    /// Connects a host of its own: the admin queue and so many others. Events are wanted as `aec` says.
    fn port(&mut self, queues: u16, kato_ms: u32, aec: u32) -> Result<Port, Stop> {
        self.hosts += 1;
        let number = self.hosts;
        let admin = self.link(number, 0, CNTLID_DYNAMIC, kato_ms)?;
        let cntlid = admin.1;
        let admin = admin.0;
        let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
        self.admin(admin, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), Payload::None)?;
        let sqe = SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(queues - 1, queues - 1), nsid: 0 }.sqe(0);
        self.admin(admin, sqe, Payload::None)?;
        let sqe = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: aec, nsid: 0 }.sqe(0);
        self.admin(admin, sqe, Payload::None)?;
        let mut io = Vec::new();
        for qid in 1..=queues {
            io.push(self.link(number, qid, cntlid, 0)?.0);
        }
        Ok(Port { admin, io })
    }
    fn link(&mut self, number: usize, qid: u16, cntlid: u16, kato_ms: u32) -> Result<(usize, u16), Stop> {
        let link = self.examiner.borrow_mut().connect(8192);
        self.wake();
        let examiner = Rc::clone(&self.examiner);
        self.lab.run(SOON, |_, _| examiner.borrow().is_open(link));
        let connect = Connect { recfmt: 0, qid, sqsize: 64, cattr: 0, kato_ms };
        let host = format!("nqn.2014-08.org.nvmexpress:uuid:examiner-{number}");
        let data = ConnectData::new(*host_id(number).as_bytes(), cntlid, NQN, &host).to_bytes().to_vec();
        let done = self.admin(link, connect.sqe(0), Payload::Out(data))?;
        self.examiner.borrow_mut().in_capsule(link, if qid == 0 { 8192 } else { 4096 });
        Ok((link, done.cqe.result as u16))
    }
    /// An admin or fabrics command, which must succeed.
    fn admin(&mut self, link: usize, sqe: Sqe, payload: Payload) -> Result<Completed, Stop> {
        let what = format!("command {:#x}", sqe.opcode);
        let done = self.call(link, plain(sqe, payload), &what)?;
        let status = done.cqe.status;
        if status.is_success() { Ok(done) } else { Err(Stop::Wrong(format!("{what} failed with {status:?}"))) }
    }
    fn keep_alive(&mut self, port: &Port) -> Held {
        self.admin(port.admin, plain_sqe(AdminOpcode::KeepAlive, 0), Payload::None).map(drop)
    }

    /// Any volume, as it is served now.
    fn subject(&mut self) -> Subject {
        let live = self.lab.workload.borrow().all_live();
        let at = live[self.rng.below(live.len() as u64) as usize];
        self.subject_at(at)
    }
    fn subject_at(&self, at: usize) -> Subject {
        let workload = self.lab.workload.borrow();
        let (ns, state) = (workload.volumes[at].namespace, workload.state_of(at));
        Subject { at, ns: Namespace { blocks: state.blocks, nsid: state.nsid.unwrap_or(ns.nsid), ..ns } }
    }
    /// The operator does something to a volume, and is done.
    fn act(&mut self, make: impl FnOnce(u64) -> Act, of: usize) -> Held {
        let number = self.lab.workload.borrow().all_live().iter().position(|at| *at == of).expect("it is there") as u64;
        self.lab.operator.act(make(number));
        self.settle()
    }
    /// The operator has done what was asked.
    fn settle(&mut self) -> Held {
        if self.lab.run(Duration::from_secs(20), |operator, _| operator.is_idle() || operator.refused().is_some())
            && self.lab.operator.refused().is_none()
        {
            return Ok(());
        }
        Err(Stop::Wrong(format!("an act of the operator came to no end: {:?}", self.lab.operator.refused())))
    }
    fn limit(&mut self, of: usize, iops_max: Option<u64>, bytes_per_s_max: Option<u64>) -> Held {
        self.act(|volume| Act::Limit { volume, iops_max, bytes_per_s_max }, of)
    }

    fn value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }
    fn stats(&mut self) -> Result<NodeStats, Stop> {
        let stats = self.lab.command(|o| o.stats()).ok_or_else(|| "there is no host".to_owned())?;
        stats.map_err(|e| Stop::Wrong(format!("no figures: {e}")))
    }
    /// Waits until the figures say that something is so.
    fn until(&mut self, what: &str, good: impl Fn(&NodeStats) -> bool) -> Held {
        for _ in 0..100 {
            if good(&self.stats()?) {
                return Ok(());
            }
            self.pause(Duration::from_millis(50));
        }
        let stats = self.stats()?;
        let shards = stats.cores.iter().flat_map(|c| &c.shards).map(|s| &s.stats);
        let shards: Vec<_> = shards.map(|s| (s.chunks_allocated, s.log_live_bytes, s.log_used_bytes, &s.component_chunks)).collect();
        Err(Stop::Wrong(format!("{what}; by shard, chunks, live and used bytes of the log, chunks of components: {shards:?}")))
    }
    /// Takes away all that a volume holds.
    fn empty(&mut self, link: usize, of: &Subject) -> Held {
        self.good(link, of, Io::Deallocate(vec![(0, of.ns.bytes())])).map(drop)
    }
}

/// The bytes of blocks with these values.
fn bytes_of(lba_bytes: u32, values: &[u64]) -> Vec<u8> {
    let mut data = vec![0; values.len() * lba_bytes as usize];
    for (block, value) in data.chunks_exact_mut(lba_bytes as usize).zip(values) {
        crate::content::fill(block, *value);
    }
    data
}

//! A client host: an initiator on a simulated core, which connects, plays its part of the workload, and connects again.
//!
//! ```text
//! Down ──timer──► Opening(link 0) ──► Opening(link 1) ──► ... ──► Serving ──any fault──► Down
//! ```
//!
//! Owns: connections and their clocks; what is said on them is the protocol's ([`Speaks`]): `nvme` or `iscsi`.
//! Invariants: what is in flight on a connection that is closed is given up at once; an event of an earlier attempt is dropped.
//! Never: decides what is right (the workload does).

mod iscsi;
mod nvme;
mod scsi;

use crate::plan::ClientPlan;
use crate::rights::host_id;
use crate::workload::Workload;
use base::{Duration, HostId, Instant};
use rt::sim::World;
use rt::{App, Buf, ConnId, Event, Progress, Queue, Rt, SendList, TimerId};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// How often a client looks at its clocks.
const TICK: Duration = Duration::from_millis(100);
/// A command without an answer for so long is given up with its connections.
const TIMEOUT_NS: u64 = 30_000_000_000;
/// An attempt to connect that takes longer is given up.
const OPENING_MAX_NS: u64 = 8_000_000_000;
/// Bytes of a receive buffer.
const RECEIVE_BYTES: usize = 64 << 10;
/// Most bytes of one send.
const SEND_BYTES: usize = 256 << 10;

/// Tags of commands that are not the workload's.
const OWN: u64 = 1 << 63;
const COOKIE_TICK: u64 = 0xFF;

/// Where the host is that clients connect to, and what it serves there.
#[derive(Clone, Debug)]
pub struct Served {
    /// Over NVMe/TCP.
    pub nvme: (SocketAddr, String),
    /// Over iSCSI.
    pub iscsi: (SocketAddr, String),
}

/// Whom the reservations of a client belong to.
pub fn host_of(id: usize, plan: &ClientPlan) -> HostId {
    if plan.iscsi { iscsi::host_id(id) } else { host_id(id) }
}

/// A client that its core and the world have.
pub type Shared = Rc<RefCell<dyn Client>>;

/// What a client does, whatever it speaks.
pub trait Client {
    /// Does what there is to do now.
    fn turn(&mut self);
    /// Whether nothing of the workload's is in flight.
    fn is_quiet(&self) -> bool;
    /// Whether it can send commands.
    fn is_serving(&self) -> bool;
    /// Closes everything, gives up what is in flight, and comes back later.
    fn drop_links(&mut self);
    /// Closes everything, and stays away.
    fn leave(&mut self);
}

/// A host with a client on it.
pub fn add(world: &mut World, id: usize, plan: ClientPlan, served: Served, workload: &Rc<RefCell<Workload>>) -> (rt::sim::HostId, Shared) {
    let slot: Rc<RefCell<Option<Shared>>> = Rc::default();
    let (made, workload) = (Rc::clone(&slot), Rc::clone(workload));
    let host = world.add_host(1, move |rt| {
        let client = start(id, &rt, plan.clone(), &served, Rc::clone(&workload));
        *made.borrow_mut() = Some(Rc::clone(&client));
        Box::new(ClientApp(client))
    });
    let client = slot.borrow_mut().take().expect("its core was started");
    (host, client)
}

/// A client that connects at once.
fn start(id: usize, rt: &Rt, plan: ClientPlan, served: &Served, workload: Rc<RefCell<Workload>>) -> Shared {
    let (iscsi, links) = (plan.iscsi, usize::from(plan.queues));
    if iscsi {
        let host = iscsi::Host::new(id, plan, served.iscsi.1.clone(), Rc::clone(&workload));
        Rc::new(RefCell::new(Connected::new(id, rt, host, links, served.iscsi.0, workload)))
    } else {
        let host = nvme::Host::new(id, plan, served.nvme.1.clone(), Rc::clone(&workload));
        // The first link is the admin queue.
        Rc::new(RefCell::new(Connected::new(id, rt, host, 1 + links, served.nvme.0, workload)))
    }
}

/// The program of a client host.
struct ClientApp(Shared);

impl App for ClientApp {
    fn poll(&mut self, _rt: &Rt) -> Progress {
        self.0.borrow_mut().turn();
        Progress::Idle
    }
}

/// The machine of one connection, as `initiator` has it.
trait Wire {
    fn outgoing(&self) -> &[u8];
    fn sent(&mut self, n: usize);
    fn receive(&mut self, bytes: &[u8]) -> Result<(), String>;
    /// Commands of the workload that are in flight.
    fn ops_in_flight(&self) -> Vec<u64>;
}

/// What a link is to do after its answers were taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// Goes on.
    Stay,
    /// It is open: the next one may be opened, or all are.
    Opened,
    /// All are closed.
    Drop,
}

/// What a client says on its connections.
trait Speaks {
    type Wire: Wire;
    /// The machine for a new link.
    fn wire(&mut self, at: usize) -> Self::Wire;
    /// Takes the answers of a link.
    fn answers(&mut self, links: &mut [Link<Self::Wire>], at: usize, now: u64) -> Next;
    /// Some time has passed while all links are open.
    fn tick(&mut self, links: &mut [Link<Self::Wire>], now: u64);
    /// Sends what the workload has.
    fn play(&mut self, links: &mut [Link<Self::Wire>], now: u64);
    /// All links are gone.
    fn forget(&mut self);
}

struct Link<W> {
    conn: Option<ConnId>,
    wire: W,
    /// Bytes that are being sent.
    sending: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Down { until: u64 },
    Opening { since: u64 },
    Serving,
}

/// See the module.
struct Connected<S: Speaks> {
    id: usize,
    rt: Rt,
    queue: Queue,
    speaks: S,
    /// How many links it has when it serves.
    wanted: usize,
    addr: SocketAddr,
    workload: Rc<RefCell<Workload>>,
    links: Vec<Link<S::Wire>>,
    attempt: u64,
    phase: Phase,
    timer: Option<TimerId>,
}

impl<S: Speaks> Client for Connected<S> {
    fn turn(&mut self) {
        while let Some(done) = self.queue.pop() {
            let (attempt, at) = (done.cookie >> 8, (done.cookie & 0xFF) as usize);
            if done.cookie == COOKIE_TICK {
                self.on_tick();
                continue;
            }
            if attempt != self.attempt || at >= self.links.len() {
                // A connection of an earlier attempt: one that came to be late is not wanted any more.
                if let Event::Connected { result: Ok(conn) } = done.event {
                    self.rt.close(conn);
                }
                continue;
            }
            match done.event {
                Event::Connected { result: Ok(conn) } => {
                    self.links[at].conn = Some(conn);
                    self.rt.recv(&self.queue, done.cookie, conn, Buf::alloc(RECEIVE_BYTES));
                }
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    if let Err(error) = self.links[at].wire.receive(&buf[..n]) {
                        let text = format!("client {}, link {at}: {error}", self.id);
                        self.workload.borrow_mut().fail(text, None);
                        return;
                    }
                    self.rt.recv(&self.queue, done.cookie, conn, buf);
                    match self.speaks.answers(&mut self.links, at, self.rt.now().0) {
                        Next::Stay => {}
                        Next::Opened => self.opened(),
                        Next::Drop => self.drop_links(),
                    }
                }
                Event::Sent { result: Ok(()), .. } => {
                    self.links[at].sending = 0;
                }
                event => {
                    if self.phase == Phase::Serving {
                        self.workload.borrow_mut().lost_service(self.id, &format!("{event:?}"));
                    }
                    self.drop_links();
                }
            }
        }
        if self.phase == Phase::Serving {
            self.speaks.play(&mut self.links, self.rt.now().0);
        }
        self.flush();
    }

    fn is_quiet(&self) -> bool {
        self.links.iter().all(|l| l.wire.ops_in_flight().is_empty())
    }
    fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    fn drop_links(&mut self) {
        let now = self.rt.now().0;
        let links = core::mem::take(&mut self.links);
        let mut workload = self.workload.borrow_mut();
        for link in &links {
            workload.given_up(link.wire.ops_in_flight().into_iter(), now);
            if let Some(conn) = link.conn {
                self.rt.close(conn);
            }
        }
        self.speaks.forget();
        self.attempt += 1;
        let until = now + 100_000 + workload.below(4_000_000);
        drop(workload);
        self.phase = Phase::Down { until };
        self.tick();
    }

    fn leave(&mut self) {
        self.drop_links();
        self.phase = Phase::Down { until: u64::MAX };
    }
}

impl<S: Speaks> Connected<S> {
    fn new(id: usize, rt: &Rt, speaks: S, wanted: usize, addr: SocketAddr, workload: Rc<RefCell<Workload>>) -> Self {
        let (rt, queue) = (rt.clone(), rt.queue());
        let (links, phase) = (Vec::new(), Phase::Down { until: 0 });
        let mut client = Connected { id, rt, queue, speaks, wanted, addr, workload, links, attempt: 0, phase, timer: None };
        client.tick();
        client
    }

    /// Sets the one timer anew.
    fn tick(&mut self) {
        let now = self.rt.now();
        let pause = match self.phase {
            Phase::Down { until } => Duration::from_nanos(until.saturating_sub(now.0).clamp(1000, TICK.as_nanos() as u64)),
            _ => TICK,
        };
        let next = self.rt.timer(&self.queue, COOKIE_TICK, Instant(now.0) + pause);
        if let Some(old) = self.timer.replace(next) {
            self.rt.cancel_timer(old);
        }
    }

    fn on_tick(&mut self) {
        let now = self.rt.now().0;
        self.timer = None;
        match self.phase {
            Phase::Down { until } if until <= now => {
                self.phase = Phase::Opening { since: now };
                self.open_link();
            }
            Phase::Opening { since } if since + OPENING_MAX_NS < now => self.drop_links(),
            Phase::Serving => {
                let oldest = self.workload.borrow().oldest_of(self.id);
                if oldest.is_some_and(|sent| sent + TIMEOUT_NS < now) {
                    self.workload.borrow_mut().lost_service(self.id, "a command is not answered");
                    self.drop_links();
                } else {
                    self.speaks.tick(&mut self.links, now);
                }
            }
            _ => {}
        }
        self.tick();
    }

    fn open_link(&mut self) {
        let at = self.links.len();
        self.links.push(Link { conn: None, wire: self.speaks.wire(at), sending: 0 });
        self.rt.connect(&self.queue, self.attempt << 8 | at as u64, self.addr);
    }

    /// The newest link is open.
    fn opened(&mut self) {
        if self.links.len() < self.wanted {
            return self.open_link();
        }
        self.phase = Phase::Serving;
        let workload = &mut *self.workload.borrow_mut();
        workload.counts.connects += 1;
        workload.session_began(self.id);
    }

    /// Sends what is to be sent.
    fn flush(&mut self) {
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            let (Some(conn), true) = (link.conn, link.sending == 0 && !link.wire.outgoing().is_empty()) else { continue };
            let n = link.wire.outgoing().len().min(SEND_BYTES);
            let mut list = SendList::new();
            list.push_data(Buf::copy_of(&link.wire.outgoing()[..n]), 0..n);
            link.wire.sent(n);
            link.sending = n;
            self.rt.send(&self.queue, self.attempt << 8 | at as u64, conn, list);
        }
    }
}

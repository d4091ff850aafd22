//! A controller: admin queue, enable, identify, features, events, keep-alive; and the I/O queues that belong to it.
//!
//! ```text
//! connect: socket ─ ICReq ─ Connect(0) ─ CAP ─ CC.EN ─ CSTS.RDY ─ Identify ─ Set Features ─ AERs ─► live
//! live ──shutdown()──► CC.SHN ─ CSTS.SHST ─► gone          live ──any error──► failed (make a new one: [`reconnect`])
//! ```
//!
//! Invariants: one thread for each controller sends keep-alives at a third of the timeout and keeps events coming; the admin
//! queue is behind a lock, held for one command at a time.
//! Never: retries by itself ([`reconnect`] does, up to its deadline), except a queue number that the controller has not let go yet.

use crate::authenticate::authenticate;
use crate::connection::Connection;
use crate::error::{Error, NamespaceFault, Unsupported};
use crate::io::{IoQueue, Namespace};
use crate::queue::{ADMIN_CAPSULE_BYTES, Completed, Payload, QueueOptions, Request};
use crate::secured::TlsOptions;
use format::nvme::admin::{GetLogPage, Identify, SetFeatures, plain_sqe};
use format::nvme::fabrics::{AUTHREQ_ASCR, AUTHREQ_ATR, CNTLID_DYNAMIC, CONNECT_DATA_BYTES, Connect, ConnectData, PropertyAccess};
use format::nvme::identify::{self, IdentifyController, IdentifyNamespace, NamespaceDescriptor};
use format::nvme::log::AsyncEvent;
use format::nvme::property::{self, Capabilities, Config, ControllerStatus};
use format::nvme::{AdminOpcode, Cqe, IDENTIFY_BYTES, NSID_ALL, Sqe, StatusCode, feature};
use format::nvme_tcp::Digests;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Entries of the admin queue.
const ADMIN_DEPTH: u16 = 32;
/// Asynchronous Event Requests kept outstanding.
const EVENT_REQUESTS: u64 = 2;
/// How often the keep-alive thread looks for events, at least.
const EVENT_POLL: Duration = Duration::from_millis(200);
/// Events kept for [`Controller::events`]; the oldest go first.
const EVENTS_MAX: usize = 256;
/// How soon to ask again for a queue number that is still in use.
const QUEUE_GONE_POLL: Duration = Duration::from_millis(20);
/// Most bytes of one Get Log Page.
const LOG_BYTES_MAX: usize = 64 << 10;
/// Namespaces listed at most.
const NAMESPACES_MAX: usize = 65_536;

/// Who we say we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// Host NQN.
    pub nqn: String,
    /// Host identifier, not zero.
    pub id: [u8; 16],
}

impl HostIdentity {
    /// A host made from a number, the same each time.
    pub fn numbered(n: u64) -> Self {
        let mut rng = crate::rng::Rng::new(n ^ 0xBA5A_17C1_1E47);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
        id[8..].copy_from_slice(&rng.next_u64().to_le_bytes());
        let uuid = uuid::Builder::from_random_bytes(id).into_uuid();
        Self { nqn: format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}"), id: *uuid.as_bytes() }
    }
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Where the subsystem's port is.
    pub addr: SocketAddr,
    /// Which subsystem.
    pub subnqn: String,
    /// Who we are.
    pub host: HostIdentity,
    /// Digests to ask for, on all queues.
    pub digests: Digests,
    /// Keep Alive Timeout; zero for none.
    pub kato: Duration,
    /// Bound on connecting a queue.
    pub connect_timeout: Duration,
    /// Bound on an admin command.
    pub command_timeout: Duration,
    /// What we authenticate with when the controller asks for it.
    pub credentials: Option<auth::Credentials>,
    /// `Some(0)`: all writes by R2T; `None`: as much in the capsule as the controller takes.
    pub in_capsule_bytes: Option<u32>,
    /// Over TLS, on all queues.
    pub tls: Option<TlsOptions>,
}

impl ControllerOptions {
    /// Ordinary settings.
    pub fn new(addr: SocketAddr, subnqn: &str) -> Self {
        Self {
            addr,
            subnqn: subnqn.to_owned(),
            host: HostIdentity::numbered(1),
            digests: Digests::default(),
            kato: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            command_timeout: Duration::from_secs(10),
            credentials: None,
            in_capsule_bytes: None,
            tls: None,
        }
    }
    fn tls_engine(&self) -> Result<Option<tls::Engine>, Error> {
        self.tls.as_ref().map(|t| t.engine(&self.host.nqn, &self.subnqn)).transpose()
    }
}

struct Admin {
    connection: Connection,
    next_tag: u64,
    failed: bool,
    events: Vec<AsyncEvent>,
    last_keep_alive: Instant,
}

/// Commands of ours that nobody waits for.
const TAG_EVENT: u64 = 1 << 63;

/// See the module. Dropping it ends the keep-alives and closes the connection without a shutdown.
pub struct Controller {
    options: ControllerOptions,
    admin: Arc<Mutex<Admin>>,
    stop: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
    cntlid: u16,
    capabilities: Capabilities,
    identify: Box<IdentifyController>,
}

fn lock(admin: &Mutex<Admin>) -> MutexGuard<'_, Admin> {
    admin.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admin {
    fn call(&mut self, sqe: Sqe, payload: Payload, timeout: Duration, what: &'static str) -> Result<Completed, Error> {
        self.next_tag += 1;
        let tag = self.next_tag;
        let done = self.connection.call(Request { sqe, payload, tag }, timeout, what).inspect_err(|_| self.failed = true)?;
        self.take_events()?;
        if done.cqe.status.is_success() { Ok(done) } else { Err(Error::Status { what, status: done.cqe.status }) }
    }

    /// Takes completed event requests and sends new ones.
    fn take_events(&mut self) -> Result<(), Error> {
        while let Some(done) = self.connection.pop() {
            if done.tag & TAG_EVENT == 0 {
                continue;
            }
            if done.cqe.status.is_success() {
                if self.events.len() == EVENTS_MAX {
                    self.events.remove(0);
                }
                self.events.push(AsyncEvent::parse(done.cqe.result as u32));
                self.ask_for_event(done.tag)?;
            }
        }
        Ok(())
    }

    fn ask_for_event(&mut self, tag: u64) -> Result<(), Error> {
        let sqe = plain_sqe(AdminOpcode::AsyncEventRequest, 0);
        self.connection.submit(Request { sqe, payload: Payload::None, tag }).map(drop)
    }

    fn keep(&mut self, kato: Duration, timeout: Duration) -> Result<(), Error> {
        if !kato.is_zero() && self.last_keep_alive.elapsed() >= kato / 3 {
            self.call(plain_sqe(AdminOpcode::KeepAlive, 0), Payload::None, timeout, "Keep Alive")?;
            self.last_keep_alive = Instant::now();
        }
        self.connection.drive()?;
        self.take_events()
    }
}

impl Controller {
    /// Connects an I/O controller and brings it to where I/O queues may be opened.
    pub fn connect(options: ControllerOptions) -> Result<Self, Error> {
        let mut controller = Self::connect_admin(options)?;
        controller.start_events(feature::AEC_NAMESPACE | feature::AEC_ANA | feature::AEC_HEALTH)?;
        controller.start_keeper();
        Ok(controller)
    }

    /// Connects, enables and identifies; no events, no keep-alive thread.
    pub(crate) fn connect_admin(options: ControllerOptions) -> Result<Self, Error> {
        let queue = QueueOptions {
            depth: ADMIN_DEPTH - 1,
            digests: options.digests,
            in_capsule_bytes: ADMIN_CAPSULE_BYTES,
            ..QueueOptions::default()
        };
        let mut connection = Connection::open(options.addr, queue, options.tls_engine()?, options.connect_timeout)?;
        let cqe = fabrics_connect(&mut connection, &options, 0, ADMIN_DEPTH - 1, CNTLID_DYNAMIC)?;
        let admin = Admin { connection, next_tag: 0, failed: false, events: Vec::new(), last_keep_alive: Instant::now() };
        let mut controller = Self {
            cntlid: cqe.result as u16,
            options,
            admin: Arc::new(Mutex::new(admin)),
            stop: Arc::default(),
            keeper: None,
            capabilities: Capabilities::default(),
            identify: Box::default(),
        };
        controller.enable()?;
        let bytes = controller.identify_bytes(identify::CNS_CONTROLLER, 0)?;
        *controller.identify = IdentifyController::parse(&bytes).ok_or(Error::Unsupported(Unsupported::IdentifyController))?;
        Ok(controller)
    }

    fn enable(&mut self) -> Result<(), Error> {
        self.capabilities = Capabilities::parse(self.property(property::CAP, true)?);
        let config = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() };
        self.set_property(property::CC, config.bits().into())?;
        let limit = Duration::from_millis(500) * u32::from(self.capabilities.to).max(1) + Duration::from_secs(1);
        self.wait_status(limit, "controller ready", |s| s.rdy)
    }

    fn wait_status(&self, limit: Duration, what: &'static str, good: impl Fn(ControllerStatus) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        loop {
            let status = ControllerStatus::parse(self.property(property::CSTS, false)? as u32);
            if good(status) {
                return Ok(());
            }
            if status.cfs {
                return Err(Error::ControllerFatal);
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout(what));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn start_events(&mut self, wanted: u32) -> Result<(), Error> {
        let offered = self.identify.oaes | feature::AEC_HEALTH;
        self.set_feature(feature::FID_ASYNC_EVENTS, wanted & offered)?;
        let mut admin = lock(&self.admin);
        let requests = EVENT_REQUESTS.min(u64::from(self.identify.aerl) + 1);
        (0..requests).try_for_each(|n| admin.ask_for_event(TAG_EVENT | n))?;
        admin.connection.drive()?;
        Ok(())
    }

    fn start_keeper(&mut self) {
        let (admin, stop) = (self.admin.clone(), self.stop.clone());
        let (kato, timeout) = (self.options.kato, self.options.command_timeout);
        let pause = if kato.is_zero() { EVENT_POLL } else { EVENT_POLL.min(kato / 6) };
        self.keeper = Some(thread::spawn(move || {
            while !stop.load(Ordering::Acquire) {
                thread::park_timeout(pause);
                let mut admin = lock(&admin);
                if admin.failed || admin.keep(kato, timeout).is_err() {
                    admin.failed = true;
                    return;
                }
            }
        }));
    }

    /// How it was connected.
    pub fn options(&self) -> &ControllerOptions {
        &self.options
    }
    /// Its controller ID.
    pub fn cntlid(&self) -> u16 {
        self.cntlid
    }
    /// Its capabilities.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    /// Its Identify Controller data.
    pub fn identify(&self) -> &IdentifyController {
        &self.identify
    }
    /// Whether the admin connection was found dead.
    pub fn failed(&self) -> bool {
        lock(&self.admin).failed
    }
    /// The events since the last call, oldest first.
    pub fn events(&self) -> Vec<AsyncEvent> {
        std::mem::take(&mut lock(&self.admin).events)
    }
    /// Waits for an event.
    pub fn wait_event(&self, timeout: Duration) -> Result<AsyncEvent, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut admin = lock(&self.admin);
            admin.connection.wait(Duration::from_millis(2))?;
            admin.take_events()?;
            if !admin.events.is_empty() {
                return Ok(admin.events.remove(0));
            }
            drop(admin);
            if Instant::now() >= deadline {
                return Err(Error::Timeout("asynchronous event"));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Any admin command. An unsuccessful status is an error that names `what`.
    pub fn admin(&self, sqe: Sqe, payload: Payload, what: &'static str) -> Result<Completed, Error> {
        lock(&self.admin).call(sqe, payload, self.options.command_timeout, what)
    }
    /// Asks to abort a command of a queue: whether that ends, or has ended, aborted. Its own answer comes on its queue.
    pub fn abort(&self, sqid: u16, cid: u16) -> Result<bool, Error> {
        let sqe = Sqe { cdw10: u32::from(sqid) | u32::from(cid) << 16, ..plain_sqe(AdminOpcode::Abort, 0) };
        Ok(self.admin(sqe, Payload::None, "Abort")?.cqe.result & 1 == 0)
    }
    /// Authenticates the admin queue again while it is in use, with what is given from now on also for new queues.
    pub fn authenticate_again(&mut self, credentials: auth::Credentials) -> Result<(), Error> {
        let (host, subsystem) = (self.options.host.nqn.clone(), self.options.subnqn.clone());
        authenticate(&credentials, &host, &subsystem, |sqe, payload, what| self.admin(sqe, payload, what))?;
        self.options.credentials = Some(credentials);
        Ok(())
    }
    /// Property Get.
    pub fn property(&self, offset: u32, eight_bytes: bool) -> Result<u64, Error> {
        let done = self.admin(PropertyAccess::get_sqe(0, offset, eight_bytes), Payload::None, "Property Get")?;
        Ok(done.cqe.result)
    }
    /// Property Set of 4 bytes.
    pub fn set_property(&self, offset: u32, value: u64) -> Result<(), Error> {
        self.admin(PropertyAccess::set_sqe(0, offset, false, value), Payload::None, "Property Set").map(drop)
    }
    /// Set Features with a value of one dword. Gives dword 0 of the completion.
    pub fn set_feature(&self, fid: u8, value: u32) -> Result<u32, Error> {
        let sqe = SetFeatures { fid, save: false, cdw11: value, nsid: 0 }.sqe(0);
        Ok(self.admin(sqe, Payload::None, "Set Features")?.cqe.result as u32)
    }
    /// The 4096 bytes of an Identify.
    pub fn identify_bytes(&self, cns: u8, nsid: u32) -> Result<Vec<u8>, Error> {
        let sqe = Identify { cns, cntid: 0, nsid, csi: 0, cnssid: 0 }.sqe(0);
        Ok(self.admin(sqe, Payload::In(vec![0; IDENTIFY_BYTES]), "Identify")?.payload.into_bytes())
    }
    /// `len` bytes (a multiple of 4) of a log, from `offset`.
    pub fn log(&self, lid: u8, nsid: u32, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut log = Vec::with_capacity(len);
        while log.len() < len {
            let part = (len - log.len()).min(LOG_BYTES_MAX);
            let at = offset + log.len() as u64;
            let page = GetLogPage { lid, lsp: 0, rae: false, lsi: 0, numd: (part / 4 - 1) as u32, offset: at, index: false, csi: 0, nsid };
            log.extend(self.admin(page.sqe(0), Payload::In(vec![0; part]), "Get Log Page")?.payload.into_bytes());
        }
        Ok(log)
    }
    /// A log of the whole controller.
    pub fn controller_log(&self, lid: u8, len: usize) -> Result<Vec<u8>, Error> {
        self.log(lid, NSID_ALL, 0, len)
    }

    /// The active namespaces.
    pub fn namespaces(&self) -> Result<Vec<u32>, Error> {
        let mut all = Vec::new();
        loop {
            let after = all.last().copied().unwrap_or(0);
            let some = identify::parse_namespace_list(&self.identify_bytes(identify::CNS_ACTIVE_NAMESPACES, after)?);
            let last = some.len() < identify::NAMESPACE_LIST_MAX || all.len() > NAMESPACES_MAX;
            all.extend(some);
            if last {
                return Ok(all);
            }
        }
    }
    /// What Identify Namespace says of one.
    pub fn identify_namespace(&self, nsid: u32) -> Result<Box<IdentifyNamespace>, Error> {
        let bytes = self.identify_bytes(identify::CNS_NAMESPACE, nsid)?;
        IdentifyNamespace::parse(&bytes).map(Box::new).ok_or(Error::Unsupported(Unsupported::IdentifyNamespace))
    }
    /// Its identifiers.
    pub fn descriptors(&self, nsid: u32) -> Result<Vec<NamespaceDescriptor>, Error> {
        Ok(identify::parse_descriptors(&self.identify_bytes(identify::CNS_NAMESPACE_DESCRIPTORS, nsid)?))
    }
    /// A namespace as I/O needs to know it.
    pub fn namespace(&self, nsid: u32) -> Result<Namespace, Error> {
        let id = self.identify_namespace(nsid)?;
        // What is said of one that is not active is all zeroes, its format too.
        if id.nsze == 0 {
            return Err(Error::Namespace { nsid, why: NamespaceFault::Inactive });
        }
        let lba_bytes = id.lba_bytes().ok_or(Error::Namespace { nsid, why: NamespaceFault::BlockSize })?;
        Ok(Namespace {
            nsid,
            lba_bytes,
            blocks: id.nsze,
            transfer_bytes_max: self.transfer_bytes_max(),
            zeroes_after_trim: id.dlfeat & 7 == 1,
            zeroes_may_deallocate: id.dlfeat & 8 != 0,
        })
    }
    /// Most bytes of one command (MDTS), at most 1 MiB.
    pub fn transfer_bytes_max(&self) -> u32 {
        match self.identify.mdts {
            0 => 1 << 20,
            n => (4096u64 << self.capabilities.mpsmin << n.min(16)).min(1 << 20) as u32,
        }
    }

    /// Asks for `wanted` I/O queues; gives how many there may be.
    pub fn set_queues(&self, wanted: u16) -> Result<u16, Error> {
        let n = wanted.max(1) - 1;
        let granted = self.set_feature(feature::FID_QUEUES, feature::queues(n, n))?;
        Ok((granted as u16).min((granted >> 16) as u16).saturating_add(1).min(wanted))
    }

    /// Opens I/O queue `qid` (from 1) for `depth` commands in flight.
    pub fn open_queue(&self, qid: u16, depth: u16, namespace: Namespace) -> Result<IoQueue, Error> {
        let entries = depth.saturating_add(1).min(self.capabilities.mqes.saturating_add(1)).max(2);
        let capsule = (self.identify.ioccsz * 16).saturating_sub(64);
        let queue = QueueOptions {
            depth: entries - 1,
            digests: self.options.digests,
            in_capsule_bytes: self.options.in_capsule_bytes.map_or(capsule, |limit| limit.min(capsule)),
            ..QueueOptions::default()
        };
        // Connect's own data goes in the capsule whatever the limit for writes is.
        let opening = QueueOptions { in_capsule_bytes: CONNECT_DATA_BYTES as u32, ..queue };
        let started = Instant::now();
        let mut connection = loop {
            let mut connection = Connection::open(self.options.addr, opening, self.options.tls_engine()?, self.options.connect_timeout)?;
            match fabrics_connect(&mut connection, &self.options, qid, entries - 1, self.cntlid) {
                // A queue of this number that was just closed may not be gone yet on the controller's side.
                Err(Error::Status { status, .. })
                    if status.code == StatusCode::COMMAND_SEQUENCE_ERROR
                        && !status.dnr
                        && started.elapsed() < self.options.connect_timeout =>
                {
                    thread::sleep(QUEUE_GONE_POLL);
                }
                other => {
                    other?;
                    break connection;
                }
            }
        };
        connection.queue_mut().set_in_capsule_bytes(queue.in_capsule_bytes);
        let disconnects = self.identify.ofcs & 1 != 0;
        Ok(IoQueue::new(connection, namespace, disconnects))
    }

    /// A normal shutdown: the controller says when it is done.
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.end_keeper();
        let config = Config { en: true, shn: 1, iosqes: 6, iocqes: 4, ..Config::default() };
        self.set_property(property::CC, config.bits().into())?;
        self.wait_status(self.options.command_timeout, "controller shutdown", |s| s.shst == 2)
    }

    fn end_keeper(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            // It ends at its next look at `stop`; a panic of it has nothing to tell us here.
            let _ = keeper.join();
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.end_keeper();
    }
}

/// Connects a queue to its controller.
fn fabrics_connect(connection: &mut Connection, options: &ControllerOptions, qid: u16, sqsize: u16, cntlid: u16) -> Result<Cqe, Error> {
    let kato_ms = if qid == 0 { options.kato.as_millis().try_into().unwrap_or(u32::MAX) } else { 0 };
    let sqe = Connect { recfmt: 0, qid, sqsize, cattr: 0, kato_ms }.sqe(0);
    let data = ConnectData::new(options.host.id, cntlid, &options.subnqn, &options.host.nqn).to_bytes().to_vec();
    let done = connection.call(Request { sqe, payload: Payload::Out(data), tag: 0 }, options.connect_timeout, "Connect")?;
    let status = done.cqe.status;
    if !status.is_success() {
        return Err(Error::Status { what: "Connect", status });
    }
    let authreq = (done.cqe.result >> 16) as u16;
    if authreq & AUTHREQ_ASCR != 0 {
        return Err(Error::Unsupported(Unsupported::Concatenation));
    }
    if authreq & AUTHREQ_ATR != 0 {
        let credentials = options.credentials.as_ref();
        let credentials = credentials.ok_or(Error::Unsupported(Unsupported::NoSecret))?;
        authenticate(credentials, &options.host.nqn, &options.subnqn, |sqe, payload, what| {
            let done = connection.call(Request { sqe, payload, tag: 0 }, options.command_timeout, what)?;
            if done.cqe.status.is_success() { Ok(done) } else { Err(Error::Status { what, status: done.cqe.status }) }
        })?;
    }
    Ok(done.cqe)
}

/// How to try again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// First pause; doubled each time.
    pub first: Duration,
    /// Longest pause.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(10), max: Duration::from_millis(500) }
    }
}

/// Does `attempt` until it goes well, fails for good, or `deadline` has passed; the last error is given back.
pub fn reconnect<T>(deadline: Instant, backoff: Backoff, mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut pause = backoff.first;
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(e) if !e.is_transient() || Instant::now() + pause >= deadline => return Err(e),
            Err(_) => thread::sleep(pause),
        }
        pause = (pause * 2).min(backoff.max);
    }
}

//! What the cores' front ends share: a few atomics, the list of listeners, who has which static controller, quotas.
//!
//! Invariants: nothing here is waited for on the path of an I/O (the locks guard what Connect commands and discovery look at).
//! Dynamic controller IDs of core `c` of `n` are congruent to `c` modulo `n`, so a core finds a controller's home without asking.

use crate::discovery::{Port, port_id};
use crate::generation::Generations;
use crate::health::{ErrorLog, SubsystemFigures};
use crate::options::Options;
use crate::published_logs::PublishedLogs;
use crate::statics::Statics;
use crate::view::{ListenerKind, ListenerSpec};
use base::Instant;
use format::nvme::StatusCode;
use frontend::Quotas;
use rt::MESH_CORES_MAX;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Shared by the [`crate::Target`]s of all cores.
pub struct TargetShared {
    options: Options,
    quotas: Arc<Quotas>,
    statics: Statics,
    generations: Generations,
    published_logs: PublishedLogs,
    listeners: Mutex<Vec<(ListenerSpec, SocketAddr)>>,
    listeners_generation: AtomicU64,
    tls: OnceLock<Option<Arc<tls::Context>>>,
    /// I/O queues and unknown connections of each core, and all connections.
    load: [(AtomicI32, AtomicI32); MESH_CORES_MAX],
    /// The controllers of all cores, by ID; admin commands and the start and end of controllers look here.
    controllers: Mutex<BTreeMap<u16, Arc<ControllerShared>>>,
    /// By subsystem NQN.
    figures: Mutex<BTreeMap<String, Arc<SubsystemFigures>>>,
    started: OnceLock<Instant>,
}

impl Default for TargetShared {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl TargetShared {
    /// For a front end with these settings.
    pub fn new(options: Options) -> Self {
        Self {
            quotas: Arc::new(Quotas::new(options.memory_bytes_max)),
            statics: Statics::new(options.controller_ids),
            generations: Generations::default(),
            published_logs: PublishedLogs::default(),
            options,
            listeners: Mutex::default(),
            listeners_generation: AtomicU64::new(0),
            tls: OnceLock::new(),
            load: [const { (AtomicI32::new(0), AtomicI32::new(0)) }; MESH_CORES_MAX],
            controllers: Mutex::default(),
            figures: Mutex::default(),
            started: OnceLock::new(),
        }
    }
    /// What is set.
    pub fn options(&self) -> &Options {
        &self.options
    }
    /// What each host takes.
    pub fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }
    /// The static controllers.
    pub(crate) fn statics(&self) -> &Statics {
        &self.statics
    }
    /// The generations of the discovery logs.
    pub(crate) fn generations(&self) -> &Generations {
        &self.generations
    }
    /// What discovery published last.
    pub(crate) fn published_logs(&self) -> &PublishedLogs {
        &self.published_logs
    }
    /// The core that is home to a controller with this ID; `None` when it is a static one that nobody uses.
    pub(crate) fn home(&self, cntlid: u16, cores: usize) -> Option<usize> {
        if self.options.controller_ids.is_static(cntlid) { self.statics.home(cntlid) } else { Some(home_of(cntlid, cores)) }
    }
    /// What TLS connections share; made for the first of them. `None`: the cryptographic library cannot do TLS 1.3 with these settings.
    pub(crate) fn tls(&self) -> Option<Arc<tls::Context>> {
        let made = || tls::Context::new().map(Arc::new).inspect_err(|error| tracing::error!(%error, "no TLS")).ok();
        self.tls.get_or_init(made).clone()
    }
    /// A listener was opened at `addr`.
    pub(crate) fn add_listener(&self, spec: ListenerSpec, addr: SocketAddr) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push((spec, addr));
        self.listeners_generation.fetch_add(1, Ordering::Release);
    }
    /// All listeners are closed.
    pub(crate) fn clear_listeners(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.listeners_generation.fetch_add(1, Ordering::Release);
    }
    /// Grows when listeners change.
    pub(crate) fn listeners_generation(&self) -> u64 {
        self.listeners_generation.load(Ordering::Acquire)
    }
    /// The ports where a host that reached this node at `reached` finds what listeners of `kind` serve: a listener on all addresses is published
    /// as the one that it reached, if that is of the same family. Each address once, with the least that a listener there demands.
    pub(crate) fn advertised(&self, kind: ListenerKind, reached: Option<IpAddr>) -> Vec<Port> {
        let list = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let address = |(at, (spec, addr)): (usize, &(ListenerSpec, SocketAddr))| {
            let mut to = spec.advertise.unwrap_or(*addr);
            if let Some(ip) = reached.filter(|ip| to.ip().is_unspecified() && (ip.is_ipv4() || to.is_ipv6())) {
                to.set_ip(ip);
            }
            if to.port() == 0 {
                to.set_port(addr.port());
            }
            Port { addr: to, security: spec.security, id: port_id(self.options.slot, at as u16) }
        };
        let of_kind = list.iter().enumerate().filter(|(_, (s, _))| s.kind == kind);
        let mut out: Vec<Port> = of_kind.map(address).filter(|p| !p.addr.ip().is_unspecified()).collect();
        crate::discovery::once_each(&mut out);
        out
    }
    /// The core for a new connection: the one with the fewest I/O queues, then the fewest connections.
    pub(crate) fn choose_core(&self, cores: usize) -> usize {
        let load = |c: &usize| (self.load[*c].0.load(Ordering::Relaxed), self.load[*c].1.load(Ordering::Relaxed));
        let core = (0..cores).min_by_key(load).unwrap_or(0);
        self.load[core].0.fetch_add(1, Ordering::Relaxed);
        self.load[core].1.fetch_add(1, Ordering::Relaxed);
        core
    }
    /// A connection turned out to be light (an admin queue).
    pub(crate) fn lighten(&self, core: usize) {
        self.load[core].0.fetch_sub(1, Ordering::Relaxed);
    }
    /// Since when the front end is there: the time of the first call.
    pub(crate) fn started(&self, now: Instant) -> Instant {
        *self.started.get_or_init(|| now)
    }
    /// A controller begins.
    pub(crate) fn register_controller(&self, c: &Arc<ControllerShared>) {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner).insert(c.cntlid, Arc::clone(c));
    }
    /// A controller ended.
    pub(crate) fn discharge(&self, c: &ControllerShared) {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        if controllers.get(&c.cntlid).is_some_and(|x| core::ptr::eq(&**x, c)) {
            controllers.remove(&c.cntlid);
        }
    }
    /// The controllers of a subsystem on all cores, by ascending ID.
    pub fn controllers_of(&self, subsystem: &str) -> Vec<Arc<ControllerShared>> {
        let controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        controllers.values().filter(|c| c.subsystem == subsystem).cloned().collect()
    }
    /// The figures of a subsystem.
    pub(crate) fn figures_of(&self, subsystem: &str) -> Arc<SubsystemFigures> {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(figures.entry(subsystem.to_owned()).or_default())
    }
    /// Forgets the figures of subsystems that are no more.
    pub(crate) fn keep_figures(&self, keep: impl Fn(&str) -> bool) {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).retain(|nqn, _| keep(nqn));
    }
    /// A connection is gone.
    pub(crate) fn gone(&self, core: usize, light: bool) {
        if !light {
            self.load[core].0.fetch_sub(1, Ordering::Relaxed);
        }
        self.load[core].1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The core that is home to a dynamic controller.
pub(crate) fn home_of(cntlid: u16, cores: usize) -> usize {
    usize::from(cntlid) % cores
}

/// What the queues of a controller see of it, on any core.
#[derive(Debug)]
pub struct ControllerShared {
    /// Its ID.
    pub cntlid: u16,
    /// Tells it from an earlier one with the same ID.
    pub serial: u64,
    /// The core of its admin queue.
    pub home: usize,
    /// NQN of its subsystem.
    pub subsystem: String,
    /// NQN of its host.
    pub host_nqn: String,
    /// Identifier of its host.
    pub host_id: [u8; 16],
    /// It is a discovery controller.
    pub discovery: bool,
    /// The address of this server that the host reached, as far as it is known.
    pub reached: Option<IpAddr>,
    /// Errors of its commands.
    pub errors: ErrorLog,
    /// What its subsystem has served.
    pub figures: Arc<SubsystemFigures>,
    traffic: AtomicBool,
    ready: AtomicBool,
    ended: AtomicBool,
    retry_delays: AtomicBool,
}

impl ControllerShared {
    /// Of a new controller; its home is core 0 until it is set.
    pub fn new(cntlid: u16, serial: u64, subsystem: &str, host_nqn: &str, host_id: [u8; 16], discovery: bool) -> Self {
        Self {
            cntlid,
            serial,
            home: 0,
            subsystem: subsystem.to_owned(),
            host_nqn: host_nqn.to_owned(),
            host_id,
            discovery,
            reached: None,
            errors: ErrorLog::default(),
            figures: Arc::default(),
            traffic: AtomicBool::new(true),
            ready: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            retry_delays: AtomicBool::new(false),
        }
    }
    /// The same, with the figures of its subsystem.
    pub fn with_figures(self, figures: Arc<SubsystemFigures>) -> Self {
        Self { figures, ..self }
    }
    /// The host sent something.
    #[inline]
    pub(crate) fn note_traffic(&self) {
        if !self.traffic.load(Ordering::Relaxed) {
            self.traffic.store(true, Ordering::Relaxed);
        }
    }
    /// Whether the host sent something since the last call.
    pub(crate) fn take_traffic(&self) -> bool {
        self.traffic.swap(false, Ordering::Relaxed)
    }
    /// Whether commands may run (CSTS.RDY).
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }
    /// Whether its host knows command retry delays (Host Behaviour Support, ACRE).
    pub(crate) fn knows_retry_delays(&self) -> bool {
        self.retry_delays.load(Ordering::Relaxed)
    }
    /// Notes whether its host knows command retry delays.
    pub(crate) fn set_retry_delays(&self, known: bool) {
        self.retry_delays.store(known, Ordering::Relaxed);
    }
    /// Commands may run from now on, or not any more (CSTS.RDY). The target does it; others only where there is no target.
    pub fn set_ready(&self, ready: bool) {
        // Who sees that it is not ready any more sees why.
        self.ready.store(ready, Ordering::Release);
    }
    /// Its association has ended, with its admin queue or its daemon: no commands run any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.set_ready(false);
    }
    /// Why no commands run, while it is not ready: its host has not enabled it or has shut it down, or it has ended, and there may be other paths.
    pub(crate) fn why_not_ready(&self) -> StatusCode {
        if self.ended.load(Ordering::Relaxed) { StatusCode::CONTROLLER_PATHING_ERROR } else { StatusCode::COMMAND_SEQUENCE_ERROR }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_where_there_are_fewest_io_queues() {
        let s = TargetShared::default();
        assert_eq!((s.choose_core(2), s.choose_core(2)), (0, 1));
        s.lighten(0);
        assert_eq!(s.choose_core(2), 0, "an admin queue weighs nothing");
        s.gone(1, false);
        assert_eq!(s.choose_core(2), 1);
    }
}

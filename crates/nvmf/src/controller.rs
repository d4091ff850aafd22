//! A controller: properties, keep-alive, features, queues and events. Lives on the core of its admin queue.
//!
//! ```text
//!  Connect ─► Disabled ── CC.EN 1 ──► Ready ── CC.SHN ──► ShutDown
//!                ▲  └─ bad CC ─► Fatal   │                    │
//!                └──────── CC.EN 0 ──────┴────────────────────┘
//! ```
//! Its end comes with its admin connection, with silence (keep-alive) or with its subsystem.
//!
//! Invariant: commands run only while it is ready; an event of a kind is sent once until its log page is read.
//! Never: does I/O.

use crate::limits::{ABORT_MAX, AER_MAX, EVENTS_MAX, GRANT_KEPT_MAX, IO_QUEUES_MAX, KAS, KATO_MS_MAX, NAMESPACES_MAX, QUEUE_ENTRIES_MAX};
use crate::notices::Notices;
use crate::shared::ControllerShared;
use crate::view::{AnaState, Namespace, View};
use base::hooks::{self, SeededFault};
use base::{Duration, HostId, Instant, VolumeId};
use format::nvme::log::{
    AER_ERROR, AER_HEALTH, AER_IO_COMMAND, AER_NOTICE, AsyncEvent, CHANGED_NAMESPACES_MAX, ERROR_TRANSIENT, HEALTH_RELIABILITY,
    HEALTH_TEMPERATURE, LID_ANA, LID_CHANGED_NAMESPACES, LID_DISCOVERY, LID_ERROR, LID_HEALTH, LID_RESERVATION, NOTICE_ANA_CHANGED,
    NOTICE_DISCOVERY_CHANGED, NOTICE_NAMESPACE_CHANGED, RESERVATION_LOG_AVAILABLE, WARNING_RELIABILITY, WARNING_TEMPERATURE,
};
use format::nvme::property::{self, Capabilities, Config, ControllerStatus};
use format::nvme::{StatusCode, feature};
use frontend::{HostLimits, Place, Reserve};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// Reservation notifications wait in log 80h (base figure 151).
const RESERVATION_EVENT: AsyncEvent = AsyncEvent { kind: AER_IO_COMMAND, info: RESERVATION_LOG_AVAILABLE, log: LID_RESERVATION };

/// Where a controller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerState {
    /// CC.EN is 0.
    Disabled,
    /// CSTS.RDY is 1.
    Ready,
    /// CSTS.CFS is 1: the host asked for what is not supported.
    Fatal,
    /// CSTS.SHST is 2.
    ShutDown,
}

/// A queue of a controller: on which core, and the token of its connection there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueAt {
    /// The core.
    pub core: usize,
    /// The connection's token.
    pub token: u64,
}

/// A controller.
pub struct Controller {
    /// What its queues see.
    pub shared: Arc<ControllerShared>,
    /// Token of the admin connection.
    pub admin: u64,
    /// Where the host is.
    pub peer: SocketAddr,
    /// Since when.
    pub since: Instant,
    state: ControllerState,
    cc: u32,
    kato_ms: u32,
    kato_at: Option<Instant>,
    queues: BTreeMap<u16, QueueAt>,
    queues_granted: u16,
    queues_max: u16,
    /// Places in the quota of its host for queues that it may still connect, and until when they are kept.
    reserve: Option<Reserve>,
    reserve_until: Option<Instant>,
    aec: u32,
    requests: VecDeque<u16>,
    /// Abort commands under way.
    aborts: u8,
    events: VecDeque<AsyncEvent>,
    masked: Vec<AsyncEvent>,
    changed: BTreeSet<u32>,
    changed_overflow: bool,
    /// What had an NSID at some time since the Changed Namespace list was read, and has it no more.
    gone: BTreeMap<u32, VolumeId>,
    /// NSIDs that another volume has got since: hosts look at them twice.
    remapped: BTreeSet<u32>,
    known: Vec<Namespace>,
    ana: Ana,
    thresholds: Thresholds,
    warned: u8,
    internal_errors: u64,
    discovery_sum: Option<u32>,
    notices: Notices,
}

/// The composite temperature that is reported, in kelvins: that of a room, where software is.
pub const TEMPERATURE_K: u16 = 300;

/// Temperature thresholds, in kelvins (base 5.27.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A warning at this temperature or above.
    pub over: u16,
    /// A warning at this temperature or below.
    pub under: u16,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { over: 0xFFFF, under: 0 }
    }
}

/// An ANA group as a controller reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The state of its namespaces.
    pub state: AnaState,
    /// Its namespaces, ascending.
    pub nsids: Vec<u32>,
    /// The log's change count at its last change.
    pub change_count: u64,
}

/// The groups of a controller, and how often they have changed.
#[derive(Debug, Default)]
struct Ana {
    change_count: u64,
    groups: BTreeMap<u32, Group>,
}

impl Ana {
    /// Takes the groups of `namespaces`. True when a state changed, or a namespace that stays went to another group: what comes with a
    /// namespace that is attached or detached has its own event (base 5.2.1, Asymmetric Namespace Access Change).
    fn update(&mut self, namespaces: &[Namespace]) -> bool {
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        for ns in namespaces {
            let empty = Group { state: ns.ana.state, nsids: Vec::new(), change_count: 0 };
            groups.entry(ns.ana.group).or_insert(empty).nsids.push(ns.nsid);
        }
        let count = self.change_count + 1;
        let (mut any, mut moved) = (false, false);
        for (id, group) in &mut groups {
            match self.groups.get(id) {
                Some(old) if (old.state, &old.nsids) == (group.state, &group.nsids) => group.change_count = old.change_count,
                old => {
                    any = true;
                    moved |= old.is_some_and(|o| o.state != group.state);
                    group.change_count = count;
                }
            }
        }
        let home = |groups: &BTreeMap<u32, Group>, nsid: u32| groups.iter().find(|(_, g)| g.nsids.contains(&nsid)).map(|(id, _)| *id);
        moved |= namespaces.iter().any(|n| home(&self.groups, n.nsid).is_some_and(|old| old != n.ana.group));
        any |= self.groups.keys().any(|id| !groups.contains_key(id));
        self.change_count += u64::from(any);
        self.groups = groups;
        moved
    }
}

/// What a change of a property asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// All I/O queues end, event requests are forgotten.
    Reset,
}

/// The property CAP.
pub fn capabilities() -> u64 {
    Capabilities { mqes: QUEUE_ENTRIES_MAX - 1, cqr: true, to: 40, css: 1, crms: 1, ..Capabilities::default() }.bits()
}

/// I/O queues that one controller of a host may have at most: an admin queue takes a connection too.
fn io_queues_of(limits: HostLimits) -> u16 {
    limits.connections.saturating_sub(1).clamp(1, IO_QUEUES_MAX.into()) as u16
}

impl Controller {
    /// A controller whose admin queue was just connected.
    pub fn new(shared: Arc<ControllerShared>, admin: u64, peer: SocketAddr, now: Instant, kato_ms: u32, known: Vec<Namespace>) -> Self {
        let mut c = Self {
            shared,
            admin,
            peer,
            since: now,
            state: ControllerState::Disabled,
            cc: 0,
            kato_ms: 0,
            kato_at: None,
            queues: BTreeMap::new(),
            queues_granted: IO_QUEUES_MAX,
            queues_max: IO_QUEUES_MAX,
            reserve: None,
            reserve_until: None,
            aec: 0,
            requests: VecDeque::new(),
            aborts: 0,
            events: VecDeque::new(),
            masked: Vec::new(),
            changed: BTreeSet::new(),
            changed_overflow: false,
            gone: BTreeMap::new(),
            remapped: BTreeSet::new(),
            ana: Ana::default(),
            known,
            thresholds: Thresholds::default(),
            warned: 0,
            internal_errors: 0,
            discovery_sum: None,
            notices: Notices::default(),
        };
        c.ana.update(&c.known);
        c.warned = c.critical_warning();
        c.set_kato(kato_ms, now);
        c
    }
    /// Where it stands.
    pub fn state(&self) -> ControllerState {
        self.state
    }
    /// Its I/O queues.
    pub fn queues(&self) -> &BTreeMap<u16, QueueAt> {
        &self.queues
    }
    /// Keep Alive Timeout in force, milliseconds.
    pub fn kato_ms(&self) -> u32 {
        self.kato_ms
    }
    /// Asynchronous events that the host wants.
    pub fn aec(&self) -> u32 {
        self.aec
    }
    /// I/O queues that the host may connect.
    pub fn queues_granted(&self) -> u16 {
        self.queues_granted
    }
    /// I/O queues that it may connect unless it asks for fewer.
    pub fn queues_max(&self) -> u16 {
        self.queues_max
    }

    /// Reads a property of 4 or 8 bytes.
    pub fn property(&self, offset: u32, bytes: usize) -> Result<u64, StatusCode> {
        match (offset, bytes) {
            (property::CAP, 8) => Ok(capabilities()),
            (property::VS, 4) => Ok(property::VERSION_2_0.into()),
            (property::CC, 4) => Ok(self.cc.into()),
            (property::CSTS, 4) => Ok(self.csts().bits().into()),
            // Ready at once; CRWMT says 20 s, as CAP.TO does.
            (property::CRTO, 4) => Ok(40),
            _ => Err(StatusCode::INVALID_FIELD),
        }
    }
    fn csts(&self) -> ControllerStatus {
        let config = Config::parse(self.cc);
        ControllerStatus {
            rdy: self.state == ControllerState::Ready || self.state == ControllerState::ShutDown && config.en,
            cfs: self.state == ControllerState::Fatal,
            shst: if self.state == ControllerState::ShutDown { 2 } else { 0 },
        }
    }
    /// Writes a property.
    pub fn set_property(&mut self, offset: u32, bytes: usize, value: u64) -> Result<Effect, StatusCode> {
        if (offset, bytes) != (property::CC, 4) {
            return Err(StatusCode::INVALID_FIELD);
        }
        let (old, new) = (Config::parse(self.cc), Config::parse(value as u32));
        self.cc = new.bits();
        let mut effect = Effect::None;
        if new.en && !old.en {
            let supported = new.css == 0 && new.mps == 0 && new.ams == 0 && !new.crime;
            let entries = self.shared.discovery || (new.iosqes == 6 && new.iocqes == 4);
            self.state = if supported && entries { ControllerState::Ready } else { ControllerState::Fatal };
        } else if !new.en && old.en {
            self.state = ControllerState::Disabled;
            self.forget();
            effect = Effect::Reset;
        }
        if new.shn != 0 && old.shn == 0 {
            self.state = ControllerState::ShutDown;
        }
        self.shared.set_ready(self.state == ControllerState::Ready);
        Ok(effect)
    }
    /// Back to defaults: features and events.
    fn forget(&mut self) {
        self.requests.clear();
        self.events.clear();
        if !hooks::seeded(SeededFault::MaskOutlivesReset) {
            self.masked.clear();
        }
        self.changed.clear();
        self.changed_overflow = false;
        self.gone.clear();
        self.remapped.clear();
        self.notices.forget();
        self.aec = 0;
        self.queues_granted = self.queues_max;
        self.thresholds = Thresholds::default();
        self.shared.set_retry_delays(false);
    }

    /// Sets the Keep Alive Timeout; rounded up to the granularity. False when it is too long.
    pub fn set_kato(&mut self, kato_ms: u32, now: Instant) -> bool {
        if kato_ms > KATO_MS_MAX {
            return false;
        }
        self.kato_ms = kato_ms.next_multiple_of(u32::from(KAS) * 100);
        if hooks::seeded(SeededFault::KatoZeroKept) && kato_ms == 0 {
            return true;
        }
        if hooks::seeded(SeededFault::KatoKept) && self.kato_at.is_some() {
            return true;
        }
        self.keep_alive(now);
        true
    }
    /// A Keep Alive command: the timer starts again.
    pub fn keep_alive(&mut self, now: Instant) {
        if hooks::seeded(SeededFault::KeepAliveNotRearmed) && self.kato_at.is_some() {
            return;
        }
        self.kato_at = (self.kato_ms > 0).then(|| now + Duration::from_millis(self.kato_ms.into()));
        self.shared.take_traffic();
    }
    /// Whether the host has been silent too long. With traffic in an interval the timer starts again (TBKAS, base 3.9.3.1).
    pub fn is_expired(&mut self, now: Instant) -> bool {
        let early = if hooks::seeded(SeededFault::KeepAliveTooShort) { self.kato_ms } else { 0 };
        match self.kato_at {
            Some(at) if now + Duration::from_millis(early.into()) >= at => {
                if self.shared.take_traffic() && !hooks::seeded(SeededFault::TrafficForgotten) {
                    self.kato_at = Some(now + Duration::from_millis(self.kato_ms.into()));
                    return false;
                }
                true
            }
            _ => false,
        }
    }

    /// The core could not look for `time`: the host gets that much longer.
    pub fn give_time(&mut self, time: Duration) {
        if let Some(at) = &mut self.kato_at {
            *at += time;
        }
    }

    /// Takes an I/O queue.
    pub fn add_queue(&mut self, qid: u16, at: QueueAt) -> Result<(), StatusCode> {
        if self.state != ControllerState::Ready {
            return Err(StatusCode::COMMAND_SEQUENCE_ERROR);
        }
        if self.queues.contains_key(&qid) {
            return Err(StatusCode::COMMAND_SEQUENCE_ERROR);
        }
        self.queues.insert(qid, at);
        Ok(())
    }
    /// An I/O queue is gone.
    pub fn remove_queue(&mut self, qid: u16, at: QueueAt) {
        if self.queues.get(&qid) == Some(&at) {
            self.queues.remove(&qid);
        }
    }
    /// All I/O queues, which are its no more.
    pub fn take_queues(&mut self) -> Vec<QueueAt> {
        core::mem::take(&mut self.queues).into_values().collect()
    }
    /// Its host may have so much; places for its queues come out of this reserve.
    pub fn set_reserve(&mut self, reserve: Reserve, limits: HostLimits, now: Instant) {
        (self.reserve, self.reserve_until) = (Some(reserve), Some(now + GRANT_KEPT_MAX));
        self.queues_max = io_queues_of(limits);
        self.queues_granted = self.queues_max;
    }
    /// A place that was kept for a queue which is connected now.
    pub fn take_place(&mut self, now: Instant) -> Option<Place> {
        self.reserve_until = Some(now + GRANT_KEPT_MAX); // The next queues come one after another.
        self.reserve.as_mut()?.take()
    }
    /// Gives back what was kept for queues that have not come.
    pub fn end_reserve(&mut self, now: Instant) {
        if self.reserve_until.is_some_and(|at| now >= at) {
            self.reserve_until = None;
            self.reserve.iter_mut().for_each(Reserve::give_up);
        }
    }
    /// Number of Queues: the host asks for `wanted` (not minus one). Never more is granted than it may connect: the places are kept for it.
    /// Refused once there are queues.
    pub fn grant_queues(&mut self, wanted: u16, limits: HostLimits, now: Instant) -> Result<u16, StatusCode> {
        if !self.queues.is_empty() {
            return Err(StatusCode::COMMAND_SEQUENCE_ERROR);
        }
        let wanted = wanted.clamp(1, io_queues_of(limits));
        self.queues_max = io_queues_of(limits);
        let kept = self.reserve.as_mut().map_or(wanted, |reserve| reserve.keep(wanted.into(), limits) as u16);
        // The feature cannot say "none". A place was kept when the controller was made.
        self.queues_granted = kept.max(1);
        self.reserve_until = Some(now + GRANT_KEPT_MAX);
        Ok(self.queues_granted)
    }

    /// Events that the host wants from now on. A warning that stands, and a change that it has not read of, is reported to a host that did not want it
    /// before.
    pub fn set_aec(&mut self, aec: u32) {
        self.warned &= self.aec as u8;
        self.aec = aec;
        self.look_at_health();
        if !self.changed.is_empty() {
            self.namespace_event();
        }
    }
    /// An event request came. False when there are too many.
    pub fn add_request(&mut self, slot: u16) -> bool {
        if self.requests.len() >= AER_MAX {
            return false;
        }
        self.requests.push_back(slot);
        true
    }
    /// The event request in this slot was aborted.
    pub fn remove_request(&mut self, slot: u16) {
        self.requests.retain(|s| *s != slot);
    }
    /// An Abort command begins. False when there are too many.
    pub fn begin_abort(&mut self) -> bool {
        let room = self.aborts < ABORT_MAX;
        self.aborts += u8::from(room);
        room
    }
    /// An Abort command has ended.
    pub fn end_abort(&mut self) {
        self.aborts -= 1;
    }
    /// The next event for which there is a request: slot and event.
    pub fn next_event(&mut self) -> Option<(u16, AsyncEvent)> {
        if self.events.is_empty() || self.requests.is_empty() {
            return None;
        }
        let event = self.events.pop_front()?;
        let slot = self.requests.pop_front()?;
        self.masked.push(event);
        Some((slot, event))
    }
    fn raise(&mut self, event: AsyncEvent) {
        if hooks::seeded(SeededFault::EventNeedsRequest) && self.requests.is_empty() {
            return;
        }
        if !self.masked.contains(&event) && !self.events.contains(&event) && self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }
    /// A log page was read (without RAE): its events are reported, and may come again.
    pub fn log_was_read(&mut self, lid: u8) {
        self.masked.retain(|e| e.log != lid || hooks::seeded(SeededFault::EventMaskedForEver));
        self.events.retain(|e| e.log != lid);
        if lid == LID_RESERVATION && self.notices.was_read() {
            self.raise(RESERVATION_EVENT);
        }
        if lid == LID_CHANGED_NAMESPACES {
            self.look_again();
        }
    }
    /// The host reads the list and then looks at its namespaces. Linux, where it finds another volume under an NSID that it has, gives up the old
    /// one and does not look for the new one before a change is reported to it again.
    fn look_again(&mut self) {
        self.gone.clear();
        self.changed.append(&mut self.remapped);
        if !self.changed.is_empty() {
            self.namespace_event();
        }
    }
    fn namespace_event(&mut self) {
        if self.aec & feature::AEC_NAMESPACE != 0 {
            self.raise(AsyncEvent { kind: AER_NOTICE, info: NOTICE_NAMESPACE_CHANGED, log: LID_CHANGED_NAMESPACES });
        }
    }
    /// The Changed Namespace list was read: it begins anew.
    pub fn forget_changed(&mut self) {
        if !hooks::seeded(SeededFault::LogNotBegunAnew) {
            self.changed.clear();
        }
        self.changed_overflow = false;
    }
    /// The reservations of its namespaces may have changed: raises an event when there is something for its host.
    pub fn reservations_are(&mut self, view: &View) {
        if self.notices.look(view, &self.known, HostId::from_bytes(self.shared.host_id)) {
            self.raise(RESERVATION_EVENT);
        }
    }
    /// Reservation notifications.
    pub fn notices(&self) -> &Notices {
        &self.notices
    }
    /// Reservation notifications, to change the masks.
    pub fn notices_mut(&mut self) -> &mut Notices {
        &mut self.notices
    }
    /// The namespaces changed: notes which, and raises an event.
    pub fn namespaces_are(&mut self, now: Vec<Namespace>) {
        let by_id = |list: &[Namespace]| list.iter().map(|n| (n.nsid, *n)).collect::<BTreeMap<u32, Namespace>>();
        let (old, new) = (by_id(&self.known), by_id(&now));
        let mut any = false;
        for nsid in old.keys().chain(new.keys()) {
            let unreported = hooks::seeded(SeededFault::AttachUnreported) && !old.contains_key(nsid);
            let same = unreported || old.get(nsid).zip(new.get(nsid)).is_some_and(|(a, b)| a.is_like(b));
            if !same {
                any = true;
                self.changed.insert(*nsid);
            }
            let (before, now) = (old.get(nsid).map(|n| n.id), new.get(nsid).map(|n| n.id));
            if let Some(id) = before.filter(|id| now != Some(*id)) {
                self.gone.insert(*nsid, id);
            }
            if let (Some(id), true) = (now, now != before)
                && self.gone.get(nsid).is_some_and(|gone| *gone != id)
            {
                self.remapped.insert(*nsid);
            }
        }
        self.changed_overflow |= self.changed.len() > CHANGED_NAMESPACES_MAX;
        if self.ana.update(&now) && self.aec & feature::AEC_ANA != 0 && !hooks::seeded(SeededFault::AnaChangeUnreported) {
            self.raise(AsyncEvent { kind: AER_NOTICE, info: NOTICE_ANA_CHANGED, log: LID_ANA });
        }
        self.known = now;
        if any {
            self.namespace_event();
        }
    }
    /// The ANA groups of the namespaces that the host sees, and the log's change count.
    pub fn ana(&self) -> (&BTreeMap<u32, Group>, u64) {
        (&self.ana.groups, self.ana.change_count)
    }
    /// Temperature thresholds in force.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }
    /// Other temperature thresholds.
    pub fn set_thresholds(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
        self.look_at_health();
    }
    /// The critical warnings of the health log, of this moment.
    pub fn critical_warning(&self) -> u8 {
        let hot = TEMPERATURE_K >= self.thresholds.over || TEMPERATURE_K <= self.thresholds.under;
        let media = self.shared.figures.sum().media_errors > 0;
        (u8::from(hot) * WARNING_TEMPERATURE) | (u8::from(media) * WARNING_RELIABILITY)
    }
    /// Raises events for warnings that are new, and for internal errors.
    pub fn look_at_health(&mut self) {
        let now = self.critical_warning();
        let new = now & !self.warned & self.aec as u8;
        self.warned = now;
        for (bit, info) in [(WARNING_RELIABILITY, HEALTH_RELIABILITY), (WARNING_TEMPERATURE, HEALTH_TEMPERATURE)] {
            if new & bit != 0 {
                self.raise(AsyncEvent { kind: AER_HEALTH, info, log: LID_HEALTH });
            }
        }
        let internal = self.shared.errors.internal();
        if core::mem::replace(&mut self.internal_errors, internal) != internal {
            self.raise(AsyncEvent { kind: AER_ERROR, info: ERROR_TRANSIENT, log: LID_ERROR });
        }
    }
    /// What discovery tells this host, as a checksum: raises an event when it is another than before.
    pub fn discovery_is(&mut self, sum: u32) {
        let changed = self.discovery_sum.replace(sum).is_some_and(|old| old != sum);
        if changed && self.aec & feature::AEC_DISCOVERY != 0 {
            self.raise(AsyncEvent { kind: AER_NOTICE, info: NOTICE_DISCOVERY_CHANGED, log: LID_DISCOVERY });
        }
    }
    /// The namespaces that changed since the log was read; `None` when there are too many to tell.
    pub fn changed_namespaces(&self) -> Option<impl Iterator<Item = u32> + '_> {
        (!self.changed_overflow).then(|| self.changed.iter().copied())
    }
}

const _: () = assert!(NAMESPACES_MAX as usize <= CHANGED_NAMESPACES_MAX, "all changes fit the log");

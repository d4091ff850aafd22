//! One connection: a state machine without I/O. Bytes in; PDUs, requests to volumes and calls to the controller out.
//!
//! ```text
//!            ICReq / ICResp          Connect ok               fault, H2CTermReq
//!  AwaitIc ───────────────► Fresh ───────────────► Live ───────────────────────► Ended
//!     └────────────────────── fault ──┴──────────────────────────────────────────►
//! ```
//!
//! Each command is a slot: `Filling` (its capsule data comes in) → `Waiting` (for buffers) → `Asked` (R2T sent, H2CData comes in) →
//! `Running` (with the volume or the controller) → answered. A command skips the stages it does not need. The halves of a fused operation
//! meet in `Paired` before they run as one (see `fused.rs`).
//!
//! Owns: the receive state, the slots, the lists of bytes to send.
//! Invariants: memory is bounded by the limits (data buffers by a quota for the connection, slots by the queue's size, unsent
//! bytes by not reading); a slot is freed when its response is written; what lengths say is checked before memory is taken. A connection
//! never waits for itself: it is read unless something that runs or is sent gives memory back, and one command gets buffers whatever waits.
//! Never: does I/O, reads a clock, knows about other connections.

mod abort;
mod command;
mod copy;
mod copy_progress;
mod fence;
mod fused;
mod fusing;
mod left;
mod receive;
mod reply;
mod slot;
mod status;

pub use left::{Left, settle};
pub use slot::CommandSlot;
pub(crate) use status::status_of_refusal;

use crate::health::Ledger;
use crate::limits::{
    ADMIN_HELD_MAX, CAPSULE_DATA_MAX, CAPSULE_HELD_MAX, DATA_HELD_MAX, SEND_BACKLOG_MAX, UNAUTHENTICATED_BACKLOG_MAX,
    UNAUTHENTICATED_HELD_MAX,
};
use crate::shared::ControllerShared;
use crate::stats::TargetStats;
use crate::view::{Namespace, View};
use base::checksum::Crc32c;
use base::hooks::{self, SeededFault};
use base::{Duration, HostId, Instant};
use format::nvme::Sqe;
use format::nvme::log::ErrorLocation;
use format::nvme_tcp::{CommonHeader, Digests, HEADER_BYTES_MAX, HeaderRules};
use frontend::Place;
use fusing::Fusing;
use object::IoRequest;
use rt::SendList;
use slab::Slab;
use slot::CommandStage;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a session may use while it works, and where its outputs go.
pub struct Cx<'a> {
    /// The time.
    pub now: Instant,
    /// What is served.
    pub view: &'a Arc<View>,
    /// Requests to volumes.
    pub ios: &'a mut Vec<IoRequest>,
    /// Calls to the controller: the slot of a command that is whole.
    pub calls: &'a mut Vec<Call>,
    /// Counters.
    pub stats: &'a mut TargetStats,
}

/// A command that somebody else than the session must carry out. Answer with [`Session::complete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A Connect command, its data in the slot.
    Connect(u16),
    /// Any other fabrics command, or an admin command.
    Admin(u16),
}

/// What became of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborted {
    /// Nothing: there is no such command, or it runs.
    No,
    /// It ends, or has ended, with Command Abort Requested.
    Yes,
    /// So has an event request, which was parked in this slot.
    Event(u16),
}

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPhase {
    /// Nothing but an ICReq may come.
    AwaitIc,
    /// Nothing but a Connect command has effect.
    Fresh,
    /// A Connect command is being judged.
    Connecting,
    /// A queue.
    Live,
    /// A termination request was sent or received; what comes is thrown away.
    Ended,
}

/// What the queue is.
pub enum QueueKind {
    /// Not known yet.
    Fresh,
    /// The admin queue of a controller.
    Admin(Arc<ControllerShared>),
    /// An I/O queue of a controller.
    Io(Arc<ControllerShared>, u16),
}

/// Bytes of the PDU that comes in.
enum Rx {
    /// Into `head` until it holds the whole header.
    Head,
    /// Data of a capsule or an H2CData.
    Data(RxData),
    /// The digest of data, `have` bytes of it.
    Digest(RxData, [u8; 4], u8),
}

/// Data on its way into a slot.
struct RxData {
    slot: u16,
    left: u32,
    /// Where in the command's data this PDU began, for the digest.
    from: u32,
    bytes: u32,
    /// Sums the data as it comes, when its blocks' checksums do not cover it.
    sum: Option<Crc32c>,
    digest: bool,
    last: bool,
    capsule: bool,
}

/// One connection.
pub struct Session {
    phase: SessionPhase,
    kind: QueueKind,
    rules: HeaderRules,
    digests: Digests,
    hpda: u8,
    rx: Rx,
    head: [u8; HEADER_BYTES_MAX],
    head_len: usize,
    common: Option<CommonHeader>,
    slots: Slab<CommandSlot>,
    entries: u16,
    sqhd: u16,
    flow_control: bool,
    cids: Box<[u64]>,
    waiting: VecDeque<u16>,
    /// What the last command was to a fused operation.
    fusing: Fusing,
    /// Commands that were aborted and answered while their data was under way.
    aborted: u16,
    /// Commands whose data was asked for and is large.
    large: u32,
    held: u32,
    capsule_held: u32,
    running: u32,
    namespaces: Vec<Namespace>,
    namespaces_of: u64,
    last_ns: usize,
    ledger: Option<Ledger>,
    out: SendList,
    ready: VecDeque<SendList>,
    free: Vec<SendList>,
    backlog: usize,
    token_base: u64,
    draining: bool,
    /// Its share of what its host may hold; none where nobody counts.
    place: Option<Place>,
    /// The host's memory is used up by what came in capsules.
    throttled: bool,
    /// When the first byte of the PDU that comes in was taken.
    pdu_began: Instant,
    /// A Disconnect command that is answered after all others.
    leaving: Option<u16>,
    locked: bool,
    /// Requests that had not come back when the session ended.
    left: Vec<Left>,
}

/// Slots of a connection before its Connect: one command, and room for a host that is wrong.
const FRESH_ENTRIES: u16 = 2;

impl Session {
    /// A connection that was just accepted. `token` goes in the upper bits of request tokens; the low 16 are the slot.
    pub fn new(token: u64) -> Self {
        assert!(token & 0xFFFF == 0, "the low bits are the slot's");
        Self {
            phase: SessionPhase::AwaitIc,
            kind: QueueKind::Fresh,
            rules: HeaderRules {
                from_host: true,
                digests: Digests::default(),
                pda: 0,
                capsule_data_max: CAPSULE_DATA_MAX,
                data_max: i32::MAX as u32,
            },
            digests: Digests::default(),
            hpda: 0,
            rx: Rx::Head,
            head: [0; HEADER_BYTES_MAX],
            head_len: 0,
            common: None,
            slots: Slab::new(),
            entries: FRESH_ENTRIES,
            sqhd: 0,
            flow_control: true,
            cids: Box::default(),
            waiting: VecDeque::new(),
            fusing: Fusing::No,
            aborted: 0,
            large: 0,
            held: 0,
            capsule_held: 0,
            running: 0,
            namespaces: Vec::new(),
            namespaces_of: u64::MAX,
            last_ns: 0,
            ledger: None,
            out: SendList::new(),
            ready: VecDeque::new(),
            free: Vec::new(),
            backlog: 0,
            token_base: token,
            draining: false,
            place: None,
            throttled: false,
            pdu_began: Instant::default(),
            leaving: None,
            locked: false,
            left: Vec::new(),
        }
    }
    /// Where it stands.
    pub fn phase(&self) -> SessionPhase {
        self.phase
    }
    /// What it is.
    pub fn kind(&self) -> &QueueKind {
        &self.kind
    }
    /// Digests in force.
    pub fn digests(&self) -> Digests {
        self.digests
    }
    /// Whether a PDU has begun and not ended.
    pub fn is_mid_pdu(&self) -> bool {
        self.head_len > 0 || !matches!(self.rx, Rx::Head)
    }
    /// Whether more bytes may be taken from the network.
    pub fn wants_bytes(&self) -> bool {
        let full = self.capsule_held >= CAPSULE_HELD_MAX || self.throttled;
        let backlog_max = if self.is_unauthenticated() { UNAUTHENTICATED_BACKLOG_MAX } else { SEND_BACKLOG_MAX };
        let stopped = self.draining || self.phase == SessionPhase::Connecting || self.backlog >= backlog_max;
        !stopped && !(full && (self.memory_comes_back() || hooks::seeded(SeededFault::AskedNotRead)))
    }
    /// Whether memory comes back without a byte of the host: commands that run hold some, or data on its way to the host does. All the others
    /// wait for bytes of this connection; when it is only them, it is read on, by one capsule beyond what it may hold.
    #[cold]
    fn memory_comes_back(&self) -> bool {
        let waiting = self.slots.iter().filter(|(_, s)| s.stage != CommandStage::Running);
        self.held > waiting.map(|(_, s)| s.held).sum::<u32>()
    }
    /// Whether anybody might be at the other end: it is no queue, or one whose host has still to authenticate.
    pub fn is_unauthenticated(&self) -> bool {
        self.locked || matches!(self.kind, QueueKind::Fresh)
    }
    /// When the PDU that comes in began; `None` between PDUs.
    pub fn pdu_began(&self) -> Option<Instant> {
        self.is_mid_pdu().then_some(self.pdu_began)
    }
    /// The connection was not read for so long: the PDU that comes in has that much longer.
    pub fn give_time(&mut self, time: Duration) {
        self.pdu_began += time;
    }
    /// What its commands hold counts against this from now on.
    pub fn set_place(&mut self, place: Option<Place>) {
        self.place = place;
    }
    /// Whether it has a place in its host's quota.
    pub fn has_place(&self) -> bool {
        self.place.is_some()
    }
    /// Gives back memory that it has leased and does not use.
    pub fn trim_lease(&mut self) {
        if let Some(place) = &mut self.place {
            place.keep(self.held.into());
        }
    }
    /// Whether a command, in slot `at` unless it is new, may have `bytes` of buffers now. One always may, so that each queue goes on.
    fn may_hold(&mut self, at: Option<u16>, bytes: u32) -> bool {
        let (first, sum) = (self.held == 0, self.held + bytes);
        let most = match self.kind {
            _ if self.locked => UNAUTHENTICATED_HELD_MAX,
            QueueKind::Io(..) => hooks::tiny(DATA_HELD_MAX, 64 << 10),
            QueueKind::Admin(_) | QueueKind::Fresh => ADMIN_HELD_MAX,
        };
        let covered = (first || sum <= most) && self.place.as_mut().is_none_or(|place| place.covers(sum.into()));
        first || covered || self.is_alone(at)
    }
    /// Whether no buffers come back by themselves, for which the command in slot `at` (or a new one) could wait: all that is held belongs to it,
    /// to halves of pairs and to commands that wait too. False while a command runs: it is asked again when none does.
    #[cold]
    fn is_alone(&self, at: Option<u16>) -> bool {
        if self.running > 0 || hooks::seeded(SeededFault::OwnCapsuleAwaited) {
            return false;
        }
        let stays = |i: usize, stage| at == Some(i as u16) || matches!(stage, CommandStage::Waiting | CommandStage::Paired);
        self.held == self.slots.iter().filter(|(i, s)| stays(*i, s.stage)).map(|(_, s)| s.held).sum::<u32>()
    }
    /// Commands that a volume or the controller works on (event requests do not count).
    pub fn running(&self) -> u32 {
        self.running
    }
    /// Commands not answered.
    pub fn outstanding(&self) -> usize {
        self.slots.len()
    }
    /// Bytes of data buffers that commands hold.
    pub fn held(&self) -> u32 {
        self.held
    }
    /// No further byte is taken; what runs is answered.
    pub fn drain(&mut self) {
        self.draining = true;
    }
    /// A command that waits for an answer. `None` when the slot is free.
    pub fn sqe(&self, slot: u16) -> Option<&Sqe> {
        self.slots.get(usize::from(slot)).map(|s| &s.sqe)
    }
    /// The data that came with a command; empty when there was none.
    pub fn data(&self, slot: u16) -> &[u8] {
        self.slots.get(usize::from(slot)).and_then(|s| s.data.first()).map_or(&[], |d| &d.buf)
    }
    /// Says where in a command the cause of its failure is, before it is answered.
    pub fn blame(&mut self, slot: u16, at: ErrorLocation) {
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            slot.blame = at;
        }
    }
    /// Makes it a queue: its Connect command succeeded.
    pub fn admit(&mut self, kind: QueueKind, entries: u16, flow_control: bool) {
        if let QueueKind::Io(c, _) = &kind {
            self.ledger = Some(Ledger::open(&c.figures));
        }
        self.kind = kind;
        self.entries = entries;
        self.flow_control = flow_control;
        self.phase = SessionPhase::Live;
        self.namespaces_of = u64::MAX;
        self.cids = vec![0; 1024].into_boxed_slice();
    }
    /// Whether only authentication commands run: the host has not proved yet who it is (base 6.3, AUTHREQ).
    pub fn set_unauthenticated(&mut self, locked: bool) {
        self.locked = locked;
    }
    /// See [`Session::set_unauthenticated`].
    pub fn must_authenticate(&self) -> bool {
        self.locked
    }
    /// Back to waiting for a Connect command: it was refused.
    pub fn readmit(&mut self) {
        if self.phase == SessionPhase::Connecting {
            self.phase = SessionPhase::Fresh;
        }
    }
    /// Data of a new view is used from the next command on.
    fn refresh(&mut self, view: &View) {
        if self.namespaces_of == view.generation || hooks::seeded(SeededFault::RightsKept) && !self.namespaces.is_empty() {
            return;
        }
        self.namespaces_of = view.generation;
        self.last_ns = 0;
        if !hooks::seeded(SeededFault::DetachedKept) {
            self.namespaces.clear();
        }
        if let QueueKind::Io(c, _) = &self.kind
            && let Some(s) = view.subsystem(&c.subsystem)
        {
            let before = core::mem::replace(&mut self.namespaces, view.namespaces(s, &c.host_nqn));
            if hooks::seeded(SeededFault::DetachedKept) {
                let seen: Vec<u32> = self.namespaces.iter().map(|ns| ns.nsid).collect();
                self.namespaces.extend(before.into_iter().filter(|ns| !seen.contains(&ns.nsid)));
                self.namespaces.sort_by_key(|ns| ns.nsid);
            }
            let host = HostId::from_bytes(c.host_id);
            self.namespaces.iter_mut().for_each(|ns| ns.access = view.access(ns.volume, host));
        }
    }
    /// The controller that the queue belongs to.
    pub fn controller(&self) -> Option<&Arc<ControllerShared>> {
        match &self.kind {
            QueueKind::Fresh => None,
            QueueKind::Admin(c) | QueueKind::Io(c, _) => Some(c),
        }
    }
    fn mark_cid(&mut self, cid: u16, on: bool) {
        let (word, bit) = (usize::from(cid >> 6), 1u64 << (cid & 63));
        if let Some(w) = self.cids.get_mut(word) {
            *w = if on { *w | bit } else { *w & !bit };
        }
    }
    fn cid_in_use(&self, cid: u16) -> bool {
        self.cids.get(usize::from(cid >> 6)).is_some_and(|w| w & 1 << (cid & 63) != 0)
    }
    /// The slot of a command by its identifier.
    pub fn slot_of(&self, cid: u16) -> Option<u16> {
        self.slots.iter().find(|(_, s)| s.sqe.cid == cid).map(|(at, _)| at as u16)
    }
}

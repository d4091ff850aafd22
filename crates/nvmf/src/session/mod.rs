//! One connection: a state machine without I/O. Bytes in; PDUs, requests to volumes and calls to the controller out.
//!
//! Where it stands is a [`phase::SessionPhase`]. Each command is a slot: `Filling` (its capsule data comes in) → `Waiting` (for buffers) → `Asked` (R2T sent, H2CData comes in) →
//! `Running` (with the volume or the controller) → answered. A command skips the stages it does not need. On a volume with limits it waits for its turn
//! before it gets buffers (see `turn.rs`). The halves of a fused operation meet in `Paired` before they run as one (see `fused.rs`).
//!
//! Owns: the receive state, the slots, the lists of bytes to send.
//! Invariants: memory is bounded by the limits (data buffers by a quota for the connection, slots by the queue's size, unsent
//! bytes by not reading); a slot is freed when its response is written; what lengths say is checked before memory is taken. A connection
//! never waits for itself: it is read unless something that runs or is sent gives memory back, and one command gets buffers whatever waits.
//! Never: does I/O, reads a clock, knows about other connections.

mod abort;
mod command;
mod copy;
mod copy_plan;
mod fence;
mod fused;
mod fusing;
mod incoming;
mod judge;
mod left;
mod memory;
mod outgoing;
mod phase;
mod queue;
mod receive;
mod reply;
mod slot;
mod slots;
mod status;
mod trim;
mod turn;

pub use left::{Left, settle};
pub use queue::{IoQueue, QueueKind};
pub use slot::CommandSlot;
pub(crate) use status::status_of_refusal;

use crate::limits::{ADMIN_HELD_MAX, SEND_BACKLOG_MAX, UNAUTHENTICATED_BACKLOG_MAX};
use crate::shared::ControllerShared;
use crate::stats::TargetStats;
use crate::view::View;
use base::hooks::{self, SeededFault};
use base::{Duration, Instant};
use format::nvme::Sqe;
use format::nvme::log::ErrorLocation;
use format::nvme_tcp::Digests;
use frontend::Place;
use incoming::Incoming;
use memory::HeldMemory;
use object::IoRequest;
use outgoing::Outgoing;
use phase::{Link, PhaseStep, Ring, SessionPhase};
use queue::Queue;
use slots::Slots;
use std::sync::Arc;

/// What a session may use while it works, and where its outputs go.
pub struct Cx<'a> {
    /// The time.
    pub now: Instant,
    /// What is served.
    pub view: &'a Arc<View>,
    /// Requests to volumes.
    pub ios: &'a mut Vec<IoRequest>,
    /// Calls to the controller: the slot of a command that is whole, with the token of its session.
    pub calls: &'a mut Vec<(u64, Call)>,
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

/// One connection.
pub struct Session {
    /// Goes in the upper bits of request tokens; the low 16 are the slot.
    token_base: u64,
    phase: SessionPhase,
    incoming: Incoming,
    slots: Slots,
    memory: HeldMemory,
    outgoing: Outgoing,
    /// No further byte is taken.
    draining: bool,
    /// Requests that had not come back when the session ended.
    left: Vec<Left>,
}

impl Session {
    /// A connection that was just accepted. `token` goes in the upper bits of request tokens; the low 16 are the slot.
    pub fn new(token: u64) -> Self {
        assert!(token & 0xFFFF == 0, "the low bits are the slot's");
        Self {
            token_base: token,
            phase: SessionPhase::AwaitIc,
            incoming: Incoming::new(),
            slots: Slots::new(),
            memory: HeldMemory::new(),
            outgoing: Outgoing::new(),
            draining: false,
            left: Vec::new(),
        }
    }
    /// Whether nothing of it has effect any more: a termination request was sent or received, or it was ended.
    #[inline]
    pub fn is_ended(&self) -> bool {
        self.phase.is_ended()
    }
    /// Whether nothing but a Connect command has effect.
    pub fn is_fresh(&self) -> bool {
        self.phase.is_fresh()
    }
    /// Whether a Connect command is being judged.
    pub fn is_connecting(&self) -> bool {
        self.phase.is_connecting()
    }
    /// Whether it is no queue yet.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.phase, SessionPhase::AwaitIc | SessionPhase::Fresh(_) | SessionPhase::Connecting(_))
    }
    /// Whether it is a queue and works as one.
    pub fn is_live(&self) -> bool {
        matches!(self.phase, SessionPhase::Live(_))
    }
    /// What queue it is, or was when it ended. `None`: it has never been one.
    #[inline]
    pub fn kind(&self) -> Option<&QueueKind> {
        self.phase.queue().map(|queue| &queue.kind)
    }
    /// Entries of the queue; of a connection that is none yet, commands that it may send.
    #[inline]
    fn entries(&self) -> u16 {
        self.phase.link().map_or(0, |link| link.ring.entries())
    }
    /// Digests in force.
    pub fn digests(&self) -> Digests {
        self.phase.link().map(Link::digests).unwrap_or_default()
    }
    /// Whether a PDU has begun and not ended.
    pub fn is_mid_pdu(&self) -> bool {
        self.incoming.is_mid_pdu()
    }
    /// Whether more bytes may be taken from the network.
    pub fn wants_bytes(&self) -> bool {
        let backlog_max = if self.is_unauthenticated() { UNAUTHENTICATED_BACKLOG_MAX } else { SEND_BACKLOG_MAX };
        let stopped = self.draining || self.phase.is_connecting() || self.outgoing.backlog() >= backlog_max;
        !stopped && !(self.memory.is_full() && (self.memory_comes_back() || hooks::seeded(SeededFault::AskedNotRead)))
    }
    /// Whether memory comes back without a byte of the host: commands that are worked on hold some, or data on its way to the host does. All the
    /// others wait for bytes of this connection; when it is only them, it is read on, by one capsule beyond what it may hold.
    #[cold]
    fn memory_comes_back(&self) -> bool {
        self.memory.held() > self.slots.held_by_idle()
    }
    /// Whether anybody might be at the other end: it is no queue, or one whose host has still to authenticate.
    pub fn is_unauthenticated(&self) -> bool {
        self.phase.queue().is_none_or(Queue::is_locked)
    }
    /// When the PDU that comes in began; `None` between PDUs.
    pub fn pdu_began(&self) -> Option<Instant> {
        self.incoming.began()
    }
    /// The connection was not read for so long: the PDU that comes in has that much longer.
    pub fn give_time(&mut self, time: Duration) {
        self.incoming.give_time(time);
    }
    /// What its commands hold counts against this from now on.
    pub fn set_place(&mut self, place: Option<Place>) {
        self.memory.set_place(place);
    }
    /// Whether it has a place in its host's quota.
    pub fn has_place(&self) -> bool {
        self.memory.has_place()
    }
    /// Gives back memory that it has leased and does not use.
    pub fn trim_lease(&mut self) {
        self.memory.trim_lease();
    }
    /// Whether a command, in slot `at` unless it is new, may have `bytes` of buffers now. One always may, so that each queue goes on.
    #[inline]
    fn may_hold(&mut self, at: Option<u16>, bytes: u32) -> bool {
        self.memory.has_room(bytes) || self.slots.is_alone(at, self.memory.asked())
    }
    /// Commands that a volume or the controller works on (event requests do not count).
    pub fn running(&self) -> u32 {
        self.slots.running()
    }
    /// Commands not answered.
    pub fn outstanding(&self) -> usize {
        self.slots.len()
    }
    /// Bytes of data buffers that commands hold.
    pub fn held(&self) -> u32 {
        self.memory.held()
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
    /// Makes it a queue: its Connect command succeeded. It must be [`Session::is_connecting`].
    pub fn admit(&mut self, kind: QueueKind, entries: u16, flow_control: bool) {
        self.phase.enter(PhaseStep::Admit(kind, Ring::new(entries, flow_control)));
        self.limit_memory();
    }
    /// Whether only authentication commands run on the queue: the host has not proved yet who it is (base 6.3, AUTHREQ).
    pub fn set_unauthenticated(&mut self, locked: bool) {
        if let Some(queue) = self.phase.queue_mut() {
            queue.set_locked(locked);
        }
        self.limit_memory();
    }
    fn limit_memory(&mut self) {
        self.memory.set_most(self.phase.queue().map_or(ADMIN_HELD_MAX, Queue::held_max));
    }
    /// See [`Session::set_unauthenticated`].
    pub fn must_authenticate(&self) -> bool {
        self.phase.queue().is_some_and(Queue::is_locked)
    }
    /// Back to waiting for a Connect command: it was refused.
    pub fn readmit(&mut self) {
        if self.phase.is_connecting() {
            self.phase.enter(PhaseStep::Refuse);
        }
    }
    fn io_queue(&mut self) -> Option<&mut IoQueue> {
        self.phase.queue_mut().and_then(|queue| queue.kind.as_io_mut())
    }
    /// The controller that the queue belongs to.
    #[inline]
    pub fn controller(&self) -> Option<&Arc<ControllerShared>> {
        self.kind().map(QueueKind::controller)
    }
    #[inline]
    fn free_cid(&mut self, cid: u16) {
        if let SessionPhase::Live(queue) = &mut self.phase {
            queue.free_cid(cid);
        }
    }
    /// The slot of a command by its identifier.
    pub fn slot_of(&self, cid: u16) -> Option<u16> {
        self.slots.iter().find(|(_, s)| s.sqe.cid == cid).map(|(at, _)| at)
    }
}

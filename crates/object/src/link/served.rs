//! The requests of the other node: what has come, what has begun.
//!
//! ```text
//!            whole             may begin           answered
//!  Arriving ───────► Queued ─────────────► Begun ───────────► Free
//!     │                 └─ may not, or let go ─────────────────► Free
//!     └─ the session ended ──────────────────────────────────────► Free
//! ```
//!
//! Invariants: a request begins at most once; one that was cancelled, is too old, was judged by another view, or whose session is over never does;
//! what a request holds is given back once.
//! Never: writes messages; keeps data.

use super::credit::Held;
use super::limits::STAMP_AGE_MAX;
use super::request::ForwardError;
use base::Instant;
use base::hooks::{self, SeededFault};
use format::peer::{Forward, RequestId, Revision, SEGMENTS_MAX};

/// Why a request may not begin. It never will; its data can be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// Its session is over, or it has been dropped already.
    #[error("its link session is over")]
    LinkLost,
    /// The requester has cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// Its stamp is too old.
    #[error("too old to begin")]
    TooOld,
    /// The requester had another view of the volume.
    #[error("judged by another view of the volume")]
    Stale,
}

impl NotBegun {
    /// As the requester is answered; `None` when there is nobody to answer.
    pub(super) fn error(self) -> Option<ForwardError> {
        match self {
            NotBegun::LinkLost => None,
            NotBegun::Cancelled => Some(ForwardError::Cancelled),
            NotBegun::TooOld => Some(ForwardError::TooOld),
            NotBegun::Stale => Some(ForwardError::Stale),
        }
    }
}

/// Where a request stands.
#[derive(Clone, Copy, Debug)]
enum ServedStage {
    Free,
    Arriving,
    Queued { wanted: bool },
    Begun { wanted: bool },
}

#[derive(Clone, Copy, Debug)]
struct ServedSlot {
    id: RequestId,
    stage: ServedStage,
    stamp: Instant,
    revision: Revision,
    held: Held,
    answer_bytes: [u32; SEGMENTS_MAX],
}

/// See the module.
#[derive(Debug)]
pub(super) struct Served {
    slots: Vec<ServedSlot>,
    last_serial: u64,
    /// Slots that are not free.
    live: u32,
}

/// Whether a stamp lets a request begin at `now`, both by the clock of this node. One of the future is none of ours, beyond what cores differ by.
fn is_fresh(stamp: Instant, now: Instant) -> bool {
    now.since(stamp) <= STAMP_AGE_MAX && stamp.since(now) <= STAMP_AGE_MAX
}

impl Served {
    /// For so many requests at a time.
    pub(super) fn new(ops: u32) -> Served {
        let slot = ServedSlot {
            id: RequestId(0),
            stage: ServedStage::Free,
            stamp: Instant(0),
            revision: Revision(0),
            held: Held::default(),
            answer_bytes: [0; SEGMENTS_MAX],
        };
        Served { slots: vec![slot; ops as usize], last_serial: 0, live: 0 }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }
    fn get(&mut self, id: RequestId) -> Option<&mut ServedSlot> {
        let slot = self.slots.get_mut(usize::from(id.slot()))?;
        (slot.id == id && !matches!(slot.stage, ServedStage::Free)).then_some(slot)
    }
    /// The body of a request has come. Whether its number is one that the requester may use.
    #[must_use]
    pub(super) fn arrive(&mut self, forward: &Forward) -> bool {
        let id = forward.request;
        let Some(slot) = self.slots.get_mut(usize::from(id.slot())) else { return false };
        if !matches!(slot.stage, ServedStage::Free) || id.serial() <= self.last_serial {
            return false;
        }
        self.last_serial = id.serial();
        self.live += 1;
        let &Forward { stamp, revision, .. } = forward;
        let (held, answer_bytes) = (Held::one(forward.cost()), forward.answer_bytes());
        *slot = ServedSlot { id, stage: ServedStage::Arriving, stamp, revision, held, answer_bytes };
        true
    }
    /// Its data is there, and `now` it waits for its turn.
    pub(super) fn queue(&mut self, id: RequestId, now: Instant) {
        let slot = self.get(id).expect("its body has come");
        debug_assert!(matches!(slot.stage, ServedStage::Arriving));
        slot.stage = ServedStage::Queued { wanted: true };
        if hooks::seeded(SeededFault::AgeJudgedOnArrival) && is_fresh(slot.stamp, now) {
            slot.stamp = Instant(u64::MAX);
        }
    }
    /// Whether a request may begin now. If so, it has.
    pub(super) fn begin(&mut self, id: RequestId, now: Instant, revision: Revision) -> Result<(), NotBegun> {
        let slot = self.get(id).ok_or(NotBegun::LinkLost)?;
        let ServedStage::Queued { wanted } = slot.stage else { panic!("a request begins once, when it is whole") };
        let judged_before = hooks::seeded(SeededFault::AgeJudgedOnArrival) && slot.stamp == Instant(u64::MAX);
        if !wanted && !hooks::seeded(SeededFault::CancelledBegins) {
            return Err(NotBegun::Cancelled);
        }
        if !is_fresh(slot.stamp, now) && !judged_before && !hooks::seeded(SeededFault::StampNotCompared) {
            return Err(NotBegun::TooOld);
        }
        if slot.revision != revision && !hooks::seeded(SeededFault::ViewRevisionNotCompared) {
            return Err(NotBegun::Stale);
        }
        slot.stage = ServedStage::Begun { wanted };
        Ok(())
    }
    /// The requester wants it no longer. Whether it waits, and so will not begin.
    pub(super) fn cancel(&mut self, id: RequestId) -> bool {
        let Some(slot) = self.get(id) else { return false };
        match &mut slot.stage {
            ServedStage::Queued { wanted } => {
                *wanted = false;
                true
            }
            ServedStage::Begun { wanted } => {
                *wanted = false;
                false
            }
            ServedStage::Free | ServedStage::Arriving => false,
        }
    }
    /// Whether somebody waits for its answer still.
    pub(super) fn is_wanted(&mut self, id: RequestId) -> bool {
        self.get(id).is_some_and(|slot| matches!(slot.stage, ServedStage::Queued { wanted: true } | ServedStage::Begun { wanted: true }))
    }
    /// It is over: whether it had begun, what it held, and how much data its answer has. `None`: it was over before.
    pub(super) fn end(&mut self, id: RequestId) -> Option<(bool, Held, [u32; SEGMENTS_MAX])> {
        let slot = self.get(id)?;
        let begun = matches!(slot.stage, ServedStage::Begun { .. });
        slot.stage = ServedStage::Free;
        let out = (begun, slot.held, slot.answer_bytes);
        self.live -= 1;
        Some(out)
    }
    /// The session is over: what has come only in part is dropped.
    pub(super) fn session_ended(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| matches!(slot.stage, ServedStage::Arriving)) {
            slot.stage = ServedStage::Free;
            self.live -= 1;
        }
    }
    /// What the session has left under way, when it is over.
    pub(super) fn left(&self) -> impl Iterator<Item = (RequestId, Held)> + '_ {
        self.slots.iter().filter(|slot| !matches!(slot.stage, ServedStage::Free)).map(|slot| (slot.id, slot.held))
    }
}

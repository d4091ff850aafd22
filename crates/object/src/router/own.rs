//! Requests that no host has made: what the node asks of its own volumes, and changes that go to the other place of a volume too; and volumes that are
//! held, so that no request of a host begins.
//!
//! Invariants: what is held begins in the order in which it came, judged anew; no limit holds up what the node asks.
//! Never: asks another node.

use super::{AskedFor, HeldBack, Judged, VolumeRouter};
use crate::fill::Follow;
use crate::io::{IoError, IoOp, IoRequest, VolumeRef};
use crate::lanes::Blocks;
use crate::layout::Mirror;
use crate::part::range_bytes;
use crate::pieces::{Pieces, WINDOW_PIECES};
use base::Epoch;
use base::hooks::{self, SeededFault};
use base::unit::BlockNo;
use format::peer::ChangeVerb;
use rt::Rt;
use std::ops::Range;
use std::sync::Arc;

/// See [`VolumeRouter::holding`].
pub const HOLDING_MAX: u64 = WINDOW_PIECES;

impl<S: Blocks> VolumeRouter<S> {
    /// A request of the node's own to a volume that it owns in this term: no limit and no write protection holds it up. Answered through
    /// [`VolumeRouter::pop_own`].
    ///
    /// # Errors
    /// The volume is not served here in this term, or ends before.
    pub fn submit_own(&mut self, rt: &Rt, token: u64, volume: VolumeRef, term: Epoch, op: IoOp) -> Result<(), IoError> {
        self.start_own(rt, IoRequest { token, volume, op, counted: true }, term, AskedFor::Node)
    }
    fn start_own(&mut self, rt: &Rt, request: IoRequest, term: Epoch, by: AskedFor) -> Result<(), IoError> {
        let layout = self.view.get(request.volume).ok_or(IoError::NoVolume)?;
        if layout.mirrors.is_empty() || term != layout.ownership.term && !hooks::seeded(SeededFault::FollowInLaterTerm) {
            return Err(IoError::NotOwner);
        }
        let (offset, bytes) = request.op.range();
        if offset.checked_add(bytes).is_none_or(|end| end > layout.bytes) {
            return Err(IoError::OutOfRange);
        }
        let layout = Arc::clone(layout);
        self.start(rt, request, Judged { layout, bytes }, rt.now(), by);
        Ok(())
    }
    /// Of a window of at most [`HOLDING_MAX`] pieces of a volume, those that may hold something as far as this core knows: all, where no copy in sync is on
    /// this node. A change that is answered while cores are asked may be missing.
    pub fn holding(&self, volume: VolumeRef, window: &Range<u64>) -> Vec<u64> {
        let found = self.layout(volume).map_or_else(|| Pieces::all(window), |layout| self.look(layout, window, Mirror::in_sync_here));
        let mut next = window.start;
        let each = core::iter::from_fn(|| {
            let piece = found.next(next)?;
            next = piece + 1;
            Some(piece)
        });
        each.collect()
    }
    /// From now on no request of a volume begins, until [`VolumeRouter::release`].
    pub fn hold(&mut self, volume: VolumeRef) {
        self.holds.entry(volume).or_default();
    }
    /// Whether no request of a front end to a volume is under way on this core.
    pub fn is_quiet(&self, volume: VolumeRef) -> bool {
        let is_of_hosts = |request: &super::Request| request.volume == volume && request.by == AskedFor::Host;
        !self.requests.iter().any(|(_, request)| is_of_hosts(request)) || hooks::seeded(SeededFault::HeldTakenForQuiet)
    }
    /// What has waited begins, in order, by what is served now. `may_begin` is as in [`VolumeRouter::poll`].
    pub fn release(&mut self, rt: &Rt, volume: VolumeRef, mut may_begin: impl FnMut(&IoRequest) -> bool) {
        for HeldBack { request, since } in self.holds.remove(&volume).into_iter().flatten() {
            if let Some(judged) = self.judge_held(&request, &mut may_begin) {
                self.start(rt, request, judged, since, AskedFor::Host);
            }
        }
    }
    /// Changes that have ended where they lie go to the other place of their volume.
    #[cold]
    #[inline(never)]
    pub(super) fn send_follows(&mut self, rt: &Rt) -> bool {
        let mut any = false;
        while let Some(Follow { id, serial, fill, range, verb, data }) = self.lanes.pop_follow() {
            any = true;
            let (offset, len) = (BlockNo(range.block).offset(), range_bytes(&range) as u64);
            let op = match (verb, data) {
                (ChangeVerb::Write, Some(data)) => IoOp::Write { offset, data: [data].into_iter().collect() },
                (ChangeVerb::Zero, _) => IoOp::Zero { offset, len },
                (ChangeVerb::Uncorrectable, _) => IoOp::Uncorrectable { offset, len },
                _ => IoOp::Trim { offset, len },
            };
            let token = u64::from(serial) << 32 | u64::from(id);
            let request = IoRequest { token, volume: fill.to, op, counted: true };
            if let Err(error) = self.start_own(rt, request, fill.to_term, AskedFor::Change(fill.from)) {
                self.lanes.followed(rt, fill.from, token, Err(error));
            }
        }
        any
    }
}

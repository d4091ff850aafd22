//! Copies of this node at work, for the owner of their object here or elsewhere: what comes to a shard, and how that was done.
//!
//! ```text
//!  change ─► fenced? ─► epoch accepted? ─► shard: carries it out, or has it, or is at it ─► durable ─► answered
//!                          └ a later one, of the owner whose epoch it was: the shard accepts that first; the change comes again
//! ```
//!
//! Owns: what shards of this core are at ([`AtWork`]), and the epochs that they accept because of a change ([`Holder`]).
//! Invariants: what a copy has, and which epochs it has accepted, the store alone knows: a change that comes again is answered by it, when it is
//! durable. At most [`WORKS_MAX`] requests of other nodes are with the shards of a core.
//! Never: knows who may send.

use super::accept::ACCEPTS;
use super::{COPIED, Copies, CopyAnswer, CopyMsg, ReplyTo, Work, Worked};
use crate::io::Data;
use crate::lanes::{Blocks, Lanes};
use crate::layout::{ComponentAt, GroupSlot};
use base::hooks::{self, SeededFault};
use base::unit::{BLOCK_BYTES, BlockNo};
use base::{Epoch, Instant, Lane, NodeId, Order, SourceContent, SourceRun};
use format::peer::CopyOutcome;
use rt::{Buf, Rt};
use std::collections::BTreeMap;
use store::{ComponentNo, CopySync, OpKind, ReplicaView, ShardDone, ShardOp, StoreError};

/// Operations of other nodes with the shards of one core. Beyond, they are to come again.
const WORKS_MAX: usize = 8192;

/// A shard of a group.
pub(super) type ShardAt = (GroupSlot, u8);
/// A component in a shard.
pub(super) type InShard = (GroupSlot, u8, ComponentNo);

/// The highest epoch that a component in a shard is asked to accept because a change has come in it.
#[derive(Debug, Default)]
pub(super) struct Holder(BTreeMap<InShard, Epoch>);

impl Holder {
    /// The shard has answered.
    pub fn ended(&mut self, of: InShard, epoch: Epoch) {
        if self.0.get(&of) == Some(&epoch) {
            self.0.remove(&of);
        }
    }
}

/// What a shard is at.
#[derive(Debug)]
pub(super) struct AtWork {
    /// `None`: who had asked has heard that it is late.
    pub(super) reply: Option<ReplyTo>,
    /// When it came.
    pub(super) since: Instant,
    order: Order,
    at: ComponentAt,
    shard: u8,
    changes: bool,
    /// What the blocks hold that are read.
    run: Option<SourceRun>,
}

impl AtWork {
    /// The shard that is at it.
    pub(super) const fn in_shard(&self) -> ShardAt {
        (self.at.group, self.shard)
    }
}

impl Copies {
    /// To who has asked.
    pub(super) fn deliver(&mut self, rt: &Rt, worked: Worked) -> Option<Worked> {
        let core = worked.reply.core();
        if core != self.core {
            self.msgs.push_back((core, CopyMsg::Worked(worked)));
            rt.wake(self.core);
            return None;
        }
        if let ReplyTo::Node { token, .. } = worked.reply {
            self.answers.push_back((token, worked.answer));
            rt.wake(self.core);
            return None;
        }
        Some(worked)
    }
}

impl<S: Blocks> Lanes<S> {
    /// Something is for a shard of this core.
    pub(super) fn work(&mut self, rt: &Rt, work: Work) {
        if let Some(outcome) = self.not_now(rt, &work) {
            return self.worked(rt, Worked { reply: work.reply, answer: outcome.into() });
        }
        let Work { at, shard, block, mut blocks, order, kind, reply, run, .. } = work;
        let changes = !matches!(kind, OpKind::Read { .. });
        let found = match self.shard_mut(at.group, shard) {
            Some(shard) if run => Some(shard.source_run(at.no, BlockNo(block), blocks)),
            _ => None,
        };
        if let Some(run) = found {
            if run.content != SourceContent::Data {
                let answer = CopyAnswer { run: found, ..CopyOutcome::Done.into() };
                return self.worked(rt, Worked { reply, answer });
            }
            blocks = run.blocks;
        }
        let kind = match kind {
            OpKind::Read { .. } => OpKind::Read { buf: Buf::alloc(blocks as usize * BLOCK_BYTES) },
            kind => kind,
        };
        let copies = self.copies(rt);
        if let (true, ReplyTo::Node { .. }) = (changes, reply) {
            copies.stats.held_changes += 1;
        }
        let cookie = u64::from(
            copies.works.insert(AtWork { reply: Some(reply), since: rt.now(), order, at, shard, changes, run: found }) as u32 | COPIED,
        );
        self.watch_shards(rt);
        let order = if changes { order } else { Order::default() };
        let op = ShardOp { cookie, component: at.no, block: BlockNo(block), blocks, order, kind };
        match self.shard_mut(at.group, shard) {
            Some(shard) => shard.submit(rt, op),
            None => self.on_copy_store(rt, ShardDone { cookie, result: Err(StoreError::Closing), buf: None, crcs: Default::default() }),
        }
    }
    /// Why something does not go to a shard. What the store can say is left to it.
    fn not_now(&mut self, rt: &Rt, work: &Work) -> Option<CopyOutcome> {
        let &Work { at, shard, block, order, ref kind, ref reply, resync, run, .. } = work;
        let changes = !matches!(kind, OpKind::Read { .. });
        let copy = self.shard_mut(at.group, shard)?;
        let view = copy.replica(at.no);
        let gone = view.is_none() && copy.newest(at.no, Lane::of(BlockNo(block))).is_none();
        let stamped = view.is_none_or(|view| view.durable >= order.epoch) || hooks::seeded(SeededFault::SourceNotStamped);
        let &ReplyTo::Node { from, .. } = reply else {
            // Of the owner here. Its copies in sync are fenced with each epoch; one under resync hears of it with the first change, as others do.
            let rises = view.filter(|view| changes && resync && order.epoch > view.accepted);
            if let Some(view) = rises {
                self.rises(rt, view.by.node, (at.group, shard, at.no), &order, &view, true);
            }
            // What it copies from is stamped.
            return (run && !stamped || rises.is_some()).then_some(CopyOutcome::Closing);
        };
        let copies = self.copies(rt);
        let Some(view) = view else {
            return Some(if gone { CopyOutcome::NoComponent } else { CopyOutcome::Closing });
        };
        if !changes && order.epoch < view.accepted && !hooks::seeded(SeededFault::StaleOwnerCarriedOut) {
            copies.stats.held_refused += 1;
            return Some(CopyOutcome::StaleEpoch(view.accepted));
        }
        if copies.works.len() >= WORKS_MAX {
            return Some(CopyOutcome::Closing);
        }
        let waits = (changes && order.epoch > view.accepted) || run && !stamped;
        if waits {
            self.rises(rt, from, (at.group, shard, at.no), &order, &view, resync && changes);
        }
        waits.then_some(CopyOutcome::Closing)
    }
    /// A later epoch of the owner whose epoch was accepted last: the shard accepts it at once. Any other is fenced first.
    #[cold]
    #[inline(never)]
    fn rises(&mut self, rt: &Rt, from: NodeId, of: InShard, order: &Order, view: &ReplicaView, resync: bool) {
        let copies = self.copies(rt);
        let known = copies.holder.0.get(&of).is_some_and(|under_way| *under_way >= order.epoch);
        if known || view.by.node != from || order.epoch <= view.accepted {
            return;
        }
        copies.holder.0.insert(of, order.epoch);
        let sync = if resync { CopySync::Keep } else { CopySync::InSync };
        self.accept_for_change(rt, of, Order { epoch: order.epoch, period_start: order.period_start, ..Order::default() }, view.by, sync);
    }
    /// A shard has answered.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_copy_store(&mut self, rt: &Rt, done: ShardDone) {
        if done.cookie & ACCEPTS != 0 {
            return self.epoch_accepted(rt, &done);
        }
        let AtWork { reply, order, at, shard, changes, run, .. } = self.copies(rt).works.remove((done.cookie as u32 & !COPIED) as usize);
        let Some(reply) = reply else { return };
        let mut accepted = || self.shard_mut(at.group, shard).and_then(|shard| shard.replica(at.no)).map(|view| view.accepted);
        let outcome = match done.result {
            Ok(()) => CopyOutcome::Done,
            // Of a component that is no copy it is not known which.
            Err(StoreError::StaleEpoch) => CopyOutcome::StaleEpoch(accepted().unwrap_or(Epoch(order.epoch.0 + 1))),
            Err(error) => outcome(&error),
        };
        let refused = matches!((outcome, reply), (CopyOutcome::StaleEpoch(_), ReplyTo::Node { .. }));
        self.copies(rt).stats.held_refused += u64::from(refused);
        let done_read = outcome == CopyOutcome::Done && !changes;
        let data = done.buf.filter(|_| done_read).map(|buf| Data { buf, crcs: done.crcs });
        let answer = CopyAnswer { outcome, data, run: run.filter(|_| done_read), list: None };
        self.worked(rt, Worked { reply, answer });
    }
    /// Somebody hears how it went.
    pub(super) fn worked(&mut self, rt: &Rt, worked: Worked) {
        let Some(Worked { reply, answer }) = self.copies(rt).deliver(rt, worked) else { return };
        if let ReplyTo::Part { of, .. } = reply {
            self.copy_answered(rt, of, answer);
        }
    }
}

/// As a copy says it.
fn outcome(error: &StoreError) -> CopyOutcome {
    match error {
        StoreError::NoSpace => CopyOutcome::NoSpace,
        StoreError::Media { block } => CopyOutcome::Media(*block),
        StoreError::Uncorrectable { block } => CopyOutcome::Uncorrectable(*block),
        StoreError::DeviceFailed | StoreError::BadChange => CopyOutcome::Failed,
        StoreError::NoComponent => CopyOutcome::NoComponent,
        // Not now: it is to come again. What epoch it is that was accepted is said elsewhere.
        StoreError::StaleEpoch | StoreError::Closing | StoreError::EpochNotAccepted | StoreError::TooManyInDoubt => CopyOutcome::Closing,
    }
}

//! Copies of this node at work, for the owner of their object here or elsewhere: what comes to a shard, and what was done already.
//!
//! Owns: [`Holder`]: of each component and lane that another owner changes, the numbers above its mark that are there or under way. Until the store
//! knows what it has by number, this is the one place that does.
//! Invariants: a change is carried out once, whatever comes twice; nothing of a lower epoch than was accepted is; numbers come to a shard in their
//! order, as they come over one link. At most [`IN_DOUBT_MAX`] of a lane are remembered.
//! Never: knows who may send.

use super::accept::ACCEPTS;
use super::{COPIED, Copies, CopyAnswer, CopyMsg, ReplyTo, Work, Worked};
use crate::io::Data;
use crate::lanes::{Blocks, Lanes};
use crate::layout::ComponentAt;
use crate::order::IN_DOUBT_MAX;
use base::hooks::{self, SeededFault};
use base::unit::{BLOCK_BYTES, BlockNo};
use base::{Epoch, Lane, Order, Seq};
use format::peer::CopyOutcome;
use rt::{Buf, Rt};
use std::collections::{BTreeMap, BTreeSet};
use store::{OpKind, ShardDone, ShardOp, StoreError};

/// Operations of other nodes with the shards of one core. Beyond, they are to come again.
const WORKS_MAX: usize = 8192;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Holder(BTreeMap<(u16, u32), Held>);

/// A component, on the core of some of its shards.
#[derive(Debug, Default)]
struct Held {
    /// The highest epoch in which it was changed here.
    accepted: Epoch,
    lanes: BTreeMap<Lane, Window>,
}

/// A lane of it.
#[derive(Debug, Default)]
struct Window {
    /// Everything up to here is there.
    base: Seq,
    /// Above it.
    there: BTreeSet<Seq>,
    /// Under way, with all who wait for it.
    running: BTreeMap<Seq, Vec<ReplyTo>>,
}

/// What a change is to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    New,
    There,
    UnderWay,
    TooMany,
}

impl Window {
    fn meet(&mut self, order: &Order, reply: ReplyTo) -> Met {
        let Order { seq, mark, .. } = *order;
        self.base = self.base.max(mark);
        self.there.retain(|there| *there > mark);
        if seq <= self.base || self.there.contains(&seq) {
            return Met::There;
        }
        if let Some(waiting) = self.running.get_mut(&seq) {
            waiting.push(reply);
            return Met::UnderWay;
        }
        if self.there.len() + self.running.len() >= IN_DOUBT_MAX {
            return Met::TooMany;
        }
        self.running.insert(seq, Vec::new());
        Met::New
    }
    fn ended(&mut self, seq: Seq, done: bool) -> Vec<ReplyTo> {
        if done && seq > self.base {
            self.there.insert(seq);
        }
        self.running.remove(&seq).unwrap_or_default()
    }
}

fn key(at: ComponentAt) -> (u16, u32) {
    (at.group.0, at.no.0)
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
        let Work { at, shard, block, blocks, order, kind, reply, .. } = work;
        let lane = Lane::of(BlockNo(block));
        let changes = !matches!(kind, OpKind::Read { .. });
        let before = if changes { self.shard_mut(at.group, shard).and_then(|shard| shard.newest(at.no, lane)) } else { None };
        let unfenced = matches!(kind, OpKind::Range(_)) && !self.shard_mut(at.group, shard).is_some_and(|shard| shard.is_copy(at.no));
        let copies = self.copies(rt);
        if let ReplyTo::Node { .. } = reply {
            let held = copies.holder.0.entry(key(at)).or_default();
            let refused = if order.epoch < held.accepted && !hooks::seeded(SeededFault::StaleOwnerCarriedOut) {
                copies.stats.held_refused += 1;
                Some(CopyOutcome::StaleEpoch(held.accepted))
            } else if unfenced || copies.works.len() >= WORKS_MAX {
                Some(CopyOutcome::Closing)
            } else if changes {
                held.accepted = held.accepted.max(order.epoch);
                let base = before.unwrap_or_default();
                let window = held.lanes.entry(lane).or_insert_with(|| Window { base, ..Window::default() });
                match window.meet(&order, reply) {
                    Met::New => None,
                    Met::There => {
                        copies.stats.held_again += 1;
                        Some(CopyOutcome::Done)
                    }
                    Met::UnderWay => return copies.stats.held_again += 1,
                    Met::TooMany => Some(CopyOutcome::Closing),
                }
            } else {
                None
            };
            if let Some(outcome) = refused {
                return self.worked(rt, Worked { reply, answer: outcome.into() });
            }
            self.copies(rt).stats.held_changes += u64::from(changes);
        }
        let kind = match kind {
            OpKind::Read { .. } => OpKind::Read { buf: Buf::alloc(blocks as usize * BLOCK_BYTES) },
            kind => kind,
        };
        let cookie = u64::from(self.copies(rt).works.insert((reply, order, at, block)) as u32 | COPIED);
        let order = if changes { order } else { Order::default() };
        let op = ShardOp { cookie, component: at.no, block: BlockNo(block), blocks, order, kind };
        match self.shard_mut(at.group, shard) {
            Some(shard) => shard.submit(rt, op),
            None => self.on_copy_store(rt, ShardDone { cookie, result: Err(StoreError::Closing), buf: None, crcs: Default::default() }),
        }
    }
    /// A shard has answered.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_copy_store(&mut self, rt: &Rt, done: ShardDone) {
        if done.cookie & ACCEPTS != 0 {
            return self.epoch_accepted(rt, &done);
        }
        let copies = self.copies(rt);
        let (reply, order, at, block) = copies.works.remove((done.cookie as u32 & !COPIED) as usize);
        let held = copies.holder.0.get_mut(&key(at));
        let accepted = held.as_ref().map_or(Epoch(0), |held| held.accepted).max(Epoch(order.epoch.0 + 1));
        let outcome = done.result.map_or_else(|error| outcome(&error, accepted), |()| CopyOutcome::Done);
        let reads = order.seq.counter == 0;
        let data = done.buf.filter(|_| reads && outcome == CopyOutcome::Done).map(|buf| Data { buf, crcs: done.crcs });
        let again = match held.and_then(|held| held.lanes.get_mut(&Lane::of(BlockNo(block)))) {
            Some(window) if !reads && matches!(reply, ReplyTo::Node { .. }) => window.ended(order.seq, outcome == CopyOutcome::Done),
            _ => Vec::new(),
        };
        for reply in again {
            self.worked(rt, Worked { reply, answer: outcome.into() });
        }
        self.worked(rt, Worked { reply, answer: CopyAnswer { outcome, data } });
    }
    /// Somebody hears how it went.
    pub(super) fn worked(&mut self, rt: &Rt, worked: Worked) {
        let Some(Worked { reply, answer }) = self.copies(rt).deliver(rt, worked) else { return };
        if let ReplyTo::Part { id, serial, component, .. } = reply {
            self.copy_answered(rt, id, serial, component, answer);
        }
    }
}

/// As a copy says it. `accepted`: an epoch that it has at least accepted, when it refuses one.
fn outcome(error: &StoreError, accepted: Epoch) -> CopyOutcome {
    match error {
        StoreError::NoSpace => CopyOutcome::NoSpace,
        StoreError::Media { block } => CopyOutcome::Media(*block),
        StoreError::Uncorrectable { block } => CopyOutcome::Uncorrectable(*block),
        StoreError::DeviceFailed | StoreError::BadChange => CopyOutcome::Failed,
        StoreError::NoComponent => CopyOutcome::NoComponent,
        StoreError::StaleEpoch => CopyOutcome::StaleEpoch(accepted),
        // Not now: it is to come again.
        StoreError::Closing | StoreError::EpochNotAccepted | StoreError::TooManyInDoubt => CopyOutcome::Closing,
    }
}

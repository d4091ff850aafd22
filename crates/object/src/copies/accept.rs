//! Epochs that the copies on this core's shards are to accept.
//!
//! Owns: why, in [`Copies::accepting`](super::Copies).
//! Invariant: who asked hears from each shard of the group that is on this core, once.
//! Never: decides whether an epoch may be accepted.

use super::COPIED;
use super::holder::{InShard, ShardAt};
use crate::lanes::{Blocks, Lanes};
use crate::layout::ComponentAt;
use base::unit::BlockNo;
use base::{Epoch, Instant, Order, OwnerId};
use rt::Rt;
use rt::sync::{OneReceiver, OneSender, oneshot};
use store::{CopySync, OpKind, ShardDone, ShardOp, StoreError};

/// In cookies of the store: an epoch to be accepted.
pub(super) const ACCEPTS: u64 = 1 << 32;
/// Epochs that wait for shards of one core. Beyond, they are to come again.
const ACCEPTS_MAX: usize = 8192;

/// An epoch that a shard is to accept.
pub(super) struct Accepts {
    pub shard: ShardAt,
    /// When it came.
    pub since: Instant,
    /// `None`: who had asked has heard that the shard hangs.
    pub why: Option<Accepting>,
}

/// Why a shard is to accept an epoch.
pub(super) enum Accepting {
    /// A fence, which waits.
    Fence(OneSender<Result<(), StoreError>>),
    /// A change has come in it, and comes again.
    Change(InShard, Epoch),
}

impl<S: Blocks> Lanes<S> {
    /// Has the shards of a group on this core accept the epoch of `order` for a component. What comes back is how it went, of each.
    #[cold]
    #[inline(never)]
    pub fn accept_epoch(
        &mut self,
        rt: &Rt,
        at: ComponentAt,
        order: Order,
        by: OwnerId,
        sync: CopySync,
    ) -> Vec<OneReceiver<Result<(), StoreError>>> {
        let shards: Vec<u8> = self.shards().filter(|(group, ..)| *group == at.group).map(|(_, no, _)| no).collect();
        let mut receivers = Vec::new();
        for no in shards {
            let (sender, receiver) = oneshot();
            receivers.push(receiver);
            let copies = self.copies(rt);
            if copies.accepting.len() >= ACCEPTS_MAX {
                let _ = sender.send(Err(StoreError::Closing));
                continue;
            }
            self.accept_in(rt, (at.group, no, at.no), order, (by, sync), Accepting::Fence(sender));
        }
        rt.wake(rt.core());
        receivers
    }
    /// A change of its owner has come in a later epoch.
    pub(super) fn accept_for_change(&mut self, rt: &Rt, of: InShard, order: Order, by: OwnerId, sync: CopySync) {
        self.accept_in(rt, of, order, (by, sync), Accepting::Change(of, order.epoch));
    }
    fn accept_in(&mut self, rt: &Rt, (group, no, component): InShard, order: Order, (by, sync): (OwnerId, CopySync), why: Accepting) {
        let cookie = ACCEPTS
            | u64::from(self.copies(rt).accepting.insert(Accepts { shard: (group, no), since: rt.now(), why: Some(why) }) as u32 | COPIED);
        let op = ShardOp { cookie, component, block: BlockNo(0), blocks: 0, order, kind: OpKind::Accept { by, sync } };
        self.watch_shards(rt);
        self.shard_mut(group, no).expect("just seen").submit(rt, op);
    }
    /// A shard has done that, or has not.
    pub(super) fn epoch_accepted(&mut self, rt: &Rt, done: &ShardDone) {
        let copies = self.copies(rt);
        match copies.accepting.remove((done.cookie as u32 & !COPIED) as usize).why {
            // Nobody waits any more when the command's task was ended by a shutdown.
            Some(Accepting::Fence(waiting)) => _ = waiting.send(done.result),
            Some(Accepting::Change(of, epoch)) => copies.holder.ended(of, epoch),
            None => {}
        }
    }
}

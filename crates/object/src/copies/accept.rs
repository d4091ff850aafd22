//! Epochs that the copies on this core's shards are to accept.
//!
//! Owns: who waits for that, in [`Copies::accepting`](super::Copies).
//! Invariant: who asked hears from each shard of the group that is on this core, once.
//! Never: decides whether an epoch may be accepted.

use super::COPIED;
use crate::lanes::{Blocks, Lanes};
use crate::layout::ComponentAt;
use base::unit::BlockNo;
use base::{Order, OwnerId};
use rt::Rt;
use rt::sync::{OneReceiver, oneshot};
use store::{CopySync, OpKind, ShardDone, ShardOp, StoreError};

/// In cookies of the store: an epoch to be accepted.
pub(super) const ACCEPTS: u64 = 1 << 32;
/// Epochs that wait for shards of one core. Beyond, they are to come again.
const ACCEPTS_MAX: usize = 8192;

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
            let cookie = ACCEPTS | u64::from(copies.accepting.insert(sender) as u32 | COPIED);
            let kind = OpKind::Accept { by, sync };
            let op = ShardOp { cookie, component: at.no, block: BlockNo(0), blocks: 0, order, kind };
            self.shard_mut(at.group, no).expect("just seen").submit(rt, op);
        }
        rt.wake(rt.core());
        receivers
    }
    /// A shard has done that, or has not.
    pub(super) fn epoch_accepted(&mut self, rt: &Rt, done: &ShardDone) {
        let waiting = self.copies(rt).accepting.remove((done.cookie as u32 & !COPIED) as usize);
        // Nobody waits any more when the command's task was ended by a shutdown.
        let _ = waiting.send(done.result);
    }
}

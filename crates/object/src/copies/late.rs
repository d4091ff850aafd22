//! Copies that make no progress: a device that hangs fails nothing, and whoever waits for it would wait for as long as the kernel does.
//!
//! ```text
//!  node of the copy:  a device of the shard ends nothing for LATE ─► what has waited for the shard as long is answered as late
//!  owner:             late ─► others have the change, or can be read? ─► the copy fails, and leaves
//!                                                          └ no: it is asked again after LATE_AGAIN
//! ```
//!
//! Owns: when the shards of this core are looked at, and what an owner does about a copy that is late.
//! Invariants: a copy that nobody can replace does not leave for being late; who waits for a shard that takes its time, and whose devices work,
//! waits: that is how it slows its owner down. The store ends what it has, late or not: what was answered as late may still become durable, as
//! what a silent node has.
//! Never: says anything of a node that does not answer.

use super::accept::Accepting;
use super::holder::ShardAt;
use super::{CopiedStage, WaitState, Worked};
use crate::lanes::{Blocks, Lanes};
use base::{ComponentId, Duration, Instant};
use format::peer::CopyOutcome;
use rt::Rt;
use std::collections::BTreeSet;
use store::StoreError;

/// What has waited so long for a shard of which a device has ended nothing for so long is late.
pub(super) const LATE: Duration = Duration::from_secs(1);
/// How often that is looked at while anything is with a shard.
const LOOK: Duration = Duration::from_millis(200);
/// A copy that is late, and that nobody replaces, is asked again after this.
pub(super) const LATE_AGAIN: Duration = Duration::from_millis(500);

impl<S: Blocks> Lanes<S> {
    /// Something is with a shard.
    #[inline]
    pub(super) fn watch_shards(&mut self, rt: &Rt) {
        let copies = self.has_copies();
        if copies.looks.is_none() {
            let at = rt.now() + LOOK;
            copies.looks = Some(at);
            copies.wake_at(rt, at);
        }
    }
    /// Looks at the shards that have anything, if it is time.
    pub(super) fn look_at_shards(&mut self, rt: &Rt) {
        let now = rt.now();
        let copies = self.has_copies();
        if copies.looks.is_none_or(|at| at > now) {
            return;
        }
        copies.looks = None;
        let works = copies.works.iter().map(|(_, work)| work.in_shard());
        let busy: BTreeSet<ShardAt> = works.chain(copies.accepting.iter().map(|(_, accepts)| accepts.shard)).collect();
        let mut hangs = |&&(group, shard): &&ShardAt| self.shard_mut(group, shard).is_some_and(|shard| shard.still_for() >= LATE);
        let hanging: Vec<ShardAt> = busy.iter().filter(&mut hangs).copied().collect();
        self.has_copies().stats.hanging = hanging.len() as u32;
        for shard in hanging {
            self.answer_late(rt, shard, now);
        }
        if !busy.is_empty() {
            self.watch_shards(rt);
        }
    }
    /// Who has waited long enough for a shard that hangs hears so.
    fn answer_late(&mut self, rt: &Rt, of: ShardAt, now: Instant) {
        let is_late = |shard: ShardAt, since: Instant| shard == of && now.since(since) >= LATE;
        let copies = self.has_copies();
        let works = copies.works.iter_mut().filter(|(_, work)| is_late(work.in_shard(), work.since));
        let replies: Vec<_> = works.filter_map(|(_, work)| work.reply.take()).collect();
        let accepting = copies.accepting.iter_mut().filter(|(_, accepts)| is_late(accepts.shard, accepts.since));
        let fences: Vec<_> = accepting.filter_map(|(_, accepts)| accepts.why.take_if(|why| matches!(why, Accepting::Fence(_)))).collect();
        copies.stats.late += replies.len() as u64;
        for fence in fences {
            if let Accepting::Fence(waiting) = fence {
                let _ = waiting.send(Err(StoreError::DeviceFailed));
            }
        }
        for reply in replies {
            self.worked(rt, Worked { reply, answer: CopyOutcome::Late.into() });
        }
    }
    /// A copy is late with what a part has asked it for.
    #[cold]
    pub(super) fn copy_late(&mut self, rt: &Rt, id: u32, component: ComponentId) {
        let copies = self.has_copies();
        let copied = copies.part(id);
        let (volume, serial) = (copied.part.volume, copied.serial);
        match &copied.stage {
            CopiedStage::Changing(change) => {
                let has = change.waits.iter().any(|w| w.state == WaitState::Has && !w.resync && w.copy.component != component);
                // What one copy has and others get is on the one that it was read from.
                if has || copied.transfer.as_ref().is_some_and(|transfer| transfer.source.component != component) {
                    copies.fails(volume, component);
                }
            }
            CopiedStage::Reading(_) => {
                copied.bad.push(component);
                if copies.source_of(id).is_some() {
                    copies.part(id).late.push(component);
                    return self.read_anew(rt, id);
                }
                copies.part(id).bad.pop();
            }
            _ => {
                copied.bad.push(component);
                if self.has_other_source(id) {
                    self.has_copies().fails(volume, component);
                    return self.fetch(rt, id);
                }
                self.has_copies().part(id).bad.pop();
            }
        }
        let (copies, at) = (self.has_copies(), rt.now() + LATE_AGAIN);
        copies.again.push((at, id, serial, component));
        copies.wake_at(rt, at);
    }
    /// Another copy was read meanwhile: those that are late fail. What they hold is not bad.
    pub(super) fn late_ones_fail(&mut self, id: u32) {
        let copies = self.has_copies();
        let copied = copies.part(id);
        let volume = copied.part.volume;
        for component in std::mem::take(&mut copied.late) {
            copies.part(id).bad.retain(|bad| *bad != component);
            copies.fails(volume, component);
        }
    }
}

//! Resync: what a returning copy misses, and nothing else.
//!
//! ```text
//!  Absent ──BeginResync──► Resyncing: invited ──Fenced──► joined: gets changes ──CopyRange, CopyRange, ...──► FinishResync ──► Active
//!    ▲                          │                             │
//!    └──────── DropResync (raises the epoch) ◄────────────────┘
//! ```
//!
//! Owns: the actions `BeginResync`, `CopyRange`, `FinishResync`, `DropResync`; what is missing.
//! Invariants: while a range is copied no change of it is under way; a copy becomes active when nothing is missing.
//! Never: compares contents.

use super::state::{CopyState, Mask, Op, Owner, Progress, Role, What, World};
use super::{Action, Bounds, Rule, bits};
use crate::explore::Broken;

impl World {
    pub(super) fn resync_actions(&self, bounds: &Bounds, n: usize, owner: &Owner, change_record: bool, out: &mut Vec<Action>) {
        if !bounds.resyncs {
            return;
        }
        let me = n as u8;
        let Some(resync) = owner.resync else {
            let dropped = |c: usize| owner.record.copies[c] == CopyState::Resyncing;
            let returns = |c: &usize| change_record && owner.record.copies[*c] == CopyState::Absent || dropped(*c);
            out.extend((0..bounds.copies()).filter(returns).map(|c| Action::BeginResync { owner: me, copy: c as u8 }));
            return;
        };
        let drops = if bounds.has(Rule::DropRaisesEpoch) { change_record } else { self.nodes[n].cas.is_none() };
        if drops && bounds.evicts {
            out.push(Action::DropResync { owner: me });
        }
        let early = change_record && !bounds.has(Rule::ActiveAfterResync);
        let Some(listed) = resync.listed else {
            if early {
                out.push(Action::FinishResync { owner: me });
            }
            return;
        };
        let left = listed & !resync.copied;
        for b in bits(left) {
            let blocks = if self.copies[owner.source(n)].chunks[b / bounds.chunk].epoch == 0 { bounds.blocks_of_chunk(b) } else { 1 << b };
            let range = |op: &Op| matches!(op.what, What::Range { .. });
            let busy = owner.ops.iter().any(|op| op.blocks & blocks != 0 && (bounds.has(Rule::ResyncUnderLock) || range(op)));
            if !busy && owner.ops.len() < 4 {
                out.push(Action::CopyRange { owner: me, blocks });
            }
        }
        if change_record && (left == 0 || early) {
            out.push(Action::FinishResync { owner: me });
        }
    }

    /// Blocks that a returning copy misses: it was in sync up to an epoch.
    fn missing(&self, bounds: &Bounds, n: usize, copy: usize, owner: &Owner) -> Mask {
        let (source, target) = (&self.copies[owner.source(n)], &self.copies[copy]);
        let mut missing = if bounds.has(Rule::ResyncOwnDoubt) { target.own_doubt } else { 0 };
        for b in 0..bounds.blocks {
            let k = b / bounds.chunk;
            let (from, to) = (source.chunks[k], target.chunks[k]);
            let done = target.progress.done >> k & 1 == 1;
            let synced_to = match owner.record.synced_to[copy] {
                _ if done && !bounds.has(Rule::ProgressHasEpoch) => u8::MAX,
                to if done => to.max(target.progress.to),
                to => to,
            };
            let changed = from.epoch > synced_to && from.mask >> b & 1 == 1;
            let freed = from.epoch == 0 && to.epoch != 0 && bounds.has(Rule::ResyncFrees);
            missing |= Mask::from(changed || freed) << b;
        }
        missing
    }

    pub(super) fn begin_resync(&mut self, n: usize, copy: usize) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let mut new = owner.record;
        if new.copies[copy] == CopyState::Resyncing {
            // It was dropped without a word to the directory: only for a run without that rule.
            return self.invite(n, copy);
        }
        new.copies[copy] = CopyState::Resyncing;
        new.epoch += 1;
        self.send_cas(n, new);
    }
    /// The copy has answered the invitation: new changes go to it from here on. It misses what the chunks say now, and what is under way
    /// without it.
    pub(super) fn joins(&mut self, bounds: &Bounds, n: usize) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let Some(copy) = owner.resync.map(|r| usize::from(r.copy)) else { return };
        let (source, record) = (owner.source(n), owner.record);
        // It is asked in this epoch, and accepts that, with the stamps, before it looks.
        self.accept(bounds, source, record.epoch, n as u8, record.period_start);
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let under_way = owner.ops.iter().fold(0, |mask, op| mask | op.blocks);
        let listed = self.missing(bounds, n, copy, owner) | if bounds.has(Rule::ListHasUnderWay) { under_way } else { 0 };
        let Role::Owner(Owner { resync: Some(resync), .. }) = &mut self.nodes[n].role else { return };
        resync.listed = Some(listed);
    }
    pub(super) fn copy_range(&mut self, bounds: &Bounds, n: usize, blocks: Mask) -> Result<(), Broken> {
        let Role::Owner(owner) = &self.nodes[n].role else { return Ok(()) };
        let Some(resync) = owner.resync else { return Ok(()) };
        let copy = usize::from(resync.copy);
        if (self.record.owner, self.record.owner_inc) == (n as u8, self.nodes[n].inc) {
            self.monitor.copies(copy, blocks)?;
        }
        let b = blocks.trailing_zeros() as usize;
        let from = owner.source(n);
        let source = self.copies[from].chunks[b / bounds.chunk];
        let left = resync.listed.unwrap_or(0) & !resync.copied & !blocks;
        let chunks_left = bits(left).fold(0, |mask: Mask, b| mask | 1 << (b / bounds.chunk));
        let before = self.copies[copy].progress;
        // What was complete up to an earlier epoch comes first; only when it is complete up to this one is more added.
        let progress = if before.done & chunks_left == 0 {
            let chunks = ((1 << (bounds.blocks / bounds.chunk)) - 1) as Mask;
            Progress { done: chunks & !chunks_left, to: owner.record.epoch }
        } else {
            before
        };
        let value = self.copies[from].content[b];
        self.begin_op(bounds, n, blocks, value, What::Range { source, progress }, 1 << copy);
        Ok(())
    }
    pub(super) fn finish_resync(&mut self, n: usize) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let (Some(resync), mut new) = (owner.resync, owner.record) else { return };
        new.copies[usize::from(resync.copy)] = CopyState::Active;
        new.epoch += 1;
        self.send_cas(n, new);
    }
    pub(super) fn drop_resync(&mut self, bounds: &Bounds, n: usize) -> Result<(), Broken> {
        let Role::Owner(owner) = &mut self.nodes[n].role else { return Ok(()) };
        let Some(resync) = owner.resync else { return Ok(()) };
        if !bounds.has(Rule::DropRaisesEpoch) {
            owner.resync = None;
            owner.ops.iter_mut().for_each(|op| op.targets &= !(1 << resync.copy));
            return self.end_ops(bounds, n);
        }
        let mut new = owner.record;
        new.leave(bounds, 1 << resync.copy);
        new.epoch += 1;
        self.send_cas(n, new);
        Ok(())
    }
}

//! What a copy does: accepts epochs, carries changes out, remembers.
//!
//! Owns: `AcceptEpoch`, `Restamp`, `AdvanceMark`, and what a message does at a copy.
//! Invariants: the accepted epoch never goes back; a change is carried out once.
//! Never: knows whether it is in sync but by what it hears.

use super::state::{Chunk, LogRecord, Mask, Message, NodeNo, Role, Seq, What, World};
use super::{Bounds, Rule, bits};
use crate::explore::Broken;

impl World {
    /// Whether a component may accept an epoch from a node now: the grants of its node to another owner have run out.
    pub(super) fn may_accept(&self, bounds: &Bounds, copy: usize, epoch: u8, from: NodeNo) -> bool {
        let replica = &self.copies[copy];
        if epoch <= replica.accepted || from == replica.by || !bounds.has(Rule::AcceptAfterGrants) {
            return true;
        }
        if usize::from(from) == copy && !bounds.has(Rule::OwnCopyWaitsToo) {
            return true;
        }
        let node = &self.nodes[copy];
        let given = self.grants[copy].get(usize::from(replica.by)).is_some_and(|grant| grant.given != 0);
        !node.waits && (!given || node.released >= replica.accepted)
    }

    /// `AcceptEpoch` and `Restamp`. False: it is refused.
    pub(super) fn accept(&mut self, bounds: &Bounds, copy: usize, epoch: u8, from: NodeNo, period_start: u8) -> bool {
        let replica = &mut self.copies[copy];
        if epoch < replica.accepted {
            return !bounds.has(Rule::RefuseLowerEpoch);
        }
        if epoch == replica.accepted {
            return true;
        }
        (replica.accepted, replica.by) = (epoch, from);
        if usize::from(from) != copy {
            let node = &mut self.nodes[copy];
            if let Role::Owner(_) = node.role {
                // Its own component has accepted another owner: it is none any more.
                (node.role, node.cas, node.read) = (Role::Holder, None, None);
            }
        }
        if bounds.has(Rule::Restamp) {
            for b in bits(self.copies[copy].doubt()) {
                self.touch(bounds, copy, 1 << b, epoch, period_start, bounds.has(Rule::RestampSetsMask), false);
            }
        }
        true
    }

    /// Epoch and mask of the chunks of some blocks. `makes`: a chunk that is not there is made.
    #[expect(clippy::too_many_arguments, reason = "each is one fact of the change")]
    fn touch(&mut self, bounds: &Bounds, copy: usize, blocks: Mask, epoch: u8, period_start: u8, mask: bool, makes: bool) {
        for b in bits(blocks) {
            let all = bounds.blocks_of_chunk(b);
            let chunk = &mut self.copies[copy].chunks[b / bounds.chunk];
            if chunk.epoch == 0 {
                if makes {
                    *chunk = Chunk { epoch, mask: if bounds.has(Rule::NewChunkAllChanged) { all } else { 1 << b } };
                }
                continue;
            }
            if mask {
                if chunk.epoch < period_start && bounds.has(Rule::PeriodClearsMask) {
                    chunk.mask = 0;
                }
                chunk.mask |= 1 << b;
            }
            chunk.epoch = chunk.epoch.max(epoch);
        }
    }

    /// A fence, or the invitation to a resync, has come.
    pub(super) fn fence_comes(&mut self, bounds: &Bounds, message: Message) -> Result<(), Broken> {
        let Message::Fence { from, to, epoch, period_start, resync } = message else { return Ok(()) };
        let copy = usize::from(to);
        if !self.accept(bounds, copy, epoch, from, period_start) {
            return Ok(());
        }
        let replica = &mut self.copies[copy];
        let (mark, doubt) = (replica.mark, replica.doubt());
        if resync {
            if !replica.resyncing {
                replica.progress = Default::default();
            }
            let kept = if replica.resyncing && bounds.has(Rule::DoubtKeptWhileResyncing) { replica.own_doubt } else { 0 };
            (replica.resyncing, replica.own_doubt) = (true, kept | doubt);
        } else {
            self.is_in_sync(copy);
        }
        let fenced = Message::Fenced { from: to, to: from, epoch, mark, doubt };
        if from == to {
            return self.fenced_comes(bounds, fenced);
        }
        self.send(fenced);
        Ok(())
    }
    /// A copy hears that it is in sync.
    pub(super) fn is_in_sync(&mut self, copy: usize) {
        let replica = &mut self.copies[copy];
        (replica.resyncing, replica.own_doubt, replica.progress) = (false, 0, Default::default());
    }

    /// A change has come, and becomes durable.
    pub(super) fn change_comes(&mut self, bounds: &Bounds, message: Message) -> Result<(), Broken> {
        let Message::Change { from, to, epoch, period_start, resync, seq, mark, blocks, value, what } = message else { return Ok(()) };
        let copy = usize::from(to);
        let early = !bounds.has(Rule::RestampBeforeMark);
        if early && epoch >= self.copies[copy].accepted {
            self.advance_mark(copy, mark);
        }
        if !self.accept(bounds, copy, epoch, from, period_start) {
            return Ok(());
        }
        if !resync && self.copies[copy].resyncing {
            self.is_in_sync(copy);
        }
        let replica = &self.copies[copy];
        let there = seq <= replica.mark || replica.records.iter().any(|r| r.seq == seq);
        let ordered = bounds.has(Rule::IdempotentByPair) && (bounds.has(Rule::ResyncIsOrdered) || !matches!(what, What::Range { .. }));
        if !there || !ordered {
            self.carry_out(bounds, copy, blocks, value, what, epoch, period_start);
            let replica = &mut self.copies[copy];
            if !there {
                replica.records.push(LogRecord { seq, blocks });
                replica.records.sort_unstable();
                if !bounds.has(Rule::SeqIsPair) {
                    replica.highest = replica.highest.max(seq);
                }
            }
        }
        self.advance_mark(copy, mark);
        let inc = self.nodes[usize::from(from)].inc;
        if from == to {
            return self.ack_comes(bounds, from, to, seq);
        }
        self.send(Message::Ack { from: to, to: from, inc, seq });
        Ok(())
    }
    #[expect(clippy::too_many_arguments, reason = "each is one fact of the change")]
    fn carry_out(&mut self, bounds: &Bounds, copy: usize, blocks: Mask, value: u8, what: What, epoch: u8, period_start: u8) {
        for b in bits(blocks) {
            self.copies[copy].content[b] = value;
        }
        match what {
            What::Write | What::Agree { free: false } => self.touch(bounds, copy, blocks, epoch, period_start, true, true),
            What::Trim | What::Agree { free: true } => self.free(bounds, copy, blocks),
            What::Range { source, progress } => {
                let replica = &mut self.copies[copy];
                if source.epoch == 0 {
                    self.free(bounds, copy, blocks);
                } else {
                    for b in bits(blocks) {
                        let chunk = &mut replica.chunks[b / bounds.chunk];
                        if chunk.epoch < period_start {
                            chunk.mask = 0;
                        }
                        chunk.epoch = if bounds.has(Rule::ResyncTakesEpoch) { chunk.epoch.max(source.epoch) } else { chunk.epoch.max(1) };
                        if bounds.has(Rule::ResyncTakesMask) {
                            chunk.mask |= source.mask;
                        }
                    }
                }
                let replica = &mut self.copies[copy];
                replica.own_doubt &= !blocks;
                replica.progress = progress;
            }
        }
    }
    fn free(&mut self, bounds: &Bounds, copy: usize, blocks: Mask) {
        for b in bits(blocks) {
            self.copies[copy].chunks[b / bounds.chunk] = Chunk::default();
        }
    }
    /// `AdvanceMark`.
    fn advance_mark(&mut self, copy: usize, mark: Seq) {
        let replica = &mut self.copies[copy];
        replica.mark = replica.mark.max(mark);
        let mark = replica.mark;
        replica.records.retain(|r| r.seq > mark);
    }
}

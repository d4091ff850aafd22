//! The owner: orders changes, sends them to all copies, answers them, reads, takes copies out, gives the object up.
//!
//! Owns: the actions `Fanout`, `Ack`, `Resend`, `ReadData`, `AnswerRead`, `Evict`, `HandOver`.
//! Invariants: a change is answered when every copy that gets changes has it; the mark is below every change under way.
//! Never: answers what depends on a compare-and-swap whose outcome it does not know.

use super::state::{CopyState, Mask, Message, NodeNo, Op, Owner, Read, Record, Role, Seq, What, World};
use super::{Action, Bounds, Rule, bits};
use crate::explore::Broken;

impl Owner {
    /// `AdvanceMark`: everything up to here is on all copies that are in sync.
    pub fn mark(&self, bounds: &Bounds) -> Seq {
        let agreeing = self.ops.iter().any(|op| matches!(op.what, What::Agree { .. }));
        if agreeing && bounds.has(Rule::MarkWaitsForAgreement) {
            return self.base_mark;
        }
        let under_way = self.ops.iter().map(|op| op.seq.1);
        let to = if bounds.has(Rule::MarkIsContiguous) {
            under_way.min().map_or(self.last, |first| first - 1)
        } else {
            self.last - u8::from(under_way.max() == Some(self.last))
        };
        bounds.seq(self.term, to).max(self.base_mark)
    }
    /// Copies that get new changes.
    pub fn getting(&self, bounds: &Bounds) -> Mask {
        let joined = self.resync.filter(|r| r.listed.is_some() && bounds.has(Rule::ResyncingGetsChanges)).map_or(0, |r| 1 << r.copy);
        self.record.active() | joined
    }
    /// The copy that is read: the own one, if it is in sync.
    pub fn source(&self, n: usize) -> usize {
        let active = self.record.active();
        if active >> n & 1 == 1 { n } else { active.trailing_zeros() as usize }
    }
    /// Whether some change under way overlaps.
    pub fn is_locked(&self, blocks: Mask) -> bool {
        self.ops.iter().any(|op| op.blocks & blocks != 0)
    }
}

impl World {
    pub(super) fn owner_actions(&self, bounds: &Bounds, n: usize, owner: &Owner, out: &mut Vec<Action>) {
        let (node, me) = (&self.nodes[n], n as u8);
        let change_record = node.cas.is_none() && owner.record.epoch < self.epochs_max(bounds) && !self.cas.is_full();
        if change_record && bounds.evicts && owner.record.active().count_ones() > 1 {
            let own = if bounds.own_leaves && owner.serving { 0 } else { 1 << n };
            out.extend(bits(owner.record.active() & !own).map(|c| Action::Evict { owner: me, copy: c as u8 }));
        }
        for op in &owner.ops {
            for to in bits(op.targets & !op.acked) {
                if self.budget.resends < bounds.resends && !self.messages.contains(&self.change(bounds, n, owner, op, to)) {
                    out.push(Action::Resend { owner: me, to: to as u8, seq: op.seq });
                }
            }
        }
        if !owner.serving {
            return;
        }
        if let Some(&blocks) = bounds.writes.get(usize::from(self.budget.writes)) {
            let locked = bounds.has(Rule::RangeLock)
                && owner.ops.iter().any(|op| {
                    let holds = bounds.has(Rule::ResyncUnderLock) || !matches!(op.what, What::Range { .. });
                    holds && op.blocks & blocks != 0
                });
            if !locked && owner.ops.len() < 4 {
                out.push(Action::Fanout { owner: me, value: self.budget.writes + 1 });
            }
        }
        if node.read.is_none() && self.budget.reads < bounds.reads {
            for b in 0..bounds.blocks {
                // A copy elsewhere refuses who is the owner of a lower epoch.
                let refused = self.copies[owner.source(n)].accepted > owner.record.epoch && owner.source(n) != n;
                // An agreement may take back what the copy has: reads begin after it. A host's change may be in what is read, and is waited for.
                let agreeing = owner.ops.iter().any(|op| matches!(op.what, What::Agree { .. }) && op.blocks >> b & 1 == 1);
                if !(refused || agreeing && bounds.has(Rule::ReadsWait)) {
                    out.push(Action::ReadData { owner: me, block: b as u8 });
                }
            }
        }
        let settled = |read: &Read| !owner.ops.iter().any(|op| op.blocks >> read.block & 1 == 1 && op.seq.1 <= read.until);
        let granted = |read: &Read| if bounds.has(Rule::GrantsAfterData) { self.is_granted(bounds, n) } else { read.granted };
        if node.read.is_some_and(|read| granted(&read) && (settled(&read) || !bounds.has(Rule::ReadsWait))) {
            out.push(Action::AnswerRead { owner: me });
        }
        if self.budget.handovers < bounds.handovers && owner.ops.is_empty() && node.cas.is_none() && node.read.is_none() {
            out.push(Action::HandOver { owner: me });
        }
        self.resync_actions(bounds, n, owner, change_record, out);
    }

    /// The message that carries a change to a copy, in the owner's present epoch.
    pub(super) fn change(&self, bounds: &Bounds, n: usize, owner: &Owner, op: &Op, to: usize) -> Message {
        let Record { epoch, period_start, .. } = owner.record;
        let resync = owner.record.copies[to] == CopyState::Resyncing;
        let mark = owner.mark(bounds).min(Seq(op.seq.0, op.seq.1 - 1));
        let &Op { seq, blocks, value, what, .. } = op;
        Message::Change { from: n as u8, to: to as u8, epoch, period_start, resync, seq, mark, blocks, value, what }
    }
    /// Sends a change to those that have not acknowledged it.
    pub(super) fn send_op(&mut self, bounds: &Bounds, n: usize, op: &Op) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let messages: arrayvec::ArrayVec<_, 3> = bits(op.targets & !op.acked).map(|to| self.change(bounds, n, owner, op, to)).collect();
        messages.into_iter().for_each(|message| self.send(message));
    }
    /// Gives a change its number, and sends it.
    pub(super) fn begin_op(&mut self, bounds: &Bounds, n: usize, blocks: Mask, value: u8, what: What, targets: Mask) {
        let Role::Owner(owner) = &mut self.nodes[n].role else { return };
        owner.last += 1;
        let op = Op { seq: bounds.seq(owner.term, owner.last), blocks, value, what, targets, acked: 0 };
        owner.ops.push(op);
        self.send_op(bounds, n, &op);
    }
    /// A host's change begins.
    pub(super) fn fanout(&mut self, bounds: &Bounds, n: usize, value: u8) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let (blocks, targets) = (bounds.writes[usize::from(value) - 1], owner.getting(bounds));
        self.budget.writes += 1;
        // Who may miss it, as the judge sees it.
        let is_owner = (self.record.owner, self.record.owner_inc) == (n as u8, self.nodes[n].inc);
        let misses = if is_owner { !targets | self.record.with(CopyState::Absent) } else { !self.record.active() };
        self.monitor.begins(value, blocks, misses & bounds.all_copies());
        let what = if bounds.trims & 1 << value != 0 { What::Trim } else { What::Write };
        self.begin_op(bounds, n, blocks, value, what, targets);
    }
    pub(super) fn ack_comes(&mut self, bounds: &Bounds, from: NodeNo, to: NodeNo, seq: Seq) -> Result<(), Broken> {
        if let Role::Owner(owner) = &mut self.nodes[usize::from(to)].role {
            for op in owner.ops.iter_mut().filter(|op| op.seq == seq) {
                op.acked |= 1 << from;
            }
        }
        self.end_ops(bounds, usize::from(to))
    }
    /// Ends every change that all its copies have: that is when the host is answered, at the earliest.
    pub(super) fn end_ops(&mut self, bounds: &Bounds, n: usize) -> Result<(), Broken> {
        let Role::Owner(owner) = &mut self.nodes[n].role else { return Ok(()) };
        let all = bounds.has(Rule::AnswerWhenAllDurable);
        let heard = owner.known >= owner.record.epoch || !bounds.has(Rule::EpochHeardBeforeAnswer);
        let ended = |op: &Op| op.targets & !op.acked == 0 && heard || (!all && op.acked != 0 && matches!(op.what, What::Write));
        for op in owner.ops.iter().filter(|op| ended(op)) {
            match op.what {
                What::Write | What::Trim => self.monitor.ends(op.value, op.blocks)?,
                What::Agree { .. } => {}
                What::Range { .. } => {
                    if let Some(resync) = owner.resync.as_mut().filter(|r| op.acked >> r.copy & 1 == 1) {
                        resync.copied |= op.blocks;
                    }
                }
            }
        }
        owner.ops.retain(|op| !ended(op));
        Ok(())
    }

    pub(super) fn read_data(&mut self, bounds: &Bounds, n: usize, block: u8) {
        let granted = self.is_granted(bounds, n);
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let (b, source) = (usize::from(block), owner.source(n));
        self.budget.reads += 1;
        let until = owner.last;
        self.nodes[n].read = Some(Read { block, value: self.copies[source].content[b], granted, after: self.monitor.finished(b), until });
    }
    pub(super) fn answer_read(&mut self, n: usize) -> Result<(), Broken> {
        let Some(read) = self.nodes[n].read.take() else { return Ok(()) };
        self.monitor.reads(usize::from(read.block), read.value, read.after)?;
        let term = |role: &Role| if let Role::Owner(o) = role { o.serving.then_some(o.term) } else { None };
        let mine = term(&self.nodes[n].role);
        if self.nodes.iter().any(|node| term(&node.role) > mine) { Err(super::monitor::TWO_OWNERS) } else { Ok(()) }
    }

    pub(super) fn evict(&mut self, bounds: &Bounds, n: usize, copy: usize) -> Result<(), Broken> {
        let Role::Owner(owner) = &mut self.nodes[n].role else { return Ok(()) };
        let mut new = owner.record;
        new.leave(bounds, 1 << copy);
        new.epoch += 1;
        if !bounds.has(Rule::AnswerAfterCas) {
            owner.ops.iter_mut().for_each(|op| op.targets &= !(1 << copy));
            self.end_ops(bounds, n)?;
        }
        self.send_cas(n, new);
        Ok(())
    }
    /// The owner has nothing under way, and will answer nothing more: another node may take over at once.
    pub(super) fn hand_over(&mut self, bounds: &Bounds, n: usize) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let (epoch, others) = (owner.record.epoch, owner.record.active() & !(1 << n));
        self.budget.handovers += 1;
        if bounds.has(Rule::ReleaseEndsService) {
            self.nodes[n].role = Role::Holder;
        }
        for to in bits(others) {
            self.send(Message::Release { from: n as u8, to: to as u8, epoch });
        }
    }
}

impl Record {
    /// Copies leave. `period_start` is the new epoch, if the object was in sync on all copies.
    pub fn leave(&mut self, bounds: &Bounds, copies: Mask) {
        let all = bounds.all_copies();
        let starts = self.active() == all && bounds.has(Rule::PeriodStarts) || !bounds.has(Rule::PeriodStartsOnce);
        if copies & self.active() != 0 && starts {
            self.period_start = self.epoch + 1;
        }
        for c in bits(copies) {
            if self.copies[c] == CopyState::Active {
                self.synced_to[c] = self.epoch;
            }
            self.copies[c] = CopyState::Absent;
        }
    }
}

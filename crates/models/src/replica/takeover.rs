//! Changes of the record, and takeover: compare-and-swap, fence, agreement on what is in doubt, service.
//!
//! ```text
//!  Holder ──TakeOver──► TakingOver ──Decide: applied──► Owner, fencing ──Fenced by all that stay──► Owner, serving
//!    ▲                      │ refused                        │ Evict                                    │ Agree, block by block
//!    └──────────────────────┴──── StepDown, Crash, a higher epoch accepted here, HandOver ◄─────────────┘
//! ```
//!
//! Owns: the actions `TakeOver`, `Decide`, `DecideLost`, `ReadAgain`, `Fence`, `Agree`, `StepDown`.
//! Invariant: only the owner, or who takes over, writes a record, and raises the epoch by one.
//! Never: serves before every copy that stays has accepted the epoch.

use super::state::{BLOCKS, Cas, CopyState, Mask, Message, NODES, Op, Owner, Record, Resync, Role, Seq, What, World};
use super::{Action, Bounds, Rule, Takeovers, bits};
use crate::explore::Broken;

impl World {
    pub(super) fn holder_actions(&self, bounds: &Bounds, n: usize, out: &mut Vec<Action>) {
        let record = self.record;
        let in_sync = record.copies[n] == CopyState::Active || bounds.apart || !bounds.has(Rule::TakeOverInSync);
        let free = self.nodes[n].cas.is_none() && !self.cas.is_full() && record.epoch < self.epochs_max(bounds);
        if !bounds.has(Rule::OwnerIsOneIncarnation) && usize::from(record.owner) == n && record.owner_inc < self.nodes[n].inc {
            out.push(Action::Resume { node: n as u8 });
        }
        if !in_sync || !free {
            return;
        }
        let others = record.active() & !(1 << n);
        match bounds.takeovers {
            Takeovers::OwnerOnly if usize::from(record.owner) != n => return,
            Takeovers::OwnerDies => {
                if usize::from(record.owner) != n {
                    out.push(Action::TakeOver { node: n as u8, without: others & 1 << record.owner });
                }
                return;
            }
            _ => {}
        }
        if record.restored && bounds.has(Rule::RestoredHearsAll) {
            return;
        }
        // One at least stays.
        let stays = |without: Mask| record.active() & !without != 0 || !bounds.has(Rule::TakeOverInSync);
        for without in (0..=others).filter(|&without| without & !others == 0 && stays(without)) {
            out.push(Action::TakeOver { node: n as u8, without });
        }
    }
    pub(super) fn take_over(&mut self, bounds: &Bounds, n: usize, without: Mask) -> u8 {
        let mut new = self.record;
        let resyncing = new.with(CopyState::Resyncing);
        new.leave(bounds, without | resyncing);
        new.restored = false;
        if !bounds.has(Rule::TakeOverInSync) {
            new.copies[n] = CopyState::Active;
        }
        (new.owner, new.owner_inc) = (n as u8, self.nodes[n].inc);
        new.epoch += 1;
        self.nodes[n].role = Role::TakingOver;
        self.send_cas(n, new);
        new.epoch
    }
    /// A copy is heard: its node has begun anew since the directory was restored, so it is no owner by what it knew before.
    pub(super) fn hear_restored(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        (node.role, node.cas, node.read) = (Role::Holder, None, None);
        self.heard[n] = Some((self.copies[n].accepted, self.copies[n].resyncing));
    }
    /// What a restored record says of the copies is old. Every copy has said what it had accepted: in sync are those of the highest. From now on none
    /// takes anything of an epoch of before.
    pub(super) fn confirm_restored(&mut self, bounds: &Bounds) {
        let mut new = Record { epoch: bounds.epochs + 1, restored: false, ..self.record };
        let heard = core::mem::take(&mut self.heard);
        let highest = heard.iter().flatten().map(|(accepted, _)| *accepted).max().unwrap_or(0);
        for (c, (accepted, resyncing)) in heard.into_iter().enumerate().filter_map(|(c, heard)| Some((c, heard?))) {
            let in_sync = accepted == highest && !resyncing;
            new.copies[c] = if in_sync { CopyState::Active } else { CopyState::Absent };
            new.synced_to[c] = if resyncing { new.synced_to[c] } else { accepted };
            self.accept(bounds, c, new.epoch, u8::MAX, new.period_start);
        }
        // What it misses is not known to the block.
        self.monitor.leave(0, Mask::MAX >> (8 - NODES), Mask::MAX >> (8 - BLOCKS), 0);
        self.record = new;
    }
    /// The highest epoch of this run.
    pub(super) const fn epochs_max(&self, bounds: &Bounds) -> u8 {
        bounds.epochs + if self.budget.restores > 0 { 3 } else { 0 }
    }
    pub(super) fn send_cas(&mut self, n: usize, new: Record) {
        self.nodes[n].cas = Some(new);
        let on = match &self.nodes[n].role {
            Role::Owner(owner) => (owner.record.epoch, owner.record.restored),
            _ => (self.record.epoch, self.record.restored),
        };
        let cas = Cas { from: n as u8, on, new };
        if !self.cas.contains(&cas) {
            self.cas.push(cas);
            self.cas.sort_unstable();
        }
    }

    /// The directory decides. Returns whether the change was made.
    pub(super) fn decide(&mut self, bounds: &Bounds, cas: Cas) -> bool {
        self.cas.retain(|c| *c != cas);
        let expected = (self.record.epoch, self.record.restored) == cas.on;
        if expected {
            self.judge_record(bounds, &cas.new);
            self.record = cas.new;
        }
        expected
    }
    fn judge_record(&mut self, bounds: &Bounds, new: &Record) {
        let (before, after) = (self.record.active(), new.active());
        let left = before & !after;
        let dropped = self.record.with(CopyState::Resyncing) & new.with(CopyState::Absent);
        if left | dropped != 0 {
            let mut in_doubt = bits(before).fold(0, |mask, c| mask | self.copies[c].doubt());
            for node in &self.nodes {
                if let Role::Owner(owner) = &node.role {
                    in_doubt |= owner.ops.iter().fold(0, |mask, op| mask | op.blocks);
                }
            }
            for message in &self.messages {
                if let Message::Change { blocks, .. } = message {
                    in_doubt |= blocks;
                }
            }
            self.monitor.leave(left, dropped, in_doubt, !before & bounds.all_copies());
        }
        for c in bits(after & !before) {
            self.monitor.returns(c, after == bounds.all_copies());
        }
    }
    /// A node learns how its change of the record came out.
    pub(super) fn outcome(&mut self, bounds: &Bounds, n: usize, made: bool) -> Result<(), Broken> {
        let Some(new) = self.nodes[n].cas.take() else { return Ok(()) };
        if !made {
            // Somebody else changed the record: this node is not the owner.
            (self.nodes[n].role, self.nodes[n].read) = (Role::Holder, None);
            return Ok(());
        }
        match &self.nodes[n].role {
            Role::Holder => Ok(()),
            Role::TakingOver => self.begin_term(n, new),
            Role::Owner(_) => self.adopt(bounds, n, new),
        }
    }
    /// Reads the record again: the change was made, was not made, or is still on its way.
    pub(super) fn read_again(&mut self, bounds: &Bounds, n: usize) -> Result<(), Broken> {
        let Some(new) = self.nodes[n].cas else { return Ok(()) };
        let mine = (self.record.owner, self.record.owner_inc) == (new.owner, new.owner_inc) || !bounds.has(Rule::NonceCompared);
        self.outcome(bounds, n, self.record.epoch == new.epoch && mine)
    }

    /// The takeover is in the record: `Fence`.
    fn begin_term(&mut self, n: usize, record: Record) -> Result<(), Broken> {
        self.nodes[n].role = Role::Owner(Owner::begin(record, false));
        self.fence(n);
        Ok(())
    }
    /// Its own copy is fenced like any other: its node may have granted too.
    fn fence(&mut self, n: usize) {
        let Role::Owner(owner) = &self.nodes[n].role else { return };
        let Record { epoch, period_start, .. } = owner.record;
        for to in bits(owner.record.active() & !owner.fenced) {
            self.send(Message::Fence { from: n as u8, to: to as u8, epoch, period_start, resync: false });
        }
    }
    /// The owner's own change of the record: who leaves is waited for no more, who returns is invited.
    fn adopt(&mut self, bounds: &Bounds, n: usize, new: Record) -> Result<(), Broken> {
        let accepts = usize::from(self.copies[n].by) == n && new.copies[n] == CopyState::Active;
        if accepts {
            self.accept(bounds, n, new.epoch, n as u8, new.period_start);
        }
        let Role::Owner(owner) = &mut self.nodes[n].role else { return Ok(()) };
        if accepts {
            owner.known = new.epoch;
        }
        let old = core::mem::replace(&mut owner.record, new);
        let left = (0..bounds.nodes).filter(|&c| new.copies[c] == CopyState::Absent).fold(0, |mask, c| mask | 1 << c);
        for op in &mut owner.ops {
            self.monitor.misses(left & op.targets, op.blocks);
            op.targets &= !left;
        }
        if owner.resync.is_some_and(|r| new.copies[usize::from(r.copy)] != CopyState::Resyncing) {
            owner.resync = None;
        }
        let returning = (0..bounds.nodes).find(|&c| new.copies[c] == CopyState::Resyncing && old.copies[c] == CopyState::Absent);
        if let Some(copy) = returning {
            self.invite(n, copy);
        }
        self.end_ops(bounds, n)?;
        let Role::Owner(owner) = &self.nodes[n].role else { return Ok(()) };
        let serving = owner.serving;
        for op in &owner.ops.clone() {
            self.send_op(bounds, n, op);
        }
        if !serving {
            self.fence(n);
        }
        if !accepts {
            // Another copy has to know of the epoch before anything is answered that waited for it.
            let Role::Owner(owner) = &self.nodes[n].role else { return Ok(()) };
            let Record { epoch, period_start, .. } = owner.record;
            self.send(Message::Fence { from: n as u8, to: owner.source(n) as u8, epoch, period_start, resync: false });
        }
        self.end_fence(bounds, n)
    }
    /// A copy is asked to join.
    pub(super) fn invite(&mut self, n: usize, copy: usize) {
        let Role::Owner(owner) = &mut self.nodes[n].role else { return };
        let Record { epoch, period_start, .. } = owner.record;
        owner.resync = Some(Resync { copy: copy as u8, epoch, copied: 0, listed: None });
        self.send(Message::Fence { from: n as u8, to: copy as u8, epoch, period_start, resync: true });
    }
    /// A copy has answered.
    pub(super) fn fenced_comes(&mut self, bounds: &Bounds, message: Message) -> Result<(), Broken> {
        let Message::Fenced { from, to, epoch, mark, doubt } = message else { return Ok(()) };
        let n = usize::from(to);
        let Role::Owner(owner) = &mut self.nodes[n].role else { return Ok(()) };
        if owner.record.active() >> from & 1 == 1 {
            owner.known = owner.known.max(epoch);
        }
        if owner.resync.is_some_and(|r| r.copy == from && r.epoch == epoch && r.listed.is_none()) {
            self.joins(bounds, n);
        } else if epoch >= owner.term && !owner.serving && owner.record.active() >> from & 1 == 1 {
            owner.hears(usize::from(from), mark, doubt);
            return self.end_fence(bounds, n);
        }
        self.end_ops(bounds, n)
    }
    /// When all that stay have answered: `Agree` begins for what is in doubt, and the rest is served.
    fn end_fence(&mut self, bounds: &Bounds, n: usize) -> Result<(), Broken> {
        let own = self.copies[n].doubt();
        let Role::Owner(owner) = &mut self.nodes[n].role else { return Ok(()) };
        let active = owner.record.active();
        if owner.serving || (active & !owner.fenced != 0 && bounds.has(Rule::FenceAllThatStay)) {
            return Ok(());
        }
        owner.serving = true;
        if !bounds.has(Rule::SeqIsPair) {
            owner.last = bits(active).map(|c| self.copies[c].highest.1).max().unwrap_or(0);
        }
        let doubt = if bounds.has(Rule::DoubtIsUnion) { owner.doubt } else { own };
        let chosen = bits(active).find(|&c| c != n && bounds.chooses_other).unwrap_or(owner.source(n));
        if bounds.has(Rule::Agree) {
            for b in bits(doubt) {
                let free = self.copies[chosen].chunks[b / bounds.chunk].epoch == 0;
                let value = self.copies[chosen].content[b];
                let targets = active & !(1 << chosen);
                self.begin_agree(bounds, n, 1 << b, value, What::Agree { free }, targets);
            }
            let Role::Owner(owner) = &self.nodes[n].role else { return Ok(()) };
            for op in &owner.ops.clone() {
                self.send_op(bounds, n, op);
            }
        }
        self.end_ops(bounds, n)
    }
    /// All ranges in doubt are under way before the first is sent: the mark waits for all of them.
    fn begin_agree(&mut self, bounds: &Bounds, n: usize, blocks: Mask, value: u8, what: What, targets: Mask) {
        let Role::Owner(owner) = &mut self.nodes[n].role else { return };
        owner.last += 1;
        owner.ops.push(Op { seq: bounds.seq(owner.term, owner.last), blocks, value, what, targets, acked: 0 });
    }
    /// An owner of before its restart goes on where it was: only for a run without the rule.
    pub(super) fn resume(&mut self, n: usize) {
        let record = Record { owner_inc: self.nodes[n].inc, ..self.record };
        self.nodes[n].role = Role::Owner(Owner::begin(record, true));
    }
}

impl Owner {
    /// The owner by this record, whose term begins with it; `serving`: there is nothing to agree on.
    fn begin(record: Record, serving: bool) -> Owner {
        Owner {
            record,
            term: record.epoch,
            last: 0,
            base_mark: Seq::default(),
            serving,
            known: 0,
            fenced: 0,
            doubt: 0,
            ops: Default::default(),
            resync: None,
        }
    }
    /// What a fenced copy says.
    fn hears(&mut self, copy: usize, mark: Seq, doubt: Mask) {
        self.fenced |= 1 << copy;
        self.base_mark = self.base_mark.max(mark);
        self.doubt |= doubt;
    }
}

//! The changes and reads under way at one owner: what the lanes do. In memory.

use super::copies::{CHUNKS, What};
use super::judge::{At, Mask, Value};
use crate::owner::{CopyRef, RangeCopy, Targets};
use base::{ComponentId, Epoch, NodeId, Seq};
use std::collections::{BTreeMap, BTreeSet};

/// Changes under way at once.
pub const OPS_MAX: usize = 6;

#[derive(Clone, Debug)]
pub struct Op {
    pub at: At,
    pub seq: Seq,
    pub mask: Mask,
    pub what: What,
    pub targets: BTreeSet<ComponentId>,
    pub acked: BTreeSet<ComponentId>,
    pub began: u64,
    pub range: Option<RangeCopy>,
}

#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub at: At,
    pub block: u8,
    pub value: Value,
    pub began: u64,
}

/// What is under way without a copy that joined in an epoch.
pub type Without = (ComponentId, Epoch, Vec<(At, Seq)>);

/// All of it begins anew when a term does.
#[derive(Clone, Debug, Default)]
pub struct Fan {
    pub serving: bool,
    pub targets: Option<Targets>,
    /// Of each mirror: the epoch in which changes may be answered.
    pub answers: BTreeMap<u16, Epoch>,
    pub joined: Option<CopyRef>,
    /// What is under way without the copy that joined, and in which epoch that was asked.
    pub without: Option<Without>,
    pub last: BTreeMap<At, u64>,
    /// The mark stands here.
    pub base: BTreeMap<At, Seq>,
    pub ops: Vec<Op>,
    /// Ranges that wait for the range lock.
    pub ranges: Vec<RangeCopy>,
    pub reads: Vec<Read>,
    pub grants: Vec<NodeId>,
    pub draining: Option<u32>,
    /// It was said that nothing is under way.
    pub drained: bool,
}

impl Fan {
    pub fn is_locked(&self, at: At, mask: Mask) -> bool {
        self.ops.iter().any(|op| op.at == at && op.mask & mask != 0)
    }
    pub fn term(&self) -> Epoch {
        self.targets.as_ref().map_or(Epoch(0), |t| t.ownership.term)
    }
    /// AdvanceMark.
    pub fn mark(&self, at: At) -> Seq {
        if let Some(base) = self.base.get(&at) {
            return *base;
        }
        let last = self.last.get(&at).copied().unwrap_or(0);
        let first = self.ops.iter().filter(|op| op.at == at).map(|op| op.seq.counter).min();
        Seq { term: self.term(), counter: first.map_or(last, |first| first - 1) }
    }
    pub fn number(&mut self, at: At) -> Seq {
        let last = self.last.entry(at).or_default();
        *last += 1;
        let counter = *last;
        Seq { term: self.term(), counter }
    }
    /// Who gets a change of a mirror that begins now.
    pub fn getting(&self, mirror: usize) -> BTreeSet<ComponentId> {
        let copies = self.targets.iter().flat_map(|t| t.copies.iter().map(|(copy, _)| *copy)).chain(self.joined);
        copies.filter(|c| usize::from(c.mirror) == mirror).map(|c| c.component).collect()
    }
    pub fn source(&self, mirror: usize) -> Option<CopyRef> {
        self.targets.as_ref().and_then(|t| t.read.get(mirror).copied())
    }
    /// Takes what has ended: all targets have it, and it may be answered.
    pub fn take_ended(&mut self) -> Vec<Op> {
        let epoch = self.targets.as_ref().map_or(Epoch(0), |t| t.ownership.epoch);
        let (answers, mut ended) = (&self.answers, Vec::new());
        self.ops.retain(|op| {
            let heard = answers.get(&(op.at.0 as u16)).is_some_and(|e| *e >= epoch);
            let ends = heard && op.targets.is_subset(&op.acked);
            if ends {
                ended.push(op.clone());
            }
            !ends
        });
        ended
    }
    pub fn is_idle(&self) -> bool {
        self.ops.is_empty() && self.reads.is_empty() && self.ranges.is_empty()
    }
    pub const fn chunk_of(chunk: u64) -> At {
        (chunk as usize / CHUNKS, chunk as usize % CHUNKS)
    }
}

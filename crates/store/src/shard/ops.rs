//! The operations of a shard, from their arrival to their answers.
//!
//! Owns: what is known of each operation, the reads that begin with the next poll, the timer of what waits for admission, the answers.
//! Invariants: an operation ends once, and has its answer then; a part ends in its parent, which ends with the last of them.
//! Never: reads or writes; knows where anything lies.

use super::cookie;
use super::op::{Logged, NO_PARENT, Op, ShardDone, Stage, StoreError};
use crate::stats::ShardStats;
use base::Instant;
use base::hooks::{self, CoverageMark};
use core::ops::{Index, IndexMut};
use rt::{Buf, Queue, Rt, TimerId};
use slab::Slab;
use std::collections::VecDeque;

/// See the module. An operation is named by its key.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    ops: Slab<Op>,
    /// Reads that were asked for and begin with the next poll.
    reads: Vec<u32>,
    done: VecDeque<ShardDone>,
    /// Set while the next write may not enter: it rings when it may.
    admission: Option<(TimerId, Instant)>,
}

impl Index<u32> for Operations {
    type Output = Op;
    #[inline]
    fn index(&self, key: u32) -> &Op {
        &self.ops[key as usize]
    }
}

impl IndexMut<u32> for Operations {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut Op {
        &mut self.ops[key as usize]
    }
}

impl Operations {
    /// How many have not ended, parts included.
    pub fn len(&self) -> usize {
        self.ops.len()
    }
    /// Whether all have ended. Some answers may wait to be fetched.
    pub fn have_ended(&self) -> bool {
        self.ops.is_empty()
    }
    /// Whether all have ended and every answer was fetched.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.done.is_empty()
    }
    /// Those that have not ended.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Op)> {
        self.ops.iter().map(|(key, op)| (key as u32, op))
    }

    /// Takes an operation. Its key.
    #[inline]
    pub fn add(&mut self, op: Op) -> u32 {
        self.ops.insert(op) as u32
    }
    /// One that has no answer is over.
    pub fn forget(&mut self, key: u32) {
        self.ops.remove(key as usize);
    }
    /// Takes a read, which begins with the next poll.
    #[inline]
    pub fn add_read(&mut self, op: Op) {
        let key = self.add(op);
        self.reads.push(key);
    }
    /// Whether reads were asked for that have not begun.
    #[inline]
    pub fn has_reads(&self) -> bool {
        !self.reads.is_empty()
    }
    /// The reads that begin now. The list comes back with [`Operations::reads_begun`].
    pub fn take_reads(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.reads)
    }
    /// They have begun: the emptied list, for the next ones.
    pub fn reads_begun(&mut self, list: Vec<u32>) {
        debug_assert!(list.is_empty() && self.reads.is_empty(), "a read was asked for while others began");
        self.reads = list;
    }

    /// An operation has ended: gives its answer (to its parent, if it is a part).
    pub fn finish(&mut self, key: u32, result: Result<(), StoreError>, buf: Option<Buf>, figures: &mut ShardStats) {
        let op = self.ops.remove(key as usize);
        if op.parent != NO_PARENT {
            self.part_ended(op.parent, result, figures);
            return;
        }
        match (&op.stage, result) {
            (Stage::Logging(Logged::Write { .. }) | Stage::Split { .. }, Ok(())) => {
                figures.writes += 1;
                figures.written_blocks += u64::from(op.blocks);
            }
            (Stage::Logging(Logged::Trim | Logged::Uncorrectable), Ok(())) => figures.trims += 1,
            (Stage::Reading(_), Ok(())) => {
                figures.reads += 1;
                figures.read_blocks += u64::from(op.blocks);
            }
            (_, Err(StoreError::NoSpace)) => figures.no_space += 1,
            _ => {}
        }
        self.done.push_back(ShardDone { cookie: op.cookie, result, buf, crcs: op.crcs });
    }

    fn part_ended(&mut self, parent: u32, part: Result<(), StoreError>, figures: &mut ShardStats) {
        let Stage::Split { left, result, .. } = &mut self[parent].stage else { unreachable!("a part of a split") };
        *left -= 1;
        if result.is_ok() {
            *result = part;
        }
        if *left > 0 {
            return;
        }
        let result = *result;
        let Stage::Split { buf, .. } = core::mem::replace(&mut self[parent].stage, Stage::Logging(Logged::Write { unchecked: false }))
        else {
            unreachable!("looked at above")
        };
        self.finish(parent, result, Some(buf), figures);
    }

    /// Answers that wait to be fetched.
    pub fn answers(&self) -> usize {
        self.done.len()
    }
    /// The next answer.
    pub fn pop_done(&mut self) -> Option<ShardDone> {
        self.done.pop_front()
    }

    /// Asks to be polled again at `at`, when the next write may enter.
    pub fn wait_for_admission(&mut self, rt: &Rt, queue: &Queue, at: Instant, figures: &mut ShardStats) {
        match self.admission {
            Some((_, set)) if set <= at && set > rt.now() => return,
            Some((id, _)) => rt.cancel_timer(id),
            None => {}
        }
        hooks::reached(CoverageMark::AdmissionWait);
        figures.delayed_writes += 1;
        self.admission = Some((rt.timer(queue, cookie::ADMISSION, at), at));
    }
    /// A timer has ended.
    pub fn admission_ended(&mut self, timer: TimerId) {
        if self.admission.is_some_and(|(set, _)| set == timer) {
            self.admission = None;
        }
    }
}

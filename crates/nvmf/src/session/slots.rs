//! The commands of a connection that are not answered, each in its slot, and what they are together: who waits for buffers, how far the queue
//! is in a fused operation, how many run.
//!
//! Invariant: a slot that waits for buffers is on the list of those who wait, once.
//! Never: carries out or answers a command.

use super::fusing::Fusing;
use super::slot::{CommandSlot, CommandStage};
use base::hooks::{self, SeededFault};
use slab::Slab;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// See the module.
pub(super) struct Slots {
    slab: Slab<CommandSlot>,
    /// Slots of commands that wait for buffers, in their order.
    waiting: VecDeque<u16>,
    /// What the last command was to a fused operation.
    fusing: Fusing,
    /// Commands that were aborted and answered while their data was under way.
    aborted: u16,
    /// Commands whose data was asked for and is large.
    large: u32,
    /// Commands that a volume or the controller works on.
    running: u32,
    /// Of them: those that have no buffers but of their capsules, because of a limit. No others come back of them.
    paused: u32,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots { slab: Slab::new(), waiting: VecDeque::new(), fusing: Fusing::No, aborted: 0, large: 0, running: 0, paused: 0 }
    }
    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }
    /// Entries of the queue that they take. A command that was answered takes none.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.slab.len() - usize::from(self.aborted)
    }
    /// Adds a command; its slot.
    #[inline]
    pub(super) fn insert(&mut self, slot: CommandSlot) -> u16 {
        self.slab.insert(slot) as u16
    }
    /// Frees a slot.
    #[inline]
    pub(super) fn remove(&mut self, at: u16) -> CommandSlot {
        self.slab.remove(usize::from(at))
    }
    /// Frees all slots, and nothing runs or waits.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = CommandSlot> + '_ {
        self.waiting.clear();
        (self.fusing, self.aborted, self.large, self.running, self.paused) = (Fusing::No, 0, 0, 0, 0);
        self.slab.drain()
    }
    /// What a slot holds, unless it is free.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&CommandSlot> {
        self.slab.get(at)
    }
    /// See [`Slots::get`].
    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut CommandSlot> {
        self.slab.get_mut(at)
    }
    /// All commands with their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &CommandSlot)> {
        self.slab.iter().map(|(at, slot)| (at as u16, slot))
    }
    /// See [`Slots::iter`].
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut CommandSlot)> {
        self.slab.iter_mut().map(|(at, slot)| (at as u16, slot))
    }
    /// Slots of the commands that are so.
    pub(super) fn all(&self, is_so: impl Fn(&CommandSlot) -> bool) -> Vec<u16> {
        self.iter().filter(|(_, slot)| is_so(slot)).map(|(at, _)| at).collect()
    }

    /// Whether somebody waits for buffers.
    #[inline]
    pub(super) fn anybody_waits(&self) -> bool {
        !self.waiting.is_empty()
    }
    /// A command waits for buffers from now on.
    pub(super) fn wait(&mut self, at: u16) {
        self[usize::from(at)].stage = CommandStage::Waiting;
        self.wait_running(at);
    }
    /// The same for one that runs, and is between two steps.
    pub(super) fn wait_running(&mut self, at: u16) {
        debug_assert!(!self.waiting.contains(&at), "it waits already");
        self.waiting.push_back(at);
    }
    /// Who waits for buffers, and is first.
    #[inline]
    pub(super) fn first_waiting(&self) -> Option<u16> {
        self.waiting.front().copied()
    }
    /// A command does not wait any more.
    pub(super) fn stop_waiting(&mut self, at: u16) {
        match self.waiting.front() == Some(&at) {
            true => drop(self.waiting.pop_front()),
            false => self.waiting.retain(|w| *w != at),
        }
    }
    /// Nobody is to get buffers any more. Those that run and have waited between two steps.
    pub(super) fn stop_all_waiting(&mut self) -> Vec<u16> {
        let waiting = core::mem::take(&mut self.waiting);
        waiting.into_iter().filter(|at| self.slab[usize::from(*at)].stage == CommandStage::Running).collect()
    }

    /// The data of a command is asked for.
    #[inline]
    pub(super) fn ask(&mut self, at: u16) {
        let slot = &mut self.slab[usize::from(at)];
        slot.stage = CommandStage::Asked;
        self.large += u32::from(slot.is_large());
    }
    /// All data that a command was asked for has come.
    #[inline]
    pub(super) fn asked_came(&mut self, at: u16) {
        self.large -= u32::from(self.slab[usize::from(at)].is_large());
    }
    /// Whether large data was asked for and has not all come.
    #[inline]
    pub(super) fn awaits_large(&self) -> bool {
        self.large > 0
    }

    /// What the last command was to a fused operation.
    #[inline]
    pub(super) fn fusing(&self) -> Fusing {
        self.fusing
    }
    /// The last command is this to a fused operation; what the one before it was.
    pub(super) fn set_fusing(&mut self, fusing: Fusing) -> Fusing {
        core::mem::replace(&mut self.fusing, fusing)
    }

    /// Commands that were aborted and answered while their data was under way.
    pub(super) fn aborted(&self) -> u16 {
        self.aborted
    }
    /// A command was answered, and its slot stays until its data has come.
    pub(super) fn answered_early(&mut self) {
        self.aborted += 1;
    }
    /// Such a slot has come free.
    pub(super) fn early_is_gone(&mut self) {
        self.aborted -= 1;
    }

    /// Commands that a volume or the controller works on.
    #[inline]
    pub(super) fn running(&self) -> u32 {
        self.running
    }
    /// So many more run.
    #[inline]
    pub(super) fn begin_running(&mut self, count: u32) {
        self.running += count;
    }
    /// So many run no more.
    #[inline]
    pub(super) fn end_running(&mut self, count: u32) {
        debug_assert!(self.running >= count, "what ends has run");
        self.running -= count;
    }
    /// So many that run wait for their turn, or for buffers, from now on.
    pub(super) fn pause(&mut self, count: u32) {
        self.paused += count;
    }
    /// So many that have waited go on.
    pub(super) fn resume(&mut self, count: u32) {
        debug_assert!(self.paused >= count, "what goes on has waited");
        self.paused -= count;
    }
    /// Commands that a volume or the controller works on, and of which buffers may come back.
    #[inline]
    pub(super) fn working(&self) -> u32 {
        self.running - self.paused
    }

    /// Bytes that the commands hold for which no memory comes back without a byte of the host: those that nobody works on.
    pub(super) fn held_by_idle(&self) -> u32 {
        self.slab.iter().filter(|(_, s)| !s.is_worked_on()).map(|(_, s)| s.held).sum()
    }
    /// Whether no buffers come back by themselves, for which the command in slot `at` (or a new one) could wait: all that was `asked` for belongs to it,
    /// to halves of pairs and to commands that wait too, for buffers or for their turn. False while a command works: it is asked again when none does.
    #[cold]
    pub(super) fn is_alone(&self, at: Option<u16>, asked: u32) -> bool {
        if self.working() > 0 || hooks::seeded(SeededFault::OwnCapsuleAwaited) {
            return false;
        }
        let stays = |i: u16, s: &CommandSlot| {
            at == Some(i) || matches!(s.stage, CommandStage::Waiting | CommandStage::Paired | CommandStage::Running)
        };
        asked == self.iter().filter(|(i, s)| stays(*i, s)).map(|(_, s)| s.asked()).sum::<u32>()
    }
}

impl Index<usize> for Slots {
    type Output = CommandSlot;
    #[inline]
    fn index(&self, at: usize) -> &CommandSlot {
        &self.slab[at]
    }
}
impl IndexMut<usize> for Slots {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut CommandSlot {
        &mut self.slab[at]
    }
}

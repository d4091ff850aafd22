//! The checkpoint: makes durable what the chunk table says, then releases the log up to where it was clean.
//!
//! ```text
//!   target = first segment that is not clean      (one step: no effect of a record before `target` is missing
//!   what copies know and only the log before `target` says: noted, durable
//!   begin the checkpoint of the chunk table        in the pages that this checkpoint writes)
//!   pages and data of capacity: write, flush
//!   a batch that names `target` as the tail: durable
//!   release the segments before `target`, one by one
//! ```
//!
//! Never: releases a segment before all of that; runs twice at a time.

use crate::buffer::log::Cursor;
use crate::capacity;
use crate::shard::state::State;
use base::hooks::{self, CoverageMark, SeededFault};
use core::cell::RefCell;
use rt::Rt;
use std::rc::Rc;

/// One checkpoint. Errors are counted and slow the next one down; nothing is lost by them. False: there is no room now for what has to come first.
pub(crate) async fn run(rt: &Rt, state: &Rc<RefCell<State>>) -> bool {
    let (target, began) = {
        let mut s = state.borrow_mut();
        s.destage.last_checkpoint = rt.now();
        (s.advance_clean(), (s.log.ring().head(), s.log.next_lsn()))
    };
    // Before the pages are taken: what an epoch stamps after it, replay stamps with what the notes say is in doubt.
    let Some((notes, target)) = write_notes(rt, state, target).await else { return false };
    let pages = state.borrow().space.checkpoint(rt);
    let result = match hooks::seeded(SeededFault::EarlyTail) {
        true => Ok(capacity::CheckpointReport::default()),
        false => pages.await,
    };
    if let Err(error) = result {
        let mut s = state.borrow_mut();
        hooks::reached(CoverageMark::CheckpointFailed);
        s.figures.capacity_write_errors += 1;
        s.destage.failed(error.error, rt.now());
        return true;
    }
    let target = if hooks::seeded(SeededFault::LateTarget) { state.borrow_mut().advance_clean() } else { target };
    if !write_tail(rt, state, target).await {
        return true;
    }
    release(rt, state, target).await;
    state.borrow_mut().log.rests(began, target, notes);
    state.borrow_mut().figures.checkpoints += 1;
    true
}

/// Has batches note what copies know, as far as the log before `target` is needed for it: how many, and what may be given up then. That is less where
/// there is no room for all. `None` when nothing can be written.
async fn write_notes(rt: &Rt, state: &Rc<RefCell<State>>, target: u64) -> Option<(u64, u64)> {
    let (mut batches, mut no_room) = (0, false);
    loop {
        let written = {
            let mut s = state.borrow_mut();
            let oldest = s.oldest_note();
            if oldest >= target || hooks::seeded(SeededFault::NotesForgotten) {
                return Some((batches, target));
            }
            if s.log.is_stopped() {
                return None;
            }
            let wanted = if no_room { None } else { s.want_notes(rt, target) };
            match wanted {
                Some(written) => written,
                None => return (oldest > s.log.ring().tail()).then_some((batches, oldest)),
            }
        };
        written.notified().await;
        batches += 1;
        no_room = state.borrow().notes_found_no_room();
    }
}

/// Has a batch carry the new tail. False when the log cannot be written.
async fn write_tail(rt: &Rt, state: &Rc<RefCell<State>>, target: u64) -> bool {
    let written = {
        let mut s = state.borrow_mut();
        let written = s.log.want_tail(target + u64::from(hooks::seeded(SeededFault::TailOffByOne)));
        s.start_batch(rt);
        written
    };
    loop {
        {
            let s = state.borrow();
            if s.log.tail_durable() >= target || hooks::seeded(SeededFault::ReleasedBeforeTail) {
                return true;
            }
            if s.log.is_stopped() {
                return false;
            }
        }
        written.notified().await;
    }
}

/// Releases the segments before `target`: their blocks are read from capacity from now on.
async fn release(rt: &Rt, state: &Rc<RefCell<State>>, target: u64) {
    loop {
        {
            let mut s = state.borrow_mut();
            if s.log.ring().tail() >= target {
                return;
            }
            s.release_oldest();
            s.figures.segments_released += 1;
            s.start_batch(rt);
        }
        rt.yield_now().await;
    }
}

impl State {
    /// Gives the oldest segment back; destaging goes on behind it.
    fn release_oldest(&mut self) {
        self.log.release_oldest();
        let tail = self.log.ring().tail();
        if self.destage.cursor.seq < tail && !hooks::seeded(SeededFault::CursorLeftBehind) {
            self.destage.cursor = Cursor { seq: tail, record: 0 };
        }
    }
}

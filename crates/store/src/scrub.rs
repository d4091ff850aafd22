//! Scrub: reads everything that is stored and verifies it, at a set rate, before a host needs it.
//!
//! Owns: the pass. Bad blocks are counted and listed in the statistics; a write over a bad block heals it.
//! Invariants: what changed while it was read is not judged; what lies in the log is pinned while it is read; what a host has
//! declared uncorrectable is no corruption.
//! Never: repairs (the layer above has the other copies); runs faster than its setting.

pub(crate) mod progress;

use crate::capacity::{BlockContent, Phys, Walk};
use crate::index::{Key, LogPos};
use crate::shard::state::State;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{BLOCK_BYTES, CHUNK_BLOCKS, CHUNK_BYTES};
use base::{BlockNo, crc32c};
use core::cell::RefCell;
use rt::{Buf, Rt, TaskId};
use std::rc::Rc;

/// Chunks looked at in one go.
const WALK_BUDGET: usize = 4096;

pub(crate) fn spawn(rt: &Rt, state: &Rc<RefCell<State>>) -> TaskId {
    state.borrow_mut().scrub.begins();
    rt.spawn(pass(rt.clone(), Rc::clone(state)))
}

async fn pass(rt: Rt, state: Rc<RefCell<State>>) {
    let total = state.borrow().space.table().allocated().max(1) as f64;
    let mut seen = 0u64;
    let mut after = None;
    loop {
        let step = state.borrow().space.walk(after, hooks::tiny(WALK_BUDGET, 3));
        match step {
            Walk::End => break,
            Walk::GoOn(at) => {
                after = Some(at);
                rt.yield_now().await;
            }
            Walk::Found(at) => {
                after = Some(at);
                seen += 1;
                state.borrow_mut().scrub.has_come_to(seen as f64 / total);
                scrub_chunk(&rt, &state, at).await;
                pause(&rt, &state, CHUNK_BYTES).await;
            }
        }
    }
    scrub_log(&rt, &state).await;
    let mut s = state.borrow_mut();
    s.scrub.ends();
    s.figures.scrub_passes += 1;
}

/// Keeps to the rate.
async fn pause(rt: &Rt, state: &Rc<RefCell<State>>, bytes: u64) {
    let time = state.borrow().scrub.time_of(bytes);
    rt.sleep(time).await;
}

/// Verifies the blocks of a chunk. A block with something newer in the log is skipped: what lies on capacity may be half written.
async fn scrub_chunk(rt: &Rt, state: &Rc<RefCell<State>>, at: Phys) {
    for attempt in 0..2 {
        let (device, offset, before) = state.borrow().space.look_at(at);
        let Some(component) = before.component() else { return };
        let (result, buf) = rt.read_at(&device, offset, Buf::alloc(CHUNK_BYTES as usize)).await;
        let mut s = state.borrow_mut();
        if s.space.has_changed(at, &before) {
            hooks::reached(CoverageMark::ScrubPassedOver);
            return; // it changes: it has just been, or will be, verified on its way
        }
        let mut bad = Vec::new();
        let mut verified = 0;
        for i in 0..CHUNK_BLOCKS as u32 {
            let BlockContent::Checked(crc) = before.block(i) else { continue };
            let block = BlockNo(before.chunk() * CHUNK_BLOCKS + u64::from(i));
            if s.log.find_live(component, block).is_some() {
                continue;
            }
            verified += 1;
            if result.is_err() || crc32c(&buf[i as usize * BLOCK_BYTES..][..BLOCK_BYTES]) != crc {
                bad.push(block);
            }
        }
        if !bad.is_empty() && attempt == 0 && !hooks::seeded(SeededFault::ScrubBelievesFirst) {
            continue;
        }
        s.figures.scrubbed_blocks += verified;
        s.figures.read_errors += u64::from(result.is_err());
        for block in bad {
            s.figures.checksum_errors += 1;
            s.found_bad(rt, component, block);
        }
        return;
    }
}

/// Verifies what has its newest version in the log.
async fn scrub_log(rt: &Rt, state: &Rc<RefCell<State>>) {
    let maps = state.borrow().log.index().maps();
    for map in 0..maps {
        let mut entries: Vec<_> = state.borrow().log.index().iter_map(map).collect();
        entries.sort_unstable_by_key(|(_, at)| at.pos.block());
        for (key, at) in entries {
            scrub_log_block(rt, state, key, at.pos, at.crc).await;
        }
    }
}

async fn scrub_log_block(rt: &Rt, state: &Rc<RefCell<State>>, key: Key, pos: LogPos, crc: u32) {
    let log = {
        let mut s = state.borrow_mut();
        let same = s.log.find(key.component(), key.block()).is_some_and(|found| found.pos.block() == pos.block() && found.crc == crc);
        if !same || pos.unchecked() || !s.members.has(key.component()) {
            return;
        }
        s.log.pin(pos);
        s.scrub.reads_log(pos.block());
        s.log.slice().clone()
    };
    let mut good = false;
    let mut buf = Buf::alloc(BLOCK_BYTES);
    for _ in 0..2 {
        let result;
        (result, buf) = log.read(rt, pos.block(), buf).await;
        good = result.is_ok() && crc32c(&buf) == crc;
        if good {
            break;
        }
    }
    {
        let mut s = state.borrow_mut();
        if good || !hooks::seeded(SeededFault::ScrubKeepsPin) {
            s.log.unpin(pos);
        }
        s.scrub.log_was_read();
        s.figures.scrubbed_blocks += 1;
        if !good {
            s.figures.checksum_errors += 1;
            s.found_bad(rt, key.component(), key.block());
        }
    }
    pause(rt, state, BLOCK_BYTES as u64).await;
}

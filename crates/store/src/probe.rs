//! What the simulator looks at, at any instant between two events: the shards that are open on this thread, their invariants, and a picture of
//! what each holds, to be compared with what another start would find on the devices.
//!
//! Owns: the pictures; `open_shards` lists the shards. Exists with the feature `hooks` only.
//! Never: changes anything.

pub(crate) mod open_shards;

use crate::capacity::BlockContent;
use crate::shard::state::State;
use crate::{ComponentNo, Group, Shard};
use base::Epoch;
use base::unit::CHUNK_BLOCKS;
use open_shards::each;
use std::collections::{BTreeMap, BTreeSet};

/// Checks all invariants of all shards, of which there are so many when all are open; panics when one is broken. Slow.
pub fn check(shards: usize) {
    each(State::check);
    // What front ends report is what the tables have, once each table knows the component.
    let mut counts: BTreeMap<u32, (usize, u64, u64)> = BTreeMap::new();
    each(|state| {
        for (no, allocated, reported) in state.space.table().usage() {
            let (tables, all, said) = counts.entry(no).or_default();
            (*tables, *all, *said) = (*tables + 1, *all + allocated, reported);
        }
    });
    for (no, (_, all, said)) in counts.iter().filter(|(_, (tables, ..))| *tables == shards) {
        assert_eq!(all, said, "chunks that component {no} has, and what is reported");
    }
}

/// Checks what costs next to nothing.
pub fn check_quickly() {
    each(State::check_quickly);
}

/// What the shards hold.
pub fn pictures() -> Vec<Picture> {
    let mut all = Vec::new();
    each(|state| all.push(Picture::of(state)));
    all
}

/// What a shard holds at an instant.
#[derive(Debug)]
pub struct Picture {
    /// Its number.
    pub shard: u8,
    /// A write of the log has failed for good, or a block was found lost: what the devices hold may differ.
    pub unsure: bool,
    blocks: BTreeMap<(u32, u64), BlockContent>,
    changing: BTreeSet<(u32, u64)>,
    /// Of each chunk: the epoch of its last change, and which blocks have changed.
    changes: BTreeMap<(u32, u64), (Epoch, u16)>,
    components: BTreeSet<u32>,
    tail_durable: u64,
    tail_next: u64,
    /// Of each device and page: see `ChunkTable::pages`.
    pages: Vec<Vec<(u64, u8, u64)>>,
}

impl Picture {
    fn of(state: &State) -> Picture {
        Picture {
            shard: state.shard,
            unsure: state.log.is_stopped() || state.figures.checksum_errors > 0,
            blocks: state.contents(),
            changing: state.changing(),
            changes: state.space.table().changes_of_chunks(),
            components: state.members.iter().map(|no| no.0).collect(),
            tail_durable: state.log.tail_durable(),
            tail_next: state.log.tail_next(),
            pages: state.space.table().pages(),
        }
    }

    /// What is wrong with `found`, a shard opened from what was durable when this picture was taken.
    pub fn differs(&self, found: &Shard, group: &Group) -> Option<String> {
        let state = found.state().borrow();
        let there = Picture::of(&state);
        let both = |key: &(u32, u64)| self.components.contains(&key.0) && there.components.contains(&key.0) && !self.changing.contains(key);
        let keys = self.blocks.keys().chain(there.blocks.keys()).filter(|key| both(key));
        for key in keys {
            let (here, there) = (self.blocks.get(key), there.blocks.get(key));
            if here != there {
                return Some(format!("block {} of component {} is {here:?} in memory, and {there:?} after another start", key.1, key.0));
            }
        }
        for (key @ (component, chunk), &(epoch, changed)) in &self.changes {
            let under_way = (0..CHUNK_BLOCKS).any(|i| self.changing.contains(&(*component, chunk * CHUNK_BLOCKS + i)));
            let Some(&(is, mask)) = there.changes.get(key).filter(|_| !under_way && !self.unsure) else { continue };
            if is != epoch || mask != changed && mask != u16::MAX {
                return Some(format!(
                    "chunk {chunk} of component {component} changed in epoch {epoch}, blocks {changed:#06x}; after another start {is}, {mask:#06x}"
                ));
            }
        }
        if !(self.tail_durable..=self.tail_next).contains(&there.tail_durable) {
            let (least, most, is) = (self.tail_durable, self.tail_next, there.tail_durable);
            return Some(format!("the oldest segment is {least} to {most}, and {is} after another start"));
        }
        if state.log.ring().free() == 0 {
            return Some("after another start the log has no segment left to be written".into());
        }
        self.pages_differ(&there).or_else(|| promises_differ(&state, group))
    }

    /// A page has the committed version, or a later one that is in the other slot.
    fn pages_differ(&self, there: &Picture) -> Option<String> {
        for (device, (here, there)) in self.pages.iter().zip(&there.pages).enumerate() {
            for (page, &(committed, slot, tried)) in here.iter().enumerate() {
                let right = match there.get(page) {
                    None => committed == 0,
                    Some(&(is, at, _)) if at == slot => is == committed,
                    Some(&(is, ..)) => is > committed && is <= tried,
                };
                if !right {
                    let is = there.get(page);
                    return Some(format!(
                        "page {page} of device {device} has version {committed} in slot {slot}, but after another start {is:?}"
                    ));
                }
            }
        }
        None
    }
}

/// Each component is promised what its record says.
fn promises_differ(state: &State, group: &Group) -> Option<String> {
    let shards = u64::from(group.info().shards);
    let table = state.space.table();
    let wrong = |c: &&crate::ComponentInfo| table.reserve_of(ComponentNo(c.no.0)) != Some(c.reserve_chunks.div_ceil(shards));
    let found = group.components();
    found.iter().find(wrong).map(|c| format!("after another start component {} is promised other than its record says", c.no.0))
}

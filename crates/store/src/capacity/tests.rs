//! The table in memory: allocation, accounting, checkpoints, against a plain model.

use super::*;
use crate::components::ComponentNo;
use crate::geometry::CapacityGeometry;
use format::disk::{FormatTag, PageHeader};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

fn geometry() -> CapacityGeometry {
    CapacityGeometry::plan(32 * MIB, 1).unwrap()
}

fn table(devices: usize) -> ChunkTable {
    ChunkTable::new(FormatTag(1), 0, 1, &vec![geometry(); devices])
}

fn no(n: u32) -> ComponentNo {
    ComponentNo(n)
}

#[test]
fn chunks_of_a_piece_lie_together_whatever_the_order() {
    let mut t = table(1);
    t.add_component(no(1), 0, 0);
    t.add_component(no(2), 0, 0);
    let mut places = BTreeMap::new();
    // two components take turns, in an order that jumps
    for i in 0..16u64 {
        for c in [1, 2] {
            places.insert((c, i * 5 % 16), t.allocate(no(c), 32 + i * 5 % 16).unwrap());
        }
    }
    for c in [1, 2] {
        let first = places[&(c, 0)].chunk;
        assert!(first.is_multiple_of(16));
        assert!((0..16).all(|i| places[&(c, i)].chunk == first + i as u32));
    }
    t.check().unwrap();
}

#[test]
fn a_full_device_says_so_at_once_and_a_freed_chunk_is_found_again() {
    let mut t = table(2);
    t.add_component(no(1), 0, 0);
    t.add_component(no(2), 1, 0);
    let total = u64::from(geometry().chunks_per_shard);
    let last = (0..total).map(|i| t.allocate(no(1), i * 3).unwrap()).last().unwrap();
    assert_eq!(t.allocate(no(1), 1), Err(AllocateError::NoSpace));
    assert!(t.allocate(no(2), 1).is_ok(), "another device has room");
    assert_eq!(t.space()[0], DeviceSpace { total, free: 0, promised: 0 });
    t.free(last);
    assert_eq!(t.allocate(no(1), 1), Ok(last));
    assert_eq!(t.allocate(no(7), 1), Err(AllocateError::NoComponent));
    t.fail_device(1);
    assert_eq!(t.allocate(no(2), 2), Err(AllocateError::DeviceFailed));
    t.check().unwrap();
}

#[test]
fn what_is_promised_to_one_component_is_not_given_to_others() {
    let mut t = table(1);
    let total = u64::from(geometry().chunks_per_shard);
    t.add_component(no(1), 0, 10);
    t.add_component(no(2), 0, 0);
    t.allocate(no(1), 0).unwrap();
    let taken = (0..total).take_while(|i| t.allocate(no(2), *i).is_ok()).count() as u64;
    assert_eq!(taken, total - 10);
    for i in 1..10 {
        t.allocate(no(1), i).unwrap();
    }
    assert_eq!(t.allocate(no(1), 10), Err(AllocateError::NoSpace));
    // a freed chunk of the promised ones stays promised
    t.free(t.lookup(no(1), 3).unwrap());
    assert_eq!(t.space()[0], DeviceSpace { total, free: 1, promised: 1 });
    assert_eq!(t.allocate(no(2), 5000), Err(AllocateError::NoSpace));
    t.add_component(no(1), 0, 0);
    assert!(t.allocate(no(2), 5000).is_ok(), "the promise was taken back");
    t.check().unwrap();
}

#[test]
fn every_change_changes_the_version_even_across_free_and_reuse() {
    let mut t = table(1);
    t.add_component(no(1), 0, 0);
    let mut seen = Vec::new();
    for round in 0..3 {
        let at = t.allocate(no(1), 0).unwrap();
        seen.push(t.get(at).ver);
        t.set_block(at, 3, Some(7), round);
        seen.push(t.get(at).ver);
        assert_eq!((t.get(at).block(3), t.get(at).block(4)), (BlockContent::Checked(7), BlockContent::Zeroes));
        t.set_block(at, 3, None, round);
        seen.push(t.get(at).ver);
        assert_eq!((t.get(at).block(3), t.get(at).crcs[3]), (BlockContent::Unchecked, 0));
        t.set_uncorrectable(at, 0b11000, round);
        seen.push(t.get(at).ver);
        assert_eq!((t.get(at).block(3), t.get(at).block(5)), (BlockContent::Uncorrectable, BlockContent::Zeroes));
        t.set_block(at, 4, Some(9), round);
        assert_eq!((t.get(at).block(3), t.get(at).block(4)), (BlockContent::Uncorrectable, BlockContent::Checked(9)));
        assert_eq!(t.clear_blocks(at, 0b11000, round), 0);
        seen.push(t.get(at).ver);
        t.free(at);
        assert!(!seen.contains(&t.get(at).ver) && t.get(at).component().is_none());
    }
    let mut distinct = seen.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), seen.len());
}

#[test]
fn a_dropped_component_gives_its_chunks_back_in_small_steps() {
    let mut t = table(1);
    t.add_component(no(1), 0, 50);
    t.add_component(no(2), 0, 0);
    let kept = t.allocate(no(2), 0).unwrap();
    for i in 0..100 {
        let at = t.allocate(no(1), i).unwrap();
        t.set_block(at, 0, Some(1), 1);
    }
    t.drop_component(no(1));
    assert_eq!(t.space()[0].promised, 0);
    let mut steps = 1;
    while t.reap(10) {
        t.check().unwrap();
        steps += 1;
    }
    assert!((10..20).contains(&steps), "{steps}");
    assert_eq!((t.allocated(), t.lookup(no(2), 0)), (1, Some(kept)));
    t.check().unwrap();
}

#[test]
fn walking_finds_every_allocated_chunk_once() {
    let mut t = table(2);
    t.add_component(no(1), 0, 0);
    t.add_component(no(2), 1, 0);
    let mut want: Vec<Phys> = (0..40).map(|i| t.allocate(no(1 + i % 2), u64::from(i) * 37).unwrap()).collect();
    want.sort_unstable();
    for budget in [1, 7, 10_000] {
        let (mut got, mut after) = (Vec::new(), None);
        loop {
            match t.walk(after, budget) {
                Walk::Found(at) => {
                    got.push(at);
                    after = Some(at);
                }
                Walk::GoOn(at) => after = Some(at),
                Walk::End => break,
            }
        }
        assert_eq!(got, want, "budget {budget}");
    }
}

#[test]
fn a_page_alternates_between_its_slots_only_when_committed() {
    let mut t = table(1);
    t.add_component(no(1), 0, 0);
    let at = t.allocate(no(1), 0).unwrap();
    assert!(t.begin_checkpoint().is_none(), "an empty chunk is not worth a write");
    let (mut page, mut generation) = (vec![0; 4096], 0);
    let mut write = |t: &mut ChunkTable, commit: bool| {
        t.set_block(at, 0, Some(1), 1);
        let c = t.begin_checkpoint().unwrap();
        let mut first = true;
        let offsets: Vec<u64> = c
            .pages
            .iter()
            .chain(&c.heads)
            .map(|p| {
                let at = t.encode(*p, &mut page);
                if core::mem::take(&mut first) {
                    // What failed may have come: another version has another number.
                    generation += 1;
                    assert_eq!(PageHeader::parse(&page, FormatTag(1)).unwrap().generation, generation);
                }
                at
            })
            .collect();
        if commit {
            t.committed(c)
        } else {
            t.aborted(c)
        }
        t.check().unwrap();
        offsets
    };
    let all = geometry().chunk_pages_per_shard as usize;
    let first = write(&mut t, false);
    assert_eq!(first.len(), all, "the table grows to all its pages, and the head follows");
    let again = write(&mut t, true);
    assert_eq!(first, again, "what failed goes to the same slots again");
    let a = geometry().chunk_page_offset(0, 1, 0);
    assert_eq!(again[0], a);
    let slots: Vec<Vec<u64>> = (0..3).map(|_| write(&mut t, true)).collect();
    assert_eq!(slots, [[a + 4096], [a], [a + 4096]]);
    assert!(t.begin_checkpoint().is_none());
}

#[test]
fn a_head_counts_the_pages_of_its_checkpoint_and_not_those_that_came_since() {
    let geometry = CapacityGeometry::plan(512 * MIB, 1).unwrap();
    let mut t = ChunkTable::new(FormatTag(1), 0, 1, &[geometry]);
    t.add_component(no(1), 0, 0);
    let at = t.allocate(no(1), 0).unwrap();
    t.set_block(at, 0, Some(1), 1);
    let c = t.begin_checkpoint().unwrap();
    let written = 1 + c.pages.len() as u64;
    // The table grows while its pages are on their way.
    let mut last = at;
    while u64::from(last.chunk) < written * 42 {
        last = t.allocate(no(1), u64::from(last.chunk) + 1).unwrap();
    }
    t.set_block(last, 0, Some(2), 2);
    let mut page = vec![0; 4096];
    c.pages.iter().for_each(|p| _ = t.encode(*p, &mut page));
    t.encode(c.heads[0], &mut page);
    assert_eq!(format::disk::page::TableHead::parse(&page).unwrap().pages_used, written);
    t.committed(c);
    t.check().unwrap();
}

#[test]
fn what_changes_during_a_checkpoint_is_dirty_after_it() {
    let mut t = table(1);
    t.add_component(no(1), 0, 0);
    let at = t.allocate(no(1), 0).unwrap();
    t.set_block(at, 0, Some(1), 1);
    let c = t.begin_checkpoint().unwrap();
    let mut page = vec![0; 4096];
    for p in c.pages.iter().chain(&c.heads) {
        t.encode(*p, &mut page);
    }
    t.set_block(at, 1, Some(2), 2);
    t.committed(c);
    assert_eq!(t.dirty_pages(), 1);
    t.check().unwrap();
}

#[test]
fn what_a_component_has_is_counted_for_others_too() {
    let usage = crate::usage::Usage::default();
    let mut t = table(1).counted_in(&usage);
    t.add_component(no(1), 0, 0);
    t.add_component(no(2), 0, 0);
    let used = || [usage.of(no(1), 0).get(), usage.of(no(2), 0).get()];
    let places: Vec<Phys> = (0..3).map(|i| t.allocate(no(1), i).unwrap()).collect();
    t.allocate(no(2), 0).unwrap();
    assert_eq!(used(), [3, 1]);
    t.free(places[1]);
    assert_eq!(used(), [2, 1]);
    assert_eq!((t.component_allocated(no(1)), t.component_allocated(no(2))), (2, 1));
}

#[test]
fn what_a_device_has_open_is_said_over_all_shards() {
    let usage = crate::usage::Usage::default();
    let mut tables = [table(1).counted_in(&usage), table(1).counted_in(&usage)];
    let open = |tables: &[ChunkTable; 2]| {
        let of = |t: &ChunkTable| (t.space()[0].total, t.space()[0].free - t.space()[0].promised);
        let (a, b) = (of(&tables[0]), of(&tables[1]));
        Some((a.1 + b.1) * 100 / (a.0 + b.0))
    };
    let said = || usage.of(no(1), 0).open_percent();
    assert_eq!(said(), Some(100));
    let chunks = tables[0].space()[0].total;
    // Promises count for all shards, whoever has them; what is taken of one is not promised any more.
    for t in &mut tables {
        t.add_component(no(1), 0, chunks / 4);
        t.add_component(no(2), 0, 0);
    }
    assert_eq!(said(), open(&tables));
    let before = said();
    let at = tables[0].allocate(no(1), 0).unwrap();
    assert_eq!(said(), before);
    let places: Vec<Phys> = (0..chunks / 2).map(|i| tables[1].allocate(no(2), i).unwrap()).collect();
    assert_eq!(said(), open(&tables));
    assert!(said() < before);
    places.into_iter().for_each(|p| tables[1].free(p));
    tables[0].free(at);
    assert_eq!((said(), open(&tables)), (before, before));
    for t in &mut tables {
        t.drop_component(no(1));
    }
    assert_eq!((said(), open(&tables)), (Some(100), Some(100)));
}

#[test]
fn the_order_of_a_chunk_is_that_of_its_newest_change() {
    let mut t = table(1);
    t.add_component(no(1), 0, 0);
    let at = t.allocate(no(1), 0).unwrap();
    for (seq, newest) in [(7, 7), (3, 7), (9, 9)] {
        t.set_block(at, 0, Some(1), seq);
        assert_eq!(t.get(at).lsn(), newest);
    }
    t.clear_blocks(at, 1, 8);
    t.set_block(at, 0, Some(1), 1);
    assert_eq!(t.get(at).lsn(), 9);
    t.clear_blocks(at, 1, 11);
    assert_eq!(t.get(at).lsn(), 11);
}

#[test]
fn the_older_of_two_places_is_taken_off_the_device_whichever_is_loaded_first() {
    let entry = |seq| {
        let crcs = core::array::from_fn(|i| if i == 0 { seq as u32 } else { 0 });
        format::disk::ChunkEntry {
            component: 1,
            chunk: 9,
            written: 1,
            unchecked: 0,
            uncorrectable: 0,
            lsn: seq,
            epoch: base::Epoch(1),
            changed: 1,
            crcs,
        }
    };
    let (first, second) = (Phys { device: 0, chunk: 5 }, Phys { device: 0, chunk: 50 });
    for (a, b, kept, dirty) in [(1, 2, second, 1), (2, 1, first, 2), (2, 2, first, 2)] {
        let mut t = table(1);
        t.add_component(no(1), 0, 0);
        t.set_loaded_pages(0, 3);
        for page in 0..3 {
            t.set_loaded_page(PageRef { device: 0, page }, 0, 1);
        }
        t.insert_loaded(first, &entry(a));
        assert_eq!(t.dirty_pages(), 0);
        t.insert_loaded(second, &entry(b));
        assert_eq!((t.lookup(no(1), 9), t.allocated()), (Some(kept), 1), "{a} and {b}");
        assert_eq!(t.begin_checkpoint().unwrap().pages, [PageRef { device: 0, page: dirty }], "{a} and {b}");
        t.check().unwrap();
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set { component: u32, chunk: u64, block: u32, crc: Option<u32> },
    CoverageMark { component: u32, chunk: u64, mask: u16 },
    Clear { component: u32, chunk: u64, mask: u16 },
    Free { component: u32, chunk: u64 },
    Promise { component: u32, chunks: u64 },
    Drop { component: u32 },
    Checkpoint { commit: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let (component, chunk) = (1u32..5, 0u64..300);
    prop_oneof![
        8 => (component.clone(), chunk.clone(), 0u32..16, any::<Option<u32>>())
            .prop_map(|(component, chunk, block, crc)| Op::Set { component, chunk, block, crc }),
        1 => (component.clone(), chunk.clone(), any::<u16>()).prop_map(|(component, chunk, mask)| Op::CoverageMark { component, chunk, mask }),
        2 => (component.clone(), chunk.clone(), any::<u16>()).prop_map(|(component, chunk, mask)| Op::Clear { component, chunk, mask }),
        2 => (component.clone(), chunk).prop_map(|(component, chunk)| Op::Free { component, chunk }),
        1 => (component.clone(), 0u64..400).prop_map(|(component, chunks)| Op::Promise { component, chunks }),
        1 => component.prop_map(|component| Op::Drop { component }),
        1 => any::<bool>().prop_map(|commit| Op::Checkpoint { commit }),
    ]
}

fn home(component: u32) -> u8 {
    (component % 2) as u8
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_table_agrees_with_a_plain_model(ops in prop::collection::vec(op(), 1..600)) {
        let mut t = table(2);
        let mut model: BTreeMap<(u32, u64), BTreeMap<u32, BlockContent>> = BTreeMap::new();
        for c in 1..5 {
            t.add_component(no(c), home(c), 0);
        }
        for (seq, op) in ops.into_iter().enumerate() {
            match op {
                Op::Set { component, chunk, block, crc } => {
                    let at = match t.lookup(no(component), chunk) {
                        Some(at) => at,
                        None => match t.allocate(no(component), chunk) {
                            Ok(at) => at,
                            Err(_) => continue,
                        },
                    };
                    t.set_block(at, block, crc, seq as u64);
                    model.entry((component, chunk)).or_default().insert(block, crc.map_or(BlockContent::Unchecked, BlockContent::Checked));
                }
                Op::CoverageMark { component, chunk, mask } => {
                    let Some(at) = t.lookup(no(component), chunk) else { continue };
                    t.set_uncorrectable(at, mask, seq as u64);
                    let marked = (0..16).filter(|b| mask >> b & 1 == 1).map(|b| (b, BlockContent::Uncorrectable));
                    model.get_mut(&(component, chunk)).unwrap().extend(marked);
                }
                Op::Clear { component, chunk, mask } => {
                    let Some(at) = t.lookup(no(component), chunk) else { continue };
                    let left = t.clear_blocks(at, mask, seq as u64);
                    let blocks = model.get_mut(&(component, chunk)).unwrap();
                    blocks.retain(|b, _| mask >> b & 1 == 0);
                    prop_assert_eq!(left.count_ones() as usize, blocks.len());
                }
                Op::Free { component, chunk } => {
                    let Some(at) = t.lookup(no(component), chunk) else { continue };
                    t.free(at);
                    model.remove(&(component, chunk));
                }
                Op::Promise { component, chunks } => t.add_component(no(component), home(component), chunks),
                Op::Drop { component } => {
                    t.drop_component(no(component));
                    while t.reap(64) {}
                    model.retain(|(c, _), _| *c != component);
                    t.add_component(no(component), home(component), 0);
                }
                Op::Checkpoint { commit } => {
                    let Some(c) = t.begin_checkpoint() else { continue };
                    let mut page = vec![0; 4096];
                    for p in c.pages.iter().chain(&c.heads) {
                        t.encode(*p, &mut page);
                    }
                    if commit { t.committed(c) } else { t.aborted(c) }
                }
            }
        }
        t.check().unwrap();
        prop_assert_eq!(t.allocated() as usize, model.len());
        for ((component, chunk), blocks) in &model {
            let at = t.lookup(no(*component), *chunk).unwrap();
            prop_assert_eq!(at.device, home(*component));
            for b in 0..16 {
                prop_assert_eq!(t.get(at).block(b), blocks.get(&b).copied().unwrap_or(BlockContent::Zeroes));
            }
        }
    }
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::SeededFault;
    base::hooks::notices(SeededFault::HeadAheadOfPages, a_head_counts_the_pages_of_its_checkpoint_and_not_those_that_came_since);
    base::hooks::notices(SeededFault::SlotOfFailedPage, a_page_alternates_between_its_slots_only_when_committed);
}

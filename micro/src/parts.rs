//! Cases of single parts of the store: checksum, index of the log, chunk map, header of a batch.

use crate::{Case, Counted, Draw, measured};
use base::unit::BLOCK_BYTES;
use base::{BlockNo, Duration, Epoch, Order, Seq, crc32c};
use format::disk::FormatTag;
use format::disk::log::{BatchHeader, Record, RecordKind, batch_header_blocks};
use std::hint::black_box;
use store::ComponentNo;
use store::bench::Index;
use store::capacity::ChunkTable;
use store::geometry::CapacityGeometry;

const COMPONENT: ComponentNo = ComponentNo(1);
/// Blocks of the slice of the log: 8 GiB.
const SLICE_BLOCKS: u64 = 2 << 20;
/// Entries of the large index, and of the small one.
const MANY: u64 = 1_000_000;
const FEW: u64 = 10_000;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, what, times, run| Case { name, what, times, counted: Counted::Measured, run };
    vec![
        case("crc32c-4k", "CRC-32C of 4 KiB", 1000, checksum),
        case("index-get-1e4", "look-up of a random block, 10,000 blocks in the log", 10_000, |n| index_get(FEW, n)),
        case("index-get-1e6", "look-up of a random block, 1,000,000 blocks in the log", 10_000, |n| index_get(MANY, n)),
        case("index-insert-1e4", "new version of a random block, 10,000 blocks in the log", 10_000, |n| index_insert(FEW, n)),
        case("index-insert-1e6", "new version of a random block, 1,000,000 blocks in the log", 10_000, |n| index_insert(MANY, n)),
        case("chunk-map-get", "look-up of a random chunk and of a block's checksum, 65,536 chunks (4 GiB)", 10_000, chunk_map),
        case("batch-header-1", "header of a batch of the log: one write of 4 KiB", 1000, |n| batch_header(1, n)),
        case("batch-header-32", "header of a batch of the log: 32 writes of 4 KiB", 1000, |n| batch_header(32, n)),
    ]
}

fn checksum(times: u64) -> Duration {
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|i| (i * 7) as u8).collect();
    let expected = crc32c(&block);
    let mut sum = 0;
    let took = measured(&mut || {
        for _ in 0..times {
            sum = crc32c(black_box(&block));
        }
    });
    assert_eq!(sum, expected);
    took
}

/// Every block of a range of `entries`, in the order of a log: at random, so that the tables are as random writes leave them.
fn filled(entries: u64) -> Index {
    let mut index = Index::new(SLICE_BLOCKS);
    let mut draw = Draw::new();
    let mut order: Vec<u64> = (0..entries).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, draw.below(i as u64 + 1) as usize);
    }
    for (at, block) in order.iter().enumerate() {
        index.insert(COMPONENT, BlockNo(*block), at as u32);
    }
    index
}

fn index_get(entries: u64, times: u64) -> Duration {
    let index = filled(entries);
    let (mut draw, mut found) = (Draw::new(), 0);
    let took = measured(&mut || {
        for _ in 0..times {
            found += u64::from(index.get(COMPONENT, BlockNo(draw.below(entries))).is_some());
        }
    });
    assert_eq!(found, times);
    took
}

fn index_insert(entries: u64, times: u64) -> Duration {
    let mut index = filled(entries);
    let (mut draw, mut replaced) = (Draw::new(), 0);
    let took = measured(&mut || {
        for at in 0..times {
            replaced += u64::from(index.insert(COMPONENT, BlockNo(draw.below(entries)), at as u32));
        }
    });
    assert_eq!(replaced, times);
    took
}

fn chunk_map(times: u64) -> Duration {
    const CHUNKS: u32 = 65_536;
    let geometry = CapacityGeometry {
        component_table_offset: 1 << 20,
        component_pages: 16,
        chunk_table_offset: 2 << 20,
        chunk_pages_per_shard: CHUNKS / 32 + 1,
        chunk_area_offset: 1 << 30,
        chunks_per_shard: CHUNKS,
    };
    let mut table = ChunkTable::new(FormatTag(1), 0, 1, &[geometry]);
    table.add_component(COMPONENT, 0, 0);
    for chunk in 0..u64::from(CHUNKS) {
        let at = table.allocate(COMPONENT, chunk).expect("there is room for each");
        (0..16).for_each(|block| table.set_block(at, block, Some(block), chunk + 1));
    }
    let (mut draw, mut found) = (Draw::new(), 0);
    let took = measured(&mut || {
        for _ in 0..times {
            let block = draw.below(u64::from(CHUNKS) * 16);
            if let Some(at) = table.lookup(COMPONENT, block / 16) {
                black_box((table.get(at).block(block as u32 % 16), table.offset(at)));
                found += 1;
            }
        }
    });
    assert_eq!(found, times);
    took
}

fn batch_header(writes: u32, times: u64) -> Duration {
    let records: Vec<Record> = (0..writes)
        .map(|n| Record {
            kind: RecordKind::Write,
            unchecked: false,
            component: 1,
            block: BlockNo(u64::from(n) * 37),
            blocks: 1,
            lsn: 9,
            order: Order {
                epoch: Epoch(1),
                period_start: Epoch(1),
                seq: Seq { term: Epoch(1), counter: 2 + u64::from(n) },
                mark: Seq { term: Epoch(1), counter: 1 },
            },
            data_at: 2 + n,
        })
        .collect();
    let crcs: Vec<u32> = (0..writes).collect();
    let mut out = vec![0; batch_header_blocks(records.len(), crcs.len()) * BLOCK_BYTES];
    let header = BatchHeader { tag: FormatTag(1), shard: 0, lsn: 9, segment_seq: 3, position: 1, tail_seq: 1, previous_crc: 5 };
    let mut sum = 0;
    let took = measured(&mut || {
        for _ in 0..times {
            sum = header.build(&mut out, black_box(&records), black_box(&crcs));
        }
    });
    let read = BatchHeader::parse(&out, FormatTag(1)).expect("what was built is right");
    assert_eq!((read.records.len(), read.crc), (records.len(), sum));
    took
}

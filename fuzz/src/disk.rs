//! What lies on devices (`format::disk`).
//!
//! Asserted everywhere: what parses is built again to the same bytes (the formats are canonical), and what is built parses to the same value.

use crate::input::{mode, patch, seal, stretched, u64_at};
use arbitrary::Unstructured;
use base::{BLOCK_BYTES, BlockNo, Epoch, Order, Seq};
use format::disk::log::{
    BATCH_HEADER_BLOCKS_MAX, BLOCK_NO_MAX, BatchHeader, BatchPeek, COMPONENT_NO_MAX, RECORD_BLOCKS_MAX, Record, RecordKind, Records,
    SEGMENT_BLOCKS_MAX, SUMMARY_BLOCKS_MAX, SegmentHeader, SummaryHeader, SummaryPeek, batch_header_blocks, summary_blocks,
};
use format::disk::page::{PAGE_BYTES, newest, slot_bytes};
use format::disk::superblock::{SUPERBLOCK_BYTES, VERSION_MINOR, looks_like_superblock};
use format::disk::{
    CHUNKS_PER_PAGE, COMPONENTS_PER_PAGE, DESCRIPTOR_BYTES_MAX, Descriptor, DiskError, FormatTag, PageAddress, PageHeader, PageKind, Role,
    Superblock, chunk, component, foreign,
    page::{PAGE_HEADER_BYTES, TableHead},
};

/// The tag of what is built here.
const TAG: FormatTag = FormatTag(0x5A5A_0102_0304_A5A5);

/// A superblock: mode 0 as it is, otherwise with the right magic number and checksum.
pub fn superblock(data: &[u8]) {
    let (how, rest) = mode(data);
    let mut b = stretched(rest, SUPERBLOCK_BYTES);
    if how != 0 {
        b[..8].copy_from_slice(b"BASALTSB");
        seal(&mut b, 8);
    }
    assert_eq!(Superblock::parse(&b[..SUPERBLOCK_BYTES - 1]), Err(DiskError::TooShort));
    let Ok(s) = Superblock::parse(&b) else { return };
    assert!(looks_like_superblock(&b));
    let mut built = vec![0xFF; SUPERBLOCK_BYTES];
    s.build(&mut built);
    assert_eq!(Superblock::parse(&built), Ok(Superblock { minor: VERSION_MINOR, ..s.clone() }));
    if s.minor == VERSION_MINOR {
        assert_eq!(built, b, "a superblock has one form");
    }
    // What is read later by these numbers lies on the device.
    let end = match s.role {
        Role::Cache { log_offset, segment_bytes, segments_per_shard } => {
            u128::from(log_offset) + u128::from(segment_bytes) * u128::from(segments_per_shard) * u128::from(s.shards)
        }
        Role::Capacity { chunk_area_offset, chunks_per_shard, .. } => {
            u128::from(chunk_area_offset) + u128::from(chunks_per_shard) * u128::from(s.shards) * u128::from(base::unit::CHUNK_BYTES)
        }
    };
    assert!(end <= u128::from(s.device_bytes));
}

fn kind_of(byte: u8) -> PageKind {
    match byte {
        1 => PageKind::ComponentHead,
        2 => PageKind::Component,
        3 => PageKind::ChunkHead,
        _ => PageKind::Chunk,
    }
}

/// The two slots of a page. Bits 0 and 1 of the mode: slot A, slot B with the right magic number and checksum.
pub fn page(data: &[u8]) {
    let (how, rest) = mode(data);
    let (a, b) = rest.split_at(rest.len() / 2);
    let mut slots = [stretched(a, PAGE_BYTES), stretched(b, PAGE_BYTES)].concat();
    for (slot, b) in slots.chunks_exact_mut(PAGE_BYTES).enumerate() {
        if how >> slot & 1 != 0 {
            b[..8].copy_from_slice(b"BSLTpage");
            seal(b, 8);
        }
    }
    // It is looked for where slot A says that it belongs.
    let tag = FormatTag(u64_at(&slots, 16));
    let address = PageAddress { kind: kind_of(slots[12]), device: slots[13], shard: slots[14], index: u64_at(&slots, 24) };
    let opened: Vec<_> = slots.chunks_exact(PAGE_BYTES).map(|b| PageHeader::open(b, tag, address)).collect();
    for (b, generation) in slots.chunks_exact(PAGE_BYTES).zip(&opened) {
        let Ok(generation) = *generation else { continue };
        let mut built = b.to_vec();
        built[..PAGE_HEADER_BYTES].fill(0xFF);
        PageHeader { tag, address, generation }.seal(&mut built);
        assert_eq!(built, b, "a page has one form");
        let other = PageAddress { index: address.index ^ 1, ..address };
        assert_eq!(PageHeader::open(b, tag, other), Err(DiskError::OtherPlace));
        if let Ok(head) = TableHead::parse(b) {
            let mut body = b.to_vec();
            head.build(&mut body);
            assert_eq!(body, b);
        }
    }
    match newest(&slots, tag, address) {
        Ok(n) => {
            assert_eq!(opened[usize::from(n.slot)], Ok(n.generation));
            assert_eq!(opened.iter().flatten().max(), Some(&n.generation), "the newest valid slot counts");
            // Never written, or of an earlier format: that is no reason to doubt.
            let other = 1 - usize::from(n.slot);
            let blank = slots[other * PAGE_BYTES..][..PAGE_BYTES].iter().all(|b| *b == 0);
            assert_eq!(n.doubtful, !blank && !matches!(opened[other], Ok(_) | Err(DiskError::OtherFormat)));
            assert_eq!(PageHeader::open(slot_bytes(&slots, n.slot), tag, address), Ok(n.generation));
        }
        Err(_) => assert!(opened.iter().all(Result::is_err), "a page with a valid slot is there"),
    }
}

/// Entries of a chunk table page.
pub fn chunk(data: &[u8]) {
    let mut page = stretched(&[], PAGE_BYTES);
    let body = stretched(data, PAGE_BYTES - PAGE_HEADER_BYTES);
    page[PAGE_HEADER_BYTES..].copy_from_slice(&body);
    assert_eq!(chunk::get_entry(&page[..PAGE_BYTES - 1], 0), Err(DiskError::TooShort));
    for i in 0..CHUNKS_PER_PAGE {
        let Ok(entry) = chunk::get_entry(&page, i) else { continue };
        let mut built = page.clone();
        chunk::put_entry(&mut built, i, entry.as_ref());
        assert_eq!(built, page, "an entry has one form");
    }
}

/// Records of a component table page.
pub fn component(data: &[u8]) {
    let mut page = stretched(&[], PAGE_BYTES);
    let body = stretched(data, PAGE_BYTES - PAGE_HEADER_BYTES);
    page[PAGE_HEADER_BYTES..].copy_from_slice(&body);
    assert_eq!(component::get_record(&page[..PAGE_BYTES - 1], 0), Err(DiskError::TooShort));
    for i in 0..COMPONENTS_PER_PAGE {
        let Ok(record) = component::get_record(&page, i) else { continue };
        assert!(record.as_ref().is_none_or(|r| r.descriptor.len() <= DESCRIPTOR_BYTES_MAX));
        let mut built = page.clone();
        component::put_record(&mut built, i, record.as_ref());
        assert_eq!(built, page, "a record has one form");
    }
}

/// What a component says of its volume.
pub fn descriptor(data: &[u8]) {
    let Ok(d) = Descriptor::parse(data) else { return };
    assert!(data.len() <= DESCRIPTOR_BYTES_MAX, "it fits into a component record");
    assert_eq!(d.build(), data, "a descriptor has one form");
    // Shown to people as they are.
    assert!([&d.name, &d.policy].iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_graphic())));
    assert!(d.stripe < d.stripes);
    assert_eq!(Descriptor::parse(&data[..data.len() - 1]), Err(DiskError::TooShort));
}

/// A segment header: mode 0 as it is, otherwise with the right magic number and checksum.
pub fn segment(data: &[u8]) {
    let (how, rest) = mode(data);
    let mut b = stretched(rest, BLOCK_BYTES);
    if how != 0 {
        b[..8].copy_from_slice(b"BSLTsegm");
        seal(&mut b, 8);
    }
    let tag = FormatTag(u64_at(&b, 16));
    let Ok(h) = SegmentHeader::parse(&b, tag) else { return };
    let mut built = vec![0xFF; BLOCK_BYTES];
    h.build(&mut built);
    assert_eq!(built, b, "a segment header has one form");
    assert_eq!(SegmentHeader::parse(&b, FormatTag(!tag.0)), Err(DiskError::OtherFormat));
}

/// What an owner may say with a change.
fn order(u: &mut Unstructured<'_>) -> Order {
    let epoch = u.int_in_range(0..=u32::MAX).unwrap_or(1);
    let mut up_to = |max: u32| Epoch(u.int_in_range(0..=max).unwrap_or(0));
    let (period_start, term) = (up_to(epoch), up_to(epoch));
    let mark_term = up_to(term.0);
    let counter = u.int_in_range(1..=u64::MAX).unwrap_or(1);
    let mark = u.int_in_range(0..=counter - 1).unwrap_or(0);
    Order { epoch: Epoch(epoch), period_start, seq: Seq { term, counter }, mark: Seq { term: mark_term, counter: mark } }
}

/// Records with the places of their data running on from `at`, and their checksums.
fn records(u: &mut Unstructured<'_>, mut at: u32, high: u32) -> (Vec<Record>, Vec<u32>) {
    let (mut list, mut crcs) = (Vec::new(), Vec::new());
    let count = u.int_in_range(0..=300).unwrap_or(0);
    for _ in 0..count {
        let Ok(small) = u.int_in_range(1..=8u32) else { break };
        let blocks = if u.ratio(1, 16).unwrap_or(false) { RECORD_BLOCKS_MAX } else { small };
        let kind = match u.int_in_range(0..=5).unwrap_or(0) {
            1 => RecordKind::Trim,
            2 => RecordKind::Zero,
            3 => RecordKind::Uncorrectable,
            _ => RecordKind::Write,
        };
        let writes = kind == RecordKind::Write;
        if writes && at + blocks > high {
            break;
        }
        list.push(Record {
            kind,
            unchecked: u.ratio(1, 4).unwrap_or(false),
            component: u.int_in_range(1..=COMPONENT_NO_MAX).unwrap_or(1),
            block: BlockNo(u.int_in_range(0..=BLOCK_NO_MAX - u64::from(blocks)).unwrap_or(0)),
            blocks,
            lsn: u.arbitrary().unwrap_or(0),
            order: order(u),
            data_at: if writes { at } else { 0 },
        });
        if writes {
            at += blocks;
            crcs.extend((0..blocks).map(|i| i.wrapping_mul(0x9E37_79B9)));
        }
        if u.is_empty() {
            break;
        }
    }
    (list, crcs)
}

/// The records of a view, taken apart; checks that each list of checksums has the length that its record says.
fn apart(view: Records<'_>) -> (Vec<Record>, Vec<u32>) {
    let (mut list, mut crcs) = (Vec::new(), Vec::new());
    for (record, sums) in view.iter() {
        assert_eq!((sums.len(), sums.is_empty()), (record.data_blocks() as usize, record.data_blocks() == 0));
        crcs.extend(sums.iter());
        list.push(record);
    }
    assert_eq!(list.len(), view.len());
    (list, crcs)
}

/// Whatever `b` is: if it parses as a batch header, it is built to the same bytes.
fn check_batch(b: &[u8], tag: FormatTag) -> bool {
    let peek = BatchPeek::parse(b, tag);
    if let Ok(p) = peek {
        assert!(p.header_blocks <= BATCH_HEADER_BLOCKS_MAX && p.data_blocks <= SEGMENT_BLOCKS_MAX);
    }
    let Ok(view) = BatchHeader::parse(b, tag) else { return false };
    let (segment_seq, header_blocks, data_blocks) = (view.header.segment_seq, view.header_blocks, view.data_blocks);
    assert_eq!(peek, Ok(BatchPeek { segment_seq, header_blocks, data_blocks }));
    let (list, crcs) = apart(view.records);
    let mut built = vec![0xFF; view.header_blocks as usize * BLOCK_BYTES];
    assert_eq!(view.header.build(&mut built, &list, &crcs), view.crc);
    assert_eq!(built, &b[..built.len()], "a batch header has one form");
    true
}

/// A batch header. Mode 0: as it is. 1: with magic number, lengths and checksum put right. Otherwise one is built, changed, sealed.
pub fn batch(data: &[u8]) {
    let (how, rest) = mode(data);
    if how < 2 {
        let mut b = stretched(rest, rest.len().next_multiple_of(BLOCK_BYTES).max(BLOCK_BYTES));
        if how == 1 {
            b[..8].copy_from_slice(b"BSLTbatc");
            let blocks = u16::from_le_bytes([b[12], b[13]]).clamp(1, BATCH_HEADER_BLOCKS_MAX as u16);
            b.resize(usize::from(blocks) * BLOCK_BYTES, 0);
            seal(&mut b, 8);
        }
        let tag = FormatTag(u64_at(&b, 16));
        check_batch(&b, tag);
        return;
    }
    let mut u = Unstructured::new(rest);
    let position = u.int_in_range(1..=SEGMENT_BLOCKS_MAX - 1).unwrap_or(1);
    let segment_seq = u.int_in_range(1..=u64::MAX).unwrap_or(1);
    let header = BatchHeader {
        tag: TAG,
        shard: u.arbitrary().unwrap_or(0),
        lsn: u.arbitrary().unwrap_or(0),
        segment_seq,
        position,
        tail_seq: u.int_in_range(0..=segment_seq).unwrap_or(0),
        previous_crc: u.arbitrary().unwrap_or(0),
    };
    // Where the data begins depends on how long the header is, which depends on the records.
    let (mut list, crcs) = records(&mut u, 0, SEGMENT_BLOCKS_MAX);
    let blocks = batch_header_blocks(list.len(), crcs.len());
    if blocks > BATCH_HEADER_BLOCKS_MAX as usize {
        return;
    }
    for r in list.iter_mut().filter(|r| r.kind == RecordKind::Write) {
        r.data_at += position + blocks as u32;
    }
    let mut b = vec![0; blocks * BLOCK_BYTES];
    header.build(&mut b, &list, &crcs);
    assert!(check_batch(&b, TAG), "what is built parses");
    assert_eq!(BatchHeader::parse(&b, TAG).map(|v| (v.header, apart(v.records))), Ok((header, (list, crcs))));
    patch(&mut b, u.take_rest());
    seal(&mut b, 8);
    check_batch(&b, TAG);
}

fn check_summary(b: &[u8], tag: FormatTag) -> bool {
    let peek = SummaryPeek::parse(b, tag);
    if let Ok(p) = peek {
        assert!(p.summary_blocks <= SUMMARY_BLOCKS_MAX);
    }
    let Ok(view) = SummaryHeader::parse(b, tag) else { return false };
    assert_eq!(peek, Ok(SummaryPeek { summary_blocks: view.summary_blocks, segment_seq: view.header.segment_seq }));
    let (list, crcs) = apart(view.records);
    let mut built = vec![0xFF; view.summary_blocks as usize * BLOCK_BYTES];
    view.header.build(&mut built, &list, &crcs);
    assert_eq!(built, &b[b.len() - built.len()..], "a summary has one form");
    true
}

/// A segment summary; the modes are those of [`batch`]. The fixed part is at the end, so inputs begin with it.
pub fn summary(data: &[u8]) {
    const FIXED: usize = 96;
    let (how, rest) = mode(data);
    if how < 2 {
        let (fixed, records) = rest.split_at(rest.len().min(FIXED));
        let mut fixed = stretched(fixed, FIXED);
        let mut blocks = records.len().div_ceil(BLOCK_BYTES).max(1);
        if how == 1 {
            fixed[..8].copy_from_slice(b"BSLTsumm");
            blocks = (u64_at(&fixed, 56) >> 32).clamp(1, u64::from(SUMMARY_BLOCKS_MAX)) as usize;
        }
        let mut b = stretched(records, blocks * BLOCK_BYTES);
        let at = b.len() - FIXED;
        b[at..].copy_from_slice(&fixed);
        if how == 1 {
            seal(&mut b, at + 8);
        }
        let tag = FormatTag(u64_at(&fixed, 16));
        check_summary(&b, tag);
        return;
    }
    let mut u = Unstructured::new(rest);
    let segment_seq = u.int_in_range(1..=u64::MAX).unwrap_or(1);
    let first_lsn = u.int_in_range(1..=u64::MAX).unwrap_or(1);
    let used_blocks = u.int_in_range(1..=SEGMENT_BLOCKS_MAX).unwrap_or(1);
    let header = SummaryHeader {
        tag: TAG,
        shard: u.arbitrary().unwrap_or(0),
        segment_seq,
        first_lsn,
        last_lsn: u.int_in_range(first_lsn - 1..=u64::MAX).unwrap_or(first_lsn),
        tail_seq: u.int_in_range(0..=segment_seq).unwrap_or(0),
        used_blocks,
        last_crc: u.arbitrary().unwrap_or(0),
    };
    let (list, crcs) = records(&mut u, 2, used_blocks);
    let blocks = summary_blocks(list.len(), crcs.len());
    if blocks > SUMMARY_BLOCKS_MAX as usize {
        return;
    }
    let mut b = vec![0; blocks * BLOCK_BYTES];
    header.build(&mut b, &list, &crcs);
    assert!(check_summary(&b, TAG), "what is built parses");
    assert_eq!(SummaryHeader::parse(&b, TAG).map(|v| (v.header, apart(v.records))), Ok((header, (list, crcs))));
    patch(&mut b, u.take_rest());
    let at = b.len() - FIXED;
    seal(&mut b, at + 8);
    check_summary(&b, TAG);
}

/// What others left on a device: bytes put at places of its front and its tail.
pub fn foreign(data: &[u8]) {
    const FRONT_BYTES: usize = 1 << 17;
    const TAIL_BYTES: usize = 1 << 17;
    let (size, rest) = data.split_at(data.len().min(4));
    let size = size.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    // As `drive` and `store` read it: no more than the device has.
    let device_bytes = size.max(1);
    let mut front = vec![0; FRONT_BYTES.min(device_bytes as usize)];
    let mut tail = vec![0; TAIL_BYTES.min(device_bytes as usize)];
    let untouched = foreign::recognise(&front, &tail, device_bytes);
    assert_eq!(untouched, None, "an empty device is empty");
    let mut rest = rest;
    while let Some((head, more)) = rest.split_first_chunk::<5>() {
        let at = u32::from_le_bytes([head[1], head[2], head[3], 0]) as usize;
        let (bytes, later) = more.split_at(more.len().min(usize::from(head[4] & 31)));
        let to = if head[0] & 1 == 0 { &mut front } else { &mut tail };
        let at = at % to.len();
        let n = bytes.len().min(to.len() - at);
        to[at..at + n].copy_from_slice(&bytes[..n]);
        rest = later;
    }
    let found = foreign::recognise(&front, &tail, device_bytes);
    for (at, value, _) in foreign::FRONT {
        if front.get(*at..*at + value.len()) == Some(*value) {
            assert!(found.is_some(), "a signature in its place is recognised");
        }
    }
    let _ = foreign::recognise(&front[..front.len() / 2], &[], device_bytes);
}

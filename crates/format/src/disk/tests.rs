//! What is built parses to the same; what was changed is refused. One module a structure.

use super::page::PAGE_BYTES;
use super::*;
use base::{BlockNo, ClusterId, ComponentId, DeviceUuid, Epoch, GroupId, ObjectId, Order, Seq};
use proptest::prelude::*;

const TAG: FormatTag = FormatTag(0x1122_3344_5566_7788);

fn superblock() -> Superblock {
    let uuid = |n: u8| DeviceUuid::from_bytes([n; 16]);
    Superblock {
        major: 3,
        minor: 0,
        generation: 9,
        tag: TAG,
        cluster: ClusterId::from_bytes([1; 16]),
        group: GroupId::from_bytes([2; 16]),
        device: uuid(4),
        device_bytes: 64 << 20,
        created_unix_s: 1_790_000_000,
        role: Role::Capacity {
            index: 1,
            component_table_offset: 1 << 20,
            component_pages: 17,
            chunk_table_offset: 2 << 20,
            chunk_pages_per_shard: 11,
            chunk_area_offset: 4 << 20,
            chunks_per_shard: 416,
        },
        shards: 2,
        name: "group-a".into(),
        cache: uuid(9),
        capacity: vec![uuid(3), uuid(4), uuid(5)],
        membership: 0,
        numbers_from: 0,
    }
}

fn built(s: &Superblock) -> Vec<u8> {
    let mut b = vec![0xEE; 4096];
    s.build(&mut b);
    b
}

/// Puts the right checksum over a structure that was changed on purpose.
fn reseal(b: &mut [u8]) {
    reseal_at(b, 8);
}

fn reseal_at(b: &mut [u8], at: usize) {
    let crc = bytes::crc_around(b, at);
    bytes::put_u32(b, at, crc);
}

/// What is good is read; with a byte changed, under the right checksum (at `crc`, if there is one), it is refused.
fn refuses<T: std::fmt::Debug>(good: &[u8], crc: Option<usize>, places: &[usize], parse: impl Fn(&[u8]) -> Result<T, DiskError>) {
    parse(good).unwrap();
    for &at in places {
        let mut bad = good.to_vec();
        bad[at] ^= 0x81;
        if let Some(crc) = crc {
            reseal_at(&mut bad, crc);
        }
        refused(&parse(&bad), &format!("byte {at}"));
    }
}

/// A value or a reserved field was refused, not the checksum.
fn refused<T: std::fmt::Debug>(result: &Result<T, DiskError>, what: &str) {
    assert!(matches!(result, Err(DiskError::Value { .. } | DiskError::Reserved { .. })), "{what}: {result:?}");
}

mod superblocks {
    use super::super::superblock::{NO_DEVICE, VERSION_COPIES, VERSION_MAJOR, VERSION_PLAIN};
    use super::*;

    #[test]
    fn both_roles_read_back() {
        let s = superblock();
        assert_eq!(Superblock::parse(&built(&s)), Ok(s.clone()));
        let cache = Role::Cache { log_offset: 1 << 20, segment_bytes: 1 << 20, segments_per_shard: 31 };
        let s = Superblock { device: s.cache, role: cache, name: String::new(), ..s };
        assert_eq!(Superblock::parse(&built(&s)), Ok(s));
    }

    #[test]
    fn the_places_of_magic_checksum_version_and_generation_stay_for_ever() {
        let b = built(&superblock());
        assert_eq!(&b[..8], b"BASALTSB");
        assert_eq!(b[8..12], base::checksum::crc32c(&[&b[..8], &b[12..]].concat()).to_le_bytes());
        assert_eq!((&b[12..16], &b[16..24]), (&[3, 0, 0, 0][..], &9u64.to_le_bytes()[..]));
    }

    #[test]
    fn a_newer_major_version_is_named_and_a_newer_minor_one_is_read() {
        let mut b = built(&superblock());
        bytes::put_u16(&mut b, 12, VERSION_MAJOR + 1);
        reseal(&mut b);
        assert_eq!(Superblock::parse(&b), Err(DiskError::Newer { major: VERSION_MAJOR + 1 }));
        let mut b = built(&superblock());
        b[4000] = 7;
        reseal(&mut b);
        assert_eq!(Superblock::parse(&b), Err(DiskError::Reserved { at: 4000 }));
        bytes::put_u16(&mut b, 14, 1);
        reseal(&mut b);
        assert_eq!(Superblock::parse(&b).unwrap().minor, 1);
    }

    #[test]
    fn an_older_major_version_is_read() {
        let mut b = built(&superblock());
        bytes::put_u16(&mut b, 12, 1);
        reseal(&mut b);
        assert_eq!(Superblock::parse(&b), Ok(Superblock { major: 1, ..superblock() }));
    }

    #[test]
    fn a_list_of_devices_that_was_changed_has_a_version_of_its_own() {
        let mut changed = Superblock { major: VERSION_MAJOR, membership: 7, numbers_from: 40, ..superblock() };
        changed.capacity[0] = NO_DEVICE;
        let mut b = built(&changed);
        assert_eq!(Superblock::parse(&b), Ok(changed.clone()));
        for major in [VERSION_PLAIN, VERSION_COPIES] {
            bytes::put_u16(&mut b, 12, major);
            reseal(&mut b);
            refused(&Superblock::parse(&b), "places without a device, in an older version");
        }
        let mut b = built(&changed);
        bytes::put_u32(&mut b, 164, 0);
        reseal(&mut b);
        refused(&Superblock::parse(&b), "changed, and never");
        changed.capacity[2] = NO_DEVICE;
        refused(&Superblock::parse(&built(&changed)), "the list ends with a place without a device");
        let mut b = built(&superblock());
        b[168] = 1;
        reseal(&mut b);
        assert_eq!(Superblock::parse(&b), Err(DiskError::Reserved { at: 168 }));
    }

    #[test]
    fn regions_outside_of_the_device_are_refused() {
        for change in [
            |s: &mut Superblock| s.device_bytes = 16 << 20,
            |s: &mut Superblock| s.shards = 3,
            |s: &mut Superblock| s.device = DeviceUuid::from_bytes([0x77; 16]),
            |s: &mut Superblock| {
                if let Role::Capacity { chunk_area_offset, .. } = &mut s.role {
                    *chunk_area_offset = 2 << 20;
                }
            },
            |s: &mut Superblock| {
                if let Role::Capacity { chunks_per_shard, .. } = &mut s.role {
                    *chunks_per_shard = u32::MAX;
                }
            },
        ] {
            let mut s = superblock();
            change(&mut s);
            assert!(matches!(Superblock::parse(&built(&s)), Err(DiskError::Value { .. })), "{s:?}");
        }
    }

    fn cache(log_offset: u64, segment_bytes: u32, segments_per_shard: u32) -> Superblock {
        let s = superblock();
        Superblock { device: s.cache, role: Role::Cache { log_offset, segment_bytes, segments_per_shard }, device_bytes: 1 << 40, ..s }
    }

    #[test]
    fn what_a_role_does_not_use_and_what_is_reserved_must_be_zero() {
        // the reserved areas, after the name and after the list of devices; then the sizes of chunk and block
        let both = [101, 103, 164, 191, 192 + 7, 255, 256 + 4 * 16, 383, 384, 4095, 108, 112];
        let log = [104, 107, 116, 119, 120, 127];
        let tables = [97, 128, 135, 136, 140, 144, 152, 160, 163];
        refuses(&built(&superblock()), Some(8), &[&both[..], &log].concat(), Superblock::parse);
        refuses(&built(&cache(1 << 20, 1 << 20, 31)), Some(8), &[&both[..], &tables].concat(), Superblock::parse);
    }

    #[test]
    fn counts_out_of_range_are_refused() {
        // length of the name, major version; no capacity device, with an empty list
        let none: Vec<(usize, u8)> = (272..384).map(|at| (at, 0)).chain([(98, 0)]).collect();
        for changes in [&[(100, 65)][..], &[(12, 0)], &none] {
            let mut b = built(&cache(1 << 20, 1 << 20, 31));
            for &(at, value) in changes {
                b[at] = value;
            }
            reseal(&mut b);
            assert!(matches!(Superblock::parse(&b), Err(DiskError::Value { .. })), "{changes:?}");
        }
        let wide = |shards| Superblock { shards, ..cache(1 << 20, 1 << 20, 31) };
        assert!(Superblock::parse(&built(&wide(16))).is_ok());
        refused(&Superblock::parse(&built(&wide(32))), "32 shards");
    }

    #[test]
    fn the_log_lies_behind_the_superblocks_in_segments_of_whole_blocks() {
        for (offset, bytes, segments) in [(1 << 20, 1 << 20, 1), (1 << 20, 64 << 20, 2)] {
            assert!(Superblock::parse(&built(&cache(offset, bytes, segments))).is_ok());
        }
        for (offset, bytes, segments) in [
            ((1 << 20) - 4096, 1 << 20, 31),
            ((1 << 20) + 512, 1 << 20, 31),
            (1 << 20, (1 << 20) + 512, 31),
            (1 << 20, (1 << 20) - 4096, 31),
            (1 << 20, (64 << 20) + 4096, 31),
            (1 << 20, 1 << 20, 0),
        ] {
            refused(&Superblock::parse(&built(&cache(offset, bytes, segments))), &format!("{offset} {bytes} {segments}"));
        }
        let other = Superblock { device: DeviceUuid::from_bytes([3; 16]), ..cache(1 << 20, 1 << 20, 31) };
        refused(&Superblock::parse(&built(&other)), "a cache device that is not the group's");
    }

    #[test]
    fn the_tables_lie_behind_one_another_and_have_room_for_all_chunks() {
        const AT: (u64, u32, u64, u32, u64, u32) = (1 << 20, 17, 2 << 20, 11, 4 << 20, 416);
        let parse = |(component_table_offset, component_pages, chunk_table_offset, chunk_pages_per_shard, chunk_area_offset, chunks)| {
            let role = Role::Capacity {
                index: 1,
                component_table_offset,
                component_pages,
                chunk_table_offset,
                chunk_pages_per_shard,
                chunk_area_offset,
                chunks_per_shard: chunks,
            };
            Superblock::parse(&built(&Superblock { role, ..superblock() }))
        };
        for good in [AT, (AT.0, 128, AT.2, 11, AT.4, 420), (AT.0, 2, AT.2, 11, (2 << 20) + 22 * 8192, 1)] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            (AT.0 - 4096, 17, AT.2, 11, AT.4, 416),
            (AT.0 + 512, 17, AT.2, 11, AT.4, 416),
            (AT.0, 17, AT.2 + 512, 11, AT.4, 416),
            (AT.0, 17, AT.2, 11, AT.4 + 512, 416),
            (AT.0, 1, AT.2, 11, AT.4, 416),
            (AT.0, 129, AT.2, 11, AT.4, 416),
            (AT.0, 17, AT.2, 11, (2 << 20) + 21 * 8192, 1),
            (AT.0, 17, AT.2, 11, AT.4, 421),
            (AT.0, 17, AT.2, 11, AT.4, 0),
            (AT.0, 17, AT.2, 0, AT.4, 1),
            (u64::MAX - 4095, 17, AT.2, 11, AT.4, 416),
        ] {
            refused(&parse(bad), &format!("{bad:?}"));
        }
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_noticed(at in 0usize..4096, by in 1u8..) {
            let mut b = built(&superblock());
            b[at] ^= by;
            prop_assert!(Superblock::parse(&b).is_err());
        }
        #[test]
        fn any_bytes_may_come(mut b in prop::collection::vec(any::<u8>(), 0..4200), sealed: bool) {
            if b.len() >= 4096 && sealed {
                b.truncate(4096);
                b[..8].copy_from_slice(b"BASALTSB");
                bytes::put_u16(&mut b, 12, 1);
                reseal(&mut b);
            }
            prop_assert!(Superblock::parse(&b).is_err());
        }
    }
}

mod pages {
    use super::super::page::{Newest, TableHead, newest, slot_bytes};
    use super::*;

    const AT: PageAddress = PageAddress { kind: PageKind::Chunk, device: 2, shard: 3, index: 77 };

    fn page(tag: FormatTag, address: PageAddress, generation: u64) -> Vec<u8> {
        let mut b = vec![generation as u8; PAGE_BYTES];
        PageHeader { tag, address, generation }.seal(&mut b);
        b
    }
    fn slots(a: &[u8], b: &[u8]) -> Vec<u8> {
        [a, b].concat()
    }

    #[test]
    fn the_newer_valid_slot_counts() {
        let (old, new, never, mut torn) = (page(TAG, AT, 4), page(TAG, AT, 5), vec![0; 4096], page(TAG, AT, 6));
        torn[2048..].fill(0);
        assert_eq!(newest(&slots(&old, &new), TAG, AT), Ok(Newest { slot: 1, generation: 5, doubtful: false }));
        assert_eq!(newest(&slots(&new, &old), TAG, AT), Ok(Newest { slot: 0, generation: 5, doubtful: false }));
        assert_eq!(newest(&slots(&torn, &old), TAG, AT), Ok(Newest { slot: 1, generation: 4, doubtful: true }));
        assert_eq!(newest(&slots(&new, &never), TAG, AT), Ok(Newest { slot: 0, generation: 5, doubtful: false }));
        assert_eq!(newest(&slots(&old, &torn), TAG, AT), Ok(Newest { slot: 0, generation: 4, doubtful: true }));
        assert_eq!(newest(&slots(&never, &torn), TAG, AT), Err(DiskError::Checksum));
        assert_eq!(newest(&slots(&torn, &never), TAG, AT), Err(DiskError::Checksum));
        assert_eq!(slot_bytes(&slots(&old, &new), 1), new);
    }

    #[test]
    fn pages_of_another_format_or_place_are_refused() {
        assert_eq!(PageHeader::open(&page(TAG, AT, 1), TAG, AT), Ok(1));
        assert_eq!(PageHeader::open(&page(FormatTag(1), AT, 1), TAG, AT), Err(DiskError::OtherFormat));
        for other in [
            PageAddress { index: 78, ..AT },
            PageAddress { shard: 0, ..AT },
            PageAddress { device: 0, ..AT },
            PageAddress { kind: PageKind::Component, ..AT },
        ] {
            assert_eq!(PageHeader::open(&page(TAG, other, 1), TAG, AT), Err(DiskError::OtherPlace));
        }
        assert_eq!(PageHeader::open(&[0; 4095], TAG, AT), Err(DiskError::TooShort));
    }

    #[test]
    fn the_head_of_a_table_reads_back() {
        let mut b = vec![0xAA; PAGE_BYTES];
        TableHead { pages_used: 1234 }.build(&mut b);
        PageHeader { tag: TAG, address: AT, generation: 1 }.seal(&mut b);
        assert_eq!(TableHead::parse(&b), Ok(TableHead { pages_used: 1234 }));
        refuses(&b, None, &[64 + 8, 64 + 15, 4095], TableHead::parse);
        TableHead { pages_used: 0 }.build(&mut b);
        assert!(TableHead::parse(&b).is_err());
    }

    #[test]
    fn reserved_fields_and_a_generation_of_zero_are_refused() {
        refuses(&page(TAG, AT, 1), Some(8), &[12, 15, 40, 63], |b| PageHeader::open(b, TAG, AT));
        refused(&PageHeader::open(&page(TAG, AT, 0), TAG, AT), "generation 0");
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_noticed(at in 0usize..4096, by in 1u8..) {
            let mut b = page(TAG, AT, 3);
            b[at] ^= by;
            prop_assert!(PageHeader::open(&b, TAG, AT).is_err());
        }
    }
}

mod entries {
    use super::super::chunk::{CHUNK_NO_MAX, get_entry, put_entry};
    use super::super::component::{get_record, put_record};
    use super::*;

    prop_compose! {
        fn chunk_entry()(component in 1u32..1 << 26, chunk in 0..=CHUNK_NO_MAX, written in 1u16.., unchecked: u16,
            uncorrectable: u16, lsn: u64, epoch: u32, changed: u16, crcs: [u32; 16]) -> ChunkEntry {
            let (unchecked, uncorrectable) = (unchecked & written, uncorrectable & written & !unchecked);
            ChunkEntry { component, chunk, written, unchecked, uncorrectable, lsn, epoch: Epoch(epoch), changed, crcs }
        }
    }
    prop_compose! {
        fn component_record()(id: [u8; 16], object: [u8; 16], number in 1u32..1 << 26, deleted: bool, copy: bool, bytes: u64, reserve_chunks: u64,
            parent: u32, descriptor in prop::collection::vec(any::<u8>(), 0..=DESCRIPTOR_BYTES_MAX)) -> ComponentRecord {
            let state = if deleted { ComponentState::Deleted } else { ComponentState::Active };
            ComponentRecord { id: ComponentId::from_bytes(id), object: ObjectId::from_bytes(object), number, state, copy, bytes, reserve_chunks, parent, descriptor }
        }
    }

    proptest! {
        #[test]
        fn chunks_read_back(list in prop::collection::vec(prop::option::of(chunk_entry()), CHUNKS_PER_PAGE)) {
            let mut b = vec![0xFF; PAGE_BYTES];
            for (i, e) in list.iter().enumerate() {
                put_entry(&mut b, i, e.as_ref());
            }
            for (i, e) in list.iter().enumerate() {
                prop_assert_eq!(get_entry(&b, i), Ok(*e));
            }
        }
        #[test]
        fn components_read_back(list in prop::collection::vec(prop::option::of(component_record()), COMPONENTS_PER_PAGE)) {
            let mut b = vec![0xFF; PAGE_BYTES];
            for (i, r) in list.iter().enumerate() {
                put_record(&mut b, i, r.as_ref());
            }
            for (i, r) in list.iter().enumerate() {
                prop_assert_eq!(&get_record(&b, i).unwrap(), r);
            }
        }
        #[test]
        fn any_bytes_may_come(b in prop::collection::vec(any::<u8>(), PAGE_BYTES), i in 0usize..8) {
            let _ = get_entry(&b, i);
            let _ = get_record(&b, i);
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let mut b = vec![0; PAGE_BYTES];
        let e = ChunkEntry {
            component: 1,
            chunk: 2,
            written: 3,
            unchecked: 1,
            uncorrectable: 2,
            lsn: 4,
            epoch: Epoch(5),
            changed: 6,
            crcs: [5; 16],
        };
        put_entry(&mut b, 0, Some(&e));
        for (at, value) in [(64 + 6, 0xFF), (64 + 3, 0xFF), (64 + 24, 1), (64 + 24, 4), (64 + 13, 1)] {
            let mut bad = b.clone();
            bad[at] = value;
            assert!(get_entry(&bad, 0).is_err(), "byte {at}");
        }
        b[64 + 96 + 40] = 1;
        assert!(get_entry(&b, 1).is_err(), "a free entry with content");
    }

    #[test]
    fn components_that_cannot_be_are_refused() {
        let record = |len| ComponentRecord {
            id: ComponentId::from_bytes([1; 16]),
            object: ObjectId::from_bytes([2; 16]),
            number: 77,
            state: ComponentState::Active,
            copy: false,
            bytes: 1 << 30,
            reserve_chunks: 5,
            parent: 0,
            descriptor: vec![3; len],
        };
        let mut b = vec![0; PAGE_BYTES];
        put_record(&mut b, 0, Some(&record(100)));
        let get = |b: &[u8]| get_record(b, 0);
        // state, what is reserved, the place after the descriptor; the highest byte of the number
        refuses(&b, None, &[64 + 36, 64 + 37, 64 + 60, 64 + 119, 64 + 120 + 100, 64 + 503, 64 + 35], get);
        put_record(&mut b, 0, Some(&record(DESCRIPTOR_BYTES_MAX)));
        assert_eq!(get(&b), Ok(Some(record(DESCRIPTOR_BYTES_MAX))));
        bytes::put_u16(&mut b, 64 + 38, DESCRIPTOR_BYTES_MAX as u16 + 1);
        refused(&get(&b), "a descriptor that is too long");
        // a free one with content
        refuses(&[0; PAGE_BYTES], None, &[64, 64 + 36, 64 + 503], get);
    }
}

mod logs {
    use super::super::log::*;
    use super::*;

    const ORDER: Order = Order {
        epoch: Epoch(4),
        period_start: Epoch(2),
        seq: Seq { term: Epoch(3), counter: 70 },
        mark: Seq { term: Epoch(3), counter: 69 },
    };

    fn record(kind: RecordKind, blocks: u32, data_at: u32) -> Record {
        let data_at = if kind == RecordKind::Write { data_at } else { 0 };
        Record { kind, unchecked: blocks.is_multiple_of(2), component: 5, block: BlockNo(1000), blocks, lsn: 9, order: ORDER, data_at }
    }

    /// Records with data laid out from `position` + header; their checksums; blocks of the header.
    fn layout(kinds: &[(RecordKind, u32)], position: u32) -> (Vec<Record>, Vec<u32>, u32) {
        let data: u32 = kinds.iter().filter(|(k, _)| *k == RecordKind::Write).map(|(_, n)| n).sum();
        let header = batch_header_blocks(kinds.len(), data as usize) as u32;
        let mut at = position + header;
        let records = kinds.iter().map(|&(kind, blocks)| {
            let r = record(kind, blocks, at);
            at += r.data_blocks();
            r
        });
        (records.collect(), (0..data).map(|i| i * 77 + 1).collect(), header)
    }

    fn header(position: u32) -> BatchHeader {
        BatchHeader { tag: TAG, shard: 3, lsn: 42, segment_seq: 7, position, tail_seq: 5, previous_crc: 0xABCD }
    }

    fn batch(kinds: &[(RecordKind, u32)], position: u32) -> Vec<u8> {
        let (records, crcs, blocks) = layout(kinds, position);
        let mut b = vec![0xEE; blocks as usize * 4096];
        header(position).build(&mut b, &records, &crcs);
        b
    }

    fn kinds() -> impl Strategy<Value = Vec<(RecordKind, u32)>> {
        let kind = prop_oneof![Just(RecordKind::Write), Just(RecordKind::Trim), Just(RecordKind::Zero), Just(RecordKind::Uncorrectable)];
        prop::collection::vec((kind, 1u32..=64), 0..120)
    }

    proptest! {
        #[test]
        fn batches_read_back(kinds in kinds(), position in 1u32..900) {
            let (records, crcs, blocks) = layout(&kinds, position);
            let b = batch(&kinds, position);
            let peek = BatchPeek::parse(&b[..4096], TAG).unwrap();
            prop_assert_eq!((peek.header_blocks, peek.data_blocks as usize), (blocks, crcs.len()));
            let view = BatchHeader::parse(&b, TAG).unwrap();
            prop_assert_eq!(view.header, header(position));
            prop_assert_eq!(view.records.len(), records.len());
            let mut seen = Vec::new();
            for ((got, list), want) in view.records.iter().zip(&records) {
                prop_assert_eq!(got, *want);
                prop_assert_eq!(list.len(), want.data_blocks() as usize);
                seen.extend(list.iter());
            }
            prop_assert_eq!(seen, crcs);
        }
        #[test]
        fn summaries_read_back(kinds in kinds(), slack in 0usize..3) {
            let (records, crcs, _) = layout(&kinds, 1);
            let used_blocks = 2 + 2 * (crcs.len() as u32 + 1);
            let h = SummaryHeader { tag: TAG, shard: 1, segment_seq: 9, first_lsn: 3, last_lsn: 8, tail_seq: 2, used_blocks, last_crc: 77 };
            let blocks = summary_blocks(records.len(), crcs.len());
            let mut b = vec![0xEE; (blocks + slack) * 4096];
            h.build(&mut b[slack * 4096..], &records, &crcs);
            let peek = SummaryPeek::parse(&b[b.len() - 4096..], TAG).unwrap();
            prop_assert_eq!((peek.summary_blocks as usize, peek.segment_seq), (blocks, 9));
            let view = SummaryHeader::parse(&b, TAG).unwrap();
            prop_assert_eq!(view.header, h);
            let got: Vec<Record> = view.records.iter().map(|(r, _)| r).collect();
            prop_assert_eq!(got, records);
            prop_assert_eq!(view.records.iter().flat_map(|(_, c)| c.iter()).collect::<Vec<_>>(), crcs);
        }
        #[test]
        fn any_changed_byte_of_a_batch_header_or_summary_is_noticed(kinds in kinds(), at: prop::sample::Index, by in 1u8..) {
            let mut b = batch(&kinds, 10);
            let i = at.index(b.len());
            b[i] ^= by;
            prop_assert!(BatchHeader::parse(&b, TAG).is_err());
            let (records, crcs, _) = layout(&kinds, 10);
            let h = SummaryHeader { tag: TAG, shard: 1, segment_seq: 9, first_lsn: 1, last_lsn: 1, tail_seq: 2, used_blocks: 16000, last_crc: 7 };
            let mut b = vec![0; summary_blocks(records.len(), crcs.len()) * 4096];
            h.build(&mut b, &records, &crcs);
            let i = at.index(b.len());
            b[i] ^= by;
            prop_assert!(SummaryHeader::parse(&b, TAG).is_err());
        }
        #[test]
        fn any_bytes_may_come(mut b in prop::collection::vec(any::<u8>(), 4096..12288), which in 0u8..3) {
            let len = b.len();
            match which {
                0 => b[..8].copy_from_slice(b"BSLTbatc"),
                1 => b[..8].copy_from_slice(b"BSLTsegm"),
                _ => b[len - 96..len - 88].copy_from_slice(b"BSLTsumm"),
            }
            bytes::put_u64(&mut b, 16, TAG.0);
            bytes::put_u64(&mut b, len - 80, TAG.0);
            prop_assert!(BatchHeader::parse(&b, TAG).is_err());
            prop_assert!(SegmentHeader::parse(&b, TAG).is_err());
            prop_assert!(SummaryHeader::parse(&b, TAG).is_err());
        }
    }

    #[test]
    fn a_segment_header_reads_back_and_every_changed_byte_is_noticed() {
        let h =
            SegmentHeader { tag: TAG, shard: 2, index: 11, blocks: 1024, segment_seq: 40, first_lsn: 900, tail_seq: 31, previous_crc: 5 };
        let mut b = vec![0xEE; 4096];
        h.build(&mut b);
        assert_eq!(SegmentHeader::parse(&b, TAG), Ok(h));
        assert_eq!(SegmentHeader::parse(&b, FormatTag(3)), Err(DiskError::OtherFormat));
        for at in 0..4096 {
            let mut bad = b.clone();
            bad[at] ^= 0x10;
            assert!(SegmentHeader::parse(&bad, TAG).is_err(), "byte {at}");
        }
    }

    #[test]
    fn batches_of_another_format_and_records_that_cannot_be_are_refused() {
        let b = batch(&[(RecordKind::Write, 3), (RecordKind::Trim, 9)], 10);
        assert_eq!(BatchHeader::parse(&b, FormatTag(1)).map(|_| ()), Err(DiskError::OtherFormat));
        // kind, flags, reserved, component 0 and too high, blocks 0 and too many, data elsewhere, an epoch below the term, a mark that names the
        // change itself, data for a trim
        for (at, bytes) in [
            (128, &[9u8][..]),
            (129, &[2]),
            (130, &[1]),
            (132, &[0]),
            (135, &[4]),
            (152, &[0]),
            (152, &[1, 1]),
            (156, &[99]),
            (160, &[2]),
            (184, &[70]),
            (192 + 28, &[1]),
        ] {
            let mut bad = b.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            reseal(&mut bad);
            assert!(matches!(BatchHeader::parse(&bad, TAG), Err(DiskError::Value { .. } | DiskError::Reserved { .. })), "byte {at}");
        }
    }

    #[test]
    fn segment_headers_that_cannot_be_are_refused() {
        let good =
            SegmentHeader { tag: TAG, shard: 2, index: 11, blocks: 1024, segment_seq: 40, first_lsn: 900, tail_seq: 40, previous_crc: 5 };
        let built = |h: SegmentHeader| {
            let mut b = vec![0; 4096];
            h.build(&mut b);
            b
        };
        refuses(&built(good), Some(8), &[57, 2000, 4095], |b| SegmentHeader::parse(b, TAG));
        for blocks in [SEGMENT_BLOCKS_MIN, SEGMENT_BLOCKS_MAX] {
            assert!(SegmentHeader::parse(&built(SegmentHeader { blocks, ..good }), TAG).is_ok());
        }
        for bad in [
            SegmentHeader { blocks: SEGMENT_BLOCKS_MIN - 1, ..good },
            SegmentHeader { blocks: SEGMENT_BLOCKS_MAX + 1, ..good },
            SegmentHeader { tail_seq: 41, ..good },
            SegmentHeader { tail_seq: 0, segment_seq: 0, ..good },
        ] {
            refused(&SegmentHeader::parse(&built(bad), TAG), &format!("{bad:?}"));
        }
    }

    /// A batch of these records, wherever they say that their data lies, with so many checksums.
    fn odd_batch(h: BatchHeader, records: &[Record], crcs: usize) -> Vec<u8> {
        let mut b = vec![0; batch_header_blocks(records.len(), crcs) * 4096];
        h.build(&mut b, records, &vec![7; crcs]);
        b
    }

    #[test]
    fn batches_that_cannot_be_are_refused() {
        let (good, trim) = (header(10), record(RecordKind::Trim, 9, 0));
        let parse = |b: &[u8]| BatchHeader::parse(b, TAG).map(|view| view.header);
        // flags, what is reserved, and what follows the checksums
        refuses(&odd_batch(good, &[trim], 0), Some(8), &[15, 64, 127, 4095], parse);
        for ok in [BatchHeader { position: 1, ..good }, BatchHeader { position: SEGMENT_BLOCKS_MAX - 1, tail_seq: 7, ..good }] {
            assert_eq!(parse(&odd_batch(ok, &[trim], 0)), Ok(ok));
        }
        for bad in [
            BatchHeader { position: 0, ..good },
            BatchHeader { position: SEGMENT_BLOCKS_MAX, ..good },
            BatchHeader { tail_seq: 8, ..good },
            BatchHeader { tail_seq: 0, segment_seq: 0, ..good },
        ] {
            refused(&parse(&odd_batch(bad, &[trim], 0)), &format!("{bad:?}"));
        }
        let write = record(RecordKind::Write, 3, 11);
        assert!(parse(&odd_batch(good, &[write], 3)).is_ok());
        for (data_at, crcs) in [(11, 2), (11, 4), (12, 3), (10, 3)] {
            refused(&parse(&odd_batch(good, &[Record { data_at, ..write }], crcs)), &format!("data at {data_at}, {crcs} checksums"));
        }
        let at = |block| Record { block: BlockNo(block), ..trim };
        assert!(parse(&odd_batch(good, &[at(BLOCK_NO_MAX - 9)], 0)).is_ok());
        refused(&parse(&odd_batch(good, &[at(BLOCK_NO_MAX - 8)], 0)), "the block after the last one");
    }

    #[test]
    fn summaries_that_cannot_be_are_refused() {
        let good =
            SummaryHeader { tag: TAG, shard: 1, segment_seq: 9, first_lsn: 3, last_lsn: 2, tail_seq: 9, used_blocks: 20, last_crc: 77 };
        let built = |h: SummaryHeader, records: &[Record], crcs: usize| {
            let mut b = vec![0; summary_blocks(records.len(), crcs) * 4096];
            h.build(&mut b, records, &vec![7; crcs]);
            b
        };
        let parse = |b: &[u8]| SummaryHeader::parse(b, TAG).map(|view| view.header);
        let (start, trim) = (4096 - 96, record(RecordKind::Trim, 9, 0));
        refuses(&built(good, &[trim], 0), Some(start + 8), &[start + 73, start + 95, start - 1, start / 2], parse);
        for used_blocks in [SEGMENT_HEADER_BLOCKS, SEGMENT_BLOCKS_MAX] {
            assert!(parse(&built(SummaryHeader { used_blocks, ..good }, &[trim], 0)).is_ok());
        }
        for bad in [
            SummaryHeader { tail_seq: 10, ..good },
            SummaryHeader { tail_seq: 0, segment_seq: 0, ..good },
            SummaryHeader { used_blocks: 0, ..good },
            SummaryHeader { used_blocks: SEGMENT_BLOCKS_MAX + 1, ..good },
            SummaryHeader { first_lsn: 0, ..good },
            SummaryHeader { last_lsn: 1, ..good },
        ] {
            refused(&parse(&built(bad, &[trim], 0)), &format!("{bad:?}"));
        }
        // data lies after the first batch header, in ascending places, within what is used
        let write = |data_at| record(RecordKind::Write, 3, data_at);
        for places in [[2, 5], [10, 17]] {
            assert!(parse(&built(good, &places.map(write), 6)).is_ok(), "{places:?}");
        }
        for places in [[1, 5], [5, 2], [5, 7], [10, 18], [10, 20]] {
            refused(&parse(&built(good, &places.map(write), 6)), &format!("{places:?}"));
        }
        for crcs in [5, 7] {
            refused(&parse(&built(good, &[2, 5].map(write), crcs)), &format!("{crcs} checksums for 6 blocks"));
        }
    }

    #[test]
    fn a_full_segment_of_small_writes_has_a_summary_of_two_percent() {
        let blocks = summary_blocks(1000, 1000);
        assert_eq!(blocks, 17);
        assert!(summary_blocks(4096, 4096) as u32 <= SUMMARY_BLOCKS_MAX);
    }
}

mod others {
    use super::super::foreign::{FRONT, recognise};

    const BYTES: u64 = 8 << 20;

    /// What a device looks like that has these bytes there, and nothing else.
    fn with(at: u64, value: &[u8]) -> Option<&'static str> {
        let mut device = vec![0; BYTES as usize];
        device[at as usize..][..value.len()].copy_from_slice(value);
        recognise(&device[..1 << 20], &device[7 << 20..], BYTES)
    }

    #[test]
    fn signatures_are_known_where_they_belong_and_only_there() {
        for (offset, value, what) in FRONT {
            assert_eq!(with(*offset as u64, value), Some(*what));
        }
        for sector in [512, 4096] {
            assert_eq!(with(BYTES - sector, b"EFI PART"), Some("the backup of a partition table (GPT)"));
        }
        assert_eq!(with(BYTES - 1024, b"EFI PART"), None);
        let ring = 0x00BA_B10Cu64;
        for magic in [ring.to_le_bytes(), ring.to_be_bytes()] {
            for at in [128 << 10, 255 << 10, BYTES - (100 << 10)] {
                assert_eq!(with(at, &magic), Some("a member of a ZFS pool"), "at {at}");
            }
            assert_eq!(with((128 << 10) + 512, &magic), None);
        }
        assert_eq!(recognise(&[0; 1 << 20], &[0; 1 << 20], BYTES), None);
    }
}

mod copies {
    use super::super::copies::*;
    use super::super::log::*;
    use super::*;
    use base::{BlockRange, Incarnation, Lane, NodeId, OwnerId, ResyncProgress};

    fn seq(term: u32, counter: u64) -> Seq {
        Seq { term: Epoch(term), counter }
    }

    prop_compose! {
        fn records()(node: [u8; 16], incarnation: u64, epoch in 1u32.., back: u32, sync in 0usize..5, lane in 0u8..16, mask: u16, below: u64, to: u32,
            block in 0u64..1 << 33, blocks in 1u32..=16, marked in 0u32..100, counter in 1u64.., there: bool, lsn: u64) -> Vec<Record> {
            let syncs = [CopySync::Keep, CopySync::InSync, CopySync::Join, CopySync::NotedInSync, CopySync::NotedOutOfSync];
            let (epoch, period_start) = (Epoch(epoch), Epoch(epoch - back % epoch));
            let by = OwnerId { node: NodeId::from_bytes(node), incarnation: Incarnation(incarnation) };
            let range = BlockRange { first: BlockNo(block * 16 + u64::from(16 - blocks)), blocks };
            let order = Order { epoch, period_start, seq: seq(epoch.0, counter), mark: seq(marked.min(epoch.0 - 1), u64::MAX) };
            let progress = ResyncProgress { below, to: Epoch(to) };
            let all = [
                Accept { epoch, period_start, by, sync: syncs[sync] }.record(7, lsn),
                Doubt { range, order }.record(7, lsn),
                LaneNote { lane: Lane::new(lane).unwrap(), mark: seq(marked, counter) }.record(7, lsn),
                OwnDoubt { range }.record(7, lsn),
                Range { range, source: there.then_some((epoch, mask)), progress }.record(7, lsn),
                Progressed { progress }.record(7, lsn),
            ];
            assert_eq!(Accept::of(&all[0]), Ok(Accept { epoch, period_start, by, sync: syncs[sync] }));
            assert_eq!(Doubt::of(&all[1]), Ok(Doubt { range, order }));
            assert_eq!(LaneNote::of(&all[2]), Ok(LaneNote { lane: Lane::new(lane).unwrap(), mark: seq(marked, counter) }));
            assert_eq!(OwnDoubt::of(&all[3]), Ok(OwnDoubt { range }));
            assert_eq!(Range::of(&all[4]), Ok(Range { range, source: there.then_some((epoch, mask)), progress }));
            assert_eq!(Progressed::of(&all[5]), Ok(Progressed { progress }));
            all.to_vec()
        }
    }

    fn built(records: &[Record]) -> Vec<u8> {
        let header = BatchHeader { tag: TAG, shard: 0, lsn: 5, segment_seq: 9, position: 10, tail_seq: 3, previous_crc: 1 };
        let mut b = vec![0; 4096 * batch_header_blocks(records.len(), 0)];
        header.build(&mut b, records, &[]);
        b
    }

    proptest! {
        #[test]
        fn records_of_a_copy_read_back(list in records()) {
            let b = built(&list);
            let view = BatchHeader::parse(&b, TAG).unwrap();
            prop_assert_eq!(view.records.iter().map(|(record, _)| record).collect::<Vec<_>>(), list);
        }
        #[test]
        fn what_is_read_is_what_its_value_builds(list in records(), which in 0usize..6, at in 0usize..64, by in 1u8..) {
            let mut b = built(&list[which..=which]);
            b[128 + at] ^= by;
            reseal(&mut b);
            if let Ok(view) = BatchHeader::parse(&b, TAG) {
                let (record, _) = view.records.iter().next().unwrap();
                prop_assert_eq!(&built(&[record])[..192], &b[..192]);
            }
        }
    }

    #[test]
    fn records_that_cannot_be_are_refused() {
        let by = OwnerId { node: NodeId::from_bytes([9; 16]), incarnation: Incarnation(3) };
        let range = BlockRange { first: BlockNo(3), blocks: 2 };
        let order = Order { epoch: Epoch(4), period_start: Epoch(2), seq: seq(3, 9), mark: seq(3, 7) };
        let accept = Accept { epoch: Epoch(4), period_start: Epoch(2), by, sync: CopySync::Join }.record(7, 5);
        let doubt = Doubt { range, order }.record(7, 5);
        let source = Range { range, source: Some((Epoch(4), 3)), progress: ResyncProgress::default() }.record(7, 5);
        let bad = [
            Record { order: Order { epoch: Epoch(0), ..accept.order }, ..accept },
            Record { order: Order { period_start: Epoch(5), ..accept.order }, ..accept },
            Record { order: Order { seq: seq(5, 0), ..accept.order }, ..accept },
            Record { order: Order { mark: seq(1, 0), ..accept.order }, ..accept },
            Record { blocks: 2, ..accept },
            Record { data_at: 1, ..accept },
            Record { order: Order { mark: seq(3, 9), ..order }, ..doubt },
            Record { order: Order { seq: seq(5, 9), ..order }, ..doubt },
            Record { block: BlockNo(255), ..doubt },
            Record { block: BlockNo(BLOCK_NO_MAX), ..doubt },
            Record { unchecked: true, ..doubt },
            Record { block: BlockNo(15), ..source },
            Record { order: Order { seq: seq(0, 1 << 16), ..source.order }, ..source },
            Record { order: Order { epoch: Epoch(0), ..source.order }, ..source },
            Record { kind: RecordKind::Lane, block: BlockNo(16), blocks: 1, order: Order::default(), ..doubt },
            Record { kind: RecordKind::Lane, block: BlockNo(1), blocks: 1, order: Order { epoch: Epoch(1), ..Order::default() }, ..doubt },
            Record { kind: RecordKind::OwnDoubt, ..doubt },
        ];
        for (i, record) in bad.iter().enumerate() {
            assert!(BatchHeader::parse(&built(&[*record]), TAG).is_err(), "record {i}: {record:?}");
        }
    }
}

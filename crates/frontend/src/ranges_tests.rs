use super::*;
use proptest::prelude::*;
use rt::Buf;

const SECTOR: u64 = 512;
const STEP_MAX: u32 = 64 << 10;

/// Ranges of up to 40 sectors around the borders of the first pieces of a small volume.
fn ranges() -> impl Strategy<Value = Vec<ByteRange>> {
    let range = (0..3u64, 0..80u64, 1..40u64).prop_map(|(piece, sector, sectors)| ByteRange {
        offset: (piece + 1) * PIECE_BYTES + sector * SECTOR - 40 * SECTOR,
        len: sectors * SECTOR,
    });
    proptest::collection::vec(range, 0..6)
}

fn read(disk: &[u8], offset: u64, len: u32) -> DataVec {
    let bytes = &disk[offset as usize..][..len as usize];
    let aligned = Extent { offset, len }.is_aligned();
    let crcs = if aligned { bytes.chunks_exact(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
    [Data { buf: Buf::copy_of(bytes), crcs }].into_iter().collect()
}

proptest! {
    /// Against a copy of the bytes of each range in order, as a model.
    #[test]
    fn ranges_are_copied_in_order_in_steps_within_pieces(ranges in ranges(), sector in 0..80u64, seed in any::<u8>()) {
        let at = 5 * PIECE_BYTES - 40 * SECTOR + sector * SECTOR;
        let mut disk: Vec<u8> = (0..6 * PIECE_BYTES).map(|i| (i / SECTOR) as u8 ^ seed).collect();
        let mut wanted = disk.clone();
        let mut to = at as usize;
        for r in &ranges {
            wanted.copy_within(r.offset as usize..r.end() as usize, to);
            to += r.len as usize;
        }
        let mut copy = RangeCopy::new(VolumeRef(1), VolumeRef(2), ranges.clone(), at, STEP_MAX);
        let mut copied = 0;
        loop {
            let behind: u64 = ranges[..copy.range()].iter().map(|r| r.len).sum();
            prop_assert!(behind <= copied);
            let Some(op) = copy.read_next() else { break };
            let IoOp::Read { offset, len } = op else { panic!("a step begins with a read: {op:?}") };
            prop_assert!(len <= STEP_MAX && copy.volume() == VolumeRef(1) && !copy.is_writing());
            prop_assert_eq!(offset / PIECE_BYTES, (offset + u64::from(len) - 1) / PIECE_BYTES);
            let op = copy.write(read(&disk, offset, len));
            let IoOp::Write { offset, data } = op else { panic!("and goes on with a write: {op:?}") };
            prop_assert!(copy.volume() == VolumeRef(2) && copy.is_writing());
            prop_assert_eq!(offset / PIECE_BYTES, (offset + u64::from(len) - 1) / PIECE_BYTES);
            for d in &data {
                let aligned = Extent { offset, len }.is_aligned();
                let sums: Vec<u32> = d.buf.chunks(BLOCK_BYTES).filter(|_| aligned).map(crc32c).collect();
                prop_assert_eq!(&d.crcs[..], &sums[..], "checksums where it lies on blocks, else none");
                disk[offset as usize..][..d.buf.len()].copy_from_slice(&d.buf);
            }
            prop_assert_eq!(copy.written(), len);
            copied += u64::from(len);
        }
        prop_assert_eq!(copied, ranges.iter().map(|r| r.len).sum::<u64>());
        prop_assert_eq!(copy.range(), ranges.len());
        prop_assert!(disk == wanted);
    }

    #[test]
    fn each_range_that_is_not_empty_is_trimmed_once_in_order(lens in proptest::collection::vec(0..3u64, 0..20)) {
        let all: Vec<ByteRange> = (0..).zip(lens).map(|(i, n)| ByteRange { offset: i * 8192, len: n * SECTOR }).collect();
        let mut trim = RangeTrim::new(all.iter().copied());
        for wanted in all.iter().filter(|r| r.len > 0) {
            prop_assert!(trim.is_left());
            let op = trim.next();
            let Some(IoOp::Trim { offset, len }) = op else { panic!("a trim is missing: {op:?}") };
            prop_assert_eq!(ByteRange { offset, len }, *wanted);
        }
        prop_assert!(!trim.is_left() && trim.next().is_none());
    }
}

#[test]
#[should_panic(expected = "one step at a time")]
fn a_step_is_not_begun_while_another_is_under_way() {
    let mut copy = RangeCopy::new(VolumeRef(0), VolumeRef(0), [ByteRange { offset: 0, len: 4096 }], 8192, STEP_MAX);
    copy.read_next();
    copy.read_next();
}

#[test]
fn ranges_of_a_trim_that_lie_side_by_side_are_one() {
    let of = |ranges: &[(u64, u64)]| -> Vec<(u64, u64)> {
        let trim = RangeTrim::new(ranges.iter().map(|(offset, len)| ByteRange { offset: *offset, len: *len }));
        trim.map(|op| if let IoOp::Trim { offset, len } = op { (offset, len) } else { panic!("{op:?}") }).collect()
    };
    assert_eq!(of(&[(0, 512), (512, 512), (1024, 4096)]), [(0, 5120)]);
    assert_eq!(of(&[(512, 512), (0, 512), (1024, 0), (512, 512)]), [(512, 512), (0, 1024)], "in their order");
    assert_eq!(of(&[(0, 512), (1024, 512), (2048, 512)]), [(0, 512), (1024, 512), (2048, 512)]);
    assert_eq!(of(&[(0, 0)]), []);
}

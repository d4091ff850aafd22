use super::*;
use crate::workload::{Access, Data, Skew};

const WHOLE: Promise = Promise { whole_blocks: true, after_trim: AfterTrim::ZeroesOrOld };
const BLOCK: usize = GRAIN_BYTES as usize;

fn load() -> Workload {
    Workload { verify: true, ..Workload::simple("t", 4096, 0.5, Access::Random { skew: Skew::Uniform }, 1) }
}

/// Two disks of 16 blocks, in memory, and one worker that does one operation after the other.
struct Bench {
    ledgers: Ledgers,
    checker: Checker,
    disks: [Vec<u8>; 2],
}

impl Bench {
    fn new(promise: Promise) -> Bench {
        let ledgers = Ledgers::default();
        let disks = [("a", 16 * 4096, promise), ("b", 16 * 4096, promise)].map(|(n, b, p)| (n.to_owned(), b, p));
        let checking = ledgers.checking(&load(), true, disks).unwrap().unwrap();
        Bench { checker: Checker::new(&checking, 2, false), ledgers, disks: [vec![0xEE; 16 * BLOCK], vec![0xEE; 16 * BLOCK]] }
    }
    fn op(kind: IoClass, block: usize, count: usize) -> Operation {
        Operation { kind, stream: 0, offset: (block * BLOCK) as u64, bytes: (count * BLOCK) as u32 }
    }
    fn write(&mut self, disk: usize, block: usize, count: usize) {
        self.checker.begin(0, disk, &Self::op(IoClass::Write, block, count));
        // In parts, as the engines do.
        for n in block..block + count {
            let at = n * BLOCK;
            self.checker.fill(0, at as u64, &mut self.disks[disk][at..at + BLOCK]);
        }
        assert!(self.checker.end(0, true));
    }
    fn read(&mut self, disk: usize, block: usize, count: usize) -> bool {
        self.checker.begin(1, disk, &Self::op(IoClass::Read, block, count));
        for n in (block..block + count).rev() {
            let at = n * BLOCK;
            self.checker.read(1, at as u64, &self.disks[disk][at..at + BLOCK]);
        }
        self.checker.end(1, true)
    }
    fn block(&self, disk: usize, block: usize) -> Vec<u8> {
        self.disks[disk][block * BLOCK..(block + 1) * BLOCK].to_vec()
    }
    fn put(&mut self, disk: usize, block: usize, data: &[u8]) {
        self.disks[disk][block * BLOCK..][..data.len()].copy_from_slice(data);
    }
    /// Reads block 5 of disk a, which is wrong: what is said of it.
    fn said(&mut self) -> String {
        assert!(!self.read(0, 4, 3), "it is wrong");
        assert_eq!(self.checker.tally.wrong, 1);
        let text = self.checker.findings.pop().unwrap();
        assert!(text.starts_with("a: wrong data in the 4 KiB block at byte 20480 (read of 12288 bytes at 16384)"), "{text}");
        text
    }
}

fn written() -> Bench {
    let mut b = Bench::new(WHOLE);
    b.write(0, 0, 16);
    b.write(1, 0, 16);
    assert!(b.read(0, 0, 16) && b.read(1, 0, 16));
    assert_eq!(b.checker.tally, Verified { checked: 32, wrong: 0, unknown: 0 });
    b
}

#[test]
fn what_was_not_written_in_this_run_is_counted_as_not_checked() {
    let mut b = Bench::new(WHOLE);
    b.write(0, 0, 4);
    assert!(b.read(0, 0, 16));
    assert_eq!(b.checker.tally, Verified { checked: 4, wrong: 0, unknown: 12 });
}

#[test]
fn a_flipped_bit_is_found() {
    let mut b = written();
    let mut data = b.block(0, 5);
    data[3000] ^= 4;
    b.put(0, 5, &data);
    let text = b.said();
    assert!(text.contains("damaged bytes in sector 5") && text.contains("corrupted data"), "{text}");
}

#[test]
fn stale_data_is_found() {
    let mut b = written();
    let old = b.block(0, 5);
    b.write(0, 5, 1);
    assert!(b.read(0, 5, 1));
    b.put(0, 5, &old);
    let text = b.said();
    assert!(text.contains("stale data"), "{text}");
}

#[test]
fn misdirected_data_is_found_on_the_same_disk_and_from_another() {
    let mut b = written();
    let other = b.block(0, 9);
    b.put(0, 5, &other);
    let text = b.said();
    assert!(text.contains("byte 36864 of the same disk: misdirected"), "{text}");
    let mut b = written();
    let other = b.block(1, 5);
    b.put(0, 5, &other);
    let text = b.said();
    assert!(text.contains("byte 20480 of b: misdirected"), "{text}");
}

#[test]
fn data_of_an_earlier_run_zeroes_foreign_bytes_and_torn_blocks_are_found() {
    let mut b = written();
    let earlier = written().block(0, 5);
    b.put(0, 5, &earlier);
    let text = b.said();
    assert!(text.contains("another run"), "{text}");
    let mut b = written();
    b.put(0, 5, &[0; BLOCK]);
    let text = b.said();
    assert!(text.contains("found zeroes") && text.contains("lost"), "{text}");
    let mut b = written();
    b.put(0, 5, &[7; BLOCK]);
    let text = b.said();
    assert!(text.contains("foreign"), "{text}");
    let mut b = written();
    let old = b.block(0, 5);
    b.write(0, 5, 1);
    b.put(0, 5, &old[..1024]);
    let text = b.said();
    assert!(text.contains("torn"), "{text}");
}

#[test]
fn overlapping_writes_may_end_in_any_order_and_no_older_data_is_legal() {
    let mut b = written();
    let old = b.block(0, 5);
    let op = Bench::op(IoClass::Write, 5, 1);
    b.checker.begin(0, 0, &op);
    b.checker.begin(1, 0, &op);
    let mut data = [[0; BLOCK]; 2];
    for (slot, data) in data.iter_mut().enumerate() {
        b.checker.fill(slot, op.offset, data);
    }
    assert!(b.checker.end(1, true) && b.checker.end(0, true));
    for data in data {
        let mut other = Bench { ledgers: b.ledgers.clone(), checker: Checker::new(&checking(&b), 2, false), disks: b.disks.clone() };
        other.put(0, 5, &old);
        assert!(!other.read(0, 5, 1), "what both have written over is not legal");
        let clone = lock(&b.checker.disks[0].model).clone();
        other.put(0, 5, &data);
        assert!(other.read(0, 5, 1));
        *lock(&b.checker.disks[0].model) = clone;
    }
}

fn checking(b: &Bench) -> Checking {
    Checking { disks: b.checker.disks.clone() }
}

#[test]
fn a_trim_leaves_what_the_disk_promises() {
    let after = |promise: AfterTrim, data: &[u8]| {
        let mut b = Bench::new(Promise { after_trim: promise, ..WHOLE });
        b.write(0, 0, 16);
        let old = b.block(0, 5);
        b.checker.begin(0, 0, &Bench::op(IoClass::Discard, 5, 1));
        assert!(b.checker.end(0, true));
        b.put(0, 5, if data.is_empty() { &old } else { data });
        (b.read(0, 5, 1), b.checker.tally.unknown)
    };
    let (zero, foreign) = ([0; BLOCK], [9; BLOCK]);
    use AfterTrim::*;
    assert_eq!([&zero[..], &[], &foreign].map(|d| after(Zeroes, d)), [(true, 0), (false, 0), (false, 0)]);
    assert_eq!([&zero[..], &[], &foreign].map(|d| after(ZeroesOrOld, d)), [(true, 0), (true, 0), (false, 0)]);
    assert_eq!([&zero[..], &[], &foreign].map(|d| after(Anything, d)), [(true, 1); 3]);
}

#[test]
fn a_failed_write_may_have_happened_and_a_failed_read_says_nothing() {
    let mut b = written();
    let old = b.block(0, 5);
    b.checker.begin(0, 0, &Bench::op(IoClass::Write, 5, 1));
    let mut new = vec![0; BLOCK];
    b.checker.fill(0, 5 * GRAIN_BYTES, &mut new);
    assert!(b.checker.end(0, false));
    let undecided = lock(&b.checker.disks[0].model).clone();
    for (first, then) in [(&old, &new), (&new, &old)] {
        *lock(&b.checker.disks[0].model) = undecided.clone();
        b.put(0, 5, first);
        assert!(b.read(0, 5, 1), "it happened or not");
        b.put(0, 5, then);
        assert!(!b.read(0, 5, 1), "and what was seen stays");
    }
    let tally = b.checker.tally;
    b.checker.begin(1, 0, &Bench::op(IoClass::Read, 0, 16));
    assert!(b.checker.end(1, false));
    assert_eq!(b.checker.tally, tally);
}

#[test]
fn a_load_that_writes_unverified_makes_what_was_known_unknown() {
    let b = written();
    let disks = || [("a".to_owned(), 16 * 4096, WHOLE)];
    let plain = Workload { verify: false, ..load() };
    assert!(b.ledgers.checking(&plain, false, disks()).unwrap().is_none());
    let kept = b.ledgers.checking(&load(), true, disks()).unwrap().unwrap();
    assert!(Arc::ptr_eq(&kept.disks[0], &b.checker.disks[0]), "reading changes nothing");
    assert!(b.ledgers.checking(&plain, true, disks()).unwrap().is_none());
    let new = b.ledgers.checking(&load(), true, disks()).unwrap().unwrap();
    assert!(!Arc::ptr_eq(&new.disks[0], &b.checker.disks[0]));
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let disk = |bytes| [("a".to_owned(), bytes, WHOLE)];
    let e = Ledgers::default().checking(&load(), true, disk(2 << 40)).unwrap_err().to_string();
    assert!(e.contains("2048 GiB") && e.contains("1024 GiB") && e.contains("--working-set"), "{e}");
    let mut w = load();
    w.data = Data { compressible: 0.5, duplicates: 0.0 };
    assert!(w.check("t").unwrap_err().to_string().contains("compressible"));
    let mut w = load();
    w.streams[0].sizes[0].bytes = 512;
    assert!(w.check("t").unwrap_err().to_string().contains("blocks of 4096"));
}

//! Volumes in memory.

use base::crc32c;
use base::unit::BLOCK_BYTES;
use object::{Backend, Data, DataVec, IoDone, IoError, IoOp, IoRequest, extents};
use rt::{Buf, Rt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The bytes of the volumes; a clone is the same.
#[derive(Clone, Default)]
pub(super) struct Disks(pub(super) Rc<RefCell<BTreeMap<u32, Vec<u8>>>>);

/// Answers requests at once, in an order that is not that of their coming.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) disks: Disks,
    pub(super) requests: u64,
    pub(super) done: Vec<IoDone>,
    /// Ranges that were declared uncorrectable.
    pub(super) lost: Vec<core::ops::Range<u64>>,
    /// What one request fails with, by its number.
    pub(super) fail_at: Option<(u64, IoError)>,
    /// What the next requests fail with.
    pub(super) fail: Option<IoError>,
    /// Requests are kept here as long as it holds.
    pub(super) hold: bool,
    pub(super) kept: Vec<IoRequest>,
}

pub(super) const DISK_BYTES: usize = 4 << 20;

impl Memory {
    pub(super) fn answer(&mut self, request: IoRequest) -> IoDone {
        self.requests += 1;
        let mut disks = self.disks.0.borrow_mut();
        let disk = disks.entry(request.volume.0).or_insert_with(|| vec![0; DISK_BYTES]);
        let mut data = DataVec::new();
        let mut result = self.fail.map_or(Ok(()), Err);
        if let Some((_, e)) = self.fail_at.take_if(|(at, _)| *at == self.requests) {
            result = Err(e);
        }
        match request.op {
            IoOp::Read { offset, len } if result.is_ok() => {
                for e in extents(offset, len) {
                    let at = e.offset as usize;
                    let buf = Buf::copy_of(&disk[at..at + e.len as usize]);
                    let crcs = if e.is_aligned() { buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
                    data.push(Data { buf, crcs });
                }
            }
            IoOp::Write { offset, data: list, .. } => {
                let len: usize = list.iter().map(|d| d.buf.len()).sum();
                for (e, d) in extents(offset, len as u32).into_iter().zip(&list) {
                    assert_eq!(d.buf.len(), e.len as usize);
                    let sums: Vec<u32> = if e.is_aligned() { d.buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { vec![] };
                    assert_eq!(d.crcs.as_slice(), sums, "the checksum at the door");
                    if result.is_ok() {
                        disk[e.offset as usize..][..e.len as usize].copy_from_slice(&d.buf);
                    }
                }
                data = list;
            }
            IoOp::Zero { offset, len, .. } | IoOp::Trim { offset, len } if result.is_ok() => {
                disk[offset as usize..][..len as usize].fill(0);
            }
            IoOp::CompareWrite { offset, both } if result.is_ok() => {
                let at = &mut disk[offset as usize..][..both.compare.buf.len()];
                let extent = object::Extent { offset, len: both.data.buf.len() as u32 };
                assert_eq!(both.data.crcs.len(), if extent.is_aligned() { at.len() / BLOCK_BYTES } else { 0 });
                match *at == *both.compare.buf {
                    true => at.copy_from_slice(&both.data.buf),
                    false => result = Err(IoError::Miscompare),
                }
            }
            IoOp::Uncorrectable { offset, len } if result.is_ok() => self.lost.push(offset..offset + len),
            IoOp::Verify { offset, len } if result.is_ok() => {
                if let Some(lost) = self.lost.iter().find(|l| l.start < offset + len && offset < l.end) {
                    result = Err(IoError::Media { offset: lost.start });
                }
            }
            _ => {}
        }
        IoDone { token: request.token, result, data }
    }
}

impl Backend for Memory {
    fn submit(&mut self, _rt: &Rt, request: IoRequest) {
        if self.hold {
            return self.kept.push(request);
        }
        let done = self.answer(request);
        self.done.push(done);
    }
    fn pop(&mut self) -> Option<IoDone> {
        if !self.hold {
            for request in core::mem::take(&mut self.kept) {
                let done = self.answer(request);
                self.done.insert(0, done);
            }
        }
        self.done.pop()
    }
}

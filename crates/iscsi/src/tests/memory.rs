//! Volumes in memory.

use base::crc32c;
use base::unit::BLOCK_BYTES;
use object::{Backend, Data, DataVec, IoDone, IoError, IoOp, IoRequest, extents};
use rt::{Buf, Rt};
use std::collections::BTreeMap;

/// Answers requests, the last one first or in their order; or keeps them.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) disks: BTreeMap<u32, Vec<u8>>,
    pub(super) fail: Option<IoError>,
    pub(super) hold: bool,
    pub(super) in_order: bool,
    pub(super) kept: Vec<IoRequest>,
    pub(super) turns: u64,
}

pub(super) const DISK_BYTES: usize = 4 << 20;

impl Memory {
    pub(super) fn answer(&mut self, request: IoRequest) -> IoDone {
        let disk = self.disks.entry(request.volume.0).or_insert_with(|| vec![0; DISK_BYTES]);
        let mut data = DataVec::new();
        let mut result = self.fail.map_or(Ok(()), Err);
        match request.op {
            _ if result.is_err() => {}
            IoOp::Read { offset, len } => {
                for e in extents(offset, len) {
                    let buf = Buf::copy_of(&disk[e.offset as usize..][..e.len as usize]);
                    data.push(Data { buf, crcs: Default::default() });
                }
            }
            IoOp::Write { offset, data: list } => {
                let len: usize = list.iter().map(|d| d.buf.len()).sum();
                for (e, d) in extents(offset, len as u32).into_iter().zip(&list) {
                    let sums: Vec<u32> = if e.is_aligned() { d.buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { vec![] };
                    assert_eq!(d.crcs.as_slice(), sums, "the checksum at the door");
                    disk[e.offset as usize..][..e.len as usize].copy_from_slice(&d.buf);
                }
            }
            IoOp::Zero { offset, len } | IoOp::Trim { offset, len } => disk[offset as usize..][..len as usize].fill(0),
            IoOp::CompareWrite { offset, both } => {
                let at = &mut disk[offset as usize..][..both.compare.buf.len()];
                match *at == *both.compare.buf {
                    true => at.copy_from_slice(&both.data.buf),
                    false => result = Err(IoError::Miscompare),
                }
            }
            IoOp::Turn { .. } => self.turns += 1,
            _ => {}
        }
        IoDone { token: request.token, result, data }
    }
}

impl Backend for Memory {
    fn submit(&mut self, _rt: &Rt, request: IoRequest) {
        self.kept.push(request);
    }
    fn pop(&mut self) -> Option<IoDone> {
        if self.hold {
            return None;
        }
        let request = if self.in_order { (!self.kept.is_empty()).then(|| self.kept.remove(0)) } else { self.kept.pop() };
        request.map(|request| self.answer(request))
    }
}

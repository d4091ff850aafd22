//! Volumes in memory behind a target, and the picture that it serves.
//!
//! Asserted: requests lie within the volume; data that is written comes in the extents and with the checksums that the door asks for.

use base::unit::BLOCK_BYTES;
use base::{Security, Visibility, VolumeId, WriteProtect, crc32c};
use frontend::{ServedVolume, VolumeView};
use nvmf::{Ana, NamespaceView, SubsystemView, View};
use object::{Backend, Data, DataVec, IoDone, IoError, IoOp, IoRequest, VolumeRef, extents};
use rt::{Buf, Rt};
use std::collections::BTreeMap;

use crate::host::{HOST, NQN};

/// Bytes of each volume.
pub(crate) const VOLUME_BYTES: u64 = 2 << 20;

/// The bytes of the volumes, and the requests that are kept instead of answered.
#[derive(Default)]
pub(crate) struct Volumes {
    bytes: BTreeMap<u32, Vec<u8>>,
    pub(crate) held: Vec<IoRequest>,
    done: Vec<IoDone>,
    /// Requests are kept.
    pub(crate) hold: bool,
}

/// A range of a volume.
fn range(bytes: &mut [u8], offset: u64, len: u64) -> &mut [u8] {
    assert!(offset.checked_add(len).is_some_and(|end| end <= VOLUME_BYTES), "within the volume");
    &mut bytes[offset as usize..(offset + len) as usize]
}

impl Volumes {
    /// Carries a request out, or fails it.
    pub(crate) fn answer(&mut self, request: IoRequest, fail: Option<IoError>) -> IoDone {
        let bytes = self.bytes.entry(request.volume.0).or_insert_with(|| vec![0; VOLUME_BYTES as usize]);
        let (mut data, mut result) = (DataVec::new(), fail.map_or(Ok(()), Err));
        match request.op {
            IoOp::Read { offset, len } => {
                let all = range(bytes, offset, len.into());
                for e in extents(offset, len) {
                    let buf = Buf::copy_of(&all[(e.offset - offset) as usize..][..e.len as usize]);
                    let crcs = if e.is_aligned() { buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
                    data.push(Data { buf, crcs });
                }
                if result.is_err() {
                    data.clear();
                }
            }
            IoOp::Write { offset, data: list, .. } => {
                let len: usize = list.iter().map(|d| d.buf.len()).sum();
                let parts = extents(offset, len as u32);
                assert_eq!(parts.len(), list.len());
                for (e, d) in parts.into_iter().zip(&list) {
                    assert_eq!(d.buf.len(), e.len as usize);
                    let sums: Vec<u32> = if e.is_aligned() { d.buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { vec![] };
                    assert_eq!(d.crcs.as_slice(), sums, "the checksums at the door");
                    let at = range(bytes, e.offset, e.len.into());
                    if result.is_ok() {
                        at.copy_from_slice(&d.buf);
                    }
                }
                data = list;
            }
            IoOp::CompareWrite { offset, both } => {
                assert_eq!(both.compare.buf.len(), both.data.buf.len());
                let at = range(bytes, offset, both.data.buf.len() as u64);
                if result.is_ok() && *at == *both.compare.buf {
                    at.copy_from_slice(&both.data.buf);
                } else if result.is_ok() {
                    result = Err(IoError::Miscompare);
                }
            }
            IoOp::Zero { offset, len, .. } | IoOp::Trim { offset, len } => {
                let at = range(bytes, offset, len);
                if result.is_ok() {
                    at.fill(0);
                }
            }
            IoOp::Uncorrectable { offset, len } => {
                assert!((offset | len).is_multiple_of(BLOCK_BYTES as u64));
                range(bytes, offset, len);
            }
            IoOp::Verify { offset, len } => {
                range(bytes, offset, len);
            }
            IoOp::Flush | IoOp::Turn { .. } => {}
        }
        IoDone { token: request.token, result, data }
    }
}

impl Backend for Volumes {
    fn submit(&mut self, _rt: &Rt, request: IoRequest) {
        if self.hold {
            return self.held.push(request);
        }
        let done = self.answer(request, None);
        self.done.push(done);
    }
    fn pop(&mut self) -> Option<IoDone> {
        if !self.hold {
            for request in core::mem::take(&mut self.held) {
                let done = self.answer(request, None);
                self.done.push(done);
            }
        }
        self.done.pop()
    }
}

/// What is served to either kind of host: the first volume has blocks of 512 bytes, the second of 4096; the third cannot be written.
pub(crate) fn served() -> Vec<Option<VolumeView>> {
    let volume = |(n, lba_bytes, write_protect): (u8, u32, WriteProtect)| {
        let plain = ServedVolume::plain(VolumeId::from_bytes([n; 16]), format!("v{n}"), VOLUME_BYTES);
        let volume = ServedVolume { lba_bytes, write_protect, thin: false, ..plain };
        Some(VolumeView { volume, used: vec![], limited: false, owner: None, revision: 0 })
    };
    [(1, 512, WriteProtect::None), (2, 4096, WriteProtect::None), (3, 512, WriteProtect::Protected)].map(volume).into()
}

/// The same as namespaces 1 to 3.
pub(crate) fn view() -> View {
    let namespace = |nsid| (nsid, NamespaceView { volume: VolumeRef(nsid - 1), hosts: Visibility::All, ana: Ana::default() });
    View {
        generation: 1,
        subsystems: vec![SubsystemView {
            nqn: NQN.into(),
            serial: "FUZZ".into(),
            model: "Basalt".into(),
            allow_any_host: false,
            hosts: vec![HOST.into()],
            namespaces: [1, 2, 3].map(namespace).into(),
            security: Security::Plain,
            manage_namespaces: true,
        }],
        volumes: served(),
        hosts: BTreeMap::new(),
        ..View::default()
    }
}

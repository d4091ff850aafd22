//! Forward: a request for the owner of a volume.
//!
//! Invariant: a Forward that parses has the data that its verb brings, cut at the borders of pieces; offsets and lengths are multiples of 512
//! and lie within the largest volume.
//! Never: knows the size of the volume, judges rights or age.

use super::error::{PeerError, check, reserved};
use super::header::{DATA_BYTES_MAX, Envelope, HEADER_BYTES, Header, MessageKind};
use super::segment::{SEGMENTS_MAX, Segment, Sums, put_sums, split};
use super::sizes::FORWARD_BYTES;
use crate::bytes::*;
use base::unit::{PIECE_BYTES, SECTOR_BYTES, VOLUME_BYTES_MAX};
use base::{HostId, Instant, IoVerb, VolumeId};

layout!(forward: 128 bytes {
    0: REQUEST[8], 8: VOLUME[16], 24: REVISION[8], 32: STAMP[8], 40: OFFSET[8], 48: LEN[8], 56: HOST[16], 72: SOURCE[16],
    88: SOURCE_OFFSET[8], 96: CONTROLLER[2], 98: VERB[1], 99: FLAGS[1], 100: RESERVED[28],
});

const _: () = assert!(forward::BYTES == FORWARD_BYTES);

/// Names a request within its session: the low 16 bits are its slot at the requester, the others rise with each request, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

impl RequestId {
    /// Of the `serial`-th request of the session, in this slot.
    pub const fn new(serial: u64, slot: u16) -> RequestId {
        RequestId(serial << 16 | slot as u64)
    }
    /// Its slot.
    pub const fn slot(self) -> u16 {
        self.0 as u16
    }
    /// Which request of the session it is.
    pub const fn serial(self) -> u64 {
        self.0 >> 16
    }
}

/// Revision of the view of a volume: what hosts may do with it was judged by this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// Who at the requester a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The host, as reservations know it.
    pub host: HostId,
    /// Its controller at the requester.
    pub controller: u16,
}

/// A request, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// For the answer.
    pub request: RequestId,
    /// The volume; of a Copy the destination.
    pub volume: VolumeId,
    /// By which the requester judged it.
    pub revision: Revision,
    /// The owner's clock, as the requester knew it when the request came.
    pub stamp: Instant,
    /// Whose it is.
    pub issuer: Issuer,
    /// What to do.
    pub verb: IoVerb,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Of a Copy: the volume and the first byte that it reads from.
    pub source: Option<(VolumeId, u64)>,
}

/// Numbers of verbs on the wire; they never change.
const VERBS: [(u8, IoVerb); 10] = [
    (1, IoVerb::Read),
    (2, IoVerb::Verify),
    (3, IoVerb::Compare),
    (4, IoVerb::Write),
    (5, IoVerb::CompareWrite),
    (6, IoVerb::Copy),
    (7, IoVerb::Zero),
    (8, IoVerb::Trim),
    (9, IoVerb::Uncorrectable),
    (10, IoVerb::Flush),
];

impl Forward {
    /// Reads a body that its header has checked, and its checksums. `data_bytes` are those of the header.
    pub fn parse(b: &[u8], data_bytes: [u32; SEGMENTS_MAX]) -> Result<(Forward, Sums<'_>), PeerError> {
        use forward::*;
        let (b, sums) = b.split_first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let verb = VERBS.iter().find(|(n, _)| *n == b[VERB]).ok_or(PeerError::Value { field: "verb" })?.1;
        let request = RequestId(u64_at(b, REQUEST));
        check(request.serial() > 0, "request")?;
        let (source, source_offset) = (array_at::<16>(b, SOURCE), u64_at(b, SOURCE_OFFSET));
        if verb != IoVerb::Copy {
            reserved(b, SOURCE, CONTROLLER)?;
        }
        let forward = Forward {
            request,
            volume: VolumeId::from_bytes(array_at(b, VOLUME)),
            revision: Revision(u64_at(b, REVISION)),
            stamp: Instant(u64_at(b, STAMP)),
            issuer: Issuer { host: HostId::from_bytes(array_at(b, HOST)), controller: u16_at(b, CONTROLLER) },
            verb,
            offset: u64_at(b, OFFSET),
            len: u64_at(b, LEN),
            source: (verb == IoVerb::Copy).then(|| (VolumeId::from_bytes(source), source_offset)),
        };
        forward.check_range()?;
        if forward.data_bytes() != data_bytes {
            return Err(PeerError::Length);
        }
        Ok((forward, Sums::parse(sums, b[FLAGS], data_bytes)?))
    }

    /// Header and body into `out`; their bytes. The data of the segments follows.
    pub fn write(&self, envelope: &Envelope, segments: &[Segment<'_>], out: &mut [u8]) -> usize {
        use forward::*;
        let (b, sums) = out[HEADER_BYTES..].split_at_mut(BYTES);
        let (flags, data_bytes, sum_bytes) = put_sums(segments, sums);
        assert!(self.check_range().is_ok() && data_bytes == self.data_bytes(), "a request that can be read");
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put(b, VOLUME, self.volume.as_bytes());
        put_u64(b, REVISION, self.revision.0);
        put_u64(b, STAMP, self.stamp.0);
        put_u64(b, OFFSET, self.offset);
        put_u64(b, LEN, self.len);
        put(b, HOST, self.issuer.host.as_bytes());
        if let Some((volume, offset)) = &self.source {
            put(b, SOURCE, volume.as_bytes());
            put_u64(b, SOURCE_OFFSET, *offset);
        }
        put_u16(b, CONTROLLER, self.issuer.controller);
        b[VERB] = VERBS.iter().find(|(_, verb)| *verb == self.verb).expect("every verb has a number").0;
        b[FLAGS] = flags;
        Header::seal(MessageKind::Forward, envelope, data_bytes, BYTES + sum_bytes, out)
    }

    /// Bytes of the data segments that it brings.
    pub fn data_bytes(&self) -> [u32; SEGMENTS_MAX] {
        match self.verb {
            IoVerb::Write | IoVerb::Compare => split(self.offset, self.len as u32),
            IoVerb::CompareWrite => [self.len as u32; 2],
            _ => [0; 2],
        }
    }
    /// Bytes of the data segments of its answer, when it is done.
    pub fn answer_bytes(&self) -> [u32; SEGMENTS_MAX] {
        if self.verb == IoVerb::Read { split(self.offset, self.len as u32) } else { [0; 2] }
    }
    /// What it costs of a window, in bytes: at most [`DATA_BYTES_MAX`].
    pub fn cost(&self) -> u64 {
        match self.verb {
            IoVerb::Copy => self.len.min(DATA_BYTES_MAX as u64),
            _ => self.data_bytes().iter().chain(&self.answer_bytes()).map(|bytes| u64::from(*bytes)).sum(),
        }
    }

    /// Whether the range can be one of its verb.
    fn check_range(&self) -> Result<(), PeerError> {
        let sectors = |n: u64| n.is_multiple_of(SECTOR_BYTES as u64);
        let inside = |from: u64| sectors(from) && from.checked_add(self.len).is_some_and(|end| end <= VOLUME_BYTES_MAX);
        check(sectors(self.len) && inside(self.offset), "offset")?;
        let transfer = self.len > 0 && self.len <= DATA_BYTES_MAX as u64;
        let fits = match self.verb {
            IoVerb::Read | IoVerb::Write | IoVerb::Compare => transfer,
            IoVerb::CompareWrite => {
                transfer && self.len <= DATA_BYTES_MAX as u64 / 2 && self.offset % PIECE_BYTES + self.len <= PIECE_BYTES
            }
            IoVerb::Flush => self.offset == 0 && self.len == 0,
            IoVerb::Copy => self.len > 0 && self.source.is_some_and(|(_, from)| inside(from)),
            IoVerb::Verify | IoVerb::Zero | IoVerb::Trim | IoVerb::Uncorrectable => self.len > 0,
        };
        check(fits && (self.verb == IoVerb::Copy || self.source.is_none()), "length")
    }
}

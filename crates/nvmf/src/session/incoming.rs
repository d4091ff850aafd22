//! The PDU that comes in, byte by byte: its header, then its data, then the digest of that.
//!
//! ```text
//!  Head ──► Data ──► Digest ──► Head
//!   └ no data: Head   └ none: Head
//! ```
//!
//! Invariant: no byte of a header is taken that the header does not have.
//! Never: knows what a PDU does.

use base::checksum::Crc32c;
use base::{Duration, Instant};
use format::nvme::Field;
use format::nvme_tcp::{COMMON_BYTES, CommonHeader, DIGEST_BYTES, Fault, Fes, HEADER_BYTES_MAX, digest};

/// Data on its way into a slot.
pub(super) struct IncomingData {
    pub(super) slot: u16,
    pub(super) left: u32,
    /// Where in the command's data this PDU began, for the digest.
    pub(super) from: u32,
    pub(super) bytes: u32,
    /// Sums the data as it comes, when its blocks' checksums do not cover it.
    pub(super) sum: Option<Crc32c>,
    pub(super) digest: bool,
    pub(super) last: bool,
    pub(super) capsule: bool,
}

/// What comes next.
pub(super) enum Expected {
    /// Of the header, until it is whole.
    Head,
    /// Data of a capsule or an H2CData.
    Data(IncomingData),
    /// The digest of data, so many bytes of it.
    Digest(IncomingData, [u8; 4], u8),
}

/// See the module.
pub(super) struct Incoming {
    expected: Expected,
    head: [u8; HEADER_BYTES_MAX],
    head_len: usize,
    /// The first bytes of the header, once they are there and right.
    common: Option<CommonHeader>,
    /// When the first byte of the PDU was taken.
    began: Instant,
}

impl Incoming {
    pub(super) fn new() -> Self {
        Incoming { expected: Expected::Head, head: [0; HEADER_BYTES_MAX], head_len: 0, common: None, began: Instant::default() }
    }
    /// Whether a PDU has begun and not ended.
    pub(super) fn is_mid_pdu(&self) -> bool {
        self.head_len > 0 || !matches!(self.expected, Expected::Head)
    }
    /// When the PDU began; `None` between PDUs.
    pub(super) fn began(&self) -> Option<Instant> {
        self.is_mid_pdu().then_some(self.began)
    }
    /// It was not read for so long: the PDU has that much longer.
    pub(super) fn give_time(&mut self, time: Duration) {
        self.began += time;
    }
    /// What came of the PDU is forgotten.
    pub(super) fn forget(&mut self) {
        self.expected = Expected::Head;
        self.end_head();
    }

    /// What comes next.
    #[inline]
    pub(super) fn expected(&mut self) -> &mut Expected {
        &mut self.expected
    }
    /// The data that comes in, if it is that.
    #[inline]
    pub(super) fn data(&self) -> Option<&IncomingData> {
        match &self.expected {
            Expected::Data(data) => Some(data),
            Expected::Head | Expected::Digest(..) => None,
        }
    }
    /// Data comes next.
    #[inline]
    pub(super) fn expect_data(&mut self, data: IncomingData) {
        self.expected = Expected::Data(data);
    }
    /// All data has come. Gives it unless its digest comes next.
    #[inline]
    pub(super) fn end_data(&mut self) -> Option<IncomingData> {
        let Expected::Data(data) = core::mem::replace(&mut self.expected, Expected::Head) else { unreachable!("data came in") };
        if data.digest {
            self.expected = Expected::Digest(data, [0; 4], 0);
            return None;
        }
        Some(data)
    }
    /// Takes bytes of a digest; how many, and when it is whole the data and its digest.
    #[inline]
    pub(super) fn take_digest(&mut self, bytes: &[u8]) -> (usize, Option<(IncomingData, [u8; 4])>) {
        let Expected::Digest(_, got, have) = &mut self.expected else { unreachable!("a digest comes in") };
        let at = usize::from(*have);
        let n = bytes.len().min(DIGEST_BYTES - at);
        got[at..at + n].copy_from_slice(&bytes[..n]);
        *have += n as u8;
        if usize::from(*have) < DIGEST_BYTES {
            return (n, None);
        }
        let Expected::Digest(data, got, _) = core::mem::replace(&mut self.expected, Expected::Head) else { unreachable!("seen above") };
        (n, Some((data, got)))
    }

    /// A header comes in: its first bytes, when they were there and right already.
    #[inline]
    pub(super) fn begin_head(&mut self, now: Instant) -> Option<CommonHeader> {
        if self.head_len == 0 {
            self.began = now;
        }
        self.common
    }
    /// Takes bytes of a header up to its first `want`; how many were taken.
    #[inline]
    pub(super) fn gather(&mut self, bytes: &[u8], want: usize) -> usize {
        let n = bytes.len().min(want - self.head_len.min(want));
        self.head[self.head_len..self.head_len + n].copy_from_slice(&bytes[..n]);
        self.head_len += n;
        n
    }
    /// Whether the first `want` bytes of the header are there.
    #[inline]
    pub(super) fn has(&self, want: usize) -> bool {
        self.head_len >= want
    }
    /// The first bytes of the header are there and right.
    #[inline]
    pub(super) fn set_common(&mut self, common: CommonHeader) {
        debug_assert!(self.has(COMMON_BYTES));
        self.common = Some(common);
    }
    /// Whether the digest of the header, if it has one, is right.
    #[inline]
    pub(super) fn check_digest(&self, common: &CommonHeader) -> Result<(), Fault> {
        if common.header_digest() {
            let hlen = usize::from(common.hlen);
            let got: [u8; 4] = Field::get(&self.head[hlen..]);
            if digest(&self.head[..hlen]) != got {
                return Err(Fault { fes: Fes::HeaderDigest, fei: u32::from_le_bytes(got) });
            }
        }
        Ok(())
    }
    /// The header; what is behind it means nothing.
    #[inline]
    pub(super) fn head(&self) -> &[u8; HEADER_BYTES_MAX] {
        &self.head
    }
    /// The header was used.
    #[inline]
    pub(super) fn end_head(&mut self) {
        self.head_len = 0;
        self.common = None;
    }
    /// What came of the header, for who sent it: no digest, no padding (HLEN covers neither).
    pub(super) fn head_that_came(&self) -> &[u8] {
        &self.head[..self.common.map_or(self.head_len, |c| self.head_len.min(c.hlen.into()))]
    }
}

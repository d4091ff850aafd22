//! Bytes of a connection become PDUs.
//!
//! Invariants: the lengths of a PDU are judged before memory is taken for it; at most one PDU is held; digests are checked here.

use base::crc32c;
use base::{Duration, Instant};
use format::iscsi::{DIGEST_BYTES, HEADER_BYTES, Header, Parts, pad_bytes};
use std::ops::Range;

/// What ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The data of a PDU is longer than what was agreed.
    TooLong,
    /// The digest of a header is wrong: nothing that follows can be understood.
    HeaderDigest,
}

/// A PDU that has come whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Its header.
    pub header: Header,
    /// Where its data is: see [`Framing::data`].
    pub data: Range<usize>,
    /// Its data has the digest that it should have.
    pub data_is_right: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Framing {
    buf: Vec<u8>,
    began: Option<Instant>,
    /// Digests of headers and of data.
    pub header_digest: bool,
    /// See `header_digest`.
    pub data_digest: bool,
}

impl Framing {
    /// When the PDU began of which a part has come.
    pub fn began(&self) -> Option<Instant> {
        self.began
    }
    /// It was not read for so long.
    pub fn give_time(&mut self, time: Duration) {
        if let Some(began) = &mut self.began {
            *began += time;
        }
    }
    /// The data of the PDU that came last.
    pub fn data(&self, range: Range<usize>) -> &[u8] {
        &self.buf[range]
    }
    /// The PDU that came last is done with.
    pub fn clear(&mut self) {
        self.buf.clear();
    }

    /// Takes bytes off the front of `bytes` until a PDU is whole; `None`: more must come.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn take(&mut self, bytes: &mut &[u8], data_max: usize, now: Instant) -> Result<Option<Whole>, Fault> {
        if !bytes.is_empty() && self.began.is_none() {
            self.began = Some(now);
        }
        if !self.fill(bytes, HEADER_BYTES) {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&self.buf[..HEADER_BYTES]);
        let parts = Parts::parse(&header);
        if parts.data_bytes > data_max {
            return Err(Fault::TooLong);
        }
        let head = parts.head_bytes(self.header_digest);
        if !self.fill(bytes, head) {
            return Ok(None);
        }
        if self.header_digest && !has_digest(&self.buf[..head]) {
            return Err(Fault::HeaderDigest);
        }
        let end = head + parts.body_bytes(self.data_digest);
        if !self.fill(bytes, end) {
            return Ok(None);
        }
        self.began = None;
        let data_is_right = !self.data_digest || parts.data_bytes == 0 || has_digest(&self.buf[head..end]);
        Ok(Some(Whole { header, data: head..head + parts.data_bytes, data_is_right }))
    }

    /// Whether there are `want` bytes, with those from `bytes`.
    fn fill(&mut self, bytes: &mut &[u8], want: usize) -> bool {
        let n = want.saturating_sub(self.buf.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(n);
        self.buf.extend_from_slice(taken);
        *bytes = rest;
        self.buf.len() >= want
    }
}

/// Whether bytes end with their digest.
fn has_digest(bytes: &[u8]) -> bool {
    let (of, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
    crc32c(of).to_le_bytes() == digest
}

/// What follows data so that it is whole on the wire: padding, and the digest if there is one.
pub fn tail(data: &[u8], digest: bool) -> ([u8; 3 + DIGEST_BYTES], usize) {
    let mut out = [0; 3 + DIGEST_BYTES];
    let pad = pad_bytes(data.len());
    if data.is_empty() || !digest {
        return (out, pad);
    }
    let sum = if pad == 0 { crc32c(data) } else { crc32c(&[data, &[0; 3][..pad]].concat()) };
    out[pad..pad + DIGEST_BYTES].copy_from_slice(&sum.to_le_bytes());
    (out, pad + DIGEST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdu(data: &[u8], digests: bool) -> Vec<u8> {
        let mut out = format::iscsi::NopOut::default().to_header(data.len()).to_vec();
        if digests {
            let sum = crc32c(&out).to_le_bytes();
            out.extend_from_slice(&sum);
        }
        out.extend_from_slice(data);
        let (rest, n) = tail(data, digests);
        out.extend_from_slice(&rest[..n]);
        out
    }

    #[test]
    fn a_pdu_is_whole_however_its_bytes_are_cut() {
        for digests in [false, true] {
            let wire = [pdu(b"abcde", digests), pdu(b"", digests), pdu(b"wxyz", digests)].concat();
            for step in [1, 3, 47, 49, 1000] {
                let mut f = Framing { header_digest: digests, data_digest: digests, ..Framing::default() };
                let mut got = Vec::new();
                for mut part in wire.chunks(step) {
                    while let Some(whole) = f.take(&mut part, 100, Instant::default()).unwrap() {
                        assert!(whole.data_is_right);
                        got.push(f.data(whole.data).to_vec());
                        f.clear();
                    }
                }
                assert_eq!(got, [&b"abcde"[..], b"", b"wxyz"], "{digests} {step}");
                assert_eq!(f.began(), None);
            }
        }
    }

    #[test]
    fn lengths_are_judged_before_the_data_comes_and_digests_when_it_has() {
        let mut f = Framing::default();
        assert_eq!(f.take(&mut &pdu(&[0; 101], false)[..48], 100, Instant::default()), Err(Fault::TooLong));
        let mut wire = pdu(b"abcd", true);
        wire[53] ^= 1;
        let mut f = Framing { header_digest: true, data_digest: true, ..Framing::default() };
        assert!(!f.take(&mut &wire[..], 100, Instant::default()).unwrap().unwrap().data_is_right);
        wire[20] ^= 1;
        let mut f = Framing { header_digest: true, data_digest: true, ..Framing::default() };
        assert_eq!(f.take(&mut &wire[..], 100, Instant::default()), Err(Fault::HeaderDigest));
    }
}

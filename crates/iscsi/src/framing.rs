//! Bytes of a connection become PDUs.
//!
//! Invariants: the lengths of a PDU are judged before memory is taken for it; at most one PDU is held, and none that lies whole in the bytes that came;
//! digests are checked here.

use base::checksum::Crc32c;
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

/// What comes of bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Came<'b> {
    /// A PDU that has come whole: its header, whether its data has the digest that it should have, and its data; `None`: that is kept here, see
    /// [`Framing::data`].
    Whole(Header, bool, Option<&'b [u8]>),
    /// A part of the data of a PDU that flows, with its header.
    Part(Header, &'b [u8]),
    /// All of its data has come, with its header, and whether it has the digest that it should have.
    End(Header, bool),
}

/// A PDU whose data flows: it is passed on as it comes.
struct Flow {
    header: Header,
    /// Bytes of data that are to come.
    left: usize,
    /// Bytes behind the data: padding, and the digest.
    tail: usize,
    sum: Crc32c,
}

/// See the module.
#[derive(Default)]
pub struct Framing {
    buf: Vec<u8>,
    /// Where in it the data of the PDU is that has come whole.
    data: Range<usize>,
    flow: Option<Box<Flow>>,
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
    /// The data that is kept of the PDU that came last.
    pub fn data(&self) -> &[u8] {
        &self.buf[self.data.clone()]
    }
    /// The PDU that came last is done with.
    pub fn clear(&mut self) {
        self.buf.clear();
    }

    /// Takes bytes off the front of `bytes` until a PDU is whole, or a part of one is there whose data flows; `None`: more must come. `flows`: whether
    /// data of a PDU with this header is to be passed on as it comes.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn take<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        data_max: usize,
        now: Instant,
        flows: impl FnOnce(&Header) -> bool,
    ) -> Result<Option<Came<'b>>, Fault> {
        if !bytes.is_empty() && self.began.is_none() {
            self.began = Some(now);
        }
        if self.flow.is_some() {
            return Ok(self.go_on(bytes));
        }
        if self.buf.is_empty()
            && let Some(whole) = self.whole_in(bytes, data_max)?
        {
            return Ok(Some(whole));
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
        // As long as none of its data is kept.
        if self.buf.len() == head && parts.data_bytes > 0 && flows(&header) {
            let tail = parts.body_bytes(self.data_digest) - parts.data_bytes;
            self.flow = Some(Box::new(Flow { header, left: parts.data_bytes, tail, sum: Crc32c::default() }));
            self.buf.clear();
            return Ok(self.go_on(bytes));
        }
        let end = head + parts.body_bytes(self.data_digest);
        if !self.fill(bytes, end) {
            return Ok(None);
        }
        self.began = None;
        let data_is_right = !self.data_digest || parts.data_bytes == 0 || has_digest(&self.buf[head..end]);
        self.data = head..head + parts.data_bytes;
        Ok(Some(Came::Whole(header, data_is_right, None)))
    }

    /// A PDU that lies whole at the front of `bytes`: it is not copied.
    fn whole_in<'b>(&mut self, bytes: &mut &'b [u8], data_max: usize) -> Result<Option<Came<'b>>, Fault> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let parts = Parts::parse(header);
        if parts.data_bytes > data_max {
            return Err(Fault::TooLong);
        }
        let head = parts.head_bytes(self.header_digest);
        let end = head + parts.body_bytes(self.data_digest);
        let Some((pdu, rest)) = bytes.split_at_checked(end) else { return Ok(None) };
        if self.header_digest && !has_digest(&pdu[..head]) {
            return Err(Fault::HeaderDigest);
        }
        *bytes = rest;
        self.began = None;
        let data_is_right = !self.data_digest || parts.data_bytes == 0 || has_digest(&pdu[head..]);
        Ok(Some(Came::Whole(*header, data_is_right, Some(&pdu[head..head + parts.data_bytes]))))
    }

    /// The next of a PDU that flows.
    fn go_on<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Came<'b>> {
        let flow = self.flow.as_mut()?;
        if flow.left > 0 {
            if bytes.is_empty() {
                return None;
            }
            let (part, rest) = bytes.split_at(flow.left.min(bytes.len()));
            (*bytes, flow.left) = (rest, flow.left - part.len());
            if self.data_digest {
                flow.sum.update(part);
            }
            return Some(Came::Part(flow.header, part));
        }
        let tail = flow.tail;
        if !self.fill(bytes, tail) {
            return None;
        }
        let mut flow = self.flow.take()?;
        let (pad, digest) = self.buf.split_at(if self.data_digest { tail - DIGEST_BYTES } else { tail });
        flow.sum.update(pad);
        let right = !self.data_digest || flow.sum.value().to_le_bytes() == digest;
        self.began = None;
        Some(Came::End(flow.header, right))
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
        for (digests, flows) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut flowing = Vec::new();
            let wire = [pdu(b"abcde", digests), pdu(b"", digests), pdu(b"wxyz", digests)].concat();
            for step in [1, 3, 47, 49, 1000] {
                let mut f = Framing { header_digest: digests, data_digest: digests, ..Framing::default() };
                let mut got = Vec::new();
                for mut part in wire.chunks(step) {
                    while let Some(came) = f.take(&mut part, 100, Instant::default(), |_| flows).unwrap() {
                        match came {
                            Came::Whole(_, right, here) => {
                                assert!(right);
                                got.push(here.unwrap_or_else(|| f.data()).to_vec());
                            }
                            Came::Part(_, part) => {
                                flowing.extend_from_slice(part);
                                continue;
                            }
                            Came::End(_, right) => {
                                assert!(right);
                                got.push(core::mem::take(&mut flowing));
                            }
                        }
                        f.clear();
                    }
                }
                assert_eq!(got, [&b"abcde"[..], b"", b"wxyz"], "{digests} {flows} {step}");
                assert_eq!(f.began(), None);
            }
        }
    }

    #[test]
    fn lengths_are_judged_before_the_data_comes_and_digests_when_it_has() {
        let mut f = Framing::default();
        assert_eq!(f.take(&mut &pdu(&[0; 101], false)[..48], 100, Instant::default(), |_| false), Err(Fault::TooLong));
        let mut wire = pdu(b"abcd", true);
        wire[53] ^= 1;
        let of = || Framing { header_digest: true, data_digest: true, ..Framing::default() };
        for cut in [wire.len(), 30] {
            let (mut f, mut first, mut rest) = (of(), &wire[..cut], &wire[cut..]);
            let came = f.take(&mut first, 100, Instant::default(), |_| false).unwrap();
            let came = came.or_else(|| f.take(&mut rest, 100, Instant::default(), |_| false).unwrap());
            assert!(matches!(came, Some(Came::Whole(_, false, _))), "{came:?}");
        }
        let (mut f, mut first, mut rest) = (of(), &wire[..30], &wire[30..]);
        let mut next = |bytes: &mut &[u8]| f.take(bytes, 100, Instant::default(), |_| true).map(|c| format!("{c:?}"));
        assert_eq!(next(&mut first), Ok("None".into()));
        assert!(next(&mut rest).unwrap().starts_with("Some(Part("));
        assert!(next(&mut rest).unwrap().ends_with(", false))"), "the digest of what flowed is wrong");
        wire[20] ^= 1;
        for cut in [wire.len(), 30] {
            let (mut f, mut first, mut rest) = (of(), &wire[..cut], &wire[cut..]);
            let came = f.take(&mut first, 100, Instant::default(), |_| true);
            let came = if came == Ok(None) { f.take(&mut rest, 100, Instant::default(), |_| true) } else { came };
            assert_eq!(came, Err(Fault::HeaderDigest));
        }
    }
}

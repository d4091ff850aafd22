//! What a session has to send.
//!
//! Invariants: StatSN is given in the order of sending; ExpCmdSN and MaxCmdSN are those of the moment when a PDU is sent; memory counts as held until
//! what it was sent with has come back.

use crate::framing::tail;
use crate::limits::SEND_BYTES;
use base::crc32c;
use format::iscsi::{DIGEST_BYTES, HEADER_BYTES, Header};
use rt::{Buf, SendList};
use std::collections::VecDeque;
use std::ops::Range;

/// Segments of one send.
const SEGMENTS_MAX: usize = 256;
/// Header bytes of one PDU at most: header, its digest, padding, digest of the data.
const PDU_HEADER_BYTES: usize = HEADER_BYTES + DIGEST_BYTES + 3 + DIGEST_BYTES;

/// A PDU.
struct Out {
    header: Header,
    data: Option<(Buf, Range<usize>)>,
    held: u64,
    digests: (bool, bool),
}

/// See the module.
#[derive(Default)]
pub(super) struct Outgoing {
    queue: VecDeque<Out>,
    /// Of each send under way: memory that is held for it.
    under_way: VecDeque<u64>,
    free: Option<SendList>,
    stat_sn: u32,
    /// Digests of headers and of data.
    pub(super) digests: (bool, bool),
}

impl Outgoing {
    /// The next StatSN, which a PDU with a status takes.
    pub(super) fn take_stat_sn(&mut self) -> u32 {
        let sn = self.stat_sn;
        self.stat_sn = sn.wrapping_add(1);
        sn
    }
    /// The next StatSN.
    pub(super) fn stat_sn(&self) -> u32 {
        self.stat_sn
    }
    pub(super) fn push(&mut self, header: Header) {
        self.queue.push_back(Out { header, data: None, held: 0, digests: self.digests });
    }
    pub(super) fn push_bytes(&mut self, header: Header, data: &[u8]) {
        self.push_data(header, (!data.is_empty()).then(|| (Buf::copy_of(data), 0..data.len())), 0);
    }
    pub(super) fn push_data(&mut self, header: Header, data: Option<(Buf, Range<usize>)>, held: u64) {
        self.queue.push_back(Out { header, data, held, digests: self.digests });
    }
    /// PDUs that wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
    /// Whether a PDU waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// What is to be sent next.
    pub(super) fn take(&mut self, exp_cmd_sn: u32, max_cmd_sn: u32) -> Option<SendList> {
        self.queue.front()?;
        let mut list = self.free.take().unwrap_or_default();
        let mut held = 0;
        while list.header_room() >= PDU_HEADER_BYTES && list.segments() < SEGMENTS_MAX && list.len_bytes() < SEND_BYTES {
            let Some(mut out) = self.queue.pop_front() else { break };
            out.header[28..32].copy_from_slice(&exp_cmd_sn.to_be_bytes());
            out.header[32..36].copy_from_slice(&max_cmd_sn.to_be_bytes());
            list.push_header(&out.header);
            if out.digests.0 {
                list.push_header(&crc32c(&out.header).to_le_bytes());
            }
            if let Some((buf, range)) = out.data {
                let (rest, n) = tail(&buf[range.clone()], out.digests.1);
                list.push_data(buf, range);
                list.push_header(&rest[..n]);
            }
            held += out.held;
        }
        self.under_way.push_back(held);
        Some(list)
    }
    /// Memory that is held for what is not sent.
    pub(super) fn held(&self) -> u64 {
        self.queue.iter().map(|o| o.held).chain(self.under_way.iter().copied()).sum()
    }
    /// A send has come back: memory that is not held any more.
    pub(super) fn sent(&mut self, mut list: SendList) -> u64 {
        list.clear();
        self.free = Some(list);
        self.under_way.pop_front().unwrap_or(0)
    }
}

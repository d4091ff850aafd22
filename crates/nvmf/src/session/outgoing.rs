//! Lists of bytes for the host: the one that grows, those that are ready, those that are on their way.
//!
//! Invariant: what is ready or on its way is counted, until it was sent.

use crate::limits::SEND_SEGMENTS_MAX;
use format::nvme_tcp::HEADER_BYTES_MAX;
use rt::SendList;
use std::collections::VecDeque;

/// Room that a list must have for the next PDU: a header with padding, digests and a response.
const HEADER_ROOM: usize = HEADER_BYTES_MAX + 64;
/// Empty lists that are kept.
const FREE_LISTS_MAX: usize = 4;

/// See the module.
pub(super) struct Outgoing {
    out: SendList,
    ready: VecDeque<SendList>,
    free: Vec<SendList>,
    /// Bytes that are ready or on their way.
    backlog: usize,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Outgoing { out: SendList::new(), ready: VecDeque::new(), free: Vec::new(), backlog: 0 }
    }
    /// The list that the next PDU goes into, with room for it.
    pub(super) fn list(&mut self) -> &mut SendList {
        if self.out.header_room() < HEADER_ROOM || self.out.segments() > SEND_SEGMENTS_MAX {
            let full = self.begin_list();
            self.backlog += full.len_bytes();
            self.ready.push_back(full);
        }
        &mut self.out
    }
    /// The next list to send, if there is something.
    pub(super) fn take(&mut self) -> Option<SendList> {
        if let Some(list) = self.ready.pop_front() {
            return Some(list);
        }
        if self.out.is_empty() {
            return None;
        }
        let list = self.begin_list();
        self.backlog += list.len_bytes();
        Some(list)
    }
    /// A list was sent; its data buffers are no longer in it. Kept for its room.
    #[inline]
    pub(super) fn keep(&mut self, mut list: SendList) {
        list.clear();
        if self.free.len() < FREE_LISTS_MAX {
            self.free.push(list);
        }
    }
    /// So many bytes were sent.
    #[inline]
    pub(super) fn sent(&mut self, bytes: usize) {
        debug_assert!(self.backlog >= bytes, "what was sent was on its way");
        self.backlog -= bytes;
    }
    /// Whether there is something to send.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.ready.is_empty()
    }
    /// Bytes that the peer has not taken.
    #[inline]
    pub(super) fn backlog(&self) -> usize {
        self.backlog
    }
    #[inline]
    fn begin_list(&mut self) -> SendList {
        core::mem::replace(&mut self.out, self.free.pop().unwrap_or_default())
    }
}

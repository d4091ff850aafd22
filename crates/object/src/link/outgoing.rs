//! Lists of bytes for the other node: the one that grows, and those that are ready.
//!
//! Invariant: a message is in one list, whole, in the order in which messages were written.
//! Never: knows what a message does.

use super::limits::SEND_SEGMENTS_MAX;
use format::peer::{BODY_BYTES_MAX, HEADER_BYTES};
use rt::{Buf, SendList};
use std::collections::VecDeque;

/// Bytes of a message without its data.
const HEAD_BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX;
/// Empty lists that are kept.
const FREE_LISTS_MAX: usize = 4;

const _: () = assert!(HEAD_BYTES_MAX <= rt::SEND_HEADER_BYTES_MAX);

/// See the module.
pub(super) struct Outgoing {
    out: SendList,
    ready: VecDeque<SendList>,
    free: Vec<SendList>,
    /// Where a message is built.
    scratch: Box<[u8; HEAD_BYTES_MAX]>,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Outgoing { out: SendList::new(), ready: VecDeque::new(), free: Vec::new(), scratch: Box::new([0; HEAD_BYTES_MAX]) }
    }
    /// Adds a message that `write` builds; its data follows by [`Outgoing::push_data`].
    pub(super) fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        let n = write(&mut self.scratch[..]);
        if self.out.header_room() < n || self.out.segments() > SEND_SEGMENTS_MAX {
            let full = core::mem::replace(&mut self.out, self.free.pop().unwrap_or_default());
            self.ready.push_back(full);
        }
        self.out.push_header(&self.scratch[..n]);
    }
    /// Adds data of the message that was pushed last.
    pub(super) fn push_data(&mut self, buf: Buf) {
        let all = 0..buf.len();
        self.out.push_data(buf, all);
    }
    /// The next list to send.
    pub(super) fn take(&mut self) -> Option<SendList> {
        if let Some(list) = self.ready.pop_front() {
            return Some(list);
        }
        if self.out.is_empty() {
            return None;
        }
        Some(core::mem::replace(&mut self.out, self.free.pop().unwrap_or_default()))
    }
    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.ready.is_empty()
    }
    /// Whether there is no more than one list.
    pub(super) fn is_short(&self) -> bool {
        self.ready.is_empty()
    }
    /// Nothing of it will be sent.
    pub(super) fn give_up(&mut self) {
        self.out.clear();
        self.ready.clear();
    }
    /// A list was sent, or never will be: its room is kept.
    pub(super) fn keep(&mut self, mut list: SendList) {
        list.clear();
        if self.free.len() < FREE_LISTS_MAX {
            self.free.push(list);
        }
    }
}

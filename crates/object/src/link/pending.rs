//! The requests of this node: those that wait for credits, and those that the owner has.
//!
//! Invariants: a slot is used again only when its request is answered; serials rise; a request leaves by one of the methods that give it back,
//! so it is answered once.
//! Never: writes messages.

use super::request::ForwardRequest;
use base::hooks::{self, SeededFault};
use format::peer::{RequestId, SEGMENTS_MAX};
use std::collections::VecDeque;

/// A request that the owner has.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: RequestId,
    pub(super) request: ForwardRequest,
    /// Bytes of the data of its answer, when it is done.
    pub(super) answer_bytes: [u32; SEGMENTS_MAX],
    cancelled: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pending {
    slots: Vec<Option<Sent>>,
    free: Vec<u16>,
    serial: u64,
    waiting: VecDeque<ForwardRequest>,
}

/// What is to be done to cancel a request.
pub(super) enum Cancelling {
    /// There is no such request, or it is being cancelled.
    Nothing,
    /// It never left.
    Unsent(Box<ForwardRequest>),
    /// The owner has it, under this number.
    Sent(RequestId),
}

impl Pending {
    /// For an owner that takes so many requests at a time.
    pub(super) fn new(ops: u32) -> Pending {
        let slots = u16::try_from(ops).expect("a window has at most as many requests as slots have numbers");
        let mut table = Vec::new();
        table.resize_with(slots.into(), || None);
        Pending { slots: table, free: (0..slots).rev().collect(), serial: 0, waiting: VecDeque::new() }
    }
    /// Nothing waits and the owner has nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.free.len() == self.slots.len()
    }
    pub(super) fn waiting(&mut self) -> &mut VecDeque<ForwardRequest> {
        &mut self.waiting
    }
    /// Whether another request may be at the owner.
    pub(super) fn has_slot(&self) -> bool {
        !self.free.is_empty()
    }
    /// The number of the next request, and a slot for it. [`Pending::sent`] fills it.
    pub(super) fn next_id(&mut self) -> RequestId {
        self.serial += 1;
        RequestId::new(self.serial, self.free.pop().expect("asked before"))
    }
    /// The owner gets it.
    pub(super) fn sent(&mut self, id: RequestId, request: ForwardRequest, answer_bytes: [u32; SEGMENTS_MAX]) {
        let slot = &mut self.slots[usize::from(id.slot())];
        assert!(slot.is_none(), "a slot has one request");
        *slot = Some(Sent { id, request, answer_bytes, cancelled: false });
    }
    /// The request with this number, if the owner has it.
    pub(super) fn get(&self, id: RequestId) -> Option<&Sent> {
        if hooks::seeded(SeededFault::AnswerToWrongRequest) {
            return self.slots.iter().flatten().min_by_key(|sent| sent.id.serial());
        }
        self.slots.get(usize::from(id.slot()))?.as_ref().filter(|sent| sent.id == id)
    }
    /// The owner has answered it.
    pub(super) fn take(&mut self, id: RequestId) -> Option<Sent> {
        let id = self.get(id)?.id;
        let sent = self.slots[usize::from(id.slot())].take();
        self.free.push(id.slot());
        sent
    }
    /// A request is to be cancelled.
    pub(super) fn cancel(&mut self, token: u64) -> Cancelling {
        if let Some(at) = self.waiting.iter().position(|request| request.token == token) {
            return Cancelling::Unsent(Box::new(self.waiting.remove(at).expect("found above")));
        }
        let Some(sent) = self.slots.iter_mut().flatten().find(|sent| sent.request.token == token && !sent.cancelled) else {
            return Cancelling::Nothing;
        };
        sent.cancelled = true;
        Cancelling::Sent(sent.id)
    }
    /// Takes out what the owner has, in the order in which it was sent.
    pub(super) fn drain_sent(&mut self) -> Vec<ForwardRequest> {
        let mut sent: Vec<Sent> = self.slots.iter_mut().filter_map(Option::take).collect();
        sent.sort_unstable_by_key(|sent| sent.id.serial());
        self.free = (0..self.slots.len() as u16).rev().collect();
        sent.into_iter().map(|sent| sent.request).collect()
    }
}

//! Simulated Unix sockets and events: what there is of them.
//!
//! Owns: listeners, both ends of each connection, the counts of events and who has them open.
//! Never: lets anything happen (that is `unix_io`).

use super::place::Place;
use crate::{Buf, Descriptor, NetError, Queue, SendList};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    path::PathBuf,
};

pub(super) struct UnixListener {
    pub(super) place: Place,
    pub(super) q: Queue,
    pub(super) cookie: u64,
    pub(super) path: PathBuf,
}

pub(super) struct UnixRecv {
    pub(super) q: Queue,
    pub(super) cookie: u64,
    pub(super) at: Range<usize>,
    pub(super) buf: Buf,
}

/// The bytes of one send that were not received yet, and the descriptors that go with the first.
pub(super) struct Message {
    pub(super) bytes: VecDeque<u8>,
    pub(super) descriptors: Vec<Descriptor>,
}

/// One end of a connection.
pub(super) struct UnixEnd {
    pub(super) place: Place,
    pub(super) peer: u64,
    pub(super) unread: VecDeque<Message>,
    /// Nothing more comes: 0 after the last byte, or an error.
    pub(super) ended: Option<Result<(), NetError>>,
    pub(super) recv: Option<UnixRecv>,
    /// When what was sent last arrives: nothing arrives before it.
    pub(super) last_arrival: u64,
}

/// An event that a core has open.
pub(super) struct OpenEvent {
    pub(super) place: Place,
    pub(super) event: u64,
    pub(super) wait: Option<(Queue, u64)>,
}

/// What is on its way.
pub(crate) enum UnixEvent {
    Connect {
        from: Place,
        q: Queue,
        cookie: u64,
        path: PathBuf,
    },
    /// A send arrives; its sender learns so.
    Data {
        from: u64,
        to: u64,
        place: Place,
        q: Queue,
        cookie: u64,
        list: SendList,
        descriptors: Vec<Descriptor>,
    },
    /// The peer has closed; `lost`: without having read everything.
    End {
        to: u64,
        lost: bool,
    },
}

#[derive(Default)]
pub(crate) struct Unix {
    pub(super) listeners: BTreeMap<u64, UnixListener>,
    pub(super) ends: BTreeMap<u64, UnixEnd>,
    /// How often each event was signalled and not reported.
    pub(super) counts: BTreeMap<u64, u64>,
    pub(super) opened: BTreeMap<u64, OpenEvent>,
}

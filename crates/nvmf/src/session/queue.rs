//! A queue: what a connection is once its Connect command was accepted.
//!
//! Owns: which queue of which controller it is, the identifiers in use, the namespaces that an I/O queue sees.
//! Invariant: the namespaces are those of the view that the queue was refreshed with last.
//! Never: knows of commands.

use super::phase::Link;
use crate::health::Ledger;
use crate::limits::{ADMIN_HELD_MAX, DATA_HELD_MAX, UNAUTHENTICATED_HELD_MAX};
use crate::shared::ControllerShared;
use crate::view::{Namespace, View};
use base::HostId;
use base::hooks::{self, SeededFault};
use format::nvme::{Status, StatusCode};
use frontend::HostPlace;
use std::sync::Arc;

/// What the queue is.
pub enum QueueKind {
    /// The admin queue of a controller.
    Admin(Arc<ControllerShared>),
    /// An I/O queue of a controller.
    Io(IoQueue),
}

/// An I/O queue.
pub struct IoQueue {
    controller: Arc<ControllerShared>,
    qid: u16,
    ledger: Ledger,
    /// With which host its commands are counted, since it has begun.
    host: Option<HostPlace>,
    /// Sorted by ID.
    namespaces: Vec<Namespace>,
    /// Generation of the view that they are from.
    namespaces_of: u64,
    /// Where the namespace is that was looked up last.
    last: usize,
    /// Some of them have limits.
    limits: bool,
}

/// A connection that is a queue.
pub(super) struct Queue {
    pub(super) link: Link,
    pub(super) kind: QueueKind,
    cids: Box<[u64; 1024]>,
    /// Only authentication commands run: the host has not proved yet who it is.
    locked: bool,
    /// A Disconnect command that is answered after all others.
    pub(super) leaving: Option<u16>,
}

impl QueueKind {
    /// I/O queue `qid` of a controller.
    pub fn io(controller: Arc<ControllerShared>, qid: u16) -> Self {
        let ledger = Ledger::open(&controller.figures);
        QueueKind::Io(IoQueue {
            controller,
            qid,
            ledger,
            host: None,
            namespaces: Vec::new(),
            namespaces_of: u64::MAX,
            last: 0,
            limits: false,
        })
    }
    /// With which host its commands are counted, of an I/O queue.
    pub(crate) fn count_with(&mut self, place: HostPlace) {
        if let QueueKind::Io(queue) = self {
            queue.host = Some(place);
        }
    }
    /// See [`QueueKind::count_with`].
    #[inline]
    pub(crate) fn counted_with(&self) -> Option<HostPlace> {
        match self {
            QueueKind::Admin(_) => None,
            QueueKind::Io(queue) => queue.host,
        }
    }
    /// The controller that the queue belongs to.
    #[inline]
    pub fn controller(&self) -> &Arc<ControllerShared> {
        match self {
            QueueKind::Admin(c) => c,
            QueueKind::Io(queue) => &queue.controller,
        }
    }
    /// The queue's ID, 0 of an admin queue.
    pub fn qid(&self) -> u16 {
        match self {
            QueueKind::Admin(_) => 0,
            QueueKind::Io(queue) => queue.qid,
        }
    }
    /// It, when it is an I/O queue.
    #[inline]
    pub(super) fn as_io(&self) -> Option<&IoQueue> {
        match self {
            QueueKind::Io(queue) => Some(queue),
            QueueKind::Admin(_) => None,
        }
    }
    /// See [`QueueKind::as_io`].
    #[inline]
    pub(super) fn as_io_mut(&mut self) -> Option<&mut IoQueue> {
        match self {
            QueueKind::Io(queue) => Some(queue),
            QueueKind::Admin(_) => None,
        }
    }
}

impl Queue {
    pub(super) fn new(link: Link, kind: QueueKind) -> Self {
        Queue { link, kind, cids: Box::new([0; 1024]), locked: false, leaving: None }
    }
    /// Whether only authentication commands run.
    #[inline]
    pub(super) fn is_locked(&self) -> bool {
        self.locked
    }
    /// See [`Queue::is_locked`].
    pub(super) fn set_locked(&mut self, locked: bool) {
        self.locked = locked;
    }
    /// Bytes of data that its commands may hold, beside one command.
    pub(super) fn held_max(&self) -> u32 {
        match self.kind {
            _ if self.locked => UNAUTHENTICATED_HELD_MAX,
            QueueKind::Io(_) => hooks::tiny(DATA_HELD_MAX, 64 << 10),
            QueueKind::Admin(_) => ADMIN_HELD_MAX,
        }
    }
    /// A command with this identifier has come. Whether another one with it is under way.
    #[inline]
    pub(super) fn claim_cid(&mut self, cid: u16) -> bool {
        let (word, bit) = (&mut self.cids[usize::from(cid >> 6)], 1u64 << (cid & 63));
        let in_use = *word & bit != 0;
        *word |= bit;
        in_use
    }
    /// No command with this identifier is under way any more.
    #[inline]
    pub(super) fn free_cid(&mut self, cid: u16) {
        self.cids[usize::from(cid >> 6)] &= !(1u64 << (cid & 63));
    }
}

impl IoQueue {
    /// The controller that the queue belongs to.
    #[inline]
    pub fn controller(&self) -> &Arc<ControllerShared> {
        &self.controller
    }
    /// The queue's ID.
    pub fn qid(&self) -> u16 {
        self.qid
    }
    /// What it has served.
    #[inline]
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }
    /// Data of a new view is used from the next command on.
    #[inline]
    pub(super) fn refresh(&mut self, view: &View) {
        if self.namespaces_of == view.generation || hooks::seeded(SeededFault::RightsKept) && !self.namespaces.is_empty() {
            return;
        }
        self.load(view);
    }
    #[cold]
    fn load(&mut self, view: &View) {
        self.namespaces_of = view.generation;
        self.last = 0;
        let kept = if hooks::seeded(SeededFault::AnaStatesKept) { self.namespaces.clone() } else { Vec::new() };
        if !hooks::seeded(SeededFault::DetachedKept) {
            self.namespaces.clear();
        }
        let c = &self.controller;
        let Some(s) = view.subsystem(&c.subsystem) else { return };
        let before = core::mem::replace(&mut self.namespaces, view.namespaces(s, &c.host_nqn));
        if hooks::seeded(SeededFault::DetachedKept) {
            let seen: Vec<u32> = self.namespaces.iter().map(|ns| ns.nsid).collect();
            self.namespaces.extend(before.into_iter().filter(|ns| !seen.contains(&ns.nsid)));
            self.namespaces.sort_by_key(|ns| ns.nsid);
        }
        for old in kept {
            self.namespaces.iter_mut().filter(|ns| ns.nsid == old.nsid).for_each(|ns| ns.ana = old.ana);
        }
        let host = HostId::from_bytes(c.host_id);
        self.namespaces.iter_mut().for_each(|ns| ns.access = view.access(ns.volume, host));
        self.limits = self.namespaces.iter().any(|ns| view.is_limited(ns.volume));
        debug_assert!(self.namespaces.is_sorted_by_key(|ns| ns.nsid));
    }
    /// Whether some of its namespaces have limits.
    #[inline]
    pub(super) fn has_limits(&self) -> bool {
        self.limits
    }
    /// All namespaces that it sees.
    pub(super) fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }
    /// The namespace with this ID.
    #[inline]
    pub(super) fn namespace(&mut self, nsid: u32) -> Result<Namespace, Status> {
        if let Some(ns) = self.namespaces.get(self.last).filter(|ns| ns.nsid == nsid) {
            return Ok(*ns);
        }
        match self.namespaces.binary_search_by_key(&nsid, |ns| ns.nsid) {
            Ok(at) => {
                self.last = at;
                Ok(self.namespaces[at])
            }
            // An inactive NSID is not an invalid one (base 2.0, 3.2.1.1).
            Err(_) => Err(StatusCode::INVALID_FIELD.into()),
        }
    }
}

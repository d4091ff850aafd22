//! The request that a thread carries out: by it the engine's transactions know who they are for.
//!
//! ```text
//!  request with a nonce ─► first transaction that decides something: creates the nonce's record, so it happens once
//!                          every transaction: only while this node leads, if it decides as the leader
//! ```
//!
//! Owns: [`Request`], and which one this thread carries out.
//! Invariants: of all who carry out a request one decides it; what devices have done is written whoever leads.
//! Never: outlives the call that it was given to.

use super::*;
use base::hooks::{self, SeededFault};
use std::cell::RefCell;
use std::sync::atomic::AtomicU64;

/// A request that is carried out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// By which it is recognised.
    pub(crate) nonce: Option<Nonce>,
    /// It is decided as the leader whose record was written at this revision; `None`: whoever leads.
    pub(crate) leading: Option<Revision>,
    /// Another node asks for what only this one knows.
    pub(crate) here: bool,
    /// It only reads: what may be old will do, when it says how old that is, in milliseconds and 1 more. 0: as it is now.
    pub(crate) old: Option<Arc<AtomicU64>>,
    /// A transaction of it has happened.
    decided: Arc<AtomicBool>,
}

thread_local! {
    static CURRENT: RefCell<Option<Request>> = const { RefCell::new(None) };
}

impl Request {
    /// One with this nonce.
    pub(crate) fn new(nonce: Option<Nonce>, leading: Option<Revision>) -> Self {
        Self { nonce, leading, ..Self::default() }
    }
    /// One that reads what only this node knows.
    pub(crate) fn here() -> Self {
        Self { here: true, ..Self::default() }
    }

    /// One that only reads.
    pub(crate) fn reading() -> (Self, Arc<AtomicU64>) {
        let old = Arc::new(AtomicU64::new(0));
        (Self { old: Some(old.clone()), ..Self::default() }, old)
    }

    /// One that only reads what was last seen.
    pub(crate) fn last_seen() -> Self {
        Self { old: Some(Arc::new(AtomicU64::new(1))), ..Self::default() }
    }

    /// Whether who carries it out has decided it.
    pub(crate) fn is_decided(&self) -> bool {
        self.decided.load(Relaxed)
    }

    /// Does something on this thread for a request.
    pub(crate) fn carry<T>(self, work: impl FnOnce() -> T) -> T {
        within(Some(self), work)
    }
}

/// Puts things back, also after a panic.
struct Before(Option<Request>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn within<T>(request: Option<Request>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(request));
    work()
}

/// Does something that belongs to no request: what the devices of this node have done, say.
pub(super) fn outside<T>(work: impl FnOnce() -> T) -> T {
    let was = CURRENT.with_borrow(|r| r.as_ref().is_some_and(|r| r.here));
    within(was.then(Request::here), work)
}

/// Does the first part of something that may be done again from its beginning: the request is not decided by it.
pub(super) fn undecided<T>(work: impl FnOnce() -> T) -> T {
    let request = CURRENT.with_borrow(|r| r.as_ref().map(|r| Request { nonce: None, decided: Arc::default(), ..r.clone() }));
    within(request, work)
}

/// Whether what may be old will do.
pub(super) fn may_be_old() -> bool {
    CURRENT.with_borrow(|r| r.as_ref().is_some_and(|r| r.old.is_some()))
}

/// What was read was as old as that.
pub(super) fn is_old(age: Duration) {
    CURRENT.with_borrow(|r| {
        if let Some(old) = r.as_ref().and_then(|r| r.old.as_ref()) {
            old.fetch_max(age.as_millis() as u64 + 1, Relaxed);
        }
    });
}

/// How old what this request has read is, in milliseconds; `None`: as it is now.
pub(super) fn age() -> Option<u64> {
    let old = CURRENT.with_borrow(|r| r.as_ref().and_then(|r| r.old.as_ref().map(|old| old.load(Relaxed))));
    old.and_then(|old| old.checked_sub(1))
}

/// Whether another node asks for what only this one knows.
pub(super) fn is_here() -> bool {
    CURRENT.with_borrow(|r| r.as_ref().is_some_and(|r| r.here))
}

/// The nonce of the request that this thread carries out.
pub(super) fn nonce() -> Option<Nonce> {
    CURRENT.with_borrow(|r| r.as_ref().and_then(|r| r.nonce))
}

/// A transaction as the request of this thread has it.
pub(super) fn bound(mut transaction: Transaction, node: &str) -> Transaction {
    CURRENT.with_borrow(|request| {
        let Some(request) = request else { return transaction };
        if let Some(since) = request.leading.filter(|_| !hooks::seeded(SeededFault::LeaderUnfenced)) {
            transaction = transaction.while_leading(since);
        }
        if let Some(nonce) = request.nonce.filter(|_| !request.is_decided() && !hooks::seeded(SeededFault::RequestDecidedAgain)) {
            let nonce = crate::cluster_client::nonce_text(nonce);
            transaction = transaction.create(&RequestRecord { nonce, node: node.to_owned(), decided_unix_s: now_unix_s() });
        }
        transaction
    })
}

/// A transaction of it has happened: it is decided.
pub(super) fn decided() {
    CURRENT.with_borrow(|r| {
        if let Some(request) = r {
            request.decided.store(true, Relaxed);
        }
    });
}

//! A transaction as a request of etcd, and what its answer says.
//!
//! Invariants: a transaction that changes something writes the head; it happens only under the writer's fence; what comes back is said for each
//! expectation, or not believed. With all that is added it fits into what an etcd takes by default.

use super::layout::{Layout, revision, signed};
use crate::{Action, Change, DirectoryError, Expect, Key, Revision, TRANSACTION_CHANGES_MAX, Transaction};
use ::etcd::message::{
    Compare, CompareTarget, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, Request, RequestOp, Response, Target,
    TxnRequest, TxnResponse,
};

/// Operations that a transaction has beside its changes: the nonce, and the head or the fence.
const OPERATIONS_OWN: usize = 2;
const _: () = assert!(TRANSACTION_CHANGES_MAX + OPERATIONS_OWN <= ::etcd::TXN_OPERATIONS_MAX);

/// What became of a transaction that was answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// It has happened now.
    Done,
    /// It had happened before.
    Before(Revision),
    /// It has not: the first expectation that does not hold.
    Conflict(Key),
    /// It has not: the fence is another than it was sent with.
    Fenced(Option<KeyValue>),
}

pub(super) fn is_at(key: Vec<u8>, mod_revision: i64) -> Compare {
    // A key that is not there compares as if it had been written at 0.
    Compare { result: 0, target: CompareTarget::Mod.into(), key, with: Some(Target::ModRevision(mod_revision)) }
}
pub(super) fn get(key: Vec<u8>) -> RequestOp {
    Request::Range(RangeRequest { key, ..RangeRequest::default() }).into()
}
pub(super) fn look(key: Vec<u8>) -> RequestOp {
    Request::Range(RangeRequest { key, keys_only: true, ..RangeRequest::default() }).into()
}
pub(super) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> RequestOp {
    Request::Put(PutRequest { key, value, lease }).into()
}

/// The fence that a transaction goes under.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    pub key: Vec<u8>,
    pub revision: i64,
}

/// A transaction that is written to etcd. `stamp` goes into the head.
pub(super) fn encode(layout: &Layout, transaction: &Transaction, fence: &Fence, stamp: &[u8]) -> TxnRequest {
    let mut request = TxnRequest { compare: vec![is_at(fence.key.clone(), fence.revision)], success: Vec::new(), failure: Vec::new() };
    request.failure.push(get(fence.key.clone()));
    request.success.push(put(layout.head.clone(), stamp.to_vec(), 0));
    if let Some(nonce) = transaction.nonce.map(|n| layout.nonce(n)) {
        request.compare.push(is_at(nonce.clone(), 0));
        request.success.push(put(nonce.clone(), Vec::new(), 0));
        request.failure.push(look(nonce));
    }
    for Change { key, expect, action } in &transaction.changes {
        let name = layout.record(key);
        request.compare.push(is_at(name.clone(), expected(*expect)));
        request.failure.push(look(name.clone()));
        match action {
            Action::Put(value) => request.success.push(put(name, value.clone(), 0)),
            Action::Bind(value, session) => request.success.push(put(name, value.clone(), lease_of(*session))),
            Action::Delete if *expect != Expect::Absent => {
                request.success.push(Request::DeleteRange(DeleteRangeRequest { key: name, range_end: Vec::new() }).into());
            }
            Action::Delete | Action::Check => {}
        }
    }
    request
}

/// A transaction that only looks.
pub(super) fn encode_look(layout: &Layout, transaction: &Transaction) -> TxnRequest {
    let keys = || transaction.changes.iter().map(|c| (c, layout.record(&c.key)));
    TxnRequest {
        compare: keys().map(|(c, name)| is_at(name, expected(c.expect))).collect(),
        success: Vec::new(),
        failure: keys().map(|(_, name)| look(name)).collect(),
    }
}

fn expected(expect: Expect) -> i64 {
    match expect {
        Expect::Absent => 0,
        Expect::At(at) => signed(at),
    }
}
pub(super) fn lease_of(session: crate::SessionId) -> i64 {
    i64::try_from(session.0).unwrap_or(-1)
}

/// What an answer to [`encode`] says.
pub(super) fn decode(transaction: &Transaction, fence: &Fence, answer: TxnResponse) -> Result<Decided, DirectoryError> {
    if answer.succeeded {
        return Ok(Decided::Done);
    }
    let mut found = ranges(answer);
    let fence_found = found.next().and_then(|r| r.kvs.into_iter().next());
    if transaction.nonce.is_some()
        && let Some(kv) = found.next().and_then(|r| r.kvs.into_iter().next())
    {
        return Ok(Decided::Before(revision(kv.mod_revision)));
    }
    if fence_found.as_ref().is_none_or(|kv| kv.mod_revision != fence.revision) {
        return Ok(Decided::Fenced(fence_found));
    }
    conflict(transaction, found).map(Decided::Conflict)
}

/// What an answer to [`encode_look`] says: whether everything is as expected.
pub(super) fn decode_look(transaction: &Transaction, answer: TxnResponse) -> Result<(), DirectoryError> {
    if answer.succeeded {
        return Ok(());
    }
    Err(DirectoryError::Conflict { key: conflict(transaction, ranges(answer))? })
}

fn conflict(transaction: &Transaction, mut found: impl Iterator<Item = RangeResponse>) -> Result<Key, DirectoryError> {
    for change in &transaction.changes {
        let at = found.next().ok_or_else(|| unreadable("an answer is cut short"))?.kvs.first().map(|kv| revision(kv.mod_revision));
        if !change.expect.holds(at) {
            return Ok(change.key.clone());
        }
    }
    Err(unreadable("a transaction was refused though everything is as expected"))
}

pub(super) fn ranges(answer: TxnResponse) -> impl Iterator<Item = RangeResponse> {
    answer.responses.into_iter().map(|op| match op.response {
        Some(Response::Range(range)) => range,
        _ => RangeResponse::default(),
    })
}

pub(super) fn unreadable(what: &str) -> DirectoryError {
    DirectoryError::Refused { cause: format!("etcd's answer makes no sense: {what}") }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

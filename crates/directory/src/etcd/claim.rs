//! Making a cluster's directory in an etcd that others use too: nobody else's is taken for a new one, and nothing half done stays.
//!
//! ```text
//!            claim                      the directory is made, and kept
//!  nothing ─────────► claimed, by us ───────────────────────────────────► settled: the claim goes
//!      ▲                 │ failed, or found by the next attempt
//!      └──── given up ◄──┘
//! ```
//!
//! Owns: [`Claim`] and its key. Invariants: a cluster is claimed only where there is nothing of it; what is removed is what was written under the
//! same claim, in the transaction that compares it.
//! Never: touches another cluster's keys.

use super::core::{Core, Until};
use super::request::{get, is_at, put, ranges};
use super::{CALL_MAX, wait_for};
use crate::DirectoryError;
use ::etcd::message::{Compare, CompareTarget, DeleteRangeRequest, RangeRequest, Request, RequestOp, Target, TxnRequest};
use ::etcd::{Client, prefix_end};
use base::ClusterId;
use std::sync::Arc;

/// The right to make the directory of a cluster.
pub struct Claim {
    core: Arc<Core>,
    attempt: [u8; 16],
    runtime: Option<tokio::runtime::Runtime>,
}

impl Claim {
    /// `attempt`: of this attempt, kept by the caller from before it is taken until it is settled or given up.
    pub fn new(client: Client, cluster: ClusterId, attempt: [u8; 16]) -> Result<Self, DirectoryError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("etcd").enable_all().build();
        let runtime = runtime.map_err(|e| DirectoryError::Refused { cause: format!("no thread for etcd's client: {e}") })?;
        Ok(Self { core: Arc::new(Core::new(client, cluster, None)), attempt, runtime: Some(runtime) })
    }

    /// Claims the cluster; what this attempt has left earlier is removed. [`DirectoryError::Occupied`]: the etcd holds that cluster already.
    pub fn take(&self) -> Result<(), DirectoryError> {
        self.give_up()?;
        let (core, attempt) = (self.core.clone(), self.attempt);
        self.wait_for(async move { core.claim(attempt, Until::now() + CALL_MAX).await })
    }

    /// Removes all that was written under the claim, and the claim. There may be none.
    pub fn give_up(&self) -> Result<(), DirectoryError> {
        let (core, attempt) = (self.core.clone(), self.attempt);
        let layout = &self.core.layout;
        let success = vec![remove(layout.root(), true), remove(layout.marker.clone(), false)];
        let request = TxnRequest { compare: vec![is(layout.claim(), attempt)], success, failure: Vec::new() };
        self.wait_for(async move { core.done(&request, Until::now() + CALL_MAX).await.map(drop) })
    }

    fn wait_for<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, DirectoryError>> + Send + 'static,
    ) -> Result<T, DirectoryError> {
        wait_for(self.runtime.as_ref().expect("it lives as long as this"), call)
    }

    /// The directory is made and kept: the claim goes, and the directory stays.
    pub fn settle(&self) -> Result<(), DirectoryError> {
        let (core, claim) = (self.core.clone(), self.core.layout.claim());
        let request =
            TxnRequest { compare: vec![is(claim.clone(), self.attempt)], success: vec![remove(claim, false)], failure: Vec::new() };
        self.wait_for(async move { core.done(&request, Until::now() + CALL_MAX).await.map(drop) })
    }
}

/// Whether an etcd holds a cluster's directory. [`DirectoryError::Foreign`]: it does not.
pub fn holds(client: Client, cluster: ClusterId) -> Result<(), DirectoryError> {
    let claim = Claim::new(client, cluster, [0; 16])?;
    let core = claim.core.clone();
    claim.wait_for(async move { core.check_marker(Until::now() + CALL_MAX).await })
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Whoever drops it may be of another runtime, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn is(key: Vec<u8>, value: [u8; 16]) -> Compare {
    Compare { result: 0, target: CompareTarget::Value.into(), key, with: Some(Target::Value(value.to_vec())) }
}

fn remove(key: Vec<u8>, all: bool) -> RequestOp {
    let range_end = if all { prefix_end(&key) } else { Vec::new() };
    Request::DeleteRange(DeleteRangeRequest { key, range_end }).into()
}

impl Core {
    /// A transaction that may be made again. Whether its comparisons held.
    async fn done(&self, request: &TxnRequest, until: Until) -> Result<bool, DirectoryError> {
        let answer = self.client.read(request, until).await.map_err(|e| self.error_of_read(e))?;
        self.is_the_same(answer.header.as_ref())?;
        Ok(answer.succeeded)
    }

    async fn claim(&self, attempt: [u8; 16], until: Until) -> Result<(), DirectoryError> {
        let root = self.layout.root();
        let all = RangeRequest { range_end: prefix_end(&root), key: root, keys_only: true, limit: 1, ..RangeRequest::default() };
        let there = self.client.range(&all, until).await.map_err(|e| self.error_of_read(e))?;
        let key = self.layout.claim();
        let request = TxnRequest {
            compare: vec![is_at(self.layout.marker.clone(), 0), is_at(key.clone(), 0)],
            success: vec![put(key.clone(), attempt.to_vec(), 0)],
            failure: vec![get(key)],
        };
        let occupied = || Err(DirectoryError::Occupied { cluster: self.cluster });
        if !there.kvs.is_empty() {
            return occupied();
        }
        let answer = self.client.read(&request, until).await.map_err(|e| self.error_of_read(e))?;
        self.is_the_same(answer.header.as_ref())?;
        // A lost answer was tried again: then the claim is there, and ours.
        let mine = |answer| ranges(answer).next().and_then(|r| r.kvs.into_iter().next()).is_some_and(|kv| kv.value == attempt);
        if answer.succeeded || mine(answer) { Ok(()) } else { occupied() }
    }
}

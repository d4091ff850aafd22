//! The directory of several nodes: in etcd (docs/etcd.md).
//!
//! Owns: [`EtcdDirectory`] and its runtime; the layout of keys, transactions as requests, the fence of a writer, nonces, sessions as leases, the
//! watch that is followed.
//! Invariants: each change but the end of a session is a transaction that writes the head and its nonce, under the writer's fence; whatever
//! revision is handed out, watches reach it; an answer of another etcd, or of an older one, is never used.
//! Never: blocks the data plane; takes a lost answer, or a full store, for a failure; lets what was given up happen later.

mod claim;
mod core;
mod follow;
mod layout;
mod read;
mod request;
mod writer;

pub use self::core::{CALL_MAX, SNAPSHOT_MAX, Seen};
pub use claim::{Claim, holds};
pub use writer::Incarnation;

use self::core::{Core, Until};
use self::follow::{Followed, Reader};
use self::layout::{LAYOUT, Layout, MARKERS, revision};
use self::request::{Decided, decode, decode_look, encode, encode_look, is_at, lease_of, put};
use self::writer::Writer;
use crate::transaction::check_ttl;
use crate::{
    Action, Directory, DirectoryError, Entry, Key, Kind, NONCES_MIN, Nonce, Revision, SESSION_KEYS_MAX, SessionId, Snapshot, TooLarge,
    Transaction, Watch,
};
use ::etcd::message::{
    CompactionRequest, DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseTimeToLiveRequest, RangeRequest, Request, SortOrder,
    SortTarget, TxnRequest,
};
use ::etcd::{Client, Endpoint, EtcdError, Refusal, TXN_OPERATIONS_MAX, prefix_end};
use base::ClusterId;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};
use tokio::sync::watch;

/// A transaction is sent anew when its fence was written meanwhile, at most that often.
const FENCED_MAX: u32 = 8;
/// A writer looks at all nonces after it has added that many.
const NONCES_TRIM_EVERY: usize = 256;
/// Threads of the runtime.
const THREADS: usize = 2;
/// Clusters that an error names, at most.
const FOREIGN_MAX: i64 = 8;

/// Who opens the directory, and what it has seen of it.
#[derive(Clone, Debug)]
pub struct Open {
    /// The cluster whose directory it is.
    pub cluster: ClusterId,
    /// This node's name as a writer: two daemons must not have the same.
    pub writer: String,
    /// Of this start of the daemon.
    pub incarnation: Incarnation,
    /// What was seen before the daemon was started. `None`: it does not matter which etcd this is.
    pub seen: Option<Seen>,
}

struct Inner {
    core: Arc<Core>,
    writer: Writer,
    followed: Arc<Followed>,
    /// For the heads of transactions without a nonce.
    stamps: AtomicU64,
    incarnation: Incarnation,
    nonces_added: AtomicUsize,
    trimming: AtomicBool,
    /// From when on nothing is waited for.
    ends: watch::Sender<Option<Until>>,
}

/// A directory in etcd.
pub struct EtcdDirectory {
    inner: Arc<Inner>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl EtcdDirectory {
    /// Makes the directory of a new cluster, and opens it. One that is there already is opened.
    pub fn create(client: Client, open: Open) -> Result<Self, DirectoryError> {
        Self::begin(client, open, true)
    }
    /// Opens the directory of a cluster. [`DirectoryError::Foreign`]: the etcd does not hold it.
    pub fn open(client: Client, open: Open) -> Result<Self, DirectoryError> {
        Self::begin(client, open, false)
    }

    fn begin(client: Client, open: Open, make: bool) -> Result<Self, DirectoryError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).thread_name("etcd").enable_all().build();
        let runtime = runtime.map_err(|e| DirectoryError::Refused { cause: format!("no thread for etcd's client: {e}") })?;
        let core = Arc::new(Core::new(client, open.cluster, open.seen));
        let writer = Writer::new(open.writer.clone(), core.layout.writer(&open.writer), open.incarnation);
        let begun = wait_for(&runtime, async move {
            let until = Until::now() + CALL_MAX;
            if make {
                core.make_marker(until).await?;
            }
            core.check_marker(until).await?;
            writer.take_over(&core, until).await?;
            let followed = Followed::begin(core.clone(), Until::now() + SNAPSHOT_MAX).await?;
            Ok((core, writer, followed))
        });
        let (core, writer, followed) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        runtime.spawn(followed.clone().run());
        let inner = Inner {
            core,
            writer,
            followed,
            stamps: AtomicU64::new(0),
            incarnation: open.incarnation,
            nonces_added: AtomicUsize::new(0),
            trimming: AtomicBool::new(false),
            ends: watch::Sender::new(None),
        };
        Ok(Self { inner: Arc::new(inner), runtime: Some(runtime) })
    }

    /// What was seen of the etcd: to be kept over a restart.
    pub fn seen(&self) -> Seen {
        self.inner.core.seen()
    }
    /// What keeps it from being reached, in words, if something did last.
    pub fn trouble(&self) -> Option<String> {
        self.inner.core.trouble()
    }
    /// Members have come, gone or moved.
    pub fn set_endpoints(&self, endpoints: Vec<Endpoint>) -> Result<(), DirectoryError> {
        self.inner.core.client.set_endpoints(endpoints).map_err(|e| self.inner.core.error_of_read(e))
    }
    /// The client, for what concerns etcd itself.
    pub fn client(&self) -> &Client {
        &self.inner.core.client
    }
    /// Forgets the history up to now, etcd's too: a watch from before must begin anew.
    pub fn compact(&self) -> Result<(), DirectoryError> {
        self.call(CALL_MAX, |inner, until| async move { inner.compact(until).await })
    }

    /// The daemon ends: calls are given up after `left`, also those that wait now, and then all are at once.
    pub fn end_within(&self, left: Duration) {
        self.inner.ends.send_replace(Some(Until::now() + left));
    }

    /// Runs a call that changes nothing on the runtime, or nothing that stays, and waits for it here.
    fn call<T, F>(&self, time: Duration, call: impl FnOnce(Arc<Inner>, Until) -> F) -> Result<T, DirectoryError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DirectoryError>> + Send + 'static,
    {
        self.call_or(time, DirectoryError::Unavailable, call)
    }

    /// The same with any call. `given_up`: what it means that it began, and was not waited for.
    fn call_or<T, F>(
        &self,
        time: Duration,
        given_up: DirectoryError,
        call: impl FnOnce(Arc<Inner>, Until) -> F,
    ) -> Result<T, DirectoryError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DirectoryError>> + Send + 'static,
    {
        self.inner.followed.usable()?;
        if self.inner.ends.borrow().is_some_and(|at| at <= Until::now()) {
            return Err(DirectoryError::Unavailable);
        }
        let ends = self.inner.ends.subscribe();
        let call = call(self.inner.clone(), Until::now() + time);
        let runtime = self.runtime.as_ref().expect("it lives as long as this");
        let in_time = async move {
            tokio::select! {
                answer = call => answer,
                () = over(ends) => Err(given_up),
            }
        };
        wait_for(runtime, in_time).map_err(|error| self.inner.followed.take_note(error))
    }
}

/// Waits until nothing is waited for.
async fn over(mut ends: watch::Receiver<Option<Until>>) {
    let at = ends.wait_for(Option::is_some).await.ok().and_then(|at| *at);
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Not `block_on`: the caller's thread may be one of another runtime.
fn wait_for<T: Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    call: impl Future<Output = Result<T, DirectoryError>> + Send + 'static,
) -> Result<T, DirectoryError> {
    let (done, result) = mpsc::sync_channel(1);
    runtime.spawn(async move { drop(done.send(call.await)) });
    // Nothing comes when the call has panicked: what it did is not known.
    result.recv().unwrap_or_else(|_| Err(DirectoryError::Unknown { cause: "a call of etcd's client has ended".into() }))
}

impl Drop for EtcdDirectory {
    fn drop(&mut self) {
        self.inner.followed.close();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Core {
    async fn make_marker(&self, until: Until) -> Result<(), DirectoryError> {
        let request = TxnRequest {
            compare: vec![is_at(self.layout.marker.clone(), 0)],
            success: vec![put(self.layout.marker.clone(), LAYOUT.to_vec(), 0)],
            failure: Vec::new(),
        };
        // Making it once more is harmless.
        let answer = self.client.read(&request, until).await.map_err(|e| self.error_of_read(e))?;
        self.observe(self.seen_revision(), answer.header.as_ref()).map(drop)
    }

    /// Whether the cluster is here, in a layout that this release knows.
    async fn check_marker(&self, until: Until) -> Result<(), DirectoryError> {
        let marker = RangeRequest { key: self.layout.marker.clone(), ..RangeRequest::default() };
        let before = self.seen_revision();
        let answer = self.client.range(&marker, until).await.map_err(|e| self.error_of_read(e))?;
        self.observe(before, answer.header.as_ref())?;
        match answer.kvs.first() {
            Some(kv) if kv.value == LAYOUT => return Ok(()),
            Some(kv) => {
                let cause = format!(
                    "it has layout {:?}, which is newer than this release; install the newer release again",
                    String::from_utf8_lossy(&kv.value)
                );
                return Err(DirectoryError::Refused { cause });
            }
            None => {}
        }
        let prefix = MARKERS.as_bytes();
        let all =
            RangeRequest { key: prefix.to_vec(), range_end: prefix_end(prefix), limit: FOREIGN_MAX, keys_only: true, ..Default::default() };
        let answer = self.client.range(&all, until).await.map_err(|e| self.error_of_read(e))?;
        let found = answer.kvs.iter().filter_map(|kv| Layout::parse_marker(&kv.key)).collect();
        Err(DirectoryError::Foreign { wanted: self.cluster, found })
    }

    fn entry(&self, kv: KeyValue) -> Option<Entry> {
        Some(Entry { key: self.layout.parse_record(&kv.key)?, revision: revision(kv.mod_revision), value: kv.value })
    }

    /// One key, linearizably.
    async fn get(&self, key: Vec<u8>, until: Until) -> Result<Option<KeyValue>, DirectoryError> {
        let before = self.seen_revision();
        let request = RangeRequest { key, ..RangeRequest::default() };
        let answer = self.client.range(&request, until).await.map_err(|e| self.error_of_read(e))?;
        self.observe(before, answer.header.as_ref())?;
        Ok(answer.kvs.into_iter().next())
    }
}

impl Inner {
    async fn revision(&self, until: Until) -> Result<Revision, DirectoryError> {
        let mark = self.core.mark(until).await?;
        self.followed.reach(mark, until).await
    }

    async fn snapshot(&self, until: Until) -> Result<Snapshot, DirectoryError> {
        let pages = self.core.read_all(&self.core.layout.records, until).await?;
        let head = pages.kvs.iter().find(|kv| kv.key == self.core.layout.head).map(|kv| kv.mod_revision);
        let count = pages.kvs.len() as i64 - i64::from(head.is_some());
        let mark = follow::Mark { revision: pages.revision, head: head.unwrap_or(0), count };
        let reached = self.followed.reach(mark, until).await?;
        let entries = pages.kvs.into_iter().filter_map(|kv| self.core.entry(kv)).collect();
        // Where the watch is further, or has led to just this. In between there is nothing.
        Ok(Snapshot { revision: reached.min(revision(pages.revision)), entries })
    }

    async fn compact(&self, until: Until) -> Result<(), DirectoryError> {
        let upto = self.revision(until).await?;
        let request = CompactionRequest { revision: layout::signed(upto), physical: true };
        self.core.client.compact(&request, until).await.map_err(|e| self.core.error_of_read(e))?;
        self.followed.forget(upto);
        Ok(())
    }

    async fn check_watch(&self, after: Revision, until: Until) -> Result<(), DirectoryError> {
        let first = self.followed.first();
        if after < first {
            return Err(DirectoryError::Compacted { after, first });
        }
        if after > self.followed.last() {
            let found = revision(self.core.mark(until).await?.revision);
            if after > found {
                return Err(DirectoryError::Older { seen: after, found });
            }
        }
        Ok(())
    }

    async fn commit(self: Arc<Self>, transaction: Transaction, until: Until) -> Result<Revision, DirectoryError> {
        transaction.check()?;
        if !transaction.changes_something() && transaction.nonce.is_none() {
            return self.look(&transaction, until).await;
        }
        self.check_sessions(&transaction, until).await?;
        let stamp = self.stamp(transaction.nonce);
        for _ in 0..FENCED_MAX {
            let fence = self.writer.fence(&self.core, until).await?;
            let before = self.core.seen_revision();
            let answer = match self.core.client.txn(&encode(&self.core.layout, &transaction, &fence, &stamp), until).await {
                Ok(answer) => answer,
                Err(error) => return self.failed(&transaction, error, until).await,
            };
            let observed = self.core.observe(before, answer.header.as_ref());
            match (decode(&transaction, &fence, answer)?, observed) {
                // It has happened, in an etcd that is not the one that was seen.
                (Decided::Done, Err(error)) => {
                    let cause = error.to_string();
                    self.followed.take_note(error);
                    return Err(DirectoryError::Unknown { cause });
                }
                (_, Err(error)) => return Err(error),
                (Decided::Done, Ok(at)) => {
                    self.nonce_added(transaction.nonce);
                    return Ok(revision(at));
                }
                (Decided::Before(at), Ok(_)) => return Ok(at),
                (Decided::Conflict(key), Ok(_)) => return Err(DirectoryError::Conflict { key }),
                (Decided::Fenced(found), Ok(_)) => self.writer.moved(&self.core, found)?,
            }
        }
        Err(DirectoryError::Unavailable)
    }

    /// What a transaction without an answer, or with an error for one, means.
    async fn failed(&self, transaction: &Transaction, error: EtcdError, until: Until) -> Result<Revision, DirectoryError> {
        if error == EtcdError::Refused(Refusal::LeaseNotFound) {
            return Err(DirectoryError::NoSession(self.ended_session(transaction, until).await?));
        }
        let Some(error) = self.core.error_of_change(error) else { return self.was_full(transaction, until).await };
        if matches!(error, DirectoryError::Unknown { .. }) {
            self.writer.doubt();
        }
        Err(error)
    }

    /// The quota is reached. A transaction that reaches it is carried out, and answered with the same error.
    async fn was_full(&self, transaction: &Transaction, until: Until) -> Result<Revision, DirectoryError> {
        let unknown = || DirectoryError::Unknown { cause: "etcd's store has reached its quota".into() };
        let Some(nonce) = transaction.nonce else { return Err(unknown()) };
        match self.outcome(nonce, until).await {
            Ok(Some(at)) => Ok(at),
            // The answer came after the decision, so nothing is to come.
            Ok(None) => Err(DirectoryError::Full),
            Err(_) => Err(unknown()),
        }
    }

    /// What the head is written with: never the same twice.
    fn stamp(&self, nonce: Option<Nonce>) -> Vec<u8> {
        match nonce {
            Some(nonce) => nonce.0.to_vec(),
            None => [self.incarnation.0.as_slice(), &self.stamps.fetch_add(1, SeqCst).to_be_bytes()].concat(),
        }
    }

    async fn look(&self, transaction: &Transaction, until: Until) -> Result<Revision, DirectoryError> {
        if !transaction.changes.is_empty() {
            let before = self.core.seen_revision();
            let answer = self.core.client.read(&encode_look(&self.core.layout, transaction), until).await;
            let answer = answer.map_err(|e| self.core.error_of_read(e))?;
            self.core.observe(before, answer.header.as_ref())?;
            decode_look(transaction, answer)?;
        }
        self.revision(until).await
    }

    async fn outcome(&self, nonce: Nonce, until: Until) -> Result<Option<Revision>, DirectoryError> {
        let found = self.core.get(self.core.layout.nonce(nonce), until).await?;
        Ok(found.map(|kv| revision(kv.mod_revision)))
    }

    /// Whether the sessions that keys are bound to live, and have room. Checked, and not guarded: a session is one node's.
    async fn check_sessions(&self, transaction: &Transaction, until: Until) -> Result<(), DirectoryError> {
        for session in sessions_of(transaction) {
            let request = LeaseTimeToLiveRequest { id: lease_of(session), keys: true };
            let held = match self.core.client.lease_time_to_live(&request, until).await {
                Err(EtcdError::Refused(Refusal::LeaseNotFound)) => return Err(DirectoryError::NoSession(session)),
                Err(error) => return Err(self.core.error_of_read(error)),
                Ok(answer) => answer.keys,
            };
            let mut keys: BTreeSet<Vec<u8>> = held.into_iter().collect();
            for change in &transaction.changes {
                let name = self.core.layout.record(&change.key);
                match &change.action {
                    Action::Bind(_, of) if *of == session => drop(keys.insert(name)),
                    Action::Check => {}
                    _ => drop(keys.remove(&name)),
                }
            }
            if keys.len() > SESSION_KEYS_MAX {
                return Err(DirectoryError::TooLarge(TooLarge::Session(session)));
            }
        }
        Ok(())
    }

    /// Which of a transaction's sessions has ended.
    async fn ended_session(&self, transaction: &Transaction, until: Until) -> Result<SessionId, DirectoryError> {
        let sessions = sessions_of(transaction);
        for session in &sessions {
            let request = LeaseTimeToLiveRequest { id: lease_of(*session), keys: false };
            if self.core.client.lease_time_to_live(&request, until).await == Err(EtcdError::Refused(Refusal::LeaseNotFound)) {
                return Ok(*session);
            }
        }
        sessions.first().copied().ok_or_else(|| request::unreadable("a lease is missed that was not named"))
    }

    async fn open_session(&self, ttl: Duration, until: Until) -> Result<SessionId, DirectoryError> {
        check_ttl(ttl)?;
        let ttl_s = i64::try_from(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).unwrap_or(i64::MAX);
        let granted = self.core.client.lease_grant(&LeaseGrantRequest { ttl_s, id: 0 }, until).await;
        let granted = granted.map_err(|e| self.core.error_of_read(e))?;
        self.core.is_the_same(granted.header.as_ref())?;
        u64::try_from(granted.id).ok().filter(|id| *id > 0).map(SessionId).ok_or_else(|| request::unreadable("a lease without an id"))
    }

    async fn keep_alive(&self, session: SessionId, until: Until) -> Result<(), DirectoryError> {
        match self.core.client.lease_keep_alive(lease_of(session), until).await {
            Ok(_) => Ok(()),
            Err(EtcdError::Refused(Refusal::LeaseNotFound)) => Err(DirectoryError::NoSession(session)),
            Err(error) => Err(self.core.error_of_read(error)),
        }
    }

    /// Counts nonces, and now and then looks whether there are too many.
    fn nonce_added(self: &Arc<Self>, nonce: Option<Nonce>) {
        let due = nonce.is_some() && (self.nonces_added.fetch_add(1, SeqCst) + 1).is_multiple_of(NONCES_TRIM_EVERY);
        if !due || self.trimming.swap(true, SeqCst) {
            return;
        }
        let inner = self.clone();
        tokio::spawn(async move {
            // If it fails now, the next time finds more.
            let _ = inner.trim_nonces(Until::now() + CALL_MAX).await;
            inner.trimming.store(false, SeqCst);
        });
    }

    /// Removes the oldest nonces, so that the latest [`NONCES_MIN`] stay. Several writers that do it at once remove the same ones.
    async fn trim_nonces(&self, until: Until) -> Result<(), EtcdError> {
        let prefix = &self.core.layout.nonces;
        let all = RangeRequest {
            key: prefix.clone(),
            range_end: prefix_end(prefix),
            keys_only: true,
            sort_order: SortOrder::Ascend.into(),
            sort_target: SortTarget::Mod.into(),
            ..RangeRequest::default()
        };
        let found = self.core.client.range(&all, until).await?.kvs;
        let old = &found[..found.len().saturating_sub(NONCES_MIN)];
        for some in old.chunks(TXN_OPERATIONS_MAX) {
            let remove = |kv: &KeyValue| Request::DeleteRange(DeleteRangeRequest { key: kv.key.clone(), range_end: Vec::new() }).into();
            let request = TxnRequest { success: some.iter().map(remove).collect(), ..TxnRequest::default() };
            self.core.client.read(&request, until).await?;
        }
        Ok(())
    }
}

fn sessions_of(transaction: &Transaction) -> BTreeSet<SessionId> {
    let bound = |action: &Action| if let Action::Bind(_, session) = action { Some(*session) } else { None };
    transaction.changes.iter().filter_map(|c| bound(&c.action)).collect()
}

impl Directory for EtcdDirectory {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        let key = self.inner.core.layout.record(key);
        self.call(CALL_MAX, |inner, until| async move {
            let found = inner.core.get(key, until).await?;
            Ok(found.and_then(|kv| inner.core.entry(kv)))
        })
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        let prefix = self.inner.core.layout.record(&Key::new(kind, ""));
        self.call(SNAPSHOT_MAX, |inner, until| async move {
            let pages = inner.core.read_all(&prefix, until).await?;
            Ok(pages.kvs.into_iter().filter_map(|kv| inner.core.entry(kv)).collect())
        })
    }
    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        self.call(SNAPSHOT_MAX, |inner, until| async move { inner.snapshot(until).await })
    }
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        self.call(CALL_MAX, |inner, until| async move { inner.check_watch(after, until).await })?;
        Ok(Box::new(Reader { followed: self.inner.followed.clone(), at: after }))
    }
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        let transaction = transaction.clone();
        let given_up = DirectoryError::Unknown { cause: "the daemon ends, and has not waited for the answer".into() };
        self.call_or(CALL_MAX, given_up, |inner, until| inner.commit(transaction, until))
    }
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        self.call(CALL_MAX, |inner, until| async move { inner.outcome(nonce, until).await })
    }
    fn revision(&self) -> Result<Revision, DirectoryError> {
        self.call(CALL_MAX, |inner, until| async move { inner.revision(until).await })
    }
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        self.call(CALL_MAX, |inner, until| async move { inner.open_session(ttl, until).await })
    }
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.call(CALL_MAX, |inner, until| async move { inner.keep_alive(session, until).await })
    }
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.call(CALL_MAX, |inner, until| async move {
            inner.core.client.lease_revoke(lease_of(session), until).await.map_err(|e| inner.core.error_of_read(e))
        })
    }
    fn store(&self) -> Result<u64, DirectoryError> {
        self.revision()?;
        Ok(self.inner.core.seen().etcd)
    }
    fn cluster(&self) -> ClusterId {
        self.inner.core.cluster
    }
}

#[cfg(test)]
#[path = "etcd_tests.rs"]
mod tests;

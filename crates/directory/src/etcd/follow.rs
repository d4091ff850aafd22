//! Following what changes: one watch of etcd for each directory, from whose history all watches of the directory read.
//!
//! ```text
//!              created, nothing missed
//!  Connecting ───────────────────────► Following ──events──► history
//!    ▲  ▲                                 │ │
//!    │  └── cut, silent, behind ──────────┘ │
//!    └───── snapshot, new history ◄─────────┘ compacted, or never gets where etcd is
//!  any ── another etcd, or an older one ──► Failed
//! ```
//!
//! Invariants: the history has every change of the directory behind its first revision, in order; its last state has as many keys as
//! `State::count` says, and its head was last written at `State::head`; a failure is for ever.
//! Never: takes a sign of life for "everything has been given".

use super::core::{Core, Until};
use super::layout::revision;
use super::request::{get, ranges};
use crate::history::History;
use crate::{Changes, DirectoryError, Event, Revision, Watch};
use ::etcd::message::{self, EventType, RangeRequest, Request, TxnRequest};
use ::etcd::{Batch, EtcdError, Refusal, WatchStream, prefix_end};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout_at},
};

/// A sign of life is requested that often.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// A watch that gives nothing, no sign of life either, for that long is left.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A watch that is behind what etcd says for that long is left: its member may be cut off from the leader.
const BEHIND_SOON: Duration = Duration::from_millis(400);
/// The same for the next one.
const BEHIND_MAX: Duration = Duration::from_millis(1500);
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// Why it ended for ever.
#[derive(Clone, Debug)]
enum Failure {
    Older {
        seen: Revision,
        found: Revision,
    },
    Replaced {
        seen: u64,
        found: u64,
    },
    Diverged {
        at: Revision,
    },
    Foreign,
    /// The directory was given up by its user.
    Closed,
}

/// What the watch has led to.
pub(super) struct State {
    history: History,
    /// When the head was last written, and with what.
    head: i64,
    stamp: Vec<u8>,
    /// Keys, without the head.
    count: i64,
    failure: Option<Failure>,
}

/// See the head of this file.
pub(super) struct Followed {
    core: Arc<Core>,
    state: Mutex<State>,
    /// For readers that wait on a thread, and for those that wait on the runtime.
    changed: Condvar,
    changes: watch::Sender<u64>,
    /// It is behind.
    behind: Notify,
}

/// Where etcd is: what a watch has to get to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub revision: i64,
    pub head: i64,
    pub count: i64,
}

/// Why a watch of etcd ended.
enum End {
    Broken,
    Lost,
    Failed(DirectoryError),
}

impl Followed {
    /// From a snapshot on.
    pub async fn begin(core: Arc<Core>, until: Until) -> Result<Arc<Self>, DirectoryError> {
        let state = State::read(&core, until).await?;
        let changes = watch::Sender::new(0);
        Ok(Arc::new(Self { core, state: Mutex::new(state), changed: Condvar::new(), changes, behind: Notify::new() }))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn notify(&self) {
        self.changed.notify_all();
        self.changes.send_modify(|n| *n += 1);
    }
    /// Whether it goes on.
    pub fn usable(&self) -> Result<(), DirectoryError> {
        self.state().usable(&self.core)
    }
    pub fn last(&self) -> Revision {
        self.state().history.last()
    }
    pub fn first(&self) -> Revision {
        self.state().history.first()
    }
    /// Forgets the history up to a revision.
    pub fn forget(&self, upto: Revision) {
        self.state().history.compact(upto);
    }
    /// Nobody needs it any more.
    pub fn close(&self) {
        self.fail(Failure::Closed);
    }
    /// For ever, when the error says that this is another etcd or an older one: then gives the first that said so.
    pub fn take_note(&self, error: DirectoryError) -> DirectoryError {
        match &error {
            DirectoryError::Older { seen, found } => self.fail(Failure::Older { seen: *seen, found: *found }),
            DirectoryError::Replaced { seen, found } => self.fail(Failure::Replaced { seen: *seen, found: *found }),
            DirectoryError::Diverged { at } => self.fail(Failure::Diverged { at: *at }),
            DirectoryError::Foreign { .. } => self.fail(Failure::Foreign),
            _ => return error,
        }
        self.usable().err().unwrap_or(error)
    }
    fn fail(&self, failure: Failure) {
        self.state().failure.get_or_insert(failure);
        self.notify();
        self.behind.notify_one();
    }

    /// Waits until the watch has led to where etcd is. Gives a revision that shows it, and that watches reach.
    pub async fn reach(&self, mark: Mark, until: Until) -> Result<Revision, DirectoryError> {
        let mut changes = self.changes.subscribe();
        let mut patience = Until::now() + BEHIND_SOON;
        loop {
            changes.borrow_and_update();
            if let Some(reached) = self.state().reached(&self.core, mark)? {
                return Ok(reached);
            }
            match timeout_at(until.min(patience), changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(DirectoryError::Unavailable),
                Err(_) if Until::now() >= until => return Err(DirectoryError::Unavailable),
                Err(_) => {
                    self.behind.notify_one();
                    patience = Until::now() + BEHIND_MAX;
                }
            }
        }
    }

    /// Follows until it fails or is closed.
    pub async fn run(self: Arc<Self>) {
        let (mut known, mut was_behind) = (true, false);
        while self.usable().is_ok() {
            match self.follow(known, &mut was_behind).await {
                End::Broken => known = false,
                End::Failed(error) => {
                    self.take_note(error);
                    known = false;
                }
                End::Lost => known = self.begin_anew().await,
            }
            sleep(PAUSE).await;
        }
    }

    /// Takes a snapshot, and begins a new history with it. Whether it could.
    async fn begin_anew(&self) -> bool {
        match State::read(&self.core, Until::now() + super::core::SNAPSHOT_MAX).await {
            Ok(new) => {
                let mut state = self.state();
                let failure = state.failure.take();
                *state = State { failure, ..new };
                drop(state);
                self.notify();
                true
            }
            Err(error) => {
                self.take_note(error);
                false
            }
        }
    }

    /// One watch of etcd. `known`: what was read last is of this etcd for certain. `was_behind`: the watch before was left because it was behind
    /// what etcd says, and nothing has come since.
    async fn follow(&self, known: bool, was_behind: &mut bool) -> End {
        if !known && let Err(end) = self.check_place().await {
            return end;
        }
        let records = &self.core.layout.records;
        let next = i64::try_from(self.last().0).unwrap_or(i64::MAX - 1) + 1;
        let opened = WatchStream::open(&self.core.client, records, &prefix_end(records), next).await;
        let (mut stream, header) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.end_of(error),
        };
        if let Err(error) = self.core.is_the_same(Some(&header)) {
            return End::Failed(error);
        }
        let opened = Until::now();
        let (mut heard, mut requested) = (opened, opened);
        loop {
            let at = (requested + PROGRESS_EVERY).min(heard + SILENCE_MAX);
            tokio::select! {
                batch = stream.next() => match batch {
                    Err(error) => return self.end_of(error),
                    Ok(batch) => {
                        heard = Until::now();
                        *was_behind &= batch.events.is_empty();
                        if let Err(end) = self.take(batch) {
                            return end;
                        }
                    }
                },
                () = self.behind.notified() => {
                    if self.usable().is_err() {
                        return End::Broken;
                    }
                    // Of the watch before.
                    if opened.elapsed() < BEHIND_SOON {
                        continue;
                    }
                    // Another endpoint may do. If it does not, something was lost, and a snapshot has it.
                    self.core.client.avoid(stream.endpoint());
                    return if std::mem::replace(was_behind, true) { End::Lost } else { End::Broken };
                }
                () = tokio::time::sleep_until(at) => {
                    let now = Until::now();
                    if now >= heard + SILENCE_MAX {
                        self.core.set_trouble(Some(format!("{} gives no sign of life", stream.endpoint())));
                        self.core.client.avoid(stream.endpoint());
                        return End::Broken;
                    }
                    requested = now;
                    if let Err(error) = stream.request_progress().await {
                        return self.end_of(error);
                    }
                }
            }
        }
    }

    fn end_of(&self, error: EtcdError) -> End {
        match error {
            EtcdError::Refused(Refusal::Compacted) | EtcdError::Unknown(::etcd::Lost::TooLarge) => End::Lost,
            error => {
                let _ = self.core.error_of_read(error);
                End::Broken
            }
        }
    }

    /// Whether the place where it goes on is in this etcd as it was seen.
    async fn check_place(&self) -> Result<(), End> {
        let (at, head, stamp) = {
            let state = self.state();
            (state.history.last(), state.head, state.stamp.clone())
        };
        let until = Until::now() + super::core::CALL_MAX;
        self.core.mark(until).await.map_err(|error| match error {
            DirectoryError::Unavailable => End::Broken,
            error => End::Failed(error),
        })?;
        let revision = i64::try_from(at.0).unwrap_or(i64::MAX);
        let request = RangeRequest { key: self.core.layout.head.clone(), revision, ..RangeRequest::default() };
        let before = self.core.seen_revision();
        let answer = match self.core.client.range(&request, until).await {
            Err(error) => return Err(self.end_of(error)),
            Ok(answer) => answer,
        };
        self.core.observe(before, answer.header.as_ref()).map_err(End::Failed)?;
        let found = answer.kvs.first().map(|kv| (kv.mod_revision, kv.value.clone()));
        if found.as_ref().map_or(head == 0, |(at, value)| *at == head && *value == stamp) {
            return Ok(());
        }
        Err(End::Failed(DirectoryError::Diverged { at }))
    }

    /// Takes what has changed.
    fn take(&self, batch: Batch) -> Result<(), End> {
        self.core.is_the_same(Some(&batch.header)).map_err(End::Failed)?;
        if batch.events.is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        for of_one in batch.events.chunk_by(|a, b| mod_revision(a) == mod_revision(b)) {
            state.apply(&self.core, of_one).map_err(|NotNext| End::Lost)?;
        }
        drop(state);
        self.notify();
        Ok(())
    }
}

/// A watch gave something again, or something that cannot be.
struct NotNext;

fn mod_revision(event: &message::Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

impl State {
    async fn read(core: &Core, until: Until) -> Result<Self, DirectoryError> {
        let pages = core.read_all(&core.layout.records, until).await?;
        let head = pages.kvs.iter().find(|kv| kv.key == core.layout.head);
        Ok(Self {
            history: History::new(revision(pages.revision)),
            head: head.map_or(0, |kv| kv.mod_revision),
            stamp: head.map_or(Vec::new(), |kv| kv.value.clone()),
            count: (pages.kvs.len() - usize::from(head.is_some())) as i64,
            failure: None,
        })
    }

    fn usable(&self, core: &Core) -> Result<(), DirectoryError> {
        match self.failure {
            None => Ok(()),
            Some(Failure::Older { seen, found }) => Err(DirectoryError::Older { seen, found }),
            Some(Failure::Replaced { seen, found }) => Err(DirectoryError::Replaced { seen, found }),
            Some(Failure::Diverged { at }) => Err(DirectoryError::Diverged { at }),
            Some(Failure::Foreign) => Err(DirectoryError::Foreign { wanted: core.cluster, found: Vec::new() }),
            Some(Failure::Closed) => Err(DirectoryError::Unavailable),
        }
    }

    /// A revision that shows everything up to a mark, if the watch has led there.
    fn reached(&self, core: &Core, mark: Mark) -> Result<Option<Revision>, DirectoryError> {
        self.usable(core)?;
        let last = self.history.last();
        // Between two states with the same head nothing happened but that keys of sessions went, and then there are fewer.
        let same = (self.head, self.count) == (mark.head, mark.count);
        Ok((last >= revision(mark.revision) || same).then_some(last))
    }

    /// Takes what one revision has changed.
    fn apply(&mut self, core: &Core, events: &[message::Event]) -> Result<(), NotNext> {
        let at = revision(events.first().map_or(0, mod_revision));
        if at <= self.history.last() {
            return Err(NotNext);
        }
        let mut changed = Vec::with_capacity(events.len());
        for event in events {
            let kv = event.kv.as_ref().ok_or(NotNext)?;
            let put = event.r#type == i32::from(EventType::Put);
            if kv.key == core.layout.head {
                (self.head, self.stamp) = (kv.mod_revision, kv.value.clone());
                continue;
            }
            match put {
                true if kv.version == 1 => self.count += 1,
                true => {}
                false => self.count -= 1,
            }
            // A key of a kind that a newer release has is counted, and nothing here follows it.
            if let Some(key) = core.layout.parse_record(&kv.key) {
                changed.push(Event { key, value: put.then(|| kv.value.clone()) });
            }
        }
        self.history.push(Changes { revision: at, events: changed });
        Ok(())
    }

    fn next(&self, core: &Core, after: Revision) -> Result<Option<Changes>, DirectoryError> {
        self.usable(core)?;
        self.history.next_known(after)
    }
}

impl Core {
    /// Where etcd is.
    pub async fn mark(&self, until: Until) -> Result<Mark, DirectoryError> {
        let records = RangeRequest {
            key: self.layout.records.clone(),
            range_end: prefix_end(&self.layout.records),
            count_only: true,
            ..RangeRequest::default()
        };
        let request = TxnRequest { success: vec![get(self.layout.head.clone()), Request::Range(records).into()], ..TxnRequest::default() };
        let before = self.seen_revision();
        let answer = self.client.read(&request, until).await.map_err(|e| self.error_of_read(e))?;
        let revision = self.observe(before, answer.header.as_ref())?;
        let mut found = ranges(answer);
        let head = found.next().and_then(|r| r.kvs.into_iter().next()).map(|kv| kv.mod_revision);
        let count = found.next().map_or(0, |r| r.count) - i64::from(head.is_some());
        Ok(Mark { revision, head: head.unwrap_or(0), count })
    }
}

/// A watch: a place in the history. After an error it stays where it is, so it gives that error again.
pub(super) struct Reader {
    pub followed: Arc<Followed>,
    pub at: Revision,
}

impl Reader {
    fn take(&mut self, next: Option<Changes>) -> Option<Changes> {
        self.at = next.as_ref().map_or(self.at, |c| c.revision);
        next
    }
}

impl Watch for Reader {
    fn poll(&mut self) -> Result<Option<Changes>, DirectoryError> {
        let next = self.followed.state().next(&self.followed.core, self.at)?;
        Ok(self.take(next))
    }
    fn wait(&mut self, timeout: Duration) -> Result<Option<Changes>, DirectoryError> {
        let until = Instant::now() + timeout;
        let followed = self.followed.clone();
        let mut state = followed.state();
        loop {
            if let Some(changes) = state.next(&followed.core, self.at)? {
                return Ok(self.take(Some(changes)));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = followed.changed.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }
    fn revision(&self) -> Revision {
        self.at
    }
}

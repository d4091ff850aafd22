//! The directory of one node: a redb file with durable commits.
//!
//! Owns: the file `directory.redb`, its schema version, the watches and sessions of this process.
//! Invariants: one writer at a time, who holds `state` from the commit until the watches can see it; a commit is on stable media before it
//! returns; the file is never changed before its schema is known to be ours; a new one has its name only when it is whole on stable media;
//! once a commit has failed half-way nothing is answered any more: what is in the file is not known.
//! Never: overwrites a file that it does not understand.

use crate::history::History;
use crate::transaction::check_ttl;
use crate::{
    Action, Change, Changes, Directory, DirectoryError, Doing, Entry, Event, Key, Kind, NONCES_MIN, Nonce, Revision, SCHEMA_VERSION,
    SESSION_KEYS_MAX, SESSIONS_MAX, SessionId, Snapshot, TooLarge, Transaction, Watch,
};
use base::ClusterId;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition, WriteTransaction};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// The file's name within the data directory.
pub const FILE_NAME: &str = "directory.redb";
/// Its name while it is made. One that is found was never used.
const NEW_FILE_NAME: &str = "directory.redb.new";
/// Where schema 1 kept nodes, and where they are now.
const NODES_OF_SCHEMA_1: &str = "host/";

const ENTRIES: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("entries");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const IDENTITY: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("identity");
/// Sessions: how long they live, in milliseconds.
const SESSIONS: TableDefinition<'_, u64, u64> = TableDefinition::new("sessions");
/// Keys that go with a session.
const BOUND: TableDefinition<'_, &str, u64> = TableDefinition::new("bound");
/// Nonces, with the revision of their transaction.
const NONCES: TableDefinition<'_, &[u8], u64> = TableDefinition::new("nonces");
/// The same in the order in which they came, to forget the oldest.
const NONCE_ORDER: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("nonce-order");
const SCHEMA: &str = "schema";
const REVISION: &str = "revision";
const CLUSTER: &str = "cluster";
const SESSION_LAST: &str = "session";
const NONCE_LAST: &str = "nonce";
/// Nothing runs out.
const NEVER: u64 = u64::MAX;

/// Says how long it has been running. Sessions run out by it.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A session as this process knows it.
struct Session {
    ttl: Duration,
    ends: Duration,
}

#[derive(Default)]
struct State {
    history: History,
    sessions: BTreeMap<SessionId, Session>,
}

struct Inner {
    database: Database,
    cluster: ClusterId,
    clock: Clock,
    /// Held from commit to notification, so that watches see changes in order.
    state: Mutex<State>,
    changed: Condvar,
    /// When the next session runs out, in nanoseconds of `clock`.
    next_end_ns: AtomicU64,
    /// A commit failed half-way.
    failed: AtomicBool,
}

/// A directory in a file.
pub struct Embedded(Arc<Inner>);

impl Embedded {
    /// Opens the directory in `data_dir`; makes one for `new_cluster` if there is none.
    pub fn open(data_dir: &Path, new_cluster: ClusterId) -> Result<Self, DirectoryError> {
        let begin = Instant::now();
        Self::open_with_clock(data_dir, new_cluster, Arc::new(move || begin.elapsed()))
    }

    /// The same, on a clock of the caller's.
    pub fn open_with_clock(data_dir: &Path, new_cluster: ClusterId, clock: Clock) -> Result<Self, DirectoryError> {
        let path = data_dir.join(FILE_NAME);
        if !is_there(&path)? {
            make(data_dir, &path, new_cluster)?;
        }
        let database = Database::open(&path).map_err(|e| open_error(&path, e))?;
        Self::on(database, &path, new_cluster, clock)
    }

    fn on(database: Database, path: &Path, new_cluster: ClusterId, clock: Clock) -> Result<Self, DirectoryError> {
        let cluster = init(&database, path, new_cluster)?;
        let reading = database.begin_read().map_err(read)?;
        let revision = reading.open_table(META).map_err(read)?.get(REVISION).map_err(read)?.map_or(0, |v| v.value());
        // Sessions of before live for their whole time again: whoever holds one may still be there.
        let (mut sessions, now) = (BTreeMap::new(), clock());
        for item in reading.open_table(SESSIONS).map_err(read)?.iter().map_err(read)? {
            let (id, ttl) = item.map_err(read)?;
            let ttl = Duration::from_millis(ttl.value());
            sessions.insert(SessionId(id.value()), Session { ttl, ends: now + ttl });
        }
        drop(reading);
        let inner = Inner {
            database,
            cluster,
            clock,
            next_end_ns: AtomicU64::new(next_end(&sessions)),
            state: Mutex::new(State { history: History::new(Revision(revision)), sessions }),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Forgets the history up to now: a watch from before must begin anew.
    pub fn compact(&self) -> Result<(), DirectoryError> {
        let revision = self.revision()?;
        self.0.lock()?.history.compact(revision);
        Ok(())
    }
}

impl Inner {
    /// The state, with every session that has run out ended.
    fn lock(&self) -> Result<MutexGuard<'_, State>, DirectoryError> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        self.usable()?;
        let now = (self.clock)();
        let over: Vec<SessionId> = state.sessions.iter().filter(|(_, s)| s.ends <= now).map(|(id, _)| *id).collect();
        for session in over {
            self.end(&mut state, session)?;
        }
        Ok(state)
    }

    fn usable(&self) -> Result<(), DirectoryError> {
        if self.failed.load(SeqCst) {
            let cause = "an earlier change failed half-way; restart the daemon".to_owned();
            return Err(DirectoryError::Storage { doing: Doing::Read, cause });
        }
        Ok(())
    }

    /// Before a read: what has run out is gone. Does not wait for a commit when nothing has.
    fn settle(&self) -> Result<(), DirectoryError> {
        self.usable()?;
        let now_ns = u64::try_from((self.clock)().as_nanos()).unwrap_or(NEVER - 1);
        if self.next_end_ns.load(SeqCst) <= now_ns { self.lock().map(drop) } else { Ok(()) }
    }

    /// Makes what was written durable, and lets watches see it.
    fn finish(&self, state: &mut State, write: WriteTransaction, changes: Option<Changes>) -> Result<(), DirectoryError> {
        if let Err(error) = write.commit() {
            self.failed.store(true, SeqCst);
            self.changed.notify_all();
            return Err(DirectoryError::Unknown { cause: redb::Error::from(error).to_string() });
        }
        if let Some(changes) = changes {
            state.history.push(changes);
            self.changed.notify_all();
        }
        Ok(())
    }

    fn end(&self, state: &mut State, session: SessionId) -> Result<(), DirectoryError> {
        let write = self.database.begin_write().map_err(written)?;
        let changes = {
            let mut bound = write.open_table(BOUND).map_err(written)?;
            let mut names = Vec::new();
            for item in bound.iter().map_err(written)? {
                let (name, id) = item.map_err(written)?;
                if id.value() == session.0 {
                    names.push(name.value().to_owned());
                }
            }
            let mut entries = write.open_table(ENTRIES).map_err(written)?;
            for name in &names {
                bound.remove(name.as_str()).map_err(written)?;
                entries.remove(name.as_str()).map_err(written)?;
            }
            write.open_table(SESSIONS).map_err(written)?.remove(session.0).map_err(written)?;
            let events: Vec<Event> = names.iter().filter_map(|n| Key::parse(n)).map(|key| Event { key, value: None }).collect();
            if events.is_empty() { None } else { Some(Changes { revision: next(&write, REVISION).map(Revision)?, events }) }
        };
        self.finish(state, write, changes)?;
        state.sessions.remove(&session);
        self.next_end_ns.store(next_end(&state.sessions), SeqCst);
        Ok(())
    }

    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        transaction.check()?;
        let mut state = self.lock()?;
        let write = self.database.begin_write().map_err(written)?;
        if let Some(nonce) = transaction.nonce
            && let Some(revision) = write.open_table(NONCES).map_err(written)?.get(nonce.0.as_slice()).map_err(written)?
        {
            return Ok(Revision(revision.value()));
        }
        let now = write.open_table(META).map_err(written)?.get(REVISION).map_err(written)?.map_or(0, |v| v.value());
        let changes = Changes { revision: Revision(now + 1), events: apply(&write, &state, transaction, Revision(now + 1))? };
        let revision = if changes.events.is_empty() { Revision(now) } else { Revision(next(&write, REVISION)?) };
        if let Some(nonce) = transaction.nonce {
            remember(&write, nonce, revision)?;
        }
        self.finish(&mut state, write, (!changes.events.is_empty()).then_some(changes))?;
        Ok(revision)
    }

    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        check_ttl(ttl)?;
        let mut state = self.lock()?;
        if state.sessions.len() >= SESSIONS_MAX {
            return Err(DirectoryError::TooLarge(TooLarge::Sessions));
        }
        let write = self.database.begin_write().map_err(written)?;
        let id = SessionId(next(&write, SESSION_LAST)?);
        write.open_table(SESSIONS).map_err(written)?.insert(id.0, ttl.as_millis() as u64).map_err(written)?;
        self.finish(&mut state, write, None)?;
        state.sessions.insert(id, Session { ttl, ends: (self.clock)() + ttl });
        self.next_end_ns.store(next_end(&state.sessions), SeqCst);
        Ok(id)
    }
}

/// Makes the changes of a transaction in an open one of redb's. On an error that one is dropped, and nothing has happened.
fn apply(write: &WriteTransaction, state: &State, transaction: &Transaction, revision: Revision) -> Result<Vec<Event>, DirectoryError> {
    let mut entries = write.open_table(ENTRIES).map_err(written)?;
    let mut bound = write.open_table(BOUND).map_err(written)?;
    let mut events = Vec::with_capacity(transaction.changes.len());
    for Change { key, expect, action } in &transaction.changes {
        let name = key.to_string();
        let found = entries.get(name.as_str()).map_err(written)?.map(|v| Revision(v.value().0));
        if !expect.holds(found) {
            return Err(DirectoryError::Conflict { key: key.clone() });
        }
        match action {
            Action::Check => continue,
            Action::Put(value) | Action::Bind(value, _) => {
                entries.insert(name.as_str(), (revision.0, value.as_slice())).map_err(written)?;
            }
            Action::Delete if found.is_none() => continue,
            Action::Delete => drop(entries.remove(name.as_str()).map_err(written)?),
        }
        bound.remove(name.as_str()).map_err(written)?;
        if let Action::Bind(_, session) = action {
            if !state.sessions.contains_key(session) {
                return Err(DirectoryError::NoSession(*session));
            }
            bound.insert(name.as_str(), session.0).map_err(written)?;
            let mut held = 0;
            for item in bound.iter().map_err(written)? {
                held += usize::from(item.map_err(written)?.1.value() == session.0);
            }
            if held > SESSION_KEYS_MAX {
                return Err(DirectoryError::TooLarge(TooLarge::Session(*session)));
            }
        }
        events.push(Event { key: key.clone(), value: action.value().cloned() });
    }
    Ok(events)
}

/// Remembers a nonce, and forgets the oldest beyond [`NONCES_MIN`].
fn remember(write: &WriteTransaction, nonce: Nonce, revision: Revision) -> Result<(), DirectoryError> {
    let serial = next(write, NONCE_LAST)?;
    let mut nonces = write.open_table(NONCES).map_err(written)?;
    let mut order = write.open_table(NONCE_ORDER).map_err(written)?;
    nonces.insert(nonce.0.as_slice(), revision.0).map_err(written)?;
    order.insert(serial, nonce.0.as_slice()).map_err(written)?;
    let oldest = serial.saturating_sub(NONCES_MIN as u64);
    if let Some(old) = order.remove(oldest).map_err(written)? {
        nonces.remove(old.value()).map_err(written)?;
    }
    Ok(())
}

/// Counts up, and gives the new number.
fn next(write: &WriteTransaction, counter: &str) -> Result<u64, DirectoryError> {
    let mut meta = write.open_table(META).map_err(written)?;
    let next = meta.get(counter).map_err(written)?.map_or(0, |v| v.value()) + 1;
    meta.insert(counter, next).map_err(written)?;
    Ok(next)
}

fn next_end(sessions: &BTreeMap<SessionId, Session>) -> u64 {
    sessions.values().map(|s| u64::try_from(s.ends.as_nanos()).unwrap_or(NEVER)).min().unwrap_or(NEVER)
}

impl Directory for Embedded {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        self.0.settle()?;
        let table = self.0.database.begin_read().map_err(read)?.open_table(ENTRIES).map_err(read)?;
        let found = table.get(key.to_string().as_str()).map_err(read)?;
        Ok(found.map(|v| Entry { key: key.clone(), revision: Revision(v.value().0), value: v.value().1.to_vec() }))
    }

    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        self.0.settle()?;
        let table = self.0.database.begin_read().map_err(read)?.open_table(ENTRIES).map_err(read)?;
        // '0' follows '/' in ASCII: the range holds exactly the keys below "kind/"
        let (from, to) = (format!("{}/", kind.prefix()), format!("{}0", kind.prefix()));
        let mut entries = Vec::new();
        for item in table.range(from.as_str()..to.as_str()).map_err(read)? {
            let (name, value) = item.map_err(read)?;
            let Some(key) = Key::parse(name.value()) else { continue };
            entries.push(Entry { key, revision: Revision(value.value().0), value: value.value().1.to_vec() });
        }
        Ok(entries)
    }

    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        self.0.settle()?;
        // One transaction of redb's sees one moment.
        let reading = self.0.database.begin_read().map_err(read)?;
        let revision = reading.open_table(META).map_err(read)?.get(REVISION).map_err(read)?.map_or(0, |v| v.value());
        let mut entries = Vec::new();
        for item in reading.open_table(ENTRIES).map_err(read)?.iter().map_err(read)? {
            let (name, value) = item.map_err(read)?;
            let Some(key) = Key::parse(name.value()) else { continue };
            entries.push(Entry { key, revision: Revision(value.value().0), value: value.value().1.to_vec() });
        }
        Ok(Snapshot { revision: Revision(revision), entries })
    }

    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        self.0.lock()?.history.check(after)?;
        Ok(Box::new(Reader { inner: self.0.clone(), at: after }))
    }

    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        self.0.commit(transaction)
    }

    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        self.0.usable()?;
        let table = self.0.database.begin_read().map_err(read)?.open_table(NONCES).map_err(read)?;
        Ok(table.get(nonce.0.as_slice()).map_err(read)?.map(|v| Revision(v.value())))
    }

    fn revision(&self) -> Result<Revision, DirectoryError> {
        self.0.settle()?;
        let meta = self.0.database.begin_read().map_err(read)?.open_table(META).map_err(read)?;
        Ok(Revision(meta.get(REVISION).map_err(read)?.map_or(0, |v| v.value())))
    }

    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        self.0.open_session(ttl)
    }

    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError> {
        let mut state = self.0.lock()?;
        let now = (self.0.clock)();
        let found = state.sessions.get_mut(&session).ok_or(DirectoryError::NoSession(session))?;
        found.ends = now + found.ttl;
        self.0.next_end_ns.store(next_end(&state.sessions), SeqCst);
        Ok(())
    }

    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError> {
        let mut state = self.0.lock()?;
        if state.sessions.contains_key(&session) { self.0.end(&mut state, session) } else { Ok(()) }
    }

    fn store(&self) -> Result<u64, DirectoryError> {
        Ok(0)
    }
    fn cluster(&self) -> ClusterId {
        self.0.cluster
    }
}

/// A watch: a place in the history. After an error it stays where it is, so it gives that error again.
struct Reader {
    inner: Arc<Inner>,
    at: Revision,
}

impl Reader {
    fn next(&mut self, state: &State) -> Result<Option<Changes>, DirectoryError> {
        let next = state.history.next(self.at)?;
        self.at = next.as_ref().map_or(self.at, |c| c.revision);
        Ok(next)
    }
}

impl Watch for Reader {
    fn poll(&mut self) -> Result<Option<Changes>, DirectoryError> {
        let inner = self.inner.clone();
        let state = inner.lock()?;
        self.next(&state)
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Changes>, DirectoryError> {
        let inner = self.inner.clone();
        let until = Instant::now() + timeout;
        let mut state = inner.lock()?;
        loop {
            if let Some(changes) = self.next(&state)? {
                return Ok(Some(changes));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // A session that runs out meanwhile is a change too.
            let end = Duration::from_nanos(inner.next_end_ns.load(SeqCst)).saturating_sub((inner.clock)());
            drop(inner.changed.wait_timeout(state, left.min(end.max(WAIT_MIN))).unwrap_or_else(|e| e.into_inner()));
            state = inner.lock()?;
        }
    }

    fn revision(&self) -> Revision {
        self.at
    }
}

/// So that a session which is just running out does not make a watch spin.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Makes a directory, so that a loss of power leaves a whole one or none.
fn make(data_dir: &Path, path: &Path, new_cluster: ClusterId) -> Result<(), DirectoryError> {
    let new = data_dir.join(NEW_FILE_NAME);
    let io = |cause| DirectoryError::Io { path: new.clone(), cause };
    match std::fs::remove_file(&new) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    let database = Database::create(&new).map_err(|e| open_error(&new, e))?;
    init(&database, &new, new_cluster)?;
    drop(database);
    std::fs::File::open(&new).and_then(|file| file.sync_all()).map_err(io)?;
    std::fs::rename(&new, path).map_err(io)?;
    std::fs::File::open(data_dir).and_then(|dir| dir.sync_all()).map_err(io)
}

/// Whether the file is there. One that is not redb's is left alone: redb would take an empty one for new, and some damage for its own.
fn is_there(path: &Path) -> Result<bool, DirectoryError> {
    use std::io::Read;
    const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(cause) => return Err(DirectoryError::Io { path: path.into(), cause }),
    };
    let mut head = [0; MAGIC.len()];
    let corrupt = |cause: &str| DirectoryError::Corrupt { path: path.into(), cause: cause.into() };
    match file.read_exact(&mut head) {
        Ok(()) if head == *MAGIC => Ok(true),
        Ok(()) => Err(corrupt("it does not begin as a redb file does")),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(corrupt("it is cut short")),
        Err(cause) => Err(DirectoryError::Io { path: path.into(), cause }),
    }
}

/// Looks at the schema before anything is written; writes it into a new file.
fn init(database: &Database, path: &Path, new_cluster: ClusterId) -> Result<ClusterId, DirectoryError> {
    let known = database.begin_read().map_err(read)?.open_table(META);
    match known {
        Ok(meta) => {
            let found = meta.get(SCHEMA).map_err(read)?.map_or(0, |v| v.value());
            if found > SCHEMA_VERSION {
                return Err(DirectoryError::Newer { path: path.into(), found });
            }
            if found < SCHEMA_VERSION {
                migrate(database)?;
            }
            let identity = database.begin_read().map_err(read)?.open_table(IDENTITY).map_err(read)?;
            let bytes = identity.get(CLUSTER).map_err(read)?.and_then(|v| <[u8; 16]>::try_from(v.value()).ok());
            bytes
                .map(ClusterId::from_bytes)
                .ok_or_else(|| DirectoryError::Corrupt { path: path.into(), cause: "it does not name its cluster".into() })
        }
        Err(redb::TableError::TableDoesNotExist(_)) => {
            let write = database.begin_write().map_err(written)?;
            {
                open_tables(&write)?;
                write.open_table(META).map_err(written)?.insert(SCHEMA, SCHEMA_VERSION).map_err(written)?;
                write.open_table(IDENTITY).map_err(written)?.insert(CLUSTER, new_cluster.as_bytes().as_slice()).map_err(written)?;
            }
            write.commit().map_err(written)?;
            Ok(new_cluster)
        }
        Err(e) => Err(DirectoryError::Corrupt { path: path.into(), cause: e.to_string() }),
    }
}

fn open_tables(write: &WriteTransaction) -> Result<(), DirectoryError> {
    write.open_table(ENTRIES).map_err(written)?;
    write.open_table(SESSIONS).map_err(written)?;
    write.open_table(BOUND).map_err(written)?;
    write.open_table(NONCES).map_err(written)?;
    write.open_table(NONCE_ORDER).map_err(written)?;
    Ok(())
}

/// From schema 1, in one transaction: nodes get their own word. Revisions stay, so whoever has read before can still compare.
fn migrate(database: &Database) -> Result<(), DirectoryError> {
    let write = database.begin_write().map_err(written)?;
    {
        open_tables(&write)?;
        let mut entries = write.open_table(ENTRIES).map_err(written)?;
        let mut nodes = Vec::new();
        for item in entries.range(NODES_OF_SCHEMA_1.."host0").map_err(written)? {
            let (name, value) = item.map_err(written)?;
            nodes.push((name.value().to_owned(), value.value().0, value.value().1.to_vec()));
        }
        for (name, revision, value) in nodes {
            entries.remove(name.as_str()).map_err(written)?;
            let new = Key::new(Kind::Node, &name[NODES_OF_SCHEMA_1.len()..]).to_string();
            entries.insert(new.as_str(), (revision, value.as_slice())).map_err(written)?;
        }
        write.open_table(META).map_err(written)?.insert(SCHEMA, SCHEMA_VERSION).map_err(written)?;
    }
    write.commit().map_err(written)
}

fn open_error(path: &Path, error: DatabaseError) -> DirectoryError {
    let path: PathBuf = path.to_path_buf();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch | DatabaseError::TransactionInProgress => {
            DirectoryError::InUse { path }
        }
        DatabaseError::Storage(StorageError::Io(cause)) if cause.kind() != std::io::ErrorKind::InvalidData => {
            DirectoryError::Io { path, cause }
        }
        other => DirectoryError::Corrupt { path, cause: other.to_string() },
    }
}

fn read(error: impl Into<redb::Error>) -> DirectoryError {
    DirectoryError::Storage { doing: Doing::Read, cause: error.into().to_string() }
}
fn written(error: impl Into<redb::Error>) -> DirectoryError {
    DirectoryError::Storage { doing: Doing::Write, cause: error.into().to_string() }
}

#[cfg(test)]
#[path = "durability_tests.rs"]
mod durability_tests;
#[cfg(test)]
#[path = "embedded_tests.rs"]
mod tests;

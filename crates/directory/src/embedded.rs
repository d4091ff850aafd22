//! The directory of one host: a redb file with durable commits.
//!
//! Owns: the file `directory.redb`, its schema version, the watchers of this process.
//! Invariants: one writer at a time (redb's own lock, across threads); a commit is on stable media before it returns; the
//! file is never changed before its schema is known to be ours; a new one has its name only when it is whole on stable media.
//! Never: overwrites a file that it does not understand.

use crate::*;
use base::ClusterId;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition};
use std::{path::Path, sync::Mutex};

/// The file's name within the data directory.
pub const FILE_NAME: &str = "directory.redb";
/// Its name while it is made. One that is found was never used.
const NEW_FILE_NAME: &str = "directory.redb.new";
/// The schema that this release writes.
pub const SCHEMA_VERSION: u64 = 1;

const ENTRIES: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("entries");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const IDENTITY: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("identity");
const SCHEMA: &str = "schema";
const REVISION: &str = "revision";
const CLUSTER: &str = "cluster";

/// A directory in a file.
pub struct Embedded {
    database: Database,
    cluster: ClusterId,
    /// Held from commit to notification, so that watchers see changes in order.
    watchers: Mutex<Vec<mpsc::SyncSender<WatchEvent>>>,
}

impl Embedded {
    /// Opens the directory in `data_dir`; makes one for `new_cluster` if there is none.
    pub fn open(data_dir: &Path, new_cluster: ClusterId) -> Result<Self, DirectoryError> {
        let path = data_dir.join(FILE_NAME);
        if !is_there(&path)? {
            make(data_dir, &path, new_cluster)?;
        }
        let database = Database::open(&path).map_err(|e| open_error(&path, e))?;
        let cluster = init(&database, &path, new_cluster)?;
        Ok(Self { database, cluster, watchers: Mutex::default() })
    }

    fn apply(&self, transaction: &Transaction) -> Result<(Revision, Vec<WatchEvent>), DirectoryError> {
        let write = self.database.begin_write().map_err(written)?;
        let mut events = Vec::with_capacity(transaction.changes.len());
        let revision = {
            let mut meta = write.open_table(META).map_err(written)?;
            let revision = Revision(meta.get(REVISION).map_err(written)?.map_or(0, |v| v.value()) + 1);
            let mut entries = write.open_table(ENTRIES).map_err(written)?;
            for Change { key, expect, action } in &transaction.changes {
                let name = key.to_string();
                let found = entries.get(name.as_str()).map_err(written)?.map(|v| Revision(v.value().0));
                let holds = match expect {
                    Expect::Any => true,
                    Expect::Absent => found.is_none(),
                    Expect::At(revision) => found == Some(*revision),
                };
                if !holds {
                    return Err(DirectoryError::Conflict { key: key.clone() });
                }
                let value = match action {
                    Action::Check => continue,
                    Action::Put(value) => {
                        entries.insert(name.as_str(), (revision.0, value.as_slice())).map_err(written)?;
                        Some(value.clone())
                    }
                    Action::Delete => {
                        entries.remove(name.as_str()).map_err(written)?;
                        None
                    }
                };
                events.push(WatchEvent { revision, key: key.clone(), value });
            }
            meta.insert(REVISION, revision.0).map_err(written)?;
            revision
        };
        write.commit().map_err(written)?;
        Ok((revision, events))
    }
}

impl Directory for Embedded {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        let table = self.database.begin_read().map_err(read)?.open_table(ENTRIES).map_err(read)?;
        let found = table.get(key.to_string().as_str()).map_err(read)?;
        Ok(found.map(|v| Entry { key: key.clone(), revision: Revision(v.value().0), value: v.value().1.to_vec() }))
    }

    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        let table = self.database.begin_read().map_err(read)?.open_table(ENTRIES).map_err(read)?;
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

    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        if transaction.changes.len() > TRANSACTION_CHANGES_MAX {
            return Err(DirectoryError::TooLarge { what: format!("{} keys at once", transaction.changes.len()) });
        }
        for change in &transaction.changes {
            if let Action::Put(value) = &change.action
                && value.len() > VALUE_BYTES_MAX
            {
                return Err(DirectoryError::TooLarge { what: format!("{} bytes for {}", value.len(), change.key) });
            }
        }
        let mut watchers = self.watchers.lock().unwrap_or_else(|e| e.into_inner());
        let (revision, events) = self.apply(transaction)?;
        // a watcher that is gone or too slow is cut off
        watchers.retain(|w| events.iter().all(|e| w.try_send(e.clone()).is_ok()));
        Ok(revision)
    }

    fn revision(&self) -> Result<Revision, DirectoryError> {
        let meta = self.database.begin_read().map_err(read)?.open_table(META).map_err(read)?;
        Ok(Revision(meta.get(REVISION).map_err(read)?.map_or(0, |v| v.value())))
    }

    fn watch(&self) -> Result<Watch, DirectoryError> {
        let (sender, watch) = mpsc::sync_channel(WATCH_EVENTS_MAX);
        self.watchers.lock().unwrap_or_else(|e| e.into_inner()).push(sender);
        Ok(watch)
    }

    fn cluster(&self) -> ClusterId {
        self.cluster
    }
}

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
            let identity = database.begin_read().map_err(read)?.open_table(IDENTITY).map_err(read)?;
            let bytes = identity.get(CLUSTER).map_err(read)?.and_then(|v| <[u8; 16]>::try_from(v.value()).ok());
            bytes
                .map(ClusterId::from_bytes)
                .ok_or_else(|| DirectoryError::Corrupt { path: path.into(), cause: "it does not name its cluster".into() })
        }
        Err(redb::TableError::TableDoesNotExist(_)) => {
            let write = database.begin_write().map_err(written)?;
            {
                write.open_table(ENTRIES).map_err(written)?;
                write.open_table(META).map_err(written)?.insert(SCHEMA, SCHEMA_VERSION).map_err(written)?;
                write.open_table(IDENTITY).map_err(written)?.insert(CLUSTER, new_cluster.as_bytes().as_slice()).map_err(written)?;
            }
            write.commit().map_err(written)?;
            Ok(new_cluster)
        }
        Err(e) => Err(DirectoryError::Corrupt { path: path.into(), cause: e.to_string() }),
    }
}

fn open_error(path: &Path, error: DatabaseError) -> DirectoryError {
    let path = path.to_path_buf();
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
    DirectoryError::Storage { doing: "read", cause: error.into().to_string() }
}
fn written(error: impl Into<redb::Error>) -> DirectoryError {
    DirectoryError::Storage { doing: "written", cause: error.into().to_string() }
}

#[cfg(test)]
#[path = "durability_tests.rs"]
mod durability_tests;
#[cfg(test)]
#[path = "embedded_tests.rs"]
mod tests;

//! The engine: every change an administrator can make, and bringing the data plane in line with the directory.
//!
//! Owns: the order of steps of each change. Each is: check, write the intent (a record that is `creating` or `deleting`), act on the
//! data plane, write the outcome, apply. What is left of one is found by `cluster::reconcile` and carried out.
//! Invariants: one change of this node at a time (`change`); every write is a compare-and-swap, for other nodes change records too; `live` is locked for moments only, never while the data plane works; readers see
//! the directory as it is.
//! Never: answers before the outcome is durable.

mod control_requests;
mod follow;
mod followed;
mod groups;
mod hosts;
mod layout;
mod live;
mod namespaces;
mod nodes;
mod policies;
mod reconcile;
mod reservations;
mod secrets;
mod status;
mod subsystems;
mod tls_psks;
mod volumes;

use crate::{
    audit::AuditLog,
    plane::{CacheFile, DataPlane, PlaneError, Stats},
    problem::Problem,
    vault::Vault,
};
use base::{GroupId, WriteProtect};
use directory::{Directory, DirectoryError, HeldName, Kind, Nonce, Record, Revision, Transaction, Typed, Versioned, record::*};
use followed::Followed;
use live::{GroupLive, Live};
use nvmf::ListenerSpec;
use std::{
    collections::BTreeMap,
    io::Read,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

pub(crate) use live::Orphan;

/// The policy and the subsystem that are made at the first start.
pub const DEFAULT_NAME: &str = "default";
/// Statistics that are not older than this are not asked for again.
const STATS_FRESH: Duration = Duration::from_millis(500);
/// Before it is looked again for a change whose outcome is not known; longer each time.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(50);

/// Who this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub node: String,
    /// Its fault domain.
    pub fault_domain: String,
    /// The release.
    pub version: String,
    /// Cores of the data plane.
    pub cores: usize,
}

/// Why the engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The data plane.
    #[error(transparent)]
    Plane(#[from] PlaneError),
}

/// The engine.
pub struct Control {
    directory: Arc<dyn Directory>,
    plane: Arc<dyn DataPlane>,
    identity: Identity,
    drives: drive::Scanner,
    audit: Option<AuditLog>,
    vault: Vault,
    started_unix_s: u64,
    change: Mutex<()>,
    live: Mutex<Live>,
    followed: Mutex<Followed>,
    ends: AtomicBool,
}

impl Control {
    /// An engine. Call [`Control::start`] before anything else.
    pub fn new(directory: Arc<dyn Directory>, plane: Arc<dyn DataPlane>, identity: Identity, drives: drive::Scanner) -> Self {
        Self {
            directory,
            plane,
            identity,
            drives,
            audit: None,
            vault: Vault::ephemeral(),
            started_unix_s: now_unix_s(),
            change: Mutex::default(),
            live: Mutex::default(),
            followed: Mutex::default(),
            ends: AtomicBool::new(false),
        }
    }

    /// Writes an audit log from now on.
    pub fn with_audit(self, log: AuditLog) -> Self {
        Self { audit: Some(log), ..self }
    }

    /// Seals secrets with this key from now on; without it they are lost at the end.
    pub fn with_vault(self, vault: Vault) -> Self {
        Self { vault, ..self }
    }

    /// Makes what a first start needs, opens the groups, finishes what a crash has left, serves.
    pub fn start(&self) -> Result<(), StartError> {
        let _change = self.lock();
        self.make_defaults()?;
        self.work()?;
        self.live().started = true;
        if let Err(problem) = self.apply() {
            tracing::error!(error = %problem.message, "not everything could be served");
        }
        Ok(())
    }

    /// Listens on one more address.
    pub fn listen(&self, mut spec: ListenerSpec) -> Result<SocketAddr, PlaneError> {
        let bound = self.plane.listen(spec.clone())?;
        spec.addr = bound;
        self.live().listeners.push(spec);
        Ok(bound)
    }

    /// Tries again what is not finished: called now and then.
    pub fn retry(&self) {
        let _change = self.lock();
        match self.work() {
            Ok(worked) if worked || self.is_behind() => {
                if let Err(problem) = self.apply() {
                    tracing::error!(error = %problem.message, "not everything could be served");
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "unfinished work could not be looked at"),
        }
    }

    /// Ends the data plane in order.
    pub fn shutdown(&self) -> Result<(), PlaneError> {
        self.ends.store(true, Relaxed);
        let _change = self.lock();
        self.plane.shutdown()
    }

    /// The release.
    pub fn version(&self) -> &str {
        &self.identity.version
    }

    /// Figures of every layer, at most half a second old.
    pub fn stats(&self) -> Result<Stats, PlaneError> {
        if let Some((at, stats)) = &self.live().stats
            && at.elapsed() < STATS_FRESH
        {
            return Ok(stats.clone());
        }
        let stats = self.plane.stats()?;
        self.live().stats = Some((Instant::now(), stats.clone()));
        Ok(stats)
    }

    fn make_defaults(&self) -> Result<(), DirectoryError> {
        let now = now_unix_s();
        let mut first = Transaction::new();
        if self.directory.find::<NodeRecord>(&self.identity.node)?.is_none() {
            let node =
                NodeRecord { name: self.identity.node.clone(), fault_domain: self.identity.fault_domain.clone(), created_unix_s: now };
            first = first.create(&node);
        }
        // only in a new directory: what an administrator has deleted stays deleted
        if self.directory.revision()? == Revision(0) {
            let policy = PolicyRecord { name: DEFAULT_NAME.into(), policy: cluster::Policy::default(), created_unix_s: now };
            let subsystem = SubsystemRecord {
                nqn: cluster::default_nqn(DEFAULT_NAME),
                name: DEFAULT_NAME.into(),
                serial: serial(random()),
                allow_any_host: true,
                hosts: Default::default(),
                namespaces: Default::default(),
                security: Default::default(),
                namespace_grant: None,
                created_unix_s: now,
            };
            first = first.create(&policy).create(&subsystem).take_name(Kind::Subsystem, DEFAULT_NAME, &subsystem.nqn);
        }
        if !first.changes.is_empty() {
            self.commit(first)?;
        }
        Ok(())
    }

    /// Whether something is durable that is not served: the last apply failed.
    fn is_behind(&self) -> bool {
        self.live().apply_error.is_some()
    }

    /// Makes changes durable; when the answer is lost, finds out first whether they happened.
    fn commit(&self, transaction: Transaction) -> Result<Revision, DirectoryError> {
        if transaction.changes.is_empty() {
            return self.directory.revision();
        }
        let pause = |tried: u32| std::thread::sleep(UNKNOWN_PAUSE * tried);
        directory::commit_known(&*self.directory, transaction, Nonce(random()), pause)
    }

    /// A record that was written a moment ago, as it is now.
    fn again<R: Record>(&self, id: &str) -> Result<Versioned<R>, Problem> {
        self.directory.find(id)?.ok_or_else(|| {
            let key = directory::Key::new(R::KIND, id);
            DirectoryError::Conflict { key }.into()
        })
    }

    /// Frees a name too, if it is held.
    fn freeing(&self, transaction: Transaction, kind: Kind, name: &str) -> Result<Transaction, DirectoryError> {
        Ok(match HeldName::find(&*self.directory, kind, name)? {
            Some(held) => transaction.free_name(&held),
            None => transaction,
        })
    }

    /// Removes a record too, if it is there.
    fn removing<R: Record>(&self, transaction: Transaction, id: &str) -> Result<Transaction, DirectoryError> {
        Ok(match self.directory.find::<R>(id)? {
            Some(record) => transaction.remove(&record),
            None => transaction,
        })
    }

    /// One change at a time.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The record that `name` (or its id) means.
    fn resolve<R: Record>(&self, kind: Kind, name: &str, what: &str, list: &str) -> Result<Versioned<R>, Problem> {
        let id = self.directory.named(kind, name)?.unwrap_or_else(|| name.to_owned());
        self.directory.find(&id)?.ok_or_else(|| Problem::not_found(what, name, list))
    }
}

fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Sixteen bytes from the operating system.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    let filled = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    filled.expect("/dev/urandom is there on every Linux");
    bytes
}

/// A serial number of 16 hexadecimal digits (NVMe has room for 20 characters).
fn serial(bytes: [u8; 16]) -> String {
    bytes[..8].iter().map(|b| format!("{b:02X}")).collect()
}

/// What is served is what the directory says, unless the last attempt at that failed.
///
/// # Panics
/// When it is not.
#[cfg(test)]
#[track_caller]
pub(crate) fn check_served(control: &Control, plane: &crate::fake::FakePlane, after: &str) {
    let served = plane.desired();
    let (wanted, _) = control.desired(served.generation).expect("the directory can be read");
    assert!(control.is_behind() || served == wanted, "{after}: served is {served:#?}, and the directory says {wanted:#?}");
}

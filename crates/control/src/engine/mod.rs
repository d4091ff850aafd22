//! The engine: every change an administrator can make, and bringing the data plane in line with the directory.
//!
//! ```text
//!  records only:   decide on what is there ─► commit, if it is still so ─► serve ─► answer
//!                        ▲                         │ somebody else was faster
//!                        └─────────────────────────┘
//!  devices too:    the same with an intent (`creating`, `deleting`, `resize_to`, ..) ─► act on the data plane ─► commit the outcome ─► serve
//! ```
//!
//! Owns: the order of steps of each change. What is left of one is found by `cluster::reconcile` and carried out.
//! Invariants: every write is a compare-and-swap that is decided anew when somebody else was faster: an administrator at this node or another, a
//! host, the reconciler; what a decision depends on and does not write, it holds (`Transaction::hold`), where two decisions that do not see each
//! other would break something; readers see the directory as it is.
//! Never: answers before the outcome is durable and served.
//!
//! Locks, taken in this order:
//!
//! | lock | protects | held |
//! | --- | --- | --- |
//! | `devices` | the steps between an intent and its outcome: the reconciler must not take up what a handler is in the middle of (a group that is being formatted would be opened, or forgotten), and two of them must not act on the components of one volume at once | while groups are made and removed, volumes made, deleted, resized, formatted or given a policy; by the reconciler; at start and end |
//! | `turn` | nothing: those who have lost to somebody else decide again one after the other | for one decision and one commit |
//! | `serving` | the order of pictures: each is made from the directory and given to the data plane whole | while that is done |
//! | `followed` | the copy of the directory | while it is brought up to date |
//! | `live` | what is known of this moment | for moments only, never while the data plane works |
//!
//! Changes of records only (names, hosts and their secrets, subsystems and what they show, policies but for what they reserve, reservations,
//! write protection) do not take `devices`: none of them waits for a group that is being made.

#[cfg(test)]
mod at_once_tests;
#[cfg(test)]
mod between;
mod chap;
mod control_requests;
mod copies;
mod device_lock;
mod follow;
mod formation;
mod group_devices;
mod groups;
mod hosts;
mod last_seen;
mod layout;
mod leader;
mod links;
mod live;
mod moves;
mod namespaces;
mod nodes;
mod outcome;
mod ownership;
mod policies;
mod presence;
mod reconcile;
mod recovery;
mod request;
mod reservations;
mod secrets;
mod statistics;
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
use base::hooks::{self, SeededFault};
use base::{GroupId, NODES_MAX, NodeSlot, WriteProtect};
use device_lock::{DeviceLock, HeldDevices};
use directory::{
    Directory, DirectoryError, Followed, HeldName, Kind, Nonce, Record, Revision, Transaction, Typed, Versioned,
    commit::CONFLICT_ATTEMPTS_MAX, record::*,
};
use last_seen::LastSeen;
use live::{GroupLive, Live};
use nvmf::ListenerSpec;
use peers::LinkSecurity;
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
pub use nodes::slot_of;
pub(crate) use request::Request;

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

/// What is not well with the directory's store.
pub type DirectoryHealth = Arc<dyn Fn() -> Vec<crate::api::types::Check> + Send + Sync>;

/// Why the engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The data plane.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// The cluster has as many nodes as it can have.
    #[error("the cluster has {} nodes, as many as it can have; remove one first", NODES_MAX)]
    NoSlot,
    /// The node was removed from the cluster.
    #[error(
        "the node '{node}' was removed from its cluster and cannot serve what it has; give it an empty data directory, and let it join anew"
    )]
    Removed {
        /// Its name.
        node: String,
    },
    /// The cluster's directory has no record of the node.
    #[error(
        "cluster {cluster} does not know this node: its directory was restored from a backup of before the node joined; give the node an empty data directory, and let it join anew"
    )]
    NoMember {
        /// The cluster.
        cluster: base::ClusterId,
    },
    /// What the node knows of itself cannot be read or written.
    #[error(transparent)]
    Home(#[from] crate::formation::FormationError),
    /// Another node took the slot that this one was about to get.
    #[error("this node was about to serve with slot {serves}, and the directory says {has}; start it again")]
    OtherSlot {
        /// The slot that the data plane was started with.
        serves: NodeSlot,
        /// The slot that it has.
        has: NodeSlot,
    },
}

/// The engine.
pub struct Control {
    directory: Arc<LastSeen>,
    plane: Arc<dyn DataPlane>,
    identity: Identity,
    drives: drive::Scanner,
    audit: Option<AuditLog>,
    vault: Vault,
    formation: Option<Arc<crate::formation::Formation>>,
    gate: formation::Gate,
    /// What protects the links between nodes.
    link_security: LinkSecurity,
    /// Where it is kept which incarnation this node had last.
    lives: Option<crate::formation::Home>,
    /// The slot that the data plane was started with.
    slot: Option<NodeSlot>,
    started_unix_s: u64,
    /// The others, if there are any.
    among: Option<presence::Among>,
    /// How long another node may take to carry out what it has to do.
    outcome_wait: Duration,
    /// What those say who look after the directory's store.
    directory_health: Option<DirectoryHealth>,
    devices: DeviceLock,
    turn: Mutex<()>,
    serving: Mutex<()>,
    live: Mutex<Live>,
    followed: Arc<Mutex<Followed>>,
    ends: AtomicBool,
}

impl Control {
    /// An engine. Call [`Control::start`] before anything else.
    pub fn new(directory: Arc<dyn Directory>, plane: Arc<dyn DataPlane>, identity: Identity, drives: drive::Scanner) -> Self {
        let followed = Arc::new(Mutex::new(Followed::default()));
        Self {
            directory: Arc::new(LastSeen::new(directory, followed.clone())),
            plane,
            identity,
            drives,
            audit: None,
            vault: Vault::ephemeral(),
            formation: None,
            gate: formation::Gate::default(),
            link_security: LinkSecurity::default(),
            lives: None,
            slot: None,
            started_unix_s: now_unix_s(),
            among: None,
            outcome_wait: outcome::OUTCOME_WAIT,
            directory_health: None,
            devices: DeviceLock::default(),
            turn: Mutex::default(),
            serving: Mutex::default(),
            live: Mutex::default(),
            followed,
            ends: AtomicBool::new(false),
        }
    }

    /// Writes an audit log from now on.
    pub fn with_audit(self, log: AuditLog) -> Self {
        Self { audit: Some(log), ..self }
    }

    /// Has links with other nodes from now on, protected so.
    pub fn with_links(self, security: LinkSecurity) -> Self {
        Self { link_security: security, ..self }
    }

    /// Counts its lives there, too: an incarnation is never used twice, also when the directory comes back from a backup.
    pub fn with_lives(self, home: crate::formation::Home) -> Self {
        Self { lives: Some(home), ..self }
    }

    /// Seals secrets with this key from now on; without it they are lost at the end.
    pub fn with_vault(self, vault: Vault) -> Self {
        Self { vault, ..self }
    }

    /// Health says from now on, too, what those find who look after the directory's store. It is asked often, and must not wait.
    pub fn with_directory_health(self, look: DirectoryHealth) -> Self {
        Self { directory_health: Some(look), ..self }
    }

    /// The data plane was started with this slot ([`slot_of`]): another one is none to serve with.
    pub fn with_slot(self, slot: NodeSlot) -> Self {
        Self { slot: Some(slot), ..self }
    }

    /// Makes what a first start needs, opens the groups, finishes what a crash has left, serves.
    pub fn start(&self) -> Result<(), StartError> {
        let _devices = self.devices();
        self.note_restore()?;
        self.make_defaults()?;
        let incarnation = self.directory.find::<NodeRecord>(&self.identity.node)?.map_or(0, |n| n.incarnation);
        if let Some(home) = &self.lives {
            home.save_life(incarnation)?;
        }
        self.live().incarnation = incarnation;
        let only_here = cluster::only_on(&self.records()?.0, &self.identity.node);
        self.live().restarted = only_here;
        self.work()?;
        self.live().restarted.clear();
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

    /// Listens on one more address for iSCSI.
    pub fn listen_iscsi(&self, mut spec: iscsi::ListenerSpec) -> Result<SocketAddr, PlaneError> {
        let bound = self.plane.listen_iscsi(spec)?;
        spec.addr = bound;
        self.live().iscsi_listeners.push(spec);
        Ok(bound)
    }

    /// Tries again what is not finished: called now and then.
    pub fn retry(&self) {
        let _devices = self.devices();
        self.work_and_serve();
        self.lead();
    }

    fn work_and_serve(&self) {
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
        self.leave();
        let _devices = self.devices();
        let _serving = self.serving();
        self.plane.shutdown()
    }

    /// Its name.
    pub(crate) fn node_name(&self) -> &str {
        &self.identity.node
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

    /// This node is there, and has one start more; a new directory has what everybody needs.
    fn make_defaults(&self) -> Result<(), StartError> {
        let decide = || Ok::<_, StartError>((self.starting(self.defaults()?)?, ()));
        self.decided_or(decide, StartError::from).map(drop)
    }

    fn defaults(&self) -> Result<Transaction, DirectoryError> {
        let now = now_unix_s();
        let mut first = Transaction::new();
        // only in a directory without nodes, which is new: what an administrator has deleted stays deleted
        if self.directory.list(Kind::Node)?.is_empty() {
            let policy = PolicyRecord::new(DEFAULT_NAME.into(), cluster::Policy::default(), now);
            let subsystem = SubsystemRecord {
                nqn: cluster::default_nqn(DEFAULT_NAME),
                name: DEFAULT_NAME.into(),
                serial: serial(random()),
                allow_any_host: true,
                hosts: Default::default(),
                namespaces: Default::default(),
                security: Default::default(),
                iqn: None,
                namespace_grant: None,
                created_unix_s: now,
            };
            first = first.create(&policy).create(&subsystem).take_name(Kind::Subsystem, DEFAULT_NAME, &subsystem.nqn);
        }
        Ok(first)
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
        let transaction = request::bound(transaction, &self.identity.node);
        let pause = |tried: u32| std::thread::sleep(UNKNOWN_PAUSE * tried);
        let outcome = self.gate.pass(|| directory::commit_known(&*self.directory, transaction, Nonce(random()), pause));
        self.live().directory_full = matches!(outcome, Err(DirectoryError::Full));
        let revision = outcome?;
        request::decided();
        self.live().note_own(revision);
        Ok(revision)
    }

    /// Decides on what the directory holds, commits with the revisions that were read, and does both again when somebody else was faster. Gives
    /// the revision from which on it is so, and what was decided. `decide` only reads.
    ///
    /// Who has lost once decides again in turn with the others of this daemon, so that many at once do not make each other lose for ever.
    fn decided<T>(&self, decide: impl FnMut() -> Result<(Transaction, T), Problem>) -> Result<(Revision, T), Problem> {
        self.decided_or(decide, Problem::from)
    }

    /// [`Control::decided`] for those whose errors are others.
    fn decided_or<T, E>(
        &self,
        mut decide: impl FnMut() -> Result<(Transaction, T), E>,
        failed: impl Fn(DirectoryError) -> E,
    ) -> Result<(Revision, T), E> {
        let mut turn = None;
        for attempt in 1.. {
            let (transaction, value) = decide()?;
            match self.commit(transaction) {
                Ok(revision) => return Ok((revision, value)),
                // Another one leads, or has decided the same request: to decide again does not help.
                Err(DirectoryError::Conflict { key })
                    if attempt < CONFLICT_ATTEMPTS_MAX && !matches!(key.kind, Kind::Leader | Kind::Request) =>
                {
                    turn.get_or_insert_with(|| self.turn.lock().unwrap_or_else(|e| e.into_inner()));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        unreachable!("the last attempt gives its error")
    }

    /// Whether the request with this nonce was decided before.
    pub(crate) fn is_decided(&self, nonce: Nonce) -> Result<bool, Problem> {
        if hooks::seeded(SeededFault::RequestDecidedAgain) {
            return Ok(false);
        }
        Ok(self.directory.find::<RequestRecord>(&crate::cluster_client::nonce_text(nonce))?.is_some())
    }

    /// Whether something is under way with what the API calls so: a change of it was decided, and is not done yet.
    pub(crate) fn is_under_way(&self, kind: &str, name: &str) -> Result<bool, Problem> {
        let resolved = match kind {
            "volumes" => self.resolve::<VolumeRecord>(Kind::Volume, name, "volume", "volume list").map(|v| v.is_under_way()),
            "groups" => self.group_record(name).map(|g| g.stage != Stage::Ready),
            "policies" => self.policy_record(name).map(|p| p.before.is_some()),
            _ => Ok(false),
        };
        match resolved {
            Err(problem) if problem.code == crate::Code::NotFound => Ok(false),
            other => other,
        }
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

    /// One change of what is on the devices at a time; the reconciler is one too.
    fn devices(&self) -> HeldDevices<'_> {
        self.devices.lock()
    }
    /// One picture at a time goes to the data plane, so that an older one never follows a newer one.
    fn serving(&self) -> MutexGuard<'_, ()> {
        self.serving.lock().unwrap_or_else(|e| e.into_inner())
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
pub(crate) fn random() -> [u8; 16] {
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
    control.records_for_test();
    let (wanted, ..) = control.desired(served.generation).expect("the directory can be read");
    assert!(control.is_behind() || served == wanted, "{after}: served is {served:#?}, and the directory says {wanted:#?}");
}

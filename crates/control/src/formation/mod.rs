//! Forming a cluster: this server becomes the first node of one, lets others in, or joins.
//!
//! ```text
//!            create: authority, etcd, a copy of all records           the daemon starts itself anew
//!  one node ─────────────────────────────────────────► cluster.json ───────────────────────────────► node of a cluster
//!            join: identity and keys from a node of the cluster
//! ```
//!
//! Owns: the files of a membership ([`home`]), etcd's member of this node ([`member`]), making a cluster ([`create`]), invitations and who is let in
//! ([`admit`]), joining ([`join`]), the listener for other nodes ([`listener`]) and sending to theirs ([`client`]), a witness
//! ([`witness`]), an etcd that somebody else runs ([`external`]), certificates that end ([`certificate`]).
//! Invariants: a crash before the membership file has its name leaves what was there; after that the node is of the cluster; directories are not
//! changed in a running daemon; a private key of a node never leaves it.
//! Never: touches the data path; moves data.

mod admit;
mod certificate;
mod client;
mod create;
mod external;
mod home;
mod join;
pub mod listener;
mod member;
mod nodes;
mod repair;
mod wire;
pub mod witness;

pub use create::CLUSTER_PORT;
pub use external::{accept_restored, set_stopped};
pub use home::{ExternalFile, Home, MEMBERSHIP_FILE, MemberFile, MembershipFile};
pub use member::{KEEP_EVERY, Opened, open};
pub use repair::{follow_restored, restore};

use crate::{
    Code, Problem,
    api::types::Check,
    cluster_client::{NodeRequest, SendToNode, Sending},
    vault::Vault,
};
use authority::{AuthorityError, Identity, UnixSeconds};
use base::NodeRole;
use directory::record::NodeRecord;
use directory::{Directory, DirectoryError, EtcdDirectory, Nonce, Transaction, Typed, Versioned};
use etcd::server::{Server, ServerError};
use peers::LinkSecurity;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tls::ClusterSecret;
use tokio::sync::watch;

/// Before a change whose outcome is not known is looked for again; longer each time.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(50);

/// Why forming, joining or the start of a node of a cluster has failed.
#[derive(Debug, thiserror::Error)]
pub enum FormationError {
    /// A file.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The membership file cannot be understood.
    #[error("{} cannot be understood: {cause}; put back a copy of it, or install the release that has written it", .path.display())]
    Membership {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// Keys and certificates.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// etcd's server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// etcd's client.
    #[error(transparent)]
    Etcd(#[from] etcd::EtcdError),
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// An endpoint in the membership file.
    #[error(transparent)]
    Endpoint(#[from] etcd::BadEndpoint),
    /// A node listens there for other nodes.
    #[error("at {} a node listens for other nodes; its etcd is at {}", .given.authority(), .etcd.authority())]
    NotEtcd {
        /// What was given for an endpoint of etcd.
        given: etcd::Endpoint,
        /// The endpoint of etcd on that node.
        etcd: etcd::Endpoint,
    },
    /// It has no member of etcd of its own.
    #[error("this node has no member of etcd; restore from a backup, or on a node that has one")]
    NoMember,
    /// etcd has not begun to serve.
    #[error("etcd does not serve after {seconds} s: {why}")]
    EtcdSilent {
        /// After so long.
        seconds: u64,
        /// What it says.
        why: String,
    },
    /// Somebody else runs etcd.
    #[error("somebody else runs the etcd of this cluster: {what}")]
    External {
        /// What Basalt does not do, and what is to be done.
        what: &'static str,
    },
    /// The external etcd is another one than was seen, or an older copy of it.
    #[error(
        "the external etcd is not the one that this node has seen, or an older copy of it ({cause}); if the endpoints are wrong, \
         'basalt cluster set --etcd-endpoints .. --offline'; if who runs it has restored it, 'basalt cluster restore --external' on each node"
    )]
    Restored {
        /// What was found.
        cause: DirectoryError,
    },
    /// The copy of the records is not what was copied.
    #[error("the copy of the directory in etcd differs from the directory in {differ} record(s)")]
    Copy {
        /// In how many.
        differ: usize,
    },
    /// OpenSSL.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] openssl::error::ErrorStack),
    /// The cluster's listener.
    #[error("this node cannot listen for other nodes on {address}: {cause}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
}

impl From<FormationError> for Problem {
    fn from(error: FormationError) -> Self {
        let message = error.to_string();
        match error {
            FormationError::Directory(error) => error.into(),
            FormationError::Server(ServerError::Program { .. }) => {
                Self::new(Code::Unavailable, message, "install etcd (docs/etcd.md says how), or set cluster.etcd_programs")
            }
            FormationError::EtcdSilent { .. } => Self::new(Code::Unavailable, message, "see the daemon's log, then try again"),
            FormationError::Listen { cause, .. } => match cause.kind() {
                std::io::ErrorKind::AddrNotAvailable => {
                    Self::invalid(message, "give an address that this server has ('ip address' lists them)")
                }
                _ => Self::new(Code::Unavailable, message, "free the address, or give another port: --address ADDRESS:PORT"),
            },
            _ => Self::new(Code::Internal, message, "see the daemon's log (journalctl -u basalt)"),
        }
    }
}

/// How this run of the daemon goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It serves.
    #[default]
    Serves,
    /// It ends in order, and starts itself anew: what it is has changed.
    Again,
    /// It ends in order, for this reason.
    Over(String),
}

/// The cluster that this node is of, for as long as the daemon runs.
pub(crate) struct InCluster {
    pub(crate) file: Mutex<MembershipFile>,
    pub(crate) directory: Arc<EtcdDirectory>,
    /// It is replaced when it is renewed.
    identity: watch::Sender<Identity>,
    /// What an external etcd is used with.
    for_etcd: watch::Sender<Option<Identity>>,
    renewal: Mutex<certificate::Renewal>,
    server: Mutex<Option<Server>>,
    noted: Mutex<Option<directory::etcd::Seen>>,
    looked: Mutex<nodes::Looked>,
    sender: client::Sender,
}

impl InCluster {
    /// Changes this node's record. `false`: it has none, or was removed.
    fn change_own_record(&self, change: impl Fn(&mut NodeRecord)) -> Result<bool, FormationError> {
        let name = self.file().name;
        let decide = || {
            let there: Option<Versioned<NodeRecord>> = self.directory.find(&name)?;
            let Some(mut node) = there.filter(|n| n.is_member()) else { return Ok((Transaction::new(), false)) };
            change(&mut node.value);
            Ok::<_, DirectoryError>((Transaction::new().update(&node), true))
        };
        let commit = |t: Transaction| match t.changes.is_empty() {
            true => self.directory.revision(),
            false => {
                let nonce = Nonce(create::random_bytes());
                directory::commit_known(&*self.directory, t, nonce, |tried| std::thread::sleep(UNKNOWN_PAUSE * tried))
            }
        };
        Ok(directory::change(decide, commit)?.1)
    }
    pub(crate) fn identity(&self) -> Identity {
        self.identity.borrow().clone()
    }
    /// Why the cluster's settings for etcd are not used here.
    fn note_settings(&self, problem: Option<Problem>) {
        self.looked.lock().unwrap_or_else(|e| e.into_inner()).settings = problem;
    }
    pub(crate) fn file(&self) -> MembershipFile {
        self.file.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

/// What a daemon has to do with clusters.
pub struct Formation {
    home: Home,
    /// The folder with etcd and etcdctl.
    programs: PathBuf,
    of: Option<InCluster>,
    /// One change of the membership at a time.
    forming: Mutex<()>,
    ending: watch::Sender<Ending>,
}

impl Formation {
    /// Of a daemon that is alone.
    pub fn alone(home: Home, programs: &Path) -> Self {
        Self { home, programs: programs.to_owned(), of: None, forming: Mutex::default(), ending: watch::Sender::default() }
    }
    /// Of a node of a cluster.
    pub fn of_cluster(home: Home, programs: &Path, opened: Opened) -> Result<Self, FormationError> {
        let sender = client::Sender::new(&opened.identity, opened.directory.clone())?;
        let of = InCluster {
            file: Mutex::new(opened.file),
            directory: opened.directory,
            identity: watch::Sender::new(opened.identity),
            for_etcd: watch::Sender::new(opened.for_etcd),
            renewal: Mutex::default(),
            server: Mutex::new(opened.server),
            noted: Mutex::default(),
            looked: Mutex::default(),
            sender,
        };
        Ok(Self { of: Some(of), ..Self::alone(home, programs) })
    }
    /// What ends this run of the daemon.
    pub fn ending(&self) -> watch::Receiver<Ending> {
        self.ending.subscribe()
    }
    fn end(&self, how: Ending) {
        self.ending.send_replace(how);
    }
    /// The membership; `None`: this node is alone.
    pub fn membership(&self) -> Option<MembershipFile> {
        self.of.as_ref().map(InCluster::file)
    }
    /// What was wrong with the directory when it was last looked at, and with this node's certificates.
    pub fn checks(&self) -> Vec<Check> {
        self.of.as_ref().map_or_else(Vec::new, InCluster::checks)
    }
    /// What a node of the cluster has to do with etcd, in a word; `None`: there is no cluster.
    pub(crate) fn part_in_etcd(&self, node: &NodeRecord) -> Option<&'static str> {
        let file = self.membership()?;
        Some(match (file.external, node.etcd_peer) {
            (Some(_), _) => "external",
            (None, Some(_)) => "member",
            (None, None) => "client",
        })
    }
    pub(crate) fn of(&self) -> Option<&InCluster> {
        self.of.as_ref()
    }
    /// What protects the links between nodes: keys from the cluster's secret, or nothing when they are to be `plain`.
    pub fn link_security(&self, plain: bool) -> Result<LinkSecurity, FormationError> {
        if plain {
            return Ok(LinkSecurity::Plain);
        }
        let path = self.home.folder();
        let secret = ClusterSecret::new(self.home.peers_secret()?);
        let secret = secret.map_err(|cause| FormationError::Membership { path, cause: cause.to_string() })?;
        Ok(LinkSecurity::Tls(Some(secret)))
    }
    /// The daemon ends: the directory is not waited for any longer than `left`.
    pub fn end_directory_within(&self, left: Duration) {
        if let Some(of) = &self.of {
            of.directory.end_within(left);
        }
    }
    /// etcd's member ends in order; the daemon has ended before.
    pub fn stop(&self) {
        let Some(of) = &self.of else { return };
        self.note_seen(of);
        if let Some(server) = of.server.lock().unwrap_or_else(|e| e.into_inner()).take() {
            server.stop();
        }
    }
    fn forming(&self) -> MutexGuard<'_, ()> {
        self.forming.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn cluster(&self) -> Result<&InCluster, Problem> {
        let alone =
            || Problem::refused("this node is in no cluster", "make one ('basalt cluster create'), or join one ('basalt cluster join')");
        self.of.as_ref().ok_or_else(alone)
    }
}

impl SendToNode for Formation {
    fn send(&self, node: &str, request: NodeRequest) -> Sending {
        match &self.of {
            Some(of) => of.sender.send(node, request),
            None => {
                let node = node.to_owned();
                Box::pin(std::future::ready(Err(crate::cluster_client::SendError::NoSuchNode { node })))
            }
        }
    }
}

/// The key for secrets: the cluster's where there is one, else this installation's.
pub fn open_vault(home: &Home, membership: Option<&MembershipFile>) -> Result<Vault, crate::vault::VaultError> {
    match membership {
        Some(file) if file.role == NodeRole::Data => Vault::open(&home.folder()),
        _ => Vault::open(home.data_dir()),
    }
}

fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64))
}

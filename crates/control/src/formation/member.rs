//! This node and etcd: its member, if it runs one, the directory that it opens, and keeping both as they should be.
//!
//! ```text
//!  learner ──caught up──► voter            endpoints: those of all members that vote, this node's first
//! ```
//!
//! Owns: the start of a node of a cluster ([`open`]), and what is looked at now and then ([`Formation::keep`]).
//! Invariants: what was seen of etcd is kept over a restart; a node whose record is gone or says `removed` ends.
//! Never: gives up waiting for a quorum while the daemon is not asked to end.

use super::home::{Home, MemberFile, MembershipFile};
use super::{Ending, Formation, FormationError, InCluster};
use super::{certificate, external};
use authority::Identity;
use directory::etcd::{Open, Seen};
use directory::record::NodeRecord;
use directory::{DirectoryError, EtcdDirectory, Typed};
use etcd::message::Member;
use etcd::server::{Condition, Membership, QUOTA_BYTES, Server, Settings, members};
use etcd::{Client, Endpoint, Options};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Between two attempts to open the directory.
const AGAIN: Duration = Duration::from_millis(200);
/// The log says that often that it is waited for.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// A call of etcd that looks after the membership takes that long, at most.
const CALL_MAX: Duration = Duration::from_secs(5);
/// The membership is looked at that often.
pub const KEEP_EVERY: Duration = Duration::from_secs(5);

/// A node of a cluster that has its directory.
pub struct Opened {
    pub(super) file: MembershipFile,
    /// The directory.
    pub directory: Arc<EtcdDirectory>,
    pub(super) identity: Identity,
    /// What an external etcd is used with.
    pub(super) for_etcd: Option<Identity>,
    pub(super) server: Option<Server>,
}

/// How this node's member is run.
pub(super) fn settings(home: &Home, programs: &Path, name: &str, member: &MemberFile) -> Settings {
    Settings {
        name: name.to_owned(),
        program: programs.join("etcd"),
        dir: home.etcd_folder(),
        certificates: home.folder(),
        client: member.client,
        peer: member.peer,
        members: member.members.clone(),
        membership: member.token.clone().map_or(Membership::Joins, |token| Membership::New { token }),
        quota_bytes: QUOTA_BYTES,
    }
}

pub(super) fn client_of(file: &MembershipFile, identity: &Identity) -> Result<Client, FormationError> {
    let endpoints: Result<Vec<Endpoint>, _> = file.endpoints.iter().map(|e| e.parse()).collect();
    Ok(Client::new(Options { endpoints: endpoints?, identity: Some(identity.clone()) })?)
}

/// This node as it opens the directory.
pub(super) fn who(file: &MembershipFile, seen: Option<Seen>) -> Open {
    Open { cluster: file.cluster, writer: file.node.to_string(), incarnation: external::incarnation(), seen }
}

/// Starts this node's member, if it has one, and waits for the directory.
pub fn open(home: &Home, programs: &Path, file: MembershipFile) -> Result<Opened, FormationError> {
    let identity = certificate::at_start(home, &file, Identity::load(&home.folder())?, super::now())?;
    let server = file.member.as_ref().map(|m| Server::start(&settings(home, programs, &file.node.to_string(), m))).transpose()?;
    let (client, for_etcd) = external::client_for(home, &file, &identity)?;
    let who = who(&file, home.seen()?);
    let (began, mut said) = (Instant::now(), Instant::now());
    loop {
        match EtcdDirectory::open(client.clone(), who.clone()) {
            Ok(directory) => {
                if let Err(error) = external::settle(home, &file, &client) {
                    tracing::warn!(%error, "what is left of making the cluster in etcd is tried again at the next start");
                }
                return Ok(Opened { file, directory: Arc::new(directory), identity, for_etcd, server });
            }
            Err(DirectoryError::Unavailable | DirectoryError::Unknown { .. }) => {}
            Err(cause) if file.external.is_some() && cause.ends_everything() => return Err(FormationError::Restored { cause }),
            Err(error) => return Err(error.into()),
        }
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            let why = match &file.external {
                Some(_) => outside(&client),
                None => server.as_ref().map(condition).unwrap_or_default(),
            };
            let at = file.endpoints.join(", ");
            tracing::warn!(
                seconds = began.elapsed().as_secs(),
                "the directory has no quorum yet; waiting for members of etcd at {at}{why}"
            );
        }
        std::thread::sleep(AGAIN);
    }
}

/// How a member's process is, where that explains something.
pub(super) fn condition(server: &Server) -> String {
    match server.condition() {
        Condition::Waiting { ended, .. } => {
            let last = server.log().pop().unwrap_or_default();
            format!("; this node's own member does not run: {ended} {last}")
        }
        _ => String::new(),
    }
}

/// Why an external etcd cannot be used.
fn outside(client: &Client) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let why = runtime.map(|r| r.block_on(etcd::external::check(client)).err());
    why.ok().flatten().map_or_else(String::new, |why| format!("; {why}"))
}

/// Opens the directory of a new cluster on a member that was started a moment ago.
pub(super) fn make_directory(
    client: &Client,
    file: &MembershipFile,
    server: &Server,
    wait: Duration,
) -> Result<EtcdDirectory, FormationError> {
    let who = who(file, None);
    let began = Instant::now();
    loop {
        match EtcdDirectory::create(client.clone(), who.clone()) {
            Ok(directory) => return Ok(directory),
            Err(DirectoryError::Unavailable | DirectoryError::Unknown { .. }) if began.elapsed() < wait => std::thread::sleep(AGAIN),
            Err(DirectoryError::Unavailable | DirectoryError::Unknown { .. }) => {
                let why = match server.condition() {
                    Condition::Waiting { ended, .. } => format!("{ended}; {}", server.log().pop().unwrap_or_default()),
                    _ => "it runs and has no leader".into(),
                };
                return Err(FormationError::EtcdSilent { seconds: wait.as_secs(), why });
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Members that serve clients and vote, as endpoints; `first` goes first.
pub(super) fn endpoints_of(all: &[Member], first: &str) -> Vec<String> {
    let mut sorted: Vec<&Member> = all.iter().filter(|m| !m.is_learner && !m.client_urls.is_empty()).collect();
    sorted.sort_by_key(|m| (m.name != first, m.name.clone()));
    sorted.into_iter().filter_map(|m| m.client_urls.first().cloned()).collect()
}

impl Formation {
    /// Looks after the membership. To be called every [`KEEP_EVERY`], on a thread that may wait.
    pub fn keep(&self, runtime: &tokio::runtime::Handle) {
        let Some(of) = &self.of else { return };
        self.note_seen(of);
        self.keep_certificate(of, runtime);
        runtime.block_on(of.look());
        match of.directory.find::<NodeRecord>(&of.file().name) {
            Ok(Some(record)) if record.is_member() => {}
            Ok(_) => {
                let why =
                    "this node was removed from its cluster; to use the server again, give it an empty data directory and let it join anew";
                return self.end(Ending::Over(why.into()));
            }
            Err(DirectoryError::Unavailable) => return,
            Err(error @ (DirectoryError::Older { .. } | DirectoryError::Replaced { .. } | DirectoryError::Diverged { .. })) => {
                tracing::error!(%error, "the directory is not the one that was seen");
                return;
            }
            Err(error) => return tracing::warn!(%error, "the membership cannot be looked at"),
        }
        if of.file().external.is_some() {
            let _one = self.forming();
            let followed = self.follow_record(of, runtime);
            if let Err(problem) = &followed {
                tracing::warn!(error = %problem, "the settings of the cluster's etcd");
            }
            of.note_settings(followed.err());
            return;
        }
        if let Err(error) = runtime.block_on(self.keep_members(of)) {
            tracing::debug!(%error, "the members of etcd cannot be looked at");
        }
    }

    async fn keep_members(&self, of: &InCluster) -> Result<(), FormationError> {
        let until = || tokio::time::Instant::now() + CALL_MAX;
        let client = of.directory.client();
        let mut all = members::list(client, until()).await?;
        let file = of.file();
        let mine = file.node.to_string();
        if let Some(learner) = all.iter().find(|m| m.name == mine && m.is_learner) {
            members::promote(client, learner.id, until()).await?;
            tracing::info!("this node's member of etcd votes now");
            all = members::list(client, until()).await?;
        }
        let endpoints = endpoints_of(&all, &mine);
        if endpoints.is_empty() || endpoints == file.endpoints {
            return Ok(());
        }
        let parsed: Result<Vec<Endpoint>, _> = endpoints.iter().map(|e| e.parse()).collect();
        of.directory.set_endpoints(parsed?)?;
        let _one = self.forming();
        let mut kept = of.file.lock().unwrap_or_else(|e| e.into_inner());
        kept.endpoints = endpoints;
        self.home.save_membership(&kept)
    }

    pub(super) fn note_seen(&self, of: &InCluster) {
        let seen = of.directory.seen();
        let mut noted = of.noted.lock().unwrap_or_else(|e| e.into_inner());
        if *noted == Some(seen) {
            return;
        }
        match self.home.save_seen(seen) {
            Ok(()) => *noted = Some(seen),
            Err(error) => tracing::warn!(%error, "what was seen of the directory cannot be kept"),
        }
    }
}

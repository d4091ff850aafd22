//! `cluster create`: a server that is alone becomes the first node of a cluster.
//!
//! ```text
//!  authority, certificate, keys ─► etcd, one member ─► changes held ─► records copied ─► cluster.json ─► the daemon starts itself anew
//!  └──────────────── a failure or a crash leaves a server that is alone, as it was ────────────────┘
//! ```
//!
//! Invariants: ids stay, so volumes, hosts and identifiers do; no change is taken between the copy and the restart; the copy is compared before
//! it counts.
//! Never: moves data.

use super::external::{External, Making};
use super::home::{MemberFile, MembershipFile};
use super::member::{client_of, make_directory, settings};
use super::{Ending, Formation, FormationError, UNKNOWN_PAUSE, now};
use crate::api::types as api;
use crate::vault::random;
use crate::{Control, Problem};
use authority::{Authority, Identity, Subject};
use base::{ClusterId, NodeId, NodeRole};
use directory::record::{EtcdRecord, NodeRecord};
use directory::{Action, CHANGE_BYTES, Directory, Entry, EtcdDirectory, Expect, Kind, Nonce, Record, TRANSACTION_BYTES_MAX, Transaction};
use etcd::server::Server;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};
use tls::CLUSTER_SECRET_BYTES;
use tokio::runtime::Handle;

/// Where nodes listen for other nodes when nobody says; etcd's ports are the two after it.
pub const CLUSTER_PORT: u16 = 7420;
/// Until the new etcd serves.
const ETCD_START_MAX: Duration = Duration::from_secs(60);
/// Records in one transaction of the copy.
const COPY_CHANGES_MAX: usize = 100;

/// The addresses of a node: its listener for other nodes, and its member of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub cluster: SocketAddr,
    pub client: SocketAddr,
    pub peer: SocketAddr,
}

impl Addresses {
    /// From what the administrator has given: `ADDRESS` or `ADDRESS:PORT`; with port 0 the system chooses.
    pub fn of(text: &str) -> Result<Self, Problem> {
        let parsed = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, CLUSTER_PORT)).or_else(|_| text.parse::<SocketAddr>());
        let Ok(cluster) = parsed else {
            return Err(Problem::invalid(
                format!("'{text}' is no address"),
                "give an IP address of this server at which the others reach it",
            ));
        };
        if cluster.ip().is_unspecified() || cluster.ip().is_multicast() {
            let message = format!("{cluster} is no address at which other nodes could reach this server");
            return Err(Problem::invalid(message, "give this server's own address with --address"));
        }
        let after = |n: u16| cluster.port().checked_add(n).map(|port| SocketAddr::new(cluster.ip(), port));
        let (Some(client), Some(peer)) = (after(1), after(2)) else {
            return Err(Problem::invalid(format!("after port {} there are no two more for etcd", cluster.port()), "give a lower port"));
        };
        if cluster.port() == 0 { Self::chosen(cluster.ip()) } else { Self { cluster, client, peer }.free() }
    }

    fn chosen(ip: IpAddr) -> Result<Self, Problem> {
        let bind = || -> Result<_, std::io::Error> { TcpListener::bind((ip, 0)).and_then(|l| Ok((l.local_addr()?, l))) };
        // Held until all three are there, so that they differ.
        let all = [bind(), bind(), bind()].map(|r| r.map_err(|cause| listen(SocketAddr::new(ip, 0), cause)));
        let [cluster, client, peer] = all;
        let ((cluster, _a), (client, _b), (peer, _c)) = (cluster?, client?, peer?);
        Ok(Self { cluster, client, peer })
    }

    /// The addresses, when nobody listens there.
    fn free(self) -> Result<Self, Problem> {
        for address in [self.cluster, self.client, self.peer] {
            TcpListener::bind(address).map_err(|cause| listen(address, cause))?;
        }
        Ok(self)
    }

    /// What a certificate has to name: etcd compares where connections come from, and those between loopback addresses come from 127.0.0.1.
    pub fn names(&self) -> Vec<IpAddr> {
        names_of(self.cluster.ip(), None)
    }
}

/// An address, where it was seen to connect from, and 127.0.0.1 beside another loopback address.
pub(super) fn names_of(address: IpAddr, from: Option<IpAddr>) -> Vec<IpAddr> {
    let mut names = vec![address];
    names.extend(from);
    names.extend(address.is_loopback().then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    names.sort();
    names.dedup();
    names
}

fn listen(address: SocketAddr, cause: std::io::Error) -> Problem {
    FormationError::Listen { address, cause }.into()
}

pub(super) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    random(&mut bytes);
    bytes
}

impl Formation {
    /// Makes a cluster of this server, with all that it has. When it returns well, the daemon is about to start itself anew.
    pub fn create(&self, control: &Control, new: &api::NewCluster, runtime: &Handle) -> Result<api::ClusterFormed, Problem> {
        let _one = self.forming();
        self.refuse_member()?;
        let addresses = Addresses::of(&new.address)?;
        let node = control.own_record()?;
        let id = node.id.ok_or_else(|| Problem::refused("this node has no identity yet", "restart the daemon, then try again"))?;
        if let Some(name) = &new.name {
            cluster::check_name(name)?;
        }
        let external = new.etcd.as_ref().map(|given| External::given(given, None)).transpose()?;
        let making = Making { control, node: &node, id, name: new.name.as_deref(), addresses };
        let made = match &external {
            Some(external) => self.make_external(&making, external, runtime),
            None => self.make(&making).map_err(Problem::from),
        };
        if made.is_err() {
            // What is left is removed by the next attempt at the latest.
            let _ = self.home.clear();
        }
        let cluster = made?;
        self.end(Ending::Again);
        tracing::info!(%cluster, "this node is the first of a cluster now; the daemon starts itself anew");
        let name = new.name.clone().unwrap_or_else(|| node.shown_name().to_owned());
        Ok(api::ClusterFormed { cluster: cluster.to_string(), node: name, address: addresses.cluster.to_string() })
    }

    pub(super) fn refuse_member(&self) -> Result<(), Problem> {
        match self.home.membership()? {
            None => Ok(()),
            Some(file) => Err(Problem::refused(
                format!("this node is in cluster {} already", file.cluster),
                "'basalt node list' shows its nodes; a node can be in one cluster only",
            )),
        }
    }

    fn make(&self, making: &Making<'_>) -> Result<ClusterId, FormationError> {
        let Making { control, node, id, addresses, .. } = *making;
        let cluster = control.directory().cluster();
        self.home.prepare()?;
        let identity = self.make_identity(control, cluster, id, addresses)?;
        let mut file = MembershipFile::new(cluster, id, node.name.clone(), addresses.cluster);
        let token: [u8; 16] = random_bytes();
        let member = MemberFile {
            client: addresses.client,
            peer: addresses.peer,
            members: BTreeMap::from([(id.to_string(), addresses.peer)]),
            token: Some(NodeId::from_random(token).to_string()),
        };
        let settings = settings(&self.home, &self.programs, &id.to_string(), &member);
        file.endpoints = vec![settings.endpoint().to_string()];
        file.member = Some(member);
        let server = Server::start(&settings)?;
        let made = make_directory(&client_of(&file, &identity)?, &file, &server, ETCD_START_MAX);
        let made = made.and_then(|etcd| self.fill(making, &etcd, &file, None));
        server.stop();
        made.map(|()| cluster)
    }

    /// Copies all records into a directory that was just made, and commits. `external`: where that is, when somebody else runs it.
    pub(super) fn fill(
        &self,
        making: &Making<'_>,
        etcd: &EtcdDirectory,
        file: &MembershipFile,
        external: Option<&EtcdRecord>,
    ) -> Result<(), FormationError> {
        let Making { control, node, name, addresses, .. } = *making;
        let held = control.hold_changes();
        let in_cluster = NodeRecord {
            display_name: name.map(str::to_owned).or_else(|| node.display_name.clone()),
            role: NodeRole::Data,
            address: Some(addresses.cluster),
            etcd_peer: file.member.as_ref().map(|m| m.peer),
            ..control.own_record_of_directory()?
        };
        copy(&*control.directory(), etcd, &in_cluster, external)?;
        self.home.save_seen(etcd.seen())?;
        self.commit_membership(file)?;
        held.for_ever();
        Ok(())
    }

    /// The commit point. A file that has its name counts, even when it is not known whether its folder is on stable media: the next start finds it.
    pub(super) fn commit_membership(&self, file: &MembershipFile) -> Result<(), FormationError> {
        match self.home.save_membership(file) {
            Err(error) if self.home.membership().ok().flatten().as_ref() != Some(file) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn make_identity(
        &self,
        control: &Control,
        cluster: ClusterId,
        node: NodeId,
        addresses: Addresses,
    ) -> Result<Identity, FormationError> {
        let authority = Authority::create(&cluster.to_string(), now())?;
        let identity = authority.issue(&Subject::new(node.to_string(), addresses.names()), now())?;
        authority.save(&self.home.folder())?;
        identity.save(&self.home.folder())?;
        self.home.save_peers_secret(&random_bytes::<CLUSTER_SECRET_BYTES>())?;
        self.home.save_vault_key(control.vault_key())?;
        Ok(identity)
    }
}

/// Everything but what goes with sessions, and this node's record as it is in a cluster.
fn copy(from: &dyn Directory, to: &EtcdDirectory, node: &NodeRecord, external: Option<&EtcdRecord>) -> Result<(), FormationError> {
    let snapshot = from.snapshot()?;
    let stays = |e: &Entry| !matches!(e.key.kind, Kind::Presence | Kind::Leader | Kind::Etcd | Kind::Store);
    let node_key = directory::Key::new(NodeRecord::KIND, node.id());
    let mut wanted: BTreeMap<_, _> = snapshot.entries.into_iter().filter(stays).map(|e| (e.key, e.value)).collect();
    wanted.insert(node_key, serde_json::to_vec(node).expect("records are plain data"));
    if let Some(external) = external {
        let key = directory::Key::new(EtcdRecord::KIND, external.id());
        wanted.insert(key, serde_json::to_vec(external).expect("records are plain data"));
    }
    let mut batch = Transaction::new();
    for (key, value) in &wanted {
        let more = 3 * key.bytes() + value.len() + CHANGE_BYTES;
        if batch.changes.len() >= COPY_CHANGES_MAX || batch.bytes() + more > TRANSACTION_BYTES_MAX {
            commit(to, std::mem::take(&mut batch))?;
        }
        batch = batch.with(key.clone(), Expect::Absent, Action::Put(value.clone()));
    }
    commit(to, batch)?;
    let names = Transaction::new().take_name(Kind::Node, node.shown_name(), &node.id());
    commit(to, names)?;
    let copied: BTreeMap<_, _> = to.snapshot()?.entries.into_iter().map(|e| (e.key, e.value)).collect();
    let differ = wanted.iter().filter(|(key, value)| copied.get(key) != Some(value)).count();
    if differ == 0 && copied.len() == wanted.len() + 1 { Ok(()) } else { Err(FormationError::Copy { differ: differ.max(1) }) }
}

fn commit(to: &EtcdDirectory, batch: Transaction) -> Result<(), FormationError> {
    if batch.changes.is_empty() {
        return Ok(());
    }
    let pause = |tried: u32| std::thread::sleep(UNKNOWN_PAUSE * tried);
    Ok(directory::commit_known(to, batch, Nonce(random_bytes()), pause).map(drop)?)
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;

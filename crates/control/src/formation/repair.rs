//! Backups of the directory, restoring one, and a member of etcd in the place of one that is lost.
//!
//! ```text
//!  renew:     own member stops ─► out of the membership file ─► out of etcd, its folder removed ─► added as a learner ─► started ─► votes
//!  restore:   all daemons stopped ─► one node: store from the backup, a new etcd cluster of one ─► the others: endpoints there, no member
//! ```
//!
//! Invariants: a member without its store is never started as one of a new cluster: the membership file forgets it before its folder goes; a
//! restored directory is another etcd cluster than before.
//! Never: restores while a daemon runs (the caller holds the data directory's lock).

use super::admit::{add_when_possible, members_of};
use super::create::{Addresses, random_bytes};
use super::home::{Home, MemberFile, MembershipFile};
use super::member::settings;
use super::wire::MemberOffer;
use super::{Formation, FormationError, InCluster, now};
use crate::Problem;
use crate::api::types as api;
use base::NodeId;
use etcd::Endpoint;
use etcd::server::{Server, backup, members};
use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{runtime::Handle, time::Instant};

/// A change of etcd's members takes that long, at most.
const CHANGE_MAX: Duration = Duration::from_secs(30);

impl Formation {
    /// Writes a backup of the directory into a file on this node.
    pub fn backup(&self, path: &Path, runtime: &Handle) -> Result<api::Backup, Problem> {
        let of = self.cluster()?;
        of.file()
            .refuse_external("takes no backup of it", "who runs it backs it up ('etcdctl snapshot save'), and keeps the backups safe")?;
        if !path.is_absolute() {
            return Err(Problem::invalid(
                format!("'{}' is not an absolute path", path.display()),
                "write the whole path, beginning with /",
            ));
        }
        let taken = runtime.block_on(backup::take(of.directory.client(), path)).map_err(FormationError::from)?;
        Ok(api::Backup { path: path.display().to_string(), bytes: taken.bytes, taken_unix_s: now().0.unsigned_abs() })
    }

    /// Gives this node a new member of etcd: in the place of the one whose store is lost or damaged, or because it has none.
    pub fn renew_member(&self, runtime: &Handle) -> Result<(), Problem> {
        let of = self.cluster()?;
        of.file().refuse_external(
            "replaces no member of it",
            "who runs it replaces the member; when its endpoints change: 'basalt cluster set --etcd-endpoints'",
        )?;
        let offer = {
            let _one = self.forming();
            self.take_out(of, runtime)?
        };
        let all = runtime.block_on(add_when_possible(of, &offer)).map_err(FormationError::from)?;
        let Some(all) = all else {
            return Err(Problem::refused("etcd has as many members as are of use", "'basalt cluster status' shows them"));
        };
        let _one = self.forming();
        let node = of.file().node;
        let member = MemberFile { client: offer.client, peer: offer.peer, members: members_of(&all, node, offer.peer), token: None };
        let server = Server::start(&settings(&self.home, &self.programs, &node.to_string(), &member)).map_err(FormationError::from)?;
        *of.server.lock().unwrap_or_else(|e| e.into_inner()) = Some(server);
        self.change_file(of, |file| file.member = Some(member))?;
        of.change_own_record(|node| node.etcd_peer = Some(offer.peer))?;
        Ok(())
    }

    /// This node's member is gone, from etcd and from here. Gives where a new one is to be.
    fn take_out(&self, of: &InCluster, runtime: &Handle) -> Result<MemberOffer, Problem> {
        let file = of.file();
        let offer = match &file.member {
            Some(member) => MemberOffer { client: member.client, peer: member.peer },
            None => after(file.address)?,
        };
        let (client, until) = (of.directory.client(), || Instant::now() + CHANGE_MAX);
        let url = format!("https://{}", offer.peer);
        let all = runtime.block_on(members::list(client, until())).map_err(FormationError::from)?;
        let (mine, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|m| m.peer_urls.contains(&url));
        let endpoints = super::member::endpoints_of(&others, "");
        if endpoints.is_empty() {
            let message = "no other member of etcd votes: this one cannot be replaced";
            return Err(Problem::refused(message, "restore a backup (docs/cluster.md), or let another node join first"));
        }
        let parsed: Result<Vec<Endpoint>, _> = endpoints.iter().map(|e| e.parse()).collect();
        of.directory.set_endpoints(parsed.map_err(FormationError::from)?)?;
        if let Some(server) = of.server.lock().unwrap_or_else(|e| e.into_inner()).take() {
            server.stop();
        }
        self.change_file(of, |file| (file.member, file.endpoints) = (None, endpoints))?;
        for member in mine {
            runtime.block_on(members::remove(client, member.id, until())).map_err(FormationError::from)?;
        }
        remove(&self.home.etcd_folder())?;
        Ok(offer)
    }

    fn change_file(&self, of: &InCluster, change: impl FnOnce(&mut MembershipFile)) -> Result<(), FormationError> {
        let mut kept = of.file.lock().unwrap_or_else(|e| e.into_inner());
        let mut file = kept.clone();
        change(&mut file);
        self.home.save_membership(&file)?;
        *kept = file;
        Ok(())
    }
}

/// Where the member is of a node that has none yet.
fn after(cluster: SocketAddr) -> Result<MemberOffer, Problem> {
    let of = |n: u16| cluster.port().checked_add(n).map(|port| SocketAddr::new(cluster.ip(), port));
    match (of(1), of(2)) {
        (Some(client), Some(peer)) => Ok(MemberOffer { client, peer }),
        _ => Addresses::of(&format!("{}:0", cluster.ip())).map(|a| MemberOffer { client: a.client, peer: a.peer }),
    }
}

fn remove(folder: &Path) -> Result<(), FormationError> {
    match fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(FormationError::Io { path: folder.into(), cause }),
        _ => Ok(()),
    }
}

fn refuse_external(file: &MembershipFile) -> Result<(), FormationError> {
    let what = "who runs it restores it there; then run 'basalt cluster restore --external' on each node, with its daemon stopped";
    if file.external.is_some() { Err(FormationError::External { what }) } else { Ok(()) }
}

/// Gives where it is then.
fn set_aside(home: &Home) -> Result<PathBuf, FormationError> {
    let (path, to) = (home.etcd_folder(), home.data_dir().join(format!("etcd.before-restore-{}", now().0)));
    match fs::rename(&path, &to) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(FormationError::Io { path, cause }),
        _ => Ok(to),
    }
}

/// The first node of a restored directory: its member gets its store from a backup, or (`None`) from what it had stored itself, and is the only one. What
/// was stored before is kept beside it. Gives where etcd answers then.
pub fn restore(home: &Home, programs: &Path, mut file: MembershipFile, from: Option<&Path>) -> Result<Endpoint, FormationError> {
    refuse_external(&file)?;
    match from {
        Some(from) => drop(backup::look(from)?),
        None if file.member.is_none() => return Err(FormationError::NoMember),
        None => {}
    }
    let id = file.node.to_string();
    let (client, peer) = match &file.member {
        Some(member) => (member.client, member.peer),
        None => {
            let at = |n: u16| SocketAddr::new(file.address.ip(), file.address.port().saturating_add(n));
            (at(1), at(2))
        }
    };
    let token = NodeId::from_random(random_bytes()).to_string();
    let member = MemberFile { client, peer, members: BTreeMap::from([(id.clone(), peer)]), token: Some(token) };
    let settings = settings(home, programs, &id, &member);
    // With neither a store nor a member there is nothing that could start as something else.
    home.save_membership(&MembershipFile { member: None, ..file.clone() })?;
    let before = set_aside(home)?;
    let store = before.join(settings.store().file_name().unwrap_or_default());
    let source = from.map_or(backup::Source::Member(&store), backup::Source::Backup);
    if let Err(error) = backup::restore(&programs.join("etcdctl"), source, &settings) {
        // As it was: it can be tried again.
        remove(&home.etcd_folder())?;
        if before.exists() {
            fs::rename(&before, home.etcd_folder()).map_err(|cause| FormationError::Io { path: before, cause })?;
        }
        home.save_membership(&file)?;
        return Err(error.into());
    }
    home.forget_seen()?;
    file.endpoints = vec![settings.endpoint().to_string()];
    file.member = Some(member);
    home.save_membership(&file)?;
    Ok(settings.endpoint())
}

/// Another node of a restored directory: it goes to where that is, and has no member of its own until it gets a new one.
pub fn follow_restored(home: &Home, mut file: MembershipFile, endpoint: &str) -> Result<(), FormationError> {
    refuse_external(&file)?;
    let endpoint: Endpoint = endpoint.parse()?;
    // The address that administrators know is one port before that of etcd.
    let etcd = Endpoint { port: endpoint.port.saturating_add(1), ..endpoint.clone() };
    if file.endpoints.iter().any(|known| known.parse() == Ok(etcd.clone())) {
        return Err(FormationError::NotEtcd { given: endpoint, etcd });
    }
    file.member = None;
    file.endpoints = vec![endpoint.to_string()];
    home.save_membership(&file)?;
    home.forget_seen()?;
    set_aside(home).map(drop)
}

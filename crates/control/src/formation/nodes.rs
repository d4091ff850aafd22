//! The cluster as it is, and a node that leaves it.
//!
//! Invariants: the record of a node that was removed stays, and says so; its member of etcd goes; what is lost with it is lost only when that is
//! forced.
//! Never: removes the node that answers, or the last member of etcd.

use super::{Formation, InCluster};
use crate::api::types as api;
use crate::{Control, Problem};
use api::Health;
use directory::record::{NodeRecord, NodeState};
use directory::{Directory, HeldName, Kind, Transaction, Typed, Versioned};
use etcd::server::{health::Looker, members};
use std::{collections::BTreeMap, time::Duration};
use tokio::{runtime::Handle, time::Instant};

/// Health looks at etcd's members that often.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// Removing a member of etcd takes that long, at most.
const MEMBER_REMOVE_MAX: Duration = Duration::from_secs(30);

/// What was seen of etcd's members, for health.
#[derive(Default)]
pub(super) struct Looked {
    looker: Looker,
    at: Option<std::time::Instant>,
    external: etcd::external::Looker,
    pub(super) checks: Vec<api::Check>,
    /// Why the cluster's settings for its etcd are not used here.
    pub(super) settings: Option<Problem>,
}

impl InCluster {
    /// Looks at etcd's members, when the last time was [`LOOK_EVERY`] ago.
    pub(super) async fn look(&self) {
        if self.file().external.is_some() {
            return self.look_outside().await;
        }
        let mut looker = {
            let mut looked = self.looked.lock().unwrap_or_else(|e| e.into_inner());
            if looked.at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
                return;
            }
            looked.at = Some(std::time::Instant::now());
            std::mem::take(&mut looked.looker)
        };
        let checks = match looker.look(self.directory.client()).await {
            Ok(health) => checks(&health, &names_of_records(&*self.directory)),
            Err(error) => vec![no_answer(&error.to_string())],
        };
        let mut looked = self.looked.lock().unwrap_or_else(|e| e.into_inner());
        (looked.looker, looked.checks) = (looker, checks);
    }

    async fn look_outside(&self) {
        let mut looker = {
            let mut looked = self.looked.lock().unwrap_or_else(|e| e.into_inner());
            if looked.at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
                return;
            }
            looked.at = Some(std::time::Instant::now());
            std::mem::take(&mut looked.external)
        };
        let health = looker.look(self.directory.client()).await;
        let mut looked = self.looked.lock().unwrap_or_else(|e| e.into_inner());
        (looked.external, looked.checks) = (looker, checks_outside(&health));
    }

    /// What is wrong with the directory, as it was last looked at, and with certificates.
    pub(super) fn checks(&self) -> Vec<api::Check> {
        let mut checks = self.looked.lock().unwrap_or_else(|e| e.into_inner()).checks.clone();
        checks.extend(self.own_checks());
        checks
    }

    /// What only this node knows.
    fn own_checks(&self) -> Vec<api::Check> {
        let mut checks = self.certificate_checks(super::now());
        if let Some(problem) = &self.looked.lock().unwrap_or_else(|e| e.into_inner()).settings {
            checks.push(api::Check {
                id: "etcd_settings".into(),
                health: Health::Warning,
                subject: String::new(),
                message: problem.message.clone(),
                action: problem.action.clone(),
            });
        }
        if !checks.is_empty() {
            // The directory may be slow: it is asked only when there is something to say.
            let (id, names) = (self.file().node.to_string(), names_of_records(&*self.directory));
            let subject = format!("node {}", names.get(&id).unwrap_or(&id));
            checks.iter_mut().for_each(|c| c.subject.clone_from(&subject));
        }
        checks
    }
}

impl Formation {
    /// The cluster, as this node sees it.
    pub fn status(&self, control: &Control, runtime: &Handle) -> Result<api::Cluster, Problem> {
        let Some(of) = self.of() else {
            let cluster = control.directory().cluster().to_string();
            let node = control.own_record()?.shown_name().to_owned();
            let (members, checks) = (Vec::new(), Vec::new());
            return Ok(api::Cluster {
                cluster,
                formed: false,
                node,
                role: "data".into(),
                address: None,
                directory: api::DirectoryKind::Own,
                certificate_until_unix_s: None,
                members,
                quorum: true,
                checks,
            });
        };
        Ok(status_of(of, runtime))
    }

    /// Removes a node: it cannot come back with what it has.
    pub fn remove_node(&self, control: &Control, name: &str, force: bool, runtime: &Handle) -> Result<(), Problem> {
        let of = self.cluster()?;
        let node = control.find_node(name)?;
        if node.name == of.file().name {
            let message = format!("{} is the node that answers", node.shown_name());
            return Err(Problem::refused(message, "run the command on another node of the cluster (--api)"));
        }
        let client = of.directory.client();
        let until = || Instant::now() + MEMBER_REMOVE_MAX;
        let list = || runtime.block_on(members::list(client, until())).map_err(super::FormationError::from);
        let url = node.etcd_peer.map(|peer| format!("https://{peer}"));
        // Members that others run are not ours to count.
        let all = if of.file().external.is_some() { Vec::new() } else { list()? };
        let member = url.and_then(|url| all.iter().find(|m| m.peer_urls.contains(&url)));
        let voters = all.iter().filter(|m| !m.is_learner).count();
        if member.is_some_and(|m| !m.is_learner) && voters == 1 {
            let message = format!("{} runs the only member of etcd that votes", node.shown_name());
            return Err(Problem::refused(message, "let another node or a witness join first"));
        }
        control.abandon_groups(&node, force)?;
        control.change_records(|| {
            let mut node: Versioned<NodeRecord> = control.record_of(&node.name)?;
            if !node.is_member() {
                return Ok((Transaction::new(), ()));
            }
            node.state = NodeState::Removed { unix_s: super::now().0.unsigned_abs() };
            let t = Transaction::new().update(&node);
            let held = HeldName::find(&*control.directory(), Kind::Node, node.shown_name())?;
            Ok((held.map_or(t.clone(), |held| t.free_name(&held)), ()))
        })?;
        if let Some(member) = member {
            runtime.block_on(members::remove(client, member.id, until())).map_err(super::FormationError::from)?;
        }
        tracing::info!(node = %node.shown_name(), id = %node.name, "a node was removed from the cluster");
        Ok(())
    }
}

/// How the cluster is, as one of its nodes sees it.
pub(super) fn status_of(of: &InCluster, runtime: &Handle) -> api::Cluster {
    let (file, names) = (of.file(), names_of_records(&*of.directory));
    let client = of.directory.client();
    let (members, quorum, mut checks) = match file.external {
        Some(_) => {
            let health = runtime.block_on(etcd::external::Looker::default().look(client));
            (health.endpoints.iter().map(show_endpoint).collect(), health.quorum, checks_outside(&health))
        }
        None => match runtime.block_on(Looker::default().look(client)) {
            Ok(health) => (health.members.iter().map(|m| show(m, &names)).collect(), health.quorum, checks(&health, &names)),
            Err(error) => (Vec::new(), false, vec![no_answer(&error.to_string())]),
        },
    };
    checks.extend(of.own_checks());
    let id = file.node.to_string();
    api::Cluster {
        cluster: file.cluster.to_string(),
        formed: true,
        node: names.get(&id).cloned().unwrap_or(id),
        role: file.role.word().to_owned(),
        address: Some(file.address.to_string()),
        directory: if file.external.is_some() { api::DirectoryKind::ExternalEtcd } else { api::DirectoryKind::Etcd },
        certificate_until_unix_s: of.identity().validity().ok().map(|v| v.until.0.unsigned_abs()),
        members,
        quorum,
        checks,
    }
}

/// What nodes are called, by how records and etcd name them.
fn names_of_records(directory: &dyn Directory) -> BTreeMap<String, String> {
    let nodes = directory.all::<NodeRecord>().unwrap_or_default();
    let both = |n: Versioned<NodeRecord>| {
        let shown = n.shown_name().to_owned();
        n.id.map(|id| (id.to_string(), shown))
    };
    nodes.into_iter().filter_map(both).collect()
}

fn show(m: &etcd::server::health::MemberHealth, names: &BTreeMap<String, String>) -> api::EtcdMember {
    let name = if m.name.is_empty() { "(not started)" } else { &m.name };
    api::EtcdMember {
        node: names.get(name).cloned().unwrap_or_else(|| name.to_owned()),
        votes: !m.learner,
        leads: m.state.as_ref().is_ok_and(|s| s.leads),
        trouble: m.state.as_ref().err().map(ToString::to_string),
    }
}

fn checks(health: &etcd::server::health::Health, names: &BTreeMap<String, String>) -> Vec<api::Check> {
    let readable = |text: String| names.iter().fold(text, |text, (id, name)| text.replace(id, name));
    let check = |p: &etcd::server::health::Problem| api::Check {
        id: "directory".into(),
        health: if p.stops_changes() { Health::Error } else { Health::Warning },
        subject: "directory".into(),
        message: readable(p.what()),
        action: p.what_to_do().into(),
    };
    health.problems.iter().map(check).collect()
}

fn show_endpoint(seen: &etcd::external::EndpointHealth) -> api::EtcdMember {
    api::EtcdMember {
        node: seen.endpoint.to_string(),
        votes: seen.votes || seen.state.is_err(),
        leads: seen.state.as_ref().is_ok_and(|s| s.leads),
        trouble: seen.state.as_ref().err().map(ToString::to_string),
    }
}

fn checks_outside(health: &etcd::external::Health) -> Vec<api::Check> {
    let check = |p: &etcd::external::Problem| api::Check {
        id: "directory".into(),
        health: if p.stops_changes() { Health::Error } else { Health::Warning },
        subject: "directory".into(),
        message: p.what(),
        action: p.what_to_do().into(),
    };
    health.problems.iter().map(check).collect()
}

fn no_answer(why: &str) -> api::Check {
    api::Check {
        id: "directory".into(),
        health: Health::Error,
        subject: "directory".into(),
        message: format!("no member of etcd answers: {why}"),
        action: "start the nodes that are down, or repair the network; if a majority is lost for good, restore a backup".into(),
    }
}

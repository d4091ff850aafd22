//! An etcd that somebody else runs: whether it can be used, and how it is.
//!
//! Owns: looking at its endpoints ([`check`], [`Looker`]) and judging what was seen ([`judge`]).
//! Invariants: what is to be done is said to who runs it, and names what Basalt cannot do itself; judging is a function of what was seen; an etcd
//! that does not let us see something is not called wrong for it.
//! Never: changes anything; goes by the addresses that its members say of themselves, which may be of another network.

use crate::message::{AlarmAction, AlarmRequest, AlarmType};
use crate::server::health::{FSYNC_WARN, FULL_WARN_PERCENT, Serving};
use crate::server::metrics::Metrics;
use crate::{Client, ConnectError, Endpoint};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, timeout_at};

/// A look at all endpoints takes that long, at most.
pub const LOOK_MAX: Duration = Duration::from_secs(5);
/// Asking for alarms takes that long, at most.
const ALARMS_MAX: Duration = Duration::from_secs(2);

/// Why an etcd is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// An endpoint cannot be used.
    #[error("the endpoint {endpoint} cannot be used: {why}")]
    Endpoint {
        /// Which.
        endpoint: Endpoint,
        /// Why.
        why: ConnectError,
    },
    /// Two endpoints are of two etcds.
    #[error("the endpoints {one} and {other} are of two different etcd clusters")]
    Differ {
        /// One.
        one: Endpoint,
        /// Another.
        other: Endpoint,
    },
}

/// Whether each endpoint of the client can be used now, and all are of one etcd. Gives etcd's id of its cluster.
pub async fn check(client: &Client) -> Result<u64, Unusable> {
    let mut first: Option<(Endpoint, u64)> = None;
    for endpoint in client.in_turn() {
        let connection = client.dial_ready(&endpoint).await.map_err(|why| Unusable::Endpoint { endpoint: endpoint.clone(), why })?;
        let id = connection.status.header.map_or(0, |h| h.cluster_id);
        match &first {
            Some((one, of)) if *of != id => return Err(Unusable::Differ { one: one.clone(), other: endpoint }),
            Some(_) => {}
            None => first = Some((endpoint, id)),
        }
    }
    Ok(first.map_or(0, |(_, id)| id))
}

/// An endpoint, as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointHealth {
    /// Which.
    pub endpoint: Endpoint,
    /// etcd's id of the member that answers there; 0: none does.
    pub member: u64,
    /// Whether that member votes.
    pub votes: bool,
    /// What it says of itself; the error: why it cannot be reached.
    pub state: Result<Serving, ConnectError>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Its members disagree about what is stored.
    Corrupt,
    /// No endpoint answers, or those that do know of no leader.
    NoQuorum {
        /// Endpoints that answer.
        up: usize,
        /// All endpoints.
        all: usize,
    },
    /// A store has reached its quota.
    Full,
    /// An endpoint cannot be reached.
    Down {
        /// Which.
        endpoint: String,
        /// Why.
        why: String,
    },
    /// A store will reach its quota.
    NearlyFull {
        /// The endpoint of its member.
        endpoint: String,
        /// Of its quota.
        percent: u64,
    },
    /// A disk is slow.
    SlowDisk {
        /// The endpoint of its member.
        endpoint: String,
        /// 99 of 100 writes of the log took less.
        fsync_p99: Duration,
    },
    /// There is no other endpoint to go to.
    OneEndpoint,
}

impl Problem {
    /// What it is, in words.
    pub fn what(&self) -> String {
        match self {
            Self::Corrupt => "the external etcd's members disagree about what is stored".into(),
            Self::NoQuorum { up, all } => {
                format!("the external etcd has no leader, or cannot be reached: {up} of {all} endpoints answer; I/O goes on, changes wait")
            }
            Self::Full => "the external etcd has reached its quota; changes are refused".into(),
            Self::Down { endpoint, why } => format!("the external etcd's endpoint {endpoint} cannot be used: {why}"),
            Self::NearlyFull { endpoint, percent } => {
                format!("the store of the external etcd's member at {endpoint} is at {percent} % of its quota")
            }
            Self::SlowDisk { endpoint, fsync_p99 } => format!(
                "the disk of the external etcd's member at {endpoint} is slow: one write of its log in a hundred takes {} ms or more",
                fsync_p99.as_millis()
            ),
            Self::OneEndpoint => "only one endpoint of the external etcd is known: when it is gone, changes stop".into(),
        }
    }
    /// What to do about it.
    pub const fn what_to_do(&self) -> &'static str {
        match self {
            Self::Corrupt => "who runs etcd has to replace the member that differs, or restore a backup",
            Self::NoQuorum { .. } => {
                "who runs etcd has to start its members, or repair the network; if it answers elsewhere now, 'basalt cluster set --etcd-endpoints'"
            }
            Self::Full => "who runs etcd has to compact and defragment its store, and to end its alarm; or to raise its quota",
            Self::Down { .. } => {
                "who runs etcd has to start that member, or repair the network; if it is at another address now, 'basalt cluster set --etcd-endpoints'"
            }
            Self::NearlyFull { .. } => {
                "who runs etcd has to defragment its store, or to raise its quota; look what else is kept in it: other clusters, other programs"
            }
            Self::SlowDisk { .. } => "who runs etcd has to give its members disks that nothing else keeps busy",
            Self::OneEndpoint => "name all members: 'basalt cluster set --etcd-endpoints'",
        }
    }
    /// Whether changes are refused because of it.
    pub const fn stops_changes(&self) -> bool {
        matches!(self, Self::Corrupt | Self::NoQuorum { .. } | Self::Full)
    }
}

/// All endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// As they were given.
    pub endpoints: Vec<EndpointHealth>,
    /// Whether changes are taken, as far as the endpoints know.
    pub quorum: bool,
    /// What is wrong, the worst first.
    pub problems: Vec<Problem>,
}

/// What one look remembers for the next.
#[derive(Clone, Debug, Default)]
pub struct Looker {
    before: BTreeMap<u64, Metrics>,
}

impl Looker {
    /// Looks at all endpoints.
    pub async fn look(&mut self, client: &Client) -> Health {
        let until = Instant::now() + LOOK_MAX;
        let mut endpoints = Vec::new();
        for endpoint in client.in_turn() {
            let seen = timeout_at(until, self.look_at(client, &endpoint, until)).await;
            let (member, votes, state) = match seen.unwrap_or(Err(ConnectError::TimedOut)) {
                Ok((member, votes, serving)) => (member, votes, Ok(serving)),
                Err(error) => (0, false, Err(error)),
            };
            endpoints.push(EndpointHealth { endpoint, member, votes, state });
        }
        endpoints.sort_by(|a, b| a.endpoint.cmp(&b.endpoint));
        let get = AlarmRequest { action: AlarmAction::Get.into(), member_id: 0, alarm: AlarmType::None.into() };
        // Asking for alarms needs a quorum, and a right that we may not have.
        let alarms = client.alarm(&get, Instant::now() + ALARMS_MAX).await.map(|a| a.alarms).unwrap_or_default();
        judge(endpoints, &alarms.iter().map(crate::message::AlarmMember::alarm).collect::<Vec<_>>())
    }

    async fn look_at(&mut self, client: &Client, endpoint: &Endpoint, until: Instant) -> Result<(u64, bool, Serving), ConnectError> {
        let connection = client.dial_any(endpoint).await?;
        let member = connection.status.header.map_or(0, |h| h.member_id);
        let metrics = Metrics::parse(&connection.get("/metrics", until).await.unwrap_or_default());
        let serving = Serving::new(&connection.status, &metrics, self.before.get(&member));
        self.before.insert(member, metrics);
        Ok((member, !connection.status.is_learner, serving))
    }
}

/// What is wrong with endpoints as they were seen.
pub fn judge(endpoints: Vec<EndpointHealth>, alarms: &[AlarmType]) -> Health {
    let up = endpoints.iter().filter(|e| e.state.is_ok()).count();
    let quorum = endpoints.iter().any(|e| e.state.as_ref().is_ok_and(|s| s.has_leader));
    let mut problems = Vec::new();
    if !quorum {
        problems.push(Problem::NoQuorum { up, all: endpoints.len() });
    }
    if endpoints.len() == 1 {
        problems.push(Problem::OneEndpoint);
    }
    if alarms.contains(&AlarmType::Corrupt) {
        problems.push(Problem::Corrupt);
    }
    let full = alarms.contains(&AlarmType::NoSpace);
    if full {
        problems.push(Problem::Full);
    }
    for seen in &endpoints {
        let endpoint = seen.endpoint.to_string();
        let serving = match &seen.state {
            Ok(serving) => serving,
            Err(error) => {
                problems.push(Problem::Down { endpoint, why: error.to_string() });
                continue;
            }
        };
        let percent = serving.store_bytes.saturating_mul(100) / serving.quota_bytes;
        if percent >= FULL_WARN_PERCENT && !full {
            problems.push(Problem::NearlyFull { endpoint: endpoint.clone(), percent });
        }
        if let Some(fsync_p99) = serving.fsync_p99.filter(|p99| *p99 >= FSYNC_WARN) {
            problems.push(Problem::SlowDisk { endpoint, fsync_p99 });
        }
    }
    problems.sort();
    Health { endpoints, quorum, problems }
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;

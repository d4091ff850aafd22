//! How the members are, and what to do about it.
//!
//! Owns: looking ([`look`]) and judging ([`judge`]). Invariants: judging is a function of what was seen; each problem says what it is and what to
//! do.
//! Never: changes anything.

use super::metrics::Metrics;
use crate::message::{AlarmAction, AlarmRequest, AlarmType, Member, StatusResponse};
use crate::{Client, ConnectError, Endpoint, EtcdError};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// A look takes that long, at most.
pub const LOOK_MAX: Duration = Duration::from_secs(5);
/// Asking for alarms takes that long, at most.
const ALARMS_MAX: Duration = Duration::from_secs(2);
/// From here on a store is nearly full, in percent of its quota.
pub const FULL_WARN_PERCENT: u64 = 80;
/// From here on the disk is too slow for a member: etcd's own advice is 10 ms.
pub const FSYNC_WARN: Duration = Duration::from_millis(64);
/// With fewer members that vote, the loss of one is the loss of the quorum.
const MEMBERS_SPARE: usize = 3;
/// A store of which more than half is free space is worth giving back, from this size on.
const FREE_WARN_BYTES: u64 = 256 << 20;
/// The quota of a server that does not say: etcd's default.
const QUOTA_BYTES_DEFAULT: u64 = 2 << 30;

/// One member, as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberHealth {
    /// etcd's id of it.
    pub id: u64,
    /// Its name; empty: it has never started.
    pub name: String,
    /// Whether it votes.
    pub learner: bool,
    /// What it says; the error: why it cannot be reached.
    pub state: Result<Serving, ConnectError>,
}

/// What a member that serves says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Serving {
    /// Whether it leads.
    pub leads: bool,
    /// Whether it knows of a leader.
    pub has_leader: bool,
    /// Its version.
    pub version: String,
    /// Its store, in bytes.
    pub store_bytes: u64,
    /// What of that is in use.
    pub used_bytes: u64,
    /// Its limit.
    pub quota_bytes: u64,
    /// Below which 99 of 100 writes of its log took since the look before.
    pub fsync_p99: Option<Duration>,
    /// How often the leader has changed since it started.
    pub leader_changes: Option<u64>,
}

/// All members.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// By name.
    pub members: Vec<MemberHealth>,
    /// Whether changes are taken.
    pub quorum: bool,
    /// What is wrong, the worst first.
    pub problems: Vec<Problem>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The stores of the members differ.
    Corrupt {
        /// The member that says so.
        member: String,
    },
    /// Too few members are up, or they elect a leader just now: nothing can be changed.
    NoQuorum {
        /// Members that vote and are up.
        up: usize,
        /// Members that vote.
        all: usize,
    },
    /// A store has reached its quota: nothing can be changed.
    Full {
        /// The member.
        member: String,
    },
    /// A member cannot be reached.
    Down {
        /// The member.
        member: String,
        /// Why.
        why: String,
    },
    /// A store will reach its quota.
    NearlyFull {
        /// The member.
        member: String,
        /// Of its quota.
        percent: u64,
    },
    /// A disk is slow: elections follow.
    SlowDisk {
        /// The member.
        member: String,
        /// 99 of 100 writes of the log took less.
        fsync_p99: Duration,
    },
    /// A store is mostly free space.
    Free {
        /// The member.
        member: String,
        /// Bytes that could be given back.
        bytes: u64,
    },
    /// A member was added and has not become a voter.
    Learner {
        /// The member.
        member: String,
    },
    /// The loss of one member would be the loss of the quorum.
    NoSpare {
        /// Members that vote.
        all: usize,
    },
    /// Members of different versions: in order during an upgrade, and only then.
    Versions,
}

impl Problem {
    /// What it is, in words.
    pub fn what(&self) -> String {
        match self {
            Self::Corrupt { member } => format!("etcd's members disagree about what is stored ({member} says so)"),
            Self::NoQuorum { up, all } => format!("etcd has no quorum: {up} of {all} members are up; I/O goes on, changes wait"),
            Self::Full { member } => format!("the store of etcd's member {member} has reached its quota; changes are refused"),
            Self::Down { member, why } => format!("etcd's member {member} cannot be used: {why}"),
            Self::NearlyFull { member, percent } => format!("the store of etcd's member {member} is at {percent} % of its quota"),
            Self::SlowDisk { member, fsync_p99 } => {
                format!(
                    "the disk of etcd's member {member} is slow: one write of its log in a hundred takes {} ms or more",
                    fsync_p99.as_millis()
                )
            }
            Self::Free { member, bytes } => format!("the store of etcd's member {member} holds {} MiB of free space", bytes >> 20),
            Self::Learner { member } => format!("etcd's member {member} does not vote yet"),
            Self::NoSpare { all } => format!("etcd has too few members that vote ({all}): the loss of one stops changes"),
            Self::Versions => "etcd's members have different versions".to_owned(),
        }
    }
    /// What to do about it.
    pub fn what_to_do(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "replace the member that differs; if it is not clear which, restore the last backup",
            Self::NoQuorum { .. } => {
                "start the nodes that are down, or repair the network; if a majority is lost for good, restore a backup"
            }
            Self::Full { .. } => "compact and defragment the store, then end the alarm; raise the quota if that is not enough",
            Self::Down { .. } => "start the node or repair its network; if it is lost for good, replace the member",
            Self::NearlyFull { .. } => {
                "defragment the store, and look for what fills it: other programs in the same etcd, or a quota that is too small"
            }
            Self::SlowDisk { .. } => "move the member's folder to an SSD that nothing else keeps busy",
            Self::Free { .. } => "defragment this member when it does not lead",
            Self::Learner { .. } => "wait until it has caught up; if it does not, look at its log",
            Self::NoSpare { .. } => "add members until there are three or five, a witness for example",
            Self::Versions => "finish the upgrade: all members should have the same version",
        }
    }
    /// Whether changes are refused because of it.
    pub const fn stops_changes(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::NoQuorum { .. } | Self::Full { .. })
    }
}

/// What one look remembers for the next.
#[derive(Clone, Debug, Default)]
pub struct Looker {
    before: BTreeMap<u64, Metrics>,
}

impl Looker {
    /// Looks at all members. Works without a quorum, as long as one member answers.
    pub async fn look(&mut self, client: &Client) -> Result<Health, EtcdError> {
        let until = Instant::now() + LOOK_MAX;
        let listed = client.member_list_of_any(until).await?.members;
        let get = AlarmRequest { action: AlarmAction::Get.into(), member_id: 0, alarm: AlarmType::None.into() };
        // Asking for alarms needs a quorum; without one that is the problem.
        let alarms = client.alarm(&get, Instant::now() + ALARMS_MAX).await.map(|a| a.alarms).unwrap_or_default();
        let raised: Vec<(u64, AlarmType)> = alarms.iter().map(|a| (a.member_id, a.alarm())).collect();
        let mut seen = Vec::with_capacity(listed.len());
        for member in listed {
            let state = self.look_at(client, &member).await;
            seen.push(MemberHealth { id: member.id, name: member.name, learner: member.is_learner, state });
        }
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(judge(seen, &raised))
    }

    async fn look_at(&mut self, client: &Client, member: &Member) -> Result<Serving, ConnectError> {
        let mut error = ConnectError::Answer("it has never started".into());
        for url in &member.client_urls {
            let Ok(endpoint) = url.parse::<Endpoint>() else { continue };
            match client.dial_any(&endpoint).await {
                Ok(connection) => {
                    let until = Instant::now() + LOOK_MAX;
                    let page = connection.get("/metrics", until).await.unwrap_or_default();
                    let metrics = Metrics::parse(&page);
                    let serving = Serving::new(&connection.status, &metrics, self.before.get(&member.id));
                    self.before.insert(member.id, metrics);
                    return Ok(serving);
                }
                Err(other) => error = other,
            }
        }
        Err(error)
    }
}

impl Serving {
    pub(crate) fn new(status: &StatusResponse, metrics: &Metrics, before: Option<&Metrics>) -> Self {
        Self {
            leads: status.header.is_some_and(|h| h.member_id == status.leader),
            has_leader: status.leader != 0,
            version: status.version.clone(),
            store_bytes: u64::try_from(status.db_bytes).unwrap_or_default(),
            used_bytes: u64::try_from(status.db_bytes_in_use).unwrap_or_default(),
            quota_bytes: metrics.quota_bytes.filter(|q| *q > 0).unwrap_or(QUOTA_BYTES_DEFAULT),
            fsync_p99: metrics.fsync_p99(before),
            leader_changes: metrics.leader_changes,
        }
    }
}

/// What is wrong with members as they were seen.
pub fn judge(members: Vec<MemberHealth>, alarms: &[(u64, AlarmType)]) -> Health {
    let voters = members.iter().filter(|m| !m.learner);
    let (all, up) = (voters.clone().count(), voters.filter(|m| m.state.is_ok()).count());
    let leads = members.iter().any(|m| m.state.as_ref().is_ok_and(|s| s.has_leader));
    let quorum = up * 2 > all && leads;
    let mut problems = Vec::new();
    if !quorum {
        problems.push(Problem::NoQuorum { up, all });
    }
    if quorum && all < MEMBERS_SPARE {
        problems.push(Problem::NoSpare { all });
    }
    for member in &members {
        problems.extend(of_member(member, alarms));
    }
    let mut versions: Vec<&str> = members.iter().filter_map(|m| m.state.as_ref().ok().map(|s| s.version.as_str())).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        problems.push(Problem::Versions);
    }
    problems.sort();
    Health { members, quorum, problems }
}

fn of_member(member: &MemberHealth, alarms: &[(u64, AlarmType)]) -> Vec<Problem> {
    let name = || if member.name.is_empty() { format!("{:x}", member.id) } else { member.name.clone() };
    let mut problems = Vec::new();
    let raised = |alarm| alarms.contains(&(member.id, alarm));
    if raised(AlarmType::Corrupt) {
        problems.push(Problem::Corrupt { member: name() });
    }
    if raised(AlarmType::NoSpace) {
        problems.push(Problem::Full { member: name() });
    }
    if member.learner {
        problems.push(Problem::Learner { member: name() });
    }
    match &member.state {
        Err(error) => problems.push(Problem::Down { member: name(), why: error.to_string() }),
        Ok(serving) => {
            let percent = serving.store_bytes.saturating_mul(100) / serving.quota_bytes;
            if percent >= FULL_WARN_PERCENT && !raised(AlarmType::NoSpace) {
                problems.push(Problem::NearlyFull { member: name(), percent });
            }
            let free = serving.store_bytes.saturating_sub(serving.used_bytes);
            if serving.store_bytes >= FREE_WARN_BYTES && free * 2 > serving.store_bytes {
                problems.push(Problem::Free { member: name(), bytes: free });
            }
            if let Some(fsync_p99) = serving.fsync_p99.filter(|p99| *p99 >= FSYNC_WARN) {
                problems.push(Problem::SlowDisk { member: name(), fsync_p99 });
            }
        }
    }
    problems
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;

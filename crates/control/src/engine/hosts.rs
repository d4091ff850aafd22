//! Hosts that connect: names for their NQNs and iSCSI names, and who is connected now.

use super::*;
use crate::api::types as api;

/// The most hosts that have a name.
pub const HOST_ENTRIES_MAX: usize = 4096;

impl Control {
    /// Everyone who has a name, is allowed somewhere, or is connected.
    pub fn hosts(&self) -> Result<Vec<api::Host>, Problem> {
        let sessions = self.sessions()?;
        let mut hosts: BTreeMap<String, api::Host> = BTreeMap::new();
        let blank = |nqn: &str| api::Host {
            nqn: nqn.to_owned(),
            name: None,
            allowed: Vec::new(),
            dhchap: None,
            chap: None,
            tls_psks: Vec::new(),
            sessions: Vec::new(),
        };
        for entry in self.directory.all::<HostEntryRecord>()? {
            let HostEntryRecord { nqn, name, dhchap, chap, tls_psks, .. } = entry.value;
            let host = hosts.entry(nqn.clone()).or_insert_with(|| blank(&nqn));
            (host.name, host.dhchap) = (Some(name), dhchap.as_ref().map(super::secrets::show));
            host.chap = chap.as_ref().map(super::chap::show);
            host.tls_psks = tls_psks.iter().map(super::tls_psks::show).collect();
        }
        for subsystem in self.directory.all::<SubsystemRecord>()? {
            for nqn in &subsystem.hosts {
                hosts.entry(nqn.clone()).or_insert_with(|| blank(nqn)).allowed.push(subsystem.name.clone());
            }
        }
        for session in sessions {
            let nqn = session.host_nqn.clone();
            hosts.entry(nqn.clone()).or_insert_with(|| blank(&nqn)).sessions.push(session);
        }
        Ok(hosts.into_values().collect())
    }

    /// One host, by name or NQN.
    pub fn host(&self, name: &str) -> Result<api::Host, Problem> {
        let named = |h: &api::Host| h.nqn == name || h.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(name));
        self.hosts()?.into_iter().find(named).ok_or_else(|| Problem::not_found("host", name, "host list"))
    }

    /// Gives a host's NQN, or its iSCSI name, a name.
    pub fn add_host(&self, new: &api::NewHost) -> Result<api::Host, Problem> {
        cluster::check_name(&new.name)?;
        cluster::check_host(&new.nqn)?;
        let record = HostEntryRecord {
            nqn: new.nqn.clone(),
            name: new.name.clone(),
            chap: None,
            dhchap: None,
            tls_psks: Vec::new(),
            created_unix_s: now_unix_s(),
        };
        self.decided(|| {
            if self.directory.named(Kind::HostEntry, &new.name)?.is_some() {
                return Err(Problem::exists("host", &new.name));
            }
            if let Some(known) = self.directory.find::<HostEntryRecord>(&new.nqn)? {
                return Err(Problem::new(
                    crate::Code::Exists,
                    format!("{} has the name {} already", new.nqn, known.name),
                    "use that name, or 'basalt host remove' it first",
                ));
            }
            if self.directory.list(Kind::HostEntry)?.len() >= HOST_ENTRIES_MAX {
                return Err(Problem::refused(format!("{HOST_ENTRIES_MAX} hosts have names already"), "remove some first"));
            }
            Ok((Transaction::new().create(&record).take_name(Kind::HostEntry, &record.name, &record.nqn), ()))
        })?;
        self.host(&new.nqn)
    }

    /// Takes the name from a host, and its secrets. What it may do stays as it is.
    pub fn remove_host(&self, name: &str) -> Result<(), Problem> {
        let (at, had_secrets) = self.decided(|| {
            let record = self.resolve::<HostEntryRecord>(Kind::HostEntry, name, "named host", "host list")?;
            let gone = self.freeing(Transaction::new().remove(&record), Kind::HostEntry, &record.name)?;
            Ok((gone, record.dhchap.is_some() || record.chap.is_some() || !record.tls_psks.is_empty()))
        })?;
        if had_secrets { self.serve(at) } else { Ok(()) }
    }

    /// Who is connected now, through any node that says so.
    pub fn sessions(&self) -> Result<Vec<api::Session>, Problem> {
        self.sessions_of(|node, problem| {
            tracing::warn!(node, error = %problem.message, "who is connected through another node is not known");
            Ok(())
        })
    }

    /// Who is connected now, through any node that is up. What depends on it must not be done when one of them does not say.
    pub(super) fn sessions_everywhere(&self) -> Result<Vec<api::Session>, Problem> {
        self.sessions_of(|node, problem| {
            Err(Problem::new(
                crate::Code::Unavailable,
                format!("which hosts are connected through node {node} is not known: {}", problem.message),
                "try again, or use --force if there are none that matter",
            ))
        })
    }

    fn sessions_of(&self, missing: impl Fn(&str, Problem) -> Result<(), Problem>) -> Result<Vec<api::Session>, Problem> {
        let mut sessions = self.sessions_here()?;
        if self.is_alone() || request::is_here() {
            return Ok(sessions);
        }
        for node in self.presences()?.into_keys().filter(|node| *node != self.identity.node) {
            match self.ask::<Vec<api::Session>>(&node, "GET", "/cluster/v1/sessions".into(), None) {
                Ok(there) => sessions.extend(there),
                Err(problem) => missing(&node, problem)?,
            }
        }
        Ok(sessions)
    }

    /// Who is connected to this node now.
    pub(crate) fn sessions_here(&self) -> Result<Vec<api::Session>, Problem> {
        let names: BTreeMap<String, String> =
            self.directory.all::<HostEntryRecord>()?.into_iter().map(|e| (e.value.nqn, e.value.name)).collect();
        let now_ns = monotonic_ns();
        let nvme = |s: nvmf::SessionInfo| api::Session {
            node: self.identity.node.clone(),
            protocol: api::Protocol::NvmeTcp,
            host: names.get(&s.host_nqn).cloned(),
            host_nqn: s.host_nqn,
            subsystem_nqn: s.subsystem,
            address: s.peer.to_string(),
            controller: s.cntlid,
            io_queues: s.io_queues,
            encrypted: s.encrypted,
            connected_s: now_ns.saturating_sub(s.since.0) / 1_000_000_000,
        };
        let mut sessions: Vec<api::Session> = self.plane.sessions()?.into_iter().map(nvme).collect();
        let over_iscsi = self.plane.iscsi_sessions()?;
        if over_iscsi.is_empty() {
            return Ok(sessions);
        }
        let subsystems = self.directory.all::<SubsystemRecord>()?.into_iter().map(|s| s.value);
        let nqns: BTreeMap<String, String> = subsystems.filter_map(|s| Some((s.iqn?, s.nqn))).collect();
        sessions.extend(over_iscsi.into_iter().map(|s| api::Session {
            node: self.identity.node.clone(),
            protocol: api::Protocol::Iscsi,
            host: names.get(&s.host).cloned(),
            host_nqn: s.host,
            // One that is served no longer: its sessions are about to end.
            subsystem_nqn: nqns.get(&s.target).cloned().unwrap_or(s.target),
            address: s.peer.to_string(),
            controller: s.tsih,
            io_queues: s.connections as u16,
            encrypted: false,
            connected_s: now_ns.saturating_sub(s.since.0) / 1_000_000_000,
        }));
        Ok(sessions)
    }

    /// The NQN or iSCSI name that a name, or one of these, means.
    pub(super) fn host_nqn(&self, host: &str) -> Result<String, Problem> {
        if let Some(nqn) = self.directory.named(Kind::HostEntry, host)? {
            return Ok(nqn);
        }
        if !host.starts_with("nqn.") && !cluster::is_iscsi_name(host) {
            return Err(Problem::not_found("host", host, "host list"));
        }
        cluster::check_host(host)?;
        Ok(host.to_owned())
    }
}

/// Now, in nanoseconds (good to 10 ms), on the clock of the data plane: CLOCK_MONOTONIC, which /proc/uptime follows as long as the machine does
/// not sleep.
fn monotonic_ns() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").ok();
    let seconds = uptime.and_then(|t| t.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0);
    (seconds * 1e9) as u64
}

//! Subsystems: what hosts connect to, who may, and what they see there.

use super::*;
use crate::api::types as api;
use base::{Security, Visibility};
use std::collections::BTreeSet;

/// Namespaces of one subsystem.
pub const NAMESPACES_MAX: u32 = 1024;
/// The most subsystems of a cluster.
pub const SUBSYSTEMS_MAX: usize = 1024;
/// Hosts that one subsystem names.
pub const ALLOWED_HOSTS_MAX: usize = 1024;

impl Control {
    /// All subsystems, by name.
    pub fn subsystems(&self) -> Result<Vec<api::Subsystem>, Problem> {
        let sessions = self.sessions()?;
        let records = self.directory.all::<SubsystemRecord>()?;
        let mut all = records.iter().map(|s| self.show_subsystem(s, &sessions)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// One subsystem, by name or NQN.
    pub fn subsystem(&self, name: &str) -> Result<api::Subsystem, Problem> {
        self.show_subsystem(&self.subsystem_record(name)?.value, &self.sessions()?)
    }

    /// Makes a subsystem.
    pub fn create_subsystem(&self, new: &api::NewSubsystem) -> Result<api::Subsystem, Problem> {
        cluster::check_name(&new.name)?;
        let nqn = new.nqn.clone().unwrap_or_else(|| cluster::default_nqn(&new.name));
        cluster::check_nqn(&nqn)?;
        let iqn = new.iqn.clone().or_else(|| new.iscsi.then(|| cluster::default_iqn(&new.name)));
        iqn.as_deref().map_or(Ok(()), cluster::check_iscsi_name)?;
        let mut record = SubsystemRecord {
            nqn: nqn.clone(),
            name: new.name.clone(),
            serial: serial(random()),
            allow_any_host: new.allow_any_host,
            hosts: Default::default(),
            namespaces: Default::default(),
            security: Default::default(),
            iqn,
            namespace_grant: None,
            created_unix_s: now_unix_s(),
        };
        let (at, ()) = self.decided(|| {
            if self.directory.named(Kind::Subsystem, &new.name)?.is_some() {
                return Err(Problem::exists("subsystem", &new.name));
            }
            if self.directory.find::<SubsystemRecord>(&nqn)?.is_some() {
                return Err(Problem::exists("subsystem", &nqn));
            }
            if let Some(iqn) = &record.iqn {
                self.check_free(iqn)?;
            }
            if self.directory.list(Kind::Subsystem)?.len() >= SUBSYSTEMS_MAX {
                return Err(Problem::refused(format!("there are {SUBSYSTEMS_MAX} subsystems already"), "delete some that are not needed"));
            }
            record.hosts = self.host_nqns(&new.hosts)?;
            let made = Transaction::new().create(&record).take_name(Kind::Subsystem, &record.name, &nqn);
            Ok((record.iqn.iter().fold(made, |t, iqn| t.take_name(Kind::Subsystem, iqn, &nqn)), ()))
        })?;
        self.serve(at)?;
        tracing::info!(subsystem = %record.name, nqn, "subsystem created");
        self.subsystem(&nqn)
    }

    /// Whether no subsystem has this iSCSI name.
    fn check_free(&self, iqn: &str) -> Result<(), Problem> {
        if self.directory.named(Kind::Subsystem, iqn)?.is_some() { Err(Problem::exists("subsystem", iqn)) } else { Ok(()) }
    }

    /// Gives a subsystem the iSCSI name that a change says, or takes it away. Gives what else is to be changed for that.
    fn rename_for_iscsi(&self, s: &mut SubsystemRecord, change: &api::SubsystemChange) -> Result<Transaction, Problem> {
        let usual = || s.iqn.clone().unwrap_or_else(|| cluster::default_iqn(&s.name));
        let iqn = match (&change.iqn, change.iscsi) {
            (Some(_), Some(false)) => {
                return Err(Problem::invalid("an iSCSI name is given to what is not to be served over iSCSI", "leave one of them out"));
            }
            (Some(iqn), _) => Some(iqn.clone()),
            (None, Some(true)) => Some(usual()),
            (None, Some(false)) => None,
            (None, None) => s.iqn.clone(),
        };
        let mut with = Transaction::new();
        if iqn != s.iqn {
            if let Some(old) = &s.iqn {
                with = self.freeing(with, Kind::Subsystem, old)?;
            }
            if let Some(new) = &iqn {
                cluster::check_iscsi_name(new)?;
                self.check_free(new)?;
                with = with.take_name(Kind::Subsystem, new, &s.nqn);
            }
            s.iqn = iqn;
        }
        if s.iqn.is_some() && s.security == Security::Encrypted {
            return Err(Problem::refused(
                format!("subsystem {} cannot be served over iSCSI while its connections have to be encrypted", s.name),
                "iSCSI has no encryption here: use the security 'authenticated', or --no-iscsi",
            ));
        }
        Ok(with)
    }

    /// Changes who may connect, and over what.
    pub fn change_subsystem(&self, name: &str, change: &api::SubsystemChange) -> Result<api::Subsystem, Problem> {
        self.edit_with(name, |s| {
            let grant = change.namespace_grant.as_ref().map(|g| self.grant(g)).transpose()?;
            s.allow_any_host = change.allow_any_host.unwrap_or(s.allow_any_host);
            s.security = change.security.map_or(s.security, Into::into);
            s.namespace_grant = match &grant {
                Some(grant) => Some(grant.clone()),
                None if change.no_namespace_grant => None,
                None => s.namespace_grant.take(),
            };
            self.rename_for_iscsi(s, change)
        })
    }

    fn grant(&self, grant: &api::NamespaceGrant) -> Result<NamespaceGrant, Problem> {
        let policy = self.policy_record(&grant.policy)?.id();
        if grant.namespaces_max == 0 || grant.namespaces_max > NAMESPACES_MAX {
            return Err(Problem::invalid(
                format!("{} cannot be the most namespaces of a subsystem", grant.namespaces_max),
                format!("use 1 to {NAMESPACES_MAX}"),
            ));
        }
        if grant.bytes_max == 0 {
            return Err(Problem::invalid("a grant of 0 bytes allows nothing", "name a size, such as 1TiB"));
        }
        Ok(NamespaceGrant { policy, namespaces_max: grant.namespaces_max, bytes_max: grant.bytes_max })
    }

    /// Lets a host connect.
    pub fn allow_host(&self, name: &str, host: &str) -> Result<api::Subsystem, Problem> {
        self.edit(name, |s| {
            let nqn = self.host_nqn(host)?;
            if s.hosts.len() >= ALLOWED_HOSTS_MAX {
                return Err(Problem::refused(format!("subsystem {} names {ALLOWED_HOSTS_MAX} hosts already", s.name), "deny some first"));
            }
            s.hosts.insert(nqn);
            Ok(())
        })
    }

    /// No longer lets a host connect.
    pub fn deny_host(&self, name: &str, host: &str) -> Result<api::Subsystem, Problem> {
        self.edit(name, |s| {
            let nqn = self.host_nqn(host)?;
            let action = if s.allow_any_host {
                "every host may connect: 'basalt subsystem deny NAME --any' ends that"
            } else {
                "nothing is to be done"
            };
            if s.hosts.remove(&nqn) {
                Ok(())
            } else {
                Err(Problem::new(crate::Code::NotFound, format!("subsystem {} does not name host {nqn}", s.name), action))
            }
        })
    }

    /// Shows a volume to the hosts of a subsystem.
    pub fn attach_volume(&self, name: &str, volume: &str, attach: &api::Attach) -> Result<api::Subsystem, Problem> {
        self.edit_with(name, |s| {
            // One that is being made may be attached by who makes it; one that goes is shown to nobody any more.
            let record = self.ready_volume(volume)?;
            let (id, hosts) = (record.id, self.host_nqns(&attach.hosts)?);
            if let Some((nsid, _)) = s.namespaces.iter().find(|(_, n)| n.volume == id) {
                return Err(Problem::new(
                    crate::Code::Exists,
                    format!("volume {volume} is attached to subsystem {} already, as namespace {nsid}", s.name),
                    "nothing is to be done",
                ));
            }
            let nsid = match attach.nsid {
                None => free_nsid(s)?,
                Some(nsid) if nsid == 0 || nsid > NAMESPACES_MAX => {
                    return Err(Problem::invalid(format!("{nsid} cannot be a namespace id"), format!("use 1 to {NAMESPACES_MAX}")));
                }
                Some(nsid) if s.namespaces.contains_key(&nsid) => {
                    return Err(Problem::new(
                        crate::Code::Exists,
                        format!("namespace {nsid} of subsystem {} is taken", s.name),
                        "use another id",
                    ));
                }
                Some(nsid) => nsid,
            };
            let hosts = if hosts.is_empty() { Visibility::All } else { Visibility::Only(hosts) };
            s.namespaces.insert(nsid, NamespaceRecord { volume: id, hosts, exclusive: false });
            // Who deletes the volume meanwhile has not seen this subsystem: it has to look again.
            Ok(Transaction::new().hold(&record))
        })
    }

    /// No longer shows a volume to the hosts of a subsystem.
    pub fn detach_volume(&self, name: &str, volume: &str) -> Result<api::Subsystem, Problem> {
        self.edit(name, |s| {
            let id = self.volume_record(volume)?.id;
            let before = s.namespaces.len();
            s.namespaces.retain(|_, n| n.volume != id);
            if s.namespaces.len() < before {
                Ok(())
            } else {
                Err(Problem::new(
                    crate::Code::NotFound,
                    format!("volume {volume} is not attached to subsystem {}", s.name),
                    "nothing is to be done",
                ))
            }
        })
    }

    /// Deletes a subsystem. Its volumes stay.
    pub fn delete_subsystem(&self, name: &str, force: bool) -> Result<(), Problem> {
        let sessions = if force { Vec::new() } else { self.sessions_everywhere()? };
        let (at, name) = self.decided(|| {
            let record = self.subsystem_record(name)?;
            if let Some(session) = sessions.iter().find(|s| s.subsystem_nqn == record.nqn) {
                return Err(Problem::refused(
                    format!("host {} is connected to subsystem {}", session.host_nqn, record.name),
                    match session.protocol {
                        api::Protocol::NvmeTcp => "disconnect it there (nvme disconnect -n NQN), or use --force",
                        api::Protocol::Iscsi => "log it out there (iscsiadm -m node -T IQN -u), or use --force",
                    },
                ));
            }
            let mut gone = self.freeing(Transaction::new().remove(&record), Kind::Subsystem, &record.name)?;
            if let Some(iqn) = &record.iqn {
                gone = self.freeing(gone, Kind::Subsystem, iqn)?;
            }
            Ok((gone, record.value.name))
        })?;
        self.serve(at)?;
        tracing::info!(subsystem = %name, "subsystem deleted");
        Ok(())
    }

    /// The NQNs of hosts that a request names.
    fn host_nqns(&self, names: &[String]) -> Result<BTreeSet<String>, Problem> {
        if names.len() > ALLOWED_HOSTS_MAX {
            return Err(Problem::invalid(format!("{} hosts are more than {ALLOWED_HOSTS_MAX}", names.len()), "name fewer"));
        }
        names.iter().map(|name| self.host_nqn(name)).collect()
    }

    /// Changes a subsystem as it is then; decided anew when somebody else is faster.
    fn edit(&self, name: &str, mut change: impl FnMut(&mut SubsystemRecord) -> Result<(), Problem>) -> Result<api::Subsystem, Problem> {
        self.edit_with(name, |s| change(s).map(|()| Transaction::new()))
    }

    /// The same together with what else must hold, or changes.
    fn edit_with(
        &self,
        name: &str,
        mut change: impl FnMut(&mut SubsystemRecord) -> Result<Transaction, Problem>,
    ) -> Result<api::Subsystem, Problem> {
        let (at, nqn) = self.decided(|| {
            let mut record = self.subsystem_record(name)?;
            let with = change(&mut record.value)?;
            Ok((with.update(&record), record.value.nqn))
        })?;
        self.serve(at)?;
        self.subsystem(&nqn)
    }

    pub(super) fn subsystem_record(&self, name: &str) -> Result<Versioned<SubsystemRecord>, Problem> {
        self.resolve(Kind::Subsystem, name, "subsystem", "subsystem list")
    }

    fn show_subsystem(&self, s: &SubsystemRecord, sessions: &[api::Session]) -> Result<api::Subsystem, Problem> {
        let mut namespaces = Vec::new();
        for (nsid, namespace) in &s.namespaces {
            let id = namespace.volume;
            let volume = self.directory.find::<VolumeRecord>(&id.to_string())?;
            let (volume, bytes) = volume.map_or(("?".to_owned(), 0), |v| (v.value.name, v.value.bytes));
            let hosts = match &namespace.hosts {
                Visibility::All => None,
                Visibility::Only(hosts) => Some(hosts.iter().cloned().collect()),
            };
            namespaces.push(api::Namespace { nsid: *nsid, volume, volume_id: id.to_string(), bytes, hosts });
        }
        Ok(api::Subsystem {
            nqn: s.nqn.clone(),
            iqn: s.iqn.clone(),
            name: s.name.clone(),
            serial: s.serial.clone(),
            allow_any_host: s.allow_any_host,
            hosts: s.hosts.iter().cloned().collect(),
            namespaces,
            sessions: sessions.iter().filter(|x| x.subsystem_nqn == s.nqn).count() as u32,
            created_unix_s: s.created_unix_s,
            security: s.security.into(),
            namespace_grant: s.namespace_grant.as_ref().map(|g| api::NamespaceGrant {
                policy: g.policy.clone(),
                namespaces_max: g.namespaces_max,
                bytes_max: g.bytes_max,
            }),
        })
    }
}

/// The lowest namespace id that is free.
pub(super) fn free_nsid(s: &SubsystemRecord) -> Result<u32, Problem> {
    (1..=NAMESPACES_MAX)
        .find(|n| !s.namespaces.contains_key(n))
        .ok_or_else(|| Problem::refused(format!("subsystem {} has {NAMESPACES_MAX} namespaces already", s.name), "make another subsystem"))
}

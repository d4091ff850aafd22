//! Control requests of hosts (NVMe commands that change metadata), and what the audit log gets.
//!
//! Invariants: a change is durable and served on every core before it is answered; nothing changes when it is refused.
//! Never: answers before that; lets a host have what the administrator has not granted.

use super::*;
use crate::api::types as api;
use crate::audit::{Action, ENTRIES_MAX, Which};
use base::{Visibility, WriteProtect};
use dataplane::{DataPlaneEvent, DirectoryAsk};
use frontend::{AuditEvent, AuditKind, ControlRequest, ControlVerb, Refused, Reply, RequestedBy};
use std::sync::mpsc::{TrySendError, sync_channel};

/// What hosts have asked for and what waits for its turn. Beyond, a host hears "not now".
const ASKED_MAX: usize = 1024;
/// Questions of owners that wait: more than they ask at once.
const OWNERS_ASK_MAX: usize = 16;

impl Control {
    /// Works off what the data plane tells, until it ends. Runs on a thread of its own; what hosts ask for, which may have to wait for the directory
    /// or for another node, is worked off by another one, so that paths follow the links meanwhile.
    pub fn follow_events(&self) {
        let Some(events) = self.plane.take_events() else { return };
        let (requests, asked) = sync_channel(ASKED_MAX);
        std::thread::scope(|threads| {
            threads.spawn(move || asked.into_iter().for_each(|request| self.answer_host(&request, self.decide(&request))));
            // A read must not wait for a change whose outcome is looked for. Who has nothing on several nodes asks neither.
            let answerer = || {
                let (asks, asked) = sync_channel(OWNERS_ASK_MAX);
                threads.spawn(move || asked.into_iter().for_each(|ask| self.answer_owners(ask)));
                asks
            };
            let (mut reads, mut changes) = (None, None);
            for event in events {
                match event {
                    DataPlaneEvent::Directory(ask) => {
                        let to = if matches!(ask, DirectoryAsk::Read { .. }) { &mut reads } else { &mut changes };
                        let to = to.get_or_insert_with(answerer);
                        if let Err(TrySendError::Full(ask) | TrySendError::Disconnected(ask)) = to.try_send(ask) {
                            self.owners_unheard(&ask);
                        }
                    }
                    DataPlaneEvent::Audit(event) => self.note(event),
                    DataPlaneEvent::Link(change) => self.link_changed(change),
                    DataPlaneEvent::Away(object, away) => self.away_changed(object, away),
                    DataPlaneEvent::ControlRequest(request) => {
                        if let Err(TrySendError::Full(request) | TrySendError::Disconnected(request)) = requests.try_send(request) {
                            self.answer_host(&request, Err(Refused::Busy));
                        }
                    }
                }
            }
            drop(requests);
        });
    }

    fn answer_host(&self, request: &ControlRequest, result: Result<Reply, Refused>) {
        if let Err(refused) = &result {
            tracing::info!(host = %request.by.host, what = ?request.what, %refused, "refused what a host asked for");
        }
        if let Err(error) = self.plane.answer(request.id, result) {
            tracing::warn!(%error, "a host's question could not be answered");
        }
    }

    pub(super) fn note(&self, event: AuditEvent) {
        if let Some(log) = &self.audit {
            log.note(event);
        }
    }

    /// An administrator has done something, or tried to.
    pub(crate) fn note_action(&self, action: Action) {
        if let Some(log) = &self.audit {
            log.note_action(action);
        }
    }

    /// Somebody without the token of the API has asked for something.
    pub(crate) fn note_unauthenticated(&self, action: Action) {
        if let Some(log) = &self.audit {
            log.note_unauthenticated(action);
        }
    }

    /// The newest entries of the audit log of a node, oldest first.
    pub(crate) fn audit_entries_of(&self, node: Option<&str>, which: Which) -> Result<Vec<api::AuditEntry>, Problem> {
        if !(1..=ENTRIES_MAX).contains(&which.limit) {
            return Err(Problem::invalid(format!("an answer has 1 to {ENTRIES_MAX} entries of the audit log"), "give another limit"));
        }
        let node = node.map(|node| self.node_called(node)).transpose()?.filter(|n| n.name != self.identity.node);
        match node {
            None => self.audit_entries_which(which),
            Some(node) => self.ask(&node.name, "GET", format!("/cluster/v1/audit?{}", which.query()), None),
        }
    }

    /// The newest entries of the audit log of this node, oldest first.
    pub fn audit_entries(&self, count: usize) -> Result<Vec<api::AuditEntry>, Problem> {
        self.audit_entries_which(Which { limit: count, ..Which::default() })
    }

    /// Those of them that are wanted.
    pub(crate) fn audit_entries_which(&self, which: Which) -> Result<Vec<api::AuditEntry>, Problem> {
        let Some(log) = &self.audit else { return Ok(Vec::new()) };
        log.entries(which).map_err(|e| {
            Problem::new(crate::Code::Internal, format!("the audit log cannot be read: {e}"), "look at audit.jsonl in the data directory")
        })
    }

    /// Carries out a control request of a host, if it may have it.
    pub(crate) fn decide(&self, request: &ControlRequest) -> Result<Reply, Refused> {
        let changed = Request::default();
        match changed.clone().carry(|| self.carry_out_asked(request)) {
            // "Not now" says that nothing has changed.
            Err(Refused::Busy) if changed.is_decided() => Err(Refused::Unserved),
            result => result,
        }
    }

    fn carry_out_asked(&self, request: &ControlRequest) -> Result<Reply, Refused> {
        let devices = matches!(request.what, ControlVerb::CreateUnit { .. } | ControlVerb::DeleteUnit { .. } | ControlVerb::Format { .. });
        let _devices = devices.then(|| self.devices());
        self.serve_what_is_durable()?;
        let (reply, detail) = match &request.what {
            ControlVerb::WriteProtect { volume, state } => self.protect(&request.by, *volume, *state)?,
            ControlVerb::AttachUnit { unit, hosts } => self.attach_hosts(&request.by, *unit, hosts)?,
            ControlVerb::DetachUnit { unit, hosts } => self.detach_hosts(&request.by, *unit, hosts)?,
            ControlVerb::CreateUnit { blocks, lba_bytes, shared } => self.create_namespace(&request.by, *blocks, *lba_bytes, *shared)?,
            ControlVerb::DeleteUnit { unit } => self.delete_namespaces(&request.by, *unit)?,
            ControlVerb::Format { unit, lba_bytes } => self.format_namespace(&request.by, *unit, *lba_bytes)?,
            ControlVerb::Reservation { volume, command } => self.reserve(&request.by, *volume, command)?,
            ControlVerb::Persist { volumes, ptpl } => self.persist(&request.by, volumes, *ptpl)?,
        };
        self.confirm_asked(&request.what)?;
        self.note(AuditEvent {
            kind: match &request.what {
                ControlVerb::Reservation { .. } | ControlVerb::Persist { .. } => AuditKind::Reservation,
                _ => AuditKind::Unit,
            },
            peer: None,
            host: request.by.host.clone(),
            export: request.by.export.clone(),
            session: Some(request.by.session),
            detail,
        });
        Ok(reply)
    }

    fn protect(&self, by: &RequestedBy, id: base::VolumeId, state: WriteProtect) -> Result<(Reply, String), Refused> {
        // Nobody can undo it, so it is granted with the rest that hosts may do for good.
        if state == WriteProtect::Permanent {
            self.granted(by)?;
        }
        self.change(|| {
            let mut volume = self.ready(id)?;
            // Until the daemon starts again, or for good: not to be taken back by a command (base 8.12).
            if matches!(volume.write_protect, WriteProtect::UntilRestart | WriteProtect::Permanent) {
                return Err(Refused::NotChangeable);
            }
            volume.value.write_protect = state;
            let detail = format!("volume {}: write protection {state:?}", volume.name);
            Ok((Transaction::new().update(&volume), (Reply::Done, detail)))
        })
    }

    /// A volume that a host asks about, when it is neither being made nor deleted.
    pub(super) fn ready(&self, id: base::VolumeId) -> Result<Versioned<VolumeRecord>, Refused> {
        let found = self.directory.find::<VolumeRecord>(&id.to_string()).map_err(busy)?;
        found.filter(|v| v.stage == Stage::Ready).ok_or(Refused::NoUnit)
    }

    /// The subsystem that a host asks about, when its hosts may manage namespaces.
    pub(super) fn granted(&self, by: &RequestedBy) -> Result<Versioned<SubsystemRecord>, Refused> {
        let subsystem = self.directory.find::<SubsystemRecord>(&by.export).map_err(busy)?.ok_or(Refused::NotGranted)?;
        if subsystem.namespace_grant.is_some() { Ok(subsystem) } else { Err(Refused::NotGranted) }
    }

    fn attach_hosts(&self, by: &RequestedBy, nsid: u32, hosts: &[String]) -> Result<(Reply, String), Refused> {
        self.change(|| {
            let mut subsystem = self.granted(by)?;
            let namespace = subsystem.value.namespaces.get_mut(&nsid).ok_or(Refused::NoUnit)?;
            let (exclusive, seen) = (namespace.exclusive, &mut namespace.hosts);
            if hosts.iter().any(|h| seen.shows(h)) {
                return Err(Refused::AlreadyAttached);
            }
            let Visibility::Only(to) = seen else { return Err(Refused::AlreadyAttached) };
            to.extend(hosts.iter().cloned());
            if exclusive && to.len() > 1 {
                return Err(Refused::Private);
            }
            Ok((Transaction::new().update(&subsystem), (Reply::Done, format!("namespace {nsid} attached to {}", hosts.join(", ")))))
        })
    }

    fn detach_hosts(&self, by: &RequestedBy, nsid: u32, hosts: &[String]) -> Result<(Reply, String), Refused> {
        self.change(|| {
            let mut subsystem = self.granted(by)?;
            let seen = match subsystem.namespaces.get(&nsid).ok_or(Refused::NoUnit)?.hosts.clone() {
                Visibility::Only(hosts) => hosts,
                // Every host saw it: from now on those that are named in the subsystem's list or connected now do, without these.
                Visibility::All => {
                    let sessions = self.sessions_everywhere().map_err(|_| Refused::Busy)?;
                    let connected = sessions.into_iter().filter(|s| s.subsystem_nqn == by.export).map(|s| s.host_nqn);
                    subsystem.hosts.iter().cloned().chain(connected).collect()
                }
            };
            if hosts.iter().any(|h| !seen.contains(h)) {
                return Err(Refused::NotAttached);
            }
            let left = Visibility::Only(seen.into_iter().filter(|h| !hosts.contains(h)).collect());
            subsystem.value.namespaces.entry(nsid).and_modify(|n| n.hosts = left);
            Ok((Transaction::new().update(&subsystem), (Reply::Done, format!("namespace {nsid} detached from {}", hosts.join(", ")))))
        })
    }

    /// Decides, makes it durable, and has it served; decides again when another writer of the directory was faster.
    pub(super) fn change<T>(&self, decide: impl FnMut() -> Result<(Transaction, T), Refused>) -> Result<T, Refused> {
        let (at, value) = self.decided_or(decide, busy)?;
        self.serve(at).map_err(unserved)?;
        Ok(value)
    }

    /// An earlier change may be durable and not served: a host that tries again must not hear that it is done before it is.
    fn serve_what_is_durable(&self) -> Result<(), Refused> {
        if !self.is_behind() {
            return Ok(());
        }
        self.apply().map_err(|problem| {
            tracing::warn!(error = %problem.message, "what is durable cannot be served; hosts cannot change anything until then");
            Refused::Busy
        })
    }
}

pub(super) fn unserved(problem: Problem) -> Refused {
    tracing::error!(error = %problem.message, "a change is durable but could not be served");
    Refused::Unserved
}

/// What a host hears when the directory did not take what it asked for, or does not say whether it did.
pub(super) fn busy(error: DirectoryError) -> Refused {
    tracing::warn!(%error, "the directory could not take what a host asked for");
    match error {
        DirectoryError::Unknown { .. } => Refused::Unserved,
        _ => Refused::Busy,
    }
}

#[cfg(test)]
#[path = "control_requests_tests.rs"]
pub(super) mod tests;

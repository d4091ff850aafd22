//! Namespaces that hosts make, delete and format by NVMe commands: volumes like any other, within what the administrator has granted.
//!
//! Invariants: a grant's limits hold after each change; a volume that another subsystem shows too is not deleted or formatted by hosts of this
//! one; a format that a crash has cut is finished before the volume serves again.
//! Never: deletes or erases what is write protected.

use super::*;
use crate::{Code, api::types as api};
use base::Visibility;
use cluster::Finish;
use frontend::{Refused, Reply, RequestedBy};

/// Names that are tried for a volume that a host makes.
const NAMES_TRIED_MAX: u32 = 1000;

type Decision = Result<(Reply, String), Refused>;

/// What a host hears of a problem that an administrator would read.
fn refused(problem: Problem) -> Refused {
    tracing::warn!(error = %problem.message, "what a host asked for could not be done");
    match problem.code {
        Code::NoSpace | Code::PolicyNotPossible => Refused::NoSpace,
        Code::Unavailable | Code::Conflict => Refused::Busy,
        Code::Unknown => Refused::Unserved,
        _ => Refused::Failed,
    }
}

impl Control {
    /// Namespace Management, create: a volume with the grant's policy, attached to no host yet.
    pub(super) fn create_namespace(&self, by: &RequestedBy, blocks: u64, lba_bytes: u32, shared: bool) -> Decision {
        let bytes = blocks.checked_mul(lba_bytes.into()).and_then(|b| volumes::volume_size(b).ok()).ok_or(Refused::NoSpace)?;
        let (nsid, volume) = self.write_namespace(by, bytes, lba_bytes, shared)?;
        let made = self.directory.find::<VolumeRecord>(&volume.id()).map_err(control_requests::busy)?.ok_or(Refused::Failed)?;
        if let Err(problem) = self.carry_through(made, Finish::Create) {
            self.failed(&volume.id(), problem).map_err(refused)?;
        }
        self.apply().map_err(control_requests::unserved)?;
        Ok((Reply::Value(nsid), format!("namespace {nsid} made: volume {}, {bytes} bytes", volume.name)))
    }

    /// Writes a namespace and the volume that is to be made for it, so a crash leaves both or none; it is served when the volume is. The ID and
    /// the name are free when they are looked for: when another writer has taken one of them since, all is decided on again.
    fn write_namespace(&self, by: &RequestedBy, bytes: u64, lba_bytes: u32, shared: bool) -> Result<(u32, VolumeRecord), Refused> {
        let decide = || {
            let mut subsystem = self.granted(by)?;
            let grant = subsystem.namespace_grant.clone().ok_or(Refused::NotGranted)?;
            if subsystem.namespaces.len() >= grant.namespaces_max as usize {
                return Err(Refused::NoNumber);
            }
            let nsid = subsystems::free_nsid(&subsystem).map_err(|_| Refused::NoNumber)?;
            let taken = self.bytes_of(&subsystem)?;
            if taken.checked_add(bytes).is_none_or(|sum| sum > grant.bytes_max) {
                return Err(Refused::NoSpace);
            }
            let name = self.free_name(&subsystem.name, nsid)?;
            let new = api::NewVolume { name, bytes, policy: Some(grant.policy), detached: true, ..Default::default() };
            let planned = self.planned(&new, bytes, lba_bytes, None).map_err(refused)?;
            let hosts = Visibility::Only(Default::default());
            let namespace = NamespaceRecord { volume: planned.volume.id, hosts, exclusive: !shared };
            subsystem.value.namespaces.insert(nsid, namespace);
            Ok((planned.intent().update(&subsystem), (nsid, planned)))
        };
        let (_, (nsid, planned)) = self.decided_or(decide, control_requests::busy)?;
        self.own(&planned.object);
        Ok((nsid, planned.volume))
    }

    /// Bytes of the volumes of a subsystem.
    fn bytes_of(&self, subsystem: &SubsystemRecord) -> Result<u64, Refused> {
        let mut sum = 0u64;
        for n in subsystem.namespaces.values() {
            let volume = self.directory.find::<VolumeRecord>(&n.volume.to_string()).map_err(control_requests::busy)?;
            sum = sum.saturating_add(volume.map_or(0, |v| v.bytes));
        }
        Ok(sum)
    }

    /// A name that says where the volume comes from: of the subsystem and the namespace, with a number when that is taken.
    fn free_name(&self, subsystem: &str, nsid: u32) -> Result<String, Refused> {
        let room = cluster::NAME_BYTES_MAX - "-ns1024-1000".len();
        let stem: String = subsystem.chars().take(room).collect();
        for n in 1..=NAMES_TRIED_MAX {
            let name = if n == 1 { format!("{stem}-ns{nsid}") } else { format!("{stem}-ns{nsid}-{n}") };
            if self.directory.named(Kind::Volume, &name).map_err(control_requests::busy)?.is_none() {
                return Ok(name);
            }
        }
        Err(Refused::NoNumber)
    }

    /// Namespace Management, delete: the namespaces and their volumes. All are looked at before the first goes.
    pub(super) fn delete_namespaces(&self, by: &RequestedBy, nsid: Option<u32>) -> Decision {
        let subsystem = self.granted(by)?;
        let nsids: Vec<u32> = match nsid {
            Some(nsid) => vec![nsid],
            None => subsystem.namespaces.keys().copied().collect(),
        };
        let volumes = nsids.iter().map(|n| self.own_volume(&subsystem, *n)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = volumes.iter().map(|v| v.name.clone()).collect();
        for nsid in nsids {
            let decide = || {
                let volume = self.own_volume(&*self.granted(by)?, nsid)?;
                Ok((self.deletion(volume.clone()).map_err(refused)?, volume.value))
            };
            let (_, volume) = self.decided_or(decide, control_requests::busy)?;
            self.delete_intended(&volume).map_err(refused)?;
        }
        Ok((Reply::Done, format!("namespaces deleted with their volumes: {}", names.join(", "))))
    }

    /// The volume of a namespace, when hosts of this subsystem may delete or format it.
    fn own_volume(&self, subsystem: &SubsystemRecord, nsid: u32) -> Result<Versioned<VolumeRecord>, Refused> {
        let id = subsystem.namespaces.get(&nsid).ok_or(Refused::NoUnit)?.volume;
        let volume = self.directory.find::<VolumeRecord>(&id.to_string()).map_err(control_requests::busy)?.ok_or(Refused::NoUnit)?;
        if volume.write_protect.is_on() {
            return Err(Refused::WriteProtected);
        }
        let all = self.directory.all::<SubsystemRecord>().map_err(control_requests::busy)?;
        if all.iter().any(|s| s.nqn != subsystem.nqn && s.namespaces.values().any(|n| n.volume == id)) {
            return Err(Refused::Invalid);
        }
        if volume.stage != Stage::Ready || volume.resize_to.is_some() || volume.format_to.is_some() {
            return Err(Refused::Busy);
        }
        Ok(volume)
    }

    /// Format NVM: all content goes, and logical blocks have another size.
    pub(super) fn format_namespace(&self, by: &RequestedBy, nsid: u32, lba_bytes: u32) -> Decision {
        let decide = || {
            let subsystem = self.granted(by)?;
            let mut volume = self.own_volume(&subsystem, nsid)?;
            // Its owner has to free what it has, here or there.
            let away = self.live().offline.contains_key(&volume.id);
            if away || self.refuse_if_down(&volume).is_err() {
                return Err(Refused::Busy);
            }
            volume.value.format_to = Some(lba_bytes);
            Ok((Transaction::new().expect(&subsystem).update(&volume), volume.value))
        };
        let (_, VolumeRecord { id, name, .. }) = self.decided_or(decide, control_requests::busy)?;
        let volume = self.directory.find::<VolumeRecord>(&id.to_string()).map_err(control_requests::busy)?.ok_or(Refused::NoUnit)?;
        let at = volume.revision;
        if let Err(problem) = self.carry_through(volume, Finish::Format) {
            let task = outcome::task_id(id, Finish::Format);
            self.note_task(task, format!("format volume {name}"), &problem, at).map_err(control_requests::busy)?;
            return Err(refused(problem));
        }
        self.apply().map_err(control_requests::unserved)?;
        Ok((Reply::Done, format!("namespace {nsid} formatted: volume {name}, {lba_bytes} bytes a block")))
    }

    /// Erases a volume that is marked for it: first no command reaches it on any core, then what it has is freed, then it serves again.
    /// Idempotent; also what finishes a format that a crash has cut.
    pub(super) fn finish_format(&self, volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        self.finishing(volume, |volume| self.format_once(volume))
    }

    fn format_once(&self, mut volume: Versioned<VolumeRecord>) -> Result<(), Problem> {
        let Some(lba_bytes) = volume.format_to else { return Ok(()) };
        let mut object = self.object_of(&volume)?;
        self.free_behind(&volume, &object)?;
        volume.value.lba_bytes = lba_bytes;
        volume.value.format_to = None;
        let percent = self.policy_record(&volume.policy)?.policy.space_reservation_percent;
        let bytes = volume.bytes;
        // The components say the size of a block too.
        self.update_components(&volume, &mut object.value, bytes, percent)?;
        self.commit(Transaction::new().update(&object).update(&volume))?;
        Ok(())
    }
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;

//! Reservations of volumes: records in the directory, changed by what hosts and administrators ask for.
//!
//! Invariants: a change is durable and served on every core before it is answered; what does not persist through power loss is gone when
//! the daemon starts.
//! Never: decides what a command means; that is `cluster::reservation`.

use super::control_requests::busy;
use super::*;
use crate::api::types as api;
use base::{HostId, VolumeId};
use cluster::reservation::{Command, ReservationType, State};
use frontend::{AuditEvent, AuditKind, Refused, Reply, RequestedBy};

impl Control {
    /// The reservations of all volumes, to be served.
    pub(super) fn reservations(&self) -> Result<BTreeMap<VolumeId, Arc<State>>, DirectoryError> {
        let all = self.directory.all::<ReservationRecord>()?.into_iter();
        Ok(all.map(|r| (r.value.volume, Arc::new(r.value.state))).collect())
    }

    /// Carries out a reservation command of a host.
    pub(super) fn reserve(&self, by: &RequestedBy, volume: VolumeId, command: &Command) -> Result<(Reply, String), Refused> {
        self.change(|| {
            let record = self.ready(volume)?;
            let old = self.directory.find::<ReservationRecord>(&volume.to_string()).map_err(busy)?;
            let mut state = old.as_ref().map(|r| r.state.clone()).unwrap_or_default();
            let outcome = state.execute(HostId::from_bytes(by.host_id), command)?;
            state.name_ports(&by.ports);
            // Who deletes the volume removes what it finds after its intent: nothing comes after that.
            let there = Transaction::new().expect(&record);
            let transaction = match old {
                Some(old) if old.state == state => Transaction::new(),
                Some(mut old) => {
                    old.value.state = state;
                    there.update(&old)
                }
                None if state == State::default() => Transaction::new(),
                None => there.create(&ReservationRecord { volume, state }),
            };
            let name = &record.name;
            Ok((transaction, (Reply::reserved(volume, outcome), format!("volume {name}: {}", nvmf::reservation::describe(command)))))
        })
    }

    /// Whether reservations of these volumes persist through power loss, from now on.
    pub(super) fn persist(&self, by: &RequestedBy, volumes: &[VolumeId], ptpl: bool) -> Result<(Reply, String), Refused> {
        for volume in volumes {
            self.reserve(by, *volume, &Command::Persist { ptpl })?;
        }
        Ok((Reply::Done, format!("reservations of {} volumes persist through power loss: {ptpl}", volumes.len())))
    }

    /// Takes all registrants and the reservation of a volume away, as an administrator's last resort. Its hosts are notified.
    pub fn clear_reservation(&self, name: &str) -> Result<api::Volume, Problem> {
        let (at, cleared) = self.decided(|| {
            let volume = self.volume_record(name)?;
            let Some(mut record) = self.directory.find::<ReservationRecord>(&volume.id())? else { return Ok((Transaction::new(), None)) };
            record.value.state.clear_all();
            Ok((Transaction::new().update(&record), Some((volume.value.name, volume.value.id))))
        })?;
        let Some((volume, id)) = cleared else { return self.volume(name) };
        self.serve(at)?;
        self.confirm(id)?;
        self.note(AuditEvent {
            kind: AuditKind::Reservation,
            peer: None,
            host: String::new(),
            export: String::new(),
            session: None,
            detail: format!("volume {volume}: registrants and reservation cleared by an administrator"),
        });
        tracing::warn!(volume = %volume, "registrants and reservation cleared by an administrator");
        self.volume(name)
    }
}

/// A reservation as administrators see it; `None` when there is nothing to see.
pub(super) fn show(state: &State) -> Option<api::Reservation> {
    let registrants = state.registrants().iter().map(|(host, key)| api::Registrant {
        host_id: host.to_string(),
        key: format!("{key:#018x}"),
        holder: state.is_holder(*host),
    });
    let taken_by = state.taken().map(|(host, _)| state.port(host).map_or_else(|| host.to_string(), |port| port.name.clone()));
    let shown = api::Reservation {
        kind: state.rtype().map(|t: ReservationType| t.name().to_owned()),
        generation: state.generation(),
        persistent: state.ptpl(),
        registrants: registrants.collect(),
        taken_by,
    };
    (!shown.registrants.is_empty() || shown.persistent || shown.taken_by.is_some()).then_some(shown)
}

#[cfg(test)]
#[path = "reservations_tests.rs"]
mod tests;

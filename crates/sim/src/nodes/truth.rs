//! What the directory truly says and since when, whoever knows of it: by that the workload judges what nodes do.
//!
//! Owns: [`Truth`]: a reader of the modelled directory that sees through all of its faults, what hosts have asked for, and which changes are in
//! force where.
//! Invariants: a change counts from when it happened in the directory; what was answered as not done must never happen.
//! Never: changes the directory, decides anything.

use super::records::{name_of, node_called};
use crate::served::State;
use crate::workload::Workload;
use base::{CopyState, HostId, VolumeId};
use cluster::record::{ObjectRecord, ReservationRecord, Stage, SubsystemRecord, VolumeRecord};
use cluster::reservation::{self, Command, Outcome, Refusal};
use directory::modelled::Modelled;
use directory::{Changes, Key, Kind, Nonce, Revision, View};
use std::collections::{BTreeMap, BTreeSet};

/// A reservation command that a node is about to make durable.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of which host.
    pub by: HostId,
    /// What it asked for.
    pub command: Command,
    /// What came of it.
    pub outcome: Outcome,
}

/// A change of a volume.
#[derive(Clone, Copy, Debug)]
struct Noted {
    at: Revision,
    volume: usize,
    /// Of its reservation; otherwise of how it is served.
    reservation: bool,
    /// Which change of the volume it was, for the workload.
    number: usize,
    owner_serves: bool,
}

/// See the module.
pub struct Truth {
    directory: Modelled,
    view: View,
    /// The volumes, as the workload numbers them.
    places: BTreeMap<VolumeId, usize>,
    asked: BTreeMap<Nonce, (Asked, bool)>,
    /// Changes that not every node is known to serve, in order.
    noted: Vec<Noted>,
    /// Nodes that have begun a life and do not serve yet; and the volumes that lay on each alone.
    starting: BTreeMap<usize, BTreeSet<VolumeId>>,
    /// The newest changes that were in force at the time, for each volume: its reservation's, and the other.
    numbers: BTreeMap<(usize, bool), Vec<(Revision, usize)>>,
}

impl Truth {
    /// Of a directory that has the volumes of the beginning.
    pub fn new(directory: Modelled, volumes: impl Iterator<Item = VolumeId>) -> Truth {
        let view = View::new(directory.everything());
        let places = volumes.zip(0..).collect();
        Truth { directory, view, places, asked: BTreeMap::new(), noted: Vec::new(), starting: BTreeMap::new(), numbers: BTreeMap::new() }
    }
    /// The newest revision.
    pub fn newest(&self) -> Revision {
        self.directory.newest()
    }
    /// All records, as of the last time that it was brought up to date.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The directory was made anew from a backup: what came after that never was. Plans in which this happens change nothing that hosts see but by it.
    pub fn restored(&mut self) {
        let places = std::mem::take(&mut self.places);
        *self = Truth { places, ..Truth::new(self.directory.clone(), std::iter::empty()) };
    }

    /// A transaction with this nonce carries out what a host has asked for, if it happens.
    pub fn asks(&mut self, nonce: Nonce, what: Asked) {
        self.asked.insert(nonce, (what, false));
    }
    /// Its host has heard that it was not done: it must not happen any more.
    pub fn denied(&mut self, nonce: Nonce, workload: &mut Workload) {
        match self.asked.get_mut(&nonce) {
            Some((_, denied)) => *denied = true,
            None => workload.fail("a host heard that nothing has changed, and it has".into(), None),
        }
    }
    /// A host's command was carried out, and changed nothing.
    pub fn executed(&mut self, volume: VolumeId, state: reservation::State, asked: &Asked, workload: &mut Workload, now: u64) {
        let Some(place) = self.places.get(&volume).copied() else { return };
        workload.reserved(place, asked.by, state, &asked.command, &asked.outcome, now);
        self.note(self.view.revision(), place, true, workload.volumes[place].rights.number());
    }
    /// A host's command was refused by what the directory says now.
    pub fn refused(&self, volume: VolumeId, by: HostId, command: &Command, why: Refusal, workload: &mut Workload, now: u64) {
        if let Some(place) = self.places.get(&volume) {
            workload.reservation_refused(*place, by, command, why, now);
        }
    }
    /// The owner of a volume has confirmed that it serves it as of this revision, at least.
    pub fn confirmed(&self, volume: VolumeId, at: Revision, workload: &mut Workload, now: u64) {
        let Some(place) = self.places.get(&volume) else { return };
        for reservation in [false, true] {
            let numbers = self.numbers.get(&(*place, reservation)).into_iter().flatten();
            if let Some((_, number)) = numbers.rev().find(|(of, _)| *of <= at) {
                workload.confirmed(*place, *number, reservation, now);
            }
        }
    }

    /// Takes what has happened.
    pub fn catch_up(&mut self, workload: &mut Workload, now: u64) {
        if self.directory.newest() == self.view.revision() {
            return;
        }
        for changes in self.directory.happened_after(self.view.revision()) {
            self.take(changes, workload, now);
        }
    }

    fn take(&mut self, changes: Changes, workload: &mut Workload, now: u64) {
        let at = changes.revision;
        let of_kind = |kind: Kind| changes.events.iter().filter(move |e| e.key.kind == kind).map(|e| e.key.clone());
        let reservations: Vec<Key> = of_kind(Kind::Reservation).collect();
        let objects: Vec<Key> = of_kind(Kind::Object).collect();
        let were: Vec<Option<ObjectRecord>> = objects.iter().map(|key| self.object(key)).collect();
        let before: Vec<Option<VolumeId>> = reservations.iter().map(|key| self.reservation(key).map(|r| r.volume)).collect();
        let serves = of_kind(Kind::Volume).chain(of_kind(Kind::Subsystem)).next().is_some();
        self.view.apply(changes);
        for (key, was) in objects.iter().zip(were) {
            self.count_change(key, was, workload, now);
        }
        for (key, before) in reservations.iter().zip(before) {
            self.reservation_changed(at, key, before, workload, now);
        }
        if serves {
            self.served_changed(at, workload, now);
        }
    }

    fn object(&self, key: &Key) -> Option<ObjectRecord> {
        self.view.find(&key.id).expect("it can be read").map(|r| r.value)
    }
    /// What becomes of a volume with several copies, for the report of the run.
    fn count_change(&self, key: &Key, was: Option<ObjectRecord>, workload: &mut Workload, now: u64) {
        let (Some(was), Some(is)) = (was, self.object(key)) else { return };
        let owners = [&was, &is].map(|object| cluster::owner_of(object));
        let active = |object: &ObjectRecord| object.used().filter(|c| c.state == CopyState::Active).count();
        let mut count = |what: &str| {
            *workload.counts.acts.entry(what.into()).or_default() += 1;
            workload.note(now, format!("{what}: {:?}, {:?}, {} copies in sync", is.id, owners[1], active(&is)));
        };
        if owners[0] != owners[1] {
            count("takeovers");
            if let Some(volume) = self.places.get(&is.volume) {
                workload.paths().owner_changes(*volume, now);
            }
        } else if active(&is) < active(&was) {
            count("evictions");
        } else if active(&is) > active(&was) {
            count("resyncs");
        }
    }
    fn reservation(&self, key: &Key) -> Option<ReservationRecord> {
        self.view.find(&key.id).expect("it can be read").map(|r| r.value)
    }
    fn note(&mut self, at: Revision, volume: usize, reservation: bool, number: usize) {
        self.noted.push(Noted { at, volume, reservation, number, owner_serves: false });
        self.numbers.entry((volume, reservation)).or_default().push((at, number));
    }

    fn reservation_changed(&mut self, at: Revision, key: &Key, before: Option<VolumeId>, workload: &mut Workload, now: u64) {
        let after = self.reservation(key);
        let Some(place) = after.as_ref().map(|r| r.volume).or(before).and_then(|volume| self.places.get(&volume).copied()) else { return };
        if workload.is_gone(place) {
            return;
        }
        let asked = self.directory.nonce_of(at).and_then(|nonce| self.asked.remove(&nonce));
        match (asked, after) {
            (Some((_, true)), _) => return workload.fail("a host heard that nothing has changed, and then it did".into(), None),
            (Some((Asked { by, command, outcome }, false)), Some(record)) => {
                workload.reserved(place, by, record.state, &command, &outcome, now);
            }
            // Power was lost, as its hosts see it: what persists is left.
            (None, after) if before.is_some_and(|volume| self.starting.values().any(|alone| alone.contains(&volume))) => {
                workload.owner_started(place, after.map(|record| record.state).unwrap_or_default(), now)
            }
            (asked, after) => return workload.fail(format!("{asked:?} made the reservation of volume {place} {after:?}"), None),
        }
        self.note(at, place, true, workload.volumes[place].rights.number());
    }

    fn served_changed(&mut self, at: Revision, workload: &mut Workload, now: u64) {
        let subsystems = self.view.all::<SubsystemRecord>().expect("they can be read");
        for (id, place) in self.places.clone() {
            let before = workload.state_of(place);
            let record = self.view.find::<VolumeRecord>(&id.to_string()).expect("it can be read");
            let ready = record.map(|r| r.value).filter(|r| r.stage == Stage::Ready);
            let mut all = subsystems.iter().flat_map(|s| &s.namespaces);
            let nsid = ready.as_ref().and_then(|_| all.find(|(_, n)| n.volume == id)).map(|(nsid, _)| *nsid);
            let after = match ready {
                Some(v) => {
                    let (blocks, read_only) = (v.bytes / u64::from(v.lba_bytes), v.write_protect.is_on());
                    State { nsid, blocks, read_only, formatting: v.format_to.is_some(), ..before }
                }
                None => State { nsid: None, ..before },
            };
            if after != before && !workload.is_gone(place) {
                workload.note(now, format!("volume {place} is to be served so: {after:?}"));
                workload.decided(place, after, now);
                self.note(at, place, false, workload.served_number(place));
            }
        }
    }

    /// The owner of a volume, by its number.
    fn owner(&self, volume: usize) -> Option<usize> {
        let (id, _) = self.places.iter().find(|(_, place)| **place == volume)?;
        let volume = self.view.find::<VolumeRecord>(&id.to_string()).ok()??;
        let object = self.view.find::<ObjectRecord>(&volume.object.to_string()).ok()??;
        cluster::owner_of(&object).and_then(node_called)
    }

    /// Whether all of a volume lies on a node: its restart is a loss of power for hosts.
    fn lies_on(&self, volume: VolumeId, node: usize) -> bool {
        let record = self.view.find::<VolumeRecord>(&volume.to_string()).ok().flatten();
        let object = record.and_then(|v| self.view.find::<ObjectRecord>(&v.object.to_string()).ok().flatten());
        object.is_some_and(|object| object.lies_on(&name_of(node)))
    }

    /// Up to which revision each node serves; `None`: it serves nothing.
    pub fn nodes_serve(&mut self, served: &[Option<Revision>], workload: &mut Workload, now: u64) {
        if self.noted.is_empty() {
            return;
        }
        let everywhere = served.iter().flatten().min().copied().unwrap_or(Revision(u64::MAX));
        let mut noted = std::mem::take(&mut self.noted);
        let mut waits = |n: &&mut Noted| !n.owner_serves && !workload.paths().owner_may_change(n.volume);
        // Of a volume whose owner may change only what its owner confirms is in force there: an earlier one may not have heard that it is none.
        let waiting: Vec<&mut Noted> = noted.iter_mut().filter(&mut waits).collect();
        for n in waiting {
            let owner = self.owner(n.volume).and_then(|owner| served.get(owner).copied().flatten());
            if owner.is_some_and(|owner| owner >= n.at) {
                n.owner_serves = true;
                workload.in_force_at_owner(n.volume, n.number, n.reservation, now);
            }
        }
        noted.retain(|n| {
            let all = n.at <= everywhere;
            if all {
                workload.in_force_everywhere(n.volume, n.number, n.reservation, now);
            }
            !all
        });
        self.noted = noted;
    }

    /// A node begins a life: what is there now is from before.
    pub fn starts(&mut self, node: usize) -> Revision {
        let alone = self.places.keys().filter(|volume| self.lies_on(**volume, node)).copied().collect();
        self.starting.insert(node, alone);
        self.directory.newest()
    }
    /// The owner of volumes has started and is about to serve; what was there before it, at `before`, and does not outlast that must be gone.
    pub fn has_started(&mut self, node: usize, before: Revision, workload: &mut Workload) {
        let all = self.view.all::<ReservationRecord>().expect("they can be read");
        let alone = self.starting.remove(&node).unwrap_or_default();
        let outlasts = |r: &ReservationRecord| !r.state.clone().power_lost();
        for r in all.iter().filter(|r| r.revision <= before && !outlasts(r)) {
            let place = self.places.get(&r.volume).copied();
            if alone.contains(&r.volume) && self.lies_on(r.volume, node) {
                workload.fail(format!("a reservation of volume {place:?} outlasts the restart of its owner, and must not"), None);
            }
        }
    }
}

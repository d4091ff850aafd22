//! Volumes that are laid out anew while hosts use them: with the stripes that their policies ask for, on the disk groups that they are to lie on
//! (`docs/moves.md`).
//!
//! ```text
//!  leader: the layout is another one than the policy asks for ─► the other place is made, as a volume that nobody sees
//!  owner:  its data goes there (data plane) ─► all is there ─► the volume is held ─► both swap their objects ─► that is served ─► it is released
//!  owner of what is left: deletes it
//! ```
//!
//! Invariants: a volume that is held is released only when what is served is what the directory says of its object; a move that cannot go on is given up or
//! begun anew, never half taken.
//! Never: copies data.

use super::*;
use crate::api::types as api;
use base::{ComponentId, ObjectId, VolumeId};
use cluster::{Finish, Inventory, Layout, Move, PlaceError, owner_of};
use dataplane::FillState;

/// Volumes of a cluster that are laid out anew at a time.
const MOVES_MAX: usize = 2;
/// Before one whose copying has failed begins anew: because this node did not serve both places, or for another reason.
const FILL_AGAIN: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
/// Before a new layout that could not be made is tried again.
const BEGIN_AGAIN: Duration = Duration::from_secs(60);
/// Before it is looked again for the outcome of a swap, or what it says is served again.
const SWAP_AGAIN: Duration = Duration::from_millis(100);

/// How long a move is looked at before its speed is known.
const SPEED_KNOWN_AFTER: Duration = Duration::from_secs(2);

/// A volume of this node whose data goes to its other place.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    /// Bytes that are there, of so many.
    done: u64,
    bytes: u64,
    /// When that began, and when it was looked at last.
    began: Instant,
    looked: Instant,
    /// Why it does not go on, and until when it is not tried again.
    error: Option<(String, Instant)>,
}

impl Filling {
    fn report(&self) -> MoveReport {
        let (took, left) = (self.looked - self.began, self.bytes.saturating_sub(self.done));
        let known = self.done > 0 && took >= SPEED_KNOWN_AFTER;
        MoveReport {
            percent: super::presence::percent_of(self.done, self.bytes),
            seconds_left: known.then(|| (took.as_secs_f64() * left as f64 / self.done as f64).ceil() as u64),
            reason: self.error.as_ref().map(|(error, _)| error.clone()),
        }
    }
}

/// Why the data of a volume does not go to its new layout, in words, and before it is tried again.
fn why_over(error: &frontend::IoError) -> (String, Duration) {
    use frontend::IoError;
    let [soon, later] = FILL_AGAIN;
    match error {
        IoError::NotOwner | IoError::NoVolume | IoError::NoPath | IoError::Closing => {
            ("this node does not serve both the volume and its new layout now".into(), soon)
        }
        IoError::NoSpace => ("there is no room for its data on the new layout's disk groups".into(), later),
        error => (error.to_string(), later),
    }
}

/// A volume that is laid out anew, and its other place, if it has one.
struct Moving {
    volume: VolumeRecord,
    object: ObjectRecord,
    other: Option<(VolumeRecord, ObjectRecord)>,
}

impl Moving {
    fn due(&self, wanted: bool) -> Move {
        Move::due(&self.volume, &self.object, self.other.as_ref().map(|(other, place)| (other, place)), wanted)
    }
}

/// What the directory says of volumes that are laid out anew.
struct Moves {
    moving: Vec<Moving>,
    /// Other places that no volume moves to.
    left: Vec<VolumeId>,
    /// Volumes that lie otherwise than their policies ask.
    due: Vec<VolumeId>,
}

impl Control {
    /// Sees to volumes that are, or are to be, laid out anew, and to devices that wait for that. To be called every few seconds.
    pub fn look_after_moves(&self) {
        self.look_after_devices();
        let moves = match self.moves() {
            Ok(moves) => moves,
            Err(problem) => return tracing::warn!(error = %problem.message, "the layouts of volumes could not be looked at"),
        };
        self.fill_places(&moves.moving);
        let Some(leading) = self.leadership() else { return };
        if !moves.moving.is_empty() || !moves.left.is_empty() || !moves.due.is_empty() {
            request::Request::new(None, leading).carry(|| self.lead_moves(&moves));
        }
    }

    /// By the copy of the directory.
    fn moves(&self) -> Result<Moves, Problem> {
        let (policies, objects, volumes, groups) = {
            let followed = self.followed();
            let view = followed.view();
            (view.all::<PolicyRecord>()?, view.all::<ObjectRecord>()?, view.all::<VolumeRecord>()?, view.all::<GroupRecord>()?)
        };
        // What devices there are else makes no difference to which volumes lie otherwise than they are to.
        let inventory = Inventory { leaving: super::layout::leaving(&groups), ..Inventory::default() };
        let policies: BTreeMap<String, cluster::Policy> = policies.into_iter().map(|p| (p.id(), p.value.policy)).collect();
        let objects: BTreeMap<ObjectId, ObjectRecord> = objects.into_iter().map(|o| (o.id, o.value)).collect();
        let volumes: BTreeMap<VolumeId, VolumeRecord> = volumes.into_iter().map(|v| (v.id, v.value)).collect();
        let mut moves = Moves { moving: vec![], left: vec![], due: vec![] };
        for volume in volumes.values() {
            let Some(object) = objects.get(&volume.object) else { continue };
            let other = volume.moves_to.and_then(|id| volumes.get(&id));
            let other = other.and_then(|other| Some((other.clone(), objects.get(&other.object)?.clone())));
            let moved_to = |of: VolumeId| volumes.get(&of).is_some_and(|v| v.moves_to == Some(volume.id));
            match (volume.place_of, volume.moves_to) {
                (Some(of), _) if volume.stage != Stage::Deleting && !moved_to(of) => moves.left.push(volume.id),
                (Some(_), _) => {}
                (None, Some(_)) => moves.moving.push(Moving { volume: volume.clone(), object: object.clone(), other }),
                (None, None) if volume.stage == Stage::Ready && !volume.is_under_way() => {
                    let differs = |policy| cluster::has_other_layout(&inventory, policy, volume, object);
                    if policies.get(&volume.policy).is_some_and(differs) {
                        moves.due.push(volume.id);
                    }
                }
                (None, None) => {}
            }
        }
        Ok(moves)
    }

    // ---- the owner --------------------------------------------------------------------------------------------------

    /// The data of volumes of this node goes to their other places.
    fn fill_places(&self, moving: &[Moving]) {
        let mine = |m: &&Moving| owner_of(&m.object) == Some(&self.identity.node) && m.due(true) == Move::Fill;
        let mine: Vec<&Moving> = moving.iter().filter(mine).collect();
        let ended: Vec<VolumeId> = self.live().fills.keys().filter(|id| mine.iter().all(|m| m.volume.id != **id)).copied().collect();
        for id in ended {
            self.live().fills.remove(&id);
            if let Err(error) = self.plane.end_fill(id) {
                tracing::debug!(volume = %id, %error, "the copying of a volume cannot be ended");
            }
        }
        for Moving { volume, other, .. } in mine {
            let Some((other, _)) = other else { continue };
            let waits = |filling: &Filling| filling.error.as_ref().is_some_and(|(_, until)| Instant::now() < *until);
            if self.live().fills.get(&volume.id).is_some_and(waits) {
                continue;
            }
            let error = match self.plane.fill(volume.id, other.id, volume.resync) {
                Ok(FillState::Copying(done)) => {
                    self.live().note_fill(volume, done);
                    None
                }
                Ok(FillState::Whole) => {
                    self.live().note_fill(volume, volume.bytes);
                    self.swap(volume, other).err().map(|problem| (problem.message, FILL_AGAIN[0]))
                }
                Ok(FillState::Over(error)) => Some(why_over(&error)),
                Err(error) => Some((error.to_string(), FILL_AGAIN[0])),
            };
            if let Some((error, wait)) = error {
                tracing::warn!(volume = %volume.name, %error, "the new layout of the volume does not get its data; it is tried again");
                self.live().note_fill(volume, 0).error = Some((error, Instant::now() + wait));
            }
        }
    }

    /// A volume goes by its other place, which has all of its data.
    fn swap(&self, volume: &VolumeRecord, other: &VolumeRecord) -> Result<(), Problem> {
        let _devices = self.devices();
        if !self.plane.hold_filled(volume.id)? {
            return Ok(());
        }
        match self.swap_held(volume.id, other) {
            Ok(true) => {}
            not_swapped => {
                self.plane.release(volume.id)?;
                return not_swapped.map(drop);
            }
        }
        while let Err(problem) = self.apply() {
            if self.is_ending() {
                return Err(problem);
            }
            tracing::error!(error = %problem.message, volume = %volume.name, "the volume waits until its new layout is served");
            std::thread::sleep(SWAP_AGAIN);
        }
        self.live().fills.remove(&volume.id);
        self.plane.end_fill(volume.id)?;
        tracing::info!(volume = %volume.name, "the volume has its new layout");
        self.work_and_serve();
        Ok(())
    }
    /// Both swap their objects, while the volume is held. Whether they have. What is not known is not answered: it is looked for until it is.
    fn swap_held(&self, id: VolumeId, other: &VolumeRecord) -> Result<bool, Problem> {
        let mut unknown = false;
        loop {
            match request::outside(|| self.decided(|| self.decide_swap(id, other))) {
                Ok((_, swapped)) => return Ok(swapped),
                Err(problem) if self.is_ending() => {
                    tracing::error!(volume = %id, error = %problem.message, "it is not known which layout the volume has; it is held until the end");
                    return Ok(true);
                }
                Err(problem) if unknown || problem.code == crate::Code::Unknown => {
                    unknown = true;
                    tracing::warn!(volume = %id, error = %problem.message, "the volume waits until it is known which layout it has");
                    std::thread::sleep(SWAP_AGAIN);
                }
                Err(problem) => return Err(problem),
            }
        }
    }
    fn decide_swap(&self, id: VolumeId, other: &VolumeRecord) -> Result<(Transaction, bool), Problem> {
        let not_now = Ok((Transaction::new(), false));
        let Some(volume) = self.directory.find::<VolumeRecord>(&id.to_string())? else { return not_now };
        if volume.object == other.object {
            return Ok((Transaction::new(), true));
        }
        let Some(other) = self.directory.find::<VolumeRecord>(&other.id())? else { return not_now };
        let (object, place) = (self.object_of(&volume)?, self.object_of(&other)?);
        if owner_of(&object) != Some(&self.identity.node) {
            return not_now;
        }
        let Some(swapped) = cluster::swapped(&volume, &object, &other, &place) else { return not_now };
        let with = |revision, value| Versioned { revision, value };
        let (v, o) = (with(volume.revision, swapped.0), with(other.revision, swapped.2));
        let (new, old) =
            (Versioned { revision: place.revision, value: swapped.1 }, Versioned { revision: object.revision, value: swapped.3 });
        Ok((Transaction::new().update(&v).update(&o).update(&new).update(&old), true))
    }

    // ---- the leader -------------------------------------------------------------------------------------------------

    fn lead_moves(&self, moves: &Moves) {
        let inventory = match self.inventory() {
            Ok(inventory) => inventory,
            Err(problem) => return tracing::warn!(error = %problem.message, "what there is of devices could not be looked at"),
        };
        for moving in &moves.moving {
            let wanted = self.policy_record(&moving.volume.policy).is_ok_and(|policy| {
                let asked = moving.other.as_ref().and_then(|(other, _)| other.stripe_width);
                let is_as_asked = asked.is_none_or(|width| width == policy.policy.stripe_width);
                is_as_asked && cluster::has_other_layout(&inventory, &policy.policy, &moving.volume, &moving.object)
            });
            let seen_to = match moving.due(wanted) {
                Move::Wait | Move::Fill => Ok(()),
                Move::Follow => self.follow_owner(moving),
                Move::GiveUp => self.give_up_move(moving.volume.id),
            };
            if let Err(problem) = seen_to {
                tracing::warn!(volume = %moving.volume.name, error = %problem.message, "the new layout of the volume cannot be seen to yet");
            }
        }
        for left in &moves.left {
            if let Err(problem) = self.delete_place(*left) {
                tracing::warn!(volume = %left, error = %problem.message, "what is left of a new layout cannot be deleted yet");
            }
        }
        let due: Vec<VolumeId> = {
            let failed = &mut self.live().moves_failed;
            failed.retain(|_, at| at.elapsed() < BEGIN_AGAIN);
            moves.due.iter().filter(|id| !failed.contains_key(id)).copied().collect()
        };
        for id in due.into_iter().take(MOVES_MAX.saturating_sub(moves.moving.len())) {
            if let Err(problem) = self.begin_move(id) {
                tracing::debug!(volume = %id, error = %problem.message, "the volume does not get the layout that is asked for yet");
            }
        }
    }

    /// Where a volume is to lie, if that is another layout than it has and can be had now.
    pub(super) fn new_layout(
        &self,
        policy: &cluster::Policy,
        volume: &VolumeRecord,
        object: &ObjectRecord,
    ) -> Result<Option<Layout>, Problem> {
        let bytes_max = volume.bytes.saturating_mul(super::volumes::GROW_FACTOR);
        let layout = match cluster::new_layout(&self.inventory()?, policy, volume, object, bytes_max) {
            Err(PlaceError::NotAtOwner { owner }) => Err(PlaceError::NotAtOwner { owner: self.shown_name_of(&owner)? }),
            placed => placed,
        }?;
        Ok(layout)
    }

    /// A volume gets its other place.
    fn begin_move(&self, id: VolumeId) -> Result<(), Problem> {
        let _devices = self.devices();
        let (_, made) = self.decided(|| {
            let nothing = || Ok((Transaction::new(), None));
            let Some(mut volume) = self.directory.find::<VolumeRecord>(&id.to_string())? else { return nothing() };
            if volume.stage != Stage::Ready || volume.is_under_way() || volume.moves_to.is_some() {
                return nothing();
            }
            let (object, policy) = (self.object_of(&volume)?, self.policy_record(&volume.policy)?);
            let Some(layout) = self.new_layout(&policy.policy, &volume, &object)? else { return nothing() };
            let (other, place) = (VolumeId::from_random(random()), ObjectId::from_random(random()));
            let planned = VolumeRecord::planned(other, volume.name.clone(), volume.bytes, policy.id(), place, now_unix_s());
            let other = VolumeRecord {
                lba_bytes: volume.lba_bytes,
                stripe_width: Some(policy.policy.stripe_width),
                place_of: Some(volume.id),
                preferred_owner: owner_of(&object).map(str::to_owned),
                groups: volume.groups.clone(),
                ..planned
            };
            let place = ObjectRecord::planned(place, other.id, &layout, |_, _| ComponentId::from_random(random()));
            volume.value.moves_to = Some(other.id);
            let groups = self.directory.all::<GroupRecord>()?;
            let intent = Transaction::new().update(&volume).create(&other).create(&place).hold(&policy).hold(&object);
            let held = groups.iter().filter(|g| place.components().any(|c| c.group == g.id));
            Ok((held.fold(intent, |intent, group| intent.hold(group)), Some((volume.name.clone(), other, place))))
        })?;
        let Some((name, other, place)) = made else { return Ok(()) };
        self.own(&place);
        let made = self.again::<VolumeRecord>(&other.id())?;
        if let Err(problem) = self.carry_through(made, Finish::Create) {
            self.live().moves_failed.insert(id, Instant::now());
            self.give_up_move(id)?;
            return Err(problem);
        }
        self.apply()?;
        tracing::info!(volume = %name, stripes = place.mirrors.len(), "the volume is laid out anew");
        Ok(())
    }

    /// The owner of a volume is to own its other place, too.
    fn follow_owner(&self, moving: &Moving) -> Result<(), Problem> {
        let owner = owner_of(&moving.object).map(str::to_owned);
        let Some((other, place)) = &moving.other else { return Ok(()) };
        if !place.used().any(|c| Some(&c.node) == owner.as_ref()) {
            // It has no copy there, and gets none.
            return self.give_up_move(moving.volume.id);
        }
        if other.preferred_owner == owner {
            return Ok(());
        }
        let (at, ()) = self.decided(|| {
            let Some(mut other) = self.directory.find::<VolumeRecord>(&other.id())? else { return Ok((Transaction::new(), ())) };
            other.value.preferred_owner = owner.clone();
            Ok((Transaction::new().update(&other), ()))
        })?;
        self.serve(at)
    }

    /// A volume keeps the layout that it has. What it was to move to is deleted.
    fn give_up_move(&self, id: VolumeId) -> Result<(), Problem> {
        let (_, other) = self.decided(|| {
            let Some(mut volume) = self.directory.find::<VolumeRecord>(&id.to_string())? else { return Ok((Transaction::new(), None)) };
            let other = volume.value.moves_to.take();
            Ok((if other.is_some() { Transaction::new().update(&volume) } else { Transaction::new() }, other))
        })?;
        other.map_or(Ok(()), |other| self.delete_place(other))
    }
    fn delete_place(&self, id: VolumeId) -> Result<(), Problem> {
        let _devices = self.devices();
        let (_, left) = self.decided(|| {
            let found = self.directory.find::<VolumeRecord>(&id.to_string())?;
            let Some(mut left) = found.filter(|v| v.stage != Stage::Deleting) else { return Ok((Transaction::new(), None)) };
            left.value.stage = Stage::Deleting;
            Ok((Transaction::new().update(&left), Some(left.value)))
        })?;
        left.map_or(Ok(()), |left| self.delete_intended(&left))
    }

    /// How far the new layouts of volumes of this node are.
    pub(super) fn move_reports(&self) -> BTreeMap<VolumeId, MoveReport> {
        self.live().fills.iter().map(|(id, filling)| (*id, filling.report())).collect()
    }

    /// How far the new layout of a volume is. `said`: by its owner, and when, if that is another node that has said it.
    pub(super) fn show_move(&self, volume: &VolumeRecord, said: Option<(&MoveReport, u64)>) -> Option<api::Moving> {
        volume.moves_to?;
        let own = self.live().fills.get(&volume.id).map(Filling::report);
        let age = if own.is_some() { 0 } else { said.map_or(0, |(_, at)| now_unix_s().saturating_sub(at)) };
        let report = own.or_else(|| said.map(|(report, _)| report.clone()));
        Some(api::Moving {
            percent: report.as_ref().map(|r| r.percent),
            seconds_left: report.as_ref().and_then(|r| r.seconds_left).map(|left| left.saturating_sub(age)),
            reason: report.and_then(|r| r.reason),
        })
    }
}

impl Live {
    /// So much of a volume is in its other place.
    fn note_fill(&mut self, volume: &VolumeRecord, done: u64) -> &mut Filling {
        let (now, bytes) = (Instant::now(), volume.bytes);
        let filling = self.fills.entry(volume.id).or_insert(Filling { done, bytes, began: now, looked: now, error: None });
        if done < filling.done {
            filling.began = now;
        }
        (filling.done, filling.looked, filling.error) = (done, now, None);
        filling
    }
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;

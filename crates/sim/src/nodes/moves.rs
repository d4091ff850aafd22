//! Volumes of a simulated cluster that are laid out anew while hosts use them, as `control` does it: the other place is made and deleted by the nodes that
//! have its components, filled by the owner of the volume, and takes its place.
//!
//! Invariants: a volume that is held is released only when it is served as the directory says; what is not known is looked for until it is.
//! Never: decides what is to be done about one (`cluster::Move` does); copies data.

use super::node::Node;
use base::{ComponentId, ObjectId, VolumeId};
use cluster::record::{ComponentRecord, ObjectRecord, Stage, VolumeRecord};
use cluster::{GroupSeen, Layout, MirrorSlots, Move, Slot, owner_of};
use dataplane::{ComponentNo, FillState, component_spec};
use directory::{DirectoryError, Revision, Transaction, Typed, Versioned};
use std::cell::Cell;
use std::rc::Rc;

/// How often a node looks after volumes that are laid out anew.
const LOOK_NS: u64 = 50_000_000;
/// Before the outcome of a swap is looked for again.
const SWAP_AGAIN_NS: u64 = 100_000_000;

impl Node {
    // ---- what administrators ask for --------------------------------------------------------------------------------

    /// A volume is to lie on so many mirrors, on the nodes where it is.
    pub(super) async fn lays_out(&self, id: VolumeId, mirrors: usize) {
        if let Ok(at) = self.change(|| self.new_place(id, mirrors)).await
            && self.serve(at).await.is_ok()
        {
            let _ = self.work().await;
        }
    }
    fn new_place(&self, id: VolumeId, mirrors: usize) -> Result<Transaction, DirectoryError> {
        let nothing = Transaction::new();
        let Some(mut volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(nothing) };
        let Some(object) = self.way.find::<ObjectRecord>(&volume.object.to_string())? else { return Ok(nothing) };
        if volume.moves_to.is_some() || volume.is_under_way() {
            return Ok(nothing);
        }
        let reserved: u64 = object.mirrors.iter().filter_map(|m| m.first()).map(|c| c.reserve_chunks).sum();
        let slot = |c: &ComponentRecord| Slot {
            node: c.node.clone(),
            group: c.group,
            capacity_index: 0,
            bytes: c.bytes,
            reserve_chunks: reserved.div_ceil(mirrors as u64),
        };
        let copies = object.mirrors[0].iter().filter(|c| c.is_used());
        let layout = Layout { mirrors: vec![MirrorSlots { copies: copies.map(slot).collect() }; mirrors] };
        let (other, place) = (VolumeId::from_bytes(self.nonce().0), ObjectId::from_bytes(self.nonce().0));
        let planned = VolumeRecord::planned(other, volume.name.clone(), volume.bytes, volume.policy.clone(), place, 1);
        let owner = owner_of(&object).map(str::to_owned);
        let other = VolumeRecord { lba_bytes: volume.lba_bytes, place_of: Some(id), preferred_owner: owner, ..planned };
        let place = ObjectRecord::planned(place, other.id, &layout, |_, _| ComponentId::from_bytes(self.nonce().0));
        volume.value.moves_to = Some(other.id);
        Ok(nothing.update(&volume).create(&other).create(&place).hold(&object))
    }
    /// A volume keeps the layout that it has.
    pub(super) async fn stays(&self, id: VolumeId) {
        let decide = || {
            let Some(mut volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(Transaction::new()) };
            let Some(other) = volume.value.moves_to.take() else { return Ok(Transaction::new()) };
            let given_up = Transaction::new().update(&volume);
            let Some(mut other) = self.way.find::<VolumeRecord>(&other.to_string())? else { return Ok(given_up) };
            other.value.stage = Stage::Deleting;
            Ok(given_up.update(&other))
        };
        if let Ok(at) = self.change(decide).await
            && self.serve(at).await.is_ok()
        {
            let _ = self.work().await;
        }
    }

    // ---- components -------------------------------------------------------------------------------------------------

    /// Makes the components of an other place that are to be here. One that has no room is given up.
    pub(super) async fn finish_create(&self, id: VolumeId) -> Result<(), DirectoryError> {
        let Some(mut volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(()) };
        let Some(mut object) = self.way.find::<ObjectRecord>(&volume.object.to_string())? else { return Ok(()) };
        for (mirror, copy) in object.places() {
            let c = object.mirrors[mirror][copy].clone();
            if c.node != self.name || c.no.is_some() {
                continue;
            }
            let made = self.answer(self.commands().create_component(c.group, component_spec(&volume, &object, mirror, copy))).await;
            let Ok(no) = made else {
                if let Some(of) = volume.place_of {
                    self.live.borrow_mut().no_room.insert(of);
                }
                return Ok(());
            };
            self.note_component(&c, Some(no.0));
            object.value.mirrors[mirror][copy].no = Some(no.0);
        }
        let mut made = Transaction::new().update(&object);
        if object.components().all(|c| c.no.is_some()) {
            volume.value.stage = Stage::Ready;
            made = made.update(&volume);
        }
        self.commit_as(made, self.nonce()).await.map(drop)
    }
    /// Deletes the components of an other place, or of what is left of one, that are here; who is last removes the records.
    pub(super) async fn finish_delete(&self, id: VolumeId) -> Result<(), DirectoryError> {
        let Some(volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(()) };
        self.serve(volume.revision).await?;
        let Some(mut object) = self.way.find::<ObjectRecord>(&volume.object.to_string())? else { return Ok(()) };
        for (mirror, copy) in object.places() {
            let c = object.mirrors[mirror][copy].clone();
            if c.node != self.name {
                continue;
            }
            let spec = component_spec(&volume, &object, mirror, copy);
            // Whether it was made is not known: making is idempotent. Without room for it, it was not.
            let no = match c.no {
                Some(no) => Some(no),
                None => self.answer(self.commands().create_component(c.group, spec)).await.ok().map(|no| no.0),
            };
            if let Some(no) = no {
                let deleted = self.answer(self.commands().delete_component(c.group, ComponentNo(no))).await;
                deleted.map_err(|_| DirectoryError::Unavailable)?;
            }
            self.note_component(&c, None);
        }
        let gone = if object.components().all(|c| c.node == self.name) {
            Transaction::new().remove(&volume).remove(&object)
        } else {
            object.value.mirrors.iter_mut().for_each(|copies| copies.retain(|c| c.node != self.name));
            Transaction::new().update(&object)
        };
        self.commit_as(gone, self.nonce()).await.map(drop)
    }
    fn note_component(&self, c: &ComponentRecord, no: Option<u32>) {
        if let Some(GroupSeen::Open(found)) = self.live.borrow_mut().observed.groups.get_mut(&c.group) {
            match no {
                Some(no) => found.insert(c.id, no),
                None => found.remove(&c.id),
            };
        }
    }

    // ---- data -------------------------------------------------------------------------------------------------------

    /// Looks after volumes that are laid out anew, by what was last seen of the directory.
    pub(super) async fn moves(self: Rc<Self>) {
        self.moment.until(|| self.is_serving()).await;
        loop {
            self.moment.sleep(LOOK_NS).await;
            let Ok((moving, left)) = self.seen_moves() else { continue };
            let filled: Vec<VolumeId> = moving.iter().filter(|m| self.fills(m)).map(|m| m.volume.id).collect();
            let ended: Vec<VolumeId> = self.live.borrow().fills.iter().filter(|id| !filled.contains(id)).copied().collect();
            for id in ended {
                self.live.borrow_mut().fills.remove(&id);
                let _ = self.answer(self.commands().end_fill(id)).await;
            }
            for one in &moving {
                self.see_to(one).await;
            }
            for id in left {
                let decide = || {
                    let found = self.way.find::<VolumeRecord>(&id.to_string())?;
                    let Some(mut left) = found.filter(|v| v.stage != Stage::Deleting) else { return Ok(Transaction::new()) };
                    left.value.stage = Stage::Deleting;
                    Ok(Transaction::new().update(&left))
                };
                if self.change(decide).await.is_ok() {
                    let _ = self.work().await;
                }
            }
        }
    }
    /// Volumes that move, and other places that no volume moves to.
    fn seen_moves(&self) -> Result<(Vec<Moving>, Vec<VolumeId>), DirectoryError> {
        let live = self.live.borrow();
        let view = live.followed.view();
        let volumes: Vec<Versioned<VolumeRecord>> = view.all()?;
        let (mut moving, mut left) = (Vec::new(), Vec::new());
        for volume in &volumes {
            let moved_to = |of: VolumeId| volumes.iter().any(|v| v.id == of && v.moves_to == Some(volume.id));
            if volume.place_of.is_some_and(|of| !moved_to(of)) && volume.stage != Stage::Deleting {
                left.push(volume.id);
            }
            let Some(to) = volume.moves_to else { continue };
            let Some(object) = view.find::<ObjectRecord>(&volume.object.to_string())? else { continue };
            let other = match view.find::<VolumeRecord>(&to.to_string())? {
                Some(other) => view.find::<ObjectRecord>(&other.object.to_string())?.map(|place| (other.value, place.value)),
                None => None,
            };
            moving.push(Moving { volume: volume.value.clone(), object: object.value, other });
        }
        Ok((moving, left))
    }
    fn fills(&self, moving: &Moving) -> bool {
        moving.due() == Move::Fill && owner_of(&moving.object) == Some(&self.name)
    }
    async fn see_to(&self, moving: &Moving) {
        let Moving { volume, object, other } = moving;
        let no_room = self.live.borrow_mut().no_room.remove(&volume.id);
        match (moving.due(), other) {
            (Move::GiveUp, _) => self.stays(volume.id).await,
            _ if no_room => self.stays(volume.id).await,
            (Move::Follow, Some((other, place))) => {
                let owner = owner_of(object).map(str::to_owned);
                match place.used().any(|c| Some(&c.node) == owner.as_ref()) {
                    false => self.stays(volume.id).await,
                    true if other.preferred_owner != owner => self.set(other.id, |v| v.preferred_owner.clone_from(&owner)).await,
                    true => {}
                }
            }
            (Move::Fill, Some((other, _))) if self.fills(moving) => {
                self.live.borrow_mut().fills.insert(volume.id);
                let state = self.answer(self.commands().fill(volume.id, other.id, volume.resync)).await;
                if let Ok(FillState::Whole) = state {
                    self.swap(volume.id, other).await;
                }
            }
            _ => {}
        }
    }
    /// A volume goes by its other place, which has all of its data.
    async fn swap(&self, id: VolumeId, other: &VolumeRecord) {
        if !matches!(self.answer(self.commands().hold_filled(id)).await, Ok(true)) {
            return;
        }
        match self.swap_held(id, other).await {
            Some(at) => {
                self.again_until(async || self.serve(at).await).await;
                self.live.borrow_mut().fills.remove(&id);
                let _ = self.answer(self.commands().end_fill(id)).await;
                *self.workload.borrow_mut().counts.acts.entry("moves".into()).or_default() += 1;
                let _ = self.work().await;
            }
            None => drop(self.answer(self.commands().release(id)).await),
        }
    }
    /// As of when the objects are swapped; `None`: they are not, and will not be.
    async fn swap_held(&self, id: VolumeId, other: &VolumeRecord) -> Option<Revision> {
        let (swapped, mut unknown) = (Cell::new(false), false);
        loop {
            let outcome = self.change(|| self.decide_swap(id, other, &swapped)).await;
            match outcome {
                Ok(at) => return swapped.get().then_some(at),
                Err(DirectoryError::Unknown { .. }) => unknown = true,
                Err(_) if unknown => {}
                Err(_) => return None,
            }
            self.moment.sleep(SWAP_AGAIN_NS).await;
        }
    }
    fn decide_swap(&self, id: VolumeId, other: &VolumeRecord, swapped: &Cell<bool>) -> Result<Transaction, DirectoryError> {
        swapped.set(false);
        let nothing = Transaction::new();
        let Some(volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(nothing) };
        if volume.object == other.object {
            swapped.set(true);
            return Ok(nothing);
        }
        let Some(other) = self.way.find::<VolumeRecord>(&other.id.to_string())? else { return Ok(nothing) };
        let object = self.way.find::<ObjectRecord>(&volume.object.to_string())?;
        let place = self.way.find::<ObjectRecord>(&other.object.to_string())?;
        let (Some(object), Some(place)) = (object, place) else { return Ok(nothing) };
        if owner_of(&object) != Some(&self.name) {
            return Ok(nothing);
        }
        let Some((v, new, o, old)) = cluster::swapped(&volume, &object, &other, &place) else { return Ok(nothing) };
        swapped.set(true);
        let volumes =
            nothing.update(&Versioned { revision: volume.revision, value: v }).update(&Versioned { revision: other.revision, value: o });
        Ok(volumes.update(&Versioned { revision: place.revision, value: new }).update(&Versioned { revision: object.revision, value: old }))
    }
}

/// A volume that is laid out anew, and its other place, if it has one.
struct Moving {
    volume: VolumeRecord,
    object: ObjectRecord,
    other: Option<(VolumeRecord, ObjectRecord)>,
}

impl Moving {
    fn due(&self) -> Move {
        Move::due(&self.volume, &self.object, self.other.as_ref().map(|(other, place)| (other, place)), true)
    }
}

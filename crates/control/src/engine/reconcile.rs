//! Bringing what is into line with what should be: opening groups, finishing what a crash has left half-done.
//!
//! Invariants: finishing is idempotent; a component that no record names is reported and left alone.

use super::*;
use crate::engine::layout::new_component;
use base::ComponentId;
use dataplane::{ComponentInfo, ComponentNo, FormatSpec};

/// A component on a group that no record names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub group: String,
    pub component: ComponentId,
    pub bytes: u64,
}

impl Control {
    /// Opens all groups of this host. One that cannot be opened is offline; the others go on.
    pub(super) fn open_groups(&self) -> Result<(), DirectoryError> {
        let groups: Vec<_> = self.directory.all::<GroupRecord>()?.into_iter().filter(|g| g.host == self.identity.host).collect();
        for group in groups {
            match group.stage {
                Stage::Ready => {
                    self.open_or_remake(&group)?;
                }
                Stage::Creating => self.finish_group(group)?,
                Stage::Deleting => self.forget_group(group)?,
            }
        }
        Ok(())
    }

    fn open_or_remake(&self, group: &GroupRecord) -> Result<bool, DirectoryError> {
        if group.is_volatile() {
            return self.remake(group);
        }
        let devices: Vec<DeviceRecord> = group.devices().cloned().collect();
        match self.plane.open_group(self.directory.cluster(), group.id, &devices) {
            Ok(found) => {
                tracing::info!(group = %group.name, components = found.len(), "disk group opened");
                self.live().groups.insert(group.id, GroupLive::Online);
                self.compare(group, &found)?;
                Ok(true)
            }
            Err(error) => {
                tracing::error!(group = %group.name, %error, "disk group cannot be opened");
                self.live().groups.insert(group.id, GroupLive::Offline(error.to_string()));
                Ok(false)
            }
        }
    }

    /// A group in memory is empty after a restart: it is made anew, and its components with it.
    fn remake(&self, group: &GroupRecord) -> Result<bool, DirectoryError> {
        tracing::warn!(group = %group.name, "this disk group has devices in memory: what it held before the restart is gone");
        if let Err(error) = self.format(group, CacheFile::Sparse, true) {
            tracing::error!(group = %group.name, %error, "disk group cannot be made anew");
            self.live().groups.insert(group.id, GroupLive::Offline(error.to_string()));
            return Ok(false);
        }
        self.live().groups.insert(group.id, GroupLive::Online);
        for mut object in self.directory.all::<ObjectRecord>()? {
            let mut touched = false;
            for c in object.value.stripes.iter_mut().flatten().filter(|c| c.group == group.id) {
                (c.no, touched) = (None, true);
            }
            let volume = self.directory.find::<VolumeRecord>(&object.volume.to_string())?;
            if let (true, Some(mut volume)) = (touched, volume) {
                if volume.stage == Stage::Ready {
                    volume.value.stage = Stage::Creating;
                }
                self.directory.commit(&Transaction::new().update(&object).update(&volume))?;
            }
        }
        Ok(true)
    }

    /// Notes components that are on the group but in no record, and those in records that are not on the group.
    fn compare(&self, group: &GroupRecord, found: &[ComponentInfo]) -> Result<(), DirectoryError> {
        let mut known = BTreeMap::new();
        for mut object in self.directory.all::<ObjectRecord>()? {
            let mut touched = false;
            for c in object.value.stripes.iter_mut().flatten().filter(|c| c.group == group.id) {
                known.insert(c.id, ());
                let Some(no) = c.no else { continue };
                let there = found.iter().any(|f| f.id == c.id && f.no == ComponentNo(no));
                let state = if there { ComponentState::Active } else { ComponentState::Degraded };
                touched |= std::mem::replace(&mut c.state, state) != state;
            }
            if touched {
                self.directory.commit(&Transaction::new().update(&object))?;
            }
        }
        let orphans = found.iter().filter(|f| !known.contains_key(&f.id)).map(|f| Orphan {
            group: group.name.clone(),
            component: f.id,
            bytes: f.bytes,
        });
        let mut live = self.live();
        live.orphans.retain(|o| o.group != group.name);
        live.orphans.extend(orphans);
        Ok(())
    }

    /// Makes a group on its devices.
    pub(super) fn format(&self, group: &GroupRecord, file: CacheFile, force: bool) -> Result<(), PlaneError> {
        let spec = FormatSpec {
            cluster: self.directory.cluster(),
            group: group.id,
            name: group.name.clone(),
            shards: group.shards,
            created_unix_s: group.created_unix_s,
            force,
        };
        self.plane.format_group(spec, &group.cache, file, &group.capacity)
    }

    /// A crash came while the group was made. If it is complete it is taken, else it is forgotten: nothing can be on it.
    fn finish_group(&self, mut group: Versioned<GroupRecord>) -> Result<(), DirectoryError> {
        if !group.is_volatile() && self.open_or_remake(&group)? {
            group.value.stage = Stage::Ready;
            self.directory.commit(&Transaction::new().update(&group))?;
            return Ok(());
        }
        tracing::warn!(group = %group.name, "making this disk group was interrupted; make it again with 'basalt group create --force'");
        self.forget_group(group)
    }

    pub(super) fn forget_group(&self, group: Versioned<GroupRecord>) -> Result<(), DirectoryError> {
        self.directory.commit(&Transaction::new().remove(&group).free_name(Kind::Group, &group.name))?;
        self.live().groups.remove(&group.id);
        Ok(())
    }

    /// Finishes volumes that are half made, half resized or half deleted. Says whether anything was finished.
    pub(super) fn finish_leftovers(&self) -> Result<bool, DirectoryError> {
        let mut worked = false;
        for volume in self.directory.all::<VolumeRecord>()? {
            let (what, outcome) = match volume.stage {
                Stage::Creating => ("create", self.finish_create(volume.clone())),
                Stage::Deleting => ("delete", self.finish_delete(volume.clone())),
                Stage::Ready if volume.resize_to.is_some() => ("resize", self.finish_resize(volume.clone()).map(|_| ())),
                Stage::Ready if volume.format_to.is_some() => ("format", self.finish_format(volume.clone())),
                Stage::Ready => continue,
            };
            let id = format!("{what}-volume/{}", volume.id);
            match outcome {
                Ok(()) => {
                    tracing::info!(volume = %volume.name, what, "unfinished work is finished");
                    self.directory.commit(&Transaction::new().remove_id::<TaskRecord>(&id))?;
                    worked = true;
                }
                Err(problem) => self.note_task(id, format!("{what} volume {}", volume.name), &problem)?,
            }
        }
        Ok(worked)
    }

    /// Remembers that something could not be finished.
    pub(super) fn note_task(&self, id: String, what: String, problem: &Problem) -> Result<(), DirectoryError> {
        tracing::warn!(what, error = %problem.message, "cannot be finished yet; will be tried again");
        let attempts = self.directory.find::<TaskRecord>(&id)?.map_or(0, |t| t.attempts) + 1;
        let task = TaskRecord { id, what, error: problem.message.clone(), attempts, last_unix_s: now_unix_s() };
        self.directory.commit(&Transaction::new().put(&task))?;
        Ok(())
    }

    /// Makes every component that is not made yet; idempotent.
    pub(super) fn make_components(&self, volume: &VolumeRecord, object: &mut ObjectRecord) -> Result<(), Problem> {
        let stripes = object.stripes.len();
        for (s, stripe) in object.stripes.iter_mut().enumerate() {
            for (copy, c) in stripe.iter_mut().enumerate() {
                if c.no.is_none() {
                    let new = new_component(volume, c, s, stripes, copy);
                    c.no = Some(self.plane.create_component(c.group, new)?.0);
                    c.state = ComponentState::Active;
                }
            }
        }
        Ok(())
    }
}

//! What the operator keeps of a volume, and the steps of each act on it, in the order in which `control` takes them.
//!
//! Owns: [`Record`], [`Task`].
//! Invariant: a step that was cut short is taken again; each is idempotent.

use super::ids::{NODE, component_id, group};
use crate::acts::Act;
use crate::node_types::volume_id;
use crate::plan::VolumePlan;
use crate::served::State;
use base::{CopyState, ObjectId, Ownership, WriteProtect};
use cluster::record::{ComponentRecord, ObjectRecord, PolicyRecord, Stage, VolumeRecord};
use cluster::{Finish, Policy};
use dataplane::{ComponentNo, ComponentRef, ComponentSpec, MirrorDesired, ObjectLayout, VolumeDesired, VolumeLimits};
use std::collections::VecDeque;

/// Bytes up to which a component reaches.
const COMPONENT_BYTES: u64 = 1 << 30;
/// Volumes that there are in a run, deleted ones included: their identifiers are single bytes.
pub const VOLUMES_MAX: usize = 24;

/// A volume, as the operator wants it; `control` has it in the directory.
pub struct Record {
    /// How it was planned.
    pub plan: VolumePlan,
    /// As it is to be served.
    pub desired: VolumeDesired,
    /// The namespace that it is; `None`: it is detached.
    pub nsid: Option<u32>,
    /// The namespace that it was at last.
    pub last_nsid: u32,
    /// Its group cannot be reached.
    pub offline: bool,
    /// Whether it is being made, is there, or is being deleted.
    pub stage: Stage,
    /// The size that it is going to.
    pub resize_to: Option<u64>,
    /// The largest size that it ever had.
    pub most_bytes: u64,
}

impl Record {
    /// A volume with its components.
    pub fn new(at: usize, plan: &VolumePlan, numbers: &[ComponentNo]) -> Record {
        let mirror = |(mirror, no): (usize, &ComponentNo)| {
            MirrorDesired::of_one(ComponentRef { id: component_id(at, mirror), group: group(), no: *no })
        };
        let bytes = ((plan.first_block + plan.blocks) * u64::from(plan.lba_bytes)).next_multiple_of(4096);
        let object = ObjectLayout {
            object: ObjectId::from_bytes([at as u8 + 1; 16]),
            ownership: Ownership::FIRST,
            mirrors: numbers.iter().enumerate().map(mirror).collect(),
        };
        let id = volume_id(at);
        let limits = VolumeLimits { iops_max: plan.iops_max, bytes_per_s_max: None };
        let mut desired = VolumeDesired { checksum: plan.checksum, limits, ..VolumeDesired::plain(id, format!("v{at}"), bytes, object) };
        desired.lba_bytes = plan.lba_bytes;
        let nsid = at as u32 + 1;
        Record {
            plan: plan.clone(),
            desired,
            nsid: Some(nsid),
            last_nsid: nsid,
            offline: false,
            stage: Stage::Ready,
            resize_to: None,
            most_bytes: bytes,
        }
    }

    /// The node was started, and has begun a term. Now and then a period begins with it.
    pub fn begin_term(&mut self, ownership: Ownership) {
        let owned = &mut self.desired.object.ownership;
        *owned = ownership;
        if owned.epoch.0.is_multiple_of(3) {
            owned.period_start = owned.epoch;
        }
    }
    /// A copy that there is not has left, or come back: the next epoch, while the node serves the volume. Now and then a period begins with it.
    pub fn begin_epoch(&mut self) {
        let owned = &mut self.desired.object.ownership;
        owned.epoch.0 += 1;
        if owned.epoch.0.is_multiple_of(2) {
            owned.period_start = owned.epoch;
        }
    }

    /// It was deleted, or is not made yet.
    pub fn is_gone(&self) -> bool {
        self.stage != Stage::Ready
    }
    /// What is left to be done of it, should the node die now.
    pub fn unfinished(&self) -> Option<Finish> {
        match self.stage {
            Stage::Creating => Some(Finish::Create),
            Stage::Deleting => Some(Finish::Delete),
            Stage::Ready if self.resize_to.is_some() => Some(Finish::Resize),
            Stage::Ready if self.desired.formatting => Some(Finish::Format),
            Stage::Ready => None,
        }
    }
    /// As the directory has it.
    pub fn volume_record(&self) -> VolumeRecord {
        let v = &self.desired;
        VolumeRecord {
            id: v.id,
            name: v.name.clone(),
            bytes: v.bytes,
            lba_bytes: v.lba_bytes,
            write_protect: v.write_protect,
            policy: v.name.clone(),
            object: v.object.object,
            stage: self.stage,
            attach_to: None,
            resize_to: self.resize_to,
            policy_before: None,
            preferred_owner: None,
            resync: base::ResyncPace::Normal,
            format_to: v.formatting.then_some(v.lba_bytes),
            groups: Default::default(),
            stripe_width: None,
            moves_to: None,
            place_of: None,
            created_unix_s: 1,
        }
    }
    /// Its policy, which no other volume has.
    pub fn policy_record(&self) -> PolicyRecord {
        let v = &self.desired;
        let policy =
            Policy { iops_limit: v.limits.iops_max, bandwidth_limit: v.limits.bytes_per_s_max, checksum: v.checksum, ..Policy::default() };
        PolicyRecord::new(v.name.clone(), policy, 1)
    }
    /// Its layout.
    pub fn object_record(&self) -> ObjectRecord {
        let made = &self.desired.object.mirrors;
        let component = |(mirror, &capacity_index): (usize, &u8)| {
            let no = made.get(mirror).and_then(|m| m.here().next()).map(|c| c.no.0);
            vec![ComponentRecord {
                id: component_id(self.at(), mirror),
                node: NODE.into(),
                group: group(),
                capacity_index,
                no,
                bytes: COMPONENT_BYTES,
                reserve_chunks: self.plan.reserve_chunks,
                state: CopyState::Active,
                synced_to: base::Epoch(0),
                leaving: false,
            }]
        };
        let (id, volume, ownership) = (self.desired.object.object, self.desired.id, self.desired.object.ownership);
        ObjectRecord { ownership, ..ObjectRecord::new(id, volume, self.plan.stripes.iter().enumerate().map(component).collect()) }
    }
    /// Its place among all volumes.
    fn at(&self) -> usize {
        usize::from(self.desired.id.as_bytes()[0]) - 1
    }
    /// It, as clients see it.
    pub fn state(&self) -> State {
        State {
            nsid: self.nsid.filter(|_| !self.is_gone()),
            blocks: self.desired.bytes / u64::from(self.desired.lba_bytes),
            read_only: self.desired.write_protect.is_on(),
            formatting: self.desired.formatting,
            offline: self.offline,
            limits: self.desired.limits,
        }
    }
    /// The component of a mirror.
    pub fn component(&self, at: usize, mirror: usize) -> ComponentSpec {
        ComponentSpec {
            id: component_id(at, mirror),
            object: ObjectId::from_bytes([at as u8 + 1; 16]),
            capacity_index: self.plan.stripes[mirror],
            bytes: COMPONENT_BYTES,
            reserve_chunks: self.plan.reserve_chunks,
            descriptor: vec![at as u8],
        }
    }
    /// Up to where its content may reach.
    pub fn reached(&self) -> u64 {
        self.most_bytes.next_multiple_of(1 << 20)
    }
    /// The size that a part of its used blocks leaves, in whole blocks of 4 KiB.
    fn shrunk(&self, percent: u64) -> u64 {
        let lba = u64::from(self.desired.lba_bytes);
        let used = (self.desired.bytes / lba).saturating_sub(self.plan.first_block);
        let blocks = self.plan.first_block + used * (100 - percent.min(100)) / 100;
        (blocks * lba).next_multiple_of(4096).max(4096)
    }
}

/// A step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// What is desired becomes so; the node does not have it yet.
    Set(Change),
    /// Every core gets it.
    Apply,
    /// What lies behind the end is freed.
    Free,
    /// The component of a mirror is brought in line, durably.
    Update(usize),
    /// The component of a mirror is deleted.
    Delete(usize),
    /// The component of a mirror is made.
    Create(usize),
}

/// A change of what is desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The size.
    Bytes(u64),
    /// Whether it is being formatted.
    Formatting(bool),
    /// Whether it is write protected.
    ReadOnly(bool),
    /// Requests and bytes a second.
    Limits(VolumeLimits),
    /// Whether it can be reached.
    Offline(bool),
    /// The namespace that it is.
    Namespace(Option<u32>),
    /// It is deleted.
    Gone,
    /// It is complete, and becomes this namespace.
    Made(u32),
}

/// An act under way.
pub struct Task {
    /// The volume.
    pub volume: usize,
    /// What is left to do; the first may be under way.
    pub moves: VecDeque<Move>,
    /// The size that the volume is going to, until all of it is done.
    pub resize_to: Option<u64>,
}

/// The volume of an act, and its steps; `None` when it cannot be carried out now. `control` refuses it then.
pub fn task(act: Act, records: &[Record], nsid_next: &mut u32) -> Option<Task> {
    let live: Vec<usize> = (0..records.len()).filter(|at| !records[*at].is_gone()).collect();
    let (Act::Shrink { volume, .. }
    | Act::Regrow { volume }
    | Act::Format { volume }
    | Act::Protect { volume, .. }
    | Act::Limit { volume, .. }
    | Act::Offline { volume, .. }
    | Act::Detach { volume }
    | Act::Attach { volume, .. }
    | Act::Replace { volume }) = act
    else {
        unreachable!("acts on the group have no steps");
    };
    let at = live[volume as usize % live.len()];
    let r = &records[at];
    let mirrors = 0..r.plan.stripes.len();
    let updates = mirrors.clone().map(Move::Update);
    let set = |change| Some(vec![Move::Set(change), Move::Apply]);
    let moves: Vec<Move> = match act {
        Act::Shrink { percent, .. } => {
            let bytes = Some(r.shrunk(percent)).filter(|bytes| *bytes < r.desired.bytes && !r.offline)?;
            [Move::Set(Change::Bytes(bytes)), Move::Apply, Move::Free].into_iter().chain(updates).collect()
        }
        Act::Regrow { .. } => {
            (r.desired.bytes < r.most_bytes).then_some(())?;
            updates.chain([Move::Set(Change::Bytes(r.most_bytes)), Move::Apply]).collect()
        }
        Act::Format { .. } => {
            (!r.offline && !r.desired.write_protect.is_on()).then_some(())?;
            let begin = [Move::Set(Change::Formatting(true)), Move::Apply, Move::Free];
            begin.into_iter().chain(updates).chain([Move::Set(Change::Formatting(false)), Move::Apply]).collect()
        }
        Act::Protect { on, .. } => set(Change::ReadOnly(on)).filter(|_| on != r.desired.write_protect.is_on())?,
        Act::Limit { iops_max, bytes_per_s_max, .. } => set(Change::Limits(VolumeLimits { iops_max, bytes_per_s_max }))?,
        Act::Offline { on, .. } => set(Change::Offline(on)).filter(|_| on != r.offline)?,
        Act::Detach { .. } => set(Change::Namespace(None)).filter(|_| r.nsid.is_some())?,
        Act::Attach { elsewhere, .. } => {
            r.nsid.is_none().then_some(())?;
            *nsid_next += u32::from(elsewhere);
            set(Change::Namespace(Some(if elsewhere { *nsid_next } else { r.last_nsid })))?
        }
        Act::AddDevice { .. } | Act::RemoveDevice { .. } => unreachable!("it is of a volume"),
        Act::Replace { .. } => {
            (!r.offline && records.len() < VOLUMES_MAX).then_some(())?;
            let deletes = [Move::Set(Change::Gone), Move::Apply].into_iter().chain(mirrors.map(Move::Delete));
            return Some(Task { volume: at, moves: deletes.collect(), resize_to: None });
        }
    };
    let resize_to = moves.iter().find_map(|m| if let Move::Set(Change::Bytes(bytes)) = m { Some(*bytes) } else { None });
    Some(Task { volume: at, moves: moves.into(), resize_to })
}

/// The steps that make another volume like a deleted one, on these capacity devices; none: on the same.
pub fn successor(of: usize, records: &mut Vec<Record>, nsid_next: &mut u32, places: &[u8]) -> Task {
    let mut plan = VolumePlan { reserve_chunks: 0, ..records[of].plan.clone() };
    let volume = records.len();
    if !places.is_empty() {
        plan.stripes.iter_mut().for_each(|number| *number = places[(usize::from(*number) + volume) % places.len()]);
    }
    let mirrors = 0..plan.stripes.len();
    let record = Record::new(volume, &plan, &[]);
    records.push(Record { nsid: None, stage: Stage::Creating, ..record });
    *nsid_next += 1;
    let made = [Move::Set(Change::Made(*nsid_next)), Move::Apply];
    Task { volume, moves: mirrors.map(Move::Create).chain(made).collect(), resize_to: None }
}

impl Record {
    /// Makes a change.
    pub fn set(&mut self, change: Change) {
        match change {
            Change::Bytes(bytes) => self.desired.bytes = bytes,
            Change::Formatting(on) => self.desired.formatting = on,
            Change::ReadOnly(on) => self.desired.write_protect = if on { WriteProtect::Protected } else { WriteProtect::None },
            Change::Limits(limits) => self.desired.limits = limits,
            Change::Offline(on) => self.offline = on,
            Change::Namespace(nsid) => {
                self.nsid = nsid;
                self.last_nsid = nsid.unwrap_or(self.last_nsid);
            }
            Change::Gone => self.stage = Stage::Deleting,
            Change::Made(nsid) => {
                (self.stage, self.nsid, self.last_nsid) = (Stage::Ready, Some(nsid), nsid);
            }
        }
    }
    /// A component was made.
    pub fn made(&mut self, at: usize, mirror: usize, no: ComponentNo) {
        let made = MirrorDesired::of_one(ComponentRef { id: component_id(at, mirror), group: group(), no });
        let mirrors = &mut self.desired.object.mirrors;
        mirrors.truncate(mirror);
        mirrors.push(made);
    }
    /// The number of a mirror's component.
    pub fn number(&self, mirror: usize) -> ComponentNo {
        self.desired.object.mirrors[mirror].here().next().expect("it was made").no
    }
}

//! What a node has to do so that what is becomes what the records say: which groups to open, make or forget, what was found of components,
//! which volumes to finish, what can be served.
//!
//! ```text
//!  records (directory) ─┐
//!                       ├─► reconcile ─► actions, each carried out by its node ─► other records, other observations ─► ...
//!  observed (node) ─────┘                until there is nothing to do
//! ```
//!
//! Owns: [`reconcile`], [`serving`], the states that a component can get by being looked for.
//! Invariants: the same records and observations give the same actions, in any order of the records; carrying them out leads to a point where
//! there is nothing to do; a component never becomes active by being found; a node acts on its own groups, and on volumes that only it can
//! serve; nothing of a group that is not open is called gone.
//! Never: does anything itself, knows how it went but by what is observed next.

use crate::record::{GroupRecord, HeardCopy, NodeRecord, ObjectRecord, PolicyRecord, ReservationRecord, Stage, VolumeRecord};
use crate::restored::says;
use crate::share::share_of;
use base::hooks::{self, SeededFault};
use base::{ComponentId, CopyState, Epoch, GroupId, ObjectId, Ownership, VolumeId, WriteProtect};
use std::collections::{BTreeMap, BTreeSet};

/// Terms that begin with one change of the directory.
const TERMS_AT_ONCE: usize = 100;

/// What the directory says, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Nodes, also those that were removed.
    pub nodes: Vec<NodeRecord>,
    /// Disk groups of all nodes.
    pub groups: Vec<GroupRecord>,
    /// Volumes.
    pub volumes: Vec<VolumeRecord>,
    /// Their layouts.
    pub objects: Vec<ObjectRecord>,
    /// Their reservations.
    pub reservations: Vec<ReservationRecord>,
    /// Their storage policies.
    pub policies: Vec<PolicyRecord>,
    /// Of the view of each volume: the higher of the directory's revisions of its record and of its reservation's. All nodes that see the same of a
    /// volume have the same number for it. When a reservation goes the number stays or falls back: what was judged with it was judged more strictly.
    pub view_revisions: BTreeMap<VolumeId, u64>,
    /// Of each object: the directory's revision of its record.
    pub object_revisions: BTreeMap<ObjectId, u64>,
}

impl Records {
    /// Notes at which revision the record of a volume, or of its reservation, was written.
    pub fn note_view(&mut self, volume: VolumeId, revision: u64) {
        let known = self.view_revisions.entry(volume).or_default();
        *known = revision.max(*known);
    }
    /// See [`Records::object_revisions`].
    pub fn object_revision(&self, object: ObjectId) -> u64 {
        self.object_revisions.get(&object).copied().unwrap_or_default()
    }
    /// See [`Records::view_revisions`].
    pub fn view_revision(&self, volume: VolumeId) -> u64 {
        self.view_revisions.get(&volume).copied().unwrap_or_default()
    }
}

/// How one of the node's groups is. One that is not mentioned was not tried yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupSeen {
    /// Open, with these components: their numbers by id.
    Open(BTreeMap<ComponentId, u32>),
    /// It could not be opened or made.
    Offline,
}

/// A component that was found on a group, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySeen {
    /// The component.
    pub component: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// The highest epoch that it has accepted; 0: none.
    pub epoch: Epoch,
    /// The same, or the highest that a change of it came with.
    pub taken: Epoch,
    /// It is being brought into sync.
    pub resyncing: bool,
}

/// What a node knows of itself.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Its name.
    pub node: String,
    /// It has just started, and this is a loss of power to the hosts of these volumes ([`only_on`], as it was then): what ends with that has not
    /// ended yet.
    pub restarted: BTreeSet<VolumeId>,
    /// The terms that it has begun since it started, by object.
    pub terms: BTreeMap<ObjectId, Epoch>,
    /// Its groups.
    pub groups: BTreeMap<GroupId, GroupSeen>,
    /// What is on its open groups. Only where an object was restored.
    pub copies: BTreeMap<GroupId, Vec<CopySeen>>,
    /// The nodes, by name, to which it can pass on what hosts ask of volumes that those own ([`crate::can_forward`]).
    pub forwards: BTreeSet<String>,
    /// Objects that are its own by the records, and that it does not serve: others may own them by now.
    pub away: BTreeSet<ObjectId>,
}

impl Observed {
    /// An object of its own is not served, or is.
    pub fn note_away(&mut self, object: ObjectId, away: bool) {
        if away {
            self.away.insert(object);
        } else {
            self.away.remove(&object);
        }
    }
    /// Whether a component is on an open group of this node, with this number.
    pub fn finds(&self, group: GroupId, component: ComponentId, no: u32) -> bool {
        matches!(self.groups.get(&group), Some(GroupSeen::Open(found)) if found.get(&component) == Some(&no))
    }
}

/// What is left to do for a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finish {
    /// Make the components that are not made.
    Create,
    /// Delete the components, then the records.
    Delete,
    /// Bring size and reservations in line.
    Resize,
    /// Free everything, then change the size of blocks.
    Format,
    /// Make copies that are added, delete those that leave.
    Copies,
}

/// Something to be done by the node. Each is idempotent, and is a compare-and-swap where it changes a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Write protection until a restart is over.
    EndProtection(VolumeId),
    /// A reservation that does not persist through power loss is gone.
    EndReservation(VolumeId),
    /// Own objects from an epoch on that is one higher than this, with all numbers of changes beginning anew: what this node did before its restart,
    /// or another owner, was a term of its own.
    BeginTerms(Vec<(ObjectId, Epoch)>),
    /// Open a group.
    OpenGroup(GroupId),
    /// Make a group in memory anew; what it held is gone.
    RemakeGroup(GroupId),
    /// A group that was being made is whole.
    GroupIsReady(GroupId),
    /// A group that was being made or removed is to be forgotten.
    ForgetGroup(GroupId),
    /// Components of a group in memory must be made anew, and their volumes with them.
    LoseComponents(ObjectId, GroupId),
    /// What the node has of an object that was restored from a backup.
    SayCopies {
        /// The object.
        object: ObjectId,
        /// The node.
        node: String,
        /// What it has.
        copies: Vec<HeardCopy>,
    },
    /// What was found of components.
    SetStates(ObjectId, Vec<(ComponentId, CopyState)>),
    /// Go on with a volume.
    Finish(VolumeId, Finish),
}

/// Everything that `observed.node` has to do now. What depends on the outcome of another action comes when that is observed.
pub fn reconcile(records: &Records, observed: &Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    actions.extend(restart(records, observed));
    actions.extend(terms(records, observed));
    for group in records.groups.iter().filter(|g| g.node == observed.node) {
        actions.extend(for_group(group, observed.groups.get(&group.id)));
    }
    for object in &records.objects {
        if object.change.restored {
            let says = says(object, records, observed);
            actions.extend(says.map(|copies| Action::SayCopies { object: object.id, node: observed.node.clone(), copies }));
        } else {
            actions.extend(for_components(records, observed, object));
        }
    }
    // Volumes come when every group has been tried (else each of them would fail for want of its group), and what was found of their
    // components is noted. Nothing else holds them up: a group that cannot be forgotten, say.
    if !actions.iter().any(|a| matches!(a, Action::OpenGroup(_) | Action::RemakeGroup(_))) {
        let noted = |v: &&VolumeRecord| {
            !actions.iter().any(|a| matches!(a, Action::LoseComponents(o, _) | Action::SetStates(o, _) if *o == v.object))
        };
        let share = |v: &VolumeRecord| {
            let object = records.objects.iter().find(|o| o.id == v.object);
            let policy = records.policies.iter().find(|p| p.key() == v.policy);
            let percent = policy.map(|p| p.policy.space_reservation_percent);
            share_of(v, object, percent, &observed.node).map(|what| Action::Finish(v.id, what))
        };
        let changing: BTreeSet<ObjectId> = records.objects.iter().filter(|o| o.components().any(|c| !c.is_used())).map(|o| o.id).collect();
        let restored: BTreeSet<ObjectId> = records.objects.iter().filter(|o| o.change.restored).map(|o| o.id).collect();
        let due = |v: &&VolumeRecord| {
            let waits = restored.contains(&v.object) && v.stage != Stage::Deleting;
            (v.is_under_way() || changing.contains(&v.object)) && !waits
        };
        let finish: Vec<Action> = records.volumes.iter().filter(due).filter(noted).filter_map(share).collect();
        actions.extend(finish);
    }
    actions.sort();
    actions
}

/// Whether only this node can serve the volume: every component is here, or there is none. With copies elsewhere, a restart of this node is
/// no loss of power to the volume's hosts.
fn is_of(records: &Records, volume: &VolumeRecord, node: &str) -> bool {
    let object = records.objects.iter().find(|o| o.id == volume.object);
    object.is_none_or(|o| o.lies_on(node)) || hooks::seeded(SeededFault::RestartEndsAll)
}

/// Volumes that only this node can serve. To be looked at once for each start: one whose other copies go later was served by others meanwhile.
pub fn only_on(records: &Records, node: &str) -> BTreeSet<VolumeId> {
    records.volumes.iter().filter(|v| is_of(records, v, node)).map(|v| v.id).collect()
}

fn restart<'a>(records: &'a Records, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    let ends = |v: &&VolumeRecord| observed.restarted.contains(&v.id) && is_of(records, v, &observed.node);
    let mine = records.volumes.iter().filter(ends);
    mine.flat_map(|volume| {
        let protected = volume.write_protect == WriteProtect::UntilRestart;
        let reservation = records.reservations.iter().find(|r| r.volume == volume.id);
        let volatile = reservation.is_some_and(|r| r.state.clone().power_lost()) && !hooks::seeded(SeededFault::RestartKeepsReservation);
        let ends = [(protected, Action::EndProtection(volume.id)), (volatile, Action::EndReservation(volume.id))];
        ends.into_iter().filter_map(|(is, action)| is.then_some(action))
    })
}

/// Objects that only this node can serve, and whose term is not one of its own.
fn terms<'a>(records: &'a Records, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    let here = |o: &&ObjectRecord| o.is_alone_on(&observed.node) && !o.change.restored;
    let old = |o: &&ObjectRecord| {
        let once = o.ownership.term > Ownership::FIRST.term && hooks::seeded(SeededFault::TermBegunOnce);
        observed.terms.get(&o.id) != Some(&o.ownership.term) && !once
    };
    let mut due: Vec<_> = records.objects.iter().filter(here).filter(old).map(|o| (o.id, o.ownership.epoch)).collect();
    due.sort();
    let batches: Vec<Action> = due.chunks(TERMS_AT_ONCE).map(|batch| Action::BeginTerms(batch.to_vec())).collect();
    batches.into_iter()
}

fn for_group(group: &GroupRecord, seen: Option<&GroupSeen>) -> Option<Action> {
    match (group.stage, seen) {
        (Stage::Deleting, _) => Some(Action::ForgetGroup(group.id)),
        // Half of a group in memory is nothing.
        (Stage::Creating, None) if group.is_volatile() => Some(Action::ForgetGroup(group.id)),
        (Stage::Ready, None) if group.is_volatile() => Some(Action::RemakeGroup(group.id)),
        (Stage::Creating | Stage::Ready, None) => Some(Action::OpenGroup(group.id)),
        (Stage::Creating, Some(GroupSeen::Open(_))) => Some(Action::GroupIsReady(group.id)),
        (Stage::Creating, Some(GroupSeen::Offline)) => Some(Action::ForgetGroup(group.id)),
        (Stage::Ready, Some(_)) => None,
    }
}

/// The state of a component after its group was opened. Found is not in sync: what it missed while it was away is not known here.
pub const fn state_after_open(before: CopyState, found: bool) -> CopyState {
    match (before, found) {
        (_, false) => CopyState::Degraded,
        (CopyState::Absent, true) => CopyState::Stale,
        (state, true) => state,
    }
}

fn for_components(records: &Records, observed: &Observed, object: &ObjectRecord) -> Vec<Action> {
    let (mut states, mut lost) = (Vec::new(), Vec::new());
    // Which copies of an object on several nodes are in sync is what its owner says.
    let alone = object.is_alone_on(&observed.node);
    for c in object.used().filter(|c| c.node == observed.node) {
        let (Some(GroupSeen::Open(found)), Some(no)) = (observed.groups.get(&c.group), c.no) else { continue };
        let there = found.get(&c.id) == Some(&no);
        let volatile = records.groups.iter().any(|g| g.id == c.group && g.is_volatile());
        if volatile && !there {
            lost.push(c.group);
            continue;
        }
        let state = state_after_open(c.state, there);
        if state != c.state && alone {
            states.push((c.id, state));
        }
    }
    lost.sort();
    lost.dedup();
    let lost = lost.into_iter().map(|group| Action::LoseComponents(object.id, group));
    lost.chain((!states.is_empty()).then_some(Action::SetStates(object.id, states))).collect()
}

/// A component that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Its id.
    pub id: ComponentId,
    /// Its disk group.
    pub group: GroupId,
    /// Its number there.
    pub no: u32,
}

/// Why a volume is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// The directory does not have its layout.
    NoLayout,
    /// The directory was restored from a backup, and which copies of it are in sync is not known yet.
    Restored,
    /// The node has not begun the term of its object.
    NotTaken,
    /// The node could not go on as its owner, and another one may own it by now.
    LetGo,
    /// Some of its components are not made yet.
    NotMade,
    /// A component is not in use.
    Component(ComponentId, GroupId),
    /// A disk group is not open.
    Group(GroupId),
}

/// The components with which `observed.node` serves an object, by mirror; or why it does not. Of a mirror that other nodes have copies of, those
/// that are here, in any state.
pub fn serving(object: &ObjectRecord, observed: &Observed) -> Result<Vec<Vec<Usable>>, NotServed> {
    if object.change.restored {
        return Err(NotServed::Restored);
    }
    if observed.terms.get(&object.id) != Some(&object.ownership.term) {
        return Err(NotServed::NotTaken);
    }
    let is_open = |group| matches!(observed.groups.get(&group), Some(GroupSeen::Open(_)));
    let is_found = |group, id, no| observed.finds(group, id, no);
    let usable = |c: &crate::record::ComponentRecord| match (is_open(c.group), c.no, c.state) {
        (false, ..) => Err(NotServed::Group(c.group)),
        (true, None, _) => Err(NotServed::NotMade),
        (true, Some(no), CopyState::Active) => Ok(Usable { id: c.id, group: c.group, no }),
        (true, Some(_), _) => Err(NotServed::Component(c.id, c.group)),
    };
    let here = |c: &&crate::record::ComponentRecord| c.node == observed.node && is_open(c.group);
    let found = |c: &crate::record::ComponentRecord| {
        let no = c.no.filter(|no| is_found(c.group, c.id, *no))?;
        Some(Usable { id: c.id, group: c.group, no })
    };
    let alone = object.owner.is_none();
    let of_mirror = |mirror: &Vec<crate::record::ComponentRecord>| {
        let used = || mirror.iter().filter(|c| c.is_used());
        match alone && used().all(|c| c.node == observed.node) {
            false => Ok(used().filter(here).filter_map(found).collect()),
            true => used().map(usable).collect(),
        }
    };
    object.mirrors.iter().map(of_mirror).collect()
}

//! What is known of this moment and not in the directory.
//!
//! Never: outlives the daemon.

use crate::plane::Stats;
use base::{ComponentId, GroupId};
use directory::Revision;
use format::disk::{Descriptor, DiskError};
use nvmf::ListenerSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Revisions of this daemon that are remembered: more than its follower can be behind with.
const OWN_MAX: usize = 1024;

/// A component on a group that no record names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub group: String,
    pub component: ComponentId,
    pub bytes: u64,
    /// What it says of its volume.
    pub of: Result<Descriptor, DiskError>,
}

/// How a group is, as this daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupLive {
    /// Open, with these components: their numbers by id.
    Online(BTreeMap<ComponentId, u32>),
    /// It could not be opened, for this reason.
    Offline(String),
}

impl GroupLive {
    pub(super) const fn is_online(&self) -> bool {
        matches!(self, Self::Online(_))
    }
}

/// What is known of this moment and not in the directory.
#[derive(Default)]
pub(super) struct Live {
    pub(super) groups: BTreeMap<GroupId, GroupLive>,
    pub(super) listeners: Vec<ListenerSpec>,
    pub(super) iscsi_listeners: Vec<iscsi::ListenerSpec>,
    pub(super) orphans: Vec<Orphan>,
    /// Why a volume is not served.
    pub(super) offline: BTreeMap<base::VolumeId, String>,
    /// Volumes that other nodes own: nothing is done to their content here.
    pub(super) elsewhere: BTreeSet<base::VolumeId>,
    /// Why the last apply failed.
    pub(super) apply_error: Option<String>,
    /// Which start of the daemon this is.
    pub(super) incarnation: u64,
    /// What was left of changes was seen to as the leader of this record.
    pub(super) led: Option<Revision>,
    /// Since when the directory does not answer, and what it says.
    pub(super) directory_error: Option<(u64, String)>,
    /// The directory takes this long to answer.
    pub(super) directory_slow: Option<Duration>,
    /// The directory has no room.
    pub(super) directory_full: bool,
    /// Why this daemon changes nothing any more.
    pub(super) ended_by: Option<String>,
    pub(super) generation: u64,
    /// Everything up to here is served.
    pub(super) served: Revision,
    /// The newest revisions that this daemon has made, at most [`OWN_MAX`].
    pub(super) own: BTreeSet<Revision>,
    /// Volumes to whose hosts its restart is a loss of power: what ends with that has not ended yet.
    pub(super) restarted: BTreeSet<base::VolumeId>,
    /// The terms that this daemon has begun: it serves no object in another one.
    pub(super) terms: BTreeMap<base::ObjectId, base::Epoch>,
    /// Objects that are this node's by the records, and that its data plane does not serve.
    pub(super) away: BTreeSet<base::ObjectId>,
    /// Since when copies are away, as the leader has seen them.
    pub(super) away_since: BTreeMap<ComponentId, Duration>,
    /// Resyncs of objects that this node owns.
    pub(super) resyncs_began: BTreeMap<ComponentId, super::presence::ResyncBegan>,
    /// Volumes of this node that are laid out anew.
    pub(super) fills: BTreeMap<base::VolumeId, super::moves::Filling>,
    /// Volumes whose new layouts could not be made, and when.
    pub(super) moves_failed: BTreeMap<base::VolumeId, Instant>,
    /// Why capacity devices of this node have not left yet, or have not come, by group and number.
    pub(super) devices_stay: BTreeMap<(GroupId, u8), String>,
    /// Of which it is not known whether they are devices of their groups, until those are opened again.
    pub(super) undecided: BTreeSet<(GroupId, u8)>,
    /// The links with other nodes.
    pub(super) links: cluster::OpenLinks,
    pub(super) stats: Option<(Instant, Stats)>,
}

impl Live {
    /// Why the content of a volume cannot be changed here, if so.
    pub(super) fn out_of_reach(&self, volume: base::VolumeId) -> Option<String> {
        let elsewhere = || self.elsewhere.contains(&volume).then(|| "another node owns it".to_owned());
        self.offline.get(&volume).cloned().or_else(elsewhere)
    }
    /// This daemon has changed the directory.
    pub(super) fn note_own(&mut self, revision: Revision) {
        self.own.insert(revision);
        if self.own.len() > OWN_MAX {
            self.own.pop_first();
        }
    }
}

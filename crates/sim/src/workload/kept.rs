//! What the workload keeps: the volumes as their users know them, the commands in flight, what was counted.
//!
//! Never: draws a command, judges an answer.

use super::dispute::Asked;
use super::had::{Had, Moved};
use super::paths::Paths;
use crate::model::{Candidate, Cell};
use crate::plan::{OpKind, Plan, VolumePlan};
use crate::rights::{Hosts, Need, Rights};
use crate::served::{Served, State};
use crate::trace::{Place, Trace};
use format::nvme::Status;
use initiator::io::Namespace;
use rt::sim::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A volume as its users know it.
pub struct Volume {
    /// As I/O needs to know it.
    pub namespace: Namespace,
    /// Its first block that is used.
    pub first_block: u64,
    /// The blocks that were ever used, from there.
    pub cells: Vec<Cell>,
    /// Those that are used now: the first ones.
    pub(super) end: u64,
    /// Blocks that must not change now: sources of copies.
    pub(super) pins: BTreeMap<u64, u32>,
    /// Whether its blocks have checksums everywhere.
    pub checksum: bool,
    /// What reservations allow.
    pub rights: Rights,
    /// Changes of clients that may not write for the time being, and that have not come to the end: client, block, as they were.
    pub(super) withheld: Vec<(usize, u64, Candidate)>,
    /// How it is served.
    pub(super) served: Served,
    pub(super) operated: Operated,
    pub(super) had: Had,
}

pub(super) struct Flight {
    pub(super) client: usize,
    /// The namespace that it names.
    pub(super) nsid: u32,
    pub(super) kind: OpKind,
    pub(super) place: Place,
    pub(super) sent: u64,
    /// What is written or compared, block by block.
    pub(super) values: Vec<u64>,
    /// Of a copy: where from. Of a trim: more ranges.
    pub(super) more: Vec<Place>,
    /// Of Compare and Write: what must be there.
    pub(super) expected: Vec<u64>,
    /// Commands that are not answered yet.
    pub(super) open: u8,
    pub(super) statuses: [Option<Status>; 2],
    /// An abort was sent for it.
    pub(super) aborted: bool,
}

impl Flight {
    /// What a reservation may deny it; `None` for what has rules of its own.
    pub(super) fn need(&self) -> Option<Need> {
        match self.kind {
            OpKind::Read | OpKind::Compare | OpKind::Verify => Some(Need::Read),
            OpKind::Reserve | OpKind::Report | OpKind::Abort => None,
            _ => Some(Need::Write),
        }
    }
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Operations by kind.
    pub ops: BTreeMap<OpKind, u64>,
    /// Answers other than success, by status.
    pub statuses: BTreeMap<String, u64>,
    /// Blocks whose content was checked.
    pub blocks_read: u64,
    /// Commands that were given up.
    pub given_up: u64,
    /// Old values that came back in a run of the class `Lies`.
    pub stale: u64,
    /// Blocks without checksum of which nothing could be said, because data was damaged before.
    pub damaged: u64,
    /// The longest time to an answer, in nanoseconds.
    pub latency_max_ns: u64,
    /// Connections made.
    pub connects: u64,
    /// What the operator did, by kind.
    pub acts: BTreeMap<String, u64>,
}

/// What faults have done so far that only a checksum can find.
#[derive(Clone, Copy, Debug, Default)]
pub struct Damage {
    /// Bits that were flipped, on the media or on the way.
    pub bits: u32,
    /// Writes were lost, or landed elsewhere, or a device came back older: any content may be anywhere.
    pub places: bool,
}

impl Damage {
    pub(super) fn any(self) -> bool {
        self.bits > 0 || self.places
    }
}

/// The workload.
pub struct Workload {
    /// What is played.
    pub plan: Rc<Plan>,
    pub(super) rng: Rng,
    /// What was moved since the host started.
    pub(super) moved: Moved,
    /// Since when nothing disturbs a life that goes on.
    pub quiet_since: Option<u64>,
    /// Since when a life has run in which nothing disturbs at all.
    pub undisturbed_since: Option<u64>,
    /// The clients do nothing more.
    pub(super) closed: bool,
    /// Nothing disturbs the life that begins.
    pub undisturbed: bool,
    /// The operator acts on volumes.
    pub(super) operated: bool,
    /// Several nodes serve the volumes: what one passes on to another may come to no answer.
    pub(super) several: Option<Paths>,
    /// Who the clients are.
    pub(super) hosts: Hosts,
    /// Reservation commands that were sent and not heard of.
    pub(super) asked: Vec<Asked>,
    /// Clients for whom a unit was given back that they had not released, and when; until they have another session.
    pub(super) units_given: Vec<(usize, u64)>,
    /// The volumes.
    pub volumes: Vec<Volume>,
    pub(super) flights: BTreeMap<u64, Flight>,
    /// Changes that were given up and may still take effect: whose, and until when.
    pub(super) indeterminate: BTreeMap<u64, (usize, u64)>,
    /// Writes that are whole or absent, and of which that is not known: where.
    pub(super) tied: BTreeMap<u64, Place>,
    pub(super) next_op: u64,
    pub(super) next_value: u64,
    /// Operations that may still begin.
    pub ops_left: u64,
    pub(super) to_verify: VecDeque<Place>,
    pub(super) to_trim: VecDeque<Place>,
    /// What a client looks at that has taken rights away: blocks that others were about to change.
    pub(super) to_probe: VecDeque<(usize, Place)>,
    /// The host is going down or coming up: retryable errors are normal.
    pub unsteady: bool,
    /// A device fault of this life may make commands fail.
    pub errors_allowed: bool,
    /// What may have happened to blocks that are kept without checksum.
    pub damage: Damage,
    /// No fault comes any more, and nothing of the earlier ones is left: connections stay, and commands are answered.
    pub calm: bool,
    /// Acknowledged data may be lost, but old values only.
    pub stale_allowed: bool,
    /// What happened.
    pub trace: Trace,
    /// What was done.
    pub counts: Counts,
    /// The first thing that was wrong.
    pub wrong: Option<String>,
}

/// What the operator has done to a volume.
#[derive(Default)]
pub(super) struct Operated {
    /// It was deleted.
    pub(super) gone: bool,
    /// No command may change it, on any core.
    pub(super) frozen: bool,
    /// Changes that had not come to the end when it became read-only: block, as they were.
    pub(super) withheld: Vec<(u64, Candidate)>,
    /// What is being freed, and by which change.
    pub(super) freeing: Option<(core::ops::Range<u64>, u64)>,
}

impl Volume {
    /// A volume of zeroes.
    pub(super) fn new(plan: &VolumePlan, state: State, hosts: &Hosts) -> Volume {
        Volume {
            namespace: Namespace {
                nsid: state.nsid.unwrap_or(0),
                lba_bytes: plan.lba_bytes,
                blocks: 0,
                transfer_bytes_max: 1 << 20,
                zeroes_after_trim: true,
                zeroes_may_deallocate: true,
            },
            first_block: plan.first_block,
            cells: vec![Cell::default(); plan.blocks as usize],
            end: plan.blocks,
            pins: BTreeMap::new(),
            checksum: plan.checksum,
            rights: Rights::of(hosts.clone()),
            withheld: Vec::new(),
            served: Served::new(state),
            operated: Operated::default(),
            had: Had::new(state.limits),
        }
    }
    /// The used blocks that a size in logical blocks leaves.
    pub(super) fn used_of(&self, blocks: u64) -> u64 {
        blocks.saturating_sub(self.first_block).min(self.cells.len() as u64)
    }
    /// Whether something about a block is not decided while it is read-only.
    pub(super) fn is_undecided(&self, place: Place) -> bool {
        self.operated.withheld.iter().any(|(block, _)| place.touches(place.volume, *block))
    }
}

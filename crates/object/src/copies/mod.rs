//! Mirrors with copies on other nodes: the owner's side, which sends changes to all copies and reads one of them, and the side of a node that has
//! a copy for another owner (`docs/mirrors.md`).
//!
//! ```text
//!  part ─► range lock ─► number ─┬─► own shard ────────────┬─► all have it, the epoch is heard ─► answered
//!                                └─► peers ══ link ══ peers ┘
//!                                                  └─► holder ─► shard of the copy
//! ```
//!
//! Owns: [`Copies`], what one core has of it: parts under way, what they wait for, what goes to other nodes and to other cores; what this node has
//! for other owners is at work in [`holder`].
//! Invariants: a change is answered when every copy that has to have it does; with a number it keeps that; a read is answered only while the
//! nodes with other active copies grant it. Nothing here is reached by a mirror whose only copy is here.
//! Never: decides who owns what, or which copy leaves: it says what happens ([`Event`]), and does what it is given ([`Command`]).

mod accept;
mod background;
mod commands;
mod door;
mod flow;
mod holder;
mod late;
mod lists;
mod message;
mod pace;
#[cfg(test)]
mod tests;
mod transfer;

pub use door::CopyDoor;
pub use lists::ListAsk;
pub use message::{CopyAnswer, CopyAsk, CopyCall};

use crate::grant::GrantCell;
use crate::io::{Data, IoError, VolumeRef};
use crate::layout::ComponentAt;
use crate::owner::{Command, CopyRef, Event, RangeCopy, Targets};
use crate::part::Part;
use crate::range_lock::Range;
use accept::Accepts;
use background::{Background, Phase};
use base::{BlockNo, ComponentId, CopyState, Duration, Epoch, Instant, Lane, NodeId, Order, Ownership, ResyncPace, Seq, SourceRun};
use format::peer::{ChangeSource, ChangeVerb, CopyOutcome};
use holder::{AtWork, Holder};
use lists::Lists;
use pace::Paces;
use rt::{Queue, Rt, TimerId};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::OpKind;

/// In numbers of parts, and in cookies of the store: it is of a mirror with copies elsewhere.
pub(crate) const COPIED: u32 = 1 << 31;
const _: () = assert!(crate::lanes::PARTS_MAX < COPIED as usize);
/// Before something that a copy could not do yet is tried again.
pub const AGAIN_AFTER: Duration = Duration::from_millis(5);
/// How long a node may say that it has not got a copy, or does not know of its owner, until the copy fails.
pub const ELSEWHERE_MAX: Duration = Duration::from_secs(3);
/// Before grants are looked at again.
pub const GRANTS_AGAIN_AFTER: Duration = Duration::from_millis(2);
/// Blocks that are written again at a time, because a copy could not be read. Others are at the next read.
pub const REPAIRS_MAX: usize = 64;

/// The copy of a lane on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnCopy {
    pub(crate) at: ComponentAt,
    pub(crate) shard: u8,
    /// Where that shard is: not always where the order of the lane is.
    pub(crate) core: u8,
}

/// A part of a mirror with copies elsewhere, on its way to the core of its lane.
#[derive(Debug)]
pub struct CopiedPart {
    pub(crate) part: Part,
    pub(crate) own: Option<OwnCopy>,
}

/// What crosses between cores.
#[derive(Debug)]
pub enum CopyMsg {
    /// To the core of the shard.
    Work(Work),
    /// Back.
    Worked(Worked),
}

/// Something for a shard.
#[derive(Debug)]
pub struct Work {
    at: ComponentAt,
    shard: u8,
    block: u64,
    blocks: u32,
    /// Of a change; of a read the epoch counts.
    order: Order,
    kind: OpKind,
    reply: ReplyTo,
    /// Of a change: the owner says that the copy is out of sync.
    resync: bool,
    /// Of a read: what the first blocks hold is asked for, to copy them.
    run: bool,
}

/// It is done.
#[derive(Debug)]
pub struct Worked {
    reply: ReplyTo,
    answer: CopyAnswer,
}

/// Who hears how something went.
#[derive(Clone, Copy, Debug)]
enum ReplyTo {
    /// A part of that core.
    Part { core: u8, of: AskingPart },
    /// A node whose request has come to that core, as this one.
    Node { core: u8, token: u64, from: NodeId },
}

/// What a part has asked of a copy.
#[derive(Clone, Copy, Debug)]
struct AskingPart {
    id: u32,
    serial: u32,
    component: ComponentId,
    /// In which epoch: the copy has accepted it when it is done.
    epoch: Epoch,
    what: Asked,
}

/// Which question of a part it is: what is asked again is answered twice, and the second answer may come when the part is at something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// A read: of all reads of the part so far.
    Read(u32),
    /// The change with this number.
    Change(Seq),
}

impl ReplyTo {
    fn core(&self) -> usize {
        match self {
            ReplyTo::Part { core, .. } | ReplyTo::Node { core, .. } => usize::from(*core),
        }
    }
}

/// Why a part is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Of a request.
    Request,
    /// A copy could not be read here.
    Repair,
    /// It was in doubt when the term began.
    Agree,
    /// A copy under resync misses it.
    Range,
}

/// A part of a mirror with copies elsewhere.
///
/// ```text
///  Waiting ─► Reading ─► (Waiting: for changes that ran meanwhile) ─► Gated ─► answered        (a read; a compare that failed)
///     │          └─► Numbering ─► Changing ─► (Following) ─► answered
///     └──────────────────┘
///  Waiting ─► Queued ─► Fetching ─► Numbering ─► Changing ─► ended    (what one copy has goes to others: see `transfer`;
///                                                                      a resync: Queued ─► Waiting ─► Fetching)
///     │                    ▲                        │ the next blocks
///     └─► Alone ─► ended   └────────────────────────┘
/// ```
#[derive(Debug)]
struct Copied {
    part: Part,
    own: Option<OwnCopy>,
    /// Of all parts of the core: a late answer to an earlier one has another.
    serial: u32,
    /// Reads that it has asked for.
    reads: u32,
    purpose: Purpose,
    /// It is among those that have or wait for their range. A request that comes before the owner serves is not.
    ranged: bool,
    /// Of a request: when it came, and what it is counted for.
    asked: (Instant, Phase),
    /// Of what one copy has and others get.
    transfer: Option<Box<Transfer>>,
    stage: CopiedStage,
    /// What was read, while changes run that may be in it.
    found: Option<(Result<(), IoError>, Option<Data>)>,
    /// Copies that could not be read, and how the last one failed.
    bad: SmallVec<[ComponentId; 1]>,
    /// Those among them that are only late.
    late: SmallVec<[ComponentId; 1]>,
    error: IoError,
}

#[derive(Debug)]
enum CopiedStage {
    /// For an overlapping change, before it begins or with what it has found; or for the owner to serve.
    Waiting,
    /// Of this copy; `None`: of none, until there are other targets.
    Reading(Option<CopyRef>),
    /// For grants.
    Gated(Result<(), IoError>, Option<Data>),
    /// For a number.
    Numbering(ChangeVerb, Option<Data>),
    /// For copies.
    Changing(Box<Changing>),
    /// For its turn to be copied: an agreement with its range, what a copy under resync misses without.
    Queued,
    /// For what this copy has; `None`: for other targets.
    Fetching(Option<CopyRef>),
    /// There is no other copy: for the epoch to be heard.
    Alone,
    /// All copies have it, with this number: for the other place of the volume ([`crate::fill`]).
    Following(Seq),
}

/// What one copy has and others get: blocks that are copied one run after the other.
#[derive(Debug)]
struct Transfer {
    /// The number of the first run, if it has been taken.
    order: Option<Order>,
    /// The copy that is read, while it is active and can be.
    source: CopyRef,
    /// The first block that has not been copied, the one behind the last, and behind the last that can be read.
    at: u64,
    end: u64,
    until: u64,
    /// What the blocks hold that are on their way.
    run: Option<SourceRun>,
    /// Its turn has come: it is counted in [`Copies::transfers`], or among the ranges of [`Background`].
    begun: bool,
    /// Of a resync.
    range: Option<RangeCopy>,
}

/// A change that has a number.
#[derive(Debug)]
struct Changing {
    order: Order,
    verb: ChangeVerb,
    data: Option<Data>,
    waits: SmallVec<[Wait; 3]>,
    range: Range,
    /// Of a range of a resync.
    source: Option<ChangeSource>,
}

/// For a copy.
#[derive(Clone, Copy, Debug)]
struct Wait {
    copy: CopyRef,
    resync: bool,
    /// In which epoch it was sent last.
    sent: Epoch,
    /// When it was sent first.
    since: Instant,
    state: WaitState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitState {
    Sent,
    Has,
    NoSpace,
    Failed(IoError),
}

/// How far an owner serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Requests wait.
    Waiting,
    Serving,
    /// Requests are refused.
    Stopped,
}

/// A volume that this node owns, with copies elsewhere.
#[derive(Debug)]
struct CopiedVolume {
    /// This node.
    here: NodeId,
    targets: Targets,
    /// Of each mirror: the highest epoch that an active copy is known to have accepted.
    known: BTreeMap<u16, Epoch>,
    /// Whether reads may be answered: what the other nodes with active copies grant.
    cell: Option<Arc<GrantCell>>,
    service: Service,
    /// It drains, or has: requests that come wait.
    drains: bool,
    /// Parts that begin when it serves.
    waiting: VecDeque<u32>,
    /// How long its copies take.
    paces: Paces,
    /// How fast those that come back get what they miss.
    resync_pace: ResyncPace,
}

impl CopiedVolume {
    /// Of which nothing is known yet: requests wait for that.
    fn unknown() -> Self {
        let nobody = Ownership { epoch: Epoch(0), ..Ownership::FIRST };
        Self {
            here: NodeId::from_bytes([0; 16]),
            targets: Targets { ownership: nobody, copies: Vec::new(), read: Vec::new() },
            known: BTreeMap::new(),
            cell: None,
            service: Service::Waiting,
            drains: false,
            waiting: VecDeque::new(),
            paces: Paces::default(),
            resync_pace: ResyncPace::Normal,
        }
    }
    fn copies(&self, mirror: u16) -> impl Iterator<Item = &(CopyRef, CopyState)> {
        self.targets.copies.iter().filter(move |(copy, _)| copy.mirror == mirror)
    }
    fn is_heard(&self, mirror: u16) -> bool {
        self.known.get(&mirror).copied().unwrap_or_default() >= self.targets.ownership.epoch
    }
}

/// A copy that joins: what is under way without it has not ended.
#[derive(Debug)]
struct Joining {
    volume: VolumeRef,
    copy: CopyRef,
    invited: Epoch,
}

/// What was in doubt in a lane when the term began.
#[derive(Debug)]
struct Agreement {
    term: Epoch,
    ranges: u32,
    /// Those that have not ended.
    left: u32,
}

base::counters! {
    /// Counters of mirrors with copies elsewhere, on one core.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CopyStats {
        /// Changes that were sent to several copies.
        pub changes: u64 = counter("copied_changes"),
        /// Changes that were sent to a copy once more.
        pub resent: u64 = counter("resent_changes"),
        /// Reads that went to another node.
        pub remote_reads: u64 = counter("remote_reads"),
        /// Reads that waited for grants.
        pub gated_reads: u64 = counter("reads_waiting_for_grants"),
        /// Times that a copy could not be read and another one was.
        pub read_elsewhere: u64 = counter("reads_from_another_copy"),
        /// Ranges that were written again because a copy could not be read.
        pub repaired: u64 = counter("repaired_ranges"),
        /// Ranges that were in doubt when a term began, and were agreed on.
        pub agreed: u64 = counter("agreed_ranges"),
        /// Ranges that were copied to copies under resync.
        pub copied: u64 = counter("resynced_ranges"),
        /// Blocks of these that were sent as data.
        pub copied_blocks: u64 = counter("resynced_blocks"),
        /// Changes of other owners that came to a shard.
        pub held_changes: u64 = counter("held_changes"),
        /// Requests of nodes that do not own the object, or in an epoch that is over.
        pub held_refused: u64 = counter("refused_copy_requests"),
        /// Requests to copies of this node that were answered as late: a device makes no progress.
        pub late: u64 = counter("late_copy_requests"),
        /// Shards of which a device makes no progress while copies of other nodes or of this one wait for it.
        pub hanging: u32 = gauge("hanging_shards"),
    }
}

/// See the module.
pub struct Copies {
    core: usize,
    queue: Queue,
    timer: Option<(TimerId, Instant)>,
    volumes: BTreeMap<VolumeRef, CopiedVolume>,
    parts: Slab<Copied>,
    serial: u32,
    /// With shards of this core.
    works: Slab<AtWork>,
    holder: Holder,
    /// Epochs that shards of this core are to accept.
    accepting: Slab<Accepts>,
    /// When the shards are looked at that have anything.
    looks: Option<Instant>,
    /// Of nodes with which there is a link for copies: its number.
    links: BTreeMap<NodeId, u64>,
    calls: VecDeque<CopyCall>,
    asked: BTreeMap<u64, (NodeId, AskingPart)>,
    lists: Lists,
    tokens: u64,
    /// To other nodes, by the tokens of their requests.
    answers: VecDeque<(u64, CopyAnswer)>,
    msgs: VecDeque<(usize, CopyMsg)>,
    events: VecDeque<(VolumeRef, Event)>,
    /// Blocks of copies on this node that were found lost.
    bad: VecDeque<(ComponentAt, BlockNo)>,
    /// What is tried again: when, part, its serial, at which copy.
    again: Vec<(Instant, u32, u32, ComponentId)>,
    /// Parts that wait for grants.
    gated: Vec<(u32, u32)>,
    repairs: usize,
    /// Copies whose nodes say that they are not there: since when nothing else came, and when they said so last.
    elsewhere: BTreeMap<ComponentId, (Instant, Instant)>,
    /// By which clock grants are looked at with [`SeededFault::GrantsAfterData`](base::hooks::SeededFault::GrantsAfterData).
    early: Instant,
    joining: Vec<Joining>,
    /// Volumes that are to say when they have drained, by the numbers of the commands.
    draining: Vec<(VolumeRef, u32)>,
    agreements: BTreeMap<(VolumeRef, u16, Lane), Agreement>,
    /// What the owner wants of mirrors that the served picture does not have yet, in order.
    unplaced: Vec<(VolumeRef, Command)>,
    /// Parts of agreements that wait for their turn to be copied, and how many are at it.
    queued: VecDeque<(u32, u32)>,
    transfers: usize,
    /// Ranges of resyncs that wait for their turn.
    ranges: VecDeque<(u32, u32)>,
    background: Background,
    /// What was counted.
    pub stats: CopyStats,
}

impl Copies {
    pub(crate) fn new(rt: &Rt) -> Box<Self> {
        Box::new(Self {
            core: rt.core(),
            queue: rt.queue(),
            timer: None,
            volumes: BTreeMap::new(),
            parts: Slab::new(),
            serial: 0,
            works: Slab::new(),
            holder: Holder::default(),
            accepting: Slab::new(),
            looks: None,
            links: BTreeMap::new(),
            calls: VecDeque::new(),
            asked: BTreeMap::new(),
            lists: Lists::default(),
            tokens: 0,
            answers: VecDeque::new(),
            msgs: VecDeque::new(),
            events: VecDeque::new(),
            bad: VecDeque::new(),
            again: Vec::new(),
            gated: Vec::new(),
            repairs: 0,
            elsewhere: BTreeMap::new(),
            early: Instant(0),
            joining: Vec::new(),
            draining: Vec::new(),
            agreements: BTreeMap::new(),
            unplaced: Vec::new(),
            queued: VecDeque::new(),
            transfers: 0,
            ranges: VecDeque::new(),
            background: Background::new(),
            stats: CopyStats::default(),
        })
    }
    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.works.is_empty() && self.accepting.is_empty() && self.answers.is_empty() && self.msgs.is_empty()
    }
    fn insert(&mut self, part: Part, own: Option<OwnCopy>, purpose: Purpose) -> u32 {
        assert!(self.parts.len() < crate::lanes::PARTS_MAX, "the cores bound what they send");
        self.serial = self.serial.wrapping_add(1);
        let (serial, stage, bad, error) = (self.serial, CopiedStage::Waiting, SmallVec::new(), IoError::Failed);
        let (ranged, asked, transfer, found) = (false, (Instant(0), 0), None, None);
        self.parts.insert(Copied {
            part,
            own,
            serial,
            reads: 0,
            purpose,
            ranged,
            asked,
            transfer,
            stage,
            found,
            bad,
            late: SmallVec::new(),
            error,
        }) as u32
            | COPIED
    }
    fn get(&mut self, id: u32) -> Option<&mut Copied> {
        self.parts.get_mut((id & !COPIED) as usize)
    }
    fn part(&mut self, id: u32) -> &mut Copied {
        self.get(id).expect("a part that has not ended")
    }
    /// A change of a request that all copies have: its volume, the term, and the change.
    pub(crate) fn change_of_request(&mut self, id: u32) -> Option<(VolumeRef, Epoch, u32, FollowedChange<'_>)> {
        let copied = self.parts.get_mut((id & !COPIED) as usize)?;
        let term = self.volumes.get(&copied.part.volume)?.targets.ownership.term;
        let is_change = copied.purpose == Purpose::Request && matches!(copied.stage, CopiedStage::Changing(_));
        is_change.then_some((copied.part.volume, term, copied.serial, FollowedChange(&mut copied.stage)))
    }
    /// Whether a part waits for the other place of its volume.
    pub(crate) fn is_following(&mut self, id: u32, serial: u32) -> bool {
        self.get(id).is_some_and(|copied| copied.serial == serial && matches!(copied.stage, CopiedStage::Following(_)))
    }
    /// The parts of a volume, changes that have numbers in the order of these.
    fn parts_of(&self, volume: VolumeRef) -> Vec<u32> {
        let mut parts: Vec<_> =
            self.parts.iter().filter(|(_, c)| c.part.volume == volume).map(|(id, c)| (c.seq(), id as u32 | COPIED)).collect();
        parts.sort_unstable();
        parts.into_iter().map(|(_, id)| id).collect()
    }
    /// Wakes this core then.
    fn wake_at(&mut self, rt: &Rt, at: Instant) {
        if self.timer.is_none_or(|(_, armed)| armed > at) {
            if let Some((id, _)) = self.timer.take() {
                rt.cancel_timer(id);
            }
            self.timer = Some((rt.timer(&self.queue, 0, at), at));
        }
    }
    /// Asks another node, if there is a link. If not, it is asked when there is one.
    fn call(&mut self, rt: &Rt, node: NodeId, of: AskingPart, ask: CopyAsk) {
        let Some(&link) = self.links.get(&node) else { return };
        self.tokens += 1;
        self.asked.insert(self.tokens, (node, of));
        self.calls.push_back(CopyCall { node, link, token: self.tokens, ask });
        rt.wake(self.core);
    }
    /// A block of a copy on this node was found lost. What there is no room for the next scrub finds again.
    pub(crate) fn finds_bad(&mut self, at: ComponentAt, block: BlockNo) {
        if self.bad.len() < REPAIRS_MAX {
            self.bad.push_back((at, block));
        }
    }
    /// Something has happened, for the owner's machine.
    fn says(&mut self, volume: VolumeRef, event: Event) {
        self.events.push_back((volume, event));
    }
    /// The same, unless it is there to be heard.
    fn says_outranked(&mut self, volume: VolumeRef, epoch: Epoch) {
        if !self.events.iter().any(|(v, event)| *v == volume && matches!(event, Event::Outranked(e) if *e == epoch)) {
            self.says(volume, Event::Outranked(epoch));
        }
    }
}

/// A change that all copies have.
pub(crate) struct FollowedChange<'a>(&'a mut CopiedStage);

impl FollowedChange<'_> {
    fn change(&self) -> &Changing {
        let CopiedStage::Changing(change) = &*self.0 else { unreachable!("looked at when it was made") };
        change
    }
    /// The blocks that it changes.
    pub(crate) fn range(&self) -> Range {
        self.change().range
    }
    /// It goes to another place, too, and waits for that.
    pub(crate) fn follows(self) -> (Range, ChangeVerb, Option<Data>) {
        let following = CopiedStage::Following(self.change().order.seq);
        let CopiedStage::Changing(change) = std::mem::replace(self.0, following) else { unreachable!("looked at when it was made") };
        (change.range, change.verb, change.data)
    }
}

impl Copied {
    /// The number of a change that has one.
    fn seq(&self) -> Seq {
        match (&self.stage, &self.transfer) {
            (CopiedStage::Changing(change), _) => change.order.seq,
            (CopiedStage::Following(seq), _) => *seq,
            (_, Some(transfer)) => transfer.order.map_or_else(base::Seq::default, |order| order.seq),
            _ => base::Seq::default(),
        }
    }
}

/// As a host hears it.
fn io_error(outcome: CopyOutcome) -> IoError {
    match outcome {
        CopyOutcome::NoSpace => IoError::NoSpace,
        CopyOutcome::Media(block) | CopyOutcome::Uncorrectable(block) => IoError::Media { offset: block.offset() },
        CopyOutcome::Failed | CopyOutcome::Late => IoError::Failed,
        CopyOutcome::NoComponent => IoError::NoVolume,
        CopyOutcome::Closing => IoError::Closing,
        CopyOutcome::Done | CopyOutcome::StaleEpoch(_) | CopyOutcome::NotOwner => IoError::NotOwner,
    }
}

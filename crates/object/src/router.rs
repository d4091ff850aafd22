//! The requests of one core: splits them into parts, sends each to the core of its lane, collects the answers, keeps the limits.
//!
//! Invariants: a request is answered exactly once, after all its parts; a part crosses to the core of its lane once and its answer crosses
//! back once; a request to a range of any length keeps at most [`PARTS_MAX`] parts under way. A long trim, or zeroes, ask first which
//! pieces may hold something, and send parts for those only.
//! Never: waits for another router; looks at the bytes.

mod own;

pub use own::HOLDING_MAX;

use crate::{
    copies::{CopyDoor, GRANTS_AGAIN_AFTER},
    cores::GroupRoute,
    io::{
        Backend, Data, DataVec, Extent, Forward, ForwardDone, ForwardOutcome, IoDone, IoError, IoOp, IoRequest, VolumeRef, extents, halves,
    },
    lanes::{Blocks, Lanes},
    layout::{ComponentAt, GroupSlot, LayoutView, Mirror, VolumeLayout},
    order::NOWHERE,
    part::{Part, PartDone, PartOp, RouterMsg},
    pieces::{Pieces, Survey, Surveyed, WINDOW_PIECES},
    stats::{Counted, RouterStats},
};
use arrayvec::ArrayVec;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{BLOCK_BYTES, BlockNo, PIECE_BYTES};
use base::{Duration, Instant, IoClass, IoVerb, Lane, NodeId, VolumeId};
use rt::{Buf, MESH_CORES_MAX, Queue, Rt, TimerId};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::Crcs;

/// Requests of the front ends of one core that are under way, or held back by a limit: all queues here follow from them. The front ends keep within it
/// (`nvmf::limits`, `iscsi::limits`).
pub const REQUESTS_MAX: usize = 1 << 27;
/// Requests of a core that the host makes itself ([`VolumeRouter::free_range`]), beside those; it keeps within it.
pub const OWN_REQUESTS_MAX: usize = 64;
const _: () = assert!(REQUESTS_MAX + OWN_REQUESTS_MAX <= u32::MAX as usize, "a part names its request in 32 bits");
/// Parts of one long request (zero, trim) that are under way at once.
pub const PARTS_MAX: usize = 32;
/// Parts of all long requests of a core that are under way at once. Beyond, each has one.
pub const RANGE_PARTS_MAX: usize = 8192;
const _: () = assert!(PARTS_MAX < RANGE_PARTS_MAX);
/// Parts of one verify that are under way at once, and bytes of each: what it holds in memory at most is their product.
pub const VERIFY_PARTS_MAX: usize = 4;
/// See [`VERIFY_PARTS_MAX`].
pub const VERIFY_PART_BYTES: u64 = 256 << 10;
const _: () = assert!(PIECE_BYTES.is_multiple_of(VERIFY_PART_BYTES));
/// Windows of pieces that a range operation asks about in one turn of its core.
const WINDOWS_A_TURN: u32 = 8;
/// Before a request that its owner did not carry out is tried again.
pub const FORWARD_AGAIN: Duration = Duration::from_millis(5);
/// How long such a request is tried. Its host may have tried another path then, so it must not act any more.
pub const FORWARD_MAX: Duration = crate::link::limits::STAMP_AGE_MAX;
/// Disk groups of one node in the life of a daemon.
pub const GROUPS_MAX: usize = 1024;

/// What is left to send out of a request of any length.
#[derive(Debug)]
struct RangeOperation {
    next: u64,
    end: u64,
    what: RangeVerb,
    /// Of what comes before this byte, the pieces that are not in `found` hold nothing.
    known_to: u64,
    found: Pieces,
    /// Cores that have been asked and have not answered.
    asked: u32,
}

impl RangeOperation {
    fn new(range: std::ops::Range<u64>, what: RangeVerb) -> Box<Self> {
        Box::new(Self { next: range.start, end: range.end, what, known_to: range.start, found: Pieces::default(), asked: 0 })
    }
    /// Goes on behind pieces in which there is nothing to take away. True when it did.
    fn pass_over(&mut self) -> bool {
        if self.next >= self.known_to {
            return false;
        }
        let piece = self.next / PIECE_BYTES;
        let next = self.found.next(piece).map_or(self.known_to, |found| found * PIECE_BYTES);
        let passed = next > self.next;
        if passed {
            hooks::reached(CoverageMark::PiecesPassedOver);
            self.next = next.min(self.end);
        }
        passed
    }
    /// The next pieces to ask about, if it is worth it.
    fn window(&self) -> Option<std::ops::Range<u64>> {
        let frees = matches!(self.what, RangeVerb::Trim | RangeVerb::Zero);
        let (first, end) = (self.next / PIECE_BYTES, self.end.div_ceil(PIECE_BYTES));
        (frees && self.next >= self.known_to && end > first + 1).then_some(first..end.min(first + WINDOW_PIECES))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeVerb {
    Trim,
    Zero,
    Verify,
    Uncorrectable,
}

/// Who hears of a request when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedFor {
    /// A host, by its front end.
    Host,
    /// The node itself: [`VolumeRouter::pop_own`].
    Node,
    /// A change of this volume's lanes, that goes to another place too ([`crate::fill`]).
    Change(VolumeRef),
}

#[derive(Debug)]
struct Request {
    token: u64,
    volume: VolumeRef,
    layout: Arc<VolumeLayout>,
    class: IoClass,
    /// Of the range that it reads or changes.
    bytes: u64,
    since: Instant,
    parts: u32,
    result: Result<(), IoError>,
    data: ArrayVec<Option<Data>, 2>,
    range_operation: Option<Box<RangeOperation>>,
    by: AskedFor,
    /// A change in several parts, of a mirror with copies elsewhere.
    several: bool,
}

impl Request {
    #[inline(always)]
    fn of(token: u64, volume: VolumeRef, layout: Arc<VolumeLayout>, class: IoClass, bytes: u64, since: Instant) -> Self {
        let (data, range_operation) = (ArrayVec::new(), None);
        let (parts, result, by, several) = (0, Ok(()), AskedFor::Host, false);
        Self { token, volume, layout, class, bytes, since, parts, result, data, range_operation, by, several }
    }
}

/// What is known of a request that may begin.
struct Judged {
    layout: Arc<VolumeLayout>,
    /// Of the range that it reads or changes.
    bytes: u64,
}

/// A request that waits for its turn within a limit, for another node, or for grants.
#[derive(Debug)]
struct HeldBack {
    request: IoRequest,
    since: Instant,
}

/// One core's door into the volumes. `S` is the shard of the store.
pub struct VolumeRouter<S = store::Shard> {
    core: usize,
    pub(crate) cores: usize,
    pub(crate) view: Arc<LayoutView>,
    pub(crate) routes: Vec<Option<GroupRoute>>,
    requests: Slab<Request>,
    lanes: Lanes<S>,
    pub(crate) out: VecDeque<(usize, RouterMsg)>,
    done: VecDeque<IoDone>,
    own_done: VecDeque<IoDone>,
    /// For other nodes.
    forwards: VecDeque<Forward>,
    /// How many are with other nodes.
    forwarding: usize,
    /// Of these, what is not wanted any more.
    cancels: VecDeque<(NodeId, u32)>,
    /// Range operations that go on with the next turn.
    later: Vec<usize>,
    /// By when they may begin, then in their order.
    held: BTreeMap<(Instant, u64), HeldBack>,
    held_count: u64,
    /// Of volumes that are held: what waits for [`VolumeRouter::release`], in order.
    holds: BTreeMap<VolumeRef, VecDeque<HeldBack>>,
    timer: Option<(TimerId, Instant)>,
    queue: Queue,
    closing: bool,
    /// Parts of range operations under way.
    range_parts: usize,
    counted: Counted,
}

impl<S: Blocks> VolumeRouter<S> {
    /// The router of the core that `rt` belongs to, with no volume and no shard.
    pub fn new(rt: &Rt) -> Self {
        Self {
            core: rt.core(),
            cores: rt.cores(),
            view: Arc::default(),
            routes: vec![],
            requests: Slab::new(),
            lanes: Lanes::default(),
            out: VecDeque::new(),
            done: VecDeque::new(),
            own_done: VecDeque::new(),
            forwards: VecDeque::new(),
            forwarding: 0,
            cancels: VecDeque::new(),
            later: vec![],
            held: BTreeMap::new(),
            held_count: 0,
            holds: BTreeMap::new(),
            timer: None,
            queue: rt.queue(),
            closing: false,
            range_parts: 0,
            counted: Counted::default(),
        }
    }
    /// Takes the new picture of the volumes. Requests under way go on with the old one. What a limit holds back has not begun: it is judged by the
    /// new one, here and again when it begins, and waits by the new limits. `may_begin` is as in [`VolumeRouter::poll`].
    pub fn apply(&mut self, rt: &Rt, view: Arc<LayoutView>, mut may_begin: impl FnMut(&IoRequest) -> bool) {
        let before = std::mem::replace(&mut self.view, view);
        for ((at, order), held) in std::mem::take(&mut self.held) {
            let Some(Judged { layout, bytes }) = self.judge_held(&held.request, &mut may_begin) else { continue };
            let same = before.get(held.request.volume).is_some_and(|old| Arc::ptr_eq(&old.limits, &layout.limits));
            let kept = same || held.request.counted || hooks::seeded(SeededFault::HeldTimesKept);
            let at = if kept { at } else { turn_of(&held.request, &layout, bytes, rt.now()) };
            self.held.insert((at, order), held);
        }
        self.counted.apply(&self.view);
        self.copies_apply(rt);
    }
    /// Where a volume lies, in the newest picture.
    pub fn layout(&self, volume: VolumeRef) -> Option<&Arc<VolumeLayout>> {
        self.view.get(volume)
    }
    /// Says where the shards of a group run; `None`: the group is closed, its volumes fail.
    pub fn set_route(&mut self, group: GroupSlot, route: Option<GroupRoute>) {
        let at = usize::from(group.0);
        assert!(at < GROUPS_MAX, "group slots are given by the node, below the limit");
        if self.routes.len() <= at {
            self.routes.resize(at + 1, None);
        }
        self.routes[at] = route;
    }
    /// The lanes of this core.
    pub fn lanes_mut(&mut self) -> &mut Lanes<S> {
        &mut self.lanes
    }
    /// The lanes of this core.
    pub fn lanes(&self) -> &Lanes<S> {
        &self.lanes
    }
    /// Counters so far.
    pub fn stats(&self) -> RouterStats {
        let under_way = self.requests.iter().filter(|(_, request)| request.by == AskedFor::Host).map(|(_, request)| request.volume);
        let waiting = self.held.values().chain(self.holds.values().flatten()).map(|held| held.request.volume);
        let volumes = self.counted.volumes(under_way, waiting);
        RouterStats { lanes: self.lanes.stats(), copies: self.copy_stats(), ..self.counted.sum(volumes) }
    }
    /// Of each volume that is counted apart: requests answered so far, and their bytes. Those of other nodes are among them.
    pub fn requests(&self) -> impl Iterator<Item = (VolumeId, u64, u64)> {
        self.counted.requests()
    }
    /// Whether a request is under way here that began when the volume reached beyond `end`, in bytes.
    pub fn reaches_behind(&self, volume: VolumeRef, end: u64) -> bool {
        self.requests.iter().any(|(_, request)| request.volume == volume && request.layout.bytes > end)
    }
    /// Frees what lies in a range of blocks that no view shows any more: behind the new end of a volume that was made smaller, say. `layout` says
    /// where it lay. Answered through [`VolumeRouter::pop_own`].
    pub fn free_range(&mut self, rt: &Rt, token: u64, volume: VolumeRef, layout: Arc<VolumeLayout>, range: std::ops::Range<u64>) {
        assert!(!layout.mirrors.is_empty(), "an offline volume has no place where something could lie");
        let block = BLOCK_BYTES as u64;
        let first = range.start.next_multiple_of(block);
        let range_operation = Some(RangeOperation::new(first..range.end.next_multiple_of(block).max(first), RangeVerb::Trim));
        let (since, class) = (rt.now(), IoClass::Discard);
        let bytes = range.end.saturating_sub(range.start);
        let request = Request { range_operation, by: AskedFor::Node, ..Request::of(token, volume, layout, class, bytes, since) };
        let id = self.requests.insert(request);
        self.range_operation(rt, id);
    }
    /// The next answer to [`VolumeRouter::free_range`] and [`VolumeRouter::submit_own`].
    pub fn pop_own(&mut self) -> Option<IoDone> {
        self.own_done.pop_front()
    }
    /// From now on new requests are answered with [`IoError::Closing`].
    pub fn begin_shutdown(&mut self) {
        self.closing = true;
        let held = std::mem::take(&mut self.held).into_values().chain(std::mem::take(&mut self.holds).into_values().flatten());
        for HeldBack { request, .. } in held.collect::<Vec<_>>() {
            self.refuse(request.token, IoError::Closing);
        }
    }
    /// Whether nothing is under way on this core.
    pub fn is_idle(&self) -> bool {
        let held = self.held.len() + self.holds.values().map(VecDeque::len).sum::<usize>();
        self.requests.is_empty() && self.lanes.is_idle() && self.out.is_empty() && held == 0
    }
    /// The next message for another core.
    pub fn pop_msg(&mut self) -> Option<(usize, RouterMsg)> {
        self.out.pop_front()
    }
    /// Puts a message back that could not be sent yet.
    pub fn unpop_msg(&mut self, to: usize, msg: RouterMsg) {
        self.out.push_front((to, msg));
    }
    /// Takes a message from another core.
    pub fn on_msg(&mut self, rt: &Rt, msg: RouterMsg) {
        match msg {
            RouterMsg::Part(part) => self.lanes.accept(rt, part),
            RouterMsg::Done(done) => self.on_done(rt, done),
            RouterMsg::Survey(Survey { origin, request, layout, window }) => {
                let found = self.look(&layout, &window, Mirror::serving);
                self.out.push_back((usize::from(origin), RouterMsg::Surveyed(Surveyed { request, found })));
            }
            RouterMsg::Surveyed(Surveyed { request, found }) => self.on_surveyed(rt, request as usize, &found),
            RouterMsg::Copied(part) => self.on_copied(rt, *part),
            RouterMsg::Copies(msg) => self.on_copy_msg(rt, *msg),
        }
    }

    /// Moves everything of this core on. `true` when something moved. `may_begin`: asks the front end once more about a request that a limit
    /// has held back, when its time has come: what was allowed when it was submitted may not be any more. One that may not is answered
    /// with [`IoError::Withdrawn`].
    pub fn poll(&mut self, rt: &Rt, may_begin: impl FnMut(&IoRequest) -> bool) -> bool {
        let mut moved = false;
        while self.queue.pop().is_some() {
            moved = true;
            self.timer = None;
        }
        moved |= self.release_held(rt, may_begin);
        if !self.later.is_empty() {
            moved = true;
            for id in std::mem::take(&mut self.later) {
                self.requests[id].parts -= 1;
                self.range_operation(rt, id);
            }
        }
        moved |= self.lanes.poll(rt);
        while let Some(done) = self.lanes.pop() {
            moved = true;
            if usize::from(done.origin) == self.core {
                self.on_done(rt, done);
            } else {
                self.out.push_back((usize::from(done.origin), RouterMsg::Done(done)));
            }
        }
        if self.lanes.fills.is_some() {
            moved |= self.send_follows(rt);
        }
        moved
    }

    fn release_held(&mut self, rt: &Rt, mut may_begin: impl FnMut(&IoRequest) -> bool) -> bool {
        let mut moved = false;
        while let Some(entry) = self.held.first_entry() {
            let (at, _) = *entry.key();
            if at > rt.now() {
                if self.timer.is_none_or(|(_, armed)| armed > at && !hooks::seeded(SeededFault::HeldTimerKept)) {
                    if let Some((id, _)) = self.timer.take() {
                        rt.cancel_timer(id);
                    }
                    self.timer = Some((rt.timer(&self.queue, 0, at), at));
                }
                break;
            }
            let HeldBack { request, since } = entry.remove();
            moved = true;
            if let Some(judged) = self.judge_held(&request, &mut may_begin) {
                if hooks::seeded(SeededFault::PaidTwice) {
                    judged.layout.limits.begin_at(rt.now(), judged.bytes);
                }
                self.start_or_hold(rt, request, judged, since);
            }
        }
        moved
    }

    /// Whether a request that is held back may (still) begin: `None` when it was answered instead.
    fn judge_held(&mut self, request: &IoRequest, may_begin: &mut impl FnMut(&IoRequest) -> bool) -> Option<Judged> {
        let found = match self.view.get(request.volume) {
            Some(layout) if hooks::seeded(SeededFault::HeldNotJudged) => {
                Ok(Judged { layout: Arc::clone(layout), bytes: request.op.range().1 })
            }
            _ if !may_begin(request) && !hooks::seeded(SeededFault::HeldRightsKept) => Err(IoError::Withdrawn),
            _ => self.judge(request),
        };
        found
            .inspect_err(|error| {
                hooks::reached(CoverageMark::HeldRefused);
                self.done.push_back(IoDone { token: request.token, result: Err(*error), data: DataVec::new() });
            })
            .ok()
    }

    /// Whether a request may begin now, and where its volume lies.
    fn judge(&self, request: &IoRequest) -> Result<Judged, IoError> {
        if self.closing {
            return Err(IoError::Closing);
        }
        if !request.op.is_sane() {
            return Err(IoError::Unaligned);
        }
        let layout = self.view.get(request.volume).ok_or(IoError::NoVolume)?;
        let (offset, bytes) = request.op.range();
        let bytes_judged = if hooks::seeded(SeededFault::HeldStartJudged) { 0 } else { bytes };
        if offset.checked_add(bytes_judged).is_none_or(|end| end > layout.bytes) {
            return Err(IoError::OutOfRange);
        }
        if layout.mirrors.is_empty() && layout.owner.is_none() {
            return Err(IoError::Failed);
        }
        if layout.read_only && request.op.changes() {
            return Err(IoError::ReadOnly);
        }
        Ok(Judged { layout: Arc::clone(layout), bytes })
    }

    fn refuse(&mut self, token: u64, error: IoError) {
        self.done.push_back(IoDone { token, result: Err(error), data: DataVec::new() });
    }

    /// Begins a request, unless its volume is held: then it waits.
    #[inline(always)]
    fn start_or_hold(&mut self, rt: &Rt, request: IoRequest, judged: Judged, since: Instant) {
        if !self.holds.is_empty()
            && let Some(waiting) = self.holds.get_mut(&request.volume)
        {
            return waiting.push_back(HeldBack { request, since });
        }
        self.start(rt, request, judged, since, AskedFor::Host);
    }

    /// Begins a request that was judged just now.
    fn start(&mut self, rt: &Rt, request: IoRequest, Judged { layout, bytes }: Judged, since: Instant, by: AskedFor) {
        let (token, volume) = (request.token, request.volume);
        let class = match request.op.verb() {
            IoVerb::Verify if hooks::seeded(SeededFault::VerifyCountsAsWrite) => Some(IoClass::Write),
            verb => verb.class(),
        };
        let Some(class) = class else {
            if let IoOp::Turn { .. } = request.op {
                // Which has come.
                return self.done.push_back(IoDone { token, result: Ok(()), data: DataVec::new() });
            }
            // What was answered is durable.
            return self.flush(rt, request, Judged { layout, bytes }, since);
        };
        if layout.mirrors.is_empty() {
            return self.forward(request, Judged { layout, bytes }, class, since);
        }
        let mut made = Request::of(token, volume, layout, class, bytes, since);
        made.by = by;
        match request.op {
            IoOp::Read { offset, len } => {
                let parts = extents(offset, len);
                parts.iter().for_each(|_| made.data.push(None));
                let id = self.requests.insert(made);
                for (i, extent) in parts.into_iter().enumerate() {
                    self.send_part(rt, id, i as u8, extent, PartOp::Read);
                }
            }
            IoOp::Write { offset, data } => {
                let len = data.iter().map(|d| d.buf.len()).sum::<usize>() as u32;
                let id = self.requests.insert(made);
                for (i, (extent, data)) in extents(offset, len).into_iter().zip(data).enumerate() {
                    assert_eq!(data.buf.len(), extent.len as usize, "a buffer for each extent");
                    self.send_part(rt, id, i as u8, extent, PartOp::Write(Some(data)));
                }
            }
            IoOp::CompareWrite { offset, both } => {
                let id = self.requests.insert(made);
                let extent = Extent { offset, len: both.data.buf.len() as u32 };
                self.send_part(rt, id, 0, extent, PartOp::CompareWrite(Some(both)));
            }
            IoOp::Zero { offset, len } => self.begin_range_operation(rt, made, offset..offset + len, RangeVerb::Zero),
            IoOp::Trim { offset, len } => self.begin_range_operation(rt, made, offset..offset + len, RangeVerb::Trim),
            IoOp::Uncorrectable { offset, len } => self.begin_range_operation(rt, made, offset..offset + len, RangeVerb::Uncorrectable),
            IoOp::Verify { offset, len } => {
                let block = BLOCK_BYTES as u64;
                let around = offset / block * block..(offset + len).next_multiple_of(block);
                let last = if hooks::seeded(SeededFault::VerifyEndsEarly) { block } else { 0 };
                self.begin_range_operation(rt, made, around.start..around.end - last, RangeVerb::Verify);
            }
            IoOp::Flush | IoOp::Turn { .. } => unreachable!("answered above"),
        }
    }

    /// Here, what was answered is durable; elsewhere it says more (see [`IoOp::Flush`]).
    fn flush(&mut self, rt: &Rt, request: IoRequest, judged: Judged, since: Instant) {
        if judged.layout.mirrors.is_empty() {
            // Its class is not counted, as it has none.
            return self.forward(request, judged, IoClass::Write, since);
        }
        if !self.is_owned(rt, &judged.layout) && !hooks::seeded(SeededFault::FlushWithoutGrants) {
            // As a read waits. Its turn has come.
            return self.hold_until(rt.now() + GRANTS_AGAIN_AFTER, IoRequest { counted: true, ..request }, since);
        }
        self.done.push_back(IoDone { token: request.token, result: Ok(()), data: DataVec::new() });
    }
    fn hold_until(&mut self, at: Instant, request: IoRequest, since: Instant) {
        self.held_count += 1;
        self.held.insert((at, self.held_count), HeldBack { request, since });
    }

    /// Finds out whether the node that owns a volume serves the view of it that is served here (see [`IoOp::Flush`]). Answered
    /// through [`VolumeRouter::pop_own`], with [`IoError::NoPath`] also when it does not yet.
    pub fn confirm(&mut self, rt: &Rt, token: u64, volume: VolumeRef, layout: Arc<VolumeLayout>) {
        let (request, class) = (IoRequest::new(token, volume, IoOp::Flush), IoClass::Write);
        self.forward(request, Judged { layout, bytes: 0 }, class, rt.now());
        let last = self.forwards.back().expect("it was put there").id;
        self.requests[last as usize].by = AskedFor::Node;
    }

    /// The volume lies elsewhere. Apart from what is carried out here: a request that is moved once more costs every request.
    #[cold]
    #[inline(never)]
    fn forward(&mut self, request: IoRequest, Judged { layout, bytes }: Judged, class: IoClass, since: Instant) {
        let IoRequest { token, volume, op, .. } = request;
        let (owner, id, revision) = (layout.owner.expect("judged"), layout.id, layout.revision);
        let made = Request { parts: 1, ..Request::of(token, volume, layout, class, bytes, since) };
        let at = self.requests.insert(made) as u32;
        self.forwarding += 1;
        self.forwards.push_back(Forward { id: at, owner, volume: id, revision, since, op });
    }

    /// See [`Backend::forwarded`].
    #[cold]
    fn on_forwarded(&mut self, rt: &Rt, ForwardDone { id, outcome }: ForwardDone) {
        let id = id as usize;
        self.forwarding -= 1;
        let request = &mut self.requests[id];
        request.parts -= 1;
        match outcome {
            ForwardOutcome::Answered(Ok(data)) => request.data.extend(data.into_iter().map(Some)),
            ForwardOutcome::Answered(Err(error)) => request.result = Err(error),
            ForwardOutcome::NotDone(_) if self.closing => request.result = Err(IoError::Closing),
            ForwardOutcome::NotDone(_)
                if request.by == AskedFor::Node
                    || rt.now().since(request.since) >= FORWARD_MAX && !hooks::seeded(SeededFault::ForwardTriedForEver) =>
            {
                request.result = Err(IoError::NoPath);
            }
            ForwardOutcome::NotDone(op) => {
                hooks::reached(CoverageMark::ForwardedAgain);
                let Request { token, volume, since, .. } = self.requests.remove(id);
                // Its turn has come: it waits for the other node now.
                return self.hold_until(rt.now() + FORWARD_AGAIN, IoRequest { token, volume, op, counted: true }, since);
            }
        }
        if self.requests[id].bytes > 0 {
            return self.finish(rt, id);
        }
        // A flush, which is not counted.
        let Request { token, result, by, .. } = self.requests.remove(id);
        let done = IoDone { token, result, data: DataVec::new() };
        if by == AskedFor::Node { self.own_done.push_back(done) } else { self.done.push_back(done) }
    }

    fn begin_range_operation(&mut self, rt: &Rt, made: Request, range: std::ops::Range<u64>, what: RangeVerb) {
        let end = if hooks::seeded(SeededFault::SweepEndsEarly) {
            range.end.min((range.start / PIECE_BYTES + 1) * PIECE_BYTES)
        } else {
            range.end
        };
        let range_operation = Some(RangeOperation::new(range.start..end, what));
        let id = self.requests.insert(Request { range_operation, ..made });
        self.range_operation(rt, id);
    }

    /// Sends the next parts of a long request, and answers it when nothing is left.
    fn range_operation(&mut self, rt: &Rt, id: usize) {
        let mut windows = 0;
        loop {
            let request = &mut self.requests[id];
            let Some(range_operation) = &mut request.range_operation else { break };
            if range_operation.asked > 0 {
                break;
            }
            let read_only = self.view.get(request.volume).is_some_and(|layout| layout.read_only);
            let forbidden = read_only && request.by == AskedFor::Host && range_operation.what != RangeVerb::Verify;
            if forbidden && range_operation.next < range_operation.end && !hooks::seeded(SeededFault::RangeGoesOn) {
                // What it has sent keeps its place before later reads; nothing more may change.
                hooks::reached(CoverageMark::RangeForbidden);
                request.result = request.result.and(Err(IoError::ReadOnly));
                range_operation.end = range_operation.next;
            }
            let (parts_max, stop) = match range_operation.what {
                RangeVerb::Verify => (
                    hooks::tiny(VERIFY_PARTS_MAX, 1),
                    range_operation.end.min((range_operation.next / VERIFY_PART_BYTES + 1) * VERIFY_PART_BYTES),
                ),
                _ => (hooks::tiny(PARTS_MAX, 2), range_operation.end),
            };
            let parts_max = if self.range_parts < RANGE_PARTS_MAX { parts_max } else { 1 };
            if request.parts as usize >= parts_max && range_operation.next < range_operation.end {
                hooks::reached(CoverageMark::SweepWaits);
            }
            if request.parts as usize >= parts_max || range_operation.next >= range_operation.end {
                break;
            }
            if let Some(window) = range_operation.window() {
                windows += 1;
                if windows > WINDOWS_A_TURN {
                    // Others have their turn first; until then it does not end.
                    request.parts += 1;
                    return self.later.push(id);
                }
                self.survey(id, window);
                continue;
            }
            if range_operation.pass_over() {
                continue;
            }
            let extent = next_extent(range_operation.next, stop);
            range_operation.next += u64::from(extent.len);
            let op = match (range_operation.what, extent.is_aligned()) {
                (RangeVerb::Trim, true) => PartOp::Trim,
                (RangeVerb::Zero, true) => PartOp::Zero,
                (RangeVerb::Verify, _) => PartOp::Verify,
                (RangeVerb::Uncorrectable, _) => PartOp::Uncorrectable,
                (RangeVerb::Trim | RangeVerb::Zero, false) => {
                    PartOp::Write(Some(Data { buf: Buf::zeroed(extent.len as usize), crcs: Crcs::new() }))
                }
            };
            self.send_part(rt, id, 0, extent, op);
        }
        if self.requests[id].parts == 0 {
            self.finish(rt, id);
        }
    }

    /// Asks all cores that may know which pieces of a window hold something; this one at once.
    fn survey(&mut self, id: usize, window: std::ops::Range<u64>) {
        let layout = Arc::clone(&self.requests[id].layout);
        let mut cores = [false; MESH_CORES_MAX];
        let mut found = Pieces::none(window.start);
        let mut before = None;
        for mirror in &layout.mirrors {
            let group = mirror.serving().map(|at| at.group);
            if before.replace(group) == Some(group) {
                continue;
            }
            match group.and_then(|group| route_of(&self.routes, group)) {
                Some(route) => (0..route.shards).for_each(|shard| cores[route.core(usize::from(shard), self.cores)] = true),
                // Its parts fail.
                None => found = Pieces::all(&window),
            }
        }
        let mut asked = 0;
        for core in (0..self.cores).filter(|core| cores[*core]) {
            if core == self.core {
                found.merge(&self.look(&layout, &window, Mirror::serving));
                continue;
            }
            asked += 1;
            self.counted.crossed += 1;
            let (origin, request, layout, window) = (self.core as u8, id as u32, Arc::clone(&layout), window.clone());
            self.out.push_back((core, RouterMsg::Survey(Survey { origin, request, layout, window })));
        }
        let request = &mut self.requests[id];
        // As long as they are asked it does not end.
        request.parts += asked;
        let range_operation = request.range_operation.as_mut().expect("a range operation asks");
        (range_operation.known_to, range_operation.found, range_operation.asked) = (window.end * PIECE_BYTES, found, asked);
    }

    /// What this core knows of a window.
    fn look(&self, layout: &VolumeLayout, window: &std::ops::Range<u64>, copy: fn(&Mirror) -> Option<ComponentAt>) -> Pieces {
        let mine = |group: GroupSlot| {
            let route = route_of(&self.routes, group);
            route.map_or(0, |route| (0..usize::from(route.shards)).filter(|shard| route.core(*shard, self.cores) == self.core).count())
        };
        let end = window.end - u64::from(hooks::seeded(SeededFault::LastPieceNotAskedFor));
        self.lanes.survey(layout, &(window.start..end), copy, mine)
    }

    fn on_surveyed(&mut self, rt: &Rt, id: usize, found: &Pieces) {
        let request = &mut self.requests[id];
        request.parts -= 1;
        let range_operation = request.range_operation.as_mut().expect("a range operation has asked");
        range_operation.asked -= 1;
        if hooks::seeded(SeededFault::LastSurveyCounts) {
            range_operation.found = Pieces::none(found.first());
        }
        range_operation.found.merge(found);
        self.range_operation(rt, id);
    }

    #[inline]
    fn send_part(&mut self, rt: &Rt, id: usize, index: u8, extent: Extent, op: PartOp) {
        let request = &mut self.requests[id];
        request.parts += 1;
        self.range_parts += usize::from(request.range_operation.is_some());
        let before = if hooks::seeded(SeededFault::WrongMirror) { PIECE_BYTES * u64::from(index) } else { 0 };
        let no = request.layout.mirror(extent.offset - before);
        let mirror = &request.layout.mirrors[no];
        if index > 0 {
            hooks::reached(CoverageMark::RequestOverPieces);
        }
        let open = mirror.serving().and_then(|at| Some((at, route_of(&self.routes, at.group)?)));
        let Some((at, route)) = open else { return self.send_elsewhere(rt, id, index, extent, op, no) };
        let lane = Lane::of(BlockNo::containing(extent.offset));
        let (shard, core) = (lane.shard(usize::from(route.shards)), mirror.core_of(lane));
        hooks::must(|| core == route.core(shard, self.cores), "a lane is where its shard is");
        let part = Part {
            origin: self.core as u8,
            request: id as u32,
            index,
            shard: shard as u8,
            checksum: request.layout.checksum,
            volume: request.layout.lanes,
            at,
            mirror: no as u16,
            ownership: request.layout.ownership,
            extent,
            op,
        };
        if core == self.core {
            self.lanes.accept(rt, part);
        } else {
            hooks::reached(CoverageMark::PartCrosses);
            self.counted.crossed += 1;
            self.out.push_back((core, RouterMsg::Part(part)));
        }
    }

    /// A part of a mirror that is not served by a copy here alone.
    #[cold]
    #[inline(never)]
    fn send_elsewhere(&mut self, rt: &Rt, id: usize, index: u8, extent: Extent, op: PartOp, no: usize) {
        let op = match op {
            PartOp::Write(Some(data)) if extent.blocks() > store::ATOMIC_BLOCKS => {
                // A copy takes a change as a whole: each half is one of its own.
                self.requests[id].parts += 1;
                return halves(extent, data)
                    .into_iter()
                    .for_each(|(half, data)| self.send_elsewhere(rt, id, index, half, PartOp::Write(Some(data)), no));
            }
            op => op,
        };
        let several = self.requests[id].parts > 1 || self.requests[id].range_operation.is_some();
        self.requests[id].several |= several && !matches!(op, PartOp::Read | PartOp::Verify);
        let (origin, request) = (self.core as u8, &self.requests[id]);
        let mirror = &request.layout.mirrors[no];
        if mirror.serving().is_some() || !mirror.has_copies() {
            let done = PartDone { origin, request: id as u32, index, result: Err(IoError::Failed), data: None };
            // Not answered here and now: the caller may still be sending parts of the same request.
            return self.out.push_back((self.core, RouterMsg::Done(done)));
        }
        let here = mirror.here();
        let part = Part {
            origin,
            request: id as u32,
            index,
            shard: 0,
            checksum: request.layout.checksum,
            volume: request.layout.lanes,
            at: here.unwrap_or(NOWHERE),
            mirror: no as u16,
            ownership: request.layout.ownership,
            extent,
            op,
        };
        let core = mirror.core_of(Lane::of(BlockNo::containing(extent.offset)));
        self.counted.crossed += u64::from(core != self.core);
        self.send_copied(rt, part, here, core);
    }

    fn on_done(&mut self, rt: &Rt, done: PartDone) {
        let id = done.request as usize;
        let request = &mut self.requests[id];
        request.parts -= 1;
        if hooks::seeded(SeededFault::LastPartDecides) {
            request.result = done.result;
        }
        self.range_parts -= usize::from(request.range_operation.is_some());
        if let Err(error) = done.result {
            request.result = request.result.and(Err(error));
            if let Some(range_operation) = &mut request.range_operation {
                range_operation.next = range_operation.end;
            }
        }
        if let Some(slot) = request.data.get_mut(usize::from(done.index)) {
            *slot = done.data;
        }
        if request.range_operation.is_some() {
            self.range_operation(rt, id);
        } else if request.parts == 0 {
            self.finish(rt, id);
        }
    }

    fn finish(&mut self, rt: &Rt, id: usize) {
        let mut request = self.requests.remove(id);
        if request.several && matches!(request.result, Err(IoError::Closing | IoError::NotOwner)) {
            request.result = Err(IoError::NoPath);
        }
        if let AskedFor::Change(of) = request.by {
            return self.lanes.followed(rt, of, request.token, request.result);
        }
        let stats = self.counted.class(request.volume, request.class);
        stats.requests += 1;
        match request.result {
            Ok(()) => stats.bytes += request.bytes,
            Err(_) => stats.errors += 1,
        }
        stats.latency.record(rt.now().since(request.since).as_nanos() as u64);
        let data: DataVec = match request.result {
            Ok(()) => request.data.into_iter().flatten().collect(),
            Err(_) => SmallVec::new(),
        };
        let done = IoDone { token: request.token, result: request.result, data };
        if request.by == AskedFor::Node { self.own_done.push_back(done) } else { self.done.push_back(done) }
    }
}

/// Where the shards of a group run, while it is open.
#[inline]
pub(crate) fn route_of(routes: &[Option<GroupRoute>], group: GroupSlot) -> Option<GroupRoute> {
    routes.get(usize::from(group.0)).copied().flatten()
}

/// The next part of a long range: to the end of the piece, but a block that is not covered whole stands alone.
fn next_extent(next: u64, end: u64) -> Extent {
    let block = BLOCK_BYTES as u64;
    let piece_end = (next / PIECE_BYTES + 1) * PIECE_BYTES;
    let stop = if !next.is_multiple_of(block) {
        next.next_multiple_of(block).min(if hooks::seeded(SeededFault::EdgeTooLong) { u64::MAX } else { end })
    } else {
        let whole = end.min(piece_end) / block * block;
        if whole > next { whole } else { end }
    };
    Extent { offset: next, len: (stop - next) as u32 }
}

/// When a request of `bytes` may begin within the limits of its volume, which count it at once.
#[cold]
#[inline(never)]
fn turn_of(request: &IoRequest, layout: &VolumeLayout, bytes: u64, now: Instant) -> Instant {
    if let IoOp::Turn { requests, .. } = request.op {
        (1..requests).for_each(|_| _ = layout.limits.begin_at(now, bytes));
    }
    layout.limits.begin_at(now, bytes)
}

impl<S: Blocks> Backend for VolumeRouter<S> {
    fn submit(&mut self, rt: &Rt, request: IoRequest) {
        let judged = match self.judge(&request) {
            Ok(judged) => judged,
            Err(error) => return self.refuse(request.token, error),
        };
        assert!(self.requests.len() + self.held.len() < REQUESTS_MAX + OWN_REQUESTS_MAX, "front ends bound what they ask for");
        let now = rt.now();
        if !judged.layout.limits.is_none() && !request.counted && request.op.transfers() {
            let at = turn_of(&request, &judged.layout, judged.bytes, now);
            if at > now {
                hooks::reached(CoverageMark::LimitDelays);
                self.counted.throttle(request.volume);
                return self.hold_until(at, request, now);
            }
        }
        self.start_or_hold(rt, request, judged, now);
    }

    fn pop(&mut self) -> Option<IoDone> {
        self.done.pop_front()
    }
    fn pop_forward(&mut self) -> Option<Forward> {
        self.forwards.pop_front()
    }
    fn forwarded(&mut self, rt: &Rt, done: ForwardDone) {
        self.on_forwarded(rt, done);
    }
    fn may_answer(&self, rt: &Rt, volume: VolumeRef) -> bool {
        self.view.get(volume).is_none_or(|layout| layout.owner.is_none() && self.is_owned(rt, layout))
    }
    fn cancel(&mut self, token: u64) {
        if self.forwarding == 0 {
            return;
        }
        let is_forwarded = |r: &Request| r.token == token && r.by == AskedFor::Host && r.layout.mirrors.is_empty();
        let found = self.requests.iter().filter(|(_, r)| is_forwarded(r));
        self.cancels.extend(found.filter_map(|(id, r)| Some((r.layout.owner?, id as u32))));
    }
    fn pop_cancel(&mut self) -> Option<(NodeId, u32)> {
        self.cancels.pop_front()
    }
    #[cold]
    #[inline(never)]
    fn copies(&mut self) -> Option<&mut dyn CopyDoor> {
        let any = self.lanes.copies.is_some() || !self.view.held.is_empty();
        any.then_some(self as &mut dyn CopyDoor)
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;

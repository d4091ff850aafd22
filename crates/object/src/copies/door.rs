//! The way between a core's copies and the links to other nodes.
//!
//! Invariant: what a node is asked goes over one link of one core, in order; an answer comes back to the core that asked.
//! Never: knows links.

use super::transfer::{AgreedOn, extent_of};
use super::{CopiedPart, Copies, CopyAnswer, CopyAsk, CopyCall, CopyMsg, CopyStats, OwnCopy, ReplyTo, Work};
use crate::grant::GrantCell;
use crate::io::{Data, Extent, IoError, VolumeRef};
use crate::lanes::Blocks;
use crate::layout::{Mirror, VolumeLayout};
use crate::order::NOWHERE;
use crate::owner::{BlockRange, Command, CopyRef, Event, RangeCopy};
use crate::part::{Part, PartOp, RouterMsg};
use crate::router::{VolumeRouter, route_of};
use base::hooks::{self, SeededFault};
use base::unit::{BlockNo, CHUNK_BLOCKS};
use base::{Epoch, Lane, NodeId, Order, ResyncProgress, Seq};
use format::peer::{Change, ChangeSource, ChangeVerb, CopyOutcome, CopyRead};
use rt::{Buf, Rt};
use std::sync::Arc;
use store::{OpKind, RangeContent, RangeOp};

/// For who has the links: takes what is for other nodes, and brings what they say.
pub trait CopyDoor {
    /// Does what is due; `true` when something moved.
    fn poll_copies(&mut self, rt: &Rt) -> bool;
    /// The next request for another node. One for a link that is not the current one of its node any more is dropped.
    fn pop_call(&mut self) -> Option<CopyCall>;
    /// The answer to a request.
    fn answered(&mut self, rt: &Rt, token: u64, answer: CopyAnswer);
    /// There is a link with a node that knows such requests, numbered higher than each before: what it has not answered is asked anew.
    fn opened(&mut self, rt: &Rt, node: NodeId, link: u64);
    /// There is none any more.
    fn closed(&mut self, node: NodeId);
    /// A node asks something. It is answered by [`CopyDoor::pop_answer`], with this token.
    fn serve(&mut self, rt: &Rt, from: NodeId, token: u64, ask: CopyAsk);
    /// The next answer to a node.
    fn pop_answer(&mut self) -> Option<(u64, CopyAnswer)>;
}

impl<S: Blocks> VolumeRouter<S> {
    /// Does on this core what the owner's machine wants, if it is of lanes: give each command to every core, in order. `here`: this node. Copies on
    /// other nodes have to be in the picture that is served before they are in [`Command::Targets`].
    pub fn copy_command(&mut self, rt: &Rt, here: NodeId, volume: VolumeRef, command: &Command) -> bool {
        let waits = |copies: &Copies| copies.unplaced.iter().any(|(of, _)| *of == volume);
        let done = match command {
            // The agreement comes first.
            Command::Serve if self.lanes().copies.as_ref().is_some_and(|copies| waits(copies)) => self.waits_for_place(rt, volume, command),
            Command::Agree { term, mirror, lane, base_mark, source, ranges } => {
                let on = AgreedOn { term: *term, mirror: *mirror, lane: *lane, base_mark: *base_mark, source: *source };
                self.agree(rt, volume, &on, ranges) || self.waits_for_place(rt, volume, command)
            }
            Command::Repair { copy, block } => {
                self.repair_bad(rt, volume, *copy, *block);
                true
            }
            Command::CopyRange(range) => self.copy_range(rt, volume, range) || self.waits_for_place(rt, volume, command),
            command => self.lanes_mut().command(rt, here, volume, command),
        };
        self.copies_out();
        done
    }
    /// The owner of a volume wants something of its mirrors before a picture is served that has them: it is done as soon as one is.
    #[cold]
    #[inline(never)]
    fn waits_for_place(&mut self, rt: &Rt, volume: VolumeRef, command: &Command) -> bool {
        if !hooks::seeded(SeededFault::UnplacedForgotten) {
            self.lanes_mut().copies(rt).unplaced.push((volume, command.clone()));
        }
        true
    }
    /// Ranges of a lane are agreed on, if the lane is on this core. False: it is not known where it is.
    #[cold]
    #[inline(never)]
    fn agree(&mut self, rt: &Rt, volume: VolumeRef, on: &AgreedOn, ranges: &[BlockRange]) -> bool {
        match self.core_of_lane(volume, on.mirror, on.lane) {
            None => false,
            Some(core) if core != rt.core() => true,
            Some(_) => {
                let part = |range: &BlockRange| self.part_of_none(rt, volume, on.mirror, extent_of(range.first, range.blocks));
                let parts = ranges.iter().filter_map(part).collect();
                self.lanes_mut().agree(rt, volume, on, parts);
                true
            }
        }
    }
    /// A range of a chunk is copied, if its lane is on this core. False: it is not known where that is.
    #[cold]
    #[inline(never)]
    fn copy_range(&mut self, rt: &Rt, volume: VolumeRef, range: &RangeCopy) -> bool {
        let first = BlockNo(range.chunk * CHUNK_BLOCKS);
        match self.core_of_lane(volume, range.to.mirror, Lane::of(first)) {
            Some(core) if core == rt.core() => {
                let extent = extent_of(first, CHUNK_BLOCKS as u32);
                let part = self.part_of_none(rt, volume, range.to.mirror, extent).expect("its mirror was just seen");
                self.lanes_mut().copy_range(rt, range, part);
                true
            }
            core => core.is_some(),
        }
    }
    /// A copy has lost a block: it is written again from another one, if its lane is on this core.
    #[cold]
    #[inline(never)]
    fn repair_bad(&mut self, rt: &Rt, volume: VolumeRef, copy: CopyRef, block: BlockNo) {
        if self.core_of_lane(volume, copy.mirror, Lane::of(block)) == Some(rt.core())
            && let Some(part) = self.part_of_none(rt, volume, copy.mirror, extent_of(block, 1))
        {
            self.lanes_mut().repair_bad(rt, part, copy.component);
        }
    }
    fn core_of_lane(&self, volume: VolumeRef, mirror: u16, lane: Lane) -> Option<usize> {
        Some(self.view.of_lanes(volume)?.mirrors.get(usize::from(mirror))?.core_of(lane))
    }
    /// A part of no request: blocks of a mirror that one copy has and others get.
    fn part_of_none(&self, rt: &Rt, volume: VolumeRef, no: u16, extent: Extent) -> Option<CopiedPart> {
        let layout = self.view.of_lanes(volume)?;
        let mirror = layout.mirrors.get(usize::from(no))?;
        let own = mirror.here().and_then(|at| self.own_copy(at, Lane::of(BlockNo::containing(extent.offset))));
        let part = Part {
            origin: rt.core() as u8,
            request: 0,
            index: 0,
            shard: own.map_or(0, |own| own.shard),
            checksum: layout.checksum,
            volume,
            at: mirror.here().unwrap_or(NOWHERE),
            mirror: no,
            ownership: layout.ownership,
            extent,
            op: PartOp::Write(None),
        };
        Some(CopiedPart { part, own })
    }
    /// Whether this core ever had anything of a mirror with copies elsewhere.
    #[inline]
    pub fn has_copies(&self) -> bool {
        self.lanes().copies.is_some()
    }
    /// What has happened to a volume with copies elsewhere, for the owner's machine.
    pub fn pop_copy_event(&mut self) -> Option<(VolumeRef, Event)> {
        self.lanes_mut().copies.as_mut()?.events.pop_front()
    }
    /// The next block of a copy on this node that was found lost.
    pub fn pop_bad(&mut self) -> Option<(crate::ComponentAt, BlockNo)> {
        self.lanes_mut().copies.as_mut()?.bad.pop_front()
    }
    /// Reads of a volume are answered by this; without it none is.
    pub fn set_cell(&mut self, rt: &Rt, volume: VolumeRef, cell: Option<Arc<GrantCell>>) {
        self.lanes_mut().set_cell(rt, volume, cell);
    }
    /// Whether no other node can own a volume that this one owns: the grants for it are there now, or it needs none.
    pub(crate) fn is_owned(&self, rt: &Rt, layout: &VolumeLayout) -> bool {
        let needs_grants = |mirror: &Mirror| mirror.serving().is_none() && mirror.has_copies();
        !layout.mirrors.iter().any(needs_grants) || self.lanes().copies.as_ref().is_some_and(|copies| copies.may_answer(rt, layout.lanes))
    }
    /// What was counted of copies.
    pub fn copy_stats(&self) -> CopyStats {
        self.lanes().copies.as_ref().map_or_else(CopyStats::default, |copies| copies.stats.clone())
    }
    /// The copy of a lane on this node.
    fn own_copy(&self, at: crate::ComponentAt, lane: Lane) -> Option<OwnCopy> {
        let route = route_of(&self.routes, at.group)?;
        let shard = lane.shard(usize::from(route.shards));
        Some(OwnCopy { at, shard: shard as u8, core: route.core(shard, self.cores) as u8 })
    }
    /// A part of a mirror with copies elsewhere goes to the core of its lane.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_copied(&mut self, rt: &Rt, mut part: Part, here: Option<crate::ComponentAt>, core: usize) {
        let own = here.and_then(|at| self.own_copy(at, Lane::of(BlockNo::containing(part.extent.offset))));
        part.shard = own.map_or(0, |own| own.shard);
        let copied = CopiedPart { part, own };
        if core == rt.core() {
            self.lanes_mut().accept_copied(rt, copied);
            return self.copies_out();
        }
        self.out.push_back((core, RouterMsg::Copied(Box::new(copied))));
    }
    /// A part of another core.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_copied(&mut self, rt: &Rt, part: CopiedPart) {
        self.lanes_mut().accept_copied(rt, part);
        self.copies_out();
    }
    /// Of another core.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_copy_msg(&mut self, rt: &Rt, msg: CopyMsg) {
        let lanes = self.lanes_mut();
        match msg {
            CopyMsg::Work(work) => lanes.work(rt, work),
            CopyMsg::Worked(worked) => lanes.worked(rt, worked),
        }
        self.copies_out();
    }
    /// A picture is served in which a volume is not any more, or is another node's.
    #[cold]
    #[inline(never)]
    pub(crate) fn copies_apply(&mut self, rt: &Rt) {
        let Some(copies) = &self.lanes().copies else { return };
        let volumes: Vec<VolumeRef> = copies.volumes.keys().copied().collect();
        for volume in volumes {
            match self.view.of_lanes(volume).map(|layout| layout.mirrors.is_empty() && layout.owner.is_some()) {
                Some(false) => {}
                Some(true) => self.lanes_mut().stop(rt, volume, IoError::NotOwner),
                None => {
                    // The volume lies elsewhere, as its new owner says: what waited here was not carried out, and is tried again there. Of one that was
                    // deleted the next try says so.
                    let lanes = self.lanes_mut();
                    lanes.stop(rt, volume, IoError::NotOwner);
                    lanes.copies(rt).volumes.remove(&volume);
                    lanes.numbers.forget_volume(volume);
                }
            }
        }
        let unplaced = self.lanes_mut().copies.as_mut().map(|copies| std::mem::take(&mut copies.unplaced));
        for (volume, command) in unplaced.into_iter().flatten() {
            // None of them names this node.
            self.copy_command(rt, NodeId::from_bytes([0; 16]), volume, &command);
        }
    }
    /// What is for other cores goes there.
    fn copies_out(&mut self) {
        while let Some((core, msg)) = self.lanes_mut().copies.as_mut().and_then(|copies| copies.msgs.pop_front()) {
            self.out.push_back((core, RouterMsg::Copies(Box::new(msg))));
        }
    }
}

impl<S: Blocks> CopyDoor for VolumeRouter<S> {
    fn poll_copies(&mut self, rt: &Rt) -> bool {
        let moved = self.lanes_mut().poll_copies(rt);
        self.copies_out();
        moved
    }
    fn pop_call(&mut self) -> Option<CopyCall> {
        self.lanes_mut().copies.as_mut()?.calls.pop_front()
    }
    fn answered(&mut self, rt: &Rt, token: u64, answer: CopyAnswer) {
        let lanes = self.lanes_mut();
        let copies = lanes.copies(rt);
        let Some((_, of)) = copies.asked.remove(&token) else {
            copies.list_answered(token, answer);
            return;
        };
        lanes.copy_answered(rt, of, answer);
        self.copies_out();
    }
    fn opened(&mut self, rt: &Rt, node: NodeId, link: u64) {
        let lanes = self.lanes_mut();
        let copies = lanes.copies(rt);
        copies.asked.retain(|_, (of, _)| *of != node);
        copies.lists_lost(node);
        copies.links.insert(node, link);
        let volumes: Vec<VolumeRef> = copies.volumes.keys().copied().collect();
        for id in volumes.into_iter().flat_map(|volume| copies.parts_of(volume)).collect::<Vec<_>>() {
            lanes.ask_again(rt, id, |copy| copy.node == node);
        }
        self.copies_out();
    }
    fn closed(&mut self, node: NodeId) {
        let Some(copies) = self.lanes_mut().copies.as_mut() else { return };
        copies.links.remove(&node);
        copies.lists_lost(node);
        copies.asked.retain(|_, (of, _)| *of != node);
    }
    fn serve(&mut self, rt: &Rt, from: NodeId, token: u64, ask: CopyAsk) {
        let reply = ReplyTo::Node { core: rt.core() as u8, token, from };
        let (component, block, epoch) = match &ask {
            CopyAsk::Change { change, .. } => (change.component, change.block, change.order.epoch),
            CopyAsk::Read(read) => (read.component, read.block, read.epoch),
            CopyAsk::List(list) => (list.component, BlockNo(0), list.epoch),
        };
        let held = self.view.held.get(&component).copied();
        // What a node is that this one has not heard of yet is not known: the owner is to come again.
        let refused = match &held {
            None => Some(CopyOutcome::NotOwner),
            Some(held) if held.owner != from && !hooks::seeded(SeededFault::StaleOwnerCarriedOut) => {
                Some(if epoch < held.epoch { CopyOutcome::StaleEpoch(held.epoch) } else { CopyOutcome::NotOwner })
            }
            Some(_) => None,
        };
        let own = held.and_then(|held| self.own_copy(held.at, Lane::of(block)));
        let outcome = match (refused, own) {
            (Some(outcome), _) => outcome,
            (None, None) => CopyOutcome::NotOwner,
            (None, Some(own)) => {
                let work = match ask {
                    CopyAsk::List(list) => return self.lanes_mut().copies(rt).list_asked(rt, token, list),
                    CopyAsk::Read(read) => work_of_read(own, &read, reply),
                    CopyAsk::Change { change, data } => work_of_change(own, &change, data, reply),
                };
                if usize::from(own.core) == rt.core() {
                    self.lanes_mut().work(rt, work);
                    return self.copies_out();
                }
                return self.out.push_back((own.core.into(), RouterMsg::Copies(Box::new(CopyMsg::Work(work)))));
            }
        };
        let copies = self.lanes_mut().copies(rt);
        copies.stats.held_refused += 1;
        copies.answers.push_back((token, outcome.into()));
    }
    fn pop_answer(&mut self) -> Option<(u64, CopyAnswer)> {
        self.lanes_mut().copies.as_mut()?.answers.pop_front()
    }
}

/// What a shard is to read for another node.
fn work_of_read(own: OwnCopy, read: &CopyRead, reply: ReplyTo) -> Work {
    let OwnCopy { at, shard, .. } = own;
    let order = Order { epoch: read.epoch, period_start: read.period_start, seq: Seq::default(), mark: Seq::default() };
    let kind = OpKind::Read { buf: Buf::alloc(0) };
    Work { at, shard, block: read.block.0, blocks: read.blocks, order, kind, reply, resync: false, run: read.run }
}

/// What a shard is to do with a change.
pub(super) fn work_of_change(own: OwnCopy, change: &Change, data: Option<Data>, reply: ReplyTo) -> Work {
    let OwnCopy { at, shard, .. } = own;
    let kind = match (change.verb, data) {
        (verb, data) if change.source.is_some() => range_of(change, verb, data),
        (ChangeVerb::Write, Some(data)) => OpKind::Write { buf: data.buf, crcs: data.crcs, checksum: change.checksum },
        (ChangeVerb::Zero, _) => OpKind::Zero,
        (ChangeVerb::Uncorrectable, _) => OpKind::Uncorrectable,
        _ => OpKind::Trim,
    };
    let &Change { block, blocks, order, resync, .. } = change;
    Work { at, shard, block: block.0, blocks, order, kind, reply, resync, run: false }
}

/// Content of another copy. With epoch 0 there is no such chunk there.
#[cold]
#[inline(never)]
fn range_of(change: &Change, verb: ChangeVerb, data: Option<Data>) -> OpKind {
    let ChangeSource { epoch, mask, progress_below: below, progress_to: to } = change.source.expect("looked at before");
    let content = match (verb, data) {
        (ChangeVerb::Write, Some(data)) => RangeContent::Data { buf: data.buf, crcs: data.crcs, checksum: change.checksum },
        (ChangeVerb::Uncorrectable, _) => RangeContent::Uncorrectable,
        _ => RangeContent::Nothing,
    };
    let source = (epoch > Epoch(0)).then_some((epoch, mask));
    OpKind::Range(Box::new(RangeOp { source, progress: ResyncProgress { below, to }, content }))
}

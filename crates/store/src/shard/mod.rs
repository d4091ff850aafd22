//! A shard: one slice of a group's log and of its capacity, on one core. The only door to the data of a disk group.
//!
//! Owns: the path of an operation (`op`, `read`, `chunks`, `commit`), what a shard knows (`state` and its parts: `ops`, `space`, `member`, and
//! those of `buffer`, `destage` and `scrub`), the handle, and the background tasks.
//! Invariants: an operation is answered exactly once; what was answered to a write survives any crash; a read is answered with the
//! newest durable content, verified. The caller never has two overlapping operations in flight of which one is not a read.
//! Never: waits in `submit` or `poll`; allocates there but to grow its tables; knows what objects are.

pub(crate) mod busy;
mod check;
pub(crate) mod chunk_part;
mod chunks;
mod commit;
pub(crate) mod cookie;
pub(crate) mod copies;
pub(crate) mod member;
pub(crate) mod op;
pub(crate) mod ops;
pub(crate) mod read;
pub(crate) mod space;
pub(crate) mod state;
mod stillness;
#[cfg(feature = "hooks")]
pub(crate) mod witness;

use crate::buffer;
use crate::pace::Settings;
use crate::replica::{Refusal, ReplicaView};
use crate::stats::{BadBlock, ShardStats};
use crate::{ComponentInfo, ComponentNo, NewCapacity};
use crate::{Group, GroupError, destage, recovery, scrub};
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{BLOCK_BYTES, PIECE_BLOCKS};
use base::{BlockNo, Duration, Epoch, Lane, LaneDoubt, Order, Seq, SourceRun, crc32c};
use copies::CopyList;
use core::cell::RefCell;
use op::{Change, Crcs, Logged, NO_PARENT, Op, OpKind, Reading, ShardDone, ShardOp, Stage, StoreError};
use rt::{Buf, Event, Rt, TaskId};
use state::{Phase, State};
use std::rc::Rc;
use stillness::Stillness;

/// Operations that a shard has taken and not answered; its caller keeps within it. What waits for the log, for reads or to be fetched is among them.
pub const OPERATIONS_MAX: usize = 1 << 28;
/// The most that an operation counts for within the shard: itself, and the parts that it is cut into where segments are small.
const OPERATION_SLOTS_MAX: usize = 1 + PIECE_BLOCKS as usize / buffer::ATOMIC_BLOCKS as usize;
const _: () = assert!(OPERATIONS_MAX * OPERATION_SLOTS_MAX < NO_PARENT as usize, "an operation has a key of 32 bits");

/// A shard. See the module. Dropping it ends its background tasks.
pub struct Shard {
    state: Rc<RefCell<State>>,
    rt: Rt,
    tasks: Vec<TaskId>,
    scrub: Option<TaskId>,
    stillness: Stillness,
}

impl Shard {
    /// Opens shard `shard` of the group on this core: loads its tables and replays its log.
    pub async fn open(rt: &Rt, group: &Group, shard: u8, settings: Settings) -> Result<Shard, GroupError> {
        let state = Rc::new(RefCell::new(recovery::open(rt, group, shard, settings).await?));
        let tasks = destage::spawn(rt, &state);
        #[cfg(feature = "hooks")]
        crate::probe::open_shards::opened(&state);
        Ok(Shard { state, rt: rt.clone(), tasks, scrub: None, stillness: Stillness::default() })
    }

    /// Takes an operation. It ends in [`Shard::pop_done`], in any order.
    pub fn submit(&mut self, rt: &Rt, op: ShardOp) {
        self.state.borrow_mut().submit(rt, op);
    }

    /// Handles what the devices have done and starts the next batch. Whether there was anything to do.
    pub fn poll(&mut self, rt: &Rt) -> bool {
        self.state.borrow_mut().poll(rt)
    }

    /// Names those of the pieces `first`, `first + step` and so on before `end` in which a component may have anything: content, or a change on
    /// its way through this shard. To trim or zero any other changes nothing. False when that cannot be said: the operation itself then
    /// says what is wrong.
    pub fn pieces(&self, component: ComponentNo, first: u64, step: u64, end: u64, found: impl FnMut(u64)) -> bool {
        let state = self.state.borrow();
        let known = state.phase == Phase::Open && !state.log.is_stopped() && state.members.has(component);
        if known {
            state.space.table().pieces(component, first, step, end, found);
        }
        known
    }

    /// The newest change of a lane of a component that the log had when the shard was opened; `None`: there is no such component.
    pub fn newest(&self, component: ComponentNo, lane: Lane) -> Option<Seq> {
        self.state.borrow().members.newest(component, lane)
    }

    /// What a component keeps as one copy of several; `None`: it is not that, or there is no such component.
    pub fn replica(&self, component: ComponentNo) -> Option<ReplicaView> {
        self.state.borrow().members.replica(component).map(|replica| replica.view())
    }
    /// The highest epoch of a component that this shard has taken, with a change or as one copy of several; `None`: there is no such component.
    pub fn accepted(&self, component: ComponentNo) -> Option<Epoch> {
        self.state.borrow().members.accepted(component)
    }
    /// Of each lane of this shard that has anything to say: its mark, and what is in doubt. For the answer to a fence: asked when the epoch is
    /// accepted.
    pub fn in_doubt(&self, component: ComponentNo) -> Vec<LaneDoubt> {
        let state = self.state.borrow();
        state.members.replica(component).map(|replica| replica.in_doubt(state.shard)).unwrap_or_default()
    }
    /// The chunks of a component in this shard from `from` on, at most `most` of them and [`copies::LIST_CHUNKS_MAX`].
    pub fn list(&self, component: ComponentNo, from: u64, most: usize) -> CopyList {
        self.state.borrow().list(component, from, most)
    }

    /// What the first of these blocks of a component hold, as many of them as are of one kind, and epoch and mask of the first one's chunk. For
    /// who copies them to another copy.
    pub fn source_run(&self, component: ComponentNo, block: BlockNo, blocks: u32) -> SourceRun {
        self.state.borrow().source_run(component, block, blocks)
    }

    /// The next operation that has ended.
    pub fn pop_done(&mut self) -> Option<ShardDone> {
        self.state.borrow_mut().ops.pop_done()
    }

    /// How long a device of the shard has ended nothing though it has operations, as far as this was asked often enough: at least every 0.4 s.
    pub fn still_for(&mut self) -> Duration {
        let state = self.state.borrow();
        self.stillness.look(core::iter::once(state.log.device()).chain(state.space.devices().iter()), self.rt.now())
    }

    /// The next block that the scrub or destaging has found lost. Its figures have it as well.
    pub fn pop_bad(&mut self) -> Option<BadBlock> {
        self.state.borrow_mut().found_bad.pop_front()
    }

    /// A component was created (or changed) in the group.
    pub fn add_component(&mut self, component: ComponentNo, info: &ComponentInfo) {
        self.state.borrow_mut().add_component(component, info);
    }

    /// A component was deleted in the group (durably): forgets it and frees its chunks, in the background.
    pub fn drop_component(&mut self, rt: &Rt, component: ComponentNo) {
        // What was asked for before finds what there was then, or hears at its end that the component is gone; never zeroes.
        self.state.borrow_mut().start_reads(rt);
        if !self.state.borrow_mut().members.remove(component) {
            return;
        }
        self.tasks.push(destage::drop::spawn(rt, &self.state, component));
    }

    /// The group has one more capacity device (`Group::add_capacity`).
    pub fn add_capacity(&mut self, new: &NewCapacity) {
        self.state.borrow_mut().space.add_device(new);
    }

    /// Whether a capacity device on which no component lies any more is no longer used: what was dropped is forgotten in the background.
    pub fn is_vacant(&self, index: u8) -> bool {
        self.state.borrow().space.is_vacant(index)
    }

    /// The group has a capacity device no more (`Group::remove_capacity`), which is vacant.
    pub fn remove_capacity(&mut self, index: u8) {
        let mut state = self.state.borrow_mut();
        let cache = state.log.device().clone();
        state.space.remove_device(index, &cache);
    }

    /// New settings, from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        let mut state = self.state.borrow_mut();
        state.pacer.set(&settings);
        state.scrub.set_rate(settings.scrub_bytes_per_s);
        state.destage.wake();
    }

    /// What it is doing.
    pub fn stats(&self) -> ShardStats {
        self.state.borrow().stats()
    }

    /// Refuses new operations, ends those in flight, checkpoints. Poll until [`Shard::is_quiet`], then drop it.
    pub fn begin_shutdown(&mut self, rt: &Rt) {
        let mut state = self.state.borrow_mut();
        state.phase = Phase::Closing;
        state.log.stop_probing(rt);
        state.destage.wake();
    }

    /// Whether the shutdown is complete: nothing in flight, everything released that can be.
    pub fn is_quiet(&self) -> bool {
        let state = self.state.borrow();
        state.phase == Phase::Quiet && state.ops.is_empty() && state.queue.is_empty()
    }

    /// Starts a pass of scrubbing, unless one runs.
    pub fn start_scrub(&mut self, rt: &Rt) {
        if !self.state.borrow().scrub.is_running() {
            self.scrub = Some(scrub::spawn(rt, &self.state));
        }
    }

    /// All that it knows.
    #[cfg(any(test, feature = "hooks"))]
    pub(crate) fn state(&self) -> &RefCell<State> {
        &self.state
    }

    /// Checks the invariants that link index, segments and chunks; panics when one is broken. Slow: for tests and simulations.
    pub fn check(&self) {
        self.state.borrow().check();
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        for task in self.tasks.drain(..).chain(self.scrub.take()) {
            self.rt.cancel(task);
        }
    }
}

impl State {
    fn submit(&mut self, rt: &Rt, op: ShardOp) {
        // What is asked for in a turn begins together, with the next poll.
        assert!(self.ops.len() < OPERATIONS_MAX * OPERATION_SLOTS_MAX, "the caller bounds what it asks for");
        let ShardOp { cookie, component, block, blocks, order, kind } = op;
        debug_assert!(
            blocks >= 1 && block.0 % PIECE_BLOCKS + u64::from(blocks) <= PIECE_BLOCKS
                || matches!(kind, OpKind::Flush | OpKind::Accept { .. })
        );
        let mut new = Op {
            cookie,
            component,
            block,
            blocks,
            parent: NO_PARENT,
            crcs: Crcs::new(),
            place: None,
            entered: rt.now(),
            // Replaced by what it is; nothing has to be dropped then.
            stage: Stage::Logging(Logged::Flush),
        };
        let refused = match kind {
            _ if self.phase != Phase::Open => Some(Refusal::Error(StoreError::Closing)),
            OpKind::Flush | OpKind::Accept { .. } => None,
            OpKind::Read { .. } => (!self.members.has(component)).then_some(Refusal::Error(StoreError::NoComponent)),
            _ => self.judge(component, block, blocks, &order),
        };
        let refused = match kind {
            _ if refused.is_some() => refused,
            OpKind::Read { .. } => None,
            _ if self.log.is_stopped() => Some(Refusal::Taken(StoreError::DeviceFailed)),
            OpKind::Write { .. } | OpKind::Uncorrectable => match self.place(component, block, blocks) {
                Ok(place) => {
                    new.place = place;
                    None
                }
                Err(error) => Some(Refusal::Taken(error)),
            },
            OpKind::Range(ref range) if copies::takes_space(range.kind()) => self.place(component, block, blocks).err().map(Refusal::Taken),
            _ => None,
        };
        if cfg!(feature = "hooks") && refused.is_some() && order.seq > Seq::default() {
            self.members.ended(component, block, &order, false);
        }
        match kind {
            OpKind::Read { buf } | OpKind::Write { buf, .. } if refused.is_some() => {
                return self.refuse(new, refused, Some((order, Some(buf))));
            }
            _ if refused.is_some() => return self.refuse(new, refused, Some((order, None))),
            OpKind::Read { buf } => {
                debug_assert_eq!(buf.len(), blocks as usize * BLOCK_BYTES);
                new.stage = Stage::Reading(Reading::new(buf));
                return self.ops.add_read(new);
            }
            OpKind::Write { buf, crcs, checksum } => {
                debug_assert_eq!(buf.len(), blocks as usize * BLOCK_BYTES);
                new.crcs = crcs;
                if new.crcs.len() != blocks as usize {
                    new.crcs = buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect();
                }
                if blocks > write_blocks_max(self.log.segment_blocks()) {
                    return self.split(new, buf, !checksum, order);
                }
                new.stage = Stage::Waiting(Change::Write { buf, unchecked: !checksum });
            }
            OpKind::Trim | OpKind::Zero if self.holds_nothing(component, block, blocks) && self.members.replica(component).is_none() => {
                hooks::reached(CoverageMark::NothingTrimmed);
                self.figures.empty_trims += 1;
                new.stage = Stage::Logging(Logged::Trim);
                if cfg!(feature = "hooks") {
                    self.members.ended(component, block, &order, false);
                }
                let key = self.ops.add(new);
                return self.finish(key, Ok(()), None);
            }
            OpKind::Trim => new.stage = Stage::Waiting(Change::Trim),
            OpKind::Zero => new.stage = Stage::Waiting(Change::Zero),
            OpKind::Uncorrectable => new.stage = Stage::Waiting(Change::Uncorrectable),
            OpKind::Flush => new.stage = Stage::Waiting(Change::Flush),
            OpKind::Accept { by, sync } => return self.accept_epoch(new, &order, by, sync),
            OpKind::Range(range) => return self.submit_range(new, range, order),
        }
        let key = self.ops.add(new);
        self.log.push_waiting(key, order);
    }

    /// Cuts a write that is too large for the segments (of small devices) into parts that are not.
    fn split(&mut self, op: Op, buf: Buf, unchecked: bool, order: Order) {
        let step = write_blocks_max(self.log.segment_blocks());
        hooks::reached(CoverageMark::WriteSplit);
        if self.members.replica(op.component).is_some() {
            // A copy carries a change out as a whole: a part of it that is found after a crash would be taken for all of it.
            self.release_places(op.component, op.block, op.blocks);
            return self.refuse(op, Some(Refusal::Taken(StoreError::BadChange)), Some((order, Some(buf))));
        }
        let parts = op.blocks.div_ceil(step);
        let (component, block, blocks, entered, crcs) = (op.component, op.block, op.blocks, op.entered, op.crcs.clone());
        let data: Vec<Buf> = buf.chunks(step as usize * BLOCK_BYTES).map(Buf::copy_of).collect();
        let parent = self.ops.add(Op { stage: Stage::Split { buf, left: parts, result: Ok(()) }, ..op });
        // Each part ends its own hold on the chunks; one that two parts share is held by both.
        for (i, buf) in data.into_iter().enumerate() {
            let first = i as u32 * step;
            let n = step.min(blocks - first);
            let block = BlockNo(block.0 + u64::from(first));
            let place = self.place(component, block, n).expect("placed as a whole before");
            let crcs = Crcs::from_slice(&crcs[first as usize..(first + n) as usize]);
            let stage = Stage::Waiting(Change::Write { buf, unchecked });
            let key = self.ops.add(Op { cookie: 0, component, block, blocks: n, parent, crcs, place, entered, stage });
            self.log.push_waiting(key, order);
        }
        self.unplace(parent);
    }

    fn poll(&mut self, rt: &Rt) -> bool {
        let mut any = self.start_reads(rt);
        loop {
            while let Some(done) = self.queue.pop() {
                any = true;
                self.device_ended(rt, done.cookie, done.event);
            }
            if !self.start_batch(rt) {
                return any;
            }
            any = true;
        }
    }

    fn device_ended(&mut self, rt: &Rt, cookie: u64, event: Event) {
        match (cookie::device_op(cookie), event) {
            (cookie::DeviceOp::Read { key, index }, Event::Read { result, buf }) => self.run_ended(rt, key, index, result, buf),
            (cookie::DeviceOp::Batch, Event::Write { result, bufs }) => self.batch_ended(rt, result, bufs),
            (cookie::DeviceOp::Summary { first_block }, Event::Write { result, .. }) => {
                // Without its summary a segment is only slower to recover.
                if result.is_err() {
                    hooks::reached(CoverageMark::SummaryLost);
                    self.figures.log_write_errors += 1;
                }
                self.log.summary_ended(first_block);
            }
            (cookie::DeviceOp::Admission, Event::Timer(id)) => self.ops.admission_ended(id),
            (cookie::DeviceOp::Probe, Event::Timer(_)) => self.probe_log(rt),
            (kind, event) => unreachable!("{kind:?} ended as {event:?}"),
        }
    }

    fn stats(&self) -> ShardStats {
        let block = BLOCK_BYTES as u64;
        let ring = self.log.ring();
        let segment = u64::from(ring.segment_blocks()) * block;
        let fill = self.fill();
        let table = self.space.table();
        let mut component_chunks: Vec<_> = self.members.iter().map(|no| (no, table.component_allocated(no))).collect();
        component_chunks.sort_unstable();
        ShardStats {
            log_bytes: ring.count() * segment,
            log_used_bytes: ring.in_use() * segment,
            log_live_bytes: ring.live() * block,
            fill,
            waiting: self.log.waiting().len() as u32,
            in_flight: self.ops.len() as u32,
            drain_bytes_per_s: self.pacer.drain_bytes_per_s(),
            admission_bytes_per_s: self.pacer.rate(fill).map(|rate| rate as u64),
            chunks_total: table.space().iter().map(|d| d.total).sum(),
            chunks_allocated: table.allocated(),
            space: table.space(),
            component_chunks,
            failed: self.log.is_stopped(),
            scrubbing: self.scrub.is_running(),
            scrub_progress: self.scrub.progress(),
            index_memory_bytes: self.log.index().memory_bytes() + ring.memory_bytes(),
            capacity_failing: self.destage.failing(),
            ..self.figures.clone()
        }
    }
}

/// Blocks of a write that is one record of the log.
fn write_blocks_max(segment_blocks: u32) -> u32 {
    if hooks::seeded(SeededFault::WriteTorn) { 8 } else { buffer::write_blocks_max(segment_blocks) }
}

//! Device operations through io_uring, and the sleep of a core.
//!
//! Owns: the ring of one core and every operation in it, with its buffers, from submission to completion.
//! Invariants: the memory of an operation in the kernel's hands neither moves nor is freed until its completion was seen: buffers are
//! heap blocks, and I/O vectors live in a slab that never grows beyond the capacity it was made with. At most that many operations are
//! in the kernel; what comes beyond waits, in order, in a backlog that callers bound.
//! Never: interprets data, retries media errors.
//!
//! ```text
//! submit ──► backlog ──► SQ ──► kernel ──► finished ──► Event
//!               ▲                  │ short transfer, EAGAIN, EINTR, next way to discard
//!               └──────────────────┘
//! ```

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use slab::Slab;
use smallvec::SmallVec;

use super::device_file::{DiscardBy, FileDevice};
use super::launch_error::LaunchError;
use super::sys;
use crate::device::Inner;
use crate::{Buf, BufVec, CoreStats, Device, DeviceError, Durability, Event, Queue};

/// Operations a ring may have in the kernel: the largest that makes sense for one core.
pub(super) const RING_ENTRIES_MAX: u32 = 4096;
/// The smallest ring.
pub(super) const RING_ENTRIES_MIN: u32 = 8;
/// I/O vectors of one operation (UIO_MAXIOV); longer lists go in several steps.
const IOVECS_MAX: usize = 1024;
/// How long a core that ends waits for operations that the kernel still has. What a device has not finished by then is leaked, never freed.
const DRAIN_SECONDS_MAX: u64 = 30;
const DRAIN_STEP_NS: u64 = 100_000_000;
/// `user_data` of the poll on the epoll descriptor; operations use their slab key.
const POLL: u64 = u64::MAX;
/// `user_data` of alarm `n` is this plus `n`.
const ALARM: u64 = 1 << 62;
/// Alarms that the kernel keeps for a core at once.
const ALARMS: usize = 4;
/// Cannot be distinguished by errno from the crate: the poll's timeout.
const ETIME: i32 = libc::ETIME;

/// An operation of a device, from submission to completion.
struct Op {
    q: Queue,
    cookie: u64,
    dev: Device,
    started_ns: u64,
    kind: DeviceOpKind,
}

enum DeviceOpKind {
    Read { buf: Buf, offset: u64, done: usize },
    Write { bufs: BufVec, iovecs: SmallVec<[libc::iovec; 4]>, offset: u64, len: usize, done: usize, flags: i32 },
    Flush,
    Discard { offset: u64, len: u64, by: DiscardBy },
}

/// A time at which the kernel ends a sleep. It stays set over many sleeps: to set and clear a timer for each costs more than the rest of a short one.
struct Alarm {
    at_ns: u64,
    time: types::Timespec,
}

/// The ring of a core.
pub(super) struct Ring {
    uring: IoUring,
    /// In the kernel or in the submission queue. Never grows beyond its first capacity: I/O vectors within must stay put.
    ops: Slab<Op>,
    backlog: VecDeque<Op>,
    entries: usize,
    /// So many operations go to the kernel at once: a device is not to wait for the last of a turn before it begins with the first.
    submit_ops: usize,
    epoll_fd: RawFd,
    poll_armed: bool,
    /// On the heap: the kernel reads a time when its entry is submitted.
    alarms: Box<[Option<Alarm>; ALARMS]>,
    stats: Arc<CoreStats>,
}

impl Ring {
    /// A ring of `entries` operations that can sleep until `epoll_fd` is readable. Must be made on the thread that uses it.
    pub(super) fn new(entries: u32, submit_ops: u32, epoll_fd: RawFd, stats: Arc<CoreStats>) -> Result<Ring, LaunchError> {
        let entries = entries.clamp(RING_ENTRIES_MIN, RING_ENTRIES_MAX).next_power_of_two();
        let uring = build(entries)?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(LaunchError::RingTooOld);
        }
        // Entries are kept for the poll and an alarm.
        let entries = entries as usize - 2;
        let ops = Slab::with_capacity(entries);
        let submit_ops = submit_ops.max(1) as usize;
        Ok(Ring { uring, ops, backlog: VecDeque::new(), entries, submit_ops, epoll_fd, poll_armed: false, alarms: Box::default(), stats })
    }

    /// Whether the ring will tell when the epoll descriptor becomes readable: nobody needs to ask it until then.
    pub(super) fn watches_epoll(&self) -> bool {
        self.poll_armed
    }

    /// Operations under way or waiting.
    pub(super) fn outstanding(&self) -> usize {
        self.ops.len() + self.backlog.len()
    }

    pub(super) fn read(&mut self, q: &Queue, cookie: u64, dev: &Device, offset: u64, buf: Buf, now_ns: u64) {
        self.begin(q, cookie, dev, now_ns, DeviceOpKind::Read { buf, offset, done: 0 });
    }

    #[allow(clippy::too_many_arguments)] // The parts of one operation; a struct for one call would only rename them.
    pub(super) fn write(&mut self, q: &Queue, cookie: u64, dev: &Device, offset: u64, bufs: BufVec, d: Durability, now_ns: u64) {
        let len = bufs.iter().map(|b| b.len()).sum();
        let flags = if d == Durability::Durable && dev.info().volatile_cache { libc::RWF_DSYNC } else { 0 };
        self.begin(q, cookie, dev, now_ns, DeviceOpKind::Write { bufs, iovecs: SmallVec::new(), offset, len, done: 0, flags });
    }

    pub(super) fn flush(&mut self, q: &Queue, cookie: u64, dev: &Device, now_ns: u64) {
        self.begin(q, cookie, dev, now_ns, DeviceOpKind::Flush);
    }

    pub(super) fn discard(&mut self, q: &Queue, cookie: u64, dev: &Device, offset: u64, len: u64, now_ns: u64) {
        self.begin(q, cookie, dev, now_ns, DeviceOpKind::Discard { offset, len, by: DiscardBy::PunchHole });
    }

    fn begin(&mut self, q: &Queue, cookie: u64, dev: &Device, now_ns: u64, kind: DeviceOpKind) {
        dev.counters().begins();
        let op = Op { q: q.clone(), cookie, dev: dev.clone(), started_ns: now_ns, kind };
        if self.backlog.is_empty() && self.ops.len() < self.entries {
            self.enqueue(op);
            if self.uring.submission().len() >= self.submit_ops {
                self.enter();
            }
        } else {
            self.backlog.push_back(op);
        }
    }

    /// Puts an operation into the slab and the submission queue; the caller has checked that both have room.
    fn enqueue(&mut self, op: Op) {
        assert!(self.ops.len() < self.entries, "the slab must not grow: the kernel holds pointers into it");
        let key = self.ops.insert(op);
        self.push(key);
    }

    /// Puts the next step of operation `key` into the submission queue.
    fn push(&mut self, key: usize) {
        let entry = self.ops[key].entry().user_data(key as u64);
        self.push_entry(&entry);
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: every pointer in the entry leads to memory that lives until its completion: buffers and I/O vectors are owned by the
        // operation in the slab (which never moves, see `enqueue`), descriptors by its `Device`.
        if unsafe { self.uring.submission().push(entry) }.is_err() {
            // Full: let the kernel take what is there. There are as many entries as operations, so this is rare.
            self.enter();
            // SAFETY: as above.
            unsafe { self.uring.submission().push(entry) }.expect("the kernel has taken the submission queue");
        }
    }

    /// Hands over what was queued; one system call at most. Says whether anything was handed over.
    pub(super) fn submit(&mut self) -> bool {
        while !self.backlog.is_empty() && self.ops.len() < self.entries {
            let op = self.backlog.pop_front().expect("not empty");
            self.enqueue(op);
        }
        let mut sq = self.uring.submission();
        let queued = !sq.is_empty();
        if queued || sq.taskrun() || sq.cq_overflow() {
            sq.sync();
            drop(sq);
            self.enter();
        }
        queued
    }

    /// Submits without waiting; tries again when interrupted.
    fn enter(&mut self) {
        loop {
            self.stats.syscalls.add(1);
            match self.uring.submit() {
                Ok(_) => return,
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                // The completion queue is full or the kernel is short of memory: reap first, what is queued stays queued.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM)) => return,
                Err(e) => panic!("io_uring_enter failed: {e}"),
            }
        }
    }

    /// Has the kernel end sleeps at `at_ns`, or before. False when too many alarms are set.
    fn set_alarm(&mut self, at_ns: u64) -> bool {
        if self.alarms.iter().flatten().any(|a| a.at_ns <= at_ns) {
            return true;
        }
        let Some(n) = self.alarms.iter().position(Option::is_none) else { return false };
        let time = types::Timespec::new().sec(at_ns / 1_000_000_000).nsec((at_ns % 1_000_000_000) as u32);
        let alarm = self.alarms[n].insert(Alarm { at_ns, time });
        let entry = opcode::Timeout::new(&alarm.time).flags(types::TimeoutFlags::ABS).build().user_data(ALARM + n as u64);
        self.push_entry(&entry);
        true
    }

    /// Sleeps until a completion comes, the epoll descriptor is readable, or it is `until_ns`; now and then for less.
    pub(super) fn sleep(&mut self, until_ns: Option<u64>) {
        if !self.poll_armed {
            let poll = opcode::PollAdd::new(types::Fd(self.epoll_fd), libc::POLLIN as u32).build().user_data(POLL);
            self.push_entry(&poll);
            self.poll_armed = true;
        }
        let timeout = match until_ns {
            Some(at) if !self.set_alarm(at) => Some(Duration::from_nanos(at.saturating_sub(sys::now_ns()))),
            _ => None,
        };
        self.stats.syscalls.add(1);
        let slept = match timeout {
            Some(t) => {
                let ts = types::Timespec::new().sec(t.as_secs()).nsec(t.subsec_nanos());
                self.uring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&ts))
            }
            None => self.uring.submitter().submit_and_wait(1),
        };
        match slept {
            Ok(_) => {}
            Err(e) if matches!(e.raw_os_error(), Some(ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::ENOMEM)) => {}
            Err(e) => panic!("io_uring_enter failed: {e}"),
        }
    }

    /// Takes what completed; returns the number of operations that ended.
    pub(super) fn reap(&mut self, now_ns: u64) -> usize {
        if self.ops.is_empty() && !self.poll_armed && self.alarms.iter().all(Option::is_none) {
            return 0;
        }
        let mut ended = 0;
        loop {
            let Some((key, result)) = self.uring.completion().next().map(|c| (c.user_data(), c.result())) else {
                return ended;
            };
            if key == POLL {
                self.poll_armed = false;
                continue;
            }
            if key >= ALARM {
                self.alarms[(key - ALARM) as usize] = None;
                continue;
            }
            let key = key as usize;
            match self.ops[key].advance(result) {
                Step::Again => self.push(key),
                Step::Ended(result) => {
                    let op = self.ops.remove(key);
                    op.finish(result, now_ns, &self.stats);
                    ended += 1;
                }
            }
        }
    }

    /// Waits for what the kernel still has, so that its buffers may be freed.
    pub(super) fn drain(&mut self) {
        let turns_max = DRAIN_SECONDS_MAX * 1_000_000_000 / DRAIN_STEP_NS;
        for _ in 0..turns_max {
            self.submit();
            self.reap(0);
            if self.outstanding() == 0 {
                return;
            }
            self.sleep(Some(sys::now_ns() + DRAIN_STEP_NS));
        }
        tracing::error!(operations = self.ops.len(), "a device did not finish its operations; their memory is given up");
        std::mem::forget(std::mem::take(&mut self.ops));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.outstanding() > 0 {
            self.drain();
        }
    }
}

/// What follows from a completion.
enum Step {
    /// The operation needs another submission.
    Again,
    Ended(Result<(), DeviceError>),
}

impl Op {
    fn file(&self) -> &FileDevice {
        match &self.dev.0.inner {
            Inner::File(file) => file,
            _ => unreachable!("only files and block devices come to the ring"),
        }
    }

    /// The submission of its next step.
    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file().raw_fd());
        let discard_by = self.file().discard_by();
        match &mut self.kind {
            DeviceOpKind::Read { buf, offset, done } => {
                let (at, left) = (buf.as_raw().wrapping_add(*done), buf.len() - *done);
                opcode::Read::new(fd, at, left as u32).offset(*offset + *done as u64).build()
            }
            DeviceOpKind::Write { bufs, iovecs, offset, done, flags, .. } => {
                fill_iovecs(bufs, *done, iovecs);
                let at = *offset + *done as u64;
                match &iovecs[..] {
                    [one] => opcode::Write::new(fd, one.iov_base.cast(), one.iov_len as u32).offset(at).rw_flags(*flags).build(),
                    many => opcode::Writev::new(fd, many.as_ptr(), many.len() as u32).offset(at).rw_flags(*flags).build(),
                }
            }
            DeviceOpKind::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            DeviceOpKind::Discard { offset, len, by } => {
                // Remembered: another operation may find out meanwhile that this way does not work.
                *by = discard_by;
                if discard_by == DiscardBy::Command {
                    return discard_command(fd, *offset, *len);
                }
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(fd, *len).offset(*offset).mode(mode).build()
            }
        }
    }

    /// Takes the result of a step.
    fn advance(&mut self, result: i32) -> Step {
        if result == -libc::EAGAIN || result == -libc::EINTR {
            return Step::Again;
        }
        if result < 0 {
            let unsupported = matches!(-result, libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS | libc::ENOTTY);
            if let (DeviceOpKind::Discard { by, .. }, true) = (&self.kind, unsupported) {
                // Freeing space is a hint: the next way, or none at all.
                return match self.file().discard_next(*by) {
                    DiscardBy::Nothing => Step::Ended(Ok(())),
                    _ => Step::Again,
                };
            }
            return Step::Ended(Err(DeviceError::from_errno(-result)));
        }
        let moved = result as usize;
        match &mut self.kind {
            DeviceOpKind::Read { buf, done, .. } => transferred(done, moved, buf.len()),
            DeviceOpKind::Write { done, len, .. } => transferred(done, moved, *len),
            DeviceOpKind::Flush | DeviceOpKind::Discard { .. } => Step::Ended(Ok(())),
        }
    }

    /// Counts it and tells its owner.
    fn finish(self, result: Result<(), DeviceError>, now_ns: u64, stats: &CoreStats) {
        let ns = now_ns.saturating_sub(self.started_ns);
        let counters = self.dev.counters();
        counters.is_over();
        stats.device_ops.add(1);
        let event = match self.kind {
            DeviceOpKind::Read { buf, .. } => {
                counters.count_read(buf.len() as u64, ns, result.is_ok());
                stats.device_bytes.add(buf.len() as u64);
                Event::Read { result, buf }
            }
            DeviceOpKind::Write { bufs, len, .. } => {
                counters.count_write(len as u64, ns, result.is_ok());
                stats.device_bytes.add(len as u64);
                Event::Write { result, bufs }
            }
            DeviceOpKind::Flush => {
                counters.count_flush(result.is_ok());
                Event::Flush { result }
            }
            DeviceOpKind::Discard { .. } => {
                counters.count_discard(result.is_ok());
                Event::Discard { result }
            }
        };
        self.q.push(self.cookie, event);
    }
}

/// Adds what a step moved. The rest starts on a block again, as direct I/O wants it.
fn transferred(done: &mut usize, moved: usize, len: usize) -> Step {
    if *done + moved >= len {
        *done = len;
        return Step::Ended(Ok(()));
    }
    let next = (*done + moved) & !(base::BLOCK_BYTES - 1);
    if next == *done {
        // Not one block of progress: the file was cut short behind our back, or the media gives up without an error.
        return Step::Ended(Err(DeviceError::Media));
    }
    *done = next;
    Step::Again
}

/// The memory of `bufs` from byte `skip` on.
fn fill_iovecs(bufs: &BufVec, skip: usize, iovecs: &mut SmallVec<[libc::iovec; 4]>) {
    iovecs.clear();
    let mut skip = skip;
    for buf in bufs {
        if skip >= buf.len() {
            skip -= buf.len();
            continue;
        }
        if iovecs.len() == IOVECS_MAX {
            return;
        }
        iovecs.push(libc::iovec { iov_base: buf.as_raw().wrapping_add(skip).cast(), iov_len: buf.len() - skip });
        skip = 0;
    }
}

/// BLOCK_URING_CMD_DISCARD, `_IO(0x12, 0)` (linux/blkdev.h, Linux 6.12): start in `addr`, length in `addr3`, which the first eight
/// command bytes overlay.
fn discard_command(fd: types::Fd, offset: u64, len: u64) -> squeue::Entry {
    const BLOCK_URING_CMD_DISCARD: u32 = 0x12 << 8;
    let mut cmd = [0u8; 16];
    cmd[..8].copy_from_slice(&len.to_ne_bytes());
    opcode::UringCmd16::new(fd, BLOCK_URING_CMD_DISCARD).addr(Some(offset)).cmd(cmd).build()
}

/// Makes the ring with the best of what this kernel knows.
fn build(entries: u32) -> Result<IoUring, LaunchError> {
    let mut last = None;
    for level in 0..3 {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_cqsize(entries * 2);
        if level <= 1 {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        if level == 0 {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        match builder.build(entries) {
            Ok(ring) => return Ok(ring),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => last = Some(e),
            Err(e) => return Err(refused(e)),
        }
    }
    Err(refused(last.expect("three attempts were made")))
}

fn refused(e: io::Error) -> LaunchError {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LaunchError::RingForbidden,
        Some(libc::ENOSYS) => LaunchError::RingTooOld,
        Some(libc::ENOMEM) => LaunchError::RingMemory,
        Some(libc::EMFILE | libc::ENFILE) => LaunchError::TooManyFiles,
        _ => LaunchError::System { what: "make an io_uring", source: e },
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.uring.as_raw_fd()
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;

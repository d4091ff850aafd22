//! I/O on a namespace: commands of the NVM command set on one I/O queue.
//!
//! Invariants: a command that lies outside of the namespace or above the transfer limit is sent all the same (a test may
//! want that); the caller knows the limits from [`Namespace`].
//! Never: splits or retries a command.

use crate::connection::Connection;
use crate::error::Error;
use crate::queue::{Completed, Payload, Request};
use format::nvme::fabrics::disconnect_sqe;
use format::nvme::io::{BlockRange, COPY_RANGES_MAX, CopyCommand, CopyRange, DSM_RANGES_MAX, DatasetManagement, DsmRange, flush_sqe};
use format::nvme::{Fuse, IoOpcode, Sqe, Status, StatusCode};
use std::time::{Duration, Instant};

/// Bound on a command of the blocking calls.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// A namespace as I/O needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its ID.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// Most bytes of one command.
    pub transfer_bytes_max: u32,
    /// Deallocated blocks read as zeroes (DLFEAT).
    pub zeroes_after_trim: bool,
    /// Write Zeroes may ask for deallocation (DLFEAT bit 3).
    pub zeroes_may_deallocate: bool,
}

impl Namespace {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.lba_bytes)
    }
}

/// A command. Offsets and lengths in bytes, multiples of the namespace's block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Io {
    /// Read.
    Read {
        /// Where.
        offset: u64,
        /// How much.
        len: u32,
    },
    /// Write.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Vec<u8>,
        /// Force Unit Access.
        fua: bool,
    },
    /// Compare.
    Compare {
        /// Where.
        offset: u64,
        /// With what.
        data: Vec<u8>,
    },
    /// Write Zeroes.
    WriteZeroes {
        /// Where.
        offset: u64,
        /// How much, at most 65536 blocks.
        len: u64,
        /// The blocks may be deallocated.
        deallocate: bool,
    },
    /// Dataset Management, deallocate: at most 256 ranges of (offset, length).
    Deallocate(Vec<(u64, u64)>),
    /// Verify: the blocks are read and checked where they are.
    Verify {
        /// Where.
        offset: u64,
        /// How much, at most 65536 blocks.
        len: u64,
    },
    /// Write Uncorrectable: reads of the blocks fail until they are written.
    WriteUncorrectable {
        /// Where.
        offset: u64,
        /// How much, at most 65536 blocks.
        len: u64,
    },
    /// Copy within the namespace: at most 256 ranges of (offset, length), one after the other.
    Copy {
        /// Where to.
        to: u64,
        /// Where from.
        ranges: Vec<(u64, u64)>,
    },
    /// Flush.
    Flush,
}

impl Io {
    /// The command, for a queue.
    ///
    /// # Panics
    /// When a list has no range or more than 256.
    pub fn request(self, ns: &Namespace, tag: u64) -> Request {
        let blocks = |bytes: u64| bytes / u64::from(ns.lba_bytes);
        let range = |offset: u64, len: u64| BlockRange::new(blocks(offset), (blocks(len).max(1) - 1) as u16);
        let (sqe, payload) = match self {
            Io::Read { offset, len } => (range(offset, len.into()).sqe(IoOpcode::Read, 0, ns.nsid), Payload::In(vec![0; len as usize])),
            Io::Write { offset, data, fua } => {
                let range = BlockRange { fua, ..range(offset, data.len() as u64) };
                (range.sqe(IoOpcode::Write, 0, ns.nsid), Payload::Out(data))
            }
            Io::Compare { offset, data } => (range(offset, data.len() as u64).sqe(IoOpcode::Compare, 0, ns.nsid), Payload::Out(data)),
            Io::WriteZeroes { offset, len, deallocate } => {
                let range = BlockRange { deac: deallocate, ..range(offset, len) };
                (range.sqe(IoOpcode::WriteZeroes, 0, ns.nsid), Payload::None)
            }
            Io::Deallocate(ranges) => {
                assert!((1..=DSM_RANGES_MAX).contains(&ranges.len()), "a command takes 1 to 256 ranges");
                let mut data = vec![0; ranges.len() * DsmRange::LEN];
                for (out, (offset, len)) in data.chunks_exact_mut(DsmRange::LEN).zip(&ranges) {
                    DsmRange { attributes: 0, blocks: blocks(*len) as u32, slba: blocks(*offset) }.write(out);
                }
                let dsm = DatasetManagement { nr: (ranges.len() - 1) as u8, idr: false, idw: false, ad: true };
                (dsm.sqe(0, ns.nsid), Payload::Out(data))
            }
            Io::Verify { offset, len } => (range(offset, len).sqe(IoOpcode::Verify, 0, ns.nsid), Payload::None),
            Io::WriteUncorrectable { offset, len } => (range(offset, len).sqe(IoOpcode::WriteUncorrectable, 0, ns.nsid), Payload::None),
            Io::Copy { to, ranges } => {
                assert!((1..=COPY_RANGES_MAX).contains(&ranges.len()), "a command takes 1 to 256 ranges");
                let mut data = vec![0; ranges.len() * CopyRange::LEN];
                for (out, (offset, len)) in data.chunks_exact_mut(CopyRange::LEN).zip(&ranges) {
                    CopyRange { slba: blocks(*offset), nlb: (blocks(*len).max(1) - 1) as u16 }.write(out);
                }
                let copy = CopyCommand { sdlba: blocks(to), nr: (ranges.len() - 1) as u8, desfmt: 0, dtype: 0 };
                (copy.sqe(0, ns.nsid), Payload::Out(data))
            }
            Io::Flush => (flush_sqe(0, ns.nsid), Payload::None),
        };
        Request { sqe, payload, tag }
    }
}

/// A command that is done.
#[derive(Debug)]
pub struct IoDone {
    /// From [`IoQueue::submit`].
    pub tag: u64,
    /// How it went.
    pub status: Status,
    /// Dword 0 of the completion: for a Copy that failed, the number of the range.
    pub result: u32,
    /// The data that was read, written or compared.
    pub data: Vec<u8>,
}

impl From<Completed> for IoDone {
    fn from(done: Completed) -> Self {
        Self { tag: done.tag, status: done.cqe.status, result: done.cqe.result as u32, data: done.payload.into_bytes() }
    }
}

/// An I/O queue.
pub struct IoQueue {
    connection: Connection,
    namespace: Namespace,
    disconnects: bool,
}

impl IoQueue {
    pub(crate) fn new(connection: Connection, namespace: Namespace, disconnects: bool) -> Self {
        Self { connection, namespace, disconnects }
    }
    /// The namespace it works on.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
    /// The connection below.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
    /// Commands in flight.
    pub fn in_flight(&self) -> usize {
        self.connection.queue().in_flight()
    }
    /// Whether another command may be sent.
    pub fn has_room(&self) -> bool {
        self.connection.queue().has_room()
    }

    /// Queues a command; it goes out with the next [`Self::poll`].
    pub fn submit(&mut self, tag: u64, io: Io) -> Result<(), Error> {
        let request = io.request(&self.namespace, tag);
        self.connection.submit(request).map(drop)
    }
    /// Queues a read that fills `buffer`, which comes back with the completion: no memory is taken for it.
    pub fn submit_read_into(&mut self, tag: u64, offset: u64, buffer: Vec<u8>) -> Result<(), Error> {
        let (ns, lba) = (self.namespace.nsid, u64::from(self.namespace.lba_bytes));
        let range = BlockRange::new(offset / lba, ((buffer.len() as u64 / lba).max(1) - 1) as u16);
        self.submit_raw(tag, range.sqe(IoOpcode::Read, 0, ns), Payload::In(buffer))
    }
    /// How many more commands may be sent.
    pub fn room(&self) -> usize {
        self.connection.queue().room()
    }
    /// Waits up to `wait` until one of several queues can send or receive.
    pub fn wait_any(queues: &[IoQueue], wait: Duration) -> Result<(), Error> {
        Connection::wait_any(queues.iter().map(|q| &q.connection), wait)
    }
    /// Queues any command.
    pub fn submit_raw(&mut self, tag: u64, sqe: Sqe, payload: Payload) -> Result<(), Error> {
        self.connection.submit(Request { sqe, payload, tag }).map(drop)
    }
    /// Sends and receives; when nothing moves, waits up to `wait`.
    pub fn poll(&mut self, wait: Duration) -> Result<(), Error> {
        if wait.is_zero() { self.connection.drive() } else { self.connection.wait(wait) }.map(drop)
    }
    /// The next completion.
    pub fn pop(&mut self) -> Option<IoDone> {
        let done = self.connection.pop()?;
        Some(IoDone::from(done))
    }

    /// Does one command, whatever its status. Completions of others in flight are kept.
    pub fn execute(&mut self, io: Io) -> Result<IoDone, Error> {
        let request = io.request(&self.namespace, u64::MAX);
        let done = self.connection.call(request, COMMAND_TIMEOUT, "I/O command")?;
        Ok(IoDone::from(done))
    }
    fn must(&mut self, what: &'static str, io: Io) -> Result<Vec<u8>, Error> {
        let done = self.execute(io)?;
        if done.status.is_success() { Ok(done.data) } else { Err(Error::Status { what, status: done.status }) }
    }
    /// Reads.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        self.must("Read", Io::Read { offset, len })
    }
    /// Writes.
    pub fn write(&mut self, offset: u64, data: Vec<u8>, fua: bool) -> Result<(), Error> {
        self.must("Write", Io::Write { offset, data, fua }).map(drop)
    }
    /// Flushes.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.must("Flush", Io::Flush).map(drop)
    }
    /// Writes zeroes.
    pub fn write_zeroes(&mut self, offset: u64, len: u64, deallocate: bool) -> Result<(), Error> {
        self.must("Write Zeroes", Io::WriteZeroes { offset, len, deallocate }).map(drop)
    }
    /// Deallocates ranges of (offset, length).
    pub fn deallocate(&mut self, ranges: Vec<(u64, u64)>) -> Result<(), Error> {
        self.must("Dataset Management", Io::Deallocate(ranges)).map(drop)
    }
    /// Compares: an error of status `COMPARE_FAILURE` when it differs.
    pub fn compare(&mut self, offset: u64, data: Vec<u8>) -> Result<(), Error> {
        self.must("Compare", Io::Compare { offset, data }).map(drop)
    }
    /// Verifies: an error when a block cannot be read.
    pub fn verify(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.must("Verify", Io::Verify { offset, len }).map(drop)
    }
    /// Lets reads of the blocks fail until they are written.
    pub fn write_uncorrectable(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.must("Write Uncorrectable", Io::WriteUncorrectable { offset, len }).map(drop)
    }
    /// Copies ranges of (offset, length) to one place, in order.
    pub fn copy(&mut self, to: u64, ranges: Vec<(u64, u64)>) -> Result<(), Error> {
        self.must("Copy", Io::Copy { to, ranges }).map(drop)
    }
    /// Queues the halves of Compare and Write; they go out with the next [`Self::poll`], and both are answered.
    pub fn submit_compare_and_write(&mut self, tags: (u64, u64), offset: u64, expected: Vec<u8>, data: Vec<u8>) -> Result<(), Error> {
        if self.connection.queue().room() < 2 {
            return Err(Error::QueueFull);
        }
        let first = Io::Compare { offset, data: expected }.request(&self.namespace, tags.0);
        let second = Io::Write { offset, data, fua: false }.request(&self.namespace, tags.1);
        for (request, fuse) in [(first, Fuse::First), (second, Fuse::Second)] {
            self.connection.submit(Request { sqe: Sqe { fuse, ..request.sqe }, ..request })?;
        }
        Ok(())
    }
    /// Compare and Write, as one: whether what was expected was there, and `data` is now. Nothing else may be in flight on this queue.
    pub fn compare_and_write(&mut self, offset: u64, expected: Vec<u8>, data: Vec<u8>) -> Result<bool, Error> {
        assert_eq!(self.in_flight(), 0, "its answers are the only ones");
        self.submit_compare_and_write((0, 1), offset, expected, data)?;
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        let mut got: Vec<IoDone> = Vec::new();
        while got.len() < 2 {
            match self.pop() {
                Some(done) => got.push(done),
                None if Instant::now() >= deadline => return Err(Error::Timeout("Compare and Write")),
                None => self.poll(Duration::from_millis(100))?,
            }
        }
        match (got[0].status, got[1].status) {
            (a, b) if a.is_success() && b.is_success() => Ok(true),
            (a, _) if a.code == StatusCode::COMPARE_FAILURE => Ok(false),
            (a, b) => Err(Error::Status { what: "Compare and Write", status: if a.is_success() { b } else { a } }),
        }
    }
    /// Ends the queue: with a Disconnect command where the controller knows it, else by closing.
    pub fn disconnect(mut self) -> Result<(), Error> {
        if !self.disconnects {
            return Ok(());
        }
        let request = Request { sqe: disconnect_sqe(0), payload: Payload::None, tag: u64::MAX };
        let done = self.connection.call(request, COMMAND_TIMEOUT, "Disconnect")?;
        let status = done.cqe.status;
        if status.is_success() { Ok(()) } else { Err(Error::Status { what: "Disconnect", status }) }
    }
}

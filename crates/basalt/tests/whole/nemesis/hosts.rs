//! Hosts that use one volume by all nodes at the same time, and write down what came of it.
//!
//! Invariants: a host has one command under way; what it wrote down has an end only when an answer has come that says what became of it.
//! Never: judges.

use crate::nemesis::BLOCKS;
use crate::nemesis::record::Recorder;
use format::nvme::reservation::{Report, parse_extended_report};
use format::nvme::{Sqe, StatusCode};
use initiator::queue::Payload;
use initiator::reservation::Reservation;
use initiator::rng::Rng;
use initiator::{Controller, ControllerOptions, Error, HostIdentity, Io, IoDone, IoQueue};
use models::history::reservations::{Answer, Asked, Seen};
use models::history::{Op, TORN, What};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

pub const BLOCK_BYTES: u64 = 4096;
/// After that long a host gives a path up, and takes another. Less than what a node may hang for.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Between two commands of a host.
const PAUSE: Duration = Duration::from_millis(4);
/// The same of a host that reserves: each is a change of the directory.
const LONGER_PAUSE: Duration = Duration::from_millis(60);
/// Hosts that change the reservation; the others see what comes of it.
const CHANGE: u64 = 4;
/// They do so in the first part of each of these times. In the rest all that was not answered comes to its end, and a report says how it is: from there on the
/// judge knows again (`models::history`).
const TURN: Duration = Duration::from_secs(60);
const CHANGES: Duration = Duration::from_secs(12);
/// Types of reservations that are used: Write Exclusive, Exclusive Access, and both for registrants.
const TYPES: u64 = 4;
/// A report has room for so many bytes.
const REPORT_BYTES: usize = 4096;

/// What a host does with the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Writes and reads blocks.
    Blocks,
    /// Reserves it, and sees what it may.
    Reservations,
}

/// A host at work, until it is dropped or ended.
pub struct Host {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Host {
    /// A host by its number, at a namespace, with these paths. The hosts that reserve are numbered from 1 to `of`.
    pub fn start(number: u64, what: Use, paths: Vec<ControllerOptions>, nsid: u32, of: u64, seed: u64, recorder: Arc<Recorder>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let at = number as usize % paths.len();
        let rng = Rng::new(seed ^ initiator::rng::mix(number));
        let mut worker = Worker { number, what, paths, at, nsid, of, rng, recorder, stop: Arc::clone(&stop), written: 0, done: 0 };
        let thread = thread::spawn(move || {
            worker.goes_on();
            worker.done
        });
        Self { stop, thread: Some(thread) }
    }
    /// It does no more: how many of its commands were done.
    pub fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.thread.take().expect("it has not ended").join().expect("a host does not panic")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

struct Worker {
    number: u64,
    what: Use,
    paths: Vec<ControllerOptions>,
    /// The path that it uses.
    at: usize,
    nsid: u32,
    of: u64,
    rng: Rng,
    recorder: Arc<Recorder>,
    stop: Arc<AtomicBool>,
    written: u64,
    done: u64,
}

impl Worker {
    fn goes_on(&mut self) {
        while !self.stop.load(Ordering::Acquire) {
            // Whatever it fails with: the next path may work.
            let _ = self.uses_path();
            self.at = (self.at + 1) % self.paths.len();
            sleep(PAUSE);
        }
    }
    /// Until the path works no more.
    fn uses_path(&mut self) -> Result<(), Error> {
        let (_controller, mut queue) = connect(&self.paths[self.at], self.number, self.nsid)?;
        while !self.stop.load(Ordering::Acquire) {
            let answered = match self.what {
                Use::Blocks => self.uses_blocks(&mut queue),
                Use::Reservations => self.reserves(&mut queue),
            };
            if !answered? {
                return Ok(());
            }
            self.done += 1;
            sleep(if self.what == Use::Blocks { PAUSE } else { LONGER_PAUSE });
        }
        Ok(())
    }

    /// One write or read. False: the path does not serve the volume now.
    fn uses_blocks(&mut self, queue: &mut IoQueue) -> Result<bool, Error> {
        let (first, count) = (self.rng.below(BLOCKS), 1 + self.rng.below(3));
        let blocks = first..(first + count).min(BLOCKS);
        if self.rng.percent(50) {
            return read_blocks(&self.recorder, self.number, queue, blocks.start, blocks.end - blocks.start);
        }
        self.written += 1;
        let value = self.number << 40 | self.written;
        let data = value.to_le_bytes().repeat(((blocks.end - blocks.start) * BLOCK_BYTES / 8) as usize);
        let begun = self.recorder.now();
        let done = answer(queue, |queue| queue.submit(0, Io::Write { offset: blocks.start * BLOCK_BYTES, data, fua: false }));
        let is_done = done.as_ref().is_ok_and(|done| done.status.is_success());
        // With another status, too, it may have been done, or be done later.
        let ended = is_done.then(|| self.recorder.now());
        self.recorder.add(blocks.map(|block| Op { host: self.number, begun, ended, what: What::Write { block, value } }));
        done.map(|_| is_done)
    }

    /// One reservation command, report, or command that a reservation may forbid. False: as above.
    fn reserves(&mut self, queue: &mut IoQueue) -> Result<bool, Error> {
        let (key, rtype) = (self.number, 1 + self.rng.below(TYPES) as u8);
        let changes = self.number <= CHANGE && self.recorder.now() % TURN.as_micros() as u64 <= CHANGES.as_micros() as u64;
        let asked = match if changes { self.rng.below(20) } else { 13 + self.rng.below(7) } {
            0..4 => Asked::Register { key },
            4..5 => Asked::Unregister,
            5..8 => Asked::Acquire { key, rtype },
            8..10 => Asked::Preempt { key, other: 1 + self.rng.below(self.of), rtype },
            10..12 => Asked::Release { key, rtype },
            12..13 => Asked::Clear { key },
            13..16 => return self.looks(queue),
            _ => return self.tries(queue),
        };
        let command = match asked {
            Asked::Register { key } => Reservation::Register { key, cptpl: 3 },
            Asked::Unregister => Reservation::Unregister { key: None },
            Asked::Acquire { key, rtype } => Reservation::Acquire { key, rtype },
            Asked::Preempt { key, other, rtype } => Reservation::Preempt { key, other, rtype, abort: false },
            Asked::Release { key, rtype } => Reservation::Release { key, rtype },
            Asked::Clear { key } => Reservation::Clear { key },
        };
        let (sqe, payload) = command.request(self.nsid);
        let begun = self.recorder.now();
        let done = sent(queue, sqe, payload);
        let answer = done.as_ref().ok().and_then(|done| match done.status.code {
            StatusCode::SUCCESS => Some(Answer::Done),
            StatusCode::RESERVATION_CONFLICT => Some(Answer::Conflict),
            StatusCode::INVALID_FIELD => Some(Answer::InvalidField),
            _ => None,
        });
        let ended = answer.map(|_| self.recorder.now());
        // Any other status says that nothing has changed: then there is nothing to write down.
        let is_unknown = done.as_ref().map_or(true, |done| done.status.code == StatusCode::INTERNAL_ERROR);
        if answer.is_some() || is_unknown {
            self.recorder.add([Op { host: self.number, begun, ended, what: What::Reserve { asked, answer } }]);
        }
        done.map(|_| answer.is_some())
    }
    fn looks(&mut self, queue: &mut IoQueue) -> Result<bool, Error> {
        let sqe = Report { numd: (REPORT_BYTES / 4 - 1) as u32, eds: true }.sqe(0, self.nsid);
        let begun = self.recorder.now();
        let done = sent(queue, sqe, Payload::In(vec![0; REPORT_BYTES]))?;
        if !done.status.is_success() {
            return Ok(false);
        }
        let (head, list) = parse_extended_report(&done.data).expect("a whole report");
        let number_of = |id: [u8; 16]| (1..=self.of).find(|n| HostIdentity::numbered(*n).id == id).expect("a host of ours");
        let registrants = list.iter().map(|r| (number_of(r.hostid), r.rkey, r.rcsts & 1 == 1)).collect();
        let what = What::Report { seen: Seen { rtype: head.rtype, registrants } };
        self.recorder.add([Op { host: self.number, begun, ended: Some(self.recorder.now()), what }]);
        Ok(true)
    }
    /// A read or a write. That it is let through says that it was allowed; a conflict may be of a right that has been given since, which a node hears of
    /// later, and says nothing.
    fn tries(&mut self, queue: &mut IoQueue) -> Result<bool, Error> {
        let (write, offset) = (self.rng.percent(60), self.number * BLOCK_BYTES);
        let begun = self.recorder.now();
        let done = answer(queue, |queue| match write {
            true => queue.submit(0, Io::Write { offset, data: vec![self.number as u8; BLOCK_BYTES as usize], fua: false }),
            false => queue.submit(0, Io::Read { offset, len: BLOCK_BYTES as u32 }),
        })?;
        if done.status.is_success() {
            let what = What::Access { write, allowed: true };
            self.recorder.add([Op { host: self.number, begun, ended: Some(self.recorder.now()), what }]);
        }
        Ok(done.status.is_success() || done.status.code == StatusCode::RESERVATION_CONFLICT)
    }
}

/// All blocks of a volume as a node gives them are written down. False: it does not serve it.
pub fn read_all(recorder: &Recorder, number: u64, path: &ControllerOptions, nsid: u32) -> Result<bool, Error> {
    let (_controller, mut queue) = connect(path, number, nsid)?;
    for block in 0..BLOCKS {
        if !read_blocks(recorder, number, &mut queue, block, 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_blocks(recorder: &Recorder, number: u64, queue: &mut IoQueue, first: u64, count: u64) -> Result<bool, Error> {
    let begun = recorder.now();
    let done = answer(queue, |queue| queue.submit(0, Io::Read { offset: first * BLOCK_BYTES, len: (count * BLOCK_BYTES) as u32 }))?;
    if !done.status.is_success() {
        return Ok(false);
    }
    let ended = Some(recorder.now());
    let blocks = done.data.chunks_exact(BLOCK_BYTES as usize).zip(first..);
    recorder.add(blocks.map(|(data, block)| Op { host: number, begun, ended, what: What::Read { block, value: value_of(data) } }));
    Ok(true)
}

/// The value that a block holds, from end to end.
fn value_of(data: &[u8]) -> u64 {
    let mut words = data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let first = words.next().expect("a block has words");
    if words.all(|word| word == first) { first } else { TORN }
}

fn connect(path: &ControllerOptions, number: u64, nsid: u32) -> Result<(Controller, IoQueue), Error> {
    let host = HostIdentity::numbered(number);
    let controller =
        Controller::connect(ControllerOptions { host, connect_timeout: ANSWER_MAX, command_timeout: ANSWER_MAX, ..path.clone() })?;
    let namespace = controller.namespace(nsid)?;
    let queue = controller.open_queue(1, 4, namespace)?;
    Ok((controller, queue))
}
fn sent(queue: &mut IoQueue, sqe: Sqe, payload: Payload) -> Result<IoDone, Error> {
    answer(queue, |queue| queue.submit_raw(0, sqe, payload))
}
/// Sends a command and waits for its answer.
fn answer(queue: &mut IoQueue, submit: impl FnOnce(&mut IoQueue) -> Result<(), Error>) -> Result<IoDone, Error> {
    submit(queue)?;
    let begun = Instant::now();
    loop {
        if let Some(done) = queue.pop() {
            return Ok(done);
        }
        if begun.elapsed() > ANSWER_MAX {
            return Err(Error::Timeout("a command of the history"));
        }
        queue.poll(Duration::from_millis(20))?;
    }
}

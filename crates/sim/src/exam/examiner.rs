//! The examiner: a machine with hosts of its own, which sends exactly what it is asked to and keeps each answer with its time.
//!
//! Invariant: an answer is kept until it is taken; what was in flight on a connection that is gone stays without one.
//! Never: connects again; decides what is right.

use base::Instant;
use initiator::queue::{ClientQueue, Completed, Payload, QueueOptions, Request};
use rt::{App, Buf, ConnId, Event, Progress, Queue, Rt, SendList};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// Bytes of a receive buffer.
const RECEIVE_BYTES: usize = 64 << 10;
/// Most bytes of one send.
const SEND_BYTES: usize = 256 << 10;

struct Link {
    conn: Option<ConnId>,
    queue: ClientQueue,
    sending: bool,
    /// Nothing is sent for the time being.
    held: bool,
    /// When it was gone.
    gone: Option<u64>,
    answers: BTreeMap<u64, (Completed, u64)>,
}

/// The machine.
pub(super) struct Examiner {
    rt: Rt,
    queue: Queue,
    addr: SocketAddr,
    links: Vec<Link>,
    next_tag: u64,
    /// What a connection has sent that no queue understands.
    pub(super) wrong: Option<String>,
}

/// Its program.
pub(super) struct ExaminerApp(pub(super) Rc<RefCell<Examiner>>);

impl App for ExaminerApp {
    fn poll(&mut self, _rt: &Rt) -> Progress {
        self.0.borrow_mut().turn();
        Progress::Idle
    }
}

impl Examiner {
    pub(super) fn new(rt: &Rt, addr: SocketAddr) -> Examiner {
        Examiner { rt: rt.clone(), queue: rt.queue(), addr, links: Vec::new(), next_tag: 0, wrong: None }
    }
    /// Begins to connect; the number of the link.
    pub(super) fn connect(&mut self, in_capsule_bytes: u32) -> usize {
        let options = QueueOptions { depth: 64, in_capsule_bytes, ..QueueOptions::default() };
        let link = Link { conn: None, queue: ClientQueue::new(options), sending: false, held: false, gone: None, answers: BTreeMap::new() };
        self.links.push(link);
        let at = self.links.len() - 1;
        self.rt.connect(&self.queue, at as u64, self.addr);
        at
    }
    /// Writes of at most so many bytes bring their data in the capsule.
    pub(super) fn in_capsule(&mut self, link: usize, bytes: u32) {
        self.links[link].queue.set_in_capsule_bytes(bytes);
    }
    /// Whether a command can be sent.
    pub(super) fn is_open(&self, link: usize) -> bool {
        self.links[link].queue.greeting().is_some()
    }
    /// When a link was gone.
    pub(super) fn gone(&self, link: usize) -> Option<u64> {
        self.links[link].gone
    }
    /// Sends a command; the tag of its answer. The machine must be woken.
    pub(super) fn submit(&mut self, link: usize, request: Request) -> Option<u64> {
        self.submit_known(link, request).map(|(tag, _)| tag)
    }
    /// The same; the tag and the identifier of the command.
    pub(super) fn submit_known(&mut self, link: usize, request: Request) -> Option<(u64, u16)> {
        self.next_tag += 1;
        let tag = self.next_tag;
        self.links[link].queue.submit(Request { tag, ..request }).ok().map(|cid| (tag, cid))
    }
    /// Keeps back what is to be sent, or not any more.
    pub(super) fn hold(&mut self, link: usize, on: bool) {
        self.links[link].held = on;
    }
    /// Whether an answer is there.
    pub(super) fn has(&self, link: usize, tag: u64) -> bool {
        self.links[link].answers.contains_key(&tag)
    }
    /// Takes an answer and when it came.
    pub(super) fn take(&mut self, link: usize, tag: u64) -> Option<(Completed, u64)> {
        self.links[link].answers.remove(&tag)
    }
    /// Closes a link.
    pub(super) fn close(&mut self, link: usize) {
        if let Some(conn) = self.links[link].conn.take() {
            self.rt.close(conn);
        }
    }

    fn turn(&mut self) {
        while let Some(done) = self.queue.pop() {
            let (at, now) = (done.cookie as usize, self.rt.now());
            match done.event {
                Event::Connected { result: Ok(conn) } => {
                    self.links[at].conn = Some(conn);
                    self.rt.recv(&self.queue, done.cookie, conn, Buf::alloc(RECEIVE_BYTES));
                }
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    if let Err(error) = self.links[at].queue.receive(&buf[..n]) {
                        self.wrong.get_or_insert(format!("the examiner's link {at}: {error}"));
                        return;
                    }
                    self.rt.recv(&self.queue, done.cookie, conn, buf);
                    self.take_answers(at, now);
                }
                Event::Sent { result: Ok(()), .. } => self.links[at].sending = false,
                _ => {
                    self.links[at].gone.get_or_insert(now.0);
                    self.close(at);
                }
            }
        }
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            let ready = !link.sending && !link.held && !link.queue.outgoing().is_empty();
            let (Some(conn), true) = (link.conn, ready) else { continue };
            let n = link.queue.outgoing().len().min(SEND_BYTES);
            let mut list = SendList::new();
            list.push_data(Buf::copy_of(&link.queue.outgoing()[..n]), 0..n);
            link.queue.sent(n);
            link.sending = true;
            self.rt.send(&self.queue, at as u64, conn, list);
        }
    }
    fn take_answers(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        while let Some(done) = link.queue.pop() {
            if link.answers.insert(done.tag, (done, now.0)).is_some() {
                self.wrong.get_or_insert(format!("the examiner's link {at}: a command was answered twice"));
            }
        }
    }
}

/// A command without a tag.
pub(super) fn plain(sqe: format::nvme::Sqe, payload: Payload) -> Request {
    Request { sqe, payload, tag: 0 }
}

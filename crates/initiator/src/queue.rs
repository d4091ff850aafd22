//! The client side of one NVMe/TCP queue: bytes in, bytes out, commands in, completions out.
//!
//! ```text
//! Greeting ──ICResp──► Open ──error or termination──► (the owner closes the connection)
//! command: sent ──R2T──► data out ──┐
//!            ├────────C2HData───────┤──CapsuleResp or C2HData with SUCCESS──► done
//! ```
//!
//! Invariants: at most [`QueueOptions::depth`] commands are in flight; a command's buffer comes back with its completion;
//! data is taken only for a command in flight, in order, within its length, and after its digest was checked.
//! Never: does I/O, reads a clock.

use crate::error::QueueError;
use format::nvme::{Cqe, Sgl, Sqe, Status};
use format::nvme_tcp::{
    CapsuleCmd, CapsuleResp, CommonHeader, DIGEST_BYTES, DataPdu, Digests, Fault, HEADER_BYTES_MAX, HeaderRules, IcReq, IcResp, PduType,
    R2t, TermReq, check_header, digest, header,
};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Most commands in flight on a queue.
pub const DEPTH_MAX: u16 = 1024;
/// Data bytes that every controller takes in the capsule of an admin or fabrics command (tcp 3.3.2).
pub const ADMIN_CAPSULE_BYTES: u32 = 8192;
/// Most data bytes of one C2HData that we take.
const C2H_BYTES_MAX: u32 = 16 << 20;

/// A read of at least so many bytes makes [`ClientQueue::reads_large`] true.
const LARGE_READ_BYTES: usize = 32 << 10;
/// Fewer bytes are not worth a landing.
const LANDING_BYTES_MIN: usize = 4 << 10;

/// How to open a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Commands in flight, 1 to [`DEPTH_MAX`].
    pub depth: u16,
    /// Digests to ask for.
    pub digests: Digests,
    /// Alignment of data to ask for (HPDA), 0's based dwords.
    pub hpda: u8,
    /// R2Ts that may be outstanding for a command, minus one.
    pub maxr2t: u32,
    /// Writes of at most so many bytes go in the capsule; 0: all by R2T.
    pub in_capsule_bytes: u32,
    /// Data of at least so many bytes is sent from where it lies instead of being copied behind its header.
    pub lend_bytes: u32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { depth: 32, digests: Digests::default(), hpda: 0, maxr2t: 0, in_capsule_bytes: ADMIN_CAPSULE_BYTES, lend_bytes: u32::MAX }
    }
}

/// The data of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// None.
    #[default]
    None,
    /// To be filled by the controller: all of it.
    In(Vec<u8>),
    /// For the controller.
    Out(Vec<u8>),
}

impl Payload {
    fn is_large_read(&self) -> bool {
        matches!(self, Payload::In(buffer) if buffer.len() >= LARGE_READ_BYTES)
    }
    /// The bytes, whichever way they went.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Payload::None => Vec::new(),
            Payload::In(b) | Payload::Out(b) => b,
        }
    }
}

/// A command to send. Its CID and SGL are the queue's to set.
#[derive(Debug)]
pub struct Request {
    /// The command.
    pub sqe: Sqe,
    /// Its data.
    pub payload: Payload,
    /// Comes back with the completion.
    pub tag: u64,
}

/// A command that is done.
#[derive(Debug)]
pub struct Completed {
    /// From the request.
    pub tag: u64,
    /// The completion.
    pub cqe: Cqe,
    /// The request's data; for [`Payload::In`] filled when the command succeeded.
    pub payload: Payload,
}

struct Flight {
    tag: u64,
    payload: Payload,
    got: usize,
}

/// Data that is sent from where it lies.
struct Lent {
    /// So many bytes of `tx` go before it.
    at: usize,
    of: Owner,
    from: usize,
    to: usize,
}

enum Owner {
    Command(u16),
    /// The command ended before its data was sent.
    Nobody(Vec<u8>),
}

/// What the next received bytes are.
enum Rx {
    Head,
    Body { common: CommonHeader, pdu: DataPdu, got: usize },
    DataDigest { common: CommonHeader, pdu: DataPdu },
}

/// See the module.
pub struct ClientQueue {
    options: QueueOptions,
    open: Option<IcResp>,
    slots: Vec<Option<Flight>>,
    free: Vec<u16>,
    tx: Vec<u8>,
    tx_sent: usize,
    lent: VecDeque<Lent>,
    large_reads: usize,
    head: Vec<u8>,
    common: Option<CommonHeader>,
    digest: Vec<u8>,
    rx: Rx,
    done: VecDeque<Completed>,
}

impl ClientQueue {
    /// A queue that begins with ICReq.
    pub fn new(options: QueueOptions) -> Self {
        let depth = options.depth.clamp(1, DEPTH_MAX);
        let options = QueueOptions { depth, ..options };
        let greeting = IcReq { hpda: options.hpda, digests: options.digests, maxr2t: options.maxr2t };
        Self {
            options,
            open: None,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            tx: greeting.to_bytes().to_vec(),
            tx_sent: 0,
            lent: VecDeque::new(),
            large_reads: 0,
            head: Vec::with_capacity(HEADER_BYTES_MAX),
            common: None,
            digest: Vec::with_capacity(DIGEST_BYTES),
            rx: Rx::Head,
            done: VecDeque::new(),
        }
    }

    /// What the controller answered to ICReq; `None` before.
    pub fn greeting(&self) -> Option<IcResp> {
        self.open
    }
    /// Sets the largest write that goes in the capsule (from IOCCSZ).
    pub fn set_in_capsule_bytes(&mut self, bytes: u32) {
        self.options.in_capsule_bytes = bytes;
    }
    /// Commands in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }
    /// Whether another command may be sent.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }
    /// How many more commands may be sent.
    pub fn room(&self) -> usize {
        self.free.len()
    }
    /// Tags of the commands in flight.
    pub fn tags_in_flight(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().flatten().map(|f| f.tag)
    }
    /// The next bytes to send; there may be more behind them.
    pub fn outgoing(&self) -> &[u8] {
        match self.lent.front() {
            Some(lent) if self.tx_sent == lent.at => self.lent_bytes(lent),
            Some(lent) => &self.tx[self.tx_sent..lent.at],
            None => &self.tx[self.tx_sent..],
        }
    }
    /// The bytes to send in pieces, as many as `out` has room for; how many there are.
    pub fn outgoing_slices<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let (mut n, mut at, mut lent) = (0, self.tx_sent, self.lent.iter());
        while n < out.len() {
            let next = lent.next();
            let to = next.map_or(self.tx.len(), |l| l.at);
            if at < to {
                out[n] = IoSlice::new(&self.tx[at..to]);
                (n, at) = (n + 1, to);
            }
            let Some(next) = next else { break };
            if n < out.len() {
                out[n] = IoSlice::new(self.lent_bytes(next));
                n += 1;
            }
        }
        n
    }
    fn lent_bytes<'a>(&'a self, lent: &'a Lent) -> &'a [u8] {
        let data = match &lent.of {
            Owner::Nobody(data) => data,
            Owner::Command(cid) => match self.slots[usize::from(*cid)].as_ref().map(|f| &f.payload) {
                Some(Payload::Out(data)) => data,
                _ => unreachable!("what a command lends goes to nobody when it ends"),
            },
        };
        &data[lent.from..lent.to]
    }
    /// `n` of the outgoing bytes were sent.
    pub fn sent(&mut self, mut n: usize) {
        while let (Some(lent), true) = (self.lent.front_mut(), n > 0) {
            let step = if self.tx_sent < lent.at { n.min(lent.at - self.tx_sent) } else { n.min(lent.to - lent.from) };
            if self.tx_sent < lent.at {
                self.tx_sent += step;
            } else {
                lent.from += step;
            }
            n -= step;
            if lent.from == lent.to {
                self.lent.pop_front();
            }
        }
        self.tx_sent += n;
        assert!(self.tx_sent <= self.tx.len(), "no more was sent than there was");
        if self.tx_sent == self.tx.len() && self.lent.is_empty() {
            self.tx.clear();
            self.tx_sent = 0;
        }
    }
    /// Where the next received bytes belong, when they are many and of one command: they may be received there and reported with [`Self::landed`].
    pub fn landing(&mut self) -> Option<&mut [u8]> {
        let Rx::Body { pdu, got, .. } = &self.rx else { return None };
        let (from, to) = (pdu.offset as usize + got, pdu.offset as usize + pdu.bytes as usize);
        if to - from < LANDING_BYTES_MIN {
            return None;
        }
        match &mut self.slots.get_mut(usize::from(pdu.cccid))?.as_mut()?.payload {
            Payload::In(buffer) => buffer.get_mut(from..to),
            _ => None,
        }
    }
    /// `n` bytes were received into [`Self::landing`].
    pub fn landed(&mut self, n: usize) -> Result<(), QueueError> {
        let Rx::Body { common, pdu, got } = self.rx else { return Ok(()) };
        self.body_came(common, pdu, got + n)
    }
    /// Whether a command in flight reads so much that its data is better received where it belongs.
    pub fn reads_large(&self) -> bool {
        self.large_reads > 0
    }
    /// The next completion.
    pub fn pop(&mut self) -> Option<Completed> {
        self.done.pop_front()
    }

    /// Sends a command. Gives it back when the queue is full or not open yet.
    pub fn submit(&mut self, request: Request) -> Result<u16, Request> {
        let Some(ic) = self.open else { return Err(request) };
        let Some(cid) = self.free.pop() else { return Err(request) };
        let Request { mut sqe, payload, tag } = request;
        sqe.cid = cid;
        let (sgl, in_capsule) = match &payload {
            Payload::None => (Sgl::default(), &[][..]),
            Payload::In(buffer) => (Sgl::transport(buffer.len() as u32), &[][..]),
            Payload::Out(data) if data.len() as u32 <= self.options.in_capsule_bytes => (Sgl::in_capsule(0, data.len() as u32), &data[..]),
            Payload::Out(data) => (Sgl::transport(data.len() as u32), &[][..]),
        };
        sqe.sgl = sgl;
        self.large_reads += usize::from(payload.is_large_read());
        let got = in_capsule.len();
        CapsuleCmd::append(sqe, in_capsule, ic.digests, ic.cpda, &mut self.tx);
        self.slots[usize::from(cid)] = Some(Flight { tag, payload, got });
        Ok(cid)
    }

    /// Takes received bytes. After an error the queue is of no more use.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), QueueError> {
        while !bytes.is_empty() {
            bytes = match self.rx {
                Rx::Head => self.take_head(bytes)?,
                Rx::Body { common, pdu, got } => self.take_body(bytes, common, pdu, got)?,
                Rx::DataDigest { common, pdu } => self.take_digest(bytes, common, pdu)?,
            };
        }
        Ok(())
    }

    fn digests(&self) -> Digests {
        self.open.map_or(Digests::default(), |ic| ic.digests)
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], QueueError> {
        let need = self.common.map_or(8, |c| c.lead_bytes());
        let (now, rest) = bytes.split_at((need - self.head.len()).min(bytes.len()));
        self.head.extend_from_slice(now);
        if self.head.len() < need {
            return Ok(rest);
        }
        let Some(common) = self.common else {
            let rules = HeaderRules {
                from_host: false,
                digests: self.digests(),
                pda: self.options.hpda,
                capsule_data_max: 0,
                data_max: C2H_BYTES_MAX,
            };
            let mut b = [0; 8];
            b.copy_from_slice(&self.head);
            self.common = Some(check_header(&b, &rules).map_err(QueueError::Header)?);
            return Ok(rest);
        };
        self.common = None;
        let head = std::mem::take(&mut self.head);
        let hlen = usize::from(common.hlen);
        if common.header_digest() && digest(&head[..hlen]) != head[hlen..hlen + DIGEST_BYTES] {
            return Err(QueueError::HeaderDigest(common.kind));
        }
        self.dispatch(&common, &head)?;
        self.head = head;
        self.head.clear();
        Ok(rest)
    }

    fn dispatch(&mut self, common: &CommonHeader, head: &[u8]) -> Result<(), QueueError> {
        let first24 = || -> [u8; 24] { head[..24].try_into().expect("check_header made sure of 24 bytes") };
        match (common.kind, self.open.is_some()) {
            (PduType::IcResp, false) => {
                let bytes = head[..128].try_into().expect("check_header made sure of 128 bytes");
                let resp = IcResp::parse(&bytes).map_err(QueueError::Header)?;
                let more = (resp.digests.header && !self.options.digests.header) || (resp.digests.data && !self.options.digests.data);
                if more {
                    return Err(QueueError::Header(Fault::field(format::nvme_tcp::fault::AT_IC_DGST)));
                }
                self.open = Some(resp);
            }
            (PduType::C2hTermReq, _) => return Err(QueueError::Terminated(TermReq::parse(&first24()))),
            (PduType::CapsuleResp, true) => {
                let cqe = CapsuleResp::parse(&first24()).cqe;
                self.complete(PduType::CapsuleResp, cqe)?;
            }
            (PduType::R2t, true) => self.ready_to_transfer(&R2t::parse(&first24()))?,
            (PduType::C2hData, true) => {
                let pdu = DataPdu::parse(common, &first24());
                self.check_data(common, &pdu)?;
                self.rx = Rx::Body { common: *common, pdu, got: 0 };
            }
            (kind, _) => return Err(QueueError::Unexpected(kind)),
        }
        Ok(())
    }

    fn flight(&mut self, kind: PduType, cid: u16) -> Result<&mut Flight, QueueError> {
        self.slots.get_mut(usize::from(cid)).and_then(Option::as_mut).ok_or(QueueError::UnknownCommand { kind, cid })
    }

    fn check_data(&mut self, common: &CommonHeader, pdu: &DataPdu) -> Result<(), QueueError> {
        let (kind, cid, offset) = (PduType::C2hData, pdu.cccid, pdu.offset);
        let end = u64::from(offset) + u64::from(pdu.bytes);
        let flight = self.flight(kind, cid)?;
        let fits = matches!(&flight.payload, Payload::In(b) if end <= b.len() as u64);
        if !fits || flight.got != offset as usize || pdu.bytes != common.data_bytes() {
            return Err(QueueError::OutOfRange { kind, cid, offset, end });
        }
        Ok(())
    }

    fn take_body<'a>(&mut self, bytes: &'a [u8], common: CommonHeader, pdu: DataPdu, got: usize) -> Result<&'a [u8], QueueError> {
        let left = pdu.bytes as usize - got;
        let (now, rest) = bytes.split_at(left.min(bytes.len()));
        let at = pdu.offset as usize + got;
        if let Payload::In(buffer) = &mut self.flight(PduType::C2hData, pdu.cccid)?.payload {
            buffer[at..at + now.len()].copy_from_slice(now);
        }
        self.body_came(common, pdu, got + now.len())?;
        Ok(rest)
    }

    /// `got` bytes of a C2HData are where they belong.
    fn body_came(&mut self, common: CommonHeader, pdu: DataPdu, got: usize) -> Result<(), QueueError> {
        if got < pdu.bytes as usize {
            self.rx = Rx::Body { common, pdu, got };
        } else if common.data_digest_bytes() > 0 {
            self.rx = Rx::DataDigest { common, pdu };
        } else {
            self.data_done(&pdu)?;
        }
        Ok(())
    }

    fn take_digest<'a>(&mut self, bytes: &'a [u8], common: CommonHeader, pdu: DataPdu) -> Result<&'a [u8], QueueError> {
        let (now, rest) = bytes.split_at((DIGEST_BYTES - self.digest.len()).min(bytes.len()));
        self.digest.extend_from_slice(now);
        if self.digest.len() < DIGEST_BYTES {
            self.rx = Rx::DataDigest { common, pdu };
            return Ok(rest);
        }
        let range = pdu.offset as usize..pdu.offset as usize + pdu.bytes as usize;
        let good = match &self.flight(PduType::C2hData, pdu.cccid)?.payload {
            Payload::In(buffer) => digest(&buffer[range])[..] == self.digest[..],
            _ => false,
        };
        self.digest.clear();
        if !good {
            return Err(QueueError::DataDigest(pdu.cccid));
        }
        self.data_done(&pdu)?;
        Ok(rest)
    }

    fn data_done(&mut self, pdu: &DataPdu) -> Result<(), QueueError> {
        self.rx = Rx::Head;
        self.flight(PduType::C2hData, pdu.cccid)?.got += pdu.bytes as usize;
        if pdu.success {
            let cqe = Cqe { result: 0, sqhd: 0, sqid: 0, cid: pdu.cccid, status: Status::SUCCESS };
            self.complete(PduType::C2hData, cqe)?;
        }
        Ok(())
    }

    fn ready_to_transfer(&mut self, r2t: &R2t) -> Result<(), QueueError> {
        let ic = self.open.expect("R2T is taken on an open queue only");
        let (kind, cid, offset) = (PduType::R2t, r2t.cccid, r2t.offset);
        let end = u64::from(offset) + u64::from(r2t.bytes);
        let flight = self.slots.get_mut(usize::from(cid)).and_then(Option::as_mut).ok_or(QueueError::UnknownCommand { kind, cid })?;
        let Payload::Out(data) = &flight.payload else { return Err(QueueError::OutOfRange { kind, cid, offset, end }) };
        if end > data.len() as u64 || r2t.bytes == 0 || flight.got != offset as usize {
            return Err(QueueError::OutOfRange { kind, cid, offset, end });
        }
        let mut at = offset as usize;
        while at < end as usize {
            let bytes = (end as usize - at).min(ic.maxh2cdata as usize);
            let last = at + bytes == end as usize;
            let pdu = DataPdu { cccid: cid, ttag: r2t.ttag, offset: at as u32, bytes: bytes as u32, last, success: false };
            let piece = &data[at..at + bytes];
            if bytes < self.options.lend_bytes as usize {
                pdu.append(PduType::H2cData, piece, ic.digests, ic.cpda, &mut self.tx);
            } else {
                pdu.append_header(PduType::H2cData, ic.digests, ic.cpda, &mut self.tx);
                self.lent.push_back(Lent { at: self.tx.len(), of: Owner::Command(cid), from: at, to: at + bytes });
                if ic.digests.data {
                    self.tx.extend_from_slice(&digest(piece));
                }
            }
            at += bytes;
        }
        flight.got = end as usize;
        Ok(())
    }

    fn complete(&mut self, kind: PduType, cqe: Cqe) -> Result<(), QueueError> {
        let cid = cqe.cid;
        let slot = self.slots.get_mut(usize::from(cid)).ok_or(QueueError::UnknownCommand { kind, cid })?;
        let flight = slot.take().ok_or(QueueError::UnknownCommand { kind, cid })?;
        if let Payload::In(buffer) = &flight.payload
            && cqe.status.is_success()
            && flight.got != buffer.len()
        {
            return Err(QueueError::ShortData { cid, got: flight.got, len: buffer.len() });
        }
        self.large_reads -= usize::from(flight.payload.is_large_read());
        if let Payload::Out(data) = &flight.payload {
            // A controller that has seen enough; what was promised is sent all the same.
            let owed = |l: &&mut Lent| matches!(l.of, Owner::Command(of) if of == cid);
            self.lent.iter_mut().filter(owed).for_each(|l| l.of = Owner::Nobody(data.clone()));
        }
        self.free.push(cid);
        self.done.push_back(Completed { tag: flight.tag, cqe, payload: flight.payload });
        Ok(())
    }
}

/// Flags of received headers that a test may want to name.
pub use header::{FLAG_DDGST, FLAG_HDGST, FLAG_LAST, FLAG_SUCCESS};

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

//! The host side of a session of one connection: a machine without I/O.
//!
//! ```text
//!  commands ─► CmdSN window ─► PDUs ─► bytes to send
//!  completions ◄── Data-In, R2T, responses ◄── bytes that came
//! ```
//!
//! Invariants: no more commands are under way than the target's window and the slots allow; data lands in the buffer of its command only, in
//! order; everything a target sends is bounded before memory is taken.
//! Never: does I/O; sends data that was not asked for, but what goes with a command.

use super::error::{ScsiFailure, SessionError};
use super::login::{Agreed, Login, LoginOptions, SEGMENT_BYTES_MAX};
use base::crc32c;
use format::iscsi::{
    DIGEST_BYTES, DataIn, DataOut, HEADER_BYTES, Header, HostPdu, LoginResponse, LogoutRequest, ManagementRequest, ManagementResponse,
    NO_TAG, NopIn, NopOut, Parts, ReadyToTransfer, ScsiCommand, ScsiResponse, TargetPdu, management, management_response, pad_bytes,
};
use format::scsi::{Cdb, Lun, ScsiStatus, Sense};
use std::collections::VecDeque;

/// CmdSN of the first command.
const FIRST_CMD_SN: u32 = 1;
/// TASK ATTRIBUTE: simple.
const SIMPLE: u8 = 1;
/// Commands under way, at most.
pub const COMMANDS_MAX: usize = 1024;
/// So much of a read's data is worth being received where it belongs.
const LANDING_BYTES_MIN: usize = 8 << 10;
/// Reason of a Logout Request: the session is closed.
const CLOSE_SESSION: u8 = 0;
/// The tag of a Logout Request, and of a task management function: behind those of commands.
const LOGOUT_TAG: u32 = COMMANDS_MAX as u32;
const ABORT_TAG: u32 = LOGOUT_TAG + 1;
/// For immediate delivery (I).
const IMMEDIATE: u8 = 0x40;
/// Asynchronous events that nothing follows from here: sense data of a unit, which the next command tells as well; this connection, or all of the
/// session, are about to be dropped, which is seen when they are.
const EVENTS_HEARD: [u8; 3] = [0, 2, 3];

/// The data of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    None,
    /// It reads: room for what comes.
    In(Vec<u8>),
    /// It writes this.
    Out(Vec<u8>),
}

impl Payload {
    /// Its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Payload::None => Vec::new(),
            Payload::In(data) | Payload::Out(data) => data,
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Comes back with its completion.
    pub tag: u64,
    /// The logical unit.
    pub lun: u64,
    /// The CDB.
    pub cdb: Cdb,
    /// Its data.
    pub payload: Payload,
}

/// A command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The command, with the data that came.
    pub command: Command,
    /// Bytes of data that came.
    pub bytes: usize,
    /// Whether it was carried out.
    pub result: Result<(), ScsiFailure>,
}

/// A command under way.
struct Task {
    command: Command,
    /// Bytes that came, or were sent.
    got: usize,
    data_sn: u32,
    cmd_sn: u32,
}

enum Phase {
    Login(Box<Login>),
    Open,
}

/// What is being received.
enum Rx {
    Head,
    /// Data of the command in this slot: `at` is where the next byte belongs, `left` bytes of data are to come, `tail` has what came of
    /// padding and digest.
    Into {
        pdu: DataIn,
        slot: usize,
        from: usize,
        at: usize,
        left: usize,
        tail: Vec<u8>,
    },
    /// Data of another PDU.
    Gather {
        header: Header,
        body: Vec<u8>,
    },
}

/// See the module.
pub struct Session {
    phase: Phase,
    options: LoginOptions,
    agreed: Agreed,
    /// Digests are in force: after the login.
    header_digest: bool,
    data_digest: bool,
    cmd_sn: u32,
    max_cmd_sn: u32,
    exp_stat_sn: u32,
    tasks: Vec<Option<Task>>,
    free: Vec<u32>,
    tx: Vec<u8>,
    tx_sent: usize,
    head: Vec<u8>,
    rx: Rx,
    done: VecDeque<Completed>,
    /// The slot of the command that is to be aborted.
    aborting: Option<u32>,
    logged_out: bool,
}

/// Whether a serial number comes before another (RFC 1982).
fn before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

impl Session {
    /// Begins a login. `commands`: how many may be under way, at most [`COMMANDS_MAX`]. `random` gives bytes that nobody can guess.
    pub fn new(options: LoginOptions, commands: usize, random: fn(&mut [u8])) -> Session {
        let (login, (request, text)) = Login::new(options.clone(), FIRST_CMD_SN, random);
        let commands = commands.clamp(1, COMMANDS_MAX);
        let mut session = Session {
            phase: Phase::Login(Box::new(login)),
            options,
            agreed: Agreed::default(),
            header_digest: false,
            data_digest: false,
            cmd_sn: FIRST_CMD_SN,
            max_cmd_sn: FIRST_CMD_SN.wrapping_sub(1),
            exp_stat_sn: 0,
            tasks: (0..commands).map(|_| None).collect(),
            free: (0..commands as u32).rev().collect(),
            tx: Vec::new(),
            tx_sent: 0,
            head: Vec::with_capacity(HEADER_BYTES),
            rx: Rx::Head,
            done: VecDeque::new(),
            aborting: None,
            logged_out: false,
        };
        session.push(HostPdu::Login(request), true, &text);
        session
    }

    /// Whether the login is done.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }
    /// What was agreed.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }
    /// Whether the target has answered the logout.
    pub fn is_logged_out(&self) -> bool {
        self.logged_out
    }
    /// Commands under way.
    pub fn in_flight(&self) -> usize {
        self.tasks.len() - self.free.len()
    }
    /// Tags of the commands under way.
    pub fn tags_in_flight(&self) -> impl Iterator<Item = u64> + '_ {
        self.tasks.iter().flatten().map(|t| t.command.tag)
    }
    /// How many more commands may be sent now.
    pub fn room(&self) -> usize {
        if !self.is_open() {
            return 0;
        }
        let next = self.max_cmd_sn.wrapping_add(1);
        let window = if before(self.cmd_sn, next) { next.wrapping_sub(self.cmd_sn) as usize } else { 0 };
        window.min(self.free.len())
    }
    /// The next bytes to send.
    pub fn outgoing(&self) -> &[u8] {
        &self.tx[self.tx_sent..]
    }
    /// `n` of the outgoing bytes were sent.
    pub fn sent(&mut self, n: usize) {
        self.tx_sent += n;
        assert!(self.tx_sent <= self.tx.len(), "no more was sent than there was");
        if self.tx_sent == self.tx.len() {
            self.tx.clear();
            self.tx_sent = 0;
        }
    }
    /// The next completion.
    pub fn pop(&mut self) -> Option<Completed> {
        self.done.pop_front()
    }

    /// Sends a command. Gives it back when there is no room for it.
    pub fn submit(&mut self, command: Command) -> Result<(), Command> {
        if self.room() == 0 {
            return Err(command);
        }
        let Some(slot) = self.free.pop() else { return Err(command) };
        let (read, write, expected, early) = match &command.payload {
            Payload::None => (false, false, 0, 0),
            Payload::In(data) => (true, false, data.len(), 0),
            Payload::Out(data) => {
                let early = self.agreed.first_burst.min(self.agreed.segment) as usize;
                (false, true, data.len(), if self.agreed.immediate { early.min(data.len()) } else { 0 })
            }
        };
        let pdu = ScsiCommand {
            // All else is asked for (InitialR2T is Yes).
            last: true,
            read,
            write,
            attribute: SIMPLE,
            lun: Lun::Unit(command.lun).to_bytes(),
            tag: slot,
            expected_bytes: expected as u32,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb: command.cdb,
        };
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        let header = HostPdu::Command(pdu).to_header(early);
        let data = if let Payload::Out(data) = &command.payload { &data[..early] } else { &[] };
        append(&mut self.tx, header, data, self.header_digest, self.data_digest);
        self.tasks[slot as usize] = Some(Task { command, got: early, data_sn: 0, cmd_sn });
        Ok(())
    }

    /// Asks the target to abort a command under way (ABORT TASK): it ends with TASK ABORTED, or as it would have. Whether that was asked: one at a
    /// time can be.
    pub fn abort(&mut self, tag: u64) -> bool {
        let slot = self.tasks.iter().position(|t| t.as_ref().is_some_and(|t| t.command.tag == tag));
        let Some((slot, task)) = slot.filter(|_| self.aborting.is_none()).and_then(|slot| Some((slot as u32, self.tasks[slot].as_ref()?)))
        else {
            return false;
        };
        let pdu = ManagementRequest {
            function: management::ABORT_TASK,
            lun: Lun::Unit(task.command.lun).to_bytes(),
            tag: ABORT_TAG,
            referenced_tag: slot,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            ref_cmd_sn: task.cmd_sn,
            ..ManagementRequest::default()
        };
        self.aborting = Some(slot);
        self.push(HostPdu::Management(pdu), true, &[]);
        true
    }

    /// Asks the target to end the session.
    pub fn log_out(&mut self) {
        let pdu = LogoutRequest {
            reason: CLOSE_SESSION,
            tag: LOGOUT_TAG,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            ..LogoutRequest::default()
        };
        self.push(HostPdu::Logout(pdu), true, &[]);
    }

    fn push(&mut self, pdu: HostPdu, immediate: bool, data: &[u8]) {
        let mut header = pdu.to_header(data.len());
        header[0] |= if immediate { IMMEDIATE } else { 0 };
        append(&mut self.tx, header, data, self.header_digest, self.data_digest);
    }

    // ---- what comes ---------------------------------------------------------------------------------------------------

    /// Where the next received bytes belong, when they are many and of one command: they may be received there and reported with
    /// [`Self::landed`].
    pub fn landing(&mut self) -> Option<&mut [u8]> {
        let Rx::Into { slot, at, left, .. } = self.rx else { return None };
        if left < LANDING_BYTES_MIN {
            return None;
        }
        match &mut self.tasks[slot].as_mut()?.command.payload {
            Payload::In(buffer) => buffer.get_mut(at..at + left),
            _ => None,
        }
    }
    /// `n` bytes were received into [`Self::landing`].
    pub fn landed(&mut self, n: usize) -> Result<(), SessionError> {
        if let Rx::Into { at, left, .. } = &mut self.rx {
            (*at, *left) = (*at + n, *left - n);
        }
        self.data_end()
    }

    /// Takes received bytes. After an error the session is of no more use.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), SessionError> {
        while !bytes.is_empty() {
            bytes = match &mut self.rx {
                Rx::Head => self.take_head(bytes)?,
                Rx::Into { slot, at, left, .. } if *left > 0 => {
                    let (now, rest) = bytes.split_at((*left).min(bytes.len()));
                    if let Some(Task { command: Command { payload: Payload::In(buffer), .. }, .. }) = &mut self.tasks[*slot] {
                        buffer[*at..*at + now.len()].copy_from_slice(now);
                    }
                    self.landed(now.len())?;
                    rest
                }
                Rx::Into { from, at, tail, .. } => {
                    let need = tail_bytes(*at - *from, self.data_digest) - tail.len();
                    let (now, rest) = bytes.split_at(need.min(bytes.len()));
                    tail.extend_from_slice(now);
                    self.data_end()?;
                    rest
                }
                Rx::Gather { header, body } => {
                    let need = Parts::parse(header).body_bytes(self.data_digest) - body.len();
                    let (now, rest) = bytes.split_at(need.min(bytes.len()));
                    body.extend_from_slice(now);
                    if now.len() == need {
                        let (header, body) = (*header, std::mem::take(body));
                        self.rx = Rx::Head;
                        self.whole(&header, body)?;
                    }
                    rest
                }
            };
        }
        Ok(())
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], SessionError> {
        let need = match self.head.first_chunk::<HEADER_BYTES>() {
            Some(header) => Parts::parse(header).head_bytes(self.header_digest),
            None => HEADER_BYTES,
        };
        let (now, rest) = bytes.split_at((need - self.head.len()).min(bytes.len()));
        self.head.extend_from_slice(now);
        let Some(header) = self.head.first_chunk::<HEADER_BYTES>().copied() else { return Ok(rest) };
        let parts = Parts::parse(&header);
        let end = parts.head_bytes(self.header_digest);
        if self.head.len() < end {
            return Ok(rest);
        }
        let sound = !self.header_digest || crc32c(&self.head[..end - DIGEST_BYTES]).to_le_bytes() == self.head[end - DIGEST_BYTES..];
        self.head.clear();
        if !sound {
            return Err(SessionError::HeaderDigest);
        }
        if parts.data_bytes > SEGMENT_BYTES_MAX {
            return Err(SessionError::TooLong(parts.data_bytes));
        }
        self.begin(header, &parts)?;
        Ok(rest)
    }

    /// A header is whole.
    fn begin(&mut self, header: Header, parts: &Parts) -> Result<(), SessionError> {
        let unexpected = SessionError::Unexpected(parts.opcode);
        let pdu = TargetPdu::parse(&header).map_err(|_| unexpected.clone())?;
        if self.is_open() == matches!(pdu, TargetPdu::Login(_)) {
            return Err(unexpected);
        }
        if let (TargetPdu::DataIn(pdu), true) = (pdu, parts.data_bytes > 0) {
            let (slot, from) = self.place(&pdu, parts.data_bytes)?;
            self.rx = Rx::Into { pdu, slot, from, at: from, left: parts.data_bytes, tail: Vec::new() };
        } else if parts.data_bytes > 0 {
            self.rx = Rx::Gather { header, body: Vec::new() };
        } else {
            self.whole(&header, Vec::new())?;
        }
        Ok(())
    }

    /// Where the data of a PDU belongs.
    fn place(&mut self, pdu: &DataIn, bytes: usize) -> Result<(usize, usize), SessionError> {
        let (tag, offset) = (pdu.tag, pdu.offset);
        let end = u64::from(offset) + bytes as u64;
        let task = self.task(tag)?;
        let fits = matches!(&task.command.payload, Payload::In(b) if end <= b.len() as u64);
        if !fits || task.got != offset as usize || task.data_sn != pdu.data_sn {
            return Err(SessionError::OutOfRange { tag, offset, end });
        }
        task.data_sn = task.data_sn.wrapping_add(1);
        Ok((tag as usize, offset as usize))
    }

    fn task(&mut self, tag: u32) -> Result<&mut Task, SessionError> {
        self.tasks.get_mut(tag as usize).and_then(Option::as_mut).ok_or(SessionError::UnknownTask(tag))
    }

    /// Goes on when all of a Data-In has come.
    fn data_end(&mut self) -> Result<(), SessionError> {
        let Rx::Into { pdu, slot, from, at, left, tail } = &self.rx else { return Ok(()) };
        if *left > 0 || tail.len() < tail_bytes(at - from, self.data_digest) {
            return Ok(());
        }
        let (pdu, slot, from, at) = (*pdu, *slot, *from, *at);
        if self.data_digest
            && let Some(Task { command: Command { payload: Payload::In(buffer), .. }, .. }) = &self.tasks[slot]
        {
            let (pad, digest) = tail.split_at(tail.len() - DIGEST_BYTES);
            let sum = if pad.is_empty() { crc32c(&buffer[from..at]) } else { crc32c(&[&buffer[from..at], pad].concat()) };
            if sum.to_le_bytes() != digest {
                return Err(SessionError::DataDigest);
            }
        }
        self.rx = Rx::Head;
        if let Some(task) = &mut self.tasks[slot] {
            task.got = at;
        }
        self.data_in(&pdu)
    }

    fn data_in(&mut self, pdu: &DataIn) -> Result<(), SessionError> {
        self.heard(pdu.exp_cmd_sn, pdu.max_cmd_sn, pdu.has_status.then_some(pdu.stat_sn));
        if pdu.has_status { self.complete(pdu.tag, pdu.status, &[]) } else { Ok(()) }
    }

    /// Serial numbers of a PDU.
    fn heard(&mut self, exp_cmd_sn: u32, max_cmd_sn: u32, stat_sn: Option<u32>) {
        // A window that ends before it begins says nothing (RFC 7143 4.2.2.1).
        if before(exp_cmd_sn.wrapping_sub(2), max_cmd_sn) && before(self.max_cmd_sn, max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
        if let Some(sn) = stat_sn {
            self.exp_stat_sn = sn.wrapping_add(1);
        }
    }

    /// A PDU is whole. `body`: its data, padding and digest.
    fn whole(&mut self, header: &Header, mut body: Vec<u8>) -> Result<(), SessionError> {
        let parts = Parts::parse(header);
        if self.data_digest && !body.is_empty() {
            let (data, digest) = body.split_at(body.len() - DIGEST_BYTES);
            if crc32c(data).to_le_bytes() != digest {
                return Err(SessionError::DataDigest);
            }
        }
        body.truncate(parts.data_bytes);
        let pdu = TargetPdu::parse(header).map_err(|_| SessionError::Unexpected(parts.opcode))?;
        match pdu {
            TargetPdu::Login(answer) => self.on_login(&answer, &body),
            TargetPdu::DataIn(pdu) => self.data_in(&pdu),
            TargetPdu::Response(response) => self.on_response(&response, &body),
            TargetPdu::ReadyToTransfer(r2t) => self.on_ready(&r2t),
            TargetPdu::NopIn(nop) => {
                self.on_nop(&nop, &body);
                Ok(())
            }
            TargetPdu::Async(m) if EVENTS_HEARD.contains(&m.event) => {
                self.heard(m.exp_cmd_sn, m.max_cmd_sn, Some(m.stat_sn));
                Ok(())
            }
            TargetPdu::Async(m) => Err(SessionError::Ended(m.event)),
            TargetPdu::Reject(reject) => Err(SessionError::Rejected(reject.reason)),
            TargetPdu::Logout(_) => {
                self.logged_out = true;
                Ok(())
            }
            TargetPdu::Management(done) if done.tag == ABORT_TAG => self.on_aborted(&done),
            TargetPdu::Management(_) | TargetPdu::Text(_) => Err(SessionError::Unexpected(parts.opcode)),
        }
    }

    fn on_login(&mut self, answer: &LoginResponse, text: &[u8]) -> Result<(), SessionError> {
        self.heard(answer.exp_cmd_sn, answer.max_cmd_sn, Some(answer.stat_sn));
        let Phase::Login(login) = &mut self.phase else { return Err(SessionError::Unexpected(LoginResponse::OPCODE)) };
        match login.take(answer, text)? {
            Some((mut request, text)) => {
                request.exp_stat_sn = self.exp_stat_sn;
                self.push(HostPdu::Login(request), true, &text);
            }
            None => {
                self.agreed = login.agreed();
                (self.header_digest, self.data_digest) = (self.options.header_digest, self.options.data_digest);
                self.phase = Phase::Open;
            }
        }
        Ok(())
    }

    fn on_response(&mut self, response: &ScsiResponse, data: &[u8]) -> Result<(), SessionError> {
        self.heard(response.exp_cmd_sn, response.max_cmd_sn, Some(response.stat_sn));
        if response.response != 0 {
            return Err(SessionError::TargetFailure(response.response));
        }
        // Sense data comes after its length (11.4.7.2).
        let sense = data.split_at_checked(2).map_or(&[][..], |(len, rest)| {
            let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
            rest.get(..len).unwrap_or(rest)
        });
        self.complete(response.tag, response.status, sense)
    }

    fn complete(&mut self, tag: u32, status: u8, sense: &[u8]) -> Result<(), SessionError> {
        let task = self.tasks.get_mut(tag as usize).and_then(Option::take).ok_or(SessionError::UnknownTask(tag))?;
        self.free.push(tag);
        let result = match ScsiStatus::parse(status) {
            Some(ScsiStatus::Good | ScsiStatus::ConditionMet) => Ok(()),
            Some(status) => Err(ScsiFailure { status, sense: Sense::parse(sense) }),
            None => Err(ScsiFailure { status: ScsiStatus::CheckCondition, sense: None }),
        };
        let bytes = if matches!(task.command.payload, Payload::In(_)) { task.got } else { 0 };
        self.done.push_back(Completed { command: task.command, bytes, result });
        Ok(())
    }

    fn on_aborted(&mut self, done: &ManagementResponse) -> Result<(), SessionError> {
        self.heard(done.exp_cmd_sn, done.max_cmd_sn, Some(done.stat_sn));
        let slot = self.aborting.take().ok_or(SessionError::UnknownTask(done.tag))?;
        // One that was answered before is not there any more (RFC 7143 11.5.1).
        let there = self.tasks[slot as usize].is_some() && done.response == management_response::COMPLETE;
        if there { self.complete(slot, ScsiStatus::TaskAborted.byte(), &[]) } else { Ok(()) }
    }

    fn on_ready(&mut self, r2t: &ReadyToTransfer) -> Result<(), SessionError> {
        self.heard(r2t.exp_cmd_sn, r2t.max_cmd_sn, None);
        let (tag, offset) = (r2t.tag, r2t.offset);
        let end = u64::from(offset) + u64::from(r2t.bytes);
        let (agreed, exp_stat_sn) = (self.agreed, self.exp_stat_sn);
        let (header_digest, data_digest) = (self.header_digest, self.data_digest);
        let task = self.tasks.get_mut(tag as usize).and_then(Option::as_mut).ok_or(SessionError::UnknownTask(tag))?;
        let Payload::Out(data) = &task.command.payload else { return Err(SessionError::OutOfRange { tag, offset, end }) };
        if end > data.len() as u64 || r2t.bytes == 0 || r2t.bytes > agreed.burst || task.got != offset as usize {
            return Err(SessionError::OutOfRange { tag, offset, end });
        }
        let part = &data[offset as usize..end as usize];
        let step = agreed.segment as usize;
        for (n, piece) in part.chunks(step).enumerate() {
            let out = DataOut {
                last: (n + 1) * step >= part.len(),
                lun: r2t.lun,
                tag,
                transfer_tag: r2t.transfer_tag,
                exp_stat_sn,
                data_sn: n as u32,
                offset: offset + (n * step) as u32,
            };
            append(&mut self.tx, out.to_header(piece.len()), piece, header_digest, data_digest);
        }
        task.got = end as usize;
        Ok(())
    }

    fn on_nop(&mut self, nop: &NopIn, data: &[u8]) {
        // One that asks has a StatSN that is not used (11.19.1).
        let counts = nop.tag != NO_TAG;
        self.heard(nop.exp_cmd_sn, nop.max_cmd_sn, counts.then_some(nop.stat_sn));
        if nop.transfer_tag != NO_TAG {
            let answer =
                NopOut { lun: nop.lun, tag: NO_TAG, transfer_tag: nop.transfer_tag, cmd_sn: self.cmd_sn, exp_stat_sn: self.exp_stat_sn };
            self.push(HostPdu::NopOut(answer), true, data);
        }
    }
}

/// Bytes of padding and digest after so many bytes of data.
fn tail_bytes(data: usize, digest: bool) -> usize {
    pad_bytes(data) + if digest { DIGEST_BYTES } else { 0 }
}

/// Adds a PDU to what is to be sent.
fn append(tx: &mut Vec<u8>, header: Header, data: &[u8], header_digest: bool, data_digest: bool) {
    tx.extend_from_slice(&header);
    if header_digest {
        tx.extend_from_slice(&crc32c(&header).to_le_bytes());
    }
    if data.is_empty() {
        return;
    }
    let from = tx.len();
    tx.extend_from_slice(data);
    tx.resize(from + data.len() + pad_bytes(data.len()), 0);
    if data_digest {
        let sum = crc32c(&tx[from..]);
        tx.extend_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

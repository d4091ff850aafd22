//! One connection as a state machine: PDUs and bytes in, cut anywhere; volumes and a controller that answer late, in any order, or not
//! at all; a network that takes nothing for a while; aborts, changes of what is served, the end at any moment.
//!
//! Asserted after every piece of bytes: memory is bounded by the limits, commands by the queue. Asserted at the end: a connection that went
//! on has every command answered once; one that ended said why; nothing is held, and all buffers are free.

use crate::commands::{self, Command};
use crate::host::{HOST, Host, NQN};
use crate::input::{Choices, patch};
use crate::volumes::{VOLUME_BYTES, Volumes, view};
use base::{Duration, Instant, WriteProtect};
use format::nvme::fabrics::{CONNECT_DATA_BYTES, Connect};
use format::nvme::io::flush_sqe;
use format::nvme::{AdminOpcode, FabricsType, NSID_ALL, SglKind, Sqe, Status, StatusCode};
use format::nvme_tcp::DataPdu;
use nvmf::limits::{
    ADMIN_DATA_MAX, AER_MAX, CAPSULE_DATA_MAX, CAPSULE_HELD_MAX, DATA_HELD_MAX, QUEUE_ENTRIES_MAX, SENDS_MAX, TRANSFER_MAX,
};
use nvmf::session::{Aborted, Call, Cx, QueueKind, Session, settle};
use nvmf::shared::ControllerShared;
use nvmf::{TargetStats, View};
use object::{IoError, IoRequest, VolumeRef};
use rt::SendList;
use std::collections::VecDeque;
use std::sync::Arc;

/// Operations of one input.
const OPS_MAX: usize = 64;
/// Identifier of the last command.
const LAST_CID: u16 = 0xEEEE;

struct Bench {
    session: Session,
    host: Host,
    view: Arc<View>,
    volumes: Volumes,
    ios: Vec<IoRequest>,
    calls: Vec<(u64, Call)>,
    stats: TargetStats,
    now: Instant,
    /// Answers of the controller are kept; so are those of volumes when `volumes.hold`.
    hold_calls: bool,
    kept_calls: Vec<u16>,
    parked: Vec<u16>,
    /// The network takes nothing.
    slow: bool,
    sends: VecDeque<SendList>,
    /// How the controller answers, in turn.
    turn: u8,
    entries: u16,
    /// Bytes that the target did not take.
    blocked: bool,
    left: bool,
    ended: bool,
}

macro_rules! cx {
    ($b:ident) => {
        Cx { now: $b.now, view: &$b.view, ios: &mut $b.ios, calls: &mut $b.calls, stats: &mut $b.stats }
    };
}

impl Bench {
    fn new(host: Host) -> Bench {
        Bench {
            session: Session::new(1 << 16),
            host,
            view: Arc::new(view()),
            volumes: Volumes::default(),
            ios: Vec::new(),
            calls: Vec::new(),
            stats: TargetStats::default(),
            now: Instant(1_000_000_000),
            hold_calls: false,
            kept_calls: Vec::new(),
            parked: Vec::new(),
            slow: false,
            sends: VecDeque::new(),
            turn: 0,
            entries: 2,
            blocked: false,
            left: false,
            ended: false,
        }
    }

    fn is_over(&self) -> bool {
        self.ended || self.left || self.session.is_ended()
    }

    fn feed(&mut self, bytes: &[u8], piece: usize) {
        if self.is_over() || self.blocked {
            return;
        }
        self.host.sends(bytes);
        for part in bytes.chunks(piece.max(bytes.len() / 256).max(1)) {
            if !self.session.wants_bytes() {
                self.answer_all();
            }
            if !self.session.wants_bytes() {
                self.blocked = true; // A Connect command that waits for its answer, or a Disconnect.
                return;
            }
            self.receive(part, piece % 2 == 1);
            self.turn_wheels();
            self.check();
            if self.is_over() {
                return;
            }
        }
    }

    /// Bytes from the network; with `lands`, data that can comes where it belongs.
    fn receive(&mut self, mut bytes: &[u8], lands: bool) {
        while lands
            && !bytes.is_empty()
            && let Some((mut buf, at)) = self.session.land()
        {
            let (now, later) = bytes.split_at(at.len().min(bytes.len()));
            let at = at.start..at.start + now.len();
            buf[at.clone()].copy_from_slice(now);
            self.session.landed(&mut cx!(self), buf, at);
            bytes = later;
        }
        if !bytes.is_empty() {
            self.session.receive(&mut cx!(self), bytes);
        }
    }

    /// All that was kept is answered, all that is to be sent is sent.
    fn answer_all(&mut self) {
        (self.slow, self.hold_calls, self.volumes.hold) = (false, false, false);
        self.turn_wheels();
    }

    fn turn_wheels(&mut self) {
        loop {
            let mut moved = false;
            for (_, call) in core::mem::take(&mut self.calls) {
                moved = true;
                let (Call::Connect(slot) | Call::Admin(slot)) = call;
                self.kept_calls.push(slot);
            }
            if !self.hold_calls {
                for slot in core::mem::take(&mut self.kept_calls) {
                    moved = true;
                    self.on_call(slot);
                }
            }
            self.volumes.held.append(&mut self.ios);
            if !self.volumes.hold {
                moved |= self.answer_volumes(usize::MAX, None);
            }
            while self.sends.len() < usize::from(SENDS_MAX)
                && let Some(list) = self.session.take_send()
            {
                self.sends.push_back(list);
            }
            if !self.slow && !self.sends.is_empty() {
                moved = true;
                self.send_one();
            }
            if !moved {
                return;
            }
        }
    }

    fn send_one(&mut self) {
        let Some(list) = self.sends.pop_front() else { return };
        for piece in list.slices(0) {
            self.host.came(piece);
        }
        self.session.sent(&mut cx!(self), list);
    }

    /// The volumes answer up to `count` requests, the last first.
    fn answer_volumes(&mut self, count: usize, fail: Option<IoError>) -> bool {
        let from = self.volumes.held.len().saturating_sub(count);
        let requests = self.volumes.held.split_off(from);
        let any = !requests.is_empty();
        for request in requests.into_iter().rev() {
            let done = self.volumes.answer(request, fail);
            self.session.on_io_done(&mut cx!(self), done);
        }
        any
    }

    fn on_call(&mut self, slot: u16) {
        let Some(sqe) = self.session.sqe(slot).copied() else { return };
        self.turn = self.turn.wrapping_mul(13).wrapping_add(7);
        if self.session.is_connecting() {
            return self.on_connect(slot, &sqe);
        }
        let fabrics = sqe.opcode == AdminOpcode::Fabrics.byte();
        let on_admin_queue = matches!(self.session.kind(), Some(QueueKind::Admin(_)));
        if fabrics && sqe.fctype() == FabricsType::Disconnect.byte() {
            if on_admin_queue {
                return self.session.complete(&mut cx!(self), slot, StatusCode::INVALID_QUEUE_TYPE.into(), 0);
            }
            self.left = true;
            self.parked.clear();
            return self.session.disconnect(&mut cx!(self), slot);
        }
        if on_admin_queue && sqe.opcode == AdminOpcode::AsyncEventRequest.byte() && self.parked.len() < AER_MAX {
            self.session.park(slot);
            return self.parked.push(slot);
        }
        let to_host = if fabrics { sqe.fctype() & 3 == 2 } else { sqe.opcode & 3 == 2 };
        match sqe.sgl.kind() {
            SglKind::Transport { len } if to_host && (1..=ADMIN_DATA_MAX).contains(&len) && self.turn & 3 != 0 => {
                let len = if self.turn & 8 == 0 { len } else { 1 + len / 2 };
                self.session.complete_with(&mut cx!(self), slot, rt::Buf::zeroed(len as usize));
            }
            _ if self.turn & 16 == 0 => self.session.complete(&mut cx!(self), slot, Status::SUCCESS, 77),
            _ => self.session.complete(&mut cx!(self), slot, StatusCode::INVALID_FIELD.into(), 0),
        }
    }

    /// As the target does it, for any name.
    fn on_connect(&mut self, slot: u16, sqe: &Sqe) {
        let connect = Connect::of(sqe);
        let good = self.session.data(slot).len() >= CONNECT_DATA_BYTES && (1..QUEUE_ENTRIES_MAX).contains(&connect.sqsize);
        if !good {
            self.session.readmit();
            return self.session.complete(&mut cx!(self), slot, StatusCode::CONNECT_INVALID_PARAMETERS.into(), 0);
        }
        let shared = Arc::new(ControllerShared::new(1, 1, NQN, HOST, [7; 16], false));
        shared.set_ready(true);
        let kind = if connect.qid == 0 { QueueKind::Admin(shared) } else { QueueKind::io(shared, connect.qid) };
        self.entries = connect.sqsize + 1;
        self.session.admit(kind, self.entries, connect.cattr & Connect::CATTR_NO_FLOW_CONTROL == 0);
        self.session.complete(&mut cx!(self), slot, Status::SUCCESS, 1);
    }

    fn check(&self) {
        let s = &self.session;
        // One command always may have its buffers, and one whole read may be on its way to the host.
        assert!(s.held() <= DATA_HELD_MAX + CAPSULE_HELD_MAX + CAPSULE_DATA_MAX + TRANSFER_MAX, "{} bytes held", s.held());
        // Aborted commands whose data is to come do not count as entries, and there are at most as many of them.
        assert!(s.outstanding() <= 2 * usize::from(self.entries), "{} commands", s.outstanding());
        assert!(s.running() as usize <= s.outstanding());
    }

    /// The host does all that is asked of it, and everybody answers.
    fn finish(mut self) {
        self.answer_all();
        let live = !self.is_over() && !self.blocked && self.host.is_between_pdus();
        if live && self.session.is_live() {
            for _ in 0..8 * usize::from(QUEUE_ENTRIES_MAX) {
                let Some(a) = self.host.asked(0) else { break };
                let bytes = (a.end - a.offset).min(256 << 10);
                let last = a.offset + bytes == a.end;
                let pdu = DataPdu { cccid: a.cid, ttag: a.ttag, offset: a.offset, bytes, last, success: false };
                let bytes = self.host.h2c_data(&pdu, &vec![5; bytes as usize]);
                self.feed(&bytes, usize::MAX);
            }
            // A first half of a fused operation waits for the next command.
            if self.session.outstanding() < usize::from(self.entries) {
                let last = self.host.capsule(flush_sqe(LAST_CID, NSID_ALL), &[]);
                self.feed(&last, usize::MAX);
                assert_eq!(self.session.outstanding(), self.parked.len(), "every command is answered");
                let silent = self.host.unanswered() - self.parked.len();
                assert!(silent <= self.host.reused(), "every command is answered but event requests that were given up: {silent}");
            }
            assert!(!self.is_over() && self.host.asked(0).is_none());
            assert_eq!((self.session.running(), self.session.held()), (0, 0));
        }
        if self.left && !self.ended {
            assert_eq!((self.session.outstanding(), self.session.held()), (0, 0), "a Disconnect comes last");
        }
        if self.session.is_ended() && !self.ended {
            let reported = self.host.is_terminated() || self.stats.terminations_received > 0;
            assert!(reported, "a connection that ends says why, or was given a reason");
            assert_eq!((self.session.outstanding(), self.session.held(), self.session.running()), (0, 0, 0));
        }
        self.session.end();
        assert_eq!((self.session.outstanding(), self.session.running()), (0, 0));
    }
}

fn greeted(c: &mut Choices<'_>, kind: u32) -> Bench {
    let mut b = Bench::new(commands::host(c));
    if kind > 0 {
        let ic = b.host.ic_req();
        b.feed(&ic, usize::MAX);
        assert!(b.session.is_fresh());
    }
    if kind > 1 {
        let entries = c.of(&[16, 32, 4, 2, 128, 1023]);
        let cattr = if c.once_in(4) { Connect::CATTR_NO_FLOW_CONTROL } else { 0 };
        let connect = b.host.connect(kind as u16 - 2, 1, entries, cattr, 0);
        b.feed(&connect, usize::MAX);
        assert!(b.session.is_live());
    }
    b
}

/// Bytes as they are, from one of four states, in pieces. The first three bytes choose.
pub fn session_bytes(data: &[u8]) {
    let buffers = rt::buffers_outstanding();
    let (setup, rest) = data.split_at(data.len().min(3));
    let setup = crate::input::stretched(setup, 3);
    // The choices of the setup are bits of its bytes.
    let bits = [setup[0] & 1, setup[0] >> 1 & 1, setup[0] >> 2 & 7, setup[0] >> 5, setup[1]];
    let mut b = greeted(&mut Choices::new(&bits), u32::from(setup[1] & 3));
    let piece = [1 << 16, 1, 3, 8, 64, 100, 1000, 4000][usize::from(setup[2] & 7)];
    b.hold_calls = setup[2] & 8 != 0;
    b.volumes.hold = setup[2] & 16 != 0;
    b.slow = setup[2] & 32 != 0;
    b.feed(rest, piece);
    b.finish();
    assert_eq!(rt::buffers_outstanding(), buffers, "all buffers are free");
}

/// Commands, data, and what happens beside them.
pub fn session(data: &[u8]) {
    let buffers = rt::buffers_outstanding();
    let mut c = Choices::new(data);
    let kind = c.of(&[3, 3, 3, 2, 2, 0, 1]);
    let mut b = greeted(&mut c, kind);
    for _ in 0..OPS_MAX {
        if c.is_empty() || b.is_over() {
            break;
        }
        step(&mut b, &mut c);
        b.check();
    }
    b.finish();
    assert_eq!(rt::buffers_outstanding(), buffers, "all buffers are free");
}

fn step(b: &mut Bench, c: &mut Choices<'_>) {
    match c.below(24) {
        0..9 => {
            let cid = if c.once_in(12) { c.any() } else { c.below(40) as u16 };
            let on_io_queue = matches!(b.session.kind(), Some(QueueKind::Io(_)));
            let Command { sqe, data } = if on_io_queue != c.once_in(12) { commands::io(c, cid) } else { commands::admin(c, cid) };
            let mut bytes = b.host.capsule(sqe, &data);
            if c.once_in(12) {
                patch(&mut bytes, c.bytes(6));
            }
            let piece = commands::piece(c);
            b.feed(&bytes, piece);
        }
        9..13 => {
            let nth = c.below(8) as usize;
            if let Some(asked) = b.host.asked(nth) {
                let bytes = commands::h2c_data(c, &b.host, asked);
                let piece = commands::piece(c);
                b.feed(&bytes, piece);
            }
        }
        13 => {
            let bytes = c.bytes(64);
            b.feed(bytes, 1);
        }
        14 => b.volumes.hold = !b.volumes.hold,
        15 => {
            let fail = c.of(&[
                None,
                None,
                Some(IoError::NoSpace),
                Some(IoError::Media { offset: 0 }),
                Some(IoError::Miscompare),
                Some(IoError::Failed),
                Some(IoError::Closing),
            ]);
            let count = 1 + c.below(3) as usize;
            b.answer_volumes(count, fail);
        }
        16 => b.slow = !b.slow,
        17 => b.send_one(),
        18 => {
            let cid = c.below(40) as u16;
            if let Aborted::Event(slot) = b.session.abort(&mut cx!(b), cid) {
                b.parked.retain(|s| *s != slot);
            }
        }
        19 => b.hold_calls = !b.hold_calls,
        20 => change_view(b, c),
        21 => {
            let volume = VolumeRef(c.below(3));
            let tokens: Vec<u64> = b.session.under_way_on(volume).collect();
            assert!(tokens.iter().all(|t| b.session.is_under_way(*t)));
            b.session.abort_on(volume, StatusCode::ABORTED_PREEMPT.into());
        }
        22 => {
            if let Some(slot) = b.parked.pop() {
                b.session.complete_parked(&mut cx!(b), slot, Status::SUCCESS, 5);
            }
        }
        _ => {
            b.now += Duration::from_secs(u64::from(c.below(40)));
            b.session.trim_lease();
            if c.once_in(6) {
                end(b);
            }
        }
    }
    b.turn_wheels();
}

/// What is served changes: a volume shrinks, is protected, is formatted, or is not seen any more.
fn change_view(b: &mut Bench, c: &mut Choices<'_>) {
    let mut view = View::clone(&b.view);
    view.generation += 1;
    let at = c.below(3);
    match c.below(4) {
        0 => {
            if let Some(v) = &mut view.volumes[at as usize] {
                v.bytes = (1 + u64::from(c.below(512))) * 4096;
                assert!(v.bytes <= VOLUME_BYTES);
            }
        }
        1 => {
            if let Some(v) = &mut view.volumes[at as usize] {
                v.write_protect = c.of(&[WriteProtect::None, WriteProtect::Protected]);
            }
        }
        2 => {
            if let Some(v) = &mut view.volumes[at as usize] {
                v.formatting = !v.formatting;
            }
        }
        _ => {
            view.subsystems[0].namespaces.remove(&(at + 1));
        }
    }
    b.view = Arc::new(view);
}

/// The connection is gone. What the volumes work on is counted until it has come back.
fn end(b: &mut Bench) {
    b.session.end();
    b.ended = true;
    let mut left = b.session.take_left();
    b.volumes.held.append(&mut b.ios);
    for request in core::mem::take(&mut b.volumes.held) {
        let done = b.volumes.answer(request, None);
        settle(&mut left, done.token);
    }
    assert!(left.is_empty(), "what was submitted comes back");
}

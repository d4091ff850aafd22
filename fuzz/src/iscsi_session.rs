//! An iSCSI session as a state machine, of up to four connections: PDUs that are right or nearly, and bytes, cut anywhere; volumes and a control
//! plane that answer late, in any order or with an error; a network that takes nothing for a while; changes of what is served, connections that are
//! lost, the end at any moment.
//!
//! Asserted after every piece: memory and commands are bounded; what is sent is made of whole PDUs, with statuses in the order of their StatSN; a
//! command is answered at most once, on its connection; nobody is sent more than he asked for. At the end nothing is held.

use crate::input::{Choices, patch};
use crate::volumes::{self, Volumes};
use base::{Instant, Visibility, WriteProtect, crc32c};
use cluster::Path;
use format::iscsi::{
    DataOut, HEADER_BYTES, Header, HostPdu, LoginRequest, LogoutRequest, ManagementRequest, NO_TAG, NopOut, Parts, ReadyToTransfer,
    ScsiCommand, TargetPdu, TextRequest, pad_bytes,
};
use format::scsi::Lun;
use frontend::{Refused, VolumeView};
use iscsi::limits::{BURST_MAX, COMMANDS_MAX, DATA_HELD_MAX, IMMEDIATE_MAX, R2TS_MAX, TRANSFER_MAX};
use iscsi::session::{Asked, Cx, Session, SessionEvent};
use iscsi::{Shared, Stats, TargetView, UnitView, View};
use object::{IoDone, IoError, IoRequest, VolumeRef};
use rt::SendList;
use std::collections::{BTreeMap, VecDeque};

const HOST: &str = "iqn.2026-11.example:host";
const TARGET: &str = "iqn.2026-11.io.basalt:fuzz";
const ISID: [u8; 6] = [0x80, 0, 0, 0, 0, 1];
/// Operations of one input.
const OPS_MAX: usize = 64;
const CONNECTIONS: usize = 4;
const KEYS: [&str; 5] = [
    "",
    "HeaderDigest=CRC32C\0DataDigest=CRC32C\0",
    "InitialR2T=No\0FirstBurstLength=4096\0",
    "MaxOutstandingR2T=4\0MaxBurstLength=1024\0ImmediateData=No\0",
    "MaxRecvDataSegmentLength=512\0InitialR2T=No\0",
];
const CDBS: [u8; 24] = [
    0x28, 0x2A, 0x88, 0x8A, 0x00, 0x03, 0x08, 0x0A, 0x12, 0x15, 0x1A, 0x25, 0x2E, 0x2F, 0x35, 0x41, 0x42, 0x4D, 0x5E, 0x5F, 0x83, 0x84,
    0x89, 0xA0,
];

/// A connection, as the host has it.
struct Wire {
    /// Its number in the session.
    number: usize,
    incoming: Vec<u8>,
    header_digest: bool,
    data_digest: bool,
    stat_sn: Option<u32>,
    r2ts: VecDeque<ReadyToTransfer>,
    over: bool,
    /// Nobody knows what it has agreed on: what comes on it is not looked at.
    blind: bool,
}

struct Bench {
    session: Session,
    wires: Vec<Wire>,
    shared: Shared,
    view: View,
    volumes: Volumes,
    ios: Vec<IoRequest>,
    asked: VecDeque<Asked>,
    stats: Stats,
    events: Vec<(u64, SessionEvent)>,
    /// The network takes nothing; so do volumes when `volumes.hold`.
    slow: bool,
    sends: VecDeque<(usize, SendList)>,
    cmd_sn: u32,
    tag: u32,
    max_cmd_sn: Option<u32>,
    /// How often each tag may be answered, by connection; `None` when nobody knows what was sent.
    open: Option<BTreeMap<(usize, u32), u32>>,
}

macro_rules! cx {
    ($b:ident) => {
        Cx {
            now: Instant(1_000_000_000),
            view: &$b.view,
            shared: &$b.shared,
            draining: false,
            random: &mut |out| out.fill(7),
            ios: &mut $b.ios,
            asked: &mut $b.asked,
            stats: &mut $b.stats,
            events: &mut $b.events,
        }
    };
}

/// A unit for each volume, and for one more that has limits.
fn view() -> View {
    let mut volumes = volumes::served();
    volumes.push(volumes[0].clone().map(|v| VolumeView { limited: true, ..v }));
    let unit = |lun| (lun, UnitView { volume: VolumeRef(lun), hosts: Visibility::All, path: Path::ALONE });
    View {
        generation: 1,
        targets: vec![TargetView {
            name: TARGET.into(),
            allow_any_host: false,
            authenticated: false,
            hosts: vec![HOST.into()],
            units: [0, 1, 2, 3].map(unit).into(),
        }],
        volumes,
        ..View::default()
    }
}

fn wire_of(number: usize) -> Wire {
    Wire {
        number,
        incoming: vec![],
        header_digest: false,
        data_digest: false,
        stat_sn: None,
        r2ts: VecDeque::new(),
        over: false,
        blind: false,
    }
}

/// A PDU on the wire.
fn pdu(header: &Header, data: &[u8], (header_digest, data_digest): (bool, bool)) -> Vec<u8> {
    let mut out = header.to_vec();
    if header_digest {
        out.extend_from_slice(&crc32c(header).to_le_bytes());
    }
    let mut body = data.to_vec();
    body.resize(data.len() + pad_bytes(data.len()), 0);
    if data_digest && !body.is_empty() {
        let sum = crc32c(&body);
        body.extend_from_slice(&sum.to_le_bytes());
    }
    out.extend_from_slice(&body);
    out
}

fn login_pdu(tsih: u16, cid: u16, cmd_sn: u32, keys: &str) -> Vec<u8> {
    let request = LoginRequest { transit: true, stage: 1, next: 3, isid: ISID, tsih, cid, cmd_sn, ..Default::default() };
    let text = format!("InitiatorName={HOST}\0TargetName={TARGET}\0{keys}");
    let mut header = HostPdu::Login(request).to_header(text.len());
    header[0] |= 0x40;
    pdu(&header, text.as_bytes(), (false, false))
}

impl Bench {
    fn new(keys: &str) -> Bench {
        let mut b = Bench {
            session: Session::new(1 << 16, 0, None),
            wires: vec![wire_of(0)],
            shared: Shared::default(),
            view: view(),
            volumes: Volumes::default(),
            ios: vec![],
            asked: VecDeque::new(),
            stats: Stats::default(),
            events: vec![],
            slow: false,
            sends: VecDeque::new(),
            cmd_sn: 0,
            tag: 0,
            max_cmd_sn: None,
            open: Some(BTreeMap::new()),
        };
        b.session.receive(&mut cx!(b), 0, &login_pdu(0, 0, 0, &format!("MaxConnections=4\0{keys}")));
        b.turn_wheels();
        b.wires[0].header_digest = keys.contains("HeaderDigest");
        b.wires[0].data_digest = b.wires[0].header_digest;
        let session = &b.session;
        b.shared.enter(session.who(), session.tsih(), 0, 1 << 16, session.params());
        b
    }

    fn is_over(&self) -> bool {
        self.session.is_over()
    }
    /// Another connection: a session of its own, until its login is done.
    fn join(&mut self, cid: u16, keys: &str, bent: &[u8]) {
        let mut mine = Session::new(2 << 16, 0, None);
        let before = self.events.len();
        let mut bytes = login_pdu(self.session.tsih(), cid, self.cmd_sn, keys);
        patch(&mut bytes, bent);
        mine.receive(&mut cx!(self), 0, &bytes);
        let joins = self.events[before..]
            .iter()
            .any(|(token, e)| *token == 2 << 16 && matches!(e, SessionEvent::Joins(n) if *n == self.session.tsih()));
        if !joins || self.is_over() {
            return; // It was refused, or is half a login, or a session of its own.
        }
        let given = mine.give_wire().expect("a login has one connection");
        let number = self.session.join(&mut cx!(self), given);
        self.shared.note_cids(self.session.tsih(), self.session.cids());
        let mut wire = wire_of(number);
        // What was sent with the login has no digests.
        wire.header_digest = bent.is_empty() && keys.contains("HeaderDigest");
        wire.data_digest = wire.header_digest;
        if !bent.is_empty() {
            self.open = None;
            wire.blind = true;
        }
        // The place of one that has left.
        match self.wires.iter().position(|w| w.over && w.number == number) {
            Some(at) => self.wires[at] = wire,
            None => self.wires.push(wire),
        }
    }

    /// Bytes that the host sends on a connection.
    fn feed(&mut self, at: usize, bytes: &[u8], piece: usize) {
        for part in bytes.chunks(piece.max(bytes.len() / 64).max(1)) {
            if self.is_over() || self.session.is_wire_over(self.wires[at].number) {
                return;
            }
            if !self.session.wants_bytes(self.wires[at].number) {
                self.slow = false;
                self.turn_wheels();
            }
            if !self.session.wants_bytes(self.wires[at].number) {
                // A command waits for others, or the host reads nothing: what is not taken is lost here, so nobody knows what comes.
                self.open = None;
                return;
            }
            self.session.receive(&mut cx!(self), self.wires[at].number, part);
            self.turn_wheels();
        }
    }

    fn send(&mut self, at: usize, header: Header, data: &[u8], bent: &[u8], piece: usize) {
        let w = &self.wires[at];
        let mut bytes = pdu(&header, data, (w.header_digest, w.data_digest));
        if !bent.is_empty() {
            // What it is then, if it is one still.
            patch(&mut bytes, bent);
            self.open = None;
        } else if let (Ok(HostPdu::Command(c)), Some(open)) = (HostPdu::parse(&header), &mut self.open) {
            *open.entry((w.number, c.tag)).or_default() += 1;
        }
        self.feed(at, &bytes, piece);
    }

    /// Volumes answer, if they do; what is to be sent is sent, if the network takes it.
    fn turn_wheels(&mut self) {
        loop {
            self.volumes.held.append(&mut self.ios);
            let request = if self.volumes.hold { None } else { self.volumes.held.pop() };
            if let Some(request) = request {
                let done = self.volumes.answer(request, None);
                self.done(done);
                continue;
            }
            if self.slow || !self.send_one() {
                break;
            }
        }
        self.check();
    }
    fn done(&mut self, done: IoDone) {
        self.session.on_io_done(&mut cx!(self), done);
    }
    fn send_one(&mut self) -> bool {
        for at in 0..self.wires.len() {
            let number = self.wires[at].number;
            if let Some(list) = self.session.take_send(number) {
                let bytes: Vec<u8> = list.slices(0).flatten().copied().collect();
                self.came(at, &bytes);
                self.sends.push_back((number, list));
                while let Some((number, list)) = self.sends.pop_front() {
                    self.session.sent(&mut cx!(self), number, list);
                }
                return true;
            }
        }
        false
    }

    /// What the session sends on a connection.
    fn came(&mut self, at: usize, bytes: &[u8]) {
        if self.wires[at].blind {
            return;
        }
        self.wires[at].incoming.extend_from_slice(bytes);
        loop {
            let w = &mut self.wires[at];
            let Some(header) = w.incoming.first_chunk::<HEADER_BYTES>().copied() else { break };
            let (parts, pdu) = (Parts::parse(&header), TargetPdu::parse(&header).expect("a PDU of a target"));
            let login = matches!(pdu, TargetPdu::Login(_));
            let (head, body) = (parts.head_bytes(w.header_digest && !login), parts.body_bytes(w.data_digest && !login));
            assert!(w.incoming.len() >= head + body, "whole PDUs are sent");
            let rest = w.incoming.split_off(head + body);
            let whole = core::mem::replace(&mut w.incoming, rest);
            self.judge(at, &pdu, &whole[head..head + parts.data_bytes]);
        }
        assert!(self.wires[at].incoming.is_empty(), "whole PDUs are sent");
    }

    fn judge(&mut self, at: usize, pdu: &TargetPdu, data: &[u8]) {
        // Its StatSN and whether it takes one, and MaxCmdSN.
        let (stat_sn, takes, max) = match pdu {
            TargetPdu::Login(l) => (l.stat_sn, true, l.max_cmd_sn),
            TargetPdu::NopIn(n) => (n.stat_sn, n.tag != NO_TAG, n.max_cmd_sn),
            TargetPdu::Response(r) => (r.stat_sn, true, r.max_cmd_sn),
            TargetPdu::DataIn(d) => (d.stat_sn, d.has_status, d.max_cmd_sn),
            TargetPdu::ReadyToTransfer(r) => (r.stat_sn, false, r.max_cmd_sn),
            TargetPdu::Text(t) => (t.stat_sn, true, t.max_cmd_sn),
            TargetPdu::Management(m) => (m.stat_sn, true, m.max_cmd_sn),
            TargetPdu::Logout(l) => (l.stat_sn, true, l.max_cmd_sn),
            TargetPdu::Reject(r) => (r.stat_sn, true, r.max_cmd_sn),
            TargetPdu::Async(a) => (a.stat_sn, true, a.max_cmd_sn),
        };
        let w = &mut self.wires[at];
        if takes || !matches!(pdu, TargetPdu::DataIn(_)) {
            assert_eq!(stat_sn, w.stat_sn.unwrap_or(stat_sn), "StatSN counts up by one");
            w.stat_sn = Some(stat_sn.wrapping_add(u32::from(takes)));
        }
        assert!(max.wrapping_sub(self.max_cmd_sn.unwrap_or(max)) as i32 >= 0, "MaxCmdSN does not go back");
        self.max_cmd_sn = Some(max);
        let answered = match pdu {
            TargetPdu::Response(r) => Some(r.tag),
            TargetPdu::DataIn(d) => {
                assert!(d.offset as usize + data.len() <= TRANSFER_MAX as usize && data.len() <= 262_144, "no more than was asked for");
                d.has_status.then_some(d.tag)
            }
            TargetPdu::ReadyToTransfer(r) => {
                assert!(r.bytes > 0 && r.bytes <= BURST_MAX && u64::from(r.offset) + u64::from(r.bytes) <= u64::from(TRANSFER_MAX));
                w.r2ts.push_back(*r);
                None
            }
            _ => None,
        };
        if let (Some(tag), Some(open)) = (answered, &mut self.open) {
            let left = open.get_mut(&(self.wires[at].number, tag)).filter(|n| **n > 0).expect("a command that is there, on its connection");
            *left -= 1;
        }
    }

    fn check(&self) {
        assert!(self.session.running() <= COMMANDS_MAX as usize + IMMEDIATE_MAX, "the window");
        assert!(self.session.held_bytes() <= DATA_HELD_MAX.max(u64::from(TRANSFER_MAX)), "memory is bounded");
        assert!(self.session.cids().len() <= CONNECTIONS, "connections are as many as was agreed");
        for w in self.wires.iter().filter(|_| self.open.is_some() && !self.slow) {
            let most = self.session.params().r2ts.min(R2TS_MAX) as usize * (COMMANDS_MAX as usize + IMMEDIATE_MAX);
            assert!(w.r2ts.len() <= most, "R2Ts are as many as was agreed");
        }
    }

    /// It ends: all that is under way comes back, and nothing is held.
    fn end(mut self) {
        self.session.close();
        (self.slow, self.volumes.hold) = (false, false);
        self.open = None;
        self.turn_wheels();
        for w in core::mem::take(&mut self.wires) {
            self.session.leave(w.number);
        }
        while let Some(request) = self.asked.pop_front() {
            self.session.on_answer(&mut cx!(self), (request.request & 0xFFFF) as u16, Err(Refused::Failed));
        }
        assert_eq!((self.session.running(), self.session.held_bytes()), (0, 0), "nothing is held");
    }
}

/// See the module.
pub fn iscsi_session(data: &[u8]) {
    let mut c = Choices::new(data);
    let mut b = Bench::new(c.of(&KEYS));
    for _ in 0..OPS_MAX {
        if c.is_empty() || b.is_over() {
            break;
        }
        step(&mut b, &mut c);
        b.turn_wheels();
        if b.session.connections().count() == 0 {
            break;
        }
    }
    b.end();
}

fn step(b: &mut Bench, c: &mut Choices<'_>) {
    let live: Vec<usize> = (0..b.wires.len()).filter(|at| !b.wires[*at].over && !b.session.is_wire_over(b.wires[*at].number)).collect();
    if live.is_empty() {
        return b.session.close();
    }
    let at = live[c.below(live.len() as u32) as usize];
    let piece = c.of(&[usize::MAX, 1, 7, 48, 513]);
    let bent = if c.once_in(8) { c.bytes(6) } else { &[] };
    let sn = b.cmd_sn.wrapping_add(if c.once_in(6) { c.below(4) } else { 0 });
    let immediate = c.once_in(8);
    let numbered = |b: &mut Bench, pdu: HostPdu, data: &[u8]| {
        let mut header = pdu.to_header(data.len());
        header[0] |= if immediate { 0x40 } else { 0 };
        if !immediate && sn == b.cmd_sn {
            b.cmd_sn = sn.wrapping_add(1);
        }
        b.send(at, header, data, bent, piece);
    };
    match c.below(16) {
        0..=5 => {
            let mut cdb = [0; 16];
            cdb[0] = c.of(&CDBS);
            let (lba, blocks) = (c.of(&[0, 1, 8, 255, 4095, 0xFFFF_FFFF]), c.of(&[1u16, 0, 2, 16, 256, 0xFFFF]));
            match cdb[0] >> 5 {
                4 => (cdb[6..10].copy_from_slice(&u32::to_be_bytes(lba)), cdb[10..14].copy_from_slice(&u32::from(blocks).to_be_bytes())),
                0 => (cdb[2..4].copy_from_slice(&(lba as u16).to_be_bytes()), cdb[4..5].copy_from_slice(&[blocks as u8])),
                _ => (cdb[2..6].copy_from_slice(&u32::to_be_bytes(lba)), cdb[7..9].copy_from_slice(&blocks.to_be_bytes())),
            };
            patch(&mut cdb[1..], c.bytes(6));
            let (data, last) = (c.bytes(600), !c.once_in(4));
            let expected = c.of(&[512, 4096, 0, 8192, 131_072, 1 << 20, u32::MAX]);
            let write = c.any::<bool>();
            b.tag = b.tag.wrapping_add(1);
            let command = ScsiCommand {
                last,
                read: !write && expected > 0,
                write,
                lun: Lun::Unit(c.below(5).into()).to_bytes(),
                tag: if c.once_in(12) { c.below(4) } else { b.tag },
                expected_bytes: expected,
                cmd_sn: sn,
                cdb,
                ..Default::default()
            };
            numbered(b, HostPdu::Command(command), if write { data } else { &[] });
        }
        6 | 7 => {
            // What was asked for, or unsolicited data.
            let asked = b.wires[at].r2ts.pop_front();
            let (tag, transfer_tag, offset, bytes) =
                asked.map_or((b.tag, NO_TAG, 512, 512), |r| (r.tag, r.transfer_tag, r.offset, r.bytes));
            let step = c.of(&[u32::MAX, 512, 1000]).min(bytes).max(bytes / 32);
            let (mut from, mut n) = (0, c.below(8) / 7);
            while from < bytes && !b.is_over() {
                let len = step.min(bytes - from);
                let last = from + len == bytes;
                let out = DataOut { last, tag, transfer_tag, data_sn: n, offset: offset + from, ..Default::default() };
                b.send(at, HostPdu::DataOut(out).to_header(len as usize), &vec![n as u8; len as usize], bent, piece);
                (from, n) = (from + len, n + 1);
            }
        }
        8 => {
            let function = c.of(&[1, 2, 4, 5, 6, 7, 8, 0]);
            let m = ManagementRequest {
                function,
                lun: Lun::Unit(c.below(4).into()).to_bytes(),
                tag: 0x8000_0000 | c.below(4),
                referenced_tag: b.tag.wrapping_sub(c.below(3)),
                cmd_sn: sn,
                ref_cmd_sn: sn.wrapping_sub(c.below(3)),
                ..Default::default()
            };
            numbered(b, HostPdu::Management(m), &[]);
        }
        9 => {
            let cid = c.below(4) as u16;
            let logout = LogoutRequest { reason: c.below(4) as u8, cid, tag: 0x4000_0000, cmd_sn: sn, ..Default::default() };
            numbered(b, HostPdu::Logout(logout), &[]);
        }
        10 => {
            let cid = 1 + c.below(CONNECTIONS as u32) as u16;
            let keys = c.of(&KEYS);
            b.join(cid, keys, bent);
        }
        11 => {
            let text =
                TextRequest { last: true, more: c.once_in(4), tag: 5, transfer_tag: c.of(&[NO_TAG, 1]), cmd_sn: sn, ..Default::default() };
            numbered(
                b,
                HostPdu::Text(text),
                c.of(&[&b"SendTargets=\0"[..], b"SendTargets=All\0", b"MaxRecvDataSegmentLength=600\0", b"X=", b""]),
            );
        }
        12 => {
            let nop = NopOut { tag: c.of(&[5, NO_TAG]), transfer_tag: c.of(&[NO_TAG, 1]), cmd_sn: sn, ..Default::default() };
            numbered(b, HostPdu::NopOut(nop), c.bytes(64));
        }
        13 => world(b, c),
        14 => {
            // A volume, or the control plane, answers one thing.
            if let Some(asked) = b.asked.pop_front() {
                let why = c.of(&[Refused::Failed, Refused::Busy]);
                b.session.on_answer(&mut cx!(b), (asked.request & 0xFFFF) as u16, Err(why));
            } else if !b.volumes.held.is_empty() {
                let request = b.volumes.held.swap_remove(c.below(b.volumes.held.len() as u32) as usize);
                let fail = c.of(&[None, Some(IoError::NoSpace), Some(IoError::Media { offset: 0 }), Some(IoError::Withdrawn)]);
                let done = b.volumes.answer(request, fail);
                b.done(done);
            }
        }
        _ => {
            let bytes = c.bytes(200);
            if !bytes.is_empty() {
                b.open = None;
                b.feed(at, bytes, piece);
            }
        }
    }
}

/// Something that is not the host's doing.
fn world(b: &mut Bench, c: &mut Choices<'_>) {
    match c.below(8) {
        0 => b.volumes.hold = !b.volumes.hold,
        1 => b.slow = !b.slow,
        2 => b.session.on_tick(&mut cx!(b)),
        3 => {
            let wires: Vec<usize> = b.wires.iter().map(|w| w.number).collect();
            wires.into_iter().for_each(|number| b.session.ping(number));
        }
        4 => {
            let volume = b.view.volumes[c.below(2) as usize].as_mut();
            let volume = volume.expect("it is never taken away");
            volume.volume.write_protect = c.of(&[WriteProtect::None, WriteProtect::Protected]);
            b.session.apply(&b.view);
        }
        5 => {
            b.view.targets[0].units.remove(&c.below(4));
            b.session.apply(&b.view);
        }
        6 => {
            // All functions that concern others, too, are done.
            let tags: Vec<u32> =
                b.events.iter().filter_map(|(_, e)| if let SessionEvent::Reset { tag, .. } = e { Some(*tag) } else { None }).collect();
            b.events.clear();
            let done = c.any();
            tags.into_iter().for_each(|tag| b.session.on_reset_done(tag, done));
        }
        _ => {
            // A connection is lost that had left, or the last of its PDUs are sent.
            let left: Vec<usize> = b.wires.iter().filter(|w| b.session.is_wire_over(w.number)).map(|w| w.number).collect();
            for number in left {
                b.session.leave(number);
                b.wires.iter_mut().filter(|w| w.number == number).for_each(|w| w.over = true);
            }
        }
    }
}

//! A session without I/O, and its host.

use super::client::{Came, Client};
use super::memory::Memory;
use super::view;
use crate::login::status;
use crate::session::{Asked, Cx, Session, SessionEvent};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::view::View;
use base::Instant;
use format::iscsi::TargetPdu;
use format::scsi::{ScsiStatus, Sense, SenseCode, SenseKey};
use frontend::{Refused, Reply};
use object::IoDone;

/// A session, its host, and all that a core has for it.
pub(super) struct Rig {
    pub(super) session: Session,
    pub(super) client: Client,
    pub(super) view: View,
    pub(super) shared: Shared,
    pub(super) memory: Memory,
    pub(super) stats: Stats,
    pub(super) events: Vec<(u64, SessionEvent)>,
    pub(super) asked: std::collections::VecDeque<Asked>,
    pub(super) away: Option<u64>,
    pub(super) now: Instant,
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig {
            session: Session::new(1 << 16, 0, None),
            client: Client::default(),
            view: view(),
            shared: Shared::default(),
            memory: Memory::default(),
            stats: Stats::default(),
            events: Vec::new(),
            asked: Default::default(),
            away: None,
            now: Instant::default(),
        }
    }
    /// Logged in, with these keys.
    pub(super) fn with(keys: &str) -> Rig {
        let mut rig = Rig::new();
        let login = rig.client.login(keys);
        let came = rig.say(&login);
        assert!(matches!(&came[..], [(TargetPdu::Login(l), _)] if l.status == status::SUCCESS && l.tsih != 0), "{came:?}");
        rig.client.digests = rig.session.params().header_digest;
        rig
    }
    /// Gives bytes to the session, and what it asks to the volumes, until nothing happens any more. What it sends.
    pub(super) fn say(&mut self, bytes: &[u8]) -> Vec<Came> {
        self.step(Some(bytes))
    }
    pub(super) fn step(&mut self, bytes: Option<&[u8]>) -> Vec<Came> {
        let sent = self.exchange(bytes);
        self.client.take(&sent)
    }
    /// The same, with the bytes that it sends.
    pub(super) fn exchange(&mut self, bytes: Option<&[u8]>) -> Vec<u8> {
        let mut ios = Vec::new();
        let Rig { session, view, shared, memory, stats, events, asked, now, .. } = self;
        let mut cx = Cx { now: *now, view, shared, draining: false, random: &mut |_| {}, ios: &mut ios, asked, stats, events };
        if let Some(bytes) = bytes {
            session.receive(&mut cx, 0, bytes);
        }
        let mut all = Vec::new();
        loop {
            memory.kept.append(cx.ios);
            if !memory.hold
                && let Some(request) = memory.kept.pop()
            {
                let done = memory.answer(request);
                session.on_io_done(&mut cx, done);
                continue;
            }
            let Some(list) = session.take_send(0) else { break };
            all.extend(list.slices(0).flatten());
            session.sent(&mut cx, 0, list);
        }
        all
    }
    /// A tick has passed.
    pub(super) fn tick(&mut self) {
        let (mut ios, Rig { session, view, shared, memory, stats, events, asked, now, .. }) = (Vec::new(), &mut *self);
        let mut cx = Cx { now: *now, view, shared, draining: false, random: &mut |_| {}, ios: &mut ios, asked, stats, events };
        session.on_tick(&mut cx);
        memory.kept.append(&mut ios);
    }
    /// A volume answers a request: what the session sends.
    pub(super) fn done(&mut self, done: IoDone) -> Vec<Came> {
        let (mut ios, Rig { session, view, shared, memory, stats, events, asked, now, .. }) = (Vec::new(), &mut *self);
        let mut cx = Cx { now: *now, view, shared, draining: false, random: &mut |_| {}, ios: &mut ios, asked, stats, events };
        session.on_io_done(&mut cx, done);
        memory.kept.append(&mut ios);
        self.step(None)
    }
    /// The control plane answers what was asked of it last: what the session sends.
    pub(super) fn answer(&mut self, result: Result<Reply, Refused>) -> Vec<Came> {
        self.take_answer(result);
        self.step(None)
    }
    /// It takes that answer; what it sends is not looked at yet.
    pub(super) fn take_answer(&mut self, result: Result<Reply, Refused>) {
        let slot = (self.away.take().expect("something was asked") & 0xFFFF) as u16;
        let (mut ios, Rig { session, view, shared, stats, events, asked, now, .. }) = (Vec::new(), &mut *self);
        let mut cx = Cx { now: *now, view, shared, draining: false, random: &mut |_| {}, ios: &mut ios, asked, stats, events };
        session.on_answer(&mut cx, slot, result);
    }
    /// A command without data or that reads: its status, sense data and data.
    pub(super) fn read(&mut self, lun: u64, cdb: &[u8], bytes: u32) -> (ScsiStatus, Option<Sense>, Vec<u8>) {
        let wire = self.client.read(lun, cdb, bytes);
        let came = self.say(&wire);
        ended(&came)
    }
    pub(super) fn write(&mut self, lun: u64, cdb: &[u8], data: &[u8]) -> (ScsiStatus, Option<Sense>, Vec<u8>) {
        let wire = self.client.write(lun, cdb, data.len() as u32, data, true);
        let came = self.say(&wire);
        ended(&came)
    }
}

/// How the one command ended that these PDUs answer.
pub(super) fn ended(came: &[Came]) -> (ScsiStatus, Option<Sense>, Vec<u8>) {
    let mut data = Vec::new();
    for (pdu, bytes) in came {
        match pdu {
            TargetPdu::DataIn(d) => {
                assert_eq!(d.offset as usize, data.len(), "in order");
                data.extend_from_slice(bytes);
                if d.has_status {
                    return (ScsiStatus::parse(d.status).unwrap(), None, data);
                }
            }
            TargetPdu::Response(r) => {
                return (ScsiStatus::parse(r.status).unwrap(), bytes.get(2..).and_then(Sense::parse), data);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("no status in {came:?}");
}

pub(super) fn read10(lba: u32, blocks: u16) -> Vec<u8> {
    [&[0x28, 0][..], &lba.to_be_bytes(), &[0], &blocks.to_be_bytes(), &[0]].concat()
}
pub(super) fn write10(lba: u32, blocks: u16) -> Vec<u8> {
    [&[0x2A, 0][..], &lba.to_be_bytes(), &[0], &blocks.to_be_bytes(), &[0]].concat()
}
pub(super) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n / 7 + n / 512) as u8).collect()
}
pub(super) fn illegal(code: SenseCode) -> Option<(SenseKey, SenseCode)> {
    Some((SenseKey::IllegalRequest, code))
}
pub(super) fn key(sense: Option<Sense>) -> Option<(SenseKey, SenseCode)> {
    sense.map(|s| (s.key, s.code))
}

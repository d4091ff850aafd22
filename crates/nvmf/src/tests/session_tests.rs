use super::client::{Client, Pdu, with_capsule, with_transport};
use super::memory::{DISK_BYTES, Memory};
use super::{HOST, NQN, view};
use crate::limits::{RETRY_IN_A_MOMENT, RETRY_LATER, RETRY_SOON, SEND_BACKLOG_MAX, UNAUTHENTICATED_BACKLOG_MAX};
use crate::session::{Call, Cx, QueueKind, Session};
use crate::shared::ControllerShared;
use crate::stats::TargetStats;
use crate::view::View;
use base::Instant;
use format::nvme::fabrics::{DISCOVERY_NQN, disconnect_sqe};
use format::nvme::io::{BlockRange, CopyCommand, CopyRange, DatasetManagement, DsmRange, flush_sqe};
use format::nvme::{AdminOpcode, Fuse, IoOpcode, NSID_ALL, Psdt, Sgl, Sqe, Status, StatusCode};
use format::nvme_tcp::fault::*;
use format::nvme_tcp::{Fault, Fes, PduType, R2t, TermReq};
use frontend::{HostLimits, Place, Quotas};
use object::{IoDone, IoError, IoRequest};
use std::sync::Arc;

/// One session with volumes in memory; Connect commands are always granted.
pub(super) struct Bench {
    pub(super) session: Session,
    view: Arc<View>,
    pub(super) memory: Memory,
    ios: Vec<IoRequest>,
    calls: Vec<(u64, Call)>,
    pub(super) stats: TargetStats,
    pub(super) client: Client,
    /// Requests are kept here instead of answered.
    pub(super) hold: bool,
    /// Bytes come in pieces of this length, and large data where it belongs.
    pub(super) pieces: Option<usize>,
    /// Bytes that came so.
    pub(super) landed: usize,
    /// Slots of event requests.
    pub(super) parked: Vec<u16>,
}

macro_rules! cx {
    ($b:ident) => {
        Cx { now: Instant(5), view: &$b.view, ios: &mut $b.ios, calls: &mut $b.calls, stats: &mut $b.stats }
    };
}

impl Bench {
    pub(super) fn new(client: Client) -> Bench {
        Bench {
            session: Session::new(1 << 16),
            view: Arc::new(view()),
            memory: Memory::default(),
            ios: vec![],
            calls: vec![],
            stats: TargetStats::default(),
            client,
            hold: false,
            pieces: None,
            landed: 0,
            parked: vec![],
        }
    }
    /// A connection that is an I/O queue of `entries` entries.
    pub(super) fn io_queue(client: Client, entries: u16) -> Bench {
        let mut b = Bench::new(client);
        let ic = b.client.ic_req();
        b.feed(&ic);
        assert!(matches!(b.next(), Some(Pdu::IcResp(r)) if r.digests == b.client.digests));
        let connect = b.client.connect(1, 1, entries, 0, NQN, HOST);
        b.feed(&connect);
        let Some(Pdu::Response(cqe)) = b.next() else { panic!("no answer to Connect") };
        assert_eq!((cqe.status, cqe.sqhd), (Status::SUCCESS, 1));
        b
    }
    /// Serves another view.
    pub(super) fn change_view(&mut self, change: impl FnOnce(&mut View)) {
        let mut view = View::clone(&self.view);
        change(&mut view);
        view.generation += 1;
        self.view = Arc::new(view);
    }
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match self.pieces {
            None => self.session.receive(&mut cx!(self), bytes),
            Some(piece) => self.feed_in_pieces(bytes, piece),
        }
        for (_, call) in core::mem::take(&mut self.calls) {
            self.on_call(call);
        }
        self.settle();
    }
    /// As the target does it: what can land is received where it belongs.
    fn feed_in_pieces(&mut self, mut bytes: &[u8], piece: usize) {
        while !bytes.is_empty() {
            let Some((mut buf, at)) = self.session.land() else {
                let (now, later) = bytes.split_at(piece.min(bytes.len()));
                self.session.receive(&mut cx!(self), now);
                bytes = later;
                continue;
            };
            let (now, later) = bytes.split_at(piece.min(at.len()).min(bytes.len()));
            buf[at.start..at.start + now.len()].copy_from_slice(now);
            self.session.landed(&mut cx!(self), buf, at.start..at.start + now.len());
            self.landed += now.len();
            bytes = later;
        }
    }
    fn on_call(&mut self, call: Call) {
        match call {
            Call::Connect(slot) => {
                let sqe = *self.session.sqe(slot).unwrap();
                let c = Arc::new(ControllerShared::new(1, 1, NQN, HOST, [7; 16], false));
                c.set_ready(true);
                let qid = (sqe.cdw10 >> 16) as u16;
                let kind = if qid == 0 { QueueKind::Admin(c) } else { QueueKind::io(c, qid) };
                self.session.admit(kind, sqe.cdw11 as u16 + 1, sqe.cdw11 >> 18 & 1 == 0);
                self.session.complete(&mut cx!(self), slot, Status::SUCCESS, 1);
            }
            Call::Admin(slot) if self.session.sqe(slot).is_some_and(|sqe| sqe.opcode == 0x7F && sqe.fctype() == 8) => {
                self.session.disconnect(&mut cx!(self), slot);
            }
            Call::Admin(slot) if self.session.sqe(slot).is_some_and(|sqe| sqe.opcode == AdminOpcode::AsyncEventRequest.byte()) => {
                self.session.park(slot);
                self.parked.push(slot);
            }
            Call::Admin(slot) => self.session.complete(&mut cx!(self), slot, Status::SUCCESS, 77),
        }
    }
    /// An event is there for this event request.
    pub(super) fn complete_parked(&mut self, slot: u16) {
        self.session.complete_parked(&mut cx!(self), slot, Status::SUCCESS, 1);
        self.settle();
    }
    pub(super) fn abort(&mut self, cid: u16) -> crate::session::Aborted {
        let aborted = self.session.abort(&mut cx!(self), cid);
        self.settle();
        aborted
    }
    /// The connection ends.
    pub(super) fn end(&mut self) {
        self.session.end();
    }
    /// The requests that are kept, to be given to [`Bench::answer`].
    pub(super) fn take_requests(&mut self) -> Vec<IoRequest> {
        core::mem::take(&mut self.ios)
    }
    /// Answers a request that was taken.
    pub(super) fn answer(&mut self, request: IoRequest) {
        let done = self.memory.answer(request);
        self.session.on_io_done(&mut cx!(self), done);
        self.settle();
    }
    /// A request that was taken may begin: a limit has held it back.
    pub(super) fn may_begin(&mut self, token: u64) -> bool {
        self.session.may_begin(&cx!(self), token)
    }
    /// The answer to a request that was taken and may not begin.
    pub(super) fn withdraw(&mut self, token: u64) {
        let done = IoDone { token, result: Err(IoError::Withdrawn), data: Default::default() };
        self.session.on_io_done(&mut cx!(self), done);
        self.settle();
    }
    /// Answers the oldest request that is kept; whether there was one.
    pub(super) fn answer_one(&mut self) -> bool {
        if self.ios.is_empty() {
            return false;
        }
        let done = self.memory.answer(self.ios.remove(0));
        self.session.on_io_done(&mut cx!(self), done);
        self.settle();
        true
    }
    /// Answers requests and sends what there is until nothing is left.
    pub(super) fn settle(&mut self) {
        loop {
            let mut moved = false;
            if !self.hold {
                for request in core::mem::take(&mut self.ios) {
                    moved = true;
                    let done = self.memory.answer(request);
                    self.session.on_io_done(&mut cx!(self), done);
                }
            }
            while let Some(list) = self.session.take_send() {
                moved = true;
                for piece in list.slices(0) {
                    self.client.incoming.extend_from_slice(piece);
                }
                self.session.sent(&mut cx!(self), list);
            }
            if !moved {
                return;
            }
        }
    }
    pub(super) fn next(&mut self) -> Option<Pdu> {
        self.client.next()
    }
    /// Sends a command and plays its part until it is answered: status and data.
    pub(super) fn execute(&mut self, sqe: Sqe, data: &[u8]) -> (Status, Vec<u8>) {
        let in_capsule = matches!(sqe.sgl.0[15], 1);
        let capsule = self.client.capsule(sqe, if in_capsule { data } else { &[] });
        self.feed(&capsule);
        let mut got = Vec::new();
        loop {
            match self.next().expect("an answer") {
                Pdu::Response(cqe) => {
                    assert_eq!(cqe.cid, sqe.cid);
                    return (cqe.status, got);
                }
                Pdu::R2t(r2t) => {
                    let bytes = self.client.h2c_data(&r2t, data, 100_000);
                    self.feed(&bytes);
                }
                Pdu::Data(pdu, bytes) => {
                    assert_eq!((pdu.cccid, pdu.offset as usize), (sqe.cid, got.len()));
                    got.extend(bytes);
                    if pdu.success {
                        return (Status::SUCCESS, got);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    pub(super) fn status(&mut self, sqe: Sqe, data: &[u8]) -> StatusCode {
        self.execute(sqe, data).0.code
    }
}

pub(super) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 3) as u8 ^ (i >> 9) as u8 ^ seed).collect()
}

pub(super) fn rw(op: IoOpcode, nsid: u32, slba: u64, blocks: u32) -> Sqe {
    BlockRange::new(slba, (blocks - 1) as u16).sqe(op, 9, nsid)
}

pub(super) fn all_clients() -> impl Iterator<Item = Client> {
    [(false, false), (true, false), (false, true), (true, true)]
        .into_iter()
        .flat_map(|(h, d)| [0, 3, 31].map(|hpda| Client::new(h, d, hpda)))
}

#[test]
fn what_is_written_is_read_back_with_every_digest_and_alignment() {
    let pieces = [None, Some(777), Some(12_000), Some(1 << 20)];
    for (client, pieces) in pieces.into_iter().flat_map(|p| all_clients().map(move |c| (c, p))) {
        let mut b = Bench::io_queue(client, 32);
        b.pieces = pieces;
        // In the capsule, by R2T, across a piece, not aligned to 4 KiB, of 4096-byte blocks.
        for (nsid, slba, blocks, capsule) in [
            (1, 0u64, 8u32, true),
            (1, 8, 32, true),
            (1, 100, 2048, false),
            (1, 2047, 3, false),
            (1, 2041, 16, true),
            (1, 2040, 16, true),
            (2, 255, 2, false),
            (2, 255, 2, true),
            (2, 1, 200, false),
        ] {
            let bytes = blocks as usize * if nsid == 1 { 512 } else { 4096 };
            let data = pattern(bytes, slba as u8);
            let write = rw(IoOpcode::Write, nsid, slba, blocks);
            let len = bytes as u32;
            let write = if capsule { with_capsule(write, len) } else { with_transport(write, len) };
            assert_eq!(b.execute(write, &data).0, Status::SUCCESS, "{nsid} {slba} {blocks}");
            let read = with_transport(rw(IoOpcode::Read, nsid, slba, blocks), len);
            let (status, got) = b.execute(read, &[]);
            assert!(status.is_success() && got == data, "{nsid} {slba} {blocks}");
            let compare = with_transport(rw(IoOpcode::Compare, nsid, slba, blocks), len);
            assert_eq!(b.status(compare, &data), StatusCode::SUCCESS);
            let mut other = data.clone();
            other[bytes - 1] ^= 1;
            assert_eq!(b.status(compare, &other), StatusCode::COMPARE_FAILURE);
        }
        assert_eq!((b.session.held(), b.session.outstanding(), b.session.running()), (0, 0, 0));
        assert_eq!(b.landed > 0, pieces.is_some_and(|p| p < 100_000), "all of a PDU at once leaves nothing to land");
    }
}

#[test]
fn data_that_lands_is_thrown_away_when_its_command_is_aborted_meanwhile_or_the_connection_ends() {
    for ends in [false, true] {
        let mut b = Bench::io_queue(Client::new(false, true, 0), 8);
        let data = pattern(65536, 3);
        let write = with_transport(rw(IoOpcode::Write, 1, 0, 128), 65536);
        let capsule = b.client.capsule(write, &[]);
        b.feed(&capsule);
        let Some(Pdu::R2t(r2t)) = b.next() else { panic!("no R2T") };
        assert!(b.session.awaits_large());
        let bytes = b.client.h2c_data(&r2t, &data, 100_000);
        b.feed(&bytes[..1000]);
        let (buf, at) = b.session.land().expect("most of the data is to come");
        assert_eq!((at.start, at.end), (1000 - 24, 65536));
        if ends {
            b.end();
            b.session.landed(&mut cx!(b), buf, at);
        } else {
            assert_eq!(b.abort(write.cid), crate::session::Aborted::Yes);
            assert!(matches!(b.next(), Some(Pdu::Response(c)) if c.status.code == StatusCode::ABORT_REQUESTED));
            b.session.landed(&mut cx!(b), buf, at.start..at.start + 20_000);
            assert!(b.session.land().is_none(), "there is no place for it any more");
            b.feed(&bytes[21_000..]);
            assert_eq!(b.status(write, &data), StatusCode::SUCCESS, "and the queue goes on");
            assert_eq!(b.memory.requests, 1);
        }
        assert!(!b.session.awaits_large());
        assert_eq!((b.session.held(), b.session.outstanding(), b.session.running()), (0, 0, 0));
    }
}

#[test]
fn of_two_disconnects_at_once_both_are_answered_and_the_first_last() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 8);
    let both = [7, 8].map(|cid| b.client.capsule(disconnect_sqe(cid), &[])).concat();
    b.feed(&both);
    let mut answer = || match b.next() {
        Some(Pdu::Response(cqe)) => (cqe.cid, cqe.status.code),
        other => panic!("{other:?}"),
    };
    assert_eq!([answer(), answer()], [(8, StatusCode::ABORTED_SQ_DELETION), (7, StatusCode::SUCCESS)]);
    assert_eq!((b.session.running(), b.session.outstanding()), (0, 0));
}

#[test]
fn one_byte_at_a_time_gives_the_same_answers() {
    let mut b = Bench::io_queue(Client::new(true, true, 0), 8);
    let data = pattern(8192, 1);
    let capsule = b.client.capsule(with_capsule(rw(IoOpcode::Write, 1, 16, 16), 8192), &data);
    for byte in capsule {
        b.feed(&[byte]);
    }
    assert!(matches!(b.next(), Some(Pdu::Response(c)) if c.status.is_success()));
    assert_eq!(&b.memory.disks.0.borrow()[&0][8192..16384], &data[..]);
}

#[test]
fn ranges_are_zeroed_and_deallocated() {
    let mut b = Bench::io_queue(Client::new(false, true, 0), 8);
    let data = pattern(1 << 20, 3);
    assert_eq!(b.status(with_transport(rw(IoOpcode::Write, 1, 0, 2048), 1 << 20), &data), StatusCode::SUCCESS);
    let zero = BlockRange { deac: true, ..BlockRange::new(8, 7) }.sqe(IoOpcode::WriteZeroes, 4, 1);
    assert_eq!(b.status(with_transport(zero, 0), &[]), StatusCode::SUCCESS);
    let ranges: Vec<u8> = (0..256u64).flat_map(|i| DsmRange { attributes: 0, blocks: 1, slba: 16 + i * 2 }.to_bytes()).collect();
    let dsm = DatasetManagement { nr: 255, idr: false, idw: false, ad: true }.sqe(5, 1);
    assert_eq!(b.status(with_capsule(dsm, 4096), &ranges), StatusCode::SUCCESS);
    assert_eq!(b.status(with_transport(dsm, 4096), &ranges), StatusCode::SUCCESS);
    // As Linux does it: two ranges in room for 256, and what is behind them means nothing.
    let two = DatasetManagement { nr: 1, idr: false, idw: false, ad: true }.sqe(5, 1);
    let mut room = vec![0xFF; 4096];
    room[..32].copy_from_slice(&ranges[..32]);
    assert_eq!(b.status(with_transport(two, 4096), &room), StatusCode::SUCCESS);
    assert_eq!(b.status(with_capsule(two, 4096), &room), StatusCode::SUCCESS);
    assert_eq!(b.status(with_transport(two, 8192), &[room.clone(), room.clone()].concat()), StatusCode::DATA_SGL_LENGTH_INVALID);
    assert_eq!(b.status(with_transport(two, 16), &room[..16]), StatusCode::DATA_SGL_LENGTH_INVALID);
    let disks = b.memory.disks.0.borrow();
    let disk = &disks[&0];
    assert!(disk[4096..8192].iter().all(|b| *b == 0));
    for lba in 16..16 + 512 {
        let sector = &disk[lba * 512..][..512];
        let gone = sector.iter().all(|b| *b == 0);
        assert!(if lba % 2 == 0 { gone } else { sector == &data[lba * 512..][..512] }, "{lba}");
    }
}

#[test]
fn a_range_out_of_bounds_changes_nothing() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 8);
    let good = DsmRange { attributes: 0, blocks: 8, slba: 0 }.to_bytes();
    let bad = DsmRange { attributes: 0, blocks: 1, slba: u64::MAX }.to_bytes();
    let dsm = DatasetManagement { nr: 1, idr: false, idw: false, ad: true }.sqe(5, 1);
    let list = [good, bad].concat();
    assert_eq!(b.status(with_capsule(dsm, 32), &list), StatusCode::LBA_OUT_OF_RANGE);
    assert_eq!(b.memory.requests, 0);
}

#[test]
fn a_wrong_command_gets_its_status_and_the_queue_goes_on() {
    let blocks = (DISK_BYTES / 512) as u64;
    let read = |nsid, slba, n: u32| with_transport(rw(IoOpcode::Read, nsid, slba, n), n * 512);
    let write = |nsid, slba, n: u32| with_capsule(rw(IoOpcode::Write, nsid, slba, n), n * 512);
    let ok = read(1, 0, 1);
    let sector = [0u8; 512];
    let cases: &[(&str, Sqe, &[u8], StatusCode)] = &[
        ("unknown opcode", Sqe { opcode: 0x92, ..ok }, &[], StatusCode::INVALID_OPCODE),
        ("unsupported opcode", Sqe { opcode: IoOpcode::Fabrics.byte() - 1, ..ok }, &[], StatusCode::INVALID_OPCODE),
        ("namespace 0", Sqe { nsid: 0, ..ok }, &[], StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        ("namespace not there", Sqe { nsid: 7, ..ok }, &[], StatusCode::INVALID_FIELD),
        ("all namespaces", Sqe { nsid: NSID_ALL, ..ok }, &[], StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        ("past the end", read(1, blocks, 1), &[], StatusCode::LBA_OUT_OF_RANGE),
        ("across the end", read(1, blocks - 1, 2), &[], StatusCode::LBA_OUT_OF_RANGE),
        ("address overflow", read(1, u64::MAX, 1), &[], StatusCode::LBA_OUT_OF_RANGE),
        ("more than MDTS", read(1, 0, 2049), &[], StatusCode::INVALID_FIELD),
        ("SGL too short", with_transport(ok, 511), &[], StatusCode::DATA_SGL_LENGTH_INVALID),
        ("SGL too long", with_transport(ok, 1024), &[], StatusCode::DATA_SGL_LENGTH_INVALID),
        ("write without data", Sqe { sgl: Sgl::default(), ..write(1, 0, 1) }, &[], StatusCode::DATA_SGL_LENGTH_INVALID),
        ("fused", Sqe { fuse: Fuse::First, ..ok }, &[], StatusCode::INVALID_FIELD),
        ("PRPs", Sqe { psdt: Psdt::Prp, ..ok }, &[], StatusCode::INVALID_FIELD),
        ("keyed SGL", Sqe { sgl: Sgl([0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0x40]), ..ok }, &[], StatusCode::SGL_TYPE_INVALID),
        ("read into the capsule", with_capsule(ok, 512), &[0; 512], StatusCode::SGL_TYPE_INVALID),
        ("offset in the capsule", Sqe { sgl: Sgl::in_capsule(8, 512), ..write(1, 0, 1) }, &sector, StatusCode::SGL_OFFSET_INVALID),
        ("capsule shorter than its SGL", write(1, 0, 2), &sector, StatusCode::DATA_SGL_LENGTH_INVALID),
        ("read-only", write(3, 0, 1), &sector, StatusCode::NAMESPACE_WRITE_PROTECTED),
        ("Connect again", with_capsule(Sqe { opcode: 0x7F, nsid: 1, ..ok }, 512), &sector, StatusCode::COMMAND_SEQUENCE_ERROR),
    ];
    for client in [Client::new(false, false, 0), Client::new(true, true, 0)] {
        let mut b = Bench::io_queue(client, 8);
        for (what, sqe, data, code) in cases {
            assert_eq!(b.status(*sqe, data), *code, "{what}");
            assert_eq!(b.status(ok, &[]), StatusCode::SUCCESS, "after {what}");
        }
        assert_eq!(b.status(flush_sqe(3, 1), &[]), StatusCode::SUCCESS);
        assert_eq!(b.status(flush_sqe(3, NSID_ALL), &[]), StatusCode::SUCCESS);
        assert_eq!((b.session.held(), b.session.outstanding()), (0, 0));
    }
}

#[test]
fn a_failing_volume_becomes_a_status() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 8);
    let read = with_transport(rw(IoOpcode::Read, 1, 0, 1), 512);
    for (e, code) in [
        (IoError::NoSpace, StatusCode::CAPACITY_EXCEEDED),
        (IoError::Media { offset: 0 }, StatusCode::UNRECOVERED_READ_ERROR),
        (IoError::NoVolume, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (IoError::Failed, StatusCode::NAMESPACE_NOT_READY),
    ] {
        b.memory.fail = Some(e);
        assert_eq!(b.status(read, &[]), code);
    }
    b.memory.fail = Some(IoError::Closing);
    assert!(!b.execute(read, &[]).0.dnr, "a host that shuts down is worth a retry");
}

/// Linux tries again at once, five times, and gives up: unless an answer says how long to wait, which it has to know of first.
#[test]
fn what_passes_is_to_be_tried_again_after_a_delay_and_what_lasts_is_not() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 8);
    let read = with_transport(rw(IoOpcode::Read, 1, 0, 1), 512);
    let write = with_capsule(rw(IoOpcode::Write, 1, 0, 1), 512);
    let mut answer = |fail: IoError, sqe: Sqe, knows: bool| {
        b.memory.fail = Some(fail);
        b.session.controller().unwrap().set_retry_delays(knows);
        let data: &[u8] = if sqe.opcode == IoOpcode::Write.byte() { &[0; 512] } else { &[] };
        let status = b.execute(sqe, data).0;
        (status.code, status.crd, status.dnr)
    };
    let not_ready = StatusCode::NAMESPACE_NOT_READY;
    assert_eq!(answer(IoError::Failed, write, true), (not_ready, RETRY_LATER, false));
    assert_eq!(answer(IoError::Failed, read, true), (not_ready, RETRY_SOON, false));
    assert_eq!(answer(IoError::Closing, write, true), (not_ready, RETRY_IN_A_MOMENT, false));
    // A host with several paths goes to another one at once; one without waits.
    assert_eq!(answer(IoError::NotOwner, write, true), (StatusCode::ANA_TRANSITION, RETRY_IN_A_MOMENT, false));
    assert_eq!(answer(IoError::Failed, write, false), (not_ready, 0, false), "a reserved field for a host that does not know it");
    assert_eq!(answer(IoError::NoSpace, write, true), (StatusCode::CAPACITY_EXCEEDED, 0, true), "Linux: ENOSPC");
}

/// What each malformed PDU on a live queue of plain PDUs is answered.
#[test]
fn every_malformed_pdu_ends_in_a_termination_with_its_reason() {
    let c = Client::new(false, false, 0);
    let capsule = |at: usize, v: u8| {
        let mut p = c.capsule(with_transport(rw(IoOpcode::Read, 1, 0, 1), 512), &[]);
        p[at] = v;
        p
    };
    let cases: Vec<(&str, Vec<u8>, Fault)> = vec![
        ("second ICReq", c.ic_req(), Fault::SEQUENCE),
        ("unknown type", capsule(0, 0x0A), Fault::field(AT_TYPE)),
        ("a controller's type", capsule(0, 0x07), Fault::field(AT_TYPE)),
        ("reserved flags", capsule(1, 0x40), Fault::field(AT_FLAGS)),
        ("a digest that was not agreed", capsule(1, 0x01), Fault::field(AT_FLAGS)),
        ("header length", capsule(2, 71), Fault::field(AT_HLEN)),
        ("data offset", capsule(4, 80), Fault::field(AT_PDO)),
        ("length", capsule(7, 0x80), Fault::field(AT_PDO)),
        ("H2CData nobody asked for", c.data_pdu(&pdu(9, 0, 0, 512, true), &[0; 512]), Fault::field(AT_DATA_TTAG)),
    ];
    for (what, bytes, fault) in cases {
        let mut b = Bench::io_queue(Client::new(false, false, 0), 8);
        b.feed(&bytes);
        expect_end(&mut b, what, fault, &bytes);
    }
}

fn pdu(cccid: u16, ttag: u16, offset: u32, bytes: u32, last: bool) -> format::nvme_tcp::DataPdu {
    format::nvme_tcp::DataPdu { cccid, ttag, offset, bytes, last, success: false }
}

fn expect_end(b: &mut Bench, what: &str, fault: Fault, wrong: &[u8]) {
    let Some(Pdu::Term(term, header)) = b.next() else { panic!("{what}: no termination") };
    assert_eq!((term.fes, term.fei), (fault.fes as u16, fault.fei), "{what}");
    assert_eq!(&header[..8], &wrong[..8], "{what}: the header that was wrong");
    assert!(b.session.is_ended(), "{what}");
    assert_eq!((b.session.held(), b.session.outstanding()), (0, 0), "{what}");
    let before = b.stats.pdus_out;
    b.feed(&[0; 4096]);
    assert!(b.next().is_none() && b.stats.pdus_out == before, "{what}: silent after its end");
    assert_eq!(b.stats.terminations[fault.fes as usize], 1, "{what}");
}

/// Data that is not what an R2T asked for.
#[test]
fn data_must_be_what_was_asked_for() {
    type Wrong = fn(&Client, &R2t) -> Vec<u8>;
    let cases: &[(&str, Wrong, Fault)] = &[
        ("wrong command", |c, r| c.data_pdu(&pdu(r.cccid + 1, r.ttag, 0, 8192, true), &[0; 8192]), Fault::field(AT_DATA_CCCID)),
        ("wrong tag", |c, r| c.data_pdu(&pdu(r.cccid, r.ttag + 1, 0, 8192, true), &[0; 8192]), Fault::field(AT_DATA_TTAG)),
        ("wrong offset", |c, r| c.data_pdu(&pdu(r.cccid, r.ttag, 4096, 4096, true), &[0; 4096]), Fault::plain(Fes::DataOutOfRange)),
        (
            "offset that overflows",
            |c, r| c.data_pdu(&pdu(r.cccid, r.ttag, u32::MAX - 8, 4096, true), &[0; 4096]),
            Fault::plain(Fes::DataOutOfRange),
        ),
        ("too much", |c, r| c.data_pdu(&pdu(r.cccid, r.ttag, 0, 32768 + 4, true), &[0; 32772]), Fault::plain(Fes::DataOutOfRange)),
        (
            "more than MAXH2CDATA",
            |c, r| c.data_pdu(&pdu(r.cccid, r.ttag, 0, (256 << 10) + 4, true), &[0; (256 << 10) + 4]),
            Fault::plain(Fes::LimitExceeded),
        ),
        ("last too early", |c, r| c.data_pdu(&pdu(r.cccid, r.ttag, 0, 4096, true), &[0; 4096]), Fault::field(AT_FLAGS)),
        ("no last at the end", |c, r| c.data_pdu(&pdu(r.cccid, r.ttag, 0, 32768, false), &[0; 32768]), Fault::field(AT_FLAGS)),
        (
            "length that is not that of the PDU",
            |c, r| {
                let mut p = c.data_pdu(&pdu(r.cccid, r.ttag, 0, 32768, true), &[0; 32768]);
                p[16] = 4;
                p
            },
            Fault::field(AT_DATA_LENGTH),
        ),
    ];
    for (what, wrong, fault) in cases {
        let mut b = Bench::io_queue(Client::new(false, false, 0), 8);
        let capsule = b.client.capsule(with_transport(rw(IoOpcode::Write, 1, 0, 64), 32768), &[]);
        b.feed(&capsule);
        let Some(Pdu::R2t(r2t)) = b.next() else { panic!("no R2T") };
        let bytes = wrong(&b.client, &r2t);
        b.feed(&bytes);
        expect_end(&mut b, what, *fault, &bytes);
        assert_eq!(b.memory.requests, 0, "{what}: nothing was written");
    }
}

#[test]
fn before_the_handshake_nothing_else_is_taken() {
    let c = Client::new(false, false, 0);
    let mut version = c.ic_req();
    version[8] = 1;
    let mut alignment = c.ic_req();
    alignment[10] = 32;
    let mut digest = c.ic_req();
    digest[11] = 0x80;
    let mut length = c.ic_req();
    length[4] = 0;
    for (what, bytes, fault) in [
        ("a capsule first", c.capsule(flush_sqe(1, 1), &[]), Fault::SEQUENCE),
        ("version", version, Fault::unsupported(AT_IC_PFV)),
        ("alignment", alignment, Fault::field(AT_IC_PDA)),
        ("digests", digest, Fault::field(AT_IC_DGST)),
        ("length", length, Fault::field(AT_PLEN)),
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec(), Fault::field(AT_TYPE)),
    ] {
        let mut b = Bench::new(Client::new(false, false, 0));
        b.feed(&bytes);
        expect_end(&mut b, what, fault, &bytes);
    }
    let mut b = Bench::new(Client::new(false, false, 0));
    b.feed(&c.ic_req());
    b.next();
    assert_eq!(b.status(with_transport(rw(IoOpcode::Read, 1, 0, 1), 512), &[]), StatusCode::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn a_wrong_header_digest_ends_the_connection_and_names_it() {
    let mut b = Bench::io_queue(Client::new(true, false, 0), 8);
    let mut bytes = b.client.capsule(with_transport(rw(IoOpcode::Read, 1, 0, 1), 512), &[]);
    bytes[20] ^= 1;
    let got = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
    b.feed(&bytes);
    expect_end(&mut b, "header digest", Fault { fes: Fes::HeaderDigest, fei: got }, &bytes);
}

#[test]
fn a_wrong_data_digest_fails_its_command_only() {
    for (bytes, pieces) in [(4096usize, None), (512, None), (65536, None), (65536, Some(3000))] {
        let mut b = Bench::io_queue(Client::new(true, true, 0), 8);
        b.pieces = pieces;
        let data = pattern(bytes, 9);
        let in_capsule = bytes <= 8192;
        let write = rw(IoOpcode::Write, 1, 0, bytes as u32 / 512);
        if in_capsule {
            let mut p = b.client.capsule(with_capsule(write, bytes as u32), &data);
            let at = p.len() - 5;
            p[at] ^= 0x10;
            b.feed(&p);
        } else {
            let capsule = b.client.capsule(with_transport(write, bytes as u32), &[]);
            b.feed(&capsule);
            let Some(Pdu::R2t(r2t)) = b.next() else { panic!("no R2T") };
            let mut p = b.client.h2c_data(&r2t, &data, 32768);
            p[10_000] ^= 1; // In the first of two: the rest is still taken.
            b.feed(&p);
        }
        let Some(Pdu::Response(cqe)) = b.next() else { panic!("no answer") };
        assert_eq!(cqe.status, Status::retry(StatusCode::TRANSIENT_TRANSPORT_ERROR), "{bytes}");
        assert_eq!((b.memory.requests, b.stats.data_digest_errors), (0, 1));
        let again = with_transport(write, bytes as u32);
        assert_eq!(b.status(again, &data), StatusCode::SUCCESS);
    }
}

#[test]
fn more_commands_than_the_queue_holds_end_the_connection() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 4);
    b.hold = true;
    let read = |cid| Sqe { cid, ..with_transport(rw(IoOpcode::Read, 1, 0, 1), 512) };
    for cid in 0..4 {
        let p = b.client.capsule(read(cid), &[]);
        b.feed(&p);
    }
    assert!(b.session.is_live());
    let p = b.client.capsule(read(4), &[]);
    b.feed(&p);
    expect_end(&mut b, "one too many", Fault::SEQUENCE, &p);
}

#[test]
fn an_identifier_in_use_is_refused_and_the_first_command_is_answered() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 8);
    b.hold = true;
    let p = b.client.capsule(with_transport(rw(IoOpcode::Read, 1, 0, 1), 512), &[]);
    b.feed(&p);
    b.feed(&p);
    assert!(matches!(b.next(), Some(Pdu::Response(c)) if c.status.code == StatusCode::COMMAND_ID_CONFLICT));
    b.hold = false;
    b.settle();
    assert!(matches!(b.next(), Some(Pdu::Data(..))));
    assert!(matches!(b.next(), Some(Pdu::Response(c)) if c.status.is_success()));
    assert_eq!(b.status(with_transport(rw(IoOpcode::Read, 1, 0, 1), 512), &[]), StatusCode::SUCCESS);
}

#[test]
fn commands_wait_for_buffers_in_their_order_and_all_are_answered() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 64);
    b.hold = true;
    for cid in 0..40u16 {
        let op = if cid % 3 == 0 { IoOpcode::Write } else { IoOpcode::Read };
        let p = b.client.capsule(with_transport(Sqe { cid, ..rw(op, 1, 0, 2048) }, 1 << 20), &[]);
        b.feed(&p);
    }
    assert!(b.session.held() <= crate::limits::DATA_HELD_MAX);
    assert!(b.stats.waited_for_buffers > 0);
    b.hold = false;
    let data = pattern(1 << 20, 0);
    let mut answered = 0;
    b.settle();
    while answered < 40 {
        match b.next().expect("progress") {
            Pdu::R2t(r2t) => {
                let p = b.client.h2c_data(&r2t, &data, 200_000);
                b.feed(&p);
            }
            Pdu::Response(cqe) => {
                assert!(cqe.status.is_success());
                answered += 1;
            }
            Pdu::Data(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((b.session.held(), b.session.outstanding()), (0, 0));
}

/// A host that sends large data and, in between, a write whose data comes in its capsule: commands that were asked for their data hold all the memory that the queue
/// may have, and wait for bytes.
fn is_read_while_asked(mut b: Bench, large: u16) {
    let data = pattern(1 << 20, 0);
    let mut asked = Vec::new();
    for cid in 0..large {
        let p = b.client.capsule(with_transport(Sqe { cid, ..rw(IoOpcode::Write, 1, 0, 2048) }, 1 << 20), &[]);
        b.feed(&p);
        let Some(Pdu::R2t(r2t)) = b.next() else { panic!("asked for") };
        asked.push(r2t);
    }
    let mut bytes = b.client.capsule(with_capsule(Sqe { cid: 900, ..rw(IoOpcode::Write, 1, 4096, 8) }, 4096), &data[..4096]);
    bytes.extend(asked.iter().flat_map(|r2t| b.client.h2c_data(r2t, &data, 200_000)));
    for piece in bytes.chunks(1000) {
        assert!(b.session.wants_bytes(), "nothing else will ever bring memory back");
        b.feed(piece);
    }
    let statuses: Vec<_> = core::iter::from_fn(|| b.next()).map(|pdu| matches!(pdu, Pdu::Response(c) if c.status.is_success())).collect();
    assert_eq!(statuses, vec![true; usize::from(large) + 1]);
    assert_eq!((b.session.held(), b.session.outstanding()), (0, 0));
}

#[test]
fn a_queue_that_holds_all_it_may_is_read_on_when_what_it_holds_waits_for_data() {
    is_read_while_asked(Bench::io_queue(Client::new(false, false, 0), 64), 8);
}

#[test]
fn a_queue_of_a_host_without_memory_left_is_read_on_when_what_it_holds_waits_for_data() {
    let (b, _other) = without_memory();
    is_read_while_asked(b, 1);
}

/// A queue of a host whose memory other connections have used up.
pub(super) fn without_memory() -> (Bench, Place) {
    let quotas = Arc::new(Quotas::new(1 << 30));
    let limits = HostLimits { connections: 2, memory: 1 << 20 };
    let mut other = quotas.enter(HOST, limits).unwrap();
    assert!(other.covers(1 << 20));
    let mut b = Bench::io_queue(Client::new(false, false, 0), 64);
    b.session.set_place(quotas.enter(HOST, limits));
    (b, other)
}

#[test]
fn commands_that_hold_their_capsules_only_go_on_one_by_one_when_the_host_has_no_memory_left() {
    let (mut b, _other) = without_memory();
    b.hold = true;
    for cid in 0..6u64 {
        let copy = CopyCommand { sdlba: 100 + cid, nr: 0, desfmt: 0, dtype: 0 }.sqe(cid as u16, 1);
        let p = b.client.capsule(with_capsule(copy, 32), &CopyRange { slba: cid, nlb: 0 }.to_bytes());
        b.feed(&p);
    }
    assert_eq!(b.stats.waited_for_buffers, 5);
    b.hold = false;
    b.settle();
    let answered = core::iter::from_fn(|| b.next()).filter(|pdu| matches!(pdu, Pdu::Response(c) if c.status.is_success())).count();
    assert_eq!((answered, b.session.held(), b.session.outstanding()), (6, 0, 0));
}

/// The last command that runs ends while a capsule is coming in. What that holds is no command's that waits, so nobody is woken then.
#[test]
fn commands_that_wait_go_on_when_the_last_capsule_has_come_whole() {
    last_capsule_wakes();
}

#[cfg(feature = "hooks")]
#[test]
fn a_last_capsule_that_wakes_nobody_is_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::LastCapsuleWakesNobody, last_capsule_wakes);
}

fn last_capsule_wakes() {
    let (mut b, _other) = without_memory();
    b.hold = true;
    let capsule = |cid: u16| {
        let copy = CopyCommand { sdlba: 100 + u64::from(cid), nr: 0, desfmt: 0, dtype: 0 }.sqe(cid, 1);
        b.client.capsule(with_capsule(copy, 32), &CopyRange { slba: u64::from(cid), nlb: 0 }.to_bytes())
    };
    let (runs, waits, comes) = (capsule(0), capsule(1), capsule(2));
    b.feed(&runs);
    b.feed(&waits);
    let (first, rest) = comes.split_at(comes.len() - 16);
    b.feed(first);
    b.hold = false;
    b.settle();
    assert_eq!((b.session.running(), b.session.outstanding()), (0, 2), "one has ended, one waits, one is coming");
    b.feed(rest);
    b.settle();
    let answered = core::iter::from_fn(|| b.next()).filter(|pdu| matches!(pdu, Pdu::Response(c) if c.status.is_success())).count();
    assert_eq!((answered, b.session.held(), b.session.outstanding()), (3, 0, 0));
}

#[test]
fn the_second_half_of_a_pair_goes_on_when_the_host_has_no_memory_left_but_that_of_the_first() {
    second_half_goes_on(true);
}

#[test]
fn the_second_half_of_a_pair_goes_on_when_the_data_of_the_first_was_asked_for_and_has_come() {
    second_half_goes_on(false);
}

#[cfg(feature = "hooks")]
#[test]
fn a_half_that_wakes_nobody_is_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::HalfWakesNobody, || second_half_goes_on(false));
}

fn second_half_goes_on(in_capsule: bool) {
    let (mut b, _other) = without_memory();
    let first = Sqe { cid: 1, fuse: Fuse::First, ..rw(IoOpcode::Compare, 1, 8, 8) };
    let second = Sqe { cid: 2, fuse: Fuse::Second, ..rw(IoOpcode::Write, 1, 8, 8) };
    let zeroes = vec![0; 4096];
    let p = match in_capsule {
        true => b.client.capsule(with_capsule(first, 4096), &zeroes),
        false => b.client.capsule(with_transport(first, 4096), &[]),
    };
    b.feed(&p);
    let p = b.client.capsule(with_transport(second, 4096), &[]);
    b.feed(&p);
    if !in_capsule {
        let Some(Pdu::R2t(r2t)) = b.next() else { panic!("asked for") };
        let p = b.client.h2c_data(&r2t, &zeroes, 4096);
        b.feed(&p);
    }
    let Some(Pdu::R2t(r2t)) = b.next() else { panic!("asked for") };
    let p = b.client.h2c_data(&r2t, &pattern(4096, 1), 4096);
    b.feed(&p);
    for cid in 1..=2 {
        assert!(matches!(b.next(), Some(Pdu::Response(c)) if c.cid == cid && c.status.is_success()));
    }
}

#[test]
fn a_queue_that_holds_all_it_may_is_not_read_while_commands_run() {
    let mut b = Bench::io_queue(Client::new(false, false, 0), 64);
    b.hold = true;
    for cid in 0..8u16 {
        let p = b.client.capsule(with_transport(Sqe { cid, ..rw(IoOpcode::Read, 1, 0, 2048) }, 1 << 20), &[]);
        b.feed(&p);
    }
    let p = b.client.capsule(with_capsule(Sqe { cid: 900, ..rw(IoOpcode::Write, 1, 4096, 8) }, 4096), &[7; 4096]);
    b.feed(&p);
    assert!(!b.session.wants_bytes());
    b.hold = false;
    b.settle();
    assert!(b.session.wants_bytes() && b.session.held() == 0);
}

#[test]
fn a_peer_that_takes_no_answers_is_not_read_and_one_that_is_not_known_even_sooner() {
    for (unknown, backlog_max) in [(false, SEND_BACKLOG_MAX), (true, UNAUTHENTICATED_BACKLOG_MAX)] {
        let mut b = Bench::io_queue(Client::new(false, false, 0), 1024);
        b.session.set_unauthenticated(unknown);
        let mut backlog = 0;
        let p = b.client.capsule(flush_sqe(1, 9), &[]); // Refused, in either case.
        while b.session.wants_bytes() {
            b.session.receive(&mut cx!(b), &p);
            let list = b.session.take_send().expect("an answer");
            assert!(backlog < backlog_max, "memory would grow without end");
            backlog += list.len_bytes(); // Handed to the network, and never sent.
        }
        assert!(backlog >= backlog_max, "{backlog}");
    }
}

#[test]
fn without_flow_control_a_read_ends_with_its_data() {
    let mut b = Bench::new(Client::new(false, false, 0));
    let ic = b.client.ic_req();
    b.feed(&ic);
    b.next();
    let mut connect = b.client.connect(1, 1, 8, 0, NQN, HOST);
    connect[8 + 46] = 4;
    b.feed(&connect);
    assert!(matches!(b.next(), Some(Pdu::Response(c)) if c.sqhd == 0xFFFF));
    let p = b.client.capsule(with_transport(rw(IoOpcode::Read, 1, 0, 8), 4096), &[]);
    b.feed(&p);
    assert!(matches!(b.next(), Some(Pdu::Data(d, _)) if d.success && d.last));
    assert!(b.next().is_none());
}

#[test]
fn a_host_that_gives_up_is_let_go() {
    let mut b = Bench::io_queue(Client::new(true, true, 0), 8);
    let (term, n) = TermReq::bytes(PduType::H2cTermReq, Fault::SEQUENCE, &[1; 24]);
    b.feed(&term[..n]);
    assert_eq!((b.session.is_ended(), b.stats.terminations_received), (true, 1));
    assert!(b.next().is_none());
}

#[test]
fn names_of_the_tests_are_names() {
    for nqn in [NQN, HOST, DISCOVERY_NQN] {
        assert!(format::nvme::text::is_nqn(nqn));
    }
}

//! Cases of a session: one command through the state machine of a connection, with a volume that answers at once. And [`Line`], the connection
//! that these and the whole flows use.

use crate::{Case, Counted, Draw, measured};
use base::unit::BLOCK_BYTES;
use base::{Duration, Instant, Security, Visibility, VolumeId, WriteProtect, crc32c};
use format::nvme::fabrics::{Connect, ConnectData};
use format::nvme::io::BlockRange;
use format::nvme::{IoOpcode, Sgl};
use format::nvme_tcp::{CAPSULE_CMD_BYTES, COMMON_BYTES, CapsuleCmd, Digests, IcReq};
use frontend::{ServedVolume, VolumeView};
use nvmf::session::{Call, Cx, QueueKind, Session};
use nvmf::shared::ControllerShared;
use nvmf::{Ana, NamespaceView, SubsystemView, TargetStats, View};
use object::{Data, DataVec, IoDone, IoOp, IoRequest, VolumeRef};
use rt::Buf;
use std::sync::Arc;

const NQN: &str = "nqn.2026-11.io.basalt:micro";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
const ENTRIES: u16 = 128;
const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

/// Where a command's fields lie in its capsule.
const AT_CID: usize = COMMON_BYTES + 2;
const AT_SLBA: usize = COMMON_BYTES + 40;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, what, run| Case { name, what, times: 2000, counted: Counted::Measured, run };
    vec![
        case("session-read", "read of 4 KiB: bytes to request, answer to bytes", |n| alone(false, PLAIN, n)),
        case("session-write", "write of 4 KiB in its capsule: bytes to request, answer to bytes", |n| alone(true, PLAIN, n)),
        case("session-read-digests", "the same read with both digests", |n| alone(false, BOTH, n)),
        case("session-write-digests", "the same write with both digests", |n| alone(true, BOTH, n)),
    ]
}

/// A queue of one connection, without the network, and the host's bytes.
pub(crate) struct Line {
    session: Session,
    view: Arc<View>,
    pub(crate) ios: Vec<IoRequest>,
    calls: Vec<(u64, Call)>,
    stats: TargetStats,
    /// The capsule of the command that is repeated.
    capsule: Vec<u8>,
    header_digest: bool,
    cid: u16,
    /// Blocks of a command.
    pub(crate) blocks: u64,
    /// Bytes that go out for a command that succeeds.
    answer_bytes: u64,
    /// Bytes that were sent to the host.
    sent: u64,
}

macro_rules! cx {
    ($l:ident) => {
        Cx { now: Instant(1_000_000_000), view: &$l.view, ios: &mut $l.ios, calls: &mut $l.calls, stats: &mut $l.stats }
    };
}

impl Line {
    /// A queue whose host repeats one command on a volume of `volume_bytes`.
    pub(crate) fn new(write: bool, bytes: usize, volume_bytes: u64, digests: Digests) -> Line {
        let blocks = (bytes / BLOCK_BYTES) as u16;
        let (opcode, data) = if write { (IoOpcode::Write, vec![7; bytes]) } else { (IoOpcode::Read, vec![]) };
        let sgl = if write { Sgl::in_capsule(0, bytes as u32) } else { Sgl::transport(bytes as u32) };
        let sqe = format::nvme::Sqe { sgl, ..BlockRange::new(0, blocks - 1).sqe(opcode, 0, 1) };
        let mut line = Line {
            session: Session::new(1 << 16),
            view: Arc::new(view(volume_bytes)),
            ios: vec![],
            calls: vec![],
            stats: TargetStats::default(),
            capsule: vec![],
            header_digest: digests.header,
            cid: 0,
            blocks: u64::from(blocks),
            answer_bytes: bytes_out(write, bytes as u64, digests),
            sent: 0,
        };
        CapsuleCmd::append(sqe, &data, digests, 0, &mut line.capsule);
        line.open(digests);
        line
    }

    fn open(&mut self, digests: Digests) {
        self.session.receive(&mut cx!(self), &IcReq { hpda: 0, digests, maxr2t: 0 }.to_bytes());
        let connect = Connect { recfmt: 0, qid: 1, sqsize: ENTRIES - 1, cattr: 0, kato_ms: 0 };
        let data = ConnectData::new([7; 16], 1, NQN, HOST);
        let mut bytes = Vec::new();
        CapsuleCmd::append(connect.sqe(0xC0), &data.to_bytes(), digests, 0, &mut bytes);
        self.session.receive(&mut cx!(self), &bytes);
        let [(_, Call::Connect(slot))] = self.calls[..] else { panic!("a Connect command goes to the controller") };
        self.calls.clear();
        let controller = Arc::new(ControllerShared::new(1, 1, NQN, HOST, [7; 16], false));
        controller.set_ready(true);
        self.session.admit(QueueKind::io(controller, 1), ENTRIES, true);
        self.session.complete(&mut cx!(self), slot, format::nvme::Status::SUCCESS, 1);
        self.send();
        self.sent = 0;
    }

    /// The host sends its command, for the block `lba`. The request is in `ios` then.
    #[inline]
    pub(crate) fn command(&mut self, lba: u64) {
        self.cid = (self.cid + 1) % 1024;
        self.capsule[AT_CID..AT_CID + 2].copy_from_slice(&self.cid.to_le_bytes());
        self.capsule[AT_SLBA..AT_SLBA + 8].copy_from_slice(&lba.to_le_bytes());
        if self.header_digest {
            let sum = crc32c(&self.capsule[..CAPSULE_CMD_BYTES]);
            self.capsule[CAPSULE_CMD_BYTES..CAPSULE_CMD_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
        }
        let capsule = core::mem::take(&mut self.capsule);
        self.session.receive(&mut cx!(self), &capsule);
        self.capsule = capsule;
    }

    /// The volume has answered.
    #[inline]
    pub(crate) fn answer(&mut self, done: IoDone) {
        self.session.on_io_done(&mut cx!(self), done);
    }

    /// What is to be sent goes.
    #[inline]
    pub(crate) fn send(&mut self) {
        while let Some(list) = self.session.take_send() {
            self.sent += list.len_bytes() as u64;
            self.session.sent(&mut cx!(self), list);
        }
    }

    /// Checks that so many commands were answered, and well: an error has another length or comes without data.
    pub(crate) fn check(&self, commands: u64) {
        assert_eq!(self.sent, self.answer_bytes * commands, "each command was answered well");
        assert_eq!((self.session.outstanding(), self.stats.terminations_received), (0, 0));
    }
}

/// Bytes that go out for a command: its data, if any, and its response.
fn bytes_out(write: bool, bytes: u64, digests: Digests) -> u64 {
    let digest = |on| if on { 4 } else { 0 };
    let header = 24 + digest(digests.header);
    header + if write { 0 } else { header + bytes + digest(digests.data) }
}

/// A subsystem with one volume of 4096-byte blocks.
fn view(bytes: u64) -> View {
    let volume = VolumeView {
        volume: ServedVolume {
            id: VolumeId::from_bytes([7; 16]),
            name: "v".into(),
            bytes,
            lba_bytes: 4096,
            write_protect: WriteProtect::None,
            formatting: false,
            reservation: None,
            thin: false,
        },
        used: vec![],
        limited: false,
        owner: None,
        revision: 0,
    };
    let subsystem = SubsystemView {
        nqn: NQN.into(),
        serial: "S1".into(),
        model: "Basalt".into(),
        allow_any_host: true,
        hosts: vec![],
        namespaces: [(1, NamespaceView { volume: VolumeRef(0), hosts: Visibility::All, ana: Ana::default() })].into(),
        security: Security::Plain,
        manage_namespaces: false,
    };
    View { generation: 1, subsystems: vec![subsystem], volumes: vec![Some(volume)], ..Default::default() }
}

fn alone(write: bool, digests: Digests, times: u64) -> Duration {
    const VOLUME_BYTES: u64 = 1 << 30;
    let mut line = Line::new(write, BLOCK_BYTES, VOLUME_BYTES, digests);
    let crc = crc32c(&[7; BLOCK_BYTES]);
    let mut draw = Draw::new();
    let mut spare = Some(Buf::zeroed(BLOCK_BYTES));
    spare.as_mut().expect("just made").fill(7);
    let mut round = |line: &mut Line| {
        line.command(draw.below(VOLUME_BYTES / BLOCK_BYTES as u64));
        let request = line.ios.pop().expect("a request for the volume");
        let data = match request.op {
            IoOp::Read { .. } => {
                // Its content does not matter here, its checksum must fit only where digests are on.
                let mut buf = spare.take().unwrap_or_else(|| Buf::alloc(BLOCK_BYTES));
                buf[0] = 7;
                DataVec::from_iter([Data { buf, crcs: [crc].into_iter().collect() }])
            }
            IoOp::Write { data, .. } => {
                assert_eq!(data[0].crcs.as_slice(), [crc]);
                data
            }
            other => panic!("the command became {other:?}"),
        };
        line.answer(IoDone { token: request.token, result: Ok(()), data });
        line.send();
    };
    (0..8).for_each(|_| round(&mut line)); // the lists of free memory are filled
    let took = measured(&mut || (0..times).for_each(|_| round(&mut line)));
    line.check(times + 8);
    took
}

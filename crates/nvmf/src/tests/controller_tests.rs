use super::{HOST, NQN, view};
use crate::admin::{AdminCx, Answer, execute};
use crate::controller::{Controller, ControllerState, QueueAt, capabilities};
use crate::shared::{ControllerShared, TargetShared};
use crate::view::{Namespace, View};
use base::{Instant, VolumeId};
use format::nvme::admin::{GetFeatures, GetLogPage, Identify, SetFeatures, plain_sqe};
use format::nvme::fabrics::PropertyAccess;
use format::nvme::feature::{self, Select};
use format::nvme::identify::{IdentifyController, IdentifyNamespace, NamespaceDescriptor, parse_descriptors, parse_namespace_list};
use format::nvme::log::{AsyncEvent, DiscoveryHeader};
use format::nvme::property::{self, Capabilities, Config, ControllerStatus};
use format::nvme::{AdminOpcode, Field, Sgl, Sqe, StatusCode};
use object::ChunksUsed;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

pub(super) struct Bench {
    pub(super) c: Controller,
    pub(super) view: View,
    pub(super) shared: TargetShared,
    now: Instant,
}

pub(super) fn bench(discovery: bool, kato_ms: u32) -> Bench {
    let c = ControllerShared::new(5, 1, NQN, HOST, [7; 16], discovery);
    bench_of(view(), TargetShared::default(), c, kato_ms)
}

/// A controller of a host of the first subsystem of a view.
pub(super) fn bench_of(view: View, shared: TargetShared, c: ControllerShared, kato_ms: u32) -> Bench {
    let known = view.namespaces(&view.subsystems[0], HOST);
    let c = Controller::new(Arc::new(c), 0, "127.0.0.1:1".parse().unwrap(), Instant(0), kato_ms, known);
    Bench { c, view, shared, now: Instant(0) }
}

impl Bench {
    pub(super) fn run(&mut self, sqe: Sqe) -> Answer {
        self.run_with(sqe, &[])
    }
    pub(super) fn run_with(&mut self, sqe: Sqe, data: &[u8]) -> Answer {
        let cx = AdminCx { now: self.now, view: &self.view, shared: &self.shared };
        execute(&mut self.c, &cx, &sqe, data)
    }
    pub(super) fn status(&mut self, sqe: Sqe) -> (StatusCode, u64) {
        match self.run(sqe) {
            Answer::Status(s, result) => (s.code, result),
            Answer::Refuse(s, _) => (s.code, 0),
            Answer::Data(_) | Answer::Reset => (StatusCode::SUCCESS, 0),
            Answer::Park | Answer::ControlRequest(_) | Answer::Abort { .. } | Answer::Disconnect => panic!("not of this command"),
        }
    }
    pub(super) fn data(&mut self, sqe: Sqe) -> Vec<u8> {
        match self.run(sqe) {
            Answer::Data(buf) => buf.to_vec(),
            Answer::Status(s, _) | Answer::Refuse(s, _) => panic!("{s:?}"),
            _ => panic!("no data"),
        }
    }
    pub(super) fn at(&mut self, now: Instant) {
        self.now = now;
    }
    pub(super) fn enable(&mut self) {
        let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
        assert_eq!(self.status(PropertyAccess::set_sqe(1, property::CC, false, cc.into())).0, StatusCode::SUCCESS);
        assert_eq!(self.c.state(), ControllerState::Ready);
    }
    fn csts(&mut self) -> ControllerStatus {
        ControllerStatus::parse(self.status(PropertyAccess::get_sqe(1, property::CSTS, false)).1 as u32)
    }
    pub(super) fn identify(&mut self, cns: u8, nsid: u32) -> Sqe {
        let cntid = if cns == 0x1C { 0xFFFF } else { 0 };
        Sqe { sgl: Sgl::transport(4096), ..Identify { cns, cntid, nsid, csi: 0, cnssid: 0 }.sqe(1) }
    }
    pub(super) fn log(lid: u8, offset: u64, bytes: u32, rae: bool) -> Sqe {
        let get = GetLogPage { lid, lsp: 0, rae, lsi: 0, numd: bytes / 4 - 1, offset, index: false, csi: 0, nsid: 0 };
        Sqe { sgl: Sgl::transport(bytes), ..get.sqe(1) }
    }
}

#[test]
fn a_controller_is_enabled_shut_down_and_reset_through_its_properties() {
    let mut b = bench(false, 0);
    let cap = Capabilities::parse(b.status(PropertyAccess::get_sqe(1, property::CAP, true)).1);
    assert_eq!(cap, Capabilities::parse(capabilities()));
    assert!(cap.mqes >= 127 && cap.cqr && cap.css & 1 != 0 && cap.to > 0);
    assert_eq!(b.status(PropertyAccess::get_sqe(1, property::VS, false)).1, 0x20000);
    let early = b.identify(1, 0);
    assert_eq!(b.status(early).0, StatusCode::COMMAND_SEQUENCE_ERROR);
    assert!(!b.csts().rdy);
    b.enable();
    assert!(b.csts().rdy && b.c.shared.is_ready());
    b.c.add_queue(1, QueueAt { core: 0, token: 9 }).unwrap();
    assert_eq!(b.c.add_queue(1, QueueAt { core: 0, token: 10 }), Err(StatusCode::COMMAND_SEQUENCE_ERROR));
    let cc = Config { en: true, iosqes: 6, iocqes: 4, shn: 1, ..Config::default() };
    b.status(PropertyAccess::set_sqe(1, property::CC, false, cc.bits().into()));
    assert_eq!(b.csts().shst, 2);
    assert!(!b.c.shared.is_ready());
    assert!(matches!(b.run(PropertyAccess::set_sqe(1, property::CC, false, 0)), Answer::Reset));
    assert_eq!((b.csts(), b.c.take_queues().len()), (ControllerStatus::default(), 1));
}

#[test]
fn what_is_not_supported_makes_the_controller_fail_not_the_target() {
    let mut b = bench(false, 0);
    for cc in [Config { en: true, ..Config::default() }, Config { en: true, iosqes: 6, iocqes: 4, mps: 1, ..Config::default() }] {
        b.status(PropertyAccess::set_sqe(1, property::CC, false, cc.bits().into()));
        assert!(b.csts().cfs);
        b.status(PropertyAccess::set_sqe(1, property::CC, false, 0));
    }
    for sqe in [
        PropertyAccess::get_sqe(1, 0x24, false),
        PropertyAccess::get_sqe(1, property::CAP, false),
        PropertyAccess::get_sqe(1, property::VS, true),
        PropertyAccess::set_sqe(1, property::VS, false, 0),
        Sqe { cdw10: 7, ..PropertyAccess::get_sqe(1, property::VS, false) },
    ] {
        assert_eq!(b.status(sqe).0, StatusCode::INVALID_FIELD);
    }
    b.enable();
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x10, 0x80, 0x84, 0xC0, 0xFF] {
        assert_eq!(b.status(Sqe { opcode, ..Sqe::default() }).0, StatusCode::INVALID_OPCODE, "{opcode:#x}");
    }
}

#[test]
fn identify_says_what_linux_needs() {
    let mut b = bench(false, 5000);
    b.enable();
    let sqe = b.identify(1, 0);
    let id = IdentifyController::parse(&b.data(sqe)).unwrap();
    assert_eq!((id.cntlid, id.cntrltype, id.mdts, id.kas), (5, 1, 8, 10));
    assert_eq!([id.crdt1, id.crdt2, id.crdt3], [2, 10, 50], "retry delays, 100 ms each; Linux asks for ACRE where there are any");
    assert!(id.sgls & 3 == 1 && id.ioccsz >= 4 + 512 && id.iorcsz == 1 && id.icdoff == 0);
    assert!(id.mnan != 0 && id.mnan <= id.nn && id.maxcmd >= 128);
    assert!(id.nanagrpid > 0 && id.nanagrpid <= id.anagrpmax, "an ANA log is expected with CMIC.ANA");
    assert_eq!(format::nvme::text::until_nul(&id.subnqn), Some(NQN));
    let sqe = b.identify(2, 0);
    assert_eq!(parse_namespace_list(&b.data(sqe)), [1, 2, 3]);
    let sqe = b.identify(2, 2);
    assert_eq!(parse_namespace_list(&b.data(sqe)), [3]);
    let sqe = b.identify(0, 1);
    let ns = IdentifyNamespace::parse(&b.data(sqe)).unwrap();
    assert_eq!((ns.nsze, ns.lba_bytes(), ns.npwg, ns.nsattr), (8192, Some(512), 7, 0));
    let sqe = b.identify(0, 3);
    assert_eq!(IdentifyNamespace::parse(&b.data(sqe)).unwrap().nsattr, 1, "read-only");
    let sqe = b.identify(0, 9);
    assert!(b.data(sqe).iter().all(|x| *x == 0), "not attached: zeroes");
    let sqe = b.identify(3, 1);
    let ids = parse_descriptors(&b.data(sqe));
    assert!(ids.contains(&NamespaceDescriptor::Uuid([1; 16])) && ids.contains(&NamespaceDescriptor::Csi(0)));
    for (cns, nsid, code) in [
        (0, 0, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (0, 5000, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (3, 9, StatusCode::INVALID_FIELD),
        (2, 0xFFFF_FFFE, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (0x40, 1, StatusCode::INVALID_FIELD),
    ] {
        let sqe = b.identify(cns, nsid);
        assert_eq!(b.status(sqe).0, code, "CNS {cns:#x} of {nsid}");
    }
    let short = Sqe { sgl: Sgl::transport(100), ..b.identify(1, 0) };
    assert_eq!(b.status(short).0, StatusCode::DATA_SGL_LENGTH_INVALID);
    for cns in [5, 6, 7, 8, 0x10, 0x13, 0x1C] {
        let sqe = b.identify(cns, 1);
        assert_eq!(b.data(sqe).len(), 4096, "CNS {cns:#x}");
    }
}

#[test]
fn logs_are_read_in_parts_and_not_past_their_end() {
    let mut b = bench(false, 0);
    b.enable();
    for lid in [0, 1, 2, 3, 4, 5, 0x0C] {
        assert_eq!(b.data(Bench::log(lid, 0, 64, false)).len(), 64, "log {lid:#x}");
    }
    let effects = b.data(Bench::log(5, 0, 4096, false));
    let write = 3;
    assert_eq!(u32::get(&effects[1024 + 4..]), write, "Write changes contents");
    // As Linux judges them (nvme_command_effects): the rest are "unusual effects".
    for opcode in 0..=255 {
        assert_eq!(u32::get(&effects[1024 + opcode * 4..]) & !3, 0, "I/O command {opcode:#x}");
    }
    assert_eq!(b.data(Bench::log(5, 1028, 4, false)), write.to_le_bytes());
    assert_eq!(b.status(Bench::log(5, 5000, 4, false)).0, StatusCode::INVALID_FIELD);
    assert_eq!(b.status(Bench::log(5, u64::MAX - 3, 4, false)).0, StatusCode::INVALID_FIELD);
    assert_eq!(b.status(Bench::log(0x70, 0, 4, false)).0, StatusCode::INVALID_LOG_PAGE);
    assert_eq!(b.status(Bench::log(5, 0, 8 << 20, false)).0, StatusCode::INVALID_FIELD);
    let lying = Sqe { sgl: Sgl::transport(8), ..Bench::log(5, 0, 4, false) };
    assert_eq!(b.status(lying).0, StatusCode::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn features_are_set_and_got() {
    let mut b = bench(false, 4500);
    b.enable();
    let get = |fid, select, nsid| GetFeatures { fid, select: Some(select), cdw11: 0, nsid }.sqe(1);
    let set = |fid, cdw11| SetFeatures { fid, save: false, cdw11, nsid: 0 }.sqe(1);
    assert_eq!(b.status(get(feature::FID_KEEP_ALIVE, Select::Current, 0)).1, 5000, "rounded up to the granularity");
    assert_eq!(b.status(set(feature::FID_QUEUES, feature::queues(3, 7))), (StatusCode::SUCCESS, feature::queues(3, 3).into()));
    assert_eq!(b.status(set(feature::FID_QUEUES, feature::queues(500, 500))).1, feature::queues(127, 127).into());
    assert_eq!(b.status(set(feature::FID_QUEUES, 0xFFFF)).0, StatusCode::INVALID_FIELD);
    assert_eq!(b.status(set(feature::FID_WRITE_CACHE, 1)).0, StatusCode::INVALID_FIELD, "there is no write cache");
    assert_eq!(b.status(set(feature::FID_HOST_ID, 1)).0, StatusCode::COMMAND_SEQUENCE_ERROR);
    assert_eq!(b.status(get(feature::FID_WRITE_PROTECT, Select::Current, 3)).1, 1);
    assert_eq!(b.status(get(feature::FID_WRITE_PROTECT, Select::Current, 1)).1, 0);
    assert_eq!(b.status(SetFeatures { fid: 0x0B, save: true, cdw11: 0, nsid: 0 }.sqe(1)).0, StatusCode::FEATURE_NOT_SAVEABLE);
    let host_id = Sqe { cdw11: 1, sgl: Sgl::transport(16), ..get(feature::FID_HOST_ID, Select::Current, 0) };
    assert_eq!(b.data(host_id), [7; 16]);
    b.c.add_queue(1, QueueAt { core: 0, token: 1 }).unwrap();
    assert_eq!(b.status(set(feature::FID_QUEUES, 0)).0, StatusCode::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn a_silent_host_expires_and_one_with_traffic_does_not() {
    let mut b = bench(false, 5000);
    let c = &mut b.c;
    assert!(!c.is_expired(Instant(4 * SECOND)));
    c.shared.note_traffic();
    assert!(!c.is_expired(Instant(5 * SECOND)), "traffic starts the timer again");
    assert!(!c.is_expired(Instant(9 * SECOND)));
    assert!(c.is_expired(Instant(10 * SECOND)));
    c.keep_alive(Instant(11 * SECOND));
    assert!(!c.is_expired(Instant(15 * SECOND)));
    assert!(c.is_expired(Instant(16 * SECOND)));
    c.set_kato(0, Instant(0));
    assert!(!c.is_expired(Instant(u64::MAX)));
}

#[test]
fn an_event_comes_once_until_its_log_is_read() {
    let mut b = bench(false, 0);
    b.enable();
    let mut new = b.view.clone();
    new.volumes[0].as_mut().unwrap().bytes *= 2;
    let grown = new.namespaces(&new.subsystems[0], HOST);
    let as_before = b.view.namespaces(&b.view.subsystems[0], HOST);
    b.c.namespaces_are(grown.clone());
    assert!(b.c.add_request(3) && b.c.next_event().is_none(), "the host did not ask for events");
    b.status(SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_NAMESPACE, nsid: 0 }.sqe(1));
    b.c.namespaces_are(as_before.clone());
    assert_eq!(b.c.next_event(), Some((3, AsyncEvent { kind: 2, info: 0, log: 4 })));
    b.c.add_request(4);
    b.c.namespaces_are(grown);
    assert_eq!(b.c.next_event(), None, "masked until the log is read");
    assert_eq!(u32::get(&b.data(Bench::log(4, 0, 4096, false))), 1);
    assert_eq!(u32::get(&b.data(Bench::log(4, 0, 4096, false))), 0, "reading clears it");
    b.c.namespaces_are(as_before[1..].to_vec());
    assert!(matches!(b.c.next_event(), Some((4, _))));
    for slot in 0..4 {
        assert!(b.c.add_request(slot));
    }
    assert!(!b.c.add_request(9), "AERL");
    assert!(matches!(b.run(plain_sqe(AdminOpcode::AsyncEventRequest, 1)), Answer::Park));
}

/// Linux gives up the old volume when it finds another one under its NSID, and looks for the new one only after another event.
#[test]
fn an_nsid_that_another_volume_has_got_is_reported_again_after_its_log_was_read() {
    let event = AsyncEvent { kind: 2, info: 0, log: 4 };
    let mut b = bench(false, 0);
    b.enable();
    b.status(SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_NAMESPACE, nsid: 0 }.sqe(1));
    let first = b.view.namespaces(&b.view.subsystems[0], HOST);
    let other: Vec<_> =
        first.iter().map(|n| if n.nsid == 1 { Namespace { id: VolumeId::from_bytes([9; 16]), ..*n } } else { *n }).collect();
    for slot in 0..4 {
        b.c.add_request(slot);
    }
    // Detached, and another volume attached, before the host has looked.
    b.c.namespaces_are(first[1..].to_vec());
    assert_eq!(b.c.next_event(), Some((0, event)));
    b.c.namespaces_are(other.clone());
    assert_eq!(b.c.next_event(), None);
    let changed = |b: &mut Bench, rae| u32::get(&b.data(Bench::log(4, 0, 4096, rae)));
    assert_eq!((changed(&mut b, false), b.c.next_event()), (1, Some((1, event))), "the host is to look again");
    assert_eq!((changed(&mut b, false), b.c.next_event(), changed(&mut b, false)), (1, None, 0), "once");
    // At once, and back: what the host has seen of it nobody knows.
    b.c.namespaces_are(first.clone());
    b.c.namespaces_are(other.clone());
    assert_eq!(b.c.next_event(), Some((2, event)));
    assert_eq!(changed(&mut b, true), 1);
    assert_eq!(b.c.next_event(), None, "the event stands as long as the log is read with RAE");
    changed(&mut b, false);
    assert_eq!((b.c.next_event(), changed(&mut b, false)), (Some((3, event)), 1));
    // The same volume again is nothing new.
    b.c.add_request(0);
    b.c.namespaces_are(other[1..].to_vec());
    b.c.namespaces_are(other);
    assert_eq!((b.c.next_event(), changed(&mut b, false), b.c.next_event()), (Some((0, event)), 1, None));
}

#[test]
fn a_change_before_the_host_wants_events_is_reported_when_it_does() {
    let mut b = bench(false, 0);
    b.enable();
    b.c.add_request(0);
    b.c.namespaces_are(b.view.namespaces(&b.view.subsystems[0], HOST)[1..].to_vec());
    assert_eq!(b.c.next_event(), None);
    b.status(SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_NAMESPACE, nsid: 0 }.sqe(1));
    assert!(b.c.next_event().is_some());
}

#[test]
fn a_thin_namespace_says_how_much_of_it_has_space_at_every_moment() {
    let mut b = bench(false, 0);
    b.enable();
    let of = |b: &mut Bench, nsid| {
        let sqe = b.identify(0, nsid);
        let ns = IdentifyNamespace::parse(&b.data(sqe)).unwrap();
        (ns.nsfeat & 1, ns.nsze, ns.ncap, ns.nuse)
    };
    assert_eq!(of(&mut b, 1), (0, 8192, 8192, 8192), "all of its space is set aside");
    let (used, more) = (ChunksUsed::default(), ChunksUsed::default());
    for volume in &mut b.view.volumes[..2] {
        let volume = volume.as_mut().unwrap();
        (volume.thin, volume.used) = (true, vec![used.clone(), more.clone()]);
    }
    assert_eq!(of(&mut b, 1), (1, 8192, 8192, 0));
    (0..3).for_each(|_| used.more());
    more.more();
    assert_eq!((of(&mut b, 1), of(&mut b, 2)), ((1, 8192, 8192, 4 * 128), (1, 1024, 1024, 4 * 16)));
    (0..1000).for_each(|_| used.more());
    assert_eq!(of(&mut b, 2).3, 1024, "never more than there are");
    b.view.volumes[1].as_mut().unwrap().used.clear();
    assert_eq!(of(&mut b, 2), (1, 1024, 1024, 0), "its group is offline: nothing is known");
}

#[test]
fn discovery_shows_a_host_what_it_may_use_and_nothing_else() {
    let mut b = bench(true, 0);
    let cc = Config { en: true, ..Config::default() }.bits();
    b.status(PropertyAccess::set_sqe(1, property::CC, false, cc.into()));
    let listener = |addr: &str, kind, advertise: Option<&str>| crate::view::ListenerSpec {
        addr: addr.parse().unwrap(),
        kind,
        advertise: advertise.map(|a| a.parse().unwrap()),
        security: base::Security::Plain,
    };
    b.shared.add_listener(listener("0.0.0.0:4420", crate::ListenerKind::Io, Some("10.0.0.7:0")), "0.0.0.0:4420".parse().unwrap());
    b.shared.add_listener(listener("[::1]:8009", crate::ListenerKind::Discovery, None), "[::1]:8009".parse().unwrap());
    let log = b.data(Bench::log(0x70, 0, 4096, false));
    let head = DiscoveryHeader::parse(&log).unwrap();
    assert_eq!((head.numrec, head.genctr), (2, 0));
    b.view.generation += 1;
    let same = DiscoveryHeader::parse(&b.data(Bench::log(0x70, 0, 1024, false))).unwrap();
    assert_eq!(same.genctr, 0, "nothing that this host is informed has changed");
    let entry = |n: usize| format::nvme::log::DiscoveryEntry::parse(&log[1024 * (n + 1)..]).unwrap();
    assert_eq!((entry(0).subtype, entry(0).adrfam, entry(0).address()), (3, 2, "::1".into()));
    assert_eq!((entry(1).nqn(), entry(1).address(), entry(1).service()), (Some(NQN), "10.0.0.7".into(), "4420".into()));
    b.view.subsystems[0].hosts.clear();
    let log = b.data(Bench::log(0x70, 0, 1024, false));
    let head = DiscoveryHeader::parse(&log).unwrap();
    assert_eq!((head.numrec, head.genctr), (1, 1), "not for this host");
    let sqe = b.identify(1, 0);
    let id = IdentifyController::parse(&b.data(sqe)).unwrap();
    assert_eq!((id.cntrltype, id.nn, id.oncs), (2, 0, 0));
    let sqe = b.identify(2, 0);
    assert_eq!(b.status(sqe).0, StatusCode::INVALID_FIELD);
}

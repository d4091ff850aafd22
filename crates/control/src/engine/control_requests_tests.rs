use super::*;
use crate::fake::{self, FakePlane};
use base::ClusterId;
use directory::Embedded;
use frontend::ControlRequestId;

pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
pub const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";

pub struct Bench {
    pub control: Arc<Control>,
    pub plane: Arc<FakePlane>,
    dir: tempfile::TempDir,
}

fn control_in(dir: &std::path::Path, plane: &Arc<FakePlane>) -> Arc<Control> {
    control_with(Arc::new(open_directory(dir)), dir, plane)
}

pub fn open_directory(dir: &std::path::Path) -> Embedded {
    Embedded::open(dir, ClusterId::from_bytes([1; 16])).unwrap()
}

fn control_with(directory: Arc<dyn Directory>, dir: &std::path::Path, plane: &Arc<FakePlane>) -> Arc<Control> {
    let identity = Identity { node: "h1".into(), fault_domain: "h1".into(), version: "0".into(), cores: 1 };
    let log = AuditLog::open(dir).unwrap();
    let control = Control::new(directory, plane.clone(), identity, drive::Scanner::default()).with_audit(log);
    control.start().unwrap();
    Arc::new(control)
}

pub fn bench() -> Bench {
    bench_on(open_directory)
}

/// A bench whose directory is made by `open`.
pub fn bench_on<D: Directory + 'static>(open: impl FnOnce(&std::path::Path) -> D) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let plane = Arc::new(FakePlane::default());
    let control = control_with(Arc::new(open(dir.path())), dir.path(), &plane);
    let device = |name: &str, bytes| {
        let path = dir.path().join(name).display().to_string();
        serde_json::json!({"path": path, "bytes": bytes})
    };
    let group = serde_json::json!({"name": "g1", "cache": device("cache", 1u64 << 30), "capacity": [device("data", 8u64 << 30)]});
    control.create_group(&serde_json::from_value(group).unwrap()).unwrap();
    control.create_volume(&serde_json::from_value(serde_json::json!({"name": "v1", "bytes": 1 << 30})).unwrap()).unwrap();
    Bench { control, plane, dir }
}

impl Bench {
    pub fn fail(&self, operation: &'static str) {
        self.plane.fail_next(operation, fake::stopped());
    }
    /// A file of the bench.
    pub fn at(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
    /// A host is connected to a subsystem.
    fn connect(&self, host: &str, subsystem: &str) {
        self.plane.connect(nvmf::SessionInfo {
            cntlid: 1,
            subsystem: cluster::default_nqn(subsystem),
            host_nqn: host.into(),
            host_id: [7; 16],
            peer: "192.0.2.9:51000".parse().unwrap(),
            discovery: false,
            io_queues: 4,
            kato_ms: 15_000,
            header_digest: false,
            data_digest: false,
            encrypted: false,
            since: base::Instant(0),
        });
    }
    pub fn ask(&self, what: ControlVerb) -> Result<Reply, Refused> {
        let subsystem = cluster::default_nqn(DEFAULT_NAME);
        let by = RequestedBy { host: HOST.into(), host_id: [1; 16], export: subsystem, session: 7, ports: Default::default() };
        let ask = ControlRequest { id: ControlRequestId { core: 0, serial: 1 }, by, what };
        let answer = self.control.decide(&ask);
        // Busy: a test may have written the record of a change that is under way.
        if answer != Err(Refused::Busy) {
            check_served(&self.control, &self.plane, &format!("{:?}", ask.what));
        }
        answer
    }
    pub fn grant(&self) {
        let grant = api::NamespaceGrant { policy: "default".into(), namespaces_max: 8, bytes_max: 4 << 30 };
        let change = api::SubsystemChange { namespace_grant: Some(grant), ..Default::default() };
        self.control.change_subsystem("default", &change).unwrap();
    }
    /// The daemon is killed and started again.
    pub fn restart(&self) -> (Arc<FakePlane>, Arc<Control>) {
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(self.dir.path().join(directory::FILE_NAME), copy.path().join(directory::FILE_NAME)).unwrap();
        self.plane.restart();
        (Arc::clone(&self.plane), control_in(copy.path(), &self.plane))
    }
    fn seen_by(&self) -> Visibility {
        self.plane.desired().exports.0.0.subsystems[0].namespaces[&1].hosts.clone()
    }
    fn protection(&self) -> WriteProtect {
        self.plane.desired().volumes[0].write_protect
    }
}

#[test]
fn a_host_protects_a_volume_and_only_what_can_be_undone_is_undone() {
    let b = bench();
    let volume = b.plane.desired().volumes[0].id;
    let protect = |state| b.ask(ControlVerb::WriteProtect { volume, state });
    assert_eq!(protect(WriteProtect::Protected), Ok(Reply::Done));
    assert_eq!(b.protection(), WriteProtect::Protected);
    assert_eq!(protect(WriteProtect::None), Ok(Reply::Done));
    assert_eq!(protect(WriteProtect::Permanent), Err(Refused::NotGranted));
    b.grant();
    assert_eq!(protect(WriteProtect::Permanent), Ok(Reply::Done));
    assert_eq!(protect(WriteProtect::None), Err(Refused::NotChangeable));
    let change = api::VolumeChange { read_only: Some(false), ..Default::default() };
    assert!(b.control.change_volume("v1", &change).is_err(), "not even by an administrator");
    assert_eq!(b.control.audit_entries(10).unwrap().len(), 3);
}

#[test]
fn protection_until_a_restart_ends_with_it() {
    let b = bench();
    let volume = b.plane.desired().volumes[0].id;
    b.ask(ControlVerb::WriteProtect { volume, state: WriteProtect::UntilRestart }).unwrap();
    assert_eq!(b.ask(ControlVerb::WriteProtect { volume, state: WriteProtect::None }), Err(Refused::NotChangeable));
    b.control.change_volume("v1", &api::VolumeChange { read_only: Some(true), ..Default::default() }).unwrap();
    assert_eq!(b.protection(), WriteProtect::UntilRestart, "what it is already it stays");
    let Bench { control, plane, dir } = b;
    drop(control);
    plane.restart();
    let _control = control_in(dir.path(), &plane);
    assert_eq!(plane.desired().volumes[0].write_protect, WriteProtect::None);
}

#[test]
fn namespaces_are_attached_and_detached_where_that_is_granted() {
    let b = bench();
    let attach = |host: &str| b.ask(ControlVerb::AttachUnit { unit: 1, hosts: vec![host.into()] });
    let detach = |host: &str| b.ask(ControlVerb::DetachUnit { unit: 1, hosts: vec![host.into()] });
    assert_eq!(attach(HOST), Err(Refused::NotGranted));
    b.grant();
    assert_eq!(attach(HOST), Err(Refused::AlreadyAttached), "every host sees it");
    assert_eq!(detach(OTHER), Err(Refused::NotAttached));
    b.control.detach_volume("default", "v1").unwrap();
    b.control.attach_volume("default", "v1", &api::Attach { nsid: Some(1), hosts: vec![HOST.into()] }).unwrap();
    assert!(b.seen_by().shows(HOST) && !b.seen_by().shows(OTHER));
    assert_eq!(attach(OTHER), Ok(Reply::Done));
    assert!(b.seen_by().shows(HOST) && b.seen_by().shows(OTHER));
    assert_eq!(detach(HOST), Ok(Reply::Done));
    assert!(!b.seen_by().shows(HOST) && b.seen_by().shows(OTHER));
    assert_eq!(b.ask(ControlVerb::AttachUnit { unit: 2, hosts: vec![HOST.into()] }), Err(Refused::NoUnit));
}

#[test]
fn what_is_durable_and_not_served_may_be_tried_again_and_is_served_before_anything_else() {
    let b = bench();
    let fail = || b.plane.fail_next("apply", fake::stopped());
    let volume = b.plane.desired().volumes[0].id;
    let protect = || b.ask(ControlVerb::WriteProtect { volume, state: WriteProtect::Protected });
    fail();
    assert_eq!(protect(), Err(Refused::Unserved));
    assert_eq!(b.protection(), WriteProtect::None, "not served yet");
    b.control.retry();
    assert_eq!(b.protection(), WriteProtect::Protected, "the daemon tries again by itself");
    // A reservation command that changes nothing any more is not answered before what it asked for is served.
    let command = cluster::reservation::Command::Register { nrkey: 5, ptpl: None };
    let register = || b.ask(ControlVerb::Reservation { volume, command });
    fail();
    assert_eq!(register(), Err(Refused::Unserved));
    fail();
    assert_eq!(register(), Err(Refused::Busy));
    assert_eq!(register(), Ok(Reply::Done));
    assert!(b.plane.desired().volumes[0].reservation.is_some());
}

/// A host that hears "not now" takes it that nothing has changed.
#[test]
fn what_may_have_been_done_is_not_answered_as_not_done() {
    assert_eq!(busy(DirectoryError::Unavailable), Refused::Busy);
    assert_eq!(busy(DirectoryError::Unknown { cause: "the answer was lost".into() }), Refused::Unserved);
    let b = bench();
    b.grant();
    b.plane.fail_next("apply", fake::stopped());
    let made = b.ask(ControlVerb::CreateUnit { blocks: 1 << 18, lba_bytes: 4096, shared: true });
    assert_eq!(made, Err(Refused::Unserved), "it is made, and not served");
    assert_eq!(b.control.volumes().unwrap().len(), 2);
}

#[test]
fn a_namespace_that_every_host_saw_is_left_to_those_who_are_named_or_connected_there() {
    let b = bench();
    b.grant();
    let named = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000003";
    let elsewhere = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000004";
    b.control.allow_host("default", named).unwrap();
    b.connect(HOST, "default");
    b.connect(OTHER, "default");
    b.connect(elsewhere, "another");
    let detach = |hosts: &[&str]| b.ask(ControlVerb::DetachUnit { unit: 1, hosts: hosts.iter().map(ToString::to_string).collect() });
    assert_eq!(detach(&[elsewhere]), Err(Refused::NotAttached));
    assert_eq!(detach(&[HOST, elsewhere]), Err(Refused::NotAttached), "all or none");
    assert_eq!(b.seen_by(), Visibility::All);
    assert_eq!(detach(&[HOST]), Ok(Reply::Done));
    assert_eq!([HOST, OTHER, named, elsewhere].map(|h| b.seen_by().shows(h)), [false, true, true, false]);
    let attach = |hosts: &[&str]| b.ask(ControlVerb::AttachUnit { unit: 1, hosts: hosts.iter().map(ToString::to_string).collect() });
    assert_eq!(attach(&[HOST, OTHER]), Err(Refused::AlreadyAttached), "all or none");
    assert!(!b.seen_by().shows(HOST));
    assert_eq!(attach(&[HOST, elsewhere]), Ok(Reply::Done));
    assert!(b.seen_by().shows(HOST) && b.seen_by().shows(elsewhere));
}

#[test]
fn what_hosts_have_changed_is_in_the_audit_log_as_what_it_is_and_by_whom() {
    let b = bench();
    b.grant();
    let volume = b.plane.desired().volumes[0].id;
    let register = cluster::reservation::Command::Register { nrkey: 5, ptpl: None };
    for (what, word) in [
        (ControlVerb::Reservation { volume, command: register }, "reservation"),
        (ControlVerb::Persist { volumes: vec![volume], ptpl: true }, "reservation"),
        (ControlVerb::WriteProtect { volume, state: WriteProtect::Protected }, "namespace"),
        (ControlVerb::WriteProtect { volume, state: WriteProtect::None }, "namespace"),
        (ControlVerb::Format { unit: 1, lba_bytes: 512 }, "namespace"),
        (ControlVerb::DeleteUnit { unit: Some(1) }, "namespace"),
    ] {
        let before = b.control.audit_entries(100).unwrap().len();
        b.ask(what.clone()).unwrap();
        let entries = b.control.audit_entries(100).unwrap();
        assert_eq!(entries.len(), before + 1, "{what:?}");
        let entry = entries.last().unwrap();
        assert!(entry.event.contains(word), "{what:?}: {}", entry.event);
        assert_eq!((entry.host_nqn.as_str(), entry.controller), (HOST, Some(7)), "{what:?}");
        assert_eq!(entry.subsystem, cluster::default_nqn(DEFAULT_NAME));
    }
    assert_eq!(b.ask(ControlVerb::DeleteUnit { unit: Some(1) }), Err(Refused::NoUnit));
    assert_eq!(b.control.audit_entries(100).unwrap().len(), 6, "what is refused is no change");
}

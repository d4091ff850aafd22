//! iSCSI from end to end: a subsystem as a target, by the command line; hosts that may and may not; data that NVMe/TCP reads too.

mod host;

use crate::harness::turn::Subject;
use crate::harness::{Daemon, Setup, USUAL, until};
use format::nvme::StatusCode;
use format::scsi::alua::AccessState;
use format::scsi::designator::{Designator, parse_identification};
use format::scsi::{Lun, ScsiStatus, SenseCode, SenseKey};
use host::{Host, Login};
use initiator::reservation::Reservation;
use initiator::{Controller, Io};

const LISTENERS: &str = "{ addr = \"127.0.0.1:0\" }, { addr = \"127.0.0.1:0\", kind = \"iscsi\" }";
const TARGET: &str = "iqn.2026-11.io.basalt:default";
const HOST: &str = "iqn.2026-11.example:host";
/// Statuses of a Login Response (RFC 7143 11.13.5).
const AUTHENTICATION_FAILED: u16 = 0x0201;
const FORBIDDEN: u16 = 0x0202;
const NOT_FOUND: u16 = 0x0203;
const UNIT_ATTENTION: Option<(SenseKey, SenseCode)> = Some((SenseKey::UnitAttention, SenseCode::CAPACITY_CHANGED));

impl Daemon {
    fn on_iscsi(setup: &Setup<'_>) -> Daemon {
        let daemon = Daemon::started(&Setup { listeners: LISTENERS, ..*setup });
        daemon.group_on_files(2, "256MiB", "512MiB");
        daemon
    }
    fn iscsi(&self, chap: Option<(&str, &str)>) -> Login {
        let chap = chap.map(|(user, secret)| (user.to_owned(), secret.to_owned()));
        Login { at: self.addrs("iscsi")[0], host: HOST.into(), target: Some(TARGET.into()), chap, mutual: None, session: 1 }
    }
    fn turned_away(&self, login: &Login) -> u16 {
        Host::log_in(login).err().expect("it is refused")
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|n| (n / 512) as u8 ^ (n as u8) ^ seed).collect()
}

#[test]
fn a_subsystem_is_a_target_and_its_volumes_are_read_and_written_by_both_protocols() {
    let mut daemon = Daemon::on_iscsi(&USUAL);
    daemon.ok("volume create v --size 64MiB");
    daemon.ok("volume create w --size 32MiB --lba 512");
    let login = daemon.iscsi(None);
    assert_eq!(daemon.turned_away(&login), NOT_FOUND, "it is not served over iSCSI yet");
    let shown = daemon.json("subsystem set default --iscsi");
    assert_eq!(shown["iqn"], TARGET);
    assert_eq!(daemon.json("subsystem show iqn.2026-11.io.basalt:default")["name"], "default", "it is found by that name");

    let found = Host::log_in(&Login { target: None, ..login.clone() }).unwrap().targets();
    assert_eq!(found, [(TARGET.to_owned(), vec![format!("{},1", login.at)])].into());
    let mut host = Host::log_in(&login).unwrap();
    assert_eq!(host.luns(), [Lun::Unit(1), Lun::Unit(2)], "LUNs are namespace IDs");
    assert_eq!((host.capacity(1), host.capacity(2)), ((64 << 8, 4096), (32 << 11, 512)));
    let data = pattern(1 << 20, 7);
    host.write(1, 256, &data, 4096).good();
    assert!(host.read(1, 256, 256, 4096).good() == data);
    host.write(2, 1, &data[..3 * 512], 512).good();
    assert!(host.read(2, 0, 8, 512).good() == [&[0; 512], &data[..3 * 512], &[0; 4 * 512]].concat());

    // The same volume over NVMe/TCP.
    let controller = Controller::connect(daemon.options()).unwrap();
    let mut queue = controller.open_queue(1, 8, controller.namespace(1).unwrap()).unwrap();
    assert!(queue.read(1 << 20, 1 << 20).unwrap() == data);
    queue.write(0, pattern(8192, 9), false).unwrap();
    assert!(host.read(1, 0, 2, 4096).good() == pattern(8192, 9));

    // Who is there, and what is said of it.
    let sessions = daemon.json("subsystem show default")["sessions"].as_u64();
    assert_eq!(sessions, Some(2));
    let me = daemon.json(&format!("host show {HOST}"));
    assert_eq!((&me["sessions"][0]["protocol"], &me["sessions"][0]["io_queues"]), (&"iscsi".into(), &1.into()));
    assert!(daemon.fails("subsystem delete default", 5).contains("is connected to subsystem default"));
    let status = daemon.ok("status");
    assert!(status.contains("iscsi on 127.0.0.1:"), "{status}");
    assert!(daemon.metric("basalt_iscsi_logins_total") >= 2 && daemon.metric("basalt_iscsi_commands_total") > 5);
    // Figures may be half a second old.
    let counted = |line: &&serde_json::Value| ["reads_per_s", "writes_per_s"].iter().all(|of| line[*of].as_f64() > Some(0.0));
    until("both hosts are counted", || {
        let report = daemon.json("iostat host");
        let hosts: Vec<_> = report["lines"].as_array()?.iter().filter(counted).collect();
        (hosts.len() == 2 && hosts.iter().any(|line| line["name"] == HOST)).then_some(())
    });
    let name = format!("basalt_host_commands_total{{host=\"{HOST}\",operation=\"write\"}}");
    assert!(daemon.metric(&name) >= 2, "{}", daemon.metrics());

    // It grows while the host uses it; a volume comes and goes.
    daemon.ok("volume grow v --size 96MiB");
    assert_eq!(host.ready(1).sense, UNIT_ATTENTION);
    assert_eq!(host.capacity(1), (96 << 8, 4096));
    assert!(host.write(1, 95 << 8, &data, 4096).sense.is_none() && host.read(1, 95 << 8, 256, 4096).good() == data);
    daemon.ok("volume create x --size 32MiB");
    assert_eq!(host.ready(1).sense, Some((SenseKey::UnitAttention, SenseCode::REPORTED_LUNS_CHANGED)));
    assert_eq!(host.luns(), [Lun::Unit(1), Lun::Unit(2), Lun::Unit(3)]);

    // kill -9: what was answered is there, and the host finds it again.
    daemon.kill_and_start();
    assert!(host.is_over());
    let mut host = Host::log_in(&daemon.iscsi(None)).unwrap();
    assert!(host.read(1, 256, 256, 4096).good() == data && host.read(1, 95 << 8, 256, 4096).good() == data);
    daemon.ok("subsystem set default --no-iscsi");
    assert!(host.is_over(), "its session ends");
    assert_eq!(daemon.turned_away(&daemon.iscsi(None)), NOT_FOUND);
    daemon.stop();
}

#[test]
fn only_hosts_that_may_get_in_and_only_by_their_secret() {
    let mut daemon = Daemon::on_iscsi(&Setup { more: "log = { level = \"debug\" }", ..USUAL });
    daemon.ok("volume create v --size 32MiB");
    daemon.ok("subsystem deny default --any");
    daemon.ok("subsystem set default --iscsi");
    let open = daemon.iscsi(None);
    assert_eq!(daemon.turned_away(&open), FORBIDDEN);
    assert!(Host::log_in(&Login { target: None, ..open.clone() }).unwrap().targets().is_empty(), "it is not shown either");
    daemon.ok(&format!("host add esx1 {HOST}"));
    daemon.ok("subsystem allow default esx1");
    let mut host = Host::log_in(&open).unwrap();
    assert_eq!(host.luns(), [Lun::Unit(1)]);

    // One that some hosts see only.
    daemon.ok("volume create hidden --size 32MiB --detached");
    daemon.ok("subsystem attach default hidden --host iqn.2026-11.example:other");
    assert_eq!(host.luns(), [Lun::Unit(1)]);
    daemon.ok("subsystem deny default esx1");
    assert!(host.is_over(), "its access ended");
    assert_eq!(daemon.turned_away(&open), FORBIDDEN);
    daemon.ok("subsystem allow default esx1");

    // CHAP.
    let secret = daemon.ok("host set esx1 --chap-generate").trim().to_owned();
    assert_eq!(secret.len(), 16);
    let with = |daemon: &Daemon, user: &str, secret: &str| daemon.iscsi(Some((user, secret)));
    assert_eq!(daemon.turned_away(&open), AUTHENTICATION_FAILED, "without a secret");
    assert_eq!(daemon.turned_away(&with(&daemon, HOST, "another-secret")), AUTHENTICATION_FAILED);
    assert_eq!(daemon.turned_away(&with(&daemon, "esx1", &secret)), AUTHENTICATION_FAILED, "with another user name");
    Host::log_in(&with(&daemon, HOST, &secret)).unwrap().ready(1).good();
    let file = daemon.path("chap");
    std::fs::write(&file, "new-secret-of-19-ch\n").unwrap();
    daemon.ok(&format!("host set esx1 --chap-secret-file {} --chap-user esx1", file.display()));
    assert_eq!(daemon.turned_away(&with(&daemon, HOST, &secret)), AUTHENTICATION_FAILED, "the old one");
    Host::log_in(&with(&daemon, "esx1", "new-secret-of-19-ch")).unwrap().ready(1).good();
    daemon.kill_and_start();
    Host::log_in(&with(&daemon, "esx1", "new-secret-of-19-ch")).unwrap().ready(1).good();

    // The target proves itself too, to a host that asks for it (the host of this test checks the answer).
    let own = with(&daemon, "esx1", "new-secret-of-19-ch");
    let mutual = |daemon: &Daemon, user: &str, secret: &str| Login {
        mutual: Some((user.into(), secret.into())),
        ..with(daemon, "esx1", "new-secret-of-19-ch")
    };
    assert_eq!(daemon.turned_away(&mutual(&daemon, "basalt", "any")), AUTHENTICATION_FAILED, "it has no secret for it");
    let target = daemon.ok("host set esx1 --chap-target-generate").trim().to_owned();
    Host::log_in(&mutual(&daemon, "basalt", &target)).unwrap().ready(1).good();
    Host::log_in(&own).unwrap().ready(1).good();
    daemon.ok("host set esx1 --chap-target-user storage");
    daemon.kill_and_start();
    Host::log_in(&mutual(&daemon, "storage", &target)).unwrap().ready(1).good();
    let same = format!("host set esx1 --chap-target-secret-file {}", file.display());
    assert!(daemon.fails(&same, 2).contains("is that of the host"), "one secret for both");
    let known = daemon.ok("host show esx1");
    assert!(known.contains("targets as storage: stored, encrypted") && !known.contains(&target), "{known}");
    daemon.ok("host set esx1 --no-chap-target");
    assert_eq!(daemon.turned_away(&mutual(&daemon, "storage", &target)), AUTHENTICATION_FAILED, "it has none any more");

    // What is seen of it, and what is refused.
    let shown = [daemon.ok("host show esx1"), daemon.ok("host list --json"), daemon.ok("audit --json"), daemon.log()];
    assert!(shown.iter().all(|text| !text.contains("new-secret-of") && !text.contains(&secret)), "a secret is shown");
    assert!(shown[0].contains("CHAP as esx1; its secret is stored, encrypted"), "{}", shown[0]);
    for event in ["connected", "refused", "authenticated", "authentication-failed"] {
        assert!(shown[2].contains(&format!("\"{event}\"")), "{event}: {}", shown[2]);
    }
    std::fs::write(&file, "short\n").unwrap();
    assert!(daemon.fails(&format!("host set esx1 --chap-secret-file {}", file.display()), 2).contains("12 to 255"));
    assert!(daemon.fails("host set esx1 --dhchap-generate", 2).contains("--chap-generate"));
    daemon.ok("host add nvme nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8054-b2c04f595331");
    assert!(daemon.fails("host set nvme --chap-generate", 2).contains("--dhchap-generate"));

    // A subsystem that asks for it of everybody, and one that asks for more than iSCSI has.
    daemon.ok("host set esx1 --no-chap");
    let mut host = Host::log_in(&daemon.iscsi(None)).unwrap();
    daemon.ok("subsystem set default --security authenticated");
    assert!(host.is_over(), "it has proved nothing");
    assert_eq!(daemon.turned_away(&daemon.iscsi(None)), AUTHENTICATION_FAILED, "a host without a secret");
    assert!(daemon.fails("subsystem set default --security encrypted", 5).contains("no encryption"));
    daemon.ok("subsystem set default --security plain");
    until("it gets in", || Host::log_in(&daemon.iscsi(None)).ok());
}

#[test]
fn iscsi_names_are_unique_and_free_again_and_a_missing_listener_is_said() {
    let daemon = Daemon::started(&USUAL);
    daemon.group_on_files(2, "256MiB", "512MiB");
    daemon.ok("subsystem create a --iscsi");
    assert_eq!(daemon.json("subsystem show a")["iqn"], "iqn.2026-11.io.basalt:a");
    daemon.ok("subsystem create b --iqn iqn.2026-11.com.example:b");
    assert!(daemon.fails("subsystem set b --iqn iqn.2026-11.io.basalt:a", 5).contains("iqn.2026-11.io.basalt:a"));
    assert!(daemon.fails("subsystem create c --iqn iqn.2026-11.com.example:b", 5).contains("iqn.2026-11.com.example:b"));
    assert!(daemon.fails("subsystem set b --iqn nonsense", 2).contains("is not an iSCSI name"));
    daemon.fails("subsystem set b --iqn iqn.2026-11.com.example:c --no-iscsi", 2);
    daemon.ok("subsystem delete a");
    daemon.ok("subsystem set b --iqn iqn.2026-11.io.basalt:a");
    daemon.ok("subsystem create c --iqn iqn.2026-11.com.example:b");
    assert!(daemon.ok("subsystem list").contains("NVMe/TCP, iSCSI"));
    assert!(!daemon.ok("status").contains("no address is listened on"), "nothing is attached");
    daemon.ok("volume create v --size 32MiB --subsystem b");
    let status = daemon.ok("status");
    assert!(status.contains("to be served over iSCSI, and no address is listened on for that"), "{status}");
}

#[test]
fn every_node_is_a_port_whose_state_follows_the_owner_of_the_volume() {
    use AccessState::{NonOptimized, Optimized, Transitioning};
    let node = |name: &str| {
        let more = crate::cluster::config(name);
        Daemon::started(&Setup { subject: Subject::Faults, cores: 1, more: &more, listeners: LISTENERS })
    };
    let (mut a, mut b) = (node("a"), node("b"));
    a.group_on_files(2, "256MiB", "512MiB");
    a.create_cluster();
    b.join(&a, "");
    a.ok("volume create v --size 32MiB");
    a.ok("subsystem set default --iscsi");
    let states = [(1, Optimized), (2, NonOptimized)];
    let through = |of: &Daemon| {
        let login = of.iscsi(None);
        until("the node passes on what it is asked", || {
            let mut host = Host::log_in(&login).ok()?;
            (host.luns() == [Lun::Unit(1)] && host.port_groups(1) == states).then_some(host)
        })
    };
    // The same groups through both; each is the relative port of VPD page 83h, and the portal group of its addresses.
    let (mut by_a, mut by_b) = (through(&a), through(&b));
    for (host, port) in [(&mut by_a, 1), (&mut by_b, 2)] {
        let page = parse_identification(&host.command(1, &[0x12, 1, 0x83, 1, 0, 0], 256, &[]).good()).expect("page 83h");
        assert!(page.contains(&Designator::RelativePort(port)) && page.contains(&Designator::PortGroup(port)), "{page:?}");
        assert!(page.iter().any(|d| matches!(d, Designator::Naa6(_))));
    }
    let portals = &Host::log_in(&Login { target: None, ..b.iscsi(None) }).unwrap().targets()[TARGET];
    let mut tags: Vec<&str> = portals.iter().map(|at| at.rsplit(',').next().expect("a tag")).collect();
    tags.sort_unstable();
    assert_eq!(tags, ["1", "2"], "{portals:?}");
    let block = pattern(4096, 3);
    by_b.write(1, 5, &block, 4096).good();
    assert!(by_a.read(1, 5, 1, 4096).good() == block);

    // The owner dies: the other node has no path to the volume, and another owner may come.
    a.kill();
    let changed = Some((SenseKey::UnitAttention, SenseCode::ACCESS_STATE_CHANGED));
    until("the host hears of it", || (by_b.ready(1).sense == changed).then_some(()));
    assert_eq!(by_b.port_groups(1), [(1, Transitioning), (2, Transitioning)]);
    assert_eq!(by_b.read(1, 5, 1, 4096).sense, Some((SenseKey::NotReady, SenseCode::PORT_IN_TRANSITION)));
}

#[test]
fn a_host_takes_a_volume_whole_from_both_protocols_until_its_session_ends_or_the_daemon_does() {
    let mut daemon = Daemon::on_iscsi(&USUAL);
    daemon.ok("volume create v --size 32MiB");
    daemon.ok("subsystem set default --iscsi");
    let reserve = |host: &mut Host| host.command(1, &[0x16, 0, 0, 0, 0, 0], 0, &[]);
    let mut a = Host::log_in(&daemon.iscsi(None)).unwrap();
    let mut b = Host::log_in(&Login { session: 2, ..daemon.iscsi(None) }).unwrap();
    let controller = Controller::connect(daemon.options()).unwrap();
    let mut nvme = controller.open_queue(1, 8, controller.namespace(1).unwrap()).unwrap();
    let conflict = ScsiStatus::ReservationConflict;
    reserve(&mut a).good();
    a.write(1, 0, &[1; 4096], 4096).good();
    assert_eq!((b.read(1, 0, 1, 4096).status, reserve(&mut b).status), (conflict, conflict));
    let read = nvme.execute(Io::Read { offset: 0, len: 4096 }).unwrap().status.code;
    assert_eq!(read, StatusCode::RESERVATION_CONFLICT);
    let shown = daemon.json("volume show v");
    assert_eq!(shown["reservation"]["taken_by"], daemon.iscsi(None).host.as_str(), "{shown}");
    assert!(daemon.ok("volume show v").contains("taken whole by"));

    // Its connection is lost.
    drop(a);
    until("it is given back", || (reserve(&mut b).status == ScsiStatus::Good).then_some(()));
    nvme.reserve(Reservation::Register { key: 0xC, cptpl: 0 }).unwrap_err();

    // kill -9: the session of who has it is gone.
    daemon.kill_and_start();
    let mut a = Host::log_in(&daemon.iscsi(None)).unwrap();
    until("it is given back", || (a.read(1, 0, 1, 4096).status == ScsiStatus::Good).then_some(()));
    // A clear by the administrator.
    let mut b = Host::log_in(&Login { session: 2, ..daemon.iscsi(None) }).unwrap();
    reserve(&mut b).good();
    assert_eq!(a.read(1, 0, 1, 4096).status, conflict);
    daemon.ok("volume clear-reservation v --yes");
    a.read(1, 0, 1, 4096).good();
}

/// Service actions of PERSISTENT RESERVE OUT.
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const PREEMPT: u8 = 4;
/// Types, as SCSI and as NVMe number them.
const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 3;
const NVME_WRITE_EXCLUSIVE: u8 = 1;

#[test]
fn a_reservation_is_one_for_both_protocols_and_persists_when_it_is_to() {
    let mut daemon = Daemon::on_iscsi(&USUAL);
    daemon.ok("volume create v --size 32MiB");
    daemon.ok("subsystem set default --iscsi");
    let mut a = Host::log_in(&daemon.iscsi(None)).unwrap();
    let mut b = Host::log_in(&Login { session: 2, ..daemon.iscsi(None) }).unwrap();
    let controller = Controller::connect(daemon.options()).unwrap();
    let mut nvme = controller.open_queue(1, 8, controller.namespace(1).unwrap()).unwrap();
    let conflict = ScsiStatus::ReservationConflict;
    let block = vec![1; 4096];

    // Two sessions of one host are two host ports, which fence each other; so is the host of NVMe/TCP.
    assert_eq!(a.reserve(RESERVE, WRITE_EXCLUSIVE, 0xA, 0, false).status, conflict, "it is not registered");
    a.reserve(REGISTER, 0, 0, 0xA, true).good();
    a.reserve(RESERVE, WRITE_EXCLUSIVE, 0xA, 0, false).good();
    assert_eq!(a.reservation(), (vec![0xA], Some((0xA, WRITE_EXCLUSIVE))));
    a.write(1, 0, &block, 4096).good();
    assert_eq!((b.write(1, 0, &block, 4096).status, b.read(1, 0, 1, 4096).status), (conflict, ScsiStatus::Good));
    let write =
        |queue: &mut initiator::IoQueue| queue.execute(Io::Write { offset: 0, data: vec![2; 4096], fua: false }).unwrap().status.code;
    assert_eq!(write(&mut nvme), StatusCode::RESERVATION_CONFLICT);
    let shown = daemon.json("volume show v");
    assert_eq!((&shown["reservation"]["kind"], &shown["reservation"]["persistent"]), (&"Write Exclusive".into(), &true.into()));

    // The host of NVMe/TCP takes it away; the one that had it hears of it.
    nvme.reserve(Reservation::Register { key: 0xC, cptpl: 0 }).unwrap();
    nvme.reserve(Reservation::Preempt { key: 0xC, other: 0xA, rtype: NVME_WRITE_EXCLUSIVE, abort: false }).unwrap();
    assert_eq!(write(&mut nvme), StatusCode::SUCCESS);
    assert_eq!(a.ready(1).sense, Some((SenseKey::UnitAttention, SenseCode::REGISTRATIONS_PREEMPTED)));
    assert_eq!(a.write(1, 0, &block, 4096).status, conflict);
    assert_eq!(a.reservation(), (vec![0xC], Some((0xC, WRITE_EXCLUSIVE))));

    // And the other way, for reads too.
    b.reserve(REGISTER, 0, 0, 0xB, true).good();
    assert_eq!(b.reserve(PREEMPT, EXCLUSIVE_ACCESS, 0xB, 0x77, false).status, conflict, "nobody has that key");
    b.reserve(PREEMPT, EXCLUSIVE_ACCESS, 0xB, 0xC, false).good();
    assert_eq!((write(&mut nvme), a.read(1, 0, 1, 4096).status), (StatusCode::RESERVATION_CONFLICT, conflict));
    b.write(1, 0, &block, 4096).good();

    // kill -9: it persists, and the host port is known again by its name and ISID.
    daemon.kill_and_start();
    let mut a = Host::log_in(&daemon.iscsi(None)).unwrap();
    let mut b = Host::log_in(&Login { session: 2, ..daemon.iscsi(None) }).unwrap();
    assert_eq!(a.reservation(), (vec![0xB], Some((0xB, EXCLUSIVE_ACCESS))));
    assert_eq!(a.read(1, 0, 1, 4096).status, conflict);
    assert!(b.read(1, 0, 1, 4096).good() == block);
    b.reserve(RELEASE, EXCLUSIVE_ACCESS, 0xB, 0, false).good();
    a.read(1, 0, 1, 4096).good();
    let audit = daemon.ok("audit --json");
    assert!(audit.contains("preempt key 0xc for Exclusive Access with key 0xb"), "{audit}");
}

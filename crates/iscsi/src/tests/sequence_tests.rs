//! What hosts, hypervisors and clusters do with a unit: sequences of commands that the own client sends, over sessions with digests, and that
//! `docs/scsi-support.md` lists as they were sent.
//!
//! ```text
//!  play ─► client (crate initiator) ─► bytes ─► session ─► volumes in memory, reservations
//!    └─► what was sent and how it ended ─► a row of the page
//! ```

use super::TARGET;
use super::memory::Memory;
use super::rig::Rig;
use crate::view::View;
use base::HostId;
use cluster::reservation::ReservationType as EngineType;
use format::scsi::alua::{AccessState, parse_port_groups};
use format::scsi::capacity::{Capacity, LbaRange, build_unmap};
use format::scsi::copy::{CopyList, CopySegment, CopyState, CopyStatus, CopyTarget, ListIdUsage};
use format::scsi::designator::{Designator, naa6, parse_identification};
use format::scsi::inquiry::Inquiry;
use format::scsi::reservation::{OutList, ReservationType, ReserveIn, ReserveOut, parse_full_status, parse_keys, parse_reservation};
use format::scsi::vpd::{BlockLimits, CopyLimits, Provisioning, parse_page, parse_serial, parse_supported};
use format::scsi::{
    BlockRange, Cdb, Command, CopyResults, LogSense, ModeSense, PageControl, PersistentReserveOut, SUPPORTED, ScsiStatus, SelectReport,
    SenseCode, SenseKey,
};
use frontend::{ControlVerb, Refused, Reply};
use initiator::iscsi::session::Payload;
use initiator::iscsi::{Command as Task, LoginOptions, ScsiFailure, Session};
use std::fmt::Write;
use std::sync::Arc;

/// A sequence.
struct Sequence {
    host: &'static str,
    what: &'static str,
    /// Ports of hosts that it needs: host, and number of its session.
    ports: &'static [(&'static str, u8)],
    play: fn(&mut Play),
}

const ONE: &[(&str, u8)] = &[("a", 1)];
const TWO_HOSTS: &[(&str, u8)] = &[("a", 1), ("b", 1)];
const TWO_PATHS: &[(&str, u8)] = &[("a", 1), ("a", 2)];

const SEQUENCES: &[Sequence] = &[
    Sequence { host: "ESXi", what: "a device is found", ports: ONE, play: esxi_finds_a_device },
    Sequence { host: "ESXi", what: "VAAI ATS: a lock on the disk is taken, contended and freed", ports: TWO_HOSTS, play: ats_locks },
    Sequence { host: "ESXi", what: "VAAI ATS: a heartbeat whose answer was lost is sent again", ports: ONE, play: ats_heartbeat },
    Sequence { host: "ESXi", what: "without ATS: VMFS-3 locks the unit while it changes its metadata", ports: TWO_HOSTS, play: unit_locks },
    Sequence { host: "ESXi", what: "VAAI XCOPY: 2 MiB within a unit and to another", ports: ONE, play: xcopy },
    Sequence { host: "ESXi", what: "VAAI Block Zeroing: 1 MiB", ports: ONE, play: block_zeroing },
    Sequence { host: "ESXi", what: "VAAI UNMAP: ranges of a thin unit", ports: ONE, play: esxi_unmaps },
    Sequence { host: "Windows", what: "a disk is found", ports: ONE, play: windows_finds_a_disk },
    Sequence { host: "Windows", what: "Optimize-Volume with ReTrim", ports: ONE, play: windows_trims },
    Sequence { host: "Windows", what: "MPIO: two paths to a disk of a cluster", ports: TWO_PATHS, play: mpio },
    Sequence {
        host: "Windows",
        what: "cluster validation: persistent reservations of two nodes",
        ports: TWO_HOSTS,
        play: cluster_validation,
    },
    Sequence { host: "Windows", what: "failover: the new owner arbitrates for the disk", ports: TWO_HOSTS, play: arbitration },
    Sequence { host: "Linux", what: "fence_scsi, fence_mpath: a node is fenced", ports: TWO_HOSTS, play: fencing },
];

/// The rows of the page: each sequence as it was played.
pub(super) fn rows() -> String {
    let mut rows = String::new();
    for s in SEQUENCES {
        let _ = writeln!(rows, "| {} | {} | {} |", s.host, s.what, Play::of(s).steps());
    }
    rows
}

#[test]
fn each_sequence_of_the_page_goes_as_it_should() {
    for s in SEQUENCES {
        let play = Play::of(s);
        assert!(!play.log.is_empty(), "{}: {}", s.host, s.what);
    }
}

/// How a command ended that was not carried out.
type Ended = (ScsiStatus, Option<(SenseKey, SenseCode)>);
const CONFLICT: Ended = (ScsiStatus::ReservationConflict, None);

/// A port of a host: the own client, and the session that it has with the target.
struct Port {
    name: &'static str,
    client: Session,
    rig: Rig,
}

/// Hosts at one target.
struct Play {
    ports: Vec<Port>,
    view: View,
    memory: Memory,
    /// What was sent, and how it ended.
    log: Vec<(usize, String)>,
}

impl Play {
    fn of(sequence: &Sequence) -> Play {
        let mut play = Play { ports: Vec::new(), view: super::view(), memory: Memory::default(), log: Vec::new() };
        let name = |host: &str| format!("iqn.2026-11.example:{host}");
        play.view.targets[0].hosts = sequence.ports.iter().map(|(host, _)| name(host)).collect();
        for (host, session) in sequence.ports {
            let options = LoginOptions {
                host: name(host),
                target: TARGET.into(),
                isid: [0x80, 0, 0, 0, 0, *session],
                header_digest: true,
                data_digest: true,
                chap: None,
            };
            let mut rig = Rig::new();
            rig.view = play.view.clone();
            play.ports.push(Port { name: host, client: Session::new(options, 4, |_| {}), rig });
            play.turn(play.ports.len() - 1);
            assert!(play.ports.last().unwrap().client.is_open(), "{}: it logs in", sequence.what);
        }
        (sequence.play)(&mut play);
        play
    }

    /// Moves bytes between a port and the target, has reservations carried out, until nothing happens any more.
    fn turn(&mut self, port: usize) {
        let Play { ports, view, memory, .. } = self;
        let Port { client, rig, .. } = &mut ports[port];
        std::mem::swap(memory, &mut rig.memory);
        rig.view = view.clone();
        rig.session.apply(&rig.view);
        loop {
            let wire = client.outgoing().to_vec();
            client.sent(wire.len());
            let mut came = rig.exchange(Some(&wire));
            if let Some(asked) = rig.asked.pop_front() {
                rig.away = Some(asked.request);
                let ControlVerb::Reservation { command, .. } = asked.what else { panic!("{:?}", asked.what) };
                let volume = rig.view.volumes[0].as_mut().unwrap();
                let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
                let result = state.execute(HostId::from_bytes(asked.by.host_id), &command);
                state.name_ports(&asked.by.ports);
                volume.volume.reservation = Some(Arc::new(state));
                rig.session.apply(&rig.view);
                rig.take_answer(result.map(|_| Reply::Done).map_err(Refused::from));
                came.extend(rig.exchange(None));
            }
            client.receive(&came).expect("what the target sends is right");
            if came.is_empty() && client.outgoing().is_empty() {
                break;
            }
        }
        *view = rig.view.clone();
        std::mem::swap(memory, &mut rig.memory);
    }

    fn send(&mut self, port: usize, lun: u64, cdb: Cdb, payload: Payload) -> Result<Vec<u8>, Ended> {
        self.ports[port].client.submit(Task { tag: 7, lun, cdb, payload }).expect("there is room");
        self.turn(port);
        let done = self.ports[port].client.pop().unwrap_or_else(|| panic!("{cdb:02X?} does not end"));
        let mut data = done.command.payload.into_bytes();
        data.truncate(done.bytes);
        let name =
            SUPPORTED.iter().find(|e| e.opcode() == cdb[0] && (!e.has_action || e.action() == cdb[1] & 0x1F)).expect("a command").name;
        let page = match cdb[0] {
            0x12 if cdb[1] & 1 == 1 => format!(" of VPD {:02X}h", cdb[2]),
            0x1A | 0x4D => format!(" of page {:02X}h", cdb[2] & 0x3F),
            _ => String::new(),
        };
        let result = done.result.map(|()| data).map_err(|f: ScsiFailure| (f.status, f.sense.map(|s| (s.key, s.code))));
        let end = match &result {
            Ok(_) => String::new(),
            Err((_, Some((_, code)))) => format!(" → {:02X}h/{:02X}h", code.asc(), code.ascq()),
            Err((ScsiStatus::ReservationConflict, None)) => " → RESERVATION CONFLICT".into(),
            Err((status, None)) => format!(" → {status:?}"),
        };
        let name = name.replace("PERSISTENT RESERVE ", "PR ").replace(',', "");
        self.log.push((port, format!("{name}{page}{end}")));
        result
    }
    /// A command that reads, and ends well.
    fn ask(&mut self, port: usize, lun: u64, command: Command, room: usize) -> Vec<u8> {
        let payload = if room == 0 { Payload::None } else { Payload::In(vec![0; room]) };
        self.send(port, lun, command.to_cdb(), payload).unwrap_or_else(|e| panic!("{command:?}: {e:?}"))
    }
    fn give(&mut self, port: usize, lun: u64, command: Command, data: Vec<u8>) -> Result<(), Ended> {
        self.send(port, lun, command.to_cdb(), Payload::Out(data)).map(drop)
    }
    fn page(&mut self, port: usize, page: u8) -> Vec<u8> {
        let data = self.ask(port, 0, Command::Inquiry { page: Some(page), allocation: 255 }, 255);
        assert_eq!(parse_page(&data).unwrap().0, page);
        data
    }
    /// A command without data.
    fn test(&mut self, port: usize) -> Result<(), Ended> {
        self.send(port, 0, Command::TestUnitReady.to_cdb(), Payload::None).map(drop)
    }
    fn write(&mut self, port: usize, lba: u64, data: Vec<u8>) -> Result<(), Ended> {
        let blocks = (data.len() / 512) as u32;
        self.give(port, 0, Command::Write(range(lba, blocks)), data)
    }
    fn read(&mut self, port: usize, lun: u64, lba: u64, blocks: u32) -> Vec<u8> {
        self.ask(port, lun, Command::Read(range(lba, blocks)), blocks as usize * 512)
    }
    fn swap(&mut self, port: usize, old: [u8; 512], new: [u8; 512]) -> Result<(), Ended> {
        self.give(port, 0, Command::CompareAndWrite(range(64, 1)), [old, new].concat())
    }
    fn reserve(&mut self, port: usize, action: ReserveOut, key: u64, action_key: u64) -> Result<(), Ended> {
        let list = OutList { key, action_key, ..OutList::default() }.to_bytes();
        let kind = Some(ReservationType::WriteExclusiveRegistrantsOnly);
        self.give(port, 0, Command::PersistentReserveOut(PersistentReserveOut { action, kind, list_length: list.len() as u32 }), list)
    }
    fn reserved(&mut self, port: usize, action: ReserveIn) -> Vec<u8> {
        self.ask(port, 0, Command::PersistentReserveIn { action, allocation: 1024 }, 1024)
    }
    fn keys(&mut self, port: usize) -> Vec<u64> {
        let mut keys = parse_keys(&self.reserved(port, ReserveIn::ReadKeys)).unwrap().1;
        keys.sort_unstable();
        keys
    }
    fn holder(&mut self, port: usize) -> Option<(u64, ReservationType)> {
        parse_reservation(&self.reserved(port, ReserveIn::ReadReservation)).unwrap().1
    }

    /// What was sent, as a line: the port is said where there are several, and what repeats is counted.
    fn steps(&self) -> String {
        let mut out = String::new();
        let mut at = 0;
        while let Some((port, text)) = self.log.get(at) {
            let times = self.log[at..].iter().take_while(|step| **step == (*port, text.clone())).count();
            let changed = at == 0 || self.log[at - 1].0 != *port;
            if at > 0 {
                out.push_str("; ");
            }
            if self.ports.len() > 1 && changed {
                let same_host = self.ports.iter().all(|p| p.name == self.ports[0].name);
                let _ = if same_host { write!(out, "path {}: ", port + 1) } else { write!(out, "{}: ", self.ports[*port].name) };
            }
            out.push_str(text);
            if times > 1 {
                let _ = write!(out, " ×{times}");
            }
            at += times;
        }
        out
    }
}

fn range(lba: u64, blocks: u32) -> BlockRange {
    BlockRange { lba, blocks, fua: false, dpo: false }
}
fn caching(p: &mut Play) {
    let sense = ModeSense {
        long: false,
        long_lba: false,
        no_descriptors: false,
        control: PageControl::Current,
        page: 0x08,
        subpage: 0,
        allocation: 192,
    };
    let (protected, values) = format::scsi::mode::parse_sensed(false, &p.ask(0, 0, Command::ModeSense(sense), 192)).unwrap();
    assert!(!protected && !values.write_cache, "a write is durable when it is answered");
}
fn unmap(p: &mut Play, ranges: &[(u64, u32)]) {
    let list = build_unmap(&ranges.iter().map(|(lba, blocks)| LbaRange { lba: *lba, blocks: *blocks }).collect::<Vec<_>>());
    p.give(0, 0, Command::Unmap { list_length: list.len() as u16 }, list).unwrap();
}
/// The limits of UNMAP of a thin unit.
fn thin(p: &mut Play) -> BlockLimits {
    let limits = BlockLimits::parse(&p.page(0, 0xB0)).unwrap();
    assert!(limits.unmap_blocks_max > 0 && limits.unmap_descriptors_max >= 2, "{limits:?}");
    let provisioning = Provisioning::parse(&p.page(0, 0xB2)).unwrap();
    assert!(provisioning.unmap);
    limits
}

fn esxi_finds_a_device(p: &mut Play) {
    let luns = p.ask(0, 0, Command::ReportLuns { select: SelectReport::Units, allocation: 4096 }, 4096);
    assert_eq!(luns.len(), 8 + 4 * 8);
    let inquiry = Inquiry::parse(&p.ask(0, 0, Command::Inquiry { page: None, allocation: 96 }, 96)).unwrap();
    assert!(inquiry.third_party_copy, "XCOPY is tried where 3PC says so");
    let pages = p.page(0, 0x00);
    assert!([0x80, 0x83, 0xB0, 0xB1, 0xB2].iter().all(|n| parse_supported(&pages).unwrap().contains(n)));
    assert!(!parse_serial(&p.page(0, 0x80)).unwrap().is_empty());
    let names = parse_identification(&p.page(0, 0x83)).unwrap();
    assert!(names.contains(&Designator::Naa6(naa6([1; 16]))) && names.contains(&Designator::PortGroup(1)), "{names:?}");
    p.test(0).unwrap();
    let capacity = Capacity::parse(&p.ask(0, 0, Command::ReadCapacity16 { allocation: 32 }, 32)).unwrap();
    assert_eq!((capacity.last_lba + 1, capacity.block_bytes), (8192, 512));
    caching(p);
    thin(p);
    let groups = parse_port_groups(&p.ask(0, 0, Command::ReportPortGroups { extended: false, allocation: 512 }, 512));
    assert!(groups.len() == 1 && groups[0].state == AccessState::Optimized, "{groups:?}");
}

const FREE: [u8; 512] = [0; 512];
const MISCOMPARE: Ended = (ScsiStatus::CheckCondition, Some((SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY)));

fn ats_locks(p: &mut Play) {
    let (a, b) = ([0xA; 512], [0xB; 512]);
    assert_eq!(p.read(0, 0, 64, 1), FREE);
    assert_eq!(p.read(1, 0, 64, 1), FREE);
    assert_eq!(p.swap(0, FREE, a), Ok(()));
    assert_eq!(p.swap(1, FREE, b), Err(MISCOMPARE));
    assert_eq!(p.read(1, 0, 64, 1), a, "it sees who has it");
    assert_eq!(p.swap(0, a, FREE), Ok(()));
    assert_eq!(p.swap(1, FREE, b), Ok(()));
    assert_eq!(p.read(0, 0, 64, 1), b);
}

fn ats_heartbeat(p: &mut Play) {
    let beat = |n: u8| [n; 512];
    p.write(0, 64, beat(1).to_vec()).unwrap();
    assert_eq!(p.swap(0, beat(1), beat(2)), Ok(()));
    // It does not know that this was carried out: it is sent again, and what is there says so.
    assert_eq!(p.swap(0, beat(1), beat(2)), Err(MISCOMPARE));
    assert_eq!(p.read(0, 0, 64, 1), beat(2));
    assert_eq!(p.swap(0, beat(2), beat(3)), Ok(()));
}

fn unit_locks(p: &mut Play) {
    let (a, b) = ([0xA; 512], [0xB; 512]);
    let none = |p: &mut Play, port: usize, command: Command| p.send(port, 0, command.to_cdb(), Payload::None).map(drop);
    assert_eq!(none(p, 0, Command::Reserve), Ok(()));
    assert_eq!(p.read(0, 0, 64, 1), FREE);
    assert_eq!(none(p, 1, Command::Reserve), Err(CONFLICT));
    assert_eq!(p.write(1, 64, b.to_vec()), Err(CONFLICT));
    assert_eq!(p.write(0, 64, a.to_vec()), Ok(()));
    assert_eq!(none(p, 0, Command::Release), Ok(()));
    assert_eq!(none(p, 1, Command::Reserve), Ok(()));
    assert_eq!(p.read(1, 0, 64, 1), a, "it sees what was changed");
    assert_eq!(none(p, 1, Command::Release), Ok(()));
    assert_eq!(p.write(0, 64, a.to_vec()), Ok(()));
}

fn xcopy(p: &mut Play) {
    let all: Vec<u8> = (0..2 << 20).map(|n: usize| (n / 512) as u8 ^ 0x5A).collect();
    for (n, part) in all.chunks(1 << 20).enumerate() {
        p.write(0, n as u64 * 2048, part.to_vec()).unwrap();
    }
    let operating = Command::ReceiveCopyResults { what: CopyResults::OperatingParameters, list_id: 0, allocation: 256 };
    let limits = CopyLimits::parse_operating_parameters(&p.ask(0, 0, operating, 256)).unwrap();
    assert_eq!(limits, crate::limits::COPY_LIMITS);
    let target = |n: u8| CopyTarget { designator: Designator::Naa6(naa6([n; 16])), block_bytes: 512 };
    let segment = |destination, lba| CopySegment {
        source: 0,
        destination,
        blocks: 4096,
        count_destination: false,
        source_lba: 0,
        destination_lba: lba,
    };
    let copy = |p: &mut Play, list: CopyList| {
        let list = list.to_bytes();
        p.give(0, 0, Command::ExtendedCopy { list_length: list.len() as u32 }, list)
    };
    // The data mover asks for no results.
    let unnamed = CopyList { list_id: 0, usage: ListIdUsage::None, targets: vec![target(1)], segments: vec![segment(0, 4096)] };
    assert_eq!(copy(p, unnamed), Ok(()));
    let named = CopyList { list_id: 9, usage: ListIdUsage::Kept, targets: vec![target(1), target(4)], segments: vec![segment(1, 0)] };
    assert_eq!(copy(p, named), Ok(()));
    let status = Command::ReceiveCopyResults { what: CopyResults::Status, list_id: 9, allocation: 12 };
    let done = CopyStatus::parse(&p.ask(0, 0, status, 12)).unwrap();
    assert_eq!((done.state, done.segments), (CopyState::Done, 1));
    // To a unit that is not of this target: the host copies by itself then.
    let away = CopyList { list_id: 0, usage: ListIdUsage::None, targets: vec![target(1), target(99)], segments: vec![segment(1, 0)] };
    assert_eq!(copy(p, away), Err((ScsiStatus::CheckCondition, Some((SenseKey::CopyAborted, SenseCode::COPY_TARGET_NOT_REACHABLE)))));
    assert!(p.memory.disks[&0][2 << 20..] == all[..] && p.memory.disks[&3][..2 << 20] == all[..]);
}

fn block_zeroing(p: &mut Play) {
    p.write(0, 2048, vec![7; 1 << 20]).unwrap();
    let limits = BlockLimits::parse(&p.page(0, 0xB0)).unwrap();
    assert!(limits.write_same_max >= 2048, "{limits:?}");
    // The command of 16 bytes, whatever fits.
    let mut cdb: Cdb = [0; 16];
    cdb[0] = 0x93;
    cdb[2..10].copy_from_slice(&2048u64.to_be_bytes());
    cdb[10..14].copy_from_slice(&2048u32.to_be_bytes());
    assert_eq!(p.send(0, 0, cdb, Payload::Out(FREE.to_vec())), Ok(Vec::new()));
    assert!(p.read(0, 0, 2048, 2048) == vec![0; 1 << 20]);
}

fn esxi_unmaps(p: &mut Play) {
    thin(p);
    p.write(0, 0, vec![7; 8192]).unwrap();
    unmap(p, &[(0, 4), (8, 4)]);
    let now = p.read(0, 0, 0, 16);
    let zero = |n: usize| now[n * 512..][..512] == FREE;
    assert!((0..4).chain(8..12).all(zero) && !(4..8).chain(12..16).any(zero));
}

fn windows_finds_a_disk(p: &mut Play) {
    let inquiry = Inquiry::parse(&p.ask(0, 0, Command::Inquiry { page: None, allocation: 255 }, 255)).unwrap();
    assert_eq!(inquiry.device_type, 0);
    p.page(0, 0x00);
    p.page(0, 0x80);
    p.page(0, 0x83);
    let (last, bytes) = Capacity::parse_short(&p.ask(0, 0, Command::ReadCapacity10, 8)).unwrap();
    assert_eq!((last, bytes), (Some(8191), 512));
    let capacity = Capacity::parse(&p.ask(0, 0, Command::ReadCapacity16 { allocation: 32 }, 32)).unwrap();
    assert!(capacity.provisioned && capacity.reads_zeroes, "{capacity:?}");
    caching(p);
    p.page(0, 0xB1);
    thin(p);
    assert_eq!(p.read(0, 0, 0, 1), FREE, "no partition table yet");
    p.write(0, 0, vec![0x55; 512]).unwrap();
    assert_eq!(p.read(0, 0, 0, 1), [0x55; 512]);
}

fn windows_trims(p: &mut Play) {
    let limits = thin(p);
    let space = LogSense { control: 1, page: 0x0C, subpage: 0, pointer: 0, allocation: 512 };
    assert!(p.ask(0, 0, Command::LogSense(space), 512).len() >= 4);
    p.write(0, 1024, vec![7; 512 * 1024]).unwrap();
    unmap(p, &[(1024, 1024.min(limits.unmap_blocks_max))]);
    let status = p.ask(0, 0, Command::GetLbaStatus { lba: 1024, allocation: 24 }, 24);
    assert_eq!(format::scsi::capacity::parse_lba_status(&status)[0].0.lba, 1024);
    assert!(p.read(0, 0, 1024, 1024) == vec![0; 512 * 1024]);
}

fn mpio(p: &mut Play) {
    let mut names = Vec::new();
    for path in [0, 1] {
        names.push(parse_identification(&p.page(path, 0x83)).unwrap().into_iter().find(|d| matches!(d, Designator::Naa6(_))));
        let groups = parse_port_groups(&p.ask(path, 0, Command::ReportPortGroups { extended: false, allocation: 512 }, 512));
        assert_eq!(groups[0].state, AccessState::Optimized);
    }
    assert!(names[0].is_some() && names[0] == names[1], "both paths lead to one disk");
    // One key for all paths of a node.
    for path in [0, 1] {
        assert_eq!(p.reserve(path, ReserveOut::RegisterAndIgnore, 0, 0xA), Ok(()));
    }
    assert_eq!(p.keys(1), [0xA, 0xA]);
    assert_eq!(p.reserve(0, ReserveOut::Reserve, 0xA, 0), Ok(()));
    assert_eq!(p.write(0, 0, vec![1; 512]), Ok(()));
    assert_eq!(p.write(1, 1, vec![1; 512]), Ok(()), "the other path too");
    assert_eq!(p.holder(1), Some((0xA, ReservationType::WriteExclusiveRegistrantsOnly)));
}

fn cluster_validation(p: &mut Play) {
    let (a, b, data) = (0xA, 0xB, || vec![1; 512]);
    assert_eq!(p.reserve(0, ReserveOut::RegisterAndIgnore, 0, a), Ok(()));
    assert_eq!(p.reserve(0, ReserveOut::Reserve, a, 0), Ok(()));
    assert_eq!(p.holder(0), Some((a, ReservationType::WriteExclusiveRegistrantsOnly)));
    assert_eq!(p.write(0, 0, data()), Ok(()));
    assert_eq!(p.reserve(1, ReserveOut::Reserve, b, 0), Err(CONFLICT), "it is not registered");
    assert_eq!(p.write(1, 0, data()), Err(CONFLICT));
    assert_eq!(p.read(1, 0, 0, 1), [1; 512], "who is not registered reads");
    assert_eq!(p.reserve(1, ReserveOut::RegisterAndIgnore, 0, b), Ok(()));
    assert_eq!(p.keys(1), [a, b]);
    assert_eq!(p.write(1, 0, data()), Ok(()), "registrants write");
    assert_eq!(p.reserve(1, ReserveOut::Reserve, b, 0), Err(CONFLICT), "another one holds it");
    assert_eq!(p.reserve(1, ReserveOut::Preempt, b, a), Ok(()));
    assert_eq!(p.holder(1), Some((b, ReservationType::WriteExclusiveRegistrantsOnly)));
    let preempted = Err((ScsiStatus::CheckCondition, Some((SenseKey::UnitAttention, SenseCode::REGISTRATIONS_PREEMPTED))));
    assert_eq!(p.test(0), preempted);
    assert_eq!(p.write(0, 0, data()), Err(CONFLICT));
    assert_eq!(p.reserve(0, ReserveOut::Register, a, 0xC), Err(CONFLICT), "its key is gone");
    assert_eq!(p.reserve(1, ReserveOut::Release, b, 0), Ok(()));
    assert_eq!(p.holder(1), None);
    assert_eq!(p.reserve(1, ReserveOut::Clear, b, 0), Ok(()));
    assert_eq!(p.keys(1), []);
    assert_eq!(p.write(0, 0, data()), Ok(()), "nobody holds it");
}

fn arbitration(p: &mut Play) {
    let (a, b) = (0xA, 0xB);
    assert_eq!(p.reserve(0, ReserveOut::RegisterAndIgnore, 0, a), Ok(()));
    assert_eq!(p.reserve(0, ReserveOut::Reserve, a, 0), Ok(()));
    // The challenger registers, and waits longer than an owner that lives needs to take its key away.
    assert_eq!(p.reserve(1, ReserveOut::RegisterAndIgnore, 0, b), Ok(()));
    assert_eq!(p.holder(1), Some((a, ReservationType::WriteExclusiveRegistrantsOnly)));
    // This owner lives: it finds a key that is not its own, and removes it.
    assert_eq!(p.keys(0), [a, b]);
    assert_eq!(p.reserve(0, ReserveOut::Preempt, a, b), Ok(()));
    assert_eq!(p.test(1), Err((ScsiStatus::CheckCondition, Some((SenseKey::UnitAttention, SenseCode::REGISTRATIONS_PREEMPTED)))));
    assert_eq!(p.reserve(1, ReserveOut::Preempt, b, a), Err(CONFLICT), "it has lost");
    // Now the owner is dead.
    assert_eq!(p.reserve(1, ReserveOut::RegisterAndIgnore, 0, b), Ok(()));
    assert_eq!(p.keys(1), [a, b]);
    assert_eq!(p.reserve(1, ReserveOut::Preempt, b, a), Ok(()));
    assert_eq!(p.holder(1), Some((b, ReservationType::WriteExclusiveRegistrantsOnly)));
    assert_eq!(p.write(1, 0, vec![2; 512]), Ok(()));
}

fn fencing(p: &mut Play) {
    let (a, b) = (0xA, 0xB);
    for (node, key) in [(0, a), (1, b)] {
        assert_eq!(p.reserve(node, ReserveOut::RegisterAndIgnore, 0, key), Ok(()));
    }
    assert_eq!(p.reserve(0, ReserveOut::Reserve, a, 0), Ok(()));
    assert_eq!(p.write(1, 0, vec![1; 512]), Ok(()));
    let full = parse_full_status(&p.reserved(1, ReserveIn::ReadFullStatus)).unwrap().1;
    let id = full.iter().find(|f| f.key == b).expect("it is registered").transport_id.clone();
    assert_eq!((full.len(), id.isid), (2, Some([0x80, 0, 0, 0, 0, 1])), "{full:?}");
    assert_eq!(p.reserve(1, ReserveOut::PreemptAndAbort, b, a), Ok(()));
    assert_eq!(p.test(0), Err((ScsiStatus::CheckCondition, Some((SenseKey::UnitAttention, SenseCode::REGISTRATIONS_PREEMPTED)))));
    assert_eq!(p.write(0, 0, vec![1; 512]), Err(CONFLICT));
    assert_eq!(p.reserve(0, ReserveOut::Clear, a, 0), Err(CONFLICT), "it is no registrant any more");
    assert_eq!(p.keys(1), [b]);
    let state = p.view.volumes[0].as_ref().unwrap().reservation.clone().unwrap();
    assert_eq!(state.rtype(), Some(EngineType::WriteExclusiveRegistrantsOnly));
}

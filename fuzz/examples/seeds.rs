//! Writes inputs that are valid into a corpus, for fuzzers to begin with: magic numbers, names and checksums are hard to guess.
//!
//!     cargo run -p fuzz --example seeds -- target/fuzz/corpus

use base::unit::{BLOCK_BYTES, CHUNK_BYTES};
use base::{
    ClusterId, ComponentId, DeviceUuid, Epoch, GroupId, HostId, Instant, IoVerb, NodeId, NodeRole, ObjectId, SecretBytes, VolumeId,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use format::disk::log::SegmentHeader;
use format::disk::page::{PAGE_BYTES, PAGE_HEADER_BYTES, TableHead};
use format::disk::{
    ChunkEntry, ComponentRecord, ComponentState, Descriptor, FormatTag, PageAddress, PageHeader, PageKind, Role, Superblock, chunk,
    component, foreign,
};
use format::nvme::auth::{Challenge, DhGroup, FailureReason, HashId, Ids, MessageId, Negotiate, Reply, Success1, failure, success2};
use format::nvme::fabrics::{Connect, ConnectData, PropertyAccess};
use format::nvme::identify::{
    IdentifyController, IdentifyNamespace, NamespaceDescriptor, write_controller_list, write_descriptors, write_namespace_list,
};
use format::nvme::log::{DiscoveryEntry, SUBTYPE_NVM, TRTYPE_TCP};
use format::nvme::reservation::{RegisteredExtended, ReportHead, write_extended_report};
use format::nvme::text::{nqn_field, padded};
use format::nvme::{Cqe, Sqe, Status, StatusCode};
use format::nvme_tcp::{CapsuleCmd, CapsuleResp, DataPdu, Digests, Fault, IcReq, IcResp, PduType, R2t, TermReq};
use format::peer::{
    BODY_BYTES_MAX, Cancel, Done, Envelope, Forward, Goodbye, GoodbyeReason, HEADER_BYTES, Hello, HelloAnswer, Incarnation, Issuer,
    LinkClass, Outcome, Refusal, RefusalReason, RequestId, Revision, Segment, SegmentSums, SessionNo, Tick, Totals, Versions, Window,
};
use format::scsi::alua::{AccessState, PortGroup, SUPPORTED_ACTIVE, build_port_groups};
use format::scsi::capacity::{LbaRange, ProvisioningStatus, build_lba_status, build_unmap};
use format::scsi::copy::{CopyList, CopySegment, CopyTarget, ListIdUsage, build_failure};
use format::scsi::designator::{Association, Designator, build_identification, naa6};
use format::scsi::inquiry::Inquiry;
use format::scsi::log::{self, LogParameter};
use format::scsi::mode::{self, ModePages, ModeValues};
use format::scsi::reservation::{FullStatus, MoveList, OutList, ReservationType, build_full_status, build_keys, build_reservation};
use format::scsi::vpd::{BlockLimits, CopyLimits};
use format::scsi::{Invalid, Lun, ModeSense, PageControl, SUPPORTED, Sense, SenseCode, SenseKey, TransportId, build_luns};
use format::token::{JoinToken, TOKEN_SECRET_BYTES};
use std::path::PathBuf;
use std::{env, fs};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
const NQN: &str = "nqn.2026-11.io.basalt:seed";

/// A mode byte and the rest, without the zeroes at its end.
fn with_mode(mode: u8, bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    [&[mode], &bytes[..end]].concat()
}

fn disk() -> Vec<(&'static str, Vec<u8>)> {
    let mut out = Vec::new();
    let device = DeviceUuid::from_bytes;
    let cache = Role::Cache { log_offset: 1 << 20, segment_bytes: 1 << 20, segments_per_shard: 8 };
    let capacity = Role::Capacity {
        index: 0,
        component_table_offset: 1 << 20,
        component_pages: 4,
        chunk_table_offset: 2 << 20,
        chunk_pages_per_shard: 3,
        chunk_area_offset: 4 << 20,
        chunks_per_shard: 40,
    };
    // As it is formatted, and after a device has come or gone.
    for (role, n, major, membership, numbers_from) in [(cache, 1, 3, 0, 0), (capacity, 2, 3, 0, 0), (cache, 1, 5, 7, 40)] {
        let s = Superblock {
            major,
            minor: 0,
            generation: 3,
            tag: FormatTag(5),
            cluster: ClusterId::from_bytes([1; 16]),
            group: GroupId::from_bytes([2; 16]),
            device: device([n; 16]),
            device_bytes: (4 << 20) + 80 * CHUNK_BYTES + (32 << 20),
            created_unix_s: 1_760_000_000,
            role,
            shards: 2,
            name: "group".into(),
            cache: device([1; 16]),
            capacity: vec![device([2; 16]), device([3; 16])],
            membership,
            numbers_from,
        };
        let mut b = vec![0; BLOCK_BYTES];
        s.build(&mut b);
        out.push(("disk_superblock", with_mode(1, &b)));
        out.push(("disk_superblock", with_mode(0, &b)));
    }
    let slot = |generation| {
        let mut page = vec![0; PAGE_BYTES];
        TableHead { pages_used: 7 }.build(&mut page);
        let address = PageAddress { kind: PageKind::ChunkHead, device: 1, shard: 1, index: 0 };
        PageHeader { tag: FormatTag(5), address, generation }.seal(&mut page);
        page.truncate(PAGE_HEADER_BYTES + 8);
        page
    };
    out.push(("disk_page", with_mode(3, &[slot(4), slot(5)].concat())));
    let mut page = vec![0; PAGE_BYTES];
    let entry = ChunkEntry {
        component: 3,
        chunk: 9,
        written: 0xF0F,
        unchecked: 1,
        uncorrectable: 2,
        lsn: 77,
        epoch: Epoch(4),
        changed: 0xFF,
        crcs: [9; 16],
    };
    chunk::put_entry(&mut page, 0, Some(&entry));
    chunk::put_entry(&mut page, 2, Some(&ChunkEntry { written: 1, unchecked: 0, uncorrectable: 0, ..entry }));
    out.push(("disk_chunk", page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + 288].to_vec()));
    let mut page = vec![0; PAGE_BYTES];
    let record = ComponentRecord {
        id: ComponentId::from_bytes([7; 16]),
        object: ObjectId::from_bytes([8; 16]),
        number: 1,
        state: ComponentState::Active,
        bytes: 1 << 30,
        reserve_chunks: 5,
        parent: 0,
        descriptor: b"what is above".to_vec(),
        copy: false,
    };
    component::put_record(&mut page, 0, Some(&record));
    out.push(("disk_component", page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + 140].to_vec()));
    let descriptor = Descriptor {
        volume: VolumeId::from_bytes([9; 16]),
        bytes: 1 << 30,
        lba_bytes: 4096,
        stripe: 1,
        stripes: 2,
        copy: 1,
        name: "db".into(),
        policy: "gold".into(),
    };
    out.push(("disk_descriptor", descriptor.build()));
    let segment =
        SegmentHeader { tag: FormatTag(5), shard: 1, index: 2, blocks: 256, segment_seq: 9, first_lsn: 30, tail_seq: 4, previous_crc: 5 };
    let mut b = vec![0; BLOCK_BYTES];
    segment.build(&mut b);
    out.push(("disk_segment", with_mode(1, &b)));
    // Built batches and summaries, and changes to them.
    for n in 0..4u8 {
        let bytes: Vec<u8> = (0..400u32).map(|i| (i.wrapping_mul(u32::from(n) + 77) >> 3) as u8).collect();
        out.push(("disk_batch", with_mode(2, &bytes)));
        out.push(("disk_summary", with_mode(2, &bytes)));
    }
    for (at, value, _) in foreign::FRONT {
        let mut b = vec![255, 255, 255, 0, 0];
        b.extend_from_slice(&(*at as u32).to_le_bytes()[..3]);
        b.push(value.len().min(31) as u8);
        b.extend_from_slice(value);
        out.push(("disk_foreign", b));
    }
    out
}

fn nvme() -> Vec<(&'static str, Vec<u8>)> {
    let mut out = Vec::new();
    let connect = Connect { recfmt: 0, qid: 1, sqsize: 31, cattr: 4, kato_ms: 5000 }.sqe(1);
    for sqe in [connect, PropertyAccess::set_sqe(2, 0x14, false, 0x46_0001), Sqe { opcode: 2, nsid: 1, ..Sqe::default() }] {
        out.push(("nvme_command", sqe.to_bytes().to_vec()));
    }
    let cqe = Cqe { result: 0x1_0003, sqhd: 4, sqid: 0, cid: 9, status: Status::dnr(StatusCode::INVALID_FIELD) };
    out.push(("nvme_fields", cqe.to_bytes().to_vec()));
    let mut b = vec![0; 4096];
    write_descriptors(&[NamespaceDescriptor::Uuid([3; 16]), NamespaceDescriptor::Nguid([4; 16]), NamespaceDescriptor::Csi(0)], &mut b);
    out.push(("nvme_identify", with_mode(0, &b)));
    write_namespace_list([1u32, 2, 9].into_iter(), 0, &mut b);
    out.push(("nvme_identify", with_mode(0, &b)));
    write_controller_list([1u16, 2, 9].into_iter(), 0, &mut b);
    out.push(("nvme_identify", with_mode(0, &b)));
    let ns = IdentifyNamespace { nsze: 8, ncap: 8, lbaf0: [0, 0, 9, 0], ..IdentifyNamespace::default() };
    out.push(("nvme_identify", with_mode(0, &ns.to_bytes())));
    let controller = IdentifyController { sn: padded("S1"), subnqn: nqn_field(NQN), ..IdentifyController::default() };
    out.push(("nvme_identify", with_mode(0, &controller.to_bytes()[..1100])));
    let entry = DiscoveryEntry {
        trtype: TRTYPE_TCP,
        subtype: SUBTYPE_NVM,
        trsvcid: padded("4420"),
        subnqn: nqn_field(NQN),
        traddr: padded("192.0.2.1"),
        ..DiscoveryEntry::default()
    };
    out.push(("nvme_log", with_mode(0, &entry.to_bytes())));
    let head = ReportHead { generation: 4, rtype: 1, regctl: 2, ptpls: 0 };
    let one = RegisteredExtended { cntlid: 0xFFFF, rcsts: 1, rkey: 7, hostid: [5; 16] };
    out.push(("nvme_reservation", write_extended_report(&head, [one, one].into_iter())));
    out.push(("nvme_connect", with_mode(0, &ConnectData::new([7; 16], 0xFFFF, NQN, HOST).to_bytes())));

    let (hashes, groups) = (Ids::new(HashId::ALL.iter().map(|h| h.id())), Ids::new(DhGroup::ALL.iter().map(|g| g.id())));
    out.push(("nvme_auth", Negotiate { t_id: 3, concatenation: 0, dhchap: Some((hashes, groups)) }.to_bytes()));
    out.push(("nvme_auth", Challenge { t_id: 3, hash: 1, group: 0, seq: 5, challenge: &[1; 32], dh_value: &[2; 8] }.to_bytes()));
    out.push(("nvme_auth", Reply { t_id: 3, seq: 5, response: &[1; 32], challenge: Some(&[2; 32]), dh_value: &[3; 8] }.to_bytes()));
    out.push(("nvme_auth", Success1 { t_id: 3, digest_bytes: 32, response: Some(&[6; 32]) }.to_bytes()));
    out.push(("nvme_auth", success2(3)));
    out.push(("nvme_auth", failure(MessageId::Failure1, 3, FailureReason::Failed)));

    for (bits, digests) in [(1, Digests::default()), (7, Digests { header: true, data: true })] {
        let mut pdu = |from_host: bool, bytes: &[u8]| {
            let rules = [if from_host { bits } else { bits & !1 }, 0, 64, 255];
            out.push(("nvme_tcp_pdu", [&rules, bytes].concat()));
        };
        let mut b = [0; 256];
        pdu(true, &IcReq { hpda: 0, digests, maxr2t: 0 }.to_bytes());
        pdu(false, &IcResp { cpda: 0, digests, maxh2cdata: 1 << 17 }.to_bytes());
        let n = CapsuleCmd { sqe: connect, data_bytes: 1024 }.write(digests, 0, &mut b);
        pdu(true, &b[..n]);
        let n = CapsuleResp { cqe }.write(digests, &mut b);
        pdu(false, &b[..n]);
        let data = DataPdu { cccid: 4, ttag: 1, offset: 0, bytes: 4096, last: true, success: false };
        let n = data.write(PduType::H2cData, digests, 0, &mut b);
        pdu(true, &b[..n]);
        let n = data.write(PduType::C2hData, digests, 0, &mut b);
        pdu(false, &b[..n]);
        let n = R2t { cccid: 4, ttag: 1, offset: 0, bytes: 4096 }.write(digests, &mut b);
        pdu(false, &b[..n]);
        let (b, n) = TermReq::bytes(PduType::H2cTermReq, Fault::field(3), &[4; 24]);
        pdu(true, &b[..n]);
    }
    out
}

fn text() -> Vec<(&'static str, Vec<u8>)> {
    let psk = "NVMeTLSkey-1:01:ERERERERERERERERERERERERERERERERERERERERERHYIEm8:";
    let v0 = format!("NVMe0R01 {HOST} {NQN}");
    let key = tls::ConfiguredPsk::parse(psk).expect("a key");
    let v1 = key.identity(HOST, NQN, tls::Derivation::Standard).expect("OpenSSL works").to_string();
    let secret = auth::Secret::generate(HashId::Sha256, &mut |b| b.fill(4)).expose().to_string();
    // A ClientHello: version, random, session, suites, compression, extensions (versions, modes, pre-shared key).
    let identities = [&(v0.len() as u16).to_be_bytes(), v0.as_bytes(), &[0; 4]].concat();
    let binders = [&[32][..], &[5; 32]].concat();
    let vector = |b: &[u8]| [&(b.len() as u16).to_be_bytes(), b].concat();
    let offers = [vector(&identities), vector(&binders)].concat();
    let extension = |kind: u16, b: &[u8]| [&kind.to_be_bytes()[..], &vector(b)].concat();
    let extensions = [extension(43, &[2, 3, 4]), extension(45, &[1, 1]), extension(41, &offers)].concat();
    let body = [&[3, 3][..], &[9; 32], &[0], &vector(&[0x13, 1, 0x13, 2]), &[1, 0], &vector(&extensions)].concat();
    vec![
        ("tls_psk", psk.into()),
        ("tls_identity", v0.into()),
        ("tls_identity", v1.into()),
        ("tls_hello", [&[1], &body[..]].concat()),
        ("tls_hello", [&[0x91], &body[..]].concat()),
        ("auth_secret", secret.into()),
        ("join_token", [&[0], token(NodeRole::Data, &["192.0.2.7:7443"]).as_bytes()].concat()),
        ("join_token", [&[0], token(NodeRole::Witness, &["[2001:db8::7]:7443", "192.0.2.7:1"]).as_bytes()].concat()),
        ("join_token", [&[0], token(NodeRole::Data, &["[::1]:1"; 8]).as_bytes()].concat()),
        ("join_token", [&[1], &token_bytes(NodeRole::Data, &["192.0.2.7:7443"])[..]].concat()),
        ("join_token", [&[9], &token_bytes(NodeRole::Witness, &["[2001:db8::7]:7443", "192.0.2.7:1"])[..]].concat()),
        ("join_token", b"\0basalt-join-2.AAAA".to_vec()),
        ("size", b"1.5TiB".to_vec()),
        ("size", b"10 GB".to_vec()),
        ("size", b"f81d4fae-7dec-41d0-a765-00a0c91e6bf6".to_vec()),
        ("config", include_bytes!("../../packaging/basalt.toml").to_vec()),
        (
            "config",
            b"data_dir = \"/d\"\n[target]\ncontroller_ids = \"1-1023\"\n[[listeners]]\naddr = \"[::]\"\nkind = \"discovery\"\n".to_vec(),
        ),
        ("auth_exchange", vec![0, 1, 0, 6, 0, 3, 0, 6, 0]),
        ("auth_exchange", vec![10, 1, 0, 6, 0, 3, 0, 6, 0, 5, 0]),
    ]
}

/// A join token.
fn token(role: NodeRole, addresses: &[&str]) -> String {
    let addresses = addresses.iter().map(|a| a.parse().expect("an address")).collect();
    let (cluster, secret) = (ClusterId::from_bytes([3; 16]), SecretBytes::new(vec![4; TOKEN_SECRET_BYTES]));
    let token = JoinToken { role, cluster, secret, fingerprint: [5; 32], expires_unix_s: 1_790_000_000, addresses };
    token.build().expose().to_owned()
}

/// What it is made of, without the checksum at its end.
fn token_bytes(role: NodeRole, addresses: &[&str]) -> Vec<u8> {
    let text = token(role, addresses);
    let mut bytes = URL_SAFE_NO_PAD.decode(text.split_once('.').expect("a prefix").1).expect("as it was built");
    bytes.truncate(bytes.len() - 4);
    bytes
}

/// Messages of the peer link, without their checksums.
fn peer() -> Vec<(&'static str, Vec<u8>)> {
    let envelope = Envelope { session: SessionNo(3), version: 1, totals: Totals { ops: 4, bytes: 1 << 21 } };
    let window = Window { ops: 4, bytes: 1 << 21 };
    let (from, to, incarnation, clock) = (NodeId::from_bytes([2; 16]), NodeId::from_bytes([3; 16]), Incarnation(4), Instant(5));
    let hello = Hello {
        cluster: ClusterId::from_bytes([1; 16]),
        from,
        to,
        incarnation,
        clock,
        versions: Versions::OURS,
        class: LinkClass::Foreground,
        lane: 1,
        lanes: 2,
        window,
    };
    let request = RequestId::new(7, 2);
    let forward = |verb, offset, len| Forward {
        request,
        volume: VolumeId::from_bytes([5; 16]),
        revision: Revision(6),
        stamp: clock,
        issuer: Issuer { host: HostId::from_bytes([8; 16]), controller: 9 },
        verb,
        offset,
        len,
        source: (verb == IoVerb::Copy).then(|| (VolumeId::from_bytes([6; 16]), 512)),
    };
    let blocks = [Segment { bytes: 8192, sums: SegmentSums::Blocks(&[10, 11]) }];
    let halves = [Segment { bytes: 512, sums: SegmentSums::Whole(12) }, Segment { bytes: 1024, sums: SegmentSums::Whole(13) }];
    let twice = [blocks[0], blocks[0]];
    let done = |outcome, detail| Done { request, outcome, detail };
    type Message<'a> = Box<dyn Fn(&mut [u8]) -> usize + 'a>;
    let messages: Vec<Message<'_>> = vec![
        Box::new(|out| hello.write(&envelope, out)),
        Box::new(|out| HelloAnswer { from: to, incarnation, clock, version: 1, window }.write(&envelope, out)),
        Box::new(|out| Refusal { reason: RefusalReason::OlderSession, detail: 9 }.write(&envelope, out)),
        Box::new(|out| Tick { clock }.write(&envelope, out)),
        Box::new(|out| Goodbye { reason: GoodbyeReason::Silence }.write(&envelope, out)),
        Box::new(|out| Cancel { request }.write(&envelope, out)),
        Box::new(|out| forward(IoVerb::Read, 4096, 8192).write(&envelope, &[], out)),
        Box::new(|out| forward(IoVerb::Trim, 0, 1 << 40).write(&envelope, &[], out)),
        Box::new(|out| forward(IoVerb::Copy, 0, 1 << 20).write(&envelope, &[], out)),
        Box::new(|out| forward(IoVerb::Flush, 0, 0).write(&envelope, &[], out)),
        Box::new(|out| forward(IoVerb::Write, 4096, 8192).write(&envelope, &blocks, out)),
        Box::new(|out| forward(IoVerb::Compare, (1 << 20) - 512, 1536).write(&envelope, &halves, out)),
        Box::new(|out| forward(IoVerb::CompareWrite, 0, 8192).write(&envelope, &twice, out)),
        Box::new(|out| done(Outcome::Done, 0).write(&envelope, &blocks, out)),
        Box::new(|out| done(Outcome::Media, 4096).write(&envelope, &[], out)),
        Box::new(|out| done(Outcome::TooOld, 0).write(&envelope, &[], out)),
    ];
    let mut out = vec![0; HEADER_BYTES + BODY_BYTES_MAX];
    let mut seed = |write: &dyn Fn(&mut [u8]) -> usize| {
        let n = write(&mut out);
        ("peer_message", [&[1], &out[..n]].concat())
    };
    messages.iter().map(|write| seed(write)).collect()
}

fn scsi() -> Vec<(&'static str, Vec<u8>)> {
    let id = TransportId { name: "iqn.2026-11.io.basalt:host".into(), isid: Some([0x40, 0, 1, 0x37, 0, 1]) };
    let naa = Designator::Naa6(naa6([7; 16]));
    let names =
        [naa.clone(), Designator::RelativePort(1), Designator::PortGroup(2), Designator::Name(Association::Device, id.name.clone())];
    let limits = CopyLimits { targets_max: 8, segments_max: 16, list_bytes_max: 4096, segment_bytes_max: 1 << 24, concurrent_max: 1 };
    let values = ModeValues::NONE;
    let modes =
        ModePages { current: values, changeable: values, default: values, write_protected: false, blocks: 1 << 20, block_bytes: 4096 };
    let sense = ModeSense {
        long: false,
        long_lba: false,
        no_descriptors: false,
        control: PageControl::Current,
        page: mode::PAGE_ALL,
        subpage: mode::SUBPAGE_ALL,
        allocation: 255,
    };
    let group = PortGroup { id: 1, preferred: true, state: AccessState::Optimized, status: 0, supported: SUPPORTED_ACTIVE, ports: vec![1] };
    let kind = ReservationType::WriteExclusive;
    let full = FullStatus { key: 1, all_target_ports: false, holds: Some(kind), port: 1, transport_id: id.clone() };
    let range = LbaRange { lba: 1, blocks: 2 };
    let segment = CopySegment { source: 0, destination: 0, blocks: 3, count_destination: false, source_lba: 4, destination_lba: 5 };
    let copy = CopyList {
        list_id: 1,
        usage: ListIdUsage::NotKept,
        targets: vec![CopyTarget { designator: naa, block_bytes: 4096 }],
        segments: vec![segment],
    };
    let miscompare = Sense::new(SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY).with_information(1);
    let inquiry = Inquiry { versions: vec![0x0460], ..Inquiry::no_unit("A", "B", "C") };
    let mut out: Vec<(u8, Vec<u8>)> =
        SUPPORTED.iter().map(|e| (0, [&[e.opcode(), e.action()], &vec![0; e.usage.len() - 2][..]].concat())).collect();
    out.extend([
        (1, miscompare.to_bytes(true)),
        (1, Invalid::cdb_bit(1, 7).sense().to_bytes(false)),
        (1, build_luns([Lun::Unit(1), Lun::Unit(300), Lun::WellKnown(1)].into_iter())),
        (2, inquiry.to_bytes().to_vec()),
        (2, build_identification(0, &names)),
        (2, BlockLimits::default().to_bytes(0)),
        (2, limits.to_page(0)),
        (3, [vec![0x3E], modes.sense(&sense).ok().flatten().unwrap_or_default()].concat()),
        (4, build_keys(1, [1, 2].into_iter())),
        (4, build_reservation(1, Some((1, kind)))),
        (4, build_full_status(1, [&full].into_iter())),
        (4, OutList { key: 1, action_key: 2, nexuses: Some(vec![id.clone()]), ..OutList::default() }.to_bytes()),
        (4, MoveList { key: 1, action_key: 2, unregister: true, persist: false, port: 1, to: id }.to_bytes()),
        (5, build_unmap(&[range, range])),
        (5, build_lba_status([(range, ProvisioningStatus::Deallocated)].into_iter())),
        (5, build_port_groups(Some(1), &[group])),
        (6, copy.to_bytes()),
        (6, build_failure(Some((2, &miscompare.to_bytes(false))))),
        (7, log::build_page(log::PAGE_TEMPERATURE, 0, &[LogParameter::temperature(log::TEMPERATURE, 30)], 0)),
    ]);
    out.into_iter().map(|(which, bytes)| ("scsi", [&[which][..], &bytes].concat())).collect()
}

/// Sequences of choices: any bytes will do, but short ones do little.
fn choices() -> Vec<(&'static str, Vec<u8>)> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut bytes = |n: usize| -> Vec<u8> {
        let step = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..n).map(step).collect()
    };
    let of = |(i, target): (usize, _)| (target, bytes(40 + 20 * i));
    let targets = (0..24).flat_map(|i| ["session", "connection", "peer_link"].map(|target| (i, target)));
    targets.chain((0..24).map(|i| (i, "peer_greeting"))).map(of).collect()
}

fn main() {
    let to = PathBuf::from(env::args().nth(1).expect("seeds FOLDER"));
    let mut count = 0;
    for (target, bytes) in [disk(), nvme(), scsi(), peer(), text(), choices()].concat() {
        let dir = to.join(target);
        fs::create_dir_all(&dir).expect("a folder can be made");
        fs::write(dir.join(format!("seed-{count:03}")), bytes).expect("a file can be written");
        count += 1;
    }
    println!("{count} seeds in {}", to.display());
}

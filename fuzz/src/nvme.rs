//! What NVMe commands and their data say (`format::nvme`).
//!
//! Asserted everywhere: a value read from bytes and written again is read as the same value; reserved bits are written as zero; nothing
//! is longer than the bytes that it came from.

use crate::input::{mode, stretched};
use format::nvme::admin::{Abort, FormatNvm, GetFeatures, GetLogPage, Identify, NamespaceAttachment, NamespaceManagement, SetFeatures};
use format::nvme::auth::{
    AuthCommand, Challenge, DhGroup, FIXED_BYTES, FailureReason, HashId, MessageId, Negotiate, Reply, Success1, failure, failure_code,
    success2, transaction_of,
};
use format::nvme::fabrics::{CONNECT_DATA_BYTES, Connect, ConnectData, PropertyAccess};
use format::nvme::identify::{
    CONTROLLER_LIST_MAX, Granularity, IdentifyController, IdentifyNamespace, IndependentNamespace, LbaFormat, NAMESPACE_LIST_MAX,
    NvmController, checked_controller_list, parse_controller_list, parse_descriptors, parse_namespace_list, write_controller_list,
    write_descriptors, write_namespace_list,
};
use format::nvme::io::{BlockRange, CopyCommand, CopyRange, DatasetManagement, DsmRange};
use format::nvme::log::{AnaGroup, AnaHeader, AsyncEvent, DiscoveryEntry, DiscoveryHeader, ErrorEntry, FirmwareSlots, Health};
use format::nvme::property::{Capabilities, Config, ControllerStatus};
use format::nvme::reservation::{
    Action, EXTENDED_HEAD_BYTES, Key, Keys, Notification, Registered, RegisteredExtended, Report, ReportHead, parse_extended_report,
    write_extended_report,
};
use format::nvme::text::{NQN_BYTES_MAX, is_nqn, nqn_field, nqn_of, padded, terminated, trimmed, until_nul};
use format::nvme::{
    AdminOpcode, CQE_BYTES, Cqe, FabricsType, Field, IDENTIFY_BYTES, IoOpcode, SQE_BYTES, SglKind, Sqe, Status, StatusCode,
};

/// Dwords that a command has, written by a host and read by a target.
macro_rules! dwords {
    ($sqe:ident: $( $of:ty => |$v:ident| $again:expr; )*) => {$({
        let $v = <$of>::of($sqe);
        assert_eq!(<$of>::of(&$again), $v, stringify!($of));
    })*};
}

/// A submission queue entry, and every command that it can be.
pub fn command(data: &[u8]) {
    let b: [u8; SQE_BYTES] = Field::get(&stretched(data, SQE_BYTES));
    let sqe = &Sqe::parse(&b);
    let mut known = b;
    known[1] &= 0b1100_0011; // the rest is reserved
    assert_eq!(sqe.to_bytes(), known);
    match sqe.sgl.kind() {
        SglKind::InCapsule { len, .. } | SglKind::Transport { len } | SglKind::Other { len, .. } => assert_eq!(len, sqe.sgl.len()),
    }
    let (cid, nsid) = (sqe.cid, sqe.nsid);
    dwords! { sqe:
        Identify => |v| v.sqe(cid);
        GetLogPage => |v| v.sqe(cid);
        GetFeatures => |v| v.sqe(cid);
        SetFeatures => |v| v.sqe(cid);
        Abort => |v| v.sqe(cid);
        NamespaceManagement => |v| v.sqe(cid);
        NamespaceAttachment => |v| v.sqe(cid);
        FormatNvm => |v| v.sqe(cid);
        BlockRange => |v| v.sqe(IoOpcode::Read, cid, nsid);
        DatasetManagement => |v| v.sqe(cid, nsid);
        CopyCommand => |v| v.sqe(cid, nsid);
        Action => |v| v.sqe(IoOpcode::ReservationRegister, cid, nsid);
        Report => |v| v.sqe(cid, nsid);
        Connect => |v| v.sqe(cid);
        AuthCommand => |v| v.send_sqe(cid);
        AuthCommand => |v| v.receive_sqe(cid);
    }
    let access = PropertyAccess::of(sqe);
    if let Some(bytes) = access.bytes() {
        let again = PropertyAccess::set_sqe(cid, access.offset, bytes == 8, access.value);
        assert_eq!(PropertyAccess::of(&again), access);
    }
    // Lengths that memory is taken by are what the fields say, without overflow.
    assert!((4..=4 << 32).contains(&GetLogPage::of(sqe).bytes()) && (4..=4 << 32).contains(&Report::of(sqe).bytes()));
    assert!(BlockRange::of(sqe).blocks() <= 1 << 16 && DatasetManagement::of(sqe).ranges() <= 256 && CopyCommand::of(sqe).ranges() <= 256);
    assert!(AdminOpcode::parse(sqe.opcode).is_none_or(|o| o.byte() == sqe.opcode));
    assert!(IoOpcode::parse(sqe.opcode).is_none_or(|o| o.byte() == sqe.opcode));
    assert!(FabricsType::parse(sqe.fctype()).is_none_or(|t| t.byte() == sqe.fctype()));
}

/// Completions, statuses, properties, events.
pub fn fields(data: &[u8]) {
    let b: [u8; CQE_BYTES] = Field::get(&stretched(data, CQE_BYTES));
    let cqe = Cqe::parse(&b);
    let mut known = b;
    known[14] &= !1; // the phase tag: fabrics have none
    assert_eq!(cqe.to_bytes(), known);
    let status = cqe.status;
    assert_eq!(Status::parse(status.bits()), status);
    assert_eq!(StatusCode::new(status.code.sct(), status.code.sc()), status.code);
    assert!(!status.to_owned().code.to_string().is_empty());
    assert!(status.code.name().is_none_or(|name| StatusCode::ALL.contains(&(status.code, name))));

    let v = cqe.result;
    assert_eq!(Capabilities::parse(Capabilities::parse(v).bits()), Capabilities::parse(v));
    assert_eq!(Capabilities::parse(v).bits() & !v, 0, "nothing is there that was not");
    assert_eq!(Config::parse(Config::parse(v as u32).bits()), Config::parse(v as u32));
    assert_eq!(Config::parse(v as u32).bits() & !(v as u32), 0);
    assert_eq!(ControllerStatus::parse(v as u32).bits(), v as u32 & 0xF);
    assert_eq!(AsyncEvent::parse(v as u32).bits(), v as u32 & 0x00FF_FF07);
    for id in b {
        assert!(HashId::parse(id).is_none_or(|h| h.id() == id && HashId::from_name(h.name()) == Some(h)));
        assert!(DhGroup::parse(id).is_none_or(|g| g.id() == id && DhGroup::from_name(g.name()) == Some(g)));
        assert!(FailureReason::parse(id).is_none_or(|r| r as u8 == id));
    }
}

/// Structures made by `layout!`: parse, write, parse; too short is refused.
macro_rules! structures {
    ($b:expr, $( $name:ident ),* $(,)?) => {$({
        let b: &[u8] = $b;
        match $name::parse(b) {
            None => assert!(b.len() < $name::LEN, stringify!($name)),
            Some(v) => {
                assert!(b.len() >= $name::LEN);
                let bytes = v.to_bytes();
                assert_eq!($name::parse(&bytes), Some(v), stringify!($name));
                assert!(bytes.iter().zip(b).all(|(now, was)| *now == 0 || now == was), "{}: reserved bytes are zero", stringify!($name));
            }
        }
    })*};
}

/// Identify data: what a target writes and a client reads, and what hosts send (new namespaces, controller lists).
pub fn identify(data: &[u8]) {
    let (how, rest) = mode(data);
    let b = &stretched(rest, if how & 1 == 0 { IDENTIFY_BYTES } else { rest.len().min(IDENTIFY_BYTES) });
    structures!(b, IdentifyController, IdentifyNamespace, IndependentNamespace, NvmController, Granularity, LbaFormat);
    if let Some(ns) = IdentifyNamespace::parse(b) {
        assert!(ns.lba_bytes().is_none_or(|n| n.is_power_of_two() && (512..=65536).contains(&n)));
    }
    let mut out = vec![0xFF; IDENTIFY_BYTES];

    let list = parse_descriptors(b);
    write_descriptors(&list, &mut out);
    assert_eq!(parse_descriptors(&out), list);

    let list = parse_namespace_list(b);
    assert!(list.len() <= NAMESPACE_LIST_MAX && list.len() <= b.len() / 4 && !list.contains(&0));
    if list.is_sorted() {
        write_namespace_list(list.iter().copied(), 0, &mut out);
        assert_eq!(parse_namespace_list(&out), list);
    }

    let list = parse_controller_list(b);
    assert!(list.len() <= CONTROLLER_LIST_MAX && list.len() <= b.len() / 2);
    if let Some(checked) = checked_controller_list(b) {
        assert_eq!(checked, list);
        assert!(!list.is_empty() && list.windows(2).all(|w| w[0] < w[1]));
        write_controller_list(list.iter().copied(), 0, &mut out);
        assert_eq!(checked_controller_list(&out), Some(list));
        assert_eq!(out[..2], b[..2], "it has as many as it says");
    }
}

/// Log pages, the discovery log among them.
pub fn log(data: &[u8]) {
    let (how, rest) = mode(data);
    let b = &stretched(rest, if how & 1 == 0 { DiscoveryEntry::LEN } else { rest.len() });
    structures!(b, ErrorEntry, Health, FirmwareSlots, AnaHeader, AnaGroup, DiscoveryHeader, DiscoveryEntry);
    if let Some(e) = DiscoveryEntry::parse(b) {
        for (text, field) in [(e.service(), &e.trsvcid[..]), (e.address(), &e.traddr)] {
            assert!(text.len() <= field.len() && text.bytes().all(|b| (0x20..0x7F).contains(&b)));
        }
        assert!(e.nqn().is_none_or(|nqn| nqn_field(nqn)[..nqn.len()] == e.subnqn[..nqn.len()]));
    }
}

/// Data of reservation commands, reports, notifications.
pub fn reservation(data: &[u8]) {
    structures!(data, Keys, Key, ReportHead, Registered, RegisteredExtended, Notification);
    match parse_extended_report(data) {
        None => assert!(data.len() < ReportHead::LEN),
        Some((head, entries)) => {
            assert!(entries.len() <= usize::from(head.regctl) && entries.len() * RegisteredExtended::LEN <= data.len());
            let written = write_extended_report(&head, entries.iter().copied());
            assert_eq!(written.len(), EXTENDED_HEAD_BYTES + entries.len() * RegisteredExtended::LEN);
            assert_eq!(parse_extended_report(&written), Some((head, entries)));
        }
    }
}

/// Messages of DH-HMAC-CHAP.
pub fn auth(data: &[u8]) {
    let id = MessageId::of(data);
    assert!(id.is_none() || data.len() >= 8);
    let t_id = transaction_of(data);
    let negotiate = Negotiate::parse(data);
    if let Some(m) = &negotiate {
        assert_eq!((id, m.t_id), (Some(MessageId::Negotiate), t_id));
        assert_eq!(Negotiate::parse(&m.to_bytes()), negotiate);
    }
    let challenge = Challenge::parse(data);
    if let Some(m) = &challenge {
        assert_eq!((id, m.t_id), (Some(MessageId::Challenge), t_id));
        assert!(FIXED_BYTES + m.challenge.len() + m.dh_value.len() <= data.len());
        assert_eq!(Challenge::parse(&m.to_bytes()), challenge);
    }
    let reply = Reply::parse(data);
    if let Some(m) = &reply {
        assert_eq!((id, m.t_id), (Some(MessageId::Reply), t_id));
        let again = m.to_bytes();
        assert_eq!(again.len(), data.len(), "its length is what its fields say");
        assert_eq!(Reply::parse(&again), reply);
    }
    let success = Success1::parse(data);
    if let Some(m) = &success {
        assert_eq!((id, m.t_id), (Some(MessageId::Success1), t_id));
        assert_eq!(Success1::parse(&m.to_bytes()), success);
    }
    assert!([negotiate.is_some(), challenge.is_some(), reply.is_some(), success.is_some()].iter().filter(|is| **is).count() <= 1);
    assert_eq!(MessageId::of(&success2(t_id)), Some(MessageId::Success2));
    if let Some(code) = failure_code(data) {
        let id = id.expect("a failure is a message");
        if let Some(reason) = FailureReason::parse(code) {
            assert_eq!(failure_code(&failure(id, t_id, reason)), Some(code));
        }
    }
}

/// Data of Connect, ranges of Dataset Management and Copy, texts.
pub fn connect(data: &[u8]) {
    let (how, rest) = mode(data);
    let b = &stretched(rest, if how & 1 == 0 { CONNECT_DATA_BYTES } else { rest.len() });
    structures!(b, ConnectData, DsmRange, CopyRange);
    if let Some(c) = ConnectData::parse(b) {
        let names = (c.subsystem(), c.host());
        for nqn in [names.0, names.1].into_iter().flatten() {
            assert!(is_nqn(nqn) && nqn.len() <= NQN_BYTES_MAX);
        }
        if let (Some(subnqn), Some(hostnqn)) = names {
            let again = ConnectData::new(c.host_id, c.cntlid, subnqn, hostnqn);
            assert_eq!((again.subsystem(), again.host()), names);
        }
        assert!(c.host_or_none().is_none_or(|host| host.is_empty() || c.host() == Some(host)));
    }
    if let Some(nqn) = nqn_of(b) {
        assert_eq!((until_nul(b), nqn_of(&nqn_field(nqn))), (Some(nqn), Some(nqn)));
    }
    let text = trimmed(b);
    assert!(text.len() <= b.len());
    assert_eq!(trimmed(&padded::<64>(&text)), trimmed(&text.as_bytes()[..text.len().min(64)]));
    if let Ok(text) = core::str::from_utf8(b) {
        assert!(until_nul(&terminated::<32>(text)).is_some_and(|t| text.starts_with(t)), "a text that is cut stays a text");
    }
}

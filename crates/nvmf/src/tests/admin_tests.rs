//! Admin commands that say what is there and ask for what is not: namespaces of several hosts, logs, features, events, management.

use super::client::{Client, Pdu, with_transport};
use super::controller_tests::{Bench, bench};
use super::session_tests::Bench as Queue;
use super::{HOST, NQN};
use crate::admin::{Answer, FEATURES};
use crate::shared::ControllerShared;
use crate::view::{Ana, AnaState};
use base::{Visibility, WriteProtect};
use format::nvme::admin::{
    FormatNvm, GetFeatures, GetLogPage, Identify, NamespaceAction, NamespaceAttachment, NamespaceManagement, SetFeatures,
};
use format::nvme::feature::{self, Select};
use format::nvme::identify::{
    Granularity, IdentifyController, IdentifyNamespace, parse_controller_list, parse_namespace_list, write_controller_list,
};
use format::nvme::io::BlockRange;
use format::nvme::log::{AnaGroup, AnaHeader, AsyncEvent, ErrorEntry, Health};
use format::nvme::{Field, IoOpcode, NSID_ALL, Sgl, Sqe, Status, StatusCode};
use frontend::ControlVerb;
use object::IoError;
use std::collections::BTreeSet;
use std::sync::Arc;

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";

/// A controller of [`HOST`] (ID 5); one of [`OTHER`] (ID 6) and one of another subsystem (ID 7) on other cores. Namespace 2 is attached to
/// nobody, 3 to [`OTHER`] only. Hosts may manage namespaces.
fn shared_by_two() -> Bench {
    let mut b = bench(false, 0);
    b.shared.register_controller(&Arc::clone(&b.c.shared));
    b.shared.register_controller(&Arc::new(ControllerShared::new(6, 2, NQN, OTHER, [8; 16], false)));
    b.shared.register_controller(&Arc::new(ControllerShared::new(7, 3, "nqn.2026-11.io.basalt:other", OTHER, [8; 16], false)));
    let s = &mut b.view.subsystems[0];
    s.manage_namespaces = true;
    s.hosts.push(OTHER.into());
    s.namespaces.get_mut(&2).unwrap().hosts = Visibility::Only(BTreeSet::new());
    s.namespaces.get_mut(&3).unwrap().hosts = Visibility::Only(BTreeSet::from([OTHER.to_owned()]));
    b.enable();
    b
}

fn identify(cns: u8, nsid: u32, cntid: u16, csi: u8) -> Sqe {
    Sqe { sgl: Sgl::transport(4096), ..Identify { cns, cntid, nsid, csi, cnssid: 0 }.sqe(1) }
}

#[test]
fn allocated_namespaces_are_shown_to_hosts_that_may_manage_them() {
    let mut b = shared_by_two();
    assert_eq!(parse_namespace_list(&b.data(identify(0x02, 0, 0, 0))), [1], "attached");
    assert_eq!(parse_namespace_list(&b.data(identify(0x07, 0, 0, 0))), [1]);
    assert_eq!(parse_namespace_list(&b.data(identify(0x10, 0, 0, 0))), [1, 2, 3], "allocated");
    assert_eq!(parse_namespace_list(&b.data(identify(0x1A, 1, 0, 0))), [2, 3]);
    let namespace = |b: &mut Bench, cns, nsid| IdentifyNamespace::parse(&b.data(identify(cns, nsid, 0, 0))).unwrap();
    assert_eq!(namespace(&mut b, 0x00, 2), IdentifyNamespace::default(), "inactive");
    assert_eq!((namespace(&mut b, 0x11, 2).nsze, namespace(&mut b, 0x11, 2).flbas), (1024, 1), "allocated: 4096-byte blocks");
    assert_eq!(namespace(&mut b, 0x11, 9), IdentifyNamespace::default(), "unallocated");
    b.view.subsystems[0].manage_namespaces = false;
    assert_eq!(parse_namespace_list(&b.data(identify(0x10, 0, 0, 0))), [1], "others are nobody's business");
    assert_eq!(namespace(&mut b, 0x11, 2), IdentifyNamespace::default());
}

#[test]
fn namespace_ids_that_name_nothing_are_distinguished() {
    let mut b = shared_by_two();
    let common = IdentifyNamespace::parse(&b.data(identify(0x00, NSID_ALL, 0, 0))).unwrap();
    assert_eq!((common.nlbaf, common.lbaf0[2], common.lbaf1[2], common.nsze), (1, 9, 12, 0), "what is common to all");
    assert!(b.data(identify(0x05, NSID_ALL, 0, 0)).iter().all(|x| *x == 0));
    let cases = [
        (identify(0x03, 9, 0, 0), StatusCode::INVALID_FIELD),
        (identify(0x03, 3, 0, 0), StatusCode::INVALID_FIELD),
        (identify(0x03, 5000, 0, 0), StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (identify(0x12, 9, 0, 0), StatusCode::INVALID_FIELD),
        (identify(0x12, NSID_ALL, 0, 0), StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (identify(0x11, NSID_ALL, 0, 0), StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (identify(0x08, NSID_ALL, 0, 0), StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (identify(0x10, NSID_ALL, 0, 0), StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (identify(0x05, 1, 0, 2), StatusCode::INVALID_FIELD),
        (identify(0x06, 0, 0, 2), StatusCode::INVALID_FIELD),
        (identify(0x07, 0, 0, 2), StatusCode::INVALID_FIELD),
        (identify(0x1A, 0, 0, 2), StatusCode::INVALID_FIELD),
        (identify(0x1C, 0, 99, 0), StatusCode::INVALID_FIELD),
    ];
    for (sqe, code) in cases {
        assert_eq!(b.status(sqe).0, code, "{:?}", Identify::of(&sqe));
    }
    b.view.subsystems[0].manage_namespaces = false;
    assert_eq!(b.status(identify(0x00, NSID_ALL, 0, 0)).0, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
}

#[test]
fn controller_lists_hold_the_controllers_of_all_cores() {
    let mut b = shared_by_two();
    assert_eq!(parse_controller_list(&b.data(identify(0x13, 0, 0, 0))), [5, 6]);
    assert_eq!(parse_controller_list(&b.data(identify(0x13, 0, 6, 0))), [6], "from CNTID on");
    assert_eq!(parse_controller_list(&b.data(identify(0x12, 1, 0, 0))), [5, 6]);
    assert_eq!(parse_controller_list(&b.data(identify(0x12, 3, 0, 0))), [6]);
    assert!(parse_controller_list(&b.data(identify(0x12, 2, 0, 0))).is_empty());
    assert_eq!(u64::get(&b.data(identify(0x1C, 0, 6, 0))), 1, "the combination of another controller");
    let gone = b.shared.controllers_of(NQN).pop().unwrap();
    b.shared.discharge(&gone);
    assert_eq!(parse_controller_list(&b.data(identify(0x13, 0, 0, 0))), [5]);
    let granularity = Granularity::parse(&b.data(identify(0x16, 0, 0, 0))).unwrap();
    assert_eq!((granularity.size, granularity.capacity), (1 << 20, 1 << 20));
}

#[test]
fn what_is_granted_is_what_identify_and_the_effects_log_say() {
    let mut b = shared_by_two();
    let oacs = |b: &mut Bench| IdentifyController::parse(&b.data(identify(0x01, 0, 0, 0))).unwrap().oacs;
    let effects = |b: &mut Bench, op: usize| u32::get(&b.data(Bench::log(5, 0, 4096, false))[op * 4..]);
    assert_eq!((oacs(&mut b), effects(&mut b, 0x0D) & 1, effects(&mut b, 0x80) & 7), (1 << 1 | 1 << 3, 1, 7));
    b.view.subsystems[0].manage_namespaces = false;
    assert_eq!((oacs(&mut b), effects(&mut b, 0x0D), effects(&mut b, 0x80)), (0, 0, 0));
    for opcode in [0x0D, 0x15, 0x80] {
        assert_eq!(b.status(Sqe { opcode, ..Sqe::default() }).0, StatusCode::INVALID_OPCODE);
    }
}

fn asked(answer: Answer) -> Result<ControlVerb, StatusCode> {
    match answer {
        Answer::ControlRequest(what) => Ok(what),
        Answer::Refuse(s, _) => Err(s.code),
        _ => panic!("neither asked nor refused"),
    }
}

#[test]
fn a_namespace_to_be_made_is_judged_before_anybody_is_asked() {
    let mut b = shared_by_two();
    let create = NamespaceManagement { action: Some(NamespaceAction::Create), csi: 0, nsid: 0 };
    let good = IdentifyNamespace { nsze: 2048, ncap: 2048, flbas: 1, ..IdentifyNamespace::default() };
    let make = |b: &mut Bench, n: IdentifyNamespace| asked(b.run_with(create.sqe(1), &n.to_bytes()));
    assert_eq!(make(&mut b, good), Ok(ControlVerb::CreateUnit { blocks: 2048, lba_bytes: 4096, shared: false }));
    let shared = IdentifyNamespace { nmic: 1, flbas: 0, ..good };
    assert_eq!(make(&mut b, shared), Ok(ControlVerb::CreateUnit { blocks: 2048, lba_bytes: 512, shared: true }));
    for (wrong, code) in [
        (IdentifyNamespace { ncap: 1024, ..good }, StatusCode::THIN_PROVISIONING_NOT_SUPPORTED),
        (IdentifyNamespace { ncap: 4096, ..good }, StatusCode::INVALID_FIELD),
        (IdentifyNamespace { nsze: 0, ncap: 0, ..good }, StatusCode::INVALID_FIELD),
        (IdentifyNamespace { flbas: 2, ..good }, StatusCode::INVALID_FORMAT),
        (IdentifyNamespace { dps: 1, ..good }, StatusCode::INVALID_FORMAT),
        (IdentifyNamespace { anagrpid: 1, ..good }, StatusCode::ANA_GROUP_ID_INVALID),
        (IdentifyNamespace { nmic: 2, ..good }, StatusCode::INVALID_FIELD),
        (IdentifyNamespace { endgid: 1, ..good }, StatusCode::INVALID_FIELD),
        (IdentifyNamespace { nsze: u64::MAX, ncap: u64::MAX, ..good }, StatusCode::INSUFFICIENT_CAPACITY),
    ] {
        assert_eq!(make(&mut b, wrong), Err(code), "{wrong:?}");
    }
    let bytes = good.to_bytes();
    assert_eq!(asked(b.run_with(create.sqe(1), &bytes[..512])), Err(StatusCode::DATA_SGL_LENGTH_INVALID));
    let zoned = NamespaceManagement { csi: 2, ..create };
    assert_eq!(asked(b.run_with(zoned.sqe(1), &bytes)), Err(StatusCode::COMMAND_SET_NOT_SUPPORTED));
    let reserved = NamespaceManagement { action: None, ..create };
    assert_eq!(asked(b.run_with(reserved.sqe(1), &bytes)), Err(StatusCode::INVALID_FIELD));
    let delete = |nsid| NamespaceManagement { action: Some(NamespaceAction::Delete), csi: 0, nsid }.sqe(1);
    assert_eq!(asked(b.run(delete(2))), Ok(ControlVerb::DeleteUnit { unit: Some(2) }), "allocated, attached to nobody");
    assert_eq!(asked(b.run(delete(NSID_ALL))), Ok(ControlVerb::DeleteUnit { unit: None }));
    assert_eq!(asked(b.run(delete(9))), Err(StatusCode::INVALID_FIELD));
    assert_eq!(asked(b.run(delete(0))), Err(StatusCode::INVALID_NAMESPACE_OR_FORMAT));
}

#[test]
fn attachment_names_the_hosts_of_the_controllers_in_the_list() {
    let mut b = shared_by_two();
    let mut list = vec![0; 4096];
    let attach = |attach, nsid| NamespaceAttachment { attach: Some(attach), nsid }.sqe(1);
    write_controller_list([5, 6].into_iter(), 0, &mut list);
    let hosts = vec![HOST.to_owned(), OTHER.to_owned()];
    assert_eq!(asked(b.run_with(attach(true, 2), &list)), Ok(ControlVerb::AttachUnit { unit: 2, hosts }));
    write_controller_list([6].into_iter(), 0, &mut list);
    let other = vec![OTHER.to_owned()];
    assert_eq!(asked(b.run_with(attach(false, 3), &list)), Ok(ControlVerb::DetachUnit { unit: 3, hosts: other }));
    for wrong in [&[7][..], &[5, 9], &[6, 5], &[]] {
        list.fill(0);
        (wrong.len() as u16).put(&mut list);
        wrong.iter().enumerate().for_each(|(i, id): (usize, &u16)| id.put(&mut list[2 + i * 2..]));
        assert_eq!(asked(b.run_with(attach(true, 2), &list)), Err(StatusCode::CONTROLLER_LIST_INVALID), "{wrong:?}");
    }
    u16::MAX.put(&mut list);
    assert_eq!(asked(b.run_with(attach(true, 2), &list)), Err(StatusCode::CONTROLLER_LIST_INVALID));
    assert_eq!(asked(b.run_with(attach(true, 9), &list)), Err(StatusCode::INVALID_FIELD));
    assert_eq!(asked(b.run_with(attach(true, NSID_ALL), &list)), Err(StatusCode::INVALID_NAMESPACE_OR_FORMAT));
    assert_eq!(asked(b.run_with(attach(true, 2), &[])), Err(StatusCode::DATA_SGL_LENGTH_INVALID));
}

#[test]
fn a_format_is_judged_before_anybody_is_asked() {
    let mut b = shared_by_two();
    let good = FormatNvm { lba_format: 1, protection: 0, secure_erase: 0, nsid: 1 };
    assert_eq!(asked(b.run(good.sqe(1))), Ok(ControlVerb::Format { unit: 1, lba_bytes: 4096 }));
    let erase = FormatNvm { lba_format: 0, secure_erase: 1, ..good };
    assert_eq!(asked(b.run(erase.sqe(1))), Ok(ControlVerb::Format { unit: 1, lba_bytes: 512 }));
    for (wrong, code) in [
        (FormatNvm { lba_format: 2, ..good }, StatusCode::INVALID_FORMAT),
        (FormatNvm { lba_format: 17, ..good }, StatusCode::INVALID_FORMAT),
        (FormatNvm { protection: 1, ..good }, StatusCode::INVALID_FORMAT),
        (FormatNvm { secure_erase: 2, ..good }, StatusCode::INVALID_FIELD),
        (FormatNvm { nsid: NSID_ALL, ..good }, StatusCode::INVALID_FIELD),
        (FormatNvm { nsid: 2, ..good }, StatusCode::INVALID_FIELD),
        (FormatNvm { nsid: 0, ..good }, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
    ] {
        assert_eq!(asked(b.run(wrong.sqe(1))), Err(code), "{wrong:?}");
    }
    b.view.volumes[0].as_mut().unwrap().formatting = true;
    assert_eq!(asked(b.run(good.sqe(1))), Err(StatusCode::FORMAT_IN_PROGRESS));
    assert_eq!(IdentifyNamespace::parse(&b.data(identify(0, 1, 0, 0))).unwrap().fpi, 0x80 | 100);
    b.view.volumes[0].as_mut().unwrap().write_protect = WriteProtect::Protected;
    assert_eq!(asked(b.run(good.sqe(1))), Err(StatusCode::NAMESPACE_WRITE_PROTECTED));
}

fn get(fid: u8, select: Select, nsid: u32, cdw11: u32) -> Sqe {
    GetFeatures { fid, select: Some(select), cdw11, nsid }.sqe(1)
}
fn set(fid: u8, cdw11: u32, nsid: u32) -> Sqe {
    SetFeatures { fid, save: false, cdw11, nsid }.sqe(1)
}

#[test]
fn features_have_current_default_and_capabilities() {
    let mut b = shared_by_two();
    for f in FEATURES {
        let nsid = u32::from(f.of_namespace);
        let capabilities = b.status(get(f.fid, Select::Supported, nsid, 0));
        assert_eq!(capabilities, (StatusCode::SUCCESS, u64::from(f.changeable) << 2 | u64::from(f.of_namespace) << 1), "{:#x}", f.fid);
        let reserved = Sqe { cdw10: u32::from(f.fid) | 4 << 8, nsid, ..get(f.fid, Select::Current, nsid, 0) };
        assert_eq!(b.status(reserved).0, StatusCode::INVALID_FIELD, "reserved SEL");
        let save = SetFeatures { fid: f.fid, save: true, cdw11: 0, nsid }.sqe(1);
        assert_eq!(b.status(save).0, StatusCode::FEATURE_NOT_SAVEABLE);
        if f.of_namespace {
            assert_eq!(b.status(get(f.fid, Select::Current, 0, 0)).0, StatusCode::INVALID_NAMESPACE_OR_FORMAT);
            assert_eq!(b.status(get(f.fid, Select::Current, 2, 0)).0, StatusCode::INVALID_FIELD, "not attached");
        } else {
            assert_eq!(b.status(set(f.fid, 0, 1)).0, StatusCode::FEATURE_NOT_NAMESPACE_SPECIFIC, "{:#x}", f.fid);
        }
        if !f.changeable && f.fid != feature::FID_HOST_ID {
            assert_eq!(b.status(set(f.fid, 0, nsid)).0, StatusCode::FEATURE_NOT_CHANGEABLE, "{:#x}", f.fid);
        }
    }
    assert_eq!(b.status(set(feature::FID_ASYNC_EVENTS, feature::AEC_ANA | feature::AEC_HEALTH, 0)).0, StatusCode::SUCCESS);
    assert_eq!(b.status(get(feature::FID_ASYNC_EVENTS, Select::Current, 0, 0)).1, (feature::AEC_ANA | feature::AEC_HEALTH).into());
    assert_eq!(b.status(get(feature::FID_ASYNC_EVENTS, Select::Default, 0, 0)).1, 0);
    assert_eq!(b.status(get(feature::FID_ASYNC_EVENTS, Select::Saved, 0, 0)).1, 0);
    assert_eq!(b.status(set(feature::FID_ASYNC_EVENTS, feature::AEC_FIRMWARE, 0)).0, StatusCode::INVALID_FIELD, "not offered (OAES)");
    for (cdw11, wanted) in
        [(1 << 16, StatusCode::INVALID_FIELD), (2 << 20, StatusCode::INVALID_FIELD), (1 << 20 | 200, StatusCode::SUCCESS)]
    {
        assert_eq!(b.status(set(feature::FID_TEMPERATURE, cdw11, 0)).0, wanted, "{cdw11:#x}");
    }
    assert_eq!(b.status(get(feature::FID_TEMPERATURE, Select::Current, 0, 1 << 20)).1, 200);
    assert_eq!(b.status(get(feature::FID_TEMPERATURE, Select::Default, 0, 1 << 20)).1, 0);
    assert_eq!(b.status(get(feature::FID_TEMPERATURE, Select::Current, 0, 0)).1, 0xFFFF);
}

#[test]
fn host_behaviour_takes_what_there_is_and_nothing_else() {
    let mut b = bench(false, 0);
    b.enable();
    let read = Sqe { sgl: Sgl::transport(512), ..get(feature::FID_HOST_BEHAVIOUR, Select::Current, 0, 0) };
    assert!(b.data(read).iter().all(|x| *x == 0));
    let mut data = [0; 512];
    data[0] = 1;
    let code = |a| match a {
        Answer::Status(s, _) | Answer::Refuse(s, _) => s.code,
        _ => panic!("no status"),
    };
    assert_eq!(code(b.run_with(set(feature::FID_HOST_BEHAVIOUR, 0, 0), &data)), StatusCode::SUCCESS);
    assert_eq!(b.data(read)[..2], [1, 0]);
    data[2] = 1;
    assert_eq!(code(b.run_with(set(feature::FID_HOST_BEHAVIOUR, 0, 0), &data)), StatusCode::INVALID_FIELD, "LBAFEE");
    assert_eq!(code(b.run_with(set(feature::FID_HOST_BEHAVIOUR, 0, 0), &data[..16])), StatusCode::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn write_protection_is_asked_for() {
    let mut b = bench(false, 0);
    b.enable();
    let volume = base::VolumeId::from_bytes([1; 16]);
    let ask = |b: &mut Bench, state, nsid| asked(b.run(set(feature::FID_WRITE_PROTECT, state, nsid)));
    assert_eq!(ask(&mut b, 1, 1), Ok(ControlVerb::WriteProtect { volume, state: WriteProtect::Protected }));
    assert_eq!(ask(&mut b, 2, 1), Ok(ControlVerb::WriteProtect { volume, state: WriteProtect::UntilRestart }));
    for (manages, nwpc) in [(false, 0b011), (true, 0b111)] {
        b.view.subsystems[0].manage_namespaces = manages;
        assert_eq!(IdentifyController::parse(&b.data(identify(0x01, 0, 0, 0))).unwrap().nwpc, nwpc);
        let permanent = ControlVerb::WriteProtect { volume, state: WriteProtect::Permanent };
        assert_eq!(ask(&mut b, 3, 1), if manages { Ok(permanent) } else { Err(StatusCode::INVALID_FIELD) });
        assert_eq!(ask(&mut b, 4, 1), Err(StatusCode::INVALID_FIELD));
    }
    assert_eq!(ask(&mut b, 1, NSID_ALL), Err(StatusCode::INVALID_NAMESPACE_OR_FORMAT));
    assert_eq!(ask(&mut b, 1, 9), Err(StatusCode::INVALID_FIELD));
    assert_eq!(b.status(set(feature::FID_WRITE_PROTECT, 1, 3)).0, StatusCode::SUCCESS, "it is already");
}

#[test]
fn logs_say_which_logs_and_features_there_are() {
    let mut b = bench(false, 0);
    b.enable();
    let logs = b.data(Bench::log(0, 0, 1024, false));
    for lid in 0..=255u8 {
        let there = u32::get(&logs[usize::from(lid) * 4..]) & 1 != 0;
        let code = b.status(Bench::log(lid, 0, 4, true)).0;
        assert_eq!(code, if there { StatusCode::SUCCESS } else { StatusCode::INVALID_LOG_PAGE }, "log {lid:#x}");
    }
    let features = b.data(Bench::log(0x12, 0, 1024, false));
    for fid in 0..=255u8 {
        let reported = u32::get(&features[usize::from(fid) * 4..]);
        let code = b.status(get(fid, Select::Supported, 1, 0)).0;
        assert_eq!(code, if reported & 1 != 0 { StatusCode::SUCCESS } else { StatusCode::INVALID_FIELD }, "feature {fid:#x}");
        assert_eq!(reported >> 20 & 1 != 0, FEATURES.iter().any(|f| f.fid == fid && f.of_namespace), "scope of {fid:#x}");
    }
    let of_namespace = Sqe { nsid: 1, ..Bench::log(2, 0, 512, false) };
    assert_eq!(b.status(of_namespace).0, StatusCode::INVALID_FIELD, "no log of one namespace");
    let all = Sqe { nsid: NSID_ALL, ..Bench::log(2, 0, 512, false) };
    assert_eq!(b.status(all).0, StatusCode::SUCCESS);
    let by_index = GetLogPage { lid: 2, lsp: 0, rae: false, lsi: 0, numd: 3, offset: 0, index: true, csi: 0, nsid: 0 };
    assert_eq!(b.status(Sqe { sgl: Sgl::transport(16), ..by_index.sqe(1) }).0, StatusCode::INVALID_FIELD);
    let zoned = GetLogPage { lid: 5, index: false, csi: 2, ..by_index };
    assert_eq!(b.status(Sqe { sgl: Sgl::transport(16), ..zoned.sqe(1) }).0, StatusCode::INVALID_FIELD);
    assert_eq!(b.status(Bench::log(2, 2, 16, false)).0, StatusCode::INVALID_FIELD, "an offset that is no dword's");
}

#[test]
fn a_failure_says_where_its_cause_is() {
    let mut b = bench(false, 0);
    b.enable();
    let Answer::Refuse(status, at) = b.run(Bench::log(0x77, 0, 4, false)) else { panic!("refused") };
    assert_eq!((status.code, status.more, at.0), (StatusCode::INVALID_LOG_PAGE, true, 40), "dword 10, byte 0");
    let Answer::Refuse(status, at) = b.run(identify(3, 0, 0, 0)) else { panic!("refused") };
    assert_eq!((status.more, at.0), (true, 4), "the NSID");
    let Answer::Refuse(status, at) = b.run(Sqe { opcode: 0x10, ..Sqe::default() }) else { panic!("refused") };
    assert_eq!((status.more, at.is_known()), (false, false));
}

/// Reads 4 KiB of namespace 1.
fn read(slba: u64) -> Sqe {
    BlockRange { slba, nlb: 7, lr: false, fua: false, prinfo: 0, deac: false, dtype: 0 }.sqe(IoOpcode::Read, 9, 1)
}

#[test]
fn what_a_queue_serves_and_what_fails_is_reported_by_the_logs() {
    let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
    let answer = |q: &mut Queue, sqe| {
        let bytes = q.client.capsule(with_transport(sqe, 4096), &[]);
        q.feed(&bytes);
        std::iter::from_fn(|| q.next()).find_map(|p| if let Pdu::Response(cqe) = p { Some(cqe.status) } else { None }).unwrap()
    };
    assert!(answer(&mut q, read(0)).is_success());
    assert_eq!(answer(&mut q, read(8190)).code, StatusCode::LBA_OUT_OF_RANGE);
    q.memory.fail = Some(IoError::Media { offset: 0 });
    assert_eq!(answer(&mut q, read(16)).code, StatusCode::UNRECOVERED_READ_ERROR);
    let c = Arc::clone(q.session.controller().unwrap());
    let sum = c.figures.sum();
    assert_eq!((sum.reads, sum.read_bytes, sum.writes, sum.media_errors), (1, 4096, 0, 1));
    let page = c.errors.page();
    let entry = |n: usize| ErrorEntry::parse(&page[n * 64..]).unwrap();
    assert_eq!((entry(0).error_count, entry(0).lba, entry(0).nsid, entry(0).sqid, entry(0).cid), (2, 16, 1, 1, 9));
    assert_eq!(Status::parse(entry(0).status).code, StatusCode::UNRECOVERED_READ_ERROR);
    assert_eq!((entry(1).error_count, Status::parse(entry(1).status).code, entry(1).parameter), (1, StatusCode::LBA_OUT_OF_RANGE, 0xFFFF));
    assert_eq!(entry(2).error_count, 0);
}

#[test]
fn health_is_counted_and_its_warnings_are_reported_once() {
    let mut b = bench(false, 0);
    b.enable();
    let ledger = crate::health::Ledger::open(&b.c.shared.figures);
    ledger.read(512 * 1000 + 1);
    ledger.wrote(512);
    let health = |b: &mut Bench| Health::parse(&b.data(Bench::log(2, 0, 512, true))).unwrap();
    let h = health(&mut b);
    assert_eq!(
        (h.units_read, h.units_written, h.reads, h.writes, h.critical_warning),
        (2, 1, 1, 1, 0),
        "thousands of 512 bytes, rounded up"
    );
    assert!(b.c.add_request(1) && b.c.add_request(2) && b.c.add_request(3));
    b.status(set(feature::FID_TEMPERATURE, 290, 0));
    assert_eq!(health(&mut b).critical_warning, 1 << 1);
    assert_eq!(b.c.next_event(), None, "not asked for");
    b.status(set(feature::FID_ASYNC_EVENTS, 0xFF, 0));
    assert_eq!(b.c.next_event(), Some((1, AsyncEvent { kind: 1, info: 1, log: 2 })), "a warning that stands is reported");
    ledger.media_error();
    b.c.look_at_health();
    assert_eq!(b.c.next_event(), Some((2, AsyncEvent { kind: 1, info: 0, log: 2 })));
    b.c.look_at_health();
    assert_eq!(b.c.next_event(), None);
    let h = health(&mut b);
    assert_eq!((h.critical_warning, h.media_errors), (1 << 1 | 1 << 2, 1));
    b.c.shared.errors.note(ErrorEntry { status: Status::dnr(StatusCode::INTERNAL_ERROR).bits(), ..ErrorEntry::default() });
    b.c.look_at_health();
    assert_eq!(b.c.next_event(), Some((3, AsyncEvent { kind: 0, info: 4, log: 1 })), "an error inside");
    assert_eq!(health(&mut b).error_entries, 1);
}

#[test]
fn ana_groups_ascend_and_their_changes_are_reported() {
    let mut b = bench(false, 0);
    b.enable();
    b.status(set(feature::FID_ASYNC_EVENTS, feature::AEC_ANA | feature::AEC_NAMESPACE, 0));
    (0..3).for_each(|slot| assert!(b.c.add_request(slot)));
    let apply = |b: &mut Bench, nsid: u32, ana: Ana| {
        b.view.subsystems[0].namespaces.get_mut(&nsid).unwrap().ana = ana;
        let list = b.view.namespaces(&b.view.subsystems[0], HOST);
        b.c.namespaces_are(list);
    };
    apply(&mut b, 1, Ana { group: 7, state: AnaState::NonOptimized });
    let ana = AsyncEvent { kind: 2, info: 3, log: 0x0C };
    let first = [b.c.next_event(), b.c.next_event()].map(|e| e.unwrap().1);
    assert!(first.contains(&ana) && first.contains(&AsyncEvent { kind: 2, info: 0, log: 4 }), "another group is another attribute too");
    let log = b.data(Bench::log(0x0C, 0, 1024, false));
    let group = |at: usize| AnaGroup::parse(&log[at..]).unwrap();
    let head = AnaHeader::parse(&log).unwrap();
    assert_eq!((head.groups, head.change_count), (2, 2));
    assert_eq!((group(16).id, group(16).nsids, group(16).state, u32::get(&log[48..]), u32::get(&log[52..])), (1, 2, 1, 2, 3));
    assert_eq!((group(56).id, group(56).nsids, group(56).state, u32::get(&log[88..])), (7, 1, 2, 1));
    b.data(Bench::log(4, 0, 4096, false));
    apply(&mut b, 1, Ana { group: 7, state: AnaState::Inaccessible });
    assert_eq!(b.c.next_event(), Some((2, ana)), "a state alone is no attribute");
    let groups_only = GetLogPage { lid: 0x0C, lsp: 1, rae: false, lsi: 0, numd: 79, offset: 0, index: false, csi: 0, nsid: 0 };
    let log = b.data(Sqe { sgl: Sgl::transport(320), ..groups_only.sqe(1) });
    let group = |at: usize| AnaGroup::parse(&log[at..]).unwrap();
    assert_eq!((group(16).nsids, group(48).id, group(48).nsids, group(48).state), (0, 7, 0, 3), "RGO");
    assert!(group(48).change_count > group(16).change_count);
    let ns = IdentifyNamespace::parse(&b.data(identify(0, 1, 0, 0))).unwrap();
    assert_eq!((ns.anagrpid, ns.nvmcap, ns.nuse), (7, 0, 0));
    let id = IdentifyController::parse(&b.data(identify(1, 0, 0, 0))).unwrap();
    assert!(id.anagrpmax >= 7 && id.nanagrpid <= id.anagrpmax && id.anatt > 0 && id.anacap & 0x1F == 0x1F && id.oaes & 1 << 11 != 0);
}

#[test]
fn commands_out_of_reach_get_the_status_of_their_path() {
    for (state, code) in [
        (AnaState::Inaccessible, StatusCode::ANA_INACCESSIBLE),
        (AnaState::PersistentLoss, StatusCode::ANA_PERSISTENT_LOSS),
        (AnaState::Change, StatusCode::ANA_TRANSITION),
    ] {
        assert_eq!(state.refusal().map(|s| (s.code, s.dnr)), Some((code, false)));
    }
    assert!(AnaState::Optimized.refusal().is_none() && AnaState::NonOptimized.refusal().is_none());
    let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
    let read = read(0);
    for (change, code) in [(true, StatusCode::ANA_INACCESSIBLE), (false, StatusCode::FORMAT_IN_PROGRESS)] {
        q.change_view(|view| {
            let ns = view.subsystems[0].namespaces.get_mut(&1).unwrap();
            ns.ana.state = if change { AnaState::Inaccessible } else { AnaState::Optimized };
            view.volumes[0].as_mut().unwrap().formatting = !change;
        });
        let bytes = q.client.capsule(with_transport(read, 4096), &[]);
        q.feed(&bytes);
        let Some(Pdu::Response(cqe)) = q.next() else { panic!("no answer") };
        assert_eq!((cqe.status.code, cqe.status.dnr), (code, false));
    }
    let c = q.session.controller().unwrap();
    assert_eq!(c.errors.count(), 1, "what a path says is no error of a command; a format under way is");
}

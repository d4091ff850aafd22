//! EXTENDED COPY and RECEIVE COPY RESULTS.

use super::rig::{Rig, bytes, ended, illegal, key, read10};
use cluster::reservation::{Command as Reserve, ReservationType, State};
use format::iscsi::TargetPdu;
use format::scsi::copy::{CopyList, CopySegment, CopyState, CopyStatus, CopyTarget, ListIdUsage, parse_failure};
use format::scsi::designator::{Designator, naa6};
use format::scsi::inquiry::Inquiry;
use format::scsi::vpd::CopyLimits;
use format::scsi::{ScsiStatus, Sense, SenseCode, SenseKey};
use object::{IoError, IoOp};
use std::sync::Arc;

/// The descriptor of a unit of `super::view`.
fn target(lun: u8) -> CopyTarget {
    CopyTarget { designator: Designator::Naa6(naa6([lun + 1; 16])), block_bytes: if lun == 1 { 4096 } else { 512 } }
}
fn segment(source: u16, destination: u16, blocks: u16, source_lba: u64, destination_lba: u64) -> CopySegment {
    CopySegment { source, destination, blocks, count_destination: false, source_lba, destination_lba }
}
fn list(luns: &[u8], segments: &[CopySegment]) -> CopyList {
    let targets = luns.iter().map(|lun| target(*lun)).collect();
    CopyList { list_id: 5, usage: ListIdUsage::Kept, targets, segments: segments.to_vec() }
}
fn wire(rig: &mut Rig, list: &CopyList) -> Vec<u8> {
    let list = list.to_bytes();
    let mut cdb = [0; 16];
    (cdb[0], cdb[12], cdb[13]) = (0x83, (list.len() >> 8) as u8, list.len() as u8);
    rig.client.write(0, &cdb, list.len() as u32, &list, true)
}
fn copy(rig: &mut Rig, list: &CopyList) -> (ScsiStatus, Option<(SenseKey, SenseCode)>) {
    let wire = wire(rig, list);
    let (status, sense, _) = ended(&rig.say(&wire));
    (status, key(sense))
}
fn results(rig: &mut Rig, action: u8, list_id: u8) -> (ScsiStatus, Vec<u8>) {
    let (status, _, data) = rig.read(0, &[0x84, action, list_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0], 512);
    (status, data)
}
fn aborted(code: SenseCode) -> (ScsiStatus, Option<(SenseKey, SenseCode)>) {
    (ScsiStatus::CheckCondition, Some((SenseKey::CopyAborted, code)))
}
const GOOD: (ScsiStatus, Option<(SenseKey, SenseCode)>) = (ScsiStatus::Good, None);

/// Unit 0 has a pattern of 3 MiB.
fn filled() -> Rig {
    let mut rig = Rig::with("");
    rig.memory.disks.insert(0, bytes(super::memory::DISK_BYTES));
    rig
}

#[test]
fn blocks_are_copied_within_a_unit_and_to_another_with_other_blocks() {
    let mut rig = filled();
    let all = bytes(super::memory::DISK_BYTES);
    // 2 MiB that begin within a piece, to another unit with other blocks; and within the unit.
    let both = list(&[0, 1], &[segment(0, 1, 4096, 1024, 0), segment(0, 0, 8, 0, 8000)]);
    assert_eq!(copy(&mut rig, &both), GOOD);
    assert!(rig.memory.disks[&1][..2 << 20] == all[1024 * 512..][..2 << 20]);
    assert!(rig.memory.disks[&0][8000 * 512..][..4096] == all[..4096]);
    // Counted in blocks of the destination.
    let counted = CopySegment { count_destination: true, ..segment(0, 1, 1, 8, 1000) };
    assert_eq!(copy(&mut rig, &list(&[0, 1], &[counted])), GOOD);
    assert!(rig.memory.disks[&1][1000 * 4096..][..4096] == all[8 * 512..][..4096]);
    assert_eq!(copy(&mut rig, &list(&[0], &[segment(0, 0, 0, 0, 0)])), GOOD, "nothing");
    assert_eq!(rig.session.held_bytes(), 0);
    let inquiry = Inquiry::parse(&rig.read(0, &[0x12, 0, 0, 0, 255, 0], 255).2).unwrap();
    assert!(inquiry.third_party_copy);
    let page = CopyLimits::parse_page(&rig.read(0, &[0x12, 1, 0x8F, 0, 255, 0], 255).2).unwrap();
    assert_eq!(page, crate::limits::COPY_LIMITS);
    let parameters = CopyLimits::parse_operating_parameters(&results(&mut rig, 3, 0).1).unwrap();
    assert_eq!(parameters, crate::limits::COPY_LIMITS);
}

#[test]
fn a_list_is_judged_whole_before_anything_is_copied() {
    let mut rig = filled();
    let before = rig.memory.disks[&0].clone();
    let good = segment(0, 0, 1, 0, 8000);
    let unknown = CopyTarget { designator: Designator::Naa6(naa6([99; 16])), block_bytes: 512 };
    let named = CopyTarget { designator: Designator::RelativePort(1), block_bytes: 512 };
    let with = |target: CopyTarget| CopyList { targets: vec![super::copy_tests::target(0), target], ..list(&[0], &[good]) };
    let wrong = CopyTarget { block_bytes: 4096, ..target(0) };
    for (what, list, want) in [
        ("a unit that there is not", with(unknown), aborted(SenseCode::COPY_TARGET_NOT_REACHABLE)),
        ("a port", with(named), aborted(SenseCode::COPY_TARGET_NOT_REACHABLE)),
        ("other blocks", with(wrong), aborted(SenseCode::INCORRECT_COPY_TARGET_TYPE)),
        ("an index without a target", list(&[0], &[good, segment(0, 1, 1, 0, 0)]), aborted(SenseCode::UNREACHABLE_COPY_TARGET)),
        ("from behind the end", list(&[0], &[good, segment(0, 0, 2, 8191, 0)]), aborted(SenseCode::NO_ADDITIONAL_SENSE)),
        ("to behind the end", list(&[0], &[good, segment(0, 0, 2, 0, 8191)]), aborted(SenseCode::NO_ADDITIONAL_SENSE)),
        ("half a block", list(&[0, 1], &[good, segment(0, 1, 1, 0, 0)]), aborted(SenseCode::INCORRECT_COPY_TARGET_TYPE)),
        (
            "onto itself",
            list(&[0], &[good, segment(0, 0, 8, 0, 7)]),
            (ScsiStatus::CheckCondition, illegal(SenseCode::INVALID_OPERATION_FOR_COPY)),
        ),
        (
            "to a protected unit",
            list(&[0, 2], &[good, segment(0, 1, 1, 0, 0)]),
            (ScsiStatus::CheckCondition, Some((SenseKey::DataProtect, SenseCode::WRITE_PROTECTED))),
        ),
    ] {
        assert_eq!(copy(&mut rig, &list), want, "{what}");
    }
    let volume = rig.view.volumes[0].as_mut().unwrap();
    let (mut state, other) = (State::default(), base::HostId::from_bytes([7; 16]));
    state.execute(other, &Reserve::Register { nrkey: 1, ptpl: None }).unwrap();
    state.execute(other, &Reserve::Acquire { crkey: 1, rtype: ReservationType::WriteExclusive }).unwrap();
    volume.volume.reservation = Some(Arc::new(state));
    assert_eq!(copy(&mut rig, &list(&[0], &[good])), (ScsiStatus::ReservationConflict, None));
    assert!(rig.memory.disks[&0] == before, "nothing was copied");
    assert_eq!(rig.session.held_bytes(), 0);
}

#[test]
fn results_are_kept_for_lists_that_want_it_and_a_failure_says_how_far_it_came() {
    let mut rig = filled();
    assert_eq!(results(&mut rig, 0, 5).0, ScsiStatus::CheckCondition, "there was none");
    copy(&mut rig, &list(&[0], &[segment(0, 0, 8, 0, 8000), segment(0, 0, 8, 0, 8100)]));
    let done = CopyStatus { state: CopyState::Done, segments: 2, bytes: 8192 };
    assert_eq!(CopyStatus::parse(&results(&mut rig, 0, 5).1), Some(done));
    assert_eq!(parse_failure(&results(&mut rig, 4, 5).1), None, "it did not fail");
    assert_eq!(results(&mut rig, 1, 5).0, ScsiStatus::CheckCondition, "no data is held");
    let unkept = CopyList { list_id: 6, usage: ListIdUsage::NotKept, ..list(&[0], &[segment(0, 0, 1, 0, 9)]) };
    assert_eq!((copy(&mut rig, &unkept), results(&mut rig, 0, 6).0), (GOOD, ScsiStatus::CheckCondition));

    // The first segment succeeds, then the volume fails.
    rig.memory.hold = true;
    let wire = wire(&mut rig, &list(&[0], &[segment(0, 0, 8, 0, 8000), segment(0, 0, 8, 0, 8100)]));
    assert!(rig.say(&wire).is_empty());
    let running = CopyStatus { state: CopyState::Running, segments: 0, bytes: 0 };
    assert_eq!(CopyStatus::parse(&results(&mut rig, 0, 5).1), Some(running));
    assert_eq!(
        copy(&mut rig, &list(&[0], &[segment(0, 0, 1, 0, 9)])).1,
        illegal(SenseCode::INVALID_FIELD_IN_PARAMETER_LIST),
        "the list is in use"
    );
    for _ in 0..2 {
        let request = rig.memory.kept.pop().unwrap();
        let done = rig.memory.answer(request);
        assert!(rig.done(done).is_empty());
    }
    rig.memory.fail = Some(IoError::Media { offset: 0 });
    rig.memory.hold = false;
    let (status, sense, _) = ended(&rig.step(None));
    assert_eq!((status, key(sense)), aborted(SenseCode::THIRD_PARTY_DEVICE_FAILURE));
    rig.memory.fail = None;
    let failed = CopyStatus { state: CopyState::Failed, segments: 1, bytes: 4096 };
    assert_eq!(CopyStatus::parse(&results(&mut rig, 0, 5).1), Some(failed));
    let details = results(&mut rig, 4, 5).1;
    let (status, sense) = parse_failure(&details).unwrap();
    let sense = Sense::parse(sense).unwrap();
    assert_eq!((status, sense.key, sense.code), (2, SenseKey::CopyAborted, SenseCode::THIRD_PARTY_DEVICE_FAILURE));
    for list_id in 10..30 {
        copy(&mut rig, &CopyList { list_id, ..list(&[0], &[segment(0, 0, 1, 0, 9)]) });
    }
    let kept = (0..30).filter(|id| results(&mut rig, 0, *id).0 == ScsiStatus::Good).count();
    assert_eq!(kept, crate::limits::COPIES_KEPT_MAX);
}

#[test]
fn a_copy_waits_for_the_turns_of_both_volumes_without_memory_and_ends_with_its_rights() {
    let mut rig = filled();
    rig.memory.hold = true;
    let wire = wire(&mut rig, &list(&[0, 3], &[segment(0, 1, 8, 0, 0)]));
    assert!(rig.say(&wire).is_empty());
    let step = |rig: &mut Rig| {
        let request = rig.memory.kept.pop().unwrap();
        let seen = (request.volume.0, request.op.verb(), request.counted, rig.session.held_bytes());
        let done = rig.memory.answer(request);
        (seen, rig.done(done))
    };
    let turn = IoOp::Turn { offset: 0, len: 1, requests: 1 }.verb();
    let (read, write) = (IoOp::Read { offset: 0, len: 1 }.verb(), IoOp::Write { offset: 0, data: Default::default() }.verb());
    assert_eq!(step(&mut rig).0, (3, turn, false, 0), "of the unit with limits; no memory yet");
    assert_eq!(step(&mut rig).0, (0, read, false, 4096));
    let (last, came) = step(&mut rig);
    assert_eq!((last, ended(&came).0), ((3, write, true, 4096), ScsiStatus::Good));

    // Its rights end while it reads.
    let wire = self::wire(&mut rig, &list(&[0, 1], &[segment(0, 1, 8, 0, 0)]));
    assert!(rig.say(&wire).is_empty());
    rig.view.volumes[1].as_mut().unwrap().volume.write_protect = base::WriteProtect::Protected;
    let (_, came) = step(&mut rig);
    let (status, sense, _) = ended(&came);
    assert_eq!((status, key(sense)), (ScsiStatus::CheckCondition, Some((SenseKey::DataProtect, SenseCode::WRITE_PROTECTED))));
    assert!(rig.memory.kept.is_empty(), "nothing is written");
    rig.memory.hold = false;
    assert!(matches!(rig.say(&[])[..], []));
    assert_eq!(rig.read(1, &read10(0, 1), 4096).2, vec![0; 4096]);
    assert!(!matches!(came[0].0, TargetPdu::Reject(_)));
}

//! Commands beyond reading and writing: log pages, WRITE ATOMIC, WRITE SAME, data that was lost.

use super::rig::{Rig, bytes, ended, illegal, key, read10, write10};
use format::iscsi::{DataOut, HostPdu, NO_TAG, TargetPdu};
use format::scsi::log::{self, LogParameter, ResourceScope, parse_page, parse_parameters};
use format::scsi::vpd::{BlockLimits, Provisioning};
use format::scsi::{ScsiStatus, SenseCode, SenseKey};
use object::ATOMIC_BYTES_MAX;

fn log_sense(rig: &mut Rig, page: u8, subpage: u8, pointer: u8) -> Result<Vec<u8>, Option<(SenseKey, SenseCode)>> {
    let (status, sense, data) = rig.read(0, &[0x4D, 0, page, subpage, 0, 0, pointer, 0, 200, 0], 200);
    if status == ScsiStatus::Good { Ok(data) } else { Err(key(sense)) }
}

#[test]
fn log_pages_are_listed_and_say_what_is_known() {
    let mut rig = Rig::with("");
    let all = [log::PAGE_SUPPORTED, log::PAGE_PROVISIONING, log::PAGE_TEMPERATURE, log::PAGE_EXCEPTIONS];
    let listed = log_sense(&mut rig, 0x40, 0, 0).unwrap();
    assert_eq!(parse_page(&listed), Some(((0, 0), &all[..])));
    let with_subpages = log_sense(&mut rig, 0x40, 0xFF, 0).unwrap();
    assert_eq!(parse_page(&with_subpages).unwrap().1, [0, 0, 0, 0xFF, 0x0C, 0, 0x0D, 0, 0x2F, 0]);
    // Nothing counts the chunks of a volume in memory; then of one that has 17 of 64 KiB, which is two sets of 1 MiB.
    let used = |rig: &mut Rig| parse_parameters(parse_page(&log_sense(rig, 0x4C, 0, 0).unwrap()).unwrap().1);
    assert_eq!(used(&mut rig), []);
    let counted = object::ChunksUsed::default();
    (0..17).for_each(|_| counted.more());
    rig.view.volumes[0].as_mut().unwrap().used = vec![counted];
    assert_eq!(used(&mut rig), [LogParameter::resources(log::USED_RESOURCES, 2, ResourceScope::Unit)]);
    let page = rig.read(0, &[0x12, 1, 0xB2, 0, 255, 0], 255).2;
    assert_eq!(Provisioning::parse(&page).unwrap().threshold_exponent, 11, "a set has 2048 blocks of 512 bytes");
    let temperature = log_sense(&mut rig, 0x4D, 0, 0).unwrap();
    assert_eq!(parse_parameters(parse_page(&temperature).unwrap().1), [LogParameter::temperature(0, 0xFF)]);
    let exceptions = log_sense(&mut rig, 0x6F, 0, 0).unwrap();
    assert_eq!(parse_parameters(parse_page(&exceptions).unwrap().1), [LogParameter { code: 0, value: vec![0, 0, 0xFF, 0] }]);
    let invalid = Err(illegal(SenseCode::INVALID_FIELD_IN_CDB));
    for (page, subpage, pointer) in [(0x42, 0, 0), (0x4D, 1, 0), (0x0D, 0, 0), (0x4D, 0, 1)] {
        assert_eq!(log_sense(&mut rig, page, subpage, pointer), invalid, "page {page:#x}, subpage {subpage}, from {pointer}");
    }
    rig.view.volumes[0].as_mut().unwrap().volume.thin = false;
    assert_eq!(log_sense(&mut rig, 0x4C, 0, 0), invalid, "all of its space is set aside");
}

#[test]
fn hosts_of_thin_units_hear_once_that_space_runs_low() {
    let ready = [0; 6];
    let now_open = |rig: &mut Rig, lun: usize, open: u64| {
        rig.view.volumes[lun].as_mut().unwrap().used =
            vec![object::ChunksUsed::on_device(100, 90), object::ChunksUsed::on_device(1000, open)];
        rig.tick();
        key(rig.read(lun as u64, &ready, 0).1)
    };
    let low = Some((SenseKey::UnitAttention, SenseCode::SOFT_THRESHOLD_REACHED));
    let mut rig = Rig::with("");
    rig.view.volumes[1].as_mut().unwrap().volume.thin = false;
    assert_eq!((now_open(&mut rig, 0, 200), now_open(&mut rig, 0, 199), now_open(&mut rig, 0, 10)), (None, low, None));
    assert_eq!((now_open(&mut rig, 0, 219), now_open(&mut rig, 0, 100)), (None, None), "it has to be well above it in between");
    assert_eq!((now_open(&mut rig, 0, 220), now_open(&mut rig, 0, 199)), (None, low));
    assert_eq!(now_open(&mut rig, 1, 0), None, "it has all of its space");
    let mut view = rig.view.clone();
    view.volumes[0].as_mut().unwrap().used = vec![object::ChunksUsed::on_device(100, 0)];
    let mut rig = Rig { view, ..Rig::new() };
    let login = rig.client.login("");
    rig.say(&login);
    rig.tick();
    assert_eq!(key(rig.read(0, &ready, 0).1), None, "what was so when it came is not news");
}

/// WRITE ATOMIC (16).
fn atomic(lba: u64, blocks: u16, boundary: u16) -> Vec<u8> {
    [&[0x9C, 0][..], &lba.to_be_bytes(), &boundary.to_be_bytes(), &blocks.to_be_bytes(), &[0, 0]].concat()
}

#[test]
fn an_atomic_write_is_one_request_or_refused() {
    let mut rig = Rig::with("ImmediateData=No\0");
    let limits = BlockLimits::parse(&rig.read(0, &[0x12, 1, 0xB0, 0, 255, 0], 255).2).unwrap();
    assert_eq!(u64::from(limits.atomic_max) * 512, ATOMIC_BYTES_MAX);
    let blocks = limits.atomic_max as u16;
    let refused = |rig: &mut Rig, cdb: Vec<u8>, expected: u32| {
        let wire = rig.client.write(0, &cdb, expected, &[], true);
        key(ended(&rig.say(&wire)).1)
    };
    let invalid = illegal(SenseCode::INVALID_FIELD_IN_CDB);
    assert_eq!(refused(&mut rig, atomic(0, blocks + 1, 0), (u32::from(blocks) + 1) * 512), invalid, "too long");
    assert_eq!(refused(&mut rig, atomic(2047, 2, 0), 1024), invalid, "across 1 MiB");
    assert_eq!(refused(&mut rig, atomic(0, 8, 4), 4096), invalid, "with a boundary");
    assert_eq!(refused(&mut rig, atomic(0, 8, 0), 2048), invalid, "a part of it");
    assert_eq!(refused(&mut rig, atomic(8192, 1, 0), 512), illegal(SenseCode::LBA_OUT_OF_RANGE));
    let mut rig = Rig::with("");
    rig.memory.hold = true;
    let data = bytes(4096);
    let wire = rig.client.write(0, &atomic(1, 8, 0), 4096, &data, true);
    assert!(rig.say(&wire).is_empty());
    assert_eq!(rig.memory.kept.len(), 1, "one request");
    rig.memory.hold = false;
    assert_eq!(ended(&rig.step(None)).0, ScsiStatus::Good);
    assert_eq!(rig.read(0, &read10(1, 8), 4096).2, data);
}

#[test]
fn write_same_without_a_count_goes_to_the_end_within_its_limit() {
    let mut rig = Rig::with("");
    let data = bytes(512);
    let same = |lba: u64, blocks: u32| [&[0x93, 0][..], &lba.to_be_bytes(), &blocks.to_be_bytes(), &[0, 0]].concat();
    assert_eq!(rig.write(0, &same(8190, 0), &data).0, ScsiStatus::Good);
    assert_eq!(rig.read(0, &read10(8189, 3), 1536).2, [vec![0; 512], data.clone(), data.clone()].concat());
    assert_eq!(key(rig.write(0, &same(8192, 0), &data).1), illegal(SenseCode::LBA_OUT_OF_RANGE));
    let limits = BlockLimits::parse(&rig.read(0, &[0x12, 1, 0xB0, 0, 255, 0], 255).2).unwrap();
    assert_eq!((limits.flags, limits.write_same_max), (0, 65535));
    rig.view.volumes[0].as_mut().unwrap().volume.bytes = 65536 * 512;
    assert_eq!(key(rig.write(0, &same(0, 0), &data).1), illegal(SenseCode::INVALID_FIELD_IN_CDB), "one block too many");
}

/// Unsolicited data of one block each, with these numbers: how the command ends.
fn numbered(rig: &mut Rig, sns: &[u32]) -> (ScsiStatus, Option<(SenseKey, SenseCode)>) {
    let blocks = sns.len() as u32;
    let tag = rig.client.tag;
    let mut wire = rig.client.write(0, &write10(0, blocks as u16), blocks * 512, &[], false);
    for (n, data_sn) in sns.iter().enumerate() {
        let last = n + 1 == sns.len();
        let data = DataOut { last, tag, transfer_tag: NO_TAG, data_sn: *data_sn, offset: n as u32 * 512, ..Default::default() };
        wire.extend(rig.client.wire(HostPdu::DataOut(data), false, &[7; 512]));
    }
    let (status, sense, _) = ended(&rig.say(&wire));
    (status, key(sense))
}

#[test]
fn a_command_of_which_data_was_lost_fails_when_the_rest_has_come_and_the_session_goes_on() {
    let lost = (ScsiStatus::CheckCondition, Some((SenseKey::AbortedCommand, SenseCode::PROTOCOL_CRC_ERROR)));
    let mut rig = Rig::with("InitialR2T=No\0");
    for sns in [&[0, 0][..], &[27], &[u32::MAX], &[1, 0], &[0, 2, 3], &[0, 1, 1]] {
        assert_eq!(numbered(&mut rig, sns), lost, "{sns:?}");
    }
    assert_eq!(rig.read(0, &read10(0, 3), 1536).2, [0; 1536], "nothing was written");
    assert_eq!(numbered(&mut rig, &[0, 1, 2]).0, ScsiStatus::Good);
    // Data that was asked for.
    let tag = rig.client.tag;
    let wire = rig.client.write(0, &write10(0, 2), 1024, &[], true);
    let came = rig.say(&wire);
    let [(TargetPdu::ReadyToTransfer(r2t), _)] = came[..] else { panic!("{came:?}") };
    let data = |last, data_sn, offset| DataOut { last, tag, transfer_tag: r2t.transfer_tag, data_sn, offset, ..Default::default() };
    let first = rig.client.wire(HostPdu::DataOut(data(false, 1, 0)), false, &[9; 512]);
    assert!(rig.say(&first).is_empty(), "it waits for the last");
    let second = rig.client.wire(HostPdu::DataOut(data(true, 2, 512)), false, &[9; 512]);
    let (status, sense, _) = ended(&rig.say(&second));
    assert_eq!((status, key(sense)), lost);
    assert_eq!(rig.read(0, &read10(0, 2), 1024), (ScsiStatus::Good, None, vec![7; 1024]));
}

#[test]
fn a_unit_that_is_being_formatted_is_not_ready() {
    let mut rig = Rig::with("");
    rig.view.volumes[0].as_mut().unwrap().volume.formatting = true;
    let not_ready = Some((SenseKey::NotReady, SenseCode::BECOMING_READY));
    let flush = [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (cdb, bytes) in [(&[0; 6][..], 0), (&flush[..], 0), (&read10(0, 1)[..], 512)] {
        assert_eq!(key(rig.read(0, cdb, bytes).1), not_ready, "{cdb:02X?}");
    }
    assert_eq!(key(rig.write(0, &write10(0, 1), &[0; 512]).1), not_ready);
    // A host can learn what it is.
    for cdb in [&[0x12, 0, 0, 0, 36, 0][..], &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(rig.read(0, cdb, 36).0, ScsiStatus::Good, "{cdb:02X?}");
    }
    assert_eq!(rig.read(1, &[0; 6], 0).0, ScsiStatus::Good, "another unit");
    rig.view.volumes[0].as_mut().unwrap().volume.formatting = false;
    assert_eq!(rig.read(0, &[0; 6], 0).0, ScsiStatus::Good, "afterwards");
}

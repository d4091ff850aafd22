//! Sense data, status codes and LUNs.

use super::*;
use proptest::prelude::*;

fn key() -> impl Strategy<Value = SenseKey> {
    (0..SenseKey::ALL.len()).prop_map(|n| SenseKey::ALL[n])
}
fn specific(key: SenseKey, byte: u16, bit: Option<u8>, flag: bool) -> Option<SenseSpecific> {
    match key {
        SenseKey::IllegalRequest => Some(SenseSpecific::Field(FieldPointer { cdb: flag, byte, bit })),
        SenseKey::NoSense | SenseKey::NotReady => Some(SenseSpecific::Progress(byte)),
        SenseKey::CopyAborted => Some(SenseSpecific::Segment { in_descriptor: flag, byte, bit }),
        _ => None,
    }
}
prop_compose! {
    fn sense()(key in key(), code in any::<u16>(), flags in any::<[bool; 3]>(), information in any::<Option<u64>>(), command in any::<u64>(),
               byte in any::<u16>(), bit in proptest::option::of(0..8u8)) -> Sense {
        let specific = if flags[0] { specific(key, byte, bit, flags[1]) } else { None };
        Sense { key, code: SenseCode(code), deferred: flags[2], information, command, specific }
    }
}

proptest! {
    #[test]
    fn descriptor_sense_comes_back(sense in sense()) {
        let bytes = sense.to_bytes(true);
        prop_assert_eq!(Sense::parse(&bytes), Some(sense));
        prop_assert!(bytes.len() <= SENSE_BYTES_MAX);
    }

    #[test]
    fn fixed_sense_comes_back_as_far_as_it_fits(sense in sense()) {
        let fits = Sense {
            information: sense.information.filter(|i| *i <= u32::MAX.into()),
            command: if sense.command <= u32::MAX.into() { sense.command } else { 0 },
            ..sense
        };
        prop_assert_eq!(Sense::parse(&sense.to_bytes(false)), Some(fits));
        let small = Sense { information: sense.information.map(|i| i & 0xFFFF_FFFF), command: sense.command & 0xFFFF_FFFF, ..sense };
        prop_assert_eq!(Sense::parse(&small.to_bytes(false)), Some(small));
    }

    /// Hosts give as much room as they like: key and code are understood as soon as they are there.
    #[test]
    fn sense_that_is_cut_off_keeps_its_key_and_code(sense in sense(), descriptor in any::<bool>(), cut in 0usize..40) {
        let bytes = sense.to_bytes(descriptor);
        let cut = cut.min(bytes.len());
        match Sense::parse(&bytes[..cut]) {
            Some(s) => {
                prop_assert_eq!(s.key, sense.key);
                prop_assert!(s.code == sense.code || cut < 14 && !descriptor);
            }
            None => prop_assert!(cut < 8),
        }
    }

    #[test]
    fn any_bytes_are_sense_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(sense) = Sense::parse(&bytes) {
            prop_assert_eq!(Sense::parse(&sense.to_bytes(true)), Some(sense));
        }
    }

    #[test]
    fn luns_come_back(unit in 0u64..1 << 40, small in 0u64..0x1_0000, w in any::<u8>()) {
        for lun in [Lun::Unit(unit), Lun::Unit(small), Lun::Unit(small & 0xFF), Lun::WellKnown(w)] {
            prop_assert_eq!(Lun::parse(&lun.to_bytes()), Some(lun));
        }
        let list = [Lun::Unit(unit), Lun::WellKnown(w), Lun::Unit(small)];
        let data = build_luns(list.into_iter());
        prop_assert_eq!(parse_luns(&data), list);
        prop_assert_eq!(parse_luns(&data[..24]), &list[..2]);
    }

    #[test]
    fn any_lun_names_one_thing_or_nothing(bytes in any::<[u8; 8]>(), list in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(lun) = Lun::parse(&bytes) {
            prop_assert_eq!(Lun::parse(&lun.to_bytes()), Some(lun));
        }
        prop_assert!(parse_luns(&list).len() <= list.len() / 8);
    }
}

/// SPC-4 tables 46 and 53, with the INVALID FIELD IN CDB that every host sees once.
#[test]
fn sense_has_its_fields_where_the_standard_puts_them() {
    let sense = Invalid::cdb_bit(1, 7).sense();
    assert_eq!(sense.to_fixed(), [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xCF, 0, 1]);
    assert_eq!(sense.to_descriptors(), [0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xCF, 0, 1, 0]);
    let sense = Invalid::parameter(0x1234).sense();
    assert_eq!(sense.to_fixed()[12..], [0x26, 0, 0, 0x80, 0x12, 0x34]);
    let miscompare = Sense::new(SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY).with_information(513);
    assert_eq!(miscompare.to_fixed(), [0xF0, 0, 0xE, 0, 0, 2, 1, 10, 0, 0, 0, 0, 0x1D, 0, 0, 0, 0, 0]);
    assert_eq!(miscompare.to_descriptors(), [0x72, 0xE, 0x1D, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 1]);
    let deferred = Sense { deferred: true, ..Sense::new(SenseKey::MediumError, SenseCode::WRITE_ERROR) };
    assert_eq!((deferred.to_fixed()[0], deferred.to_descriptors()[0]), (0x71, 0x73));
    assert_eq!(Invalid::Opcode.sense().code, SenseCode::INVALID_OPCODE);
    assert_eq!(Invalid::LIST_LENGTH.sense(), Sense::new(SenseKey::IllegalRequest, SenseCode(0x1A00)));
}

#[test]
fn luns_lie_where_sam_puts_them() {
    let unit = |b: [u8; 4]| Lun::parse(&[b[0], b[1], b[2], b[3], 0, 0, 0, 0]);
    assert_eq!(unit([0, 5, 0, 0]), Some(Lun::Unit(5)));
    assert_eq!(unit([0x40, 5, 0, 0]), Some(Lun::Unit(5)), "flat");
    assert_eq!(unit([0x41, 0, 0, 0]), Some(Lun::Unit(256)));
    assert_eq!(unit([0xD2, 1, 2, 3]), Some(Lun::Unit(0x010203)));
    assert_eq!(Lun::parse(&[0xE2, 1, 2, 3, 4, 5, 0, 0]), Some(Lun::Unit(0x01_0203_0405)));
    assert_eq!(unit([0xC1, 1, 0, 0]), Some(Lun::WellKnown(WELL_KNOWN_REPORT_LUNS)));
    for nothing in [[0x01, 5, 0, 0], [0, 5, 0, 1], [0x80, 1, 0, 0], [0xFF; 4]] {
        assert_eq!(unit(nothing), None, "{nothing:02X?}");
    }
    assert_eq!(Lun::Unit(255).to_bytes(), [0, 255, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Lun::Unit(256).to_bytes(), [0x41, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(build_luns([Lun::Unit(1)].into_iter()), [0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn status_codes_are_those_of_sam() {
    let bytes: Vec<u8> = ScsiStatus::ALL.iter().map(|s| s.byte()).collect();
    assert_eq!(bytes, [0x00, 0x02, 0x04, 0x08, 0x18, 0x28, 0x30, 0x40]);
    for byte in 0..=255 {
        assert_eq!(ScsiStatus::parse(byte).map(ScsiStatus::byte), bytes.contains(&byte).then_some(byte));
    }
}

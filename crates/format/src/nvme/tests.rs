use super::identify::*;
use super::*;
use proptest::prelude::*;

/// Writing what was parsed gives the same fields, whatever the bytes; short input is refused.
macro_rules! layouts_round_trip {
    ($($test:ident: $type:ty,)*) => {$(
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(32))]
            #[test]
            fn $test(seed in proptest::collection::vec(any::<u8>(), <$type>::LEN), cut in 0..<$type>::LEN) {
                let parsed = <$type>::parse(&seed).unwrap();
                let bytes = parsed.to_bytes();
                prop_assert_eq!(<$type>::parse(&bytes).unwrap(), parsed);
                prop_assert_eq!(<$type>::parse(&bytes).unwrap().to_bytes(), bytes);
                prop_assert!(<$type>::parse(&seed[..cut]).is_none());
            }
        }
    )*};
}
layouts_round_trip! {
    identify_controller_round_trips: IdentifyController,
    identify_namespace_round_trips: IdentifyNamespace,
    independent_namespace_round_trips: IndependentNamespace,
    nvm_controller_round_trips: NvmController,
    granularity_round_trips: Granularity,
    connect_data_round_trips: fabrics::ConnectData,
    health_round_trips: log::Health,
    error_entry_round_trips: log::ErrorEntry,
    firmware_round_trips: log::FirmwareSlots,
    ana_header_round_trips: log::AnaHeader,
    ana_group_round_trips: log::AnaGroup,
    discovery_header_round_trips: log::DiscoveryHeader,
    discovery_entry_round_trips: log::DiscoveryEntry,
    dsm_range_round_trips: io::DsmRange,
    reservation_keys_round_trip: reservation::Keys,
    reservation_key_round_trips: reservation::Key,
    report_head_round_trips: reservation::ReportHead,
    registered_round_trips: reservation::Registered,
    registered_extended_round_trips: reservation::RegisteredExtended,
    notification_round_trips: reservation::Notification,
}

proptest! {
    #[test]
    fn a_command_keeps_every_bit_but_the_reserved_ones(mut bytes in proptest::array::uniform32(any::<u16>()).prop_map(|w| { let mut b = [0u8; 64]; for (i, w) in w.iter().enumerate() { w.put(&mut b[i * 2..]); } b })) {
        let sqe = Sqe::parse(&bytes);
        bytes[1] &= 0b1100_0011;
        prop_assert_eq!(sqe.to_bytes(), bytes);
    }

    #[test]
    fn a_completion_keeps_every_bit_but_the_phase(mut bytes in any::<[u8; 16]>()) {
        let cqe = Cqe::parse(&bytes);
        bytes[14] &= 0xFE;
        prop_assert_eq!(cqe.to_bytes(), bytes);
    }

    #[test]
    fn properties_keep_their_fields(cap in any::<u64>(), cc in any::<u32>()) {
        let c = property::Capabilities::parse(cap);
        prop_assert_eq!(property::Capabilities::parse(c.bits()), c);
        let c = property::Config::parse(cc);
        prop_assert_eq!(property::Config::parse(c.bits()), c);
        prop_assert_eq!(c.bits(), cc & 0x01FF_FFF1);
    }

    #[test]
    fn admin_commands_give_their_fields_back(cdw in any::<[u32; 5]>(), nsid in any::<u32>(), cid in any::<u16>()) {
        let sqe = Sqe { cid, nsid, cdw10: cdw[0], cdw11: cdw[1], cdw12: cdw[2], cdw13: cdw[3], cdw14: cdw[4], ..Sqe::default() };
        let v = admin::Identify::of(&sqe);
        prop_assert_eq!(admin::Identify::of(&v.sqe(cid)), v);
        let v = admin::GetLogPage::of(&sqe);
        prop_assert_eq!(admin::GetLogPage::of(&v.sqe(cid)), v);
        let v = admin::GetFeatures::of(&sqe);
        prop_assert_eq!(admin::GetFeatures::of(&v.sqe(cid)), v);
        let v = admin::SetFeatures::of(&sqe);
        prop_assert_eq!(admin::SetFeatures::of(&v.sqe(cid)), v);
        let v = admin::Abort::of(&sqe);
        prop_assert_eq!(admin::Abort::of(&v.sqe(cid)), v);
        let v = admin::NamespaceManagement::of(&sqe);
        prop_assert_eq!(admin::NamespaceManagement::of(&v.sqe(cid)), v);
        let v = admin::NamespaceAttachment::of(&sqe);
        prop_assert_eq!(admin::NamespaceAttachment::of(&v.sqe(cid)), v);
        let v = admin::FormatNvm::of(&sqe);
        prop_assert_eq!(admin::FormatNvm::of(&v.sqe(cid)), v);
        let v = fabrics::Connect::of(&sqe);
        prop_assert_eq!(fabrics::Connect::of(&v.sqe(cid)), v);
        let v = io::BlockRange::of(&sqe);
        prop_assert_eq!(io::BlockRange::of(&v.sqe(IoOpcode::Read, cid, nsid)), v);
        let v = io::DatasetManagement::of(&sqe);
        prop_assert_eq!(io::DatasetManagement::of(&v.sqe(cid, nsid)), v);
    }

    #[test]
    fn lists_parse_whatever_they_hold(bytes in proptest::collection::vec(any::<u8>(), 0..4200)) {
        let _ = parse_descriptors(&bytes);
        prop_assert!(parse_namespace_list(&bytes).len() <= NAMESPACE_LIST_MAX);
        prop_assert!(parse_controller_list(&bytes).len() <= CONTROLLER_LIST_MAX);
        prop_assert!(checked_controller_list(&bytes).is_none_or(|l| !l.is_empty() && l.windows(2).all(|w| w[0] < w[1])));
        let _ = text::nqn_of(&bytes);
        let _ = text::trimmed(&bytes);
    }
}

/// Offsets that every driver relies on, from base figure 276 and nvm figure 97.
#[test]
fn fields_lie_where_the_specification_puts_them() {
    let id = IdentifyController {
        cntlid: 0x1234,
        nn: 7,
        ioccsz: 0x0A0B_0C0D,
        kas: 10,
        subnqn: text::nqn_field("nqn.2026-11.io.x:a"),
        ..Default::default()
    };
    let b = id.to_bytes();
    assert_eq!((&b[78..80], b[516], &b[1792..1796], b[320]), (&[0x34, 0x12][..], 7, &[0x0D, 0x0C, 0x0B, 0x0A][..], 10));
    assert_eq!(&b[768..775], b"nqn.202");
    let ns = IdentifyNamespace { nguid: [9; 16], lbaf0: LbaFormat { ms: 0, lbads: 12, rp: 1 }.to_bytes(), ..Default::default() };
    let b = ns.to_bytes();
    assert_eq!((&b[104..120], b[130], b[131]), (&[9; 16][..], 12, 1));
    assert_eq!(ns.lba_bytes(), Some(4096));
    assert_eq!(IdentifyNamespace { flbas: 2, ..ns }.lba_bytes(), None);
}

#[test]
fn status_bits_are_where_linux_looks_for_them() {
    let s = Status::dnr(StatusCode::INVALID_FIELD);
    assert_eq!(s.bits() >> 1, 0x4002);
    assert_eq!(Status::parse(s.bits()), s);
    assert_eq!(StatusCode::new(2, 0x85), StatusCode::COMPARE_FAILURE);
    assert_eq!(StatusCode::COMPARE_FAILURE.name(), Some("COMPARE_FAILURE"));
    assert_eq!(StatusCode(0x7FE).name(), None);
}

#[test]
fn names_are_nqns_only_in_the_form_of_one() {
    for good in ["nqn.2014-08.org.nvmexpress:uuid:1", "nqn.2026-11.io.basalt:a", fabrics::DISCOVERY_NQN] {
        assert_eq!(text::nqn_of(&text::nqn_field(good)), Some(good));
    }
    for bad in ["", "nqn", "iqn.2014-08.org:x", "nqn.20140-8.x", "nqn.2014-08.", "nqn.2014-08.a\n"] {
        assert!(!text::is_nqn(bad), "{bad:?}");
    }
    assert!(!text::is_nqn(&format!("nqn.2014-08.{}", "x".repeat(212))));
    assert_eq!(text::nqn_of(&[b'n'; 256]), None, "no NUL");
}

#[test]
fn descriptors_and_lists_come_back() {
    let list = [
        NamespaceDescriptor::Eui64([1; 8]),
        NamespaceDescriptor::Nguid([2; 16]),
        NamespaceDescriptor::Uuid([3; 16]),
        NamespaceDescriptor::Csi(0),
    ];
    let mut page = [0xFF; IDENTIFY_BYTES];
    write_descriptors(&list, &mut page);
    assert_eq!(parse_descriptors(&page), list);
    write_namespace_list([1, 5, 9].into_iter(), 1, &mut page);
    assert_eq!(parse_namespace_list(&page), [5, 9]);
    write_namespace_list(1..5000, 0, &mut page);
    assert_eq!(parse_namespace_list(&page).len(), NAMESPACE_LIST_MAX);
    write_controller_list([1, 2, 3].into_iter(), 2, &mut page);
    assert_eq!(parse_controller_list(&page), [2, 3]);
    write_controller_list(0..5000, 0, &mut page);
    assert_eq!(parse_controller_list(&page).len(), CONTROLLER_LIST_MAX);
}

#[test]
fn sgl_kinds_are_distinguished() {
    assert_eq!(Sgl::in_capsule(8, 512).kind(), SglKind::InCapsule { offset: 8, len: 512 });
    assert_eq!(Sgl::transport(4096).kind(), SglKind::Transport { len: 4096 });
    assert_eq!(Sgl([0; 16]).kind(), SglKind::Other { kind: 0, subtype: 0, len: 0 });
    assert!(Sgl::default().is_empty());
}

#[test]
fn opcodes_parse_to_themselves() {
    for op in AdminOpcode::ALL {
        assert_eq!(AdminOpcode::parse(op.byte()), Some(*op));
    }
    for op in IoOpcode::ALL {
        assert_eq!(IoOpcode::parse(op.byte()), Some(*op));
    }
    assert_eq!(IoOpcode::parse(0xC0), None);
    let event = log::AsyncEvent { kind: log::AER_NOTICE, info: log::NOTICE_DISCOVERY_CHANGED, log: log::LID_DISCOVERY };
    assert_eq!(event.bits(), 0x0070_F002);
    assert_eq!(log::AsyncEvent::parse(event.bits()), event);
}

#[test]
fn reservation_commands_lie_where_the_standard_puts_them() {
    let preempt = reservation::Action { action: reservation::PREEMPT_AND_ABORT, rtype: 6, ..Default::default() };
    let sqe = preempt.sqe(IoOpcode::ReservationAcquire, 7, 3);
    assert_eq!((sqe.opcode, sqe.cdw10, reservation::Action::of(&sqe)), (0x11, 0x0602, preempt));
    let register = reservation::Action { action: reservation::REPLACE, iekey: true, cptpl: reservation::PTPL_SET, ..Default::default() };
    let sqe = register.sqe(IoOpcode::ReservationRegister, 7, 3);
    assert_eq!((sqe.opcode, sqe.cdw10, reservation::Action::of(&sqe)), (0x0D, 0xC000_000A, register));
    let report = reservation::Report { numd: 1023, eds: true };
    assert_eq!((reservation::Report::of(&report.sqe(1, 1)), report.bytes()), (report, 4096));
}

proptest! {
    #[test]
    fn a_report_is_parsed_as_far_as_it_is_there(keys in proptest::collection::vec(any::<u64>(), 0..5), cut in 0usize..500) {
        let head = reservation::ReportHead { generation: 9, rtype: 3, regctl: keys.len() as u16, ptpls: 1 };
        let entries: Vec<_> = keys.iter().map(|k| reservation::RegisteredExtended { cntlid: 0xFFFF, rcsts: 1, rkey: *k, hostid: [5; 16] }).collect();
        let bytes = reservation::write_extended_report(&head, entries.iter().copied());
        prop_assert_eq!(reservation::parse_extended_report(&bytes), Some((head, entries.clone())));
        let cut = cut.min(bytes.len());
        match reservation::parse_extended_report(&bytes[..cut]) {
            Some((h, list)) => {
                prop_assert_eq!(h, head);
                prop_assert_eq!(&list[..], &entries[..cut.saturating_sub(64) / 64]);
            }
            None => prop_assert!(cut < 24),
        }
    }
}

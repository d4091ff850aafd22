//! Parameter data and lists: what is built parses to the same, any bytes are refused or understood, fields lie where the standards put them.

use super::alua::*;
use super::capacity::*;
use super::copy::*;
use super::designator::*;
use super::inquiry::*;
use super::log::{self, LogParameter, ResourceScope};
use super::mode::*;
use super::reservation::*;
use super::vpd::*;
use super::*;
use proptest::prelude::*;

const NAME: &str = "iqn.2026-11.io.basalt:host";

fn name() -> impl Strategy<Value = String> {
    "(iqn\\.|eui\\.|naa\\.)[a-z0-9:.-]{1,210}"
}
prop_compose! {
    fn transport_id()(name in name(), isid in any::<Option<[u8; 6]>>()) -> TransportId { TransportId { name, isid } }
}
fn kind() -> impl Strategy<Value = ReservationType> {
    (0..ReservationType::ALL.len()).prop_map(|n| ReservationType::ALL[n])
}
prop_compose! {
    fn full_status()(key in any::<u64>(), all in any::<bool>(), holds in proptest::option::of(kind()), port in any::<u16>(),
                     transport_id in transport_id()) -> FullStatus {
        FullStatus { key, all_target_ports: all, holds, port, transport_id }
    }
}
prop_compose! {
    fn port_group()(id in any::<u16>(), preferred in any::<bool>(), state in 0..7usize, status in any::<u8>(), supported in any::<u8>(),
                    ports in proptest::collection::vec(any::<u16>(), 0..6)) -> PortGroup {
        PortGroup { id, preferred, state: AccessState::ALL[state], status, supported, ports }
    }
}
fn designator() -> impl Strategy<Value = Designator> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(|id| Designator::Naa6(naa6(id))),
        ("[A-Z]{1,8}", "[ -~]{0,40}").prop_map(|(vendor, id)| Designator::T10Vendor { vendor, id }),
        any::<u16>().prop_map(Designator::RelativePort),
        any::<u16>().prop_map(Designator::PortGroup),
        name().prop_map(|n| Designator::Name(Association::Device, n)),
        (name(), any::<u16>()).prop_map(|(n, tag)| Designator::Name(Association::Port, port_name(&n, tag))),
        proptest::collection::vec(any::<u8>(), 0..255).prop_map(|bytes| Designator::Other {
            association: Association::Unit,
            code_set: 1,
            kind: 0xA,
            bytes
        }),
    ]
}
prop_compose! {
    fn limits()(n in any::<[u16; 2]>(), m in any::<[u32; 2]>(), concurrent_max in any::<u8>()) -> CopyLimits {
        CopyLimits { targets_max: n[0], segments_max: n[1], list_bytes_max: m[0], segment_bytes_max: m[1], concurrent_max }
    }
}
const LIMITS: CopyLimits =
    CopyLimits { targets_max: 4, segments_max: 8, list_bytes_max: 4096, segment_bytes_max: 1 << 20, concurrent_max: 2 };
prop_compose! {
    fn segment(targets: u16)(source in 0..targets, destination in 0..targets, blocks in any::<u16>(), dc in any::<bool>(),
                             lbas in any::<[u64; 2]>()) -> CopySegment {
        CopySegment { source, destination, blocks, count_destination: dc, source_lba: lbas[0], destination_lba: lbas[1] }
    }
}
fn copy_list() -> impl Strategy<Value = CopyList> {
    let targets = proptest::collection::vec((any::<[u8; 16]>(), 0u32..1 << 24), 1..5);
    (targets, any::<u8>(), 0..3).prop_flat_map(|(targets, id, usage)| {
        let n = targets.len() as u16;
        let targets: Vec<_> =
            targets.into_iter().map(|(id, block_bytes)| CopyTarget { designator: Designator::Naa6(naa6(id)), block_bytes }).collect();
        let usage = [ListIdUsage::Kept, ListIdUsage::NotKept, ListIdUsage::None][usage as usize];
        let list_id = if usage == ListIdUsage::None { 0 } else { id };
        proptest::collection::vec(segment(n), 0..9).prop_map(move |segments| CopyList {
            list_id,
            usage,
            targets: targets.clone(),
            segments,
        })
    })
}

proptest! {
    #[test]
    fn inquiry_data_comes_back(flags in any::<[bool; 3]>(), bits in any::<[u8; 2]>(), text in ("[!-~]{1,8}", "[!-~]{1,16}", "[!-~]{1,4}"),
                               versions in proptest::collection::vec(1u16.., 0..8)) {
        let inquiry = Inquiry {
            qualifier: bits[0] & 7,
            device_type: bits[1] & 31,
            implicit_alua: flags[0],
            third_party_copy: flags[1],
            multi_port: flags[2],
            vendor: text.0,
            product: text.1,
            revision: text.2,
            versions,
        };
        let bytes = inquiry.to_bytes();
        prop_assert_eq!(Inquiry::parse(&bytes), Some(inquiry.clone()));
        prop_assert_eq!(Inquiry::parse(&bytes[..36]), Some(Inquiry { versions: Vec::new(), ..inquiry }));
    }

    #[test]
    fn designators_come_back(list in proptest::collection::vec(designator(), 0..6)) {
        prop_assert_eq!(parse_identification(&build_identification(0, &list)), Some(list));
    }

    #[test]
    fn pages_of_vital_product_data_come_back(n in any::<[u32; 12]>(), wide in any::<u64>(), flags in any::<[bool; 5]>(), limits in limits()) {
        let page = BlockLimits {
            flags: n[0] as u8, compare_blocks_max: n[1] as u8, transfer_granularity: n[2] as u16, transfer_max: n[3],
            transfer_optimal: n[4], prefetch_max: n[5], unmap_blocks_max: n[6], unmap_descriptors_max: n[7], unmap_granularity: n[8],
            unmap_alignment: n[9], write_same_max: wide, atomic_max: n[10], atomic_alignment: n[11], atomic_granularity: n[0],
            atomic_max_with_boundary: n[1], atomic_boundary_max: n[2],
        };
        prop_assert_eq!(BlockLimits::parse(&page.to_bytes(0)), Some(page));
        let page = ExtendedInquiry { volatile_cache: flags[0], sense_bytes_max: n[0] as u8 };
        prop_assert_eq!(ExtendedInquiry::parse(&page.to_bytes(0)), Some(page));
        let page = Provisioning {
            threshold_exponent: n[0] as u8, unmap: flags[0], write_same16: flags[1], write_same10: flags[2], reads_zeroes: flags[3],
            thin: flags[4],
        };
        prop_assert_eq!(Provisioning::parse(&page.to_bytes(0)), Some(page));
        prop_assert_eq!(CopyLimits::parse_page(&limits.to_page(0)), Some(limits));
        prop_assert_eq!(CopyLimits::parse_operating_parameters(&limits.to_operating_parameters()), Some(limits));
    }

    #[test]
    fn capacities_come_back(last_lba in any::<u64>(), n in any::<[u32; 3]>(), flags in any::<[bool; 2]>()) {
        let capacity = Capacity {
            last_lba, block_bytes: n[0], physical_exponent: n[1] as u8 & 15, lowest_aligned: n[2] as u16 & 0x3FFF, provisioned: flags[0],
            reads_zeroes: flags[1],
        };
        prop_assert_eq!(Capacity::parse(&capacity.to_bytes()), Some(capacity));
        let short = u32::try_from(last_lba).ok().filter(|l| *l != u32::MAX);
        prop_assert_eq!(Capacity::parse_short(&capacity.to_short()), Some((short, n[0])));
    }

    #[test]
    fn lists_of_ranges_come_back(list in proptest::collection::vec((any::<u64>(), any::<u32>(), 0..3usize), 0..20), cut in 1usize..400) {
        let ranges: Vec<_> = list.iter().map(|(lba, blocks, _)| LbaRange { lba: *lba, blocks: *blocks }).collect();
        let bytes = build_unmap(&ranges);
        prop_assert_eq!(parse_unmap(&bytes, 20), Ok(ranges.clone()));
        if let Some(max) = ranges.len().checked_sub(1) {
            prop_assert_eq!(parse_unmap(&bytes, max), Err(Invalid::parameter(2)), "too many");
        }
        if cut < bytes.len() {
            prop_assert_eq!(parse_unmap(&bytes[..cut], 20), Err(Invalid::LIST_LENGTH));
        }
        let states = [ProvisioningStatus::Mapped, ProvisioningStatus::Deallocated, ProvisioningStatus::Anchored];
        let status: Vec<_> = ranges.iter().zip(&list).map(|(r, (_, _, s))| (*r, states[*s])).collect();
        prop_assert_eq!(parse_lba_status(&build_lba_status(status.iter().copied())), status);
    }

    #[test]
    fn port_groups_come_back(groups in proptest::collection::vec(port_group(), 0..5), extended in any::<Option<u8>>()) {
        prop_assert_eq!(parse_port_groups(&build_port_groups(extended, &groups)), groups);
    }

    #[test]
    fn transport_ids_come_back(id in transport_id(), after in proptest::collection::vec(any::<u8>(), 0..9)) {
        let bytes = id.to_bytes();
        prop_assert!(bytes.len() >= 24 && bytes.len() % 4 == 0);
        let n = bytes.len();
        prop_assert_eq!(TransportId::parse(&[bytes, after].concat()), Some((id, n)));
    }

    #[test]
    fn reservation_data_comes_back(generation in any::<u32>(), keys in proptest::collection::vec(any::<u64>(), 0..9),
                                   held in proptest::option::of((any::<u64>(), kind())), flags in any::<[bool; 5]>(),
                                   list in proptest::collection::vec(full_status(), 0..5)) {
        prop_assert_eq!(parse_keys(&build_keys(generation, keys.iter().copied())), Some((generation, keys)));
        prop_assert_eq!(parse_reservation(&build_reservation(generation, held)), Some((generation, held)));
        let can = Capabilities {
            compatible: flags[0], spec_i_pt: flags[1], all_target_ports: flags[2], persist_capable: flags[3], persist_active: flags[4],
        };
        prop_assert_eq!(Capabilities::parse(&can.to_bytes()), Some(can));
        prop_assert_eq!(parse_full_status(&build_full_status(generation, list.iter())), Some((generation, list)));
    }

    #[test]
    fn reservation_lists_come_back(keys in any::<[u64; 2]>(), flags in any::<[bool; 2]>(), port in any::<u16>(), to in transport_id(),
                                   nexuses in proptest::option::of(proptest::collection::vec(transport_id(), 0..4)), cut in 1usize..24) {
        let list = OutList { key: keys[0], action_key: keys[1], all_target_ports: flags[0], persist: flags[1], nexuses };
        let bytes = list.to_bytes();
        prop_assert_eq!(OutList::parse(ReserveOut::Register, &bytes), Ok(list.clone()));
        prop_assert_eq!(OutList::parse(ReserveOut::Register, &bytes[..bytes.len() - cut]), Err(Invalid::LIST_LENGTH));
        if list.nexuses.is_some() {
            prop_assert_eq!(OutList::parse(ReserveOut::Reserve, &bytes), Err(Invalid::parameter_bit(20, 3)));
        } else {
            let plain = OutList { all_target_ports: false, persist: false, ..list };
            prop_assert_eq!(OutList::parse(ReserveOut::Reserve, &bytes), Ok(plain));
        }
        let list = MoveList { key: keys[0], action_key: keys[1], unregister: flags[0], persist: flags[1], port, to };
        let bytes = list.to_bytes();
        prop_assert_eq!(MoveList::parse(&bytes), Ok(list));
        prop_assert_eq!(MoveList::parse(&bytes[..bytes.len() - cut]), Err(Invalid::LIST_LENGTH));
    }

    #[test]
    fn copy_lists_come_back(list in copy_list(), cut in 1usize..28) {
        let bytes = list.to_bytes();
        prop_assert_eq!(CopyList::parse(&bytes, &LIMITS), Ok(Some(list)));
        prop_assert_eq!(CopyList::parse(&bytes[..bytes.len() - cut], &LIMITS), Err(Invalid::LIST_LENGTH));
    }

    #[test]
    fn log_pages_come_back(codes in proptest::collection::vec((any::<u16>(), proptest::collection::vec(any::<u8>(), 0..20)), 0..6),
                           pointer in any::<u16>()) {
        let list: Vec<_> = codes.into_iter().map(|(code, value)| LogParameter { code, value }).collect();
        let page = log::build_page(log::PAGE_PROVISIONING, 0, &list, pointer);
        let ((page, subpage), body) = log::parse_page(&page).unwrap();
        let wanted: Vec<_> = list.into_iter().filter(|p| p.code >= pointer).collect();
        prop_assert_eq!((page, subpage, log::parse_parameters(body)), (log::PAGE_PROVISIONING, 0, wanted));
    }

    #[test]
    fn any_bytes_are_data_or_refused(b in proptest::collection::vec(any::<u8>(), 0..300), page in 0u8.., long in any::<bool>()) {
        let _ = (Inquiry::parse(&b), Capacity::parse(&b), Capacity::parse_short(&b), Capabilities::parse(&b), MoveList::parse(&b));
        let _ = (parse_keys(&b), parse_reservation(&b), parse_full_status(&b), CopyStatus::parse(&b), parse_failure(&b));
        let _ = (CopyLimits::parse_operating_parameters(&b), CopyList::parse(&b, &LIMITS), parse_sensed(long, &b));
        let _ = (TransportId::parse(&b), supported::parse_opcodes(&b), supported::parse_opcode(&b), MODES.select(long, &b));
        for action in ReserveOut::ALL {
            let _ = OutList::parse(*action, &b);
        }
        prop_assert!(parse_unmap(&b, 3).is_ok_and(|l| l.len() <= 3) || parse_unmap(&b, 3).is_err());
        prop_assert!(parse_port_groups(&b).len() <= b.len() / 8 && parse_lba_status(&b).len() <= b.len() / 16);
        let mut vpd = b.clone();
        for code in [page, PAGE_IDENTIFICATION, PAGE_COPY, PAGE_LIMITS, PAGE_PROVISIONING, PAGE_EXTENDED] {
            vpd.get_mut(1).into_iter().for_each(|p| *p = code);
            let _ = (parse_identification(&vpd), CopyLimits::parse_page(&vpd), BlockLimits::parse(&vpd), Provisioning::parse(&vpd));
            let _ = (ExtendedInquiry::parse(&vpd), parse_serial(&vpd), parse_supported(&vpd));
        }
        if let Some((_, body)) = log::parse_page(&b) {
            prop_assert!(log::parse_parameters(body).len() <= b.len() / 4);
        }
    }
}

const ON: ModeValues =
    ModeValues { write_cache: true, descriptor_sense: true, write_protect: true, task_aborted_status: true, no_exceptions: true };
const MODES: ModePages = ModePages {
    current: ModeValues { write_cache: true, ..ModeValues::NONE },
    changeable: ModeValues { descriptor_sense: true, ..ModeValues::NONE },
    default: ModeValues::NONE,
    write_protected: false,
    blocks: 0x1_0000_0001,
    block_bytes: 4096,
};
const SENSE: ModeSense = ModeSense {
    long: false,
    long_lba: false,
    no_descriptors: true,
    control: PageControl::Current,
    page: PAGE_CACHING,
    subpage: 0,
    allocation: 255,
};

#[test]
fn mode_pages_lie_where_the_standards_put_them() {
    let of = |m: ModeSense| MODES.sense(&m).unwrap().unwrap();
    let caching = [&[23, 0, 0x10, 0, 0x08, 18, 0x04][..], &[0; 17]].concat();
    assert_eq!(of(SENSE), caching);
    let control = of(ModeSense { page: PAGE_CONTROL, control: PageControl::Changeable, ..SENSE });
    assert_eq!(control, [15, 0, 0x10, 0, 0x0A, 10, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let long = of(ModeSense { long: true, long_lba: true, no_descriptors: false, page: PAGE_EXCEPTIONS, ..SENSE });
    assert_eq!(long[..24], [0, 34, 0, 0x10, 1, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x10, 0]);
    assert_eq!(long[24..27], [0x1C, 10, 0]);
    let short = of(ModeSense { no_descriptors: false, ..SENSE });
    assert_eq!(short[3..12], [8, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0x10, 0]);
    let all = of(ModeSense { page: PAGE_ALL, subpage: SUBPAGE_ALL, ..SENSE });
    assert_eq!(all.len(), 4 + 20 + 12 + 32 + 12);
    assert_eq!(all[4 + 20 + 12..][..5], [0x4A, 1, 0, 28, 1]);
    assert_eq!(of(ModeSense { page: PAGE_ALL, ..SENSE }).len(), 4 + 20 + 12 + 12, "without subpages");
}

#[test]
fn mode_pages_that_there_are_not_are_refused() {
    let of = |m: ModeSense| MODES.sense(&m);
    assert_eq!(of(ModeSense { page: 0x19, ..SENSE }), Err(Invalid::cdb_bit(2, 5)));
    assert_eq!(of(ModeSense { subpage: 5, ..SENSE }), Err(Invalid::cdb(3)));
    assert_eq!(of(ModeSense { page: PAGE_ALL, subpage: 5, ..SENSE }), Err(Invalid::cdb(3)));
    assert_eq!(of(ModeSense { control: PageControl::Saved, ..SENSE }), Ok(None));
}

#[test]
fn mode_values_come_back() {
    for header in [4, 8] {
        let long = header == 8;
        for current in [ON, ModeValues::NONE, MODES.current] {
            for no_descriptors in [false, true] {
                let pages = ModePages { current, write_protected: long, ..MODES };
                let all = ModeSense { long, no_descriptors, page: PAGE_ALL, subpage: SUBPAGE_ALL, ..SENSE };
                let data = pages.sense(&all).unwrap().unwrap();
                assert_eq!(parse_sensed(long, &data), Some((long, current)));
                assert_eq!(pages.select(long, &data), Ok(current), "what was read can be written again");
            }
        }
    }
}

#[test]
fn mode_select_changes_what_may_change_and_nothing_else() {
    let control = |d: u8| [0, 0, 0, 0, 0x0A, 10, d, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(MODES.select(false, &control(4)), Ok(ModeValues { descriptor_sense: true, ..MODES.current }));
    assert_eq!(MODES.select(false, &control(4 | 2)), Err(Invalid::parameter_bit(6, 1)), "GLTSD");
    let caching = [&[0, 0, 0, 0, 0x08, 18, 0][..], &[0; 17]].concat();
    assert_eq!(MODES.select(false, &caching), Err(Invalid::parameter_bit(6, 2)), "WCE does not change here");
    let all = ModePages { changeable: ON, ..MODES };
    assert_eq!(all.select(false, &caching), Ok(ModeValues::NONE));
    assert_eq!(
        all.select(false, &[caching.clone(), control(4)[4..].to_vec()].concat()),
        Ok(ModeValues { descriptor_sense: true, ..ModeValues::NONE })
    );
    assert_eq!(MODES.select(false, &caching[..20]), Err(Invalid::LIST_LENGTH));
    assert_eq!(MODES.select(false, &[0, 0, 0, 0, 0x19, 2, 0, 0]), Err(Invalid::parameter_bit(4, 5)), "no such page");
    assert_eq!(MODES.select(false, &[0, 0, 0, 0, 0x0A, 2, 0, 0]), Err(Invalid::parameter(5)), "its length");
    assert_eq!(MODES.select(false, &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0]), Err(Invalid::parameter(9)), "blocks of 512 bytes");
    assert_eq!(MODES.select(false, &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0x10, 0]), Ok(MODES.current));
    assert_eq!(MODES.select(false, &[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]), Err(Invalid::parameter(3)));
    assert_eq!(MODES.select(true, &[]), Ok(MODES.current));
}

#[test]
fn inquiry_pages_lie_where_the_standards_put_them() {
    let inquiry = Inquiry {
        qualifier: QUALIFIER_CONNECTED,
        device_type: DEVICE_BLOCK,
        implicit_alua: true,
        third_party_copy: true,
        multi_port: true,
        vendor: "BASALT".into(),
        product: "Volume".into(),
        revision: "1".into(),
        versions: vec![VERSION_SAM_5, VERSION_SPC_4, VERSION_SBC_3, VERSION_ISCSI],
    };
    let b = inquiry.to_bytes();
    assert_eq!(b[..8], [0, 0, 6, 0x12, 91, 0x18, 0x10, 0x02]);
    assert_eq!(&b[8..36], b"BASALT  Volume          1   ");
    assert_eq!(b[58..66], [0x00, 0xA0, 0x04, 0x60, 0x04, 0xC0, 0x09, 0x60]);
    assert_eq!(Inquiry::no_unit("A", "B", "C").to_bytes()[0], 0x7F);
    assert_eq!(build_supported(0, &[0, 0x80, 0x83]), [0, 0, 0, 3, 0, 0x80, 0x83]);
    assert_eq!(parse_supported(&build_supported(0, &[0, 0x80])), Some(&[0, 0x80][..]));
    assert_eq!(build_serial(0, "ab"), [0, 0x80, 0, 2, b'a', b'b']);
    assert_eq!(parse_serial(&build_serial(0, "ab")).as_deref(), Some("ab"));
    let limits =
        BlockLimits { compare_blocks_max: 1, unmap_blocks_max: 2, write_same_max: 3, atomic_boundary_max: 4, ..Default::default() };
    let b = limits.to_bytes(0);
    assert_eq!((b.len(), b[3], b[5], b[23], b[43], b[63]), (64, 0x3C, 1, 2, 3, 4));
    let b = build_characteristics(0);
    assert_eq!((b.len(), &b[..6], b[8]), (64, &[0, 0xB1, 0, 0x3C, 0, 1][..], 2));
    let b = Provisioning { unmap: true, write_same16: true, reads_zeroes: true, thin: true, ..Default::default() }.to_bytes(0);
    assert_eq!(b, [0, 0xB2, 0, 4, 0, 0xC4, 2, 0]);
    let b = ExtendedInquiry { volatile_cache: true, sense_bytes_max: 252 }.to_bytes(0);
    assert_eq!((b.len(), &b[..8], b[13]), (64, &[0, 0x86, 0, 0x3C, 0, 7, 1, 1][..], 252));
    let b = LIMITS.to_page(0);
    assert_eq!(b[4..20], [0, 1, 0, 12, 8, 0x83, 1, 0, 0x84, 3, 0, 3, 4, 0, 0, 0]);
    assert_eq!(b.len() % 4, 0);
}

#[test]
fn designators_lie_where_the_standard_puts_them() {
    let id = naa6([0xFF; 16]);
    assert_eq!(id[..3], [0x6F, 0xEF, 0xFF], "NAA 6, locally administered, no group");
    let b = build_identification(0, &[Designator::Naa6(id), Designator::RelativePort(2), Designator::PortGroup(3)]);
    assert_eq!(b[..8], [0, 0x83, 0, 36, 0x01, 0x03, 0, 16]);
    assert_eq!(b[24..], [0x51, 0x94, 0, 4, 0, 0, 0, 2, 0x51, 0x95, 0, 4, 0, 0, 0, 3]);
    let name = Designator::Name(Association::Device, "iqn.a".into()).to_bytes();
    assert_eq!(name, [&[0x53, 0xA8, 0, 8][..], b"iqn.a\0\0\0"].concat());
    assert_eq!(Designator::Name(Association::Device, "iqn.abcd".into()).to_bytes()[3], 12, "one zero at least");
    assert_eq!(port_name("iqn.a", 1), "iqn.a,t,0x0001");
    let t10 = Designator::T10Vendor { vendor: "BASALT".into(), id: "x".into() }.to_bytes();
    assert_eq!(t10, [&[0x02, 0x01, 0, 9][..], b"BASALT  x"].concat());
}

#[test]
fn capacities_and_ranges_lie_where_the_standard_puts_them() {
    let capacity = Capacity {
        last_lba: 0x1_0000_0000,
        block_bytes: 512,
        physical_exponent: 3,
        lowest_aligned: 0,
        provisioned: true,
        reads_zeroes: true,
    };
    assert_eq!(capacity.to_short(), [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 2, 0]);
    assert_eq!(capacity.to_bytes()[..16], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 3, 0xC0, 0]);
    let range = LbaRange { lba: 1, blocks: 2 };
    assert_eq!(build_unmap(&[range]), [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]);
    assert_eq!(parse_unmap(&[], 0), Ok(Vec::new()));
    assert_eq!(parse_unmap(&[0, 6, 0, 0, 0, 0, 0, 0], 0), Ok(Vec::new()));
    assert_eq!(parse_unmap(&[0, 5, 0, 0, 0, 0, 0, 0], 0), Err(Invalid::parameter(0)), "the lengths disagree");
    let partial = [&build_unmap(&[range, range])[..], &[]].concat();
    let partial = [&[0, 30, 0, 24][..], &partial[4..32]].concat();
    assert_eq!(parse_unmap(&partial, 1), Ok(vec![range]), "half a descriptor is passed over");
    let status = build_lba_status([(range, ProvisioningStatus::Deallocated)].into_iter());
    assert_eq!(status, [0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0]);
    assert_eq!(build_no_defects(false, 0xFD), [0, 0x1D, 0, 0]);
}

#[test]
fn reservation_data_lies_where_the_standard_puts_it() {
    assert_eq!(build_keys(1, [2].into_iter()), [0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2]);
    let held = build_reservation(1, Some((9, ReservationType::WriteExclusiveRegistrantsOnly)));
    assert_eq!(held, [0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 5, 0, 0]);
    assert_eq!(build_reservation(1, None), [0, 0, 0, 1, 0, 0, 0, 0]);
    let can = Capabilities { compatible: true, spec_i_pt: true, all_target_ports: true, persist_capable: true, persist_active: true };
    assert_eq!(can.to_bytes(), [0, 8, 0x1D, 0x91, 0xEA, 0x01, 0, 0]);
    let id = TransportId { name: NAME.into(), isid: Some([0x40, 0, 1, 0x37, 0, 0xAB]) };
    let text = format!("{NAME},i,0x4000013700ab\0");
    assert_eq!(id.to_bytes()[..4], [0x45, 0, 0, text.len().next_multiple_of(4) as u8]);
    assert_eq!(&id.to_bytes()[4..4 + text.len()], text.as_bytes());
    let short = TransportId { name: "iqn.a".into(), isid: None }.to_bytes();
    assert_eq!(short, [&[5, 0, 0, 20][..], b"iqn.a", &[0; 15]].concat());
    let one =
        FullStatus { key: 1, all_target_ports: false, holds: Some(ReservationType::ExclusiveAccess), port: 2, transport_id: id.clone() };
    let b = build_full_status(7, [&one].into_iter());
    assert_eq!(b[8..28], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 2]);
    let upper = id.to_bytes().to_ascii_uppercase();
    assert_eq!(TransportId::parse(&upper), None, "\",I,0X\" is no separator");
    for wrong in ["", "iqn", "xyz.a", "iqn.a b", "iqn.a\u{7}"] {
        assert!(!is_iscsi_name(wrong), "{wrong:?}");
    }
}

#[test]
fn nexuses_of_a_registration_are_bounded() {
    let id = TransportId { name: NAME.into(), isid: None };
    let of = |n| OutList { nexuses: Some(vec![id.clone(); n]), ..Default::default() }.to_bytes();
    assert!(OutList::parse(ReserveOut::Register, &of(TRANSPORT_IDS_MAX)).is_ok());
    assert_eq!(OutList::parse(ReserveOut::Register, &of(TRANSPORT_IDS_MAX + 1)), Err(Invalid::parameter(24)));
    let mut fibre = of(1);
    fibre[28] = 0;
    assert_eq!(OutList::parse(ReserveOut::Register, &fibre), Err(Invalid::parameter(28)), "another protocol");
}

#[test]
fn port_groups_lie_where_the_standard_puts_them() {
    let group = PortGroup {
        id: 0x102,
        preferred: true,
        state: AccessState::NonOptimized,
        status: STATUS_IMPLICIT,
        supported: SUPPORTED_ACTIVE,
        ports: vec![3],
    };
    let body = [0x81, 0x8B, 1, 2, 0, 2, 0, 1, 0, 0, 0, 3];
    assert_eq!(build_port_groups(None, std::slice::from_ref(&group)), [&[0, 0, 0, 12][..], &body].concat());
    assert_eq!(build_port_groups(Some(9), &[group]), [&[0, 0, 0, 16, 0x10, 9, 0, 0][..], &body].concat());
}

#[test]
fn copies_lie_where_the_standard_puts_them() {
    let target = CopyTarget { designator: Designator::Naa6(naa6([7; 16])), block_bytes: 0x1000 };
    let segment = CopySegment { source: 0, destination: 0, blocks: 3, count_destination: true, source_lba: 4, destination_lba: 5 };
    let list = CopyList { list_id: 9, usage: ListIdUsage::NotKept, targets: vec![target], segments: vec![segment; 2] };
    let b = list.to_bytes();
    assert_eq!(b[..16], [9, 0x10, 0, 32, 0, 0, 0, 0, 0, 0, 0, 56, 0, 0, 0, 0]);
    assert_eq!(b[16..26], [0xE4, 0, 0, 0, 1, 3, 0, 16, 0x67, 0x27]);
    assert_eq!(b[44..48], [0, 0, 0x10, 0]);
    assert_eq!(b[48..60], [2, 2, 0, 24, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!((b[67], b[75]), (4, 5));
    let with = |at: usize, value: u8| {
        let mut b = b.clone();
        b[at] = value;
        CopyList::parse(&b, &LIMITS)
    };
    assert_eq!(with(15, 1), Err(Invalid::Request(SenseCode::INLINE_DATA_LENGTH_EXCEEDED)));
    assert_eq!(with(16, 0xE0), Err(Invalid::Request(SenseCode::UNSUPPORTED_TARGET_DESCRIPTOR)));
    assert_eq!(with(48, 0x00), Err(Invalid::Request(SenseCode::UNSUPPORTED_SEGMENT_DESCRIPTOR)));
    assert_eq!(with(53, 1).unwrap().unwrap().segments[0].source, 1, "the caller's to check");
    assert_eq!(with(17, 0xE0), with(17, 0), "LU ID TYPE and NUL");
    assert_eq!(with(17, 0x01), Err(Invalid::Request(SenseCode::UNSUPPORTED_TARGET_DESCRIPTOR)), "no block device");
    assert_eq!(with(51, 23), Err(Invalid::parameter(50)));
    assert_eq!(with(49, 1), Err(Invalid::parameter_bit(49, 0)), "CAT");
    assert_eq!(with(1, 0x18), Err(Invalid::parameter(0)), "a list identifier that must be 0");
    assert_eq!(with(23, 21), Err(Invalid::parameter(23)), "a designator longer than its place");
    let tight = |limits: CopyLimits| CopyList::parse(&b, &limits);
    assert_eq!(tight(CopyLimits { targets_max: 0, ..LIMITS }), Err(Invalid::Request(SenseCode::TOO_MANY_TARGET_DESCRIPTORS)));
    assert_eq!(tight(CopyLimits { segments_max: 1, ..LIMITS }), Err(Invalid::Request(SenseCode::TOO_MANY_SEGMENT_DESCRIPTORS)));
    assert_eq!(tight(CopyLimits { list_bytes_max: 80, ..LIMITS }), Err(Invalid::LIST_LENGTH));
    assert_eq!(CopyList::parse(&[], &LIMITS), Ok(None));
}

#[test]
fn results_of_copies_lie_where_the_standard_puts_them() {
    let status = CopyStatus { state: CopyState::Failed, segments: 3, bytes: 0x1000 };
    assert_eq!(status.to_bytes(), [0, 0, 0, 8, 2, 0, 3, 0, 0, 0, 0x10, 0]);
    assert_eq!(CopyStatus::parse(&status.to_bytes()), Some(status));
    assert_eq!(build_failure(None), [0; 4]);
    let b = build_failure(Some((2, &[0x70, 0, 5])));
    assert_eq!((b.len(), b[3], b[56], &b[58..]), (63, 59, 2, &[0, 3, 0x70, 0, 5][..]));
    assert_eq!(parse_failure(&b), Some((2, &[0x70, 0, 5][..])));
    let b = LIMITS.to_operating_parameters();
    assert_eq!((b[3], b[4], b[9], b[11], &b[43..]), (42, 1, 4, 8, &[2, 0x02, 0xE4][..]));
}

#[test]
fn log_pages_lie_where_the_standards_put_them() {
    assert_eq!(log::build_supported(&[0, 0x0C]), [0, 0, 0, 2, 0, 0x0C]);
    assert_eq!(log::build_supported_subpages(&[(0, 0), (0, 0xFF)]), [0x40, 0xFF, 0, 4, 0, 0, 0, 0xFF]);
    let used = LogParameter::resources(log::USED_RESOURCES, 0x102, ResourceScope::Unit);
    let page = log::build_page(log::PAGE_PROVISIONING, 0, &[used], 0);
    assert_eq!(page, [0x0C, 0, 0, 12, 0, 2, 3, 8, 0, 0, 1, 2, 1, 0, 0, 0]);
    let page = log::build_page(log::PAGE_TEMPERATURE, 0, &[LogParameter::temperature(log::TEMPERATURE, 30)], 0);
    assert_eq!(page, [0x0D, 0, 0, 6, 0, 0, 3, 2, 0, 30]);
    let page = log::build_page(log::PAGE_EXCEPTIONS, 0, &[LogParameter::exception(SenseCode(0x5D10), 30)], 0);
    assert_eq!(page, [0x2F, 0, 0, 8, 0, 0, 3, 4, 0x5D, 0x10, 30, 0]);
}

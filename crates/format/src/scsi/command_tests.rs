//! CDBs: every command of the table, refused bits with their places, and what REPORT SUPPORTED OPERATION CODES says of the same table.

use super::reservation::{ReservationType, ReserveIn, ReserveOut};
use super::supported::{Listed, TaskManagement, build_opcodes, parse_opcode, parse_opcodes};
use super::*;
use proptest::prelude::*;
use proptest::strategy::Union;

fn range() -> impl Strategy<Value = BlockRange> {
    let lba = prop_oneof![any::<u64>(), any::<u32>().prop_map(u64::from)];
    let blocks = prop_oneof![any::<u32>(), any::<u16>().prop_map(u32::from)];
    (lba, blocks, any::<bool>(), any::<bool>()).prop_map(|(lba, blocks, fua, dpo)| BlockRange { lba, blocks, fua, dpo })
}
fn one_of<T: Copy + std::fmt::Debug + 'static>(list: &'static [T]) -> impl Strategy<Value = T> {
    (0..list.len()).prop_map(|n| list[n])
}

fn media_command() -> impl Strategy<Value = Command> {
    (range(), any::<[u8; 2]>(), any::<bool>(), 0..9usize).prop_map(|(range, [a, b], on, which)| {
        let cache = CacheRange { lba: range.lba, blocks: range.blocks, immediate: on };
        match which {
            0 => Command::Read(range),
            1 => Command::Write(range),
            2 => Command::WriteAndVerify { range: BlockRange { fua: true, ..range }, compare: on },
            3 => {
                let check = [ByteCheck::Medium, ByteCheck::All, ByteCheck::One][usize::from(a) % 3];
                Command::Verify { range: BlockRange { fua: false, ..range }, check }
            }
            4 => Command::SynchronizeCache(cache),
            5 => Command::Prefetch(cache),
            6 => Command::WriteSame(WriteSame { lba: range.lba, blocks: range.blocks, unmap: on, no_data: a & 1 != 0 }),
            7 => Command::CompareAndWrite(BlockRange { blocks: b.into(), ..range }),
            _ => {
                Command::WriteAtomic { range: BlockRange { blocks: range.blocks & 0xFFFF, ..range }, boundary: u16::from_be_bytes([a, b]) }
            }
        }
    })
}

fn report_command() -> impl Strategy<Value = Command> {
    let query = (any::<u8>(), any::<u16>(), 0..4).prop_map(|(opcode, action, which)| match which {
        0 => OpcodeQuery::All,
        1 => OpcodeQuery::Opcode(opcode),
        2 => OpcodeQuery::ServiceAction(opcode, action),
        _ => OpcodeQuery::Either(opcode, action),
    });
    let results = [CopyResults::Status, CopyResults::Data, CopyResults::OperatingParameters, CopyResults::FailedSegment];
    let selects = [SelectReport::Units, SelectReport::WellKnown, SelectReport::All, SelectReport::Administrative];
    let parts = (query, any::<bool>(), any::<u32>(), any::<u64>(), any::<u8>(), 0..9usize);
    parts.prop_map(move |(query, on, allocation, lba, byte, which)| match which {
        0 => Command::ReportLuns { select: selects[usize::from(byte) % 4], allocation },
        1 => Command::ReportOpcodes { query, timeouts: on, allocation },
        2 => Command::ReportTaskManagement { extended: on, allocation },
        3 => Command::ReportPortGroups { extended: on, allocation },
        4 => Command::ReadCapacity16 { allocation },
        5 => Command::GetLbaStatus { lba, allocation },
        6 => Command::ExtendedCopy { list_length: allocation },
        7 => Command::ReceiveCopyResults { what: results[usize::from(byte) % 4], list_id: byte, allocation },
        _ => Command::ReadDefectData { long: on, lists: byte & 0x1F, allocation: if on { allocation } else { allocation & 0xFFFF } },
    })
}

fn mode_command() -> impl Strategy<Value = Command> {
    let controls = [PageControl::Current, PageControl::Changeable, PageControl::Default, PageControl::Saved];
    (any::<[bool; 3]>(), 0..4usize, any::<[u8; 2]>(), any::<[u16; 2]>(), 0..3).prop_map(
        move |([long, a, b], control, [page, subpage], [pointer, n], which)| {
            let n = if long || which == 2 { n } else { n & 0xFF };
            match which {
                0 => Command::ModeSense(ModeSense {
                    long,
                    long_lba: long && a,
                    no_descriptors: b,
                    control: controls[control],
                    page: page & 0x3F,
                    subpage,
                    allocation: n,
                }),
                1 => Command::ModeSelect(ModeSelect { long, page_format: a, save: b, list_length: n }),
                _ => Command::LogSense(LogSense { control: control as u8, page: page & 0x3F, subpage, pointer, allocation: n }),
            }
        },
    )
}

fn other_command() -> impl Strategy<Value = Command> {
    let parts = (any::<[bool; 4]>(), any::<u8>(), any::<u16>(), any::<u32>(), one_of(ReserveIn::ALL), one_of(ReserveOut::ALL));
    (parts, one_of(ReservationType::ALL), 0..11).prop_map(|(([a, b, c, d], byte, short, long, into, out), kind, which)| match which {
        0 => Command::TestUnitReady,
        1 => Command::RequestSense { descriptor: a, allocation: byte },
        2 => Command::Inquiry { page: a.then_some(byte), allocation: short },
        3 => Command::StartStopUnit(StartStop { immediate: a, condition: byte & 15, no_flush: b, load_eject: c, start: d }),
        4 => Command::PreventAllow { prevent: byte & 3 },
        5 => Command::SendDiagnostic { self_test: a },
        6 => Command::ReadCapacity10,
        7 => Command::Unmap { list_length: short },
        8 => Command::PersistentReserveIn { action: into, allocation: short },
        9 => Command::PersistentReserveOut(PersistentReserveOut { action: out, kind: Some(kind), list_length: long }),
        _ => [Command::Reserve, Command::Release][usize::from(a)],
    })
}

fn command() -> impl Strategy<Value = Command> {
    Union::new([media_command().boxed(), report_command().boxed(), mode_command().boxed(), other_command().boxed()])
}

/// A CDB that the table has an entry for, with any bits.
fn known_cdb() -> impl Strategy<Value = [u8; 16]> {
    (0..SUPPORTED.len(), any::<[u8; 16]>()).prop_map(|(n, mut cdb)| {
        let entry = &SUPPORTED[n];
        cdb[0] = entry.opcode();
        if entry.has_action {
            cdb[1] = cdb[1] & 0xE0 | entry.action();
        }
        cdb
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_command_that_is_built_parses_to_the_same(command in command()) {
        prop_assert_eq!(Command::parse(&command.to_cdb()), Ok(command));
    }

    #[test]
    fn any_bytes_are_a_command_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(command) = Command::parse(&bytes) {
            let _ = command.transfer();
        }
    }

    /// A bit that the usage data has as zero is refused or passed over: it changes nothing of what is understood.
    #[test]
    fn the_parser_evaluates_no_bit_that_the_usage_data_denies((n, any) in (0..SUPPORTED.len(), any::<u128>())) {
        let entry = &SUPPORTED[n];
        let mut given = (any & !entry.refused).to_be_bytes();
        given[0] = entry.opcode();
        if entry.has_action {
            given[1] = given[1] & 0xE0 | entry.action();
        }
        let mut plain = [0; 16];
        for (at, usage) in entry.usage.iter().enumerate() {
            plain[at] = given[at] & usage;
        }
        let understood = |cdb: &[u8; 16]| Command::parse(cdb).map(|command| match command {
            // Two are shown that their command does not use.
            Command::PersistentReserveOut(p) if entry.usage[2] == 0 => {
                Command::PersistentReserveOut(PersistentReserveOut { kind: None, ..p })
            }
            Command::ReceiveCopyResults { what: what @ CopyResults::OperatingParameters, allocation, .. } => {
                Command::ReceiveCopyResults { what, list_id: 0, allocation }
            }
            other => other,
        });
        prop_assert_eq!(understood(&given), understood(&plain), "{}", entry.name);
    }

    #[test]
    fn a_refusal_points_into_the_cdb(cdb in known_cdb()) {
        match Command::parse(&cdb) {
            Ok(command) => prop_assert_eq!(Command::parse(&command.to_cdb()), Ok(command)),
            Err(Invalid::Cdb { byte, bit }) => {
                prop_assert!(byte > 0 && byte < 16);
                let type_0 = cdb[0] == 0x5F && byte == 2;
                let bits = cdb[usize::from(byte)] & bit.map_or(0xFF, |b| 0xFF >> (7 - b));
                prop_assert!(bits != 0 || type_0, "the field that is to blame is not zero");
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}

/// Each bit that the usage data has is evaluated: flipping it changes what is understood.
#[test]
fn the_parser_evaluates_each_bit_of_the_usage_data() {
    for entry in SUPPORTED {
        let mut base = [0; 16];
        base[0] = entry.opcode();
        base[1] = entry.action();
        if entry.name == "INQUIRY" {
            base[1] = 1; // the page counts with EVPD alone
        }
        if entry.opcode() == 0x5F {
            base[2] = u8::from(entry.usage[2] != 0); // a type that there is
        }
        if entry.action() == 0x0C {
            base[2] = 3; // the query that uses all fields
        }
        let understood = Command::parse(&base);
        assert!(understood.is_ok(), "{}", entry.name);
        for (at, usage) in entry.usage.iter().enumerate().skip(1) {
            let usage = if at == 1 && entry.has_action { usage & 0xE0 } else { *usage };
            for bit in (0..8).filter(|bit| usage >> bit & 1 != 0) {
                let mut cdb = base;
                cdb[at] ^= 1 << bit;
                assert_ne!(Command::parse(&cdb), understood, "{}: byte {at} bit {bit}", entry.name);
            }
        }
    }
}

#[test]
fn what_may_not_be_set_is_refused_with_its_place() {
    let refused = |cdb: &[u8], byte: u16, bit: u8| assert_eq!(Command::parse(cdb), Err(Invalid::cdb_bit(byte, bit)), "{cdb:02X?}");
    refused(&[0x28, 0x20, 0, 0, 0, 0, 0, 0, 1, 0], 1, 5); // RDPROTECT
    refused(&[0x8A, 0xE0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], 1, 7); // WRPROTECT
    refused(&[0x00, 0, 0, 0, 0, 0x04], 5, 2); // NACA
    refused(&[0x28, 0x01, 0, 0, 0, 0, 0, 0, 1, 0], 1, 0); // RELADR
    refused(&[0x93, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], 1, 4); // ANCHOR
    refused(&[0x42, 0x01, 0, 0, 0, 0, 0, 0, 24, 0], 1, 0); // ANCHOR
    refused(&[0x2F, 0x04, 0, 0, 0, 0, 0, 0, 1, 0], 1, 2); // BYTCHK 10b
    refused(&[0x9E, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0], 1, 4); // no such service action
    refused(&[0x5F, 0x01, 0x11, 0, 0, 0, 0, 0, 24, 0], 2, 7); // a scope that is obsolete
    refused(&[0x5F, 0x01, 0x02, 0, 0, 0, 0, 0, 24, 0], 2, 3); // a type that is none
    assert_eq!(Command::parse(&[0x12, 0, 0x80, 0, 96, 0]), Err(Invalid::cdb(2)), "a page without EVPD");
    assert_eq!(Command::parse(&[0x28, 0, 0]), Err(Invalid::cdb(3)), "cut off");
    // FORMAT UNIT, READ BUFFER, SANITIZE, ORWRITE, SET TARGET PORT GROUPS, READ (32), and nothing.
    for cdb in [&[0x04, 0, 0, 0, 0, 0][..], &[0x3C; 10], &[0x48; 10], &[0x8B; 16], &[0xA4, 0x0A], &[0x7F; 16], &[]] {
        assert_eq!(Command::parse(cdb), Err(Invalid::Opcode));
    }
}

#[test]
fn what_is_obsolete_is_passed_over() {
    assert_eq!(Command::parse(&[0x25, 0xE1, 1, 2, 3, 4, 0, 0, 1, 0xC3]), Ok(Command::ReadCapacity10));
    let range = BlockRange { lba: 7, blocks: 1, fua: true, dpo: false };
    assert_eq!(Command::parse(&[0x28, 0x0A, 0, 0, 0, 7, 0x1F, 0, 1, 0]), Ok(Command::Read(range)), "FUA_NV and a group number");
}

#[test]
fn cdbs_have_their_fields_where_the_standards_put_them() {
    let range = |lba, blocks| BlockRange { lba, blocks, fua: false, dpo: false };
    let cases: &[(&[u8], Command)] = &[
        (&[0x08, 0x1F, 0xFF, 0xFE, 0, 0], Command::Read(range(0x1F_FFFE, 256))),
        (&[0x0A, 0x00, 0x01, 0x02, 3, 0], Command::Write(range(0x102, 3))),
        (&[0x28, 0x18, 1, 2, 3, 4, 0, 5, 6, 0], Command::Read(BlockRange { fua: true, dpo: true, ..range(0x0102_0304, 0x0506) })),
        (&[0xAA, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0], Command::Write(range(0x0102_0304, 0x0506_0708))),
        (&[0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0], Command::Read(range(0x0102_0304_0506_0708, 0x090A_0B0C))),
        (&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0], Command::CompareAndWrite(range(9, 2))),
        (&[0x9C, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 4, 0, 8, 0, 0], Command::WriteAtomic { range: range(9, 8), boundary: 4 }),
        (&[0x12, 1, 0x83, 1, 0, 0], Command::Inquiry { page: Some(0x83), allocation: 256 }),
        (&[0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0], Command::ReadCapacity16 { allocation: 32 }),
        (&[0xA0, 0, 2, 0, 0, 0, 0, 0, 16, 0, 0, 0], Command::ReportLuns { select: SelectReport::All, allocation: 4096 }),
        (&[0xA3, 0x2A, 0, 0, 0, 0, 0, 0, 0, 200, 0, 0], Command::ReportPortGroups { extended: true, allocation: 200 }),
        (&[0x35, 2, 0, 0, 0, 1, 0, 0, 2, 0], Command::SynchronizeCache(CacheRange { lba: 1, blocks: 2, immediate: true })),
        (
            &[0x93, 0x09, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0],
            Command::WriteSame(WriteSame { lba: 1, blocks: 2, unmap: true, no_data: true }),
        ),
        (
            &[0x5F, 0x05, 0x08, 0, 0, 0, 0, 0, 24, 0],
            Command::PersistentReserveOut(PersistentReserveOut {
                action: ReserveOut::PreemptAndAbort,
                kind: Some(ReservationType::ExclusiveAccessAllRegistrants),
                list_length: 24,
            }),
        ),
    ];
    for (cdb, command) in cases {
        assert_eq!(Command::parse(cdb), Ok(*command), "{cdb:02X?}");
    }
}

#[test]
fn transfers_are_as_long_as_the_command_says() {
    let of = |cdb: &[u8]| Command::parse(cdb).unwrap().transfer();
    assert_eq!(of(&[0x08, 0, 0, 0, 0, 0]), Transfer::BlocksIn(256));
    assert_eq!(of(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0]), Transfer::BlocksOut(6));
    assert_eq!(of(&[0x2F, 0x06, 0, 0, 0, 0, 0, 0, 9, 0]), Transfer::BlocksOut(1));
    assert_eq!(of(&[0x2F, 0x06, 0, 0, 0, 0, 0, 0, 0, 0]), Transfer::BlocksOut(0));
    assert_eq!(of(&[0x2F, 0x00, 0, 0, 0, 0, 0, 0, 9, 0]), Transfer::None);
    assert_eq!(of(&[0x41, 0x00, 0, 0, 0, 0, 0, 0, 9, 0]), Transfer::BlocksOut(1));
    assert_eq!(of(&[0x42, 0x00, 0, 0, 0, 0, 0, 0, 24, 0]), Transfer::Out(24));
}

#[test]
fn the_list_of_commands_is_the_table() {
    for timeouts in [false, true] {
        let data = build_opcodes(OpcodeQuery::All, timeouts, |_| true).unwrap();
        let listed = parse_opcodes(&data);
        let table = SUPPORTED.iter().map(|e| Listed {
            opcode: e.opcode(),
            action: e.has_action.then_some(e.action().into()),
            cdb_bytes: e.usage.len() as u16,
        });
        assert!(listed.into_iter().eq(table));
        assert_eq!(data.len(), 4 + SUPPORTED.len() * if timeouts { 20 } else { 8 });
    }
    let some = build_opcodes(OpcodeQuery::All, false, |e| e.opcode() == 0x28).unwrap();
    assert_eq!(some, [0, 0, 0, 8, 0x28, 0, 0, 0, 0, 0, 0, 10]);
}

#[test]
fn one_command_is_reported_with_its_usage_data() {
    for e in SUPPORTED {
        let by_kind =
            if e.has_action { OpcodeQuery::ServiceAction(e.opcode(), e.action().into()) } else { OpcodeQuery::Opcode(e.opcode()) };
        for query in [by_kind, OpcodeQuery::Either(e.opcode(), e.action().into())] {
            for timeouts in [false, true] {
                let data = build_opcodes(query, timeouts, |_| true).unwrap();
                assert_eq!(parse_opcode(&data), Some(e.usage), "{}", e.name);
                assert_eq!(data.len(), 4 + e.usage.len() + if timeouts { 12 } else { 0 });
            }
            assert_eq!(parse_opcode(&build_opcodes(query, false, |_| false).unwrap()), None, "{} is not served", e.name);
        }
    }
    let of = |query| build_opcodes(query, false, |_| true);
    assert_eq!(of(OpcodeQuery::Opcode(0x5E)), Err(Invalid::cdb_bit(2, 2)), "it has service actions");
    assert_eq!(of(OpcodeQuery::ServiceAction(0x28, 0)), Err(Invalid::cdb_bit(2, 2)), "it has none");
    let absent = vec![0, 1, 0, 0];
    for query in
        [OpcodeQuery::Opcode(0x04), OpcodeQuery::Either(0x28, 1), OpcodeQuery::ServiceAction(0x9E, 0x110), OpcodeQuery::Either(0xFF, 9)]
    {
        assert_eq!(of(query), Ok(absent.clone()), "{query:?}");
    }
}

#[test]
fn task_management_functions_are_reported() {
    let some = TaskManagement { abort_task: true, logical_unit_reset: true, nexus_reset: true, ..Default::default() };
    assert_eq!(some.to_bytes(false), [0x88, 0x01, 0, 0]);
    assert_eq!(some.to_bytes(true).len(), 16);
    assert_eq!(TaskManagement::parse(&some.to_bytes(true)), Some(some));
}

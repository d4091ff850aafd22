//! Every field at its bytes, written down a second time from the figures: a round trip does not notice a field that is wrong both ways.

use super::admin::{
    Abort, FormatNvm, GetFeatures, GetLogPage, Identify, NamespaceAction, NamespaceAttachment, NamespaceManagement, SetFeatures,
};
use super::fabrics::{Connect, ConnectData, PropertyAccess, connect_fault, connect_result, disconnect_sqe};
use super::feature::{self, Select};
use super::identify::*;
use super::io::{BlockRange, CopyCommand, CopyRange, DatasetManagement, DsmRange, flush_sqe};
use super::log::*;
use super::property::{Capabilities, Config, ControllerStatus};
use super::reservation::{Key, Keys, Notification, Registered, RegisteredExtended, ReportHead};
use super::*;

fn ones<T: Field>(_: &T) -> T {
    T::get(&vec![0xFF; T::LEN])
}

/// Each field of a layout, set to ones, fills these bytes and no other; there are no other fields.
macro_rules! lie_at {
    ($($type:ident { $($field:ident $at:literal $end:literal),* $(,)? })*) => {$({
        $({
            let zero = $type::default();
            let mut value = zero;
            value.$field = ones(&zero.$field);
            let bytes = value.to_bytes();
            let wanted: Vec<u8> = (0..$type::LEN).map(|at| if ($at..$end).contains(&at) { 0xFF } else { 0 }).collect();
            assert!(bytes[..] == wanted[..], "{} of {}", stringify!($field), stringify!($type));
        })*
        let all = $type::parse(&[0xFF; $type::LEN]).unwrap().to_bytes();
        let listed = [$($end - $at),*].iter().sum::<usize>();
        assert_eq!(all.iter().filter(|b| **b != 0).count(), listed, "{} has fields that are not listed", stringify!($type));
    })*};
}

#[test]
fn structures_have_their_fields_where_the_figures_have_them() {
    lie_at! {
        IdentifyController {
            vid 0 2, ssvid 2 4, sn 4 24, mn 24 64, fr 64 72, rab 72 73, ieee 73 76, cmic 76 77, mdts 77 78, cntlid 78 80, ver 80 84,
            rtd3r 84 88, rtd3e 88 92, oaes 92 96, ctratt 96 100, rrls 100 102, cntrltype 111 112, fguid 112 128, crdt1 128 130,
            crdt2 130 132, crdt3 132 134, nvmsr 253 254, vwci 254 255, mec 255 256, oacs 256 258, acl 258 259, aerl 259 260, frmw 260 261,
            lpa 261 262, elpe 262 263, npss 263 264, avscc 264 265, apsta 265 266, wctemp 266 268, cctemp 268 270, mtfa 270 272,
            hmpre 272 276, hmmin 276 280, tnvmcap 280 296, unvmcap 296 312, rpmbs 312 316, edstt 316 318, dsto 318 319, fwug 319 320,
            kas 320 322, hctma 322 324, mntmt 324 326, mxtmt 326 328, sanicap 328 332, hmminds 332 336, hmmaxd 336 338, nsetidmax 338 340,
            endgidmax 340 342, anatt 342 343, anacap 343 344, anagrpmax 344 348, nanagrpid 348 352, pels 352 356, domain 356 358,
            megcap 368 384, sqes 512 513, cqes 513 514, maxcmd 514 516, nn 516 520, oncs 520 522, fuses 522 524, fna 524 525, vwc 525 526,
            awun 526 528, awupf 528 530, icsvscc 530 531, nwpc 531 532, acwu 532 534, ocfs 534 536, sgls 536 540, mnan 540 544,
            subnqn 768 1024, ioccsz 1792 1796, iorcsz 1796 1800, icdoff 1800 1802, fcatt 1802 1803, msdbd 1803 1804, ofcs 1804 1806,
            psd0_mp 2048 2050,
        }
        IdentifyNamespace {
            nsze 0 8, ncap 8 16, nuse 16 24, nsfeat 24 25, nlbaf 25 26, flbas 26 27, mc 27 28, dpc 28 29, dps 29 30, nmic 30 31,
            rescap 31 32, fpi 32 33, dlfeat 33 34, nawun 34 36, nawupf 36 38, nacwu 38 40, nabsn 40 42, nabo 42 44, nabspf 44 46,
            noiob 46 48, nvmcap 48 64, npwg 64 66, npwa 66 68, npdg 68 70, npda 70 72, nows 72 74, mssrl 74 76, mcl 76 80, msrc 80 81,
            anagrpid 92 96, nsattr 99 100, nvmsetid 100 102, endgid 102 104, nguid 104 120, eui64 120 128, lbaf0 128 132, lbaf1 132 136,
        }
        LbaFormat { ms 0 2, lbads 2 3, rp 3 4 }
        IndependentNamespace {
            nsfeat 0 1, nmic 1 2, rescap 2 3, fpi 3 4, anagrpid 4 8, nsattr 8 9, nvmsetid 10 12, endgid 12 14, nstat 14 15,
        }
        NvmController { vsl 0 1, wzsl 1 2, wusl 2 3, dmrl 3 4, dmrsl 4 8, dmsl 8 16 }
        Granularity { attributes 0 4, descriptors 4 5, size 32 40, capacity 40 48 }
        ConnectData { host_id 0 16, cntlid 16 18, subnqn 256 512, hostnqn 512 768 }
        ErrorEntry {
            error_count 0 8, sqid 8 10, cid 10 12, status 12 14, parameter 14 16, lba 16 24, nsid 24 28, vs 28 29, trtype 29 30, cs 32 40,
            ts 40 42,
        }
        Health {
            critical_warning 0 1, temperature 1 3, spare 3 4, spare_threshold 4 5, used 5 6, endurance_warning 6 7, units_read 32 48,
            units_written 48 64, reads 64 80, writes 80 96, busy_minutes 96 112, power_cycles 112 128, power_on_hours 128 144,
            unsafe_shutdowns 144 160, media_errors 160 176, error_entries 176 192, warning_minutes 192 196, critical_minutes 196 200,
        }
        FirmwareSlots { afi 0 1, frs1 8 16 }
        AnaHeader { change_count 0 8, groups 8 10 }
        AnaGroup { id 0 4, nsids 4 8, change_count 8 16, state 16 17 }
        DiscoveryHeader { genctr 0 8, numrec 8 16, recfmt 16 18 }
        DiscoveryEntry {
            trtype 0 1, adrfam 1 2, subtype 2 3, treq 3 4, portid 4 6, cntlid 6 8, asqsz 8 10, eflags 10 12, trsvcid 32 64,
            subnqn 256 512, traddr 512 768, tsas 768 1024,
        }
        DsmRange { attributes 0 4, blocks 4 8, slba 8 16 }
        CopyRange { slba 8 16, nlb 16 18 }
        Keys { crkey 0 8, other 8 16 }
        Key { crkey 0 8 }
        ReportHead { generation 0 4, rtype 4 5, regctl 5 7, ptpls 9 10 }
        Registered { cntlid 0 2, rcsts 2 3, hostid 8 16, rkey 16 24 }
        RegisteredExtended { cntlid 0 2, rcsts 2 3, rkey 8 16, hostid 16 32 }
        Notification { count 0 8, kind 8 9, available 9 10, nsid 12 16 }
    }
}

#[test]
fn dwords_of_commands_hold_what_the_figures_say() {
    let log =
        GetLogPage { lid: 0x12, lsp: 0x34, rae: true, lsi: 0x5678, numd: 0x9ABC_DEF0, offset: 0x1_2345_6789, index: true, csi: 7, nsid: 3 };
    let range = BlockRange { slba: 0x1_0000_0002, nlb: 0x1234, lr: true, fua: true, prinfo: 0b1001, deac: true, dtype: 0b1010 };
    let copy = CopyCommand { sdlba: 0x2_0000_0003, nr: 0x7F, desfmt: 1, dtype: 0xA };
    let format = FormatNvm { lba_format: 0x25, protection: 3, secure_erase: 2, nsid: 4 };
    let connect = Connect { recfmt: 0x1111, qid: 0x2222, sqsize: 0x3333, cattr: 0x44, kato_ms: 0x5555_6666 };
    let get = GetFeatures { fid: 0x0B, select: Some(Select::Supported), cdw11: 5, nsid: 6 };
    let set = SetFeatures { fid: 0x0F, save: true, cdw11: 0xFFFF_FFFE, nsid: 6 };
    let of = |s: Sqe| (s.opcode, s.nsid, [s.cdw10, s.cdw11, s.cdw12, s.cdw13, s.cdw14]);
    for (sqe, wanted) in [
        (Identify { cns: 0x12, cntid: 0x3456, nsid: 7, csi: 0x89, cnssid: 0xABCD }.sqe(1), (0x06, 7, [0x3456_0012, 0x8900_ABCD, 0, 0, 0])),
        (log.sqe(1), (0x02, 3, [0xDEF0_B412, 0x5678_9ABC, 0x2345_6789, 1, 0x0780_0000])),
        (get.sqe(1), (0x0A, 6, [0x0000_030B, 5, 0, 0, 0])),
        (set.sqe(1), (0x09, 6, [0x8000_000F, 0xFFFF_FFFE, 0, 0, 0])),
        (Abort { sqid: 0x12, cid: 0x34 }.sqe(1), (0x08, 0, [0x0034_0012, 0, 0, 0, 0])),
        (NamespaceManagement { action: Some(NamespaceAction::Create), csi: 2, nsid: 0 }.sqe(1), (0x0D, 0, [0, 0x0200_0000, 0, 0, 0])),
        (NamespaceManagement { action: Some(NamespaceAction::Delete), csi: 0, nsid: 9 }.sqe(1), (0x0D, 9, [1, 0, 0, 0, 0])),
        (NamespaceAttachment { attach: Some(true), nsid: 9 }.sqe(1), (0x15, 9, [0, 0, 0, 0, 0])),
        (NamespaceAttachment { attach: Some(false), nsid: 9 }.sqe(1), (0x15, 9, [1, 0, 0, 0, 0])),
        (format.sqe(1), (0x80, 4, [0x0000_2465, 0, 0, 0, 0])),
        (connect.sqe(1), (0x7F, 1, [0x2222_1111, 0x0044_3333, 0x5555_6666, 0, 0])),
        (disconnect_sqe(1), (0x7F, 8, [0; 5])),
        (PropertyAccess::get_sqe(1, 0x1C, false), (0x7F, 4, [0, 0x1C, 0, 0, 0])),
        (PropertyAccess::set_sqe(1, 0x14, true, 0x1_0000_0002), (0x7F, 0, [1, 0x14, 2, 1, 0])),
        (range.sqe(IoOpcode::Write, 1, 5), (0x01, 5, [2, 1, 0xE6A0_1234, 0, 0])),
        (copy.sqe(1, 5), (0x19, 5, [3, 2, 0x00A0_017F, 0, 0])),
        (DatasetManagement { nr: 0xFE, idr: false, idw: true, ad: true }.sqe(1, 5), (0x09, 5, [0xFE, 6, 0, 0, 0])),
        (flush_sqe(1, 5), (0x00, 5, [0; 5])),
    ] {
        assert_eq!(of(sqe), wanted, "{sqe:?}");
    }
    // And back.
    assert_eq!((GetLogPage::of(&log.sqe(1)), BlockRange::of(&range.sqe(IoOpcode::Write, 1, 5))), (log, range));
    assert_eq!((CopyCommand::of(&copy.sqe(1, 5)), FormatNvm::of(&format.sqe(1)), Connect::of(&connect.sqe(1))), (copy, format, connect));
    assert_eq!((GetFeatures::of(&get.sqe(1)), SetFeatures::of(&set.sqe(1))), (get, set));
    assert_eq!((log.bytes(), copy.ranges(), range.blocks()), ((0x9ABC_DEF0 + 1) * 4, 128, 0x1235));
    assert_eq!(Sgl::in_capsule(0x0102, 0x0304).0, [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 1]);
    assert_eq!(Sgl::transport(0x0304).0, [0, 0, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0x5A]);
    // Sizes that are reserved are no sizes.
    for attrib in 0..=0xFF {
        let access = PropertyAccess::of(&Sqe { cdw10: attrib, ..Sqe::default() });
        assert_eq!(access.bytes(), [Some(4), Some(8)].get(attrib as usize & 7).copied().flatten(), "{attrib}");
    }
    for action in 0..=0xF {
        let sqe = Sqe { cdw10: action, ..Sqe::default() };
        assert_eq!(
            (NamespaceManagement::of(&sqe).action.is_some(), NamespaceAttachment::of(&sqe).attach.is_some()),
            (action < 2, action < 2)
        );
    }
    assert_eq!((connect_result(0x1234, 2), connect_fault(256, true), connect_fault(42, false)), (0x0002_1234, 0x0001_0100, 42));
}

#[test]
fn entries_of_queues_and_properties_hold_what_the_figures_say() {
    let sqe = Sqe {
        opcode: 0x11,
        fuse: Fuse::Second,
        psdt: Psdt::Sgl,
        cid: 0x3322,
        nsid: 0x7766_5544,
        cdw2: 0x8888_8888,
        cdw3: 0x9999_9999,
        mptr: 0xAAAA_AAAA_AAAA_AAAA,
        sgl: Sgl([0xBB; 16]),
        cdw10: 0x10,
        cdw11: 0x11,
        cdw12: 0x12,
        cdw13: 0x13,
        cdw14: 0x14,
        cdw15: 0x15,
    };
    let mut wanted = vec![0x11, 0x42, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];
    wanted.extend([[0x88; 4], [0x99; 4], [0xAA; 4], [0xAA; 4]].concat());
    wanted.extend([0xBB; 16]);
    (0x10..0x16u32).for_each(|d| wanted.extend(d.to_le_bytes()));
    assert_eq!(sqe.to_bytes()[..], wanted[..]);
    assert_eq!((sqe.fctype(), sqe.cdw10_11()), (0x44, 0x11_0000_0010));
    let status = Status { code: StatusCode::new(1, 0x82), crd: 2, more: true, dnr: true };
    let cqe = Cqe { result: 0x0807_0605_0403_0201, sqhd: 0x1211, sqid: 0x1413, cid: 0x1615, status };
    assert_eq!(cqe.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x04, 0xE3]);
    for (status, bits) in [
        (Status::SUCCESS, 0),
        (Status::dnr(StatusCode(1)), 0x8002),
        (Status { crd: 1, ..Status::SUCCESS }, 0x1000),
        (Status { crd: 2, ..Status::SUCCESS }, 0x2000),
        (Status { more: true, ..Status::SUCCESS }, 0x4000),
        (Status::retry(StatusCode(0x7FF)), 0x0FFE),
    ] {
        assert_eq!((status.bits(), Status::parse(bits), Status::parse(bits | 1)), (bits, status, status));
    }
    let cap = Capabilities { mqes: 0xFFFF, ..Capabilities::default() };
    assert_eq!(cap.bits(), 0xFFFF);
    for (cap, at, width) in [
        (Capabilities { cqr: true, ..Capabilities::default() }, 16, 1),
        (Capabilities { to: 0xFF, ..Capabilities::default() }, 24, 8),
        (Capabilities { dstrd: 15, ..Capabilities::default() }, 32, 4),
        (Capabilities { nssrs: true, ..Capabilities::default() }, 36, 1),
        (Capabilities { css: 0xFF, ..Capabilities::default() }, 37, 8),
        (Capabilities { mpsmin: 15, ..Capabilities::default() }, 48, 4),
        (Capabilities { mpsmax: 15, ..Capabilities::default() }, 52, 4),
        (Capabilities { crms: 3, ..Capabilities::default() }, 59, 2),
    ] {
        assert_eq!(cap.bits(), ((1u64 << width) - 1) << at, "{cap:?}");
        assert_eq!(Capabilities::parse(cap.bits()), cap);
    }
    for (cc, at, width) in [
        (Config { en: true, ..Config::default() }, 0, 1),
        (Config { css: 7, ..Config::default() }, 4, 3),
        (Config { mps: 15, ..Config::default() }, 7, 4),
        (Config { ams: 7, ..Config::default() }, 11, 3),
        (Config { shn: 3, ..Config::default() }, 14, 2),
        (Config { iosqes: 15, ..Config::default() }, 16, 4),
        (Config { iocqes: 15, ..Config::default() }, 20, 4),
        (Config { crime: true, ..Config::default() }, 24, 1),
    ] {
        assert_eq!((cc.bits(), Config::parse(cc.bits())), (((1u32 << width) - 1) << at, cc));
    }
    for (csts, bits) in [
        (ControllerStatus { rdy: true, ..ControllerStatus::default() }, 1),
        (ControllerStatus { cfs: true, ..ControllerStatus::default() }, 2),
        (ControllerStatus { shst: 2, ..ControllerStatus::default() }, 8),
    ] {
        assert_eq!((csts.bits(), ControllerStatus::parse(bits)), (bits, csts));
    }
    assert_eq!([property::CAP, property::VS, property::CC, property::CSTS, property::NSSR, property::CRTO], [0, 8, 0x14, 0x1C, 0x20, 0x68]);
    assert_eq!((property::VERSION_1_4, property::VERSION_2_0), (0x1_0400, 0x2_0000));
}

#[test]
fn numbers_are_those_of_the_figures() {
    use AdminOpcode as A;
    use IoOpcode as I;
    use feature as f;
    let admin = [A::GetLogPage, A::Identify, A::Abort, A::SetFeatures, A::GetFeatures, A::AsyncEventRequest, A::NamespaceManagement];
    assert_eq!(admin.map(A::byte), [0x02, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x0D]);
    let admin = [A::NamespaceAttachment, A::KeepAlive, A::Fabrics, A::FormatNvm, A::SecuritySend, A::SecurityReceive, A::Sanitize];
    assert_eq!(admin.map(A::byte), [0x15, 0x18, 0x7F, 0x80, 0x81, 0x82, 0x84]);
    let io = [I::Flush, I::Write, I::Read, I::WriteUncorrectable, I::Compare, I::WriteZeroes, I::DatasetManagement, I::Verify];
    assert_eq!(io.map(I::byte), [0, 1, 2, 4, 5, 8, 9, 0x0C]);
    let io = [I::ReservationRegister, I::ReservationReport, I::ReservationAcquire, I::ReservationRelease, I::Copy];
    assert_eq!(io.map(I::byte), [0x0D, 0x0E, 0x11, 0x15, 0x19]);
    let kinds = [FabricsType::PropertySet, FabricsType::Connect, FabricsType::PropertyGet, FabricsType::AuthenticationSend];
    assert_eq!(kinds.map(FabricsType::byte), [0, 1, 4, 5]);
    assert_eq!([FabricsType::AuthenticationReceive, FabricsType::Disconnect].map(FabricsType::byte), [6, 8]);
    assert_eq!([LID_SUPPORTED, LID_ERROR, LID_HEALTH, LID_FIRMWARE, LID_CHANGED_NAMESPACES, LID_EFFECTS], [0, 1, 2, 3, 4, 5]);
    assert_eq!([LID_ANA, LID_FEATURES, LID_MI, LID_DISCOVERY, LID_RESERVATION], [0x0C, 0x12, 0x13, 0x70, 0x80]);
    assert_eq!([f::FID_ARBITRATION, f::FID_POWER, f::FID_TEMPERATURE, f::FID_ERROR_RECOVERY, f::FID_QUEUES], [1, 2, 4, 5, 7]);
    assert_eq!([f::FID_WRITE_ATOMICITY, f::FID_ASYNC_EVENTS, f::FID_KEEP_ALIVE, f::FID_HOST_BEHAVIOUR], [0x0A, 0x0B, 0x0F, 0x16]);
    assert_eq!([f::FID_HOST_ID, f::FID_RESERVATION_MASK, f::FID_RESERVATION_PERSISTENCE, f::FID_WRITE_PROTECT], [0x81, 0x82, 0x83, 0x84]);
    assert_eq!([f::AEC_HEALTH, f::AEC_NAMESPACE, f::AEC_FIRMWARE, f::AEC_ANA, f::AEC_DISCOVERY], [0xFF, 1 << 8, 1 << 9, 1 << 11, 1 << 31]);
    assert_eq!(f::queues(0x1234, 0x5678), 0x5678_1234);
    assert_eq!([AER_ERROR, AER_HEALTH, AER_NOTICE, AER_IO_COMMAND], [0, 1, 2, 6]);
    assert_eq!([NOTICE_NAMESPACE_CHANGED, NOTICE_ANA_CHANGED, NOTICE_DISCOVERY_CHANGED], [0, 3, 0xF0]);
    assert_eq!([ERROR_PERSISTENT, ERROR_TRANSIENT, HEALTH_RELIABILITY, HEALTH_TEMPERATURE, HEALTH_SPARE], [3, 4, 0, 1, 2]);
    assert_eq!([WARNING_SPARE, WARNING_TEMPERATURE, WARNING_RELIABILITY, WARNING_READ_ONLY], [1, 2, 4, 8]);
    assert_eq!([TRTYPE_TCP, ADRFAM_IPV4, ADRFAM_IPV6, TREQ_SECURE_REQUIRED, TREQ_NO_FLOW_CONTROL, SECTYPE_TLS_1_3], [3, 1, 2, 1, 4, 2]);
    assert_eq!([SUBTYPE_REFERRAL, SUBTYPE_NVM, SUBTYPE_CURRENT_DISCOVERY], [1, 2, 3]);
    assert_eq!(
        [Effects::SUPPORTED, Effects::CONTENT_CHANGE, Effects::NAMESPACE_CAPABILITY_CHANGE, Effects::NAMESPACE_INVENTORY_CHANGE],
        [1, 2, 4, 8]
    );
    assert_eq!([Effects::ALONE_IN_NAMESPACE, Effects::ALONE], [1 << 16, 2 << 16]);
    assert_eq!([Effects::SCOPE_NAMESPACE, Effects::SCOPE_CONTROLLER, Effects::SCOPE_SUBSYSTEM], [1 << 20, 1 << 21, 1 << 25]);
    assert_eq!((ErrorLocation::at(0x2C, 3).0, ErrorLocation::NONE.0), (0x032C, 0xFFFF));
    use StatusCode as S;
    for (code, sct, sc) in [
        (S::INVALID_OPCODE, 0, 0x01),
        (S::INVALID_FIELD, 0, 0x02),
        (S::COMMAND_ID_CONFLICT, 0, 0x03),
        (S::INTERNAL_ERROR, 0, 0x06),
        (S::ABORT_REQUESTED, 0, 0x07),
        (S::ABORTED_SQ_DELETION, 0, 0x08),
        (S::ABORTED_FAILED_FUSED, 0, 0x09),
        (S::ABORTED_MISSING_FUSED, 0, 0x0A),
        (S::INVALID_NAMESPACE_OR_FORMAT, 0, 0x0B),
        (S::COMMAND_SEQUENCE_ERROR, 0, 0x0C),
        (S::DATA_SGL_LENGTH_INVALID, 0, 0x0F),
        (S::SGL_TYPE_INVALID, 0, 0x11),
        (S::ATOMIC_WRITE_UNIT_EXCEEDED, 0, 0x14),
        (S::SGL_OFFSET_INVALID, 0, 0x16),
        (S::HOST_ID_INCONSISTENT, 0, 0x18),
        (S::KEEP_ALIVE_EXPIRED, 0, 0x19),
        (S::KEEP_ALIVE_INVALID, 0, 0x1A),
        (S::ABORTED_PREEMPT, 0, 0x1B),
        (S::NAMESPACE_WRITE_PROTECTED, 0, 0x20),
        (S::TRANSIENT_TRANSPORT_ERROR, 0, 0x22),
        (S::LBA_OUT_OF_RANGE, 0, 0x80),
        (S::CAPACITY_EXCEEDED, 0, 0x81),
        (S::NAMESPACE_NOT_READY, 0, 0x82),
        (S::RESERVATION_CONFLICT, 0, 0x83),
        (S::FORMAT_IN_PROGRESS, 0, 0x84),
        (S::ABORT_LIMIT_EXCEEDED, 1, 0x03),
        (S::AER_LIMIT_EXCEEDED, 1, 0x05),
        (S::INVALID_LOG_PAGE, 1, 0x09),
        (S::INVALID_FORMAT, 1, 0x0A),
        (S::FEATURE_NOT_SAVEABLE, 1, 0x0D),
        (S::FEATURE_NOT_CHANGEABLE, 1, 0x0E),
        (S::FEATURE_NOT_NAMESPACE_SPECIFIC, 1, 0x0F),
        (S::INSUFFICIENT_CAPACITY, 1, 0x15),
        (S::NSID_UNAVAILABLE, 1, 0x16),
        (S::NAMESPACE_ALREADY_ATTACHED, 1, 0x18),
        (S::NAMESPACE_IS_PRIVATE, 1, 0x19),
        (S::NAMESPACE_NOT_ATTACHED, 1, 0x1A),
        (S::THIN_PROVISIONING_NOT_SUPPORTED, 1, 0x1B),
        (S::CONTROLLER_LIST_INVALID, 1, 0x1C),
        (S::ANA_GROUP_ID_INVALID, 1, 0x24),
        (S::COMMAND_SET_NOT_SUPPORTED, 1, 0x29),
        (S::CONNECT_INCOMPATIBLE_FORMAT, 1, 0x80),
        (S::CONNECT_CONTROLLER_BUSY, 1, 0x81),
        (S::CONNECT_INVALID_PARAMETERS, 1, 0x82),
        (S::CONNECT_RESTART_DISCOVERY, 1, 0x83),
        (S::CONNECT_INVALID_HOST, 1, 0x84),
        (S::INVALID_QUEUE_TYPE, 1, 0x85),
        (S::COMMAND_SIZE_LIMIT_EXCEEDED, 1, 0x83),
        (S::AUTHENTICATION_REQUIRED, 1, 0x91),
        (S::MEDIA_WRITE_FAULT, 2, 0x80),
        (S::UNRECOVERED_READ_ERROR, 2, 0x81),
        (S::COMPARE_FAILURE, 2, 0x85),
        (S::ANA_PERSISTENT_LOSS, 3, 0x01),
        (S::ANA_INACCESSIBLE, 3, 0x02),
        (S::ANA_TRANSITION, 3, 0x03),
    ] {
        assert_eq!((code.sct(), code.sc(), S::new(sct, sc)), (sct, sc, code));
    }
    assert_eq!(FabricsStatus(S::CONNECT_INVALID_HOST).to_string(), "CONNECT_INVALID_HOST (0x184)");
    assert_eq!(FabricsStatus(S::INVALID_FIELD).to_string(), "INVALID_FIELD (0x002)");
    assert_eq!(
        (S::COMMAND_SIZE_LIMIT_EXCEEDED.to_string(), S(0x7FE).to_string()),
        ("COMMAND_SIZE_LIMIT_EXCEEDED (0x183)".into(), "status 0x7fe".into())
    );
}

#[test]
fn texts_are_cut_filled_and_judged_at_their_ends() {
    assert_eq!(text::padded::<6>("ab\u{e9}\n"), *b"ab???\x20".first_chunk().unwrap());
    assert_eq!(text::padded::<2>("abc"), *b"ab");
    assert_eq!(text::terminated::<4>("abc"), *b"abc\0");
    assert_eq!(text::terminated::<4>("abcd"), *b"abc\0");
    assert_eq!(text::terminated::<4>("ab\u{e9}"), *b"ab\0\0", "no half of a character");
    assert_eq!(text::trimmed(b"  a\x01b  "), "  a?b");
    let long = |n: usize| format!("nqn.2014-08.{}", "x".repeat(n - 12));
    assert!(text::is_nqn(&long(223)) && !text::is_nqn(&long(224)) && text::is_nqn(&long(13)));
    let mut data = ConnectData::new([1; 16], 1, &long(223), &long(223));
    assert_eq!((data.subsystem(), data.host()), (Some(&*long(223)), Some(&*long(223))));
    data.hostnqn = [0; 256];
    assert_eq!(data.host_or_none(), Some(""));
    data.hostnqn[200] = b'x';
    assert_eq!(data.host_or_none(), None, "a field with something in it is a name, or none");
    let mut list = [0; 4096];
    for (ids, fits) in [(&[][..], false), (&[1], true), (&[1, 2], true), (&[2, 2], false), (&[3, 2], false)] {
        (ids.len() as u16).put(&mut list);
        ids.iter().enumerate().for_each(|(n, id): (usize, &u16)| id.put(&mut list[2 + n * 2..]));
        assert_eq!(checked_controller_list(&list).is_some(), fits, "{ids:?}");
    }
    let mut page = [0xFF; 4096];
    write_controller_list([1, 5, 9].into_iter(), 5, &mut page);
    assert_eq!(page[..8], [2, 0, 5, 0, 9, 0, 0, 0]);
    write_namespace_list([1, 5, 9].into_iter(), 5, &mut page);
    assert_eq!(page[..8], [9, 0, 0, 0, 0, 0, 0, 0], "above, not from");
    write_descriptors(
        &[
            NamespaceDescriptor::Eui64([1; 8]),
            NamespaceDescriptor::Nguid([2; 16]),
            NamespaceDescriptor::Uuid([3; 16]),
            NamespaceDescriptor::Csi(4),
        ],
        &mut page,
    );
    assert_eq!(
        [&page[..5], &page[12..17], &page[32..37], &page[52..58]].concat(),
        [1, 8, 0, 0, 1, 2, 16, 0, 0, 2, 3, 16, 0, 0, 3, 4, 1, 0, 0, 4, 0]
    );
    let mut effects = [0xFF; 4096];
    write_effects([(2, 7)].into_iter(), [(3, 9)].into_iter(), &mut effects);
    assert_eq!((effects[8], effects[1024 + 12], effects.iter().filter(|b| **b != 0).count()), (7, 9, 2));
}

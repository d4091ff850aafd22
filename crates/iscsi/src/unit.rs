//! What a logical unit answers from what is known of it: no I/O (SPC-4, SBC-3).

use crate::limits::{COPY_LIMITS, THRESHOLD_SET_SHIFT, TRANSFER_MAX, UNMAP_BLOCKS_MAX, UNMAP_RANGES_MAX, WRITE_SAME_BLOCKS_MAX};
use crate::view::Unit;
use format::scsi::capacity::{Capacity, LbaRange, ProvisioningStatus, build_lba_status, build_no_defects};
use format::scsi::designator::{Association, Designator, build_identification, naa6, port_name};
use format::scsi::inquiry::{Inquiry, VERSION_ISCSI, VERSION_SAM_5, VERSION_SBC_3, VERSION_SPC_4};
use format::scsi::mode::{ModePages, ModeValues};
use format::scsi::supported::{TaskManagement, build_opcodes};
use format::scsi::vpd::{self, BlockLimits, ExtendedInquiry, Provisioning};
use format::scsi::{Command, Invalid, Lun, SENSE_BYTES_MAX, SelectReport, Sense, SenseCode, SenseKey, Supported, build_luns};
use object::ATOMIC_BYTES_MAX;

/// T10 vendor identification.
const VENDOR: &str = "BASALT";
/// Product identification.
const PRODUCT: &str = "Volume";

/// Operation codes of the table that are not served: RECEIVE COPY DATA, as no data of a copy is held.
pub(crate) fn is_served(entry: &Supported) -> bool {
    !matches!((entry.opcode(), entry.action()), (0x84, 1))
}

/// Sense data of ILLEGAL REQUEST.
pub const fn illegal(code: SenseCode) -> Sense {
    Sense::new(SenseKey::IllegalRequest, code)
}

fn standard(unit: &Unit) -> Inquiry {
    Inquiry {
        qualifier: 0,
        device_type: 0,
        implicit_alua: true,
        third_party_copy: true,
        multi_port: unit.multi_port,
        vendor: VENDOR.into(),
        product: PRODUCT.into(),
        revision: env!("CARGO_PKG_VERSION").chars().take(4).collect(),
        versions: vec![VERSION_SAM_5, VERSION_SPC_4, VERSION_SBC_3, VERSION_ISCSI],
    }
}

/// INQUIRY; `unit`: `None` when the LUN names none.
pub fn inquiry(unit: Option<&Unit>, target: &str, page: Option<u8>) -> Result<Vec<u8>, Sense> {
    let Some(unit) = unit else {
        let none = Inquiry::no_unit(VENDOR, PRODUCT, "");
        return if page.is_none() { Ok(none.to_bytes().to_vec()) } else { Err(illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED)) };
    };
    let standard = standard(unit);
    let first = standard.peripheral();
    Ok(match page {
        None => standard.to_bytes().to_vec(),
        Some(vpd::PAGE_SUPPORTED) => vpd::build_supported(
            first,
            &[
                vpd::PAGE_SUPPORTED,
                vpd::PAGE_SERIAL,
                vpd::PAGE_IDENTIFICATION,
                vpd::PAGE_EXTENDED,
                vpd::PAGE_COPY,
                vpd::PAGE_LIMITS,
                vpd::PAGE_CHARACTERISTICS,
                vpd::PAGE_PROVISIONING,
            ],
        ),
        Some(vpd::PAGE_SERIAL) => vpd::build_serial(first, &unit.serial()),
        Some(vpd::PAGE_IDENTIFICATION) => build_identification(
            first,
            &[
                Designator::Naa6(naa6(*unit.id.as_bytes())),
                Designator::T10Vendor { vendor: VENDOR.into(), id: unit.serial() },
                Designator::RelativePort(unit.port),
                // The ports of a node are a group of their own, with the same number.
                Designator::PortGroup(unit.port),
                Designator::Name(Association::Port, port_name(target, unit.port)),
                Designator::Name(Association::Device, target.into()),
            ],
        ),
        Some(vpd::PAGE_EXTENDED) => ExtendedInquiry { volatile_cache: false, sense_bytes_max: SENSE_BYTES_MAX as u8 }.to_bytes(first),
        Some(vpd::PAGE_COPY) => COPY_LIMITS.to_page(first),
        Some(vpd::PAGE_LIMITS) => limits(unit).to_bytes(first),
        Some(vpd::PAGE_CHARACTERISTICS) => vpd::build_characteristics(first),
        Some(vpd::PAGE_PROVISIONING) => {
            let threshold_exponent = if unit.thin { (THRESHOLD_SET_SHIFT - unit.shift) as u8 } else { 0 };
            Provisioning { threshold_exponent, unmap: true, write_same16: true, write_same10: true, reads_zeroes: true, thin: unit.thin }
                .to_bytes(first)
        }
        Some(_) => return Err(Invalid::cdb(2).sense()),
    })
}

/// Blocks of so many bytes.
fn blocks(unit: &Unit, bytes: u64) -> u32 {
    u32::try_from(bytes >> unit.shift).unwrap_or(u32::MAX)
}

fn limits(unit: &Unit) -> BlockLimits {
    BlockLimits {
        compare_blocks_max: 1,
        transfer_granularity: (4096 >> unit.shift) as u16,
        transfer_max: blocks(unit, TRANSFER_MAX.into()),
        transfer_optimal: blocks(unit, 128 << 10),
        unmap_blocks_max: UNMAP_BLOCKS_MAX as u32,
        unmap_descriptors_max: UNMAP_RANGES_MAX as u32,
        unmap_granularity: 4096 >> unit.shift,
        write_same_max: WRITE_SAME_BLOCKS_MAX,
        atomic_max: blocks(unit, ATOMIC_BYTES_MAX),
        ..BlockLimits::default()
    }
}

fn capacity(unit: &Unit) -> Capacity {
    Capacity {
        last_lba: unit.blocks.saturating_sub(1),
        block_bytes: unit.block_bytes(),
        physical_exponent: (12 - unit.shift) as u8,
        lowest_aligned: 0,
        provisioned: true,
        reads_zeroes: true,
    }
}

fn modes(unit: &Unit) -> ModePages {
    ModePages {
        current: ModeValues::NONE,
        changeable: ModeValues::NONE,
        default: ModeValues::NONE,
        write_protected: unit.read_only,
        blocks: unit.blocks,
        block_bytes: unit.block_bytes(),
    }
}

/// REPORT LUNS.
pub fn report_luns(luns: &[u32], select: SelectReport) -> Vec<u8> {
    let luns: &[u32] = match select {
        SelectReport::Units | SelectReport::All => luns,
        SelectReport::WellKnown | SelectReport::Administrative => &[],
    };
    build_luns(luns.iter().map(|l| Lun::Unit(u64::from(*l))))
}

/// The list of MODE SELECT.
pub fn mode_select(unit: &Unit, long: bool, list: &[u8]) -> Result<(), Sense> {
    modes(unit).select(long, list).map(|_| ()).map_err(Invalid::sense)
}

/// Whether a range lies within the unit.
pub fn in_range(unit: &Unit, lba: u64, blocks: u64) -> Result<(), Sense> {
    let fits = lba.checked_add(blocks).is_some_and(|end| end <= unit.blocks);
    if fits { Ok(()) } else { Err(illegal(SenseCode::LBA_OUT_OF_RANGE).with_information(lba)) }
}

/// What a command returns that needs no I/O; `None`: it is not one of these.
pub fn answer(unit: &Unit, target: &str, command: &Command) -> Option<Result<Vec<u8>, Sense>> {
    let refused = Invalid::sense;
    Some(match *command {
        Command::Inquiry { page, .. } => inquiry(Some(unit), target, page),
        Command::RequestSense { descriptor, .. } => Ok(Sense::new(SenseKey::NoSense, SenseCode::NO_ADDITIONAL_SENSE).to_bytes(descriptor)),
        Command::TestUnitReady | Command::StartStopUnit(_) | Command::PreventAllow { .. } | Command::SendDiagnostic { .. } => {
            Ok(Vec::new())
        }
        Command::ReadCapacity10 => Ok(capacity(unit).to_short().to_vec()),
        Command::ReadCapacity16 { .. } => Ok(capacity(unit).to_bytes().to_vec()),
        Command::ModeSense(sense) => match modes(unit).sense(&sense) {
            Ok(Some(data)) => Ok(data),
            Ok(None) => Err(illegal(SenseCode::SAVING_NOT_SUPPORTED)),
            Err(e) => Err(refused(e)),
        },
        Command::ReportOpcodes { query, timeouts, .. } => build_opcodes(query, timeouts, is_served).map_err(refused),
        Command::ReportTaskManagement { extended, .. } => Ok(TaskManagement {
            abort_task: true,
            abort_task_set: true,
            logical_unit_reset: true,
            clear_task_set: true,
            ..TaskManagement::default()
        }
        .to_bytes(extended)),
        Command::ReadDefectData { long, lists, .. } => Ok(build_no_defects(long, lists)),
        Command::GetLbaStatus { lba, .. } => in_range(unit, lba, 1).map(|()| {
            let blocks = u32::try_from(unit.blocks - lba).unwrap_or(u32::MAX);
            build_lba_status([(LbaRange { lba, blocks }, ProvisioningStatus::Mapped)].into_iter())
        }),
        _ => return None,
    })
}

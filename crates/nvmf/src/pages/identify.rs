//! Identify data (base 5.17.2): what controllers and namespaces say of themselves.
//!
//! Invariant: what is stated is true of this target; a field that is not stated is zero.

use crate::controller::Controller;
use crate::limits::{
    ABORT_MAX, AER_MAX, ANA_GROUPS_MAX, ANA_TRANSITION_S, CAPSULE_DATA_MAX, COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX, COPY_RANGES_MAX,
    ERROR_ENTRIES_MAX, KAS, MDTS, NAMESPACES_MAX, QUEUE_ENTRIES_MAX, RETRY_DELAYS,
};
use crate::view::{AnaState, Namespace, SubsystemView, View};
use base::WriteProtect;
use base::unit::{BLOCK_BYTES, CHUNK_BYTES, PIECE_BYTES};
use format::nvme::identify::{
    CNTRLTYPE_DISCOVERY, CNTRLTYPE_IO, CTRATT_GRANULARITY, CTRATT_HOST_ID_128, CTRATT_TBKAS, Granularity, IdentifyController,
    IdentifyNamespace, IndependentNamespace, LbaFormat, NvmController, OACS_FORMAT, OACS_NAMESPACES,
};
use format::nvme::reservation::RESCAP_ALL;
use format::nvme::text::{nqn_field, padded};
use format::nvme::{IDENTIFY_BYTES, SQE_BYTES, feature, property};
use object::ATOMIC_BYTES_MAX;

/// The firmware revision that hosts see where no other is set: this release.
const FIRMWARE: &str = env!("CARGO_PKG_VERSION");
/// The LBA formats: log2 of the bytes of a block, by index. No metadata.
pub const LBA_SHIFTS: [u32; 2] = [9, 12];

/// The firmware revision that hosts see.
pub fn firmware(view: &View) -> &str {
    if view.firmware.is_empty() { FIRMWARE } else { &view.firmware }
}

/// Identify Controller.
pub fn identify_controller(c: &Controller, view: &View, subsystem: Option<&SubsystemView>) -> IdentifyController {
    let discovery = c.shared.discovery;
    let common = IdentifyController {
        sn: padded(subsystem.map_or("basalt", |s| &s.serial)),
        mn: padded(subsystem.map_or("Basalt discovery", |s| &s.model)),
        fr: padded(firmware(view)),
        mdts: MDTS,
        cntlid: c.shared.cntlid,
        ver: property::VERSION_2_0,
        cntrltype: if discovery { CNTRLTYPE_DISCOVERY } else { CNTRLTYPE_IO },
        // 128-bit host identifiers, traffic-based keep-alive.
        ctratt: CTRATT_HOST_ID_128 | CTRATT_TBKAS,
        oaes: if discovery { feature::AEC_DISCOVERY } else { feature::AEC_NAMESPACE | feature::AEC_ANA },
        acl: ABORT_MAX - 1,
        aerl: AER_MAX as u8 - 1,
        // Command effects, offsets in Get Log Page; supported log pages with the scopes of commands and features.
        lpa: if discovery { 1 << 2 } else { 1 << 1 | 1 << 2 | 1 << 5 },
        kas: KAS,
        maxcmd: QUEUE_ENTRIES_MAX,
        // SGLs without alignment, offsets for in-capsule data, transport data blocks.
        sgls: 1 | 1 << 20 | 1 << 21,
        subnqn: nqn_field(&c.shared.subsystem),
        ioccsz: (SQE_BYTES as u32 + CAPSULE_DATA_MAX) / 16,
        iorcsz: 1,
        msdbd: 1,
        ofcs: 1,
        ..IdentifyController::default()
    };
    if discovery {
        return common;
    }
    let manages = subsystem.is_some_and(|s| s.manage_namespaces);
    IdentifyController {
        ctratt: common.ctratt | CTRATT_GRANULARITY,
        oacs: if manages { OACS_FORMAT | OACS_NAMESPACES } else { 0 },
        crdt1: RETRY_DELAYS[0],
        crdt2: RETRY_DELAYS[1],
        crdt3: RETRY_DELAYS[2],
        elpe: ERROR_ENTRIES_MAX as u8 - 1,
        // Several ports, several controllers, ANA.
        cmic: 1 | 1 << 1 | 1 << 3,
        // Firmware slot 1, read-only.
        frmw: 3,
        anatt: ANA_TRANSITION_S,
        // All five states are reported; a namespace may go to another group while it is attached.
        anacap: 0b1_1111,
        anagrpmax: ANA_GROUPS_MAX,
        nanagrpid: ANA_GROUPS_MAX,
        sqes: 0x66,
        cqes: 0x44,
        nn: NAMESPACES_MAX,
        mnan: NAMESPACES_MAX,
        // Compare, Write Uncorrectable, Dataset Management, Write Zeroes, Select of Get Features, Reservations, Verify, Copy.
        oncs: 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8,
        // Compare and Write.
        fuses: 1,
        // Copy takes source ranges of format 0.
        ocfs: 1,
        // No volatile write cache; Flush to all namespaces is taken.
        vwc: 3 << 1,
        // Write protection, also until the daemon starts again; for good where hosts may do what cannot be undone.
        nwpc: 1 | 1 << 1 | u8::from(manages) << 2,
        // Formatting and erasing are of one namespace; no cryptographic erase; not of all by FFFFFFFFh.
        fna: 1 << 3,
        ..common
    }
}

/// What all namespaces have in common: Identify Namespace with NSID FFFFFFFFh, for hosts that are about to make one (base 5.17.2.1).
pub fn common_namespace() -> IdentifyNamespace {
    let format = |shift: u32| LbaFormat { ms: 0, lbads: shift as u8, rp: 0 }.to_bytes();
    IdentifyNamespace {
        // Atomic fields, identifiers never reused, preferred granularities.
        nsfeat: 1 << 1 | 1 << 3 | 1 << 4,
        nlbaf: LBA_SHIFTS.len() as u8 - 1,
        nmic: 1,
        rescap: RESCAP_ALL,
        // How far a format has come is reported.
        fpi: 1 << 7,
        // Deallocated blocks read as zeroes; Write Zeroes deallocates.
        dlfeat: 1 | 1 << 3,
        lbaf0: format(LBA_SHIFTS[0]),
        lbaf1: format(LBA_SHIFTS[1]),
        ..IdentifyNamespace::default()
    }
}

/// Format Progress Indicator: supported; all is left to do while a format runs, for what a host sees of it is all or nothing.
fn format_progress(ns: &Namespace) -> u8 {
    1 << 7 | if ns.formatting { 100 } else { 0 }
}

/// Identify Namespace, NVM command set. A block of 4 KiB is the unit: writes of whole ones need no read. `used`: the blocks that have space, when
/// the namespace is thin; then as many as it has may be written, as far as the disk groups have space (NCAP is NSZE).
pub fn identify_namespace(ns: &Namespace, used: Option<u64>) -> IdentifyNamespace {
    let per_block = (BLOCK_BYTES >> ns.shift) as u16;
    // A write within a piece is one record of one log: whole or absent, for readers and over a loss of power.
    let (atomic, piece) = ((ATOMIC_BYTES_MAX >> ns.shift) as u16, (PIECE_BYTES >> ns.shift) as u16);
    // What is out of reach has no capacity to show (base 8.1.3.3).
    let reached = !matches!(ns.ana.state, AnaState::Inaccessible | AnaState::PersistentLoss);
    IdentifyNamespace {
        nsze: ns.blocks,
        ncap: ns.blocks,
        nuse: if reached { used.unwrap_or(ns.blocks) } else { 0 },
        nsfeat: common_namespace().nsfeat | u8::from(used.is_some()),
        flbas: LBA_SHIFTS.iter().position(|s| *s == ns.shift).unwrap_or(0) as u8,
        fpi: format_progress(ns),
        nawun: atomic - 1,
        nawupf: atomic - 1,
        nacwu: atomic - 1,
        nabsn: piece - 1,
        nabspf: piece - 1,
        mssrl: (COPY_RANGE_BYTES_MAX >> ns.shift) as u16,
        mcl: (COPY_BYTES_MAX >> ns.shift) as u32,
        msrc: (COPY_RANGES_MAX - 1) as u8,
        noiob: (PIECE_BYTES >> ns.shift) as u16,
        nvmcap: if reached { u128::from(ns.blocks) << ns.shift } else { 0 },
        npwg: per_block - 1,
        npwa: per_block - 1,
        npdg: per_block - 1,
        npda: per_block - 1,
        nows: ((CHUNK_BYTES >> ns.shift) - 1) as u16,
        anagrpid: ns.ana.group,
        nsattr: ns.write_protect.is_on().into(),
        nguid: ns.nguid(),
        eui64: ns.eui64(),
        ..common_namespace()
    }
}

/// Namespace Granularity list: volumes are made of whole pieces, whatever their block size.
pub fn granularity() -> Granularity {
    Granularity { size: PIECE_BYTES, capacity: PIECE_BYTES, ..Granularity::default() }
}

/// The Namespace Write Protect Config feature (base 5.27.1.30).
pub fn write_protect_state(state: WriteProtect) -> u32 {
    match state {
        WriteProtect::None => 0,
        WriteProtect::Protected => 1,
        WriteProtect::UntilRestart => 2,
        WriteProtect::Permanent => 3,
    }
}

/// Identify Namespace, independent of command set.
pub fn independent_namespace(ns: &Namespace) -> IndependentNamespace {
    IndependentNamespace {
        nsfeat: 1 << 3,
        nmic: 1,
        rescap: RESCAP_ALL,
        fpi: format_progress(ns),
        anagrpid: ns.ana.group,
        nsattr: ns.write_protect.is_on().into(),
        nstat: 1,
        ..Default::default()
    }
}

/// Identify Controller, NVM command set: Write Zeroes up to 65,536 blocks; no limits on Dataset Management.
pub fn nvm_controller() -> NvmController {
    NvmController { wzsl: 13, ..NvmController::default() }
}

const _: () = assert!(IDENTIFY_BYTES == BLOCK_BYTES);

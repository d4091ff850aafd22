//! Identify data structures (base 5.17.2; nvm 4.1.5).

use super::Field;

/// Bytes of an Identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// Identify Namespace, NVM command set.
pub const CNS_NAMESPACE: u8 = 0x00;
/// Identify Controller.
pub const CNS_CONTROLLER: u8 = 0x01;
/// Active Namespace ID list.
pub const CNS_ACTIVE_NAMESPACES: u8 = 0x02;
/// Namespace Identification Descriptor list.
pub const CNS_NAMESPACE_DESCRIPTORS: u8 = 0x03;
/// NVM Set list.
pub const CNS_NVM_SETS: u8 = 0x04;
/// Identify Namespace of a command set (CSI in dword 11).
pub const CNS_CSI_NAMESPACE: u8 = 0x05;
/// Identify Controller of a command set.
pub const CNS_CSI_CONTROLLER: u8 = 0x06;
/// Active Namespace ID list of a command set.
pub const CNS_CSI_ACTIVE_NAMESPACES: u8 = 0x07;
/// Identify Namespace, independent of command set.
pub const CNS_INDEPENDENT_NAMESPACE: u8 = 0x08;
/// Identify Namespace of a User Data Format (CNS Specific Identifier).
pub const CNS_USER_DATA_FORMAT: u8 = 0x09;
/// Identify Namespace of a command set and a User Data Format.
pub const CNS_CSI_USER_DATA_FORMAT: u8 = 0x0A;
/// Allocated Namespace ID list.
pub const CNS_ALLOCATED_NAMESPACES: u8 = 0x10;
/// Identify Namespace for an allocated one.
pub const CNS_ALLOCATED_NAMESPACE: u8 = 0x11;
/// Controllers attached to a namespace.
pub const CNS_NAMESPACE_CONTROLLERS: u8 = 0x12;
/// Controllers of the subsystem.
pub const CNS_CONTROLLERS: u8 = 0x13;
/// Primary Controller Capabilities.
pub const CNS_PRIMARY_CONTROLLER: u8 = 0x14;
/// Secondary Controller list.
pub const CNS_SECONDARY_CONTROLLERS: u8 = 0x15;
/// Namespace Granularity list.
pub const CNS_GRANULARITY: u8 = 0x16;
/// UUID list.
pub const CNS_UUIDS: u8 = 0x17;
/// Domain list.
pub const CNS_DOMAINS: u8 = 0x18;
/// Endurance Group list.
pub const CNS_ENDURANCE_GROUPS: u8 = 0x19;
/// Allocated Namespace ID list of a command set.
pub const CNS_CSI_ALLOCATED_NAMESPACES: u8 = 0x1A;
/// Identify Namespace of a command set for an allocated one.
pub const CNS_CSI_ALLOCATED_NAMESPACE: u8 = 0x1B;
/// Command set combinations.
pub const CNS_COMMAND_SETS: u8 = 0x1C;

/// Namespace IDs that fit a list.
pub const NAMESPACE_LIST_MAX: usize = IDENTIFY_BYTES / 4;
/// Controller IDs that fit a list.
pub const CONTROLLER_LIST_MAX: usize = IDENTIFY_BYTES / 2 - 1;

/// OACS: Format NVM.
pub const OACS_FORMAT: u16 = 1 << 1;
/// OACS: Namespace Management and Attachment.
pub const OACS_NAMESPACES: u16 = 1 << 3;
/// CTRATT: 128-bit host identifiers.
pub const CTRATT_HOST_ID_128: u32 = 1 << 0;
/// CTRATT: traffic-based keep-alive.
pub const CTRATT_TBKAS: u32 = 1 << 6;
/// CTRATT: Namespace Granularity list.
pub const CTRATT_GRANULARITY: u32 = 1 << 7;

/// CNTRLTYPE: an I/O controller.
pub const CNTRLTYPE_IO: u8 = 1;
/// CNTRLTYPE: a discovery controller.
pub const CNTRLTYPE_DISCOVERY: u8 = 2;

layout! {
    /// Identify Controller (base figure 276), CNS 01h.
    IdentifyController[IDENTIFY_BYTES] {
        /// PCI vendor ID.
        0 vid: u16,
        /// PCI subsystem vendor ID.
        2 ssvid: u16,
        /// Serial number, space-padded ASCII.
        4 sn: [u8; 20],
        /// Model number, space-padded ASCII.
        24 mn: [u8; 40],
        /// Firmware revision, space-padded ASCII.
        64 fr: [u8; 8],
        /// Recommended arbitration burst.
        72 rab: u8,
        /// IEEE OUI, least significant byte first.
        73 ieee: [u8; 3],
        /// Multi-path and namespace sharing: bit 1 more controllers, bit 3 ANA.
        76 cmic: u8,
        /// Largest data transfer, 2^n pages of CAP.MPSMIN; 0 no limit.
        77 mdts: u8,
        /// Controller ID.
        78 cntlid: u16,
        /// Version.
        80 ver: u32,
        /// RTD3 resume latency, microseconds.
        84 rtd3r: u32,
        /// RTD3 entry latency, microseconds.
        88 rtd3e: u32,
        /// Optional async events supported.
        92 oaes: u32,
        /// Controller attributes.
        96 ctratt: u32,
        /// Read recovery levels.
        100 rrls: u16,
        /// Controller type.
        111 cntrltype: u8,
        /// FRU GUID.
        112 fguid: [u8; 16],
        /// Command retry delay times, 100 ms.
        128 crdt1: u16,
        /// See `crdt1`.
        130 crdt2: u16,
        /// See `crdt1`.
        132 crdt3: u16,
        /// Management endpoint capabilities and others.
        253 nvmsr: u8,
        /// VPD write cycle information.
        254 vwci: u8,
        /// Management endpoint capabilities.
        255 mec: u8,
        /// Optional admin commands.
        256 oacs: u16,
        /// Abort command limit, minus one.
        258 acl: u8,
        /// Async event request limit, minus one.
        259 aerl: u8,
        /// Firmware updates.
        260 frmw: u8,
        /// Log page attributes.
        261 lpa: u8,
        /// Error log entries, minus one.
        262 elpe: u8,
        /// Power states, minus one.
        263 npss: u8,
        /// Admin vendor specific command configuration.
        264 avscc: u8,
        /// Autonomous power state transitions.
        265 apsta: u8,
        /// Warning composite temperature, kelvin.
        266 wctemp: u16,
        /// Critical composite temperature, kelvin.
        268 cctemp: u16,
        /// Maximum time for firmware activation, 100 ms.
        270 mtfa: u16,
        /// Host memory buffer preferred, 4 KiB.
        272 hmpre: u32,
        /// Host memory buffer minimum, 4 KiB.
        276 hmmin: u32,
        /// Total capacity, bytes.
        280 tnvmcap: u128,
        /// Unallocated capacity, bytes.
        296 unvmcap: u128,
        /// Replay protected memory block.
        312 rpmbs: u32,
        /// Extended self-test time, minutes.
        316 edstt: u16,
        /// Self-test options.
        318 dsto: u8,
        /// Firmware update granularity, 4 KiB.
        319 fwug: u8,
        /// Keep Alive granularity, 100 ms; 0 no keep-alive.
        320 kas: u16,
        /// Host controlled thermal management.
        322 hctma: u16,
        /// Minimum thermal management temperature.
        324 mntmt: u16,
        /// Maximum thermal management temperature.
        326 mxtmt: u16,
        /// Sanitize capabilities.
        328 sanicap: u32,
        /// Host memory buffer minimum descriptor size.
        332 hmminds: u32,
        /// Host memory maximum descriptors.
        336 hmmaxd: u16,
        /// NVM set identifier maximum.
        338 nsetidmax: u16,
        /// Endurance group identifier maximum.
        340 endgidmax: u16,
        /// ANA transition time, seconds.
        342 anatt: u8,
        /// ANA capabilities.
        343 anacap: u8,
        /// ANA group identifier maximum.
        344 anagrpmax: u32,
        /// ANA groups.
        348 nanagrpid: u32,
        /// Persistent event log size, 64 KiB.
        352 pels: u32,
        /// Domain identifier.
        356 domain: u16,
        /// Maximum endurance group capacity.
        368 megcap: u128,
        /// Submission entry size: required (3:0) and maximum (7:4), log2.
        512 sqes: u8,
        /// Completion entry size: required and maximum, log2.
        513 cqes: u8,
        /// Largest number of commands outstanding.
        514 maxcmd: u16,
        /// Largest namespace ID (with MNAN) or number of namespaces.
        516 nn: u32,
        /// Optional NVM commands.
        520 oncs: u16,
        /// Fused operations: bit 0 compare and write.
        522 fuses: u16,
        /// Format NVM attributes.
        524 fna: u8,
        /// Volatile write cache: bit 0 present, bits 2:1 flush to all namespaces.
        525 vwc: u8,
        /// Atomic write unit normal, blocks minus one.
        526 awun: u16,
        /// Atomic write unit power fail, blocks minus one.
        528 awupf: u16,
        /// I/O vendor specific command configuration.
        530 icsvscc: u8,
        /// Namespace write protection capabilities.
        531 nwpc: u8,
        /// Atomic compare and write unit, blocks minus one.
        532 acwu: u16,
        /// Copy descriptor formats.
        534 ocfs: u16,
        /// SGL support.
        536 sgls: u32,
        /// Maximum number of namespaces allowed.
        540 mnan: u32,
        /// NQN of the subsystem, NUL-padded.
        768 subnqn: [u8; 256],
        /// In-capsule: I/O command capsule size, 16 bytes.
        1792 ioccsz: u32,
        /// I/O response capsule size, 16 bytes.
        1796 iorcsz: u32,
        /// In-capsule data offset, 16 bytes.
        1800 icdoff: u16,
        /// Fabrics controller attributes: bit 0 set is a static controller.
        1802 fcatt: u8,
        /// SGL data block descriptors a capsule may have; 0 no limit.
        1803 msdbd: u8,
        /// Optional fabrics commands: bit 0 Disconnect.
        1804 ofcs: u16,
        /// Power state 0: maximum power, centiwatts.
        2048 psd0_mp: u16,
    }
}

layout! {
    /// An LBA format.
    LbaFormat[4] {
        /// Metadata bytes a block.
        0 ms: u16,
        /// log2 of the bytes of a block.
        2 lbads: u8,
        /// Relative performance.
        3 rp: u8,
    }
}

layout! {
    /// Identify Namespace of the NVM command set (nvm figure 97), CNS 00h.
    IdentifyNamespace[IDENTIFY_BYTES] {
        /// Size, blocks.
        0 nsze: u64,
        /// Capacity, blocks.
        8 ncap: u64,
        /// Utilisation, blocks.
        16 nuse: u64,
        /// Features: bit 0 thin, bit 2 deallocated error, bit 3 ids never reused, bit 4 NPWG and friends valid.
        24 nsfeat: u8,
        /// LBA formats, minus one.
        25 nlbaf: u8,
        /// LBA format in use.
        26 flbas: u8,
        /// Metadata capabilities.
        27 mc: u8,
        /// Protection capabilities.
        28 dpc: u8,
        /// Protection settings.
        29 dps: u8,
        /// Sharing: bit 0 may be attached to several controllers.
        30 nmic: u8,
        /// Reservation capabilities.
        31 rescap: u8,
        /// Format progress.
        32 fpi: u8,
        /// Deallocate features: bits 2:0 read as (1 zeroes), bit 3 write zeroes may deallocate.
        33 dlfeat: u8,
        /// Atomic write unit normal, minus one.
        34 nawun: u16,
        /// Atomic write unit power fail, minus one.
        36 nawupf: u16,
        /// Atomic compare and write unit, minus one.
        38 nacwu: u16,
        /// Atomic boundary size normal.
        40 nabsn: u16,
        /// Atomic boundary offset.
        42 nabo: u16,
        /// Atomic boundary size power fail.
        44 nabspf: u16,
        /// Optimal I/O boundary, blocks; 0 none.
        46 noiob: u16,
        /// Capacity, bytes.
        48 nvmcap: u128,
        /// Preferred write granularity, blocks minus one.
        64 npwg: u16,
        /// Preferred write alignment, blocks minus one.
        66 npwa: u16,
        /// Preferred deallocate granularity, blocks minus one.
        68 npdg: u16,
        /// Preferred deallocate alignment, blocks minus one.
        70 npda: u16,
        /// Optimal write size, blocks minus one.
        72 nows: u16,
        /// Maximum single source range length of Copy.
        74 mssrl: u16,
        /// Maximum copy length.
        76 mcl: u32,
        /// Maximum source ranges, minus one.
        80 msrc: u8,
        /// ANA group.
        92 anagrpid: u32,
        /// Attributes: bit 0 write protected.
        99 nsattr: u8,
        /// NVM set.
        100 nvmsetid: u16,
        /// Endurance group.
        102 endgid: u16,
        /// NGUID, big-endian.
        104 nguid: [u8; 16],
        /// EUI-64, big-endian.
        120 eui64: [u8; 8],
        /// LBA format 0.
        128 lbaf0: [u8; 4],
        /// LBA format 1.
        132 lbaf1: [u8; 4],
    }
}

impl IdentifyNamespace {
    /// Bytes of a logical block in the format in use; `None` when the format is not 0 or 1 or is no sane size.
    pub fn lba_bytes(&self) -> Option<u32> {
        let raw = match self.flbas & 0x0F {
            0 => self.lbaf0,
            1 => self.lbaf1,
            _ => return None,
        };
        let lbads = LbaFormat::parse(&raw)?.lbads;
        (9..=16).contains(&lbads).then(|| 1 << lbads)
    }
}

layout! {
    /// Namespace Granularity list with one descriptor for all LBA formats (nvm figure 104), CNS 16h.
    Granularity[IDENTIFY_BYTES] {
        /// Bit 0: a descriptor for each LBA format; otherwise one for all.
        0 attributes: u32,
        /// Descriptors, minus one.
        4 descriptors: u8,
        /// Namespace size granularity, bytes.
        32 size: u64,
        /// Namespace capacity granularity, bytes.
        40 capacity: u64,
    }
}

layout! {
    /// I/O Command Set Independent Identify Namespace (base figure 280), CNS 08h.
    IndependentNamespace[IDENTIFY_BYTES] {
        /// Features: bit 3 ids never reused, bit 4 rotational.
        0 nsfeat: u8,
        /// Sharing.
        1 nmic: u8,
        /// Reservation capabilities.
        2 rescap: u8,
        /// Format progress.
        3 fpi: u8,
        /// ANA group.
        4 anagrpid: u32,
        /// Attributes: bit 0 write protected.
        8 nsattr: u8,
        /// NVM set.
        10 nvmsetid: u16,
        /// Endurance group.
        12 endgid: u16,
        /// Status: bit 0 ready.
        14 nstat: u8,
    }
}

layout! {
    /// Identify Controller of the NVM command set (nvm figure 102), CNS 06h CSI 00h.
    NvmController[IDENTIFY_BYTES] {
        /// Verify size limit, 2^n pages; 0 none.
        0 vsl: u8,
        /// Write Zeroes size limit, 2^n pages; 0 none.
        1 wzsl: u8,
        /// Write Uncorrectable size limit, 2^n pages; 0 none.
        2 wusl: u8,
        /// Dataset Management ranges limit; 0 none.
        3 dmrl: u8,
        /// Dataset Management range size limit, blocks; 0 none.
        4 dmrsl: u32,
        /// Dataset Management size limit, blocks; 0 none.
        8 dmsl: u64,
    }
}

/// A Namespace Identification Descriptor (base figure 277).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceDescriptor {
    /// IEEE EUI-64.
    Eui64([u8; 8]),
    /// NGUID.
    Nguid([u8; 16]),
    /// UUID.
    Uuid([u8; 16]),
    /// Command set.
    Csi(u8),
}

/// Writes descriptors into the first [`IDENTIFY_BYTES`] of `out`, the rest zero. There is room for all four kinds.
pub fn write_descriptors(list: &[NamespaceDescriptor], out: &mut [u8]) {
    let out = &mut out[..IDENTIFY_BYTES];
    out.fill(0);
    let mut at = 0;
    for d in list {
        let (nidt, id): (u8, &[u8]) = match d {
            NamespaceDescriptor::Eui64(id) => (1, id),
            NamespaceDescriptor::Nguid(id) => (2, id),
            NamespaceDescriptor::Uuid(id) => (3, id),
            NamespaceDescriptor::Csi(csi) => (4, core::slice::from_ref(csi)),
        };
        if at + 4 + id.len() > out.len() {
            return;
        }
        out[at] = nidt;
        out[at + 1] = id.len() as u8;
        out[at + 4..at + 4 + id.len()].copy_from_slice(id);
        at += 4 + id.len();
    }
}

/// The descriptors of a list up to its end; unknown types are passed over, a wrong length ends the list.
pub fn parse_descriptors(b: &[u8]) -> Vec<NamespaceDescriptor> {
    let mut list = Vec::new();
    let mut at = 0;
    while at + 4 <= b.len() && b[at] != 0 {
        let len = usize::from(b[at + 1]);
        let Some(id) = b.get(at + 4..at + 4 + len).filter(|id| !id.is_empty()) else { break };
        match (b[at], len) {
            (1, 8) => list.push(NamespaceDescriptor::Eui64(Field::get(id))),
            (2, 16) => list.push(NamespaceDescriptor::Nguid(Field::get(id))),
            (3, 16) => list.push(NamespaceDescriptor::Uuid(Field::get(id))),
            (4, 1) => list.push(NamespaceDescriptor::Csi(id[0])),
            (1..=4, _) => break,
            _ => {}
        }
        at += 4 + len;
    }
    list
}

/// Writes the IDs above `after`, ascending, at most [`NAMESPACE_LIST_MAX`]; the rest zero. `ids` must ascend.
pub fn write_namespace_list(ids: impl Iterator<Item = u32>, after: u32, out: &mut [u8]) {
    let out = &mut out[..IDENTIFY_BYTES];
    out.fill(0);
    for (slot, id) in out.chunks_exact_mut(4).zip(ids.filter(|&id| id > after)) {
        id.put(slot);
    }
}

/// The IDs of a list up to the first zero.
pub fn parse_namespace_list(b: &[u8]) -> Vec<u32> {
    b.chunks_exact(4).take(NAMESPACE_LIST_MAX).map(u32::get).take_while(|&id| id != 0).collect()
}

/// Writes a controller list: a count, then IDs of at least `from`, ascending. `ids` must ascend.
pub fn write_controller_list(ids: impl Iterator<Item = u16>, from: u16, out: &mut [u8]) {
    let out = &mut out[..IDENTIFY_BYTES];
    out.fill(0);
    let mut count = 0u16;
    for (slot, id) in out[2..].chunks_exact_mut(2).zip(ids.filter(|&id| id >= from)) {
        id.put(slot);
        count += 1;
    }
    count.put(out);
}

/// The IDs of a controller list that a host wrote: `None` unless there is at least one, they ascend, and they fit (base 4.5.1).
pub fn checked_controller_list(b: &[u8]) -> Option<Vec<u16>> {
    let count = usize::from(u16::get(b.get(..2)?));
    let list = parse_controller_list(b);
    let ascend = list.windows(2).all(|w| w[0] < w[1]);
    (list.len() == count && !list.is_empty() && ascend).then_some(list)
}

/// The IDs of a controller list.
pub fn parse_controller_list(b: &[u8]) -> Vec<u16> {
    if b.len() < 2 {
        return Vec::new();
    }
    let count = usize::from(u16::get(b)).min(CONTROLLER_LIST_MAX);
    b[2..].chunks_exact(2).take(count).map(u16::get).collect()
}

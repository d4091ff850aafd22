//! Log pages (base 5.16.1) and the result of asynchronous events (base 5.2).

use super::{Field, text};

/// Supported Log Pages.
pub const LID_SUPPORTED: u8 = 0x00;
/// Error Information.
pub const LID_ERROR: u8 = 0x01;
/// SMART / Health Information.
pub const LID_HEALTH: u8 = 0x02;
/// Firmware Slot Information.
pub const LID_FIRMWARE: u8 = 0x03;
/// Changed Namespace List.
pub const LID_CHANGED_NAMESPACES: u8 = 0x04;
/// Commands Supported and Effects.
pub const LID_EFFECTS: u8 = 0x05;
/// Asymmetric Namespace Access.
pub const LID_ANA: u8 = 0x0C;
/// Feature Identifiers Supported and Effects.
pub const LID_FEATURES: u8 = 0x12;
/// NVMe-MI Commands Supported and Effects.
pub const LID_MI: u8 = 0x13;
/// Discovery.
pub const LID_DISCOVERY: u8 = 0x70;
/// Reservation Notification.
pub const LID_RESERVATION: u8 = 0x80;

/// Bytes of the Supported Log Pages log.
pub const SUPPORTED_LOG_BYTES: usize = 1024;
/// Bytes of the Changed Namespace List log.
pub const CHANGED_NAMESPACES_BYTES: usize = 4096;
/// IDs that fit it; more are reported by one entry [`super::NSID_ALL`].
pub const CHANGED_NAMESPACES_MAX: usize = 1024;
/// Bytes of the Feature Identifiers Supported and Effects log (base figure 256).
pub const FEATURES_BYTES: usize = 1024;
/// Bytes of the NVMe-MI Commands Supported and Effects log.
pub const MI_BYTES: usize = 4096;
/// Bytes of the Commands Supported and Effects log.
pub const EFFECTS_BYTES: usize = 4096;

/// The effects of one command (base figure 210).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects(pub u32);
impl Effects {
    /// Supported.
    pub const SUPPORTED: u32 = 1 << 0;
    /// Logical block content may change.
    pub const CONTENT_CHANGE: u32 = 1 << 1;
    /// A namespace's capabilities may change.
    pub const NAMESPACE_CAPABILITY_CHANGE: u32 = 1 << 2;
    /// The inventory of namespaces may change.
    pub const NAMESPACE_INVENTORY_CHANGE: u32 = 1 << 3;
    /// The controller's capabilities may change.
    pub const CONTROLLER_CAPABILITY_CHANGE: u32 = 1 << 4;
    /// To be sent only while no other command to the namespace is outstanding.
    pub const ALONE_IN_NAMESPACE: u32 = 1 << 16;
    /// To be sent only while no other command to any namespace is outstanding.
    pub const ALONE: u32 = 2 << 16;
    /// Scope: a namespace. The scopes are the same for features.
    pub const SCOPE_NAMESPACE: u32 = 1 << 20;
    /// Scope: the controller.
    pub const SCOPE_CONTROLLER: u32 = 1 << 21;
    /// Scope: the NVM subsystem.
    pub const SCOPE_SUBSYSTEM: u32 = 1 << 25;
}

/// Writes the Commands Supported and Effects log: (opcode, effects) of admin and I/O commands.
pub fn write_effects(admin: impl Iterator<Item = (u8, u32)>, io: impl Iterator<Item = (u8, u32)>, out: &mut [u8]) {
    let out = &mut out[..EFFECTS_BYTES];
    out.fill(0);
    for (op, effects) in admin {
        effects.put(&mut out[usize::from(op) * 4..]);
    }
    for (op, effects) in io {
        effects.put(&mut out[1024 + usize::from(op) * 4..]);
    }
}

layout! {
    /// An entry of the Error Information log (base figure 206).
    ErrorEntry[64] {
        /// Unique, ascending; 0 no entry.
        0 error_count: u64,
        /// Queue.
        8 sqid: u16,
        /// Command.
        10 cid: u16,
        /// Status field with phase tag.
        12 status: u16,
        /// Where in the command: byte 7:0, bit 10:8.
        14 parameter: u16,
        /// First block with an error.
        16 lba: u64,
        /// Namespace.
        24 nsid: u32,
        /// Vendor specific information available.
        28 vs: u8,
        /// Transport type.
        29 trtype: u8,
        /// Command specific.
        32 cs: u64,
        /// Transport specific.
        40 ts: u16,
    }
}

/// Where in a command what is wrong begins (base figure 206, Parameter Error Location).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorLocation(pub u16);
impl ErrorLocation {
    /// Not at one place.
    pub const NONE: ErrorLocation = ErrorLocation(0xFFFF);
    /// A byte of the command, below 64, and a bit of it.
    pub const fn at(byte: u8, bit: u8) -> Self {
        Self(byte as u16 | (bit as u16 & 7) << 8)
    }
    /// Whether it is at one place.
    pub const fn is_known(self) -> bool {
        self.0 != 0xFFFF
    }
}

/// Critical warning: spare capacity is below its threshold.
pub const WARNING_SPARE: u8 = 1 << 0;
/// Critical warning: the temperature is beyond a threshold.
pub const WARNING_TEMPERATURE: u8 = 1 << 1;
/// Critical warning: reliability is degraded, by media errors or internal ones.
pub const WARNING_RELIABILITY: u8 = 1 << 2;
/// Critical warning: the media can only be read.
pub const WARNING_READ_ONLY: u8 = 1 << 3;

layout! {
    /// SMART / Health Information (base figure 207). Data units are 1000 x 512 bytes.
    Health[512] {
        /// Critical warnings.
        0 critical_warning: u8,
        /// Composite temperature, kelvin.
        1 temperature: u16,
        /// Available spare, per cent.
        3 spare: u8,
        /// Spare threshold, per cent.
        4 spare_threshold: u8,
        /// Endurance used, per cent.
        5 used: u8,
        /// Endurance group critical warnings.
        6 endurance_warning: u8,
        /// Data units read.
        32 units_read: u128,
        /// Data units written.
        48 units_written: u128,
        /// Read commands.
        64 reads: u128,
        /// Write commands.
        80 writes: u128,
        /// Minutes busy.
        96 busy_minutes: u128,
        /// Power cycles.
        112 power_cycles: u128,
        /// Power on hours.
        128 power_on_hours: u128,
        /// Unsafe shutdowns.
        144 unsafe_shutdowns: u128,
        /// Media errors.
        160 media_errors: u128,
        /// Entries ever in the error log.
        176 error_entries: u128,
        /// Minutes too warm.
        192 warning_minutes: u32,
        /// Minutes far too warm.
        196 critical_minutes: u32,
    }
}

layout! {
    /// Firmware Slot Information (base figure 209).
    FirmwareSlots[512] {
        /// Bits 2:0 the slot in use.
        0 afi: u8,
        /// Revision in slot 1.
        8 frs1: [u8; 8],
    }
}

layout! {
    /// Head of the ANA log (base figure 222).
    AnaHeader[16] {
        /// Change count.
        0 change_count: u64,
        /// Group descriptors that follow.
        8 groups: u16,
    }
}

layout! {
    /// A group descriptor of the ANA log (base figure 223); `nsids` 4-byte namespace IDs follow it.
    AnaGroup[32] {
        /// Group.
        0 id: u32,
        /// Namespaces that follow.
        4 nsids: u32,
        /// Change count.
        8 change_count: u64,
        /// Bits 3:0: 1 optimised, 2 non-optimised, 3 inaccessible, 4 persistent loss, 15 change.
        16 state: u8,
    }
}

layout! {
    /// Head of the Discovery log (base figure 264).
    DiscoveryHeader[1024] {
        /// Generation counter.
        0 genctr: u64,
        /// Records that follow.
        8 numrec: u64,
        /// Record format: 0.
        16 recfmt: u16,
    }
}

layout! {
    /// An entry of the Discovery log (base figure 265).
    DiscoveryEntry[1024] {
        /// Transport: 3 TCP.
        0 trtype: u8,
        /// Address family: 1 IPv4, 2 IPv6.
        1 adrfam: u8,
        /// 1 referral, 2 NVM subsystem, 3 the current discovery subsystem.
        2 subtype: u8,
        /// Transport requirements: bits 1:0 secure channel (1 required, 2 not), bit 2 may disable SQ flow control.
        3 treq: u8,
        /// Port.
        4 portid: u16,
        /// Controller ID, or dynamic.
        6 cntlid: u16,
        /// Largest admin queue, entries.
        8 asqsz: u16,
        /// Entry flags: bit 0 duplicate returned information, bit 1 explicit persistent connection, bit 2 no CDC.
        10 eflags: u16,
        /// Service: port number as text, space-padded.
        32 trsvcid: [u8; 32],
        /// NQN of the subsystem.
        256 subnqn: [u8; 256],
        /// Address as text, space-padded.
        512 traddr: [u8; 256],
        /// Transport specific; TCP: byte 0 security type.
        768 tsas: [u8; 256],
    }
}

/// TRTYPE of TCP.
pub const TRTYPE_TCP: u8 = 3;
/// ADRFAM of IPv4.
pub const ADRFAM_IPV4: u8 = 1;
/// ADRFAM of IPv6.
pub const ADRFAM_IPV6: u8 = 2;
/// SUBTYPE: a referral to another discovery service.
pub const SUBTYPE_REFERRAL: u8 = 1;
/// SUBTYPE: an NVM subsystem.
pub const SUBTYPE_NVM: u8 = 2;
/// SUBTYPE: the discovery subsystem that gave the log.
pub const SUBTYPE_CURRENT_DISCOVERY: u8 = 3;
/// TREQ: the bits that say whether a secure channel is required.
pub const TREQ_SECURE_MASK: u8 = 0b11;
/// TREQ: a secure channel is required.
pub const TREQ_SECURE_REQUIRED: u8 = 1;
/// SECTYPE, the first byte of TSAS for TCP: TLS 1.3 (NVMe TCP Transport 1.0, 3.2).
pub const SECTYPE_TLS_1_3: u8 = 2;
/// TREQ: SQ flow control may be disabled.
pub const TREQ_NO_FLOW_CONTROL: u8 = 4;

impl DiscoveryEntry {
    /// The service (port) as text.
    pub fn service(&self) -> String {
        text::trimmed(self.trsvcid.split(|&b| b == 0).next().unwrap_or(&[]))
    }
    /// The address as text.
    pub fn address(&self) -> String {
        text::trimmed(self.traddr.split(|&b| b == 0).next().unwrap_or(&[]))
    }
    /// The subsystem's NQN, when it is one.
    pub fn nqn(&self) -> Option<&str> {
        text::nqn_of(&self.subnqn)
    }
}

/// Type of an asynchronous event.
pub const AER_ERROR: u8 = 0;
/// See [`AER_ERROR`].
pub const AER_HEALTH: u8 = 1;
/// See [`AER_ERROR`].
pub const AER_NOTICE: u8 = 2;
/// See [`AER_ERROR`]: I/O command specific status.
pub const AER_IO_COMMAND: u8 = 6;
/// I/O command specific status: Reservation Log Page Available.
pub const RESERVATION_LOG_AVAILABLE: u8 = 0x00;
/// Error: Persistent Internal Error.
pub const ERROR_PERSISTENT: u8 = 0x03;
/// Error: Transient Internal Error.
pub const ERROR_TRANSIENT: u8 = 0x04;
/// Health: NVM subsystem reliability.
pub const HEALTH_RELIABILITY: u8 = 0x00;
/// Health: temperature threshold.
pub const HEALTH_TEMPERATURE: u8 = 0x01;
/// Health: spare below threshold.
pub const HEALTH_SPARE: u8 = 0x02;
/// Notice: Namespace Attribute Changed.
pub const NOTICE_NAMESPACE_CHANGED: u8 = 0x00;
/// Notice: ANA change.
pub const NOTICE_ANA_CHANGED: u8 = 0x03;
/// Notice: Discovery log change.
pub const NOTICE_DISCOVERY_CHANGED: u8 = 0xF0;

/// Dword 0 of the completion of an Asynchronous Event Request (base figure 146).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// Type, below 8.
    pub kind: u8,
    /// Information.
    pub info: u8,
    /// Log page that tells more.
    pub log: u8,
}

impl AsyncEvent {
    /// From dword 0.
    pub const fn parse(v: u32) -> Self {
        Self { kind: v as u8 & 7, info: (v >> 8) as u8, log: (v >> 16) as u8 }
    }
    /// As dword 0.
    pub const fn bits(self) -> u32 {
        (self.kind & 7) as u32 | (self.info as u32) << 8 | (self.log as u32) << 16
    }
}

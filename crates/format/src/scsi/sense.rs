//! Sense data (SPC-4 4.5), fixed and descriptor format.
//!
//! Invariants: what is built parses to the same; a field that a format cannot hold is left out, never cut.

use super::wire::{be16, be32, be64, byte, put};
use std::fmt;

/// Bytes of fixed-format sense data as built here.
pub const FIXED_SENSE_BYTES: usize = 18;
/// Most bytes of sense data as built here, in either format.
pub const SENSE_BYTES_MAX: usize = 8 + 12 + 12 + 8;

/// Sense keys (SPC-4 4.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SenseKey {
    /// NO SENSE.
    NoSense = 0x0,
    /// RECOVERED ERROR.
    RecoveredError = 0x1,
    /// NOT READY.
    NotReady = 0x2,
    /// MEDIUM ERROR.
    MediumError = 0x3,
    /// HARDWARE ERROR.
    HardwareError = 0x4,
    /// ILLEGAL REQUEST.
    IllegalRequest = 0x5,
    /// UNIT ATTENTION.
    UnitAttention = 0x6,
    /// DATA PROTECT.
    DataProtect = 0x7,
    /// BLANK CHECK.
    BlankCheck = 0x8,
    /// VENDOR SPECIFIC.
    VendorSpecific = 0x9,
    /// COPY ABORTED.
    CopyAborted = 0xA,
    /// ABORTED COMMAND.
    AbortedCommand = 0xB,
    /// VOLUME OVERFLOW.
    VolumeOverflow = 0xD,
    /// MISCOMPARE.
    Miscompare = 0xE,
    /// COMPLETED.
    Completed = 0xF,
}

impl SenseKey {
    /// All of them.
    pub const ALL: [SenseKey; 15] = [
        Self::NoSense,
        Self::RecoveredError,
        Self::NotReady,
        Self::MediumError,
        Self::HardwareError,
        Self::IllegalRequest,
        Self::UnitAttention,
        Self::DataProtect,
        Self::BlankCheck,
        Self::VendorSpecific,
        Self::CopyAborted,
        Self::AbortedCommand,
        Self::VolumeOverflow,
        Self::Miscompare,
        Self::Completed,
    ];
    /// From 4 bits; `None` for the reserved one.
    pub fn parse(nibble: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == nibble)
    }
}

/// Additional sense code (high byte) and its qualifier (low byte).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenseCode(pub u16);

macro_rules! codes {
    ($($name:ident = $value:literal,)*) => {
        impl SenseCode {
            $(#[doc = concat!("ASC and ASCQ ", stringify!($value), ".")] pub const $name: SenseCode = SenseCode($value);)*
            /// Its name, when it is one of those here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}
codes! {
    NO_ADDITIONAL_SENSE = 0x0000,
    BECOMING_READY = 0x0401,
    INITIALIZING_COMMAND_REQUIRED = 0x0402,
    PORT_IN_TRANSITION = 0x040A,
    PORT_IN_STANDBY = 0x040B,
    PORT_UNAVAILABLE = 0x040C,
    COMMUNICATION_FAILURE = 0x0800,
    UNREACHABLE_COPY_TARGET = 0x0804,
    WRITE_ERROR = 0x0C00,
    UNEXPECTED_UNSOLICITED_DATA = 0x0C0C,
    NOT_ENOUGH_UNSOLICITED_DATA = 0x0C0D,
    THIRD_PARTY_DEVICE_FAILURE = 0x0D01,
    COPY_TARGET_NOT_REACHABLE = 0x0D02,
    INCORRECT_COPY_TARGET_TYPE = 0x0D03,
    UNRECOVERED_READ_ERROR = 0x1100,
    PARAMETER_LIST_LENGTH_ERROR = 0x1A00,
    MISCOMPARE_DURING_VERIFY = 0x1D00,
    INVALID_OPCODE = 0x2000,
    LBA_OUT_OF_RANGE = 0x2100,
    INVALID_FIELD_IN_CDB = 0x2400,
    LOGICAL_UNIT_NOT_SUPPORTED = 0x2500,
    INVALID_FIELD_IN_PARAMETER_LIST = 0x2600,
    INVALID_RELEASE_OF_RESERVATION = 0x2604,
    TOO_MANY_TARGET_DESCRIPTORS = 0x2606,
    UNSUPPORTED_TARGET_DESCRIPTOR = 0x2607,
    TOO_MANY_SEGMENT_DESCRIPTORS = 0x2608,
    UNSUPPORTED_SEGMENT_DESCRIPTOR = 0x2609,
    INLINE_DATA_LENGTH_EXCEEDED = 0x260B,
    INVALID_OPERATION_FOR_COPY = 0x260C,
    WRITE_PROTECTED = 0x2700,
    SPACE_ALLOCATION_FAILED = 0x2707,
    POWER_ON_OR_RESET = 0x2900,
    POWER_ON = 0x2901,
    LOGICAL_UNIT_RESET = 0x2903,
    NEXUS_LOSS = 0x2907,
    MODE_PARAMETERS_CHANGED = 0x2A01,
    RESERVATIONS_PREEMPTED = 0x2A03,
    RESERVATIONS_RELEASED = 0x2A04,
    REGISTRATIONS_PREEMPTED = 0x2A05,
    ACCESS_STATE_CHANGED = 0x2A06,
    CAPACITY_CHANGED = 0x2A09,
    COMMAND_SEQUENCE_ERROR = 0x2C00,
    COMMANDS_CLEARED_BY_ANOTHER = 0x2F00,
    SOFT_THRESHOLD_REACHED = 0x3807,
    SAVING_NOT_SUPPORTED = 0x3900,
    MEDIUM_NOT_PRESENT = 0x3A00,
    INQUIRY_DATA_CHANGED = 0x3F03,
    REPORTED_LUNS_CHANGED = 0x3F0E,
    INTERNAL_TARGET_FAILURE = 0x4400,
    PROTOCOL_CRC_ERROR = 0x4705,
    OVERLAPPED_COMMANDS = 0x4E00,
    INSUFFICIENT_RESOURCES = 0x5503,
    INSUFFICIENT_REGISTRATION_RESOURCES = 0x5504,
}

impl SenseCode {
    /// Additional sense code.
    pub const fn asc(self) -> u8 {
        (self.0 >> 8) as u8
    }
    /// Additional sense code qualifier.
    pub const fn ascq(self) -> u8 {
        self.0 as u8
    }
}
impl fmt::Display for SenseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02X}h/{:02X}h {}", self.asc(), self.ascq(), self.name().unwrap_or("(not named here)"))
    }
}
impl fmt::Debug for SenseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The field that is in error (SPC-4 4.5.2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// In the CDB; otherwise in the parameter list.
    pub cdb: bool,
    /// First byte of the field.
    pub byte: u16,
    /// Its most significant bit, 0 to 7, when that is known.
    pub bit: Option<u8>,
}

/// Sense-key specific information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenseSpecific {
    /// With ILLEGAL REQUEST.
    Field(FieldPointer),
    /// With NO SENSE and NOT READY: how far an operation is, in 1/65536.
    Progress(u16),
    /// With COPY ABORTED (SPC-4 4.5.2.4.5).
    Segment {
        /// The pointer counts from the start of the segment descriptor; otherwise from that of the parameter list.
        in_descriptor: bool,
        /// First byte of the field.
        byte: u16,
        /// Its most significant bit, when that is known.
        bit: Option<u8>,
    },
}

impl SenseSpecific {
    fn fits(self, key: SenseKey) -> bool {
        match self {
            Self::Field(_) => key == SenseKey::IllegalRequest,
            Self::Progress(_) => matches!(key, SenseKey::NoSense | SenseKey::NotReady),
            Self::Segment { .. } => key == SenseKey::CopyAborted,
        }
    }
    fn to_bytes(self) -> [u8; 3] {
        let bit_bits = |bit: Option<u8>| bit.map_or(0, |b| 8 | b & 7);
        let (head, value) = match self {
            Self::Field(f) => (u8::from(f.cdb) << 6 | bit_bits(f.bit), f.byte),
            Self::Progress(p) => (0, p),
            Self::Segment { in_descriptor, byte, bit } => (u8::from(in_descriptor) << 5 | bit_bits(bit), byte),
        };
        let [hi, lo] = value.to_be_bytes();
        [0x80 | head, hi, lo]
    }
    fn parse(key: SenseKey, b: &[u8]) -> Option<Self> {
        let (head, value) = (byte(b, 0), be16(b, 1));
        let bit = (head & 8 != 0).then_some(head & 7);
        if head & 0x80 == 0 {
            return None;
        }
        match key {
            SenseKey::IllegalRequest => Some(Self::Field(FieldPointer { cdb: head & 0x40 != 0, byte: value, bit })),
            SenseKey::NoSense | SenseKey::NotReady => Some(Self::Progress(value)),
            SenseKey::CopyAborted => Some(Self::Segment { in_descriptor: head & 0x20 != 0, byte: value, bit }),
            _ => None,
        }
    }
}

/// Sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// Sense key.
    pub key: SenseKey,
    /// Additional sense code and qualifier.
    pub code: SenseCode,
    /// The error is of an earlier command (deferred error).
    pub deferred: bool,
    /// INFORMATION: such as the LBA of the block in error, or the offset of the first byte that differs. The fixed format holds 32 bits and
    /// has none when it is larger.
    pub information: Option<u64>,
    /// COMMAND-SPECIFIC INFORMATION; 0 when there is none. The fixed format holds 32 bits.
    pub command: u64,
    /// Sense-key specific information. Not built when it does not go with the key.
    pub specific: Option<SenseSpecific>,
}

impl Sense {
    /// Nothing but key and code.
    pub const fn new(key: SenseKey, code: SenseCode) -> Self {
        Self { key, code, deferred: false, information: None, command: 0, specific: None }
    }
    /// The same with the information field.
    pub const fn with_information(self, information: u64) -> Self {
        Self { information: Some(information), ..self }
    }
    /// In fixed or descriptor format (D_SENSE of the control mode page, DESC of REQUEST SENSE).
    pub fn to_bytes(&self, descriptor: bool) -> Vec<u8> {
        if descriptor { self.to_descriptors() } else { self.to_fixed().to_vec() }
    }
    /// Fixed format (SPC-4 4.5.3).
    pub fn to_fixed(&self) -> [u8; FIXED_SENSE_BYTES] {
        let mut b = [0; FIXED_SENSE_BYTES];
        b[0] = 0x70 | u8::from(self.deferred);
        b[2] = self.key as u8;
        if let Some(Ok(information)) = self.information.map(u32::try_from) {
            b[0] |= 0x80;
            put(&mut b, 3, &information.to_be_bytes());
        }
        b[7] = (FIXED_SENSE_BYTES - 8) as u8;
        put(&mut b, 8, &u32::try_from(self.command).unwrap_or(0).to_be_bytes());
        put(&mut b, 12, &self.code.0.to_be_bytes());
        if let Some(specific) = self.specific.filter(|s| s.fits(self.key)) {
            put(&mut b, 15, &specific.to_bytes());
        }
        b
    }
    /// Descriptor format (SPC-4 4.5.2).
    pub fn to_descriptors(&self) -> Vec<u8> {
        let mut b = vec![0x72 | u8::from(self.deferred), self.key as u8, self.code.asc(), self.code.ascq(), 0, 0, 0, 0];
        if let Some(information) = self.information {
            b.extend_from_slice(&[0x00, 0x0A, 0x80, 0]);
            b.extend_from_slice(&information.to_be_bytes());
        }
        if self.command != 0 {
            b.extend_from_slice(&[0x01, 0x0A, 0, 0]);
            b.extend_from_slice(&self.command.to_be_bytes());
        }
        if let Some(specific) = self.specific.filter(|s| s.fits(self.key)) {
            b.extend_from_slice(&[0x02, 0x06, 0, 0]);
            b.extend_from_slice(&specific.to_bytes());
            b.push(0);
        }
        b[7] = (b.len() - 8) as u8;
        b
    }
    /// From either format; what was cut off counts as not there. `None` when it is no sense data, or its first 8 bytes
    /// are not there.
    pub fn parse(b: &[u8]) -> Option<Self> {
        match byte(b, 0) & 0x7F {
            0x70 | 0x71 => Self::parse_fixed(b),
            0x72 | 0x73 => Self::parse_descriptors(b),
            _ => None,
        }
    }
    fn parse_fixed(b: &[u8]) -> Option<Self> {
        let head = b.get(..8)?;
        let key = SenseKey::parse(head[2] & 0xF)?;
        let end = (8 + usize::from(head[7])).min(b.len());
        let b = &b[..end];
        Some(Self {
            key,
            code: SenseCode(be16(b, 12)),
            deferred: b[0] & 1 != 0,
            information: (b[0] & 0x80 != 0).then(|| be32(b, 3).into()),
            command: be32(b, 8).into(),
            specific: if b.len() >= FIXED_SENSE_BYTES { SenseSpecific::parse(key, &b[15..]) } else { None },
        })
    }
    fn parse_descriptors(b: &[u8]) -> Option<Self> {
        let head = b.get(..8)?;
        let key = SenseKey::parse(head[1] & 0xF)?;
        let mut sense = Self { deferred: head[0] & 1 != 0, ..Self::new(key, SenseCode(be16(head, 2))) };
        let mut rest = &b[8..(8 + usize::from(head[7])).min(b.len())];
        while let Some(one) = rest.get(..2).and_then(|d| rest.get(..2 + usize::from(d[1]))) {
            match (one[0], one.len()) {
                (0x00, 12) if one[2] & 0x80 != 0 => sense.information = Some(be64(one, 4)),
                (0x01, 12) => sense.command = be64(one, 4),
                (0x02, 8) => sense.specific = SenseSpecific::parse(key, &one[4..]),
                _ => {}
            }
            rest = &rest[one.len()..];
        }
        Some(sense)
    }
}

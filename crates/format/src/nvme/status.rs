//! Completion status (base 3.3.3.2.1; nvm 4.1; base 3.3.3.2.1.2 for fabrics).
//!
//! Never: says when a status applies; that is the target's.

use core::fmt;

/// Status code type and status code: `SCT << 8 | SC`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusCode(pub u16);

macro_rules! codes {
    ($( $(#[$meta:meta])* $name:ident = $value:literal, )*) => {
        impl StatusCode {
            /// The codes of the specifications that have a name, with it; those of fabrics commands that mean something else elsewhere too.
            pub const ALL: &'static [(StatusCode, &'static str)] = &[
                $( (StatusCode($value), stringify!($name)), )*
                FABRICS[0], FABRICS[1], FABRICS[2], FABRICS[3], FABRICS[4], FABRICS[5], FABRICS[6],
            ];
            $( $(#[$meta])* #[doc = concat!("Code ", stringify!($value), ".")] pub const $name: StatusCode = StatusCode($value); )*
            /// The name of a code of the specifications, as the answer to a command that is not a fabrics command; `None` for others.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $( $value => Some(stringify!($name)), )* _ => None }
            }
        }
    };
}

codes! {
    SUCCESS = 0x000,
    INVALID_OPCODE = 0x001,
    INVALID_FIELD = 0x002,
    COMMAND_ID_CONFLICT = 0x003,
    DATA_TRANSFER_ERROR = 0x004,
    ABORTED_POWER_LOSS = 0x005,
    INTERNAL_ERROR = 0x006,
    ABORT_REQUESTED = 0x007,
    ABORTED_SQ_DELETION = 0x008,
    ABORTED_FAILED_FUSED = 0x009,
    ABORTED_MISSING_FUSED = 0x00A,
    INVALID_NAMESPACE_OR_FORMAT = 0x00B,
    COMMAND_SEQUENCE_ERROR = 0x00C,
    INVALID_SGL_SEGMENT = 0x00D,
    INVALID_SGL_COUNT = 0x00E,
    DATA_SGL_LENGTH_INVALID = 0x00F,
    METADATA_SGL_LENGTH_INVALID = 0x010,
    SGL_TYPE_INVALID = 0x011,
    INVALID_CMB_USE = 0x012,
    PRP_OFFSET_INVALID = 0x013,
    ATOMIC_WRITE_UNIT_EXCEEDED = 0x014,
    OPERATION_DENIED = 0x015,
    SGL_OFFSET_INVALID = 0x016,
    HOST_ID_INCONSISTENT = 0x018,
    KEEP_ALIVE_EXPIRED = 0x019,
    KEEP_ALIVE_INVALID = 0x01A,
    ABORTED_PREEMPT = 0x01B,
    SANITIZE_FAILED = 0x01C,
    SANITIZE_IN_PROGRESS = 0x01D,
    SGL_BLOCK_GRANULARITY_INVALID = 0x01E,
    NOT_SUPPORTED_IN_CMB = 0x01F,
    NAMESPACE_WRITE_PROTECTED = 0x020,
    COMMAND_INTERRUPTED = 0x021,
    TRANSIENT_TRANSPORT_ERROR = 0x022,
    PROHIBITED_BY_LOCKDOWN = 0x023,
    MEDIA_NOT_READY = 0x024,
    LBA_OUT_OF_RANGE = 0x080,
    CAPACITY_EXCEEDED = 0x081,
    NAMESPACE_NOT_READY = 0x082,
    RESERVATION_CONFLICT = 0x083,
    FORMAT_IN_PROGRESS = 0x084,
    CQ_INVALID = 0x100,
    INVALID_QUEUE_ID = 0x101,
    INVALID_QUEUE_SIZE = 0x102,
    ABORT_LIMIT_EXCEEDED = 0x103,
    AER_LIMIT_EXCEEDED = 0x105,
    INVALID_FIRMWARE_SLOT = 0x106,
    INVALID_LOG_PAGE = 0x109,
    INVALID_FORMAT = 0x10A,
    FEATURE_NOT_SAVEABLE = 0x10D,
    FEATURE_NOT_CHANGEABLE = 0x10E,
    FEATURE_NOT_NAMESPACE_SPECIFIC = 0x10F,
    INSUFFICIENT_CAPACITY = 0x115,
    NSID_UNAVAILABLE = 0x116,
    NAMESPACE_ALREADY_ATTACHED = 0x118,
    NAMESPACE_IS_PRIVATE = 0x119,
    NAMESPACE_NOT_ATTACHED = 0x11A,
    THIN_PROVISIONING_NOT_SUPPORTED = 0x11B,
    CONTROLLER_LIST_INVALID = 0x11C,
    INVALID_CONTROLLER_ID = 0x11F,
    ANA_GROUP_ID_INVALID = 0x124,
    ANA_ATTACH_FAILED = 0x125,
    NAMESPACE_ATTACHMENT_LIMIT_EXCEEDED = 0x127,
    COMMAND_SET_NOT_SUPPORTED = 0x129,
    COMMAND_SET_NOT_ENABLED = 0x12A,
    COMMAND_SET_COMBINATION_REJECTED = 0x12B,
    INVALID_COMMAND_SET = 0x12C,
    CONFLICTING_ATTRIBUTES = 0x180,
    INVALID_PROTECTION_INFO = 0x181,
    WRITE_TO_READ_ONLY = 0x182,
    COMMAND_SIZE_LIMIT_EXCEEDED = 0x183,
    AUTHENTICATION_REQUIRED = 0x191,
    MEDIA_WRITE_FAULT = 0x280,
    UNRECOVERED_READ_ERROR = 0x281,
    END_TO_END_GUARD = 0x282,
    END_TO_END_APPLICATION_TAG = 0x283,
    END_TO_END_REFERENCE_TAG = 0x284,
    COMPARE_FAILURE = 0x285,
    ACCESS_DENIED = 0x286,
    DEALLOCATED_OR_UNWRITTEN = 0x287,
    ANA_INTERNAL_PATH_ERROR = 0x300,
    ANA_PERSISTENT_LOSS = 0x301,
    ANA_INACCESSIBLE = 0x302,
    ANA_TRANSITION = 0x303,
    CONTROLLER_PATHING_ERROR = 0x360,
    HOST_PATHING_ERROR = 0x370,
    ABORTED_BY_HOST = 0x371,
}

/// Codes of the fabrics commands. 180h to 184h mean something else for I/O commands (base figure 97, nvm figure 20).
impl StatusCode {
    /// Connect: record format not supported.
    pub const CONNECT_INCOMPATIBLE_FORMAT: StatusCode = StatusCode(0x180);
    /// Connect: the controller is in use.
    pub const CONNECT_CONTROLLER_BUSY: StatusCode = StatusCode(0x181);
    /// Connect: a parameter is invalid; dword 0 of the completion says which.
    pub const CONNECT_INVALID_PARAMETERS: StatusCode = StatusCode(0x182);
    /// Connect: ask discovery again.
    pub const CONNECT_RESTART_DISCOVERY: StatusCode = StatusCode(0x183);
    /// Connect: this host has no access to the subsystem.
    pub const CONNECT_INVALID_HOST: StatusCode = StatusCode(0x184);
    /// Disconnect: not on this queue.
    pub const INVALID_QUEUE_TYPE: StatusCode = StatusCode(0x185);
    /// Discovery: the log changed while it was read.
    pub const DISCOVER_RESTART: StatusCode = StatusCode(0x190);
    /// From its two parts.
    pub const fn new(sct: u8, sc: u8) -> Self {
        Self(((sct & 7) as u16) << 8 | sc as u16)
    }
    /// Status code type, below 8.
    pub const fn sct(self) -> u8 {
        (self.0 >> 8) as u8 & 7
    }
    /// Status code.
    pub const fn sc(self) -> u8 {
        self.0 as u8
    }
}

/// The codes that mean something else as the answer to a fabrics command, or are given for those only.
const FABRICS: [(StatusCode, &str); 7] = [
    (StatusCode::CONNECT_INCOMPATIBLE_FORMAT, "CONNECT_INCOMPATIBLE_FORMAT"),
    (StatusCode::CONNECT_CONTROLLER_BUSY, "CONNECT_CONTROLLER_BUSY"),
    (StatusCode::CONNECT_INVALID_PARAMETERS, "CONNECT_INVALID_PARAMETERS"),
    (StatusCode::CONNECT_RESTART_DISCOVERY, "CONNECT_RESTART_DISCOVERY"),
    (StatusCode::CONNECT_INVALID_HOST, "CONNECT_INVALID_HOST"),
    (StatusCode::INVALID_QUEUE_TYPE, "INVALID_QUEUE_TYPE"),
    (StatusCode::DISCOVER_RESTART, "DISCOVER_RESTART"),
];

/// A status code as the answer to a fabrics command, to be shown: the same code may have another name there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FabricsStatus(pub StatusCode);

impl fmt::Display for FabricsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match FABRICS.iter().find(|(code, _)| *code == self.0) {
            Some((code, name)) => write!(f, "{name} ({:#05x})", code.0),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl fmt::Debug for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:#05x})", self.0),
            None => write!(f, "status {:#05x}", self.0),
        }
    }
}

/// The status field of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What happened.
    pub code: StatusCode,
    /// Command Retry Delay, 0 to 3.
    pub crd: u8,
    /// More information is in the Error Information log.
    pub more: bool,
    /// Do Not Retry: the same command would fail again.
    pub dnr: bool,
}

impl Status {
    /// All went well.
    pub const SUCCESS: Status = Status { code: StatusCode::SUCCESS, crd: 0, more: false, dnr: false };
    /// A failure that a retry may cure.
    pub const fn retry(code: StatusCode) -> Self {
        Self { code, crd: 0, more: false, dnr: false }
    }
    /// A failure that a retry may cure, but not at once: after the delay `crd`, 1 to 3, that Identify Controller states (CRDT1 to CRDT3).
    pub const fn later(code: StatusCode, crd: u8) -> Self {
        Self { code, crd, more: false, dnr: false }
    }
    /// A failure that a retry will not cure.
    pub const fn dnr(code: StatusCode) -> Self {
        Self { code, crd: 0, more: false, dnr: true }
    }
    /// Whether all went well.
    pub const fn is_success(self) -> bool {
        self.code.0 == 0
    }
    /// From bits 31:16 of dword 3 of a completion (bit 0, the phase tag, is passed over).
    pub const fn parse(bits: u16) -> Self {
        Self { code: StatusCode((bits >> 1) & 0x7FF), crd: (bits >> 12) as u8 & 3, more: bits & 0x4000 != 0, dnr: bits & 0x8000 != 0 }
    }
    /// As bits 31:16 of dword 3 of a completion, phase tag zero (fabrics have none).
    pub const fn bits(self) -> u16 {
        (self.code.0 & 0x7FF) << 1 | ((self.crd & 3) as u16) << 12 | (self.more as u16) << 14 | (self.dnr as u16) << 15
    }
}

impl From<StatusCode> for Status {
    /// A failure that a retry will not cure, or success.
    fn from(code: StatusCode) -> Self {
        if code == StatusCode::SUCCESS { Self::SUCCESS } else { Self::dnr(code) }
    }
}

//! What can go wrong in a session, and with a command.

use format::iscsi::TextError;
use format::scsi::{ScsiStatus, Sense, SenseKey};

/// Why a session cannot go on: the target broke the protocol, refused the login, or ended it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The login was refused: status class and detail (RFC 7143 11.13.5).
    #[error("the target refuses the login: {}", refusal(*.0))]
    Refused(u16),
    /// The target did not agree to what is needed.
    #[error("the target answers {key}={value} in the login, which does not do here")]
    Disagrees {
        /// The key.
        key: &'static str,
        /// Its answer; empty: none.
        value: String,
    },
    /// The target has not proved that it has its secret.
    #[error("the target has not the secret that it should have")]
    NotProved,
    /// A challenge of CHAP that is none.
    #[error("the target sends a challenge that is none")]
    Challenge,
    /// The login took more steps than any does.
    #[error("the login does not come to an end")]
    EndlessLogin,
    /// Text that is none.
    #[error("the target sends text that is none: {0}")]
    Text(#[from] TextError),
    /// A PDU came when it must not, or of an unknown kind.
    #[error("the target sends a PDU that has no place here (operation code {0:02X}h)")]
    Unexpected(u8),
    /// More data than was declared.
    #[error("the target sends {0} bytes of data in a PDU, more than it may")]
    TooLong(usize),
    /// The header digest does not match.
    #[error("header digest mismatch")]
    HeaderDigest,
    /// The data digest does not match.
    #[error("data digest mismatch")]
    DataDigest,
    /// A PDU names a command that is not under way.
    #[error("a PDU for task {0:08X}h, which is not under way")]
    UnknownTask(u32),
    /// Data or a request for data lies outside of the command's, or out of order.
    #[error("task {tag:08X}h: bytes {offset} to {end} are out of order, or outside of its data")]
    OutOfRange {
        /// Task tag.
        tag: u32,
        /// First byte.
        offset: u32,
        /// Byte after the last.
        end: u64,
    },
    /// The target could not carry the command out at all.
    #[error("the target failed a command (response {0:02X}h)")]
    TargetFailure(u8),
    /// The target rejects what was sent (RFC 7143 11.17.1).
    #[error("the target rejects a PDU (reason {0:02X}h)")]
    Rejected(u8),
    /// The target wants the session to end (RFC 7143 11.9.1).
    #[error("the target ends the session (asynchronous event {0})")]
    Ended(u8),
}

fn refusal(status: u16) -> String {
    let words = match status {
        0x0201 => "authentication failure",
        0x0202 => "this host may not use the target",
        0x0203 => "there is no such target",
        0x0207 => "a parameter is missing",
        0x0208 => "the session cannot have another connection",
        0x0301 => "the service is not available",
        0x0302 => "it has no resources for another session",
        s if s >> 8 == 1 => "it is at another address",
        s if s >> 8 == 2 => "what this host sends is wrong",
        _ => "it fails",
    };
    format!("{words} (status {status:04X}h)")
}

impl SessionError {
    /// Whether the same attempt may go well later.
    pub(crate) fn is_transient(&self) -> bool {
        // A target that a starting daemon does not serve yet looks like one that does not exist.
        matches!(self, SessionError::Refused(0x0203 | 0x0300..) | SessionError::Ended(_))
    }
}

/// How a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiFailure {
    /// Its status.
    pub status: ScsiStatus,
    /// Sense data, with CHECK CONDITION.
    pub sense: Option<Sense>,
}

impl ScsiFailure {
    /// Less data came than was asked for, and the target says that all went well.
    pub(crate) const SHORT: ScsiFailure = ScsiFailure { status: ScsiStatus::Good, sense: None };
    /// It says what has happened to the unit, and nothing of the command, which was not carried out.
    pub fn is_unit_attention(&self) -> bool {
        self.sense.is_some_and(|s| s.key == SenseKey::UnitAttention)
    }
    /// Whether the same command may go well later.
    pub(crate) fn is_transient(&self) -> bool {
        let busy = matches!(self.status, ScsiStatus::Busy | ScsiStatus::TaskSetFull);
        busy || self.sense.is_some_and(|s| matches!(s.key, SenseKey::UnitAttention | SenseKey::NotReady | SenseKey::AbortedCommand))
    }
}

impl std::fmt::Display for ScsiFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.sense {
            Some(s) => write!(f, "{:?}, {:02X}h/{:02X}h", s.key, s.code.asc(), s.code.ascq()),
            None if self.status == ScsiStatus::Good => f.write_str("less data than was asked for"),
            None => write!(f, "{:?}", self.status),
        }
    }
}

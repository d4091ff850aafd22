//! What a command is answered, and how a failure says where in the command its cause is.
//!
//! Invariant: a failure says "do not retry": the command is wrong as it stands.

use crate::limits::NAMESPACES_MAX;
use crate::view::Namespace;
use format::nvme::log::ErrorLocation;
use format::nvme::{Status, StatusCode};
use frontend::ControlVerb;
use rt::Buf;

/// The answer to a command.
pub enum Answer {
    /// A status and dwords 0 and 1.
    Status(Status, u64),
    /// A failure, and where in the command its cause is.
    Refuse(Status, ErrorLocation),
    /// Success with data.
    Data(Buf),
    /// Nothing yet: an event request.
    Park,
    /// Nothing yet: the control plane decides.
    ControlRequest(ControlVerb),
    /// Nothing yet: the queue, which may be on another core, is asked to abort a command.
    Abort {
        /// The queue.
        sqid: u16,
        /// The command.
        cid: u16,
    },
    /// Success; then all I/O queues end and event requests are forgotten.
    Reset,
    /// Success; then this queue ends.
    Disconnect,
}

/// Why a command fails: trying again cannot help.
pub(super) struct Fail {
    pub(super) code: StatusCode,
    pub(super) at: ErrorLocation,
}

impl From<StatusCode> for Fail {
    fn from(code: StatusCode) -> Self {
        Self { code, at: ErrorLocation::NONE }
    }
}

/// Bytes of a command where its fields begin.
pub(super) const AT_NSID: u8 = 4;
pub(super) const AT_DWORD_10: u8 = 40;
pub(super) const AT_DWORD_11: u8 = 44;
pub(super) const AT_DWORD_12: u8 = 48;
pub(super) const AT_DWORD_14: u8 = 56;

/// Invalid Field in Command, at a byte of the command.
pub(super) fn invalid(byte: u8) -> Fail {
    Fail { code: StatusCode::INVALID_FIELD, at: ErrorLocation::at(byte, 0) }
}
/// Invalid Namespace or Format: the NSID.
pub(super) fn invalid_namespace() -> Fail {
    Fail { code: StatusCode::INVALID_NAMESPACE_OR_FORMAT, at: ErrorLocation::at(AT_NSID, 0) }
}

pub(super) type Outcome = Result<Answer, Fail>;
pub(super) const OK: Answer = Answer::Status(Status::SUCCESS, 0);

/// What a valid NSID names in a list; invalid are 0, those above [`NAMESPACES_MAX`] and FFFFFFFFh (base 3.2.1).
pub(super) fn named(list: &[Namespace], nsid: u32) -> Result<Option<Namespace>, Fail> {
    if nsid == 0 || nsid > NAMESPACES_MAX {
        return Err(invalid_namespace());
    }
    Ok(list.iter().find(|n| n.nsid == nsid).copied())
}

/// The namespace that an NSID names; one that is valid but not in the list is an invalid field (base 3.2.1.4).
pub(super) fn existing(list: &[Namespace], nsid: u32) -> Result<Namespace, Fail> {
    named(list, nsid)?.ok_or_else(|| invalid(AT_NSID))
}

//! What is wrong with a command or its parameter list.
//!
//! Invariant: each has its sense data: key ILLEGAL REQUEST, and a field pointer where a field is to blame.

use super::sense::{FieldPointer, Sense, SenseCode, SenseKey, SenseSpecific};

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// INVALID COMMAND OPERATION CODE.
    #[error("the operation code is not supported")]
    Opcode,
    /// INVALID FIELD IN CDB.
    #[error("a field of the CDB is invalid: byte {byte}, bit {bit:?}")]
    Cdb {
        /// Where the field begins.
        byte: u16,
        /// The field's most significant bit, when it does not begin with its byte.
        bit: Option<u8>,
    },
    /// INVALID FIELD IN PARAMETER LIST.
    #[error("a field of the parameter list is invalid: byte {byte}, bit {bit:?}")]
    Parameter {
        /// See [`Invalid::Cdb`].
        byte: u16,
        /// See [`Invalid::Cdb`].
        bit: Option<u8>,
    },
    /// Another reason, such as PARAMETER LIST LENGTH ERROR.
    #[error("the request is invalid: {0}")]
    Request(SenseCode),
}

impl Invalid {
    /// PARAMETER LIST LENGTH ERROR.
    pub const LIST_LENGTH: Invalid = Invalid::Request(SenseCode::PARAMETER_LIST_LENGTH_ERROR);

    /// A whole field of the CDB.
    pub const fn cdb(byte: u16) -> Self {
        Self::Cdb { byte, bit: None }
    }
    /// A field of the CDB whose most significant bit is `bit`.
    pub const fn cdb_bit(byte: u16, bit: u8) -> Self {
        Self::Cdb { byte, bit: Some(bit) }
    }
    /// A whole field of the parameter list.
    pub fn parameter(byte: usize) -> Self {
        Self::Parameter { byte: u16::try_from(byte).unwrap_or(u16::MAX), bit: None }
    }
    /// A field of the parameter list whose most significant bit is `bit`.
    pub fn parameter_bit(byte: usize, bit: u8) -> Self {
        Self::Parameter { byte: u16::try_from(byte).unwrap_or(u16::MAX), bit: Some(bit) }
    }
    /// The sense data.
    pub fn sense(self) -> Sense {
        let (code, pointer) = match self {
            Invalid::Opcode => (SenseCode::INVALID_OPCODE, Some(FieldPointer { cdb: true, byte: 0, bit: None })),
            Invalid::Cdb { byte, bit } => (SenseCode::INVALID_FIELD_IN_CDB, Some(FieldPointer { cdb: true, byte, bit })),
            Invalid::Parameter { byte, bit } => (SenseCode::INVALID_FIELD_IN_PARAMETER_LIST, Some(FieldPointer { cdb: false, byte, bit })),
            Invalid::Request(code) => (code, None),
        };
        Sense { specific: pointer.map(SenseSpecific::Field), ..Sense::new(SenseKey::IllegalRequest, code) }
    }
}

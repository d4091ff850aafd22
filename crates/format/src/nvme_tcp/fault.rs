//! Why a connection is ended: reason and information of a termination request (tcp 3.6.2.3, 3.6.2.4).

/// Fatal Error Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Fes {
    /// A header field is invalid; FEI is its byte offset.
    InvalidHeaderField = 1,
    /// A PDU came out of sequence.
    SequenceError = 2,
    /// The header digest does not match; FEI is the digest received.
    HeaderDigest = 3,
    /// Data lies outside of what was asked for.
    DataOutOfRange = 4,
    /// More than the limit: from a host, more R2Ts than MAXR2T; from a controller, more data than MAXH2CDATA.
    LimitExceeded = 5,
    /// A parameter is not supported; FEI is its byte offset.
    UnsupportedParameter = 6,
}

impl Fes {
    /// All of them.
    pub const ALL: [Fes; 6] = [
        Fes::InvalidHeaderField,
        Fes::SequenceError,
        Fes::HeaderDigest,
        Fes::DataOutOfRange,
        Fes::LimitExceeded,
        Fes::UnsupportedParameter,
    ];
    /// From its number; `None` for reserved ones.
    pub fn parse(v: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|fes| *fes as u16 == v)
    }
}

/// A fatal fault of a received PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fes:?} (information {fei:#x})")]
pub struct Fault {
    /// Reason.
    pub fes: Fes,
    /// Information; its meaning depends on the reason.
    pub fei: u32,
}

impl Fault {
    /// A header field at byte `offset` is invalid.
    pub const fn field(offset: u32) -> Self {
        Self { fes: Fes::InvalidHeaderField, fei: offset }
    }
    /// A PDU came when it must not.
    pub const SEQUENCE: Fault = Fault { fes: Fes::SequenceError, fei: 0 };
    /// A parameter at byte `offset` is not supported.
    pub const fn unsupported(offset: u32) -> Self {
        Self { fes: Fes::UnsupportedParameter, fei: offset }
    }
    /// With no information.
    pub const fn plain(fes: Fes) -> Self {
        Self { fes, fei: 0 }
    }
}

/// Offset of the type in the common header.
pub const AT_TYPE: u32 = 0;
/// Offset of the flags.
pub const AT_FLAGS: u32 = 1;
/// Offset of the header length.
pub const AT_HLEN: u32 = 2;
/// Offset of the data offset.
pub const AT_PDO: u32 = 3;
/// Offset of the PDU length.
pub const AT_PLEN: u32 = 4;
/// Offset of PFV in ICReq and ICResp.
pub const AT_IC_PFV: u32 = 8;
/// Offset of HPDA / CPDA in ICReq / ICResp.
pub const AT_IC_PDA: u32 = 10;
/// Offset of DGST in ICReq and ICResp.
pub const AT_IC_DGST: u32 = 11;
/// Offset of MAXR2T / MAXH2CDATA in ICReq / ICResp.
pub const AT_IC_MAX: u32 = 12;
/// Offset of the command identifier in data and R2T PDUs.
pub const AT_DATA_CCCID: u32 = 8;
/// Offset of the transfer tag in H2CData and R2T.
pub const AT_DATA_TTAG: u32 = 10;
/// Offset of the data offset in data PDUs, R2TO in R2T.
pub const AT_DATA_OFFSET: u32 = 12;
/// Offset of the data length in data PDUs, R2TL in R2T.
pub const AT_DATA_LENGTH: u32 = 16;

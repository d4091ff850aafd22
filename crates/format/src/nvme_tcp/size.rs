//! How long PDUs are, and the limits of the specification (tcp 3.6.2).

/// Bytes of the common header.
pub const COMMON_BYTES: usize = 8;
/// Bytes of ICReq and ICResp.
pub const IC_BYTES: usize = 128;
/// Header bytes of CapsuleCmd.
pub const CAPSULE_CMD_BYTES: usize = 72;
/// Header bytes of CapsuleResp.
pub const CAPSULE_RESP_BYTES: usize = 24;
/// Header bytes of H2CData and C2HData.
pub const DATA_BYTES: usize = 24;
/// Header bytes of R2T.
pub const R2T_BYTES: usize = 24;
/// Header bytes of H2CTermReq and C2HTermReq.
pub const TERM_BYTES: usize = 24;
/// Most bytes of the faulty PDU's header that a termination request carries (tcp 3.6.2.3).
pub const TERM_DATA_MAX: usize = 128;
/// Most bytes from the start of a PDU to its data: PDO may be up to 128 with the largest alignment, and as a byte up to 255.
pub const HEADER_BYTES_MAX: usize = 256;
/// Smallest MAXH2CDATA (tcp 3.6.2.2).
pub const MAXH2CDATA_MIN: u32 = 4096;
/// Largest HPDA and CPDA: 31, an alignment of 128 bytes.
pub const PDA_MAX: u8 = 31;

//! NVMe/TCP: the bytes of PDUs (NVMe TCP Transport Specification 1.0, "tcp" below).
//!
//! Owns: common header and its checks, each PDU both ways, digests, termination reasons.
//! Invariants: [`check_header`] accepts a header only when its lengths agree with its type and the rules in force, so what
//! follows may be sized by it; nothing here panics whatever the bytes.
//! Never: keeps state, does I/O, decides what follows from a fault beyond its reason and offset.

pub mod fault;
pub mod header;
pub mod pdu;

#[cfg(test)]
mod tests;

pub use fault::{Fault, Fes};
pub use header::{CommonHeader, Digests, HeaderRules, PduType, check_header};
pub use pdu::{CapsuleCmd, CapsuleResp, DataPdu, IcReq, IcResp, R2t, TermReq};

/// Bytes of the common header.
pub const COMMON_BYTES: usize = 8;
/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;
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

/// The digest of header or data bytes.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    base::crc32c(bytes).to_le_bytes()
}

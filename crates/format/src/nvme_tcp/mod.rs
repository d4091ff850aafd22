//! NVMe/TCP: the bytes of PDUs (NVMe TCP Transport Specification 1.0, "tcp" below).
//!
//! Owns: common header and its checks, each PDU both ways, digests, termination reasons.
//! Invariants: [`check_header`] accepts a header only when its lengths agree with its type and the rules in force, so what
//! follows may be sized by it; nothing here panics whatever the bytes.
//! Never: keeps state, does I/O, decides what follows from a fault beyond its reason and offset.

mod digest;
pub mod fault;
pub mod header;
pub mod pdu;
mod size;

#[cfg(test)]
mod tests;

pub use digest::{DIGEST_BYTES, Digests, digest};
pub use fault::{Fault, Fes};
pub use header::{CommonHeader, HeaderRules, PduType, check_header};
pub use pdu::{CapsuleCmd, CapsuleResp, DataPdu, IcReq, IcResp, R2t, TermReq};
pub use size::{
    CAPSULE_CMD_BYTES, CAPSULE_RESP_BYTES, COMMON_BYTES, DATA_BYTES, HEADER_BYTES_MAX, IC_BYTES, MAXH2CDATA_MIN, PDA_MAX, R2T_BYTES,
    TERM_BYTES, TERM_DATA_MAX,
};

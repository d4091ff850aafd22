//! The common header of a PDU and what makes it valid (tcp 3.6.1).

use super::digest::{DIGEST_BYTES, Digests};
use super::fault::{AT_FLAGS, AT_HLEN, AT_PDO, AT_PLEN, AT_TYPE, Fault};
use super::size::{
    CAPSULE_CMD_BYTES, CAPSULE_RESP_BYTES, COMMON_BYTES, DATA_BYTES, IC_BYTES, PDA_MAX, R2T_BYTES, TERM_BYTES, TERM_DATA_MAX,
};
use crate::nvme::Field;

/// FLAGS bit: a header digest follows the header.
pub const FLAG_HDGST: u8 = 1 << 0;
/// FLAGS bit: a data digest follows the data.
pub const FLAG_DDGST: u8 = 1 << 1;
/// FLAGS bit of data PDUs: last of its command (C2H) or R2T (H2C).
pub const FLAG_LAST: u8 = 1 << 2;
/// FLAGS bit of C2HData: the command succeeded, no CapsuleResp follows.
pub const FLAG_SUCCESS: u8 = 1 << 3;

/// Type of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PduType {
    /// Initialize Connection Request.
    IcReq = 0x00,
    /// Initialize Connection Response.
    IcResp = 0x01,
    /// Host to Controller Termination Request.
    H2cTermReq = 0x02,
    /// Controller to Host Termination Request.
    C2hTermReq = 0x03,
    /// Command Capsule.
    CapsuleCmd = 0x04,
    /// Response Capsule.
    CapsuleResp = 0x05,
    /// Host to Controller Data.
    H2cData = 0x06,
    /// Controller to Host Data.
    C2hData = 0x07,
    /// Ready to Transfer.
    R2t = 0x09,
}

impl PduType {
    /// All of them.
    pub const ALL: [PduType; 9] = [
        PduType::IcReq,
        PduType::IcResp,
        PduType::H2cTermReq,
        PduType::C2hTermReq,
        PduType::CapsuleCmd,
        PduType::CapsuleResp,
        PduType::H2cData,
        PduType::C2hData,
        PduType::R2t,
    ];
    /// From its byte; `None` when unknown.
    pub const fn parse(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::IcReq,
            1 => Self::IcResp,
            2 => Self::H2cTermReq,
            3 => Self::C2hTermReq,
            4 => Self::CapsuleCmd,
            5 => Self::CapsuleResp,
            6 => Self::H2cData,
            7 => Self::C2hData,
            9 => Self::R2t,
            _ => return None,
        })
    }
    /// Whether a host sends it.
    pub const fn from_host(self) -> bool {
        matches!(self, Self::IcReq | Self::H2cTermReq | Self::CapsuleCmd | Self::H2cData)
    }
    /// Its header length (HLEN).
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::IcReq | Self::IcResp => IC_BYTES,
            Self::H2cTermReq | Self::C2hTermReq => TERM_BYTES,
            Self::CapsuleCmd => CAPSULE_CMD_BYTES,
            Self::CapsuleResp => CAPSULE_RESP_BYTES,
            Self::H2cData | Self::C2hData => DATA_BYTES,
            Self::R2t => R2T_BYTES,
        }
    }
    /// Whether a header digest follows when header digests are on.
    pub const fn has_header_digest(self) -> bool {
        !matches!(self, Self::IcReq | Self::IcResp | Self::H2cTermReq | Self::C2hTermReq)
    }
    /// Whether it may carry data that a data digest covers.
    pub const fn has_data_digest(self) -> bool {
        matches!(self, Self::CapsuleCmd | Self::H2cData | Self::C2hData)
    }
    const fn flags_allowed(self) -> u8 {
        match self {
            Self::IcReq | Self::IcResp | Self::H2cTermReq | Self::C2hTermReq => 0,
            Self::CapsuleCmd => FLAG_HDGST | FLAG_DDGST,
            Self::CapsuleResp | Self::R2t => FLAG_HDGST,
            Self::H2cData => FLAG_HDGST | FLAG_DDGST | FLAG_LAST,
            Self::C2hData => FLAG_HDGST | FLAG_DDGST | FLAG_LAST | FLAG_SUCCESS,
        }
    }
}

/// What received headers must obey.
#[derive(Clone, Copy, Debug)]
pub struct HeaderRules {
    /// The sender is a host (else a controller).
    pub from_host: bool,
    /// Digests agreed on; none before ICResp.
    pub digests: Digests,
    /// Alignment of data that the receiver asked for (CPDA at a controller, HPDA at a host), 0's based dwords, at most
    /// [`PDA_MAX`].
    pub pda: u8,
    /// Most data bytes of a CapsuleCmd.
    pub capsule_data_max: u32,
    /// Most data bytes of a H2CData or C2HData.
    pub data_max: u32,
}

/// A valid common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// Type.
    pub kind: PduType,
    /// Flags.
    pub flags: u8,
    /// Header length without digest.
    pub hlen: u8,
    /// Offset of the data; 0 without data.
    pub pdo: u8,
    /// Length of all.
    pub plen: u32,
}

impl CommonHeader {
    /// Whether a header digest follows the header.
    pub const fn header_digest(&self) -> bool {
        self.flags & FLAG_HDGST != 0
    }
    /// Bytes of the data digest: 4 or 0. Without data there is none whatever the flag says.
    pub const fn data_digest_bytes(&self) -> u32 {
        if self.flags & FLAG_DDGST != 0 && self.data_bytes_and_digest() > 0 { DIGEST_BYTES as u32 } else { 0 }
    }
    /// Bytes before the data: header, digest and padding.
    pub const fn lead_bytes(&self) -> usize {
        if self.pdo == 0 { self.plen as usize } else { self.pdo as usize }
    }
    const fn data_bytes_and_digest(&self) -> u32 {
        if self.pdo == 0 { 0 } else { self.plen - self.pdo as u32 }
    }
    /// Bytes of data, without digest.
    pub const fn data_bytes(&self) -> u32 {
        self.data_bytes_and_digest() - self.data_digest_bytes()
    }
    /// Whether [`FLAG_LAST`] is set.
    pub const fn last(&self) -> bool {
        self.flags & FLAG_LAST != 0
    }
    /// Into the first 8 bytes of `out`.
    pub fn write(&self, out: &mut [u8]) {
        out[0] = self.kind as u8;
        out[1] = self.flags;
        out[2] = self.hlen;
        out[3] = self.pdo;
        self.plen.put(&mut out[4..]);
    }
}

/// Checks the common header in the order of its fields; a fault names the first field that is wrong.
///
/// A header passes only when `lead_bytes() + data_bytes() + data_digest_bytes() == plen` and `lead_bytes() <= 256`.
pub fn check_header(b: &[u8; COMMON_BYTES], rules: &HeaderRules) -> Result<CommonHeader, Fault> {
    let (flags, hlen, pdo, plen) = (b[1], b[2], b[3], u32::get(&b[4..]));
    let kind = PduType::parse(b[0]).filter(|k| k.from_host() == rules.from_host).ok_or(Fault::field(AT_TYPE))?;
    let header_digest = rules.digests.header && kind.has_header_digest();
    if flags & !kind.flags_allowed() != 0 || (flags & FLAG_HDGST != 0) != header_digest {
        return Err(Fault::field(AT_FLAGS));
    }
    if flags & FLAG_SUCCESS != 0 && flags & FLAG_LAST == 0 {
        return Err(Fault::field(AT_FLAGS));
    }
    if usize::from(hlen) != kind.header_bytes() {
        return Err(Fault::field(AT_HLEN));
    }
    let head = u32::from(hlen) + if header_digest { DIGEST_BYTES as u32 } else { 0 };
    let common = CommonHeader { kind, flags, hlen, pdo, plen };
    match kind {
        PduType::IcReq | PduType::IcResp | PduType::CapsuleResp | PduType::R2t => {
            if pdo != 0 {
                return Err(Fault::field(AT_PDO));
            }
            if plen != head {
                return Err(Fault::field(AT_PLEN));
            }
            if flags & FLAG_DDGST != 0 {
                return Err(Fault::field(AT_FLAGS));
            }
        }
        PduType::H2cTermReq | PduType::C2hTermReq => {
            if pdo != 0 {
                return Err(Fault::field(AT_PDO));
            }
            if plen <= head || plen > head + TERM_DATA_MAX as u32 {
                return Err(Fault::field(AT_PLEN));
            }
        }
        PduType::CapsuleCmd if plen == head => {
            if flags & FLAG_DDGST != 0 && !rules.digests.data {
                return Err(Fault::field(AT_FLAGS));
            }
            // A sender may leave PDO as it would be, or zero: there is nothing for it to point at.
            return Ok(CommonHeader { pdo: 0, ..common });
        }
        PduType::CapsuleCmd | PduType::H2cData | PduType::C2hData => check_data(&common, head, rules)?,
    }
    Ok(common)
}

fn check_data(common: &CommonHeader, head: u32, rules: &HeaderRules) -> Result<(), Fault> {
    if (common.flags & FLAG_DDGST != 0) != rules.digests.data {
        return Err(Fault::field(AT_FLAGS));
    }
    if common.plen < head {
        return Err(Fault::field(AT_PLEN));
    }
    let align = (u32::from(rules.pda.min(PDA_MAX)) + 1) * 4;
    let pdo = u32::from(common.pdo);
    if pdo < head || !pdo.is_multiple_of(align) {
        return Err(Fault::field(AT_PDO));
    }
    let max = if common.kind == PduType::CapsuleCmd { rules.capsule_data_max } else { rules.data_max };
    let digest = if common.flags & FLAG_DDGST != 0 { DIGEST_BYTES as u32 } else { 0 };
    match common.plen.checked_sub(pdo + digest) {
        Some(data) if data > 0 && data <= max => Ok(()),
        _ => Err(Fault::field(AT_PLEN)),
    }
}

/// Where data starts after a header of `hlen` bytes with or without digest, under an alignment of `pda`.
pub const fn data_offset(hlen: usize, header_digest: bool, pda: u8) -> usize {
    let head = hlen + if header_digest { DIGEST_BYTES } else { 0 };
    let align = (pda as usize + 1) * 4;
    head.div_ceil(align) * align
}

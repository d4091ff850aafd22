//! Digests: which a connection uses, and how one is computed.

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// Which digests a connection uses (DGST of ICReq and ICResp).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Header digests.
    pub header: bool,
    /// Data digests.
    pub data: bool,
}

impl Digests {
    /// From DGST; `None` when reserved bits are set.
    pub const fn parse(v: u8) -> Option<Self> {
        if v & !3 != 0 { None } else { Some(Self { header: v & 1 != 0, data: v & 2 != 0 }) }
    }
    /// As DGST.
    pub const fn bits(self) -> u8 {
        self.header as u8 | (self.data as u8) << 1
    }
}

/// The digest of header or data bytes.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    base::crc32c(bytes).to_le_bytes()
}

//! Logical unit numbers (SAM-5 4.7): the formats of one level.

use super::wire::{be16, be32, be64, put};

/// Bytes of a LUN.
pub const LUN_BYTES: usize = 8;
/// Highest unit that the flat format holds.
pub const FLAT_LUN_MAX: u64 = 0x3FFF;
/// The well known logical unit REPORT LUNS.
pub const WELL_KNOWN_REPORT_LUNS: u8 = 0x01;

/// What a LUN names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lun {
    /// A logical unit. The same unit may be written in several formats.
    Unit(u64),
    /// A well known logical unit, by its W-LUN.
    WellKnown(u8),
}

impl Lun {
    /// From its bytes: peripheral device addressing of this level (bus 0), flat space, extended and long extended flat space, well known.
    /// `None` for several levels and for what is reserved: such a LUN names nothing here.
    pub fn parse(b: &[u8; LUN_BYTES]) -> Option<Self> {
        let (lun, used) = match b[0] {
            0x00 => (Self::Unit(b[1].into()), 2),
            0x40..=0x7F => (Self::Unit((be16(b, 0) & 0x3FFF).into()), 2),
            0xC1 => (Self::WellKnown(b[1]), 2),
            0xD2 => (Self::Unit((be32(b, 0) & 0xFF_FFFF).into()), 4),
            0xE2 => (Self::Unit(be64(b, 0) >> 16 & 0xFF_FFFF_FFFF), 6),
            _ => return None,
        };
        b[used..].iter().all(|v| *v == 0).then_some(lun)
    }
    /// Its bytes, in the shortest format: peripheral device up to 255, flat up to [`FLAT_LUN_MAX`], then the extended ones. Units above
    /// 40 bits have no bytes; their high bits are dropped.
    pub fn to_bytes(self) -> [u8; LUN_BYTES] {
        let mut b = [0; LUN_BYTES];
        match self {
            Self::WellKnown(w) => put(&mut b, 0, &[0xC1, w]),
            Self::Unit(n @ 0..=0xFF) => b[1] = n as u8,
            Self::Unit(n @ 0..=FLAT_LUN_MAX) => put(&mut b, 0, &(0x4000 | n as u16).to_be_bytes()),
            Self::Unit(n @ 0..=0xFF_FFFF) => put(&mut b, 0, &(0xD200_0000 | n as u32).to_be_bytes()),
            Self::Unit(n) => put(&mut b, 0, &((n & 0xFF_FFFF_FFFF) << 16 | 0xE2 << 56).to_be_bytes()),
        }
        b
    }
}

/// REPORT LUNS parameter data (SPC-4 6.33).
pub fn build_luns(luns: impl Iterator<Item = Lun>) -> Vec<u8> {
    let mut out = vec![0; 8];
    for lun in luns {
        out.extend_from_slice(&lun.to_bytes());
    }
    let bytes = super::wire::len32(out.len() - 8);
    put(&mut out, 0, &bytes);
    out
}

/// The LUNs that are there in full and can be read.
pub fn parse_luns(b: &[u8]) -> Vec<Lun> {
    let Some(list) = b.get(8..) else { return Vec::new() };
    let bytes = usize::try_from(be32(b, 0)).unwrap_or(usize::MAX).min(list.len());
    let (whole, _) = list[..bytes].as_chunks::<LUN_BYTES>();
    whole.iter().filter_map(Lun::parse).collect()
}

//! What a verified load writes: sectors that say which volume, which place and which version they are.
//!
//! Layout of a 512-byte sector, little-endian: magic `u32`, CRC-32C of the sector with this field zero `u32`, tag of the
//! volume `u64`, sector number `u64`, version `u64`, seed `u64`, 472 bytes that follow from these.
//! Invariant: two sectors that differ in tag, place or version differ in nearly all bytes, so a mix cannot pass.
//! Never: all zero; a unit of zeroes means zeroed, trimmed or never written.

use base::crc32c;
use initiator::rng::mix;

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;
const MAGIC: u32 = 0x7654_5342;
const BODY_AT: usize = 40;
/// Sectors of a torn unit that are reported.
const TORN_SECTORS_MAX: usize = 16;

/// The pattern of one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Names the volume: data of another volume is known as such.
    pub tag: u64,
    /// Seed of the run.
    pub seed: u64,
}

/// What a unit was found to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// All bytes zero.
    Zero,
    /// A whole unit of this version at its own place.
    Version(u64),
    /// Sectors of different versions (0: zeroes), each sound, all at their own place: the first 16 sectors.
    Torn(Vec<u64>),
    /// A sound sector that belongs elsewhere.
    Misplaced {
        /// Volume it names.
        tag: u64,
        /// Byte offset it names.
        offset: u64,
        /// Version it names.
        version: u64,
    },
    /// Looks like a sector of ours but its bytes are wrong.
    Corrupt {
        /// First bad sector of the unit.
        sector: u32,
        /// Version it names.
        version: u64,
    },
    /// Nothing that a verified load wrote.
    Foreign {
        /// First such sector of the unit.
        sector: u32,
        /// Its first eight bytes.
        start: [u8; 8],
    },
}

impl core::fmt::Display for Found {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Found::Zero => f.write_str("zeroes"),
            Found::Version(v) => write!(f, "version {v}"),
            Found::Torn(versions) => write!(f, "a torn unit, sectors of versions {versions:?}"),
            Found::Misplaced { tag, offset, version } => write!(f, "version {version} of volume {tag:#x} at byte {offset}"),
            Found::Corrupt { sector, version } => write!(f, "corrupt bytes in sector {sector}, which says it is version {version}"),
            Found::Foreign { sector, start } => write!(f, "foreign bytes in sector {sector}: {start:02x?}"),
        }
    }
}

enum Sector {
    Zero,
    Ours { tag: u64, number: u64, version: u64 },
    Corrupt { version: u64 },
    Foreign,
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&b[at..at + 8]);
    u64::from_le_bytes(bytes)
}

impl Pattern {
    /// Fills `out` (whole sectors) with `version` for the place `offset` (bytes, a multiple of a sector).
    pub fn fill(&self, offset: u64, version: u64, out: &mut [u8]) {
        assert!(out.len().is_multiple_of(SECTOR_BYTES) && offset.is_multiple_of(SECTOR_BYTES as u64), "whole sectors only");
        let first = offset / SECTOR_BYTES as u64;
        for (i, sector) in out.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            self.fill_sector(first + i as u64, version, sector);
        }
    }

    fn fill_sector(&self, number: u64, version: u64, out: &mut [u8]) {
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..8].fill(0);
        for (at, value) in [(8, self.tag), (16, number), (24, version), (32, self.seed)] {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        body(self.tag, number, version, self.seed, |at, word| out[at..at + 8].copy_from_slice(&word));
        let crc = crc32c(out);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// What the unit at `offset` (bytes) holds.
    pub fn inspect(&self, offset: u64, unit: &[u8]) -> Found {
        let first = offset / SECTOR_BYTES as u64;
        // Taken only for a torn unit: whole ones are the rule.
        let mut versions = Vec::new();
        let mut same: Option<u64> = None;
        for (i, bytes) in unit.chunks_exact(SECTOR_BYTES).enumerate() {
            let sector = i as u32;
            let version = match self.sector(bytes) {
                Sector::Zero => 0,
                Sector::Foreign => return Found::Foreign { sector, start: u64_at(bytes, 0).to_le_bytes() },
                Sector::Corrupt { version } => return Found::Corrupt { sector, version },
                Sector::Ours { tag, number, version } if tag != self.tag || number != first + i as u64 => {
                    return Found::Misplaced { tag, offset: number.saturating_mul(SECTOR_BYTES as u64), version };
                }
                Sector::Ours { version, .. } => version,
            };
            let until_now = *same.get_or_insert(version);
            if until_now != version && versions.is_empty() {
                versions = vec![until_now; i];
            }
            if !versions.is_empty() {
                versions.push(version);
            }
        }
        versions.truncate(TORN_SECTORS_MAX);
        match same {
            _ if !versions.is_empty() => Found::Torn(versions),
            None | Some(0) => Found::Zero,
            Some(version) => Found::Version(version),
        }
    }

    fn sector(&self, bytes: &[u8]) -> Sector {
        if base::is_zero(bytes) {
            return Sector::Zero;
        }
        if bytes[..4] != MAGIC.to_le_bytes() {
            return Sector::Foreign;
        }
        let (tag, number, version, seed) = (u64_at(bytes, 8), u64_at(bytes, 16), u64_at(bytes, 24), u64_at(bytes, 32));
        let mut crc = base::checksum::Crc32c::default();
        crc.update(&bytes[..4]);
        crc.update(&[0; 4]);
        crc.update(&bytes[8..]);
        let mut good = crc.value().to_le_bytes() == bytes[4..8];
        body(tag, number, version, seed, |at, word| good &= bytes[at..at + 8] == word);
        if good { Sector::Ours { tag, number, version } } else { Sector::Corrupt { version } }
    }
}

/// Hands out the words of a sector's body.
fn body(tag: u64, number: u64, version: u64, seed: u64, mut word: impl FnMut(usize, [u8; 8])) {
    let mut x = mix(tag ^ mix(number ^ mix(version ^ mix(seed)))) | 1;
    for at in (BODY_AT..SECTOR_BYTES).step_by(8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        word(at, x.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Pattern = Pattern { tag: 7, seed: 9 };

    fn unit(offset: u64, version: u64) -> Vec<u8> {
        let mut b = vec![0; 4096];
        P.fill(offset, version, &mut b);
        b
    }

    #[test]
    fn a_unit_is_known_by_place_and_version() {
        assert_eq!(P.inspect(8192, &unit(8192, 42)), Found::Version(42));
        assert_eq!(P.inspect(8192, &[0; 4096]), Found::Zero);
        assert_eq!(P.inspect(0, &unit(8192, 42)), Found::Misplaced { tag: 7, offset: 8192, version: 42 });
        let other = Pattern { tag: 8, seed: 9 };
        assert_eq!(other.inspect(8192, &unit(8192, 42)), Found::Misplaced { tag: 7, offset: 8192, version: 42 });
    }

    #[test]
    fn a_mix_of_versions_is_torn() {
        let mut b = unit(4096, 5);
        b[1024..].copy_from_slice(&unit(4096, 6)[1024..]);
        assert_eq!(P.inspect(4096, &b), Found::Torn(vec![5, 5, 6, 6, 6, 6, 6, 6]));
        b[..512].fill(0);
        assert_eq!(P.inspect(4096, &b), Found::Torn(vec![0, 5, 6, 6, 6, 6, 6, 6]));
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let good = unit(0, 3);
        for at in 0..good.len() {
            let mut b = good.clone();
            b[at] ^= 1 << (at % 8);
            assert!(matches!(P.inspect(0, &b), Found::Corrupt { .. } | Found::Foreign { .. }), "byte {at}");
        }
    }
}

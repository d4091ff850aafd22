//! Units and the limits that several crates share.

use core::fmt;

/// A block: the unit of checksum and of the index, in bytes.
pub const BLOCK_BYTES: usize = 4096;
/// log2 of [`BLOCK_BYTES`].
pub const BLOCK_SHIFT: u32 = 12;
/// A sector: the unit that a device writes atomically, in bytes.
pub const SECTOR_BYTES: usize = 512;
/// A piece: what is dealt to a lane, in bytes.
pub const PIECE_BYTES: u64 = 1 << 20;
/// Blocks of a piece.
pub const PIECE_BLOCKS: u64 = PIECE_BYTES / BLOCK_BYTES as u64;
/// A chunk: the unit of allocation on capacity, in bytes.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// Blocks of a chunk.
pub const CHUNK_BLOCKS: u64 = CHUNK_BYTES / BLOCK_BYTES as u64;
/// The largest transfer of one host command, in bytes (NVMe MDTS). It touches at most two pieces.
pub const IO_BYTES_MAX: usize = 1 << 20;
/// The largest volume, in bytes.
pub const VOLUME_BYTES_MAX: u64 = 62 << 40;
/// The largest component, in bytes.
pub const COMPONENT_BYTES_MAX: u64 = 255 << 30;

const _: () = assert!(1 << BLOCK_SHIFT == BLOCK_BYTES);
const _: () = assert!(CHUNK_BLOCKS == 16, "the chunk table keeps one bit a block in 16 bits");
const _: () = assert!(IO_BYTES_MAX as u64 <= PIECE_BYTES, "a command must touch at most two pieces");
const _: () = assert!(PIECE_BYTES.is_multiple_of(CHUNK_BYTES), "a chunk must lie in one lane");

macro_rules! number {
    ($(#[$doc:meta])* $name:ident: $number:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

/// Whether all bytes are zero, at the speed of memory: a byte at a time is many times slower.
pub fn is_zero(bytes: &[u8]) -> bool {
    static ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    bytes.chunks(BLOCK_BYTES).all(|part| *part == ZEROES[..part.len()])
}

number!(
    /// A block of an object's address space: byte offset / [`BLOCK_BYTES`].
    BlockNo: u64
);
number!(
    /// Grows by one at each change of owner or of the in-sync set of an object. 0: none.
    Epoch: u32
);
number!(
    /// Which life of a node it is: grows with each start. 0: none.
    Incarnation: u64
);

impl BlockNo {
    /// The block that holds byte `offset`.
    pub const fn containing(offset: u64) -> Self {
        Self(offset >> BLOCK_SHIFT)
    }
    /// Its first byte.
    pub const fn offset(self) -> u64 {
        self.0 << BLOCK_SHIFT
    }
    /// The chunk (of the object's address space) that holds it.
    pub const fn chunk(self) -> u64 {
        self.0 / CHUNK_BLOCKS
    }
    /// Its place within its chunk, below [`CHUNK_BLOCKS`].
    pub const fn in_chunk(self) -> u32 {
        (self.0 % CHUNK_BLOCKS) as u32
    }
    /// The block `n` further on.
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_is_not_zero() {
        for len in [0, 1, 512, 4096, 4097, 12_288] {
            let mut bytes = vec![0; len];
            assert!(is_zero(&bytes), "{len}");
            for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
                bytes[at] = 1;
                assert!(!is_zero(&bytes), "{len} {at}");
                bytes[at] = 0;
            }
        }
    }
}

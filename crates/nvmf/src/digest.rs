//! Digests of data from the checksums of its blocks.
//!
//! Invariant: the digest is that of the bytes, however it was come by.

use base::unit::BLOCK_BYTES;

/// The CRC register after [`BLOCK_BYTES`] more zero bytes, as four tables by byte (the operator is linear).
static SHIFT: [[u32; 256]; 4] = shift_tables();

const POLY: u32 = 0x82F6_3B78;

/// Multiplies the polynomials `a` and `b` modulo the CRC-32C polynomial, bits reflected.
const fn multiply(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    while a != 0 {
        if a & 0x8000_0000 != 0 {
            product ^= b;
        }
        a <<= 1;
        b = if b & 1 != 0 { (b >> 1) ^ POLY } else { b >> 1 };
    }
    product
}

const fn shift_tables() -> [[u32; 256]; 4] {
    // x^(8 * BLOCK_BYTES) by squaring: BLOCK_BYTES is a power of two. x^1 reflected is bit 30.
    let mut power = 1u32 << 30;
    let mut bits = (8 * BLOCK_BYTES).trailing_zeros();
    while bits > 0 {
        power = multiply(power, power);
        bits -= 1;
    }
    let mut tables = [[0u32; 256]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut v = 0;
        while v < 256 {
            tables[byte][v] = multiply((v as u32) << (8 * byte), power);
            v += 1;
        }
        byte += 1;
    }
    tables
}

/// CRC-32C of blocks one after the other, from the CRC-32C of each. At least one.
pub fn of_blocks(crcs: &[u32]) -> u32 {
    let (first, rest) = crcs.split_first().expect("data has at least one block");
    rest.iter().fold(*first, |sum, crc| {
        let b = sum.to_le_bytes();
        SHIFT[0][b[0] as usize] ^ SHIFT[1][b[1] as usize] ^ SHIFT[2][b[2] as usize] ^ SHIFT[3][b[3] as usize] ^ crc
    })
}

const _: () = assert!(BLOCK_BYTES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;
    use base::crc32c;

    #[test]
    fn blocks_give_the_digest_of_their_bytes() {
        let data: Vec<u8> = (0..BLOCK_BYTES * 9).map(|i| (i * 31 + i / 777) as u8).collect();
        for blocks in 1..=9 {
            let crcs: Vec<u32> = data.chunks(BLOCK_BYTES).take(blocks).map(crc32c).collect();
            assert_eq!(of_blocks(&crcs), crc32c(&data[..blocks * BLOCK_BYTES]), "{blocks} blocks");
        }
    }
}

//! What a logical block holds: the bytes that stand for a value, and back.
//!
//! Invariant: two values never share a block's bytes, and no mixture of two contents is the content of a third, down to single sectors.
//! Never: makes a value of its own; 0 is zeroes and [`LOST`] is no content at all.

/// The value of a block that was declared uncorrectable: reading it fails.
pub const LOST: u64 = u64::MAX;

fn word(value: u64, at: usize) -> u64 {
    (value ^ (at as u64) << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(at as u32 % 61)
}

/// Fills a block.
pub fn fill(block: &mut [u8], value: u64) {
    if value == 0 {
        return block.fill(0);
    }
    for (at, bytes) in block.chunks_exact_mut(8).enumerate() {
        let word = if at == 0 { value } else { word(value, at) };
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The value that a block stands for; `None` when it is not the content of one value.
pub fn value_of(block: &[u8]) -> Option<u64> {
    let value = u64::from_le_bytes(block.get(..8)?.try_into().ok()?);
    if value == 0 {
        return base::is_zero(block).then_some(0);
    }
    let whole = block.chunks_exact(8).enumerate().skip(1).all(|(at, bytes)| bytes == word(value, at).to_le_bytes());
    whole.then_some(value)
}

/// How many bits a block differs from the content of a value.
pub fn bits_apart(block: &[u8], value: u64) -> u32 {
    let mut whole = vec![0; block.len()];
    if value != LOST {
        fill(&mut whole, value);
    }
    block.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_tells_its_value_and_a_mixture_tells_none() {
        for len in [512, 4096] {
            let (mut a, mut b) = (vec![0; len], vec![0; len]);
            fill(&mut a, 7);
            fill(&mut b, 8);
            assert_eq!((value_of(&a), value_of(&b), value_of(&vec![0; len])), (Some(7), Some(8), Some(0)));
            let mut mixed = a.clone();
            mixed[len / 2..].copy_from_slice(&b[len / 2..]);
            assert_eq!(value_of(&mixed), None);
            mixed = a.clone();
            mixed[len - 1] ^= 1;
            assert_eq!(value_of(&mixed), None);
            assert_eq!((bits_apart(&mixed, 7), bits_apart(&a, 7)), (1, 0));
            assert!(bits_apart(&mixed, 8) > 100 && bits_apart(&mixed, 0) > 100);
        }
    }
}

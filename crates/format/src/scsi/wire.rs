//! Big-endian numbers and space-padded text at fixed places.
//!
//! Never: reads past the end of what it was given: a number that is not there in full is zero.

/// `N` bytes at `at`; zeroes where the bytes end.
#[inline]
pub(super) fn array<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = b.get(at..) {
        let n = from.len().min(N);
        out[..n].copy_from_slice(&from[..n]);
    }
    out
}
#[inline]
pub(super) fn byte(b: &[u8], at: usize) -> u8 {
    b.get(at).copied().unwrap_or(0)
}
#[inline]
pub(super) fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(b, at))
}
#[inline]
pub(super) fn be24(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(b, at)) >> 8
}
#[inline]
pub(super) fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(b, at))
}
#[inline]
pub(super) fn be64(b: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(b, at))
}
#[inline]
pub(super) fn bit(b: &[u8], at: usize, bit: u8) -> bool {
    byte(b, at) >> bit & 1 != 0
}
#[inline]
pub(super) fn put(b: &mut [u8], at: usize, bytes: &[u8]) {
    b[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A length in a field of 16 bits. Parameter data is far below 64 KiB; what is not says as much as it can.
pub(super) fn len16(n: usize) -> [u8; 2] {
    u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes()
}
/// A length in a field of 32 bits.
pub(super) fn len32(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes()
}

/// `data` as far as the allocation length goes (SPC-4 4.2.5.6): the lengths within it stay those of the whole.
pub fn cut(mut data: Vec<u8>, allocation: u32) -> Vec<u8> {
    data.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
    data
}

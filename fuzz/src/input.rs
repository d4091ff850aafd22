//! How the bytes of an input become what a target needs.
//!
//! Structures on devices end in zeroes and carry a checksum over all of it: inputs leave both out, so that they stay small and a change
//! of a byte gets past the checksum.

/// `bytes` with zeroes behind them up to `len`, or cut to it.
pub(crate) fn stretched(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut out = bytes[..bytes.len().min(len)].to_vec();
    out.resize(len, 0);
    out
}

/// Puts the CRC-32C of `b` into its four bytes at `at`, which it leaves out.
pub(crate) fn seal(b: &mut [u8], at: usize) {
    let mut crc = base::checksum::Crc32c::default();
    crc.update(&b[..at]);
    crc.update(&b[at + 4..]);
    b[at..at + 4].copy_from_slice(&crc.value().to_le_bytes());
}

/// The first byte, which says how the rest is used, and the rest; 0 when there is none.
pub(crate) fn mode(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, &[]), |(m, rest)| (*m, rest))
}

/// The number in the eight bytes at `at`.
pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    b[at..at + 8].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Changes bytes as `patches` says: two bytes of place (modulo the length), one that is added (exclusive or), and so on.
pub(crate) fn patch(b: &mut [u8], patches: &[u8]) {
    for p in patches.as_chunks::<3>().0 {
        if !b.is_empty() {
            let at = usize::from(u16::from_le_bytes([p[0], p[1]])) % b.len();
            b[at] ^= p[2];
        }
    }
}

/// An input as a sequence of choices. When it is used up, every choice is the first.
pub(crate) struct Choices<'a>(arbitrary::Unstructured<'a>);

impl<'a> Choices<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(arbitrary::Unstructured::new(data))
    }
    /// Whether there is more to choose from.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Any number.
    pub(crate) fn any<T: arbitrary::Arbitrary<'a> + Default>(&mut self) -> T {
        if self.0.is_empty() { T::default() } else { self.0.arbitrary().unwrap_or_default() }
    }
    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        self.0.int_in_range(0..=n - 1).unwrap_or(0)
    }
    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u32) -> bool {
        self.below(n) == n - 1
    }
    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize]
    }
    /// Bytes, at most `most`.
    pub(crate) fn bytes(&mut self, most: u32) -> &'a [u8] {
        let n = (self.below(most + 1) as usize).min(self.0.len());
        self.0.bytes(n).unwrap_or(&[])
    }
}

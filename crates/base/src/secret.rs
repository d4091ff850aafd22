//! Bytes that must not be seen.
//!
//! Invariants: they are wiped when they are dropped; `Debug` shows how many there are and nothing else; a comparison takes the same time
//! whatever differs.
//! Never: knows what they are for.

use core::fmt;
use core::hint::black_box;
use core::ops::{Deref, DerefMut};
use zeroize::Zeroizing;

/// Secret bytes. A clone is wiped on its own.
#[derive(Clone)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// Takes the bytes; no other copy should be left.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
    /// `len` zeroes, to be filled.
    pub fn zeroed(len: usize) -> Self {
        Self::new(vec![0; len])
    }
    /// Whether they are these, in a time that depends on the lengths only.
    pub fn is(&self, other: &[u8]) -> bool {
        // The compiler may not know that one difference decides.
        let differ = self.0.iter().zip(other).fold(0, |differ, (a, b)| black_box(differ | (a ^ b)));
        self.0.len() == other.len() && differ == 0
    }
}

impl Deref for SecretBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for SecretBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
    }
}
impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes, not shown)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_the_same() {
        let a = SecretBytes::new(vec![1, 2, 3]);
        assert!(a.is(&[1, 2, 3]) && a == a.clone());
        for other in [&[1u8, 2][..], &[1, 2, 3, 0], &[0, 2, 3], &[1, 2, 4], &[]] {
            assert!(!a.is(other), "{other:?}");
        }
        assert!(SecretBytes::zeroed(0).is(&[]));
    }

    #[test]
    fn they_are_not_shown() {
        assert_eq!(format!("{:?}", SecretBytes::new(vec![77, 78])), "SecretBytes(2 bytes, not shown)");
    }
}

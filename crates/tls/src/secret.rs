//! Bytes that must not be seen.
//!
//! Invariant: they are wiped when they are dropped; `Debug` shows how many there are and nothing else.

use std::fmt;
use std::ops::Deref;
use zeroize::Zeroize;

/// Secret bytes. A clone is wiped on its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes; no other copy should be left.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
    /// `len` zeroes, to be filled.
    pub(crate) fn zeroed(len: usize) -> Self {
        Self(vec![0; len])
    }
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    /// Whether both are the same, in a time that does not depend on the bytes.
    pub fn is(&self, other: &[u8]) -> bool {
        self.0.len() == other.len() && openssl::memcmp::eq(&self.0, other)
    }
}

impl Deref for Secret {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

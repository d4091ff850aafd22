//! Fingerprints: what a person or a token carries to recognise a certificate.
//!
//! Invariant: the text is read back as it was written.

use std::fmt;

/// SHA-256 of a certificate's DER form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 64 hexadecimal digits")]
pub struct NotAFingerprint;

impl std::str::FromStr for Fingerprint {
    type Err = NotAFingerprint;
    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(NotAFingerprint);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let digit = |d: u8| char::from(d).to_digit(16).ok_or(NotAFingerprint);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

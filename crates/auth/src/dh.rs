//! Diffie-Hellman in the groups of RFC 7919.
//!
//! Invariants: an exponent is used for one exchange, and is erased when it is dropped, as is what it was computed from; a peer's value is used
//! only when it is in the group and neither 0, 1 nor p-1; a result has the width of the prime (leading zeros stay, as all hosts hash them).
//! Never: chooses where the work is done.

use crate::primes::prime;
use format::nvme::auth::DhGroup;
use openssl::{
    bn::{BigNum, BigNumContext, BigNumRef},
    error::ErrorStack,
};
use zeroize::Zeroizing;

/// Bytes of an exponent: at least twice the strength that RFC 7919 (appendix A) estimates for the group, as it allows (section 5.2).
fn exponent_bytes(group: DhGroup) -> usize {
    match group {
        DhGroup::Null => 0,
        DhGroup::Ffdhe2048 => 32,
        DhGroup::Ffdhe3072 => 40,
        DhGroup::Ffdhe4096 => 48,
        DhGroup::Ffdhe6144 => 56,
        DhGroup::Ffdhe8192 => 64,
    }
}

/// A private exponent of one exchange.
pub struct Exponent {
    group: DhGroup,
    bytes: Zeroizing<Vec<u8>>,
}

/// The value cannot be used: it is not of the group, or the library failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the DH value is not one of the group")]
pub struct Unusable;

impl From<ErrorStack> for Unusable {
    fn from(_: ErrorStack) -> Self {
        Self
    }
}

impl std::fmt::Debug for Exponent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Exponent({}, not shown)", self.group.name())
    }
}

impl Exponent {
    /// A new one.
    pub fn new(group: DhGroup, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut bytes = Zeroizing::new(vec![0; exponent_bytes(group)]);
        random(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first |= 0x80;
        }
        Self { group, bytes }
    }
    /// Its group.
    pub fn group(&self) -> DhGroup {
        self.group
    }
    /// The value for the peer: g^x mod p.
    pub fn public(&self) -> Result<Vec<u8>, Unusable> {
        let (two, prime) = (BigNum::from_u32(2)?, self.prime()?);
        Ok(self.power(&two, &prime)?.to_vec())
    }
    /// The session's number: y^x mod p.
    pub fn shared(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, Unusable> {
        if peer.len() != self.group.bytes() {
            return Err(Unusable);
        }
        let (prime, peer) = (self.prime()?, BigNum::from_slice(peer)?);
        let mut below = prime.to_owned()?;
        below.sub_word(1)?;
        // 0, 1 and p-1 would give away the result; p is a safe prime, so all others have a large order.
        if peer <= BigNum::from_u32(1)? || peer >= below {
            return Err(Unusable);
        }
        self.power(&peer, &prime)
    }
    fn prime(&self) -> Result<BigNum, Unusable> {
        Ok(BigNum::from_hex_str(prime(self.group).ok_or(Unusable)?)?)
    }
    fn power(&self, of: &BigNumRef, prime: &BigNumRef) -> Result<Zeroizing<Vec<u8>>, Unusable> {
        let mut exponent = BigNum::from_slice(&self.bytes)?;
        exponent.set_const_time();
        let (mut result, mut context) = (BigNum::new()?, BigNumContext::new_secure()?);
        let done = result.mod_exp(of, &exponent, prime, &mut context);
        exponent.clear();
        done?;
        let out = result.to_vec_padded(self.group.bytes() as i32);
        result.clear();
        Ok(Zeroizing::new(out?))
    }
}

/// A modular exponentiation to do: 1 to 20 ms of a processor, depending on the group.
#[derive(Debug)]
pub struct Work {
    exponent: Exponent,
    peer: Option<Vec<u8>>,
}

/// A [`Work`] that is done.
#[derive(Debug)]
pub struct WorkDone {
    pub(crate) exponent: Exponent,
    pub(crate) value: Result<Value, Unusable>,
}

/// What came out; no secret is printed.
pub(crate) struct Value(pub(crate) Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value(not shown)")
    }
}

impl Work {
    pub(crate) fn public(exponent: Exponent) -> Self {
        Self { exponent, peer: None }
    }
    pub(crate) fn shared(exponent: Exponent, peer: Vec<u8>) -> Self {
        Self { exponent, peer: Some(peer) }
    }
    /// Does it.
    pub fn run(self) -> WorkDone {
        let value = match &self.peer {
            None => self.exponent.public().map(Zeroizing::new),
            Some(peer) => self.exponent.shared(peer),
        };
        WorkDone { exponent: self.exponent, value: value.map(Value) }
    }
}

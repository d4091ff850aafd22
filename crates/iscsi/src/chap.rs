//! CHAP (RFC 1994, RFC 7143 12.1.3): a host proves that it has its secret; where it asks for it, the target proves that it has its own (mutual).
//!
//! Invariants: a challenge is answered once; a target answers nobody who has not proved who it is, and no challenge of its own; what is compared takes as long whatever differs; a secret is in no text.

use base::SecretBytes;
use openssl::base64;
use openssl::error::ErrorStack;
use openssl::hash::{Hasher, MessageDigest};

/// Bytes of a challenge.
const CHALLENGE_BYTES: usize = 32;
/// Bytes of a host's challenge, at most (RFC 7143 12.1.3).
const HOST_CHALLENGE_BYTES_MAX: usize = 1024;

/// What a host authenticates with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// CHAP_N of the host.
    pub user: String,
    /// Its secret, at least 12 bytes (RFC 7143 9.2.1).
    pub secret: SecretBytes,
    /// What a target proves itself with to this host; `None`: it cannot.
    pub target: Option<TargetProof>,
}

/// What a target proves itself with (mutual CHAP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetProof {
    /// CHAP_N of the target.
    pub user: String,
    /// Its secret, which is not that of the host (RFC 7143 9.2.1).
    pub secret: SecretBytes,
}

/// CHAP_A: the hash functions that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
}

impl Algorithm {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "5" => Some(Algorithm::Md5),
            "7" => Some(Algorithm::Sha256),
            _ => None,
        }
    }
    fn response(self, id: u8, secret: &[u8], challenge: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let digest = match self {
            Algorithm::Md5 => MessageDigest::md5(),
            Algorithm::Sha256 => MessageDigest::sha256(),
        };
        let mut hasher = Hasher::new(digest)?;
        [&[id][..], secret, challenge].iter().try_for_each(|part| hasher.update(part))?;
        Ok(hasher.finish()?.to_vec())
    }
}

/// A challenge that was sent.
#[derive(Debug)]
pub(crate) struct Challenge {
    algorithm: Algorithm,
    id: u8,
    bytes: [u8; CHALLENGE_BYTES],
}

impl Challenge {
    /// For the first algorithm of the host's list (CHAP_A) that is known here.
    pub(crate) fn new(list: &str, random: &mut dyn FnMut(&mut [u8])) -> Option<Self> {
        let algorithm = list.split(',').find_map(Algorithm::parse)?;
        let (mut bytes, mut id) = ([0; CHALLENGE_BYTES], [0]);
        random(&mut bytes);
        random(&mut id);
        Some(Challenge { algorithm, id: id[0], bytes })
    }
    /// The values of CHAP_A, CHAP_I and CHAP_C.
    pub(crate) fn values(&self) -> [(&'static str, String); 3] {
        let algorithm = if self.algorithm == Algorithm::Md5 { "5" } else { "7" };
        [("CHAP_A", algorithm.into()), ("CHAP_I", self.id.to_string()), ("CHAP_C", hex(&self.bytes))]
    }
    /// Whether name and response (CHAP_N, CHAP_R) are those of who has the secret.
    pub(crate) fn is_met(&self, of: &Credentials, name: &str, response: &str) -> bool {
        let want = self.algorithm.response(self.id, &of.secret, &self.bytes);
        let (Ok(want), Some(got)) = (want, binary(response)) else { return false };
        name == of.user && want.len() == got.len() && openssl::memcmp::eq(&want, &got)
    }
    /// CHAP_N and CHAP_R for the challenge of a host (CHAP_I, CHAP_C) that has met this one; `None`: its challenge is none, or this one.
    pub(crate) fn prove(&self, proof: &TargetProof, id: &str, challenge: &str) -> Option<[(&'static str, String); 2]> {
        let challenge = binary(challenge).filter(|c| (1..=HOST_CHALLENGE_BYTES_MAX).contains(&c.len()) && c[..] != self.bytes)?;
        let response = self.algorithm.response(number(id)?, &proof.secret, &challenge).ok()?;
        Some([("CHAP_N", proof.user.clone()), ("CHAP_R", hex(&response))])
    }
}

/// A large binary value, as it is sent.
fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("0x{digits}")
}
/// A number of one byte: decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u8> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A large binary value (RFC 7143 6.1): hexadecimal after `0x`, base64 after `0b`.
fn binary(text: &str) -> Option<Vec<u8>> {
    let (kind, digits) = text.split_at_checked(2)?;
    match kind {
        "0x" | "0X" => {
            let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
            let digits: Option<Vec<u8>> = digits.as_bytes().iter().map(digit).collect();
            let digits = digits.filter(|d| d.len().is_multiple_of(2))?;
            Some(digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect())
        }
        "0b" | "0B" => base64::decode_block(digits).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_those_of_other_implementations() {
        // MD5 and SHA-256 of 27h, "secret-of-12" and 00h to 0Fh, by `printf | openssl dgst`.
        let challenge: Vec<u8> = (0..16).collect();
        let hex =
            |a: Algorithm| a.response(0x27, b"secret-of-12", &challenge).unwrap().iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(Algorithm::Md5), "c7145ea507a9f67b85d43ab2ac5476f6");
        assert_eq!(hex(Algorithm::Sha256), "3aa1f66502493fd43876216656f818bb1e814ff9f51d82a5ccc6535862357bb2");
    }

    #[test]
    fn only_the_secret_and_the_name_meet_a_challenge() {
        let of = Credentials { user: "host".into(), secret: SecretBytes::new(b"secret-of-12".to_vec()), target: None };
        let c = Challenge::new("6,7,5", &mut |out| out.fill(9)).unwrap();
        assert_eq!(c.values()[0].1, "7");
        let right = c.algorithm.response(9, b"secret-of-12", &[9; CHALLENGE_BYTES]).unwrap();
        let (hex, base) = (right.iter().map(|b| format!("{b:02X}")).collect::<String>(), base64::encode_block(&right));
        assert!(c.is_met(&of, "host", &format!("0x{hex}")) && c.is_met(&of, "host", &format!("0b{base}")));
        assert!(!c.is_met(&of, "other", &format!("0x{hex}")) && !c.is_met(&of, "host", &format!("0x{}", &hex[2..])));
        assert!(!c.is_met(&of, "host", "0x") && !c.is_met(&of, "host", "") && !c.is_met(&of, "host", "0xé"));
        assert!(Challenge::new("6,8", &mut |_| {}).is_none());
    }

    #[test]
    fn a_target_proves_itself_for_any_challenge_but_its_own() {
        let proof = TargetProof { user: "target".into(), secret: SecretBytes::new(b"secret-of-12".to_vec()) };
        let c = Challenge::new("5", &mut |out| out.fill(9)).unwrap();
        let want = "0xc7145ea507a9f67b85d43ab2ac5476f6";
        for (id, challenge) in [("39", "0x000102030405060708090a0b0c0d0e0f"), ("0x27", "0bAAECAwQFBgcICQoLDA0ODw==")] {
            assert_eq!(c.prove(&proof, id, challenge).unwrap(), [("CHAP_N", "target".into()), ("CHAP_R", want.into())]);
        }
        let own = hex(&[9; CHALLENGE_BYTES]);
        let (longest, longer) = (hex(&[1; 1024]), hex(&[1; 1025]));
        assert!(c.prove(&proof, "1", &longest).is_some());
        for (id, challenge) in
            [("1", own.as_str()), ("1", &longer), ("1", "0x"), ("1", "text"), ("256", "0x00"), ("-1", "0x00"), ("", "0x00")]
        {
            assert_eq!(c.prove(&proof, id, challenge), None, "{id}, {challenge}");
        }
    }
}

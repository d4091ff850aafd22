//! Digests: HMAC, augmented challenges, responses (base 8.13.5.6).

use format::nvme::auth::{HashId, NO_CONCATENATION};
use openssl::{
    error::ErrorStack,
    hash::{MessageDigest, hash},
    pkey::PKey,
    sign::Signer,
};
use zeroize::Zeroizing;

fn digest_of(id: HashId) -> MessageDigest {
    match id {
        HashId::Sha256 => MessageDigest::sha256(),
        HashId::Sha384 => MessageDigest::sha384(),
        HashId::Sha512 => MessageDigest::sha512(),
    }
}

/// HMAC (RFC 2104) of all parts, one behind the other.
pub(crate) fn hmac(id: HashId, key: &[u8], parts: &[&[u8]]) -> Result<Vec<u8>, ErrorStack> {
    let key = PKey::hmac(key)?;
    let mut signer = Signer::new(digest_of(id), &key)?;
    for part in parts {
        signer.update(part)?;
    }
    signer.sign_to_vec()
}

/// Who proves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The host, over C1 and S1.
    Host,
    /// The controller, over C2 and S2.
    Controller,
}

/// The response of `role` to a challenge. `key` is the transformed secret of who answers, `shared` the DH session's number in full width,
/// when there was an exchange.
#[allow(clippy::too_many_arguments)] // These are the inputs of the standard's function, each once.
pub fn response(
    hash_id: HashId,
    role: Role,
    key: &[u8],
    challenge: &[u8],
    shared: Option<&[u8]>,
    seq: u32,
    t_id: u16,
    host_nqn: &str,
    subsystem_nqn: &str,
) -> Result<Vec<u8>, ErrorStack> {
    // Ca = HMAC(H(g^xy mod p), C) after an exchange, C otherwise.
    let augmented = match shared {
        Some(shared) => {
            let session = Zeroizing::new(hash(digest_of(hash_id), shared)?.to_vec());
            hmac(hash_id, &session, &[challenge])?
        }
        None => challenge.to_vec(),
    };
    let (label, first, second) = match role {
        Role::Host => ("HostHost", host_nqn, subsystem_nqn),
        Role::Controller => ("Controller", subsystem_nqn, host_nqn),
    };
    let (seq, t_id) = (seq.to_le_bytes(), t_id.to_le_bytes());
    hmac(hash_id, key, &[&augmented, &seq, &t_id, &[NO_CONCATENATION], label.as_bytes(), first.as_bytes(), &[0], second.as_bytes()])
}

//! Secrets at rest: sealed with a key of this installation, or left in a file of the administrator's.
//!
//! Owns: the file [`KEY_FILE`] in the state directory: 32 random bytes, readable by its owner only, made at the first start.
//! Invariants: a sealed text opens only with the key and the purpose that it was sealed with (AES-256-GCM, the purpose is authenticated); every
//! sealing has a nonce of its own; what was opened is erased when it is dropped.
//! Never: puts a secret into an error, a log or an answer.

use openssl::{base64, symm};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};
use zeroize::Zeroizing;

/// The name of the file with the key.
pub const KEY_FILE: &str = "secrets.key";
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Why the key cannot be used, or a sealed secret not opened.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The file cannot be read or made.
    #[error("{KEY_FILE} in the data directory: {0}")]
    File(#[from] io::Error),
    /// Others could read it.
    #[error(
        "{KEY_FILE} in the data directory can be read by others (mode {0:03o}); chmod 600 it, and change the secrets if somebody may have read it"
    )]
    Mode(u32),
    /// It has another length.
    #[error("{KEY_FILE} in the data directory is damaged; restore it from a backup, or remove it and set all secrets anew")]
    Length,
    /// It does not open.
    #[error("a stored secret cannot be opened with {KEY_FILE}; restore the key that it was stored with, or set the secret anew")]
    Sealed,
    /// The cipher failed.
    #[error("the cipher failed")]
    Cipher,
}

/// The key, and what is done with it.
pub struct Vault {
    key: Zeroizing<Vec<u8>>,
}

impl Vault {
    /// Opens the key of a state directory; makes one when there is none.
    pub fn open(directory: &Path) -> Result<Self, VaultError> {
        let path = directory.join(KEY_FILE);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let key = random_key();
                let written = file.write_all(&key).and_then(|()| file.sync_all()).and_then(|()| fs::File::open(directory)?.sync_all());
                if let Err(e) = written {
                    // Half a key must not stay.
                    let _ = fs::remove_file(&path);
                    return Err(e.into());
                }
                Ok(Self { key })
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Self::read(&path),
            Err(e) => Err(e.into()),
        }
    }

    /// The key, for a cluster that this installation becomes or that another node joins.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// With a key that nothing keeps: what it has sealed cannot be opened after the end of the process.
    pub fn ephemeral() -> Self {
        Self { key: random_key() }
    }

    fn read(path: &Path) -> Result<Self, VaultError> {
        let file = fs::File::open(path)?;
        let mode = file.metadata()?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(VaultError::Mode(mode));
        }
        let mut key = Zeroizing::new(Vec::with_capacity(KEY_BYTES + 1));
        file.take(KEY_BYTES as u64 + 1).read_to_end(&mut key)?;
        if key.len() == KEY_BYTES { Ok(Self { key }) } else { Err(VaultError::Length) }
    }

    /// Seals a text for a purpose.
    pub fn seal(&self, purpose: &str, text: &str) -> Result<String, VaultError> {
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce);
        let mut tag = [0; TAG_BYTES];
        let sealed =
            symm::encrypt_aead(symm::Cipher::aes_256_gcm(), &self.key, Some(&nonce), purpose.as_bytes(), text.as_bytes(), &mut tag);
        let sealed = sealed.map_err(|_| VaultError::Cipher)?;
        Ok(base64::encode_block(&[&nonce[..], &tag, &sealed].concat()))
    }

    /// Opens what was sealed for the same purpose.
    pub fn unseal(&self, purpose: &str, sealed: &str) -> Result<Zeroizing<String>, VaultError> {
        let bytes = base64::decode_block(sealed).map_err(|_| VaultError::Sealed)?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_BYTES).ok_or(VaultError::Sealed)?;
        let (tag, body) = rest.split_at_checked(TAG_BYTES).ok_or(VaultError::Sealed)?;
        let open = symm::decrypt_aead(symm::Cipher::aes_256_gcm(), &self.key, Some(nonce), purpose.as_bytes(), body, tag);
        let text = String::from_utf8(open.map_err(|_| VaultError::Sealed)?).map_err(|_| VaultError::Sealed)?;
        Ok(Zeroizing::new(text))
    }
}

fn random_key() -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(vec![0; KEY_BYTES]);
    random(&mut key);
    key
}

/// Bytes that nobody can guess.
pub(crate) fn random(out: &mut [u8]) {
    openssl::rand::rand_bytes(out).expect("the operating system has random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_sealed_opens_with_the_same_key_and_purpose_only() {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::open(dir.path()).unwrap();
        let sealed = vault.seal("host/a", "DHHC-1:secret").unwrap();
        assert!(!sealed.contains("secret") && vault.seal("host/a", "DHHC-1:secret").unwrap() != sealed, "a nonce of its own");
        let again = Vault::open(dir.path()).unwrap();
        assert_eq!(&**again.unseal("host/a", &sealed).unwrap(), "DHHC-1:secret");
        assert!(matches!(again.unseal("host/b", &sealed), Err(VaultError::Sealed)), "not for another host");
        assert!(matches!(Vault::ephemeral().unseal("host/a", &sealed), Err(VaultError::Sealed)), "not with another key");
        let mut changed = base64::decode_block(&sealed).unwrap();
        *changed.last_mut().unwrap() ^= 1;
        assert!(matches!(again.unseal("host/a", &base64::encode_block(&changed)), Err(VaultError::Sealed)));
        for bad in ["", "AAAA", "not base64!"] {
            assert!(again.unseal("host/a", bad).is_err());
        }
    }

    #[test]
    fn the_key_is_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(KEY_FILE);
        Vault::open(dir.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Vault::open(dir.path()), Err(VaultError::Mode(0o640))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, [1; 31]).unwrap();
        assert!(matches!(Vault::open(dir.path()), Err(VaultError::Length)));
    }
}

//! The files of an authority and of a node's identity.
//!
//! Invariants: a file with a private key has mode 0600 from its first moment; a file is replaced as a whole, durably; one with a private key
//! that others can read is not used.

use crate::{Authority, AuthorityError, Identity};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};
use zeroize::Zeroizing;

/// The authority's certificate, on every node.
pub const AUTHORITY_FILE: &str = "authority.crt";
/// The authority's private key, where it signs.
pub const AUTHORITY_KEY_FILE: &str = "authority.key";
/// The node's certificate.
pub const CERTIFICATE_FILE: &str = "node.crt";
/// The node's private key.
pub const KEY_FILE: &str = "node.key";
/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 10;

impl Identity {
    /// Writes it into a folder that is there.
    pub fn save(&self, dir: &Path) -> Result<(), AuthorityError> {
        write(&dir.join(KEY_FILE), &self.key, 0o600)?;
        write(&dir.join(CERTIFICATE_FILE), &self.certificate, 0o644)?;
        write(&dir.join(AUTHORITY_FILE), &self.authority, 0o644)
    }
    /// Writes a renewed certificate over the one before. The key stays, so that whoever reads the two files has a pair at any time.
    pub fn save_certificate(&self, dir: &Path) -> Result<(), AuthorityError> {
        write(&dir.join(CERTIFICATE_FILE), &self.certificate, 0o644)
    }
    /// Reads it again.
    pub fn load(dir: &Path) -> Result<Self, AuthorityError> {
        let key = read_private(&dir.join(KEY_FILE))?;
        Ok(Self { authority: read(&dir.join(AUTHORITY_FILE))?, certificate: read(&dir.join(CERTIFICATE_FILE))?, key })
    }
}

impl Authority {
    /// Writes it into a folder that is there.
    pub fn save(&self, dir: &Path) -> Result<(), AuthorityError> {
        write(&dir.join(AUTHORITY_KEY_FILE), &self.key_pem()?, 0o600)?;
        write(&dir.join(AUTHORITY_FILE), &self.certificate_pem()?, 0o644)
    }
    /// Reads it again.
    pub fn load(dir: &Path) -> Result<Self, AuthorityError> {
        let key = read_private(&dir.join(AUTHORITY_KEY_FILE))?;
        Self::from_pem(&read(&dir.join(AUTHORITY_FILE))?, &key)
    }
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), AuthorityError> {
    let new = path.with_extension("new");
    let all = || {
        match std::fs::remove_file(&new) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    all().map_err(|cause| AuthorityError::Io { path: path.into(), cause })
}

fn read(path: &Path) -> Result<Vec<u8>, AuthorityError> {
    let all = || {
        let mut content = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut content)?;
        Ok(content)
    };
    all().map_err(|cause| AuthorityError::Io { path: path.into(), cause })
}

fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, AuthorityError> {
    let metadata = std::fs::metadata(path).map_err(|cause| AuthorityError::Io { path: path.into(), cause })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(AuthorityError::Readable { path: path.into(), mode });
    }
    read(path).map(Zeroizing::new)
}

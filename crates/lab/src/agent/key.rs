//! The key that a lab and its agents share: who has it may read and write the disks that an agent can open.
//!
//! Invariants: it comes from the kernel's random numbers; its file can be read by its owner only when it is made here; it is never shown.
//! Never: makes a key over one that is there.

use crate::error::LabError;
use base::SecretBytes;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tls::{Hash, PskIdentity, TlsPsk};

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Bytes of its file, at most.
const FILE_BYTES_MAX: u64 = 1024;

/// The one identity of a key of the lab: a key of another protocol cannot be named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentIdentity;

impl PskIdentity for AgentIdentity {
    const REKEYS: bool = true;

    fn parse(bytes: &[u8]) -> Option<AgentIdentity> {
        (bytes == b"BasaltLab1R01").then_some(AgentIdentity)
    }
}

impl fmt::Display for AgentIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BasaltLab1R01")
    }
}

/// The key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentKey(SecretBytes);

impl AgentKey {
    /// From its file: 64 hexadecimal digits.
    pub fn load(path: &Path) -> Result<AgentKey, LabError> {
        let wrong = |problem: String| LabError::Workload { place: path.display().to_string(), problem };
        let mut text = String::new();
        let file = File::open(path)
            .map_err(|e| wrong(format!("the key cannot be read: {e}; 'basalt lab agent --key FILE' makes one, copy that file here")))?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|e| wrong(format!("the key cannot be read: {e}")))?;
        let bytes = hex(text.trim()).ok_or_else(|| wrong(format!("is no key of the lab: it has {} hexadecimal digits", 2 * KEY_BYTES)))?;
        Ok(AgentKey(bytes))
    }

    /// From its file, which is made when there is none; whether it was made.
    pub fn load_or_make(path: &Path) -> Result<(AgentKey, bool), LabError> {
        let wrong =
            |e: std::io::Error| LabError::Workload { place: path.display().to_string(), problem: format!("the key cannot be made: {e}") };
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok((AgentKey::load(path)?, false)),
            Err(e) => return Err(wrong(e)),
        };
        let mut bytes = SecretBytes::zeroed(KEY_BYTES);
        File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).map_err(wrong)?;
        let digits: Vec<u8> = bytes.iter().flat_map(|b| format!("{b:02x}").into_bytes()).chain([b'\n']).collect();
        file.write_all(&SecretBytes::new(digits)).and_then(|()| file.sync_all()).map_err(wrong)?;
        Ok((AgentKey(bytes), true))
    }

    pub(super) fn psk(&self) -> TlsPsk {
        TlsPsk { hash: Hash::Sha256, key: self.0.clone() }
    }
}

fn hex(text: &str) -> Option<SecretBytes> {
    let mut bytes = SecretBytes::zeroed(KEY_BYTES);
    if text.len() != 2 * KEY_BYTES || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

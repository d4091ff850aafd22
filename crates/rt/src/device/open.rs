//! How to open a device, and why that failed.
//!
//! Never: opens one.

use std::path::PathBuf;

/// The smallest device that can be opened, in bytes.
pub const DEVICE_BYTES_MIN: u64 = 1 << 20;

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// If there is nothing at the path: make a file of that many bytes.
    pub create_bytes: Option<u64>,
    /// Such a file has all its space from the start; else it is sparse and takes space as it is written.
    pub reserve: bool,
    /// Refuse what is smaller, in bytes.
    pub bytes_min: u64,
    /// Treat the device as if it kept what it has taken when the power goes, whatever it says (a drive with capacitors that hides it).
    pub assume_durable: bool,
}

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing there.
    #[error("{path}: there is nothing at this path; check the name, or create the file first")]
    Missing { path: PathBuf },
    /// Neither a block device nor a plain file.
    #[error("{path} is {what}, neither a block device nor a file")]
    NotADevice { path: PathBuf, what: &'static str },
    /// Another process holds it.
    #[error("{path} is in use by {by}; stop that first")]
    InUse { path: PathBuf, by: String },
    /// It, or a partition of it, is mounted.
    #[error("{path} is mounted at {at}; unmount it first, and be sure that you want its contents overwritten")]
    Mounted { path: PathBuf, at: PathBuf },
    /// Not allowed.
    #[error("{path}: permission denied; run as root or give this user access to the device")]
    Permission { path: PathBuf },
    /// Too small to use.
    #[error("{path} has {bytes} bytes, at least {bytes_min} are needed")]
    TooSmall { path: PathBuf, bytes: u64, bytes_min: u64 },
    /// Its size is not a multiple of 4096.
    #[error("{path} has {bytes} bytes, which is not a multiple of 4096; make it one")]
    Unaligned { path: PathBuf, bytes: u64 },
    /// It cannot be written.
    #[error("{path} is read-only; make it writable or choose another device")]
    ReadOnly { path: PathBuf },
    /// A device in memory for which there is not memory enough.
    #[error("there is no memory for a device of {}: {source}; make it smaller, or use a file", base::ByteSize(*bytes))]
    Memory { bytes: u64, source: std::io::Error },
    /// Anything else.
    #[error("{path}: cannot {what}: {source}")]
    Io { path: PathBuf, what: &'static str, source: std::io::Error },
}

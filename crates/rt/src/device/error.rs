//! What the errors of device operations mean.

/// Why a device operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// These blocks cannot be read or written; others may. Repair them from a copy.
    #[error("media error")]
    Media,
    /// Nothing is left to write to (a thin device or file system is full). The copy fails.
    #[error("the device is full")]
    NoSpace,
    /// The device went away. The copy fails.
    #[error("the device is gone")]
    Gone,
    /// It did not answer in time. The copy fails.
    #[error("the device did not answer in time")]
    TimedOut,
    /// The operation lies outside of the device, or is not aligned: a bug of the caller.
    #[error("outside of the device or not aligned")]
    OutOfRange,
    /// Anything else that the system says.
    #[error("the system says error {errno}")]
    Os {
        /// As in errno(3).
        errno: i32,
    },
}

impl DeviceError {
    /// From errno(3).
    pub fn from_errno(errno: i32) -> DeviceError {
        match errno {
            libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO | libc::EBADMSG => DeviceError::Media,
            libc::ENOSPC | libc::EDQUOT => DeviceError::NoSpace,
            libc::ENODEV | libc::ENXIO | libc::ENOLINK | libc::ENOMEDIUM | libc::ESHUTDOWN => DeviceError::Gone,
            libc::ETIMEDOUT => DeviceError::TimedOut,
            libc::EINVAL => DeviceError::OutOfRange,
            errno => DeviceError::Os { errno },
        }
    }
}

//! What fails for all drives at once.

/// Why drives cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// /sys is not as expected.
    #[error("the drives cannot be listed: {path} cannot be read ({cause}); is /sys mounted?")]
    Sysfs {
        /// What was read.
        path: String,
        /// Why not.
        cause: std::io::Error,
    },
}

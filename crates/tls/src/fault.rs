//! Why a connection ended, for both sides of the engine. Never: holds a secret.

use openssl::error::ErrorStack;

/// Why a connection ended. What goes out holds the alert, where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first bytes are not TLS.
    #[error("not TLS")]
    NotTls,
    /// The handshake was refused with this alert (RFC 8446, 6.2).
    #[error("handshake refused (alert {alert}): {reason}")]
    Refused {
        /// The alert's description.
        alert: u8,
        /// In words.
        reason: &'static str,
    },
    /// The peer broke the protocol, or a record was changed on the way; or the peer sent an alert.
    #[error("TLS failed: {0}")]
    Protocol(String),
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
    Library,
}

impl Fault {
    pub(crate) fn refused(alert: u8, reason: &'static str) -> Self {
        Fault::Refused { alert, reason }
    }
}

impl From<ErrorStack> for Fault {
    fn from(_: ErrorStack) -> Self {
        Fault::Library
    }
}

//! Why a connection ended, for both sides of the engine. Never: holds a secret.

use crate::alert;
use openssl::error::ErrorStack;

/// What the other end has said of why it ended the connection (RFC 8446, 6.2), as far as it tells what is wrong at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Alert {
    /// It knows no key for the identity that was offered.
    #[error("it knows no key for this identity")]
    UnknownIdentity,
    /// Its key for the identity is another one.
    #[error("its key is another one")]
    WrongKey,
    /// It speaks no such TLS, or none.
    #[error("it speaks no TLS 1.3 here")]
    NoTls,
    /// Anything else.
    #[error("alert {0}")]
    Other(u8),
}

impl Alert {
    pub(crate) fn of(description: u8) -> Alert {
        match description {
            alert::UNKNOWN_PSK_IDENTITY => Alert::UnknownIdentity,
            alert::DECRYPT_ERROR => Alert::WrongKey,
            alert::PROTOCOL_VERSION => Alert::NoTls,
            other => Alert::Other(other),
        }
    }
}

/// Why a connection ended. What goes out holds the alert, where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first bytes are not TLS.
    #[error("not TLS")]
    NotTls,
    /// The first bytes are TLS, and plain ones are wanted here.
    #[error("TLS, where plain bytes are expected")]
    NotPlain,
    /// The handshake was refused with this alert (RFC 8446, 6.2).
    #[error("handshake refused (alert {alert}): {reason}")]
    Refused {
        /// The alert's description.
        alert: u8,
        /// In words.
        reason: &'static str,
    },
    /// The other end has sent an alert.
    #[error("the other end ended TLS: {0}")]
    Alert(Alert),
    /// The other end broke the protocol, or a record was changed on the way.
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

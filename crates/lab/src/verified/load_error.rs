//! Why a verified load could not run or go on.
//!
//! Never: of data that is wrong; that is counted, and the load goes on.

use initiator::error::Error;
use std::time::Duration;

/// Why a load could not run or go on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The settings do not fit together or with the namespace.
    #[error("{0}")]
    Spec(&'static str),
    /// The client failed.
    #[error(transparent)]
    Client(#[from] Error),
    /// No reconnect within the time allowed.
    #[error("no reconnect within {0:?}: {1}")]
    NoReconnect(Duration, String),
}

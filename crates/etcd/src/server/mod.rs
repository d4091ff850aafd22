//! The etcd server as Basalt runs it: one member on a node.
//!
//! Owns: its settings and their file ([`Settings`]), its process ([`Server`]), how it is ([`health`]), who is a member ([`members`]), backup and
//! restore ([`backup`]).
//! Invariants: the member ends with the daemon; it has a folder of its own, and certificates of the cluster's authority on both sides; a restored
//! cluster is another etcd cluster than before.
//! Never: starts in a folder that holds another member's store, or with an etcd of the system's service.

pub mod backup;
pub mod health;
pub mod members;
pub(crate) mod metrics;
mod process;
mod settings;

pub use process::{Condition, Server};
pub use settings::{BadSetting, CONFIGURATION_FILE, MEMBERS_MAX, Membership, QUOTA_BYTES, STORE_DIR, Settings};

use std::path::PathBuf;

/// Why the server was not started, backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A file.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A program is missing or cannot be run.
    #[error("{} cannot be run ({cause}); install the package {package}", .program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Debian's package that has it.
        package: &'static str,
        /// Why.
        cause: std::io::Error,
    },
    /// etcdctl has failed.
    #[error("etcdctl has failed: {0}")]
    Tool(String),
    /// A backup is cut short or damaged.
    #[error("{} is no whole backup of etcd ({why}); take another one", .path.display())]
    Backup {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: backup::Damage,
    },
    /// There is a store already.
    #[error("{} holds a store already; move it away first", .path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(#[from] settings::BadSetting),
    /// etcd did not do it.
    #[error(transparent)]
    Etcd(#[from] crate::EtcdError),
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

fn io(path: &std::path::Path) -> impl Fn(std::io::Error) -> ServerError {
    let path = path.to_path_buf();
    move |cause| ServerError::Io { path: path.clone(), cause }
}

//! What a server is to its cluster.

use serde::{Deserialize, Serialize};

/// What a node does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// It serves hosts, and may hold data.
    #[default]
    Data,
    /// It votes in the directory, and holds no data.
    Witness,
}

impl NodeRole {
    /// As it is written and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Witness => "witness",
        }
    }
}

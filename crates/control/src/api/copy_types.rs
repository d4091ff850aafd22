//! The copies of a volume, as the API shows them.
//!
//! Never: decides how a copy is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Component {
    /// Its id.
    pub id: String,
    /// Which stripe, from 0.
    pub stripe: u32,
    /// Which copy, from 0.
    pub copy: u32,
    /// `active`, `absent`, `degraded`, `stale` or `resyncing`.
    pub state: String,
    /// How much of it is complete, in percent, while it is brought back into sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_percent: Option<u8>,
    /// Seconds until it is in sync, at the speed so far; none: it is not being brought back, or that cannot be said yet.
    #[serde(default)]
    pub resync_seconds_left: Option<u64>,
    /// Bytes from the place that it has come to to its end, while it is brought back into sync: what it misses is among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_bytes_left: Option<u64>,
    /// Why it is not in sync, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It takes much longer for changes than the other copies, as the volume's owner says.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub slow: bool,
    /// The node that has it.
    pub node: String,
    /// The disk group.
    pub group: String,
    /// The capacity device.
    pub device: String,
    /// Its size.
    pub bytes: u64,
    /// What is allocated on the device.
    pub used_bytes: Option<u64>,
    /// What is set aside.
    pub reserved_bytes: u64,
}

/// How fast copies that come back into sync get what they miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResyncPace {
    /// Not at all; they get what hosts write.
    Paused,
    /// A small part of the time, whether hosts ask for something or not.
    Low,
    /// As fast as it goes while hosts ask for nothing; beside them so that their latency hardly rises.
    #[default]
    Normal,
    /// As fast as it goes.
    High,
}

impl From<ResyncPace> for base::ResyncPace {
    fn from(pace: ResyncPace) -> Self {
        match pace {
            ResyncPace::Paused => Self::Paused,
            ResyncPace::Low => Self::Low,
            ResyncPace::Normal => Self::Normal,
            ResyncPace::High => Self::High,
        }
    }
}

impl From<base::ResyncPace> for ResyncPace {
    fn from(pace: base::ResyncPace) -> Self {
        match pace {
            base::ResyncPace::Paused => Self::Paused,
            base::ResyncPace::Low => Self::Low,
            base::ResyncPace::Normal => Self::Normal,
            base::ResyncPace::High => Self::High,
        }
    }
}

//! Identifiers: a newtype over a UUID for each kind of thing, so that one can never stand for another.

use core::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// From 16 random bytes: a version 4 UUID (RFC 9562 section 5.4). The caller brings the randomness.
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }
            /// Its 16 bytes, in the order of RFC 9562.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
            /// From its 16 bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Ok(Self(s.parse()?))
            }
        }
    };
}

id!(
    /// A cluster.
    ClusterId
);
id!(
    /// A node of a cluster.
    NodeId
);
id!(
    /// A disk group.
    GroupId
);
id!(
    /// A device of a disk group, as its superblock names it.
    DeviceUuid
);
id!(
    /// A volume, as a user sees it. Stable for its life: NGUID and UUID of the namespace come from it.
    VolumeId
);
id!(
    /// How a volume or snapshot is laid out.
    ObjectId
);
id!(
    /// A part of an object that lives in one disk group.
    ComponentId
);
id!(
    /// A host as reservations know it: the Host Identifier of its Connect commands (NVMe base 2.0 section 5.27.1.25).
    HostId
);

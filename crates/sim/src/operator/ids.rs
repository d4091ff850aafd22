//! The identifiers in a simulated cluster: each is a single byte, many times.

use base::{ClusterId, ComponentId, GroupId};

/// The name of the node.
pub const NODE: &str = "n1";

/// The cluster.
pub fn cluster() -> ClusterId {
    ClusterId::from_bytes([1; 16])
}
/// Its disk group.
pub fn group() -> GroupId {
    GroupId::from_bytes([2; 16])
}
/// The component of a volume's mirror.
pub fn component_id(volume: usize, mirror: usize) -> ComponentId {
    ComponentId::from_bytes([volume as u8 * 8 + mirror as u8 + 1; 16])
}

//! REPORT TARGET PORT GROUPS (SPC-4 6.37): asymmetric logical unit access.
//!
//! Invariant: no list is longer than its bytes.

use super::wire::{be16, be32, bit, byte, len32, put};

/// ASYMMETRIC ACCESS STATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessState {
    /// Active/optimized.
    Optimized = 0x0,
    /// Active/non-optimized.
    NonOptimized = 0x1,
    /// Standby.
    Standby = 0x2,
    /// Unavailable.
    Unavailable = 0x3,
    /// Logical block dependent.
    BlockDependent = 0x4,
    /// Offline.
    Offline = 0xE,
    /// Transitioning between states.
    Transitioning = 0xF,
}
impl AccessState {
    /// All of them.
    pub const ALL: [AccessState; 7] =
        [Self::Optimized, Self::NonOptimized, Self::Standby, Self::Unavailable, Self::BlockDependent, Self::Offline, Self::Transitioning];
    /// From 4 bits; `None` for the reserved ones.
    pub fn parse(nibble: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| *s as u8 == nibble)
    }
}

/// STATUS CODE: no status.
pub const STATUS_NONE: u8 = 0;
/// STATUS CODE: the state was changed by SET TARGET PORT GROUPS.
pub const STATUS_EXPLICIT: u8 = 1;
/// STATUS CODE: the state was changed by the device.
pub const STATUS_IMPLICIT: u8 = 2;

/// A target port group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortGroup {
    /// TARGET PORT GROUP.
    pub id: u16,
    /// PREF: the group is preferred.
    pub preferred: bool,
    /// Its state.
    pub state: AccessState,
    /// Why it has that state.
    pub status: u8,
    /// States that it may have: bit 7 transitioning, 6 offline, 4 block dependent, 3 unavailable, 2 standby, 1 non-optimized, 0 optimized.
    pub supported: u8,
    /// Relative target port identifiers, at most 255.
    pub ports: Vec<u16>,
}

/// [`PortGroup::supported`]: optimized, non-optimized, unavailable and transitioning.
pub const SUPPORTED_ACTIVE: u8 = 0x8B;
const GROUP_HEAD_BYTES: usize = 8;
const PORT_BYTES: usize = 4;

/// The parameter data. The extended header has the implicit transition time in seconds.
pub fn build_port_groups(extended: Option<u8>, groups: &[PortGroup]) -> Vec<u8> {
    let mut out = vec![0; 4];
    if let Some(seconds) = extended {
        out.extend_from_slice(&[0x10, seconds, 0, 0]);
    }
    for g in groups {
        let ports = &g.ports[..g.ports.len().min(u8::MAX.into())];
        let [hi, lo] = g.id.to_be_bytes();
        let state = u8::from(g.preferred) << 7 | g.state as u8;
        out.extend_from_slice(&[state, g.supported, hi, lo, 0, g.status, 0, ports.len() as u8]);
        ports.iter().for_each(|p| out.extend_from_slice(&u32::from(*p).to_be_bytes()));
    }
    let bytes = len32(out.len() - 4);
    put(&mut out, 0, &bytes);
    out
}

/// The groups that are there in full, up to the first whose state is reserved. The header says itself whether it is extended.
pub fn parse_port_groups(b: &[u8]) -> Vec<PortGroup> {
    let end = usize::try_from(be32(b, 0)).unwrap_or(usize::MAX).saturating_add(4).min(b.len());
    // Bits 6:4 of a group's first byte are reserved; of the extended header they are 001b.
    let start = if byte(b, 4) >> 4 & 7 == 1 { 8 } else { 4 };
    let mut rest = b.get(start..end).unwrap_or(&[]);
    let mut out = Vec::new();
    while let Some((group, after)) = port_group(rest) {
        out.push(group);
        rest = after;
    }
    out
}
fn port_group(b: &[u8]) -> Option<(PortGroup, &[u8])> {
    let (head, rest) = b.split_at_checked(GROUP_HEAD_BYTES)?;
    let (ports, rest) = rest.split_at_checked(usize::from(head[7]) * PORT_BYTES)?;
    let group = PortGroup {
        id: be16(head, 2),
        preferred: bit(head, 0, 7),
        state: AccessState::parse(head[0] & 0xF)?,
        status: head[5],
        supported: head[1],
        ports: ports.as_chunks::<PORT_BYTES>().0.iter().map(|p| be16(p, 2)).collect(),
    };
    Some((group, rest))
}

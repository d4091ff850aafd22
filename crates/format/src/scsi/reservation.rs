//! PERSISTENT RESERVE IN and OUT (SPC-4 6.15 and 6.16): types, parameter data and lists.
//!
//! Invariants: no list is longer than its bytes; TransportIDs of one list are at most [`TRANSPORT_IDS_MAX`].
//! Never: says what a value means for a reservation.

use super::invalid::Invalid;
use super::transport_id::TransportId;
use super::wire::{be16, be32, be64, bit, len16, len32, put};

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$v_meta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$v_meta])* $variant = $value,)* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// From its code; `None` when that is none.
            pub const fn parse(code: u8) -> Option<Self> {
                match code { $($value => Some(Self::$variant),)* _ => None }
            }
            /// Its code.
            pub const fn code(self) -> u8 {
                self as u8
            }
        }
    };
}

codes! {
    /// Type of a persistent reservation (SPC-4 table 186).
    ReservationType {
        /// Write Exclusive.
        WriteExclusive = 1,
        /// Exclusive Access.
        ExclusiveAccess = 3,
        /// Write Exclusive, Registrants Only.
        WriteExclusiveRegistrantsOnly = 5,
        /// Exclusive Access, Registrants Only.
        ExclusiveAccessRegistrantsOnly = 6,
        /// Write Exclusive, All Registrants.
        WriteExclusiveAllRegistrants = 7,
        /// Exclusive Access, All Registrants.
        ExclusiveAccessAllRegistrants = 8,
    }
}
codes! {
    /// Service action of PERSISTENT RESERVE IN.
    ReserveIn {
        /// READ KEYS.
        ReadKeys = 0,
        /// READ RESERVATION.
        ReadReservation = 1,
        /// REPORT CAPABILITIES.
        ReportCapabilities = 2,
        /// READ FULL STATUS.
        ReadFullStatus = 3,
    }
}
codes! {
    /// Service action of PERSISTENT RESERVE OUT.
    ReserveOut {
        /// REGISTER.
        Register = 0,
        /// RESERVE.
        Reserve = 1,
        /// RELEASE.
        Release = 2,
        /// CLEAR.
        Clear = 3,
        /// PREEMPT.
        Preempt = 4,
        /// PREEMPT AND ABORT.
        PreemptAndAbort = 5,
        /// REGISTER AND IGNORE EXISTING KEY.
        RegisterAndIgnore = 6,
        /// REGISTER AND MOVE.
        RegisterAndMove = 7,
    }
}

/// Bytes of the parameter list of PERSISTENT RESERVE OUT, without TransportIDs.
pub const OUT_LIST_BYTES: usize = 24;
/// Most TransportIDs that one REGISTER with SPEC_I_PT may name.
pub const TRANSPORT_IDS_MAX: usize = 64;

/// READ KEYS.
pub fn build_keys(generation: u32, keys: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut out = vec![0; 8];
    put(&mut out, 0, &generation.to_be_bytes());
    keys.for_each(|k| out.extend_from_slice(&k.to_be_bytes()));
    let bytes = len32(out.len() - 8);
    put(&mut out, 4, &bytes);
    out
}
/// Generation and the keys that are there in full; `None` when there is no head.
pub fn parse_keys(b: &[u8]) -> Option<(u32, Vec<u64>)> {
    let list = b.get(8..)?;
    let bytes = usize::try_from(be32(b, 4)).unwrap_or(usize::MAX).min(list.len());
    let (keys, _) = list[..bytes].as_chunks::<8>();
    Some((be32(b, 0), keys.iter().map(|k| u64::from_be_bytes(*k)).collect()))
}

/// READ RESERVATION: the reservation, when there is one, as its holder's key and its type. The key is 0 when all registrants hold it.
pub fn build_reservation(generation: u32, held: Option<(u64, ReservationType)>) -> Vec<u8> {
    let mut out = vec![0; if held.is_some() { 24 } else { 8 }];
    put(&mut out, 0, &generation.to_be_bytes());
    if let Some((key, kind)) = held {
        out[7] = 16;
        put(&mut out, 8, &key.to_be_bytes());
        out[21] = kind.code();
    }
    out
}
/// Generation and reservation; `None` when it is cut off or makes no sense.
pub fn parse_reservation(b: &[u8]) -> Option<(u32, Option<(u64, ReservationType)>)> {
    let head = b.get(..8)?;
    match be32(head, 4) {
        0 => Some((be32(b, 0), None)),
        _ if b.len() < 24 => None,
        _ => Some((be32(b, 0), Some((be64(b, 8), ReservationType::parse(b[21] & 0xF)?)))),
    }
}

/// REPORT CAPABILITIES (SPC-4 6.15.4). All six types are supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Compatible reservation handling (CRH): RESERVE and RELEASE of SPC-2 from a registrant are answered as its exceptions say.
    pub compatible: bool,
    /// SPEC_I_PT is supported (SIP_C).
    pub spec_i_pt: bool,
    /// ALL_TG_PT is supported (ATP_C).
    pub all_target_ports: bool,
    /// Persist through power loss is supported (PTPL_C).
    pub persist_capable: bool,
    /// Persist through power loss is active (PTPL_A).
    pub persist_active: bool,
}

impl Capabilities {
    /// ALLOW COMMANDS 001b: TEST UNIT READY and such pass a reservation; nothing is said of others.
    const ALLOW_COMMANDS: u8 = 1;
    /// The parameter data.
    pub fn to_bytes(self) -> [u8; 8] {
        let can = u8::from(self.compatible) << 4
            | u8::from(self.spec_i_pt) << 3
            | u8::from(self.all_target_ports) << 2
            | u8::from(self.persist_capable);
        let [_, length] = len16(8);
        [0, length, can, 0x80 | Self::ALLOW_COMMANDS << 4 | u8::from(self.persist_active), 0xEA, 0x01, 0, 0]
    }
    /// From the parameter data.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let b = b.get(..8)?;
        Some(Self {
            compatible: bit(b, 2, 4),
            spec_i_pt: bit(b, 2, 3),
            all_target_ports: bit(b, 2, 2),
            persist_capable: bit(b, 2, 0),
            persist_active: bit(b, 3, 0),
        })
    }
}

/// A registration in READ FULL STATUS (SPC-4 6.15.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullStatus {
    /// Its key.
    pub key: u64,
    /// It counts for all target ports (ALL_TG_PT).
    pub all_target_ports: bool,
    /// It holds the reservation, which is of this type.
    pub holds: Option<ReservationType>,
    /// Relative target port identifier.
    pub port: u16,
    /// Who.
    pub transport_id: TransportId,
}

/// READ FULL STATUS.
pub fn build_full_status<'a>(generation: u32, list: impl Iterator<Item = &'a FullStatus>) -> Vec<u8> {
    let mut out = vec![0; 8];
    put(&mut out, 0, &generation.to_be_bytes());
    for one in list {
        let id = one.transport_id.to_bytes();
        let at = out.len();
        out.resize(at + 24, 0);
        put(&mut out, at, &one.key.to_be_bytes());
        out[at + 12] = u8::from(one.all_target_ports) << 1 | u8::from(one.holds.is_some());
        out[at + 13] = one.holds.map_or(0, ReservationType::code);
        put(&mut out, at + 18, &one.port.to_be_bytes());
        put(&mut out, at + 20, &len32(id.len()));
        out.extend_from_slice(&id);
    }
    let bytes = len32(out.len() - 8);
    put(&mut out, 4, &bytes);
    out
}
/// Generation and the registrations that are there in full, up to the first that makes no sense.
pub fn parse_full_status(b: &[u8]) -> Option<(u32, Vec<FullStatus>)> {
    let list = b.get(8..)?;
    let mut rest = &list[..usize::try_from(be32(b, 4)).unwrap_or(usize::MAX).min(list.len())];
    let mut out = Vec::new();
    while let Some((one, after)) = full_status(rest) {
        out.push(one);
        rest = after;
    }
    Some((be32(b, 0), out))
}
fn full_status(b: &[u8]) -> Option<(FullStatus, &[u8])> {
    let body = b.get(24..)?;
    let id = body.get(..usize::try_from(be32(b, 20)).ok()?)?;
    let holds = if bit(b, 12, 0) { Some(ReservationType::parse(b[13] & 0xF)?) } else { None };
    let (transport_id, _) = TransportId::parse(id)?;
    let one = FullStatus { key: be64(b, 0), all_target_ports: bit(b, 12, 1), holds, port: be16(b, 18), transport_id };
    Some((one, &body[id.len()..]))
}

/// Parameter list of PERSISTENT RESERVE OUT, but for REGISTER AND MOVE (SPC-4 6.16.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutList {
    /// RESERVATION KEY.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY.
    pub action_key: u64,
    /// Register on all target ports (ALL_TG_PT).
    pub all_target_ports: bool,
    /// Activate persist through power loss (APTPL).
    pub persist: bool,
    /// The I_T nexuses of SPEC_I_PT; `None` without it.
    pub nexuses: Option<Vec<TransportId>>,
}

impl OutList {
    /// From the list, whole. SPEC_I_PT counts with REGISTER only and is refused with others (SPC-4 6.16.3); ALL_TG_PT and APTPL are passed
    /// over but with the two REGISTERs.
    ///
    /// # Errors
    /// A wrong length; TransportIDs that are none or too many.
    pub fn parse(action: ReserveOut, b: &[u8]) -> Result<Self, Invalid> {
        if b.len() < OUT_LIST_BYTES {
            return Err(Invalid::LIST_LENGTH);
        }
        let registers = matches!(action, ReserveOut::Register | ReserveOut::RegisterAndIgnore);
        let nexuses = match (bit(b, 20, 3), action) {
            (false, _) if b.len() != OUT_LIST_BYTES => return Err(Invalid::LIST_LENGTH),
            (false, _) => None,
            (true, ReserveOut::Register) => Some(parse_nexuses(b)?),
            (true, _) => return Err(Invalid::parameter_bit(20, 3)),
        };
        Ok(Self {
            key: be64(b, 0),
            action_key: be64(b, 8),
            all_target_ports: registers && bit(b, 20, 2),
            persist: registers && bit(b, 20, 0),
            nexuses,
        })
    }
    /// The list.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; OUT_LIST_BYTES];
        put(&mut out, 0, &self.key.to_be_bytes());
        put(&mut out, 8, &self.action_key.to_be_bytes());
        out[20] = u8::from(self.nexuses.is_some()) << 3 | u8::from(self.all_target_ports) << 2 | u8::from(self.persist);
        if let Some(list) = &self.nexuses {
            out.extend_from_slice(&[0; 4]);
            list.iter().for_each(|id| out.extend_from_slice(&id.to_bytes()));
            let bytes = len32(out.len() - OUT_LIST_BYTES - 4);
            put(&mut out, OUT_LIST_BYTES, &bytes);
        }
        out
    }
}

fn parse_nexuses(b: &[u8]) -> Result<Vec<TransportId>, Invalid> {
    let list = b.get(OUT_LIST_BYTES + 4..).ok_or(Invalid::LIST_LENGTH)?;
    if usize::try_from(be32(b, OUT_LIST_BYTES)) != Ok(list.len()) {
        return Err(Invalid::LIST_LENGTH);
    }
    let (mut rest, mut out) = (list, Vec::new());
    while !rest.is_empty() {
        let at = b.len() - rest.len();
        if out.len() == TRANSPORT_IDS_MAX {
            return Err(Invalid::parameter(OUT_LIST_BYTES));
        }
        let (id, used) = TransportId::parse(rest).ok_or_else(|| Invalid::parameter(at))?;
        out.push(id);
        rest = &rest[used..];
    }
    Ok(out)
}

/// Parameter list of REGISTER AND MOVE (SPC-4 6.16.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveList {
    /// RESERVATION KEY.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: that of the new holder.
    pub action_key: u64,
    /// The old holder's registration goes (UNREG).
    pub unregister: bool,
    /// Activate persist through power loss (APTPL).
    pub persist: bool,
    /// Relative target port identifier of the new holder's nexus.
    pub port: u16,
    /// Who becomes the holder.
    pub to: TransportId,
}

impl MoveList {
    /// From the list, whole.
    ///
    /// # Errors
    /// A wrong length; a TransportID that is none.
    pub fn parse(b: &[u8]) -> Result<Self, Invalid> {
        let id = b.get(OUT_LIST_BYTES..).ok_or(Invalid::LIST_LENGTH)?;
        if usize::try_from(be32(b, 20)) != Ok(id.len()) {
            return Err(Invalid::LIST_LENGTH);
        }
        match TransportId::parse(id) {
            Some((to, used)) if used == id.len() => Ok(Self {
                key: be64(b, 0),
                action_key: be64(b, 8),
                unregister: bit(b, 17, 1),
                persist: bit(b, 17, 0),
                port: be16(b, 18),
                to,
            }),
            _ => Err(Invalid::parameter(OUT_LIST_BYTES)),
        }
    }
    /// The list.
    pub fn to_bytes(&self) -> Vec<u8> {
        let id = self.to.to_bytes();
        let mut out = vec![0; OUT_LIST_BYTES];
        put(&mut out, 0, &self.key.to_be_bytes());
        put(&mut out, 8, &self.action_key.to_be_bytes());
        out[17] = u8::from(self.unregister) << 1 | u8::from(self.persist);
        put(&mut out, 18, &self.port.to_be_bytes());
        put(&mut out, 20, &len32(id.len()));
        out.extend_from_slice(&id);
        out
    }
}

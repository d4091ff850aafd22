//! Designators of a logical unit and its ports: page 83h (SPC-4 7.8.6), and the target descriptors of EXTENDED COPY.
//!
//! Invariants: what is built parses to the same; a designator has at most 255 bytes.

use super::transport_id::PROTOCOL_ISCSI;
use super::vpd::{PAGE_IDENTIFICATION, build_page, parse_page};
use super::wire::{array, be16, byte};

/// What a designator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Association {
    /// The logical unit.
    Unit,
    /// The target port that the command came in by.
    Port,
    /// The target device.
    Device,
}
impl Association {
    const fn code(self) -> u8 {
        match self {
            Self::Unit => 0,
            Self::Port => 1,
            Self::Device => 2,
        }
    }
    const fn parse(code: u8) -> Option<Self> {
        match code & 3 {
            0 => Some(Self::Unit),
            1 => Some(Self::Port),
            2 => Some(Self::Device),
            _ => None,
        }
    }
}

/// A designator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Designator {
    /// NAA, IEEE Registered Extended, of the unit.
    Naa6([u8; 16]),
    /// T10 vendor identification and what the vendor adds, of the unit.
    T10Vendor {
        /// Vendor, 8 characters.
        vendor: String,
        /// The rest.
        id: String,
    },
    /// Relative target port identifier.
    RelativePort(u16),
    /// Target port group.
    PortGroup(u16),
    /// SCSI name string: an iSCSI name, of a device or (with `,t,0x` and the portal group tag) of a port.
    Name(Association, String),
    /// Another one, or one of these in an unusual form.
    Other {
        /// What it names.
        association: Association,
        /// CODE SET, 4 bits.
        code_set: u8,
        /// DESIGNATOR TYPE, 4 bits.
        kind: u8,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF8: u8 = 3;
/// DESIGNATOR TYPE of NAA.
pub const TYPE_NAA: u8 = 3;
/// Bytes of an NAA-6 designator.
pub const NAA6_BYTES: usize = 16;
const TYPE_T10: u8 = 1;
const TYPE_RELATIVE_PORT: u8 = 4;
const TYPE_PORT_GROUP: u8 = 5;
const TYPE_NAME: u8 = 8;

/// The NAA-6 designator of an id of 16 bytes, such as a UUID. There is no company identifier: the field has bits of the id, marked as
/// locally administered and not a group, so that it is not one that IEEE gave to somebody. The other 122 bits are those of the id.
pub const fn naa6(mut id: [u8; 16]) -> [u8; 16] {
    id[0] = 0x60 | id[0] & 0x0F;
    id[1] = id[1] & 0xCF | 0x20;
    id
}

/// The name of a target port of iSCSI: the target's name and its portal group tag (RFC 7143 4.2.7.1 and SAM-5).
pub fn port_name(target: &str, portal_group: u16) -> String {
    format!("{target},t,0x{portal_group:04x}")
}

impl Designator {
    fn parts(&self) -> (Association, u8, u8, Vec<u8>) {
        match self {
            Self::Naa6(id) => (Association::Unit, BINARY, TYPE_NAA, id.to_vec()),
            Self::T10Vendor { vendor, id } => {
                let text = [&crate::nvme::text::padded::<8>(vendor)[..], id.as_bytes()].concat();
                (Association::Unit, ASCII, TYPE_T10, text)
            }
            Self::RelativePort(n) => (Association::Port, BINARY, TYPE_RELATIVE_PORT, u32::from(*n).to_be_bytes().to_vec()),
            Self::PortGroup(n) => (Association::Port, BINARY, TYPE_PORT_GROUP, u32::from(*n).to_be_bytes().to_vec()),
            Self::Name(association, name) => {
                let mut bytes = name.as_bytes().to_vec();
                bytes.resize((name.len() + 1).next_multiple_of(4), 0);
                (*association, UTF8, TYPE_NAME, bytes)
            }
            Self::Other { association, code_set, kind, bytes } => (*association, code_set & 0xF, kind & 0xF, bytes.clone()),
        }
    }
    /// Its descriptor. What is longer than 255 bytes is cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (association, code_set, kind, mut bytes) = self.parts();
        bytes.truncate(u8::MAX.into());
        let (protocol, valid) = if association == Association::Unit { (0, 0) } else { (PROTOCOL_ISCSI << 4, 0x80) };
        let head = [protocol | code_set, valid | association.code() << 4 | kind, 0, bytes.len() as u8];
        [&head[..], &bytes].concat()
    }
    /// From the beginning of `b`, with the bytes that it takes; `None` when it is cut off or its association is reserved.
    pub fn parse(b: &[u8]) -> Option<(Self, usize)> {
        let used = 4 + usize::from(byte(b, 3));
        let bytes = b.get(4..used)?;
        let association = Association::parse(b[1] >> 4)?;
        Some((Self::of(association, b[0] & 0xF, b[1] & 0xF, bytes), used))
    }
    /// From its parts, as a target descriptor of EXTENDED COPY has them too.
    pub(super) fn of(association: Association, code_set: u8, kind: u8, bytes: &[u8]) -> Self {
        let known = match (association, code_set, kind, bytes.len()) {
            (Association::Unit, BINARY, TYPE_NAA, NAA6_BYTES) if bytes[0] >> 4 == 6 => Some(Self::Naa6(array(bytes, 0))),
            (Association::Unit, ASCII, TYPE_T10, 8..) if bytes.is_ascii() => Some(Self::T10Vendor {
                vendor: crate::nvme::text::trimmed(&bytes[..8]),
                id: String::from_utf8_lossy(&bytes[8..]).into_owned(),
            }),
            (Association::Port, BINARY, TYPE_RELATIVE_PORT, 4) => Some(Self::RelativePort(be16(bytes, 2))),
            (Association::Port, BINARY, TYPE_PORT_GROUP, 4) => Some(Self::PortGroup(be16(bytes, 2))),
            (_, UTF8, TYPE_NAME, 4..) => str::from_utf8(bytes).ok().map(|t| Self::Name(association, t.trim_end_matches('\0').to_owned())),
            _ => None,
        };
        let other = || Self::Other { association, code_set, kind, bytes: bytes.to_vec() };
        known.filter(|d| d.parts().3 == bytes).unwrap_or_else(other)
    }
}

/// Page 83h.
pub fn build_identification(peripheral: u8, list: &[Designator]) -> Vec<u8> {
    build_page(peripheral, PAGE_IDENTIFICATION, &list.iter().flat_map(Designator::to_bytes).collect::<Vec<_>>())
}
/// The designators of page 83h that are there in full, up to the first that makes no sense.
pub fn parse_identification(b: &[u8]) -> Option<Vec<Designator>> {
    let (PAGE_IDENTIFICATION, mut rest) = parse_page(b)? else { return None };
    let mut out = Vec::new();
    while let Some((one, used)) = Designator::parse(rest) {
        out.push(one);
        rest = &rest[used..];
    }
    Some(out)
}

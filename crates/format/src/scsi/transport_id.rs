//! TransportIDs of iSCSI (SPC-4 7.6.4.6): the name of a host, or of its port.
//!
//! Invariants: a name has 1 to [`ISCSI_NAME_BYTES_MAX`] bytes of UTF-8 without control characters; what is built parses to the same.

use super::wire::{be16, byte, len16, put};

/// Longest iSCSI name, bytes (RFC 7143 4.2.7.1).
pub const ISCSI_NAME_BYTES_MAX: usize = 223;
/// PROTOCOL IDENTIFIER of iSCSI (SPC-4 7.6.1).
pub const PROTOCOL_ISCSI: u8 = 5;
/// Least ADDITIONAL LENGTH of an iSCSI TransportID.
const BODY_BYTES_MIN: usize = 20;
/// Between the name and the ISID of a port.
const SEPARATOR: &str = ",i,0x";

/// Who a nexus comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportId {
    /// The iSCSI name of the host.
    pub name: String,
    /// ISID of the session: one port of the host (format 01b). `None`: the host by its name (format 00b).
    pub isid: Option<[u8; 6]>,
}

impl TransportId {
    /// Its bytes, padded with zeroes to a multiple of four. The name should be one: bytes after a NUL would be lost.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![PROTOCOL_ISCSI | u8::from(self.isid.is_some()) << 6, 0, 0, 0];
        out.extend_from_slice(self.name.as_bytes());
        if let Some(isid) = self.isid {
            out.extend_from_slice(SEPARATOR.as_bytes());
            isid.iter().for_each(|b| out.extend_from_slice(format!("{b:02x}").as_bytes()));
        }
        out.push(0);
        let body = (out.len() - 4).next_multiple_of(4).max(BODY_BYTES_MIN);
        out.resize(4 + body, 0);
        put(&mut out, 2, &len16(body));
        out
    }
    /// From the beginning of `b`, with the bytes that it takes. `None` when it is of another protocol, malformed or cut off.
    pub fn parse(b: &[u8]) -> Option<(Self, usize)> {
        let body = b.get(4..4 + usize::from(be16(b, 2)))?;
        if body.len() < BODY_BYTES_MIN || !body.len().is_multiple_of(4) || byte(b, 0) & 0x3F != PROTOCOL_ISCSI {
            return None;
        }
        let end = body.iter().position(|v| *v == 0)?;
        let text = str::from_utf8(&body[..end]).ok()?;
        let (name, isid) = match byte(b, 0) >> 6 {
            0 => (text, None),
            1 => {
                let (name, digits) = text.split_once(SEPARATOR)?;
                (name, Some(isid_of(digits)?))
            }
            _ => return None,
        };
        is_iscsi_name(name).then(|| (Self { name: name.to_owned(), isid }, 4 + body.len()))
    }
}

/// Whether `name` can be an iSCSI name: no more than its length, its characters and its prefix are checked.
pub fn is_iscsi_name(name: &str) -> bool {
    (5..=ISCSI_NAME_BYTES_MAX).contains(&name.len())
        && ["iqn.", "eui.", "naa."].iter().any(|p| name.get(..4).is_some_and(|n| n.eq_ignore_ascii_case(p)))
        && !name.contains(|c: char| c.is_control() || c.is_whitespace() || c == ',')
}

fn isid_of(digits: &str) -> Option<[u8; 6]> {
    let ok = digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let value = if ok { u64::from_str_radix(digits, 16).ok()? } else { return None };
    let mut isid = [0; 6];
    isid.copy_from_slice(&value.to_be_bytes()[2..]);
    Some(isid)
}

//! What a session negotiates (RFC 7143 section 13), and the answer to each key.
//!
//! Invariant: what is agreed lies within [`crate::limits`], and is what the answer says.

use crate::limits::{BURST_MAX, FIRST_BURST_MAX, R2TS_MAX, SESSION_CONNECTIONS_MAX};

/// What was agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Headers have a CRC-32C.
    pub header_digest: bool,
    /// Data has a CRC-32C.
    pub data_digest: bool,
    /// Bytes of data in one PDU that the host takes.
    pub host_segment: u32,
    /// All data but immediate data is asked for.
    pub initial_r2t: bool,
    /// Commands may carry data.
    pub immediate_data: bool,
    /// Bytes of a sequence of data at most.
    pub max_burst: u32,
    /// Bytes of unsolicited data of a command at most.
    pub first_burst: u32,
    /// R2Ts of a command that are not answered at most.
    pub r2ts: u32,
    /// Connections of the session at most.
    pub connections: u32,
    /// This is the first connection of its session: others find most keys agreed (RFC 7143 section 13, "Leading Only").
    pub leading: bool,
}

impl Default for Params {
    /// The standard's defaults.
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            host_segment: 8192,
            initial_r2t: true,
            immediate_data: true,
            max_burst: 262_144,
            first_burst: 65_536,
            r2ts: 1,
            connections: 1,
            leading: true,
        }
    }
}

/// The answer to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAnswer {
    /// It is declared and wants none.
    None,
    /// This value.
    Value(String),
}

impl KeyAnswer {
    fn word(word: &str) -> Self {
        KeyAnswer::Value(word.to_owned())
    }
}

/// A number in decimal or, after `0x`, in hexadecimal.
pub fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+')),
        None => text.parse().ok().filter(|_| !text.starts_with('+')),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn yes_no(value: bool) -> KeyAnswer {
    KeyAnswer::word(if value { "Yes" } else { "No" })
}

/// A segment or burst: 512 to 2^24 - 1 bytes.
fn bytes(text: &str) -> Option<u32> {
    number(text).filter(|n| (512..1 << 24).contains(n))
}

/// A count: 1 to 65535.
fn few(text: &str) -> Option<u32> {
    number(text).filter(|n| (1..=65_535).contains(n))
}

impl Params {
    /// Those of another connection of the session, before it has said anything.
    pub fn joining(&self) -> Params {
        let own = Params::default();
        Params { header_digest: own.header_digest, data_digest: own.data_digest, host_segment: own.host_segment, leading: false, ..*self }
    }

    /// Takes an operational key of a host. What makes no sense is answered with Reject, what is not known with NotUnderstood.
    pub fn take(&mut self, key: &str, value: &str) -> KeyAnswer {
        self.known(key, value).unwrap_or_else(|| KeyAnswer::word("Reject"))
    }

    fn known(&mut self, key: &str, value: &str) -> Option<KeyAnswer> {
        Some(match key {
            "HeaderDigest" => Self::digest(&mut self.header_digest, value)?,
            "DataDigest" => Self::digest(&mut self.data_digest, value)?,
            "MaxRecvDataSegmentLength" => {
                // Whole words, as nothing pads within a sequence.
                self.host_segment = bytes(value)? & !3;
                KeyAnswer::None
            }
            "InitialR2T" => {
                self.initial_r2t = self.first(self.initial_r2t, boolean(value)?);
                yes_no(self.initial_r2t)
            }
            "ImmediateData" => {
                self.immediate_data = self.first(self.immediate_data, boolean(value)?);
                yes_no(self.immediate_data)
            }
            "MaxBurstLength" => {
                self.max_burst = self.first(self.max_burst, bytes(value)?.min(BURST_MAX) & !3);
                KeyAnswer::Value(self.max_burst.to_string())
            }
            "FirstBurstLength" => {
                self.first_burst = self.first(self.first_burst, bytes(value)?.min(FIRST_BURST_MAX));
                KeyAnswer::Value(self.first_burst.to_string())
            }
            "MaxConnections" => {
                self.connections = self.first(self.connections, few(value)?.min(SESSION_CONNECTIONS_MAX));
                KeyAnswer::Value(self.connections.to_string())
            }
            "MaxOutstandingR2T" => {
                self.r2ts = self.first(self.r2ts, few(value)?.min(R2TS_MAX));
                KeyAnswer::Value(self.r2ts.to_string())
            }
            "DataPDUInOrder" | "DataSequenceInOrder" => {
                boolean(value)?;
                yes_no(true)
            }
            "DefaultTime2Wait" => KeyAnswer::Value(number(value).filter(|n| *n <= 3600)?.max(2).to_string()),
            "DefaultTime2Retain" => {
                number(value).filter(|n| *n <= 3600)?;
                KeyAnswer::word("0")
            }
            "ErrorRecoveryLevel" => {
                number(value).filter(|n| *n <= 2)?;
                KeyAnswer::word("0")
            }
            // Obsolete (13.25): they must not be answered with NotUnderstood.
            "IFMarker" | "OFMarker" => KeyAnswer::word("No"),
            "IFMarkInt" | "OFMarkInt" => return None,
            "TaskReporting" => KeyAnswer::word(value.split(',').find(|v| *v == "RFC3720")?),
            "iSCSIProtocolLevel" => KeyAnswer::Value(number(value).filter(|n| *n <= 31)?.min(1).to_string()),
            "InitiatorAlias" => KeyAnswer::None,
            _ => KeyAnswer::word("NotUnderstood"),
        })
    }

    /// What a key that only the first connection of a session agrees on comes to.
    fn first<T>(&self, agreed: T, asked: T) -> T {
        if self.leading { asked } else { agreed }
    }

    /// The first of the host's list that is known here.
    fn digest(of: &mut bool, list: &str) -> Option<KeyAnswer> {
        let chosen = list.split(',').find(|v| matches!(*v, "CRC32C" | "None"))?;
        *of = chosen == "CRC32C";
        Some(KeyAnswer::word(chosen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(p: &mut Params, key: &str, v: &str) -> String {
        match p.take(key, v) {
            KeyAnswer::None => String::new(),
            KeyAnswer::Value(v) => v,
        }
    }

    #[test]
    fn each_key_is_answered_by_its_rule_and_what_is_agreed_holds() {
        let mut p = Params::default();
        let cases = [
            ("HeaderDigest", "CRC32C,None", "CRC32C"),
            ("DataDigest", "None,CRC32C", "None"),
            ("DataDigest", "X-mine", "Reject"),
            ("MaxRecvDataSegmentLength", "65536", ""),
            ("MaxRecvDataSegmentLength", "511", "Reject"),
            ("InitialR2T", "No", "No"),
            ("ImmediateData", "Yes", "Yes"),
            ("ImmediateData", "yes", "Reject"),
            ("MaxBurstLength", "16776192", "1048576"),
            ("FirstBurstLength", "0x2000", "8192"),
            ("FirstBurstLength", "16777216", "Reject"),
            ("MaxConnections", "32", "8"),
            ("MaxConnections", "0", "Reject"),
            ("MaxOutstandingR2T", "4", "4"),
            ("DataPDUInOrder", "No", "Yes"),
            ("DataSequenceInOrder", "No", "Yes"),
            ("DefaultTime2Wait", "0", "2"),
            ("DefaultTime2Retain", "20", "0"),
            ("ErrorRecoveryLevel", "2", "0"),
            ("ErrorRecoveryLevel", "3", "Reject"),
            ("IFMarker", "Yes", "No"),
            ("OFMarkInt", "2048", "Reject"),
            ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
            ("iSCSIProtocolLevel", "2", "1"),
            ("X-com.example", "1", "NotUnderstood"),
        ];
        for (key, v, want) in cases {
            assert_eq!(value(&mut p, key, v), want, "{key}={v}");
        }
        let want = Params {
            header_digest: true,
            data_digest: false,
            host_segment: 65_536,
            initial_r2t: false,
            immediate_data: true,
            max_burst: 1 << 20,
            first_burst: 8192,
            r2ts: 4,
            connections: 8,
            leading: true,
        };
        assert_eq!(p, want, "what was rejected changed nothing");
        let mut other = p.joining();
        for (key, v, want) in [("MaxConnections", "2", "8"), ("FirstBurstLength", "512", "8192"), ("DataDigest", "CRC32C", "CRC32C")] {
            assert_eq!(value(&mut other, key, v), want, "{key}={v} on another connection");
        }
        let want = Params { header_digest: false, data_digest: true, host_segment: 8192, leading: false, ..want };
        assert_eq!(other, want, "what the first one has agreed holds for all");
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!((number("10"), number("0x1F"), number("0Xff")), (Some(10), Some(31), Some(255)));
        assert_eq!((number("+1"), number("0x+1"), number(""), number("4294967296")), (None, None, None, None));
    }
}

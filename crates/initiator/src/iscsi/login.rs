//! The host side of a login (RFC 7143 section 6): from names to what is agreed.
//!
//! ```text
//!  names, AuthMethod ─► (CHAP_A ─► CHAP_N, CHAP_R ─►) operational keys ─► full feature
//! ```
//!
//! Invariants: with a secret nothing but CHAP is offered; a target that has to prove itself has done so before the operational stage; the
//! steps are bounded.
//! Never: shows a secret.

use super::error::SessionError;
use crate::error::Error;
use base::SecretBytes;
use format::iscsi::{LoginRequest, LoginResponse, parse_pairs, push_pair};
use openssl::hash::{MessageDigest, hash};
use std::io::Read;
use std::path::Path;

/// Bytes of data in one PDU that are taken from a target.
pub(super) const SEGMENT_BYTES_MAX: usize = 256 << 10;
/// Unsolicited bytes of a command that are offered.
const FIRST_BURST_BYTES: u32 = 64 << 10;
/// Bytes of a burst that are offered.
const BURST_BYTES: u32 = 1 << 20;
/// Requests of a login, at most.
const STEPS_MAX: u32 = 16;
/// Bytes of text that one answer may have.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a file with a secret, at most.
const FILE_BYTES_MAX: u64 = 4096;
/// Bytes of a challenge.
const CHALLENGE_BYTES: usize = 16;

const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// What a host authenticates with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chap {
    /// CHAP_N.
    pub user: String,
    /// Its secret.
    pub secret: SecretBytes,
    /// The secret that the target has to prove itself with (mutual CHAP); `None`: it is believed.
    pub target_secret: Option<SecretBytes>,
}

/// Who logs in, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginOptions {
    /// The host's iSCSI name.
    pub host: String,
    /// The target's.
    pub target: String,
    /// ISID: sessions of a host with the same one replace each other.
    pub isid: [u8; 6],
    /// Headers have a CRC-32C.
    pub header_digest: bool,
    /// Data has a CRC-32C.
    pub data_digest: bool,
    /// Proof of who it is.
    pub chap: Option<Chap>,
}

/// A secret from a file that holds its text.
pub fn secret_file(path: &Path) -> Result<SecretBytes, Error> {
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    let read = std::fs::File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|cause| Error::SecretFile { path: path.to_owned(), cause })?;
    Ok(SecretBytes::new(bytes.trim_ascii().to_vec()))
}

/// What was agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Bytes of data in one PDU that the target takes.
    pub segment: u32,
    /// Commands may carry data.
    pub immediate: bool,
    /// Unsolicited bytes of a command at most.
    pub first_burst: u32,
    /// Bytes of a burst at most.
    pub burst: u32,
}

impl Default for Agreed {
    /// The standard's defaults.
    fn default() -> Self {
        Agreed { segment: 8192, immediate: true, first_burst: 65_536, burst: 262_144 }
    }
}

/// What comes next.
enum Wait {
    /// The answer to the names, with the method that was offered.
    Method,
    /// The challenge.
    Challenge,
    /// The answer to the response.
    Proof,
    /// The answer to the operational keys.
    Agreement,
}

/// See the module.
pub(super) struct Login {
    options: LoginOptions,
    wait: Wait,
    steps: u32,
    text: Vec<u8>,
    challenge: [u8; CHALLENGE_BYTES],
    agreed: Agreed,
    cmd_sn: u32,
    digest: MessageDigest,
    random: fn(&mut [u8]),
}

/// A request that is to be sent.
pub(super) type Send = (LoginRequest, Vec<u8>);

impl Login {
    /// A login, and its first request. `random` gives bytes that nobody can guess.
    pub(super) fn new(options: LoginOptions, cmd_sn: u32, random: fn(&mut [u8])) -> (Self, Send) {
        let mut login = Login {
            options,
            wait: Wait::Method,
            steps: 0,
            text: Vec::new(),
            challenge: [0; CHALLENGE_BYTES],
            agreed: Agreed::default(),
            cmd_sn,
            digest: MessageDigest::sha256(),
            random,
        };
        let chap = login.options.chap.is_some();
        let pairs = [
            ("InitiatorName", login.options.host.clone()),
            ("SessionType", "Normal".into()),
            ("TargetName", login.options.target.clone()),
            ("AuthMethod", if chap { "CHAP" } else { "None" }.into()),
        ];
        let first = login.request(SECURITY, !chap, &pairs);
        (login, first)
    }

    pub(super) fn agreed(&self) -> Agreed {
        self.agreed
    }

    fn request(&mut self, stage: u8, transit: bool, pairs: &[(&str, String)]) -> Send {
        let next = if stage == SECURITY { OPERATIONAL } else { FULL_FEATURE };
        let request = LoginRequest {
            transit,
            stage,
            next: if transit { next } else { 0 },
            isid: self.options.isid,
            cmd_sn: self.cmd_sn,
            ..LoginRequest::default()
        };
        let mut text = Vec::new();
        pairs.iter().for_each(|(k, v)| push_pair(&mut text, k, v));
        (request, text)
    }

    /// Takes an answer with its text. The next request; `None`: the login is done.
    pub(super) fn take(&mut self, answer: &LoginResponse, text: &[u8]) -> Result<Option<Send>, SessionError> {
        if answer.status != 0 {
            return Err(SessionError::Refused(answer.status));
        }
        self.steps += 1;
        if self.steps > STEPS_MAX || self.text.len() + text.len() > TEXT_BYTES_MAX {
            return Err(SessionError::EndlessLogin);
        }
        self.text.extend_from_slice(text);
        let stage = if matches!(self.wait, Wait::Agreement) { OPERATIONAL } else { SECURITY };
        if answer.more {
            return Ok(Some(self.request(stage, false, &[])));
        }
        let text = std::mem::take(&mut self.text);
        let pairs = parse_pairs(&text)?;
        let of = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let must = |key: &'static str, want: &str| match of(key) {
            Some(value) if value == want => Ok(()),
            value => Err(SessionError::Disagrees { key, value: value.unwrap_or_default().into() }),
        };
        match self.wait {
            Wait::Method if self.options.chap.is_some() => {
                must("AuthMethod", "CHAP")?;
                self.wait = Wait::Challenge;
                Ok(Some(self.request(SECURITY, false, &[("CHAP_A", "7,5".into())])))
            }
            Wait::Method => {
                // A target that needs no security stage may leave it out.
                if of("AuthMethod").is_some() {
                    must("AuthMethod", "None")?;
                }
                Ok(Some(self.go_up(answer.transit)))
            }
            Wait::Challenge => self.respond([of("CHAP_A"), of("CHAP_I"), of("CHAP_C")]).map(Some),
            Wait::Proof => {
                self.check_proof(of("CHAP_R"))?;
                Ok(Some(self.go_up(answer.transit)))
            }
            Wait::Agreement => {
                self.agree(&pairs)?;
                if !answer.transit {
                    return Ok(Some(self.request(OPERATIONAL, true, &[])));
                }
                Ok(None)
            }
        }
    }

    /// To the operational stage, once the target goes there.
    fn go_up(&mut self, goes: bool) -> Send {
        if !goes {
            return self.request(SECURITY, true, &[]);
        }
        self.wait = Wait::Agreement;
        let digest = |wanted: bool| (if wanted { "CRC32C" } else { "None" }).to_owned();
        let keys = [
            ("HeaderDigest", digest(self.options.header_digest)),
            ("DataDigest", digest(self.options.data_digest)),
            ("MaxRecvDataSegmentLength", SEGMENT_BYTES_MAX.to_string()),
            ("InitialR2T", "Yes".into()),
            ("ImmediateData", "Yes".into()),
            ("MaxBurstLength", BURST_BYTES.to_string()),
            ("FirstBurstLength", FIRST_BURST_BYTES.to_string()),
            ("MaxConnections", "1".into()),
            ("MaxOutstandingR2T", "1".into()),
            ("DataPDUInOrder", "Yes".into()),
            ("DataSequenceInOrder", "Yes".into()),
            ("DefaultTime2Wait", "2".into()),
            ("DefaultTime2Retain", "0".into()),
            ("ErrorRecoveryLevel", "0".into()),
        ];
        self.request(OPERATIONAL, true, &keys)
    }

    fn agree(&mut self, pairs: &[(&str, &str)]) -> Result<(), SessionError> {
        let digest = |wanted: bool| if wanted { "CRC32C" } else { "None" };
        for (key, value) in pairs {
            let wrong = |key| Err(SessionError::Disagrees { key, value: (*value).to_owned() });
            let number = value.parse::<u32>().ok().filter(|n| (512..1 << 24).contains(n));
            match (*key, number) {
                ("HeaderDigest", _) if *value != digest(self.options.header_digest) => return wrong("HeaderDigest"),
                ("DataDigest", _) if *value != digest(self.options.data_digest) => return wrong("DataDigest"),
                ("ImmediateData", _) => self.agreed.immediate = *value == "Yes",
                // Whole words, as nothing pads within a sequence.
                ("MaxRecvDataSegmentLength", Some(n)) => self.agreed.segment = n & !3,
                ("MaxBurstLength", Some(n)) => self.agreed.burst = n.min(BURST_BYTES),
                ("FirstBurstLength", Some(n)) => self.agreed.first_burst = n.min(FIRST_BURST_BYTES),
                ("MaxRecvDataSegmentLength", None) => return wrong("MaxRecvDataSegmentLength"),
                ("MaxBurstLength", None) => return wrong("MaxBurstLength"),
                ("FirstBurstLength", None) => return wrong("FirstBurstLength"),
                _ => {}
            }
        }
        Ok(())
    }

    /// The answer to a challenge: CHAP_A, CHAP_I and CHAP_C.
    fn respond(&mut self, challenge: [Option<&str>; 3]) -> Result<Send, SessionError> {
        let Some(chap) = self.options.chap.clone() else { return Err(SessionError::Challenge) };
        let [Some(algorithm), Some(id), Some(bytes)] = challenge else { return Err(SessionError::Challenge) };
        self.digest = match algorithm {
            "5" => MessageDigest::md5(),
            "7" => MessageDigest::sha256(),
            _ => return Err(SessionError::Challenge),
        };
        let (Some(id), Some(bytes)) = (small(id), binary(bytes).filter(|c| !c.is_empty())) else { return Err(SessionError::Challenge) };
        let mut pairs = vec![("CHAP_N", chap.user.clone()), ("CHAP_R", hex(&proof(self.digest, id, &chap.secret, &bytes)?))];
        if chap.target_secret.is_some() {
            (self.random)(&mut self.challenge);
            // Never the target's own challenge: it would answer itself (12.1.3).
            if self.challenge[..] == bytes[..] {
                return Err(SessionError::Challenge);
            }
            pairs.push(("CHAP_I", self.challenge[0].to_string()));
            pairs.push(("CHAP_C", hex(&self.challenge)));
        }
        self.wait = Wait::Proof;
        Ok(self.request(SECURITY, true, &pairs))
    }

    fn check_proof(&self, response: Option<&str>) -> Result<(), SessionError> {
        let Some(secret) = self.options.chap.as_ref().and_then(|c| c.target_secret.as_ref()) else { return Ok(()) };
        let got = response.and_then(binary).ok_or(SessionError::NotProved)?;
        let want = proof(self.digest, self.challenge[0], secret, &self.challenge)?;
        let same = want.len() == got.len() && openssl::memcmp::eq(&want, &got);
        if same { Ok(()) } else { Err(SessionError::NotProved) }
    }
}

/// What CHAP answers to a challenge (RFC 1994 4.1).
fn proof(digest: MessageDigest, id: u8, secret: &[u8], challenge: &[u8]) -> Result<Vec<u8>, SessionError> {
    let all = zeroize::Zeroizing::new([&[id][..], secret, challenge].concat());
    hash(digest, &all).map(|d| d.to_vec()).map_err(|_| SessionError::Challenge)
}

/// A large binary value, as it is sent.
fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("0x{digits}")
}

/// A number of one byte: decimal, or hexadecimal after `0x`.
fn small(text: &str) -> Option<u8> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A large binary value (RFC 7143 6.1): hexadecimal after `0x`, base64 after `0b`.
fn binary(text: &str) -> Option<Vec<u8>> {
    let (kind, digits) = text.split_at_checked(2)?;
    match kind {
        "0x" | "0X" => {
            let digits: Option<Vec<u8>> = digits.bytes().map(|b| char::from(b).to_digit(16).map(|d| d as u8)).collect();
            let digits = digits.filter(|d| d.len().is_multiple_of(2))?;
            Some(digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect())
        }
        "0b" | "0B" => openssl::base64::decode_block(digits).ok(),
        _ => None,
    }
}

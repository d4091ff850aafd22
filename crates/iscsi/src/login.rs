//! The login phase of a connection (RFC 7143 section 6): who comes, for what, and what is agreed.
//!
//! ```text
//!  security ──T──► operational ──T──► full feature
//!     └────────────────T─────────────────▲
//! ```
//!
//! Invariants: stages go upwards only; text, PDUs and keys are bounded; nobody gets further than the names before they were admitted.
//! Never: does I/O, knows what is served (the caller admits).

use crate::chap::{Challenge, Credentials};
use crate::limits::{LOGIN_PDUS_MAX, SEGMENT_BYTES_MAX, TEXT_BYTES_MAX};
use crate::params::{KeyAnswer, Params};
use format::iscsi::{LoginRequest, LoginResponse, parse_pairs, push_pair};
use format::scsi::is_iscsi_name;
use std::sync::Arc;

const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Status class and detail of a Login Response (11.13.5).
pub mod status {
    /// Success.
    pub const SUCCESS: u16 = 0x0000;
    /// Initiator error, miscellaneous.
    pub const HOST_ERROR: u16 = 0x0200;
    /// Authentication failure.
    pub const AUTHENTICATION_FAILED: u16 = 0x0201;
    /// Authorization failure.
    pub const FORBIDDEN: u16 = 0x0202;
    /// Target not found.
    pub const NOT_FOUND: u16 = 0x0203;
    /// Unsupported version.
    pub const VERSION: u16 = 0x0205;
    /// The session has as many connections as it may.
    pub const TOO_MANY_CONNECTIONS: u16 = 0x0206;
    /// Missing parameter.
    pub const MISSING: u16 = 0x0207;
    /// Session type not supported.
    pub const SESSION_TYPE: u16 = 0x0209;
    /// The session does not exist.
    pub const NO_SESSION: u16 = 0x020A;
    /// Invalid request during login.
    pub const INVALID: u16 = 0x020B;
    /// Service unavailable.
    pub const UNAVAILABLE: u16 = 0x0301;
    /// Out of resources.
    pub const NO_RESOURCES: u16 = 0x0302;
}

/// Why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status class and detail.
    pub status: u16,
    /// In words.
    pub why: &'static str,
}

/// A refusal.
pub const fn refuse(status: u16, why: &'static str) -> Refusal {
    Refusal { status, why }
}

/// Who comes, and for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The host's name.
    pub host: String,
    /// The target's name; empty for discovery.
    pub target: String,
    /// Only SendTargets is wanted.
    pub discovery: bool,
    /// ISID.
    pub isid: [u8; 6],
    /// Connection ID.
    pub cid: u16,
    /// The session that it is to be a connection of; 0: a new one.
    pub tsih: u16,
}

/// What follows from a Login Request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The login goes on.
    GoesOn,
    /// It is done: the session is in its full feature phase when the response is sent.
    Done,
    /// It is refused: the connection is closed when the response is sent.
    Refused(&'static str),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Login {
    who: Who,
    params: Params,
    stage: u8,
    known: bool,
    declared: bool,
    pdus: u32,
    /// Text that has come of a request in several PDUs.
    text: Vec<u8>,
    /// What it has to authenticate with.
    required: Option<Arc<Credentials>>,
    challenge: Option<Challenge>,
    proved: bool,
    method_chosen: bool,
}

/// What a host that may have what it asks for has to authenticate with; `None`: with nothing.
pub type Admitted = Result<Option<Arc<Credentials>>, Refusal>;

/// What a login asks of who drives it.
pub struct Door<'a> {
    /// Whether this host may have this, once the names are known; and what it has to authenticate with.
    pub admit: &'a mut dyn FnMut(&Who) -> Admitted,
    /// What the session has agreed that it is to be a connection of, if it may be one.
    pub join: &'a dyn Fn(&Who) -> Result<Params, Refusal>,
    /// The portal group of this node.
    pub portal_group: u16,
    /// Bytes that nobody can guess.
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

impl Login {
    /// Who comes, as far as it is known.
    pub fn who(&self) -> &Who {
        &self.who
    }
    /// What is agreed.
    pub fn params(&self) -> Params {
        self.params
    }

    /// Whether the host has proved who it is.
    pub fn has_proved(&self) -> bool {
        self.proved
    }

    /// Takes a request with its text.
    pub fn take(&mut self, request: &LoginRequest, text: &[u8], door: &mut Door<'_>) -> (LoginResponse, Vec<u8>, Step) {
        let mut response =
            LoginResponse { stage: request.stage, isid: request.isid, tsih: request.tsih, tag: request.tag, ..LoginResponse::default() };
        let mut out = Vec::new();
        match self.judge(request, text, door, &mut out) {
            Ok(transit) => {
                response.transit = transit;
                response.next = if transit { request.next } else { 0 };
                let done = transit && request.next == FULL_FEATURE;
                if transit {
                    self.stage = request.next;
                }
                (response, out, if done { Step::Done } else { Step::GoesOn })
            }
            Err(refusal) => {
                response.status = refusal.status;
                (response, Vec::new(), Step::Refused(refusal.why))
            }
        }
    }

    /// Whether it goes to the stage that the request names.
    fn judge(&mut self, request: &LoginRequest, text: &[u8], door: &mut Door<'_>, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.pdus += 1;
        if self.pdus > LOGIN_PDUS_MAX || self.text.len() + text.len() > TEXT_BYTES_MAX {
            return Err(refuse(status::INVALID, "the login is too long"));
        }
        self.check(request)?;
        self.text.extend_from_slice(text);
        if request.more {
            return Ok(false);
        }
        let text = core::mem::take(&mut self.text);
        let pairs = parse_pairs(&text).map_err(|_| refuse(status::HOST_ERROR, "its text makes no sense"))?;
        for (at, (key, _)) in pairs.iter().enumerate() {
            if pairs[..at].iter().any(|(k, _)| k == key) {
                return Err(refuse(status::HOST_ERROR, "a key is there twice"));
            }
        }
        if !self.known {
            self.know(request, &pairs)?;
            self.required = (door.admit)(&self.who)?;
            if self.who.tsih != 0 {
                self.params = (door.join)(&self.who)?.joining();
            }
            self.known = true;
        }
        for (key, value) in &pairs {
            self.key(key, value, door, out)?;
        }
        self.prove(&pairs, out)?;
        let owes = self.required.is_some() && !self.proved;
        if owes && (self.stage == OPERATIONAL || request.transit && !self.method_chosen) {
            return Err(refuse(status::AUTHENTICATION_FAILED, "it does not authenticate"));
        }
        if self.stage == OPERATIONAL && !core::mem::replace(&mut self.declared, true) {
            push_pair(out, "MaxRecvDataSegmentLength", &SEGMENT_BYTES_MAX.to_string());
        }
        Ok(request.transit && !owes)
    }

    /// Looks at the answer to a challenge, if there is one: there is one try. Whoever has proved who it is may ask for the same with it.
    fn prove(&mut self, pairs: &[(&str, &str)], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let of = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let keys = ["CHAP_N", "CHAP_R", "CHAP_I", "CHAP_C"].map(of);
        let failed = |why| Err(refuse(status::AUTHENTICATION_FAILED, why));
        let ([Some(name), Some(response), None, None] | [Some(name), Some(response), Some(_), Some(_)]) = keys else {
            return if keys == [None; 4] { Ok(()) } else { failed("a key of CHAP is missing") };
        };
        let (Some(challenge), Some(credentials)) = (self.challenge.take(), &self.required) else {
            return failed("it answers a challenge that was not sent");
        };
        self.proved = challenge.is_met(credentials, name, response);
        if !self.proved {
            return failed("it has not the secret of the host");
        }
        let [_, _, Some(id), Some(value)] = keys else { return Ok(()) };
        let Some(proof) = &credentials.target else { return failed("it asks for mutual CHAP, and the target has no secret for it") };
        let Some(answer) = challenge.prove(proof, id, value) else { return failed("its challenge is none, or that of the target") };
        answer.iter().for_each(|(k, v)| push_pair(out, k, v));
        Ok(())
    }

    fn check(&mut self, request: &LoginRequest) -> Result<(), Refusal> {
        let invalid = |why| Err(refuse(status::INVALID, why));
        if request.version_min > 0 {
            return Err(refuse(status::VERSION, "it speaks another version"));
        }
        if self.pdus == 1 {
            self.stage = request.stage;
            (self.who.isid, self.who.cid, self.who.tsih) = (request.isid, request.cid, request.tsih);
        }
        if (request.isid, request.cid, request.tsih) != (self.who.isid, self.who.cid, self.who.tsih) {
            return invalid("it became another session");
        }
        if !matches!(request.stage, SECURITY | OPERATIONAL) || request.stage != self.stage {
            return invalid("the stage is not the current one");
        }
        if request.transit && (request.more || request.next <= request.stage || request.next == 2) {
            return invalid("there is no such step");
        }
        Ok(())
    }

    /// The names, from the first request.
    fn know(&mut self, request: &LoginRequest, pairs: &[(&str, &str)]) -> Result<(), Refusal> {
        let of = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let named = |key: &str, what| match of(key) {
            None => Err(refuse(status::MISSING, what)),
            Some(name) if is_iscsi_name(name) => Ok(name.to_owned()),
            Some(_) => Err(refuse(status::HOST_ERROR, "a name is none")),
        };
        self.who.host = named("InitiatorName", "it does not say who it is")?;
        self.who.discovery = match of("SessionType") {
            None | Some("Normal") => false,
            Some("Discovery") => true,
            Some(_) => return Err(refuse(status::SESSION_TYPE, "there is no such type of session")),
        };
        if !self.who.discovery {
            self.who.target = named("TargetName", "it does not say what it wants")?;
        }
        debug_assert_eq!(self.who.isid, request.isid);
        Ok(())
    }

    fn key(&mut self, key: &str, value: &str, door: &mut Door<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match key {
            "InitiatorName" | "SessionType" | "TargetName" if self.pdus_of_names(key, value) => Ok(()),
            "InitiatorName" | "SessionType" | "TargetName" => Err(refuse(status::INVALID, "a name has changed")),
            "AuthMethod" if self.stage != SECURITY => Err(refuse(status::INVALID, "a key of another stage")),
            "AuthMethod" => {
                let method = if self.required.is_some() { "CHAP" } else { "None" };
                if !value.split(',').any(|v| v == method) {
                    return Err(refuse(status::AUTHENTICATION_FAILED, "it offers no way to authenticate that serves here"));
                }
                self.method_chosen = true;
                push_pair(out, key, method);
                if !self.who.discovery {
                    push_pair(out, "TargetPortalGroupTag", &door.portal_group.to_string());
                }
                Ok(())
            }
            "CHAP_A" if self.method_chosen && self.required.is_some() && self.challenge.is_none() && !self.proved => {
                let challenge = Challenge::new(value, door.random);
                let challenge = challenge.ok_or(refuse(status::AUTHENTICATION_FAILED, "it has no hash function that is known here"))?;
                challenge.values().iter().for_each(|(k, v)| push_pair(out, k, v));
                self.challenge = Some(challenge);
                Ok(())
            }
            // See `prove`.
            "CHAP_N" | "CHAP_R" | "CHAP_I" | "CHAP_C" if self.stage == SECURITY => Ok(()),
            "CHAP_A" | "CHAP_I" | "CHAP_C" | "CHAP_N" | "CHAP_R" => {
                Err(refuse(status::AUTHENTICATION_FAILED, "a key of CHAP out of its order"))
            }
            _ if self.stage == SECURITY => {
                if key != "InitiatorAlias" {
                    push_pair(out, key, "NotUnderstood");
                }
                Ok(())
            }
            _ => {
                if let KeyAnswer::Value(v) = self.params.take(key, value) {
                    push_pair(out, key, &v);
                }
                Ok(())
            }
        }
    }

    /// Whether a name is as it was.
    fn pdus_of_names(&self, key: &str, value: &str) -> bool {
        match key {
            "InitiatorName" => value == self.who.host,
            "TargetName" => self.who.discovery || value == self.who.target,
            _ => value == if self.who.discovery { "Discovery" } else { "Normal" },
        }
    }
}

#[cfg(test)]
#[path = "tests/login_tests.rs"]
mod tests;

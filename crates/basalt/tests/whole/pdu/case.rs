//! A case: the state of a connection, what is sent, and the exact answer.

use crate::pdu::run::{Run, Stop};
use format::nvme::StatusCode;
use format::nvme::auth::FailureReason;
use format::nvme_tcp::{Digests, Fes};

/// How far a connection is when a case begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The TCP connection is there, nothing was sent.
    Connected,
    /// ICReq and ICResp went over.
    Greeted,
    /// Admin queue, CC.EN 0.
    Disabled,
    /// Admin queue, controller ready.
    Admin,
    /// I/O queue 1 of a ready controller.
    Io,
    /// Admin queue of a discovery controller, ready.
    Discovery,
    /// Admin queue, ready, of a subsystem whose hosts may manage namespaces.
    Managed,
    /// Admin queue of a host that has a secret and has not authenticated.
    Keyed,
}

/// State of the connection that a case uses, and the digests in force.
#[derive(Clone, Copy, Debug)]
pub struct CaseState {
    pub at: At,
    pub digests: Digests,
}

const fn plain(at: At) -> CaseState {
    CaseState { at, digests: Digests { header: false, data: false } }
}
pub const CONNECTED: CaseState = plain(At::Connected);
pub const GREETED: CaseState = plain(At::Greeted);
pub const DISABLED: CaseState = plain(At::Disabled);
pub const ADMIN: CaseState = plain(At::Admin);
pub const IO: CaseState = plain(At::Io);
pub const DISCOVERY: CaseState = plain(At::Discovery);
pub const MANAGED: CaseState = plain(At::Managed);
pub const KEYED: CaseState = plain(At::Keyed);

impl CaseState {
    /// The same with digests.
    pub const fn with(self, header: bool, data: bool) -> CaseState {
        CaseState { at: self.at, digests: Digests { header, data } }
    }
    /// For the page.
    pub fn text(&self) -> String {
        let at = match self.at {
            At::Connected => "before ICReq",
            At::Greeted => "before Connect",
            At::Disabled => "admin, disabled",
            At::Admin => "admin",
            At::Io => "I/O",
            At::Discovery => "discovery",
            At::Managed => "admin, managing",
            At::Keyed => "not authenticated",
        };
        let digests = match (self.digests.header, self.digests.data) {
            (false, false) => "",
            (true, false) => ", HDGST",
            (false, true) => ", DDGST",
            (true, true) => ", both digests",
        };
        format!("{at}{digests}")
    }
}

/// FEI of a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fei {
    /// This value: a byte offset, or 0 where the field is reserved.
    Is(u32),
    /// The header digest that was sent.
    Digest,
}

/// How much of the faulty PDU comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// The common header, because that is what was wrong.
    Common,
    /// The whole header, without digest and padding.
    Header,
}

/// One answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A termination request; then the connection closes.
    Ends(Fes, Fei, Echo),
    /// The connection closes without a word.
    Closes,
    /// A completion of the last command, or of the one named.
    Status { cid: Option<u16>, code: StatusCode, dnr: bool, result: Option<u64> },
    /// An R2T for the last command.
    R2t { offset: u32, bytes: u32 },
    /// So many bytes of data, then success.
    Data(u32),
    /// ICResp.
    IcResp(Digests),
    /// AUTH_Failure1 as the data of Authentication Receive.
    Failure1 { reason: FailureReason, t_id: u16 },
    /// Nothing for a while; the connection stays open.
    Nothing,
}

/// A fault of the common header: reason 1 and the offset of the field.
pub fn header_field(at: u32) -> Answer {
    Answer::Ends(Fes::InvalidHeaderField, Fei::Is(at), Echo::Common)
}
/// A fault of another header field.
pub fn field(at: u32) -> Answer {
    Answer::Ends(Fes::InvalidHeaderField, Fei::Is(at), Echo::Header)
}
/// Another reason; FEI is reserved.
pub fn ends(fes: Fes) -> Answer {
    Answer::Ends(fes, Fei::Is(0), Echo::Header)
}
/// A PDU that its type alone puts out of order.
pub fn out_of_order() -> Answer {
    Answer::Ends(Fes::SequenceError, Fei::Is(0), Echo::Common)
}
/// Success with result 0.
pub fn good() -> Answer {
    Answer::Status { cid: None, code: StatusCode::SUCCESS, dnr: false, result: Some(0) }
}
/// Success with this result.
pub fn result(value: u64) -> Answer {
    Answer::Status { cid: None, code: StatusCode::SUCCESS, dnr: false, result: Some(value) }
}
/// Success whatever the result (a controller ID).
pub fn good_any() -> Answer {
    Answer::Status { cid: None, code: StatusCode::SUCCESS, dnr: false, result: None }
}
/// A failure that stays one: DNR.
pub fn fails(code: StatusCode) -> Answer {
    Answer::Status { cid: None, code, dnr: true, result: Some(0) }
}
/// A failure that a retry may cure.
pub fn retry(code: StatusCode) -> Answer {
    Answer::Status { cid: None, code, dnr: false, result: Some(0) }
}
/// Connect: the parameter at `offset` of the command.
pub fn connect_sqe(offset: u16) -> Answer {
    let code = StatusCode::CONNECT_INVALID_PARAMETERS;
    Answer::Status { cid: None, code, dnr: true, result: Some(offset.into()) }
}
/// Connect: the parameter at `offset` of its data.
pub fn connect_data(offset: u16) -> Answer {
    let code = StatusCode::CONNECT_INVALID_PARAMETERS;
    Answer::Status { cid: None, code, dnr: true, result: Some(u64::from(offset) | 1 << 16) }
}

impl Answer {
    /// The completion of command `cid` instead of the last one's.
    pub fn of(self, id: u16) -> Answer {
        match self {
            Answer::Status { code, dnr, result, .. } => Answer::Status { cid: Some(id), code, dnr, result },
            other => other,
        }
    }
    /// Whether the connection is over after it.
    pub fn is_end(&self) -> bool {
        matches!(self, Answer::Ends(..) | Answer::Closes)
    }
    /// For the page.
    pub fn text(&self) -> String {
        match self {
            Answer::Ends(fes, Fei::Is(fei), _) => term_text(*fes as u16, *fei, false),
            Answer::Ends(fes, Fei::Digest, _) => term_text(*fes as u16, 0, true),
            Answer::Closes => "closes".into(),
            Answer::Status { code, dnr, result, .. } => status_text(*code, *dnr, result.unwrap_or(0)),
            Answer::R2t { offset, bytes } => format!("R2T {offset}+{bytes}"),
            Answer::Data(bytes) => format!("{bytes} bytes"),
            Answer::IcResp(d) => format!("ICResp, DGST {}", d.bits()),
            Answer::Failure1 { reason, .. } => failure1_text(*reason as u8),
            Answer::Nothing => "nothing".into(),
        }
    }
}

/// AUTH_Failure1 in words.
pub fn failure1_text(reason: u8) -> String {
    format!("AUTH_Failure1, reason {reason}")
}

/// A termination request in words.
pub fn term_text(fes: u16, fei: u32, digest: bool) -> String {
    let fei = if digest { "the digest".into() } else { fei.to_string() };
    format!("ends: FES {fes}, FEI {fei}")
}

/// A status in words. 180h to 190h are named as the fabrics commands use them.
pub fn status_text(code: StatusCode, dnr: bool, result: u64) -> String {
    let name = match code.0 {
        0 => "success".to_owned(),
        0x180 => "incompatible format".into(),
        0x181 => "controller busy".into(),
        0x182 => "invalid parameters".into(),
        0x184 => "invalid host".into(),
        0x185 => "invalid queue type".into(),
        _ => code.name().map_or("?".into(), |n| n.to_lowercase().replace('_', " ")),
    };
    let number = if code.0 == 0 { String::new() } else { format!(" {:03X}h", code.0) };
    let dnr = if dnr { " DNR" } else { "" };
    let result = if result == 0 { String::new() } else { format!(", result {result:X}h") };
    format!("{name}{number}{dnr}{result}")
}

type Act = Box<dyn Fn(&mut Run<'_>) -> Result<(), Stop> + Send + Sync>;

/// See the module.
pub struct Case {
    /// What is sent, in words; one of its kind.
    pub name: String,
    /// Where the specification says what is right.
    pub section: &'static str,
    /// State before.
    pub state: CaseState,
    /// Sends it.
    pub act: Act,
    /// What must come then, in order. After it the connection has to serve on, or to close after a termination request.
    pub answers: Vec<Answer>,
    /// It waits for a time-out of the target.
    pub slow: bool,
}

/// A case.
pub fn case(
    name: impl Into<String>,
    section: &'static str,
    state: CaseState,
    act: impl Fn(&mut Run<'_>) -> Result<(), Stop> + Send + Sync + 'static,
    answers: impl Into<Vec<Answer>>,
) -> Case {
    Case { name: name.into(), section, state, act: Box::new(act), answers: answers.into(), slow: false }
}

impl Case {
    /// It waits for a time-out of the target: it gets a thread of its own, from the beginning.
    pub fn slow(self) -> Case {
        Case { slow: true, ..self }
    }
}

impl From<Answer> for Vec<Answer> {
    fn from(one: Answer) -> Self {
        vec![one]
    }
}

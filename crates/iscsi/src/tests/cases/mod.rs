//! PDU by PDU: what a session answers to what is wrong. `docs/iscsi-cases.md` is written from these cases, and each is carried out.
//!
//! ```text
//! cargo test -p iscsi cases::                                   # runs the cases
//! ISCSI_CASE='SNACK' cargo test -p iscsi cases:: -- --nocapture  # those with this in their name, with what came
//! ISCSI_WRITE=1 cargo test -p iscsi the_page                    # writes docs/iscsi-cases.md anew
//! ```

mod chap;
mod data;
mod full;
mod login;
mod scsi;

use super::client::Came;
use super::rig::Rig;
use super::{HOST, TARGET};
use crate::chap::{Credentials, TargetProof};
use crate::view::HostView;
use base::SecretBytes;
use format::iscsi::{HEADER_BYTES, HostPdu, LoginRequest, NO_TAG, NopOut, TargetPdu};
use format::scsi::{ScsiStatus, Sense, SenseSpecific};
use std::fmt::Write;
use std::sync::Arc;

/// How far a session is when a case begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The connection was accepted.
    Fresh,
    /// The names are known, in the security stage.
    Security,
    /// The names are known, in the operational stage.
    Operational,
    /// CHAP was agreed on.
    Chap,
    /// CHAP was agreed on, and the challenge was sent.
    Challenged,
    /// Logged in for discovery.
    Discovery,
    /// Logged in.
    Full,
    /// Logged in, with digests.
    Digests,
    /// Logged in, without immediate data.
    NoImmediate,
    /// A write of two blocks has begun, and its unsolicited data may come: [`TAG`].
    Early,
    /// The data of a write of two blocks was asked for: [`TAG`].
    Asked,
    /// A read is with the volume: [`TAG`].
    Busy,
}

/// The tag of the command of [`State::Early`], [`State::Asked`] and [`State::Busy`].
const TAG: u32 = 0;

impl State {
    fn text(self) -> &'static str {
        match self {
            State::Fresh => "accepted",
            State::Security => "security stage",
            State::Operational => "operational stage",
            State::Chap => "CHAP agreed on",
            State::Challenged => "challenge sent",
            State::Discovery => "discovery",
            State::Full => "logged in",
            State::Digests => "logged in with digests",
            State::NoImmediate => "without immediate data",
            State::Early => "unsolicited data may come",
            State::Asked => "data was asked for",
            State::Busy => "a read under way",
        }
    }
    fn reached(self) -> Rig {
        match self {
            State::Fresh => Rig::new(),
            State::Security => started(0, ""),
            State::Operational => started(1, ""),
            State::Chap | State::Challenged => {
                let mut rig = with_secret();
                step(&mut rig, (0, None), &format!("{}AuthMethod=CHAP,None\0", names()));
                if self == State::Challenged {
                    step(&mut rig, (0, None), "CHAP_A=5\0");
                }
                rig
            }
            State::Discovery => {
                let mut rig = Rig::new();
                let login = rig.client.login_as(HOST, "SessionType=Discovery\0");
                assert_eq!(rig.say(&login).len(), 1);
                rig
            }
            State::Full => Rig::with("InitialR2T=Yes\0"),
            State::Digests => Rig::with("HeaderDigest=CRC32C\0DataDigest=CRC32C\0"),
            State::NoImmediate => Rig::with("ImmediateData=No\0"),
            State::Early => {
                let mut rig = Rig::with("InitialR2T=No\0");
                let wire = rig.client.write(0, &super::rig::write10(0, 2), 1024, &[], false);
                assert!(rig.say(&wire).is_empty());
                rig
            }
            State::Asked => {
                let mut rig = Rig::with("");
                let wire = rig.client.write(0, &super::rig::write10(0, 2), 1024, &[], true);
                let came = rig.say(&wire);
                assert!(matches!(came[..], [(TargetPdu::ReadyToTransfer(r), _)] if r.transfer_tag == 1), "{came:?}");
                rig
            }
            State::Busy => {
                let mut rig = Rig::with("");
                rig.memory.hold = true;
                let wire = rig.client.read(0, &super::rig::read10(0, 1), 512);
                assert!(rig.say(&wire).is_empty());
                rig
            }
        }
    }
    fn is_login(self) -> bool {
        matches!(self, State::Fresh | State::Security | State::Operational | State::Chap | State::Challenged)
    }
}

/// What is sent.
type Send = Box<dyn Fn(&mut Rig) -> Vec<u8>>;
/// Adds the cases of a group.
type Group = (&'static str, fn(&mut Cases));

/// A case: what is sent in a state, and the exact answer.
struct Case {
    group: &'static str,
    name: String,
    /// Where the standard says so: a section of RFC 7143 unless another one is named.
    section: &'static str,
    state: State,
    send: Send,
    want: String,
}

/// Collects the cases of a group.
struct Cases {
    group: &'static str,
    all: Vec<Case>,
}
impl Cases {
    fn add(
        &mut self,
        name: impl Into<String>,
        section: &'static str,
        state: State,
        send: impl Fn(&mut Rig) -> Vec<u8> + 'static,
        want: impl Into<String>,
    ) {
        self.all.push(Case { group: self.group, name: name.into(), section, state, send: Box::new(send), want: want.into() });
    }
}

fn all() -> Vec<Case> {
    let mut out = Vec::new();
    let groups: [Group; 12] = [
        ("Before the login", login::before),
        ("Login requests", login::requests),
        ("Names", login::names_of),
        ("Keys", login::keys),
        ("CHAP", chap::cases),
        ("PDUs", full::pdus),
        ("Numbers and tags", full::numbers),
        ("Task management and logout", full::management),
        ("Text and discovery", full::text),
        ("Data from the host", data::cases),
        ("Digests", data::digests),
        ("Commands", scsi::cases),
    ];
    for (group, add) in groups {
        let mut cases = Cases { group, all: Vec::new() };
        add(&mut cases);
        out.extend(cases.all);
    }
    out
}

/// The names of a login.
fn names() -> String {
    format!("InitiatorName={HOST}\0TargetName={TARGET}\0")
}
/// A login request in the stage of `stages`, with a step to the next one if there is one.
fn login_request((stage, next): (u8, Option<u8>)) -> LoginRequest {
    LoginRequest { transit: next.is_some(), stage, next: next.unwrap_or(0), isid: [0x80, 0, 0, 0, 0, 1], ..Default::default() }
}
fn login_wire(rig: &Rig, request: LoginRequest, text: &str) -> Vec<u8> {
    rig.client.wire(HostPdu::Login(request), true, text.as_bytes())
}
fn step(rig: &mut Rig, stages: (u8, Option<u8>), text: &str) -> Vec<Came> {
    let wire = login_wire(rig, login_request(stages), text);
    rig.say(&wire)
}
fn started(stage: u8, keys: &str) -> Rig {
    let mut rig = Rig::new();
    let came = step(&mut rig, (stage, None), &format!("{}{keys}", names()));
    assert!(matches!(came[..], [(TargetPdu::Login(l), _)] if l.status == 0), "{came:?}");
    rig
}
/// A target whose host has a secret, and that can prove itself.
fn with_secret() -> Rig {
    let mut rig = Rig::new();
    let target = Some(TargetProof { user: "storage".into(), secret: SecretBytes::new(b"another-secret".to_vec()) });
    let credentials = Credentials { user: "me".into(), secret: SecretBytes::new(b"secret-of-12".to_vec()), target };
    rig.view.hosts.insert(HOST.into(), HostView { credentials: Some(Arc::new(credentials)), ..HostView::default() });
    rig
}

/// What came, in words: see the page.
fn answered(sent: &[u8], came: &[Came], over: bool) -> String {
    let mut out: Vec<String> = came.iter().map(|(pdu, data)| one(sent, pdu, data)).collect();
    // Data and its status are one answer.
    out.dedup();
    if over {
        out.push("closed".into());
    }
    if out.is_empty() { "nothing".into() } else { out.join("; ") }
}
fn one(sent: &[u8], pdu: &TargetPdu, data: &[u8]) -> String {
    let status = |byte: u8| match ScsiStatus::parse(byte).expect("a status") {
        ScsiStatus::Good => "GOOD".to_owned(),
        ScsiStatus::CheckCondition => sense(&Sense::parse(&data[2..]).expect("sense data")),
        other => format!("{other:?}"),
    };
    let text = || {
        let text = String::from_utf8_lossy(data).trim_end_matches('\0').replace('\0', " ");
        if text.is_empty() { text } else { format!(": {text}") }
    };
    match pdu {
        TargetPdu::Login(l) => format!("Login Response {:04X}h{}", l.status, text()),
        TargetPdu::Reject(r) => {
            assert_eq!(data, &sent[..HEADER_BYTES], "the header that is rejected comes back");
            assert_eq!(r.tag, NO_TAG);
            format!("Reject {:02X}h", r.reason)
        }
        TargetPdu::Response(r) => status(r.status),
        TargetPdu::DataIn(d) if d.has_status => status(d.status),
        TargetPdu::DataIn(_) => "GOOD".into(),
        TargetPdu::Management(m) => format!("Response {}", m.response),
        TargetPdu::Logout(l) => format!("Logout Response {}", l.response),
        TargetPdu::NopIn(_) => format!("NOP-In, {} bytes", data.len()),
        TargetPdu::Text(_) => format!("Text Response{}", text()),
        TargetPdu::ReadyToTransfer(r) => format!("R2T {}+{}", r.offset, r.bytes),
        TargetPdu::Async(a) => format!("Asynchronous Message {}", a.event),
    }
}
fn sense(s: &Sense) -> String {
    let mut out = format!("{:X}h {:02X}h/{:02X}h", s.key as u8, s.code.asc(), s.code.ascq());
    if let Some(SenseSpecific::Field(f)) = s.specific {
        let _ = write!(out, ", {} byte {}", if f.cdb { "CDB" } else { "list" }, f.byte);
        if let Some(bit) = f.bit {
            let _ = write!(out, " bit {bit}");
        }
    }
    out
}

#[test]
fn every_case_gets_its_exact_answer_and_what_is_not_closed_serves_on() {
    let wanted = std::env::var("ISCSI_CASE").unwrap_or_default();
    let mut failed = Vec::new();
    for case in all().into_iter().filter(|c| c.name.contains(&wanted)) {
        let mut rig = case.state.reached();
        let sent = (case.send)(&mut rig);
        let came = rig.say(&sent);
        let got = answered(&sent, &came, rig.session.is_over());
        if !wanted.is_empty() {
            println!("{}: {got}", case.name);
        }
        if got != case.want {
            failed.push(format!("{} / {} ({}): {got}\n    instead of {}", case.group, case.name, case.state.text(), case.want));
            continue;
        }
        if rig.session.is_over() || case.state.is_login() && rig.session.is_logging_in() {
            continue;
        }
        // Ping: it serves on.
        let ping = NopOut { tag: 77, transfer_tag: NO_TAG, cmd_sn: rig.client.cmd_sn, ..Default::default() };
        let wire = rig.client.wire(HostPdu::NopOut(ping), true, b"on");
        let came = rig.say(&wire);
        if !matches!(&came[..], [(TargetPdu::NopIn(n), data)] if n.tag == 77 && data == b"on") {
            failed.push(format!("{} / {}: it does not serve on: {came:?}", case.group, case.name));
        }
    }
    assert!(failed.is_empty(), "{} cases failed\n{}", failed.len(), failed.join("\n"));
}

/// The page.
fn page(cases: &[Case]) -> String {
    let mut out = include_str!("page_head.md").replace("{COUNT}", &cases.len().to_string());
    let mut group = "";
    for case in cases {
        if case.group != group {
            group = case.group;
            let n = cases.iter().filter(|c| c.group == group).count();
            let _ = write!(out, "\n## {group}: {n}\n\n| case | state | section | answer |\n| --- | --- | --- | --- |\n");
        }
        let _ = writeln!(out, "| {} | {} | {} | {} |", case.name, case.state.text(), case.section, case.want);
    }
    out
}

#[test]
fn the_page_is_what_the_cases_say() {
    let cases = all();
    let mut names: Vec<(&str, &str)> = cases.iter().map(|c| (c.group, c.name.as_str())).collect();
    names.sort_unstable();
    names.windows(2).for_each(|w| assert_ne!(w[0], w[1], "two cases of one name"));
    assert!(cases.iter().all(|c| !c.name.contains('|') && !c.want.contains('|')));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/iscsi-cases.md");
    let page = page(&cases);
    if std::env::var("ISCSI_WRITE").is_ok() {
        std::fs::write(path, &page).expect("the page is written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == page, "docs/iscsi-cases.md is not what the cases say: ISCSI_WRITE=1 cargo test -p iscsi the_page");
    assert!(cases.len() >= 150, "{}", cases.len());
}

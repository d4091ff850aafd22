//! What is wrong with a login, and what keys are answered with.

use super::{Cases, State, login_request, login_wire, names};
use crate::tests::HOST;
use format::iscsi::{DataOut, HostPdu, LoginRequest, LogoutRequest, ManagementRequest, NopOut, ScsiCommand, SnackRequest, TextRequest};

const CLOSED: &str = "closed";

pub(super) fn before(c: &mut Cases) {
    let pdus = [
        ("NOP-Out", HostPdu::NopOut(NopOut::default())),
        ("SCSI Command", HostPdu::Command(ScsiCommand::default())),
        ("Task Management Function Request", HostPdu::Management(ManagementRequest::default())),
        ("Text Request", HostPdu::Text(TextRequest::default())),
        ("SCSI Data-Out", HostPdu::DataOut(DataOut::default())),
        ("Logout Request", HostPdu::Logout(LogoutRequest::default())),
        ("SNACK Request", HostPdu::Snack(SnackRequest::default())),
    ];
    for (name, pdu) in pdus {
        c.add(format!("{name} at first"), "6.3.1", State::Fresh, move |rig| rig.client.wire(pdu, true, &[]), CLOSED);
        c.add(format!("{name} during the login"), "6.3", State::Operational, move |rig| rig.client.wire(pdu, true, &[]), CLOSED);
    }
    for opcode in [0x07u8, 0x0F, 0x1C, 0x20, 0x23, 0x2A, 0x3F] {
        let send = move |_: &mut super::Rig| {
            let mut wire = vec![0; 48];
            wire[0] = opcode;
            wire
        };
        c.add(format!("operation code {opcode:02X}h at first"), "11.2.1.2", State::Fresh, send, CLOSED);
    }
    let http = |_: &mut super::Rig| b"GET / HTTP/1.1\r\nHost: 192.0.2.1:3260\r\nAccept: */*\r\n\r\n".to_vec();
    c.add("another protocol", "6.3.1", State::Fresh, http, CLOSED);
    let long = |rig: &mut super::Rig| login_wire(rig, login_request((1, Some(3))), &"A".repeat(8193));
    c.add("a login with more data than the default allows", "13.12", State::Fresh, long, CLOSED);
}

pub(super) fn requests(c: &mut Cases) {
    let refused = |status: u16| format!("Login Response {status:04X}h; closed");
    let mut first = |name: &str, section, request: LoginRequest, want: String| {
        c.add(name, section, State::Fresh, move |rig| login_wire(rig, request, &names()), want);
    };
    let usual = login_request((1, Some(3)));
    first("Version-min 1", "11.12.4", LoginRequest { version_min: 1, version_max: 1, ..usual }, refused(0x0205));
    first("a TSIH that no session has", "11.13.5", LoginRequest { tsih: 1, ..usual }, refused(0x020A));
    first("CSG 2", "11.12.3", LoginRequest { stage: 2, ..usual }, refused(0x020B));
    first("CSG 3", "11.12.3", LoginRequest { stage: 3, ..usual }, refused(0x020B));
    first("NSG 2", "11.12.3", LoginRequest { next: 2, ..usual }, refused(0x020B));
    first("NSG is CSG", "11.12.3", LoginRequest { next: 1, ..usual }, refused(0x020B));
    first("NSG before CSG", "11.12.3", LoginRequest { next: 0, ..usual }, refused(0x020B));
    first("T and C together", "11.12.2", LoginRequest { more: true, ..usual }, refused(0x020B));
    let mut later = |name: &str, section, state, request: LoginRequest, text: &'static str, want: String| {
        c.add(name, section, state, move |rig| login_wire(rig, request, text), want);
    };
    let goes_on = login_request((1, None));
    later("another ISID", "11.12.5", State::Operational, LoginRequest { isid: [9; 6], ..goes_on }, "", refused(0x020B));
    later("another CID", "11.12.7", State::Operational, LoginRequest { cid: 9, ..goes_on }, "", refused(0x020B));
    later("a TSIH later on", "11.12.6", State::Operational, LoginRequest { tsih: 9, ..goes_on }, "", refused(0x020B));
    later("back to the security stage", "6.3.3", State::Operational, login_request((0, None)), "", refused(0x020B));
    later("CSG ahead of what was agreed", "6.3.3", State::Security, login_request((1, None)), "", refused(0x020B));
    later("an empty request", "6.2", State::Operational, goes_on, "", "Login Response 0000h".into());
    let cut = LoginRequest { more: true, ..goes_on };
    later("text that goes on (C)", "6.2", State::Operational, cut, "MaxConn", "Login Response 0000h".into());
    let many = |rig: &mut super::Rig| {
        let one = login_wire(rig, login_request((1, None)), "");
        one.repeat(crate::limits::LOGIN_PDUS_MAX as usize)
    };
    c.add("more requests than a login may take", "7.12", State::Operational, many, "Login Response 0000h; Login Response 020Bh; closed");
    let long = |rig: &mut super::Rig| {
        let one = login_wire(rig, LoginRequest { more: true, ..login_request((1, None)) }, &"A".repeat(8192));
        one.repeat(3)
    };
    c.add("more text than a login may have", "7.12", State::Operational, long, "Login Response 0000h; Login Response 020Bh; closed");
}

pub(super) fn names_of(c: &mut Cases) {
    let refused = |status: u16| format!("Login Response {status:04X}h; closed");
    let target = "TargetName=iqn.2026-11.io.basalt:test\0";
    let host = format!("InitiatorName={HOST}\0");
    let cases: [(&str, &'static str, String, u16); 16] = [
        ("no InitiatorName", "13.5", target.into(), 0x0207),
        ("no TargetName", "13.4", host.clone(), 0x0207),
        ("no text at all", "6.3.1", String::new(), 0x0207),
        ("an InitiatorName that is none", "4.2.7.1", format!("InitiatorName=host\0{target}"), 0x0200),
        ("an empty InitiatorName", "4.2.7.1", format!("InitiatorName=\0{target}"), 0x0200),
        ("an InitiatorName with a space", "4.2.7.2", format!("InitiatorName=iqn.2026-11.example:a b\0{target}"), 0x0200),
        ("an InitiatorName of 224 bytes", "4.2.7.1", format!("InitiatorName=iqn.{}\0{target}", "x".repeat(220)), 0x0200),
        ("a TargetName that is none", "4.2.7.1", format!("{host}TargetName=disk\0"), 0x0200),
        ("a target that there is not", "11.13.5", format!("{host}TargetName=iqn.2026-11.io.basalt:none\0"), 0x0203),
        ("a host that is not on the list", "11.13.5", format!("InitiatorName=iqn.2026-11.example:other\0{target}"), 0x0202),
        ("SessionType that is none", "13.21", format!("{host}{target}SessionType=Boot\0"), 0x0209),
        ("a key twice", "6.2", format!("{host}{target}MaxConnections=1\0MaxConnections=1\0"), 0x0200),
        ("text without '='", "6.1", format!("{host}{target}MaxConnections\0"), 0x0200),
        ("a key of 64 bytes", "6.1", format!("{host}{target}{}=1\0", "K".repeat(64)), 0x0200),
        ("an empty key", "6.1", format!("{host}{target}=1\0"), 0x0200),
        ("a key with a space", "6.1", format!("{host}{target}Max Connections=1\0"), 0x0200),
    ];
    for (name, section, text, status) in cases {
        let send = move |rig: &mut super::Rig| login_wire(rig, login_request((1, Some(3))), &text);
        c.add(name, section, State::Fresh, send, refused(status));
    }
    let not_utf8 = |rig: &mut super::Rig| {
        let text = [names().as_bytes(), b"X-a=\xFF\xFE\0"].concat();
        rig.client.wire(HostPdu::Login(login_request((1, Some(3)))), true, &text)
    };
    c.add("text that is not UTF-8", "6.1", State::Fresh, not_utf8, refused(0x0200));
    let many = |rig: &mut super::Rig| {
        let text: String = (0..65).map(|n| format!("X-{n}=1\0")).collect();
        login_wire(rig, login_request((1, Some(3))), &format!("{}{text}", names()))
    };
    c.add("more keys than are taken", "7.12", State::Fresh, many, refused(0x0200));
    for (key, value) in
        [("InitiatorName", "iqn.2026-11.example:other"), ("TargetName", "iqn.2026-11.io.basalt:b"), ("SessionType", "Discovery")]
    {
        let send = move |rig: &mut super::Rig| login_wire(rig, login_request((1, None)), &format!("{key}={value}\0"));
        c.add(format!("{key} changes"), "6.3", State::Operational, send, refused(0x020B));
    }
}

/// Keys of the operational stage, with the answer.
const KEYS: &[(&str, &str, &str, &str)] = &[
    ("13.1", "HeaderDigest", "CRC32C,None", "CRC32C"),
    ("13.1", "HeaderDigest", "X-sha", "Reject"),
    ("13.1", "HeaderDigest", "", "Reject"),
    ("13.1", "DataDigest", "crc32c", "Reject"),
    ("13.1", "DataDigest", "X-a,None", "None"),
    ("13.2", "MaxConnections", "65535", "8"),
    ("13.2", "MaxConnections", "0", "Reject"),
    ("13.2", "MaxConnections", "65536", "Reject"),
    ("13.2", "MaxConnections", "many", "Reject"),
    ("13.10", "InitialR2T", "No", "No"),
    ("13.10", "InitialR2T", "no", "Reject"),
    ("13.11", "ImmediateData", "maybe", "Reject"),
    ("13.12", "MaxRecvDataSegmentLength", "511", "Reject"),
    ("13.12", "MaxRecvDataSegmentLength", "16777216", "Reject"),
    ("13.13", "MaxBurstLength", "511", "Reject"),
    ("13.13", "MaxBurstLength", "16777215", "1048576"),
    ("13.13", "MaxBurstLength", "0x1000", "4096"),
    ("13.13", "MaxBurstLength", "-1", "Reject"),
    ("13.14", "FirstBurstLength", "16777215", "65536"),
    ("13.14", "FirstBurstLength", "0", "Reject"),
    ("13.14", "FirstBurstLength", "4294967808", "Reject"),
    ("13.15", "DefaultTime2Wait", "0", "2"),
    ("13.15", "DefaultTime2Wait", "3601", "Reject"),
    ("13.16", "DefaultTime2Retain", "3600", "0"),
    ("13.16", "DefaultTime2Retain", "3601", "Reject"),
    ("13.17", "MaxOutstandingR2T", "65535", "8"),
    ("13.17", "MaxOutstandingR2T", "0", "Reject"),
    ("13.18", "DataPDUInOrder", "No", "Yes"),
    ("13.19", "DataSequenceInOrder", "No", "Yes"),
    ("13.19", "DataSequenceInOrder", "", "Reject"),
    ("13.20", "ErrorRecoveryLevel", "2", "0"),
    ("13.20", "ErrorRecoveryLevel", "3", "Reject"),
    ("13.23", "TaskReporting", "FastAbort,RFC3720", "RFC3720"),
    ("13.23", "TaskReporting", "FastAbort", "Reject"),
    ("13.24", "iSCSIProtocolLevel", "31", "1"),
    ("13.24", "iSCSIProtocolLevel", "32", "Reject"),
    ("13.25", "IFMarker", "Yes", "No"),
    ("13.25", "OFMarker", "Yes", "No"),
    ("13.25", "IFMarkInt", "2048~8192", "Reject"),
    ("13.22", "X-com.example.key", "1", "NotUnderstood"),
    ("6.2", "Unheard", "of", "NotUnderstood"),
];

pub(super) fn keys(c: &mut Cases) {
    for (section, key, value, answer) in KEYS {
        let send = move |rig: &mut super::Rig| login_wire(rig, login_request((1, None)), &format!("{key}={value}\0"));
        let shown = if value.is_empty() { "(empty)" } else { value };
        c.add(format!("{key}={shown}"), section, State::Operational, send, format!("Login Response 0000h: {key}={answer}"));
    }
    let text = |text: &'static str| move |rig: &mut super::Rig| login_wire(rig, login_request((0, None)), text);
    let answered = "Login Response 0000h: AuthMethod=None TargetPortalGroupTag=1";
    c.add("AuthMethod=KRB5,None", "12.1", State::Security, text("AuthMethod=KRB5,None\0"), answered);
    let refused = "Login Response 0201h; closed";
    c.add("AuthMethod=KRB5,SRP", "12.1", State::Security, text("AuthMethod=KRB5,SRP\0"), refused);
    c.add("AuthMethod=(empty)", "12.1", State::Security, text("AuthMethod=\0"), refused);
    let late = |rig: &mut super::Rig| login_wire(rig, login_request((1, None)), "AuthMethod=None\0");
    c.add("AuthMethod in the operational stage", "12", State::Operational, late, "Login Response 020Bh; closed");
    let early = "Login Response 0000h: MaxBurstLength=NotUnderstood";
    c.add("an operational key in the security stage", "6.3.2", State::Security, text("MaxBurstLength=4096\0"), early);
}

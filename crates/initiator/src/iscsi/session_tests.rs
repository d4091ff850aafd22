use super::*;
use crate::iscsi::login::Chap;
use base::SecretBytes;
use format::iscsi::{LoginRequest, LogoutResponse, Reject, parse_pairs, push_pair};
use format::scsi::{SenseCode, SenseKey};

/// A target by hand: takes what a session sends, and sends what a test wants.
#[derive(Default)]
struct Target {
    bytes: Vec<u8>,
    digests: (bool, bool),
    stat_sn: u32,
}

impl Target {
    /// The next PDU with its data.
    fn next(&mut self, session: &mut Session) -> Option<(HostPdu, Vec<u8>)> {
        self.bytes.extend_from_slice(session.outgoing());
        session.sent(session.outgoing().len());
        let header = *self.bytes.first_chunk::<HEADER_BYTES>()?;
        let parts = Parts::parse(&header);
        let (head, body) = (parts.head_bytes(self.digests.0), parts.body_bytes(self.digests.1));
        let rest = self.bytes.split_off(head + body);
        let whole = std::mem::replace(&mut self.bytes, rest);
        let sound = |part: &[u8]| assert_eq!(crc32c(&part[..part.len() - 4]).to_le_bytes(), part[part.len() - 4..]);
        if self.digests.0 {
            sound(&whole[..head]);
        }
        if self.digests.1 && body > 0 {
            sound(&whole[head..]);
        }
        Some((HostPdu::parse(&header).unwrap(), whole[head..head + parts.data_bytes].to_vec()))
    }
    fn wire(&self, pdu: TargetPdu, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append(&mut out, pdu.to_header(data.len()), data, self.digests.0, self.digests.1);
        out
    }
    /// Byte by byte, as it may come.
    fn say(&self, session: &mut Session, pdu: TargetPdu, data: &[u8]) -> Result<(), SessionError> {
        self.wire(pdu, data).chunks(1).try_for_each(|b| session.receive(b))
    }
    fn stat_sn(&mut self) -> u32 {
        self.stat_sn += 1;
        self.stat_sn - 1
    }
    fn login(&mut self, session: &mut Session, transit: bool, text: &[(&str, &str)]) -> Result<(), SessionError> {
        let mut data = Vec::new();
        text.iter().for_each(|(k, v)| push_pair(&mut data, k, v));
        let answer = LoginResponse { transit, tsih: 7, stat_sn: self.stat_sn(), exp_cmd_sn: 1, max_cmd_sn: 8, ..Default::default() };
        self.say(session, TargetPdu::Login(answer), &data)
    }
    fn end(&mut self, session: &mut Session, tag: u32, status: ScsiStatus, sense: &[u8]) -> Result<(), SessionError> {
        let response =
            ScsiResponse { tag, status: status.byte(), stat_sn: self.stat_sn(), exp_cmd_sn: 2, max_cmd_sn: 9, ..ScsiResponse::default() };
        let data = if sense.is_empty() { Vec::new() } else { [&(sense.len() as u16).to_be_bytes()[..], sense].concat() };
        self.say(session, TargetPdu::Response(response), &data)
    }
}

fn options() -> LoginOptions {
    LoginOptions {
        host: "iqn.2026-11.example:host".into(),
        target: "iqn.2026-11.example:target".into(),
        isid: [0x80, 0, 0, 1, 0, 1],
        header_digest: false,
        data_digest: false,
        chap: None,
    }
}
fn keys(text: &[u8], key: &str) -> Option<String> {
    parse_pairs(text).unwrap().iter().find(|(k, _)| *k == key).map(|(_, v)| (*v).to_owned())
}
fn is_login(pdu: &HostPdu) -> LoginRequest {
    let HostPdu::Login(login) = pdu else { panic!("{pdu:?}") };
    *login
}

/// A session that is open, with the target's limits.
fn open(options: LoginOptions, segment: &str) -> (Session, Target) {
    let digests = (options.header_digest, options.data_digest);
    let (mut s, mut t) = (Session::new(options, 4, |out| out.fill(9)), Target::default());
    let (first, text) = t.next(&mut s).unwrap();
    let first = is_login(&first);
    assert_eq!((first.stage, first.transit, first.next, first.tsih), (0, true, 1, 0));
    assert_eq!(keys(&text, "AuthMethod").as_deref(), Some("None"));
    t.login(&mut s, true, &[("AuthMethod", "None"), ("TargetPortalGroupTag", "1")]).unwrap();
    let (second, text) = t.next(&mut s).unwrap();
    let second = is_login(&second);
    assert_eq!((second.stage, second.transit, second.next, second.exp_stat_sn), (1, true, 3, 1));
    let digest = |wanted| if wanted { "CRC32C" } else { "None" };
    assert_eq!(keys(&text, "HeaderDigest").as_deref(), Some(digest(digests.0)));
    assert!(!s.is_open() && s.room() == 0);
    let answer = [
        ("HeaderDigest", digest(digests.0)),
        ("DataDigest", digest(digests.1)),
        ("MaxRecvDataSegmentLength", segment),
        ("MaxBurstLength", "16384"),
        ("FirstBurstLength", "4096"),
    ];
    t.login(&mut s, true, &answer).unwrap();
    assert!(s.is_open() && t.next(&mut s).is_none());
    t.digests = digests;
    (s, t)
}

fn read(tag: u64, bytes: usize) -> Command {
    Command { tag, lun: 1, cdb: [0x28; 16], payload: Payload::In(vec![0; bytes]) }
}
fn write(tag: u64, data: Vec<u8>) -> Command {
    Command { tag, lun: 1, cdb: [0x2A; 16], payload: Payload::Out(data) }
}
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n / 5 + n / 512) as u8).collect()
}

#[test]
fn a_read_gets_its_data_and_a_write_sends_what_is_asked_for() {
    for digests in [false, true] {
        let (mut s, mut t) = open(LoginOptions { header_digest: digests, data_digest: digests, ..options() }, "2048");
        assert_eq!(s.agreed(), Agreed { segment: 2048, immediate: true, first_burst: 4096, burst: 16384 });
        assert_eq!(s.room(), 4, "as many as there are slots");
        s.submit(read(70, 5001)).unwrap();
        let (HostPdu::Command(c), data) = t.next(&mut s).unwrap() else { panic!() };
        assert!(c.read && !c.write && c.last && data.is_empty() && c.expected_bytes == 5001 && c.cmd_sn == 1 && c.exp_stat_sn == 2);
        let want = bytes(5001);
        for (n, part) in want.chunks(3000).enumerate() {
            let last = n == 1;
            let pdu = DataIn {
                last,
                has_status: last,
                tag: c.tag,
                stat_sn: if last { t.stat_sn() } else { 0 },
                exp_cmd_sn: 2,
                max_cmd_sn: 9,
                data_sn: n as u32,
                offset: n as u32 * 3000,
                ..DataIn::default()
            };
            t.say(&mut s, TargetPdu::DataIn(pdu), part).unwrap();
        }
        let done = s.pop().unwrap();
        assert!(done.result.is_ok() && done.command.tag == 70 && done.bytes == 5001);
        assert_eq!(done.command.payload, Payload::In(want));

        let want = bytes(9001);
        s.submit(write(71, want.clone())).unwrap();
        let (HostPdu::Command(c), mut got) = t.next(&mut s).unwrap() else { panic!() };
        assert!(c.write && c.last && c.expected_bytes == 9001 && got.len() == 2048, "a segment goes with the command");
        let r2t = |offset, bytes| ReadyToTransfer {
            tag: c.tag,
            transfer_tag: 5,
            offset,
            bytes,
            exp_cmd_sn: 3,
            max_cmd_sn: 9,
            ..Default::default()
        };
        for (from, to) in [(2048, 6048), (6048, 9001)] {
            t.say(&mut s, TargetPdu::ReadyToTransfer(r2t(from, to - from)), &[]).unwrap();
            let mut sn = 0;
            loop {
                let (HostPdu::DataOut(out), data) = t.next(&mut s).unwrap() else { panic!() };
                assert_eq!((out.tag, out.transfer_tag, out.data_sn, out.offset as usize), (c.tag, 5, sn, got.len()));
                got.extend(data);
                sn += 1;
                if out.last {
                    break;
                }
            }
            assert_eq!(got.len(), to as usize);
        }
        assert!(got == want, "all of it, in order");
        t.end(&mut s, c.tag, ScsiStatus::Good, &[]).unwrap();
        assert!(s.pop().unwrap().result.is_ok() && s.in_flight() == 0);
    }
}

#[test]
fn large_data_may_be_received_where_it_belongs() {
    let (mut s, t) = open(options(), "65536");
    s.submit(read(1, 20_000)).unwrap();
    assert!(s.landing().is_none());
    let pdu = DataIn { last: true, has_status: true, tag: 0, exp_cmd_sn: 2, max_cmd_sn: 9, ..DataIn::default() };
    let wire = t.wire(TargetPdu::DataIn(pdu), &bytes(20_000));
    s.receive(&wire[..HEADER_BYTES + 1000]).unwrap();
    let place = s.landing().unwrap();
    assert_eq!(place.len(), 19_000);
    place[..12_000].copy_from_slice(&wire[HEADER_BYTES + 1000..HEADER_BYTES + 13_000]);
    s.landed(12_000).unwrap();
    assert!(s.landing().is_none(), "little is left");
    s.receive(&wire[HEADER_BYTES + 13_000..]).unwrap();
    assert_eq!(s.pop().unwrap().command.payload, Payload::In(bytes(20_000)));
}

#[test]
fn no_more_commands_are_sent_than_the_target_has_room_for() {
    let (mut s, mut t) = open(options(), "8192");
    for n in 0..4 {
        s.submit(read(n, 512)).unwrap();
    }
    assert!(s.room() == 0 && s.submit(read(9, 512)).is_err());
    let short = ScsiResponse { tag: 0, status: 0, stat_sn: t.stat_sn(), exp_cmd_sn: 5, max_cmd_sn: 5, ..Default::default() };
    t.say(&mut s, TargetPdu::Response(short), &[]).unwrap();
    // Serial numbers never go back: the window is still that of the login, up to 8.
    assert_eq!(s.room(), 1);
    let done = s.pop().unwrap();
    assert!(done.result.is_ok() && done.bytes == 0, "a caller sees that nothing came");
}

#[test]
fn a_failure_has_its_sense_data() {
    let (mut s, mut t) = open(options(), "8192");
    s.submit(read(1, 512)).unwrap();
    let sense = Sense::new(SenseKey::UnitAttention, SenseCode::ACCESS_STATE_CHANGED);
    t.end(&mut s, 0, ScsiStatus::CheckCondition, &sense.to_bytes(false)).unwrap();
    let failure = s.pop().unwrap().result.unwrap_err();
    assert!(failure.is_unit_attention() && failure.sense.unwrap().code == SenseCode::ACCESS_STATE_CHANGED);
    s.submit(read(2, 512)).unwrap();
    t.end(&mut s, 0, ScsiStatus::Busy, &[]).unwrap();
    let failure = s.pop().unwrap().result.unwrap_err();
    assert!(failure == ScsiFailure { status: ScsiStatus::Busy, sense: None } && failure.is_transient());
}

#[test]
fn a_ping_is_answered_and_a_logout_ends_it() {
    let (mut s, mut t) = open(options(), "8192");
    let nop = NopIn { tag: NO_TAG, transfer_tag: 3, stat_sn: 2, exp_cmd_sn: 1, max_cmd_sn: 8, ..NopIn::default() };
    t.say(&mut s, TargetPdu::NopIn(nop), b"ping").unwrap();
    let (HostPdu::NopOut(answer), data) = t.next(&mut s).unwrap() else { panic!() };
    assert_eq!((answer.tag, answer.transfer_tag, answer.cmd_sn, &data[..]), (NO_TAG, 3, 1, &b"ping"[..]));
    s.log_out();
    let Some((HostPdu::Logout(out), _)) = t.next(&mut s) else { panic!() };
    assert_eq!((out.reason, out.cmd_sn), (0, 1));
    t.say(&mut s, TargetPdu::Logout(LogoutResponse::default()), &[]).unwrap();
    assert!(s.is_logged_out());
}

fn chap(target_secret: Option<&[u8]>) -> LoginOptions {
    let secret = |b: &[u8]| SecretBytes::new(b.to_vec());
    let chap = Chap { user: "me".into(), secret: secret(b"secret-of-12"), target_secret: target_secret.map(secret) };
    LoginOptions { chap: Some(chap), ..options() }
}

#[test]
fn chap_proves_who_it_is_and_wants_the_same_of_the_target() {
    // MD5 and SHA-256 of 27h, "secret-of-12" and 00h to 0Fh, by `printf | openssl dgst`.
    let (md5, sha) = ("0xc7145ea507a9f67b85d43ab2ac5476f6", "0x3aa1f66502493fd43876216656f818bb1e814ff9f51d82a5ccc6535862357bb2");
    for (algorithm, want) in [("5", md5), ("7", sha)] {
        let (mut s, mut t) = (Session::new(chap(None), 4, |out| out.fill(9)), Target::default());
        let (first, text) = t.next(&mut s).unwrap();
        assert!(!is_login(&first).transit && keys(&text, "AuthMethod").as_deref() == Some("CHAP"), "and nothing else");
        t.login(&mut s, false, &[("AuthMethod", "CHAP")]).unwrap();
        assert_eq!(keys(&t.next(&mut s).unwrap().1, "CHAP_A").as_deref(), Some("7,5"));
        let challenge = [("CHAP_A", algorithm), ("CHAP_I", "39"), ("CHAP_C", "0x000102030405060708090a0b0c0d0e0f")];
        t.login(&mut s, false, &challenge).unwrap();
        let (proof, text) = t.next(&mut s).unwrap();
        assert!(is_login(&proof).transit && keys(&text, "CHAP_N").as_deref() == Some("me"));
        assert_eq!(keys(&text, "CHAP_R").as_deref(), Some(want));
        assert_eq!(keys(&text, "CHAP_C"), None);
        t.login(&mut s, true, &[]).unwrap();
        assert_eq!(is_login(&t.next(&mut s).unwrap().0).stage, 1);
    }
    let mutual = |answer: &[(&str, &str)]| {
        let (mut s, mut t) = (Session::new(chap(Some(b"other-of-12b")), 4, |out| out.fill(9)), Target::default());
        t.login(&mut s, false, &[("AuthMethod", "CHAP")]).unwrap();
        t.login(&mut s, false, &[("CHAP_A", "5"), ("CHAP_I", "39"), ("CHAP_C", "0x01")]).unwrap();
        (0..2).for_each(|_| drop(t.next(&mut s)));
        let text = t.next(&mut s).unwrap().1;
        assert_eq!(keys(&text, "CHAP_I").as_deref(), Some("9"));
        assert_eq!(keys(&text, "CHAP_C").unwrap(), format!("0x{}", "09".repeat(16)));
        t.login(&mut s, true, answer)
    };
    let right = hex_of(&hash_of(9, b"other-of-12b", &[9; 16]));
    assert_eq!(mutual(&[("CHAP_N", "t"), ("CHAP_R", &right)]), Ok(()));
    let wrong = hex_of(&hash_of(9, b"secret-of-12", &[9; 16]));
    for answer in [&[("CHAP_N", "t"), ("CHAP_R", wrong.as_str())][..], &[("CHAP_N", "t")], &[]] {
        assert_eq!(mutual(answer), Err(SessionError::NotProved), "{answer:?}");
    }
}
fn hash_of(id: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
    openssl::hash::hash(openssl::hash::MessageDigest::md5(), &[&[id][..], secret, challenge].concat()).unwrap().to_vec()
}
fn hex_of(bytes: &[u8]) -> String {
    format!("0x{}", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

#[test]
fn a_login_ends_when_the_target_does_not_agree() {
    let first = |options: LoginOptions| {
        let (mut s, mut t) = (Session::new(options, 4, |out| out.fill(9)), Target::default());
        t.next(&mut s);
        (s, t)
    };
    let (mut s, t) = first(options());
    let refused = LoginResponse { status: 0x0202, ..LoginResponse::default() };
    assert_eq!(t.say(&mut s, TargetPdu::Login(refused), &[]), Err(SessionError::Refused(0x0202)));
    let (mut s, mut t) = first(chap(None));
    let none = t.login(&mut s, true, &[("AuthMethod", "None")]);
    assert!(matches!(none, Err(SessionError::Disagrees { key: "AuthMethod", .. })), "no way around the secret: {none:?}");
    let (mut s, mut t) = first(LoginOptions { data_digest: true, ..options() });
    t.login(&mut s, true, &[("AuthMethod", "None")]).unwrap();
    let none = t.login(&mut s, true, &[("DataDigest", "None")]);
    assert!(matches!(none, Err(SessionError::Disagrees { key: "DataDigest", .. })), "{none:?}");
    let (mut s, mut t) = first(options());
    let endless = (0..100).map(|_| t.login(&mut s, false, &[])).find(Result::is_err);
    assert_eq!(endless, Some(Err(SessionError::EndlessLogin)));
}

#[test]
fn what_a_target_sends_against_the_standard_ends_the_session() {
    type Wrong = fn(&mut Target, &mut Session) -> Result<(), SessionError>;
    fn din(tag: u32, offset: u32, data_sn: u32) -> TargetPdu {
        TargetPdu::DataIn(DataIn { tag, offset, data_sn, exp_cmd_sn: 2, max_cmd_sn: 9, ..DataIn::default() })
    }
    fn r2t(tag: u32, offset: u32, bytes: u32) -> TargetPdu {
        TargetPdu::ReadyToTransfer(ReadyToTransfer { tag, offset, bytes, exp_cmd_sn: 2, max_cmd_sn: 9, ..Default::default() })
    }
    // Task 0 reads 512 bytes, task 1 writes 20,000.
    let cases: [(&str, Wrong); 14] = [
        ("data of nobody", |t, s| t.say(s, din(3, 0, 0), &[1; 4])),
        ("data of a tag that none can have", |t, s| t.say(s, din(u32::MAX, 0, 0), &[1; 4])),
        ("more data than was asked for", |t, s| t.say(s, din(0, 0, 0), &[1; 516])),
        ("data at another place", |t, s| t.say(s, din(0, 4, 0), &[1; 4])),
        ("data with another number", |t, s| t.say(s, din(0, 0, 1), &[1; 4])),
        ("data for a write", |t, s| t.say(s, din(1, 0, 0), &[1; 4])),
        ("an R2T for a read", |t, s| t.say(s, r2t(0, 0, 4), &[])),
        ("an R2T beyond the end", |t, s| t.say(s, r2t(1, 4096, 15_905), &[])),
        ("an R2T of nothing", |t, s| t.say(s, r2t(1, 4096, 0), &[])),
        ("an R2T beyond the burst", |t, s| t.say(s, r2t(1, 4096, 15_904 + 4096), &[])),
        ("an R2T at another place", |t, s| t.say(s, r2t(1, 8192, 4), &[])),
        ("a login once more", |t, s| t.say(s, TargetPdu::Login(LoginResponse::default()), &[])),
        ("an answer to nobody", |t, s| t.end(s, 3, ScsiStatus::Good, &[])),
        ("a rejection", |t, s| t.say(s, TargetPdu::Reject(Reject { reason: 4, ..Reject::default() }), &[0; 48])),
    ];
    for (what, wrong) in cases {
        let (mut s, mut t) = open(options(), "4096");
        s.submit(read(1, 512)).unwrap();
        s.submit(write(2, vec![7; 20_000])).unwrap();
        let error = wrong(&mut t, &mut s).expect_err(what);
        assert!(!error.is_transient(), "{what}: {error}");
    }
    // A PDU of a host, and data that is longer than what was declared, are seen by the header alone.
    for (header, want) in [
        (HostPdu::NopOut(NopOut::default()).to_header(0), SessionError::Unexpected(0)),
        (TargetPdu::Reject(Reject::default()).to_header((256 << 10) + 1), SessionError::TooLong((256 << 10) + 1)),
    ] {
        let (mut s, _) = open(options(), "4096");
        assert_eq!(s.receive(&header), Err(want));
    }
}

#[test]
fn damage_on_the_wire_is_seen_with_digests() {
    for (at, want) in [(20, SessionError::HeaderDigest), (HEADER_BYTES + 4 + 7, SessionError::DataDigest)] {
        let (mut s, t) = open(LoginOptions { header_digest: true, data_digest: true, ..options() }, "4096");
        s.submit(read(1, 511)).unwrap();
        let pdu = DataIn { last: true, has_status: true, tag: 0, exp_cmd_sn: 2, max_cmd_sn: 9, ..DataIn::default() };
        let mut wire = t.wire(TargetPdu::DataIn(pdu), &bytes(511));
        wire[at] ^= 4;
        assert_eq!(s.receive(&wire), Err(want));
    }
}

#[test]
fn a_command_can_be_aborted_and_ends_once() {
    let (mut s, mut t) = open(options(), "2048");
    (70..73).for_each(|tag| s.submit(read(tag, 512)).unwrap());
    let tags: Vec<u32> = (0..3).map(|_| if let (HostPdu::Command(c), _) = t.next(&mut s).unwrap() { c.tag } else { panic!() }).collect();
    assert!(!s.abort(99), "there is no such command");
    assert!(s.abort(71) && !s.abort(72), "one at a time");
    let (HostPdu::Management(m), _) = t.next(&mut s).unwrap() else { panic!() };
    assert_eq!((m.function, m.referenced_tag, m.ref_cmd_sn), (management::ABORT_TASK, tags[1], 2));
    let answer = |t: &mut Target, m: &ManagementRequest, response| {
        let stat_sn = t.stat_sn();
        TargetPdu::Management(ManagementResponse { response, tag: m.tag, stat_sn, exp_cmd_sn: 4, max_cmd_sn: 9 })
    };
    let done = answer(&mut t, &m, management_response::COMPLETE);
    t.say(&mut s, done, &[]).unwrap();
    let ended = s.pop().unwrap();
    assert_eq!((ended.command.tag, ended.result.unwrap_err().status), (71, ScsiStatus::TaskAborted));
    assert_eq!(s.tags_in_flight().collect::<Vec<_>>(), [70, 72]);
    // One that was answered while it was being aborted.
    assert!(s.abort(72));
    let (HostPdu::Management(m), _) = t.next(&mut s).unwrap() else { panic!() };
    t.end(&mut s, tags[2], ScsiStatus::Busy, &[]).unwrap();
    assert_eq!(s.pop().unwrap().result.unwrap_err().status, ScsiStatus::Busy);
    let done = answer(&mut t, &m, management_response::NO_TASK);
    t.say(&mut s, done, &[]).unwrap();
    assert!(s.pop().is_none() && s.in_flight() == 1);
    let again = answer(&mut t, &m, management_response::COMPLETE);
    assert!(matches!(t.say(&mut s, again, &[]), Err(SessionError::UnknownTask(_))), "nobody asked for that");
}

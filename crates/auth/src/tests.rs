use crate::*;
use base::{Duration, Instant};
use format::nvme::auth::{Challenge, Ids, MessageId, Negotiate, Reply, failure, success2};
use proptest::prelude::*;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
const SUBSYSTEM: &str = "nqn.2026-11.io.basalt:test";
const ROOM: usize = 4096;

/// Numbers that differ, the same in each run.
fn numbers(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut x = seed;
    move |out| {
        for b in out {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *b = (x >> 33) as u8;
        }
    }
}

fn secret(n: u64, hash: HashId) -> Secret {
    Secret::generate(hash, &mut numbers(n))
}

fn credentials(mutual: bool) -> Credentials {
    Credentials::new(secret(1, HashId::Sha256), mutual.then(|| secret(2, HashId::Sha512)))
}

/// A controller's machine with what it needs.
struct Rig {
    machine: ControllerAuth,
    credentials: Option<Credentials>,
    now: Instant,
    seed: u64,
}

impl Rig {
    fn new(credentials: Credentials) -> Self {
        let now = Instant(1_000);
        Self { machine: ControllerAuth::new(HOST, SUBSYSTEM, now, true), credentials: Some(credentials), now, seed: 77 }
    }
    fn with<T>(&mut self, f: impl FnOnce(&mut ControllerAuth, &mut AuthCx<'_>) -> T) -> T {
        self.seed += 1;
        let mut random = numbers(self.seed);
        let mut cx = AuthCx { now: self.now, credentials: self.credentials.as_ref(), random: &mut random };
        f(&mut self.machine, &mut cx)
    }
    /// Sends and does the work that comes of it.
    fn send(&mut self, message: &[u8]) -> Option<Outcome> {
        match self.with(|m, cx| m.send(cx, message)) {
            Sent::Accepted(outcome) => outcome,
            Sent::Work(work) => {
                assert!(matches!(self.with(|m, cx| m.send(cx, message)), Sent::Early), "a second message before the work is done");
                assert_eq!(self.machine.receive(ROOM), Received::Nothing);
                let done = work.run();
                self.with(|m, cx| m.done(cx, done));
                None
            }
            Sent::Early => panic!("no work is under way"),
        }
    }
    fn receive(&mut self) -> (Vec<u8>, Option<Outcome>) {
        match self.machine.receive(ROOM) {
            Received::Message(m, outcome) => (m, outcome),
            other => panic!("{other:?}"),
        }
    }
    fn fails(&mut self, reason: FailureReason) {
        let (message, outcome) = self.receive();
        assert_eq!(MessageId::of(&message), Some(MessageId::Failure1));
        assert_eq!((message[7], outcome), (reason as u8, Some(Outcome::Failed(reason))));
        assert!(!self.machine.is_authenticated());
        assert_eq!(self.machine.receive(ROOM), Received::Nothing);
    }
}

/// A whole transaction; how it ended for each side.
fn transact(rig: &mut Rig, host: &mut HostAuth) -> (Option<Outcome>, Result<(), HostFailure>) {
    let (mut random, live) = (numbers(5), rig.machine.is_authenticated());
    if let Some(end) = rig.send(&host.negotiate()) {
        return (Some(end), Ok(()));
    }
    let (challenge, end) = rig.receive();
    let reply = match host.on_challenge(&challenge, &mut random) {
        Ok(reply) => reply,
        Err(HostFailure::Wrong { reason, message }) => {
            let end = rig.send(&message);
            return (end, Err(HostFailure::Wrong { reason, message }));
        }
        Err(refused) => return (end, Err(refused)),
    };
    assert_eq!(rig.send(&reply), None);
    let (success, end) = rig.receive();
    match host.on_success1(&success) {
        Ok(None) => (end, Ok(())),
        Ok(Some(last)) => {
            assert_eq!(rig.machine.is_authenticated(), live, "a mutual authentication ends with Success2");
            (rig.send(&last), Ok(()))
        }
        Err(HostFailure::Wrong { reason, message }) => (rig.send(&message).or(end), Err(HostFailure::Wrong { reason, message })),
        Err(refused) => (end, Err(refused)),
    }
}

fn host(credentials: Credentials) -> HostAuth {
    HostAuth::new(credentials, HOST, SUBSYSTEM, 0x0506)
}

#[test]
fn every_hash_with_every_group_one_way_and_mutual() {
    for &hash in HashId::ALL {
        for &group in DhGroup::ALL {
            for mutual in [false, true] {
                let both = Credentials { hashes: vec![hash], groups: vec![group], ..credentials(mutual) };
                let mut rig = Rig::new(both);
                let (end, host) = transact(&mut rig, &mut host(credentials(mutual)));
                assert_eq!(host, Ok(()), "{hash:?} {group:?}");
                assert_eq!(end, Some(Outcome::Authenticated { hash, group, mutual }));
                assert!(rig.machine.is_authenticated() && rig.machine.deadline().is_none());
            }
        }
    }
}

#[test]
fn a_live_queue_authenticates_again_and_ends_when_that_fails() {
    let mut rig = Rig::new(credentials(true));
    assert!(transact(&mut rig, &mut host(credentials(true))).1.is_ok());
    // The secret changed: the old one does not do any more, and while a transaction runs the queue stays what it is.
    let new = Credentials { host: secret(9, HashId::Sha384), ..credentials(true) };
    rig.credentials = Some(new.clone());
    assert!(rig.machine.is_authenticated());
    assert!(transact(&mut rig, &mut host(new)).1.is_ok());
    rig.send(&host(credentials(true)).negotiate());
    assert!(rig.machine.is_authenticated() && rig.machine.deadline().is_some(), "authenticated while the next transaction runs");
    rig.receive();
    rig.send(&success2(0x0506));
    rig.fails(FailureReason::IncorrectMessage);
}

#[test]
fn a_wrong_secret_on_either_side_is_found() {
    let mut rig = Rig::new(credentials(false));
    let wrong = Credentials { host: secret(3, HashId::Sha256), ..credentials(false) };
    let (end, by_host) = transact(&mut rig, &mut host(wrong));
    assert_eq!((end, by_host), (Some(Outcome::Failed(FailureReason::Failed)), Err(HostFailure::Refused(1))));
    assert!(!rig.machine.is_authenticated());
    assert_eq!(rig.send(&host(credentials(false)).negotiate()), None, "what failed stays failed");
    assert_eq!(rig.machine.receive(ROOM), Received::Nothing);

    let mut rig = Rig::new(credentials(true));
    let wrong = Credentials { controller: Some(secret(4, HashId::Sha512)), ..credentials(true) };
    let (end, by_host) = transact(&mut rig, &mut host(wrong));
    assert_eq!(end, Some(Outcome::Refused(1)));
    assert!(matches!(by_host, Err(HostFailure::Wrong { reason: FailureReason::Failed, .. })));
    assert!(!rig.machine.is_authenticated());

    // Asked to prove itself without a secret of its own.
    let mut rig = Rig::new(credentials(false));
    assert_eq!(transact(&mut rig, &mut host(credentials(true))).0, Some(Outcome::Failed(FailureReason::Failed)));
    // No secret of the host at all.
    let mut rig = Rig::new(credentials(false));
    rig.credentials = None;
    assert_eq!(transact(&mut rig, &mut host(credentials(true))).0, Some(Outcome::Failed(FailureReason::Failed)));
    // The same secret, another host or subsystem.
    let mut rig = Rig::new(credentials(false));
    let mut other = HostAuth::new(credentials(false), &HOST.replace("0001", "0002"), SUBSYSTEM, 1);
    assert_eq!(transact(&mut rig, &mut other).0, Some(Outcome::Failed(FailureReason::Failed)));
}

#[test]
fn a_controller_that_does_not_answer_the_challenge_is_refused() {
    let mut rig = Rig::new(credentials(true));
    let mut mine = host(credentials(true));
    rig.send(&mine.negotiate());
    let (challenge, _) = rig.receive();
    mine.on_challenge(&challenge, &mut numbers(5)).unwrap();
    let silent = format::nvme::auth::Success1 { t_id: 0x0506, digest_bytes: 48, response: None }.to_bytes();
    assert!(matches!(mine.on_success1(&silent), Err(HostFailure::Wrong { reason: FailureReason::Failed, .. })));
    let mut early = host(credentials(true));
    assert!(matches!(early.on_success1(&silent), Err(HostFailure::Wrong { reason: FailureReason::IncorrectMessage, .. })));
    assert!(matches!(
        early.on_challenge(&[1, 1], &mut numbers(5)),
        Err(HostFailure::Wrong { reason: FailureReason::IncorrectPayload, .. })
    ));
    for (at, to, reason) in [
        (4, 9, FailureReason::IncorrectPayload),
        (6, 32, FailureReason::IncorrectPayload),
        (8, 9, FailureReason::HashUnusable),
        (9, 9, FailureReason::GroupUnusable),
        (0, 9, FailureReason::IncorrectMessage),
        (1, 3, FailureReason::IncorrectMessage),
    ] {
        let mut bad = challenge.clone();
        bad[at] = to;
        let got = host(credentials(true)).on_challenge(&bad, &mut numbers(5));
        assert!(matches!(&got, Err(HostFailure::Wrong { reason: r, .. }) if *r == reason), "byte {at}: {got:?}");
    }
}

#[test]
fn what_the_host_offers_is_chosen_from_by_our_preference() {
    let offer = |hashes: &[u8], groups: &[u8], concatenation| {
        let dhchap = Some((Ids::new(hashes.iter().copied()), Ids::new(groups.iter().copied())));
        Negotiate { t_id: 3, concatenation, dhchap }.to_bytes()
    };
    let chosen = |message: &[u8]| {
        let mut rig = Rig::new(credentials(false));
        rig.send(message);
        let (m, _) = rig.receive();
        (m[1], if m[0] == 0 { (m[7], 0) } else { (m[8], m[9]) })
    };
    assert_eq!(chosen(&offer(&[1, 2, 3], &[0, 1, 2, 3, 4, 5], 0)), (1, (2, 2)));
    assert_eq!(chosen(&offer(&[1, 3], &[0, 1], 0)), (1, (3, 1)));
    assert_eq!(chosen(&offer(&[1], &[0, 99], 0)), (1, (1, 0)));
    assert_eq!(chosen(&offer(&[4], &[0], 0)), (0xF1, (4, 0)), "no common hash");
    assert_eq!(chosen(&offer(&[1], &[6], 0)), (0xF1, (5, 0)), "no common group");
    assert_eq!(chosen(&offer(&[1], &[1], 1)), (0xF1, (3, 0)), "no concatenation");
    assert_eq!(chosen(&Negotiate { t_id: 3, concatenation: 0, dhchap: None }.to_bytes()), (0xF1, (2, 0)), "no protocol");
    assert_eq!(chosen(&offer(&[1], &[1], 0)[..71]), (0xF1, (6, 0)), "cut short");
}

#[test]
fn replies_that_are_wrong_in_any_field_fail_with_the_right_reason() {
    use FailureReason as F;
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change, F); 10] = [
        ("transaction", |m| m[4] ^= 1, F::IncorrectPayload),
        ("HL", |m| m[6] = 32, F::IncorrectPayload),
        ("CVALID", |m| m[8] = 2, F::IncorrectPayload),
        ("DHVLEN", |m| m[10] ^= 4, F::IncorrectPayload),
        ("S2 of 0 with C2", |m| m[12..16].fill(0), F::IncorrectPayload),
        ("R1", |m| m[16] ^= 1, F::Failed),
        ("cut", |m| m.truncate(m.len() - 1), F::IncorrectPayload),
        ("longer", |m| m.push(0), F::IncorrectPayload),
        ("another message", |m| m[1] = 4, F::IncorrectMessage),
        (
            "DH value 1",
            |m| {
                let at = m.len() - 384;
                m[at..].fill(0);
                *m.last_mut().unwrap() = 1
            },
            F::GroupUnusable,
        ),
    ];
    for (what, change, reason) in changes {
        let mut rig = Rig::new(credentials(true));
        let mut mine = host(credentials(true));
        rig.send(&mine.negotiate());
        let (challenge, _) = rig.receive();
        let mut reply = mine.on_challenge(&challenge, &mut numbers(5)).unwrap();
        change(&mut reply);
        rig.send(&reply);
        println!("{what}");
        rig.fails(reason);
    }
}

#[test]
fn nothing_of_another_transaction_or_of_the_controller_is_of_use() {
    // A reply of a transaction before.
    let mut rig = Rig::new(credentials(false));
    let mut mine = host(credentials(false));
    rig.send(&mine.negotiate());
    let (first, _) = rig.receive();
    let reply = mine.on_challenge(&first, &mut numbers(5)).unwrap();
    rig.send(&reply);
    rig.receive();
    assert!(rig.machine.is_authenticated());
    rig.send(&host(credentials(false)).negotiate());
    let (second, _) = rig.receive();
    let (a, b) = (Challenge::parse(&first).unwrap(), Challenge::parse(&second).unwrap());
    assert!(a.challenge != b.challenge && a.dh_value != b.dh_value && b.seq == a.seq.wrapping_add(1));
    rig.send(&reply);
    rig.fails(FailureReason::Failed);
    // Our own challenge and our own DH value, sent back.
    for reflect in [true, false] {
        let mut rig = Rig::new(credentials(true));
        let mut mine = host(credentials(true));
        rig.send(&mine.negotiate());
        let (challenge, _) = rig.receive();
        let c = Challenge::parse(&challenge).unwrap();
        let reply = mine.on_challenge(&challenge, &mut numbers(5)).unwrap();
        let r = Reply::parse(&reply).unwrap();
        let bad = if reflect { Reply { challenge: Some(c.challenge), ..r } } else { Reply { dh_value: c.dh_value, ..r } };
        rig.send(&bad.to_bytes());
        rig.fails(if reflect { FailureReason::Failed } else { FailureReason::GroupUnusable });
    }
}

#[test]
fn messages_out_of_order_end_it() {
    let good = host(credentials(true));
    let reply = Reply { t_id: 0x0506, seq: 1, response: &[0; 48], challenge: None, dh_value: &[0; 384] }.to_bytes();
    for message in [&reply[..], &success2(0x0506), &failure(MessageId::Failure2, 0x0506, FailureReason::Failed), &[9; 20], &[9; 7]] {
        let mut rig = Rig::new(credentials(true));
        rig.send(message);
        rig.fails(if message.len() == 7 { FailureReason::IncorrectPayload } else { FailureReason::IncorrectMessage });
    }
    // Twice the same, and a second negotiation within a transaction.
    let mut rig = Rig::new(credentials(true));
    rig.send(&good.negotiate());
    rig.send(&good.negotiate());
    rig.fails(FailureReason::IncorrectMessage);
    let mut rig = Rig::new(credentials(true));
    rig.send(&good.negotiate());
    rig.receive();
    rig.send(&good.negotiate());
    rig.fails(FailureReason::IncorrectMessage);
    // The host does not like our challenge.
    let mut rig = Rig::new(credentials(true));
    rig.send(&good.negotiate());
    rig.receive();
    assert_eq!(rig.send(&failure(MessageId::Failure2, 0x0506, FailureReason::HashUnusable)), Some(Outcome::Refused(4)));
    assert!(!rig.machine.is_authenticated());
    // Nothing is due before the host has begun.
    let mut rig = Rig::new(credentials(true));
    assert_eq!(rig.machine.receive(ROOM), Received::Nothing);
    rig.send(&good.negotiate());
    assert_eq!(rig.machine.receive(100), Received::TooShort);
    rig.receive();
}

#[test]
fn a_transaction_has_a_minute() {
    let second = Duration::from_secs(1);
    let mut rig = Rig::new(credentials(false));
    assert_eq!(rig.machine.on_time(rig.now + TRANSACTION_MAX - second), Ok(()));
    rig.send(&host(credentials(false)).negotiate());
    assert_eq!(rig.machine.on_time(rig.now + TRANSACTION_MAX), Err(TimedOut));
    assert_eq!(rig.machine.receive(ROOM), Received::Nothing, "it has failed");
    // A live queue has no deadline, until it authenticates again.
    let mut rig = Rig::new(credentials(false));
    transact(&mut rig, &mut host(credentials(false))).1.unwrap();
    rig.now += second * 1_000;
    assert_eq!(rig.machine.on_time(rig.now), Ok(()));
    rig.send(&host(credentials(false)).negotiate());
    assert_eq!((rig.machine.on_time(rig.now + second * 59), rig.machine.is_authenticated()), (Ok(()), true));
    assert_eq!((rig.machine.on_time(rig.now + second * 60), rig.machine.is_authenticated()), (Err(TimedOut), false));
    // Work that comes back after the end changes nothing.
    let mut rig = Rig::new(credentials(false));
    let Sent::Work(work) = rig.with(|m, cx| m.send(cx, &host(credentials(false)).negotiate())) else { panic!("work") };
    assert_eq!(rig.machine.on_time(rig.now + TRANSACTION_MAX), Err(TimedOut));
    rig.with(|m, cx| m.done(cx, work.run()));
    assert_eq!(rig.machine.receive(ROOM), Received::Nothing);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_messages_never_authenticate_nor_panic(messages in proptest::collection::vec((0usize..8, proptest::collection::vec(any::<u8>(), 0..1300), 0usize..5000), 1..6)) {
        let mut rig = Rig::new(Credentials { groups: vec![DhGroup::Ffdhe2048, DhGroup::Null], ..credentials(true) });
        let mut mine = host(credentials(true));
        for (kind, mut bytes, room) in messages {
            let heads = [[0u8, 0], [0, 0xF0], [0, 0xF1], [1, 1], [1, 2], [1, 3], [1, 4]];
            if let (Some(head), Some(to)) = (heads.get(kind), bytes.get_mut(..2)) {
                to.copy_from_slice(head);
            } else {
                bytes = host(credentials(true)).negotiate();
            }
            if let Sent::Work(work) = rig.with(|m, cx| m.send(cx, &bytes)) {
                let done = work.run();
                rig.with(|m, cx| m.done(cx, done));
            }
            rig.machine.receive(room);
            prop_assert!(!rig.machine.is_authenticated());
            let _ = mine.on_challenge(&bytes, &mut numbers(1));
            prop_assert!(mine.on_success1(&bytes).is_err());
        }
    }

    #[test]
    fn any_text_is_a_secret_or_is_refused(text in "(DHHC-1:)?0[0-4]?:?[A-Za-z0-9+/=]{0,100}:?") {
        if let Ok(secret) = Secret::parse(&text) {
            prop_assert_eq!(&*secret.expose(), &text);
        }
    }

    #[test]
    fn a_generated_secret_is_read_back(seed in any::<u64>(), hash in prop::sample::select(HashId::ALL)) {
        let s = secret(seed, hash);
        let text = s.expose();
        prop_assert_eq!(&Secret::parse(&text).unwrap(), &s);
        prop_assert_eq!(s.transform(), Some(hash));
        prop_assert!(secret(seed ^ 1, hash) != s);
        // One wrong character is always found.
        let mut wrong = text.as_bytes().to_vec();
        wrong[12] = if wrong[12] == b'A' { b'B' } else { b'A' };
        prop_assert_eq!(Secret::parse(std::str::from_utf8(&wrong).unwrap()), Err(SecretError::Checksum));
    }
}

#[test]
fn secrets_are_what_nvme_cli_makes_and_are_not_shown() {
    // An example of nvme-cli's documentation.
    let text = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    let s = Secret::parse(&format!(" {text}\n")).unwrap();
    assert_eq!((s.transform(), &**s.expose()), (None, text));
    assert_eq!(s.key_for(HOST).unwrap(), s.key_for(SUBSYSTEM).unwrap(), "not transformed");
    let shown = format!("{s:?} {:?}", Credentials::new(s.clone(), Some(s.clone())));
    assert!(!shown.contains("ia6z") && shown.contains("not shown"), "{shown}");
    let body = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n";
    for (text, error) in [
        ("", SecretError::Form),
        ("DHHC-1:00", SecretError::Form),
        (&format!("DHHC-1:00:{body}"), SecretError::Form),
        (&format!("DHHC-1:0:{body}:"), SecretError::Form),
        (&format!("DHHC-1:00:{body}::"), SecretError::Form),
        (&format!("DHHC-1:04:{body}:"), SecretError::Hash),
        (&format!("DHHC-1:-1:{body}:"), SecretError::Hash),
        (&format!("DHHC-1:+1:{body}:"), SecretError::Hash),
        // The same bytes, but bits behind the last of them that no tool writes.
        (&format!("DHHC-1:02:{}B==:", "A".repeat(69)), SecretError::Form),
        ("DHHC-1:00:aaaa:", SecretError::Length),
        ("DHHC-1:00:aaaaaaaa:", SecretError::Length),
    ] {
        assert_eq!(Secret::parse(text), Err(error), "{text}");
    }
}

/// Computed with another program (Python's hmac, hashlib, zlib and pow).
#[test]
fn responses_are_what_others_compute() {
    let cases = KNOWN;
    for (hash, text, host_response, controller_response) in cases {
        let secret = Secret::parse(text).unwrap();
        let challenge = vec![0xC1; hash.bytes()];
        let key = secret.key_for(HOST).unwrap();
        let got = response(hash, Role::Host, &key, &challenge, None, 0x0102_0304, 0x0506, HOST, SUBSYSTEM).unwrap();
        assert_eq!(hex(&got), host_response);
        // 3^1234567h in ffdhe2048.
        let prime = openssl::bn::BigNum::from_hex_str(crate::primes::prime(DhGroup::Ffdhe2048).unwrap()).unwrap();
        let (three, e) = (openssl::bn::BigNum::from_u32(3).unwrap(), openssl::bn::BigNum::from_u32(0x0123_4567).unwrap());
        let (mut r, mut cx) = (openssl::bn::BigNum::new().unwrap(), openssl::bn::BigNumContext::new().unwrap());
        r.mod_exp(&three, &e, &prime, &mut cx).unwrap();
        let shared = r.to_vec_padded(256).unwrap();
        let key = secret.key_for(SUBSYSTEM).unwrap();
        let got = response(hash, Role::Controller, &key, &challenge, Some(&shared), 7, 9, HOST, SUBSYSTEM).unwrap();
        assert_eq!(hex(&got), controller_response);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_primes_are_those_of_the_standard() {
    use openssl::bn::BigNum;
    let power = |n: i32| {
        let mut out = BigNum::new().unwrap();
        out.set_bit(n).unwrap();
        out
    };
    // RFC 7919: p = 2^b - 2^(b-64) + (floor(2^(b-130) e) + x) 2^64 - 1; so what is left of p gives the same e for each.
    let groups = [
        (DhGroup::Ffdhe2048, 560_316u32),
        (DhGroup::Ffdhe3072, 2_625_351),
        (DhGroup::Ffdhe4096, 5_736_041),
        (DhGroup::Ffdhe6144, 15_705_020),
        (DhGroup::Ffdhe8192, 10_965_728),
    ];
    let e_of = |group: DhGroup, x: u32| {
        let bits = group.bytes() as i32 * 8;
        let p = BigNum::from_hex_str(crate::primes::prime(group).unwrap()).unwrap();
        assert_eq!((p.num_bits(), p.is_bit_set(0)), (bits, true));
        let mut sum = &(&p + &power(bits - 64)) - &power(bits);
        sum.add_word(1).unwrap();
        let mut e = BigNum::new().unwrap();
        e.rshift(&sum, 64).unwrap();
        e.sub_word(x).unwrap();
        (bits, e)
    };
    let (bits_max, longest) = e_of(DhGroup::Ffdhe8192, 10_965_728);
    // 2^62 e = 2.718281828459045... * 4.6e18, from the head of the digits.
    let mut head = BigNum::new().unwrap();
    head.rshift(&longest, bits_max - 130 - 40).unwrap();
    assert_eq!(head.to_dec_str().unwrap().parse::<u64>().unwrap(), (std::f64::consts::E * (1u64 << 40) as f64) as u64);
    for (group, x) in groups {
        let (bits, e) = e_of(group, x);
        let mut cut = BigNum::new().unwrap();
        cut.rshift(&longest, bits_max - bits).unwrap();
        assert_eq!(e, cut, "{group:?}");
    }
}

#[test]
fn both_sides_of_an_exchange_agree_in_full_width_and_bad_values_are_refused() {
    for &group in &DhGroup::ALL[1..4] {
        let mut short = false;
        for seed in 0..if group == DhGroup::Ffdhe2048 { 300 } else { 3 } {
            let (a, b) = (Exponent::new(group, &mut numbers(seed)), Exponent::new(group, &mut numbers(seed + 1_000)));
            let shared = a.shared(&b.public().unwrap()).unwrap();
            assert_eq!(*shared, *b.shared(&a.public().unwrap()).unwrap());
            assert_eq!(shared.len(), group.bytes());
            short |= shared[0] == 0;
        }
        assert!(short || group != DhGroup::Ffdhe2048, "of 300 numbers one begins with a zero byte, which stays");
        let a = Exponent::new(group, &mut numbers(1));
        let value = |n: u8| {
            let mut v = vec![0; group.bytes()];
            *v.last_mut().unwrap() = n;
            v
        };
        let all = vec![0xFF; group.bytes()];
        let mut minus_one = openssl::bn::BigNum::from_hex_str(crate::primes::prime(group).unwrap()).unwrap();
        minus_one.sub_word(1).unwrap();
        for bad in [&value(0), &value(1), &all, &minus_one.to_vec(), &value(2)[1..].to_vec(), &Vec::new()] {
            assert_eq!(a.shared(bad), Err(Unusable));
        }
        assert!(a.shared(&value(2)).is_ok());
        assert!(!format!("{a:?}").contains("128"), "not shown");
    }
}

/// Hash, secret, response of the host without an exchange, response of the controller with one.
const KNOWN: [(HashId, &str, &str, &str); 3] = [
    (
        HashId::Sha256,
        "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "51eadf237820adb59ffbc5d86de01b6c956361dabd6033aa8a0046d9bfe6b89a",
        "b82200cb71d24d739ad4f5445f9d1f2292b2f1b21c63b48ca747d5d9c80a433d",
    ),
    (
        HashId::Sha384,
        "DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:",
        "8cf929a94c419146a73b2ccc05d044b650b636c0a6aa869cb107cd5ef4b265f84e3be92bd87671f9d0458be60c301444",
        "7c4bf357fd38459187031079219e2c6266a1ee6d8a316b910924836163d50fa0d653beb0979f646b5260946c7006bbdb",
    ),
    (
        HashId::Sha512,
        "DHHC-1:03:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P4zODhA=:",
        "79e8a7a81e195bbac3888754b87d510a47b9c167075de103e7faa4a51560a6ee46b429f2ff20d16d985f841a4b29b680dda85102ad2ea3cddc92f82a9c31b167",
        "442dff83af92c755f986bf6543de55a7d64b520ef48737c7c78a1fdd038da1f25f884a57b326992c10702287ea75505dc5e6c1e0b888d49676acce9de3aab8c0",
    ),
];

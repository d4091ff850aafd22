//! How connections begin: the ClientHello of TLS, the messages of DH-HMAC-CHAP.

use crate::input::{mode, patch};
use crate::text::PSK;
use arbitrary::Unstructured;
use auth::{AuthCx, ControllerAuth, Credentials, DhGroup, HostAuth, Outcome, Received, Secret, Sent, TRANSACTION_MAX};
use base::Instant;
use format::nvme::auth::{Challenge, MESSAGE_BYTES_MAX, MessageId, Negotiate, Reply, Success1, failure_code};
use std::sync::{Arc, OnceLock};
use tls::{ConfiguredPsk, Context, Engine, Fault, HELLO_BYTES_MAX, HostIdentity};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
const NQN: &str = "nqn.2026-11.io.basalt:fuzz";

/// The first bytes of a TLS connection. Mode 0: as they are. Otherwise the body of a ClientHello, to which its headers are put; bits 1 to 7 of
/// the mode cut it into records.
///
/// The binder is a MAC, which no input guesses: this is what a client without a key can reach.
pub fn tls_hello(data: &[u8]) {
    static CONTEXT: OnceLock<Arc<Context>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| Arc::new(Context::new().expect("OpenSSL has TLS 1.3")));
    let (how, rest) = mode(data);
    let stream = if how == 0 { rest.to_vec() } else { hello(rest, usize::from(how >> 1)) };

    let (whole, mut calls) = (greet(context, &stream, stream.len()), 0);
    let pieces = greet(context, &stream, 1 + usize::from(how) * 5);
    assert_eq!(whole.0, pieces.0, "how the bytes are cut makes no difference");
    assert_eq!(whole.1, pieces.1);
    calls += whole.2;
    assert!(calls <= 8, "identities that are looked up are few");
}

fn hello(body: &[u8], records: usize) -> Vec<u8> {
    let len = body.len() as u32;
    let message = [&[1, (len >> 16) as u8, (len >> 8) as u8, len as u8], body].concat();
    let piece = if records == 0 { 1 << 14 } else { records };
    let record = |part: &[u8]| [&[22, 3, 1, (part.len() >> 8) as u8, part.len() as u8], part].concat();
    message.chunks(piece).flat_map(record).collect()
}

/// What became of it, what goes out, and how often keys were asked for.
fn greet(context: &Arc<Context>, stream: &[u8], piece: usize) -> (Option<Fault>, Vec<u8>, usize) {
    let psk = ConfiguredPsk::parse(PSK).expect("a key");
    let mut engine = Engine::server(Arc::clone(context));
    let (mut fault, mut calls, mut fed) = (None, 0, 0);
    for part in stream.chunks(piece.max(1)) {
        let mut keys = |identity: &HostIdentity| {
            calls += 1;
            psk.keys_for(identity).unwrap_or_default()
        };
        fed += part.len();
        let result = engine.receive(part, &mut keys);
        assert!(!engine.is_open() && !engine.is_shaking() && engine.identity().is_none(), "nobody proves a key by chance");
        if let Err(f) = result {
            assert!(!matches!(f, Fault::Library), "the input is to blame");
            fault = Some(f);
            break;
        }
        assert!(fed <= HELLO_BYTES_MAX, "no more than that is kept");
        assert!(engine.out().is_empty());
    }
    let out = engine.out().to_vec();
    match &fault {
        Some(Fault::Refused { alert, .. }) => assert_eq!(out, [21, 3, 3, 0, 2, 2, *alert]),
        _ => assert!(out.is_empty()),
    }
    if fault.is_some() {
        assert_eq!(engine.receive(stream, |_| unreachable!("it has ended")), Ok(()));
        assert_eq!((engine.read(&mut [0; 16]), engine.out()), (Ok(Some(0)), &out[..]), "what has ended stays so");
    }
    (fault, out, calls)
}

fn secret(byte: u8) -> Secret {
    Secret::generate(auth::HashId::Sha256, &mut |b| b.fill(byte))
}

/// One host's messages to the controller's machine, in any order, changed anywhere. Only who has the secret is let in.
pub fn auth_exchange(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let mut counter = 0u8;
    let mut random = |b: &mut [u8]| {
        for byte in b {
            counter = counter.wrapping_mul(5).wrapping_add(17);
            *byte = counter;
        }
    };
    let setup: u8 = u.arbitrary().unwrap_or(0);
    let groups = if setup & 1 == 0 { vec![DhGroup::Null] } else { vec![DhGroup::Ffdhe2048, DhGroup::Null] };
    let controller = (setup & 2 != 0).then(|| secret(2));
    let known = Credentials { groups: groups.clone(), ..Credentials::new(secret(1), controller.clone()) };
    let credentials = (setup & 4 == 0).then_some(&known);
    // A host with the right secret, and one with another.
    let hosts = [1, 9].map(|s| Credentials { groups: groups.clone(), ..Credentials::new(secret(s), (setup & 8 != 0).then(|| secret(2))) });
    let (mut who, mut host) = (0, HostAuth::new(hosts[0].clone(), HOST, NQN, 1));

    let mut now = Instant(1_000_000_000);
    let mut machine = ControllerAuth::new(HOST, NQN, now, setup & 16 != 0);
    // The last message of the controller; the response that proves the host to it; whether that was sent.
    let (mut last, mut right, mut proved, mut ended) = (Vec::new(), None::<Vec<u8>>, false, false);
    for _ in 0..24 {
        let Ok(what) = u.arbitrary::<u8>() else { break };
        let mut message = match what % 8 {
            0 => u.bytes(usize::from(what)).map(<[u8]>::to_vec).unwrap_or_default(),
            1 | 2 => {
                who = usize::from(what >> 7);
                host = HostAuth::new(hosts[who].clone(), HOST, NQN, 1);
                host.negotiate()
            }
            3 | 4 => match host.on_challenge(&last, &mut random) {
                Ok(reply) => {
                    if who == 0 {
                        right = Reply::parse(&reply).map(|r| r.response.to_vec());
                    }
                    reply
                }
                Err(_) => continue,
            },
            5 => match host.on_success1(&last) {
                Ok(Some(message)) => message,
                _ => continue,
            },
            6 => {
                let room = if what & 64 == 0 { MESSAGE_BYTES_MAX } else { usize::from(what) };
                let (was, got) = (machine.is_authenticated(), machine.receive(room));
                if let Received::Message(m, outcome) = got {
                    assert!(m.len() <= room && !ended);
                    check_message(&m);
                    ended = matches!(outcome, Some(Outcome::Failed(_)));
                    let authenticated = matches!(outcome, Some(Outcome::Authenticated { .. }));
                    assert!(!authenticated || proved, "only who has the secret is let in");
                    assert_eq!(machine.is_authenticated(), (was || authenticated) && !ended);
                    last = m;
                }
                continue;
            }
            _ => {
                now += base::Duration::from_secs(u64::from(what));
                if machine.deadline().is_some_and(|at| at <= now) {
                    assert!(machine.on_time(now).is_err() && !machine.is_authenticated());
                    ended = true;
                } else {
                    assert!(machine.on_time(now).is_ok());
                }
                continue;
            }
        };
        let changes = usize::from(u.arbitrary::<u8>().unwrap_or(0) % 4) * 3;
        patch(&mut message, u.bytes(changes.min(u.len())).unwrap_or(&[]));
        if let (Some(sent), Some(right)) = (Reply::parse(&message), &right) {
            proved |= sent.response == right;
        }
        if Negotiate::parse(&message).is_some() {
            assert!(machine.deadline().is_none_or(|at| at <= now + TRANSACTION_MAX));
        }
        let mut cx = AuthCx { now, credentials, random: &mut random };
        let outcome = match machine.send(&mut cx, &message) {
            Sent::Accepted(outcome) => outcome,
            Sent::Work(work) => {
                machine.done(&mut cx, work.run());
                None
            }
            Sent::Early => unreachable!("work is done at once"),
        };
        match outcome {
            Some(Outcome::Authenticated { .. }) => assert!(proved && !ended, "only who has the secret is let in"),
            Some(Outcome::Failed(_) | Outcome::Refused(_)) => ended = true,
            None => {}
        }
        assert!(!(ended && machine.is_authenticated()), "what has failed stays so");
        assert!(proved || !machine.is_authenticated());
    }
}

/// What a controller sends is a message that a host can read.
fn check_message(m: &[u8]) {
    assert!(m.len() <= MESSAGE_BYTES_MAX);
    match MessageId::of(m) {
        Some(MessageId::Challenge) => assert!(Challenge::parse(m).is_some_and(|c| c.seq != 0 && c.to_bytes() == m)),
        Some(MessageId::Success1) => assert!(Success1::parse(m).is_some_and(|s| s.to_bytes() == m)),
        Some(MessageId::Failure1) => assert!(failure_code(m).is_some()),
        other => panic!("a controller does not send {other:?}"),
    }
}

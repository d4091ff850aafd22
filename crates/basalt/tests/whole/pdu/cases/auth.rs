//! In-band authentication: what must not come before it, messages out of order, and messages whose fields or lengths are wrong.

use super::with;
use crate::pdu::case::{ADMIN, Answer, Case, CaseState, DISCOVERY, IO, KEYED, case, fails, good};
use crate::pdu::run::{Run, Stop};
use format::nvme::admin::plain_sqe;
use format::nvme::auth::{
    AuthCommand, Challenge, FailureReason as Reason, Ids, MessageId, NO_CONCATENATION, Negotiate, Reply, failure, success2,
};
use format::nvme::fabrics::{PropertyAccess, disconnect_sqe};
use format::nvme::property::{CC, VS};
use format::nvme::{AdminOpcode, Sgl, Sqe, StatusCode};

const COMMANDS: &str = "base 6.2";
const FIRST: &str = "base 6.3, 91h";
const NEGOTIATE: &str = "base 8.13.5.1, figure 384";
const REPLY: &str = "base 8.13.5.4, figure 390";
const ORDER: &str = "base 8.13.5, figure 392";
/// Transaction of the cases.
const T_ID: u16 = 0x1234;
/// Bytes that cases ask for.
const ROOM: u32 = 512;
/// SHA-256.
const HASH: u8 = 1;
/// No DH exchange, and FFDHE2048.
const NULL: u8 = 0;
const FFDHE2048: u8 = 1;

fn send_as(r: &mut Run<'_>, command: AuthCommand, message: &[u8]) -> Result<(), Stop> {
    let sgl = if message.is_empty() { Sgl::default() } else { Sgl::in_capsule(0, message.len() as u32) };
    r.conn.command(Sqe { sgl, ..command.send_sqe(0) }, message)
}
/// Sends a message, which is taken whatever it says.
fn send(r: &mut Run<'_>, message: &[u8]) -> Result<(), Stop> {
    send_as(r, AuthCommand::new(message.len() as u32), message)?;
    r.conn.expect(&good())
}
fn receive_as(r: &mut Run<'_>, command: AuthCommand, bytes: u32) -> Result<(), Stop> {
    r.conn.command(Sqe { sgl: Sgl::transport(bytes), ..command.receive_sqe(0) }, &[])
}
fn receive(r: &mut Run<'_>) -> Result<(), Stop> {
    receive_as(r, AuthCommand::new(ROOM), ROOM)
}
fn offer(hashes: &[u8], groups: &[u8]) -> Negotiate {
    let ids = |ids: &[u8]| Ids::new(ids.iter().copied());
    Negotiate { t_id: T_ID, concatenation: NO_CONCATENATION, dhchap: Some((ids(hashes), ids(groups))) }
}
fn negotiate(group: u8) -> Vec<u8> {
    offer(&[HASH], &[group]).to_bytes()
}
/// Negotiates and fetches the challenge.
fn challenged(r: &mut Run<'_>, group: u8) -> Result<(), Stop> {
    send(r, &negotiate(group))?;
    receive(r)?;
    r.conn.expect(&Answer::Data(ROOM))?;
    match Challenge::parse(&r.conn.data) {
        Some(c) if c.t_id == T_ID && c.hash == HASH && c.group == group && c.seq != 0 => Ok(()),
        other => Err(Stop::Differs(format!("no challenge: {other:?}"))),
    }
}
/// A reply without a challenge of ours, and a response that nobody's secret gives.
fn reply(group: u8) -> Vec<u8> {
    let dh_value = vec![7; if group == NULL { 0 } else { 256 }];
    Reply { t_id: T_ID, seq: 0, response: &[0x5A; 32], challenge: None, dh_value: &dh_value }.to_bytes()
}
/// The same with a challenge.
fn mutual(challenge: &[u8], seq: u32) -> Vec<u8> {
    Reply { t_id: T_ID, seq, response: &[0x5A; 32], challenge: Some(challenge), dh_value: &[] }.to_bytes()
}
/// AUTH_Failure1 with this reason; then the queue ends.
fn refused(reason: Reason) -> [Answer; 2] {
    [Answer::Failure1 { reason, t_id: T_ID }, Answer::Closes]
}

fn commands() -> Vec<Case> {
    let mut all = Vec::new();
    let field = || fails(StatusCode::INVALID_FIELD);
    let length = || fails(StatusCode::DATA_SGL_LENGTH_INVALID);
    let mut bad = |what: &str, command: fn(u32) -> AuthCommand| {
        all.push(case(
            format!("Authentication Send with {what}"),
            COMMANDS,
            KEYED,
            move |r| {
                let message = negotiate(NULL);
                send_as(r, command(message.len() as u32), &message)
            },
            field(),
        ));
        all.push(case(
            format!("Authentication Receive with {what}"),
            COMMANDS,
            KEYED,
            move |r| {
                send(r, &negotiate(NULL))?;
                receive_as(r, command(ROOM), ROOM)
            },
            field(),
        ));
    };
    bad("SECP 00h", |n| AuthCommand { secp: 0, ..AuthCommand::new(n) });
    bad("SECP EAh", |n| AuthCommand { secp: 0xEA, ..AuthCommand::new(n) });
    bad("SPSP0 00h", |n| AuthCommand { spsp0: 0, ..AuthCommand::new(n) });
    bad("SPSP1 02h", |n| AuthCommand { spsp1: 2, ..AuthCommand::new(n) });
    bad("a length of 0", |_| AuthCommand::new(0));
    for (what, change) in [("less", -1i64), ("more", 1)] {
        all.push(case(
            format!("Authentication Send with {what} data than its length"),
            COMMANDS,
            KEYED,
            move |r| {
                let message = negotiate(NULL);
                send_as(r, AuthCommand::new((message.len() as i64 - change) as u32), &message)
            },
            length(),
        ));
        all.push(case(
            format!("Authentication Receive with an SGL for {what} than its length"),
            COMMANDS,
            KEYED,
            move |r| {
                send(r, &negotiate(NULL))?;
                receive_as(r, AuthCommand::new(ROOM), (i64::from(ROOM) + change) as u32)
            },
            length(),
        ));
    }
    all.push(case(
        "Authentication Receive when there is nothing to fetch",
        "base 6.2, own",
        KEYED,
        receive,
        fails(StatusCode::COMMAND_SEQUENCE_ERROR),
    ));
    all.push(case(
        "Authentication Receive with room for less than the challenge; then with enough",
        "base 6.2, own",
        KEYED,
        |r| {
            send(r, &negotiate(NULL))?;
            receive_as(r, AuthCommand::new(47), 47)?;
            r.conn.expect(&fails(StatusCode::INVALID_FIELD))?;
            receive_as(r, AuthCommand::new(48), 48)
        },
        Answer::Data(48),
    ));
    for (state, name) in [(ADMIN, "admin queue"), (IO, "I/O queue")] {
        all.push(unwanted(state, name));
        all.push(case(
            format!("Authentication Receive on the {name} of a host that need not authenticate"),
            "base 6.2, own",
            state,
            receive,
            fails(StatusCode::COMMAND_SEQUENCE_ERROR),
        ));
    }
    all.push(case(
        "Authentication Send to a discovery controller",
        "base 3.1.2.3",
        DISCOVERY,
        |r| {
            let message = negotiate(NULL);
            send_as(r, AuthCommand::new(message.len() as u32), &message)
        },
        fails(StatusCode::INVALID_OPCODE),
    ));
    all
}

/// A host without a secret asks to authenticate where nobody asked it to.
fn unwanted(state: CaseState, name: &str) -> Case {
    case(
        format!("AUTH_Negotiate on the {name} of a host that has no secret"),
        "base 8.13.5, own",
        state,
        |r| {
            send(r, &negotiate(NULL))?;
            receive(r)
        },
        refused(Reason::Failed),
    )
}

/// What is refused as long as the queue is not authenticated.
fn before() -> Vec<Case> {
    let commands = [
        ("Property Get", PropertyAccess::get_sqe(0, VS, false)),
        ("Property Set", PropertyAccess::set_sqe(0, CC, false, 1)),
        ("Identify", Sqe { sgl: Sgl::transport(4096), ..plain_sqe(AdminOpcode::Identify, 0) }),
        ("Keep Alive", plain_sqe(AdminOpcode::KeepAlive, 0)),
        ("a command that there is not", Sqe { opcode: 0xC1, ..Sqe::default() }),
        ("Disconnect", disconnect_sqe(0)),
    ];
    let one = |(name, sqe): (&str, Sqe)| {
        let required = fails(StatusCode::AUTHENTICATION_REQUIRED);
        case(format!("{name} before authentication"), FIRST, KEYED, move |r| r.conn.command(sqe, &[]), required)
    };
    commands.into_iter().map(one).collect()
}

fn negotiates() -> Vec<Case> {
    let mut all = Vec::new();
    let mut one = |name: &str, section, message: Vec<u8>, reason: Reason| {
        all.push(case(
            format!("AUTH_Negotiate {name}"),
            section,
            KEYED,
            move |r| {
                send(r, &message)?;
                receive(r)
            },
            refused(reason),
        ));
    };
    let usual = negotiate(NULL);
    one("with a hash that there is not", NEGOTIATE, offer(&[0x7F], &[NULL]).to_bytes(), Reason::HashUnusable);
    one("with no hash", NEGOTIATE, offer(&[], &[NULL]).to_bytes(), Reason::HashUnusable);
    one("with a DH group that there is not", NEGOTIATE, offer(&[HASH], &[0x7F]).to_bytes(), Reason::GroupUnusable);
    one("with no DH group", NEGOTIATE, offer(&[HASH], &[]).to_bytes(), Reason::GroupUnusable);
    one("with another protocol than DH-HMAC-CHAP", NEGOTIATE, with(usual.clone(), 8, 2), Reason::ProtocolUnusable);
    one("without a protocol descriptor", NEGOTIATE, Negotiate { dhchap: None, ..offer(&[], &[]) }.to_bytes(), Reason::ProtocolUnusable);
    for sc_c in [1, 2, 0xFF] {
        let what = format!("with SC_C {sc_c:02X}h where there is no TLS");
        one(&what, NEGOTIATE, with(usual.clone(), 6, sc_c), Reason::ConcatenationMismatch);
    }
    one("with NAPD 2 and one descriptor", NEGOTIATE, with(usual.clone(), 7, 2), Reason::IncorrectPayload);
    one("with NAPD FFh and one descriptor", NEGOTIATE, with(usual.clone(), 7, 0xFF), Reason::IncorrectPayload);
    one("with HALEN 31", NEGOTIATE, with(usual.clone(), 10, 31), Reason::IncorrectPayload);
    one("with DHLEN 31", NEGOTIATE, with(usual.clone(), 11, 31), Reason::IncorrectPayload);
    one("a byte too short", NEGOTIATE, usual[..71].to_vec(), Reason::IncorrectPayload);
    one("a byte too long", NEGOTIATE, [&usual[..], &[0]].concat(), Reason::IncorrectPayload);
    all.push(case(
        "AUTH_Negotiate with a hash that there is not before one that there is",
        NEGOTIATE,
        KEYED,
        |r| {
            send(r, &offer(&[0x7F, HASH], &[0x7F, NULL]).to_bytes())?;
            receive(r)?;
            r.conn.expect(&Answer::Data(ROOM))?;
            match Challenge::parse(&r.conn.data) {
                Some(c) if (c.hash, c.group) == (HASH, NULL) => Ok(()),
                other => Err(Stop::Differs(format!("{other:?}"))),
            }
        },
        [],
    ));
    all
}

type Message = fn() -> Vec<u8>;

fn order() -> Vec<Case> {
    let mut all = Vec::new();
    let messages: [(&str, Message); 5] = [
        ("DH-HMAC-CHAP_Reply", || reply(NULL)),
        ("DH-HMAC-CHAP_Success2", || success2(T_ID)),
        ("AUTH_Failure2", || failure(MessageId::Failure2, T_ID, Reason::Failed)),
        ("AUTH_Failure1, which is the controller's,", || failure(MessageId::Failure1, T_ID, Reason::Failed)),
        ("a message that there is not", || with(success2(T_ID), 1, 0x77)),
    ];
    for (name, message) in messages {
        all.push(case(
            format!("{name} before AUTH_Negotiate"),
            ORDER,
            KEYED,
            move |r| {
                send(r, &message())?;
                receive(r)
            },
            refused(Reason::IncorrectMessage),
        ));
        all.push(case(
            format!("{name} before the challenge was fetched"),
            ORDER,
            KEYED,
            move |r| {
                send(r, &negotiate(NULL))?;
                send(r, &message())?;
                receive(r)
            },
            refused(Reason::IncorrectMessage),
        ));
    }
    for (name, message) in [messages[1], messages[3], messages[4], ("AUTH_Negotiate again", || negotiate(NULL))] {
        all.push(case(
            format!("{name} instead of the reply"),
            ORDER,
            KEYED,
            move |r| {
                challenged(r, NULL)?;
                send(r, &message())?;
                receive(r)
            },
            refused(Reason::IncorrectMessage),
        ));
    }
    all.push(case(
        "AUTH_Failure2 instead of the reply: the queue ends",
        "base 8.13.5.2",
        KEYED,
        |r| {
            challenged(r, NULL)?;
            let message = failure(MessageId::Failure2, T_ID, Reason::Failed);
            send_as(r, AuthCommand::new(message.len() as u32), &message)
        },
        [good(), Answer::Closes],
    ));
    for n in [1, 7] {
        all.push(case(
            format!("a message of {n} bytes, too short for any"),
            ORDER,
            KEYED,
            move |r| {
                send(r, &negotiate(NULL)[..n])?;
                receive(r)
            },
            [Answer::Failure1 { reason: Reason::IncorrectPayload, t_id: if n < 6 { 0 } else { T_ID } }, Answer::Closes],
        ));
    }
    all
}

fn replies() -> Vec<Case> {
    let mut all = Vec::new();
    let mut one = |name: &str, group: u8, message: fn(&Run<'_>) -> Vec<u8>, reason: Reason| {
        all.push(case(
            format!("DH-HMAC-CHAP_Reply {name}"),
            REPLY,
            KEYED,
            move |r| {
                challenged(r, group)?;
                let message = message(r);
                send(r, &message)?;
                receive(r)
            },
            refused(reason),
        ));
    };
    let payload = Reason::IncorrectPayload;
    one("with a wrong response", NULL, |_| reply(NULL), Reason::Failed);
    one("with a wrong response after an exchange", FFDHE2048, |_| reply(FFDHE2048), Reason::Failed);
    one("with the T_ID of another transaction", NULL, |_| with(reply(NULL), 4, 0x35), payload);
    one("with HL 31", NULL, |_| with(reply(NULL), 6, 31), payload);
    one(
        "of the length of a longer hash",
        NULL,
        |_| Reply { t_id: T_ID, seq: 0, response: &[0x5A; 48], challenge: None, dh_value: &[] }.to_bytes(),
        payload,
    );
    one("with CVALID 2", NULL, |_| with(reply(NULL), 8, 2), payload);
    one("with DHVLEN beyond its end", NULL, |_| with(reply(NULL), 10, 1), payload);
    one("a byte too short", NULL, |_| reply(NULL)[..79].to_vec(), payload);
    one("a byte too long", NULL, |_| [&reply(NULL)[..], &[0]].concat(), payload);
    one("of its fixed part only", NULL, |_| with(reply(NULL), 6, 0)[..16].to_vec(), payload);
    one("with a DH value where the group has none", NULL, |_| reply(FFDHE2048), payload);
    one("without a DH value where the group has one", FFDHE2048, |_| reply(NULL), payload);
    one(
        "with a DH value of 0",
        FFDHE2048,
        |_| {
            let mut bytes = reply(FFDHE2048);
            bytes[80..].fill(0);
            bytes
        },
        Reason::GroupUnusable,
    );
    one(
        "with a DH value beyond the prime",
        FFDHE2048,
        |_| {
            let mut bytes = reply(FFDHE2048);
            bytes[80..].fill(0xFF);
            bytes
        },
        Reason::GroupUnusable,
    );
    one(
        "with the controller's own DH value",
        FFDHE2048,
        |r| {
            let challenge = Challenge::parse(&r.conn.data).expect("it was checked");
            Reply { t_id: T_ID, seq: 0, response: &[0x5A; 32], challenge: None, dh_value: challenge.dh_value }.to_bytes()
        },
        Reason::GroupUnusable,
    );
    one(
        "with the controller's own challenge",
        NULL,
        |r| mutual(Challenge::parse(&r.conn.data).expect("it was checked").challenge, 1),
        Reason::Failed,
    );
    one("with a challenge and S2 0", NULL, |_| mutual(&[9; 32], 0), payload);
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = commands();
    all.extend(before());
    all.extend(negotiates());
    all.extend(order());
    all.extend(replies());
    all
}

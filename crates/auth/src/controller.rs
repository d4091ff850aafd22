//! The controller's side of one queue's authentication.
//!
//! ```text
//!         Negotiate ok            (work done)             Receive: Challenge
//!  Idle ───────────────► Preparing ─────────► ChallengeReady ──────────────► AwaitReply
//!   ▲                                                                           │ Reply
//!   │ Receive: Success1 (one-way), or Success2 (mutual)                         ▼
//!   └─────── AwaitSuccess2 ◄── Success1Ready ◄─────── response right ────── Checking (work)
//!
//!  a wrong message anywhere ──► FailureReady ── Receive: Failure1 ──► Failed (the queue ends)
//!  Failure2, or 60 s without the next message ──────────────────────► Failed
//! ```
//! A live queue may authenticate again at any time (base 8.13.5.7): it stays authenticated until that fails.
//!
//! Invariants: each challenge is new and used once; a reply is judged by the secrets of now; nothing leaves `Failed`.
//! Never: says more of a failure than its reason code.

use crate::compute::{Role, response};
use crate::dh::{Exponent, Work, WorkDone};
use crate::secret::Credentials;
use base::{Duration, Instant};
use format::nvme::auth::{
    Challenge, DhGroup, FAILURE_BYTES, FailureReason as Reason, HashId, MessageId, NO_CONCATENATION, Negotiate, Reply, Success1, failure,
    failure_code, success2, transaction_of,
};
use openssl::memcmp;
use zeroize::Zeroizing;

/// From Connect to the end of the first transaction, and from AUTH_Negotiate to the end of any other.
pub const TRANSACTION_MAX: Duration = Duration::from_secs(60);

/// What the machine needs from outside while it takes a step.
pub struct AuthCx<'a> {
    /// The time.
    pub now: Instant,
    /// The secrets of this host now; `None`: it has none.
    pub credentials: Option<&'a Credentials>,
    /// Random bytes that nobody can guess.
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The host proved who it is (and the controller, when `mutual`).
    Authenticated {
        /// With this hash function.
        hash: HashId,
        /// And this group.
        group: DhGroup,
        /// Both sides.
        mutual: bool,
    },
    /// It did not. The queue has to end once what is answered has been sent.
    Failed(Reason),
    /// The host refused the controller, for this reason code explanation. The queue has to end.
    Refused(u8),
}

/// What to do with an Authentication Send command.
#[derive(Debug)]
pub enum Sent {
    /// It succeeds. Whether the message was right is reported by the next Authentication Receive; the outcome is one only after the last message.
    Accepted(Option<Outcome>),
    /// It succeeds when this has been done and given to [`ControllerAuth::done`].
    Work(Work),
    /// Command Sequence Error: the work of an earlier one is not done.
    Early,
}

/// What to answer to an Authentication Receive command.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// This message.
    Message(Vec<u8>, Option<Outcome>),
    /// Invalid Field: there is room for less than the message. It stays to be fetched.
    TooShort,
    /// Command Sequence Error: no message is due.
    Nothing,
}

/// The transaction took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

struct Transaction {
    t_id: u16,
    hash: HashId,
    group: DhGroup,
    seq: u32,
    challenge: Vec<u8>,
    exponent: Option<Exponent>,
    public: Vec<u8>,
}

/// A reply while the session's number is computed.
struct Answer {
    response: Vec<u8>,
    challenge: Option<(Vec<u8>, u32)>,
}

enum State {
    Idle,
    Preparing(Transaction),
    ChallengeReady(Transaction),
    AwaitReply(Transaction),
    Checking(Transaction, Answer),
    Success1Ready { t_id: u16, hash: HashId, group: DhGroup, response: Option<Vec<u8>> },
    AwaitSuccess2 { t_id: u16, hash: HashId, group: DhGroup },
    FailureReady { t_id: u16, reason: Reason },
    Failed,
}

/// See the module.
pub struct ControllerAuth {
    host_nqn: String,
    subsystem_nqn: String,
    state: State,
    authenticated: bool,
    deadline: Option<Instant>,
    seq: u32,
}

impl ControllerAuth {
    /// Of a queue that was just connected. When the host `must` authenticate, the time for it runs from now on.
    pub fn new(host_nqn: &str, subsystem_nqn: &str, now: Instant, must: bool) -> Self {
        Self {
            host_nqn: host_nqn.to_owned(),
            subsystem_nqn: subsystem_nqn.to_owned(),
            state: State::Idle,
            authenticated: false,
            deadline: must.then(|| now + TRANSACTION_MAX),
            seq: 0,
        }
    }
    /// Whether the host has proved who it is on this queue, and no later attempt has failed.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated && !matches!(self.state, State::Failed)
    }
    /// Until when the host has to go on; `None`: nothing is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
    /// Nobody looked at the deadline for so long: it is later by that.
    pub fn give_time(&mut self, late: Duration) {
        self.deadline = self.deadline.map(|at| at + late);
    }
    /// The time: when the deadline has passed, the authentication has failed.
    pub fn on_time(&mut self, now: Instant) -> Result<(), TimedOut> {
        if self.deadline.is_none_or(|at| now < at) {
            return Ok(());
        }
        self.fail_for_good();
        Err(TimedOut)
    }
    fn fail_for_good(&mut self) {
        self.state = State::Failed;
        self.authenticated = false;
        self.deadline = None;
    }
    fn fail(&mut self, t_id: u16, reason: Reason) -> Sent {
        self.state = State::FailureReady { t_id, reason };
        Sent::Accepted(None)
    }

    /// A message of the host.
    pub fn send(&mut self, cx: &mut AuthCx<'_>, message: &[u8]) -> Sent {
        let t_id = transaction_of(message);
        self.deadline.get_or_insert(cx.now + TRANSACTION_MAX);
        match core::mem::replace(&mut self.state, State::Failed) {
            busy @ (State::Preparing(_) | State::Checking(..)) => {
                self.state = busy;
                Sent::Early
            }
            State::Failed => Sent::Accepted(None),
            // What failed stays failed, until Failure1 has been fetched.
            State::FailureReady { t_id, reason } => self.fail(t_id, reason),
            state => match (state, MessageId::of(message)) {
                (_, None) => self.fail(t_id, unknown(message)),
                (State::Idle, Some(MessageId::Negotiate)) => self.negotiate(cx, message),
                (State::AwaitReply(t), Some(MessageId::Reply)) => self.reply(cx, t, message),
                (State::AwaitReply(Transaction { t_id: due, .. }) | State::AwaitSuccess2 { t_id: due, .. }, Some(MessageId::Failure2))
                    if due == t_id =>
                {
                    self.fail_for_good();
                    Sent::Accepted(Some(Outcome::Refused(failure_code(message).unwrap_or(0))))
                }
                (State::AwaitSuccess2 { t_id, hash, group }, Some(MessageId::Success2)) => match message == success2(t_id) {
                    true => Sent::Accepted(Some(self.succeed(hash, group, true))),
                    false => self.fail(t_id, Reason::IncorrectPayload),
                },
                _ => self.fail(t_id, Reason::IncorrectMessage),
            },
        }
    }

    fn negotiate(&mut self, cx: &mut AuthCx<'_>, message: &[u8]) -> Sent {
        let t_id = transaction_of(message);
        let (hash, group) = match choose(cx, message) {
            Ok(chosen) => chosen,
            Err(reason) => return self.fail(t_id, reason),
        };
        if self.seq == 0 {
            let mut first = [0; 4];
            (cx.random)(&mut first);
            self.seq = u32::from_le_bytes(first);
        }
        self.seq = self.seq.wrapping_add(1).max(1);
        let mut challenge = vec![0; hash.bytes()];
        (cx.random)(&mut challenge);
        let transaction = Transaction { t_id, hash, group, seq: self.seq, challenge, exponent: None, public: Vec::new() };
        if group == DhGroup::Null {
            self.state = State::ChallengeReady(transaction);
            return Sent::Accepted(None);
        }
        self.state = State::Preparing(transaction);
        Sent::Work(Work::public(Exponent::new(group, cx.random)))
    }

    fn reply(&mut self, cx: &mut AuthCx<'_>, mut t: Transaction, message: &[u8]) -> Sent {
        let Some(reply) = Reply::parse(message).filter(|r| r.t_id == t.t_id) else { return self.fail(t.t_id, Reason::IncorrectPayload) };
        let lengths = reply.response.len() == t.hash.bytes() && reply.dh_value.len() == t.group.bytes();
        // A challenge with S2 = 0 is for secure channel concatenation, which was not negotiated.
        if !lengths || reply.challenge.is_some() && reply.seq == 0 {
            return self.fail(t.t_id, Reason::IncorrectPayload);
        }
        // Our own challenge or DH value sent back would let a host have us answer ourselves.
        if reply.challenge == Some(&t.challenge) {
            return self.fail(t.t_id, Reason::Failed);
        }
        let answer = Answer { response: reply.response.to_vec(), challenge: reply.challenge.map(|c| (c.to_vec(), reply.seq)) };
        match t.exponent.take() {
            None => {
                self.judge(cx, &t, &answer, None);
                Sent::Accepted(None)
            }
            Some(_) if reply.dh_value == t.public => self.fail(t.t_id, Reason::GroupUnusable),
            Some(exponent) => {
                let work = Work::shared(exponent, reply.dh_value.to_vec());
                self.state = State::Checking(t, answer);
                Sent::Work(work)
            }
        }
    }

    /// The work that [`ControllerAuth::send`] gave is done: the command that waits for it succeeds.
    pub fn done(&mut self, cx: &mut AuthCx<'_>, done: WorkDone) {
        match (core::mem::replace(&mut self.state, State::Failed), done.value) {
            (State::Preparing(t), Ok(value)) => {
                self.state = State::ChallengeReady(Transaction { exponent: Some(done.exponent), public: value.0.to_vec(), ..t });
            }
            (State::Preparing(t), Err(_)) => drop(self.fail(t.t_id, Reason::Failed)),
            (State::Checking(t, answer), Ok(value)) => self.judge(cx, &t, &answer, Some(value.0)),
            (State::Checking(t, _), Err(_)) => drop(self.fail(t.t_id, Reason::GroupUnusable)),
            (other, _) => self.state = other, // The transaction ended in the meantime.
        }
    }

    fn judge(&mut self, cx: &AuthCx<'_>, t: &Transaction, answer: &Answer, shared: Option<Zeroizing<Vec<u8>>>) {
        self.state = match self.check(cx, t, answer, shared.as_ref().map(|s| &s[..])) {
            Some(response) => State::Success1Ready { t_id: t.t_id, hash: t.hash, group: t.group, response },
            None => State::FailureReady { t_id: t.t_id, reason: Reason::Failed },
        };
    }

    /// The controller's own response, when it is asked for; `None` when the host did not prove itself, or there is no secret to answer with.
    fn check(&self, cx: &AuthCx<'_>, t: &Transaction, answer: &Answer, shared: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
        let (host, subsystem) = (&*self.host_nqn, &*self.subsystem_nqn);
        let credentials = cx.credentials?;
        let key = credentials.host.key_for(host).ok()?;
        let right = response(t.hash, Role::Host, &key, &t.challenge, shared, t.seq, t.t_id, host, subsystem).ok()?;
        if right.len() != answer.response.len() || !memcmp::eq(&right, &answer.response) {
            return None;
        }
        let Some((challenge, seq)) = &answer.challenge else { return Some(None) };
        let key = credentials.controller.as_ref()?.key_for(subsystem).ok()?;
        response(t.hash, Role::Controller, &key, challenge, shared, *seq, t.t_id, host, subsystem).ok().map(Some)
    }

    fn succeed(&mut self, hash: HashId, group: DhGroup, mutual: bool) -> Outcome {
        self.state = State::Idle;
        self.authenticated = true;
        self.deadline = None;
        Outcome::Authenticated { hash, group, mutual }
    }

    /// The next message for the host, which has room for `room` bytes.
    pub fn receive(&mut self, room: usize) -> Received {
        let message = match &self.state {
            State::ChallengeReady(t) => {
                let (hash, group) = (t.hash.id(), t.group.id());
                Challenge { t_id: t.t_id, hash, group, seq: t.seq, challenge: &t.challenge, dh_value: &t.public }.to_bytes()
            }
            State::Success1Ready { t_id, hash, response, .. } => {
                Success1 { t_id: *t_id, digest_bytes: hash.bytes() as u8, response: response.as_deref() }.to_bytes()
            }
            State::FailureReady { t_id, reason } => failure(MessageId::Failure1, *t_id, *reason),
            _ => return Received::Nothing,
        };
        if room < message.len() {
            return Received::TooShort;
        }
        let outcome = match core::mem::replace(&mut self.state, State::Failed) {
            State::ChallengeReady(t) => {
                self.state = State::AwaitReply(t);
                None
            }
            State::Success1Ready { hash, group, response: None, .. } => Some(self.succeed(hash, group, false)),
            State::Success1Ready { t_id, hash, group, response: Some(_) } => {
                self.state = State::AwaitSuccess2 { t_id, hash, group };
                None
            }
            State::FailureReady { reason, .. } => {
                self.fail_for_good();
                Some(Outcome::Failed(reason))
            }
            _ => unreachable!("a state without a message was sorted out above"),
        };
        Received::Message(message, outcome)
    }
}

/// What is wrong with a message that is none: too short to tell, or of another kind than there are.
pub(crate) fn unknown(message: &[u8]) -> Reason {
    if message.len() < FAILURE_BYTES { Reason::IncorrectPayload } else { Reason::IncorrectMessage }
}

/// The hash function and the group: the first of ours that the host has too.
fn choose(cx: &AuthCx<'_>, message: &[u8]) -> Result<(HashId, DhGroup), Reason> {
    let negotiate = Negotiate::parse(message).ok_or(Reason::IncorrectPayload)?;
    if negotiate.concatenation != NO_CONCATENATION {
        return Err(Reason::ConcatenationMismatch);
    }
    let (hashes, groups) = negotiate.dhchap.ok_or(Reason::ProtocolUnusable)?;
    let ours = cx.credentials.ok_or(Reason::Failed)?;
    let hash = ours.hashes.iter().find(|h| hashes.as_slice().contains(&h.id())).ok_or(Reason::HashUnusable)?;
    let group = ours.groups.iter().find(|g| groups.as_slice().contains(&g.id())).ok_or(Reason::GroupUnusable)?;
    Ok((*hash, *group))
}

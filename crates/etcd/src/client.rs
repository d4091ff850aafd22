//! Calls of etcd's API, on whichever endpoint answers.
//!
//! ```text
//!  read:    attempt ──lost, no leader──► next endpoint ──► attempt … until the deadline
//!              └──── not answered soon ────► another endpoint as well: who answers first is stayed with
//!  change:  a read, if there was no answer lately ──► attempt ──certainly not done──► next endpoint ──► attempt …
//!              └──── lost ────► EtcdError::Unknown: the caller finds out
//! ```
//!
//! Invariants: a change is sent again only when it is certain that it was not done; an endpoint that fails is left for the next one; at most one
//! call connects at a time, and one read that takes long, each to every endpoint once at most.

use crate::connection::{Connection, LEASE_KEEP_ALIVE, Method};
use crate::error::{ConnectError, EtcdError, Lost, Refusal, Unreachable};
use crate::grpc::frame;
use crate::message::*;
use crate::{ANSWERS_WITHIN, ATTEMPT_MAX, ENDPOINTS_MAX, Endpoint, NEXT_AFTER, PAUSE, tls};
use authority::Identity;
use hyper::body::{Bytes, Frame};
use openssl::ssl::SslConnector;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};

/// Where etcd is, and who we are.
#[derive(Clone, Debug)]
pub struct Options {
    /// At most [`ENDPOINTS_MAX`]; the first is tried first.
    pub endpoints: Vec<Endpoint>,
    /// For endpoints with TLS.
    pub identity: Option<Identity>,
}

struct Endpoints {
    all: Vec<Endpoint>,
    /// The one to try next.
    next: usize,
}

struct Inner {
    connector: Mutex<Option<SslConnector>>,
    endpoints: Mutex<Endpoints>,
    current: tokio::sync::Mutex<Option<Connection>>,
    /// When there was an answer on it.
    answered: Mutex<Option<Instant>>,
    /// Of reads that go to two endpoints. One that hangs at both must not keep another from the second.
    twice: tokio::sync::Semaphore,
}

/// A client. Clones share their connection.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

/// Reads that go to two endpoints at once.
const TWICE_MAX: usize = 8;
/// Whether a call may be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// It changes nothing, or the same again.
    Harmless,
    /// It must be known not to have happened.
    Never,
}

impl Client {
    /// Connects when it is first used.
    pub fn new(options: Options) -> Result<Self, EtcdError> {
        let connector = Mutex::new(options.identity.as_ref().map(tls::connector).transpose()?);
        let endpoints = Mutex::new(Endpoints { all: Vec::new(), next: 0 });
        let inner = Inner {
            connector,
            endpoints,
            current: tokio::sync::Mutex::new(None),
            answered: Mutex::default(),
            twice: tokio::sync::Semaphore::new(TWICE_MAX),
        };
        let client = Self(Arc::new(inner));
        client.set_endpoints(options.endpoints)?;
        Ok(client)
    }

    /// Members have come, gone or moved. What is under way goes on where it is.
    pub fn set_endpoints(&self, all: Vec<Endpoint>) -> Result<(), EtcdError> {
        let own = |text: &str| Err(EtcdError::Own(text.to_owned()));
        match all.len() {
            0 => return own("no endpoint of etcd is given"),
            n if n > ENDPOINTS_MAX => return own("too many endpoints of etcd are given"),
            _ => {}
        }
        if all.iter().any(|e| e.tls) && self.connector().is_none() {
            return own("an endpoint wants TLS, and there is no certificate");
        }
        *self.endpoints() = Endpoints { all, next: 0 };
        Ok(())
    }

    /// The certificate was renewed, or is another one. What is under way goes on as it is; the next call connects with this one.
    pub fn set_identity(&self, identity: &Identity) -> Result<(), EtcdError> {
        *self.0.connector.lock().unwrap_or_else(|e| e.into_inner()) = Some(tls::connector(identity)?);
        // Whoever makes a connection now may make it with the one before: that is valid still.
        if let Ok(mut current) = self.0.current.try_lock() {
            *current = None;
        }
        Ok(())
    }
    fn connector(&self) -> Option<SslConnector> {
        self.0.connector.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn endpoints(&self) -> std::sync::MutexGuard<'_, Endpoints> {
        self.0.endpoints.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The endpoints, beginning with the one to try next.
    pub(crate) fn in_turn(&self) -> Vec<Endpoint> {
        let endpoints = self.endpoints();
        let mut all = endpoints.all.clone();
        all.rotate_left(endpoints.next % endpoints.all.len());
        all
    }
    /// This one is to be tried first, or last.
    fn prefer(&self, endpoint: &Endpoint, first: bool) {
        let mut endpoints = self.endpoints();
        if let Some(at) = endpoints.all.iter().position(|e| e == endpoint) {
            endpoints.next = if first { at } else { at + 1 };
        }
    }

    /// The connection in use, or a new one to the first endpoint that answers.
    async fn connection(&self, until: Instant) -> Result<Connection, EtcdError> {
        let Ok(mut current) = timeout_at(until, self.0.current.lock()).await else {
            return Err(EtcdError::Unreachable(Unreachable::default()));
        };
        if let Some(open) = current.as_ref().filter(|c| c.is_open()) {
            return Ok(open.clone());
        }
        let new = self.dial(until).await?;
        *current = Some(new.clone());
        Ok(new)
    }

    /// A connection of its own, to the first endpoint that answers.
    pub(crate) async fn dial(&self, until: Instant) -> Result<Connection, EtcdError> {
        self.dial_one_of(self.in_turn(), NEXT_AFTER, until).await
    }

    /// `next_after`: one that hangs holds up the next one no longer than this.
    async fn dial_one_of(&self, endpoints: Vec<Endpoint>, next_after: Duration, until: Instant) -> Result<Connection, EtcdError> {
        let (mut waiting, mut opening) = (endpoints.into_iter(), JoinSet::new());
        let mut tried = Unreachable::default();
        loop {
            if let Some(endpoint) = waiting.next() {
                let connector = self.connector();
                opening.spawn(async move {
                    let opened = Connection::open(&endpoint, connector.as_ref()).await;
                    (endpoint, opened)
                });
            }
            let next = if waiting.len() == 0 { until } else { until.min(Instant::now() + next_after) };
            match timeout_at(next, opening.join_next()).await {
                Ok(Some(Ok((endpoint, Ok(connection))))) => {
                    self.prefer(&endpoint, true);
                    return Ok(connection);
                }
                Ok(Some(Ok((endpoint, Err(error))))) => tried.0.push((endpoint, error)),
                Ok(Some(Err(_))) => {}
                Ok(None) => break,
                Err(_) if Instant::now() >= until => break,
                Err(_) => {}
            }
        }
        Err(EtcdError::Unreachable(tried))
    }

    /// A connection to one endpoint, though it may have no leader, or not vote.
    pub(crate) async fn dial_any(&self, endpoint: &Endpoint) -> Result<Connection, ConnectError> {
        Connection::open_any(endpoint, self.connector().as_ref()).await
    }

    /// All members, of whichever member answers: also without a quorum. It may be a little old.
    pub async fn member_list_of_any(&self, until: Instant) -> Result<MembersResponse, EtcdError> {
        let mut tried = Unreachable::default();
        for endpoint in self.in_turn() {
            let asked = async {
                let connection = self.dial_any(&endpoint).await?;
                let listed = connection.call(Method("/etcdserverpb.Cluster/MemberList"), &Empty {}, until).await;
                listed.map_err(|e| ConnectError::Answer(e.to_string()))
            };
            match timeout_at(until, asked).await {
                Ok(Ok(listed)) => return Ok(listed),
                Ok(Err(error)) => tried.0.push((endpoint, error)),
                Err(_) => break,
            }
        }
        Err(EtcdError::Unreachable(tried))
    }

    /// A connection to one endpoint that can do something now.
    pub(crate) async fn dial_ready(&self, endpoint: &Endpoint) -> Result<Connection, ConnectError> {
        Connection::open(endpoint, self.connector().as_ref()).await
    }

    /// A connection to one endpoint.
    pub(crate) async fn dial_one(&self, endpoint: &Endpoint) -> Result<Connection, EtcdError> {
        let opened = Connection::open(endpoint, self.connector().as_ref()).await;
        opened.map_err(|error| EtcdError::Unreachable(Unreachable(vec![(endpoint.clone(), error)])))
    }

    /// Leaves a connection: the next call goes elsewhere.
    pub(crate) async fn leave(&self, connection: &Connection) {
        self.prefer(&connection.endpoint, false);
        let mut current = self.0.current.lock().await;
        if current.as_ref().is_some_and(|c| c.is(connection)) {
            *current = None;
            self.note_answer(None);
        }
    }
    /// Goes on with another connection.
    async fn change_to(&self, other: &Connection, from: &Connection) {
        self.prefer(&other.endpoint, true);
        let mut current = self.0.current.lock().await;
        if current.as_ref().is_none_or(|c| c.is(from)) {
            *current = Some(other.clone());
        }
    }
    fn note_answer(&self, at: Option<Instant>) {
        *self.0.answered.lock().unwrap_or_else(|e| e.into_inner()) = at;
    }

    /// The next connection goes elsewhere, if there is an elsewhere.
    pub fn avoid(&self, endpoint: &Endpoint) {
        self.prefer(endpoint, false);
    }

    async fn call<Q: prost::Message, A: prost::Message + Default>(
        &self,
        method: Method,
        request: &Q,
        repeat: Repeat,
        until: Instant,
    ) -> Result<A, EtcdError> {
        let mut last = EtcdError::Unreachable(Unreachable::default());
        loop {
            let error = match self.attempt(method, request, repeat, until).await {
                Ok(answer) => return Ok(answer),
                // There was no time left for this attempt: the one before says why.
                Err(EtcdError::Unreachable(tried)) if tried.0.is_empty() => last,
                Err(error) => error,
            };
            last = error.clone();
            let again = error.may_pass() && (repeat == Repeat::Harmless || error.did_not_happen());
            if !again || Instant::now() + PAUSE >= until {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    async fn attempt<Q: prost::Message, A: prost::Message + Default>(
        &self,
        method: Method,
        request: &Q,
        repeat: Repeat,
        until: Instant,
    ) -> Result<A, EtcdError> {
        let connection = self.connection(until).await?;
        let began = Instant::now();
        let until = until.min(began + ATTEMPT_MAX);
        let result = match repeat {
            Repeat::Harmless => self.ask(&connection, method, request, until).await,
            Repeat::Never => connection.call(method, request, until).await,
        };
        if let Err(error) = &result {
            tracing::debug!(method = method.0, endpoint = %connection.endpoint, took = ?began.elapsed(), %error, "a call of etcd failed");
        }
        match &result {
            Ok(_) => self.note_answer(Some(Instant::now())),
            Err(error) if error.may_pass() => self.leave(&connection).await,
            Err(_) => {}
        }
        result
    }

    /// Asks on this connection, and after a while on another one, too.
    async fn ask<Q: prost::Message, A: prost::Message + Default>(
        &self,
        connection: &Connection,
        method: Method,
        request: &Q,
        until: Instant,
    ) -> Result<A, EtcdError> {
        let mut first = pin!(connection.call(method, request, until));
        if let Ok(result) = timeout(ANSWERS_WITHIN, &mut first).await {
            return result;
        }
        let others: Vec<Endpoint> = self.in_turn().into_iter().filter(|e| *e != connection.endpoint).collect();
        let Ok(_one) = self.0.twice.try_acquire() else { return first.await };
        let second = async {
            loop {
                let other = self.dial_one_of(others.clone(), Duration::ZERO, until).await?;
                match other.call(method, request, until).await {
                    // Those that have lost their leader say so once, and answer when they have another.
                    Err(error) if error.may_pass() && Instant::now() + PAUSE < until => sleep(PAUSE).await,
                    Err(error) => return Err(error),
                    Ok(answer) => {
                        self.change_to(&other, connection).await;
                        return Ok::<A, EtcdError>(answer);
                    }
                }
            }
        };
        let mut second = pin!(second);
        tokio::select! {
            result = &mut first => match result {
                Err(error) => second.await.map_err(|_| error),
                answered => answered,
            },
            result = &mut second => match result {
                Err(_) => first.await,
                answered => answered,
            },
        }
    }

    /// Makes sure that a change goes where something is answered: nobody can tell what became of one that is not.
    async fn answers(&self, key: &[u8], until: Instant) -> Result<(), EtcdError> {
        let answered = *self.0.answered.lock().unwrap_or_else(|e| e.into_inner());
        if answered.is_some_and(|at| at.elapsed() < ANSWERS_WITHIN) {
            return Ok(());
        }
        let request = RangeRequest { key: key.to_vec(), keys_only: true, ..RangeRequest::default() };
        match self.range(&request, until).await {
            // Nothing was changed by that.
            Err(EtcdError::Unknown(_)) => Err(EtcdError::Unreachable(Unreachable::default())),
            other => other.map(drop),
        }
    }

    /// Keys with their values, linearizable unless the request says otherwise.
    pub async fn range(&self, request: &RangeRequest, until: Instant) -> Result<RangeResponse, EtcdError> {
        self.call(Method("/etcdserverpb.KV/Range"), request, Repeat::Harmless, until).await
    }
    /// A transaction. [`EtcdError::Unknown`] and [`EtcdError::NoSpace`]: it may have happened.
    pub async fn txn(&self, request: &TxnRequest, until: Instant) -> Result<TxnResponse, EtcdError> {
        if let Some(first) = request.compare.first() {
            self.answers(&first.key, until).await?;
        }
        self.call(Method("/etcdserverpb.KV/Txn"), request, Repeat::Never, until).await
    }
    /// A transaction that only reads: it may be made again.
    pub async fn read(&self, request: &TxnRequest, until: Instant) -> Result<TxnResponse, EtcdError> {
        self.call(Method("/etcdserverpb.KV/Txn"), request, Repeat::Harmless, until).await
    }
    /// Forgets the history up to a revision.
    pub async fn compact(&self, request: &CompactionRequest, until: Instant) -> Result<HeaderResponse, EtcdError> {
        match self.call(Method("/etcdserverpb.KV/Compact"), request, Repeat::Harmless, until).await {
            Err(EtcdError::Refused(Refusal::Compacted)) => Ok(HeaderResponse::default()),
            result => result,
        }
    }
    /// Begins a lease. When an answer is lost another is begun: the lost one runs out.
    pub async fn lease_grant(&self, request: &LeaseGrantRequest, until: Instant) -> Result<LeaseGrantResponse, EtcdError> {
        self.call(Method("/etcdserverpb.Lease/LeaseGrant"), request, Repeat::Harmless, until).await
    }
    /// Ends a lease. One that has ended is no error.
    pub async fn lease_revoke(&self, id: i64, until: Instant) -> Result<(), EtcdError> {
        match self.call::<_, HeaderResponse>(Method("/etcdserverpb.Lease/LeaseRevoke"), &LeaseRequest { id }, Repeat::Harmless, until).await
        {
            Ok(_) | Err(EtcdError::Refused(Refusal::LeaseNotFound)) => Ok(()),
            Err(error) => Err(error),
        }
    }
    /// How long a lease has left, and its keys. [`Refusal::LeaseNotFound`]: it has ended.
    pub async fn lease_time_to_live(&self, request: &LeaseTimeToLiveRequest, until: Instant) -> Result<LeaseTimeToLiveResponse, EtcdError> {
        let answer: LeaseTimeToLiveResponse =
            self.call(Method("/etcdserverpb.Lease/LeaseTimeToLive"), request, Repeat::Harmless, until).await?;
        if answer.ttl_s < 0 { Err(EtcdError::Refused(Refusal::LeaseNotFound)) } else { Ok(answer) }
    }
    /// Lets a lease live for its whole time again. [`Refusal::LeaseNotFound`]: it has ended.
    pub async fn lease_keep_alive(&self, id: i64, until: Instant) -> Result<LeaseKeepAliveResponse, EtcdError> {
        loop {
            match self.keep_alive_once(id, until).await {
                Err(error) if error.may_pass() && Instant::now() + PAUSE < until => sleep(PAUSE).await,
                result => return result,
            }
        }
    }

    async fn keep_alive_once(&self, id: i64, until: Instant) -> Result<LeaseKeepAliveResponse, EtcdError> {
        let connection = self.connection(until).await?;
        let until = until.min(Instant::now() + ATTEMPT_MAX);
        // The server answers when it has read the request, so that is sent first.
        let request = LeaseRequest { id };
        let result = connection.exchange::<_, LeaseKeepAliveResponse>(Method(LEASE_KEEP_ALIVE), &request, until).await;
        match result {
            Ok(answer) if answer.ttl_s <= 0 => Err(EtcdError::Refused(Refusal::LeaseNotFound)),
            Ok(answer) => Ok(answer),
            Err(error) => {
                if error.may_pass() {
                    self.leave(&connection).await;
                }
                Err(error)
            }
        }
    }

    /// All members.
    pub async fn member_list(&self, until: Instant) -> Result<MembersResponse, EtcdError> {
        self.call(Method("/etcdserverpb.Cluster/MemberList"), &Empty {}, Repeat::Harmless, until).await
    }
    /// A new member. [`Refusal::MemberExists`] after an unknown outcome: it was added.
    pub async fn member_add(&self, request: &MemberAddRequest, until: Instant) -> Result<MemberAddResponse, EtcdError> {
        self.call(Method("/etcdserverpb.Cluster/MemberAdd"), request, Repeat::Never, until).await
    }
    /// A member goes.
    pub async fn member_remove(&self, id: u64, until: Instant) -> Result<MembersResponse, EtcdError> {
        self.call(Method("/etcdserverpb.Cluster/MemberRemove"), &MemberRequest { id }, Repeat::Never, until).await
    }
    /// A learner votes from now on. [`Refusal::LearnerNotReady`]: not yet.
    pub async fn member_promote(&self, id: u64, until: Instant) -> Result<MembersResponse, EtcdError> {
        self.call(Method("/etcdserverpb.Cluster/MemberPromote"), &MemberRequest { id }, Repeat::Never, until).await
    }
    /// Alarms: looked at, or ended.
    pub async fn alarm(&self, request: &AlarmRequest, until: Instant) -> Result<AlarmResponse, EtcdError> {
        self.call(Method("/etcdserverpb.Maintenance/Alarm"), request, Repeat::Harmless, until).await
    }
    /// Ends all alarms about space: after room was made, changes are taken again.
    pub async fn disarm(&self, until: Instant) -> Result<(), EtcdError> {
        let alarm = AlarmType::NoSpace.into();
        let get = AlarmRequest { action: AlarmAction::Get.into(), member_id: 0, alarm };
        for raised in self.alarm(&get, until).await?.alarms {
            let request = AlarmRequest { action: AlarmAction::Deactivate.into(), member_id: raised.member_id, alarm };
            self.alarm(&request, until).await?;
        }
        Ok(())
    }
    /// What one member says of itself.
    pub async fn status(&self, endpoint: &Endpoint) -> Result<StatusResponse, EtcdError> {
        Ok(self.dial_one(endpoint).await?.status)
    }
    /// Gives what is free in one member's file back to its disk. That member serves nobody meanwhile.
    pub async fn defragment(&self, endpoint: &Endpoint, until: Instant) -> Result<(), EtcdError> {
        let connection = self.dial_one(endpoint).await?;
        connection.call::<_, HeaderResponse>(Method("/etcdserverpb.Maintenance/Defragment"), &Empty {}, until).await.map(drop)
    }
    /// Has another member lead. Goes to the leader's own endpoint.
    pub async fn move_leader(&self, leader: &Endpoint, target_id: u64, until: Instant) -> Result<(), EtcdError> {
        let connection = self.dial_one(leader).await?;
        let request = MoveLeaderRequest { target_id };
        connection.call::<_, HeaderResponse>(Method("/etcdserverpb.Maintenance/MoveLeader"), &request, until).await.map(drop)
    }
}

impl Connection {
    /// One request and one answer on a stream that both sides could go on with.
    async fn exchange<Q: prost::Message, A: prost::Message + Default>(
        &self,
        method: Method,
        request: &Q,
        until: Instant,
    ) -> Result<A, EtcdError> {
        let both = async {
            let (requests, mut answers) = self.stream_with(method, Bytes::from(frame(request)), until).await?;
            let answer = answers.next::<A>().await?.ok_or(EtcdError::Unknown(Lost::Unreadable));
            drop(requests);
            answer
        };
        timeout_at(until, both).await.unwrap_or(Err(EtcdError::Unknown(Lost::TimedOut)))
    }
}

/// What is sent on a stream.
pub(crate) async fn send(requests: &mut crate::connection::Requests, message: &impl prost::Message) -> Result<(), EtcdError> {
    let sent = requests.send(Frame::data(Bytes::from(frame(message)))).await;
    sent.map_err(|_| EtcdError::Unknown(Lost::Connection("the stream has ended".into())))
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;

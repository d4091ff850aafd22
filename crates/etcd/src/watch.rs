//! A watch: what changes in a range of keys, as it happens.
//!
//! Invariants: a batch holds whole revisions: what came in fragments is put together; it gives nothing twice and passes nothing over while it
//! lives; when it cannot go on it says why.
//! Never: says that everything up to a revision has been given: before etcd 3.4.25 its server may say so too early.

use crate::client::send;
use crate::connection::{Connection, Method, Requests, WATCH};
use crate::error::{EtcdError, Lost, Refusal, short};
use crate::grpc::{Answers, frame};
use crate::message::*;
use crate::{ATTEMPT_MAX, BATCH_BYTES_MAX, Client, Endpoint};
use hyper::body::Bytes;
use prost::Message;
use tokio::time::{Instant, timeout_at};

/// What arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Of the answer: which etcd it is.
    pub header: ResponseHeader,
    /// In order. None: a sign of life.
    pub events: Vec<Event>,
}

/// See the head of this file.
pub struct WatchStream {
    connection: Connection,
    requests: Requests,
    answers: Answers,
    /// Of the batch that is being put together.
    events: Vec<Event>,
    bytes: usize,
}

impl WatchStream {
    /// Begins a watch of `[key, range_end)` at a revision, on a connection of its own. [`Refusal::Compacted`], here or later: that is gone.
    /// A revision that has not been yet is no error: nothing comes until then.
    pub async fn open(client: &Client, key: &[u8], range_end: &[u8], start_revision: i64) -> Result<(Self, ResponseHeader), EtcdError> {
        let until = Instant::now() + ATTEMPT_MAX;
        let connection = client.dial(until).await?;
        let create = WatchCreateRequest { key: key.to_vec(), range_end: range_end.to_vec(), start_revision, fragment: true };
        let request = WatchRequest { request: Some(WatchAction::Create(create)) };
        let begun = async {
            let (requests, answers) = connection.stream_with(Method(WATCH), Bytes::from(frame(&request)), until).await?;
            let mut watch = Self { connection: connection.clone(), requests, answers, events: Vec::new(), bytes: 0 };
            let created = watch.answer().await?;
            let header = created.header.ok_or(EtcdError::Unknown(Lost::Unreadable))?;
            if created.created { Ok((watch, header)) } else { Err(EtcdError::Unknown(Lost::Unreadable)) }
        };
        let result = timeout_at(until, begun).await.unwrap_or(Err(EtcdError::Unknown(Lost::TimedOut)));
        if result.as_ref().is_err_and(EtcdError::may_pass) {
            client.leave(&connection).await;
        }
        result
    }

    /// Where it is connected.
    pub fn endpoint(&self) -> &Endpoint {
        &self.connection.endpoint
    }

    /// The next batch. Can be given up and called again: nothing is lost.
    pub async fn next(&mut self) -> Result<Batch, EtcdError> {
        loop {
            let answer = self.answer().await?;
            self.bytes += answer.encoded_len();
            if self.bytes > BATCH_BYTES_MAX {
                return Err(EtcdError::Unknown(Lost::TooLarge));
            }
            self.events.extend(answer.events);
            if answer.fragment {
                continue;
            }
            let header = answer.header.ok_or(EtcdError::Unknown(Lost::Unreadable))?;
            self.bytes = 0;
            return Ok(Batch { header, events: std::mem::take(&mut self.events) });
        }
    }

    async fn answer(&mut self) -> Result<WatchResponse, EtcdError> {
        let answer: WatchResponse = self.answers.next().await?.ok_or_else(|| ended("the server ended the watch"))?;
        if answer.compact_revision != 0 {
            return Err(EtcdError::Refused(Refusal::Compacted));
        }
        if answer.canceled {
            let reason = answer.cancel_reason.strip_prefix("rpc error: ").unwrap_or(&answer.cancel_reason);
            return Err(if reason.contains("permission denied") { EtcdError::Refused(Refusal::PermissionDenied) } else { ended(reason) });
        }
        Ok(answer)
    }

    /// Requests a sign of life.
    pub async fn request_progress(&mut self) -> Result<(), EtcdError> {
        send(&mut self.requests, &WatchRequest { request: Some(WatchAction::Progress(Empty {})) }).await
    }
}

fn ended(reason: &str) -> EtcdError {
    EtcdError::Unknown(Lost::Connection(short(reason)))
}

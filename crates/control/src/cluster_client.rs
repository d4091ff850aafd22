//! Sending a request of the API to another node of the cluster.
//!
//! Owns: the interface [`SendToNode`], what is sent and what comes back. `formation` implements it over the nodes' cluster listeners.
//! Invariants: an error says whether the other node may have begun; a request is sent once.
//! Never: decides which node a request is for.

use std::{future::Future, pin::Pin, time::Duration};

/// The header that names the administrator on whose behalf a node asks another one.
pub const ADMINISTRATOR_HEADER: &str = "basalt-administrator";
/// The header of a request that a node passes on: it is not passed on once more.
pub const FORWARDED_HEADER: &str = "basalt-forwarded";
/// The largest answer that is taken, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A request of the API, as it is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query, such as `/api/v1/volumes?force=true`.
    pub path: String,
    /// JSON; `None`: it has no body.
    pub body: Option<Vec<u8>>,
    /// Who asks, as the audit log names them.
    pub administrator: Option<String>,
    /// How long the answer may take.
    pub wait: Duration,
}

/// What the other node has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// The HTTP status.
    pub status: u16,
    /// What `body` is, such as `application/json`.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer of another node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No member has this name in the records, or its address is not known.
    #[error("the cluster has no node {node} that could be reached")]
    NoSuchNode {
        /// As records name it.
        node: String,
    },
    /// The request was not sent: nothing happened.
    #[error("node {node} cannot be reached: {why}")]
    NotSent {
        /// As records name it.
        node: String,
        /// Why.
        why: String,
    },
    /// The request was sent, and there is no answer: it may have been carried out.
    #[error("node {node} has not answered ({why}); look whether it was done before you try again")]
    NoAnswer {
        /// As records name it.
        node: String,
        /// Why.
        why: String,
    },
}

/// What comes of sending.
pub type Sending = Pin<Box<dyn Future<Output = Result<NodeAnswer, SendError>> + Send>>;

/// Sends requests to the cluster listeners of other nodes. Needs a tokio runtime around it.
pub trait SendToNode: Send + Sync {
    /// Sends a request to the node that records name so, once.
    fn send(&self, node: &str, request: NodeRequest) -> Sending;
}

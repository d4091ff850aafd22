//! Sending a request of the API to another node of the cluster.
//!
//! Owns: the interface [`SendToNode`], what is sent and what comes back. `formation` implements it over the nodes' cluster listeners.
//! Invariants: an error says whether the other node may have begun; a request is sent once; one that changes something has a nonce, by which it is
//! done once, however often it is sent.
//! Never: decides which node a request is for.

use directory::Nonce;
use std::{future::Future, pin::Pin, time::Duration};

/// The header that names the administrator on whose behalf a node asks another one.
pub const ADMINISTRATOR_HEADER: &str = "basalt-administrator";
/// The header of a request that a node passes on: it is not passed on once more.
pub const FORWARDED_HEADER: &str = "basalt-forwarded";
/// The header by which a change is recognised: 32 hexadecimal digits that were never used before. Clients may send one; a retry has the same.
pub const NONCE_HEADER: &str = "idempotency-key";
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
    /// By which it is recognised; `None`: it changes nothing.
    pub nonce: Option<Nonce>,
    /// How long the answer may take.
    pub wait: Duration,
}

impl NodeRequest {
    /// The headers beside those of its body.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let forwarded = std::iter::once((FORWARDED_HEADER, "1".to_owned()));
        let administrator = self.administrator.iter().map(|a| (ADMINISTRATOR_HEADER, a.clone()));
        let nonce = self.nonce.iter().map(|n| (NONCE_HEADER, nonce_text(*n)));
        forwarded.chain(administrator).chain(nonce).collect()
    }
}

/// A nonce as its header has it.
pub fn nonce_text(nonce: Nonce) -> String {
    nonce.0.iter().map(|b| format!("{b:02x}")).collect()
}

/// The nonce that a header has: 32 hexadecimal digits. `None`: it is no nonce.
pub fn nonce_of(text: &str) -> Option<Nonce> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (digits.len() == 32).then(|| Nonce(bytes.try_into().expect("16 bytes")))
}

/// What the other node has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// The HTTP status.
    pub status: u16,
    /// What `body` is, such as `application/json`.
    pub content_type: Option<String>,
    /// Path of what was made.
    pub location: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_read_as_it_was_written_and_nothing_else_is_one() {
        let nonce = Nonce(std::array::from_fn(|n| (n * 17) as u8));
        assert_eq!(nonce_of(&nonce_text(nonce)), Some(nonce));
        for wrong in ["", "00", &"0".repeat(31), &"0".repeat(33), &"0".repeat(34), &"g".repeat(32), &"é".repeat(16)] {
            assert_eq!(nonce_of(wrong), None, "{wrong}");
        }
    }
}

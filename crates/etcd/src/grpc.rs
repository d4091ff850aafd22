//! gRPC over HTTP/2: messages in frames of five bytes and content, a status in the trailers (gRPC's PROTOCOL-HTTP2.md).
//!
//! Invariants: a message's length is compared with the limit before memory is taken; an answer without a status is no answer.
//! Never: compresses, or takes what is compressed.

use crate::MESSAGE_BYTES_MAX;
use crate::error::{EtcdError, Lost, of_status, short, with_causes};
use http_body_util::BodyExt;
use hyper::{HeaderMap, body::Incoming, header::HeaderValue};

/// Before each message: whether it is compressed, and its length, big-endian.
const HEAD_BYTES: usize = 5;

/// A message as it is sent.
pub(crate) fn frame(message: &impl prost::Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + length);
    bytes.push(0);
    bytes.extend_from_slice(&u32::try_from(length).expect("requests are bounded by their makers").to_be_bytes());
    message.encode(&mut bytes).expect("a Vec grows");
    bytes
}

/// Finds messages in what arrives.
#[derive(Debug, Default)]
pub(crate) struct Deframer {
    buffer: Vec<u8>,
}

impl Deframer {
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        if self.buffer.len() + bytes.len() > HEAD_BYTES + MESSAGE_BYTES_MAX {
            return Err(Lost::TooLarge);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }
    /// The next message, if all of it is there.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Lost> {
        let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [compressed, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        if compressed != 0 {
            return Err(Lost::Unreadable);
        }
        if length > MESSAGE_BYTES_MAX {
            return Err(Lost::TooLarge);
        }
        if self.buffer.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let rest = self.buffer.split_off(HEAD_BYTES + length);
        let mut message = std::mem::replace(&mut self.buffer, rest);
        message.drain(..HEAD_BYTES);
        Ok(Some(message))
    }
}

/// The messages of an answer.
pub(crate) struct Answers {
    body: Incoming,
    deframer: Deframer,
}

impl Answers {
    /// Of an answer that has begun. Its headers hold the status when there is nothing else.
    pub fn new(response: hyper::Response<Incoming>) -> Result<Self, EtcdError> {
        if let Some(status) = status(response.headers()) {
            status?;
        }
        if response.status() != hyper::StatusCode::OK {
            return Err(EtcdError::Unknown(Lost::Other { code: 2, message: format!("HTTP status {}", response.status().as_u16()) }));
        }
        Ok(Self { body: response.into_body(), deframer: Deframer::default() })
    }
    /// The next one; `None`: the answer is complete.
    pub async fn next<M: prost::Message + Default>(&mut self) -> Result<Option<M>, EtcdError> {
        loop {
            if let Some(message) = self.deframer.next().map_err(EtcdError::Unknown)? {
                return M::decode(message.as_slice()).map(Some).map_err(|_| EtcdError::Unknown(Lost::Unreadable));
            }
            let lost = |text: &str| EtcdError::Unknown(Lost::Connection(short(text)));
            let frame = self.body.frame().await.ok_or_else(|| lost("the answer has no status"))?;
            let frame = frame.map_err(|e| EtcdError::Unknown(Lost::Connection(with_causes(&e))))?;
            match frame.into_data() {
                Ok(data) => self.deframer.push(&data).map_err(EtcdError::Unknown)?,
                Err(frame) => {
                    let trailers = frame.into_trailers().map_err(|_| lost("neither data nor trailers"))?;
                    return status(&trailers).unwrap_or_else(|| Err(lost("trailers without a status"))).map(|()| None);
                }
            }
        }
    }
}

/// The status, if there is one.
fn status(headers: &HeaderMap<HeaderValue>) -> Option<Result<(), EtcdError>> {
    let code = headers.get("grpc-status")?.to_str().ok().and_then(|c| c.parse().ok());
    let Some(code) = code else { return Some(Err(EtcdError::Unknown(Lost::Unreadable))) };
    if code == 0 {
        return Some(Ok(()));
    }
    let message = headers.get("grpc-message").map(|m| percent_decoded(m.as_bytes())).unwrap_or_default();
    Some(Err(of_status(code, &message)))
}

/// gRPC encodes texts as URLs do.
fn percent_decoded(bytes: &[u8]) -> String {
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;

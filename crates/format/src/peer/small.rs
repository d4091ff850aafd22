//! The short messages: Tick, Goodbye, Cancel.

use super::error::{PeerError, reserved};
use super::forward::RequestId;
use super::header::{Envelope, HEADER_BYTES, Header, MessageKind};
use super::sizes::{CANCEL_BYTES, GOODBYE_BYTES, TICK_BYTES};
use crate::bytes::*;
use base::Instant;

layout!(tick: 8 bytes { 0: TICK[8] });
layout!(goodbye: 8 bytes { 0: REASON[1], 1: RESERVED[7] });
layout!(cancel: 8 bytes { 0: REQUEST[8] });

const _: () = assert!(tick::BYTES == TICK_BYTES && goodbye::BYTES == GOODBYE_BYTES && cancel::BYTES == CANCEL_BYTES);

/// The sender's clock: the receiver stamps its requests with the newest that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The sender's own monotonic clock.
    pub clock: Instant,
}

/// The link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goodbye {
    /// How and why.
    pub reason: GoodbyeReason,
}

/// Why a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GoodbyeReason {
    /// No request follows; the link ends when nothing is left.
    Drained = 0,
    /// At once: a newer session, or a newer incarnation of a node, is there.
    Replaced = 1,
    /// At once: the receiver of this has broken the protocol.
    Fault = 2,
    /// At once: nothing was heard of the receiver of this.
    Silence = 3,
}

impl GoodbyeReason {
    /// All of them; each is its index.
    pub const ALL: [GoodbyeReason; 4] = [GoodbyeReason::Drained, GoodbyeReason::Replaced, GoodbyeReason::Fault, GoodbyeReason::Silence];
}

/// A request is no longer wanted: if it has not begun, it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Which.
    pub request: RequestId,
}

impl Tick {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<Tick, PeerError> {
        let b = b.first_chunk::<TICK_BYTES>().ok_or(PeerError::Length)?;
        Ok(Tick { clock: Instant(u64_at(b, tick::TICK)) })
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        put_u64(out, HEADER_BYTES + tick::TICK, self.clock.0);
        Header::seal(MessageKind::Tick, envelope, [0; 2], TICK_BYTES, out)
    }
}

impl Goodbye {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<Goodbye, PeerError> {
        let b = b.first_chunk::<GOODBYE_BYTES>().ok_or(PeerError::Length)?;
        reserved(b, goodbye::RESERVED, GOODBYE_BYTES)?;
        let reason = GoodbyeReason::ALL.get(usize::from(b[goodbye::REASON])).ok_or(PeerError::Value { field: "goodbye" })?;
        Ok(Goodbye { reason: *reason })
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        let b = &mut out[HEADER_BYTES..];
        b[..GOODBYE_BYTES].fill(0);
        b[goodbye::REASON] = self.reason as u8;
        Header::seal(MessageKind::Goodbye, envelope, [0; 2], GOODBYE_BYTES, out)
    }
}

impl Cancel {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<Cancel, PeerError> {
        let b = b.first_chunk::<CANCEL_BYTES>().ok_or(PeerError::Length)?;
        Ok(Cancel { request: RequestId(u64_at(b, cancel::REQUEST)) })
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        put_u64(out, HEADER_BYTES + cancel::REQUEST, self.request.0);
        Header::seal(MessageKind::Cancel, envelope, [0; 2], CANCEL_BYTES, out)
    }
}

//! The header of every message: kind, lengths, session, and what the sender lets the other send.
//!
//! Invariant: a header that parses bounds all that follows it: a body that its kind may have, data only where its kind has data.
//! Never: looks into a body.

use super::error::{PeerError, check, reserved};
use super::segment::{SEGMENTS_MAX, SUM_BYTES};
use super::sizes::{
    ACK_BYTES, BAD_BLOCK_BYTES, BEAT_BYTES, BEAT_ENTRIES_MAX, BEAT_ENTRY_BYTES, CANCEL_BYTES, CHANGE_BYTES, COPY_DATA_BYTES,
    COPY_FAILS_BYTES, COPY_READ_BYTES, DONE_BYTES, DOUBT_BYTES, DOUBT_ENTRIES_MAX, FENCE_BYTES, FENCED_BYTES, FORWARD_BYTES, GOODBYE_BYTES,
    GREETING_BYTES_MAX, HELLO_ANSWER_BYTES, HELLO_BYTES, LIST_BYTES, LISTED_BYTES, LOAD_BYTES, REFUSAL_BYTES, RELEASE_BYTES, TICK_BYTES,
};
use crate::bytes::*;
use base::crc32c;
use base::unit::{BLOCK_BYTES, IO_BYTES_MAX};

const HEADER_MAGIC: &[u8; 4] = b"BSLp";

layout!(header: 64 bytes {
    0: MAGIC[4], 4: CRC[4], 8: KIND[1], 9: VERSION[1], 10: RESERVED[2], 12: BODY_BYTES[4], 16: SESSION[8], 24: OPS[8], 32: BYTES_LET[8],
    40: DATA_FIRST[4], 44: DATA_SECOND[4], 48: BODY_CRC[4], 52: RESERVED_END[12],
});

/// The version in the header of the greeting's messages.
pub const GREETING_VERSION: u8 = 0;
/// Bytes of a header.
pub const HEADER_BYTES: usize = header::BYTES;
/// The most data of a message, in bytes: both segments.
pub const DATA_BYTES_MAX: usize = IO_BYTES_MAX;
/// The most checksums that a body lists: whole blocks, and one for each segment that is not made of them.
const SUMS_MAX: usize = DATA_BYTES_MAX / BLOCK_BYTES + SEGMENTS_MAX;
/// The longest body.
pub const BODY_BYTES_MAX: usize = FORWARD_BYTES + SUMS_MAX * SUM_BYTES;
const _: () = assert!(BODY_BYTES_MAX >= CHANGE_BYTES + SUMS_MAX * SUM_BYTES);
const _: () = assert!(BODY_BYTES_MAX >= GREETING_BYTES_MAX && BODY_BYTES_MAX >= DONE_BYTES + SUMS_MAX * SUM_BYTES);
const _: () = assert!(BODY_BYTES_MAX >= BEAT_BYTES + BEAT_ENTRIES_MAX * BEAT_ENTRY_BYTES);
const _: () = assert!(BODY_BYTES_MAX >= FENCED_BYTES + DOUBT_ENTRIES_MAX * DOUBT_BYTES);
const _: () = assert!(DATA_BYTES_MAX <= u32::MAX as usize / 2, "lengths are added as 32-bit numbers");

/// The number of a link session: which connection of a class and lane it is, in one incarnation of the node that dials. From 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNo(pub u64);

/// How many requests, and bytes of them, one node has let the other send since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests.
    pub ops: u64,
    /// Their cost in bytes.
    pub bytes: u64,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// The dialer's first message.
    Hello = 1,
    /// The link is open.
    HelloAnswer = 2,
    /// The link is not open.
    Refusal = 3,
    /// The sender's clock.
    Tick = 4,
    /// No request follows.
    Goodbye = 5,
    /// A request.
    Forward = 16,
    /// A request is no longer wanted.
    Cancel = 17,
    /// The answer to a request.
    Done = 18,
    /// A change for a copy.
    Change = 35,
    /// Its answer.
    Ack = 36,
    /// Blocks of a copy are asked for.
    CopyRead = 37,
    /// Its answer.
    CopyData = 38,
    /// Chunks of a copy are asked for.
    List = 39,
    /// Its answer.
    Listed = 40,
    /// Asks for a grant.
    Heartbeat = 32,
    /// Its answer.
    Grant = 33,
    /// An object is given up.
    Release = 34,
    /// The owner of a new epoch.
    Fence = 41,
    /// The answer of a copy to it.
    Fenced = 42,
    /// A copy has lost a block.
    BadBlock = 43,
    /// A copy cannot accept an epoch.
    CopyFails = 44,
    /// How much a node has to do.
    Load = 45,
}

impl MessageKind {
    /// All of them.
    pub const ALL: [MessageKind; 22] = [
        MessageKind::Hello,
        MessageKind::HelloAnswer,
        MessageKind::Refusal,
        MessageKind::Tick,
        MessageKind::Goodbye,
        MessageKind::Forward,
        MessageKind::Cancel,
        MessageKind::Done,
        MessageKind::Change,
        MessageKind::Ack,
        MessageKind::CopyRead,
        MessageKind::CopyData,
        MessageKind::List,
        MessageKind::Listed,
        MessageKind::Heartbeat,
        MessageKind::Grant,
        MessageKind::Release,
        MessageKind::Fence,
        MessageKind::Fenced,
        MessageKind::BadBlock,
        MessageKind::CopyFails,
        MessageKind::Load,
    ];
    fn parse(byte: u8) -> Option<MessageKind> {
        MessageKind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
    /// Whether its body may grow with later releases: it comes before the versions are known.
    pub const fn is_greeting(self) -> bool {
        matches!(self, MessageKind::Hello | MessageKind::HelloAnswer | MessageKind::Refusal)
    }
    /// Whether it goes over control links, and over no other.
    pub const fn is_control(self) -> bool {
        use MessageKind::{BadBlock, CopyFails, Fence, Fenced, Grant, Heartbeat, Load, Release};
        matches!(self, Heartbeat | Grant | Release | Fence | Fenced | BadBlock | CopyFails | Load)
    }
    /// How long its body is, at least and at most.
    const fn body_bytes(self) -> (usize, usize) {
        match self {
            MessageKind::Hello => (HELLO_BYTES, GREETING_BYTES_MAX),
            MessageKind::HelloAnswer => (HELLO_ANSWER_BYTES, GREETING_BYTES_MAX),
            MessageKind::Refusal => (REFUSAL_BYTES, GREETING_BYTES_MAX),
            MessageKind::Tick => (TICK_BYTES, TICK_BYTES),
            MessageKind::Goodbye => (GOODBYE_BYTES, GOODBYE_BYTES),
            MessageKind::Forward => (FORWARD_BYTES, FORWARD_BYTES + SUMS_MAX * SUM_BYTES),
            MessageKind::Cancel => (CANCEL_BYTES, CANCEL_BYTES),
            MessageKind::Done => (DONE_BYTES, DONE_BYTES + SUMS_MAX * SUM_BYTES),
            MessageKind::Change => (CHANGE_BYTES, CHANGE_BYTES + SUMS_MAX * SUM_BYTES),
            MessageKind::Ack => (ACK_BYTES, ACK_BYTES),
            MessageKind::CopyRead => (COPY_READ_BYTES, COPY_READ_BYTES),
            MessageKind::CopyData => (COPY_DATA_BYTES, COPY_DATA_BYTES + SUMS_MAX * SUM_BYTES),
            MessageKind::List => (LIST_BYTES, LIST_BYTES),
            MessageKind::Listed => (LISTED_BYTES, LISTED_BYTES + SUM_BYTES),
            MessageKind::Heartbeat | MessageKind::Grant => (BEAT_BYTES, BEAT_BYTES + BEAT_ENTRIES_MAX * BEAT_ENTRY_BYTES),
            MessageKind::Release => (RELEASE_BYTES, RELEASE_BYTES),
            MessageKind::Fence => (FENCE_BYTES, FENCE_BYTES),
            MessageKind::BadBlock => (BAD_BLOCK_BYTES, BAD_BLOCK_BYTES),
            MessageKind::CopyFails => (COPY_FAILS_BYTES, COPY_FAILS_BYTES),
            MessageKind::Load => (LOAD_BYTES, LOAD_BYTES),
            MessageKind::Fenced => (FENCED_BYTES, FENCED_BYTES + DOUBT_ENTRIES_MAX * DOUBT_BYTES),
        }
    }
    /// Whether data may follow.
    const fn has_data(self) -> bool {
        matches!(self, MessageKind::Forward | MessageKind::Done | MessageKind::Change | MessageKind::CopyData | MessageKind::Listed)
    }
}

/// What a sender puts around each of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The link session.
    pub session: SessionNo,
    /// The version in force; messages of the greeting have their own.
    pub version: u8,
    /// What the sender lets the other send.
    pub totals: Totals,
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the message is.
    pub kind: MessageKind,
    /// Session, version, credits.
    pub envelope: Envelope,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Bytes of the data segments, in order; 0: there is none.
    pub data_bytes: [u32; SEGMENTS_MAX],
    /// CRC-32C of the body.
    pub body_crc: u32,
}

impl Header {
    /// Reads one.
    pub fn parse(b: &[u8; HEADER_BYTES]) -> Result<Header, PeerError> {
        use header::*;
        if &b[MAGIC..MAGIC + 4] != HEADER_MAGIC {
            return Err(PeerError::Magic);
        }
        if crc_around(b, CRC) != u32_at(b, CRC) {
            return Err(PeerError::Checksum);
        }
        let kind = MessageKind::parse(b[KIND]).ok_or(PeerError::Kind(b[KIND]))?;
        reserved(b, RESERVED, BODY_BYTES)?;
        reserved(b, RESERVED_END, BYTES)?;
        let version = b[VERSION];
        check((version == GREETING_VERSION) == kind.is_greeting(), "version")?;
        let (body_bytes, data_bytes) = (u32_at(b, BODY_BYTES), [u32_at(b, DATA_FIRST), u32_at(b, DATA_SECOND)]);
        let (least, most) = kind.body_bytes();
        let [first, second] = data_bytes.map(u64::from);
        let body_fits = body_bytes as usize >= least && body_bytes as usize <= most;
        let data_fits = first + second <= DATA_BYTES_MAX as u64 && (second == 0 || first > 0) && (first == 0 || kind.has_data());
        if !body_fits || !data_fits {
            return Err(PeerError::Length);
        }
        let totals = Totals { ops: u64_at(b, OPS), bytes: u64_at(b, BYTES_LET) };
        let envelope = Envelope { session: SessionNo(u64_at(b, SESSION)), version, totals };
        Ok(Header { kind, envelope, body_bytes, data_bytes, body_crc: u32_at(b, BODY_CRC) })
    }

    /// Refuses a body that is not the one it was sent with.
    pub fn check_body(&self, body: &[u8]) -> Result<(), PeerError> {
        if body.len() != self.body_bytes as usize {
            return Err(PeerError::Length);
        }
        if crc32c(body) == self.body_crc { Ok(()) } else { Err(PeerError::Checksum) }
    }

    /// Fills the first [`HEADER_BYTES`] of `out`, where the body follows already; the bytes of both.
    pub(super) fn seal(
        kind: MessageKind,
        envelope: &Envelope,
        data_bytes: [u32; SEGMENTS_MAX],
        body_bytes: usize,
        out: &mut [u8],
    ) -> usize {
        use header::*;
        let (head, body) = out.split_at_mut(HEADER_BYTES);
        head.fill(0);
        put(head, MAGIC, HEADER_MAGIC);
        head[KIND] = kind as u8;
        head[VERSION] = if kind.is_greeting() { GREETING_VERSION } else { envelope.version };
        put_u32(head, BODY_BYTES, body_bytes as u32);
        put_u64(head, SESSION, envelope.session.0);
        put_u64(head, OPS, envelope.totals.ops);
        put_u64(head, BYTES_LET, envelope.totals.bytes);
        put_u32(head, DATA_FIRST, data_bytes[0]);
        put_u32(head, DATA_SECOND, data_bytes[1]);
        put_u32(head, BODY_CRC, crc32c(&body[..body_bytes]));
        let crc = crc_around(head, CRC);
        put_u32(head, CRC, crc);
        HEADER_BYTES + body_bytes
    }
}

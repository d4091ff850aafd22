//! The peer link: the bytes that nodes of a cluster send each other (`docs/peer-link.md` shows them as tables).
//!
//! Owns: parse and build of the header and of each body, explicit little-endian, CRC-32C, checked reserved fields.
//! Invariants: what is built here parses here to the same value; a header that parses says every length that follows, each within its bound;
//! a body that parses agrees with the lengths of its header. Any bytes may be given to a parser.
//! Never: keeps state, does I/O, looks at data, decides what follows from what it read.

mod control;
mod copies;
mod done;
mod error;
mod forward;
mod greeting;
mod header;
mod segment;
mod sizes;
mod small;

#[cfg(test)]
mod tests;

pub use control::{
    BEAT_ENTRIES_MAX, BadBlock, Control, CopyFails, DOUBT_ENTRIES_MAX, DoubtEntry, Fence, FencedPart, Grant, GrantState, Heartbeat, Load,
    Release,
};
pub use copies::{
    Ack, COPIES_VERSION, Change, ChangeSource, ChangeVerb, CopyData, CopyOutcome, CopyRead, LIST_ENTRIES_MAX, LIST_ENTRY_BYTES, List,
    ListEntry, Listed,
};
pub use done::{Done, Outcome};
pub use error::PeerError;
pub use forward::{Forward, Issuer, RequestId, Revision};
pub use greeting::{
    Hello, HelloAnswer, Incarnation, LANES_MAX, LinkClass, Refusal, RefusalReason, Versions, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN,
    WINDOW_OPS_MAX, Window,
};
pub use header::{BODY_BYTES_MAX, DATA_BYTES_MAX, Envelope, GREETING_VERSION, HEADER_BYTES, Header, MessageKind, SessionNo, Totals};
pub use segment::{SEGMENTS_MAX, Segment, SegmentSums, Sums, split};
pub use sizes::{
    CHANGE_BYTES, COPY_DATA_BYTES, DONE_BYTES, FORWARD_BYTES, GREETING_BYTES_MAX, HELLO_ANSWER_BYTES, HELLO_BYTES, REFUSAL_BYTES,
};
pub use small::{Cancel, Goodbye, GoodbyeReason, Tick};

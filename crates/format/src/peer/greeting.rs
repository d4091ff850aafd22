//! The greeting: Hello, and what answers it. Nodes of neighbouring releases read each other's.
//!
//! Invariant: the first bytes of these bodies never change; a later release only adds behind them, and a reader ignores what it does not know.
//! Never: judges a Hello.

use super::error::{PeerError, check, reserved};
use super::header::{DATA_BYTES_MAX, Envelope, GREETING_VERSION, HEADER_BYTES, Header, MessageKind};
use super::sizes::{HELLO_ANSWER_BYTES, HELLO_BYTES, REFUSAL_BYTES};
use crate::bytes::*;
pub use base::Incarnation;
use base::{ClusterId, Instant, NodeId};

layout!(hello: 128 bytes {
    0: CLUSTER[16], 16: FROM[16], 32: TO[16], 48: INCARNATION[8], 56: TICK[8], 64: OPS[4], 68: VERSION_MIN[1], 69: VERSION_MAX[1],
    70: CLASS[1], 71: LANE[1], 72: LANES[1], 73: RESERVED[7], 80: BYTES_WINDOW[8], 88: RESERVED_END[40],
});
layout!(answer: 64 bytes {
    0: FROM[16], 16: INCARNATION[8], 24: TICK[8], 32: OPS[4], 36: RESERVED[4], 40: BYTES_WINDOW[8], 48: VERSION[1], 49: RESERVED_END[15],
});
layout!(refusal: 16 bytes { 0: REASON[1], 1: RESERVED[7], 8: DETAIL[8] });

const _: () = assert!(hello::BYTES == HELLO_BYTES && answer::BYTES == HELLO_ANSWER_BYTES && refusal::BYTES == REFUSAL_BYTES);

/// Lanes of a class between two nodes.
pub const LANES_MAX: u8 = 64;
/// Requests that a window may hold: their slots fit in 16 bits, and a table of them is small.
pub const WINDOW_OPS_MAX: u32 = 4096;
/// Bytes of the smallest window: twice the largest cost of a request, so that half a window always lets one through.
pub const WINDOW_BYTES_MIN: u64 = 2 * DATA_BYTES_MAX as u64;
/// Bytes of the largest window.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;

/// What a link is for. Each class has connections of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LinkClass {
    /// Short messages that must not wait.
    Control = 0,
    /// What hosts wait for.
    Foreground = 1,
    /// What nobody waits for.
    Background = 2,
}

impl LinkClass {
    /// All of them; each is its index.
    pub const ALL: [LinkClass; 3] = [LinkClass::Control, LinkClass::Foreground, LinkClass::Background];
}

/// What one node lets the other have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Requests: 1 to [`WINDOW_OPS_MAX`].
    pub ops: u32,
    /// Their cost in bytes: [`WINDOW_BYTES_MIN`] to [`WINDOW_BYTES_MAX`].
    pub bytes: u64,
}

impl Window {
    fn parse(ops: u32, bytes: u64) -> Result<Window, PeerError> {
        check(ops > 0 && ops <= WINDOW_OPS_MAX, "operations")?;
        check((WINDOW_BYTES_MIN..=WINDOW_BYTES_MAX).contains(&bytes), "bytes")?;
        Ok(Window { ops, bytes })
    }
}

/// The versions of the protocol that a release speaks, without a gap. From 1: 0 is the greeting's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u8,
    /// The newest.
    pub newest: u8,
}

impl Versions {
    /// Those of this release. Version 2 has the messages for copies.
    pub const OURS: Versions = Versions { oldest: 1, newest: 2 };
    /// The newest that both have.
    pub fn common(self, other: Versions) -> Option<u8> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest && newest >= other.oldest).then_some(newest)
    }
    /// Whether it is one of them.
    pub fn has(self, version: u8) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

/// The first message of who dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster.
    pub cluster: ClusterId,
    /// Who dials.
    pub from: NodeId,
    /// Who is meant.
    pub to: NodeId,
    /// Of who dials.
    pub incarnation: Incarnation,
    /// The first tick.
    pub clock: Instant,
    /// What it speaks.
    pub versions: Versions,
    /// What the link is for.
    pub class: LinkClass,
    /// Which connection of the class: below `lanes`.
    pub lane: u8,
    /// Connections of the class: 1 to [`LANES_MAX`].
    pub lanes: u8,
    /// What the other may have under way.
    pub window: Window,
}

/// The answer to a Hello: the link is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloAnswer {
    /// Who answers.
    pub from: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The first tick.
    pub clock: Instant,
    /// The version in force.
    pub version: u8,
    /// What the dialer may have under way.
    pub window: Window,
}

/// The answer to a Hello: the link is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// What was compared: the incarnation or session that is current; the acceptor's oldest version, and its newest times 256. Else 0.
    pub detail: u64,
}

/// Why a Hello is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RefusalReason {
    /// The acceptor is of another cluster.
    OtherCluster = 1,
    /// The acceptor is not the node that is meant.
    OtherNode = 2,
    /// The acceptor knows no such node.
    UnknownNode = 3,
    /// The dialer is no member any more.
    RemovedNode = 4,
    /// A later incarnation of the dialer is known.
    OlderIncarnation = 5,
    /// A later session of the class and lane is known.
    OlderSession = 6,
    /// No version is spoken by both.
    NoCommonVersion = 7,
    /// Lanes or windows that the acceptor does not take.
    Limits = 8,
    /// The acceptor is starting or ending.
    NotNow = 9,
    /// The acceptor takes links over TLS only.
    TlsOnly = 10,
    /// A reason that this release does not know.
    Later = 255,
}

impl RefusalReason {
    /// All that this release gives.
    pub const ALL: [RefusalReason; 10] = [
        RefusalReason::OtherCluster,
        RefusalReason::OtherNode,
        RefusalReason::UnknownNode,
        RefusalReason::RemovedNode,
        RefusalReason::OlderIncarnation,
        RefusalReason::OlderSession,
        RefusalReason::NoCommonVersion,
        RefusalReason::Limits,
        RefusalReason::NotNow,
        RefusalReason::TlsOnly,
    ];
}

impl Hello {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<Hello, PeerError> {
        use hello::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES_WINDOW)?;
        reserved(b, RESERVED_END, BYTES)?;
        let versions = Versions { oldest: b[VERSION_MIN], newest: b[VERSION_MAX] };
        check(versions.oldest > GREETING_VERSION && versions.oldest <= versions.newest, "versions")?;
        let class = *LinkClass::ALL.get(usize::from(b[CLASS])).ok_or(PeerError::Value { field: "class" })?;
        let (lane, lanes) = (b[LANE], b[LANES]);
        check(lanes <= LANES_MAX && lane < lanes, "lane")?;
        let incarnation = Incarnation(u64_at(b, INCARNATION));
        check(incarnation.0 > 0, "incarnation")?;
        let (cluster, from, to) = (array_at(b, CLUSTER), array_at(b, FROM), array_at(b, TO));
        Ok(Hello {
            cluster: ClusterId::from_bytes(cluster),
            from: NodeId::from_bytes(from),
            to: NodeId::from_bytes(to),
            incarnation,
            clock: Instant(u64_at(b, TICK)),
            versions,
            class,
            lane,
            lanes,
            window: Window::parse(u32_at(b, OPS), u64_at(b, BYTES_WINDOW))?,
        })
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        use hello::*;
        let b = &mut out[HEADER_BYTES..HEADER_BYTES + BYTES];
        b.fill(0);
        put(b, CLUSTER, self.cluster.as_bytes());
        put(b, FROM, self.from.as_bytes());
        put(b, TO, self.to.as_bytes());
        put_u64(b, INCARNATION, self.incarnation.0);
        put_u64(b, TICK, self.clock.0);
        put_u32(b, OPS, self.window.ops);
        b[VERSION_MIN] = self.versions.oldest;
        b[VERSION_MAX] = self.versions.newest;
        b[CLASS] = self.class as u8;
        b[LANE] = self.lane;
        b[LANES] = self.lanes;
        put_u64(b, BYTES_WINDOW, self.window.bytes);
        Header::seal(MessageKind::Hello, envelope, [0; 2], BYTES, out)
    }
}

impl HelloAnswer {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<HelloAnswer, PeerError> {
        use answer::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES_WINDOW)?;
        reserved(b, RESERVED_END, BYTES)?;
        let incarnation = Incarnation(u64_at(b, INCARNATION));
        check(incarnation.0 > 0, "incarnation")?;
        check(b[VERSION] > GREETING_VERSION, "version")?;
        Ok(HelloAnswer {
            from: NodeId::from_bytes(array_at(b, FROM)),
            incarnation,
            clock: Instant(u64_at(b, TICK)),
            version: b[VERSION],
            window: Window::parse(u32_at(b, OPS), u64_at(b, BYTES_WINDOW))?,
        })
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        use answer::*;
        let b = &mut out[HEADER_BYTES..HEADER_BYTES + BYTES];
        b.fill(0);
        put(b, FROM, self.from.as_bytes());
        put_u64(b, INCARNATION, self.incarnation.0);
        put_u64(b, TICK, self.clock.0);
        put_u32(b, OPS, self.window.ops);
        put_u64(b, BYTES_WINDOW, self.window.bytes);
        b[VERSION] = self.version;
        Header::seal(MessageKind::HelloAnswer, envelope, [0; 2], BYTES, out)
    }
}

impl Refusal {
    /// Reads a body that its header has checked.
    pub fn parse(b: &[u8]) -> Result<Refusal, PeerError> {
        use refusal::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, DETAIL)?;
        let reason = RefusalReason::ALL.into_iter().find(|r| *r as u8 == b[REASON]).unwrap_or(RefusalReason::Later);
        Ok(Refusal { reason, detail: u64_at(b, DETAIL) })
    }
    /// The whole message into `out`; its bytes.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        use refusal::*;
        let b = &mut out[HEADER_BYTES..HEADER_BYTES + BYTES];
        b.fill(0);
        b[REASON] = self.reason as u8;
        put_u64(b, DETAIL, self.detail);
        Header::seal(MessageKind::Refusal, envelope, [0; 2], BYTES, out)
    }
}

//! Why a link closes.

use format::peer::{GoodbyeReason, MessageKind, PeerError, Refusal};

/// How the other node has broken the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    /// Bytes that are no message.
    #[error("no message: {0}")]
    Message(#[from] PeerError),
    /// A message that has no place in this phase.
    #[error("{0:?} out of place")]
    Order(MessageKind),
    /// A message of another session.
    #[error("a message of another session")]
    Session,
    /// A message of a version that is not in force, or an answer with one that was not offered.
    #[error("a version that was not agreed on")]
    Version,
    /// A request beyond the credits, or credits beyond the window.
    #[error("credits are broken")]
    Credits,
    /// A request whose number cannot be.
    #[error("a request number out of turn")]
    Request,
    /// An answer to nothing, or with data that was not asked for.
    #[error("an answer to nothing")]
    Answer,
    /// Data that its checksums do not match.
    #[error("data that its checksums do not match")]
    Data,
    /// A clock that went back.
    #[error("a clock that went back")]
    Clock,
    /// A message of a control link that does not go with those before it.
    #[error("a message of a control link out of place")]
    Control,
}

/// Why a link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides were done.
    Drained,
    /// The other node broke the protocol.
    Fault(LinkFault),
    /// The acceptor refused the Hello.
    Refused(Refusal),
    /// This node has refused the Hello.
    Refusing(Refusal),
    /// The acceptor is another node than was meant, or an older incarnation of it.
    OtherNode,
    /// The greeting took too long.
    NoGreeting,
    /// Nothing was heard.
    Silence,
    /// A newer session or incarnation is there.
    Replaced,
    /// The other node has ended it.
    Ended(GoodbyeReason),
    /// The connection is gone.
    Lost,
}

//! Names and errors of the network side.

/// A connection of this core. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub(crate) u64);

/// A listener of this core. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub(crate) u64);

/// A timer of this core. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub(crate) u64);

/// Why a network operation failed. After any of these but those that concern `listen` and `connect` only, close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// This side closed the connection while the operation was under way.
    #[error("the connection was closed here")]
    Closed,
    /// The peer, or something between, cut it.
    #[error("the connection was reset by the peer")]
    Reset,
    /// Nobody listens at the address.
    #[error("connection refused: nothing listens at that address")]
    Refused,
    /// There is no way there.
    #[error("the address cannot be reached from here")]
    Unreachable,
    /// The peer did not answer in time.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// Somebody else listens there.
    #[error("the address is in use: stop what listens there or choose another port")]
    AddrInUse,
    /// The address is not one of this machine's.
    #[error("the address does not belong to this host")]
    AddrNotAvailable,
    /// The system does not allow it.
    #[error("permission denied (ports below 1024 need CAP_NET_BIND_SERVICE)")]
    Permission,
    /// Out of descriptors, memory or slots.
    #[error("too many connections or files are open")]
    Limit,
    /// Something that is no socket is at the path of a Unix socket.
    #[error("there is something at that path that is no socket: remove it or choose another path")]
    NotASocket,
    /// The path of a Unix socket is longer than the system takes.
    #[error("the path of a Unix socket has at most 107 bytes")]
    PathTooLong,
    /// A message brought more descriptors than [`DESCRIPTORS_MAX`](crate::DESCRIPTORS_MAX), or than this process can have; all were closed.
    #[error("more descriptors came than can be taken")]
    DescriptorsLost,
    /// A descriptor is not what it was passed for.
    #[error("the descriptor is not one of that kind")]
    WrongDescriptor,
    /// Anything else that the system says.
    #[error("the system says error {errno}")]
    Os {
        /// As in errno(3).
        errno: i32,
    },
}

impl NetError {
    /// From errno(3).
    pub fn from_errno(errno: i32) -> NetError {
        match errno {
            libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => NetError::Reset,
            libc::ECONNREFUSED => NetError::Refused,
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => NetError::Unreachable,
            libc::ETIMEDOUT => NetError::TimedOut,
            libc::EADDRINUSE => NetError::AddrInUse,
            libc::EADDRNOTAVAIL => NetError::AddrNotAvailable,
            libc::EACCES | libc::EPERM => NetError::Permission,
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => NetError::Limit,
            libc::ECANCELED | libc::EBADF | libc::ENOTCONN => NetError::Closed,
            errno => NetError::Os { errno },
        }
    }
}

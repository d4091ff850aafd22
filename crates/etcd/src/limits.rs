//! Limits of the client.

use std::time::Duration;

/// Endpoints of one etcd cluster.
pub const ENDPOINTS_MAX: usize = 16;
/// Until a connection is made, encrypted, and its member has answered.
pub const CONNECT_MAX: Duration = Duration::from_millis(1500);
/// Until the next endpoint is tried, too.
pub const NEXT_AFTER: Duration = Duration::from_millis(300);
/// A read that is not answered so soon goes to another endpoint, too. A change is sent where something was answered not longer ago: an owner that
/// is cut off from a member has half a second before others take over from it.
pub const ANSWERS_WITHIN: Duration = Duration::from_millis(100);
/// Until an attempt of a call is answered.
pub const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// Between attempts.
pub const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of one message, at most.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of what a watch puts together from fragments, at most.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Messages that wait to be sent on one stream, at most.
pub const STREAM_QUEUE_MAX: usize = 4;
/// Operations of one transaction that an etcd takes by default.
pub const TXN_OPERATIONS_MAX: usize = 128;
/// Bytes of one request that an etcd takes by default.
pub const REQUEST_BYTES_MAX: usize = 3 << 19;
/// Bytes of a page that is no call, at most.
pub(crate) const PAGE_BYTES_MAX: usize = 4 << 20;
/// Bytes of an error's text that are kept, at most.
pub(crate) const TEXT_BYTES_MAX: usize = 512;

const _: () = assert!(CONNECT_MAX.as_millis() <= ATTEMPT_MAX.as_millis(), "an endpoint that hangs costs no more than an attempt");

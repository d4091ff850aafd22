//! Every limit of a peer link, and the relations between them.

use base::Duration;
use format::peer::{DATA_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_OPS_MAX, Window};

/// The oldest stamp that lets a request begin, by the clock of the owner.
pub const STAMP_AGE_MAX: Duration = Duration::from_millis(500);
/// How often a link sends its clock. Promised is once in 100 ms.
pub const TICK_EVERY: Duration = Duration::from_millis(50);
/// A link that has heard nothing for so long closes.
pub const SILENCE_MAX: Duration = Duration::from_millis(700);
/// How long a greeting may take.
pub const GREETING_MAX: Duration = Duration::from_secs(2);
/// Requests that wait for credits at the requester. Beyond, a request is refused at once.
pub const WAITING_MAX: usize = 1024;
/// Much data of one request is received in place when at least so much of it is to come, in bytes.
pub const LAND_BYTES_MIN: usize = 16 << 10;
/// Requests for copies under way on a link, each way: beside those that the windows below bound.
pub const COPY_OPS_MAX: usize = 256;
/// Their cost in bytes.
pub const COPY_BYTES_MAX: u64 = 8 << 20;
/// Segments of one send.
pub const SEND_SEGMENTS_MAX: usize = 512;
/// The first delay before dialing again; doubles each time.
pub const REDIAL_MIN: Duration = Duration::from_millis(20);
/// The longest delay before dialing again.
pub const REDIAL_MAX: Duration = Duration::from_secs(1);
/// A link that was open for so long was a good one: the next delay is the first again.
pub const STEADY: Duration = Duration::from_secs(1);
/// What a node lets another have under way on a link, by class: control, foreground, background.
pub const WINDOWS: [Window; 3] =
    [Window { ops: 32, bytes: 2 << 20 }, Window { ops: 128, bytes: 8 << 20 }, Window { ops: 32, bytes: 4 << 20 }];

const _: () = assert!(TICK_EVERY.as_millis() * 2 <= 100, "a tick that is late by one turn of the timer is still in time");
const _: () = assert!(STAMP_AGE_MAX.as_millis() >= 4 * TICK_EVERY.as_millis(), "a request has most of its time for itself");
const _: () = assert!(SILENCE_MAX.as_millis() > STAMP_AGE_MAX.as_millis(), "what a silent link has left cannot begin");
const _: () = assert!(WINDOW_BYTES_MIN >= 2 * DATA_BYTES_MAX as u64, "half a window lets any request through");
const _: () = assert!(COPY_BYTES_MAX >= 2 * DATA_BYTES_MAX as u64, "any request for a copy gets through");
const _: () = {
    let mut at = 0;
    while at < WINDOWS.len() {
        assert!(WINDOWS[at].bytes >= WINDOW_BYTES_MIN && WINDOWS[at].ops <= WINDOW_OPS_MAX);
        at += 1;
    }
};

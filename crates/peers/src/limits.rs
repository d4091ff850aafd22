//! Every limit of what is between nodes, and the relations between them.

use base::Duration;
use format::peer::LANES_MAX;
use object::link::limits::{STAMP_AGE_MAX, TICK_EVERY};

/// Bytes of a receive into a buffer of its own.
pub(crate) const RECEIVE_BYTES: usize = 64 << 10;
/// Sends of a connection that the network may have at once.
pub(crate) const SENDS_MAX: u8 = 4;
/// Connections of others that have not proved and said who they are: on a core, and of these from one address. Beyond, the oldest makes room.
pub(crate) const GREETINGS_MAX: usize = 256;
/// See [`GREETINGS_MAX`]. A node that starts dials on all its lanes at once.
pub(crate) const ADDRESS_GREETINGS_MAX: u32 = 128;
/// Bytes of a receive from who has not said who it is.
pub(crate) const GREETING_RECEIVE_BYTES: usize = 4 << 10;
/// Receives of those in one turn: each may cost a key exchange, and requests wait meanwhile.
pub(crate) const GREETING_RECEIVES_A_TURN: usize = 2;
/// Bytes of a greeting, at most.
pub(crate) const GREETING_BYTES_MAX: usize = 4096;
/// Events taken in one turn.
pub(crate) const EVENTS_A_TURN_MAX: usize = 512;
/// A change whose link is lost is answered after that: it cannot begin any more, also where the owner's clock is slower by a tenth.
pub(crate) const LOST_AFTER: Duration = Duration::from_millis(560);
/// A link that is closed for so long is: until then a request that would go there waits for another one.
pub(crate) const LINK_GONE: Duration = STAMP_AGE_MAX;
/// A core that has not looked for so long was paused: what it reads then may be old.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(200);
/// How long after a pause what is read may have come before it.
pub(crate) const PAUSE_DISTRUST: Duration = Duration::from_millis(250);
/// Stamps of a link that are remembered.
pub(crate) const STAMPS_MAX: usize = 32;
/// What control links have to report at most; beyond, nothing more is taken from them until some of it is.
pub(crate) const CONTROL_EVENTS_MAX: usize = 4096;

const _: () = assert!(LANES_MAX as u32 <= ADDRESS_GREETINGS_MAX && ADDRESS_GREETINGS_MAX as usize <= GREETINGS_MAX);
const _: () = assert!(LOST_AFTER.as_millis() * 10 >= STAMP_AGE_MAX.as_millis() * 11);
const _: () = assert!(PAUSE_MIN.as_millis() >= 3 * TICK_EVERY.as_millis(), "a core with links wakes oftener");
const _: () = assert!(STAMPS_MAX as u128 * TICK_EVERY.as_millis() >= 2 * STAMP_AGE_MAX.as_millis());

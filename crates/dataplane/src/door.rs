//! How control threads put commands into core 0's inbox when it may be full.
//!
//! Invariant: a command is in the inbox, or given back with the reason; a full inbox is never taken for a data plane that has ended.
//! Never: on a core's thread, nor in a simulated world with patience: there waiting would stop the world.
#![allow(clippy::disallowed_methods)] // Threads outside of the cores wait here.

use rt::{Inlet, InletError};
use std::thread;
use std::time::Duration;

/// How long to wait before a full inbox is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// How long the control plane waits for room. Core 0 takes commands in every turn, so it is stuck when there is none after that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Sends; while the inbox is full, tries again for as long as `patience`.
pub(crate) fn send<M: Send>(inlet: &Inlet<M>, mut message: M, patience: Duration) -> Result<(), InletError<M>> {
    let mut waited = Duration::ZERO;
    loop {
        match inlet.send(message) {
            Err(InletError::Full(back)) if waited < patience => {
                message = back;
                thread::sleep(FULL_PAUSE);
                waited += FULL_PAUSE;
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::INBOX_DEPTH;

    #[test]
    fn a_full_inbox_is_waited_for_and_distinguished_from_one_that_is_closed() {
        let (inlet, inbox) = rt::inbox();
        for n in 0..INBOX_DEPTH {
            send(&inlet, n, Duration::ZERO).unwrap();
        }
        assert!(matches!(send(&inlet, 7, FULL_PAUSE * 2), Err(InletError::Full(7))));
        thread::scope(|s| {
            let sent = s.spawn(|| send(&inlet, INBOX_DEPTH, PATIENCE));
            thread::sleep(FULL_PAUSE * 10);
            assert!(!sent.is_finished(), "it waits for room");
            assert_eq!(inbox.try_recv(), Some(0));
            sent.join().unwrap().unwrap();
        });
        drop(inbox);
        assert!(matches!(send(&inlet, 7, PATIENCE), Err(InletError::Closed(7))));
    }
}

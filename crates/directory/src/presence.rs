//! Whether a node is up, and which one leads: keys that go with its session.
//!
//! ```text
//!              session opened                    nobody leads: taken
//!   Away ───────────────────────► Present ─────────────────────────────► Present, leads
//!     ▲                              │                                        │
//!     └──────────────────────────────┴────────────────────────────────────────┘
//!          the session has ended, or was not kept alive for its whole life
//! ```
//!
//! Owns: [`Presence`], the machine of one node; the records [`PresenceRecord`] and [`LeaderRecord`].
//! Invariants: a node takes itself for the leader only while its own clock says that its session lives; what it says of itself goes when its
//! session does; who leads makes no change right: every change is a compare-and-swap.
//! Never: waits, fences anything.

use crate::typed::{Versioned, encode};
use crate::{Action, Directory, DirectoryError, Expect, Key, Nonce, Record, Revision, SessionId, Transaction, Typed};
use base::hooks::{self, SeededFault};
pub use cluster::record::{LeaderRecord, PresenceRecord};
use std::time::Duration;

/// How long a node's session lives when nobody keeps it alive.
pub const PRESENCE_TTL: Duration = Duration::from_secs(6);
/// How often it is kept alive.
pub const PRESENCE_EVERY: Duration = Duration::from_secs(2);
const _: () = assert!(PRESENCE_EVERY.as_millis() * 3 <= PRESENCE_TTL.as_millis(), "two lost answers end nothing");

/// The presence of a node. Time is that of any clock of this node that only goes forward.
#[derive(Debug, Default)]
pub struct Presence {
    session: Option<Session>,
}

#[derive(Debug)]
struct Session {
    id: SessionId,
    /// It lives at least until then.
    until: Duration,
    /// When it was last kept alive.
    kept: Duration,
    written: Option<PresenceRecord>,
    /// It leads, by the record that was written at this revision.
    leads: Option<Revision>,
}

impl Presence {
    /// Whether this node leads, as far as it can know.
    pub fn leads(&self, now: Duration) -> bool {
        self.leadership(now).is_some()
    }

    /// The revision of the record by which this node leads, and until when it can know that it does. Whoever writes as the leader expects that
    /// record as it was written then: when another one leads, nothing is written.
    pub fn leadership(&self, now: Duration) -> Option<(Revision, Duration)> {
        let session = self.session.as_ref().filter(|s| now < s.until)?;
        Some((session.leads?, session.until))
    }

    /// Does what is due: opens a session or keeps it alive, writes what is to be said of the node, and leads when nobody does. To be called every
    /// [`PRESENCE_EVERY`] or oftener, with a nonce that was never used. After an error it is in order to call it again.
    pub fn tick(
        &mut self,
        directory: &(impl Directory + ?Sized),
        now: Duration,
        mine: &PresenceRecord,
        mut nonce: impl FnMut() -> Nonce,
    ) -> Result<(), DirectoryError> {
        self.keep(directory, now)?;
        let session = self.session.as_mut().expect("kept or opened");
        if session.written.as_ref() != Some(mine) {
            match say(directory, session.id, mine, nonce()) {
                // Somebody else writes as this node: an older life of it, whose session has not ended yet.
                Err(DirectoryError::Conflict { .. }) => {}
                Err(error) => return self.ended(error),
                Ok(()) => session.written = Some(mine.clone()),
            }
        }
        let leader = LeaderRecord { node: mine.node.clone(), incarnation: mine.incarnation };
        session.leads = match directory.find::<LeaderRecord>(LeaderRecord::ID)? {
            Some(other) => (other.value == leader).then_some(other.revision),
            None => {
                let key = Key::new(LeaderRecord::KIND, LeaderRecord::ID);
                let take = match hooks::seeded(SeededFault::LeaderOutlivesSession) {
                    true => Action::Put(encode(&leader)),
                    false => Action::Bind(encode(&leader), session.id),
                };
                let take = Transaction::new().with(key, Expect::Absent, take);
                match directory.commit(&take.with_nonce(nonce())) {
                    Ok(revision) => Some(revision),
                    Err(DirectoryError::Conflict { .. } | DirectoryError::Unknown { .. }) => None,
                    Err(error) => return self.ended(error),
                }
            }
        };
        Ok(())
    }

    /// Gives everything back: the node goes.
    pub fn leave(&mut self, directory: &(impl Directory + ?Sized)) -> Result<(), DirectoryError> {
        self.session.take().map_or(Ok(()), |session| directory.end_session(session.id))
    }

    fn keep(&mut self, directory: &(impl Directory + ?Sized), now: Duration) -> Result<(), DirectoryError> {
        if let Some(session) = &mut self.session {
            if now < session.kept + PRESENCE_EVERY / 2 && now < session.until {
                return Ok(());
            }
            match directory.keep_alive(session.id) {
                // It lives from when this was sent.
                Ok(()) => (session.kept, session.until) = (now, now + PRESENCE_TTL),
                Err(error) => self.ended(error)?,
            }
        }
        if self.session.is_none() {
            let id = directory.open_session(PRESENCE_TTL)?;
            self.session = Some(Session { id, until: now + PRESENCE_TTL, kept: now, written: None, leads: None });
        }
        Ok(())
    }

    /// A session that has ended is followed by another one.
    fn ended(&mut self, error: DirectoryError) -> Result<(), DirectoryError> {
        match error {
            DirectoryError::NoSession(_) if hooks::seeded(SeededFault::SessionEndUnnoticed) => Ok(()),
            DirectoryError::NoSession(_) => {
                self.session = None;
                Ok(())
            }
            error => Err(error),
        }
    }
}

fn say(directory: &(impl Directory + ?Sized), session: SessionId, mine: &PresenceRecord, nonce: Nonce) -> Result<(), DirectoryError> {
    let key = Key::new(PresenceRecord::KIND, mine.id());
    let expect = match directory.find::<PresenceRecord>(&mine.id())? {
        // A later life of this node: this one is over.
        Some(Versioned { value, .. }) if value.incarnation > mine.incarnation => return Err(DirectoryError::Conflict { key }),
        Some(there) => Expect::At(there.revision),
        None => Expect::Absent,
    };
    directory.commit(&Transaction::new().with(key, expect, Action::Bind(encode(mine), session)).with_nonce(nonce)).map(drop)
}

#[cfg(test)]
#[path = "presence_tests.rs"]
mod tests;

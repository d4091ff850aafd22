//! Fences for copies of this node: those that wait, and those that are being made durable.
//!
//! Owns: [`Fences`].
//! Invariants: a copy makes one epoch durable at a time; of the fences that wait for a copy the one of the highest epoch is kept.
//! Never: says whether an epoch may be accepted.

use super::action::CopyKey;
use super::limits::WAITING_MAX;
use base::{Instant, ObjectId, OwnerId};
use format::peer::Fence;
use std::collections::BTreeMap;

/// Nothing but an event helps.
pub(super) const NEVER: Instant = Instant(u64::MAX);

/// Who asks for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub by: OwnerId,
    pub fence: Fence,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    asked: Asked,
    /// It is asked again then.
    at: Instant,
    /// It goes then if its copy is not known.
    until: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fences {
    waiting: BTreeMap<CopyKey, Waiting>,
    accepting: BTreeMap<CopyKey, Asked>,
}

const fn key(asked: &Asked) -> CopyKey {
    (asked.fence.object, asked.fence.component)
}

impl Fences {
    /// It waits until then. `until`: it goes then if its copy is still not known.
    pub fn waits(&mut self, asked: Asked, at: Instant, until: Instant) {
        let key = key(&asked);
        let room = self.waiting.len() < WAITING_MAX;
        match self.waiting.get_mut(&key) {
            Some(waiting) if waiting.asked.fence.epoch > asked.fence.epoch => {}
            // How long a copy has not been known counts from the first time.
            Some(waiting) => *waiting = Waiting { asked, at, until: until.min(waiting.until) },
            None if room => {
                self.waiting.insert(key, Waiting { asked, at, until });
            }
            None => {}
        }
    }
    /// Fences that are to be asked again then: of a copy, an object, or all of them.
    pub fn stirs(&mut self, which: impl Fn(&CopyKey) -> bool, at: Instant) {
        self.waiting.iter_mut().filter(|(key, _)| which(key)).for_each(|(_, waiting)| waiting.at = at);
    }
    /// Those whose time has come.
    pub fn due(&self, now: Instant) -> Vec<CopyKey> {
        self.waiting.iter().filter(|(_, waiting)| waiting.at <= now).map(|(key, _)| *key).collect()
    }
    /// Takes one that waits, and until when it is kept without a copy.
    pub fn take(&mut self, key: CopyKey) -> Option<(Asked, Instant)> {
        self.waiting.remove(&key).map(|waiting| (waiting.asked, waiting.until))
    }
    pub fn accepts(&mut self, asked: Asked) {
        self.accepting.insert(key(&asked), asked);
    }
    pub fn is_accepting(&self, asked: &Asked) -> bool {
        self.accepting.contains_key(&key(asked))
    }
    /// A copy has answered.
    pub fn answered(&mut self, key: CopyKey) -> Option<Asked> {
        self.accepting.remove(&key)
    }
    /// The object is gone. What is being made durable is answered.
    pub fn forget(&mut self, object: ObjectId) {
        self.waiting.retain(|(of, _), _| *of != object);
    }
    /// When one is to be asked again.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.at).filter(|at| *at != NEVER).min()
    }
    /// How many it keeps.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.waiting.len() + self.accepting.len()
    }
}

//! The memory that the commands of a connection hold, and how much they may.
//!
//! Data of capsules is held without asking. That of commands on volumes with limits may stay for as long as a limit holds it back. So it keeps nobody
//! from buffers or from being read as long as the host's quota covers it; the entries of the queue bound it.
//!
//! Invariants: what is held is what the slots hold and what is on its way to the host; data of capsules is a part of it.
//! Never: takes memory; it counts.

use crate::limits::{ADMIN_HELD_MAX, CAPSULE_HELD_MAX, LIMITED_CAPSULES_MAX};
use base::hooks::{self, SeededFault};
use frontend::Place;

/// See the module. All sizes in bytes.
pub(super) struct HeldMemory {
    held: u32,
    /// What may be held, beside one command.
    most: u32,
    /// Of what is held: data that came in capsules, for volumes without limits.
    capsules: u32,
    /// The same, for volumes with limits.
    limited: u32,
    /// The host's memory is used up by what came in capsules.
    throttled: bool,
    /// Its share of what its host may hold; none where nobody counts.
    place: Option<Place>,
}

impl HeldMemory {
    pub(super) fn new() -> Self {
        HeldMemory { held: 0, most: ADMIN_HELD_MAX, capsules: 0, limited: 0, throttled: false, place: None }
    }
    /// Bytes of data buffers that commands hold.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.held
    }
    /// The same, without what came in capsules for volumes with limits: what may be waited for.
    #[inline]
    pub(super) fn asked(&self) -> u32 {
        self.held - self.limited
    }
    /// Whether there is data of capsules for volumes with limits.
    #[inline]
    pub(super) fn has_limited(&self) -> bool {
        self.limited > 0
    }
    /// So much may be held from now on.
    pub(super) fn set_most(&mut self, most: u32) {
        self.most = most;
    }
    /// What is held counts against this from now on.
    pub(super) fn set_place(&mut self, place: Option<Place>) {
        self.place = place;
    }
    /// Whether there is a place in a host's quota.
    pub(super) fn has_place(&self) -> bool {
        self.place.is_some()
    }
    /// Gives back memory that is leased and not used.
    pub(super) fn trim_lease(&mut self) {
        if let Some(place) = &mut self.place {
            place.keep(self.held.into());
        }
    }
    /// Whether `bytes` more are within what may be held, or nothing is.
    #[inline]
    pub(super) fn has_room(&mut self, bytes: u32) -> bool {
        let (first, sum) = (self.held == self.limited, self.held + bytes);
        let covered = (first || sum - self.limited <= self.most) && self.is_covered(bytes);
        first || covered
    }
    /// Whether the host's quota covers `bytes` more.
    #[inline]
    fn is_covered(&mut self, bytes: u32) -> bool {
        let sum = self.held + bytes;
        self.place.as_mut().is_none_or(|place| place.covers(sum.into()))
    }
    /// Whether no more capsules with data should come.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.capsules >= CAPSULE_HELD_MAX || self.throttled
    }

    /// So much more is held.
    #[inline]
    pub(super) fn take(&mut self, bytes: u32) {
        self.held += bytes;
    }
    /// Data of a capsule is held, whether it is `covered` or not.
    #[inline]
    pub(super) fn take_capsule(&mut self, bytes: u32, covered: bool) {
        self.held += bytes;
        self.capsules += bytes;
        self.throttled |= !covered;
    }
    /// The same, of a command on a volume with limits.
    #[cold]
    pub(super) fn take_limited_capsule(&mut self, bytes: u32) {
        let covered = self.is_covered(bytes);
        self.take_capsule(bytes, covered);
        self.set_limited(bytes, true);
    }
    /// The volume of a command with so many bytes in its capsule has limits from now on, or none any more.
    #[cold]
    pub(super) fn set_limited(&mut self, capsule: u32, limited: bool) {
        if hooks::seeded(SeededFault::LimitedCapsulesFill) {
            return;
        }
        let (from, to) = if limited { (&mut self.capsules, &mut self.limited) } else { (&mut self.limited, &mut self.capsules) };
        *from -= capsule;
        *to += capsule;
        debug_assert!(self.limited <= LIMITED_CAPSULES_MAX, "one capsule an entry");
    }
    /// A command that held `held` bytes, `capsule` of them data of its capsule, is gone. The send list holds `kept` of them on.
    #[inline]
    pub(super) fn release(&mut self, held: u32, capsule: u32, kept: u32) {
        self.held -= held - kept.min(held);
        self.capsules -= capsule;
        self.throttled &= held == 0;
    }
    /// So much that a send list held is free.
    #[inline]
    pub(super) fn sent(&mut self, freed: u32) {
        self.held = self.held.saturating_sub(if hooks::seeded(SeededFault::SentStaysHeld) { 0 } else { freed });
        self.throttled &= freed == 0;
    }
    /// Bytes that were to be sent are not: the session has ended.
    pub(super) fn give_up(&mut self, bytes: u32) {
        self.held = self.held.saturating_sub(bytes);
    }
}

//! How far a connection is with being known: which listener it came through and when, how its host authenticates, what is kept for it.

use super::message::Door;
use crate::limits::HANDSHAKE_MAX;
use ::auth::ControllerAuth;
use base::{Duration, Instant};
use frontend::Place;

/// See the module.
pub(super) struct Admitting {
    door: Door,
    since: Instant,
    /// It weighs little when connections are dealt to cores: an admin queue.
    light: bool,
    /// Authentication of the queue; `None` before Connect and for discovery.
    auth: Option<Box<ControllerAuth>>,
    /// The place in the quota of its host that was kept for it, until its host has authenticated.
    kept: Option<Place>,
}

impl Admitting {
    pub(super) fn new(door: Door, now: Instant) -> Self {
        Admitting { door, since: now, light: false, auth: None, kept: None }
    }
    /// The listener that it came through.
    pub(super) fn door(&self) -> Door {
        self.door
    }
    /// Whether its Connect command is overdue, if none has succeeded.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        now.since(self.since) > HANDSHAKE_MAX
    }
    /// It weighs little from now on.
    pub(super) fn lighten(&mut self) {
        self.light = true;
    }
    /// See [`Admitting::lighten`].
    pub(super) fn is_light(&self) -> bool {
        self.light
    }
    /// It has a queue, which authenticates so.
    pub(super) fn authenticate_with(&mut self, machine: ControllerAuth) {
        self.auth = Some(Box::new(machine));
    }
    /// The authentication of its queue.
    pub(super) fn auth(&self) -> Option<&ControllerAuth> {
        self.auth.as_deref()
    }
    /// See [`Admitting::auth`].
    pub(super) fn auth_mut(&mut self) -> Option<&mut ControllerAuth> {
        self.auth.as_deref_mut()
    }
    /// Keeps a place in the quota of its host until that has authenticated.
    pub(super) fn keep(&mut self, place: Option<Place>) {
        self.kept = place;
    }
    /// The place that was kept.
    pub(super) fn take_kept(&mut self) -> Option<Place> {
        self.kept.take()
    }
    /// All its deadlines are so much later.
    pub(super) fn give_time(&mut self, time: Duration) {
        self.since += time;
        if let Some(auth) = &mut self.auth {
            auth.give_time(time);
        }
    }
}

//! One event of a world happens.
//!
//! Invariant: every event goes into the trace, with its time, its number and its place.
//! Never: runs a program; it says which core is to run.

use super::place::Place;
use super::state::{Scheduled, What, WorldState};
use crate::{Event, TimerId};

impl WorldState {
    /// Lets the next event happen, unless it is after `limit`: which core is to run because of it.
    pub(crate) fn step(&mut self, limit: u64) -> Option<Option<Place>> {
        let entry = self.events.first_entry().filter(|e| e.key().0 <= limit)?;
        let ((at, number), event) = entry.remove_entry();
        let Scheduled { place, what } = *event;
        self.now = at;
        self.note(at);
        self.note(number ^ (place.host as u64) << 48 ^ (place.core as u64) << 40);
        Some(match what {
            What::Complete { q, cookie, event } => {
                self.complete(&q, cookie, event);
                Some(place)
            }
            What::Timer { q, cookie } => {
                self.timers.remove(&number);
                self.note(1);
                q.push(cookie, Event::Timer(TimerId(number)));
                Some(place)
            }
            What::Wake => {
                self.note(2);
                self.hosts[place.host].cores[place.core].wake_coming = false;
                Some(place)
            }
            What::Resume => {
                self.note(3);
                self.hosts[place.host].cores[place.core].resume_coming = false;
                Some(place)
            }
            What::Disk(op) => {
                self.disk_done(*op);
                Some(place)
            }
            What::Net(event) => self.net_event(event),
            What::Unix(event) => self.unix_event(event),
        })
    }
}

//! Who runs beside whom: tests of one subject run together, those of different subjects one after another.
//!
//! As the tests run in the order of their names, subject by subject, threads seldom wait here. A test may take its subject's turn more
//! than once (one for each daemon): who asks for the subject that is on never waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What disturbs what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Little load: beside one another.
    Light,
    /// Kills and faults under verified load.
    Faults,
    /// Floods, saturation, keep-alives.
    Flood,
    /// The cases of wrong PDUs, with their time-outs.
    Pdu,
}

/// The subject that is on, and how many turns of it are taken.
static ON: Mutex<Option<(Subject, usize)>> = Mutex::new(None);
static FREE: Condvar = Condvar::new();

/// Lasts until it is dropped, also by a failing test.
pub struct Turn(());

fn on() -> MutexGuard<'static, Option<(Subject, usize)>> {
    ON.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turn {
    /// Waits until no other subject is on.
    pub fn take(subject: Subject) -> Self {
        let other = |on: &mut Option<(Subject, usize)>| on.is_some_and(|(s, _)| s != subject);
        let mut now = FREE.wait_while(on(), other).unwrap_or_else(PoisonError::into_inner);
        now.get_or_insert((subject, 0)).1 += 1;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut now = on();
        *now = now.filter(|(_, turns)| *turns > 1).map(|(subject, turns)| (subject, turns - 1));
        if now.is_none() {
            FREE.notify_all();
        }
    }
}

//! The loop of a core.
//!
//! Owns: the order of a turn, and the way to sleep.
//! Invariants: before a sleep the core announces it and runs one more whole turn, in which it asks everything; it sleeps only if that turn did
//! nothing. So whoever acts before the announcement is seen by that turn, and whoever acts after it rings.
//! Never: sleeps while a task can run or a completion waits.
//!
//! ```text
//! Busy ──(nothing to do)──► Spinning ──(longer than the limit)──► Announced ──(still nothing)──► asleep
//!   ▲───────────────────────────┴───────────────────────────────────┴──────────────────────────────┘
//! ```

use super::core::Core;
use super::spin::Spin;
use crate::{App, Progress, Rt};

/// Runs `app` on this core until it stops.
pub(super) fn run(core: &Core, rt: &Rt, app: &mut dyn App, mut spin: Spin) {
    let stats = rt.stats();
    let mut now = core.tick();
    let mut idle_since = None;
    let mut announced = false;
    loop {
        stats.loops.add(1);
        let pushed = core.poll(announced);
        let progress = app.poll(rt);
        // Answers go out before the background work of this turn, and what that asks of devices behind it.
        let mut more = core.flush();
        let ran = rt.run_tasks();
        more |= core.flush();
        if progress == Progress::Stop {
            core.own_waker().awake();
            return;
        }
        let busy = pushed > 0 || ran || more || progress == Progress::Busy || rt.has_runnable_tasks();
        let before = std::mem::replace(&mut now, core.tick());
        if busy {
            stats.busy_ns.add(now - before);
            idle_since = None;
            if std::mem::take(&mut announced) {
                core.own_waker().awake();
            }
            continue;
        }
        let since = *idle_since.get_or_insert(before);
        let waits_for = core.waits_for();
        if announced {
            core.sleep();
            core.own_waker().awake();
            announced = false;
            let before = std::mem::replace(&mut now, core.tick());
            stats.sleep_ns.add(now - before);
            spin.slept(waits_for, now - since);
            idle_since = None;
        } else if spin.goes_on(waits_for, now - since, now - before, now) {
            // The kernel's own threads may want this processor: a write to a file is flushed by one of them.
            stats.syscalls.add(1);
            std::thread::yield_now();
        } else {
            core.own_waker().announce_sleep();
            announced = true;
        }
    }
}

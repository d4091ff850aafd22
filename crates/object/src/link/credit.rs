//! Credits: what each end lets the other have under way.
//!
//! ```text
//!   receiver (Granting)                          sender (Spending)
//!   granted = window - left + what came back ──► allowed      sends while spent + cost <= allowed
//! ```
//!
//! Invariants: totals only grow; what is under way, with what ended sessions have left, is at most the window; nobody sends beyond what was
//! announced.
//! Never: knows what a request is.

use base::hooks::{self, SeededFault};
use format::peer::{Totals, Window};

/// What requests hold at the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Requests.
    pub ops: u32,
    /// Their cost in bytes.
    pub bytes: u64,
}

impl Held {
    /// One request of this cost.
    pub(super) const fn one(bytes: u64) -> Held {
        Held { ops: 1, bytes }
    }
    pub(super) fn plus(self, other: Held) -> Held {
        Held { ops: self.ops + other.ops, bytes: self.bytes + other.bytes }
    }
}

fn plus(totals: Totals, held: Held) -> Totals {
    Totals { ops: totals.ops + u64::from(held.ops), bytes: totals.bytes + held.bytes }
}

fn within(totals: Totals, most: Totals) -> bool {
    totals.ops <= most.ops && totals.bytes <= most.bytes
}

/// What this end lets the other send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granting {
    window: Window,
    granted: Totals,
    announced: Totals,
    arrived: Totals,
}

impl Granting {
    /// Of a new session, while requests of ended ones hold `left`.
    pub(super) fn new(window: Window, left: Held) -> Granting {
        assert!(left.ops <= window.ops && left.bytes <= window.bytes, "what is left was within the window");
        let granted = Totals { ops: u64::from(window.ops - left.ops), bytes: window.bytes - left.bytes };
        Granting { window, granted, announced: Totals::default(), arrived: Totals::default() }
    }
    /// What the next header says.
    #[inline]
    pub(super) fn announce(&mut self) -> Totals {
        self.announced = self.granted;
        self.granted
    }
    /// A request has come. Whether it was allowed to.
    #[inline]
    #[must_use]
    pub(super) fn arrive(&mut self, bytes: u64) -> bool {
        self.arrived = plus(self.arrived, Held::one(bytes));
        within(self.arrived, self.announced)
    }
    /// Requests are answered or dropped.
    #[inline]
    pub(super) fn release(&mut self, held: Held) {
        self.granted = plus(self.granted, held);
        let open = (self.granted.ops - self.arrived.ops, self.granted.bytes - self.arrived.bytes);
        hooks::must(|| open.0 <= self.window.ops.into() && open.1 <= self.window.bytes, "more was given back than was taken");
    }
    /// Whether so much has come back unsaid that a message of its own is due.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        (self.granted.ops - self.announced.ops) * 2 >= self.window.ops.into()
            || (self.granted.bytes - self.announced.bytes) * 2 >= self.window.bytes
    }
}

/// What the other end lets this one send.
#[derive(Debug)]
pub(super) struct Spending {
    window: Window,
    allowed: Totals,
    spent: Totals,
}

impl Spending {
    /// Of a new session: the other's window, and what it allows at first. `None`: it allows more than its window.
    pub(super) fn new(window: Window, allowed: Totals) -> Option<Spending> {
        let mut spending = Spending { window, allowed: Totals::default(), spent: Totals::default() };
        spending.hear(allowed).then_some(spending)
    }
    pub(super) fn window(&self) -> Window {
        self.window
    }
    /// A header says what is allowed. Whether it can be: no less than before, and no more than the window beyond what was spent.
    #[inline]
    #[must_use]
    pub(super) fn hear(&mut self, allowed: Totals) -> bool {
        let most = plus(self.spent, Held { ops: self.window.ops, bytes: self.window.bytes });
        let sound = within(self.allowed, allowed) && within(allowed, most);
        self.allowed = allowed;
        sound
    }
    /// Whether a request of this cost may go.
    #[inline]
    pub(super) fn covers(&self, bytes: u64) -> bool {
        within(plus(self.spent, Held::one(bytes)), self.allowed)
    }
    /// It goes.
    #[inline]
    pub(super) fn spend(&mut self, bytes: u64) {
        debug_assert!(self.covers(bytes), "nothing is sent without credit");
        self.spent = plus(self.spent, Held::one(bytes));
    }
    /// Whether a whole window may be sent.
    pub(super) fn is_whole(&self) -> bool {
        plus(self.spent, Held { ops: self.window.ops, bytes: self.window.bytes }) == self.allowed
    }
}

/// What comes back for a request that has not begun.
pub(super) fn returned(held: Held) -> Held {
    if hooks::seeded(SeededFault::LinkCreditKept) { Held::default() } else { held }
}

//! What happened lately, to be read when something went wrong.
//!
//! Owns: a ring of events. Invariant: bounded. Never: formats anything before somebody asks.

use crate::plan::OpKind;
use format::nvme::Status;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

/// Events kept.
const EVENTS_MAX: usize = 20_000;
/// Lines of a report.
const LINES_MAX: usize = 60;

/// Where an operation works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The volume's number.
    pub volume: usize,
    /// First logical block, from the first one that is used.
    pub block: u64,
    /// Blocks.
    pub blocks: u64,
}

impl Place {
    /// Whether it touches a block.
    pub fn touches(&self, volume: usize, block: u64) -> bool {
        self.volume == volume && (self.block..self.block + self.blocks).contains(&block)
    }
}

/// An event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client sent a command; the values of its blocks begin with `value`.
    Sent { op: u64, client: usize, kind: OpKind, place: Place, value: u64 },
    /// It was answered.
    Done { op: u64, status: Status },
    /// Its connection is gone.
    GivenUp { op: u64 },
    /// Anything that concerns the whole host.
    Note(String),
}

/// The ring.
#[derive(Default)]
pub struct Trace {
    events: VecDeque<(u64, Event)>,
    /// Everything is kept and shown.
    pub whole: bool,
}

impl Trace {
    /// Keeps an event; `now` in nanoseconds.
    pub fn push(&mut self, now: u64, event: Event) {
        if self.events.len() == EVENTS_MAX && !self.whole {
            self.events.pop_front();
        }
        self.events.push_back((now, event));
    }

    /// The last events that concern a block (or all, when none is named), oldest first.
    pub fn tell(&self, about: Option<(usize, u64)>) -> String {
        let mut ops = BTreeSet::new();
        let mut wanted = |event: &Event| match (event, about) {
            (Event::Note(_), _) | (_, None) => true,
            (Event::Sent { op, place, .. }, Some((volume, block))) => place.touches(volume, block) && ops.insert(*op),
            (Event::Done { op, .. } | Event::GivenUp { op }, Some(_)) => ops.contains(op),
        };
        let shown: Vec<_> = self.events.iter().filter(|(_, e)| wanted(e)).collect();
        let from = if self.whole { 0 } else { shown.len().saturating_sub(LINES_MAX) };
        let mut out = String::new();
        for (at, event) in &shown[from..] {
            let _ = write!(out, "  {:>14.3} us  ", *at as f64 / 1000.0);
            let _ = match event {
                Event::Note(text) => writeln!(out, "-- {text}"),
                Event::Done { op, status } => writeln!(out, "#{op} answered: {status:?}"),
                Event::GivenUp { op } => writeln!(out, "#{op} given up with its connection"),
                Event::Sent { op, client, kind, place: p, value } => {
                    writeln!(out, "#{op} client {client}: {kind:?} volume {} blocks {}+{} value {value}", p.volume, p.block, p.blocks)
                }
            };
        }
        out
    }
}

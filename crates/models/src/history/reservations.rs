//! Whether what reservation commands were answered could have happened one after another, and whether reports, and reads and writes that were let through,
//! show a state that there was.
//!
//! The rules are those of `cluster::reservation`, which has tests of its own: here is judged that they were applied to one state, in an order, by all nodes.

use super::{LATE_US, Op, What, order};
use base::HostId;
use cluster::reservation::{Command, Refusal, ReservationType, State};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A reservation command. Types are RTYPE of NVMe base 2.0, figure 530.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Register, or keep the registration.
    Register {
        /// The host's key.
        key: u64,
    },
    /// Unregister, whatever the key.
    Unregister,
    /// Acquire.
    Acquire {
        /// The host's key.
        key: u64,
        /// The type.
        rtype: u8,
    },
    /// Preempt.
    Preempt {
        /// The host's key.
        key: u64,
        /// The key to be preempted.
        other: u64,
        /// The type of the new reservation.
        rtype: u8,
    },
    /// Release.
    Release {
        /// The host's key.
        key: u64,
        /// The type, as the host takes it to be.
        rtype: u8,
    },
    /// Clear.
    Clear {
        /// The host's key.
        key: u64,
    },
}

/// What it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Success.
    Done,
    /// Reservation Conflict.
    Conflict,
    /// Invalid Field in Command.
    InvalidField,
}

/// What a report says: the type, and for each registrant its number, its key, and whether it holds the reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seen {
    /// 0: none.
    pub rtype: u8,
    /// Who is registered.
    pub registrants: BTreeSet<(u64, u64, bool)>,
}

impl Asked {
    fn command(self) -> Command {
        let of = |rtype| ReservationType::parse(rtype).expect("a type");
        match self {
            // It persists, so that the end of a node changes nothing.
            Self::Register { key } => Command::Register { nrkey: key, ptpl: Some(true) },
            Self::Unregister => Command::Unregister { crkey: None, ptpl: None },
            Self::Acquire { key, rtype } => Command::Acquire { crkey: key, rtype: of(rtype) },
            Self::Preempt { key, other, rtype } => Command::Preempt { crkey: key, prkey: other, rtype: of(rtype), abort: false },
            Self::Release { key, rtype } => Command::Release { crkey: key, rtype: Some(of(rtype)) },
            Self::Clear { key } => Command::Clear { crkey: key },
        }
    }
}

/// The states that there may be, each once, by what hosts see of it, and what commands lead to.
struct States {
    all: Vec<(State, Seen)>,
    ids: BTreeMap<Seen, usize>,
    after: BTreeMap<(usize, u64, Asked), (Answer, usize)>,
}

impl States {
    fn new() -> Self {
        let mut states = Self { all: Vec::new(), ids: BTreeMap::new(), after: BTreeMap::new() };
        states.id(State::default());
        states
    }
    fn id(&mut self, state: State) -> usize {
        let registrants = state.registrants().iter().map(|(host, key)| (number_of(*host), *key, state.is_holder(*host))).collect();
        let seen = Seen { rtype: state.rtype().map_or(0, |rtype| rtype as u8), registrants };
        *self.ids.entry(seen.clone()).or_insert_with(|| {
            self.all.push((state, seen));
            self.all.len() - 1
        })
    }
    /// The state of which a report says this. One host holds it at most.
    fn seen(&mut self, seen: &Seen) -> usize {
        let mut state = State::default();
        let mut does = |host: u64, asked: Asked| {
            state.execute(host_of(host), &asked.command()).expect("what a report says can be made");
        };
        for (host, key, _) in &seen.registrants {
            does(*host, Asked::Register { key: *key });
        }
        if let Some((host, key, _)) = seen.registrants.iter().find(|(_, _, holds)| *holds) {
            does(*host, Asked::Acquire { key: *key, rtype: seen.rtype });
        }
        self.id(state)
    }
    /// What a command is answered, and leads to.
    fn after(&mut self, state: usize, host: u64, asked: Asked) -> (Answer, usize) {
        if let Some(known) = self.after.get(&(state, host, asked)) {
            return *known;
        }
        let mut next = self.all[state].0.clone();
        let answer = match next.execute(host_of(host), &asked.command()) {
            Ok(_) => Answer::Done,
            Err(Refusal::InvalidField) => Answer::InvalidField,
            Err(_) => Answer::Conflict,
        };
        let known = (answer, self.id(next));
        self.after.insert((state, host, asked), known);
        known
    }
    /// What a command leads to, if it is answered so.
    fn step(&mut self, state: usize, op: &Op) -> Option<usize> {
        let What::Reserve { asked, answer } = &op.what else { return Some(state) };
        let (now, next) = self.after(state, op.host, *asked);
        answer.map_or(next != state, |answer| answer == now).then_some(next)
    }
    /// These, and those that some of these commands lead to from them: a search places a command no sooner than another one needs it.
    fn with(&mut self, mut these: BTreeSet<usize>, commands: &[&Op]) -> BTreeSet<usize> {
        let mut left: Vec<usize> = these.iter().copied().collect();
        while let Some(state) = left.pop() {
            let next: Vec<usize> = commands.iter().filter_map(|op| self.step(state, op)).collect();
            left.extend(next.into_iter().filter(|next| these.insert(*next)));
        }
        these
    }
    /// Whether a host may have seen this then.
    fn shows(&self, state: usize, op: &Op) -> bool {
        let (state, seen) = &self.all[state];
        match &op.what {
            What::Report { seen: reported } => reported == seen,
            What::Access { write, allowed } => {
                let may = state.access(host_of(op.host));
                *allowed == if *write { may.write } else { may.read }
            }
            What::Reserve { .. } | What::Read { .. } | What::Write { .. } => true,
        }
    }
}

/// A part of a history that begins with a state that is known.
struct Segment {
    /// It is judged from here to there.
    from: u64,
    to: u64,
    ends: Vec<order::End<usize>>,
}

impl Segment {
    /// When the last end before a time was.
    fn last_end(&self, before: u64) -> u64 {
        let first = self.ends.partition_point(|end| end.time < before);
        first.checked_sub(1).map_or(0, |last| self.ends[last].time)
    }
    /// What there was after the last end before a time, and until the first one after another.
    fn there(&self, from: u64, to: u64) -> impl Iterator<Item = usize> {
        let first = self.ends.partition_point(|end| end.time < from);
        let last = (self.ends.partition_point(|end| end.time <= to) + 1).min(self.ends.len());
        let before = first.checked_sub(1).map(|before| &self.ends[before].after);
        self.ends[first..last].iter().rev().map(|end| &end.until).chain(before).flatten().copied()
    }
}

/// How many operations were not judged. The error: what is wrong, in words.
pub fn judge(ops: &[Op]) -> Result<usize, String> {
    judge_within(ops, order::WAYS_MAX)
}

/// The same; so many ways are followed at once.
pub fn judge_within(ops: &[Op], ways_max: usize) -> Result<usize, String> {
    let is_command = |op: &&Op| matches!(op.what, What::Reserve { .. });
    let is_seen = |op: &&Op| matches!(op.what, What::Report { .. } | What::Access { .. });
    let mut commands: Vec<&Op> = ops.iter().filter(is_command).collect();
    commands.sort_by_key(|op| op.begun);
    let known = states_that_are_known(ops, &commands);
    let states = RefCell::new(States::new());
    let (mut segments, mut undecided, mut begins, mut state, mut from) = (Vec::new(), 0, 0, 0, 0);
    loop {
        let of = &commands[begins..];
        let found = order::search(of, ways_max, state, |state, op| states.borrow_mut().step(*state, op)).map_err(|(at, impossible)| {
            let around: Vec<&Op> = of[at.saturating_sub(12)..(at + 4).min(of.len())].to_vec();
            wrong("no order explains", of[at], &impossible, &states.borrow(), &around)
        })?;
        let Some(stopped) = found.undecided else {
            segments.push(Segment { from, to: u64::MAX, ends: found.ends });
            break;
        };
        let to = found.ends.last().expect("the start").time;
        segments.push(Segment { from, to, ends: found.ends });
        // It goes on from where the state is known again.
        let next = known.iter().find(|(_, until, _)| *until > of[stopped].begun.max(to));
        let Some((since, until, seen)) = next else {
            undecided += of.len() - stopped;
            break;
        };
        let next = commands.partition_point(|op| op.begun <= *until);
        undecided += next - begins - stopped;
        (begins, state, from) = (next, states.borrow_mut().seen(seen), *since);
    }
    let mut states = states.into_inner();
    for op in ops.iter().filter(is_seen) {
        let segment = |from: u64, to: u64| segments.iter().find(|s| s.from <= from && to <= s.to);
        if let Some(segment) = segment(op.seen_from(), op.over())
            && segment.there(op.seen_from(), op.over()).any(|state| states.shows(state, op))
        {
            continue;
        }
        let (from, to) = window(op, &commands);
        let Some(segment) = segment(from, to) else {
            undecided += 1;
            continue;
        };
        // What was not answered may have happened since the last end, and nobody but who looks has met it.
        let since = segment.last_end(from).min(from);
        let around: Vec<&Op> = commands.iter().copied().filter(|c| c.over() >= since && c.begun <= to).collect();
        let there = states.with(segment.there(from, to).collect(), &around);
        if !there.iter().any(|state| states.shows(*state, op)) {
            return Err(wrong("no state shows", op, &there, &states, &around));
        }
    }
    Ok(undecided)
}

/// Where nothing was under way for so long that a report cannot be late: since when, until when, and what it says.
fn states_that_are_known<'a>(ops: &'a [Op], commands: &[&Op]) -> Vec<(u64, u64, &'a Seen)> {
    // By when all that began before is over.
    let mut over = Vec::with_capacity(commands.len());
    for command in commands {
        over.push(over.last().copied().unwrap_or(0).max(command.over()));
    }
    let known = |op: &'a Op| {
        let What::Report { seen } = &op.what else { return None };
        let (since, until) = (op.begun.checked_sub(LATE_US)?, op.over());
        let before = commands.partition_point(|command| command.begun <= until);
        let is_quiet = before.checked_sub(1).is_none_or(|last| over[last] < since);
        is_quiet.then_some((since, until, seen))
    };
    let mut known: Vec<_> = ops.iter().filter(|op| op.ended.is_some()).filter_map(known).collect();
    known.sort_by_key(|(_, until, _)| *until);
    known
}

/// When the states were that a host may have seen: while its operation went on, and while changes went on that were not answered when it began. Those may be
/// seen by one host and not yet by another; what was answered is seen by all, but for a report, which may be late.
fn window(op: &Op, commands: &[&Op]) -> (u64, u64) {
    let (begun, over) = (op.seen_from(), op.over());
    let changes = || commands.iter().filter(|c| !c.observes());
    let before = changes().filter(|c| c.begun <= begun && c.over() >= begun).map(|c| c.begun).min();
    let after = changes().filter(|c| c.begun <= over && c.over() >= over).map(|c| c.over()).max();
    (before.unwrap_or(begun), after.unwrap_or(over))
}

fn wrong(what: &str, op: &Op, in_states: &BTreeSet<usize>, states: &States, around: &[&Op]) -> String {
    let in_states: Vec<String> = in_states.iter().map(|state| format!("  {:?}", states.all[*state].1)).collect();
    let around: Vec<String> = around.iter().map(|op| format!("  {op:?}")).collect();
    format!("reservations: {what} {op:?}\nof these states:\n{}\nwith these commands:\n{}", in_states.join("\n"), around.join("\n"))
}

fn host_of(number: u64) -> HostId {
    HostId::from_bytes(u128::from(number).to_be_bytes())
}
fn number_of(host: HostId) -> u64 {
    u128::from_be_bytes(*host.as_bytes()) as u64
}

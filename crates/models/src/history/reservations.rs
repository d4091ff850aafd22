//! Whether what reservation commands, reports and fenced reads and writes were answered could have happened one after another.
//!
//! The rules are those of `cluster::reservation`, which has tests of its own: here is judged that they were applied to one state, in an order, by all nodes.

use super::{Op, What, order};
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
    fn step(&mut self, state: usize, op: &Op) -> Option<usize> {
        match &op.what {
            What::Reserve { asked, answer } => {
                let (now, next) = self.after(state, op.host, *asked);
                answer.map_or(next != state, |answer| answer == now).then_some(next)
            }
            What::Report { seen } => (*seen == self.all[state].1).then_some(state),
            What::Access { write, allowed } => {
                let may = self.all[state].0.access(host_of(op.host));
                (*allowed == if *write { may.write } else { may.read }).then_some(state)
            }
            What::Read { .. } | What::Write { .. } => Some(state),
        }
    }
}

/// How many reports were late. The error: what is wrong, in words: the first operation that no order explains.
pub fn judge(ops: &[Op]) -> Result<usize, String> {
    let is_of_them = |op: &&Op| !matches!(op.what, What::Read { .. } | What::Write { .. });
    let mut ops: Vec<&Op> = ops.iter().filter(is_of_them).collect();
    ops.sort_by_key(|op| op.begun);
    let states = RefCell::new(States::new());
    order::search(&ops, 0, |state, op| states.borrow_mut().step(*state, op)).map_err(|(at, impossible)| {
        let around: Vec<String> = ops[at.saturating_sub(12)..(at + 4).min(ops.len())].iter().map(|op| format!("  {op:?}")).collect();
        let impossible: Vec<String> = impossible.iter().map(|state| format!("  {:?}", states.borrow().all[*state].1)).collect();
        format!(
            "reservations: no order explains {:?}\nin any of these states:\n{}\naround it:\n{}",
            ops[at],
            impossible.join("\n"),
            around.join("\n")
        )
    })
}

fn host_of(number: u64) -> HostId {
    HostId::from_bytes(u128::from(number).to_be_bytes())
}
fn number_of(host: HostId) -> u64 {
    u128::from_be_bytes(*host.as_bytes()) as u64
}

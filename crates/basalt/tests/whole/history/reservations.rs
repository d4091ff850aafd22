//! Whether what reservation commands, reports and fenced reads and writes were answered could have happened one after another.
//!
//! The rules are those of `cluster::reservation`, which has tests of its own: here is judged that they were applied to one state, in an order, by all nodes.

use super::{Op, What, order};
use base::HostId;
use cluster::reservation::{Command, Refusal, ReservationType, State};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A reservation command. Types are RTYPE of NVMe base 2.0, figure 530.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    Register { key: u64 },
    Unregister,
    Acquire { key: u64, rtype: u8 },
    Preempt { key: u64, other: u64, rtype: u8 },
    Release { key: u64, rtype: u8 },
    Clear { key: u64 },
}

/// What it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done,
    Conflict,
    InvalidField,
}

/// What a report says: the type, and for each registrant its number, its key, and whether it holds the reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seen {
    pub rtype: u8,
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

/// A state, compared by what hosts see of it.
#[derive(Clone)]
struct Now {
    state: State,
    seen: Seen,
}

impl Now {
    fn of(state: State) -> Self {
        let registrants = state.registrants().iter().map(|(host, key)| (number_of(*host), *key, state.is_holder(*host))).collect();
        let seen = Seen { rtype: state.rtype().map_or(0, |rtype| rtype as u8), registrants };
        Self { state, seen }
    }
    fn after(&self, op: &Op) -> Option<Self> {
        let host = host_of(op.host);
        match &op.what {
            What::Reserve { asked, answer } => {
                let mut next = self.state.clone();
                let now = match next.execute(host, &asked.command()) {
                    Ok(_) => Answer::Done,
                    Err(Refusal::InvalidField) => Answer::InvalidField,
                    Err(_) => Answer::Conflict,
                };
                let next = Self::of(next);
                let fits = answer.map_or_else(|| next.seen != self.seen, |answer| answer == now);
                fits.then_some(next)
            }
            What::Report { seen } => (*seen == self.seen).then(|| self.clone()),
            What::Access { write, allowed } => {
                let may = self.state.access(host);
                (*allowed == if *write { may.write } else { may.read }).then(|| self.clone())
            }
            What::Read { .. } | What::Write { .. } => Some(self.clone()),
        }
    }
}

impl PartialEq for Now {
    fn eq(&self, other: &Self) -> bool {
        self.seen == other.seen
    }
}
impl Eq for Now {}
impl PartialOrd for Now {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Now {
    fn cmp(&self, other: &Self) -> Ordering {
        self.seen.cmp(&other.seen)
    }
}

/// What is wrong, in words: the first operation that no order explains.
pub fn judge(ops: &[Op]) -> Result<(), String> {
    let is_of_them = |op: &&Op| !matches!(op.what, What::Read { .. } | What::Write { .. });
    let mut ops: Vec<&Op> = ops.iter().filter(is_of_them).collect();
    ops.sort_by_key(|op| op.begun);
    order::search(&ops, Now::of(State::default()), |now, op| now.after(op)).map_err(|(at, now)| {
        let around: Vec<String> = ops[at.saturating_sub(8)..(at + 4).min(ops.len())].iter().map(|op| format!("  {op:?}")).collect();
        format!("reservations: no order explains {:?}\nin the state {:?}; around it:\n{}", ops[at], now.seen, around.join("\n"))
    })
}

fn host_of(number: u64) -> HostId {
    HostId::from_bytes(u128::from(number).to_be_bytes())
}
fn number_of(host: HostId) -> u64 {
    u128::from_be_bytes(*host.as_bytes()) as u64
}

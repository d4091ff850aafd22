//! A search for an order of operations that explains what came of them.

use super::Op;
use std::collections::BTreeSet;

/// How far a search has come: the operations that may be next, how many were looked at, the state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<S> {
    looked_at: usize,
    open: Vec<usize>,
    state: S,
}

impl<S> Place<S> {
    /// Takes in all that may have happened before anything else that is open had to be over.
    fn admit(&mut self, ops: &[&Op]) {
        while let Some(op) = ops.get(self.looked_at) {
            let over = self.open.iter().filter_map(|at| ops[*at].ended).min();
            if over.is_some_and(|over| over < op.begun) {
                return;
            }
            self.open.push(self.looked_at);
            self.looked_at += 1;
        }
    }
}

/// Finds an order of `ops`, which are sorted by their beginnings, in which each comes between its beginning and its end. `step` says what state one leads
/// to; `None`: what came of it is not what comes of it there, or, of one without an end, it changes nothing there, so it need not have happened.
/// Gives the number of the first operation that no order explains, with a state that it is impossible in.
pub fn search<S: Ord + Clone>(ops: &[&Op], start: S, step: impl Fn(&S, &Op) -> Option<S>) -> Result<(), (usize, S)> {
    let mut first = Place { looked_at: 0, open: Vec::new(), state: start };
    first.admit(ops);
    let mut furthest = (0, first.state.clone());
    let (mut seen, mut left) = (BTreeSet::from([first.clone()]), vec![first]);
    while let Some(place) = left.pop() {
        let must = place.open.iter().copied().filter(|at| ops[*at].ended.is_some()).min_by_key(|at| ops[*at].ended);
        let Some(must) = must else { return Ok(()) };
        if must >= furthest.0 {
            furthest = (must, place.state.clone());
        }
        // What had to be over first is tried first: it is the last one here.
        let mut nexts = place.open.clone();
        nexts.sort_by_key(|at| std::cmp::Reverse(ops[*at].ended.unwrap_or(u64::MAX)));
        for next in nexts {
            let Some(state) = step(&place.state, ops[next]) else { continue };
            let mut then = Place { state, ..place.clone() };
            then.open.retain(|at| *at != next);
            then.admit(ops);
            if seen.insert(then.clone()) {
                left.push(then);
            }
        }
    }
    Err(furthest)
}

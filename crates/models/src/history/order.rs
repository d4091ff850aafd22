//! A search for an order of operations that explains what came of them.
//!
//! ```text
//!  beginnings and ends, as they follow in time ──► ways that it may have gone so far ──end of an operation──► those on which it has happened
//! ```
//!
//! An operation is placed only when another one, or its own end, needs it (G. Lowe, *Testing for linearizability*, 2017); one that only observes as soon as it
//! fits. Of two ways to the same state the one that has needed less of what may never have happened is enough.

use super::{HAPPENS_WITHIN_US, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Ways that are followed at once: with more it is undecided.
pub const WAYS_MAX: usize = 10_000;

/// What a search has found.
pub struct Found<S> {
    /// The ends of operations, as they follow in time; the first is the start.
    pub ends: Vec<End<S>>,
    /// The operation from which on there are too many ways to follow.
    pub undecided: Option<usize>,
}

/// The end of an operation, and the states that there may have been.
pub struct End<S> {
    /// When.
    pub time: u64,
    /// Since the end before, and right after this one.
    pub until: BTreeSet<S>,
    /// Right after this one.
    pub after: BTreeSet<S>,
}

/// A way that it may have gone: the state, the operations that have begun and have not happened on it; and of those without an end, which need not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Way<S> {
    state: S,
    open: Vec<usize>,
}

/// The ways that there are, each with what is left of the operations without an end.
struct Ways<S>(BTreeMap<Way<S>, Vec<Vec<usize>>>, usize);

impl<S: Ord + Clone> Ways<S> {
    /// Whether it is new: no other one has as much left.
    fn add(&mut self, way: Way<S>, left: Vec<usize>) -> bool {
        let has_all = |more: &[usize], less: &[usize]| less.iter().all(|at| more.binary_search(at).is_ok());
        let known = self.0.entry(way).or_default();
        if known.iter().any(|more| has_all(more, &left)) {
            return false;
        }
        self.1 = self.1 + 1 - known.iter().filter(|less| has_all(&left, less)).count();
        known.retain(|less| !has_all(&left, less));
        known.push(left);
        true
    }
    fn all(self) -> impl Iterator<Item = (Way<S>, Vec<usize>)> {
        self.0.into_iter().flat_map(|(way, lefts)| lefts.into_iter().map(move |left| (way.clone(), left)))
    }
}

/// Finds an order of `ops` in which each comes between its beginning and its end. `step` says what state one leads to; `None`: what came of it is not what
/// comes of it there, or, of one without an end, it changes nothing there, so it need not have happened. `ways_max`: usually [`WAYS_MAX`]. The error: the first operation that no order
/// explains, with the states that it is impossible in.
pub fn search<S: Ord + Clone>(
    ops: &[&Op],
    ways_max: usize,
    start: S,
    step: impl Fn(&S, &Op) -> Option<S>,
) -> Result<Found<S>, (usize, BTreeSet<S>)> {
    let fits = |state: &S, at: usize| ops[at].observes() && step(state, ops[at]).is_some();
    // At one time beginnings come first.
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        events.push((op.begun, false, at));
        events.extend(op.ended.map(|ended| (ended, true, at)));
    }
    events.sort_unstable();
    let first = BTreeSet::from([start.clone()]);
    let mut found = Found { ends: vec![End { time: 0, until: first.clone(), after: first }], undecided: None };
    let mut ways: Vec<(Way<S>, Vec<usize>)> = vec![(Way { state: start, open: Vec::new() }, Vec::new())];
    for (time, is_end, at) in events {
        // What has not happened by now does not. It may have happened before, and nobody has needed it until now.
        let is_past = |at: &usize| ops[*at].begun + HAPPENS_WITHIN_US < time;
        if ways.iter().any(|(_, left)| left.iter().any(is_past)) {
            let mut all = Ways(BTreeMap::new(), 0);
            while let Some((way, left)) = ways.pop() {
                if all.1 >= ways_max {
                    found.undecided = Some(at);
                    return Ok(found);
                }
                if all.add(way.clone(), left.clone()) && left.iter().any(is_past) {
                    for next in &left {
                        let Some(state) = step(&way.state, ops[*next]) else { continue };
                        let mut then = Way { state, open: way.open.clone() };
                        then.open.retain(|at| !fits(&then.state, *at));
                        ways.push((then, left.iter().copied().filter(|at| at != next).collect()));
                    }
                }
            }
            ways = all.all().collect();
            ways.iter_mut().for_each(|(_, left)| left.retain(|at| !is_past(at)));
        }
        if !is_end {
            for (way, left) in &mut ways {
                if fits(&way.state, at) {
                    continue;
                }
                if ops[at].ended.is_some() { way.open.push(at) } else { left.push(at) }
            }
            continue;
        }
        let (mut seen, mut done) = (Ways(BTreeMap::new(), 0), Ways(BTreeMap::new(), 0));
        let mut until: BTreeSet<S> = ways.iter().map(|(way, _)| way.state.clone()).collect();
        while let Some((way, left)) = ways.pop() {
            if !way.open.contains(&at) {
                done.add(way, left);
                continue;
            }
            // Of two that are alike the earlier one goes first.
            let is_first = |(at, next): &(usize, &usize)| !left[..*at].iter().any(|other| ops[*other].is_like(ops[**next]));
            let left_nexts = left.iter().enumerate().filter(is_first).map(|(_, next)| next);
            for next in way.open.iter().chain(left_nexts).copied() {
                let Some(state) = step(&way.state, ops[next]) else { continue };
                let without = |list: &[usize]| list.iter().copied().filter(|at| *at != next).collect::<Vec<_>>();
                until.insert(state.clone());
                let (mut then, then_left) = (Way { state, open: without(&way.open) }, without(&left));
                then.open.retain(|at| !fits(&then.state, *at));
                if seen.add(then.clone(), then_left.clone()) {
                    ways.push((then, then_left));
                }
                if seen.1 >= ways_max {
                    found.undecided = Some(at);
                    return Ok(found);
                }
            }
        }
        ways = done.all().collect();
        if ways.is_empty() {
            return Err((at, until));
        }
        found.ends.push(End { time, until, after: ways.iter().map(|(way, _)| way.state.clone()).collect() });
    }
    Ok(found)
}

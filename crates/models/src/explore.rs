//! Looks at every state of a model, the nearest first: so the first trace that breaks something is a shortest one.
//!
//! Owns: [`explore`], [`Found`].
//! Invariant: each state is looked at once. States are known by a hash of 64 bits: among ten million the chance that two are taken for
//! one is below 1 in 300,000.
//! Never: knows what a state means.

use core::fmt::{self, Debug};
use core::hash::{BuildHasher, Hash};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// What a model breaks: one of its invariants, by name.
pub type Broken = &'static str;

/// A model: states, and actions that lead from one to the next.
pub trait Model {
    /// A state.
    type State: Clone + Hash + Eq;
    /// Something that happens.
    type Action: Copy + Debug;
    /// The first state.
    fn first(&self) -> Self::State;
    /// All that can happen in a state.
    fn actions(&self, state: &Self::State, out: &mut Vec<Self::Action>);
    /// What a state becomes by it.
    ///
    /// # Errors
    /// The invariant that breaks.
    fn apply(&self, state: &Self::State, action: Self::Action) -> Result<Self::State, Broken>;
    /// Knows a state again. The same for states that differ only in names.
    fn fingerprint(&self, state: &Self::State) -> u64 {
        fingerprint(state)
    }
    /// Whether this state is one that the goal names (see [`Found::goals`]).
    fn is_goal(&self, _: &Self::State) -> bool {
        false
    }
}

/// What was found.
#[derive(Debug)]
pub struct Found<A> {
    /// States looked at.
    pub states: usize,
    /// Steps from the first state to the farthest.
    pub depth: usize,
    /// States that are goals: a model in which nothing can be reached proves nothing.
    pub goals: usize,
    /// All states within the bounds were seen.
    pub complete: bool,
    /// What is broken, and how it came to that.
    pub broken: Option<(Broken, Vec<A>)>,
}

impl<A: Debug> fmt::Display for Found<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, depth, goals, complete, broken } = self;
        write!(f, "{states} states, depth {depth}, {goals} goals{}", if *complete { "" } else { ", NOT ALL" })?;
        if let Some((what, trace)) = broken {
            write!(f, "\nBROKEN: {what}, in {} steps", trace.len())?;
            for (n, action) in trace.iter().enumerate() {
                write!(f, "\n  {:2}. {action:?}", n + 1)?;
            }
        }
        Ok(())
    }
}

/// A hash that is the same in every run.
pub fn fingerprint(state: &impl Hash) -> u64 {
    FixedState::with_seed(0xba5a17).hash_one(state)
}

/// Looks at up to `states_max` states. `only`: what breaks anything else is not followed.
pub fn explore<M: Model>(model: &M, states_max: usize, only: Option<Broken>) -> Found<M::Action> {
    let first = model.first();
    let mut parents: HashMap<u64, u64, FixedState> = HashMap::default();
    parents.insert(model.fingerprint(&first), 0);
    let mut goals = usize::from(model.is_goal(&first));
    let (mut level, mut depth, mut actions) = (vec![first], 0, Vec::new());
    loop {
        let mut next = Vec::new();
        for state in &level {
            let of = model.fingerprint(state);
            actions.clear();
            model.actions(state, &mut actions);
            for &action in &actions {
                let after = match model.apply(state, action) {
                    Ok(after) => after,
                    Err(what) if only.is_some_and(|only| only != what) => continue,
                    Err(what) => {
                        let mut trace = trace_to(model, &parents, of);
                        trace.push(action);
                        let broken = Some((what, trace));
                        return Found { states: parents.len(), depth: depth + 1, goals, complete: false, broken };
                    }
                };
                let print = model.fingerprint(&after);
                if !parents.contains_key(&print) {
                    parents.insert(print, of);
                    goals += usize::from(model.is_goal(&after));
                    next.push(after);
                }
            }
        }
        let complete = next.is_empty();
        if complete || parents.len() >= states_max {
            return Found { states: parents.len(), depth, goals, complete, broken: None };
        }
        (level, depth) = (next, depth + 1);
    }
}

/// The actions that lead from the first state to the one with this fingerprint.
fn trace_to<M: Model>(model: &M, parents: &HashMap<u64, u64, FixedState>, to: u64) -> Vec<M::Action> {
    let mut prints = vec![to];
    while let Some(&parent) = parents.get(prints.last().expect("one at least")).filter(|&&parent| parent != 0) {
        prints.push(parent);
    }
    let (mut state, mut trace, mut actions) = (model.first(), Vec::new(), Vec::new());
    for &print in prints.iter().rev().skip(1) {
        actions.clear();
        model.actions(&state, &mut actions);
        let step = actions.iter().find_map(|&action| {
            let after = model.apply(&state, action).ok()?;
            (model.fingerprint(&after) == print).then_some((action, after))
        });
        let Some((action, after)) = step else { break };
        trace.push(action);
        state = after;
    }
    trace
}

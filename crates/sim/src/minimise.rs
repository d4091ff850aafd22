//! Makes a failing run small: leaves out what the failure does not need.
//!
//! Owns: the order in which cuts are tried. Invariant: the result fails. Never: takes a change of the kind of failure for the same failure.

use crate::history::{Failure, RunOptions, run};
use crate::plan::{Cuts, OpKind, Plan};

/// The first words of a failure, without its numbers: what kind it is.
fn kind_of(failure: &Failure) -> String {
    let line = failure.what.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

/// The smallest cuts found with which the seed still fails the same way, and how; `None` when it does not fail at all.
pub fn minimise(seed: u64, mut reported: impl FnMut(&Cuts)) -> Option<(Cuts, Failure)> {
    let fails = |cuts: &Cuts| run(seed, &RunOptions { cuts: cuts.clone(), whole_trace: false }).err();
    let mut failure = fails(&Cuts::default())?;
    let kind = kind_of(&failure);
    let mut best = Cuts::default();
    let plan = Plan::draw(seed);
    let mut try_cut = |cuts: Cuts, best: &mut Cuts| match fails(&cuts) {
        Some(now) if kind_of(&now) == kind => {
            (*best, failure) = (cuts, now);
            reported(best);
            true
        }
        _ => false,
    };
    for lives in 0..plan.lives.len() {
        if try_cut(Cuts { lives: Some(lives), ..best.clone() }, &mut best) {
            break;
        }
    }
    for clients in 1..plan.clients.len() {
        if try_cut(Cuts { clients: Some(clients), ..best.clone() }, &mut best) {
            break;
        }
    }
    if plan.clients.iter().any(|c| c.iscsi) {
        try_cut(Cuts { nvme: true, ..best.clone() }, &mut best);
    }
    for fault in 0..plan.faults() {
        let mut cuts = best.clone();
        cuts.without_faults.push(fault);
        try_cut(cuts, &mut best);
    }
    for kind in OpKind::all() {
        let mut cuts = best.clone();
        cuts.without.push(kind.name());
        try_cut(cuts, &mut best);
    }
    for depth in [1, 2, 4, 8] {
        if try_cut(Cuts { depth: Some(depth), ..best.clone() }, &mut best) {
            break;
        }
    }
    for acts in [0, 1, 2, 4] {
        if try_cut(Cuts { acts: Some(acts), ..best.clone() }, &mut best) {
            break;
        }
    }
    // So many operations in each life: fewer by halves, then by tenths.
    let mut ops = plan.lives.iter().map(|l| l.ops).max().unwrap_or(0);
    let mut step = ops / 2;
    while step > 0 {
        if ops > step && try_cut(Cuts { ops: Some(ops - step), ..best.clone() }, &mut best) {
            ops -= step;
        } else {
            step /= 2;
        }
    }
    Some((best, failure))
}

//! Each rule that is taken out breaks something.

use super::*;
use crate::explore::explore;

/// More than the largest counterexample needs.
const STATES_MAX: usize = 200_000;

#[test]
fn each_rule_that_is_left_out_breaks_a_promise() {
    for &(rule, bounds, broken) in bounds::NEEDED {
        let found = explore(&Replicas(bounds.without(rule)), STATES_MAX, Some(broken));
        println!("{rule:?}, in {}: {found}\n", bounds.name);
        assert_eq!(found.broken.map(|(what, _)| what), Some(broken), "{rule:?} is not needed");
    }
}

#[test]
fn no_rule_is_forgotten() {
    for (n, (rule, ..)) in bounds::NEEDED.iter().enumerate() {
        assert_eq!(*rule as usize, n, "{rule:?}: in the order of their list, and each once");
    }
    assert_eq!(bounds::NEEDED.len(), Rule::HeardCopyIsStill as usize + 1);
}

/// Two owners are noticed before what a host sees of them; this looks on.
#[test]
fn a_host_that_reads_what_was_overwritten_is_noticed() {
    let found = explore(&Replicas(bounds::GRANTS.without(Rule::AcceptAfterGrants)), STATES_MAX, Some(monitor::NOT_LINEAR));
    println!("{found}");
    assert_eq!(found.broken.map(|(what, _)| what), Some(monitor::NOT_LINEAR));
}

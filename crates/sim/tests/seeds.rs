//! A few seeds, so that `cargo test` notices when the simulator or what it tests is broken. Campaigns are run by `basalt-sim`.

use sim::campaign::{CampaignOptions, Sums, campaign};
use sim::history::{RunOptions, run};
use sim::nodes;
use std::ops::Range;

fn play(seeds: Range<u64>, fault: Option<&str>) -> Sums {
    let fault = fault.map(str::to_owned);
    let sums = campaign(&CampaignOptions {
        seeds,
        limit: None,
        nodes: false,
        threads: 2,
        twice_every: 0,
        failures_max: 1,
        fault,
        progress: false,
    });
    // A campaign keeps panics for its reports; those of a test are to be printed.
    drop(std::panic::take_hook());
    sums
}

#[test]
fn a_seed_means_the_same_run_each_time() {
    for seed in [3, 14] {
        let [a, b] = [0, 1].map(|_| run(seed, &RunOptions::default()).unwrap_or_else(|f| panic!("seed {seed}: {}", f.what)));
        assert_eq!((a.hash, a.virtual_ns, a.counts.ops), (b.hash, b.virtual_ns, b.counts.ops), "seed {seed}");
    }
}

#[test]
fn a_seed_of_several_nodes_means_the_same_run_each_time() {
    for seed in [3, 14] {
        let [a, b] = [0, 1].map(|_| nodes::run::run(seed, false).unwrap_or_else(|f| panic!("seed {seed}: {}", f.what)));
        assert_eq!((a.hash, a.virtual_ns, a.counts.ops), (b.hash, b.virtual_ns, b.counts.ops), "seed {seed}");
    }
}

#[test]
fn twenty_seeds_are_right() {
    let sums = play(0..20, None);
    assert!(sums.failures.is_empty(), "{:#?}", sums.failures);
    assert!(sums.seeds == 20 && sums.operations() > 1000 && sums.crashes > 0, "they do something: {sums:?}");
}

#[cfg(feature = "hooks")]
#[test]
fn a_seeded_fault_is_found_where_nothing_is_wrong_without_it() {
    let found = play(0..50, Some("VolatileBatch"));
    let (&seed, what) = found.failures.first_key_value().expect("lost batches are noticed within 50 seeds");
    assert!(run(seed, &RunOptions::default()).is_ok(), "seed {seed} fails without the bug too: {what}");
}

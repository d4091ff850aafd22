//! Several nodes with nothing that disturbs, or with one thing.

use super::plan::{NodeEvent, NodesPlan};
use super::run::{run, run_plan};

#[test]
fn what_is_written_through_one_node_is_read_through_another() {
    let report = run_plan(&NodesPlan::two(1), false).unwrap_or_else(|f| panic!("{}", f.what));
    assert!(report.counts.blocks_read > 1_000, "{:?}", report.counts);
    let plan = NodesPlan { client_at: vec![1, 1], owners: vec![0, 0], ..NodesPlan::two(2) };
    run_plan(&plan, false).unwrap_or_else(|f| panic!("{}", f.what));
}

#[test]
fn links_that_are_cut_and_healed_lose_nothing() {
    for (seed, both) in [(3, true), (4, false)] {
        let cut = NodeEvent::Cut { from: 0, to: 1, both, for_ns: 900_000_000 };
        let plan = NodesPlan { events: vec![(3_000_000, cut)], ..NodesPlan::two(seed) };
        run_plan(&plan, false).unwrap_or_else(|f| panic!("{}", f.what));
    }
}

/// `NODES_SEEDS=0..500 cargo test -p sim nodes::tests::seeds` plays more.
#[test]
fn seeds_are_right() {
    let seeds = std::env::var("NODES_SEEDS").unwrap_or_else(|_| "0..12".into());
    let (first, end) = seeds.split_once("..").expect("FIRST..END");
    let wrong: Vec<_> =
        (first.parse().unwrap()..end.parse::<u64>().unwrap()).filter_map(|seed| Some((seed, run(seed, false).err()?))).collect();
    if let Some((seed, failure)) = wrong.first() {
        panic!("{:?} are wrong; {seed}: {}", wrong.iter().map(|w| w.0).collect::<Vec<_>>(), failure.what);
    }
}

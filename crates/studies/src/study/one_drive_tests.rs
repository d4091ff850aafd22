//! The study's fixtures fit on its drive, and its sentences name every cut.

use super::super::cache_tier::tests::Quiet;
use super::*;

#[test]
fn every_cut_fits_on_the_drive() {
    for (groups, capacity) in CUTS {
        for design in [Design::Ours, Design::OneThread] {
            fixture(groups, capacity).cluster(design, &Options::default()).check("fixture").unwrap();
        }
    }
    assert_eq!(devices(3, 7), "24");
}

#[test]
fn without_cases_the_sentences_say_nothing_was_reached() {
    let says = verdict(&[]);
    assert_eq!(says.len(), 4);
    assert!(says[0].contains("Basalt 0, 0, 0, 0"), "{says:?}");
}

#[test]
fn the_shortest_study_still_sees_its_slowest_operations_end() {
    let options = Options { rate: Some(8.0), size: Some(400.0), time: 0.01, ..Options::default() };
    let load = Workload::simple(LARGE, 128 << 10, 1.0, Access::Sequential { shared: false }, 1);
    let pairs = [("devices", "2"), ("groups", "1")];
    let cases = fixture(1, 1).run(Design::OneThread, &[load], &pairs, &options, &mut Quiet).unwrap();
    assert!(cases[0].reads.operations > 100 && cases[0].total().errors == 0, "{:?}", cases[0].reads.operations);
}

//! Two layouts of the study at a tiny scale, and its sentences.

use super::super::cache_tier::tests::Quiet;
use super::*;

#[test]
fn one_capacity_namespace_is_as_good_as_seven_and_a_core_for_a_group_is_less() {
    let options = Options { rate: Some(16.0), size: Some(80.0), time: 0.2, ..Options::default() };
    let reads = &loads()[..1];
    let mut cases = Vec::new();
    for (layout, capacity, gib, design) in
        [("1+1", 1, 6400.0, Design::Ours), ("1+7", 7, 6475.0, Design::Ours), ("1+1", 1, 6400.0, Design::OneThread)]
    {
        let pairs = [("layout", layout), ("groups", "1")];
        cases.extend(fixture(1, capacity, gib).run(design, reads, &pairs, &options, &mut Quiet).unwrap());
    }
    let (one, seven, thread) = (cases[0].iops(), cases[1].iops(), cases[2].iops());
    assert!((seven / one - 1.0).abs() < SAME, "{one} and {seven}");
    assert!(thread < one * 0.5, "{thread} with one thread, {one} on all cores");
    let says = verdict(&cases);
    assert!(says[0].starts_with("Basalt does not need the cut"), "{says:?}");
}

#[test]
fn the_published_table_is_there_with_what_does_not_agree_in_it() {
    let figures = figures();
    assert_eq!(figures.len(), 4 * 3 * 3 + 4 * 3);
    assert!(figures.iter().all(|f| f.other_hardware), "one modelled drive is not divided by twelve");
    let none = figures.iter().filter(|f| f.labels[0].1 == "no namespaces");
    assert!(none.clone().count() == 12 && none.clone().all(|f| f.remark.contains("does not agree with itself")));
}

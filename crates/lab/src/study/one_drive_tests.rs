//! The study's beds fit on its drive, and its sentences name every cut.

use super::*;

#[test]
fn every_cut_fits_on_the_drive() {
    for (groups, capacity) in CUTS {
        for design in [Design::Ours, Design::OneThread] {
            bed(groups, capacity).cluster(design, &Options::default()).check("bed").unwrap();
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

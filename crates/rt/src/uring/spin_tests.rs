use super::WaitsFor::{Devices, Others};
use super::*;

const MAX: Duration = Duration::from_micros(50);

#[test]
fn long_sleeps_end_the_spinning_and_short_ones_bring_it_back() {
    let mut s = Limit::new(MAX);
    s.slept(200_000_000);
    assert_eq!(s.ns, 0, "an idle core does not spin");
    s.slept(1_000);
    assert_eq!(s.ns, SPIN_NS_START);
    s.slept(20_000);
    assert_eq!(s.ns, 40_000, "gaps of 20 us are bridged");
    s.slept(45_000);
    assert_eq!(s.ns, 50_000, "and never more than the most");
}

#[test]
fn a_sleep_a_little_too_long_shrinks_the_limit_and_many_end_it() {
    let mut s = Limit::new(MAX);
    s.slept(60_000);
    assert_eq!(s.ns, 25_000);
    s.slept(30_000);
    assert_eq!(s.ns, 50_000);
    for _ in 0..3 {
        s.slept(400_000);
    }
    assert_eq!(s.ns, 0);
}

#[test]
fn a_sleep_within_the_limit_changes_nothing() {
    let mut s = Limit::new(MAX);
    s.slept(10_000);
    assert_eq!(s.ns, 50_000);
}

#[test]
fn a_core_whose_processor_others_want_does_not_spin_for_a_while() {
    let mut s = Spin::new(MAX, MAX);
    assert!(s.goes_on(Others, 0, 299_999, 10_000_000));
    assert!(s.goes_on(Others, 0, 3_000_000, 12_000_000), "an idle turn of 3 ms may have been the hypervisor");
    assert!(!s.goes_on(Others, 0, 3_000_000, 15_000_000), "two of them mean that another thread wants to run");
    assert!(!s.goes_on(Others, 0, 300, 34_999_999));
    assert!(s.goes_on(Others, 0, 300, 35_000_000));
}

#[test]
fn long_turns_far_apart_do_not_end_the_spinning() {
    let mut s = Spin::new(MAX, MAX);
    for n in 0..10 {
        for _ in 0..SHARED_TURNS {
            assert!(s.goes_on(Others, 0, 300, n * 1_000_000));
        }
        assert!(s.goes_on(Others, 0, 1_000_000, n * 1_000_000));
    }
}

#[test]
fn disks_and_others_are_waited_for_each_with_its_limit() {
    let mut s = Spin::new(Duration::from_micros(250), MAX);
    assert!(s.goes_on(Devices, 249_999, 300, 1) && s.goes_on(Others, 49_999, 300, 1));
    assert!(!s.goes_on(Devices, 250_000, 300, 1) && !s.goes_on(Others, 50_000, 300, 1));
    s.slept(Others, 200_000_000);
    assert!(s.goes_on(Devices, 0, 300, 1) && !s.goes_on(Others, 0, 300, 1), "hosts that are silent say nothing of disks");
}

#[test]
fn no_spinning_at_all_can_be_asked_for() {
    let mut s = Spin::new(Duration::ZERO, Duration::ZERO);
    for w in [Devices, Others] {
        s.slept(w, 0);
        s.slept(w, 5_000);
        assert!(!s.goes_on(w, 0, 300, 1));
    }
}

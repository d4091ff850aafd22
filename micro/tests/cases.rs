//! Each case runs to its end, so that none of them rots. Figures come from `scripts/micro`.

#[test]
fn every_case_does_its_operations() {
    for case in micro::cases() {
        case.run(2);
        assert!(case.times > 2, "{}: no figure comes from so few", case.name);
    }
}

#[test]
fn no_two_cases_have_one_name() {
    let names: std::collections::BTreeSet<&str> = micro::cases().iter().map(|c| c.name).collect();
    assert_eq!(names.len(), micro::cases().len());
}

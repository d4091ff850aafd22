use super::{WorkingSet, axis, seconds, working_set};
use lab::run::Parameter;

#[test]
fn times_read_as_people_write_them() {
    assert_eq!(["90", "90s", "1.5m", "2h", "250ms"].map(|t| seconds(t).unwrap()), [90.0, 90.0, 90.0, 7200.0, 0.25]);
    for bad in ["", "s", "5d", "-3s", "inf", "NaN"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
}

#[test]
fn parameters_of_a_sweep_are_named() {
    let a = axis("bytes=4KiB,64KiB").unwrap();
    assert_eq!((a.parameter, a.values), (Parameter::Bytes, vec![4096.0, 65536.0]));
    assert!(axis("depht=1").unwrap_err().contains("depth, bytes"));
    assert!(axis("depth").is_err() && axis("depth=x").is_err());
}

#[test]
fn a_working_set_is_a_part_or_bytes() {
    assert_eq!(["50", "50 %", "0.5%"].map(|t| working_set(t).unwrap()), [50.0, 50.0, 0.5].map(WorkingSet::Percent));
    assert_eq!(["4GiB", "8k", "4096b"].map(|t| working_set(t).unwrap()), [4 << 30, 8 << 10, 4096].map(WorkingSet::Bytes));
    for bad in ["", "0", "101", "-5", "NaN", "0GiB", "5000b", "4XB", "much"] {
        let e = working_set(bad).unwrap_err();
        assert!(e.contains("4GiB") || e.contains("multiple of 4096"), "{bad}: {e}");
    }
}

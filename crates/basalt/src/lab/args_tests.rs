use super::{axis, seconds};
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

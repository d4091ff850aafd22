use super::seconds;

#[test]
fn times_read_as_people_write_them() {
    assert_eq!(["90", "90s", "1.5m", "2h", "250ms"].map(|t| seconds(t).unwrap()), [90.0, 90.0, 90.0, 7200.0, 0.25]);
    for bad in ["", "s", "5d", "-3s", "inf", "NaN"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
}

use super::*;

#[test]
fn figures_read_as_people_write_them() {
    assert_eq!([1_234_567.0, 999.6, 12.34, 0.567].map(number), ["1,234,567", "1,000", "12.3", "0.57"]);
    assert_eq!([1500.0, 2.5e6, 3e9].map(time), ["1.50 µs", "2.50 ms", "3.00 s"]);
}

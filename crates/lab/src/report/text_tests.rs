use super::*;

#[test]
fn numbers_keep_three_digits_and_part_thousands() {
    assert_eq!(number(1_234_567.4), "1,234,567");
    assert_eq!(number(123.4), "123");
    assert_eq!(number(12.34), "12.3");
    assert_eq!(number(1.234), "1.23");
    assert_eq!(number(0.001234), "0.00123");
    assert_eq!(number(-4321.0), "-4,321");
    assert_eq!(number(0.0), "0");
    assert_eq!(number(f64::NAN), "–");
    assert_eq!([1_234_567.0, 168_500.0, 400.0].map(rounded), ["1,235,000", "169,000", "0"]);
}

#[test]
fn times_have_the_unit_that_fits() {
    assert_eq!(latency(87.0), "87.0 µs");
    assert_eq!(latency(1_540.0), "1.54 ms");
    assert_eq!(latency(2_000_000.0), "2.00 s");
    assert_eq!(duration(5.0), "5 s");
    assert_eq!(duration(90.0), "1 min 30 s");
    assert_eq!(duration(3_900.0), "1 h 5 min");
}

#[test]
fn dates_are_those_of_the_calendar() {
    assert_eq!(date(0), "1970-01-01 00:00 UTC");
    assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(date(1_795_335_780), "2026-11-22 08:23 UTC");
}

#[test]
fn what_turns_or_controls_is_replaced() {
    assert_eq!(line("a\u{202e}b\u{1b}[31m\nc"), "a\u{fffd}b\u{fffd}[31m\u{fffd}c");
    assert_eq!(lines("a\r\n\tb\0"), "a\n\tb\u{fffd}");
}

#[test]
fn parameters_with_units_are_numbers_and_names_are_not() {
    assert_eq!(parameter("4 KiB"), Some(4096.0));
    assert_eq!(parameter("70 %"), Some(70.0));
    assert_eq!(parameter("32"), Some(32.0));
    assert_eq!(parameter("1+4"), None);
    assert_eq!(parameter("nand"), None);
    assert_eq!(parameter(""), None);
}

#[test]
fn bytes_have_the_unit_that_fits() {
    assert_eq!(bytes(512.0), "512 bytes");
    assert_eq!(bytes(4096.0), "4 KiB");
    assert_eq!(bytes(1.5 * 1024.0 * 1024.0 * 1024.0), "1.50 GiB");
}

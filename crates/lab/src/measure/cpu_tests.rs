use super::*;

#[test]
fn stat_is_read_whatever_the_name_is() {
    let stat = "12 (a) b (c) S 1 12 12 0 -1 4194304 100 0 0 0 250 150 7 8 20 0 1 0 100 0 0";
    assert_eq!(parse(stat), Some(4.0));
    assert_eq!(parse("12 (x) S 1"), None);
}

#[test]
fn our_own_time_grows_and_is_what_proc_says() {
    let me = Process::new(std::process::id());
    let before = own();
    let mut x = 1u64;
    while own() - before < Duration::from_millis(50) {
        x = std::hint::black_box(x.wrapping_mul(3));
    }
    let said = me.seconds().unwrap();
    assert!((said - own().as_secs_f64()).abs() < 0.1, "{said}");
    assert_eq!(Process::new(u32::MAX).seconds(), None);
}

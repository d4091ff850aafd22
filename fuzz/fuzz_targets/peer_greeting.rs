//! libFuzzer's entry to `fuzz::greeting::greeting`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::greeting::greeting(data));

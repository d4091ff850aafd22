//! libFuzzer's entry to `fuzz::session::session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::session::session(data));

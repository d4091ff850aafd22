//! libFuzzer's entry to `fuzz::connection::connection`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::connection::connection(data));

//! libFuzzer's entry to `fuzz::api::api`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::api::api(data));

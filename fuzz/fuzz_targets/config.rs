//! libFuzzer's entry to `fuzz::text::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text::config(data));

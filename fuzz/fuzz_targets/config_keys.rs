//! libFuzzer's entry to `fuzz::text::config_keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text::config_keys(data));

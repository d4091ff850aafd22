//! libFuzzer's entry to `fuzz::text::auth_secret`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text::auth_secret(data));

//! libFuzzer's entry to `fuzz::text::join_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text::join_token(data));

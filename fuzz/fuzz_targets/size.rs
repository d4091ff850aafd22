//! libFuzzer's entry to `fuzz::text::size`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text::size(data));

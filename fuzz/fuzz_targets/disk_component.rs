//! libFuzzer's entry to `fuzz::disk::component`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::component(data));

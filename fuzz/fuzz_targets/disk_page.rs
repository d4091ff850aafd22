//! libFuzzer's entry to `fuzz::disk::page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::page(data));

//! libFuzzer's entry to `fuzz::disk::batch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::batch(data));

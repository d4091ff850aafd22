//! libFuzzer's entry to `fuzz::disk::summary`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::summary(data));

//! libFuzzer's entry to `fuzz::disk::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::segment(data));

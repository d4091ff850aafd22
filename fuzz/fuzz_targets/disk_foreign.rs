//! libFuzzer's entry to `fuzz::disk::foreign`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::foreign(data));

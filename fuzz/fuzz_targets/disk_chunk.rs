//! libFuzzer's entry to `fuzz::disk::chunk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::chunk(data));

//! libFuzzer's entry to `fuzz::disk::descriptor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::descriptor(data));

//! libFuzzer's entry to `fuzz::nvme::reservation`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nvme::reservation(data));

//! libFuzzer's entry to `fuzz::nvme::connect`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nvme::connect(data));
